"""Boxes of a grid, and orders of its cells as permutations of their C-order numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toruscast.typing import Ints


def order_by_axes(shape: Sequence[int], axes: Sequence[int]) -> Ints:
    """Return the cells row by row, with the last of ``axes`` varying fastest."""
    return np.arange(math.prod(shape)).reshape(shape).transpose(axes).ravel()


def order_zigzag(shape: Sequence[int], axes: Sequence[int]) -> Ints:
    """Return the cells row by row, with alternate rows reversed; consecutive cells are adjacent."""
    cells = order_by_axes(shape, axes)
    n_rows = 1
    for axis in axes:
        rows = cells.reshape(n_rows, shape[axis], -1)
        rows[1::2] = rows[1::2, ::-1]
        n_rows *= shape[axis]
    return cells


def walk_snake(sizes: Sequence[int]) -> Ints:
    """Return the coordinates of a zigzag path through all cells, ``(n_cells, ndim)``."""
    cells = order_zigzag(sizes, range(len(sizes)))
    return np.stack(np.unravel_index(cells, tuple(sizes)), axis=1)


def walk_loop(sizes: Sequence[int]) -> Ints | None:
    """Return the coordinates of a closed path through all cells, ``(n_cells, ndim)``.

    The result is None if the first size is odd or all other sizes are 1.
    """
    # A snake through all dimensions but the first turns the grid into a plane. The path zigzags
    # through all columns of the plane except the first, and returns along the first.
    if len(sizes) < 2 or sizes[0] % 2:
        return None
    line = walk_snake(sizes[1:])
    if len(line) < 2:
        return None
    zigzag = walk_snake((sizes[0], len(line) - 1))
    zigzag[:, 1] += 1
    back = [(row, 0) for row in range(sizes[0] - 1, 0, -1)]
    path = np.vstack([[(0, 0)], zigzag, back])
    return np.column_stack([path[:, 0], line[path[:, 1]]])


def order_by_tile(shape: Sequence[int], tile: Sequence[int]) -> Ints:
    """Return the cells tile by tile; the tiles, and the cells of each tile, are in C order."""
    return np.argsort(number_tiles(shape, tile), kind="stable")


def number_tiles(shape: Sequence[int], tile: Sequence[int]) -> Ints:
    """Return the C-order number of each cell's tile; tiles at the upper edges may be smaller."""
    number: NDArray[Any] = np.zeros((1,) * len(shape), dtype=np.int64)
    for c, size, edge in zip(np.indices(shape, sparse=True), shape, tile, strict=True):
        number = number * -(-size // edge) + c // edge
    return number.ravel()


def order_z_curve(shape: Sequence[int]) -> Ints:
    """Return the cells along the Morton curve of the enclosing power-of-two cube."""
    return _sort_by_bits([c.ravel() for c in np.indices(shape)])


def order_hilbert(shape: Sequence[int]) -> Ints:
    """Return the cells along the Hilbert curve of the enclosing power-of-two cube.

    The transformation is that of Skilling, "Programming the Hilbert curve", AIP Conf. Proc. 707,
    2004.
    """
    long = [axis for axis, size in enumerate(shape) if size > 1]
    if not long:
        return np.zeros(math.prod(shape), dtype=np.int64)
    grid = np.indices(shape)
    coords = [grid[axis].ravel() for axis in long]
    top = 1 << ((max(shape) - 1).bit_length() - 1)  # highest bit of the largest coordinate
    bit = top
    while bit > 1:
        low = bit - 1
        for axis, c in enumerate(coords):
            is_set = (c & bit) > 0
            # If the bit is set, invert the lower bits of the first axis. If it is clear, exchange
            # the lower bits of this axis and the first.
            exchange = np.where(is_set, 0, (coords[0] ^ c) & low)
            coords[0] = coords[0] ^ np.where(is_set, low, exchange)
            if axis:
                coords[axis] = c ^ exchange
        bit >>= 1
    for axis in range(1, len(coords)):
        coords[axis] = coords[axis] ^ coords[axis - 1]
    flip = np.zeros_like(coords[0])
    bit = top
    while bit > 1:
        flip ^= np.where(coords[-1] & bit, bit - 1, 0)
        bit >>= 1
    return _sort_by_bits([c ^ flip for c in coords])


def _sort_by_bits(coords: Sequence[NDArray[Any]]) -> Ints:
    """Sort cells by the interleaved bits of their coordinates, highest bits first."""
    digits = []
    for bit in range(max(int(c.max()) for c in coords).bit_length()):
        digit = np.zeros_like(coords[0])
        for c in coords:
            digit = digit * 2 + (c >> bit & 1)
        digits.append(digit)
    return np.lexsort(digits) if digits else np.zeros(coords[0].size, dtype=np.int64)


def divisors(number: int) -> tuple[int, ...]:
    """Return the divisors of a number in ascending order."""
    low = [d for d in range(1, math.isqrt(number) + 1) if number % d == 0]
    return tuple(low + [number // d for d in reversed(low) if d * d != number])


def factor_near_cube(volume: int, ndim: int) -> tuple[int, ...]:
    """Return ``ndim`` nearly equal factors of ``volume``, largest first."""
    sizes: list[int] = []
    for n_remaining in range(ndim, 0, -1):
        target = round(volume ** (1 / n_remaining), 9)
        factor = max((f for f in divisors(volume) if f <= target), default=1)
        factor = volume if n_remaining == 1 else factor
        sizes.append(factor)
        volume //= factor
    return tuple(sorted(sizes, reverse=True))


def find_block_shape(shape: Sequence[int], volume: int) -> tuple[int, ...]:
    """Return a near-cubic block of at most ``volume`` cells that fits into ``shape``."""
    block = [1] * len(shape)
    while True:
        can_grow = [
            d
            for d, size in enumerate(shape)
            if block[d] < size and math.prod(block) // block[d] * min(2 * block[d], size) <= volume
        ]
        if not can_grow:
            return tuple(block)
        d = min(can_grow, key=lambda d: (block[d], d))
        block[d] = min(2 * block[d], shape[d])


def list_boxes(shape: Sequence[int], volume: int) -> list[tuple[int, ...]]:
    """Return all boxes with a given volume whose sizes divide the sizes of the shape."""
    if not shape:
        return [()] if volume == 1 else []
    edges = [e for e in range(1, min(shape[0], volume) + 1) if shape[0] % e == volume % e == 0]
    return [(e, *rest) for e in edges for rest in list_boxes(shape[1:], volume // e)]
