"""Counting and numbering all mappings of a small case."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .placement import Placement
from .registry import bad_variant, register

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
