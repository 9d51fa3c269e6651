"""Times of a step and its collectives: in closed form from link loads, or simulated in packets.

A round is a set of messages that all chips send at once. A chip starts a round when it has received
its messages of the previous round.

An allreduce of ``B`` bytes on a ring of ``n`` chips is a reduce-scatter followed by an allgather,
with ``n - 1`` rounds each. In a round every chip sends ``B / n`` bytes to the next chip. Links of
``w`` bytes per second each way are busy for ``2 (n - 1) / n * B / w`` seconds in total, or half as
long if a two-way ring sends half of each block in each direction. Each round also takes the
software overhead of its messages and the latency of their hops.

On a line of chips the ring is folded (0, 2, 4, ..., 5, 3, 1) or closed by one long path back. In
both cases a one-way ring sends one block over each link in each direction, as on a closed ring of
chips. Only the hops differ: a message takes at most two hops in a folded ring, and
``2 (n - 1) / n`` on average with the long path. A two-way ring sends two half blocks over each link
in each direction, so it is no faster.

In general the busiest link sets the time of a round. A chain of rounds passes each edge of the ring
once, so the latency of a round is the mean over the edges.

Only a few of many equal rounds are simulated. Packets are simulated rather than flows, because
flows with long routes would get a smaller share of each link and would delay all later rounds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import accumulate, groupby, islice, product
from operator import truediv
from typing import NamedTuple

import numpy as np

from toruscast._lazy import PickledByFields, lazy
from toruscast.mapping import CommGraph, MappingProblem, TaskMapping, Torus, Workload, sum_edges
from toruscast.mapping.collectives import merged, schedule
from toruscast.mapping.collectives.schedules import copy_to_groups
from toruscast.mapping.omissions import Omission
from toruscast.mapping.torus import TIE_RULES, Exclusions
from toruscast.routing.loads import pair_loads
from toruscast.simulation import Simulation, simulate
from toruscast.typing import Floats, Ints

from .traffic import ALGORITHMS, RING_PASSES, MeshAxes, MeshTraffic

# Collectives with more messages are not simulated, because a ranking would take too long.
MAX_MESSAGES = 200_000
# Maximum messages for which all rounds are simulated. If there are more, the time of a round is
# measured in a simulation of rounds with the second number of messages.
_ALL_ROUNDS, _FEW_MESSAGES = 60_000, 12_000
# Maximum simulated packets of the longest message and of all messages, and minimum packets of the
# longest message: in a single round, and in dependent rounds.
_PACKETS, _MAX_PACKETS, _MIN_PACKETS = 32, 300_000, (8, 4)
# Maximum pairs of an all-to-all that are listed at a time, to limit the memory.
_MAX_LISTED_PAIRS = 2**20
# Number of directions in which each ring algorithm sends.
_DIRECTIONS = {"ring": 1, "two-way-ring": 2}

Endpoints = tuple[Ints, Ints]


class _RingRound(NamedTuple):
    """A round on the rings of all groups."""

    seconds_per_byte: float  # of the busiest link, if each message has one byte
    max_messages: float  # on any link
    mean_hops: float
    max_hops: int


@dataclass(frozen=True, eq=False)
class CollectiveGroups(PickledByFields):
    """The nodes of all groups that run a collective at once, ``(n_groups, n)``, and their torus."""

    nodes: Ints
    torus: Torus

    @property
    def n(self) -> int:
        """Number of members in each group."""
        return int(self.nodes.shape[1])

    @property
    def ring_messages(self) -> Endpoints:
        """Source and destination of each message in a round on a one-way ring."""
        return self.nodes.ravel(), np.roll(self.nodes, -1, axis=1).ravel()

    def count_ring_messages(self) -> dict[int, Floats]:
        """Count the messages on each link, ``(n_links,)``, for one-way and two-way rings."""
        src, dst = self.ring_messages
        onward = pair_loads(self.torus, src, dst)
        return {1: onward, 2: onward + pair_loads(self.torus, dst, src)}

    @lazy
    def ring_rounds(self) -> dict[int, _RingRound]:
        """The round on one-way and on two-way rings, cached without its link loads."""
        hops = self.torus.distance(*self.ring_messages)
        rounds = {}
        for directions, n_messages in self.count_ring_messages().items():
            seconds = float((n_messages / self.torus.link_bandwidth).max())
            max_messages, mean_hops = float(n_messages.max()), float(hops.mean())
            rounds[directions] = _RingRound(seconds, max_messages, mean_hops, int(hops.max()))
        return rounds

    @property
    def boxes(self) -> Ints | None:
        """The nodes of each group as a box, ``(n_groups, *sizes)``; None if any is not a box.

        A box has every combination of its coordinates; these need not be adjacent. All boxes have
        the same size in each dimension.

        Examples
        --------
        >>> CollectiveGroups(np.array([[5, 0, 1, 4]]), Torus((4, 4))).boxes.tolist()
        [[[0, 1], [4, 5]]]
        >>> CollectiveGroups(np.array([[0, 1, 2, 4]]), Torus((4, 4))).boxes is None
        True
        """
        # Nodes are numbered in C order, so the sorted nodes of a box are in C order.
        nodes = np.sort(self.nodes, axis=1)
        coords = np.sort(self.torus.coords[nodes], axis=1)
        sizes = 1 + (np.diff(coords, axis=1) != 0).sum(axis=1)
        if (sizes != sizes[0]).any() or np.prod(sizes[0]) != self.n:
            return None
        return nodes.reshape(len(nodes), *sizes[0][sizes[0] > 1])

    def extract_repeating_part(self) -> CollectiveGroups:
        """Return the groups of one plane if all planes of a dimension have the same groups.

        These planes do not interact and take equally long, so one of them is simulated.
        """
        torus = self.torus
        if not has_separable_routes(torus):
            return self
        coords = torus.coords[self.nodes]
        shape = list(torus.shape)
        for d, size in enumerate(torus.shape):
            plane = coords[:, 0, d]
            if size == 1 or (coords[..., d] != plane[:, None]).any():
                continue
            projected = coords.copy()
            projected[..., d] = 0
            if (np.unique(projected, axis=0, return_counts=True)[1] == size).all():
                coords, shape[d] = coords[plane == 0], 1
        part = cut_box(torus, tuple(shape))
        return CollectiveGroups(np.asarray(part.node(coords), dtype=np.int64), part)


def has_separable_routes(torus: Torus) -> bool:
    """Return whether the route along a dimension does not depend on the other dimensions."""
    return not (torus.twist or torus.exclusions or TIE_RULES[torus.tie_break].with_others)


# Equal boxes are one object, so that they share the tables of links that a torus caches.
@lru_cache(1_000)
def cut_box(torus: Torus, shape: tuple[int, ...]) -> Torus:
    """Cut a box out of a torus; a dimension wraps if the box spans a whole ring."""
    triples = zip(torus.wrap, shape, torus.shape, strict=True)
    wrap = tuple(w and part == size for w, part, size in triples)
    return replace(torus, shape=shape, wrap=wrap, zones=(), twist=(), exclusions=Exclusions())


def list_messages(traffic: MeshTraffic, groups: CollectiveGroups) -> Iterator[Endpoints]:
    """Yield the source and destination of each message of a single-round collective, in chunks.

    Examples
    --------
    >>> groups = CollectiveGroups(np.array([[4, 5, 6]]), Torus((8,)))
    >>> ((src, dst),) = list_messages(MeshTraffic("pipeline", 8, ("stage",)), groups)
    >>> src.tolist(), dst.tolist()
    ([4, 5], [5, 6])
    """
    n, nodes = groups.n, groups.nodes
    src, dst = groups.ring_messages
    if traffic.pairs is not None:
        yield nodes[:, 0], nodes[:, 1]
    elif traffic.collective == "pipeline":
        yield nodes[:, :-1].ravel(), nodes[:, 1:].ravel()
    elif traffic.collective == "permute":
        yield src, dst
    elif traffic.collective == "exchange":
        yield np.concatenate([src, dst]), np.concatenate([dst, src])
    else:
        chunk = max(_MAX_LISTED_PAIRS // nodes.size, 1)
        for begin in range(1, n, chunk):
            offsets = np.arange(begin, min(begin + chunk, n))
            to = nodes[:, (np.arange(n)[:, None] + offsets) % n]
            yield np.broadcast_to(nodes[:, :, None], to.shape).ravel(), to.ravel()


@dataclass(frozen=True, eq=False)
class CollectiveScore:
    """Time of a collective that all its groups run at once."""

    time: float  # seconds in closed form
    algorithm: str  # the fastest of the permitted ones
    mean_hops: float
    max_hops: int
    max_messages: float  # on any link in one round
    link_seconds: Floats = field(default_factory=lambda: np.zeros(0))  # busy time, (n_links,)
    simulated: float | None = None  # seconds with simulated packets

    @property
    def seconds(self) -> float:
        """The simulated time if there is one, else the time in closed form."""
        return self.time if self.simulated is None else self.simulated


def score_collective(
    traffic: MeshTraffic,
    groups: CollectiveGroups,
    bucket: CollectiveScore | None = None,
    *,
    with_links: bool = False,
) -> CollectiveScore:
    """Return the score of a collective in closed form, for the fastest of its algorithms.

    ``bucket`` is the score of the bucket algorithm if already known. ``with_links`` keeps the
    seconds that each link is busy, ``(n_links,)``.
    """
    if groups.n == 1:
        idle = np.zeros(groups.torus.n_links)
        score = CollectiveScore(0.0, "none", 0.0, 0, 0.0, link_seconds=idle, simulated=0.0)
    elif traffic.collective not in RING_PASSES:
        score = _score_single_round(traffic, groups)
    else:
        bucket = bucket or score_bucket(traffic, groups)
        rings = [traffic.algorithm] if traffic.algorithm in _DIRECTIONS else [*_DIRECTIONS]
        if bucket is not None and traffic.algorithm == "bucket":
            rings = []
        scores = [_score_ring(traffic, groups, algorithm) for algorithm in rings]
        if bucket is not None:
            scores.append(bucket)
        score = min(scores, key=lambda each: each.time)
    if not with_links:
        return replace(score, link_seconds=np.zeros(0))
    if score.algorithm not in _DIRECTIONS:
        return score
    directions = _DIRECTIONS[score.algorithm]
    n_rounds, message_bytes = _count_ring_rounds(traffic, groups, directions)
    seconds = groups.count_ring_messages()[directions] / groups.torus.link_bandwidth
    return replace(score, link_seconds=seconds * (n_rounds * message_bytes))


def _add_headers(nbytes: float, torus: Torus) -> float:
    """Return the bytes of a message with the headers of its packets."""
    network = torus.network
    return nbytes + network.header * max(math.ceil(nbytes / network.payload), 1)


def _count_ring_rounds(
    traffic: MeshTraffic, groups: CollectiveGroups, directions: int
) -> tuple[int, float]:
    """Return the number of rounds on a ring, and the bytes of a message with headers."""
    message_bytes = _add_headers(traffic.nbytes / groups.n / directions, groups.torus)
    return RING_PASSES[traffic.collective] * (groups.n - 1), message_bytes


def _score_ring(traffic: MeshTraffic, groups: CollectiveGroups, algorithm: str) -> CollectiveScore:
    """Score a ring algorithm; each round takes the busiest link's busy time plus a latency."""
    network, directions = groups.torus.network, _DIRECTIONS[algorithm]
    seconds_per_byte, max_messages, mean_hops, max_hops = groups.ring_rounds[directions]
    n_rounds, message_bytes = _count_ring_rounds(traffic, groups, directions)
    latency = directions * network.overhead + mean_hops * network.hop_latency
    time = network.start + n_rounds * (seconds_per_byte * message_bytes + latency)
    return CollectiveScore(time, algorithm, mean_hops, max_hops, max_messages)


Transfer = tuple[int, int, float]  # dimension, direction (0 is plus), bytes


def _list_bucket_rounds(sizes: Sequence[int], nbytes: float) -> list[tuple[int, list[Transfer]]]:
    """Return the distinct rounds of a bucket reduce-scatter: repetitions, and transfers in each.

    The buffer is divided equally between lanes, one for each dimension and direction. A lane
    reduces its share along one dimension after the other, starting with its own dimension. Reducing
    along a dimension divides the share by the dimension's size.
    """
    ndim = len(sizes)
    lanes: list[list[Transfer]] = []
    for direction, first in product((0, 1), range(ndim)):
        dims = [*range(first, ndim), *range(first)]
        blocks = accumulate((sizes[d] for d in dims), truediv, initial=nbytes / (2 * ndim))
        pairs = zip(dims, islice(blocks, 1, None), strict=True)
        lanes.append([(d, direction, block) for d, block in pairs for _ in range(sizes[d] - 1)])
    # All lanes have the same number of steps. Round k consists of step k of every lane.
    rounds = map(list, zip(*lanes, strict=True))
    return [(len(list(same)), transfers) for transfers, same in groupby(rounds)]


def score_bucket(traffic: MeshTraffic, groups: CollectiveGroups) -> CollectiveScore | None:
    """Return the score of the bucket algorithm, which uses all dimensions of a group at once.

    Return None if the traffic requests another algorithm, or if the groups are not boxes of two or
    more dimensions.
    """
    if traffic.collective not in RING_PASSES or traffic.algorithm not in ("", "bucket"):
        return None
    torus, grid = groups.torus, groups.boxes
    if grid is None or grid.ndim < 3:
        return None
    loads, hops = [], []
    for d in range(1, grid.ndim):
        src, dst = grid.ravel(), np.roll(grid, -1, axis=d).ravel()
        loads.append((pair_loads(torus, src, dst), pair_loads(torus, dst, src)))
        hops.append(torus.distance(src, dst))
    network = torus.network
    time, max_messages = 0.0, 0.0
    seconds = np.zeros(torus.n_links)
    mean_hops = [float(distances.mean()) for distances in hops]
    for rounds, transfers in _list_bucket_rounds(grid.shape[1:], traffic.nbytes):
        busy, messages = np.zeros(torus.n_links), np.zeros(torus.n_links)
        for d, direction, block in transfers:
            busy += loads[d][direction] * _add_headers(block, torus)
            messages += loads[d][direction]
        busy /= torus.link_bandwidth
        latency = max(mean_hops[d] for d, _, _ in transfers) * network.hop_latency
        time += rounds * (float(busy.max()) + len(transfers) * network.overhead + latency)
        seconds += rounds * busy
        max_messages = max(max_messages, float(messages.max()))
    passes = RING_PASSES[traffic.collective]
    time = network.start + passes * time
    all_hops = np.concatenate(hops)
    mean, largest = float(all_hops.mean()), int(all_hops.max())
    return CollectiveScore(time, "bucket", mean, largest, max_messages, passes * seconds)


def _score_single_round(traffic: MeshTraffic, groups: CollectiveGroups) -> CollectiveScore:
    """Score a single-round collective; each task injects its messages one after another."""
    torus, n = groups.torus, groups.n
    network = torus.network
    to_all = traffic.collective == "alltoall"
    messages_per_task = n - 1 if to_all else 2 if traffic.collective == "exchange" else 1
    message_bytes = _add_headers(traffic.nbytes / n if to_all else traffic.nbytes, torus)
    n_messages, chunks = np.zeros(torus.n_links), [np.zeros(0, dtype=np.int32)]
    for src, dst in list_messages(traffic, groups):
        n_messages += pair_loads(torus, src, dst)
        chunks.append(torus.distance(src, dst))
    hops = np.concatenate(chunks)
    seconds = n_messages * message_bytes / torus.link_bandwidth
    injection_time = messages_per_task * network.overhead + message_bytes / max(torus.bandwidth)
    send_time = max(float(seconds.max(initial=0)) + network.overhead, injection_time)
    mean_hops, max_hops = float(hops.mean()) if hops.size else 0.0, int(hops.max(initial=0))
    time = network.start + send_time + mean_hops * network.hop_latency
    max_messages = float(n_messages.max(initial=0))
    return CollectiveScore(time, "at once", mean_hops, max_hops, max_messages, seconds)


def time_bound(traffic: MeshTraffic, groups: CollectiveGroups) -> float:
    """Return a lower bound on the seconds that a collective takes in any layout.

    A chip can use all its links at once. It sends ``2 (n - 1) / n`` of the buffer in an allreduce,
    and ``(n - 1) / n`` in a reduce-scatter, an allgather and an all-to-all. In other collectives, a
    message uses one link. An all-to-all has two more bounds: its messages must cross every cut of
    the torus, and the links must carry each task's bytes over at least the hops to its ``n - 1``
    nearest nodes.

    Examples
    --------
    >>> ring = CollectiveGroups(np.arange(8)[None], Torus((8,), bandwidth=1e9))
    >>> time_bound(MeshTraffic("alltoall", 8e9, ("x",)), ring)
    8.0
    """
    n, torus = groups.n, groups.torus
    if n == 1:
        return 0.0
    speed = np.where(torus.link_exists, torus.link_bandwidth, 0.0).reshape(torus.n_nodes, -1)
    if traffic.collective not in (*RING_PASSES, "alltoall"):
        return traffic.nbytes / float(speed.max())
    share = (n - 1) / n * RING_PASSES.get(traffic.collective, 1)
    bound = share * traffic.nbytes / float(speed.sum(axis=1).max())
    if traffic.collective == "alltoall":
        bound = max(bound, traffic.nbytes / n * _bound_all_to_all(groups))
    return bound


def _bound_all_to_all(groups: CollectiveGroups) -> float:
    """Return a lower bound on the seconds in which each member sends a byte to all others."""
    torus, n, n_tasks = groups.torus, groups.n, groups.nodes.size
    speed = torus.link_bandwidth * torus.link_exists
    ring = torus if torus.twist else Torus(torus.shape)
    hops = np.sort(ring.distance(0, np.arange(torus.n_nodes)))[1:n].sum()
    bound = n_tasks * float(hops) / float(speed.sum())
    src = np.arange(speed.size) // (2 * torus.ndim)
    dst = np.where(torus.link_exists, torus.neighbors.ravel(), src)
    for plane, size in zip(torus.coords.T, torus.shape, strict=True):
        # Bandwidth from each plane to each other plane, and number of usable nodes in each plane.
        between = np.bincount(plane[src] * size + plane[dst], speed, size * size)
        between, n_nodes = between.reshape(size, size), np.bincount(plane[torus.usable_nodes])
        for cut in range(1, size):
            before, after = int(n_nodes[:cut].sum()), int(n_nodes[cut:].sum())
            # The fewest messages cross a cut that splits only one group. If it splits the group
            # into m and n - m members, m (n - m) messages cross it in each direction.
            m = np.arange(max(n_tasks - after, 0), min(before, n_tasks) + 1) % n
            cut_bandwidth = min(between[:cut, cut:].sum(), between[cut:, :cut].sum())
            if cut_bandwidth > 0 and m.size:
                bound = max(bound, float((m * (n - m)).min() / cut_bandwidth))
    return bound


def simulate_collective(
    traffic: MeshTraffic, groups: CollectiveGroups, algorithm: str
) -> float | None:
    """Simulate packets and return the seconds of a collective; None if it has too many messages.

    Only a few of many equal rounds are simulated. The other rounds are assumed to take the mean
    time of the second half of the simulated rounds, with an error of at most 5 %.
    """
    groups = groups.extract_repeating_part()
    torus = groups.torus
    if algorithm not in ALGORITHMS:
        single = build_single_round(traffic, groups)
        return None if single is None else _simulate_rounds(single).time
    rounds = list_rounds(traffic, groups, algorithm)
    if sum(n * phase.n_edges for n, phase in rounds) <= _ALL_ROUNDS:
        phases = [phase for n, phase in rounds for _ in range(n)]
        return _simulate_rounds(MappingProblem(Workload(phases, dependent=True), torus)).time
    times: dict[tuple[int, bytes, bytes, bytes], float] = {}
    total = 0.0
    for n, phase in rounds:
        half = max(_FEW_MESSAGES // phase.n_edges, 2)
        if 2 * half * phase.n_edges > MAX_MESSAGES:
            return None
        key = n, phase.src.tobytes(), phase.dst.tobytes(), phase.nbytes.tobytes()
        if key not in times:
            few = Workload([phase] * min(n, 2 * half), dependent=True)
            simulation = _simulate_rounds(MappingProblem(few, torus))
            times[key] = simulation.time
            if n > len(few):
                middle = float(simulation.message_times[half - 1].max())
                end = float(simulation.message_times[-1].max())
                times[key] += (n - len(few)) * (end - middle) / half
        total += times[key]
    return total


def _simulate_rounds(problem: MappingProblem) -> Simulation:
    """Simulate the messages with enlarged packets; task i of the problem is node i."""
    rounds, torus = problem.workload, problem.torus
    longest = max(float(phase.nbytes.max(initial=0.0)) for phase in rounds)
    n_messages = sum(phase.n_edges for phase in rounds)
    min_packets = _MIN_PACKETS[rounds.dependent]
    n_packets = min(_PACKETS, max(_MAX_PACKETS // max(n_messages, 1), min_packets))
    coarsening = max(int(longest / torus.network.payload / n_packets), 1)
    # Every node is a task here, even an excluded node, which sends nothing.
    torus = replace(torus, exclusions=replace(torus.exclusions, nodes=()))
    mapping = TaskMapping(np.arange(torus.n_nodes), torus)
    return simulate(replace(problem, torus=torus), mapping=mapping, coarsening=coarsening)


def list_rounds(
    traffic: MeshTraffic, groups: CollectiveGroups, algorithm: str
) -> list[tuple[int, CommGraph]]:
    """Return the rounds of all groups: how often each is repeated, and its messages."""
    kind, nodes = traffic.collective, groups.nodes
    if algorithm == "bucket":
        grid = groups.boxes
        assert grid is not None
        shape, ports = grid.shape[1:], 2 * (grid.ndim - 1)
        plan = schedule(f"{kind}/bucket", groups.n, traffic.nbytes, shape, ports=ports)
        nodes = grid.reshape(nodes.shape)
    else:
        # Compiled programs use rings for small buffers too.
        ports = _DIRECTIONS[algorithm]
        plan = schedule(f"{kind}/ring", groups.n, traffic.nbytes, ports=ports, element=0)
    n_nodes = groups.torus.n_nodes
    return [
        (n, copy_to_groups(merged(groups.n, steps), nodes, n_nodes)) for n, steps in plan.rounds()
    ]


def build_single_round(traffic: MeshTraffic, groups: CollectiveGroups) -> MappingProblem | None:
    """Return the messages of a single-round collective; None if there are too many."""
    to_all, n, torus = traffic.collective == "alltoall", groups.n, groups.torus
    pairs = len(groups.nodes) * n * (n - 1) if to_all else 2 * groups.nodes.size
    if pairs > MAX_MESSAGES:
        return None
    chunks = list(list_messages(traffic, groups))
    src = np.concatenate([src for src, _ in chunks])
    dst = np.concatenate([dst for _, dst in chunks])
    nbytes = np.full(src.size, traffic.nbytes / (n if to_all else 1))
    return MappingProblem(sum_edges(torus.n_nodes, src, dst, nbytes, np.ones(src.size)), torus)


@dataclass(frozen=True, eq=False)
class MeshProblem:
    """The mesh of a sharded model, the collectives of its step, and the torus of devices."""

    torus: Torus
    axes: MeshAxes
    traffic: tuple[MeshTraffic, ...]
    overlap: bool = False  # whether collectives run at once and share the links
    omitted: tuple[Omission, ...] = ()  # parts of the program that the traffic does not include

    def groups(self, traffic: MeshTraffic, mesh: Ints) -> CollectiveGroups:
        """Return the groups of a collective, given the node at each mesh coordinate."""
        return CollectiveGroups(mesh.ravel()[traffic.list_groups(self.axes)], self.torus)

    def collective_times(self, scores: Sequence[CollectiveScore]) -> list[float]:
        """Return the seconds that each collective takes in a step, over all its runs."""
        pairs = zip(scores, self.traffic, strict=True)
        return [score.seconds * traffic.runs for score, traffic in pairs]

    def step_time(self, scores: Sequence[CollectiveScore]) -> float:
        """Return the communication time of a step, in seconds."""
        times = self.collective_times(scores)
        if not self.overlap:
            return sum(times)
        pairs = zip(scores, self.traffic, strict=True)
        busy = sum(score.link_seconds * traffic.runs for score, traffic in pairs)
        return max(float(np.max(busy)), *times)
