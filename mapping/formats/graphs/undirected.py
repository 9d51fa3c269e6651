"""Graphs whose edges have no direction, as partitioners take them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from toruscast.errors import InputError, InputWarning

from ...comm_graph import CommGraph
from .._source import Text
from ..source import Source
from .options import GraphOptions

Whole = NDArray[np.int64]


def check_symmetric(text: Text, n: int, lines: Sequence[int], edges: Whole) -> None:
    """Raise `InputError` unless every edge stands once at both ends with the same weight.

    ``edges`` has rows source, destination and weight, ``lines`` the line of each vertex.
    """
    src, dst, weight = edges
    own = np.flatnonzero(src == dst)
    if own.size:
        vertex = int(src[own[0]])
        raise text.fault("vertex is its own neighbour", lines[vertex], f"vertex {vertex + 1}")
    there, back = src * np.int64(n) + dst, dst * np.int64(n) + src
    a, b = np.argsort(there, kind="stable"), np.argsort(back, kind="stable")
    twice = np.flatnonzero(np.diff(there[a]) == 0)
    if twice.size:
        at = a[twice[0] + 1]
        raise text.fault("neighbour stands twice", lines[int(src[at])], int(dst[at]) + 1)
    wrong = np.flatnonzero((there[a] != back[b]) | (weight[a] != weight[b]))
    if wrong.size:
        at = a[wrong[0]]
        s, d = int(src[at]), int(dst[at])
        expected = "each edge at both ends, with the same weight"
        raise text.fault("edge at one end only", lines[s], f"{s + 1} - {d + 1}", expected)


def mean_directions(comm: CommGraph) -> tuple[Whole, Whole, Whole]:
    """Return source, destination and whole weight of edges that go both ways alike.

    Messages of a task to itself and message counts are left out; a warning says what is lost.

    Raises
    ------
    InputError
        If a weight is too large.
    """
    graph = comm.without_self_messages()
    n = np.int64(comm.n_tasks)
    key = np.concatenate([graph.src * n + graph.dst, graph.dst * n + graph.src])
    # Of a pair, each direction has the sum of both halves.
    pairs, group = np.unique(key, return_inverse=True)
    half = np.concatenate([graph.nbytes, graph.nbytes]) / 2
    mean = np.bincount(group, weights=half, minlength=pairs.size)
    if mean.max(initial=0) >= 2**53:
        raise InputError("bytes too large for a whole weight", found=mean.max(), expected="2**53")
    weight = np.ceil(mean).astype(np.int64)
    lost = [
        words
        for words, is_so in (
            ("messages of tasks to themselves", graph.n_edges < comm.n_edges),
            (
                "directions that differ (their mean is written)",
                pairs.size != graph.n_edges or not np.array_equal(mean, graph.nbytes),
            ),
            ("fractions of bytes", bool((weight != mean).any())),
            ("message counts", bool((comm.n_messages != 1).any())),
        )
        if is_so
    ]
    if lost:
        warnings.warn(
            f"lost in a graph without directions: {', '.join(lost)}", InputWarning, stacklevel=2
        )
    return pairs // n, pairs % n, weight


def read_whole(
    source: Source, options: GraphOptions, read: Callable[[Text, str], CommGraph]
) -> CommGraph:
    """Return the graph of a file that tells its number of tasks and has nothing to choose from."""
    options.refuse_include(source.path)
    options.refuse_messages()
    options.refuse_columns(source.path)
    graph = read(source.text, options.name)
    if options.n_tasks not in (None, graph.n_tasks):
        raise source.text.fault("wrong number of tasks", None, graph.n_tasks, options.n_tasks)
    return graph
