"""Rankings by a time that is computed for every candidate: options and report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from toruscast.answers.units import number, percent, seconds, time_unit
from toruscast.answers.words import alike, bound_line, gains, link_note
from toruscast.wording import printable

from .output import new_table, print_table, records, top_and_bottom
from .phrases import occupancy

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console

    from toruscast.features.reasons import Reasons
    from toruscast.mapping import TaskMapping
    from toruscast.workers import Task

    from .phrases import Setting

Tell = Callable[[int], None]


@dataclass(frozen=True)
class Timed:
    """What came out for a mapping."""

    time: float
    phase_times: tuple[float, ...]
    why: Reasons
    busiest_link: str | None
    """Its name; None where nothing leaves a node."""
    busy: float
    """Seconds that it takes for its bytes."""


T = TypeVar("T", bound=Timed)


def time_all(
    mappings: Sequence[TaskMapping],
    sizes: Sequence[int],
    time_one: Task[T],
    jobs: int,
    progress: Callable[[int, int], None],
) -> dict[str, T]:
    """Time each mapping, ``jobs`` at once; return them by name.

    ``sizes`` is the work that each of them is. ``time_one`` takes a mapping and what it tells how
    much of it is done.
    """
    total = _Total(sizes, progress)
    found: dict[int, T] = {}
    items = ((mapping, _Part(total, i)) for i, mapping in enumerate(mappings))
    for i, timed in time_one.each(items, jobs):
        found[i] = timed
        total.tell(i, sizes[i])
    return {mapping.name or str(i): found[i] for i, mapping in enumerate(mappings)}


class _Total:
    """How much of all is done."""

    def __init__(self, sizes: Sequence[int], progress: Callable[[int, int], None]) -> None:
        self.sizes, self.progress = sizes, progress
        self.done = [0] * len(sizes)

    def tell(self, i: int, now: int) -> None:
        # What begins again does not go back.
        self.done[i] = max(self.done[i], min(now, self.sizes[i]))
        self.progress(sum(self.done), sum(self.sizes))


class _Part:
    """Tells how much of one mapping is done, to the process that it is in: others hear no word."""

    def __init__(self, total: _Total, i: int) -> None:
        self.total, self.i = total, i

    def __call__(self, now: int) -> None:
        self.total.tell(self.i, now)

    def __reduce__(self) -> tuple[object, ...]:
        return _silent, ()


def _silent() -> Tell:
    return _say_nothing


def _say_nothing(now: int) -> None:
    pass


def ranked(found: Mapping[str, Timed]) -> pd.DataFrame:
    """Return a row for each mapping, the fastest first.

    Columns: ``rank``, ``mapping``, ``time``, ``lower_bound``, ``over_bound`` (the first over the
    second), ``busiest_link`` (its name; None where nothing leaves a node) and ``busy_share``, the
    share of the time that it is busy.
    """
    import pandas as pd

    rows: list[dict[str, Any]] = []
    for name, timed in found.items():
        least, link = timed.why.lower_bound, timed.busiest_link
        rows.append(
            {
                "mapping": name,
                "time": timed.time,
                "lower_bound": least,
                "over_bound": timed.time / least if least else float("nan"),
                "busiest_link": link,
                "busy_share": timed.busy / timed.time if link else 0.0,
            }
        )
    table = pd.DataFrame(rows).sort_values("time", kind="stable", ignore_index=True)
    table.insert(0, "rank", table["time"].rank(method="min").astype(int))
    return table


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
    _print_table(table, top, console)
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


def _print_table(table: pd.DataFrame, top: int, console: Console) -> None:
    scale, unit = time_unit(table["time"])
    shown = new_table(
        "#",
        "mapping",
        f"time\n{unit}",
        "times its\nlower bound",
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
