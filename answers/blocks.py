"""Answers as blocks: sentences, tables, charts, link maps and files.

A result is made into an answer once, so every writer shows the same words and numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from toruscast.mapping import TaskMapping
from toruscast.mapping.omissions import Omission, describe_omissions
from toruscast.text import counted, plain, spanned

from .links import LinkMap
from .table import Table


@dataclass(frozen=True)
class Sentence:
    """One or more sentences; a terminal does not wrap ``unwrapped`` text, such as commands."""

    text: str
    unwrapped: bool = False


@dataclass(frozen=True)
class Chart:
    """A chart with a title and a caption; ``draw`` returns the SVG."""

    key: str
    title: str
    lead: str
    draw: Callable[[], str]


@dataclass(frozen=True)
class File:
    """A text file to download, such as the input of a launcher.

    A page shows it after a click, or before all sections if it ``comes_first``.
    """

    name: str
    content: str
    title: str = "launcher file"
    comes_first: bool = False


Block = Sentence | Table | Chart | LinkMap


@dataclass(frozen=True)
class Section:
    """Blocks under a heading and a caption.

    ``contents`` may be a function if the blocks take long to make. A page shows ``folded`` sections
    after a click, and puts two sections side by side if they are not ``wide``. A terminal prints
    ``folded`` and ``verbose`` sections only with -v. ``only`` limits a section to pages or to
    terminals.
    """

    title: str
    contents: Sequence[Block] | Callable[[], Sequence[Block]]
    lead: str = ""
    folded: bool = False
    verbose: bool = False
    wide: bool = True
    only: Literal["", "page", "terminal"] = ""

    @cached_property
    def blocks(self) -> Sequence[Block]:
        """The blocks under the heading."""
        return self.contents() if callable(self.contents) else self.contents


@dataclass(frozen=True)
class Headline:
    """The answer in one sentence; ``name`` is emphasised in the colour of ``kind`` in charts."""

    before: str
    name: str = ""
    after: str = ""
    kind: str = "best"

    def __str__(self) -> str:
        return f"{self.before}{self.name}{self.after}"


@dataclass(frozen=True)
class Answer:
    """Answer of a command: a headline, notes and sections, the most important first.

    ``setting`` is the question in one line; it is also the page's title if ``title`` is empty.
    ``table`` comes first in a terminal and last on a page; the CSV file contains its frame.
    ``badge`` is the certainty in one to three words. ``details`` are additional notes, shown on
    pages and with -v. ``content`` becomes the JSON file. ``file`` is a launcher's input, or another
    file that applies the answer. ``facts`` are names and values of the inputs. ``omitted`` is
    traffic that was not counted, or None if the question has no traffic. ``mapping`` is the mapping
    that the answer recommends or describes.
    """

    headline: Headline
    setting: str = ""
    table: Table | None = None
    badge: str = ""
    notes: Sequence[str] = ()
    details: Sequence[str] = ()
    sections: Sequence[Section] = ()
    content: dict[str, Any] = field(default_factory=dict)
    file: File | None = None
    facts: Sequence[tuple[str, str]] = ()
    title: str = ""
    omitted: Sequence[Omission] | None = None
    mapping: TaskMapping | None = None

    def __post_init__(self) -> None:
        """If tasks share nodes, add the number of tasks per node to the headline."""
        if self.mapping is None or (self.mapping.occupancy <= 1).all():
            return
        load = self.mapping.occupancy[self.mapping.occupancy > 0]
        per_node = spanned((int(load.min()), int(load.max())))
        shared = f"{counted(load.sum(), 'task')} on {counted(load.size, 'node')}, {per_node} each"
        text = self.headline.after.removesuffix(".")
        stop = self.headline.after[len(text) :]
        headline = replace(self.headline, after=f"{text}; {shared}{stop}")
        object.__setattr__(self, "headline", headline)

    def to_dict(self) -> dict[str, Any]:
        """Return ``content`` as JSON types, with ``omitted`` if the answer has traffic."""
        omitted = {} if self.omitted is None else {"omitted": list(map(asdict, self.omitted))}
        content: dict[str, Any] = plain({**omitted, **self.content})
        return content

    @property
    def lines(self) -> list[str]:
        """The sentences after the headline: omitted traffic, then the notes."""
        return [*filter(None, [describe_omissions(self.omitted or ())]), *self.notes]


def table_answer(
    head: str | Headline, *blocks: Block, below: Sequence[str] = (), **fields: Any
) -> Answer:
    """Return an answer whose main table is the first `Table` of the blocks.

    A page shows a single chart beside the tables. ``below`` are lines after the blocks; they are
    not wrapped. ``fields`` are passed to `Answer`.
    """
    headline = head if isinstance(head, Headline) else Headline(head)
    charts = [block for block in blocks if isinstance(block, Chart)]
    tables = [block for block in blocks if isinstance(block, Table)]
    visible = [table for table in tables if table.visible_columns]
    sections = [
        Section("", charts, wide=len(charts) != 1, only="page"),
        Section("", visible, wide=len(charts) != 1),
        Section("", [Sentence(text, unwrapped=True) for text in below]),
    ]
    main = replace(tables[0], columns=()) if tables else None
    sections = [section for section in sections if section.blocks]
    return Answer(headline, sections=sections, table=main, **fields)
