"""The published models of the molecular simulator ms2, as known functions.

[Shudler18] fitted eight models to the run times of ms2: six of two parameters, two of three. Here
they are sampled on the grids of the study with its run-to-run variation, to test which of them a
fitter recovers.

Source: S. Shudler, J. Vrabec, F. Wolf, "Understanding the scalability of molecular simulation using
empirical performance modeling" [Shudler18].
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toruscast.errors import InputError
from toruscast.scaling.formula import Term, evaluate_terms, format_terms

Array = NDArray[np.float64]

# Processes, molecules, component types, density, cut-off radius in molecule diameters.
GRIDS: dict[str, tuple[float, ...]] = {
    "p": (12, 24, 36, 48, 60, 72),
    "n": (2000, 3000, 4000, 5000, 6000, 7000),
    "m": (1, 2, 3, 4, 5, 6),
    "d": (0.05, 0.20, 0.35, 0.50, 0.65, 0.80),
    "c": (1, 2, 3, 4, 5, 6),
}
VARIATIONS = (0.033, 0.062, 0.105, 0.135)
REPETITIONS = 10


def on_lines(points: Array) -> NDArray[np.bool_]:
    """Return which points differ from the first in one parameter, or have all second values."""
    first = (points != points.min(axis=0)).sum(axis=1) <= 1
    second = [np.unique(column)[1] for column in points.T]
    return first | (points == second).all(axis=1)


@dataclass(frozen=True)
class PublishedModel:
    """One model of the study.

    Attributes
    ----------
    parameters : tuple of str
        Each a key of `GRIDS`.
    terms : tuple of (coefficient, ((i, j) for each parameter))
        Coefficient times the product of x^i log2(x)^j, in seconds.
    """

    parameters: tuple[str, ...]
    terms: tuple[Term, ...]

    @property
    def name(self) -> str:
        """The parameters joined: "p,n,m"."""
        return ",".join(self.parameters)

    @property
    def formula(self) -> str:
        """The model as text."""
        return format_terms(self.terms, self.parameters)

    @property
    def exponents(self) -> set[tuple[tuple[float, float], ...]]:
        """The true exponents of every term except the constant."""
        return {e for _, e in self.terms if any(map(any, e))}

    def points(self, n_values: int = 6) -> Array:
        """Every combination of the first values; shape (n_points, n_parameters)."""
        axes = np.meshgrid(*(GRIDS[name][:n_values] for name in self.parameters), indexing="ij")
        return np.stack([axis.ravel() for axis in axes], axis=1)

    def value(self, X: Array) -> Array:
        """Seconds at each row of X."""
        return evaluate_terms(self.terms, X)

    def visible(self, variation: float) -> Array:
        """Return the effect of each term except the constant, in units of the standard error.

        A term with a value below about 2 cannot be found in one set of measurements.

        Parameters
        ----------
        variation : float
            Coefficient of variation of the repetitions.

        Returns
        -------
        array, shape (n_terms - 1,)
            Norm of the part of the term that the other terms do not explain, each point in units of
            the standard error of its mean.
        """
        points = self.points()
        error = np.maximum(np.abs(self.value(points)), 1e-12) * variation / REPETITIONS**0.5
        columns = np.array([evaluate_terms([term], points) for term in self.terms]) / error
        result = []
        for k in range(1, len(columns)):
            others = np.delete(columns, k, axis=0).T
            rest = columns[k] - others @ np.linalg.lstsq(others, columns[k], rcond=None)[0]
            result.append(float(np.linalg.norm(rest)))
        return np.array(result)


def published_models() -> tuple[PublishedModel, ...]:
    """The six models of two parameters and the two of three; log is the logarithm to base 2.

    Two cannot be run times everywhere on the grid: T(n,c) and T(m,c) are negative where c and m are
    small. T(n,c) is given as printed, where its logarithm moves it by 0.001 s.

    Examples
    --------
    >>> for model in published_models()[:2]:
    ...     print(model.name, "|", model.formula)
    n,m | 4.41 + 8.03e-05 n log2(n) m
    p,m | 6.6 + 3.21 m^2 - 0.42 log2(p) m^2
    """
    zero = (0, 0)
    table: tuple[tuple[str, list[Term]], ...] = (
        ("n m", [(4.41, (zero, zero)), (8.03e-5, ((1, 1), (1, 0)))]),
        ("p m", [(6.6, (zero, zero)), (3.21, (zero, (2, 0))), (-0.42, ((0, 1), (2, 0)))]),
        ("p d", [(20.67, (zero, zero)), (-2.2, ((0, 1), zero))]),
        ("p c", [(33.83, (zero, zero)), (0.05, (zero, (3, 0))), (-4.89, ((0, 1), zero))]),
        ("n c", [(-0.99, (zero, zero)), (0.06, (zero, (3, 0))), (1.81e-5, ((0, 2), zero))]),
        ("m c", [(-23.49, (zero, zero)), (10.09, ((1, 0), zero)), (0.22, ((1, 0), (3, 0)))]),
        (
            "p n m",
            [
                (62.28, (zero, zero, zero)),
                (2.03e-8, (zero, (1.5, 2), (2, 0))),
                (-9.63, ((0, 1), zero, zero)),
            ],
        ),
        ("n m c", [(9.24, (zero, zero, zero)), (5.71e-6, ((1, 1), (1, 0), (2, 1)))]),
    )
    return tuple(PublishedModel(tuple(names.split()), tuple(terms)) for names, terms in table)


def sample(
    model: PublishedModel,
    variation: float,
    n_draws: int,
    seed: int,
    n_values: int = 6,
    repetitions: int = REPETITIONS,
) -> Array:
    """Measurements of a model, each repetition off by normal noise proportional to its value.

    Parameters
    ----------
    model : PublishedModel
    variation : float
        Coefficient of variation of the repetitions, such as those in `VARIATIONS`.
    n_draws : int
        Sets of measurements.
    seed : int
    n_values : int
        Of each parameter.
    repetitions : int

    Returns
    -------
    array, shape (n_draws, n_points, repetitions)

    Examples
    --------
    >>> sample(published_models()[0], 0.033, 2, seed=1).shape
    (2, 36, 10)
    """
    if not (np.isfinite(variation) and variation >= 0) or n_draws < 1:
        raise InputError(
            "a sample needs a coefficient of variation and a number of draws",
            found=f"{variation} and {n_draws}",
            expected="0 or more, and 1 or more",
        )
    truth = model.value(model.points(n_values))
    noise = np.random.default_rng(seed).normal(size=(n_draws, truth.size, repetitions))
    return truth[None, :, None] * (1 + variation * noise)
