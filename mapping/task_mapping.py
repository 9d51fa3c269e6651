"""Which node runs which task, and which nodes of a torus a job has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from toruscast._lazy import PickledByFields, lazy
from toruscast.errors import InputError
from toruscast.notebook import html_card
from toruscast.text import counted, joined, shown_name
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
class TaskMapping(PickledByFields):
    """Task -> node, and slot within the node.

    Parameters
    ----------
    node : array-like of int, shape (n_tasks,) or (n_tasks, ndim)
        Node of each task, its number or its coordinates.
    torus : Torus, str, sequence of int or int
        The host, also as text or a shape; or its number of nodes.
    slot : array-like of int, shape (n_tasks,), optional
        Place of each task within its node (the core on Blue Gene/Q); by rank if not given.
    tasks_per_node : int, optional
        Capacity of a node. If not given, that of ``slot``, or else the least that suffices: one
        where there are as many nodes as tasks. More tasks on a node are an `InputError`.
    name : str
        A label for reports, such as the strategy that made it.

    Examples
    --------
    >>> mapping = TaskMapping([0, 0, 3, 1], Torus((2, 2)), tasks_per_node=2, name="by hand")
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
        most = tasks_per_node
        if most is None and slot is None:
            most = min_capacity(nodes.size, n_nodes - (len(host.exclusions.nodes) if host else 0))
        if most is not None:
            check_shares(nodes, most)
        capacity = tasks_per_node or int(np.bincount(nodes).max())
        if slot is None:
            slots = cumcount(nodes)
        else:
            slots = whole_array(slot, "slot")
            if slots.size != nodes.size:
                raise InputError("slots missing", found=slots.size, expected=nodes.size)
            check_below(slots, "slot of task", tasks_per_node or MAX_SLOTS)
            capacity = max(capacity, int(slots.max()) + 1)
            if repeat := first_repeat(nodes * np.int64(capacity) + slots):
                a, b = repeat
                found = f"tasks {a} and {b} on node {nodes[a]}, slot {slots[a]}"
                raise InputError("two tasks share a place", found=found, expected="each place once")
        columns = {"node": nodes.astype(np.int32), "slot": slots.astype(np.int32)}
        for array in columns.values():
            array.setflags(write=False)
        vars(self).update(columns, n_nodes=n_nodes, torus=host, tasks_per_node=capacity, name=name)

    @property
    def n_tasks(self) -> int:
        """Number of tasks."""
        return int(self.node.size)

    @lazy
    def occupancy(self) -> NDArray[np.int64]:
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
            found, expected = (f"nodes of {each}" for each in (self.torus, torus))
            raise InputError(f"{label} is one of another torus", found=found, expected=expected)
        if torus.exclusions.nodes:
            foreign = np.flatnonzero(np.isin(self.node, torus.exclusions.nodes))
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


def cumcount(values: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return how often each value stood before: 0, 1, 2, ... for those that are equal."""
    order = np.argsort(values, kind="stable")
    place, ordered = np.arange(values.size), values[order]
    begins = np.concatenate([[True], ordered[1:] != ordered[:-1]])[: values.size]
    turn = np.empty(values.size, dtype=np.int64)
    turn[order] = place - np.maximum.accumulate(np.where(begins, place, 0))
    return turn


def min_capacity(n_tasks: int, n_nodes: int) -> int:
    """Return the least number of tasks a node with which all of them have a place."""
    return max(-(-n_tasks // max(n_nodes, 1)), 1)


def check_room(n_tasks: int, n_nodes: int, share: int) -> None:
    """Raise `InputError` unless nodes take so many tasks, ``share`` each."""
    if n_tasks > share * n_nodes:
        expected = f"at most {share * n_nodes}, {share} on each of {n_nodes}"
        raise InputError("more tasks than places", found=n_tasks, expected=expected)


def check_shares(
    place: NDArray[np.integer],
    most: int,
    describe: Callable[[int], str] = "node {}".format,
    line: Callable[[int], int | None] = lambda _: None,
) -> None:
    """Raise `InputError` where more than ``most`` tasks have the same place.

    ``line`` gives that of a task.
    """
    needed = int(np.bincount(place).max(initial=0))
    if needed > most:
        late = np.flatnonzero(cumcount(place) >= most)[0]
        crowd = np.flatnonzero(place == place[late])
        raise InputError(
            f"tasks {joined(crowd.tolist())} share {describe(int(place[late]))}; "
            f"--tasks-per-node {needed} allows it",
            line=line(int(late)),
            expected=f"at most {most}",
        )


def first_repeat(values: NDArray[np.int64]) -> tuple[int, int] | None:
    """Return the first place whose value stood before, behind where it did; None if none did."""
    again = np.flatnonzero(cumcount(values))
    return (int(np.argmax(values == values[again[0]])), int(again[0])) if again.size else None


@dataclass(frozen=True, eq=False)
class Allocation:
    """Nodes that a job may use, and tasks that are bound to one.

    Other nodes still route traffic: routes stay as they are.
    """

    torus: Torus
    nodes: ArrayLike | None = None  # those that are ours; all if not given
    tasks_per_node: int = 1
    fixed: Mapping[int, Any] | None = None  # node of each task that must stay there

    def __post_init__(self) -> None:
        object.__setattr__(self, "torus", as_torus(self.torus))
        whole_number(self.tasks_per_node, "tasks per node", 1)
        nodes = self.torus.usable_nodes if self.nodes is None else self.nodes
        nodes = self.torus.check_nodes(nodes)
        ours, times = np.unique(nodes, return_counts=True)
        if not ours.size:
            raise InputError("allocation without a node")
        if (times > 1).any():
            found = int(ours[times > 1][0])
            expected = "each node once"
            raise InputError("node stands twice in the allocation", found=found, expected=expected)
        foreign = np.intersect1d(ours, self.torus.exclusions.nodes)
        if foreign.size:
            found = int(foreign[0])
            expected = "nodes that the torus has for us"
            raise InputError("allocation with a node of others", found=found, expected=expected)
        object.__setattr__(self, "nodes", ours)
        given = self.fixed or {}
        check_type(given, "fixed tasks", Mapping, "a dictionary of the node of each task")
        there = self.torus.check_nodes([*given.values()]).tolist()
        fixed = dict(zip(given, there, strict=True))
        object.__setattr__(self, "fixed", fixed)
        for task, node in fixed.items():
            if node not in ours:
                fault = f"task {task}: node {node} is not in the allocation"
                raise InputError(fault, expected=f"one of its {counted(ours.size, 'node')}")
        for node, held in Counter(fixed.values()).items():
            if held > self.tasks_per_node:
                fault = f"too many tasks are bound to node {node}"
                raise InputError(fault, found=held, expected=f"at most {self.tasks_per_node}")

    @lazy
    def room(self) -> NDArray[np.int64]:
        """Places that each node of the torus has for us, ``(n_nodes,)``."""
        room = np.zeros(self.torus.n_nodes, dtype=np.int64)
        room[np.asarray(self.nodes)] = self.tasks_per_node
        return room

    def check(self, n_tasks: int) -> None:
        """Raise `InputError` unless the tasks fit, and all that are bound exist."""
        check_room(n_tasks, np.asarray(self.nodes).size, self.tasks_per_node)
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
        """Return the tasks in order on our nodes, as a launcher puts them; those bound apart."""
        places, movable = self.free_places(n_tasks)
        node = np.empty(n_tasks, dtype=np.int32)
        node[movable] = places[: movable.size]
        for task, there in (self.fixed or {}).items():
            node[task] = there
        return TaskMapping(node, self.torus, tasks_per_node=self.tasks_per_node, name="identity")

    def confine(self, mapping: TaskMapping) -> TaskMapping:
        """Return the mapping with every task on our nodes: whoever cannot stay goes nearby.

        Bound tasks come first; the others keep their node while there is room, in task order.
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


@dataclass(frozen=True, eq=False)
class Hosts:
    """Names of hosts in the order of the allocation, and the node of the torus of each.

    Several hosts may stand at one node, as the two of a Cray Gemini router do.

    Parameters
    ----------
    names : sequence of str
        What the launcher calls the hosts, in its own order.
    node : array-like of int, shape (n_hosts,) or (n_hosts, ndim)
        Node of each host, its number or its coordinates.
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
    node: NDArray[np.int64]
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
            raise InputError("nodes of hosts missing", found=nodes.size, expected=len(names))
        if len(set(names)) != len(names):
            twice = repeated(names)[0]
            raise InputError("host stands twice", found=twice, expected="each host once")
        vars(self).update(names=tuple(names), node=nodes, torus=torus, aliases=known)

    @lazy
    def _positions(self) -> dict[str, int]:
        """Position of each name; names cut at their first dot too, where that is clear."""
        places = {name: i for i, name in enumerate(self.names)}
        known = dict(places)
        for other, name in self.aliases.items():
            known.setdefault(other, places[name])
        short: dict[str, list[int]] = {}
        for name, i in known.items():
            short.setdefault(name.partition(".")[0], []).append(i)
        return {name: at[0] for name, at in short.items() if len(set(at)) == 1} | known

    def place(self, name: str) -> int | None:
        """Return the position of a host in the allocation; None if it is not one of them."""
        found = self._positions.get(name)
        return self._positions.get(name.partition(".")[0]) if found is None else found

    @lazy
    def index(self) -> NDArray[np.int64]:
        """Which of the hosts of its node each host is, from 0."""
        return cumcount(self.node)

    @property
    def most(self) -> int:
        """Hosts at the node that has most."""
        return int(self.index.max(initial=0)) + 1

    def places(self, mapping: TaskMapping) -> NDArray[np.int64]:
        """Return the position of each task's host; those of a node share its slots in order."""
        at = np.full((self.torus.n_nodes, self.most), -1, dtype=np.int64)
        at[self.node, self.index] = np.arange(self.node.size)
        here = (at >= 0).sum(axis=1)[mapping.node]
        if (here == 0).any():
            task = int(np.flatnonzero(here == 0)[0])
            node = int(mapping.node[task])
            place = ",".join(map(str, self.torus.coords[node].tolist()))
            raise InputError(
                f"no host at the node of task {task}",
                found=f"node {node} ({place})",
                expected="one of the table of hosts; toruscast search --allocation FILE keeps to "
                "the nodes that are yours",
            )
        share = -(-mapping.tasks_per_node // self.most)
        found: NDArray[np.int64] = at[mapping.node, np.minimum(mapping.slot // share, here - 1)]
        return found

    def of_tasks(self, mapping: TaskMapping) -> list[str]:
        """Return the name of each task's host; errors are those of `places`."""
        return [self.names[place] for place in self.places(mapping).tolist()]
