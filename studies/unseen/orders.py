"""Estimates of the time that order candidates, against the simulation with real packets."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from numpy.typing import NDArray

import toruscast as tc
from toruscast._features import RoutedTraffic
from toruscast.decision import Budget
from toruscast.decision.loop import Decision, decide
from toruscast.decision.ranking import describe_candidates
from toruscast.decision.simulations import HOPS_PER_SECOND, mean_hops
from toruscast.training import rcc, rcc_told_apart, regret
from toruscast.training.default_model import load_default

from ..study import Findings, Inputs, Target
from .graphs import KINDS, draw

Floats = NDArray[np.float64]
SEED = 50
MAPPINGS = 12
# Packet-hops of one simulation at most; about a second.
MOST_HOPS = 4e6
HOSTS = ("8x8x4", "4x4x16", "4x4x4x2x2", "4x4x4x4x2", "8x8x8", "16x16", "tpu_v4:4x4x8:twisted")
PACKETS = (1.0, 4.0, 24.0, 64.0, 256.0)
LONG = 24.0
LEARNED = ("unstructured mesh", "multigrid", "transposes", "octree", "sharded model")
"""Kinds of which the default model learned from other graphs (`tools/train_default.py`)."""
A_MESSAGE = 16
"""Packets of a message that are left when packets are merged by length."""
BOUND, MODEL = "release bound", "default model"
COARSEST = 64
OF_BOUND = 0.3
"""Share of the release bound beside the time with `COARSEST` packets in one."""
MIXED = f"{COARSEST} packets in one and release bound"
BY_LENGTH = f"{A_MESSAGE} packets a message"
SHARES = {0.1: "a tenth of the packet-hops", 0.2: "a fifth", 0.4: "two fifths"}
"""Parts of the packet-hops of all simulations that an order may take."""
SCORES = ("rcc", "rcc_1", "rcc_5", "regret", "off", "held", "factor")


@dataclass(frozen=True)
class Case:
    """An application on a torus, with candidates."""

    name: str
    workload: tc.Workload
    torus: tc.Torus
    mappings: tuple[tc.TaskMapping, ...]
    routing: tc.Routing
    packets: float

    @property
    def problem(self) -> tc.MappingProblem:
        """The problem on the described network, because that is simulated for comparison."""
        known = self.torus.with_network(unknown_rules=())
        return tc.MappingProblem(self.workload, known, self.routing)


def cases() -> list[Case]:
    """Draw the applications: short and long messages, adaptive ones, and three dependent rounds."""
    found = []
    for number, kind in enumerate(KINDS):
        for turn in range(5):
            rng = np.random.default_rng([SEED, number, turn])
            torus = tc.torus(HOSTS[(number + 3 * turn) % len(HOSTS)])
            packets = PACKETS[(number + turn) % len(PACKETS)]
            routing: tc.Routing = "adaptive" if turn == 3 and not torus.twist else "deterministic"
            n, payload, is_rounds = torus.n_nodes, torus.network.payload, turn == 4
            phases = [draw(kind, n, payload, packets, rng) for _ in range(3 if is_rounds else 1)]
            workload = tc.Workload(phases, dependent=is_rounds)
            mappings = tuple(tc.strategies.sample(workload, torus, n=MAPPINGS, seed=turn))
            hops = RoutedTraffic(tc.MappingProblem(workload, torus), mappings[-1]).packet_hops
            if hops <= MOST_HOPS:
                how = "dependent rounds" if is_rounds else routing
                name = f"{kind}, {torus}, {packets:g} packets, {how}"
                found.append(Case(name, workload, torus, mappings, routing, packets))
    return found


def group_of(case: Case) -> str:
    """Return how the application sends."""
    if case.workload.dependent or case.routing == "adaptive":
        return "rounds" if case.workload.dependent else "adaptive"
    return "long" if case.packets >= LONG else "short"


def computed(case: Case, what: str, coarsening: int | None = None) -> Floats:
    """Return what the traffic of each candidate gives, with so many packets in one."""
    every = (RoutedTraffic(case.problem, each, coarsening) for each in case.mappings)
    return np.array([attrgetter(what)(each) for each in every])


def simulated(case: Case, coarsening: int) -> Floats:
    """Simulate each candidate with so many packets in one."""
    return computed(case, "simulation.time", coarsening)


def forecast(case: Case) -> pd.DataFrame:
    """Return the default model's times and intervals, without a simulation."""
    answer = tc.rank(case.problem, mappings=case.mappings, budget=0, n_jobs=1)
    return answer.table.set_index("mapping").loc[[each.name for each in case.mappings]]


def hops_of(case: Case, coarsening: int) -> float:
    """Return the packet-hops with so many packets in one, as a share of those with real ones."""
    hops = (mean_hops(case.problem, case.mappings, each) for each in (coarsening, 1))
    return next(hops) / next(hops)


def within(case: Case, share: float) -> Floats:
    """Return the times by which ``goal="order"`` orders for a part of the packet-hops."""
    candidates, simulator = describe_candidates(case.problem, case.mappings, load_default(), 1)
    n = len(case.mappings)
    budget = Budget(n, share * n * simulator.hops() / HOPS_PER_SECOND, 1.0)
    ordered = decide(Decision(candidates.posterior, simulator, "order", budget))
    return ordered.posterior.interval(0.9)[0]


def _scored(case: Case) -> tuple[list[dict[str, object]], pd.DataFrame]:
    times, seconds = _clocked(lambda: simulated(case, 1))
    table = pd.DataFrame({"case": case.name, "mapping": range(len(case.mappings)), "time": times})
    said = forecast(case)
    held = float(((said["low"] <= times) & (times <= said["high"])).mean())
    factor = float(np.sqrt(said["high"] / said["low"]).mean())
    merged = {f"{m} packets in one": m for m in (COARSEST, 16, 4)}
    # A power of two.
    merged[BY_LENGTH] = int(2 ** max(0, round(np.log2(case.packets / A_MESSAGE))))
    found = {BOUND: (*_clocked(lambda: computed(case, "release_bound")), 0.0)}
    found[MODEL] = (*_clocked(lambda: forecast(case)["time"].to_numpy()), 0.0)
    for name, m in merged.items():
        found[name] = (*_clocked(lambda m=m: simulated(case, m)), hops_of(case, m))
    (bound, bound_took, _), (coarse, took, hops) = found[BOUND], found[next(iter(merged))]
    found[MIXED] = bound**OF_BOUND * coarse ** (1 - OF_BOUND), bound_took + took, hops
    found |= {name: (within(case, share), np.nan, share) for share, name in SHARES.items()}
    rows: list[dict[str, object]] = []
    for name, (estimate, took, hops) in found.items():
        table[name] = estimate
        rows.append(
            {
                "case": case.name,
                "group": group_of(case),
                "learned": case.name.split(",")[0] in LEARNED,
                "orders": name,
                "rcc": rcc(times, estimate),
                "rcc_1": rcc_told_apart(times, estimate, 0.01),
                "rcc_5": rcc_told_apart(times, estimate, 0.05),
                "regret": regret(times, estimate, 1),
                "off": float(np.std(np.log(times / estimate))),
                "held": held if name == MODEL else np.nan,
                "factor": factor if name == MODEL else np.nan,
                "hops": hops,
                "cost": took / seconds,
            }
        )
    return rows, table


def _clocked(estimate: Callable[[], Floats]) -> tuple[Floats, float]:
    began = time.process_time()
    found = estimate()
    return found, time.process_time() - began


def run(inputs: Inputs) -> Findings:
    """Score every estimate on every case."""
    found = Parallel(n_jobs=inputs.n_jobs)(delayed(_scored)(case) for case in cases())
    each = pd.DataFrame([row for rows, _ in found for row in rows])
    own = each.pivot_table(index="case", columns="orders", values="rcc")
    grouped = pd.concat([each, each.assign(group="all")]).groupby(["group", "orders"], sort=False)
    scores = grouped[[*SCORES, "hops", "cost"]].mean().assign(median_cost=grouped["cost"].median())
    scores.insert(0, "cases", grouped.size())
    behind = float((own[BOUND] - own[MODEL]).max())
    held = each[each["orders"] == MODEL].set_index("case")["held"]
    return Findings(
        f"Each of the {own.shape[0]} applications has {MAPPINGS} candidates. *rcc* counts all "
        "pairs, and *rcc_1* and *rcc_5* count pairs whose times differ by more than 1 or 5 %. "
        "*off* is the standard deviation of the logarithm of time over estimate within an "
        "application. *held* is the share of times within the 90 % intervals, and *factor* is "
        "the distance from an estimate to either end of its interval. *hops* are packet-hops and "
        "*cost* is processor time, both as a share of the simulation with real packets for the "
        "same candidates. The cost is higher than the hops because of the set-up. In the rows "
        "with a part of the packet-hops, simulations are chosen as with `--goal order`.",
        {"cases": each, "times": pd.concat([table for _, table in found], ignore_index=True)},
        {"What orders": scores.reset_index()},
        (
            *(
                Target(what, float(scores[score][group, orders]), at, kind)
                for what, score, group, orders, at, kind in (
                    ("RCC without a simulation", "rcc", "all", MODEL, 0.91, "at least"),
                    ("regret without a simulation", "regret", "all", MODEL, 0.01, "at most"),
                    ("RCC of all, a fifth", "rcc", "all", SHARES[0.2], 0.95, "at least"),
                    ("RCC of all, two fifths", "rcc", "all", SHARES[0.4], 0.98, "at least"),
                    ("RCC of long, a tenth", "rcc", "long", SHARES[0.1], 0.95, "at least"),
                    ("regret of long, a tenth", "regret", "long", SHARES[0.1], 0.005, "at most"),
                )
            ),
            Target("RCC behind the lower bound, worst case", behind, 0.01, "at most"),
            Target("90 % intervals hold, worst case", float(held.min()), 0.75),
            Target("share of cases of which 90 % intervals hold .75", float((held >= 0.75).mean())),
            *(
                Target(f"90 % intervals hold, {what}", float(some["held"].mean()), at, kind)
                for what, some in (
                    ("dimension order", each[each["group"].isin(["short", "long"])]),
                    ("adaptive", each[each["group"] == "adaptive"]),
                    ("dependent rounds", each[each["group"] == "rounds"]),
                    ("kinds of graphs never learned from", each[~each["learned"]]),
                )
                for at, kind in ((0.85, "at least"), (0.95, "at most"))
            ),
        ),
    )
