"""Kernels of the lanes in which packets wait for a link: in turn, or by the tags of fair queueing.

A long message has many packets that wait for one link. In a fair queue a new packet belongs soon
after the last of them, so the search for its place starts there. From the front, long queues took
six times as long.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from toruscast._jit import bare_kernel

from .._state import ADAPTIVE_CHANNEL, FAIR, FIRSTS, FREE, NONE, SECOND, State
from .arbitration import emptiest_link, kind_of
from .buffer import channel_of, size_of
from .claim import ranks, seat, withdraw
from .event import free_tick, schedule
from .network import arbitration, inputs, is_adaptive, is_usual, lane_of, port_of, zone_of


@bare_kernel
def join(state: State, p: int, node: int, came: int, entrance: int, now: int) -> int:
    """Put a packet into a lane, last or by its tag; return a link that may send now, or NONE.

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
    if arbitration(state) == FAIR:
        stamp(state, p, out, int(lane == SECOND))
        if is_first:
            lanes.head = NONE
        line_up(state, lanes, p)
    else:
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


@bare_kernel
def stamp(state: State, p: int, out: int, kind: int) -> None:
    """Give a packet its start tag at a link: the later of clock and its last packet's end.

    The hops left and the sign identify the link, whichever way a packet goes at ties, because both
    ways end at the same node.
    """
    packet = state.packets.packet[p]
    m = np.int64(packet.message)
    left = np.int64(0)
    for port in range(state.fields.shift.size):
        field = np.uint64(port)
        left += np.int64((packet.route & state.fields.mask[field]) >> state.fields.shift[field])
    place = 2 * (state.fair.first[m] + left - 1) + np.int64(state.links.link[out].port) % 2
    tag = max(state.fair.clock[np.uint64(out)], state.fair.ended[np.uint64(place)])
    state.fair.ended[np.uint64(place)] = tag + state.fair.cost[m]
    state.fair.tag[np.uint64(p)] = tag
    state.fair.place[np.uint64(p)] = 2 * place + kind


@bare_kernel
def line_up(state: State, lane: Any, p: int) -> None:
    """Put a packet with its tag into a lane, behind packets with an equal or earlier tag."""
    tag = state.fair.tag
    place = np.uint64(state.fair.place[np.uint64(p)])
    before = np.int64(state.fair.last[place]) - 1
    state.fair.last[place] = p + 1
    if lane.head != NONE and tag[np.uint64(lane.tail)] <= tag[np.uint64(p)]:
        before = np.int64(lane.tail)
    following = (
        np.int64(lane.head) if before == NONE else np.int64(state.packets.packet[before].next)
    )
    while following != NONE and tag[np.uint64(following)] <= tag[np.uint64(p)]:
        before = following
        following = np.int64(state.packets.packet[following].next)
    state.packets.packet[p].next = following
    if before == NONE:
        lane.head = p
    else:
        state.packets.packet[before].next = p
    if following == NONE:
        lane.tail = p


@bare_kernel
def depart(state: State, p: int, out: int) -> None:
    """Advance a link's clock to the tag of the packet that it sends.

    The clock may be later already: a packet with an earlier tag may have had no room behind the
    link.
    """
    tag = state.fair.tag[np.uint64(p)]
    state.fair.clock[np.uint64(out)] = max(state.fair.clock[np.uint64(out)], tag)
    place = np.uint64(state.fair.place[np.uint64(p)])
    if state.fair.last[place] == p + 1:
        state.fair.last[place] = 0
