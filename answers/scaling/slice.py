"""A fitted model with some of its parameters held at fixed values."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from toruscast.errors import InputError
from toruscast.scaling import FitOptions, Models
from toruscast.scaling.pmnf.intervals import interval, points_needed

Array = NDArray[np.float64]


class ModelSlice:
    """One call path of fitted models, as a function of the parameters that are not fixed.

    Parameters
    ----------
    models : Models
    path : int
        Number of the call path.
    options : FitOptions
        Those of the fit.
    fixed : mapping of str to float
        Parameters held, and where. One that was not varied is held by itself.

    Attributes
    ----------
    free : tuple of str
        The other parameters.
    title, metric, formula : str

    Raises
    ------
    InputError
        If a parameter is unknown, all are fixed, or nothing was measured at the fixed values.

    Examples
    --------
    >>> from toruscast.scaling import Measurements, fit_many
    >>> points = [[p, n] for p in (2, 4, 8, 16, 32) for n in (1, 2, 3, 4, 5)]
    >>> data = Measurements(["p", "n"], points, [[[3.0 * p + n] for p, n in points]])
    >>> part = ModelSlice(fit_many(data), 0, FitOptions(), {"n": 2})
    >>> part.free, part.predict(np.array([[64.0]])).round(6).tolist()
    (('p',), [194.0])
    """

    def __init__(
        self, models: Models, path: int, options: FitOptions, fixed: Mapping[str, float]
    ) -> None:
        data = models.measurements
        unknown = [name for name in fixed if name not in data.parameters]
        if unknown:
            raise InputError(
                "no such parameter", found=unknown[0], expected=" or ".join(data.parameters)
            )
        held = {
            q: fixed[name] if name in fixed else float(column[0])
            for q, (name, column) in enumerate(zip(data.parameters, data.points.T, strict=True))
            if name in fixed or np.unique(column).size == 1
        }
        self._free = [q for q in range(len(data.parameters)) if q not in held]
        if not self._free:
            raise InputError("no parameter is left to draw along")
        self._held, self._models, self._options, self._path = held, models, options, path
        near = [np.isclose(data.points[:, q], value) for q, value in held.items()]
        self._there = np.logical_and.reduce([np.ones(len(data.points), bool), *near])
        if not self._there.any():
            raise InputError(
                "nothing was measured there",
                found=", ".join(f"{data.parameters[q]}={value:g}" for q, value in held.items()),
                expected="; ".join(
                    f"{data.parameters[q]} of {', '.join(f'{v:g}' for v in known[:8])}"
                    for q in held
                    if (known := np.unique(data.points[:, q])).size
                ),
            )
        self.free = tuple(data.parameters[q] for q in self._free)
        self.title, self.metric = data.callpaths[path], data.metrics[path]
        self.formula = models.formulas()[path]

    @property
    def held(self) -> str:
        """The fixed parameters as text, "" where none is."""
        names = self._models.measurements.parameters
        return ", ".join(f"{names[q]} = {value:g}" for q, value in self._held.items())

    def measured(self) -> tuple[Array, Array]:
        """Points with the fixed values: free parameters (n, free), values (n, repetitions)."""
        data = self._models.measurements
        return data.points[self._there][:, self._free], data.values[self._path][self._there]

    def predict(self, places: Array) -> Array:
        """Prediction at places of the free parameters; shape (m,)."""
        value: Array = self._models.predict(self._whole(places))[self._path]
        return value

    def evaluate(self, places: Array) -> Array:
        """Value of the formula at places of the free parameters; shape (m,)."""
        value: Array = self._models.evaluate(self._whole(places))[self._path]
        return value

    @property
    def differs(self) -> bool:
        """Whether predictions where it was measured are not those of the formula."""
        places, _ = self.measured()
        return not np.allclose(self.evaluate(places), self.predict(places), rtol=1e-3)

    @property
    def has_interval(self) -> bool:
        """Whether enough points were measured for an interval."""
        return len(self._models.measurements.points) >= points_needed(self._models)

    def interval(self, places: Array, level: float) -> tuple[Array, Array]:
        """Prediction interval by bootstrap; two arrays of shape (m,)."""
        low, high = interval(
            self._models, self._whole(places), self._options, level, paths=[self._path]
        )
        return low[0], high[0]

    def _whole(self, places: Array) -> Array:
        result = np.empty((len(places), len(self._models.measurements.parameters)))
        result[:, self._free] = places
        for q, value in self._held.items():
            result[:, q] = value
        return result
