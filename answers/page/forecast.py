"""The page of a forecast: the answer, the candidates, the torus, the traffic, the model."""

from __future__ import annotations

from collections.abc import Sequence

from toruscast.training import Forecast
from toruscast.wording import counted, shown_name

from .. import words
from ..units import nbytes, number, percent, seconds, time_unit
from . import charts
from .html import Section, chart, details, paragraph, sentences, table
from .learned import of_runs
from .network import Candidate
from .views import View, facts_of, launcher_file, origin_section, torus_section, traffic_section


def sections_of(found: Forecast, inputs: Sequence[tuple[str, str]]) -> list[Section]:
    """Return the parts of the page; ``inputs`` are what it was made from, by name."""
    several = [
        Candidate(row["mapping"], found.named(row["mapping"]), row["time"])
        for row in found.table.to_dict("records")
    ]
    view = View(found.workload, found.torus, several, found.routing)
    return [
        _answer(found, view),
        _candidates(found),
        torus_section(view),
        traffic_section(view),
        *_basis(found),
        origin_section(*facts_of(view), *inputs),
    ]


def _answer(found: Forecast, view: View) -> Section:
    content = f'<p class="answer">{sentences(words.answer(found))}</p>\n'
    content += paragraph(words.trust(found))
    unknown = [
        "Times are of one exchange of messages on this network alone: computation and other jobs "
        "are not in them."
    ]
    if found.routing != "deterministic":
        unknown.append("Packets choose their way here, so loads of links are expected values.")
    content += paragraph(*unknown)
    content += launcher_file(view)
    return Section("The answer", content)


def _basis(found: Forecast) -> list[Section]:
    """What the forecast rests on: a model, measured times, or nothing but simulations."""
    if found.networks is not None:
        return []
    return [_model(found)] if found.learned is None else of_runs(found.learned)


def _candidates(found: Forecast) -> Section:
    known = found.table
    scale, unit = time_unit(known["time"])
    best = known.iloc[0]
    described = (
        f"{counted(len(known), 'candidate')}, best first; the fastest takes "
        f"{seconds(best['time'])}, the slowest {seconds(known['time'].max())}."
    )
    several = {
        "candidate-times": charts.candidates(known, scale, unit, found.coverage),
        "hop-bytes": charts.scatter(known, "hop_bytes", "hop-bytes", scale, unit),
        "busiest-link": charts.scatter(
            known, "max_bytes", "bytes on the busiest link", scale, unit
        ),
    }
    content = chart("candidate-times", "Times of the candidates", described)
    if found.verdict.rivals:
        named = ", ".join(map(shown_name, found.verdict.rivals[:10]))
        content += paragraph(f"Cannot be told apart from the best: {named}.")
    content += '<div class="pair">'
    content += chart(
        "hop-bytes",
        "Time over hop-bytes",
        f"Rank correlation {_correlation(found, 'hop_bytes')}: hop-bytes alone do not order "
        "mappings where points lie off a line.",
    )
    content += chart(
        "busiest-link",
        "Time over the busiest link",
        f"Rank correlation {_correlation(found, 'max_bytes')}.",
    )
    content += "</div>\n"
    head = ["rank", "mapping", f"time, {unit}", "found out by", "interval", "chance to be fastest"]
    head += [f"lower bound, {unit}", "busiest link", "hops a byte", "fullest FIFO"]
    rows = [
        (
            str(row["rank"]),
            row["mapping"],
            number(row["time"] / scale),
            row["how"],
            "exact"
            if row["low"] == row["high"]
            else f"{number(row['low'] / scale)} to {number(row['high'] / scale)}",
            percent(row["p_best"]),
            number(row["lower_bound"] / scale) if row["lower_bound"] >= 0 else "-",
            nbytes(row["max_bytes"]),
            number(row["avg_hops_per_byte"]),
            f"{row['max_FIFO']:.0f}",
        )
        for row in known.to_dict("records")
    ]
    content += details("All candidates as a table", table(head, rows, "Candidates, best first", 2))
    return Section("Candidates", content, charts=several)


def _correlation(found: Forecast, column: str) -> str:
    """Return how far a metric orders the candidates as their times do."""
    from scipy.stats import spearmanr

    values = found.table[[column, "time"]]
    if (values.nunique() < 2).any():
        return "not defined"
    return f"{spearmanr(values[column], values['time']).statistic:.2f}"


def _model(found: Forecast) -> Section:
    model = found.model
    names = [str(feature) for feature in model.feature_names_in_]
    content = paragraph(
        f"The model learned from {model.n_samples_} samples; it reads "
        f"{counted(len(names), 'feature')} of each mapping."
    )
    several = {
        "importance": charts.importance(names, model.feature_importances_),
    }
    content += '<div class="pair">'
    content += chart(
        "importance", "What the forecast rests on", "Importance of the features in the trees."
    )
    if found.scores and "observed_time" in found.table:
        rows = found.table[found.table["how"] == "forecast"]
        if len(rows) > 1:
            scale, unit = time_unit(rows["time"])
            several["observed"] = charts.observed(rows, scale, unit)
            content += chart(
                "observed",
                "Forecast against simulated times",
                f"{counted(len(rows), 'candidate')} that only the check simulated; "
                f"RCC over all {found.scores['rcc']:.3f}.",
            )
    content += "</div>\n"
    return Section("The model", content, charts=several)


def title(found: Forecast) -> str:
    """Return the title of the page."""
    return f"{found.workload.total.name or 'Application'} on {found.torus}"
