"""Extra-P's JSON formats, by call path, by numbered tables and by lines, and TaLPas's lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from toruscast.errors import InputError
from toruscast.files import parse_json
from toruscast.validation import repeated

from .records import PathLike, Records, numbered_lines

_LAYOUT = "does not have the layout of Extra-P's JSON format"
_PARAMETERS = ("params", "parameters")
_EXAMPLE = 'an object such as {"params": {"p": 2}, "value": 1.5}'
_TEXT_OR_SEMICOLON = re.compile(r'"(?:[^"\\]|\\.)*"|;')
# An object at the beginning of a line; an indented document has none.
_OBJECT = re.compile(r'^\{[ \t]*"', re.MULTILINE)
_FIRST = re.compile(r'\s*\{\s*"(?:params"|parameters"\s*:\s*\{)')


def parse_document(document: Any, file: PathLike) -> Records:
    """Return the values of a JSON document, by call path or by numbered tables.

    Examples
    --------
    >>> new = {"parameters": ["p"],
    ...        "measurements": {"main": {"time": [{"point": [2], "values": [1.0, 1.5]}]}}}
    >>> parse_document(new, "a.json").values
    {('main', 'time'): {(2.0,): [1.0, 1.5]}}
    """
    if isinstance(document, dict) and isinstance(document.get("measurements"), list):
        with in_layout(file, '"measurements": [{"callpath_id": .., "value": ..}, ..]'):
            return _by_tables(document, file)
    return by_callpath(document, file, "point", lambda row: row["values"])


def by_callpath(
    document: Any, file: PathLike, coordinates: str, repetitions: Callable[[dict[str, Any]], Any]
) -> Records:
    """Return the values of a document by call path.

    Parameters
    ----------
    document : object
    file : path-like
    coordinates : str
        Key of the coordinates of a measured point.
    repetitions : callable
        Returns the repetitions of a measured point, or the only one.
    """
    records = Records(file)
    with in_layout(file, f'{{call path: {{metric: [{{"{coordinates}": [..], ..}}, ..]}}}}'):
        records.parameters = document["parameters"]
        if not isinstance(document["parameters"], list) or not document["parameters"]:
            raise TypeError
        for name in document["parameters"]:
            _check_name(name, "parameter", records)
        for callpath, metrics in document["measurements"].items():
            for metric, rows in metrics.items():
                what = f"a number for {callpath} ({metric})"
                for row in rows:
                    if not isinstance(row[coordinates], list):
                        raise TypeError
                    point = records.point(row[coordinates], what=what)
                    records.add((callpath, metric), point, _listed(repetitions(row)), what=what)
    return records


@contextmanager
def in_layout(file: PathLike, expected: str) -> Iterator[None]:
    """Refuse a document whose keys or types are not those of its format."""
    try:
        yield
    except KeyError as error:
        found = f"no key {error.args[0]}"
        raise InputError(_LAYOUT, file=file, found=found, expected=expected) from None
    except (TypeError, AttributeError, IndexError):
        # A list where an object should be, or the other way round.
        raise InputError(_LAYOUT, file=file, expected=expected) from None


def _by_tables(document: dict[str, Any], file: PathLike) -> Records:
    """Join the tables of parameters, call paths, metrics and points by their numbers."""
    records = Records(file)

    def once(pairs: list[tuple[Any, Any]], what: str) -> dict[Any, Any]:
        if twice := repeated(key for key, _ in pairs):
            raise records.fault(f"{what} stands twice", found=twice[0])
        return dict(pairs)

    def names(table: str) -> dict[Any, str]:
        entries = document[table]
        once([(entry["name"], None) for entry in entries], f"a name in {table}")
        for entry in entries:
            _check_name(entry["name"], f"name in {table}", records)
        return once([(entry["id"], entry["name"]) for entry in entries], f"an id in {table}")

    parameters, paths, metrics = map(names, ("parameters", "callpaths", "metrics"))
    order = sorted(parameters)
    records.parameters = [parameters[number] for number in order]
    coordinates = [(entry["id"], entry) for entry in document["coordinates"]]
    points = {}
    for number, entry in once(coordinates, "an id in coordinates").items():
        pairs = [
            (pair["parameter_id"], pair["parameter_value"])
            for pair in entry["parameter_value_pairs"]
        ]
        values = once(pairs, "a parameter_id of a coordinate")
        if values.keys() != parameters.keys():
            raise records.fault(
                "a coordinate needs a value of each parameter",
                found=f"parameter_id {', '.join(map(str, values))}",
                expected=", ".join(map(str, order)),
            )
        points[number] = records.point([values[parameter] for parameter in order])
    # A measurement that stands twice would pass for two repetitions.
    rows = document["measurements"]
    once([(row["id"], None) for row in rows if "id" in row], "an id in measurements")
    for row in rows:
        key = (paths[row["callpath_id"]], metrics[row["metric_id"]])
        what = f"a number for {key[0]} ({key[1]})"
        records.add(key, points[row["coordinate_id"]], [row["value"]], what=what)
    return records


def is_json_lines(content: str) -> bool:
    """Return whether a text that begins with a brace holds one object on each line.

    >>> is_json_lines('{"params": {"p": 2}, "value": 1.5}'), is_json_lines('{"parameters": ["p"]}')
    (True, False)
    """
    objects = _OBJECT.finditer(content)
    return _FIRST.match(content) is not None or len([*zip(objects, range(2), strict=False)]) == 2


def parse_json_lines(content: str, file: PathLike) -> Records:
    """Return the values of a file with one JSON object on each line.

    TaLPas writes semicolons between the keys of an object, and ``parameters`` for ``params``. A
    value may be a list of repetitions.

    Examples
    --------
    >>> parse_json_lines('{"params": {"p": 2}, "value": 1.5}', "a.jsonl").values
    {('main', 'time'): {(2.0,): [1.5]}}
    >>> parse_json_lines('{"parameters":{"p":2};"metric":"bytes";"value":[8, 9]}', "a.txt").values
    {('main', 'bytes'): {(2.0,): [8.0, 9.0]}}
    """
    records = Records(file)
    for line, text in numbered_lines(content):
        with_commas = _TEXT_OR_SEMICOLON.sub(lambda m: "," if m[0] == ";" else m[0], text)
        entry = parse_json(with_commas, file, line)
        keys = entry if isinstance(entry, dict) else {}
        params = next((keys[name] for name in _PARAMETERS if name in keys), None)
        if not params or not isinstance(params, dict) or "value" not in keys:
            raise records.fault("bad line", line, text, _EXAMPLE)
        names = list(params)
        records.parameters = records.parameters or names
        if sorted(names) != sorted(records.parameters):
            raise records.fault("other parameters than before", line, names, records.parameters)
        key = entry.get("callpath", "main"), entry.get("metric", "time")
        for name, what in zip(key, ("callpath", "metric"), strict=True):
            _check_name(name, what, records, line)
        point = records.point([params[name] for name in records.parameters], line)
        records.add(key, point, _listed(entry["value"]), line)
    return records


def _listed(values: Any) -> list[Any]:
    return values if isinstance(values, list) else [values]


def _check_name(name: object, what: str, records: Records, line: int | None = None) -> None:
    if not isinstance(name, str):
        raise records.fault(f"bad {what}", line, repr(name), "text")
