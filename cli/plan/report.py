"""A plan as text for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from toruscast.answers.planned import besides, runs_made, standing_line
from toruscast.answers.units import number, percent, time_unit
from toruscast.wording import counted, printable

from ..output import new_table, print_table, records, top_and_bottom
from ..phrases import application_line, occupancy

if TYPE_CHECKING:
    from rich.console import Console

    from toruscast.mapping import TaskMapping
    from toruscast.training import Plan

    from ..inputs import LoadedTraffic


def print_plan(
    application: LoadedTraffic,
    made: Plan,
    upcoming: Sequence[TaskMapping],
    written: Mapping[Path, str],
    times: str | None,
    top: int,
    console: Console,
) -> None:
    """Print what was run, the table, what that says, and what to run next."""
    console.print(
        f"{application_line(application)}; {counted(len(made.names), 'mapping')}, "
        f"{occupancy(made.mappings)}; {runs_made(made, times)}."
    )
    console.print()
    _print_table(made, top, console)
    console.print()
    console.print(standing_line(made), style="bold")
    console.print(besides(made))
    if upcoming:
        named = ", ".join(printable(made.name_of(mapping)) for mapping in upcoming)
        console.print(f"Run next: {named}.", style="bold")
    elif not made.is_enough:
        console.print(f"The {counted(made.n_runs, 'run')} of --runs are spent.")
    for path, advice in written.items():
        use = f"; to use it: {printable(advice)}" if advice else ""
        console.print(f"Written: {printable(str(path))}{use}")


def _print_table(made: Plan, top: int, console: Console) -> None:
    """Print the first and the last rows."""
    rows = records(made.table)
    scale, unit = time_unit(made.table[["time", "measured"]].to_numpy().ravel())
    shown = new_table(
        "mapping",
        "runs",
        f"measured\n{unit}",
        f"likely\n{unit}",
        f"90 % interval\n{unit}",
        "P(best)",
        left=("mapping",),
    )
    for i in top_and_bottom(len(rows), top):
        if i is None:
            shown.add_row("...")
            continue
        row = rows[i]
        shown.add_row(
            row["mapping"],
            str(row["runs"] or "-"),
            number(row["measured"] / scale) if row["runs"] else "-",
            number(row["time"] / scale),
            f"{number(row['low'] / scale)} - {number(row['high'] / scale)}",
            percent(row["p_best"]),
        )
    print_table(shown, console, keep=4)
