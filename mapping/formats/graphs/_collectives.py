"""Collectives of a trace as the messages of a named algorithm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from toruscast.errors import InputError
from toruscast.files import check_claim
from toruscast.wording import counted

from ...collectives import merged, names, schedule
from ...comm_graph import CommGraph, sum_edges
from .build import AnyPath

# All-to-alls of more tasks have too many messages to list.
MAX_TASKS = 2**16
MAX_PAIRS = 2**12
_ALL_PAIRS = ("alltoall/pairwise", "alltoall/linear")
_MANY = 2**22
# Tasks whose receivers are listed at once.
_ROWS = 2**8
# Bytes of an edge while graphs are added up.
_HELD = 80
# The algorithm that sends a collective where none is named.
USUAL = {
    "allreduce": "ring",
    "reduce": "binomial",
    "allgather": "ring",
    "gather": "linear",
    "scatter": "linear",
    "bcast": "binomial",
    "alltoall": "pairwise",
    "reduce_scatter": "ring",
}
# What MPI, NCCL and XLA call them otherwise, without lines and blanks.
_ALIASES = {
    "broadcast": "bcast",
    "collectivebroadcast": "bcast",
    "reducescatter": "reduce_scatter",
    "reducescatterblock": "reduce_scatter",
}


def collective_of(word: str) -> str | None:
    """Return our name of a collective; None if it is not known.

    Examples
    --------
    >>> [collective_of(word) for word in ("REDUCE_SCATTER_BLOCK", "all-to-all", "BARRIER")]
    ['reduce_scatter', 'alltoall', None]
    """
    plain = word.lower().replace("_", "").replace("-", "")
    name = _ALIASES.get(plain, plain)
    return name if name in USUAL else None


def check_algorithms(chosen: Mapping[str, str]) -> None:
    """Raise `InputError` unless every name is that of a collective, and its algorithm exists."""
    for collective, algorithm in chosen.items():
        if collective not in USUAL:
            known = ", ".join(sorted(USUAL))
            raise InputError("unknown collective", found=collective, expected=known)
        if f"{collective}/{algorithm}" not in names():
            known = ", ".join(each.partition("/")[2] for each in names(collective))
            raise InputError(f"unknown algorithm of {collective}", found=algorithm, expected=known)


def collective_total(
    collective: str,
    groups: NDArray[np.int64],
    nbytes: float,
    chosen: Mapping[str, str],
    n_tasks: int,
    times: int = 1,
) -> CommGraph:
    """Return what a collective sends in all its rounds among the tasks of each group.

    Parameters
    ----------
    collective : str
        Our name of it.
    groups : ndarray of int, shape (n_groups, n)
        Tasks of each group, the root first.
    nbytes : float
        Size of the whole buffer, as of `schedule`.
    chosen : mapping of str to str
        Algorithms of collectives for which the usual one is not wanted.
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
    >>> collective_total("allreduce", np.arange(4)[None], 1024, {}, 4)
    CommGraph(4 tasks, 4 edges, 6144 bytes, 24 messages)
    """
    n_groups, n = groups.shape
    name = f"{collective}/{chosen.get(collective, USUAL[collective])}"
    most = MAX_PAIRS if collective == "alltoall" else MAX_TASKS
    if n > most:
        raise InputError(f"too many tasks for {name}", found=n, expected=f"at most {most}")
    if name in _ALL_PAIRS:
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


def added(path: AnyPath, parts: Sequence[CommGraph], n_tasks: int, name: str) -> CommGraph:
    """Return the graphs of a file in one.

    Raises
    ------
    InputError
        If they claim too much memory.
    """
    n_edges = sum(part.n_edges for part in parts)
    check_claim(path, _HELD * n_edges, counted(n_edges, "message"))
    if len(parts) == 1 and parts[0].n_tasks == n_tasks:
        return parts[0].renamed(name)
    columns = (
        np.concatenate([getattr(part, f) for part in parts])
        for f in ("src", "dst", "nbytes", "n_messages")
    )
    return sum_edges(n_tasks, *columns, name=name)


def edges_of(collective: str, groups: NDArray[np.int64]) -> int:
    """Return about how many edges a collective has."""
    n_groups, n = groups.shape
    return (
        int(n_groups) * int(n) * (int(n) - 1 if collective == "alltoall" else int(n).bit_length())
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
