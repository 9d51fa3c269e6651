"""Read lines of a text file and their numbers, with errors that give the line."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

from toruscast import InputError


class Lines:
    """The non-empty lines of a text file, with line numbers.

    Parameters
    ----------
    path : path-like
    finished : bool
        Omit a last line without an end, which may be truncated.

    Raises
    ------
    InputError
        If the file cannot be read or is not text.
    """

    def __init__(self, path: str | os.PathLike[str], *, finished: bool = False) -> None:
        self.path = Path(path)
        try:
            text = self.path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError("cannot be read", file=path, found=error) from None
        self._text = text[: text.rfind("\n") + 1] if finished else text

    def __iter__(self) -> Iterator[tuple[int, str]]:
        for number, line in enumerate(self._text.split("\n"), start=1):
            if line := line.strip():
                yield number, line

    def fault(
        self, message: str, line: int | None = None, found: object = None, expected: object = None
    ) -> InputError:
        """Return an error about a line of this file."""
        return InputError(message, file=self.path, line=line, found=found, expected=expected)

    def whole(self, line: int, token: str) -> int:
        """Return a whole number that is not negative."""
        if not (token.isascii() and token.isdigit() and len(token) <= 18):
            raise self.fault("bad number", line, token, "a whole number from 0 on")
        return int(token)

    def number(self, line: int, token: str, what: str, least: float = 0.0) -> float:
        """Return a finite number, at least ``least``."""
        try:
            value = float(token)
        except ValueError:
            value = math.nan
        if not least <= value < math.inf:
            raise self.fault(f"bad {what}", line, token, f"a number from {least:g} on")
        return value
