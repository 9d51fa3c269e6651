"""Communication graphs from OTF2 traces, read with the package ``otf2``.

What amounts mean was read in Score-P (scorep_mpi_coll.c, 2022), in the writer of sst-dumpi, which
follows it, and in TraceR's reader, which divides in the same way.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from toruscast.errors import InputError

from ...collectives.schedule import collective_named
from ...trace.library_rules import COLLECTIVES
from ...workload import Workload
from ..dialect import Dialect
from ..source import Source, as_damaged
from ._collectives import RankActions
from .build import GraphOptions

MAGIC = b"\x03BOTF2"
SENDS = ("MpiSend", "MpiIsend")
RECEIVES = ("MpiRecv", "MpiIrecv")
COLLECTIVE = "MpiCollectiveEnd"
ROOTED = ("bcast", "reduce", "gather", "scatter")
# These synchronise at most.
SILENT = (
    *("BARRIER", "CREATE_HANDLE", "DESTROY_HANDLE", "ALLOCATE", "DEALLOCATE"),
    *("CREATE_HANDLE_AND_ALLOCATE", "DESTROY_HANDLE_AND_DEALLOCATE"),
)


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


def read(source: Source, options: GraphOptions) -> Workload:
    """Return the rounds of all sends, and of collectives sent by a named algorithm."""
    options.only(source.path, "include", "collectives")
    try:
        import otf2
    except ImportError:
        raise InputError(
            "OTF2 traces need the package otf2", file=source.path, expected="pip install otf2"
        ) from None
    with as_damaged(source.path, "OTF2 trace"), otf2.reader.open(str(_anchor(source))) as trace:
        n_tasks, program = _events(trace, options)
    return program.rounds(source.path, options.n_tasks or n_tasks, options)


def _events(trace: Any, options: GraphOptions) -> tuple[int, RankActions]:
    """Number of ranks, and what they did."""
    rank_of: dict[Any, int] = {}
    for group in trace.definitions.groups:
        kinds = (_word(group.group_type), _word(group.paradigm))
        if kinds == ("COMM_LOCATIONS", "MPI"):
            rank_of = {location: rank for rank, location in enumerate(group.members)}
    if not rank_of:
        raise InputError("OTF2 trace without ranks of MPI", expected="a trace of an MPI program")
    program = RankActions()
    numbers: dict[Any, int] = {}
    # The most that a rank sent and received, by call.
    amounts: dict[tuple[int, int], tuple[str, int, int]] = {}
    for location, event in trace.events:
        kind = type(event).__name__
        if kind not in (*SENDS, *RECEIVES, COLLECTIVE):
            continue
        task = rank_of[location]
        number = numbers.setdefault(event.communicator, len(numbers))
        if number not in program.members:
            members = event.communicator.group.members
            program.members[number] = tuple(rank_of[member] for member in members)
        # The group of a communicator of one rank lists none.
        ranks = program.members[number] or (task,)
        if kind in SENDS:
            peer = ranks[event.receiver]
            program.send(task, peer, event.msg_length, number, event.msg_tag)
        elif kind in RECEIVES:
            program.receive(task, ranks[event.sender], number, event.msg_tag)
        elif len(ranks) > 1 and options.include != "point_to_point":
            collective = _collective(event)
            root = ranks[event.root] if collective in ROOTED else -1
            key = program.collective(task, number, collective, root)
            _, sent, received = amounts.get(key, ("", 0, 0))
            sent, received = max(sent, event.size_sent), max(received, event.size_received)
            amounts[key] = (collective, sent, received)
    for key, (collective, sent, received) in amounts.items():
        if collective:
            size = buffer_size(collective, len(program.members[key[0]]), sent, received)
            program.sizes[key] = size
    return len(rank_of), program


def _collective(event: Any) -> str:
    """Our name of a collective; none of a barrier, and of calls that make communicators."""
    word = _word(event.collective_op)
    if word in SILENT:
        return ""
    collective = collective_named(word)
    if collective not in COLLECTIVES:
        raise InputError(
            "collective of no known algorithm",
            found=word,
            expected=f'one of {", ".join(sorted(COLLECTIVES))}, or include="point_to_point" '
            "(--include point_to_point)",
        )
    return collective


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


DIALECT = Dialect(
    name="otf2",
    holds="graph",
    title="OTF2 trace of Score-P and others",
    recognise=is_otf2,
    read=read,
    needs="otf2",
    documentation="""
The anchor file `traces.otf2`, or its folder. It becomes a workload of dependent rounds: a send
falls into the round after the latest message that its rank had received before it, and a collective
begins when its last rank has reached it. Of more than 1,000 rounds of which some repeat, one
iteration is read, the mean of all. A collective is sent
by a ring (all-reduce, all-gather, reduce-scatter), a binomial tree (broadcast, reduce), pairwise
(all-to-all) or directly (gather, scatter). Amounts are read as Score-P writes them: those of an
all-reduce are as many vectors as there are ranks. `--collectives allreduce=rabenseifner` names
another algorithm, and `--include point_to_point` leaves collectives out.
""",
)
