"""Communication graphs as Parquet tables, whole or, of very many edges, in pieces."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toruscast._slow import parquet
from toruscast._slow import pyarrow as pa
from toruscast.errors import InputError
from toruscast.files import check_claim, check_regular, note_read
from toruscast.memory import available
from toruscast.text import counted
from toruscast.validation import real_number, whole_array, whole_number

from ...comm_graph import COLUMNS, MAX_TASKS, CommGraph, GraphStream
from ..dialect import Dialect
from ..source import Progress, Source, as_damaged, at_file, check_path, label
from .build import AnyPath, GraphOptions
from .edges import names_of

# Bytes an edge at most while a graph is read and looked at (docs/guide/large-graphs.md).
HELD_BYTES = 160


def is_parquet(source: Source) -> bool:
    """Whether the file starts as every Parquet file does."""
    return source.start.startswith(b"PAR1")


def read(source: Source, options: GraphOptions) -> CommGraph:
    """Return the graph of a table."""
    options.only(source.path, "columns")
    with as_damaged(source.path, "Parquet file"):
        values, told = _columns(source, options)
        count, grid = tasks_and_grid(told)
        n_tasks = options.agree(count or None, source.path)
    with at_file(source.path):
        src, dst = (whole_array(values[name], name) for name in COLUMNS[:2])
        if not n_tasks:
            n_tasks = min(int(max(src.max(initial=0), dst.max(initial=0))) + 1, MAX_TASKS)
        return options.graph(
            n_tasks, src, dst, values["nbytes"], values.get("n_messages"), grid=grid
        )


def _columns(source: Source, options: GraphOptions) -> tuple[dict[str, Any], dict[bytes, bytes]]:
    file = parquet.ParquetFile(pa.BufferReader(source.data))
    schema = file.schema_arrow
    n_rows = file.metadata.num_rows
    check_claim(source.path, n_rows * HELD_BYTES, counted(n_rows, "row"))
    check_memory(n_rows, source.path)
    wanted = names_of(schema.names, options.columns, source.path)
    table = file.read(columns=list(wanted.values()))
    values = {name: numbers(table.column(theirs), theirs) for name, theirs in wanted.items()}
    return values, dict(schema.metadata or {})


def check_memory(n_edges: int, path: AnyPath) -> None:
    """Raise unless a graph of so many edges can be held in the memory that is left."""
    if n_edges * HELD_BYTES > (left := available()):
        found = f"{n_edges:,} edges, {n_edges * HELD_BYTES / 1e9:.3g} GB"
        expected = f"at most {left / 1e9:.3g} GB; 'toruscast features' reads it in pieces"
        raise InputError(
            "graph too large for the memory that is left", file=path, found=found, expected=expected
        )


def numbers(column: Any, name: str) -> NDArray[Any]:
    """Return a column, or a batch of one, as an array."""
    if column.null_count:
        raise InputError("empty cell", found=name, expected="numbers")
    return np.asarray(column)


def tasks_and_grid(metadata: Mapping[bytes, bytes] | None) -> tuple[int, tuple[int, ...] | None]:
    """Return the number of tasks that a table's metadata state, else 0, and their grid."""
    told = metadata or {}
    sizes = told.get(b"grid", b"").decode()
    grid = tuple(int(size) for size in sizes.split("x")) if sizes else None
    return int(told.get(b"n_tasks", b"0")), grid


def write(comm: CommGraph, path: Path) -> None:
    """Write the columns, with the number of tasks and the grid beside them."""
    grid = "x".join(map(str, comm.grid or ()))
    table = pa.table({name: getattr(comm, name) for name in COLUMNS})
    about = {"n_tasks": str(comm.n_tasks), "grid": grid}
    parquet.write_table(table.replace_schema_metadata(about), path)


DIALECT = Dialect(
    name="parquet",
    holds="graph",
    title="Parquet table of edges",
    recognise=is_parquet,
    read=read,
    write=write,
    suffixes=(".parquet",),
    documentation="""
Columns as in `table`, under the same names; `--columns` gives others. Tables of very many edges,
sorted by source, are [streamed](../guide/large-graphs.md) by `toruscast features`.
""",
)


# Rows that are read together, and most edges of a task, which are all in one piece.
_PIECE = 2**21
_MOST_OF_A_TASK = 2**23
_BUFFER = 2**20


def stream_comm(
    path: AnyPath,
    *,
    n_tasks: int | None = None,
    columns: Mapping[str, str] | None = None,
    factor: float = 1.0,
    progress: Progress | None = None,
) -> GraphStream:
    """Open a Parquet table of edges that is read in pieces: memory does not grow with its length.

    The table is read once to check it and to add it up. It is sorted by source, and each pair
    stands once only. A task sends to 8.4 million others at most, which are held together.

    Parameters
    ----------
    path : path-like
    n_tasks : int, optional
        Number of tasks; if not given, the file's own count, or the largest task plus one.
    columns : mapping of str to str, optional
        The file's names of src, dst, nbytes and n_messages.
    factor : float
        What bytes and messages are multiplied by, such as one over the iterations of a capture.
    progress : callable, optional
        Called with the edges that were read, and all of them.

    Raises
    ------
    InputError
        If the file cannot be read or used; later, if it has changed since.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from toruscast.mapping.formats import write_comm
    >>> path = Path(tempfile.mkdtemp()) / "ring.parquet"
    >>> write_comm(CommGraph(4, [0, 1, 2], [1, 2, 3], [100, 100, 50]), path)
    >>> stream = stream_comm(path)
    >>> stream.n_tasks, stream.n_edges, stream.nbytes
    (4, 3, 250.0)
    >>> [piece.n_edges for piece in stream.pieces()]
    [2, 1]
    """
    began = time.perf_counter()
    check_path(path)
    check_regular(path)
    # Workers elsewhere may have another working directory.
    path = Path(path).resolve()
    factor = real_number(factor, "factor", 0)
    with as_damaged(path, "Parquet file"):
        file = _opened(path)
        told, grid = tasks_and_grid(file.schema_arrow.metadata)
        wanted = names_of(file.schema_arrow.names, columns or {}, path)
        n_rows = file.metadata.num_rows
    read = partial(_pieces, path, _stamp(path), wanted, factor)
    n_edges, nbytes, n_messages, longest, last = 0, 0.0, 0.0, 0.0, -1
    for piece in read(MAX_TASKS):
        n_edges += piece.n_edges
        nbytes += float(piece.nbytes.sum())
        n_messages += float(piece.n_messages.sum())
        sent = piece.whole_messages > 0
        most = (piece.nbytes[sent] / piece.whole_messages[sent]).max(initial=0.0)
        longest = max(longest, float(most))
        last = max(last, int(piece.src.max(initial=-1)), int(piece.dst.max(initial=-1)))
        if progress is not None:
            progress(n_edges, n_rows)
    with at_file(path):
        if not n_edges:
            raise InputError("communication graph without an edge")
        n_tasks = whole_number(n_tasks or told or last + 1, "number of tasks", 1, MAX_TASKS)
        if last >= n_tasks:
            raise InputError("task out of range", found=last, expected=f"0 to {n_tasks - 1}")
        CommGraph(n_tasks, [], [], [], grid=grid)
    note_read("graph", path, began, tasks=n_tasks, edges=n_edges)
    return GraphStream(n_tasks, n_edges, nbytes, n_messages, longest, read, grid, label(path))


def n_rows(path: AnyPath) -> int:
    """Return the rows of a Parquet table, 0 of any other file."""
    if not Path(path).is_file():
        return 0
    with Path(path).open("rb") as file:
        if file.read(4) != b"PAR1":
            return 0
    with as_damaged(path, "Parquet file"):
        return int(_opened(path).metadata.num_rows)


def _opened(path: AnyPath) -> Any:
    return parquet.ParquetFile(path, buffer_size=_BUFFER)


def _stamp(path: AnyPath) -> tuple[int, int, int]:
    """Return inode, bytes and time of change: a file that has changed has others."""
    told = Path(path).stat()
    return told.st_ino, told.st_size, told.st_mtime_ns


def _pieces(
    path: AnyPath,
    stamp: tuple[int, int, int],
    wanted: Mapping[str, str],
    factor: float,
    n_tasks: int,
) -> Iterator[CommGraph]:
    """Give the edges of some tasks in a row, again and again."""
    with as_damaged(path, "Parquet file"):
        held: list[list[NDArray[Any]]] = []
        for batch in _opened(path).iter_batches(_PIECE, columns=list(wanted.values())):
            if not batch.num_rows:
                continue
            rows = [numbers(batch.column(theirs), theirs) for theirs in wanted.values()]
            rows[0] = whole_array(rows[0], "src")
            _check_order(rows[0], held[-1][0][-1] if held else rows[0][0])
            # The last task may go on in the next batch.
            cut = int(np.searchsorted(rows[0], rows[0][-1]))
            if cut or (held and held[-1][0][-1] != rows[0][0]):
                yield _joined([*held, [row[:cut] for row in rows]], n_tasks, factor)
                held = []
            held.append([row[cut:] for row in rows])
            _check_task(held)
        if _stamp(path) != stamp:
            raise InputError("file has changed since it was opened")
        if held:
            yield _joined(held, n_tasks, factor)


def _joined(parts: list[list[NDArray[Any]]], n_tasks: int, factor: float) -> CommGraph:
    rows = [np.concatenate(column) for column in zip(*parts, strict=True)]
    return CommGraph(n_tasks, *rows).scaled(factor)


def _check_order(src: NDArray[np.int64], before: np.int64) -> None:
    src = np.concatenate([[before], src])
    after = np.flatnonzero(src[1:] < src[:-1])
    if after.size:
        found = f"task {src[after[0] + 1]} after task {src[after[0]]}"
        expected = "a sorted table: so many edges are read in pieces, all of a task in one"
        raise InputError("edges are not sorted by source", found=found, expected=expected)


def _check_task(parts: list[list[NDArray[Any]]]) -> None:
    """Raise if the edges of one task are too many to be held."""
    n_edges = sum(part[0].size for part in parts)
    if n_edges > _MOST_OF_A_TASK:
        found = f"{n_edges:,} and more"
        expected = f"at most {_MOST_OF_A_TASK:,} in a table that is read in pieces"
        raise InputError(f"too many edges of task {parts[0][0][0]}", found=found, expected=expected)
