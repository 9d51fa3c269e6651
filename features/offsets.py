"""The ways from every offset to a node, for loads of minimal adaptive routing."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toruscast.mapping import Torus


class OffsetTable(NamedTuple):
    """Hops left to a node along some dimensions, the farthest offset first.

    The offset of a gap (target less own coordinate) along each dimension is ``at[place]``, where
    ``place`` is the sum of ``(gap + shift + (wrap if gap < 0)) * stride``. The last one is none.
    Where a port leads farther away, nothing of an offset goes through it, on to the last.
    """

    gap: NDArray[np.int32]  # (M, D) of a ring the shorter way, of a tie plus
    distance: NDArray[np.int32]  # (M,)
    first: NDArray[np.int64]  # (diameter + 1,) first offset that is not farther
    share: NDArray[np.float64]  # (M, 2 * D) of what is there that goes through each port
    next: NDArray[np.int32]  # (M, 2 * D) offset behind each port
    at: NDArray[np.int32]  # (M,) by place
    shift: NDArray[np.int64]  # (D,)
    wrap: NDArray[np.int64]  # (D,)
    stride: NDArray[np.int64]  # (D,)


@lru_cache(maxsize=8)
def offset_table(torus: Torus, dimensions: tuple[int, ...]) -> OffsetTable:
    """Return the offsets along some dimensions of a torus, none along the others.

    Examples
    --------
    >>> table = offset_table(Torus((4,)), (0,))
    >>> table.gap[:, 0], table.share[0]
    (array([ 2,  1, -1,  0], dtype=int32), array([0.5, 0.5]))
    """
    ndim = torus.ndim
    used = np.isin(np.arange(ndim), dimensions)
    shape, rings = np.array(torus.shape), np.array(torus.wrap) & used
    # A line has gaps of either sign, a ring as many as nodes.
    size = np.where(used, np.where(rings, shape, 2 * shape - 1), 1)
    shift = np.where(used & ~rings, shape - 1, 0)
    stride = np.append(np.cumprod(size[:0:-1])[::-1], 1)
    digit = np.arange(size.prod())[:, None] // stride % size
    gap = digit - shift
    gap -= np.where(rings & (2 * gap > shape), shape, 0)
    tied = rings & (gap != 0) & (2 * gap == shape)
    distance = np.abs(gap).sum(axis=1)
    order = np.argsort(-distance, kind="stable")
    at = np.empty_like(order)
    at[order] = np.arange(order.size)

    last = order.size - 1
    share, following = np.zeros((order.size, 2 * ndim)), np.full((order.size, 2 * ndim), last)
    for k in dimensions:
        part = np.abs(gap[:, k]) / np.maximum(distance, 1)
        for port, way in ((2 * k, 1), (2 * k + 1, -1)):
            goes = (gap[:, k] * way > 0) | tied[:, k]
            share[goes, port] = np.where(tied[goes, k], part[goes] / 2, part[goes])
            # One step nearer; on a ring from the last digit to none.
            stepped = (digit[goes, k] - way) % size[k] - digit[goes, k]
            following[goes, port] = at[np.flatnonzero(goes) + stepped * stride[k]]
    return OffsetTable(
        gap=gap[order].astype(np.int32),
        distance=distance[order].astype(np.int32),
        first=np.searchsorted(-distance[order], -np.arange(distance.max() + 1)),
        share=share[order],
        next=following[order].astype(np.int32),
        at=at.astype(np.int32),
        shift=shift,
        wrap=np.where(rings, shape, 0),
        stride=np.where(used, stride, 0),
    )
