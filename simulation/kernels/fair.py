"""Kernels of fair queueing: packets wait for a link in the order of their start tags.

Of a message that sends much, many packets wait for one link. A new one comes soon behind the last
of them, so that is where its place is looked for: from the front, long queues took six times as
long.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from toruscast._jit import at, bare_kernel

from .._state import NONE, State


@bare_kernel
def stamp(state: State, p: int, out: int, kind: int) -> None:
    """Give a packet its start tag at a link: where the link is, or its message's last one ended.

    The hops left and the sign tell the link, whichever way a packet goes at ties: both ways end at
    the same node.
    """
    packet = at(state.packet, p)
    m = np.int64(packet.message)
    left = np.int64(0)
    for port in range(state.fields.shift.size):
        field = np.uint64(port)
        left += np.int64((packet.route & state.fields.mask[field]) >> state.fields.shift[field])
    place = 2 * (state.fair.first[m] + left - 1) + np.int64(at(state.link, out).port) % 2
    tag = max(state.fair.clock[np.uint64(out)], state.fair.ended[np.uint64(place)])
    state.fair.ended[np.uint64(place)] = tag + state.fair.cost[m]
    state.fair.tag[np.uint64(p)] = tag
    state.fair.place[np.uint64(p)] = 2 * place + kind


@bare_kernel
def line_up(state: State, lane: Any, p: int) -> None:
    """Put a packet that has its tag into a lane, behind those with no later tag."""
    tag = state.fair.tag
    place = np.uint64(state.fair.place[np.uint64(p)])
    before = np.int64(state.fair.last[place]) - 1
    state.fair.last[place] = p + 1
    if lane.head != NONE and tag[np.uint64(lane.tail)] <= tag[np.uint64(p)]:
        before = np.int64(lane.tail)
    following = np.int64(lane.head) if before == NONE else np.int64(at(state.packet, before).next)
    while following != NONE and tag[np.uint64(following)] <= tag[np.uint64(p)]:
        before = following
        following = np.int64(at(state.packet, following).next)
    at(state.packet, p).next = following
    if before == NONE:
        lane.head = p
    else:
        at(state.packet, before).next = p
    if following == NONE:
        lane.tail = p


@bare_kernel
def depart(state: State, p: int, out: int) -> None:
    """Let a link's clock go on to the tag of the packet that it sends.

    It may be there already: a packet of an earlier tag that had no room behind the link goes later.
    """
    tag = state.fair.tag[np.uint64(p)]
    state.fair.clock[np.uint64(out)] = max(state.fair.clock[np.uint64(out)], tag)
    place = np.uint64(state.fair.place[np.uint64(p)])
    if state.fair.last[place] == p + 1:
        state.fair.last[place] = 0
