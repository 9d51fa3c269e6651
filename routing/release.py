"""The release bound: a lower bound of the time from the moments at which links get work."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from toruscast._scratch import scratch
from toruscast.mapping import CommGraph, TaskMapping, Torus

from ._sort_kernels import keys_of, sort_keys
from .edges import prepare, queue_of
from .loads import link_loads
from .release_kernels import (
    A_BYTE,
    Crossing,
    DimensionLines,
    Feeding,
    choose,
    flag_runs,
    latest_link,
    latest_link_of_routes,
    release_from_fifos,
)
from .route_kernels import ROUND_ROBIN
from .routing import FIFO_RULES, check_fit, grid_of, injection_fifos
from .runs import run_table, worthwhile_runs
from .twisted import list_links

_ROUNDING = 1e-9


def release_bound(
    comm: CommGraph,
    torus: Torus,
    mapping: TaskMapping,
    *,
    wire_bytes: NDArray[np.float64] | None = None,
    ready: NDArray[np.float64] | None = None,
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
    ready : ndarray, shape (n_edges,), optional
        Seconds at which each edge is handed over, if they are others than the network's.

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
    crossing, ends = _released(comm, torus, mapping, ready)
    n = crossing.src.size
    if not n:
        return 0.0
    latency = torus.network.hop_latency
    state = np.tile([np.inf, 0.0, 0.0, 0.0], (torus.n_links, 1))
    state[:, A_BYTE] = 1 / torus.link_bandwidth
    grid, byte = grid_of(torus), 1 / max(torus.bandwidth)
    key, other = (scratch(name, n, np.uint64) for name in ("key", "other key"))
    if torus.twist:
        first, links = list_links(torus, crossing.src, crossing.dst)
        alone = crossing.release + crossing.wire * byte + np.diff(first) * latency
        keys_of(ends[1] - crossing.release, key)
        last = sort_keys(key, other)
        busy = latest_link_of_routes(first, links, crossing, last, latency, state)
        return max(float(alone.max()), busy + latency)
    flag = _hot_runs(comm, torus, mapping, ends, wire_bytes)
    n, end = choose(grid, run_table(torus), flag, crossing, latency, byte, ends, key)
    last = sort_keys(key[:n], other[:n])
    busy = latest_link(grid, _lines(torus), crossing, last, latency, state)
    return max(end, busy + latency)


def _released(
    comm: CommGraph,
    torus: Torus,
    mapping: TaskMapping,
    ready: NDArray[np.float64] | None,
) -> tuple[Crossing, tuple[float, float]]:
    """Return the edges that cross the network; the first and the last release."""
    network = torus.network
    edges, unit, queue = prepare(comm, torus)
    if ready is not None:
        queue = queue_of(comm, edges, unit, ready)
    in_turn = network.feeding == "tasks" and network.fifo_rule != "first_free"
    if np.isfinite(network.eager_limit):
        asks = comm.nbytes > network.eager_limit * comm.whole_messages
        remote = mapping.node[comm.src] != mapping.node[comm.dst]
        in_turn = in_turn and not asks[remote & (edges.packets > 0)].any()
    rule = FIFO_RULES[network.fifo_rule]
    fifo = np.zeros(0, dtype=np.int32)
    if in_turn and (torus.twist or rule == ROUND_ROBIN):
        fifo = injection_fifos(comm, torus, mapping)[queue.edge]
    n = queue.edge.size
    crossing = Crossing(
        scratch("source", n, np.int32),
        scratch("destination", n, np.int32),
        scratch("release", n),
        scratch("wire", n),
    )
    feeding = Feeding(rule, network.fifos, in_turn / max(torus.bandwidth))
    grid = grid_of(torus)
    n, first, last = release_from_fifos(grid, queue, feeding, fifo, mapping.node, crossing)
    src, dst, release, wire = crossing
    return Crossing(src[:n], dst[:n], release[:n], wire[:n]), (first, last)


def _hot_runs(
    comm: CommGraph,
    torus: Torus,
    mapping: TaskMapping,
    ends: tuple[float, float],
    wire_bytes: NDArray[np.float64] | None,
) -> NDArray[np.bool_]:
    """Return which runs have links that may be busy latest; none if all edges are looked at.

    A link is busy at least until the first release plus all its work, and at most until the last
    message has come plus all its work. Usually few links can be later than the busiest.
    """
    runs = worthwhile_runs(torus, comm.n_edges)
    if runs is None:
        return np.zeros(0, dtype=np.bool_)
    if wire_bytes is None:
        edges, wire_unit, _ = prepare(comm, torus)
        wire_bytes = link_loads(comm, torus, mapping, edges.wire_units * wire_unit)
    work = wire_bytes / torus.link_bandwidth
    spread = ends[1] - ends[0] + torus.diameter * torus.network.hop_latency
    flag = np.zeros(runs.n_runs, dtype=np.bool_)
    flag_runs(grid_of(torus), runs, work >= work.max() * (1 - _ROUNDING) - spread, flag)
    return flag


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
