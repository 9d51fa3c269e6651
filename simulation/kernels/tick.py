"""Kernels of ticks and the parts of them in which links, FIFOs and reception ports count."""

from __future__ import annotations

from typing import Any

from toruscast._jit import bare_kernel

from .._state import PARTS


@bare_kernel
def free_tick(server: Any) -> int:
    """Tick in which a link or a FIFO can begin with its next packet.

    It begins where in the tick the last one ended, so that nothing is lost however short they are.
    """
    tick: int = server.free_at >> PARTS
    return tick


@bare_kernel
def nearest_tick(parts: int) -> int:
    """Whole ticks next to a number of parts."""
    return (parts + (1 << (PARTS - 1))) >> PARTS
