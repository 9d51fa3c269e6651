"""Communication graphs as Matrix Market files: a line for each entry."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from ...comm_graph import MAX_TASKS, CommGraph
from .._table import Column, fields, read_table, whole
from ..dialect import Dialect
from ..opening import at_file
from ..source import Source
from .build import GraphOptions, Told, graph_of, write_rows

BANNER = re.compile(
    rb"%%MatrixMarket\s+matrix\s+coordinate\s+(real|integer)\s+(general|symmetric)\s*", re.I
)


def is_matrix_market(source: Source) -> bool:
    """Whether the file starts as every Matrix Market file does."""
    return source.start[:14].lower() == b"%%matrixmarket"


def read(source: Source, options: GraphOptions) -> CommGraph:
    """Return the graph of a Matrix Market file."""
    options.only(source.path)
    text = source.text
    banner = text.data[: text.data.find(b"\n")]
    if not (match := BANNER.fullmatch(banner)):
        found = banner.decode(errors="replace")
        if b"pattern" in banner.lower():
            expected = "real or integer; a pattern says who talks to whom, not how many bytes"
            raise text.fault("Matrix Market pattern without bytes", 1, found, expected)
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
    options.agree(rows, text.file)
    values = {"src": src, "dst": dst, "nbytes": nbytes}
    bare = GraphOptions(options.name, duplicates=options.duplicates)
    graph = graph_of(table, values, Told(rows), bare)
    if match[2].lower() == b"general":
        return graph
    other = graph.src != graph.dst
    src, dst, carried = graph.src, graph.dst, (graph.nbytes, graph.n_messages)
    both = [np.concatenate([a, b[other]]) for a, b in ((src, dst), (dst, src))]
    both += [np.concatenate([each, each[other]]) for each in carried]
    with at_file(text.file):
        return CommGraph(graph.n_tasks, *both, name=options.name)


def write(comm: CommGraph, path: Path) -> None:
    """Write bytes only; message counts are lost."""
    head = "%%MatrixMarket matrix coordinate real general\n"
    head += f"{comm.n_tasks} {comm.n_tasks} {comm.n_edges}\n"
    write_rows(path, head, [comm.src + 1, comm.dst + 1, comm.nbytes], " ")


DIALECT = Dialect(
    name="matrix-market",
    holds="graph",
    title="Matrix Market, coordinate",
    recognise=is_matrix_market,
    read=read,
    write=write,
    suffixes=(".mtx",),
    documentation="""
`real` or `integer`, `general` or `symmetric`; tasks count from 1, row = source. The values are
bytes, one message an entry.
""",
    example="""%%MatrixMarket matrix coordinate integer general
% row column bytes
4 4 3
1 2 4096
2 3 4096
4 1 64
""",
)
