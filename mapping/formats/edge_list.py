"""Communication graphs as edge lists and Matrix Market files: a line per edge."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toruscast.errors import InputError

from ..comm_graph import MAX_TASKS, CommGraph
from ._source import Text, at_file
from ._table import NUMBER, Column, Table, fields, read_table, whole

Array = NDArray[Any]

COLUMNS = {
    "src": ("src", "source", "from"),
    "dst": ("dst", "dest", "destination", "target", "to"),
    "nbytes": ("nbytes", "bytes", "size", "weight"),
    "n_messages": ("n_messages", "messages", "msgs", "count"),
}
BANNER = re.compile(
    rb"%%MatrixMarket\s+matrix\s+coordinate\s+(real|integer)\s+(general|symmetric)\s*", re.I
)
COMMENT = re.compile(r"[#%]\s*(n_tasks|grid)[ \t:=]+([0-9x]+)[ \t]*")
# What is meant as one of these, and would be of no effect.
MISWRITTEN = re.compile(r"[#%]\s*(n_tasks?\b|grid[ \t:=]+\d+(\s*[^\s\d]\s*|\s+)\d).*")


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
    elif not any(NUMBER.fullmatch(part) for part in parts):
        order, skip = _names(parts), number
        needed = {"src", "dst", "nbytes"}
        if len(set(order)) != len(order) or not needed <= set(order) <= COLUMNS.keys():
            raise text.fault("bad column names", number, line, "src,dst,nbytes[,n_messages]")
    else:
        order = order[: max(3, len(parts))]
    columns = [Column(column, whole=column in ("src", "dst")) for column in order]
    table = read_table(text, columns, skip)
    values = dict(zip(order, table.columns, strict=True))
    n_tasks = _agree(text, count, n_tasks)
    messages = values.get("n_messages")
    return _graph(
        table, values["src"], values["dst"], values["nbytes"], messages, n_tasks, grid, name
    )


def read_matrix_market(text: Text, n_tasks: int | None, name: str) -> CommGraph:
    """Return the graph of a Matrix Market file: row = source, one message an entry."""
    banner = text.data[: text.data.find(b"\n")]
    if not (match := BANNER.fullmatch(banner)):
        found = banner.decode(errors="replace")
        expected = "%%MatrixMarket matrix coordinate real|integer general|symmetric"
        raise text.fault("Matrix Market kind not supported", 1, found, expected)
    number, line = text.first_line()
    parts = fields(line)
    if len(parts) != 3:
        raise text.fault("bad Matrix Market sizes", number, line, "rows columns entries")
    rows, width, entries = (
        whole(text, number, what, part)
        for what, part in zip(("row count", "column count", "entry count"), parts, strict=True)
    )
    if rows != width:
        raise text.fault("matrix is not square", number, line)
    if rows > MAX_TASKS:
        raise text.fault("bad number of tasks", number, rows, f"1 to {MAX_TASKS}")
    columns = [Column("row", whole=True), Column("column", whole=True), Column("value")]
    table = read_table(text, columns, number)
    if table.n_rows != entries:
        raise text.fault("wrong number of entries", None, table.n_rows, entries)
    src, dst, nbytes = table.columns
    for what, ends in (("row", src), ("column", dst)):
        outside = np.flatnonzero((ends < 1) | (ends > rows))
        if outside.size:
            row = int(outside[0])
            raise table.fault(row, f"bad {what}", ends[row], f"1 to {rows}")
    src, dst = src - 1, dst - 1
    n_tasks = _agree(text, rows, n_tasks)
    graph = _graph(table, src, dst, nbytes, None, n_tasks, None, name)
    if match[2].lower() == b"general":
        return graph
    other = src != dst
    both = [np.concatenate([a, b[other]]) for a, b in ((src, dst), (dst, src), (nbytes, nbytes))]
    with at_file(text.file):
        return CommGraph(graph.n_tasks, *both, name=name)


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


def _names(parts: list[str]) -> list[str]:
    """Our names of the columns; those that are not known as they stand."""
    known = {alias: column for column, aliases in COLUMNS.items() for alias in aliases}
    return [known.get(part.strip("\"'").lower(), part) for part in parts]


def _agree(text: Text, count: int | None, n_tasks: int | None) -> int | None:
    """Return the one task count that the file and the caller give."""
    if count is not None and n_tasks is not None and count != n_tasks:
        raise text.fault("wrong number of tasks", None, count, n_tasks)
    return count if n_tasks is None else n_tasks


def _graph(
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
