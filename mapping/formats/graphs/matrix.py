"""Communication graphs as dense matrices: a line for each source."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from toruscast.errors import InputError

from ...comm_graph import CommGraph
from .._table import NUMBER, fields
from ..dialect import Dialect
from ..source import LINES, Source
from .build import Told
from .counts import matrix_graph
from .dense import read_dense, square
from .edges import EDGE_COLUMNS, is_edge_list, stated
from .options import GraphOptions

# Of a matrix that is written.
MOST = 2**13


def is_matrix(source: Source) -> bool:
    """Whether the text is a dense matrix by its shape.

    Three lines of three numbers, or four of four, may be a list of edges too: a comment with the
    number of tasks or the grid, which stands above edges, tells them apart.
    """
    if not _starts_like_one(source):
        return False
    if len(source.fields) > max(EDGE_COLUMNS):
        widths = {len(fields(line)) for _, line in source.lines}
        return len(source.lines) in (len(source.fields), LINES) or len(widths) > 1
    if (width := square(source)) is None:
        return False
    if width not in EDGE_COLUMNS:
        return True
    try:
        above = stated(source.text)
        if not {source.n_tasks, above.n_tasks} <= {None, width}:
            return False
        read_dense(source.text)
    except InputError:
        return False
    return above == Told() or not is_edge_list(source)


def _is_wide(source: Source) -> bool:
    """Whether there are more numbers on a line than an edge has."""
    return _starts_like_one(source) and len(source.fields) > max(EDGE_COLUMNS)


def _starts_like_one(source: Source) -> bool:
    return source.has_numbers and bool(NUMBER.fullmatch(source.fields[0]))


def read(source: Source, options: GraphOptions) -> CommGraph:
    """Return the graph of a dense matrix."""
    options.refuse_include(source.path)
    options.refuse_columns(source.path)
    return matrix_graph(source, read_dense(source.text), options)


def write(comm: CommGraph, path: Path) -> None:
    """Write the bytes of every pair; message counts are not kept."""
    if comm.n_tasks > MOST:
        expected = f"at most {MOST}; an edge list or Matrix Market holds only what is sent"
        raise InputError("too many tasks for a dense matrix", found=comm.n_tasks, expected=expected)
    matrix = np.zeros((comm.n_tasks, comm.n_tasks))
    matrix[comm.src, comm.dst] = comm.nbytes
    with path.open("w", encoding="utf-8", newline="") as file:
        for row in matrix.tolist():
            values = (str(int(v)) if v == int(v) and v < 2**53 else repr(v) for v in row)
            file.write(" ".join(values) + "\n")


DIALECT = Dialect(
    name="matrix",
    holds="graph",
    title="dense matrix of bytes",
    recognise=is_matrix,
    read=read,
    write=write,
    suffixes=(".mat",),
    plain=True,
    near=_is_wide,
    documentation="""
N lines of N numbers: the bytes from the task of the line to the task of the column. Commas or
blanks separate. A second matrix with the message counts may be given (`convert --messages FILE`,
`messages=` in Python); without it every edge is one message.

Three lines of three numbers, or four of four, may be edges as well. toruscast does not guess:
`--format edges` or `--format matrix` says which.
""",
    example="0 100.5 0 0 8\n100 0 100 0 0\n0 100 0 100 0\n0 0 100 0 100\n8 0 0 100 0\n",
)
