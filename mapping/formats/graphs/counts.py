"""Matrices of bytes with a second one of message counts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from toruscast.errors import InputError

from ...comm_graph import CommGraph, sum_edges
from .._source import at_file
from ..registry import dialect_of, reader_of
from ..source import Source
from .options import AnyPath, GraphOptions

# Entries of a matrix: source, destination, value.
Entries = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]
# Dialects whose values may be message counts as well.
MATRICES = ("matrix", "matrix-market", "npz")


def matrix_graph(source: Source, nbytes: tuple[int, Entries], options: GraphOptions) -> CommGraph:
    """Return the graph of a matrix of bytes and, where the caller named one, of message counts."""
    n_tasks, (src, dst, values) = nbytes
    if options.n_tasks not in (None, n_tasks):
        raise InputError(
            "wrong number of tasks", file=source.path, found=n_tasks, expected=options.n_tasks
        )
    with at_file(source.path):
        if options.messages is None:
            return CommGraph(n_tasks, src, dst, values, name=options.name)
        second = _counts(options.messages, options)
        if second.n_tasks != n_tasks:
            raise InputError("matrices differ in size", found=second.n_tasks, expected=n_tasks)
        return sum_edges(
            n_tasks,
            np.concatenate([src, second.src]),
            np.concatenate([dst, second.dst]),
            np.concatenate([values, np.zeros(second.n_edges)]),
            np.concatenate([np.zeros(src.size), second.nbytes]),
            name=options.name,
        )


def _counts(path: AnyPath, options: GraphOptions) -> CommGraph:
    """The second matrix, as if its counts were bytes."""
    source = Source(path)
    known = [dialect_of(name, "graph") for name in MATRICES]
    dialect = next((known_one for known_one in known if known_one.recognise(source)), known[0])
    second: CommGraph = reader_of(dialect)(source, replace(options, messages=None, n_tasks=None))
    return second
