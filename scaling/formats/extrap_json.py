"""Extra-P's JSON formats: by call path, and by numbered tables."""

from __future__ import annotations

import json
from typing import Any

from toruscast.errors import InputError

from .records import PathLike, Records, add, label, measured, place

_LAYOUT = "does not have the layout of Extra-P's JSON format"


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
