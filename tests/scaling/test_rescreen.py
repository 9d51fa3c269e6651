"""Random points, of which none differ in one parameter only: the terms are found all the same."""

import itertools

import numpy as np
import pytest

from toruscast.scaling import Measurements, PMNFRegressor, fit_many
from toruscast.scaling.pmnf._blocks import Searched
from toruscast.scaling.pmnf._rescreen import rescreen
from toruscast.scaling.pmnf.term_space import TermSpace

SPACE = TermSpace.of("default")


def scattered(seed, n_parameters, n_points=80):
    return np.random.default_rng(seed).uniform(2, 100, (n_points, n_parameters))


@pytest.mark.parametrize("seed", [5, 6])
@pytest.mark.parametrize("n_parameters", [3, 4])
@pytest.mark.parametrize(
    ("function", "formula"),
    [
        (lambda x: 5 + x[0] * x[1], "5 + x0 x1"),
        (lambda x: 5 + x[0] * x[1] + 30 * x[2], "5 + 30 x2 + x0 x1"),
        (lambda x: 50 + x[0] ** 1.5 * np.log2(x[1]), "50 + x0^(3/2) log2(x1)"),
        (lambda x: 3 + 100 * x[0] / x[1], "3 + 100 x0 x1^-1"),
        (lambda x: 3 + x[0] ** 0.5 + x[1] + 0.01 * x[2] ** 2, "3 + 0.01 x2^2 + x1 + x0^(1/2)"),
    ],
    ids=["product", "product and sum", "logarithm", "ratio", "sum"],
)
def test_terms_of_random_points_are_found(function, formula, n_parameters, seed):
    x = scattered(seed, n_parameters)
    model = PMNFRegressor(warn=False).fit(x, function(x.T))
    assert model.formula_ == formula
    assert model.models_.trusted[0]


def test_noise_hides_little_of_a_product():
    x = scattered(5, 4)
    noise = 1 + 0.02 * np.random.default_rng(0).uniform(-1, 1, 80)
    model = PMNFRegressor(warn=False).fit(x, (5 + x[:, 0] * x[:, 1]) * noise)
    assert model.predict([[300.0] * 4])[0] == pytest.approx(5 + 300**2, rel=0.05)


def test_a_call_path_is_screened_alike_beside_others():
    x = scattered(5, 4)
    values = np.array([5 + x[:, 0] * x[:, 1], 3 + x[:, 2] ** 2, x[:, 3] * np.log2(x[:, 0])])
    names = ["p", "n", "m", "k"]
    together = fit_many(Measurements(names, x, values[:, :, None])).formulas()
    alone = [fit_many(Measurements(names, x, v[None, :, None])).formulas()[0] for v in values]
    assert together == alone


@pytest.mark.parametrize("first", list(itertools.product([0, 20], repeat=3)))
def test_from_any_term_on(first):
    x = scattered(5, 3)
    values = [SPACE.values(column) for column in x.T]
    terms = [v / v.max(axis=1, keepdims=True) for v in values]
    prior = [np.log(SPACE.prior)] * 3
    target = (5 + x[:, 0] ** 2 * x[:, 1])[None]
    target = target / target.max()
    searched = Searched(x, terms, prior, target, target, np.zeros(1, dtype=bool))
    kept = rescreen(searched, [np.array([[k]]) for k in first], 5)
    pairs = list(SPACE.pairs())
    assert [k.shape for k in kept] == [(1, 5)] * 3
    assert pairs.index((2.0, 0.0)) in kept[0][0]
    assert pairs.index((1.0, 0.0)) in kept[1][0]
