"""Names of nested placements: blocks of all shapes, each level in orders of all kinds."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from .placement import Placement, boxes

SPLITS = ("tile", "divide", "mod")

_SPLIT_SHARES = (0.6, 0.2, 0.2)
_ORDERS = ("row", "zigzag", "zorder", "hilbert", "order", "tilt")
_ORDER_SHARES = (0.4, 0.15, 0.05, 0.05, 0.2, 0.15)
# A third of the names have a second level.
_DEEPER = 1 / 3
_MOST = 600
# Names drawn in all; on small tori most are drawn again and again.
_DRAWS = 2 * _MOST
_DIGITS = "0123456789"

Shapes = tuple[tuple[int, ...], tuple[int, ...]]


def draw_variants(placement: Placement) -> list[str]:
    """Draw the variants, the same each time; one at most unless the tasks fill all places."""
    shapes = (placement.grid, (*placement.torus.shape, placement.capacity))
    if math.prod(shapes[0]) != math.prod(shapes[1]):
        return [name for name in [_plain(shapes)] if name]
    rng = np.random.default_rng(0)
    letters = (_DIGITS, placement.letters)
    found = dict.fromkeys([_plain(shapes)])
    found |= dict.fromkeys(_name(rng, shapes, letters) for _ in range(_DRAWS))
    return [name for name in found if name][:_MOST]


def _plain(shapes: Shapes) -> str:
    """Return the name of the smallest blocks, row by row."""
    for volume in _volumes(shapes):
        ours, theirs = (boxes(shape, volume) for shape in shapes)
        if ours and theirs:
            pair = (max(some, key=lambda box: (-max(box), box)) for some in (ours, theirs))
            return "-".join(f"row_tile{'x'.join(map(str, box))}_row" for box in pair)
    return ""


def _name(rng: np.random.Generator, shapes: Shapes, letters: tuple[str, str]) -> str:
    """Draw a name; an empty one where no blocks of both sides have as many cells."""
    words: list[list[str]] = [[], []]
    for _ in range(1 + int(rng.random() < _DEEPER)):
        blocks = _blocks(rng, shapes)
        if blocks is None:
            break
        for side, (whole, block) in enumerate(zip(shapes, blocks, strict=True)):
            counts = tuple(n // k for n, k in zip(whole, block, strict=True))
            split = str(rng.choice(SPLITS, p=_SPLIT_SHARES))
            given = block if split == "tile" else counts
            words[side] += [_order(rng, counts, letters[side]), split + "x".join(map(str, given))]
        shapes = blocks
    if not words[0]:
        return ""
    for side, whole in enumerate(shapes):
        words[side].append(_order(rng, whole, letters[side]))
    return "-".join("_".join(side) for side in words)


def _blocks(rng: np.random.Generator, shapes: Shapes) -> Shapes | None:
    """Draw blocks of both sides with as many cells, not one and not all."""
    for volume in rng.permutation(_volumes(shapes)).tolist():
        ours, theirs = (boxes(shape, volume) for shape in shapes)
        if ours and theirs:
            return ours[rng.integers(len(ours))], theirs[rng.integers(len(theirs))]
    return None


def _volumes(shapes: Shapes) -> list[int]:
    """Return the cells that a block may have, those of all being as many on both sides."""
    whole = math.prod(shapes[0])
    return [k for k in range(2, whole // 2 + 1) if whole % k == 0]


def _order(rng: np.random.Generator, shape: Sequence[int], letters: str) -> str:
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
