"""Kernel of the packet simulator: the event loop, arrivals and departures."""

from __future__ import annotations

import numpy as np

from toruscast._jit import bare_kernel, entry_kernel, trailing_zeros
from toruscast._llvm import point_to, prefetch

from ._event_kernels import (
    arm,
    bring,
    event_of,
    free_tick,
    is_armed,
    join,
    nearest_tick,
    next_task_tick,
    next_tick,
    others_wait,
    schedule,
    take,
    take_out,
)
from ._link_kernels import (
    arbitration,
    channel_of,
    choose,
    choose_adaptive,
    claim,
    count,
    counts_arrivals,
    enters_as,
    inputs,
    is_adaptive,
    is_usual,
    kind_of,
    lane_of,
    link_of,
    node_of,
    open_channels,
    port_of,
    ranks,
    room,
    seat,
    second_channel,
    size_of,
    take_room,
    zone_of,
)
from ._node_kernels import begin_round, feed, hand_over, leave_fifo, message_arrived, take_in
from .state import (
    ADAPTIVE_CHANNEL,
    CHANNEL_BITS,
    CHUNK,
    CHUNKS,
    DELIVERED,
    FIRST,
    FIRSTS,
    FREE,
    HELD,
    HOPS,
    KINDS,
    NONE,
    NOW,
    PARTS,
    ROUND_ROBIN,
    SECOND,
    State,
)


@bare_kernel
def announce(state: State, now: int) -> None:
    """Claim every link that a lane's first packet may take; a free link looks at its claims."""
    holder = state.events.clock[FIRSTS] >> 6
    lane = state.events.clock[FIRSTS] & 63
    link = state.links.link[holder]
    first = holder - np.int64(link.port)
    head = np.int64(state.links.lane[lane_of(state, holder, lane)].head)
    packet = state.packets.packet[head]
    # Links send it out of turn: what that touches then is asked for now.
    prefetch(state.packets.packet, np.int64(packet.next))
    ordered = first + port_of(state, packet.route)
    rank = np.int64(state.links.rest[ordered].rank)
    came = NONE
    stays = False
    if packet.place >= 0:
        behind = link_of(packet.place)
        prefetch(state.links.counter, behind)
        came = np.int64(state.links.link[behind].port)
        stays = state.rules.stays and channel_of(packet.place) != ADAPTIVE_CHANNEL
    ways = ranks(state, zone_of(state, head))
    kind = kind_of(state, head, ordered, came)
    claim(state, seat(state, holder, lane), np.uint64(0) if stays else ways, rank, kind)
    ways |= np.uint64(1) << np.uint64(rank)
    node = state.links.node[np.int64(state.links.rest[holder].node)]
    ways &= ~np.uint64(node.armed)
    while ways != 0:
        way = np.uint64(trailing_zeros(ways))
        ways &= ways - np.uint64(1)
        out = first + state.fields.ports[way]
        link = state.links.link[out]
        # A free link without room looks again when it gets some.
        if (
            free_tick(link) > now
            or out == ordered
            or room(state, out, ADAPTIVE_CHANNEL) >= state.rules.largest
        ):
            arm(state, out)
            schedule(state, state.packets.packet.size + out, max(now, free_tick(link)), out)


@bare_kernel
def serve(state: State, out: int, now: int) -> int:
    """Put the next packet on a free link; return the link behind which it made room, or NONE.

    If a packet gives way, the link stays free and is itself returned.
    """
    link = state.links.link[out]
    free = open_channels(state, out)
    taken = out
    if is_adaptive(state):
        lane = choose_adaptive(state, out, free)
        if lane == NONE:
            return NONE
        taken = lane // (KINDS * inputs(state))
        lane -= taken * KINDS * inputs(state)
        kind = enters_as(state, seat(state, taken, lane), out, free)
    else:
        lane = choose(state, out, free)
        if lane == NONE:
            return NONE
        kind = SECOND if lane >= inputs(state) else FIRST
    if state.packets.turns_left.size > 0 and _gives_way(state, taken, lane):
        _go_behind(state, take_out(state, taken, lane), now)
        return out
    p = take_out(state, taken, lane)
    packet = state.packets.packet[p]
    channel = 0
    if kind != FIRST:
        channel = ADAPTIVE_CHANNEL if kind == FREE else second_channel(state, out)
    if arbitration(state) == ROUND_ROBIN:
        entrance = lane % inputs(state)
        state.links.rest[out].turn = entrance + 1 if entrance + 1 < inputs(state) else 0
    size = size_of(state, packet.wire)
    place = (out << CHANNEL_BITS) | channel
    take_room(state, place, size)
    # A packet from a slower link cannot go on faster than it comes.
    port = np.uint64(link.port)
    by_link = state.rules.parts_per_byte.size > state.fields.shift.size
    rate = state.rules.parts_per_byte[np.uint64(out) if by_link else port]
    link.free_at = max(
        max(link.free_at, now << PARTS) + np.int64(packet.wire * rate + 0.5),
        (now + np.int64(np.int32(packet.tail - now))) << PARTS,
    )
    ticks = free_tick(link) - now
    if not is_armed(state, out) and (link.lanes != 0 or others_wait(state, out)):
        arm(state, out)
        schedule(state, state.packets.packet.size + out, now + ticks, out)
    held = packet.place
    upstream = NONE
    waited = np.int64(np.int32(now - packet.since))
    if held >= 0:
        upstream = leave(state, held, packet.wire, waited, now)
    else:
        leave_fifo(state, -2 - held, waited, now)
    route = packet.route - (np.uint64(1) << state.fields.shift[port])
    if is_adaptive(state):
        # A tie is decided here.
        route &= ~state.fields.mask[port ^ np.uint64(1)]
    packet.route = route
    packet.place = place
    following = out
    if is_usual(state):
        onward = port_of(state, route)
        following = link.far * state.fields.shift.size + onward
        packet.next = following << 1 | (SECOND - np.int64(onward == link.port))
    packet.tail = state.rules.latency + nearest_tick(link.free_at)
    # A router forwards a packet when its head has arrived.
    schedule(state, p, now + state.rules.latency, following)
    return upstream


@bare_kernel
def _gives_way(state: State, holder: int, lane: int) -> bool:
    """Return whether the chosen first packet of a lane lets others go before it."""
    p = state.links.lane[lane_of(state, holder, lane)].head
    packet = state.packets.packet[p]
    if packet.place >= 0 or state.packets.turns_left[np.uint64(-2 - packet.place)] <= 1:
        return False
    alone = state.links.link[holder].lanes == np.uint64(1) << np.uint64(lane)
    return packet.next != NONE or not alone


@bare_kernel
def _go_behind(state: State, p: int, now: int) -> None:
    """Let a packet of a FIFO ask again, as the next packet of the FIFO would."""
    if is_adaptive(state) and state.events.clock[FIRSTS] != NONE:
        announce(state, now)
        state.events.clock[FIRSTS] = NONE
    packet = state.packets.packet[p]
    f = -2 - np.int64(packet.place)
    state.packets.turns_left[np.uint64(f)] -= 1
    state.packets.fifo[f].waited += np.int64(np.int32(now - packet.since))
    packet.since = now
    # This link is looked at again by the caller; `announce` wakes other links that may send now.
    join(state, p, node_of(state, f), NONE, 0, now)


@bare_kernel
def leave(state: State, held: int, wire: float, waited: int, now: int) -> int:
    """Free the place of a packet that begins to leave; return its link if that may send now."""
    take_room(state, held, -size_of(state, wire))
    behind = link_of(held)
    link = state.links.link[behind]
    counter = state.links.counter[behind]
    counter.waited += waited
    if not counts_arrivals(state):
        count(counter, link.occupied, wire)
    link.occupied -= 1
    # Both conditions in one branch, because a processor predicts one branch better than two.
    if is_armed(state, behind) | (free_tick(link) > now):
        return NONE
    return behind if link.lanes != 0 or others_wait(state, behind) else NONE


@bare_kernel
def arrive(state: State, p: int, now: int) -> None:
    """Take a packet into the buffer behind its link."""
    packet = state.packets.packet[p]
    if packet.route == DELIVERED:
        return
    came = link_of(packet.place)
    link = state.links.link[came]
    link.occupied += 1
    if counts_arrivals(state):
        count(state.links.counter[came], link.occupied, packet.wire)
    packet.since = now


@bare_kernel
def proceed(state: State, p: int, now: int) -> int:
    """Let a packet ask for its next link or port; return a link that may send now, or NONE."""
    packet = state.packets.packet[p]
    ports = state.fields.shift.size
    held = packet.place
    entrance = 0
    if held >= 0:
        behind = state.links.link[link_of(held)]
        node = np.int64(behind.far)
        came = np.int64(behind.port)
        if packet.route == 0 or packet.route == DELIVERED:
            return _deliver(state, p, node, now)
        if inputs(state) > 1:
            entrance = came
    else:
        f = -2 - held
        node = node_of(state, f)
        came = NONE
        packet.since = now
        if inputs(state) > 1:
            entrance = ports + (f - node * state.rules.fifos) % (inputs(state) - ports)
    return join(state, p, node, came, entrance, now)


@bare_kernel
def _deliver(state: State, p: int, node: int, now: int) -> int:
    """Give a packet to the reception port that is free first; return a link that may send now."""
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
        state.links.counter[link_of(packet.place)].waited += start - np.int64(
            now + np.int64(np.int32(packet.since - now))
        )
        packet.since = start
        packet.route = DELIVERED
    wait = np.int64(np.int32(packet.since - now))
    if wait > 0:
        # This may be more than a turn of the wheel.
        schedule(state, p, now + min(wait, state.events.wheel.size - 1), link_of(packet.place))
        return NONE
    take_in(state, p, now)
    return leave(state, packet.place, packet.wire, 0, now)


_LAST = CHUNK - 1


@entry_kernel
def start(all_arrays: State) -> None:
    """Begin every task's first round."""
    state: State = point_to(all_arrays)
    for task in range(state.tasks.current.size):
        begin_round(state, task, state.events.clock[NOW])


@entry_kernel
def run(all_arrays: State, until: int, budget: int) -> int:
    """Run until a tick, or for some packet-hops; return whether any event is left.

    ``HELD`` of the clock becomes the tick of the next event if that is later, else 0.
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
        of_tasks = next_task_tick(state)
        if of_tasks != NONE and (tick == NONE or of_tasks < tick):
            tick = of_tasks
        if tick == NONE or tick > until:
            break
        now = tick
        while next_task_tick(state) == now:
            who = take(state)
            n_workers = state.tasks.worker.shape[0]
            if who >= n_workers:
                schedule(state, n_packets + n_links + n_fifos + who - n_workers, now)
            else:
                hand_over(state, who, now)
        slot = state.events.wheel[now & (state.events.wheel.size - 1)]
        i = np.int64(slot.first)
        if i == NONE:
            continue
        # Events of this tick may add others to it.
        while i != slot.end:
            if (i & _LAST) == _LAST:
                state.events.spare[np.uint64(state.events.clock[CHUNKS])] = i - _LAST
                state.events.clock[CHUNKS] += 1
                i = state.events.chunk[np.uint64(i)]
            if (i & _LAST) == 0:
                bring(state, i, np.int64(slot.end), now)
            event = event_of(state.events.chunk[np.uint64(i)])
            i += 1
            p = NONE
            out = NONE
            if event < n_packets:
                hops += state.packets.packet[event].route != DELIVERED
                p = event
                arrive(state, p, now)
            elif event < n_packets + n_links:
                out = event - n_packets
                link = state.links.link[out]
                if free_tick(link) <= now:
                    arm(state, out, 0)
                else:
                    # It was served in the meantime.
                    schedule(state, event, free_tick(link), out)
                    out = NONE
            elif event < n_packets + n_links + n_fifos:
                p = feed(state, event - n_packets - n_links, now)
            else:
                message_arrived(state, event - n_packets - n_links - n_fifos, now)
            if p != NONE:
                out = proceed(state, p, now)
            while out != NONE or (is_adaptive(state) and state.events.clock[FIRSTS] != NONE):
                if is_adaptive(state) and state.events.clock[FIRSTS] != NONE:
                    announce(state, now)
                    state.events.clock[FIRSTS] = NONE
                if out != NONE:
                    out = serve(state, out, now)
        state.events.spare[np.uint64(state.events.clock[CHUNKS])] = (i - 1) & ~_LAST
        state.events.clock[CHUNKS] += 1
        slot.first = NONE
        slot.end = _LAST
        word = np.uint64((now >> 6) & (state.events.filled.size - 1))
        state.events.filled[word] &= ~(np.uint64(1) << np.uint64(now & 63))
    state.events.clock[NOW] = now
    state.events.clock[HOPS] += hops
    state.events.clock[HELD] = tick if tick > until else 0
    return int(tick != NONE)
