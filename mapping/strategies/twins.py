"""Mappings to learn from that are no others turned or mirrored with the torus."""

from __future__ import annotations

from collections.abc import Sequence

from .. import CommGraph, TaskMapping, Torus, Workload, as_workload, strategies
from ..task_mapping import as_mappings
from .sampling import count_left


def unlike(
    traffic: Workload | CommGraph,
    torus: Torus,
    n: int,
    seed: int,
    exclude: Sequence[TaskMapping],
    tasks_per_node: int | None = None,
) -> tuple[list[TaskMapping], int]:
    """Draw mappings of other distances than the excluded ones and each other.

    A mapping turned or mirrored with the torus takes much the same time: to learn from it would be
    to know the answer. Where there are too few others, such twins fill up; their number is returned
    too.

    Raises
    ------
    InputError
        If there are not ``n`` different mappings besides the excluded ones.
    """
    exclude = as_mappings(exclude)
    total = as_workload(traffic).total
    capacity = tasks_per_node
    if capacity is None:
        capacity = max((mapping.tasks_per_node for mapping in exclude), default=None)
    known = {fingerprint(total, torus, mapping) for mapping in exclude}
    drawn = n
    for _ in range(3):
        mappings = strategies.sample(
            traffic, torus, n=drawn, seed=seed, tasks_per_node=capacity, exclude=exclude
        )
        different: dict[bytes, TaskMapping] = {}
        for mapping in mappings:
            mark = fingerprint(total, torus, mapping)
            if mark not in known:
                different.setdefault(mark, mapping)
        left = count_left(strategies.Placement(traffic, torus, capacity), exclude)
        if len(different) >= n or drawn == left:
            break
        drawn += n - len(different)
        if left is not None:
            drawn = min(drawn, left)
    kept = list(different.values())[:n]
    names = {mapping.name for mapping in kept}
    twins = [mapping for mapping in mappings if mapping.name not in names][: n - len(kept)]
    return kept + twins, len(twins)


def fingerprint(comm: CommGraph, torus: Torus, mapping: TaskMapping) -> bytes:
    """Equal for mappings that differ by a symmetry of the torus: the hops of every edge."""
    node = mapping.node
    return torus.distance(node[comm.src], node[comm.dst]).tobytes()
