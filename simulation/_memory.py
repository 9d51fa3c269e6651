"""One block of memory, with huge pages, for the arrays of a kernel."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
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
    dtype = np.dtype(dtype)
    return np.ndarray((size,), dtype, bytes(dtype.itemsize), strides=(0,))


def side_by_side(arrays: T) -> T:
    """Return a (nested) named tuple with its arrays copied into one block, each on its own lines.

    The event loop jumps within tens of megabytes. With pages of 4 KiB nearly every jump also misses
    the translation cache, and the system clears one huge page faster than it finds 512 small ones.
    Arrays that would fill less than half of a huge page stay in small ones.
    """
    size = sum(-(-array.nbytes // _LINE) * _LINE for array in _arrays(arrays))
    if size <= _SMALL:
        memory, align = np.zeros(size + _LINE, dtype=np.uint8), _LINE
    else:
        memory, align = _huge_pages(size + 2 * _HUGE), _HUGE
    moved: T = _moved(arrays, memory, -memory.ctypes.data % align)[0]
    return moved


def _huge_pages(size: int) -> NDArray[np.uint8]:
    # Systems without such flags give the same memory.
    private = getattr(mmap, "MAP_PRIVATE", 0) | getattr(mmap, "MAP_ANONYMOUS", 0)
    block = mmap.mmap(-1, size, **({"flags": private} if private else {}))
    if hasattr(mmap, "MADV_HUGEPAGE"):
        # If the system has no huge pages, small ones are used; nothing else changes.
        with suppress(OSError):
            block.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(block, dtype=np.uint8)


def _arrays(value: tuple[Any, ...]) -> Iterator[NDArray[Any]]:
    for item in value:
        if isinstance(item, np.ndarray):
            yield item
        elif isinstance(item, tuple):
            yield from _arrays(item)


def _moved(value: tuple[Any, ...], memory: NDArray[np.uint8], start: int) -> tuple[Any, int]:
    """Return a tuple with its arrays copied to a place in memory, and the place after them."""
    items: list[Any] = []
    for item in value:
        if isinstance(item, np.ndarray):
            place = memory[start : start + item.nbytes]
            if item.strides != (0,):
                # The copy is made as bytes, because NumPy copies records field by field.
                place[:] = item.reshape(-1).view(np.uint8)
            items.append(np.ndarray(item.shape, item.dtype, place))
            start += -(-item.nbytes // _LINE) * _LINE
        elif isinstance(item, tuple):
            inner, start = _moved(item, memory, start)
            items.append(inner)
        else:
            items.append(item)
    return type(value)(*items), start
