"""Trees over tasks 0 to n - 1, rooted at task 0, as the parent of each task.

Those of Open MPI's library of collectives (Pjesivac-Grbovic et al., "Performance analysis of MPI
collective operations", Cluster Comput. 10, 2007): heap-like binary trees, chains, flat trees.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Parents = NDArray[np.int64]


def flat(n_tasks: int) -> Parents:
    """Every task hangs on the root.

    Examples
    --------
    >>> flat(4).tolist()
    [-1, 0, 0, 0]
    """
    return np.where(np.arange(n_tasks) == 0, -1, 0).astype(np.int64)


def chains(n_tasks: int, fanout: int = 1) -> Parents:
    """Chains of consecutive tasks, ``fanout`` of them, as even as can be.

    Examples
    --------
    >>> chains(6, fanout=2).tolist()
    [-1, 0, 1, 2, 0, 4]
    """
    parent = np.arange(n_tasks, dtype=np.int64) - 1
    for part in np.array_split(np.arange(1, n_tasks), max(1, min(fanout, n_tasks - 1))):
        parent[part[:1]] = 0
    return parent


def binary(n_tasks: int) -> Parents:
    """Two children a task, level by level; those of a task are a level's width apart.

    Examples
    --------
    >>> binary(8).tolist()
    [-1, 0, 0, 1, 2, 1, 2, 3]
    """
    parent = np.full(n_tasks, -1, dtype=np.int64)
    first, width = 0, 1
    while first < n_tasks:
        for task in range(first, min(first + width, n_tasks)):
            children = [c for c in (task + width, task + 2 * width) if c < n_tasks]
            parent[children] = task
        first, width = first + width, 2 * width
    return parent


def in_order_binomial(n_tasks: int) -> Parents:
    """Binomial tree whose branches are neighbouring ranks: a task's parent lacks its lowest bit.

    Examples
    --------
    >>> in_order_binomial(8).tolist()
    [-1, 0, 0, 2, 0, 4, 4, 6]
    """
    ranks = np.arange(n_tasks)
    return np.where(ranks > 0, ranks & (ranks - 1), -1)


def in_order_binary(n_tasks: int) -> Parents:
    """Two children a task, subtrees of consecutive tasks, so that a reduction keeps their order.

    Tasks are numbered from the root, which in such a tree is the last one.

    Examples
    --------
    >>> in_order_binary(8).tolist()
    [-1, 0, 1, 2, 1, 0, 5, 5]
    """
    parent = np.full(n_tasks, -1, dtype=np.int64)
    # Tasks are numbered from the root: those of a subtree are the ones just after it.
    waiting = [(0, n_tasks)]
    while waiting:
        root, size = waiting.pop()
        right = (size - 1) // 2
        left = size - 1 - right
        for child, below in ((root + 1, left), (root + 1 + left, right)):
            if below:
                parent[child] = root
                waiting.append((child, below))
    return parent


def dimension_chains(shape: Sequence[int], port: int) -> Parents:
    """A chain along dimension ``port``; from each of it one along the next dimension, and so on.

    Tasks that share the root's coordinate in the first dimension, of which the first chain passes
    by, are reached last, over the link that closes the ring. Thus the trees of ports 0 to d - 1 of
    a d-dimensional torus have no directed link in common, and those of ports d to 2d - 1, their
    mirror images, use the links of the other direction.

    Examples
    --------
    >>> dimension_chains((3, 2), 0).tolist(), dimension_chains((3, 2), 2).tolist()
    ([-1, 5, 0, 2, 2, 4], [-1, 3, 4, 2, 0, 4])
    """
    ndim = len(shape)
    turn = [d for i in range(ndim) if shape[d := (port + i) % ndim] > 1]
    coords = np.indices(tuple(shape)).reshape(ndim, -1)
    sizes = np.array(shape)[:, None]
    mirror = -1 if port >= ndim else 1
    seen = mirror * coords % sizes
    parent = np.full(coords.shape[1], -1, dtype=np.int64)
    undecided = (seen > 0).any(axis=0)
    for number, dim in enumerate([turn[0], *turn[:0:-1], turn[0]] if turn else []):
        here = undecided & ((seen[dim] == 0) if number == 0 else (seen[dim] > 0))
        above = seen.copy()
        above[dim] -= 1
        parent[here] = np.ravel_multi_index(tuple(mirror * above % sizes), tuple(shape))[here]
        undecided &= ~here
    return parent


def depths(parent: Parents) -> NDArray[np.int64]:
    """Edges between each task and the root.

    Examples
    --------
    >>> depths(chains(4)).tolist()
    [0, 1, 2, 3]
    """
    depth = np.zeros(parent.size, dtype=np.int64)
    above = parent
    while (above >= 0).any():
        depth += above >= 0
        above = np.where(above >= 0, parent[above], -1)
    return depth
