"""Lower bounds of the communication time, from the routes alone."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from toruscast.mapping import CommGraph, TaskMapping, Torus, Workload, as_workload

from .packets import hand_over_times, packet_counts
from .routing import Routing, dilations, injection_fifos, link_loads


class Bounds(NamedTuple):
    """Seconds that each resource needs at least, summed over the phases."""

    link: float
    injection: float
    reception: float
    latency: float
    total: float
    """Sum over the phases of the largest of the four."""


def time_bounds(
    traffic: Workload | CommGraph,
    torus: Torus,
    mapping: TaskMapping,
    *,
    routing: Routing = "deterministic",
) -> Bounds:
    """Return the time below which no schedule of the packets can fall.

    The busiest link must carry its bytes (headers included) at its bandwidth, the busiest injection
    FIFO its messages at the bandwidth of their first link (of the fastest, where routing is
    adaptive), the busiest receiver its bytes at the memory bandwidth; and every message needs its
    software overhead, its hops and its serialisation. With adaptive routing the link bound is that
    of an even split, an estimate and not a bound; where ties are split, a message of an odd number
    of packets may be off by half a packet.

    Examples
    --------
    >>> comm = CommGraph(3, [0, 1], [2, 2], [51200, 51200])
    >>> bounds = time_bounds(comm, Torus((8,)), TaskMapping([0, 1, 2], 8))
    >>> round(bounds.link * 1e6, 3), 2 * 51200 * 544 / 512 / 2e3
    (54.4, 54.4)
    """
    phases = [_phase_bounds(phase, torus, mapping, routing) for phase in as_workload(traffic)]
    link, injection, reception, latency = (sum(column) for column in zip(*phases, strict=True))
    return Bounds(link, injection, reception, latency, sum(max(phase) for phase in phases))


def _phase_bounds(
    comm: CommGraph, torus: Torus, mapping: TaskMapping, routing: Routing
) -> tuple[float, float, float, float]:
    network = torus.network
    packets, per_packet = packet_counts(comm, torus)
    wire = packets * per_packet
    fifo = injection_fifos(comm, torus, mapping)
    remote = (fifo >= 0) & (packets > 0)
    _, ready = hand_over_times(comm, network.overhead)
    within = (fifo < 0) & (packets > 0)
    latency = (ready[within] + comm.nbytes[within] / network.memory_bandwidth).max(initial=0.0)
    if not remote.any():
        return 0.0, 0.0, 0.0, float(latency)
    load = link_loads(comm, torus, mapping, wire, routing=routing)
    sender, receiver = mapping.node[comm.src], mapping.node[comm.dst]
    fastest = max(torus.bandwidth)
    if len(set(torus.bandwidth)) == 1 or routing == "adaptive":
        first = np.full(comm.n_edges, fastest)
    else:
        order = np.array(torus.order)
        differs = (torus.coords[sender] != torus.coords[receiver])[:, order]
        first = np.array(torus.bandwidth)[order[differs.argmax(axis=1)]]
    serialisation = wire / first
    queue = sender * np.int64(network.fifos) + fifo
    injection = np.bincount(queue[remote], serialisation[remote])
    reception = np.bincount(receiver[remote], wire[remote]) / network.memory_bandwidth
    hops = dilations(comm, torus, mapping)
    one = ready + hops * network.hop_latency + serialisation
    return (
        float((load / torus.link_bandwidth).max()),
        float(injection.max()),
        float(reception.max()),
        float(max(one[remote].max(), latency)),
    )
