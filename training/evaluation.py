"""Evaluation of predictors on held-out mappings and applications, and of added metrics."""

from __future__ import annotations

import itertools
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Literal, Self, get_args

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.model_selection import LeaveOneGroupOut

from toruscast._slow import pandas as pd
from toruscast.errors import InputError
from toruscast.scaling import PMNFRegressor
from toruscast.typing import Floats
from toruscast.validation import (
    SEED,
    Progress,
    Seed,
    job_count,
    one_of,
    progress_of,
    seed_number,
    whole_number,
)
from toruscast.workers import Task

from .feature_sets import FEATURE_SETS, columns_of, feature_set, features_only, usual_target
from .metrics import METRICS, rcc_ties_halved, rcc_told_apart, regret, tau_b
from .predictor import TimePredictor

logger = logging.getLogger(__name__)
Split = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Training rows and test rows."""

PUBLISHED_SHARE = 56 / 84
"""Share of the mappings to train on: 56 of 84, as published."""
INTERVAL_SPLITS = 5
"""Minimum number of splits for an interval from percentiles."""
HoldOut = Literal["application", "kind", "torus", "size"]
PLURALS = {"application": "applications", "kind": "kinds", "torus": "tori", "size": "sizes"}
BOUNDS = {"release_bound": "release bound", "lower_bound": "lower bound"}
"""Columns that rank mappings without training, and their labels; the better column first."""
BASELINES = {"coarse_time": "coarse simulation", **BOUNDS}
COVERAGE = 0.9
PRIOR = "prior"
# Select the best set on splits that are not used to score the metrics.
_SELECTION_SPLITS, _SELECTION_SEED = 2, 1_000_003


def repeated_splits(
    table: pd.DataFrame,
    predictors: TimePredictor | Mapping[str, Any],
    *,
    n_splits: int = 50,
    train_share: float = PUBLISHED_SHARE,
    seed: Seed = SEED,
    n_jobs: int | None = None,
    metrics: Mapping[str, Callable[[Any, Any], float]] | None = None,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """Train on random shares of the mappings and score the predictions of the others.

    Parameters
    ----------
    table : DataFrame
        Features and the column ``time``, with a row per mapping. Take the median of repeated runs
        first: scores are inflated if runs of a mapping are in both the training and the test set.
    predictors : TimePredictor, or dict of str to predictor
        All are scored on the same splits. The first split is the published single split.
    n_jobs : int, optional
        Number of processes.
    metrics : dict of str to callable, optional
        Functions of observed and predicted times, by name; by default, `METRICS`.
    progress : callable, optional
        Called with "splits", the number of finished fits, and the total number of fits.

    Returns
    -------
    DataFrame
        A row per predictor and split: ``predictor, split, n_train, n_test, rcc, tau_b, r2,
        regret_1, regret_5``.

    Examples
    --------
    >>> table = pd.DataFrame({"max_bytes": np.arange(30.0), "time": 1e-6 * np.arange(1, 31)})
    >>> scores = repeated_splits(table, TimePredictor(["max_bytes"], n_estimators=20), n_splits=3)
    >>> scores["rcc"].min() > 0.95
    np.True_
    """
    splits = random_splits(len(table), n_splits, train_share, seed)
    if isinstance(predictors, TimePredictor):
        features = predictors.features
        label = features if isinstance(features, str) else "all" if features is None else "own"
        predictors = {f"{label} ({predictors.target})": predictors}
    start = perf_counter()
    report = progress_of(progress, "splits")
    forecasts = forecast_splits(table, predictors, splits, n_jobs=n_jobs, progress=report)
    seconds = perf_counter() - start
    fields = {"predictors": [*predictors], "splits": n_splits, "seconds": seconds}
    message = "scored %(predictors)s on %(splits)d splits, in %(seconds).3g s"
    logger.info(message, fields, extra={"event": "scored", **fields})
    rows = []
    for (name, split), part in forecasts.groupby(["predictor", "split"], sort=False):
        row = {"predictor": name, "split": split, "n_train": part["n_train"].iloc[0]}
        times = part["time"].to_numpy(), part["forecast"].to_numpy()
        scores = {key: metric(*times) for key, metric in (metrics or METRICS).items()}
        rows.append({**row, "n_test": len(part), **scores})
    return pd.DataFrame(rows)


def forecast_splits(
    table: pd.DataFrame,
    predictors: Mapping[str, Any],
    splits: Sequence[Split],
    *,
    coverage: float | None = None,
    groups: NDArray[Any] | None = None,
    n_jobs: int | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> pd.DataFrame:
    """Train each predictor on each split and predict the test rows.

    The result has a row per predictor, split and test row:
    ``predictor, split, n_train, row, time, forecast, low, high``. The interval is NaN if there is
    no coverage or the model is not calibrated.
    """
    if not predictors:
        raise InputError("no predictor to score")
    features = features_only(table)
    observed = columns_of(table, ["time"])["time"].to_numpy(dtype=np.float64)
    items = [(predictor, *split) for predictor in predictors.values() for split in splits]
    # Use processes: fits in scikit-learn change the warning filters, which threads share.
    task = Task(_fit_and_forecast, features, observed, coverage, groups)
    forecasts = task.in_order(items, job_count(n_jobs), processes=True, progress=progress)
    labels = [(name, split) for name in predictors for split in range(len(splits))]
    parts = []
    for (name, split), (_, train, test), forecast in zip(labels, items, forecasts, strict=True):
        label = {"predictor": name, "split": split, "n_train": train.size}
        parts.append(pd.DataFrame({**label, "row": test, "time": observed[test], **forecast}))
    return pd.concat(parts, ignore_index=True)


def _fit_and_forecast(
    features: pd.DataFrame,
    observed: Floats,
    coverage: float | None,
    groups: NDArray[Any] | None,
    item: tuple[Any, NDArray[np.int64], NDArray[np.int64]],
) -> dict[str, Any]:
    """Fit a predictor to training rows and predict test rows, given (predictor, train, test).

    Returns the columns ``forecast``, ``low`` and ``high`` of `forecast_splits`.
    """
    predictor, train, test = item
    model, options = clone(predictor), {}
    if isinstance(model, TimePredictor):
        if coverage is None:
            model.set_params(calibration_folds=0)
        if groups is not None and 1 < np.unique(groups[train]).size < train.size:
            options = {"groups": groups[train]}
    model.fit(features.iloc[train], observed[train], **options)
    forecast = {"forecast": model.predict(features.iloc[test]), "low": np.nan, "high": np.nan}
    if coverage is not None and getattr(model, "calibration_", None) is not None:
        interval = model.predict_interval(features.iloc[test], coverage)
        forecast["low"], forecast["high"] = interval.T
    return forecast


def random_splits(
    n: int, n_splits: int, train_share: float = PUBLISHED_SHARE, seed: Seed = SEED
) -> list[Split]:
    """Return the splits of `repeated_splits`."""
    n_train = round(train_share * n) if 0 < train_share < 1 else 0
    if n_train < 2 or n - n_train < 2:
        found = f"{n} mappings, a share of {train_share:g} to train on"
        expected = "2 or more in both parts"
        raise InputError("cannot split the mappings", found=found, expected=expected)
    whole_number(n_splits, "number of splits", 1)
    rng = np.random.default_rng(seed_number(seed))
    orders = [rng.permutation(n) for _ in range(n_splits)]
    return [(order[:n_train], order[n_train:]) for order in orders]


def summarise(scores: pd.DataFrame) -> pd.DataFrame:
    """Return each metric's mean, 95 % interval and score on the first split, for every predictor.

    ``low`` and ``high`` are the 2.5 and 97.5 percentiles over the splits; NaN for fewer than
    `INTERVAL_SPLITS` splits. They describe the spread of single splits, not the error of the mean.
    Splits in which a metric is undefined (tau-b of equal times) are left out. ``first_split`` is
    the score of one split, as in the publication.

    Examples
    --------
    >>> scores = pd.DataFrame({"predictor": "a", "split": range(3), "rcc": [0.9, 1.0, 0.8]})
    >>> summarise(scores)["mean"].round(3).tolist()
    [0.9]
    """
    metrics = [name for name in METRICS if name in scores.columns]
    rows = []
    for name, scores_of_one in scores.groupby("predictor", sort=False):
        for metric in metrics:
            values = scores_of_one[metric].dropna()
            low = high = np.nan
            if values.size >= INTERVAL_SPLITS:
                low, high = np.percentile(values, [2.5, 97.5])
            first_score = scores_of_one.loc[scores_of_one["split"] == 0, metric].mean()
            row = {"predictor": name, "metric": metric, "mean": values.mean()}
            rows.append(row | {"low": low, "high": high, "first_split": first_score})
    return pd.DataFrame(rows)


def single_features(table: pd.DataFrame, features: Sequence[str] | None = None) -> pd.DataFrame:
    """Score the rankings by single features, the best first. Larger values mean slower mappings.

    A pair tied in either the feature or the time, but not both, counts half (`rcc_ties_halved`).

    Examples
    --------
    >>> table = pd.DataFrame({"a": [1.0, 2, 3], "b": [3.0, 1, 2], "time": [1.0, 2, 3]})
    >>> single_features(table)["rcc"].round(3).to_dict()
    {'a': 1.0, 'b': 0.333}
    """
    observed = columns_of(table, ["time"])["time"].to_numpy(dtype=np.float64)
    # If a table was joined from several runs, some columns may be incomplete.
    numeric = features_only(table).select_dtypes("number").dropna(axis="columns")
    names = list(numeric.columns) if features is None else list(feature_set(features))
    rows = {
        name: {"rcc": rcc_ties_halved(observed, column), "tau_b": tau_b(observed, column)}
        for name, column in columns_of(table, names).items()
    }
    result = pd.DataFrame.from_dict(rows, orient="index", columns=["rcc", "tau_b"])
    return result.rename_axis("feature").sort_values("rcc", ascending=False, kind="stable")


def rcc_gains(
    scores: pd.DataFrame, over: str | None = None, by: Sequence[str] = ("split",)
) -> pd.DataFrame:
    """Return the gain in RCC of each predictor over the first one, or over ``over``.

    Scores are paired by the columns ``by``. Different splits share mappings, so the interval over
    splits comes from the corrected resampled t-test (Nadeau and Bengio, Machine Learning 52, 2003),
    which multiplies the variance by 1/n + n_test/n_train. Pairs by other columns count as
    independent.
    """
    wide = scores.pivot(index=list(by), columns="predictor", values="rcc")
    names = scores["predictor"].unique()
    base_rcc = wide[names[0] if over is None else over]
    first_row = scores.iloc[0]
    size_ratio = float(first_row["n_test"] / first_row["n_train"]) if "split" in by else 0.0
    rows = {name: _mean_gain((wide[name] - base_rcc).dropna(), size_ratio) for name in names}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("features")


def baseline_scores(table: pd.DataFrame, n_splits: int, seed: int) -> pd.DataFrame:
    """Return the RCC of the columns in `BASELINES`, on the same splits as `repeated_splits`."""
    splits = random_splits(len(table), n_splits, seed=seed)
    observed = table["time"].to_numpy(dtype=np.float64)
    rows = [
        {
            "predictor": label,
            "split": split,
            "n_train": train.size,
            "n_test": test.size,
            "rcc": rcc_ties_halved(observed[test], table[name].to_numpy()[test]),
        }
        for name, label in BASELINES.items()
        if name in table and table[name].notna().all()
        for split, (train, test) in enumerate(splits)
    ]
    return pd.DataFrame(rows)


def _mean_gain(gains: pd.Series[float], ratio: float = 0.0) -> dict[str, float]:
    """Return the mean gain with its 95 % interval.

    For splits that share mappings, ``ratio`` is the test size over the training size, else 0.
    """
    values, n = gains.to_numpy(dtype=np.float64), gains.size
    mean, margin = float(values.mean()), float("nan")
    if n > 1:
        deviation = np.sqrt(values.var(ddof=1) * (1 / n + ratio))
        margin = float(scipy.stats.t.ppf(0.975, n - 1) * deviation)
    return {"gain": mean, "low": mean - margin, "high": mean + margin}


class PMNFBaseline(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A PMNF model of the time by mean message size, number of nodes and lower bound."""

    def fit(self, X: pd.DataFrame, y: ArrayLike) -> Self:
        """Fit the model to samples."""
        columns = problem_sizes(X)
        # PMNF needs parameters of 1 or more, and bounds are far below a second.
        self.unit_ = columns.min()
        self.model_ = PMNFRegressor(warn=False).fit(columns / self.unit_, np.asarray(y))
        return self

    def predict(self, X: pd.DataFrame) -> Floats:
        """Predict times (s)."""
        return self.model_.predict(problem_sizes(X) / self.unit_)


def problem_sizes(table: pd.DataFrame) -> pd.DataFrame:
    """Return the message size, "nodes" (in fact FIFOs) and lower bound of each sample."""
    names = ("hop_bytes", "sum_dilation", "sum_FIFO", "avg_FIFO", "lower_bound")
    columns = columns_of(table, names)
    # The divisors are 0 if all tasks are on one node.
    hops, mean_fifo = columns["sum_dilation"].clip(lower=1), columns["avg_FIFO"].replace(0.0, 1.0)
    return pd.DataFrame(
        {
            "message_bytes": (columns["hop_bytes"] / hops).clip(lower=1.0),
            "nodes": (columns["sum_FIFO"] / mean_fifo).clip(lower=1.0),
            "lower_bound": columns["lower_bound"].clip(lower=1e-12),
        }
    )


def hold_out(
    table: pd.DataFrame,
    predictors: Mapping[str, TimePredictor | PMNFBaseline],
    by: HoldOut,
    *,
    n_jobs: int | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> pd.DataFrame:
    """Hold out each application, kind or torus in turn, and score predictions from the others.

    If ``by`` is "size", only the largest workload is held out.
    """
    one_of(by, "group to hold out", get_args(HoldOut))
    blocks = columns_of(table, ("workload", "torus")).astype(str).reset_index(drop=True)
    groups = _assign_groups(table, blocks, by)
    if groups.nunique() < 2:
        found = ", ".join(groups.unique()) or "no samples"
        expected = f"samples of several {PLURALS[by]} in one table"
        raise InputError(f"too few {PLURALS[by]} to hold one out", found=found, expected=expected)
    codes, names = pd.factorize(groups)
    splits = list(LeaveOneGroupOut().split(table, groups=codes))
    if by == "size":
        sizes = problem_sizes(table)
        means = (sizes["nodes"] * sizes["message_bytes"]).groupby(codes).mean()
        largest = int(means.to_numpy().argmax())
        names, splits = names[[largest]], [splits[largest]]
    forecasts = forecast_splits(
        table,
        predictors,
        splits,
        coverage=COVERAGE,
        groups=groups.to_numpy(),
        n_jobs=n_jobs,
        progress=progress,
    )
    bounds = [name for name in BOUNDS if name in table and table[name].notna().all()]
    if bounds:
        baseline = forecasts[forecasts["predictor"] == next(iter(predictors))]
        baseline = baseline.assign(
            predictor=BOUNDS[bounds[0]],
            n_train=0,
            forecast=table[bounds[0]].to_numpy()[baseline["row"]],
            low=np.nan,
            high=np.nan,
        )
        forecasts = pd.concat([forecasts, baseline], ignore_index=True)
    held_out = names.to_numpy()[forecasts["split"]]
    forecasts = forecasts.join(blocks, on="row").assign(held_out=held_out)
    labels = ["predictor", "held_out", "workload", "torus"]
    rows = [
        {**dict(zip(labels, values, strict=True)), **_score_block(part)}
        for values, part in forecasts.groupby(labels, sort=False)
    ]
    return pd.DataFrame(rows)


def _assign_groups(table: pd.DataFrame, blocks: pd.DataFrame, by: HoldOut) -> pd.Series[str]:
    """Return the group of each sample; its kind is the pattern in its recipe or its name."""
    if by == "size":
        return blocks.agg(" on ".join, axis=1)
    if by != "kind":
        return blocks["torus" if by == "torus" else "workload"]
    recipes = table.attrs.get("provenance", {}).get("workloads")
    recipes = recipes if isinstance(recipes, Mapping) else {}

    def find_kind(name: str) -> str:
        recipe = recipes.get(name)
        pattern = recipe.get("pattern") if isinstance(recipe, Mapping) else None
        return str(pattern or re.split(r"[-_ ]\d", name)[0] or name)

    return blocks["workload"].map(find_kind)


def _score_block(part: pd.DataFrame) -> dict[str, object]:
    """Score the forecasts that one predictor makes for one workload and torus."""
    n, n_train, nan = len(part), int(part["n_train"].iloc[0]), float("nan")
    observed, predicted = part["time"].to_numpy(), part["forecast"].to_numpy()
    rcc = {
        name: rcc_told_apart(observed, predicted, apart) if n > 1 else nan
        for name, apart in (("rcc", 0.0), ("rcc_1", 0.01), ("rcc_5", 0.05))
    }
    is_covered = part["time"].between(part["low"], part["high"])
    return {
        "n_train": n_train,
        "n_test": n,
        **rcc,
        "regret_1": regret(observed, predicted) if n > 1 else nan,
        "error": float(np.median(np.abs(predicted / observed - 1))) if n_train else nan,
        "coverage": float(is_covered.mean()) if part["low"].notna().all() else nan,
    }


@dataclass(frozen=True)
class MetricEvaluation:
    """Gain in RCC from adding metrics to feature sets."""

    metrics: tuple[str, ...]
    n_splits: int
    """Number of splits in each workload and torus."""
    best: str
    """The named set with the best predictions, selected on separate splits."""
    blocks: pd.DataFrame
    """A row per workload, torus and base set: ``n_samples``, mean ``rcc`` of the base, ``gain`` in
    RCC with its 95 % interval ``low`` to ``high``, and the RCC of the best metric ``alone``."""
    gains: pd.DataFrame
    """Means over all blocks, by base, and the number of blocks with a positive gain."""

    def describe_gain(self, base: str) -> str:
        """Describe the effect of the metrics on the RCC of a set."""
        row = self.gains.loc[[base]].astype(float).iloc[0].to_dict()
        interval = f"[{row['low']:z.3f}, {row['high']:z.3f}]"
        if np.isnan(row["low"]):
            return f"changes the RCC of {base} by {row['gain']:+.3f}, without a known interval"
        if row["low"] > 0:
            return f"adds {row['gain']:.3f} {interval} RCC to {base}"
        if row["high"] < 0:
            return f"lowers the RCC of {base} by {-row['gain']:.3f}: {interval}"
        sign = "+" if row["gain"] >= 0 else ""
        return f"adds nothing to {base}: {sign}{row['gain']:z.3f} {interval} RCC"


def evaluate_metrics(
    table: pd.DataFrame,
    metrics: Sequence[str],
    *,
    n_splits: int = 10,
    seed: int = 0,
    n_jobs: int = 1,
    progress: Callable[[int, int], object] | None = None,
) -> MetricEvaluation:
    """Measure how much metrics improve on the set ``prior``, and on the best named set of a table.

    Within each workload and torus, predictors with and without the metrics train on the same two
    thirds of the mappings and predict the others.
    """
    missing = [name for name in (*metrics, "time") if name not in table.columns]
    if missing or not metrics:
        expected = ", ".join(missing) or "a metric"
        raise InputError("columns missing from the samples", expected=expected)
    blocks = [
        (str(workload), str(torus), group.reset_index(drop=True))
        for (workload, torus), group in table.groupby(["workload", "torus"], sort=False)
        if group["time"].nunique() > 1
    ]
    if not blocks:
        raise InputError("cannot evaluate metrics: all times are equal")
    sets = _complete_sets(table, metrics)
    n_done = itertools.count(1)
    report = progress or (lambda done, total: None)
    mean_rcc = []
    for _, _, group in blocks:
        scores = _score_sets(group, sets, _SELECTION_SPLITS, seed + _SELECTION_SEED, n_jobs)
        mean_rcc.append(scores.groupby("predictor", sort=False)["rcc"].mean())
        report(next(n_done), 2 * len(blocks))
    best = str(pd.concat(mean_rcc, axis="columns").mean(axis="columns").idxmax())
    rows = []
    for workload, torus, group in blocks:
        alone = single_features(group, metrics)["rcc"].iloc[0]
        label = {"workload": workload, "torus": torus, "n_samples": len(group)}
        for base in dict.fromkeys((PRIOR, best)):
            pair = {base: sets[base], "with": (*sets[base], *metrics)}
            scores = _score_sets(group, pair, n_splits, seed, n_jobs)
            rcc = scores.loc[scores["predictor"] == base, "rcc"].mean()
            gain = rcc_gains(scores).loc["with"].to_dict()
            rows.append(label | {"base": base, "rcc": rcc} | gain | {"alone": alone})
        report(next(n_done), 2 * len(blocks))
    by_block = pd.DataFrame(rows)
    by_base = {
        str(base): _average_gains(gains) for base, gains in by_block.groupby("base", sort=False)
    }
    gains = pd.DataFrame.from_dict(by_base, orient="index").rename_axis("base")
    return MetricEvaluation(tuple(metrics), n_splits, best, by_block, gains)


def _complete_sets(table: pd.DataFrame, metrics: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the named sets whose columns have no missing values, leaving out the metrics."""
    complete = set(table.columns[table.notna().all()])
    sets = {
        name: tuple(feature for feature in features if feature not in metrics)
        for name, features in FEATURE_SETS.items()
        if complete.issuperset(features)
    }
    if PRIOR not in sets:
        expected = ", ".join(FEATURE_SETS[PRIOR])
        raise InputError("columns missing from the samples", expected=expected)
    return sets


def _score_sets(
    group: pd.DataFrame, sets: Mapping[str, tuple[str, ...]], n_splits: int, seed: int, n_jobs: int
) -> pd.DataFrame:
    """Score a predictor with each feature set on the same splits."""
    # A few trees are enough for a mean over many splits.
    predictors = {
        name: TimePredictor(features, usual_target(features), n_estimators=32, calibration_folds=0)
        for name, features in sets.items()
    }
    return repeated_splits(group, predictors, n_splits=n_splits, seed=seed, n_jobs=n_jobs)


def _average_gains(blocks: pd.DataFrame) -> dict[str, float]:
    """Return the mean gain over blocks with its 95 % interval, or the gain of a single block."""
    n = len(blocks)
    gain = _mean_gain(blocks["gain"]) if n > 1 else blocks.iloc[0][["gain", "low", "high"]]
    higher = int((blocks["gain"] > 0).sum())
    return {"rcc": float(blocks["rcc"].mean()), **gain, "blocks": n, "higher": higher}
