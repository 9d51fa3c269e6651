"""Task mappings, allocations of nodes, and hosts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from toruscast._lazy import PickledByFields, lazy
from toruscast.errors import InputError
from toruscast.notebook import NotebookCard
from toruscast.text import counted, joined, shown_name
from toruscast.typing import Int32s, Ints
from toruscast.validation import (
    as_array,
    check_below,
    check_type,
    repeated,
    whole_array,
    whole_number,
)

from .machines import TorusLike, as_torus
from .torus import MAX_NODES, Torus

MAX_SLOTS = 2**24


@dataclass(frozen=True, eq=False)
class TaskMapping(NotebookCard, PickledByFields):
    """The node of each task, and its slot within the node.

    Parameters
    ----------
    node : array-like of int, shape (n_tasks,) or (n_tasks, ndim)
        Node of each task, by number or coordinates.
    torus : Torus, str, sequence of int or int
        The torus, which may be given as text or a shape; or only its number of nodes.
    slot : array-like of int, shape (n_tasks,), optional
        Slot of each task within its node (the core on Blue Gene/Q); in rank order if not given.
    tasks_per_node : int, optional
        Capacity of a node; more tasks on a node raise `InputError`. If not given, the number of
        slots in ``slot``; without ``slot``, the minimum with which all tasks fit.
    name : str
        A label for reports, such as the name of a strategy.

    Examples
    --------
    >>> mapping = TaskMapping([0, 0, 3, 1], Torus((2, 2)), tasks_per_node=2, name="by hand")
    >>> mapping
    TaskMapping(by hand: 4 tasks on 4 nodes, 2 a node)
    >>> mapping.slot
    array([0, 1, 0, 0], dtype=int32)

    It is also an array of the nodes of the tasks:

    >>> len(mapping), mapping[2], np.asarray(mapping)
    (4, np.int32(3), array([0, 0, 3, 1], dtype=int32))
    """

    node: Int32s
    slot: Int32s
    n_nodes: int
    tasks_per_node: int
    name: str
    torus: Torus | None
    """The torus, if given; formats with coordinates need it."""

    def __init__(
        self,
        node: ArrayLike,
        torus: TorusLike | int,
        *,
        slot: ArrayLike | None = None,
        tasks_per_node: int | None = None,
        name: str = "",
    ) -> None:
        host = None if isinstance(torus, Real) else as_torus(torus)  # type: ignore[arg-type]
        n_nodes = host.n_nodes if host else whole_number(torus, "number of nodes", 1, MAX_NODES)
        check_type(name, "name of a mapping", str, "a text")
        if tasks_per_node is not None:
            tasks_per_node = whole_number(tasks_per_node, "tasks per node", 1, MAX_SLOTS)
        expected = "a TaskMapping, or the node of each task"
        array = as_array(node, "mapping", expected)
        if array.size and array.dtype.kind not in "iuf":
            raise InputError("bad mapping", found=repr(node), expected=expected)
        if host is not None and array.ndim > 1:
            array = host.check_nodes(array)
        nodes = whole_array(array, "mapping")
        if nodes.size == 0:
            raise InputError("mapping without a task")
        check_below(nodes, "node of task", n_nodes)
        limit = tasks_per_node
        if limit is None and slot is None:
            limit = min_capacity(nodes.size, n_nodes - (len(host.exclusions.nodes) if host else 0))
        if limit is not None:
            check_capacity(nodes, limit)
        capacity = tasks_per_node or int(np.bincount(nodes).max())
        slots = cumcount(nodes) if slot is None else _check_slots(slot, nodes, tasks_per_node)
        capacity = max(capacity, int(slots.max()) + 1)
        columns = {"node": nodes.astype(np.int32), "slot": slots.astype(np.int32)}
        for array in columns.values():
            array.setflags(write=False)
        vars(self).update(columns, n_nodes=n_nodes, torus=host, tasks_per_node=capacity, name=name)

    @property
    def n_tasks(self) -> int:
        """Number of tasks."""
        return int(self.node.size)

    def __len__(self) -> int:
        return self.n_tasks

    def __getitem__(self, task: Any) -> Any:
        return self.node[task]

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.node, dtype=dtype, copy=copy)

    @lazy
    def occupancy(self) -> Ints:
        """Tasks on each node, shape ``(n_nodes,)``."""
        return np.bincount(self.node, minlength=self.n_nodes)

    def check(self, n_tasks: int, torus: TorusLike) -> None:
        """Raise `InputError` unless this maps ``n_tasks`` tasks onto ``torus``."""
        torus = as_torus(torus)
        label = f"mapping {self.name}".rstrip()
        if self.n_tasks != n_tasks:
            found = counted(self.n_tasks, "task")
            expected = counted(n_tasks, "task")
            raise InputError(f"{label} does not fit the graph", found=found, expected=expected)
        if self.n_nodes != torus.n_nodes:
            found = counted(self.n_nodes, "node")
            expected = counted(torus.n_nodes, "node")
            raise InputError(f"{label} does not fit the torus", found=found, expected=expected)
        if self.torus is not None and self.torus.shape != torus.shape:
            found, expected = f"nodes of {self.torus}", f"nodes of {torus}"
            raise InputError(f"{label} is for another torus", found=found, expected=expected)
        if torus.exclusions.nodes:
            foreign = np.flatnonzero(np.isin(self.node, torus.exclusions.nodes))
            if foreign.size:
                found = f"task {foreign[0]} on node {self.node[foreign[0]]}"
                expected = f"one of the {counted(torus.usable_nodes.size, 'usable node')}"
                raise InputError(f"{label} uses an excluded node", found=found, expected=expected)

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


def _check_slots(slot: ArrayLike, nodes: Ints, tasks_per_node: int | None) -> Ints:
    """Return the slot of each task; raise `InputError` if two tasks on a node share a slot."""
    slots = whole_array(slot, "slot")
    if slots.size != nodes.size:
        raise InputError("bad number of slots", found=slots.size, expected=nodes.size)
    check_below(slots, "slot of task", tasks_per_node or MAX_SLOTS)
    if repeat := first_repeat(nodes * MAX_SLOTS + slots):
        first, second = repeat
        found = f"tasks {first} and {second} on node {nodes[first]}, slot {slots[first]}"
        raise InputError("two tasks share a slot", found=found, expected="each slot once")
    return slots


if TYPE_CHECKING:
    import pandas as pd

    MappingLike = TaskMapping | ArrayLike
    Mappings = MappingLike | Iterable[MappingLike] | Mapping[str, MappingLike] | pd.DataFrame


def as_mapping(mapping: Any, torus: TorusLike | None, name: str = "") -> TaskMapping:
    """Return a `TaskMapping` unchanged, or build one from an array with the node of each task."""
    if isinstance(mapping, TaskMapping):
        return mapping
    if torus is None:
        expected = "a TaskMapping, or the node of each task with torus="
        raise InputError("bad mapping", found=repr(mapping), expected=expected)
    return TaskMapping(mapping, torus, name=name)


def as_mappings(
    mappings: Mappings, torus: Torus | None, n_tasks: int | None = None
) -> list[TaskMapping]:
    """Return several mappings, in the forms that `MappingProblem.mappings` accepts."""
    several: Any = mappings
    if isinstance(several, TaskMapping):
        return [several]
    if hasattr(several, "columns"):
        several = {str(name): several[name].to_numpy() for name in several.columns}
    if isinstance(several, Mapping):
        return [as_mapping(mapping, torus, str(name)) for name, mapping in several.items()]
    if not isinstance(several, Iterable) or isinstance(several, str):
        expected = "TaskMappings, or arrays with the node of each task"
        raise InputError("bad mappings", found=repr(mappings), expected=expected)
    several = list(several)
    if several and torus is not None and not isinstance(several[0], TaskMapping):
        # Rows of coordinates, one per task, form a single mapping. But if there are as many tasks
        # as coordinates of a node, each row is a mapping.
        are_coordinates = np.shape(several[0]) == (torus.ndim,) and torus.ndim != n_tasks
        if np.ndim(several[0]) == 0 or (are_coordinates and len(several) == n_tasks):
            return [as_mapping(several, torus)]
    return [as_mapping(mapping, torus) for mapping in several]


def cumcount(values: NDArray[np.integer]) -> Ints:
    """Return, for each value, the number of equal values before it, as `cumcount` in pandas."""
    order = np.argsort(values, kind="stable")
    position, ordered = np.arange(values.size), values[order]
    is_new = np.concatenate([[True], ordered[1:] != ordered[:-1]])[: values.size]
    count = np.empty(values.size, dtype=np.int64)
    count[order] = position - np.maximum.accumulate(np.where(is_new, position, 0))
    return count


def min_capacity(n_tasks: int, n_nodes: int) -> int:
    """Return the minimum number of tasks per node with which all tasks fit."""
    return max(-(-n_tasks // max(n_nodes, 1)), 1)


def check_tasks_fit(n_tasks: int, n_nodes: int, capacity: int) -> None:
    """Raise `InputError` if there are more tasks than slots."""
    if n_tasks > capacity * n_nodes:
        expected = f"at most {capacity * n_nodes}, {capacity} on each of {counted(n_nodes, 'node')}"
        raise InputError("more tasks than slots", found=n_tasks, expected=expected)


def check_capacity(
    node: NDArray[np.integer],
    capacity: int,
    describe: Callable[[int], str] = "node {}".format,
    line: Callable[[int], int | None] = lambda _: None,
) -> None:
    """Raise `InputError` if more than ``capacity`` tasks are on one node.

    ``describe`` returns the text for a node, and ``line`` the line number of a task in the input
    file.
    """
    needed = int(np.bincount(node).max(initial=0))
    if needed > capacity:
        task = np.flatnonzero(cumcount(node) >= capacity)[0]
        sharing = np.flatnonzero(node == node[task])
        shared = f"tasks {joined(sharing.tolist())} share {describe(int(node[task]))}"
        message = f"{shared}; --tasks-per-node {needed} allows it"
        raise InputError(message, line=line(int(task)), expected=f"at most {capacity}")


def first_repeat(values: Ints) -> tuple[int, int] | None:
    """Return the indices of the first two occurrences of a repeated value, or None."""
    repeats = np.flatnonzero(cumcount(values))
    if not repeats.size:
        return None
    return int(np.argmax(values == values[repeats[0]])), int(repeats[0])


@dataclass(frozen=True, eq=False)
class Allocation:
    """The nodes of a job, and tasks with a fixed node.

    Nodes outside the allocation still route traffic, so routes do not change.
    """

    torus: Torus
    nodes: ArrayLike | None = None  # all usable nodes if not given
    tasks_per_node: int = 1
    fixed: Mapping[int, Any] | None = None  # node of each fixed task

    def __post_init__(self) -> None:
        torus = as_torus(self.torus)
        whole_number(self.tasks_per_node, "tasks per node", 1)
        nodes = torus.check_nodes(torus.usable_nodes if self.nodes is None else self.nodes)
        allocated, counts = np.unique(nodes, return_counts=True)
        if not allocated.size:
            raise InputError("allocation without a node")
        if (counts > 1).any():
            found = int(allocated[counts > 1][0])
            raise InputError("duplicate node in the allocation", found=found)
        excluded = np.intersect1d(allocated, torus.exclusions.nodes)
        if excluded.size:
            found, expected = int(excluded[0]), "usable nodes of the torus"
            raise InputError("allocation with an excluded node", found=found, expected=expected)
        expected = "a dictionary of the node of each task"
        check_type(self.fixed, "fixed tasks", Mapping | None, expected)
        node_of_fixed = dict(self.fixed or {})
        fixed_nodes = torus.check_nodes([*node_of_fixed.values()]).tolist()
        fixed = dict(zip(node_of_fixed, fixed_nodes, strict=True))
        vars(self).update(torus=torus, nodes=allocated, fixed=fixed)
        for task, node in fixed.items():
            if node not in allocated:
                fault = f"task {task}: node {node} is not in the allocation"
                raise InputError(fault, expected=f"one of its {counted(allocated.size, 'node')}")
        for node, n_fixed in Counter(fixed.values()).items():
            if n_fixed > self.tasks_per_node:
                fault = f"too many tasks are fixed to node {node}"
                raise InputError(fault, found=n_fixed, expected=f"at most {self.tasks_per_node}")

    @lazy
    def slots(self) -> Ints:
        """Number of allocated slots on each torus node, shape ``(n_nodes,)``."""
        slots = np.zeros(self.torus.n_nodes, dtype=np.int64)
        slots[np.asarray(self.nodes)] = self.tasks_per_node
        return slots

    def check(self, n_tasks: int) -> None:
        """Raise `InputError` unless all tasks fit and the fixed tasks exist."""
        check_tasks_fit(n_tasks, np.asarray(self.nodes).size, self.tasks_per_node)
        for task in self.fixed or {}:
            whole_number(task, "fixed task", 0, n_tasks - 1)

    def free_slots(self, n_tasks: int) -> tuple[Int32s, Int32s]:
        """Return the node of each slot that has no fixed task, and the tasks that are not fixed."""
        self.check(n_tasks)
        fixed = self.fixed or {}
        free = self.slots - np.bincount([*fixed.values()], minlength=self.torus.n_nodes)
        slot_nodes = np.repeat(np.arange(self.torus.n_nodes, dtype=np.int32), free)
        return slot_nodes, np.setdiff1d(np.arange(n_tasks, dtype=np.int32), [*fixed])

    def in_order(self, n_tasks: int) -> TaskMapping:
        """Map fixed tasks to their nodes, and the others to the allocated nodes in rank order."""
        slot_nodes, movable = self.free_slots(n_tasks)
        node = np.empty(n_tasks, dtype=np.int32)
        node[movable] = slot_nodes[: movable.size]
        for task, fixed_node in (self.fixed or {}).items():
            node[task] = fixed_node
        return TaskMapping(node, self.torus, tasks_per_node=self.tasks_per_node, name="identity")

    def confine(self, mapping: TaskMapping) -> TaskMapping:
        """Return the mapping with all tasks moved to allocated nodes.

        Fixed tasks are placed first. The others, in task order, stay on their node if it has a free
        slot. The tasks that cannot stay then move to the nearest free slot.
        """
        slot_nodes, movable = self.free_slots(mapping.n_tasks)
        free = np.bincount(slot_nodes, minlength=self.torus.n_nodes)
        node = mapping.node.copy()
        for task, fixed_node in (self.fixed or {}).items():
            node[task] = fixed_node
        displaced = []
        for task in movable.tolist():
            if free[node[task]] > 0:
                free[node[task]] -= 1
            else:
                displaced.append(task)
        for task in displaced:
            candidates = np.flatnonzero(free)
            nearest = candidates[self.torus.distance(node[task], candidates).argmin()]
            node[task] = nearest
            free[nearest] -= 1
        return TaskMapping(node, self.torus, tasks_per_node=self.tasks_per_node, name=mapping.name)


@dataclass(frozen=True, eq=False)
class Hosts:
    """The hosts of an allocation, in order, and the torus node of each host.

    A node can have several hosts, such as the two at a Cray Gemini router.

    Parameters
    ----------
    names : sequence of str
        Names of the hosts as the launcher spells and orders them.
    node : array-like of int, shape (n_hosts,) or (n_hosts, ndim)
        Node of each host, by number or coordinates.
    torus : Torus, str or sequence of int
        The machine.
    aliases : mapping of str to str, optional
        Other names of hosts.

    Examples
    --------
    >>> hosts = Hosts(["nid00004", "nid00007"], [1, 0], Torus((2,)))
    >>> hosts.place("nid00007"), hosts.place("nid00007.site.org"), hosts.place("nid1")
    (1, 1, None)
    """

    names: Sequence[str]
    node: Ints
    torus: Torus
    aliases: Mapping[str, str] = field(default_factory=dict)

    def __init__(
        self,
        names: Sequence[str],
        node: ArrayLike,
        torus: TorusLike,
        aliases: Mapping[str, str] | None = None,
    ) -> None:
        torus = as_torus(torus)
        check_type(names, "names of hosts", Sequence, "a sequence of text")
        check_type(aliases, "aliases", Mapping | None, "a dictionary of names")
        known = dict(aliases or {})
        for name in (*names, *known):
            check_type(name, "name of a host", str, "a text")
        if unknown := {*known.values()} - {*names}:
            raise InputError("alias of an unknown host", found=min(unknown), expected=joined(names))
        nodes = torus.check_nodes(node).astype(np.int64)
        if nodes.shape != (len(names),):
            raise InputError("bad number of nodes", found=nodes.size, expected=len(names))
        if len(set(names)) != len(names):
            raise InputError("duplicate host", found=repeated(names)[0], expected="each host once")
        vars(self).update(names=tuple(names), node=nodes, torus=torus, aliases=known)

    @lazy
    def _positions(self) -> dict[str, int]:
        """Position by host name, by alias, and by the part before the first dot if it is unique."""
        full = {name: i for i, name in enumerate(self.names)}
        known = dict(full)
        for alias, name in self.aliases.items():
            known.setdefault(alias, full[name])
        short: dict[str, list[int]] = {}
        for name, i in known.items():
            short.setdefault(name.partition(".")[0], []).append(i)
        return {name: ids[0] for name, ids in short.items() if len(set(ids)) == 1} | known

    def place(self, name: str) -> int | None:
        """Return a host's position in the allocation, given its name; None if it is unknown."""
        position = self._positions.get(name)
        return self._positions.get(name.partition(".")[0]) if position is None else position

    @lazy
    def index(self) -> Ints:
        """Index of each host among the hosts of its node, shape ``(n_hosts,)``."""
        return cumcount(self.node)

    @property
    def most(self) -> int:
        """Maximum number of hosts per node."""
        return int(self.index.max(initial=0)) + 1

    def places(self, mapping: TaskMapping) -> Ints:
        """Return the position of each task's host; a node's slots are divided among its hosts."""
        hosts = np.full((self.torus.n_nodes, self.most), -1, dtype=np.int64)
        hosts[self.node, self.index] = np.arange(self.node.size)
        n_hosts = (hosts >= 0).sum(axis=1)[mapping.node]
        if (n_hosts == 0).any():
            task = int(np.flatnonzero(n_hosts == 0)[0])
            node = int(mapping.node[task])
            coords = ",".join(map(str, self.torus.coords[node].tolist()))
            message, found = f"no host at the node of task {task}", f"node {node} ({coords})"
            expected = "a node in the table of hosts; toruscast search --allocation FILE uses only "
            expected += "allocated nodes"
            raise InputError(message, found=found, expected=expected)
        slots_per_host = -(-mapping.tasks_per_node // self.most)
        index = np.minimum(mapping.slot // slots_per_host, n_hosts - 1)
        return np.asarray(hosts[mapping.node, index])

    def of_tasks(self, mapping: TaskMapping) -> list[str]:
        """Return the host name of each task."""
        return [self.names[position] for position in self.places(mapping).tolist()]
