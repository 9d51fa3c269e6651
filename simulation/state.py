"""The state of the packet simulator's event loop, its clock, and how far ticks round."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from toruscast.errors import InputError
from toruscast.mapping import Torus
from toruscast.routing.messages import Messages

LARGEST_PACKET = 2**26
"""Bytes of a packet at most: free ones behind a link are counted in 32 bits."""
# Least places of a buffer for merged packets, if it has as many for real ones.
PLACES = 3

NONE = -1

# Behind a link are the deterministic channel (with datelines also a second one, see `kind_of`) and
# the adaptive one.
ADAPTIVE_CHANNEL = 2
# A tick has 2**PARTS parts, in which links, FIFOs and reception ports count the time of packets. A
# short packet takes no whole number of ticks, and the rounding of many would add up.
PARTS = 10
# A place is a buffer's number: link << 2 | channel.
CHANNEL_BITS = 2
# Kinds of lanes at a link. With the bubble rule, packets in the first kind stay on their ring and
# those in the second enter it. With datelines they wait for the first and the second channel.
# Adaptive packets that may take several links wait in FREE.
FIRST, SECOND, FREE = 0, 1, 2
KINDS = 3
# Route of a packet that has arrived and waits for a reception port.
DELIVERED = np.uint64(2**64 - 1)

FIRST_COME, ROUND_ROBIN = 0, 1

# Places of `EventRecords.clock`.
NOW, CHUNKS, SLOTS, HEAP, ORDER, HOPS, HELD, FIRSTS, QUEUE_FIRST, QUEUE_LENGTH = range(10)

LANE = np.dtype(
    [
        ("head", np.int32),
        ("tail", np.int32),
        ("since", np.int32),  # tick at which the packet at its head has come
        ("unused", np.int32),  # two of them fill half a cache line
    ],
    align=True,
)
# One cache line, so that one miss brings all of it.
LINK = np.dtype(
    [
        ("free_at", np.int64),  # part of a tick when the last packet's tail has gone
        ("lanes", np.uint64),  # bits of the lanes where packets wait
        ("credit", np.int32),  # free bytes behind it in the deterministic channel
        ("far", np.int32),  # node at its far end
        ("occupied", np.int32),
        ("entry", np.int8),  # largest packets that must fit for one of the second kind to go
        ("armed", np.int8),  # whether an event will look at it
        ("port", np.int8),
        ("lane", LANE, 2),  # on the usual network; see `Links.lane`
    ],
    align=True,
)
# Fields of a link in other networks, in the place of those lanes; see `Links.rest`.
REST = np.dtype(
    [
        ("common", np.int8, LINK.itemsize - 2 * LANE.itemsize),
        ("second_credit", np.int32),  # free bytes behind it in the second channel
        ("adaptive_credit", np.int32),  # free bytes behind it in the adaptive channel
        ("to_edge", np.int32),  # hops from its beginning that stay on this side of the ring's edge
        ("to_middle", np.int32),  # hops that stay in the half of the ring where it begins
        ("queued", np.int64),  # bytes of the packets in FREE
        ("node", np.int32),
        ("turn", np.int8),  # input after the one served last
        ("second_channel", np.int8),  # channel of the second kind of lane
        ("rank", np.int8),  # of its port, in routing order
        ("unused", np.int8),
    ]
)
# What adaptive packets ask of a node.
NODE = np.dtype(
    [
        ("waiting", np.int32),  # packets in lanes
        ("armed", np.uint32),  # bits of the links, by rank, that an event will look at
    ],
    align=True,
)
# Counters of the buffer behind a link. Half a cache line.
COUNTER = np.dtype(
    [
        ("waited", np.int64),  # sum of the ticks that packets spent in it
        ("wire_bytes", np.float64),
        ("unused", np.int64),
        ("packets", np.int32),
        ("most", np.int32),
    ],
    align=True,
)
# Lanes of the usual network lie in the memory of the links: lanes a link has room for, and where
# its own are.
LANES_A_LINK = LINK.itemsize // LANE.itemsize
OWN_LANES = int(LINK.fields["lane"][1]) // LANE.itemsize  # type: ignore[index]
# Half a cache line. Only the lowest 32 bits of ticks are kept, because only differences count.
PACKET = np.dtype(
    [
        ("route", np.uint64),  # hops left, a field for each port
        ("tail", np.int32),  # tick at which all of it has arrived
        ("since", np.int32),  # tick of arrival
        ("message", np.int32),
        ("place", np.int32),  # link and channel that hold it, or -2 - FIFO
        # Next in its lane; before it waits, on the usual network, that lane: link * 2 + kind.
        ("next", np.int32),
        ("wire", np.float32),
    ],
    align=True,
)
FIFO = np.dtype(
    [
        ("waited", np.int64),
        ("free_at", np.int64),  # part of a tick at which it has handed over its last packet
        ("head", np.int32),  # message at its head
        ("tail", np.int32),
        ("busy", np.int32),  # whether an event will make it go on
        ("outside", np.int32),  # packets of it that wait at the router
    ],
    align=True,
)
# Messages in a FIFO now, the most so far, and the ticks that those which left had been there.
FILLING = np.dtype([("length", np.int32), ("most", np.int32), ("stay", np.int64)], align=True)
MESSAGE = np.dtype(
    [
        ("route", np.uint64),
        ("wire", np.float32),  # bytes of each packet, header included
        ("to_send", np.int32),  # packets
        ("ties", np.int32),  # bits of the dimensions, in routing order, that have two shortest ways
        ("next", np.int32),
        ("fifo", np.int64),  # NONE within a node
        ("overhead", np.int64),  # ticks of software
        ("ready", np.int64),  # tick of hand-over
        ("copy", np.int64),  # ticks that a message within a node takes
        ("coin", np.int32),  # way of the last packet at each of these dimensions
        ("zones", np.int32),  # set of zones from which its packets choose
    ],
    align=True,
)
RECEIPT = np.dtype(
    [
        ("finish", np.int64),  # tick at which the last packet so far was taken in
        ("left", np.int32),  # packets that the receiver has not taken in yet
    ],
    align=True,
)
# Beginning of a tick's list of events, and place of its next one, in `EventRecords.chunk`.
WHEEL = np.dtype([("first", np.int32), ("end", np.int32)], align=True)
# Ports of a node in the most dimensions, and lanes whose ways are compared at once.
MOST_PORTS = 16
LANES_A_WORD = 64
# A chunk holds 15 events and the place of the next chunk.
CHUNK = 16


class Fields(NamedTuple):
    """Fields of a route with the hops left through each port."""

    shift: NDArray[np.uint64]  # (2 * D,) lowest bit of each port's field
    mask: NDArray[np.uint64]  # (2 * D,)
    width: NDArray[np.uint64]  # (D,) bits of a field, the dimensions in routing order
    order: NDArray[np.int64]  # (D,)
    port: NDArray[np.int64]  # (65,) port to which each bit belongs
    ranked: NDArray[np.uint64]  # (16,) masks in routing order, 0 after the last port
    ports: NDArray[np.int64]  # (2 * D,) ports in routing order
    zone: NDArray[np.uint64]  # (sets, zones) bits of each zone's ports, 0 where there are fewer


class Rules(NamedTuple):
    """What the network, the tasks and the routing ask for, as numbers that do not change."""

    special: int | None  # None on the usual network, 1 on others; see `setup.is_special`
    fifos: int  # a node
    whole_places: int  # whether every packet takes the room of the largest
    inputs: int  # lanes of each kind: one, or one for each input port and FIFO
    latency: int
    parts_per_byte: NDArray[np.float64]  # (2 * D,) a port, or (L,) if some are slow
    largest: int  # bytes of the largest packet: what must be free for any to go
    reception_ports: int
    reception: float  # parts of ticks a byte
    arbitration: int
    adaptive: int | None  # whether packets choose among links; not 0 but None if not special
    outside: int  # packets of a FIFO that may wait at the router
    # Turns a byte of a FIFO's packet: it goes with its last turn, and gives way before.
    turns_a_byte: float
    injection: float  # parts of ticks a byte of a FIFO
    shared_by: int  # number of FIFOs that take from one queue
    by_packet: int  # whether FIFOs send one packet of each message in turn
    draws_ties: int  # whether packets draw their way at a tie at random; else they alternate
    ties_minus: int  # whether adaptive packets take only the minus way of a tie
    stays: int  # whether packets in a channel of dimension order may not leave it
    seed: int
    dependent: int


class Links(NamedTuple):
    """Links with their buffers, and what packets of several ways ask of nodes."""

    link: NDArray[Any]  # (L,) LINK
    rest: NDArray[Any]  # (L,) REST in the links' memory; (0,) on the usual network
    counter: NDArray[Any]  # (L,) COUNTER
    lane: NDArray[Any]  # (L * 3 * inputs,) LANE; on the usual network (L * 4,), the links' memory
    node: NDArray[Any]  # (N,) NODE; (0,) without adaptive packets
    ways: NDArray[np.uint16]  # (N * words * 64,) ranks of ports that a lane's first packet may take
    ordered: NDArray[np.uint8]  # (N * words * 64,) its way in dimension order: rank * 2 + kind
    port: NDArray[np.int64]  # (N * reception ports,) part of a tick at which each is free


class PacketRecords(NamedTuple):
    """Packets on their way, and the messages that they belong to."""

    packet: NDArray[Any]  # (P,) PACKET
    free: NDArray[np.int32]  # (P,) stack of free packet slots
    fifo: NDArray[Any]  # (F,) FIFO
    filling: NDArray[Any]  # (F,) FILLING
    # (F,) turns of its packet at the router; (0,) where none gives way
    turns_left: NDArray[np.int32]
    message: NDArray[Any]  # (E,) MESSAGE, sorted by task, round and turn; then the handshakes
    receipt: NDArray[Any]  # (E,) RECEIPT


class TaskRounds(NamedTuple):
    """The messages that each task hands over and waits for."""

    then: NDArray[np.int32]  # (E,) answer to a question, message asked for; (0,) if there is none
    first: NDArray[np.int32]  # (E,) what a task hands over: the message or its question
    receiver: NDArray[np.int32]  # (E,) row of `waits` that counts a message; (0,) without rounds
    sender: NDArray[np.int32]  # (E,) row of its own task; (0,) without rounds
    begin: NDArray[np.int32]  # (T * R + 1,) first message of each task and round
    waits: NDArray[np.int32]  # (T * R,) messages still to arrive
    # (T * R,) last question that came before the round; (0,) without questions
    asked: NDArray[np.int32]


class Tasks(NamedTuple):
    """Where each task is, and who serves it."""

    current: NDArray[np.int32]  # (T,) round of each task
    following: NDArray[np.int32]  # (T,) next task that its worker serves
    worker: NDArray[np.int32]  # (W, 3) first and last task waiting for it, message in hand
    worker_of: NDArray[np.int32]  # (T,)


class EventRecords(NamedTuple):
    """What happens when."""

    wheel: NDArray[Any]  # (K,) WHEEL
    filled: NDArray[np.uint64]  # (K / 64,) bits of the ticks with events
    chunk: NDArray[np.int64]  # (chunks * 16,)
    brought: NDArray[np.int32]  # (16,) packets that links of a chunk's events will send
    spare: NDArray[np.int32]  # (chunks,) stack of free ones' places
    # One row for each worker, with rounds also for each message within a node, and one more.
    heap: NDArray[np.int64]  # (rows, 3) tick, order, who
    task_queue: NDArray[np.int64]  # (rows, 3) the same for events that come in order
    clock: NDArray[np.int64]  # (10,)


class State(NamedTuple):
    """Everything the event loop works on."""

    rules: Rules
    fields: Fields
    links: Links
    packets: PacketRecords
    rounds: TaskRounds
    tasks: Tasks
    events: EventRecords


_TICKS_A_PACKET = 1024
_TICKS_A_HOP = 64
# Parts of ticks that the shortest packet should take, and those that it must take.
_PARTS_A_PACKET = 128
_LEAST_PARTS = 16
_LARGEST_WHEEL = 2**22
# Nothing in the network may take longer than this many times a packet on the fastest link.
_LARGEST_REACH = 2**23
# The network has carried everything after this many times the result of `carrying`.
_SPARE = 8
_MOST_TICKS = 2**31
# Ticks between two checks of the waits, and the longest wait that a check accepts. A longer wait is
# found before its ticks overflow.
BETWEEN_LOOKS = 2**28
LONGEST_WAIT = _MOST_TICKS - 2 * BETWEEN_LOOKS
# Parts of a run's ticks are counted in 64 bits.
_LAST_TICK = 2 ** (62 - PARTS)


def clock_of(messages: Messages, torus: Torus, halved: int = 0) -> tuple[float, int]:
    """Return the seconds of a tick, and the ticks of a wheel longer than any delay of the network.

    The longest packet takes a whole number of ticks on the fastest link, the shortest many of the
    parts in which links count. Packets keep 32 bits of their ticks, so very long runs have longer
    ticks, and twice as long ones if a wait was too long (`waits_too_long`).
    """
    remote = messages.src != messages.dst
    largest_packet = float(messages.wire.max(initial=1.0, where=remote))
    _check_reach(torus, largest_packet)
    longest = carrying(messages, torus)
    horizon = _SPARE * longest
    network = torus.network
    packet = largest_packet / max(torus.bandwidth)
    slowest = largest_packet / min(
        _least_bandwidth(torus), network.memory_bandwidth / network.reception_ports
    )
    smallest = float(messages.wire.min(initial=largest_packet, where=remote & (messages.wire > 0)))
    parts = 2**PARTS * smallest / largest_packet  # of the shortest packet, were a tick the longest
    ticks = _TICKS_A_PACKET
    while ticks < 64 * _TICKS_A_PACKET and (
        ticks * network.hop_latency < _TICKS_A_HOP * packet or ticks * parts < _PARTS_A_PACKET
    ):
        ticks *= 2
    while ticks > 1 and (
        (slowest + network.hop_latency) / packet * ticks > _LARGEST_WHEEL
        or horizon / packet * ticks > _MOST_TICKS
    ):
        ticks //= 2
    ticks >>= halved
    if not ticks:
        raise InputError(
            "packets wait too long for the clock", expected="a larger coarsening (--coarsening)"
        )
    if ticks * parts < _LEAST_PARTS:
        merged = largest_packet > network.payload + network.header
        raise InputError(
            "packets too short for the clock",
            found=f"{smallest:.6g} bytes, the longest {largest_packet:.6g}",
            expected="fewer messages for so few bytes"
            + (", or a smaller coarsening (--coarsening)" if merged else ""),
        )
    tick = packet / ticks
    if longest > _MOST_TICKS * tick:
        raise InputError(
            "too many packets, or too slow a network, for the clock",
            found=f"{longest:.3g} s at one node",
            expected=f"at most {_MOST_TICKS * tick:.3g} s; a larger coarsening (--coarsening)",
        )
    _check_end(messages, torus, horizon, tick)
    reach = (slowest + network.hop_latency) / tick
    return tick, max(64, 2 ** math.ceil(math.log2(reach + 3)))


def waits_too_long(state: State, now: int) -> bool:
    """Return whether a packet has waited for so many ticks that they may soon overflow."""
    on_way = state.packets.packet["route"] != DELIVERED
    on_way[state.packets.free[: state.events.clock[SLOTS]]] = False
    # After 2^31 ticks the packets' own 32 bits overflow, and so does the difference.
    waits = (np.int64(now) - state.packets.packet["since"][on_way]).astype(np.int32)
    return bool(waits.max(initial=0) > LONGEST_WAIT)


def carrying(messages: Messages, torus: Torus) -> float:
    """Return the seconds that the busiest node needs for its packets over the slowest part.

    Where few packets find room behind a link, its rate is that at which the room becomes free.
    """
    places = max(1, torus.network.buffer_packets - 1)
    slowest = min(_least_bandwidth(torus), torus.network.memory_bandwidth)
    each = messages.wire + torus.network.hop_latency / places * slowest
    remote = np.where(messages.src != messages.dst, messages.packets * each, 0.0)
    most = max(
        float(np.bincount(ends, remote, minlength=1).max()) for ends in (messages.src, messages.dst)
    )
    return most / slowest


def _least_bandwidth(torus: Torus) -> float:
    """Bytes per second of the slowest link."""
    return min([*torus.bandwidth, *(bandwidth for _, bandwidth in torus.exclusions.slow)])


def _check_reach(torus: Torus, largest_packet: float) -> None:
    """Raise `InputError` if something is slower than the fastest link by too many orders."""
    network = torus.network
    longest = _LARGEST_REACH * largest_packet / max(torus.bandwidth)
    if network.hop_latency > longest:
        raise InputError(
            "hop_latency too long beside a packet's time on the fastest link",
            found=f"{network.hop_latency:g} s",
            expected=f"at most {longest:.3g} s",
        )
    least = max(torus.bandwidth) / _LARGEST_REACH
    for name, found, ports in (
        ("memory_bandwidth", network.memory_bandwidth, network.reception_ports),
        ("bandwidth", _least_bandwidth(torus), 1),
    ):
        if found < least * ports:
            raise InputError(
                f"{name} too low beside the fastest link's",
                found=f"{found:g} bytes/s",
                expected=f"at least {least * ports:.3g} bytes/s",
            )


def _check_end(messages: Messages, torus: Torus, horizon: float, tick: float) -> None:
    """Raise `InputError` if the run may last longer than ticks can be counted."""
    spans = {
        "software overhead": float(messages.software.sum()),
        "copies at memory_bandwidth": float(messages.nbytes.sum()) / torus.network.memory_bandwidth,
        "packets on links": horizon,
    }
    if sum(spans.values()) > _LAST_TICK * tick:
        raise InputError(
            f"too long for the clock, mostly {max(spans, key=lambda name: spans[name])}",
            found=f"{sum(spans.values()):.3g} s",
            expected=f"at most {_LAST_TICK * tick:.3g} s",
        )
