"""Small tables whose cells are words or numbers, read line by line."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Sequence

from toruscast.errors import InputError

from .source import Text

# A name with a blank before a comma, or a number with one in place of its point.
_DECIMAL_COMMA = re.compile(r"[^\s\"]+\s+[0-9]+,[0-9]+")
Rows = list[tuple[int, list[str]]]


def read_words(
    text: Text,
    lines: Iterable[tuple[int, str]],
    is_header: Callable[[list[str]], bool],
    columns: Sequence[str] = (),
) -> tuple[list[str], Rows]:
    """Return the names of the columns, and line and cells of each row.

    The first of the ``lines`` names the columns if it is a header; else they are ``columns``.
    Every row has a cell for each.
    """
    names, separator, rows = list(columns), None, []
    for at, (number, line) in enumerate(lines):
        with text.at(number):
            cells = fields(line, separator)
        if at == 0 and is_header(cells):
            names, separator = cells, separator_of(line)
            continue
        if separator is None and _DECIMAL_COMMA.fullmatch(line):
            expected = "a decimal point; or the name in quotes, if the comma stands behind it"
            raise text.fault("a decimal comma, or a name with a blank", number, line, expected)
        if len(cells) != len(names):
            expected = f"{len(names)} ({','.join(names)[:60]})"
            raise text.fault("wrong number of columns", number, len(cells), expected)
        rows.append((number, cells))
    if not rows:
        raise text.fault("file without data")
    return names, rows


def separator_of(line: str) -> str | None:
    """Return what separates the cells of a line; None if it is blanks."""
    return next((mark for mark in ",;" if mark in line), None)


def fields(line: str, separator: str | None = None) -> list[str]:
    """Return the cells of a line, between separators: its own if none is given.

    Examples
    --------
    >>> fields("identity;1.5"), fields("a;b,1.5"), fields("identity 1.5")
    (['identity', '1.5'], ['a;b', '1.5'], ['identity', '1.5'])
    """
    mark = separator or separator_of(line)
    try:
        reader = csv.reader([line], delimiter=mark, skipinitialspace=True) if mark else None
        parts = next(reader) if reader else line.split()
    except csv.Error as error:
        raise InputError("bad line", found=error) from None
    return [part.strip() for part in parts]
