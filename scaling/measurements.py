"""Measurements of many call paths at the same points, and how values of files become them."""

from __future__ import annotations

import csv
import io
import math
import os
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from toruscast._slow import pandas as pd
from toruscast.errors import InputError
from toruscast.files import at_file
from toruscast.text import counted
from toruscast.validation import repeated

from .formula import ScalingWarning

Array = NDArray[np.float64]
PathLike = str | os.PathLike[str]
Point = tuple[float, ...]
Key = tuple[str, str]

# How values of the processes of one run become one.
REDUCTIONS: dict[str, Callable[..., Any]] = {"mean": np.mean, "max": np.max, "sum": np.sum}
# Limits of values and parameters, so that squares and products of cubes do not overflow.
LARGEST = 1e50
SMALLEST = 1e-50
LARGEST_PARAMETER = 1e20


@dataclass(frozen=True, eq=False)
class Measurements:
    """Values of call paths and metrics, measured at one set of points.

    Parameters
    ----------
    parameters : sequence of str
    points : array-like, shape (n_points, n_parameters)
        Values of the parameters, 0 or more; no point is repeated.
    values : array-like, shape (n_paths, n_points, n_repetitions)
        NaN marks a missing repetition; each point needs at least one.
    callpaths, metrics : sequence of str, optional
        A name for each path.

    Examples
    --------
    >>> m = Measurements(["p"], [[2], [4], [8]], [[[1.0, 1.1], [2.0, 2.1], [4.0, 4.1]]])
    >>> m.n_paths, m.points.shape, m.values.shape
    (1, (3, 1), (1, 3, 2))
    """

    parameters: tuple[str, ...]
    points: Array
    values: Array
    callpaths: tuple[str, ...]
    metrics: tuple[str, ...]

    def __init__(
        self,
        parameters: Sequence[str],
        points: ArrayLike,
        values: ArrayLike,
        callpaths: Sequence[str] | None = None,
        metrics: Sequence[str] | None = None,
    ) -> None:
        x, y = real_numbers(points, "points"), real_numbers(values, "values")
        if x.ndim != 2 or y.ndim != 3 or x.shape[0] != y.shape[1] or 0 in y.shape:
            raise InputError(
                "points and values disagree",
                found=f"shapes {x.shape} and {y.shape}",
                expected="(points, parameters) and (paths, points, repetitions)",
            )
        if x.shape[1] != len(parameters) or len(set(parameters)) < len(parameters):
            raise InputError(
                f"{x.shape[1]} parameters need as many different names", found=list(parameters)
            )
        check_points(x, parameters)
        if len(np.unique(x, axis=0)) < len(x):
            raise InputError("a point stands twice; join its repetitions")
        if np.isinf(y).any():
            raise InputError("a value is infinite")
        if np.isnan(y).all(axis=2).any():
            raise InputError("a point has no value", expected="one repetition at least")
        size = np.nanmax(np.abs(y), axis=(1, 2))
        if size.max() > LARGEST:
            raise InputError(
                "a value is too large to fit; use another unit",
                found=size.max(),
                expected=f"at most {LARGEST:g}",
            )
        faint = size[(size > 0) & (size < SMALLEST)]
        if faint.size:
            raise InputError(
                "the values of a path are too small to fit; use another unit",
                found=f"at most {faint[0]:g}",
                expected=f"one of {SMALLEST:g} or more, or only 0",
            )
        paths = tuple(f"path {k}" for k in range(len(y))) if callpaths is None else tuple(callpaths)
        names = ("time",) * len(y) if metrics is None else tuple(metrics)
        if not len(paths) == len(names) == len(y):
            raise InputError(f"{len(y)} paths need as many call paths and metrics")
        # Copies, so that later changes of the caller's arrays have no effect.
        x, y = x.copy(), y.copy()
        x.flags.writeable = y.flags.writeable = False
        vars(self).update(
            parameters=tuple(parameters), points=x, values=y, callpaths=paths, metrics=names
        )

    @property
    def n_paths(self) -> int:
        """Number of call paths, each with one metric."""
        return len(self.values)


def check_points(points: Array, parameters: Sequence[str]) -> None:
    """Raise InputError for values of parameters at which no term is defined."""
    for name, column in zip(parameters, points.T, strict=True):
        if not np.isfinite(column).all():
            raise InputError(f"parameter {name} must be finite", found="NaN or infinity")
        if (column < 0).any():
            raise InputError(f"Negative values in data for parameter {name}", found=column.min())
        size = column[column > 0]
        if size.size and (size.max() > LARGEST_PARAMETER or size.min() < 1 / LARGEST_PARAMETER):
            raise InputError(
                f"parameter {name} is too large or too small",
                found=size.max() if size.max() > LARGEST_PARAMETER else size.min(),
                expected=f"0 or {1 / LARGEST_PARAMETER:g} to {LARGEST_PARAMETER:g}",
            )


def logarithms(points: Array) -> Array:
    """Return logarithms of points, with a 0 replaced as by `off_zero`."""
    logs: Array = np.log(off_zero(points, points))
    return logs


def off_zero(points: Array, places: Array) -> Array:
    """Prepare places for logarithms: a 0 becomes half of the least positive value of its parameter.

    Where 0 was measured, smaller places are raised to that value too.
    """
    half = np.where(points > 0, points, np.inf).min(axis=0) / 2
    least = np.where((points > 0).all(axis=0), 0.0, half)
    return np.where(places > 0, np.maximum(places, least), half)


def real_numbers(numbers: ArrayLike, what: str) -> Array:
    """Return an array of floats; refuse text, complex numbers and lists of several lengths."""
    try:
        # NumPy drops imaginary parts.
        result = None if np.iscomplexobj(numbers) else np.asarray(numbers, dtype=float)
    except (TypeError, ValueError, OverflowError):
        result = None
    if result is None:
        raise InputError(f"{what} must be real numbers", found=numbers)
    return result


def from_rows(
    rows: pd.DataFrame,
    parameters: Sequence[str],
    value: str = "value",
    callpath: str | None = None,
    metric: str | None = None,
) -> list[Measurements]:
    """Gather a table with a row for each repetition.

    Parameters
    ----------
    rows : DataFrame
        Named levels of its index count as columns.
    parameters, value : sequence of str, str
        Columns that hold the parameters and the measured value.
    callpath, metric : str, optional
        Columns that name what was measured. Without `metric`, all rows have one metric. A column
        "metric" or "callpath" with several values must be named here.

    Returns
    -------
    list of Measurements
        One for each set of points; call paths measured at the same points stay together.

    Examples
    --------
    >>> rows = pd.DataFrame({"p": [2, 2, 4, 8], "value": [1.0, 1.2, 2.0, 4.0]})
    >>> from_rows(rows, ["p"])[0].values.tolist()
    [[[1.0, 1.2], [2.0, nan], [4.0, nan]]]
    """
    if isinstance(parameters, str) or not isinstance(rows, pd.DataFrame):
        raise InputError(
            "measurements need a DataFrame and a list of parameters",
            found=f"a {type(rows).__name__} and {parameters!r}",
        )
    levels = [name for name in rows.index.names if name is not None and name not in rows.columns]
    rows = rows.reset_index(levels) if levels else rows
    keys = [name for name in (callpath, metric) if name]
    names = [*parameters, value, *keys]
    absent = [name for name in names if name not in rows.columns]
    if absent or not parameters:
        raise InputError(
            "the table lacks columns", found=list(rows.columns), expected=absent or "a parameter"
        )
    twice = repeated(rows.columns) or repeated(names)
    if twice:
        raise InputError(
            "a column is one of parameters, value, callpath and metric", found=f"{twice[0]} twice"
        )
    if rows.empty:
        raise InputError("the table has no rows")
    for name in rows.columns.difference(names, sort=False):
        kind = str(name).lower()
        if kind in ("callpath", "metric") and rows[name].nunique() > 1:
            raise InputError(
                f"rows of several values of {name} would pass for repetitions",
                found=", ".join(map(str, rows[name].unique()[:5])),
                expected=f"{kind}={name!r}",
            )
    for name in [*parameters, value]:
        if rows[name].dtype.kind not in "iuf":
            raise InputError(f"column {name} must hold numbers", found=rows[name].dtype)
    for name in [value, *keys]:
        if rows[name].isna().any():
            raise InputError(f"column {name} holds NaN or empty cells; leave such rows out")
    parts = rows.groupby(keys, sort=False, observed=True) if keys else [((), rows)]
    paths = []
    for key, part in parts:
        named = dict(zip(keys, key, strict=True))
        x, y = part[list(parameters)].to_numpy(float), part[value].to_numpy(float)
        paths.append(
            (str(named.get(str(callpath), "all")), str(named.get(str(metric), value)), x, y)
        )
    return group_paths(parameters, paths)


def gather(x: Array, y: Array) -> tuple[Array, Array]:
    """Gather the repetitions of each point from one row each; NaN fills missing ones."""
    points, where = np.unique(x, axis=0, return_inverse=True)
    where = where.ravel()
    order = np.argsort(where, kind="stable")
    counts = np.bincount(where)
    values = np.full((len(points), counts.max()), np.nan)
    place = np.arange(len(y)) - np.repeat(np.cumsum(counts) - counts, counts)
    values[where[order], place] = y[order]
    return points, values


def group_paths(
    parameters: Sequence[str], paths: Iterable[tuple[str, str, ArrayLike, ArrayLike]]
) -> list[Measurements]:
    """Return measurements of (call path, metric, point of each repetition, its value).

    Call paths that were measured at the same points are together.
    """
    groups: dict[bytes, tuple[Array, list[tuple[str, str, Array]]]] = {}
    for path, metric, x, y in paths:
        points, values = gather(np.asarray(x, float), np.asarray(y, float))
        groups.setdefault(points.tobytes(), (points, []))[1].append((path, metric, values))
    found = []
    for points, own in groups.values():
        names, metrics, tables = zip(*own, strict=True)
        values = np.full((len(own), len(points), max(t.shape[1] for t in tables)), np.nan)
        for row, table in zip(values, tables, strict=True):
            row[:, : table.shape[1]] = table
        found.append(Measurements(parameters, points, values, names, metrics))
    return found


class Records:
    """Values by (call path, metric), as a reader finds them in a file."""

    def __init__(self, file: PathLike, parameters: Sequence[str] = ()) -> None:
        self.file = file
        self.parameters = list(parameters)
        # The point and the value of each repetition.
        self.rows: dict[Key, list[tuple[Point, float]]] = {}
        # What the file holds besides, and how often.
        self.left_out: Counter[str] = Counter()

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
        self.rows.setdefault(key, []).extend((point, number) for number in numbers)

    def add_zeros(self) -> None:
        """Merge call trees: a call path that a run does not hold took nothing there."""
        counts = {key: Counter(point for point, _ in rows) for key, rows in self.rows.items()}
        runs: dict[str, Counter[Point]] = {}
        for (_, metric), count in counts.items():
            runs[metric] = runs.get(metric, Counter()) | count
        for key, rows in self.rows.items():
            missing = runs[key[1]] - counts[key]
            rows += [(point, 0.0) for point in missing.elements()]

    def measurements(self) -> list[Measurements]:
        """Gather the values; call paths measured at the same points stay together."""
        paths = [
            (*key, [point for point, _ in rows], [value for _, value in rows])
            for key, rows in self.rows.items()
            if rows
        ]
        if not paths:
            raise self.fault("holds no measurements")
        if self.left_out:
            found = ", ".join(f"{what} ({count} times)" for what, count in self.left_out.items())
            warnings.warn(f"{self.file}: not read: {found}", ScalingWarning, stacklevel=3)
        with at_file(self.file):
            return group_paths(self.parameters, paths)


def as_number(value: object) -> float:
    """Return a value as a float, or NaN if it is no number."""
    # Python would read 1_000 as a thousand, and True as one.
    if isinstance(value, bool) or (isinstance(value, str) and "_" in value):
        return math.nan
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return math.nan


@contextmanager
def in_layout(file: PathLike, what: str, expected: str) -> Iterator[None]:
    """Refuse a document whose keys or types are not those of its format."""
    try:
        yield
    except InputError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        # A list where an object should be, or the other way round, gives no useful text.
        found = f"no key {error.args[0]}" if isinstance(error, KeyError) else None
        raise InputError(f"is no {what}", file=file, found=found, expected=expected) from None
    except RecursionError:
        raise InputError("is nested too deeply", file=file, expected=expected) from None


@dataclass(frozen=True)
class Choice:
    """What a user wants of a file: columns or metrics, parameters, and values of processes."""

    value: Sequence[str] = ()
    parameters: Sequence[str] = ()
    reduce: str | None = None
    # "merge" if asked for, empty if refused, None if neither.
    merge: str | None = None

    def refuse(self, file: PathLike, *names: str) -> None:
        """Refuse choices that the format of a file does not offer."""
        for name in names:
            if found := getattr(self, name):
                raise InputError(
                    _OFFERED[name][0], file=file, found=found, expected=_OFFERED[name][1]
                )

    def reduced(self, values: Any) -> float:
        """Return the value of a run from those of its processes; the mean if nothing is chosen."""
        return float(REDUCTIONS[self.reduce or "mean"](values))


_OFFERED = {
    "value": ("has no columns to choose from", "a table"),
    "parameters": ("has no metadata to choose from", "profiles of Caliper or Thicket"),
    "reduce": ("has no values of single processes", "profiles, or a table of them"),
    "merge": ("has no call trees of runs", "profiles, whose values are those of a node alone"),
}


def numbered_lines(content: str) -> Iterator[tuple[int, str]]:
    """Yield the lines that hold anything, with their numbers."""
    # Names may hold characters that end a line in other programs, such as U+2028.
    for line, text in enumerate(content.split("\n"), 1):
        if text.strip():
            yield line, text.strip()


# Columns that are not parameters.
_NAMED = ("value", "callpath", "metric", "repetition")
_ROW = "a row needs a value in each column"


def separator_of(header: str) -> str:
    """Return the separator of the columns that a line names; empty if it names only one."""
    return next((separator for separator in ",;\t" if separator in header), "")


def table_rows(
    content: str,
    file: PathLike,
    separator: str = ",",
    rename: Callable[[str], str] = str,
    comments: bool = False,
) -> Iterator[tuple[int, list[str]]]:
    """Yield the header of a table, then its rows, each with its line.

    Empty rows, and lines above the header that start with ``#``, are skipped.
    """
    names: list[str] = []
    reader = csv.reader(io.StringIO(content), delimiter=separator, strict=True)
    try:
        for cells in reader:
            row, line = [cell.strip() for cell in cells], reader.line_num
            if not any(row) or (row[0].startswith("#") and (comments or not names)):
                continue
            if not names:
                names = row = [rename(name) for name in row]
                if twice := repeated(names):
                    raise InputError("a column stands twice", file=file, line=line, found=twice[0])
            elif len(row) != len(names):
                found, expected = separator.join(row), separator.join(names)
                raise InputError(_ROW, file=file, line=line, found=found, expected=expected)
            yield line, row
    except csv.Error as error:
        raise InputError("bad line", file=file, line=reader.line_num, found=str(error)) from None


def parse_csv(
    content: str, file: PathLike, separator: str = ",", choice: Choice = Choice()
) -> Records:
    """Return the values of a table of measurements.

    Columns that the choice does not name hold parameters, except value, callpath, metric and
    repetition, in capitals or not; the last is not read. Several columns of values are repetitions,
    and their cells may be empty. Rows of the same point are repetitions too. Where values are
    reduced, a column ``process`` identifies the rows that become one.
    """
    values, reduce = choice.value, choice.reduce
    known = _NAMED if reduce is None else (*_NAMED, "process")

    def rename(name: str) -> str:
        return name.lower() if name.lower() in known and name not in values else name

    rows = table_rows(content, file, separator, rename)
    start, names = next(rows, (0, []))
    fault = partial(InputError, file=file, line=start, found=separator.join(names))
    measured, parameters = _columns(names, values, known, fault)
    records = Records(file, parameters)
    metric = measured[0] if len(measured) == 1 and measured[0].lower() not in _NAMED else "time"
    needed = [name for name in names if name not in {*measured}]
    number, coordinates = (
        f"a number for {' and '.join(columns)}" for columns in (measured, parameters)
    )
    alike: dict[tuple[Key, Point, int, str, int], list[float]] = {}
    seen: Counter[tuple[object, ...]] = Counter()
    for line, row_of_cells in rows:
        row = dict(zip(names, row_of_cells, strict=True))
        cells = [row[name] for name in measured if row[name]]
        if not cells or not all(map(row.get, needed)):
            found, expected = separator.join(row.values()), separator.join(names)
            raise records.fault(_ROW, line, found, expected)
        point = records.point([row[name] for name in parameters], line, coordinates)
        key = row.get("callpath", "main"), row.get("metric", metric)
        if reduce is None:
            records.add(key, point, cells, line, number)
            continue
        for k, cell in enumerate(cells):
            # Without a column of repetitions, those of a process are in the order of the rows.
            run = key, point, k, row.get("repetition", "")
            process = *run, row["process"]
            seen[process] += 1
            alike.setdefault((*run, seen[process]), []).append(records.number(cell, line, number))
    for (key, point, *_), numbers in alike.items():
        records.add(key, point, [choice.reduced(numbers)])
    return records


def _columns(
    names: list[str], wanted: Sequence[str], known: Sequence[str], fault: Callable[..., InputError]
) -> tuple[list[str], list[str]]:
    """Return the columns of a header that hold values, and those that hold parameters."""
    matching = {
        column: {name for name in names if name == column or fnmatchcase(name, column)}
        for column in wanted or ["value"]
    }
    chosen = set[str]().union(*matching.values())
    parameters = [name for name in names if name not in chosen and name not in known]
    absent = [column for column in wanted if not matching[column]]
    if "" in names:
        expected = "no numbers of rows, which pandas leaves out with index=False"
        raise fault("a column has no name", expected=expected)
    if absent:
        raise fault(f"no column {absent[0]}", expected="a column that it names")
    if "process" in known and "process" not in names:
        raise fault("has no values of single processes to reduce", expected="a column process")
    if not chosen or not parameters:
        expected = "a column for each parameter and a column value"
        others = [name for name in names if name not in _NAMED]
        if not chosen and len(others) > 1:
            expected += f", or the name of that column: --value {_guess(others)}"
        raise fault("is no table of measurements", expected=expected)
    return [name for name in names if name in chosen], parameters


def _guess(names: list[str]) -> str:
    """Guess the columns of values: numbered ones, such as rep1 and rep2, or the last."""
    stems = [re.sub(r"\d+$", "", name) for name in names]
    last = stems[-1]
    return f"'{last}*'" if last and last != names[-1] and stems.count(last) > 1 else names[-1]
