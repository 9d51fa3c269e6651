"""Communication graphs from the monitoring output of Open MPI (``pml_monitoring_enable``)."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from toruscast.errors import InputError
from toruscast.wording import counted

from ...comm_graph import MAX_TASKS, CommGraph, sum_edges
from ...trace.reading import is_trace
from ..dialect import Dialect
from ..opening import Text, at_file, read_text
from ..source import Source
from .build import GraphOptions, Include
from .chakra import is_chakra
from .otf2 import is_otf2

# E: sent by the application; I: sent within collectives; S, R: one-sided, put and got.
KINDS = {"all": "EISR", "point_to_point": "E", "collective": "I"}
AMOUNT = r"([0-9]{1,18}) bytes\t([0-9]{1,18}) msgs sent"
EDGE = re.compile(rf"([EISRC])\t([0-9]{{1,9}})\t([0-9]{{1,9}})\t{AMOUNT}(?:\t[0-9,]*)?")
SUMMARY = re.compile(rf"(?:O2A|A2O|A2A)\t[0-9]{{1,9}}\t{AMOUNT}")
START = re.compile(rb"# POINT TO POINT|# OSC|# COLLECTIVES|([EISRC]|O2A|A2O|A2A|D)\t")
COMMUNICATOR = re.compile(r"D\t.*\tprocs: ([0-9,]*)")


@dataclass
class _Traffic:
    """The lines read so far."""

    kinds: str
    edges: list[tuple[int, int, int, int]] = field(default_factory=list)
    senders: set[int] = field(default_factory=set)
    largest: int = -1
    n_files: int = 0


def is_open_mpi(source: Source) -> bool:
    """Whether this is monitoring output, or a folder or prefix that may hold some."""
    if not source.is_file:
        others = is_trace(Path(source.path)), is_chakra(source), is_otf2(source)
        return not any(others)
    return bool(START.match(source.start.lstrip()[:200]))


def read(source: Source, options: GraphOptions) -> CommGraph:
    """Return the graph of a folder, of a prefix, or of all ranks in one file."""
    options.only(source.path, "include")
    if source.is_file:
        return read_all_ranks(source.text, options.include, options.n_tasks, options.name)
    return read_rank_files(Path(source.path), options.include, options.n_tasks, options.name)


def rank_files(path: Path) -> dict[int, Path]:
    """Return the monitoring files, by rank, in folder ``path`` or with the prefix ``path``."""
    with at_file(path):
        folder = path if path.is_dir() else path.parent
        start = "(.*)" if folder == path else f"({re.escape(path.name)})"
        pattern = re.compile(start + r"\.([0-9]{1,9})\.prof(?:\.gz)?")
        names = [file.name for file in folder.iterdir()] if folder.is_dir() else []
        matches = [pattern.fullmatch(name) for name in names]
    found = sorted((m[1], int(m[2]), m[0]) for m in matches if m)
    if not found:
        with at_file(path):
            path.stat()
        expected = "files such as lj.0.prof"
        raise InputError("no monitoring files in folder", file=path, expected=expected)
    if found[0][0] != found[-1][0]:
        prefixes = f"{found[0][0]} and {found[-1][0]}"
        raise InputError(
            "output of several runs in folder",
            file=path,
            found=prefixes,
            expected="one; give the path with the prefix",
        )
    files: dict[int, Path] = {}
    for _, rank, name in found:
        place = folder / name
        if rank in files:
            raise InputError("rank stands twice", file=place, found=files[rank].name)
        files[rank] = place
    for rank in range(found[-1][1]):
        if rank not in files:
            _missing(path, found[0][0], rank, len(files))
    return files


def read_rank_files(path: Path, include: Include, n_tasks: int | None, name: str) -> CommGraph:
    """Return the graph of one file per rank."""
    files = rank_files(path)
    traffic = _Traffic(KINDS[include])
    for rank, file in files.items():
        traffic.senders = {rank}
        _read(read_text(file), traffic, rank)
    if traffic.largest >= len(files):
        prefix = files[0].name.removesuffix(".gz").removesuffix(".0.prof")
        _missing(path, prefix, len(files), len(files))
    return _graph(os.fspath(path), traffic, len(files), n_tasks, name)


def read_all_ranks(text: Text, include: Include, n_tasks: int | None, name: str) -> CommGraph:
    """Return the graph of the files of all ranks, one behind the other."""
    traffic = _Traffic(KINDS[include])
    _read(text, traffic, None)
    size = max(traffic.largest + 1, traffic.n_files)
    if 0 < traffic.n_files < size:
        absent = next((r for r in range(size) if r not in traffic.senders), "not known")
        raise InputError(
            "ranks missing",
            file=text.file,
            found=f"{traffic.n_files} of {size}; the first missing is {absent}",
            expected="the output of all ranks",
        )
    return _graph(text.file, traffic, size, n_tasks, name)


def _read(text: Text, traffic: _Traffic, rank: int | None) -> None:
    """Add the lines of one file; ``rank``, where known, must be their sender."""
    opened = closed = 0
    for number, raw in enumerate(text.raw_lines(), start=1):
        line = raw.rstrip()
        if not line or line.startswith("#"):
            opened += line == "# POINT TO POINT"
            closed += line == "# COLLECTIVES"
            continue
        if match := EDGE.fullmatch(line):
            kind, s, d, nbytes, messages = match.groups()
            sender, other = int(s), int(d)
            if max(sender, other) >= MAX_TASKS:
                raise text.fault("bad rank", number, line, f"less than {MAX_TASKS}")
            if rank is not None and sender != rank:
                raise text.fault("sender is not the rank of the file", number, sender, rank)
            traffic.senders.add(sender)
            traffic.largest = max(traffic.largest, sender, other)
            if kind in traffic.kinds:
                # What a rank got by one-sided reads travelled towards it.
                ends = (other, sender) if kind == "R" else (sender, other)
                traffic.edges.append((*ends, int(nbytes), int(messages)))
        elif match := COMMUNICATOR.fullmatch(line):
            members = [int(r[:10]) for r in match[1].split(",") if r]
            traffic.largest = max(traffic.largest, *members, -1)
        elif not SUMMARY.fullmatch(line):
            raise text.fault(
                "bad monitoring line",
                number,
                line,
                "E <source> <destination> <n> bytes <m> msgs sent, or I, S, R, C, D, O2A, A2O, A2A",
            )
    if opened != closed:
        raise text.fault("truncated monitoring output", None, f"{opened} starts, {closed} ends")
    traffic.n_files += opened


def _graph(file: str, traffic: _Traffic, size: int, n_tasks: int | None, name: str) -> CommGraph:
    if n_tasks is not None and n_tasks < size:
        raise InputError("too many ranks", file=file, found=size, expected=f"at most {n_tasks}")
    columns = np.array(traffic.edges, dtype=np.int64).reshape(-1, 4).T
    with at_file(file):
        return sum_edges(n_tasks or size, *columns, name=name)


def _missing(path: Path, prefix: str, rank: int, n_files: int) -> None:
    raise InputError(
        "monitoring file of a rank missing",
        file=path,
        found=counted(n_files, "file"),
        expected=f"{prefix}.{rank}.prof",
    )


DIALECT = Dialect(
    name="open-mpi",
    holds="graph",
    summed=True,
    title="monitoring output of Open MPI (pml_monitoring_enable)",
    recognise=is_open_mpi,
    read=read,
    documentation="""
A folder of files such as `app.0.prof`, `app.1.prof`, ..., their common prefix `folder/app`, or all
of them behind each other in one file. `--traffic` (`include=` in Python) chooses what the
application sent itself (lines `E`), what collective operations sent for it (`I`), or all, one-sided
traffic (`S` and `R`) too. Where Open MPI ran one-sided operations over messages, those count among
`I` already.
""",
    example="""# POINT TO POINT
E\t0\t1\t100 bytes\t4 msgs sent\t1,2,1
I\t0\t1\t8 bytes\t1 msgs sent\t0,1
# OSC
# COLLECTIVES
D\tMPI_COMM_WORLD\tprocs: 0,1
# POINT TO POINT
E\t1\t0\t50 bytes\t2 msgs sent\t2
# OSC
# COLLECTIVES
D\tMPI_COMM_WORLD\tprocs: 0,1
""",
)
