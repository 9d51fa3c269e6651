"""Zeros, scatter and outlying repetitions must not carry predictions away."""

import numpy as np
import pytest

from toruscast.scaling import FitOptions, Measurements, PMNFRegressor, fit_many
from toruscast.scaling.fit import _growth_factors as reach
from toruscast.scaling.measurements import replace_zeros
from toruscast.scaling.noise import estimate_scale, find_outliers, raise_small_values

DOUBLED = 2.0 ** np.arange(7)[:, None]
P = np.array([4.0, 8, 16, 32, 64])
# Eight times more elements at each step, as the edge of a cube is doubled.
ELEMENTS = np.array([64.0, 512, 4096, 32768, 262144])


@pytest.mark.parametrize("repetitions", [1, 3])
@pytest.mark.parametrize(
    "values",
    [
        [0, 0, 0, 10, 40, 90, 200.0],
        [5, 6, 0, 8, 9, 10, 11.0],
        [50, 20, 10, 4, 1, 0, 0.0],
        [1e-9, 2, 4, 8, 16, 32, 64.0],
        [3, 3, 3, 0, 0, 0, 0.0],
        [0, 0, 0, 0, 0, 0, 5.0],
    ],
)
def test_a_zero_does_not_carry_the_others_away(values, repetitions):
    x = np.repeat(DOUBLED, repetitions, axis=0)
    y = np.repeat(values, repetitions)
    model = PMNFRegressor(warn=False).fit(x, y * np.resize([1.0, 0.98, 1.02], y.size))
    predicted = model.predict(DOUBLED)
    clear = np.array(values) > 1e-3
    ratio = predicted[clear] / np.array(values)[clear]
    assert ratio.max() < 2.1
    assert ratio.min() > 1 / 2.1
    assert (predicted >= 0).all()
    far = model.predict([[256.0]])[0]
    assert far > predicted[-1] if values[-1] > values[0] else far <= predicted[-1]


def test_zeros_of_two_parameters():
    x = np.array([[a, b] for a in (1.0, 2, 4, 8, 16) for b in (1.0, 2, 4, 8, 16)])
    y = x[:, 0] * x[:, 1] + 3
    y[7] = 0
    model = PMNFRegressor(warn=False).fit(x, y)
    others = np.arange(25) != 7
    assert np.abs(np.log2(model.predict(x) / np.where(others, y, 1)))[others].max() < 1
    assert model.predict([[64.0, 16.0]])[0] == pytest.approx(1027, rel=0.5)


@pytest.mark.parametrize("repetitions", [1, 3])
@pytest.mark.parametrize(
    ("x", "y"),
    [
        ([0, 1, 2, 4, 8], [100, 50, 25, 12, 6]),
        ([0, 1, 2, 3, 4], [9, 6, 4, 3, 2.5]),
        ([0, 100, 200, 400, 800], [100, 30, 20, 10, 4]),
        ([0, 1, 2, 4, 8], [3, 3, 40, 3, 90]),
    ],
)
def test_a_parameter_of_value_0_is_near_what_was_measured_there(x, y, repetitions):
    x, y = np.array(x, dtype=float)[:, None], np.array(y, dtype=float)
    noise = 1 + 0.02 * np.random.default_rng(0).uniform(-1, 1, (5, repetitions))
    model = PMNFRegressor(warn=False).fit(
        np.repeat(x, repetitions, axis=0), (y[:, None] * noise).ravel()
    )
    assert np.abs(np.log(model.predict(x) / y)).max() < np.log(3.1)
    low, high = model.predict_interval(x[:1], n_bootstrap=20)
    assert low[0] <= y[0] <= high[0]
    # Between 0 and the next point, and beyond the last.
    others = model.predict([x[1] / 100, x[1] / 3, 2 * x[-1]])
    assert (others[:2] > y[:2].min() / 3.1).all()
    assert 0 < others[2] < 10 * y.max()


def test_two_parameters_one_of_value_0():
    x = np.array([[a, b] for a in (0.0, 1, 2, 4, 8) for b in (1.0, 2, 4, 8, 16)])
    y = x[:, 1] * np.repeat([100.0, 50, 25, 12, 6], 5)
    model = PMNFRegressor(warn=False).fit(x, y)
    assert np.abs(np.log(model.predict(x) / y)).max() < np.log(3.1)
    assert model.predict([[0.0, 32.0]])[0] == pytest.approx(3200, rel=0.5)


def test_a_place_of_value_0_that_was_not_measured():
    # Of growing terms alone, none of which has a value at 0.
    model = PMNFRegressor(space="published", warn=False).fit(
        P[:, None], 100 / P * np.array([1, 1.02, 0.98, 1.01, 0.99])
    )
    # A 0 is taken to be half of the least value.
    at_0, at_half, at_1 = model.predict([[0.0], [2.0], [1.0]])
    assert at_0 == pytest.approx(at_half, rel=0.05)
    assert at_1 == pytest.approx(100, rel=0.35)
    assert model.predict_interval([[0.0]], n_bootstrap=5)[1][0] >= at_1


def test_off_0_every_place_has_a_logarithm_whatever_the_others():
    points = np.array([[0.0], [2.0], [8.0]])
    assert replace_zeros(points, points).ravel().tolist() == [1, 2, 8]
    assert replace_zeros(points, np.array([[0.0], [1e-9], [1.5]])).ravel().tolist() == [1, 1, 1.5]
    assert replace_zeros(points[1:], np.array([[0.0], [1e-9]])).ravel().tolist() == [1, 1e-9]
    far = np.array([[16.0], [1e-9]])
    assert reach(points, far)[0] == reach(points, far[:1])[0]


def test_the_scale_of_a_value_next_to_nothing():
    rows = np.array([[0, 0, 0, 0, 5], [1e-9, 2, 4, 6, 8], [0, 0, 0, 0, 0], [3, 1e-12, 0, 0, 6.0]])
    expected = [[5, 5, 5, 5, 5], [2, 2, 4, 6, 8], [1, 1, 1, 1, 1], [3, 3, 3, 3, 6]]
    assert estimate_scale(rows).tolist() == expected
    assert raise_small_values(np.array([[0.0, -3, 4, 16]])).tolist() == [[2, 2, 4, 16]]


def test_values_that_fall_at_the_end():
    y = np.array([4, 5, 4, 5, 1.5])
    model = PMNFRegressor(warn=False).fit(ELEMENTS[:, None], y)
    assert np.abs(np.log2(model.predict(ELEMENTS[:, None]) / y)).max() < 1
    assert 0.5 < model.predict([[4 * ELEMENTS[-1]]])[0] < 5
    row = model.models_.summary().iloc[0]
    assert row.probability < 0.5
    assert row.adjusted_r2 > -2


@pytest.mark.parametrize(("spread", "most"), [(0.3, 0), (0.5, 0.02)])
def test_scatter_is_no_growth(spread, most):
    random = np.random.default_rng(0)
    values = 100 * np.exp(spread * random.standard_normal((400, 5, 1)))
    models = fit_many(Measurements(["s"], ELEMENTS[:, None], values))
    beyond = models.predict([[4 * ELEMENTS[-1]]]) / values.max(axis=1)
    assert (beyond > 10).mean() <= most
    inside = models.predict(ELEMENTS[:, None]) / values[:, :, 0]
    assert np.abs(np.log(inside)).max() < np.log(10)


@pytest.mark.parametrize(("n", "seed"), [(20, 4), (80, 1)])
def test_near_points_that_scatter_bound_by_their_values_not_their_slope(n, seed):
    rng = np.random.default_rng(seed)
    x = np.exp(rng.uniform(0, 6, (n, 1)))
    y = 1e-5 * x[:, 0] ** 0.5 * np.exp(rng.normal(0, 0.3, n))
    new = np.geomspace(x.min(), x.max(), 60)[:, None]
    ratio = PMNFRegressor(warn=False).fit(x, y).predict(new) / (1e-5 * new[:, 0] ** 0.5)
    assert (np.abs(np.log(ratio)) < np.log(2.5)).all()


def test_scattered_points_of_two_parameters():
    rng = np.random.default_rng(0)
    x = np.column_stack([np.repeat([512.0, 16384.0], 40), np.exp(rng.uniform(0, 6, 80))])
    y = x[:, 0] ** 0.25 * x[:, 1] ** 0.5 * np.exp(rng.normal(0, 0.3, 80))
    new = np.column_stack([x[:, 0], np.exp(rng.uniform(0.2, 5.8, 80))])
    ratio = PMNFRegressor(warn=False).fit(x, y).predict(new) / (
        new[:, 0] ** 0.25 * new[:, 1] ** 0.5
    )
    assert (np.abs(np.log(ratio)) < np.log(3)).all()


@pytest.mark.parametrize("noise", ["auto", "normal", "bounded"])
def test_one_outlying_repetition_is_left_out(noise):
    p = np.repeat(P, 5)
    y = (3 + 2 * p) * np.tile([0.98, 0.99, 1, 1.01, 1.02], 5)
    y[-1] *= 3
    model = PMNFRegressor(noise=noise, warn=False).fit(p[:, None], y)
    assert model.predict([[256.0]])[0] == pytest.approx(515, rel=0.05)
    low, high = model.predict_interval([[256.0]], n_bootstrap=20)
    assert low[0] < 515 < high[0]
    assert "a repetition far from the others is left out: at x0=64 it is 3.1 times" in " ".join(
        model.notes_
    )
    assert model.models_.left_out.sum() == 1


def test_outlying_repetitions_do_not_choose_the_law_of_noise():
    random = np.random.default_rng(0)
    values = (3 + 2 * P)[:, None] * (1 + 0.03 * random.standard_normal((200, 5, 5)))
    values[:20, 4, 2] *= 3
    models = fit_many(Measurements(["p"], P[:, None], values))
    assert models.bounded[:20].sum() <= 1
    assert models.left_out.any(axis=(1, 2)).tolist() == [True] * 20 + [False] * 180
    off = np.abs(models.predict([[256.0]])[:, 0] / 515 - 1)
    assert np.median(off[:20]) < 2 * np.median(off[20:])


@pytest.mark.parametrize("shape", [(5, 3), (5, 5), (25, 5)])
@pytest.mark.parametrize("law", ["uniform", "normal"])
def test_usual_noise_leaves_nothing_out(law, shape):
    random = np.random.default_rng(1)
    size = (1000, *shape)
    noise = random.uniform(-0.1, 0.1, size) if law == "uniform" else random.normal(0, 0.1, size)
    assert find_outliers(1 + noise).any(axis=(1, 2)).mean() < 0.005


def test_repetitions_that_often_are_far_off_are_kept():
    values = np.ones((1, 5, 3)) * np.array([1.0, 1.001, 1.002])
    values[0, :3, 2] = 2.0
    assert not find_outliers(values).any()
    # Two repetitions do not tell which of them is off.
    assert not find_outliers(np.array([[[1.0, 1.0], [1.0, 3.0], [1.0, 1.0]]])).any()


def test_several_parameters_name_the_place_of_what_is_left_out():
    x = np.array([[a, b] for a in P for b in P])
    values = (x.prod(axis=1) + 5)[None, :, None] * np.array([0.99, 1.0, 1.01])
    values[0, 7, 0] /= 4
    note = fit_many(Measurements(["p", "n"], x, values), FitOptions()).notes()[0][-1]
    assert note.endswith("left out: at p=8, n=16 it is 0.25 times their median")
