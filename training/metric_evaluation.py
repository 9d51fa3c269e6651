"""Whether a metric adds anything to what is known: its gain over sets of features."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import scipy

from toruscast.errors import InputError

from .evaluation import gains, repeated_splits, single_features
from .feature_sets import FEATURE_SETS, usual_target
from .predictor import TimePredictor

PRIOR = "prior"
_TREES = 32
_SPLITS, _CHOOSING = 10, 2
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
    n_splits: int = _SPLITS,
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
    done = 0

    def tell() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, 2 * len(blocks))

    alone = []
    for _, _, group in blocks:
        each_set = _scores(group, sets, _CHOOSING, seed + _CHOOSING_SEED, n_jobs)
        alone.append(each_set.groupby("predictor", sort=False)["rcc"].mean())
        tell()
    best = str(pd.concat(alone, axis="columns").mean(axis="columns").idxmax())
    rows = []
    for workload, torus, group in blocks:
        own = single_features(group, metrics)["rcc"].iloc[0]
        label = {"workload": workload, "torus": torus, "n_samples": len(group)}
        for base in dict.fromkeys((PRIOR, best)):
            pair = {base: sets[base], "with": (*sets[base], *metrics)}
            scores = _scores(group, pair, n_splits, seed, n_jobs)
            rcc = scores.loc[scores["predictor"] == base, "rcc"].mean()
            gain = gains(scores).loc["with"]
            found = {"base": base, "rcc": rcc, **{str(k): v for k, v in gain.items()}}
            rows.append(label | found | {"alone": own})
        tell()
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


def _scores(
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
    gain, n = group["gain"].to_numpy(dtype=np.float64), len(group)
    low, high = group["low"].iloc[0], group["high"].iloc[0]
    if n > 1:
        half = scipy.stats.t.ppf(0.975, n - 1) * gain.std(ddof=1) / np.sqrt(n)
        low, high = gain.mean() - half, gain.mean() + half
    return {
        "rcc": float(group["rcc"].mean()),
        "gain": float(gain.mean()),
        "low": float(low),
        "high": float(high),
        "blocks": n,
        "higher": int((gain > 0).sum()),
    }
