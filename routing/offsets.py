"""Offsets from a node within some reach, for loads of minimal adaptive routing."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class OffsetTable(NamedTuple):
    """Signed hops left along each dimension; the farthest offset comes first.

    The offset of some hops is ``at[place]``, where ``place`` is the sum of ``(hops + minus) *
    stride``.
    """

    gap: NDArray[np.int32]  # (M, D)
    distance: NDArray[np.int32]  # (M,)
    place: NDArray[np.int64]  # (M,)
    at: NDArray[np.int32]  # (M,) by place
    first: NDArray[np.int64]  # (farthest + 1,) first offset that is at most so far
    minus: NDArray[np.int64]  # (D,) most hops in minus direction
    stride: NDArray[np.int64]  # (D,)


def offset_table(minus: NDArray[np.int64], plus: NDArray[np.int64]) -> OffsetTable:
    """Return all offsets up to a number of hops in each direction of each dimension.

    Examples
    --------
    >>> offset_table(np.array([1, 0]), np.array([2, 0])).gap.tolist()
    [[2, 0], [-1, 0], [1, 0], [0, 0]]
    """
    size = minus + plus + 1
    stride = np.append(np.cumprod(size[:0:-1])[::-1], 1)
    every = np.arange(size.prod())
    distance = np.zeros(every.size, dtype=np.int32)
    for k, hops in enumerate(minus):
        distance += np.abs(every // stride[k] % size[k] - hops).astype(np.int32)
    place = np.argsort(-distance, kind="stable")
    at = np.empty(every.size, dtype=np.int32)
    at[place] = every
    gap = np.empty((every.size, size.size), dtype=np.int32)
    for k, hops in enumerate(minus):
        gap[:, k] = place // stride[k] % size[k] - hops
    distance = distance[place]
    first = np.searchsorted(-distance, -np.arange(np.maximum(minus, plus).sum() + 1))
    return OffsetTable(gap, distance, place, at, first, minus, stride)
