"""Kernels over runs: the straight pieces of dimension-ordered routes.

A run is a node and a coordinate to reach along one dimension, and under the tie rule by the sum of
coordinates also the parity of the destination's other coordinates. Of every route there is one run
a dimension, and which one follows from two table rows, one of the source and one of the
destination, so that a message costs one update a dimension without a branch. Letters in the
comments: N nodes, D dimensions, R = N * (sum of the sizes) * parities runs, E edges, T tasks,
L links.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from toruscast.mapping._jit import kernel

from ._route_kernels import Grid, goes_plus, is_halved


@kernel
def add_to_runs(
    begin: NDArray[np.int32],
    end: NDArray[np.int32],
    src: NDArray[np.int32],
    dst: NDArray[np.int32],
    node: NDArray[np.int32],
    weight: NDArray[np.int64],
    run: NDArray[np.int64],
) -> None:
    """Add the weight of every edge to its runs. (N, D) (N, D) (E,) (E,) (T,) (E,) -> (R,)."""
    for e in range(src.size):
        a = node[src[e]]
        b = node[dst[e]]
        w = weight[e]
        for i in range(begin.shape[1]):
            run[begin[a, i] + end[b, i]] += w


@kernel
def spread_runs(grid: Grid, parities: int, run: NDArray[np.int64], load: NDArray[np.int64]) -> None:
    """Add every run to its links. (R,) -> (L,)."""
    ndim = grid.shape.size
    ports = 2 * ndim
    base = np.int64(0)
    for i in range(ndim):
        k = grid.order[i]
        size = grid.shape[k]
        stride = grid.stride[k]
        wrap = grid.wrap[k] == 1
        # Marks along a line laid out twice: where a run, wrapping or not, begins and ends.
        plus = np.zeros(2 * size + 1, dtype=np.int64)
        minus = np.zeros(2 * size + 1, dtype=np.int64)
        for start in range(grid.coords.shape[0]):
            if grid.coords[start, k] != 0:
                continue
            plus[:] = 0
            minus[:] = 0
            for place in range(size * parities):
                s, parity = place // parities, place % parities
                first = base + ((start + s * stride) * parities + parity) * size
                for t in range(size):
                    w = run[first + t]
                    if w == 0 or s == t:
                        continue
                    up = w if goes_plus(s, t, size, wrap, grid.tie, parity) else np.int64(0)
                    if is_halved(s, t, size, wrap, grid.tie):
                        up = w - w // 2
                    plus[s] += up
                    plus[t if t > s else t + size] -= up
                    # Downwards the line is read from its far end.
                    minus[size - 1 - s] += w - up
                    minus[size - 1 - t if t < s else 2 * size - 1 - t] -= w - up
            upward = np.int64(0)
            downward = np.int64(0)
            for c in range(2 * size):
                upward += plus[c]
                downward += minus[c]
                at = c % size
                load[(start + at * stride) * ports + 2 * k] += upward
                load[(start + (size - 1 - at) * stride) * ports + 2 * k + 1] += downward
        base += grid.coords.shape[0] * size * parities


@kernel
def sum_over_runs(
    grid: Grid,
    parities: int,
    load: NDArray[np.float64],
    total: NDArray[np.float64],
    most: NDArray[np.float64],
) -> None:
    """Sum and maximum of the loads along every run. (L,) -> (R,) (R,)."""
    ndim = grid.shape.size
    base = np.int64(0)
    for i in range(ndim):
        k = grid.order[i]
        size = grid.shape[k]
        wrap = grid.wrap[k] == 1
        for place in range(grid.coords.shape[0] * parities):
            node, parity = place // parities, place % parities
            s = int(grid.coords[node, k])
            first = base + place * size
            for sign in range(2):
                step = 1 - 2 * sign
                here = node
                t = s
                on_run = 0.0
                highest = 0.0
                for _ in range(size - 1):
                    value = load[here * 2 * ndim + 2 * k + sign]
                    t += step
                    here += step * grid.stride[k]
                    if t == size or t < 0:
                        t -= step * size
                        here -= step * size * grid.stride[k]
                    if goes_plus(s, t, size, wrap, grid.tie, parity) != (sign == 0):
                        break
                    on_run += value
                    highest = max(highest, value)
                    total[first + t] = on_run
                    most[first + t] = highest
        base += grid.coords.shape[0] * size * parities


@kernel
def sum_over_routes(
    begin: NDArray[np.int32],
    end: NDArray[np.int32],
    src: NDArray[np.int32],
    dst: NDArray[np.int32],
    node: NDArray[np.int32],
    run_total: NDArray[np.float64],
    run_most: NDArray[np.float64],
    total: NDArray[np.float64],
    most: NDArray[np.float64],
) -> None:
    """Sum and maximum over the runs of every edge. (R,) (R,) -> (E,) (E,)."""
    for e in range(src.size):
        a = node[src[e]]
        b = node[dst[e]]
        on_route = 0.0
        highest = 0.0
        for i in range(begin.shape[1]):
            place = begin[a, i] + end[b, i]
            on_route += run_total[place]
            highest = max(highest, run_most[place])
        total[e] = on_route
        most[e] = highest
