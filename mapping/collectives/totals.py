"""All that a collective sends, and how many edges that makes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from toruscast.errors import InputError

from ..comm_graph import CommGraph, sum_edges
from .registry import schedule
from .schedule import merged

# All-to-alls of more tasks have too many messages to list.
MAX_TASKS = 2**16
MAX_PAIRS = 2**12
# Each task sends to each other one, whatever the rounds.
ALL_PAIRS = ("alltoall/pairwise", "alltoall/linear")
_MANY = 2**22
# Tasks whose receivers are listed at once.
_ROWS = 2**8


def check_size(name: str, n: int) -> None:
    """Raise `InputError` if so many tasks have too many messages to list."""
    most = MAX_PAIRS if name.startswith("alltoall") else MAX_TASKS
    if n > most:
        raise InputError(f"too many tasks for {name}", found=n, expected=f"at most {most}")


def collective_total(
    name: str,
    groups: NDArray[np.int64],
    nbytes: float,
    n_tasks: int,
    times: int = 1,
) -> CommGraph:
    """Return what a collective sends in all its rounds among the tasks of each group.

    Parameters
    ----------
    name : str
        Collective and algorithm, as of `schedule`.
    groups : ndarray of int, shape (n_groups, n)
        Tasks of each group, the root first.
    nbytes : float
        Size of the whole buffer, as of `schedule`.
    n_tasks : int
        Tasks of the graph.
    times : int
        How often it runs.

    Raises
    ------
    InputError
        If the algorithm does not run on so many tasks.

    Examples
    --------
    >>> collective_total("allreduce/ring", np.arange(4)[None], 1024, 4)
    CommGraph(4 tasks, 4 edges, 6144 bytes, 24 messages)
    """
    n_groups, n = groups.shape
    check_size(name, n)
    if name in ALL_PAIRS:
        return _all_pairs(groups, nbytes / n * times, float(times), n_tasks)
    rounds = [(often, merged(n, steps)) for often, steps in schedule(name, n, nbytes).rounds()]
    if not rounds:
        return CommGraph(n_tasks, [], [], [])
    src, dst = (
        groups[:, np.concatenate([getattr(graph, end) for _, graph in rounds])].ravel()
        for end in ("src", "dst")
    )
    sizes, counts = (
        np.tile(np.concatenate([getattr(graph, f) * often for often, graph in rounds]), n_groups)
        for f in ("nbytes", "n_messages")
    )
    return sum_edges(n_tasks, src, dst, sizes * times, counts * times)


def edges_of(name: str, groups: NDArray[np.int64]) -> int:
    """Return about how many edges a collective has."""
    n_groups, n = groups.shape
    return (
        int(n_groups)
        * int(n)
        * (int(n) - 1 if name.startswith("alltoall") else int(n).bit_length())
    )


def _all_pairs(
    groups: NDArray[np.int64], nbytes: float, n_messages: float, n_tasks: int
) -> CommGraph:
    """Each task of a group to each other one, listed in the order that graphs have."""
    n_groups, n = groups.shape
    inside = np.sort(groups, axis=1).astype(np.int32)
    tasks, where = np.unique(inside, return_index=True)
    if tasks.size < inside.size or n < 2:
        others = ~np.eye(n, dtype=bool)
        square = np.broadcast_to(inside[:, None, :], (n_groups, n, n))
        dst, src = square[:, others].ravel(), square.swapaxes(1, 2)[:, others].ravel()
        size, count = np.full(src.size, nbytes), np.full(src.size, n_messages)
        return sum_edges(n_tasks, src, dst, size, count)
    src = np.repeat(tasks, n - 1)
    dst = np.empty((tasks.size, n - 1), np.int32)
    for low in range(0, tasks.size, _ROWS):
        rows = slice(low, low + _ROWS)
        to = inside[where[rows] // n]
        dst[rows] = to[to != tasks[rows, None]].reshape(-1, n - 1)
    dst = dst.ravel()
    for column in (src, dst):
        column.setflags(write=False)
    # One number stands for all edges where they are many.
    amounts = [np.broadcast_to(np.float64(value), src.shape) for value in (nbytes, n_messages)]
    if src.size < _MANY:
        amounts = [amount.copy() for amount in amounts]
    return CommGraph(n_tasks, src, dst, *amounts)
