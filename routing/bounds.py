"""Lower bounds of the communication time of a mapping.

Bounds of one phase, and the routing for which each is valid:

=========  ==================================================  ===================================
link       bytes of the busiest link at its bandwidth          dimension order; an estimate where
                                                               packets may choose their route
injection  bytes of the busiest FIFO at the fastest link       any routing
reception  bytes into the busiest node at memory bandwidth     any routing
latency    the slowest message without contention              any routing
release    when a link can end its work, given when messages   dimension order; an estimate where
           can reach it; at least the link bound               packets may choose at ties
cut        bytes that cross a plane or leave a node            any minimal routing
=========  ==================================================  ===================================

`time_bounds` computes the first four. Dependent rounds have no release or cut bound, because they
overlap. The best bound of a phase is the largest valid one; in dimension order, this is usually the
release bound. `MappingBounds` caches intermediate results.

`toruscast.simulation.clock_bounds` subtracts the rounding of the simulator's clock from these
bounds. `toruscast._mesh.step_times` has the bounds of a mesh's collectives. `min_time` and
`min_loads` are bounds over all mappings.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toruscast._jit import scratch
from toruscast._lazy import lazy
from toruscast.errors import InputError
from toruscast.mapping import MappingProblem, TaskMapping, Torus
from toruscast.typing import Bools, Floats, Int32s
from toruscast.workers import SingleBlasThread

from ._load_kernels import spread_runs
from .loads import PhaseRoutes, check_routes, edges_with_multiple_routes
from .messages import (
    hand_over_times,
    mean_message_packets,
    packet_counts,
    prepare_edges,
    software_times,
)
from .release_kernels import (
    FIFO_FIELDS,
    READY_UNTIL,
    SECONDS_PER_BYTE,
    InjectionConstants,
    RemoteEdges,
    add_released_edges,
    flag_runs,
    last_busy_time,
    release_from_fifos,
    select_flagged_edges,
)
from .route_kernels import last_arrival, sort_keys
from .routing import grid_of, has_multiple_routes, list_routes
from .tables import run_table, run_table_if_faster

# Number of rounds from which the overlap of all rounds is estimated.
_N_SAMPLED_ROUNDS = 16


class Bounds(NamedTuple):
    """Lower bound in seconds for each resource, summed over the phases."""

    link: float
    injection: float
    reception: float
    latency: float
    total: float
    """Largest bound of each phase, summed over the phases; dependent rounds count as one phase."""


def time_bounds(problem: MappingProblem, mapping: TaskMapping) -> Bounds:
    """Return lower bounds on the time that any schedule of the packets takes.

    A simulation rounds times to ticks and may end up to about 0.01 % earlier.
    `RoutedTraffic.sure_bound` accounts for that.

    The busiest link must carry its bytes (headers included) at its bandwidth. The busiest injection
    FIFO must send its messages at the bandwidth of the fastest link, and the busiest receiver must
    accept its bytes at the memory bandwidth. Every message needs its software overhead, its hops
    and its serialisation; the messages of an edge are handed over together. The total includes the
    start of each phase (`Network.start`). With adaptive routing, the link bound assumes an even
    split, so it is an estimate. If packets may choose at ties (`Torus.ties_are_open`), the link
    bound uses the expected load. Rounds of a dependent workload overlap, so their loads are added,
    and the latency is the time of the longest chain of dependent messages.

    Examples
    --------
    >>> comm = CommGraph(3, [0, 1], [2, 2], [51200, 51200])
    >>> bounds = time_bounds(MappingProblem(comm, (8,)), TaskMapping([0, 1, 2], 8))
    >>> round(bounds.link * 1e6, 3), 2 * 51200 * 544 / 512 / 2e3
    (54.4, 54.4)
    """
    mapping = problem.mapping(mapping)
    check_routes(problem, mapping)
    return MappingBounds(problem, mapping).resources


@dataclass(frozen=True, eq=False)
class MappingBounds:
    """Lower bounds of a problem under a checked mapping; each is computed when first used.

    A stretch is a phase, or rounds without a barrier. If the bounds of one stretch are ``known``,
    their intermediate results are reused.
    """

    problem: MappingProblem
    mapping: TaskMapping
    known: StretchBounds | None = None

    @lazy
    def _stretches(self) -> dict[int, StretchBounds]:
        return {} if self.known is None else {id(self.known.problem): self.known}

    def stretch(self, problem: MappingProblem) -> StretchBounds:
        """Return the bounds of one phase, or of rounds without a barrier, computed once."""
        if id(problem) not in self._stretches:
            self._stretches[id(problem)] = StretchBounds(problem, self.mapping)
        return self._stretches[id(problem)]

    @property
    def _stretch_bounds(self) -> list[StretchBounds]:
        problems = [self.problem] if self.problem.is_chained else self.problem.phases
        return [self.stretch(problem) for problem in problems]

    @lazy
    def resources(self) -> Bounds:
        """Bounds by resource, as `time_bounds` returns them."""
        columns = zip(*(each.resources for each in self._stretch_bounds), strict=True)
        return Bounds(*(sum(column) for column in columns))

    @lazy
    def best(self) -> float:
        """The largest valid bound of each phase, summed over the phases."""
        if self.problem.workload.dependent:
            return self.resources.total
        return sum(each.best for each in self._stretch_bounds)

    @lazy
    def rounds_apart(self) -> float:
        """Log of the ratio of two bounds: with and without barriers between dependent rounds.

        The ratio is estimated from a sample of the rounds, and weighted by the length of messages.
        Messages of one packet hardly delay each other, so their rounds overlap as the bound without
        barriers assumes.
        """
        total = self.resources.total
        if not self.problem.workload.dependent or not total:
            return 0.0
        n = len(self.problem.workload)
        sampled = self.problem.phases[:: -(-n // _N_SAMPLED_ROUNDS)]
        seconds = sum(max(self.stretch(phase).resources[:4]) for phase in sampled)
        with_barriers = self.problem.torus.network.start + seconds * n / len(sampled)
        weight = 1 - 1 / max(1.0, self.problem.derive(mean_message_packets)) ** 2
        return weight * max(0.0, math.log(with_barriers / total))


class StretchBounds(PhaseRoutes):
    """Lower bounds of one phase, or of rounds without a barrier; see `MappingBounds`."""

    @lazy
    def resources(self) -> Bounds:
        """Bounds by resource; the loads of overlapping rounds are added."""
        torus, totals = self.problem.torus, self.totals
        latency = self._longest_chain() if self.problem.is_chained else totals.latency
        seconds = (
            float((totals.wire_bytes / torus.link_bandwidth).max(initial=0.0)),
            float(totals.injected.max(initial=0.0)),
            float(totals.received.max(initial=0.0)) / torus.network.memory_bandwidth,
            latency,
        )
        return Bounds(*seconds, _add_start(max(seconds), torus))

    def _longest_chain(self) -> float:
        """Return the seconds of the longest chain of dependent messages."""
        problem, parallel = self.problem, None
        if problem.torus.network.fifo_rule == "first_free":
            parallel = edges_with_multiple_routes(problem.unrolled, problem.placed(self.mapping))
        latency = uncontended_times(problem, self.hops_and_fifos.hops, parallel)
        return longest_chain(problem, latency)

    @lazy
    def release(self) -> float:
        """Release bound in seconds; 0 if there is none."""
        has_none = self.problem.is_chained or self.problem.routing == "adaptive"
        return 0.0 if has_none else _release_seconds(self)

    @property
    def best(self) -> float:
        """Largest bound, including the start of a phase."""
        return max(self.resources.total, _add_start(self.release, self.problem.torus))

    @lazy
    def sure_link(self) -> float:
        """Link bound; if packets may choose their route, the cut bound instead (0 for rounds)."""
        if not has_multiple_routes(self.problem):
            return self.resources.link
        return 0.0 if self.problem.is_chained else cut_bound(self.problem, self.mapping)

    @property
    def sure_release(self) -> float:
        """Release bound; 0 if it is only an estimate, because packets may choose their route."""
        return 0.0 if has_multiple_routes(self.problem) else self.release


def _add_start(seconds: float, torus: Torus) -> float:
    # A phase without messages has no start.
    return torus.network.start + seconds if seconds else 0.0


def longest_chain(problem: MappingProblem, latency: Floats) -> float:
    """Return the seconds of the longest chain of messages that wait for each other.

    ``latency``, ``(n_edges,)``, has the seconds from the start of the sender's round until an
    edge's messages arrive.
    """
    rounds = problem.workload.unrolled
    comm = rounds.comm
    src, dst = rounds.task[comm.src], rounds.task[comm.dst]
    # A receiver also waits for messages that take no time.
    has_message = comm.whole_messages > 0
    software = software_times(comm, problem.torus.network)
    n_tasks = problem.n_tasks
    return float(last_arrival(rounds.begin, src, dst, has_message, latency, software, n_tasks))


def uncontended_times(
    problem: MappingProblem,
    hops: NDArray[np.integer],
    parallel: Bools | None = None,
    *,
    from_begin: bool = True,
) -> Floats:
    """Return the seconds until the last packet of each edge arrives without contention.

    Times count from the start of the edge's round or, without ``from_begin``, from its hand-over.
    ``parallel``, ``(n_edges,)``, flags edges whose packets may leave from several FIFOs at once.
    """
    comm, torus, network = problem.unrolled.comm, problem.torus, problem.torus.network
    packets, per_packet = packet_counts(problem)
    bytes_before_last = packets * per_packet
    if parallel is not None:
        bytes_before_last = np.where(parallel, per_packet, bytes_before_last)
    network_seconds = hops * network.hop_latency + bytes_before_last / max(torus.bandwidth)
    seconds = np.where(hops > 0, network_seconds, comm.nbytes / network.memory_bandwidth)
    if from_begin:
        seconds += hand_over_times(comm, network)[1]
    return np.where(packets > 0, seconds, 0.0)


def cut_bound(problem: MappingProblem, mapping: TaskMapping) -> float:
    """Return the seconds of the busiest cut of the torus, for any minimal routing.

    Cuts are the planes between neighbouring coordinates, in each direction, and the links of a
    node. Planes do not count messages that go half around a ring, because those can go either way.
    """
    comm, torus = problem.comm, problem.torus
    packets, packet_bytes = packet_counts(problem)
    src, dst = mapping.node[comm.src], mapping.node[comm.dst]
    remote = src != dst
    src, dst, weight = src[remote], dst[remote], (packets * packet_bytes)[remote]
    if not src.size:
        return 0.0
    node_bound = _node_bound(torus, src, dst, weight)
    # A twisted wrap link also moves along other dimensions, so planes do not cut the torus.
    return node_bound if torus.twist else max(node_bound, _plane_bound(torus, src, dst, weight))


def _plane_bound(torus: Torus, src: Int32s, dst: Int32s, weight: Floats) -> float:
    """Return the seconds of the busiest plane between neighbouring coordinates.

    Message m carries ``weight[m]`` bytes from node ``src[m]`` to ``dst[m]``.
    """
    max_seconds = 0.0
    for d, size in enumerate(torus.shape):
        start = torus.coords[src, d].astype(np.int64)
        gap = torus.coords[dst, d].astype(np.int64) - start
        if torus.wrap[d]:
            gap = (gap + size // 2) % size - size // 2
            gap[2 * np.abs(gap) == size] = 0
        plane_bandwidth = torus.n_nodes / size * torus.bandwidth[d]
        for sign in (1, -1):
            hops = np.maximum(sign * gap, 0)
            first = start if sign == 1 else start - hops
            # A message crosses the planes from first to first + hops - 1. Mark the start and end of
            # this range on two copies of the ring; the cumulative sums are then each plane's bytes.
            steps = np.bincount(first % size, weight * (hops > 0), minlength=2 * size + 1)
            steps -= np.bincount(first % size + hops, weight * (hops > 0), minlength=2 * size + 1)
            crossing = np.cumsum(steps)[: 2 * size].reshape(2, size).sum(axis=0)
            max_seconds = max(max_seconds, float(crossing.max()) / plane_bandwidth)
    return max_seconds


def _node_bound(torus: Torus, src: Int32s, dst: Int32s, weight: Floats) -> float:
    """Return the seconds that the links of the busiest node take for its remote messages."""
    bandwidth = np.where(torus.link_exists, torus.link_bandwidth, 0.0).reshape(torus.n_nodes, -1)
    bandwidth_out = bandwidth.sum(axis=1)
    head = torus.neighbors.ravel()
    exists = torus.link_exists
    bandwidth_in = np.bincount(head[exists], torus.link_bandwidth[exists], minlength=torus.n_nodes)
    bytes_out = np.bincount(src, weight, minlength=torus.n_nodes)
    bytes_in = np.bincount(dst, weight, minlength=torus.n_nodes)
    sends, receives = bytes_out > 0, bytes_in > 0
    seconds_out = bytes_out[sends] / bandwidth_out[sends]
    seconds_in = bytes_in[receives] / bandwidth_in[receives]
    return float(max(seconds_out.max(initial=0.0), seconds_in.max(initial=0.0)))


# Maximum relative rounding error of sums.
_ROUNDING = 1e-9
# If a larger share of the links is hot, a second, tighter selection saves time.
_MAX_HOT_SHARE = 0.02


def release_bound(problem: MappingProblem, mapping: TaskMapping) -> float:
    """Return a lower bound on the time in dimension order, summed over phases between barriers.

    For each phase, `RoutedTraffic.release_bound` takes the larger of this bound and `time_bounds`.

    A link cannot carry a message before the message has left its injection FIFO and crossed the
    earlier links of its route. For any time t, a link is busy at least until t plus the work that
    reaches it after t. The bound of a link is the maximum over all t, as for a machine whose jobs
    have release times [1]_. With short messages, links often wait for software, so this bound is
    tighter than the link bound and the latency bound of `time_bounds`.

    If packets may choose at ties (`Torus.ties_are_open`), half of a message is expected in each
    direction, so the result is an estimate. Waiting in FIFOs is included if each FIFO sends the
    messages of a task one after the other (`Network.feeding` "tasks", without rendezvous and
    without the FIFO rule "first_free").

    Returns
    -------
    float
        Seconds, excluding the start of each phase; 0 without network traffic.

    Raises
    ------
    InputError
        If the rounds are dependent: they overlap and have no such bound.

    References
    ----------
    .. [1] J. R. Jackson, "Scheduling a production line to minimize maximum tardiness", Research
       Report 43, Management Sciences Research Project, UCLA, 1955.

    Examples
    --------
    Seven tasks of one node each send a packet to a task on the next node. A packet takes 272 ns
    and needs a microsecond of software first.

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
        raise InputError("dependent rounds have no release bound", expected="time_bounds")
    return sum(_release_seconds(PhaseRoutes(phase, mapping)) for phase in problem.phases)


def _release_seconds(routes: PhaseRoutes) -> float:
    """Return the release bound of one phase, 0 without network traffic.

    A link works on its messages from the moment when the first one can reach it. The bound is the
    time when the last link ends its work. Only links that may end last are examined.
    """
    torus = routes.problem.torus
    remote, release_range, uncontended = _find_releases(routes)
    n = remote.src.size
    if not n:
        return 0.0
    latency = torus.network.hop_latency
    state = np.tile([np.inf, 0.0, 0.0, 0.0], (torus.n_links, 1))
    state[:, SECONDS_PER_BYTE] = 1 / torus.link_bandwidth
    key, buffer = (scratch(name, n, np.uint64) for name in ("key", "other key"))
    flag = _flag_hot_runs(routes, remote, release_range, uncontended)
    n = select_flagged_edges(run_table(torus), flag, remote, release_range, key)
    latest_first = sort_keys(key[:n], buffer[:n])
    first, links = np.zeros((2, 0), dtype=np.int64)
    if torus.twist:
        first, links = list_routes(torus, remote.src, remote.dst)
    end = last_busy_time(grid_of(torus), first, links, remote, latest_first, latency, state)
    return max(uncontended, end + latency)


def _find_releases(routes: PhaseRoutes) -> tuple[RemoteEdges, tuple[float, float], float]:
    """Return the remote edges, the first and the last release, and the last uncontended end."""
    problem, injections = routes.problem, routes.hops_and_fifos
    comm, torus = problem.comm, problem.torus
    network = torus.network
    edges, _, queue, _ = prepare_edges(problem)
    in_turn = network.feeding == "tasks" and network.fifo_rule != "first_free"
    if np.isfinite(network.eager_limit):
        uses_rendezvous = comm.nbytes > network.eager_limit * comm.whole_messages
        in_turn &= not (uses_rendezvous & (injections.hops > 0) & (edges.packets > 0)).any()
    n = queue.edge.size
    state = np.zeros(torus.n_nodes * network.fifos * FIFO_FIELDS * in_turn)
    state[READY_UNTIL::FIFO_FIELDS] = -1.0
    remote = RemoteEdges(
        scratch("source", n, np.int32),
        scratch("destination", n, np.int32),
        scratch("release", n),
        scratch("wire", n),
    )
    byte_seconds = 1 / max(torus.bandwidth)
    node = routes.mapping.node
    constants = InjectionConstants(network.fifos, in_turn, byte_seconds, network.hop_latency)
    n, first, last, end = release_from_fifos(queue, constants, injections, node, remote, state)
    src, dst, release, wire = remote
    return RemoteEdges(src[:n], dst[:n], release[:n], wire[:n]), (first, last), end


def _flag_hot_runs(
    routes: PhaseRoutes, remote: RemoteEdges, release_range: tuple[float, float], uncontended: float
) -> NDArray[np.uint8]:
    """Return a bit for each run: whether a link of it may be busy last. Empty to examine all runs.

    The busy time of a link begins no later than the last release. The second selection
    distinguishes two cases: the busy time begins in the first quarter of the range of releases, or
    it consists only of work that is released later.
    """
    problem, torus = routes.problem, routes.problem.torus
    runs = run_table_if_faster(torus, problem.comm.n_edges)
    if runs is None:
        return np.zeros(0, dtype=np.uint8)
    unit = prepare_edges(problem).wire_unit
    work = routes.wire_bytes / torus.link_bandwidth
    first, last = release_range
    quarter = first + (last - first) / 4
    latency = torus.network.hop_latency
    lower_bound = max(first + work.max(), uncontended - latency) * (1 - _ROUNDING)
    lower_bound -= torus.diameter * latency + work.max() * _ROUNDING
    is_hot = last + work >= lower_bound
    if is_hot.mean() > _MAX_HOT_SHARE:
        run = np.zeros(runs.n_runs, dtype=np.int64)
        add_released_edges(runs, remote, quarter, 1 / unit, run)
        early = np.zeros((1, torus.n_links), dtype=np.int64)
        spread_runs(grid_of(torus), runs, run, early)
        late_work = work - early[0] * unit / torus.link_bandwidth
        is_hot = (quarter + work >= lower_bound) | (last + late_work >= lower_bound)
    is_flagged = np.zeros(runs.n_runs, dtype=np.bool_)
    flag_runs(grid_of(torus), runs, is_hot, is_flagged)
    return np.packbits(is_flagged, bitorder="little")


# Maximum tasks for the spectrum of the graph, because its cost is cubic.
_MAX_SPECTRUM_TASKS = 1200


def min_time(problem: MappingProblem, tasks_per_node: int = 1) -> float:
    """Return a lower bound in seconds over all mappings and minimal routings.

    At best, the ``tasks_per_node - 1`` heaviest partners of a task share its node, and the next
    ones are one hop away. For up to 1,200 tasks, the second eigenvalue of the graph's Laplacian
    gives a lower bound on the traffic between halves of the torus (Fiedler, Czechoslovak Math. J.
    23, 1973).
    """
    phases = np.array([_phase_bounds(phase, tasks_per_node) for phase in problem.phases])
    if problem.workload.dependent:
        latency = _min_uncontended_times(problem, tasks_per_node, from_begin=False)
        # Rounds overlap, so of these bounds, only the work of all links adds up over rounds.
        return max(longest_chain(problem, latency), float(phases[:, 2].sum()))
    return float(phases.max(axis=1).sum())


def min_loads(problem: MappingProblem, tasks_per_node: int = 1) -> tuple[float, float]:
    """Return lower bounds, over all mappings, on the hop-bytes and on the busiest link's bytes."""
    total, torus = problem.total, problem.torus
    busiest, hop_bytes, _ = _node_traffic_bounds(total, total.comm.nbytes, tasks_per_node)
    n_ports = 2 * sum(size > 1 for size in torus.shape)
    if not (n_ports and torus.n_existing_links):
        return 0.0, 0.0
    return hop_bytes, max(busiest / n_ports, hop_bytes / torus.n_existing_links)


def _phase_bounds(problem: MappingProblem, capacity: int) -> tuple[float, ...]:
    """Return the bounds of a phase from sending, node links, hop-bytes, reception and bisection.

    Sending: the last message of a task is handed over after its other messages, and takes at least
    a hop. Node links: a node's links carry its tasks' traffic with other nodes. Hop-bytes: all
    links together carry the bytes times hops, and only a few partners of a task can be near it.
    Reception: the traffic to a node enters its memory.
    """
    torus = problem.torus
    packets, packet_bytes = packet_counts(problem)
    wire = packets * packet_bytes
    sending = float(_min_uncontended_times(problem, capacity).max(initial=0.0))
    busiest, hop_bytes, received = _node_traffic_bounds(problem, wire, capacity)
    dimensions = zip(torus.bandwidth, torus.shape, strict=True)
    node_bandwidth = 2 * sum(bandwidth for bandwidth, size in dimensions if size > 1)
    total_bandwidth = float(torus.link_bandwidth[torus.link_exists].sum())
    if not (node_bandwidth and total_bandwidth):
        return sending, 0.0, 0.0, 0.0, 0.0
    return (
        sending,
        busiest / node_bandwidth,
        hop_bytes / total_bandwidth,
        received / torus.network.memory_bandwidth,
        _bisection_bound(problem, wire, capacity),
    )


def _min_uncontended_times(
    problem: MappingProblem, capacity: int, *, from_begin: bool = True
) -> Floats:
    """Return the seconds of each edge over one hop, or within a node if possible and faster."""
    comm = problem.unrolled.comm
    # Packets may leave from several FIFOs in parallel.
    any_fifo = problem.torus.network.fifo_rule == "first_free"
    parallel = np.ones(comm.n_edges, dtype=np.bool_) if any_fifo else None
    hops = (comm.src != comm.dst).astype(np.int64)
    seconds = uncontended_times(problem, hops, parallel, from_begin=from_begin)
    if capacity == 1:
        return seconds
    within_node = uncontended_times(problem, np.zeros_like(hops), from_begin=from_begin)
    return np.minimum(seconds, within_node)


def _node_traffic_bounds(
    problem: MappingProblem, weight: Floats, capacity: int
) -> tuple[float, float, float]:
    """Return lower bounds, in bytes, over all mappings with ``capacity`` tasks on a node.

    They bound the busiest node's traffic in one direction, the hop-bytes, and the traffic that the
    busiest node receives. ``weight``, ``(n_edges,)``, has the bytes of each edge.
    """
    comm, torus = problem.comm, problem.torus
    distances = np.sort(torus.distance(0, np.arange(torus.n_nodes)))[1:]
    # In a mesh, node 0 is a corner, and other nodes have more near neighbours.
    if not all(torus.wrap):
        shells = np.arange(1, distances.size + 1) // (2 * torus.ndim) + 1
        distances = np.minimum(distances, np.minimum(shells, max(torus.diameter, 1)))
    hops_of_partner = np.concatenate([np.zeros(capacity - 1), np.repeat(distances, capacity)])
    max_traffic = total = received = 0.0
    for task, other in ((comm.src, comm.dst), (comm.dst, comm.src)):
        is_remote = task != other
        order = np.lexsort((-weight[is_remote], task[is_remote]))
        owner, traffic = task[is_remote][order], weight[is_remote][order]
        if not owner.size or not distances.size:
            continue
        partner_rank = np.arange(owner.size) - np.searchsorted(owner, owner)
        remaining = np.where(partner_rank >= capacity - 1, traffic, 0.0)
        task_traffic = float(np.bincount(owner, remaining).max())
        max_traffic = max(max_traffic, task_traffic)
        if other is comm.src:
            received = task_traffic
        hops = hops_of_partner[np.minimum(partner_rank, hops_of_partner.size - 1)]
        total = max(total, float((hops * traffic).sum()))
    return max_traffic, total, received


def _bisection_bound(problem: MappingProblem, wire: Floats, capacity: int) -> float:
    """Return the seconds of the busiest cut between two parts of a dimension.

    The bytes between n tasks and the other N - n tasks are at least n (N - n) / N times the second
    eigenvalue of the Laplacian (see `min_time`).
    """
    comm, torus, n_tasks = problem.comm, problem.torus, problem.n_tasks
    if torus.twist or not 2 <= n_tasks <= _MAX_SPECTRUM_TASKS:
        return 0.0
    laplacian = np.zeros((n_tasks, n_tasks))
    np.add.at(laplacian, (comm.src, comm.dst), -wire)
    laplacian += laplacian.T
    np.fill_diagonal(laplacian, 0.0)
    np.fill_diagonal(laplacian, -laplacian.sum(axis=1))
    # Several BLAS threads would take ten times the processor time.
    with SingleBlasThread():
        eigenvalue = float(np.linalg.eigvalsh(laplacian)[1])
    eigenvalue = max(eigenvalue, 0.0)
    max_seconds = 0.0
    for size, wrap, bandwidth in zip(torus.shape, torus.wrap, torus.bandwidth, strict=True):
        links = torus.n_nodes // size * (2 if wrap else 1)
        for planes in range(1, size):
            # The bound is smallest for the most uneven split that the capacity allows.
            n_low = min(capacity * torus.n_nodes // size * planes, n_tasks)
            n_high = min(capacity * torus.n_nodes // size * (size - planes), n_tasks)
            min_product = min(n_low * (n_tasks - n_low), n_high * (n_tasks - n_high))
            seconds = eigenvalue * min_product / n_tasks / (2 * links * bandwidth)
            max_seconds = max(max_seconds, seconds)
    return max_seconds
