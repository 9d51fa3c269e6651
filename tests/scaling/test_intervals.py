"""Prediction intervals: how often they hold the truth, how wide they are, and wrong arguments."""

import numpy as np
import pytest
from benchmark_modules import load

from toruscast.errors import InputError
from toruscast.scaling import FitOptions, Measurements, PMNFRegressor, fit_many
from toruscast.scaling.fit import _draw_misfits as misfits
from toruscast.scaling.fit import _growth_factors as reach
from toruscast.scaling.fit import _resample as repeated
from toruscast.scaling.fit import predict_intervals

ms2 = load("ms2_models")
P = 2.0 ** np.arange(2, 7)
SIX, EIGHT = 2.0 ** np.arange(2, 8), 2.0 ** np.arange(2, 10)
GRID = np.array([(p, n) for p in P for n in (10.0, 20.0, 30.0, 40.0, 50.0)])

SEEDS = 15


def interval_cases(function, points, noise, repetitions, places, law="normal"):
    """Which intervals hold the truth, and their widths as shares of it; shape (seeds, places)."""
    points, places = (np.reshape(x, (len(x), -1)) for x in (points, places))
    truth = function(*places.T)
    held, width = [], []
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        shape = (len(points), repetitions)
        drawn = rng.normal(size=shape) if law == "normal" else rng.uniform(-1, 1, shape)
        y = function(*points.T)[:, None] * (1 + noise * drawn)
        model = PMNFRegressor(warn=False).fit(np.repeat(points, repetitions, axis=0), y.ravel())
        low, high = model.predict_interval(places, n_bootstrap=20)
        predicted = model.predict(places)
        assert (low <= predicted).all()
        assert (predicted <= high).all()
        held.append((low <= truth) & (truth <= high))
        width.append((high - low) / truth)
    return np.array(held), np.array(width)


@pytest.mark.parametrize(
    "function",
    [lambda p: 10 + 2 * p, lambda p: 10 + 2 * np.log2(p), lambda p: 7 + 0 * p],
    ids=["10+2p", "10+2log2(p)", "7"],
)
@pytest.mark.parametrize(
    ("repetitions", "law"), [(1, "normal"), (3, "normal"), (3, "uniform"), (5, "normal")]
)
def test_intervals_of_slow_growth(function, repetitions, law):
    held, width = interval_cases(function, P, 0.05, repetitions, [24.0, 64.0, 256.0], law)
    assert (held.mean(axis=0) >= 0.8).all()
    assert (np.median(width, axis=0)[:2] < 0.5).all()


@pytest.mark.parametrize(("points", "noise"), [(SIX, 0.03), (EIGHT, 0.01)], ids=["6", "8"])
@pytest.mark.parametrize("exponent", [-1.0, 1.5, 2.0])
def test_intervals_of_powers_measured_once(exponent, points, noise):
    held, width = interval_cases(
        lambda p: 2 * p**exponent, points, noise, 1, [24.0, points[-1], 4 * points[-1]]
    )
    assert (held.mean(axis=0) >= 0.85).all()
    assert (np.median(width, axis=0) < noise * np.array([6, 7, 17])).all()


@pytest.mark.parametrize(("noise", "repetitions"), [(0.02, 1), (0.02, 3), (0.03, 3)])
def test_intervals_where_no_hypothesis_is_true(noise, repetitions):
    # Between two points, at the last, and two and four times beyond it.
    held, width = interval_cases(
        lambda p: 1000 / (10 + p), P, noise, repetitions, [24.0, 64.0, 128.0, 256.0]
    )
    assert (held.mean(axis=0) >= [0.8, 0.8, 0.8, 0.65]).all()
    assert (np.median(width, axis=0)[:2] < 0.4).all()


@pytest.mark.parametrize(
    ("function", "noise", "places"),
    [
        (lambda p, n: n**2 / p + p, 0.01, [(24, 25), (128, 50), (64, 100)]),
        (lambda p, n: n + n**2 / p, 0.05, [(24, 25), (128, 50), (256, 200)]),
    ],
    ids=["n^2/p+p", "n+n^2/p"],
)
def test_intervals_of_two_parameters_where_no_hypothesis_is_true(function, noise, places):
    held, _ = interval_cases(function, GRID, noise, 3, np.array(places, dtype=float))
    assert (held.mean(axis=0) >= [0.9, 0.9, 0.75]).all()


def test_intervals_hold_the_published_models_about_as_often_as_they_say():
    held = []
    for number, model in enumerate(ms2.published_models()[:6]):
        points = model.points(5)
        far = points.max(axis=0) * np.array([[1.0], [2.0]])
        values = ms2.sample(model, 0.02, 20, number, n_values=5, repetitions=3)
        models = fit_many(Measurements(model.parameters, points, values))
        low, high = predict_intervals(models, far, FitOptions(), 0.9, 30)
        held.append((low <= model.value(far)) & (model.value(far) <= high))
    assert 0.87 < np.mean(held) < 0.95


def test_interval_is_as_wide_as_the_model_misses_the_means():
    # Two regimes and no noise at all: the repetitions agree.
    y = np.where(P < 20, P, 40 * P)
    model = PMNFRegressor(warn=False).fit(np.repeat(P, 3)[:, None], np.repeat(y, 3))
    off = model.models_.evaluate(P[:, None])[0] / y - 1
    low, high = model.predict_interval(P[:, None])
    assert ((high - low) / y > np.sqrt((off**2).mean())).all()


def test_interval_of_exact_data_is_a_point():
    model = PMNFRegressor(warn=False).fit(np.repeat(P, 2)[:, None], np.repeat(3 + P, 2))
    low, high = model.predict_interval([[128.0]], n_bootstrap=5)
    assert (low[0], high[0]) == (pytest.approx(131), pytest.approx(131))


@pytest.mark.parametrize("repetitions", [1, 3])
def test_intervals_of_a_lower_level_are_narrower(repetitions):
    noise = 1 + 0.05 * np.random.default_rng(0).normal(size=(5, repetitions))
    model = PMNFRegressor(warn=False)
    model.fit(np.repeat(P, repetitions)[:, None], ((10 + 2 * P)[:, None] * noise).ravel())
    widths = [np.ptp(model.predict_interval([[256.0]], level)) for level in (0.9, 0.5)]
    assert 0 < widths[1] < widths[0]


def test_drawn_repetitions_scatter_as_the_values_behind_them():
    # Means of two lie nearer to both than the value that they are of, by a factor of sqrt(2).
    values = np.tile([[0.9, 1.1], [19.0, 21.0], [5.0, np.nan]], (40, 1))
    drawn = repeated(values, False, 400, np.random.default_rng(0))
    assert np.isnan(drawn[:, 2, 1]).all()
    spread = np.nanstd(drawn / np.nanmean(values, axis=1)[:, None])
    assert spread == pytest.approx(np.sqrt(2 * np.mean([0.1**2, 0.05**2])), rel=0.03)


def test_misfit_beyond_noise():
    # Means are 10 % off; the noise of a mean of two is 5 %, root mean square.
    values = np.repeat([10.0, 20.0], 50)[:, None] * (1 + 0.05 * np.array([[-1.0, 1.0]]))
    fitted = values.mean(axis=1) * 0.9
    rng = np.random.default_rng(0)
    error, beyond = misfits(values, fitted, 1, 2000, rng)
    assert np.sqrt((error**2).mean()) == pytest.approx(0.1, rel=0.05)
    assert np.sqrt((beyond**2).mean()) == pytest.approx(np.sqrt(0.1**2 - 0.05**2), rel=0.05)
    once, same = misfits(values[:, :1], fitted, 1, 10, rng)
    assert once.tolist() == same.tolist()


def test_reach_counts_varied_parameters_only():
    points = np.array([[1.0, 0.0, 3.0, 2.0], [16.0, 0.0, 3.0, 8.0]])
    places = np.array([[4.0, 0.0, 3.0, 2.0], [256.0, 9.0, 30.0, 5.0], [256.0, 9.0, 30.0, 32.0]])
    assert reach(points, places) == pytest.approx([1.0, 5.0, 25.0])


def test_parameters_of_zero_and_places_far_off():
    x = np.c_[np.arange(5.0), np.zeros(5)]
    y = 5 + np.arange(5.0) ** 2 * [1.0, 1.03, 0.98, 1.0, 1.01]
    model = PMNFRegressor(warn=False).fit(x, y)
    ends = np.array(model.predict_interval([[0.0, 0.0], [9.0, 0.0], [1e20, 1.0]], n_bootstrap=5))
    assert np.isfinite(ends).all()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("level", value) for value in (1.5, 0, "a", None, np.nan)),
        *(("n_bootstrap", value) for value in (0, 2.5, "a", None, True, np.inf)),
    ],
)
def test_wrong_levels_and_numbers_of_draws(name, value):
    model = PMNFRegressor(warn=False).fit(P[:, None], P)
    with pytest.raises(InputError, match=name):
        model.predict_interval([[1.0]], **{name: value})


def test_a_whole_number_of_draws_may_be_a_float():
    model = PMNFRegressor(warn=False).fit(np.repeat(P, 2)[:, None], np.repeat(P, 2))
    assert np.isfinite(model.predict_interval([[1.0]], n_bootstrap=3.0)).all()
