"""Exchanges between neighbours on a grid of tasks."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from toruscast.validation import whole_number

from ..comm_graph import MAX_TASKS, CommGraph
from .edges import faces, halo, task_grid


def halo_2d(
    grid: Sequence[int], nbytes: float, *, periodic: bool = False, n_messages: float = 1
) -> CommGraph:
    """Return the 5-point halo exchange: each task sends to its four neighbours on a 2-D grid.

    Parameters
    ----------
    grid : sequence of int
        Tasks along each dimension; tasks are numbered in C order.
    nbytes : float
        Bytes to each neighbour.
    periodic : bool
        Whether the grid closes at its edges. Neighbours that coincide (2 tasks around) add up, and
        nobody sends to itself (1 task around).
    n_messages : float
        Messages that carry these bytes.

    Raises
    ------
    InputError
        If the grid is not two positive sizes.

    Examples
    --------
    >>> halo_2d((3, 3), 100)
    CommGraph(halo-3x3: 9 tasks, 24 edges, 2400 bytes, 24 messages)
    """
    sizes = task_grid(grid, 2)
    return halo(sizes, faces(2), [nbytes] * 4, periodic, n_messages)


def halo_3d(
    grid: Sequence[int],
    nbytes: float,
    *,
    corner_nbytes: float | None = None,
    periodic: bool = False,
    n_messages: float = 1,
) -> CommGraph:
    """Return the 15-point halo exchange: six faces and eight corners on a 3-D grid.

    Parameters
    ----------
    grid : sequence of int
        Tasks along each dimension; tasks are numbered in C order.
    nbytes : float
        Bytes to each face neighbour.
    corner_nbytes : float, optional
        Bytes to each corner neighbour; ``nbytes`` if not given.
    periodic, n_messages
        As in `halo_2d`.

    Raises
    ------
    InputError
        If the grid is not three positive sizes.

    Examples
    --------
    >>> halo_3d((4, 4, 4), 8, periodic=True).n_edges == 64 * 14
    True
    """
    sizes = task_grid(grid, 3)
    offsets = faces(3) + list(itertools.product((-1, 1), repeat=3))
    corner = nbytes if corner_nbytes is None else corner_nbytes
    return halo(sizes, offsets, [nbytes] * 6 + [corner] * 8, periodic, n_messages)


def ring(
    n_tasks: int, nbytes: float, *, both_ways: bool = False, n_messages: float = 1
) -> CommGraph:
    """Return the ring in which each task sends to the next one, the last to the first.

    Parameters
    ----------
    n_tasks : int
        Tasks around the ring.
    nbytes : float
        Bytes that each task sends, each way.
    both_ways : bool
        Whether each also sends to the previous one.
    n_messages : float
        Messages that carry these bytes.

    Raises
    ------
    InputError
        If the number of tasks is not positive.

    Examples
    --------
    >>> ring(5, 10)
    CommGraph(ring-5: 5 tasks, 5 edges, 50 bytes, 5 messages)
    """
    size = whole_number(n_tasks, "number of tasks", 1, MAX_TASKS)
    offsets = [(-1,), (1,)] if both_ways else [(1,)]
    return halo((size,), offsets, [nbytes] * len(offsets), True, n_messages, name=f"ring-{size}")
