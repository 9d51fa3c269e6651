"""How many tasks share a node, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toruscast.mapping import TaskMapping


def occupancy(mappings: Sequence[TaskMapping]) -> str:
    """Return the tasks on a node that has any, and how many nodes have, where not all do.

    Parameters
    ----------
    mappings : sequence of TaskMapping
        At least one, all on the same torus.

    Examples
    --------
    >>> from toruscast.mapping import TaskMapping
    >>> occupancy([TaskMapping([3, 2, 1, 0], 4)]), occupancy([TaskMapping([0, 0, 0, 1], 4)])
    ('1 task a node', '1 to 3 tasks a node on 2 of 4 nodes')
    """
    from toruscast.wording import counted

    loads = [mapping.occupancy[mapping.occupancy > 0] for mapping in mappings]
    tasks = _range([int(load.min()) for load in loads] + [int(load.max()) for load in loads])
    text = f"{counted(tasks[0], 'task') if len(tasks) == 1 else f'{_to(tasks)} tasks'} a node"
    n_nodes = mappings[0].n_nodes
    used = _range([load.size for load in loads])
    return text if used == [n_nodes] else f"{text} on {_to(used)} of {counted(n_nodes, 'node')}"


def _range(values: list[int]) -> list[int]:
    return sorted({min(values), max(values)})


def _to(ends: list[int]) -> str:
    return " to ".join(map(str, ends))
