"""Where no term grows or falls as the values do, the growth near the largest values is followed."""

import itertools

import numpy as np
import pytest

from toruscast.scaling import Measurements, PMNFRegressor, fit_many, read_measurements
from toruscast.scaling.pmnf.local_growth import NEAR, WIDE, lifted, local_growth
from toruscast.scaling.pmnf.misses import share_of_models

P = np.array([4.0, 8, 16, 32, 64])
# Edges of a cube and an opening angle, over ranges so narrow that exponents come out large.
SIZE = np.array([25.0, 30, 35, 40, 45])
THETA = np.array([0.1, 0.2, 0.3, 0.4, 0.5])
SCATTER = np.array([1.004, 0.997, 1.001, 0.998, 1.003])


@pytest.mark.parametrize(
    ("x", "exponent"), [(SIZE, 4.2), (SIZE, 6.0), (THETA, -2.7), (P, 4.5), (P, -2.5)]
)
def test_steeper_than_any_term(x, exponent):
    y = x**exponent * SCATTER
    model = PMNFRegressor(warn=False).fit(x[:4, None], y[:4])
    assert not model.models_.trusted[0]
    assert model.predict(x[4:, None])[0] == pytest.approx(y[4], rel=0.1)


@pytest.mark.parametrize(
    ("x", "y"),
    [
        ([1000, 1010], [1, 1e4]),
        ([1, 1.1], [1, 5]),
        ([64, 65, 66], [1, 8, 200]),
        ([10, 10.01, 10.02, 10.04], [1, 1e3, 1e6, 1e9]),
    ],
)
def test_values_close_together_have_no_endless_powers(x, y):
    model = PMNFRegressor(warn=False).fit(np.array(x, dtype=float)[:, None], y)
    for times in (10, 1e5):
        predicted = model.predict([[x[-1] * times]])[0]
        assert 0 < predicted <= 1.1 * y[-1] * times**8


def test_a_corner_that_was_not_measured_may_exceed_all_that_was():
    # Of a grid only its largest corner is missing; the fifth power of one parameter is no term.
    grid = np.array(list(itertools.product(P, SIZE)))
    values = grid[:, 0] ** 0.5 * (grid[:, 1] / 25) ** 5 * np.resize(SCATTER, 25)
    model = PMNFRegressor(warn=False).fit(grid[:-1], values[:-1])
    assert not model.models_.trusted[0]
    assert model.predict(grid[-1:])[0] == pytest.approx(values[-1], rel=0.1)


def test_a_missing_corner_does_not_depend_on_the_order_of_parameters():
    # Both neighbours of the corner are equally near, and their values far apart.
    grid = np.array(list(itertools.product([4.0, 8, 16], [1000.0, 2000, 4000, 8000])))
    scatter = np.exp(np.random.default_rng(1).normal(0, 0.2, len(grid) - 1))
    values = (grid[:-1, 0] / 4) ** 12 * (grid[:-1, 1] / 1000) ** 2 * scatter
    one, other = (
        PMNFRegressor(warn=False).fit(x[:-1], values).predict(x[-1:])[0]
        for x in (grid, grid[:, ::-1])
    )
    assert one == pytest.approx(other, rel=1e-6)


@pytest.mark.parametrize("axis", [0, 1])
def test_steeper_than_any_term_of_two_parameters(axis):
    points = np.array(list(itertools.product(P, SIZE)))
    y = points[:, 0] ** 0.3 * points[:, 1] ** 4.5 * np.resize(SCATTER, 25)
    last = points[:, axis] == points[:, axis].max()
    model = PMNFRegressor(warn=False).fit(points[~last], y[~last])
    assert model.predict(points[last]) == pytest.approx(y[last], rel=0.1)


@pytest.mark.parametrize(
    "function",
    [lambda p, n: 3 + 2 * p + 0 * n, lambda p, n: 5 + p * n**2, lambda p, n: 7 + p**1.5 + n],
)
def test_a_formula_that_is_met_exactly_is_all_that_counts(function):
    points = np.array(list(itertools.product(P, SIZE)))
    model = PMNFRegressor(warn=False).fit(points, function(*points.T))
    far = 4 * points.max(axis=0)
    assert model.predict([far])[0] == pytest.approx(function(*far), rel=1e-6)


def test_curved_values_that_a_formula_meets_nearly_are_not_taken_for_a_power_law():
    y = (100 + P**2) * SCATTER
    model = PMNFRegressor(warn=False).fit(P[:, None], y)
    power_law = local_growth(P[:, None], y[None], np.array([[256.0]]))[0, 0]
    truth = 100 + 256**2
    assert abs(model.predict([[256.0]])[0] / truth - 1) < 0.5 * abs(power_law / truth - 1)


def test_the_interval_holds_what_growth_says():
    model = PMNFRegressor(warn=False).fit(SIZE[:, None], SIZE**6 * SCATTER)
    low, high = model.predict_interval([[55.0]], n_bootstrap=20)
    assert low[0] <= model.predict([[55.0]])[0] <= high[0]


def test_share_of_models():
    x = P[:, None]
    y = np.tile(P**5, (3, 1))
    share = share_of_models(x, y, y, y * np.array([[1.0], [1.01], [0.0]]))
    assert share[0] == 1
    assert 0 < share[1] < 0.5
    assert share[2] == pytest.approx(0, abs=1e-6)
    bent = np.where(P > 32, 100.0, 1.0)[None]
    assert share_of_models(x, bent, bent, 1.2 * bent)[0] > 0.99


def test_two_values_tell_no_change_of_growth():
    x, y = P[:2, None], np.array([[1.0, 8.0]])
    assert share_of_models(x, y, y, 2 * y).tolist() == [1]


def test_no_miss_is_told_of_a_value_next_to_nothing():
    y = np.array([[0.0, *P[1:] ** 5]])
    models = y.copy()
    models[0, 0] = 7
    assert share_of_models(P[:, None], y, lifted(y), models)[0] == 1


def test_share_of_models_whatever_the_order_of_parameters():
    points = np.array(list(itertools.product(P, SIZE)))
    y = (points[:, 0] * points[:, 1] ** 5 + 1e6)[None]
    expected = share_of_models(points, y, y, 1.1 * y)
    assert share_of_models(points[:, ::-1], y, y, 1.1 * y) == pytest.approx(expected, rel=1e-9)


def test_wide_growth_heeds_points_farther_away():
    x, y = P[:, None], np.array([[1.0, 2, 4, 8, 8]])
    place = np.array([[128.0]])
    near, wide = local_growth(x, y, place, NEAR), local_growth(x, y, place, WIDE)
    assert near[0, 0] == pytest.approx(8, rel=0.02)
    assert wide[0, 0] > 10


def test_real_times_that_fall_with_the_opening_angle(shared_data):
    (m,) = read_measurements(shared_data / "extrap" / "relearn_3p.json")
    keep = [
        k for k in range(m.n_paths) if m.metrics[k] == "time_max" and np.nanmin(m.values[k]) > 0
    ]
    last = m.points[:, 2] == m.points[:, 2].max()
    part = Measurements(m.parameters, m.points[~last], m.values[keep][:, ~last])
    truth = np.nanmean(m.values[keep][:, last], axis=2)
    error = np.median(np.abs(fit_many(part).predict(m.points[last]) / truth - 1), axis=1)
    assert np.median(error) < 0.1
