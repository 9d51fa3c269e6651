"""One model for all benchmarks and sizes together."""

from __future__ import annotations

import pandas as pd

from toruscast.training.evaluate import random_splits
from toruscast.training.feature_sets import FEATURE_SETS
from toruscast.training.predictor import TimePredictor

from ..experiment import Bar, Chart, Experiment, Findings, Inputs
from ..plan import SMALL
from ..scores import RELATIVE_COUNTERS, by_case, forecast
from . import noise, simulated

_SIZES = ("16 KB", "4 MB")
_SPLITS, _NOISY_SPLITS = 10, 3


def learners() -> dict[str, TimePredictor]:
    """Return the published learners, and slowdowns learned from features without units."""
    named = {
        name: TimePredictor(name, calibration_folds=0) for name in ("prior", *simulated.HYBRIDS)
    }
    named["slowdown"] = TimePredictor(RELATIVE_COUNTERS, "slowdown", calibration_folds=0)
    named["slowdown, level 1"] = TimePredictor(
        FEATURE_SETS["relative"], "slowdown", calibration_folds=0
    )
    return named


def _run(inputs: Inputs) -> Findings:
    table = simulated.synthetic(simulated.load(inputs), SMALL, _SIZES).reset_index(drop=True)
    rows, first = [], pd.DataFrame()
    splits = random_splits(len(table), _SPLITS)
    halves = [(table.iloc[kept], table.iloc[left_out]) for kept, left_out in splits]
    for split, (train, test) in enumerate(halves):
        scored, predictions = forecast(train, test, learners())
        rows.append(scored.assign(split=split))
        if split == 0:
            first = predictions
    every = pd.concat(rows, ignore_index=True)
    mean = every.groupby("learner", sort=False).mean().drop(columns="split")
    mean["wrong_first_split"] = every[every["split"] == 0].set_index("learner")["wrong"]
    mean = mean.sort_values("wrong").reset_index()
    best = mean.iloc[0]
    published = mean[mean["learner"].isin(simulated.HYBRIDS)].iloc[0]
    names = (best["learner"], published["learner"])
    chosen = {name: learner for name, learner in learners().items() if name in names}
    loud = pd.concat(
        noise.forecast_under_noise(train, test, chosen, seed=split)
        for split, (train, test) in enumerate(halves[:_NOISY_SPLITS])
    )
    loud = loud.groupby(["noise", "learner"]).mean().reset_index()
    return Findings(
        f"{simulated.text(table)} The {len(table)} samples of 16,384 tasks with messages of 16 KB "
        f"and 4 MB, {len(halves[0][0])} to train; means over {_SPLITS} splits (seed 0). "
        "`slowdown` learns the time over its lower bound from features without units. With "
        f"run-to-run variation of the times, means over {_NOISY_SPLITS} splits; `ceiling` is the "
        "RCC of the varied times with those that were not.",
        {
            "mixture": mean,
            "mixture-noise": loud,
            "mixture-predictions": first,
            "mixture-cases": by_case(first),
        },
        (
            Bar(
                f"wrong pairs per 14,028, best of {len(mean)} learners ({best['learner']})",
                float(best["wrong"]),
                35,
                "at most",
                70,
            ),
            Bar(
                f"wrong pairs per 14,028, best hybrid ({published['learner']})",
                float(published["wrong"]),
                35,
                "at most",
                70,
            ),
        ),
        (
            Chart(
                "mixture",
                "scatter",
                "mixture-predictions",
                "observed",
                "predicted",
                "benchmark",
                "learner",
                log=True,
                title="Mix of benchmarks and sizes",
            ),
        ),
        ("mixture", "mixture-noise", "mixture-cases"),
        (
            f"{simulated.share_within_cases(first, str(best['learner'])):.0%} of the wrong pairs "
            f"of {best['learner']} (first split) are two mappings of one benchmark and size.",
            "The best learner is chosen by the scores shown.",
        ),
    )


EXPERIMENT = Experiment("mixture", "One model for all benchmarks and sizes", "samples", _run)
