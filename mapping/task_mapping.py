"""Which node runs which task."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from toruscast._lazy import PickledByFields, lazy
from toruscast.errors import InputError
from toruscast.notebook import html_card
from toruscast.text import counted, shown_name
from toruscast.validation import whole_array, whole_number

from .torus import MAX_NODES, Torus

MAX_SLOTS = 2**24


def check_torus(torus: object) -> None:
    """Raise `InputError` unless this is a `Torus`."""
    if not isinstance(torus, Torus):
        raise InputError("bad torus", found=torus, expected="a Torus, such as Torus((8, 8, 8))")


@dataclass(frozen=True, eq=False)
class TaskMapping(PickledByFields):
    """Task -> node, and slot within the node.

    Parameters
    ----------
    node : array-like of int, shape (n_tasks,)
        Node of each task.
    torus : Torus or int
        The host, or its number of nodes.
    slot : array-like of int, shape (n_tasks,), optional
        Place of each task within its node (the core on Blue Gene/Q); by rank if not given.
    tasks_per_node : int, optional
        Capacity of a node; the most tasks on any node if not given.
    name : str
        A label for reports, such as the strategy that made it.

    Raises
    ------
    InputError
        If a node or slot is out of range, a node holds too many tasks, or two tasks share a slot.

    Examples
    --------
    >>> mapping = TaskMapping([0, 0, 3, 1], Torus((2, 2)), name="by hand")
    >>> mapping
    TaskMapping(by hand: 4 tasks on 4 nodes, 2 a node)
    >>> mapping.slot
    array([0, 1, 0, 0], dtype=int32)
    """

    node: NDArray[np.int32]
    slot: NDArray[np.int32]
    n_nodes: int
    tasks_per_node: int
    name: str
    torus: Torus | None
    """The host, where it was given; writers of coordinates ask for it."""

    def __init__(
        self,
        node: ArrayLike,
        torus: Torus | int,
        *,
        slot: ArrayLike | None = None,
        tasks_per_node: int | None = None,
        name: str = "",
    ) -> None:
        if isinstance(torus, Torus):
            n_nodes = torus.n_nodes
        else:
            n_nodes = whole_number(torus, "number of nodes", 1, MAX_NODES)
        if tasks_per_node is not None:
            tasks_per_node = whole_number(tasks_per_node, "tasks per node", 1, MAX_SLOTS)
        nodes = whole_array(node, "node")
        if nodes.size == 0:
            raise InputError("mapping without a task")
        bad = np.flatnonzero((nodes < 0) | (nodes >= n_nodes))
        if bad.size:
            found = nodes[bad[0]]
            expected = f"0 to {n_nodes - 1}"
            raise InputError(f"node of task {bad[0]} out of range", found=found, expected=expected)
        occupancy = np.bincount(nodes, minlength=n_nodes)
        fullest = int(occupancy.argmax())
        capacity = int(occupancy[fullest]) if tasks_per_node is None else tasks_per_node
        if occupancy[fullest] > capacity:
            found = occupancy[fullest]
            expected = f"at most {capacity}"
            raise InputError(f"too many tasks on node {fullest}", found=found, expected=expected)
        if slot is None:
            slots = cumcount(nodes)
        else:
            slots = whole_array(slot, "slot")
            if slots.size != nodes.size:
                raise InputError("slots missing", found=slots.size, expected=nodes.size)
            highest = MAX_SLOTS - 1 if tasks_per_node is None else tasks_per_node - 1
            bad = np.flatnonzero((slots < 0) | (slots > highest))
            if bad.size:
                expected = f"0 to {highest}"
                raise InputError(
                    f"slot of task {bad[0]} out of range", found=slots[bad[0]], expected=expected
                )
            capacity = max(capacity, int(slots.max()) + 1)
            if repeat := first_repeat(nodes * np.int64(capacity) + slots):
                a, b = repeat
                found = f"tasks {a} and {b} on node {nodes[a]}, slot {slots[a]}"
                raise InputError("two tasks share a place", found=found, expected="each place once")
        columns = {"node": nodes.astype(np.int32), "slot": slots.astype(np.int32)}
        for field, array in columns.items():
            array.setflags(write=False)
            object.__setattr__(self, field, array)
        object.__setattr__(self, "n_nodes", n_nodes)
        object.__setattr__(self, "torus", torus if isinstance(torus, Torus) else None)
        object.__setattr__(self, "tasks_per_node", capacity)
        object.__setattr__(self, "name", name)

    @property
    def n_tasks(self) -> int:
        """Number of tasks."""
        return int(self.node.size)

    @lazy
    def occupancy(self) -> NDArray[np.int64]:
        """Tasks on each node, shape ``(n_nodes,)``."""
        return np.bincount(self.node, minlength=self.n_nodes)

    def check(self, n_tasks: int, torus: Torus) -> None:
        """Raise `InputError` unless this maps ``n_tasks`` tasks onto ``torus``."""
        check_torus(torus)
        label = f"mapping {self.name}".rstrip()
        if self.n_tasks != n_tasks:
            found = counted(self.n_tasks, "task")
            expected = counted(n_tasks, "task")
            raise InputError(f"{label} does not fit the graph", found=found, expected=expected)
        if self.n_nodes != torus.n_nodes:
            found = counted(self.n_nodes, "node")
            expected = counted(torus.n_nodes, "node")
            raise InputError(f"{label} does not fit the torus", found=found, expected=expected)
        if torus.holes.nodes:
            foreign = np.flatnonzero(np.isin(self.node, torus.holes.nodes))
            if foreign.size:
                raise InputError(
                    f"{label} puts a task on a node of others",
                    found=f"task {foreign[0]} on node {self.node[foreign[0]]}",
                    expected=f"one of {counted(torus.usable_nodes.size, 'node')} that are ours",
                )

    def renamed(self, name: str) -> TaskMapping:
        """Return the same mapping under another name."""
        host = self.n_nodes if self.torus is None else self.torus
        return TaskMapping(
            self.node, host, slot=self.slot, tasks_per_node=self.tasks_per_node, name=name
        )

    def __repr__(self) -> str:
        label = f"{shown_name(self.name)}: " if self.name else ""
        return (
            f"TaskMapping({label}{counted(self.n_tasks, 'task')} on "
            f"{counted(self.n_nodes, 'node')}, {self.tasks_per_node} a node)"
        )

    def _repr_html_(self) -> str:
        return html_card(self)


def as_mapping(mapping: object) -> TaskMapping:
    """Return what is a `TaskMapping`; raise `InputError` if it is none."""
    if not isinstance(mapping, TaskMapping):
        expected = "a TaskMapping, such as strategies.make or read_mapping gives"
        raise InputError("bad mapping", found=repr(mapping), expected=expected)
    return mapping


def as_mappings(mappings: object) -> tuple[TaskMapping, ...]:
    """Return several mappings; a single one is a list of one."""
    if isinstance(mappings, TaskMapping):
        return (mappings,)
    if not isinstance(mappings, Iterable) or isinstance(mappings, str):
        raise InputError("bad mappings", found=repr(mappings), expected="TaskMappings")
    return tuple(map(as_mapping, mappings))


def cumcount(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how often each value stood before: 0, 1, 2, ... for those that are equal.

    Examples
    --------
    >>> cumcount(np.array([3, 1, 3, 3]))
    array([0, 0, 1, 2])
    """
    order = np.argsort(values, kind="stable")
    place, ordered = np.arange(values.size), values[order]
    begins = np.concatenate([[True], ordered[1:] != ordered[:-1]])[: values.size]
    turn = np.empty(values.size, dtype=np.int64)
    turn[order] = place - np.maximum.accumulate(np.where(begins, place, 0))
    return turn


def first_repeat(values: NDArray[np.int64]) -> tuple[int, int] | None:
    """Return the first place whose value stood before, behind where it did; None if none did.

    Examples
    --------
    >>> first_repeat(np.array([3, 1, 4, 1, 3])), first_repeat(np.array([3, 1]))
    ((1, 3), None)
    """
    again = np.flatnonzero(cumcount(values))
    return (int(np.argmax(values == values[again[0]])), int(again[0])) if again.size else None
