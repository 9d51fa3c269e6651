"""The release bound: a lower bound of the time from the moments at which links get work."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from toruscast._scratch import scratch
from toruscast.mapping import CommGraph, TaskMapping, Torus

from ._run_kernels import spread_runs
from ._sort_kernels import keys_of, sort_keys
from .edges import prepare
from .loads import link_loads
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
from .route_kernels import Ways
from .routing import check_fit, edge_ways, grid_of
from .runs import run_table, worthwhile_runs
from .twisted import list_links

_ROUNDING = 1e-9
# Share of links that may be latest below which it does not pay to look closer at the links.
_FEW_HOT = 0.02


def release_bound(
    comm: CommGraph,
    torus: Torus,
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
    comm : CommGraph
        What is sent in the phase.
    torus : Torus
        The network.
    mapping : TaskMapping
        The nodes of the tasks.
    wire_bytes : ndarray, shape (n_links,), optional
        Loads of the links with the headers of packets, if they are known already.
    ways : Ways, optional
        What `edge_ways` returns, if it is known already.

    Returns
    -------
    float
        Seconds; 0 if nothing goes over the network.

    Raises
    ------
    InputError
        If the mapping does not fit, or an edge has too many packets.

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
    >>> comm = CommGraph(8, range(7), [7] * 7, [512] * 7)
    >>> mapping = TaskMapping([0] * 7 + [1], torus)
    >>> round(time_bounds(comm, torus, mapping).total * 1e6, 3)
    1.904
    >>> round(release_bound(comm, torus, mapping) * 1e6, 3)
    2.944
    """
    check_fit(comm, torus, mapping)
    if ways is None:
        ways = edge_ways(comm, torus, mapping)
    crossing, ends, alone = _released(comm, torus, mapping, ways)
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
    flag = _hot_runs(comm, torus, mapping, crossing, ends, alone, wire_bytes)
    n = choose(run_table(torus), flag, crossing, ends, key)
    last = sort_keys(key[:n], other[:n])
    busy = latest_link(grid_of(torus), _lines(torus), crossing, last, latency, state)
    return max(alone, busy + latency)


def _released(
    comm: CommGraph, torus: Torus, mapping: TaskMapping, ways: Ways
) -> tuple[Crossing, tuple[float, float], float]:
    """Return the edges that cross the network; the first and the last release; and their end.

    No edge is under way after that, if none waits for another at a link.
    """
    network = torus.network
    edges, _, queue, _ = prepare(comm, torus)
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
    comm: CommGraph,
    torus: Torus,
    mapping: TaskMapping,
    crossing: Crossing,
    ends: tuple[float, float],
    alone: float,
    wire_bytes: NDArray[np.float64] | None,
) -> NDArray[np.uint8]:
    """Return which runs have links that may be busy latest; none if all edges are looked at.

    A link is busy at least until the first release plus all its work. From a moment on it is busy
    at most for the work of the messages that are released later. So until a first quarter of the
    releases is over, all its work counts, and afterwards what is left of it. Usually few links can
    be later than the busiest.
    """
    runs = worthwhile_runs(torus, comm.n_edges)
    if runs is None:
        return np.zeros(0, dtype=np.uint8)
    edges, unit, *_ = prepare(comm, torus)
    if wire_bytes is None:
        wire_bytes = link_loads(comm, torus, mapping, edges.wire_units * unit)
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
