"""Kernels that pair the vertices of a graph, and tell the factors of a product apart by squares.

Letters in the comments: V vertices, E edges, I incidences; each edge is listed at both of its ends.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from toruscast._jit import inner_kernel, kernel


@kernel
def match_pairs(
    first: NDArray[np.int64],
    partner: NDArray[np.int32],
    weight: NDArray[np.float64],
    order: NDArray[np.int64],
    mate: NDArray[np.int64],
) -> None:
    """Pair every vertex, in this order, with its heaviest free partner. (V + 1,) (I,) (I,) (V,).

    A vertex without one takes the free vertex that shares its heaviest partner, or any free vertex.
    """
    mate[:] = -1
    for v in order:
        if mate[v] >= 0:
            continue
        best, most = np.int64(-1), 0.0
        for e in range(first[v], first[v + 1]):
            u = partner[e]
            if u != v and mate[u] < 0 and weight[e] > most:
                best, most = np.int64(u), weight[e]
        if best >= 0:
            mate[v], mate[best] = best, v
    left = np.int64(-1)
    for v in order:
        if mate[v] >= 0:
            continue
        best, most = np.int64(-1), 0.0
        for e in range(first[v], first[v + 1]):
            middle = partner[e]
            for f in range(first[middle], first[middle + 1]):
                u = partner[f]
                if u != v and mate[u] < 0 and min(weight[e], weight[f]) > most:
                    best, most = np.int64(u), min(weight[e], weight[f])
        if best >= 0:
            mate[v], mate[best] = best, v
    for v in order:
        if mate[v] >= 0:
            continue
        if left < 0:
            left = v
        else:
            mate[v], mate[left] = left, v
            left = np.int64(-1)


@kernel
def join_by_squares(
    first: NDArray[np.int64],
    partner: NDArray[np.int64],
    edge: NDArray[np.int64],
    n_edges: int,
) -> NDArray[np.int64]:
    """Return a class for each edge. (V + 1,) (2E,) (2E,) -> (E,).

    Two edges at a vertex that are the sides of one square, without its diagonal, may belong to
    different factors: each joins the class of its opposite side. All others at a vertex belong to
    the same factor.
    """
    joined = np.arange(n_edges)
    n = first.size - 1
    # The edge between the vertex that is looked at and each of its partners.
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
                    _join(joined, edge[i], to_w)
                    _join(joined, edge[j], to_v)
                else:
                    _join(joined, edge[i], edge[j])
            for e in range(first[v], first[v + 1]):
                edge_to[partner[e]] = -1
    for e in range(n_edges):
        joined[e] = _root(joined, e)
    return joined


@inner_kernel
def _root(joined: NDArray[np.int64], e: int) -> int:
    while joined[e] != e:
        joined[e] = joined[joined[e]]
        e = joined[e]
    return e


@inner_kernel
def _join(joined: NDArray[np.int64], a: int, b: int) -> None:
    a, b = _root(joined, a), _root(joined, b)
    joined[max(a, b)] = min(a, b)
