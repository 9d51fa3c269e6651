"""An answer as blocks, made once from a result; writers only draw them.

A sentence, a table, a chart, a map of links and a file are blocks. What one writer says, all say,
with the same words and numbers.
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
    """One or more sentences."""

    text: str
    # A terminal breaks none of its lines, such as those of a command to copy.
    as_it_is: bool = False


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


Block = Sentence | Table | Chart | LinkMap


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
    ``table`` stands first in a terminal and last on a page; its frame is the CSV. ``badge`` says
    how sure the answer is, in a word or three. ``content`` is all of it as JSON. ``file`` is what
    the answer is used with, and ``facts`` what it was made from, by name. ``omitted`` is
    what its traffic lacks; None where it has none. ``mapping`` is the one that it is about.
    """

    headline: Headline
    setting: str = ""
    table: Table | None = None
    badge: str = ""
    notes: Sequence[str] = ()
    sections: Sequence[Section] = ()
    content: dict[str, Any] = field(default_factory=dict)
    file: File | None = None
    facts: Sequence[tuple[str, str]] = ()
    title: str = ""
    omitted: Sequence[Omission] | None = None
    mapping: TaskMapping | None = None

    def __post_init__(self) -> None:
        """Say in the first line that tasks share nodes."""
        if self.mapping is None or (self.mapping.occupancy <= 1).all():
            return
        load = self.mapping.occupancy[self.mapping.occupancy > 0]
        each = spanned((int(load.min()), int(load.max())))
        shared = f"{counted(load.sum(), 'task')} on {counted(load.size, 'node')}, {each} each"
        plain = self.headline.after.removesuffix(".")
        stop = self.headline.after[len(plain) :]
        headline = replace(self.headline, after=f"{plain}; {shared}{stop}")
        object.__setattr__(self, "headline", headline)

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON holds of it: ``content``, and what the traffic lacks."""
        known = {} if self.omitted is None else {"omitted": list(map(asdict, self.omitted))}
        content: dict[str, Any] = plain({**known, **self.content})
        return content

    @property
    def lines(self) -> list[str]:
        """What follows the headline: what the traffic lacks, then the notes."""
        return [*filter(None, [describe_omissions(self.omitted or ())]), *self.notes]


def of_table(head: str | Headline, *blocks: Block, below: Sequence[str] = (), **how: Any) -> Answer:
    """Return an answer of a sentence, tables and what is said below; ``how`` is of `Answer`.

    The first `Table` is that of the answer.
    """
    title = head if isinstance(head, Headline) else Headline(head)
    table = next((block for block in blocks if isinstance(block, Table)), None)
    others = [block for block in blocks if block is not table]
    section = Section("", [*others, *(Sentence(text, as_it_is=True) for text in below)])
    return Answer(title, sections=[section], table=table, **how)
