"""What is in a communication graph, in numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..comm_graph import CommGraph
from ..workload import Workload, as_workload

# So many isolated tasks are named.
NAMED = 8
# Edges that are looked at together, so that memory does not grow with them.
_PIECE = 2**20


def graph_facts(traffic: Workload | CommGraph) -> dict[str, Any]:
    """Return tasks, edges, bytes, messages, and how they are spread, of all phases together.

    Returns
    -------
    dict
        ``isolated``: how many tasks neither send nor receive, ``first_isolated`` the first of
        them; ``symmetric``: whether each pair sends as
        many bytes one way as the other; ``to_itself``: bytes of tasks to themselves.

    Examples
    --------
    >>> facts = graph_facts(CommGraph(3, [0, 1], [1, 0], [8, 8]))
    >>> facts["symmetric"], facts["first_isolated"]
    (True, [2])
    """
    workload = as_workload(traffic)
    total, n = workload.total, workload.n_tasks
    own, difference = 0.0, 0
    seen = np.zeros(n, bool)
    for low in range(0, total.n_edges, _PIECE):
        src, dst, nbytes = (
            column[low : low + _PIECE] for column in (total.src, total.dst, total.nbytes)
        )
        own += float(nbytes[src == dst].sum())
        seen[src] = seen[dst] = True
        # Sums of hashes of all edges and of all edges turned round are equal if both are the same.
        a, b = src.astype(np.uint64), dst.astype(np.uint64)
        amount = _hashed(nbytes.astype(float).view(np.uint64))
        difference += int(_hashed(amount ^ (a * np.uint64(n) + b)).sum())
        difference -= int(_hashed(amount ^ (b * np.uint64(n) + a)).sum())
    silent = np.flatnonzero(~seen)
    return {
        "tasks": n,
        "grid": workload.grid,
        "edges": total.n_edges,
        "bytes": float(total.nbytes.sum()),
        "messages": float(total.n_messages.sum()),
        "symmetric": difference % 2**64 == 0,
        "to_itself": own,
        "isolated": silent.size,
        "first_isolated": silent[:NAMED].tolist(),
        "counted_from_1": n > 2 and silent.tolist() == [0],
    }


def _hashed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return a hash of each value (the last steps of MurmurHash3)."""
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        values = (values ^ (values >> np.uint64(33))) * np.uint64(factor)
    return values ^ (values >> np.uint64(33))
