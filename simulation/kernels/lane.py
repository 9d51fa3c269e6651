"""Kernels of the lanes in which packets wait for a link."""

from __future__ import annotations

import numpy as np

from toruscast._jit import bare_kernel

from .._state import ADAPTIVE_CHANNEL, FIRSTS, FREE, NONE, SECOND, State
from .arbitration import emptiest_link, kind_of
from .buffer import channel_of, size_of
from .claim import ranks, seat, withdraw
from .event import free_tick, schedule
from .network import inputs, is_adaptive, is_usual, lane_of, port_of, zone_of


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
    return np.int64(p)  # type: ignore[return-value]
