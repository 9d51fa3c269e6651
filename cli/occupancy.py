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
    seen = Occupancy()
    for mapping in mappings:
        seen.note(mapping)
    return str(seen)


class Occupancy:
    """How many tasks share a node in the mappings noted so far, none of which is kept."""

    def __init__(self) -> None:
        self.n = 0
        self.n_nodes = 0
        self.tasks: list[int] = []
        self.used: list[int] = []

    def note(self, mapping: TaskMapping) -> TaskMapping:
        """Count a mapping in, and return it."""
        load = mapping.occupancy[mapping.occupancy > 0]
        self.n += 1
        self.n_nodes = mapping.n_nodes
        self.tasks = _range([*self.tasks, int(load.min()), int(load.max())])
        self.used = _range([*self.used, load.size])
        return mapping

    def __str__(self) -> str:
        from toruscast.wording import counted

        alike = len(self.tasks) == 1
        text = f"{counted(self.tasks[0], 'task') if alike else f'{_to(self.tasks)} tasks'} a node"
        if self.used == [self.n_nodes]:
            return text
        return f"{text} on {_to(self.used)} of {counted(self.n_nodes, 'node')}"


def _range(values: list[int]) -> list[int]:
    return sorted({min(values), max(values)})


def _to(ends: list[int]) -> str:
    return " to ".join(map(str, ends))
