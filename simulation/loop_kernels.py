"""Event loop of the packet simulator: arrivals and departures of packets."""

from __future__ import annotations

import numpy as np

from toruscast._jit import bare_kernel, entry_kernel, trailing_zeros
from toruscast._llvm import point_to, prefetch

from ._event_kernels import (
    dequeue_packet,
    enqueue_packet,
    event_number,
    free_tick,
    has_waiting_packets,
    is_armed,
    next_task_tick,
    next_tick,
    pop_task_event,
    prefetch_chunk,
    round_to_ticks,
    schedule,
    set_armed,
)
from ._link_kernels import (
    arbitration,
    buffer_bytes,
    channel_of,
    choose_adaptive_lane,
    choose_lane,
    claim_index,
    count_packet,
    counts_arrivals,
    entry_kind,
    free_bytes,
    is_adaptive,
    is_default_network,
    lane_index,
    lane_kind,
    link_before,
    n_inputs,
    next_port,
    node_of_fifo,
    open_channels,
    port_ranks,
    reserve_bytes,
    second_channel,
    set_claims,
    zone_fields,
)
from ._node_kernels import (
    hand_over_message,
    handle_arrival,
    inject_packet,
    queue_round,
    receive_packet,
    release_fifo,
)
from .state import (
    ADAPTIVE_CHANNEL,
    CHANNEL_BITS,
    DELIVERED,
    FIRST,
    FREE,
    HOPS,
    KINDS,
    LAST,
    N_FREE_CHUNKS,
    NEW_HEAD,
    NEXT_EVENT,
    NONE,
    NOW,
    PARTS,
    ROUND_ROBIN,
    SECOND,
    State,
)


@bare_kernel
def claim_links(state: State, now: int) -> None:
    """Claim every link that a lane's new first packet may take, and wake the free links.

    The clock's `NEW_HEAD` gives the lane and its link. Waking a link schedules an event for it.
    """
    holder = state.events.clock[NEW_HEAD] >> 6
    lane = state.events.clock[NEW_HEAD] & 63
    link = state.links.link[holder]
    first = holder - np.int64(link.port)
    head = np.int64(state.links.lane[lane_index(state, holder, lane)].head)
    packet = state.packets.packet[head]
    # Other links may send this packet, so prefetch its records.
    prefetch(state.packets.packet, np.int64(packet.next))
    ordered = first + next_port(state, packet.route)
    rank = np.int64(state.links.extra[ordered].rank)
    straight_port = NONE
    stays = False
    if packet.buffer >= 0:
        previous_link = link_before(packet.buffer)
        prefetch(state.links.counter, previous_link)
        straight_port = np.int64(state.links.link[previous_link].port)
        stays = state.rules.stays and channel_of(packet.buffer) != ADAPTIVE_CHANNEL
    ranks_left = port_ranks(state, zone_fields(state, head))
    kind = lane_kind(state, head, ordered, straight_port)
    adaptive_ranks = np.uint64(0) if stays else ranks_left
    set_claims(state, claim_index(state, holder, lane), adaptive_ranks, rank, kind)
    ranks_left |= np.uint64(1) << np.uint64(rank)
    node = state.links.node[np.int64(state.links.extra[holder].node)]
    ranks_left &= ~np.uint64(node.armed)
    while ranks_left != 0:
        rank_bit = np.uint64(trailing_zeros(ranks_left))
        ranks_left &= ranks_left - np.uint64(1)
        out = first + state.fields.ports[rank_bit]
        link = state.links.link[out]
        # A link whose buffer is full is woken when bytes become free.
        if (
            free_tick(link) > now
            or out == ordered
            or free_bytes(state, out, ADAPTIVE_CHANNEL) >= state.rules.largest
        ):
            set_armed(state, out)
            schedule(state, state.packets.packet.size + out, max(now, free_tick(link)), out)


@bare_kernel
def send_packet(state: State, out: int, now: int) -> int:
    """Send the next packet over a free link; return a link that may send because of it, or NONE.

    If the packet yields its turn, the link itself stays free and is returned.
    """
    link = state.links.link[out]
    free = open_channels(state, out)
    holder = out
    if is_adaptive(state):
        lane = choose_adaptive_lane(state, out, free)
        if lane == NONE:
            return NONE
        holder = lane // (KINDS * n_inputs(state))
        lane -= holder * KINDS * n_inputs(state)
        kind = entry_kind(state, claim_index(state, holder, lane), out, free)
    else:
        lane = choose_lane(state, out, free)
        if lane == NONE:
            return NONE
        kind = SECOND if lane >= n_inputs(state) else FIRST
    if state.packets.turns_left.size > 0 and _yields_turn(state, holder, lane):
        _requeue_packet(state, dequeue_packet(state, holder, lane), now)
        return out
    p = dequeue_packet(state, holder, lane)
    packet = state.packets.packet[p]
    channel = 0
    if kind != FIRST:
        channel = ADAPTIVE_CHANNEL if kind == FREE else second_channel(state, out)
    if arbitration(state) == ROUND_ROBIN:
        entry_port = lane % n_inputs(state)
        state.links.extra[out].turn = entry_port + 1 if entry_port + 1 < n_inputs(state) else 0
    size = buffer_bytes(state, packet.wire)
    buffer = (out << CHANNEL_BITS) | channel
    reserve_bytes(state, buffer, size)
    # A packet from a slower link cannot leave faster than it arrives.
    port = np.uint64(link.port)
    by_link = state.rules.parts_per_byte.size > state.fields.shift.size
    rate = state.rules.parts_per_byte[np.uint64(out) if by_link else port]
    link.free_at = max(
        max(link.free_at, now << PARTS) + np.int64(packet.wire * rate + 0.5),
        (now + np.int64(np.int32(packet.tail - now))) << PARTS,
    )
    ticks = free_tick(link) - now
    if not is_armed(state, out) and (link.lanes != 0 or has_waiting_packets(state, out)):
        set_armed(state, out)
        schedule(state, state.packets.packet.size + out, now + ticks, out)
    previous_buffer = packet.buffer
    freed_link = NONE
    wait = np.int64(np.int32(now - packet.since))
    if previous_buffer >= 0:
        freed_link = release_buffer(state, previous_buffer, packet.wire, wait, now)
    else:
        release_fifo(state, -2 - previous_buffer, wait, now)
    route = packet.route - (np.uint64(1) << state.fields.shift[port])
    if is_adaptive(state):
        # At a tie, the link that the packet takes decides the direction.
        route &= ~state.fields.mask[port ^ np.uint64(1)]
    packet.route = route
    packet.buffer = buffer
    next_link = out
    if is_default_network(state):
        out_port = next_port(state, route)
        next_link = link.far * state.fields.shift.size + out_port
        packet.next = next_link << 1 | (SECOND - np.int64(out_port == link.port))
    packet.tail = state.rules.latency + round_to_ticks(link.free_at)
    # A router forwards a packet when its head has arrived.
    schedule(state, p, now + state.rules.latency, next_link)
    return freed_link


@bare_kernel
def _yields_turn(state: State, holder: int, lane: int) -> bool:
    """Return whether the first packet of a lane comes from a FIFO and yields its turn to others."""
    p = state.links.lane[lane_index(state, holder, lane)].head
    packet = state.packets.packet[p]
    if packet.buffer >= 0 or state.packets.turns_left[np.uint64(-2 - packet.buffer)] <= 1:
        return False
    is_only_lane = state.links.link[holder].lanes == np.uint64(1) << np.uint64(lane)
    return packet.next != NONE or not is_only_lane


@bare_kernel
def _requeue_packet(state: State, p: int, now: int) -> None:
    """Put a packet that yielded its turn back in a lane, as if it had just left its FIFO."""
    if is_adaptive(state) and state.events.clock[NEW_HEAD] != NONE:
        claim_links(state, now)
        state.events.clock[NEW_HEAD] = NONE
    packet = state.packets.packet[p]
    f = -2 - np.int64(packet.buffer)
    state.packets.turns_left[np.uint64(f)] -= 1
    state.packets.fifo[f].waited += np.int64(np.int32(now - packet.since))
    packet.since = now
    # The caller serves this link again, and `claim_links` wakes other links.
    enqueue_packet(state, p, node_of_fifo(state, f), NONE, 0, now)


@bare_kernel
def release_buffer(state: State, buffer: int, wire: float, wait: int, now: int) -> int:
    """Free a leaving packet's buffer space; return the buffer's link if it may send, or NONE."""
    reserve_bytes(state, buffer, -buffer_bytes(state, wire))
    link_number = link_before(buffer)
    link = state.links.link[link_number]
    counter = state.links.counter[link_number]
    counter.waited += wait
    if not counts_arrivals(state):
        count_packet(counter, link.occupied, wire)
    link.occupied -= 1
    # The CPU predicts one branch for both conditions better than two branches.
    if is_armed(state, link_number) | (free_tick(link) > now):
        return NONE
    return link_number if link.lanes != 0 or has_waiting_packets(state, link_number) else NONE


@bare_kernel
def enter_buffer(state: State, p: int, now: int) -> None:
    """Add a packet to the buffer after the link that it has crossed."""
    packet = state.packets.packet[p]
    if packet.route == DELIVERED:
        return
    link_number = link_before(packet.buffer)
    link = state.links.link[link_number]
    link.occupied += 1
    if counts_arrivals(state):
        count_packet(state.links.counter[link_number], link.occupied, packet.wire)
    packet.since = now


@bare_kernel
def request_link(state: State, p: int, now: int) -> int:
    """Queue a packet for its next link, or for a reception port if no hops are left.

    Return a link that may send now, or NONE.
    """
    packet = state.packets.packet[p]
    ports = state.fields.shift.size
    buffer = packet.buffer
    entry_port = 0
    if buffer >= 0:
        link = state.links.link[link_before(buffer)]
        node = np.int64(link.far)
        straight_port = np.int64(link.port)
        if packet.route == 0 or packet.route == DELIVERED:
            return _deliver_packet(state, p, node, now)
        if n_inputs(state) > 1:
            entry_port = straight_port
    else:
        f = -2 - buffer
        node = node_of_fifo(state, f)
        straight_port = NONE
        packet.since = now
        if n_inputs(state) > 1:
            entry_port = ports + (f - node * state.rules.fifos) % (n_inputs(state) - ports)
    return enqueue_packet(state, p, node, straight_port, entry_port, now)


@bare_kernel
def _deliver_packet(state: State, p: int, node: int, now: int) -> int:
    """Deliver a packet to the first free reception port; return a link that may send, or NONE.

    The first call reserves the port from the time ``packet.since`` on; later calls wait until then.
    Ports count time in parts (a tick has 2**PARTS), because reception may take less than a tick.
    """
    packet = state.packets.packet[p]
    if packet.route == 0:
        best = node * state.rules.reception_ports
        for i in range(best + 1, best + state.rules.reception_ports):
            if state.links.port[np.uint64(i)] < state.links.port[np.uint64(best)]:
                best = i
        begin = max(now << PARTS, state.links.port[np.uint64(best)])
        state.links.port[np.uint64(best)] = begin + np.int64(
            packet.wire * state.rules.reception + 0.5
        )
        start = begin >> PARTS
        state.links.counter[link_before(packet.buffer)].waited += start - np.int64(
            now + np.int64(np.int32(packet.since - now))
        )
        packet.since = start
        packet.route = DELIVERED
    wait = np.int64(np.int32(packet.since - now))
    if wait > 0:
        # The wait may exceed the range of the wheel.
        schedule(state, p, now + min(wait, state.events.wheel.size - 1), link_before(packet.buffer))
        return NONE
    receive_packet(state, p, now)
    return release_buffer(state, packet.buffer, packet.wire, 0, now)


@entry_kernel
def start(all_arrays: State) -> None:
    """Begin every task's first round."""
    state: State = point_to(all_arrays)
    for task in range(state.tasks.current.size):
        queue_round(state, task, state.events.clock[NOW])


@entry_kernel
def run(all_arrays: State, until: int, budget: int) -> int:
    """Run until tick ``until`` or for ``budget`` packet-hops; return whether any event is left.

    Set the clock's `NEXT_EVENT` to the tick of the next event if it is later than ``until``, else
    to 0.
    """
    state: State = point_to(all_arrays)
    n_packets = state.packets.packet.size
    n_links = state.links.link.size
    n_fifos = state.packets.fifo.size
    now = state.events.clock[NOW]
    hops = 0
    tick = now
    while hops < budget:
        tick = next_tick(state, now)
        task_tick = next_task_tick(state)
        if task_tick != NONE and (tick == NONE or task_tick < tick):
            tick = task_tick
        if tick == NONE or tick > until:
            break
        now = tick
        while next_task_tick(state) == now:
            item = pop_task_event(state)
            n_workers = state.tasks.worker.shape[0]
            if item >= n_workers:
                schedule(state, n_packets + n_links + n_fifos + item - n_workers, now)
            else:
                hand_over_message(state, item, now)
        slot = state.events.wheel[now & (state.events.wheel.size - 1)]
        i = np.int64(slot.first)
        if i == NONE:
            continue
        # Events of this tick may add further events to it.
        while i != slot.end:
            if (i & LAST) == LAST:
                state.events.free_chunks[np.uint64(state.events.clock[N_FREE_CHUNKS])] = i - LAST
                state.events.clock[N_FREE_CHUNKS] += 1
                i = state.events.chunk[np.uint64(i)]
            if (i & LAST) == 0:
                prefetch_chunk(state, i, np.int64(slot.end), now)
            event = event_number(state.events.chunk[np.uint64(i)])
            i += 1
            p = NONE
            out = NONE
            if event < n_packets:
                hops += state.packets.packet[event].route != DELIVERED
                p = event
                enter_buffer(state, p, now)
            elif event < n_packets + n_links:
                out = event - n_packets
                link = state.links.link[out]
                if free_tick(link) <= now:
                    set_armed(state, out, 0)
                else:
                    # The link has sent another packet in the meantime.
                    schedule(state, event, free_tick(link), out)
                    out = NONE
            elif event < n_packets + n_links + n_fifos:
                p = inject_packet(state, event - n_packets - n_links, now)
            else:
                handle_arrival(state, event - n_packets - n_links - n_fifos, now)
            if p != NONE:
                out = request_link(state, p, now)
            while out != NONE or (is_adaptive(state) and state.events.clock[NEW_HEAD] != NONE):
                if is_adaptive(state) and state.events.clock[NEW_HEAD] != NONE:
                    claim_links(state, now)
                    state.events.clock[NEW_HEAD] = NONE
                if out != NONE:
                    out = send_packet(state, out, now)
        state.events.free_chunks[np.uint64(state.events.clock[N_FREE_CHUNKS])] = (i - 1) & ~LAST
        state.events.clock[N_FREE_CHUNKS] += 1
        slot.first = NONE
        slot.end = LAST
        word = np.uint64((now >> 6) & (state.events.filled.size - 1))
        state.events.filled[word] &= ~(np.uint64(1) << np.uint64(now & 63))
    state.events.clock[NOW] = now
    state.events.clock[HOPS] += hops
    state.events.clock[NEXT_EVENT] = tick if tick > until else 0
    return int(tick != NONE)
