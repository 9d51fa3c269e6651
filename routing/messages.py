"""Messages as the simulators send them, their packets, and data of edges."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toruscast.errors import InputError
from toruscast.mapping import CommGraph, MappingProblem, Network, TaskMapping, Torus

from .route_kernels import keys_of, places_of, sort_keys, take_turns
from .routing import edge_ways


def packet_counts(
    problem: MappingProblem, coarsening: int = 1
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the packets of every edge and the bytes of each on the wire, ``(n_edges,)`` both.

    The edges are those of all phases, one after the other. A message without a byte still sends one
    packet.
    """
    comm, network = problem.unrolled.comm, problem.torus.network
    messages = comm.whole_messages
    sent = messages > 0
    each = comm.nbytes / np.maximum(messages, 1)
    packets = messages * np.maximum(np.ceil(each / network.payload), 1)
    wire_bytes = np.where(sent, comm.nbytes + network.header * packets, 0.0)
    packets = np.ceil(packets / coarsening)
    per_packet = wire_bytes / np.maximum(packets, 1)
    most = packets.max(initial=0)
    if most >= 2**53:
        edge = int(np.argmax(packets))
        raise InputError(
            f"too many packets from task {comm.src[edge]} to task {comm.dst[edge]}",
            found=f"{comm.nbytes[edge]:g} bytes",
            expected="fewer than 2**53 packets",
        )
    return packets.astype(np.int64), per_packet


def software_times(comm: CommGraph, network: Network) -> NDArray[np.float64]:
    """Return the seconds of software that each edge costs its task, ``(n_edges,)``."""
    messages = comm.whole_messages
    short = comm.nbytes <= network.short_limit * messages
    each = np.where(short & (network.short_limit > 0), network.short_overhead, network.overhead)
    return np.asarray(messages * each)


def hand_over_times(
    comm: CommGraph, network: Network
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the edges in the order of their hand-over, and the second at which each is ready.

    A task starts with its next higher partner: not all tasks of an all-to-all send to task 0 first.
    """
    order = np.empty(comm.n_edges, dtype=np.int64)
    ready = np.empty(comm.n_edges)
    take_turns(comm.first, comm.dst, software_times(comm, network), order, ready)
    return order, ready


def common_message(problem: MappingProblem) -> int:
    """Return the packets of the median message, each weighted with its packets."""
    counts = packet_counts(problem)[0]
    length = counts // np.maximum(problem.unrolled.comm.whole_messages, 1)
    order = np.argsort(-length, kind="stable")
    sent = counts[order].cumsum()
    if not sent.size or not sent[-1]:
        return 0
    return int(length[order[np.searchsorted(sent, sent[-1] / 2)]])


def mean_message(problem: MappingProblem) -> float:
    """Return the packets of a message, the mean weighted with its packets; 0 without a message."""
    weighted = total = 0.0
    for phase in problem.phases:
        packets = packet_counts(phase)[0].astype(np.float64)
        weighted += float((packets * packets / np.maximum(phase.comm.whole_messages, 1)).sum())
        total += float(packets.sum())
    return weighted / total if total else 0.0


def longest_message(problem: MappingProblem) -> int:
    """Return the packets of the longest message of all phases."""
    packets = packet_counts(problem)[0]
    return int((packets / np.maximum(problem.unrolled.comm.whole_messages, 1)).max(initial=0))


class Messages(NamedTuple):
    """The edges of one or more rounds that send something, ordered by task, round and turn.

    All arrays are of shape ``(n_messages,)``.
    """

    round: NDArray[np.int64]
    edge: NDArray[np.int64]
    task: NDArray[np.int32]
    src: NDArray[np.int32]  # nodes
    dst: NDArray[np.int32]
    receiver: NDArray[np.int32]  # task
    fifo: NDArray[np.int32]  # number within its node, NONE for a message within a node
    nbytes: NDArray[np.float64]
    packets: NDArray[np.int64]
    wire: NDArray[np.float64]
    software: NDArray[np.float64]
    asks: NDArray[np.bool_]  # whether it first waits for the receiver's answer
    merged: float  # real packets that one simulated packet carries, on average


# Larger graphs get their messages anew for each mapping, because they take much memory.
_MAX_LISTED = 2**22


def list_messages(problem: MappingProblem, mapping: TaskMapping, coarsening: int = 1) -> Messages:
    """Return the messages of all rounds."""
    network, all_rounds = problem.torus.network, problem.unrolled
    is_kept = all_rounds.comm.n_edges <= _MAX_LISTED
    listed, place = problem.derive(_list_unplaced) if is_kept else _list_unplaced(problem)
    src, dst = mapping.node[listed.task], mapping.node[listed.receiver]
    remote = src != dst
    if network.fifo_rule == "first_free":
        # All messages of a node wait in one queue.
        fifo = np.where(remote, np.int32(0), np.int32(-1))
    else:
        fifo = edge_ways(problem, mapping).fifo[place]
    listed = listed._replace(src=src, dst=dst, fifo=fifo, asks=listed.asks & remote)
    if coarsening == 1:
        return listed
    packets, wire = (column[place] for column in packet_counts(all_rounds, coarsening))
    before, after = (float(n.sum(where=remote)) for n in (listed.packets, packets))
    merged = max(before, 1.0) / max(after, 1.0)
    return listed._replace(packets=packets, wire=wire, merged=merged)


def _list_unplaced(problem: MappingProblem) -> tuple[Messages, NDArray[np.int64]]:
    """Return the messages without their nodes, and their places among all edges."""
    network, all_rounds = problem.torus.network, problem.workload.unrolled
    comm = all_rounds.comm
    packets, wire = packet_counts(problem)
    edge, _ = hand_over_times(comm, network)
    edge = edge[packets[edge] > 0]
    number = all_rounds.phase[edge]
    task = all_rounds.task[comm.src[edge]]
    if len(problem.workload) > 1:
        by_task = np.lexsort((number, task))
        edge, number, task = edge[by_task], number[by_task], task[by_task]
    nbytes = comm.nbytes[edge]
    nowhere = np.zeros(0, dtype=np.int32)
    listed = Messages(
        round=number,
        edge=edge - all_rounds.begin[number],
        task=task,
        src=nowhere,
        dst=nowhere,
        receiver=all_rounds.task[comm.dst[edge]],
        fifo=nowhere,
        nbytes=nbytes,
        packets=packets[edge],
        wire=wire[edge],
        software=software_times(comm, network)[edge],
        asks=nbytes / comm.whole_messages[edge] > network.eager_limit,
        merged=1.0,
    )
    return listed, edge


# Larger graphs get these arrays anew for each mapping, because they take 64 bytes an edge.
_MAX_PREPARED = 2**24
# Bits of the lower of two units in one number.
HALF = 32


class Edges(NamedTuple):
    """The edges for the pass, sorted by source."""

    first: NDArray[np.int64]  # (T + 1,)
    dst: NDArray[np.int32]  # (E,) tasks
    n_messages: NDArray[np.float64]  # (E,)
    nbytes: NDArray[np.float64]  # (E,)
    # (E, 2) units of bytes, without and with headers; or both side by side in one number, (E, 1),
    # so that a run of links takes one update. The headers are in the upper half then.
    units: NDArray[np.int64]
    packets: NDArray[np.float64]  # (E,)
    ready: NDArray[np.float64]  # (E,) seconds of software before it is handed over

    @property
    def wire_units(self) -> NDArray[np.int64]:
        """Units of bytes with headers, shape ``(E,)``."""
        own = self.units[:, -1]
        return own >> HALF if self.units.shape[1] == 1 else own


class Queue(NamedTuple):
    """The edges with packets in the order in which they are ready, to be read one after the other.

    Taken from their arrays in that order, most would lie in a line of memory of their own.
    """

    edge: NDArray[np.int64]  # (Q,)
    src: NDArray[np.int32]  # (Q,) tasks
    dst: NDArray[np.int32]  # (Q,)
    wire: NDArray[np.float64]  # (Q,) bytes, headers included
    ready: NDArray[np.float64]  # (Q,) seconds


class Prepared(NamedTuple):
    """Edges, and the sizes of the units that their bytes are counted in."""

    edges: Edges
    wire_unit: float
    queue: Queue
    byte_unit: float  # of the bytes without headers

    @property
    def wire_bytes(self) -> NDArray[np.float64]:
        """Bytes of each edge with headers, ``(E,)``."""
        return np.multiply(self.edges.wire_units, self.wire_unit, dtype=np.float64)


def prepare(problem: MappingProblem) -> Prepared:
    """Return the edges of a problem of one phase; they are kept with it."""
    if problem.comm.n_edges <= _MAX_PREPARED:
        return problem.derive(_prepare)
    return _prepare(problem)


def _prepare(problem: MappingProblem) -> Prepared:
    comm, torus = problem.comm, problem.torus
    packets, per_packet = packet_counts(problem)
    wire_units, wire_unit = _in_steps(packets * per_packet, torus)
    byte_units, byte_unit = _in_steps(comm.nbytes, torus)
    units = np.column_stack((byte_units, wire_units))
    if max(float(byte_units.sum()), float(wire_units.sum())) < 2 ** (HALF - 1):
        units = (byte_units + (wire_units << HALF))[:, np.newaxis]
    _, ready = hand_over_times(comm, torus.network)
    edges = Edges(
        comm.first,
        comm.dst,
        np.asarray(comm.n_messages, dtype=np.float64),
        comm.nbytes,
        units,
        packets.astype(np.float64),
        ready,
    )
    return Prepared(edges, wire_unit, queue_of(comm, edges, wire_unit, ready), byte_unit)


def queue_of(comm: CommGraph, edges: Edges, wire_unit: float, ready: NDArray[np.float64]) -> Queue:
    """Return the edges with packets in the order of the seconds at which they are ready."""
    order = order_of(ready)
    order = order[edges.packets[order] > 0]
    wire = np.multiply(edges.wire_units[order], wire_unit, dtype=np.float64)
    return Queue(order, comm.src[order], comm.dst[order], wire, ready[order])


def order_of(number: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the stable order of numbers of 0 or more, equal within 2**-32 of the largest."""
    key, other = np.empty((2, number.size), dtype=np.uint64)
    keys_of(number, key)
    return places_of(sort_keys(key, other))


def _in_steps(weight: NDArray[np.float64], torus: Torus) -> tuple[NDArray[np.int64], float]:
    """Return weights as `fixed_point` does, in the largest unit that they are all multiples of."""
    units, unit = fixed_point(weight, torus)
    step = int(np.gcd.reduce(units)) // (2 if torus.ties_are_open else 1)
    return (units // step, unit * step) if step > 1 else (units, unit)


def fixed_point(weight: NDArray[np.float64], torus: Torus) -> tuple[NDArray[np.int64], float]:
    """Return weights as integers whose sum stays below 2**62, and the size of their unit."""
    # A split tie halves weights, so they are doubled to stay whole.
    halves = 2 if torus.ties_are_open else 1
    total = float(weight.sum())
    if total < 2.0**61:
        whole = weight.astype(np.int64)
        if (whole == weight).all():
            whole *= halves
            return whole, 1.0 / halves
    # The unit must not be below the smallest number that can be divided by.
    scale = 2.0 ** max(math.ceil(math.log2(total)) - 61, -1022)
    return halves * np.rint(weight / scale).astype(np.int64), scale / halves
