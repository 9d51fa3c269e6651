"""Task mappings from rows of numbers; a fault names its line."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from toruscast.errors import InputError, InputWarning
from toruscast.wording import counted

from ...task_mapping import MAX_SLOTS, TaskMapping
from .._source import Text, at_file, label
from .._table import Table, whole
from .options import MappingOptions

Whole = NDArray[np.int64]


def rows_of(
    text: Text, at: Sequence[int] | Whole, *columns: Sequence[int] | Whole
) -> tuple[Table, list[Whole]]:
    """Return columns that were read line by line, and the table that knows their lines."""
    arrays = [np.array(column, dtype=np.int64) for column in columns]
    return Table(text, 0, list(arrays), lines=np.array(at, dtype=np.int64)), arrays


def within(table: Table, values: Whole, name: str, size: int) -> None:
    """Raise, naming the line, unless all values are from 0 to size - 1."""
    bad = np.flatnonzero((values < 0) | (values >= size))
    if bad.size:
        row = int(bad[0])
        raise table.fault(row, f"{name} out of range", values[row], f"0 to {size - 1}")


def by_task(table: Table, task: Whole) -> Whole:
    """Find the row of each task, where every task from 0 on must stand once."""
    order = np.argsort(task, kind="stable")
    twice = np.flatnonzero(np.diff(task[order]) == 0)
    if twice.size:
        first, second = (int(row) for row in order[twice[0] : twice[0] + 2])
        found = f"task {task[second]}, also on line {table.line(first)}"
        raise table.fault(second, "task stands twice", found, "each task once")
    gap = np.flatnonzero(task[order] != np.arange(task.size))
    if gap.size:
        row = int(order[gap[0]])
        raise table.fault(
            row, f"task {gap[0]} missing", f"task {task[row]}", f"tasks 0 to {task.size - 1}"
        )
    return order


def mapping_of(
    table: Table,
    node: Whole,
    options: MappingOptions,
    *,
    slot: Whole | None = None,
    task: Whole | None = None,
    name: str | None = None,
) -> TaskMapping:
    """Build the mapping of a table's rows, in the order of the tasks if those stand beside."""
    within(table, node, "node", options.torus.n_nodes)
    capacity = options.capacity
    if slot is not None:
        within(table, slot, "slot", min(capacity or MAX_SLOTS, MAX_SLOTS))
        _each_place_once(table, node, slot)
    elif capacity is not None:
        _not_overfull(table, node, capacity)
    if task is not None:
        order = by_task(table, task)
        node, slot = node[order], None if slot is None else slot[order]
    name = label(table.text.file) if name is None else name
    with at_file(table.text.file):
        return TaskMapping(node, options.torus, slot=slot, tasks_per_node=capacity, name=name)


def first_tasks(table: Table, columns: list[Whole], options: MappingOptions) -> list[Whole]:
    """Leave out the places behind those of the job's tasks, and say so."""
    n, wanted = table.n_rows, options.n_tasks
    if wanted is None or n <= wanted:
        return columns
    warnings.warn(
        f"{table.text.file}: {counted(n, 'place')}, of which the {counted(wanted, 'task')} of the "
        "job take the first",
        InputWarning,
        stacklevel=2,
    )
    return [column[:wanted] for column in columns]


def numbers(text: Text, line: int, name: str, parts: Sequence[str], most: int) -> list[int]:
    """Return whole numbers from 0 to ``most``, each named with its place."""
    return [whole(text, line, f"{name} {i}", part, most) for i, part in enumerate(parts)]


def place_of(text: Text, line: int, parts: Sequence[str], options: MappingOptions) -> int:
    """Return the node of coordinates."""
    torus = options.torus
    if len(parts) != torus.ndim:
        found = f"{counted(len(parts), 'coordinate')}: {', '.join(parts)}"
        raise text.fault("wrong number of coordinates", line, found, f"{torus.ndim}, on {torus}")
    place = [
        whole(text, line, f"coordinate {d}", part, size - 1)
        for d, (part, size) in enumerate(zip(parts, torus.shape, strict=True))
    ]
    return int(torus.node(place))


def on_hosts(
    text: Text, at: Sequence[int], names: Sequence[str], options: MappingOptions
) -> tuple[list[int], list[int]]:
    """Return node and place in the allocation of each named host.

    Raises
    ------
    InputError
        If there is no table of hosts, or a name is not in it.
    """
    if options.hosts is None:
        raise text.fault(
            "names of hosts without a table of them",
            at[0] if at else None,
            names[0] if names else None,
            "--hosts FILE (hosts= in Python) with the node of each, a CSV such as host,x,y,z",
        )
    places = []
    for line, name in zip(at, names, strict=True):
        place = options.hosts.place(name)
        if place is None:
            known = ", ".join(options.hosts.names[:3])
            raise text.fault("host that is not in the table of hosts", line, name, f"{known}, ...")
        places.append(place)
    return options.hosts.node[places].tolist(), places


def _each_place_once(table: Table, node: Whole, slot: Whole) -> None:
    place = node * MAX_SLOTS + slot
    by_place = np.argsort(place, kind="stable")
    twice = np.flatnonzero(np.diff(place[by_place]) == 0)
    if twice.size:
        first, second = (int(row) for row in by_place[twice[0] : twice[0] + 2])
        found = f"node {node[second]}, slot {slot[second]}, also on line {table.line(first)}"
        raise table.fault(second, "place taken", found, "each place once")


def _not_overfull(table: Table, node: Whole, capacity: int) -> None:
    by_node = np.argsort(node, kind="stable")
    start = np.searchsorted(node[by_node], node[by_node])
    late = np.flatnonzero(np.arange(node.size) - start >= capacity)
    if late.size:
        row = int(by_node[late].min())
        found = f"task number {capacity + 1} on node {node[row]}"
        expected = f"at most {counted(capacity, 'task')} a node"
        raise table.fault(row, "node overfull", found, expected)


def input_error_at(text: Text, line: int, error: InputError) -> InputError:
    """Return a fault of a whole mapping at the line that holds it."""
    return text.fault(error.message, line, error.found, error.expected)
