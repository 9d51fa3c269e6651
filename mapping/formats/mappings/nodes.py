"""The node of each task: a line each, all on one line, or several mappings in a file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from toruscast.errors import InputError

from ...task_mapping import TaskMapping
from .._foreign import are_numbers
from .._source import Text, label
from .._table import WHOLE, Column, fields, read_table, whole
from ..dialect import Dialect
from ..source import Source
from .build import input_error_at, mapping_of
from .options import MappingOptions, Target
from .rank_order import has_sign
from .rows import write_rows
from .sst import fits_count

RANGE = re.compile(r"\d+-\d+")


def are_nodes(source: Source) -> bool:
    """Whether there is a whole number on each line, or all of them on one."""
    if not source.fields or not all(WHOLE.fullmatch(part) for part in source.fields):
        return False
    if len(source.lines) == 1:
        return len(source.fields) == 1 or _single_line(source)
    second = fields(source.lines[1][1])
    if len(source.fields) != 1 or len(second) != 1:
        return False
    # Below their number the nodes are those of a file with a count.
    return not fits_count(source) or _all_nodes(source)


def _single_line(source: Source) -> bool:
    """Whether the numbers of the only line are nodes rather than one place."""
    if source.torus is None:
        return len(source.fields) > 9
    if len(source.fields) not in (source.torus.ndim, source.torus.ndim + 1):
        return True
    return source.n_tasks == len(source.fields) > 1


def _all_nodes(source: Source) -> bool:
    """Whether the first number may be a node as well as the count of those below it."""
    parts = [part for _, line in source.lines for part in fields(line)]
    numbers = [int(part) for part in parts if len(part) < 12 and WHOLE.fullmatch(part)]
    if source.torus is None:
        return sorted(numbers) == list(range(len(numbers)))
    many = source.n_tasks is None or source.n_tasks == numbers[0] + 1
    return many and max(numbers, default=0) < source.torus.n_nodes


def read(source: Source, options: MappingOptions) -> TaskMapping:
    """Return the mapping of nodes."""
    text = source.text
    number, line = text.first_line()
    parts = fields(line)
    if len(parts) > 1 and len(source.lines) == 1:
        return node_row(text, number, parts, options, label(text.file))
    table = read_table(text, [Column("node", whole=True)])
    return mapping_of(table, table.columns[0], options)


def node_row(
    text: Text, line: int, parts: list[str], options: MappingOptions, name: str
) -> TaskMapping:
    """Build a mapping whose nodes stand on one line."""
    most = options.torus.n_nodes - 1
    nodes = [whole(text, line, f"node of task {t}", part, most) for t, part in enumerate(parts)]
    try:
        return TaskMapping(nodes, options.torus, tasks_per_node=options.capacity, name=name)
    except InputError as error:
        raise input_error_at(text, line, error) from None


def are_named_lines(source: Source) -> bool:
    """Whether the lines hold a name and nodes."""
    # A name may hold a percent sign, which starts a comment elsewhere.
    lines = (line.partition("#")[0].strip() for line in source.raw_lines)
    name, *parts = (part.strip() for part in next(filter(None, lines), "").split(","))
    if not parts or not WHOLE.fullmatch(parts[0]) or not _is_name(name):
        return False
    return not _in_brackets(name, parts)


def read_many(source: Source, options: MappingOptions) -> Iterator[TaskMapping]:
    """Give the mappings of lines ``name,node0,node1,...``, one at a time."""
    text = source.stream
    n_tasks = None
    seen: dict[str, int] = {}
    for number, line in text.lines("#"):
        name, *parts = (part.strip() for part in line.split(","))
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


def _is_name(word: str) -> bool:
    """Whether a word may name a mapping: no number, nor such with semicolons, no range or label."""
    labelled = word.rpartition(":")
    label_and_number = bool(labelled[1]) and bool(WHOLE.fullmatch(labelled[2].strip()))
    bare = WHOLE.fullmatch(word) or are_numbers(word)
    ranged = bool(RANGE.fullmatch(word))
    return not (bare or "\t" in word or label_and_number or ranged)


def _in_brackets(name: str, parts: list[str]) -> bool:
    """Whether a line is rather a piece of JSON, XML or a call that was cut at its commas."""
    pairs = ("[]", "{}", "<>", "()")
    open_ones = any(name.count(pair[0]) != name.count(pair[1]) for pair in pairs)
    return open_ones and not all(WHOLE.fullmatch(part) for part in parts)


def write(mapping: TaskMapping, path: Path, target: Target) -> None:
    """Write the node of each task."""
    write_rows(path, "", np.asarray(mapping.node, dtype=np.int64)[:, None], " ")


DIALECTS = (
    Dialect(
        name="nodes",
        holds="mapping",
        title="the node of each task (partition of METIS or KaHIP)",
        recognise=lambda source: are_nodes(source) and not has_sign(source),
        read=read,
        plain=True,
        write=write,
        documentation="""
One number on each line, or all on one line. Nodes are numbered in C order. A single line of D or
D + 1 numbers on a torus of D dimensions may be a place as well: the number of tasks decides, or
`--mapping-format`.
""",
        example="1\n0\n3\n2\n",
    ),
    Dialect(
        name="named-lines",
        holds="mapping",
        title="several mappings: name, node, node, ...",
        recognise=are_named_lines,
        read=read_many,
        documentation="""
Several mappings in one file, for `--mappings`: on each line a name, then the node of each task.
""",
        example="identity,0,1,2,3\nturned,1,0,3,2\n",
    ),
)
