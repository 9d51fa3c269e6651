"""Parquet tables of very many edges, read in pieces."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toruscast.errors import InputError
from toruscast.files import check_regular, note_read
from toruscast.validation import real_number, whole_array, whole_number

from ...comm_graph import MAX_TASKS, CommGraph
from ...graph_stream import GraphStream
from .._source import Progress, check_path, label
from .options import AnyPath
from .parquet import columns_of, damage_told, numbers, told_by

# Rows that are read together. All edges of a task are in one piece, so it may have more.
_PIECE = 2**21
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
    stands once only.

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
    factor = real_number(factor, "factor", 0)
    with damage_told(path):
        file = _opened(path)
        told, grid = told_by(file.schema_arrow.metadata)
        wanted = columns_of(file.schema_arrow.names, columns or {}, path)
        n_rows = file.metadata.num_rows
    read = partial(_pieces, path, wanted, factor)
    n_edges, nbytes, n_messages, longest, last = 0, 0.0, 0.0, 0.0, -1
    for piece in read(MAX_TASKS):
        n_edges += piece.n_edges
        nbytes += float(piece.nbytes.sum())
        n_messages += float(piece.n_messages.sum())
        sent = piece.whole_messages > 0
        longest = max(longest, (piece.nbytes[sent] / piece.whole_messages[sent]).max(initial=0.0))
        last = max(last, int(piece.src.max(initial=-1)), int(piece.dst.max(initial=-1)))
        if progress is not None:
            progress(n_edges, n_rows)
    n_tasks = whole_number(n_tasks or told or last + 1, "number of tasks", 1, MAX_TASKS)
    if last >= n_tasks:
        raise InputError("task out of range", file=path, found=last, expected=f"0 to {n_tasks - 1}")
    note_read("graph", path, began, tasks=n_tasks, edges=n_edges)
    return GraphStream(n_tasks, n_edges, nbytes, n_messages, longest, read, grid, label(path))


def n_rows(path: AnyPath) -> int:
    """Return the rows of a Parquet table, 0 of any other file."""
    if not Path(path).is_file():
        return 0
    with Path(path).open("rb") as file:
        if file.read(4) != b"PAR1":
            return 0
    with damage_told(path):
        return int(_opened(path).metadata.num_rows)


def _opened(path: AnyPath) -> Any:
    from pyarrow import parquet

    return parquet.ParquetFile(path, buffer_size=_BUFFER)


def _pieces(
    path: AnyPath, wanted: Mapping[str, str], factor: float, n_tasks: int
) -> Iterator[CommGraph]:
    """Give the edges of some tasks in a row, again and again."""
    with damage_told(path):
        held: list[NDArray[Any]] = []
        for batch in _opened(path).iter_batches(_PIECE, columns=list(wanted.values())):
            rows = [numbers(batch.column(theirs), theirs) for theirs in wanted.values()]
            rows[0] = whole_array(rows[0], "src")
            if held:
                rows = [np.concatenate(pair) for pair in zip(held, rows, strict=True)]
            _check_order(rows[0])
            # The last task may go on in the next batch.
            cut = int(np.searchsorted(rows[0], rows[0][-1])) if rows[0].size else 0
            held = [row[cut:] for row in rows]
            if cut:
                yield CommGraph(n_tasks, *(row[:cut] for row in rows)).scaled(factor)
        if held and held[0].size:
            yield CommGraph(n_tasks, *held).scaled(factor)


def _check_order(src: NDArray[np.int64]) -> None:
    after = np.flatnonzero(src[1:] < src[:-1])
    if after.size:
        raise InputError(
            "edges are not sorted by source",
            found=f"task {src[after[0] + 1]} after task {src[after[0]]}",
            expected="a sorted table: so many edges are read in pieces, all of a task in one",
        )
