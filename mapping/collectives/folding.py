"""Butterflies on any number of tasks: those beyond a power of two stand behind another one.

Of the ``n`` tasks along a dimension, with ``p`` the largest power of two that is not above it, each
of the first ``n - p`` odd ones hands what it has to the even one before it, the ``p`` that are left
run the butterfly, and those that stood behind get the result (Thakur, Rabenseifner and Gropp, Int.
J. High Perform. Comput. Appl. 19, 2005, section 4.1; there the even ones hand over).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .schedule import Lane, Round, Schedule

Ranks = NDArray[np.int64]


class Folding(NamedTuple):
    """Which tasks run a butterfly, and which stand behind them."""

    sizes: tuple[int, ...]
    """Of the grid of those that run, powers of two."""
    rank: Ranks
    """Of each of them among all tasks, in C order."""
    weight: NDArray[np.float64]
    """Tasks that each of them represents, itself included."""
    handed: tuple[tuple[Ranks, Ranks], ...]
    """Who hands over to whom, dimension by dimension."""

    def lane(self, inner: Lane, before: Lane = (), after: Lane = ()) -> Lane:
        """The rounds of those that run, by all tasks' ranks, with others before and after."""
        renamed = tuple(
            Round(
                self.rank[step.src],
                self.rank[step.dst],
                step.nbytes,
                reduces=step.reduces,
                times=step.times,
                pieces=step.pieces,
            )
            for step in inner
        )
        return before + renamed + after

    def hand_over(self, nbytes: float, *, reduces: bool = False) -> Lane:
        """The rounds in which tasks hand over so many bytes."""
        return tuple(Round(src, dst, nbytes, reduces=reduces) for src, dst in self.handed)

    def blocks(self) -> tuple[NDArray[np.float64], ...]:
        """How many tasks' blocks each one that hands over has by then."""
        held = np.ones(int(self.weight.sum()))
        found = []
        for src, dst in self.handed:
            found.append(held[src])
            held[dst] += held[src]
        return tuple(found)

    def hand_blocks(self, block: float) -> Lane:
        """The rounds in which tasks hand over the blocks that they have by then."""
        pairs = zip(self.handed, self.blocks(), strict=True)
        return tuple(Round(*ends, held * block) for ends, held in pairs)

    def hand_other_blocks(self, block: float) -> Lane:
        """The rounds in which the others get the blocks that they had not."""
        n_tasks = self.weight.sum()
        pairs = zip(self.handed, self.blocks(), strict=True)
        lane = [Round(dst, src, (n_tasks - held) * block) for (src, dst), held in pairs]
        return tuple(reversed(lane))

    def hand_back(self, nbytes: float) -> Lane:
        """The rounds in which the others get so many bytes."""
        return tuple(Round(dst, src, nbytes) for src, dst in reversed(self.handed))


def fold(shape: Sequence[int]) -> Folding:
    """Return how the tasks of a grid fold onto one of powers of two.

    Examples
    --------
    >>> folding = fold((6,))
    >>> folding.sizes, folding.rank.tolist(), folding.weight.tolist()
    ((4,), [0, 2, 4, 5], [2.0, 2.0, 1.0, 1.0])
    >>> [(src.tolist(), dst.tolist()) for src, dst in folding.handed]
    [([1, 3], [0, 2])]
    """
    ranks = np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape)
    weight = np.ones(ranks.shape)
    handed = []
    for d, size in enumerate(shape):
        extra = size - (1 << (size.bit_length() - 1))
        if not extra:
            continue
        behind = 2 * np.arange(extra) + 1
        src, dst = np.take(ranks, behind, axis=d), np.take(ranks, behind - 1, axis=d)
        handed.append((src.ravel(), dst.ravel()))
        more = np.take(weight, behind, axis=d)
        before = [slice(None)] * len(shape)
        before[d] = behind - 1  # type: ignore[call-overload]
        weight[tuple(before)] += more
        ranks, weight = np.delete(ranks, behind, axis=d), np.delete(weight, behind, axis=d)
    return Folding(ranks.shape, ranks.ravel(), weight.ravel(), tuple(handed))


def unfold(folding: Folding, inner: Schedule, n_tasks: int, before: bool, after: bool) -> Schedule:
    """Return a schedule of those that run with whole buffers handed over before or back after."""
    share = inner.nbytes / len(inner.lanes)
    first = folding.hand_over(share, reduces=True) if before else ()
    last = folding.hand_back(share) if after else ()
    lanes = tuple(folding.lane(lane, first, last) for lane in inner.lanes)
    return Schedule(inner.name, n_tasks, inner.nbytes, lanes, inner.at_once)
