"""Kernels for hop-bytes, greedy placement and dual recursive bisection.

Hop-bytes are bytes times hops, summed over all edges. ``traffic`` lists each task's partners and
the bytes exchanged with them; the entries of task t are ``first[t]:first[t + 1]``. Letters in
shapes: N nodes, D torus dimensions, T tasks, G dimensions of the task grid.
"""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toruscast._jit import inner_kernel, kernel
from toruscast.typing import Bools, Floats, Int32s, Ints

from ..comm_graph import Partners
from ..twist import TorusMetric


@inner_kernel
def torus_distance(a: NDArray[Any], b: NDArray[Any], metric: TorusMetric) -> float:
    """Return the hops between two points, whose coordinates may be fractional. (D) (D) -> ()."""
    shape, wrap, images = metric
    if images.shape[0] == 0:
        total = 0.0
        for d in range(shape.size):
            gap = abs(a[d] - b[d])
            total += min(gap, shape[d] - gap) if wrap[d] else gap
        return total
    distance = np.inf
    for i in range(images.shape[0]):
        total = 0.0
        for d in range(shape.size):
            total += abs(a[d] - b[d] + images[i, d])
        distance = min(distance, total)
    return distance


@kernel
def sum_hop_bytes(
    src: Int32s, dst: Int32s, nbytes: Floats, coords: Int32s, shape: Int32s, wrap: Bools
) -> float:
    """Return the hop-bytes of a mapping, given the coordinates of each task's node, (T, D)."""
    total = 0.0
    for e in range(src.size):
        # Integer coordinates make this five times as fast as `torus_distance`.
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
    metric: TorusMetric,
    coords: Int32s,
    neighbors: Int32s,
    capacity: int,
    first_task: int,
    first_node: int,
) -> Ints:
    """Place tasks one by one, greedily; return the node of each. (N, D) (N, 2 * D) -> (T,).

    The next task is always the one that exchanges the most bytes with placed tasks. Of the free
    nodes nearest to its heaviest placed partner, it takes the one with the lowest hop-bytes.
    """
    first, partner, nbytes = traffic
    n_tasks, n_nodes = first.size - 1, coords.shape[0]
    node = np.full(n_tasks, -1, np.int64)
    free = np.full(n_nodes, capacity, np.int64)
    placed_bytes = np.zeros(n_tasks)  # bytes between each task and the placed tasks
    visited = np.full(n_nodes, -1, np.int64)  # last task whose search visited the node
    queue = np.empty(n_nodes, np.int64)
    depth = np.empty(n_nodes, np.int64)
    heap = [(0.0, first_task)]
    next_task = 0
    start = first_node
    for _ in range(n_tasks):
        t = -1
        while len(heap) > 0:
            priority, t = heapq.heappop(heap)
            # Skip outdated entries: the task is placed, or has more bytes to placed tasks by now.
            if node[t] < 0 and -priority == placed_bytes[t]:
                break
            t = -1
        if t < 0:
            # No remaining task communicates with a placed task.
            while node[next_task] >= 0:
                next_task += 1
            t = next_task
        max_bytes = -1.0
        for e in range(first[t], first[t + 1]):
            if node[partner[e]] >= 0 and nbytes[e] > max_bytes:
                max_bytes = nbytes[e]
                start = node[partner[e]]
        # Search breadth-first for the nearest free nodes, and take the one with the lowest cost.
        best_node, min_cost, max_depth = -1, np.inf, n_nodes
        queue[0], depth[0], visited[start] = start, 0, t
        head, size = 0, 1
        while head < size and depth[head] <= max_depth:
            candidate = queue[head]
            if free[candidate] > 0:
                max_depth = depth[head]
                cost = 0.0
                for e in range(first[t], first[t + 1]):
                    other = node[partner[e]]
                    if other >= 0:
                        hops = torus_distance(coords[candidate], coords[other], metric)
                        cost += nbytes[e] * hops
                if cost < min_cost:
                    best_node, min_cost = candidate, cost
            if max_depth == n_nodes:
                for port in range(neighbors.shape[1]):
                    neighbor = neighbors[candidate, port]
                    if neighbor >= 0 and visited[neighbor] != t:
                        visited[neighbor] = t
                        queue[size], depth[size] = neighbor, depth[head] + 1
                        size += 1
            head += 1
        node[t] = best_node
        free[best_node] -= 1
        start = best_node
        for e in range(first[t], first[t + 1]):
            u = partner[e]
            if node[u] < 0:
                placed_bytes[u] += nbytes[e]
                heapq.heappush(heap, (-placed_bytes[u], u))
    return node


# The value of `side` for tasks in other boxes; 0 and 1 are the halves of the current box.
OUTSIDE = 2


@kernel
def bisect_torus_and_tasks(
    traffic: Partners,
    metric: TorusMetric,
    grid: Ints,
    capacity: int,
    by_grid: bool,
    by_graph: bool,
    refined: bool,
) -> Ints:
    """Return the node of each task by dual recursive bisection. (T, G) -> (T,).

    The torus and its tasks are halved repeatedly, in breadth-first order, down to single nodes. A
    box of nodes is cut across its longest dimension. Its tasks are sorted by a coordinate in their
    ``grid`` or by the graph, whichever gives the cut with the lowest hop-bytes.
    """
    first, partner, nbytes = traffic
    shape = metric.shape
    n_tasks, ndim = grid.shape[0], shape.size
    n_nodes = 1
    for size in shape:
        n_nodes *= size
    n_boxes = 2 * n_nodes - 1
    # For each box: start and end along each dimension, centre, and range of its tasks in `tasks`.
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
    # Whether a grid dimension has been cut together with a torus dimension.
    paired = np.zeros((grid.shape[1], ndim), np.bool_)
    n_used = 1
    for box in range(n_boxes):
        if box >= n_used:
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
        left, right = n_used, n_used + 1
        n_used += 2
        for d in range(ndim):
            low[left, d] = low[right, d] = low[box, d]
            high[left, d] = high[right, d] = high[box, d]
        high[left, cut] = low[right, cut] = low[box, cut] + longest // 2
        left_slots, right_slots = capacity, capacity
        for d in range(ndim):
            left_slots *= high[left, d] - low[left, d]
            right_slots *= high[right, d] - low[right, d]
            centre[left, d] = (low[left, d] + high[left, d] - 1) / 2
            centre[right, d] = (low[right, d] + high[right, d] - 1) / 2
        members = tasks[start:stop].copy()
        # The left half gets its rounded share of the tasks, if both halves have enough slots.
        total = left_slots + right_slots
        share = (2 * members.size * left_slots + total) // (2 * total)
        n_left = min(max(share, members.size - right_slots), left_slots)
        gap = torus_distance(centre[left], centre[right], metric)
        # A task's bias: hop-bytes to tasks outside the box if it goes left, minus those if right.
        for t in members:
            side[t] = 0
            bias[t] = 0.0
        for t in members:
            for e in range(first[t], first[t + 1]):
                if side[partner[e]] == OUTSIDE:
                    other = centre[box_of[partner[e]]]
                    bias[t] += nbytes[e] * (
                        torus_distance(centre[left], other, metric)
                        - torus_distance(centre[right], other, metric)
                    )
        # Prefer grid dimensions cut with this torus dimension before, then those never cut.
        preferred = np.empty(grid.shape[1] if by_grid else 0, np.int64)
        n_preferred = 0
        for priority in range(3):
            for g in range(preferred.size):
                is_paired = False
                for d in range(ndim):
                    is_paired |= paired[g, d]
                if priority == (0 if paired[g, cut] else 2 if is_paired else 1):
                    preferred[n_preferred] = g
                    n_preferred += 1
        order, dimension = _find_best_order(
            traffic, grid, members, n_left, bias, gap, side, preferred, by_graph
        )
        if dimension >= 0:
            paired[dimension, cut] = True
        for i in range(members.size):
            side[order[i]] = 0 if i < n_left else 1
        if refined:
            _refine_halves(traffic, members, bias, gap, side)
        next_left, next_right = start, start + n_left
        for t in members:
            if side[t] == 0:
                tasks[next_left], box_of[t] = t, left
                next_left += 1
            else:
                tasks[next_right], box_of[t] = t, right
                next_right += 1
        for t in members:
            side[t] = OUTSIDE
        span[left, 0], span[left, 1] = start, start + n_left
        span[right, 0], span[right, 1] = start + n_left, stop
    return node


@inner_kernel
def _find_best_order(
    traffic: Partners,
    grid: Ints,
    members: Ints,
    n_left: int,
    bias: Floats,
    gap: float,
    side: NDArray[np.int8],
    preferred: Ints,
    by_graph: bool,
) -> tuple[Ints, int]:
    """Return the order of ``members`` whose cut after ``n_left`` is cheapest, and its dimension.

    Candidates are the orders by the ``preferred`` dimensions of the task grid and, with
    ``by_graph``, a breadth-first order and an order by bias (dimension -1), all in both directions.
    A cut costs the left tasks' bias, plus the distance ``gap`` times the bytes cut.
    """
    first, partner, nbytes = traffic
    best_order, best_dimension = members, -1
    min_cost = np.inf
    n_grid = preferred.size
    key = np.empty(members.size)
    for candidate in range(n_grid + 2 * by_graph):
        dimension = -1
        if candidate == n_grid:
            order = _order_breadth_first(traffic, members, side)
        else:
            if candidate < n_grid:
                dimension = preferred[candidate]
            differs = dimension < 0
            for i in range(members.size):
                t = members[i]
                key[i] = bias[t] if dimension < 0 else float(grid[t, dimension])
                differs |= key[i] != key[0]
            if not differs:
                continue
            order = members[np.argsort(key, kind="mergesort")]
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
            # Rounding errors must not decide between equal costs.
            if cost < min_cost - 1e-9 * abs(cost):
                min_cost, best_order, best_dimension = cost, order, dimension
            order = order[::-1].copy()
    return best_order, best_dimension


@inner_kernel
def _order_breadth_first(traffic: Partners, members: Ints, side: NDArray[np.int8]) -> Ints:
    """Return the breadth-first order of ``members`` from a task at the periphery of the graph.

    A first search starts anywhere, and ends at a task that is far from its start. A second search
    starts at this task, and its order is returned.
    """
    first, partner, _ = traffic
    for t in members:
        side[t] = 0
    order = members
    for mark in (1, 0):
        queue = np.empty(members.size, np.int64)
        size = 0
        # Each unmarked task starts a search, because the graph may not be connected.
        for last in range(members.size - 1, -1, -1):
            root = order[last]
            if side[root] == mark:
                continue
            head = size
            queue[size] = root
            side[root] = mark
            size += 1
            while head < size:
                t = queue[head]
                head += 1
                for e in range(first[t], first[t + 1]):
                    u = partner[e]
                    if side[u] != OUTSIDE and side[u] != mark:
                        side[u] = mark
                        queue[size] = u
                        size += 1
        order = queue
    return order


_MAX_PASSES = 4


@inner_kernel
def _refine_halves(
    traffic: Partners, members: Ints, bias: Floats, gap: float, side: NDArray[np.int8]
) -> None:
    """Improve ``side``, the half that each of the ``members`` is in, by Kernighan and Lin's method.

    A pass exchanges pairs of tasks, one from each half, in the order of their gains, even if the
    gains are negative. It then undoes all exchanges after the lowest total cost.
    """
    first, partner, nbytes = traffic
    patience = max(16, members.size // 50)  # exchanges without a new lowest cost before a pass ends
    gain = np.zeros(bias.size)
    locked = np.zeros(bias.size, np.bool_)
    for _ in range(_MAX_PASSES):
        scale = 0.0
        heap0 = [(0.0, -1)]
        heap1 = [(0.0, -1)]
        for t in members:
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
        moved = np.empty(members.size + 2, np.int64)
        n_moved = n_best = 0
        total = max_total = 0.0
        while n_moved + 1 < members.size and n_moved - n_best < 2 * patience:
            n_before = n_moved
            for source in range(2):
                heap = heap0 if source == 0 else heap1
                t = -1
                while len(heap) > 0:
                    g, t = heapq.heappop(heap)
                    # Entries are stale if their task has moved or its gain has changed.
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
            if n_moved - n_before < 2:
                break
            if total > max_total + 1e-9 * scale:
                max_total, n_best = total, n_moved
        for i in range(n_best, n_moved):
            side[moved[i]] = 1 - side[moved[i]]
        if n_best == 0:
            break
