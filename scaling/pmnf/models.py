"""Fitted models of many call paths: formulas, predictions, quality."""

# p = call paths, h = hypotheses, m = places, k = columns, q = parameters

from __future__ import annotations

import numbers
from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from toruscast.errors import InputError

from . import formula, notes
from ._exact import Hypotheses
from .local_growth import WIDE, anchor, believable, bounds, lifted, local_growth, slowed
from .measurements import Measurements, check_points, off_zero, real_numbers
from .misses import share_of_models
from .mixture import alternatives, densest, predicted, quantiles, spread, weights
from .noise import Centres
from .quality import farthest, quality
from .term_space import TermSpace

Array = NDArray[np.float64]
Term = formula.Term

# Where all parameters are so many times their largest values, hypotheses that lie within a range of
# this part of the median, and hold more than half of all probability, are the likely ones: what
# they predict is not drawn towards the others. If none is trusted, their sizes there tell which are
# wild; of one, two and four times the largest values, the last predicts real measurements best.
_FAR = 4.0
_DENSEST = 0.15
# Part of the median prediction below which the size of another one no longer counts.
_LEAST_SIZE = 0.1


class Models:
    """Models of all call paths of one set of measurements; made by `fit_many`.

    Attributes
    ----------
    measurements : Measurements
        What was fitted.
    trusted : array of bool, shape (n_paths,)
        Some hypothesis meets the points within the noise that the repetitions show. Where this is
        false, predictions follow the growth near the largest values too.
    bounded : array of bool, shape (n_paths,)
        The noise among repetitions looks bounded rather than normal.
    sign : array, shape (n_paths,)
        -1 where most points are negative: the opposites of the values were fitted, and all that the
        model says is mirrored.
    signed : array of bool, shape (n_paths,)
        Coefficients of both signs were searched.
    left_out : array of bool, shape (n_paths, n_points, n_repetitions)
        Repetitions so far from the others that they were not fitted.
    """

    def __init__(
        self,
        measurements: Measurements,
        active: Sequence[int],
        spaces: Sequence[TermSpace],
        centred: Centres,
        found: Hypotheses,
        absolute: Hypotheses | None,
        sign: Array,
        signed: NDArray[np.bool_],
        left_out: NDArray[np.bool_],
    ) -> None:
        self.measurements = measurements
        self.trusted = found.trusted
        self.bounded = centred.bounded > 0.5
        self._active = list(active)
        self._spaces = list(spaces)
        self._points = measurements.points[:, self._active]
        self._centred = centred
        self._found = found
        self._absolute = absolute
        self.sign = sign
        self.signed = signed
        self.left_out = left_out

    @property
    def n_paths(self) -> int:
        """Number of models."""
        return len(self.trusted)

    @property
    def n_varied(self) -> int:
        """Number of parameters that were varied, at most four of which are searched."""
        return len(self._active)

    @property
    def probabilities(self) -> Array:
        """Probability of each hypothesis kept, the best first; shape (n_paths, n_kept)."""
        return weights(self._found)

    def terms(self, path: int = 0, rank: int = 0) -> list[Term]:
        """Terms of a model, the constant first: (coefficient, ((i, j) for each parameter)).

        Parameters
        ----------
        path : int
            Number of the call path.
        rank : int
            0 for the most probable hypothesis, 1 for the next.

        Raises
        ------
        InputError
            If there is no such path, or no such hypothesis was kept.
        """
        for value, size, what in (
            (path, self.n_paths, "call path"),
            (rank, self._found.used.shape[1], "hypothesis"),
        ):
            if not isinstance(value, numbers.Integral) or not 0 <= value < size:
                raise InputError(f"no such {what}", found=value, expected=f"0 to {size - 1}")
        found, n_parameters = self._found, len(self.measurements.parameters)
        result: list[Term] = []
        for k in np.flatnonzero(found.used[path, rank]):
            exponents = [(0.0, 0.0)] * n_parameters
            for q, (place, space) in enumerate(zip(self._active, self._spaces, strict=True)):
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
        """The most probable model of each call path, as text."""
        names = self.measurements.parameters
        return [formula.text(self.terms(p), names, digits) for p in range(self.n_paths)]

    def predict(self, X: ArrayLike, average: bool = True) -> Array:
        """Predict every call path at new points.

        Parameters
        ----------
        X : array-like, shape (m, n_parameters)
            Not negative; positive where falling terms were searched. The columns of a DataFrame
            are taken by name.
        average : bool
            Take the median over all probable hypotheses, or over those that grow alike if they hold
            more than half of all probability; otherwise evaluate the one formula.

        Returns
        -------
        array, shape (n_paths, m)
        """
        places = self._places(X)
        sign = self.sign[:, None]
        if not average:
            return sign * predicted(self._found, self._spaces, places, 1)[:, 0]
        result = self._middle(self._found, places)
        centre = self._centred.centre
        # Of values of both signs nothing grows by factors.
        growing = ~self.signed | (centre >= 0).all(axis=1)
        which = np.flatnonzero(~self.trusted & (centre > 0).any(axis=1) & growing)
        if which.size and len(places):
            result[which] = self._with_local_growth(which, places, result[which])
        return sign * result

    def spread(self, X: ArrayLike, levels: Sequence[float]) -> Array:
        """Quantiles of the predictions of all probable hypotheses; shape (levels, n_paths, m)."""
        parts = real_numbers(levels, "levels of quantiles")
        if parts.ndim != 1 or not parts.size or not ((parts >= 0) & (parts <= 1)).all():
            raise InputError(
                "bad levels of quantiles", found=levels, expected="a list of numbers from 0 to 1"
            )
        return self._spread(self._places(X), parts)

    def _spread(self, places: Array, levels: Sequence[float] | Array) -> Array:
        values, weight = alternatives(self._found, self._spaces, places)
        result = spread(values, weight, levels)
        mirrored = np.flatnonzero(self.sign < 0)
        if mirrored.size:
            opposite = 1 - np.asarray(levels)
            result[:, mirrored] = -spread(values[mirrored], weight[mirrored], opposite)
        return result

    def summary(self) -> pd.DataFrame:
        """One row a call path: its formula and how well it fits.

        Columns: callpath, metric, formula, rss, adjusted_r2, smape (percent), cross_validation
        (root mean square of the relative leave-one-out errors), variation (of the repetitions),
        probability (of this choice of exponents among all), trusted.
        """
        fitted = self.predict(self.measurements.points, average=False)
        columns = [self.terms(p) for p in range(self.n_paths)]
        centre = self.sign[:, None] * self._centred.centre
        scores = quality(self.measurements.points, centre, fitted, columns)
        return pd.DataFrame(
            {
                "callpath": self.measurements.callpaths,
                "metric": self.measurements.metrics,
                "formula": [formula.text(terms, self.measurements.parameters) for terms in columns],
                **scores,
                "variation": self._centred.variation,
                "probability": self.probabilities[:, 0],
                "trusted": self.trusted,
            }
        )

    def notes(self) -> list[list[str]]:
        """For each call path, plain sentences on what its measurements cannot tell."""
        data = self.measurements
        common = notes.of_points(data.parameters, data.points, self._active)
        far = 4 * data.points.max(axis=0, keepdims=True)
        low, high = self._spread(far[:, self._active], (0.05, 0.95))[:, :, 0]
        # Predictions may follow the nearest points, whatever the formula says.
        told = self.predict(data.points, average=False)
        off = farthest(self.sign[:, None] * self._centred.centre, told)
        paths = zip(self._centred.variation, self.trusted, low, high, off, strict=True)
        result = [common + notes.of_path(*path) for path in paths]
        for p in np.flatnonzero((self._centred.centre < 0).any(axis=1) & ~self.signed):
            result[p].append(notes.NEGATIVE)
        for p in np.flatnonzero(self.left_out.any(axis=(1, 2))):
            result[p].append(
                notes.of_left_out(data.parameters, data.points, data.values[p], self.left_out[p])
            )
        return result

    def notes_at(self, X: ArrayLike) -> list[str]:
        """Plain sentences on places to predict at that the measurements say nothing of.

        Parameters
        ----------
        X : array-like, shape (m, n_parameters)
        """
        data = self.measurements
        return notes.of_places(data.parameters, data.points, self._active, self.places(X))

    def places(self, X: ArrayLike) -> Array:
        """Check places to predict at; their columns in the order of the parameters measured.

        Parameters
        ----------
        X : array-like, shape (m, n_parameters)
            The columns of a DataFrame are taken by name.

        Returns
        -------
        array, shape (m, n_parameters)

        Raises
        ------
        InputError
            If a place is no real numbers, columns are missing, too many or of other names, or a
            parameter has a value that no term is defined for.
        """
        names = list(self.measurements.parameters)
        if isinstance(X, pd.DataFrame):
            if len(X.columns) != len(names) or set(X.columns) != set(names):
                raise InputError(
                    "places to predict need each parameter as a column",
                    found=list(X.columns),
                    expected=names,
                )
            X = X[names]
        places = real_numbers(X, "places to predict")
        if places.ndim != 2 or places.shape[1] != len(names):
            raise InputError(
                "places to predict need a column a parameter",
                found=f"shape {places.shape}",
                expected=f"(places, {len(names)})",
            )
        check_points(places, names)
        for q, space in zip(self._active, self._spaces, strict=True):
            if (places[:, q] == 0).any() and (space.polynomial < 0).any():
                raise InputError(f"parameter {names[q]} must be positive", found=0)
        return places

    def _places(self, X: ArrayLike) -> Array:
        """Values of the parameters searched."""
        return self.places(X)[:, self._active]

    def _middle(self, found: Hypotheses, places: Array) -> Array:
        values, weight = alternatives(found, self._spaces, places)
        counts = self._counts(found, weight)
        result = np.empty((len(values), len(places)))
        for m in range(len(places)):
            result[:, m] = quantiles(values[:, :, m], counts, 0.5)
        return result

    def _counts(self, found: Hypotheses, weight: Array) -> Array:
        """What each alternative counts for in the median.

        The same wherever something is predicted, so that what grows never falls.
        """
        largest = self._points.max(axis=0, keepdims=True)
        far = alternatives(found, self._spaces, _FAR * largest)[0][:, :, 0]
        clear, doubtful = found.trusted, ~found.trusted
        counts = weight.copy()
        counts[clear] = densest(far[clear], weight[clear], _DENSEST)
        if doubtful.any():
            # Probabilities that none of the hypotheses deserves: least expected |relative error|,
            # the median weighed by 1 / value, keeps wild ones from counting.
            size = np.maximum(np.abs(far[doubtful]), 1e-300)
            size = size / np.median(size, axis=1, keepdims=True)
            counts[doubtful] = weight[doubtful] / np.maximum(size, _LEAST_SIZE)
        return counts

    def _with_local_growth(self, which: NDArray[np.intp], places: Array, median: Array) -> Array:
        """Middle one of three readings, weighed against one that growth alone has a larger part in.

        The readings are two of the models and the growth near each place. Of one parameter the
        models are fitted with equal relative errors and with equal absolute ones, where the large
        values count most. Of several, they are taken as they are and corrected by their errors at
        the nearest points. What counts beside them, the more the models miss, is the middle one of
        this reading and of growth near the place and in wider surroundings.
        """
        points, near = off_zero(self._points, self._points), off_zero(self._points, places)
        measured = self._centred.centre[which]
        clear = lifted(measured)
        centre = np.where(measured > 0, measured, clear)
        growth = local_growth(points, centre, near)
        laws = np.stack([growth, local_growth(points, centre, near, WIDE)])
        at_points = self._middle(self._found, self._points)[which]
        if self._absolute is not None:
            place = np.searchsorted(np.flatnonzero(~self.trusted), which)
            there = np.vstack([places, self._points.max(axis=0)])
            first = self._middle(self._absolute, there)[place]
            second = predicted(self._found, self._spaces, there, 1)[which, 0]
            models = np.stack([first, second])
            first, second = slowed(points, clear, near, models[..., :-1], models[..., -1:])
        else:
            first = median
            second = median * anchor(points, centre, at_points, near)
        middle = np.median(np.stack([first, second, growth]), axis=0)
        laws = believable(points, clear, near, laws)
        powers = np.median(np.stack([middle, *laws]), axis=0)
        share = share_of_models(points, measured, clear, at_points)[:, None]
        least, most = bounds(points, measured, clear, near)
        result: Array = np.clip(share * middle + (1 - share) * powers, least, most)
        return result
