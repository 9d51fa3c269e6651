"""Mappings ranked by their simulated times, as text for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from toruscast.report.units import number, percent, seconds, time_unit
from toruscast.report.words import alike, bound_line, gains, link_note
from toruscast.wording import printable

from .occupancy import occupancy
from .output import new_table, print_table, records, top_and_bottom

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console

    from toruscast.features.reasons import Reasons
    from toruscast.mapping import TaskMapping

    from .setting import Setting


def print_times(
    setting: Setting,
    mappings: Sequence[TaskMapping],
    table: pd.DataFrame,
    why: Reasons,
    console: Console,
    *,
    how: str,
    error: float,
    top: int,
    estimated: bool = False,
    remark: str = "",
    caveat: str = "",
) -> None:
    """Print what is simulated and how, the table, what bounds the fastest, and the answer in words.

    ``table`` is what `ranked` returns, ``why`` what bounds its first row, by estimate where ways
    are open. A ``remark`` goes below the table, a ``caveat`` above the answer.
    """
    from toruscast.wording import counted

    console.print(
        f"{setting.in_words()}; {counted(len(mappings), 'candidate mapping')}, "
        f"{occupancy(mappings)}; {how}.\n"
    )
    _print_table(table, top, estimated, console)
    if remark:
        console.print(remark)
    name = printable(table["mapping"].iloc[0])
    console.print(f"\nThe fastest, {name}:", style="bold")
    console.print(bound_line(why, estimated, setting.application.workload.dependent))
    if table["busiest_link"].iloc[0]:
        console.print(f"\n{link_note(table['busiest_link'].iloc[0])}", style="dim")
    if caveat:
        console.print(caveat, style="dim")
    console.print(f"\n{_answer(table, error)}{alike(table['time'])}", style="bold")


def _print_table(table: pd.DataFrame, top: int, estimated: bool, console: Console) -> None:
    scale, unit = time_unit(table["time"])
    bound = "times its\nestimate" if estimated else "times its\nlower bound"
    shown = new_table(
        "#",
        "mapping",
        f"time\n{unit}",
        bound,
        "busiest\nlink",
        "busy",
        left=("mapping", "busiest\nlink"),
    )
    rows = records(table)
    for i in top_and_bottom(len(rows), top):
        if i is None:
            shown.add_row("...")
            continue
        row = rows[i]
        least, link = row["lower_bound"], row["busiest_link"]
        shown.add_row(
            str(row["rank"]),
            row["mapping"],
            number(row["time"] / scale),
            f"{row['over_bound']:.2f}" if least else "-",
            link or "-",
            percent(row["busy_share"]) if link else "-",
        )
    print_table(shown, console, keep=3)


def _answer(table: pd.DataFrame, error: float) -> str:
    """Return the result in a sentence."""
    names, times = table["mapping"], table["time"]
    best, slowest = float(times.iloc[0]), float(times.iloc[-1])
    text = f"{printable(names.iloc[0])} is fastest: {seconds(best)}{gains(names, times)}"
    others = len(times) - 1
    if not others:
        return f"{text}; there is no other candidate."
    if slowest:
        text += (
            f", {percent(1 - best / slowest)} less than the slowest, {printable(names.iloc[-1])}"
        )
    near = int((times.iloc[1:] <= best * (1 + error)).sum())
    if error:
        within = f"within {100 * error:.3g} % of it, the error accepted"
        return (
            f"{text}; {near or 'none'} of {others} others {'lie' if near > 1 else 'lies'} {within}."
        )
    verb = "take" if near > 1 else "takes"
    return f"{text}; {near or 'none'} of {others} others {verb} as little."
