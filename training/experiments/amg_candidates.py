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
# What was chosen between, by the inner splits only.
CANDIDATES: dict[str, Learner] = {
    "trees on the columns": plain_trees,
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
    "the chosen, blended with 1/5 trees on the columns": blend(0.2),
}
