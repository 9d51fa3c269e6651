"""Arrays that kernels write before they read them, kept from call to call."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

_MOST_BYTES = 2**26
_kept = threading.local()


def scratch(name: str, size: int, dtype: DTypeLike = np.float64) -> NDArray[Any]:
    """Return an array of any content, this thread's own: valid until the name is asked for again.

    A fresh one costs a page fault every four kilobytes, which takes longer than many a pass over
    it. Arrays of more than 64 MB are not kept.

    Examples
    --------
    >>> scratch("example", 3).shape
    (3,)
    """
    n_bytes = size * np.dtype(dtype).itemsize
    if n_bytes > _MOST_BYTES:
        return np.empty(size, dtype=dtype)
    found = _kept.__dict__.get(name)
    if found is None or found.size < n_bytes:
        found = _kept.__dict__[name] = np.empty(n_bytes, dtype=np.uint8)
    return found[:n_bytes].view(dtype)
