"""What features are computed of: a graph, or a table so large that it is read in pieces."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import toruscast as tc
from toruscast.errors import InputError
from toruscast.memory import available
from toruscast.text import part_of, printable, shortened

from .options import Traffic
from .progress import working
from .slow import build, parquet
from .traffic import check_any, is_file, load_application, of_an_iteration, task_grid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toruscast.mapping import CommGraph, Workload
    from toruscast.mapping.comm_graph import GraphStream

MOST_HELD = 2**25
"""Edges of a Parquet table that is held if the memory is there; others are read in pieces."""
LOOK_AT_NO_MESSAGES = (
    "identity",
    "permute",
    "zigzag",
    "tilt",
    "stride",
    "curve",
    "tile",
    "blocked",
    "random",
    "swap",
)
"""Strategies that need no more than the tasks and their grid."""


class Sent(NamedTuple):
    """What is sent."""

    traffic: Workload | GraphStream
    tasks: Workload | CommGraph
    """What mappings are made for: the traffic, or its tasks alone."""
    kinds: Sequence[str] | None
    """Strategies that can make them; None for all."""
    about: dict[str, object]
    """What JSON output says."""


def load_sent(traffic: Traffic) -> Sent:
    """Read a graph, or open a very large Parquet table.

    Raises
    ------
    InputError
        If it cannot be read, or not in pieces.
    """
    stream = _stream(traffic)
    if stream is None:
        application = load_application(traffic, simulated=False)
        workload = application.workload
        return Sent(workload, workload, None, application.describe())
    about: dict[str, object] = {
        "name": stream.name,
        "source": traffic.comms[0],
        "tasks": stream.n_tasks,
        "edges": stream.n_edges,
        "bytes": stream.nbytes,
        "messages": stream.n_messages,
        "traffic": traffic.include,
        "iterations": traffic.iterations,
        "phases": [Path(traffic.comms[0]).name],
        "n_phases": 1,
        "dependent": False,
        "summed": False,
    }
    return Sent(stream, stream.tasks_alone, LOOK_AT_NO_MESSAGES, about)


def _stream(traffic: Traffic) -> GraphStream | None:
    path = traffic.comms[0] if len(traffic.comms) == 1 else None
    # The reader of another format makes its own checks.
    if path is None or not is_file(path):
        return None
    if traffic.format_of("graph") not in ("auto", "parquet"):
        return None
    edges = parquet.n_rows(path)
    if edges <= MOST_HELD and edges * parquet.HELD_BYTES <= available():
        return None
    build.GraphOptions(include=traffic.include).only(path)
    if traffic.duplicates == "sum":
        raise InputError(
            "a graph that is read in pieces does not add pairs up",
            file=path,
            expected="a table in which each pair stands once",
        )
    factor = of_an_iteration(traffic.iterations)
    with working(f"Reading {shortened(printable(path), 40)}", part_of("edges")) as progress:
        stream = tc.stream_comm(path, columns=traffic.columns, factor=factor, progress=progress)
    check_any(stream.n_messages, path)
    return stream if traffic.grid is None else replace(stream, grid=task_grid(traffic.grid))
