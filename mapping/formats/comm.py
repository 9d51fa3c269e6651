"""Communication graphs in and out, the format recognised."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from toruscast.errors import InputError
from toruscast.validation import one_of, whole_number

from ..comm_graph import MAX_TASKS, CommGraph
from ._atomic import atomic_path
from ._foreign import refuse_foreign
from ._layout import is_matrix
from ._source import as_text, at_file, check_path, label, read_bytes
from .edge_list import read_edge_list, read_matrix_market
from .matrix import Entries, entries_graph, read_dense, read_npz
from .open_mpi import Include, is_open_mpi, read_all_ranks, read_rank_files

Format = Literal["auto", "edges", "matrix"]
# What is read, for messages.
FORMATS = "edges or a matrix with commas or blanks, Open MPI monitoring output, Matrix Market, .npz"
AnyPath = str | os.PathLike[str]


def read_comm(
    path: AnyPath,
    *,
    include: Include = "all",
    n_tasks: int | None = None,
    messages: AnyPath | None = None,
    format: Format = "auto",
    name: str | None = None,
) -> CommGraph:
    r"""Read a communication graph; the content decides the format. Any file may be gzip.

    - Open MPI monitoring output: a folder of per-rank files (``lj.0.prof``, ``lj.1.prof``, ...),
      their common prefix (``folder/lj``), or all of them one behind the other in one file.
    - An edge list: ``src dst bytes [messages]`` on each line, separated by commas or blanks.
      Before the edges may stand a line with the number of tasks only, or the names of the
      columns (then in any order). ``#`` and ``%`` start comments.
    - A dense matrix of bytes, separated by commas or blanks, row = source, a line a task.
    - Matrix Market (coordinate), SciPy's sparse ``.npz`` (coo, csr, csc), and the ``.npz`` of
      `write_comm`.

    Three lines of three numbers, or four of four, may be an edge list as well as a matrix. Where
    both can be read, or only the matrix because an edge stands twice, ``format`` must say which; so
    does what stands above edges: the number of tasks, the names of the columns, or a comment
    ``# n_tasks 3`` or ``# grid 3x1``.

    Parameters
    ----------
    path : path-like
        File, folder or prefix.
    include : {"all", "point_to_point", "collective"}
        Of monitoring output: what the application sent itself (lines E), what collective operations
        sent for it (I), or all, one-sided traffic (S and R) too. Where Open MPI ran one-sided
        operations over messages, those count among I already.
    n_tasks : int, optional
        Number of tasks; if not given, the file's own count, or the largest task plus one.
    messages : path-like, optional
        A second matrix with the message counts; one message an edge if not given.
    format : {"auto", "edges", "matrix"}
        What a text file is that could be an edge list or a matrix.
    name : str, optional
        Name of the graph; the file's name without its suffix if not given.

    Raises
    ------
    InputError
        If the file cannot be read or used, or is ambiguous; with file and, in text, line.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "ring.txt"
    >>> _ = path.write_text("4\n0 1 100\n1 2 50 # short\n")
    >>> read_comm(path)
    CommGraph(ring: 4 tasks, 2 edges, 150 bytes, 2 messages)
    >>> _ = path.write_text("0 1 2\n1 0 1\n2 2 0\n")
    >>> read_comm(path, format="matrix")
    CommGraph(ring: 3 tasks, 6 edges, 9 bytes, 6 messages)
    """
    check_path(path)
    for what, value, choices in (("include", include, Include), ("format", format, Format)):
        one_of(value, what, get_args(choices))
    if n_tasks is not None:
        n_tasks = whole_number(n_tasks, "number of tasks", 0, MAX_TASKS)
    name = label(path) if name is None else name
    with at_file(path):
        place = Path(path)
        several = place.is_dir() or not place.exists()
    if several:
        _no_messages(messages)
        return read_rank_files(place, include, n_tasks, name)
    data = read_bytes(path)
    if data.startswith(b"PK\x03\x04"):
        _no_include(path, include)
        content = read_npz(path, data)
        if isinstance(content, CommGraph):
            _no_messages(messages)
            return _sized(path, content.renamed(name), n_tasks)
        return _matrix(path, content, messages, n_tasks, name)
    text = as_text(path, data)
    if text.data[:14].lower() == b"%%matrixmarket":
        _no_include(path, include)
        graph = read_matrix_market(text, n_tasks, name)
        if messages is None:
            return graph
        return _matrix(path, _entries(graph, graph.nbytes), messages, n_tasks, name)
    text.first_line()
    if is_open_mpi(text):
        _no_messages(messages)
        return read_all_ranks(text, include, n_tasks, name)
    refuse_foreign(text, "communication graph", FORMATS)
    _no_include(path, include)
    if format == "matrix" or (format == "auto" and is_matrix(text, n_tasks)):
        return _matrix(path, read_dense(text), messages, n_tasks, name)
    _no_messages(messages)
    return read_edge_list(text, n_tasks, name)


def write_comm(comm: CommGraph, path: AnyPath) -> None:
    """Write a communication graph in the format that the suffix of ``path`` names.

    ``.txt`` or ``.edges``: an edge list after a line with the number of tasks. ``.csv``: named
    columns, number of tasks and task grid in comments. ``.npz``: NumPy arrays n_tasks, src, dst,
    nbytes, n_messages and grid. ``.mtx``: Matrix Market; message counts are lost. The name
    is not written. The file appears whole or not at all.

    Raises
    ------
    InputError
        If the suffix is not one of these, or the path cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "pair.csv"
    >>> write_comm(CommGraph(2, [0], [1], [64]), path)
    >>> print(path.read_text(), end="")
    # n_tasks 2
    src,dst,nbytes,n_messages
    0,1,64,1
    """
    check_path(path)
    suffix = os.path.splitext(os.fspath(path))[1].lower()  # noqa: PTH122
    if suffix not in (".txt", ".edges", ".csv", ".npz", ".mtx"):
        raise InputError(
            "unknown suffix",
            file=path,
            found=suffix or "none",
            expected=".txt, .edges, .csv, .npz or .mtx",
        )
    with atomic_path(path) as temporary:
        if suffix == ".npz":
            np.savez_compressed(
                temporary,
                n_tasks=np.int64(comm.n_tasks),
                grid=np.array(comm.grid or (), dtype=np.int64),
                **{f: getattr(comm, f) for f in ("src", "dst", "nbytes", "n_messages")},
            )
            return
        table = comm.to_pandas()
        head, separator = f"{comm.n_tasks}\n", " "
        if suffix == ".mtx":
            head = "%%MatrixMarket matrix coordinate real general\n"
            head += f"{comm.n_tasks} {comm.n_tasks} {comm.n_edges}\n"
            table = table.drop(columns="n_messages")
            table[["src", "dst"]] += 1
        elif suffix == ".csv":
            grid_text = "" if comm.grid is None else f"# grid {'x'.join(map(str, comm.grid))}\n"
            head = f"# n_tasks {comm.n_tasks}\n{grid_text}src,dst,nbytes,n_messages\n"
            separator = ","
        for column in table.columns[2:]:
            table[column] = _short(table[column].to_numpy())
        with temporary.open("w", encoding="utf-8", newline="") as stream:
            stream.write(head)
            table.to_csv(stream, sep=separator, header=False, index=False, lineterminator="\n")


def _matrix(
    path: AnyPath,
    nbytes: tuple[int, Entries],
    messages: AnyPath | None,
    n_tasks: int | None,
    name: str,
) -> CommGraph:
    """Build the graph of a matrix, its message counts read from a second one."""
    counts = None
    if messages is not None:
        second = read_comm(messages, format="matrix")
        counts = _entries(second, second.nbytes)
    return _sized(path, entries_graph(path, nbytes, counts, name), n_tasks)


def _entries(graph: CommGraph, values: NDArray[np.float64]) -> tuple[int, Entries]:
    return graph.n_tasks, (graph.src.astype(np.int64), graph.dst.astype(np.int64), values)


def _sized(path: AnyPath, graph: CommGraph, n_tasks: int | None) -> CommGraph:
    if n_tasks is not None and n_tasks != graph.n_tasks:
        raise InputError("wrong number of tasks", file=path, found=graph.n_tasks, expected=n_tasks)
    return graph


def _short(values: NDArray[np.float64]) -> NDArray[np.float64] | NDArray[np.int64]:
    """Whole numbers as such, so that they are written without a point."""
    exact = (values == np.floor(values)) & (values < 2**53)
    return values.astype(np.int64) if exact.all() else values


def _no_messages(messages: AnyPath | None) -> None:
    if messages is not None:
        raise InputError("message counts stand apart for matrices only", file=messages)


def _no_include(path: AnyPath, include: Include) -> None:
    if include != "all":
        raise InputError(
            "no monitoring output, so there is nothing to select",
            file=path,
            found=include,
            expected="all",
        )
