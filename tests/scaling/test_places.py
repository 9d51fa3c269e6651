"""Places to predict at: columns by name, and what is refused."""

import itertools

import numpy as np
import pandas as pd
import pytest

from toruscast.errors import InputError
from toruscast.scaling import FitOptions, Measurements, PMNFRegressor, fit_many
from toruscast.scaling.fit import predict_intervals

P = np.array([4.0, 8, 16, 32, 64])
GRID = np.array(list(itertools.product(P, [10.0, 20, 30, 40, 50])))


@pytest.fixture(scope="module")
def models():
    p, n = GRID.T
    return fit_many(Measurements(["p", "n"], GRID, (3 * p + n**2)[None, :, None]))


def test_columns_of_a_frame_are_taken_by_name(models):
    swapped = pd.DataFrame({"n": [100.0, 20.0], "p": [128.0, 8.0]})
    places = swapped[["p", "n"]].to_numpy()
    expected = 3 * places[:, 0] + places[:, 1] ** 2
    assert models.predict(swapped)[0] == pytest.approx(expected)
    assert (models.predict(swapped) == models.predict(places)).all()
    assert (models.spread(swapped, [0.5]) == models.spread(places, [0.5])).all()
    assert models.notes_at(swapped) == []
    by_name, by_place = (
        predict_intervals(models, X, FitOptions(), n_bootstrap=2) for X in (swapped, places)
    )
    assert np.array_equal(by_name, by_place)


def test_the_estimator_wants_the_columns_that_it_was_fitted_to():
    frame = pd.DataFrame(GRID, columns=["p", "n"])
    model = PMNFRegressor(warn=False).fit(frame, 3 * frame["p"] + frame["n"] ** 2)
    assert model.predict(frame[:1]) == pytest.approx([112.0])
    with pytest.raises(ValueError, match="same order as they were in fit"):
        model.predict(frame[["n", "p"]])


@pytest.mark.parametrize(
    "X",
    [
        pd.DataFrame({"p": [1.0], "m": [1.0]}),
        pd.DataFrame({"p": [1.0]}),
        pd.DataFrame({"p": [1.0], "n": [1.0], "value": [1.0]}),
        pd.DataFrame([[1.0, 2.0]], columns=["p", "p"]),
        pd.DataFrame([[1.0, 2.0]]),
        [["a", 1]],
        [[1j, 1]],
        [[1.0], [1.0, 2.0]],
        [[None, "x"]],
        [1.0],
        [[1.0]],
        [[-1.0, 1.0]],
        [[np.nan, 1.0]],
    ],
)
def test_places_that_are_refused(models, X):
    with pytest.raises(InputError):
        models.predict(X)
    with pytest.raises(InputError):
        models.notes_at(X)


@pytest.mark.parametrize("levels", [[-1, 2], [0.5, np.nan], 0.5, ["a"], []], ids=str)
def test_levels_lie_between_0_and_1(models, levels):
    with pytest.raises(InputError, match="levels of quantiles"):
        models.spread(GRID, levels)


@pytest.mark.parametrize("number", [0.5, "a", None, -1, 99])
def test_there_is_no_such_call_path_or_hypothesis(models, number):
    with pytest.raises(InputError, match="bad number of the call path"):
        models.terms(number)
    with pytest.raises(InputError, match="bad number of the hypothesis"):
        models.terms(0, number)
