"""Placements along one curve over the task grid and one over the torus: tiles, boxes, Hilbert."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .orders import hilbert, tile_number, tiled, z_order, zigzag
from .placement import Placement, block_shape, boxes
from .registry import bad_variant, register

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
    block = block_shape(placement.shape, math.prod(sizes))
    places = tiled(placement.shape, block)[: placement.n_tasks] // placement.capacity
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
