"""Options and functions that the readers and writers of mappings share."""

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
from toruscast.typing import Ints

from .source import TextFile, name_from_path, parse_whole, warn_about
from .tables import TextTable, make_table

MAX_RANKS = 2**20
RANKS = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")
# An idle core in a list of ranks.
GAP = -1
_HOST_TABLE = "--hosts FILE (hosts= in Python), a CSV such as host,x,y,z"


@dataclass(frozen=True)
class MappingOptions:
    """Options of `read_mapping`."""

    torus: Torus
    capacity: int | None = None  # maximum tasks per node; None for as many as the file needs
    n_tasks: int | None = None  # tasks of the job, if known
    hosts: Hosts | None = None
    columns: Mapping[str, str] = field(default_factory=dict)  # the file's names by standard name

    @property
    def n_hosts(self) -> int:
        """Number of hosts in the allocation; without a host table, number of usable nodes."""
        return self.torus.usable_nodes.size if self.hosts is None else len(self.hosts.names)

    @property
    def max_hosts_per_node(self) -> int:
        """Maximum number of hosts on a node."""
        return 1 if self.hosts is None else self.hosts.most

    def describe_host(self, position: int) -> str:
        """Describe a position in the allocation for error messages."""
        return f"node {position}" if self.hosts is None else f"host {self.hosts.names[position]}"

    def tasks_per_host(self, n_tasks: int) -> int:
        """Return the maximum tasks per host; by default, just enough for ``n_tasks`` to fit."""
        if self.capacity is None:
            return min_capacity(n_tasks, self.n_hosts)
        return max(self.capacity // self.max_hosts_per_node, 1)

    def place_on_hosts(self, host: Ints, slot: Ints, size: int) -> tuple[Ints, Ints]:
        """Convert host positions, and slots on these hosts, to nodes and slots on these nodes.

        Each host has ``size`` slots. The hosts of a node take the node's slots one after the other.
        """
        if self.hosts is None:
            return self.torus.usable_nodes[host], slot
        return self.hosts.node[host], slot + size * self.hosts.index[host]


@dataclass(frozen=True)
class WriteOptions:
    """Options of `write_mapping`."""

    optional_torus: Torus | None = None
    hosts: Hosts | None = None
    shape: tuple[int, ...] | None = None  # sizes of the task grid for formats with nested lists

    @property
    def torus(self) -> Torus:
        """The torus; raises `InputError` if it is unknown."""
        if self.optional_torus is None:
            message = "this format contains coordinates and needs the torus"
            raise InputError(message, expected="torus=, or a mapping with a torus")
        return self.optional_torus

    @property
    def required_hosts(self) -> Hosts:
        """The host table; raises `InputError` if there is none."""
        if self.hosts is None:
            message = "this format contains host names and needs the host table"
            raise InputError(message, expected=_HOST_TABLE)
        return self.hosts

    def host_positions(self, mapping: TaskMapping) -> Ints:
        """Return each task's position among the hosts or, without hosts, among the usable nodes."""
        if self.hosts is not None:
            return self.hosts.places(mapping)
        nodes = mapping.node.astype(np.int64)
        if self.optional_torus is None or not self.optional_torus.exclusions.nodes:
            return nodes
        return np.searchsorted(self.optional_torus.usable_nodes, nodes)


def read_ranks(
    text: TextFile, lists: Iterable[tuple[int, Any, str]], *, gaps: bool = False
) -> tuple[list[int], list[Any], list[int]]:
    """Return the line, the owner and the number of each rank in lists such as ``0-3,8``.

    ``lists`` has the line, the owner (such as a host) and the text of each list. With ``gaps``, an
    empty field is read as `GAP`. More than 2^20 ranks are an error.
    """
    line_numbers: list[int] = []
    owners: list[Any] = []
    ranks: list[int] = []
    for line, owner, content in lists:
        for part in map(str.strip, content.strip().removesuffix(",").split(",")):
            if gaps and not part:
                ranks.append(GAP)
                continue
            match = RANKS.fullmatch(part)
            if match is None:
                raise text.fault("bad rank", line, part or content, "ranks such as 0,2,4-7")
            first, last = int(match[1]), int(match[2] or match[1])
            if last < first or len(ranks) + last + 1 - first > MAX_RANKS:
                raise text.fault("bad range of ranks", line, part, "low-high")
            ranks += range(first, last + 1)
        line_numbers += [line] * (len(ranks) - len(line_numbers))
        owners += [owner] * (len(ranks) - len(owners))
    return line_numbers, owners, ranks


def check_range(table: TextTable, name: str, size: int) -> None:
    """Raise an error at the first row whose value in a column is not from 0 to size - 1."""
    values = table[name]
    bad = np.flatnonzero((values < 0) | (values >= size))
    if bad.size:
        row = int(bad[0])
        expected = f"0 to {size - 1}"
        if values.min() == 1 and values.max() == size:
            expected += "; the numbers may start at 1"
        raise table.fault(row, f"{name} out of range", values[row], expected)


def _order_by_task(table: TextTable) -> Ints:
    """Return the row of each task; raise an error unless the tasks are 0 to n - 1, each once."""
    task = table["task"]
    if repeat := first_repeat(task):
        first, second = repeat
        found = f"task {task[second]}, also on line {table.line(first)}"
        raise table.fault(second, "duplicate task", found, "each task once")
    order = np.argsort(task, kind="stable")
    missing = np.flatnonzero(task[order] != np.arange(task.size))
    if missing.size:
        row, expected = int(order[missing[0]]), f"tasks 0 to {task.size - 1}"
        raise table.fault(row, f"task {missing[0]} missing", f"task {task[row]}", expected)
    return order


def mapping_from_table(
    table: TextTable, options: MappingOptions, name: str | None = None, file_capacity: int = 1
) -> TaskMapping:
    """Return the mapping of a table with a column node and, optionally, columns task and slot.

    Without slots, a node takes ``options.capacity`` tasks. By default it takes as many as the job
    needs, or ``file_capacity`` if that is more.
    """
    capacity, task = options.capacity, table.columns.get("task")
    check_range(table, "node", options.torus.n_nodes)
    # The product node * MAX_SLOTS below may exceed 32 bits.
    node, slot = table["node"].astype(np.int64), table.columns.get("slot")
    if slot is not None:
        check_range(table, "slot", min(capacity or MAX_SLOTS, MAX_SLOTS))
        if repeat := first_repeat(node * MAX_SLOTS + slot):
            first, second = repeat
            found = f"node {node[second]}, slot {slot[second]}, also on line {table.line(first)}"
            raise table.fault(second, "duplicate slot", found, "each slot of a node once")
    order = np.arange(node.size) if task is None else _order_by_task(table)
    order = order[: count_used_rows(table.text.file, node.size, options)]
    node, slot = node[order], None if slot is None else slot[order]
    if slot is None:
        needed = options.tasks_per_host(node.size) * options.max_hosts_per_node
        limit = capacity or max(needed, file_capacity)
        with at_file(table.text.file):
            check_capacity(node, limit, line=lambda task: table.line(int(order[task])))
        capacity = capacity or int(np.bincount(node).max(initial=1))
    name = name_from_path(table.text.file) if name is None else name
    with at_file(table.text.file):
        return TaskMapping(node, options.torus, slot=slot, tasks_per_node=capacity, name=name)


def count_used_rows(file: str, n_rows: int, options: MappingOptions) -> int:
    """Return how many rows the tasks of the job use; warn about further rows."""
    n_tasks = options.n_tasks
    if n_tasks is None or n_rows <= n_tasks:
        return n_rows
    tasks = counted(n_tasks, "task")
    warn_about(file, f"{counted(n_rows, 'row')}; the {tasks} of the job use the first")
    return n_tasks


def parse_node(text: TextFile, line: int, parts: Sequence[str], torus: Torus) -> int:
    """Return the node at coordinates given as text."""
    if len(parts) != torus.ndim:
        found = f"{counted(len(parts), 'coordinate')}: {', '.join(parts)}"
        raise text.fault("wrong number of coordinates", line, found, f"{torus.ndim}, on {torus}")
    coords = [
        parse_whole(text, line, f"coordinate {d}", part, size - 1)
        for d, (part, size) in enumerate(zip(parts, torus.shape, strict=True))
    ]
    return int(torus.node(coords))


def mapping_from_hosts(
    text: TextFile,
    options: MappingOptions,
    lines: Sequence[int] | Ints,
    hosts: Sequence[str] | Sequence[int] | Ints,
    *,
    task: Sequence[int] | Ints | None = None,
    slot: Sequence[int] | Ints | None = None,
    file_capacity: int = 1,
) -> TaskMapping:
    """Return the mapping of tasks to hosts, which are names or positions in the allocation.

    If slots are missing or negative, tasks take the slots of their host in rank order. A host then
    takes as many tasks as the job needs, or ``file_capacity`` if that is more.
    """
    numbered = zip(lines, hosts, strict=True)
    positions = [_find_host(text, int(line), host, options) for line, host in numbered]
    if not positions:
        raise text.fault("file without data")
    table = make_table(text, lines, host=positions, task=task, slot=slot)
    position, host_slot = table["host"], table.columns.get("slot")
    if host_slot is None or (host_slot < 0).any():
        order = np.arange(position.size) if task is None else _order_by_task(table)
        used = order[: options.n_tasks]
        if options.max_hosts_per_node == 1 or options.capacity is None:
            limit = options.capacity or max(options.tasks_per_host(used.size), file_capacity)
            with at_file(text.file):
                check_capacity(
                    position[used], limit, options.describe_host, lambda t: int(lines[used[t]])
                )
        host_slot = np.empty_like(position)
        host_slot[order] = cumcount(position[order])
    slots_per_host = max(options.tasks_per_host(0), int(host_slot.max()) + 1)
    node, node_slot = options.place_on_hosts(position, host_slot, slots_per_host)
    return mapping_from_table(table.assign(node=node, slot=node_slot), options)


def _find_host(text: TextFile, line: int, host: str | int, options: MappingOptions) -> int:
    """Return a host's position in the allocation, given its name or position."""
    if not isinstance(host, str):
        if not 0 <= host < options.n_hosts:
            raise text.fault("node out of range", line, host, f"0 to {options.n_hosts - 1}")
        return int(host)
    if options.hosts is None:
        raise text.fault("host names without a host table", line, host, _HOST_TABLE)
    position = options.hosts.place(host)
    if position is None:
        examples = ", ".join(options.hosts.names[:3])
        raise text.fault("host not in the host table", line, host, f"{examples}, ...")
    return position


def column_major_nodes(torus: Torus) -> Ints:
    """Return the nodes in column-major order, in which the first coordinate varies fastest."""
    return np.arange(torus.n_nodes).reshape(torus.shape).ravel(order="F")
