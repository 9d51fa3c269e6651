"""Communication graphs as matrices: text with or without labels, Matrix Market, NumPy, SciPy.

The pattern of labelled ones was `DataFrame.to_csv` of pandas. R's `write.table` leaves out the cell
above the labels of the rows.
"""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import numpy as np

from toruscast._slow import scipy_io, sparse
from toruscast.errors import InputError
from toruscast.files import array_of_npy, arrays_of_npz, as_damaged, at_file, max_unpacked
from toruscast.mapping.comm_graph import COLUMNS, MAX_TASKS, CommGraph
from toruscast.text import counted
from toruscast.validation import whole_array, whole_number

from . import source as files
from .dialect import Dialect
from .graphs import (
    Array,
    GraphOptions,
    Stated,
    both_ways,
    graph_of,
    graph_of_columns,
    names_of,
    omit_columns,
)
from .source import LINES, NUMBER, Source, Text, cells
from .tables import read_table, write_rows

# A dense matrix of this many tasks takes 2 GiB.
MAX_DENSE_TASKS = 16384
# Tasks of a matrix that is written.
MAX_WRITTEN = 2**13
_LAST_NUMBER = re.compile(r"(.*?)([0-9]{1,9})")


def graph_of_matrix(source: Source, matrix: Any, options: GraphOptions) -> CommGraph:
    """Return the graph of a square matrix, dense or SciPy's, row = source.

    Entries of SciPy's may stand twice if they are summed.
    """
    with at_file(source.path):
        if matrix.dtype.kind not in "iufb":
            raise InputError("bad matrix", found=matrix.dtype, expected="numbers")
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.shape[0]:
            shape = "x".join(map(str, matrix.shape))
            expected = "as many rows as columns"
            raise InputError("matrix is not square", found=shape, expected=expected)
        options.agree(matrix.shape[0], source.path)
        if isinstance(matrix, np.ndarray):
            src, dst = np.nonzero(matrix)
            values = matrix[src, dst]
        else:
            entries = matrix.tocoo()
            src, dst, values = entries.row, entries.col, entries.data
        return options.graph(matrix.shape[0], src, dst, values.astype(np.float64))


def read(source: Source, options: GraphOptions) -> CommGraph:
    """Return the graph of a dense matrix."""
    text = source.text
    number, line = text.first_line()
    width = len(cells(line)[1])
    _check_width(text, number, width)
    names = [f"entry for task {task}" for task in range(width)]
    table = read_table(text, names, floats={*names})
    _check_rows(text, table.n_rows, width)
    return graph_of_matrix(source, np.array(list(table.columns.values())).T, options)


def _check_width(text: Text, number: int, width: int) -> None:
    if width > MAX_DENSE_TASKS:
        limit = f"at most {MAX_DENSE_TASKS}; write it as an edge list"
        raise text.fault("dense matrix too large", number, f"{width} columns", limit)


def _check_rows(text: Text, n_rows: int, width: int) -> None:
    if n_rows != width:
        found = counted(n_rows, "row") if n_rows < width else f"more than {width} rows"
        raise text.fault("matrix is not square", None, found, f"{width}, as many as columns")


def is_labelled(source: Source) -> bool:
    """Whether the first line holds the labels of columns, which stand before the rows as well."""
    rows = [cells(line)[1] for _, line in source.lines]
    if len(rows) < 2:
        return False
    labels = _column_labels(rows[0], len(rows[1]))
    before = [row[0] for row in rows[1:]]
    return (
        labels is not None
        and len(set(labels)) == len(labels)
        and len(before) <= len(labels)
        and set(before) <= set(labels)
        and (len(rows) == LINES or len(before) == len(labels))
        and all(len(row) == len(rows[1]) for row in rows[1:])
        and all(NUMBER.fullmatch(cell) for cell in rows[1][1:])
        # A corner of numbers would be a matrix of numbers.
        and (len(rows[0]) < len(rows[1]) or not NUMBER.fullmatch(rows[0][0]))
    )


def _column_labels(head: list[str], width: int) -> list[str] | None:
    """Labels of the columns; the cell above the labels of the rows may be missing."""
    if width < 2 or not width - 1 <= len(head) <= width:
        return None
    return head[1:] if len(head) == width else head


def read_labelled(source: Source, options: GraphOptions) -> CommGraph:
    """Return the graph of a matrix whose labels say which task a row and a column is."""
    text = source.text
    number, line = text.first_line()
    first = next(text.lines(skip=number), None)
    if first is None:
        raise text.fault("matrix without rows", number, line)
    separator, parts = cells(first[1])
    labels = _column_labels(cells(line)[1], len(parts))
    if labels is None or len(set(labels)) < len(labels):
        expected = "a label for each column, each once"
        raise text.fault("bad labels of a matrix", number, line[:80], expected)
    width = len(labels)
    _check_width(text, number, width)
    task = _tasks_of(text, number, labels)
    names = [f"entry for {label}" for label in labels]
    table = read_table(text, [None, *names], number, separator, {*names})
    seen: dict[str, int] = {}
    for row, (_, content) in enumerate(text.lines(skip=number)):
        label = content.split(separator)[0].strip().strip("\"'")
        if label not in task or seen.setdefault(label, row) != row:
            found = f"{label}, also on line {table.line(seen[label])}" if label in task else label
            message = "row stands twice" if label in task else "row of no column"
            raise table.fault(row, message, found, "a row for each column")
    _check_rows(text, table.n_rows, width)
    dense = np.zeros((width, width))
    rows = [task[label] for label in seen]
    dense[np.ix_(rows, list(task.values()))] = np.array(list(table.columns.values())).T
    return graph_of_matrix(source, dense, options)


def _tasks_of(text: Text, number: int, labels: list[str]) -> dict[str, int]:
    """The task of each label: its number where all have one, else its place."""
    matches = [_LAST_NUMBER.fullmatch(label) for label in labels]
    before = {match[1] for match in matches if match}
    if not all(matches) or len(before) != 1:
        return {label: place for place, label in enumerate(labels)}
    numbers = [int(match[2]) for match in matches if match]
    least = min(numbers)
    if sorted(numbers) != list(range(least, least + len(numbers))) or least > 1:
        expected = f"the tasks 0 to {len(labels) - 1}, or 1 to {len(labels)}, each once"
        raise text.fault("bad labels of a matrix", number, ", ".join(labels)[:80], expected)
    return {label: value - least for label, value in zip(labels, numbers, strict=True)}


def read_npy(source: Source, options: GraphOptions) -> CommGraph:
    """Return the graph of a square array, or of an array of records with a field a column."""
    array = array_of_npy(source.data, source.path)
    with at_file(source.path):
        if array.dtype.names is None:
            options.only(source.path)
            return graph_of_matrix(source, array, options)
        values = _named_arrays({name: array[name] for name in array.dtype.names}, options, source)
        return graph_of_columns(source, values, Stated(), options)


def _named_arrays(
    arrays: dict[str, Array], options: GraphOptions, source: Source
) -> dict[str, Array]:
    """Arrays by our names, which are those of the columns of a table."""
    kinds = {name: array.dtype.kind in "iuf" for name, array in arrays.items()}
    theirs = names_of(kinds, options, source.path)
    return {name: arrays[their] for name, their in theirs.items()}


def write(comm: CommGraph, path: Path) -> None:
    """Write the bytes of every pair; message counts are not kept."""
    if comm.n_tasks > MAX_WRITTEN:
        expected = f"at most {MAX_WRITTEN}; an edge list or Matrix Market holds only what is sent"
        raise InputError("too many tasks for a dense matrix", found=comm.n_tasks, expected=expected)
    if comm.n_tasks == 1:
        expected = "two tasks or more: a number alone is read as that of tasks"
        raise InputError("too few tasks for a dense matrix", found=1, expected=expected)
    matrix = np.zeros((comm.n_tasks, comm.n_tasks))
    matrix[comm.src, comm.dst] = comm.nbytes
    with path.open("w", encoding="utf-8", newline="") as file:
        for row in matrix.tolist():
            values = (str(int(v)) if v == int(v) and v < 2**53 else repr(v) for v in row)
            file.write(" ".join(values) + "\n")


_OURS = {"n_tasks", *COLUMNS}
_SPARSE = {"format", "shape", "data", "indices", "indptr", "row", "col", "_is_array"}


def read_npz(source: Source, options: GraphOptions) -> CommGraph:
    """Return the graph of our own archive, of SciPy's, or of arrays that the caller names."""
    most = max_unpacked(source.path, files.MAX_BYTES)
    arrays = arrays_of_npz(source.data, source.path, most)
    with at_file(source.path):
        if options.columns:
            values = _named_arrays(arrays, options, source)
            return graph_of_columns(source, values, Stated(), options)
        if {"format", "shape", "data"} <= arrays.keys():
            omit_columns(arrays, _SPARSE, options)
            return graph_of_matrix(source, _read_sparse(source), options)
        if not arrays.keys() >= _OURS:
            raise InputError(
                "unknown arrays",
                found=", ".join(sorted(arrays)) or "none",
                expected=f"{', '.join(sorted(_OURS))}, or a SciPy sparse matrix, or "
                "--columns src=NAME,dst=NAME,nbytes=NAME",
            )
        omit_columns(arrays, _OURS | {"grid"}, options)
        count = whole_array(arrays["n_tasks"].ravel(), "number of tasks")
        grid = whole_array(arrays.get("grid", np.zeros(0, int)), "grid").tolist()
        if count.size != 1:
            raise InputError("bad n_tasks", found=counted(count.size, "number"), expected="one")
        return graph_of_columns(source, arrays, Stated(int(count[0]), tuple(grid) or None), options)


def write_npz(comm: CommGraph, path: Path) -> None:
    """Write the arrays n_tasks, src, dst, nbytes, n_messages and grid."""
    # To a name without the suffix, NumPy would add it.
    with path.open("wb") as file:
        np.savez_compressed(
            file,
            n_tasks=np.int64(comm.n_tasks),
            grid=np.array(comm.grid or (), dtype=np.int64),
            **{f: getattr(comm, f) for f in COLUMNS},
        )


def _read_sparse(source: Source) -> Any:
    """SciPy's coo, csr or csc."""
    with as_damaged(source.path, ".npz file"):
        matrix: Any = sparse.load_npz(io.BytesIO(source.data))
        if matrix.format in ("csr", "csc"):
            # Conversion trusts the pointers and indices.
            matrix.check_format(full_check=True)
    if matrix.format not in ("coo", "csr", "csc"):
        expected = "coo, csr or csc"
        raise InputError("sparse format not supported", found=matrix.format, expected=expected)
    return matrix


_FIELDS = ("real", "integer")
_SYMMETRIES = ("general", "symmetric")


def read_matrix_market(source: Source, options: GraphOptions) -> CommGraph:
    """Return the graph of a Matrix Market file."""
    text = source.text
    with as_damaged(source.path, "Matrix Market file"):
        rows, width, entries, *kind = scipy_io.mminfo(io.BytesIO(text.data))
    if kind not in [["coordinate", f, s] for f in _FIELDS for s in _SYMMETRIES]:
        expected = "coordinate real|integer general|symmetric"
        if kind[1] == "pattern":
            expected += "; a pattern has no amounts of bytes"
        raise text.fault("Matrix Market kind not supported", 1, " ".join(kind), expected)
    head = next(text.raw_lines())
    if len(head.split()) != 5:
        raise text.fault("bad head of Matrix Market", 1, head, "five words")
    number, line = text.first_line()
    if rows != width:
        raise text.fault("matrix is not square", number, line)
    with text.at(number):
        rows = whole_number(rows, "number of tasks", 1, MAX_TASKS)
    # SciPy would read 1,5 as 1 and 0x10 as 0.
    table = read_table(text, ["row", "column", "value"], number, floats=["value"])
    if table.n_rows != entries:
        raise text.fault("wrong number of entries", None, table.n_rows, entries)
    for what in ("row", "column"):
        ends = table[what]
        outside = np.flatnonzero((ends < 1) | (ends > rows))
        if outside.size:
            row = int(outside[0])
            raise table.fault(row, f"bad {what}", ends[row], f"1 to {rows}")
    table = table.assign(src=table["row"] - 1, dst=table["column"] - 1, nbytes=table["value"])
    graph = graph_of(table, Stated(rows), options)
    if kind[2] == "general":
        return graph
    both = both_ways(graph.src, graph.dst, graph.nbytes, graph.n_messages)
    with at_file(text.file):
        return CommGraph(graph.n_tasks, *both, name=options.name)


def write_matrix_market(comm: CommGraph, path: Path) -> None:
    """Write bytes only; message counts are lost."""
    head = "%%MatrixMarket matrix coordinate real general\n"
    head += f"{comm.n_tasks} {comm.n_tasks} {comm.n_edges}\n"
    write_rows(path, head, [comm.src + 1, comm.dst + 1, comm.nbytes], " ")


DIALECTS = (
    Dialect(
        name="matrix",
        uses=("messages",),
        holds="graph",
        title="dense matrix of bytes",
        read=read,
        write=write,
        suffixes=(".mat",),
        documentation="""
N lines of N numbers: the bytes from the task of the line to the task of the column. Commas or
blanks separate. A second matrix with the message counts may be given (`convert --messages FILE`,
`messages=` in Python); without it every edge is one message.

Three lines of three numbers, or four of four, may be edges as well: `--format edges` or
`--format matrix` says which.
""",
        example="0 100.5 0 0 8\n100 0 100 0 0\n0 100 0 100 0\n0 0 100 0 100\n8 0 0 100 0\n",
    ),
    Dialect(
        name="labelled-matrix",
        uses=("messages",),
        holds="graph",
        title="dense matrix of bytes with labels of rows and columns",
        recognise=is_labelled,
        read=read_labelled,
        documentation="""
What `DataFrame.to_csv` of pandas writes of a matrix: a line with the labels of the columns, then a
line for each row behind its label. Labels that end in numbers (`0`, `rank3`) say which task it is;
other labels count in their order. Commas, semicolons, tabs or blanks separate.
""",
        example=",0,2,1\n0,0.0,64.0,100.0\n1,8.0,0.0,0.0\n2,0.0,0.0,0.0\n",
    ),
    Dialect(
        name="npy",
        uses=("columns", "messages"),
        holds="graph",
        title="NumPy array: a dense matrix of bytes, or records",
        recognise=lambda source: source.start.startswith(b"\x93NUMPY"),
        read=read_npy,
        documentation="""
What `numpy.save` writes: a square array, row = source, or an array of records whose fields are
named as the columns of a `table`; `--columns` gives others. Nothing is unpickled.
""",
        example=b"\x93NUMPY\x01\x00v\x00{'descr': '<f8', 'fortran_order': False, 'shape': (2, 2), }"
        + b" " * 58
        + b"\n"
        + np.array([[0, 64], [8, 0]], "<f8").tobytes(),
    ),
    Dialect(
        name="matrix-market",
        uses=("messages",),
        holds="graph",
        title="Matrix Market, coordinate",
        recognise=lambda source: source.start[:14].lower() == b"%%matrixmarket",
        read=read_matrix_market,
        write=write_matrix_market,
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
    ),
    Dialect(
        name="npz",
        uses=("columns", "messages"),
        holds="graph",
        title="NumPy archive: SciPy's sparse matrices, or ours",
        recognise=lambda source: source.start.startswith(b"PK\x03\x04"),
        read=read_npz,
        write=write_npz,
        suffixes=(".npz",),
        documentation="""
SciPy's sparse matrices of bytes (`scipy.sparse.save_npz`: coo, csr, csc; row = source), or the
arrays `n_tasks`, `src`, `dst`, `nbytes`, `n_messages` and `grid` that toruscast writes, or others
that `--columns` names. Entries that stand twice need `--duplicates sum`. Nothing is unpickled.
""",
    ),
)
