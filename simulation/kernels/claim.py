"""Kernels of claims: which first packets of lanes may take a link, under adaptive routing.

A link has a bit for every lane of its node. The bit is set while the packet at the lane's head may
take the link, so only few of ten links' lanes are searched. A bit for each way to enter the link
would spare the look at the packets, but takes longer: there are three times as many words to write.
"""

from __future__ import annotations

import numpy as np

from toruscast._jit import at, bare_kernel, prefetch, trailing_zeros

from .._state import KINDS, State
from .network import inputs, lane_of, port_of, ways_of


@bare_kernel
def claim_words(state: State) -> int:
    """Return the number of words of the claims on a link, as laid out by `build_state`."""
    return (state.fields.shift.size * KINDS * inputs(state) + 63) >> 6


@bare_kernel
def claim(state: State, out: int, lane: int) -> None:
    """Set the bit of a lane of the link's node."""
    word = out * claim_words(state) + (lane >> 6)
    state.claim[np.uint64(word)] |= np.uint64(1) << np.uint64(lane & 63)


@bare_kernel
def withdraw(state: State, holder: int, lane: int) -> None:
    """Take back the claims of the packet at the head of a lane of the link ``holder``."""
    port = np.int64(at(state.link, holder).port)
    bit = port * KINDS * inputs(state) + lane
    head = at(state.lane, lane_of(state, holder, lane)).head
    ways = ways_of(state, head)
    while ways != 0:
        way = port_of(state, ways)
        ways &= ~state.fields.mask[np.uint64(way)]
        word = (holder - port + way) * claim_words(state) + (bit >> 6)
        state.claim[np.uint64(word)] &= ~(np.uint64(1) << np.uint64(bit & 63))


@bare_kernel
def bring_claims(state: State, out: int, followers: bool) -> None:
    """Prefetch the packets that claim a link, or those behind them."""
    base = (out - np.int64(at(state.link, out).port)) * KINDS * inputs(state)
    words = claim_words(state)
    for w in range(words):
        claims = state.claim[np.uint64(out * words + w)]
        while claims != 0:
            head = at(state.lane, base + 64 * w + trailing_zeros(claims)).head
            claims &= claims - np.uint64(1)
            prefetch(state.packet, np.int64(at(state.packet, head).next) if followers else head)
