"""Kernels of arrivals: a packet enters a buffer, asks for its next link, or is delivered."""

from __future__ import annotations

import numpy as np

from toruscast._jit import bare_kernel

from .._state import DELIVERED, NONE, PARTS, State
from .buffer import count, link_of
from .departure import leave
from .event import schedule
from .lane import join
from .network import counts_arrivals, inputs, node_of
from .node import take_in


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
