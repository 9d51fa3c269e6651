"""LLVM intrinsics of the kernels give the results of Python, for each version of numba."""

from typing import NamedTuple

import numba
import numpy as np
import pytest

from toruscast._jit import bare_kernel, entry_kernel, kernel, trailing_zeros
from toruscast._llvm import equal_of_64, point_to, prefetch, sharing_of_16, sharing_of_64

NUMBERS = np.arange(128, dtype=np.uint8) * 37 % 64


class Box(NamedTuple):
    """Arrays that kernels hand on."""

    values: np.ndarray
    sums: np.ndarray


@kernel
def zeros(bits):
    return trailing_zeros(bits)


@kernel
def equal(numbers, first, number):
    return equal_of_64(numbers, first, number)


@kernel
def sharing(numbers, first, number):
    return sharing_of_64(numbers, first, number)


@kernel
def sharing_short(numbers, first, number):
    return sharing_of_16(numbers, first, number)


@bare_kernel
def add(box, i):
    prefetch(box.values, i + 1)
    box.sums[0] += box.values[i]


@entry_kernel
def add_up(box):
    there = point_to(box)
    for i in range(there.values.size):
        add(there, i)


def test_zero_bits_are_counted_by_one_instruction():
    for at in range(64):
        assert zeros(np.uint64(1 << at)) == at
        assert zeros(np.uint64((0b101 << at) % 2**64)) == at
    assert zeros(np.uint64(0)) == 64
    # What was kept cannot be looked at.
    anew = numba.njit(zeros.py_func)
    anew(np.uint64(1))
    code = anew.inspect_llvm(anew.signatures[0])
    assert "llvm.cttz" in code, f"numba {numba.__version__} makes a loop of it"


@pytest.mark.parametrize(
    ("found", "lanes", "fits"),
    [
        (equal, 64, lambda one, other: one == other),
        (sharing, 64, lambda one, other: one & other != 0),
        (sharing_short, 16, lambda one, other: one & other != 0),
    ],
)
def test_a_row_is_compared_at_once(found, lanes, fits):
    for first in (0, 5, 64):
        for number in (0, 1, 2, 37, 63):
            row = NUMBERS[first : first + lanes].tolist()
            bits = sum(fits(one, number) << k for k, one in enumerate(row))
            assert found(NUMBERS, first, number) == bits


def test_a_tuple_of_arrays_goes_by_its_place():
    box = Box(np.arange(9.0), np.zeros(1))
    add_up(box)
    assert box.sums[0] == 36
