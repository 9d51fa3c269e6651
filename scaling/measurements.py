"""Measurements of many call paths at the same points, and values that are read from files."""

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
from numpy.typing import ArrayLike

from toruscast._slow import pandas as pd
from toruscast.errors import InputError
from toruscast.files import at_file
from toruscast.text import counted
from toruscast.typing import Floats
from toruscast.validation import repeated

from .formula import ScalingWarning

PathLike = str | os.PathLike[str]
Point = tuple[float, ...]
Key = tuple[str, str]

# Functions that reduce the values of a run's processes to one value.
REDUCTIONS: dict[str, Callable[..., Any]] = {"mean": np.mean, "max": np.max, "sum": np.sum}
# Limits that prevent overflow in squares of values and in products of cubed parameters.
MAX_VALUE = 1e50
MIN_VALUE = 1e-50
MAX_PARAMETER = 1e20
_PARAMETER_RANGE = f"0 or {1 / MAX_PARAMETER:g} to {MAX_PARAMETER:g}"
_TOO_LARGE = "a value is too large to fit; use another unit"
_UNSUPPORTED = {
    "value": ("has no columns to choose from", "a table"),
    "parameters": ("has no metadata to choose from", "profiles of Caliper or Thicket"),
    "reduce": ("has no values of single processes", "profiles, or a table of them"),
    "merge": ("has no call trees of runs", "profiles, whose values exclude called functions"),
}
# Columns that are not parameters.
_RESERVED = ("value", "callpath", "metric", "repetition")
_ROW = "a row needs a value in each column"


@dataclass(frozen=True, eq=False)
class Measurements:
    """Values of call paths and metrics, measured at one set of points.

    Parameters
    ----------
    parameters : sequence of str
    points : array-like, shape (n_points, n_parameters)
        Points, all different; parameter values must be 0 or more.
    values : array-like, shape (n_paths, n_points, n_repetitions)
        NaN marks a missing repetition; each point needs at least one value.
    callpaths, metrics : sequence of str, optional
        The name and the metric of each call path.

    Examples
    --------
    >>> m = Measurements(["p"], [[2], [4], [8]], [[[1.0, 1.1], [2.0, 2.1], [4.0, 4.1]]])
    >>> m.n_paths, m.points.shape, m.values.shape
    (1, (3, 1), (1, 3, 2))
    """

    parameters: tuple[str, ...]
    points: Floats
    values: Floats
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
        x, y = as_real_array(points, "points"), as_real_array(values, "values")
        if x.ndim != 2 or y.ndim != 3 or x.shape[0] != y.shape[1] or 0 in y.shape:
            found = f"shapes {x.shape} and {y.shape}"
            expected = "(points, parameters) and (paths, points, repetitions)"
            raise InputError("points and values disagree", found=found, expected=expected)
        if x.shape[1] != len(parameters) or len(set(parameters)) < len(parameters):
            message = f"{x.shape[1]} parameters need as many different names"
            raise InputError(message, found=list(parameters))
        check_points(x, parameters)
        if len(np.unique(x, axis=0)) < len(x):
            raise InputError("a point is repeated; join its repetitions")
        if np.isinf(y).any():
            raise InputError("a value is infinite")
        if np.isnan(y).all(axis=2).any():
            raise InputError("a point has no value", expected="at least one repetition")
        size = np.nanmax(np.abs(y), axis=(1, 2))
        if size.max() > MAX_VALUE:
            raise InputError(_TOO_LARGE, found=size.max(), expected=f"at most {MAX_VALUE:g}")
        too_small = size[(size > 0) & (size < MIN_VALUE)]
        if too_small.size:
            message = "the values of a path are too small to fit; use another unit"
            expected = f"one of {MIN_VALUE:g} or more, or only 0"
            raise InputError(message, found=f"at most {too_small[0]:g}", expected=expected)
        paths = tuple(f"path {k}" for k in range(len(y))) if callpaths is None else tuple(callpaths)
        names = ("time",) * len(y) if metrics is None else tuple(metrics)
        if not len(paths) == len(names) == len(y):
            raise InputError(f"{len(y)} paths need as many call paths and metrics")
        # The caller may change its arrays later.
        x, y = x.copy(), y.copy()
        x.flags.writeable = y.flags.writeable = False
        vars(self).update(
            parameters=tuple(parameters), points=x, values=y, callpaths=paths, metrics=names
        )

    @property
    def n_paths(self) -> int:
        """Number of call paths, counted once for each metric."""
        return len(self.values)


def check_points(points: Floats, parameters: Sequence[str]) -> None:
    """Raise `InputError` for parameter values at which no term is defined."""
    for name, column in zip(parameters, points.T, strict=True):
        if not np.isfinite(column).all():
            raise InputError(f"parameter {name} must be finite", found="NaN or infinity")
        if (column < 0).any():
            raise InputError(f"Negative values in data for parameter {name}", found=column.min())
        size = column[column > 0]
        if size.size and (size.max() > MAX_PARAMETER or size.min() < 1 / MAX_PARAMETER):
            found = size.max() if size.max() > MAX_PARAMETER else size.min()
            message, expected = f"parameter {name} is too large or too small", _PARAMETER_RANGE
            raise InputError(message, found=found, expected=expected)


def log_points(points: Floats) -> Floats:
    """Return the logarithms of points, after `replace_zeros`."""
    return np.asarray(np.log(replace_zeros(points, points)))


def replace_zeros(points: Floats, places: Floats) -> Floats:
    """Replace zeros in places by half of the smallest positive measured value, for logarithms.

    If a parameter was measured at 0, positive values below this half are raised to it as well.
    """
    half = np.where(points > 0, points, np.inf).min(axis=0) / 2
    minimum = np.where((points > 0).all(axis=0), 0.0, half)
    return np.where(places > 0, np.maximum(places, minimum), half)


def as_real_array(numbers: ArrayLike, what: str) -> Floats:
    """Return an array of floats, or raise `InputError` if the numbers are not real."""
    try:
        # NumPy would drop imaginary parts.
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
    """Group a table with one row per repetition.

    Parameters
    ----------
    rows : DataFrame
        Measurements; named levels of the index count as columns.
    parameters, value : sequence of str, str
        Columns of the parameters and of the measured value.
    callpath, metric : str, optional
        Columns of the call path and the metric; required if the table has a column ``callpath`` or
        ``metric`` with several values.

    Returns
    -------
    list of Measurements
        One item per set of points, with all call paths measured at these points.

    Examples
    --------
    >>> rows = pd.DataFrame({"p": [2, 2, 4, 8], "value": [1.0, 1.2, 2.0, 4.0]})
    >>> from_rows(rows, ["p"])[0].values.tolist()
    [[[1.0, 1.2], [2.0, nan], [4.0, nan]]]
    """
    if isinstance(parameters, str) or not isinstance(rows, pd.DataFrame):
        found = f"a {type(rows).__name__} and {parameters!r}"
        raise InputError("measurements need a DataFrame and a list of parameters", found=found)
    levels = [name for name in rows.index.names if name is not None and name not in rows.columns]
    rows = rows.reset_index(levels) if levels else rows
    keys = [name for name in (callpath, metric) if name]
    names = [*parameters, value, *keys]
    absent = [name for name in names if name not in rows.columns]
    if absent or not parameters:
        columns, expected = list(rows.columns), absent or "a parameter"
        raise InputError("the table lacks columns", found=columns, expected=expected)
    if twice := repeated(rows.columns) or repeated(names):
        message = "a column is one of parameters, value, callpath and metric"
        raise InputError(message, found=f"{twice[0]} twice")
    if rows.empty:
        raise InputError("the table has no rows")
    for name in rows.columns.difference(names, sort=False):
        kind = str(name).lower()
        if kind in ("callpath", "metric") and rows[name].nunique() > 1:
            several = ", ".join(map(str, rows[name].unique()[:5]))
            message = f"rows with different values of {name} are not repetitions"
            raise InputError(message, found=several, expected=f"{kind}={name!r}")
    for name in [*parameters, value]:
        if rows[name].dtype.kind not in "iuf":
            raise InputError(f"column {name} must contain numbers", found=rows[name].dtype)
    for name in [value, *keys]:
        if rows[name].isna().any():
            raise InputError(f"column {name} contains NaN or empty cells; remove such rows")
    parts = rows.groupby(keys, sort=False, observed=True) if keys else [((), rows)]
    paths = []
    for key, part in parts:
        names_of_path = dict(zip(keys, key, strict=True))
        path = str(names_of_path.get(str(callpath), "all"))
        x, y = part[list(parameters)].to_numpy(float), part[value].to_numpy(float)
        paths.append((path, str(names_of_path.get(str(metric), value)), x, y))
    return group_paths(parameters, paths)


def group_repetitions(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Return the unique points and their repetitions, with NaN for missing repetitions."""
    points, number = np.unique(x, axis=0, return_inverse=True)
    number = number.ravel()
    order = np.argsort(number, kind="stable")
    counts = np.bincount(number)
    values = np.full((len(points), counts.max()), np.nan)
    # Index of each sorted value among the repetitions of its point.
    repetition = np.arange(len(y)) - np.repeat(np.cumsum(counts) - counts, counts)
    values[number[order], repetition] = y[order]
    return points, values


def group_paths(
    parameters: Sequence[str], paths: Iterable[tuple[str, str, ArrayLike, ArrayLike]]
) -> list[Measurements]:
    """Group tuples (call path, metric, points of the repetitions, values) into measurements.

    Call paths with the same points share one item.
    """
    groups: dict[bytes, tuple[Floats, list[tuple[str, str, Floats]]]] = {}
    for path, metric, x, y in paths:
        points, values = group_repetitions(np.asarray(x, float), np.asarray(y, float))
        groups.setdefault(points.tobytes(), (points, []))[1].append((path, metric, values))
    result = []
    for points, members in groups.values():
        names, metrics, tables = zip(*members, strict=True)
        values = np.full((len(members), len(points), max(t.shape[1] for t in tables)), np.nan)
        for row, table in zip(values, tables, strict=True):
            row[:, : table.shape[1]] = table
        result.append(Measurements(parameters, points, values, names, metrics))
    return result


class Records:
    """Values read from a file, by call path and metric."""

    def __init__(self, file: PathLike, parameters: Sequence[str] = ()) -> None:
        self.file = file
        self.parameters = list(parameters)
        # The point and the value of each repetition.
        self.rows: dict[Key, list[tuple[Point, float]]] = {}
        # Content that was not read, and how often it occurs.
        self.left_out: Counter[str] = Counter()

    def fault(
        self, message: str, line: int | None = None, found: object = None, expected: object = None
    ) -> InputError:
        """Return an error that names a line of the file."""
        return InputError(message, file=self.file, line=line, found=found, expected=expected)

    def number(self, value: object, line: int | None = None, what: str = "a number") -> float:
        """Return a finite number, or raise `InputError`."""
        result = to_float(value)
        if not math.isfinite(result):
            found = "null" if value is None else value
            raise self.fault("bad number", line, found, what)
        return result

    def point(
        self, values: Sequence[object], line: int | None = None, what: str = "a number"
    ) -> Point:
        """Return a point from the values of its parameters, or raise `InputError`."""
        if len(values) != len(self.parameters):
            expected = f"{counted(len(self.parameters), 'number')}: {' '.join(self.parameters)}"
            found = " ".join(map(str, values))
            raise self.fault("a point needs one value per parameter", line, found, expected)
        point = tuple(self.number(value, line, what) for value in values)
        # `check_points` is slow, so usual values skip it.
        if not all(1 <= x <= MAX_PARAMETER for x in point):
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
        """Append repetitions; raise `InputError` unless they are finite and not too large."""
        numbers = [self.number(value, line, what) for value in values]
        if any(abs(number) > MAX_VALUE for number in numbers):
            raise self.fault(_TOO_LARGE, line, max(numbers, key=abs), f"at most {MAX_VALUE:g}")
        self.rows.setdefault(key, []).extend((point, number) for number in numbers)

    def add_zeros(self) -> None:
        """Add the value 0 for each run that lacks a call path."""
        counts = {key: Counter(point for point, _ in rows) for key, rows in self.rows.items()}
        runs: dict[str, Counter[Point]] = {}
        for (_, metric), count in counts.items():
            runs[metric] = runs.get(metric, Counter()) | count
        for key, rows in self.rows.items():
            missing = runs[key[1]] - counts[key]
            rows += [(point, 0.0) for point in missing.elements()]

    def measurements(self) -> list[Measurements]:
        """Return the values as measurements, one item for each set of points."""
        paths = [
            (*key, [point for point, _ in rows], [value for _, value in rows])
            for key, rows in self.rows.items()
            if rows
        ]
        if not paths:
            raise self.fault("contains no measurements")
        if self.left_out:
            found = ", ".join(f"{what} ({count} times)" for what, count in self.left_out.items())
            warnings.warn(f"{self.file}: not read: {found}", ScalingWarning, stacklevel=3)
        with at_file(self.file):
            return group_paths(self.parameters, paths)


def to_float(value: object) -> float:
    """Return a value as a float, or NaN if it is not a number."""
    # float() accepts 1_000 and True.
    if isinstance(value, bool) or (isinstance(value, str) and "_" in value):
        return math.nan
    try:
        return float(value)  # type: ignore[arg-type]
    except OverflowError:
        return math.inf
    except (TypeError, ValueError):
        return math.nan


@contextmanager
def check_layout(file: PathLike, what: str, expected: str) -> Iterator[None]:
    """Raise `InputError` for a document with keys or types of another format."""
    try:
        yield
    except InputError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        # The messages of the other types of errors would not help the user.
        found = f"no key {error.args[0]}" if isinstance(error, KeyError) else None
        raise InputError(f"is not a {what}", file=file, found=found, expected=expected) from None
    except RecursionError:
        raise InputError("is nested too deeply", file=file, expected=expected) from None


@dataclass(frozen=True)
class ReadOptions:
    """Columns or metrics, parameters and reductions that the user selects."""

    value: Sequence[str] = ()
    parameters: Sequence[str] = ()
    reduce: str | None = None
    # "merge" if requested, "" if disabled, None for the format's default.
    merge: str | None = None

    def refuse(self, file: PathLike, *names: str) -> None:
        """Raise `InputError` if one of these options is set: the format does not support them."""
        for name in names:
            if found := getattr(self, name):
                message, expected = _UNSUPPORTED[name]
                raise InputError(message, file=file, found=found, expected=expected)

    def reduce_values(self, values: Any) -> float:
        """Reduce the values of a run's processes to one value, by default their mean."""
        return float(REDUCTIONS[self.reduce or "mean"](values))


def enumerate_lines(content: str) -> Iterator[tuple[int, str]]:
    """Yield the number and the text of each non-empty line."""
    # `splitlines` would also split names that contain line separators such as U+2028.
    for line, text in enumerate(content.split("\n"), 1):
        if text.strip():
            yield line, text.strip()


def find_separator(header: str) -> str:
    """Return the column separator of a header, or "" for a single column."""
    return next((separator for separator in ",;\t" if separator in header), "")


def read_rows(
    content: str,
    file: PathLike,
    separator: str = ",",
    rename: Callable[[str], str] = str,
    comments: bool = False,
) -> Iterator[tuple[int, list[str]]]:
    """Yield the header of a table, then its rows, each with its line number.

    Empty rows are skipped, and so are lines above the header that start with ``#``.
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
                    raise InputError("a column is repeated", file=file, line=line, found=twice[0])
            elif len(row) != len(names):
                found, expected = separator.join(row), separator.join(names)
                raise InputError(_ROW, file=file, line=line, found=found, expected=expected)
            yield line, row
    except csv.Error as error:
        raise InputError("bad line", file=file, line=reader.line_num, found=str(error)) from None


def parse_csv(
    content: str, file: PathLike, separator: str = ",", choice: ReadOptions = ReadOptions()
) -> Records:
    """Return the values of a table of measurements.

    The column names value, callpath, metric and repetition are reserved, also in upper case;
    repetition is used only by a reduction. Other columns are parameters unless `choice` selects
    them as values. Several columns of values are repetitions, and so are several rows with the same
    point. A reduction combines the processes of a run, which are given in the column ``process``.
    """
    values, reduce = choice.value, choice.reduce
    known = _RESERVED if reduce is None else (*_RESERVED, "process")

    def rename(name: str) -> str:
        return name.lower() if name.lower() in known and name not in values else name

    rows = read_rows(content, file, separator, rename)
    start, names = next(rows, (0, []))
    fault = partial(InputError, file=file, line=start, found=separator.join(names))
    measured, parameters = _classify_columns(names, values, known, fault)
    records = Records(file, parameters)
    metric = measured[0] if len(measured) == 1 and measured[0].lower() not in _RESERVED else "time"
    required = [name for name in names if name not in {*measured}]
    expected_value = f"a number for {' and '.join(measured)}"
    expected_point = f"a number for {' and '.join(parameters)}"
    runs: dict[tuple[Key, Point, int, str, int], list[float]] = {}
    n_rows: Counter[tuple[object, ...]] = Counter()
    for line, texts in rows:
        row = dict(zip(names, texts, strict=True))
        cells = [row[name] for name in measured if row[name]]
        if not cells or not all(map(row.get, required)):
            found, expected = separator.join(row.values()), separator.join(names)
            raise records.fault(_ROW, line, found, expected)
        point = records.point([row[name] for name in parameters], line, expected_point)
        key = row.get("callpath", "main"), row.get("metric", metric)
        if reduce is None:
            records.add(key, point, cells, line, expected_value)
            continue
        for k, cell in enumerate(cells):
            # Without a column of repetitions, the n-th row of each process belongs to the n-th run.
            run = key, point, k, row.get("repetition", "")
            process = *run, row["process"]
            n_rows[process] += 1
            value = records.number(cell, line, expected_value)
            runs.setdefault((*run, n_rows[process]), []).append(value)
    for (key, point, *_), numbers in runs.items():
        records.add(key, point, [choice.reduce_values(numbers)])
    return records


def _classify_columns(
    names: list[str], wanted: Sequence[str], known: Sequence[str], fault: Callable[..., InputError]
) -> tuple[list[str], list[str]]:
    """Return the columns of values, and the columns of parameters.

    The columns of values are those that match ``wanted``, by default ``value``. All other columns
    are parameters, except those in ``known``.
    """
    matching = {
        column: {name for name in names if name == column or fnmatchcase(name, column)}
        for column in wanted or ["value"]
    }
    chosen = set[str]().union(*matching.values())
    parameters = [name for name in names if name not in {*chosen, *known}]
    absent = [column for column in wanted if not matching[column]]
    if "" in names:
        expected = "no row numbers; pandas omits them with index=False"
        raise fault("a column has no name", expected=expected)
    if absent:
        raise fault(f"no column {absent[0]}", expected="a column of the header")
    if "process" in known and "process" not in names:
        raise fault("has no values of single processes to reduce", expected="a column process")
    if not chosen or not parameters:
        expected = "a column for each parameter and a column value"
        others = [name for name in names if name not in _RESERVED]
        if not chosen and len(others) > 1:
            expected += f", or the name of that column: --value {_guess_value_columns(others)}"
        raise fault("is not a table of measurements", expected=expected)
    return [name for name in names if name in chosen], parameters


def _guess_value_columns(names: list[str]) -> str:
    """Guess which columns hold values: numbered ones such as rep1 and rep2, or the last column."""
    stems = [re.sub(r"\d+$", "", name) for name in names]
    last = stems[-1]
    is_numbered = last and last != names[-1] and stems.count(last) > 1
    return f"'{last}*'" if is_numbered else names[-1]
