"""Broadcast and reduce through pipelined trees that share no link.

On a torus of d dimensions, d trees of chains along the dimensions, each with another dimension
first, use every link of one direction at most once (`dimension_chains`); the d that run against
them use the others. The whole buffer is split over the trees and goes through each in segments.
Source: the idea of the Trinaryx algorithms of Adachi et al., "The design of ultra scalable MPI
collective communication on the K computer", Comput. Sci. Res. Dev. 28, 2013. The trees here are not
taken from there: any that share no link carry as much.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from toruscast.errors import InputError
from toruscast.validation import whole_number, whole_sizes

from .schedule import Lane, Round, Schedule
from .tree_shapes import Parents, depths, dimension_chains


def broadcast(
    n_tasks: int, nbytes: float, shape: Sequence[int], *, trees: int = 1, segment: float = 0
) -> Schedule:
    """Broadcast from task 0 in segments of at most ``segment`` bytes; 0: one segment a tree.

    Around a side of two tasks both ways lead to the same one, so that there a tree and its mirror
    image share links.

    Raises
    ------
    InputError
        If there are not 1 to 2d trees, d the sides of two tasks or more.

    Examples
    --------
    >>> plan = broadcast(4, 100, (4,), trees=1, segment=50)
    >>> [list(zip(phase.src.tolist(), phase.dst.tolist())) for phase in plan.workload()]
    [[(0, 1)], [(0, 1), (1, 2)], [(1, 2), (2, 3)], [(2, 3)]]
    """
    # A side of one task has no links, and no tree of its own.
    sizes = tuple(size for size in whole_sizes(shape, "task grid") if size > 1) or (1,)
    if not 1 <= trees <= 2 * len(sizes):
        raise InputError("bad number of trees", found=trees, expected=f"1 to {2 * len(sizes)}")
    lanes = tuple(_down(sizes, nbytes / trees, port, segment) for port in range(trees))
    return Schedule("bcast/pipelined_trees", n_tasks, nbytes, lanes)


def reduce(
    n_tasks: int, nbytes: float, shape: Sequence[int], *, trees: int = 1, segment: float = 0
) -> Schedule:
    """Reduce to task 0: the broadcast backwards, each task adding what its children send."""
    down = broadcast(n_tasks, nbytes, shape, trees=trees, segment=segment)
    lanes = tuple(
        tuple(step.reversed(reduces=True) for step in reversed(lane)) for lane in down.lanes
    )
    return Schedule("reduce/pipelined_trees", n_tasks, nbytes, lanes)


def reduce_tree(
    name: str, n_tasks: int, nbytes: float, parent: Parents, segment: float
) -> Schedule:
    """Reduce up a given tree in segments of at most ``segment`` bytes.

    Examples
    --------
    >>> plan = reduce_tree("reduce/chain", 3, 100, np.array([-1, 0, 1]), 50)
    >>> [list(zip(phase.src.tolist(), phase.dst.tolist())) for phase in plan.workload()]
    [[(2, 1)], [(1, 0), (2, 1)], [(1, 0)]]
    """
    down = _through(parent, nbytes, segment)
    lane = tuple(step.reversed(reduces=True) for step in reversed(down))
    return Schedule(name, n_tasks, nbytes, (lane,))


def allreduce(
    n_tasks: int, nbytes: float, shape: Sequence[int], *, trees: int = 1, segment: float = 0
) -> Schedule:
    """Allreduce as that reduce and then that broadcast."""
    up = reduce(n_tasks, nbytes, shape, trees=trees, segment=segment)
    down = broadcast(n_tasks, nbytes, shape, trees=trees, segment=segment)
    lanes = tuple(a + b for a, b in zip(up.lanes, down.lanes, strict=True))
    return Schedule("allreduce/pipelined_trees", n_tasks, nbytes, lanes)


def _down(sizes: tuple[int, ...], nbytes: float, port: int, segment: float) -> Lane:
    return _through(dimension_chains(sizes, port), nbytes, segment)


def _through(parent: Parents, nbytes: float, segment: float) -> Lane:
    depth = depths(parent)
    longest = int(depth.max())
    if not longest:
        return ()
    n_segments = whole_number(max(1, np.ceil(nbytes / segment)), "segments", 1) if segment else 1
    lane = []
    # In round r an edge that ends at depth d carries segment r - d + 1.
    number = 0
    while number < longest + n_segments - 1:
        first, last = max(1, number - n_segments + 2), min(longest, number + 1)
        child = np.flatnonzero((depth >= first) & (depth <= last))
        steady = first == 1 and last == longest
        times = n_segments - longest + 1 if steady else 1
        lane.append(Round(parent[child], child, nbytes / n_segments, times=max(1, times)))
        number += max(1, times)
    return tuple(lane)
