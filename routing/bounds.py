"""Lower bounds of the communication time, from the routes alone."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toruscast.mapping import CommGraph, Network, TaskMapping, Torus, Workload, as_workload
from toruscast.mapping.task_mapping import as_mapping
from toruscast.typing import Routing

from .loads import check_ways, link_loads
from .packets import hand_over_times, packet_counts, software_times
from .route_kernels import last_arrival
from .routing import check_routing, dilations, fifos_of, phase_routings
from .tally import Tally, have_two_ways, tally


class Bounds(NamedTuple):
    """Least seconds of each resource, summed over the phases."""

    link: float
    injection: float
    reception: float
    latency: float
    total: float
    """Largest of the four, summed over the phases; dependent rounds are summed first."""


def time_bounds(
    traffic: Workload | CommGraph,
    torus: Torus,
    mapping: TaskMapping,
    *,
    routing: Routing = "deterministic",
) -> Bounds:
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
    >>> bounds = time_bounds(comm, Torus((8,)), TaskMapping([0, 1, 2], 8))
    >>> round(bounds.link * 1e6, 3), 2 * 51200 * 544 / 512 / 2e3
    (54.4, 54.4)
    """
    workload = as_workload(traffic)
    as_mapping(mapping).check(workload.n_tasks, torus)
    check_routing(routing)
    check_ways(workload, torus, mapping, routing)
    ways = phase_routings(routing, workload, torus)
    if workload.dependent:
        # Rounds overlap, so the work of a link, FIFO or receiver in all of them counts together.
        *shared, alone = _seconds(workload, torus, mapping, ways[0])
        most = [float(part.max(initial=0.0)) for part in shared]
        parts = (most[0], most[1], most[2], longest_chain(workload, torus.network, alone))
        return Bounds(*parts, _started(max(parts), torus))
    each = [
        bounds_of(tally(phase, torus, mapping, routing=way), torus)
        for phase, way in zip(workload, ways, strict=True)
    ]
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


def longest_chain(workload: Workload, network: Network, latency: NDArray[np.float64]) -> float:
    """Return the seconds until the last arrival if each task enters a round as soon as it can.

    ``latency`` has the seconds of every edge of all rounds, one round after the other.
    """
    rounds = workload.unrolled
    comm = rounds.comm
    return float(
        last_arrival(
            rounds.begin,
            rounds.task[comm.src],
            rounds.task[comm.dst],
            # A message may take no time, but its receiver still waits for it.
            comm.whole_messages > 0,
            latency,
            software_times(comm, network),
            np.zeros(workload.n_tasks),
            np.empty(comm.n_edges),
        )
    )


def _seconds(
    workload: Workload, torus: Torus, mapping: TaskMapping, routing: Routing
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return the seconds of work of each link, injection FIFO, receiver and single edge.

    The edges are those of all phases, one phase after the other, and their work counts together.
    """
    network = torus.network
    fifo = fifos_of(workload, torus, mapping)
    comm, mapping = workload.unrolled.comm, workload.unrolled.placed(mapping)
    packets, per_packet = packet_counts(comm, torus)
    wire = packets * per_packet
    remote = (fifo >= 0) & (packets > 0)
    _, ready = hand_over_times(comm, network)
    load = link_loads(comm, torus, mapping, wire, routing=routing)
    sender, receiver = mapping.node[comm.src], mapping.node[comm.dst]
    serialisation = wire / max(torus.bandwidth)
    if network.fifo_rule == "first_free":
        queue, share = sender.astype(np.int64) * network.fifos, 1 / network.fifos
    else:
        queue, share = sender * np.int64(network.fifos) + fifo, 1.0
    injection = np.bincount(
        queue[remote], serialisation[remote] * share, minlength=torus.n_nodes * network.fifos
    )
    reception = np.bincount(receiver[remote], wire[remote], minlength=torus.n_nodes)
    alone = serialisation
    if network.fifo_rule == "first_free":
        # Packets with two ways may leave side by side from several FIFOs.
        one_packet = np.where(packets > 0, per_packet, 0.0) / max(torus.bandwidth)
        alone = np.where(have_two_ways(comm, torus, mapping, routing), one_packet, alone)
    copying = comm.nbytes / network.memory_bandwidth
    on_its_way = dilations(comm, torus, mapping) * network.hop_latency + alone
    latency = np.where(packets > 0, ready + np.where(remote, on_its_way, copying), 0.0)
    return (
        load / torus.link_bandwidth,
        np.asarray(injection, dtype=np.float64),
        np.asarray(reception / network.memory_bandwidth, dtype=np.float64),
        latency,
    )
