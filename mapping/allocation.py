"""Which nodes of a torus are ours, and mappings confined to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from toruscast._lazy import lazy
from toruscast.errors import InputError
from toruscast.validation import whole_number
from toruscast.wording import counted

from .task_mapping import TaskMapping, check_torus
from .torus import Torus


@dataclass(frozen=True, eq=False)
class Allocation:
    """Nodes that a job may use, and tasks that are bound to one.

    Other nodes still route traffic: routes stay as they are.

    Parameters
    ----------
    torus : Torus
        The whole machine.
    nodes : array-like of int, optional
        Nodes that are ours; all if not given.
    tasks_per_node : int
        Tasks that a node takes.
    fixed : mapping of int to int, optional
        Node of each task that must stay there.

    Raises
    ------
    InputError
        If a node is not one of the torus or stands twice, or a bound task goes to a node that is
        not ours or full.

    Examples
    --------
    >>> ours = Allocation(Torus((4,)), [0, 1, 3], fixed={0: 3})
    >>> ours.n_places, ours.confine(TaskMapping([0, 1, 2], 4)).node
    (3, array([3, 1, 0], dtype=int32))
    """

    torus: Torus
    nodes: ArrayLike | None = None
    tasks_per_node: int = 1
    fixed: Mapping[int, int] | None = None

    def __post_init__(self) -> None:
        check_torus(self.torus)
        whole_number(self.tasks_per_node, "tasks per node", 1)
        nodes = self.torus.usable_nodes if self.nodes is None else self.nodes
        nodes = np.ravel(self.torus.check_nodes(nodes))
        ours, times = np.unique(nodes, return_counts=True)
        if not ours.size:
            raise InputError("allocation without a node")
        if (times > 1).any():
            raise InputError(
                "node stands twice in the allocation",
                found=int(ours[times > 1][0]),
                expected="each node once",
            )
        foreign = np.intersect1d(ours, self.torus.holes.nodes)
        if foreign.size:
            raise InputError(
                "allocation with a node of others",
                found=int(foreign[0]),
                expected="nodes that the torus has for us",
            )
        object.__setattr__(self, "nodes", ours)
        held: dict[int, int] = {}
        for task, node in (self.fixed or {}).items():
            if node not in ours:
                n = self.torus.n_nodes
                if not 0 <= node < n:
                    raise InputError(
                        f"task {task}: node {node} does not exist", expected=f"0 to {n - 1}"
                    )
                raise InputError(
                    f"task {task}: node {node} is not in the allocation",
                    expected=f"one of its {counted(ours.size, 'node')}",
                )
            held[node] = held.get(node, 0) + 1
            if held[node] > self.tasks_per_node:
                raise InputError(
                    f"too many tasks are bound to node {node}",
                    found=held[node],
                    expected=f"at most {self.tasks_per_node}",
                )

    @property
    def n_places(self) -> int:
        """Tasks that our nodes take."""
        return int(np.asarray(self.nodes).size) * self.tasks_per_node

    @lazy
    def room(self) -> NDArray[np.int64]:
        """Places that each node of the torus has for us, ``(n_nodes,)``."""
        room = np.zeros(self.torus.n_nodes, dtype=np.int64)
        room[np.asarray(self.nodes)] = self.tasks_per_node
        return room

    def check(self, n_tasks: int) -> None:
        """Raise `InputError` unless the tasks fit, and all that are bound exist."""
        if n_tasks > self.n_places:
            raise InputError(
                "more tasks than places",
                found=counted(n_tasks, "task"),
                expected=f"at most {self.n_places}, {self.tasks_per_node} on each node of ours",
            )
        for task in self.fixed or {}:
            whole_number(task, "task that is bound", 0, n_tasks - 1)

    def free_places(self, n_tasks: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return the node of every place that no task is bound to, and the tasks that may move."""
        self.check(n_tasks)
        fixed = self.fixed or {}
        room = self.room - np.bincount([*fixed.values()], minlength=self.torus.n_nodes)
        places = np.repeat(np.arange(self.torus.n_nodes, dtype=np.int32), room)
        return places, np.setdiff1d(np.arange(n_tasks, dtype=np.int32), [*fixed])

    def in_order(self, n_tasks: int) -> TaskMapping:
        """Return the tasks in order on our nodes, as a launcher puts them; those bound apart.

        Raises
        ------
        InputError
            If there are more tasks than places.
        """
        places, movable = self.free_places(n_tasks)
        node = np.empty(n_tasks, dtype=np.int32)
        node[movable] = places[: movable.size]
        for task, there in (self.fixed or {}).items():
            node[task] = there
        return TaskMapping(node, self.torus, tasks_per_node=self.tasks_per_node, name="identity")

    def confine(self, mapping: TaskMapping) -> TaskMapping:
        """Return the mapping with every task on our nodes: whoever cannot stay goes nearby.

        Bound tasks come first; the others keep their node while there is room, in task order.

        Raises
        ------
        InputError
            If there are more tasks than places.
        """
        self.check(mapping.n_tasks)
        node = mapping.node.copy()
        room = self.room.copy()
        bound = np.zeros(node.size, dtype=np.bool_)
        for task, there in (self.fixed or {}).items():
            node[task] = there
            room[there] -= 1
            bound[task] = True
        homeless = []
        for task in np.flatnonzero(~bound).tolist():
            if room[node[task]] > 0:
                room[node[task]] -= 1
            else:
                homeless.append(task)
        for task in homeless:
            free = np.flatnonzero(room)
            there = free[self.torus.distance(node[task], free).argmin()]
            node[task] = there
            room[there] -= 1
        return TaskMapping(node, self.torus, tasks_per_node=self.tasks_per_node, name=mapping.name)
