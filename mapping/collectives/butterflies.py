"""Butterflies: recursive doubling and halving, Rabenseifner's allreduce, their bine twins, trees.

Sources: Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in
MPICH", Int. J. High Perform. Comput. Appl. 19, 2005; for the bine family see `butterfly_partners`.

The number of tasks need not be a power of two. With ``n`` tasks along a dimension and ``p`` the
largest power of two up to ``n``, each of the first ``n - p`` odd tasks hands its data to the even
task before it. The remaining ``p`` tasks run the butterfly, and the others get the result (section
4.1 there, where the even ones hand over).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from toruscast.errors import InputError
from toruscast.validation import one_of, whole_sizes

from .schedules import Call, Lane, Lanes, Round, backwards, followed, register

Family = Literal["bine", "binary"]


def butterfly_partners(
    shape: Sequence[int], *, family: Family = "bine", port: int = 0
) -> NDArray[np.int64]:
    """Return the partner of every task in every step of a butterfly, the near ones first.

    Parameters
    ----------
    shape : sequence of int
        Tasks along each dimension, each a power of two; ranks are in C order.
    family : {"bine", "binary"}
        Distance of step k along its dimension. ``binary``: the coordinates differ in bit k.
        ``bine``: the signed sum 1 - 2 + 4 - ... of k + 1 terms (1, -1, 3, -5, 11, ...) away from an
        even coordinate, against it from an odd one, so that far steps stay a third shorter.
    port : int
        Port of the node. Steps go round the dimensions in turn, starting with dimension ``port``;
        the second half of the ports of a torus run the mirror image.

    Returns
    -------
    ndarray, shape (n_steps, n_tasks)
        Each row is its own inverse: partners swap.

    Notes
    -----
    De Sensi et al., "Bine trees: enhancing collective operations by optimizing communication
    locality", SC'25, for a ring; for tori and several ports De Sensi et al., "Swing:
    short-cutting rings for higher bandwidth allreduce", NSDI'24. In two dimensions ports 2 and 3
    are the mirrored ones and 4 and 5 repeat 0 and 1, as in the authors' port to Fugaku
    (HLC-Lab/bine_trees_fugaku).

    Examples
    --------
    >>> butterfly_partners((8,)).tolist()
    [[1, 0, 3, 2, 5, 4, 7, 6], [7, 2, 1, 4, 3, 6, 5, 0], [3, 6, 5, 0, 7, 2, 1, 4]]
    """
    sizes = powers_of_two(shape)
    one_of(family, "family", get_args(Family))
    coords = np.indices(sizes).reshape(len(sizes), -1)
    mirrored = is_mirrored(port, len(sizes))
    rows = []
    for dim, step in _dimension_steps(sizes, port):
        along = coords[dim]
        if family == "binary":
            away = (along ^ (1 << step)) - along
        else:
            away = np.where(along % 2 == 0, 1, -1) * ((1 - (-2) ** (step + 1)) // 3)
        moved = list(coords)
        moved[dim] = (along + (-away if mirrored else away)) % sizes[dim]
        rows.append(np.ravel_multi_index(moved, sizes))
    return np.array(rows, dtype=np.int64).reshape(len(rows), math.prod(sizes))


def is_mirrored(port: int, ndim: int) -> bool:
    """Whether a port runs the mirror image, so that it uses links the other way."""
    return {1: port % 2 == 1, 2: port in (2, 3)}.get(ndim, port >= ndim)


def powers_of_two(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the sizes of a grid, all powers of two."""
    sizes = whole_sizes(shape, "task grid")
    if not sizes or any(size < 1 or size & (size - 1) for size in sizes):
        raise InputError("bad task grid", found=sizes, expected="powers of two")
    return sizes


def _dimension_steps(sizes: tuple[int, ...], port: int) -> list[tuple[int, int]]:
    """Dimension and step within it: the first step of each dimension, the second of each, ..."""
    ndim = len(sizes)
    turn = [(port + i) % ndim for i in range(ndim)]
    most = max(size.bit_length() for size in sizes)
    return [(d, step) for step in range(most) for d in turn if step < sizes[d].bit_length() - 1]


Ranks = NDArray[np.int64]


class Folding(NamedTuple):
    """Tasks that run a butterfly, and those that hand their data to them."""

    sizes: tuple[int, ...]
    """Sizes of the grid of tasks that run, powers of two."""
    rank: Ranks
    """Rank of each of them among all tasks, in C order."""
    weight: NDArray[np.float64]
    """Number of tasks that each of them represents, with itself."""
    handed: tuple[tuple[Ranks, Ranks], ...]
    """Senders and receivers that hand over, dimension by dimension."""

    def lane(self, inner: Lane, before: Lane = (), after: Lane = ()) -> Lane:
        """Rounds of the tasks that run, in ranks of all tasks, between others."""
        renamed = (replace(r, src=self.rank[r.src], dst=self.rank[r.dst]) for r in inner)
        return (*before, *renamed, *after)

    def hand_over(self, nbytes: float, *, reduces: bool = False) -> Lane:
        """Rounds in which tasks hand over so many bytes."""
        return tuple(Round(src, dst, nbytes, reduces=reduces) for src, dst in self.handed)

    def hand_back(self, nbytes: float) -> Lane:
        """Rounds in which the other tasks get so many bytes."""
        return tuple(Round(dst, src, nbytes) for src, dst in reversed(self.handed))

    def hand_blocks(self, block: float) -> tuple[Lane, Lane]:
        """Rounds in which tasks hand over their blocks, and in which they get all others back."""
        n_tasks = int(self.weight.sum())
        held = np.ones(n_tasks)
        over, back = [], []
        for src, dst in self.handed:
            over.append(Round(src, dst, held[src] * block))
            back.append(Round(dst, src, (n_tasks - held[src]) * block))
            held[dst] += held[src]
        return tuple(over), tuple(reversed(back))


def fold(shape: Sequence[int]) -> Folding:
    """Return how the tasks of a grid fold onto one of powers of two."""
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


def _unfold(
    folding: Folding, inner: Lanes, nbytes: float, *, before: bool = False, after: bool = False
) -> Lanes:
    """Lanes of the tasks that run, with whole buffers handed over before or back after."""
    share = nbytes / len(inner)
    first = folding.hand_over(share, reduces=True) if before else ()
    last = folding.hand_back(share) if after else ()
    return tuple(folding.lane(lane, first, last) for lane in inner)


def _partner_tables(shape: Sequence[int], family: Family, ports: int) -> list[NDArray[np.int64]]:
    return [butterfly_partners(shape, family=family, port=port) for port in range(ports)]


def _swap_round(
    partner: NDArray[np.int64],
    nbytes: float | NDArray[np.float64],
    *,
    reduces: bool = False,
    pieces: float = 1,
) -> Round:
    return Round(np.arange(partner.size), partner, nbytes, reduces=reduces, pieces=pieces)


def _allgather(
    family: Family,
    call: Call,
    *,
    far_first: bool = True,
    by_block: bool = False,
    sorted_first: bool = False,
) -> Lanes:
    """Allgather by doubling: in step k partners swap the 2**k blocks that they hold."""
    lanes = []
    block = call.nbytes / call.n_tasks / call.ports
    folding = fold(call.shape)
    for partners in _partner_tables(folding.sizes, family, call.ports):
        held = folding.weight
        lane = []
        for row in partners[::-1] if far_first else partners:
            lane.append(_swap_round(row, block * held, pieces=float(held.max()) if by_block else 1))
            held = held + held[row]
        if sorted_first:
            place = _tree_places(partners)
            moved = np.flatnonzero(place != np.arange(place.size))
            lane.insert(0, Round(place[moved], moved, block * folding.weight[moved]))
        lanes.append(folding.lane(tuple(lane), *folding.hand_blocks(block)))
    return tuple(lanes)


def _tree_places(partners: NDArray[np.int64]) -> NDArray[np.int64]:
    """Position of each task when the tree of task 0, near partners first, is walked in depth."""
    place = np.zeros(partners.shape[1], dtype=np.int64)
    held = np.zeros(1, dtype=np.int64)
    for step, row in enumerate(partners):
        reached = row[held]
        place[reached] = place[held] + 2 ** (len(partners) - 1 - step)
        held = np.concatenate([held, reached])
    assert held.size == math.prod(place.shape)
    return place


def _reduce_scatter(family: Family, call: Call) -> Lanes:
    """Reduce-scatter by halving: near partners swap half of the vector first."""
    return backwards(_allgather(family, call), reduces=True)


def _allreduce(family: Family, call: Call) -> Lanes:
    """Allreduce by doubling: partners swap and add the whole vector in each step."""
    folding, share = fold(call.shape), call.nbytes / call.ports
    tables = _partner_tables(folding.sizes, family, call.ports)
    inner = tuple(tuple(_swap_round(row, share, reduces=True) for row in table) for table in tables)
    return _unfold(folding, inner, call.nbytes, before=True, after=True)


def _halving(family: Family, call: Call, sizes: Sequence[int]) -> Lanes:
    """Reduce-scatter by halving on powers of two."""
    share = call.nbytes / call.ports
    return tuple(
        tuple(
            _swap_round(row, share / 2**step, reduces=True) for step, row in enumerate(partners, 1)
        )
        for partners in _partner_tables(sizes, family, call.ports)
    )


def _rabenseifner(family: Family, call: Call) -> Lanes:
    """Allreduce as a reduce-scatter by halving and an allgather by doubling, back the same way."""
    folding = fold(call.shape)
    down = _halving(family, call, folding.sizes)
    inner = followed(down, backwards(down))
    return _unfold(folding, inner, call.nbytes, before=True, after=True)


def _alltoall(family: Family, call: Call) -> Lanes:
    """All-to-all in log2(n) steps: each forwards half of the blocks that a task holds."""
    partners = butterfly_partners(call.shape, family=family)
    return (tuple(_swap_round(row, call.nbytes / 2) for row in partners),)


Edges = list[tuple[NDArray[np.int64], NDArray[np.int64]]]


def _tree_edges(
    shape: Sequence[int], family: Family, ports: int, *, far_first: bool
) -> list[Edges]:
    """Edges of each step of the tree of task 0, for each port."""
    trees = []
    for partners in _partner_tables(shape, family, ports):
        held = np.zeros(1, dtype=np.int64)
        tree = []
        for row in partners[::-1] if far_first else partners:
            tree.append((held, row[held]))
            held = np.concatenate([held, row[held]])
        trees.append(tree)
    return trees


def _broadcast(family: Family, call: Call) -> Lanes:
    """Broadcast down the tree of a butterfly, on each port its share, in pieces of a segment."""
    share, folding = call.nbytes / call.ports, fold(call.shape)
    pieces = max(1.0, float(np.ceil(share / call.segment))) if call.segment else 1.0
    inner = tuple(
        tuple(Round(src, dst, share, pieces=pieces) for src, dst in tree)
        for tree in _tree_edges(folding.sizes, family, call.ports, far_first=True)
    )
    return _unfold(folding, inner, call.nbytes, after=True)


def _scatter(family: Family, call: Call, *, far_first: bool = True) -> Lanes:
    """Scatter down the tree of a butterfly: each step sends half of what a task holds."""
    folding = fold(call.shape)
    block = call.nbytes / call.ports / math.prod(call.shape)
    out = tuple(step.reversed() for step in reversed(folding.hand_blocks(block)[0]))
    lanes = []
    for tree in _tree_edges(folding.sizes, family, call.ports, far_first=far_first):
        below = folding.weight.copy()
        lane: Lane = ()
        for src, dst in reversed(tree):
            lane = (Round(src, dst, below[dst] * block), *lane)
            below[src] += below[dst]
        lanes.append(folding.lane(lane, after=out))
    return tuple(lanes)


def _in_two(family: Family, call: Call, *, reduces: bool = False) -> Lanes:
    """Broadcast as a scatter and an allgather, or reduce as a reduce-scatter and a gather."""
    folding = fold(call.shape)
    down = _scatter(family, call._replace(shape=folding.sizes), far_first=False)
    halves = _halving(family, call, folding.sizes)
    first, second = (halves, down) if reduces else (down, halves)
    inner = followed(first, backwards(second))
    return _unfold(folding, inner, call.nbytes, before=reduces, after=not reduces)


def _register_family(label: str, family: Family) -> None:
    """Register the algorithms of a family along the dimensions of a torus."""
    algorithms: dict[str, Callable[..., Lanes]] = {
        f"allgather/{label}": _allgather,
        f"allgather/{label}_blocks": partial(_allgather, by_block=True),
        f"allgather/{label}_sorted": partial(_allgather, sorted_first=True),
        f"reduce_scatter/{label}": _reduce_scatter,
        f"allreduce/{label}": _allreduce,
        f"allreduce/{label}_rabenseifner": _rabenseifner,
        f"bcast/{label}": _broadcast,
        f"reduce/{label}": lambda f, call: backwards(_broadcast(f, call), reduces=True),
        f"scatter/{label}": _scatter,
        f"scatter/{label}_near": partial(_scatter, far_first=False),
        # A gather that starts with the near partners is a scatter backwards that ends with them.
        f"gather/{label}": lambda f, call: backwards(_scatter(f, call, far_first=False)),
        f"gather/{label}_near": lambda f, call: backwards(_scatter(f, call)),
        f"bcast/{label}_scatter_allgather": _in_two,
        f"reduce/{label}_reduce_scatter_gather": partial(_in_two, reduces=True),
    }
    for name, lanes in algorithms.items():
        register(name, partial(lanes, family), ports=True)


def _on_ranks(name: str, lanes: Callable[..., Lanes]) -> None:
    """Register a butterfly over the ranks, without regard to the torus."""
    register(name, lambda call: lanes("binary", call._replace(shape=(call.n_tasks,))))


_register_family("bine", "bine")
_register_family("torus_binary", "binary")
_on_ranks("allgather/recursive_doubling", partial(_allgather, far_first=False))
_on_ranks("allreduce/recursive_doubling", _allreduce)
_on_ranks("allreduce/rabenseifner", _rabenseifner)
_on_ranks("reduce_scatter/recursive_halving", _reduce_scatter)
register("alltoall/bine", partial(_alltoall, "bine"))
