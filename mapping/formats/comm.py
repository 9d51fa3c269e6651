"""Communication graphs in and out."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, get_args

import numpy as np

from toruscast.atomic import atomic_path
from toruscast.errors import InputError
from toruscast.files import note_read
from toruscast.validation import one_of, whole_number

from ..comm_graph import MAX_TASKS, CommGraph, sum_edges
from ..workload import Workload, as_workload
from .graphs._collectives import check_algorithms
from .graphs.build import AnyPath, Duplicates, Gathered, GraphOptions, Include
from .guess import formats_of, identify
from .registry import dialect_of, dialect_to_write
from .source import Progress, Source, cells, check_path, label

# Dialects whose values may be message counts as well.
_MATRICES = ("matrix", "labelled-matrix", "npy", "matrix-market", "npz")


def read_comm(path: AnyPath, **how: Any) -> CommGraph:
    r"""Read a communication graph: all phases of what `read_workload` reads, together.

    Parameters and errors are those of `read_workload`.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp()) / "ring.txt"
    >>> _ = path.write_text("4\n0 1 100\n1 2 50 # short\n")
    >>> read_comm(path)
    CommGraph(ring: 4 tasks, 2 edges, 150 bytes, 2 messages)
    >>> _ = path.write_text("0 1 2\n1 0 1\n2 2 0\n")
    >>> read_comm(path, format="matrix")
    CommGraph(ring: 3 tasks, 6 edges, 9 bytes, 6 messages)
    """
    return read_workload(path, **how).total


def read_workload(
    path: AnyPath,
    *,
    include: Include = "all",
    n_tasks: int | None = None,
    messages: AnyPath | None = None,
    format: str = "auto",
    name: str | None = None,
    columns: Mapping[str, str] | None = None,
    duplicates: Duplicates = "refuse",
    collectives: Mapping[str, str] | None = None,
    gathered: Gathered = "each",
    progress: Progress | None = None,
) -> Workload:
    r"""Read traffic whose phases a file may tell apart, such as a GOAL schedule; else one phase.

    ``docs/reference/formats.md`` explains what is read. Any file may be gzip.

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
    format : str
        The format's name, for a file that fits several, such as "edges" or "matrix".
    name : str, optional
        Name of the graph; the file's name without its suffix if not given.
    columns : mapping of str to str, optional
        Of tables: the file's names of src, dst, nbytes and n_messages; of lists of edges without
        names, their positions from "1"; of .npz archives the names of arrays.
    duplicates : {"refuse", "sum"}
        Whether pairs that stand on several lines are added up, as in a trace of messages.
    collectives : mapping of str to str, optional
        Of traces with collectives: the algorithm of each, such as ``{"allreduce": "ring"}``.
    gathered : {"each", "whole"}
        Of Chakra traces: whether the size of a gather or all-gather is what each rank puts in, or
        the whole gathered buffer.
    progress : callable, optional
        Called with the bytes of a long text that were read, and all of them.

    Raises
    ------
    InputError
        If the file cannot be read or used, or is ambiguous; with file and, in text, line.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp()) / "ping.goal"
    >>> _ = path.write_text("num_ranks 2\nrank 0 {\nsend 8b to 1\n}\nrank 1 {\nrecv 8b from 0\n}\n")
    >>> workload = read_workload(path)
    >>> len(workload), workload.dependent
    (1, True)
    """
    began = time.perf_counter()
    check_path(path)
    one_of(include, "include", get_args(Include))
    one_of(duplicates, "duplicates", get_args(Duplicates))
    one_of(gathered, "gathered", get_args(Gathered))
    algorithms = dict(collectives or {})
    check_algorithms(algorithms)
    if n_tasks is not None:
        n_tasks = whole_number(n_tasks, "number of tasks", 0, MAX_TASKS)
    options = GraphOptions(
        label(path) if name is None else name,
        n_tasks,
        include,
        dict(columns or {}),
        duplicates,
        algorithms,
        gathered,
    )
    source = Source(path, n_tasks=n_tasks, progress=progress)
    dialect = identify(source, "graph", _form(source, format, options.columns))
    workload = as_workload(dialect.read(source, options))
    if messages is not None:
        counted = dialect.name == "npz" and b"n_messages.npy" in source.data
        if dialect.name not in _MATRICES or counted:
            raise InputError("message counts stand apart for matrices only", file=messages)
        workload = as_workload(_with_counts(workload.total, messages, options))
    if dialect.summed:
        workload = Workload(workload.phases, workload.name, workload.dependent, summed=True)
    edges = sum(phase.n_edges for phase in workload)
    note_read("graph", path, began, tasks=workload.n_tasks, edges=edges, phases=len(workload))
    return workload


def _form(source: Source, form: str, columns: Mapping[str, str]) -> str:
    """The format's name: a table where the caller gives the names above it.

    They may mean something else in a table of another kind.
    """
    names = {*columns.values()} - {str(place) for place in range(10)}
    told = form == "auto" and bool(names)
    return "table" if told and names <= {*cells(source.first_line()[1])[1]} else form


def _with_counts(graph: CommGraph, path: AnyPath, options: GraphOptions) -> CommGraph:
    """Return the graph with the message counts of a second matrix."""
    source = Source(path)
    fits = [dialect.name for dialect in formats_of(source, "graph")]
    name = next((name for name in _MATRICES if name in fits), "matrix")
    second = dialect_of(name, "graph").read(source, replace(options, n_tasks=None))
    if second.n_tasks != graph.n_tasks:
        found, expected = second.n_tasks, graph.n_tasks
        raise InputError("matrices differ in size", file=path, found=found, expected=expected)
    return sum_edges(
        graph.n_tasks,
        np.concatenate([graph.src, second.src]),
        np.concatenate([graph.dst, second.dst]),
        np.concatenate([graph.nbytes, np.zeros(second.n_edges)]),
        np.concatenate([np.zeros(graph.n_edges), second.nbytes]),
        name=options.name,
    )


def write_comm(comm: CommGraph, path: AnyPath, dialect: str | None = None) -> None:
    """Write a communication graph; without a dialect the suffix of ``path`` names the format.

    ``.txt`` or ``.edges``: an edge list after a line with the number of tasks. ``.csv``: named
    columns, number of tasks and task grid in comments. ``.npz``: NumPy arrays n_tasks, src, dst,
    nbytes, n_messages and grid. ``.mtx``: Matrix Market; message counts are lost. The name
    is not written. The file appears whole or not at all.

    Raises
    ------
    InputError
        If neither names a format that is written, or the path cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp()) / "pair.csv"
    >>> write_comm(CommGraph(2, [0], [1], [64]), path)
    >>> print(path.read_text(), end="")
    # n_tasks 2
    src,dst,nbytes,n_messages
    0,1,64,1
    """
    check_path(path)
    chosen = dialect_to_write("graph", path, dialect)
    with atomic_path(path) as temporary:
        chosen.write(comm, temporary)  # type: ignore[misc]
