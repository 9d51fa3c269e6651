"""Exchanges of two blocks of nodes, compared by the loads that they leave."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from toruscast.mapping import TaskMapping, Torus, Workload
from toruscast.mapping.allocation import Allocation
from toruscast.typing import Routing

from .annealing import Annealer, Goal
from .moving import usable

# Hot nodes that begin a block, and exchanges that are compared.
_HOT, _MOST = 12, 20_000
_GOAL = Goal(4, 1.0)


def best_exchanges(
    workload: Workload, torus: Torus, mapping: TaskMapping, routing: Routing, n: int
) -> list[tuple[tuple[int, ...], tuple[int, ...], TaskMapping]]:
    """Return the ``n`` exchanges of blocks that lower the loads most, and their mappings.

    A block is a node, or a node and its neighbour along a dimension; one of the two has a task
    whose traffic is on the busiest resources.
    """
    allocation = Allocation(torus, tasks_per_node=mapping.tasks_per_node)
    annealer = Annealer(
        workload,
        torus,
        mapping,
        allocation.free_places(workload.n_tasks),
        _GOAL,
        usable(workload, torus, routing),
        seed=0,
        routing=routing,
    )
    loads, before = annealer.loads, annealer.energy
    order = np.argsort(mapping.node, kind="stable")
    first = np.concatenate([[0], np.cumsum(mapping.occupancy)])
    found = []
    for block, other in _blocks(torus, mapping.node[annealer.hot_tasks()].tolist()):
        tasks, nodes = [], []
        for here, there in [*zip(block, other, strict=True), *zip(other, block, strict=True)]:
            some = order[first[here] : first[here + 1]]
            tasks.append(some)
            nodes.append(np.full(some.size, there))
        moved, to = np.concatenate(tasks), np.concatenate(nodes)
        if not moved.size:
            continue
        back = mapping.node[moved]
        loads.move(moved, to)
        energy = annealer.energy
        loads.move(moved, back)
        if energy < before:
            node = mapping.node.copy()
            node[moved] = to
            found.append((energy, block, other, node))
    found.sort(key=lambda each: each[0])
    chosen = {each[3].tobytes(): each for each in reversed(found)}
    return [
        (block, other, TaskMapping(node, torus, tasks_per_node=mapping.tasks_per_node))
        for _, block, other, node in sorted(chosen.values(), key=lambda each: each[0])[:n]
    ]


def _blocks(torus: Torus, hot: list[int]) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Yield pairs of blocks, the first of which has a hot node."""
    ours = torus.usable_nodes.tolist()
    is_ours = np.isin(np.arange(torus.n_nodes), ours)
    begins = list(dict.fromkeys(hot))[:_HOT]
    left = _MOST
    for port in (None, *range(0, 2 * torus.ndim, 2)):
        for node in begins:
            for there in ours:
                block, other = [node], [there]
                if port is not None:
                    block.append(int(torus.neighbors[node, port]))
                    other.append(int(torus.neighbors[there, port]))
                both = [*block, *other]
                if min(both) < 0 or len(set(both)) < len(both) or not is_ours[both].all():
                    continue
                yield tuple(block), tuple(other)
                left -= 1
                if not left:
                    return
