"""Measured times of mappings: a line each."""

from __future__ import annotations

import csv
import math
import os

from ._foreign import foreign_name
from ._source import Text, read_text
from ._table import NUMBER
from .registry import Dialect
from .source import Source

_COLUMNS = ("mapping", "time")


def read_times(path: str | os.PathLike[str]) -> dict[str, float]:
    r"""Read the measured times of mappings.

    A line holds the name of a mapping and its time; or the first line names the columns, among them
    ``mapping`` and ``time``, as in what ``toruscast simulate --csv`` writes.

    Returns
    -------
    dict
        Seconds by the name of the mapping.

    Raises
    ------
    InputError
        If the file cannot be read, a line is not so, a mapping stands twice or a time is not
        positive.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp()) / "times.csv"
    >>> _ = path.write_text("mapping,time\nrow-major,1.25\nby-hand,0.75\n")
    >>> read_times(path)
    {'row-major': 1.25, 'by-hand': 0.75}
    """
    text = read_text(path)
    times: dict[str, float] = {}
    columns: list[str] = []
    for number, raw in enumerate(text.raw_lines(), start=1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        parts = _fields(line)
        if not columns:
            columns = parts if set(_COLUMNS) <= set(parts) else list(_COLUMNS)
            if columns is parts:
                continue
        if len(parts) != len(columns):
            raise text.fault("wrong number of columns", number, len(parts), ",".join(columns))
        name, value = (parts[columns.index(column)] for column in _COLUMNS)
        if name in times:
            expected = "one time a mapping, such as the median of several"
            raise text.fault("mapping stands twice", number, name, expected)
        times[name] = _seconds(text, number, value)
    if not times:
        raise text.fault("file without data")
    return times


def _fields(line: str) -> list[str]:
    parts = next(csv.reader([line])) if "," in line else line.split()
    return [part.strip() for part in parts]


def _seconds(text: Text, number: int, value: str) -> float:
    seconds = float(value) if NUMBER.fullmatch(value) else math.nan
    if not 0 < seconds < math.inf:
        raise text.fault("bad time", number, value, "positive seconds")
    return seconds


def is_times(source: Source) -> bool:
    """Whether the first line names a mapping and a time, or holds a name and a number."""
    line = source.first_line()[1]
    if foreign_name(source):
        return False
    try:
        parts = _fields(line)
    except csv.Error:
        return False
    if set(_COLUMNS) <= set(parts):
        return True
    if any(len(_fields(later)) != 2 for _, later in source.lines[:9] if '"' not in later):
        return False
    return len(parts) == 2 and not NUMBER.fullmatch(parts[0]) and bool(NUMBER.fullmatch(parts[1]))


DIALECT = Dialect(
    name="times",
    holds="times",
    title="mapping and its measured seconds",
    recognise=is_times,
    read=read_times,
    documentation="""
What mappings were measured to take, for `--times` and `tc.read_times`: the name of each mapping of
`--mappings` (that of its file, without the suffix) and its seconds. The names of the columns may be
left out where there are these two only. With them there may be others, in any order.
""",
    example="mapping,time\nidentity,0.00125\nturned,0.00214\n",
)
