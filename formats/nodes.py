"""Places of tasks as bare numbers: nodes or coordinates, and several mappings in a file.

Patterns: partitions of METIS 5.1 and KaHIP 3, TreeMatch 1.0; map files of Blue Gene/L, /P and /Q;
vcoordfiles of Fujitsu's mpiexec on Fugaku; MapLib 2010; what `gmap` of Scotch 7 writes;
`coord_allocation.txt` and `node_id_indexing.txt` of SST-macro 14's `tests/test_configs`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from toruscast.errors import InputError
from toruscast.mapping.task_mapping import TaskMapping
from toruscast.mapping.torus import Torus
from toruscast.text import counted, joined

from .dialect import Dialect
from .placements import (
    MappingOptions,
    Target,
    check_range,
    first_fastest,
    first_tasks,
    mapping_of,
    place_of,
)
from .source import NUMBER, WHOLE, Source, Text, cells, comments, label, warn_of, whole, write_text
from .tables import TextTable, read_table, table_of, write_rows

_RANGES = re.compile(r"[\d;-]+")
_LABELLED = re.compile(r"\s*([A-Za-z][\w .-]*):\s++\d++(?>\s*+,\s*+\d++)*+\s*+,?\s*+")


def read_nodes(source: Source, options: MappingOptions) -> TaskMapping:
    """Return the mapping of nodes."""
    text = source.text
    number, line = text.first_line()
    parts = cells(line)[1]
    if len(parts) > 1 and len(source.lines) == 1:
        return node_row(text, number, parts, options, label(text.file))
    return mapping_of(read_table(text, ["node"]), options)


def is_row_of_semicolons(source: Source) -> bool:
    """Whether numbers on one line may be the node of each task or, differently, the reverse."""
    parts = source.first_line()[1].split(";")
    if len(source.lines) != 1 or not all(re.fullmatch("[0-9]{1,9}", part) for part in parts):
        return False
    nodes = np.array(parts, dtype=np.int64)
    return len(parts) > 1 and not np.array_equal(np.argsort(nodes, kind="stable"), nodes)


def node_row(
    text: Text, line: int, parts: list[str], options: MappingOptions, name: str
) -> TaskMapping:
    """Build a mapping whose nodes stand on one line."""
    most = options.torus.n_nodes - 1
    nodes = [whole(text, line, f"node of task {t}", part, most) for t, part in enumerate(parts)]
    nodes = nodes[: first_tasks(text.file, len(nodes), options)]
    with text.at(line):
        return TaskMapping(nodes, options.torus, tasks_per_node=options.capacity, name=name)


def are_named_lines(source: Source) -> bool:
    """Whether the lines hold a name and nodes."""
    # A name may hold a percent sign, which starts a comment elsewhere.
    lines = (comments("#").sub("", line).strip() for line in source.raw_lines)
    name, *parts = _split_names(next(filter(None, lines), ""))
    return bool(parts) and all(map(WHOLE.fullmatch, parts)) and _is_name(name)


def read_many(source: Source, options: MappingOptions) -> Iterator[TaskMapping]:
    """Give the mappings of lines ``name,node0,node1,...``, one at a time."""
    text = source.stream
    n_tasks = None
    seen: dict[str, int] = {}
    for number, line in text.lines("#"):
        name, *parts = _split_names(line)
        if name in seen:
            raise text.fault(
                "name of a mapping stands twice", number, f"{name}, also line {seen[name]}"
            )
        if not name:
            raise text.fault("mapping without a name", number, line, "name,node0,node1,...")
        n_tasks = len(parts) if n_tasks is None else n_tasks
        if len(parts) != n_tasks:
            raise text.fault(
                "mappings differ in their number of tasks", number, len(parts), n_tasks
            )
        seen[name] = number
        yield node_row(text, number, parts, options, name)
    if not seen:
        raise text.fault("file without data")


def _split_names(line: str) -> list[str]:
    return [part.strip() for part in line.split("," if "," in line else ";")]


def _is_name(word: str) -> bool:
    """Whether a word may name a mapping: no numbers, no range of them, no label, no tab."""
    _, colon, number = word.rpartition(":")
    is_label = bool(colon) and bool(WHOLE.fullmatch(number.strip()))
    is_number = all(NUMBER.fullmatch(part) for part in re.split(r"[\s;]+", word) if part)
    return not (is_number or is_label or "\t" in word or _RANGES.fullmatch(word))


def read_counted(source: Source, names: Sequence[str], what: str) -> TextTable:
    """Return columns of whole numbers below a line that begins with how many rows there are."""
    text = source.text
    number, line = text.first_line()
    count = whole(text, number, f"number of {what}", cells(line)[1][0])
    table = read_table(text, names, skip=number)
    if table.n_rows != count:
        expected = f"{table.n_rows}, as many lines"
        raise text.fault(f"wrong number of {what}", number, count, expected)
    return table


def read_numbered(source: Source, options: MappingOptions, names: Sequence[str]) -> TaskMapping:
    """Return the mapping of nodes below their count, maybe beside their tasks.

    The tool counts nodes with the first coordinate fastest.
    """
    table = read_counted(source, names, "tasks")
    check_range(table, "node", options.torus.n_nodes)
    return mapping_of(table.assign(node=first_fastest(options.torus)[table["node"]]), options)


def write_numbered(mapping: TaskMapping, path: Path, target: Target, names: Sequence[str]) -> None:
    """Write the count, then the columns of `read_numbered`."""
    number = np.argsort(first_fastest(target.torus))[mapping.node]
    columns = [np.arange(number.size), number][-len(names) :]
    write_rows(path, f"{number.size}\n", columns, "\t")


def read_treematch(source: Source, options: MappingOptions) -> TaskMapping:
    """Return the mapping of a line ``TreeMatch: core of task 0, core of task 1, ...``."""
    text = source.text
    number, line = text.first_line()
    name, _, rest = line.partition(":")
    cores = [
        whole(text, number, f"place of task {t}", part.strip())
        for t, part in enumerate(rest.strip().rstrip(",").split(","))
    ]
    node, slot = np.divmod(cores, options.capacity or 1)
    table = table_of(text, [number] * len(cores), node=node, slot=slot)
    return mapping_of(table, options, name.strip())


NODES = Dialect(
    name="nodes",
    holds="mapping",
    title="the node of each task (partition of METIS or KaHIP)",
    recognise=is_row_of_semicolons,
    read=read_nodes,
    write=lambda mapping, path, _: write_rows(path, "", [mapping.node], " "),
    suffixes=(".map",),
    documentation="""
One number on each line, or all on one line. Nodes are numbered in C order. A single line of D or
D + 1 numbers on a torus of D dimensions is the place of one task, unless the job has more.
""",
    example="1\n0\n3\n2\n",
)
NAMED_LINES = Dialect(
    name="named-lines",
    holds="mapping",
    title="several mappings: name, node, node, ...",
    recognise=are_named_lines,
    read=read_many,
    documentation="""
Several mappings in one file, for `--mappings`: on each line a name, then the node of each task.
""",
    example="identity,0,1,2,3\nturned,1,0,3,2\n",
)
TREEMATCH = Dialect(
    name="treematch",
    holds="mapping",
    title="TreeMatch's line: label: place, place, ...",
    recognise=lambda source: len(source.lines) == 1 and source.all_match(_LABELLED),
    read=read_treematch,
    documentation="""
What TreeMatch prints: a label and the place of each task. Places are cores, `--tasks-per-node` of
them to a node; without it each is a node.
""",
    example="TreeMatch: 1,0,3,2,5,4,7,6\n",
)


# Names above a map of a line of nodes, whose coordinate and slot may be task and node.
ONE_DIMENSION = ["node", "slot"]
_VCOORD = re.compile(r"\(\s*(\d+(?:\s*,\s*\d+)*)\s*\)((?:\s+\w+\s*=\s*\S+)*)")
_VCOORD_START = re.compile(r"\(\s*\d+\s*(,\s*\d+\s*){0,2}\)")
# A job's shape has up to three dimensions.
MAX_VCOORD = 3
# MapLib's names of columns; JSON and XML may have such names too.
NAMES = re.compile(r'(?!.*([\[\]{}<>;]|"\s*:)).*process_id', re.I)


def read_bluegene(source: Source, options: MappingOptions) -> TaskMapping:
    """Return the mapping of lines ``x y z slot``, or ``x y z`` where the slots are by rank."""
    text, torus = source.text, options.torus
    number, line = text.first_line()
    parts = cells(line)[1]
    if parts == ONE_DIMENSION and torus.ndim == 1:
        return at_coordinates(read_table(text, names_of_places(torus), skip=number), options)
    found = f"{counted(len(parts), 'column')}: {line[:50]}"
    wanted = f"{torus.ndim + 1} (coordinates, slot), {torus.ndim} (coordinates) or 1 (node)"
    expected = f"{wanted}, or names above them such as task,node"
    if len(parts) not in (torus.ndim, torus.ndim + 1) or len(parts) == 1:
        raise text.fault("columns of a mapping without names", number, found, expected)
    table = read_table(text, names_of_places(torus)[: len(parts)])
    if _may_start_with_tasks(table, len(parts), options):
        if torus.ndim == 1:
            found = f"{table.n_rows} lines of two numbers"
            expected = "names above them, task,node or node,slot, to say which"
            raise text.fault("tasks and nodes, or coordinates and slots", None, found, expected)
        found = f"{counted(len(parts), 'column')}, the first counts 0, 1, 2, ..."
        expected = "names above them, such as task,node or x,y, to say which"
        raise text.fault("tasks, or coordinates", number, found, expected)
    return at_coordinates(table, options)


def names_of_places(torus: Torus) -> list[str]:
    """What messages call the columns of coordinates and slot."""
    return [*(f"coordinate {d}" for d in range(torus.ndim)), "slot"]


def at_coordinates(table: TextTable, options: MappingOptions) -> TaskMapping:
    """Build the mapping of columns of coordinates, and of slots where there is one more."""
    torus, axes = options.torus, list(table.columns)[: options.torus.ndim]
    for axis, size in zip(axes, torus.shape, strict=True):
        check_range(table, axis, size)
    places = np.stack([table[axis] for axis in axes], axis=1)
    return mapping_of(table.assign(node=torus.node(places)), options)


def _may_start_with_tasks(table: TextTable, width: int, options: MappingOptions) -> bool:
    """Whether the columns may be task and node (and slot): every task stands once in the first."""
    ndim = options.torus.ndim
    if width > 3 or (width == ndim + 1 and ndim != 1):
        return False
    first, second, *_ = table.columns.values()
    every = np.array_equal(np.sort(first), np.arange(table.n_rows))
    are_nodes = second.max() < options.torus.n_nodes and (ndim > 1 or second.any())
    return bool(every and are_nodes)


def bluegene_text(mapping: TaskMapping, torus: Torus) -> str:
    """Return lines of coordinates and slot, one for each task."""
    head = [" ".join(ONE_DIMENSION)] if torus.ndim == 1 else []
    rows = np.column_stack([torus.coords[mapping.node], mapping.slot]).tolist()
    return "\n".join([*head, *(" ".join(map(str, row)) for row in rows), ""])


def read_vcoord(source: Source, options: MappingOptions) -> TaskMapping:
    """Return the mapping of lines ``(x,y,z)``, one for each rank."""
    text = source.text
    places = list(text.matches(_VCOORD, "coordinates", "(x,y,z)"))
    if others := {name for _, match in places for name in re.findall(r"\w+(?=\s*=)", match[2])}:
        warn_of(text.file, f"words that are not used: {joined(sorted(others))}")
    nodes = [
        place_of(text, n, re.split(r"\s*,\s*", match[1]), options.torus) for n, match in places
    ]
    return mapping_of(table_of(text, [number for number, _ in places], node=nodes), options)


def check_vcoord(target: Target, *_: int) -> None:
    """Raise unless a job may have this torus."""
    if target.torus.ndim > MAX_VCOORD:
        message = "a vcoordfile has the job's own coordinates"
        expected = "a torus of one to three dimensions, as the job asks for it"
        raise InputError(message, found=str(target.torus), expected=expected)


def write_vcoord(mapping: TaskMapping, path: Path, target: Target) -> None:
    """Write the coordinates of each rank."""
    check_vcoord(target)
    places = target.torus.coords[mapping.node].tolist()
    write_text(path, "".join(f"({','.join(map(str, place))})\n" for place in places))


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
        node = place_of(text, number, parts[:width], options.torus)
        count = whole(text, number, "number of tasks", parts[width])
        tasks = parts[width + 1 :]
        if len(tasks) != count:
            raise text.fault("wrong number of tasks", number, len(tasks), count)
        rows += [(number, whole(text, number, "task", task), node) for task in tasks]
    at, task, node_of = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    stated = int(np.bincount(node_of).max(initial=1))
    return mapping_of(table_of(text, at, node=node_of, task=task), options, name, stated)


BLUEGENE = Dialect(
    name="bluegene",
    holds="mapping",
    title="coordinates and slot of each task (map file of Blue Gene/Q, /P and /L)",
    read=read_bluegene,
    suffixes=(".map", ".txt"),
    write=lambda mapping, path, target: write_text(path, bluegene_text(mapping, target.torus)),
    documentation="""
On a torus of D dimensions D + 1 numbers for each task, in the order of the tasks: coordinates and
slot; or D numbers, the coordinates alone. A map of a whole partition may be longer than the job:
its tasks take the first lines, and a warning says so. Two or three columns that may be task, node
and slot are refused without names above them (`task,node`, `node,slot`).
""",
    example="0 0 0 0 0 0\n0 0 0 0 1 0\n0 0 0 1 0 0\n0 0 0 1 1 0\n",
    advice={
        "bluegene_q": "runjob --mapping {file}",
        "bluegene_p": "mpirun -mapfile {file}",
        "bluegene_l": "mpirun -mapfile {file}",
    },
)
VCOORD = Dialect(
    name="vcoord",
    holds="mapping",
    title="vcoordfile of Fujitsu's mpiexec (Fugaku): (x,y,z) of each rank",
    recognise=lambda source: bool(_VCOORD_START.match(source.first_line()[1])),
    read=read_vcoord,
    write=write_vcoord,
    check_job=check_vcoord,
    suffixes=(".vcoord",),
    documentation="""
On each line the coordinates of a rank in the job's own shape, in brackets; a warning names what
stands behind them (`core=2`) and is not used. Ranks of a node take its slots in their order. A file
with more lines than the job has ranks is read up to its last rank, and a warning says so.
""",
    example="(1,1)\n(0,1)\n(0,0)\n(1,0)\n",
    advice="mpiexec --vcoordfile {file}",
)
MAPLIB = Dialect(
    name="maplib",
    holds="mapping",
    title="MapLib's lines of coordinates, a count, tasks",
    recognise=lambda source: any(NAMES.match(line) for _, line in source.lines[:2]),
    read=read_maplib,
    documentation="""
A title, a line of names that ends in `process_ids`, then on each line D coordinates, the number of
tasks there, and the tasks. The title is the mapping's name.
""",
    example="scan\nx_coord y_coord number process_id(s)\n0 1 2 0 1\n1 1 1 2\n",
)


def read_sst_coordinates(source: Source, options: MappingOptions) -> TaskMapping:
    """Return the mapping of coordinates, and maybe a node of the switch, below their count."""
    text, torus = source.text, options.torus
    number, line = text.first_line()
    parts = cells(line)[1]
    if len(parts) != 2:
        expected = "a number of nodes and one of dimensions"
        raise text.fault("count of coordinates missing", number, line[:60], expected)
    width = whole(text, number, "number of dimensions", parts[1])
    if width not in (torus.ndim, torus.ndim + 1):
        nodes = counted(whole(text, number, "number of nodes", parts[0]), "node")
        found = f"{line}, {nodes} in {counted(width, 'dimension')}"
        expected = f"{torus.ndim} dimensions, on {torus}"
        raise text.fault("wrong number of dimensions", number, found, expected)
    return at_coordinates(read_counted(source, names_of_places(torus)[:width], "nodes"), options)


SST_COORDINATES = Dialect(
    name="sst-coordinates",
    holds="mapping",
    title="SST-macro's coordinates below their count and their dimensions",
    read=read_sst_coordinates,
    documentation="""
The number of nodes and of dimensions (`4 2`), then the coordinates of each task on a line, the
first dimension first; one number more is the node of the switch, here the slot. Where the first
line may be a place as well, the number of tasks decides, or `--format`.
""",
)
SST_NODES = Dialect(
    name="sst-macro",
    holds="mapping",
    title="SST-macro's list of node numbers below their count",
    read=partial(read_numbered, names=("node",)),
    write=partial(write_numbered, names=("node",)),
    documentation="""
The number of tasks, then the node of each on a line of its own. SST-macro's torus counts the first
coordinate fastest; toruscast converts the numbering when reading.
""",
    example="4\n0\n2\n2\n0\n",
    advice="app1.indexing = node_id, app1.node_id_file = {file} (SST-macro)",
)
SCOTCH = Dialect(
    name="scotch-map",
    holds="mapping",
    title="mapping of Scotch (gmap): a count, then task and node",
    read=partial(read_numbered, names=("task", "node")),
    write=partial(write_numbered, names=("task", "node")),
    documentation="""
What `gmap` writes: the number of vertices, then a line for each, its number and that of its node.
Scotch's tori (`torusXD`) count the first coordinate fastest; toruscast converts the numbers
when reading. For pairs in C order give the columns names, `task,node`.
""",
    example="4\n0 3\n1 1\n2 0\n3 2\n",
    advice="gmtst GRAPH TARGET {file} (Scotch's own statistics of the mapping)",
)
DIALECTS = (
    *(BLUEGENE, SST_COORDINATES, VCOORD, MAPLIB, NODES),
    *(NAMED_LINES, SST_NODES, SCOTCH, TREEMATCH),
)
