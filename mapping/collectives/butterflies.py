"""Butterflies: recursive doubling and halving, Rabenseifner's allreduce, and their bine twins.

Sources: Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in
MPICH", Int. J. High Perform. Comput. Appl. 19, 2005; for the bine family see `butterfly_partners`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .folding import fold, unfold
from .partners import Family, butterfly_partners
from .schedule import Lane, Round, Schedule


def allgather(
    n_tasks: int,
    nbytes: float,
    shape: Sequence[int],
    *,
    family: Family = "binary",
    ports: int = 1,
    far_first: bool = False,
    by_block: bool = False,
    sorted_first: bool = False,
    name: str = "allgather/recursive_doubling",
) -> Schedule:
    """Allgather by doubling: in step k partners swap the 2**k blocks that they hold.

    ``far_first`` starts with the far partners, when messages are short. ``by_block`` sends each
    block as a message of its own, ``sorted_first`` moves every block once before the first step so
    that all messages are contiguous in memory.
    """
    lanes = []
    block = nbytes / n_tasks / ports
    folding = fold(shape)
    for partners in _lanes(folding.sizes, family, ports):
        held = folding.weight
        lane = []
        for row in partners[::-1] if far_first else partners:
            lane.append(_swap(row, block * held, pieces=float(held.max()) if by_block else 1))
            held = held + held[row]
        if sorted_first:
            place = _place(partners)
            moved = np.flatnonzero(place != np.arange(place.size))
            lane.insert(0, Round(place[moved], moved, block * folding.weight[moved]))
        first, last = folding.hand_blocks(block), folding.hand_other_blocks(block)
        lanes.append(folding.lane(tuple(lane), first, last))
    return Schedule(name, n_tasks, nbytes, tuple(lanes))


def reduce_scatter(
    n_tasks: int,
    nbytes: float,
    shape: Sequence[int],
    *,
    family: Family = "binary",
    ports: int = 1,
    name: str = "reduce_scatter/recursive_halving",
) -> Schedule:
    """Reduce-scatter by halving: near partners swap half of the vector first."""
    doubled = allgather(n_tasks, nbytes, shape, family=family, ports=ports, far_first=True)
    lanes = tuple(
        tuple(step.reversed(reduces=True) for step in reversed(lane)) for lane in doubled.lanes
    )
    return Schedule(name, n_tasks, nbytes, lanes)


def allreduce(
    n_tasks: int,
    nbytes: float,
    shape: Sequence[int],
    *,
    family: Family = "binary",
    ports: int = 1,
    name: str = "allreduce/recursive_doubling",
) -> Schedule:
    """Allreduce by doubling: partners swap and add the whole vector in each step."""
    folding = fold(shape)
    lanes = tuple(
        tuple(_swap(row, nbytes / ports, reduces=True) for row in partners)
        for partners in _lanes(folding.sizes, family, ports)
    )
    return unfold(folding, Schedule(name, 0, nbytes, lanes), n_tasks, before=True, after=True)


def rabenseifner(
    n_tasks: int,
    nbytes: float,
    shape: Sequence[int],
    *,
    family: Family = "binary",
    ports: int = 1,
    name: str = "allreduce/rabenseifner",
) -> Schedule:
    """Allreduce as a reduce-scatter by halving and an allgather by doubling, back the same way."""
    folding = fold(shape)
    down, up = halves(nbytes, folding.sizes, family=family, ports=ports)
    lanes = tuple(a + b for a, b in zip(down, up, strict=True))
    return unfold(folding, Schedule(name, 0, nbytes, lanes), n_tasks, before=True, after=True)


def halves(
    nbytes: float, sizes: Sequence[int], *, family: Family, ports: int
) -> tuple[tuple[Lane, ...], tuple[Lane, ...]]:
    """A reduce-scatter by halving on powers of two, and an allgather back the same way."""
    down = tuple(_halving(partners, nbytes / ports) for partners in _lanes(sizes, family, ports))
    up = tuple(tuple(step.reversed() for step in reversed(lane)) for lane in down)
    return down, up


def alltoall(
    n_tasks: int,
    nbytes: float,
    shape: Sequence[int],
    *,
    family: Family = "bine",
    name: str = "alltoall/bine",
) -> Schedule:
    """All-to-all in log2(n) steps: each forwards half of the blocks that a task holds."""
    lane = tuple(_swap(row, nbytes / 2) for row in butterfly_partners(shape, family=family))
    return Schedule(name, n_tasks, nbytes, (lane,))


def _lanes(shape: Sequence[int], family: Family, ports: int) -> list[NDArray[np.int64]]:
    return [butterfly_partners(shape, family=family, port=port) for port in range(ports)]


def _swap(
    partner: NDArray[np.int64],
    nbytes: float | NDArray[np.float64],
    *,
    reduces: bool = False,
    pieces: float = 1,
) -> Round:
    return Round(np.arange(partner.size), partner, nbytes, reduces=reduces, pieces=pieces)


def _halving(partners: NDArray[np.int64], nbytes: float) -> Lane:
    return tuple(
        _swap(row, nbytes / 2 ** (step + 1), reduces=True) for step, row in enumerate(partners)
    )


def _place(partners: NDArray[np.int64]) -> NDArray[np.int64]:
    """Position of each task when the tree of task 0, near partners first, is walked in depth."""
    place = np.zeros(partners.shape[1], dtype=np.int64)
    held = np.zeros(1, dtype=np.int64)
    for step, row in enumerate(partners):
        reached = row[held]
        place[reached] = place[held] + 2 ** (len(partners) - 1 - step)
        held = np.concatenate([held, reached])
    assert held.size == math.prod(place.shape)
    return place
