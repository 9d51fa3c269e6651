"""Placements by chance, good ones disturbed by random swaps, and all of a small case by number."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .placement import Placement
from .registry import bad_variant, nodes, register

Rng = np.random.Generator


@register("random", lambda _: [])
def random(placement: Placement, variant: str, rng: Rng) -> NDArray[Any]:
    """Give the tasks different places, every choice equally likely."""
    return rng.permutation(placement.n_places)[: placement.n_tasks] // placement.capacity


@register(
    "swap-K-NAME",
    lambda _: [],
    example="swap-10-identity",
    parameters="K: pairs of tasks that are swapped, NAME: the mapping in which they are",
)
def swap(placement: Placement, variant: str, rng: Rng) -> NDArray[Any]:
    """Exchange the nodes of K random pairs of tasks, one after the other, in the mapping NAME."""
    match = re.fullmatch(r"([0-9]{1,9})-([a-z].*)", variant)
    if not match:
        raise bad_variant(placement, "swap", variant)
    return swapped(undisturbed(placement, match[2]), int(match[1]), rng)


def undisturbed(placement: Placement, name: str) -> NDArray[Any]:
    """Return the mapping that swaps start from, the same for every seed."""
    if name not in placement.bases:
        placement.bases[name] = nodes(placement, name, seed=0)
    return placement.bases[name]


def swapped(node: NDArray[Any], count: int, rng: Rng) -> NDArray[Any]:
    """Return ``node`` after ``count`` swaps of two random entries."""
    changed = node.tolist()
    for a, b in rng.integers(0, node.size, size=(count, 2)).tolist():
        changed[a], changed[b] = changed[b], changed[a]
    return np.array(changed, dtype=np.int64)


# With more tasks than this on two nodes or more there are over a hundred thousand mappings.
_FEW_TASKS = 20


def _below(placement: Placement) -> str:
    """Name the numbers that there are, where they are fewer than a million."""
    count = count_mappings(placement)
    return "" if count is None or count >= 10**6 else f"here K is below {count}"


@register(
    "nth-K",
    lambda _: [],
    example="nth-5",
    parameters="K: which of all mappings, from 0 on and less than a million; for few tasks",
    limit=_below,
)
def nth(placement: Placement, variant: str, rng: np.random.Generator) -> NDArray[Any]:
    """Take mapping number K of all, in lexicographic order of the tasks' nodes; for small cases."""
    number = int(variant) if re.fullmatch("[0-9]{1,6}", variant) else -1
    wanted = itertools.islice(all_mappings(placement), max(number, 0), None)
    node = next(wanted, None) if number >= 0 else None
    if node is None:
        raise bad_variant(placement, "nth", variant)
    return np.array(node)


def count_mappings(placement: Placement) -> int | None:
    """Return how many different mappings there are; None if too many to count.

    Examples
    --------
    >>> from toruscast.mapping import CommGraph, Torus
    >>> from toruscast.mapping.strategies import Placement
    >>> count_mappings(Placement(CommGraph(4, [], [], []), Torus((2,))))
    6
    """
    tasks, capacity = placement.n_tasks, placement.capacity
    nodes = placement.torus.usable_nodes.size
    if nodes == 1:
        return 1
    if tasks > _FEW_TASKS:
        return None
    # ways[t]: of t given tasks on the nodes so far; nodes join by doubling.
    ways, base = [1] + [0] * tasks, [int(t <= capacity) for t in range(tasks + 1)]
    while nodes:
        if nodes % 2:
            ways = _joined(ways, base)
        base, nodes = _joined(base, base), nodes // 2
    return ways[tasks]


def all_mappings(placement: Placement) -> Iterator[tuple[int, ...]]:
    """Yield the nodes of the tasks of every mapping, in lexicographic order."""
    free = [0] * placement.torus.n_nodes
    for node in placement.torus.usable_nodes.tolist():
        free[node] = placement.capacity
    chosen: list[int] = []
    node = 0
    while True:
        if len(chosen) == placement.n_tasks:
            yield tuple(chosen)
        else:
            while node < len(free) and not free[node]:
                node += 1
            if node < len(free):
                free[node] -= 1
                chosen.append(node)
                node = 0
                continue
        if not chosen:
            return
        node = chosen.pop()
        free[node] += 1
        node += 1


def _joined(a: list[int], b: list[int]) -> list[int]:
    """Ways to split t tasks between two groups of nodes."""
    return [sum(math.comb(t, k) * a[k] * b[t - k] for k in range(t + 1)) for t in range(len(a))]
