"""Scikit-learn estimator that fits a model in performance model normal form."""

from __future__ import annotations

import numbers
import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from toruscast.errors import InputError
from toruscast.typing import Floats

from .fit import fit_many, predict_intervals
from .formula import Formula, ScalingWarning, Term
from .measurements import Measurements, check_points, group_repetitions
from .models import Models
from .select import FitOptions


class PMNFRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Regressor in performance model normal form, a sum of products of x^i log2(x)^j.

    Parameters
    ----------
    space, max_terms, noise, select, negative
        As in `FitOptions`.
    warn : bool
        Issue a `ScalingWarning` for each note on limits of the measurements.

    Attributes
    ----------
    terms_ : list of (coefficient, ((i, j) for each parameter))
        The most probable model, its constant first.
    formula_ : str
        The model as text.
    notes_ : list of str
        Limits of the measurements.
    models_ : Models
        The fit with all its hypotheses.
    options_ : FitOptions
        Options of the fit, which are also used for intervals.

    Examples
    --------
    >>> p = [[4], [8], [16], [32], [64]]
    >>> model = PMNFRegressor(warn=False).fit(p, [5.0 + 0.5 * x[0] ** 2 for x in p])
    >>> model.formula_
    '5 + 0.5 x0^2'
    >>> model.predict([[128]]).round(3).tolist()
    [8197.0]

    Notes
    -----
    Repeated rows of X are repetitions. Parameters must not be negative. Logarithms are excluded for
    a parameter with values below 1, and falling powers for a parameter with the value 0. Source:
    [Calotoiu13].
    """

    def __init__(
        self,
        space: Any = "default",
        max_terms: int = 2,
        noise: str = "auto",
        select: str = "evidence",
        negative: float = 0.05,
        warn: bool = True,
    ) -> None:
        self.space = space
        self.max_terms = max_terms
        self.noise = noise
        self.select = select
        self.negative = negative
        self.warn = warn

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit a model to values y. Columns of X are parameters; equal rows are repetitions."""
        x, target = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        names = [*getattr(self, "feature_names_in_", [f"x{q}" for q in range(x.shape[1])])]
        check_points(x, names)
        target = np.asarray(target, dtype=float)
        # scikit-learn accepts None in an array of objects.
        if not np.isfinite(target).all():
            raise InputError("y contains NaN; remove such rows")
        points, values = group_repetitions(x, target)
        self.options_ = FitOptions(
            self.space, self.max_terms, self.noise, self.select, self.negative
        )
        data = Measurements(names, points, values[None])
        self.models_: Models = fit_many(data, self.options_)
        self.terms_: list[Term] = self.models_.terms()
        self.formula_: str = self.models_.formulas()[0]
        self.notes_: list[str] = [*self.models_.notes()[0]]
        if self.warn:
            for note in self.notes_:
                warnings.warn(note, ScalingWarning, stacklevel=2)
        return self

    def predict(self, X: ArrayLike) -> Floats:
        """Predict at the given parameter values; shape (n_samples,)."""
        check_is_fitted(self)
        x = validate_data(self, X, dtype=np.float64, reset=False)
        return np.asarray(self.models_.predict(x)[0])

    def formula(self, path: int = 0) -> Formula:
        """Return the formula in full precision."""
        if not hasattr(self, "models_"):
            raise InputError("not a model: it is not fitted", found=self, expected="fit first")
        return self.models_.formula(path)

    def predict_interval(
        self,
        X: ArrayLike,
        level: float = 0.9,
        n_bootstrap: int = 100,
        random_state: int | np.random.RandomState | None = 0,
    ) -> tuple[Floats, Floats]:
        """Return the bounds (low, high) of a bootstrap interval with probability `level`.

        Each draw resamples the repetitions of each point, repeats the search, and pools the
        predictions of all probable hypotheses. Without repetitions, or if no hypothesis is trusted,
        each draw varies the means of the points by the error of the formula. The interval always
        contains the prediction.
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        seed = random_state
        if not isinstance(seed, numbers.Integral):
            seed = check_random_state(seed).randint(2**31 - 1)
        low, high = predict_intervals(self.models_, X, self.options_, level, n_bootstrap, int(seed))
        return low[0], high[0]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        # The checks use random points in many dimensions, which scaling models do not describe.
        tags.regressor_tags.poor_score = True
        return tags
