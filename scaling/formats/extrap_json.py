"""Extra-P's JSON formats, by call path, by numbered tables and by lines, and TaLPas's lines."""

from __future__ import annotations

import json
import re
from typing import Any

from toruscast.errors import InputError

from .records import PathLike, Records, add, label, measured, place

_LAYOUT = "does not have the layout of Extra-P's JSON format"
_PARAMETERS = ("params", "parameters")
_TEXT_OR_SEMICOLON = re.compile(r'"(?:[^"\\]|\\.)*"|;')
# An object at the beginning of a line; an indented document has none.
_OBJECT = re.compile(r'^\{[ \t]*"', re.MULTILINE)
_FIRST = re.compile(r'\s*\{\s*"(?:params"|parameters"\s*:\s*\{)')


def decoded(text: str, file: PathLike, line: int | None = None) -> Any:
    """Decode a JSON text.

    Raises
    ------
    json.JSONDecodeError
        If it is not JSON.
    InputError
        If the decoder cannot hold it, or an object has a key twice.

    Examples
    --------
    >>> decoded('{"a": [1, 2.5]}', "a.json")
    {'a': [1, 2.5]}
    """

    def only_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        entries: dict[str, Any] = {}
        for name, entry in pairs:
            if name in entries:
                raise InputError("a key stands twice", file=file, line=line, found=name)
            entries[name] = entry
        return entries

    try:
        return json.loads(text, object_pairs_hook=only_once)
    except (json.JSONDecodeError, InputError):
        raise
    except RecursionError:
        raise InputError("is nested too deeply", file=file, line=line) from None
    except ValueError:
        # The only other error: Python limits the digits of whole numbers.
        raise InputError("a number has too many digits", file=file, line=line) from None


def parse_json(document: Any, file: PathLike) -> tuple[list[str], Records]:
    """Return the parameters and values of a JSON document in either layout.

    Examples
    --------
    >>> new = {"parameters": ["p"],
    ...        "measurements": {"main": {"time": [{"point": [2], "values": [1.0, 1.5]}]}}}
    >>> parse_json(new, "a.json")
    (['p'], {('main', 'time'): {(2.0,): [1.0, 1.5]}})
    """
    if not isinstance(document, dict) or not {"parameters", "measurements"} <= document.keys():
        raise InputError(
            "is no file of measurements", file=file, expected="keys parameters and measurements"
        )
    if not document["parameters"] or not isinstance(document["parameters"], list):
        raise InputError(
            _LAYOUT,
            file=file,
            found=f"parameters {document['parameters']!r}",
            expected="a list of parameters",
        )
    try:
        if isinstance(document["measurements"], dict):
            return _by_callpath(document, file)
        return _by_tables(document, file)
    except KeyError as error:
        missing = error.args[0]
        found = f"no key {missing}" if isinstance(missing, str) else f"no entry with id {missing}"
        raise InputError(_LAYOUT, file=file, found=found) from None
    except (TypeError, AttributeError, IndexError):
        # A list where an object should be, or the other way round.
        expected = 'measurements as {call path: {metric: [{"point": [..], "values": [..]}, ..]}}'
        raise InputError(_LAYOUT, file=file, expected=expected) from None


def _by_callpath(document: dict[str, Any], file: PathLike) -> tuple[list[str], Records]:
    parameters = document["parameters"]
    if not all(isinstance(name, str) for name in parameters):
        raise InputError(
            _LAYOUT, file=file, found=f"parameters {parameters}", expected="a list of names"
        )
    records: Records = {}
    for callpath, metrics in document["measurements"].items():
        for metric, rows in metrics.items():
            what = f"a number for {callpath} ({metric})"
            for row in rows:
                missing = [name for name in ("point", "values") if name not in row]
                if missing:
                    raise InputError(
                        _LAYOUT, file=file, found=f"no key {missing[0]} for {callpath} ({metric})"
                    )
                if not isinstance(row["point"], list):
                    raise TypeError
                point = place(row["point"], parameters, file, what=what)
                values = row["values"] if isinstance(row["values"], list) else [row["values"]]
                numbers = [measured(v, file, what=what) for v in values]
                add(records, (callpath, metric), point, numbers)
    return parameters, records


def _by_tables(document: dict[str, Any], file: PathLike) -> tuple[list[str], Records]:
    """Join the tables of parameters, call paths, metrics and points by their numbers."""
    parameters = _named(document["parameters"], "parameters", file)
    paths = _named(document["callpaths"], "callpaths", file)
    metrics = _named(document["metrics"], "metrics", file)
    order = sorted(parameters)
    points = {}
    for number_of_point, entry in _numbered(document["coordinates"], "coordinates", file).items():
        value = _coordinate(entry["parameter_value_pairs"], parameters, file)
        points[number_of_point] = place(
            [value[p] for p in order], [parameters[p] for p in order], file
        )
    # A measurement that stands twice would pass for two repetitions.
    _numbered([m for m in document["measurements"] if "id" in m], "measurements", file)
    records: Records = {}
    for entry in document["measurements"]:
        key = (paths[entry["callpath_id"]], metrics[entry["metric_id"]])
        found = measured(entry["value"], file, what=f"a number for {key[0]} ({key[1]})")
        add(records, key, points[entry["coordinate_id"]], [found])
    return [parameters[p] for p in order], records


def _numbered(table: list[dict[str, Any]], what: str, file: PathLike) -> dict[Any, dict[str, Any]]:
    """Return the entries of a table by their numbers."""
    entries: dict[Any, dict[str, Any]] = {}
    for entry in table:
        if entry["id"] in entries:
            raise InputError(f"an id stands twice in {what}", file=file, found=entry["id"])
        entries[entry["id"]] = entry
    return entries


def _named(table: list[dict[str, Any]], what: str, file: PathLike) -> dict[Any, str]:
    """Return the names of a table by their numbers."""
    numbers: dict[str, Any] = {}
    for k, entry in _numbered(table, what, file).items():
        name = label(entry["name"], f"name in {what}", file)
        if name in numbers:
            raise InputError(f"a name stands twice in {what}", file=file, found=name)
        numbers[name] = k
    return {k: name for name, k in numbers.items()}


def _coordinate(
    pairs: list[dict[str, Any]], parameters: dict[Any, str], file: PathLike
) -> dict[Any, Any]:
    """Return the values of a point by the numbers of the parameters."""
    value: dict[Any, Any] = {}
    for pair in pairs:
        k = pair["parameter_id"]
        if k not in parameters:
            raise InputError(
                "a coordinate has an unknown parameter_id",
                file=file,
                found=k,
                expected=f"one of {', '.join(map(str, parameters))}",
            )
        if k in value:
            raise InputError("a coordinate has a parameter_id twice", file=file, found=k)
        value[k] = pair["parameter_value"]
    return value


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
