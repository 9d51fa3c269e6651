"""Tables of any length: read in pieces, without an object for a line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from toruscast.files import check_text, most_unpacked

from . import opening
from ._table import Column, Table, row_of
from .opening import Streamed, opened

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
    most = most_unpacked(text.file, opening.MAX_BYTES) if _is_packed(text.file) else float("inf")
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
        if not cut and len(data) > opening.MAX_LINE:
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
