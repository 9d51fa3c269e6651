"""Estimates of the time that order candidates, against the simulation with real packets."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from numpy.typing import NDArray

import toruscast as tc
from toruscast.features import RoutedTraffic
from toruscast.mapping import parse_torus
from toruscast.training import rcc, rcc_told_apart, regret

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


@dataclass(frozen=True)
class Case:
    """An application on a torus, with candidates."""

    name: str
    workload: tc.Workload
    torus: tc.Torus
    mappings: tuple[tc.TaskMapping, ...]
    routing: tc.Routing
    packets: float


def cases() -> list[Case]:
    """Draw the applications: short and long messages, adaptive ones, and three dependent rounds."""
    found = []
    for number, kind in enumerate(KINDS):
        for turn in range(5):
            rng = np.random.default_rng([SEED, number, turn])
            torus = parse_torus(HOSTS[(number + 3 * turn) % len(HOSTS)])
            packets = PACKETS[(number + turn) % len(PACKETS)]
            routing: tc.Routing = "adaptive" if turn == 3 and not torus.twist else "deterministic"
            n, payload, is_rounds = torus.n_nodes, torus.network.payload, turn == 4
            phases = [draw(kind, n, payload, packets, rng) for _ in range(3 if is_rounds else 1)]
            workload = tc.Workload(phases, dependent=is_rounds)
            mappings = tuple(tc.strategies.sample(workload, torus, n=MAPPINGS, seed=turn))
            hops = RoutedTraffic(workload, torus, mappings[-1]).packet_hops
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


def simulated(case: Case, coarsening: int) -> Floats:
    """Simulate each candidate with so many packets in one."""
    return np.array(
        [
            RoutedTraffic(case.workload, case.torus, each, case.routing, coarsening).simulation.time
            for each in case.mappings
        ]
    )


def by_length(case: Case) -> int:
    """Return how many packets are one so that messages keep `A_MESSAGE`; a power of two."""
    return int(2 ** max(0, round(np.log2(case.packets / A_MESSAGE))))


def bounded(case: Case) -> Floats:
    """Return the lower bound of each candidate."""
    return np.array(
        [
            RoutedTraffic(case.workload, case.torus, each, case.routing).release_bound
            for each in case.mappings
        ]
    )


def forecast(case: Case) -> pd.DataFrame:
    """Return the default model's times and intervals, without a simulation."""
    answer = tc.forecast(
        case.workload, case.torus, case.mappings, budget=0, routing=case.routing, n_jobs=1
    )
    return answer.table.set_index("mapping").loc[[each.name for each in case.mappings]]


def _scored(case: Case) -> tuple[list[dict[str, object]], pd.DataFrame]:
    estimates: dict[str, Callable[[], Floats]] = {
        BOUND: lambda: bounded(case),
        MODEL: lambda: forecast(case)["time"].to_numpy(),
    }
    for merged in (COARSEST, 16, 4):
        estimates[f"{merged} packets in one"] = lambda merged=merged: simulated(case, merged)
    estimates[BY_LENGTH] = lambda: simulated(case, by_length(case))
    times, seconds = _clocked(lambda: simulated(case, 1))
    rows = []
    table = pd.DataFrame({"case": case.name, "mapping": range(len(case.mappings)), "time": times})
    ends = forecast(case)[["low", "high"]].to_numpy().T
    held = float(((ends[0] <= times) & (times <= ends[1])).mean())
    found = {name: _clocked(estimate) for name, estimate in estimates.items()}
    (bound, bound_took), (coarse, took) = found[BOUND], found[f"{COARSEST} packets in one"]
    found[MIXED] = bound**OF_BOUND * coarse ** (1 - OF_BOUND), bound_took + took
    for name, (said, took) in found.items():
        table[name] = said
        rows.append(
            {
                "case": case.name,
                "group": group_of(case),
                "learned": case.name.split(",")[0] in LEARNED,
                "orders": name,
                "rcc": rcc(times, said),
                "rcc_1": rcc_told_apart(times, said, 0.01),
                "rcc_5": rcc_told_apart(times, said, 0.05),
                "regret": regret(times, said, 1),
                "off": float(np.std(np.log(times / said))),
                "held": held if name == MODEL else np.nan,
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
    shown = []
    for group in ("short", "long", "adaptive", "rounds", "all"):
        some = each if group == "all" else each[each["group"] == group]
        mean = some.groupby("orders", sort=False).agg(
            cases=("case", "size"),
            rcc=("rcc", "mean"),
            rcc_1=("rcc_1", "mean"),
            rcc_5=("rcc_5", "mean"),
            regret=("regret", "mean"),
            off=("off", "mean"),
            held=("held", "mean"),
            cost=("cost", "mean"),
            median_cost=("cost", "median"),
        )
        shown.append(mean.reset_index().assign(group=group))
    table = pd.concat(shown, ignore_index=True)
    table = table[["group", *[c for c in table.columns if c != "group"]]]
    scores = table.set_index(["group", "orders"])
    behind = float((own[BOUND] - own[MODEL]).max())
    return Findings(
        f"{MAPPINGS} candidates of each of {own.shape[0]} applications. Cost is processor time as "
        "a share of the simulation with real packets, for the same candidates. RCC counts all "
        "pairs, or those whose times differ by more than 1 or 5 %. Off is the standard deviation "
        "of the logarithm of time over estimate within an application; held is the share of times "
        "within 90 % intervals.",
        {"cases": each, "times": pd.concat([table for _, table in found], ignore_index=True)},
        {"What orders": table},
        (
            Target("RCC without a simulation", float(scores["rcc"]["all", MODEL]), 0.91),
            Target(
                "regret without a simulation",
                float(scores["regret"]["all", MODEL]),
                0.01,
                "at most",
            ),
            Target("RCC behind the lower bound, worst case", behind, 0.01, "at most"),
            *(
                Target(f"90 % intervals hold, {what}", float(some["held"].mean()), 0.85)
                for what, some in (
                    ("dimension order", each[each["group"].isin(["short", "long"])]),
                    ("adaptive", each[each["group"] == "adaptive"]),
                    ("dependent rounds", each[each["group"] == "rounds"]),
                    ("kinds of graphs never learned from", each[~each["learned"]]),
                )
            ),
            Target(
                "RCC of long messages, merged by length",
                float(scores["rcc"]["long", BY_LENGTH]),
                0.95,
            ),
            Target("its cost", float(scores["cost"]["long", BY_LENGTH]), 0.1, "at most"),
        ),
    )
