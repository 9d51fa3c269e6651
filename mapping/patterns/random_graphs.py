"""Graphs drawn at random."""

from __future__ import annotations

import numpy as np

from toruscast.validation import whole_number

from ..comm_graph import MAX_TASKS, CommGraph
from .edges import edges


def random_pairs(
    n_tasks: int, degree: int, nbytes: float, *, seed: int = 1, n_messages: float = 1
) -> CommGraph:
    """Return a graph in which each task sends to ``degree`` different others, drawn at random.

    The graph has no logical grid.

    Raises
    ------
    InputError
        If there are not ``degree`` others.

    Examples
    --------
    >>> random_pairs(10, 3, 100, seed=7)
    CommGraph(random-10-3: 10 tasks, 30 edges, 3000 bytes, 30 messages)
    """
    size = whole_number(n_tasks, "number of tasks", 1, MAX_TASKS)
    degree = whole_number(degree, "degree", 0, size - 1)
    rng = np.random.default_rng(whole_number(seed, "seed", 0))
    # Floyd's sampling without replacement, for all tasks at once: the i-th draw is from a range one
    # longer, and a draw that repeats is replaced by the end of the range, which is new.
    chosen = np.full((size, degree), -1, dtype=np.int64)
    for i in range(degree):
        last = size - 1 - degree + i
        draw = rng.integers(0, last, size=size, endpoint=True)
        chosen[:, i] = np.where((chosen == draw[:, None]).any(axis=1), last, draw)
    src = np.arange(size)[:, None]
    chosen += chosen >= src
    chosen.sort(axis=1)
    return edges(size, src, chosen, nbytes, n_messages, None, f"random-{size}-{degree}")
