"""What is in a communication graph, in numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..comm_graph import CommGraph

# So many isolated tasks are named.
NAMED = 8


def graph_facts(comm: CommGraph) -> dict[str, Any]:
    """Return tasks, edges, bytes, messages, and how they are spread.

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
    seen = np.unique(np.concatenate([comm.src, comm.dst]))
    first = np.arange(min(comm.n_tasks, seen.size + NAMED))
    own = comm.src == comm.dst
    dense_key = np.int64(comm.n_tasks)
    there, back = comm.src * dense_key + comm.dst, comm.dst * dense_key + comm.src
    order = np.argsort(back, kind="stable")
    # Edges are sorted by source and destination already.
    same = np.array_equal(there, back[order])
    return {
        "tasks": comm.n_tasks,
        "grid": comm.grid,
        "edges": comm.n_edges,
        "bytes": float(comm.nbytes.sum()),
        "messages": float(comm.n_messages.sum()),
        "symmetric": same and np.array_equal(comm.nbytes, comm.nbytes[order]),
        "to_itself": float(comm.nbytes[own].sum()),
        "isolated": comm.n_tasks - seen.size,
        "first_isolated": np.setdiff1d(first, seen)[:NAMED].tolist(),
        "counted_from_1": 2 < comm.n_tasks == seen.size + 1 and bool(seen[0] == 1),
    }
