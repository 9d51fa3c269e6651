"""Rounds of collectives along trees and rings."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from toruscast.errors import InputError
from toruscast.validation import whole_number

from .butterflies import is_mirrored
from .schedules import Call, Lane, Lanes, Round, backwards, followed, register

Parents = NDArray[np.int64]


def flat(n_tasks: int) -> Parents:
    """Every task hangs on the root."""
    return np.where(np.arange(n_tasks) == 0, -1, 0).astype(np.int64)


def chains(n_tasks: int, fanout: int = 1) -> Parents:
    """Chains of consecutive tasks, ``fanout`` of them, as even as can be."""
    parent = np.arange(n_tasks, dtype=np.int64) - 1
    for part in np.array_split(np.arange(1, n_tasks), max(1, min(fanout, n_tasks - 1))):
        parent[part[:1]] = 0
    return parent


def binary(n_tasks: int) -> Parents:
    """Two children a task, level by level; those of a task are a level's width apart."""
    parent = np.full(n_tasks, -1, dtype=np.int64)
    first, width = 0, 1
    while first < n_tasks:
        for task in range(first, min(first + width, n_tasks)):
            children = [c for c in (task + width, task + 2 * width) if c < n_tasks]
            parent[children] = task
        first, width = first + width, 2 * width
    return parent


def in_order_binomial(n_tasks: int) -> Parents:
    """Binomial tree whose branches are neighbouring ranks: a task's parent lacks its lowest bit."""
    ranks = np.arange(n_tasks)
    return np.where(ranks > 0, ranks & (ranks - 1), -1)


def in_order_binary(n_tasks: int) -> Parents:
    """Two children a task, subtrees of consecutive tasks, so that a reduction keeps their order.

    Tasks are numbered from the root, which in such a tree is the last one.
    """
    parent = np.full(n_tasks, -1, dtype=np.int64)
    # Tasks are numbered from the root: those of a subtree are the ones just after it.
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


def dimension_chains(shape: Sequence[int], port: int) -> Parents:
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


def binomial_parents(n_tasks: int) -> Parents:
    """Binomial tree whose root's first child is task 1: a task's parent lacks its highest bit."""
    ranks = np.arange(n_tasks)
    bits = np.array([int(rank).bit_length() for rank in ranks])
    return np.where(ranks > 0, ranks - 2 ** np.maximum(bits - 1, 0), -1)


def depths(parent: Parents) -> NDArray[np.int64]:
    """Edges between each task and the root."""
    depth = np.zeros(parent.size, dtype=np.int64)
    above = parent
    while (above >= 0).any():
        depth += above >= 0
        above = np.where(above >= 0, parent[above], -1)
    return depth


def _pass_down(parent: Parents, nbytes: float, segment: float = 0.0) -> Lane:
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


def _broadcast(parents: Callable[[int], Parents], call: Call) -> Lanes:
    return (_pass_down(parents(call.n_tasks), call.nbytes),)


def _reduce(parents: Callable[[int], Parents], call: Call) -> Lanes:
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
    return _broadcast(flat, call._replace(nbytes=call.nbytes / call.n_tasks))


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
    sizes, trees = tuple(size for size in call.shape if size > 1) or (1,), call.ports
    if not 1 <= trees <= 2 * len(sizes):
        raise InputError("bad number of trees", found=trees, expected=f"1 to {2 * len(sizes)}")
    share = call.nbytes / trees
    return tuple(
        _pass_down(dimension_chains(sizes, port), share, call.segment) for port in range(trees)
    )


def _pipelined_reduce(call: Call) -> Lanes:
    """The broadcast backwards, each task adding what its children send."""
    return backwards(_pipelined_trees(call), reduces=True)


_SHAPES: dict[str, Callable[[int], Parents]] = {
    "linear": flat,
    "binary": binary,
    "in_order_binary": in_order_binary,
    "chain": partial(chains, fanout=4),
    "pipeline": chains,
}
for _key, _parents in (_SHAPES | {"binomial": binomial_parents}).items():
    register(f"bcast/{_key}", partial(_broadcast, _parents))
for _key, _parents in (_SHAPES | {"binomial": in_order_binomial}).items():
    register(f"reduce/{_key}", partial(_reduce, _parents))
register("bcast/split_binary", _split_binary)
register(
    "allreduce/linear",
    lambda call: followed(_reduce(flat, call._replace(segment=0.0)), _broadcast(flat, call)),
)
register("scatter/linear", _linear_scatter)
register("gather/linear", lambda call: backwards(_linear_scatter(call)))
register("scatter/binomial", _binomial_scatter)
register("gather/binomial", lambda call: backwards(_binomial_scatter(call)))
register("bcast/pipelined_trees", _pipelined_trees, ports=True)
register("reduce/pipelined_trees", _pipelined_reduce, ports=True)
register(
    "allreduce/pipelined_trees",
    lambda call: followed(_pipelined_reduce(call), _pipelined_trees(call)),
    ports=True,
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


register("allgather/ring", lambda call: _ring_rounds(call, reduces=False), ports=True)
register("reduce_scatter/ring", lambda call: _ring_rounds(call, reduces=True), ports=True)
register(
    "allreduce/ring",
    lambda call: followed(_ring_rounds(call, reduces=True), _ring_rounds(call, reduces=False)),
    ports=True,
)
register("allgather/bucket", lambda call: backwards(_bucket_rings(call)), ports=True)
register("reduce_scatter/bucket", _bucket_rings, ports=True)
register(
    "allreduce/bucket",
    lambda call: followed(_bucket_rings(call), backwards(_bucket_rings(call))),
    ports=True,
)
register("allgather/neighbor_exchange", _neighbor_exchange)
register("allgather/bruck", partial(_bruck_rounds, gathers=True))
register("alltoall/bruck", partial(_bruck_rounds, gathers=False))
register("alltoall/pairwise", _shifted_exchange)
# All messages are under way at once.
register("alltoall/linear", _shifted_exchange, at_once=True)
