"""Kernels of greedy placement."""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toruscast._jit import kernel

from ._hop_bytes_kernels import torus_distance


@kernel
def place_greedily(
    first: NDArray[Any],
    partner: NDArray[Any],
    nbytes: NDArray[Any],
    coords: NDArray[Any],
    neighbors: NDArray[Any],
    shape: NDArray[Any],
    wrap: NDArray[Any],
    images: NDArray[Any],
    capacity: int,
    first_task: int,
    first_node: int,
) -> NDArray[Any]:
    # T = tasks, N = nodes, D = torus dimensions
    # first (T + 1,), partner and nbytes (edges,), coords (N, D), neighbors (N, 2 D) -> (T,)
    """Node of each task."""
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
                        cost += nbytes[e] * torus_distance(
                            coords[here], coords[there], shape, wrap, images
                        )
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
