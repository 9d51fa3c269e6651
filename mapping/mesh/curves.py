"""Orders in which an axis walks the pieces that it has: line by line, as a snake, round a loop."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Curve(NamedTuple):
    """An order of the cells of a grid."""

    name: str
    steps: NDArray[np.int64]  # (cells, dimensions of the grid)


def curves(sizes: Sequence[int]) -> list[Curve]:
    """Return the orders of a grid's cells that an axis may take, the plainest first.

    Examples
    --------
    >>> [curve.name for curve in curves((4,))]
    ['in order', 'folded']
    >>> curves((2, 2))[2].steps.tolist()
    [[0, 0], [0, 1], [1, 1], [1, 0]]
    """
    if len(sizes) == 0:
        return [Curve("in order", np.zeros((1, 0), dtype=np.int64))]
    if len(sizes) == 1:
        line = np.arange(sizes[0])[:, None]
        # There over the even places and back over the odd ones: no step is longer than two.
        folded = np.concatenate([line[::2], line[1::2][::-1]])
        return [Curve("in order", line), Curve("folded", folded)][: 2 if sizes[0] > 3 else 1]
    found = []
    orders = list(permutations(range(len(sizes))))
    for name, walk in (("in order", _in_order), ("a loop", loop), ("a snake", snake)):
        for order in orders:
            cells = walk([sizes[d] for d in order])
            if cells is not None:
                back = np.empty_like(cells)
                back[:, list(order)] = cells
                found.append(Curve(name, back))
    return found


def _in_order(sizes: Sequence[int]) -> NDArray[np.int64]:
    return np.indices(sizes).reshape(len(sizes), -1).T


def snake(sizes: Sequence[int]) -> NDArray[np.int64]:
    """Return a walk over all cells in steps between neighbours, the last dimension fastest.

    Examples
    --------
    >>> snake((2, 3)).tolist()
    [[0, 0], [0, 1], [0, 2], [1, 2], [1, 1], [1, 0]]
    """
    cells = _in_order(sizes)
    before = np.zeros(len(cells), dtype=np.int64)
    for d, size in enumerate(sizes):
        # A line is walked backwards if an odd number of lines was walked before it.
        lines = before.copy()
        before = before * size + cells[:, d]
        cells[:, d] = np.where(lines % 2, size - 1 - cells[:, d], cells[:, d])
    return cells


def loop(sizes: Sequence[int]) -> NDArray[np.int64] | None:
    """Return a walk that ends beside its start; None if the first size is odd or another is 1.

    With the dimensions behind the first as one line (a snake), the walk goes there and back over
    all but the first place of each line, and home over those.

    Examples
    --------
    >>> loop((4, 3)).tolist()[:4], loop((4, 3)).tolist()[-3:]
    ([[0, 0], [0, 1], [0, 2], [1, 2]], [[3, 0], [2, 0], [1, 0]])
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
