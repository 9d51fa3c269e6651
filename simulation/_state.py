"""What the packet simulator's event loop works on.

Letters in the comments: N nodes, D dimensions, L = N * 2 * D links, C = 3 channels, P packet slots,
F = N * fifos injection FIFOs, E messages, T tasks, R rounds, W workers, K ticks of the wheel.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

NONE = -1

# Behind a link lie the deterministic channel (with datelines a second, see `kind_of`) and the
# adaptive one.
ADAPTIVE_CHANNEL = 2
# A tick has 2**PARTS parts, in which links, FIFOs and reception ports count what packets take: a
# packet much shorter than the largest takes no whole number of ticks, and many of them add up.
PARTS = 10
# A place is (link * virtual channels + virtual channel) << 2 | channel.
CHANNEL_BITS = 2
# Kinds of lanes at a link. With the bubble rule packets in the first stay on their ring and those
# in the second enter it; with datelines they wait for the first and the second channel. In
# FREE wait adaptive packets that may take any of several links.
FIRST, SECOND, FREE = 0, 1, 2
KINDS = 3
# Route of a packet that has arrived and waits for a reception port.
DELIVERED = np.uint64(2**64 - 1)

FIRST_COME, ROUND_ROBIN, AGE, FAIR = 0, 1, 2, 3
# What the log of a watched message tells.
HANDED_OVER, INJECTED, SENT, ARRIVED, TAKEN_IN = 0, 1, 2, 3, 4

# Places of `State.clock`.
NOW, CHUNKS, SLOTS, HEAP, ORDER, HOPS, LOGGED, HELD, FIRSTS, QUEUE_FIRST, QUEUE_LENGTH = range(11)

LANE = np.dtype(
    [
        ("head", np.int32),
        ("tail", np.int32),
        ("since", np.int32),  # tick of its head's arrival, on the usual network
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
        ("armed", np.int8),  # an event will look at it
        ("port", np.int8),
        ("lane", LANE, 2),  # on the usual network; see `State.lane`
    ],
    align=True,
)
# What the other networks need of a link, in the place of those lanes; see `State.rest`.
REST = np.dtype(
    [
        ("common", np.int8, LINK.itemsize - 2 * LANE.itemsize),
        ("second_credit", np.int32),  # free bytes behind it in the second channel
        ("adaptive_credit", np.int32),  # and in the adaptive one
        ("to_edge", np.int32),  # hops from its beginning that stay on this side of the ring's edge
        ("to_middle", np.int32),  # that stay in the half of the ring where it begins
        ("turn", np.int8),  # input after the one served last
        ("second_channel", np.int8),  # channel of the second kind of lane
        ("unused", np.int8, 14),
    ]
)
# Of the buffer behind a link. Half a cache line.
COUNTER = np.dtype(
    [
        ("waited", np.int64),  # ticks that packets spent in it, summed up
        ("wire_bytes", np.float64),
        ("found", np.int64),  # packets found in it by each arrival, itself included
        ("packets", np.int32),
        ("most", np.int32),
    ],
    align=True,
)
# A first-in first-out queue behind a link, where there are virtual channels.
QUEUE = np.dtype(
    [
        ("free_at", np.int64),  # tick when the tail of the packet that left last has gone
        ("credit", np.int32),
        ("head", np.int32),
        ("tail", np.int32),
        ("moving", np.int32),  # whether its head asks for an output or an event will make it ask
    ],
    align=True,
)
# The usual network's lanes in the memory of the links: how many each would hold, where its own are.
LANES_A_LINK = LINK.itemsize // LANE.itemsize
OWN_LANES = int(LINK.fields["lane"][1]) // LANE.itemsize  # type: ignore[index]
# Half a cache line. Ticks are their lowest 32 bits: only differences count.
PACKET = np.dtype(
    [
        ("route", np.uint64),  # hops left, a field for each port
        ("tail", np.int32),  # tick when all of it has arrived
        ("since", np.int32),  # tick of arrival
        ("message", np.int32),
        ("place", np.int32),  # link and channel that hold it, or -2 - FIFO
        ("next", np.int32),  # in its lane; before, on the usual network, that lane: link * 2 + kind
        ("wire", np.float32),
    ],
    align=True,
)
FIFO = np.dtype(
    [
        ("waited", np.int64),
        ("free_at", np.int64),  # part of a tick when it has handed over its last packet
        ("head", np.int32),  # message at its head
        ("tail", np.int32),
        ("busy", np.int32),  # whether an event will let it go on
        ("outside", np.int32),  # packets of it that wait at the router
    ],
    align=True,
)
# Messages in a FIFO, now and at most, and the ticks that those which have left it were there.
FILLING = np.dtype([("length", np.int32), ("most", np.int32), ("stay", np.int64)], align=True)
MESSAGE = np.dtype(
    [
        ("route", np.uint64),
        ("wire", np.float32),  # bytes of each packet, header included
        ("to_send", np.int32),  # packets
        ("ties", np.int32),  # bits of the dimensions, in routing order, with two shortest ways
        ("next", np.int32),
        ("fifo", np.int64),  # NONE within a node
        ("overhead", np.int64),  # ticks of software
        ("ready", np.int64),  # tick of hand-over
        ("copy", np.int64),  # ticks that a message within a node takes
        ("coin", np.int32),  # which way the last packet goes at each of these dimensions
        ("zones", np.int32),  # set of zones among which its packets choose
    ],
    align=True,
)
RECEIPT = np.dtype(
    [
        ("finish", np.int64),  # tick when the last packet so far has been taken in
        ("left", np.int32),  # packets that the receiver has not taken in yet
    ],
    align=True,
)
# Where a tick's list of events begins and where its next one goes, in `State.chunk`.
WHEEL = np.dtype([("first", np.int32), ("end", np.int32)], align=True)
# A chunk is 15 events and the place of the next chunk.
CHUNK = 16


class Fields(NamedTuple):
    """Where a route keeps the hops left through each port."""

    shift: NDArray[np.uint64]  # (2 * D,) lowest bit of each port's field
    mask: NDArray[np.uint64]  # (2 * D,)
    width: NDArray[np.uint64]  # (D,) bits of a field, the dimensions in routing order
    order: NDArray[np.int64]  # (D,)
    port: NDArray[np.int64]  # (65,) port to which each bit belongs
    zone: NDArray[np.uint64]  # (sets, zones) bits of each zone's ports, 0 where there are fewer


class FairQueues(NamedTuple):
    """What fair queueing keeps, in parts of ticks times weights; all ``(0,)`` without."""

    clock: NDArray[np.int64]  # (L,) latest start tag of a packet that a link has sent
    ended: NDArray[np.int64]  # (2 * hops,) where its last packet ends, by message, hops left, sign
    first: NDArray[np.int64]  # (E,) where a message's hops begin
    cost: NDArray[np.int64]  # (E,) from one of its packets to the next
    last: NDArray[np.int32]  # (4 * hops,) slot + 1 of its last packet that waits, by kind of lane
    tag: NDArray[np.int64]  # (P,) start tag of each packet at its link
    place: NDArray[np.int64]  # (P,) where a packet that waits counts in `last`


class State(NamedTuple):
    """Everything the event loop works on."""

    fields: Fields
    link: NDArray[Any]  # (L,) LINK
    rest: NDArray[Any]  # (L,) REST in the links' memory; (0,) on the usual network
    counter: NDArray[Any]  # (L,) COUNTER
    lane: NDArray[Any]  # (L * 3 * inputs,) LANE; on the usual network (L * 4,), the links' memory
    queue: NDArray[Any]  # (L * virtual channels * 4,) QUEUE by place; (0,) without
    packet: NDArray[Any]  # (P,) PACKET
    fair: FairQueues
    fifo: NDArray[Any]  # (F,) FIFO
    filling: NDArray[Any]  # (F,) FILLING
    turns_left: NDArray[np.int32]  # (F,) of its packet at the router; (0,) where none gives way
    message: NDArray[Any]  # (E,) MESSAGE, sorted by task, round and turn; then the handshakes
    receipt: NDArray[Any]  # (E,) RECEIPT
    then: NDArray[np.int32]  # (E,) answer to a question, message asked for; (0,) if there is none
    first: NDArray[np.int32]  # (E,) what a task hands over of a message: itself or its question
    receiver: NDArray[np.int32]  # (E,) row of `waits` that counts a message; (0,) without rounds
    waiting: NDArray[np.int32]  # (N,) adaptive packets in lanes
    queued: NDArray[np.int64]  # (L,) bytes of the packets in FREE
    claim: NDArray[np.uint64]  # (L * words,) bits of the node's lanes whose first may take a link
    sender: NDArray[np.int32]  # (E,) row of its own task; (0,) without rounds
    port: NDArray[np.int64]  # (N * reception ports,) part of a tick when each is free
    begin: NDArray[np.int32]  # (T * R + 1,) first message of each task and round
    waits: NDArray[np.int32]  # (T * R,) messages still to arrive
    asked: NDArray[np.int32]  # (T * R,) last question that came before the round; (0,) if none can
    current: NDArray[np.int32]  # (T,) round of each task
    following: NDArray[np.int32]  # (T,) next task that its worker serves
    worker: NDArray[np.int32]  # (W, 3) first and last task waiting for it, message in hand
    worker_of: NDArray[np.int32]  # (T,)
    wheel: NDArray[Any]  # (K,) WHEEL
    filled: NDArray[np.uint64]  # (K / 64,) bits of the ticks with events
    chunk: NDArray[np.int64]  # (chunks * 16,)
    spare: NDArray[np.int32]  # (chunks,) stack of free ones' places
    free: NDArray[np.int32]  # (P,) stack of free packet slots
    # As many rows as workers, with rounds also as messages within nodes, and one more.
    heap: NDArray[np.int64]  # (rows, 3) tick, order, who
    task_queue: NDArray[np.int64]  # (rows, 3) the same of those that come in order
    log: NDArray[np.int64]  # (entries, 4) tick, kind, packet slot, link
    clock: NDArray[np.int64]  # (11,)
    special: int | None  # None on the usual network, 1 on others; see `is_usual`
    fifos: int  # a node
    whole_places: int  # whether every packet takes the room of the largest
    virtual: int  # virtual channels of each channel, 1 where packets do not queue behind others
    turns: int  # turns that an input port has among the lanes: its virtual channels, or one
    inputs: int  # lanes of each kind: one, or one for each input port and FIFO
    latency: int
    parts_per_byte: NDArray[np.float64]  # (2 * D,) of each port's links
    largest: int  # bytes of the largest packet: what must be free for any to go
    reception_ports: int
    reception: float  # parts of ticks a byte
    arbitration: int
    adaptive: int
    outside: int  # packets of a FIFO that may wait at the router
    turns_a_byte: float  # of a FIFO's packet: with its last turn it goes, before it gives way
    injection: float  # parts of ticks a byte of a FIFO
    shared_by: int  # FIFOs that take from one queue
    by_packet: int  # FIFOs send one packet of each message in turn
    draws_ties: int  # whether packets draw their way at a tie; else they alternate
    ties_minus: int  # whether adaptive packets take only the minus way of a tie
    stays: int  # whether packets in a channel of dimension order may not leave it
    seed: int
    dependent: int
    watched: int
