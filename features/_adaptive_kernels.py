"""Kernel of minimal adaptive routing: expected loads of an even split.

Letters in the comments: N nodes, D dimensions, E edges, M offsets.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from toruscast.mapping._jit import kernel, trailing_zeros

from ._route_kernels import Grid
from .offsets import OffsetTable


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

    Of the minimal routes that are left, as large a share begins with a step along one dimension as
    of the hops left are along it: what goes to one node, from wherever, can go on together. All
    that is on its way to a node takes N * D steps then; edge by edge, an all-to-all of 65,536 tasks
    took half a minute for what is less than a second's work.

    ``by_end`` lists the edges so that those of one end stand together.
    """
    ndim = grid.shape.size
    ports = 2 * ndim
    last = table.distance.size - 1
    flow = np.zeros(last + 1)
    # A bit for each offset that something is at: of many they are few, as a rule.
    filled = np.zeros((last >> 6) + 1, dtype=np.uint64)
    e = 0
    while e < by_end.size:
        target = end[by_end[e]]
        farthest = 0
        while e < by_end.size and end[by_end[e]] == target:
            edge = by_end[e]
            place = 0
            for k in range(ndim):
                gap = np.int64(grid.coords[target, k]) - grid.coords[start[edge], k]
                place += (gap + table.shift[k] + (gap < 0) * table.wrap[k]) * table.stride[k]
            at = np.int64(table.at[place])
            flow[at] += weight[edge]
            filled[at >> 6] |= np.uint64(1) << np.uint64(at & 63)
            farthest = max(farthest, table.distance[at])
            e += 1
        # What an offset passes on comes later, perhaps in the same word.
        for word in range(table.first[farthest] >> 6, filled.size):
            while filled[word] != 0:
                at = 64 * word + trailing_zeros(filled[word])
                filled[word] &= filled[word] - np.uint64(1)
                amount = flow[at]
                flow[at] = 0
                if at == last:
                    break
                node = 0
                for k in range(ndim):
                    c = np.int64(grid.coords[target, k]) - table.gap[at, k]
                    size = grid.shape[k]
                    node += (c + size * ((c < 0) - np.int64(c >= size))) * grid.stride[k]
                for port in range(ports):
                    share = amount * table.share[at, port]
                    behind = np.int64(table.next[at, port])
                    load[node * ports + port] += share
                    flow[behind] += share
                    filled[behind >> 6] |= np.uint64(1) << np.uint64(behind & 63)
