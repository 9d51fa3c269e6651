"""Kernel that tells the factors of a product of graphs apart by its squares.

Letters in the comments: V vertices, E edges; each edge is listed at both of its ends.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from toruscast._jit import inner_kernel, kernel


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
