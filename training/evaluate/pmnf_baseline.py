"""The scaling model that every learner is held against: time by message size, nodes and bound."""

from __future__ import annotations

from typing import Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin

from toruscast.scaling import PMNFRegressor
from toruscast.training.samples._table import columns_of

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
