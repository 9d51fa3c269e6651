"""Kernels of departures: a free link takes the next packet, whose place becomes free."""

from __future__ import annotations

import numpy as np

from toruscast._jit import bare_kernel, trailing_zeros
from toruscast._llvm import prefetch

from .._state import (
    ADAPTIVE_CHANNEL,
    CHANNEL_BITS,
    FIRST,
    FIRSTS,
    FREE,
    KINDS,
    NONE,
    PARTS,
    ROUND_ROBIN,
    SECOND,
    State,
)
from .arbitration import choose, choose_adaptive, kind_of, open_channels
from .buffer import channel_of, count, link_of, room, size_of, take_room
from .claim import claim, enters_as, ranks, seat
from .event import arm, free_tick, is_armed, nearest_tick, others_wait, schedule
from .lane import join, take_out
from .network import (
    arbitration,
    counts_arrivals,
    inputs,
    is_adaptive,
    is_usual,
    lane_of,
    node_of,
    port_of,
    second_channel,
    zone_of,
)
from .node import leave_fifo


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
    """Return whether the chosen first packet of a lane lets others go before it.

    A FIFO has one packet among the many that wait for a link. If it represents several real
    packets, each of these would have waited for all the others.
    """
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
