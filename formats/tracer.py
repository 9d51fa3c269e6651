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

from ._round_kernels import COLLECTIVE, COMMUNICATOR, END, LEFT_OUT, MARK, find_data
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
INTERCOMMUNICATOR = 2
MAX_RANKS = 2**20


@dataclass(frozen=True)
class _Trace:
    events: Events
    # Version text of the MPI library.
    library: str
    # Time of the last event of all ranks.
    seconds: float
    # Mean share of the ranks' time in MPI calls; nan if no rank finished.
    share_in_mpi: float
    # Number of ranks whose file has no end record, since they were killed or still run.
    killed: int
    # Calls with unknown messages.
    omitted: Sequence[Omission]


def _is_trace(folder: Path) -> bool:
    first = folder / "rank-0.trace"
    try:
        # Opening a pipe would wait for its writer.
        if not first.is_file():
            return False
        with first.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except (OSError, ValueError):  # not a valid file name
        return False


def _read_trace(folder: Path, region: object = "all") -> _Trace:
    """Read the events of all ranks in a region."""
    header, _ = _load_rank_file(folder, 0)
    n_ranks = int(header["size"])
    if not 1 <= n_ranks <= MAX_RANKS:
        raise InputError("damaged trace", file=folder / "rank-0.trace", found=f"{n_ranks} ranks")
    ranks = [_read_rank(folder, rank, n_ranks) for rank in range(n_ranks)]
    members, numbers = _join_communicators([rank.communicators for rank in ranks])
    parts: list[NDArray[np.void]] = []
    first, blocks = [0], {}
    omitted: list[Omission] = []
    for rank, numbers_of_rank in zip(ranks, numbers, strict=True):
        selected = np.flatnonzero(_select_region(rank.records, region))
        local = rank.records[selected]
        communicator = np.append(numbers_of_rank, -1)[local["communicator"]]
        # Each group of an intercommunicator records the members of the other one. Messages are
        # matched without the communicator.
        communicator[(local["flags"] & INTERCOMMUNICATOR) > 0] = -1
        kept = (local["kind"] != COLLECTIVE) | (communicator >= 0)
        local["communicator"] = communicator
        for position in np.unique(local["operation"][~kept]):
            call = local[~kept & (local["operation"] == position)]
            if word := OPERATIONS[position]:
                sent = float(call["nbytes"].sum())
                omitted.append(Omission("intercommunicator call", word, call.size, sent))
        selected, local = selected[kept], local[kept]
        parts.append(local)
        for event, index in enumerate(selected.tolist() if rank.blocks else ()):
            if index in rank.blocks:
                blocks[first[-1] + event] = rank.blocks[index]
        first.append(first[-1] + local.size)
    all_records = np.concatenate(parts)
    events = Events(
        np.array(first, np.int64),
        all_records["kind"].copy(),
        all_records["peer"].astype(np.int64),
        all_records["communicator"].astype(np.int64),
        all_records["tag"].astype(np.int64),
        all_records["nbytes"].astype(float),
        all_records["operation"].astype(np.int64),
        members,
        OPERATIONS,
        blocks,
    )
    calls = sorted(sum((rank.omitted_calls for rank in ranks), Counter[str]()).items())
    omitted += [Omission("call", name, times) for name, times in calls if times]
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
    # Messages, collectives and marks.
    records: NDArray[np.void]
    # Local number and members of each communicator; without members for intercommunicators.
    communicators: list[tuple[int, tuple[int, ...]]]
    # Bytes to each rank, by the index of a collective with unequal amounts in `records`.
    blocks: dict[int, Floats]
    omitted_calls: Counter[str]
    # Nanoseconds until the last event, and in MPI calls; the latter is None if the rank was killed.
    last_time: float
    time_in_mpi: float | None


def _load_rank_file(folder: Path, rank: int) -> tuple[np.void, NDArray[np.void]]:
    """Return the header and the records of a rank's file."""
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
    """Read the file of a rank, and check that it belongs to a run with ``size`` ranks."""
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
        raise InputError("damaged trace", file=path, found=f"no record at byte {64 + 32 * bad}")
    kept = ~is_data & ((records["kind"] <= COLLECTIVE) | (records["kind"] == MARK))
    kept_index = np.cumsum(kept) - 1
    raw = records.view(np.uint8).reshape(-1, RECORD.itemsize)
    communicators, sizes = [], {}
    for index in np.flatnonzero((records["kind"] == COMMUNICATOR) & ~is_data):
        record = records[index]
        n = int(record["nbytes"])
        members = raw[index + 1 :].reshape(-1)[: 4 * n].view("<i4")
        sizes[int(record["communicator"])] = n
        if members.size == n:
            group = () if record["flags"] & INTERCOMMUNICATOR else tuple(members.tolist())
            communicators.append((int(record["communicator"]), group))
    blocks = {}
    with_blocks = (records["kind"] == COLLECTIVE) & ((records["flags"] & 4) > 0) & ~is_data
    for index in np.flatnonzero(with_blocks):
        n = sizes.get(int(records["communicator"][index]), 0)
        blocks[int(kept_index[index])] = (
            raw[index + 1 :].reshape(-1)[: 8 * n].view("<u8").astype(float)
        )
    omitted_calls: Counter[str] = Counter()
    for index in np.flatnonzero((records["kind"] == LEFT_OUT) & ~is_data):
        if index + 1 < records.size:
            name = raw[index + 1].tobytes().split(b"\0")[0].decode("ascii", "replace")
            omitted_calls[name] = int(records["nbytes"][index])
    end_records = np.flatnonzero((records["kind"] == END) & ~is_data)
    time_in_mpi = float(records["nbytes"][end_records[-1]]) if end_records.size else None
    times = records["nanoseconds"][~is_data]
    last_time = float(times[-1]) if times.size else 0.0
    if (operation := records["operation"][kept].max(initial=0)) >= len(OPERATIONS):
        raise InputError("damaged trace", file=path, found=f"operation {operation}")
    return _RankTrace(records[kept], communicators, blocks, omitted_calls, last_time, time_in_mpi)


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
    """Give communicators global numbers.

    Return the members of each communicator by its global number, and for each rank an array that
    maps the rank's own numbers to global ones, -1 where it has none.

    Ranks create the communicators of a group in the same order, so the n-th ones are the same.
    """
    members: dict[int, tuple[int, ...]] = {}
    number_by_key: dict[tuple[tuple[int, ...], int], int] = {}
    numbers = []
    for communicators in of_ranks:
        global_number = np.full(1 + max((n for n, _ in communicators), default=-1), -1, np.int64)
        repetitions: Counter[tuple[int, ...]] = Counter()
        for number, group in communicators:
            if not group:
                continue
            key = (group, repetitions[group])
            repetitions[group] += 1
            global_number[number] = number_by_key.setdefault(key, len(number_by_key))
            members[number_by_key[key]] = group
        numbers.append(global_number)
    return members, numbers


REGIONS = ("iteration", "all", "marked")


def _read_trace_folder(source: Source, options: GraphOptions) -> Workload:
    trace, rounds = _read_rounds(Path(source.path), options)
    options.check_n_tasks(trace.events.n_tasks, source.path)
    for fault in _trace_warnings(trace, rounds):
        warn_about(source.path, fault)
    return rounds.workload


def _read_rounds(folder: Path, options: GraphOptions) -> tuple[_Trace, Rounds]:
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
    size_text = f"{counted(rounds.n_rounds, 'round')} in {trace.seconds:.3g} s"
    facts = [f"{counted(trace.events.n_tasks, 'rank')} of {trace.library}", size_text]
    lines = ["; ".join([*facts, *filter(None, [rounds.repeats_text])])]
    if trace.share_in_mpi == trace.share_in_mpi:
        lines.append(f"{percent(trace.share_in_mpi)} of the time in MPI")
    if rounds.algorithms:
        calls = sorted(rounds.algorithms.items(), key=lambda item: -item[1])
        counts_text = ", ".join(f"{name} ({count})" for name, count in calls)
        rules = "the rules of the library" if library_family(trace.library) else "general rules"
        lines.append(f"collective algorithms by {rules}: {counts_text}")
    lines += filter(None, [describe_omissions(merge_omissions(options.omitted))])
    return lines + _trace_warnings(trace, rounds)


def _trace_warnings(trace: _Trace, rounds: Rounds) -> list[str]:
    warnings = []
    if trace.killed:
        ranks = counted(trace.killed, "rank")
        warnings.append(f"{ranks} did not finish; the last messages may be missing")
    return [*warnings, *filter(None, [rounds.unmatched_text])]


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
