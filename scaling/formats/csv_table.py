"""CSV tables of measurements: a header, and a row for each point or repetition."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from toruscast.errors import InputError
from toruscast.validation import repeated

from .records import REDUCTIONS, PathLike, Point, Records, add, label, measured, place

# Columns that are not parameters.
_NAMED = ("value", "callpath", "metric", "repetition")


def separator_of(header: str) -> str:
    """Return the separator of the columns that a line names; empty if it names only one.

    >>> separator_of("p;value")
    ';'
    """
    return next((separator for separator in ",;\t" if separator in header), "")


@dataclass(frozen=True)
class TableColumns:
    """The columns of a table by kind."""

    names: list[str]
    parameters: list[str]
    values: list[str]
    # The call path or metric if no column names it.
    metric: str


def parse_csv(
    content: str,
    file: PathLike,
    separator: str = ",",
    values: Sequence[str] = (),
    reduce: str | None = None,
) -> tuple[list[str], Records]:
    r"""Return the parameters and values of a table.

    `values` names the columns with measured values, ``value`` if it is empty; a name may be a
    pattern such as ``rep*``. Several columns are repetitions, and their cells may be empty. Every
    other column is a parameter, except value, callpath, metric and repetition, in capitals or not;
    the last is not read. Rows of the same point are repetitions. Empty rows, and lines above the
    header that start with ``#``, are skipped. With `reduce`, a column ``process`` tells the rows of
    the processes of a run, which become one value.

    Raises
    ------
    InputError
        If a line cannot be read; the message names it.

    Examples
    --------
    >>> parse_csv("p,value\n2,1\n2,1.5\n", "a.csv")
    (['p'], {('main', 'time'): {(2.0,): [1.0, 1.5]}})
    >>> parse_csv("p,rep1,rep2\n2,1,1.5\n", "a.csv", values=["rep*"])
    (['p'], {('main', 'time'): {(2.0,): [1.0, 1.5]}})
    """
    columns: TableColumns | None = None
    records: Records = {}
    alike: dict[tuple[tuple[str, str], Point, int, str, int], list[float]] = {}
    seen: Counter[tuple[object, ...]] = Counter()
    # Names may hold characters that end a line in other programs, such as U+2028.
    reader = csv.reader(io.StringIO(content), delimiter=separator, strict=True)
    try:
        for cells in reader:
            row, line = [cell.strip() for cell in cells], reader.line_num
            if not any(row):
                continue
            if columns is None:
                if not row[0].startswith("#"):
                    columns = _columns(row, values, file, line, separator, reduce is not None)
                continue
            entry = dict(zip(columns.names, row, strict=False))
            found = [entry[name] for name in columns.values if entry.get(name)]
            needed = (name for name in columns.names if name not in columns.values)
            if len(row) != len(columns.names) or not found or not all(map(entry.get, needed)):
                raise InputError(
                    "a row needs a value in each column",
                    file=file,
                    line=line,
                    found=separator.join(row),
                    expected=separator.join(columns.names),
                )
            point = place(
                [entry[name] for name in columns.parameters],
                columns.parameters,
                file,
                line,
                f"a number for {' and '.join(columns.parameters)}",
            )
            what = f"a number for {' and '.join(columns.values)}"
            key = entry.get("callpath", "main"), entry.get("metric", columns.metric)
            numbers = [measured(cell, file, line, what) for cell in found]
            if reduce is None:
                add(records, key, point, numbers)
                continue
            for k, number in enumerate(numbers):
                # Without a column of repetitions, those of a process stand one after the other.
                process = key, point, k, entry["process"], entry.get("repetition", "")
                seen[process] += 1
                run = key, point, k, entry.get("repetition", ""), seen[process]
                alike.setdefault(run, []).append(number)
    except csv.Error as error:
        raise InputError("bad line", file=file, line=reader.line_num, found=str(error)) from None
    for (key, point, _, _, _), numbers in alike.items():
        add(records, key, point, [float(REDUCTIONS[reduce or "mean"](numbers))])
    return columns.parameters if columns else [], records


def _columns(
    row: list[str],
    wanted: Sequence[str],
    file: PathLike,
    line: int,
    separator: str,
    by_process: bool,
) -> TableColumns:
    """Sort the columns of a header by kind."""
    known = (*_NAMED, "process") if by_process else _NAMED
    names = [name.lower() if name.lower() in known and name not in wanted else name for name in row]
    header = separator.join(names)
    if "" in names:
        raise InputError(
            "a column has no name",
            file=file,
            line=line,
            found=header,
            expected="no numbers of rows, which pandas leaves out with index=False",
        )
    twice = repeated(names)
    if twice:
        raise InputError("a column stands twice", file=file, line=line, found=twice[0])
    values = [
        name
        for name in names
        if any(name == column or fnmatchcase(name, column) for column in wanted or ["value"])
    ]
    for column in wanted:
        if not any(name == column or fnmatchcase(name, column) for name in values):
            raise InputError(
                f"no column {label(column, 'column', file)}",
                file=file,
                line=line,
                found=header,
                expected="a column that it names",
            )
    if by_process and "process" not in names:
        raise InputError(
            "has no values of single processes to reduce",
            file=file,
            line=line,
            found=header,
            expected="a column process",
        )
    parameters = [name for name in names if name not in {*values, *known}]
    if not values or not parameters:
        others = [name for name in names if name not in _NAMED]
        expected = "a column for each parameter and a column value"
        if not values and len(others) > 1:
            expected += f", or the name of that column: --value {_guess(others)}"
        raise InputError(
            "is no table of measurements", file=file, line=line, found=header, expected=expected
        )
    named = len(values) == 1 and values[0].lower() not in _NAMED
    return TableColumns(names, parameters, values, values[0] if named else "time")


def _guess(names: list[str]) -> str:
    """Guess the columns of values: numbered ones, such as rep1 and rep2, or the last.

    >>> _guess(["p", "rep1", "rep2"]), _guess(["p", "seconds"])
    ("'rep*'", 'seconds')
    """
    stems = [re.sub(r"\d+$", "", name) for name in names]
    last = stems[-1]
    return f"'{last}*'" if last and last != names[-1] and stems.count(last) > 1 else names[-1]
