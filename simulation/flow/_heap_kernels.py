"""Kernels of a heap of keys and their items, with the least key on top."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from toruscast._jit import bare_kernel


@bare_kernel
def rise(
    key: NDArray[np.float64], what: NDArray[np.int64], size: int, new: float, item: int
) -> None:
    """Put an item into a heap of a given size."""
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
def take_top(key: NDArray[np.float64], what: NDArray[np.int64], size: int) -> None:
    """Take the top item out of a heap, which then has the given size."""
    last, item = key[size], what[size]
    i = 0
    while 2 * i + 1 < size:
        below = 2 * i + 1
        if below + 1 < size and key[below + 1] < key[below]:
            below += 1
        if last <= key[below]:
            break
        key[i] = key[below]
        what[i] = what[below]
        i = below
    key[i] = last
    what[i] = item
