"""Which rank stands where: MPICH_RANK_ORDER of Cray MPICH, and taskmaps of Flux.

Patterns: what `grid_order` and `pat_report` of Cray's perftools 7 write; flux-core 0.60.
"""

from __future__ import annotations

import json
import re
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toruscast.errors import InputError
from toruscast.text import counted

from ...task_mapping import TaskMapping
from ..dialect import Dialect
from ..source import Source, Text, spans, write_text
from .build import MappingOptions, Target, mapping_of, mapping_on_hosts, rows_of

SIGN = re.compile(r"\s*#.*(grid_order|MPICH_RANK|rank[ _-]?(re)?order)", re.I)
# What the writer says of the ranks that a host takes.
SHARE = re.compile(r"#.*\b([0-9]{1,6}) ranks a node")
ITEM = re.compile(r"(\d{1,9})(-(\d{1,9}))?")
_MOST_RANKS = 2**20
A_LINE = 16


def is_rank_order(source: Source) -> bool:
    """Whether ranks stand below a comment of Cray's tools, or with a range among them on one line.

    Lines that follow each other end in commas: ranges on lines of their own may be those of nodes.
    """
    lines = [line for _, line in source.lines]
    if not lines or not all(map(_items, lines)):
        return False
    ranged = "-" in "".join(lines) and all(line.endswith(",") for line in lines[:-1])
    return ranged or any(SIGN.match(line) for line in source.raw_lines)


def _items(line: str) -> list[str] | None:
    items = [item.strip() for item in line.strip().rstrip(",").split(",")]
    return items if all(ITEM.fullmatch(item) for item in items) else None


def read_rank_order(source: Source, options: MappingOptions) -> TaskMapping:
    """Return the mapping: the rank at each position, positions filling host after host."""
    text = source.text
    at, ranks = _ranks(text)
    table, (rank,) = rows_of(text, at, ranks)
    share = options.tasks_of_host(rank.size)
    said = next((m for line in source.raw_lines if (m := SHARE.match(line))), None)
    if said and options.capacity is None:
        share = max(share, int(said[1]))
    if rank.size > share * options.n_hosts:
        expected = f"at most {share * options.n_hosts}, {share} on each"
        raise text.fault("more positions than places", None, rank.size, expected)
    position = np.arange(rank.size)
    node, slot = options.on_host(position // share, position % share, share)
    return mapping_of(table, node, options, slot=slot, task=rank)


def _ranks(text: Text) -> tuple[list[int], list[int]]:
    """The line and the rank at each position."""
    at: list[int] = []
    ranks: list[int] = []
    for number, line in text.lines("#"):
        for first, last in spans(text, number, line, _MOST_RANKS - len(ranks)):
            ranks += range(first, last + 1)
        at += [number] * (len(ranks) - len(at))
    if not ranks:
        raise text.fault("file without data")
    return at, ranks


def rank_at_position(mapping: TaskMapping, target: Target) -> tuple[NDArray[np.int64], int]:
    """Return the rank at each position, and how many of them a host has.

    Raises
    ------
    InputError
        If a host has fewer tasks than the launcher gives it before it goes on.
    """
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
    suffixes=("mpich_rank_order",),
    documentation="""
The rank at each position, with commas between and ranges such as `4-7`: the inverse of a mapping.
Positions fill node after node, `--tasks-per-node` each, in the order of `--hosts` or else in C
order. The file's name, a comment of Cray's tools (`# grid_order ...`) or a range is the sign: the
same numbers on one line without any are the node of each task.
""",
    example="# grid_order -R -c 2,1 -g 2,4\n0,4,1,5,2,6,3,7\n",
    advice="MPICH_RANK_REORDER_METHOD=3, the file being MPICH_RANK_ORDER in the working folder",
)


BLOCKS = re.compile(rb"\s*\[\s*\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\](\s*[,\]])")
OBJECT = re.compile(rb"\s*\{[^\[\]]*\"map\"\s*:\s*\[", re.S)
ROW = re.compile(r"\[\s*(\d{1,9})\s*,\s*(\d{1,9})\s*,\s*(\d{1,9})\s*,\s*(\d{1,9})\s*\]")
# The tasks of each node; a range tells it from numbers with decimal commas.
RAW = re.compile(r"(?=.*\d-\d)\d{1,9}([-,]\d{1,9})*(;(\d{1,9}([-,]\d{1,9})*)?)*")
VECTOR = re.compile(rb"\s*\(\s*vector\s*,")
BLOCK = re.compile(r"\(\s*(\d{1,9})\s*,\s*(\d{1,9})\s*,\s*(\d{1,9})\s*\)")
_MOST_TASKS = 2**20


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
        return _read_raw(source, options)
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
        if count > _MOST_TASKS:
            raise text.fault("too many tasks", number, block, f"at most {_MOST_TASKS}")
        if nodes * tasks * repeats:
            pieces.append(np.tile(np.repeat(first + np.arange(nodes), tasks), repeats))
    if not pieces:
        raise text.fault("taskmap without a task", number, line)
    return mapping_on_hosts(text, options, np.full(count, number), np.concatenate(pieces))


def _read_raw(source: Source, options: MappingOptions) -> TaskMapping:
    """Return the mapping of the tasks of each node, with semicolons between."""
    text = source.text
    number, line = text.first_line()
    tasks: list[int] = []
    places: list[int] = []
    for place, words in enumerate(line.split(";")):
        for first, last in spans(text, number, words, _MOST_TASKS - len(tasks)) if words else ():
            tasks += range(first, last + 1)
        places += [place] * (len(tasks) - len(places))
    return mapping_on_hosts(text, options, [number] * len(tasks), places, task=tasks)


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
    """Return the blocks of tasks on places; equal neighbours become one.

    Examples
    --------
    >>> blocks_of(np.array([0, 0, 1, 1, 0, 1, 0, 1])), blocks_of(np.array([2, 0]))
    ([[0, 2, 2, 1], [0, 2, 1, 2]], [[2, 1, 1, 1], [0, 1, 1, 1]])
    """
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
object that `flux job taskmap` prints; the tasks of each node (`0-3;4-7`) and
`(vector,(first node, nodes, tasks a node))` as well. Nodes are those of the allocation, in the
order of `--hosts` or else in C order. It keeps no slots.
""",
    example="[[0,2,1,1],[3,1,1,1],[2,1,1,1]]\n",
    advice='flux run --taskmap=manual:"$(cat {file})"',
)
