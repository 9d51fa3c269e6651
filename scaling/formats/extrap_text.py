"""Extra-P's text format: PARAMETER, POINTS, METRIC, REGION and DATA lines."""

from __future__ import annotations

import re

from toruscast.errors import InputError
from toruscast.wording import counted

from .records import PathLike, Point, Records, add, measured, place

FIELDS = ("PARAMETER", "POINTS", "METRIC", "REGION", "DATA")
_TOKEN = re.compile(r"[()]|[^()\s]+")
# A point in brackets, and a coordinate in brackets inside it.
_DEEPEST = 2


def parse_text(content: str, file: PathLike) -> tuple[list[str], Records]:
    r"""Return the parameters and values of a text file.

    Each DATA line holds the repetitions of the next point; a METRIC or REGION line starts again
    with the first point. A POINTS line holds points such as ``(2 10)`` or ``((2) (10))``, with
    blanks or commas between the coordinates; points of one parameter need no brackets.

    Raises
    ------
    InputError
        If a line cannot be read; the message names it.

    Examples
    --------
    >>> text = "PARAMETER p n\nPOINTS (2 10) (4 10)\nMETRIC time\nREGION main\nDATA 1\nDATA 2"
    >>> parse_text(text, "a.txt")
    (['p', 'n'], {('main', 'time'): {(2.0, 10.0): [1.0], (4.0, 10.0): [2.0]}})
    """
    parameters: list[str] = []
    points: list[Point] = []
    seen: set[Point] = set()
    records: Records = {}
    region, metric = "main", "time"
    row = started = 0
    # Where the DATA lines of a call path begin, and how many there are.
    rows: dict[tuple[str, str], tuple[int, int]] = {}
    # Names may hold characters that end a line in other programs, such as U+2028.
    for line, text in enumerate(content.split("\n"), 1):
        field, *rest = text.split(None, 1) or [""]
        if not field or field.startswith("#"):
            continue
        value = rest[0].strip() if rest else ""
        if field in FIELDS and not value:
            raise InputError(f"{field} without a value", file=file, line=line)
        if field == "PARAMETER":
            if points:
                raise InputError("PARAMETER after POINTS", file=file, line=line, found=value)
            parameters += value.split()
        elif field == "POINTS":
            for point in _points(value, parameters, file, line):
                if point in seen:
                    raise InputError(
                        "a point stands twice",
                        file=file,
                        line=line,
                        found=" ".join(f"{x:g}" for x in point),
                        expected="each once; repetitions stand side by side in a DATA line",
                    )
                seen.add(point)
                points.append(point)
        elif field in ("METRIC", "REGION"):
            if field == "METRIC":
                metric = value
            else:
                region = value
            row, started = 0, line
        elif field == "DATA":
            if row >= len(points):
                raise InputError(
                    "more DATA lines than points", file=file, line=line, expected=len(points)
                )
            if row == 0 and (region, metric) in records:
                raise InputError(
                    f"REGION {region} with METRIC {metric} stands twice",
                    file=file,
                    line=line,
                    expected="each once; repetitions stand side by side in a DATA line",
                )
            values = [measured(word, file, line) for word in value.split()]
            add(records, (region, metric), points[row], values)
            row += 1
            rows[region, metric] = (started or line, row)
        else:
            raise InputError(
                "unknown field",
                file=file,
                line=line,
                found=field,
                expected="PARAMETER, POINTS, METRIC, REGION or DATA",
            )
    if not parameters:
        raise InputError("names no PARAMETER", file=file)
    for (region, metric), (line, n) in rows.items():
        if n < len(points):
            raise InputError(
                f"REGION {region} with METRIC {metric} lacks DATA lines",
                file=file,
                line=line,
                found=n,
                expected=f"{len(points)}, one a point",
            )
    return parameters, records


def _points(value: str, parameters: list[str], file: PathLike, line: int) -> list[Point]:
    """Return the points of a line. Each is in brackets; its coordinates may be too."""
    if not parameters:
        raise InputError("POINTS before PARAMETER", file=file, line=line)
    text = value.replace(",", " ")
    if len(parameters) == 1 and "(" not in text and ")" not in text:
        return [place([word], parameters, file, line) for word in text.split()]
    result: list[Point] = []
    depth, words = 0, list[str]()
    for token in _TOKEN.findall(text):
        if token == "(":
            depth += 1
        elif token == ")":
            depth -= 1
            if depth == 0:
                result.append(place(words, parameters, file, line))
                words = []
        elif depth == 0:
            raise _bad_points(f"{token} outside the brackets", parameters, file, line)
        else:
            words.append(token)
        if not 0 <= depth <= _DEEPEST:
            found = f"{token} after {counted(len(result), 'point')}"
            raise _bad_points(found, parameters, file, line)
    if depth:
        found = f"{counted(depth, 'bracket')} not closed after {counted(len(result), 'point')}"
        raise _bad_points(found, parameters, file, line)
    return result


def _bad_points(found: str, parameters: list[str], file: PathLike, line: int) -> InputError:
    example = f"({' '.join(parameters)})"
    return InputError(
        "bad POINTS",
        file=file,
        line=line,
        found=found,
        expected=f"each point in brackets, such as {example}",
    )
