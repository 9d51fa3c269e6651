"""Kernels that pair the vertices of a graph, and classify the edges of product graphs by squares.

Letters in the comments: V vertices, E edges, I incidences (each edge is listed at both vertices).
"""

from __future__ import annotations

import numpy as np

from toruscast._jit import inner_kernel, kernel
from toruscast.typing import Floats, Int32s, Ints


@kernel
def match_pairs(first: Ints, partner: Int32s, weight: Floats, order: Ints, mate: Ints) -> None:
    """Match each vertex, in the given order, with its heaviest free neighbour.

    (V + 1,) (I,) (I,) (V,) -> (V,). A vertex without a free neighbour is matched with a free
    neighbour of a neighbour, or else with any free vertex.
    """
    mate[:] = -1
    for v in order:
        if mate[v] >= 0:
            continue
        best, max_weight = np.int64(-1), 0.0
        for e in range(first[v], first[v + 1]):
            u = partner[e]
            if u != v and mate[u] < 0 and weight[e] > max_weight:
                best, max_weight = np.int64(u), weight[e]
        if best >= 0:
            mate[v], mate[best] = best, v
    for v in order:
        if mate[v] >= 0:
            continue
        best, max_weight = np.int64(-1), 0.0
        for e in range(first[v], first[v + 1]):
            shared = partner[e]
            for f in range(first[shared], first[shared + 1]):
                u = partner[f]
                if u != v and mate[u] < 0 and min(weight[e], weight[f]) > max_weight:
                    best, max_weight = np.int64(u), min(weight[e], weight[f])
        if best >= 0:
            mate[v], mate[best] = best, v
    free = order[mate[order] < 0]
    for i in range(0, free.size - 1, 2):
        mate[free[i]], mate[free[i + 1]] = free[i + 1], free[i]


@kernel
def classify_edges_by_squares(first: Ints, partner: Ints, edge: Ints, n_edges: int) -> Ints:
    """Return a class for each edge. (V + 1,) (2E,) (2E,) -> (E,).

    Two edges at a vertex may belong to different factors if they are sides of exactly one square
    and no edge joins their far ends. Each of the two then joins the class of its opposite side in
    the square. Any other two edges at a vertex belong to the same factor.
    """
    edge_class = np.arange(n_edges)
    n = first.size - 1
    # Edge between the current vertex and each vertex, -1 for none.
    edge_to = np.full(n, -1, dtype=np.int64)
    for u in range(n):
        for i in range(first[u], first[u + 1]):
            v = partner[i]
            for e in range(first[v], first[v + 1]):
                edge_to[partner[e]] = edge[e]
            for j in range(i + 1, first[u + 1]):
                w = partner[j]
                squares, to_v, to_w = 0, -1, -1
                if edge_to[w] < 0:
                    for e in range(first[w], first[w + 1]):
                        x = partner[e]
                        if x != u and edge_to[x] >= 0:
                            squares += 1
                            to_v, to_w = edge_to[x], edge[e]
                if squares == 1:
                    _union(edge_class, edge[i], to_w)
                    _union(edge_class, edge[j], to_v)
                else:
                    _union(edge_class, edge[i], edge[j])
            for e in range(first[v], first[v + 1]):
                edge_to[partner[e]] = -1
    for e in range(n_edges):
        edge_class[e] = _find_root(edge_class, e)
    return edge_class


@inner_kernel
def _find_root(joined: Ints, e: int) -> int:
    """Return the root of an edge's class, and shorten the path to it (union-find)."""
    while joined[e] != e:
        joined[e] = joined[joined[e]]
        e = joined[e]
    return e


@inner_kernel
def _union(joined: Ints, a: int, b: int) -> None:
    a, b = _find_root(joined, a), _find_root(joined, b)
    joined[max(a, b)] = min(a, b)
