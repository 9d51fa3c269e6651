"""Kernels of minimal adaptive routing: expected loads of an even split.

Letters in the comments: N nodes, D dimensions, E edges, M offsets.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from toruscast._jit import bare_kernel, kernel, trailing_zeros

from .offsets import OffsetTable
from .route_kernels import Grid


@kernel
def merge_pairs(
    n_nodes: int,
    dst: NDArray[np.integer],
    first: NDArray[np.int64],
    node: NDArray[np.integer],
    by_node: NDArray[np.int64],
    weight: NDArray[np.float64],
    here: NDArray[np.int32],
    there: NDArray[np.int32],
    merged: NDArray[np.float64],
) -> int:
    """Add up the weights between each two nodes; return how many pairs there are.

    (E,) (T + 1,) (T,) (T,) (E,) -> (E,) (E,) (E,), of which so many are filled. ``by_node``
    lists the tasks ordered by node.
    """
    place = np.full(n_nodes, -1, dtype=np.int64)
    count = 0
    at = 0
    while at < by_node.size:
        start = node[by_node[at]]
        begin = count
        while at < by_node.size and node[by_node[at]] == start:
            task = by_node[at]
            for e in range(first[task], first[task + 1]):
                end = node[dst[e]]
                if place[end] < 0:
                    place[end] = count
                    here[count], there[count], merged[count] = start, end, 0.0
                    count += 1
                merged[place[end]] += weight[e]
            at += 1
        for k in range(begin, count):
            place[there[k]] = -1
    return count


@kernel
def widen_reach(
    grid: Grid,
    start: NDArray[np.integer],
    end: NDArray[np.integer],
    minus: NDArray[np.int64],
    plus: NDArray[np.int64],
) -> None:
    """Widen the most hops each way to those of every edge. (E,) (E,) -> (D,) (D,)."""
    for e in range(start.size):
        for k in range(minus.size):
            gap = _gap(grid, start[e], end[e], k)
            plus[k] = max(plus[k], gap)
            # A tie may also be crossed in minus direction.
            tied = grid.wrap[k] and 2 * gap == grid.shape[k]
            minus[k] = max(minus[k], gap - 1 if tied else -gap)


@kernel
def add_adaptive_loads(
    grid: Grid,
    table: OffsetTable,
    start: NDArray[np.integer],
    end: NDArray[np.integer],
    by_end: NDArray[np.int64],
    weight: NDArray[np.float64],
    load: NDArray[np.float64],
) -> None:
    """Spread every edge evenly over its minimal routes. (E,) (E,) (E,) (E,) -> (N * 2 * D,).

    The share of the remaining minimal routes that begins along a dimension equals the share of the
    remaining hops along it. So all traffic to one node can be moved together, wherever it comes
    from, in at most N * D steps. Edge by edge, an all-to-all of 65,536 tasks takes a hundred times
    as long.

    ``by_end`` lists the edges ordered by destination.
    """
    ndim = grid.shape.size
    ports = 2 * ndim
    last = table.distance.size - 1
    flow = np.zeros(last + 1)
    # One bit for each offset with traffic; usually few of the offsets have any.
    filled = np.zeros((last >> 6) + 1, dtype=np.uint64)
    e = 0
    while e < by_end.size:
        target = end[by_end[e]]
        farthest = 0
        while e < by_end.size and end[by_end[e]] == target:
            edge = by_end[e]
            place = 0
            for k in range(ndim):
                gap = _gap(grid, start[edge], target, k)
                place += (gap + table.minus[k]) * table.stride[k]
            _put(table, place, weight[edge], flow, filled)
            farthest = max(farthest, table.distance[table.at[place]])
            e += 1
        # An offset passes traffic to later offsets, perhaps in the same word.
        for word in range(table.first[farthest] >> 6, filled.size):
            while filled[word] != 0:
                at = 64 * word + trailing_zeros(filled[word])
                filled[word] &= filled[word] - np.uint64(1)
                one_hop = flow[at] / max(table.distance[at], 1)
                flow[at] = 0
                place = int(table.place[at])
                node = 0
                for k in range(ndim):
                    c = np.int64(grid.coords[target, k]) - table.gap[at, k]
                    size = grid.shape[k]
                    node += (c + size * ((c < 0) - np.int64(c >= size))) * grid.stride[k]
                for k in range(ndim):
                    gap = int(table.gap[at, k])
                    if gap == 0:
                        continue
                    share = one_hop * abs(gap)
                    tied = grid.wrap[k] and 2 * gap == grid.shape[k]
                    if tied and not grid.tie.adaptive_fixed:
                        # A tie is as far the other way round, where a step leaves one hop less.
                        share /= 2
                        load[node * ports + 2 * k + 1] += share
                        _put(table, place + (1 - 2 * gap) * table.stride[k], share, flow, filled)
                    way = 1 if gap > 0 else -1
                    load[node * ports + 2 * k + (gap < 0)] += share
                    _put(table, place - way * table.stride[k], share, flow, filled)


@bare_kernel
def _gap(grid: Grid, start: int, end: int, k: int) -> int:
    """Return signed hops along one dimension; a tie counts as plus unless all ties go minus."""
    gap: int = np.int64(grid.coords[end, k]) - grid.coords[start, k]
    if grid.wrap[k]:
        size = grid.shape[k]
        gap += size * (gap < 0)
        odd = grid.tie.adaptive_fixed * (grid.coords[start, k] & 1)
        gap -= size * np.int64(2 * gap + (grid.tie.adaptive_minus | odd) > size)
    return gap


@bare_kernel
def _put(
    table: OffsetTable,
    place: int,
    amount: float,
    flow: NDArray[np.float64],
    filled: NDArray[np.uint64],
) -> None:
    """Add traffic at an offset."""
    at = np.int64(table.at[place])
    flow[at] += amount
    filled[at >> 6] |= np.uint64(1) << np.uint64(at & 63)
