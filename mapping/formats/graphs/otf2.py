"""Communication graphs from OTF2 traces, read with the package ``otf2``."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from toruscast.errors import InputError

from ...comm_graph import CommGraph, sum_edges
from .._source import at_file
from ..dialect import Dialect
from ..source import Source
from ._collectives import collective_total
from .options import GraphOptions

MAGIC = b"\x03BOTF2"
SENDS = ("MpiSend", "MpiIsend")
# Collective of ours and the algorithm if none is named, by OTF2's word.
OURS = {
    "ALLREDUCE": ("allreduce", "ring"),
    "REDUCE": ("reduce", "binomial"),
    "ALLGATHER": ("allgather", "ring"),
    "GATHER": ("gather", "linear"),
    "SCATTER": ("scatter", "linear"),
    "BCAST": ("bcast", "binomial"),
    "ALLTOALL": ("alltoall", "pairwise"),
    "REDUCE_SCATTER": ("reduce_scatter", "ring"),
    "REDUCE_SCATTER_BLOCK": ("reduce_scatter", "ring"),
}
Row = tuple[int, int, float, float]


def is_otf2(source: Source) -> bool:
    """Whether this is the anchor file of a trace, or a folder with one."""
    if source.is_file:
        return source.start.startswith(MAGIC)
    return _anchor(source) is not None


def _anchor(source: Source) -> Path | None:
    if source.is_file:
        return Path(source.path)
    try:
        files = [file for file in Path(source.path).iterdir() if file.suffix == ".otf2"]
    except (OSError, ValueError):
        return None
    return files[0] if len(files) == 1 else None


def read(source: Source, options: GraphOptions) -> CommGraph:
    """Return all sends, and collectives sent by a named algorithm."""
    options.refuse_messages()
    options.refuse_columns(source.path)
    try:
        import otf2
    except ImportError:
        raise InputError(
            "OTF2 traces need the package otf2", file=source.path, expected="pip install otf2"
        ) from None
    try:
        with otf2.reader.open(str(_anchor(source))) as trace:
            n_tasks, sends, collectives = _events(trace)
    except InputError:
        raise
    except Exception as error:
        # The package raises errors of its own for each fault.
        found = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError("damaged OTF2 trace", file=source.path, found=found) from None
    rows: list[Row] = []
    if options.include != "collective":
        rows += [(*pair, float(b), float(m)) for pair, (b, m) in sends.items()]
    if options.include != "point_to_point":
        with at_file(source.path):
            for (ranks, word, size), times in collectives.items():
                rows += _expanded(ranks, word, size, times, options)
    if not rows:
        raise InputError("OTF2 trace without a message", file=source.path)
    with at_file(source.path):
        columns = zip(*rows, strict=True)
        return sum_edges(options.n_tasks or n_tasks, *map(np.array, columns), name=options.name)


def _events(trace: Any) -> tuple[int, dict[tuple[int, int], list[int]], Counter[Any]]:
    """Number of ranks; bytes and messages by pair; how often each collective stands."""
    rank_of: dict[Any, int] = {}
    for group in trace.definitions.groups:
        kinds = (_word(group.group_type), _word(group.paradigm))
        if kinds == ("COMM_LOCATIONS", "MPI"):
            rank_of = {location: rank for rank, location in enumerate(group.members)}
    if not rank_of:
        raise InputError("OTF2 trace without ranks of MPI", expected="a trace of an MPI program")
    sends: dict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0])
    sizes: dict[Any, list[int]] = {}
    seen: Counter[Any] = Counter()
    for location, event in trace.events:
        kind = type(event).__name__
        if kind in SENDS:
            receiver = event.communicator.group.members[event.receiver]
            amount = sends[rank_of[location], rank_of[receiver]]
            amount[0] += event.msg_length
            amount[1] += 1
        elif kind == "MpiCollectiveEnd" and _word(event.collective_op) != "BARRIER":
            ranks = tuple(rank_of[member] for member in event.communicator.group.members)
            root = event.root if 0 <= event.root < len(ranks) else 0
            key = (ranks[root:] + ranks[:root], _word(event.collective_op))
            turn = (key, location)
            # The same call of every rank stands once; the largest amount is the buffer's.
            calls = sizes.setdefault(key, [])
            if seen[turn] == len(calls):
                calls.append(0)
            size = max(event.size_sent, event.size_received)
            calls[seen[turn]] = max(calls[seen[turn]], size)
            seen[turn] += 1
    calls_of = Counter((*key, size) for key, calls in sizes.items() for size in calls)
    return len(rank_of), dict(sends), calls_of


def _word(constant: Any) -> str:
    """Name of one of the package's constants, which are no enumeration of Python."""
    return str(constant).rpartition(".")[2]


def _expanded(
    ranks: tuple[int, ...], word: str, size: int, times: int, options: GraphOptions
) -> list[Row]:
    """Messages of a collective of some ranks, the root first."""
    if word not in OURS:
        known = ", ".join(OURS)
        raise InputError(
            "collective of no known algorithm",
            found=word,
            expected=f'one of {known}, or include="point_to_point" (--traffic point_to_point)',
        )
    collective, usual = OURS[word]
    algorithm = options.collectives.get(collective, usual)
    total = collective_total(collective, len(ranks), size, algorithm)
    columns = (total.src, total.dst, total.nbytes * times, total.n_messages * times)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [(ranks[s], ranks[d], b, m) for s, d, b, m in rows]


DIALECT = Dialect(
    name="otf2",
    holds="graph",
    title="OTF2 trace of Score-P and others",
    recognise=is_otf2,
    read=read,
    needs="otf2",
    documentation="""
The anchor file `traces.otf2`, or its folder. Sends of MPI count as they are. A collective is sent
by a ring (all-reduce, all-gather, reduce-scatter), a binomial tree (broadcast, reduce), pairwise
(all-to-all) or directly (gather, scatter), with the largest amount that a rank of it sent or
received; `--collectives allreduce=rabenseifner` names another algorithm, and `--traffic
point_to_point` leaves collectives out.
""",
)
