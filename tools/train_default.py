"""Make `training/default.json`, the default model, or check that it can be reproduced.

    python tools/train_default.py [--samples SAMPLES.parquet] [--check]

Simulates 7,710 mappings of 533 applications, fits the ratio of time to release bound for each kind
of traffic, and prints the coverage of predictions for held-out kinds of graphs. With ``--samples``,
the simulated times are stored, and a run that was stopped resumes from them. The applications are
single exchanges with deterministic or adaptive routing (regular and unstructured halos, multigrids,
transposes, octrees, sharded models, all-to-alls and random graphs), dependent rounds, and phases
between barriers. This takes about ten processor minutes. Every run of the same version gives the
same samples and model. With ``--check``, the model is compared with the file, except for its
commit, and the exit status is 1 if they differ.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1]))
import toruscast as tc
from studies.unseen.graphs import draw, with_packets
from toruscast._features import RoutedTraffic
from toruscast.mapping import (
    CommGraph,
    MappingProblem,
    TaskMapping,
    Torus,
    Workload,
    collectives,
    patterns,
    strategies,
)
from toruscast.routing import Routing
from toruscast.routing.messages import mean_message_packets
from toruscast.training import build_samples, rcc
from toruscast.training.default_model import (
    COVARIATES,
    ONE_EXCHANGE,
    ROUNDS_APART,
    DefaultModel,
    RatioModel,
    TrafficKind,
    classify_traffic,
    covariates,
    scale_of_log_ratio,
)
from toruscast.training.residuals import ResidualCalibration

Floats = NDArray[np.float64]
ROOT = Path(__file__).parents[1]
FILE = ROOT / "training" / "default.json"
COMMAND = "python tools/train_default.py"
SEED = 20130
SHAPES: tuple[tuple[int, ...], ...] = (
    (8, 8),
    (4, 4, 4),
    (16, 8),
    (8, 4, 4),
    (4, 4, 4, 2),
    (16, 16),
    (8, 8, 4),
    (4, 4, 4, 4),
    (4, 4, 4, 2, 2),
    (8, 8, 8),
    (16, 8, 4),
    (8, 4, 4, 4),
    (4, 4, 4, 4, 2),
    (16, 8, 8),
)
# Machines that differ in links, packets, FIFOs and memory, and the tasks per node on each.
MACHINES = (
    ("bluegene_p:4x4x4", 1),
    ("bluegene_p:8x4x4", 4),
    ("bluegene_q:32", 16),
    ("bluegene_q:64", 4),
    ("bluegene_q:128", 1),
    ("bluegene_q:512", 1),
    ("gemini:4x4x4", 1),
    ("gemini:4x4x2", 16),
    ("gemini:8x8x4", 1),
    ("tofu_d:2x2x2", 8),
    ("tofu_d:2x2x4", 16),
    ("tofu_d:4x4x4", 1),
    ("tofu_d:4x4x4", 4),
    ("tpu_v4:4x4x4", 1),
    ("tpu_v4:4x4x8", 4),
    ("tpu_v5p:4x4x4", 2),
    ("tpu_v5p:8x8x4", 1),
    ("trainium2:4x4", 16),
    ("trainium2:4x4x4", 1),
    ("trainium2:4x4x4", 8),
)
# Packets per message in the byte-weighted mean, and the share of a packet that a short message has.
PACKETS, SHORT = (4, 16, 64, 128, 512), (0.02, 0.1, 0.4)
# Standard deviation of the logarithm of the sizes of unequal messages.
UNEQUAL = 1.5
GRAPHS = ("unstructured mesh", "multigrid", "transposes", "octree", "sharded model")
"""Kinds of graphs of `studies.unseen` in the training set; the others are for tests."""
MAPPINGS, FEWER = 20, 10
# Maximum tasks of generated graphs, and generated applications of each kind of traffic.
MOST_TASKS, APPLICATIONS = 256, 60
HOSTS = (
    "8x8",
    "4x4x4",
    "16x4",
    "4x4x8",
    "4x4x4x2",
    "bluegene_q:32",
    "gemini:4x4x4",
    "tofu_d:4x4x4",
)
RIDGE = 20
"""Weight of the prior (slope 0) in applications. Few have long messages with adaptive routing."""
QUANTILES = 200
"""Number of quantiles that represent a long distribution of residuals in the file."""


class TrainingCase(NamedTuple):
    """An application, its torus and mappings; each kind of graph is held out as a whole."""

    graph: str
    workload: Workload
    torus: Torus
    mappings: list[TaskMapping]
    routing: Routing = "deterministic"


def exchanges() -> Iterator[TrainingCase]:
    """Yield single exchanges in dimension order."""
    rng = np.random.default_rng(SEED)
    hosts = [(Torus(shape), 1) for shape in SHAPES]
    hosts += [(tc.torus(name), tasks_per_node) for name, tasks_per_node in MACHINES]
    for number, (torus, tasks_per_node) in enumerate(hosts):
        n, payload = torus.n_nodes * tasks_per_node, torus.network.payload
        for graph, comm in regular(n, payload, rng):
            seed = int(rng.integers(2**31))
            some = strategies.sample(comm, torus, n=MAPPINGS, seed=seed)
            yield TrainingCase(graph, Workload([comm]), torus, some)
        if n > MOST_TASKS:
            continue
        own = np.random.default_rng([SEED, number])
        for graph in own.choice(GRAPHS, 3, replace=False):
            packets = float(own.choice(PACKETS[:4]))
            yield exchange(str(graph), n, torus, packets, own)
        for _ in range(2):
            graph, packets = str(own.choice(GRAPHS)), float(own.choice(SHORT))
            yield exchange(graph, n, torus, packets, own)


def exchange(
    graph: str,
    n: int,
    torus: Torus,
    packets: float,
    rng: np.random.Generator,
    routing: Routing = "deterministic",
) -> TrainingCase:
    """Return one exchange over a generated graph."""
    work = Workload([draw(graph, n, torus.network.payload, packets, rng)])
    some = strategies.sample(work, torus, n=FEWER, seed=int(rng.integers(2**31)))
    return TrainingCase(graph, work, torus, some, routing)


def regular(n_tasks: int, payload: int, rng: np.random.Generator) -> list[tuple[str, CommGraph]]:
    """Draw halos, all-to-alls and random graphs over ``n_tasks`` tasks (a power of two)."""
    bits = n_tasks.bit_length() - 1
    flat = (2 ** (bits // 2), 2 ** (bits - bits // 2))
    solid = (2 ** (bits // 3), 2 ** ((bits + 1) // 3), 2 ** (bits - bits // 3 - (bits + 1) // 3))
    size = [payload * int(rng.choice(PACKETS)) for _ in range(7)]
    group = int(rng.choice([8, 16, 32]))
    return [
        ("halo of a plane", patterns.halo_2d(flat, size[0], periodic=bool(rng.integers(2)))),
        ("halo", patterns.halo_3d(solid, size[1], corner_nbytes=0, periodic=True)),
        ("halo with edges", patterns.halo_3d(solid, size[2], periodic=bool(rng.integers(2)))),
        ("groups", patterns.sub_all_to_all(n_tasks, size[3] / 2, group=group)),
        ("random", random_pairs(n_tasks, size[4], rng)),
        ("halo with edges", unequal(patterns.halo_3d(solid, size[5], periodic=True), rng)),
        ("random", unequal(random_pairs(n_tasks, size[6], rng), rng)),
    ]


def random_pairs(n_tasks: int, nbytes: float, rng: np.random.Generator) -> CommGraph:
    """Return a random graph of 3 to 12 partners a task."""
    degree = int(rng.integers(3, 13))
    return patterns.random_pairs(n_tasks, degree, nbytes, seed=int(rng.integers(2**31)))


def unequal(comm: CommGraph, rng: np.random.Generator) -> CommGraph:
    """Give each edge one to four messages, and random bytes with the same mean."""
    factor = rng.lognormal(-(UNEQUAL**2) / 2, UNEQUAL, comm.n_edges)
    return CommGraph(
        comm.n_tasks,
        comm.src,
        comm.dst,
        np.ceil(comm.nbytes * factor),
        rng.integers(1, 5, comm.n_edges),
        grid=comm.grid,
        name=f"{comm.name}-unequal",
    )


def wavefront(n: int, nbytes: float, back: bool) -> Workload:
    """Return rounds along the diagonals of a grid, and in reverse order too if ``back``."""
    bits = n.bit_length() - 1
    rows, columns = 2 ** (bits // 2), 2 ** (bits - bits // 2)
    rounds = []
    for diagonal in range(rows + columns - 2):
        i = np.arange(max(0, diagonal - columns + 1), min(rows, diagonal + 1))
        j = diagonal - i
        down, right = i < rows - 1, j < columns - 1
        task = i * columns + j
        src = np.concatenate([task[down], task[right]])
        dst = np.concatenate([task[down] + columns, task[right] + 1])
        rounds.append(CommGraph(n, src, dst, np.full(src.size, nbytes)))
    if back:
        rounds += [CommGraph(n, r.dst, r.src, r.nbytes) for r in reversed(rounds)]
    return Workload(rounds, "wavefront", dependent=True)


def pipeline(n: int, nbytes: float, rng: np.random.Generator) -> Workload:
    """Return rounds of a pipeline along a line of tasks, with several items at a time."""
    stride, waves = int(rng.choice([1, 2, 4])), int(rng.integers(1, 5))
    chain = np.arange(0, n, stride)
    rounds = []
    for step in range(min(chain.size - 1 + waves - 1, 60)):
        at = np.arange(max(0, step - waves + 1), min(step + 1, chain.size - 1))
        if at.size:
            rounds.append(CommGraph(n, chain[at], chain[at + 1], np.full(at.size, nbytes)))
    return Workload(rounds, "pipeline", dependent=True)


def rounds(n: int, torus: Torus, packets: float, rng: np.random.Generator) -> tuple[str, Workload]:
    """Return the dependent rounds of a kind of application."""
    kind, nbytes = int(rng.integers(-2, 6)), float(torus.network.payload * packets)
    if kind < 2:
        return "wavefront", wavefront(n, nbytes, back=bool(kind % 2))
    if kind == 2:
        return "pipeline", pipeline(n, nbytes, rng)
    if kind == 3:
        names = [f"allreduce/{a}" for a in ("ring", "recursive_doubling", "rabenseifner")]
        names += ["alltoall/pairwise", "bcast/binomial"]
        name = str(rng.choice(names))
        return name, collectives.schedule(name, n, nbytes * 16).workload()
    graph, comm = pattern(n, torus, packets, rng)
    drawn = [comm] * int(rng.integers(2, 6))
    if kind == 5:
        drawn = [comm, *(pattern(n, torus, packets, rng)[1] for _ in drawn[1:])]
    return graph, Workload(drawn, "", dependent=True)


def pattern(
    n: int, torus: Torus, packets: float, rng: np.random.Generator
) -> tuple[str, CommGraph]:
    """Return the graph of an exchange, regular or irregular."""
    payload = torus.network.payload
    if rng.integers(2):
        graph = str(rng.choice(GRAPHS))
        return graph, draw(graph, n, payload, packets, rng)
    graph, comm = regular(n, payload, rng)[int(rng.integers(7))]
    return graph, with_packets(comm, payload, packets)


def generated() -> Iterator[TrainingCase]:
    """Yield applications with dependent rounds, phases between barriers, and adaptive routing."""
    rng = np.random.default_rng([SEED, 1])
    for number in range(3 * APPLICATIONS):
        torus = tc.torus(str(rng.choice(HOSTS)))
        n = torus.n_nodes * min(int(rng.choice([1, 1, 2, 4])), MOST_TASKS // torus.n_nodes)
        packets = float(rng.choice([0.25, 1, 4, 16, 64]))
        routing: Routing = "adaptive" if number % 12 == 0 else "deterministic"
        if number % 3 == 0:
            graph, work = rounds(n, torus, packets, rng)
        elif number % 3 == 1:
            sizes = packets * rng.choice([0.25, 1.0, 4.0], int(rng.integers(2, 5)))
            drawn = [pattern(n, torus, size, rng) for size in sizes]
            graph, work = drawn[0][0], Workload([comm for _, comm in drawn])
        else:
            graph, comm = pattern(n, torus, 4 * packets, rng)
            work, routing = Workload([comm]), "adaptive"
        some = strategies.sample(work, torus, n=FEWER, seed=int(rng.integers(2**31)))
        yield TrainingCase(graph, work, torus, some, routing)


def samples_of(applications: list[TrainingCase], store: Path | None) -> list[pd.DataFrame]:
    """Return features and simulated times of each application."""
    names = (*DefaultModel.required_columns, "lower_bound")
    found: dict[int, pd.DataFrame] = {}
    for routing in get_args(Routing):
        own = [i for i, each in enumerate(applications) if each.routing == routing]
        cases = [
            (applications[i].workload, applications[i].torus, applications[i].mappings) for i in own
        ]
        if cases:
            every = build_samples(cases, store, n_jobs=2, routing=routing, features=names)
            which = np.repeat(own, [len(mappings) for _, _, mappings in cases])
            found |= {i: every[which == i].reset_index(drop=True) for i in own}
    return [
        found[i].assign(**{ROUNDS_APART: apart_of(each)}) for i, each in enumerate(applications)
    ]


def apart_of(application: TrainingCase) -> list[float]:
    """Return the distance between the rounds of an application under each mapping."""
    _, workload, torus, mappings, routing = application
    return [
        RoutedTraffic(MappingProblem(workload, torus, routing), each).rounds_apart
        for each in mappings
    ]


class Observed(NamedTuple):
    """Logarithms of the ratio of time to release bound, for the mappings of an application."""

    kind: str
    graph: str
    covariates: Floats
    log_ratios: Floats
    bounds: Floats


def observe(case: TrainingCase, table: pd.DataFrame) -> Observed:
    """Return the observed ratios of an application and their covariates."""
    problem = MappingProblem(case.workload, case.torus, case.routing)
    kinds = classify_traffic(problem, case.mappings)
    known = covariates(table, problem.derive(mean_message_packets))
    ratio = np.log(table["time"] / table["release_bound"]).to_numpy()
    bounds = table["release_bound"].to_numpy()
    return Observed((*kinds, ONE_EXCHANGE)[0], case.graph, known, ratio, bounds)


def fit_ratio(applications: Sequence[Observed], scale: Floats) -> RatioModel:
    """Fit level and slopes to log ratios by ridge regression with equal weights of applications.

    Slopes per ``scale`` are shrunk to 0, except the slope of the distance between rounds.
    """
    every = np.concatenate([each.covariates for each in applications])
    rows = np.column_stack([np.ones(len(every)), every / scale])
    ratios = np.concatenate([each.log_ratios for each in applications])
    sizes = np.array([each.log_ratios.size for each in applications])
    weights = np.repeat(1 / sizes, sizes)
    penalty = np.diag([0.0, 1e-9, *[float(RIDGE)] * (len(scale) - 1)])
    found = np.linalg.solve(
        rows.T @ (rows * weights[:, None]) + penalty, rows.T @ (weights * ratios)
    )
    return RatioModel(round(float(found[0]), 5), np.round(found[1:] / scale, 5))


def fit_kind(applications: Sequence[Observed], scale: Floats) -> TrafficKind:
    """Fit a kind of traffic; the residuals are of held-out kinds of graphs."""
    scaled = []
    for each in applications:
        rest = [other for other in applications if other.graph != each.graph]
        scaled.append(scaled_residuals(each, fit_ratio(rest, scale)))
    members = np.repeat(np.arange(len(scaled)), [own.size for own in scaled])
    calibration = ResidualCalibration.from_residuals(0.0, np.concatenate(scaled), members)
    return TrafficKind(fit_ratio(applications, scale), calibration)


def scaled_residuals(application: Observed, ratio: RatioModel) -> Floats:
    """Return the residuals divided by the expected width."""
    forecast = ratio.log_ratios(application.covariates)
    return (application.log_ratios - forecast) / scale_of_log_ratio(forecast)


def scale_of(applications: Sequence[Observed]) -> Floats:
    """Return the standard deviation of the covariates over applications of all kinds."""
    return np.std([each.covariates.mean(axis=0) for each in applications], axis=0)


def held_out(applications: Sequence[Observed], scale: Floats) -> list[TrafficKind]:
    """Return the fit for each application from those of its kind with other graphs."""
    found = {
        (kind, graph): fit_kind(
            [each for each in applications if each.kind == kind and each.graph != graph], scale
        )
        for kind, graph in {(each.kind, each.graph) for each in applications}
    }
    return [found[each.kind, each.graph] for each in applications]


def report(kind: str, applications: Sequence[Observed], scale: Floats) -> None:
    """Print the share of times in the intervals that are fitted to other kinds of graphs."""
    held, reach, scores = [], [], []
    for each, others in zip(applications, held_out(applications, scale), strict=True):
        forecast = others.ratio.log_ratios(each.covariates)
        half = others.calibration.quantile(0.9) * scale_of_log_ratio(forecast)
        held.append(float((np.abs(each.log_ratios - forecast) <= half).mean()))
        reach.append(float(np.exp(half.mean())))
        scores.append(rcc(np.exp(each.log_ratios) * each.bounds, np.exp(forecast) * each.bounds))
    print(
        f"{kind}: {len(applications)} applications, RCC {np.mean(scores):.3f}; 90 % intervals from "
        f"other graphs hold {np.mean(held):.1%}, by a factor of {np.min(reach):.2f} to "
        f"{np.max(reach):.2f} each way, {np.median(reach):.2f} in the middle",
        flush=True,
    )


def to_json(kind: TrafficKind, applications: Sequence[Observed]) -> dict[str, Any]:
    """Return a kind of traffic for the file; long distributions become quantiles."""
    own = kind.calibration
    shares = (np.arange(QUANTILES) + 0.5) / QUANTILES
    every = {"residuals": own.residuals, "common": own.common, "deviations": own.deviations}
    kept = {k: v if v.size <= QUANTILES else np.quantile(v, shares) for k, v in every.items()}
    return {
        "applications": len(applications),
        "samples": sum(each.bounds.size for each in applications),
        "level": kind.ratio.level,
        "slopes": dict(zip(COVARIATES, kind.ratio.slopes.tolist(), strict=True)),
        **{name: np.round(np.sort(values), 3).tolist() for name, values in kept.items()},
    }


def trained(store: Path | None) -> dict[str, Any]:
    """Simulate, fit and report; return the content of the file."""
    cases = [*exchanges(), *generated()]
    every = [observe(*each) for each in zip(cases, samples_of(cases, store), strict=True)]
    scale = scale_of(every)
    kinds = {}
    for kind in sorted({each.kind for each in every}):
        own = [each for each in every if each.kind == kind]
        report(kind, own, scale)
        kinds[kind] = to_json(fit_kind(own, scale), own)
    commit = ["git", "describe", "--always", "--dirty"]
    provenance = {
        "command": COMMAND,
        "commit": subprocess.run(commit, cwd=ROOT, capture_output=True, text=True).stdout.strip(),
        "seed": SEED,
        "applications": len(every),
        "samples": sum(each.bounds.size for each in every),
    }
    return {"format": "toruscast default model", "provenance": provenance, "kinds": kinds}


def main() -> int:
    """Make the model, or compare it with the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=Path, help="Parquet file that keeps what is simulated")
    parser.add_argument("--check", action="store_true", help="compare with the file")
    arguments = parser.parse_args()
    made = trained(arguments.samples)
    if not arguments.check:
        lines = json.dumps(made, indent=1).replace(",\n    ", ", ").replace("[\n    ", "[")
        FILE.write_text(lines.replace("\n   ]", "]") + "\n", "utf-8")
        return 0
    kept = json.loads(FILE.read_text("utf-8"))
    is_same = kept["kinds"] == made["kinds"]
    print(f"{FILE}: " + ("the same" if is_same else "another model"))
    return 0 if is_same else 1


if __name__ == "__main__":
    raise SystemExit(main())
