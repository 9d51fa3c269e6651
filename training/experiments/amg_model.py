"""Forecasts the time of a multigrid communication from its messages."""

from __future__ import annotations

from typing import Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import least_squares
from sklearn.base import BaseEstimator
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.utils.validation import check_is_fitted

from toruscast.mapping import InputError

from .amg_features import amg_features, message_load

Floats = NDArray[np.float64]
Key = tuple[object, ...]


class AmgTimeModel(BaseEstimator):  # type: ignore[misc]
    """Time of a communication: an analytic law, corrected by trees.

    The law is that of point-to-point messages with a queue: ``c0 + c1 n + c2 n^2 + c3 s`` for the
    ``n`` messages and ``s`` bytes of the busiest process [1]_, no constant below zero. It is
    fitted to the logarithm of times, robustly, for vectors and matrices, plain and node-aware;
    then for each operator, drawn towards the law of its kind. It extrapolates where trees cannot.
    Extremely randomised trees learn the logarithm of observed over analytic time from
    `amg_features`.

    Of communications that are alike in every column, the least time is kept: what
    other jobs on the machine do can only delay.

    Parameters
    ----------
    n_estimators : int
        Number of trees; 0 for the analytic law alone.
    by_operator : bool
        Whether operators have a law of their own.
    prior : float
        How strongly the law of an operator is drawn towards that of its kind.
    features : list of str, optional
        Which of `amg_features` the trees see; all if not given.
    random_state : int
        Seed of the trees.
    n_jobs : int
        Threads that grow trees.

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
    >>> from toruscast.training.experiments.amg_features import _MODEL_COLUMNS
    >>> n = np.arange(1.0, 41.0)
    >>> table = pd.DataFrame(0.0, index=range(40), columns=list(_MODEL_COLUMNS))
    >>> table = table.assign(operator="A", n_max=n, n_active=64, n_processes=64)
    >>> model = AmgTimeModel(n_estimators=50).fit(table.assign(time=1e-6 * n))
    >>> bool(model.predict(table.assign(n_max=80.0))[0] > 70e-6)
    True
    """

    def __init__(
        self,
        n_estimators: int = 300,
        *,
        by_operator: bool = True,
        prior: float = 0.3,
        features: list[str] | None = None,
        random_state: int = 0,
        n_jobs: int = 1,
    ) -> None:
        self.n_estimators = n_estimators
        self.by_operator = by_operator
        self.prior = prior
        self.features = features
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, table: pd.DataFrame) -> Self:
        """Learn from measured communications.

        Parameters
        ----------
        table : DataFrame
            Columns as `toruscast.datasets.public.read_amg_messages` gives them, ``time`` included.

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
        if self.n_estimators:
            self.forest_ = ExtraTreesRegressor(
                self.n_estimators, random_state=self.random_state, n_jobs=self.n_jobs
            )
            self.forest_.fit(self._seen(table), target - self._log_law(table))
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
        if self.n_estimators and len(table):
            log_time = log_time + self.forest_.predict(self._seen(table))
        return np.exp(log_time)

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


def _fastest(table: pd.DataFrame) -> pd.DataFrame:
    """The fastest of the communications that are alike in all but where and when they ran."""
    alike = [c for c in table.columns if c not in ("file", "run", "level", "variant", "time")]
    order = table.sort_values("time", kind="stable")
    return order.drop_duplicates(alike).sort_index(kind="stable")
