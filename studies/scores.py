"""Scores of predictions for the tables of the studies."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import least_squares

from toruscast import TimePredictor
from toruscast.training import r2, rcc, regret, wrong_pairs

Floats = NDArray[np.float64]
CASE = ["benchmark", "size", "torus"]
# Share of a machine's times in a random training set, and number of random sets.
TENTH, DRAWS = 0.1, 3


def tenths(large: NDArray[np.bool_]) -> list[NDArray[np.bool_]]:
    """Return masks of random tenths of the large rows, one for each draw.

    Examples
    --------
    >>> [round(drawn.sum() / 500, 2) for drawn in tenths(np.arange(1000) < 500)]
    [0.1, 0.1, 0.1]
    """
    return [
        large & (np.random.default_rng(seed).random(large.size) < TENTH) for seed in range(DRAWS)
    ]


def fit_constants(
    seconds: Callable[[Floats], Floats],
    start: ArrayLike,
    observed: ArrayLike,
    hold: ArrayLike = 0.0,
) -> Floats:
    """Fit the positive constants of a model to observed times of a machine.

    The fit minimises the squared logarithms of the ratios, and reduces the weight of large ones.

    Parameters
    ----------
    seconds : callable
        Function of the constants that returns the times, shape (n_times,).
    start : array-like, shape (n_constants,)
        Values from which the fit starts.
    observed : array-like, shape (n_times,)
        Seconds.
    hold : array-like, shape (n_constants,)
        Strength with which each constant is held at its start, in units of the relative error of
        one time.

    Examples
    --------
    >>> fit_constants(lambda c: c[0] + c[1] * np.arange(1, 5), [1, 1], [5, 8, 11, 14]).round(3)
    array([2., 3.])
    """
    first, seen = np.log(np.asarray(start, dtype=float)), np.log(observed)

    def residuals(x: Floats) -> Floats:
        return np.concatenate([np.log(seconds(np.exp(x))) - seen, hold * (x - first)])

    return np.exp(least_squares(residuals, first, loss="soft_l1", f_scale=0.3, max_nfev=300).x)


def scores(observed: ArrayLike, predicted: ArrayLike) -> dict[str, float]:
    """Return RCC, wrong pairs and all pairs, R^2, R^2 of the logarithms, and regret.

    If a prediction is not positive, the R^2 of the logarithms is NaN.

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
        A row per learner; ``regret_1`` is the mean over benchmarks, sizes and hosts.
    predictions : DataFrame
        ``benchmark, size, torus, learner, observed, predicted`` of every sample.
    """
    rows, said = [], []
    for name, learner in learners.items():
        predicted = learner.fit(train, train["time"]).predict(test)
        own = test[CASE].assign(learner=name, observed=test["time"], predicted=predicted)
        mean_regret = float(by_case(own)["regret_1"].mean())
        overall = scores(own["observed"], own["predicted"])
        rows.append({"learner": name} | overall | {"regret_1": mean_regret})
        said.append(own)
    return pd.DataFrame(rows), pd.concat(said, ignore_index=True)


def by_case(predictions: pd.DataFrame) -> pd.DataFrame:
    """Return the scores of every learner within each benchmark, size and host."""
    keys = ["learner", *CASE]
    rows = [
        {**dict(zip(keys, labels, strict=True)), **scores(some["observed"], some["predicted"])}
        for labels, some in predictions.groupby(keys, sort=False)
    ]
    return pd.DataFrame(rows)
