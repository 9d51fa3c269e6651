"""Kernels of links that an event will look at: armed ones, and those for which packets wait."""

from __future__ import annotations

import numpy as np

from toruscast._jit import bare_kernel

from .._state import State
from .network import is_adaptive


@bare_kernel
def is_armed(state: State, out: int) -> bool:
    """Return whether an event will look at a link."""
    if is_adaptive(state):
        rest = state.links.rest[out]
        bits = np.uint32(state.links.node[np.int64(rest.node)].armed)
        return bool(bits >> np.uint32(rest.rank) & np.uint32(1) != 0)
    return bool(state.links.link[out].armed != 0)


@bare_kernel
def arm(state: State, out: int) -> None:
    """Note that an event will look at a link."""
    if is_adaptive(state):
        rest = state.links.rest[out]
        state.links.node[np.int64(rest.node)].armed |= np.uint32(1) << np.uint32(rest.rank)
    else:
        state.links.link[out].armed = 1


@bare_kernel
def disarm(state: State, out: int) -> None:
    """Note that no event will look at a link."""
    if is_adaptive(state):
        rest = state.links.rest[out]
        state.links.node[np.int64(rest.node)].armed &= ~(np.uint32(1) << np.uint32(rest.rank))
    else:
        state.links.link[out].armed = 0


@bare_kernel
def others_wait(state: State, out: int) -> bool:
    """Return whether packets wait at a link's node that may choose it."""
    return is_adaptive(state) and state.links.node[np.int64(state.links.rest[out].node)].waiting > 0
