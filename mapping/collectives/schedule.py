"""The rounds of a collective, and the workload that they make."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..comm_graph import CommGraph, sum_edges
from ..workload import Workload


@dataclass(frozen=True, eq=False)
class Round:
    """Messages that tasks send at the same step of a collective.

    Parameters
    ----------
    src, dst : ndarray of int, shape (n_messages,)
        Sending and receiving task of each message.
    nbytes : ndarray of float, shape (n_messages,)
        Bytes of each; a number holds for all.
    reduces : bool
        Whether the receiver adds what it gets to what it has.
    times : int
        How often the round stands in a row.
    pieces : float
        Messages that each of these is cut into.
    """

    src: NDArray[np.int64]
    dst: NDArray[np.int64]
    nbytes: NDArray[np.float64]
    reduces: bool = False
    times: int = 1
    pieces: float = 1.0

    def __init__(
        self,
        src: ArrayLike,
        dst: ArrayLike,
        nbytes: ArrayLike,
        *,
        reduces: bool = False,
        times: int = 1,
        pieces: float = 1.0,
    ) -> None:
        ends = [np.asarray(end, dtype=np.int64) for end in (src, dst)]
        amounts = np.broadcast_to(np.asarray(nbytes, dtype=np.float64), ends[0].shape)
        values: tuple[Any, ...] = (*ends, amounts, reduces, times, pieces)
        names = ("src", "dst", "nbytes", "reduces", "times", "pieces")
        for name, value in zip(names, values, strict=True):
            object.__setattr__(self, name, value)

    def reversed(self, *, reduces: bool = False) -> Round:
        """The same messages the other way."""
        return Round(
            self.dst,
            self.src,
            self.nbytes,
            reduces=reduces,
            times=self.times,
            pieces=self.pieces,
        )


Lane = tuple[Round, ...]


@dataclass(frozen=True, eq=False)
class Schedule:
    """Who sends how much to whom in every round of a collective.

    Attributes
    ----------
    name : str
        Name in the registry.
    n_tasks : int
    nbytes : float
        Size of the collective's whole buffer: of the vector that is broadcast or reduced, of all
        blocks of a gather, scatter or allgather together, of what each task sends in an all-to-all.
    lanes : tuple of tuples of Round
        A lane for each port of the node that the algorithm drives by itself; each carries its share
        of the buffer.
    at_once : bool
        Whether a task starts all its rounds together, and they are but a way to list the messages.

    Examples
    --------
    >>> swap = Round([0, 1], [1, 0], 8, reduces=True, times=2)
    >>> rounds = Schedule("allreduce/twice", 2, 8, ((swap,),)).workload()
    >>> len(rounds), rounds.dependent, rounds.total.nbytes.tolist()
    (2, True, [16.0, 16.0])
    """

    name: str
    n_tasks: int
    nbytes: float
    lanes: tuple[Lane, ...]
    at_once: bool = False

    def rounds(self) -> Iterator[tuple[int, tuple[Round, ...]]]:
        """Rounds of all lanes side by side: how often in a row, and a round of each lane left."""
        if len({tuple(step.times for step in lane) for lane in self.lanes}) == 1:
            yield from ((steps[0].times, steps) for steps in zip(*self.lanes, strict=True))
            return
        lanes = [[step for step in lane for _ in range(step.times)] for lane in self.lanes]
        for number in range(max(map(len, lanes))):
            yield 1, tuple(lane[number] for lane in lanes if number < len(lane))

    def in_turn(self) -> Schedule:
        """The lanes one after the other, as a single one.

        Examples
        --------
        >>> there, back = Round([0], [1], 8), Round([1], [0], 8)
        >>> plan = Schedule("bcast/twice", 2, 16, ((there,), (back,)))
        >>> len(plan.workload()), len(plan.in_turn().workload())
        (1, 2)
        """
        lane = tuple(step for lane in self.lanes for step in lane)
        return Schedule(self.name, self.n_tasks, self.nbytes, (lane,), self.at_once)

    def workload(self) -> Workload:
        """The messages as a workload of dependent rounds, the lanes of a round merged.

        With ``at_once`` it is a single phase; so it is for one task, which sends nothing.
        """
        phases: list[CommGraph] = []
        for times, steps in self.rounds():
            phases += [merged(self.n_tasks, steps, self.name)] * times
        phases = phases or [CommGraph(self.n_tasks, [], [], [], name=self.name)]
        if self.at_once:
            total = Workload(phases, name=self.name).total
            return Workload([total], name=self.name, dependent=True)
        return Workload(phases, name=self.name, dependent=True)


def merged(n_tasks: int, steps: Sequence[Round], name: str = "") -> CommGraph:
    """Return the messages of several rounds as one graph."""
    src, dst, nbytes = (
        np.concatenate([getattr(step, field) for step in steps])
        for field in ("src", "dst", "nbytes")
    )
    pieces = np.concatenate([np.full(step.src.size, step.pieces) for step in steps])
    return sum_edges(n_tasks, src, dst, nbytes, pieces, name=name)


# Tasks, bytes, shape of the grid, ports and segment size.
Build = Callable[[int, float, tuple[int, ...], int, float], Schedule]
