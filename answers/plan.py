"""Answer of `plan`: the mapping to run next, and whether the runs suffice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np

from toruscast._slow import pandas as pd
from toruscast.decision import Plan, Runs
from toruscast.decision.results import default_order
from toruscast.mapping import TaskMapping
from toruscast.text import counted, joined, percent, probability, seconds, shown_name, time_unit

from . import svg
from .blocks import Answer, Chart, Headline, Section
from .candidates import (
    DEFAULT_ORDER,
    CandidateRanking,
    certainty_badge,
    compare_times,
    describe_certainty,
    describe_problem,
    describe_rivals,
)
from .table import Column, Table, records

# Maximum number of next runs to suggest.
_MAX_NEXT = 3
# Smaller gains would be rounded to 0.0 %.
_MIN_GAIN = 0.0005
# Omit the mapping-independent share of the time if it is smaller than this.
_MIN_CONSTANT = 0.01
# Minimum number of runs for a chart of the runs.
_MIN_RUNS = 5


def answer(
    plan: Plan,
    *,
    upcoming: Sequence[TaskMapping] | None = None,
    written: Mapping[Path, str] | None = None,
    times: str | None = None,
    setting: str = "",
    top: int = 10,
) -> Answer:
    """Return the answer; ``top`` limits the rows in a terminal.

    ``upcoming`` are the mappings to run next. ``written`` holds the written mapping files, each
    with advice on its use. ``times`` is the file of the runs so far.
    """
    chosen = _choose_next(plan) if upcoming is None else upcoming
    ranking, notes = _rank_candidates(plan, chosen), []
    named = ", ".join(shown_name(plan.name_of(mapping)) for mapping in chosen)
    headline, leader = _make_headline(plan, ranking, named)
    if leader:
        notes += [_explain_next(plan, plan.name_of(chosen[0])), leader]
    elif chosen:
        notes.append(f"Run next: {named}.")
    elif not chosen and plan.is_enough:
        notes.append("No more runs are needed.")
    elif not chosen and len(plan.names) > 1:
        notes.append(f"All {counted(plan.n_runs, 'run')} of --runs are done.")
    notes += [] if plan.runs is None else [_describe_certainty(plan)]
    notes.append(describe_noise(plan))
    for path, advice in (written or {}).items():
        use = f"; to use it: {advice}" if advice else ""
        notes.append(f"Written: {shown_name(path)}{use}")
    by_name = dict(zip(plan.names, plan.mappings, strict=True))
    mappings = [by_name[name] for name in ranking.names]
    traffic = ranking.compare_traffic(plan.problem, mappings, plan.runs is None)
    drawn = plan.runs if plan.n_runs >= _MIN_RUNS else None
    run_charts = [] if drawn is None else [runs_chart(drawn, plan.name_of(plan.best))]
    sections = [
        Section("How much faster", [times_chart(plan, ranking)], wide=False, only="page"),
        *traffic.limit_sections(),
        *(Section("Runs", [chart], wide=False, only="page") for chart in run_charts),
        *traffic.link_sections(),
        traffic.traffic_section(),
    ]
    about = describe_problem(plan.problem)
    file = "" if times is None else f" in {shown_name(times)}"
    runs = f"no run{file} yet"
    if plan.runs is not None:
        runs = f"{counted(plan.n_runs, 'run')} of {counted(len(plan.runs.names), 'mapping')}{file}"
    return traffic.answer(
        headline,
        setting=f"{setting}; {runs}." if setting else f"{about}, {runs}",
        title=f"Plan of runs: {about}",
        badge=certainty_badge(plan.verdict, plan.problem.workload) if len(plan.names) > 1 else "",
        notes=notes,
        table=candidate_table(plan, top),
        sections=sections,
        content={
            "runs": plan.n_runs,
            "next": [plan.name_of(mapping) for mapping in chosen],
            "written": [str(path) for path in written or {}],
            "verdict": {
                **asdict(plan.verdict),
                "best": plan.name_of(plan.best),
                "gain": plan.gain,
                "noise": plan.noise_share,
                "noise_from": plan.noise_from,
                "constant": plan.constant_share,
                "more_runs": plan.more_runs,
                "next_gain": plan.next_gain,
            },
            "enough": plan.is_enough,
            "mappings": records(_sort_table(plan)),
        },
        file=traffic.launcher_file(chosen[0] if leader else None),
    )


def _choose_next(plan: Plan) -> Sequence[TaskMapping]:
    has_choice = len(plan.names) > 1 and not plan.is_enough
    return plan.ask(min(_MAX_NEXT, len(plan.names))) if has_choice else []


def candidate_table(plan: Plan, top: int = 10) -> Table:
    """Return a table of the mappings with runs and expected times, the fastest first."""
    ranking = _rank_candidates(plan)
    columns = [
        Column("mapping", kind="name"),
        Column("runs", kind="count"),
        Column("measured", kind="seconds"),
        Column("time", "expected", "seconds", priority=0),
        Column("low", "90 % interval", "seconds", to="high", priority=2),
        Column("p_best", "P(best)", "share"),
    ]
    return Table(
        _sort_table(plan),
        columns,
        "All candidates",
        best=ranking.best,
        yours=ranking.yours,
        top=top,
        key="candidates",
    )


def _sort_table(plan: Plan) -> pd.DataFrame:
    return plan.table.sort_values("time", kind="stable", ignore_index=True)


def _rank_candidates(plan: Plan, upcoming: Sequence[TaskMapping] = ()) -> CandidateRanking:
    """Return the mappings by expected time, and mark the ``upcoming`` ones."""
    table = _sort_table(plan)
    names = [str(name) for name in table["mapping"]]
    yours = default_order(plan.mappings, plan.names, plan.problem.torus)
    return CandidateRanking(
        names,
        table["time"].tolist(),
        yours=None if yours is None else names.index(plan.names[yours]),
        best=names.index(plan.name_of(plan.best)),
        intervals=[*zip(table["low"], table["high"], strict=True)],
        upcoming=[plan.name_of(mapping) for mapping in upcoming],
        predicted={*table["mapping"][table["runs"] == 0]},
    )


def _explain_next(plan: Plan, name: str) -> str:
    """Return a sentence that says why a mapping runs next."""
    row = plan.table[plan.table["mapping"] == name].iloc[0]
    runs = f"Measured {int(row['runs'])} times" if row["runs"] else "Not measured yet"
    interval = f"{seconds(row['low'])} to {seconds(row['high'])} expected"
    return f"{runs}: {interval}, {probability(row['p_best'])} likely to be the fastest."


def _make_headline(plan: Plan, ranking: CandidateRanking, upcoming: str) -> tuple[Headline, str]:
    """Return the headline; if it is about the next run, also return a sentence about the best."""
    best, gain = shown_name(ranking.names[ranking.best]), ""
    is_kept = ranking.yours == ranking.best
    if ranking.yours is not None and not is_kept:
        yours, runs = ranking.names[ranking.yours], plan.runs
        gain = f", {ranking.describe_gain()}"
        if runs is not None and yours not in {runs.names[i] for i in runs.which[~plan.disturbed]}:
            gain = f", {compare_times(plan.ratio_to(yours), 1.0, DEFAULT_ORDER)} (not measured)"
    if plan.runs is None:
        if len(plan.names) == 1:
            return Headline("", best, " is the only mapping, so there is nothing to choose."), ""
        return Headline("No runs yet; ", best, f" is predicted to be the fastest{gain}."), ""
    row = _sort_table(plan).iloc[ranking.best]
    time = f"{seconds(row['measured'])} measured in {counted(int(row['runs']), 'run')}"
    if plan.verdict.kind != "undecided":
        use = f"Keep {DEFAULT_ORDER}, " if is_kept else "Use "
        return Headline(use, best, f": {time}{gain}"), ""
    if upcoming:
        return Headline("Run next: ", upcoming, kind="third"), f"{best} leads: {time}{gain}."
    return Headline("", best, f" leads: {time}{gain}"), ""


def _describe_certainty(plan: Plan) -> str:
    """Return sentences with the certainty of the best, and the gain from more runs."""
    verdict = plan.verdict
    # The gain is estimated from random samples, so do not claim that it is 0 %.
    limit = f"at most {percent(plan.gain, 1)}" if plan.gain >= _MIN_GAIN else "< 0.1 %"
    gain = f"More runs would gain {limit}."
    if verdict.kind == "indistinguishable":
        condition = f" without {counted(plan.more_runs, 'more run')}" if plan.more_runs else ""
        gain = describe_rivals(verdict, condition)
    if verdict.kind == "not_worth_more":
        gain = f"More runs would gain about {percent(plan.mean_gain, 1)}."
        if plan.next_gain < (plan.run_cost or 0):
            next_gain = seconds(plan.next_gain)
            gain = f"Another run would gain about {next_gain}, less than it costs."
    return f"{describe_certainty(verdict)} {gain}"


def describe_noise(plan: Plan) -> str:
    """Return sentences about noise, mapping-independent time, outliers and drift."""
    runs, noise = plan.runs, percent(plan.noise_share, 1)
    if runs is None:
        source = "simulated" if plan.is_simulated else "predicted"
        return f"Times are {source} and include the network only."
    text = {
        "user": f"Noise of a run: {noise}, as given.",
        "repetitions": f"Noise of a run: {noise}, from repeated runs.",
        "nothing": f"Noise of a run: about {noise}, a guess without repeated runs. Set it with "
        "--noise.",
    }[plan.noise_from]
    if len(runs.names) > 2 and plan.constant_share >= _MIN_CONSTANT:
        text += f" About {percent(plan.constant_share)} of a run does not depend on the mapping."
    if plan.disturbed.any():
        names = dict.fromkeys(runs.names[i] for i in runs.which[plan.disturbed])
        text += f" Left out, because they were probably disturbed: {joined(names, len(names))}."
    if runs.drift:
        text += f" Times drift by {percent(runs.drift, 1)} from the first run to the last."
    return text


def times_chart(plan: Plan, ranking: CandidateRanking | None = None) -> Chart:
    """Return a chart of the expected times of the five best, the default order and the slowest."""
    ranking = ranking or _rank_candidates(plan, _choose_next(plan))
    return ranking.chart(
        "Expected time of a run without noise",
        " Whiskers are 90 % intervals.",
        ticks=ranking.times,
    )


def runs_chart(runs: Runs, best: str = "") -> Chart:
    """Return a chart of the times of all runs and the shortest so far; ``best`` is highlighted."""
    scale, unit = time_unit(runs.seconds)
    numbers, minimum = np.arange(1, len(runs.which) + 1), np.minimum.accumulate(runs.seconds)
    # Draw a step function: the minimum is constant between two runs.
    x, y = np.repeat(numbers, 2)[1:], np.repeat(minimum / scale, 2)[:-1]
    series = [svg.Series("shortest so far", "other", x, y, style="line")]
    names = np.array([shown_name(runs.names[i]) for i in runs.which])
    is_best = names == shown_name(best)
    for label, kind, chosen in (
        (best, "best", is_best & ~runs.is_outlier),
        ("other mappings" if best else "runs", "other", ~is_best & ~runs.is_outlier),
        ("left out", "yours", runs.is_outlier),
    ):
        if chosen.any():
            x, y = numbers[chosen], runs.seconds[chosen] / scale
            series.append(svg.Series(label, kind, x, y, names[chosen].tolist()))
    draw = partial(svg.draw_plot, series, "run", f"measured, {unit}", from_zero=False)
    span = f"{seconds(runs.seconds.min())} to {seconds(runs.seconds.max())}"
    lead = f"{counted(len(numbers), 'run')}, {span}, in the order of the table."
    return Chart("runs", "", lead, draw)
