"""Tables of numbers that are not negative: read fast, and with a slow twin that words the fault."""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toruscast.errors import InputError

from .opening import Text

LARGEST = 2**63 - 1
BLOCK = 10000
WHOLE = re.compile(r"\+?[0-9]+|-0+")
DECIMAL_COMMA = re.compile(r"[+-]?[0-9]+,[0-9]+")
NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


@dataclass(frozen=True)
class Column:
    """Name of a column for messages, and whether its numbers are whole."""

    name: str
    whole: bool = False


@dataclass(frozen=True)
class Table:
    """Columns of a text file, and where each row stands.

    That is ``lines[row]``, or if there are no ``lines``, the row-th line with data after ``skip``.
    """

    text: Text
    skip: int
    columns: list[NDArray[Any]]
    lines: NDArray[np.int64] | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.columns[0].size)

    def line(self, row: int) -> int:
        """Return the line that holds a row."""
        if self.lines is not None:
            return int(self.lines[row])
        return next(islice(self.text.lines(skip=self.skip), row, None))[0]

    def fault(self, row: int, message: str, found: object, expected: object) -> InputError:
        """Return an error at the line of a row."""
        return self.text.fault(message, self.line(row), found, expected)


def fields(line: str) -> list[str]:
    """Split a line at its semicolons or commas, if it has any, or else at blanks."""
    return [field.strip() for field in line.split(comma(line))]


def comma(line: str) -> str | None:
    """Return the semicolon or comma that separates; None where blanks do, decimal commas or not.

    Examples
    --------
    >>> comma("0, 1, 8"), comma("0 1 8"), comma("0 1 8,5"), comma("0;1;8,5")
    (',', None, None, ';')
    """
    if ";" in line:
        return ";"
    if "," not in line or (" " not in line and "\t" not in line):
        return "," if "," in line else None
    parts = line.split()
    decimal = len(parts) > 2 and all(
        DECIMAL_COMMA.fullmatch(p) or NUMBER.fullmatch(p) for p in parts
    )
    return None if decimal else ","


def cells(line: str) -> tuple[str | None, list[str]]:
    """Return separator and cells of a line, without quotes; None for blanks.

    Examples
    --------
    >>> cells('"src";"dst"'), cells("0 1")
    ((';', ['src', 'dst']), (None, ['0', '1']))
    """
    # Blanks and tabs between numbers are alike; names may hold blanks.
    tab = None if all(map(NUMBER.fullmatch, line.split())) or "\t" not in line else "\t"
    separator = comma(line) or tab
    parts = line.split() if separator is None else line.split(separator)
    return separator, [part.strip().strip("\"'") for part in parts]


def whole(text: Text, line: int, name: str, value: str, most: int | None = None) -> int:
    """Return a whole number from 0 to ``most``."""
    top = "0 or more" if most is None else f"0 to {most}"
    digits = value.lstrip("+-0")
    if WHOLE.fullmatch(value) and len(digits) <= len(str(LARGEST)):
        number = int(digits or "0")
        if number <= (LARGEST if most is None else most):
            return number
    raise text.fault(f"bad {name}", line, value, f"a whole number, {top}")


def read_table(
    text: Text, columns: Sequence[Column], skip: int = 0, max_rows: int | None = None
) -> Table:
    """Return all lines after the first ``skip``, or ``max_rows`` of them, as columns.

    The first of them decides whether commas or blanks separate. Every line must hold one number
    for each column: whole, or finite, and not negative.
    """
    if (first := next(text.lines(skip=skip), None)) is None:
        dtypes = [np.int64 if column.whole else np.float64 for column in columns]
        return Table(text, skip, [np.zeros(0, dtype) for dtype in dtypes])
    separator = comma(first[1])
    try:
        arrays = _fast(text, columns, skip, separator, max_rows)
    except (ValueError, DeprecationWarning, OverflowError):
        arrays = []
    if not arrays or not all(_valid(array) for array in arrays):
        if max_rows is None:
            _slow(
                text, columns, skip + _good_lines(text, columns, skip, separator), separator, None
            )
        arrays = _slow(text, columns, skip, separator, max_rows)
    return Table(text, skip, arrays)


def _fast(
    text: Text,
    columns: Sequence[Column],
    skip: int,
    separator: str | None,
    max_rows: int | None,
) -> list[NDArray[Any]]:
    """Read all at once; a fault is a ValueError that says too little."""
    kinds = [(f"f{i}", "i8" if column.whole else "f8") for i, column in enumerate(columns)]
    uniform = len({kind for _, kind in kinds}) == 1
    data = text.data.replace(b"%", b"#")
    with warnings.catch_warnings():
        # A fraction where a whole number should be is only a warning to NumPy.
        warnings.simplefilter("error", DeprecationWarning)
        # Blank lines do not count as rows; NumPy tells so every time.
        warnings.simplefilter("ignore", UserWarning)
        array = np.loadtxt(
            io.BytesIO(data),
            dtype=kinds[0][1] if uniform else kinds,
            delimiter=separator,
            skiprows=skip,
            max_rows=max_rows,
            ndmin=2 if uniform else 1,
            encoding="utf-8",
        )
    if not uniform:
        return [np.ascontiguousarray(array[name]) for name, _ in kinds]
    if array.shape[1] != len(columns):
        raise ValueError("wrong number of columns")
    return list(np.ascontiguousarray(array.T))


def _slow(
    text: Text,
    columns: Sequence[Column],
    skip: int,
    separator: str | None,
    max_rows: int | None,
) -> list[NDArray[Any]]:
    """Read line by line; the first bad line is an `InputError`."""
    values: list[list[float]] = [[] for _ in columns]
    for number, line in islice(text.lines(skip=skip), max_rows):
        for target, value in zip(
            values, row_of(text, number, line, columns, separator), strict=True
        ):
            target.append(value)
    dtypes = [np.int64 if column.whole else np.float64 for column in columns]
    return [np.array(v, dtype) for v, dtype in zip(values, dtypes, strict=True)]


def row_of(
    text: Text,
    number: int,
    line: str,
    columns: Sequence[Column | None],
    separator: str | None,
) -> list[float]:
    """Return the numbers of one line, without those of columns that are None."""
    parts = [part.strip() for part in line.split(separator)]
    if len(parts) != len(columns):
        kind = {None: "blanks", ",": "commas", ";": "semicolons"}.get(separator, f"'{separator}'")
        names = ", ".join(column.name if column else "..." for column in columns[:4])
        names += ", ..." if len(columns) > 4 else ""
        expected = f"{len(columns)} columns ({names}) separated by {kind}"
        raise text.fault("wrong number of columns", number, f"{len(parts)}: {line[:80]}", expected)
    values: list[float] = []
    for column, part in zip(columns, parts, strict=True):
        if column is None:
            continue
        if column.whole:
            values.append(whole(text, number, column.name, part))
        elif NUMBER.fullmatch(part) and 0 <= float(part) < math.inf:
            values.append(float(part))
        else:
            point = ", with a decimal point" if "," in part else ""
            raise text.fault(f"bad {column.name}", number, part, f"a number, 0 or more{point}")
    return values


def _good_lines(text: Text, columns: Sequence[Column], skip: int, separator: str | None) -> int:
    """Count lines after ``skip`` that are surely free of faults, so that the slow pass is short."""
    good = 0
    lines = islice(io.BytesIO(text.data), skip, None)
    while block := list(islice(lines, BLOCK)):
        try:
            arrays = _fast(Text(text.file, b"".join(block)), columns, 0, separator, None)
        except (ValueError, DeprecationWarning, OverflowError):
            break
        if not all(_valid(array) for array in arrays):
            break
        good += len(block)
    return good


def _valid(array: NDArray[Any]) -> bool:
    return bool((array >= 0).all() and (array < np.inf).all())
