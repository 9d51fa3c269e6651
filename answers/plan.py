"""The answer of `plan`: which mapping to run next on the machine, and whether the runs suffice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from toruscast._slow import pandas as pd
from toruscast.decision import Plan, Runs
from toruscast.decision.results import default_order
from toruscast.mapping import TaskMapping
from toruscast.text import counted, joined, percent, seconds, shown_name, time_unit

from . import svg
from .blocks import Answer, Chart, Headline, Section
from .candidates import (
    DEFAULT_ORDER,
    CandidateRanking,
    badge,
    how_sure,
    indistinguishable,
    less,
    setting_of,
)
from .learned import times_against
from .table import Column, Table, records

# Next runs of a page.
_NEXT = 3


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
    table, ranking = _sorted(made), _ranking(made)
    chosen = upcoming or []
    if upcoming is None and not made.is_enough and len(made.names) > 1:
        chosen = made.ask(min(_NEXT, len(made.names)))
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
    sections = [Section("How much faster", [times_chart(made)], wide=False, only="page")]
    by_name = dict(zip(made.names, made.mappings, strict=True))
    view = ranking.view(made.problem, [by_name[name] for name in ranking.names])
    sections += [*view.why(), *_runs(made), *view.where(), view.traffic()]
    about = setting_of(made.problem)
    runs = _runs_made(made, times)
    return view.answer(
        _headline(made, ranking),
        setting=f"{setting}; {runs}." if setting else f"{about}, {runs}",
        title=f"Plan of runs: {about}",
        badge=badge(made.verdict, made.problem.workload) if len(made.names) > 1 else "",
        notes=notes,
        table=candidates(made, top),
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
            "mappings": records(table),
        },
        file=view.launcher_file(),
    )


def candidates(made: Plan, top: int = 10) -> Table:
    """Return the mappings, the fastest first, with their runs and likely times."""
    ranking = _ranking(made)
    columns = [
        Column("mapping", kind="name"),
        Column("runs", kind="count"),
        Column("measured", kind="seconds"),
        Column("time", "likely", "seconds", priority=0),
        Column("low", "90 % interval", "seconds", to="high", priority=2),
        Column("p_best", "P(best)", "share", priority=2),
    ]
    return Table(
        _sorted(made),
        columns,
        "All candidates",
        best=ranking.best,
        yours=ranking.yours,
        top=top,
        key="candidates",
    )


def _sorted(made: Plan) -> pd.DataFrame:
    """Return the mappings, the fastest first."""
    return made.table.sort_values("time", kind="stable", ignore_index=True)


def _ranking(made: Plan) -> CandidateRanking:
    table = _sorted(made)
    names = [str(name) for name in table["mapping"]]
    yours = default_order(made.mappings, made.names, made.problem.torus)
    return CandidateRanking(
        names,
        table["time"].tolist(),
        None if yours is None else names.index(made.names[yours]),
        names.index(made.name_of(made.best)),
        ends=[*zip(table["low"], table["high"], strict=True)],
    )


def _headline(made: Plan, ranking: CandidateRanking) -> Headline:
    """Return which mapping to use or to run first, and how much that gains."""
    best, gain = shown_name(ranking.names[ranking.best]), ""
    is_kept = ranking.yours == ranking.best
    if ranking.yours is not None and not is_kept:
        gain, yours, runs = f", {ranking.gain()}", ranking.names[ranking.yours], made.runs
        if runs is not None and yours not in {runs.names[i] for i in runs.which[~made.disturbed]}:
            gain = f", {less(made.ratio_to(yours), 1.0, DEFAULT_ORDER)} (not measured)"
    if made.runs is None:
        if len(made.names) == 1:
            return Headline("", best, " is the only mapping: there is nothing to choose.")
        return Headline("Nothing was run yet; ", best, f" is forecast to be the fastest{gain}.")
    before, after = "Use ", ": "
    if made.verdict.kind == "undecided":
        before, after = "", " leads: "
    elif is_kept:
        before = f"Keep {DEFAULT_ORDER}, "
    row = _sorted(made).iloc[ranking.best]
    time = f"{seconds(row['measured'])} measured in {counted(int(row['runs']), 'run')}"
    return Headline(before, best, f"{after}{time}{gain}")


def _how_sure(made: Plan) -> str:
    """Return how sure the choice is, and what more runs would gain."""
    verdict = made.verdict
    # A gain in draws of the posterior is never known to be none.
    most = f"at most {percent(made.gain, 1)}" if made.gain >= 0.0005 else "< 0.1 %"
    gain = f"More runs would gain {most}."
    if verdict.kind == "indistinguishable":
        below = f" without {counted(made.more_runs, 'more run')}" if made.more_runs else ""
        gain = indistinguishable(verdict, below)
    if verdict.kind == "not_worth_more":
        gain = f"All further runs together would gain {percent(made.mean_gain, 1)} in the mean."
        if made.next_gain < (made.run_cost or 0):
            next_gain = seconds(made.next_gain)
            gain = f"Another run is expected to gain {next_gain}, less than its price."
    return f"{how_sure(verdict)} {gain}"


def _runs_made(made: Plan, times: str | None) -> str:
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
        names = dict.fromkeys(runs.names[i] for i in runs.which[made.disturbed])
        text += f" Left out, as something likely slowed them down: {joined(names, len(names))}."
    if runs.drift:
        text += f" Times drift by {percent(runs.drift, 1)} from the first run to the last."
    return text


def times_chart(made: Plan) -> Chart:
    """Return the likely times of the five best, the default order and the slowest."""
    table, ranking = _sorted(made), _ranking(made)
    measured = int((table["runs"] > 0).sum())
    return ranking.chart(
        "What a run likely takes without noise",
        f" Bars are 90 % intervals; {measured} of {len(table)} were measured.",
        every=ranking.times,
    )


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
                ("predicted", [said[name] for name in names]),
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
