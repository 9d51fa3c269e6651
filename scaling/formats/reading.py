"""Read a file of measurements, its format recognised by its content."""

from __future__ import annotations

import json
import os
from pathlib import Path

from toruscast.errors import InputError

from ..pmnf.measurements import Measurements
from .csv_table import parse_csv, separator_of
from .extrap_json import decoded, parse_json, parse_json_lines
from .extrap_text import FIELDS, parse_text
from .records import assemble


def read_measurements(path: str | os.PathLike[str]) -> list[Measurements]:
    r"""Read Extra-P's text, JSON (both layouts) or JSON-lines format, or a CSV table.

    Parameters
    ----------
    path : path-like
        A table has a header and a row a repetition: a column ``value``, a column for each
        parameter, and where there are several ``callpath`` and ``metric``. A column ``repetition``
        is not read. Columns are separated by commas, semicolons or tabs.

    Returns
    -------
    list of Measurements
        One for each set of points that call paths were measured at; nearly always one.

    Raises
    ------
    InputError
        If the file cannot be read; says file, line, what was found and what was expected.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "two.txt"
    >>> _ = file.write_text("PARAMETER p\nPOINTS 2 4\nREGION main\nDATA 1 2\nDATA 3")
    >>> m = read_measurements(file)[0]
    >>> m.callpaths, m.metrics, m.values.tolist()
    (('main',), ('time',), [[[1.0, 2.0], [3.0, nan]]])
    """
    try:
        content = Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(error.strerror or "cannot be read", file=path) from None
    except UnicodeDecodeError:
        raise InputError("is not a text file", file=path) from None
    start = content.lstrip()[:1]
    if not start:
        raise InputError("is empty", file=path)
    if start == "[":
        raise InputError(
            "is no file of measurements",
            file=path,
            found="a list in JSON",
            expected="an object with parameters and measurements",
        )
    if start != "{":
        separator = _table_separator(content)
        read = parse_csv(content, path, separator) if separator else parse_text(content, path)
        return assemble(*read, file=path)
    try:
        document = decoded(content, path)
    except json.JSONDecodeError as error:
        first = content.lstrip().split("\n", 1)[0]
        try:
            one_a_line = isinstance(decoded(first, path), dict)
        except json.JSONDecodeError:
            one_a_line = False
        if one_a_line:
            return assemble(*parse_json_lines(content, path), file=path)
        raise InputError(f"is not JSON: {error.msg}", file=path, line=error.lineno) from None
    if "params" in document:
        return assemble(*parse_json_lines(content, path), file=path)
    return assemble(*parse_json(document, path), file=path)


def _table_separator(content: str) -> str:
    """What separates the columns that the first line names, comments not counted; "" if none."""
    lines = (line for line in content.split("\n") if line.strip() and line.lstrip()[0] != "#")
    first = next(lines, "")
    words = first.split()
    return separator_of(first) if words and words[0] not in FIELDS else ""
