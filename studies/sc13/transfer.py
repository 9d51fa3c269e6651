"""Learning on 16,384 tasks, forecasting 65,536."""

from __future__ import annotations

import numpy as np
import pandas as pd

from toruscast.scaling import PMNFRegressor

from ..experiment import Bar, Chart, Experiment, Findings, Inputs
from ..plan import LARGE, SIZES, SMALL
from ..scores import by_case, forecast, scored_overall
from . import noise, simulated
from .mixture import learners

# Two sizes make the number of pairs that was published.
_PUBLISHED_SIZES = ("512 B", "16 KB")
_METRICS = ("lower_bound", "max_bytes", "avg_buffer")


def _run(inputs: Inputs) -> Findings:
    table = simulated.load(inputs)
    every, (train, test) = (
        [
            simulated.synthetic(table, tasks, sizes).reset_index(drop=True)
            for tasks in (SMALL, LARGE)
        ]
        for sizes in (None, _PUBLISHED_SIZES)
    )
    scored, predictions = _forecast(train, test)
    best = scored.iloc[0]
    hybrid = scored[scored["learner"].isin(simulated.HYBRIDS)].iloc[0]
    baseline = scored[scored["learner"].str.startswith("PMNF")].iloc[0]
    cases = by_case(predictions)
    names = (best["learner"], hybrid["learner"])
    chosen = {name: learner for name, learner in learners().items() if name in names}
    loud = noise.forecast_under_noise(train, test, chosen)
    wide, wide_predictions = _forecast(*every)
    return Findings(
        f"{simulated.text(pd.concat(every))} {len(train)} samples of 16,384 tasks with messages of "
        f"{' and '.join(_PUBLISHED_SIZES)} train, {len(test)} samples of "
        "65,536 tasks on two hosts are forecast: as many pairs as were published. "
        f"`transfer-all-sizes` does the same with all sizes, {len(every[0])} samples to learn from "
        f"and {len(every[1])} to forecast. As a baseline, a scaling model (performance model "
        "normal form) of each benchmark over message size and one mapping metric; the number of "
        "tasks has one value in training and cannot be a parameter. With run-to-run variation of "
        "the times, `ceiling` is the RCC of the varied times with those that were not.",
        {
            "transfer": scored,
            "transfer-noise": loud,
            "transfer-cases": cases,
            "transfer-predictions": predictions,
            "transfer-all-sizes": wide,
            "transfer-all-sizes-cases": by_case(wide_predictions),
        },
        (
            Bar(
                f"RCC, best of {len(scored)} learners ({best['learner']})",
                float(best["rcc"]),
                0.99,
                published=0.975,
            ),
            Bar(
                f"RCC, best hybrid ({hybrid['learner']})",
                float(hybrid["rcc"]),
                0.99,
                published=0.975,
            ),
            Bar(f"RCC, {baseline['learner']}", float(baseline["rcc"])),
            Bar(
                f"RCC, all four sizes, best learner ({wide['learner'][0]})",
                float(wide["rcc"][0]),
                0.99,
            ),
        ),
        (
            Chart(
                "transfer",
                "scatter",
                "transfer-predictions",
                "observed",
                "predicted",
                "benchmark",
                "learner",
                log=True,
                title="16,384 tasks forecast 65,536",
            ),
        ),
        ("transfer", "transfer-noise", "transfer-all-sizes", "transfer-cases"),
        (
            f"{simulated.share_within_cases(predictions, str(best['learner'])):.0%} of the wrong "
            f"pairs of {best['learner']}, but {_share_of_pairs(cases, best):.0%} of all pairs, are "
            "two mappings of one benchmark, size and host; within these the mean RCC is "
            f"{_within_cases(cases, best):.3f}.",
            "Two message sizes, and four, are fewer than the five values of a parameter that "
            "scaling models ask for. The best learner is chosen by the scores shown, on 65,536 "
            "tasks: a user would have to choose beforehand.",
            "Messages of 4 MB, and of 16 KB in Sub A2A, are carried by fewer simulated packets "
            "where there are 65,536 tasks (`python -m studies build --dry-run`), all others by "
            "their own.",
        ),
    )


def _forecast(train: pd.DataFrame, test: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the scores of all learners and scaling models, best first, and their predictions."""
    scored, predictions = forecast(train, test, learners())
    for metric in _METRICS:
        said = _scaling_models(train, test, metric)
        name = f"PMNF of size and {metric}"
        own = test[["benchmark", "size", "torus"]].assign(
            learner=name, observed=test["time"], predicted=said
        )
        scored.loc[len(scored)] = {"learner": name, **scored_overall(own)}
        predictions = pd.concat([predictions, own], ignore_index=True)
    return scored.sort_values("rcc", ascending=False, ignore_index=True), predictions


def _within_cases(cases: pd.DataFrame, best: pd.Series) -> float:
    """Mean RCC of a learner within each benchmark, size and host."""
    return float(cases.loc[cases["learner"] == best["learner"], "rcc"].mean())


def _share_of_pairs(cases: pd.DataFrame, best: pd.Series) -> float:
    """Share of all pairs that lie within a benchmark, size and host."""
    within = cases.loc[cases["learner"] == best["learner"], "pairs"].sum()
    return float(within / best["pairs"])


def _scaling_models(
    train: pd.DataFrame, test: pd.DataFrame, metric: str
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Predict with a scaling model of each benchmark."""
    said = np.empty(len(test))
    for benchmark, some in train.groupby("benchmark"):
        rows = np.flatnonzero(test["benchmark"] == benchmark)
        here, there = (
            np.column_stack([part["size"].map(SIZES), part[metric]])
            for part in (some, test.iloc[rows])
        )
        # The unit of the metric carries no meaning for a logarithm: at least 1 everywhere.
        unit = max(min(here[:, 1].min(), there[:, 1].min()), 1e-300)
        here[:, 1], there[:, 1] = here[:, 1] / unit, there[:, 1] / unit
        said[rows] = PMNFRegressor(warn=False).fit(here, some["time"]).predict(there)
    return said


EXPERIMENT = Experiment("transfer", "Learn on 16,384 tasks, forecast 65,536", "samples", _run)
