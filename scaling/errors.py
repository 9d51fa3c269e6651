"""Input that cannot be used, and what a user should know of a fit."""

from __future__ import annotations

import os


class ScalingInputError(ValueError):
    """Measurements or options that cannot be used; the message says where and why, on one line.

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
    >>> print(ScalingInputError("bad value", file="a.txt", line=3, found="x", expected="a number"))
    a.txt:3: bad value: found x, expected a number
    """

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
        where = self.file or ""
        if line is not None:
            where = f"{where}:{line}" if where else f"line {line}"
        details = ", ".join(
            f"{word} {_one_line(value)}"
            for word, value in (("found", found), ("expected", expected))
            if value is not None
        )
        super().__init__(": ".join(part for part in (where, message, details) if part))

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (self.message, self.file, self.line, self.found, self.expected))


class ScalingWarning(UserWarning):
    """The measurements limit what their model can say."""


def _rebuild(
    message: str, file: str | None, line: int | None, found: object, expected: object
) -> ScalingInputError:
    return ScalingInputError(message, file=file, line=line, found=found, expected=expected)


def _one_line(value: object, limit: int = 100) -> str:
    text = "".join(c if c.isprintable() else "?" for c in " ".join(str(value).split()))
    return text if len(text) <= limit else text[: limit - 3] + "..."
