"""Check that no simulated time of random cases is below its lower bound, without tolerance.

python tools/bound_law.py [--cases 100000] [--seed 1]

The cases are small tori, meshes and twisted tori; networks whose constants are not whole numbers of
ticks; one or many tasks per node; phases, rounds and iterations; every routing; and merged packets.
Prints the times below their bound, the number of cases, and the smallest ratio of time to bound.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from toruscast._features import RoutedTraffic
from toruscast.errors import InputError
from toruscast.mapping import CommGraph, MappingProblem, Network, TaskMapping, Torus, Workload
from toruscast.mapping.torus import TIE_RULES
from toruscast.mapping.twist import default_twist

_MAPPINGS = 5
TWISTED = ((2, 2, 4), (2, 4, 4), (3, 3, 6))


def seconds(rng: np.random.Generator, packet: float) -> float:
    """Return 0, or a random part or multiple of the time of a packet."""
    return float(rng.choice([0.0, 1.0, 10 ** rng.uniform(-3, 1.5)])) * packet


def speed(rng: np.random.Generator, usual: float) -> float:
    """Return the default bandwidth or a random one, in bytes per second."""
    return usual * float(rng.choice([1.0, 0.5, 10 ** rng.uniform(-1, 0.5)]))


def network(rng: np.random.Generator, usual: float) -> Network:
    """Draw a network with random constants."""
    packet = 544 / usual
    # If a hop takes almost no time, a tick is very short and simulations are slow.
    hop = seconds(rng, packet) if rng.random() < 0.1 else packet * 10 ** rng.uniform(-1.2, 0.5)
    return Network(
        payload=int(rng.choice([64, 97, 512, 1013])),
        header=int(rng.choice([0, 7, 32])),
        hop_latency=float(hop),
        buffer_packets=int(rng.integers(2, 10)),
        fifos=int(rng.choice([1, 3, 10])),
        fifo_rule=str(rng.choice(["bluegene_q", "first_dimension", "first_free"])),  # type: ignore[arg-type]
        fifo_packets=int(rng.choice([1, 1, 2, 5])),
        overhead=seconds(rng, packet),
        short_overhead=seconds(rng, packet),
        short_limit=int(rng.choice([0, 1, 511, 600])),
        eager_limit=float(rng.choice([np.inf, np.inf, 0.0, 512.0, 2000.0])),
        memory_bandwidth=speed(rng, usual),
        reception_ports=int(rng.integers(1, 4)),
        deadlock=str(rng.choice(["bubble", "dateline"])),  # type: ignore[arg-type]
        arbitration=str(rng.choice(["first_come", "round_robin"])),  # type: ignore[arg-type]
        escape=str(rng.choice(["returns", "stays"])),  # type: ignore[arg-type]
        feeding=str(rng.choice(["tasks", "messages", "packets"])),  # type: ignore[arg-type]
        start=seconds(rng, 10 * packet),
    )


def torus(rng: np.random.Generator, own: Network, usual: float) -> Torus:
    """Draw a torus, a mesh, or a twisted torus; some have a slow link."""
    if rng.random() < 0.15:
        shape = TWISTED[int(rng.integers(len(TWISTED)))]
        tie = str(rng.choice(["plus", "source_parity"]))
        return Torus(
            shape,
            bandwidth=speed(rng, usual),
            tie_break=tie,
            network=own,
            twist=default_twist(shape),
        )  # type: ignore[arg-type]
    shape = [int(size) for size in rng.integers(1, 7, int(rng.integers(1, 4)))]
    while np.prod(shape) > 40:
        shape[int(np.argmax(shape))] //= 2
    n = len(shape)
    drawn = Torus(
        shape,
        [bool(wraps) for wraps in rng.random(n) < 0.7],
        [speed(rng, usual) for _ in range(n)] if rng.random() < 0.5 else usual,
        rng.permutation(n).tolist(),
        str(rng.choice(list(TIE_RULES))),  # type: ignore[arg-type]
        own,
    )
    links = np.flatnonzero(drawn.link_exists)
    if links.size and rng.random() < 0.2:
        slow = int(rng.choice(links))
        drawn = drawn.with_links({slow: float(drawn.link_bandwidth[slow] / rng.uniform(1, 30))})
    return drawn


def graph(rng: np.random.Generator, n: int) -> CommGraph:
    """Draw a communication graph; some edges have no messages or no bytes."""
    pairs = rng.choice(n * n, min(n * n, int(rng.integers(1, 30))), replace=False)
    size = rng.choice([0.0, 1.0, 97.0, 512.0, 5_000.0], pairs.size) * rng.uniform(0.9, 1.1)
    nbytes = np.where(rng.random(pairs.size) < 0.5, size, rng.uniform(0.5, 20_000, pairs.size))
    messages = rng.choice([0.4, 1.0, 1.0, 1.0, 2.0, 3.0], pairs.size)
    return CommGraph(n, pairs // n, pairs % n, np.where(messages > 0.5, nbytes, 0.0), messages)


def cases(rng: np.random.Generator) -> Iterator[RoutedTraffic]:
    """Draw a torus, its traffic, and a few mappings."""
    routing = str(rng.choice(["deterministic", "deterministic", "adaptive", "by_size"]))
    usual = float(rng.choice([2e9, 6.8e9, 10 ** rng.uniform(8, 11.3)]))
    host = torus(rng, network(rng, usual), usual)
    n = int(rng.integers(1, 25))
    phases = [graph(rng, n) for _ in range(int(rng.integers(1, 4)))]
    workload = Workload(phases, dependent=bool(rng.integers(2)))
    for _ in range(_MAPPINGS):
        mapping = TaskMapping(rng.integers(0, host.n_nodes, n), host)
        merged = int(rng.choice([0, 1, 1, 2, 3, 7])) or None
        times = int(rng.choice([1, 1, 1, 2, 3]))
        yield RoutedTraffic(MappingProblem(workload, host, routing), mapping, merged, times)  # type: ignore[arg-type]


def main() -> None:
    """Simulate the cases and print the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=100_000, help="simulations")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    below, refused, known, tried = 0, 0, 0, 0
    shares: list[float] = []
    began, number = time.perf_counter(), 0
    while tried < options.cases:
        number += 1
        try:
            for traffic in cases(np.random.default_rng([options.seed, number])):
                # The bound of several iterations may differ after the simulation; check both.
                before = replace(traffic).sure_bound if traffic.iterations > 1 else 0.0
                seconds, bound = traffic.simulation.time, traffic.sure_bound
                tried += 1
                if max(before, bound) > seconds:
                    below += 1
                    print(f"case {number}: {bound!r}, {before!r} above {seconds!r}", flush=True)
                if seconds > 0:
                    known += bound > 0
                    shares.append(bound / seconds)
                if tried % 5000 == 0:
                    print(f"{tried:,} after {time.perf_counter() - began:.0f} s", flush=True)
        except InputError:
            refused += 1
    print(
        f"{tried:,} simulations ({refused:,} drawn cases were refused): {below} end before their "
        f"bound; it is {np.median(shares):.3f} of the time in the middle, and more than 0 for "
        f"{known / max(1, len(shares)):.1%}"
    )
    sys.exit(below > 0)


if __name__ == "__main__":
    main()
