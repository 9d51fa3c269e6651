"""The algorithms of collectives: butterflies with their bine twins, trees and rings.

Sources: Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in
MPICH", Int. J. High Perform. Comput. Appl. 19, 2005; for the bine family see `butterfly_partners`.

The number of tasks of a butterfly need not be a power of two. With ``n`` tasks along a dimension
and ``p`` the largest power of two up to ``n``, each of the first ``n - p`` odd tasks hands its data
to the even task before it. The remaining ``p`` tasks run the butterfly, and the others get the
result (section 4.1 there, where the even ones hand over).
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
from toruscast.validation import one_of, whole_number, whole_sizes

from .schedules import Algorithm, Call, Lane, Lanes, Round, backwards, followed, register

Ranks = NDArray[np.int64]
Family = Literal["bine", "binary"]


def butterfly_partners(shape: Sequence[int], *, family: Family = "bine", port: int = 0) -> Ranks:
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
    sizes = whole_sizes(shape, "task grid")
    if not sizes or any(size & (size - 1) for size in sizes):
        raise InputError("bad task grid", found=sizes, expected="powers of two")
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


def _dimension_steps(sizes: tuple[int, ...], port: int) -> list[tuple[int, int]]:
    """Dimension and step within it: the first step of each dimension, the second of each, ..."""
    ndim = len(sizes)
    turn = [(port + i) % ndim for i in range(ndim)]
    most = max(size.bit_length() for size in sizes)
    return [(d, step) for step in range(most) for d in turn if step < sizes[d].bit_length() - 1]


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

    def inner_call(self, call: Call) -> Call:
        """Arguments of the algorithm among the tasks that run."""
        return call._replace(n_tasks=self.rank.size, shape=self.sizes)

    def lane(self, inner: Lane, before: Lane = (), after: Lane = ()) -> Lane:
        """Rounds of the tasks that run, in ranks of all tasks, between others."""
        renamed = (replace(r, src=self.rank[r.src], dst=self.rank[r.dst]) for r in inner)
        return (*before, *renamed, *after)

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
        lines = np.moveaxis(weight, d, 0)
        lines[behind - 1] += lines[behind]
        ranks, weight = np.delete(ranks, behind, axis=d), np.delete(weight, behind, axis=d)
    return Folding(ranks.shape, ranks.ravel(), weight.ravel(), tuple(handed))


def _unfold(
    folding: Folding, inner: Lanes, nbytes: float, *, before: bool = False, after: bool = False
) -> Lanes:
    """Lanes of the tasks that run, with whole buffers handed over before or back after."""
    over = tuple(Round(src, dst, nbytes / len(inner), reduces=True) for src, dst in folding.handed)
    (back,) = backwards((over,))
    first, last = over if before else (), back if after else ()
    return tuple(folding.lane(lane, first, last) for lane in inner)


def _partner_tables(shape: Sequence[int], family: Family, ports: int) -> list[Ranks]:
    return [butterfly_partners(shape, family=family, port=port) for port in range(ports)]


def _swap_round(
    partner: Ranks,
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


def _tree_places(partners: Ranks) -> Ranks:
    """Position of each task when the tree of task 0, near partners first, is walked in depth."""
    place = np.zeros(partners.shape[1], dtype=np.int64)
    for step, (src, dst) in enumerate(_tree_edges(partners, far_first=False), 1):
        place[dst] = place[src] + place.size // 2**step
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


def _rabenseifner(family: Family, call: Call) -> Lanes:
    """Allreduce as a reduce-scatter by halving and an allgather by doubling, back the same way."""
    folding = fold(call.shape)
    down = _reduce_scatter(family, folding.inner_call(call))
    inner = followed(down, backwards(down))
    return _unfold(folding, inner, call.nbytes, before=True, after=True)


def _alltoall(family: Family, call: Call) -> Lanes:
    """All-to-all in log2(n) steps: each forwards half of the blocks that a task holds."""
    partners = butterfly_partners(call.shape, family=family)
    return (tuple(_swap_round(row, call.nbytes / 2) for row in partners),)


def _tree_edges(partners: Ranks, *, far_first: bool) -> list[tuple[Ranks, Ranks]]:
    """Edges of each step of the tree of task 0."""
    held = np.zeros(1, dtype=np.int64)
    tree = []
    for row in partners[::-1] if far_first else partners:
        tree.append((held, row[held]))
        held = np.concatenate([held, row[held]])
    return tree


def _broadcast(family: Family, call: Call) -> Lanes:
    """Broadcast down the tree of a butterfly, on each port its share, in pieces of a segment."""
    share, folding = call.nbytes / call.ports, fold(call.shape)
    pieces = max(1.0, float(np.ceil(share / call.segment))) if call.segment else 1.0
    inner = tuple(
        tuple(Round(*ends, share, pieces=pieces) for ends in _tree_edges(partners, far_first=True))
        for partners in _partner_tables(folding.sizes, family, call.ports)
    )
    return _unfold(folding, inner, call.nbytes, after=True)


def _scatter(family: Family, call: Call, *, far_first: bool = True) -> Lanes:
    """Scatter down the tree of a butterfly: each step sends half of what a task holds."""
    folding = fold(call.shape)
    block = call.nbytes / call.ports / call.n_tasks
    out = tuple(step.reversed() for step in reversed(folding.hand_blocks(block)[0]))
    lanes = []
    for partners in _partner_tables(folding.sizes, family, call.ports):
        below = folding.weight.copy()
        lane: Lane = ()
        for src, dst in reversed(_tree_edges(partners, far_first=far_first)):
            lane = (Round(src, dst, below[dst] * block), *lane)
            below[src] += below[dst]
        lanes.append(folding.lane(lane, after=out))
    return tuple(lanes)


def _in_two(family: Family, call: Call, *, reduces: bool = False) -> Lanes:
    """Broadcast as a scatter and an allgather, or reduce as a reduce-scatter and a gather."""
    folding = fold(call.shape)
    inner_call = folding.inner_call(call)
    down = _scatter(family, inner_call, far_first=False)
    halves = _reduce_scatter(family, inner_call)
    first, second = (halves, down) if reduces else (down, halves)
    inner = followed(first, backwards(second))
    return _unfold(folding, inner, call.nbytes, before=reduces, after=not reduces)


def flat(n_tasks: int) -> Ranks:
    """Every task hangs on the root."""
    return np.where(np.arange(n_tasks) == 0, -1, 0).astype(np.int64)


def chains(n_tasks: int, fanout: int = 1) -> Ranks:
    """Chains of consecutive tasks, ``fanout`` of them, as even as can be."""
    parent = np.arange(n_tasks, dtype=np.int64) - 1
    for part in np.array_split(np.arange(1, n_tasks), max(1, min(fanout, n_tasks - 1))):
        parent[part[:1]] = 0
    return parent


def binary(n_tasks: int) -> Ranks:
    """Two children a task, level by level; those of a task are a level's width apart."""
    place = np.arange(1, n_tasks + 1)
    width = _highest_bit(place)
    above = np.maximum(width // 2, 1)
    return np.where(place > 1, above - 1 + (place - width) % above, -1)


def _highest_bit(numbers: Ranks) -> Ranks:
    """Largest power of two up to each number of 1 or more."""
    return np.asarray(2 ** (np.frexp(numbers)[1].astype(np.int64) - 1))


def in_order_binomial(n_tasks: int) -> Ranks:
    """Binomial tree whose branches are neighbouring ranks: a task's parent lacks its lowest bit."""
    ranks = np.arange(n_tasks)
    return np.where(ranks > 0, ranks & (ranks - 1), -1)


def in_order_binary(n_tasks: int) -> Ranks:
    """Two children a task, subtrees of consecutive tasks, so that a reduction keeps their order."""
    parent = np.full(n_tasks, -1, dtype=np.int64)
    # Numbers count down from the root, the last task: a subtree's are just after its own root.
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


def dimension_chains(shape: Sequence[int], port: int) -> Ranks:
    """A chain along dimension ``port``; from each of it one along the next dimension, and so on.

    Tasks that share the root's coordinate in the first dimension, of which the first chain passes
    by, are reached last, over the link that closes the ring. Thus the trees of ports 0 to d - 1 of
    a d-dimensional torus have no directed link in common, and those of ports d to 2d - 1, their
    mirror images, use the links of the other direction.
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


def binomial_parents(n_tasks: int) -> Ranks:
    """Binomial tree whose root's first child is task 1: a task's parent lacks its highest bit."""
    ranks = np.arange(n_tasks)
    return np.where(ranks > 0, ranks - _highest_bit(np.maximum(ranks, 1)), -1)


def depths(parent: Ranks) -> Ranks:
    """Edges between each task and the root."""
    depth = np.zeros(parent.size, dtype=np.int64)
    above = parent
    while (above >= 0).any():
        depth += above >= 0
        above = np.where(above >= 0, parent[above], -1)
    return depth


def _pass_down(parent: Ranks, nbytes: float, segment: float = 0.0) -> Lane:
    """Broadcast in segments of at most ``segment`` bytes, 0 for one, to all children at once."""
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
        times = max(1, n_segments - longest + 1 if steady else 1)
        lane.append(Round(parent[child], child, nbytes / n_segments, times=times))
        number += times
    return tuple(lane)


def _tree_broadcast(parents: Callable[[int], Ranks], call: Call) -> Lanes:
    return (_pass_down(parents(call.n_tasks), call.nbytes),)


def _tree_reduce(parents: Callable[[int], Ranks], call: Call) -> Lanes:
    """A task sends to its parent when all its children have sent."""
    lane = _pass_down(parents(call.n_tasks), call.nbytes, call.segment)
    return backwards((lane,), reduces=True)


def _split_binary(call: Call) -> Lanes:
    """Broadcast of one half of the data in each half of a binary tree, then swaps of the halves."""
    parent = binary(call.n_tasks)
    down = _pass_down(parent, call.nbytes / 2)
    top = np.arange(call.n_tasks)
    while (parent[top] > 0).any():
        top = np.where(parent[top] > 0, parent[top], top)
    left, right = (np.flatnonzero((top == child) & (parent >= 0)) for child in (1, 2))
    both = min(left.size, right.size)
    alone = np.concatenate([left[both:], right[both:]])
    swap = Round(
        np.concatenate([left[:both], right[:both], np.zeros(alone.size, dtype=np.int64)]),
        np.concatenate([right[:both], left[:both], alone]),
        call.nbytes / 2,
    )
    return ((*down, swap) if swap.src.size else down,)


def _linear_scatter(call: Call) -> Lanes:
    return _tree_broadcast(flat, call._replace(nbytes=call.nbytes / call.n_tasks))


def _binomial_scatter(call: Call) -> Lanes:
    """Scatter down a binomial tree over ranks, of any number of tasks, far ones first."""
    n, lane = call.n_tasks, []
    for step in reversed(range(max(0, n - 1).bit_length())):
        # Whole multiples of a subtree hold the blocks of the tasks just after them.
        src = np.arange(0, n, 2 ** (step + 1))
        dst = src + 2**step
        below = np.minimum(2**step, n - dst)
        there = dst < n
        lane.append(Round(src[there], dst[there], below[there] * (call.nbytes / n)))
    return (tuple(lane),)


def _pipelined_trees(call: Call) -> Lanes:
    """Broadcast through trees that share no link, a port each."""
    # A side of one task has no links, and no tree of its own.
    sizes = tuple(size for size in call.shape if size > 1) or (1,)
    trees = whole_number(call.ports, "number of trees", 1, 2 * len(sizes))
    share = call.nbytes / trees
    return tuple(
        _pass_down(dimension_chains(sizes, port), share, call.segment) for port in range(trees)
    )


def _ring_rounds(call: Call, *, reduces: bool) -> Lanes:
    """A lane for each port: n - 1 rounds of its share of a block, up the ranks and down."""
    n = call.n_tasks
    if call.ports > 2:
        raise InputError("bad number of ports of a ring", found=call.ports, expected="1 or 2")
    if n == 1:
        return ((),) * call.ports
    ranks, block = np.arange(n), call.nbytes / n / call.ports
    return tuple(
        (Round(ranks, (ranks + way) % n, block, reduces=reduces, times=n - 1),)
        for way in (1, -1)[: call.ports]
    )


def _bucket_rings(call: Call) -> Lanes:
    """Reduce-scatter in rings along one dimension after the other, each port with another first."""
    ranks, ndim = np.arange(math.prod(call.shape)).reshape(call.shape), len(call.shape)
    lanes = []
    for port in range(call.ports):
        direction = 1 if is_mirrored(port, ndim) else -1
        share, lane = call.nbytes / call.ports, []
        for dim in ((port + turn) % ndim for turn in range(ndim)):
            if (size := call.shape[dim]) > 1:
                # Each ring leaves a task a share of the buffer.
                share /= size
                ends = ranks.ravel(), np.roll(ranks, direction, axis=dim).ravel()
                lane.append(Round(*ends, share, reduces=True, times=size - 1))
        lanes.append(tuple(lane))
    return tuple(lanes)


def _neighbor_exchange(call: Call) -> Lanes:
    """Allgather by swaps with the two neighbours in turn: one block first, then always two."""
    n = call.n_tasks
    if n % 2:
        raise InputError("neighbour exchange", found=n, expected="an even number of tasks")
    ranks = np.arange(n)
    with_next = np.where(ranks % 2 == 0, ranks + 1, ranks - 1)
    with_last = np.where(ranks % 2 == 0, ranks - 1, ranks + 1) % n
    lane = [Round(ranks, with_next, call.nbytes / n)]
    lane += [
        Round(ranks, with_last if number % 2 else with_next, 2 * call.nbytes / n)
        for number in range(1, n // 2)
    ]
    return (tuple(lane),)


def _shifted_exchange(call: Call) -> Lanes:
    """All-to-all: in round r task a sends to a + r and receives from a - r."""
    ranks, n = np.arange(call.n_tasks), call.n_tasks
    return (tuple(Round(ranks, (ranks + r) % n, call.nbytes / n) for r in range(1, n)),)


def _bruck_rounds(call: Call, *, gathers: bool) -> Lanes:
    """Rounds k = 0, 1, ... below log2 n over 2**k ranks.

    An all-to-all moves the blocks whose way has bit k on; an allgather all that a task holds back.
    """
    ranks, n, lane = np.arange(call.n_tasks), call.n_tasks, []
    for step in range((n - 1).bit_length()):
        blocks = min(2**step, n - 2**step) if gathers else int((ranks >> step & 1).sum())
        away = -(2**step) if gathers else 2**step
        lane.append(Round(ranks, (ranks + away) % n, call.nbytes / n * blocks))
    return (tuple(lane),)


def _reversed(algorithm: Algorithm, *, reduces: bool = False) -> Algorithm:
    return lambda call: backwards(algorithm(call), reduces=reduces)


def _joined(first: Algorithm, second: Algorithm) -> Algorithm:
    return lambda call: followed(first(call), second(call))


def _on_ranks(algorithm: Callable[[Family, Call], Lanes]) -> Algorithm:
    """A butterfly over the ranks, without regard to the torus."""
    return lambda call: algorithm("binary", call._replace(shape=(call.n_tasks,)))


_TREES: dict[str, Callable[[int], Ranks]] = {
    "linear": flat,
    "binary": binary,
    "in_order_binary": in_order_binary,
    "chain": partial(chains, fanout=4),
    "pipeline": chains,
}
for _key, _parents in (_TREES | {"binomial": binomial_parents}).items():
    register(f"bcast/{_key}", partial(_tree_broadcast, _parents))
for _key, _parents in (_TREES | {"binomial": in_order_binomial}).items():
    register(f"reduce/{_key}", partial(_tree_reduce, _parents))

_ONE_PORT: dict[str, Algorithm] = {
    "allgather/bruck": partial(_bruck_rounds, gathers=True),
    "allgather/neighbor_exchange": _neighbor_exchange,
    "allgather/recursive_doubling": _on_ranks(partial(_allgather, far_first=False)),
    "allreduce/linear": _joined(
        lambda call: _tree_reduce(flat, call._replace(segment=0.0)), partial(_tree_broadcast, flat)
    ),
    "allreduce/rabenseifner": _on_ranks(_rabenseifner),
    "allreduce/recursive_doubling": _on_ranks(_allreduce),
    "alltoall/bine": partial(_alltoall, "bine"),
    "alltoall/bruck": partial(_bruck_rounds, gathers=False),
    "alltoall/pairwise": _shifted_exchange,
    "bcast/split_binary": _split_binary,
    "gather/binomial": _reversed(_binomial_scatter),
    "gather/linear": _reversed(_linear_scatter),
    "reduce_scatter/recursive_halving": _on_ranks(_reduce_scatter),
    "scatter/binomial": _binomial_scatter,
    "scatter/linear": _linear_scatter,
}
for _key, _algorithm in _ONE_PORT.items():
    register(_key, _algorithm)
# All messages are under way at once.
register("alltoall/linear", _shifted_exchange, at_once=True)

_ring_gather, _ring_sums = (partial(_ring_rounds, reduces=reduces) for reduces in (False, True))
_tree_sums = _reversed(_pipelined_trees, reduces=True)
_SEVERAL_PORTS: dict[str, Algorithm] = {
    "allgather/bucket": _reversed(_bucket_rings),
    "allgather/ring": _ring_gather,
    "allreduce/bucket": _joined(_bucket_rings, _reversed(_bucket_rings)),
    "allreduce/pipelined_trees": _joined(_tree_sums, _pipelined_trees),
    "allreduce/ring": _joined(_ring_sums, _ring_gather),
    "bcast/pipelined_trees": _pipelined_trees,
    "reduce/pipelined_trees": _tree_sums,
    "reduce_scatter/bucket": _bucket_rings,
    "reduce_scatter/ring": _ring_sums,
}
_BUTTERFLIES: dict[str, Callable[[Family, Call], Lanes]] = {
    "allgather/{}": _allgather,
    "allgather/{}_blocks": partial(_allgather, by_block=True),
    "allgather/{}_sorted": partial(_allgather, sorted_first=True),
    "reduce_scatter/{}": _reduce_scatter,
    "allreduce/{}": _allreduce,
    "allreduce/{}_rabenseifner": _rabenseifner,
    "bcast/{}": _broadcast,
    "scatter/{}": _scatter,
    "scatter/{}_near": partial(_scatter, far_first=False),
    "bcast/{}_scatter_allgather": _in_two,
    "reduce/{}_reduce_scatter_gather": partial(_in_two, reduces=True),
}
_FAMILIES: dict[str, Family] = {"bine": "bine", "torus_binary": "binary"}
for _label, _family in _FAMILIES.items():
    for _key, _lanes in _BUTTERFLIES.items():
        _SEVERAL_PORTS[_key.format(_label)] = partial(_lanes, _family)
    _SEVERAL_PORTS[f"reduce/{_label}"] = _reversed(partial(_broadcast, _family), reduces=True)
    # A gather that starts with the near partners is a scatter backwards that ends with them.
    _near_last = partial(_scatter, _family, far_first=False)
    _SEVERAL_PORTS[f"gather/{_label}"] = _reversed(_near_last)
    _SEVERAL_PORTS[f"gather/{_label}_near"] = _reversed(partial(_scatter, _family))
for _key, _algorithm in _SEVERAL_PORTS.items():
    register(_key, _algorithm, ports=True)
