"""Fitted models of many call paths, and notes on the limits of their measurements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from toruscast._slow import pandas as pd
from toruscast._slow import scipy
from toruscast.errors import InputError
from toruscast.text import counted, percent
from toruscast.validation import whole_number

from . import formula
from .measurements import Measurements, check_points, logarithms, off_zero, real_numbers
from .noise import Centres, followed, scale_of
from .search import is_grid, lines
from .select import RankedHypotheses
from .terms import TermSpace

Array = NDArray[np.float64]

# Logarithms of points are flat along a direction if their length along it is below this share.
_FLAT = 1e-6
# Two columns belong together if the flat directions link them by at least this much.
_LINKED = 1e-3
_LEVELS = 5
_VARIATION = 0.1
_APART = 0.2
_OFF = 0.1
# Relative size from which a percentage is hard to read.
_MANY = 10.0
# A smaller difference from a limit is rounding.
_MAX_DECIMALS = 6


class Note(str):
    """A sentence on one call path; its kind is the part that all such notes share."""

    kind: str

    def __new__(cls, kind: str, detail: str = "") -> Self:
        """Return the sentence "kind: detail"."""
        note = super().__new__(cls, f"{kind}: {detail}" if detail else kind)
        note.kind = kind
        return note


OVERRULED = Note(
    "a coefficient is negative",
    "costs add up as a rule, and far away the formula may turn negative",
)
DECIDED = Note(
    "a negative coefficient was ruled out by the rule that costs add up",
    "the measurements alone would prefer one",
)
BELOW_ZERO = Note("the formula turns negative here", "a time or a count does not")


def of_points(names: Sequence[str], points: Array, active: Sequence[int]) -> list[Note]:
    """Return notes on the points of a fit that searched the parameters `active`."""
    counts = [np.unique(column).size for column in points.T]
    result = [
        Note(f"parameter {name} has {counted(n, 'value')}; five are needed for a reliable model")
        for name, n in zip(names, counts, strict=True)
        if n < _LEVELS
    ]
    for q in active:
        least = points[:, q].min()
        if least == 0:
            what = f"no logarithm and no falling power of parameter {names[q]} was searched"
            result.append(Note(what, "it has the value 0"))
        elif least < 1:
            what = f"no logarithm of parameter {names[q]} was searched"
            result.append(Note(what, "it has values below 1"))
    if not active:
        result.append(Note("no parameter was varied", "the model is a constant"))
    left_out = [name for q, name in enumerate(names) if q not in active and counts[q] > 1]
    if left_out:
        what = f"parameters {', '.join(left_out)} were left out"
        result.append(Note(what, "at most four are searched"))
    for group in confounded(points[:, active]):
        together = ", ".join(names[active[q]] for q in group)
        why = (
            "which of them changes the values is not known, and predictions where they are not "
            "varied so are guesses"
        )
        result.append(Note(f"parameters {together} were only varied together", why))
    return result


def of_places(
    names: Sequence[str], points: Array, active: Sequence[int], places: Array
) -> list[Note]:
    """Return notes on places where a parameter that is in no model has other values.

    >>> of_places(["p"], np.array([[2.0]]), [], np.array([[4.0]]))
    ['parameter p was not varied: predictions take it to change nothing']
    """
    result = []
    for q, name in enumerate(names):
        measured = np.unique(points[:, q])
        if q not in active and not np.isin(places[:, q], measured).all():
            why = "left out" if measured.size > 1 else "not varied"
            note = Note(f"parameter {name} was {why}", "predictions take it to change nothing")
            result.append(note)
    return result


def of_path(
    variation: float, trusted: bool, low: float, high: float, off: float = 0.0
) -> list[Note]:
    """Return notes on one call path, whose repetitions have a coefficient of variation (or NaN).

    `low` and `high` are what the hypotheses predict at four times the largest values, `off` is the
    largest relative error of the formula at the points.
    """
    result = []
    if variation > _VARIATION:
        what = f"the repetitions vary by more than {percent(_VARIATION)}"
        result.append(Note(what, _more_than(variation, _VARIATION)))
    if high - low > _APART * abs(high + low) / 2:
        result.append(
            Note(
                "the measurements cannot tell hypotheses apart",
                f"at four times the largest values they predict {low:.3g} to {high:.3g}",
            )
        )
    if np.isfinite(variation) and not trusted:
        result.append(Note("no hypothesis meets the points within the noise of the repetitions"))
    if not trusted and off > _OFF:
        what = f"the formula is off by more than {percent(_OFF)} where it was measured"
        result.append(Note(what, f"up to {_more_than(off, _OFF)}"))
    return result


def _more_than(relative: float, limit: float) -> str:
    """Return a relative size above a limit, with decimals where rounding would hide that."""
    places = range(_MAX_DECIMALS)
    decimals = next((d for d in places if round(100 * relative, d) > 100 * limit), _MAX_DECIMALS)
    if decimals or relative < _MANY:
        return percent(relative, decimals)
    return f"{relative:.2g} times the value"


def of_left_out(
    names: Sequence[str], points: Array, values: Array, left_out: NDArray[np.bool_]
) -> Note:
    """Return a note on repetitions, (points, repetitions), that were left out of the fit."""
    found = []
    for point, row, out in zip(points, values, left_out, strict=True):
        if out.any():
            where = ", ".join(f"{name}={x:g}" for name, x in zip(names, point, strict=True))
            others = np.nanmedian(row[~out])
            # A value next to nothing has no ratio.
            by = f"{row[out][0] / others:.2g} times" if others else f"{row[out][0]:.3g} beside 0,"
            found.append(f"at {where} it is {by} their median")
    return Note("a repetition far from the others is left out", "; ".join(found))


def confounded(points: Array) -> list[list[int]]:
    """Return groups of columns whose powers multiply to a constant at all points.

    Such columns were only varied together, as in (4, 4), (8, 8), ...
    """
    if points.shape[1] < 2:
        return []
    logs = logarithms(points)
    logs -= logs.mean(axis=0)
    logs /= np.linalg.norm(logs, axis=0)
    values, directions = np.linalg.eigh(logs.T @ logs)
    flat = directions[:, values < _FLAT]
    # The directions themselves may mix independent groups; the projector onto them does not.
    linked = np.abs(flat @ flat.T) > _LINKED
    _, group = scipy.sparse.csgraph.connected_components(linked, directed=False)
    together = (np.flatnonzero(group == k).tolist() for k in range(group.max() + 1))
    return [columns for columns in together if len(columns) > 1]


# p = call paths, m = places, q = parameters


Term = formula.Term

# Where hypotheses are compared, in units of the largest values measured.
_FAR = 4.0


class Models:
    """Models of all call paths of one set of measurements; made by `fit_many`.

    Attributes
    ----------
    measurements : Measurements
    trusted : array of bool, shape (n_paths,)
        Some hypothesis meets the points within the noise of the repetitions.
    by_points : array of bool, shape (n_paths,)
        Predictions follow the growth between the nearest points too, because no hypothesis meets
        the points; elsewhere they are the value of the formula.
    bounded : array of bool, shape (n_paths,)
        The noise among repetitions looks bounded rather than normal.
    sign : array, shape (n_paths,)
        -1 where most points are negative: the opposites of the values were fitted, and everything
        that the model says is mirrored.
    left_out : array of bool, shape (n_paths, n_points, n_repetitions)
        Repetitions so far from the others that they were not fitted.
    """

    def __init__(
        self,
        measurements: Measurements,
        searched: dict[int, TermSpace],
        found: RankedHypotheses,
        centred: Centres,
    ) -> None:
        self.measurements = measurements
        # The terms of each parameter searched, and the centres, mirrored where sign is -1.
        self._searched, self._centred, self._found = searched, centred, found
        self._active = active = list(searched)
        points = measurements.points[:, active]
        on_lines = len(active) > 1 and all(lines(points, q) for q in range(points.shape[1]))
        if on_lines and not is_grid(points):
            # Few points on lines leave many hypotheses open; their median prediction errs least.
            corner = self._values(_FAR * points.max(axis=0, keepdims=True))[:, :, 0]
            self._found = found.median_first(corner)
        self.sign, self.left_out, self.trusted = centred.sign, centred.left_out, found.trusted
        self.bounded = centred.bounded > 0.5
        # Values of both signs do not grow by factors.
        centre = centred.centre
        growing = (centre > 0).any(axis=1) & ~(centred.mixed & (centre < 0).any(axis=1))
        self.by_points: NDArray[np.bool_] = ~self.trusted & growing & bool(active)

    @property
    def n_paths(self) -> int:
        """Number of models."""
        return len(self.trusted)

    @property
    def min_points(self) -> int:
        """Points that an interval needs: for a coefficient, the exponents, and one to spare."""
        return max(3, len(self._active) + 2)

    @property
    def probabilities(self) -> Array:
        """Probability of each hypothesis kept; the first is used; shape (n_paths, n_kept)."""
        return self._found.weights

    def terms(self, path: int = 0, rank: int = 0) -> list[Term]:
        """Terms of a model, the constant first: (coefficient, ((i, j) for each parameter)).

        Rank 0 is the hypothesis that predictions use, 1 the most probable other one.
        """
        found, n_parameters = self._found, len(self.measurements.parameters)
        path = whole_number(path, "number of the call path", 0, self.n_paths - 1)
        rank = whole_number(rank, "number of the hypothesis", 0, found.used.shape[1] - 1)
        result: list[Term] = []
        for k in np.flatnonzero(found.used[path, rank]):
            exponents = [(0.0, 0.0)] * n_parameters
            for q, (place, space) in enumerate(self._searched.items()):
                number = int(found.terms[path, rank, k, q]) - 1
                if number >= 0:
                    exponents[place] = (
                        float(space.polynomial[number]),
                        float(space.logarithm[number]),
                    )
            coefficient = float(self.sign[path] * found.coefficient[path, rank, k])
            if coefficient != 0.0:
                result.append((coefficient, tuple(exponents)))
        return formula.joined(result, n_parameters)

    def formulas(self, digits: int = 4) -> list[str]:
        """The model of each call path, as text."""
        names = self.measurements.parameters
        return [formula.text(self.terms(p), names, digits) for p in range(self.n_paths)]

    def formula(self, path: int = 0) -> formula.Formula:
        """The model of a call path with all digits, to compose and compare."""
        data = self.measurements
        return formula.Formula.from_terms(
            self.terms(path), data.parameters, place=data.callpaths[path]
        )

    def predict(self, X: ArrayLike) -> Array:
        """Predict every call path at new points; shape (n_paths, m).

        A prediction is the value of the formula. Where `by_points` is true, it follows the nearest
        points too: beyond the largest values it is the smaller of the power law through them, and
        the formula scaled to meet them.

        Parameters
        ----------
        X : array-like, shape (m, n_parameters)
            Not negative; positive where falling terms were searched. The columns of a DataFrame
            are taken by name.
        """
        places = self._places(X)
        result = self._values(places, 1)[:, 0]
        which = np.flatnonzero(self.by_points)
        if which.size and len(places):
            points = self.measurements.points[:, self._active]
            at_points = self._values(points, 1)[which, 0]
            # A logarithm of 0, or a falling power of it, has no value.
            formula = self._values(off_zero(points, places), 1)[which, 0]
            centre = self._centred.centre[which]
            result[which] = followed(points, centre, places, formula, at_points)
        return self.sign[:, None] * result

    def evaluate(self, X: ArrayLike) -> Array:
        """Value of each formula at new points; shape (n_paths, m)."""
        values: Array = self.sign[:, None] * self._values(self._places(X), 1)[:, 0]
        return values

    def spread(self, X: ArrayLike, levels: Sequence[float]) -> Array:
        """Quantiles of the values of all probable hypotheses; shape (levels, n_paths, m)."""
        parts = real_numbers(levels, "levels of quantiles")
        if parts.ndim != 1 or not parts.size or not ((parts >= 0) & (parts <= 1)).all():
            raise InputError(
                "bad levels of quantiles", found=levels, expected="a list of numbers from 0 to 1"
            )
        return self._spread(self._places(X), parts)

    def _spread(self, places: Array, levels: Sequence[float] | Array) -> Array:
        values = self._values(places)
        order = np.argsort(values, axis=1)
        weight = np.broadcast_to(self._found.weights[:, :, None], values.shape)
        total = np.take_along_axis(weight, order, axis=1).cumsum(axis=1)
        result = []
        for level in levels:
            # The upper quantiles of mirrored values are the lower ones of their opposites.
            own = np.where(self.sign < 0, 1 - level, level)[:, None, None]
            place = (total < own * total[:, -1:]).sum(axis=1, keepdims=True)
            chosen = np.take_along_axis(order, np.minimum(place, values.shape[1] - 1), axis=1)
            result.append(self.sign[:, None] * np.take_along_axis(values, chosen, axis=1)[:, 0])
        return np.stack(result)

    def hypotheses(self, X: ArrayLike) -> tuple[Array, Array]:
        """Values of all probable hypotheses, (n_paths, n_kept, m), and their probabilities."""
        return self.sign[:, None, None] * self._values(self._places(X)), self.probabilities

    def errors(self, left_out: bool = False) -> Array:
        """Relative errors of the formulas at the measured points; shape (n_paths, n_points).

        With ``left_out``, the same terms are fitted to all other points for the error at each
        point.
        """
        centre = self.sign[:, None] * self._centred.centre
        scale = scale_of(centre)
        relative: Array = (centre - self.evaluate(self.measurements.points)) / scale
        if left_out:
            models = [self.terms(p) for p in range(self.n_paths)]
            relative = _left_out(self.measurements.points, relative, scale, models)
        return relative

    def _values(self, places: Array, most: int | None = None) -> Array:
        """Values of each hypothesis, or of the `most` likeliest; shape (p, h, m)."""
        terms = [
            np.vstack([np.ones(len(places)), space.values(column)])
            for space, column in zip(self._searched.values(), places.T, strict=True)
        ]
        code, coefficient = self._found.terms[:, :most], self._found.coefficient[:, :most]
        total = np.zeros((*coefficient.shape[:2], len(places)))
        for k in range(coefficient.shape[2]):
            column = coefficient[:, :, k, None] * np.ones(len(places))
            for q, t in enumerate(terms):
                if code[:, :, k, q].any():
                    column = column * t[code[:, :, k, q]]
            total += column
        return total

    def predicts_by(self) -> list[str]:
        """What each prediction is made of: "formula", or "formula and nearest points"."""
        return ["formula and nearest points" if each else "formula" for each in self.by_points]

    def summary(self) -> pd.DataFrame:
        """One row a call path: its formula and how well it fits.

        Columns: callpath, metric, formula, rss, adjusted_r2, smape (percent), cross_validation
        (root mean square of the relative leave-one-out errors), variation (of the repetitions),
        probability (of this choice of exponents among all), trusted, predicts_by ("formula", or
        "formula and nearest points").
        """
        return pd.DataFrame(self.rows())

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of `summary`."""
        fitted = self.evaluate(self.measurements.points)
        columns = [self.terms(p) for p in range(self.n_paths)]
        centred = self._centred
        scores = _quality(
            self.measurements.points, self.sign[:, None] * centred.centre, fitted, columns
        )
        values = {
            "callpath": self.measurements.callpaths,
            "metric": self.measurements.metrics,
            "formula": [formula.text(terms, self.measurements.parameters) for terms in columns],
            **{name: score.tolist() for name, score in scores.items()},
            "variation": centred.variation.tolist(),
            "probability": self.probabilities[:, 0].tolist(),
            "trusted": self.trusted.tolist(),
            "predicts_by": self.predicts_by(),
        }
        return [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]

    def notes(self) -> list[list[Note]]:
        """For each call path, plain sentences on the limits of its measurements."""
        data, centred, active = self.measurements, self._centred, self._active
        common = of_points(data.parameters, data.points, active)
        far = _FAR * data.points.max(axis=0, keepdims=True)
        low, high = self._spread(far[:, active], (0.05, 0.95))[:, :, 0]
        # Predictions may follow the nearest points, so the formula itself is judged.
        fitted = self.evaluate(data.points)
        off = _farthest(self.sign[:, None] * centred.centre, fitted)
        paths = zip(centred.variation, self.trusted, low, high, off, strict=True)
        result = [common + of_path(*path) for path in paths]
        negative = (self._found.coefficient[:, 0] < 0).any(axis=1)
        for p in np.flatnonzero(negative & (centred.centre >= 0).all(axis=1)):
            result[p].append(OVERRULED)
        for p in np.flatnonzero(self._found.decided):
            result[p].append(DECIDED)
        for p in np.flatnonzero(self.left_out.any(axis=(1, 2))):
            result[p].append(
                of_left_out(data.parameters, data.points, data.values[p], self.left_out[p])
            )
        return result

    def notes_at(self, X: ArrayLike) -> list[Note]:
        """Plain sentences on places that the measurements say nothing about."""
        data = self.measurements
        result = of_places(data.parameters, data.points, self._active, self.places(X))
        below = (self.evaluate(X) < 0).any(axis=1) & (self._centred.centre >= 0).all(axis=1)
        if (below & (self.sign > 0)).any():
            result.append(BELOW_ZERO)
        return result

    def places(self, X: ArrayLike) -> Array:
        """Check places to predict at, (m, n_parameters).

        Returns their columns in the order of the parameters measured; those of a DataFrame are
        taken by name.
        """
        names = list(self.measurements.parameters)
        # An attribute tells a table, so that pandas is not imported.
        table: Any = X
        if hasattr(table, "columns"):
            if len(table.columns) != len(names) or set(table.columns) != set(names):
                raise InputError(
                    "places to predict need each parameter as a column",
                    found=list(table.columns),
                    expected=names,
                )
            X = table[names]
        places = real_numbers(X, "places to predict")
        if places.ndim != 2 or places.shape[1] != len(names):
            raise InputError(
                "places to predict need a column a parameter",
                found=f"shape {places.shape}",
                expected=f"(places, {len(names)})",
            )
        check_points(places, names)
        for q, space in self._searched.items():
            if (places[:, q] == 0).any() and (space.polynomial < 0).any():
                raise InputError(f"parameter {names[q]} must be positive", found=0)
        return places

    def _places(self, X: ArrayLike) -> Array:
        """Values of the parameters searched."""
        return self.places(X)[:, self._active]


def _quality(
    points: Array, centre: Array, fitted: Array, models: Sequence[Sequence[Term]]
) -> dict[str, Array]:
    """Return measures of fit, one value a call path, from values at the points, (p, n)."""
    n = centre.shape[1]
    residual = centre - fitted
    rss = (residual**2).sum(axis=1)
    total = ((centre - centre.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
    count = np.array([len(terms) for terms in models])
    with np.errstate(invalid="ignore", divide="ignore"):
        # The constant takes one degree of freedom from both.
        adjusted = 1 - (rss / np.maximum(n - count, 1)) / (total / (n - 1))
        size = np.abs(centre) + np.abs(fitted)
        smape = 200 * np.where(size > 0, np.abs(residual) / size, 0.0).mean(axis=1)
    adjusted[total == 0] = np.nan
    scale = scale_of(centre)
    return {
        "rss": rss,
        "adjusted_r2": adjusted,
        "smape": smape,
        "cross_validation": np.sqrt(
            np.mean(_left_out(points, residual / scale, scale, models) ** 2, axis=1)
        ),
    }


def _farthest(centre: Array, fitted: Array) -> Array:
    """Return the largest relative error of each model at the points."""
    scale = scale_of(centre)
    unknown = np.where(np.abs(centre) < scale, scale, 0.0)
    error = np.maximum(np.abs(fitted - centre) - unknown, 0.0) / scale
    result: Array = error.max(axis=1)
    return result


def _left_out(
    points: Array, residual: Array, scale: Array, models: Sequence[Sequence[Term]]
) -> Array:
    """Return the relative error at each point when it is left out."""
    value = {
        e: formula.evaluate([(1.0, e)], points) for e in {e for terms in models for _, e in terms}
    }
    count = np.array([len(terms) for terms in models])
    result = np.empty(residual.shape)
    # Models with equally many terms are solved together.
    for k in np.unique(count):
        which = np.flatnonzero(count == k)
        columns = np.array([[value[e] for _, e in models[p]] for p in which.tolist()])
        columns /= scale[which, None]
        columns /= np.maximum(np.linalg.norm(columns, axis=2, keepdims=True), 1e-300)
        q, _ = np.linalg.qr(columns.transpose(0, 2, 1))
        leverage = np.minimum((q**2).sum(axis=2), 1 - 1e-9)
        result[which] = residual[which] / (1 - leverage)
    return result
