"""Whether intervals and probabilities hold what they say."""

from __future__ import annotations

import numpy as np
import pandas as pd

from toruscast.training.predictor import TimePredictor

from ..experiment import Bar, Chart, Experiment, Findings, Inputs
from ..plan import SMALL
from ..scores import RELATIVE_COUNTERS
from . import simulated

_SPLITS = 6
_TRAIN = 56
_DRAWS = 1000


def _run(inputs: Inputs) -> Findings:
    from joblib import Parallel, delayed

    table = simulated.synthetic(simulated.load(inputs), SMALL)
    groups = list(simulated.cases(table))
    found = Parallel(n_jobs=inputs.n_jobs)(
        delayed(_one)(group.reset_index(drop=True), split)
        for _, _, group in groups
        for split in range(_SPLITS)
    )
    labels = [label for *label, _ in groups for _ in range(_SPLITS)]
    coverage = pd.DataFrame(
        [
            {"benchmark": label[0], "size": label[1], "coverage": inside, "width": width}
            for label, (inside, width, _) in zip(labels, found, strict=True)
        ]
    )
    by_case = coverage.groupby(["benchmark", "size"], sort=False).mean().reset_index()
    pairs = pd.concat([some for _, _, some in found], ignore_index=True)
    edges = np.linspace(0.5, 1, 11)
    bins = np.digitize(pairs["probability"], edges[1:-1])
    reliable = pairs.groupby(bins).agg(
        probability=("probability", "mean"), share=("right", "mean"), pairs=("right", "size")
    )
    reliable = reliable.reset_index(drop=True)
    distance = (reliable["probability"] - reliable["share"]).abs()
    error = float((distance * reliable["pairs"]).sum() / reliable["pairs"].sum())
    inside = float(by_case["coverage"].mean())
    # Splits repeat mappings: no more count than there are.
    error_of_share = float(np.sqrt(inside * (1 - inside) / len(table)))
    return Findings(
        f"{simulated.text(table)} {_TRAIN} mappings of each train, the others are forecast, "
        f"{_SPLITS} splits a benchmark and size. Intervals and probabilities come from "
        "cross-validated misses of the training mappings, so that coverage is met on average and "
        "not guaranteed. `share`: how often the mapping called faster was.",
        {"coverage": by_case, "reliability": reliable},
        (
            Bar("share of times in their 90 % interval", inside, 0.88),
            Bar("share of times in their 90 % interval (not above)", inside, 0.92, "at most"),
            Bar("mean distance of P(a faster than b) from the share that was", error),
        ),
        (
            Chart(
                "reliability",
                "scatter",
                "reliability",
                "share",
                "probability",
                title="P(a faster than b) against how often it was",
            ),
        ),
        ("coverage", "reliability"),
        (
            f"{inside:.4f} has a standard error of {error_of_share:.4f} ({len(table):,} mappings). "
            "Misses are those of models that learned from 19 of 20 of the mappings that train.",
        ),
    )


def _one(table: pd.DataFrame, split: int) -> tuple[float, float, pd.DataFrame]:
    """Coverage, relative width of intervals, and pairs with their probability."""
    order = np.random.default_rng(split).permutation(len(table))
    train, test = table.iloc[order[:_TRAIN]], table.iloc[order[_TRAIN:]]
    model = TimePredictor(RELATIVE_COUNTERS, "slowdown", n_estimators=150)
    model.fit(train, train["time"])
    interval = model.predict_interval(test, 0.9)
    seen = test["time"].to_numpy()
    inside = (seen >= interval[:, 0]) & (seen <= interval[:, 1])
    width = float(np.median((interval[:, 1] - interval[:, 0]) / seen))
    draws = model.draw(test, _DRAWS, seed=split)
    first, second = np.triu_indices(len(test), 1)
    faster = (draws[:, first] < draws[:, second]).mean(axis=0)
    faster += (draws[:, first] == draws[:, second]).mean(axis=0) / 2
    right = np.where(faster >= 0.5, seen[first] < seen[second], seen[first] > seen[second])
    different = seen[first] != seen[second]
    pairs = pd.DataFrame({"probability": np.maximum(faster, 1 - faster), "right": right})
    return float(inside.mean()), width, pairs[different]


EXPERIMENT = Experiment("reliability", "Whether intervals and probabilities hold", "samples", _run)
