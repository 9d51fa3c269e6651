"""Other learners on the same splits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from toruscast.errors import InputError
from toruscast.training.evaluate import random_splits
from toruscast.training.metrics import r2, rcc, regret

from ..experiment import Bar, Chart, Experiment, Findings, Inputs
from ..plan import SMALL
from ..scores import RELATIVE_COUNTERS
from . import simulated

_SPLITS = 4
_FEATURES = tuple(
    dict.fromkeys(
        (
            *RELATIVE_COUNTERS,
            "avg_bytes",
            "max_bytes",
            "sum_hops_AO",
            "avg_bytes_TO",
            "max_FIFO",
            "max_dilation",
        )
    )
)


class PairwiseRanker(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Learns from differences of features which of two mappings is faster; linear.

    Its predictions are scores: only their order means something.
    """

    def fit(self, X: NDArray[np.float64], y: NDArray[np.float64]) -> PairwiseRanker:
        """Learn from all pairs with different times; an `InputError` if there are none."""
        first, second = np.triu_indices(len(y), 1)
        keep = y[first] != y[second]
        if not keep.any():
            raise InputError("no two mappings to learn from differ in time")
        first, second = first[keep], second[keep]
        slower = y[first] > y[second]
        model = LogisticRegression(C=0.1, fit_intercept=False, max_iter=2000)
        difference = X[first] - X[second]
        both = np.concatenate([difference, -difference])
        self.model_ = model.fit(both, np.concatenate([slower, ~slower]))
        return self

    def predict(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return a score, greater for slower mappings."""
        return np.asarray(X @ self.model_.coef_[0])


LEARNERS: dict[str, Callable[[], Any]] = {
    "extra trees": lambda: ExtraTreesRegressor(100, random_state=0),
    "random forest": lambda: RandomForestRegressor(100, random_state=0),
    "gradient boosting": lambda: GradientBoostingRegressor(
        n_estimators=100, learning_rate=0.1, subsample=0.7, random_state=0
    ),
    "linear (ridge)": lambda: RidgeCV(np.logspace(-3, 3, 13)),
    "pairwise ranker": PairwiseRanker,
}


def _run(inputs: Inputs) -> Findings:
    from joblib import Parallel, delayed

    table = simulated.synthetic(simulated.load(inputs), SMALL)
    groups = list(simulated.cases(table))
    found = Parallel(n_jobs=inputs.n_jobs)(
        delayed(_score)(group[list(_FEATURES)].to_numpy(), group["time"].to_numpy())
        for _, _, group in groups
    )
    result = pd.concat(
        [
            rows.assign(benchmark=benchmark, size=size)
            for (benchmark, size, _), rows in zip(groups, found, strict=True)
        ],
        ignore_index=True,
    )
    mean = result.groupby("learner", sort=False)[["rcc", "r2", "regret_1"]].mean()
    mean = mean.sort_values("rcc", ascending=False).reset_index()
    return Findings(
        f"{simulated.text(table)} Two thirds of each train; means over {_SPLITS} "
        f"splits (seed 0) of every benchmark and size, from the same {len(_FEATURES)} standardised "
        "features to the logarithm of time. The ranker gives an order and no times: its R^2 is "
        "empty.",
        {"learners": result, "learners-mean": mean},
        (Bar(f"mean RCC, best learner ({mean['learner'][0]})", float(mean["rcc"][0])),),
        (
            Chart(
                "learners",
                "bars",
                "learners",
                "size",
                "rcc",
                "learner",
                "benchmark",
                title="RCC by learner, 16,384 tasks",
            ),
        ),
        ("learners-mean",),
    )


def _score(X: NDArray[np.float64], times: NDArray[np.float64]) -> pd.DataFrame:
    """Mean scores of every learner over the splits of one case."""
    rows = []
    for train, test in random_splits(len(times), _SPLITS):
        seen = times[test]
        for name, make in LEARNERS.items():
            model = make_pipeline(StandardScaler(), make()).fit(X[train], np.log(times[train]))
            said = model.predict(X[test])
            ranks = isinstance(model[-1], PairwiseRanker)
            rows.append(
                {
                    "learner": name,
                    "rcc": rcc(seen, said),
                    "r2": np.nan if ranks else r2(seen, np.exp(said)),
                    "regret_1": regret(seen, said, 1),
                }
            )
    return pd.DataFrame(rows).groupby("learner", sort=False).mean().reset_index()


EXPERIMENT = Experiment("learners", "Other learners on the same splits", "samples", _run)
