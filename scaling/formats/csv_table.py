"""CSV tables of measurements: a header, and a row a repetition."""

from __future__ import annotations

import csv
import io

from toruscast.errors import InputError

from .records import PathLike, Records, add, number

# Columns that are no parameters.
_NAMED = ("value", "callpath", "metric", "repetition")


def separator_of(header: str) -> str:
    """What separates the columns that a line names; nothing where it names one.

    >>> separator_of("p;value")
    ';'
    """
    return next((separator for separator in ",;\t" if separator in header), "")


def parse_csv(content: str, file: PathLike, separator: str = ",") -> tuple[list[str], Records]:
    r"""Parameters and values of a table.

    Every column is a parameter but those called value, callpath, metric and repetition, in capitals
    or not. Only the first of them must be there, and the last is not read: rows of the same point
    are repetitions. Empty rows are skipped, and lines above the header that start with ``#``.

    Raises
    ------
    InputError
        At the line that is at fault.

    Examples
    --------
    >>> parse_csv("p,value\n2,1\n2,1.5\n", "a.csv")
    (['p'], {('main', 'time'): {(2.0,): [1.0, 1.5]}})
    """
    header: list[str] = []
    parameters: list[str] = []
    records: Records = {}
    # Names may hold other characters that end a line elsewhere, such as U+2028.
    reader = csv.reader(io.StringIO(content), delimiter=separator, strict=True)
    try:
        for cells in reader:
            row, line = [cell.strip() for cell in cells], reader.line_num
            if not any(row):
                continue
            if not header:
                if row[0].startswith("#"):
                    continue
                header = [name.lower() if name.lower() in _NAMED else name for name in row]
                parameters = _parameters(header, file, line, separator)
                continue
            if len(row) != len(header) or "" in row:
                raise InputError(
                    "a row needs a value in each column",
                    file=file,
                    line=line,
                    found=separator.join(row),
                    expected=separator.join(header),
                )
            entry = dict(zip(header, row, strict=True))
            *point, value = (
                number(entry[name], file, line, f"a number for {name}")
                for name in (*parameters, "value")
            )
            key = entry.get("callpath", "main"), entry.get("metric", "time")
            add(records, key, tuple(point), [value])
    except csv.Error as error:
        raise InputError("bad line", file=file, line=reader.line_num, found=str(error)) from None
    return parameters, records


def _parameters(header: list[str], file: PathLike, line: int, separator: str) -> list[str]:
    """Columns that are parameters."""
    parameters = [name for name in header if name not in _NAMED]
    repeated = [name for k, name in enumerate(header) if name in header[:k]]
    if "" in header:
        raise InputError(
            "a column has no name",
            file=file,
            line=line,
            found=separator.join(header),
            expected="no numbers of rows, which pandas leaves out with index=False",
        )
    if repeated:
        raise InputError("a column stands twice", file=file, line=line, found=repeated[0])
    if "value" not in header or not parameters:
        raise InputError(
            "is no table of measurements",
            file=file,
            line=line,
            found=separator.join(header),
            expected="columns value and parameters (in Python from_rows takes other names)",
        )
    return parameters
