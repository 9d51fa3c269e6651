"""CSV tables: a header, and a row for each run, point or repetition."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import partial

from toruscast.errors import InputError
from toruscast.validation import repeated

from .records import REDUCTIONS, Key, PathLike, Point, Records

# Columns that are not parameters.
_NAMED = ("value", "callpath", "metric", "repetition")
_ROW = "a row needs a value in each column"


def separator_of(header: str) -> str:
    """Return the separator of the columns that a line names; empty if it names only one.

    >>> separator_of("p;value")
    ';'
    """
    return next((separator for separator in ",;\t" if separator in header), "")


def table_rows(
    content: str,
    file: PathLike,
    separator: str = ",",
    rename: Callable[[str], str] = str,
    comments: bool = False,
) -> Iterator[tuple[int, list[str]]]:
    r"""Yield the header of a table, then its rows, each with its line.

    Empty rows, and lines above the header that start with ``#``, are skipped.

    Parameters
    ----------
    content, file : str
    separator : str
    rename : callable
        Called with the name of each column.
    comments : bool
        Lines below the header that start with ``#`` are skipped too.

    Raises
    ------
    InputError
        If a line cannot be read, a row is not as long as the header, or a column stands twice.

    Examples
    --------
    >>> [*table_rows("# by hand\np,value\n2, 1.5\n", "a.csv")]
    [(2, ['p', 'value']), (3, ['2', '1.5'])]
    """
    names: list[str] = []
    # Names may hold characters that end a line in other programs, such as U+2028.
    reader = csv.reader(io.StringIO(content), delimiter=separator, strict=True)
    try:
        for cells in reader:
            row, line = [cell.strip() for cell in cells], reader.line_num
            if not any(row) or (row[0].startswith("#") and (comments or not names)):
                continue
            if not names:
                names = row = [rename(name) for name in row]
                if twice := repeated(names):
                    raise InputError("a column stands twice", file=file, line=line, found=twice[0])
            elif len(row) != len(names):
                found, expected = separator.join(row), separator.join(names)
                raise InputError(_ROW, file=file, line=line, found=found, expected=expected)
            yield line, row
    except csv.Error as error:
        raise InputError("bad line", file=file, line=reader.line_num, found=str(error)) from None


def parse_csv(
    content: str,
    file: PathLike,
    separator: str = ",",
    values: Sequence[str] = (),
    reduce: str | None = None,
) -> Records:
    r"""Return the values of a table of measurements.

    `values` names the columns with measured values, ``value`` if it is empty; a name may be a
    pattern such as ``rep*``. Several columns are repetitions, and their cells may be empty. Every
    other column is a parameter, except value, callpath, metric and repetition, in capitals or not;
    the last is not read. Rows of the same point are repetitions. With `reduce`, a column
    ``process`` tells the rows of the processes of a run, which become one value.

    Raises
    ------
    InputError
        If a line cannot be read; the message names it.

    Examples
    --------
    >>> parse_csv("p,value\n2,1\n2,1.5\n", "a.csv").values
    {('main', 'time'): {(2.0,): [1.0, 1.5]}}
    >>> parse_csv("p,rep1,rep2\n2,1,1.5\n", "a.csv", values=["rep*"]).values
    {('main', 'time'): {(2.0,): [1.0, 1.5]}}
    """
    known = _NAMED if reduce is None else (*_NAMED, "process")

    def rename(name: str) -> str:
        return name.lower() if name.lower() in known and name not in values else name

    rows = table_rows(content, file, separator, rename)
    start, names = next(rows, (0, []))
    measured, parameters = _columns(names, values, known, Records(file).fault, start, separator)
    records = Records(file, parameters)
    metric = measured[0] if len(measured) == 1 and measured[0].lower() not in _NAMED else "time"
    needed = [name for name in names if name not in {*measured}]
    number, coordinates = (
        f"a number for {' and '.join(columns)}" for columns in (measured, parameters)
    )
    alike: dict[tuple[Key, Point, int, str, int], list[float]] = {}
    seen: Counter[tuple[object, ...]] = Counter()
    for line, row_of_cells in rows:
        row = dict(zip(names, row_of_cells, strict=True))
        cells = [row[name] for name in measured if row[name]]
        if not cells or not all(map(row.get, needed)):
            found, expected = separator.join(row.values()), separator.join(names)
            raise records.fault(_ROW, line, found, expected)
        point = records.point([row[name] for name in parameters], line, coordinates)
        key = row.get("callpath", "main"), row.get("metric", metric)
        if reduce is None:
            records.add(key, point, cells, line, number)
            continue
        for k, cell in enumerate(cells):
            # Without a column of repetitions, those of a process stand one after the other.
            run = key, point, k, row.get("repetition", "")
            process = *run, row["process"]
            seen[process] += 1
            alike.setdefault((*run, seen[process]), []).append(records.number(cell, line, number))
    for (key, point, *_), numbers in alike.items():
        records.add(key, point, [REDUCTIONS[reduce or "mean"](numbers)])
    return records


def _columns(
    names: list[str],
    wanted: Sequence[str],
    known: Sequence[str],
    fault: Callable[..., InputError],
    line: int,
    separator: str,
) -> tuple[list[str], list[str]]:
    """Return the columns of a header that hold values, and those that hold parameters."""
    fault = partial(fault, line=line, found=separator.join(names))
    matching = {
        column: {name for name in names if name == column or fnmatchcase(name, column)}
        for column in wanted or ["value"]
    }
    chosen = set[str]().union(*matching.values())
    parameters = [name for name in names if name not in chosen and name not in known]
    absent = [column for column in wanted if not matching[column]]
    if "" in names:
        expected = "no numbers of rows, which pandas leaves out with index=False"
        raise fault("a column has no name", expected=expected)
    if absent:
        raise fault(f"no column {absent[0]}", expected="a column that it names")
    if "process" in known and "process" not in names:
        raise fault("has no values of single processes to reduce", expected="a column process")
    if not chosen or not parameters:
        expected = "a column for each parameter and a column value"
        others = [name for name in names if name not in _NAMED]
        if not chosen and len(others) > 1:
            expected += f", or the name of that column: --value {_guess(others)}"
        raise fault("is no table of measurements", expected=expected)
    return [name for name in names if name in chosen], parameters


def _guess(names: list[str]) -> str:
    """Guess the columns of values: numbered ones, such as rep1 and rep2, or the last.

    >>> _guess(["p", "rep1", "rep2"]), _guess(["p", "seconds"])
    ("'rep*'", 'seconds')
    """
    stems = [re.sub(r"\d+$", "", name) for name in names]
    last = stems[-1]
    return f"'{last}*'" if last and last != names[-1] and stems.count(last) > 1 else names[-1]
