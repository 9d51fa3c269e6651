"""Errors and warnings whose message is for the user."""

from __future__ import annotations

import os
from functools import partial
from typing import Any, Self

from .text import one_line, shortened


class ReportedError(Exception):
    """An error whose message is for the user, on one line; commands end with its exit code."""

    exit_code = 1


class InputError(ReportedError, ValueError):
    """What the user supplied cannot be used; the message says where and why, on one line.

    Parameters
    ----------
    message : str
        What is wrong, without a final full stop.
    file : path-like, optional
        The file that holds the fault.
    line : int, optional
        Its line, counted from 1.
    found, expected : object, optional
        What stood there and what should have.

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
        where = "" if self.file is None else _short(self.file, 1000)
        message = _short(message, 500)
        if line is not None:
            where += f":{line}" if where else f"line {line}"
        text = f"{where}: {message}" if where else message
        details = [
            f"{word} {_short(value, limit)}"
            # What was found may be anything; what is expected is ours, and a list of it is whole.
            for word, value, limit in (("found", found, 120), ("expected", expected, 500))
            if value is not None
        ]
        if details:
            text += ": " + ", ".join(details)
        super().__init__(text)

    def __reduce__(self) -> tuple[object, ...]:
        # Keyword-only arguments need help to survive the trip from a worker process.
        return (partial(type(self), **self._details()), (self.message,))

    def replace(self, message: str | None = None, **known: Any) -> Self:
        """Return the same fault with another message, or with what its finder did not know."""
        details = {name: value for name, value in known.items() if value is not None}
        message = self.message if message is None else message
        return type(self)(message, **(self._details() | details))

    def _details(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("file", "line", "found", "expected")}


class MissingFileError(InputError):
    """There is no file or folder of that name."""


class DuplicateEdgeError(InputError):
    """A communication graph has a duplicate edge."""


class TaskGridError(InputError):
    """The sizes of a task grid are not valid, or do not fit the number of tasks."""


class TooFewMappingsError(InputError):
    """There are fewer different mappings than are wanted."""


def _short(value: object, limit: int) -> str:
    """One printable line of at most ``limit`` characters."""
    return shortened(one_line(str(value)), limit)


class InputWarning(UserWarning):
    """Input that can be used, but of which something should be known; the command shows it."""


class WorkersError(ReportedError, RuntimeError):
    """Processes or machines that the work ran on were lost."""
