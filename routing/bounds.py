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
packets choose, whatever ticks round off, for several iterations and longer packets. Those of a
mesh's collectives are in `toruscast._mesh.step_times`. `min_time` and `min_loads` hold for all
mappings.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from toruscast._jit import scratch
from toruscast._lazy import lazy
from toruscast.errors import InputError
from toruscast.mapping import MappingProblem, TaskMapping, Torus

from ._load_kernels import spread_runs
from .loads import PhaseRoutes, check_ways, have_two_ways
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
from .route_kernels import keys_of, last_arrival, sort_keys
from .routing import grid_of, list_links, ways_are_open
from .tables import run_table, worthwhile_runs

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
        return {} if self.routes is None else {id(self.routes.problem): StretchBounds(self.routes)}

    def stretch(self, problem: MappingProblem) -> StretchBounds:
        """Return the bounds of one phase, or of rounds without a barrier; equal ones share them."""
        if id(problem) not in self._stretches:
            self._stretches[id(problem)] = StretchBounds(PhaseRoutes(problem, self.mapping))
        return self._stretches[id(problem)]

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

    routes: PhaseRoutes

    @lazy
    def resources(self) -> Bounds:
        """Bounds by resource. Rounds overlap, so their loads count together."""
        torus, found = self.routes.problem.torus, self.routes.tally
        latency = self._longest_chain() if self.routes.problem.is_chained else found.latency
        seconds = (
            float((found.wire_bytes / torus.link_bandwidth).max(initial=0.0)),
            float(found.injected.max(initial=0.0)),
            float(found.received.max(initial=0.0)) / torus.network.memory_bandwidth,
            latency,
        )
        return Bounds(*seconds, _started(max(seconds), torus))

    def _longest_chain(self) -> float:
        problem, two_ways = self.routes.problem, None
        if problem.torus.network.fifo_rule == "first_free":
            two_ways = have_two_ways(problem.unrolled, problem.placed(self.routes.mapping))
        return longest_chain(problem, times_alone(problem, self.routes.ways.hops, two_ways))

    @lazy
    def release(self) -> float:
        """Seconds of `release_bound`; 0 if there is none."""
        problem = self.routes.problem
        has_none = problem.is_chained or problem.routing == "adaptive"
        return 0.0 if has_none else _release_seconds(self.routes)

    @property
    def best(self) -> float:
        """The largest of them, with the start of a phase."""
        return max(self.resources.total, _started(self.release, self.routes.problem.torus))

    @property
    def is_open(self) -> bool:
        """Whether packets may choose their way, so that bounds of links are estimates."""
        return ways_are_open(self.routes.problem)

    @lazy
    def certain_links(self) -> float:
        """Seconds that links need whichever way packets choose."""
        if not self.is_open:
            return self.resources.link
        problem = self.routes.problem
        return 0.0 if problem.is_chained else cut_bound(problem, self.routes.mapping)

    @property
    def certain_release(self) -> float:
        """The release bound where it is none of expected loads, else 0."""
        return 0.0 if self.is_open else self.release


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
    >>> mapping = TaskMapping([0] * 7 + [1], torus, tasks_per_node=7)
    >>> round(time_bounds(problem, mapping).total * 1e6, 3)
    1.904
    >>> round(release_bound(problem, mapping) * 1e6, 3)
    2.944
    """
    mapping = problem.mapping(mapping)
    if problem.is_chained:
        raise InputError("no release bound of dependent rounds", expected="phases, or time_bounds")
    return sum(_release_seconds(PhaseRoutes(phase, mapping)) for phase in problem.phases)


def _release_seconds(routes: PhaseRoutes) -> float:
    """Return the release bound of a phase."""
    torus = routes.problem.torus
    crossing, ends, alone = _released(routes)
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
    flag = _hot_runs(routes, crossing, ends, alone)
    n = choose(run_table(torus), flag, crossing, ends, key)
    last = sort_keys(key[:n], other[:n])
    busy = latest_link(grid_of(torus), _lines(torus), crossing, last, latency, state)
    return max(alone, busy + latency)


def _released(routes: PhaseRoutes) -> tuple[Crossing, tuple[float, float], float]:
    """Return the edges that cross the network; the first and the last release; and their end."""
    problem, ways = routes.problem, routes.ways
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
    node = routes.mapping.node
    feeding = Feeding(network.fifos, in_turn, byte, network.hop_latency)
    n, first, last, alone = release_from_fifos(queue, feeding, ways, node, crossing, state)
    src, dst, release, wire = crossing
    return Crossing(src[:n], dst[:n], release[:n], wire[:n]), (first, last), alone


def _hot_runs(
    routes: PhaseRoutes, crossing: Crossing, ends: tuple[float, float], alone: float
) -> NDArray[np.uint8]:
    """Return which runs have links that may be busy latest; none if all edges are looked at."""
    problem, torus = routes.problem, routes.problem.torus
    runs = worthwhile_runs(torus, problem.comm.n_edges)
    if runs is None:
        return np.zeros(0, dtype=np.uint8)
    unit = prepare(problem).wire_unit
    work = routes.wire_bytes / torus.link_bandwidth
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


# Tasks up to which the graph's spectrum is worked out, for the bisection.
_MAX_TASKS = 1200


def min_time(problem: MappingProblem, tasks_per_node: int = 1) -> float:
    """Return seconds below which no mapping, and no minimal routing, can bring the traffic.

    A task's ``tasks_per_node - 1`` heaviest partners are at best on its node, the next one hop
    away. Halves of the torus exchange at least what the second eigenvalue of the graph's Laplacian
    says (Fiedler, Czechoslovak Math. J. 23, 1973), which is worked out for up to 1,200 tasks.
    """
    phases = np.array([_phase_seconds(phase, tasks_per_node) for phase in problem.phases])
    if problem.workload.dependent:
        alone = _min_times_alone(problem, tasks_per_node, from_begin=False)
        # What the links carry of all rounds counts together.
        return max(longest_chain(problem, alone), float(phases[:, 2].sum()))
    return float(phases.max(axis=1).sum())


def min_loads(problem: MappingProblem, tasks_per_node: int = 1) -> tuple[float, float]:
    """Return bytes times hops, and bytes of the busiest link, that no mapping can beat."""
    total, torus = problem.total, problem.torus
    busiest, hop_bytes, _ = _leaving(total, total.comm.nbytes, tasks_per_node)
    n_ports = 2 * sum(size > 1 for size in torus.shape)
    if not (n_ports and torus.n_existing_links):
        return 0.0, 0.0
    return hop_bytes, max(busiest / n_ports, hop_bytes / torus.n_existing_links)


def _phase_seconds(problem: MappingProblem, capacity: int) -> tuple[float, ...]:
    """Seconds of a phase by what needs them.

    Sending: the last message of a task is handed over after the others, and goes one hop. Degree:
    what a task exchanges with others than share its node goes over the links of its node. Hops: all
    links together carry bytes times hops, and only few partners can be near. Reception: what a task
    receives goes through the memory of its node. Bisection: see `_bisection`.
    """
    torus = problem.torus
    packets, each = packet_counts(problem)
    wire = packets * each
    sending = float(_min_times_alone(problem, capacity).max(initial=0.0))
    busiest, hop_bytes, received = _leaving(problem, wire, capacity)
    out_of_node = 2 * sum(
        b for b, size in zip(torus.bandwidth, torus.shape, strict=True) if size > 1
    )
    speed = float(torus.link_bandwidth[torus.link_exists].sum())
    if not (out_of_node and speed):
        return sending, 0.0, 0.0, 0.0, 0.0
    return (
        sending,
        busiest / out_of_node,
        hop_bytes / speed,
        received / torus.network.memory_bandwidth,
        _bisection(problem, wire, capacity),
    )


def _min_times_alone(problem: MappingProblem, capacity: int, *, from_begin: bool = True) -> Floats:
    """Seconds of each edge, at best one hop away, or on its node where that has room for two."""
    comm = problem.unrolled.comm
    # From several FIFOs, packets may leave side by side.
    any_fifo = problem.torus.network.fifo_rule == "first_free"
    two_ways = np.ones(comm.n_edges, dtype=np.bool_) if any_fifo else None
    hops = (comm.src != comm.dst).astype(np.int64)
    seconds = times_alone(problem, hops, two_ways, from_begin=from_begin)
    if capacity == 1:
        return seconds
    inside = times_alone(problem, np.zeros_like(hops), from_begin=from_begin)
    return np.minimum(seconds, inside)


def _leaving(problem: MappingProblem, weight: Floats, capacity: int) -> tuple[float, float, float]:
    """What leaves or enters the busiest task's node, weight times hops, and what enters one."""
    comm, torus = problem.comm, problem.torus
    away = np.sort(torus.distance(0, np.arange(torus.n_nodes)))[1:]
    # A mesh's corner has the fewest neighbours, its middle the most: no node has more than these.
    ring = np.minimum(np.arange(1, away.size + 1) // (2 * torus.ndim) + 1, max(torus.diameter, 1))
    nearest = away if all(torus.wrap) else np.minimum(away, ring)
    hops_of_partner = np.concatenate([np.zeros(capacity - 1), np.repeat(nearest, capacity)])
    most = total = received = 0.0
    for task, other in ((comm.src, comm.dst), (comm.dst, comm.src)):
        remote = task != other
        order = np.lexsort((-weight[remote], task[remote]))
        owner, amount = task[remote][order], weight[remote][order]
        if not owner.size or not away.size:
            continue
        place = np.arange(owner.size) - np.searchsorted(owner, owner)
        busiest = float(np.bincount(owner, np.where(place >= capacity - 1, amount, 0.0)).max())
        most = max(most, busiest)
        if other is comm.src:
            received = busiest
        hops = hops_of_partner[np.minimum(place, hops_of_partner.size - 1)]
        total = max(total, float((hops * amount).sum()))
    return most, total, received


def _bisection(problem: MappingProblem, wire: Floats, capacity: int) -> float:
    """Seconds for what must cross between the halves of each dimension, both ways together."""
    comm, torus, n_tasks = problem.comm, problem.torus, problem.n_tasks
    # A twisted wrap link shifts along other dimensions: planes are no cuts there.
    if torus.twist or not 2 <= n_tasks <= _MAX_TASKS:
        return 0.0
    laplacian = np.zeros((n_tasks, n_tasks))
    np.add.at(laplacian, (comm.src, comm.dst), -wire)
    laplacian += laplacian.T
    np.fill_diagonal(laplacian, 0.0)
    np.fill_diagonal(laplacian, -laplacian.sum(axis=1))
    # Threads of BLAS that wait for each other take ten times the processor time of one.
    with threadpool_limits(1, "blas"):
        second = float(np.linalg.eigvalsh(laplacian)[1])
    second = max(second, 0.0)
    longest = 0.0
    for size, wrap, bandwidth in zip(torus.shape, torus.wrap, torus.bandwidth, strict=True):
        links = torus.n_nodes // size * (2 if wrap else 1)
        for planes in range(1, size):
            # Of the splits that fit, the most uneven lets the fewest bytes cross.
            here = min(capacity * torus.n_nodes // size * planes, n_tasks)
            there = min(capacity * torus.n_nodes // size * (size - planes), n_tasks)
            least = min(here * (n_tasks - here), there * (n_tasks - there))
            longest = max(longest, second * least / n_tasks / (2 * links * bandwidth))
    return longest
