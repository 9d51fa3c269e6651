"""A plan as text for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from toruscast.report.units import number, percent, seconds, time_unit
from toruscast.wording import counted, printable

from ..occupancy import occupancy
from ..output import records
from ..phrases import application_line
from ..tables import new_table, print_table, top_and_bottom

if TYPE_CHECKING:
    from rich.console import Console

    from toruscast.mapping import TaskMapping
    from toruscast.training import Plan, Standing

    from ..inputs import Application

# Mappings that are named in a sentence.
_NAMED = 4


def print_plan(
    application: Application,
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
        f"{occupancy(made.mappings)}; {_made(made, times)}."
    )
    console.print()
    _print_table(made, top, console)
    console.print()
    console.print(standing_line(made), style="bold")
    console.print(_besides(made))
    if upcoming:
        named = ", ".join(printable(made.name_of(mapping)) for mapping in upcoming)
        console.print(f"Run next: {named}.", style="bold")
    elif not made.is_enough:
        console.print(f"The {counted(made.n_runs, 'run')} of --runs are spent.")
    for path, advice in written.items():
        use = f"; to use it: {printable(advice)}" if advice else ""
        console.print(f"Written: {printable(str(path))}{use}")


def standing_line(made: Plan) -> str:
    """Return the result in a sentence or two."""
    standing = made.standing
    best = printable(standing.best)
    if made.runs is None:
        if len(made.names) == 1:
            return f"{best} is the only mapping: nothing is to be found out."
        return f"Nothing was run yet; {best} is forecast to be the fastest."
    row = records(made.table.iloc[:1])[0]
    time = f"{seconds(row['measured'])} measured in {counted(row['runs'], 'run')}"
    certainty = "over 99 %" if standing.certainty > 0.995 else percent(standing.certainty)
    sure = f"{certainty} sure that no other takes less by more than "
    sure += f"{100 * standing.goal:.3g} %"
    most = _share(standing.gain)
    gain = f"more runs would gain {most if most.startswith('less') else f'at most {most}'}"
    if standing.kind == "tied":
        return f"{best} ({time}) cannot be told apart {_from(standing)} at this noise; {gain}."
    if standing.kind == "sure":
        return f"{best} is fastest: {time}, {sure}; {gain}."
    return f"{best} leads: {time}, {sure}; {gain}."


def _made(made: Plan, times: str | None) -> str:
    """Return how many runs there are."""
    file = "" if times is None else f" in {printable(times)}"
    if made.runs is None:
        return f"no run{file} yet"
    return f"{counted(made.n_runs, 'run')} of {counted(len(made.runs.names), 'mapping')}{file}"


def _from(standing: Standing) -> str:
    """Return from which mappings the best cannot be told apart."""
    named = [printable(name) for name in standing.rivals[:_NAMED]]
    more = len(standing.rivals) - _NAMED
    if more > 0:
        return f"from {', '.join(named)} and {counted(more, 'other')}"
    return f"from {' and '.join([', '.join(named[:-1]), named[-1]] if named[1:] else named)}"


def _besides(made: Plan) -> str:
    """Return what is known of noise and computation."""
    standing, runs = made.standing, made.runs
    noise = _share(standing.noise)
    if runs is None:
        return "Times are those of the network alone, as the default model forecasts them."
    text = {
        "user": f"Noise of a run: {noise}, as you say.",
        "repetitions": f"Noise of a run: {noise}, from mappings that ran more than once.",
        "nothing": f"Noise of a run: about {noise}, a guess, as no mapping ran twice; --noise "
        "tells it.",
    }[standing.noise_from]
    if len(runs.names) > 2 and standing.constant >= 0.01:
        text += f" About {percent(standing.constant)} of a run do not depend on the mapping."
    if runs.is_outlier.any():
        names = dict.fromkeys(printable(runs.names[i]) for i in runs.which[runs.is_outlier])
        text += f" Left out, as far from other runs of the mapping: {', '.join(names)}."
    if runs.drift:
        text += f" Times drift by {_share(runs.drift)} from the first run to the last."
    return text


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


def _share(share: float) -> str:
    """Return a small share in per cent, to a tenth."""
    return "less than 0.1 %" if share < 0.0005 else f"{100 * share:.1f} %"
