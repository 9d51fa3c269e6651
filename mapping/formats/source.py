"""What a dialect looks at to recognise a file: its start, its first lines, all of it if need be."""

from __future__ import annotations

import os
from pathlib import Path

from toruscast._lazy import lazy
from toruscast.errors import InputError

from ..torus import Torus
from ._table import NUMBER, fields
from .foreign import Foreign, known_files
from .opening import (
    Progress,
    Streamed,
    Text,
    as_text,
    at_file,
    check_path,
    read_bytes,
    read_start,
)

# Enough to recognise any dialect by.
START = 2**16
LINES = 64


class Source:
    """A file, a folder, or the common prefix of files, opened once for all dialects.

    Parameters
    ----------
    path : path-like
        Where it is.
    n_tasks : int, optional
        Number of tasks, where the caller knows it.
    torus : Torus, optional
        The host, where the caller knows it.
    progress : callable, optional
        Called with the bytes of a text that a reader has passed, and all of them.

    Raises
    ------
    InputError
        If it is a file that cannot be read.
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
        self.start = read_start(path, START) if self.is_file else b""

    @lazy
    def data(self) -> bytes:
        """All of it, decompressed."""
        return read_bytes(self.path)

    @lazy
    def text(self) -> Text:
        """All of it as text; an `InputError` if it is none."""
        return as_text(self.path, self.data, self.progress)

    @lazy
    def stream(self) -> Streamed:
        """All of it as text that is not kept."""
        return Streamed(self.path, self.progress)

    @lazy
    def lines(self) -> list[tuple[int, str]]:
        """Number and content of the first lines with data; none of what is no text."""
        try:
            text = as_text(self.path, self._whole_lines())
        except InputError:
            return []
        found = []
        for number, line in text.lines():
            found.append((number, line))
            if len(found) == LINES:
                break
        return found

    @lazy
    def raw_lines(self) -> list[str]:
        """The first lines as they stand, comments too; none of what is no text."""
        try:
            text = as_text(self.path, self._whole_lines())
        except InputError:
            return []
        return [line.rstrip() for _, line in zip(range(LINES), text.raw_lines(), strict=False)]

    @lazy
    def fields(self) -> list[str]:
        """The fields of the first line with data."""
        return fields(self.lines[0][1]) if self.lines else []

    @lazy
    def known(self) -> list[Foreign]:
        """What it is where no dialect reads it."""
        return list(known_files(self))

    @lazy
    def has_numbers(self) -> bool:
        """Whether the first line with data is rather numbers, with commas or blanks between."""
        if self.start.startswith(b"%%") or self.known:
            return False
        numbers = sum(bool(NUMBER.fullmatch(part)) for part in self.fields)
        return 2 * numbers > len(self.fields)

    def first_line(self) -> tuple[int | None, str]:
        """Return number and content of the first line with data, for messages."""
        return self.lines[0] if self.lines else (None, "")

    def _whole_lines(self) -> bytes:
        """The start without a line that is cut in its middle."""
        if len(self.start) < START:
            return self.start
        cut = max(self.start.rfind(b"\n"), self.start.rfind(b"\r"))
        return self.start[: cut + 1] if cut >= 0 else self.start[:-4]
