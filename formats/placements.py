"""What readers and writers of mappings share: their options, and mappings from rows of numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from toruscast.errors import InputError
from toruscast.files import at_file
from toruscast.mapping.task_mapping import (
    MAX_SLOTS,
    Hosts,
    TaskMapping,
    check_capacity,
    cumcount,
    first_repeat,
    min_capacity,
)
from toruscast.mapping.torus import Torus
from toruscast.text import counted

from .source import Text, label, warn_of, whole
from .tables import TextTable, Whole, table_of

MAX_RANKS = 2**20
RANKS = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")
# In place of a rank: the core stays idle.
GAP = -1


@dataclass(frozen=True)
class MappingOptions:
    """Options of `read_mapping`."""

    torus: Torus
    capacity: int | None = None
    """Tasks that a node takes; as many as the file needs if None."""
    n_tasks: int | None = None
    """Tasks of the job, where the caller knows it."""
    hosts: Hosts | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    """Names of a table's columns by ours."""

    @property
    def n_hosts(self) -> int:
        """Hosts of the allocation; the nodes that are ours without a table of them."""
        return self.torus.usable_nodes.size if self.hosts is None else len(self.hosts.names)

    @property
    def most(self) -> int:
        """Hosts at the node that has most."""
        return 1 if self.hosts is None else self.hosts.most

    def describe(self, place: int) -> str:
        """Return what a position in the allocation is called."""
        return f"node {place}" if self.hosts is None else f"host {self.hosts.names[place]}"

    def tasks_of_host(self, n_tasks: int) -> int:
        """Return how many tasks a host takes, of so many in all."""
        if self.capacity is None:
            return min_capacity(n_tasks, self.n_hosts)
        return max(self.capacity // self.most, 1)

    def on_host(self, host: Whole, slot: Whole, share: int) -> tuple[Whole, Whole]:
        """Return node and slot of places of hosts, by the hosts' positions in the allocation.

        A host's slots are ``share``; the hosts of a node follow each other in it.
        """
        if self.hosts is None:
            return self.torus.usable_nodes[host], slot
        return self.hosts.node[host], slot + share * self.hosts.index[host]


@dataclass(frozen=True)
class Target:
    """Options of `write_mapping`."""

    host: Torus | None = None
    hosts: Hosts | None = None
    shape: tuple[int, ...] | None = None
    """Sizes of the task grid, for formats that nest their list by it."""

    @property
    def torus(self) -> Torus:
        """The host, which coordinates need."""
        if self.host is None:
            raise InputError(
                "this format has coordinates, so it needs the torus",
                expected="torus=, or a mapping that was made with its Torus",
            )
        return self.host

    @property
    def named(self) -> Hosts:
        """The hosts, which launchers call by their names."""
        if self.hosts is None:
            raise InputError(
                "this format has names of hosts, so it needs their table",
                expected="--hosts FILE (hosts= in Python), a CSV such as host,x,y,z",
            )
        return self.hosts

    def positions(self, mapping: TaskMapping) -> Whole:
        """Return the position of each task's host in the allocation.

        Without a table of hosts, nodes that are ours are the hosts.
        """
        if self.hosts is not None:
            return self.hosts.places(mapping)
        nodes = mapping.node.astype(np.int64)
        if self.host is None or not self.host.exclusions.nodes:
            return nodes
        return np.searchsorted(self.host.usable_nodes, nodes)


def read_ranks(
    text: Text, lists: Iterable[tuple[int, Any, str]], *, gaps: bool = False
) -> tuple[list[int], list[Any], list[int]]:
    """Return line, owner and rank of each rank in lists such as ``0-3,8``, at most 2^20 in all.

    A list comes with its line and its owner, such as the host of the ranks. Where there may be
    ``gaps``, an empty field is one.
    """
    at: list[int] = []
    owners: list[Any] = []
    ranks: list[int] = []
    for line, owner, words in lists:
        for part in map(str.strip, words.strip().removesuffix(",").split(",")):
            if gaps and not part:
                ranks.append(GAP)
                continue
            match = RANKS.fullmatch(part)
            if match is None:
                raise text.fault("bad rank", line, part or words, "ranks such as 0,2,4-7")
            first, last = int(match[1]), int(match[2] or match[1])
            if last < first or len(ranks) + last + 1 - first > MAX_RANKS:
                raise text.fault("bad range of ranks", line, part, "low-high")
            ranks += range(first, last + 1)
        at += [line] * (len(ranks) - len(at))
        owners += [owner] * (len(ranks) - len(owners))
    return at, owners, ranks


def check_range(table: TextTable, name: str, size: int) -> None:
    """Raise, naming the line, unless all values of a column are from 0 to size - 1."""
    values = table[name]
    bad = np.flatnonzero((values < 0) | (values >= size))
    if bad.size:
        row = int(bad[0])
        expected = f"0 to {size - 1}"
        if values.min() == 1 and values.max() == size:
            expected += " (do the numbers start at 1?)"
        raise table.fault(row, f"{name} out of range", values[row], expected)


def rows_by_task(table: TextTable) -> Whole:
    """Find the row of each task, where every task from 0 on must stand once."""
    task = table["task"]
    if repeat := first_repeat(task):
        found = f"task {task[repeat[1]]}, also on line {table.line(repeat[0])}"
        raise table.fault(repeat[1], "task stands twice", found, "each task once")
    order = np.argsort(task, kind="stable")
    gap = np.flatnonzero(task[order] != np.arange(task.size))
    if gap.size:
        row = int(order[gap[0]])
        raise table.fault(
            row, f"task {gap[0]} missing", f"task {task[row]}", f"tasks 0 to {task.size - 1}"
        )
    return order


def mapping_of(
    table: TextTable, options: MappingOptions, name: str | None = None, stated: int = 1
) -> TaskMapping:
    """Build the mapping of the columns node and maybe slot, in the order of the column task.

    A node takes as many tasks as slots say or ``stated`` does, else the least that suffices.
    """
    capacity, task = options.capacity, table.columns.get("task")
    check_range(table, "node", options.torus.n_nodes)
    # Places are numbered below, which needs more than 32 bits.
    node, slot = table["node"].astype(np.int64), table.columns.get("slot")
    if slot is not None:
        check_range(table, "slot", min(capacity or MAX_SLOTS, MAX_SLOTS))
        if repeat := first_repeat(node * MAX_SLOTS + slot):
            first, second = repeat
            found = f"node {node[second]}, slot {slot[second]}, also on line {table.line(first)}"
            raise table.fault(second, "place taken", found, "each place once")
    order = np.arange(node.size) if task is None else rows_by_task(table)
    order = order[: first_tasks(table.text.file, node.size, options)]
    node, slot = node[order], None if slot is None else slot[order]
    if slot is None:
        most = capacity or max(options.tasks_of_host(node.size) * options.most, stated)
        with at_file(table.text.file):
            check_capacity(node, most, line=lambda task: table.line(int(order[task])))
        capacity = capacity or int(np.bincount(node).max(initial=1))
    name = label(table.text.file) if name is None else name
    with at_file(table.text.file):
        return TaskMapping(node, options.torus, slot=slot, tasks_per_node=capacity, name=name)


def first_tasks(file: str, n_places: int, options: MappingOptions) -> int:
    """Return how many of a file's places the job's tasks take; say so if there are more."""
    wanted = options.n_tasks
    if wanted is None or n_places <= wanted:
        return n_places
    warn_of(
        file,
        f"{counted(n_places, 'place')}; the {counted(wanted, 'task')} of the job take the first",
    )
    return wanted


def place_of(text: Text, line: int, parts: Sequence[str], torus: Torus) -> int:
    """Return the node of coordinates."""
    if len(parts) != torus.ndim:
        found = f"{counted(len(parts), 'coordinate')}: {', '.join(parts)}"
        raise text.fault("wrong number of coordinates", line, found, f"{torus.ndim}, on {torus}")
    place = [
        whole(text, line, f"coordinate {d}", part, size - 1)
        for d, (part, size) in enumerate(zip(parts, torus.shape, strict=True))
    ]
    return int(torus.node(place))


def mapping_on_hosts(
    text: Text,
    options: MappingOptions,
    at: Sequence[int] | Whole,
    hosts: Sequence[str] | Sequence[int] | Whole,
    *,
    task: Sequence[int] | Whole | None = None,
    slot: Sequence[int] | Whole | None = None,
    stated: int = 1,
) -> TaskMapping:
    """Build the mapping of tasks on hosts, each by its name or its position in the allocation.

    ``at`` are the lines. Without slots, or with some below 0, tasks take those of a node by rank,
    and a host takes the ``stated`` number of tasks or the least that suffices.
    """
    places = [_place_of(text, int(n), h, options) for n, h in zip(at, hosts, strict=True)]
    if not places:
        raise text.fault("file without data")
    place = np.array(places, dtype=np.int64)
    table = table_of(text, at, task=task, slot=slot)
    given = table.columns.get("slot")
    if given is not None and (given >= 0).all():
        share = max(options.tasks_of_host(0), int(given.max()) + 1)
        node, given = options.on_host(place, given, share)
    else:
        node = options.on_host(place, place, 1)[0]
        order = np.arange(place.size) if task is None else rows_by_task(table)
        first = order[: options.n_tasks]
        if options.most == 1 or options.capacity is None:
            most = options.capacity or max(options.tasks_of_host(first.size), stated)
            with at_file(text.file):
                check_capacity(place[first], most, options.describe, lambda t: int(at[first[t]]))
        rank = np.empty_like(place)
        rank[order] = cumcount(place[order])
        share = max(int(rank.max()) + 1, options.tasks_of_host(0))
        given = options.on_host(place, rank, share)[1]
    columns = {"node": node, "slot": given, "task": task}
    return mapping_of(table_of(text, at, **columns), options)


def _place_of(text: Text, line: int, host: str | int, options: MappingOptions) -> int:
    """The position of a host in the allocation."""
    if not isinstance(host, str):
        place = int(host)
        if not 0 <= place < options.n_hosts:
            raise text.fault("node out of range", line, place, f"0 to {options.n_hosts - 1}")
        return place
    if options.hosts is None:
        raise text.fault(
            "names of hosts without a table of them",
            line,
            host,
            "--hosts FILE (hosts= in Python) with the node of each, a CSV such as host,x,y,z",
        )
    found: int | None = options.hosts.place(host)
    if found is None:
        known = ", ".join(options.hosts.names[:3])
        raise text.fault("host that is not in the table of hosts", line, host, f"{known}, ...")
    return found


def first_fastest(torus: Torus) -> Whole:
    """Return the node of each number of tools that count the first coordinate fastest."""
    axes = range(torus.ndim - 1, -1, -1)
    return np.arange(torus.n_nodes).reshape(torus.shape).transpose(*axes).ravel()
