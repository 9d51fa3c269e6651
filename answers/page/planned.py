"""The page of a plan of runs: what they say so far, and which is next."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from toruscast.training import Plan
from toruscast.training.plan.next_run import COVERAGE
from toruscast.wording import counted, shown_name

from .. import planned
from ..units import number, percent, seconds, time_unit
from . import charts, learning_charts
from .html import Section, chart, details, paragraph, sentences, table
from .network import Candidate
from .views import View, facts_of, launcher_file, origin_section, torus_section, traffic_section

# Runs that are named as the next ones.
_NEXT = 3


def sections_of(made: Plan, inputs: Sequence[tuple[str, str]]) -> list[Section]:
    """Return the parts of the page; ``inputs`` are what it was made from, by name."""
    sections = [_answer(made), _candidates(made)]
    if made.runs is not None:
        sections.append(_runs(made))
    view = _view(made)
    if view is None:
        return [*sections, origin_section(*inputs)]
    first = sections[0]
    sections[0] = Section(first.title, first.content + launcher_file(view))
    sections += [torus_section(view), traffic_section(view)]
    return [*sections, origin_section(*facts_of(view), *inputs)]


def title(made: Plan) -> str:
    """Return the title of the page."""
    called = (made.workload.total.name if made.workload else "") or "Application"
    torus = made.mappings[0].torus
    return f"{called}{f' on {torus}' if torus else ''}: plan of runs"


def _view(made: Plan) -> View | None:
    """Return the traffic under the mappings, best first, where the plan knows it."""
    torus = made.mappings[0].torus
    if made.workload is None or torus is None:
        return None
    by_name = dict(zip(made.names, made.mappings, strict=True))
    several = [
        Candidate(row["mapping"], by_name[row["mapping"]], row["time"])
        for row in made.table.to_dict("records")
    ]
    return View(made.workload, torus, several, made.routing)


def _answer(made: Plan) -> Section:
    content = f'<p class="answer">{sentences(planned.standing_line(made))}</p>\n'
    content += paragraph(f"So far: {planned.runs_made(made)}.", planned.besides(made))
    if made.is_enough:
        content += paragraph("The runs are enough.")
    elif len(made.names) > 1:
        upcoming = made.ask(min(_NEXT, len(made.names)))
        named = ", ".join(shown_name(made.name_of(mapping)) for mapping in upcoming)
        content += paragraph(
            f"What would help most: runs of {named}."
            if len(upcoming) > 1
            else f"What would help most: a run of {named}."
        )
    return Section("The answer", content)


def _candidates(made: Plan) -> Section:
    known = made.table.assign(rank=np.arange(1, len(made.table) + 1))
    scale, unit = time_unit(known["time"])
    several = {"candidate-times": charts.candidates(known, scale, unit, COVERAGE)}
    measured = int((known["runs"] > 0).sum())
    described = (
        f"{counted(len(known), 'candidate')}, best first, {measured} of them measured: what a run "
        "likely takes without noise."
    )
    content = chart("candidate-times", "Likely times of the candidates", described)
    head = ["rank", "mapping", "runs", f"measured, {unit}", f"likely, {unit}", "interval"]
    rows = [
        (
            str(row["rank"]),
            row["mapping"],
            str(row["runs"]),
            number(row["measured"] / scale) if row["runs"] else "-",
            number(row["time"] / scale),
            f"{number(row['low'] / scale)} to {number(row['high'] / scale)}",
            percent(row["p_best"]),
        )
        for row in known.to_dict("records")
    ]
    head.append("chance to be fastest")
    content += details("All candidates as a table", table(head, rows, "Candidates, best first", 2))
    return Section("Candidates", content, charts=several)


def _runs(made: Plan) -> Section:
    """Return the runs in order, and how far the forecast was from them."""
    runs = made.runs
    assert runs is not None
    names = [runs.names[i] for i in runs.which]
    best = made.standing.best
    kind = ["the best" if name == best else "another" for name in names]
    kind = ["left out" if out else each for out, each in zip(runs.is_outlier, kind, strict=True)]
    ran = pd.DataFrame({"mapping": names, "time": runs.seconds, "kind": kind})
    scale, unit = time_unit(ran["time"])
    several = {"runs": learning_charts.runs_in_order(ran, scale, unit)}
    content = '<div class="pair">' + chart(
        "runs",
        "Runs, in the order of the table",
        f"{counted(len(ran), 'run')}, {seconds(ran['time'].min())} to "
        f"{seconds(ran['time'].max())}.",
    )
    compared = pd.DataFrame({"mapping": made.names, "said": made.forecast_times()})
    compared = compared.merge(made.table[["mapping", "measured"]], on="mapping").dropna()
    if len(compared) > 1:
        x, y = compared["said"], compared["measured"]
        several["observed"] = charts.scatter(
            compared.rename(columns={"measured": "time"}).assign(how="measured", said=x / scale),
            "said",
            f"time of the network alone as forecast before, {unit}",
            scale,
            unit,
        )
        told = "Not on a line through 0 where runs hold computation and software too."
        if min(x.nunique(), y.nunique()) > 1:
            told = f"Rank correlation {x.corr(y, method='spearman'):.2f}. {told}"
        content += chart("observed", "Measured against forecast times", told)
    return Section("The runs", f"{content}</div>\n", charts=several)
