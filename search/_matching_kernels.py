"""Kernels that pair the vertices of a graph.

Letters in the comments: V vertices, I incidences.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from toruscast._jit import kernel


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
