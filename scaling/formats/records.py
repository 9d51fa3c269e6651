"""Measured values of a file, each checked where it stands."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toruscast.errors import InputError
from toruscast.text import counted

from ..pmnf.measurements import LARGEST, LARGEST_PARAMETER, Measurements, check_points, join

PathLike = str | os.PathLike[str]
Point = tuple[float, ...]
Key = tuple[str, str]

# How values of the processes of one run become one.
REDUCTIONS: dict[str, Callable[..., Any]] = {"mean": np.mean, "max": np.max, "sum": np.sum}


class Records:
    """Values by (call path, metric) and point, as a reader finds them in a file.

    Parameters
    ----------
    file : path-like
        Named in every fault.
    parameters : sequence of str

    Attributes
    ----------
    values : dict
        The repetitions of each point, by (call path, metric) and by point.

    Examples
    --------
    >>> records = Records("a.txt", ["p"])
    >>> records.add(("main", "time"), records.point(["2"]), ["1.0", "1.5"])
    >>> records.values
    {('main', 'time'): {(2.0,): [1.0, 1.5]}}
    """

    def __init__(self, file: PathLike, parameters: Sequence[str] = ()) -> None:
        self.file = file
        self.parameters = list(parameters)
        self.values: dict[Key, dict[Point, list[float]]] = {}

    def fault(
        self, message: str, line: int | None = None, found: object = None, expected: object = None
    ) -> InputError:
        """Return the error of a place in the file."""
        return InputError(message, file=self.file, line=line, found=found, expected=expected)

    def number(self, value: object, line: int | None = None, what: str = "a number") -> float:
        """Return a finite number, or raise."""
        result = as_number(value)
        if not math.isfinite(result):
            found = "null" if value is None else value
            raise self.fault("bad number", line, found, what)
        return result

    def point(
        self, values: Sequence[object], line: int | None = None, what: str = "a number"
    ) -> Point:
        """Return the point with these values of the parameters, or raise."""
        if len(values) != len(self.parameters):
            expected = f"{counted(len(self.parameters), 'number')}: {' '.join(self.parameters)}"
            found = " ".join(map(str, values))
            raise self.fault("a point needs one value a parameter", line, found, expected)
        point = tuple(self.number(value, line, what) for value in values)
        # Nearly all points are valid, and the check of arrays is slow.
        if not all(1 <= x <= LARGEST_PARAMETER for x in point):
            try:
                check_points(np.array([point]), self.parameters)
            except InputError as error:
                raise error.replace(file=self.file, line=line) from None
        return point

    def add(
        self,
        key: Key,
        point: Point,
        values: Sequence[object],
        line: int | None = None,
        what: str = "a number",
    ) -> None:
        """Append repetitions that are small enough to fit, or raise."""
        numbers = [self.number(value, line, what) for value in values]
        if any(abs(number) > LARGEST for number in numbers):
            message = "a value is too large to fit; use another unit"
            raise self.fault(message, line, max(numbers, key=abs), f"at most {LARGEST:g}")
        self.values.setdefault(key, {}).setdefault(point, []).extend(numbers)

    def add_zeros(self) -> None:
        """Merge call trees: a call path that a run does not hold took nothing there.

        Examples
        --------
        >>> records = Records("a.txt", ["p"])
        >>> records.add(("a", "time"), (2.0,), [5, 6])
        >>> records.add(("b", "time"), (2.0,), [1])
        >>> records.add_zeros()
        >>> records.values["b", "time"]
        {(2.0,): [1.0, 0.0]}
        """
        runs: dict[tuple[str, Point], int] = {}
        for (_, metric), by_point in self.values.items():
            for point, values in by_point.items():
                runs[metric, point] = max(runs.get((metric, point), 0), len(values))
        for (_, metric), by_point in self.values.items():
            for (each, point), most in runs.items():
                if each == metric:
                    values = by_point.setdefault(point, [])
                    values += [0.0] * (most - len(values))

    def measurements(self) -> list[Measurements]:
        """Gather the values; call paths measured at the same points stay together."""
        groups: dict[tuple[Point, ...], list[tuple[str, str, NDArray[np.float64]]]] = {}
        for key, by_point in self.values.items():
            points = tuple(sorted(point for point, values in by_point.items() if values))
            table = np.full((len(points), max(map(len, by_point.values()))), np.nan)
            for row, point in zip(table, points, strict=True):
                row[: len(by_point[point])] = by_point[point]
            if points:
                groups.setdefault(points, []).append((*key, table))
        if not groups:
            raise self.fault("holds no measurements")
        try:
            return [
                join(self.parameters, np.array(points), parts) for points, parts in groups.items()
            ]
        except InputError as error:
            raise error.replace(file=self.file) from None


def as_number(value: object) -> float:
    """Return a number, or NaN for what is none.

    Examples
    --------
    >>> as_number("1.5"), as_number("1_000"), as_number(True)
    (1.5, nan, nan)
    """
    # Python would read 1_000 as a thousand, and True as one.
    if isinstance(value, bool) or (isinstance(value, str) and "_" in value):
        return math.nan
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return math.nan


@contextmanager
def other_package(name: str, extra: str, what: str, file: PathLike) -> Iterator[None]:
    """Import and use the package that reads profiles of a kind, or say why it cannot be."""
    try:
        yield
    except ImportError:
        raise InputError(
            f"{what} profiles need the package {name}",
            file=file,
            expected=f"pip install 'toruscast[{extra}]'",
        ) from None
    except (InputError, MemoryError):
        raise
    except Exception as error:  # the other package may raise anything for a damaged file
        found = f"{type(error).__name__}: {error}"
        raise InputError(f"is no {what} profile", file=file, found=found) from None


def numbered_lines(content: str) -> Iterator[tuple[int, str]]:
    """Yield the lines that hold anything, with their numbers."""
    # Names may hold characters that end a line in other programs, such as U+2028.
    for line, text in enumerate(content.split("\n"), 1):
        if text.strip():
            yield line, text.strip()
