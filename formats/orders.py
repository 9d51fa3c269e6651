"""Rank orders of Cray MPICH and Flux, and mapping tables with named columns."""

from __future__ import annotations

import json
import re
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from toruscast.errors import InputError
from toruscast.mapping.task_mapping import TaskMapping
from toruscast.mapping.torus import Torus
from toruscast.text import counted
from toruscast.typing import Ints
from toruscast.validation import repeated

from .dialect import Dialect
from .placements import (
    GAP,
    MAX_RANKS,
    RANKS,
    MappingOptions,
    WriteOptions,
    check_range,
    mapping_from_hosts,
    mapping_from_table,
    read_ranks,
)
from .source import (
    Source,
    TextFile,
    parse_whole,
    select_columns,
    split_cells,
    warn_about,
    warn_about_unused,
    write_text,
)
from .tables import make_table, read_table, read_words, write_rows

_FILLS_IN_ORDER = "this launcher fills nodes in order and cannot apply the mapping"
# A comment that identifies the format.
SIGN = re.compile(r"\s*#.*(grid_order|MPICH_RANK|rank[ _-]?(re)?order)", re.I)
# Ranks per host, in comments that toruscast and CrayPat write.
_SHARE = re.compile(r"#.*(?:\b([0-9]{1,6}) ranks a node|Max PEs/Node:\s*([1-9][0-9]{0,5}))")
_RANKS_PER_LINE = 16


def _is_rank_order(source: Source) -> bool:
    """Whether the file lists ranks, with a range, an empty field or a comment of Cray's tools.

    If there are ranges, all lines except the last must end in a comma, because lines without a
    final comma may be lists of nodes.
    """
    lines = [line for _, line in source.lines]
    items = [item.strip() for line in lines for item in line.removesuffix(",").split(",")]
    if not any(items) or not all(map(RANKS.fullmatch, filter(None, items))):
        return False
    has_range = "-" in "".join(lines) and all(line.endswith(",") for line in lines[:-1])
    return has_range or "" in items or any(SIGN.match(line) for line in source.raw_lines)


def _read_rank_order(source: Source, options: MappingOptions) -> TaskMapping:
    """Read the rank at each position; positions fill the hosts in order, with equal shares."""
    text = source.text
    lists = ((number, None, line) for number, line in text.lines("#"))
    lines, _, ranks = read_ranks(text, lists, gaps=True)
    if not ranks:
        raise text.fault("file without data")
    ranks_per_host = options.tasks_per_host(len(ranks))
    comment = next((m for line in source.raw_lines if (m := _SHARE.match(line))), None)
    if comment and options.capacity is None:
        ranks_per_host = max(ranks_per_host, int(comment[1] or comment[2]))
    n_idle = ranks.count(GAP)
    if n_idle:
        found, number = counted(n_idle, "empty field"), lines[ranks.index(GAP)]
        if ranks_per_host == 1:
            expected = "--tasks-per-node N, the cores of a node"
            raise text.fault("empty field without idle cores", number, found, expected)
        warn_about(text.file, f"{found}, the first on line {number}, read as idle cores")
    if len(ranks) > ranks_per_host * options.n_hosts:
        expected = f"at most {ranks_per_host * options.n_hosts}, {ranks_per_host} per node"
        raise text.fault("too many positions", None, len(ranks), expected)
    positions = np.flatnonzero(np.array(ranks) != GAP)
    node, slot = options.place_on_hosts(*np.divmod(positions, ranks_per_host), ranks_per_host)
    task, line = np.array(ranks)[positions], np.array(lines)[positions]
    return mapping_from_table(make_table(text, line, node=node, slot=slot, task=task), options)


def _check_filled_nodes(options: WriteOptions, n_tasks: int, tasks_per_node: int) -> None:
    """Raise `InputError` if tasks do not need all nodes: the launcher fills nodes in order."""
    hosts, usable = options.hosts, options.torus.usable_nodes
    n_hosts = usable.size if hosts is None else len(hosts.names) // hosts.most
    if -(-n_tasks // tasks_per_node) < n_hosts:
        filled = counted(-(-n_tasks // tasks_per_node), "node")
        expected = f"{filled} at {tasks_per_node} per node; use --allocation FILE or --hosts FILE"
        found = f"{counted(n_tasks, 'task')} on {counted(n_hosts, 'node')}"
        raise InputError(_FILLS_IN_ORDER, found=found, expected=expected)


def _order_ranks(mapping: TaskMapping, options: WriteOptions) -> tuple[Ints, int]:
    """Return the rank at each position of the launcher's order, and the ranks per host."""
    host = options.host_positions(mapping)
    rank = np.lexsort((mapping.slot, host))
    ranks_per_host = int(np.bincount(host).max())
    filled_host = np.arange(rank.size) // ranks_per_host
    mismatches = np.flatnonzero(filled_host != host[rank])
    if mismatches.size:
        first = int(filled_host[mismatches[0]])
        name = f"node {first}" if options.hosts is None else f"host {options.hosts.names[first]}"
        found = f"{name} with {counted(int((host == first).sum()), 'task')}"
        expected = f"{ranks_per_host} on each node but the last; "
        expected += "--hosts FILE lists your nodes in the launcher's order"
        raise InputError(_FILLS_IN_ORDER, found=found, expected=expected)
    return rank, ranks_per_host


def _write_rank_order(mapping: TaskMapping, path: Path, options: WriteOptions) -> None:
    rank, ranks_per_host = _order_ranks(mapping, options)
    rows = np.split(rank, range(_RANKS_PER_LINE, rank.size, _RANKS_PER_LINE))
    lines = [",".join(map(str, row.tolist())) for row in rows]
    head = f"# MPICH_RANK_REORDER_METHOD=3, {ranks_per_host} ranks a node\n"
    write_text(path, head + ",\n".join(lines) + "\n")


RANK_ORDER = Dialect(
    name="rank-order",
    holds="mapping",
    title="MPICH_RANK_ORDER of Cray MPICH: the rank at each position",
    recognise=_is_rank_order,
    read=_read_rank_order,
    write=_write_rank_order,
    check_job=_check_filled_nodes,
    suffixes=("mpich_rank_order",),
    documentation="""
The rank at each position, separated by commas, with ranges such as `4-7`: the inverse of a mapping.
Each node has `--tasks-per-node` positions; nodes are in the order of `--hosts`, or else in C order.
The file name, a comment of Cray's tools (`# grid_order ...`) or a range identifies the format;
otherwise numbers on one line are read as the node of each task. Empty fields (`0,2,,3`) are idle
cores; a warning counts them.
""",
    example="# grid_order -R -c 2,1 -g 2,4\n0,4,1,5,2,6,3,7\n",
    advice="MPICH_RANK_REORDER_METHOD=3, with MPICH_RANK_ORDER in the working directory",
)


BLOCKS = re.compile(rb"\s*\[\s*\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\](\s*[,\]])")
OBJECT = re.compile(rb"\s*\{[^\[\]]*\"map\"\s*:\s*\[", re.S)
ROW = re.compile(r"\[\s*(\d{1,9})\s*,\s*(\d{1,9})\s*,\s*(\d{1,9})\s*,\s*(\d{1,9})\s*\]")
# Lists of the tasks of each node, such as "0-3;4-7", with at least one range or semicolon.
RAW = re.compile(r"(?=.*(\d-\d|;))(\d{1,9}([-,]\d{1,9})*)?(;(\d{1,9}([-,]\d{1,9})*)?)*")
VECTOR = re.compile(rb"\s*\(\s*vector\s*,")
BLOCK = re.compile(r"\(\s*(\d{1,9})\s*,\s*(\d{1,9})\s*,\s*(\d{1,9})\s*\)")


def _is_taskmap(source: Source) -> bool:
    is_raw = len(source.lines) == 1 and bool(RAW.fullmatch(source.lines[0][1]))
    has_start = OBJECT.match(source.start) or VECTOR.match(source.start)
    return is_raw or bool(has_start) or _are_blocks(source.start[:4096])


def _are_blocks(start: bytes) -> bool:
    """Whether lists of four numbers are blocks of tasks: one list, or some numbers repeat."""
    if not BLOCKS.match(start):
        return False
    blocks = ROW.findall(start.decode("latin-1"))
    values = [value for block in blocks for value in block]
    return len(blocks) == 1 or len(set(values)) < len(values)


def _read_taskmap(source: Source, options: MappingOptions) -> TaskMapping:
    """Read the tasks of each node, or blocks of consecutive tasks."""
    text = source.text
    number, line = text.first_line()
    if RAW.fullmatch(line):
        lists = ((number, node, words) for node, words in enumerate(line.split(";")) if words)
        lines, nodes, tasks = read_ranks(text, lists)
        return mapping_from_hosts(text, options, lines, nodes, task=tasks, file_capacity=len(tasks))
    nodes_of_blocks: list[Ints] = []
    n_tasks = 0
    for block in _list_blocks(source):
        if len(block) != 4 or not all(type(value) is int and value >= 0 for value in block):
            expected = "[first node, nodes, tasks per node, repeats]"
            raise text.fault("bad block of a taskmap", number, block, expected)
        first, n_nodes, tasks_per_node, repeats = block
        if first + n_nodes > options.n_hosts:
            expected = f"0 to {options.n_hosts - 1}"
            raise text.fault("node of a taskmap out of range", number, block, expected)
        n_tasks += n_nodes * tasks_per_node * repeats
        if n_tasks > MAX_RANKS:
            raise text.fault("too many tasks", number, block, f"at most {MAX_RANKS}")
        if n_nodes * tasks_per_node * repeats:
            node = np.repeat(first + np.arange(n_nodes), tasks_per_node)
            nodes_of_blocks.append(np.tile(node, repeats))
    if not nodes_of_blocks:
        raise text.fault("taskmap without a task", number, line)
    lines_of_tasks, position = np.full(n_tasks, number), np.concatenate(nodes_of_blocks)
    return mapping_from_hosts(text, options, lines_of_tasks, position, file_capacity=n_tasks)


def _list_blocks(source: Source) -> list[Any]:
    """Return the lists of numbers in a taskmap in JSON, or in a PMI_process_mapping."""
    text = source.text
    number, line = text.first_line()
    if VECTOR.match(source.start):
        rows = [[*map(int, block), 1] for block in BLOCK.findall(line)]
        rebuilt = "(vector," + ",".join(f"({a},{b},{c})" for a, b, c, _ in rows) + ")"
        if re.sub(r"\s", "", line) != rebuilt:
            raise text.fault("bad PMI_process_mapping", number, line, "(vector,(0,4,2))")
        return rows
    content = text.json()
    blocks: Any = content.get("map") if isinstance(content, dict) else content
    if not isinstance(blocks, list) or not all(isinstance(block, list) for block in blocks):
        raise text.fault("bad taskmap", number, line[:50], "a list of blocks of four numbers")
    return blocks


def _build_blocks(nodes: Ints) -> list[list[int]]:
    """Return blocks of consecutive tasks; merge neighbours with equal numbers of tasks."""
    blocks: list[list[int]] = []
    for node, group in groupby(nodes.tolist()):
        tasks = sum(1 for _ in group)
        if blocks and blocks[-1][2] == tasks and sum(blocks[-1][:2]) == node:
            blocks[-1][1] += 1
        else:
            blocks.append([node, 1, tasks, 1])
    return [[*block[:3], sum(1 for _ in group)] for block, group in groupby(blocks)]


def _write_taskmap(mapping: TaskMapping, path: Path, options: WriteOptions) -> None:
    blocks = _build_blocks(options.host_positions(mapping))
    write_text(path, json.dumps(blocks, separators=(",", ":")) + "\n")


FLUX = Dialect(
    name="flux",
    holds="mapping",
    title="taskmap of Flux, or PMI_process_mapping",
    recognise=_is_taskmap,
    read=_read_taskmap,
    write=_write_taskmap,
    suffixes=(".taskmap",),
    documentation="""
Blocks `[first node, nodes, tasks per node, repeats]` of tasks in rank order, alone or as `map` in
the object that `flux job taskmap` prints. Two other forms are read: the tasks of each node
(`0-3;4-7`, `--to=raw`) and `(vector,(first node, nodes, tasks per node))`. A line such as `0;3;1;2`
could also be the node of each task; if the mappings differ, `--format` must decide. Nodes are those
of the allocation, in the order of `--hosts` or else in C order. Slots are not kept.
""",
    example="[[0,2,1,1],[3,1,1,1],[2,1,1,1]]\n",
    advice='flux run --taskmap=manual:"$(cat {file})"',
)


NAMES = {
    "task": ("task", "rank", "process", "mpi_rank", "pid", "task_id", "world_rank"),
    "node": ("node", "node_id", "nodeid", "nid"),
    "slot": ("slot", "core", "local_rank", "localrank", "core_on_chip", "pe", "t"),
    "host": ("host", "hostname", "nodename", "node_name", "nodelist", "host_name"),
}
_STANDARD_NAMES = {word: name for name, words in NAMES.items() for word in words}
# A coordinate column with the letter of its axis.
_AXIS = re.compile(r"(?:coord)?_?([a-hxyz])_?(?:coord)?")


def standard_columns(names: list[str]) -> list[str | None]:
    """Return the meaning of each column: task, node, slot, host, an axis letter, or None."""
    axes = {name: match[1] for name in names if (match := _AXIS.fullmatch(name))}
    return [_STANDARD_NAMES.get(name) or axes.get(name) for name in names]


def find_axes(columns: list[str | None], torus: Torus | None) -> list[str]:
    """Return the axes of the torus if all of them are columns, otherwise an empty list."""
    letters = sorted(c for c in columns if c is not None and len(c) == 1)
    wanted = letters if torus is None else [*torus.axes.lower()]
    return wanted if {*wanted} <= {*letters} else []


def _is_mapping_table(source: Source) -> bool:
    """Whether the first line names columns of tasks and their locations, each once."""
    if not source.lines:
        return False
    columns = standard_columns([name.lower() for name in split_cells(source.lines[0][1])[1]])
    recognised = {column for column in columns if column}
    if len(recognised) != sum(column is not None for column in columns):
        return False
    if "task" in recognised:
        return bool(recognised - {"task", "slot"})
    axes = find_axes(columns, source.torus)
    has_axes = bool(axes) and {*axes} <= {*columns} <= {*axes, "slot"}
    return has_axes or recognised == {"node", "slot"}


def _read_mapping_table(source: Source, options: MappingOptions) -> TaskMapping:
    """Read the location of each task from the columns of coordinates, the node or the host."""
    text = source.text
    number, line = text.first_line()
    _, names = split_cells(line.lower())
    columns = standard_columns(names)
    if options.columns:
        columns = _select_columns(text, number, names, options)
    axes = find_axes(columns, options.torus)
    # Coordinates take precedence over node numbers, which may be the machine's own.
    needed = {*axes} or ({"node"} if "node" in columns else {"host"})
    if not needed <= set(columns):
        expected = f"a column node, or host, or {', '.join(options.torus.axes.lower())}"
        raise text.fault("mapping table without locations", number, line, expected)
    used = [c if c in needed | {"task", "slot"} else None for c in columns]
    unused = (name for name, column in zip(names, used, strict=True) if column is None)
    warn_about_unused(text.file, unused, "unused columns")
    if duplicates := repeated(name for name in used if name):
        raise text.fault("duplicate column", number, duplicates[0], "each column once")
    if needed == {"host"}:
        return _read_host_columns(text, columns, options)
    table = read_table(source.streamed_text, used, number)
    for axis, size in zip(axes, options.torus.shape, strict=False):
        check_range(table, axis, size)
    if axes:
        coords = np.stack([table[axis] for axis in axes], axis=1)
        table = table.assign(node=options.torus.node(coords))
    return mapping_from_table(table, options)


def _select_columns(
    text: TextFile, number: int, names: list[str], options: MappingOptions
) -> list[str | None]:
    """Return the standard name of each column that the options select; None for others."""
    valid = [*NAMES, *options.torus.axes.lower()]
    if unknown := sorted({*options.columns} - {*valid}):
        raise InputError("unknown name of a column", found=unknown[0], expected=", ".join(valid))
    chosen = {name: column.strip().lower() for name, column in options.columns.items()}
    return select_columns(text, number, names, chosen, ())


def _read_host_columns(
    text: TextFile, columns: list[str | None], options: MappingOptions
) -> TaskMapping:
    """Read a table whose column ``host`` gives the location of each task."""
    _, rows = read_words(text, text.lines(), lambda _: True)
    lines = [number for number, _ in rows]
    names = [row[columns.index("host")] for _, row in rows]
    values: dict[str, Any] = {
        column: [parse_whole(text, number, column, row[index]) for number, row in rows]
        for index, column in enumerate(columns)
        if column in ("task", "slot")
    }
    return mapping_from_hosts(text, options, lines, names, **values)


def _write_mapping_table(mapping: TaskMapping, path: Path, options: WriteOptions) -> None:
    columns: list[Any] = [np.arange(mapping.n_tasks), mapping.node, mapping.slot]
    columns += [] if options.hosts is None else [np.array(options.hosts.of_tasks(mapping))]
    names = ["task", "node", "slot", "host"][: len(columns)]
    write_rows(path, ",".join(names) + "\n", columns, ",")


TABLE = Dialect(
    name="table",
    holds="mapping",
    title="table with columns task and node, or x,y,z, or host; optionally slot",
    recognise=_is_mapping_table,
    read=_read_mapping_table,
    suffixes=(".csv",),
    write=_write_mapping_table,
    documentation="""
Named columns in any order: `task` (or `rank`), its location, and optionally `slot`. The location is
coordinates (`x,y,z`, on Blue Gene/Q `a,b,c,d,e,t`), `node` (in C order), or `host`, whose node
`--hosts FILE` gives. A warning names unused columns. `--mapping-columns task=proc,node=where`
selects columns with other names. Coordinates without a column `task` are in task order.
""",
    example="task,node\n0,1\n1,0\n2,3\n3,2\n",
)
DIALECTS = (TABLE, RANK_ORDER, FLUX)
