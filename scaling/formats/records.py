"""From single values in a file to measurements."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from toruscast.errors import InputError

from ..pmnf.measurements import Measurements, join

PathLike = str | os.PathLike[str]
Point = tuple[float, ...]
# (call path, metric) -> point -> repetitions
Records = dict[tuple[str, str], dict[Point, list[float]]]


def add(records: Records, key: tuple[str, str], point: Point, values: Sequence[float]) -> None:
    """Append repetitions.

    >>> records = {}
    >>> add(records, ("main", "time"), (2.0,), [1.0])
    >>> records
    {('main', 'time'): {(2.0,): [1.0]}}
    """
    records.setdefault(key, {}).setdefault(point, []).extend(values)


def number(value: object, file: PathLike, line: int | None = None, what: str = "a number") -> float:
    """Return a finite number, or raise.

    >>> number("1.5", "a.txt")
    1.5
    """
    try:
        result = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        result = math.nan
    if not math.isfinite(result) or isinstance(value, bool):
        found = "null" if value is None else value
        raise InputError("bad number", file=file, line=line, found=found, expected=what)
    return result


def label(value: object, what: str, file: PathLike, line: int | None = None) -> str:
    """Return a name, or raise.

    >>> label("main", "callpath", "a.json")
    'main'
    """
    if not isinstance(value, str):
        raise InputError(f"bad {what}", file=file, line=line, found=repr(value), expected="text")
    return value


def assemble(parameters: Sequence[str], records: Records, *, file: PathLike) -> list[Measurements]:
    """Gather records; call paths measured at the same points go together."""
    groups: dict[tuple[Point, ...], list[tuple[str, str, NDArray[np.float64]]]] = {}
    for (callpath, metric), by_point in records.items():
        points = tuple(sorted(point for point, values in by_point.items() if values))
        if not points:
            continue
        most = max(len(by_point[point]) for point in points)
        table = np.full((len(points), most), np.nan)
        for row, point in zip(table, points, strict=True):
            row[: len(by_point[point])] = by_point[point]
        groups.setdefault(points, []).append((callpath, metric, table))
    if not groups:
        raise InputError("holds no measurements", file=file)
    try:
        return [join(parameters, np.array(points), parts) for points, parts in groups.items()]
    except InputError as error:
        raise error.replace(file=file) from None
