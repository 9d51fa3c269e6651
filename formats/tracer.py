"""Reader of the traces that ``tracer.c`` writes, as workloads of dependent rounds.

Each rank writes a file with a header and records of 32 bytes.
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
from toruscast.typing import Bools, Floats, Ints

from ._round_kernels import COLLECTIVE, COMMUNICATOR, END, LEFT_OUT, MARK, SEND, UNEQUAL, find_data
from .dialect import Dialect
from .graphs import GraphOptions
from .rounds import Events, Rounds, build_rounds, library_family
from .source import Source, warn_about

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
# Collectives by their number in the trace. Barriers (1) send no data, so their name is "".
OPERATIONS = (
    *("", "", "bcast", "reduce", "allreduce", "gather", "scatter", "allgather"),
    *("alltoall", "reduce_scatter", "reduce"),
)
# Flag of records that concern an intercommunicator.
INTERCOMMUNICATOR = 2
MAX_RANKS = 2**20


@dataclass(frozen=True)
class _Trace:
    """The events of all ranks in a region, and properties of the run."""

    events: Events
    library: str  # version text of the MPI library
    seconds: float  # time of the last event of all ranks
    share_in_mpi: float  # mean share of the ranks' time in MPI calls; nan if no rank finished
    killed: int  # ranks whose file has no end record, because they were killed or still run
    omitted: Sequence[Omission]  # calls with unknown messages


def _is_trace(folder: Path) -> bool:
    """Whether a folder contains a trace file of rank 0."""
    first = folder / "rank-0.trace"
    with suppress(OSError, ValueError):  # not a valid file name
        # Opening a pipe would wait for its writer.
        if first.is_file():
            with first.open("rb") as file:
                return file.read(len(MAGIC)) == MAGIC
    return False


def _read_trace(folder: Path, region: object) -> _Trace:
    """Read the messages and collectives in a region from the files of all ranks."""
    header, _ = _load_rank_file(folder, 0)
    n_ranks = int(header["size"])
    if not 1 <= n_ranks <= MAX_RANKS:
        raise InputError("damaged trace", file=folder / "rank-0.trace", found=f"{n_ranks} ranks")
    ranks = [_read_rank(folder, rank, n_ranks) for rank in range(n_ranks)]
    members, numbers = _join_communicators([rank.communicators for rank in ranks])
    records_of_ranks: list[NDArray[np.void]] = []
    first, blocks = [0], {}
    omitted: list[Omission] = []
    for rank, global_numbers in zip(ranks, numbers, strict=True):
        selected = np.flatnonzero(_select_region(rank.records, region))
        records = rank.records[selected]
        communicator = np.append(global_numbers, -1)[records["communicator"]]
        # Each group of an intercommunicator records the members of the other group. Therefore
        # messages are matched without the communicator.
        communicator[(records["flags"] & INTERCOMMUNICATOR) > 0] = -1
        is_known = (records["kind"] != COLLECTIVE) | (communicator >= 0)
        records["communicator"] = communicator
        for number in np.unique(records["operation"][~is_known]):
            calls = records[~is_known & (records["operation"] == number)]
            if word := OPERATIONS[number]:
                sent = float(calls["nbytes"].sum())
                omitted.append(Omission("intercommunicator call", word, calls.size, sent))
        records_of_ranks.append(records[is_known])
        for event, index in enumerate(selected[is_known].tolist() if rank.blocks else ()):
            if index in rank.blocks:
                blocks[first[-1] + event] = rank.blocks[index]
        first.append(first[-1] + records_of_ranks[-1].size)
    records = np.concatenate(records_of_ranks)
    events = Events(
        first=np.array(first, np.int64),
        kind=records["kind"].copy(),
        peer=records["peer"].astype(np.int64),
        communicator=records["communicator"].astype(np.int64),
        tag=records["tag"].astype(np.int64),
        nbytes=records["nbytes"].astype(float),
        operation=records["operation"].astype(np.int64),
        members=members,
        operations=OPERATIONS,
        blocks=blocks,
    )
    omitted_calls = sum((rank.omitted_calls for rank in ranks), Counter[str]())
    omitted += [Omission("call", name, times) for name, times in sorted(omitted_calls.items())]
    # The version text may have several lines and end in a list of build options.
    library = header["library"].decode("utf-8", "replace").split("\n")[0].split(",")[0]
    library = " ".join(library.split())
    times = [(rank.time_in_mpi, max(1, rank.last_time)) for rank in ranks]
    shares = [time_in_mpi / time for time_in_mpi, time in times if time_in_mpi is not None]
    share = float(np.mean(shares)) if shares else float("nan")
    seconds = max(rank.last_time for rank in ranks) / 1e9
    return _Trace(events, library, seconds, share, n_ranks - len(shares), omitted)


@dataclass(frozen=True)
class _RankTrace:
    """The content of one rank's file."""

    records: NDArray[np.void]  # messages, collectives and marks
    # Local number and members of each communicator; empty members for intercommunicators.
    communicators: list[tuple[int, tuple[int, ...]]]
    # For collectives with unequal amounts: bytes to each rank, by the index in `records`.
    blocks: dict[int, Floats]
    omitted_calls: Counter[str]
    last_time: float  # nanoseconds until the last event
    time_in_mpi: float | None  # nanoseconds in MPI calls; None if the rank was killed


def _load_rank_file(folder: Path, rank: int) -> tuple[np.void, NDArray[np.void]]:
    """Return the header and the complete records of a rank's file."""
    path = folder / f"rank-{rank}.trace"
    try:
        data = np.fromfile(path, np.uint8)
    except OSError:
        n_files = sum(bool(re.fullmatch(r"rank-\d+\.trace", p.name)) for p in folder.iterdir())
        message, found = "missing trace file of a rank", f"{n_files} files"
        raise InputError(message, file=path, found=found) from None
    if data.size < HEAD.itemsize or data[:8].tobytes() != MAGIC:
        raise InputError("damaged trace", file=path, found="no header", expected="TCTRACE1")
    header = data[: HEAD.itemsize].view(HEAD)[0]
    content = data[HEAD.itemsize :]
    # The file of a killed run may end with an incomplete record.
    return header, content[: content.size // RECORD.itemsize * RECORD.itemsize].view(RECORD)


def _read_rank(folder: Path, rank: int, size: int) -> _RankTrace:
    """Read the events of a rank, whose file must belong to a run with ``size`` ranks."""
    header, records = _load_rank_file(folder, rank)
    path = folder / f"rank-{rank}.trace"
    if int(header["rank"]) != rank or int(header["size"]) != size:
        found, expected = f"rank {header['rank']} of {header['size']}", f"{rank} of {size}"
        raise InputError("trace of another run", file=path, found=found, expected=expected)
    is_data = np.zeros(records.size, bool)
    kind, flags, communicator, nbytes = (
        np.ascontiguousarray(records[name]) for name in ("kind", "flags", "communicator", "nbytes")
    )
    bad = find_data(kind, flags, communicator, nbytes, is_data)
    if bad >= 0:
        at_byte = HEAD.itemsize + RECORD.itemsize * bad
        raise InputError("damaged trace", file=path, found=f"no record at byte {at_byte}")
    kind = np.where(is_data, 0, kind)
    # The kinds SEND, RECEIVE and COLLECTIVE have consecutive numbers.
    is_event = ((kind >= SEND) & (kind <= COLLECTIVE)) | (kind == MARK)
    event_index = np.cumsum(is_event) - 1
    # The data of record i start at content[i + 1].
    content = records.view(np.uint8).reshape(-1, RECORD.itemsize)
    communicators, sizes = [], {}
    for i in np.flatnonzero(kind == COMMUNICATOR):
        number, n = int(communicator[i]), int(nbytes[i])
        members = content[i + 1 :].reshape(-1)[: 4 * n].view("<i4")
        sizes[number] = n
        if members.size == n:
            group = () if flags[i] & INTERCOMMUNICATOR else tuple(members.tolist())
            communicators.append((number, group))
    blocks = {}
    for i in np.flatnonzero((kind == COLLECTIVE) & ((flags & UNEQUAL) > 0)):
        data = content[i + 1 :].reshape(-1)[: 8 * sizes.get(int(communicator[i]), 0)]
        blocks[int(event_index[i])] = data.view("<u8").astype(float)
    omitted_calls: Counter[str] = Counter()
    for i in np.flatnonzero(kind[:-1] == LEFT_OUT):
        name = content[i + 1].tobytes().split(b"\0")[0].decode("ascii", "replace")
        omitted_calls[name] = int(nbytes[i])
    end_records = np.flatnonzero(kind == END)
    time_in_mpi = float(nbytes[end_records[-1]]) if end_records.size else None
    times = records["nanoseconds"][~is_data]
    last_time = float(times[-1]) if times.size else 0.0
    events = records[is_event]
    if (operation := events["operation"].max(initial=0)) >= len(OPERATIONS):
        raise InputError("damaged trace", file=path, found=f"operation {operation}")
    return _RankTrace(events, communicators, blocks, omitted_calls, last_time, time_in_mpi)


def _select_region(records: NDArray[np.void], region: object) -> Bools:
    """Return which records are messages or collectives in the region."""
    selected = records["kind"] != MARK
    if limits := parse_region(region):
        seconds = records["nanoseconds"] / 1e9
        selected &= (seconds >= limits[0]) & (seconds < limits[1])
    if region == "marked":
        # MPI_Pcontrol sets the level; records are selected while it is above 0.
        level = np.where(records["kind"] == MARK, records["tag"], -1)
        last = np.maximum.accumulate(np.where(level >= 0, np.arange(level.size), -1))
        selected &= (last >= 0) & (level[last] > 0)
    return np.asarray(selected)


def _join_communicators(
    of_ranks: list[list[tuple[int, tuple[int, ...]]]],
) -> tuple[dict[int, tuple[int, ...]], list[Ints]]:
    """Number communicators globally, because each rank has its own numbers for them.

    Return the members of each communicator by its global number and, for each rank, an array of the
    global number (-1 for none) of each of the rank's own numbers. All ranks of a group create the
    group's communicators in the same order, so their n-th communicators are the same.
    """
    members: dict[int, tuple[int, ...]] = {}
    number_by_key: dict[tuple[tuple[int, ...], int], int] = {}
    numbers = []
    for communicators in of_ranks:
        global_number = np.full(1 + max((n for n, _ in communicators), default=-1), -1, np.int64)
        occurrences: Counter[tuple[int, ...]] = Counter()
        for number, group in communicators:
            if group:
                key = (group, occurrences[group])
                occurrences[group] += 1
                global_number[number] = number_by_key.setdefault(key, len(number_by_key))
                members[number_by_key[key]] = group
        numbers.append(global_number)
    return members, numbers


REGIONS = ("iteration", "all", "marked")


def _read_trace_folder(source: Source, options: GraphOptions) -> Workload:
    trace, rounds = _read_rounds(Path(source.path), options)
    options.check_n_tasks(trace.events.n_tasks, source.path)
    for warning in _list_warnings(trace, rounds):
        warn_about(source.path, warning)
    return rounds.workload


def _read_rounds(folder: Path, options: GraphOptions) -> tuple[_Trace, Rounds]:
    """Return a folder's trace, and its rounds in the region that the folder's settings name."""
    settings = None
    with suppress(OSError, ValueError):
        settings = json.loads((folder / SETTINGS).read_text())
    region = settings.get("region", "iteration") if isinstance(settings, dict) else "iteration"
    with at_file(folder):
        trace = _read_trace(folder, region)
        options.omitted.extend(trace.omitted)
        rounds = build_rounds(
            trace.events,
            name=options.name,
            algorithms=options.collectives,
            library=trace.library,
            fold=region == "iteration",
        )
    options.omitted.extend(rounds.omitted)
    return trace, rounds


def parse_region(region: object) -> tuple[float, float] | None:
    """Return the seconds of a region such as "2.5-4"; None for a named region."""
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


def describe_trace(folder: Path) -> list[str]:
    """Return lines about a trace for ``toruscast doctor`` and ``toruscast trace``."""
    options = GraphOptions()
    trace, rounds = _read_rounds(folder, options)
    ranks = f"{counted(trace.events.n_tasks, 'rank')} of {trace.library}"
    duration = f"{counted(rounds.n_rounds, 'round')} in {trace.seconds:.3g} s"
    lines = ["; ".join(filter(None, [ranks, duration, rounds.repeats_text]))]
    if not np.isnan(trace.share_in_mpi):
        lines.append(f"{percent(trace.share_in_mpi)} of the time in MPI")
    if rounds.algorithms:
        calls = sorted(rounds.algorithms.items(), key=lambda item: -item[1])
        algorithms = ", ".join(f"{name} ({n_calls})" for name, n_calls in calls)
        rules = "the rules of the library" if library_family(trace.library) else "general rules"
        lines.append(f"collective algorithms by {rules}: {algorithms}")
    omissions = describe_omissions(merge_omissions(options.omitted))
    return [*lines, *filter(None, [omissions]), *_list_warnings(trace, rounds)]


def _list_warnings(trace: _Trace, rounds: Rounds) -> list[str]:
    ranks = counted(trace.killed, "rank")
    killed = f"{ranks} did not finish; the last messages may be missing" if trace.killed else ""
    return [text for text in (killed, rounds.unmatched_text) if text]


DIALECT = Dialect(
    name="trace",
    uses=("collectives",),
    holds="graph",
    title="trace folder of toruscast trace",
    recognise=lambda source: not source.is_file and _is_trace(Path(source.path)),
    read=_read_trace_folder,
    describe=lambda source: describe_trace(Path(source.path)),
    documentation="""
A folder that `toruscast trace -- mpirun ... app` wrote. Rounds are defined as for `chakra`. If an
iteration repeats, the mean of all iterations is read. Collectives use the algorithm that Open MPI
4.1 or MPICH 4 selects for their size and ranks; `--collectives` selects others.
""",
)
DIALECTS = (DIALECT,)
