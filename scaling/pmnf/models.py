"""Fitted models of many call paths: formulas, predictions, quality."""

# p = call paths, m = places, q = parameters

from __future__ import annotations

import numbers
from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from toruscast.errors import InputError

from .. import formula
from . import notes
from .measurements import Measurements, check_points, real_numbers
from .mixture import alternatives, spread, weights
from .notes import Note
from .prediction import Fitted
from .quality import farthest, quality

Array = NDArray[np.float64]
Term = formula.Term


class Models:
    """Models of all call paths of one set of measurements; made by `fit_many`.

    Attributes
    ----------
    measurements : Measurements
        What was fitted.
    trusted : array of bool, shape (n_paths,)
        Some hypothesis meets the points within the noise of the repetitions. Where this is false,
        predictions also follow the growth near the largest values.
    bounded : array of bool, shape (n_paths,)
        The noise among repetitions looks bounded rather than normal.
    sign : array, shape (n_paths,)
        -1 where most points are negative: the opposites of the values were fitted, and everything
        that the model says is mirrored.
    signed : array of bool, shape (n_paths,)
        Coefficients of both signs were searched.
    left_out : array of bool, shape (n_paths, n_points, n_repetitions)
        Repetitions so far from the others that they were not fitted.
    """

    def __init__(self, measurements: Measurements, fitted: Fitted) -> None:
        self.measurements = measurements
        self._fitted = fitted
        self.trusted = fitted.found.trusted
        self.bounded = fitted.centred.bounded > 0.5
        self.sign = fitted.sign
        self.signed = fitted.signed
        self.left_out = fitted.left_out

    @property
    def n_paths(self) -> int:
        """Number of models."""
        return len(self.trusted)

    @property
    def n_varied(self) -> int:
        """Number of parameters that were varied; at most four of them are searched."""
        return len(self._fitted.active)

    @property
    def probabilities(self) -> Array:
        """Probability of each hypothesis kept, the best first; shape (n_paths, n_kept)."""
        return weights(self._fitted.found)

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
        found, n_parameters = self._fitted.found, len(self.measurements.parameters)
        for value, size, what in (
            (path, self.n_paths, "call path"),
            (rank, found.used.shape[1], "hypothesis"),
        ):
            if not isinstance(value, numbers.Integral) or not 0 <= value < size:
                raise InputError(f"no such {what}", found=value, expected=f"0 to {size - 1}")
        searched = list(zip(self._fitted.active, self._fitted.spaces, strict=True))
        result: list[Term] = []
        for k in np.flatnonzero(found.used[path, rank]):
            exponents = [(0.0, 0.0)] * n_parameters
            for q, (place, space) in enumerate(searched):
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

    def formula(self, path: int = 0) -> formula.Formula:
        """The most probable model of a call path with all digits, to compose and compare.

        Examples
        --------
        >>> from toruscast.scaling import fit_many
        >>> m = Measurements(["n"], [[2], [4], [8]], [[[1.0], [2.0], [4.0]]])
        >>> fit_many(m).formula().parameters
        ('n',)
        """
        return formula.Formula(
            formula.text(self.terms(path), self.measurements.parameters, None),
            place=self.measurements.callpaths[path],
        )

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
        return self._fitted.average(places) if average else self._fitted.best(places)

    def spread(self, X: ArrayLike, levels: Sequence[float]) -> Array:
        """Quantiles of the predictions of all probable hypotheses; shape (levels, n_paths, m)."""
        parts = real_numbers(levels, "levels of quantiles")
        if parts.ndim != 1 or not parts.size or not ((parts >= 0) & (parts <= 1)).all():
            raise InputError(
                "bad levels of quantiles", found=levels, expected="a list of numbers from 0 to 1"
            )
        return self._spread(self._places(X), parts)

    def _spread(self, places: Array, levels: Sequence[float] | Array) -> Array:
        values, weight = alternatives(self._fitted.found, self._fitted.spaces, places)
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
        centred = self._fitted.centred
        scores = quality(
            self.measurements.points, self.sign[:, None] * centred.centre, fitted, columns
        )
        return pd.DataFrame(
            {
                "callpath": self.measurements.callpaths,
                "metric": self.measurements.metrics,
                "formula": [formula.text(terms, self.measurements.parameters) for terms in columns],
                **scores,
                "variation": centred.variation,
                "probability": self.probabilities[:, 0],
                "trusted": self.trusted,
            }
        )

    def notes(self) -> list[list[Note]]:
        """For each call path, plain sentences on what its measurements cannot tell."""
        data, centred, active = self.measurements, self._fitted.centred, self._fitted.active
        common = notes.of_points(data.parameters, data.points, active)
        far = 4 * data.points.max(axis=0, keepdims=True)
        low, high = self._spread(far[:, active], (0.05, 0.95))[:, :, 0]
        # Predictions may follow the nearest points, so the formula itself is judged.
        told = self.predict(data.points, average=False)
        off = farthest(self.sign[:, None] * centred.centre, told)
        paths = zip(centred.variation, self.trusted, low, high, off, strict=True)
        result = [common + notes.of_path(*path) for path in paths]
        for p in np.flatnonzero((centred.centre < 0).any(axis=1) & ~self.signed):
            result[p].append(notes.NEGATIVE)
        for p in np.flatnonzero(self.left_out.any(axis=(1, 2))):
            result[p].append(
                notes.of_left_out(data.parameters, data.points, data.values[p], self.left_out[p])
            )
        return result

    def notes_at(self, X: ArrayLike) -> list[Note]:
        """Plain sentences on places that the measurements say nothing about.

        Parameters
        ----------
        X : array-like, shape (m, n_parameters)
        """
        data = self.measurements
        return notes.of_places(data.parameters, data.points, self._fitted.active, self.places(X))

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
            If a place does not consist of real numbers, columns are missing, too many or of other
            names, or a parameter has a value that no term is defined for.
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
        for q, space in zip(self._fitted.active, self._fitted.spaces, strict=True):
            if (places[:, q] == 0).any() and (space.polynomial < 0).any():
                raise InputError(f"parameter {names[q]} must be positive", found=0)
        return places

    def _places(self, X: ArrayLike) -> Array:
        """Values of the parameters searched."""
        return self.places(X)[:, self._fitted.active]
