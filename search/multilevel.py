"""A mapping by levels: tasks and nodes are merged in pairs, mapped, and split again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import csgraph

from toruscast.mapping import CommGraph, MappingProblem, TaskMapping, Torus
from toruscast.mapping.task_mapping import Allocation

from ._anneal_kernels import Uses
from ._graph_kernels import match_pairs
from .annealing import Annealer, Clock, Goal

# A torus is merged down to this many nodes, which are mapped well from any start.
_FEW_NODES = 32
# Proposals of an item at each level, and the temperatures, as shares of energy over items.
_STEPS, _FIRST_STEPS, _TURNS = 240, 1200, 24
_HOT, _FIRST_HOT, _COLD = 0.15, 0.6, 0.003


@dataclass(frozen=True, eq=False)
class _Level:
    """Items, their nodes, and the two items and nodes that each was merged from."""

    weight: sparse.csr_array
    torus: Torus
    hops: NDArray[np.uint16]  # (N, N)
    capacity: int
    nodes: NDArray[np.int64]  # that may be used
    items: NDArray[np.int64]  # (V, 2) of the finer level
    halves: NDArray[np.int64]  # (N, 2) nodes of the finer level


def multilevel(
    problem: MappingProblem, allocation: Allocation, seed: int, clock: Clock, effort: int = 1
) -> TaskMapping | None:
    """Return a mapping of few hop-bytes, or None if tasks are bound.

    Tasks and nodes are merged in pairs, level by level. The smallest level is annealed, then split
    and annealed again (multilevel bipartitioning: Karypis and Kumar, SIAM J. Sci. Comput. 20, 1998;
    of both graphs: Pellegrini and Roman, HPCN'96).
    """
    if allocation.fixed:
        return None
    rng = np.random.default_rng(seed)
    levels = _coarsened(problem, allocation, rng)
    coarsest = levels[-1]
    places = np.repeat(coarsest.nodes, coarsest.capacity)
    node = rng.permutation(places)
    for level, finer in zip(levels[::-1], [*levels[-2::-1], None], strict=True):
        hot, steps = (_FIRST_HOT, _FIRST_STEPS) if level is coarsest else (_HOT, _STEPS)
        node = _annealed(level, node, hot, effort * steps, int(rng.integers(2**31)), clock)
        if finer is not None:
            below = np.empty(finer.weight.shape[0], dtype=np.int64)
            below[level.items] = level.halves[node]
            node = below
    capacity = allocation.tasks_per_node
    node = node[: problem.n_tasks]
    return TaskMapping(node, problem.torus, tasks_per_node=capacity, name="multilevel")


def _coarsened(
    problem: MappingProblem, allocation: Allocation, rng: np.random.Generator
) -> list[_Level]:
    torus, capacity = problem.torus, allocation.tasks_per_node
    nodes = np.sort(np.asarray(allocation.nodes, dtype=np.int64))
    n_items = nodes.size * capacity
    both = problem.comm.without_self_messages().to_scipy()
    both = (both + both.T).tocoo()
    shape = (n_items, n_items)
    weight = sparse.csr_array((both.data, (both.row, both.col)), shape=shape)
    all_nodes = np.arange(torus.n_nodes)
    hops = torus.distance(all_nodes[:, None], all_nodes).astype(np.uint16)
    none = np.zeros((0, 2), dtype=np.int64)
    levels = [_Level(weight, torus, hops, capacity, nodes, none, none)]
    while True:
        now = levels[-1]
        along = _dimension_to_halve(now)
        grid = np.arange(now.torus.n_nodes).reshape(now.torus.shape)
        if now.capacity % 2 == 0:
            halves = np.repeat(grid.reshape(-1, 1), 2, axis=1)
            smaller, nodes, capacity = now.torus, now.nodes, now.capacity // 2
            hops = now.hops
        elif along is not None:
            near, far = (
                grid.take(range(start, grid.shape[along], 2), along).ravel() for start in (0, 1)
            )
            halves = np.stack([near, far], axis=1)
            sizes = list(now.torus.shape)
            sizes[along] //= 2
            smaller, capacity = Torus(tuple(sizes), now.torus.wrap), now.capacity
            nodes = np.arange(smaller.n_nodes)
            hops = now.hops[np.ix_(near, near)]
        else:
            return levels
        items, weight = _merged(now.weight, rng)
        levels.append(_Level(weight, smaller, hops, capacity, nodes, items, halves))


def _dimension_to_halve(level: _Level) -> int | None:
    """Return the longest even dimension, if the whole torus is used and large; else None."""
    torus = level.torus
    if torus.n_nodes <= _FEW_NODES or level.nodes.size < torus.n_nodes or torus.twist:
        return None
    sizes = [size if size % 2 == 0 else 0 for size in torus.shape]
    return int(np.argmax(sizes)) if max(sizes) > 1 else None


def _merged(
    weight: sparse.csr_array, rng: np.random.Generator
) -> tuple[NDArray[np.int64], sparse.csr_array]:
    """Return pairs of items, ``(V / 2, 2)``, and the graph between them."""
    n = weight.shape[0]
    mate = np.empty(n, dtype=np.int64)
    # Neighbouring vertices come one after the other, so that fewer find no free partner.
    drawn = rng.permutation(n)
    order = drawn[csgraph.reverse_cuthill_mckee(weight[drawn][:, drawn], symmetric_mode=True)]
    match_pairs(
        weight.indptr.astype(np.int64),
        weight.indices.astype(np.int32),
        weight.data,
        order.astype(np.int64),
        mate,
    )
    lower = np.flatnonzero(np.arange(n) < mate)
    number = np.empty(n, dtype=np.int64)
    number[lower] = number[mate[lower]] = np.arange(lower.size)
    entries = weight.tocoo()
    row, column = number[entries.row], number[entries.col]
    between = row != column
    merged = sparse.csr_array(
        (entries.data[between], (row[between], column[between])), shape=(lower.size, lower.size)
    )
    merged.sum_duplicates()
    return np.stack([lower, mate[lower]], axis=1), merged


def _annealed(
    level: _Level, node: NDArray[Any], hot: float, steps: int, seed: int, clock: Clock
) -> NDArray[np.int64]:
    """Anneal the items of a level by their hop-bytes."""
    entries = sparse.triu(level.weight, k=1).tocoo()
    n_items, n_nodes = level.weight.shape[0], level.torus.n_nodes
    if not entries.nnz or n_nodes < 2 or clock.is_over():
        return node.astype(np.int64)
    comm = CommGraph(n_items, entries.row, entries.col, entries.data)
    problem = MappingProblem(comm, level.torus)
    first, none = np.zeros(n_nodes**2 + 1, dtype=np.int32), np.zeros(0, dtype=np.uint16)
    uses = Uses(first, none, none.astype(np.int32), level.hops.ravel(), n_nodes, 1)
    start = TaskMapping(node, level.torus, tasks_per_node=level.capacity)
    places = np.repeat(level.nodes, level.capacity).astype(np.int32)
    movable = np.arange(n_items, dtype=np.int32)
    annealer = Annealer(problem, start, (places, movable), Goal(by_loads=False), uses, seed)
    for turn in range(_TURNS):
        at, then = (hot * (_COLD / hot) ** (t / _TURNS) / n_items for t in (turn, turn + 1))
        annealer.turn(max(200, steps * n_items // _TURNS), at, then)
        if clock.is_over():
            break
    return annealer.best_node.astype(np.int64)
