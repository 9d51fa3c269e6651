"""Access to input files: first bytes, lines and cells, and errors with line numbers."""

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
from toruscast.files import AnyPath as AnyPath
from toruscast.files import at_file, check_regular, check_text, max_unpacked, parse_json
from toruscast.mapping.torus import Torus

# Maximum bytes after decompression; about 80 million edges.
MAX_BYTES = 2**31
CHUNK = 2**24
# Number of bytes at the start of a file from which its format is recognised.
START = 2**16
MAX_WHOLE = 2**63 - 1
WHOLE = re.compile(r"\+?[0-9]+|-0+")
DECIMAL_COMMA = re.compile(r"[+-]?[0-9]+,[0-9]+")
# Possessive quantifiers avoid backtracking in very long words.
NUMBER = re.compile(r"[+-]?([0-9]++\.?[0-9]*+|\.[0-9]++)([eE][+-]?[0-9]++)?")
Progress = Callable[[int, int], object]
"""Called with the bytes read so far and the total."""
# Number of bytes to read at once for a chunk of lines.
_CHUNK_OF_LINES = 2**23
# Maximum number of names that a warning lists.
_MAX_UNUSED = 12
# Maximum length of a line in bytes.
MAX_LINE = 2**24
_SUFFIXES = (
    *(".prof", ".txt", ".edges", ".topo", ".csv", ".npz", ".mtx", ".map", ".graph", ".grf"),
    *(".parquet", ".mpip", ".goal", ".xml", ".json", ".et"),
    *(".rankfile", ".hosts", ".hostfile", ".nodelist", ".taskmap", ".vcoord", ".yaml", ".yml"),
    *(".toml", ".tgt", ".textproto", ".mat"),
)


@cache
def comment_pattern(marks: str = "#%") -> re.Pattern[str]:
    """Return a pattern that matches a comment: from a mark that starts a word to the line end.

    Examples
    --------
    >>> comment_pattern("#").sub("", "sum#size 1 # bytes")
    'sum#size 1 '
    """
    return re.compile(rf"[{marks}](?<!\S[{marks}]).*")


@dataclass(frozen=True)
class TextFile:
    """A text file with normalised line ends and without a byte order mark."""

    file: str
    data: bytes = b""
    progress: Progress | None = field(default=None, compare=False)
    # Whether each pass over the lines reads the file again instead of ``data``, to save memory.
    is_streamed: bool = False

    def lines(self, marks: str = "#%", skip: int = 0) -> Iterator[tuple[int, str]]:
        """Yield the number and content of each data line after the first ``skip`` lines.

        Blank lines and comments are left out.
        """
        comment = comment_pattern(marks)
        for number, raw in enumerate(self.raw_lines(skip), start=skip + 1):
            line = comment.sub("", raw).strip()
            if line:
                yield number, line

    def raw_lines(self, skip: int = 0) -> Iterator[str]:
        """Yield each line after the first ``skip``, including blank lines and comments."""
        number = skip
        for data in self.chunks(skip):
            for raw in data.removesuffix(b"\n").split(b"\n"):
                number += 1
                try:
                    line = raw.decode()
                except UnicodeDecodeError:
                    check_text(raw, self.file, number)
                    raise
                yield line

    def chunks(self, skip: int = 0) -> Iterator[bytes]:
        """Yield chunks of complete lines after the first ``skip``, with normalised line ends."""
        n_lines, size, is_first = 0, 0, True
        incomplete = b""  # the start of a line that continues in the next chunk
        with self._open_stream() as (stream, max_bytes, max_line):
            # The first chunk is short because many callers read only the first lines.
            while (chunk := stream.read(START if is_first else _CHUNK_OF_LINES)) or incomplete:
                size += len(chunk)
                if self.progress is not None:
                    self.progress(*self._count_bytes_read(stream))
                if size > max_bytes:
                    raise self.fault("file too large", None, None, f"at most {max_bytes} bytes")
                data = incomplete + (chunk.removeprefix(b"\xef\xbb\xbf") if is_first else chunk)
                is_first = False
                if b"\0" in chunk:
                    check_text(data, self.file)
                # The chunk may end between "\r" and "\n".
                line_end = b"\r" if chunk and data.endswith(b"\r") else b""
                data = _normalize_lines(data.removesuffix(line_end))
                # At the end of the file, the last line may lack a line end.
                cut = data.rfind(b"\n") + 1 if chunk else len(data)
                data, incomplete = data[:cut], data[cut:] + line_end
                if len(incomplete) > max_line:
                    found = incomplete[:30].decode(errors="replace")
                    expected = f"less than {max_line} bytes"
                    raise self.fault("line too long", n_lines + 1, found, expected)
                while n_lines < skip and data:
                    data, n_lines = data[(data.find(b"\n") + 1) or len(data) :], n_lines + 1
                if data:
                    yield data
                    n_lines += data.count(b"\n")

    @contextmanager
    def locate_errors(self, line: int | None) -> Iterator[None]:
        """Add this file and a line number to errors that the block raises."""
        try:
            yield
        except InputError as error:
            raise error.replace(file=self.file, line=error.line or line) from None

    def json(self, content: str | None = None) -> Any:
        """Parse ``content``, by default the whole text, as JSON."""
        return parse_json(self.data.decode() if content is None else content, self.file)

    def matches(
        self, pattern: re.Pattern[str], what: str, expected: str
    ) -> Iterator[tuple[int, re.Match[str]]]:
        """Yield the number and match of each data line; error messages call a line ``what``."""
        for number, line in self.lines("#"):
            match = pattern.fullmatch(line)
            if match is None:
                raise self.fault(f"bad {what}", number, line, expected)
            yield number, match

    @contextmanager
    def _open_stream(self) -> Iterator[tuple[IO[bytes], float, float]]:
        """Yield the stream, the maximum bytes of the file, and the maximum bytes of a line."""
        if self.is_streamed:
            with open_file(self.file) as (stream, max_bytes):
                yield stream, max_bytes, MAX_LINE
        else:
            yield io.BytesIO(self.data), math.inf, math.inf

    def _count_bytes_read(self, stream: IO[bytes]) -> tuple[int, int]:
        """Return how many bytes have been read and the size of the file, before decompression."""
        total = Path(self.file).stat().st_size if self.is_streamed else len(self.data)
        return getattr(stream, "fileobj", stream).tell(), total

    def first_line(self) -> tuple[int, str]:
        """Return the number and content of the first data line."""
        for number, line in self.lines():
            return number, line
        raise self.fault("file without data")

    def record_once(self, what: str, name: Any, line: int, line_by_name: dict[Any, int]) -> None:
        """Record the line of a name; raise an error if the name occurred on an earlier line."""
        if name in line_by_name:
            found = f"{name}, also on line {line_by_name[name]}"
            raise self.fault(f"duplicate {what}", line, found, f"each {what} once")
        line_by_name[name] = line

    def fault(
        self, message: str, line: int | None = None, found: object = None, expected: object = None
    ) -> InputError:
        """Return an error at a line of this file; a long ``found`` is shortened."""
        found = found[:500] if isinstance(found, str) else found
        return InputError(message, file=self.file, line=line, found=found, expected=expected)


@contextmanager
def open_file(path: AnyPath) -> Iterator[tuple[IO[bytes], float]]:
    """Open a regular file and decompress gzip; yield the stream and its maximum size."""
    with at_file(path):
        check_regular(path)
        with Path(path).open("rb") as file:
            is_packed = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            if is_packed:
                packed = cast(IO[bytes], gzip.GzipFile(fileobj=file))
                yield packed, max_unpacked(path, MAX_BYTES)
            else:
                yield file, math.inf


def read_bytes(path: AnyPath) -> bytes:
    """Return the content of a regular file; a gzip file is decompressed."""
    with open_file(path) as (stream, max_bytes):
        max_bytes = min(max_bytes, MAX_BYTES)
        chunks, size = [], 0
        while chunk := stream.read(CHUNK):
            chunks.append(chunk)
            size += len(chunk)
            if size > max_bytes:
                raise InputError("file too large", file=path, expected=f"at most {max_bytes} bytes")
    data = b"".join(chunks)
    if not data:
        raise InputError("empty file", file=path)
    return data


def as_text(path: AnyPath, data: bytes, progress: Progress | None = None) -> TextFile:
    """Return bytes as a text file; raise `InputError` for binary data."""
    data = _normalize_lines(data.removeprefix(b"\xef\xbb\xbf"))
    check_text(data, path)
    return TextFile(os.fspath(path), data, progress)


def _normalize_lines(data: bytes) -> bytes:
    return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in data else data


def read_text(path: AnyPath) -> TextFile:
    """Read a text file; a gzip file is decompressed."""
    return as_text(path, read_bytes(path))


def warn_about(file: AnyPath, message: str) -> None:
    """Issue a warning about a file, attributed to the caller's caller."""
    warnings.warn(f"{os.fspath(file)}: {message}", InputWarning, stacklevel=3)


def warn_about_unused(file: AnyPath, words: Iterable[str], what: str = "not used") -> None:
    """Issue a warning that lists keys, columns or lines of a file that are not read."""
    if unused := list(dict.fromkeys(word.strip()[:80] for word in words)):
        more = ", ..." if len(unused) > _MAX_UNUSED else ""
        warn_about(file, f"{what}: {', '.join(unused[:_MAX_UNUSED])}{more}")


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text with its line ends unchanged."""
    path.write_text(text, encoding="utf-8", newline="")


def name_from_path(path: AnyPath) -> str:
    """Return a file's name without ``.gz`` and known suffixes; escape bytes that are not UTF-8."""
    name = os.fsencode(Path(path).name).decode("utf-8", "backslashreplace").removesuffix(".gz")
    stem, suffix = os.path.splitext(name)  # noqa: PTH122 (pathlib takes a leading dot otherwise)
    return stem if suffix.lower() in _SUFFIXES else name


def split_cells(line: str, separator: str | None = None) -> tuple[str | None, list[str]]:
    """Return the separator of a line (None for blanks) and its cells without quotes.

    By default `find_separator` selects the separator.

    Examples
    --------
    >>> split_cells('"src";"dst"'), split_cells("0 1"), split_cells("0 1 8,5")
    ((';', ['src', 'dst']), (None, ['0', '1']), (None, ['0', '1', '8,5']))
    """
    mark = separator or find_separator(line)
    cells = line.split(mark)
    if mark and '"' in line:
        with suppress(csv.Error):
            cells = next(csv.reader([line], delimiter=mark, skipinitialspace=True))
    return mark, [part.strip().strip("'" if mark else "\"'") for part in cells]


def find_separator(line: str) -> str | None:
    """Return the separator of a line: a semicolon, else a comma, else a tab, else None for blanks.

    Commas within numbers, as in ``0 1 8,5``, are decimal commas.
    """
    if ";" in line:
        return ";"
    words = line.split()
    if "," in line:
        # More than two numbers between blanks: the commas are decimal.
        is_decimal = len(words) > 2 and all(
            DECIMAL_COMMA.fullmatch(word) or NUMBER.fullmatch(word) for word in words
        )
        return None if is_decimal else ","
    # Numbers may be separated by a mix of tabs and blanks, but names may contain blanks.
    return None if "\t" not in line or all(map(NUMBER.fullmatch, words)) else "\t"


def select_columns(
    text: TextFile,
    line: int,
    names: Sequence[str],
    chosen: Mapping[str, str],
    needed: Sequence[str],
) -> list[str | None]:
    """Return the standard name of each column; None for columns that are not ``chosen``.

    ``chosen`` maps standard names to column names from ``names``. It must contain all standard
    names that are ``needed``.
    """
    wanted = list(chosen.values())
    missing = [name for name in wanted if names.count(name) != 1 or wanted.count(name) != 1]
    if missing or not {*needed} <= {*chosen}:
        suffix = " twice" if missing and wanted.count(missing[0]) > 1 else ""
        found = missing[0] + suffix if missing else ",".join(chosen)
        prefix = f"{', '.join(needed)}, each one of " if needed else "one of "
        raise text.fault("columns not found", line, found, prefix + ", ".join(names))
    name_by_column = {theirs: name for name, theirs in chosen.items()}
    return [name_by_column.get(name) for name in names]


def parse_whole(text: TextFile, line: int, name: str, value: str, top: int | None = None) -> int:
    """Parse a whole number from 0 to ``top``, by default the largest 64-bit integer."""
    range_text = "0 or more" if top is None else f"0 to {top}"
    digits = value.lstrip("+-0")
    if WHOLE.fullmatch(value) and len(digits) <= len(str(MAX_WHOLE)):
        number = int(digits or "0")
        if number <= (MAX_WHOLE if top is None else top):
            return number
    raise text.fault(f"bad {name}", line, value, f"a whole number, {range_text}")


# Number of lines from which a format is recognised.
LINES = 64


@dataclass(eq=False)
class Source:
    """The input of all recognisers: a file, a folder, or the common prefix of several files."""

    path: AnyPath
    n_tasks: int | None = None
    torus: Torus | None = None
    progress: Progress | None = None
    start: bytes = field(init=False, default=b"")  # the first bytes of a file

    def __post_init__(self) -> None:
        with at_file(self.path):
            self.is_file = Path(self.path).exists() and not Path(self.path).is_dir()
        if self.is_file:
            with open_file(self.path) as (stream, _):
                self.start = stream.read(START)
            if not self.start:
                raise InputError("empty file", file=self.path)

    @lazy
    def data(self) -> bytes:
        """Decompressed content."""
        return read_bytes(self.path)

    @lazy
    def text(self) -> TextFile:
        """Content as text; raises `InputError` for binary data."""
        return as_text(self.path, self.data, self.progress)

    @lazy
    def streamed_text(self) -> TextFile:
        """Content as text that is read from disk in each pass instead of kept in memory."""
        return TextFile(os.fspath(self.path), b"", self.progress, is_streamed=True)

    @lazy
    def lines(self) -> list[tuple[int, str]]:
        """Number and content of the first data lines; empty for binary data."""
        return list(islice(self._first_text.lines(), LINES))

    @lazy
    def raw_lines(self) -> list[str]:
        """The first lines, including comments; empty for binary data."""
        return [line.rstrip() for line in islice(self._first_text.raw_lines(), LINES)]

    @property
    def has_numbers(self) -> bool:
        """Whether the first data line starts with a number and has at most one other cell."""
        first = split_cells(self.first_line()[1])[1]
        are_numbers = [bool(NUMBER.fullmatch(part)) for part in first]
        return any(are_numbers[:1]) and are_numbers.count(False) < 2

    def all_match(self, pattern: re.Pattern[str]) -> bool:
        """Whether all of the first data lines match a pattern."""
        lines = [line for _, line in self.lines[:8]]
        return bool(lines) and all(map(pattern.fullmatch, lines))

    def first_line(self) -> tuple[int | None, str]:
        """Return the number and content of the first data line, or ``(None, "")``."""
        return self.lines[0] if self.lines else (None, "")

    @lazy
    def _first_text(self) -> TextFile:
        """The complete lines among the first bytes; empty for binary data."""
        start = self.start
        if len(start) == START:
            cut = max(start.rfind(b"\n"), start.rfind(b"\r"))
            start = start[: cut + 1] if cut >= 0 else start[:-4]
        try:
            return as_text(self.path, start)
        except InputError:
            return TextFile(os.fspath(self.path), b"")
