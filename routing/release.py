"""A lower bound of the time that knows when messages are released, and so when links have work."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from toruscast.mapping import CommGraph, Network, TaskMapping, Torus

from ._release_kernels import (
    Crossing,
    in_order,
    latest_link,
    latest_link_of_routes,
    release_from_fifos,
)
from .edges import prepare
from .routing import check_fit, dilations, grid_of, injection_fifos
from .twisted import list_links


def release_bound(comm: CommGraph, torus: Torus, mapping: TaskMapping) -> float:
    """Return the second before which a phase in dimension order cannot be over.

    `RoutedTraffic.release_bound` is the larger of this and of `time_bounds`, of whole workloads.

    A link cannot carry a message before the message has left its injection FIFO and crossed the
    links before. All that can come to a link from some moment on keeps it busy from then on: the
    largest such moment plus work, over all links and moments, is the bound of a machine whose jobs
    have release times [1]_. With short messages, links wait for the software for long, and it is
    nearer to the time than the busiest link's bytes or a message's latency alone.

    Where ties are open (`Torus.ties_are_open`), half of a message is expected each way: an
    estimate, no bound.
    Waits in FIFOs count where these send one message of a task after the other (`Network.feeding`
    "tasks", no rendezvous, a FIFO of its own for each message).

    Parameters
    ----------
    comm : CommGraph
        What is sent in the phase.
    torus : Torus
        Over which network.
    mapping : TaskMapping
        From which nodes to which.

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
    network = torus.network
    fifo = injection_fifos(comm, torus, mapping)
    edges, _, wire_unit = prepare(comm, torus)
    remote = np.flatnonzero((fifo >= 0) & (edges.packets > 0))
    if not remote.size:
        return 0.0
    wire = np.asarray(edges.wire_units * wire_unit, dtype=np.float64)[remote]
    src, dst = mapping.node[comm.src[remote]], mapping.node[comm.dst[remote]]
    injection = wire / max(torus.bandwidth)
    release = edges.ready[remote]
    asks = (comm.nbytes[remote] > network.eager_limit * comm.whole_messages[remote]).any()
    if _in_turn(network) and not asks:
        queue = src * np.int64(network.fifos) + fifo[remote]
        release = _released(release, injection, queue, torus.n_nodes * network.fifos)
    alone = release + injection + dilations(comm, torus, mapping)[remote] * network.hop_latency
    crossing = Crossing(src, dst, release, wire)
    last = in_order(release, True)
    latency = network.hop_latency
    busy_link = np.tile([np.inf, 0.0], (torus.n_links, 1))
    if torus.twist:
        listed = list_links(torus, src, dst)
        speed = torus.link_bandwidth
        busy = latest_link_of_routes(*listed, crossing, last, speed, latency, busy_link)
    else:
        speed = np.array(torus.bandwidth)
        busy = latest_link(grid_of(torus), crossing, last, speed, latency, busy_link)
    return max(float(alone.max()), busy + latency)


def _in_turn(network: Network) -> bool:
    """Whether every FIFO sends its messages in the order in which they are handed over."""
    return network.feeding == "tasks" and network.fifo_rule != "first_free"


def _released(
    ready: NDArray[np.float64], seconds: NDArray[np.float64], queue: NDArray[np.int64], n_fifos: int
) -> NDArray[np.float64]:
    release = np.empty(ready.size)
    release_from_fifos(in_order(ready, False), ready, seconds, queue, n_fifos, release)
    return release
