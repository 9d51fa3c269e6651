"""Kernels of ticks and the parts of them in which links, FIFOs and reception ports count."""

from __future__ import annotations

from typing import Any

from toruscast._jit import bare_kernel

from .._state import PARTS


@bare_kernel
def free_tick(server: Any) -> int:
    """Return the tick in which a link or a FIFO can begin its next packet.

    It begins at the part of the tick at which the last one ended, so that short packets lose no
    time.
    """
    tick: int = server.free_at >> PARTS
    return tick


@bare_kernel
def nearest_tick(parts: int) -> int:
    """Return the whole ticks nearest to a number of parts."""
    return (parts + (1 << (PARTS - 1))) >> PARTS
