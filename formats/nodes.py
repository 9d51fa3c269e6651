"""Mappings as node numbers or coordinates; some files contain several.

Sources: partitions of METIS 5.1 and KaHIP 3; TreeMatch 1.0; map files of Blue Gene/L, /P and /Q;
vcoordfiles of Fujitsu's mpiexec on Fugaku; MapLib 2010; `gmap` of Scotch 7;
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
    WriteOptions,
    check_range,
    column_major_nodes,
    count_used_rows,
    mapping_from_table,
    parse_node,
)
from .source import (
    NUMBER,
    WHOLE,
    Source,
    TextFile,
    comment_pattern,
    name_from_path,
    parse_whole,
    split_cells,
    warn_about,
    write_text,
)
from .tables import TextTable, make_table, read_table, write_rows

_RANGES = re.compile(r"[\d;-]+")
_LABELLED = re.compile(r"\s*([A-Za-z][\w .-]*):\s++\d++(?>\s*+,\s*+\d++)*+\s*+,?\s*+")


def _read_nodes(source: Source, options: MappingOptions) -> TaskMapping:
    """Read the node of each task from one line, or from a line per task."""
    text = source.text
    number, line = text.first_line()
    cells = split_cells(line)[1]
    if len(cells) > 1 and len(source.lines) == 1:
        return _mapping_from_row(text, number, cells, options, name_from_path(text.file))
    return mapping_from_table(read_table(text, ["node"]), options)


def _is_row_of_semicolons(source: Source) -> bool:
    """Whether the file is a row of nodes, separated by semicolons, that is not its own inverse."""
    words = source.first_line()[1].split(";")
    if len(source.lines) != 1 or not all(re.fullmatch("[0-9]{1,9}", part) for part in words):
        return False
    nodes = np.array(words, dtype=np.int64)
    return len(words) > 1 and not np.array_equal(np.argsort(nodes, kind="stable"), nodes)


def _mapping_from_row(
    text: TextFile, line: int, words: list[str], options: MappingOptions, name: str
) -> TaskMapping:
    """Return the mapping of a line whose ``words`` are the nodes of the tasks."""
    last = options.torus.n_nodes - 1
    nodes = [
        parse_whole(text, line, f"node of task {t}", word, last) for t, word in enumerate(words)
    ]
    nodes = nodes[: count_used_rows(text.file, len(nodes), options)]
    with text.locate_errors(line):
        return TaskMapping(nodes, options.torus, tasks_per_node=options.capacity, name=name)


def _is_named_lines(source: Source) -> bool:
    # Names may contain a percent sign, so it does not start a comment as it does elsewhere.
    lines = (comment_pattern("#").sub("", line).strip() for line in source.raw_lines)
    name, *words = _split_names(next(filter(None, lines), ""))
    return bool(words) and all(map(WHOLE.fullmatch, words)) and _may_be_name(name)


def _read_named_lines(source: Source, options: MappingOptions) -> Iterator[TaskMapping]:
    """Yield the mapping of each line; a line is a name, followed by the node of each task."""
    text = source.streamed_text
    n_tasks = None
    line_of_name: dict[str, int] = {}
    for number, line in text.lines("#"):
        name, *words = _split_names(line)
        text.record_once("mapping name", name, number, line_of_name)
        if not name:
            raise text.fault("mapping without a name", number, line, "name,node0,node1,...")
        n_tasks = len(words) if n_tasks is None else n_tasks
        if len(words) != n_tasks:
            message = "mappings differ in their number of tasks"
            raise text.fault(message, number, len(words), n_tasks)
        yield _mapping_from_row(text, number, words, options, name)
    if not line_of_name:
        raise text.fault("file without data")


def _split_names(line: str) -> list[str]:
    return [part.strip() for part in line.split("," if "," in line else ";")]


def _may_be_name(word: str) -> bool:
    """Whether a word may be the name of a mapping, because it is no number, range or label."""
    _, colon, number = word.rpartition(":")
    is_label = bool(colon) and bool(WHOLE.fullmatch(number.strip()))
    is_number = all(NUMBER.fullmatch(part) for part in re.split(r"[\s;]+", word) if part)
    return not (is_number or is_label or "\t" in word or _RANGES.fullmatch(word))


def _read_counted(source: Source, names: Sequence[str], unit: str) -> TextTable:
    """Read columns of whole numbers below a line that starts with the number of rows."""
    text = source.text
    number, line = text.first_line()
    count = parse_whole(text, number, f"number of {unit}", split_cells(line)[1][0])
    table = read_table(text, names, skip=number)
    if table.n_rows != count:
        raise text.fault(f"wrong number of {unit}", number, count, f"{table.n_rows}, as many lines")
    return table


def _read_numbered(source: Source, options: MappingOptions, names: Sequence[str]) -> TaskMapping:
    """Read a mapping below its number of tasks; nodes are numbered in column-major order."""
    table = _read_counted(source, names, "tasks")
    check_range(table, "node", options.torus.n_nodes)
    nodes = column_major_nodes(options.torus)[table["node"]]
    return mapping_from_table(table.assign(node=nodes), options)


def _write_numbered(
    mapping: TaskMapping, path: Path, options: WriteOptions, names: Sequence[str]
) -> None:
    number = np.argsort(column_major_nodes(options.torus))[mapping.node]
    columns = [np.arange(number.size), number][-len(names) :]
    write_rows(path, f"{number.size}\n", columns, "\t")


def _read_treematch(source: Source, options: MappingOptions) -> TaskMapping:
    """Read the core of each task; each node has ``options.capacity`` consecutive cores."""
    text = source.text
    number, line = text.first_line()
    name, _, core_list = line.partition(":")
    cores = [
        parse_whole(text, number, f"core of task {t}", word.strip())
        for t, word in enumerate(core_list.strip().rstrip(",").split(","))
    ]
    node, slot = np.divmod(cores, options.capacity or 1)
    table = make_table(text, [number] * len(cores), node=node, slot=slot)
    return mapping_from_table(table, options, name.strip())


NODES = Dialect(
    name="nodes",
    holds="mapping",
    title="the node of each task (partition of METIS or KaHIP)",
    recognise=_is_row_of_semicolons,
    read=_read_nodes,
    write=lambda mapping, path, _: write_rows(path, "", [mapping.node], " "),
    suffixes=(".map",),
    documentation="""
One node number per line, or all on one line, in C order. A single line of D or D + 1 numbers on a
torus with D dimensions gives the coordinates of one task, unless the job has more tasks.
""",
    example="1\n0\n3\n2\n",
)
NAMED_LINES = Dialect(
    name="named-lines",
    holds="mapping",
    title="several mappings: name, node, node, ...",
    recognise=_is_named_lines,
    read=_read_named_lines,
    documentation="""
Several mappings in one file, for `--mappings`: each line has a name, then the node of each task.
""",
    example="identity,0,1,2,3\nturned,1,0,3,2\n",
)
TREEMATCH = Dialect(
    name="treematch",
    holds="mapping",
    title="output of TreeMatch: label: core, core, ...",
    recognise=lambda source: len(source.lines) == 1 and source.all_match(_LABELLED),
    read=_read_treematch,
    documentation="""
A label and the core of each task. A node has `--tasks-per-node` cores; without this option each
core is a node.
""",
    example="TreeMatch: 1,0,3,2,5,4,7,6\n",
)


# Header of a map file for one dimension; without it, the columns may be task and node.
_NODE_SLOT = ["node", "slot"]
_VCOORD = re.compile(r"\(\s*(\d+(?:\s*,\s*\d+)*)\s*\)((?:\s+\w+\s*=\s*\S+)*)")
_VCOORD_START = re.compile(r"\(\s*\d+\s*(,\s*\d+\s*){0,2}\)")
# Maximum number of dimensions of a job.
MAX_VCOORD = 3
# Header line of MapLib. Lines of JSON or XML that contain the same name do not match.
_MAPLIB_HEADER = re.compile(r'(?!.*([\[\]{}<>;]|"\s*:)).*process_id', re.I)


def _read_bluegene(source: Source, options: MappingOptions) -> TaskMapping:
    """Read the coordinates of each task and optionally its slot; ambiguous columns are errors."""
    text, torus = source.text, options.torus
    number, line = text.first_line()
    cells = split_cells(line)[1]
    if cells == _NODE_SLOT and torus.ndim == 1:
        table = read_table(text, _name_coordinates(torus), skip=number)
        return _mapping_from_coordinates(table, options)
    if len(cells) not in (torus.ndim, torus.ndim + 1) or len(cells) == 1:
        found = f"{counted(len(cells), 'column')}: {line[:50]}"
        forms = f"{torus.ndim + 1} (coordinates, slot), {torus.ndim} (coordinates) or 1 (node)"
        expected = f"{forms}, or a header such as task,node"
        raise text.fault("wrong number of columns without a header", number, found, expected)
    table = read_table(text, _name_coordinates(torus)[: len(cells)])
    if _may_start_with_tasks(table, len(cells), options):
        if torus.ndim == 1:
            found = f"{table.n_rows} lines of two numbers"
            raise text.fault("ambiguous columns", None, found, "a header, task,node or node,slot")
        found = f"{counted(len(cells), 'column')}, the first counts 0, 1, 2, ..."
        raise text.fault("ambiguous columns", number, found, "a header such as task,node or x,y")
    return _mapping_from_coordinates(table, options)


def _name_coordinates(torus: Torus) -> list[str]:
    return [*(f"coordinate {d}" for d in range(torus.ndim)), "slot"]


def _mapping_from_coordinates(table: TextTable, options: MappingOptions) -> TaskMapping:
    torus, axes = options.torus, list(table.columns)[: options.torus.ndim]
    for axis, size in zip(axes, torus.shape, strict=True):
        check_range(table, axis, size)
    coords = np.stack([table[axis] for axis in axes], axis=1)
    return mapping_from_table(table.assign(node=torus.node(coords)), options)


def _may_start_with_tasks(table: TextTable, width: int, options: MappingOptions) -> bool:
    """Whether there are two or three columns and the first may be tasks: it is a permutation."""
    ndim = options.torus.ndim
    if width > 3 or (width == ndim + 1 and ndim != 1):
        return False
    first, second, *_ = table.columns.values()
    is_permutation = np.array_equal(np.sort(first), np.arange(table.n_rows))
    are_nodes = second.max() < options.torus.n_nodes and (ndim > 1 or second.any())
    return bool(is_permutation and are_nodes)


def format_bluegene(mapping: TaskMapping, torus: Torus) -> str:
    """Return the text of a map file: a line with the coordinates and slot of each task."""
    head = [" ".join(_NODE_SLOT)] if torus.ndim == 1 else []
    rows = np.column_stack([torus.coords[mapping.node], mapping.slot]).tolist()
    return "\n".join([*head, *(" ".join(map(str, row)) for row in rows), ""])


def _read_vcoord(source: Source, options: MappingOptions) -> TaskMapping:
    """Read the coordinates of each rank, in parentheses; warn about other settings on a line."""
    text = source.text
    rows = list(text.matches(_VCOORD, "coordinates", "(x,y,z)"))
    if unused := {name for _, match in rows for name in re.findall(r"\w+(?=\s*=)", match[2])}:
        warn_about(text.file, f"unused words: {joined(sorted(unused))}")
    lines = [number for number, _ in rows]
    coords = [(number, re.split(r"\s*,\s*", match[1])) for number, match in rows]
    nodes = [parse_node(text, number, words, options.torus) for number, words in coords]
    return mapping_from_table(make_table(text, lines, node=nodes), options)


def _check_vcoord(options: WriteOptions, *_: int) -> None:
    if (torus := options.torus).ndim > MAX_VCOORD:
        message, expected = "too many dimensions for a vcoordfile", "at most three dimensions"
        raise InputError(message, found=str(torus), expected=expected)


def _write_vcoord(mapping: TaskMapping, path: Path, options: WriteOptions) -> None:
    _check_vcoord(options)
    coords = options.torus.coords[mapping.node].tolist()
    write_text(path, "".join(f"({','.join(map(str, row))})\n" for row in coords))


def _read_maplib(source: Source, options: MappingOptions) -> TaskMapping:
    """Read lines with the coordinates of a node, the number of its tasks, and the tasks."""
    text, width = source.text, options.torus.ndim
    lines = list(text.lines("#"))
    header = next((i for i, (_, line) in enumerate(lines[:2]) if _MAPLIB_HEADER.match(line)), None)
    if header is None:
        raise text.fault("header missing", None, None, "a line with process_id(s)")
    name = lines[0][1] if header else name_from_path(text.file)
    rows: list[tuple[int, int, int]] = []
    for number, line in lines[header + 1 :]:
        words = line.replace(",", " ").split()
        if len(words) < width + 1:
            raise text.fault("line too short", number, line, f"{width} coordinates, a count, tasks")
        node = parse_node(text, number, words[:width], options.torus)
        count = parse_whole(text, number, "number of tasks", words[width])
        tasks = words[width + 1 :]
        if len(tasks) != count:
            raise text.fault("wrong number of tasks", number, len(tasks), count)
        rows += [(number, parse_whole(text, number, "task", task), node) for task in tasks]
    line_numbers, task, node_of_task = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    capacity = int(np.bincount(node_of_task).max(initial=1))
    table = make_table(text, line_numbers, node=node_of_task, task=task)
    return mapping_from_table(table, options, name, capacity)


BLUEGENE = Dialect(
    name="bluegene",
    holds="mapping",
    title="coordinates and slot of each task (map file of Blue Gene/Q, /P and /L)",
    read=_read_bluegene,
    suffixes=(".map", ".txt"),
    write=lambda mapping, path, options: write_text(path, format_bluegene(mapping, options.torus)),
    documentation="""
One line per task, in task order. On a torus with D dimensions, it has either D + 1 numbers (the
coordinates and the slot) or D numbers (only the coordinates). If the file has more lines than the
job has tasks, a warning says that the first are used. Two or three columns that may be task, node
and slot need a header (`task,node` or `node,slot`).
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
    read=_read_vcoord,
    write=_write_vcoord,
    check_job=_check_vcoord,
    suffixes=(".vcoord",),
    documentation="""
On each line the coordinates of a rank in the job's shape, in parentheses. A warning names unused
words after them, such as `core=2`. Ranks of a node take its slots in rank order. If the file has
more lines than the job has ranks, a warning says that the first are used.
""",
    example="(1,1)\n(0,1)\n(0,0)\n(1,0)\n",
    advice="mpiexec --vcoordfile {file}",
)
MAPLIB = Dialect(
    name="maplib",
    holds="mapping",
    title="output of MapLib: coordinates, task count, tasks",
    recognise=lambda source: any(_MAPLIB_HEADER.match(line) for _, line in source.lines[:2]),
    read=_read_maplib,
    documentation="""
A title, a header that ends in `process_ids`, then one line per node: its D coordinates, the number
of its tasks, and these tasks. The title is the name of the mapping.
""",
    example="scan\nx_coord y_coord number process_id(s)\n0 1 2 0 1\n1 1 1 2\n",
)


def _read_sst_coordinates(source: Source, options: MappingOptions) -> TaskMapping:
    """Read the coordinates of each task below a line with the numbers of nodes and dimensions."""
    text, torus = source.text, options.torus
    number, line = text.first_line()
    cells = split_cells(line)[1]
    if len(cells) != 2:
        expected = "the number of nodes and the number of dimensions"
        raise text.fault("count of coordinates missing", number, line[:60], expected)
    width = parse_whole(text, number, "number of dimensions", cells[1])
    if width not in (torus.ndim, torus.ndim + 1):
        nodes = counted(parse_whole(text, number, "number of nodes", cells[0]), "node")
        found = f"{line}, {nodes} in {counted(width, 'dimension')}"
        expected = f"{torus.ndim} dimensions, on {torus}"
        raise text.fault("wrong number of dimensions", number, found, expected)
    table = _read_counted(source, _name_coordinates(torus)[:width], "nodes")
    return _mapping_from_coordinates(table, options)


SST_COORDINATES = Dialect(
    name="sst-coordinates",
    holds="mapping",
    title="SST-macro coordinates after a line with their count and dimensions",
    read=_read_sst_coordinates,
    documentation="""
The numbers of nodes and dimensions (`4 2`), then one line of coordinates per task. An additional
number on a line tells apart the nodes of a switch and is read as the slot. If the first line could
also be coordinates, the number of tasks or `--format` decides.
""",
)
SST_NODES = Dialect(
    name="sst-macro",
    holds="mapping",
    title="SST-macro node list after a line with its count",
    read=partial(_read_numbered, names=("node",)),
    write=partial(_write_numbered, names=("node",)),
    documentation="""
The number of tasks, then one node per line. In SST-macro's node numbers the first coordinate varies
fastest; toruscast converts them.
""",
    example="4\n0\n2\n2\n0\n",
    advice="app1.indexing = node_id, app1.node_id_file = {file} (SST-macro)",
)
SCOTCH = Dialect(
    name="scotch-map",
    holds="mapping",
    title="mapping of Scotch (gmap): a count, then task and node",
    read=partial(_read_numbered, names=("task", "node")),
    write=partial(_write_numbered, names=("task", "node")),
    documentation="""
The output of `gmap`: the number of vertices, then one line per vertex with its number and its node.
In the node numbers of Scotch's tori (`torusXD`) the first coordinate varies fastest; toruscast
converts them. For pairs in C order add the header `task,node`.
""",
    example="4\n0 3\n1 1\n2 0\n3 2\n",
    advice="gmtst GRAPH TARGET {file} (Scotch's own statistics of the mapping)",
)
DIALECTS = (
    *(BLUEGENE, SST_COORDINATES, VCOORD, MAPLIB, NODES),
    *(NAMED_LINES, SST_NODES, SCOTCH, TREEMATCH),
)
