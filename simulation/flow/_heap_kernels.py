"""Kernels of a heap: keys and what they belong to, the least key on top."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from toruscast._jit import bare_kernel


@bare_kernel
def rise(
    key: NDArray[np.float64], what: NDArray[np.int64], size: int, new: float, item: int
) -> None:
    """Put an item into a heap of a size."""
    i = size
    while i > 0:
        above = (i - 1) >> 1
        if key[above] <= new:
            break
        key[i] = key[above]
        what[i] = what[above]
        i = above
    key[i] = new
    what[i] = item


@bare_kernel
def sink(
    key: NDArray[np.float64], what: NDArray[np.int64], size: int, place: int, new: float, item: int
) -> None:
    """Put an item at a place of a heap of a size, or below it, where a lower key must go up."""
    i = place
    while 2 * i + 1 < size:
        below = 2 * i + 1
        if below + 1 < size and key[below + 1] < key[below]:
            below += 1
        if new <= key[below]:
            break
        key[i] = key[below]
        what[i] = what[below]
        i = below
    key[i] = new
    what[i] = item


@bare_kernel
def take_top(key: NDArray[np.float64], what: NDArray[np.int64], size: int) -> None:
    """Take the top out of a heap, which leaves it a size."""
    sink(key, what, size, 0, key[size], what[size])


@bare_kernel
def heap_up(key: NDArray[np.float64], what: NDArray[np.int64], size: int) -> None:
    """Make a heap of items in any order."""
    for i in range(size // 2 - 1, -1, -1):
        sink(key, what, size, i, key[i], what[i])
