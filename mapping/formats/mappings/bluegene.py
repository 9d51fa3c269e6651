"""Map files of Blue Gene: the coordinates and the slot of each task."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from toruscast.wording import counted

from ...task_mapping import TaskMapping
from .._table import WHOLE, Column, Table, fields, read_table
from ..dialect import Dialect
from ..source import Source
from .build import first_tasks, mapping_of, within
from .nodes import are_nodes
from .options import MappingOptions, Target
from .rank_order import has_sign
from .rows import write_rows

# Tori have at most eight dimensions.
MOST = 9


def is_coordinates(source: Source) -> bool:
    """Whether lines of whole numbers may be places; without a torus, of two to nine numbers."""
    width = len(source.fields)
    if not source.has_numbers or not all(WHOLE.fullmatch(part) for part in source.fields):
        return False
    if source.torus is None:
        widths = {len(fields(line)) for _, line in source.lines}
        return len(widths) == 1 and 2 <= width <= MOST
    if width not in (source.torus.ndim, source.torus.ndim + 1) or width == 1:
        return False
    # A single line of so many numbers may hold the node of each task.
    return len(source.lines) > 1 or source.n_tasks in (None, 1)


def _is_map(source: Source) -> bool:
    return is_coordinates(source) and not (are_nodes(source) or has_sign(source))


def _may_be_places(source: Source) -> bool:
    """Whether lines of two or three whole numbers have lost the names of their columns."""
    return bool(source.fields) and 1 < len(source.fields) <= MOST and source.has_numbers


def read(source: Source, options: MappingOptions) -> TaskMapping:
    """Return the mapping of lines ``x y z slot``, or ``x y z`` where the slots are by rank."""
    text, torus = source.text, options.torus
    number, line = text.first_line()
    parts = fields(line)
    found = f"{counted(len(parts), 'column')}: {line[:50]}"
    wanted = f"{torus.ndim + 1} (coordinates, slot), {torus.ndim} (coordinates) or 1 (node)"
    expected = f"{wanted}, or names above them such as task,node"
    if len(parts) not in (torus.ndim, torus.ndim + 1) or len(parts) == 1:
        raise text.fault("columns of a mapping without names", number, found, expected)
    names = [*(f"coordinate {d}" for d in range(torus.ndim)), "slot"][: len(parts)]
    table = read_table(text, [Column(name, whole=True) for name in names])
    if _may_start_with_tasks(table, len(parts), options):
        if torus.ndim == 1:
            found = f"{table.n_rows} lines of two numbers"
            expected = "names above them, task,node or node,slot, to say which"
            raise text.fault("tasks and nodes, or coordinates and slots", None, found, expected)
        raise text.fault("columns of a mapping without names", number, found, expected)
    columns = first_tasks(table, table.columns, options)
    for d, size in enumerate(torus.shape):
        within(table, columns[d], f"coordinate {d}", size)
    node = torus.node(np.stack(columns[: torus.ndim], axis=1)).astype(np.int64)
    slot = columns[torus.ndim] if len(columns) > torus.ndim else None
    return mapping_of(table, node, options, slot=slot)


def _may_start_with_tasks(table: Table, width: int, options: MappingOptions) -> bool:
    """Whether the columns may be task and node (and slot): every task stands once in the first.

    On a line of nodes, slots that are all 0 are none: no node runs all tasks where each has a
    coordinate of its own.
    """
    ndim = options.torus.ndim
    if width > 3 or (width == ndim + 1 and ndim != 1):
        return False
    first, second = table.columns[:2]
    every = np.array_equal(np.sort(first), np.arange(table.n_rows))
    if ndim == 1:
        return bool(every and second.any() and second.max() < options.torus.n_nodes)
    return bool(every and second.max() < options.torus.n_nodes)


def write(mapping: TaskMapping, path: Path, target: Target) -> None:
    """Write coordinates and slot of each task."""
    torus = target.torus
    # Of one dimension, coordinate and slot may look like task and node.
    head = "node slot\n" if torus.ndim == 1 else ""
    write_rows(path, head, np.column_stack([torus.coords[mapping.node], mapping.slot]), " ")


DIALECT = Dialect(
    name="bluegene",
    holds="mapping",
    title="coordinates and slot of each task (map file of Blue Gene/Q, /P and /L)",
    recognise=_is_map,
    read=read,
    plain=True,
    near=_may_be_places,
    suffixes=(".map", ".txt"),
    write=write,
    documentation="""
On a torus of D dimensions D + 1 numbers for each task, in the order of the tasks: coordinates and
slot; or D numbers, the coordinates alone. A map of a whole partition may be longer than the job:
its tasks take the first lines, and toruscast says so. Two or three columns that may be task, node
and slot are refused without names above them (`task,node`, `node,slot`).
""",
    example="0 0 0 0 0 0\n0 0 0 0 1 0\n0 0 0 1 0 0\n0 0 0 1 1 0\n",
    advice={
        "bluegene_q": "runjob --mapping {file}",
        "bluegene_p": "mpirun -mapfile {file}",
        "bluegene_l": "mpirun -mapfile {file}",
    },
)
