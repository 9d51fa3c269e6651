"""An answer as blocks, made once from a result; writers only draw them.

A sentence, a table, a chart, a map of links and a file are blocks. What one writer says, all say,
with the same words and numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import pandas as pd

from .links import LinkMap

Mark = Literal["best", "yours", ""]


@dataclass(frozen=True)
class Sentence:
    """One or more sentences."""

    text: str
    strong: bool = False


@dataclass(frozen=True)
class Cells:
    """A column: its head, whose lines a terminal keeps, and a cell for each row."""

    head: str
    cells: Sequence[object]
    left: bool = False


@dataclass(frozen=True)
class TableBlock:
    """Rows of cells; ``marks`` says which row is the best and which is the user's."""

    title: str
    columns: Sequence[Cells]
    marks: Sequence[Mark] = ()
    keep: int = 3
    """Columns that a narrow terminal keeps, from the left."""
    spare: tuple[str, ...] = ()
    """Heads of columns that go first where all their cells are alike."""
    top: int | None = None
    """Rows that a terminal shows from the top, the last three besides; all if None."""
    key: str = ""
    """What a page calls the table, where it can be sorted, filtered and copied."""

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return len(self.columns[0].cells)


@dataclass(frozen=True)
class Chart:
    """A picture for a page, and what is said of it."""

    key: str
    title: str
    lead: str
    draw: Callable[[], str]
    """Returns the SVG."""


@dataclass(frozen=True)
class File:
    """Text to take along, such as the file of a launcher."""

    name: str
    content: str
    title: str = "launcher file"


Block = Sentence | TableBlock | Chart | LinkMap | File


@dataclass(frozen=True)
class Section:
    """Blocks under a heading.

    ``folded`` ones are details: a page opens them when asked.
    ``only`` names the one writer that draws it, where the others have it in another form.
    """

    title: str
    blocks: Sequence[Block]
    lead: str = ""
    folded: bool = False
    brief: bool = True
    """Whether a terminal shows it without -v."""
    wide: bool = True
    """Whether it takes the whole width of a page; else two stand side by side."""
    only: Literal["", "page", "terminal"] = ""


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
    """What a command answers.

    Attributes
    ----------
    setting : str
        What was asked, in a line.
    headline : Headline
        The answer in one sentence.
    badge : str
        How sure it is, in a word or three; empty where that is no question.
    notes : sequence of str
        What belongs to the answer: how sure, how far from the lower bound, what is not in it.
    sections : sequence of Section
        What stands behind it, the most important first.
    content : dict
        All of it for programs, as JSON.
    rows : DataFrame
        The table for programs, as CSV.
    file : File, optional
        What the answer is used with.
    facts : sequence of (str, str)
        What it was made from, by name.
    """

    setting: str
    headline: Headline
    badge: str = ""
    notes: Sequence[str] = ()
    sections: Sequence[Section] = ()
    content: dict[str, Any] = field(default_factory=dict)
    rows: pd.DataFrame = field(default_factory=pd.DataFrame)
    file: File | None = None
    facts: Sequence[tuple[str, str]] = ()
    title: str = ""
    """Of the page; the setting if empty."""
