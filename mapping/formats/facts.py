"""What is in a communication graph, in numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..comm_graph import CommGraph, sum_edges
from ..workload import Workload, as_workload

# So many isolated tasks are named.
NAMED = 8
# Edges that are looked at together.
_PIECE = 2**20


def graph_facts(traffic: Workload | CommGraph) -> dict[str, Any]:
    """Return tasks, edges, bytes, messages, and how they are spread, of all phases together.

    The edges are looked at in pieces, so that memory does not grow with them.

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
    n = workload.n_tasks
    edges, nbytes, messages, own = 0, 0.0, 0.0, 0.0
    there = back = 0
    active = np.zeros(0, np.int64)
    for piece in _pieces(workload):
        edges += piece.n_edges
        nbytes += float(piece.nbytes.sum())
        messages += float(piece.n_messages.sum())
        own += float(piece.nbytes[piece.src == piece.dst].sum())
        active = _joined(active, piece, n)
        src, dst = piece.src.astype(np.uint64), piece.dst.astype(np.uint64)
        amount = _mixed(np.ascontiguousarray(piece.nbytes).view(np.uint64))
        there += int(_mixed(amount ^ (src * np.uint64(n) + dst)).sum())
        back += int(_mixed(amount ^ (dst * np.uint64(n) + src)).sum())
    first = np.arange(min(n, active.size + NAMED))
    return {
        "tasks": n,
        "grid": workload.grid,
        "edges": edges,
        "bytes": nbytes,
        "messages": messages,
        # Sums of hashes of all edges and of all edges turned round are equal if both are the same.
        "symmetric": (there - back) % 2**64 == 0,
        "to_itself": own,
        "isolated": n - active.size,
        "first_isolated": np.setdiff1d(first, active)[:NAMED].tolist(),
        "counted_from_1": 2 < n == active.size + 1 and bool(active[0] == 1),
    }


def _joined(active: NDArray[np.int64], piece: CommGraph, n_tasks: int) -> NDArray[np.int64]:
    """Tasks that are known to send or receive, with those of a piece."""
    if n_tasks > 16 * _PIECE:
        return np.unique(np.concatenate([active, piece.src, piece.dst]))
    seen = np.zeros(n_tasks, bool)
    seen[active] = seen[piece.src] = seen[piece.dst] = True
    return np.flatnonzero(seen)


def _pieces(workload: Workload) -> Iterator[CommGraph]:
    """The edges of all phases, those of some tasks in a row at a time, each pair once."""
    n, largest = workload.n_tasks, max(workload, key=lambda phase: phase.n_edges)
    cuts = largest.src[_PIECE::_PIECE].tolist()
    for low, high in zip([0, *cuts], [*cuts, n], strict=True):
        if low == high:
            continue
        parts = []
        for phase in workload:
            # Numbers of another type would copy the whole column.
            start, stop = np.searchsorted(phase.src, np.array([low, high], np.int32))
            columns = (phase.src, phase.dst, phase.nbytes, phase.n_messages)
            parts.append([column[start:stop] for column in columns])
        yield _summed(n, parts)


def _summed(n_tasks: int, parts: list[list[NDArray[Any]]]) -> CommGraph:
    src, dst, nbytes, messages = parts[0]
    same = all(np.array_equal(src, p[0]) and np.array_equal(dst, p[1]) for p in parts[1:])
    if same:
        # Repeated exchanges among the same tasks need no sorting.
        nbytes = np.sum([part[2] for part in parts], axis=0)
        messages = np.sum([part[3] for part in parts], axis=0)
        return CommGraph(n_tasks, src, dst, nbytes, messages)
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    return sum_edges(n_tasks, *columns)


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return a hash of each value (the last steps of MurmurHash3)."""
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        values = (values ^ (values >> np.uint64(33))) * np.uint64(factor)
    return values ^ (values >> np.uint64(33))
