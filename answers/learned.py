"""The answer of a model that was trained: how good it is, what it rests on, what it would need."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeGuard, cast

import numpy as np
from numpy.typing import ArrayLike

from toruscast._lazy import LazyModule
from toruscast._slow import pandas as pd
from toruscast.text import counted, number, percent, shown_name, time_unit
from toruscast.training.feature_sets import describe_reference

from . import svg
from .blocks import Answer, Block, Chart, Headline, Section, Sentence
from .table import Column, Table

if TYPE_CHECKING:
    from toruscast.decision import RunModel, Runs
    from toruscast.training import Training
    from toruscast.training import evaluation as curves
else:
    # It trains, with scikit-learn.
    curves = LazyModule("toruscast.training.evaluation")

# Outliers that are named.
_NAMED = 3
# Samples that are needed on both sides of the smallest split.
_FEWEST = 12
# A gain in RCC from twice the samples that is worth them.
_WORTH = 0.01
# What of the samples' own words is told; the command and versions stand there anyway.
_ORIGIN = ("graphs", "tori", "routing", "seed", "times", "created")


def _is_measured(found: Training | RunModel) -> TypeGuard[RunModel]:
    """Whether times of a machine were learned; asked so, scikit-learn is not loaded."""
    return hasattr(found, "runs")


def learned_content(found: RunModel | None) -> dict[str, Any] | None:
    """Return what runs taught for programs; None where nothing was measured."""
    if found is None:
        return None
    runs = found.runs
    return {
        "constant": found.line.constant,
        "slope": found.line.slope,
        "reference": found.model.reference,
        "corrected": found.corrected,
        "mappings": len(runs.names),
        "runs": len(runs.seconds),
        "noise": runs.noise,
        "drift": runs.drift,
        "outliers": [runs.names[runs.which[row]] for row in runs.outliers],
        "scores": found.scores,
        "tried": found.held_out.reset_index().to_dict("records"),
    }


def learned_lines(found: RunModel) -> list[str]:
    """Return what was learned, whether features add to it, and what noise lets anybody know."""
    return [_line(found), _offer(found), *_noise(found.runs, found.scores), *_oddities(found.runs)]


def _line(found: RunModel) -> str:
    """How much of the time does not depend on the mapping, and what the rest follows."""
    median = float(np.median(found.runs.times))
    scale, unit = time_unit([median])
    reference = describe_reference(found.model.reference)
    if not found.line.slope:
        return f"The times do not follow {reference}."
    constant, slope = number(found.line.constant / scale), number(found.line.slope)
    return (
        f"Of {number(median / scale, 4)} {unit}, the median, {constant} {unit} do not depend on "
        f"the mapping; the rest is {slope} times {reference}."
    )


def _offer(found: RunModel) -> str:
    """Which model is offered, and how much better it is on held-out times."""
    scores = found.scores
    miss, plain = (percent(scores[key], digits=2) for key in ("miss", "miss_of_line"))
    if found.corrected:
        return (
            f"Features correct this line: its error on held-out times is {plain} in the mean, with "
            f"features {miss}."
        )
    return (
        f"This line is the model: its error on held-out times is {miss} in the mean, and features "
        "do not improve that by a tenth."
    )


def _noise(runs: Runs, scores: dict[str, float]) -> list[str]:
    """How far the runs of one mapping differ, and what order that leaves possible."""
    reached = f"Held-out mappings are ordered with an RCC of {scores['rcc']:.3f}"
    if math.isnan(runs.noise):
        return [
            f"{reached}. Every mapping ran once, so that the noise is not known: all that the "
            "model does not explain counts as such. A second run of some mappings would show it."
        ]
    if not runs.noise:
        return [f"{reached}. Runs of one mapping do not differ."]
    noise, tied = percent(runs.noise, digits=2), percent(scores["tied"], digits=2)
    return [
        f"{reached}; at this noise no forecast can reach more than {scores['rcc_possible']:.3f}. "
        f"Runs of one mapping vary by {noise}: {tied} of the pairs cannot be told apart at this "
        "noise."
    ]


def _oddities(runs: Runs) -> list[str]:
    """A drift over the rows, and runs that lie far from the others of their mapping."""
    lines = []
    if runs.drift:
        way = "longer" if runs.drift > 0 else "shorter"
        share = percent(abs(runs.drift), digits=2)
        lines.append(
            f"Runs took {share} {way} at the end of the table than at its "
            "beginning: run the mappings in a random order, several times."
        )
    rows = runs.outliers
    told = []
    for row in rows[:_NAMED]:
        number = int(runs.which[row])
        where = f" (line {runs.lines[row]})" if runs.lines else ""
        ratio = runs.seconds[row] / runs.times[number]
        told.append(f"{shown_name(runs.names[number])}{where}, {ratio:.2g} times its median")
    more = f" and {rows.size - _NAMED} more" if rows.size > _NAMED else ""
    if told:
        lines.append(f"{counted(rows.size, 'outlier')}: {'; '.join(told)}{more}.")
    return lines


def answer(
    found: Training | RunModel,
    *,
    quality: pd.DataFrame | None = None,
    setting: str = "",
    file: str = "",
) -> Answer:
    """Return what a trained model says of itself; ``file`` is where it was saved.

    ``quality`` is of `summarise`, where it is not part of what was found.
    """
    model = found.model
    source = "measured times" if _is_measured(found) else "simulated samples"
    facts = [
        ("samples", str(model.n_samples_)),
        ("target", model.target),
        *((key, str(model.provenance_[key])) for key in _ORIGIN if model.provenance_.get(key)),
    ]
    title = f"A model that learned from {model.n_samples_} {source}"
    rests_on = Section("What the model rests on", [_rests_on(found)], wide=False)
    if _is_measured(found):
        first, *notes = learned_lines(found)
        seen = Section("Observed against forecast", [observed_chart(found), _tried(found)])
        scored = [] if quality is None else [_scored(quality)]
        sections = [seen, *scored, rests_on]
    else:
        trained = cast("Training", found)
        quality = trained.table
        rcc = quality[quality["metric"] == "rcc"].iloc[0]
        first = (
            f"{percent(rcc['mean'])} of the pairs of held-out mappings are in the right order "
            f"(RCC {rcc['mean']:.3f}"
        )
        if np.isfinite(rcc["low"]):
            first += f"; {rcc['low']:.3f} to {rcc['high']:.3f} in 95 % of the splits"
        first += ")."
        # Tables made elsewhere name their source.
        is_simulated = "source" not in trained.samples.attrs.get("provenance", {})
        notes = ["Times are simulated: how far a machine follows them is not known."] * is_simulated
        sections = [_scored(quality), rests_on]
        if len(trained.samples) >= _FEWEST:
            grown = functools.partial(_growth, trained)
            sections.append(Section("Held-out samples", grown, only="page"))
    return Answer(
        setting=setting or title,
        headline=Headline(first),
        notes=notes,
        sections=sections,
        content=_content(found, quality, file),
        omitted=None if found.problem is None else found.problem.workload.omitted,
        table=Table(pd.DataFrame() if quality is None else quality, ()),
        facts=facts,
        title=title,
    )


def _content(found: Training | RunModel, quality: pd.DataFrame | None, file: str) -> dict[str, Any]:
    """Return what was trained, for programs."""
    model = found.model
    names = [str(name) for name in model.feature_names_in_]
    content: dict[str, Any] = {
        "model": file,
        "n_samples": model.n_samples_,
        "features": names,
        "importances": dict(zip(names, model.feature_importances_, strict=True)),
        "target": model.target,
        "quality": [] if quality is None else quality.to_dict("records"),
    }
    if _is_measured(found):
        content["learned"] = learned_content(found)
    return content


METRICS = {
    "rcc": ("RCC", "share of pairs of mappings in the right order"),
    "tau_b": ("tau-b", "Kendall's rank correlation"),
    "r2": ("R^2", "share of the variance explained"),
    "regret_1": ("regret@1", "part of the time lost by taking the mapping predicted fastest"),
    "regret_5": ("regret@5", "the same, after trying the five predicted fastest"),
}


def _scored(quality: pd.DataFrame) -> Section:
    """Return the scores of one predictor over repeated splits, as `summarise` gives them."""
    known = quality[quality["metric"].isin(METRICS)]
    names, meanings = zip(*map(METRICS.get, known["metric"]), strict=True)
    columns = [
        Column("score", kind="name"),
        Column("mean", kind="decimal"),
        Column("low", "95 % of splits", "decimal", to="high"),
        Column("meaning", "what it is"),
    ]
    frame = known.assign(score=names, meaning=meanings)
    title = "Quality on held-out mappings, over repeated splits"
    return Section("", [Table(frame, columns, title)], wide=False)


def observed_chart(found: RunModel) -> Chart:
    """Return measured times against forecasts of them by models that had not seen them."""
    said = found.predicted.mean(axis=0)
    return _observed(found.runs.names, found.runs.times, said, "measured")


def _observed(labels: Sequence[str], times: ArrayLike, said: ArrayLike, how: str) -> Chart:
    lead = f"{counted(len(labels), 'mapping')}, each forecast by a model that had not seen it."
    title = f"Forecast against {how} times"
    return times_against("observed", title, lead, (how, times), ("predicted", said), labels)


def times_against(
    key: str,
    title: str,
    lead: str,
    x: tuple[str, ArrayLike],
    y: tuple[str, ArrayLike],
    labels: Sequence[str],
    *,
    diagonal: bool = True,
) -> Chart:
    """Return times of mappings against others, each with its name."""
    scale, unit = time_unit(np.asarray(y[1]))
    at, values = (np.asarray(times) / scale for _, times in (x, y))
    series = svg.Series("", "best", at, values, list(map(shown_name, labels)))
    heads = f"{x[0]}, {unit}", f"{y[0]}, {unit}"
    return Chart(key, title, lead, lambda: svg.plot([series], *heads, diagonal=diagonal))


def _tried(found: RunModel) -> Table:
    columns = [
        Column("model", kind="name"),
        Column("miss", "mean error", "share"),
        Column("offered", kind="flag"),
    ]
    frame = found.held_out.rename_axis("model")
    return Table(frame, columns, "Models tried: mean error on held-out times")


def _growth(found: Training) -> list[Block]:
    """Return what held-out samples and more samples say; it trains tens of models."""
    said = curves.predict_held_out(found.samples, found.model)
    times = found.samples["time"].to_numpy()
    labels = [str(name) for name in found.samples.get("mapping", range(len(times)))]
    grown = curves.learning_curve(found.samples, found.model).dropna()
    half, full = grown.iloc[-2], grown.iloc[-1]
    gain = full["rcc"] - half["rcc"]
    need = (
        "more samples are likely to help."
        if gain >= _WORTH
        else "more samples of this kind are not likely to help; other features may."
    )
    bands = list(grown[["n_train", "low", "high"]].itertuples(index=False, name=None))
    series = svg.Series("", "best", grown["n_train"].to_numpy(), grown["rcc"].to_numpy())
    chart = Chart(
        "growth",
        "Order over the samples learned from",
        f"From {half['n_train']:.0f} to {full['n_train']:.0f} samples RCC changes by {gain:+.3f}: "
        + need,
        lambda: svg.plot([series], "samples", "RCC", lines=True, from_zero=False, bands=bands),
    )
    return [_observed(labels, times, said, "simulated"), chart]


def importance_chart(found: Training) -> Chart:
    """Return the importance of the features that matter most."""
    frame = _importances(found)
    names, values = frame["feature"].tolist(), frame["importance"].tolist()
    return Chart(
        "importance",
        "Importance of the features in the trees",
        "Shares of the variance that the splits by a feature explain.",
        lambda: svg.bars(names, [("importance", "best", values)], 1.0, "%"),
    )


def _importances(found: Training | RunModel) -> pd.DataFrame:
    """Return the most important features with their importance."""
    model = found.model
    frame = pd.DataFrame(
        {"feature": model.feature_names_in_, "importance": model.feature_importances_}
    )
    return frame.sort_values("importance", ascending=False, kind="stable")[:10]


def _rests_on(found: Training | RunModel) -> Sentence | Table:
    if not found.model.feature_importances_.any():
        return Sentence("No feature corrects it: no tree splits.")
    columns = [Column("feature", kind="name"), Column("importance", kind="share")]
    return Table(_importances(found), columns, "Importance of the features in the trees")
