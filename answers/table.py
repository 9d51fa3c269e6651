"""Tables: a frame for programs, and columns that format it for people.

CSV and JSON contain the whole frame. Terminals, pages and notebooks show the formatted columns.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from html import escape
from statistics import median
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from toruscast._slow import pandas as pd
from toruscast.text import (
    byte_unit,
    change,
    nbytes,
    number,
    percent,
    rounded,
    seconds,
    shown_name,
    time_unit,
)

if TYPE_CHECKING:
    Frame = pd.DataFrame | Sequence[Mapping[str, Any]]

_TextKind = Literal["name", "text", "label"]
_NumberKind = Literal["count", "number", "general", "decimal", "signed", "share", "change"]
Kind = Literal[_TextKind, _NumberKind, "flag", "seconds", "bytes"]
Mark = Literal["best", "yours", ""]
_UNITS = {"seconds": (time_unit, seconds), "bytes": (byte_unit, nbytes)}
# Default number of digits or decimals by kind; 3 for the other kinds.
_DIGITS = {"general": 4, "share": 0, "change": 0}
# Values have a common unit if the largest is at most this many times the smallest.
_MAX_UNIT_RANGE = 1e3
# Spreadsheets interpret text as a formula if it begins with one of these.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
# Control characters that a terminal interprets, except tabs and line breaks.
_CONTROL = dict.fromkeys([*range(9), 11, 12, *range(14, 32), *range(127, 160)], "?")


@dataclass(frozen=True)
class Column:
    """Format of a column of a frame.

    Parameters
    ----------
    name : str
        Name of the column in the frame.
    heading : str, optional
        Heading without the unit; by default, the name.
    kind : str, optional
        ``name`` is text that users type, so it is always visible. ``label`` is text that does not
        wrap. ``flag`` is "yes" or empty. ``count`` is an integer. ``number`` and ``general`` have
        significant digits, and ``general`` uses an exponent if needed. ``decimal`` and ``signed``
        have decimals. All ``seconds`` of a table have the same unit, and so have all ``bytes``; if
        they differ widely, each value has its own unit. ``share`` prints a fraction in per cent.
        ``change`` prints a fraction in per cent with a sign: the relative difference from
        ``against`` if given, else the value.
    digits : int, optional
        Decimals for ``decimal``, ``signed``, ``share`` and ``change``; otherwise significant
        digits.
    priority : int, optional
        A narrow terminal first leaves out the columns with the highest numbers, but never those
        with 0. A terminal of at most 80 characters always leaves out numbers above 3.
    to : str, optional
        Name of the column with the upper ends, if this column has the lower ends of intervals. A
        cell is empty if both ends are equal.
    against : float, optional
        Baseline from which a ``change`` is computed.
    below : Column, optional
        Column, such as an interval, that is printed in parentheses on a second line of the cell.
    """

    name: str
    heading: str = ""
    kind: Kind = "text"
    digits: int | None = None
    priority: int = 1
    to: str = ""
    against: float | None = None
    below: Column | None = None

    @property
    def plain_heading(self) -> str:
        """The heading without the unit."""
        return self.heading or self.name.replace("_", " ")

    @property
    def is_text(self) -> bool:
        """Whether the column contains text, which is aligned left."""
        return self.kind in get_args(_TextKind)

    @property
    def is_always_visible(self) -> bool:
        """Whether every terminal shows the column."""
        return self.kind == "name" or self.priority == 0


@dataclass(frozen=True)
class Table:
    """A frame and its visible columns; values are in seconds, bytes and fractions.

    A named index counts as a column. By default, all columns are visible. The rows numbered
    ``best`` and ``yours`` (the user's) are highlighted. A terminal prints the first ``top`` rows.
    Readers of a page can sort a table that has a ``key``.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"mapping": ["a", "b"], "time": [2e-6, 3e-6]})
    >>> name, time = Column("mapping", kind="name"), Column("time", kind="seconds")
    >>> change = Column("time", "vs a", "change", against=2e-6)
    >>> table = Table(frame, [name, time, change])
    >>> for column in table.visible_columns:
    ...     table.heading(column), table.cells(column)
    ('mapping', [('a',), ('b',)])
    ('time, us', [('2.00',), ('3.00',)])
    ('vs a', [('0 %',), ('+50 %',)])
    """

    frame: Frame
    columns: Sequence[Column] | None = None
    title: str = ""
    best: int | None = None
    yours: int | None = None
    top: int | None = None
    key: str = ""

    @cached_property
    def values(self) -> Mapping[str, NDArray[Any]]:
        """The columns of the frame by name, including a named index."""
        if isinstance(self.frame, Sequence):
            names = self.frame[0] if self.frame else ()
            return {
                name: np.fromiter((row[name] for row in self.frame), object, len(self))
                for name in names
            }
        return {str(name): column.to_numpy() for name, column in _add_index(self.frame).items()}

    @cached_property
    def visible_columns(self) -> Sequence[Column]:
        """The visible columns; none if the frame has no rows."""
        if self.columns is None:
            kinds: dict[type, Kind] = {bool: "flag", int: "count", float: "general"}
            types = {name: {*map(type, values.tolist())} for name, values in self.values.items()}
            return [
                Column(name, kind=kinds.get(found.pop(), "text") if len(found) == 1 else "text")
                for name, found in types.items()
            ]
        return self.columns if len(self) else ()

    def __len__(self) -> int:
        return len(self.frame)

    def mark(self, row: int) -> Mark:
        """Return whether a row is the best one, the user's, or neither."""
        return "best" if row == self.best else "yours" if row == self.yours else ""

    def unit(self, column: Column) -> str:
        """Return the common unit of a column's values; empty if there is none."""
        return self._units.get(column.kind, (1.0, ""))[1]

    def heading(self, column: Column) -> str:
        """Return the heading of a column with its unit."""
        return ", ".join(filter(None, [column.plain_heading, self.unit(column)]))

    def cells(self, column: Column) -> list[tuple[str, ...]]:
        """Return the cells of a column, each as a tuple of lines."""
        cells = [self._format_cell(column, *row) for row in self._pair_interval_ends(column)]
        if column.below is None:
            return cells
        below = self.cells(column.below)
        return [
            (*cell, *(f"({text})" for text in more if text not in ("", "-")))
            for cell, more in zip(cells, below, strict=True)
        ]

    def shown_records(self) -> list[dict[str, Any]]:
        """Return each row's values in the visible columns, by heading."""
        columns = {c.plain_heading: self.values[c.name].tolist() for c in self.visible_columns}
        return [{key: values[i] for key, values in columns.items()} for i in range(len(self))]

    @property
    def rows(self) -> list[list[tuple[Column, tuple[str, ...]]]]:
        """The columns and cells of each row."""
        columns = [(column, self.cells(column)) for column in self.visible_columns]
        return [[(column, cells[i]) for column, cells in columns] for i in range(len(self))]

    def is_constant(self, column: Column) -> bool:
        """Whether all rows have the same text in this column."""
        return len(self) > 1 and len({*self.cells(column)}) == 1

    def _pair_interval_ends(self, column: Column) -> Iterable[tuple[Any, Any]]:
        """Pair the value in each row with the upper end of its interval, or with None."""
        values = self.values[column.name].tolist()
        if column.against is not None:
            values = [value / column.against - 1 if column.against else None for value in values]
        ends = self.values[column.to].tolist() if column.to else [None] * len(values)
        return zip(values, ends, strict=True)

    def _format_cell(self, column: Column, value: Any, end: Any) -> tuple[str, ...]:
        """Return a cell as lines; ``end`` is the upper end if the value is an interval."""
        if isinstance(value, tuple | list):
            return tuple(self._format_value(column, line) for line in value)
        if column.to:
            # The ends of an unknown interval are NaN.
            if value == end or math.isnan(value):
                return ("",)
            low, high = self._format_value(column, value), self._format_value(column, end)
            return (f"{low.removesuffix(' %')} to {high}",)
        return (self._format_value(column, value),)

    def _format_value(self, column: Column, value: Any) -> str:
        """Return one value as text; None, NaN and infinity become a hyphen."""
        if value is None or (isinstance(value, float) and not math.isfinite(value)):
            return "-"
        digits = _DIGITS.get(column.kind, 3) if column.digits is None else column.digits
        match column.kind:
            case "name" | "text" | "label":
                return shown_name(value)
            case "flag":
                return "yes" if value else ""
            case "count":
                return f"{value:,.0f}"
            case "decimal":
                return f"{value:.{digits}f}"
            case "signed":
                return f"{value:+.{digits}f}"
            case "share":
                return percent(value, digits)
            case "change":
                return change(value, digits)
            case "general":
                return rounded(value, digits)
            case "seconds" | "bytes":
                scale, unit = self._units[column.kind]
                return number(value / scale, digits) if unit else _UNITS[column.kind][1](value)
        return str(value) if isinstance(value, int) else number(value, digits)

    @cached_property
    def _units(self) -> Mapping[str, tuple[float, str]]:
        """By kind, scale and name of the unit that all values share; 1 and "" if there is none."""
        units = {}
        for kind, (unit_of, _) in _UNITS.items():
            columns = [column for column in self.visible_columns if column.kind == kind]
            names = {name for column in columns for name in (column.name, column.to) if name}
            values = [value for name in names for value in self.values[name] if value is not None]
            sizes = [abs(value) for value in values if value and math.isfinite(value)]
            has_unit = bool(sizes) and max(sizes) <= _MAX_UNIT_RANGE * min(sizes)
            # A headline gives the first value of the best row, so the table uses its unit.
            best = () if self.best is None else [self.values[c.name][self.best] for c in columns]
            first = [abs(value) for value in best if value and math.isfinite(value)][:1]
            units[kind] = unit_of(first or [median(sizes)]) if has_unit else (1.0, "")
        return units

    def to_html(self, n_rows: int) -> str:
        """Return the first rows as HTML without a style."""
        heads = "".join(
            f"<th>{escape(self.heading(column))}</th>" for column in self.visible_columns
        )
        lines = [
            "".join(f"<td>{'<br>'.join(map(escape, cell))}</td>" for _, cell in row)
            for row in self.rows[:n_rows]
        ]
        return f"<table><tr>{heads}</tr>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def _add_index(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with its index as a column, if the index has a name."""
    return frame.reset_index() if frame.index.name else frame


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a frame as dictionaries, including a named index."""
    table = _add_index(frame)
    return [dict(zip(table.columns, row, strict=True)) for row in table.itertuples(index=False)]


def csv_text(frame: Frame, *, header: bool = True) -> str:
    """Return a frame as CSV that is safe in spreadsheets and terminals.

    Prefix text that starts like a formula with an apostrophe, as OWASP recommends (CSV injection).
    """
    table = _add_index(pd.DataFrame(frame))
    texts = [str(name) for name in table.select_dtypes(exclude=["number", "bool"])]
    if texts:
        table = table.assign(**{name: table[name].map(_escape_formula) for name in texts})
    table = table.rename(columns=_escape_formula)
    return table.to_csv(index=False, header=header, lineterminator="\n")


def _escape_formula(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    text = value.translate(_CONTROL)
    # A number may begin with a sign.
    with suppress(ValueError):
        float(text)
        return text
    return f"'{text}" if text.startswith(_FORMULA) else text
