"""Lower bounds of the communication time: by resource, by release times, by cuts."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toruscast._jit import scratch
from toruscast.mapping import MappingProblem, TaskMapping, Torus

from ._load_kernels import spread_runs
from .loads import check_ways, sum_loads
from .messages import hand_over_times, packet_counts, prepare, software_times
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
from .routing import edge_ways, grid_of, list_links
from .tables import run_table, worthwhile_runs
from .tally import Tally, have_two_ways, tally


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
    `RoutedTraffic.sure_bound` allows for that.

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
    if problem.workload.dependent:
        # Rounds overlap, so the work of a link, FIFO or receiver in all of them counts together.
        ways = edge_ways(problem, mapping)
        found = tally(problem.unrolled, problem.placed(mapping), ways)
        chain = longest_chain(problem, _times_alone(problem, mapping, ways))
        return bounds_of(found._replace(latency=chain), problem.torus)
    each = [bounds_of(tally(phase, mapping), problem.torus) for phase in problem.phases]
    return Bounds(*(sum(column) for column in zip(*each, strict=True)))


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


def _times_alone(problem: MappingProblem, mapping: TaskMapping, ways: Ways) -> NDArray[np.float64]:
    """Return the seconds from the begin of an edge's round to its arrival, if it never waits."""
    comm, torus = problem.unrolled.comm, problem.torus
    network = torus.network
    packets, per_packet = packet_counts(problem)
    _, ready = hand_over_times(comm, network)
    behind = packets * per_packet
    if network.fifo_rule == "first_free":
        # Packets with two ways may leave side by side from several FIFOs.
        two = have_two_ways(problem.unrolled, problem.placed(mapping))
        behind = np.where(two, per_packet, behind)
    on_its_way = ways.hops * network.hop_latency + behind / max(torus.bandwidth)
    copying = comm.nbytes / network.memory_bandwidth
    return np.where(packets > 0, ready + np.where(ways.hops > 0, on_its_way, copying), 0.0)


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


def release_bound(
    problem: MappingProblem,
    mapping: TaskMapping,
    *,
    wire_bytes: NDArray[np.float64] | None = None,
    ways: Ways | None = None,
) -> float:
    """Return a lower bound of the time of a phase in dimension order.

    `RoutedTraffic.release_bound` is the larger of this and of `time_bounds`, for whole workloads.

    A link cannot carry a message before the message has left its injection FIFO and crossed the
    links before. All messages that reach a link after some moment keep it busy from then on. The
    largest moment plus work, over all links and moments, is the bound of a machine whose jobs have
    release times [1]_. With short messages, links often wait for software, and this bound is nearer
    to the time than the busiest link's bytes or a message's latency alone.

    Where ties are open (`Torus.ties_are_open`), half of a message is expected each way, so the
    result is an estimate. Waits in FIFOs count if these send one message of a task after the other
    (`Network.feeding` "tasks", no rendezvous, a FIFO of its own for each message).

    Parameters
    ----------
    wire_bytes, ways : optional
        Loads of the links with the headers of packets, ``(n_links,)``, and what `edge_ways`
        returns, if they are known already.

    Returns
    -------
    float
        Seconds; 0 if nothing goes over the network.

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
    mapping, torus = problem.mapping(mapping), problem.torus
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
