"""The nodes of a job: which of a torus are ours, and what their hosts are called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from toruscast._lazy import lazy
from toruscast.errors import InputError
from toruscast.text import counted
from toruscast.validation import repeated, whole_number

from .task_mapping import TaskMapping, check_torus, cumcount
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
            found = int(ours[times > 1][0])
            expected = "each node once"
            raise InputError("node stands twice in the allocation", found=found, expected=expected)
        foreign = np.intersect1d(ours, self.torus.holes.nodes)
        if foreign.size:
            found = int(foreign[0])
            expected = "nodes that the torus has for us"
            raise InputError("allocation with a node of others", found=found, expected=expected)
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
                expected = f"at most {self.tasks_per_node}"
                raise InputError(
                    f"too many tasks are bound to node {node}", found=held[node], expected=expected
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
            found = counted(n_tasks, "task")
            expected = f"at most {self.n_places}, {self.tasks_per_node} on each node of ours"
            raise InputError("more tasks than places", found=found, expected=expected)
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


@dataclass(frozen=True, eq=False)
class Hosts:
    """Names of hosts in the order of the allocation, and the node of the torus of each.

    Several hosts may stand at one node, as the two of a Cray Gemini router do.

    Parameters
    ----------
    names : sequence of str
        What the launcher calls the hosts, in its own order.
    node : array-like of int, shape (n_hosts,)
        Node of each host.
    torus : Torus
        The machine.
    aliases : mapping of str to str, optional
        Other names of hosts.

    Raises
    ------
    InputError
        If a name stands twice or a node is not one of the torus.

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
        torus: Torus,
        aliases: Mapping[str, str] | None = None,
    ) -> None:
        nodes = torus.check_nodes(np.asarray(node)).astype(np.int64)
        if nodes.shape != (len(names),):
            raise InputError("nodes of hosts missing", found=nodes.size, expected=len(names))
        if len(set(names)) != len(names):
            twice = repeated(names)[0]
            raise InputError("host stands twice", found=twice, expected="each host once")
        object.__setattr__(self, "names", tuple(names))
        object.__setattr__(self, "node", nodes)
        object.__setattr__(self, "torus", torus)
        object.__setattr__(self, "aliases", dict(aliases or {}))

    @lazy
    def _places(self) -> dict[str, int]:
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
        found = self._places.get(name)
        return self._places.get(name.partition(".")[0]) if found is None else found

    @lazy
    def index(self) -> NDArray[np.int64]:
        """Which of the hosts of its node each host is, from 0."""
        return cumcount(self.node)

    @property
    def most(self) -> int:
        """Hosts at the node that has most."""
        return int(self.index.max(initial=0)) + 1

    def places(self, mapping: TaskMapping) -> NDArray[np.int64]:
        """Return the position of each task's host; those of a node share its slots in order.

        Raises
        ------
        InputError
            If a task stands on a node without a host.
        """
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
