"""Algorithms of collectives: binary and bine butterflies, trees and rings.

Sources: Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in
MPICH", Int. J. High Perform. Comput. Appl. 19, 2005; for the bine family see `butterfly_partners`.

An algorithm returns a lane for each port that it uses on a node: the rounds that send the port's
share of the buffer. In step k = 0, 1, ... of a butterfly, every task exchanges data with a partner;
after log2(p) steps, all p tasks have exchanged data with each other.

Butterflies fold the task grid onto powers of two. With ``n`` tasks along a dimension and ``p`` the
largest power of two up to ``n``, each of the first ``n - p`` odd tasks sends its data to the even
task before it. The remaining ``p`` tasks run the butterfly and send the result back (section 4.1 of
Thakur et al., except that their even tasks send).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal, NamedTuple, get_args

import numpy as np

from toruscast.errors import InputError
from toruscast.typing import Floats, Ints
from toruscast.validation import one_of, whole_number, whole_sizes

from .schedules import (
    Algorithm,
    CollectiveCall,
    Lane,
    Lanes,
    Round,
    concatenate_lanes,
    register,
    reverse_lanes,
)

Ranks = Ints
Family = Literal["bine", "binary"]


def butterfly_partners(shape: Sequence[int], *, family: Family = "bine", port: int = 0) -> Ranks:
    """Return the partner of each task in each step of a butterfly, with near partners first.

    Parameters
    ----------
    shape : sequence of int
        Tasks along each dimension, each a power of two; ranks are in C order.
    family : {"bine", "binary"}
        Distance between partners in step k along its dimension. ``binary``: the coordinates differ
        in bit k. ``bine``: 1, -1, 3, -5, 11, ... from an even coordinate (the sum of k + 1 terms of
        1 - 2 + 4 - ...), and its negative from an odd one. This makes far steps a third shorter.
    port : int
        Port of the node. Steps cycle through the dimensions, starting with dimension ``port``. The
        second half of a torus's ports use mirrored partners.

    Returns
    -------
    ndarray, shape (n_steps, n_tasks)
        Each row is its own inverse, because partners exchange messages.

    Notes
    -----
    Rings follow De Sensi et al., "Bine trees: enhancing collective operations by optimizing
    communication locality", SC'25; tori and several ports follow De Sensi et al., "Swing:
    short-cutting rings for higher bandwidth allreduce", NSDI'24. In two dimensions, ports 2 and 3
    use mirrored partners, and ports 4 and 5 repeat ports 0 and 1, as in the authors' port to Fugaku
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
    sign = -1 if is_mirrored(port, len(sizes)) else 1
    rows = []
    for dim, step in _list_steps(sizes, port):
        coordinate = coords[dim]
        if family == "binary":
            distance = (coordinate ^ (1 << step)) - coordinate
        else:
            distance = np.where(coordinate % 2 == 0, 1, -1) * ((1 - (-2) ** (step + 1)) // 3)
        partner = list(coords)
        partner[dim] = (coordinate + sign * distance) % sizes[dim]
        rows.append(np.ravel_multi_index(partner, sizes))
    return np.array(rows, dtype=np.int64).reshape(len(rows), math.prod(sizes))


def is_mirrored(port: int, ndim: int) -> bool:
    """Whether a port uses mirrored partners, and therefore links in the opposite direction."""
    return {1: port % 2 == 1, 2: port in (2, 3)}.get(ndim, port >= ndim)


def _list_steps(sizes: tuple[int, ...], port: int) -> list[tuple[int, int]]:
    """Return (dimension, step) pairs: first step 0 of each dimension, then step 1 of each, ..."""
    ndim = len(sizes)
    dims = [(port + i) % ndim for i in range(ndim)]
    max_steps = max(size.bit_length() for size in sizes)
    return [(d, k) for k in range(max_steps) for d in dims if k < sizes[d].bit_length() - 1]


class FoldedGrid(NamedTuple):
    """A task grid folded onto powers of two: active tasks run the algorithm for all others."""

    sizes: tuple[int, ...]  # sizes of the grid of active tasks, powers of two
    rank: Ranks  # rank of each active task among all tasks, in C order
    weight: Floats  # number of tasks that each active task represents
    folds: tuple[tuple[Ranks, Ranks], ...]  # senders and receivers for each folded dimension

    def inner_call(self, call: CollectiveCall) -> CollectiveCall:
        """Return the arguments for running the algorithm among the active tasks."""
        return call._replace(n_tasks=self.rank.size, shape=self.sizes)

    def lane(self, inner: Lane, before: Lane = (), after: Lane = ()) -> Lane:
        """Renumber the rounds ``inner`` from ranks among active tasks to ranks among all tasks.

        The rounds ``before`` and ``after``, which already have ranks among all tasks, are added.
        """
        rounds = (replace(r, src=self.rank[r.src], dst=self.rank[r.dst]) for r in inner)
        return (*before, *rounds, *after)

    def fold_blocks(self, block: float) -> tuple[Lane, Lane]:
        """Return the rounds before and after an allgather of ``block`` bytes per task.

        The rounds before it collect the blocks of inactive tasks at active tasks. The rounds after
        it send the inactive tasks the blocks that they lack.
        """
        n_tasks = int(self.weight.sum())
        n_blocks = np.ones(n_tasks)
        before, after = [], []
        for src, dst in self.folds:
            before.append(Round(src, dst, n_blocks[src] * block))
            after.append(Round(dst, src, (n_tasks - n_blocks[src]) * block))
            n_blocks[dst] += n_blocks[src]
        return tuple(before), tuple(reversed(after))


def fold(shape: Sequence[int]) -> FoldedGrid:
    """Fold a task grid onto powers of two, one dimension after the other."""
    ranks = np.arange(math.prod(shape), dtype=np.int64).reshape(shape)
    weight = np.ones(ranks.shape)
    folds = []
    for d, size in enumerate(shape):
        n_folded = size - (1 << (size.bit_length() - 1))
        if not n_folded:
            continue
        odd = 2 * np.arange(n_folded) + 1
        src, dst = np.take(ranks, odd, axis=d), np.take(ranks, odd - 1, axis=d)
        folds.append((src.ravel(), dst.ravel()))
        lines = np.moveaxis(weight, d, 0)
        lines[odd - 1] += lines[odd]
        ranks, weight = np.delete(ranks, odd, axis=d), np.delete(weight, odd, axis=d)
    return FoldedGrid(ranks.shape, ranks.ravel(), weight.ravel(), tuple(folds))


def _run_folded(
    folded: FoldedGrid, inner: Lanes, nbytes: float, *, before: bool = False, after: bool = False
) -> Lanes:
    """Return the lanes ``inner`` of the active tasks, with the rounds of inactive tasks added.

    Inactive tasks send their buffers to active tasks ``before`` the algorithm, or receive the
    buffers ``after`` it.
    """
    share = nbytes / len(inner)
    send = tuple(Round(src, dst, share, reduces=True) for src, dst in folded.folds)
    (receive,) = reverse_lanes((send,))
    first, last = send if before else (), receive if after else ()
    return tuple(folded.lane(lane, first, last) for lane in inner)


def _list_partners(shape: Sequence[int], family: Family, ports: int) -> list[Ranks]:
    """Return the butterfly partners of each port."""
    return [butterfly_partners(shape, family=family, port=port) for port in range(ports)]


def _allgather(
    family: Family,
    call: CollectiveCall,
    *,
    far_first: bool = True,
    by_block: bool = False,
    sorted_first: bool = False,
) -> Lanes:
    """Allgather by doubling: in step k, partners exchange the 2**k blocks that each of them has.

    With ``by_block``, each block is a separate message. With ``sorted_first``, blocks are moved
    before the first step, so that all received blocks are consecutive.
    """
    lanes = []
    block = call.nbytes / call.n_tasks / call.ports
    folded = fold(call.shape)
    ranks = np.arange(folded.rank.size)
    for partners in _list_partners(folded.sizes, family, call.ports):
        n_blocks = folded.weight
        lane = []
        for row in partners[::-1] if far_first else partners:
            pieces = float(n_blocks.max()) if by_block else 1
            lane.append(Round(ranks, row, block * n_blocks, pieces=pieces))
            n_blocks = n_blocks + n_blocks[row]
        if sorted_first:
            position = _find_tree_positions(partners)
            moved = np.flatnonzero(position != np.arange(position.size))
            lane.insert(0, Round(position[moved], moved, block * folded.weight[moved]))
        lanes.append(folded.lane(tuple(lane), *folded.fold_blocks(block)))
    return tuple(lanes)


def _find_tree_positions(partners: Ranks) -> Ranks:
    """Return each task's position in a depth-first traversal of the tree rooted at task 0."""
    position = np.zeros(partners.shape[1], dtype=np.int64)
    for step, (src, dst) in enumerate(_list_tree_edges(partners, far_first=False), 1):
        position[dst] = position[src] + position.size // 2**step
    return position


def _reduce_scatter(family: Family, call: CollectiveCall) -> Lanes:
    """Reduce-scatter by halving: near partners exchange half of the vector first."""
    return reverse_lanes(_allgather(family, call), reduces=True)


def _allreduce(family: Family, call: CollectiveCall) -> Lanes:
    """Allreduce by doubling: partners exchange and reduce the whole vector in each step."""
    folded, share = fold(call.shape), call.nbytes / call.ports
    ranks, tables = np.arange(folded.rank.size), _list_partners(folded.sizes, family, call.ports)
    inner = tuple(tuple(Round(ranks, row, share, reduces=True) for row in t) for t in tables)
    return _run_folded(folded, inner, call.nbytes, before=True, after=True)


def _rabenseifner(family: Family, call: CollectiveCall) -> Lanes:
    """Allreduce: a reduce-scatter by halving, then its reverse, an allgather by doubling."""
    folded = fold(call.shape)
    reduce_scatter = _reduce_scatter(family, folded.inner_call(call))
    inner = concatenate_lanes(reduce_scatter, reverse_lanes(reduce_scatter))
    return _run_folded(folded, inner, call.nbytes, before=True, after=True)


def _alltoall(family: Family, call: CollectiveCall) -> Lanes:
    """All-to-all in log2(n) steps, each of which forwards half of a task's blocks."""
    partners, ranks = butterfly_partners(call.shape, family=family), np.arange(call.n_tasks)
    return (tuple(Round(ranks, row, call.nbytes / 2) for row in partners),)


def _list_tree_edges(partners: Ranks, *, far_first: bool) -> list[tuple[Ranks, Ranks]]:
    """Return the edges that each step adds to the tree rooted at task 0."""
    reached = np.zeros(1, dtype=np.int64)
    edges = []
    for row in partners[::-1] if far_first else partners:
        edges.append((reached, row[reached]))
        reached = np.concatenate([reached, row[reached]])
    return edges


def _broadcast(family: Family, call: CollectiveCall) -> Lanes:
    """Broadcast down the tree of a butterfly, with a share of the buffer on each port."""
    share, folded = call.nbytes / call.ports, fold(call.shape)
    pieces = max(1.0, float(np.ceil(share / call.segment))) if call.segment else 1.0
    lanes = []
    for partners in _list_partners(folded.sizes, family, call.ports):
        edges = _list_tree_edges(partners, far_first=True)
        lanes.append(tuple(Round(src, dst, share, pieces=pieces) for src, dst in edges))
    return _run_folded(folded, tuple(lanes), call.nbytes, after=True)


def _scatter(family: Family, call: CollectiveCall, *, far_first: bool = True) -> Lanes:
    """Scatter down the tree of a butterfly: each step sends half of a task's blocks."""
    folded = fold(call.shape)
    block = call.nbytes / call.ports / call.n_tasks
    after = tuple(step.reversed() for step in reversed(folded.fold_blocks(block)[0]))
    lanes = []
    for partners in _list_partners(folded.sizes, family, call.ports):
        subtree_size = folded.weight.copy()
        lane: Lane = ()
        for src, dst in reversed(_list_tree_edges(partners, far_first=far_first)):
            lane = (Round(src, dst, subtree_size[dst] * block), *lane)
            subtree_size[src] += subtree_size[dst]
        lanes.append(folded.lane(lane, after=after))
    return tuple(lanes)


def _run_two_stages(family: Family, call: CollectiveCall, *, reduces: bool = False) -> Lanes:
    """Broadcast by a scatter and an allgather, or reduce by a reduce-scatter and a gather."""
    folded = fold(call.shape)
    inner_call = folded.inner_call(call)
    scatter = _scatter(family, inner_call, far_first=False)
    reduce_scatter = _reduce_scatter(family, inner_call)
    first, second = (reduce_scatter, scatter) if reduces else (scatter, reduce_scatter)
    inner = concatenate_lanes(first, reverse_lanes(second))
    return _run_folded(folded, inner, call.nbytes, before=reduces, after=not reduces)


# Trees are arrays with the parent of each task, -1 for the root.


def flat_parents(n_tasks: int) -> Ranks:
    """Return a tree in which all tasks are children of the root."""
    return np.where(np.arange(n_tasks) == 0, -1, 0).astype(np.int64)


def chain_parents(n_tasks: int, fanout: int = 1) -> Ranks:
    """Return ``fanout`` chains of consecutive tasks, with lengths as equal as possible."""
    parent = np.arange(n_tasks, dtype=np.int64) - 1
    for chain in np.array_split(np.arange(1, n_tasks), max(1, min(fanout, n_tasks - 1))):
        parent[chain[:1]] = 0
    return parent


def binary_parents(n_tasks: int) -> Ranks:
    """Return a binary tree numbered level by level; siblings are half a level apart."""
    number = np.arange(1, n_tasks + 1)
    width = _highest_bit(number)
    parent_width = np.maximum(width // 2, 1)
    return np.where(number > 1, parent_width - 1 + (number - width) % parent_width, -1)


def _highest_bit(numbers: Ranks) -> Ranks:
    return np.asarray(2 ** (np.frexp(numbers)[1].astype(np.int64) - 1))


def in_order_binomial_parents(n_tasks: int) -> Ranks:
    """Return a binomial tree; a task's parent is its number without the lowest set bit."""
    ranks = np.arange(n_tasks)
    return np.where(ranks > 0, ranks & (ranks - 1), -1)


def in_order_binary_parents(n_tasks: int) -> Ranks:
    """Return a binary tree whose subtrees are consecutive tasks, so reductions keep their order."""
    parent = np.full(n_tasks, -1, dtype=np.int64)
    # The tasks of a subtree are consecutive and begin with its root.
    subtrees = [(0, n_tasks)]
    while subtrees:
        root, size = subtrees.pop()
        right_size = (size - 1) // 2
        left_size = size - 1 - right_size
        for child, n in ((root + 1, left_size), (root + 1 + left_size, right_size)):
            if n:
                parent[child] = root
                subtrees.append((child, n))
    return parent


def dimension_chain_parents(shape: Sequence[int], port: int) -> Ranks:
    """Return a tree: a chain along dimension ``port``, from its tasks chains along the next, ...

    Tasks that have the root's coordinate in the first dimension are reached last, over the
    wraparound links of this dimension. Therefore the trees of ports 0 to d - 1 of a d-dimensional
    torus share no directed link. The trees of ports d to 2d - 1 are their mirror images.
    """
    ndim = len(shape)
    dims = [d for i in range(ndim) if shape[d := (port + i) % ndim] > 1]
    coords = np.indices(tuple(shape)).reshape(ndim, -1)
    sizes = np.array(shape)[:, None]
    sign = -1 if port >= ndim else 1
    offset = sign * coords % sizes
    parent = np.full(coords.shape[1], -1, dtype=np.int64)
    undecided = (offset > 0).any(axis=0)
    for number, dim in enumerate([dims[0], *dims[:0:-1], dims[0]] if dims else []):
        decided = undecided & ((offset[dim] == 0) if number == 0 else (offset[dim] > 0))
        previous = offset.copy()
        previous[dim] -= 1
        ranks = np.ravel_multi_index(tuple(sign * previous % sizes), tuple(shape))
        parent[decided] = ranks[decided]
        undecided &= ~decided
    return parent


def binomial_parents(n_tasks: int) -> Ranks:
    """Return a binomial tree; a task's parent is its number without the highest set bit."""
    ranks = np.arange(n_tasks)
    return np.where(ranks > 0, ranks - _highest_bit(np.maximum(ranks, 1)), -1)


def tree_depths(parent: Ranks) -> Ranks:
    """Return the number of edges from the root to each task."""
    depth = np.zeros(parent.size, dtype=np.int64)
    ancestor = parent
    while (ancestor >= 0).any():
        depth += ancestor >= 0
        ancestor = np.where(ancestor >= 0, parent[ancestor], -1)
    return depth


def _broadcast_down_tree(parent: Ranks, nbytes: float, segment: float = 0.0) -> Lane:
    """Return the rounds that send ``nbytes`` from the root of a tree to all tasks.

    The data are sent in segments of at most ``segment`` bytes, or all at once if ``segment`` is 0.
    A task forwards a segment in the round after receiving it.
    """
    depth = tree_depths(parent)
    max_depth = int(depth.max())
    if not max_depth:
        return ()
    n_segments = whole_number(max(1, np.ceil(nbytes / segment)), "segments", 1) if segment else 1
    lane = []
    # In round r, edges to depth d carry segment r - d + 1. Equal rounds become one `Round`.
    number = 0
    while number < max_depth + n_segments - 1:
        first, last = max(1, number - n_segments + 2), min(max_depth, number + 1)
        child = np.flatnonzero((depth >= first) & (depth <= last))
        are_all_active = first == 1 and last == max_depth
        times = max(1, n_segments - max_depth + 1) if are_all_active else 1
        lane.append(Round(parent[child], child, nbytes / n_segments, times=times))
        number += times
    return tuple(lane)


def _tree_broadcast(parents: Callable[[int], Ranks], call: CollectiveCall) -> Lanes:
    return (_broadcast_down_tree(parents(call.n_tasks), call.nbytes),)


def _tree_reduce(parents: Callable[[int], Ranks], call: CollectiveCall) -> Lanes:
    lane = _broadcast_down_tree(parents(call.n_tasks), call.nbytes, call.segment)
    return reverse_lanes((lane,), reduces=True)


def _split_binary(call: CollectiveCall) -> Lanes:
    """Broadcast half of the data in each half of a binary tree, then exchange the halves."""
    parent = binary_parents(call.n_tasks)
    broadcast = _broadcast_down_tree(parent, call.nbytes / 2)
    # For each task, its ancestor at depth 1, which is task 1 or task 2.
    ancestor = np.arange(call.n_tasks)
    while (parent[ancestor] > 0).any():
        ancestor = np.where(parent[ancestor] > 0, parent[ancestor], ancestor)
    left, right = np.flatnonzero(ancestor == 1), np.flatnonzero(ancestor == 2)
    n_pairs = min(left.size, right.size)
    unpaired = np.concatenate([left[n_pairs:], right[n_pairs:]])
    exchange = Round(
        np.concatenate([left[:n_pairs], right[:n_pairs], np.zeros(unpaired.size, dtype=np.int64)]),
        np.concatenate([right[:n_pairs], left[:n_pairs], unpaired]),
        call.nbytes / 2,
    )
    return ((*broadcast, exchange) if exchange.src.size else broadcast,)


def _linear_scatter(call: CollectiveCall) -> Lanes:
    return _tree_broadcast(flat_parents, call._replace(nbytes=call.nbytes / call.n_tasks))


def _scatter_binomially(call: CollectiveCall) -> Lanes:
    """Scatter down a binomial tree of any number of tasks, to the farthest ranks first."""
    n, lane = call.n_tasks, []
    for step in reversed(range(max(0, n - 1).bit_length())):
        src = np.arange(0, n, 2 ** (step + 1))
        src = src[src + 2**step < n]
        dst = src + 2**step
        subtree_size = np.minimum(2**step, n - dst)
        lane.append(Round(src, dst, subtree_size * (call.nbytes / n)))
    return (tuple(lane),)


def _pipelined_trees(call: CollectiveCall) -> Lanes:
    """Broadcast a share of the buffer through each of several trees that share no links."""
    # A dimension of one task has no links and no trees.
    sizes = tuple(size for size in call.shape if size > 1) or (1,)
    trees = whole_number(call.ports, "number of trees", 1, 2 * len(sizes))
    share = call.nbytes / trees
    return tuple(
        _broadcast_down_tree(dimension_chain_parents(sizes, port), share, call.segment)
        for port in range(trees)
    )


def _ring_rounds(call: CollectiveCall, *, reduces: bool) -> Lanes:
    """Send blocks around the ring of ranks in n - 1 rounds; two ports send in both directions."""
    n = call.n_tasks
    if call.ports > 2:
        raise InputError("bad number of ports for a ring", found=call.ports, expected="1 or 2")
    if n == 1:
        return ((),) * call.ports
    ranks, block = np.arange(n), call.nbytes / n / call.ports
    return tuple(
        (Round(ranks, (ranks + step) % n, block, reduces=reduces, times=n - 1),)
        for step in (1, -1)[: call.ports]
    )


def _bucket_rings(call: CollectiveCall) -> Lanes:
    """Reduce-scatter in rings along each dimension in turn; port p starts with dimension p."""
    ranks, ndim = np.arange(math.prod(call.shape)).reshape(call.shape), len(call.shape)
    lanes = []
    for port in range(call.ports):
        direction = 1 if is_mirrored(port, ndim) else -1
        share, lane = call.nbytes / call.ports, []
        for dim in ((port + i) % ndim for i in range(ndim)):
            if (size := call.shape[dim]) > 1:
                share /= size
                neighbors = np.roll(ranks, direction, axis=dim).ravel()
                lane.append(Round(ranks.ravel(), neighbors, share, reduces=True, times=size - 1))
        lanes.append(tuple(lane))
    return tuple(lanes)


def _neighbor_exchange(call: CollectiveCall) -> Lanes:
    """Allgather by exchanges with alternating neighbours: one block first, then two per round."""
    n = call.n_tasks
    if n % 2:
        expected = "an even number of tasks"
        raise InputError("bad number of tasks for neighbour exchange", found=n, expected=expected)
    ranks, block = np.arange(n), call.nbytes / n
    # In rounds 0, 2, ..., even tasks exchange with the next task; in others, with the previous.
    partners = [(ranks + direction * (-1) ** ranks) % n for direction in (1, -1)]
    rounds = range(n // 2)
    return (tuple(Round(ranks, partners[r % 2], block * (2 if r else 1)) for r in rounds),)


def _shifted_exchange(call: CollectiveCall) -> Lanes:
    """All-to-all: in round r, task a sends to task a + r and receives from task a - r."""
    ranks, n = np.arange(call.n_tasks), call.n_tasks
    return (tuple(Round(ranks, (ranks + r) % n, call.nbytes / n) for r in range(1, n)),)


def _bruck_rounds(call: CollectiveCall, *, gathers: bool) -> Lanes:
    """Send blocks over a distance of 2**k ranks in round k = 0, 1, ... (Bruck's algorithm).

    In an all-to-all, a task sends the blocks whose distance to travel has bit k set. In an
    allgather, it sends all blocks that it has.
    """
    ranks, n, lane = np.arange(call.n_tasks), call.n_tasks, []
    for step in range((n - 1).bit_length()):
        blocks = min(2**step, n - 2**step) if gathers else int((ranks >> step & 1).sum())
        distance = -(2**step) if gathers else 2**step
        lane.append(Round(ranks, (ranks + distance) % n, call.nbytes / n * blocks))
    return (tuple(lane),)


def _reverse(algorithm: Algorithm, *, reduces: bool = False) -> Algorithm:
    return lambda call: reverse_lanes(algorithm(call), reduces=reduces)


def _chain(first: Algorithm, second: Algorithm) -> Algorithm:
    return lambda call: concatenate_lanes(first(call), second(call))


def _run_over_ranks(algorithm: Callable[[Family, CollectiveCall], Lanes]) -> Algorithm:
    """Return a binary butterfly over the ranks as one dimension, regardless of the torus."""
    return lambda call: algorithm("binary", call._replace(shape=(call.n_tasks,)))


_TREES: dict[str, Callable[[int], Ranks]] = {
    "linear": flat_parents,
    "binary": binary_parents,
    "in_order_binary": in_order_binary_parents,
    "chain": partial(chain_parents, fanout=4),
    "pipeline": chain_parents,
}
for _key, _parents in (_TREES | {"binomial": binomial_parents}).items():
    register(f"bcast/{_key}", partial(_tree_broadcast, _parents))
for _key, _parents in (_TREES | {"binomial": in_order_binomial_parents}).items():
    register(f"reduce/{_key}", partial(_tree_reduce, _parents))

_ONE_PORT: dict[str, Algorithm] = {
    "allgather/bruck": partial(_bruck_rounds, gathers=True),
    "allgather/neighbor_exchange": _neighbor_exchange,
    "allgather/recursive_doubling": _run_over_ranks(partial(_allgather, far_first=False)),
    "allreduce/linear": _chain(
        lambda call: _tree_reduce(flat_parents, call._replace(segment=0.0)),
        partial(_tree_broadcast, flat_parents),
    ),
    "allreduce/rabenseifner": _run_over_ranks(_rabenseifner),
    "allreduce/recursive_doubling": _run_over_ranks(_allreduce),
    "alltoall/bine": partial(_alltoall, "bine"),
    "alltoall/bruck": partial(_bruck_rounds, gathers=False),
    "alltoall/pairwise": _shifted_exchange,
    "bcast/split_binary": _split_binary,
    "gather/binomial": _reverse(_scatter_binomially),
    "gather/linear": _reverse(_linear_scatter),
    "reduce_scatter/recursive_halving": _run_over_ranks(_reduce_scatter),
    "scatter/binomial": _scatter_binomially,
    "scatter/linear": _linear_scatter,
}
for _key, _algorithm in _ONE_PORT.items():
    register(_key, _algorithm)
register("alltoall/linear", _shifted_exchange, at_once=True)

_ring_gather, _ring_reduce = (partial(_ring_rounds, reduces=reduces) for reduces in (False, True))
_tree_reduction = _reverse(_pipelined_trees, reduces=True)
_SEVERAL_PORTS: dict[str, Algorithm] = {
    "allgather/bucket": _reverse(_bucket_rings),
    "allgather/ring": _ring_gather,
    "allreduce/bucket": _chain(_bucket_rings, _reverse(_bucket_rings)),
    "allreduce/pipelined_trees": _chain(_tree_reduction, _pipelined_trees),
    "allreduce/ring": _chain(_ring_reduce, _ring_gather),
    "bcast/pipelined_trees": _pipelined_trees,
    "reduce/pipelined_trees": _tree_reduction,
    "reduce_scatter/bucket": _bucket_rings,
    "reduce_scatter/ring": _ring_reduce,
}
_BUTTERFLIES: dict[str, Callable[[Family, CollectiveCall], Lanes]] = {
    "allgather/{}": _allgather,
    "allgather/{}_blocks": partial(_allgather, by_block=True),
    "allgather/{}_sorted": partial(_allgather, sorted_first=True),
    "reduce_scatter/{}": _reduce_scatter,
    "allreduce/{}": _allreduce,
    "allreduce/{}_rabenseifner": _rabenseifner,
    "bcast/{}": _broadcast,
    "scatter/{}": _scatter,
    "scatter/{}_near": partial(_scatter, far_first=False),
    "bcast/{}_scatter_allgather": _run_two_stages,
    "reduce/{}_reduce_scatter_gather": partial(_run_two_stages, reduces=True),
}
_FAMILIES: dict[str, Family] = {"bine": "bine", "torus_binary": "binary"}
for _label, _family in _FAMILIES.items():
    for _key, _lanes in _BUTTERFLIES.items():
        _SEVERAL_PORTS[_key.format(_label)] = partial(_lanes, _family)
    _SEVERAL_PORTS[f"reduce/{_label}"] = _reverse(partial(_broadcast, _family), reduces=True)
    # Reversing a scatter with near partners first gives a gather with near partners last.
    _SEVERAL_PORTS[f"gather/{_label}"] = _reverse(partial(_scatter, _family, far_first=False))
    _SEVERAL_PORTS[f"gather/{_label}_near"] = _reverse(partial(_scatter, _family))
for _key, _algorithm in _SEVERAL_PORTS.items():
    register(_key, _algorithm, uses_ports=True)
