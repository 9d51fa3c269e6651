"""Kernels that keep loads up to date while tasks change places.

Letters in the comments: N nodes, T tasks, I incidences (each edge stands at both of its ends), U
uses (an edge's way over one resource), P phases, R resources.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toruscast._jit import bare_kernel, kernel


class Ends(NamedTuple):
    """The edges at each task, those of task t from ``first[t]`` to ``first[t + 1]``."""

    first: NDArray[np.int64]  # (T + 1,)
    partner: NDArray[np.int32]  # (I,)
    sends: NDArray[np.bool_]  # (I,) whether the task is the edge's source
    weight: NDArray[np.int64]  # (I,) units
    base: NDArray[np.int64]  # (I,) the phase's number times R


class Uses(NamedTuple):
    """The resources between nodes: those from a to b from ``first[a * N + b]`` to the next one."""

    first: NDArray[np.int64]  # (N * N + 1,)
    resource: NDArray[np.int32]  # (U,)
    share: NDArray[np.int32]  # (U,) of each unit, in parts; empty if it is one part everywhere
    hops: NDArray[np.uint16]  # (N * N,)
    n_nodes: int


class Change(NamedTuple):
    """What a proposed change does to the loads; all zero between proposals."""

    load: NDArray[np.int64]  # (P * R,) parts
    mark: NDArray[np.bool_]  # (P * R,) whether a load is listed
    listed: NDArray[np.int64]  # (P * R,) the loads that the change touches
    node: NDArray[np.int32]  # (T,) where each task is after it
    is_moved: NDArray[np.bool_]  # (T,)


@bare_kernel
def add_use(uses: Uses, pair: int, base: int, weight: int, change: Change, n_listed: int) -> int:
    """Add an edge's weight to what it uses between two nodes; return how many loads are listed."""
    for u in range(uses.first[pair], uses.first[pair + 1]):
        place = base + uses.resource[u]
        amount = weight * uses.share[u] if uses.share.size else weight
        change.load[place] += amount
        change.listed[n_listed] = place
        n_listed += not change.mark[place]
        change.mark[place] = True
    return n_listed


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
    """Work out what it changes if tasks go where ``change.node`` has them.

    Return how many loads are listed, and what the hops times units change by.
    """
    n_listed = 0
    hops = 0
    for i in range(n_moved):
        change.is_moved[moved[i]] = True
    for i in range(n_moved):
        task = moved[i]
        old, new = np.int64(node[task]), np.int64(change.node[task])
        for e in range(ends.first[task], ends.first[task + 1]):
            partner = ends.partner[e]
            sends = ends.sends[e]
            # An edge between two that move is changed once, at its source.
            if not sends and change.is_moved[partner]:
                continue
            there, then = np.int64(node[partner]), np.int64(change.node[partner])
            before = old * uses.n_nodes + there if sends else there * uses.n_nodes + old
            after = new * uses.n_nodes + then if sends else then * uses.n_nodes + new
            weight = ends.weight[e]
            hops += weight * (np.int64(uses.hops[after]) - np.int64(uses.hops[before]))
            if with_loads:
                n_listed = add_use(uses, before, ends.base[e], -weight, change, n_listed)
                n_listed = add_use(uses, after, ends.base[e], weight, change, n_listed)
    for i in range(n_moved):
        change.is_moved[moved[i]] = False
    return n_listed, hops


@bare_kernel
def withdraw(
    node: NDArray[np.int32],
    moved: NDArray[np.int64],
    n_moved: int,
    n_listed: int,
    change: Change,
) -> None:
    """Forget a proposal."""
    for i in range(n_moved):
        change.node[moved[i]] = node[moved[i]]
    for i in range(n_listed):
        change.load[change.listed[i]] = 0
        change.mark[change.listed[i]] = False


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
        place = change.listed[i]
        load[place] += change.load[place]
        change.load[place] = 0
        change.mark[place] = False


@kernel
def move_tasks(
    ends: Ends,
    uses: Uses,
    node: NDArray[np.int32],
    load: NDArray[np.int64],
    moved: NDArray[np.int64],
    change: Change,
) -> int:
    """Move tasks to where ``change.node`` has them; return what hops times units change by."""
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
                load[ends.base[e] + uses.resource[u]] += amount
    return hops
