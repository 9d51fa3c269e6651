"""Tables of text or numbers, read line by line or in chunks."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from toruscast._slow import csv as arrow_csv
from toruscast._slow import pandas as pd
from toruscast._slow import pyarrow as pa
from toruscast.errors import InputError
from toruscast.files import check_text
from toruscast.typing import Ints

from .source import NUMBER, TextFile, comment_pattern, find_separator, parse_whole, split_cells

# A line such as "by hand 1,5": the comma is decimal, or the name contains a blank.
_DECIMAL_COMMA = re.compile(r"[^\s\"]+\s+[0-9]+,[0-9]+")
_MAX_CELL = 2**17
Rows = list[tuple[int, list[str]]]


def read_words(
    text: TextFile,
    lines: Iterable[tuple[int, str]],
    is_header: Callable[[list[str]], object],
    columns: Sequence[str] = (),
) -> tuple[list[str], Rows]:
    """Return the column names, and the line number and cells of each row.

    The first line is a header if ``is_header`` returns a true value for its cells; otherwise the
    names are ``columns``. Every row must have one cell per column.
    """
    names, separator, rows = list(columns), None, []
    for index, (number, line) in enumerate(lines):
        mark, cells = split_cells(line, separator)
        if max(map(len, cells)) > _MAX_CELL:
            raise text.fault("cell too long", number, line, f"at most {_MAX_CELL} characters")
        if index == 0 and is_header(cells):
            names, separator = cells, mark
            continue
        if separator is None and _DECIMAL_COMMA.fullmatch(line):
            expected = "a decimal point, or quotes around a name that contains a blank"
            raise text.fault("decimal comma or unquoted blank", number, line, expected)
        if len(cells) != len(names):
            expected = f"{len(names)} ({','.join(names)[:60]})"
            raise text.fault("wrong number of columns", number, len(cells), expected)
        rows.append((number, cells))
    if not rows:
        raise text.fault("file without data")
    return names, rows


_COMMENT = re.compile(comment_pattern().pattern.encode())
_HEXADECIMAL = re.compile(rb"\b0[xX]")
_BLANKS = re.compile(rb"(?m)^ +| +$")


@dataclass(frozen=True)
class TextTable:
    """Named columns of a text file, and the line number of each row.

    Row i is on line ``lines[i]``. Without ``lines``, it is the i-th data line after ``skip`` lines.
    """

    text: TextFile
    columns: dict[str, NDArray[Any]]
    skip: int = 0
    lines: Ints | None = None

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.columns[name]

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return next(iter(self.columns.values())).size

    def assign(self, **columns: NDArray[Any]) -> TextTable:
        """Return a copy of the table with added or replaced columns."""
        return replace(self, columns=self.columns | columns)

    def line(self, row: int) -> int:
        """Return the line number of a row."""
        if self.lines is not None:
            return int(self.lines[row])
        return next(islice(self.text.lines(skip=self.skip), row, None))[0]

    def fault(self, row: int, message: str, found: object, expected: object) -> InputError:
        """Return an error at the line of a row."""
        return self.text.fault(message, self.line(row), found, expected)


def make_table(
    text: TextFile,
    lines: Sequence[int] | Ints,
    **columns: Sequence[int] | Ints | None,
) -> TextTable:
    """Return a table from columns of whole numbers and their lines; skip columns that are None."""
    arrays = {
        name: np.array(column, dtype=np.int64)
        for name, column in columns.items()
        if column is not None
    }
    return TextTable(text, arrays, lines=np.array(lines, dtype=np.int64))


def read_table(
    text: TextFile,
    columns: Sequence[str | None],
    skip: int = 0,
    separator: str | None = "",
    floats: Collection[str] = (),
) -> TextTable:
    """Read all lines after the first ``skip`` as named columns; columns named None are skipped.

    The ``separator`` is None for blanks; by default it is that of the first line. No cell may be
    negative. Columns listed in ``floats`` contain finite numbers, others whole numbers.
    """
    if separator == "":
        separator = find_separator(next(text.lines(skip=skip), (0, ""))[1])
    dtypes = {name: np.float64 if name in floats else np.int64 for name in columns if name}
    layout = _Layout(columns, dtypes, separator)
    chunks: list[list[NDArray[Any]]] = []
    line = skip
    for data in text.chunks(skip):
        fast = _parse_chunk(data, layout)
        chunks.append(_parse_lines(text, data, line, layout) if fast is None else fast)
        line += data.count(b"\n")
    chunks = chunks or [[np.zeros(0, dtype) for dtype in dtypes.values()]]
    joined = (np.concatenate(arrays) for arrays in zip(*chunks, strict=True))
    return TextTable(text, dict(zip(dtypes, joined, strict=True)), skip)


class _Layout(NamedTuple):
    """The names of a table's columns, the types of the columns to read, and the separator."""

    columns: Sequence[str | None]
    dtypes: dict[str, type[np.float64] | type[np.int64]]
    separator: str | None


def _parse_chunk(data: bytes, layout: _Layout) -> list[NDArray[Any]] | None:
    """Parse a chunk of lines with pyarrow; return None if `_parse_lines` must read it.

    `_parse_lines` must read chunks with errors, because pyarrow does not report their lines, and
    chunks with numbers that pyarrow rejects.
    """
    if b"#" in data or b"%" in data:
        data = _COMMENT.sub(b"", data)
    if layout.separator is None:
        data = data.replace(b"\t", b" ")
        while b"  " in data:
            data = data.replace(b"  ", b" ")
    if b" \n" in data or b"\n " in data or data[:1] == b" ":
        data = _BLANKS.sub(b"", data)
    # pyarrow would accept hexadecimal numbers, which `_parse_line` rejects.
    if (b"x" in data or b"X" in data) and _HEXADECIMAL.search(data):
        return None
    types = {name: pa.from_numpy_dtype(dtype) for name, dtype in layout.dtypes.items()}
    names = [name or f"not read {place}" for place, name in enumerate(layout.columns)]
    try:
        table = arrow_csv.read_csv(
            pa.BufferReader(data),
            arrow_csv.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=names),
            arrow_csv.ParseOptions(delimiter=layout.separator or " ", quote_char=False),
            arrow_csv.ConvertOptions(
                column_types=types, include_columns=list(types), null_values=[]
            ),
        )
        arrays = [column.to_numpy() for column in table.columns]
    except pa.ArrowInvalid:
        return None
    for at, array in enumerate(arrays):
        if array.size and not (array.min() >= 0 and array.max() < np.inf):
            return None
        if array.dtype.kind == "i" and array.max(initial=0) < 2**31:
            arrays[at] = array.astype(np.int32)
    return arrays


def _parse_lines(text: TextFile, data: bytes, n_before: int, layout: _Layout) -> list[NDArray[Any]]:
    """Return the columns of a chunk that follows ``n_before`` lines; errors name the line."""
    rows = []
    for number, raw in enumerate(data.split(b"\n"), start=n_before + 1):
        check_text(raw, text.file, number)
        if line := comment_pattern().sub("", raw.decode()).strip():
            rows.append(_parse_line(text, number, line, layout))
    dtypes = layout.dtypes.values()
    values = zip(*rows, strict=True) if rows else [()] * len(dtypes)
    return [np.array(value, dtype) for dtype, value in zip(dtypes, values, strict=True)]


def _parse_line(text: TextFile, number: int, line: str, layout: _Layout) -> list[float]:
    """Return the numbers in the columns to read."""
    columns, dtypes, separator = layout
    cells = [cell.strip() for cell in line.split(separator)]
    if len(cells) != len(columns):
        known = {None: "blanks", ",": "commas", ";": "semicolons"}
        separator_name = known.get(separator, f"'{separator}'")
        names = ", ".join(name or "..." for name in columns[:4])
        names += ", ..." if len(columns) > 4 else ""
        expected = f"{len(columns)} columns ({names}) separated by {separator_name}"
        raise text.fault("wrong number of columns", number, f"{len(cells)}: {line[:80]}", expected)
    values: list[float] = []
    for name, cell in zip(columns, cells, strict=True):
        if name is None:
            continue
        if dtypes[name] is np.int64:
            values.append(parse_whole(text, number, name, cell))
        elif NUMBER.fullmatch(cell) and 0 <= float(cell) < math.inf:
            values.append(float(cell))
        else:
            point = ", with a decimal point" if "," in cell else ""
            raise text.fault(f"bad {name}", number, cell, f"a number, 0 or more{point}")
    return values


def write_rows(path: Path, head: str, columns: Sequence[NDArray[Any]], separator: str) -> None:
    """Write ``head``, then one line per row; columns of whole numbers have no decimal point."""
    table = pd.DataFrame({i: _as_integers(column) for i, column in enumerate(columns)})
    with path.open("w", encoding="utf-8", newline="") as stream:
        stream.write(head)
        table.to_csv(stream, sep=separator, header=False, index=False, lineterminator="\n")


def _as_integers(values: NDArray[Any]) -> NDArray[Any]:
    """Convert an array of floats to integers if all values are whole."""
    if values.dtype.kind != "f":
        return values
    is_whole = (values == np.floor(values)) & (values < 2**53)
    return values.astype(np.int64) if is_whole.all() else values
