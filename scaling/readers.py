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
from .formula import Formula, text
from .measurements import Measurements
from .profiles import CALIPER, caliper_files, is_thicket, parse_caliper, parse_cube, parse_thicket
from .records import REDUCTIONS, Choice, Records, in_layout, parse_csv, separator_of

_MAX_BYTES = 2**28
_MAX_FORMULAS = 50_000_000
_FORMATS = (
    "Extra-P's text, JSON, JSON lines or project, TaLPas's lines, a CSV table, Thicket's JSON, or "
    "a folder of Cube or Caliper profiles"
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

        Cube profiles are in a folder with a folder for each run, named by its parameters:
        ``app.p64.n100.r1/profile.cubex``. They need the package pycubexr (extra ``cube``).

        Caliper profiles (``.cali``) are in a folder, one file a run, and need the package
        caliper-reader (extra ``caliper``). A Thicket of them is read from what its ``to_json``
        wrote. The metadata of a run hold the parameters.
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
    records = _parsed(Path(path), Choice(wanted, parameters, reduce))
    if absent == "zero":
        records.add_zeros()
    found = records.measurements()
    note_read("measurements", path, began, paths=sum(each.n_paths for each in found))
    return found


def _parsed(path: Path, choice: Choice) -> Records:
    """Return the values of a file or folder in any format."""
    if path.is_dir():
        if caliper_files(path):
            return parse_caliper(path, choice)
        choice.refuse(path, "value", "parameters")
        return parse_cube(path, choice)
    raw = read_limited(path, _MAX_BYTES)
    if raw.startswith(b"PK\x03\x04"):
        choice.refuse(path, "value", "parameters", "reduce")
        return parse_project(raw, path)
    content = as_string(raw, path)
    lines = (line for line in content.split("\n") if line.strip() and line.lstrip()[0] != "#")
    first = next(lines, "nothing")
    word = first.split()[0]
    start = word[0]
    document = None
    if start == "{" and not is_json_lines(content):
        document = parse_json(content, path)
        if is_thicket(document):
            return parse_thicket(document, path, choice)
    elif word not in FIELDS and not word.startswith(("{", "[", CALIPER)) and separator_of(first):
        choice.refuse(path, "parameters")
        return parse_csv(content, path, separator_of(first), choice)
    choice.refuse(path, "value", "parameters", "reduce")
    if document is not None:
        return parse_document(document, path)
    if start == "{":
        return parse_json_lines(content, path)
    if word in FIELDS:
        return parse_text(content, path)
    raise InputError("is no file of measurements", file=path, found=first, expected=_FORMATS)


def read_formulas(path: str | os.PathLike[str]) -> dict[tuple[str, str], Formula]:
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
    file = os.fspath(path)
    expected = "the file that toruscast pmnf fit --json wrote"
    document = parse_json(as_string(read_limited(file, _MAX_FORMULAS), file), file)
    models = document.get("models") if isinstance(document, dict) else None
    if not isinstance(models, list) or not models:
        raise InputError("holds no fitted models", file=file, expected=expected)
    result: dict[tuple[str, str], Formula] = {}
    for number, model in enumerate(models):
        with in_layout(file, f"fitted model, number {number}", expected):
            key = str(model["callpath"]), str(model["metric"])
            names = sorted({name for term in model["terms"] for name in term["exponents"]})
            terms = [
                (
                    float(term["coefficient"]),
                    tuple(
                        (float(i), float(j))
                        for i, j in (term["exponents"].get(name, (0, 0)) for name in names)
                    ),
                )
                for term in model["terms"]
            ]
            written = text(terms, names, None)
        if key in result:
            raise InputError("two models of one call path", file=file, found=" ".join(key))
        result[key] = Formula(written, file=file, place=key[0])
    return result
