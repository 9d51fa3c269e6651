"""Measured times of mappings: a line each, in files that grow by a line with each run."""

from __future__ import annotations

import csv
import errno
import io
import math
import os
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Literal, NamedTuple

from toruscast.errors import InputError, MissingFileError
from toruscast.files import note_read
from toruscast.validation import SECONDS

from .dialect import Dialect
from .source import DECIMAL_COMMA, NUMBER, Source, Text, cells, read_text, warn_of_unused
from .tables import read_words

MAPPING = "mapping"
# Columns where none are named.
_HEADER = (MAPPING, "time")
_PLAIN: tuple[int, dict[int, float]] = (0, {1: 1.0})
# A column of times, and the seconds in its unit: "time", "time_ms", "seconds", and of several
# repetitions "rep1", "rep2" or "time1", "time2".
_TIME = re.compile(r"(?:time|seconds|rep|run)(?:[ _]?\d+)?(?:[ _\[(]+(s|ms|us|ns)[\])]?)?", re.I)
_NUMBERED = re.compile(r"(?:rep|run)(?:[ _\[(]|$)", re.I)


class Run(NamedTuple):
    """One run of a mapping."""

    mapping: str
    time: float
    """Seconds."""
    line: int
    """Line of the file, from 1."""


def read_runs(path: str | os.PathLike[str]) -> list[Run]:
    r"""Read the measured times of mappings, each as often as it ran, in the order of the file.

    A line holds the name of a mapping and its time; or the first line names the columns:
    ``mapping`` and ``time``, or ``rep1``, ``rep2`` and so on for several runs of a mapping;
    ``time_ms``, ``time_us`` or ``time_ns`` where the unit is another one. Rows of the same name are
    runs of the same mapping.

    Returns
    -------
    list of Run

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp()) / "runs.csv"
    >>> _ = path.write_text("mapping,rep1,rep2\nrow-major,1.25,1.5\nby-hand,0.75,\n")
    >>> [(run.mapping, run.time) for run in read_runs(path)]
    [('row-major', 1.25), ('row-major', 1.5), ('by-hand', 0.75)]
    """
    began = time.perf_counter()
    source = Source(path)
    text = source.text
    names, rows = read_words(text, _data_lines(text), columns_of_times, _HEADER)
    if "p_best" in names:
        expected = "measured times; those of rank --csv are forecasts"
        raise text.fault("not measured times", found=",".join(names), expected=expected)
    place, units = columns_of_times(names) or _PLAIN
    others = (at for at in range(len(names)) if at not in {place, *units})
    numbers = (names[at] for at in others if any(NUMBER.fullmatch(parts[at]) for _, parts in rows))
    warn_of_unused(text.file, numbers, "columns that are not used")
    runs: list[Run] = []
    for number, parts in rows:
        # A mapping may have run less often than another.
        filled = [at for at in units if parts[at]] or list(units)
        times = (_read_time(text, number, parts[at], units[at]) for at in filled)
        runs += [Run(parts[place], seconds, number) for seconds in times]
    note_read("times", path, began, runs=len(runs))
    return runs


def read_times(path: str | os.PathLike[str]) -> dict[str, float]:
    r"""Read what each mapping was measured to take: the median of its runs.

    `read_runs` describes the file; it gives the runs one by one.

    Returns
    -------
    dict
        Seconds by the name of the mapping.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp()) / "times.csv"
    >>> _ = path.write_text("mapping,time\nrow-major,1.25\nby-hand,0.75\nrow-major,1.75\n")
    >>> read_times(path)
    {'row-major': 1.5, 'by-hand': 0.75}
    """
    each: dict[str, list[float]] = {}
    for run in read_runs(path):
        each.setdefault(run.mapping, []).append(run.time)
    return {name: median(times) for name, times in each.items()}


def columns_of_times(header: list[str]) -> tuple[int, dict[int, float]] | None:
    """Place of the mapping's name, and seconds in the unit of each column of times, if named."""
    if MAPPING not in header:
        return None
    found = {place: _TIME.fullmatch(name) for place, name in enumerate(header)}
    times = {place: match for place, match in found.items() if match is not None}
    # A column "rep" or "run" without a number counts the runs.
    times = {place: match for place, match in times.items() if not _NUMBERED.match(match[0])}
    if not times:
        return None
    if any(header[place][-1].isdigit() for place in times):
        # Beside the runs one by one, a column without a number sums them up.
        times = {place: match for place, match in times.items() if header[place][-1].isdigit()}
    units = {place: SECONDS[(match[1] or "s").lower()] for place, match in times.items()}
    return header.index(MAPPING), units


def _read_time(text: Text, number: int, value: str, unit: float) -> float:
    """Return a cell of line ``number`` in seconds; ``unit`` is that of the column."""
    seconds = float(value) * unit if NUMBER.fullmatch(value) else math.nan
    if not 0 < seconds < math.inf:
        point = ", with a decimal point" if DECIMAL_COMMA.fullmatch(value) else ""
        raise text.fault("bad time", number, value, f"positive seconds{point}")
    return seconds


def is_times(source: Source) -> bool:
    """Whether the first line names a mapping and a time, or holds a name and a number."""
    rows = [cells(line)[1] for _, line in source.lines[:9]]
    if not rows or columns_of_times(rows[0]) is not None:
        return bool(rows)
    return all(
        len(row) == 2 and NUMBER.fullmatch(row[1]) and not NUMBER.fullmatch(row[0]) for row in rows
    )


DIALECT = Dialect(
    name="times",
    holds="times",
    title="mapping and its measured seconds",
    recognise=is_times,
    read=read_times,
    documentation="""
What mappings were measured to take, for `--times` and `tc.read_times`: the name of each mapping of
`--mappings` (that of its file, without the suffix) and its seconds. Rows of the same name, and
columns `rep1`, `rep2` and so on, are runs of the same mapping. A column `time_ms`, `time_us` or
`time_ns` has another unit. The names of the columns may be left out where there are a mapping and
its time only. With them there may be others, in any order.
""",
    example="mapping,time\nidentity,0.00125\nturned,0.00214\n",
)


_GZIP = b"\x1f\x8b"


def holds_runs(path: str | os.PathLike[str]) -> bool:
    """Whether a file holds a run; a missing one, or one that only names columns, holds none."""
    lines = _lines_of(path)
    return len(lines) > 1 or (len(lines) == 1 and not columns_of_times(cells(lines[0])[1]))


def check_appendable(path: str | os.PathLike[str], mappings: Iterable[str]) -> None:
    """Raise unless runs of these mappings can be added to a file by `append_run`."""
    if Path(path).exists() and Path(path).read_bytes()[:2] == _GZIP:
        raise InputError("packed file, to which no line can be added", file=path)
    lines = _lines_of(path)
    for mapping in mappings:
        _run_line(path, lines, mapping, 1.0)


def append_run(path: str | os.PathLike[str], mapping: str, seconds: float) -> None:
    r"""Add a run to a file of `read_runs`, in its columns and its unit; make it if it is missing.

    The line is on the disk when this returns. If it cannot be written whole, the file stays as it
    was.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "runs.csv"
    >>> append_run(path, "row-major", 1.25)
    >>> append_run(path, "by-hand", 0.75)
    >>> path.read_text()
    'mapping,time\nrow-major,1.25\nby-hand,0.75\n'
    """
    check_appendable(path, ())
    lines = _lines_of(path)
    row = ("" if lines else ",".join(_HEADER) + "\n") + _run_line(path, lines, mapping, seconds)
    target = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        size = os.fstat(target).st_size
        if size and os.pread(target, 1, size - 1) != b"\n":
            row = "\n" + row
        content = row.encode()
        try:
            if os.write(target, content) != len(content):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(target)
        except OSError as error:
            os.ftruncate(target, size)
            raise OSError(error.errno, error.strerror, os.fspath(path)) from None
    finally:
        os.close(target)


def _data_lines(text: Text) -> Iterator[tuple[int, str]]:
    """Lines that are neither empty nor comments; a name may hold a hash."""
    lines = ((number, raw.strip()) for number, raw in enumerate(text.raw_lines(), start=1))
    return ((number, line) for number, line in lines if line and not line.startswith("#"))


def _lines_of(path: str | os.PathLike[str]) -> list[str]:
    """Lines with data of a file, which may be missing or empty."""
    with suppress(MissingFileError):
        if not Path(path).is_file() or Path(path).stat().st_size:
            return [line for _, line in _data_lines(read_text(path))]
    return []


def _run_line(path: str | os.PathLike[str], lines: list[str], mapping: str, seconds: float) -> str:
    """The line of a run, in the columns that the first line names."""
    mark, header = cells(lines[0] if lines else ",".join(_HEADER))
    place, times = columns_of_times(header) or _PLAIN
    parts = [""] * len(header)
    column, unit = next(iter(times.items()))
    parts[place], parts[column] = mapping, repr(seconds / unit)
    stream = io.StringIO()
    mark = mark or ","
    # In quotes a hash begins no comment.
    quoting: Literal[0, 1] = csv.QUOTE_ALL if mapping.startswith("#") else csv.QUOTE_MINIMAL
    writer = csv.writer(stream, delimiter=mark, quoting=quoting, lineterminator="\n")
    writer.writerow(parts)
    row = stream.getvalue()
    if not mapping or len(row.splitlines()) != 1 or cells(row, mark)[1] != parts:
        raise InputError("name of a mapping that no line can hold", file=path, found=repr(mapping))
    return row


DIALECTS = (DIALECT,)
