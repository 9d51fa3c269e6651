"""Traces of running programs: files of ``tracer.c``, one a rank, as workloads of dependent rounds.

A file has a head and records of 32 bytes.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from toruscast.errors import InputError
from toruscast.files import at_file
from toruscast.mapping.comm_graph import Workload
from toruscast.mapping.omissions import Omission, describe_omissions, merge_omissions
from toruscast.text import counted, percent

from ._round_kernels import COLLECTIVE, COMMUNICATOR, END, LEFT_OUT, MARK, find_data
from .dialect import Dialect
from .graphs import GraphOptions
from .rounds import Events, Rounds, family_of, rounds_of
from .source import Source, warn_of

MAGIC = b"TCTRACE1"
SETTINGS = "trace.json"
RECORD = np.dtype(
    [
        ("kind", "u1"),
        ("operation", "u1"),
        ("flags", "<u2"),
        ("peer", "<i4"),
        ("communicator", "<i4"),
        ("tag", "<i4"),
        ("nbytes", "<u8"),
        ("nanoseconds", "<u8"),
    ]
)
HEAD = np.dtype(
    [("magic", "S8"), ("rank", "<i4"), ("size", "<i4"), ("epoch", "<u8"), ("library", "S40")]
)
# Place of each is the number that the tracer gives it; a barrier sends nothing of note.
OPERATIONS = (
    *("", "", "bcast", "reduce", "allreduce", "gather", "scatter", "allgather"),
    *("alltoall", "reduce_scatter", "reduce"),
)
INTERCOMMUNICATOR = 2
MAX_RANKS = 2**20


@dataclass(frozen=True)
class Trace:
    """The events of a traced run, and other contents of its files."""

    events: Events
    # The MPI library, as it names itself.
    library: str
    # From the first to the last event of any rank.
    seconds: float
    # Share of that time inside of MPI, mean of the ranks; nan where no rank came to its end.
    share_in_mpi: float
    # Ranks whose file has no end: the run was killed, or still goes on.
    killed: int
    # Calls whose messages are not known.
    omitted: Sequence[Omission]


def is_trace(folder: Path) -> bool:
    """Whether a folder holds the trace of a run."""
    first = folder / "rank-0.trace"
    try:
        # Opening a pipe would wait for its writer.
        if not first.is_file():
            return False
        with first.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except (OSError, ValueError):  # a name that no file can have
        return False


def read_trace(folder: Path, region: object = "all") -> Trace:
    """Return the events of a traced run in a region (see `region_of`)."""
    head, _ = _rank_file(folder, 0)
    size = int(head["size"])
    if not 1 <= size <= MAX_RANKS:
        raise InputError("damaged trace", file=folder / "rank-0.trace", found=f"{size} ranks")
    ranks = [_read_rank(folder, rank, size) for rank in range(size)]
    members, numbers = _join_communicators([rank.communicators for rank in ranks])
    parts: list[NDArray[np.void]] = []
    first, blocks = [0], {}
    omitted: list[Omission] = []
    for rank, number in zip(ranks, numbers, strict=True):
        chosen = np.flatnonzero(_in_region(rank.records, region))
        local = rank.records[chosen]
        own = np.append(number, -1)[local["communicator"]]
        # The two groups of an intercommunicator name its other side: its messages match without it.
        own[(local["flags"] & INTERCOMMUNICATOR) > 0] = -1
        kept = (local["kind"] != COLLECTIVE) | (own >= 0)
        local["communicator"] = own
        for place in np.unique(local["operation"][~kept]):
            call = local[~kept & (local["operation"] == place)]
            if word := OPERATIONS[place]:
                sent = float(call["nbytes"].sum())
                omitted.append(Omission("call between two groups", word, call.size, sent))
        chosen, local = chosen[kept], local[kept]
        parts.append(local)
        for event, place in enumerate(rank.places[chosen].tolist() if rank.blocks else ()):
            if place in rank.blocks:
                blocks[first[-1] + event] = rank.blocks[place]
        first.append(first[-1] + local.size)
    every = np.concatenate(parts)
    events = Events(
        np.array(first, np.int64),
        every["kind"].copy(),
        every["peer"].astype(np.int64),
        every["communicator"].astype(np.int64),
        every["tag"].astype(np.int64),
        every["nbytes"].astype(float),
        every["operation"].astype(np.int64),
        members,
        OPERATIONS,
        blocks,
    )
    left_out = sum((rank.left_out for rank in ranks), Counter[str]())
    omitted += [Omission("call", name, times) for name, times in sorted(left_out.items()) if times]
    library = " ".join(
        head["library"].decode("utf-8", "replace").split("\n")[0].split(",")[0].split()
    )
    in_mpi = [rank.in_mpi / max(1, rank.last) for rank in ranks if rank.end]
    share = float(np.mean(in_mpi)) if in_mpi else float("nan")
    seconds = max(rank.last for rank in ranks) / 1e9
    return Trace(events, library, seconds, share, size - len(in_mpi), omitted)


@dataclass(frozen=True)
class _RankTrace:
    records: NDArray[np.void]
    places: NDArray[np.int64]
    communicators: list[tuple[int, tuple[int, ...], bool]]
    blocks: dict[int, NDArray[np.float64]]
    left_out: Counter[str]
    in_mpi: float
    last: float
    end: bool


def _rank_file(folder: Path, rank: int) -> tuple[np.void, NDArray[np.void]]:
    path = folder / f"rank-{rank}.trace"
    try:
        data = np.fromfile(path, np.uint8)
    except OSError:
        there = sum(bool(re.fullmatch(r"rank-\d+\.trace", p.name)) for p in folder.iterdir())
        raise InputError(
            "trace without the file of a rank", file=path, found=f"{there} files of ranks"
        ) from None
    if data.size < HEAD.itemsize or data[:8].tobytes() != MAGIC:
        raise InputError("damaged trace", file=path, found="no head", expected="TCTRACE1")
    head = data[: HEAD.itemsize].view(HEAD)[0]
    body = data[HEAD.itemsize :]
    # A run that is killed may leave part of a record.
    return head, body[: body.size // RECORD.itemsize * RECORD.itemsize].view(RECORD)


def _read_rank(folder: Path, rank: int, size: int) -> _RankTrace:
    head, records = _rank_file(folder, rank)
    path = folder / f"rank-{rank}.trace"
    if int(head["rank"]) != rank or int(head["size"]) != size:
        found = f"rank {head['rank']} of {head['size']}"
        raise InputError(
            "trace of another run", file=path, found=found, expected=f"{rank} of {size}"
        )
    is_data = np.zeros(records.size, bool)
    kind, flags, communicator, nbytes = (
        np.ascontiguousarray(records[name]) for name in ("kind", "flags", "communicator", "nbytes")
    )
    bad = find_data(kind, flags, communicator, nbytes, is_data)
    if bad >= 0:
        raise InputError("damaged trace", file=path, found=f"no record at byte {64 + 32 * bad}")
    raw = records.view(np.uint8).reshape(-1, RECORD.itemsize)
    communicators, sizes = [], {}
    for place in np.flatnonzero((records["kind"] == COMMUNICATOR) & ~is_data):
        record = records[place]
        n = int(record["nbytes"])
        members = raw[place + 1 :].reshape(-1)[: 4 * n].view("<i4")
        sizes[int(record["communicator"])] = n
        if members.size == n:
            inter = bool(record["flags"] & INTERCOMMUNICATOR)
            communicators.append((int(record["communicator"]), tuple(members.tolist()), inter))
    blocks = {}
    with_blocks = (records["kind"] == COLLECTIVE) & ((records["flags"] & 4) > 0) & ~is_data
    for place in np.flatnonzero(with_blocks):
        n = sizes.get(int(records["communicator"][place]), 0)
        blocks[int(place)] = raw[place + 1 :].reshape(-1)[: 8 * n].view("<u8").astype(float)
    left_out: Counter[str] = Counter()
    for place in np.flatnonzero((records["kind"] == LEFT_OUT) & ~is_data):
        if place + 1 < records.size:
            name = raw[place + 1].tobytes().split(b"\0")[0].decode("ascii", "replace")
            left_out[name] = int(records["nbytes"][place])
    ends = np.flatnonzero((records["kind"] == END) & ~is_data)
    in_mpi = float(records["nbytes"][ends[-1]]) if ends.size else 0.0
    timed = records["nanoseconds"][~is_data]
    last = float(timed[-1]) if timed.size else 0.0
    kept = ~is_data & ((records["kind"] <= COLLECTIVE) | (records["kind"] == MARK))
    places = np.flatnonzero(kept)
    if (found := records["operation"][places].max(initial=0)) >= len(OPERATIONS):
        raise InputError("damaged trace", file=path, found=f"operation {found}")
    return _RankTrace(
        records[places], places, communicators, blocks, left_out, in_mpi, last, bool(ends.size)
    )


def _in_region(records: NDArray[np.void], region: object) -> NDArray[np.bool_]:
    """Whether each record is a message or collective in the region."""
    chosen = records["kind"] != MARK
    if between := region_of(region):
        seconds = records["nanoseconds"] / 1e9
        chosen &= (seconds >= between[0]) & (seconds < between[1])
    if region == "marked":
        level = np.where(records["kind"] == MARK, records["tag"], -1)
        last = np.maximum.accumulate(np.where(level >= 0, np.arange(level.size), -1))
        chosen &= (last >= 0) & (level[last] > 0)
    return np.asarray(chosen)


def _join_communicators(
    of_ranks: list[list[tuple[int, tuple[int, ...], bool]]],
) -> tuple[dict[int, tuple[int, ...]], list[NDArray[np.int64]]]:
    """Members of each communicator, and its number by the number that each rank gave it."""
    members: dict[int, tuple[int, ...]] = {}
    known: dict[tuple[tuple[int, ...], int], int] = {}
    numbers = []
    for made in of_ranks:
        own = np.full(1 + max((n for n, _, _ in made), default=-1), -1, np.int64)
        seen: dict[tuple[int, ...], int] = {}
        for number, group, inter in made:
            if inter:
                continue
            turn = seen[group] = seen.get(group, -1) + 1
            key = (group, turn)
            if key not in known:
                known[key] = len(known)
                members[known[key]] = group
            own[number] = known[key]
        numbers.append(own)
    return members, numbers


REGIONS = ("iteration", "all", "marked")


def read(source: Source, options: GraphOptions) -> Workload:
    """Return the rounds of the region that the trace was made for."""
    trace, rounds = rounds_of_folder(Path(source.path), options)
    options.agree(trace.events.n_tasks, source.path)
    for fault in _trace_faults(trace, rounds):
        warn_of(source.path, fault)
    return rounds.workload


def rounds_of_folder(folder: Path, options: GraphOptions) -> tuple[Trace, Rounds]:
    """Return a trace, and the rounds of its region."""
    settings = None
    with suppress(OSError, ValueError):
        settings = json.loads((folder / SETTINGS).read_text())
    region = settings.get("region", "iteration") if isinstance(settings, dict) else "iteration"
    with at_file(folder):
        trace = read_trace(folder, region)
        options.omitted.extend(trace.omitted)
        rounds = rounds_of(
            trace.events,
            name=options.name,
            algorithms=options.collectives,
            library=trace.library,
            fold=region == "iteration",
        )
    options.omitted.extend(rounds.omitted)
    return trace, rounds


def region_of(region: object) -> tuple[float, float] | None:
    """Return the seconds of a region such as "2.5-4"; None for one with a name."""
    if region in REGIONS:
        return None
    try:
        begin, end = (float(part) for part in str(region).split("-"))
    except ValueError:
        begin, end = 1.0, 0.0
    if not 0 <= begin < end:
        expected = f"{', '.join(REGIONS)}, or seconds such as 2.5-4"
        raise InputError("bad region", found=region, expected=expected)
    return begin, end


def described(folder: Path) -> list[str]:
    """Return a description of a trace in lines."""
    options = GraphOptions()
    trace, rounds = rounds_of_folder(folder, options)
    found = f"{counted(rounds.n_rounds, 'round')} in {trace.seconds:.3g} s"
    parts = [f"{counted(trace.events.n_tasks, 'rank')} of {trace.library}", found]
    lines = ["; ".join([*parts, *filter(None, [rounds.repeats_text])])]
    if trace.share_in_mpi == trace.share_in_mpi:
        lines.append(f"{percent(trace.share_in_mpi)} of the time inside of MPI")
    if rounds.algorithms:
        calls = sorted(rounds.algorithms.items(), key=lambda item: -item[1])
        taken = ", ".join(f"{name} ({count})" for name, count in calls)
        rules = "the library's own rules" if family_of(trace.library) else "general rules"
        lines.append(f"collectives, by {rules}: {taken}")
    lines += filter(None, [describe_omissions(merge_omissions(options.omitted))])
    return lines + _trace_faults(trace, rounds)


def _trace_faults(trace: Trace, rounds: Rounds) -> list[str]:
    faults = []
    if trace.killed:
        faults.append(f"{counted(trace.killed, 'rank')} did not end: the last messages may be lost")
    return [*faults, *filter(None, [rounds.unmatched_text])]


DIALECT = Dialect(
    name="trace",
    uses=("collectives",),
    holds="graph",
    title="trace of toruscast trace",
    recognise=lambda source: not source.is_file and is_trace(Path(source.path)),
    read=read,
    describe=lambda source: described(Path(source.path)),
    documentation="""
A folder that `toruscast trace -- mpirun ... app` wrote. Rounds are those of `chakra`. Of an
iteration that repeats, one is read: the mean of all. A collective takes the algorithm that Open MPI
4.1 or MPICH 4 takes for its size and ranks; `--collectives` names another one.
""",
)
DIALECTS = (DIALECT,)
