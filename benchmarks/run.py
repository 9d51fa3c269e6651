"""Measure the kernels and write CSV: one row per case, with machine, versions and sizes.

    python benchmarks/run.py --out FOLDER [--large]

Processor seconds are those of this process (one core), the best of several runs after compilation.
A peer is another implementation of the same result, and a limit is the time that this machine's
memory allows. Both are measured in the same process. The peer `walk` visits every link of every
route, and is compiled too. `networkx` finds a shortest path for one message after another. `numpy`
computes the hops of all messages at once.

The limit is the time to stream the bytes that a message reads and writes sequentially. For link
loads it also includes the messages of tasks on neighbouring nodes, which are far apart in memory,
and the random updates of a message in as much memory as the link runs of a block of nodes need.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd

import toruscast as tc
from toruscast._jit import kernel
from toruscast._llvm import prefetch
from toruscast.answers.html import describe_machine
from toruscast.mapping import CommGraph, MappingProblem, TaskMapping, Torus, patterns
from toruscast.routing import Routing, dilations, injection_fifos, link_loads
from toruscast.routing._load_kernels import BLOCK_NODES, TASKS_AHEAD
from toruscast.routing.routing import grid_of
from toruscast.simulation import simulate, simulate_flows

# Task grid and node grid, with 16 tasks per node.
SIZES: dict[str, tuple[tuple[int, int, int], tuple[int, ...]]] = {
    "16,384 tasks": ((16, 32, 32), (4, 4, 4, 8, 2)),
    "65,536 tasks": ((32, 32, 64), (4, 4, 8, 16, 2)),
    "262,144 tasks": ((64, 64, 64), (8, 8, 8, 16, 2)),
    "1,048,576 tasks": ((64, 128, 128), (16, 16, 16, 8, 2)),
}
PAYLOAD = 512
MANY = 1000
# Bytes that a message reads and writes sequentially. A written byte counts twice, because its
# cache line is read too. Link loads: the destination and its code. Dilations and FIFOs: both
# endpoints and the result.
IN_ORDER = {"link_loads": 4 + 2 * 4, "dilations": 8 + 2 * 4, "injection_fifos": 8 + 2 * 4}


@kernel
def walk(grid, src, dst, node, weight, load):  # type: ignore[no-untyped-def]
    """Add every message to its links, one hop after another."""
    ndim = grid.shape.size
    for e in range(src.size):
        here = np.int64(node[src[e]])
        target = node[dst[e]]
        for k in grid.order:
            s = np.int64(grid.coords[here, k])
            gap = grid.coords[target, k] - s
            size = grid.shape[k]
            if grid.wrap[k]:
                gap += size * (gap < 0)
                if 2 * gap > size or (2 * gap == size and s % 2):
                    gap -= size
            step = 1 if gap > 0 else -1
            port = 2 * k + (0 if gap > 0 else 1)
            for _ in range(abs(gap)):
                load[here * 2 * ndim + port] += weight[e]
                s += step
                here += step * grid.stride[k]
                if s == size or s < 0:
                    s -= step * size
                    here -= step * size * grid.stride[k]


@kernel
def stream(numbers):  # type: ignore[no-untyped-def]
    """Add numbers in four sums, so that additions do not wait for each other."""
    a = b = c = d = np.int64(0)
    for i in range(0, numbers.size, 4):
        a += numbers[i]
        b += numbers[i + 1]
        c += numbers[i + 2]
        d += numbers[i + 3]
    return a + b + c + d


@kernel
def update(place, numbers):  # type: ignore[no-untyped-def]
    """Add one to numbers at many positions."""
    for i in range(place.size):
        numbers[place[i]] += 1


@kernel
def visit(first, code, weight):  # type: ignore[no-untyped-def]
    """Add up the codes and weights of all messages of some tasks."""
    total = np.int64(0)
    for n in range(first.shape[0]):
        soon = first[min(n + TASKS_AHEAD, first.shape[0] - 1)]
        for e in range(soon[0], soon[1], 8):
            prefetch(code, e)
            prefetch(weight, e)
        for e in range(first[n, 0], first[n, 1]):
            total += code[e] ^ weight[e]
    return total


def memory_limits(comm: CommGraph, torus: Torus) -> dict[str, float]:
    """Return the messages per second that memory allows for each function."""
    many = np.zeros(2**25, dtype=np.int64)
    a_byte = best_of(lambda: stream(many), 5) / many.nbytes
    draw = np.random.default_rng(3)
    tasks = draw.permutation(np.column_stack([comm.first[:-1], comm.first[1:]]))
    code, weight = np.zeros(comm.n_edges, np.int32), np.zeros(comm.n_edges, np.int64)
    a_visit = best_of(lambda: visit(tasks, code, weight), 5) / comm.n_edges
    runs = np.zeros(min(torus.n_nodes, BLOCK_NODES) * sum(torus.shape), dtype=np.int64)
    place = draw.integers(0, runs.size, 2**22)
    # The positions themselves are read sequentially.
    an_update = best_of(lambda: update(place, runs), 5) / place.size - 8 * a_byte
    seconds = {name: nbytes * a_byte for name, nbytes in IN_ORDER.items()}
    seconds["link_loads"] += a_visit + torus.ndim * an_update
    return {name: 1 / took for name, took in seconds.items()}


def case(size: str, packets: int = 1) -> tuple[CommGraph, Torus, TaskMapping]:
    """Return a periodic 15-point halo and a random mapping with 16 tasks per node."""
    grid, shape = SIZES[size]
    comm = patterns.halo_3d(grid, PAYLOAD * packets, periodic=True)
    torus = Torus(shape)
    seats = np.repeat(np.arange(torus.n_nodes), 16)
    node = np.random.default_rng(1).permutation(seats)
    return comm, torus, TaskMapping(node, torus, name="random")


def best_of(function: Callable[[], Any], runs: int) -> float:
    """Return the processor seconds of the fastest run, without the first one."""
    function()
    times = []
    for _ in range(runs):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return min(times)


def link_load_rows(size: str) -> Iterator[dict[str, Any]]:
    """Measure link loads and other results of routing without times."""
    comm, torus, mapping = case(size)
    messages = {"size": size, "unit": "messages", "count": comm.n_edges}
    seconds = {
        function.__name__: best_of(lambda f=function: f(comm, torus, mapping), 5)
        for function in (link_loads, dilations, injection_fifos)
    }
    grid, weight = grid_of(torus), comm.nbytes.astype(np.int64)
    load = np.zeros(torus.n_links, dtype=np.int64)
    walk(grid, comm.src, comm.dst, mapping.node, weight, load)
    if not np.array_equal(load, link_loads(MappingProblem(comm, torus), mapping)):
        raise AssertionError("the peer loads other links")
    walking = best_of(lambda: walk(grid, comm.src, comm.dst, mapping.node, weight, load), 2)
    measured = best_of(lambda: torus.distance(mapping.node[comm.src], mapping.node[comm.dst]), 2)
    peers = {"link_loads": ("walk", walking), "dilations": ("numpy", measured)}
    limits = memory_limits(comm, torus)
    for name, took in seconds.items():
        row = {"case": name, **messages, "seconds": took, "limit": limits[name]}
        if name in peers:
            row |= dict(zip(("peer", "peer_seconds"), peers[name], strict=True))
        yield row
    if size != "16,384 tasks":
        return
    yield {
        "case": "all level-1 features",
        "size": size,
        "unit": "mappings",
        "count": 1,
        "seconds": best_of(lambda: tc.features(comm, torus, [mapping]), 5),
    }
    draw = np.random.default_rng(3)
    many = [TaskMapping(draw.permutation(mapping.node), torus, name=str(i)) for i in range(MANY)]
    passed = []
    for cores in (1, 2):
        start = time.perf_counter()
        tc.features(comm, torus, many, n_jobs=cores)
        passed.append(time.perf_counter() - start)
    yield {
        "case": "all level-1 features, two cores",
        "size": size,
        "unit": "mappings",
        "count": MANY,
        "seconds": passed[1],
        "peer": "one core",
        "peer_seconds": passed[0],
    }
    host = torus.to_networkx()
    some = np.random.default_rng(2).choice(comm.n_edges, 200, replace=False)
    ends = mapping.node[comm.src[some]].tolist(), mapping.node[comm.dst[some]].tolist()
    took = best_of(lambda: [nx.shortest_path(host, a, b) for a, b in zip(*ends, strict=True)], 1)
    yield {
        "case": "link_loads",
        **messages,
        "seconds": seconds["link_loads"],
        "peer": "networkx shortest_path",
        "peer_seconds": took / 200 * comm.n_edges,
    }


def simulator_rows(size: str) -> Iterator[dict[str, Any]]:
    """Measure the packet simulator with 16 packets per message."""
    comm, torus, mapping = case(size, packets=16)
    kinds: list[Routing] = ["deterministic"]
    if size == "16,384 tasks":
        kinds.append("adaptive")
    usual = None
    for routing in kinds:
        hops = simulate(comm, torus, mapping, routing=routing).packet_hops
        seconds = best_of(
            lambda r=routing: simulate(comm, torus, mapping, routing=r),
            5 if size == "16,384 tasks" else 2,
        )
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
        row = {
            "case": f"simulate {routing}",
            "size": size,
            "unit": "packet-hops",
            "count": hops,
            "seconds": seconds,
            "peak_gb": peak,
        }
        if usual is not None:
            row |= {"peer": "simulate deterministic", "peer_seconds": usual}
        usual = usual or seconds
        yield row


def flow_rows(size: str) -> Iterator[dict[str, Any]]:
    """Measure the flow-level simulator on long messages, and on short ones placed at random."""
    grid, _ = SIZES[size]
    cubes = {"16,384 tasks": (16, 16, 16), "65,536 tasks": (32, 32, 16)}
    short, cube = patterns.halo_3d(grid, 2048.0, periodic=True), Torus(cubes[size])
    drawn = TaskMapping(np.random.default_rng(0).permutation(short.n_tasks) // 4, cube)
    cases = {
        "simulate_flows": (*case(size, packets=1024), 64),
        "simulate_flows, 2 kB at random": (short, cube, drawn, 1),
    }
    for name, (comm, torus, mapping, merged) in cases.items():
        flowing = partial(simulate_flows, comm, torus, mapping, error=0.01)
        packets = partial(simulate, comm, torus, mapping, coarsening=merged)
        yield {
            "case": name,
            "size": size,
            "unit": "messages",
            "count": comm.n_edges,
            "seconds": best_of(flowing, 1),
            "peer": f"simulate, {merged} packets in one",
            "peer_seconds": best_of(packets, 1),
        }


def machine() -> dict[str, Any]:
    """Describe this machine and the versions of the software."""
    found = describe_machine()
    wanted = ("cpu", "cores", "Python", "toruscast", "numpy", "numba")
    return {name.lower(): found[name] for name in wanted}


def main() -> None:
    """Run the requested measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder for kernels.csv")
    parser.add_argument("--large", action="store_true", help="also 65,536 tasks in the simulator")
    arguments = parser.parse_args()
    # Run the simulator first, because the peak memory includes everything that ran before.
    rows: list[dict[str, Any]] = []
    for size in ("16,384 tasks", "65,536 tasks")[: 1 + arguments.large]:
        rows += simulator_rows(size)
        rows += flow_rows(size)
    rows += [row for size in SIZES for row in link_load_rows(size)]
    table = pd.DataFrame(rows)
    table.insert(5, "per_second", table["count"] / table["seconds"])
    table["times_the_peer"] = table["peer_seconds"] / table["seconds"]
    table["share_of_limit"] = table["per_second"] / table["limit"]
    arguments.out.mkdir(parents=True, exist_ok=True)
    table.assign(**machine()).to_csv(arguments.out / "kernels.csv", index=False)
    print(table.to_string(index=False, float_format="%.4g"))


if __name__ == "__main__":
    main()
