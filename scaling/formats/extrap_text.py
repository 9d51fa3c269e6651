"""Extra-P's text format: PARAMETER, POINTS, METRIC, REGION and DATA lines."""

from __future__ import annotations

import re
import warnings

from toruscast.errors import InputError

from ..warning import ScalingWarning
from .records import PathLike, Point, Records, add, number

FIELDS = ("PARAMETER", "POINTS", "METRIC", "REGION", "DATA")
_GROUP = r"\(([^()]*)\)"


def parse_text(content: str, file: PathLike) -> tuple[list[str], Records]:
    r"""Parameters and values of a text file.

    Each DATA line holds the repetitions of the next point; a METRIC or REGION line starts again
    with the first point. A POINTS line holds a point in brackets each, commas as good as blanks; of
    one parameter the brackets may be left out.

    Raises
    ------
    InputError
        At the line that is at fault.

    Warns
    -----
    ScalingWarning
        If there are fewer DATA lines than points: they are taken for the first points.

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
    row = 0
    rows: dict[tuple[str, str], int] = {}
    # Names may hold other characters that end a line elsewhere, such as U+2028.
    for line, text in enumerate(content.split("\n"), 1):
        field, *rest = text.split(None, 1) or [""]
        if not field or field.startswith("#"):
            continue
        value = rest[0].strip() if rest else ""
        if field in FIELDS and not value:
            raise InputError(f"{field} without a value", file=file, line=line)
        if field == "PARAMETER":
            parameters += value.split()
        elif field == "POINTS":
            for point in _points(value, len(parameters), file, line):
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
            row = 0
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
            values = [number(word, file, line) for word in value.split()]
            add(records, (region, metric), points[row], values)
            row += 1
            rows[region, metric] = row
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
    short = [(*key, n) for key, n in rows.items() if n < len(points)]
    if short:
        region, metric, n = short[0]
        warnings.warn(
            f"{file}: {len(short)} of {len(rows)} call paths have fewer DATA lines than there are "
            f"points, such as {region} ({metric}): {n} of {len(points)}; they are taken for the "
            "first points",
            ScalingWarning,
            stacklevel=3,
        )
    return parameters, records


def _points(value: str, n_parameters: int, file: PathLike, line: int) -> list[Point]:
    if n_parameters == 0:
        raise InputError("POINTS before PARAMETER", file=file, line=line)
    groups = re.findall(_GROUP, value)
    outside = _blank(re.sub(_GROUP, " ", value)).split()
    if groups and outside:
        raise InputError(
            "bad POINTS",
            file=file,
            line=line,
            found=f"{outside[0]} outside the brackets",
            expected="each point in brackets",
        )
    if not groups:
        groups = outside if n_parameters == 1 else [value]
    result = []
    for group in groups:
        words = _blank(group).split()
        if len(words) != n_parameters:
            raise InputError(
                "a point needs one value a parameter",
                file=file,
                line=line,
                found=group,
                expected=f"{n_parameters} number{'s' * (n_parameters > 1)}",
            )
        result.append(tuple(number(word, file, line) for word in words))
    return result


def _blank(text: str) -> str:
    return text.replace(",", " ")
