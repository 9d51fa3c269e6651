"""Forecasts the time of a multigrid communication from its messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import least_squares
from sklearn.base import BaseEstimator, clone
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR
from sklearn.utils.validation import check_is_fitted

from toruscast.errors import InputError

from .amg_features import amg_features, message_load

Floats = NDArray[np.float64]
Key = tuple[object, ...]


def trees(n_estimators: int = 300, min_samples_leaf: int = 3) -> Any:
    """Extremely randomised trees, which keep their corrections within what they have seen."""
    return ExtraTreesRegressor(n_estimators, min_samples_leaf=min_samples_leaf, random_state=0)


def kernel() -> Any:
    """Support vectors with a Gaussian kernel: smooth, and none where nothing was seen."""
    return make_pipeline(StandardScaler(), SVR(C=1.0, epsilon=0.05))


class AmgTimeModel(BaseEstimator):  # type: ignore[misc]
    """Time of a communication: an analytic law, corrected by what learners make of its misses.

    The law is that of point-to-point messages with a queue: ``c0 + c1 n + c2 n^2 + c3 s`` for the
    ``n`` messages and ``s`` bytes of the busiest process [1]_, no constant below zero. It is
    fitted to the logarithm of times, robustly, for vectors and matrices, plain and node-aware;
    then for each operator, drawn towards the law of its kind. It extrapolates where
    learners cannot. These learn the logarithm of observed over analytic time from `amg_features`;
    the mean of them corrects the law.

    Of communications that are alike in every column, the least time is kept: what
    other jobs on the machine do can only delay.

    Parameters
    ----------
    learners : sequence of regressors, optional
        Of scikit-learn; `trees` and `kernel` if not given, none for the analytic law alone.
    by_operator : bool
        Whether operators have a law of their own.
    prior : float
        How strongly the law of an operator is drawn towards that of its kind.
    features : list of str, optional
        Which of `amg_features` the learners see; all if not given.

    Attributes
    ----------
    laws_ : dict
        Coefficients of the laws, in seconds, by kind and operator.

    References
    ----------
    .. [1] Bienz, Gropp and Olson, "Improving performance models for irregular point-to-point
       communication", EuroMPI'18.

    Examples
    --------
    >>> from studies.blue_waters.amg_features import _MODEL_COLUMNS
    >>> n = np.arange(1.0, 41.0)
    >>> table = pd.DataFrame(0.0, index=range(40), columns=list(_MODEL_COLUMNS))
    >>> table = table.assign(operator="A", n_max=n, n_active=64, n_processes=64)
    >>> model = AmgTimeModel().fit(table.assign(time=1e-6 * n))
    >>> bool(model.predict(table.assign(n_max=80.0))[0] > 70e-6)
    True
    """

    def __init__(
        self,
        learners: Sequence[Any] | None = None,
        *,
        by_operator: bool = True,
        prior: float = 0.3,
        features: list[str] | None = None,
    ) -> None:
        self.learners = learners
        self.by_operator = by_operator
        self.prior = prior
        self.features = features

    def fit(self, table: pd.DataFrame) -> Self:
        """Learn from measured communications.

        Parameters
        ----------
        table : DataFrame
            Columns as `studies.read_amg_messages` gives them, ``time`` included.

        Returns
        -------
        AmgTimeModel
            The model itself.

        Raises
        ------
        InputError
            If the table is empty, or a column is missing or holds a value that cannot be.
        """
        if "time" not in table.columns or not len(table):
            raise InputError("nothing to learn from", expected="rows with a column 'time'")
        times = table["time"].to_numpy(float)
        if not (np.isfinite(times) & (times > 0)).all():
            raise InputError("bad time", expected="seconds above 0")
        table = _fastest(table)
        target = np.log(table["time"].to_numpy(float))
        self._fit_laws(table, target)
        missed = target - self._log_law(table)
        learners = (trees(), kernel()) if self.learners is None else self.learners
        self.corrections_ = [clone(one).fit(self._seen(table), missed) for one in learners]
        return self

    def predict(self, table: pd.DataFrame) -> Floats:
        """Return the times of communications.

        Parameters
        ----------
        table : DataFrame
            Columns as in `fit`; ``time`` is not looked at.

        Returns
        -------
        ndarray of float, shape (n_rows,)
            Seconds.

        Raises
        ------
        InputError
            If a column is missing or holds a value that cannot be.
        """
        check_is_fitted(self, "laws_")
        log_time = self._log_law(table)
        if self.corrections_ and len(table):
            seen = self._seen(table)
            log_time = log_time + np.mean([c.predict(seen) for c in self.corrections_], axis=0)
        return np.asarray(np.exp(log_time), dtype=float)

    def _seen(self, table: pd.DataFrame) -> pd.DataFrame:
        features = amg_features(table)
        return features if self.features is None else features[self.features]

    def _fit_laws(self, table: pd.DataFrame, target: Floats) -> None:
        terms = _terms(table)
        # Of order one: coefficients are then times, alike in size.
        self.scale_ = np.maximum(terms.max(axis=0), 1.0)
        terms = terms / self.scale_
        self.laws_: dict[Key, Floats] = {(): _law(terms, target)}
        kinds, operators = _kinds(table)
        for keys in (kinds, operators) if self.by_operator else (kinds,):
            for key in dict.fromkeys(keys):
                rows = np.array([k == key for k in keys])
                parent = self.laws_[key[:2]] if len(key) == 3 else None
                # Fewer communications than six do not tell four coefficients.
                if parent is None or rows.sum() > 5:
                    self.laws_[key] = _law(terms[rows], target[rows], parent, self.prior)

    def _log_law(self, table: pd.DataFrame) -> Floats:
        terms = _terms(table) / self.scale_
        laws = [
            self.laws_.get(operator, self.laws_.get(kind, self.laws_[()]))
            for kind, operator in zip(*_kinds(table), strict=True)
        ]
        if not laws:
            return np.zeros(0)
        return np.asarray(np.log((terms * np.exp(laws)).sum(axis=1)), dtype=float)


def _kinds(table: pd.DataFrame) -> tuple[list[Key], list[Key]]:
    kinds = [
        (bool(matrix), bool(aware))
        for matrix, aware in zip(table["matrix"], table["node_aware"], strict=True)
    ]
    operators = [(*kind, op) for kind, op in zip(kinds, table["operator"], strict=True)]
    return [*kinds], [*operators]


def _terms(table: pd.DataFrame) -> Floats:
    load = message_load(table)
    n, nbytes = load["n"].to_numpy(), load["nbytes"].to_numpy()
    return np.column_stack([np.ones(len(n)), n, n**2, nbytes])


def _law(terms: Floats, target: Floats, parent: Floats | None = None, prior: float = 0.0) -> Floats:
    """Logarithms of the coefficients of a sum of terms, fitted to logarithms of times."""
    start = np.full(terms.shape[1], np.median(target) - np.log(terms.shape[1]))
    towards = start if parent is None else parent

    def residuals(log_coefficients: Floats) -> Floats:
        misfit = np.log(terms @ np.exp(log_coefficients)) - target
        if parent is None:
            return np.asarray(misfit, dtype=float)
        return np.concatenate([misfit, prior * (log_coefficients - towards)])

    # Beyond 30 % off, a time counts by its distance only, not by the square of it.
    return np.asarray(least_squares(residuals, towards, loss="soft_l1", f_scale=0.3).x)


def alike(table: pd.DataFrame) -> pd.Series[int]:
    """Return a number for each communication, the same for all but where and when they ran.

    Examples
    --------
    >>> alike(pd.DataFrame({"run": [0, 1, 2], "n_max": [5.0, 5.0, 6.0]})).tolist()
    [0, 0, 1]
    """
    what = [c for c in table.columns if c not in ("file", "run", "level", "variant", "time")]
    return table.groupby(what, sort=False, dropna=False).ngroup()


def _fastest(table: pd.DataFrame) -> pd.DataFrame:
    """The fastest of the communications that are alike."""
    order = table.assign(alike=alike(table)).sort_values("time", kind="stable")
    return order.drop_duplicates("alike").sort_index(kind="stable").drop(columns="alike")
