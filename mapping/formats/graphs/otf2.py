"""Communication graphs from OTF2 traces, read with the package ``otf2``.

What amounts mean was read in Score-P (scorep_mpi_coll.c, 2022), in the writer of sst-dumpi, which
follows it, and in TraceR's reader, which divides in the same way.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from toruscast.errors import InputError
from toruscast.files import check_claim

from ...comm_graph import CommGraph, sum_edges
from ..dialect import Dialect
from ..opening import at_file
from ..source import Source
from ._collectives import USUAL, added, collective_of, collective_total, edges_of
from .build import GraphOptions

MAGIC = b"\x03BOTF2"
SENDS = ("MpiSend", "MpiIsend")


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
    options.only(source.path, "include", "collectives")
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
    n_tasks = options.n_tasks or n_tasks
    parts = []
    with at_file(source.path):
        if options.include != "collective" and sends:
            src, dst = np.array(list(sends)).T
            parts.append(sum_edges(n_tasks, src, dst, *np.array(list(sends.values()), float).T))
        if options.include != "point_to_point":
            for (ranks, word, *amounts), times in collectives.items():
                parts.append(_expanded(source, ranks, word, amounts, times, n_tasks, options))
        if not any(part.n_edges for part in parts):
            raise InputError("OTF2 trace without a message")
        return added(source.path, parts, n_tasks, options.name)


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
    calls: dict[Any, list[tuple[int, int]]] = {}
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
            # The same call of every rank stands once, with the most that a rank sent and received.
            of_key = calls.setdefault(key, [])
            if seen[turn] == len(of_key):
                of_key.append((0, 0))
            sent, received = of_key[seen[turn]]
            amounts = max(sent, event.size_sent), max(received, event.size_received)
            of_key[seen[turn]] = amounts
            seen[turn] += 1
    calls_of = Counter((*key, *amounts) for key, each in calls.items() for amounts in each)
    return len(rank_of), dict(sends), calls_of


def buffer_size(collective: str, n_ranks: int, sent: int, received: int) -> float:
    """Return the size of a collective's whole buffer.

    ``sent`` and ``received`` are the most that one of its ranks has written. Score-P counts the
    vector of an all-reduce, and that of the root of a broadcast or reduction, once for each rank.
    With MPI_IN_PLACE a rank leaves its own block out.

    Examples
    --------
    >>> buffer_size("allreduce", 4, 4096, 4096), buffer_size("bcast", 4, 4096, 1024)
    (1024.0, 1024.0)
    """
    if collective == "bcast":
        return float(received or sent / n_ranks)
    if collective == "reduce":
        return float(sent or received / n_ranks)
    if collective == "gather":
        return float(sent * n_ranks if sent else received)
    if collective == "scatter":
        return float(received * n_ranks if received else sent)
    size = float(sent if collective == "reduce_scatter" else max(sent, received))
    if size % n_ranks and n_ranks > 1 and size % (n_ranks - 1) == 0:
        size += size / (n_ranks - 1)
    return size / n_ranks if collective == "allreduce" else size


def _word(constant: Any) -> str:
    """Name of one of the package's constants, which are no enumeration of Python."""
    return str(constant).rpartition(".")[2]


def _expanded(
    source: Source,
    ranks: tuple[int, ...],
    word: str,
    amounts: list[int],
    times: int,
    n_tasks: int,
    options: GraphOptions,
) -> CommGraph:
    """Messages of a collective of some ranks, the root first."""
    collective = collective_of(word)
    if collective is None:
        raise InputError(
            "collective of no known algorithm",
            found=word,
            expected=f'one of {", ".join(sorted(USUAL))}, or include="point_to_point" '
            "(--traffic point_to_point)",
        )
    group = np.array([ranks])
    check_claim(source.path, 24 * edges_of(collective, group), f"{word} of {len(ranks)} ranks")
    size = buffer_size(collective, len(ranks), *amounts)
    return collective_total(collective, group, size, options.collectives, n_tasks, times)


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
(all-to-all) or directly (gather, scatter). Amounts are read as Score-P writes them: those of an
all-reduce are as many vectors as there are ranks. `--collectives allreduce=rabenseifner` names
another algorithm, and `--traffic point_to_point` leaves collectives out.
""",
)
