"""Tables of numbers that are not negative: read fast, or line by line to word a fault."""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from toruscast.errors import InputError
from toruscast.files import check_text, most_unpacked

from . import source as files
from .source import NUMBER, Streamed, Text, comma, opened, whole

BLOCK = 10000


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


CHUNK = 2**23
# A text this short is read line by line; compiling or loading the kernel would take longer.
SHORT = 2**16


def read_rows(
    text: Streamed, columns: Sequence[Column | None], skip: int, separator: str | None
) -> Table:
    """Return all lines after the first ``skip`` as columns; those that are None are left out.

    Every line must hold one number for each column: whole, or finite, and not negative.

    Raises
    ------
    InputError
        Naming the first line that does not.
    """
    kept = [column for column in columns if column is not None]
    if Path(text.file).stat().st_size <= SHORT and not _is_packed(text.file):
        rows = [row_of(text, n, line, columns, separator) for n, line in text.lines(skip=skip)]
        values = zip(*rows, strict=True) if rows else [()] * len(kept)
        arrays = [
            np.array(value, np.int64 if column.whole else np.float64)
            for column, value in zip(kept, values, strict=True)
        ]
        return Table(text, skip, arrays)
    with opened(text.file) as stream:
        table = _Columns(kept, Path(text.file).stat().st_size)
        _fill(stream, text, columns, skip, separator, table)
    return Table(text, skip, table.arrays())


def _is_packed(file: str) -> bool:
    with Path(file).open("rb") as stream:
        return stream.read(2) == b"\x1f\x8b"


class _Columns:
    """Columns that grow: whole ones and others apart."""

    def __init__(self, kept: Sequence[Column], size: int) -> None:
        self.kept = kept
        self.rows = 0
        # Pages that are not written to take no memory; a line has a digit and a blank for each.
        self.room = max(size // (2 * len(kept) + 4), 1024)
        n_whole = sum(column.whole for column in kept)
        self.wholes = np.empty((n_whole, self.room), np.int64)
        self.amounts = np.empty((len(kept) - n_whole, self.room), np.float64)

    def grow(self) -> None:
        """Make room for twice as many rows."""
        for name in ("wholes", "amounts"):
            old = getattr(self, name)
            new = np.empty((old.shape[0], 2 * self.room), old.dtype)
            new[:, : self.rows] = old[:, : self.rows]
            setattr(self, name, new)
        self.room *= 2

    def append(self, values: Sequence[float]) -> None:
        """Add one row."""
        if self.rows == self.room:
            self.grow()
        w = a = 0
        for column, value in zip(self.kept, values, strict=True):
            if column.whole:
                self.wholes[w, self.rows] = value
                w += 1
            else:
                self.amounts[a, self.rows] = value
                a += 1
        self.rows += 1

    def arrays(self) -> list[NDArray[Any]]:
        """The columns in the order of the file, whole ones in 32 bits where they fit."""
        wholes = iter([_narrow(column[: self.rows]) for column in self.wholes])
        amounts = iter(self.amounts)
        return [next(wholes) if c.whole else next(amounts)[: self.rows] for c in self.kept]


def _narrow(column: NDArray[np.int64]) -> NDArray[Any]:
    return column.astype(np.int32) if column.max(initial=0) < 2**31 else column


def _fill(
    stream: IO[bytes],
    text: Streamed,
    columns: Sequence[Column | None],
    skip: int,
    separator: str | None,
    table: _Columns,
) -> None:
    from ._row_kernels import AMOUNT, FULL, LEFT_OUT, STRANGE, WHOLE, parse_rows

    kinds = np.array(
        [LEFT_OUT if c is None else WHOLE if c.whole else AMOUNT for c in columns], np.int8
    )
    mark = ord(separator) if separator else 0
    most = most_unpacked(text.file, files.MAX_BYTES) if _is_packed(text.file) else float("inf")
    line, size, rest, first = 0, 0, b"", True
    while True:
        chunk = stream.read(CHUNK)
        text.tell(stream)
        size += len(chunk)
        if size > most:
            raise text.fault("file too large", None, None, f"at most {most} bytes")
        data = rest + chunk
        if first:
            data, first = data.removeprefix(b"\xef\xbb\xbf"), False
        if b"\r" in data:
            # Half a line end waits for its other half.
            held = b"\r" if chunk and data.endswith(b"\r") else b""
            data = data[: len(data) - len(held)].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        else:
            held = b""
        if not chunk:
            data = data if data.endswith(b"\n") or not data else data + b"\n"
        cut = data.rfind(b"\n") + 1
        if not cut and len(data) > files.MAX_LINE:
            raise text.fault("line too long", line + 1, data[:30].decode(errors="replace"))
        rest = data[cut:] + held
        data = data[:cut]
        start = 0
        while line < skip and start < len(data):
            start = data.index(b"\n", start) + 1
            line += 1
        buffer = np.frombuffer(data, np.uint8)
        while start < len(data):
            start, rows, lines, why = parse_rows(
                buffer,
                start,
                mark,
                kinds,
                table.wholes[:, table.rows :],
                table.amounts[:, table.rows :],
            )
            table.rows += rows
            line += lines
            if why == FULL:
                table.grow()
            if why == STRANGE:
                stop = data.index(b"\n", start)
                line += 1
                if words := _line(text, line, data[start:stop]):
                    table.append(row_of(text, line, words, columns, separator))
                start = stop + 1
        if not chunk:
            return


def _line(text: Streamed, number: int, raw: bytes) -> str:
    """One line without its comment."""
    check_text(raw, text.file, number)
    return raw.decode().replace("%", "#").partition("#")[0].strip()
