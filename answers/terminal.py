"""Draw an answer in a terminal: the answer first, then the tables, then why; details when asked."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

from rich import table as rich_table
from rich.box import Box
from rich.cells import cell_len
from rich.text import Text

from toruscast.text import printable, seconds, shown_name

from .blocks import Answer, Section, Sentence
from .links import LinkMap, heat_lines
from .table import Column, Table

if TYPE_CHECKING:
    from rich.console import Console

# Columns that a line of a map of links takes at most; last rows of a table cut short.
_MOST, _BOTTOM = 32, 3
# Width to which a text may be broken, and lines of a heading above its unit.
_FOLDED, _HEAD = 24, 3
_LEGEND = (
    "A character is a coordinate: how long its busiest link works, on the left in plus direction, "
    "on the right in minus direction; a full block is the busiest link of all."
)
_STYLES: Mapping[str, str] = {"best": "green", "yours": "yellow"}


def show(answer: Answer, console: Console, details: bool = False) -> None:
    """Print an answer; ``details`` are the sections that a page folds."""
    head = answer.headline
    parts = ((head.before, "bold"), (shown_name(head.name), "bold green"), (head.after, "bold"))
    if str(head):
        _print(Text.assemble(*((printable(text), style) for text, style in parts)), console)
    for note in answer.lines:
        _print(note, console)
    is_first = not str(head)
    main = [] if answer.table is None else [Section("", [replace(answer.table, title="")])]
    for section in [*main, *answer.sections]:
        if section.only != "page" and (details or (section.brief and not section.folded)):
            is_first = not _print_section(section, console, apart=not is_first) and is_first
    if answer.setting:
        console.print()
        _print(answer.setting, console, "dim")


def _print(content: str | Text | rich_table.Table, console: Console, style: str = "") -> None:
    """Print lines without the blanks at their ends, and without what a terminal would obey."""
    if isinstance(content, str):
        content = _plain(content, style)
    lines = []
    for line in console.render_lines(content, pad=False):
        lines.append(Text.assemble(*((part.text, part.style or "") for part in line)))
        lines[-1].rstrip()
    console.print(Text("\n").join(lines), soft_wrap=True)


def _plain(text: str, style: str = "") -> Text:
    return Text("\n".join(map(printable, text.split("\n"))), style)


def _print_section(section: Section, console: Console, apart: bool) -> bool:
    """Print the blocks that a terminal can show; return whether there are any."""
    shown = [
        block
        for block in section.blocks
        if isinstance(block, Sentence)
        or (isinstance(block, Table) and len(block.shown))
        or (isinstance(block, LinkMap) and can_draw(console))
    ]
    if not shown:
        return False
    if apart:
        console.print()
    if section.title:
        end = "" if ":" in section.title else ":"
        _print(f"{section.title}{end}", console, "bold")
    before: object = None
    for block in shown:
        if isinstance(block, Table) and isinstance(before, Table):
            console.print()
        before = block
        if isinstance(block, Sentence) and block.as_it_is:
            # A command to copy is not broken.
            console.print(_plain(block.text), soft_wrap=True)
        elif isinstance(block, Sentence):
            _print(block.text, console)
        elif isinstance(block, LinkMap):
            _print_links(block, console)
        elif isinstance(block, Table):
            if block.title and block.title != section.title:
                _print(f"{block.title}:", console)
            _print_table(block, console)
    return True


def _print_links(view: LinkMap, console: Console) -> None:
    for use in view.load(2):
        busiest = float(use.seconds.max(initial=0.0))
        _print(f"{shown_name(use.name)}, busiest link {seconds(busiest)}", console, "bold")
        for axis, plus, minus in heat_lines(view.torus, use.seconds, _MOST):
            console.print(f"  {axis}  +|{plus}|  -|{minus}|", soft_wrap=True)
    _print(_LEGEND, console, "dim")


def _print_table(table: Table, console: Console) -> None:
    """Print a table; where it is too wide, closer, and then without some of its columns."""
    rows, hidden = _rows_shown(table)
    columns = list(table.shown)
    widths = {id(column): _widths(table, column, rows) for column in columns}

    def fits(padding: int, folded: bool = True) -> bool:
        # A blank stands between two columns.
        return sum(widths[id(each)][folded] + padding + 1 for each in columns) - 1 <= console.width

    padding = int(fits(1, folded=False))
    alike: list[str] = []
    left_out: list[str] = []
    # The least important first, the last of equal ones.
    spare = sorted(columns, key=lambda c: (c.priority, columns.index(c)), reverse=True)
    for is_last_resort, column in product((False, True), spare):
        if fits(padding):
            break
        if column in columns and not column.stays:
            if is_last_resort:
                left_out.insert(0, column.words)
                columns.remove(column)
            elif table.is_alike(column):
                alike.append(f"{table.heading(column)} {' '.join(table.cells(column)[0])}")
                columns.remove(column)
    _print(_drawn(table, columns, rows, padding, fits(padding)), console)
    if alike:
        _print(f"(all: {', '.join(alike)})", console, "dim")
    if left_out:
        _print(f"(no room for: {', '.join(left_out)})", console, "dim")
    if hidden:
        _print(f"({hidden} of {len(table)} rows are not shown)", console, "dim")


def _widths(table: Table, column: Column, rows: list[int]) -> tuple[int, int]:
    """Return the width of a column, and that where its texts are broken."""
    cells = table.cells(column)
    head = max(map(cell_len, _heading(table, column, rows)))
    widest = max((cell_len(line) for row in rows for line in cells[row]), default=0)
    folded = min(widest, _FOLDED) if column.kind == "text" else widest
    return max(head, widest), max(head, folded)


def _rows_shown(table: Table) -> tuple[list[int], int]:
    """Return the rows that a terminal shows, and how many it does not."""
    n = len(table)
    top = n if table.top is None or n <= table.top + _BOTTOM + 1 else table.top
    kept = {*range(top), *range(max(n - _BOTTOM, 0), n)}
    # The user's own row stands in the table, however far down it is.
    if table.yours is not None:
        kept.add(table.yours)
    return sorted(kept), n - len(kept)


def _drawn(
    table: Table, columns: list[Column], rows: list[int], padding: int, fits: bool
) -> rich_table.Table:
    # Blanks between columns and a line under the head: readable in a terminal and in a file.
    box = Box("    \n    \n -  \n    \n    \n    \n    \n    \n", ascii=True)
    drawn = rich_table.Table(
        box=box, padding=(0, padding, 0, 0), show_edge=False, header_style="bold"
    )
    cells = [table.cells(column) for column in columns]
    heads = [_heading(table, column, rows) for column in columns]
    lines = max(map(len, heads), default=0)
    for column, head in zip(columns, heads, strict=True):
        # Short heads stand on the line above the cells.
        title = "\n".join([""] * (lines - len(head)) + head)
        align: Any = "left" if column.is_text else "right"
        # Texts are broken first, the others only where nothing else helps.
        drawn.add_column(
            title, justify=align, overflow="fold", no_wrap=fits and column.kind != "text"
        )
    before = -1
    for row in rows:
        if row != before + 1:
            drawn.add_row("...", style="dim")
        before = row
        texts = ["\n".join(own[row]) for own in cells]
        drawn.add_row(*texts, style=_STYLES.get(table.mark(row)))
    return drawn


def _heading(table: Table, column: Column, rows: list[int]) -> list[str]:
    """Return a heading as lines that are hardly wider than the cells below it."""
    cells = table.cells(column)
    texts = [*column.words.split(), *(line for row in rows for line in cells[row])]
    width, unit = max(map(len, texts), default=1), table.unit(column)
    while len(lines := textwrap.wrap(column.words, width)) > _HEAD:
        width += 1
    return [*lines, *([unit] if unit else [])]


def can_draw(console: Console) -> bool:
    """Whether the terminal is wide enough for a map of links, and knows its characters."""
    utf = (console.encoding or "").lower().replace("-", "").startswith("utf8")
    return console.is_terminal and console.width >= 80 and utf
