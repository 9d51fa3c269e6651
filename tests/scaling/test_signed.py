"""Negative values: the mirror of positive ones, and what models of both signs promise."""

import itertools

import numpy as np
import pytest

from toruscast.scaling import FitOptions, Measurements, PMNFRegressor, fit_many
from toruscast.scaling.pmnf.bootstrap import interval
from toruscast.scaling.pmnf.local_growth import anchor, slowed

P = np.array([4.0, 8, 16, 32, 64])[:, None]
GRID = np.array(list(itertools.product(P[:, 0], [10.0, 20, 30, 40, 50])))
FAR = {1: np.array([[3.0], [24], [64], [256]]), 2: np.array([[24.0, 25], [64, 50], [256, 200]])}


def call_paths(x, repetitions):
    """Some that are met, some that no hypothesis meets, one of both signs, one of nothing."""
    p, n = x[:, 0], x[:, -1]
    exact = np.stack(
        [
            3 + 2 * p,
            100 / p,
            7 + 0 * p,
            np.where(p < 20, p, 40 * n),
            3 * p - 40,
            n**2 / p + p,
            0 * p,
        ]
    )
    noise = 1 + 0.03 * np.random.default_rng(0).uniform(-1, 1, (*exact.shape, repetitions))
    values = np.concatenate([exact[:, :, None] * noise, exact[:, :, None] + 0 * noise])
    # A repetition far from the others, beyond 0.
    if repetitions > 2:
        values[0, 3, 1] *= -3
    return values


@pytest.mark.parametrize("signed", ["auto", True])
@pytest.mark.parametrize("x", [P, GRID], ids=["1", "2"])
@pytest.mark.parametrize("repetitions", [1, 3])
def test_negative_values_are_fitted_as_the_mirror_of_positive_ones(x, repetitions, signed):
    names, values, far = "pn"[: x.shape[1]], call_paths(x, repetitions), FAR[x.shape[1]]
    options = FitOptions(signed=signed)
    models, mirror = (fit_many(Measurements(names, x, v), options) for v in (values, -values))
    assert (mirror.sign == -models.sign)[models.predict(x).any(axis=1)].all()
    for average in (True, False):
        assert np.array_equal(mirror.predict(far, average), -models.predict(far, average))
    levels = [0, 0.05, 0.5, 0.9, 1]
    assert np.array_equal(
        mirror.spread(far, levels), -models.spread(far, [1 - level for level in levels])
    )
    for attribute in ("trusted", "bounded", "signed", "left_out", "probabilities"):
        assert np.array_equal(getattr(mirror, attribute), getattr(models, attribute))
    for path in range(models.n_paths):
        assert mirror.terms(path) == [(-c or c, powers) for c, powers in models.terms(path)]
    scores = ["rss", "adjusted_r2", "smape", "cross_validation", "variation"]
    assert mirror.summary()[scores].equals(models.summary()[scores])
    kinds = [[note.partition(":")[0] for note in notes] for notes in models.notes()]
    assert kinds == [[note.partition(":")[0] for note in notes] for notes in mirror.notes()]
    ends, mirrored = (
        interval(m, far, options, n_bootstrap=5, paths=[0, 1, 3, 4, 10]) for m in (models, mirror)
    )
    assert np.array_equal(mirrored, [-ends[1], -ends[0]])


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("space", ["default", "published"])
@pytest.mark.parametrize(
    "y",
    [
        [4, 8, 16, 1280, 2560],
        [50, 20, 10, 4, 1],
        [1, 1, 1, 1, 90],
        [9, 3, 1, 3, 9],
        [7, 0, 5, 6, 8],
    ],
    ids=str,
)
def test_models_of_both_signs_stay_near_values_of_one(y, space, sign):
    y = sign * np.array(y, dtype=float)
    model = PMNFRegressor(space=space, signed=True, warn=False).fit(P, y)
    clear = y != 0
    assert (np.abs(np.log(model.predict(P)[clear] / y[clear])) < np.log(3.01)).all()
    between = sign * model.predict(np.sqrt(P[1:] * P[:-1]))
    low, high = np.minimum(sign * y[1:], sign * y[:-1]), np.maximum(sign * y[1:], sign * y[:-1])
    assert (between > low / 3.01).all()
    assert (between < high * 3.01).all()


def test_models_of_both_signs_stay_near_values_of_one_on_a_grid():
    p, n = GRID.T
    y = np.where(p < 20, p, 40 * n)
    predicted = PMNFRegressor(signed=True, warn=False).fit(GRID, -y).predict(GRID)
    assert (np.abs(np.log(predicted / -y)) < np.log(3.01)).all()


def test_falling_negative_values_without_falling_terms_stay_negative():
    model = PMNFRegressor(space="published", warn=False).fit(P, -100 / P[:, 0])
    assert -100 / 64 * 3 < model.predict([[1024.0]])[0] < 0
    low, high = model.predict_interval([[1024.0]], n_bootstrap=5)
    assert low[0] < high[0] < 0


def test_without_signs_no_prediction_is_negative():
    model = PMNFRegressor(signed=False, warn=False).fit(P, -3 - P[:, 0])
    assert (model.predict(P) >= 0).all()
    assert model.notes_[-1].startswith("negative values were measured")


def test_growth_beyond_a_model_below_zero():
    points, places = np.array([[1.0], [8.0], [64.0]]), np.array([[8.0], [512.0]])
    centre = np.array([[1.0, 2.0, 4.0]])
    readings = np.array([[2.0, 30.0]])
    assert slowed(points, centre, places, readings, np.array([[-1.0]])).tolist() == [[2.0, 0.0]]
    factor = anchor(points, centre, np.array([[1.0, -2.0, 2.0]]), points[1:])
    assert factor == pytest.approx(np.array([[1.0, 2.0]]), rel=0.01)
