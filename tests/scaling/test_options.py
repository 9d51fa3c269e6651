"""Options and small inputs that are refused, or accepted with a note."""

import numpy as np
import pytest

from toruscast.scaling import (
    FitOptions,
    Measurements,
    PMNFRegressor,
    ScalingWarning,
    fit_many,
)
from toruscast.scaling.formula import format_terms
from toruscast.scaling.models import describe_points

P = np.array([4.0, 8, 16, 32, 64])


@pytest.mark.parametrize(
    ("points", "note"),
    [
        (
            [0.5, 2, 4, 8, 16],
            "no logarithm of parameter d was searched, because it has values below 1",
        ),
        (
            [0, 2, 4, 8, 16],
            "no logarithm and no falling power of parameter d was searched, because it has the "
            "value 0",
        ),
    ],
)
def test_terms_that_a_small_value_rules_out_are_noted(points, note):
    x = np.array(points, dtype=float)[:, None]
    assert describe_points(["d"], x, [0]) == [note]
    assert not describe_points(["d"], x + 1, [0])
    with pytest.warns(ScalingWarning, match=note.split(",")[0].replace("d was", "x0 was")):
        PMNFRegressor().fit(x, 3 + 2 * x[:, 0])


def test_only_names_that_would_be_misread_are_quoted():
    data = Measurements(["number of ranks"], P[:, None], (3 + 2 * P)[None, :, None])
    assert fit_many(data).formulas() == ["3 + 2 `number of ranks`"]
    assert format_terms([(2.0, ((1.0, 1.0),))], ["ranks"]) == "2 ranks log2(ranks)"


@pytest.mark.parametrize(
    "later", [{"space": [(3, 0)]}, {"max_terms": 1}, {"noise": "bounded"}, {"select": "loo"}]
)
def test_an_interval_is_that_of_the_fit_whatever_is_set_later(later):
    noise = 1 + 0.03 * np.random.default_rng(0).standard_normal((5, 2))
    x, y = np.repeat(P[:, None], 2, axis=0), ((20 + P)[:, None] * noise).ravel()
    model = PMNFRegressor(warn=False).fit(x, y)
    low, high = model.predict_interval([[128.0]], n_bootstrap=10)
    model.set_params(**later)
    again = model.predict_interval([[128.0]], n_bootstrap=10)
    assert again == (low, high)
    assert model.options_ == FitOptions()
