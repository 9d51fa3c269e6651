"""Extra-P's text format: PARAMETER, POINTS, METRIC, REGION and DATA lines."""

from __future__ import annotations

import re

from .records import Key, PathLike, Point, Records, numbered_lines

FIELDS = ("PARAMETER", "POINTS", "METRIC", "REGION", "DATA")
# A point in brackets; its coordinates may be in brackets too.
_POINT = re.compile(r"\((?:[^()]|\([^()]*\))*\)")
_ONCE = "each once; repetitions stand side by side in a DATA line"


def parse_text(content: str, file: PathLike) -> Records:
    r"""Return the values of a text file.

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
    >>> parse_text(text, "a.txt").values
    {('main', 'time'): {(2.0, 10.0): [1.0], (4.0, 10.0): [2.0]}}
    """
    records = Records(file)
    points: list[Point] = []
    seen: set[Point] = set()
    name = {"REGION": "main", "METRIC": "time"}
    # Where the DATA lines of a call path begin, and how many there are.
    rows: dict[Key, tuple[int, int]] = {}
    row = start = 0
    for line, text in numbered_lines(content):
        field, *rest = text.split(None, 1)
        if field.startswith("#"):
            continue
        if field not in FIELDS:
            raise records.fault("unknown field", line, field, " or ".join(FIELDS))
        if not rest:
            raise records.fault(f"{field} without a value", line)
        if field == "PARAMETER":
            if points:
                raise records.fault("PARAMETER after POINTS", line, rest[0])
            records.parameters += rest[0].split()
        elif field == "POINTS":
            for point in _points(rest[0], records, line):
                if point in seen:
                    found = " ".join(f"{x:g}" for x in point)
                    raise records.fault("a point stands twice", line, found, _ONCE)
                seen.add(point)
                points.append(point)
        elif field == "DATA":
            key = name["REGION"], name["METRIC"]
            if row >= len(points):
                raise records.fault("more DATA lines than points", line, expected=len(points))
            if row == 0 and key in rows:
                raise records.fault(f"{_described(key)} stands twice", line, expected=_ONCE)
            records.add(key, points[row], rest[0].split(), line)
            row += 1
            rows[key] = start or line, row
        else:
            name[field], row, start = rest[0], 0, line
    if not records.parameters:
        raise records.fault("names no PARAMETER")
    for key, (line, n) in rows.items():
        if n < len(points):
            expected = f"{len(points)}, one a point"
            raise records.fault(f"{_described(key)} lacks DATA lines", line, n, expected)
    return records


def _described(key: Key) -> str:
    return f"REGION {key[0]} with METRIC {key[1]}"


def _points(text: str, records: Records, line: int) -> list[Point]:
    """Return the points of a line."""
    if not records.parameters:
        raise records.fault("POINTS before PARAMETER", line)
    text = text.replace(",", " ")
    if len(records.parameters) == 1 and "(" not in text and ")" not in text:
        return [records.point([word], line) for word in text.split()]
    outside = _POINT.sub(" ", text).split()
    if outside:
        expected = f"each point in brackets, such as ({' '.join(records.parameters)})"
        raise records.fault("bad POINTS", line, " ".join(outside), expected)
    inside = (re.sub(r"[()]", " ", point) for point in _POINT.findall(text))
    return [records.point(point.split(), line) for point in inside]
