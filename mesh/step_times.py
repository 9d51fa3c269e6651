"""Times of a step and its collectives: in closed form from link loads, and by packets.

On a ring of ``n`` chips whose links carry ``w`` bytes per second each way, an allreduce of ``B``
bytes is a reduce-scatter and an allgather of ``n - 1`` rounds each. In a round every chip sends
``B / n`` bytes to the next one, so the links take ``2 (n - 1) / n * B / w`` in all, or half of that
if half a block goes each way. A chip sends in a round what it got in the last, so each round adds
the software overhead of its messages and the latency of their hops.

On a line the ring is folded (0, 2, 4, ..., 5, 3, 1) or closed by one long way back. Either way each
direction of each link carries one block of a one-way ring, so that takes as long as on a closed
ring, but for the hops: two a round at most, or ``2 (n - 1) / n`` on average with the long way back.
A two-way ring puts two half blocks on each direction, and gains nothing.

Elsewhere the most blocks that go over one link, over its bandwidth, set the pace of a round. A
chain of rounds waits once for each edge of the ring, so a round's latency is an edge's on average.

Packets are simulated for a few rounds where there are many. Flows would be too slow: long ones get
less of a link that they share, and the rounds wait for them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, groupby, islice, product
from operator import truediv
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toruscast._lazy import PickledByFields, lazy
from toruscast.mapping import CommGraph, MappingProblem, TaskMapping, Torus, Workload, sum_edges
from toruscast.mapping.collectives import merged, schedule
from toruscast.mapping.collectives.schedules import copy_to_groups
from toruscast.mapping.omissions import Omission
from toruscast.mapping.torus import TIE_RULES, Exclusions
from toruscast.routing.loads import pair_loads
from toruscast.simulation import Simulation
from toruscast.simulation.simulator import simulate_packets

from .traffic import ALGORITHMS, PARTS, MeshAxes, MeshTraffic, groups_along

# Most messages of a collective that is simulated; a ranking must not take long.
MAX_MESSAGES = 200_000
# Most messages if all rounds are simulated, and of the rounds that give the pace of the others.
_ALL_ROUNDS, _FEW_MESSAGES = 60_000, 12_000
# Real packets are merged: to so many of the longest message, and of all messages together. The
# longest keeps the last of these at least: where all are sent at once, and in rounds.
_PACKETS, _MAX_PACKETS, _MIN_PACKETS = 32, 300_000, (8, 4)
# Pairs of an all-to-all that are listed at once: those of many chips do not fit in memory.
_AT_ONCE = 2**20
# Ways round the ring that a collective is sent at once.
_WAYS = {"ring": 1, "two-way-ring": 2}

Ends = tuple[NDArray[np.int64], NDArray[np.int64]]


class _Pace(NamedTuple):
    """The busiest link of a round, its seconds for a byte of every message, and most messages."""

    link: int
    seconds: float
    messages: float


class _RingSteps(NamedTuple):
    """What a step round the ring of all groups needs; loads of all links would not fit."""

    paces: dict[int, _Pace]  # one way round, and both
    hops: float  # of a message on average,
    farthest: int  # and at most


@dataclass(frozen=True, eq=False)
class Groups(PickledByFields):
    """The nodes of all groups that run a collective at once, ``(n_groups, n)``, and their torus."""

    nodes: NDArray[np.int64]
    torus: Torus

    @property
    def n(self) -> int:
        """Members of a group."""
        return int(self.nodes.shape[1])

    @property
    def ring_ends(self) -> Ends:
        """Sender and receiver of each message of a step round the ring."""
        return self.nodes.ravel(), np.roll(self.nodes, -1, axis=1).ravel()

    def ring_loads(self) -> dict[int, NDArray[np.float64]]:
        """Return the messages over each link in a step round the ring: one way, and both."""
        src, dst = self.ring_ends
        onward = pair_loads(self.torus, src, dst)
        return {1: onward, 2: onward + pair_loads(self.torus, dst, src)}

    @lazy
    def ring_steps(self) -> _RingSteps:
        """Paces and hops of a step round the ring."""
        paces = {}
        for ways, load in self.ring_loads().items():
            seconds = load / self.torus.link_bandwidth
            link = int(seconds.argmax())
            paces[ways] = _Pace(link, float(seconds[link]), float(load.max()))
        hops = self.torus.distance(*self.ring_ends)
        return _RingSteps(paces, float(hops.mean()), int(hops.max()))

    @property
    def boxes(self) -> NDArray[np.int64] | None:
        """Groups as boxes, ``(n_groups, sizes...)``; None if some group is no such box.

        A box has every combination of its coordinates, which need not lie side by side. All boxes
        span as many places of the same dimensions.

        Examples
        --------
        >>> Groups(np.array([[5, 0, 1, 4]]), Torus((4, 4))).boxes.tolist()
        [[[0, 1], [4, 5]]]
        >>> Groups(np.array([[0, 1, 2, 4]]), Torus((4, 4))).boxes is None
        True
        """
        # Nodes are numbered in C order, so a box sorted is one in C order.
        nodes = np.sort(self.nodes, axis=1)
        coords = np.sort(self.torus.coords[nodes], axis=1)
        sizes = 1 + (np.diff(coords, axis=1) != 0).sum(axis=1)
        if (sizes != sizes[0]).any() or np.prod(sizes[0]) != self.n:
            return None
        return nodes.reshape(len(nodes), *sizes[0][sizes[0] > 1])

    def repeating(self) -> Groups:
        """Return the groups in the part of the torus in which they repeat."""
        torus = self.torus
        if not is_uniform(torus):
            return self
        coords = torus.coords[self.nodes]
        shape = list(torus.shape)
        for d, size in enumerate(torus.shape):
            plane = coords[:, 0, d]
            if size == 1 or (coords[..., d] != plane[:, None]).any():
                continue
            moved = coords.copy()
            moved[..., d] = 0
            if (np.unique(moved, axis=0, return_counts=True)[1] == size).all():
                coords, shape[d] = coords[plane == 0], 1
        part = box_of(torus, shape)
        return Groups(np.asarray(part.node(coords), dtype=np.int64), part)


def is_uniform(torus: Torus) -> bool:
    """Return whether routes along some dimensions depend on these alone."""
    return not (torus.twist or torus.exclusions or TIE_RULES[torus.tie_break].with_others)


def box_of(torus: Torus, shape: Sequence[int]) -> Torus:
    """Return a box of a torus, whose rings close where it spans a whole dimension."""
    triples = zip(torus.wrap, shape, torus.shape, strict=True)
    wrap = tuple(w and part == size for w, part, size in triples)
    return replace(
        torus, shape=tuple(shape), wrap=wrap, zones=(), twist=(), exclusions=Exclusions()
    )


def message_ends(traffic: MeshTraffic, groups: Groups) -> Iterator[Ends]:
    """Give sender and receiver of each message of a collective of a single round, in parts.

    Examples
    --------
    >>> groups = Groups(np.array([[4, 5, 6]]), Torus((8,)))
    >>> ((src, dst),) = message_ends(MeshTraffic("pipeline", 8, ("stage",)), groups)
    >>> src.tolist(), dst.tolist()
    ([4, 5], [5, 6])
    """
    n, nodes = groups.n, groups.nodes
    here, there = groups.ring_ends
    if traffic.pairs is not None:
        yield nodes[:, 0], nodes[:, 1]
    elif traffic.collective == "pipeline":
        yield nodes[:, :-1].ravel(), nodes[:, 1:].ravel()
    elif traffic.collective == "permute":
        yield here, there
    elif traffic.collective == "exchange":
        yield np.concatenate([here, there]), np.concatenate([there, here])
    else:
        some = max(_AT_ONCE // nodes.size, 1)
        for begin in range(1, n, some):
            # Each chip sends to those so many places ahead.
            apart = np.arange(begin, min(begin + some, n))
            to = nodes[:, (np.arange(n)[:, None] + apart) % n]
            yield np.broadcast_to(nodes[:, :, None], to.shape).ravel(), to.ravel()


@dataclass(frozen=True, eq=False)
class Score:
    """Time of a collective that all its groups run at once."""

    time: float  # seconds in closed form
    algorithm: str  # the fastest of those that were asked for
    busiest: int  # the link that works longest
    hops: float  # of its messages on average,
    farthest: int  # and at most
    sharing: float  # most messages of a step over the same link
    link_seconds: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    simulated: float | None = None  # seconds by packets

    @property
    def seconds(self) -> float:
        """Seconds, by packets where they were simulated."""
        return self.time if self.simulated is None else self.simulated


def score(
    traffic: MeshTraffic, groups: Groups, bucket: Score | None = None, *, with_links: bool = False
) -> Score:
    """Return the score of a collective in closed form, by the fastest of its algorithms.

    ``with_links`` keeps the seconds that each link works, ``(n_links,)``; ``bucket`` is the score
    of that algorithm if it is known.
    """
    found = _fastest_score(traffic, groups, bucket)
    if not with_links:
        return replace(found, link_seconds=np.zeros(0))
    if found.algorithm not in _WAYS:
        return found
    ways = _WAYS[found.algorithm]
    rounds, wire = _ring_rounds(traffic, groups, ways)
    load = groups.ring_loads()[ways]
    return replace(found, link_seconds=load / groups.torus.link_bandwidth * (rounds * wire))


def _fastest_score(traffic: MeshTraffic, groups: Groups, bucket: Score | None) -> Score:
    if groups.n == 1:
        nothing = _score_of(0.0, "none", np.zeros(groups.torus.n_links), np.zeros(1), 0.0)
        return replace(nothing, simulated=0.0)
    if traffic.collective not in PARTS:
        return _score_at_once(traffic, groups)
    asked = traffic.algorithm
    bucket = bucket or box_score(traffic, groups)
    if bucket is not None and asked == "bucket":
        return bucket
    algorithms = [asked] if asked in _WAYS else [*_WAYS]
    found = [_ring_score(traffic, groups, algorithm) for algorithm in algorithms]
    if bucket is not None:
        found.append(bucket)
    return min(found, key=lambda each: each.time)


def _score_of(
    time: float,
    algorithm: str,
    seconds: NDArray[np.float64],
    hops: NDArray[np.integer] | NDArray[np.float64],
    sharing: float,
) -> Score:
    """Return a score from the seconds of every link and the hops of every message."""
    mean = float(hops.mean()) if hops.size else 0.0
    farthest = int(hops.max(initial=0))
    return Score(time, algorithm, int(seconds.argmax()), mean, farthest, sharing, seconds)


def _wire_bytes(nbytes: float, torus: Torus) -> float:
    """Return the bytes of a message with the headers of its packets."""
    network = torus.network
    return nbytes + network.header * max(math.ceil(nbytes / network.payload), 1)


def _ring_rounds(traffic: MeshTraffic, groups: Groups, ways: int) -> tuple[int, float]:
    """Rounds round the ring, and the bytes of a message of each on the wire."""
    wire = _wire_bytes(traffic.nbytes / groups.n / ways, groups.torus)
    return PARTS[traffic.collective] * (groups.n - 1), wire


def _ring_score(traffic: MeshTraffic, groups: Groups, algorithm: str) -> Score:
    """Return the score of rounds round the ring, without the seconds of all links."""
    steps, network, ways = groups.ring_steps, groups.torus.network, _WAYS[algorithm]
    pace = steps.paces[ways]
    rounds, wire = _ring_rounds(traffic, groups, ways)
    latency = ways * network.overhead + steps.hops * network.hop_latency
    time = network.start + rounds * (pace.seconds * wire + latency)
    return Score(time, algorithm, pace.link, steps.hops, steps.farthest, pace.messages)


Sent = tuple[int, int, float]


def _bucket_rounds(sizes: Sequence[int], nbytes: float) -> list[tuple[int, list[Sent]]]:
    """Return the rounds of a bucket reduce-scatter: how many in a row, and what is sent in each.

    A lane for each dimension and way carries its share of the buffer along one dimension after the
    other; each leaves its share of the rest. A round lists (dimension, way, bytes), way 0 is plus.
    """
    ndim = len(sizes)
    lanes: list[list[Sent]] = []
    for way, first in product((0, 1), range(ndim)):
        dims = [*range(first, ndim), *range(first)]
        blocks = accumulate((sizes[d] for d in dims), truediv, initial=nbytes / (2 * ndim))
        pairs = zip(dims, islice(blocks, 1, None), strict=True)
        lanes.append([(d, way, block) for d, block in pairs for _ in range(sizes[d] - 1)])
    rounds = map(list, zip(*lanes, strict=True))
    return [(len(list(same)), sent) for sent, same in groupby(rounds)]


def box_score(traffic: MeshTraffic, groups: Groups) -> Score | None:
    """Return the score of the bucket algorithm, with a lane for each dimension and way.

    None where the traffic asks for another, or groups are no boxes of the torus.
    """
    if traffic.collective not in PARTS or traffic.algorithm not in ("", "bucket"):
        return None
    torus, grid = groups.torus, groups.boxes
    if grid is None or grid.ndim < 3:
        return None
    loads, every = [], []
    for d in range(1, grid.ndim):
        here, there = grid.ravel(), np.roll(grid, -1, axis=d).ravel()
        loads.append((pair_loads(torus, here, there), pair_loads(torus, there, here)))
        every.append(torus.distance(here, there))
    network = torus.network
    time, sharing = 0.0, 0.0
    seconds = np.zeros(torus.n_links)
    means = [float(hops.mean()) for hops in every]
    for rounds, sent in _bucket_rounds(grid.shape[1:], traffic.nbytes):
        busy, messages = np.zeros(torus.n_links), np.zeros(torus.n_links)
        for d, way, block in sent:
            busy += loads[d][way] * _wire_bytes(block, torus)
            messages += loads[d][way]
        busy /= torus.link_bandwidth
        latency = max(means[d] for d, _, _ in sent) * network.hop_latency
        time += rounds * (float(busy.max()) + len(sent) * network.overhead + latency)
        seconds += rounds * busy
        sharing = max(sharing, float(messages.max()))
    parts = PARTS[traffic.collective]
    time = network.start + parts * time
    return _score_of(time, "bucket", parts * seconds, np.concatenate(every), sharing)


def _score_at_once(traffic: MeshTraffic, groups: Groups) -> Score:
    """Score messages that are all sent at once; a task injects its own one after the other."""
    torus, n = groups.torus, groups.n
    network = torus.network
    to_all = traffic.collective == "alltoall"
    each = n - 1 if to_all else 2 if traffic.collective == "exchange" else 1
    wire = _wire_bytes(traffic.nbytes / n if to_all else traffic.nbytes, torus)
    load, hops = np.zeros(torus.n_links), [np.zeros(0, dtype=np.int32)]
    for src, dst in message_ends(traffic, groups):
        load += pair_loads(torus, src, dst)
        hops.append(torus.distance(src, dst))
    every = np.concatenate(hops)
    busy = load * wire / torus.link_bandwidth
    handed = each * network.overhead + wire / max(torus.bandwidth)
    sending = max(float(busy.max(initial=0)) + network.overhead, handed)
    mean = float(every.mean()) if every.size else 0.0
    time = network.start + sending + mean * network.hop_latency
    return _score_of(time, "at once", busy, every, float(load.max(initial=0)))


def time_bound(traffic: MeshTraffic, groups: Groups) -> float:
    """Return a lower bound of the seconds of a collective over all layouts.

    A chip sends over all its links at once at most: 2 (n - 1) / n of the buffer in an allreduce, (n
    - 1) / n in its halves and an all-to-all. One message goes over one link. An all-to-all also
    crosses each cut of the torus, and its bytes times the hops to the nearest nodes fill all links.

    Examples
    --------
    >>> ring = Groups(np.arange(8)[None], Torus((8,), bandwidth=1e9))
    >>> time_bound(MeshTraffic("alltoall", 8e9, ("x",)), ring)
    8.0
    """
    n, torus = groups.n, groups.torus
    if n == 1:
        return 0.0
    out = np.where(torus.link_exists, torus.link_bandwidth, 0.0).reshape(torus.n_nodes, -1)
    if traffic.collective in (*PARTS, "alltoall"):
        share = (n - 1) / n * PARTS.get(traffic.collective, 1)
        alone = share * traffic.nbytes / float(out.sum(axis=1).max())
        if traffic.collective != "alltoall":
            return alone
        return max(alone, traffic.nbytes / n * _seconds_a_byte_to_all(groups))
    return traffic.nbytes / float(out.max())


def _seconds_a_byte_to_all(groups: Groups) -> float:
    """Return the least seconds in which a byte gets from each member to all of its group."""
    torus, n, n_tasks = groups.torus, groups.n, groups.nodes.size
    speed = torus.link_bandwidth * torus.link_exists
    ring = torus if torus.twist else Torus(torus.shape)
    hops = np.sort(ring.distance(0, np.arange(torus.n_nodes)))[1:n].sum()
    least = n_tasks * float(hops) / float(speed.sum())
    here = np.arange(speed.size) // (2 * torus.ndim)
    there = np.where(torus.link_exists, torus.neighbors.ravel(), here)
    for plane, size in zip(torus.coords.T, torus.shape, strict=True):
        lines = np.bincount(plane[here] * size + plane[there], speed, size * size)
        across, inside = lines.reshape(size, size), np.bincount(plane[torus.usable_nodes])
        for cut in range(1, size):
            room, beyond = int(inside[:cut].sum()), int(inside[cut:].sum())
            # A group on one side sends nothing across: of all others one is split.
            split = np.arange(max(n_tasks - beyond, 0), min(room, n_tasks) + 1) % n
            width = min(across[:cut, cut:].sum(), across[cut:, :cut].sum())
            if width > 0 and split.size:
                least = max(least, float((split * (n - split)).min() / width))
    return least


def simulated_time(traffic: MeshTraffic, groups: Groups, algorithm: str) -> float | None:
    """Return the seconds of a collective by simulated packets; None if it has too many messages.

    If there are many equal rounds, a few are simulated, and the others take the pace of the second
    half of these, to within 5 %. Rounds that send the same are simulated once.
    """
    groups = groups.repeating()
    torus = groups.torus
    if algorithm not in ALGORITHMS:
        at_once = messages_at_once(traffic, groups)
        return None if at_once is None else _simulate_rounds(at_once).time
    rounds = messages_in_rounds(traffic, groups, algorithm)
    if sum(times * phase.n_edges for times, phase in rounds) <= _ALL_ROUNDS:
        every = [phase for times, phase in rounds for _ in range(times)]
        return _simulate_rounds(MappingProblem(Workload(every, dependent=True), torus)).time
    seconds: dict[tuple[int, bytes, bytes, bytes], float] = {}
    total = 0.0
    for times, phase in rounds:
        few = max(_FEW_MESSAGES // phase.n_edges, 2)
        if 2 * few * phase.n_edges > MAX_MESSAGES:
            return None
        key = times, phase.src.tobytes(), phase.dst.tobytes(), phase.nbytes.tobytes()
        if key not in seconds:
            some = Workload([phase] * min(times, 2 * few), dependent=True)
            first = _simulate_rounds(MappingProblem(some, torus))
            seconds[key] = first.time
            if times > len(some):
                half, end = (float(first.message_times[i].max()) for i in (few - 1, -1))
                seconds[key] += (times - len(some)) * (end - half) / few
        total += seconds[key]
    return total


def _simulate_rounds(problem: MappingProblem) -> Simulation:
    """Simulate messages whose tasks are the nodes."""
    rounds, torus = problem.workload, problem.torus
    longest = max(float(phase.nbytes.max(initial=0.0)) for phase in rounds)
    messages = sum(phase.n_edges for phase in rounds)
    fewest = _MIN_PACKETS[rounds.dependent]
    packets = min(_PACKETS, max(_MAX_PACKETS // max(messages, 1), fewest))
    merged = max(int(longest / torus.network.payload / packets), 1)
    mapping = TaskMapping(np.arange(torus.n_nodes), torus)
    return simulate_packets(problem, mapping, coarsening=merged)


def messages_in_rounds(
    traffic: MeshTraffic, groups: Groups, algorithm: str
) -> list[tuple[int, CommGraph]]:
    """Return the rounds of one group, run by every group at once: how many in a row, and each."""
    kind, nodes = traffic.collective, groups.nodes
    if algorithm == "bucket":
        grid = groups.boxes
        assert grid is not None
        shape, ports = grid.shape[1:], 2 * (grid.ndim - 1)
        plan = schedule(f"{kind}/bucket", groups.n, traffic.nbytes, shape, ports=ports)
        nodes = grid.reshape(nodes.shape)
    else:
        # Compiled programs send round a ring however few bytes there are.
        ports = _WAYS[algorithm]
        plan = schedule(f"{kind}/ring", groups.n, traffic.nbytes, ports=ports, element=0)
    n_nodes = groups.torus.n_nodes
    return [
        (times, copy_to_groups(merged(groups.n, steps), nodes, n_nodes))
        for times, steps in plan.rounds()
    ]


def messages_at_once(traffic: MeshTraffic, groups: Groups) -> MappingProblem | None:
    """Return the messages of a collective of a single round; None if there are too many."""
    to_all, n = traffic.collective == "alltoall", groups.n
    pairs = len(groups.nodes) * n * (n - 1) if to_all else 2 * groups.nodes.size
    if pairs > MAX_MESSAGES:
        return None
    src, dst = map(np.concatenate, zip(*message_ends(traffic, groups), strict=True))
    nbytes = np.full(src.size, traffic.nbytes / (n if to_all else 1))
    torus = groups.torus
    return MappingProblem(sum_edges(torus.n_nodes, src, dst, nbytes, np.ones(src.size)), torus)


@dataclass(frozen=True, eq=False)
class MeshProblem:
    """What a step of a sharded model sends over a torus, whose nodes are devices.

    Public functions build it once; layouts, their scores and answers refer to it.
    """

    torus: Torus
    axes: MeshAxes
    traffic: tuple[MeshTraffic, ...]
    overlap: bool = False  # whether collectives run at once and share the links
    omitted: tuple[Omission, ...] = ()  # what the traffic lacks of the program

    def groups(self, traffic: MeshTraffic, mesh: NDArray[np.int64]) -> Groups:
        """Return the groups of a collective, from the node at each place of the mesh."""
        if traffic.axes:
            return Groups(groups_along(mesh, self.axes, traffic.axes), self.torus)
        return Groups(mesh.ravel()[traffic.group_table(self.axes)], self.torus)

    def times(self, sent: Sequence[Score]) -> list[float]:
        """Return the seconds of all runs of each collective of a step."""
        return [score.seconds * each.times for score, each in zip(sent, self.traffic, strict=True)]

    def step_time(self, sent: Sequence[Score]) -> float:
        """Return the seconds of a step, of collectives in turn or at once."""
        times = self.times(sent)
        if not self.overlap:
            return sum(times)
        pairs = zip(sent, self.traffic, strict=True)
        busy = sum(score.link_seconds * each.times for score, each in pairs)
        return max(float(np.max(busy)), *times)
