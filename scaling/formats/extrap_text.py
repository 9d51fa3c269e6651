"""Extra-P's text format: PARAMETER, POINTS, METRIC, REGION and DATA lines."""

from __future__ import annotations

import re
from typing import NoReturn

from toruscast.errors import InputError
from toruscast.text import counted

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
    text = ExtrapText(file)
    # Names may hold characters that end a line in other programs, such as U+2028.
    for line, words in enumerate(content.split("\n"), 1):
        field, *rest = words.split(None, 1) or [""]
        if field and not field.startswith("#"):
            text.take(field, rest[0].strip() if rest else "", line)
    text.check()
    return text.parameters, text.records


class ExtrapText:
    """What the lines of a text file have said so far."""

    def __init__(self, file: PathLike) -> None:
        self.file = file
        self.parameters: list[str] = []
        self.points: list[Point] = []
        self._seen: set[Point] = set()
        self.records: Records = {}
        self.region, self.metric = "main", "time"
        self._row = self._started = 0
        # Where the DATA lines of a call path begin, and how many there are.
        self._rows: dict[tuple[str, str], tuple[int, int]] = {}

    def take(self, field: str, value: str, line: int) -> None:
        """Take the value of a field."""
        if field not in FIELDS:
            expected = "PARAMETER, POINTS, METRIC, REGION or DATA"
            raise InputError(
                "unknown field", file=self.file, line=line, found=field, expected=expected
            )
        if not value:
            raise InputError(f"{field} without a value", file=self.file, line=line)
        if field == "PARAMETER":
            if self.points:
                raise InputError("PARAMETER after POINTS", file=self.file, line=line, found=value)
            self.parameters += value.split()
        elif field == "POINTS":
            self._add_points(_points(value, self.parameters, self.file, line), line)
        elif field == "DATA":
            self._add_data(value, line)
        else:
            setattr(self, field.lower(), value)
            self._row, self._started = 0, line

    def check(self) -> None:
        """Refuse a file that ended too early."""
        if not self.parameters:
            raise InputError("names no PARAMETER", file=self.file)
        for (region, metric), (line, n) in self._rows.items():
            if n < len(self.points):
                raise InputError(
                    f"REGION {region} with METRIC {metric} lacks DATA lines",
                    file=self.file,
                    line=line,
                    found=n,
                    expected=f"{len(self.points)}, one a point",
                )

    def _add_points(self, points: list[Point], line: int) -> None:
        for point in points:
            if point in self._seen:
                self._refuse_twice("a point", line, " ".join(f"{x:g}" for x in point))
            self._seen.add(point)
            self.points.append(point)

    def _add_data(self, value: str, line: int) -> None:
        if self._row >= len(self.points):
            raise InputError(
                "more DATA lines than points",
                file=self.file,
                line=line,
                expected=len(self.points),
            )
        key = self.region, self.metric
        if self._row == 0 and key in self.records:
            self._refuse_twice(f"REGION {self.region} with METRIC {self.metric}", line)
        values = [measured(word, self.file, line) for word in value.split()]
        add(self.records, key, self.points[self._row], values)
        self._row += 1
        self._rows[key] = (self._started or line, self._row)

    def _refuse_twice(self, what: str, line: int, found: str | None = None) -> NoReturn:
        raise InputError(
            f"{what} stands twice",
            file=self.file,
            line=line,
            found=found,
            expected="each once; repetitions stand side by side in a DATA line",
        )


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
