"""What grows never falls, however doubtful the hypotheses are."""

import itertools

import numpy as np
import pytest

from toruscast.scaling import Measurements, PMNFRegressor, fit_many

P = np.array([4.0, 8, 16, 32, 64])
N = np.array([10.0, 20, 30, 40, 50])
GRID = np.array(list(itertools.product(P, N)))
ROUNDING = 1e-9
NOISE = 0.05


def deepest_fall(predictions):
    """Largest part of what was predicted before that is lost along the last axis."""
    return (1 - predictions / np.maximum.accumulate(predictions, axis=-1)).max()


def growing(function, points, shape, draws):
    """Values with noise, once a point, of the draws that grow along each parameter."""
    noise = NOISE * np.random.default_rng(0).uniform(-1, 1, (draws, len(points)))
    values = function(*points.T) * (1 + noise)
    grows = [
        (np.diff(values.reshape(-1, *shape), axis=1 + q) > 0).reshape(draws, -1).all(axis=1)
        for q in range(len(shape))
    ]
    return values[np.all(grows, axis=0)]


def test_one_series_that_grows():
    model = PMNFRegressor(warn=False).fit(P[:, None], [22.54, 28.84, 37.01, 97.06, 460.24])
    assert not model.models_.trusted[0]
    places = np.geomspace(64, 64 * 64, 2000)
    assert deepest_fall(model.predict(places[:, None])) < ROUNDING


@pytest.mark.parametrize(
    "function",
    [
        lambda p: 5 + 0.5 * p,
        lambda p: 10 + 0.01 * p**2,
        lambda p: 20 + 1e-5 * p**3.5,
        lambda p: 1 + 0.9 * (p > 20) * p,
        lambda p: 1e-4 * p**5,
        lambda p: 1 + 1e-6 * p**6,
        np.sqrt,
    ],
    ids=["linear", "square", "steep", "bent", "steeper", "steepest", "root"],
)
def test_one_parameter(function):
    values = growing(function, P[:, None], (5,), 200)
    assert len(values) > 30
    models = fit_many(Measurements(["p"], P[:, None], values[:, :, None]))
    places = np.geomspace(64, 64 * 64, 500)
    assert deepest_fall(models.predict(places[:, None])) < ROUNDING


@pytest.mark.parametrize("other", [0.5, 1.0, 1.3, 4.0])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(
    "function",
    [
        lambda p, n: p * n**1.5,
        lambda p, n: p + n + n**2 / 100 * (p > 20),
        lambda p, n: p**4 * (n + n**5),
    ],
    ids=["product", "bent", "steep"],
)
def test_two_parameters(function, axis, other):
    values = growing(function, GRID, (5, 5), 1000)
    assert len(values) > 20
    models = fit_many(Measurements(["p", "n"], GRID, values[:60, :, None]))
    largest = GRID.max(axis=0)
    places = np.repeat(other * largest[None], 200, axis=0)
    places[:, axis] = np.geomspace(1, 64, 200) * largest[axis]
    assert deepest_fall(models.predict(places)) < ROUNDING
