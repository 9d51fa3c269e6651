"""The answer of `plan`: which mapping to run next on the machine, and whether the runs suffice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from toruscast.decision import Plan, Runs
from toruscast.mapping import MappingProblem, TaskMapping
from toruscast.text import counted, number, percent, probability, seconds, shown_name, time_unit

from . import svg
from .blocks import Answer, Chart, Headline, Mark, Section, TableBlock, all_candidates
from .learned import times_against
from .links import Candidate
from .rank import DEFAULT_ORDER, default_order, less, versus
from .traffic import View, setting_of

# Mappings that are named in a sentence, rows of the picture of times, and next runs of a page.
_NAMED, _FIRST, _NEXT = 4, 5, 3


def answer(
    made: Plan,
    *,
    upcoming: Sequence[TaskMapping] | None = None,
    written: Mapping[Path, str] | None = None,
    times: str | None = None,
    setting: str = "",
    top: int = 10,
) -> Answer:
    """Return what the runs made so far say; ``upcoming`` are those to make, which are ``written``.

    ``times`` is the file of the runs.
    """
    verdict = made.verdict
    chosen = upcoming or []
    if upcoming is None and not made.is_enough and len(made.names) > 1:
        chosen = made.ask(min(_NEXT, len(made.names)))
    sure = f"{probability(verdict.certainty)} sure that none is faster"
    badge = {"sure": sure, "open": f"open: {sure}"}.get(verdict.kind, verdict.kind)
    notes = [] if made.runs is None else [_how_sure(made)]
    notes.append(besides(made))
    if chosen:
        named = ", ".join(shown_name(made.name_of(mapping)) for mapping in chosen)
        notes.append(f"Run next: {named}.")
    elif made.is_enough:
        notes.append("The runs are enough.")
    elif len(made.names) > 1:
        notes.append(f"The {counted(made.n_runs, 'run')} of --runs are spent.")
    for path, advice in (written or {}).items():
        use = f"; to use it: {advice}" if advice else ""
        notes.append(f"Written: {shown_name(path)}{use}")
    view, table = _view(made), _table(made, top)
    sections = [
        Section("", [table], only="terminal"),
        Section("How much faster", [times_chart(made)], wide=False, only="page"),
        *(view.why() if view else ()),
        *_runs(made),
        *(view.where() if view else ()),
        all_candidates("All candidates", table, "All candidates"),
        *([view.traffic()] if view else ()),
    ]
    torus = made.mappings[0].torus
    about = "" if made.workload is None or torus is None else setting_of(made.workload, torus)
    runs = runs_made(made, times)
    return Answer(
        setting=f"{setting}; {runs}." if setting else f"{about or 'plan of runs'}, {runs}",
        title=f"Plan of runs: {about or 'application'}",
        headline=_headline(made),
        badge=badge if len(made.names) > 1 else "",
        notes=notes,
        sections=sections,
        content={
            "runs": made.n_runs,
            "next": [made.name_of(mapping) for mapping in chosen],
            "written": [str(path) for path in written or {}],
            "verdict": {
                **asdict(made.verdict),
                "best": made.name_of(made.best),
                "gain": made.gain,
                "noise": made.noise_share,
                "noise_from": made.noise_from,
                "constant": made.constant_share,
                "more_runs": made.more_runs,
                "next_gain": made.next_gain,
            },
            "enough": made.is_enough,
            "mappings": made.table.to_dict("records"),
        },
        rows=made.table,
        file=view.launcher_file() if view else None,
        facts=view.facts() if view else (),
    )


def _headline(made: Plan) -> Headline:
    """Return which mapping to use or to run first, and how much that gains."""
    name, yours = made.name_of(made.best), _yours(made)
    best = shown_name(name)
    rows = {row["mapping"]: row for row in made.table.to_dict("records")}
    row, gain = rows[name], ""
    if yours is not None and yours != name:
        gain = f", {less(row['time'], rows[yours]['time'], DEFAULT_ORDER)}"
    if made.runs is None:
        if len(made.names) == 1:
            return Headline("", best, " is the only mapping: there is nothing to choose.")
        return Headline("Nothing was run yet; ", best, f" is forecast to be the fastest{gain}.")
    before, after = "Use ", ": "
    if made.verdict.kind == "open":
        before, after = "", " leads: "
    elif yours == name:
        before = f"Keep {DEFAULT_ORDER}, "
    time = f"{seconds(row['measured'])} measured in {counted(int(row['runs']), 'run')}"
    return Headline(before, best, f"{after}{time}{gain}")


def _how_sure(made: Plan) -> str:
    """Return how sure the choice is, and what more runs would gain."""
    verdict = made.verdict
    # A gain in draws of the posterior is never known to be none.
    most = f"at most {percent(made.gain, 1)}" if made.gain >= 0.0005 else "< 0.1 %"
    gain = f"more runs would gain {most}"
    sure = (
        f"{probability(verdict.certainty).capitalize()} sure that no other takes less by more than "
    )
    sure += percent(verdict.goal, digits=3)
    if verdict.kind == "tied":
        below = f" without {counted(made.more_runs, 'more run')}" if made.more_runs else ""
        gain = f"it cannot be told apart {_from(verdict.rivals)}{below}"
    if verdict.kind == "priced":
        gain = f"all further runs together would gain {percent(made.mean_gain, 1)} in the mean"
        if made.next_gain < (made.run_cost or 0):
            gain = f"another run is expected to gain {seconds(made.next_gain)}, less than its price"
    return f"{sure}; {gain}."


def runs_made(made: Plan, times: str | None = None) -> str:
    """Return how many runs there are."""
    file = "" if times is None else f" in {shown_name(times)}"
    if made.runs is None:
        return f"no run{file} yet"
    return f"{counted(made.n_runs, 'run')} of {counted(len(made.runs.names), 'mapping')}{file}"


def besides(made: Plan) -> str:
    """Return the sentences about noise and computation."""
    runs, noise = made.runs, percent(made.noise_share, 1)
    if runs is None:
        source = "simulated" if made.is_simulated else "the model forecasts them"
        return f"Times are those of the network alone, as {source}."
    text = {
        "user": f"Noise of a run: {noise}, as you say.",
        "repetitions": f"Noise of a run: {noise}, from mappings that ran more than once.",
        "nothing": f"Noise of a run: about {noise}, a guess, as no mapping ran twice; --noise "
        "sets it.",
    }[made.noise_from]
    if len(runs.names) > 2 and made.constant_share >= 0.01:
        text += f" About {percent(made.constant_share)} of a run do not depend on the mapping."
    if made.disturbed.any():
        names = dict.fromkeys(shown_name(runs.names[i]) for i in runs.which[made.disturbed])
        text += f" Left out, as something likely slowed them down: {', '.join(names)}."
    if runs.drift:
        text += f" Times drift by {percent(runs.drift, 1)} from the first run to the last."
    return text


def _from(rivals: Sequence[str]) -> str:
    """Return from which mappings the best cannot be told apart."""
    named = [shown_name(name) for name in rivals[:_NAMED]]
    more = len(rivals) - _NAMED
    if more > 0:
        return f"from {', '.join(named)} and {counted(more, 'other')}"
    return f"from {' and '.join([', '.join(named[:-1]), named[-1]] if named[1:] else named)}"


def _yours(made: Plan) -> str | None:
    torus = made.mappings[0].torus
    return None if torus is None else default_order(made.mappings, made.names, torus)


def _mark(made: Plan, name: str, yours: str | None) -> Mark:
    return "best" if name == made.name_of(made.best) else "yours" if name == yours else ""


def _view(made: Plan) -> View | None:
    """Return the traffic under the mappings, the best first, where the plan knows it."""
    torus = made.mappings[0].torus
    if made.workload is None or torus is None:
        return None
    by_name = dict(zip(made.names, made.mappings, strict=True))
    rows = made.table.to_dict("records")
    best, yours = made.name_of(made.best), _yours(made)
    rows.sort(key=lambda row: (row["mapping"] != best, row["mapping"] != yours))
    several = [Candidate(row["mapping"], by_name[row["mapping"]], row["time"]) for row in rows]
    return View(MappingProblem(made.workload, torus, made.routing), several)


def times_chart(made: Plan) -> Chart:
    """Return the likely times of the five best, the default order and the slowest."""
    table, yours = made.table.sort_values("time", kind="stable"), _yours(made)
    names, every = table["mapping"].tolist(), table["time"].tolist()
    scale, unit = time_unit(every)
    own = names.index(yours) if yours else None
    best = names.index(made.name_of(made.best))
    chosen = sorted({*range(min(_FIRST, len(names))), best, own or 0, len(names) - 1})
    rows = [
        svg.Row(
            names[i],
            every[i],
            _mark(made, names[i], yours) or "other",
            low=table["low"].iloc[i],
            high=table["high"].iloc[i],
            note="" if own in (None, i) else versus(every[i], every[own or 0]),
        )
        for i in chosen
    ]
    out = len(names) - len(chosen)
    left_out = f"{counted(out, 'candidate')} between are not drawn" if out else ""
    measured = int((table["runs"] > 0).sum())
    lead = (
        f"What a run likely takes without noise, {unit}, with its 90 % interval; {measured} of "
        f"{counted(len(names), 'candidate')} were measured. Every tick below is a candidate."
    )
    return Chart(
        "candidate-times",
        "",
        lead,
        lambda: svg.times(rows, scale, unit, every=every, left_out=left_out),
    )


def _table(made: Plan, top: int) -> TableBlock:
    """Return the table of the mappings, with their runs and likely times."""
    scale, unit = time_unit(made.table[["time", "measured"]].to_numpy().ravel())
    yours = _yours(made)
    rows = [
        {
            "mapping": shown_name(row["mapping"]),
            "runs": row["runs"] or "-",
            f"measured\n{unit}": number(row["measured"] / scale) if row["runs"] else "-",
            f"likely\n{unit}": number(row["time"] / scale),
            f"90 % interval\n{unit}": " - ".join(number(row[k] / scale) for k in ("low", "high")),
            "P(best)": percent(row["p_best"]),
        }
        for row in made.table.to_dict("records")
    ]
    marks = [_mark(made, str(name), yours) for name in made.table["mapping"]]
    return TableBlock(rows, marks=marks, keep=4, top=top)


def _runs(made: Plan) -> list[Section]:
    """Return the runs in order, the best of them so far, and how far the forecast was from them."""
    runs = made.runs
    if runs is None:
        return []
    scale, unit = time_unit(runs.seconds)
    at, best = np.arange(1, len(runs.which) + 1), made.name_of(made.best)
    is_best = np.array([runs.names[i] == best for i in runs.which])
    kinds = (
        ("the best", "best", is_best & ~runs.is_outlier),
        ("another", "other", ~is_best & ~runs.is_outlier),
        ("left out", "yours", runs.is_outlier),
    )
    series = [_series(runs, scale, *kind) for kind in kinds if kind[-1].any()]
    so_far = svg.Series("", "best", at, np.minimum.accumulate(runs.seconds) / scale, style="line")
    of_run = partial(svg.plot, x_title="run", y_title=f"measured, {unit}", from_zero=False)
    charts = [
        Chart(
            "runs",
            "Runs, in the order of the table",
            f"{counted(len(at), 'run')}, {seconds(runs.seconds.min())} to "
            f"{seconds(runs.seconds.max())}.",
            partial(of_run, series),
        ),
        Chart(
            "so-far",
            "Best measured so far",
            "The shortest time of a run, after each run.",
            partial(of_run, [so_far]),
        ),
    ]
    said = dict(zip(made.names, made.forecast_times(), strict=True))
    measured = made.table.dropna(subset=["measured"])
    if len(measured) > 1:
        names = measured["mapping"].tolist()
        charts.append(
            times_against(
                "observed",
                "Measured against forecast times",
                "The forecast is of the network alone; runs hold computation and software too.",
                ("forecast", [said[name] for name in names]),
                ("measured", measured["measured"]),
                names,
                diagonal=False,
            )
        )
    return [Section("The runs", charts, only="page")]


def runs_chart(runs: Runs) -> Chart:
    """Return the time of each run, in the order in which they were made."""
    scale, unit = time_unit(runs.seconds)
    series = _series(runs, scale, "", "best", np.ones(len(runs.which), dtype=bool))
    return Chart("runs", "", "", lambda: svg.plot([series], "run", f"measured, {unit}"))


def _series(
    runs: Runs, scale: float, label: str, kind: str, chosen: NDArray[np.bool_]
) -> svg.Series:
    """Return the times of some of the runs by their numbers."""
    at = np.flatnonzero(chosen)
    names = [shown_name(runs.names[i]) for i in runs.which[at]]
    return svg.Series(label, kind, at + 1, runs.seconds[at] / scale, names)
