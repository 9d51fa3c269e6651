"""Predictions are the same in whatever order the parameters stand."""

import itertools

import numpy as np
import pytest

from toruscast.scaling import Measurements, fit_many

LEVELS = np.array([[4.0, 8, 16, 32, 64], [10, 20, 30, 40, 50], [1000, 2000, 3000, 4000, 5000]])
EXPONENTS = [(0.5, 0), (1, 0), (1, 1), (2, 0), (0, 1), (-1, 0), (1.5, 0)]
NAMES = np.array(["p", "n", "m"])


def design(n_parameters, complete):
    """A grid, or its lines through the smallest corner and the largest one."""
    grid = np.array(list(itertools.product(*LEVELS[:n_parameters])))
    off = (grid != grid.min(axis=0)).sum(axis=1)
    return grid if complete else grid[(off <= 1) | (grid == grid.max(axis=0)).all(axis=1)]


def drawn(points, noise, rng):
    """Three repetitions of a sum or product of terms of some parameters."""
    value = np.full(len(points), rng.uniform(1, 100))
    for column in points.T:
        i, j = EXPONENTS[rng.integers(len(EXPONENTS))]
        term = column**i * np.log2(column) ** j
        term *= rng.uniform(5, 100) / term.max()
        value = rng.choice([value, value * term, value + term], p=[0.3, 0.3, 0.4])
    return value[:, None] * (1 + noise * rng.uniform(-1, 1, (len(points), 3)))


@pytest.mark.parametrize("noise", [0, 0.05, 0.3])
@pytest.mark.parametrize("complete", [True, False], ids=["grid", "sparse"])
@pytest.mark.parametrize("n_parameters", [2, 3])
def test_the_order_of_parameters_changes_nothing(n_parameters, complete, noise):
    points = design(n_parameters, complete)
    rng = np.random.default_rng(3)
    values = np.array([drawn(points, noise, rng) for _ in range(20)])
    far = 4 * points.max(axis=0, keepdims=True)
    expected = fit_many(Measurements(NAMES[:n_parameters], points, values)).predict(far)
    for order in itertools.permutations(range(n_parameters)):
        columns = list(order)
        models = fit_many(Measurements(NAMES[columns], points[:, columns], values))
        assert models.predict(far[:, columns]) == pytest.approx(expected, rel=1e-6)
