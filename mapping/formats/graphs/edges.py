"""Communication graphs as lists of edges: a line each."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toruscast.errors import InputError

from ...comm_graph import MAX_TASKS, CommGraph
from .._source import Text, at_file
from .._table import Column, Table, fields, read_table, whole
from ..registry import Dialect
from ..source import Source
from .dense import is_dense, square
from .options import GraphOptions
from .writing import write_rows

Array = NDArray[Any]

# Columns of an edge list: src dst bytes [messages].
EDGE_COLUMNS = (3, 4)

COMMENT = re.compile(r"[#%]\s*(n_tasks|grid)[ \t:=]+([0-9x]+)[ \t]*")
# What is meant as one of these, and would be of no effect.
MISWRITTEN = re.compile(r"[#%]\s*(n_tasks?\b|grid[ \t:=]+\d+(\s*[^\s\d]\s*|\s+)\d).*")


def is_edge_list(source: Source) -> bool:
    """Whether the first line can be one of an edge list, and not only of a matrix."""
    parts = source.fields
    if len(parts) == 1:
        after = fields(source.lines[1][1]) if len(source.lines) > 1 else []
        return source.has_numbers and len(after) in (0, 2, *EDGE_COLUMNS)
    if not source.has_numbers or len(parts) > max(EDGE_COLUMNS) or "\t" in parts[0]:
        return False
    if square(source) is None:
        return True
    if len(parts) not in EDGE_COLUMNS:
        return False
    try:
        read_edge_list(source.text, source.n_tasks, "")
    except InputError as error:
        # Whoever wrote the edge twice, or a grid of other tasks, may still have meant edges.
        return error.message in ("edge stands twice", "bad task grid") or not is_dense(source.text)
    return True


def read(source: Source, options: GraphOptions) -> CommGraph:
    """Return the graph of an edge list."""
    options.refuse_include(source.path)
    options.refuse_messages()
    return read_edge_list(source.text, options.n_tasks, options.name)


def read_edge_list(text: Text, n_tasks: int | None, name: str) -> CommGraph:
    """Return the graph of lines ``src dst bytes [messages]``."""
    number, line = text.first_line()
    parts, skip = fields(line), 0
    order = ["src", "dst", "nbytes", "n_messages"]
    count, grid = stated(text)
    if len(parts) == 1:
        count, skip = whole(text, number, "number of tasks", parts[0], MAX_TASKS), number
        rest = (line for later, line in text.lines() if later > number)
        order = order[: max(3, len(fields(next(rest, ""))))]
    else:
        order = order[: max(3, len(parts))]
    return rows_graph(text, order, skip, (count, grid, n_tasks), name)


def rows_graph(
    text: Text,
    order: list[str],
    skip: int,
    told: tuple[int | None, tuple[int, ...] | None, int | None],
    name: str,
) -> CommGraph:
    """Return the graph of the rows below a head; ``told``: tasks, grid, tasks by the caller."""
    count, grid, n_tasks = told
    columns = [Column(column, whole=column in ("src", "dst")) for column in order]
    table = read_table(text, columns, skip)
    values = dict(zip(order, table.columns, strict=True))
    n_tasks = agree(text, count, n_tasks)
    messages = values.get("n_messages")
    return graph_of(
        table, values["src"], values["dst"], values["nbytes"], messages, n_tasks, grid, name
    )


def stated(text: Text) -> tuple[int | None, tuple[int, ...] | None]:
    """Return the number of tasks and the task grid in the comments above the first line."""
    count = grid = None
    for number, line in enumerate(text.raw_lines(), start=1):
        if line.strip() and not line.lstrip().startswith(("#", "%")):
            break
        if match := COMMENT.fullmatch(line.strip()):
            sizes = [whole(text, number, match[1], size, MAX_TASKS) for size in match[2].split("x")]
            if match[1] == "grid":
                grid = tuple(sizes)
            else:
                count = sizes[0]
        elif MISWRITTEN.fullmatch(line.strip()):
            expected = "a line such as '# n_tasks 64' or '# grid 8x8'"
            raise text.fault("bad comment on the tasks", number, line.strip(), expected)
    return count, grid


def agree(text: Text, count: int | None, n_tasks: int | None) -> int | None:
    """Return the one task count that the file and the caller give."""
    if count is not None and n_tasks is not None and count != n_tasks:
        raise text.fault("wrong number of tasks", None, count, n_tasks)
    return count if n_tasks is None else n_tasks


def graph_of(
    table: Table,
    src: Array,
    dst: Array,
    nbytes: Array,
    messages: Array | None,
    n_tasks: int | None,
    grid: tuple[int, ...] | None,
    name: str,
) -> CommGraph:
    """Build the graph of a table's rows; a row at fault is named by its line."""
    most = MAX_TASKS if n_tasks is None else n_tasks
    for what, ends in (("source", src), ("destination", dst)):
        bad = np.flatnonzero(ends >= most)
        if bad.size:
            row = int(bad[0])
            raise table.fault(
                row, f"{what} out of range", ends[row], f"a task from 0 to {most - 1}"
            )
    if n_tasks is None:
        n_tasks = int(max(src.max(initial=0), dst.max(initial=0))) + 1
    try:
        with at_file(table.text.file):
            return CommGraph(n_tasks, src, dst, nbytes, messages, grid=grid, name=name)
    except InputError:
        key = src * np.int64(n_tasks) + dst
        rank = np.argsort(key, kind="stable")
        twice = np.flatnonzero(np.diff(key[rank]) == 0)
        if not twice.size:
            raise
        # Of all pairs, the one whose second row comes first.
        at = twice[np.argmin(rank[twice + 1])]
        first, second = int(rank[at]), int(rank[at + 1])
        found = f"{src[second]} -> {dst[second]}, also on line {table.line(first)}"
        raise table.fault(second, "edge stands twice", found, "each pair once") from None


def write(comm: CommGraph, path: Path) -> None:
    """Write an edge list below a line with the number of tasks."""
    columns: list[Array] = [comm.src, comm.dst, comm.nbytes, comm.n_messages]
    write_rows(path, f"{comm.n_tasks}\n", columns, " ")


DIALECT = Dialect(
    name="edges",
    holds="graph",
    title="lines of src dst bytes [messages]",
    recognise=is_edge_list,
    read=read,
    write=write,
    plain=True,
    suffixes=(".txt", ".edges"),
    documentation="""
A line for each pair of tasks that communicate, each pair once. Without the fourth column every edge
is one message. Commas or blanks separate.

The number of tasks is the largest task plus one, unless a line above the edges says it, or a
comment such as `# n_tasks 8` does; that is needed where the last tasks do not communicate. A
comment such as `# grid 4x2` gives the application's logical task grid, which mapping strategies
use.
""",
    example="4\n0 1 4096 2\n1 2 4096 2\n2 0 512 1\n3 0 64 1\n3 1 64 1\n",
)
