"""Tables in a terminal: cells are never cut short, and columns that have no room are named."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toruscast.wording import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

BOTTOM = 3


def new_table(*columns: str, left: tuple[str, ...] = ()) -> Table:
    """Return a table whose cells are never cut short; columns align right unless named ``left``.

    Cells may hold names from files: what a terminal would take for a command is shown as "?". A
    tuple is the lines of a cell.
    """
    from rich.box import Box
    from rich.table import Table

    class Printable(Table):
        def add_row(self, *cells: Any, **how: Any) -> None:
            super().add_row(*map(_lines, cells), **how)

    # Blanks between columns and a line under the head: readable in a terminal and in a file.
    box = Box("    \n    \n -  \n    \n    \n    \n    \n    \n", ascii=True)
    table = Printable(box=box, padding=(0, 1, 0, 0), show_edge=False, header_style="bold")
    lines = max(column.count("\n") for column in columns)
    for column in columns:
        # Short headings stand on the line above the cells.
        heading = "\n" * (lines - column.count("\n")) + column
        align: Any = "left" if column in left else "right"
        table.add_column(heading, justify=align, overflow="fold")
    return table


def _lines(cell: Any) -> str:
    """Return a cell, or the lines of one, as a terminal can show it."""
    lines = cell if isinstance(cell, tuple) else (cell,)
    return "\n".join(printable(str(line)) for line in lines)


def top_and_bottom(n: int, top: int) -> list[int | None]:
    """Return which of ``n`` rows are shown: the first ``top`` and the last three, None between.

    Examples
    --------
    >>> top_and_bottom(9, 2), top_and_bottom(4, 2)
    ([0, 1, None, 6, 7, 8], [0, 1, 2, 3])
    """
    if n <= top + BOTTOM + 1:
        return list(range(n))
    return [*range(top), None, *range(n - BOTTOM, n)]


def print_table(table: Table, console: Console, keep: int, spare: tuple[str, ...] = ()) -> None:
    """Print a table; where it is too wide, closer, and then without some of its columns.

    The first ``keep`` columns stay, but for those of them in ``spare`` whose cells are all alike:
    these go first. Empty cells, as beside "...", do not count. A line below the table names the
    columns left out.
    """
    from rich.measure import Measurement

    unlimited = console.options.update(max_width=100_000)

    def fits() -> bool:
        return Measurement.get(console, unlimited, table).maximum <= console.width

    alike: list[str] = []
    left_out: list[str] = []
    if not fits():
        table.padding = (0, 0, 0, 0)
    for column in reversed([column for column in table.columns if column.header in spare]):
        cells = {str(cell) for cell in column.cells} - {""}
        if len(cells) == 1 and not fits():
            alike.append(f"{column.header} {cells.pop()}")
            table.columns.remove(column)
            keep -= 1
    while not fits() and len(table.columns) > keep:
        left_out.insert(0, " ".join(str(table.columns.pop().header).split()))
    console.print(table)
    if alike:
        console.print(f"(all: {', '.join(alike)})", style="dim")
    if left_out:
        console.print(f"(no room for: {', '.join(left_out)})", style="dim")
