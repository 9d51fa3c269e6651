"""Answers in a terminal: the headline, the main table, then the other sections."""

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

from toruscast.text import bind_units, printable, seconds, shown_name

from .blocks import Answer, Section, Sentence
from .links import LinkMap, draw_heat_lines
from .table import Column, Table

if TYPE_CHECKING:
    from rich.console import Console

# Maximum characters in a line of a link map, and minimum width of a terminal that shows it.
_MAX_MAP_WIDTH, _MIN_MAP_TERMINAL = 32, 80
# A terminal of at most 80 characters only shows columns whose priority number is at most 3.
_NARROW, _MAX_PRIORITY = 80, 3
# A private-use character that replaces spaces at which lines must not break.
_NO_BREAK = "\ue000"
# Minimum width of a column of wrapped text, and maximum lines of a heading above its unit.
_MIN_TEXT_WIDTH, _MAX_HEADING_LINES = 24, 3
_LEGEND = (
    "Each character shows the busiest link at a coordinate: on the left in the plus direction, on "
    "the right in the minus direction. A full block is the busiest link of all."
)
_STYLES: Mapping[str, str] = {"best": "green", "yours": "yellow"}


def print_answer(answer: Answer, console: Console, details: bool = False) -> None:
    """Print an answer; ``details`` includes folded and verbose sections."""
    head = answer.headline
    parts = ((head.before, "bold"), (shown_name(head.name), "bold green"), (head.after, "bold"))
    if str(head):
        _print_lines(
            Text.assemble(*((_printable_line(text), style) for text, style in parts)), console
        )
    for note in [*answer.lines, *(answer.details if details else ())]:
        _print_lines(note, console)
    is_first = not str(head)
    main = [] if answer.table is None else [Section("", [replace(answer.table, title="")])]
    for section in [*main, *answer.sections]:
        if section.only != "page" and (details or not (section.verbose or section.folded)):
            is_first = not _print_section(section, console, apart=not is_first) and is_first
    if answer.setting:
        console.print()
        _print_lines(answer.setting, console, "dim")


def _print_lines(content: str | Text | rich_table.Table, console: Console, style: str = "") -> None:
    """Print lines without trailing spaces or control characters."""
    if isinstance(content, str):
        content = Text("\n".join(map(_printable_line, content.split("\n"))), style)
    lines = []
    for line in console.render_lines(content, pad=False):
        parts = ((part.text.replace(_NO_BREAK, " "), part.style or "") for part in line)
        lines.append(Text.assemble(*parts))
        lines[-1].rstrip()
    console.print(Text("\n").join(lines), soft_wrap=True)


def _printable_line(text: str) -> str:
    """Return a line that does not break between numbers and units."""
    return bind_units(printable(text), _NO_BREAK)


def _print_section(section: Section, console: Console, apart: bool) -> bool:
    """Print the blocks that the terminal can show; return whether there are any."""
    visible = [
        block
        for block in section.blocks
        if isinstance(block, Sentence)
        or (isinstance(block, Table) and len(block.visible_columns))
        or (isinstance(block, LinkMap) and can_draw_links(console))
    ]
    if not visible:
        return False
    if apart:
        console.print()
    if section.title:
        end = "" if ":" in section.title else ":"
        _print_lines(f"{section.title}{end}", console, "bold")
    previous: object = None
    for block in visible:
        if isinstance(block, Table) and isinstance(previous, Table):
            console.print()
        previous = block
        if isinstance(block, Sentence) and block.unwrapped:
            console.print(Text("\n".join(map(printable, block.text.split("\n")))), soft_wrap=True)
        elif isinstance(block, Sentence):
            _print_lines(block.text, console)
        elif isinstance(block, LinkMap):
            _print_links(block, console)
        elif isinstance(block, Table):
            if block.title and block.title != section.title:
                _print_lines(f"{block.title}:", console)
            _print_table(block, console)
    return True


def _print_links(view: LinkMap, console: Console) -> None:
    for use in view.make_uses(2):
        busiest = float(use.seconds.max(initial=0.0))
        _print_lines(f"{shown_name(use.name)}, busiest link {seconds(busiest)}", console, "bold")
        for axis, plus, minus in draw_heat_lines(view.torus, use.seconds, _MAX_MAP_WIDTH):
            console.print(f"  {axis}  +|{plus}|  -|{minus}|", soft_wrap=True)
    _print_lines(_LEGEND, console, "dim")


def _print_table(table: Table, console: Console) -> None:
    """Print a table. If it is too wide, reduce the padding, then leave out columns."""
    rows, n_hidden = _select_rows(table)
    is_narrow = console.width <= _NARROW
    columns = [
        column
        for column in table.visible_columns
        if not is_narrow or column.is_always_visible or column.priority <= _MAX_PRIORITY
    ]
    widths = {id(column): _column_widths(table, column, rows) for column in columns}

    def fits(padding: int, wrapped: bool = True) -> bool:
        # One more space separates two columns.
        total = sum(widths[id(column)][wrapped] + padding + 1 for column in columns)
        return total - 1 <= console.width

    padding = int(fits(1, wrapped=False))
    constant: list[str] = []
    left_out: list[str] = []
    # Leave out the least important columns first, from right to left. Leave out constant columns
    # before all others, because a line below the table states their value.
    by_priority = sorted(columns, key=lambda c: (c.priority, columns.index(c)), reverse=True)
    for may_leave_out, column in product((False, True), by_priority):
        if fits(padding):
            break
        if column in columns and not column.is_always_visible:
            if may_leave_out:
                left_out.insert(0, column.plain_heading)
                columns.remove(column)
            elif table.is_constant(column):
                constant.append(f"{table.heading(column)} {' '.join(table.cells(column)[0])}")
                columns.remove(column)
    _print_lines(_format_table(table, columns, rows, padding, fits(padding)), console)
    if constant:
        _print_lines(f"(all: {', '.join(constant)})", console, "dim")
    if left_out:
        _print_lines(f"(no room for: {', '.join(left_out)})", console, "dim")
    if n_hidden:
        _print_lines(f"({n_hidden} of {len(table)} rows are not shown)", console, "dim")


def _column_widths(table: Table, column: Column, rows: list[int]) -> tuple[int, int]:
    """Return a column's width without wrapping, and its minimum width with wrapping."""
    cells = table.cells(column)
    head = max(map(cell_len, _wrap_heading(table, column, rows)))
    widest = max((cell_len(line) for row in rows for line in cells[row]), default=0)
    wrapped = widest
    if column.kind == "text":
        words = (word for row in rows for line in cells[row] for word in line.split())
        wrapped = max(min(widest, _MIN_TEXT_WIDTH), max(map(cell_len, words), default=0))
    return max(head, widest), max(head, wrapped)


def _select_rows(table: Table) -> tuple[list[int], int]:
    """Return the first rows and the user's row, and the number of hidden rows."""
    n = len(table)
    # The line that counts hidden rows takes as much space as a single row.
    top = n if table.top is None or n <= table.top + 1 else table.top
    kept = sorted({*range(top), *([] if table.yours is None else [table.yours])})
    return kept, n - len(kept)


def _format_table(
    table: Table, columns: list[Column], rows: list[int], padding: int, fits: bool
) -> rich_table.Table:
    """Convert a table for rich. If it does not fit (``fits`` is False), any cell may wrap."""
    # Separate the columns with spaces instead of a frame, which is readable in a file too.
    box = Box("    \n    \n -  \n    \n    \n    \n    \n    \n", ascii=True)
    drawn = rich_table.Table(
        box=box, padding=(0, padding, 0, 0), show_edge=False, header_style="bold"
    )
    cells = [table.cells(column) for column in columns]
    heads = [_wrap_heading(table, column, rows) for column in columns]
    lines = max(map(len, heads), default=0)
    for column, head in zip(columns, heads, strict=True):
        # Align headings at the bottom.
        title = "\n".join([""] * (lines - len(head)) + head)
        align: Any = "left" if column.is_text else "right"
        # Wrap texts first, and other cells only if the table is still too wide.
        drawn.add_column(
            title, justify=align, overflow="fold", no_wrap=fits and column.kind != "text"
        )
    previous = -1
    for row in rows:
        if row != previous + 1:
            drawn.add_row("...", style="dim")
        previous = row
        texts = [bind_units("\n".join(column[row]), _NO_BREAK) for column in cells]
        drawn.add_row(*texts, style=_STYLES.get(table.mark(row)))
    return drawn


def _wrap_heading(table: Table, column: Column, rows: list[int]) -> list[str]:
    """Return a heading broken into lines about as wide as the cells."""
    cells = table.cells(column)
    heading = bind_units(column.plain_heading, _NO_BREAK)
    texts = [*heading.split(), *(line for row in rows for line in cells[row])]
    width, unit = max(map(len, texts), default=1), table.unit(column)
    while len(lines := textwrap.wrap(heading, width)) > _MAX_HEADING_LINES:
        width += 1
    return [*lines, *([unit] if unit else [])]


def can_draw_links(console: Console) -> bool:
    """Whether the terminal is wide enough for a link map and can display its characters."""
    utf = (console.encoding or "").lower().replace("-", "").startswith("utf8")
    return console.is_terminal and console.width >= _MIN_MAP_TERMINAL and utf
