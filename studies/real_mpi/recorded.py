"""Times of real programs under measured mappings, and what orders them without any run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import pandas as pd

import toruscast as tc
from toruscast._features import RoutedTraffic
from toruscast.decision.simulations import CandidateNetwork, CandidateSimulator
from toruscast.mapping import MappingProblem
from toruscast.mapping.comm_graph import as_workload
from toruscast.training import rcc_told_apart

from ..study import Chart, Findings, Inputs, Target

TIMES = "real-mpi/*/times.csv"
APART = 0.05
# Frames of 3,000 bytes; addresses, TCP with time stamps and the frame itself take 66 of them. The
# latencies are guesses, far below the 4.8 ms that a frame takes on a link.
TORUS = tc.Torus(
    (4, 4),
    bandwidth=(625e3,) * 2,
    tie_break="sum_parity",
    network=tc.Network(
        payload=2948, header=66, hop_latency=2e-5, overhead=5e-5, memory_bandwidth=1e9
    ),
)
SUM, ROUNDS = "the sum", "the rounds"
IDENTITY = "identity"
NAMES = {
    "lj": "LAMMPS, Lennard-Jones",
    "salt": "LAMMPS, salt with PPPM",
    "a2a": "all-to-all in rows and columns",
    "halo": "halo",
}
AVERAGED = "rounds, averaged networks"


@dataclass(frozen=True)
class Program:
    """A program: its profile, its trace, and the runs of its mappings on a torus."""

    name: str
    torus: tc.Torus
    workloads: dict[str, tc.Workload]
    mappings: list[tc.TaskMapping]
    runs: tc.Runs

    @property
    def times(self) -> np.ndarray:
        """Measured seconds of the mappings, in their order."""
        return self.runs.times

    def time(self, mapping: str) -> float:
        """Measured seconds of a mapping; nan where it was not measured."""
        return float(dict(zip(self.runs.names, self.times, strict=True)).get(mapping, np.nan))


def read(inputs: Inputs) -> Iterator[Program]:
    """Give the programs.

    Raises
    ------
    InputError
        If the measurements are not found.
    """
    for file in inputs.files(TIMES):
        folder = file.parent
        files = {path.stem: path for path in (folder / "maps").glob("*.map")}
        table = pd.read_csv(file)[["mapping", "time"]].dropna()
        runs = tc.Runs.from_times(table[table["mapping"].isin(files)])
        machine, trace, profile = (folder / name for name in ("torus.toml", "trace", "app.prof"))
        torus = tc.read_torus(machine) if machine.exists() else TORUS
        mappings = []
        for name in runs.names:
            found = tc.read_mapping(files[name], torus=torus)
            share = found.tasks_per_node
            mappings.append(
                tc.TaskMapping(found.node, torus, slot=found.slot, tasks_per_node=share, name=name)
            )
        rounds = tc.read_workload(trace if trace.exists() else folder / "app.goal.gz")
        whole = tc.read_workload(profile) if profile.exists() else rounds.total
        workloads = {SUM: as_workload(whole), ROUNDS: rounds}
        program, _, setup = folder.name.partition("@")
        name = NAMES.get(program, program) + (f", {setup}" if setup else "")
        yield Program(name, torus, workloads, mappings, runs)


def run(inputs: Inputs) -> Findings:
    """Order the mappings that were measured and stored.

    Raises
    ------
    InputError
        If the measurements are not found.
    """
    programs = list(read(inputs))
    found = score(programs, inputs.n_jobs)
    held_out = _held_out(programs)
    return replace(
        found,
        text=(
            f"{found.text} The networks were chosen on these four programs. In a "
            "cross-validation, they are chosen on three programs: the three best of 13 networks "
            "(combinations of three feedings, two rules for FIFOs and two arbitrations, and "
            f"flows). On the fourth program, they reach RCC {held_out.mean():.3f} on average and "
            f"at least {held_out.min():.3f}. The programs of `real_mpi_live` were measured later. "
            "The rounds of the two LAMMPS traces include the set-up of LAMMPS, which the "
            "measured loop does not."
        ),
    )


def _held_out(programs: Sequence[Program]) -> np.ndarray:
    """RCC of each program by the three networks that order the others best, mean where several."""
    networks = [
        CandidateNetwork("", TORUS.with_network(fifo_rule=fifo, feeding=feeding, arbitration=turn))
        for fifo in ("bluegene_q", "first_dimension")
        for feeding in ("tasks", "messages", "packets")
        for turn in ("first_come", "round_robin")
    ]
    networks.append(CandidateNetwork("flows", TORUS, flows=True))
    rcc = []
    for each in programs:
        problem = tc.MappingProblem(each.workloads[ROUNDS], TORUS)
        logs = np.log(_simulated(problem, each.mappings, 1, networks)[1].T)
        sets = combinations(logs, 3)
        rcc.append([_rcc(each, np.exp(np.mean(several, axis=0))) for several in sets])
    of_sets = np.array(rcc)
    others = of_sets.sum(axis=0) - of_sets
    best = np.isclose(others, others.max(axis=1, keepdims=True))
    return np.asarray((of_sets * best).sum(axis=1) / best.sum(axis=1))


def score(programs: Sequence[Program], n_jobs: int) -> Findings:
    """Order measured mappings by bounds, simulated times and forecasts."""
    orders, chosen, errors, points = [], [], [], []
    for each in programs:
        columns = _forecasts(each, n_jobs)
        orders.append({"program": each.name, **{n: _rcc(each, t) for n, t in columns.items()}})
        chosen.append({"program": each.name, **{n: _regret(each, t) for n, t in columns.items()}})
        identity = each.runs.names.index(IDENTITY)
        for name in ("rounds, simulated", AVERAGED):
            left = np.log(each.times / columns[name])
            errors.append({"program": each.name, "forecast": name, "own": float(left.std())})
        table = {
            "measured": each.times / each.times[identity],
            "forecast": columns[AVERAGED] / columns[AVERAGED][identity],
        }
        points.append(pd.DataFrame({**table, "program": each.name}))
        chosen[-1]["gain of the best measured over the identity"] = 1 - float(
            each.times.min() / each.times[identity]
        )
    rcc = pd.DataFrame(orders)
    mean = rcc.mean(numeric_only=True)
    averaged = float(rcc[AVERAGED].min())
    rcc = pd.concat([rcc, pd.DataFrame([{"program": "mean", **mean.to_dict()}])])
    regrets = pd.DataFrame(chosen)
    targets = (
        Target("RCC of pairs more than 5 % apart, mean of the programs", mean[AVERAGED], 0.93),
        Target("the same, the least of the programs", averaged, 0.85),
        Target(
            "measured time of the named best over the best measured one, largest excess",
            float(regrets[AVERAGED].max()),
            0.05,
            "at most",
        ),
    )
    return Findings(
        "The table counts the pairs of mappings whose measured times differ by more than 5 %. "
        "*Bound* is the lower bound that takes into account when messages are released. "
        "*Simulated* is the time on one network, with Blue Gene/Q's rule for FIFOs. *Averaged "
        "networks* is the geometric mean over the plausible networks of a machine with unknown "
        "rules.\n\n"
        f"For traces with rounds, the mean RCC is {mean[AVERAGED]:.3f} with averaged networks and "
        f"{mean['rounds, simulated']:.3f} with one network. For profiles (*sum*), it is "
        f"{mean['sum, averaged networks']:.3f} and {mean['sum, simulated']:.3f}. The excess is "
        "how much longer the mapping that a method predicts to be the fastest takes than the "
        "fastest measured one.",
        {"order": rcc, "named": regrets, "errors": pd.DataFrame(errors)},
        {
            "RCC of pairs more than 5 % apart": rcc,
            "Excess of the mapping named as fastest": regrets,
            "Deviation of measured over forecast times, logarithms": pd.DataFrame(errors),
        },
        targets,
        {
            "measured": Chart(
                "scatter",
                pd.concat(points, ignore_index=True),
                "forecast",
                "measured",
                "program",
                "Times over those of the default order",
            )
        },
    )


def _forecasts(program: Program, n_jobs: int) -> dict[str, np.ndarray]:
    """Return seconds of each mapping by each method."""
    found: dict[str, np.ndarray] = {}
    for label, workload in (("sum", program.workloads[SUM]), ("rounds", program.workloads[ROUNDS])):
        routed = [
            RoutedTraffic(MappingProblem(workload, program.torus), each)
            for each in program.mappings
        ]
        found[f"{label}, bound"] = np.array([each.release_bound for each in routed])
        found[f"{label}, simulated"] = np.array([each.simulation.time for each in routed])
        problem = tc.MappingProblem(workload, program.torus)
        found[f"{label}, averaged networks"] = _simulated(problem, program.mappings, n_jobs)[0]
    return found


def _simulated(
    problem: tc.MappingProblem,
    mappings: Sequence[tc.TaskMapping],
    n_jobs: int = 1,
    networks: Sequence[CandidateNetwork] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean time of each mapping over networks, and the times on each network."""
    bounds = np.full(len(mappings), np.nan)
    simulator = CandidateSimulator(problem, mappings, bounds, bounds, n_jobs, networks)
    return simulator.simulate(np.arange(len(mappings))), simulator.times


def _rcc(program: Program, forecast: np.ndarray) -> float:
    return rcc_told_apart(program.times, forecast, APART)


def _regret(program: Program, forecast: np.ndarray) -> float:
    return float(program.times[forecast.argmin()] / program.times.min() - 1)
