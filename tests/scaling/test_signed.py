"""Signs: the mirror of positive values, and a prior that the data can overrule."""

import itertools

import numpy as np
import pytest
from benchmark_modules import load
from hypothesis import given
from hypothesis import strategies as st

from toruscast.errors import InputError
from toruscast.scaling import FitOptions, Measurements, PMNFRegressor, fit_many
from toruscast.scaling.fit import predict_intervals

ms2 = load("ms2_models")
P = np.array([4.0, 8, 16, 32, 64])[:, None]
GRID = np.array(list(itertools.product(P[:, 0], [10.0, 20, 30, 40, 50])))
LOGS = [(0.0, 1.0), (0.0, 2.0)]
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


@pytest.mark.parametrize("x", [P, GRID], ids=["1", "2"])
@pytest.mark.parametrize("repetitions", [1, 3])
def test_negative_values_are_fitted_as_the_mirror_of_positive_ones(x, repetitions):
    names, values, far = "pn"[: x.shape[1]], call_paths(x, repetitions), FAR[x.shape[1]]
    models, mirror = (fit_many(Measurements(names, x, v)) for v in (values, -values))
    assert (mirror.sign == -models.sign)[models.predict(x).any(axis=1)].all()
    assert np.array_equal(mirror.predict(far), -models.predict(far))
    assert np.array_equal(mirror.evaluate(far), -models.evaluate(far))
    levels = [0, 0.05, 0.5, 0.9, 1]
    assert np.array_equal(
        mirror.spread(far, levels), -models.spread(far, [1 - level for level in levels])
    )
    for attribute in ("trusted", "by_points", "bounded", "left_out", "probabilities"):
        assert np.array_equal(getattr(mirror, attribute), getattr(models, attribute))
    for path in range(models.n_paths):
        assert mirror.terms(path) == [(-c or c, powers) for c, powers in models.terms(path)]
    scores = ["rss", "adjusted_r2", "smape", "cross_validation", "variation"]
    assert mirror.summary()[scores].equals(models.summary()[scores])
    ends, mirrored = (
        predict_intervals(m, far, FitOptions(), n_bootstrap=5, paths=[0, 1, 3])
        for m in (models, mirror)
    )
    assert np.array_equal(mirrored, [-ends[1], -ends[0]])


@pytest.mark.parametrize("name", ["n,m", "p,m", "p,d", "p,c", "m,c", "p,n,m", "n,m,c"])
def test_published_models_come_back_by_default_whatever_their_signs(name):
    model = next(each for each in ms2.published_models() if each.name == name)
    values = ms2.sample(model, 0.033, 20, seed=11)
    models = fit_many(Measurements(model.parameters, model.points(), values))
    found = [{e for _, e in models.terms(k) if np.any(e)} for k in range(20)]
    assert np.mean([each == model.exponents for each in found]) >= 0.85
    far = 2 * model.points().max(axis=0, keepdims=True)
    error = np.abs(models.predict(far)[:, 0] / model.value(far)[0] - 1)
    assert np.median(error) < 0.05


def test_data_overrule_the_prior_with_a_note():
    rng = np.random.default_rng(1)
    grid = np.repeat(GRID, 5, axis=0)
    falling = (20 - 2 * np.log2(grid[:, 0])) * rng.normal(1, 0.02, len(grid))
    model = PMNFRegressor(warn=False).fit(grid, falling)
    assert model.terms_[1] == (pytest.approx(-2, rel=0.05), ((0.0, 1.0), (0.0, 0.0)))
    assert any(note.startswith("a coefficient is negative") for note in model.notes_)
    assert any("is negative here" in note for note in model.models_.notes_at([[4096.0, 10.0]]))


def test_the_prior_decides_where_data_say_little_and_a_note_says_so():
    # Twenty noisy sets of a sum of costs: hardly one has a negative coefficient.
    rng = np.random.default_rng(2)
    values = (3 + 0.2 * P[:, 0])[None, :, None] * rng.normal(1, 0.05, (200, 5, 3))
    models = fit_many(Measurements(["p"], P, values))
    coefficients = [c for k in range(200) for c, _ in models.terms(k)]
    assert (np.array(coefficients) < 0).mean() < 0.01
    # Curved down, but within what a positive sum can be: the note appears for some.
    bent = (10 - 0.002 * P[:, 0] ** 1.5)[None, :, None] * rng.normal(1, 0.03, (200, 5, 3))
    notes = fit_many(Measurements(["p"], P, bent)).notes()
    assert any("prior excluded a negative" in note for some in notes for note in some)


@pytest.mark.parametrize(
    ("name", "share"), [("p,d", 0.6), ("p,m", 0.6), ("p,c", 0.4), ("n,m,c", 0.8)]
)
def test_falling_logarithms_come_back_at_the_noise_of_three_repetitions(name, share):
    model = next(each for each in ms2.published_models() if each.name == name)
    points = model.points(5)
    values = ms2.sample(model, 0.05, 40, 5, n_values=5, repetitions=3)
    models = fit_many(Measurements(model.parameters, points, values))
    found = [{e for _, e in models.terms(k) if np.any(e)} for k in range(40)]
    assert np.mean([each == model.exponents for each in found]) >= share


@given(st.integers(0, 2**32 - 1))
def test_a_higher_prior_of_a_negative_coefficient_has_hardly_fewer_of_them(seed):
    rng = np.random.default_rng(seed)
    values = (10 - 0.002 * P[:, 0] ** 1.5)[None, :, None] * rng.normal(1, 0.03, (20, 5, 3))
    counts = []
    for negative in (1e-9, 0.05, 0.5):
        models = fit_many(Measurements(["p"], P, values), FitOptions(negative=negative))
        powers = [[c < 0 and e[0] not in LOGS for c, e in models.terms(k)] for k in range(20)]
        counts.append(sum(map(any, powers)))
    # One draw in 20 may change to a falling logarithm, whose prior stays the same.
    assert counts[-1] >= counts[0]
    assert all(more >= fewer - 1 for fewer, more in itertools.pairwise(counts))


@pytest.mark.parametrize("negative", [0, -0.1, 0.6, np.nan, "0.1", None])
def test_wrong_priors(negative):
    with pytest.raises(InputError, match="bad prior of negative coefficients"):
        FitOptions(negative=negative)


@pytest.mark.parametrize("select", ["loo", "kfold"])
def test_selection_by_cross_validation(select):
    values = np.stack([3 + 2 * GRID[:, 0] * GRID[:, 1], 20 - 2 * np.log2(GRID[:, 0])])[:, :, None]
    values = values * np.random.default_rng(3).normal(1, 0.003, (2, 25, 5))
    models = fit_many(Measurements(["p", "n"], GRID, values), FitOptions(select=select))
    far = np.array([[128.0, 100.0]])
    assert models.predict(far)[:, 0] == pytest.approx([3 + 2 * 12800, 20 - 14], rel=0.1)
    assert models.trusted.all()
