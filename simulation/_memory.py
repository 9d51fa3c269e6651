"""Put the arrays of a kernel side by side, many of them into huge pages."""

from __future__ import annotations

import mmap
from contextlib import suppress
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T", bound=tuple[Any, ...])

_LINE = 64
_HUGE = 2**21
_SMALL = _HUGE // 2


def blank(size: int, dtype: np.dtype[Any] | type) -> NDArray[Any]:
    """Return a stand-in for zeros, which takes no memory until `side_by_side` lays it out."""
    return np.broadcast_to(np.zeros((), dtype=dtype), (size,))


def side_by_side(arrays: T) -> T:
    """Return a (nested) named tuple with its arrays copied into one block, each on its own lines.

    The event loop jumps about in tens of megabytes: with pages of 4 KiB nearly every jump misses
    the translation cache too, and the system clears a huge page faster than it finds the 512 small
    ones of it. What would fill less than half of one stays in small ones.
    """
    flat = _arrays(arrays)
    size = sum(-(-array.nbytes // _LINE) * _LINE for array in flat)
    small = size <= _SMALL
    align = _LINE if small else _HUGE
    # Systems that have no such flags give the same memory without.
    private = getattr(mmap, "MAP_PRIVATE", 0) | getattr(mmap, "MAP_ANONYMOUS", 0)
    block = mmap.mmap(-1, size + 2 * align, **({"flags": private} if private else {}))
    if not small and hasattr(mmap, "MADV_HUGEPAGE"):
        # Where the system has none, the pages stay small and all else is the same.
        with suppress(OSError):
            block.madvise(mmap.MADV_HUGEPAGE)
    memory = np.frombuffer(block, dtype=np.uint8)
    start = -memory.ctypes.data % align
    moved = {}
    for array in flat:
        view = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
        if array.strides != (0,):
            # As bytes: records go field by field.
            memory[start : start + array.nbytes] = array.reshape(-1).view(np.uint8)
        moved[id(array)] = view
        start += -(-array.nbytes // _LINE) * _LINE
    result: T = _replaced(arrays, moved)
    return result


def _arrays(value: tuple[Any, ...]) -> list[Any]:
    found = []
    for item in value:
        if isinstance(item, np.ndarray):
            found.append(item)
        elif isinstance(item, tuple):
            found += _arrays(item)
    return found


def _replaced(value: Any, moved: dict[int, Any]) -> Any:
    if isinstance(value, np.ndarray):
        return moved[id(value)]
    if isinstance(value, tuple):
        return type(value)(*(_replaced(item, moved) for item in value))
    return value
