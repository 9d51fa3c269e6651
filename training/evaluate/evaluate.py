"""How well forecasts hold on mappings held out of training."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
import scipy
from numpy.typing import NDArray
from sklearn.base import clone

from toruscast.errors import InputError
from toruscast.training.predictor.feature_sets import feature_set
from toruscast.training.predictor.predictor import TimePredictor
from toruscast.training.samples._table import features_only
from toruscast.validation import job_count, whole_number
from toruscast.workers import Task

from .metrics import METRICS, rcc_ties_halved, tau_b

logger = logging.getLogger(__name__)
Predictors = TimePredictor | Sequence[TimePredictor] | Mapping[str, Any]

PUBLISHED_SHARE = 56 / 84
"""Share of the mappings to train on: 56 of 84, as published."""
INTERVAL_SPLITS = 5
"""Least splits that make an interval: the 2.5 and 97.5 percentiles of fewer are all but their least
and largest value, which says little of what another split may give."""


def repeated_splits(
    table: pd.DataFrame,
    predictors: Predictors,
    *,
    n_splits: int = 50,
    train_share: float = PUBLISHED_SHARE,
    seed: int = 0,
    time: str = "time",
    n_jobs: int | None = None,
    metrics: Mapping[str, Callable[[Any, Any], float]] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> pd.DataFrame:
    """Train on a random share of the mappings and score the forecast of the rest, many times.

    Parameters
    ----------
    table : DataFrame
        Features and observed times of mappings, a row each: of several runs of one take the median
        first, for with one run in training and another held out any forecast looks good.
    predictors : TimePredictor, or a sequence or dict of them
        Each is scored on the same splits.
    n_splits : int
        Number of splits; the first is the published single split.
    train_share : float
        Share of the mappings to train on.
    seed : int
        Seed of the splits.
    time : str
        Column of the observed times.
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
    observed = _observed(table, time)
    splits = random_splits(observed.size, n_splits, train_share, seed)
    named = _named(predictors)
    if not named:
        raise InputError("no predictor to score")
    work = [
        (name, predictor, split, parts)
        for name, predictor in named.items()
        for split, parts in enumerate(splits)
    ]
    features = features_only(table, time)
    # Processes, for scikit-learn's fits change the warning filters, which threads share.
    score = Task(_score, features, observed, dict(metrics or METRICS))
    items = [(predictor, *parts) for _, predictor, _, parts in work]
    began = perf_counter()
    rows = score.in_order(items, job_count(n_jobs), processes=True, progress=progress)
    seconds = perf_counter() - began
    scored = {"event": "scored", "predictors": [*named], "splits": n_splits, "seconds": seconds}
    words = "scored %s on %d splits, in %.3g s"
    logger.info(words, ", ".join(named), n_splits, seconds, extra=scored)
    labels = [{"predictor": name, "split": split} for name, _, split, _ in work]
    return pd.DataFrame([label | row for label, row in zip(labels, rows, strict=True)])


def random_splits(
    n: int, n_splits: int, train_share: float = PUBLISHED_SHARE, seed: int = 0
) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
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


def single_features(
    table: pd.DataFrame, features: Sequence[str] | None = None, time: str = "time"
) -> pd.DataFrame:
    """Return how well each feature alone ranks the mappings, more meaning slower; best first.

    A pair tied in the feature or the time alone counts half (`rcc_ties_halved`).

    Examples
    --------
    >>> table = pd.DataFrame({"a": [1.0, 2, 3], "b": [3.0, 1, 2], "time": [1.0, 2, 3]})
    >>> single_features(table)["rcc"].round(3).to_dict()
    {'a': 1.0, 'b': 0.333}
    """
    observed = _observed(table, time)
    # Of a table from several runs some rows may lack what others have.
    numeric = features_only(table, time).select_dtypes("number").dropna(axis="columns")
    names = list(numeric.columns) if features is None else list(feature_set(features))
    _check_columns(table, names)
    columns = {name: table[name].to_numpy() for name in names}
    scores = {
        name: {
            "rcc": rcc_ties_halved(observed, column),
            "tau_b": tau_b(observed, column),
        }
        for name, column in columns.items()
    }
    result = pd.DataFrame.from_dict(scores, orient="index", columns=["rcc", "tau_b"])
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
    for names in chosen.values():
        _check_columns(table, names)
    scores = repeated_splits(
        table,
        {name: clone(learner).set_params(features=names) for name, names in chosen.items()},
        **options,
    )
    summary = summarise(scores).set_index(["predictor", "metric"])
    gain = gains(scores)
    rows = {}
    for name in named:
        measured = summary.loc[name]
        rows[name] = {
            **measured["mean"].to_dict(),
            "rcc_low": measured.loc["rcc", "low"],
            "rcc_high": measured.loc["rcc", "high"],
            "rcc_first_split": measured.loc["rcc", "first_split"],
            "gain": gain.loc[name, "gain"],
            "gain_low": gain.loc[name, "low"],
            "gain_high": gain.loc[name, "high"],
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("features")


def _score(
    features: pd.DataFrame,
    observed: NDArray[np.float64],
    metrics: Mapping[str, Callable[[Any, Any], float]],
    item: tuple[TimePredictor, NDArray[np.int64], NDArray[np.int64]],
) -> dict[str, float]:
    """Return every metric of one predictor on one split."""
    predictor, train, test = item
    # Scores need no intervals.
    model = clone(predictor)
    if "calibration_folds" in model.get_params():
        model.set_params(calibration_folds=0)
    predicted = model.fit(features.iloc[train], observed[train]).predict(features.iloc[test])
    scores = {name: metric(observed[test], predicted) for name, metric in metrics.items()}
    return {"n_train": train.size, "n_test": test.size, **scores}


def _named(predictors: Predictors) -> dict[str, Any]:
    """Return predictors under a name each: given, or that of the features."""
    if isinstance(predictors, Mapping):
        return dict(predictors)
    several = [predictors] if isinstance(predictors, TimePredictor) else list(predictors)
    named: dict[str, TimePredictor] = {}
    for predictor in several:
        features = predictor.features
        name = features if isinstance(features, str) else "all" if features is None else "own"
        name = f"{name} ({predictor.target})"
        if name in named:
            name += f" {len(named) + 1}"
        named[name] = predictor
    return named


def _observed(table: pd.DataFrame, time: str) -> NDArray[np.float64]:
    _check_columns(table, [time])
    return table[time].to_numpy(dtype=np.float64)


def _check_columns(table: pd.DataFrame, names: Sequence[str]) -> None:
    missing = [name for name in names if name not in table.columns]
    if missing:
        raise InputError("missing columns", found=list(table.columns), expected=", ".join(missing))


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
