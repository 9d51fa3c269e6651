"""Measured times of mappings: a line each."""

from __future__ import annotations

import csv
import math
import os

from ._source import Text, read_text
from ._table import NUMBER

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
