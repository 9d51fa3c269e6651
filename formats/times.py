"""Files with the measured times of mappings; each run appends a line."""

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
from .source import (
    DECIMAL_COMMA,
    NUMBER,
    AnyPath,
    Source,
    TextFile,
    read_text,
    split_cells,
    warn_about_unused,
)
from .tables import read_words

MAPPING = "mapping"
# Columns of a file without a header.
_HEADER = (MAPPING, "time")
_DEFAULT_COLUMNS: tuple[int, dict[int, float]] = (0, {1: 1.0})
# Names of time columns, optionally with a unit, such as "time", "time_ms" or "seconds". Columns of
# repetitions are "rep1", "rep2" and so on.
_TIME = re.compile(r"(?:time|seconds|rep|run)(?:[ _]?\d+)?(?:[ _\[(]+(s|ms|us|ns)[\])]?)?", re.I)
_COUNTER = re.compile(r"(?:rep|run)(?:[ _\[(]|$)", re.I)


class MeasuredRun(NamedTuple):
    """One run of a mapping."""

    mapping: str
    time: float
    """Seconds."""
    line: int
    """Line of the file, from 1."""


def read_runs(path: AnyPath) -> list[MeasuredRun]:
    r"""Read the measured times of all runs of mappings, in the order of the file.

    Each line has the name of a mapping and its time. A header may name the columns: ``mapping``,
    and ``time`` or, for several runs, ``rep1``, ``rep2`` and so on; ``time_ms``, ``time_us`` and
    ``time_ns`` have other units. Rows with the same name are runs of the same mapping.

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
    text = Source(path).text
    names, rows = read_words(text, _list_data_lines(text), _find_time_columns, _HEADER)
    if "p_best" in names:
        expected = "measured times, not the forecasts of rank --csv"
        raise text.fault("forecast times", found=",".join(names), expected=expected)
    name_column, units = _find_time_columns(names) or _DEFAULT_COLUMNS
    others = (column for column in range(len(names)) if column not in {name_column, *units})
    unused = (names[i] for i in others if any(NUMBER.fullmatch(cells[i]) for _, cells in rows))
    warn_about_unused(text.file, unused, "unused columns")
    runs: list[MeasuredRun] = []
    for line, cells in rows:
        # Cells may be empty, because mappings may have different numbers of runs.
        filled = [column for column in units if cells[column]] or list(units)
        times = (_read_time(text, line, cells[column], units[column]) for column in filled)
        runs += [MeasuredRun(cells[name_column], seconds, line) for seconds in times]
    note_read("times", path, began, runs=len(runs))
    return runs


def read_times(path: AnyPath) -> dict[str, float]:
    r"""Read the measured time of each mapping, the median of its runs.

    Each line has the name of a mapping and its time; ``docs/reference/formats.md`` explains the
    format.

    Returns
    -------
    dict
        Seconds by mapping name.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp()) / "times.csv"
    >>> _ = path.write_text("mapping,time\nrow-major,1.25\nby-hand,0.75\nrow-major,1.75\n")
    >>> read_times(path)
    {'row-major': 1.5, 'by-hand': 0.75}
    """
    times_by_name: dict[str, list[float]] = {}
    for run in read_runs(path):
        times_by_name.setdefault(run.mapping, []).append(run.time)
    return {name: median(times) for name, times in times_by_name.items()}


def _find_time_columns(header: list[str]) -> tuple[int, dict[int, float]] | None:
    """Return the column of names, and each time column's unit in seconds; None if not a header."""
    if MAPPING not in header:
        return None
    matches = {column: _TIME.fullmatch(name) for column, name in enumerate(header)}
    # A column "rep" or "run" without a number in its name contains run numbers, not times.
    times = {c: match for c, match in matches.items() if match and not _COUNTER.match(match[0])}
    # If time columns are numbered, one without a number is a summary of the others.
    numbered = {c: match for c, match in times.items() if header[c][-1].isdigit()}
    units = {c: SECONDS[(match[1] or "s").lower()] for c, match in (numbered or times).items()}
    return (header.index(MAPPING), units) if units else None


def _read_time(text: TextFile, number: int, value: str, unit: float) -> float:
    seconds = float(value) * unit if NUMBER.fullmatch(value) else math.nan
    if not 0 < seconds < math.inf:
        point = ", with a decimal point" if DECIMAL_COMMA.fullmatch(value) else ""
        raise text.fault("bad time", number, value, f"positive seconds{point}")
    return seconds


def _is_times(source: Source) -> bool:
    """Whether the first line is a header with times, or each line is a name and a number."""
    rows = [split_cells(line)[1] for _, line in source.lines[:9]]
    if not rows or _find_time_columns(rows[0]) is not None:
        return bool(rows)
    return all(
        len(row) == 2 and NUMBER.fullmatch(row[1]) and not NUMBER.fullmatch(row[0]) for row in rows
    )


DIALECT = Dialect(
    name="times",
    holds="times",
    title="mapping and its measured seconds",
    recognise=_is_times,
    read=read_times,
    documentation="""
Measured times, for `--times` and `tc.read_times`: the name of each mapping of `--mappings` (its
file name without suffix) and its seconds. Rows with the same name, and columns `rep1`, `rep2` and
so on, are runs of the same mapping. Times in other units have a column `time_ms`, `time_us` or
`time_ns`. A file with only names and seconds needs no header. With a header, columns may be in any
order, and others are ignored.
""",
    example="mapping,time\nidentity,0.00125\nturned,0.00214\n",
)


_GZIP = b"\x1f\x8b"


def has_runs(path: AnyPath) -> bool:
    """Whether a file exists and contains at least one run."""
    lines = _read_data_lines(path)
    return len(lines) > 1 or (len(lines) == 1 and not _find_time_columns(split_cells(lines[0])[1]))


def check_appendable(path: AnyPath, mappings: Iterable[str]) -> None:
    """Raise `InputError` unless `append_run` can add runs of these mappings to a file."""
    if Path(path).exists() and Path(path).read_bytes()[:2] == _GZIP:
        raise InputError("cannot append to a gzip file", file=path)
    lines = _read_data_lines(path)
    for mapping in mappings:
        _format_run(path, lines, mapping, 1.0)


def append_run(path: AnyPath, mapping: str, seconds: float) -> None:
    r"""Append a run to a file for `read_runs`, in the file's columns and unit, or create the file.

    The line is synchronised to disk. If it cannot be written completely, the file is unchanged.

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
    lines = _read_data_lines(path)
    row = ("" if lines else ",".join(_HEADER) + "\n") + _format_run(path, lines, mapping, seconds)
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        size = os.fstat(descriptor).st_size
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            row = "\n" + row
        content = row.encode()
        try:
            if os.write(descriptor, content) != len(content):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(descriptor)
        except OSError as error:
            os.ftruncate(descriptor, size)
            raise OSError(error.errno, error.strerror, os.fspath(path)) from None
    finally:
        os.close(descriptor)


def _list_data_lines(text: TextFile) -> Iterator[tuple[int, str]]:
    """Yield all lines except blank lines and comments, which start with a hash."""
    lines = ((number, raw.strip()) for number, raw in enumerate(text.raw_lines(), start=1))
    return ((number, line) for number, line in lines if line and not line.startswith("#"))


def _read_data_lines(path: AnyPath) -> list[str]:
    """Return the data lines of a file; none if the file is missing or empty."""
    with suppress(MissingFileError):
        if not Path(path).is_file() or Path(path).stat().st_size:
            return [line for _, line in _list_data_lines(read_text(path))]
    return []


def _format_run(path: AnyPath, lines: list[str], mapping: str, seconds: float) -> str:
    """Return the line of a run, with the columns and the separator of the existing ``lines``."""
    mark, header = split_cells(lines[0] if lines else ",".join(_HEADER))
    separator = mark or ","
    name_column, units = _find_time_columns(header) or _DEFAULT_COLUMNS
    time_column, unit = next(iter(units.items()))
    cells = [""] * len(header)
    cells[name_column], cells[time_column] = mapping, repr(seconds / unit)
    stream = io.StringIO()
    # Quote a name that starts with a hash, because the line would be a comment otherwise.
    quoting: Literal[0, 1] = csv.QUOTE_ALL if mapping.startswith("#") else csv.QUOTE_MINIMAL
    csv.writer(stream, delimiter=separator, quoting=quoting, lineterminator="\n").writerow(cells)
    row = stream.getvalue()
    if not mapping or len(row.splitlines()) != 1 or split_cells(row, separator)[1] != cells:
        raise InputError("mapping name does not fit a line", file=path, found=repr(mapping))
    return row


DIALECTS = (DIALECT,)
