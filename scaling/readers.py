"""Readers of measurements and fitted models, which recognise a format by its content."""

from __future__ import annotations

import io
import operator
import re
import struct
import time
import warnings
import zipfile
from collections.abc import Callable, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from toruscast.errors import InputError
from toruscast.files import as_damaged, as_string, check_path, note_read, parse_json, read_limited
from toruscast.validation import one_of, repeated

from .formula import Formula, ScalingWarning, format_terms
from .measurements import (
    REDUCTIONS,
    Key,
    Measurements,
    PathLike,
    Point,
    ReadOptions,
    Records,
    check_layout,
    enumerate_lines,
    find_separator,
    parse_csv,
)
from .profiles import CALIPER, caliper_files, is_thicket, parse_caliper, parse_cube, parse_thicket

_MAX_BYTES = 2**28
_MAX_FORMULAS = 50_000_000
_FORMATS = (
    "Extra-P's text, JSON, JSON lines or project, TaLPas's lines, a CSV table, Thicket's JSON, or "
    "a folder of Cube or Caliper profiles"
)
_EXTRAP_JSON = "document in Extra-P's JSON format"
_PARAMETERS = ("params", "parameters")
_EXAMPLE = 'an object such as {"params": {"p": 2}, "value": 1.5}'
_TEXT_OR_SEMICOLON = re.compile(r'"(?:[^"\\]|\\.)*"|;')
# An object at the start of a line; an indented JSON document has only one.
_OBJECT = re.compile(r'^\{[ \t]*"', re.MULTILINE)
_FIRST = re.compile(r'\s*\{\s*"(?:params"|parameters"\s*:\s*\{)')
FIELDS = ("PARAMETER", "POINTS", "METRIC", "REGION", "DATA")
# A point in brackets; its coordinates may be in brackets too.
_POINT = re.compile(r"\((?:[^()]|\([^()]*\))*\)")
_ONCE = "each once; a DATA line contains all repetitions of a point"
# Members may be compressed by a factor of 1000, so their unpacked size is limited.
MAX_MEMBER_BYTES = 64 * 2**20
_CONTENT = "experiment.json"
_INDEX, _VALUES = b"Extra-P INDEX\0\0\0", b"Extra-P VALUES\0\0"


def read_measurements(
    path: PathLike,
    value: str | Sequence[str] = (),
    *,
    parameters: Sequence[str] = (),
    absent: str | None = None,
    reduce: str | None = None,
) -> list[Measurements]:
    r"""Read measurements of Extra-P, TaLPas, Cube, Caliper or Thicket, or a CSV table.

    Extra-P writes text, JSON in two layouts, JSON lines and projects (``.extra-p``).

    Parameters
    ----------
    path : path-like
        A table has a header and one row per repetition. Its columns are ``value``, one per
        parameter, and optionally ``callpath`` and ``metric``. A column ``repetition`` is ignored.
        Columns are separated by commas, semicolons or tabs.

        Cube profiles are in a folder with one subfolder per run, named by its parameters:
        ``app.p64.n100.r1/profile.cubex``. They need the package pycubexr (extra ``cube``).

        Caliper profiles (``.cali``) are in a folder with one file per run, and need the package
        caliper-reader (extra ``caliper``). Thickets are JSON files written by ``to_json``. The
        metadata of a run contain the parameters.
    value : str or sequence of str
        Columns of a table that contain the measured values, instead of ``value``; may be patterns
        such as ``rep*``. Several columns are repetitions of a point. For Caliper and Thicket, the
        metrics to read; by default, all are read.
    parameters : sequence of str
        Metadata of Caliper and Thicket to use as parameters, such as ``mpi.world.size``, or
        ``p=mpi.world.size`` to name it p. Required if more than one number in the metadata differs
        between the runs.
    absent : {"merge", "omit", "zero"}, optional
        Treatment of call paths that are not in all runs: merge them into their parents [Shudler18],
        omit the missing points, or set them to 0. By default, they are merged in profiles, with a
        `ScalingWarning` that counts them, but not in other files.
    reduce : {"mean", "max", "sum"}, optional
        How to reduce the values of a run's processes to one value, in profiles (by default to their
        mean) and in tables with a column ``process``.

    Returns
    -------
    list of Measurements
        One item for each set of points, nearly always one.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "two.txt"
    >>> _ = file.write_text("PARAMETER p\nPOINTS 2 4\nREGION main\nDATA 1 2\nDATA 3")
    >>> m = read_measurements(file)[0]
    >>> m.callpaths, m.metrics, m.values.tolist()
    (('main',), ('time',), [[[1.0, 2.0], [3.0, nan]]])
    """
    began = time.perf_counter()
    check_path(path)
    columns = [value] if isinstance(value, str) else [*value]
    if absent is not None:
        one_of(absent, "treatment of absent call paths", ("merge", "omit", "zero"))
    if reduce is not None:
        one_of(reduce, "reduction", tuple(REDUCTIONS))
    merge = "" if absent in ("omit", "zero") else absent
    records = _parse_file(Path(path), ReadOptions(columns, parameters, reduce, merge))
    if absent == "zero":
        records.add_zeros()
    result = records.measurements()
    note_read("measurements", path, began, paths=sum(data.n_paths for data in result))
    return result


def _parse_file(path: Path, choice: ReadOptions) -> Records:
    """Recognise the format of a file or folder by its content, and parse it."""
    if path.is_dir():
        if caliper_files(path):
            return parse_caliper(path, choice)
        choice.refuse(path, "value", "parameters")
        return parse_cube(path, choice)
    raw = read_limited(path, _MAX_BYTES)
    if raw.startswith(b"PK\x03\x04"):
        choice.refuse(path, "value", "parameters", "reduce", "merge")
        return parse_project(raw, path)
    content = as_string(raw, path)
    lines = (text for text in content.split("\n") if text.strip() and text.lstrip()[0] != "#")
    line = next(lines, "nothing")  # the first line that is not a comment
    word = line.split()[0]
    start = word[0]
    document = None
    if start == "{" and not is_json_lines(content):
        document = parse_json(content, path)
        if is_thicket(document):
            return parse_thicket(document, path, choice)
    elif word not in FIELDS and not word.startswith(("{", "[", CALIPER)) and find_separator(line):
        choice.refuse(path, "parameters", "merge")
        return parse_csv(content, path, find_separator(line), choice)
    choice.refuse(path, "value", "parameters", "reduce", "merge")
    if document is not None:
        return parse_document(document, path)
    if start == "{":
        return parse_json_lines(content, path)
    if word in FIELDS:
        return parse_text(content, path)
    raise InputError("is not a file of measurements", file=path, found=line, expected=_FORMATS)


def read_formulas(path: PathLike) -> dict[tuple[str, str], Formula]:
    """Read the models that ``toruscast pmnf fit --json`` wrote.

    Returns a formula for each (call path, metric), in full precision.

    Examples
    --------
    >>> from pathlib import Path
    >>> _ = Path("models.json").write_text(
    ...     '{"models": [{"callpath": "solve", "metric": "time", "terms": ['
    ...     '{"coefficient": 2.5, "exponents": {"p": [0.5, 1]}}]}]}'
    ... )
    >>> read_formulas("models.json")
    {('solve', 'time'): Formula('2.5 p^(1/2) log2(p)')}
    """
    expected = "the file that toruscast pmnf fit --json wrote"
    document = parse_json(as_string(read_limited(path, _MAX_FORMULAS), path), path)
    models = document.get("models") if isinstance(document, dict) else None
    if not isinstance(models, list) or not models:
        raise InputError("contains no fitted models", file=path, expected=expected)
    result: dict[tuple[str, str], Formula] = {}
    for number, model in enumerate(models):
        with check_layout(path, f"fitted model, number {number}", expected):
            key = str(model["callpath"]), str(model["metric"])
            names = sorted({name for term in model["terms"] for name in term["exponents"]})
            terms = []
            for term in model["terms"]:
                pairs = (term["exponents"].get(name, (0, 0)) for name in names)
                exponents = tuple((float(i), float(j)) for i, j in pairs)
                terms.append((float(term["coefficient"]), exponents))
            formula = Formula(format_terms(terms, names, None), file=path, place=key[0])
        if key in result:
            raise InputError("two models of one call path", file=path, found=" ".join(key))
        result[key] = formula
    return result


def parse_document(document: Any, file: PathLike) -> Records:
    """Parse a JSON document in either layout of Extra-P."""
    if isinstance(document, dict) and isinstance(document.get("measurements"), list):
        expected = '"measurements": [{"callpath_id": .., "value": ..}, ..]'
        with check_layout(file, _EXTRAP_JSON, expected):
            return _parse_tables(document, file)
    return parse_by_callpath(document, file, "point", lambda row: row["values"])


def parse_by_callpath(
    document: Any, file: PathLike, coordinates: str, repetitions: Callable[[dict[str, Any]], Any]
) -> Records:
    """Parse a document that lists measurements by call path and metric.

    ``coordinates`` is the key of an entry's point, and ``repetitions`` returns the entry's values.
    """
    records = Records(file)
    layout = f'{{call path: {{metric: [{{"{coordinates}": [..], ..}}, ..]}}}}'
    with check_layout(file, _EXTRAP_JSON, layout):
        records.parameters = document["parameters"]
        if not isinstance(document["parameters"], list) or not document["parameters"]:
            raise TypeError
        for name in document["parameters"]:
            _check_name(name, "parameter", records)
        for callpath, metrics in document["measurements"].items():
            for metric, rows in metrics.items():
                expected = f"a number for {callpath} ({metric})"
                for row in rows:
                    if not isinstance(row[coordinates], list):
                        raise TypeError
                    point = records.point(row[coordinates], what=expected)
                    values = _as_list(repetitions(row))
                    records.add((callpath, metric), point, values, what=expected)
    return records


def _parse_tables(document: dict[str, Any], file: PathLike) -> Records:
    """Parse a document whose tables of parameters, call paths, metrics and points refer to ids."""
    records = Records(file)

    def to_unique(pairs: list[tuple[Any, Any]], what: str) -> dict[Any, Any]:
        """Return pairs as a dictionary; raise `InputError` if a key is repeated."""
        if twice := repeated(key for key, _ in pairs):
            raise records.fault(f"{what} is repeated", found=twice[0])
        return dict(pairs)

    def read_names(table: str) -> dict[Any, str]:
        """Return the names in a table, by id."""
        entries = document[table]
        to_unique([(entry["name"], None) for entry in entries], f"a name in {table}")
        for entry in entries:
            _check_name(entry["name"], f"name in {table}", records)
        return to_unique([(entry["id"], entry["name"]) for entry in entries], f"an id in {table}")

    parameters, paths, metrics = map(read_names, ("parameters", "callpaths", "metrics"))
    order = sorted(parameters)
    records.parameters = [parameters[number] for number in order]
    coordinates = [(entry["id"], entry) for entry in document["coordinates"]]
    points = {}
    for number, entry in to_unique(coordinates, "an id in coordinates").items():
        pairs = [
            (pair["parameter_id"], pair["parameter_value"])
            for pair in entry["parameter_value_pairs"]
        ]
        values = to_unique(pairs, "a parameter_id of a coordinate")
        if values.keys() != parameters.keys():
            message = "a coordinate needs a value of each parameter"
            found, ids = f"parameter_id {', '.join(map(str, values))}", ", ".join(map(str, order))
            raise records.fault(message, found=found, expected=ids)
        points[number] = records.point([values[parameter] for parameter in order])
    # A repeated measurement would count as two repetitions.
    rows = document["measurements"]
    to_unique([(row["id"], None) for row in rows if "id" in row], "an id in measurements")
    for row in rows:
        key = (paths[row["callpath_id"]], metrics[row["metric_id"]])
        expected = f"a number for {key[0]} ({key[1]})"
        records.add(key, points[row["coordinate_id"]], [row["value"]], what=expected)
    return records


def is_json_lines(content: str) -> bool:
    """Return whether a text that begins with a brace has one object per line."""
    first_two = list(islice(_OBJECT.finditer(content), 2))
    return _FIRST.match(content) is not None or len(first_two) == 2


def parse_json_lines(content: str, file: PathLike) -> Records:
    """Parse a file with one JSON object per line.

    TaLPas separates the keys of an object by semicolons, and writes ``parameters`` in place of
    ``params``. A value may be a list of repetitions.
    """
    records = Records(file)
    for line, text in enumerate_lines(content):
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
        known_keys = {*_PARAMETERS, "callpath", "metric", "value"}
        records.left_out.update(f"key {name}" for name in entry if name not in known_keys)
        key = entry.get("callpath", "main"), entry.get("metric", "time")
        for name, what in zip(key, ("callpath", "metric"), strict=True):
            _check_name(name, what, records, line)
        point = records.point([params[name] for name in records.parameters], line)
        records.add(key, point, _as_list(entry["value"]), line)
    return records


def _as_list(values: Any) -> list[Any]:
    return values if isinstance(values, list) else [values]


def _check_name(name: object, what: str, records: Records, line: int | None = None) -> None:
    if not isinstance(name, str):
        raise records.fault(f"bad {what}", line, repr(name), "text")


def parse_text(content: str, file: PathLike) -> Records:
    """Parse a text file of Extra-P.

    Each DATA line contains the repetitions of the next point. A METRIC or REGION line restarts at
    the first point. A POINTS line contains points such as ``(2 10)`` or ``((2) (10))``, whose
    coordinates are separated by blanks or commas. Points of one parameter need no brackets.
    """
    records = Records(file)
    points: list[Point] = []
    unique: set[Point] = set()
    name = {"REGION": "main", "METRIC": "time"}
    # For each call path and metric, its first DATA line and its number of DATA lines.
    rows: dict[Key, tuple[int, int]] = {}
    row = start = 0
    for line, text in enumerate_lines(content):
        field = text.split(None, 1)[0]
        value = text.removeprefix(field).lstrip()
        if field.startswith("#"):
            continue
        if field not in FIELDS:
            raise records.fault("unknown field", line, field, " or ".join(FIELDS))
        if not value:
            raise records.fault(f"{field} without a value", line)
        if field == "PARAMETER":
            if points:
                raise records.fault("PARAMETER after POINTS", line, value)
            records.parameters += value.split()
        elif field == "POINTS":
            for point in _parse_points(value, records, line):
                if point in unique:
                    found = " ".join(f"{x:g}" for x in point)
                    raise records.fault("a point is repeated", line, found, _ONCE)
                unique.add(point)
                points.append(point)
        elif field == "DATA":
            key = name["REGION"], name["METRIC"]
            if row >= len(points):
                raise records.fault("more DATA lines than points", line, expected=len(points))
            if row == 0 and key in rows:
                raise records.fault(f"{_describe_key(key)} is repeated", line, expected=_ONCE)
            records.add(key, points[row], value.split(), line)
            row += 1
            rows[key] = start or line, row
        else:
            name[field], row, start = value, 0, line
    if not records.parameters:
        raise records.fault("has no PARAMETER")
    for key, (line, n) in rows.items():
        if n < len(points):
            expected = f"{len(points)}, one per point"
            raise records.fault(f"{_describe_key(key)} lacks DATA lines", line, n, expected)
    return records


def _describe_key(key: Key) -> str:
    return f"REGION {key[0]} with METRIC {key[1]}"


def _parse_points(text: str, records: Records, line: int) -> list[Point]:
    """Return the points in a POINTS line."""
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


def parse_project(content: bytes, file: PathLike) -> Records:
    """Parse an Extra-P project, a zip file, which may contain only the median at each point.

    The measurements are a JSON document that refers, by number, to arrays in other members.
    """
    n_medians = 0
    with as_damaged(file, "Extra-P project"), zipfile.ZipFile(io.BytesIO(content)) as archive:
        if _CONTENT not in archive.namelist():
            raise InputError("is a zip, but not an Extra-P project", file=file, expected=_CONTENT)
        remaining = MAX_MEMBER_BYTES

        @cache
        def unpack(name: str) -> bytes:
            """Return the content of a member; raise if all members together exceed the limit."""
            nonlocal remaining
            with archive.open(name) as packed:
                unpacked = packed.read(remaining + 1)
            remaining -= len(unpacked)
            if remaining < 0:
                found = f"{name} of {archive.getinfo(name).file_size} bytes"
                expected = f"at most {MAX_MEMBER_BYTES} bytes in all"
                raise InputError("unpacks to too much", found=found, expected=expected)
            return unpacked

        def read_repetitions(row: dict[str, Any]) -> list[Any]:
            """Return the repetitions of a measurement, or its median if they are not stored."""
            nonlocal n_medians
            if row.get("values") is None:
                n_medians += row.get("repetitions", 2) != 1
                return [row["median"]]
            chunk, number = map(operator.index, row["values"])
            index = unpack(f"values/{chunk}.indx")
            return _read_stored_array(index, unpack(f"values/{chunk}.vals"), number)

        document = parse_json(as_string(unpack(_CONTENT), file), file)
        records = parse_by_callpath(document, file, "coordinate", read_repetitions)
    if n_medians:
        message = "the project contains only medians, so models cannot separate growth from noise"
        warnings.warn(f"{file}: {message}", ScalingWarning, stacklevel=3)
    return records


def _read_stored_array(index: bytes, stored: bytes, number: int) -> list[Any]:
    """Read array ``number`` from ``stored``, in NumPy's format, at the offset in ``index``."""
    if number < 0 or not index.startswith(_INDEX) or not stored.startswith(_VALUES):
        raise ValueError(f"no Extra-P values {number}")
    (start,) = struct.unpack_from("<Q", index, len(_INDEX) + 8 * (number + 1))
    # Slicing would copy all later arrays, once for each of many indices.
    source = io.BytesIO(stored)
    source.seek(start)
    np.lib.format.read_magic(source)
    shape, _, dtype = np.lib.format.read_array_header_1_0(source)
    count = int(np.prod(shape, dtype=object))
    if dtype.kind not in "iuf" or not 0 < count <= len(stored) // dtype.itemsize:
        raise ValueError(f"an array of {count} {dtype}")
    values: list[Any] = np.frombuffer(source.read(count * dtype.itemsize), dtype, count).tolist()
    return values
