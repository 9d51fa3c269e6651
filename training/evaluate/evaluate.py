"""How well forecasts hold on mappings held out of training."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy
from numpy.typing import NDArray
from sklearn.base import clone

from toruscast.errors import InputError
from toruscast.training.predictor.feature_sets import feature_set
from toruscast.training.predictor.predictor import TimePredictor
from toruscast.training.samples._table import columns_of, features_only
from toruscast.validation import job_count, whole_number
from toruscast.workers import Task

from .metrics import METRICS, rcc_ties_halved, tau_b

logger = logging.getLogger(__name__)
Floats = NDArray[np.float64]
Split = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Rows to train on, and rows to forecast."""

PUBLISHED_SHARE = 56 / 84
"""Share of the mappings to train on: 56 of 84, as published."""
INTERVAL_SPLITS = 5
"""Least splits that make an interval: the 2.5 and 97.5 percentiles of fewer are all but their least
and largest value, which says little of what another split may give."""


def repeated_splits(
    table: pd.DataFrame,
    predictors: TimePredictor | Mapping[str, Any],
    *,
    n_splits: int = 50,
    train_share: float = PUBLISHED_SHARE,
    seed: int = 0,
    n_jobs: int | None = None,
    metrics: Mapping[str, Callable[[Any, Any], float]] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> pd.DataFrame:
    """Train on a random share of the mappings and score the forecast of the rest, many times.

    Parameters
    ----------
    table : DataFrame
        Features and the column ``time`` of mappings, a row each: of several runs of one take the
        median first, for with one run in training and another held out any forecast looks good.
    predictors : TimePredictor, or dict of str to predictor
        Each is scored on the same splits.
    n_splits : int
        Number of splits; the first is the published single split.
    train_share : float
        Share of the mappings to train on.
    seed : int
        Seed of the splits.
    n_jobs : int, optional
        Processes.
    metrics : dict of str to callable, optional
        Of observed and forecast times, by name; `METRICS` if not given.
    progress : callable, optional
        Called with the number of fits done and of all.

    Returns
    -------
    DataFrame
        A row per predictor and split: ``predictor, split, n_train, n_test, rcc, tau_b, r2,
        regret_1, regret_5``.

    Raises
    ------
    InputError
        If the column of times is missing or there are too few mappings.

    Examples
    --------
    >>> table = pd.DataFrame({"max_bytes": np.arange(30.0), "time": 1e-6 * np.arange(1, 31)})
    >>> scores = repeated_splits(table, TimePredictor(["max_bytes"], n_estimators=20), n_splits=3)
    >>> scores["rcc"].min() > 0.95
    np.True_
    """
    observed = columns_of(table, ["time"])["time"].to_numpy(dtype=np.float64)
    splits = random_splits(observed.size, n_splits, train_share, seed)
    if isinstance(predictors, TimePredictor):
        predictors = {_name_of(predictors): predictors}
    if not predictors:
        raise InputError("no predictor to score")
    features = features_only(table)
    began = perf_counter()
    found = forecast_splits(
        features, observed, predictors, splits, n_jobs=n_jobs, progress=progress
    )
    seconds = perf_counter() - began
    scored = {"event": "scored", "predictors": [*predictors], "splits": n_splits}
    words = "scored %s on %d splits, in %.3g s"
    names = ", ".join(predictors)
    logger.info(words, names, n_splits, seconds, extra={**scored, "seconds": seconds})
    used = metrics or METRICS
    return pd.DataFrame(
        {
            "predictor": name,
            "split": split,
            "n_train": train.size,
            "n_test": test.size,
            **{each: metric(observed[test], said.times) for each, metric in used.items()},
        }
        for name, forecasts in found.items()
        for split, ((train, test), said) in enumerate(zip(splits, forecasts, strict=True))
    )


class HeldOut(NamedTuple):
    """What a predictor forecasts of rows that it was not trained on."""

    times: Floats
    """Seconds, ``(n_test,)``."""
    interval: Floats | None = None
    """Low and high end of each, ``(n_test, 2)``; None where none was asked for or is known."""


def forecast_splits(
    features: pd.DataFrame,
    observed: Floats,
    predictors: Mapping[str, Any],
    splits: Sequence[Split],
    *,
    coverage: float | None = None,
    groups: NDArray[Any] | None = None,
    n_jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, list[HeldOut]]:
    """Train each predictor on each split and forecast the rows held out.

    Parameters
    ----------
    features : DataFrame
    observed : ndarray, shape (n,)
        Observed times.
    predictors : mapping of str to estimator
    splits : sequence of (train, test)
    coverage : float, optional
        Share of the times that intervals hold; no intervals if not given.
    groups : ndarray, shape (n,), optional
        Groups that the folds behind the intervals keep together.
    n_jobs : int, optional
        Processes.
    progress : callable, optional
        Called with the number of fits done and of all.

    Returns
    -------
    dict
        A forecast for each split, by predictor.
    """
    items = [(each, *split) for each in predictors.values() for split in splits]
    # Processes, because scikit-learn's fits change the warning filters, which threads share.
    task = Task(_fit_and_forecast, features, observed, coverage, groups)
    found = task.in_order(items, job_count(n_jobs), processes=True, progress=progress)
    n = len(splits)
    return {name: found[i * n : (i + 1) * n] for i, name in enumerate(predictors)}


def _fit_and_forecast(
    features: pd.DataFrame,
    observed: Floats,
    coverage: float | None,
    groups: NDArray[Any] | None,
    item: tuple[Any, NDArray[np.int64], NDArray[np.int64]],
) -> HeldOut:
    predictor, train, test = item
    model, known = clone(predictor), {}
    if coverage is None and isinstance(model, TimePredictor):
        model.set_params(calibration_folds=0)
    if groups is not None and isinstance(model, TimePredictor):
        others = groups[train]
        known = {"groups": others} if 1 < np.unique(others).size < others.size else {}
    model.fit(features.iloc[train], observed[train], **known)
    rest = features.iloc[test]
    times = model.predict(rest)
    if coverage is None or getattr(model, "calibration_", None) is None:
        return HeldOut(times)
    return HeldOut(times, model.predict_interval(rest, coverage))


def random_splits(
    n: int, n_splits: int, train_share: float = PUBLISHED_SHARE, seed: int = 0
) -> list[Split]:
    """Return the mappings to train on and those to score of every split of `repeated_splits`.

    Raises
    ------
    InputError
        If there is no split, or fewer than two mappings are on one side.

    Examples
    --------
    >>> [(train.size, test.size) for train, test in random_splits(84, 2)]
    [(56, 28), (56, 28)]
    """
    n_train = round(train_share * n) if 0 < train_share < 1 else 0
    if n_train < 2 or n - n_train < 2:
        raise InputError(
            "cannot split the mappings",
            found=f"{n} mappings, a share of {train_share:g} to train on",
            expected="2 or more on both sides",
        )
    whole_number(n_splits, "number of splits", 1)
    rng = np.random.default_rng(whole_number(seed, "seed", 0))
    orders = [rng.permutation(n) for _ in range(n_splits)]
    return [(order[:n_train], order[n_train:]) for order in orders]


def summarise(scores: pd.DataFrame) -> pd.DataFrame:
    """Return mean, 95 % interval and first split of each metric, for every predictor.

    ``low`` and ``high`` are the 2.5 and 97.5 percentiles over the splits: what another single split
    may give, not how well the mean is known; NaN of fewer than `INTERVAL_SPLITS` splits. Splits in
    which a metric is not defined (tau-b of equal times) are left out.
    ``first_split`` is the score of one split alone, as results were published.

    Examples
    --------
    >>> scores = pd.DataFrame({"predictor": "a", "split": range(3), "rcc": [0.9, 1.0, 0.8]})
    >>> summarise(scores)["mean"].round(3).tolist()
    [0.9]
    """
    metrics = [name for name in METRICS if name in scores.columns]
    rows = []
    for name, group in scores.groupby("predictor", sort=False):
        for metric in metrics:
            values = group[metric].dropna().to_numpy(dtype=np.float64)
            enough = values.size >= INTERVAL_SPLITS
            low, high = np.percentile(values, [2.5, 97.5]) if enough else (np.nan, np.nan)
            first = group.loc[group["split"] == 0, metric]
            rows.append(
                {
                    "predictor": name,
                    "metric": metric,
                    "mean": values.mean() if values.size else np.nan,
                    "low": low,
                    "high": high,
                    "first_split": float(first.iloc[0]) if len(first) else np.nan,
                }
            )
    return pd.DataFrame(rows)


def single_features(table: pd.DataFrame, features: Sequence[str] | None = None) -> pd.DataFrame:
    """Return how well each feature alone ranks the mappings, more meaning slower; best first.

    A pair tied in the feature or the time alone counts half (`rcc_ties_halved`).

    Examples
    --------
    >>> table = pd.DataFrame({"a": [1.0, 2, 3], "b": [3.0, 1, 2], "time": [1.0, 2, 3]})
    >>> single_features(table)["rcc"].round(3).to_dict()
    {'a': 1.0, 'b': 0.333}
    """
    observed = columns_of(table, ["time"])["time"].to_numpy(dtype=np.float64)
    # Of a table from several runs some rows may lack what others have.
    numeric = features_only(table).select_dtypes("number").dropna(axis="columns")
    names = list(numeric.columns) if features is None else list(feature_set(features))
    rows = {
        name: {"rcc": rcc_ties_halved(observed, column), "tau_b": tau_b(observed, column)}
        for name, column in columns_of(table, names).items()
    }
    result = pd.DataFrame.from_dict(rows, orient="index", columns=["rcc", "tau_b"])
    return result.rename_axis("feature").sort_values("rcc", ascending=False, kind="stable")


def compare_feature_sets(
    table: pd.DataFrame,
    sets: Mapping[str, str | Sequence[str]] | Sequence[str],
    *,
    predictor: TimePredictor | None = None,
    **options: Any,
) -> pd.DataFrame:
    """Return how well each feature set forecasts, and its gain in RCC over the first one.

    Parameters
    ----------
    table : DataFrame
        Features and observed times of mappings.
    sets : sequence of str, or dict of names to feature lists
        Named sets, or the user's own.
    predictor : TimePredictor, optional
        The learner, its features aside; that of the published protocol if not given.
    **options
        Those of `repeated_splits`.

    Returns
    -------
    DataFrame
        Indexed by feature set: mean of each metric, 95 % interval of RCC over the splits
        (``rcc_low``, ``rcc_high``, as in `summarise`) and its first split (``rcc_first_split``),
        and ``gain`` in RCC over the first set with the 95 % interval of its mean, ``gain_low`` to
        ``gain_high`` (`gains`).
    """
    named = dict(sets) if isinstance(sets, Mapping) else {name: name for name in sets}
    if not named:
        raise InputError("no feature set to compare")
    learner = TimePredictor() if predictor is None else predictor
    chosen = {name: feature_set(value) for name, value in named.items()}
    columns_of(table, [name for names in chosen.values() for name in names])
    learners = {name: clone(learner).set_params(features=names) for name, names in chosen.items()}
    scores = repeated_splits(table, learners, **options)
    by_metric = summarise(scores).set_index(["metric", "predictor"])
    gain = gains(scores).rename(columns=lambda name: name if name == "gain" else f"gain_{name}")
    rcc = by_metric.loc["rcc", ["low", "high", "first_split"]].add_prefix("rcc_")
    result = by_metric["mean"].unstack(0)[by_metric.index.unique(0)].join([rcc, gain])
    return result.loc[[*named]].rename_axis("features")


def _name_of(predictor: TimePredictor) -> str:
    features = predictor.features
    name = features if isinstance(features, str) else "all" if features is None else "own"
    return f"{name} ({predictor.target})"


def gains(scores: pd.DataFrame) -> pd.DataFrame:
    """Return by how much each predictor's RCC is higher than the first one's, on the same splits.

    Parameters
    ----------
    scores : DataFrame
        A row per predictor and split, as `repeated_splits` gives it.

    Returns
    -------
    DataFrame
        Indexed by predictor: mean ``gain`` and its 95 % interval, ``low`` to ``high``.

    Notes
    -----
    The splits share mappings, so the interval is that of the corrected resampled t-test of Nadeau
    and Bengio, Machine Learning 52, 2003: variance times 1/n + n_test/n_train.

    Examples
    --------
    >>> scores = pd.DataFrame({
    ...     "predictor": ["a", "a", "b", "b"], "split": [0, 1, 0, 1], "n_train": 2, "n_test": 1,
    ...     "rcc": [0.5, 0.7, 0.6, 0.8],
    ... })
    >>> gains(scores)["gain"].round(3).to_dict()
    {'a': 0.0, 'b': 0.1}
    """
    names = list(dict.fromkeys(scores["predictor"]))
    by_split = scores.pivot(index="split", columns="predictor", values="rcc")
    ratio = float(scores["n_test"].iloc[0] / scores["n_train"].iloc[0])
    rows = {}
    for name in names:
        better = (by_split[name] - by_split[names[0]]).to_numpy(dtype=np.float64)
        gain, margin = _mean_and_margin(better, ratio)
        rows[name] = {"gain": gain, "low": gain - margin, "high": gain + margin}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("features")


def _mean_and_margin(values: NDArray[np.float64], ratio: float) -> tuple[float, float]:
    """Return the mean over overlapping splits and half its 95 % interval."""
    if values.size < 2:
        return float(values.mean()), float("nan")
    variance = values.var(ddof=1) * (1 / values.size + ratio)
    return float(values.mean()), float(
        scipy.stats.t.ppf(0.975, values.size - 1) * np.sqrt(variance)
    )
