"""Forecasts of multigrid communications to compare, and those that were chosen between."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from .amg_model import AmgTimeModel, kernel, trees

Floats = NDArray[np.float64]
# Takes the rows to learn from and those to forecast, returns the times of these.
Learner = Callable[[pd.DataFrame, pd.DataFrame], Floats]
OURS = "law and corrections"


def plain_trees(train: pd.DataFrame, test: pd.DataFrame) -> Floats:
    """Return times by trees on the columns as they were written, fitted to log time."""
    # What is empty differs with the files: zero for a field that a job did not write.
    columns = [c for c in train.columns if train[c].dtype == float and c != "time"]
    forest = ExtraTreesRegressor(300, random_state=0)
    forest.fit(train[[*columns, "level"]].fillna(0), np.log(train["time"]))
    return np.asarray(np.exp(forest.predict(test[[*columns, "level"]].fillna(0))), dtype=float)


def named_trees(train: pd.DataFrame, test: pd.DataFrame) -> Floats:
    """Return times by trees that also see the processes, and which operator was sent and how."""
    both = pd.concat([train, test], keys=[0, 1])
    columns = [c for c in both.columns if both[c].dtype == float and c != "time"]
    what = both[["operator", "matrix", "node_aware"]].astype(str).agg(" ".join, axis=1)
    seen = both[[*columns, "level", "n_processes"]].astype(float).fillna(0)
    seen = seen.join(pd.get_dummies(what, dtype=float))
    forest = ExtraTreesRegressor(300, random_state=0).fit(seen.loc[0], np.log(train["time"]))
    return np.asarray(np.exp(forest.predict(seen.loc[1])), dtype=float)


def byte_hops(train: pd.DataFrame, test: pd.DataFrame) -> Floats:
    """Return byte-hops in place of times: an order, no forecast of times."""
    return test["byte_hops"].to_numpy(float)


def learner(**options: object) -> Learner:
    """Return the model of this project, with other options."""

    def run(train: pd.DataFrame, test: pd.DataFrame) -> Floats:
        return AmgTimeModel(**options).fit(train).predict(test)  # type: ignore[arg-type]

    return run


def blend(weight: float) -> Learner:
    """Return the geometric mean of the model of this project and trees on the columns."""

    def run(train: pd.DataFrame, test: pd.DataFrame) -> Floats:
        ours, plain = learner()(train, test), plain_trees(train, test)
        return np.asarray(ours ** (1 - weight) * plain**weight, dtype=float)

    return run


def level_trend(share: float) -> Learner:
    """Return the model of this project, drawn towards the trend of each level over the sizes.

    What the analytic law misses of the same level, operator and problem in the jobs known, as a
    line over the logarithm of processes, is carried on to the size asked for.
    """

    def run(train: pd.DataFrame, test: pd.DataFrame) -> Floats:
        law = AmgTimeModel(learners=()).fit(train)
        ours, plain = learner()(train, test), law.predict(test)
        known = train.assign(missed=np.log(train["time"] / law.predict(train)))
        trends = {
            series: rows.groupby("n_processes")["missed"].min()
            for series, rows in known.groupby(_series(known))
        }
        carried = np.log(ours / plain)
        for row, (series, size) in enumerate(zip(_series(test), test["n_processes"], strict=True)):
            if (trend := trends.get(series)) is not None:
                line = np.polyfit(np.log(trend.index), trend, min(1, len(trend) - 1))
                carried[row] += share * (np.polyval(line, np.log(size)) - carried[row])
        return np.asarray(plain * np.exp(carried), dtype=float)

    return run


def _series(table: pd.DataFrame) -> pd.Series[str]:
    """The same level, operator and kind of a problem, whatever the size of its job."""
    problem = table["file"].str.replace(r"_\d.*", "", regex=True)
    what = table[["level", "operator", "matrix", "node_aware", "variant"]].astype(str)
    return problem + " " + what.agg(" ".join, axis=1)


def _smooth(regressor: object) -> object:
    return make_pipeline(StandardScaler(), regressor)


LEARNERS: dict[str, Learner] = {
    "byte-hops alone": byte_hops,
    "trees on the columns": plain_trees,
    "analytic law alone": learner(learners=()),
    OURS: learner(),
}
_FULL = trees(min_samples_leaf=1)
_PROCESS = GaussianProcessRegressor(0.3 * RBF(3.0) + WhiteKernel(0.03))
_NO_OPERATOR = [
    *("node_aware", "matrix", "messages", "network_messages", "node_messages", "nbytes"),
    *("message_nbytes", "imbalance", "network_share", "active_share", "idle"),
]
_SYMMETRIC = [*_NO_OPERATOR, "prolongation", "strength"]
# What was chosen between, by the inner splits only.
CANDIDATES: dict[str, Learner] = {
    "trees on the columns": plain_trees,
    "trees on the columns and names": named_trees,
    "one law a kind": learner(learners=(), by_operator=False),
    "a law an operator": learner(learners=()),
    "one law a kind, full trees": learner(learners=(_FULL,), by_operator=False),
    "a law an operator, full trees": learner(learners=(_FULL,)),
    "a law an operator, trees": learner(learners=(trees(),)),
    "a law an operator, trees blind to the operator": learner(
        learners=(trees(),), features=_NO_OPERATOR
    ),
    "a law an operator, ridge": learner(learners=(_smooth(Ridge(10.0)),)),
    "a law an operator, kernel": learner(learners=(kernel(),)),
    "a law an operator, Gaussian process": learner(learners=(_smooth(_PROCESS),)),
    "a law an operator, trees, kernel and process": learner(
        learners=(trees(), kernel(), _smooth(_PROCESS))
    ),
    "a law an operator, trees and kernel (chosen)": learner(),
    "the chosen, blind to one-sided traffic": learner(features=_SYMMETRIC),
    "the chosen, blended with 1/5 trees on the columns": blend(0.2),
    "the chosen, half way to the trend of its level": level_trend(0.5),
}
