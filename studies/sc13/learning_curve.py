"""How many mappings must be run before forecasts are good."""

from __future__ import annotations

import pandas as pd

from toruscast.training.evaluate import repeated_splits
from toruscast.training.predictor import TimePredictor

from ..experiment import Bar, Chart, Experiment, Findings, Inputs
from ..plan import N_MAPPINGS, SMALL
from ..scores import RELATIVE_COUNTERS
from . import simulated

_RUN = (5, 10, 15, 20, 30, 40, 56, 70)
_SPLITS = 5
# As many as the other experiments learn from.
_FEW = 56


def _run(inputs: Inputs) -> Findings:
    table = simulated.synthetic(simulated.load(inputs), SMALL)
    learners = {
        "H5": TimePredictor("H5", n_estimators=60),
        "slowdown": TimePredictor(RELATIVE_COUNTERS, "slowdown", n_estimators=60),
    }
    parts = []
    for benchmark, size, group in simulated.cases(table):
        for run in _RUN:
            scored = repeated_splits(
                simulated.features_of(group),
                learners,
                n_splits=_SPLITS,
                train_share=run / N_MAPPINGS,
                n_jobs=inputs.n_jobs,
            )
            mean = scored.groupby("predictor", sort=False)[["rcc", "regret_1"]].mean()
            parts.append(mean.reset_index().assign(benchmark=benchmark, size=size, run=run))
    curve = pd.concat(parts, ignore_index=True)
    keys = ["predictor", "benchmark", "size"]
    needed = pd.DataFrame(
        [
            {
                **dict(zip(keys, label, strict=True)),
                **{
                    f"for_{level}": some.loc[some["rcc"] >= level, "run"].min()
                    for level in (0.95, 0.98)
                },
            }
            for label, some in curve.groupby(keys, sort=False)
        ]
    )
    mean = curve.groupby(["predictor", "run"], sort=False)["rcc"].mean().reset_index()
    return Findings(
        f"{simulated.text(table)} So many mappings train, the rest is forecast; means over "
        f"{_SPLITS} splits (seed 0). `for_0.95`: least number of those tried with a mean RCC of "
        "0.95; empty where none had it.",
        {"learning-curve": curve, "learning-curve-mean": mean, "mappings-needed": needed},
        tuple(
            Bar(
                f"cases of {len(some)} that reach RCC {level} with {_FEW} mappings run or fewer, "
                f"{name}",
                float((some[f"for_{level}"] <= _FEW).sum()),
            )
            for name, some in needed.groupby("predictor", sort=False)
            for level in (0.95, 0.98)
        ),
        (
            Chart(
                "learning-curve",
                "lines",
                "learning-curve-mean",
                "run",
                "rcc",
                "predictor",
                title=f"Mean RCC of {len(needed) // len(learners)} cases by mappings run",
            ),
        ),
        ("mappings-needed",),
    )


EXPERIMENT = Experiment("learning-curve", "How many mappings must be run", "samples", _run)
