"""Kernels of events: the timing wheel, the queue of task events, and lanes of packets."""

from __future__ import annotations

from typing import Any

import numpy as np

from toruscast._jit import bare_kernel, trailing_zeros
from toruscast._llvm import prefetch

from ._link_kernels import (
    buffer_bytes,
    channel_of,
    choose_adaptive_lane,
    choose_lane,
    claim_index,
    clear_claims,
    counts_arrivals,
    emptiest_link,
    is_adaptive,
    is_default_network,
    lane_index,
    lane_kind,
    link_before,
    n_inputs,
    next_port,
    open_channels,
    port_ranks,
    zone_fields,
)
from .state import (
    ADAPTIVE_CHANNEL,
    CHUNK,
    FREE,
    HEAP_SIZE,
    LAST,
    N_FREE_CHUNKS,
    NEW_HEAD,
    NONE,
    ORDER,
    PARTS,
    QUEUE_FIRST,
    QUEUE_LENGTH,
    SECOND,
    State,
)

# An entry of the wheel is an event number, with a link to prefetch in the upper bits.
_LINK_SHIFT = 32
_EVENT_MASK = 2**_LINK_SHIFT - 1


@bare_kernel
def schedule(state: State, event: int, tick: int, link: int = 0) -> None:
    """Add an event at a tick within the range of the wheel; ``link`` is prefetched for it.

    Events of a tick are processed in the order in which they were added.
    """
    position = tick & (state.events.wheel.size - 1)
    slot = state.events.wheel[position]
    end = slot.end
    if (end & LAST) == LAST:
        n_free = state.events.clock[N_FREE_CHUNKS] - 1
        state.events.clock[N_FREE_CHUNKS] = n_free
        new_chunk = state.events.free_chunks[np.uint64(n_free)]
        if slot.first == NONE:
            slot.first = new_chunk
            bit = np.uint64(1) << np.uint64(position & 63)
            state.events.filled[np.uint64(position >> 6)] |= bit
        else:
            state.events.chunk[np.uint64(end)] = new_chunk
        end = new_chunk
    state.events.chunk[np.uint64(end)] = link << _LINK_SHIFT | event
    slot.end = end + 1


@bare_kernel
def next_tick(state: State, now: int) -> int:
    """Return the tick of the next event in the wheel, from ``now`` on, or NONE."""
    last_word = state.events.filled.size - 1
    word = (now >> 6) & last_word
    bits = state.events.filled[np.uint64(word)] >> np.uint64(now & 63)
    if bits != 0:
        return now + trailing_zeros(bits)
    ahead = 64 - (now & 63)
    for _ in range(last_word + 1):
        word = (word + 1) & last_word
        bits = state.events.filled[np.uint64(word)]
        if bits != 0:
            return now + ahead + trailing_zeros(bits)
        ahead += 64
    return NONE


@bare_kernel
def event_number(entry: int) -> int:
    return entry & _EVENT_MASK


@bare_kernel
def prefetch_chunk(state: State, i: int, end: int, now: int) -> None:
    """Prefetch the records that a chunk's events need, and the first records of the next chunk.

    An event reads about six records, scattered over tens of megabytes. Prefetching them together
    overlaps the waits. Without prefetching, a simulation of 16,384 tasks takes 1.5 times as
    long. A first pass prefetches the record of each event one chunk ahead, and a second pass
    prefetches the records that this record refers to. More passes, or branches on data that is not
    in the cache yet, cost more than they save. Events of one kind are processed together, because
    the CPU cannot predict their order. For each kind, the bits of a word mark its events.
    """
    n_packets = state.packets.packet.size
    n_links = state.links.link.size
    _prefetch_next_chunk(state, i, end, now)
    chunk_end = _chunk_end(i, end)
    arrival_bits = np.uint64(0)
    link_bits = np.uint64(0)
    for k in range(i, chunk_end):
        event = event_number(state.events.chunk[np.uint64(k)])
        bit = np.uint64(k & LAST)
        arrival_bits |= np.uint64(event < n_packets) << bit
        link_bits |= np.uint64(event < n_packets + n_links) << bit
    all_bits = ((np.uint64(1) << np.uint64(chunk_end - i)) - np.uint64(1)) << np.uint64(i & LAST)
    other_bits = all_bits ^ link_bits
    link_bits ^= arrival_bits
    begin = i & ~LAST
    bits = arrival_bits
    while bits != 0:
        _prefetch_arrival(state, state.events.chunk[np.uint64(begin + trailing_zeros(bits))])
        bits &= bits - np.uint64(1)
    bits = link_bits
    while bits != 0:
        k = trailing_zeros(bits)
        bits &= bits - np.uint64(1)
        out = state.events.chunk[np.uint64(begin + k)] >> _LINK_SHIFT
        if is_adaptive(state):
            lane = choose_adaptive_lane(state, out, open_channels(state, out))
            p = NONE if lane == NONE else np.int64(state.links.lane[lane].head)
        else:
            # If no lane can send, take the first: a branch for this case would be mispredicted.
            lane = max(choose_lane(state, out, open_channels(state, out)), 0)
            p = np.int64(state.links.lane[lane_index(state, out, lane)].head)
        prefetch(state.packets.packet, max(p, 0))
        state.events.prefetched[np.uint64(k)] = p
    while other_bits != 0:
        entry = state.events.chunk[np.uint64(begin + trailing_zeros(other_bits))]
        f = event_number(entry) - n_packets - n_links
        other_bits &= other_bits - np.uint64(1)
        if f < state.packets.fifo.size:
            prefetch(state.packets.message, state.packets.fifo[f].head)
    while link_bits != 0:
        p = np.int64(state.events.prefetched[np.uint64(trailing_zeros(link_bits))])
        link_bits &= link_bits - np.uint64(1)
        if p != NONE:
            prefetch(state.packets.packet, np.int64(state.packets.packet[p].next))
            _prefetch_holder(state, p)


@bare_kernel
def _chunk_end(i: int, end: int) -> int:
    """Return the end of the chunk that contains an index, or the end of the list if earlier."""
    return min(i | LAST, end) if (i ^ end) < CHUNK else i | LAST


@bare_kernel
def _prefetch_next_chunk(state: State, i: int, end: int, now: int) -> None:
    """Prefetch the links and packets of the next chunk, in this tick or a later one.

    ``i`` is an index in the current chunk, and ``end`` is the end of this tick's list.
    """
    if (i ^ end) >= CHUNK:
        i = state.events.chunk[np.uint64(i | LAST)]
    else:
        # Searching beyond this word would take longer than it saves.
        position = (now + 1) & (state.events.wheel.size - 1)
        bits = state.events.filled[np.uint64(position >> 6)] >> np.uint64(position & 63)
        if bits == 0:
            return
        slot = state.events.wheel[position + trailing_zeros(bits)]
        i = np.int64(slot.first)
        end = np.int64(slot.end)
    for k in range(i, _chunk_end(i, end)):
        entry = state.events.chunk[np.uint64(k)]
        event = event_number(entry)
        prefetch(state.links.link, entry >> _LINK_SHIFT)
        prefetch(state.packets.packet, event * np.int64(event < state.packets.packet.size))


@bare_kernel
def _prefetch_holder(state: State, p: int) -> None:
    """Prefetch the record of the buffer or FIFO that a packet frees when it leaves."""
    buffer = state.packets.packet[p].buffer
    if buffer >= 0:
        link = link_before(buffer)
        prefetch(state.links.link, link)
        prefetch(state.links.counter, link)
        if not is_default_network(state):
            prefetch(state.links.lane, lane_index(state, link, 0))
    else:
        prefetch(state.packets.fifo, -2 - buffer)


@bare_kernel
def _prefetch_arrival(state: State, entry: int) -> None:
    """Prefetch the records for the arrival of a packet; ``entry`` is an entry of the wheel."""
    packet = state.packets.packet[event_number(entry)]
    link = link_before(packet.buffer)
    # Only the last hop needs the receipt: its route is 0 (no hops left) or -1 (DELIVERED). To avoid
    # a branch, which is slower, other hops prefetch receipt 0, which is in the cache.
    is_last_hop = packet.route + np.uint64(1) <= np.uint64(1)
    prefetch(state.packets.receipt, packet.message * np.int64(is_last_hop))
    if is_default_network(state):
        prefetch(state.links.link, link)
        prefetch(state.links.counter, link)
        lane = lane_index(state, packet.next >> 1, packet.next & 1)
        prefetch(state.packets.packet, state.links.lane[lane].tail)
        return
    if counts_arrivals(state):
        prefetch(state.links.counter, link)
    out = state.links.link[link].far * state.fields.shift.size + next_port(state, packet.route)
    prefetch(state.links.link, out)
    prefetch(state.links.lane, lane_index(state, out, 0))


@bare_kernel
def is_armed(state: State, out: int) -> bool:
    """Return whether a link has a scheduled event."""
    if is_adaptive(state):
        extra = state.links.extra[out]
        bits = np.uint32(state.links.node[np.int64(extra.node)].armed)
        return bool(bits >> np.uint32(extra.rank) & np.uint32(1) != 0)
    return bool(state.links.link[out].armed != 0)


@bare_kernel
def set_armed(state: State, out: int, armed: int = 1) -> None:
    """Store whether a link has a scheduled event."""
    if is_adaptive(state):
        extra = state.links.extra[out]
        node = state.links.node[np.int64(extra.node)]
        bit = np.uint32(1) << np.uint32(extra.rank)
        node.armed = node.armed | bit if armed else node.armed & ~bit
    else:
        state.links.link[out].armed = armed


@bare_kernel
def has_waiting_packets(state: State, out: int) -> bool:
    """Return whether adaptive packets wait at the node of a link."""
    return (
        is_adaptive(state) and state.links.node[np.int64(state.links.extra[out].node)].waiting > 0
    )


@bare_kernel
def free_tick(server: Any) -> int:
    """Return the tick in which a link or a FIFO can begin its next packet."""
    tick: int = server.free_at >> PARTS
    return tick


@bare_kernel
def round_to_ticks(parts: int) -> int:
    """Round a time in parts of a tick to ticks."""
    return (parts + (1 << (PARTS - 1))) >> PARTS


@bare_kernel
def add_task_event(state: State, tick: int, item: int) -> None:
    """Add a worker's or a message's task event at a tick; events of one tick keep their order.

    Most events come in order of time and are appended to a queue. The others go to a heap.
    """
    clock, queue = state.events.clock, state.events.task_queue
    order = clock[ORDER]
    clock[ORDER] = order + 1
    end = clock[QUEUE_FIRST] + clock[QUEUE_LENGTH]
    last = end - 1
    if clock[QUEUE_LENGTH] > 0 and queue[last - queue.size * (last >= queue.size)].tick > tick:
        _heap_push(state, tick, order, item)
        return
    _set_task_event(queue[end - queue.size * (end >= queue.size)], tick, order, item)
    clock[QUEUE_LENGTH] += 1


@bare_kernel
def next_task_tick(state: State) -> int:
    """Return the tick of the next task event, or NONE."""
    clock, heap = state.events.clock, state.events.heap
    tick = NONE
    if clock[QUEUE_LENGTH] > 0:
        tick = state.events.task_queue[clock[QUEUE_FIRST]].tick
    if clock[HEAP_SIZE] > 0 and (tick == NONE or heap[0].tick < tick):
        tick = heap[0].tick
    return tick


@bare_kernel
def pop_task_event(state: State) -> int:
    """Remove the next task event, from the queue or the heap, and return its worker or message."""
    clock, queue, heap = state.events.clock, state.events.task_queue, state.events.heap
    first = clock[QUEUE_FIRST]
    if clock[QUEUE_LENGTH] == 0 or (clock[HEAP_SIZE] > 0 and _is_before(heap[0], queue[first])):
        return _heap_pop(state)
    clock[QUEUE_LENGTH] -= 1
    clock[QUEUE_FIRST] = first + 1 if first + 1 < queue.size else 0
    item: int = queue[first].item
    return item


@bare_kernel
def _set_task_event(event: Any, tick: int, order: int, item: int) -> None:
    event.tick = tick
    event.order = order
    event.item = item


@bare_kernel
def _is_before(event: Any, other: Any) -> bool:
    """Return whether a task event comes first: in an earlier tick, or added earlier to the tick."""
    return event.tick < other.tick or (event.tick == other.tick and event.order < other.order)


@bare_kernel
def _heap_push(state: State, tick: int, order: int, item: int) -> None:
    """Add a task event to the heap, after all events of its tick."""
    heap = state.events.heap
    i = state.events.clock[HEAP_SIZE]
    state.events.clock[HEAP_SIZE] = i + 1
    while i > 0 and heap[(i - 1) >> 1].tick > tick:
        heap[i] = heap[(i - 1) >> 1]
        i = (i - 1) >> 1
    _set_task_event(heap[i], tick, order, item)


@bare_kernel
def _heap_pop(state: State) -> int:
    """Remove the first task event of the heap, and return its worker or message."""
    heap = state.events.heap
    item: int = heap[0].item
    size = state.events.clock[HEAP_SIZE] - 1
    state.events.clock[HEAP_SIZE] = size
    # Put the last event at the root, and move earlier events up.
    i = 0
    while 2 * i + 1 < size:
        child = 2 * i + 1
        if child + 1 < size and _is_before(heap[child + 1], heap[child]):
            child += 1
        if _is_before(heap[size], heap[child]):
            break
        heap[i] = heap[child]
        i = child
    heap[i] = heap[size]
    return item


@bare_kernel
def enqueue_packet(
    state: State, p: int, node: int, straight_port: int, entry_port: int, now: int
) -> int:
    """Append a packet to a lane, and return a link that may send now, or NONE.

    ``straight_port`` is the port that continues in the packet's direction, and ``entry_port`` is
    the input through which the packet came.
    """
    packet = state.packets.packet[p]
    out = NONE
    if is_adaptive(state) and (packet.buffer < 0 or channel_of(packet.buffer) == ADAPTIVE_CHANNEL):
        out = emptiest_link(state, node, port_ranks(state, zone_fields(state, p)))
    if out != NONE:
        state.links.extra[out].queued += buffer_bytes(state, packet.wire)
        lane = FREE * n_inputs(state) + entry_port
    elif is_default_network(state):
        lane = int(packet.next)
        if packet.buffer < 0:
            lane = (node * state.fields.shift.size + next_port(state, packet.route)) << 1 | SECOND
        out = lane >> 1
        lane &= 1
    else:
        out = node * state.fields.shift.size + next_port(state, packet.route)
        lane = lane_kind(state, p, out, straight_port) * n_inputs(state) + entry_port
    link = state.links.link[out]
    queue = state.links.lane[lane_index(state, out, lane)]
    bit = np.uint64(1) << np.uint64(lane)
    is_first = (link.lanes & bit) == 0
    # To avoid a branch, a packet that is first in its lane temporarily follows itself.
    state.packets.packet[p if is_first else np.int64(queue.tail)].next = p
    packet.next = NONE
    queue.head = p if is_first else np.int64(queue.head)
    queue.since = packet.since if is_first else np.int64(queue.since)
    queue.tail = p
    link.lanes |= bit
    if is_adaptive(state):
        state.links.node[node].waiting += 1
        if is_first:
            state.events.clock[NEW_HEAD] = out << 6 | lane
        return out if is_first and free_tick(link) <= now else NONE
    if link.armed:
        return NONE
    if free_tick(link) <= now:
        return out
    link.armed = 1
    schedule(state, state.packets.packet.size + out, free_tick(link), out)
    return NONE


@bare_kernel
def dequeue_packet(state: State, holder: int, lane: int) -> int:
    """Remove the first packet of a lane, and return it."""
    queue = state.links.lane[lane_index(state, holder, lane)]
    if is_adaptive(state):
        clear_claims(state, claim_index(state, holder, lane))
    p = queue.head
    packet = state.packets.packet[p]
    next_packet = np.int64(packet.next)
    state.links.link[holder].lanes ^= np.uint64(next_packet == NONE) << np.uint64(lane)
    queue.head = p if next_packet == NONE else next_packet
    queue.since = state.packets.packet[queue.head].since
    if is_adaptive(state):
        state.events.clock[NEW_HEAD] = NONE if next_packet == NONE else holder << 6 | lane
        if lane >= FREE * n_inputs(state):
            state.links.extra[holder].queued -= buffer_bytes(state, packet.wire)
        state.links.node[np.int64(state.links.extra[holder].node)].waiting -= 1
    return np.int64(p)
