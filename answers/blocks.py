"""An answer as blocks, made once from a result; writers only draw them.

A sentence, a table, a chart, a map of links and a file are blocks. What one writer says, all say,
with the same words and numbers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal

import pandas as pd

from toruscast.text import rounded

from .links import LinkMap
from .table import Mark as Mark
from .table import Table

_NUMBER = re.compile(r"[-+<>=~ ]*\.?\d")
# Columns of names, which may begin with a digit, and of lines of words.
_NAMES = frozenset(
    ("application", "callpath", "feature", "features", "layout", "mapping", "metric", "task pairs")
)


@dataclass(frozen=True)
class Sentence:
    """One or more sentences."""

    text: str
    # A terminal breaks none of its lines, such as those of a command to copy.
    as_it_is: bool = False


@dataclass(frozen=True)
class TableBlock:
    """Rows of cells by the head of their column; a cell that is a tuple has several lines.

    A narrow terminal leaves out ``spare`` columns whose cells are alike, then those after the first
    ``keep``. It shows ``top`` rows and the last three; all if None. A table with a ``key`` can be
    sorted, filtered and copied on a page. ``marks`` name the best row and the user's.
    """

    rows: Sequence[Mapping[str, object]]
    title: str = ""
    marks: Sequence[Mark] = ()
    keep: int = 3
    spare: tuple[str, ...] = ()
    top: int | None = None
    key: str = ""

    @property
    def heads(self) -> list[str]:
        """Heads of the columns."""
        return list(self.rows[0]) if self.rows else []

    @cached_property
    def left(self) -> set[str]:
        """Heads of the columns that hold names and words, which align left."""
        return {head for head in self.heads if head in _NAMES or self._holds_words(head)}

    def _holds_words(self, head: str) -> bool:
        cells = [row.get(head, "") for row in self.rows]
        texts = {str(cell[0] if isinstance(cell, tuple) and cell else cell) for cell in cells}
        texts -= {"", "-", "()"}
        return bool(texts) and not any(map(_NUMBER.match, texts))


def frame_block(
    frame: pd.DataFrame,
    formats: Mapping[str, Callable[[Any], str]] = MappingProxyType({}),
    **how: Any,
) -> TableBlock:
    """Return a table of values as a block: numbers to four digits, no cell for NaN.

    ``formats`` are of columns that look otherwise; ``how`` is of `TableBlock`.
    """

    def shown(name: str, value: Any) -> str:
        if isinstance(value, float) and math.isnan(value):
            return ""
        if name in formats:
            return formats[name](value)
        return rounded(value) if isinstance(value, float) else str(value)

    rows = [
        {str(name).replace("_", " "): shown(str(name), value) for name, value in row.items()}
        for row in frame.to_dict("records")
    ]
    return TableBlock(rows, **how)


@dataclass(frozen=True)
class Chart:
    """A picture for a page, and what is said of it; ``draw`` returns the SVG."""

    key: str
    title: str
    lead: str
    draw: Callable[[], str]


@dataclass(frozen=True)
class File:
    """Text to take along, such as the file of a launcher."""

    name: str
    content: str
    title: str = "launcher file"


Block = Sentence | Table | TableBlock | Chart | LinkMap


@dataclass(frozen=True)
class Section:
    """Blocks under a heading.

    ``made`` are the blocks, or what makes them where that takes long. A page opens ``folded`` ones
    when asked; a terminal shows those that are not ``brief`` with -v only. Two that are not
    ``wide`` stand side by side on a page. ``only`` names the one writer that draws it, where the
    others have it in another form.
    """

    title: str
    made: Sequence[Block] | Callable[[], Sequence[Block]]
    lead: str = ""
    folded: bool = False
    brief: bool = True
    wide: bool = True
    only: Literal["", "page", "terminal"] = ""

    @cached_property
    def blocks(self) -> Sequence[Block]:
        """What stands under the heading."""
        return self.made() if callable(self.made) else self.made


@dataclass(frozen=True)
class Headline:
    """The answer in one sentence around a name."""

    before: str
    name: str = ""
    after: str = ""

    def __str__(self) -> str:
        return f"{self.before}{self.name}{self.after}"


@dataclass(frozen=True)
class Answer:
    """What a command answers: a sentence, notes, and sections with the most important first.

    ``setting`` is what was asked, in a line; a page has it as its ``title`` if that is empty.
    ``badge`` says how sure the answer is, in a word or three. ``content`` is all of it for
    programs, as JSON, and ``rows`` the table for programs, as CSV. ``file`` is what the answer is
    used with, and ``facts`` what it was made from, by name.
    """

    headline: Headline
    setting: str = ""
    table: Table | None = None
    badge: str = ""
    notes: Sequence[str] = ()
    sections: Sequence[Section] = ()
    content: dict[str, Any] = field(default_factory=dict)
    rows: pd.DataFrame | Sequence[Mapping[str, Any]] = ()
    file: File | None = None
    facts: Sequence[tuple[str, str]] = ()
    title: str = ""

    @property
    def frame(self) -> pd.DataFrame:
        """The table for programs; an index that has a name is a column."""
        if self.table is not None:
            return self.table.values
        table = self.rows if isinstance(self.rows, pd.DataFrame) else pd.DataFrame(self.rows)
        return table.reset_index() if table.index.name else table


def of_table(head: str | Headline, *blocks: Block, below: Sequence[str] = (), **how: Any) -> Answer:
    """Return an answer of a sentence, tables and what is said below; ``how`` is of `Answer`.

    The first `Table` is that of the answer.
    """
    title = head if isinstance(head, Headline) else Headline(head)
    table = next((block for block in blocks if isinstance(block, Table)), None)
    others = [block for block in blocks if block is not table]
    section = Section("", [*others, *(Sentence(text, as_it_is=True) for text in below)])
    return Answer(title, sections=[section], table=table, **how)
