"""Lines of text and the numbers in them, or a fault that names the line."""

from __future__ import annotations

import math
from collections.abc import Iterator

from toruscast.mapping.formats._source import Text


def finished_lines(text: Text) -> Iterator[tuple[int, str]]:
    """Yield number and content of the lines; a last one without an end may be cut, and is not."""
    end = text.data.rfind(b"\n") + 1
    return Text(text.file, text.data[:end]).lines()


def whole(text: Text, line: int, token: str) -> int:
    """Return a whole number from 0 on."""
    if not (token.isascii() and token.isdigit() and len(token) <= 18):
        raise text.fault("bad number", line, found=token, expected="a whole number from 0 on")
    return int(token)


def seconds(text: Text, line: int, token: str) -> float:
    """Return a time above 0."""
    try:
        value = float(token)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise text.fault("bad time", line, found=token, expected="seconds above 0")
    return value
