"""The page of a model: how good it is, what it rests on, and what it would need."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from toruscast.training import Measured, Training
from toruscast.training.evaluate.learning_curve import growth, kept_out
from toruscast.wording import counted

from ..measured import learned_lines
from ..units import number, percent, time_unit
from . import charts, learning_charts
from .html import Section, chart, paragraph, sentences, table
from .views import origin_section

# Samples that are needed on both sides of the smallest split.
_FEWEST = 12
# A gain in RCC from twice the samples that is worth them.
_WORTH = 0.01
# What of the samples' own words is told; the command and versions stand there anyway.
_ORIGIN = ("graphs", "tori", "routing", "seed", "times", "created")
_SCORES = {
    "rcc": "RCC, pairs in the right order",
    "tau_b": "Kendall's tau-b",
    "r2": "R^2",
    "regret_1": "regret@1, time lost by the first",
    "regret_5": "regret@5, by the best of five",
}


def sections_of(found: Training | Measured, inputs: Sequence[tuple[str, str]]) -> list[Section]:
    """Return the parts of the page; ``inputs`` are what it was made from, by name."""
    model = found.model
    facts = [
        ("samples", str(model.n_samples_)),
        ("target", model.target),
        *((key, str(model.provenance_[key])) for key in _ORIGIN if model.provenance_.get(key)),
    ]
    sections = of_runs(found) if isinstance(found, Measured) else _of_samples(found)
    return [*sections, origin_section(*facts, *inputs)]


def title(found: Training | Measured) -> str:
    """Return the title of the page."""
    source = "measured times" if isinstance(found, Measured) else "simulated samples"
    return f"A model that learned from {found.model.n_samples_} {source}"


def _of_samples(found: Training) -> list[Section]:
    scores = {str(row["metric"]): row for row in found.quality.to_dict("records")}
    rcc = scores["rcc"]
    text = (
        f"On mappings held out of training, {percent(rcc['mean'])} of the pairs are in the right "
        f"order (RCC {rcc['mean']:.3f}"
    )
    if np.isfinite(rcc["low"]):
        text += f"; {rcc['low']:.3f} to {rcc['high']:.3f} in 95 % of the splits"
    content = f'<p class="answer">{sentences(f"{text}).")}</p>\n'
    content += paragraph("Times are simulated: how far a machine follows them is not known.")
    rows = [
        (meaning, *(number(scores[key][part]) for part in ("mean", "low", "high")))
        for key, meaning in _SCORES.items()
        if key in scores
    ]
    head = ["score", "mean", "2.5 % of splits below", "97.5 % below"]
    content += table(head, rows, "Quality over repeated splits")
    several, need = {}, ""
    if len(found.samples) >= _FEWEST:
        said = kept_out(found.samples, found.model)
        times = found.samples["time"].to_numpy()
        labels = [str(name) for name in found.samples.get("mapping", range(len(times)))]
        several["observed"] = _observed(labels, times, said, "simulated")
        need, several["growth"] = _growth(found)
    observed = _figure(several, "observed", len(found.samples))
    if "growth" in several:
        observed += chart("growth", "Order over the samples learned from", need)
    return [
        Section("The answer", content),
        Section("Observed against forecast", f'<div class="pair">{observed}</div>\n', several),
        _rests_on(found),
    ]


def of_runs(found: Measured) -> list[Section]:
    """Return what times of a machine taught."""
    first, *others = learned_lines(found)
    content = f'<p class="answer">{sentences(first)}</p>\n'
    content += "".join(paragraph(line) for line in others)
    said = found.predicted.mean(axis=0)
    several = {"observed": _observed(found.runs.names, found.runs.times, said, "measured")}
    observed = _figure(several, "observed", len(said))
    rows = [
        (f"{tried}{', offered' if row['offered'] else ''}", percent(row["miss"]))
        for tried, row in found.held_out.iterrows()
    ]
    observed += table(["model", "miss in the mean"], rows, "Models tried, on times kept from them")
    return [
        Section("What the runs taught", content),
        Section("Observed against forecast", observed, several),
        _rests_on(found),
    ]


def _figure(several: dict[str, charts.Spec], key: str, n: int) -> str:
    if key not in several:
        return paragraph("There are too few samples to keep some out.")
    told = f"{counted(n, 'mapping')}, each forecast by a model that had not seen it."
    return chart(key, "Forecast against observed times", told)


def _observed(
    labels: Sequence[str], times: Sequence[float] | np.ndarray, said: np.ndarray, how: str
) -> charts.Spec:
    rows = pd.DataFrame({"mapping": labels, "observed_time": times, "time": said})
    return charts.observed(rows, *time_unit(rows["time"]), how)


def _growth(found: Training) -> tuple[str, charts.Spec]:
    """Return what more samples would give, in words and as a chart."""
    grown = growth(found.samples, found.model)
    half, full = grown.iloc[-2], grown.iloc[-1]
    gain = full["rcc"] - half["rcc"]
    text = (
        f"From {half['n_train']:.0f} to {full['n_train']:.0f} samples RCC changes by {gain:+.3f}: "
    )
    text += (
        "more samples are likely to help."
        if gain >= _WORTH
        else "more samples of this kind are not likely to help; other features may."
    )
    return text, learning_charts.growth(grown)


def _rests_on(found: Training | Measured) -> Section:
    model = found.model
    names = [str(name) for name in model.feature_names_in_]
    shares = model.feature_importances_
    if not shares.any():
        return Section("The model", paragraph("No feature corrects it: no tree splits."))
    key = {"importance": charts.importance(names, shares)}
    content = chart(
        "importance", "What the model rests on", "Importance of the features in the trees."
    )
    return Section("The model", content, charts=key)
