"""Compare packets with wormhole routers, which move flits, on small tori; writes flits.csv.

    python benchmarks/flits.py --out FOLDER [--cases 40]

The simulation of the routers is slow and simple. Behind each link are the virtual channels of both
datelines. Each channel is a buffer of flits, which belongs to one packet from its head to its tail.
A link carries one flit per cycle, from the channels in turn that have a flit and a credit, so flits
of several packets share the link.

Each row is a case, with the last cycle of the routers and the result of `simulate` for two
descriptions of the buffers: the channels of the routers, and packets that do not queue.
"""

from __future__ import annotations

import argparse
from collections import defaultdict, deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from toruscast.mapping import CommGraph, Network, TaskMapping, Torus, sum_edges
from toruscast.routing.messages import hand_over_times
from toruscast.routing.routing import routes
from toruscast.simulation import simulate

SHAPES = ((5, 5), (7, 7), (3, 3, 3), (4, 4, 4), (8, 8))
# Flits and bytes of a packet, cycles of a hop, and bandwidth of a link in bytes per second.
FLITS, PAYLOAD, LATENCY, BANDWIDTH = 8, 512, 4, 64e9
# Seeds of the random choice of a channel. Both simulators are averaged over them.
SEEDS = 4
# Descriptions of the routers' buffers for `simulate`: two channels of a packet each.
BUFFERS: dict[str, dict[str, Any]] = {"2 places": {"buffer_packets": 2}, "1 place": {}}
# A channel (link, dateline class and number), or the injection of a node, which is negative.
Channel = tuple[int, int, int]
FIRST: Channel = (-(2**62), 0, 0)


def dateline_classes(torus: Torus, links: NDArray[np.int64], rng: np.random.Generator) -> list[int]:
    """Return the dateline class of each hop, 0 or 1.

    It is 1 if the route crosses the edge of its ring, 0 if it crosses the middle, else random.
    """
    node, port = np.divmod(links, 2 * torus.ndim)
    dimension, minus = np.divmod(port, 2)
    found = np.empty(len(links), dtype=int)
    for d in set(dimension.tolist()):
        hops = np.flatnonzero(dimension == d)
        size = torus.shape[d]
        at = torus.coords[node[hops], d]
        # The gap between positions g and g + 1 (modulo the size). The last gap is the edge.
        gaps = {int(a - 1) % size if m else int(a) for a, m in zip(at, minus[hops], strict=True)}
        middle = (size - 1) // 2
        found[hops] = 1 if size - 1 in gaps else 0 if middle in gaps else int(rng.integers(2))
    return found.tolist()


def last_cycle(
    comm: CommGraph,
    torus: Torus,
    node: NDArray[np.int64],
    *,
    channels: int = 2,
    depth: int = FLITS,
    seed: int = 0,
) -> int:
    """Return the cycle in which the last flit arrives.

    Parameters
    ----------
    comm, torus, node
        Messages of as many packets as ``n_messages`` says, in the order in which a task hands them
        over.
    channels, depth : int
        Virtual channels of each dateline class, and places for flits of each.
    """
    rng = np.random.default_rng(seed)
    first, links = routes(torus, node[comm.src], node[comm.dst])
    ways: list[list[tuple[int, int]]] = []
    feeds: dict[int, deque[int]] = defaultdict(deque)
    for e in hand_over_times(comm, torus.network)[0]:
        way = links[first[e] : first[e + 1]].astype(int)
        for _ in range(int(comm.n_messages[e])):
            if len(way):
                feeds[int(node[comm.src[e]])].append(len(ways))
                ways.append(list(zip(way.tolist(), dateline_classes(torus, way, rng), strict=True)))
    # An input is a channel or the injection of a node. A flit is (cycle, packet, hop, position).
    buffer: dict[Channel, deque[tuple[int, int, int, int]]] = defaultdict(deque)
    for place, packets in feeds.items():
        buffer[(-1 - place, 0, 0)] = deque((0, p, 0, f) for p in packets for f in range(FLITS))
    owner: dict[Channel, int] = {}
    granted: dict[tuple[int, int], Channel] = {}
    credits: dict[Channel, int] = defaultdict(lambda: depth)
    returning: deque[tuple[int, Channel]] = deque()
    turn: dict[int, Channel] = {}
    left, now = len(ways) * FLITS, 0
    while left:
        while returning and returning[0][0] <= now:
            credits[returning.popleft()[1]] += 1
        wishes: dict[int, list[Channel]] = defaultdict(list)
        moved = []
        for source, waiting in buffer.items():
            if waiting and waiting[0][0] <= now:
                _, packet, hop, _ = waiting[0]
                if hop == len(ways[packet]):
                    moved.append(source)
                    left -= 1
                else:
                    wishes[ways[packet][hop][0]].append(source)
        for link, sources in wishes.items():
            for source in sorted(sources, key=lambda s: (s <= turn.get(link, FIRST), s)):
                _, packet, hop, place = buffer[source][0]
                target = granted.get((packet, hop))
                if target is None:
                    several = ((link, ways[packet][hop][1], number) for number in range(channels))
                    free = [c for c in several if c not in owner]
                    target = max(free, key=lambda c: credits[c], default=None)
                if target is None or credits[target] == 0:
                    continue
                granted[(packet, hop)], owner[target] = target, packet
                if place == FLITS - 1:
                    del owner[target], granted[(packet, hop)]
                credits[target] -= 1
                buffer[target].append((now + LATENCY, packet, hop + 1, place))
                turn[link] = source
                moved.append(source)
                break
        for source in moved:
            buffer[source].popleft()
            if source[0] >= 0:
                returning.append((now + 1, source))
        now += 1
    return now


def torus_of(shape: tuple[int, ...], buffers: str) -> Torus:
    """Return a torus with the routers' constants: one FIFO per node, no header and no software."""
    ports = 2 * len(shape)
    network = Network(
        payload=PAYLOAD,
        header=0,
        hop_latency=LATENCY * PAYLOAD / FLITS / BANDWIDTH,
        deadlock="dateline",
        fifos=1,
        fifo_rule="round_robin",
        overhead=0.0,
        reception_ports=ports,
        memory_bandwidth=ports * BANDWIDTH,
        **{"buffer_packets": 1} | BUFFERS[buffers],
    )
    return Torus(shape, bandwidth=BANDWIDTH, network=network)


def random_case(number: int) -> tuple[CommGraph, tuple[int, ...], NDArray[np.int64]]:
    """Return a graph with one to four packets per edge, a torus, and the node of each task."""
    rng = np.random.default_rng(number)
    shape = SHAPES[number % len(SHAPES)]
    n, degree, packets = int(np.prod(shape)), int(rng.integers(2, 5)), int(rng.integers(1, 5))
    src = np.repeat(np.arange(n), degree)
    dst = (src + 1 + rng.integers(0, n - 1, src.size)) % n
    return (
        sum_edges(n, src, dst, np.full(src.size, PAYLOAD), np.full(src.size, packets)),
        shape,
        rng.permutation(n),
    )


def cycles_of_packets(comm: CommGraph, torus: Torus, node: NDArray[np.int64]) -> float:
    """Return the time of `simulate` in cycles."""
    sent = CommGraph(comm.n_tasks, comm.src, comm.dst, PAYLOAD * comm.n_messages)
    mapping = TaskMapping(node, torus)
    times = [simulate(sent, torus, mapping, seed=s, coarsening=1).time for s in range(SEEDS)]
    return float(np.mean(times) * BANDWIDTH * FLITS / PAYLOAD)


def rows(n: int) -> Iterator[dict[str, Any]]:
    """Yield the cycles of each case, and the ratios of packets to flits."""
    for number in range(n):
        comm, shape, node = random_case(number)
        row: dict[str, Any] = {"case": number, "torus": "x".join(map(str, shape))}
        row["messages"], row["packets"] = comm.n_edges, int(comm.n_messages.sum())
        torus = torus_of(shape, "1 place")
        seeds = [last_cycle(comm, torus, node, seed=s) for s in range(SEEDS)]
        row["flits"] = float(np.mean(seeds))
        for name in BUFFERS:
            found = cycles_of_packets(comm, torus_of(shape, name), node)
            row[f"ratio, {name}"] = found / row["flits"]
        yield row


def main() -> None:
    """Compare all cases and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--cases", type=int, default=40)
    words = parser.parse_args()
    table = pd.DataFrame(list(rows(words.cases)))
    words.out.mkdir(parents=True, exist_ok=True)
    table.to_csv(words.out / "flits.csv", index=False)
    for name in BUFFERS:
        ratio = table[f"ratio, {name}"]
        mean, far = np.exp(np.log(ratio).mean()), int((abs(ratio - 1) > 0.15).sum())
        print(f"{name}: mean {mean:.3f}, {far} of {len(ratio)} off by more than 15 %")


if __name__ == "__main__":
    main()
