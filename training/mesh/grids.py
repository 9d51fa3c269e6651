"""Groups of chips that are boxes of the torus, and the rings along their dimensions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from toruscast.mapping import Torus


def product_grid(torus: Torus, lines: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Return groups as boxes: ``(n_groups, sizes...)`` along the dimensions that they span.

    A box has every combination of its coordinates, which need not lie side by side. None if some
    group is no box, or not all span as many places of the same dimensions.

    Examples
    --------
    >>> product_grid(Torus((4, 4)), np.array([[5, 0, 1, 4]])).tolist()
    [[[0, 1], [4, 5]]]
    >>> product_grid(Torus((4, 4)), np.array([[0, 1, 2, 4]])) is None
    True
    """
    # Nodes are numbered in C order, so a box sorted is one in C order.
    nodes = np.sort(lines, axis=1)
    coords = torus.coords[nodes]
    sizes = [np.unique(coords[0, :, d]).size for d in range(torus.ndim)]
    if np.prod(sizes) != lines.shape[1]:
        return None
    cells = coords.reshape(len(lines), *sizes, torus.ndim)
    for d in range(torus.ndim):
        along = cells[..., d]
        first = along
        for other in range(torus.ndim):
            if other != d:
                first = first.take([0], axis=other + 1)
        if not (along == first).all():
            return None
    return nodes.reshape(len(lines), *(size for size in sizes if size > 1))


Sent = tuple[int, int, float]


def turns(sizes: Sequence[int], nbytes: float) -> list[tuple[int, list[Sent]]]:
    """Return the rounds of a bucket reduce-scatter: how many in a row, and what is sent in each.

    A lane for each dimension and way carries its share of the buffer, first along its dimension,
    then along the next; each dimension leaves its share of the rest. A round lists its messages as
    dimension, way (0 plus, 1 minus) and bytes.

    Examples
    --------
    >>> turns((2, 2), 16)[0]
    (1, [(0, 0, 2.0), (1, 0, 2.0), (0, 1, 2.0), (1, 1, 2.0)])
    """
    ndim = len(sizes)
    lanes: list[list[Sent]] = []
    for way in (0, 1):
        for first in range(ndim):
            block = nbytes / (2 * ndim)
            lane: list[Sent] = []
            for turn in range(ndim):
                d = (first + turn) % ndim
                block /= sizes[d]
                lane += [(d, way, block)] * (sizes[d] - 1)
            lanes.append(lane)
    rounds: list[tuple[int, list[Sent]]] = []
    for sent in map(list, zip(*lanes, strict=True)):
        if rounds and rounds[-1][1] == sent:
            rounds[-1] = (rounds[-1][0] + 1, sent)
        else:
            rounds.append((1, sent))
    return rounds
