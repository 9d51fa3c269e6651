"""Collection of single values of a file into measurements."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toruscast.errors import InputError
from toruscast.text import counted

from ..pmnf.measurements import (
    LARGEST,
    LARGEST_PARAMETER,
    Measurements,
    check_points,
    join,
)

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
    # Python would read 1_000 as a thousand, and True as one.
    odd = isinstance(value, bool) or (isinstance(value, str) and "_" in value)
    if odd or not math.isfinite(result):
        found = "null" if value is None else value
        raise InputError("bad number", file=file, line=line, found=found, expected=what)
    return result


def measured(
    value: object, file: PathLike, line: int | None = None, what: str = "a number"
) -> float:
    """Return a measured value that is small enough to fit, or raise.

    >>> measured(2, "a.txt")
    2.0
    """
    result = number(value, file, line, what)
    if abs(result) > LARGEST:
        raise InputError(
            "a value is too large to fit; use another unit",
            file=file,
            line=line,
            found=value,
            expected=f"at most {LARGEST:g}",
        )
    return result


def place(
    values: Sequence[object],
    parameters: Sequence[str],
    file: PathLike,
    line: int | None = None,
    what: str = "a number",
) -> Point:
    """Return the point with these values of the parameters, or raise.

    >>> place(["2", "10"], ["p", "n"], "a.txt")
    (2.0, 10.0)
    """
    if len(values) != len(parameters):
        raise InputError(
            "a point needs one value a parameter",
            file=file,
            line=line,
            found=" ".join(map(str, values)),
            expected=f"{counted(len(parameters), 'number')}: {' '.join(map(str, parameters))}",
        )
    point = tuple(number(value, file, line, what) for value in values)
    # Nearly all points are valid, and the check of arrays is slow.
    if not all(1 <= x <= LARGEST_PARAMETER for x in point):
        try:
            check_points(np.array([point]), parameters)
        except InputError as error:
            raise error.replace(file=file, line=line) from None
    return point


def label(value: object, what: str, file: PathLike, line: int | None = None) -> str:
    """Return a name, or raise.

    >>> label("main", "callpath", "a.json")
    'main'
    """
    if not isinstance(value, str):
        raise InputError(f"bad {what}", file=file, line=line, found=repr(value), expected="text")
    return value


# How values of the processes of one run become one.
REDUCTIONS: dict[str, Callable[..., Any]] = {"mean": np.mean, "max": np.max, "sum": np.sum}


def with_zeros(records: Records) -> None:
    """Merge call trees: a call path that a run does not hold took nothing there.

    >>> records = {("a", "time"): {(2.0,): [5.0, 6.0]}, ("b", "time"): {(2.0,): [1.0]}}
    >>> with_zeros(records)
    >>> records["b", "time"]
    {(2.0,): [1.0, 0.0]}
    """
    runs: dict[tuple[str, Point], int] = {}
    for (_, metric), by_point in records.items():
        for point, values in by_point.items():
            runs[metric, point] = max(runs.get((metric, point), 0), len(values))
    for (_, metric), by_point in records.items():
        for (each, point), most in runs.items():
            if each == metric:
                values = by_point.setdefault(point, [])
                values += [0.0] * (most - len(values))


def assemble(parameters: Sequence[str], records: Records, *, file: PathLike) -> list[Measurements]:
    """Gather records; call paths measured at the same points stay together."""
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
