"""Kernels of the buffers behind links: places, and the bytes that packets take and give back."""

from __future__ import annotations

from typing import Any

import numpy as np

from toruscast._jit import bare_kernel

from .._state import CHANNEL_BITS, State
from .network import is_usual


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
def link_of(place: int) -> int:
    """Return the link before a buffer, from its number, see `CHANNEL_BITS`."""
    return place >> CHANNEL_BITS


@bare_kernel
def count(counter: Any, packets: int, wire: float) -> None:
    """Count a packet that enters or leaves a buffer, and the packets in it, including itself."""
    counter.packets += 1
    counter.wire_bytes += wire
    counter.most = max(counter.most, packets)


@bare_kernel
def room(state: State, out: int, channel: int) -> int:
    """Return the free bytes in a channel behind a link."""
    if is_usual(state) or channel == 0:
        return np.int64(state.links.link[out].credit)
    rest = state.links.rest[out]
    return np.int64(rest.second_credit if channel == 1 else rest.adaptive_credit)


@bare_kernel
def take_room(state: State, place: int, size: int) -> None:
    """Take bytes of a place; a negative size gives them back."""
    out = place >> CHANNEL_BITS
    channel = channel_of(place)
    if is_usual(state) or channel == 0:
        state.links.link[out].credit -= size
    elif channel == 1:
        state.links.rest[out].second_credit -= size
    else:
        state.links.rest[out].adaptive_credit -= size
