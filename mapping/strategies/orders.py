"""Boxes of a grid, and orders of its cells: permutations of their C-order numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def permuted(shape: Sequence[int], axes: Sequence[int]) -> NDArray[np.int64]:
    """Return the cells row by row, the last of ``axes`` varying fastest."""
    return _cell_numbers(shape).transpose(axes).ravel()


def zigzag(shape: Sequence[int], axes: Sequence[int]) -> NDArray[np.int64]:
    """Return the cells row by row, every other row backwards, so that each adjoins the next."""
    sizes = [shape[axis] for axis in axes]
    count = np.arange(math.prod(sizes))
    strides = np.cumprod([1, *shape[:0:-1]])[::-1]
    cell = np.zeros_like(count)
    below = count.size
    for axis, size in zip(axes, sizes, strict=True):
        # Which way a row runs depends on how many rows were completed before it.
        row, below = count // below, below // size
        place = count // below % size
        cell += np.where(row % 2, size - 1 - place, place) * strides[axis]
    return cell


def snake(sizes: Sequence[int]) -> NDArray[np.int64]:
    """Return a walk over all cells in steps between neighbours, the last dimension fastest."""
    return np.stack(np.unravel_index(zigzag(sizes, range(len(sizes))), tuple(sizes)), axis=1)


def loop(sizes: Sequence[int]) -> NDArray[np.int64] | None:
    """Return a walk that ends beside its start; None if the first size is odd or another is 1.

    With the dimensions behind the first as one line (a snake), the walk goes there and back over
    all but the first place of each line, and home over those.
    """
    if len(sizes) < 2 or sizes[0] % 2:
        return None
    line = snake(sizes[1:])
    if len(line) < 2:
        return None
    rows = [[(0, 0)]]
    for row in range(sizes[0]):
        there = range(1, len(line))
        rows.append([(row, place) for place in (there if row % 2 == 0 else reversed(there))])
    rows.append([(row, 0) for row in range(sizes[0] - 1, 0, -1)])
    walk = np.array([cell for row in rows for cell in row])
    return np.column_stack([walk[:, 0], line[walk[:, 1]]])


def tiled(shape: Sequence[int], tile: Sequence[int]) -> NDArray[np.int64]:
    """Return the cells tile by tile; tiles, and cells within each, in C order.

    Tiles at the far edges are cut off where the sizes do not divide.
    """
    tile_of = tile_number(shape, tile)
    # A stable sort keeps C order within each tile.
    return np.argsort(tile_of, kind="stable")


def tile_number(shape: Sequence[int], tile: Sequence[int]) -> NDArray[np.int64]:
    """Return the C-order number of the tile that holds each cell."""
    number: NDArray[Any] = np.zeros((1,) * len(shape), dtype=np.int64)
    for c, size, edge in zip(np.indices(shape, sparse=True), shape, tile, strict=True):
        number = number * -(-size // edge) + c // edge
    return number.ravel()


def z_order(shape: Sequence[int]) -> NDArray[np.int64]:
    """Return the cells along the Morton curve of the enclosing power of two, others left out."""
    return _by_digits([c.ravel() for c in np.indices(shape)])


def hilbert(shape: Sequence[int]) -> NDArray[np.int64]:
    """Return the cells along the Hilbert curve of the enclosing power of two, others left out.

    On a cube whose edge is a power of two each cell adjoins the next.

    The transformation from coordinates to the place on the curve is that of Skilling, "Programming
    the Hilbert curve", AIP Conf. Proc. 707, 2004.
    """
    long = [axis for axis, size in enumerate(shape) if size > 1]
    if not long:
        return np.zeros(math.prod(shape), dtype=np.int64)
    grid = np.indices(shape)
    coords = [grid[axis].ravel() for axis in long]
    top = 1 << (max(shape) - 1).bit_length() - 1
    bit = top
    while bit > 1:
        low = bit - 1
        for axis, c in enumerate(coords):
            turned = (c & bit) > 0
            # A set bit mirrors the first axis below it; a clear one exchanges the two axes there.
            exchange = np.where(turned, 0, (coords[0] ^ c) & low)
            coords[0] = coords[0] ^ np.where(turned, low, exchange)
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
    return _by_digits([c ^ flip for c in coords])


def _by_digits(coords: Sequence[NDArray[Any]]) -> NDArray[np.int64]:
    """Sort cells by their bits, highest first, those of the axes interleaved."""
    digits = []
    for bit in range(max(int(c.max()) for c in coords).bit_length()):
        digit = np.zeros_like(coords[0])
        for c in coords:
            digit = digit * 2 + (c >> bit & 1)
        digits.append(digit)
    return np.lexsort(digits) if digits else np.zeros(coords[0].size, dtype=np.int64)


def _cell_numbers(shape: Sequence[int]) -> NDArray[np.int64]:
    return np.arange(math.prod(shape)).reshape(shape)


def divisors(number: int) -> tuple[int, ...]:
    """Return the divisors of a number, rising."""
    low = [d for d in range(1, math.isqrt(number) + 1) if number % d == 0]
    return tuple(low + [number // d for d in reversed(low) if d * d != number])


def near_cube(volume: int, ndim: int) -> tuple[int, ...]:
    """Return ``ndim`` factors of ``volume``, largest first, about as equal as can be."""
    sizes: list[int] = []
    for left in range(ndim, 0, -1):
        # The largest factor not above the root of what is left keeps the rest no smaller.
        target = round(volume ** (1 / left), 9)
        factor = max((f for f in divisors(volume) if f <= target), default=1)
        factor = volume if left == 1 else factor
        sizes.append(factor)
        volume //= factor
    return tuple(sorted(sizes, reverse=True))


def block_shape(shape: Sequence[int], volume: int) -> tuple[int, ...]:
    """Return a near-cubic block of at most ``volume`` cells that fits into ``shape``."""
    block = [1] * len(shape)
    while True:
        room = [
            d
            for d, size in enumerate(shape)
            if block[d] < size and math.prod(block) // block[d] * min(2 * block[d], size) <= volume
        ]
        if not room:
            return tuple(block)
        d = min(room, key=lambda d: (block[d], d))
        block[d] = min(2 * block[d], shape[d])


def boxes(shape: Sequence[int], volume: int) -> list[tuple[int, ...]]:
    """Return all boxes of that volume whose sizes divide those of the shape."""
    if not shape:
        return [()] if volume == 1 else []
    edges = [e for e in range(1, min(shape[0], volume) + 1) if shape[0] % e == volume % e == 0]
    return [(e, *rest) for e in edges for rest in boxes(shape[1:], volume // e)]
