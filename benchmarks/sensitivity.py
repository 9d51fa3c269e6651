"""Measure how simulated times depend on unknown constants and on coarsening; writes CSV.

    python benchmarks/sensitivity.py --out FOLDER

`buffers.csv`: for the 84 candidates of `make rank` and several buffer depths, the order by the
lower bound, by a coarse simulation, and by the same machine with a hop of 41 instead of 40 ns,
which shows how much of the order is chance. `coarsening.csv`: the ratio of the time with coarser
packets to the time with real ones, by pattern and message size. `error-targets.csv`: the same ratio
for the coarsening that an error of 3 % chooses, and the cost of the choice. `flows.csv`: flows
compared with real packets that have small or large buffers. `flow-errors.csv`: flows with several
errors compared with exact rates.
"""

from __future__ import annotations

import argparse
import itertools
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd

from toruscast import datasets
from toruscast.mapping import (
    CommGraph,
    MappingProblem,
    TaskMapping,
    Torus,
    machines,
    patterns,
    strategies,
)
from toruscast.routing import Routing, time_bounds
from toruscast.simulation import simulate, simulate_flows
from toruscast.training import rcc, rcc_told_apart


def times_of(
    comm: CommGraph,
    torus: Torus,
    mappings: list[TaskMapping],
    coarsening: int = 1,
    routing: Routing = "deterministic",
) -> np.ndarray:
    """Return the simulated time of each mapping."""
    run = joblib.delayed(
        lambda m: simulate(comm, torus, m, coarsening=coarsening, routing=routing).time
    )
    return np.array(joblib.Parallel(n_jobs=2, prefer="threads")(run(m) for m in mappings))


def buffers() -> pd.DataFrame:
    """Rank the candidates of `make rank` at several buffer depths."""
    name = "lammps-lj-512"
    comm = datasets.load(name).scaled(1 / datasets.provenance(name)["iterations"])
    torus = Torus((8, 8, 8))
    candidates = strategies.sample(comm, torus, n=84, seed=1)
    bound = [time_bounds(MappingProblem(comm, torus), m).total for m in candidates]
    rows = []
    for depth in (4, 8, 16, 32, 64, 256):
        host = torus.with_network(buffer_packets=depth)
        observed = times_of(comm, host, candidates)
        rows.append(
            {
                "buffer_packets": depth,
                "rcc_lower_bound": rcc(observed, bound),
                "rcc_sketch": rcc(observed, times_of(comm, host, candidates, coarsening=4)),
                "rcc_hop_of_41_ns": rcc(
                    observed, times_of(comm, host.with_network(hop_latency=41e-9), candidates)
                ),
                "median_slowdown": float(np.median(observed / bound)),
            }
        )
    return pd.DataFrame(rows)


def coarsening() -> pd.DataFrame:
    """Compare coarser packets with real ones, also for the long messages of the stored samples."""
    torus = Torus((4, 4, 4, 4, 2))
    rows: list[dict[str, object]] = []
    for packets, factors in ((16, (2, 4, 16)), (128, (2, 4, 16)), (1024, (4, 16))):
        graphs = halos_and_exchange(512 * packets, 512 * packets // 4)
        rows += coarser(graphs, torus, 16, factors, "deterministic")
    # 16 tasks per node, with adaptive routing.
    graphs = halos_and_exchange(2**22, 2**22)
    host = machines.bluegene_q((2, 2, 2, 2, 2))
    rows += coarser(graphs, host, 8, LONG_FACTORS, "adaptive")
    return pd.DataFrame(rows)


def halos_and_exchange(nbytes: float, exchanged: float) -> dict[str, CommGraph]:
    """Return three patterns of 512 tasks, the third with messages of a given size."""
    return {
        "halo_2d": patterns.halo_2d((16, 32), nbytes, periodic=True),
        "halo_3d": patterns.halo_3d((8, 8, 8), nbytes, periodic=True),
        "sub_all_to_all, 16 tasks": patterns.sub_all_to_all(512, exchanged, group=16),
    }


def coarser(
    graphs: dict[str, CommGraph], torus: Torus, n: int, factors: tuple[int, ...], routing: Routing
) -> Iterator[dict[str, object]]:
    """Yield a row for each pattern and coarsening, over a number of mappings."""
    for name, comm in graphs.items():
        mappings = strategies.sample(
            comm, torus, n=n, seed=3, tasks_per_node=comm.n_tasks // torus.n_nodes
        )
        fine = times_of(comm, torus, mappings, routing=routing)
        for factor in factors:
            ratio = times_of(comm, torus, mappings, factor, routing) / fine
            yield {
                "pattern": name,
                "torus": str(torus),
                "routing": routing,
                "bytes": float(comm.nbytes[0]),
                "coarsening": factor,
                "median_ratio": float(np.median(ratio)),
                "least_ratio": ratio.min(),
                "largest_ratio": ratio.max(),
                "rcc": rcc(fine, ratio * fine),
            }


# Real packets in a packet of the stored samples, for messages of 4 MB.
LONG_FACTORS = (128, 512, 1024, 2048, 4096)
# Seeds of the mappings that test the error targets.
TARGET_SEEDS = (3, 7, 11, 13, 17, 19, 23, 29)
# Seeds of the mappings that test flows.
FLOW_SEEDS = (3, 7)
# Hosts with task grids for the flows: many tasks, or few tasks with messages so long that packets
# can be merged.
HOSTS = {512: ((8, 8, 8), (16, 32), (8, 8, 8)), 64: ((4, 4, 4), (8, 8), (4, 4, 4))}


def traffic(tasks: int, pattern: str, nbytes: float) -> CommGraph:
    """Return a pattern on the task grids of a host."""
    _, plane, cube = HOSTS[tasks]
    if pattern == "halo_2d":
        return patterns.halo_2d(plane, nbytes, periodic=True)
    if pattern == "halo_3d":
        return patterns.halo_3d(cube, nbytes, periodic=True)
    return patterns.sub_all_to_all(math.prod(cube), nbytes, group=8)


def drawn(comm: CommGraph, host: Torus, seeds: tuple[int, ...]) -> list[TaskMapping]:
    """Return the mappings of all seeds; some do not depend on the seed."""
    every = (m for s in seeds for m in strategies.sample(comm, host, n=12, seed=s))
    return list({m.node.tobytes(): m for m in every}.values())


def error_targets() -> pd.DataFrame:
    """Choose the coarsening by an error of 3 %, and compare with real packets."""
    rows = []
    cases = (
        *((512, "halo_2d", packets) for packets in (1024, 4096)),
        *((512, "halo_3d", packets) for packets in (256, 1024)),
        *((64, "halo_2d", packets) for packets in (2048, 8192, 32768)),
        *((64, name, 8192) for name in ("halo_3d", "sub_all_to_all")),
    )
    for tasks, pattern, packets in cases:
        comm = traffic(tasks, pattern, 512 * packets)
        for depth in (32, 256):
            host = Torus(HOSTS[tasks][0]).with_network(buffer_packets=depth)
            mappings = drawn(comm, host, TARGET_SEEDS)
            start = time.process_time()
            fine = times_of(comm, host, mappings)
            middle = time.process_time()
            chosen = [simulate(comm, host, m, error=0.03) for m in mappings]
            spent = time.process_time() - middle
            told = np.array([result.time for result in chosen])
            wrong = np.abs(told / fine - 1)
            rows.append(
                {
                    "tasks": tasks,
                    "pattern": pattern,
                    "bytes": float(comm.nbytes[0]),
                    "buffer_packets": depth,
                    "mappings": len(mappings),
                    "merged": sum(result.coarsening > 1 for result in chosen),
                    "median_error": float(np.median(wrong)),
                    "largest_error": wrong.max(),
                    "rcc": rcc(fine, told),
                    "cost": spent / (middle - start),
                }
            )
    return pd.DataFrame(rows)


# Buffers behind the links and injection of a node, from those of a router to those of a flow.
ROOM: dict[str, dict[str, Any]] = {
    "32 packets": {},
    "4,096 packets": {"buffer_packets": 4096},
}


def flows() -> pd.DataFrame:
    """Compare flows with real packets that have larger or smaller buffers."""
    rows = []
    for pattern in ("halo_2d", "halo_3d", "sub_all_to_all"):
        for (room, changes), packets in itertools.product(ROOM.items(), (16, 256)):
            host = Torus(HOSTS[512][0]).with_network(**changes)
            comm = traffic(512, pattern, 512 * packets)
            mappings = drawn(comm, host, FLOW_SEEDS)
            start = time.process_time()
            fine = times_of(comm, host, mappings)
            middle = time.process_time()
            told = np.array([simulate_flows(comm, host, m).time for m in mappings])
            spent = time.process_time() - middle
            bound = [time_bounds(MappingProblem(comm, host), m).total for m in mappings]
            rows.append(
                {
                    "pattern": pattern,
                    "bytes": float(comm.nbytes[0]),
                    "room": room,
                    "mappings": len(mappings),
                    "rcc": rcc(fine, told),
                    "rcc_lower_bound": rcc(fine, bound),
                    "median_ratio": float(np.median(told / fine)),
                    "seconds": spent / len(mappings),
                    "cost": spent / (middle - start),
                }
            )
    return pd.DataFrame(rows)


def flow_errors() -> pd.DataFrame:
    """Compare flows of several errors with exact rates, for 2,048 tasks."""
    torus = Torus((4, 4, 4, 2))
    comm = patterns.halo_3d((16, 16, 8), 2**19, periodic=True)
    mappings = strategies.sample(comm, torus, n=20, seed=1, tasks_per_node=16)
    rows: list[dict[str, object]] = []
    times: dict[float, np.ndarray] = {}
    for error in (0.0, 0.001, 0.003, 0.01):
        start = time.process_time()
        flowing = [simulate_flows(comm, torus, m, error=error).time for m in mappings]
        times[error] = np.array(flowing)
        seconds = (time.process_time() - start) / len(mappings)
        row = {"error": error, "mappings": len(mappings), "seconds": seconds}
        if error:
            row |= {
                "rcc": rcc(times[0.0], times[error]),
                "rcc_1_percent_apart": rcc_told_apart(times[0.0], times[error], 0.01),
                "largest_error": float(np.abs(times[error] / times[0.0] - 1).max()),
            }
        rows.append(row)
    return pd.DataFrame(rows)


def main() -> None:
    """Run all comparisons and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    folder = parser.parse_args().out
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in (
        ("buffers", buffers),
        ("coarsening", coarsening),
        ("error-targets", error_targets),
        ("flows", flows),
        ("flow-errors", flow_errors),
    ):
        table = make()
        table.to_csv(folder / f"{name}.csv", index=False)
        print(table.to_string(index=False, float_format="%.3f"), end="\n\n")


if __name__ == "__main__":
    main()
