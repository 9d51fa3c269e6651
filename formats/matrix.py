"""Communication graphs as matrices: text with or without labels, Matrix Market, NumPy and SciPy."""

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
    GraphHeader,
    GraphOptions,
    graph_from_columns,
    graph_from_table,
    match_columns,
    omit_columns,
    with_reverse_edges,
)
from .source import LINES, NUMBER, Source, TextFile, split_cells
from .tables import read_table, write_rows

# Maximum number of tasks in a dense matrix that is read; a matrix of this size takes 2 GiB.
MAX_DENSE_TASKS = 16384
# Maximum number of tasks in a dense matrix that is written.
MAX_WRITTEN = 2**13
_LAST_NUMBER = re.compile(r"(.*?)([0-9]{1,9})")


def _graph_from_matrix(source: Source, matrix: Any, options: GraphOptions) -> CommGraph:
    """Return the graph of a square NumPy array or SciPy sparse matrix; rows are sources."""
    with at_file(source.path):
        if matrix.dtype.kind not in "iufb":
            raise InputError("bad matrix", found=matrix.dtype, expected="numbers")
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.shape[0]:
            shape = "x".join(map(str, matrix.shape))
            expected = "as many rows as columns"
            raise InputError("matrix is not square", found=shape, expected=expected)
        options.check_n_tasks(matrix.shape[0], source.path)
        if isinstance(matrix, np.ndarray):
            src, dst = np.nonzero(matrix)
            values = matrix[src, dst]
        else:
            entries = matrix.tocoo()
            src, dst, values = entries.row, entries.col, entries.data
        return options.build_graph(matrix.shape[0], src, dst, values.astype(np.float64))


def _read_dense(source: Source, options: GraphOptions) -> CommGraph:
    """Read a line for each sending task, with the bytes to each receiving task."""
    text = source.text
    number, line = text.first_line()
    width = len(split_cells(line)[1])
    _check_width(text, number, width)
    names = [f"entry for task {task}" for task in range(width)]
    table = read_table(text, names, floats={*names})
    _check_rows(text, table.n_rows, width)
    return _graph_from_matrix(source, np.array(list(table.columns.values())).T, options)


def _check_width(text: TextFile, number: int, width: int) -> None:
    if width > MAX_DENSE_TASKS:
        limit = f"at most {MAX_DENSE_TASKS}; use an edge list"
        raise text.fault("dense matrix too large", number, f"{width} columns", limit)


def _check_rows(text: TextFile, n_rows: int, width: int) -> None:
    if n_rows != width:
        found = counted(n_rows, "row") if n_rows < width else f"more than {width} rows"
        raise text.fault("matrix is not square", None, found, f"{width}, as many as columns")


def _is_labelled(source: Source) -> bool:
    """Whether the first line has column labels, and each other line a row label and numbers."""
    head, *rows = [split_cells(line)[1] for _, line in source.lines] or [[]]
    width = len(rows[0]) if rows else 0
    column_labels = _split_labels(head, width)
    row_labels = [row[0] for row in rows]
    return (
        column_labels is not None
        and len(set(column_labels)) == len(column_labels)
        and len(row_labels) <= len(column_labels)
        and set(row_labels) <= set(column_labels)
        and (1 + len(rows) == LINES or len(row_labels) == len(column_labels))
        and all(len(row) == width for row in rows)
        and all(NUMBER.fullmatch(cell) for cell in rows[0][1:])
        # If the corner is a number, the matrix has no labels.
        and (len(head) < width or not NUMBER.fullmatch(head[0]))
    )


def _split_labels(head: list[str], width: int) -> list[str] | None:
    """Return the column labels; only pandas, not R, writes a cell above the row labels."""
    if width < 2 or not width - 1 <= len(head) <= width:
        return None
    return head[1:] if len(head) == width else head


def _read_labelled(source: Source, options: GraphOptions) -> CommGraph:
    """Read a matrix whose rows and columns may be in different orders."""
    text = source.text
    number, line = text.first_line()
    first_row = next(text.lines(skip=number), None)
    if first_row is None:
        raise text.fault("matrix without rows", number, line)
    separator, first_cells = split_cells(first_row[1])
    labels = _split_labels(split_cells(line)[1], len(first_cells))
    if labels is None or len(set(labels)) < len(labels):
        expected = "a distinct label for each column"
        raise text.fault("bad labels of a matrix", number, line[:80], expected)
    width = len(labels)
    _check_width(text, number, width)
    tasks = _find_tasks(text, number, labels)
    names = [f"entry for {label}" for label in labels]
    table = read_table(text, [None, *names], number, separator, {*names})
    row_of_label: dict[str, int] = {}
    for row, (_, content) in enumerate(text.lines(skip=number)):
        label = content.split(separator)[0].strip().strip("\"'")
        if label not in tasks:
            raise table.fault(row, "row label without column", label, "a row for each column")
        if row_of_label.setdefault(label, row) != row:
            found = f"{label}, also on line {table.line(row_of_label[label])}"
            raise table.fault(row, "duplicate row", found, "a row for each column")
    _check_rows(text, table.n_rows, width)
    dense = np.zeros((width, width))
    rows = [tasks[label] for label in row_of_label]
    dense[np.ix_(rows, list(tasks.values()))] = np.array(list(table.columns.values())).T
    return _graph_from_matrix(source, dense, options)


def _find_tasks(text: TextFile, number: int, labels: list[str]) -> dict[str, int]:
    """Return the task of each label: its trailing number if all have one, else its position."""
    matches = [_LAST_NUMBER.fullmatch(label) for label in labels]
    prefixes = {match[1] for match in matches if match}
    if not all(matches) or len(prefixes) != 1:
        return {label: index for index, label in enumerate(labels)}
    numbers = [int(match[2]) for match in matches if match]
    first = min(numbers)
    if sorted(numbers) != list(range(first, first + len(numbers))) or first > 1:
        expected = f"the tasks 0 to {len(labels) - 1}, or 1 to {len(labels)}, each once"
        raise text.fault("bad labels of a matrix", number, ", ".join(labels)[:80], expected)
    return {label: value - first for label, value in zip(labels, numbers, strict=True)}


def _read_npy(source: Source, options: GraphOptions) -> CommGraph:
    """Read a square matrix, or an array of records with a field for each column of edges."""
    array = array_of_npy(source.data, source.path)
    with at_file(source.path):
        if array.dtype.names is None:
            options.refuse_unused(source.path)
            return _graph_from_matrix(source, array, options)
        values = _select_arrays({name: array[name] for name in array.dtype.names}, options, source)
        return graph_from_columns(source, values, GraphHeader(), options)


def _select_arrays(
    arrays: dict[str, Array], options: GraphOptions, source: Source
) -> dict[str, Array]:
    is_numeric = {name: array.dtype.kind in "iuf" for name, array in arrays.items()}
    their_names = match_columns(is_numeric, options, source.path)
    return {name: arrays[their_name] for name, their_name in their_names.items()}


def _write_dense(comm: CommGraph, path: Path) -> None:
    """Write a line for each sending task; whole numbers of bytes have no decimal point."""
    if comm.n_tasks > MAX_WRITTEN:
        expected = f"at most {MAX_WRITTEN}, or a sparse format such as Matrix Market"
        raise InputError("too many tasks for a dense matrix", found=comm.n_tasks, expected=expected)
    if comm.n_tasks == 1:
        # The reader would take a single number for the number of tasks.
        raise InputError("too few tasks for a dense matrix", found=1, expected="at least 2")
    matrix = np.zeros((comm.n_tasks, comm.n_tasks))
    matrix[comm.src, comm.dst] = comm.nbytes
    with path.open("w", encoding="utf-8", newline="") as file:
        for row in matrix.tolist():
            # Larger whole numbers may have hundreds of digits, so they are written like fractions.
            values = (str(int(v)) if v == int(v) and v < 2**53 else repr(v) for v in row)
            file.write(" ".join(values) + "\n")


_OUR_ARRAYS = {"n_tasks", *COLUMNS}
_SCIPY_ARRAYS = {"format", "shape", "data", "indices", "indptr", "row", "col", "_is_array"}


def _read_npz(source: Source, options: GraphOptions) -> CommGraph:
    """Read chosen arrays, a sparse matrix of SciPy, or the arrays that toruscast writes."""
    max_bytes = max_unpacked(source.path, files.MAX_BYTES)
    arrays = arrays_of_npz(source.data, source.path, max_bytes)
    with at_file(source.path):
        if options.columns:
            values = _select_arrays(arrays, options, source)
            return graph_from_columns(source, values, GraphHeader(), options)
        if {"format", "shape", "data"} <= arrays.keys():
            omit_columns(arrays, _SCIPY_ARRAYS, options)
            return _graph_from_matrix(source, _read_sparse(source), options)
        if not arrays.keys() >= _OUR_ARRAYS:
            expected = f"{', '.join(sorted(_OUR_ARRAYS))}, or a SciPy sparse matrix, or "
            expected += "--columns src=NAME,dst=NAME,nbytes=NAME"
            found = ", ".join(sorted(arrays)) or "none"
            raise InputError("unknown arrays", found=found, expected=expected)
        omit_columns(arrays, _OUR_ARRAYS | {"grid"}, options)
        n_tasks = whole_array(arrays["n_tasks"].ravel(), "number of tasks")
        grid = whole_array(arrays.get("grid", np.zeros(0, int)), "grid").tolist()
        if n_tasks.size != 1:
            raise InputError("bad n_tasks", found=counted(n_tasks.size, "number"), expected="one")
        header = GraphHeader(int(n_tasks[0]), tuple(grid) or None)
        return graph_from_columns(source, arrays, header, options)


def _write_npz(comm: CommGraph, path: Path) -> None:
    # NumPy would append the suffix to a path, but not to an open file.
    with path.open("wb") as file:
        arrays = {name: getattr(comm, name) for name in COLUMNS}
        grid = np.array(comm.grid or (), dtype=np.int64)
        np.savez_compressed(file, n_tasks=np.int64(comm.n_tasks), grid=grid, **arrays)


def _read_sparse(source: Source) -> Any:
    """Return the sparse matrix in an archive of `scipy.sparse.save_npz`, after checking it."""
    with as_damaged(source.path, ".npz file"):
        matrix: Any = sparse.load_npz(io.BytesIO(source.data))
        if matrix.format in ("csr", "csc"):
            # SciPy does not check pointers and indices when it converts the matrix.
            matrix.check_format(full_check=True)
    if matrix.format not in ("coo", "csr", "csc"):
        expected = "coo, csr or csc"
        raise InputError("sparse format not supported", found=matrix.format, expected=expected)
    return matrix


_FIELDS = ("real", "integer")
_SYMMETRIES = ("general", "symmetric")


def _read_matrix_market(source: Source, options: GraphOptions) -> CommGraph:
    """Read the entries of a matrix; symmetric files contain only one of its triangles."""
    text = source.text
    with as_damaged(source.path, "Matrix Market file"):
        n_rows, n_columns, n_entries, *kind = scipy_io.mminfo(io.BytesIO(text.data))
    if kind not in [["coordinate", f, s] for f in _FIELDS for s in _SYMMETRIES]:
        expected = "coordinate real|integer general|symmetric"
        if kind[1] == "pattern":
            expected += "; a pattern has no bytes"
        raise text.fault("Matrix Market kind not supported", 1, " ".join(kind), expected)
    head = next(text.raw_lines())
    if len(head.split()) != 5:
        raise text.fault("bad Matrix Market header", 1, head, "five words")
    number, line = text.first_line()
    if n_rows != n_columns:
        raise text.fault("matrix is not square", number, line)
    with text.locate_errors(number):
        n_tasks = whole_number(n_rows, "number of tasks", 1, MAX_TASKS)
    # SciPy's reader is not used because it reads 1,5 as 1 and 0x10 as 0.
    table = read_table(text, ["row", "column", "value"], number, floats=["value"])
    if table.n_rows != n_entries:
        raise text.fault("wrong number of entries", None, table.n_rows, n_entries)
    for role in ("row", "column"):
        outside = np.flatnonzero((table[role] < 1) | (table[role] > n_tasks))
        if outside.size:
            row = int(outside[0])
            raise table.fault(row, f"bad {role}", table[role][row], f"1 to {n_tasks}")
    table = table.assign(src=table["row"] - 1, dst=table["column"] - 1, nbytes=table["value"])
    graph = graph_from_table(table, GraphHeader(n_tasks), options)
    if kind[2] == "general":
        return graph
    columns = with_reverse_edges(graph.src, graph.dst, graph.nbytes, graph.n_messages)
    with at_file(text.file):
        return CommGraph(n_tasks, *columns, name=options.name)


def _write_matrix_market(comm: CommGraph, path: Path) -> None:
    head = "%%MatrixMarket matrix coordinate real general\n"
    head += f"{comm.n_tasks} {comm.n_tasks} {comm.n_edges}\n"
    write_rows(path, head, [comm.src + 1, comm.dst + 1, comm.nbytes], " ")


DIALECTS = (
    Dialect(
        name="matrix",
        uses=("messages",),
        holds="graph",
        title="dense matrix of bytes",
        read=_read_dense,
        write=_write_dense,
        suffixes=(".mat",),
        documentation="""
N lines of N numbers, separated by commas or blanks: the bytes that the row's task sends to the
column's task. A second matrix gives the message counts (`convert --messages FILE`, `messages=` in
Python); without it every edge is one message.

Three lines of three numbers, or four of four, may also be edges; `--format edges` or
`--format matrix` decides.
""",
        example="0 100.5 0 0 8\n100 0 100 0 0\n0 100 0 100 0\n0 0 100 0 100\n8 0 0 100 0\n",
    ),
    Dialect(
        name="labelled-matrix",
        uses=("messages",),
        holds="graph",
        title="dense matrix of bytes with row and column labels",
        recognise=_is_labelled,
        read=_read_labelled,
        documentation="""
A matrix as pandas' `DataFrame.to_csv` writes it: a line with the column labels, then for each row
its label and numbers. If all labels end in numbers (`0`, `rank3`), these are the tasks; otherwise
tasks are in the order of the columns. Cells are separated by commas, semicolons, tabs or blanks.
""",
        example=",0,2,1\n0,0.0,64.0,100.0\n1,8.0,0.0,0.0\n2,0.0,0.0,0.0\n",
    ),
    Dialect(
        name="npy",
        uses=("columns", "messages"),
        holds="graph",
        title="NumPy array: a dense matrix of bytes, or records",
        recognise=lambda source: source.start.startswith(b"\x93NUMPY"),
        read=_read_npy,
        documentation="""
The output of `numpy.save`: a square array, row = source, or records whose fields are named like the
columns of a `table`; `--columns` selects other names. Nothing is unpickled.
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
        read=_read_matrix_market,
        write=_write_matrix_market,
        suffixes=(".mtx",),
        documentation="""
`real` or `integer`, `general` or `symmetric`; tasks count from 1, row = source. The values are
bytes; each entry is one message.
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
        title="NumPy archive of a SciPy sparse matrix or of edge arrays",
        recognise=lambda source: source.start.startswith(b"PK\x03\x04"),
        read=_read_npz,
        write=_write_npz,
        suffixes=(".npz",),
        documentation="""
A sparse matrix of bytes (`scipy.sparse.save_npz`: coo, csr, csc; row = source), or the arrays
`n_tasks`, `src`, `dst`, `nbytes`, `n_messages` and `grid` that toruscast writes, or arrays that
`--columns` names. Duplicate entries need `--duplicates sum`. Nothing is unpickled.
""",
    ),
)
