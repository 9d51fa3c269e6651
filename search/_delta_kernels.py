"""Kernels that keep loads up to date while tasks change places.

Letters in the comments: N nodes, T tasks, I incidences (each edge is listed at both of its ends), U
uses (of one resource by one edge), P phases, R resources.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toruscast._jit import bare_kernel, kernel
from toruscast._llvm import prefetch


class Ends(NamedTuple):
    """The edges at each task, those of task t from ``first[t]`` to ``first[t + 1]``."""

    first: NDArray[np.int64]  # (T + 1,)
    partner: NDArray[np.int32]  # (I,)
    sends: NDArray[np.bool_]  # (I,) whether the task is the edge's source
    weight: NDArray[np.int64]  # (I,) units
    base: NDArray[np.int64]  # (I,) the phase's number times R


class Uses(NamedTuple):
    """The resources between nodes: those from a to b from ``first[a * N + b]`` to the next one."""

    first: NDArray[np.int32]  # (N * N + 1,)
    resource: NDArray[np.unsignedinteger]  # (U,)
    share: NDArray[np.int32]  # (U,) share of each unit, in parts; empty if every share is one part
    hops: NDArray[np.uint16]  # (N * N,)
    n_nodes: int


class Change(NamedTuple):
    """Effect of a proposed change on the loads; ``load`` is all zero between proposals."""

    load: NDArray[np.int64]  # (P * R,) parts
    listed: NDArray[np.int64]  # (2 * P * R,) the loads that the change touches
    amount: NDArray[np.int64]  # (2 * P * R,) by how much
    node: NDArray[np.int32]  # (T,) where each task is after it
    is_moved: NDArray[np.bool_]  # (T,)
    begin: NDArray[np.int32]  # (2 * most I of a task,) uses that are taken away or added
    end: NDArray[np.int32]
    weight: NDArray[np.int64]
    base: NDArray[np.int64]


@bare_kernel
def propose(
    ends: Ends,
    uses: Uses,
    node: NDArray[np.int32],
    moved: NDArray[np.int64],
    n_moved: int,
    with_loads: bool,
    change: Change,
) -> tuple[int, int]:
    """Compute the effect of moving tasks to the nodes of ``change.node``.

    Return the number of loads that change, and the change of hops times units.
    """
    n_listed = 0
    hops = 0
    for i in range(n_moved):
        change.is_moved[moved[i]] = True
    for i in range(n_moved):
        task = moved[i]
        old, new = np.int64(node[task]), np.int64(change.node[task])
        n = 0
        # The places of the uses are looked up for all edges first; otherwise each edge waits for
        # memory.
        for e in range(ends.first[task], ends.first[task + 1]):
            partner = ends.partner[e]
            sends = ends.sends[e]
            # An edge between two moving tasks is changed once, at its source.
            if not sends and change.is_moved[partner]:
                continue
            there, then = np.int64(node[partner]), np.int64(change.node[partner])
            before = old * uses.n_nodes + there if sends else there * uses.n_nodes + old
            after = new * uses.n_nodes + then if sends else then * uses.n_nodes + new
            weight = ends.weight[e]
            hops += weight * (np.int64(uses.hops[after]) - np.int64(uses.hops[before]))
            if with_loads:
                change.begin[n] = uses.first[before]
                change.end[n] = uses.first[before + 1]
                change.weight[n] = -weight
                change.base[n] = ends.base[e]
                change.begin[n + 1] = uses.first[after]
                change.end[n + 1] = uses.first[after + 1]
                change.weight[n + 1] = weight
                change.base[n + 1] = ends.base[e]
                prefetch(uses.resource, np.int64(change.begin[n]))
                prefetch(uses.resource, np.int64(change.begin[n + 1]))
                n += 2
        n_listed = _add_uses(uses, n, change, n_listed)
    for i in range(n_moved):
        change.is_moved[moved[i]] = False
    return _gather(n_listed, change), hops


@bare_kernel
def _add_uses(uses: Uses, n: int, change: Change, n_listed: int) -> int:
    """Add weights to the resources of edges; list those that were zero, and return their number."""
    for i in range(n):
        weight, base = change.weight[i], change.base[i]
        for u in range(change.begin[i], change.end[i]):
            place = base + np.int64(uses.resource[u])
            amount = weight * uses.share[u] if uses.share.size else weight
            before = change.load[place]
            change.listed[n_listed] = place
            n_listed += before == 0
            change.load[place] = before + amount
        if n_listed > change.load.size:
            n_listed = _once(n_listed, change)
    return n_listed


@bare_kernel
def _once(n_listed: int, change: Change) -> int:
    """Keep each load that is not zero once; one that came back to zero may be listed twice."""
    n = 0
    for i in range(n_listed):
        place = change.listed[i]
        amount = change.load[place]
        change.amount[n] = amount
        change.listed[n] = place
        n += amount != 0
        change.load[place] = 0
    for i in range(n):
        change.load[change.listed[i]] = change.amount[i]
    return n


@bare_kernel
def _gather(n_listed: int, change: Change) -> int:
    """Move each change of a load into ``amount``; return the number of changes."""
    n = 0
    for i in range(n_listed):
        place = change.listed[i]
        amount = change.load[place]
        change.load[place] = 0
        change.listed[n] = place
        change.amount[n] = amount
        n += amount != 0
    return n


@bare_kernel
def withdraw(
    node: NDArray[np.int32], moved: NDArray[np.int64], n_moved: int, change: Change
) -> None:
    """Forget a proposal."""
    for i in range(n_moved):
        change.node[moved[i]] = node[moved[i]]


@bare_kernel
def accept(
    node: NDArray[np.int32],
    load: NDArray[np.int64],
    moved: NDArray[np.int64],
    n_moved: int,
    n_listed: int,
    change: Change,
) -> None:
    """Carry a proposal out."""
    for i in range(n_moved):
        node[moved[i]] = change.node[moved[i]]
    for i in range(n_listed):
        load[change.listed[i]] += change.amount[i]


@kernel
def move_tasks(
    ends: Ends,
    uses: Uses,
    node: NDArray[np.int32],
    load: NDArray[np.int64],
    moved: NDArray[np.int64],
    change: Change,
) -> int:
    """Move tasks to the nodes of ``change.node``; return the change of hops times units."""
    n_listed, hops = propose(ends, uses, node, moved, moved.size, True, change)
    accept(node, load, moved, moved.size, n_listed, change)
    return hops


@kernel
def add_all(ends: Ends, uses: Uses, node: NDArray[np.int32], load: NDArray[np.int64]) -> int:
    """Add the loads of all edges. (T,) -> (P * R,); return hops times units."""
    hops = np.int64(0)
    for task in range(node.size):
        for e in range(ends.first[task], ends.first[task + 1]):
            if not ends.sends[e]:
                continue
            pair = np.int64(node[task]) * uses.n_nodes + node[ends.partner[e]]
            hops += ends.weight[e] * np.int64(uses.hops[pair])
            for u in range(uses.first[pair], uses.first[pair + 1]):
                amount = ends.weight[e] * (uses.share[u] if uses.share.size else 1)
                load[ends.base[e] + np.int64(uses.resource[u])] += amount
    return hops
