"""Tables and numbers in Markdown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from numbers import Integral, Real

import pandas as pd

NOTHING = "-"


def number(value: float, digits: int = 4) -> str:
    """Format a number with ``digits`` significant digits, but with all digits before the point.

    Examples
    --------
    >>> number(0.99512), number(1.0), number(12345.6), number(2.5e-07), number(float("nan"))
    ('0.9951', '1.000', '12346', '2.500e-07', '-')
    """
    if math.isnan(value):
        return NOTHING
    if math.isinf(value):
        return "infinite" if value > 0 else "-infinite"
    if value and not 1e-4 <= abs(value) < 1e12:
        return f"{value:.{digits - 1}e}"
    # Round first, because a value such as 99.996 gains a digit.
    rounded = abs(float(f"{value:.{digits - 1}e}"))
    size = math.floor(math.log10(rounded)) if rounded else 0
    return f"{value:.{max(digits - 1 - size, 0)}f}"


def cell(text: object) -> str:
    r"""Escape a text for a table cell.

    Examples
    --------
    >>> print(cell("a|b <i>"))
    a\|b &lt;i>
    """
    line = " ".join(str(text).split())
    printable = "".join(c if c.isprintable() else "?" for c in line)
    return printable.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")


def rows(head: Sequence[str], body: Iterable[Sequence[str]], right: Sequence[bool]) -> str:
    """Return a table of cells; ``right`` selects the columns that are right-aligned."""
    rule = ["---:" if numeric else "---" for numeric in right]
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, rule, *body))


def table(values: pd.DataFrame) -> str:
    """Return a table with numbers of four digits; the index is included only if it has a name.

    Examples
    --------
    >>> print(table(pd.DataFrame({"features": ["H5"], "rcc": [0.99512], "pairs": [14028]})))
    | features | rcc | pairs |
    | --- | ---: | ---: |
    | H5 | 0.9951 | 14028 |
    """
    if any(name is not None for name in values.index.names):
        values = values.reset_index()
    columns = [_column(values.iloc[:, i]) for i in range(values.shape[1])]
    numeric = [
        pd.api.types.is_numeric_dtype(kind) and not pd.api.types.is_bool_dtype(kind)
        for kind in values.dtypes
    ]
    return rows([cell(name) for name in values.columns], zip(*columns, strict=True), numeric)


def _column(values: pd.Series) -> list[str]:
    """Return the cells of a column; numbers have no point if all of them are whole."""
    numbers = [v for v in values if isinstance(v, Real) and math.isfinite(v)]
    whole = all(float(v).is_integer() for v in numbers)
    return [_shown(value, whole) for value in values]


def _shown(value: object, whole: bool) -> str:
    if value is None or value is pd.NA or value is pd.NaT:
        return NOTHING
    if isinstance(value, bool) or type(value).__name__ == "bool":
        return "yes" if value else "no"
    if isinstance(value, Integral):
        return str(value)
    if isinstance(value, Real):
        exact = float(value)
        return f"{exact:.0f}" if whole and math.isfinite(exact) else number(exact)
    return cell(value)
