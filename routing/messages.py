"""Messages of the simulators, their packets, and arrays of edges."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from toruscast._jit import scratch
from toruscast.errors import InputError
from toruscast.mapping import CommGraph, MappingProblem, Network, TaskMapping, Torus
from toruscast.typing import Bools, Floats, Int32s, Ints

from .route_kernels import KEY_BITS, fill_keys, fill_packets, order_by_partner, sort_keys
from .routing import find_hops_and_fifos


def packet_counts(problem: MappingProblem, coarsening: int = 1) -> tuple[Ints, Floats]:
    """Return the packets of every edge, and the bytes per packet, both ``(n_edges,)``.

    Bytes include headers. An empty message has one packet. Edges are those of all phases, one phase
    after the other.
    """
    comm, network = problem.unrolled.comm, problem.torus.network
    packets, per_packet = np.empty(comm.n_edges, dtype=np.int64), np.empty(comm.n_edges)
    sizes = float(network.payload), float(network.header), float(coarsening)
    edge = fill_packets(comm.nbytes, comm.whole_messages, sizes, packets, per_packet)
    if edge >= 0:
        raise InputError(
            f"too many packets from task {comm.src[edge]} to task {comm.dst[edge]}",
            found=f"{comm.nbytes[edge]:g} bytes",
            expected="fewer than 2**53 packets",
        )
    return packets, per_packet


def software_times(comm: CommGraph, network: Network) -> Floats:
    """Return the seconds of software overhead for the messages of each edge, ``(n_edges,)``."""
    messages = comm.whole_messages
    if not network.short_limit:
        return np.asarray(messages * network.overhead)
    is_short = comm.nbytes <= network.short_limit * messages
    return np.asarray(messages * np.where(is_short, network.short_overhead, network.overhead))


def hand_over_times(comm: CommGraph, network: Network) -> tuple[Ints, Floats]:
    """Return the edges in the order of their hand-over, and the seconds at which each is ready.

    A task starts with its next higher partner. Otherwise, all tasks of an all-to-all would send to
    task 0 first.
    """
    order = np.empty(comm.n_edges, dtype=np.int64)
    ready = np.empty(comm.n_edges)
    order_by_partner(comm.first, comm.dst, software_times(comm, network), order, ready)
    return order, ready


def median_message_packets(problem: MappingProblem) -> int:
    """Return the median number of packets in a message, weighted by packets; 0 without messages."""
    counts = packet_counts(problem)[0]
    packets_per_message = counts // np.maximum(problem.unrolled.comm.whole_messages, 1)
    order = np.argsort(-packets_per_message, kind="stable")
    cumulative = counts[order].cumsum()
    if not cumulative.size or not cumulative[-1]:
        return 0
    return int(packets_per_message[order[np.searchsorted(cumulative, cumulative[-1] / 2)]])


def mean_message_packets(problem: MappingProblem) -> float:
    """Return the mean number of packets in a message, weighted by packets; 0 without messages."""
    packets = packet_counts(problem)[0].astype(np.float64)
    packets_per_message = packets / np.maximum(problem.unrolled.comm.whole_messages, 1)
    return float(packets @ packets_per_message / packets.sum()) if packets.any() else 0.0


def max_message_packets(problem: MappingProblem) -> int:
    """Return the number of packets in the longest message of all phases."""
    packets = packet_counts(problem)[0]
    return int((packets / np.maximum(problem.unrolled.comm.whole_messages, 1)).max(initial=0))


class Messages(NamedTuple):
    """Edges with messages, of one or more rounds, ordered by task, round and hand-over.

    All arrays are of shape ``(n_messages,)``.
    """

    round: Ints
    edge: Ints
    task: Int32s
    src: Int32s  # nodes
    dst: Int32s
    receiver: Int32s  # task
    fifo: Int32s  # number within its node, NONE for a message within a node
    n_messages: Floats  # whole messages of the edge, which are sent together
    nbytes: Floats
    packets: Ints
    wire: Floats  # bytes of a packet with its header
    software: Floats  # seconds
    asks: Bools  # whether it needs a rendezvous: a question and its answer
    merged: float  # mean real packets in one simulated packet


# Messages of larger graphs are not cached, because they take too much memory.
_MAX_CACHED_MESSAGES = 2**22


def list_messages(problem: MappingProblem, mapping: TaskMapping, coarsening: int = 1) -> Messages:
    """Return the messages of all rounds; each packet merges ``coarsening`` real packets."""
    network, all_rounds = problem.torus.network, problem.unrolled
    is_cached = all_rounds.comm.n_edges <= _MAX_CACHED_MESSAGES
    listed, edge = problem.derive(_list_unplaced) if is_cached else _list_unplaced(problem)
    src, dst = mapping.node[listed.task], mapping.node[listed.receiver]
    remote = src != dst
    if network.fifo_rule == "first_free":
        # The FIFOs of a node share one queue.
        fifo = np.where(remote, np.int32(0), np.int32(-1))
    else:
        fifo = find_hops_and_fifos(problem, mapping).fifo[edge]
    listed = listed._replace(src=src, dst=dst, fifo=fifo, asks=listed.asks & remote)
    if coarsening == 1:
        return listed
    packets, wire = (column[edge] for column in packet_counts(all_rounds, coarsening))
    before, after = (float(n.sum(where=remote)) for n in (listed.packets, packets))
    merged = max(before, 1.0) / max(after, 1.0)
    return listed._replace(packets=packets, wire=wire, merged=merged)


def _list_unplaced(problem: MappingProblem) -> tuple[Messages, Ints]:
    """Return the messages without nodes and FIFOs, and each message's index among all edges."""
    network, all_rounds = problem.torus.network, problem.workload.unrolled
    comm = all_rounds.comm
    packets, wire = packet_counts(problem)
    edge, _ = hand_over_times(comm, network)
    edge = edge[packets[edge] > 0]
    round_number = all_rounds.phase[edge]
    task = all_rounds.task[comm.src[edge]]
    if len(problem.workload) > 1:
        by_task = np.lexsort((round_number, task))
        edge, round_number, task = edge[by_task], round_number[by_task], task[by_task]
    nbytes, n_messages = comm.nbytes[edge], comm.whole_messages[edge]
    nowhere = np.zeros(0, dtype=np.int32)
    listed = Messages(
        round=round_number,
        edge=edge - all_rounds.begin[round_number],
        task=task,
        src=nowhere,
        dst=nowhere,
        receiver=all_rounds.task[comm.dst[edge]],
        fifo=nowhere,
        n_messages=n_messages,
        nbytes=nbytes,
        packets=packets[edge],
        wire=wire[edge],
        software=software_times(comm, network)[edge],
        asks=nbytes / n_messages > network.eager_limit,
        merged=1.0,
    )
    return listed, edge


# Arrays of larger graphs are not cached, because they take 64 bytes an edge.
_MAX_CACHED_EDGES = 2**24
# Bits in the lower half of a number that holds two counts of units.
HALF = 32


class Edges(NamedTuple):
    """Edges of a phase, sorted by source."""

    first: Ints  # (T + 1,)
    dst: Int32s  # (E,) tasks
    n_messages: Floats  # (E,)
    nbytes: Floats  # (E,)
    # (E, 2) units of bytes without and with headers. If both counts fit into one number, this is
    # (E, 1): the lower half counts without headers, and the upper half with headers. Each run is
    # then updated only once.
    units: Ints
    packets: Ints  # (E,)
    ready: Floats  # (E,) seconds until the hand-over


class Queue(NamedTuple):
    """Edges with packets, sorted by the time at which they are ready.

    The columns are copies in this order, because random reads of the edges would miss the cache.
    """

    edge: Ints  # (Q,)
    src: Int32s  # (Q,) tasks
    dst: Int32s  # (Q,)
    wire: Floats  # (Q,) bytes, headers included
    ready: Floats  # (Q,) seconds


class PreparedEdges(NamedTuple):
    """Edges of a phase in two orders, with the units of their bytes."""

    edges: Edges
    wire_unit: float  # bytes, headers included, in a unit of `Edges.units`
    queue: Queue
    byte_unit: float  # bytes, headers excluded, in a unit of `Edges.units`

    @property
    def wire_bytes(self) -> Floats:
        """Bytes of each edge with headers, ``(E,)``."""
        units = self.edges.units[:, -1]
        units = units >> HALF if self.edges.units.shape[1] == 1 else units
        return np.multiply(units, self.wire_unit, dtype=np.float64)


def prepare_edges(problem: MappingProblem) -> PreparedEdges:
    """Return the arrays of a one-phase problem; they are cached unless they are too large."""
    if problem.comm.n_edges <= _MAX_CACHED_EDGES:
        return problem.derive(_prepare_edges)
    return _prepare_edges(problem)


def _prepare_edges(problem: MappingProblem) -> PreparedEdges:
    """Compute the result of `prepare_edges`."""
    comm, torus = problem.comm, problem.torus
    packets, per_packet = packet_counts(problem)
    wire = packets * per_packet
    wire_units, wire_unit = _to_largest_unit(wire, torus)
    byte_units, byte_unit = _to_largest_unit(comm.nbytes, torus)
    if max(float(byte_units.sum()), float(wire_units.sum())) < 2 ** (HALF - 1):
        units = (byte_units + (wire_units << HALF))[:, np.newaxis]
    else:
        units = np.column_stack((byte_units, wire_units))
    _, ready = hand_over_times(comm, torus.network)
    n_messages = np.asarray(comm.n_messages, dtype=np.float64)
    edges = Edges(comm.first, comm.dst, n_messages, comm.nbytes, units, packets, ready)
    return PreparedEdges(edges, wire_unit, _sort_by_ready_time(comm, edges, wire), byte_unit)


def _sort_by_ready_time(comm: CommGraph, edges: Edges, wire: Floats) -> Queue:
    """Return the edges with packets, sorted by ready time, rounded to 2**-32 of the last one."""
    key, buffer = (scratch(name, comm.n_edges, np.uint64) for name in ("key", "other key"))
    n = fill_keys(edges.ready, edges.packets, key)
    order = (sort_keys(key[:n], buffer[:n]) & np.uint64(2**KEY_BITS - 1)).view(np.int64)
    return Queue(order, comm.src[order], comm.dst[order], wire[order], edges.ready[order])


def _to_largest_unit(weight: Floats, torus: Torus) -> tuple[Ints, float]:
    """Return weights as integers in the largest exact unit, a power of two, and this unit.

    If ties are open, half of a weight is also an integer.
    """
    parts = 1 + torus.ties_are_open
    units, unit = fixed_point(weight, parts)
    bits = int(np.bitwise_or.reduce(units))
    divisor = (bits & -bits) // parts
    return (units // divisor, unit * divisor) if divisor > 1 else (units, unit)


def fixed_point(weight: Floats, parts: int = 1, factor: int = 1) -> tuple[Ints, float]:
    """Return weights as integer multiples of ``parts``, and the unit of these integers.

    The sum of the integers, times ``factor`` and divided by ``parts``, is at most 2**61.
    """
    total = float(weight.sum()) * factor
    if total < 2.0**61:
        whole = weight.astype(np.int64)
        if (whole == weight).all():
            whole *= parts
            return whole, 1.0 / parts
    # The unit must be a normal number, because weights are divided by it.
    scale = 2.0 ** max(math.ceil(math.log2(total)) - 61, -1022)
    return parts * np.rint(weight / scale).astype(np.int64), scale / parts
