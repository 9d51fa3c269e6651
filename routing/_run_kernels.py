"""Kernels over runs: the straight pieces of dimension-ordered routes.

A run is a node and the coordinate along one dimension that it is reached from. Under the tie rule
by the sum of coordinates, the parity of the destination's other coordinates belongs to it too.
Every route has one run a dimension, so a message costs one update a dimension without a branch.

Memory limits the speed on a large torus. So tasks are taken in blocks of neighbouring nodes whose
runs fit the cache (`by_block`), and the next task's messages are prefetched. A message carries the
coordinates of its destination in one word, written while tasks are still in their own order and
partners are near each other.

Letters in the comments: N nodes, D dimensions, R runs, C numbers of a run, E edges,
T tasks, L links.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from toruscast._jit import bare_kernel, inner_kernel, kernel
from toruscast._llvm import prefetch

from .route_kernels import Grid, goes_plus, is_halved
from .runs import RunTable

BLOCK_NODES = 1024
TASKS_AHEAD = 6


@kernel
def add_to_runs(
    table: RunTable,
    dst: NDArray[np.int32],
    first: NDArray[np.int64],
    node: NDArray[np.int32],
    weight: NDArray[np.int64],
    run: NDArray[np.int64],
    there: NDArray[np.int32],
) -> None:
    """Add the weight of every edge to its runs. (E,) (T + 1,) (T,) (E,) -> (R,)."""
    note_codes(table.code, node, dst, there)
    start = np.empty(table.base.size, dtype=np.int64)
    task = by_block(table, node, first)
    for n in range(task.shape[0]):
        soon = task[min(n + TASKS_AHEAD, task.shape[0] - 1)]
        for e in range(soon[1], soon[2], 8):
            prefetch(there, e)
            prefetch(weight, e)
        begin_runs(table, np.int64(table.code[task[n, 0]]), start)
        for e in range(task[n, 1], task[n, 2]):
            code = np.int64(there[e])
            amount = weight[e]
            for i in range(start.size):
                run[run_to(table, i, start[i], code)] += amount


@bare_kernel
def begin_runs(table: RunTable, here: np.int64, start: NDArray[np.int64]) -> None:
    """Find where the runs of the routes out of a node with a code begin. -> (D,)."""
    code = here & (table.plane - 1)
    for i in range(start.size):
        start[i] = run_from(table, i, code)


@bare_kernel
def run_from(table: RunTable, i: int, code: np.int64) -> np.int64:
    """Return where the runs along a dimension begin, for a source's code without its parity."""
    s = (code >> table.shift[i]) & table.mask[i]
    place: np.int64 = table.base[i] + s * table.parities * table.plane + (code & ~table.upto[i])
    return place


@bare_kernel
def runs_of(table: RunTable, i: int, node: int) -> np.int64:
    """Return where the runs along a dimension from a node on begin: earlier ones are behind it."""
    code = np.int64(table.code[node]) & (table.plane - 1)
    s = (code >> table.shift[i]) & table.mask[i]
    place: np.int64 = run_from(table, i, code) + (code & table.upto[i]) - (s << table.shift[i])
    return place


@bare_kernel
def run_to(table: RunTable, i: int, start: np.int64, code: np.int64) -> np.uint64:
    """Return the place of the run towards a code."""
    place = start + (code & table.upto[i])
    if table.parities == 2:
        place += (((code >> table.shift[-1]) ^ (code >> table.shift[i])) & 1) * table.plane
    return np.uint64(place)


@inner_kernel
def note_codes(
    code: NDArray[np.int32],
    node: NDArray[np.int32],
    dst: NDArray[np.int32],
    there: NDArray[np.int32],
) -> None:
    """Note the code of every edge's destination. (N,) (T,) (E,) -> (E,)."""
    for e in range(dst.size):
        there[e] = code[node[dst[e]]]


@inner_kernel
def by_block(
    table: RunTable, node: NDArray[np.int32], first: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Order tasks by the blocks of codes of their nodes. (T,) (T + 1,) -> (T, 3).

    Each has its node, its first edge and the one after its last: looked up by task, they would be
    far from each other, and every look would wait for memory.
    """
    place = np.zeros(table.plane // BLOCK_NODES + 2, dtype=np.int64)
    for t in range(node.size):
        place[(table.code[node[t]] & (table.plane - 1)) // BLOCK_NODES + 1] += 1
    for block in range(place.size - 1):
        place[block + 1] += place[block]
    task = np.empty((node.size, 3), dtype=np.int64)
    for t in range(node.size):
        block = (table.code[node[t]] & (table.plane - 1)) // BLOCK_NODES
        n = place[block]
        task[n, 0] = node[t]
        task[n, 1] = first[t]
        task[n, 2] = first[t + 1]
        place[block] = n + 1
    return task


@kernel
def spread_runs(
    grid: Grid, table: RunTable, run: NDArray[np.int64], load: NDArray[np.int64]
) -> None:
    """Add every run to its links. (R * C,) -> (C, L)."""
    ndim = grid.shape.size
    ports = 2 * ndim
    parities = table.parities
    columns = load.shape[0]
    for i in range(ndim):
        k = grid.order[i]
        size = grid.shape[k]
        stride = grid.stride[k]
        wrap = grid.wrap[k] == 1
        # The line is laid out twice, so that a run begins and ends once, whether it wraps or not.
        plus = np.zeros(2 * size + 1, dtype=np.int64)
        minus = np.zeros(2 * size + 1, dtype=np.int64)
        for start in range(grid.coords.shape[0]):
            if grid.coords[start, k] != 0:
                continue
            code = np.int64(table.code[start]) & (table.plane - 1)
            for column in range(columns):
                plus[:] = 0
                minus[:] = 0
                for place in range(size * parities):
                    s, parity = place // parities, place % parities
                    first = table.base[i] + place * table.plane + code
                    for t in range(size):
                        w = run[(first + (t << table.shift[i])) * columns + column]
                        if w == 0 or s == t:
                            continue
                        up = w if goes_plus(s, t, size, wrap, grid.tie, parity) else np.int64(0)
                        if is_halved(s, t, size, wrap, grid.tie):
                            up = w - w // 2
                        plus[s] += up
                        plus[t if t > s else t + size] -= up
                        # In minus direction the line is read from its far end.
                        minus[size - 1 - s] += w - up
                        minus[size - 1 - t if t < s else 2 * size - 1 - t] -= w - up
                upward = np.int64(0)
                downward = np.int64(0)
                for c in range(2 * size):
                    upward += plus[c]
                    downward += minus[c]
                    at = c % size
                    load[column, (start + at * stride) * ports + 2 * k] += upward
                    load[column, (start + (size - 1 - at) * stride) * ports + 2 * k + 1] += downward


@kernel
def sum_over_runs(
    grid: Grid,
    table: RunTable,
    load: NDArray[np.float64],
    along: NDArray[np.float64],
) -> None:
    """Find the sum and maximum of the loads along every run. (L,) -> (R, 2)."""
    ndim = grid.shape.size
    parities = table.parities
    for i in range(ndim):
        k = grid.order[i]
        size = grid.shape[k]
        wrap = grid.wrap[k] == 1
        for place in range(grid.coords.shape[0] * parities):
            node, parity = place // parities, place % parities
            s = int(grid.coords[node, k])
            first = runs_of(table, i, node) + parity * table.plane
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
                    along[first + (t << table.shift[i]), 0] = on_run
                    along[first + (t << table.shift[i]), 1] = highest


@kernel
def sum_over_routes(
    table: RunTable,
    dst: NDArray[np.int32],
    first: NDArray[np.int64],
    node: NDArray[np.int32],
    along: NDArray[np.float64],
    there: NDArray[np.int32],
) -> tuple[float, float, float]:
    """Find the largest sum along a route, the sum of sums and that of maxima.

    (E,) (T + 1,) (T,) (R, 2) -> (), (), (). Codes of destinations are noted in ``there``, (E,).
    """
    note_codes(table.code, node, dst, there)
    largest, total, most = 0.0, 0.0, 0.0
    start = np.empty(table.base.size, dtype=np.int64)
    task = by_block(table, node, first)
    for n in range(task.shape[0]):
        soon = task[min(n + TASKS_AHEAD, task.shape[0] - 1)]
        for e in range(soon[1], soon[2], 16):
            prefetch(there, e)
        begin_runs(table, np.int64(table.code[task[n, 0]]), start)
        for e in range(task[n, 1], task[n, 2]):
            code = np.int64(there[e])
            on_route = 0.0
            highest = 0.0
            for i in range(start.size):
                place = run_to(table, i, start[i], code)
                on_route += along[place, 0]
                highest = max(highest, along[place, 1])
            largest = max(largest, on_route)
            total += on_route
            most += highest
    return largest, total, most
