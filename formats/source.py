"""What a dialect reads: a file's start, its first lines or all of it, or an `InputError`."""

from __future__ import annotations

import csv
import gzip
import io
import math
import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from pathlib import Path
from typing import IO, Any, cast

from toruscast._lazy import lazy
from toruscast.errors import InputError, InputWarning
from toruscast.files import (
    at_file,
    check_path,
    check_regular,
    check_text,
    max_unpacked,
    parse_json,
)
from toruscast.mapping.torus import Torus

# Bytes of a text or archive after decompression; about 80 million edges.
MAX_BYTES = 2**31
CHUNK = 2**24
# Enough to recognise any dialect by.
START = 2**16
LARGEST = 2**63 - 1
WHOLE = re.compile(r"\+?[0-9]+|-0+")
DECIMAL_COMMA = re.compile(r"[+-]?[0-9]+,[0-9]+")
# Possessive, for words of very many digits.
NUMBER = re.compile(r"[+-]?([0-9]++\.?[0-9]*+|\.[0-9]++)([eE][+-]?[0-9]++)?")
Progress = Callable[[int, int], object]
"""Called with the number of bytes read so far, and of all."""
# Bytes of lines that are read together.
_PIECE = 2**23
# Keys or columns that a warning names.
_MAX_UNUSED = 12
# Bytes of a line.
MAX_LINE = 2**24
_SUFFIXES = (
    *(".prof", ".txt", ".edges", ".topo", ".csv", ".npz", ".mtx", ".map", ".graph", ".grf"),
    *(".parquet", ".mpip", ".goal", ".xml", ".json", ".et"),
    *(".rankfile", ".hosts", ".hostfile", ".nodelist", ".taskmap", ".vcoord", ".yaml", ".yml"),
    *(".toml", ".tgt", ".textproto", ".mat"),
)


@cache
def comments(marks: str = "#%") -> re.Pattern[str]:
    """Return the pattern of comments, which begin a line or follow a blank: names may hold marks.

    Examples
    --------
    >>> comments("#").sub("", "sum#size 1 # bytes")
    'sum#size 1 '
    """
    return re.compile(rf"[{marks}](?<!\S[{marks}]).*")


@dataclass(frozen=True)
class Text:
    """A text file, its line ends all of one kind and its byte order mark gone."""

    file: str
    data: bytes = b""
    progress: Progress | None = field(default=None, compare=False)
    is_streamed: bool = False
    """Whether the file is read anew for each pass over its lines; ``data`` is empty then."""

    def lines(self, marks: str = "#%", skip: int = 0) -> Iterator[tuple[int, str]]:
        """Yield number and content of every line that holds more than blanks and comments.

        The first ``skip`` lines are left out.
        """
        comment = comments(marks)
        for number, raw in enumerate(self.raw_lines(skip), start=skip + 1):
            line = comment.sub("", raw).strip()
            if line:
                yield number, line

    def raw_lines(self, skip: int = 0) -> Iterator[str]:
        """Yield every line after the first ``skip`` as it stands."""
        number = skip
        for data in self.pieces(skip):
            for raw in data.removesuffix(b"\n").split(b"\n"):
                number += 1
                try:
                    line = raw.decode()
                except UnicodeDecodeError:
                    check_text(raw, self.file, number)
                    raise
                yield line

    def pieces(self, skip: int = 0) -> Iterator[bytes]:
        """Yield whole lines after the first ``skip``, many together, their ends all of one kind."""
        line, size, rest, first = 0, 0, b"", True
        with self._stream() as (stream, most, longest):
            while (chunk := stream.read(START if first else _PIECE)) or rest:
                # Readers of the first lines do not wait for more than the start.
                size += len(chunk)
                if self.progress is not None:
                    self.progress(*self._place(stream))
                if size > most:
                    raise self.fault("file too large", None, None, f"at most {most} bytes")
                data = rest + (chunk.removeprefix(b"\xef\xbb\xbf") if first else chunk)
                first = False
                if b"\0" in chunk:
                    check_text(data, self.file)
                # Half a line end waits for its other half.
                held = b"\r" if chunk and data.endswith(b"\r") else b""
                if b"\r" in data:
                    data = data.removesuffix(held).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
                cut = data.rfind(b"\n") + 1 if chunk else len(data)
                data, rest = data[:cut], data[cut:] + held
                if len(rest) > longest:
                    found = rest[:30].decode(errors="replace")
                    expected = f"less than {longest} bytes"
                    raise self.fault("line too long", line + 1, found, expected)
                while line < skip and data:
                    data, line = data[(data.find(b"\n") + 1) or len(data) :], line + 1
                if data:
                    yield data
                    line += data.count(b"\n")

    @contextmanager
    def at(self, line: int | None) -> Iterator[None]:
        """Add this file and a line to errors."""
        try:
            yield
        except InputError as error:
            raise error.replace(file=self.file, line=error.line or line) from None

    def json(self, words: str | None = None) -> Any:
        """Return what the text holds as JSON; or other words, made of it."""
        return parse_json(self.data.decode() if words is None else words, self.file)

    def matches(
        self, pattern: re.Pattern[str], what: str, expected: str
    ) -> Iterator[tuple[int, re.Match[str]]]:
        """Yield number and match of every line with data; ``what`` names them in errors."""
        for number, line in self.lines("#"):
            match = pattern.fullmatch(line)
            if match is None:
                raise self.fault(f"bad {what}", number, line, expected)
            yield number, match

    @contextmanager
    def _stream(self) -> Iterator[tuple[IO[bytes], float, float]]:
        """The bytes to read, how many there may be, and how many on a line."""
        if not self.is_streamed:
            yield io.BytesIO(self.data), math.inf, math.inf
            return
        with opened(self.file) as stream:
            is_packed = isinstance(stream, gzip.GzipFile)
            most = max_unpacked(self.file, MAX_BYTES) if is_packed else math.inf
            yield stream, most, MAX_LINE

    def _place(self, stream: IO[bytes]) -> tuple[int, int]:
        """How many bytes were read, as the file lies on the disk, and all of them."""
        if not self.is_streamed:
            return stream.tell(), len(self.data)
        file = stream.fileobj if isinstance(stream, gzip.GzipFile) else stream
        return file.tell(), Path(self.file).stat().st_size

    def first_line(self) -> tuple[int, str]:
        """Return number and content of the first line that holds more than blanks and comments."""
        for number, line in self.lines():
            return number, line
        raise self.fault("file without data")

    def fault(
        self, message: str, line: int | None = None, found: object = None, expected: object = None
    ) -> InputError:
        """Return an error at a line of this file; what was found may be of any length."""
        found = found[:500] if isinstance(found, str) else found
        return InputError(message, file=self.file, line=line, found=found, expected=expected)


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a regular file to read, decompressed if it is gzip."""
    with at_file(path):
        check_regular(path)
        with Path(path).open("rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            yield cast(IO[bytes], gzip.GzipFile(fileobj=file) if packed else file)


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """Return the content of a regular file, decompressed if it is gzip."""
    with opened(path) as stream:
        most = max_unpacked(path, MAX_BYTES) if isinstance(stream, gzip.GzipFile) else MAX_BYTES
        chunks, size = [], 0
        while chunk := stream.read(CHUNK):
            chunks.append(chunk)
            size += len(chunk)
            if size > most:
                raise InputError("file too large", file=path, expected=f"at most {most} bytes")
    data = b"".join(chunks)
    if not data:
        raise InputError("empty file", file=path)
    return data


def as_text(path: str | os.PathLike[str], data: bytes, progress: Progress | None = None) -> Text:
    """Return bytes as text, if they are."""
    data = data.removeprefix(b"\xef\xbb\xbf")
    if b"\r" in data and b"\0" not in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    check_text(data, path)
    return Text(os.fspath(path), data, progress)


def read_text(path: str | os.PathLike[str]) -> Text:
    """Return a text file, decompressed if it is gzip."""
    return as_text(path, read_bytes(path))


def warn_of(file: str | os.PathLike[str], message: str) -> None:
    """Warn about the content of a file, at the line that called the caller."""
    warnings.warn(f"{os.fspath(file)}: {message}", InputWarning, stacklevel=3)


def warn_of_unused(
    file: str | os.PathLike[str], words: Iterable[str], what: str = "not used"
) -> None:
    """Warn of the keys, columns or lines of a file that are not read."""
    if found := list(dict.fromkeys(word.strip()[:80] for word in words)):
        more = ", ..." if len(found) > _MAX_UNUSED else ""
        warn_of(file, f"{what}: {', '.join(found[:_MAX_UNUSED])}{more}")


def write_text(path: Path, text: str) -> None:
    """Write text as it stands, in UTF-8."""
    path.write_text(text, encoding="utf-8", newline="")


def label(path: str | os.PathLike[str]) -> str:
    """Return a file's name without ``.gz`` and without a suffix that names a format.

    Bytes of it that are no UTF-8 are written as escapes.
    """
    name = os.fsencode(Path(path).name).decode("utf-8", "backslashreplace").removesuffix(".gz")
    stem, suffix = os.path.splitext(name)  # noqa: PTH122 (pathlib takes a leading dot otherwise)
    return stem if suffix.lower() in _SUFFIXES else name


def cells(line: str, separator: str | None = None) -> tuple[str | None, list[str]]:
    """Return separator and cells of a line, without quotes; None for blanks.

    Semicolons, commas and tabs separate, in this order; without a ``separator`` the line decides.

    Examples
    --------
    >>> cells('"src";"dst"'), cells("0 1"), cells("0 1 8,5"), cells('"a,b", 1')
    ((';', ['src', 'dst']), (None, ['0', '1']), (None, ['0', '1', '8,5']), (',', ['a,b', '1']))
    """
    mark = separator or separator_of(line)
    parts = line.split(mark)
    if mark and '"' in line:
        with suppress(csv.Error):
            parts = next(csv.reader([line], delimiter=mark, skipinitialspace=True))
    return mark, [part.strip().strip("'" if mark else "\"'") for part in parts]


def separator_of(line: str) -> str | None:
    """Return what separates the cells of a line; None for blanks, with decimal commas or not."""
    if ";" in line:
        return ";"
    words = line.split()
    if "," in line:
        # Commas between numbers may be decimal ones.
        decimal = len(words) > 2 and all(
            DECIMAL_COMMA.fullmatch(word) or NUMBER.fullmatch(word) for word in words
        )
        return None if decimal else ","
    # Blanks and tabs between numbers are alike; names may hold blanks.
    return None if "\t" not in line or all(map(NUMBER.fullmatch, words)) else "\t"


def renamed(
    text: Text, line: int, names: Sequence[str], chosen: Mapping[str, str], needed: Sequence[str]
) -> list[str | None]:
    """Return our name of each column by the caller's choice; None for columns not in it."""
    wanted = list(chosen.values())
    missing = [name for name in wanted if names.count(name) != 1 or wanted.count(name) != 1]
    if missing or not {*needed} <= {*chosen}:
        twice = " twice" if missing and wanted.count(missing[0]) > 1 else ""
        found = missing[0] + twice if missing else ",".join(chosen)
        these = f"{', '.join(needed)}, each one of " if needed else "one of "
        raise text.fault("no such columns", line, found, these + ", ".join(names))
    ours = {theirs: name for name, theirs in chosen.items()}
    return [ours.get(name) for name in names]


def whole(text: Text, line: int, name: str, value: str, most: int | None = None) -> int:
    """Return a whole number from 0 to ``most``."""
    top = "0 or more" if most is None else f"0 to {most}"
    digits = value.lstrip("+-0")
    if WHOLE.fullmatch(value) and len(digits) <= len(str(LARGEST)):
        number = int(digits or "0")
        if number <= (LARGEST if most is None else most):
            return number
    raise text.fault(f"bad {name}", line, value, f"a whole number, {top}")


LINES = 64


class Source:
    """A file, a folder, or the common prefix of files, opened once for all dialects.

    The caller may know the number of tasks and the host.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        n_tasks: int | None = None,
        torus: Torus | None = None,
        progress: Progress | None = None,
    ) -> None:
        check_path(path)
        self.progress = progress
        self.path = path
        self.n_tasks = n_tasks
        self.torus = torus
        with at_file(path):
            place = Path(path)
            self.is_file = place.exists() and not place.is_dir()
        self.start = b""
        if self.is_file:
            with opened(path) as stream:
                self.start = stream.read(START)
            if not self.start:
                raise InputError("empty file", file=path)

    @lazy
    def data(self) -> bytes:
        """All of it, decompressed."""
        return read_bytes(self.path)

    @lazy
    def text(self) -> Text:
        """All of it as text; an `InputError` if it is none."""
        return as_text(self.path, self.data, self.progress)

    @lazy
    def stream(self) -> Text:
        """All of it as text that is not kept."""
        return Text(os.fspath(self.path), b"", self.progress, is_streamed=True)

    @lazy
    def lines(self) -> list[tuple[int, str]]:
        """Number and content of the first lines with data; empty where the file is no text."""
        return list(islice(self._first.lines(), LINES))

    @lazy
    def raw_lines(self) -> list[str]:
        """The first lines unchanged, with comments; empty where the file is no text."""
        return [line.rstrip() for line in islice(self._first.raw_lines(), LINES)]

    @property
    def has_numbers(self) -> bool:
        """Whether the first line with data is numbers; one of them may be mistyped."""
        first = cells(self.first_line()[1])[1]
        are_numbers = [bool(NUMBER.fullmatch(part)) for part in first]
        return any(are_numbers[:1]) and are_numbers.count(False) < 2

    def all_match(self, pattern: re.Pattern[str]) -> bool:
        """Whether each of the first lines with data is of one form."""
        lines = [line for _, line in self.lines[:8]]
        return bool(lines) and all(map(pattern.fullmatch, lines))

    def first_line(self) -> tuple[int | None, str]:
        """Return number and content of the first line with data, for messages."""
        return self.lines[0] if self.lines else (None, "")

    @lazy
    def _first(self) -> Text:
        """The start without a line that is cut in its middle; empty where the file is no text."""
        start = self.start
        if len(start) == START:
            cut = max(start.rfind(b"\n"), start.rfind(b"\r"))
            start = start[: cut + 1] if cut >= 0 else start[:-4]
        try:
            return as_text(self.path, start)
        except InputError:
            return Text(os.fspath(self.path), b"")
