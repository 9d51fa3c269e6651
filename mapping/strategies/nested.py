"""Placements of nested blocks and along curves, after Rubik."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toruscast.validation import read_sizes

from .orders import (
    block_shape,
    boxes,
    divisors,
    hilbert,
    permuted,
    tile_number,
    tiled,
    z_order,
    zigzag,
)
from .permute import axes_of
from .registry import Placement, Rng, VariantError, register

CURVES: dict[str, Callable[[Sequence[int]], NDArray[np.int64]]] = {
    "row": lambda shape: np.arange(math.prod(shape)),
    "zigzag": lambda shape: zigzag(shape, range(len(shape))),
    "zorder": z_order,
    "hilbert": hilbert,
}

_KINDS = f"{', '.join(list(CURVES)[:-1])} or {list(CURVES)[-1]}"


def _curve_names(placement: Placement) -> list[str]:
    same = [f"{name}-{name}" for name in CURVES]
    mixed = [f"{a}-{b}" for a, b in itertools.permutations(CURVES, 2)]
    # Rows and zigzags of the torus alone are the identity and the zigzag strategy.
    return [name for name in reversed(same + mixed) if name not in ("row-row", "row-zigzag")]


@register(
    "curve-TASKS-NODES",
    _curve_names,
    example="curve-hilbert-row",
    parameters=f"TASKS and NODES: each {_KINDS}, one along the task grid, one along the torus",
)
def curve(placement: Placement, variant: str, rng: Rng) -> NDArray[Any]:
    """Put the tasks along one curve over their grid on the nodes along another, each node filled.

    The curves are row, zigzag, zorder and hilbert.
    """
    tasks, _, hosts = variant.partition("-")
    if tasks not in CURVES or hosts not in CURVES:
        raise VariantError
    node_order = CURVES[hosts](placement.torus.shape)
    places = node_order[np.arange(placement.n_tasks) // placement.capacity]
    return _place_tasks(CURVES[tasks](placement.grid), places)


def _tile_names(placement: Placement) -> list[str]:
    """Cubes, slabs and rods of the task grid, small first."""
    grid = placement.grid
    tiles = []
    for edge in (2, 4, 3, 8, 16):
        if edge <= max(grid):
            tiles.append(tuple(min(edge, size) for size in grid))
            for d in range(len(grid)):
                tiles.append(tuple(1 if d == e else min(edge, k) for e, k in enumerate(grid)))
                tiles.append(tuple(1 if d != e else min(edge, k) for e, k in enumerate(grid)))
    words = [_sizes_word(tile) for tile in tiles if 1 < math.prod(tile) < placement.n_tasks]
    return list(dict.fromkeys(words))


@register(
    "tile-SIZES",
    _tile_names,
    example="tile-2x2x2",
    parameters="SIZES: a tile of the task grid, here {grid}, a size for each of its dimensions",
)
def tile(placement: Placement, variant: str, rng: Rng) -> NDArray[Any]:
    """Put tiles of the task grid on near-cubic blocks of the torus and its slots that hold as many.

    A flat tile is thus folded up, its neighbours along the long side pulled apart.
    """
    sizes = _tile_sizes(placement, variant)
    block = block_shape(placement.shape, math.prod(sizes))
    places = tiled(placement.shape, block)[: placement.n_tasks] // placement.capacity
    return _place_tasks(tiled(placement.grid, sizes), places)


def _block_names(placement: Placement) -> list[str]:
    """Boxes of the task grid with as many tasks as a node holds, compact first."""
    if placement.capacity == 1:
        return []
    compact = boxes(placement.grid, placement.capacity)
    compact.sort(key=lambda box: (max(box) - min(box), box))
    return [
        f"{_sizes_word(box)}-{name}" for box in compact[:4] for name in ("hilbert", "row", "zorder")
    ]


@register(
    "blocked-SIZES-CURVE",
    _block_names,
    example="blocked-2x2x1-hilbert",
    parameters="SIZES: a box of the task grid, here {grid}, a size for each of its dimensions; "
    f"CURVE: {_KINDS}",
)
def blocked(placement: Placement, variant: str, rng: Rng) -> NDArray[Any]:
    """Cut the task grid into boxes and fill node after node with them, both along one curve."""
    word, _, name = variant.partition("-")
    if name not in CURVES:
        raise VariantError
    box = _tile_sizes(placement, word)
    coarse = [-(-size // edge) for size, edge in zip(placement.grid, box, strict=True)]
    turn = np.empty(math.prod(coarse), dtype=np.int64)
    turn[CURVES[name](coarse)] = np.arange(turn.size)
    order = np.argsort(turn[tile_number(placement.grid, box)], kind="stable")
    node_order = CURVES[name](placement.torus.shape)
    return _place_tasks(order, node_order[np.arange(placement.n_tasks) // placement.capacity])


def _place_tasks(tasks: NDArray[Any], nodes: NDArray[Any]) -> NDArray[Any]:
    """Put the i-th of the tasks on the i-th of the nodes."""
    node = np.empty(tasks.size, dtype=np.int64)
    node[tasks] = nodes
    return node


def _tile_sizes(placement: Placement, word: str) -> tuple[int, ...]:
    sizes = read_sizes(word) or ()
    if len(sizes) != len(placement.grid) or min(sizes) < 1:
        raise VariantError
    return sizes


def _sizes_word(sizes: Sequence[int]) -> str:
    return "x".join(map(str, sizes))


SPLITS = ("tile", "divide", "mod")

_SPLIT_SHARES = (0.6, 0.2, 0.2)
_ORDERS = ("row", "zigzag", "zorder", "hilbert", "order", "tilt")
_ORDER_SHARES = (0.4, 0.15, 0.05, 0.05, 0.2, 0.15)
# A third of the names have a second level.
_DEEPER = 1 / 3
_MAX_NAMES = 600
# Names drawn in all; on small tori most are drawn again and again.
_DRAWS = 2 * _MAX_NAMES

DIGITS = "0123456789"
"""Names of the axes of a task grid."""
_SPLIT = re.compile(rf"({'|'.join(SPLITS)})([0-9]{{1,9}}(?:x[0-9]{{1,9}})*)")
_TILT = re.compile(r"tilt(\w)(\w)([1-9][0-9]{0,8})?")
_PERMUTED = re.compile(r"order(\w+)")


Shapes = tuple[tuple[int, ...], tuple[int, ...]]


def draw_variants(placement: Placement) -> list[str]:
    """Draw the variants, the same each time; one at most unless the tasks fill all places."""
    shapes = (placement.grid, placement.shape)
    if math.prod(shapes[0]) != math.prod(shapes[1]):
        return [name for name in [_plain_name(shapes)] if name]
    rng = np.random.default_rng(0)
    letters = (DIGITS, placement.letters)
    found = dict.fromkeys([_plain_name(shapes)])
    found |= dict.fromkeys(_drawn_name(rng, shapes, letters) for _ in range(_DRAWS))
    return [name for name in found if name][:_MAX_NAMES]


def _plain_name(shapes: Shapes) -> str:
    """Return the name of the smallest blocks, row by row."""
    for volume in divisors(math.prod(shapes[0]))[1:-1]:
        ours, theirs = (boxes(shape, volume) for shape in shapes)
        if ours and theirs:
            pair = (max(some, key=lambda box: (-max(box), box)) for some in (ours, theirs))
            return "-".join(f"row_tile{'x'.join(map(str, box))}_row" for box in pair)
    return ""


def _drawn_name(rng: Rng, shapes: Shapes, letters: tuple[str, str]) -> str:
    """Draw a name; an empty one where no blocks of both sides have as many cells."""
    words: list[list[str]] = [[], []]
    for _ in range(1 + int(rng.random() < _DEEPER)):
        blocks = _drawn_blocks(rng, shapes)
        if blocks is None:
            break
        for side, (whole, block) in enumerate(zip(shapes, blocks, strict=True)):
            counts = tuple(n // k for n, k in zip(whole, block, strict=True))
            split = str(rng.choice(SPLITS, p=_SPLIT_SHARES))
            given = block if split == "tile" else counts
            words[side] += [
                _drawn_order(rng, counts, letters[side]),
                split + "x".join(map(str, given)),
            ]
        shapes = blocks
    if not words[0]:
        return ""
    for side, whole in enumerate(shapes):
        words[side].append(_drawn_order(rng, whole, letters[side]))
    return "-".join("_".join(side) for side in words)


def _drawn_blocks(rng: Rng, shapes: Shapes) -> Shapes | None:
    """Draw blocks of both sides with as many cells, not one and not all."""
    for volume in rng.permutation(divisors(math.prod(shapes[0]))[1:-1]).tolist():
        ours, theirs = (boxes(shape, volume) for shape in shapes)
        if ours and theirs:
            return ours[rng.integers(len(ours))], theirs[rng.integers(len(theirs))]
    return None


def _drawn_order(rng: Rng, shape: Sequence[int], letters: str) -> str:
    """Draw the order of the cells of a level."""
    long = [axis for axis, size in enumerate(shape) if size > 1]
    word = str(rng.choice(_ORDERS, p=_ORDER_SHARES))
    if len(long) < 2:
        return "row"
    axes = rng.permutation(long).tolist()
    if word == "order":
        return word + "".join(letters[axis] for axis in axes)
    if word == "tilt":
        hops = int(rng.integers(1, shape[axes[0]]))
        return f"tilt{letters[axes[0]]}{letters[axes[1]]}{hops if hops > 1 else ''}"
    return word


@register(
    "nested-TASKS-NODES",
    draw_variants,
    example="nested-row_tile2x2x2_zigzag-row_tile2x2x2x1_row",
    parameters="TASKS, of {grid}, and NODES, of {letters}: ORDER_SPLIT_ORDER, perhaps more "
    "_SPLIT_ORDER; SPLIT: tile, divide or mod, and numbers such as 2x2x1; ORDER: row, zigzag, "
    "zorder, hilbert, order10 (orderYX of nodes) or tilt01 (tiltXY)",
    sampled=False,
)
def nested(placement: Placement, variant: str, rng: Rng) -> NDArray[Any]:
    """Put the tasks of a block of their grid on a block of the torus and its slots, level by level.

    Each side is visited block after block, the blocks in one order, the cells of a block in the
    next; the i-th task goes to the i-th place.
    """
    tasks, _, nodes = variant.partition("-")
    ours, our_volumes = _visit_cells(placement.grid, tasks, DIGITS)
    theirs, their_volumes = _visit_cells(placement.shape, nodes, placement.letters)
    if our_volumes != their_volumes:
        raise VariantError
    return _place_tasks(ours, theirs[: placement.n_tasks] // placement.capacity)


def _visit_cells(
    shape: Sequence[int], text: str, letters: str
) -> tuple[NDArray[np.int64], list[int]]:
    """Return the cells block after block, and the cells that a block of each level has."""
    words = text.split("_")
    if len(words) < 3 or len(words) % 2 == 0:
        raise VariantError
    cells = np.indices(shape).reshape(len(shape), -1)
    turn = np.zeros(cells.shape[1], dtype=np.int64)
    volumes = []
    for word, split in itertools.zip_longest(words[::2], words[1::2]):
        blocks, which, within = tuple(shape), cells, cells
        if split is not None:
            blocks, shape = _split_sizes(split, shape)
            volumes.append(math.prod(shape))
            by = np.array(blocks if split.startswith("mod") else shape)[:, None]
            which, within = cells // by, cells % by
            if split.startswith("mod"):
                which, within = within, which
        order = _cell_order(blocks, word, letters)
        place = np.empty(order.size, dtype=np.int64)
        place[order] = np.arange(order.size)
        turn = turn * order.size + place[np.ravel_multi_index(tuple(which), blocks)]
        cells = within
    return np.argsort(turn, kind="stable"), volumes


def _split_sizes(split: str, shape: Sequence[int]) -> Shapes:
    """Return the number of blocks along each axis, and the sizes of a block."""
    match = _SPLIT.fullmatch(split)
    given = tuple(map(int, match[2].split("x"))) if match else ()
    if len(given) != len(shape) or any(k == 0 or n % k for n, k in zip(shape, given, strict=True)):
        raise VariantError
    other = tuple(n // k for n, k in zip(shape, given, strict=True))
    return (other, given) if split.startswith("tile") else (given, other)


def _cell_order(shape: Sequence[int], word: str, letters: str) -> NDArray[np.int64]:
    """Return the cells of a level in the order of a word."""
    if word in CURVES:
        return CURVES[word](shape)
    if match := _PERMUTED.fullmatch(word):
        return permuted(shape, axes_of(match[1], letters[: len(shape)], shape))
    if match := _TILT.fullmatch(word):
        moved, along = letters.find(match[1]), letters.find(match[2])
        if moved == along or not 0 <= min(moved, along) <= max(moved, along) < len(shape):
            raise VariantError
        coords = np.indices(shape).reshape(len(shape), -1)
        coords[moved] = (coords[moved] + int(match[3] or 1) * coords[along]) % shape[moved]
        return np.asarray(np.ravel_multi_index(tuple(coords), tuple(shape)), dtype=np.int64)
    raise VariantError
