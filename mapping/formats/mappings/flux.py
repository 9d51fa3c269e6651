"""Taskmaps of Flux: blocks of tasks on nodes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...task_mapping import TaskMapping
from ..dialect import Dialect
from ..source import Source, spans
from .build import MappingOptions, Target, placed, write_lines

BLOCKS = re.compile(rb"\s*\[\s*\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\](\s*[,\]])")
OBJECT = re.compile(rb"\s*\{[^\[\]]*\"map\"\s*:\s*\[", re.S)
ROW = re.compile(r"\[\s*(\d{1,9})\s*,\s*(\d{1,9})\s*,\s*(\d{1,9})\s*,\s*(\d{1,9})\s*\]")
# The tasks of each node; a range tells it from numbers with decimal commas.
RAW = re.compile(r"(?=.*\d-\d)\d{1,9}([-,]\d{1,9})*(;(\d{1,9}([-,]\d{1,9})*)?)*")
VECTOR = re.compile(rb"\s*\(\s*vector\s*,")
BLOCK = re.compile(r"\(\s*(\d{1,9})\s*,\s*(\d{1,9})\s*,\s*(\d{1,9})\s*\)")
MOST = 2**20


def is_taskmap(source: Source) -> bool:
    """Whether it starts as one, bare or in its object, or is a PMI_process_mapping."""
    if BLOCKS.match(source.start):
        return not may_be_ids(source) or len(_first(source)) == 1
    raw = len(source.lines) == 1 and bool(RAW.fullmatch(source.lines[0][1]))
    return bool(raw or OBJECT.match(source.start) or VECTOR.match(source.start))


def _first(source: Source) -> list[list[int]]:
    """The first blocks, as far as they are such."""
    return [[*map(int, block)] for block in ROW.findall(source.start[:4096].decode("latin-1"))]


def may_be_ids(source: Source) -> bool:
    """Whether blocks of four numbers may be numbers of devices: all differ.

    In one block only those from 0 to 3 may be.
    """
    blocks = _first(source)
    flat = [value for block in blocks for value in block]
    if len(blocks) == 1:
        return sorted(flat) == [0, 1, 2, 3]
    return len(set(flat)) == len(flat)


def read(source: Source, options: MappingOptions) -> TaskMapping:
    """Return the mapping of blocks ``[first node, nodes, tasks a node, repeats]``."""
    text = source.text
    number, line = text.first_line()
    if RAW.fullmatch(line):
        return _read_raw(source, options)
    pieces: list[NDArray[np.int64]] = []
    count = 0
    for block in _blocks(source):
        if len(block) != 4 or not all(type(value) is int and value >= 0 for value in block):
            expected = "[first node, nodes, tasks a node, repeats]"
            raise text.fault("bad block of a taskmap", number, block, expected)
        first, nodes, tasks, repeats = block
        if first + nodes > options.n_hosts:
            expected = f"0 to {options.n_hosts - 1}"
            raise text.fault("node of a taskmap out of range", number, block, expected)
        count += nodes * tasks * repeats
        if count > MOST:
            raise text.fault("too many tasks", number, block, f"at most {MOST}")
        if nodes * tasks * repeats:
            pieces.append(np.tile(np.repeat(first + np.arange(nodes), tasks), repeats))
    if not pieces:
        raise text.fault("taskmap without a task", number, line)
    return placed(text, options, np.full(count, number), np.concatenate(pieces))


def _read_raw(source: Source, options: MappingOptions) -> TaskMapping:
    """Return the mapping of the tasks of each node, with semicolons between."""
    text = source.text
    number, line = text.first_line()
    tasks: list[int] = []
    places: list[int] = []
    for place, words in enumerate(line.split(";")):
        for first, last in spans(text, number, words, MOST - len(tasks)) if words else ():
            tasks += range(first, last + 1)
        places += [place] * (len(tasks) - len(places))
    return placed(text, options, [number] * len(tasks), places, task=tasks)


def _blocks(source: Source) -> list[Any]:
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
    ends = np.flatnonzero(np.diff(place)) + 1
    starts = np.concatenate([[0], ends])
    counts = np.diff(np.append(starts, place.size))
    blocks: list[list[int]] = []
    for node, tasks in zip(place[starts].tolist(), counts.tolist(), strict=True):
        last = blocks[-1] if blocks else None
        if last is not None and last[2] == tasks and last[0] + last[1] == node:
            last[1] += 1
        else:
            blocks.append([node, 1, tasks, 1])
    merged: list[list[int]] = []
    for block in blocks:
        if merged and merged[-1][:3] == block[:3]:
            merged[-1][3] += 1
        else:
            merged.append(block)
    return merged


def write(mapping: TaskMapping, path: Path, target: Target) -> None:
    """Write the blocks, as ``--taskmap=manual:`` takes them."""
    blocks = blocks_of(target.positions(mapping))
    write_lines(path, json.dumps(blocks, separators=(",", ":")) + "\n")


DIALECT = Dialect(
    name="flux",
    holds="mapping",
    title="taskmap of Flux, or PMI_process_mapping",
    recognise=is_taskmap,
    read=read,
    write=write,
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
