"""Files with one JSON object on each line: Extra-P's JSON lines, and TaLPas."""

from __future__ import annotations

import json
import re
from typing import Any

from toruscast.errors import InputError

from .extrap_json import decoded
from .records import PathLike, Records, add, label, measured, place

_PARAMETERS = ("params", "parameters")
_TEXT_OR_SEMICOLON = re.compile(r'"(?:[^"\\]|\\.)*"|;')
# An object at the beginning of a line; an indented document has none.
_OBJECT = re.compile(r'^\{[ \t]*"', re.MULTILINE)
_FIRST = re.compile(r'\s*\{\s*"(?:params"|parameters"\s*:\s*\{)')


def is_json_lines(content: str) -> bool:
    """Return whether a text that begins with a brace holds one object on each line.

    >>> is_json_lines('{"params": {"p": 2}, "value": 1.5}'), is_json_lines('{"parameters": ["p"]}')
    (True, False)
    """
    objects = _OBJECT.finditer(content)
    return _FIRST.match(content) is not None or len([*zip(objects, range(2), strict=False)]) == 2


def parse_json_lines(content: str, file: PathLike) -> tuple[list[str], Records]:
    """Return the parameters and values of a file with one JSON object on each line.

    TaLPas writes semicolons between the keys of an object, and ``parameters`` for ``params``. A
    value may be a list of repetitions.

    Examples
    --------
    >>> parse_json_lines('{"params": {"p": 2}, "value": 1.5}', "a.jsonl")
    (['p'], {('main', 'time'): {(2.0,): [1.5]}})
    >>> parse_json_lines('{"parameters":{"p":2};"metric":"bytes";"value":[8, 9]}', "a.txt")
    (['p'], {('main', 'bytes'): {(2.0,): [8.0, 9.0]}})
    """
    parameters: list[str] = []
    records: Records = {}
    # Text in JSON may hold characters that end a line in other programs, such as U+2028.
    for line, text in enumerate(content.split("\n"), 1):
        if not text.strip():
            continue
        entry = _entry(text, file, line)
        params = next((entry[name] for name in _PARAMETERS if name in entry), None)
        if not params or not isinstance(params, dict) or "value" not in entry:
            raise _bad(text, file, line)
        names = list(params)
        parameters = parameters or names
        if sorted(names) != sorted(parameters):
            raise InputError(
                "other parameters than before",
                file=file,
                line=line,
                found=names,
                expected=parameters,
            )
        point = place([params[name] for name in parameters], parameters, file, line)
        key = (
            label(entry.get("callpath", "main"), "callpath", file, line),
            label(entry.get("metric", "time"), "metric", file, line),
        )
        values = entry["value"] if isinstance(entry["value"], list) else [entry["value"]]
        add(records, key, point, [measured(value, file, line) for value in values])
    return parameters, records


def _entry(text: str, file: PathLike, line: int) -> dict[str, Any]:
    """Return the object of a line; commas or semicolons separate its keys."""
    with_commas = _TEXT_OR_SEMICOLON.sub(lambda m: "," if m[0] == ";" else m[0], text)
    for written in (text, with_commas):
        try:
            entry = decoded(written, file, line)
        except json.JSONDecodeError:
            continue
        if isinstance(entry, dict):
            return entry
    raise _bad(text, file, line)


def _bad(text: str, file: PathLike, line: int) -> InputError:
    return InputError(
        "bad line",
        file=file,
        line=line,
        found=text,
        expected='an object such as {"params": {"p": 2}, "value": 1.5}',
    )
