"""How well forecasts hold on held-out mappings and applications, and what a metric adds."""

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
from sklearn.model_selection import KFold, LeaveOneGroupOut

from toruscast._slow import pandas as pd
from toruscast.errors import InputError
from toruscast.scaling import PMNFRegressor
from toruscast.validation import job_count, one_of, whole_number
from toruscast.workers import Task

from .feature_sets import FEATURE_SETS, columns_of, feature_set, features_only, usual_target
from .metrics import METRICS, rcc_ties_halved, rcc_told_apart, regret, tau_b
from .predictor import TimePredictor

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
        Each is scored on the same splits, the first of which is the published single split.
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

    Examples
    --------
    >>> table = pd.DataFrame({"max_bytes": np.arange(30.0), "time": 1e-6 * np.arange(1, 31)})
    >>> scores = repeated_splits(table, TimePredictor(["max_bytes"], n_estimators=20), n_splits=3)
    >>> scores["rcc"].min() > 0.95
    np.True_
    """
    splits = random_splits(len(table), n_splits, train_share, seed)
    if isinstance(predictors, TimePredictor):
        predictors = {_name_of(predictors): predictors}
    began = perf_counter()
    found = forecast_splits(table, predictors, splits, n_jobs=n_jobs, progress=progress)
    seconds = perf_counter() - began
    scored = {"predictors": [*predictors], "splits": n_splits, "seconds": seconds}
    words = "scored %(predictors)s on %(splits)d splits, in %(seconds).3g s"
    logger.info(words, scored, extra={"event": "scored", **scored})
    rows = []
    for (name, split), part in found.groupby(["predictor", "split"], sort=False):
        row = {"predictor": name, "split": split, "n_train": part["n_train"].iloc[0]}
        pair = part["time"].to_numpy(), part["forecast"].to_numpy()
        scores = {each: metric(*pair) for each, metric in (metrics or METRICS).items()}
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
    progress: Callable[[int, int], None] | None = None,
) -> pd.DataFrame:
    """Train each predictor on each split and forecast the rows held out.

    Returns
    -------
    DataFrame
        A row per predictor, split and row held out: ``predictor, split, n_train, row, time,
        forecast, low, high``. The interval is NaN without a coverage, or where none is known.
    """
    if not predictors:
        raise InputError("no predictor to score")
    features = features_only(table)
    observed = columns_of(table, ["time"])["time"].to_numpy(dtype=np.float64)
    items = [(each, *split) for each in predictors.values() for split in splits]
    # Processes, because scikit-learn's fits change the warning filters, which threads share.
    task = Task(_fit_and_forecast, features, observed, coverage, groups)
    found = task.in_order(items, job_count(n_jobs), processes=True, progress=progress)
    labels = [(name, split) for name in predictors for split in range(len(splits))]
    parts = []
    for (name, split), (_, train, test), said in zip(labels, items, found, strict=True):
        known = {"predictor": name, "split": split, "n_train": train.size}
        parts.append(pd.DataFrame({**known, "row": test, "time": observed[test], **said}))
    return pd.concat(parts, ignore_index=True)


def _fit_and_forecast(
    features: pd.DataFrame,
    observed: Floats,
    coverage: float | None,
    groups: NDArray[Any] | None,
    item: tuple[Any, NDArray[np.int64], NDArray[np.int64]],
) -> dict[str, Any]:
    predictor, train, test = item
    model, known = clone(predictor), {}
    if coverage is None and isinstance(model, TimePredictor):
        model.set_params(calibration_folds=0)
    if groups is not None and isinstance(model, TimePredictor):
        others = groups[train]
        known = {"groups": others} if 1 < np.unique(others).size < others.size else {}
    model.fit(features.iloc[train], observed[train], **known)
    rest = features.iloc[test]
    said = {"forecast": model.predict(rest), "low": np.nan, "high": np.nan}
    if coverage is not None and getattr(model, "calibration_", None) is not None:
        said["low"], said["high"] = model.predict_interval(rest, coverage).T
    return said


def random_splits(
    n: int, n_splits: int, train_share: float = PUBLISHED_SHARE, seed: int = 0
) -> list[Split]:
    """Return the mappings to train on and those to score of every split of `repeated_splits`."""
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

    The ``sets`` are named ones, or the user's own; ``options`` those of `repeated_splits`. The
    learner, its features aside, is that of the published protocol if no ``predictor`` is given.

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


def gains(
    scores: pd.DataFrame, over: str | None = None, by: Sequence[str] = ("split",)
) -> pd.DataFrame:
    """Return by how much each predictor's RCC is higher than the first one's, or that of ``over``.

    Scores are compared ``by`` split. Splits share mappings, so the interval is that of the
    corrected resampled t-test of Nadeau and Bengio, Machine Learning 52, 2003: variance times
    1/n + n_test/n_train. Other columns name samples that share nothing.
    """
    wide = scores.pivot(index=list(by), columns="predictor", values="rcc")
    names = scores["predictor"].unique()
    own = wide[names[0] if over is None else over]
    first = scores.iloc[0]
    ratio = float(first["n_test"] / first["n_train"]) if "split" in by else 0.0
    rows = {name: _mean_gain((wide[name] - own).dropna(), ratio) for name in names}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("features")


def baseline_scores(table: pd.DataFrame, n_splits: int, seed: int) -> pd.DataFrame:
    """Return the RCC of `BASELINES` on the splits of `repeated_splits`, as that returns scores."""
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
    """Return the mean over splits of this ratio of test to training, with its 95 % interval."""
    values, n = gains.to_numpy(dtype=np.float64), gains.size
    mean, margin = float(values.mean()), float("nan")
    if n > 1:
        deviation = np.sqrt(values.var(ddof=1) * (1 / n + ratio))
        margin = float(scipy.stats.t.ppf(0.975, n - 1) * deviation)
    return {"gain": mean, "low": mean - margin, "high": mean + margin}


_NEEDED = ("hop_bytes", "sum_dilation", "sum_FIFO", "avg_FIFO", "lower_bound")


class PMNFBaseline(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A scaling model of the mean message size, the nodes, and the lower bound of the time."""

    def fit(self, X: pd.DataFrame, y: ArrayLike) -> Self:
        """Fit the model to the samples of mappings."""
        columns = sizes_of(X)
        # Bounds are far below a second, where no term has a logarithm.
        self.unit_ = columns.min()
        self.model_ = PMNFRegressor(warn=False).fit(columns / self.unit_, np.asarray(y))
        return self

    def predict(self, X: pd.DataFrame) -> Floats:
        """Predict times (s)."""
        return self.model_.predict(sizes_of(X) / self.unit_)


def sizes_of(table: pd.DataFrame) -> pd.DataFrame:
    """Return the message size, the nodes (times their FIFOs) and the lower bound of samples."""
    known = columns_of(table, _NEEDED)
    # With tasks on one node alone, no message takes a hop.
    hops, rows = known["sum_dilation"].clip(lower=1.0), known["avg_FIFO"].replace(0.0, 1.0)
    return pd.DataFrame(
        {
            "message_bytes": (known["hop_bytes"] / hops).clip(lower=1.0),
            "nodes": (known["sum_FIFO"] / rows).clip(lower=1.0),
            "lower_bound": known["lower_bound"].clip(lower=1e-12),
        }
    )


HoldOut = Literal["application", "kind", "torus", "size"]
SEVERAL: Mapping[str, str] = {
    "application": "applications",
    "kind": "kinds",
    "torus": "tori",
    "size": "sizes",
}
BOUNDS = {"release_bound": "release bound", "lower_bound": "lower bound"}
"""Columns that order without learning, the better one first, and what their rows are called."""
BASELINES = {"coarse_time": "coarse simulation", **BOUNDS}
"""The same with that of a coarse simulation."""
COVERAGE = 0.9


def hold_out(
    table: pd.DataFrame,
    predictors: Mapping[str, TimePredictor | PMNFBaseline],
    by: HoldOut,
    *,
    n_jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> pd.DataFrame:
    """Train on all but one application, kind, torus or size, and score the forecast of that one."""
    one_of(by, "what is held out", get_args(HoldOut))
    blocks = columns_of(table, ("workload", "torus")).astype(str).reset_index(drop=True)
    groups = _groups(table, blocks, by)
    if groups.nunique() < 2:
        raise InputError(
            f"too few {SEVERAL[by]} to hold one out",
            found=", ".join(groups.unique()) or "no samples",
            expected=f"samples of several {SEVERAL[by]} in one table",
        )
    # Numbers in the order of the table, in which each group is left out.
    numbers, names = pd.factorize(groups)
    splits = list(LeaveOneGroupOut().split(table, groups=numbers))
    if by == "size":
        sizes = sizes_of(table)
        means = (sizes["nodes"] * sizes["message_bytes"]).groupby(numbers).mean()
        largest = int(means.to_numpy().argmax())
        names, splits = names[[largest]], [splits[largest]]
    found = forecast_splits(
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
        order = found[found["predictor"] == next(iter(predictors))]
        order = order.assign(
            predictor=BOUNDS[bounds[0]],
            n_train=0,
            forecast=table[bounds[0]].to_numpy()[order["row"]],
            low=np.nan,
            high=np.nan,
        )
        found = pd.concat([found, order], ignore_index=True)
    found = found.join(blocks, on="row").assign(held_out=names.to_numpy()[found["split"]])
    labels = ["predictor", "held_out", "workload", "torus"]
    rows = [
        {**dict(zip(labels, values, strict=True)), **_scores(part)}
        for values, part in found.groupby(labels, sort=False)
    ]
    return pd.DataFrame(rows)


def _groups(table: pd.DataFrame, blocks: pd.DataFrame, by: HoldOut) -> pd.Series[str]:
    if by == "size":
        return blocks.agg(" on ".join, axis=1)
    if by != "kind":
        return blocks["torus" if by == "torus" else "workload"]
    told = table.attrs.get("provenance", {}).get("workloads")
    recipes = told if isinstance(told, Mapping) else {}

    def kind(name: str) -> str:
        recipe = recipes.get(name)
        pattern = recipe.get("pattern") if isinstance(recipe, Mapping) else None
        return str(pattern or re.split(r"[-_ ]\d", name)[0] or name)

    return blocks["workload"].map(kind)


def _scores(part: pd.DataFrame) -> dict[str, object]:
    """Return the scores of one predictor, or of a column, on a workload and torus held out."""
    n, n_train, nan = len(part), int(part["n_train"].iloc[0]), float("nan")
    observed, said = part["time"].to_numpy(), part["forecast"].to_numpy()
    apart = {"rcc": 0.0, "rcc_1": 0.01, "rcc_5": 0.05}
    inside = part["time"].between(part["low"], part["high"])
    return {
        "n_train": n_train,
        "n_test": n,
        **{name: rcc_told_apart(observed, said, a) if n > 1 else nan for name, a in apart.items()},
        "regret_1": regret(observed, said) if n > 1 else nan,
        "error": float(np.median(np.abs(said / observed - 1))) if n_train else nan,
        "coverage": float(inside.mean()) if part["low"].notna().all() else nan,
    }


_FOLDS = 5
_SPLITS = 6
_SHARES = (PUBLISHED_SHARE / 4, PUBLISHED_SHARE / 2, PUBLISHED_SHARE)


def held_out(samples: pd.DataFrame, model: TimePredictor) -> NDArray[np.float64]:
    """Return what a model like this says of each sample when a fifth with it is kept from it.

    Seconds, ``(n_samples,)``.
    """
    folds = KFold(min(_FOLDS, len(samples)), shuffle=True, random_state=0)
    found = forecast_splits(samples, {"model": model}, list(folds.split(samples)))
    return found.sort_values("row")["forecast"].to_numpy(dtype=np.float64)


def learning_curve(samples: pd.DataFrame, model: TimePredictor) -> pd.DataFrame:
    """Return the RCC of a model like this that learns from fewer samples."""
    rows = []
    for share in _SHARES:
        scores = repeated_splits(samples, model, n_splits=_SPLITS, train_share=share)
        rcc = scores["rcc"].dropna()
        n_train = int(scores["n_train"].iloc[0])
        rows.append({"n_train": n_train, "rcc": rcc.mean(), "low": rcc.min(), "high": rcc.max()})
    return pd.DataFrame(rows)


PRIOR = "prior"
_TREES = 32
_METRIC_SPLITS, _CHOOSING = 10, 2
# Splits that choose the best set are others than those that judge.
_CHOOSING_SEED = 1_000_003


@dataclass(frozen=True)
class MetricEvaluation:
    """What a metric adds to sets of features."""

    metrics: tuple[str, ...]
    # The named set that forecasts best by itself, chosen on splits of its own.
    best: str
    # Of each workload, torus and base: n_samples, mean rcc of the base, gain in RCC with the
    # metrics and its 95 % interval low to high, and the RCC of the best metric alone.
    blocks: pd.DataFrame
    # The same over all blocks, by base; in how many of them the gain is higher than 0.
    gains: pd.DataFrame

    def in_words(self, base: str) -> str:
        """Return what the metrics add to a set."""
        row = self.gains.loc[[base]].astype(float).iloc[0].to_dict()
        between = f"[{row['low']:z.3f}, {row['high']:z.3f}]"
        if np.isnan(row["low"]):
            return f"changes the RCC of {base} by {row['gain']:+.3f}, nobody knows how surely"
        if row["low"] > 0:
            return f"adds {row['gain']:.3f} {between} RCC to {base}"
        sign = "+" if row["gain"] >= 0 else ""
        if row["high"] < 0:
            return f"takes {-row['gain']:.3f} from the RCC of {base}: {between}"
        return f"adds nothing to {base}: {sign}{row['gain']:z.3f} {between} RCC"


def evaluate_metrics(
    table: pd.DataFrame,
    metrics: Sequence[str],
    *,
    n_splits: int = _METRIC_SPLITS,
    seed: int = 0,
    n_jobs: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> MetricEvaluation:
    """Return what metrics add to the set ``prior`` and to the best named set of a table.

    Within each workload and torus two thirds of the mappings train and one third is forecast, with
    and without the metrics on the same splits.
    """
    lacking = [name for name in (*metrics, "time") if name not in table.columns]
    if lacking or not metrics:
        raise InputError(
            "columns missing from the samples", expected=", ".join(lacking) or "a metric"
        )
    blocks = [
        (str(workload), str(torus), group.reset_index(drop=True))
        for (workload, torus), group in table.groupby(["workload", "torus"], sort=False)
        if group["time"].nunique() > 1
    ]
    if not blocks:
        raise InputError("nothing to judge by: all times are equal")
    sets = _complete_sets(table, metrics)
    done = itertools.count(1)
    tell = progress or (lambda done, total: None)
    alone = []
    for _, _, group in blocks:
        each_set = _metric_scores(group, sets, _CHOOSING, seed + _CHOOSING_SEED, n_jobs)
        alone.append(each_set.groupby("predictor", sort=False)["rcc"].mean())
        tell(next(done), 2 * len(blocks))
    best = str(pd.concat(alone, axis="columns").mean(axis="columns").idxmax())
    rows = []
    for workload, torus, group in blocks:
        own = single_features(group, metrics)["rcc"].iloc[0]
        label = {"workload": workload, "torus": torus, "n_samples": len(group)}
        for base in dict.fromkeys((PRIOR, best)):
            pair = {base: sets[base], "with": (*sets[base], *metrics)}
            scores = _metric_scores(group, pair, n_splits, seed, n_jobs)
            rcc = scores.loc[scores["predictor"] == base, "rcc"].mean()
            gain = gains(scores).loc["with"].to_dict()
            rows.append(label | {"base": base, "rcc": rcc} | gain | {"alone": own})
        tell(next(done), 2 * len(blocks))
    each = pd.DataFrame(rows)
    over = {str(base): _over(group) for base, group in each.groupby("base", sort=False)}
    total = pd.DataFrame.from_dict(over, orient="index").rename_axis("base")
    return MetricEvaluation(tuple(metrics), best, each, total)


def _complete_sets(table: pd.DataFrame, metrics: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the named sets whose features the table has everywhere, without the metrics."""
    whole = set(table.columns[table.notna().all()])
    sets = {
        name: tuple(one for one in features if one not in metrics)
        for name, features in FEATURE_SETS.items()
        if whole.issuperset(features)
    }
    if PRIOR not in sets:
        expected = ", ".join(FEATURE_SETS[PRIOR])
        raise InputError("columns missing from the samples", expected=expected)
    return sets


def _metric_scores(
    group: pd.DataFrame,
    sets: Mapping[str, tuple[str, ...]],
    n_splits: int,
    seed: int,
    n_jobs: int,
) -> pd.DataFrame:
    """Score sets on the same splits of a block, with trees enough for a mean over many."""
    predictors = {
        name: TimePredictor(
            features, usual_target(features), n_estimators=_TREES, calibration_folds=0
        )
        for name, features in sets.items()
    }
    return repeated_splits(group, predictors, n_splits=n_splits, seed=seed, n_jobs=n_jobs)


def _over(group: pd.DataFrame) -> dict[str, float]:
    """Return the mean gain over blocks with its 95 % interval."""
    n = len(group)
    mean: Mapping[Any, Any] = group[["gain", "low", "high"]].iloc[0].to_dict()
    if n > 1:
        mean = _mean_gain(group["gain"])
    higher = int((group["gain"] > 0).sum())
    return {"rcc": float(group["rcc"].mean()), **mean, "blocks": n, "higher": higher}
