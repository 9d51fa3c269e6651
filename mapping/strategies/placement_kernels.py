"""Kernels of hop-bytes, greedy placement and dual recursive bisection."""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toruscast._jit import inner_kernel, kernel

from ..comm_graph import Partners
from ..twist import Metric


@inner_kernel
def torus_distance(a: NDArray[Any], b: NDArray[Any], metric: Metric) -> float:
    """Hops between two points."""
    shape, wrap, images = metric
    if images.shape[0] == 0:
        total = 0.0
        for d in range(shape.size):
            gap = abs(a[d] - b[d])
            total += min(gap, shape[d] - gap) if wrap[d] else gap
        return total
    least = np.inf
    for i in range(images.shape[0]):
        total = 0.0
        for d in range(shape.size):
            total += abs(a[d] - b[d] + images[i, d])
        least = min(least, total)
    return least


@kernel
def sum_hop_bytes(
    src: NDArray[Any],
    dst: NDArray[Any],
    nbytes: NDArray[Any],
    coords: NDArray[Any],
    shape: NDArray[Any],
    wrap: NDArray[Any],
) -> float:
    # coords: (n_tasks, D), of the node of each task
    """Sum of bytes times hops."""
    total = 0.0
    for e in range(src.size):
        hops = 0
        for d in range(shape.size):
            gap = abs(coords[src[e], d] - coords[dst[e], d])
            if wrap[d]:
                gap = min(gap, shape[d] - gap)
            hops += gap
        total += hops * nbytes[e]
    return total


@kernel
def place_greedily(
    traffic: Partners,
    metric: Metric,
    coords: NDArray[Any],
    neighbors: NDArray[Any],
    capacity: int,
    first_task: int,
    first_node: int,
) -> NDArray[Any]:
    # T = tasks, N = nodes, D = torus dimensions; coords (N, D), neighbors (N, 2 D) -> (T,)
    """Node of each task."""
    first, partner, nbytes = traffic
    n_tasks, n_nodes = first.size - 1, coords.shape[0]
    node = np.full(n_tasks, -1, np.int64)
    free = np.full(n_nodes, capacity, np.int64)
    drawn = np.zeros(n_tasks)
    seen = np.full(n_nodes, -1, np.int64)
    queue = np.empty(n_nodes, np.int64)
    depth = np.empty(n_nodes, np.int64)
    heap = [(0.0, first_task)]
    next_task = 0
    start = first_node
    for _ in range(n_tasks):
        t = -1
        while len(heap) > 0:
            pull, t = heapq.heappop(heap)
            if node[t] < 0 and -pull == drawn[t]:
                break
            t = -1
        if t < 0:
            # Nothing left talks to what is placed.
            while node[next_task] >= 0:
                next_task += 1
            t = next_task
        heaviest = -1.0
        for e in range(first[t], first[t + 1]):
            if node[partner[e]] >= 0 and nbytes[e] > heaviest:
                heaviest = nbytes[e]
                start = node[partner[e]]
        # Breadth-first from there; of the free nodes at the least distance, the cheapest.
        best, least, ring = -1, np.inf, n_nodes
        queue[0], depth[0], seen[start] = start, 0, t
        head, filled = 0, 1
        while head < filled and depth[head] <= ring:
            here = queue[head]
            if free[here] > 0:
                ring = depth[head]
                cost = 0.0
                for e in range(first[t], first[t + 1]):
                    there = node[partner[e]]
                    if there >= 0:
                        cost += nbytes[e] * torus_distance(coords[here], coords[there], metric)
                if cost < least:
                    best, least = here, cost
            if ring == n_nodes:
                for port in range(neighbors.shape[1]):
                    far = neighbors[here, port]
                    if far >= 0 and seen[far] != t:
                        seen[far] = t
                        queue[filled], depth[filled] = far, depth[head] + 1
                        filled += 1
            head += 1
        node[t] = best
        free[best] -= 1
        start = best
        for e in range(first[t], first[t + 1]):
            u = partner[e]
            if node[u] < 0:
                drawn[u] += nbytes[e]
                heapq.heappush(heap, (-drawn[u], u))
    return node


OUTSIDE = 2


@kernel
def bisect_both(
    traffic: Partners,
    metric: Metric,
    grid: NDArray[Any],
    capacity: int,
    by_grid: bool,
    by_graph: bool,
    refined: bool,
) -> NDArray[Any]:
    # T = tasks, D = torus dimensions, G = grid dimensions, B = 2N - 1 boxes; grid (T, G) -> (T,)
    """Node of each task; boxes are halved in the order in which they arise, large ones first."""
    first, partner, nbytes = traffic
    shape = metric.shape
    n_tasks, ndim = grid.shape[0], shape.size
    n_nodes = 1
    for size in shape:
        n_nodes *= size
    n_boxes = 2 * n_nodes - 1
    low = np.zeros((n_boxes, ndim), np.int64)
    high = np.zeros((n_boxes, ndim), np.int64)
    centre = np.zeros((n_boxes, ndim))
    span = np.zeros((n_boxes, 2), np.int64)
    for d in range(ndim):
        high[0, d] = shape[d]
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
        start, stop = span[box, 0], span[box, 1]
        if start == stop:
            continue
        cut, longest, number = 0, 0, 0
        for d in range(ndim):
            number = number * shape[d] + low[box, d]
            extent = high[box, d] - low[box, d]
            if extent > longest:
                cut, longest = d, extent
        if longest == 1:
            for i in range(start, stop):
                node[tasks[i]] = number
            continue
        left, right = used, used + 1
        used += 2
        for d in range(ndim):
            low[left, d] = low[right, d] = low[box, d]
            high[left, d] = high[right, d] = high[box, d]
        high[left, cut] = low[right, cut] = low[box, cut] + longest // 2
        to_left, to_right = capacity, capacity
        for d in range(ndim):
            to_left *= high[left, d] - low[left, d]
            to_right *= high[right, d] - low[right, d]
            centre[left, d] = (low[left, d] + high[left, d] - 1) / 2
            centre[right, d] = (low[right, d] + high[right, d] - 1) / 2
        mine = tasks[start:stop].copy()
        both = to_left + to_right
        share = (2 * mine.size * to_left + both) // (2 * both)
        n_left = min(max(share, mine.size - to_right), to_left)
        gap = torus_distance(centre[left], centre[right], metric)
        for t in mine:
            side[t] = 0
            bias[t] = 0.0
        for t in mine:
            for e in range(first[t], first[t + 1]):
                if side[partner[e]] == OUTSIDE:
                    there = centre[box_of[partner[e]]]
                    bias[t] += nbytes[e] * (
                        torus_distance(centre[left], there, metric)
                        - torus_distance(centre[right], there, metric)
                    )
        # Among equals, a grid dimension stays with its dimension of the torus.
        preferred = np.empty(grid.shape[1] if by_grid else 0, np.int64)
        filled = 0
        for rank in range(3):
            for g in range(preferred.size):
                taken = False
                for d in range(ndim):
                    taken |= paired[g, d]
                if rank == (0 if paired[g, cut] else 2 if taken else 1):
                    preferred[filled] = g
                    filled += 1
        best, along = _best_order(traffic, grid, mine, n_left, bias, gap, side, preferred, by_graph)
        if along >= 0:
            paired[along, cut] = True
        for i in range(mine.size):
            side[best[i]] = 0 if i < n_left else 1
        if refined:
            _refine_halves(traffic, mine, bias, gap, side)
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


@inner_kernel
def _best_order(
    traffic: Partners,
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
    first, partner, nbytes = traffic
    best, best_along = mine, -1
    least = np.inf
    n_grid = preferred.size
    level = np.empty(mine.size)
    for candidate in range(n_grid + 2 * by_graph):
        along = -1
        if candidate == n_grid:
            order = _grow_order(traffic, mine, side)
        else:
            if candidate < n_grid:
                along = preferred[candidate]
            differ = along < 0
            for i in range(mine.size):
                level[i] = bias[mine[i]] if along < 0 else float(grid[mine[i], along])
                differ |= level[i] != level[0]
            if not differ:
                continue
            order = mine[np.argsort(level, kind="mergesort")]
        for _ in range(2):
            for i in range(order.size):
                side[order[i]] = 0 if i < n_left else 1
            cost = 0.0
            for i in range(n_left):
                t = order[i]
                cost += bias[t]
                for e in range(first[t], first[t + 1]):
                    if side[partner[e]] == 1:
                        cost += gap * nbytes[e]
            # Rounding does not decide between equals.
            if cost < least - 1e-9 * abs(cost):
                least, best, best_along = cost, order, along
            order = order[::-1].copy()
    return best, best_along


@inner_kernel
def _grow_order(traffic: Partners, mine: NDArray[Any], side: NDArray[Any]) -> NDArray[Any]:
    """Breadth-first order from a task at the rim, found by a first search from any."""
    first, partner, _ = traffic
    for t in mine:
        side[t] = 0
    order = mine
    for mark in (1, 0):
        queue = np.empty(mine.size, np.int64)
        filled = 0
        # The last task reached lies far from the first.
        for last in range(mine.size - 1, -1, -1):
            root = order[last]
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


@inner_kernel
def _refine_halves(
    traffic: Partners,
    mine: NDArray[Any],
    bias: NDArray[Any],
    gap: float,
    side: NDArray[Any],
) -> None:
    """Move the best task across and the best back, keep the best prefix, until none gains."""
    first, partner, nbytes = traffic
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
