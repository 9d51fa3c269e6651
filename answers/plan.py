"""The answer of `plan`: which mapping to run next on the machine, and whether the runs suffice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from toruscast.decision import Plan, Runs
from toruscast.mapping import TaskMapping
from toruscast.text import counted, number, percent, probability, seconds, shown_name, time_unit

from . import svg
from .blocks import Answer, Chart, Headline, Mark, Section, TableBlock
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
    if len(made.names) == 1:
        badge = ""
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
    view = _view(made)
    sections = [
        Section("", [_table(made, top)], only="terminal"),
        Section("How much faster", [times_chart(made)], wide=False, only="page"),
    ]
    sections += [] if view is None else view.why()
    sections += [] if made.runs is None else _runs(made)
    sections += [] if view is None else view.where()
    sections.append(
        Section("All candidates", [_table(made, None)], folded=True, only="page"),
    )
    if view is not None:
        sections.append(view.traffic())
    torus = made.mappings[0].torus
    about = "" if made.workload is None or torus is None else setting_of(made.workload, torus)
    runs = runs_made(made, times)
    return Answer(
        setting=f"{setting}; {runs}." if setting else f"{about or 'plan of runs'}, {runs}",
        title=f"Plan of runs: {about or 'application'}",
        headline=_headline(made),
        badge=badge,
        notes=notes,
        sections=sections,
        content={
            "runs": made.n_runs,
            "next": [made.name_of(mapping) for mapping in chosen],
            "written": [str(path) for path in written or {}],
            "verdict": _verdict(made),
            "enough": made.is_enough,
            "mappings": made.table.to_dict("records"),
        },
        rows=made.table,
        file=None if view is None else view.launcher_file(),
        facts=[] if view is None else view.facts(),
    )


def _verdict(made: Plan) -> dict[str, object]:
    """Return what programs read of the verdict and of what it rests on."""
    return {
        **asdict(made.verdict),
        "best": made.name_of(made.best),
        "gain": made.gain,
        "noise": made.noise_share,
        "noise_from": made.noise_from,
        "constant": made.constant_share,
        "more_runs": made.more_runs,
        "next_gain": made.next_gain,
    }


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
    return View(made.workload, torus, several, made.routing)


def times_chart(made: Plan) -> Chart:
    """Return the likely times of the five best, the default order and the slowest."""
    table, yours = made.table, _yours(made)
    names = [str(name) for name in table["mapping"]]
    scale, unit = time_unit(table["time"])
    order = sorted(range(len(names)), key=lambda i: table["time"].iloc[i])
    best = names.index(made.name_of(made.best))
    last = order[-1]
    own = [names.index(yours)] if yours else []
    chosen = sorted({best, *order[:_FIRST], *own, last}, key=lambda i: table["time"].iloc[i])
    reference = table["time"].iloc[own[0]] if own else 0.0
    rows = []
    for i in chosen:
        row = table.iloc[i]
        note = versus(row["time"], reference) if own and i != own[0] else ""
        kind = _mark(made, names[i], yours) or "other"
        rows.append(svg.Row(names[i], row["time"], kind, row["low"], row["high"], note))
    out = len(names) - len(chosen)
    left_out = f"{counted(out, 'candidate')} between are not drawn" if out else ""
    every = table["time"].tolist()
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


def _table(made: Plan, top: int | None) -> TableBlock:
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
    return TableBlock(
        rows,
        "" if top else "All candidates",
        marks=[_mark(made, str(name), yours) for name in made.table["mapping"]],
        keep=4,
        top=top,
        key="" if top else "candidates",
    )


def _runs(made: Plan) -> list[Section]:
    """Return the runs in order, the best of them so far, and how far the forecast was from them."""
    runs = made.runs
    assert runs is not None
    names = [runs.names[i] for i in runs.which]
    scale, unit = time_unit(runs.seconds)
    at = np.arange(1, len(names) + 1)
    is_best = np.array([name == made.name_of(made.best) for name in names])
    kinds = (
        ("the best", "best", is_best & ~runs.is_outlier),
        ("another", "other", ~is_best & ~runs.is_outlier),
        ("left out", "yours", runs.is_outlier),
    )
    series = [
        svg.Series(
            label,
            kind,
            at[chosen],
            runs.seconds[chosen] / scale,
            [shown_name(names[i]) for i in np.flatnonzero(chosen)],
        )
        for label, kind, chosen in kinds
        if chosen.any()
    ]
    charts = [
        Chart(
            "runs",
            "Runs, in the order of the table",
            f"{counted(len(names), 'run')}, {seconds(runs.seconds.min())} to "
            f"{seconds(runs.seconds.max())}.",
            lambda: svg.plot(series, "run", f"measured, {unit}", from_zero=False),
        ),
        Chart(
            "so-far",
            "Best measured so far",
            "The shortest time of a run, after each run.",
            lambda: svg.plot(
                [svg.Series("", "best", at, np.minimum.accumulate(runs.seconds) / scale)],
                "run",
                f"measured, {unit}",
                lines=True,
                from_zero=False,
            ),
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
    labels = [shown_name(runs.names[i]) for i in runs.which]
    series = svg.Series("", "best", np.arange(1, len(labels) + 1), runs.seconds / scale, labels)
    return Chart("runs", "", "", lambda: svg.plot([series], "run", f"measured, {unit}"))
