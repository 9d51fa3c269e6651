"""The learner: times of unseen mappings, with their uncertainty."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from joblib import parallel_config
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from toruscast._slow import pandas as pd
from toruscast.errors import InputError

from .feature_sets import (
    BOUND,
    HELD_OUT,
    REFERENCE,
    Target,
    check_order,
    check_times,
    columns_of,
    feature_set,
    features_only,
    finite,
    normalisation,
)
from .fitted import FittedModel, ask_for_seconds, check_parameters
from .metrics import rcc
from .residuals import Forest, TargetTransform, calibrate

Floats = NDArray[np.float64]
# Most of a correction is chance of the single mapping.
_LEAF_OF_CORRECTIONS = 5
# Residuals of measured times are rounded to this share of their standard deviation.
_STEP = 2.0**-20


class TimePredictor(FittedModel, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Forecasts the time of task mappings from their features; a scikit-learn regressor.

    Extremely randomised trees learn from normalised features and a normalised target [1]_. How far
    the trees of a cross-validation missed the mappings kept from them calibrates the intervals
    [2]_.

    Parameters
    ----------
    features : str or sequence of str, optional
        A named set of `FEATURE_SETS` or column names, which need tables; if not given, every column
        but the ``time`` and the labels of samples.
    target : {"time", "slowdown", "correction", "measured"}
        What the trees learn: the time itself, as published; or the logarithm of time over
        ``lower_bound``, which carries over to other sizes, graphs and machines where the features
        have no units; or that of time over ``coarse_time``, so that where they tell nothing the
        order is nearly the sketch's, and less of it the nearer the sketch is to ``lower_bound`` if
        the samples bear that out, as simulated ones do; or that of a time measured on a machine
        over a line in ``reference``, with a constant for what the mapping does not change. Tables
        must have these columns.
    reference : str
        Column that measured times follow in a line.
    min_samples_leaf : int, optional
        Least number of samples in a leaf; if not given 5 of corrections, else 1.
    max_leaf_nodes : int, optional
        Most leaves of a tree; no limit if not given.
    calibration_folds : int
        Folds of the cross-validation behind the intervals; 0 for none, and a faster fit. Each
        fold grows a sixth of the trees, or 50 of them. With few folds, each model learns from fewer
        mappings than the forecast does and misses by more, so that intervals are too wide; with few
        samples, whatever the folds, there are too few residuals, and intervals are too narrow.
    n_jobs : int, optional
        Threads that grow trees; one if not given.

    Attributes
    ----------
    forest_ : ExtraTreesRegressor
        What `fit` grew, in normalised units; a file keeps its ``trees_`` only.
    trees_ : Forest
        Its trees as arrays, which forecasts are made from.
    feature_importances_ : ndarray, shape (n_features,)
        Share of each feature in the reduction of variance; they sum to 1, or are 0 if no tree
        splits, as of corrections with fewer than ten samples.
    feature_least_, feature_most_ : ndarray, shape (n_features,)
        Least and largest value of each feature learned from.
    provenance_ : dict
        What the samples say of themselves: their routing, seed, command. ``held_out_rcc``: how well
        forecasts of the cross-validation and the release bound, where it is a column, order the
        samples of a group.

    References
    ----------
    .. [1] Jain, Bhatele, Robson, Gamblin and Kale, "Predicting application performance using
       supervised learning on communication features", SC'13.
    .. [2] Barber, Candes, Ramdas and Tibshirani, "Predictive inference with the jackknife+", Annals
       of Statistics 49, 2021; scaled residuals after Lei et al., JASA 113, 2018.

    Examples
    --------
    >>> table = pd.DataFrame({"max_bytes": np.arange(40.0), "max_dilation": 3.0})
    >>> times = 1e-6 * (1 + table["max_bytes"])
    >>> model = TimePredictor(n_estimators=50).fit(table, times)
    >>> low, high = model.predict_interval(table[:1])[0]
    >>> bool(low < model.predict(table[:1])[0] < high)
    True
    """

    def __init__(
        self,
        features: str | Sequence[str] | None = None,
        target: Target = "time",
        *,
        reference: str = "coarse_time",
        n_estimators: int = 300,
        min_samples_leaf: int | None = None,
        max_leaf_nodes: int | None = None,
        calibration_folds: int = 20,
        random_state: int | np.random.RandomState | None = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.features = features
        self.target = target
        self.reference = reference
        self.n_estimators = n_estimators
        self.min_samples_leaf = min_samples_leaf
        self.max_leaf_nodes = max_leaf_nodes
        self.calibration_folds = calibration_folds
        self.random_state = random_state
        self.n_jobs = n_jobs

    @classmethod
    def from_fitted(cls, model: FittedModel) -> Self:
        """Return a fitted model as an estimator of scikit-learn."""
        if isinstance(model, cls):
            return model
        predictor = cls()
        predictor.__dict__.update(vars(model))
        return predictor

    def fit(
        self, X: pd.DataFrame | ArrayLike, y: ArrayLike, groups: ArrayLike | None = None
    ) -> Self:
        """Learn from the features and observed times of mappings.

        Parameters
        ----------
        y : array-like of float, shape (n_samples,)
            Observed times, seconds.
        groups : array-like, shape (n_samples,), optional
            Application and machine of each sample. Folds then keep a group together, so that the
            intervals hold for an application or machine never seen, given ten groups or so; with
            two or three they hold too little.
        """
        check_parameters(self.get_params(deep=False))
        check_order(X, times=y, groups=groups)
        check_times(y)
        matrix, y = self._validated(X, y)
        relative = self.target != "time"
        if relative and y.min() <= 0:
            raise InputError("bad observed time", found=y.min(), expected="positive seconds")
        scale = self._scale(X) if relative else None
        self.relative_ = None
        learned = y
        if scale is not None:
            if self.target in REFERENCE:
                ask_for_seconds(y, scale.unit, REFERENCE[self.target])
            self.relative_ = TargetTransform.fit(scale, y)
            learned = self.relative_.scores(scale, y)
        self.log_ = bool(relative or y.min() > 0)
        # Where no time fell below its bound, none is thought to.
        self.bounded_ = scale is not None and scale.holds(y)
        self.n_samples_ = matrix.shape[0]
        origin = getattr(X, "attrs", {}).get("provenance")
        self.provenance_ = dict(origin) if isinstance(origin, Mapping) else {}
        # Trees compare in single precision and stop splitting at a fixed variance: both need the
        # unit taken out, for times of a few microseconds would fall below it.
        self.feature_least_, self.feature_most_ = matrix.min(axis=0), matrix.max(axis=0)
        self.feature_shift_, self.feature_scale_ = normalisation(matrix)
        self.target_shift_, self.target_scale_ = map(float, normalisation(learned))
        matrix = self._normal(matrix)
        seeds = check_random_state(self.random_state).randint(2**31 - 1, size=2)
        goal = (learned - self.target_shift_) / self.target_scale_
        if self.target == "measured":
            # Their sums are exact: else the last digits of a line's constants would decide between
            # features that split few runs alike.
            goal = np.rint(goal / _STEP) * _STEP
        score = np.log(y) if self.log_ and not relative else learned
        # Trees are too small to be sent to other processes.
        with parallel_config("threading", n_jobs=self.n_jobs or 1):
            self.forest_ = self._forest(self.n_estimators, int(seeds[0])).fit(matrix, goal)
            self.trees_ = Forest.from_estimator(self.forest_)
            self.feature_importances_ = self.forest_.feature_importances_
            self.calibration_ = None
            if self.calibration_folds:
                n_fewer = max(min(self.n_estimators, 50), self.n_estimators // 6)
                fewer = self._forest(n_fewer, int(seeds[1]))
                n_folds = int(self.calibration_folds)
                self.calibration_, said = calibrate(
                    fewer, self._centre, matrix, goal, score, groups, n_folds, seeds[1]
                )
                if self.relative_ is not None and scale is not None:
                    said = self.relative_.logs(scale, said)
                self.provenance_ |= _orders(X, y, said, groups)
        return self

    def _forest(self, n_estimators: int, seed: int) -> ExtraTreesRegressor:
        smallest = self.min_samples_leaf
        if smallest is None:
            smallest = _LEAF_OF_CORRECTIONS if self.target == "correction" else 1
        return ExtraTreesRegressor(
            int(n_estimators),
            min_samples_leaf=int(smallest),
            max_leaf_nodes=None if self.max_leaf_nodes is None else int(self.max_leaf_nodes),
            random_state=seed,
            n_jobs=self.n_jobs,
        )

    def _validated(self, X: Any, y: ArrayLike) -> tuple[Floats, Floats]:
        """Features and times of the samples to learn from."""
        if self.features is not None:
            if not isinstance(X, pd.DataFrame):
                raise InputError(
                    "named features need a table", found=type(X).__name__, expected="a DataFrame"
                )
            X = finite(columns_of(X, feature_set(self.features)))
        elif isinstance(X, pd.DataFrame):
            X = finite(features_only(X))
        checked: tuple[Floats, Floats] = self._checked(X, y=y, y_numeric=True, ensure_min_samples=2)
        return checked

    def _matrix(self, X: Any) -> Floats:
        """Features of the mappings to forecast, checked as scikit-learn does."""
        check_is_fitted(self, "trees_")
        if isinstance(X, pd.DataFrame) and hasattr(self, "feature_names_in_"):
            X = finite(columns_of(X, self.feature_names_in_))
        checked: Floats = self._checked(X, reset=False)
        return checked

    def _checked(self, X: Any, **how: Any) -> Any:
        """What scikit-learn makes of samples, or an `InputError`."""
        try:
            return validate_data(self, X, dtype=np.float64, **how)
        except ValueError as error:
            raise InputError(str(error)) from None


def _orders(X: Any, y: Floats, said: Floats, groups: ArrayLike | None) -> dict[str, Any]:
    """Return the RCC of what is said of samples held out and of the bound, mean over the groups."""
    if BOUND not in getattr(X, "columns", ()):
        return {}
    table = pd.DataFrame({"y": y, "said": said, BOUND: X[BOUND].to_numpy()})
    found = [
        (rcc(own["y"], own["said"]), rcc(own["y"], own[BOUND]))
        for _, own in table.groupby(np.zeros(len(y)) if groups is None else np.asarray(groups))
        if own["y"].nunique() > 1
    ]
    if not found:
        return {}
    model, bound = np.mean(found, axis=0)
    return {HELD_OUT: {"model": float(model), BOUND: float(bound)}}
