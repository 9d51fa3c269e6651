"""One block of memory, with huge pages, for the arrays of a kernel."""

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
    """Return a placeholder for zeros, which takes no memory until `side_by_side` lays it out."""
    return np.broadcast_to(np.zeros((), dtype=dtype), (size,))


def side_by_side(arrays: T) -> T:
    """Return a (nested) named tuple with its arrays copied into one block, each on its own lines.

    The event loop jumps within tens of megabytes. With pages of 4 KiB nearly every jump also misses
    the translation cache, and the system clears one huge page faster than it finds 512 small ones.
    Arrays that would fill less than half of a huge page stay in small ones.
    """
    flat = _arrays(arrays)
    size = sum(-(-array.nbytes // _LINE) * _LINE for array in flat)
    small = size <= _SMALL
    align = _LINE if small else _HUGE
    # Systems without such flags give the same memory.
    private = getattr(mmap, "MAP_PRIVATE", 0) | getattr(mmap, "MAP_ANONYMOUS", 0)
    block = mmap.mmap(-1, size + 2 * align, **({"flags": private} if private else {}))
    if not small and hasattr(mmap, "MADV_HUGEPAGE"):
        # If the system has no huge pages, small ones are used; nothing else changes.
        with suppress(OSError):
            block.madvise(mmap.MADV_HUGEPAGE)
    memory = np.frombuffer(block, dtype=np.uint8)
    start = -memory.ctypes.data % align
    moved = {}
    for array in flat:
        view = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
        if array.strides != (0,):
            # The copy is made as bytes, because NumPy copies records field by field.
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
