"""State of the packet simulator's event loop, and the choice of its clock.

The clock counts ticks. The wheel has a list of events for each of the next K ticks; the lists are
stored in chunks. Events are numbered in this order: one for each packet slot (its packet arrives),
one for each link and each FIFO (its last packet ends), and one for each message (it arrives). Task
events wait outside the wheel, because they may be more than K ticks ahead.

Letters in the comments: N nodes, D dimensions, L links, F FIFOs, P packet slots, E messages with
handshakes, T tasks, R rounds, W workers, K ticks of the wheel. In the kernels, ``p``, ``f``, ``m``
and ``w`` are the numbers of a packet slot, a FIFO, a message and a worker. ``out`` is the link that
sends, and ``holder`` the link whose lane has the packet.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from toruscast.errors import InputError
from toruscast.mapping import Torus
from toruscast.routing.messages import Messages
from toruscast.text import seconds
from toruscast.typing import Floats, Int32s, Ints, UInt64s

LARGEST_PACKET = 2**26
"""Maximum bytes of a packet, because free bytes after a link have 32 bits."""
# A buffer holds at least this many merged packets, if it holds as many real ones.
PLACES = 3

NONE = -1

# The buffer after a link has up to three channels: 0 for packets in dimension order, 1 for some of
# these packets if datelines are used (see `lane_kind`), and this one for adaptive packets.
ADAPTIVE_CHANNEL = 2
# A tick has 2**PARTS parts, the unit of packet times on links, FIFOs and reception ports. Rounding
# short packets to ticks would accumulate errors.
PARTS = 10
# Number of a buffer: link << CHANNEL_BITS | channel.
CHANNEL_BITS = 2
# Kinds of lanes; a lane is a queue of packets that wait for a link. With the bubble rule, packets
# in FIRST stay on their ring, and packets in SECOND enter a ring. With datelines, FIRST waits for
# the first channel, and SECOND for the second. Packets in FREE are adaptive and choose their link.
FIRST, SECOND, FREE = 0, 1, 2
KINDS = 3
# Route of a packet that waits for a reception port.
DELIVERED = np.uint64(2**64 - 1)

FIRST_COME, ROUND_ROBIN = 0, 1

# Indices into `EventRecords.clock`. If a lane has a new first packet, the number at NEW_HEAD is
# link << 6 | lane; otherwise it is NONE.
NOW, ORDER, HOPS, NEXT_EVENT, NEW_HEAD, N_FREE_CHUNKS, N_FREE_SLOTS = range(7)
HEAP_SIZE, QUEUE_FIRST, QUEUE_LENGTH = range(7, 10)

LANE = np.dtype(
    [
        ("head", np.int32),
        ("tail", np.int32),
        ("since", np.int32),  # arrival tick of its first packet
        ("unused", np.int32),  # pads two lanes to half a cache line
    ],
    align=True,
)
# One cache line, so an access to a link costs one cache miss.
LINK = np.dtype(
    [
        ("free_at", np.int64),  # time in parts when the last packet has left
        ("lanes", np.uint64),  # bits of lanes with packets
        ("credit", np.int32),  # free bytes in the deterministic channel
        ("far", np.int32),  # node at its far end
        ("occupied", np.int32),
        ("entry", np.int8),  # packets that must fit before a packet of SECOND is sent
        ("armed", np.int8),  # whether an event is scheduled
        ("port", np.int8),
        ("lane", LANE, 2),  # on the default network; see `LinkRecords.lane`
    ],
    align=True,
)
# Fields of a link in other networks, stored in place of its lanes; see `LinkRecords.extra`.
EXTRA = np.dtype(
    [
        ("common", np.int8, LINK.itemsize - 2 * LANE.itemsize),
        ("second_credit", np.int32),  # free bytes in the second channel
        ("adaptive_credit", np.int32),  # free bytes in the adaptive channel
        ("to_edge", np.int32),  # hops to the edge of the ring
        ("to_middle", np.int32),  # hops to the end of its half of the ring
        ("queued", np.int64),  # bytes of the packets in FREE
        ("node", np.int32),
        ("turn", np.int8),  # next input of round robin
        ("second_channel", np.int8),  # channel of the lanes of kind SECOND
        ("rank", np.int8),  # rank of its port in routing order
        ("unused", np.int8),
    ]
)
# Fields of a node for adaptive packets.
NODE = np.dtype(
    [
        ("waiting", np.int32),  # packets in lanes
        ("armed", np.uint32),  # bits of links with a scheduled event, by rank
    ],
    align=True,
)
# Counters of the buffer after a link. Half a cache line.
COUNTER = np.dtype(
    [
        ("waited", np.int64),  # sum of the ticks that packets spent in it
        ("wire_bytes", np.float64),
        ("unused", np.int64),
        ("packets", np.int32),
        ("max_packets", np.int32),
    ],
    align=True,
)
# The default network stores the two lanes of a link inside its LINK record. These are the size of
# such a record, counted in lanes, and the position of the two lanes in it.
LANES_PER_LINK = LINK.itemsize // LANE.itemsize
OWN_LANES = int(LINK.fields["lane"][1]) // LANE.itemsize  # type: ignore[index]
# Half a cache line. Only the lowest 32 bits of ticks are stored, which suffice for differences.
PACKET = np.dtype(
    [
        ("route", np.uint64),  # remaining hops, a field for each port
        ("tail", np.int32),  # arrival tick of its tail
        ("since", np.int32),  # tick of arrival
        ("message", np.int32),
        ("buffer", np.int32),  # buffer that holds it, or -2 - FIFO
        # Next packet in its lane. Until it waits (default network only): link * 2 + kind of lane.
        ("next", np.int32),
        ("wire", np.float32),
    ],
    align=True,
)
FIFO = np.dtype(
    [
        ("waited", np.int64),
        ("free_at", np.int64),  # time in parts when its last packet is injected
        ("head", np.int32),  # first message
        ("tail", np.int32),
        ("busy", np.int32),  # whether an event is scheduled
        ("at_router", np.int32),  # its packets that wait at the router
    ],
    align=True,
)
# Messages now in a FIFO, their maximum so far, and the total stay (ticks) of those that have left.
FILLING = np.dtype([("length", np.int32), ("max_length", np.int32), ("stay", np.int64)], align=True)
MESSAGE = np.dtype(
    [
        ("route", np.uint64),
        ("wire", np.float32),  # bytes of each packet, header included
        ("to_send", np.int32),  # packets
        ("ties", np.int32),  # bits of dimensions with an open tie, in routing order
        ("next", np.int32),
        ("fifo", np.int64),  # NONE within a node
        ("overhead", np.int64),  # ticks of software
        ("ready", np.int64),  # tick of the hand-over
        ("copy", np.int64),  # ticks of a copy within the node
        ("coin", np.int32),  # direction of the last packet at each tie
        ("zones", np.int32),  # set of zones of its packets
    ],
    align=True,
)
RECEIPT = np.dtype(
    [
        ("finish", np.int64),  # tick when the last packet so far was received
        ("left", np.int32),  # packets that are not received yet
    ],
    align=True,
)
# The hand-over of a worker's current message, or the end of a copy within a node.
TASK_EVENT = np.dtype([("tick", np.int64), ("order", np.int64), ("item", np.int64)])
# Where the events of a tick start and end in `EventRecords.chunk`.
WHEEL = np.dtype([("first", np.int32), ("end", np.int32)], align=True)
# Ports of a node if a torus has the most dimensions, and lanes whose claims are compared at once.
MAX_PORTS = 16
LANES_PER_WORD = 64
# A chunk has 15 events; the index of the next chunk is at position LAST.
CHUNK = 16
LAST = CHUNK - 1


class RouteFields(NamedTuple):
    """Bit fields of a route; each has the hops that remain through one port."""

    shift: UInt64s  # (2 * D,) lowest bit of each field
    mask: UInt64s  # (2 * D,)
    width: UInt64s  # (D,) bits of a field, in routing order
    order: Ints  # (D,)
    port: Ints  # (65,) port of each bit
    ranked: UInt64s  # (16,) masks in routing order, 0 after the last port
    ports: Ints  # (2 * D,) ports in routing order
    zone: UInt64s  # (sets, zones) bits of the ports of each zone, 0 for padding


class NetworkRules(NamedTuple):
    """Constants of the network, the tasks and the routing."""

    special: int | None  # None for default rules, else 1; see `setup.is_special`
    fifos: int  # number for each node
    whole_places: int  # whether every packet takes as much space as the largest
    n_inputs: int  # lanes of each kind: one, or one for each input port and FIFO
    latency: int
    parts_per_byte: Floats  # (2 * D,) by port, or (L,) by link if some are slow
    largest: int  # bytes of the largest packet, which must fit before any packet is sent
    reception_ports: int
    reception: float  # parts for each byte
    arbitration: int
    adaptive: int | None  # whether packets choose among links; None, not 0, with default rules
    max_at_router: int  # packets of a FIFO that may wait at the router
    # Turns per byte of a merged packet that leaves a FIFO. It yields all turns but the last.
    turns_a_byte: float
    injection: float  # parts for each byte of a FIFO
    shared_by: int  # number of FIFOs that share a queue
    by_packet: int  # whether FIFOs alternate between messages after each packet
    draws_ties: int  # whether packets draw their direction at a tie; else they alternate
    ties_minus: int  # whether adaptive packets go minus at a tie
    stays: int  # whether packets stay in a channel of dimension order
    seed: int
    dependent: int


class LinkRecords(NamedTuple):
    """Links with their buffers, and the claims of adaptive packets."""

    link: NDArray[Any]  # (L,) LINK
    extra: NDArray[Any]  # (L,) EXTRA in the memory of `link`; (0,) on the default network
    counter: NDArray[Any]  # (L,) COUNTER
    lane: NDArray[Any]  # (L * 3 * inputs,) LANE; (L * 4,) in `link` on the default network
    node: NDArray[Any]  # (N,) NODE; (0,) without adaptive packets
    # (N * words * 64,) ports that the first packet of a lane may take: bits by rank of the port
    adaptive_ranks: NDArray[np.uint16]
    ordered: NDArray[np.uint8]  # (N * words * 64,) rank * 2 + kind in dimension order
    port: Ints  # (N * reception ports,) time in parts when each is free


class PacketRecords(NamedTuple):
    """Packets in the network, and all FIFOs and messages."""

    packet: NDArray[Any]  # (P,) PACKET
    free: Int32s  # (P,) stack of free packet slots
    fifo: NDArray[Any]  # (F,) FIFO
    filling: NDArray[Any]  # (F,) FILLING
    # (F,) turns left for the FIFO's packet at the router; (0,) if no packet yields turns
    turns_left: Int32s
    message: NDArray[Any]  # (E,) MESSAGE by task, round and hand-over; then the handshakes
    receipt: NDArray[Any]  # (E,) RECEIPT


class TaskRounds(NamedTuple):
    """The messages that each task hands over and waits for."""

    next_message: Int32s  # (E,) next message of a handshake; (0,) if nothing follows a message
    first: Int32s  # (E,) what is handed over for a message: itself or its question
    receiver: Int32s  # (E,) row of its receiver in `waits`; (0,) without rounds
    sender: Int32s  # (E,) row of its sender in `waits`; (0,) without rounds
    begin: Int32s  # (T * R + 1,) first message of each task and round
    waits: Int32s  # (T * R,) number of messages that have not arrived yet
    # (T * R,) last question that arrived before the task was in the round; (0,) without questions
    asked: Int32s


class TaskRecords(NamedTuple):
    """Rounds and workers of tasks."""

    current: Int32s  # (T,) round of each task
    following: Int32s  # (T,) next task that its worker serves
    worker: Int32s  # (W, 3) first and last waiting task, current message
    worker_of: Int32s  # (T,)


class EventRecords(NamedTuple):
    """Events and the clock."""

    wheel: NDArray[Any]  # (K,) WHEEL
    filled: UInt64s  # (K / 64,) bits of the ticks with events
    chunk: Ints  # (chunks * 16,)
    prefetched: Int32s  # (16,) packets prefetched for the events of a chunk
    free_chunks: Int32s  # (chunks,) stack of free chunks
    # Rows: one for each worker, with rounds one for each message within a node, and one more.
    heap: NDArray[Any]  # (rows,) TASK_EVENT
    task_queue: NDArray[Any]  # (rows,) TASK_EVENT, for events that are added in order of time
    clock: Ints  # (10,)


class State(NamedTuple):
    """State of the event loop."""

    rules: NetworkRules
    fields: RouteFields
    links: LinkRecords
    packets: PacketRecords
    rounds: TaskRounds
    tasks: TaskRecords
    events: EventRecords


# Minimum ticks of the longest packet and of a hop (long runs may have fewer), and maximum ticks of
# the longest packet.
_TICKS_PER_PACKET, _TICKS_PER_HOP, _MAX_TICKS_PER_PACKET = 1024, 64, 2**16
# Desired and required number of parts in the shortest packet.
_PARTS_PER_PACKET = 128
_MIN_PARTS = 16
_MAX_WHEEL = 2**22
# No delay may exceed this many times the time of a packet on the fastest link.
_MAX_RATIO = 2**23
# All packets are assumed to arrive within this factor times `busiest_node_seconds`.
_NETWORK_FACTOR = 8
_MAX_TICKS = 2**31
# Ticks between two checks of waits, and the longest wait that cannot overflow until the next.
CHECK_INTERVAL = 2**28
LONGEST_WAIT = _MAX_TICKS - 2 * CHECK_INTERVAL
# Times in parts have 64 bits.
_LAST_TICK = 2 ** (62 - PARTS)


def choose_tick(messages: Messages, torus: Torus, n_halvings: int = 0) -> tuple[float, int]:
    """Return the seconds per tick, and the ticks in a wheel that is longer than any network delay.

    On the fastest link, the longest packet takes a whole number of ticks, and the shortest packet
    many parts of a tick. Packets have 32 bits for ticks, so very long runs have longer ticks. After
    waits that were too long (`waits_too_long`), the tick is doubled ``n_halvings`` times.
    """
    remote = messages.src != messages.dst
    largest_packet = float(messages.wire.max(initial=1.0, where=remote))
    _check_slowest(torus, largest_packet)
    node_seconds = busiest_node_seconds(messages, torus)
    network_seconds = _NETWORK_FACTOR * node_seconds
    network = torus.network
    packet_seconds = largest_packet / max(torus.bandwidth)
    port_bandwidth = network.memory_bandwidth / network.reception_ports
    slowest_seconds = largest_packet / min(_min_bandwidth(torus), port_bandwidth)
    is_sent = remote & (messages.wire > 0)
    smallest_packet = float(messages.wire.min(initial=largest_packet, where=is_sent))
    # Parts of the shortest packet if the longest took one tick.
    parts = 2**PARTS * smallest_packet / largest_packet
    ticks = _TICKS_PER_PACKET
    while ticks < _MAX_TICKS_PER_PACKET and (
        ticks * network.hop_latency < _TICKS_PER_HOP * packet_seconds
        or ticks * parts < _PARTS_PER_PACKET
    ):
        ticks *= 2
    while ticks > 1 and (
        (slowest_seconds + network.hop_latency) / packet_seconds * ticks > _MAX_WHEEL
        or network_seconds / packet_seconds * ticks > _MAX_TICKS
    ):
        ticks //= 2
    ticks >>= n_halvings
    if not ticks:
        raise InputError(
            "waiting times of packets are too long for the clock",
            expected="a larger coarsening (--coarsening)",
        )
    if ticks * parts < _MIN_PARTS:
        merged = largest_packet > network.payload + network.header
        raise InputError(
            "packets too short for the clock",
            found=f"{smallest_packet:.6g} bytes; the longest has {largest_packet:.6g}",
            expected="fewer messages with more bytes each"
            + (", or a smaller coarsening (--coarsening)" if merged else ""),
        )
    tick = packet_seconds / ticks
    if node_seconds > _MAX_TICKS * tick:
        raise InputError(
            "too many packets, or too slow a network, for the clock",
            found=f"{seconds(node_seconds)} at one node",
            expected=f"at most {seconds(_MAX_TICKS * tick)}; a larger coarsening (--coarsening)",
        )
    _check_duration(messages, torus, network_seconds, tick)
    # The margin is for rounding. A word of `EventRecords.filled` has 64 ticks.
    max_delay_ticks = (slowest_seconds + network.hop_latency) / tick + 3
    return tick, max(64, 2 ** math.ceil(math.log2(max_delay_ticks)))


def waits_too_long(state: State, now: int) -> bool:
    """Return whether the wait of a packet may soon overflow."""
    in_network = state.packets.packet["route"] != DELIVERED
    in_network[state.packets.free[: state.events.clock[N_FREE_SLOTS]]] = False
    # Packets store 32 bits of a tick, so the difference is also taken with 32 bits.
    waits = (np.int64(now) - state.packets.packet["since"][in_network]).astype(np.int32)
    return bool(waits.max(initial=0) > LONGEST_WAIT)


def busiest_node_seconds(messages: Messages, torus: Torus) -> float:
    """Return the seconds that the busiest node takes for its packets at the lowest bandwidth.

    With small buffers, the rate of a link is the rate at which buffer space becomes free.
    """
    n_packets = max(1, torus.network.buffer_packets - 1)
    min_bandwidth = min(_min_bandwidth(torus), torus.network.memory_bandwidth)
    bytes_per_packet = messages.wire + torus.network.hop_latency / n_packets * min_bandwidth
    remote = np.where(messages.src != messages.dst, messages.packets * bytes_per_packet, 0.0)
    max_bytes = max(
        float(np.bincount(nodes, remote, minlength=1).max())
        for nodes in (messages.src, messages.dst)
    )
    return max_bytes / min_bandwidth


def _min_bandwidth(torus: Torus) -> float:
    return min([*torus.bandwidth, *(bandwidth for _, bandwidth in torus.exclusions.slow)])


def _check_slowest(torus: Torus, largest_packet: float) -> None:
    """Raise `InputError` if a delay is too long relative to the fastest link."""
    network = torus.network
    max_seconds = _MAX_RATIO * largest_packet / max(torus.bandwidth)
    if network.hop_latency > max_seconds:
        raise InputError(
            "hop_latency too long relative to a packet on the fastest link",
            found=seconds(network.hop_latency),
            expected=f"at most {seconds(max_seconds)}",
        )
    min_bandwidth = max(torus.bandwidth) / _MAX_RATIO
    for name, value, ports in (
        ("memory_bandwidth", network.memory_bandwidth, network.reception_ports),
        ("bandwidth", _min_bandwidth(torus), 1),
    ):
        if value < min_bandwidth * ports:
            raise InputError(
                f"{name} too low relative to the fastest link",
                found=f"{value:g} bytes/s",
                expected=f"at least {min_bandwidth * ports:.3g} bytes/s",
            )


def _check_duration(messages: Messages, torus: Torus, horizon: float, tick: float) -> None:
    """Raise `InputError` if the run may exceed the range of the clock."""
    spans = {
        "software overhead": float(messages.software.sum()),
        "copies at memory_bandwidth": float(messages.nbytes.sum()) / torus.network.memory_bandwidth,
        "packets on links": horizon,
    }
    if sum(spans.values()) > _LAST_TICK * tick:
        raise InputError(
            f"too long for the clock, mostly {max(spans, key=lambda name: spans[name])}",
            found=seconds(sum(spans.values())),
            expected=f"at most {seconds(_LAST_TICK * tick)}",
        )
