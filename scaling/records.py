"""Values of a file as measurements, and tables of them."""

from __future__ import annotations

import csv
import io
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from toruscast.errors import InputError
from toruscast.text import counted
from toruscast.validation import repeated

from .measurements import LARGEST, LARGEST_PARAMETER, Measurements, check_points, group_paths

PathLike = str | os.PathLike[str]
Point = tuple[float, ...]
Key = tuple[str, str]

# How values of the processes of one run become one.
REDUCTIONS: dict[str, Callable[..., Any]] = {"mean": np.mean, "max": np.max, "sum": np.sum}


class Records:
    """Values by (call path, metric), as a reader finds them in a file."""

    def __init__(self, file: PathLike, parameters: Sequence[str] = ()) -> None:
        self.file = file
        self.parameters = list(parameters)
        # The point and the value of each repetition.
        self.rows: dict[Key, list[tuple[Point, float]]] = {}

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
        try:
            return group_paths(self.parameters, paths)
        except InputError as error:
            raise error.replace(file=self.file) from None


def as_number(value: object) -> float:
    """Return a value as a float, or NaN if it is no number."""
    # Python would read 1_000 as a thousand, and True as one.
    if isinstance(value, bool) or (isinstance(value, str) and "_" in value):
        return math.nan
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return math.nan


def import_reader(module: str, package: str, extra: str, file: PathLike) -> Any:
    """Import a package that reads profiles."""
    try:
        return import_module(module)
    except ImportError:
        expected = f"pip install 'toruscast[{extra}]'"
        message = f"such a profile needs the package {package}"
        raise InputError(message, file=file, expected=expected) from None


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
