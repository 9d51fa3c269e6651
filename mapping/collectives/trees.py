"""Broadcast, reduce, scatter and gather along trees.

`tree_shapes` has the trees, with their sources. Task 0 is the root.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .folding import fold, unfold
from .partners import Family, butterfly_partners
from .schedule import Lane, Round, Schedule
from .tree_shapes import Parents, binary, depths


def broadcast(name: str, n_tasks: int, nbytes: float, parent: Parents) -> Schedule:
    """Broadcast: a task sends to all its children at once when it has the data."""
    depth = depths(parent)
    lane = []
    for level in range(1, int(depth.max(initial=0)) + 1):
        child = np.flatnonzero(depth == level)
        lane.append(Round(parent[child], child, nbytes))
    return Schedule(name, n_tasks, nbytes, (tuple(lane),))


def reduce(name: str, n_tasks: int, nbytes: float, parent: Parents) -> Schedule:
    """Reduce: a task sends to its parent when all its children have sent."""
    (down,) = broadcast(name, n_tasks, nbytes, parent).lanes
    return Schedule(name, n_tasks, nbytes, (_up(down, reduces=True),))


def split_binary_broadcast(n_tasks: int, nbytes: float) -> Schedule:
    """Broadcast of one half of the data in each half of a binary tree, then swaps of the halves."""
    parent = binary(n_tasks)
    (down,) = broadcast("", n_tasks, nbytes / 2, parent).lanes
    top = np.arange(n_tasks)
    while (parent[top] > 0).any():
        top = np.where(parent[top] > 0, parent[top], top)
    left, right = (np.flatnonzero((top == child) & (parent >= 0)) for child in (1, 2))
    both = min(left.size, right.size)
    alone = np.concatenate([left[both:], right[both:]])
    swap = Round(
        np.concatenate([left[:both], right[:both], np.zeros(alone.size, dtype=np.int64)]),
        np.concatenate([right[:both], left[:both], alone]),
        nbytes / 2,
    )
    lane = (*down, swap) if swap.src.size else down
    return Schedule("bcast/split_binary", n_tasks, nbytes, (lane,))


def rank_binomial(n_tasks: int, nbytes: float) -> Lane:
    """Scatter down a binomial tree over ranks, of any number of tasks, far ones first."""
    n_steps = max(0, n_tasks - 1).bit_length()
    block = nbytes / n_tasks
    lane = []
    for step in reversed(range(n_steps)):
        # Whole multiples of a subtree hold the blocks of the tasks just after them.
        src = np.arange(0, n_tasks, 2 ** (step + 1))
        dst = src + 2**step
        below = np.minimum(2**step, n_tasks - dst)
        there = dst < n_tasks
        lane.append(Round(src[there], dst[there], below[there] * block))
    return tuple(lane)


def binomial_parents(n_tasks: int) -> Parents:
    """Binomial tree whose root's first child is task 1: a task's parent lacks its highest bit."""
    ranks = np.arange(n_tasks)
    bits = np.array([int(rank).bit_length() for rank in ranks])
    return np.where(ranks > 0, ranks - 2 ** np.maximum(bits - 1, 0), -1)


def butterfly_broadcast(
    name: str,
    nbytes: float,
    shape: Sequence[int],
    *,
    family: Family,
    ports: int = 1,
    segment: float = 0,
) -> Schedule:
    """Broadcast down the tree of a butterfly, on each port its share, in pieces of ``segment``."""
    share = nbytes / ports
    folding = fold(shape)
    lanes = tuple(
        tuple(Round(src, dst, share, pieces=_pieces(share, segment)) for src, dst in tree)
        for tree in _trees(folding.sizes, family, ports, far_first=True)
    )
    inner = Schedule(name, 0, nbytes, lanes)
    return unfold(folding, inner, _count(shape), before=False, after=True)


def butterfly_reduce(
    name: str,
    nbytes: float,
    shape: Sequence[int],
    *,
    family: Family,
    ports: int = 1,
    segment: float = 0,
) -> Schedule:
    """Reduce up the tree of a butterfly, near partners first."""
    down = butterfly_broadcast(name, nbytes, shape, family=family, ports=ports, segment=segment)
    lanes = tuple(_up(lane, reduces=True) for lane in down.lanes)
    return Schedule(name, down.n_tasks, nbytes, lanes)


def butterfly_scatter(
    name: str,
    nbytes: float,
    shape: Sequence[int],
    *,
    family: Family,
    ports: int = 1,
    far_first: bool = True,
) -> Schedule:
    """Scatter down the tree of a butterfly: each step sends half of what a task holds."""
    folding = fold(shape)
    block = nbytes / ports / _count(shape)
    out = tuple(step.reversed() for step in reversed(folding.hand_blocks(block)))
    lanes = []
    for tree in _trees(folding.sizes, family, ports, far_first):
        below = folding.weight.copy()
        lane: Lane = ()
        for src, dst in reversed(tree):
            lane = (Round(src, dst, below[dst] * block), *lane)
            below[src] += below[dst]
        lanes.append(folding.lane(lane, after=out))
    return Schedule(name, _count(shape), nbytes, tuple(lanes))


def upwards(name: str, schedule: Schedule) -> Schedule:
    """Gather: the scatter backwards."""
    lanes = tuple(_up(lane) for lane in schedule.lanes)
    return Schedule(name, schedule.n_tasks, schedule.nbytes, lanes)


def _up(lane: Lane, *, reduces: bool = False) -> Lane:
    return tuple(step.reversed(reduces=reduces) for step in reversed(lane))


def _trees(
    shape: Sequence[int], family: Family, ports: int, far_first: bool
) -> list[list[tuple[NDArray[np.int64], NDArray[np.int64]]]]:
    """Edges of each step of the tree of task 0, for each port."""
    trees = []
    for port in range(ports):
        partners = butterfly_partners(shape, family=family, port=port)
        held = np.zeros(1, dtype=np.int64)
        tree = []
        for row in partners[::-1] if far_first else partners:
            tree.append((held, row[held]))
            held = np.concatenate([held, row[held]])
        trees.append(tree)
    return trees


def _pieces(nbytes: float, segment: float) -> float:
    return max(1.0, float(np.ceil(nbytes / segment))) if segment else 1.0


def _count(shape: Sequence[int]) -> int:
    return int(np.prod(tuple(shape)))
