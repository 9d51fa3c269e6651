"""Kernels of dual recursive bisection."""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toruscast._jit import kernel

from ._hop_bytes_kernels import torus_distance

OUTSIDE = 2


@kernel
def bisect_both(
    first: NDArray[Any],
    partner: NDArray[Any],
    nbytes: NDArray[Any],
    grid: NDArray[Any],
    shape: NDArray[Any],
    wrap: NDArray[Any],
    images: NDArray[Any],
    capacity: int,
    by_grid: bool,
    by_graph: bool,
    refined: bool,
) -> NDArray[Any]:
    # T = tasks, D = torus dimensions, G = grid dimensions, B = 2N - 1 boxes
    # first (T + 1,), partner and nbytes (edges,), grid (T, G), shape and wrap (D,) -> (T,)
    """Node of each task; boxes are halved in the order in which they arise, large ones first."""
    n_tasks, ndim = grid.shape[0], shape.size
    n_nodes = 1
    for size in shape:
        n_nodes *= size
    n_boxes = 2 * n_nodes - 1
    low = np.zeros((n_boxes, ndim), np.int64)
    high = np.zeros((n_boxes, ndim), np.int64)
    centre = np.zeros((n_boxes, ndim))
    span = np.zeros((n_boxes, 2), np.int64)
    high[0] = shape
    span[0, 1] = n_tasks
    tasks = np.arange(n_tasks)
    box_of = np.zeros(n_tasks, np.int64)
    side = np.full(n_tasks, OUTSIDE, np.int8)
    node = np.zeros(n_tasks, np.int64)
    bias = np.zeros(n_tasks)
    # Which grid dimensions were cut together with which dimensions of the torus.
    paired = np.zeros((grid.shape[1], ndim), np.bool_)
    used = 1
    for box in range(n_boxes):
        if box >= used:
            break
        start, stop = span[box]
        if start == stop:
            continue
        extent = high[box] - low[box]
        cut = np.argmax(extent)
        if extent[cut] == 1:
            number = 0
            for d in range(ndim):
                number = number * shape[d] + low[box, d]
            node[tasks[start:stop]] = number
            continue
        middle = low[box, cut] + extent[cut] // 2
        places = np.empty(2, np.int64)
        for half in range(2):
            child = used + half
            low[child], high[child] = low[box], high[box]
            if half == 0:
                high[child, cut] = middle
            else:
                low[child, cut] = middle
            places[half] = np.prod(high[child] - low[child]) * capacity
            centre[child] = (low[child] + high[child] - 1) / 2
        left, right = used, used + 1
        used += 2
        mine = tasks[start:stop].copy()
        share = (2 * mine.size * places[0] + places.sum()) // (2 * places.sum())
        n_left = min(max(share, mine.size - places[1]), places[0])
        gap = torus_distance(centre[left], centre[right], shape, wrap, images)
        for t in mine:
            side[t] = 0
            bias[t] = 0.0
        for t in mine:
            for e in range(first[t], first[t + 1]):
                if side[partner[e]] == OUTSIDE:
                    there = centre[box_of[partner[e]]]
                    bias[t] += nbytes[e] * (
                        torus_distance(centre[left], there, shape, wrap, images)
                        - torus_distance(centre[right], there, shape, wrap, images)
                    )
        # Among equals, a grid dimension stays with its dimension of the torus.
        rank = np.where(paired[:, cut], 0, np.where(_any_of_row(paired), 2, 1))
        preferred = np.argsort(rank, kind="mergesort")[: grid.shape[1] if by_grid else 0]
        best, along = _best_order(
            first, partner, nbytes, grid, mine, n_left, bias, gap, side, preferred, by_graph
        )
        if along >= 0:
            paired[along, cut] = True
        for i in range(mine.size):
            side[best[i]] = 0 if i < n_left else 1
        if refined:
            _refine(first, partner, nbytes, mine, bias, gap, side)
        i, j = start, start + n_left
        for t in mine:
            if side[t] == 0:
                tasks[i], box_of[t] = t, left
                i += 1
            else:
                tasks[j], box_of[t] = t, right
                j += 1
        for t in mine:
            side[t] = OUTSIDE
        span[left, 0], span[left, 1] = start, start + n_left
        span[right, 0], span[right, 1] = start + n_left, stop
    return node


@kernel
def _best_order(
    first: NDArray[Any],
    partner: NDArray[Any],
    nbytes: NDArray[Any],
    grid: NDArray[Any],
    mine: NDArray[Any],
    n_left: int,
    bias: NDArray[Any],
    gap: float,
    side: NDArray[Any],
    preferred: NDArray[Any],
    by_graph: bool,
) -> tuple[NDArray[Any], int]:
    """Find the order whose first ``n_left`` tasks cost least on the left; its grid dimension."""
    best, best_along = mine, -1
    least = np.inf
    n_grid = preferred.size
    for candidate in range(n_grid + 2):
        along = -1
        if candidate < n_grid:
            along = preferred[candidate]
            level = grid[mine, along]
            if level.min() == level.max():
                continue
            order = mine[np.argsort(level, kind="mergesort")]
        elif not by_graph:
            break
        elif candidate == n_grid:
            order = _grown(first, partner, mine, side)
        else:
            order = mine[np.argsort(bias[mine], kind="mergesort")]
        for _ in range(2):
            for i in range(order.size):
                side[order[i]] = 0 if i < n_left else 1
            cost = 0.0
            for t in order[:n_left]:
                cost += bias[t]
                for e in range(first[t], first[t + 1]):
                    if side[partner[e]] == 1:
                        cost += gap * nbytes[e]
            # Rounding does not decide between equals.
            if cost < least - 1e-9 * abs(cost):
                least, best, best_along = cost, order, along
            order = order[::-1].copy()
    return best, best_along


@kernel
def _any_of_row(table: NDArray[Any]) -> NDArray[Any]:
    """Whether each row has a true entry."""
    found = np.zeros(table.shape[0], np.bool_)
    for row in range(table.shape[0]):
        found[row] = table[row].any()
    return found


@kernel
def _grown(
    first: NDArray[Any], partner: NDArray[Any], mine: NDArray[Any], side: NDArray[Any]
) -> NDArray[Any]:
    """Breadth-first order from a task at the rim, found by a first search from any."""
    for t in mine:
        side[t] = 0
    order = mine
    for mark in (1, 0):
        queue = np.empty_like(mine)
        filled = 0
        # The last task reached lies far from the first.
        for root in order[::-1]:
            if side[root] == mark:
                continue
            head = filled
            queue[filled] = root
            side[root] = mark
            filled += 1
            while head < filled:
                t = queue[head]
                head += 1
                for e in range(first[t], first[t + 1]):
                    u = partner[e]
                    if side[u] != OUTSIDE and side[u] != mark:
                        side[u] = mark
                        queue[filled] = u
                        filled += 1
        order = queue
    return order


@kernel
def _refine(
    first: NDArray[Any],
    partner: NDArray[Any],
    nbytes: NDArray[Any],
    mine: NDArray[Any],
    bias: NDArray[Any],
    gap: float,
    side: NDArray[Any],
) -> None:
    """Move the best task across and the best back, keep the best prefix, until none gains."""
    patience = max(16, mine.size // 50)
    gain = np.zeros(bias.size)
    locked = np.zeros(bias.size, np.bool_)
    for _ in range(4):
        scale = 0.0
        heap0 = [(0.0, -1)]
        heap1 = [(0.0, -1)]
        for t in mine:
            locked[t] = False
            g = bias[t] if side[t] == 0 else -bias[t]
            for e in range(first[t], first[t + 1]):
                s = side[partner[e]]
                if s != OUTSIDE:
                    g += gap * nbytes[e] if s != side[t] else -gap * nbytes[e]
            gain[t] = g
            scale += abs(g)
            if side[t] == 0:
                heap0.append((-g, t))
            else:
                heap1.append((-g, t))
        heapq.heapify(heap0)
        heapq.heapify(heap1)
        moved = np.empty(mine.size + 2, np.int64)
        n_moved = n_kept = 0
        total = best = 0.0
        while n_moved + 1 < mine.size and n_moved - n_kept < 2 * patience:
            pair = n_moved
            for source in range(2):
                heap = heap0 if source == 0 else heap1
                t = -1
                while len(heap) > 0:
                    g, t = heapq.heappop(heap)
                    # Entries of tasks that moved or changed their gain are stale.
                    if t >= 0 and not locked[t] and side[t] == source and -g == gain[t]:
                        break
                    t = -1
                if t < 0:
                    break
                locked[t] = True
                total += gain[t]
                side[t] = 1 - source
                moved[n_moved] = t
                n_moved += 1
                for e in range(first[t], first[t + 1]):
                    u = partner[e]
                    if side[u] == OUTSIDE or locked[u]:
                        continue
                    change = 2.0 * gap * nbytes[e]
                    gain[u] += -change if side[u] == side[t] else change
                    if side[u] == 0:
                        heapq.heappush(heap0, (-gain[u], u))
                    else:
                        heapq.heappush(heap1, (-gain[u], u))
            if n_moved - pair < 2:
                break
            if total > best + 1e-9 * scale:
                best, n_kept = total, n_moved
        for i in range(n_kept, n_moved):
            side[moved[i]] = 1 - side[moved[i]]
        if n_kept == 0:
            break
