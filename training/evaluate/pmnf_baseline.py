"""The scaling model that every learner is held against: time by message size, nodes and bound."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin, clone

from toruscast.errors import InputError
from toruscast.scaling import PMNFRegressor
from toruscast.training.predictor.predictor import TimePredictor
from toruscast.training.samples._table import columns_of, features_only

from .metrics import METRICS

Floats = NDArray[np.float64]
_NEEDED = ("hop_bytes", "sum_dilation", "sum_FIFO", "avg_FIFO", "lower_bound")


class PMNFBaseline(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A scaling model of the mean message size, the nodes, and the lower bound of the time.

    Examples
    --------
    >>> bound = np.linspace(1e-5, 2e-5, 12)
    >>> table = pd.DataFrame({"hop_bytes": 100.0, "sum_dilation": 1.0, "sum_FIFO": 8.0,
    ...     "avg_FIFO": 1.0, "lower_bound": bound})
    >>> model = PMNFBaseline().fit(table, 3e-6 + 1.5 * bound)
    >>> model.predict(table.assign(lower_bound=4e-5)).round(9)[0]
    np.float64(6.3e-05)
    """

    def fit(self, X: pd.DataFrame, y: ArrayLike) -> Self:
        """Fit the model to the samples of mappings.

        Raises
        ------
        InputError
            If a column is missing.
        """
        columns = _sizes(X)
        # Bounds are far below a second, where no term has a logarithm.
        self.unit_ = columns.min()
        self.model_ = PMNFRegressor(warn=False).fit(columns / self.unit_, np.asarray(y))
        return self

    def predict(self, X: pd.DataFrame) -> Floats:
        """Predict times (s)."""
        return self.model_.predict(_sizes(X) / self.unit_)


def _sizes(table: pd.DataFrame) -> pd.DataFrame:
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


def small_to_large(
    table: pd.DataFrame,
    predictors: Mapping[str, TimePredictor | PMNFBaseline],
    *,
    time: str = "time",
) -> pd.DataFrame:
    """Train on the smaller machines or messages of a table, and score the forecast of the largest.

    Parameters
    ----------
    table : DataFrame
        Features and observed times, with the labels ``workload`` and ``torus``.
    predictors : mapping of str to predictor

    Returns
    -------
    DataFrame
        A row a predictor: ``predictor``, ``largest`` (the workload and torus with the most nodes
        times bytes of a message), ``n_train``,
        ``n_test``, the metrics of `repeated_splits`, and ``error``, the median relative error.

    Raises
    ------
    InputError
        If the table holds samples of one workload on one torus only.
    """
    labels = columns_of(table, ("workload", "torus")).astype(str).agg(" on ".join, axis=1)
    if labels.nunique() < 2:
        raise InputError(
            "small to large needs samples of several sizes",
            found=labels.iloc[0],
            expected="samples of several workloads or tori in one table",
        )
    sizes = _sizes(table)
    largest = (sizes["nodes"] * sizes["message_bytes"]).groupby(labels).mean().idxmax()
    features, observed = features_only(table, time), table[time].to_numpy(dtype=np.float64)
    test = (labels == largest).to_numpy()
    rows: list[dict[str, Any]] = []
    for name, predictor in predictors.items():
        model = clone(predictor)
        if "calibration_folds" in model.get_params():
            model.set_params(calibration_folds=0)
        predicted = model.fit(features[~test], observed[~test]).predict(features[test])
        row = {"predictor": name, "largest": largest}
        row |= {"n_train": int((~test).sum()), "n_test": int(test.sum())}
        row |= {key: metric(observed[test], predicted) for key, metric in METRICS.items()}
        error = float(np.median(np.abs(predicted / observed[test] - 1)))
        rows.append({**row, "error": error})
    return pd.DataFrame(rows)
