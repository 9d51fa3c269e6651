"""Task mappings from the lines of a text file."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from toruscast.errors import InputError
from toruscast.wording import counted

from ...task_mapping import MAX_SLOTS, TaskMapping
from ...torus import Torus
from .._foreign import are_numbers, refuse_foreign
from .._source import Text, at_file, label
from .._table import WHOLE, Column, Table, fields, read_table, whole
from ..dialect import Dialect
from ..source import Source

_NAMED = ({"task", "node"}, {"task", "node", "slot"}, {"node", "slot"})
NAMES = {"task": "task", "rank": "task", "node": "node", "slot": "slot"}
# What is read, for messages.
LAYOUTS = "coordinates and slot, the node, or columns named task,node, with commas or blanks"
# MapLib's names of columns; JSON and XML may have such names too.
MAPLIB = re.compile(r'(?!.*([\[\]{}<>;]|"\s*:)).*process_id', re.I)


def read_one(text: Text, torus: Torus, capacity: int | None) -> TaskMapping:
    """Return the mapping of a file that holds one."""
    number, line = text.first_line()
    head = [line for _, (_, line) in zip(range(2), text.lines("#"), strict=False)]
    if any(MAPLIB.match(line) for line in head):
        return _maplib(text, torus, capacity)
    parts, width = fields(line), torus.ndim + 1
    named = [NAMES.get(part.strip("\"'").lower(), part) for part in parts]
    if set(named) in _NAMED and len(set(named)) == len(named):
        table = read_table(text, [Column(name, whole=True) for name in named], skip=number)
        columns = dict(zip(named, table.columns, strict=True))
        order = _by_task(table, columns["task"]) if "task" in columns else None
        return _mapping(table, columns["node"], columns.get("slot"), order, torus, capacity)
    if not all(WHOLE.fullmatch(part) for part in parts):
        refuse_foreign(text, "mapping", LAYOUTS)
    if len(parts) == width:
        names = [*(f"coordinate {d}" for d in range(torus.ndim)), "slot"]
        table = read_table(text, [Column(name, whole=True) for name in names])
        if torus.ndim == 1 and _may_be_task_and_node(table, torus):
            found = f"{table.n_rows} lines of two numbers"
            expected = "names above them, task,node or node,slot, to say which"
            raise text.fault("tasks and nodes, or coordinates and slots", None, found, expected)
        for d, size in enumerate(torus.shape):
            _within(table, table.columns[d], f"coordinate {d}", size)
        node = torus.node(np.stack(table.columns[:-1], axis=1)).astype(np.int64)
        return _mapping(table, node, table.columns[-1], None, torus, capacity)
    if len(parts) == 1:
        table = read_table(text, [Column("node", whole=True)])
        return _mapping(table, table.columns[0], None, None, torus, capacity)
    if len(parts) > 1 and sum(1 for _, _ in zip(range(2), text.lines(), strict=False)) == 1:
        return _node_row(text, number, parts, torus, capacity, label(text.file))
    found = f"{counted(len(parts), 'column')}: {line[:50]}"
    expected = f"{width} (coordinates, slot) or 1 (node), or names above them such as task,node"
    if len(parts) in (2, 3) and all(WHOLE.fullmatch(part) for part in parts):
        raise text.fault("columns of a mapping without names", number, found, expected)
    raise text.fault("unknown layout of a mapping", number, found, expected)


def _may_be_task_and_node(table: Table, torus: Torus) -> bool:
    """Whether two columns of coordinates and slots on a line of nodes may be tasks and nodes.

    Slots that are all 0 are none: no node runs all tasks where each has a coordinate of its own.
    """
    first, second = table.columns
    every = np.array_equal(np.sort(first), np.arange(table.n_rows))
    return bool(every and second.any() and second.max() < torus.n_nodes)


def read_many(text: Text, torus: Torus, capacity: int | None) -> list[TaskMapping] | None:
    """Return the mappings of lines ``name,node0,node1,...``; None if the first is no such line."""
    mappings: list[TaskMapping] = []
    seen: dict[str, int] = {}
    for number, line in text.lines("#"):
        name, *parts = (part.strip() for part in line.split(","))
        if not mappings and not (parts and WHOLE.fullmatch(parts[0]) and _is_name(name)):
            return None
        if not mappings and _in_brackets(name, parts):
            refuse_foreign(text, "mapping", LAYOUTS)
        if name in seen:
            raise text.fault(
                "name of a mapping stands twice", number, f"{name}, also line {seen[name]}"
            )
        if not name:
            raise text.fault("mapping without a name", number, line, "name,node0,node1,...")
        if mappings and len(parts) != mappings[0].n_tasks:
            expected = mappings[0].n_tasks
            raise text.fault(
                "mappings differ in their number of tasks", number, len(parts), expected
            )
        seen[name] = number
        mappings.append(_node_row(text, number, parts, torus, capacity, name))
    return mappings or None


def _is_name(word: str) -> bool:
    """Whether a word may name a mapping: it is no number, nor such with semicolons between."""
    return not (WHOLE.fullmatch(word) or are_numbers(word) or "\t" in word)


def _in_brackets(name: str, parts: list[str]) -> bool:
    """Whether a line is rather a piece of JSON or XML that was cut at its commas."""
    open_ones = any(name.count(pair[0]) != name.count(pair[1]) for pair in ("[]", "{}", "<>"))
    return open_ones and not all(WHOLE.fullmatch(part) for part in parts)


def _node_row(
    text: Text, line: int, parts: list[str], torus: Torus, capacity: int | None, name: str
) -> TaskMapping:
    """Build a mapping whose nodes stand on one line."""
    nodes = [
        whole(text, line, f"node of task {t}", p, torus.n_nodes - 1) for t, p in enumerate(parts)
    ]
    try:
        return TaskMapping(nodes, torus, tasks_per_node=capacity, name=name)
    except InputError as error:
        raise text.fault(error.message, line, error.found, error.expected) from None


def _maplib(text: Text, torus: Torus, capacity: int | None) -> TaskMapping:
    """Return the mapping of lines ``x y z n task...`` below a title and column names."""
    lines = list(text.lines("#"))
    named = next(i for i, (_, line) in enumerate(lines[:2]) if MAPLIB.match(line))
    name = lines[0][1] if named else label(text.file)
    width = torus.ndim
    rows: list[tuple[int, int, int]] = []
    for number, line in lines[named + 1 :]:
        parts = line.replace(",", " ").split()
        if len(parts) < width + 1:
            raise text.fault("line too short", number, line, f"{width} coordinates, a count, tasks")
        place = [
            whole(text, number, f"coordinate {d}", part, size - 1)
            for d, (part, size) in enumerate(zip(parts, torus.shape, strict=False))
        ]
        count = whole(text, number, "number of tasks", parts[width])
        tasks = parts[width + 1 :]
        if len(tasks) != count:
            raise text.fault("wrong number of tasks", number, len(tasks), count)
        node = int(torus.node(place))
        rows += [(number, whole(text, number, "task", task), node) for task in tasks]
    at, task, node_of = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    table = Table(text, 0, [task], lines=at)
    return _mapping(table, node_of, None, _by_task(table, task), torus, capacity, name)


def _by_task(table: Table, task: NDArray[np.int64]) -> NDArray[np.int64]:
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


def _within(table: Table, values: NDArray[np.int64], name: str, size: int) -> None:
    bad = np.flatnonzero(values >= size)
    if bad.size:
        row = int(bad[0])
        raise table.fault(row, f"{name} out of range", values[row], f"0 to {size - 1}")


def _mapping(
    table: Table,
    node: NDArray[np.int64],
    slot: NDArray[np.int64] | None,
    order: NDArray[np.int64] | None,
    torus: Torus,
    capacity: int | None,
    name: str | None = None,
) -> TaskMapping:
    """Build the mapping of a table's rows, in the given order; a fault names its line."""
    _within(table, node, "node", torus.n_nodes)
    if slot is not None:
        _within(table, slot, "slot", min(capacity or MAX_SLOTS, MAX_SLOTS))
        place = node * MAX_SLOTS + slot
        by_place = np.argsort(place, kind="stable")
        twice = np.flatnonzero(np.diff(place[by_place]) == 0)
        if twice.size:
            first, second = (int(row) for row in by_place[twice[0] : twice[0] + 2])
            found = f"node {node[second]}, slot {slot[second]}, also on line {table.line(first)}"
            raise table.fault(second, "place taken", found, "each place once")
    elif capacity is not None:
        by_node = np.argsort(node, kind="stable")
        start = np.searchsorted(node[by_node], node[by_node])
        late = np.flatnonzero(np.arange(node.size) - start >= capacity)
        if late.size:
            row = int(by_node[late].min())
            found = f"task number {capacity + 1} on node {node[row]}"
            raise table.fault(
                row, "node overfull", found, f"at most {counted(capacity, 'task')} a node"
            )
    if order is not None:
        node, slot = node[order], None if slot is None else slot[order]
    name = label(table.text.file) if name is None else name
    with at_file(table.text.file):
        return TaskMapping(node, torus, slot=slot, tasks_per_node=capacity, name=name)


def _head(source: Source) -> list[str]:
    """The first two lines, one of which may name MapLib's columns."""
    return [line for _, line in source.lines[:2]]


def _is_maplib(source: Source) -> bool:
    return any(MAPLIB.match(line) for line in _head(source))


def _is_named(source: Source) -> bool:
    named = [NAMES.get(part.strip("\"'").lower(), part) for part in source.fields]
    return set(named) in _NAMED and len(set(named)) == len(named)


def _are_whole(source: Source) -> bool:
    return bool(source.fields) and all(WHOLE.fullmatch(part) for part in source.fields)


def _is_coordinates(source: Source) -> bool:
    """Whether lines of whole numbers may be places; without a torus, of two to seven numbers."""
    if not source.has_numbers:
        return False
    widths = {len(fields(line)) for _, line in source.lines}
    if source.torus is not None:
        return _are_whole(source) and len(source.fields) == source.torus.ndim + 1
    return _are_whole(source) and len(widths) == 1 and 2 <= widths.pop() <= 7


def _is_nodes(source: Source) -> bool:
    """Whether there is a whole number on each line, or all of them on one."""
    widths = {len(fields(line)) for _, line in source.lines}
    return _are_whole(source) and (widths == {1} or len(source.lines) == 1)


def _is_named_lines(source: Source) -> bool:
    """Whether the lines hold a name and nodes."""
    if not source.lines:
        return False
    name, *parts = (part.strip() for part in source.lines[0][1].split(","))
    return bool(
        parts
        and all(WHOLE.fullmatch(part) for part in parts)
        and _is_name(name)
        and "\t" not in name
    )


def _write_places(mapping: TaskMapping, torus: Torus, path: Path) -> None:
    # Of one dimension, coordinate and slot may look like task and node.
    head = "node slot\n" if torus.ndim == 1 else ""
    _write_rows(path, head, np.column_stack([torus.coords[mapping.node], mapping.slot]), " ")


def _write_named(mapping: TaskMapping, torus: Torus, path: Path) -> None:
    rows = np.column_stack([np.arange(mapping.n_tasks), mapping.node, mapping.slot])
    _write_rows(path, "task,node,slot\n", rows, ",")


def _write_rows(path: Path, head: str, rows: NDArray[np.int64], separator: str) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(head)
        np.savetxt(file, rows, fmt="%d", delimiter=separator)


DIALECTS = (
    Dialect(
        name="bluegene",
        holds="mapping",
        title="coordinates and slot of each task (Blue Gene/Q map file)",
        recognise=_is_coordinates,
        read=read_one,
        plain=True,
        suffixes=(".map", ".txt"),
        write=_write_places,
        documentation="""
On a torus of D dimensions D + 1 numbers for each task, in the order of the tasks: coordinates and
slot. On a torus of one dimension two columns may be task and node as well: the names `task,node` or
`node,slot` above them say which.
""",
        example="0 0 0 0 0 0\n0 0 0 0 1 0\n0 0 0 1 0 0\n0 0 0 1 1 0\n",
    ),
    Dialect(
        name="nodes",
        holds="mapping",
        title="the node of each task",
        recognise=_is_nodes,
        read=read_one,
        plain=True,
        documentation="\nOne number on each line, or all on one line.\n",
        example="1\n0\n3\n2\n",
    ),
    Dialect(
        name="task-node",
        holds="mapping",
        title="columns named task, node, slot",
        recognise=_is_named,
        read=read_one,
        suffixes=(".csv",),
        write=_write_named,
        documentation="""
Columns with names, in any order: `task` (or `rank`), `node` and maybe `slot`. The names are needed:
without them nothing tells tasks from nodes.
""",
        example="task,node\n0,1\n1,0\n2,3\n3,2\n",
    ),
    Dialect(
        name="maplib",
        holds="mapping",
        title="MapLib's lines of coordinates, a count, tasks",
        recognise=_is_maplib,
        read=read_one,
        documentation="""
A title, a line of names that ends in `process_ids`, then on each line D coordinates, the number of
tasks there, and the tasks. The title is the mapping's name.
""",
        example="scan\nx_coord y_coord number process_id(s)\n0 1 2 0 1\n1 1 1 2\n",
    ),
    Dialect(
        name="named-lines",
        holds="mapping",
        title="several mappings: name, node, node, ...",
        recognise=_is_named_lines,
        read=read_many,
        documentation="""
Several mappings in one file, for `--mappings`: on each line a name, then the node of each task.
""",
        example="identity,0,1,2,3\nturned,1,0,3,2\n",
    ),
)
