"""Placements along one curve over the task grid and one over the torus: tiles, boxes, Hilbert."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .placement import Placement, block_shape, boxes
from .registry import bad_variant, register


def permuted(shape: Sequence[int], axes: Sequence[int]) -> NDArray[np.int64]:
    """Return the cells row by row, the last of ``axes`` varying fastest.

    Examples
    --------
    >>> permuted((2, 3), (1, 0))
    array([0, 3, 1, 4, 2, 5])
    """
    return _cells(shape).transpose(axes).ravel()


def zigzag(shape: Sequence[int], axes: Sequence[int]) -> NDArray[np.int64]:
    """Return the cells row by row, every other row backwards, so that each adjoins the next.

    Examples
    --------
    >>> zigzag((2, 3), (0, 1))
    array([0, 1, 2, 5, 4, 3])
    """
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


def tiled(shape: Sequence[int], tile: Sequence[int]) -> NDArray[np.int64]:
    """Return the cells tile by tile; tiles, and cells within each, in C order.

    Tiles at the far edges are cut off where the sizes do not divide.

    Examples
    --------
    >>> tiled((2, 4), (2, 2))
    array([0, 1, 4, 5, 2, 3, 6, 7])
    """
    tile_of = tile_number(shape, tile)
    # A stable sort keeps C order within each tile.
    return np.argsort(tile_of, kind="stable")


def tile_number(shape: Sequence[int], tile: Sequence[int]) -> NDArray[np.int64]:
    """Return the C-order number of the tile that holds each cell.

    Examples
    --------
    >>> tile_number((2, 4), (2, 2))
    array([0, 0, 1, 1, 0, 0, 1, 1])
    """
    number: NDArray[Any] = np.zeros((1,) * len(shape), dtype=np.int64)
    for c, size, edge in zip(np.indices(shape, sparse=True), shape, tile, strict=True):
        number = number * -(-size // edge) + c // edge
    return number.ravel()


def z_order(shape: Sequence[int]) -> NDArray[np.int64]:
    """Return the cells along the Morton curve of the enclosing power of two, others left out.

    Examples
    --------
    >>> z_order((2, 4))
    array([0, 1, 4, 5, 2, 3, 6, 7])
    """
    return _by_digits([c.ravel() for c in np.indices(shape)])


def hilbert(shape: Sequence[int]) -> NDArray[np.int64]:
    """Return the cells along the Hilbert curve of the enclosing power of two, others left out.

    On a cube whose edge is a power of two each cell adjoins the next.

    The transformation from coordinates to the place on the curve is that of Skilling, "Programming
    the Hilbert curve", AIP Conf. Proc. 707, 2004.

    Examples
    --------
    >>> hilbert((2, 2))
    array([0, 1, 3, 2])
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


def _cells(shape: Sequence[int]) -> NDArray[np.int64]:
    return np.arange(math.prod(shape)).reshape(shape)


Rng = np.random.Generator

CURVES: dict[str, Callable[[Sequence[int]], NDArray[np.int64]]] = {
    "row": lambda shape: np.arange(math.prod(shape)),
    "zigzag": lambda shape: zigzag(shape, range(len(shape))),
    "zorder": z_order,
    "hilbert": hilbert,
}

_KINDS = f"{', '.join(list(CURVES)[:-1])} or {list(CURVES)[-1]}"


def _curves(placement: Placement) -> list[str]:
    same = [f"{name}-{name}" for name in CURVES]
    mixed = [f"{a}-{b}" for a, b in itertools.permutations(CURVES, 2)]
    # Rows and zigzags of the torus alone are the identity and the zigzag strategy.
    return [name for name in reversed(same + mixed) if name not in ("row-row", "row-zigzag")]


@register(
    "curve-TASKS-NODES",
    _curves,
    example="curve-hilbert-row",
    parameters=f"TASKS and NODES: each {_KINDS}, one along the task grid, one along the torus",
)
def curve(placement: Placement, variant: str, rng: Rng) -> NDArray[Any]:
    """Put the tasks along one curve over their grid on the nodes along another, each node filled.

    The curves are row, zigzag, zorder and hilbert.
    """
    tasks, _, hosts = variant.partition("-")
    if tasks not in CURVES or hosts not in CURVES:
        raise bad_variant(placement, "curve", variant)
    node_order = CURVES[hosts](placement.torus.shape)
    places = node_order[np.arange(placement.n_tasks) // placement.capacity]
    return _lay(CURVES[tasks](placement.grid), places)


def _tiles(placement: Placement) -> list[str]:
    """Cubes, slabs and rods of the task grid, small first."""
    grid = placement.grid
    tiles = []
    for edge in (2, 4, 3, 8, 16):
        if edge <= max(grid):
            tiles.append(tuple(min(edge, size) for size in grid))
            for d in range(len(grid)):
                tiles.append(tuple(1 if d == e else min(edge, k) for e, k in enumerate(grid)))
                tiles.append(tuple(1 if d != e else min(edge, k) for e, k in enumerate(grid)))
    words = [_word(tile) for tile in tiles if 1 < math.prod(tile) < placement.n_tasks]
    return list(dict.fromkeys(words))


@register(
    "tile-SIZES",
    _tiles,
    example="tile-2x2x2",
    parameters="SIZES: a tile of the task grid, here {grid}, a size for each of its dimensions",
)
def tile(placement: Placement, variant: str, rng: Rng) -> NDArray[Any]:
    """Put tiles of the task grid on near-cubic blocks of the torus and its slots that hold as many.

    A flat tile is thus folded up, its neighbours along the long side pulled apart.
    """
    sizes = _tile_sizes(placement, "tile", variant, variant)
    shape = (*placement.torus.shape, placement.capacity)
    block = block_shape(shape, math.prod(sizes))
    places = tiled(shape, block)[: placement.n_tasks] // placement.capacity
    return _lay(tiled(placement.grid, sizes), places)


def _blocks(placement: Placement) -> list[str]:
    """Boxes of the task grid with as many tasks as a node holds, compact first."""
    if placement.capacity == 1:
        return []
    compact = boxes(placement.grid, placement.capacity)
    compact.sort(key=lambda box: (max(box) - min(box), box))
    return [f"{_word(box)}-{name}" for box in compact[:4] for name in ("hilbert", "row", "zorder")]


@register(
    "blocked-SIZES-CURVE",
    _blocks,
    example="blocked-2x2x1-hilbert",
    parameters="SIZES: a box of the task grid, here {grid}, a size for each of its dimensions; "
    f"CURVE: {_KINDS}",
)
def blocked(placement: Placement, variant: str, rng: Rng) -> NDArray[Any]:
    """Cut the task grid into boxes and fill node after node with them, both along one curve."""
    word, _, name = variant.partition("-")
    if name not in CURVES:
        raise bad_variant(placement, "blocked", variant)
    box = _tile_sizes(placement, "blocked", variant, word)
    coarse = [-(-size // edge) for size, edge in zip(placement.grid, box, strict=True)]
    turn = np.empty(math.prod(coarse), dtype=np.int64)
    turn[CURVES[name](coarse)] = np.arange(turn.size)
    order = np.argsort(turn[tile_number(placement.grid, box)], kind="stable")
    node_order = CURVES[name](placement.torus.shape)
    return _lay(order, node_order[np.arange(placement.n_tasks) // placement.capacity])


def _lay(tasks: NDArray[Any], nodes: NDArray[Any]) -> NDArray[Any]:
    """Put the i-th of the tasks on the i-th of the nodes."""
    node = np.empty(tasks.size, dtype=np.int64)
    node[tasks] = nodes
    return node


def _tile_sizes(placement: Placement, family: str, variant: str, word: str) -> tuple[int, ...]:
    sizes = (
        tuple(int(k) for k in word.split("x"))
        if re.fullmatch("[0-9]{1,9}(x[0-9]{1,9})*", word)
        else ()
    )
    if len(sizes) != len(placement.grid) or min(sizes) < 1:
        raise bad_variant(placement, family, variant)
    return sizes


def _word(sizes: Sequence[int]) -> str:
    return "x".join(map(str, sizes))
