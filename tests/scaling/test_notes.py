"""Notes on poor fits: computed from the formula, and reported in readable numbers."""

import itertools
import re

import numpy as np
import pytest

from toruscast.scaling import Measurements, PMNFRegressor, fit_many
from toruscast.scaling.models import _max_errors as farthest
from toruscast.scaling.models import _score_fits as quality
from toruscast.scaling.models import describe_path
from toruscast.scaling.terms import list_structures

P = np.array([4.0, 8, 16, 32, 64])
GRID = np.array(list(itertools.product(P, [10.0, 20, 30, 40, 50])))


def misfits(y, x=GRID):
    models = fit_many(Measurements("pn"[: x.shape[1]], x, np.asarray(y)[None, :, None]))
    told = [note for note in models.notes()[0] if note.startswith("the error of the formula")]
    return models, told


@pytest.mark.parametrize("noise", [0, 0.01])
@pytest.mark.parametrize(
    "function", [lambda p, n: n**2 / p + p, lambda p, n: n + n**2 / p], ids=["n^2/p+p", "n+n^2/p"]
)
def test_a_misfit_of_two_parameters_is_noted(function, noise):
    y = function(*GRID.T) * (1 + noise * np.random.default_rng(0).uniform(-1, 1, 25))
    models, told = misfits(y)
    assert not models.trusted[0]
    off = np.abs(models.evaluate(GRID)[0] / y - 1).max()
    assert off > 0.1
    assert told == [f"the error of the formula at the points exceeds 10 %: up to {100 * off:.0f} %"]
    # Predictions still follow the points.
    assert np.abs(models.predict(GRID)[0] / y - 1).max() < 0.05


@pytest.mark.parametrize(
    "function", [lambda p, n: 5 + p * n, lambda p, n: 5 + p + n**2, lambda p, n: 5 + p * n + n]
)
def test_what_is_in_the_search_space_has_no_misfit(function):
    y = function(*GRID.T) * (1 + 0.01 * np.random.default_rng(0).uniform(-1, 1, 25))
    assert misfits(y)[1] == []


def test_what_models_of_several_parameters_are():
    for n_parameters in (2, 3, 4):
        for structure in list_structures(n_parameters):
            # So much does the documentation say of them.
            terms = [set(column) for column in structure.columns if column]
            assert len(structure.columns) <= 4
            apart = sum(map(len, terms)) == len(set().union(*terms))
            assert apart or (len(terms) == 2 and terms[1] < terms[0])


def test_measures_of_fit_on_a_worked_example():
    # A line through all points but the last: of 4 points, two coefficients leave two.
    y, fitted = np.array([[1.0, 2, 3, 5]]), np.array([[1.0, 2, 3, 4]])
    line = [(0.0, ((0.0, 0.0),)), (1.0, ((1.0, 0.0),))]
    found = quality(np.arange(1.0, 5)[:, None], y, fitted, [line])
    assert found["rss"] == pytest.approx([1])
    assert found["adjusted_r2"] == pytest.approx([1 - (1 / 2) / (8.75 / 3)])
    assert found["smape"] == pytest.approx([200 * (1 / 9) / 4])


def test_cross_validation_leaves_out_one_point_after_the_other():
    y = 3 + P * [1.0, 1.2, 0.9, 1.1, 1.0]
    design = np.stack([np.ones(5), P], axis=1) / y[:, None]

    def fit(kept):
        return np.linalg.lstsq(design[kept], np.ones(len(kept)), rcond=None)[0]

    constant, slope = fit(range(5))
    terms = [(constant, ((0.0, 0.0),)), (slope, ((1.0, 0.0),))]
    found = quality(P[:, None], y[None], (constant + slope * P)[None], [terms])
    errors = [design[k] @ fit([i for i in range(5) if i != k]) - 1 for k in range(5)]
    assert found["cross_validation"] == pytest.approx([np.sqrt(np.mean(np.square(errors)))])


def test_quality_of_a_model_does_not_depend_on_the_others():
    constant, line = (1.0, ((0.0, 0.0),)), (1.0, ((1.0, 0.0),))
    models = [[constant], [constant, line], [line], [constant, (2.0, ((2.0, 0.0),))]]
    fitted = np.array([np.ones(5), 1 + P, P, 1 + 2 * P**2])
    y = fitted * np.random.default_rng(1).uniform(0.9, 1.1, fitted.shape)
    together = quality(P[:, None], y, fitted, models)
    for k, terms in enumerate(models):
        alone = quality(P[:, None], y[[k]], fitted[[k]], [terms])
        assert {name: [v[k]] for name, v in together.items()} == {
            name: v.tolist() for name, v in alone.items()
        }


def test_next_to_nothing_is_met_by_what_is_less_than_the_others():
    values = np.array([[1e-9, 2.0, 4, 8, 16]])
    assert farthest(values, values + np.array([1.5, 0, 0, 0.8, 0])) == pytest.approx([0.1])
    assert farthest(values, values + np.array([5.0, 0, 0, 0, 0])) == pytest.approx([1.5])
    assert farthest(-values, -values) == pytest.approx([0])


def test_sizes_in_notes_can_be_read():
    for y in ([1e-15, 2, 4, 8, 16], [1e-30, 1e-30, 1, 1e30, 1], [1e-20, 5, 1e9, 3, 7e20]):
        notes = PMNFRegressor(warn=False).fit(P[:, None], y).notes_
        assert not re.search(r"\d{5}", " ".join(notes))
    assert describe_path(57.2, False, 1.0, 1.0, 8.639e15) == [
        "the repetitions vary by more than 10 %: 57 times the value",
        "no hypothesis fits the points within the noise of the repetitions",
        "the error of the formula at the points exceeds 10 %: up to 8.6e+15 times the value",
    ]


@pytest.mark.parametrize(
    "variation", [0.1001, 0.100001, 0.104, 0.1049, 0.1051, 0.2, 3.0, 0.1 + 1e-12]
)
def test_what_is_more_than_a_limit_is_told_as_more(variation):
    (varies,) = describe_path(variation, True, 9.0, 10.0)
    (_, off) = describe_path(np.nextafter(0.1, 0), False, 9.0, 10.0, variation)
    for note in (varies, off):
        limit, told = map(float, re.findall(r"[\d.]+(?= %)", note))
        assert told > limit or variation < 0.1 + 1e-9
        assert told == pytest.approx(100 * variation, rel=0.05)
