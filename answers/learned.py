"""Answers of trained models: their accuracy and their most important features."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeGuard, cast

import numpy as np
from numpy.typing import ArrayLike

from toruscast._features import FEATURES
from toruscast._lazy import LazyModule
from toruscast._slow import pandas as pd
from toruscast.text import counted, number, percent, shown_name, time_unit
from toruscast.training.feature_sets import REFERENCES

from . import svg
from .blocks import Answer, Block, Chart, Headline, Section, Sentence
from .table import Column, Table

if TYPE_CHECKING:
    from toruscast.decision import RunModel, Runs
    from toruscast.training import TimePredictor, Training
    from toruscast.training import application as curves
    from toruscast.training.fitted import FittedModel
else:
    # Import this module late, because it imports scikit-learn.
    curves = LazyModule("toruscast.training.application")

# Maximum number of outliers in a sentence.
_N_OUTLIERS = 3
# With fewer samples, the page has no learning curve.
_MIN_SAMPLES = 12
# If doubling the samples improves the RCC by less than this, more samples probably do not help.
_MIN_GAIN = 0.01
_UNSEEN = "Each mapping is predicted by models not trained on it. On the line, times are equal."
# Entries of a model's provenance that the page lists beside the command and the versions.
_PROVENANCE = ("graphs", "tori", "routing", "seed", "times", "created")


def _is_measured(result: Training | RunModel) -> TypeGuard[RunModel]:
    """Whether the model is for measured times, checked without importing scikit-learn."""
    return hasattr(result, "runs")


def sample_badge(samples: pd.DataFrame) -> str:
    """Return the badge for scores on samples, or nothing for a table that was made elsewhere."""
    return "" if "source" in samples.attrs.get("provenance", {}) else "simulated times"


def runs_content(result: RunModel | None) -> dict[str, Any] | None:
    """Return JSON entries for a model of measured times, or None if there is no model."""
    if result is None:
        return None
    runs = result.runs
    return {
        "constant": result.line.constant,
        "slope": result.line.slope,
        "reference": result.model.reference,
        "corrected": result.corrected,
        "mappings": len(runs.names),
        "runs": len(runs.seconds),
        "noise": runs.noise,
        "drift": runs.drift,
        "outliers": [runs.names[runs.which[row]] for row in runs.outliers],
        "scores": result.scores,
        "tried": result.held_out.reset_index().to_dict("records"),
    }


def describe_runs(result: RunModel) -> list[str]:
    """Return sentences about a model of measured times: its terms, its errors and the noise."""
    sentences = [
        _describe_line(result),
        _describe_errors(result.scores, result.corrected),
        _describe_noise(result.runs, result.scores),
        _describe_drift(result.runs),
        _describe_outliers(result.runs),
    ]
    return list(filter(None, sentences))


def _describe_line(result: RunModel) -> str:
    """Return a sentence on the line fitted to measured times: constant + slope x reference."""
    median = float(np.median(result.runs.times))
    scale, unit = time_unit([median])
    reference = REFERENCES.get(result.model.reference, result.model.reference)
    if not result.line.slope:
        return f"The times are not correlated with {reference}."
    constant, slope = number(result.line.constant / scale), number(result.line.slope)
    return (
        f"The median time is {number(median / scale, 4)} {unit}: {constant} {unit} do not depend "
        f"on the mapping; the rest is {slope} times {reference}."
    )


def _describe_errors(scores: dict[str, float], is_corrected: bool) -> str:
    error, line_error = (percent(scores[key], digits=2) for key in ("miss", "miss_of_line"))
    text = f"Mean error of this line on held-out times: {line_error}"
    if is_corrected:
        return f"{text}; with features: {error}."
    return f"{text}. Features do not reduce it by a tenth."


def _describe_noise(runs: Runs, scores: dict[str, float]) -> str:
    """Return the RCC on held-out mappings, and the highest RCC that the noise of runs allows."""
    rcc = f"RCC on held-out mappings: {scores['rcc']:.3f}"
    if math.isnan(runs.noise):
        return (
            f"{rcc}. The noise is unknown because every mapping ran once, so all errors count as "
            "noise. Run some mappings again to measure it."
        )
    if not runs.noise:
        return f"{rcc}. Runs of one mapping do not differ."
    noise, tied = percent(runs.noise, digits=2), percent(scores["tied"], digits=2)
    return (
        f"{rcc}; at this noise, at most {scores['rcc_possible']:.3f} is possible. Runs of one "
        f"mapping vary by {noise}, so {tied} of the pairs are indistinguishable."
    )


def _describe_drift(runs: Runs) -> str:
    """Return a sentence about a trend of the times over the runs, if there is one."""
    if not runs.drift:
        return ""
    trend = "longer" if runs.drift > 0 else "shorter"
    share = percent(abs(runs.drift), digits=2)
    advice = "Run the mappings in random order, several times."
    return f"Runs at the end of the table take {share} {trend} than those at its start. {advice}"


def _describe_outliers(runs: Runs) -> str:
    """Return a sentence that names the first outliers, or nothing without any."""
    rows, outliers = runs.outliers, []
    for row in rows[:_N_OUTLIERS]:
        mapping = int(runs.which[row])
        line = f" (line {runs.lines[row]})" if runs.lines else ""
        ratio = runs.seconds[row] / runs.times[mapping]
        outliers.append(f"{shown_name(runs.names[mapping])}{line}, {ratio:.2g} times its median")
    more = f" and {rows.size - _N_OUTLIERS} more" if rows.size > _N_OUTLIERS else ""
    return f"{counted(rows.size, 'outlier')}: {'; '.join(outliers)}{more}." if outliers else ""


def answer(
    result: Training | RunModel,
    *,
    quality: pd.DataFrame | None = None,
    setting: str = "",
    file: str = "",
) -> Answer:
    """Return the answer; ``file`` is the file of the model.

    For a `RunModel`, ``quality`` is the table of scores from `summarise`, with a row per metric.
    """
    model = result.model
    source = "measured times" if _is_measured(result) else "simulated samples"
    facts = [
        ("samples", str(model.n_samples_)),
        ("target", model.target),
        *((key, str(model.provenance_[key])) for key in _PROVENANCE if model.provenance_.get(key)),
    ]
    title = f"Model trained on {model.n_samples_} {source}"
    if _is_measured(result):
        badge = source
        error = result.scores["miss" if result.corrected else "miss_of_line"]
        text = f" predicts unseen times with a mean error of {percent(error, digits=2)}"
        headline, notes = Headline("" if file else "The model", file, text), describe_runs(result)
        scores = [] if quality is None else [_score_section(quality)]
        sections = [
            Section("Predicted times", [observed_chart(result)], wide=False, only="page"),
            *scores,
            *_importance_sections(result),
        ]
    else:
        trained = cast("Training", result)
        quality = trained.table
        badge = sample_badge(trained.samples)
        headline, notes = _describe_scores(quality, file)
        if badge:
            notes.append("The agreement of simulated times with a machine is unknown.")
        importances, *features = _importance_sections(result)
        # Put the importances below the table of scores, which is short.
        table = _score_section(quality)
        sections = [replace(table, contents=[*table.blocks, *importances.blocks]), *features]
        if len(trained.samples) >= _MIN_SAMPLES:
            charts = partial(_held_out_charts, trained)
            sections.insert(0, Section("Predicted times", charts, wide=False, only="page"))
    return Answer(
        setting=setting or title,
        headline=headline,
        badge=badge,
        notes=notes,
        sections=sections,
        content=_make_content(result, quality, file),
        omitted=None if result.problem is None else result.problem.workload.omitted,
        table=Table(pd.DataFrame() if quality is None else quality, ()),
        facts=facts,
        title=title,
    )


def _make_content(
    result: Training | RunModel, quality: pd.DataFrame | None, file: str
) -> dict[str, Any]:
    """Return the JSON entries of a trained model."""
    model = result.model
    names = [str(name) for name in model.feature_names_in_]
    content: dict[str, Any] = {
        "model": file,
        "n_samples": model.n_samples_,
        "features": names,
        "importances": dict(zip(names, model.feature_importances_, strict=True)),
        "target": model.target,
        "quality": [] if quality is None else quality.to_dict("records"),
    }
    if _is_measured(result):
        content["learned"] = runs_content(result)
    return content


METRICS = {
    "rcc": ("RCC", "share of pairs of mappings in the right order"),
    "tau_b": ("tau-b", "Kendall's rank correlation"),
    "r2": ("R^2", "share of the variance explained"),
    "regret_1": ("regret@1", "time lost by running only the mapping predicted fastest"),
    "regret_5": ("regret@5", "time lost by running only the five predicted fastest"),
}


def _describe_scores(quality: pd.DataFrame, file: str) -> tuple[Headline, list[str]]:
    """Return the headline and the notes about a model of simulated times."""
    scores = quality.set_index("metric")
    mean, lost = scores["mean"], percent(scores["mean"]["regret_1"], 1)
    order = f"{percent(mean['rcc'], 1)} of pairs are in the right order"
    choice = f"its first choice is {lost} slower than the fastest; {order}"
    headline = Headline("" if file else "The model", file, f": {choice}")
    return headline, ["Means over splits, on mappings that the model was not trained on."]


def _score_section(quality: pd.DataFrame) -> Section:
    """Return a table of mean scores, each with the range that contains 95 % of the splits."""
    known = quality[quality["metric"].isin(METRICS)]
    rows = []
    for metric, *values in known[["metric", "mean", "low", "high"]].itertuples(index=False):
        name, meaning = METRICS[metric]
        is_share = metric.startswith("regret")
        texts = [percent(value, 1) if is_share else f"{value:.3f}" for value in values]
        # Unknown values are empty, such as the range of a single split.
        mean, *ends = ["" if math.isnan(values[i]) else text for i, text in enumerate(texts)]
        spread = " to ".join(filter(None, ends))
        rows.append({"score": name, "mean": mean, "spread": spread, "meaning": meaning})
    columns = [Column("score", kind="name"), Column("mean", kind="label")]
    columns += [Column("spread", "95 % range", "label"), Column("meaning")]
    return Section("Scores on held-out mappings", [Table(rows, columns)], wide=False)


def observed_chart(result: RunModel) -> Chart:
    """Return a chart of predicted times over measured times, for held-out mappings."""
    runs, predicted = result.runs, result.predicted.mean(axis=0)
    axes = ("measured", runs.times), ("predicted", predicted)
    return scatter_chart("observed", "", _UNSEEN, *axes, runs.names)


def scatter_chart(
    key: str,
    title: str,
    lead: str,
    x: tuple[str, ArrayLike],
    y: tuple[str, ArrayLike],
    labels: Sequence[str],
) -> Chart:
    """Return a chart of times ``y`` over times ``x`` of the same mappings, each with a title."""
    scale, unit = time_unit(np.asarray(y[1]))
    x_values, y_values = (np.asarray(times) / scale for _, times in (x, y))
    series = svg.Series("", "best", x_values, y_values, list(map(shown_name, labels)))
    titles = f"{x[0]}, {unit}", f"{y[0]}, {unit}"
    is_log = svg.needs_log_axis(np.concatenate([x_values, y_values]))
    scales = svg.Scales(is_log, is_log)
    draw = partial(svg.draw_plot, [series], *titles, diagonal=True, scales=scales)
    return Chart(key, title, lead, draw)


def _held_out_charts(result: Training) -> list[Block]:
    """Return charts of held-out predictions and of the learning curve; this trains many models."""
    predicted = curves.predict_held_out(result.samples, result.model)
    times = result.samples["time"].to_numpy()
    names = [str(name) for name in result.samples.get("mapping", range(len(times)))]
    axes = ("simulated", times), ("predicted", predicted)
    return [scatter_chart("observed", "", _UNSEEN, *axes, names), _learning_curve(result)]


def _learning_curve(result: Training) -> Chart:
    """Return a chart of the RCC by the number of training samples."""
    curve = curves.learning_curve(result).dropna(subset="mean")
    half, full = curve.iloc[-2], curve.iloc[-1]
    gain = full["mean"] - half["mean"]
    helps = "will probably" if gain >= _MIN_GAIN else "will probably not"
    intervals = curve[["n_train", "low", "high"]].dropna()
    area = list(intervals.itertuples(index=False, name=None))
    points = svg.Series("", "best", curve["n_train"].to_numpy(), curve["mean"].to_numpy())
    lead = f"Splits train on up to {full['n_train']:.0f} of {len(result.samples)} samples. From "
    lead += f"{half['n_train']:.0f} to {full['n_train']:.0f} samples, the RCC changes by "
    lead += f"{gain:+.3f}. More samples {helps} help. Shaded: 95 % of the splits."
    series = [points._replace(style="line"), points]
    scales = svg.Scales(area=area, ticks=curve["n_train"].tolist())
    titles = "samples for training", "RCC"
    draw = partial(svg.draw_plot, series, *titles, from_zero=False, scales=scales)
    return Chart("growth", "Learning curve", lead, draw)


def importance_chart(model: TimePredictor | FittedModel) -> Chart:
    """Return a chart of the most important features."""
    frame = _importance_frame(model)
    names, values = frame["feature"].str.replace("_", " "), frame["importance"].tolist()
    lead = "Share of the variance explained by the trees' splits on each feature, %."
    bars = [("importance", "best", values)]
    draw = partial(svg.draw_bars, names.tolist(), bars, 1.0, "%")
    return Chart("importance", "Feature importances", lead, draw)


def _importance_frame(model: TimePredictor | FittedModel) -> pd.DataFrame:
    frame = pd.DataFrame(
        {"feature": model.feature_names_in_, "importance": model.feature_importances_}
    )
    known = {name: FEATURES[name].description for name in frame["feature"] if name in FEATURES}
    frame["meaning"] = [known.get(str(name), "").removesuffix(".") for name in frame["feature"]]
    return frame.sort_values("importance", ascending=False, kind="stable")[:10]


def _importance_sections(result: Training | RunModel) -> list[Section]:
    """Return the most important features as a chart and a table."""
    if not result.model.feature_importances_.any():
        return [Section("Feature importances", [Sentence("The trees use no feature.")])]
    columns = [
        Column("feature", kind="name"),
        Column("importance", kind="share"),
        Column("meaning", priority=2),
    ]
    chart, frame = importance_chart(result.model), _importance_frame(result.model)
    return [
        Section("", [chart], wide=False, only="page"),
        Section("Most important features", [Table(frame, columns)], wide=False),
    ]
