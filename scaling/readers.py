"""Reader of measurement files, which recognises the format by the content."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

from toruscast.errors import InputError
from toruscast.files import as_string, note_read, parse_json, read_limited
from toruscast.validation import one_of

from .extrap import (
    FIELDS,
    is_json_lines,
    parse_document,
    parse_json_lines,
    parse_project,
    parse_text,
)
from .measurements import Measurements
from .profiles import CALIPER, caliper_files, is_thicket, parse_caliper, parse_cube, parse_thicket
from .records import REDUCTIONS, Records, parse_csv, separator_of

_MAX_BYTES = 2**28
_FORMATS = (
    "Extra-P's text, JSON, JSON lines or project, TaLPas's lines, a CSV table, Thicket's JSON, or "
    "a folder of Cube or Caliper profiles"
)
# Files that begin like this, from a byte on, are recognised, but cannot be read.
_KNOWN = (
    (
        0,
        b"\x01\x00\x11\x00\x00\x00EXTRAP",
        "is a project of Extra-P 3: save it anew with Extra-P 4",
    ),
    (0, b"SQLite format 3\0", "is a database of Nsight Systems: export a CSV table"),
    (0, b"\x1f\x8b", "is packed with gzip: unpack it first"),
    (0, b"\x89HDF", "is an HDF5 file: export a CSV table"),
    (0, b"PAR1", "is a Parquet file: in Python, from_rows takes its DataFrame"),
    (0, CALIPER, "is one Caliper profile: give the folder with the profiles of all runs"),
    (
        257,
        b"ustar",
        "is a tar file: give the folder with app.p64.n100.r1/profile.cubex for each run",
    ),
)


def read_measurements(
    path: str | os.PathLike[str],
    value: str | Sequence[str] = (),
    *,
    parameters: Sequence[str] = (),
    absent: str = "omit",
    reduce: str | None = None,
) -> list[Measurements]:
    r"""Read Extra-P's formats, TaLPas, profiles of Cube, Caliper and Thicket, or a CSV table.

    Extra-P writes text, JSON in two layouts, JSON lines and projects (``.extra-p``).

    Parameters
    ----------
    path : path-like
        A table has a header and a row for each repetition: a column ``value``, a column for each
        parameter, and ``callpath`` and ``metric`` if there are several. A column ``repetition`` is
        not read. Columns are separated by commas, semicolons or tabs.

        Cube profiles stand in a folder with a folder for each run, whose name tells the parameters:
        ``app.p64.n100.r1/profile.cubex``. They need the package pycubexr (extra ``cube``).

        Caliper profiles (``.cali``) stand in a folder, one file a run, and need the package
        caliper-reader (extra ``caliper``). A Thicket of them is read from what its ``to_json``
        wrote. The metadata of a run tell the parameters.
    value : str or sequence of str
        Columns of a table that hold measured values, in place of ``value``; a pattern such as
        ``rep*`` names several. Several columns are repetitions of a point. For
        Caliper and Thicket, the metrics to read; all if left out.
    parameters : sequence of str
        Metadata of Caliper and Thicket that are the parameters, such as ``mpi.world.size``, or
        ``p=mpi.world.size`` to call it p; needed if several numbers differ between the runs.
    absent : {"omit", "zero"}
        A call path that some runs do not hold has fewer points, or the value 0 there, as where the
        call trees of all runs are merged [Shudler18].
    reduce : {"mean", "max", "sum"}, optional
        How the values of the processes of a run become one: in profiles (the mean if left out), and
        in a table with a column ``process``.

    Returns
    -------
    list of Measurements
        One for each set of points that call paths were measured at; nearly always one.

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
    wanted = [value] if isinstance(value, str) else [*value]
    one_of(absent, "treatment of absent call paths", ("omit", "zero"))
    if reduce is not None:
        one_of(reduce, "reduction", tuple(REDUCTIONS))
    records = _parsed(Path(path), wanted, parameters, reduce)
    if absent == "zero":
        records.add_zeros()
    found = records.measurements()
    note_read("measurements", path, began, paths=sum(each.n_paths for each in found))
    return found


def _parsed(
    path: Path, value: Sequence[str], parameters: Sequence[str], reduce: str | None
) -> Records:
    """Return the values of a file or folder in any format."""
    if path.is_dir():
        if caliper_files(path):
            return parse_caliper(path, parameters, value, reduce or "mean")
        _refuse_choice(path, value, parameters)
        return parse_cube(path, reduce or "mean")
    raw = read_limited(path, _MAX_BYTES)
    if raw.startswith(b"PK\x03\x04"):
        _refuse_choice(path, value, parameters, reduce)
        return parse_project(raw, path)
    for place, signature, meaning in _KNOWN:
        if raw.startswith(signature, place):
            raise InputError(meaning, file=path)
    content = as_string(raw, path)
    start = content.lstrip()[:1]
    if start == "{" and not is_json_lines(content):
        document = parse_json(content, path)
        if is_thicket(document):
            return parse_thicket(document, parameters, value, reduce or "mean", path)
        _refuse_choice(path, value, parameters, reduce)
        return parse_document(document, path)
    lines = (line for line in content.split("\n") if line.strip() and line.lstrip()[0] != "#")
    first = next(lines, "nothing")
    separator = separator_of(first)
    if start == "{":
        read = parse_json_lines
    elif first.split()[0] in FIELDS:
        read = parse_text
    elif separator and start != "[":
        _refuse_choice(path, (), parameters)
        return parse_csv(content, path, separator, value, reduce)
    else:
        raise InputError("is no file of measurements", file=path, found=first, expected=_FORMATS)
    _refuse_choice(path, value, parameters, reduce)
    return read(content, path)


def _refuse_choice(
    path: Path, value: Sequence[str], parameters: Sequence[str], reduce: str | None = None
) -> None:
    """Refuse a choice that the format does not offer."""
    for found, message, expected in (
        (value, "has no columns to choose from", "a table"),
        (parameters, "has no metadata to choose from", "profiles of Caliper or Thicket"),
        (reduce and [reduce], "has no values of single processes", "profiles, or a table of them"),
    ):
        if found:
            raise InputError(message, file=path, found=", ".join(found), expected=expected)
