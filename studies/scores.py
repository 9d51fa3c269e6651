"""Scores of one forecast, as the tables of the experiments show them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from toruscast.training.evaluate import random_splits
from toruscast.training.metrics import r2, rcc, regret, wrong_pairs
from toruscast.training.predictor import TimePredictor

RELATIVE_COUNTERS = (
    "link_share",
    "injection_share",
    "reception_share",
    "latency_share",
    "max_over_avg_bytes",
    "std_over_avg_bytes",
    "idle_links",
    "max_over_avg_FIFO",
    "relative_hops",
    "relative_max_dilation",
    "path_over_max_bytes",
    "bottleneck_over_max_bytes",
    "avg_buffer",
    "avg_buffer_AO",
    "avg_buffer_TO",
    "avg_delay_AO",
    "avg_delay_TO",
    "release_slowdown",
)
"""Features that mean the same on every host: shares, ratios, packets in buffers."""


def scores(observed: ArrayLike, predicted: ArrayLike) -> dict[str, float]:
    """Return RCC, wrong pairs and all pairs, R^2, R^2 of the logarithms, and regret.

    Where a forecast is not positive, its logarithm has no R^2: NaN.

    Examples
    --------
    >>> scores([1.0, 2.0, 4.0], [1.0, 4.0, 2.0])["wrong"]
    1
    """
    n = np.size(observed)
    seen, said = np.asarray(observed, dtype=float), np.asarray(predicted, dtype=float)
    return {
        "rcc": rcc(seen, said),
        "wrong": wrong_pairs(seen, said),
        "pairs": n * (n - 1) // 2,
        "r2": r2(seen, said),
        "r2_log": r2(np.log(seen), np.log(said)) if (said > 0).all() else np.nan,
        "regret_1": regret(seen, said, 1),
    }


def forecast(
    train: pd.DataFrame, test: pd.DataFrame, learners: Mapping[str, TimePredictor]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Fit each learner on one table and score it on the other.

    Returns
    -------
    scored : DataFrame
        A row per learner; ``regret_1`` is the mean over benchmarks, sizes and hosts, for of all
        mappings of all of them together the fastest says nothing.
    predictions : DataFrame
        ``learner, benchmark, size, torus, observed, predicted`` of every sample.
    """
    rows, said = [], []
    for name, learner in learners.items():
        predicted = learner.fit(train, train["time"]).predict(test)
        own = test[["benchmark", "size", "torus"]].assign(
            learner=name, observed=test["time"], predicted=predicted
        )
        rows.append({"learner": name, **scored_overall(own)})
        said.append(own)
    return pd.DataFrame(rows), pd.concat(said, ignore_index=True)


def forecast_first_split(table: pd.DataFrame, name: str, learner: TimePredictor) -> pd.DataFrame:
    """Return the predictions of `forecast` on the first split of `repeated_splits`, to be drawn."""
    train, test = random_splits(len(table), 1)[0]
    return forecast(table.iloc[train], table.iloc[test], {name: learner})[1]


def scored_overall(predictions: pd.DataFrame) -> dict[str, float]:
    """Return the scores of one learner over all samples, with the mean regret of the cases."""
    overall = scores(predictions["observed"], predictions["predicted"])
    return overall | {"regret_1": float(by_case(predictions)["regret_1"].mean())}


def by_case(predictions: pd.DataFrame) -> pd.DataFrame:
    """Return the scores of every learner within each benchmark, size and host."""
    keys = ["learner", "benchmark", "size", "torus"]
    rows = [
        {**dict(zip(keys, labels, strict=True)), **scores(some["observed"], some["predicted"])}
        for labels, some in predictions.groupby(keys, sort=False)
    ]
    return pd.DataFrame(rows)
