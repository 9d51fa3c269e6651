"""Lower bounds of the communication time of a mapping.

Bounds of one phase, and what each holds for:

=========  ==================================================  ===================================
link       bytes of the busiest link at its bandwidth          estimates where packets choose their
                                                               way: an even split, or half of a tie
injection  bytes of the busiest FIFO at the fastest link       any routing
reception  bytes into the busiest node at memory bandwidth     any routing
latency    the slowest message, alone in the network           any routing
release    work of a link after the moments at which its       dimension order; an estimate where
           messages can reach it; never below that of links    ties are open
cut        bytes that cross a plane, or leave a node           any minimal routing
=========  ==================================================  ===================================

`time_bounds` has the first four. Phases add up, each with the start of a phase. Dependent rounds
overlap: the bytes of all count together, the latency is that of the longest chain of messages, and
there is neither a release nor a cut bound. The best bound of a phase is the largest of those that
hold, in dimension order mostly the release bound. `MappingBounds` shares what they need.

Others: `toruscast.simulation.clock_bounds` has bounds that no simulation falls below, whichever way
packets choose, whatever ticks round off, for several iterations and longer packets. Bounds over all
mappings are in `mapping_bounds`, those of a mesh's collectives in `toruscast.mesh.closed_form`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toruscast._jit import scratch
from toruscast._lazy import lazy
from toruscast.errors import InputError
from toruscast.mapping import MappingProblem, TaskMapping, Torus

from ._load_kernels import spread_runs
from .loads import check_ways, sum_loads
from .messages import hand_over_times, mean_message, packet_counts, prepare, software_times
from .release_kernels import (
    A_BYTE,
    STATES,
    TOGETHER,
    Crossing,
    DimensionLines,
    Feeding,
    add_early,
    choose,
    flag_runs,
    latest_link,
    latest_link_of_routes,
    release_from_fifos,
)
from .route_kernels import Ways, keys_of, last_arrival, sort_keys
from .routing import edge_ways, grid_of, list_links, ways_are_open
from .tables import run_table, worthwhile_runs
from .tally import PhaseRoutes, Tally, have_two_ways, tally

# Rounds that represent all where the question is how far they may overlap.
_FEW_ROUNDS = 16


class Bounds(NamedTuple):
    """Least seconds of each resource, summed over the phases."""

    link: float
    injection: float
    reception: float
    latency: float
    total: float
    """Largest of the four, summed over the phases; dependent rounds are summed first."""


def time_bounds(problem: MappingProblem, mapping: TaskMapping) -> Bounds:
    """Return the time below which no schedule of the packets can fall.

    The bounds are exact. A simulation counts in ticks, and may end some ten-thousandths sooner:
    `RoutedTraffic.sure_bound` allows for that. `MappingProblem` has the routing.

    The busiest link must carry its bytes (headers included) at its bandwidth. The busiest injection
    FIFO must send its messages at the bandwidth of the fastest link, and the busiest receiver must
    take its bytes at the memory bandwidth. Every message needs its software overhead, its hops and
    its serialisation; the messages of an edge are handed over together. The total holds the start
    of each phase besides (`Network.start`). With adaptive routing the
    link bound is that of an even split, which is an estimate. Where ties are open
    (`Torus.ties_are_open`), it is that of the expected load. Rounds of a dependent workload
    overlap, so their loads count together, and the latency is that of the longest chain of messages
    that wait for each other.

    Examples
    --------
    >>> comm = CommGraph(3, [0, 1], [2, 2], [51200, 51200])
    >>> bounds = time_bounds(MappingProblem(comm, (8,)), TaskMapping([0, 1, 2], 8))
    >>> round(bounds.link * 1e6, 3), 2 * 51200 * 544 / 512 / 2e3
    (54.4, 54.4)
    """
    mapping = problem.mapping(mapping)
    check_ways(problem, mapping)
    return MappingBounds(problem, mapping).resources


@dataclass(frozen=True, eq=False)
class MappingBounds:
    """Lower bounds of a problem under a checked mapping; each is computed when first used.

    ``routes`` are those of the only phase, where results of it are used elsewhere too.
    """

    problem: MappingProblem
    mapping: TaskMapping
    routes: PhaseRoutes | None = None

    @lazy
    def _stretches(self) -> dict[int, StretchBounds]:
        return {}

    def stretch(self, problem: MappingProblem) -> StretchBounds:
        """Return the bounds of one phase, or of rounds without a barrier; equal ones share them."""
        known = self._stretches
        if id(problem) not in known:
            is_shared = self.routes is not None and self.routes.problem is problem
            routes = self.routes if is_shared else None
            known[id(problem)] = StretchBounds(problem, self.mapping, routes)
        return known[id(problem)]

    @property
    def _each(self) -> list[StretchBounds]:
        problem = self.problem
        return [
            self.stretch(each) for each in ([problem] if problem.is_chained else problem.phases)
        ]

    @lazy
    def resources(self) -> Bounds:
        """Bounds by resource, as `time_bounds`."""
        columns = zip(*(each.resources for each in self._each), strict=True)
        return Bounds(*(sum(column) for column in columns))

    @lazy
    def best(self) -> float:
        """The sum of the largest bound of each phase, of those that its routing has."""
        if self.problem.workload.dependent:
            return self.resources.total
        return sum(each.best for each in self._each)

    @lazy
    def rounds_apart(self) -> float:
        """Logarithm of the bound with a barrier after each dependent round over that without.

        A few of the rounds represent all. It counts more, the more packets messages have: single
        packets hardly wait for each other, so that rounds of them overlap as the bound says.
        """
        total = self.resources.total
        if not self.problem.workload.dependent or not total:
            return 0.0
        n = len(self.problem.workload)
        few = self.problem.phases[:: -(-n // _FEW_ROUNDS)]
        seconds = sum(max(self.stretch(phase).resources[:4]) for phase in few)
        apart = self.problem.torus.network.start + seconds * n / len(few)
        waiting = 1 - 1 / max(1.0, self.problem.derive(mean_message)) ** 2
        return waiting * max(0.0, math.log(apart / total))


@dataclass(frozen=True, eq=False)
class StretchBounds:
    """Lower bounds of one phase, or of rounds without a barrier; see `MappingBounds`."""

    problem: MappingProblem
    mapping: TaskMapping
    routes: PhaseRoutes | None = None

    @lazy
    def resources(self) -> Bounds:
        """Bounds by resource."""
        problem, mapping = self.problem, self.mapping
        if not problem.is_chained:
            routes = self.routes or PhaseRoutes(problem, mapping)
            return bounds_of(routes.tally, problem.torus)
        # Rounds overlap, so the work of a link, FIFO or receiver in all of them counts together.
        ways = edge_ways(problem, mapping)
        found = tally(problem.unrolled, problem.placed(mapping), ways)
        hops, two_ways = ways.hops, None
        if problem.torus.network.fifo_rule == "first_free":
            two_ways = have_two_ways(problem.unrolled, problem.placed(mapping))
        chain = longest_chain(problem, times_alone(problem, hops, two_ways))
        return bounds_of(found._replace(latency=chain), problem.torus)

    @lazy
    def release(self) -> float:
        """Seconds of `release_bound`; 0 if there is none."""
        if self.problem.is_chained or self.problem.routing == "adaptive":
            return 0.0
        if self.routes is None:
            return _release_seconds(self.problem, self.mapping)
        wire_bytes = self.routes.tally.wire_bytes
        return _release_seconds(self.problem, self.mapping, self.routes.ways, wire_bytes)

    @property
    def best(self) -> float:
        """The largest of them, with the start of a phase."""
        return max(self.resources.total, _started(self.release, self.problem.torus))

    @property
    def is_open(self) -> bool:
        """Whether packets may choose their way, so that bounds of links are estimates."""
        return ways_are_open(self.problem)

    @lazy
    def certain_links(self) -> float:
        """Seconds that links need whichever way packets choose."""
        if not self.is_open:
            return self.resources.link
        return 0.0 if self.problem.is_chained else cut_bound(self.problem, self.mapping)

    @property
    def certain_release(self) -> float:
        """The release bound where it is none of expected loads, else 0."""
        return 0.0 if self.is_open else self.release


def bounds_of(found: Tally, torus: Torus) -> Bounds:
    """Return the bounds of a phase that a pass over its messages found."""
    seconds = (
        float((found.wire_bytes / torus.link_bandwidth).max(initial=0.0)),
        float(found.injected.max(initial=0.0)),
        float(found.received.max(initial=0.0)) / torus.network.memory_bandwidth,
        found.latency,
    )
    return Bounds(*seconds, _started(max(seconds), torus))


def _started(seconds: float, torus: Torus) -> float:
    """Add the start of a phase that sends something."""
    return torus.network.start + seconds if seconds else 0.0


def longest_chain(problem: MappingProblem, latency: NDArray[np.float64]) -> float:
    """Return the seconds until the last arrival if each task enters a round as soon as it can.

    ``latency`` has the seconds of every edge of all rounds, one round after the other.
    """
    rounds = problem.workload.unrolled
    comm = rounds.comm
    return float(
        last_arrival(
            rounds.begin,
            rounds.task[comm.src],
            rounds.task[comm.dst],
            # A message may take no time, but its receiver still waits for it.
            comm.whole_messages > 0,
            latency,
            software_times(comm, problem.torus.network),
            np.zeros(problem.n_tasks),
            np.empty(comm.n_edges),
        )
    )


def times_alone(
    problem: MappingProblem,
    hops: NDArray[np.integer],
    two_ways: NDArray[np.bool_] | None = None,
    *,
    from_begin: bool = True,
) -> NDArray[np.float64]:
    """Return the seconds until each edge's last arrival if it never waits, ``(n_edges,)``.

    They count from the begin of its round, or from its hand-over. Packets of edges with
    ``two_ways`` may leave side by side from several FIFOs.
    """
    comm, torus, network = problem.unrolled.comm, problem.torus, problem.torus.network
    packets, per_packet = packet_counts(problem)
    behind = packets * per_packet
    if two_ways is not None:
        behind = np.where(two_ways, per_packet, behind)
    on_its_way = hops * network.hop_latency + behind / max(torus.bandwidth)
    seconds = np.where(hops > 0, on_its_way, comm.nbytes / network.memory_bandwidth)
    if from_begin:
        seconds += hand_over_times(comm, network)[1]
    return np.where(packets > 0, seconds, 0.0)


Floats = NDArray[np.float64]


def cut_bound(problem: MappingProblem, mapping: TaskMapping) -> float:
    """Return the least seconds that the narrowest cut needs for the phase that must cross it.

    Cuts are the planes between neighbouring coordinates, one way at a time, and the links of a
    node. Messages that go half round a ring may go either way, and are left out.
    """
    comm, torus = problem.comm, problem.torus
    packets, wire = packet_counts(problem)
    nbytes = packets * wire
    src, dst = mapping.node[comm.src], mapping.node[comm.dst]
    remote = src != dst
    src, dst, weight = src[remote], dst[remote], nbytes[remote]
    if not src.size:
        return 0.0
    through_nodes = _nodes(torus, src, dst, weight)
    # A twisted wrap link also moves along other dimensions, so planes are not cuts there.
    return through_nodes if torus.twist else max(through_nodes, _planes(torus, src, dst, weight))


def _planes(torus: Torus, src: NDArray[np.int32], dst: NDArray[np.int32], weight: Floats) -> float:
    longest = 0.0
    for d, size in enumerate(torus.shape):
        start = torus.coords[src, d].astype(np.int64)
        gap = torus.coords[dst, d].astype(np.int64) - start
        if torus.wrap[d]:
            gap = (gap + size // 2) % size - size // 2
            gap[2 * np.abs(gap) == size] = 0
        across = torus.n_nodes / size * torus.bandwidth[d]
        for way in (1, -1):
            hops = np.maximum(way * gap, 0)
            first = start if way == 1 else start - hops
            # Planes first .. first + hops - 1 are marked by differences, with the ring laid out
            # twice.
            steps = np.bincount(first % size, weight * (hops > 0), minlength=2 * size + 1)
            steps -= np.bincount(first % size + hops, weight * (hops > 0), minlength=2 * size + 1)
            crossing = np.cumsum(steps)[: 2 * size].reshape(2, size).sum(axis=0)
            longest = max(longest, float(crossing.max()) / across)
    return longest


def _nodes(torus: Torus, src: NDArray[np.int32], dst: NDArray[np.int32], weight: Floats) -> float:
    width = np.where(torus.link_exists, torus.link_bandwidth, 0.0).reshape(torus.n_nodes, -1)
    leaving = width.sum(axis=1)
    head = torus.neighbors.ravel()
    exists = torus.link_exists
    entering = np.bincount(head[exists], torus.link_bandwidth[exists], minlength=torus.n_nodes)
    out = np.bincount(src, weight, minlength=torus.n_nodes)
    into = np.bincount(dst, weight, minlength=torus.n_nodes)
    used = out > 0
    longest = float((out[used] / leaving[used]).max(initial=0.0))
    used = into > 0
    return max(longest, float((into[used] / entering[used]).max(initial=0.0)))


_ROUNDING = 1e-9
# Share of links that may be latest below which it does not pay to look closer at the links.
_FEW_HOT = 0.02


def release_bound(problem: MappingProblem, mapping: TaskMapping) -> float:
    """Return a lower bound of the time in dimension order, the sum over phases between barriers.

    `RoutedTraffic.release_bound` is the larger of this and of `time_bounds` for each phase.

    A link cannot carry a message before the message has left its injection FIFO and crossed the
    links before. All messages that reach a link after some moment keep it busy from then on. The
    largest moment plus work, over all links and moments, is the bound of a machine whose jobs have
    release times [1]_. With short messages, links often wait for software, and this bound is nearer
    to the time than the busiest link's bytes or a message's latency alone.

    Where ties are open (`Torus.ties_are_open`), half of a message is expected each way, so the
    result is an estimate. Waits in FIFOs count if these send one message of a task after the other
    (`Network.feeding` "tasks", no rendezvous, a FIFO of its own for each message).

    Returns
    -------
    float
        Seconds without the start of a phase; 0 if nothing goes over the network. Dependent rounds
        overlap and have no such bound, which is an `InputError`.

    References
    ----------
    .. [1] J. R. Jackson, "Scheduling a production line to minimize maximum tardiness", Research
       Report 43, Management Sciences Research Project, UCLA, 1955.

    Examples
    --------
    Seven tasks of a node send the eighth, on the next node, a packet each, which takes 272 ns: no
    sooner than a microsecond of software allows.

    >>> from toruscast.routing import time_bounds
    >>> torus = Torus((8,)).with_network(overhead=1e-6)
    >>> problem = MappingProblem(CommGraph(8, range(7), [7] * 7, [512] * 7), torus)
    >>> mapping = TaskMapping([0] * 7 + [1], torus)
    >>> round(time_bounds(problem, mapping).total * 1e6, 3)
    1.904
    >>> round(release_bound(problem, mapping) * 1e6, 3)
    2.944
    """
    mapping = problem.mapping(mapping)
    if problem.is_chained:
        raise InputError("no release bound of dependent rounds", expected="phases, or time_bounds")
    return sum(_release_seconds(phase, mapping) for phase in problem.phases)


def _release_seconds(
    problem: MappingProblem,
    mapping: TaskMapping,
    ways: Ways | None = None,
    wire_bytes: NDArray[np.float64] | None = None,
) -> float:
    """Return the release bound of a phase; its ways and the loads of its links may be known."""
    torus = problem.torus
    if ways is None:
        ways = edge_ways(problem, mapping)
    crossing, ends, alone = _released(problem, mapping, ways)
    n = crossing.src.size
    if not n:
        return 0.0
    latency = torus.network.hop_latency
    state = np.tile([np.inf, 0.0, 0.0, 0.0], (torus.n_links, 1))
    state[:, A_BYTE] = 1 / torus.link_bandwidth
    key, other = (scratch(name, n, np.uint64) for name in ("key", "other key"))
    if torus.twist:
        first, links = list_links(torus, crossing.src, crossing.dst)
        byte = 1 / max(torus.bandwidth)
        alone = float((crossing.release + crossing.wire * byte + np.diff(first) * latency).max())
        keys_of(ends[1] - crossing.release, key)
        last = sort_keys(key, other)
        busy = latest_link_of_routes(first, links, crossing, last, latency, state)
        return max(alone, busy + latency)
    flag = _hot_runs(problem, mapping, crossing, ends, alone, wire_bytes)
    n = choose(run_table(torus), flag, crossing, ends, key)
    last = sort_keys(key[:n], other[:n])
    busy = latest_link(grid_of(torus), _lines(torus), crossing, last, latency, state)
    return max(alone, busy + latency)


def _released(
    problem: MappingProblem, mapping: TaskMapping, ways: Ways
) -> tuple[Crossing, tuple[float, float], float]:
    """Return the edges that cross the network; the first and the last release; and their end."""
    comm, torus = problem.comm, problem.torus
    network = torus.network
    edges, _, queue, _ = prepare(problem)
    in_turn = network.feeding == "tasks" and network.fifo_rule != "first_free"
    if np.isfinite(network.eager_limit):
        asks = comm.nbytes > network.eager_limit * comm.whole_messages
        in_turn = in_turn and not asks[(ways.hops > 0) & (edges.packets > 0)].any()
    n = queue.edge.size
    state = np.zeros(torus.n_nodes * network.fifos * STATES * in_turn)
    state[TOGETHER::STATES] = -1.0
    crossing = Crossing(
        scratch("source", n, np.int32),
        scratch("destination", n, np.int32),
        scratch("release", n),
        scratch("wire", n),
    )
    byte = 1 / max(torus.bandwidth)
    feeding = Feeding(network.fifos, in_turn, byte, network.hop_latency)
    n, first, last, alone = release_from_fifos(queue, feeding, ways, mapping.node, crossing, state)
    src, dst, release, wire = crossing
    return Crossing(src[:n], dst[:n], release[:n], wire[:n]), (first, last), alone


def _hot_runs(
    problem: MappingProblem,
    mapping: TaskMapping,
    crossing: Crossing,
    ends: tuple[float, float],
    alone: float,
    wire_bytes: NDArray[np.float64] | None,
) -> NDArray[np.uint8]:
    """Return which runs have links that may be busy latest; none if all edges are looked at."""
    torus = problem.torus
    runs = worthwhile_runs(torus, problem.comm.n_edges)
    if runs is None:
        return np.zeros(0, dtype=np.uint8)
    edges, unit, *_ = prepare(problem)
    if wire_bytes is None:
        headed = np.multiply(edges.wire_units, unit, dtype=np.float64)
        wire_bytes = sum_loads(problem, mapping, headed)
    work = wire_bytes / torus.link_bandwidth
    first, last = ends
    quarter = first + (last - first) / 4
    latency = torus.network.hop_latency
    least = max(first + work.max(), alone - latency) * (1 - _ROUNDING)
    least -= torus.diameter * latency + work.max() * _ROUNDING
    is_hot = last + work >= least
    if is_hot.mean() > _FEW_HOT:
        run = np.zeros(runs.n_runs, dtype=np.int64)
        add_early(runs, crossing, quarter, 1 / unit, run)
        early = np.zeros((1, torus.n_links), dtype=np.int64)
        spread_runs(grid_of(torus), runs, run, early)
        rest = work - early[0] * unit / torus.link_bandwidth
        is_hot = (quarter + work >= least) | (last + rest >= least)
    flag = np.zeros(runs.n_runs, dtype=np.bool_)
    flag_runs(grid_of(torus), runs, is_hot, flag)
    return np.packbits(flag, bitorder="little")


@lru_cache(maxsize=8)
def _lines(torus: Torus) -> DimensionLines:
    """Return the consecutive links along each dimension."""
    link = []
    plus, minus = [], []
    begin = 0
    for k, size in enumerate(torus.shape):
        stride = int(np.prod(torus.shape[k + 1 :]))
        along = np.arange(2 * size + 4) % size
        plus.append(begin)
        minus.append(begin + along.size)
        begin += 2 * along.size
        ports = 2 * torus.ndim
        link += [along * stride * ports + 2 * k, (size - 1 - along) * stride * ports + 2 * k + 1]
    return DimensionLines(
        np.concatenate(link, dtype=np.int32, casting="same_kind"),
        np.array(plus),
        np.array(minus),
    )
