"""Kernels of the buffers behind links: places, and the bytes that packets take and give back."""

from __future__ import annotations

from typing import Any

import numpy as np

from toruscast._jit import bare_kernel

from .._state import CHANNEL_BITS, State
from .network import has_queues, is_usual


@bare_kernel
def size_of(state: State, wire: float) -> int:
    """Return the bytes of a buffer that a packet takes; an empty packet takes one byte.

    The bubble rule counts whole places: in bytes, a bubble could break into pieces too small for
    any packet.
    """
    if state.rules.whole_places:
        return state.rules.largest
    return min(max(np.int64(np.ceil(wire)), 1), state.rules.largest)


@bare_kernel
def channel_of(place: int) -> int:
    """Return the channel that a buffer's number ends in, see `CHANNEL_BITS`."""
    return place & ((1 << CHANNEL_BITS) - 1)


@bare_kernel
def link_of(state: State, place: int) -> int:
    """Return the link before a buffer, from its number, see `CHANNEL_BITS`."""
    behind = place >> CHANNEL_BITS
    return behind // state.rules.virtual if has_queues(state) else behind


@bare_kernel
def count(counter: Any, packets: int, wire: float) -> None:
    """Count a packet that enters or leaves a buffer, and the packets in it, including itself."""
    counter.packets += 1
    counter.wire_bytes += wire
    counter.most = max(counter.most, packets)


@bare_kernel
def roomiest(state: State, out: int, channel: int) -> int:
    """Return the place in the virtual channel with the most room."""
    best = ((out * state.rules.virtual) << CHANNEL_BITS) | channel
    for v in range(1, state.rules.virtual):
        place = ((out * state.rules.virtual + v) << CHANNEL_BITS) | channel
        if state.links.queue[place].credit > state.links.queue[best].credit:
            best = place
    return best


@bare_kernel
def room(state: State, out: int, channel: int) -> int:
    """Return the free bytes in a channel behind a link, or in its roomiest virtual channel."""
    if has_queues(state):
        return np.int64(state.links.queue[roomiest(state, out, channel)].credit)
    if is_usual(state) or channel == 0:
        return np.int64(state.links.link[out].credit)
    rest = state.links.rest[out]
    return np.int64(rest.second_credit if channel == 1 else rest.adaptive_credit)


@bare_kernel
def take_room(state: State, place: int, size: int) -> None:
    """Take bytes of a place; a negative size gives them back."""
    if has_queues(state):
        state.links.queue[place].credit -= size
        return
    out = place >> CHANNEL_BITS
    channel = channel_of(place)
    if is_usual(state) or channel == 0:
        state.links.link[out].credit -= size
    elif channel == 1:
        state.links.rest[out].second_credit -= size
    else:
        state.links.rest[out].adaptive_credit -= size
