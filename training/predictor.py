"""Estimator of mapping times from features, with prediction intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from joblib import parallel_config
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from toruscast._slow import pandas as pd
from toruscast.errors import InputError
from toruscast.typing import Floats

from . import feature_sets
from .feature_sets import Target
from .fitted import FittedModel, check_parameters, warn_of_unit
from .metrics import rcc
from .residuals import Forest, TargetTransform, cross_validate

# Minimum leaf size for corrections, because a single mapping's correction is mostly noise.
_CORRECTION_LEAF = 5
# Targets of measured times are rounded to multiples of this (in standard deviations).
_TARGET_STEP = 2.0**-20


class TimePredictor(FittedModel, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A scikit-learn estimator that predicts mapping times, with calibrated intervals.

    Extremely randomised trees learn from normalised features and a normalised target [1]_.
    Cross-validated residuals calibrate the intervals [2]_.

    Parameters
    ----------
    features : str or sequence of str, optional
        The name of a set in `FEATURE_SETS`, or column names. Default: all columns except ``time``
        and the labels of samples.
    target : {"time", "slowdown", "correction", "measured"}
        Quantity that the trees learn. ``time``: the time, as in [1]_. ``slowdown``: the logarithm
        of time / ``lower_bound``, which transfers to other sizes, graphs and machines if the
        features are dimensionless. ``correction``: the logarithm of time / ``coarse_time``, scaled
        down near ``lower_bound`` if the samples support that. ``measured``: for times measured on a
        machine, the logarithm of time / a linear function of ``reference``. Tables need the columns
        named here.
    reference : str
        Column of the reference time for the target ``measured``.
    min_samples_leaf : int, optional
        Minimum number of samples in a leaf. Default: 5 for corrections, else 1.
    max_leaf_nodes : int, optional
        Maximum number of leaves of a tree. No limit by default.
    calibration_folds : int
        Number of folds of the cross-validation that calibrates the intervals. With 0, the fit is
        faster but there are no intervals. Each fold fits a sixth of the trees, but at least 50. Few
        folds make the intervals too wide, because each fold's model has fewer samples than the
        final model. Few samples make the intervals too narrow.
    n_jobs : int, optional
        Number of threads that fit trees; one by default.

    Attributes
    ----------
    forest_ : ExtraTreesRegressor
        The fitted forest in normalised units; not in model files.
    trees_ : Forest
        The forest's trees as arrays, for predictions.
    feature_importances_ : ndarray, shape (n_features,)
        Each feature's share of the reduction in variance. The shares sum to 1, or are all 0 if no
        tree splits, as for corrections with fewer than ten samples.
    feature_least_, feature_most_ : ndarray, shape (n_features,)
        Minimum and maximum of each feature in the training samples.
    nodes_ : tuple of int or None
        Minimum and maximum number of nodes of the training tori, if the table has a column
        ``torus``. Intervals are wider for tori outside this range.
    provenance_ : dict
        Provenance of the samples: routing, seed, command. If the release bound is a column,
        ``held_out_rcc`` has the mean RCC within groups, for the cross-validated predictions and for
        this bound.

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
        """Return a fitted model as a scikit-learn estimator."""
        if isinstance(model, cls):
            return model
        predictor = cls()
        predictor.__dict__.update(vars(model))
        return predictor

    def fit(
        self, X: pd.DataFrame | ArrayLike, y: ArrayLike, groups: ArrayLike | None = None
    ) -> Self:
        """Fit the predictor to features and observed times of mappings.

        Parameters
        ----------
        y : array-like of float, shape (n_samples,)
            Observed times, seconds.
        groups : array-like, shape (n_samples,), optional
            Application and machine of each sample. All samples of a group are in the same fold, so
            intervals also apply to an unseen application or machine. This takes about ten groups;
            with two or three, intervals are too narrow.
        """
        check_parameters(self.get_params(deep=False))
        feature_sets.check_order(X, times=y, groups=groups)
        feature_sets.check_times(y)
        matrix, y = self._check_samples(X, y)
        is_relative = self.target != "time"
        if is_relative and y.min() <= 0:
            raise InputError("bad observed time", found=y.min(), expected="positive seconds")
        reference = self._target_reference(X) if is_relative else None
        self.relative_ = None
        target = y
        if reference is not None:
            if self.target in feature_sets.REFERENCE:
                warn_of_unit(y, reference.times, feature_sets.REFERENCE[self.target])
            self.relative_ = TargetTransform.fit(reference, y)
            target = self.relative_.scores(reference, y)
        self.log_ = bool(is_relative or y.min() > 0)
        self.bounded_ = reference is not None and bool((y >= reference.min_times).all())
        self.n_samples_ = matrix.shape[0]
        nodes = feature_sets.node_counts(X)
        self.nodes_ = (int(nodes.min()), int(nodes.max())) if nodes.size else None
        provenance = getattr(X, "attrs", {}).get("provenance")
        self.provenance_ = dict(provenance) if isinstance(provenance, Mapping) else {}
        self.feature_least_, self.feature_most_ = matrix.min(axis=0), matrix.max(axis=0)
        # Trees compare features in single precision and do not split below a fixed variance, so
        # times of a few microseconds must be normalised.
        self.feature_shift_, self.feature_scale_ = feature_sets.normalisation(matrix)
        self.target_shift_, self.target_scale_ = map(float, feature_sets.normalisation(target))
        matrix = self._normalise(matrix)
        seeds = check_random_state(self.random_state).randint(2**31 - 1, size=2)
        normalised = (target - self.target_shift_) / self.target_scale_
        if self.target == "measured":
            # Round the targets, so that their sums are exact. Otherwise, rounding errors would
            # decide between features that split a few runs equally well.
            normalised = np.rint(normalised / _TARGET_STEP) * _TARGET_STEP
        scores = np.log(y) if self.log_ and not is_relative else target
        # Fitting a tree is too fast to be worth the overhead of processes.
        with parallel_config("threading", n_jobs=self.n_jobs or 1):
            self.forest_ = self._make_forest(self.n_estimators, int(seeds[0]))
            self.forest_.fit(matrix, normalised)
            self.trees_ = Forest.from_estimator(self.forest_)
            self.feature_importances_ = self.forest_.feature_importances_
            self.calibration_ = None
            if self.calibration_folds:
                n_trees = max(min(self.n_estimators, 50), self.n_estimators // 6)
                self.calibration_, held_out = cross_validate(
                    self._make_forest(n_trees, int(seeds[1])),
                    self._average_trees,
                    matrix,
                    normalised,
                    scores,
                    groups,
                    int(self.calibration_folds),
                    seeds[1],
                )
                if self.relative_ is not None and reference is not None:
                    held_out = self.relative_.logs(reference, held_out)
                self.provenance_ |= _score_held_out(X, y, held_out, groups)
        return self

    def _make_forest(self, n_estimators: int, seed: int) -> ExtraTreesRegressor:
        """Return an unfitted forest; the target determines the default leaf size."""
        leaf = self.min_samples_leaf
        if leaf is None:
            leaf = _CORRECTION_LEAF if self.target == "correction" else 1
        return ExtraTreesRegressor(
            int(n_estimators),
            min_samples_leaf=int(leaf),
            max_leaf_nodes=None if self.max_leaf_nodes is None else int(self.max_leaf_nodes),
            random_state=seed,
            n_jobs=self.n_jobs,
        )

    def _check_samples(self, X: Any, y: ArrayLike) -> tuple[Floats, Floats]:
        """Return the features, (n_samples, n_features), and the times of the training samples."""
        if self.features is not None:
            if not isinstance(X, pd.DataFrame):
                message, found = "named features need a table", type(X).__name__
                raise InputError(message, found=found, expected="a DataFrame")
            names = feature_sets.feature_set(self.features)
            X = feature_sets.check_finite(feature_sets.columns_of(X, names))
        elif isinstance(X, pd.DataFrame):
            X = feature_sets.check_finite(feature_sets.features_only(X))
        checked: tuple[Floats, Floats] = self._check_data(
            X, y=y, y_numeric=True, ensure_min_samples=2
        )
        return checked

    def _feature_matrix(self, X: Any) -> Floats:
        check_is_fitted(self, "trees_")
        if isinstance(X, pd.DataFrame) and hasattr(self, "feature_names_in_"):
            X = feature_sets.check_finite(feature_sets.columns_of(X, self.feature_names_in_))
        checked: Floats = self._check_data(X, reset=False)
        return checked

    def _check_data(self, X: Any, **options: Any) -> Any:
        try:
            return validate_data(self, X, dtype=np.float64, **options)
        except ValueError as error:
            raise InputError(str(error)) from None


def _score_held_out(
    X: Any, y: Floats, held_out: Floats, groups: ArrayLike | None
) -> dict[str, Any]:
    """Return group-mean RCCs of held-out predictions and the bound; empty if there is no bound."""
    if feature_sets.BOUND not in getattr(X, "columns", ()):
        return {}
    bound = X[feature_sets.BOUND].to_numpy()
    table = pd.DataFrame({"y": y, "model": held_out, "bound": bound})
    scores = [
        (rcc(group["y"], group["model"]), rcc(group["y"], group["bound"]))
        for _, group in table.groupby(np.zeros(len(y)) if groups is None else np.asarray(groups))
        if group["y"].nunique() > 1
    ]
    if not scores:
        return {}
    rcc_of_model, rcc_of_bound = map(float, np.mean(scores, axis=0))
    return {feature_sets.HELD_OUT: {"model": rcc_of_model, feature_sets.BOUND: rcc_of_bound}}
