"""Kernels that sort numbers by keys: 32 bits of the number, then 32 bits of its place.

Letters in the comments: E numbers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from toruscast._jit import bare_kernel, kernel

KEY_BITS = 32
LEAST = 5e-324
_DIGIT_BITS = 11
_DIGITS = 2**_DIGIT_BITS


@kernel
def sort_keys(key: NDArray[np.uint64], other: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Sort keys by their upper half, and return the one of two arrays that holds them.

    Equal ones keep their order. Each pass over memory sorts eleven bits, from the lowest on; bits
    that all keys share take no pass.
    """
    count = np.zeros((3, _DIGITS), dtype=np.int64)
    for i in range(key.size):
        part = key[i] >> np.uint64(KEY_BITS)
        for digit in range(3):
            count[digit, np.int64(part & np.uint64(_DIGITS - 1))] += 1
            part >>= np.uint64(_DIGIT_BITS)
    for digit in range(3):
        if count[digit].max() == key.size:
            continue
        before = 0
        for value in range(_DIGITS):
            here = int(count[digit, value])
            count[digit, value] = before
            before += here
        shift = np.uint64(KEY_BITS + digit * _DIGIT_BITS)
        for i in range(key.size):
            part = np.int64((key[i] >> shift) & np.uint64(_DIGITS - 1))
            other[count[digit, part]] = key[i]
            count[digit, part] += 1
        key, other = other, key
    return key


@bare_kernel
def key_of(number: float, most: float, i: int) -> np.uint64:
    """Return the key of a number of 0 to ``most`` and its place."""
    part = np.uint64(number / most * (2**KEY_BITS - 1))
    return (part << np.uint64(KEY_BITS)) | np.uint64(i)


@kernel
def keys_of(number: NDArray[np.float64], key: NDArray[np.uint64]) -> None:
    """Write keys of numbers of 0 or more, to a part in 2**32 of the largest. (E,) -> (E,)."""
    most = 1.0
    for i in range(number.size):
        most = max(number[i], most if i > 0 else LEAST)
    for i in range(number.size):
        key[i] = key_of(number[i], most, i)


@kernel
def places_of(key: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the places in keys. (E,) -> (E,)."""
    place = np.empty(key.size, dtype=np.int64)
    for i in range(key.size):
        place[i] = np.int64(key[i] & np.uint64(2**KEY_BITS - 1))
    return place
