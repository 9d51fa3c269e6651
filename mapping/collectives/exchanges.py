"""All-to-all without butterflies, and Bruck's algorithms.

Sources: Bruck et al., "Efficient algorithms for all-to-all communications in multiport
message-passing systems", IEEE Trans. Parallel Distrib. Syst. 8, 1997; Thakur et al., IJHPCA 19,
2005 (pairwise exchange).
"""

from __future__ import annotations

import numpy as np

from .schedule import Lane, Round, Schedule


def pairwise(n_tasks: int, nbytes: float) -> Schedule:
    """All-to-all in n - 1 rounds: in round r task a sends to a + r and receives from a - r."""
    return Schedule("alltoall/pairwise", n_tasks, nbytes, (_shifts(n_tasks, nbytes),))


def linear(n_tasks: int, nbytes: float) -> Schedule:
    """All-to-all with all messages under way at once."""
    lanes = (_shifts(n_tasks, nbytes),)
    return Schedule("alltoall/linear", n_tasks, nbytes, lanes, at_once=True)


def bruck_alltoall(n_tasks: int, nbytes: float) -> Schedule:
    """All-to-all in ceil(log2 n) rounds: round k moves the blocks whose way has bit k by 2**k."""
    ranks = np.arange(n_tasks)
    lane = []
    for step in range((n_tasks - 1).bit_length()):
        blocks = int((ranks >> step & 1).sum())
        lane.append(Round(ranks, (ranks + 2**step) % n_tasks, nbytes / n_tasks * blocks))
    return Schedule("alltoall/bruck", n_tasks, nbytes, (tuple(lane),))


def bruck_allgather(n_tasks: int, nbytes: float) -> Schedule:
    """Allgather in ceil(log2 n) rounds: all that a task holds goes 2**k ranks back."""
    ranks = np.arange(n_tasks)
    lane = []
    for step in range((n_tasks - 1).bit_length()):
        blocks = min(2**step, n_tasks - 2**step)
        lane.append(Round(ranks, (ranks - 2**step) % n_tasks, nbytes / n_tasks * blocks))
    return Schedule("allgather/bruck", n_tasks, nbytes, (tuple(lane),))


def _shifts(n_tasks: int, nbytes: float) -> Lane:
    ranks = np.arange(n_tasks)
    return tuple(
        Round(ranks, (ranks + shift) % n_tasks, nbytes / n_tasks) for shift in range(1, n_tasks)
    )
