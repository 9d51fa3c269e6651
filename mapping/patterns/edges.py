"""Edges of patterns by array arithmetic, and checks of their sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toruscast.errors import InputError
from toruscast.validation import whole_sizes

from ..comm_graph import MAX_TASKS, CommGraph, sum_edges


def halo(
    grid: tuple[int, ...],
    offsets: Sequence[tuple[int, ...]],
    nbytes: Sequence[float],
    periodic: bool,
    n_messages: float,
    name: str = "",
) -> CommGraph:
    """Each task sends to the tasks at ``offsets``, that many bytes each."""
    n_tasks = math.prod(grid)
    # In lexicographic order of the offsets a task's destinations ascend, but for wraps.
    ranked = sorted(zip(offsets, nbytes, strict=True))
    coords = np.indices(grid, sparse=True)
    src = np.arange(n_tasks)
    dst = np.empty((n_tasks, len(ranked)), dtype=np.int64)
    for column, (offset, _) in enumerate(ranked):
        target: NDArray[Any] = np.zeros((1,) * len(grid), dtype=np.int64)
        inside: NDArray[Any] = np.ones((1,) * len(grid), dtype=bool)
        for c, step, size in zip(coords, offset, grid, strict=True):
            moved = c + step
            inside = inside & ((moved >= 0) & (moved < size) | periodic)
            target = target * size + moved % size
        dst[:, column] = np.where(inside, target, -1).ravel()
    keep = (dst >= 0) & (dst != src[:, None])
    amounts = np.broadcast_to([amount for _, amount in ranked], dst.shape)[keep]
    ends = np.broadcast_to(src[:, None], dst.shape)[keep]
    build = sum_edges if periodic and min(grid) <= 2 else CommGraph
    messages = np.full(ends.size, n_messages, dtype=np.float64)
    name = name or f"halo-{label(grid)}"
    return build(n_tasks, ends, dst[keep], amounts, messages, grid=grid, name=name)


def all_to_all_along(
    grid: tuple[int, ...], axis: int, nbytes: float, n_messages: float, name: str
) -> CommGraph:
    """Every task sends to all others of its line along ``axis``."""
    n_tasks, size = math.prod(grid), grid[axis]
    stride = math.prod(grid[axis + 1 :])
    src = np.arange(n_tasks)[:, None]
    own = src // stride % size
    other = np.arange(size - 1)[None, :]
    other = other + (other >= own)
    return edges(n_tasks, src, src + (other - own) * stride, nbytes, n_messages, grid, name)


def edges(
    n_tasks: int,
    src: NDArray[Any],
    dst: NDArray[Any],
    nbytes: float,
    n_messages: float,
    grid: tuple[int, ...] | None,
    name: str,
) -> CommGraph:
    """Equal edges from each task to the destinations in its row."""
    sources = np.broadcast_to(src, dst.shape).ravel()
    values = [np.full(dst.size, value, dtype=np.float64) for value in (nbytes, n_messages)]
    return CommGraph(n_tasks, sources, dst.ravel(), *values, grid=grid, name=name)


def faces(ndim: int) -> list[tuple[int, ...]]:
    """Return the offsets of the neighbours across the faces of a cell."""
    unit = np.eye(ndim, dtype=int)
    return [tuple(int(k) for k in row) for row in np.concatenate([-unit, unit])]


def task_grid(grid: Sequence[int], ndim: int) -> tuple[int, ...]:
    """Return a checked grid of tasks."""
    sizes = whole_sizes(grid, "task grid")
    if len(sizes) != ndim:
        raise InputError("bad task grid", found=grid, expected=f"{ndim} sizes of 1 or more")
    if math.prod(sizes) > MAX_TASKS:
        raise InputError("task grid too large", found=grid, expected=f"at most {MAX_TASKS} tasks")
    return sizes


def label(grid: Sequence[int]) -> str:
    """Return "4x4" for (4, 4)."""
    return "x".join(map(str, grid))
