"""Kernels of events: the wheel of ticks, later events of tasks, and lanes of packets."""

from __future__ import annotations

from typing import Any

import numpy as np

from toruscast._jit import bare_kernel, trailing_zeros
from toruscast._llvm import prefetch

from ._link_kernels import (
    channel_of,
    choose,
    choose_adaptive,
    counts_arrivals,
    emptiest_link,
    inputs,
    is_adaptive,
    is_usual,
    kind_of,
    lane_of,
    link_of,
    open_channels,
    port_of,
    ranks,
    seat,
    size_of,
    withdraw,
    zone_of,
)
from .state import (
    ADAPTIVE_CHANNEL,
    CHUNK,
    CHUNKS,
    FIRSTS,
    FREE,
    HEAP,
    NONE,
    ORDER,
    PARTS,
    QUEUE_FIRST,
    QUEUE_LENGTH,
    SECOND,
    State,
)

_LAST = CHUNK - 1
# An entry is an event, with a link to prefetch for it in the upper bits.
_LINK = 32
_EVENT = 2**_LINK - 1


@bare_kernel
def schedule(state: State, event: int, tick: int, link: int = 0) -> None:
    """Add an event, which will touch a link, at a tick less than a turn of the wheel ahead."""
    place = tick & (state.events.wheel.size - 1)
    slot = state.events.wheel[place]
    end = slot.end
    if (end & _LAST) == _LAST:
        height = state.events.clock[CHUNKS] - 1
        state.events.clock[CHUNKS] = height
        fresh = state.events.spare[np.uint64(height)]
        if slot.first == NONE:
            slot.first = fresh
            state.events.filled[np.uint64(place >> 6)] |= np.uint64(1) << np.uint64(place & 63)
        else:
            state.events.chunk[np.uint64(end)] = fresh
        end = fresh
    state.events.chunk[np.uint64(end)] = link << _LINK | event
    slot.end = end + 1


@bare_kernel
def next_tick(state: State, now: int) -> int:
    """Return the tick of the next event in the wheel, from ``now`` on; NONE if there is none."""
    words = state.events.filled.size - 1
    word = (now >> 6) & words
    bits = state.events.filled[np.uint64(word)] >> np.uint64(now & 63)
    if bits != 0:
        return now + trailing_zeros(bits)
    ahead = 64 - (now & 63)
    for _ in range(words + 1):
        word = (word + 1) & words
        bits = state.events.filled[np.uint64(word)]
        if bits != 0:
            return now + ahead + trailing_zeros(bits)
        ahead += 64
    return NONE


@bare_kernel
def event_of(entry: int) -> int:
    """Return the event of an entry of a list."""
    return entry & _EVENT


@bare_kernel
def bring(state: State, i: int, end: int, now: int) -> None:
    """Prefetch all records that the events of a chunk will touch, and the first of the next one's.

    An event touches half a dozen records in tens of megabytes. If they are requested together, the
    waits for memory overlap; without this, 16,384 tasks take 1.5 times as long. The records that
    the entries name are requested a chunk earlier, then those that they lead to, twice. More passes
    cost more than they gain, as do branches on data that has not arrived yet. Events of one kind
    are processed together, by the bits of a word, because a processor cannot predict the kind of
    the next event.
    """
    n_packets = state.packets.packet.size
    n_links = state.links.link.size
    _bring_next(state, i, end, now)
    stop = _stop(i, end)
    arriving = np.uint64(0)
    freed = np.uint64(0)
    for k in range(i, stop):
        event = event_of(state.events.chunk[np.uint64(k)])
        bit = np.uint64(k & _LAST)
        arriving |= np.uint64(event < n_packets) << bit
        freed |= np.uint64(event < n_packets + n_links) << bit
    every = ((np.uint64(1) << np.uint64(stop - i)) - np.uint64(1)) << np.uint64(i & _LAST)
    others = every ^ freed
    freed ^= arriving
    begin = i & ~_LAST
    bits = arriving
    while bits != 0:
        _bring_for_arrival(state, state.events.chunk[np.uint64(begin + trailing_zeros(bits))])
        bits &= bits - np.uint64(1)
    bits = freed
    second = np.uint64(0)
    while bits != 0:
        k = trailing_zeros(bits)
        bits &= bits - np.uint64(1)
        out = state.events.chunk[np.uint64(begin + k)] >> _LINK
        if is_usual(state):
            lane = choose(state, out, open_channels(state, out)) == SECOND
            second |= np.uint64(lane) << np.uint64(k)
            prefetch(state.packets.packet, state.links.lane[lane_of(state, out, lane)].head)
        elif is_adaptive(state):
            lane = choose_adaptive(state, out, open_channels(state, out))
            p = NONE if lane == NONE else np.int64(state.links.lane[lane].head)
            prefetch(state.packets.packet, max(p, 0))
            state.events.brought[np.uint64(k)] = p
        else:
            base = lane_of(state, out, 0)
            prefetch(state.packets.packet, state.links.lane[base].head)
            prefetch(state.packets.packet, state.links.lane[base + inputs(state)].head)
    while others != 0:
        entry = state.events.chunk[np.uint64(begin + trailing_zeros(others))]
        f = event_of(entry) - n_packets - n_links
        others &= others - np.uint64(1)
        if f < state.packets.fifo.size:
            prefetch(state.packets.message, state.packets.fifo[f].head)
    while arriving != 0 and not is_usual(state) and not is_adaptive(state):
        entry = state.events.chunk[np.uint64(begin + trailing_zeros(arriving))]
        arriving &= arriving - np.uint64(1)
        _bring_tails(state, event_of(entry), entry >> _LINK)
    while freed != 0:
        k = trailing_zeros(freed)
        freed &= freed - np.uint64(1)
        out = state.events.chunk[np.uint64(begin + k)] >> _LINK
        if is_usual(state):
            lane = np.int64(second >> np.uint64(k)) & 1
            p = state.links.lane[lane_of(state, out, lane)].head
            prefetch(state.packets.packet, state.packets.packet[p].next)
            _bring_behind(state, p)
        else:
            if is_adaptive(state):
                p = np.int64(state.events.brought[np.uint64(k)])
                if p != NONE:
                    prefetch(state.packets.packet, np.int64(state.packets.packet[p].next))
                    _bring_behind(state, p)
                continue
            base = lane_of(state, out, 0)
            _bring_behind(state, state.links.lane[base].head)
            _bring_behind(state, state.links.lane[base + inputs(state)].head)


@bare_kernel
def _stop(i: int, end: int) -> int:
    """Return the end of the chunk that begins at a place, or of the list if it ends there."""
    return min(i | _LAST, end) if (i ^ end) < CHUNK else i | _LAST


@bare_kernel
def _bring_next(state: State, i: int, end: int, now: int) -> None:
    """Prefetch the records that the entries of the next chunk name, of this tick or a later one."""
    if (i ^ end) >= CHUNK:
        i = state.events.chunk[np.uint64(i | _LAST)]
    else:
        # A search beyond this word would take longer than it saves.
        place = (now + 1) & (state.events.wheel.size - 1)
        bits = state.events.filled[np.uint64(place >> 6)] >> np.uint64(place & 63)
        if bits == 0:
            return
        slot = state.events.wheel[place + trailing_zeros(bits)]
        i = np.int64(slot.first)
        end = np.int64(slot.end)
    for k in range(i, _stop(i, end)):
        entry = state.events.chunk[np.uint64(k)]
        event = event_of(entry)
        prefetch(state.links.link, entry >> _LINK)
        prefetch(state.packets.packet, event * np.int64(event < state.packets.packet.size))


@bare_kernel
def _bring_behind(state: State, p: int) -> None:
    """Prefetch the holder of a packet that will leave it."""
    held = state.packets.packet[p].place
    if held >= 0:
        behind = link_of(held)
        prefetch(state.links.link, behind)
        prefetch(state.links.counter, behind)
        if not is_usual(state):
            prefetch(state.links.lane, lane_of(state, behind, 0))
    else:
        prefetch(state.packets.fifo, -2 - held)


@bare_kernel
def _bring_for_arrival(state: State, entry: int) -> None:
    """Prefetch the records that a packet will touch where it arrives."""
    packet = state.packets.packet[event_of(entry)]
    came = link_of(packet.place)
    # The receipt is needed at the end of the way only (no hops left, or DELIVERED, which is one
    # less than none). Before that the first receipt is requested, which is in the cache already.
    at_end = packet.route + np.uint64(1) <= np.uint64(1)
    prefetch(state.packets.receipt, packet.message * np.int64(at_end))
    if is_usual(state):
        prefetch(state.links.link, came)
        prefetch(state.links.counter, came)
        lane = lane_of(state, packet.next >> 1, packet.next & 1)
        prefetch(state.packets.packet, state.links.lane[lane].tail)
        return
    if counts_arrivals(state):
        prefetch(state.links.counter, came)
    out = state.links.link[came].far * state.fields.shift.size + port_of(state, packet.route)
    prefetch(state.links.link, out)
    prefetch(state.links.lane, lane_of(state, out, 0))


@bare_kernel
def _bring_tails(state: State, p: int, came: int) -> None:
    """Prefetch the records that a packet will touch at the link that it takes."""
    first = state.links.link[came].far * state.fields.shift.size
    base = lane_of(state, first + port_of(state, state.packets.packet[p].route), 0)
    prefetch(state.packets.packet, state.links.lane[base].tail)
    prefetch(state.packets.packet, state.links.lane[base + inputs(state)].tail)


@bare_kernel
def is_armed(state: State, out: int) -> bool:
    """Return whether an event will look at a link."""
    if is_adaptive(state):
        rest = state.links.rest[out]
        bits = np.uint32(state.links.node[np.int64(rest.node)].armed)
        return bool(bits >> np.uint32(rest.rank) & np.uint32(1) != 0)
    return bool(state.links.link[out].armed != 0)


@bare_kernel
def arm(state: State, out: int, armed: int = 1) -> None:
    """Note that an event will look at a link, or with 0 that none will."""
    if is_adaptive(state):
        rest = state.links.rest[out]
        node = state.links.node[np.int64(rest.node)]
        bit = np.uint32(1) << np.uint32(rest.rank)
        node.armed = node.armed | bit if armed else node.armed & ~bit
    else:
        state.links.link[out].armed = armed


@bare_kernel
def others_wait(state: State, out: int) -> bool:
    """Return whether packets wait at a link's node that may choose it."""
    return is_adaptive(state) and state.links.node[np.int64(state.links.rest[out].node)].waiting > 0


@bare_kernel
def free_tick(server: Any) -> int:
    """Return the tick in which a link or a FIFO can begin its next packet.

    It begins at the part of the tick at which the last one ended, so that short packets lose no
    time.
    """
    tick: int = server.free_at >> PARTS
    return tick


@bare_kernel
def nearest_tick(parts: int) -> int:
    """Return the whole ticks nearest to a number of parts."""
    return (parts + (1 << (PARTS - 1))) >> PARTS


@bare_kernel
def put(state: State, tick: int, who: int) -> None:
    """Add an event at a tick; events of one tick come out in the order they went in."""
    order = state.events.clock[ORDER]
    state.events.clock[ORDER] = order + 1
    rows = state.events.task_queue.shape[0]
    length = state.events.clock[QUEUE_LENGTH]
    end = state.events.clock[QUEUE_FIRST] + length
    last = end - 1
    if length > 0 and state.events.task_queue[last - rows * (last >= rows), 0] > tick:
        _push(state, tick, order, who)
        return
    end -= rows * (end >= rows)
    state.events.task_queue[end, 0] = tick
    state.events.task_queue[end, 1] = order
    state.events.task_queue[end, 2] = who
    state.events.clock[QUEUE_LENGTH] = length + 1


@bare_kernel
def next_task_tick(state: State) -> int:
    """Return the tick of the earliest event; NONE if there is none."""
    tick = NONE
    if state.events.clock[QUEUE_LENGTH] > 0:
        tick = state.events.task_queue[state.events.clock[QUEUE_FIRST], 0]
    if state.events.clock[HEAP] > 0 and (tick == NONE or state.events.heap[0, 0] < tick):
        tick = state.events.heap[0, 0]
    return tick


@bare_kernel
def take(state: State) -> int:
    """Remove the earliest event, and return it."""
    first = state.events.clock[QUEUE_FIRST]
    queue, heap = state.events.task_queue, state.events.heap
    if state.events.clock[QUEUE_LENGTH] == 0 or (
        state.events.clock[HEAP] > 0
        and (
            heap[0, 0] < queue[first, 0]
            or (heap[0, 0] == queue[first, 0] and heap[0, 1] < queue[first, 1])
        )
    ):
        return _pop(state)
    state.events.clock[QUEUE_LENGTH] -= 1
    state.events.clock[QUEUE_FIRST] = first + 1 if first + 1 < queue.shape[0] else 0
    who: int = queue[first, 2]
    return who


@bare_kernel
def _push(state: State, tick: int, order: int, who: int) -> None:
    """Put an event into the heap."""
    heap = state.events.heap
    i = state.events.clock[HEAP]
    state.events.clock[HEAP] = i + 1
    while i > 0:
        above = (i - 1) >> 1
        if heap[above, 0] <= tick:
            break
        heap[i, 0] = heap[above, 0]
        heap[i, 1] = heap[above, 1]
        heap[i, 2] = heap[above, 2]
        i = above
    heap[i, 0] = tick
    heap[i, 1] = order
    heap[i, 2] = who


@bare_kernel
def _pop(state: State) -> int:
    """Remove the earliest event from the heap, and return it."""
    heap = state.events.heap
    who: int = heap[0, 2]
    size = state.events.clock[HEAP] - 1
    state.events.clock[HEAP] = size
    tick = heap[size, 0]
    order = heap[size, 1]
    last = heap[size, 2]
    i = 0
    while True:
        below = 2 * i + 1
        if below >= size:
            break
        if below + 1 < size and (
            heap[below + 1, 0] < heap[below, 0]
            or (heap[below + 1, 0] == heap[below, 0] and heap[below + 1, 1] < heap[below, 1])
        ):
            below += 1
        if tick < heap[below, 0] or (tick == heap[below, 0] and order < heap[below, 1]):
            break
        heap[i, 0] = heap[below, 0]
        heap[i, 1] = heap[below, 1]
        heap[i, 2] = heap[below, 2]
        i = below
    heap[i, 0] = tick
    heap[i, 1] = order
    heap[i, 2] = last
    return who


@bare_kernel
def join(state: State, p: int, node: int, came: int, entrance: int, now: int) -> int:
    """Put a packet last into a lane; return a link that may send now, or NONE.

    ``came`` is the port through which it goes on straight, ``entrance`` its input.
    """
    packet = state.packets.packet[p]
    out = NONE
    if is_adaptive(state) and (packet.place < 0 or channel_of(packet.place) == ADAPTIVE_CHANNEL):
        out = emptiest_link(state, node, ranks(state, zone_of(state, p)))
    if out != NONE:
        state.links.rest[out].queued += size_of(state, packet.wire)
        lane = FREE * inputs(state) + entrance
    elif is_usual(state):
        lane = int(packet.next)
        if packet.place < 0:
            lane = (node * state.fields.shift.size + port_of(state, packet.route)) << 1 | SECOND
        out = lane >> 1
        lane &= 1
    else:
        out = node * state.fields.shift.size + port_of(state, packet.route)
        lane = kind_of(state, p, out, came) * inputs(state) + entrance
    link = state.links.link[out]
    lanes = state.links.lane[lane_of(state, out, lane)]
    bit = np.uint64(1) << np.uint64(lane)
    is_first = (link.lanes & bit) == 0
    # No branch is needed: the first packet is briefly set behind itself.
    state.packets.packet[p if is_first else np.int64(lanes.tail)].next = p
    packet.next = NONE
    lanes.head = p if is_first else np.int64(lanes.head)
    lanes.since = packet.since if is_first else np.int64(lanes.since)
    lanes.tail = p
    link.lanes |= bit
    if is_adaptive(state):
        state.links.node[node].waiting += 1
        if is_first:
            state.events.clock[FIRSTS] = out << 6 | lane
        return out if is_first and free_tick(link) <= now else NONE
    if link.armed:
        return NONE
    if free_tick(link) <= now:
        return out
    link.armed = 1
    schedule(state, state.packets.packet.size + out, free_tick(link), out)
    return NONE


@bare_kernel
def take_out(state: State, holder: int, lane: int) -> int:
    """Take the first packet out of a lane."""
    lanes = state.links.lane[lane_of(state, holder, lane)]
    if is_adaptive(state):
        withdraw(state, seat(state, holder, lane))
    p = lanes.head
    packet = state.packets.packet[p]
    following = np.int64(packet.next)
    state.links.link[holder].lanes ^= np.uint64(following == NONE) << np.uint64(lane)
    lanes.head = p if following == NONE else following
    lanes.since = state.packets.packet[lanes.head].since
    if is_adaptive(state):
        state.events.clock[FIRSTS] = NONE if following == NONE else holder << 6 | lane
        if lane >= FREE * inputs(state):
            state.links.rest[holder].queued -= size_of(state, packet.wire)
        state.links.node[np.int64(state.links.rest[holder].node)].waiting -= 1
    return np.int64(p)
