"""Which features carry the forecast."""

from __future__ import annotations

import numpy as np
import pandas as pd

from toruscast.training._relative import LOWER_BOUND
from toruscast.training.evaluate import random_splits
from toruscast.training.metrics import rcc
from toruscast.training.predictor import TimePredictor

from ..experiment import Chart, Experiment, Findings, Inputs
from ..plan import SMALL
from ..scores import RELATIVE_COUNTERS
from . import simulated
from .intervals import margin_of_mean

_SPLITS = 5
_SHUFFLES = 3


def _run(inputs: Inputs) -> Findings:
    table = simulated.synthetic(simulated.load(inputs), SMALL)
    rows = []
    rng = np.random.default_rng(0)
    for benchmark, size, group in simulated.cases(table):
        for kept, left_out in random_splits(len(group), _SPLITS):
            train, test = group.iloc[kept], group.iloc[left_out]
            model = TimePredictor(
                RELATIVE_COUNTERS, "slowdown", n_estimators=60, calibration_folds=0
            ).fit(train, train["time"])
            whole = rcc(test["time"], model.predict(test))
            for name in (LOWER_BOUND, *RELATIVE_COUNTERS):
                for _ in range(_SHUFFLES):
                    shuffled = test.assign(**{name: rng.permutation(test[name].to_numpy())})
                    lost = whole - rcc(test["time"], model.predict(shuffled))
                    rows.append(
                        {"feature": name, "benchmark": benchmark, "size": size, "lost": lost}
                    )
    every = pd.DataFrame(rows)
    # One value a case: shuffles of one model are no independent evidence.
    cases = every.groupby(["feature", "benchmark", "size"], sort=False)["lost"].mean().reset_index()
    of_feature = cases.groupby("feature", sort=False)["lost"]
    mean, margin = of_feature.mean(), of_feature.agg(margin_of_mean)
    result = pd.DataFrame({"lost": mean, "low": mean - margin, "high": mean + margin})
    result = result.sort_values("lost", ascending=False).reset_index()
    return Findings(
        f"{simulated.text(table)} Slowdown over `lower_bound` learned from features without units. "
        f"RCC lost when one feature of the mappings forecast is shuffled: {_SPLITS} splits, two "
        f"thirds to train, {_SHUFFLES} shuffles each; mean and 95 % interval over the "
        f"{len(list(simulated.cases(table)))} cases. Features that say the same "
        "share their importance.",
        {"importance": result, "importance-cases": cases},
        (),
        (
            Chart(
                "importance",
                "bars",
                "importance",
                "feature",
                "lost",
                title="RCC lost without a feature",
                interval=("low", "high"),
            ),
        ),
        ("importance",),
    )


EXPERIMENT = Experiment("importance", "Which features carry the forecast", "samples", _run)
