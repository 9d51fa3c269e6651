"""Coordinates of each task: Blue Gene, Fugaku, SST-macro and MapLib.

Patterns: map files of Blue Gene/L, /P and /Q; vcoordfiles of Fujitsu's mpiexec on Fugaku;
`tests/test_configs/coord_allocation.txt` of SST-macro 14; MapLib 2010.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from toruscast.errors import InputError
from toruscast.wording import counted

from ...task_mapping import TaskMapping
from ...torus import Torus
from .._rows import Column, Table, read_table
from ..dialect import Dialect
from ..source import LINES, WHOLE, Source, fields, label, whole
from .build import (
    MappingOptions,
    Target,
    mapping_of,
    place_of,
    rows_of,
    within,
    write_lines,
)
from .node_lists import are_nodes
from .rank_order import has_sign

# Names above a map of a line of nodes, whose coordinate and slot may be task and node.
ONE_DIMENSION = ["node", "slot"]
# Tori have at most eight dimensions.
MOST = 9
VCOORD = re.compile(r"\(\s*(\d+(?:\s*,\s*\d+)*)\s*\)((?:\s+\w+\s*=\s*\S+)*)")
# A job's shape has up to three dimensions.
MOST_VCOORD = 3
# MapLib's names of columns; JSON and XML may have such names too.
NAMES = re.compile(r'(?!.*([\[\]{}<>;]|"\s*:)).*process_id', re.I)


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


def is_sst(source: Source) -> bool:
    """Whether a count and a number of dimensions stand above so many lines of so many numbers."""
    if len(source.fields) != 2 or not all(map(WHOLE.fullmatch, source.fields)):
        return False
    if "," in source.lines[0][1] or len(source.lines) < 2:
        return False
    count, width = (int(word[:9]) for word in source.fields)
    rows = [fields(line) for _, line in source.lines[1:]]
    if any(len(row) != width or not all(map(WHOLE.fullmatch, row)) for row in rows):
        return False
    if source.torus is not None and source.torus.ndim == 1 and width != 1:
        # Lines of coordinate and slot.
        return False
    if source.n_tasks is not None and source.n_tasks > count and is_coordinates(source):
        return False
    if len(source.lines) < LINES:
        return len(rows) == count
    return count >= len(rows) and sum(1 for _ in source.stream.lines()) - 1 == count


def _may_be_map(source: Source) -> bool:
    """Whether the first line of SST-macro's may be a place as well."""
    if not is_coordinates(source) or source.n_tasks == int(source.fields[0]):
        return False
    sizes = (2**30, 2**30) if source.torus is None else source.torus.shape
    return len(sizes) == 1 or all(int(c) < k for c, k in zip(source.fields, sizes, strict=False))


def read_sst(source: Source, options: MappingOptions) -> TaskMapping:
    """Return the mapping of coordinates, and maybe a node of the switch, below their count."""
    text, torus = source.text, options.torus
    number, line = text.first_line()
    parts = fields(line)
    if len(parts) != 2:
        expected = "a number of nodes and one of dimensions"
        raise text.fault("count of coordinates missing", number, line[:60], expected)
    count = whole(text, number, "number of nodes", parts[0])
    width = whole(text, number, "number of dimensions", parts[1])
    if width not in (torus.ndim, torus.ndim + 1):
        found = f"{line}, {counted(count, 'node')} in {counted(width, 'dimension')}"
        expected = f"{torus.ndim} dimensions, on {torus}"
        raise text.fault("wrong number of dimensions", number, found, expected)
    names = [*(f"coordinate {d}" for d in range(torus.ndim)), "slot"][:width]
    table = read_table(text, [Column(name, whole=True) for name in names], skip=number)
    if table.n_rows != count:
        raise text.fault("wrong number of nodes", number, count, f"{table.n_rows}, as many lines")
    return _at_coordinates(table, options)


def _may_be_places(source: Source) -> bool:
    """Whether lines of two or three whole numbers have lost the names of their columns."""
    if source.fields == ONE_DIMENSION:
        return True
    return bool(source.fields) and 1 < len(source.fields) <= MOST and source.has_numbers


def read_bluegene(source: Source, options: MappingOptions) -> TaskMapping:
    """Return the mapping of lines ``x y z slot``, or ``x y z`` where the slots are by rank."""
    text, torus = source.text, options.torus
    number, line = text.first_line()
    parts = fields(line)
    if parts == ONE_DIMENSION and torus.ndim == 1:
        columns = [Column("coordinate 0", whole=True), Column("slot", whole=True)]
        return _at_coordinates(read_table(text, columns, skip=number), options)
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
        found = f"{counted(len(parts), 'column')}, the first counts 0, 1, 2, ..."
        expected = "names above them, such as task,node or x,y, to say which"
        raise text.fault("tasks, or coordinates", number, found, expected)
    return _at_coordinates(table, options)


def _at_coordinates(table: Table, options: MappingOptions) -> TaskMapping:
    """Build the mapping of columns of coordinates, and of slots where there is one more."""
    columns, torus = table.columns, options.torus
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


def write_bluegene(mapping: TaskMapping, path: Path, target: Target) -> None:
    """Write coordinates and slot of each task."""
    write_lines(path, bluegene_text(mapping, target.torus))


def bluegene_text(mapping: TaskMapping, torus: Torus) -> str:
    """Return lines of coordinates and slot, one for each task."""
    head = [" ".join(ONE_DIMENSION)] if torus.ndim == 1 else []
    rows = np.column_stack([torus.coords[mapping.node], mapping.slot]).tolist()
    return "\n".join([*head, *(" ".join(map(str, row)) for row in rows), ""])


def is_vcoord(source: Source) -> bool:
    """Whether the first line holds coordinates in brackets."""
    return bool(re.match(r"\(\s*\d+\s*(,\s*\d+\s*){0,2}\)", source.first_line()[1]))


def read_vcoord(source: Source, options: MappingOptions) -> TaskMapping:
    """Return the mapping of lines ``(x,y,z)``, of which one for each rank."""
    text = source.text
    at: list[int] = []
    nodes: list[int] = []
    for number, line in text.lines("#"):
        match = VCOORD.fullmatch(line)
        if match is None:
            raise text.fault("bad coordinates", number, line, "(x,y,z)")
        at.append(number)
        nodes.append(place_of(text, number, [p.strip() for p in match[1].split(",")], options))
    table, (node,) = rows_of(text, at, nodes)
    return mapping_of(table, node, options)


def write_vcoord(mapping: TaskMapping, path: Path, target: Target) -> None:
    """Write the coordinates of each rank."""
    torus = target.torus
    if torus.ndim > MOST_VCOORD:
        raise InputError(
            "a vcoordfile has the job's own coordinates",
            found=str(torus),
            expected="a torus of one to three dimensions, as the job asks for it",
        )
    places = torus.coords[mapping.node].tolist()
    write_lines(path, "".join(f"({','.join(map(str, place))})\n" for place in places))


def is_maplib(source: Source) -> bool:
    """Whether one of the first two lines names MapLib's columns."""
    return any(NAMES.match(line) for _, line in source.lines[:2])


def read_maplib(source: Source, options: MappingOptions) -> TaskMapping:
    """Return the mapping of lines ``x y z n task...`` below a title and column names."""
    text, width = source.text, options.torus.ndim
    lines = list(text.lines("#"))
    named = next((i for i, (_, line) in enumerate(lines[:2]) if NAMES.match(line)), None)
    if named is None:
        raise text.fault("names of columns missing", None, None, "a line with process_id(s)")
    name = lines[0][1] if named else label(text.file)
    rows: list[tuple[int, int, int]] = []
    for number, line in lines[named + 1 :]:
        parts = line.replace(",", " ").split()
        if len(parts) < width + 1:
            raise text.fault("line too short", number, line, f"{width} coordinates, a count, tasks")
        node = place_of(text, number, parts[:width], options)
        count = whole(text, number, "number of tasks", parts[width])
        tasks = parts[width + 1 :]
        if len(tasks) != count:
            raise text.fault("wrong number of tasks", number, len(tasks), count)
        rows += [(number, whole(text, number, "task", task), node) for task in tasks]
    at, task, node_of = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    table = Table(text, 0, [task], lines=at)
    return mapping_of(table, node_of, options, task=task, name=name)


DIALECTS = (
    Dialect(
        name="bluegene",
        holds="mapping",
        title="coordinates and slot of each task (map file of Blue Gene/Q, /P and /L)",
        recognise=_is_map,
        read=read_bluegene,
        plain=True,
        near=_may_be_places,
        suffixes=(".map", ".txt"),
        write=write_bluegene,
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
    ),
    Dialect(
        name="sst-coordinates",
        holds="mapping",
        title="SST-macro's coordinates below their count and their dimensions",
        recognise=is_sst,
        read=read_sst,
        weak=_may_be_map,
        documentation="""
The number of nodes and of dimensions (`4 2`), then the coordinates of each task on a line, the
first dimension first; one number more is the node of the switch, here the slot. Where the first
line may be a place as well, the number of tasks decides, or `--mapping-format`.
""",
        example="",
    ),
    Dialect(
        name="vcoord",
        holds="mapping",
        title="vcoordfile of Fujitsu's mpiexec (Fugaku): (x,y,z) of each rank",
        recognise=is_vcoord,
        read=read_vcoord,
        write=write_vcoord,
        suffixes=(".vcoord",),
        documentation="""
On each line the coordinates of a rank in the job's own shape, in brackets; what stands behind them
(`core=2`) is not used. Ranks of a node take its slots in their order. A file with more lines than
the job has ranks is read up to its last rank, and toruscast says so.
""",
        example="(1,1)\n(0,1)\n(0,0)\n(1,0)\n",
        advice="mpiexec --vcoordfile {file}",
    ),
    Dialect(
        name="maplib",
        holds="mapping",
        title="MapLib's lines of coordinates, a count, tasks",
        recognise=is_maplib,
        read=read_maplib,
        documentation="""
A title, a line of names that ends in `process_ids`, then on each line D coordinates, the number of
tasks there, and the tasks. The title is the mapping's name.
""",
        example="scan\nx_coord y_coord number process_id(s)\n0 1 2 0 1\n1 1 1 2\n",
    ),
)
