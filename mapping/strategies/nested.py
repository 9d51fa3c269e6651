"""Placements along curves and in nested blocks, as in Rubik."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toruscast.typing import Ints
from toruscast.validation import read_sizes

from ..patterns import format_sizes
from .orders import (
    divisors,
    find_block_shape,
    list_boxes,
    number_tiles,
    order_by_axes,
    order_by_tile,
    order_hilbert,
    order_z_curve,
    order_zigzag,
)
from .permute import parse_axes
from .registry import Placement, Rng, VariantError, register

CURVES: dict[str, Callable[[Sequence[int]], Ints]] = {
    "row": lambda shape: np.arange(math.prod(shape)),
    "zigzag": lambda shape: order_zigzag(shape, range(len(shape))),
    "zorder": order_z_curve,
    "hilbert": order_hilbert,
}

_CURVE_LIST = f"{', '.join(list(CURVES)[:-1])} or {list(CURVES)[-1]}"


def _list_curves(placement: Placement) -> list[str]:
    same = [f"{name}-{name}" for name in CURVES]
    mixed = [f"{a}-{b}" for a, b in itertools.permutations(CURVES, 2)]
    # row-row and row-zigzag are the same as the strategies identity and zigzag.
    return [name for name in reversed(same + mixed) if name not in ("row-row", "row-zigzag")]


@register(
    "curve-TASKS-NODES",
    _list_curves,
    example="curve-hilbert-row",
    parameters=f"TASKS: curve along the task grid; NODES: along the torus; each {_CURVE_LIST}",
)
def curve(placement: Placement, variant: str, rng: Rng) -> NDArray[Any]:
    """Place the tasks, along a curve through their grid, on nodes along a curve through the torus.

    The curves are row, zigzag, zorder and hilbert.
    """
    tasks, _, nodes = variant.partition("-")
    if tasks not in CURVES or nodes not in CURVES:
        raise VariantError
    node_order = CURVES[nodes](placement.torus.shape)
    task_nodes = node_order[np.arange(placement.n_tasks) // placement.capacity]
    return _place_in_order(CURVES[tasks](placement.grid), task_nodes)


def _list_tiles(placement: Placement) -> list[str]:
    """Return cubes, slabs and rods of the task grid, small tiles first."""
    grid = placement.grid
    tiles = []
    for edge in (2, 4, 3, 8, 16):
        if edge <= max(grid):
            tiles.append(tuple(min(edge, size) for size in grid))
            for d in range(len(grid)):
                tiles.append(tuple(1 if d == e else min(edge, k) for e, k in enumerate(grid)))
                tiles.append(tuple(1 if d != e else min(edge, k) for e, k in enumerate(grid)))
    names = [format_sizes(tile) for tile in tiles if 1 < math.prod(tile) < placement.n_tasks]
    return list(dict.fromkeys(names))


@register(
    "tile-SIZES",
    _list_tiles,
    example="tile-2x2x2",
    parameters="SIZES: size of a tile in each dimension of the task grid, here {grid}",
)
def tile(placement: Placement, variant: str, rng: Rng) -> NDArray[Any]:
    """Place tiles of the task grid on near-cubic blocks of nodes, and fill all slots of a node.

    Tasks that are neighbours in a flat tile can be far apart in its block.
    """
    sizes = _parse_tile(placement, variant)
    block = find_block_shape(placement.shape, math.prod(sizes))
    nodes = order_by_tile(placement.shape, block)[: placement.n_tasks] // placement.capacity
    return _place_in_order(order_by_tile(placement.grid, sizes), nodes)


def _list_boxes_and_curves(placement: Placement) -> list[str]:
    """Return boxes of the task grid that fill a node, compact boxes first."""
    if placement.capacity == 1:
        return []
    boxes = list_boxes(placement.grid, placement.capacity)
    boxes.sort(key=lambda box: (max(box) - min(box), box))
    curves = ("hilbert", "row", "zorder")
    return [f"{format_sizes(box)}-{name}" for box in boxes[:4] for name in curves]


@register(
    "blocked-SIZES-CURVE",
    _list_boxes_and_curves,
    example="blocked-2x2x1-hilbert",
    parameters="SIZES: size of a box in each dimension of the task grid, here {grid}; "
    f"CURVE: {_CURVE_LIST}",
)
def blocked(placement: Placement, variant: str, rng: Rng) -> NDArray[Any]:
    """Divide the task grid into boxes and fill the nodes with them, both along the same curve."""
    sizes, _, name = variant.partition("-")
    if name not in CURVES:
        raise VariantError
    box = _parse_tile(placement, sizes)
    coarse = [-(-size // edge) for size, edge in zip(placement.grid, box, strict=True)]
    position = np.argsort(CURVES[name](coarse))
    order = np.argsort(position[number_tiles(placement.grid, box)], kind="stable")
    node_order = CURVES[name](placement.torus.shape)
    return _place_in_order(order, node_order[np.arange(placement.n_tasks) // placement.capacity])


def _place_in_order(tasks: NDArray[Any], nodes: NDArray[Any]) -> NDArray[Any]:
    """Place the i-th of ``tasks`` on the i-th of ``nodes``; return the node of each task."""
    node = np.empty(tasks.size, dtype=np.int64)
    node[tasks] = nodes
    return node


def _parse_tile(placement: Placement, text: str) -> tuple[int, ...]:
    """Return the sizes of a tile of the task grid."""
    sizes = read_sizes(text) or ()
    if len(sizes) != len(placement.grid) or min(sizes) < 1:
        raise VariantError
    return sizes


SPLITS = ("tile", "divide", "mod")
# Probabilities with which names are drawn: of each split, of each order, and of a second level.
_SPLIT_SHARES = (0.6, 0.2, 0.2)
_ORDERS = ("row", "zigzag", "zorder", "hilbert", "order", "tilt")
_ORDER_SHARES = (0.4, 0.15, 0.05, 0.05, 0.2, 0.15)
_SECOND_LEVEL = 1 / 3
_MAX_NAMES = 600
# More draws than names, because some draws repeat, especially on small tori.
_DRAWS = 2 * _MAX_NAMES

DIGITS = "0123456789"
"""Names of the axes of a task grid."""
_SPLIT = re.compile(rf"({'|'.join(SPLITS)})([0-9]{{1,9}}(?:x[0-9]{{1,9}})*)")
_TILT = re.compile(r"tilt(\w)(\w)([1-9][0-9]{0,8})?")
_PERMUTED = re.compile(r"order(\w+)")


# The shapes of the task grid and of the torus with its slots, or of blocks of both.
ShapePair = tuple[tuple[int, ...], tuple[int, ...]]


def draw_variants(placement: Placement) -> list[str]:
    """Return variants drawn with a fixed seed; at most one unless the tasks fill all slots."""
    shapes = (placement.grid, placement.shape)
    names = dict.fromkeys([_find_simplest_name(shapes)])
    if math.prod(shapes[0]) == math.prod(shapes[1]):
        rng, letters = np.random.default_rng(0), (DIGITS, placement.letters)
        names |= dict.fromkeys(_draw_name(rng, shapes, letters) for _ in range(_DRAWS))
    return [name for name in names if name][:_MAX_NAMES]


def _find_simplest_name(shapes: ShapePair) -> str:
    """Return the variant with the smallest blocks, in row order; empty if there are no blocks."""
    for volume in divisors(math.prod(shapes[0]))[1:-1]:
        boxes = [list_boxes(shape, volume) for shape in shapes]
        if all(boxes):
            compact = (max(some, key=lambda box: (-max(box), box)) for some in boxes)
            return "-".join(f"row_tile{format_sizes(box)}_row" for box in compact)
    return ""


def _draw_name(rng: Rng, shapes: ShapePair, letters: tuple[str, str]) -> str:
    """Draw the name of a variant with one or two levels of blocks.

    The name is empty if no block of tasks has the same volume as a block of nodes. ``letters`` name
    the axes of the task grid and of the torus.
    """
    words: list[list[str]] = [[], []]
    for _ in range(1 + int(rng.random() < _SECOND_LEVEL)):
        blocks = _draw_blocks(rng, shapes)
        if blocks is None:
            break
        for side, (shape, block) in enumerate(zip(shapes, blocks, strict=True)):
            counts = tuple(n // k for n, k in zip(shape, block, strict=True))
            split = str(rng.choice(SPLITS, p=_SPLIT_SHARES))
            sizes = format_sizes(block if split == "tile" else counts)
            words[side] += [_draw_order(rng, counts, letters[side]), split + sizes]
        shapes = blocks
    if not words[0]:
        return ""
    for side, shape in enumerate(shapes):
        words[side].append(_draw_order(rng, shape, letters[side]))
    return "-".join("_".join(side) for side in words)


def _draw_blocks(rng: Rng, shapes: ShapePair) -> ShapePair | None:
    """Draw a block of tasks and a block of nodes that have the same volume."""
    for volume in rng.permutation(divisors(math.prod(shapes[0]))[1:-1]).tolist():
        tasks, nodes = (list_boxes(shape, volume) for shape in shapes)
        if tasks and nodes:
            return tasks[rng.integers(len(tasks))], nodes[rng.integers(len(nodes))]
    return None


def _draw_order(rng: Rng, shape: Sequence[int], letters: str) -> str:
    """Draw an order for a shape's cells; return the word that denotes it in names."""
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
    parameters="TASKS (of {grid}) and NODES (of {letters}): each ORDER_SPLIT_ORDER, optionally "
    "with further _SPLIT_ORDER; SPLIT: tile, divide or mod, and numbers such as 2x2x1; ORDER: row, "
    "zigzag, zorder, hilbert, order10 (orderYX of nodes) or tilt01 (tiltXY)",
    sampled=False,
)
def nested(placement: Placement, variant: str, rng: Rng) -> NDArray[Any]:
    """Place blocks of the task grid on blocks of the torus and its slots, level by level.

    Tasks and slots are both ordered by block, and within a block by cell. The i-th task takes the
    i-th slot.
    """
    tasks, _, nodes = variant.partition("-")
    task_order, task_volumes = _order_cells(placement.grid, tasks, DIGITS)
    slot_order, slot_volumes = _order_cells(placement.shape, nodes, placement.letters)
    if task_volumes != slot_volumes:
        raise VariantError
    return _place_in_order(task_order, slot_order[: placement.n_tasks] // placement.capacity)


def _order_cells(shape: Sequence[int], text: str, letters: str) -> tuple[Ints, list[int]]:
    """Return the cells of a shape in nested order, and the volume of a block at each level.

    The words of ``text`` are alternately an order of blocks and the split into these blocks. The
    last word is the order of cells within the smallest blocks.
    """
    words = text.split("_")
    if len(words) < 3 or len(words) % 2 == 0:
        raise VariantError
    cells = np.indices(shape).reshape(len(shape), -1)
    key = np.zeros(cells.shape[1], dtype=np.int64)
    volumes = []
    for word, split in itertools.zip_longest(words[::2], words[1::2]):
        n_blocks, block, within = tuple(shape), cells, cells
        if split is not None:
            n_blocks, shape = _split_shape(split, shape)
            volumes.append(math.prod(shape))
            divisor = np.array(n_blocks if split.startswith("mod") else shape)[:, None]
            block, within = cells // divisor, cells % divisor
            if split.startswith("mod"):
                block, within = within, block
        position = np.argsort(_order_level(n_blocks, word, letters))
        key = key * position.size + position[np.ravel_multi_index(tuple(block), n_blocks)]
        cells = within
    return np.argsort(key, kind="stable"), volumes


def _split_shape(split: str, shape: Sequence[int]) -> ShapePair:
    """Return the number of blocks along each axis, and the sizes of a block."""
    match = _SPLIT.fullmatch(split)
    sizes = tuple(map(int, match[2].split("x"))) if match else ()
    if len(sizes) != len(shape) or any(k == 0 or n % k for n, k in zip(shape, sizes, strict=True)):
        raise VariantError
    counts = tuple(n // k for n, k in zip(shape, sizes, strict=True))
    # A tile is given by its sizes, other splits by the number of blocks along each axis.
    return (counts, sizes) if match and match[1] == "tile" else (sizes, counts)


def _order_level(shape: Sequence[int], word: str, letters: str) -> Ints:
    """Return the cells of a level in the order that a word of a name denotes."""
    if word in CURVES:
        return CURVES[word](shape)
    if match := _PERMUTED.fullmatch(word):
        return order_by_axes(shape, parse_axes(match[1], letters[: len(shape)], shape))
    if match := _TILT.fullmatch(word):
        shifted, axis = letters.find(match[1]), letters.find(match[2])
        if shifted == axis or not 0 <= min(shifted, axis) <= max(shifted, axis) < len(shape):
            raise VariantError
        coords = np.indices(shape).reshape(len(shape), -1)
        coords[shifted] = (coords[shifted] + int(match[3] or 1) * coords[axis]) % shape[shifted]
        return np.asarray(np.ravel_multi_index(tuple(coords), tuple(shape)), dtype=np.int64)
    raise VariantError
