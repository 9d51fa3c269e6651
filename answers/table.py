"""Tables: a frame for programs, with columns that say how people read it.

CSV and JSON hold the whole frame. A terminal, a page and a notebook show the columns, and only here
their numbers become text.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from statistics import median
from typing import TYPE_CHECKING, Any, Literal

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

Kind = Literal[
    "name",
    "text",
    "label",
    "flag",
    "count",
    "number",
    "general",
    "decimal",
    "signed",
    "seconds",
    "bytes",
    "share",
    "change",
]
Mark = Literal["best", "yours", ""]
_TEXTS = ("name", "text", "label")
_UNITS = {"seconds": (time_unit, seconds), "bytes": (byte_unit, nbytes)}
# Decimals; significant digits of seconds, bytes and numbers.
_DIGITS = {"general": 4, "share": 0, "change": 0}
# Quotient of two values that are still readable in one unit.
_SPAN = 1e3
# A spreadsheet takes text that begins so for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
# Control characters but the tab and ends of lines: a terminal obeys them.
_CONTROL = dict.fromkeys([*range(9), 11, 12, *range(14, 32), *range(127, 160)], "?")


@dataclass(frozen=True)
class Column:
    """How people read a column of a frame.

    Parameters
    ----------
    name : str
        Name of the column in the frame.
    heading : str, optional
        Words above it; the name if not given. The unit is added.
    kind : str, optional
        ``name`` is text that users type, which stays on any terminal; ``label`` is text that is not
        broken over lines; ``flag`` is "yes" or nothing. ``count`` is a whole number, ``number`` has
        significant digits, ``general`` an exponent where needed; ``decimal`` and ``signed`` have
        decimals. ``seconds`` and ``bytes`` have one unit in the whole table, or each its own where
        they differ widely. ``share`` is a part of 1, in per cent, and ``change`` is relative to
        ``against``, or is already a part of 1.
    digits : int, optional
        Significant digits; decimals of ``decimal``, ``signed``, ``share`` and ``change``.
    priority : int, optional
        On a narrow terminal the highest are left out first; those of 0 stay.
    to : str, optional
        Column of the upper end, where this one is the lower end of an interval. The cell is empty
        where both are equal.
    against : float, optional
        Baseline of a ``change``.
    below : Column, optional
        Column in brackets on a second line of the cell, such as an interval.
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
    def words(self) -> str:
        """The heading without a unit."""
        return self.heading or self.name.replace("_", " ")

    @property
    def is_text(self) -> bool:
        """Whether it holds words, which align left."""
        return self.kind in _TEXTS

    @property
    def stays(self) -> bool:
        """Whether a narrow terminal shows it, too."""
        return self.kind == "name" or self.priority == 0


@dataclass(frozen=True)
class Table:
    """A frame, and the columns that people see of it.

    Parameters
    ----------
    frame : DataFrame, or sequence of mappings
        All values, a row each; seconds, bytes and parts of 1. An index with a name is a column.
    columns : sequence of Column, optional
        What people see; every column of the frame if not given, nothing if empty.
    title : str, optional
        What the rows are.
    best, yours : int, optional
        Rows that are marked as the best and as the user's.
    top : int, optional
        Rows that a terminal shows from the top; all if not given.
    key : str, optional
        Identifier on a page, where a table that has one can be sorted, filtered and copied.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"mapping": ["a", "b"], "time": [2e-6, 3e-6]})
    >>> name, time = Column("mapping", kind="name"), Column("time", kind="seconds")
    >>> change = Column("time", "vs a", "change", against=2e-6)
    >>> table = Table(frame, [name, time, change])
    >>> for column in table.shown:
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
        """The columns of the frame by name, the index among them if that has a name."""
        if isinstance(self.frame, Sequence):
            names = self.frame[0] if self.frame else ()
            columns = zip(*(row.values() for row in self.frame), strict=True)
            pairs = zip(names, columns, strict=True)
            return {name: np.fromiter(column, object, len(self)) for name, column in pairs}
        return {str(name): column.to_numpy() for name, column in _named(self.frame).items()}

    @cached_property
    def shown(self) -> Sequence[Column]:
        """The columns that people see; none where there are no rows."""
        if self.columns is None:
            kinds: dict[type, Kind] = {bool: "flag", int: "count", float: "general"}
            types = {name: {*map(type, values.tolist())} for name, values in self.values.items()}
            return [
                Column(name, kind=kinds.get(each.pop(), "text") if len(each) == 1 else "text")
                for name, each in types.items()
            ]
        return self.columns if len(self) else ()

    def __len__(self) -> int:
        return len(self.frame)

    def mark(self, row: int) -> Mark:
        """Return whether a row is the best or the user's."""
        return "best" if row == self.best else "yours" if row == self.yours else ""

    def unit(self, column: Column) -> str:
        """Return the unit of a column's values; empty where each value has its own."""
        return self._units.get(column.kind, (1.0, ""))[1]

    def heading(self, column: Column) -> str:
        """Return the words above a column, with its unit."""
        return ", ".join(filter(None, [column.words, self.unit(column)]))

    def cells(self, column: Column) -> list[tuple[str, ...]]:
        """Return the texts of a column, each as its lines."""
        cells = [self._cell(column, *row) for row in self._pairs(column)]
        if column.below is None:
            return cells
        below = self.cells(column.below)
        return [
            (*cell, *(f"({text})" for text in more if text not in ("", "-")))
            for cell, more in zip(cells, below, strict=True)
        ]

    @property
    def rows(self) -> list[list[tuple[Column, tuple[str, ...]]]]:
        """The cells of each row, each with its column."""
        rows = zip(*map(self.cells, self.shown), strict=True)
        return [list(zip(self.shown, row, strict=True)) for row in rows]

    def is_alike(self, column: Column) -> bool:
        """Whether all rows have the same text in a column."""
        return len(self) > 1 and len({*self.cells(column)}) == 1

    def _pairs(self, column: Column) -> Iterable[tuple[Any, Any]]:
        """Return the values of a column, with the other ends of intervals."""
        values = self.values[column.name].tolist()
        if column.against is not None:
            values = [value / column.against - 1 if column.against else None for value in values]
        ends = self.values[column.to].tolist() if column.to else [None] * len(values)
        return zip(values, ends, strict=True)

    def _cell(self, column: Column, value: Any, end: Any) -> tuple[str, ...]:
        if isinstance(value, tuple | list):
            return tuple(self._text(column, each) for each in value)
        if column.to:
            if value == end or value != value:
                return ("",)
            return (f"{self._text(column, value).removesuffix(' %')} - {self._text(column, end)}",)
        return (self._text(column, value),)

    def _text(self, column: Column, value: Any) -> str:
        """Return one value as text."""
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
        """The unit of all times and that of all amounts, where one suits all values."""
        units = {}
        for kind, (unit_of, _) in _UNITS.items():
            chosen = [c for c in self.shown if c.kind == kind]
            names = {name for c in chosen for name in (c.name, c.to) if name}
            every = [value for name in names for value in self.values[name] if value is not None]
            sizes = [abs(value) for value in every if value and math.isfinite(value)]
            is_narrow = bool(sizes) and max(sizes) <= _SPAN * min(sizes)
            units[kind] = unit_of([median(sizes)]) if is_narrow else (1.0, "")
        return units

    def to_notebook(self, most: int) -> str:
        """Return the first rows as HTML without a style."""
        heads = "".join(f"<th>{escape(self.heading(column))}</th>" for column in self.shown)
        lines = [
            "".join(f"<td>{'<br>'.join(map(escape, cell))}</td>" for _, cell in row)
            for row in self.rows[:most]
        ]
        return f"<table><tr>{heads}</tr>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def _named(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame with its index among the columns, if that has a name."""
    return frame.reset_index() if frame.index.name else frame


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a frame, the index among the columns where it has a name."""
    named = _named(frame)
    return [dict(zip(named.columns, row, strict=True)) for row in named.itertuples(index=False)]


def csv_text(frame: Frame, *, header: bool = True) -> str:
    r"""Return a frame as CSV whose text neither a spreadsheet nor a terminal executes.

    Text that begins like a formula gets an apostrophe, as OWASP advises against CSV injection.

    Examples
    --------
    >>> import pandas as pd
    >>> csv_text(pd.DataFrame({"mapping": ["=1+1", "-5", "a"], "change": [-1.0, 2.0, 3.0]}))
    "mapping,change\n'=1+1,-1.0\n-5,2.0\na,3.0\n"
    """
    named = _named(pd.DataFrame(frame))
    texts = [str(name) for name in named.select_dtypes(exclude=["number", "bool"])]
    if texts:
        named = named.assign(**{name: named[name].map(_harmless) for name in texts})
    named = named.rename(columns=_harmless)
    return named.to_csv(index=False, header=header, lineterminator="\n")


def _harmless(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    text = value.translate(_CONTROL)
    return f"'{text}" if text.startswith(_FORMULA) and not _is_number(text) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
