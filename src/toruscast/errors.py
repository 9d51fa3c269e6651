"""Errors and warnings with messages for the user."""

from __future__ import annotations

import os
from functools import partial
from typing import Any, Self

from .text import one_line, shortened


class ReportedError(Exception):
    """An error with a one-line message for the user; commands end with its exit code."""

    exit_code = 1


class InputError(ReportedError, ValueError):
    """Invalid input, with a message of one line.

    Parameters
    ----------
    message : str
        Description of the error, without a full stop at the end.
    file : path-like, optional
    line : int, optional
        Line number, from 1.
    found, expected : object, optional
        Invalid value, and description of a valid one.

    Examples
    --------
    >>> print(InputError("bad byte count", file="a.txt", line=3, found="-4", expected=">= 0"))
    a.txt:3: bad byte count: found -4, expected >= 0
    """

    exit_code = 2

    def __init__(
        self,
        message: str,
        *,
        file: str | os.PathLike[str] | None = None,
        line: int | None = None,
        found: object = None,
        expected: object = None,
    ) -> None:
        self.message = message
        self.file = None if file is None else os.fspath(file)
        self.line = line
        self.found = found
        self.expected = expected
        where = "" if self.file is None else _format_value(self.file, 1000)
        message = _format_value(message, 500)
        if line is not None:
            where += f":{line}" if where else f"line {line}"
        text = f"{where}: {message}" if where else message
        details = [
            f"{word} {_format_value(value, limit)}"
            # Shorten long input, but keep lists of choices complete.
            for word, value, limit in (("found", found, 120), ("expected", expected, 500))
            if value is not None
        ]
        if details:
            text += ": " + ", ".join(details)
        super().__init__(text)

    def __reduce__(self) -> tuple[object, ...]:
        # By default, pickle cannot restore keyword-only arguments of exceptions.
        return (partial(type(self), **self._details()), (self.message,))

    def replace(self, message: str | None = None, **known: Any) -> Self:
        """Return a copy of the error with another message or additional details."""
        details = {name: value for name, value in known.items() if value is not None}
        message = self.message if message is None else message
        return type(self)(message, **(self._details() | details))

    def _details(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("file", "line", "found", "expected")}


class MissingFileError(InputError):
    """A file or folder does not exist."""


class DuplicateEdgeError(InputError):
    """A communication graph has a duplicate edge."""


class TaskGridError(InputError):
    """The sizes of a task grid are invalid, or do not match the number of tasks."""


class TooFewMappingsError(InputError):
    """There are fewer different mappings than requested."""


def _format_value(value: object, limit: int) -> str:
    return shortened(one_line(str(value)), limit)


class InputWarning(UserWarning):
    """A warning about input that is valid but may not be what the user meant."""


class WorkersError(ReportedError, RuntimeError):
    """Worker processes or machines were lost."""
