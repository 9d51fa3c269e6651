"""Compare searches with Scotch, SharedMap and Mt-KaHyPar; writes search.csv.

    python benchmarks/search.py --out FOLDER [--spd sp.D.1024.topo] [--mark 120] [--busy 2]
        [--only NAME ...] [--again search.csv]

Each case is searched for 2, 10 and 30 s, and for ``--mark`` seconds to see what can be reached.
With ``--busy``, it is searched for 2 and 30 s once more while that many loops occupy the
processors. With ``--again``, only the searches run; rows of other methods come from an earlier
search.csv.

All methods get the same graph, with its tasks renumbered at random, and the same torus. There is a
row per case and method with the best value, the processor seconds of all runs, and the number of
runs. Scotch runs 20 times with different numbers of the tasks, alternating its strategies -cq and
-cs. SharedMap (``pip install chszlablib``) runs 5 times on a hierarchy that halves the torus along
its dimensions in turn. Surplus tasks of a node move to the nearest node with room. SP.D is the
captured graph of NPB SP, class D, on 1,024 tasks. Without ``--spd``, it is built from the
description of its multi-partition scheme: each of 32 x 32 tasks sends to its neighbours along
rows, columns and one diagonal. KaHIP's Python package cannot map onto a topology.
"""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
from scipy.spatial import Delaunay

import toruscast as tc
from toruscast import datasets
from toruscast._features import FEATURES, RoutedTraffic
from toruscast._search.starts import _integer_weights, map_with_programs
from toruscast.answers.html import describe_machine
from toruscast.errors import InputError
from toruscast.mapping import (
    CommGraph,
    MappingProblem,
    TaskMapping,
    Torus,
    patterns,
    strategies,
)
from toruscast.mapping.task_mapping import Allocation
from toruscast.simulation import simulate

CAPTURED = {
    "lammps-lj-64": (4, 4, 4),
    "lammps-lj-512": (8, 8, 8),
    "lammps-droplet-128": (4, 4, 8),
    "espresso-si-64": (4, 4, 4),
    "lammps-salt-64": (4, 4, 4),
}
RACK, PAYLOAD = (4, 4, 4, 8, 2), 2048
RUNS, SECONDS, BUSY_SECONDS, JOBS = 20, (2.0, 10.0, 30.0), (2.0, 30.0), 2
# Mt-KaHyPar takes half a minute for 128 nodes and several minutes for 512.
MT_KAHYPAR_NODES = 64
_ERROR = 0.01


def renumbered(comm: CommGraph) -> CommGraph:
    """Return the graph with its tasks renumbered at random."""
    new = np.random.default_rng(1).permutation(comm.n_tasks)
    return CommGraph(comm.n_tasks, new[comm.src], new[comm.dst], comm.nbytes, comm.n_messages)


def spd(path: Path | None) -> CommGraph:
    """Return the graph of NPB SP, class D, on 1,024 tasks: captured, or computed."""
    if path is not None:
        rows = np.loadtxt(path, skiprows=1, dtype=np.int64)
        return CommGraph(1024, rows[:, 0], rows[:, 1], rows[:, 2].astype(float))
    side, cells, steps = 32, 408, 500
    task = np.arange(side * side)
    i, j = task % side, task // side
    # Faces of a cell, of the 31 of 32 cells that have the neighbour in a direction, 8 bytes each.
    faces = (side - 1) * (cells / side) ** 2 * 8 * steps
    # Ghost layers, and on the way there the forward sweep, on the way back the substitution.
    there, back = faces * (10 + 22), faces * (10 + 10)
    columns = []
    for di, dj in ((1, 0), (0, 1), (-1, -1)):
        ahead = (i + di) % side + side * ((j + dj) % side)
        columns += [(task, ahead, there), (ahead, task, back)]
    src, dst = (np.concatenate([c[k] for c in columns]) for k in (0, 1))
    return CommGraph(1024, src, dst, np.repeat([c[2] for c in columns], task.size))


def sharded_model() -> CommGraph:
    """Return chains of 4 and rings of 8 and of 8: pipeline, data and tensor axes of 256 tasks."""
    place = np.arange(256).reshape(4, 8, 8)
    columns = []
    for axis, nbytes in enumerate((5e4, 1e5, 4e5)):
        here, there = place, np.roll(place, -1, axis)
        if axis == 0:
            here, there = place[:-1], place[1:]
        for src, dst in ((here, there), (there, here)):
            columns.append((src.ravel(), dst.ravel(), np.full(src.size, nbytes)))
    return CommGraph(256, *(np.concatenate([c[k] for c in columns]) for k in range(3)))


def few_with_many() -> CommGraph:
    """Return a graph of 1,024 tasks with power-law degrees, by preferential attachment."""
    graph = nx.barabasi_albert_graph(1024, 6, seed=1)
    src, dst = np.array(graph.edges).T
    nbytes = np.random.default_rng(1).integers(1000, 10_000, src.size).astype(float)
    return CommGraph(1024, src, dst, nbytes)


def unstructured() -> CommGraph:
    """Return a finite-element mesh of 512 parts: neighbours in a random triangulation."""
    points = np.random.default_rng(1).random((512, 3))
    corners = Delaunay(points).simplices
    pairs = np.concatenate([corners[:, [i, j]] for i in range(4) for j in range(4) if i != j])
    src, dst = np.unique(pairs, axis=0).T
    apart = np.linalg.norm(points[src] - points[dst], axis=1)
    return CommGraph(512, src, dst, np.rint(400 / apart))


def transposes() -> CommGraph:
    """Return an FFT of 16 x 16 tasks: equal all-to-alls within rows and within columns."""
    place = np.arange(256).reshape(16, 16)
    pairs = [(a, b) for line in (*place, *place.T) for a in line for b in line if a != b]
    src, dst = np.transpose(pairs)
    return CommGraph(256, src, dst, np.full(src.size, 4096.0))


def with_diagonals() -> CommGraph:
    """Return a 27-point stencil of 8 x 8 x 8 tasks: 64 B over corners, 1 KB over edges, 16 KB."""
    place = np.arange(512).reshape(8, 8, 8)
    columns = []
    for step in itertools.product((-1, 0, 1), repeat=3):
        apart = sum(map(abs, step))
        if apart:
            there = np.roll(place, step, (0, 1, 2))
            nbytes = 2.0 ** (18 - 4 * apart)
            columns.append((place.ravel(), there.ravel(), np.full(512, nbytes)))
    return CommGraph(512, *(np.concatenate([c[k] for c in columns]) for k in range(3)))


def cases(spd_file: Path | None) -> Iterator[tuple[str, CommGraph, Torus, str, tuple[float, ...]]]:
    """Return name, graph, torus, objective and search times of each case."""
    for name, shape in CAPTURED.items():
        comm = datasets.load(name).scaled(1 / datasets.provenance(name)["iterations"])
        yield name, renumbered(comm), Torus(shape), "time", SECONDS
    comm, torus = renumbered(spd(spd_file)), Torus((8, 8, 16))
    yield "sp.D in 1 s", comm, torus, "max_bytes", (1.0,)
    yield "sp.D in 10 s", comm, torus, "max_bytes", (10.0,)
    yield "sp.D hops", comm, torus, "hop_bytes", (10.0,)
    yield "sharded model", renumbered(sharded_model()), Torus((16, 16)), "time", SECONDS
    yield "few with many", few_with_many(), torus, "time", SECONDS
    yield "unstructured", unstructured(), Torus((8, 8, 8)), "time", SECONDS
    yield "transposes", renumbered(transposes()), Torus((4, 8, 8)), "time", SECONDS
    yield "27 points", renumbered(with_diagonals()), Torus((4, 8, 16)), "time", SECONDS
    yield "random pairs", patterns.random_pairs(256, 8, 4096), Torus((4, 8, 8)), "time", SECONDS
    rack = Torus(RACK)
    plane = patterns.halo_2d((128, 128), PAYLOAD, periodic=True)
    yield "halo 2-D", renumbered(plane), rack, "time", SECONDS
    space = patterns.halo_3d((16, 32, 32), PAYLOAD, periodic=True)
    yield "halo 3-D", renumbered(space), rack, "time", SECONDS


def map_with_sharedmap(problem: MappingProblem, allocation: Allocation) -> list[TaskMapping]:
    """Map with SharedMap onto the hierarchy of blocks that result from halving the torus."""
    from chszlablib import Decomposition, Graph

    torus, weights = problem.torus, _integer_weights(problem)
    graph = Graph.from_csr(weights.indptr, weights.indices, edge_weights=weights.data)
    sizes, blocks = list(torus.shape), np.arange(torus.n_nodes).reshape(torus.shape)
    hierarchy, distance, parts = [], [], [blocks]
    while max(sizes) > 1:
        # Divide the longest dimension by its smallest prime factor.
        k = int(np.argmax(sizes))
        factor = next(i for i in range(2, sizes[k] + 1) if sizes[k] % i == 0)
        hierarchy.append(factor)
        # Diameter of a block of these sizes.
        distance.append(
            sum(
                size // 2 if wrap else size - 1
                for size, wrap in zip(sizes, torus.wrap, strict=True)
            )
        )
        sizes[k] //= factor
        parts = [half for part in parts for half in np.split(part, factor, k)]
    node = np.array([int(part.item()) for part in parts])
    found = []
    for seed in range(5):
        # Levels begin with the smallest blocks. Without imbalance SharedMap may not terminate.
        placed = Decomposition.process_map(
            graph, hierarchy[::-1], distance[::-1], mode="strong", seed=seed
        )
        mapping = TaskMapping(
            node[placed.assignment], torus, tasks_per_node=problem.n_tasks, name=f"sharedmap@{seed}"
        )
        found.append(allocation.confine(mapping))
    return found


def value_of(comm: CommGraph, torus: Torus, mapping: TaskMapping, objective: str) -> float:
    """Return the objective of a mapping, with an error of 1 %."""
    if objective == "time":
        return float(simulate(comm, torus, mapping, error=_ERROR).time)
    routed = RoutedTraffic(MappingProblem(comm, torus), mapping)
    return float(FEATURES[objective].function(routed))


@contextmanager
def busy(number: int) -> Iterator[None]:
    """Keep a number of processors busy."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(number)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def processor_seconds() -> float:
    """Return the processor seconds of this process and its children."""
    return sum(os.times()[:4])


def rows_of(
    name: str,
    comm: CommGraph,
    torus: Torus,
    objective: str,
    seconds: tuple[float, ...],
    n_busy: int,
    known: list[dict[str, Any]],
) -> Iterator[dict[str, Any]]:
    """Yield the results of each method."""
    capacity = -(-comm.n_tasks // torus.n_nodes)
    allocation = Allocation(torus, tasks_per_node=capacity)

    def row(method: str, found: list[TaskMapping], spent: float, **more: Any) -> dict[str, Any]:
        values = [value_of(comm, torus, mapping, objective) for mapping in found]
        return {
            "case": name,
            "torus": str(torus),
            "objective": objective,
            "method": method,
            "runs": len(found),
            "value": min(values),
            "processor_seconds": spent,
            **more,
        }

    yield from known
    peers = [] if known else [("scotch", RUNS)]
    if peers and torus.n_nodes <= MT_KAHYPAR_NODES:
        peers.append(("mt-kahypar", 5))
    for program, runs in peers:
        began = processor_seconds()
        try:
            found = map_with_programs((program,), MappingProblem(comm, torus), allocation, 0, runs)
        except InputError as error:
            print(f"{name}: {error}")
            continue
        yield row(program, found, processor_seconds() - began)
    if not known:
        began = processor_seconds()
        names = strategies.variants(comm, torus, tasks_per_node=capacity)
        if comm.n_tasks > 4000:
            names = [each for each in names if not each.startswith(("greedy", "random"))][:12]
        names = [*names, "spectral"]
        made = [strategies.make(each, comm, torus, tasks_per_node=capacity) for each in names]
        yield row("best strategy", made, processor_seconds() - began)
    trials = [(f"search in {most:g} s", most, 0) for most in seconds]
    if n_busy:
        trials += [
            (f"search in {most:g} s, busy", most, n_busy)
            for most in seconds
            if most in BUSY_SECONDS
        ]
    began = processor_seconds()
    try:
        found = map_with_sharedmap(MappingProblem(comm, torus), allocation)
    except ImportError as error:
        print(f"{name}: {error}")
    else:
        spent = processor_seconds() - began
        yield row("sharedmap", found, spent)
        trials.append(("our search in sharedmap's time", max(spent / len(found), 0.1), 0))
    for method, most, n_loops in trials:
        with busy(n_loops):
            began, clock = processor_seconds(), time.monotonic()
            best = tc.search(
                comm,
                # All methods are compared by simulations of the described network.
                torus.with_network(unknown_rules=()),
                seconds=most,
                objective=objective,
                tasks_per_node=capacity,
                n_jobs=JOBS,
            )
            spent, clock = processor_seconds() - began, time.monotonic() - clock
        more = {"seconds": clock, "bound": best.bound, "from": best.best.name, "busy": n_loops}
        yield row(method, [best.best], spent, **more)


def main() -> None:
    """Run all cases and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--spd", type=Path, help="the captured graph of SP.D")
    parser.add_argument(
        "--mark", type=float, nargs="*", default=[], help="seconds of a longer run of each case"
    )
    parser.add_argument("--busy", type=int, default=0, help="loops that keep it busy")
    parser.add_argument("--only", nargs="*", help="cases whose names begin so")
    parser.add_argument("--again", type=Path, help="search.csv with the other methods' rows")
    words = parser.parse_args()
    before = pd.DataFrame(columns=["case", "method"], dtype=str)
    if words.again:
        before = pd.read_csv(words.again)
        before = before[~before["method"].str.contains("search|sharedmap")]
    words.out.mkdir(parents=True, exist_ok=True)
    machine = describe_machine()
    # Compile the kernels first.
    tc.search(patterns.halo_2d((4, 4), PAYLOAD), Torus((4, 4)), n_sweeps=24)
    rows = []
    for name, comm, torus, objective, seconds in cases(words.spd):
        if words.only and not name.startswith(tuple(words.only)):
            continue
        known = before[before["case"] == name].dropna(axis=1).to_dict("records")
        seconds = (*seconds, *words.mark)
        for row in rows_of(name, comm, torus, objective, seconds, words.busy, known):
            print({key: row[key] for key in ("case", "method", "value", "processor_seconds")})
            rows.append(row)
            table = pd.DataFrame([{**row, **machine} for row in rows])
            table.to_csv(words.out / "search.csv", index=False)


if __name__ == "__main__":
    main()
