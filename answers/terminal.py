"""Draw an answer in a terminal: the answer first, then the tables, then why; details when asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.text import Text

from toruscast.units import seconds
from toruscast.wording import printable, shown_name

from .blocks import Answer, Section, Sentence, TableBlock
from .links import LinkMap, heat_lines
from .tables import new_table, print_table, top_and_bottom

if TYPE_CHECKING:
    from rich.console import Console

# Columns that a line of a map of links takes at most.
_MOST = 32
_LEGEND = (
    "A character is a coordinate: how long its busiest link works, on the left in plus direction, "
    "on the right in minus direction; a full block is the busiest link of all."
)
_STYLES: Mapping[str, str] = {"best": "green", "yours": "yellow"}


def show(answer: Answer, console: Console, details: bool = False) -> None:
    """Print an answer; ``details`` are the sections that a page folds."""
    head = answer.headline
    console.print(
        Text.assemble(
            (printable(head.before), "bold"),
            (shown_name(head.name), "bold green"),
            (printable(head.after), "bold"),
        )
    )
    for note in answer.notes:
        console.print(note)
    for section in answer.sections:
        if section.only != "page" and (details or (section.brief and not section.folded)):
            _print_section(section, console)
    if answer.setting:
        console.print()
        console.print(answer.setting, style="dim")


def _print_section(section: Section, console: Console) -> None:
    shown = [
        block
        for block in section.blocks
        if isinstance(block, Sentence | TableBlock)
        or (isinstance(block, LinkMap) and can_draw(console))
    ]
    if shown:
        console.print()
        if section.title:
            end = "" if ":" in section.title else ":"
            console.print(f"{section.title}{end}", style="bold")
    for block in shown:
        if isinstance(block, Sentence):
            console.print(block.text, style="bold" if block.strong else None)
        elif isinstance(block, LinkMap):
            _print_links(block, console)
        elif block.n_rows:
            if block.title and block.title != section.title:
                console.print(f"{block.title}:")
            _print_table(block, console)


def _print_links(view: LinkMap, console: Console) -> None:
    for use in view.load(2):
        busiest = float(use.seconds.max(initial=0.0))
        console.print(f"{shown_name(use.name)}, busiest link {seconds(busiest)}", style="bold")
        for axis, plus, minus in heat_lines(view.torus, use.seconds, _MOST):
            console.print(f"  {axis}  +|{plus}|  -|{minus}|", soft_wrap=True)
    console.print(_LEGEND, style="dim")


def _print_table(table: TableBlock, console: Console) -> None:
    names = [column.head for column in table.columns]
    shown = new_table(*names, left=tuple(c.head for c in table.columns if c.left))
    top = table.n_rows if table.top is None else table.top
    kept = set(top_and_bottom(table.n_rows, top))
    # The user's own row stands in the table, however far down it is.
    yours = {i for i, mark in enumerate(table.marks) if mark == "yours"}
    before = -1
    for i in sorted({i for i in kept if i is not None} | yours):
        if i != before + 1:
            shown.add_row("...", style="dim")
        before = i
        mark = table.marks[i] if table.marks else ""
        cells: Any = [column.cells[i] for column in table.columns]
        shown.add_row(*cells, style=_STYLES.get(mark))
    print_table(shown, console, keep=table.keep, spare=table.spare)


def can_draw(console: Console) -> bool:
    """Whether the terminal is wide enough for a map of links, and knows its characters."""
    utf = (console.encoding or "").lower().replace("-", "").startswith("utf8")
    return console.is_terminal and console.width >= 80 and utf
