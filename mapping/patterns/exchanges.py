"""All-to-alls in rounds that depend on each other.

They are the algorithms of MPICH's all-to-all for long messages (Thakur, Rabenseifner and Gropp,
"Optimization of collective communication operations in MPICH", IJHPCA 19, 2005).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from toruscast.errors import InputError
from toruscast.validation import whole_number

from ..comm_graph import MAX_TASKS
from ..workload import Workload
from .edges import edges, label


def pairwise_exchange(
    n_tasks: int, nbytes: float, group: int | None = None, *, n_messages: float = 1
) -> Workload:
    """Return the all-to-all in rounds that depend on each other, by pairwise exchange.

    In round r = 1, 2, ... task a of a group sends to task a + r, modulo the group, and receives
    from task a - r.

    Parameters
    ----------
    n_tasks : int
        Number of tasks.
    nbytes : float
        Bytes from each task to each other of its group.
    group : int, optional
        Consecutive tasks that exchange among themselves; all if not given.
    n_messages : float
        Messages that carry these bytes.

    Returns
    -------
    Workload
        ``group - 1`` dependent phases of ``n_tasks`` edges; the logical grid is (groups, tasks of a
        group).

    Raises
    ------
    InputError
        If the groups do not divide the tasks or have only one.

    Examples
    --------
    >>> rounds = pairwise_exchange(6, 100, group=3)
    >>> [phase.dst.tolist() for phase in rounds], rounds.dependent
    ([[1, 2, 0, 4, 5, 3], [2, 0, 1, 5, 3, 4]], True)
    """
    grid = _groups(n_tasks, group)
    base, own = np.divmod(np.arange(math.prod(grid)), grid[1])
    partners = (base * grid[1] + (own + r) % grid[1] for r in range(1, grid[1]))
    return _rounds("pairwise-exchange", grid, partners, nbytes, n_messages)


def xor_exchange(
    n_tasks: int, nbytes: float, group: int | None = None, *, n_messages: float = 1
) -> Workload:
    """Return the all-to-all in rounds that depend on each other, by exclusive or.

    In round r = 1, 2, ... tasks a and a XOR r of a group send to each other.

    Parameters
    ----------
    n_tasks, nbytes, group, n_messages
        As in `pairwise_exchange`; the group is a power of two.

    Returns
    -------
    Workload
        As of `pairwise_exchange`.

    Raises
    ------
    InputError
        If the groups do not divide the tasks, have only one, or are no power of two.

    Examples
    --------
    >>> [phase.dst.tolist() for phase in xor_exchange(4, 100)]
    [[1, 0, 3, 2], [2, 3, 0, 1], [3, 2, 1, 0]]
    """
    grid = _groups(n_tasks, group)
    if grid[1] & (grid[1] - 1):
        raise InputError("bad group", found=grid[1], expected="a power of two")
    partners = (np.arange(math.prod(grid)) ^ r for r in range(1, grid[1]))
    return _rounds("xor-exchange", grid, partners, nbytes, n_messages)


def _groups(n_tasks: int, group: int | None) -> tuple[int, int]:
    """Return the groups and the tasks of each."""
    size = whole_number(n_tasks, "number of tasks", 1, MAX_TASKS)
    members = size if group is None else whole_number(group, "group", 1, MAX_TASKS)
    if members < 2 or size % members:
        raise InputError(
            "bad group", found=members, expected=f"a divisor of {size} tasks that is 2 or more"
        )
    return size // members, members


def _rounds(
    kind: str,
    grid: tuple[int, int],
    partners: Iterable[NDArray[np.int64]],
    nbytes: float,
    n_messages: float,
) -> Workload:
    """Dependent rounds in which each task sends to its partner."""
    n_tasks = math.prod(grid)
    src = np.arange(n_tasks)
    phases = [
        edges(n_tasks, src, dst, nbytes, n_messages, grid, f"round-{r}")
        for r, dst in enumerate(partners, start=1)
    ]
    return Workload(phases, name=f"{kind}-{label(grid)}", dependent=True)
