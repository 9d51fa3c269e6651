"""Kernel of the log of a watched message."""

from __future__ import annotations

from toruscast._jit import bare_kernel

from .._state import LOGGED, State


@bare_kernel
def note(state: State, kind: int, packet: int, link: int, now: int) -> None:
    """Log an event of a packet of the watched message; count events after the log is full."""
    i = state.events.clock[LOGGED]
    if i < state.events.log.shape[0]:
        state.events.log[i, 0] = now
        state.events.log[i, 1] = kind
        state.events.log[i, 2] = packet
        state.events.log[i, 3] = link
    state.events.clock[LOGGED] = i + 1
