"""Kernel of minimal adaptive routing: expected loads of an even split.

Letters in the comments: N nodes, D dimensions, E edges.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from toruscast.mapping._jit import kernel

from ._route_kernels import Grid


@kernel
def add_adaptive_loads(
    grid: Grid,
    start: NDArray[np.int32],
    end: NDArray[np.int32],
    weight: NDArray[np.float64],
    log_factorial: NDArray[np.float64],
    load: NDArray[np.float64],
) -> None:
    """Spread every edge evenly over its minimal routes. (E,) (E,) (E,) -> (N * 2 * D,).

    Both ways of a tie are minimal.

    The share of routes that pass a node of the box between the ends and leave it along one
    dimension is (routes to there) x (routes on from there) / (all routes), each a multinomial.
    Edges of one offset share these numbers: sorted by offset, they are worked out once for all of
    them.
    """
    ndim = grid.shape.size
    ports = 2 * ndim
    span = np.empty(ndim, dtype=np.int64)
    sign = np.empty(ndim, dtype=np.int64)
    tied = np.empty(ndim, dtype=np.int64)
    at = np.empty(ndim, dtype=np.int64)
    e = 0
    while e < start.size:
        ties = 0
        total = 0
        for k in range(ndim):
            gap = np.int64(grid.coords[end[e], k]) - grid.coords[start[e], k]
            size = grid.shape[k]
            if grid.wrap[k]:
                gap += size * (gap < 0)
                tied[k] = gap > 0 and 2 * gap == size
                sign[k] = 1 if 2 * gap <= size else -1
                span[k] = gap if 2 * gap <= size else size - gap
            else:
                tied[k] = 0
                sign[k] = 1 if gap >= 0 else -1
                span[k] = abs(gap)
            ties += tied[k]
            total += span[k]
        same = e + 1
        while same < start.size and _same_offset(grid, start, end, e, same):
            same += 1
        every = log_factorial[total] + ties * np.log(2.0)
        for k in range(ndim):
            every -= log_factorial[span[k]]
        for ways in range(1 << ties):
            bit = 0
            for k in range(ndim):
                if tied[k]:
                    sign[k] = 1 - 2 * ((ways >> bit) & 1)
                    bit += 1
            at[:] = 0
            done = total == 0
            while not done:
                before = 0
                ways_to = 0.0
                ways_on = 0.0
                for k in range(ndim):
                    before += at[k]
                    ways_to -= log_factorial[at[k]]
                    ways_on -= log_factorial[span[k] - at[k]]
                ways_to += log_factorial[before]
                for k in range(ndim):
                    ahead = span[k] - at[k]
                    if ahead == 0:
                        continue
                    # One step along k turns ahead! into (ahead - 1)!.
                    on = ways_on + log_factorial[total - before - 1] + np.log(ahead)
                    share = np.exp(ways_to + on - every)
                    port = 2 * k + (0 if sign[k] > 0 else 1)
                    for f in range(e, same):
                        node = 0
                        for i in range(ndim):
                            c = grid.coords[start[f], i] + sign[i] * at[i]
                            size = grid.shape[i]
                            node += (c + size * ((c < 0) - (c >= size))) * grid.stride[i]
                        load[node * ports + port] += weight[f] * share
                done = True
                for k in range(ndim):
                    at[k] += 1
                    if at[k] <= span[k]:
                        done = False
                        break
                    at[k] = 0
        e = same


@kernel
def _same_offset(
    grid: Grid, start: NDArray[np.int32], end: NDArray[np.int32], e: int, f: int
) -> bool:
    for k in range(grid.shape.size):
        a = np.int64(grid.coords[end[e], k]) - grid.coords[start[e], k]
        b = np.int64(grid.coords[end[f], k]) - grid.coords[start[f], k]
        if grid.wrap[k]:
            a += grid.shape[k] * (a < 0)
            b += grid.shape[k] * (b < 0)
        if a != b:
            return False
    return True
