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


@register("nth-K", lambda _: [])
def nth(placement: Placement, variant: str, rng: np.random.Generator) -> NDArray[Any]:
    """Take mapping number K of all, in lexicographic order of the tasks' nodes; for small cases."""
    number = int(variant) if re.fullmatch("[0-9]{1,9}", variant) else -1
    if not 0 <= number < count_mappings(placement):
        raise bad_variant("nth", variant)
    return np.array(next(itertools.islice(all_mappings(placement), number, None)))


def count_mappings(placement: Placement) -> int:
    """Return how many different mappings there are; for many tasks a lower bound.

    Examples
    --------
    >>> from toruscast.mapping import CommGraph, Torus
    >>> from toruscast.mapping.strategies import Placement
    >>> count_mappings(Placement(CommGraph(4, [], [], []), Torus((2,))))
    6
    """
    tasks, nodes, capacity = placement.n_tasks, placement.torus.n_nodes, placement.capacity
    if nodes == 1:
        return 1
    if tasks > _FEW_TASKS:
        return math.comb(_FEW_TASKS, _FEW_TASKS // 2)
    # ways[t]: of t given tasks on the nodes so far; nodes join by doubling.
    ways, base = [1] + [0] * tasks, [int(t <= capacity) for t in range(tasks + 1)]
    while nodes:
        if nodes % 2:
            ways = _joined(ways, base)
        base, nodes = _joined(base, base), nodes // 2
    return ways[tasks]


def all_mappings(placement: Placement) -> Iterator[tuple[int, ...]]:
    """Yield the nodes of the tasks of every mapping, in lexicographic order."""
    free = [placement.capacity] * placement.torus.n_nodes

    def extend(nodes: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        if len(nodes) == placement.n_tasks:
            yield nodes
            return
        for node in range(len(free)):
            if free[node]:
                free[node] -= 1
                yield from extend((*nodes, node))
                free[node] += 1

    return extend(())


def _joined(a: list[int], b: list[int]) -> list[int]:
    """Ways to split t tasks between two groups of nodes."""
    return [
        sum(math.comb(t, k) * a[k] * b[t - k] for k in range(t + 1)) for t in range(len(a))
    ]  # fmt: skip
