"""Rank orders of Cray MPICH and Flux, and mappings as tables with named columns."""

from __future__ import annotations

import json
import re
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toruscast.errors import InputError
from toruscast.mapping.task_mapping import TaskMapping
from toruscast.mapping.torus import Torus
from toruscast.text import counted
from toruscast.validation import repeated

from .dialect import Dialect
from .placements import (
    GAP,
    MAX_RANKS,
    RANKS,
    MappingOptions,
    Target,
    check_range,
    mapping_of,
    mapping_on_hosts,
    read_ranks,
)
from .source import Source, Text, cells, renamed, warn_of, warn_of_unused, whole, write_text
from .tables import read_table, read_words, table_of, write_rows

SIGN = re.compile(r"\s*#.*(grid_order|MPICH_RANK|rank[ _-]?(re)?order)", re.I)
# The ranks of a host in the writer's comment, and in that of CrayPat.
SHARE = re.compile(r"#.*(?:\b([0-9]{1,6}) ranks a node|Max PEs/Node:\s*([1-9][0-9]{0,5}))")
A_LINE = 16


def is_rank_order(source: Source) -> bool:
    """Whether ranks stand below a comment of Cray's tools, with a range among them or a gap.

    Lines that follow each other end in commas: ranges on lines of their own may be those of nodes.
    """
    lines = [line for _, line in source.lines]
    items = [item.strip() for line in lines for item in line.removesuffix(",").split(",")]
    if not any(items) or not all(map(RANKS.fullmatch, filter(None, items))):
        return False
    ranged = "-" in "".join(lines) and all(line.endswith(",") for line in lines[:-1])
    return ranged or "" in items or any(SIGN.match(line) for line in source.raw_lines)


def read_rank_order(source: Source, options: MappingOptions) -> TaskMapping:
    """Return the mapping: the rank at each position, positions filling host after host."""
    text = source.text
    lines = ((number, None, line) for number, line in text.lines("#"))
    at, _, ranks = read_ranks(text, lines, gaps=True)
    if not ranks:
        raise text.fault("file without data")
    share = options.tasks_of_host(len(ranks))
    stated = next((m for line in source.raw_lines if (m := SHARE.match(line))), None)
    if stated and options.capacity is None:
        share = max(share, int(stated[1] or stated[2]))
    idle = ranks.count(GAP)
    if idle and share == 1:
        found, expected = counted(idle, "empty field"), "--tasks-per-node N, the cores of a node"
        raise text.fault("idle cores of nodes with one core", at[ranks.index(GAP)], found, expected)
    if idle:
        where = f"line {at[ranks.index(GAP)]}"
        warn_of(text.file, f"{counted(idle, 'empty field')}, the first on {where}: cores stay idle")
    if len(ranks) > share * options.n_hosts:
        expected = f"at most {share * options.n_hosts}, {share} on each"
        raise text.fault("more positions than places", None, len(ranks), expected)
    place = np.flatnonzero(np.array(ranks) != GAP)
    node, slot = options.on_host(*np.divmod(place, share), share)
    table = table_of(text, np.array(at)[place], node=node, slot=slot, task=np.array(ranks)[place])
    return mapping_of(table, options)


def check_filled(target: Target, n_tasks: int, share: int) -> None:
    """Raise unless a job has tasks for all of its nodes: the launcher fills them in order."""
    hosts, ours = target.hosts, target.torus.usable_nodes
    n_hosts = ours.size if hosts is None else len(hosts.names) // hosts.most
    if -(-n_tasks // share) < n_hosts:
        full = counted(-(-n_tasks // share), "node")
        expected = f"the {full} that {share} a node fill: --allocation FILE or --hosts FILE"
        message = "mapping that this launcher cannot lay out: it fills node after node"
        found = f"{counted(n_tasks, 'task')} on {counted(n_hosts, 'node')}"
        raise InputError(message, found=found, expected=expected)


def rank_at_position(mapping: TaskMapping, target: Target) -> tuple[NDArray[np.int64], int]:
    """Return the rank at each position, and how many of them a host has."""
    host = target.positions(mapping)
    rank = np.lexsort((mapping.slot, host))
    share = int(np.bincount(host).max())
    full = np.arange(rank.size) // share
    wrong = np.flatnonzero(full != host[rank])
    if wrong.size:
        place = int(full[wrong[0]])
        what = f"node {place}" if target.hosts is None else f"host {target.hosts.names[place]}"
        raise InputError(
            "mapping that this launcher cannot lay out: it fills node after node",
            found=f"{what} with {counted(int((host == place).sum()), 'task')}",
            expected=f"{share} on each but the last; --hosts FILE lists the nodes that are yours, "
            "in the launcher's order",
        )
    return rank, share


def write_rank_order(mapping: TaskMapping, path: Path, target: Target) -> None:
    """Write the rank at each position."""
    rank, share = rank_at_position(mapping, target)
    lines = [",".join(map(str, rank[i : i + A_LINE].tolist())) for i in range(0, rank.size, A_LINE)]
    head = f"# MPICH_RANK_REORDER_METHOD=3, {share} ranks a node\n"
    write_text(path, head + ",\n".join(lines) + "\n")


RANK_ORDER = Dialect(
    name="rank-order",
    holds="mapping",
    title="MPICH_RANK_ORDER of Cray MPICH: the rank at each position",
    recognise=is_rank_order,
    read=read_rank_order,
    write=write_rank_order,
    check_job=check_filled,
    suffixes=("mpich_rank_order",),
    documentation="""
The rank at each position, with commas between and ranges such as `4-7`: the inverse of a mapping.
Positions fill node after node, `--tasks-per-node` each, in the order of `--hosts` or else in C
order. The file's name, a comment of Cray's tools (`# grid_order ...`) or a range is the sign: the
same numbers on one line without any are the node of each task. Empty fields (`0,2,,3`) are cores
that stay idle; a warning counts them.
""",
    example="# grid_order -R -c 2,1 -g 2,4\n0,4,1,5,2,6,3,7\n",
    advice="MPICH_RANK_REORDER_METHOD=3, the file being MPICH_RANK_ORDER in the working folder",
)


BLOCKS = re.compile(rb"\s*\[\s*\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\](\s*[,\]])")
OBJECT = re.compile(rb"\s*\{[^\[\]]*\"map\"\s*:\s*\[", re.S)
ROW = re.compile(r"\[\s*(\d{1,9})\s*,\s*(\d{1,9})\s*,\s*(\d{1,9})\s*,\s*(\d{1,9})\s*\]")
# The tasks of each node: ranges, or semicolons, which divide no other format's line.
RAW = re.compile(r"(?=.*(\d-\d|;))(\d{1,9}([-,]\d{1,9})*)?(;(\d{1,9}([-,]\d{1,9})*)?)*")
VECTOR = re.compile(rb"\s*\(\s*vector\s*,")
BLOCK = re.compile(r"\(\s*(\d{1,9})\s*,\s*(\d{1,9})\s*,\s*(\d{1,9})\s*\)")


def is_taskmap(source: Source) -> bool:
    """Whether it starts as one, bare or in its object, or is a PMI_process_mapping."""
    raw = len(source.lines) == 1 and bool(RAW.fullmatch(source.lines[0][1]))
    signed = OBJECT.match(source.start) or VECTOR.match(source.start)
    return raw or bool(signed) or _are_blocks(source.start[:4096])


def _are_blocks(start: bytes) -> bool:
    """Whether lists of four numbers are blocks of tasks, which have counts such as 1 in common."""
    if not BLOCKS.match(start):
        return False
    blocks = ROW.findall(start.decode("latin-1"))
    values = [value for block in blocks for value in block]
    return len(blocks) == 1 or len(set(values)) < len(values)


def read_taskmap(source: Source, options: MappingOptions) -> TaskMapping:
    """Return the mapping of blocks ``[first node, nodes, tasks a node, repeats]``."""
    text = source.text
    number, line = text.first_line()
    if RAW.fullmatch(line):
        lists = ((number, place, words) for place, words in enumerate(line.split(";")) if words)
        at, places, tasks = read_ranks(text, lists)
        return mapping_on_hosts(text, options, at, places, task=tasks, stated=len(tasks))
    pieces: list[NDArray[np.int64]] = []
    count = 0
    for block in _taskmap_blocks(source):
        if len(block) != 4 or not all(type(value) is int and value >= 0 for value in block):
            expected = "[first node, nodes, tasks a node, repeats]"
            raise text.fault("bad block of a taskmap", number, block, expected)
        first, nodes, tasks, repeats = block
        if first + nodes > options.n_hosts:
            expected = f"0 to {options.n_hosts - 1}"
            raise text.fault("node of a taskmap out of range", number, block, expected)
        count += nodes * tasks * repeats
        if count > MAX_RANKS:
            raise text.fault("too many tasks", number, block, f"at most {MAX_RANKS}")
        if nodes * tasks * repeats:
            pieces.append(np.tile(np.repeat(first + np.arange(nodes), tasks), repeats))
    if not pieces:
        raise text.fault("taskmap without a task", number, line)
    place = np.concatenate(pieces)
    return mapping_on_hosts(text, options, np.full(count, number), place, stated=count)


def _taskmap_blocks(source: Source) -> list[Any]:
    """Return the blocks of a Flux taskmap, or of PMI's vector as such: four numbers each."""
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


def blocks_of(place: NDArray[np.int64]) -> list[list[int]]:
    """Return the blocks of tasks on places; equal neighbours become one."""
    blocks: list[list[int]] = []
    for node, same in groupby(place.tolist()):
        tasks = sum(1 for _ in same)
        if blocks and blocks[-1][2] == tasks and sum(blocks[-1][:2]) == node:
            blocks[-1][1] += 1
        else:
            blocks.append([node, 1, tasks, 1])
    return [[*block[:3], sum(1 for _ in same)] for block, same in groupby(blocks)]


def write_taskmap(mapping: TaskMapping, path: Path, target: Target) -> None:
    """Write the blocks, as ``--taskmap=manual:`` takes them."""
    blocks = blocks_of(target.positions(mapping))
    write_text(path, json.dumps(blocks, separators=(",", ":")) + "\n")


FLUX = Dialect(
    name="flux",
    holds="mapping",
    title="taskmap of Flux, or PMI_process_mapping",
    recognise=is_taskmap,
    read=read_taskmap,
    write=write_taskmap,
    suffixes=(".taskmap",),
    documentation="""
Blocks `[first node, nodes, tasks a node, repeats]` of tasks in rank order, bare or as `map` of the
object that `flux job taskmap` prints; the tasks of each node (`0-3;4-7`, `--to=raw`) and
`(vector,(first node, nodes, tasks a node))` as well. One task for each node (`0;3;1;2`) may be the
node of each task as well: `--format` says which, unless both are the same. Nodes are those of the
allocation, in the order of `--hosts` or else in C order. It keeps no slots.
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
_OURS = {word: name for name, words in NAMES.items() for word in words}
# A column of coordinates, and the letter of its dimension.
_AXIS = re.compile(r"(?:coord)?_?([a-hxyz])_?(?:coord)?")


def known_columns(names: list[str]) -> list[str | None]:
    """Return what each column means: task, node, slot, host, a letter, or None."""
    axes = [_AXIS.fullmatch(name) for name in names]
    return [_OURS.get(name) or (x and x[1]) for name, x in zip(names, axes, strict=True)]


def axes_in(columns: list[str | None], torus: Torus | None) -> list[str]:
    """Return the letters of the torus' dimensions, if all of them are columns; else none."""
    letters = sorted(c for c in columns if c is not None and len(c) == 1)
    wanted = letters if torus is None else [*torus.axes.lower()]
    return wanted if {*wanted} <= {*letters} else []


def is_named(source: Source) -> bool:
    """Whether the first line names the columns of a mapping."""
    if not source.lines:
        return False
    columns = known_columns([name.lower() for name in cells(source.lines[0][1])[1]])
    known = {column for column in columns if column}
    if len(known) != sum(column is not None for column in columns):
        return False
    if "task" in known:
        return bool(known - {"task", "slot"})
    axes = axes_in(columns, source.torus)
    return known == {"node", "slot"} or (bool(axes) and {*axes} <= {*columns} <= {*axes, "slot"})


def read(source: Source, options: MappingOptions) -> TaskMapping:
    """Return the mapping of columns task and node, or coordinates, or host, and maybe slot."""
    text = source.text
    number, line = text.first_line()
    _, names = cells(line.lower())
    columns = (
        _chosen_columns(text, number, names, options) if options.columns else known_columns(names)
    )
    axes = axes_in(columns, options.torus)
    # A column of node numbers beside coordinates may be the machine's own.
    wanted = {*axes} or ({"node"} if "node" in columns else {"host"})
    if not wanted <= set(columns):
        expected = f"a column node, or host, or {', '.join(options.torus.axes.lower())}"
        raise text.fault("table of a mapping without places", number, line, expected)
    kept = [c if c in wanted | {"task", "slot"} else None for c in columns]
    others = (name for name, column in zip(names, kept, strict=True) if column is None)
    warn_of_unused(text.file, others, "columns that are not used")
    if twice := repeated(name for name in kept if name):
        raise text.fault("column stands twice", number, twice[0], "each column once")
    if wanted == {"host"}:
        return _of_hosts(text, columns, options)
    table = read_table(source.stream, kept, number)
    for axis, size in zip(axes, options.torus.shape, strict=False):
        check_range(table, axis, size)
    if axes:
        places = np.stack([table[axis] for axis in axes], axis=1)
        table = table.assign(node=options.torus.node(places))
    return mapping_of(table, options)


def _chosen_columns(
    text: Text, number: int, names: list[str], options: MappingOptions
) -> list[str | None]:
    """What each column means by the names that the caller gives; the others are left out."""
    known = {*NAMES, *options.torus.axes.lower()}
    if unknown := sorted({*options.columns} - known):
        expected = ", ".join([*NAMES, *options.torus.axes.lower()])
        raise InputError("unknown name of a column", found=unknown[0], expected=expected)
    chosen = {name: theirs.strip().lower() for name, theirs in options.columns.items()}
    return renamed(text, number, names, chosen, ())


def _of_hosts(text: Text, columns: list[str | None], options: MappingOptions) -> TaskMapping:
    """Return the mapping of hosts by their names; one of the columns is text."""
    _, rows = read_words(text, text.lines(), lambda _: True)
    at = [number for number, _ in rows]
    names = [row[columns.index("host")] for _, row in rows]
    values: dict[str, Any] = {
        column: [whole(text, number, column, row[place]) for number, row in rows]
        for place, column in enumerate(columns)
        if column in ("task", "slot")
    }
    return mapping_on_hosts(text, options, at, names, **values)


def write(mapping: TaskMapping, path: Path, target: Target) -> None:
    """Write task, node and slot, and the host where there is a table of hosts."""
    columns: list[Any] = [np.arange(mapping.n_tasks), mapping.node, mapping.slot]
    columns += [] if target.hosts is None else [np.array(target.hosts.of_tasks(mapping))]
    names = ["task", "node", "slot", "host"][: len(columns)]
    write_rows(path, ",".join(names) + "\n", columns, ",")


TABLE = Dialect(
    name="table",
    holds="mapping",
    title="columns named task and node, or x,y,z, or host; maybe slot",
    recognise=is_named,
    read=read,
    suffixes=(".csv",),
    write=write,
    documentation="""
Columns with names, in any order: `task` (or `rank`), its place, and maybe `slot`. The place is
the coordinates (`x,y,z`, on Blue Gene/Q `a,b,c,d,e,t`), or `node` (its number in C order), or
`host`, whose nodes `--hosts FILE` gives. A warning names other columns. The names are needed to
tell tasks from nodes. `--mapping-columns task=proc,node=where` says which columns a
table with other names means. Coordinates without a column `task` are those of the tasks in order.
""",
    example="task,node\n0,1\n1,0\n2,3\n3,2\n",
)
DIALECTS = (TABLE, RANK_ORDER, FLUX)
