"""Fitted models of many call paths, and notes on the limits of their measurements."""

# p = call paths, h = hypotheses, m = places to predict, q = parameters

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from toruscast._slow import pandas as pd
from toruscast._slow import scipy
from toruscast.errors import InputError
from toruscast.text import counted, percent
from toruscast.typing import Bools, Floats
from toruscast.validation import whole_number

from . import formula
from .measurements import Measurements, as_real_array, check_points, log_points, replace_zeros
from .noise import PointEstimates, estimate_scale, predict_by_neighbours
from .search import find_lines, is_grid
from .select import RankedHypotheses
from .terms import TermSpace

Term = formula.Term
# If an eigenvalue of the parameters' correlation matrix is below this limit, the parameters in its
# eigenvector are confounded. Smaller entries of the projector on such vectors are rounding errors.
_MAX_EIGENVALUE = 1e-6
_MIN_LINK = 1e-3
# Beyond these limits, a note is issued.
_MIN_LEVELS = 5  # different values of a parameter
_MAX_VARIATION = 0.1  # coefficient of variation of repetitions
_MAX_DISAGREEMENT = 0.2  # between hypotheses, relative to their mean
_MAX_ERROR = 0.1  # of the formula at a point, relative
# Larger relative errors are printed as factors instead of percentages.
_MIN_FACTOR = 10.0
_MAX_DECIMALS = 6

# In a note, the text before the colon is the kind; the text after it may vary between call paths.
NEGATIVE_COEFFICIENT = (
    "a coefficient is negative: costs usually add up, and the formula may be negative far from the "
    "points"
)
PRIOR_DECIDED = (
    "the prior excluded a negative coefficient, because costs usually add up: the measurements "
    "alone prefer one"
)
NEGATIVE_VALUE = "the formula is negative here, but times and counts cannot be"
# Hypotheses are compared at this multiple of the largest measured parameter values.
_FAR_FACTOR = 4.0


def describe_points(names: Sequence[str], points: Floats, active: Sequence[int]) -> list[str]:
    """Return notes on the points of a fit, given the indices of the searched parameters."""
    counts = [np.unique(column).size for column in points.T]
    notes = [
        f"parameter {name} has {counted(n, 'value')}; five are needed for a reliable model"
        for name, n in zip(names, counts, strict=True)
        if n < _MIN_LEVELS
    ]
    for q in active:
        minimum = points[:, q].min()
        if minimum == 0:
            terms = f"no logarithm and no falling power of parameter {names[q]}"
            notes.append(f"{terms} was searched, because it has the value 0")
        elif minimum < 1:
            terms = f"no logarithm of parameter {names[q]}"
            notes.append(f"{terms} was searched, because it has values below 1")
    if not active:
        notes.append("no parameter was varied: the model is a constant")
    left_out = [name for q, name in enumerate(names) if q not in active and counts[q] > 1]
    if left_out:
        notes.append(f"parameters {', '.join(left_out)} were left out: at most four are searched")
    for group in find_confounded(points[:, active]):
        notes.append(
            f"parameters {', '.join(names[active[q]] for q in group)} were only varied together: "
            "their effects cannot be separated, so predictions for other combinations are guesses"
        )
    return notes


def describe_places(
    names: Sequence[str], points: Floats, active: Sequence[int], places: Floats
) -> list[str]:
    """Return notes on parameters that no model contains but that have new values at the places.

    >>> describe_places(["p"], np.array([[2.0]]), [], np.array([[4.0]]))
    ['parameter p was not varied: predictions assume that it has no effect']
    """
    notes = []
    for q, name in enumerate(names):
        measured = np.unique(points[:, q])
        if q not in active and not np.isin(places[:, q], measured).all():
            reason = "left out" if measured.size > 1 else "not varied"
            notes.append(f"parameter {name} was {reason}: predictions assume that it has no effect")
    return notes


def describe_path(
    variation: float, trusted: bool, low: float, high: float, error: float = 0.0
) -> list[str]:
    """Return notes on one call path.

    `variation` is the coefficient of variation of the repetitions, or NaN if there are none. `low`
    and `high` are quantiles of the hypotheses' predictions at four times the largest parameter
    values. `error` is the largest relative error of the formula at the points.
    """
    notes = []
    if variation > _MAX_VARIATION:
        excess = _format_excess(variation, _MAX_VARIATION)
        notes.append(f"the repetitions vary by more than {percent(_MAX_VARIATION)}: {excess}")
    if high - low > _MAX_DISAGREEMENT * abs(high + low) / 2:
        notes.append(
            "the measurements do not separate the hypotheses: at four times the largest "
            f"parameter values, they predict from {low:.3g} to {high:.3g}"
        )
    if np.isfinite(variation) and not trusted:
        notes.append("no hypothesis fits the points within the noise of the repetitions")
    if not trusted and error > _MAX_ERROR:
        limit, excess = percent(_MAX_ERROR), _format_excess(error, _MAX_ERROR)
        notes.append(f"the error of the formula at the points exceeds {limit}: up to {excess}")
    return notes


def _format_excess(relative: float, limit: float) -> str:
    """Format a relative size with enough decimals to show that it exceeds the limit."""
    digits = range(_MAX_DECIMALS)
    decimals = next((d for d in digits if round(100 * relative, d) > 100 * limit), _MAX_DECIMALS)
    if decimals or relative < _MIN_FACTOR:
        return percent(relative, decimals)
    return f"{relative:.2g} times the value"


def describe_outliers(names: Sequence[str], points: Floats, values: Floats, left_out: Bools) -> str:
    """Return a note on outliers among the repetitions, shape (n_points, n_repetitions)."""
    details = []
    for point, row, is_outlier in zip(points, values, left_out, strict=True):
        if is_outlier.any():
            where = ", ".join(f"{name}={x:g}" for name, x in zip(names, point, strict=True))
            outlier, median = row[is_outlier][0], np.nanmedian(row[~is_outlier])
            ratio = f"{outlier / median:.2g} times their median" if median else ""
            details.append(f"at {where} it is {ratio or f'{outlier:.3g}, not 0'}")
    return f"a repetition far from the others is left out: {'; '.join(details)}"


def find_confounded(points: Floats) -> list[list[int]]:
    """Return groups of columns that were only varied together, as in (4, 4), (8, 8), ...

    Some product of powers of such columns has the same value at all points, so the correlation
    matrix of their logarithms has an eigenvalue of 0.
    """
    if points.shape[1] < 2:
        return []
    logs = log_points(points)
    logs -= logs.mean(axis=0)
    logs /= np.linalg.norm(logs, axis=0)
    values, directions = np.linalg.eigh(logs.T @ logs)
    null_space = directions[:, values < _MAX_EIGENVALUE]
    # Single eigenvectors may mix independent groups, but the projector does not.
    is_linked = np.abs(null_space @ null_space.T) > _MIN_LINK
    _, group = scipy.sparse.csgraph.connected_components(is_linked, directed=False)
    groups = (np.flatnonzero(group == k).tolist() for k in range(group.max() + 1))
    return [columns for columns in groups if len(columns) > 1]


class Models:
    """Models of all call paths in a set of measurements; made by `fit_many`.

    Attributes
    ----------
    measurements : Measurements
    trusted : array of bool, shape (n_paths,)
        Whether some hypothesis fits the points within the noise of the repetitions.
    by_points : array of bool, shape (n_paths,)
        Whether predictions also use the nearest points, because no hypothesis fits.
    bounded : array of bool, shape (n_paths,)
        Whether the noise of the repetitions is bounded rather than normal.
    sign : array, shape (n_paths,)
        -1 if most points are negative, so that the negated values were fitted; else 1.
    left_out : array of bool, shape (n_paths, n_points, n_repetitions)
        Outliers, which were not fitted.
    """

    def __init__(
        self,
        measurements: Measurements,
        spaces: dict[int, TermSpace],
        ranked: RankedHypotheses,
        estimates: PointEstimates,
    ) -> None:
        self.measurements = measurements
        # Term spaces by searched parameter, estimates (negated where sign is -1), and hypotheses.
        self._spaces, self._estimates, self._ranked = spaces, estimates, ranked
        self._active = active = list(spaces)
        points = measurements.points[:, active]
        on_lines = len(active) > 1 and all(find_lines(points, q) for q in range(points.shape[1]))
        if on_lines and not is_grid(points):
            # Many hypotheses fit a few points on lines. The most accurate one is then the
            # hypothesis whose prediction far from the points is the median.
            far = _FAR_FACTOR * points.max(axis=0, keepdims=True)
            self._ranked = ranked.median_first(self._evaluate_hypotheses(far)[:, :, 0])
        self.sign, self.left_out, self.trusted = estimates.sign, estimates.left_out, ranked.trusted
        self.bounded = estimates.bounded > 0.5
        # Predictions from neighbours use power laws, whose values all have the same sign.
        centre = estimates.centre
        is_positive = (centre > 0).any(axis=1) & ~(estimates.mixed & (centre < 0).any(axis=1))
        self.by_points: Bools = ~self.trusted & is_positive & bool(active)

    @property
    def n_paths(self) -> int:
        """Number of models."""
        return len(self.trusted)

    @property
    def min_points(self) -> int:
        """Minimum number of points for an interval: one more than coefficients and exponents."""
        return max(3, len(self._active) + 2)

    @property
    def probabilities(self) -> Floats:
        """Posterior probability of each hypothesis by rank; shape (n_paths, n_hypotheses)."""
        return self._ranked.weights

    def terms(self, path: int = 0, rank: int = 0) -> list[Term]:
        """Terms of a model, the constant first: (coefficient, ((i, j) for each parameter)).

        Predictions use the hypothesis of rank 0; the others follow by falling probability.
        """
        ranked, n_parameters = self._ranked, len(self.measurements.parameters)
        path = whole_number(path, "number of the call path", 0, self.n_paths - 1)
        rank = whole_number(rank, "number of the hypothesis", 0, ranked.used.shape[1] - 1)
        result: list[Term] = []
        for k in np.flatnonzero(ranked.used[path, rank]):
            exponents = [(0.0, 0.0)] * n_parameters
            for q, (parameter, space) in enumerate(self._spaces.items()):
                number = int(ranked.terms[path, rank, k, q]) - 1
                if number >= 0:
                    i, j = space.polynomial[number], space.logarithm[number]
                    exponents[parameter] = float(i), float(j)
            coefficient = float(self.sign[path] * ranked.coefficient[path, rank, k])
            if coefficient != 0.0:
                result.append((coefficient, tuple(exponents)))
        return formula.merge_terms(result, n_parameters)

    def formulas(self, digits: int = 4) -> list[str]:
        """Formula of each call path as text."""
        names = self.measurements.parameters
        return [formula.format_terms(self.terms(p), names, digits) for p in range(self.n_paths)]

    def formula(self, path: int = 0) -> formula.Formula:
        """Formula of a call path in full precision."""
        terms, data = self.terms(path), self.measurements
        text = formula.format_terms(terms, data.parameters, None)
        return formula.Formula(text, place=data.callpaths[path])

    def predict(self, X: ArrayLike) -> Floats:
        """Predict every call path at new points; shape (n_paths, m).

        Predictions are values of the formula. Where `by_points` is true, they also use the nearest
        points: a prediction beyond the largest values is either the power law through the nearest
        points or the formula scaled to these points, whichever is smaller.

        Parameters
        ----------
        X : array-like, shape (m, n_parameters)
            Values of 0 or more; above 0 where falling terms were searched. Columns of a DataFrame
            are selected by name.
        """
        places = self._searched_columns(X)
        result = self._evaluate_hypotheses(places, 1)[:, 0]
        paths = np.flatnonzero(self.by_points)
        if paths.size and len(places):
            points = self.measurements.points[:, self._active]
            at_points = self._evaluate_hypotheses(points, 1)[paths, 0]
            # Logarithms and falling powers are undefined at 0.
            formula = self._evaluate_hypotheses(replace_zeros(points, places), 1)[paths, 0]
            centre = self._estimates.centre[paths]
            result[paths] = predict_by_neighbours(points, centre, places, formula, at_points)
        return self.sign[:, None] * result

    def evaluate(self, X: ArrayLike) -> Floats:
        """Value of each formula at new points; shape (n_paths, m)."""
        values = self._evaluate_hypotheses(self._searched_columns(X), 1)[:, 0]
        return np.asarray(self.sign[:, None] * values)

    def spread(self, X: ArrayLike, levels: Sequence[float]) -> Floats:
        """Quantiles of the values of all probable hypotheses; shape (levels, n_paths, m)."""
        parts = as_real_array(levels, "levels of quantiles")
        if parts.ndim != 1 or not parts.size or not ((parts >= 0) & (parts <= 1)).all():
            expected = "a list of numbers from 0 to 1"
            raise InputError("bad levels of quantiles", found=levels, expected=expected)
        return self._compute_quantiles(self._searched_columns(X), parts)

    def _compute_quantiles(self, places: Floats, levels: Sequence[float] | Floats) -> Floats:
        """Return weighted quantiles of the hypotheses' values; shape (levels, p, m)."""
        values = self._evaluate_hypotheses(places)
        order = np.argsort(values, axis=1)
        weight = np.broadcast_to(self._ranked.weights[:, :, None], values.shape)
        total = np.take_along_axis(weight, order, axis=1).cumsum(axis=1)
        result = []
        for level in levels:
            # The quantiles of negated values are in reverse order.
            signed_level = np.where(self.sign < 0, 1 - level, level)[:, None, None]
            rank = (total < signed_level * total[:, -1:]).sum(axis=1, keepdims=True)
            chosen = np.take_along_axis(order, np.minimum(rank, values.shape[1] - 1), axis=1)
            result.append(self.sign[:, None] * np.take_along_axis(values, chosen, axis=1)[:, 0])
        return np.stack(result)

    def hypotheses(self, X: ArrayLike) -> tuple[Floats, Floats]:
        """Values of all probable hypotheses, (n_paths, n_hypotheses, m), and probabilities."""
        values = self._evaluate_hypotheses(self._searched_columns(X))
        return self.sign[:, None, None] * values, self.probabilities

    def errors(self, left_out: bool = False) -> Floats:
        """Relative errors of the formulas at the measured points; shape (n_paths, n_points).

        With ``left_out``, the error at each point uses coefficients fitted without that point.
        """
        centre = self.sign[:, None] * self._estimates.centre
        scale = estimate_scale(centre)
        relative: Floats = (centre - self.evaluate(self.measurements.points)) / scale
        if left_out:
            models = [self.terms(p) for p in range(self.n_paths)]
            relative = _leave_one_out(self.measurements.points, relative, scale, models)
        return relative

    def _evaluate_hypotheses(self, places: Floats, n_best: int | None = None) -> Floats:
        """Return the values of the best `n_best` hypotheses, by default all; shape (p, h, m)."""
        terms = [
            np.vstack([np.ones(len(places)), space.values(column)])
            for space, column in zip(self._spaces.values(), places.T, strict=True)
        ]
        numbers, coefficient = self._ranked.terms[:, :n_best], self._ranked.coefficient[:, :n_best]
        total = np.zeros((*coefficient.shape[:2], len(places)))
        for k in range(coefficient.shape[2]):
            column = coefficient[:, :, k, None] * np.ones(len(places))
            for q, values in enumerate(terms):
                if numbers[:, :, k, q].any():
                    column = column * values[numbers[:, :, k, q]]
            total += column
        return total

    def predicts_by(self) -> list[str]:
        """Basis of each call path's predictions: "formula" or "formula and nearest points"."""
        return ["formula and nearest points" if each else "formula" for each in self.by_points]

    def summary(self) -> pd.DataFrame:
        """Formula and quality of fit, one row per call path.

        Columns: callpath, metric, formula, rss, adjusted_r2, smape (percent), cross_validation
        (root mean square of the relative leave-one-out errors), variation (of the repetitions),
        probability (of these exponents), trusted, predicts_by ("formula" or "formula and nearest
        points").
        """
        return pd.DataFrame(self.rows())

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of `summary`."""
        data = self.measurements
        fitted, models = self.evaluate(data.points), [self.terms(p) for p in range(self.n_paths)]
        centre = self.sign[:, None] * self._estimates.centre
        scores = _score_fits(data.points, centre, fitted, models)
        values = {
            "callpath": data.callpaths,
            "metric": data.metrics,
            "formula": [formula.format_terms(terms, data.parameters) for terms in models],
            **{name: score.tolist() for name, score in scores.items()},
            "variation": self._estimates.variation.tolist(),
            "probability": self.probabilities[:, 0].tolist(),
            "trusted": self.trusted.tolist(),
            "predicts_by": self.predicts_by(),
        }
        return [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]

    def notes(self) -> list[list[str]]:
        """Notes on the limits of the measurements of each call path."""
        data, estimates, active = self.measurements, self._estimates, self._active
        common = describe_points(data.parameters, data.points, active)
        far = _FAR_FACTOR * data.points.max(axis=0, keepdims=True)
        low, high = self._compute_quantiles(far[:, active], (0.05, 0.95))[:, :, 0]
        # Predictions may use the nearest points, so evaluate the formula itself.
        fitted = self.evaluate(data.points)
        errors = _max_errors(self.sign[:, None] * estimates.centre, fitted)
        paths = zip(estimates.variation, self.trusted, low, high, errors, strict=True)
        result = [common + describe_path(*path) for path in paths]
        negative = (self._ranked.coefficient[:, 0] < 0).any(axis=1)
        for p in np.flatnonzero(negative & (estimates.centre >= 0).all(axis=1)):
            result[p].append(NEGATIVE_COEFFICIENT)
        for p in np.flatnonzero(self._ranked.prior_decided):
            result[p].append(PRIOR_DECIDED)
        for p in np.flatnonzero(self.left_out.any(axis=(1, 2))):
            outliers = data.values[p], self.left_out[p]
            result[p].append(describe_outliers(data.parameters, data.points, *outliers))
        return result

    def notes_at(self, X: ArrayLike) -> list[str]:
        """Notes on predictions at places that the measurements do not cover."""
        data = self.measurements
        result = describe_places(data.parameters, data.points, self._active, self.places(X))
        below = (self.evaluate(X) < 0).any(axis=1) & (self._estimates.centre >= 0).all(axis=1)
        if (below & (self.sign > 0)).any():
            result.append(NEGATIVE_VALUE)
        return result

    def places(self, X: ArrayLike) -> Floats:
        """Check the places to predict, and return them with shape (m, n_parameters).

        Columns of a DataFrame are selected by name.
        """
        names = list(self.measurements.parameters)
        # isinstance would import pandas.
        table: Any = X
        if hasattr(table, "columns"):
            if len(table.columns) != len(names) or set(table.columns) != set(names):
                message, found = "places to predict need each parameter as a column", table.columns
                raise InputError(message, found=list(found), expected=names)
            X = table[names]
        places = as_real_array(X, "places to predict")
        if places.ndim != 2 or places.shape[1] != len(names):
            found, expected = f"shape {places.shape}", f"(places, {len(names)})"
            message = "places to predict need one column per parameter"
            raise InputError(message, found=found, expected=expected)
        check_points(places, names)
        for q, space in self._spaces.items():
            if (places[:, q] == 0).any() and (space.polynomial < 0).any():
                raise InputError(f"parameter {names[q]} must be positive", found=0)
        return places

    def _searched_columns(self, X: ArrayLike) -> Floats:
        return self.places(X)[:, self._active]


def _score_fits(
    points: Floats, centre: Floats, fitted: Floats, models: Sequence[Sequence[Term]]
) -> dict[str, Floats]:
    """Return the scores in `Models.summary`, (p,) each, for values at the points, (p, n)."""
    n = centre.shape[1]
    residual = centre - fitted
    rss = (residual**2).sum(axis=1)
    total = ((centre - centre.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
    n_terms = np.array([len(terms) for terms in models])
    with np.errstate(invalid="ignore", divide="ignore"):
        adjusted = 1 - (rss / np.maximum(n - n_terms, 1)) / (total / (n - 1))
        size = np.abs(centre) + np.abs(fitted)
        smape = 200 * np.where(size > 0, np.abs(residual) / size, 0.0).mean(axis=1)
    adjusted[total == 0] = np.nan
    scale = estimate_scale(centre)
    errors = _leave_one_out(points, residual / scale, scale, models)
    cross_validation = np.sqrt(np.mean(errors**2, axis=1))
    scores = {"rss": rss, "adjusted_r2": adjusted, "smape": smape}
    return scores | {"cross_validation": cross_validation}


def _max_errors(centre: Floats, fitted: Floats) -> Floats:
    """Return the largest relative error of each model at the points."""
    scale = estimate_scale(centre)
    # For a negligible value, only the part of the error that exceeds the scale counts.
    tolerance = np.where(np.abs(centre) < scale, scale, 0.0)
    error = np.maximum(np.abs(fitted - centre) - tolerance, 0.0) / scale
    return np.asarray(error.max(axis=1))


def _leave_one_out(
    points: Floats, residual: Floats, scale: Floats, models: Sequence[Sequence[Term]]
) -> Floats:
    """Return the relative leave-one-out error at each point, (p, n): residual / (1 - leverage)."""
    exponents = {e for terms in models for _, e in terms}
    values = {e: formula.evaluate_terms([(1.0, e)], points) for e in exponents}
    n_terms = np.array([len(terms) for terms in models])
    result = np.empty(residual.shape)
    # Solve models with equal numbers of terms together.
    for n in np.unique(n_terms):
        paths = np.flatnonzero(n_terms == n)
        columns = np.array([[values[e] for _, e in models[p]] for p in paths.tolist()])
        columns /= scale[paths, None]
        columns /= np.maximum(np.linalg.norm(columns, axis=2, keepdims=True), 1e-300)
        basis, _ = np.linalg.qr(columns.transpose(0, 2, 1))
        # A leverage of 1 means that the other points do not determine the model.
        leverage = np.minimum((basis**2).sum(axis=2), 1 - 1e-9)
        result[paths] = residual[paths] / (1 - leverage)
    return result
