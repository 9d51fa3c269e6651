"""The estimator, its intervals and its warnings."""

import itertools
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

from toruscast.errors import InputError
from toruscast.scaling import (
    FitOptions,
    Measurements,
    PMNFRegressor,
    ScalingWarning,
    TermSpace,
    fit_many,
)
from toruscast.scaling.models import describe_points
from toruscast.scaling.noise import estimate_points

P = np.array([4.0, 8.0, 16.0, 32.0, 64.0])


@parametrize_with_checks([PMNFRegressor(warn=False)])
def test_is_a_scikit_learn_estimator(estimator, check):
    with warnings.catch_warnings():
        # The checks fit points that decide nothing, with more parameters than are searched.
        warnings.simplefilter("ignore")
        check(estimator)


def repeated(function, noise, repetitions, seed, law="uniform"):
    rng = np.random.default_rng(seed)
    draw = {
        "uniform": rng.uniform(-1, 1, (5, repetitions)),
        "normal": rng.normal(size=(5, repetitions)),
    }
    y = function(P)[:, None] * (1 + noise * draw[law])
    return np.repeat(P, repetitions)[:, None], y.ravel()


def test_fit_and_predict():
    X, y = repeated(lambda x: 10 + 2 * x, 0.01, 5, 3)
    model = PMNFRegressor(warn=False).fit(X, y)
    assert model.predict([[256.0]])[0] == pytest.approx(522, rel=0.05)
    assert model.score(X, y) > 0.99
    assert model.n_features_in_ == 1
    assert clone(model).get_params() == model.get_params()
    (constant, none), *rest = model.terms_
    assert none == ((0.0, 0.0),)
    assert constant > 0
    assert rest


def test_none_is_no_repetition():
    values = np.array([1.0, 2.0, None, 4.0, 5.0], dtype=object)
    with pytest.raises(ValueError, match="y contains NaN"):
        PMNFRegressor().fit([[1], [2], [4], [8], [16]], values)


def test_order_of_rows_does_not_matter():
    X, y = repeated(lambda x: 10 + 2 * x, 0.05, 4, 3)
    order = np.random.default_rng(0).permutation(len(y))
    one, other = (PMNFRegressor(warn=False).fit(X[k], y[k]) for k in (slice(None), order))
    assert other.formula_ == one.formula_


def test_names_of_a_frame_are_in_the_formula():
    frame = pd.DataFrame({"ranks": P})
    assert PMNFRegressor(warn=False).fit(frame, 3 * P).formula_ == "3 ranks"


def test_the_formula_alone():
    X, y = repeated(lambda x: 10 + 2 * x, 0.05, 5, 1)
    model = PMNFRegressor(warn=False).fit(X, y)
    low, high = model.predict_interval([[256.0]], n_bootstrap=5)
    assert model.predict(X) == pytest.approx(model.models_.evaluate(X)[0])
    assert low[0] < high[0]


@pytest.mark.parametrize(
    ("X", "y", "word"),
    [
        (P[:3, None], [1.0, 2.0, 4.0], "five are needed"),
        (np.repeat(P, 2)[:, None], np.tile([1.0, 2.0], 5), "more than 10 %"),
        (
            np.repeat(P, 2)[:, None],
            9 + np.tile([0.0, 0.4], 5) + np.repeat(P, 2) ** 0.5,
            "do not separate",
        ),
        ([[4.0], [4.0]], [1.0, 1.1], "no parameter was varied"),
    ],
)
def test_warns_of_what_the_measurements_cannot_tell(X, y, word):
    with pytest.warns(ScalingWarning) as caught:
        model = PMNFRegressor().fit(X, y)
    assert any(word in str(w.message) for w in caught)
    assert [str(w.message) for w in caught] == model.notes_


@pytest.mark.parametrize(
    ("columns", "groups"),
    [
        # Two pairs: b follows a and d follows c, but neither pair follows the other.
        (lambda a, c: [a, a**2, c, c**2], ["a, b", "c, d"]),
        (lambda a, c: [a, c, a**2, c**2], ["a, c", "b, d"]),
        (lambda a, c: [a, a**2, a**3], ["a, b, c"]),
        # No two of these follow each other, but any two give the third.
        (lambda a, c: [a, c, a * c], ["a, b, c"]),
        (lambda a, c: [a, c, a**2], ["a, c"]),
        (lambda a, c: [a, c], []),
    ],
)
def test_parameters_varied_together_are_noted_group_by_group(columns, groups):
    a, c = (values.ravel() for values in np.meshgrid(P, P))
    points = np.stack(columns(a, c), axis=1)
    notes = describe_points("abcd"[: points.shape[1]], points, range(points.shape[1]))
    told = [note.split(" were ")[0] for note in notes]
    assert told == [f"parameters {group}" for group in groups]


def test_good_data_needs_no_warning():
    assert PMNFRegressor().fit(np.repeat(P, 2)[:, None], np.repeat(3 + P, 2)).notes_ == []


def test_misfit_is_said_and_the_nearest_points_are_followed():
    # Two regimes, no noise: no formula of the search space has the jump.
    y = np.where(P < 20, P, 40 * P)
    model = PMNFRegressor(warn=False).fit(np.repeat(P, 3)[:, None], np.repeat(y, 3))
    assert any("no hypothesis fits the points" in note for note in model.notes_)
    assert not model.models_.trusted[0]
    assert model.predict([[128.0]])[0] == pytest.approx(40 * 128, rel=0.5)


@pytest.mark.parametrize("repetitions", [1, 4])
def test_what_needs_a_negative_coefficient_is_met_or_not_trusted(repetitions):
    rng = np.random.default_rng(2)
    for number in range(40):
        growing = P ** rng.choice([0.0, 0.5, 1.0, 2.0]) * np.log2(P) ** rng.integers(1, 3)
        y = 1.2 * growing.max() - growing if number % 2 else growing - 0.7 * growing.min()
        noise = 0.02 * rng.uniform(-1, 1, (P.size, repetitions)) if repetitions > 1 else 0.0
        y = y[:, None] * (1 + noise)
        X = np.repeat(P, repetitions)[:, None]
        model = PMNFRegressor(warn=False).fit(X, y.ravel())
        off = np.abs(model.predict(P[:, None]) / y.mean(axis=1) - 1).max()
        assert not model.models_.trusted[0] or off < 0.1
        # The models without a negative coefficient are no worse than a constant.
        least = np.abs(np.log(y.mean(axis=1) / np.exp(np.log(y.mean(axis=1)).mean()))).max()
        assert off <= np.expm1(least) + 0.01


def test_predictions_far_from_the_points_of_one_run_are_noted():
    model = PMNFRegressor(warn=False).fit(P[:, None], [40.5, 30.5, 20.5, 10.5, 0.5])
    assert "a coefficient is negative" in model.notes_[-1]
    assert not PMNFRegressor(warn=False).fit(P[:, None], 3 + P).notes_


def test_values_below_one_take_no_logarithm_and_zero_no_falling_power():
    x = np.array([0.1, 0.2, 0.4, 0.8, 1.6])
    falling = PMNFRegressor(warn=False).fit(x[:, None], 2 / x)
    assert falling.formula_ == "2 x0^-1"
    with pytest.raises(InputError, match="must be positive"):
        falling.predict([[0.0]])
    zero = PMNFRegressor(warn=False).fit(np.arange(5.0)[:, None], 1 + np.arange(5.0) ** 2)
    assert zero.formula_ == "1 + x0^2"
    assert zero.predict([[0.0]])[0] == pytest.approx(1)


def test_own_terms():
    model = PMNFRegressor(space=[(1.7, 0)], max_terms=1, warn=False).fit(P[:, None], 2 * P**1.7)
    assert model.formula_ == "2 x0^(17/10)"


@pytest.mark.parametrize(
    ("polynomial", "logarithm", "prior"),
    [([1, 2], [0], None), (["a"], [0], None), ([1], [0], [-1.0]), ([1], [0], [np.nan])],
)
def test_wrong_term_spaces(polynomial, logarithm, prior):
    with pytest.raises(InputError):
        TermSpace(polynomial, logarithm, prior)


@pytest.mark.parametrize(
    "wrong",
    [
        {"space": "wide"},
        {"space": [(0, 0)]},
        {"space": [(1, -1)]},
        {"space": [(1, 0), (1, 0)]},
        {"space": [1, 2]},
        {"space": [(30, 0)]},
        {"space": [(0, 11)]},
        {"space": [(np.nan, 0)]},
        {"space": [(0, np.nan)]},
        {"space": []},
        {"max_terms": 1.5},
        {"max_terms": 3},
        {"noise": "pink"},
        {"select": "maybe"},
    ],
    ids=str,
)
def test_wrong_options(wrong):
    with pytest.raises(InputError):
        PMNFRegressor(warn=False, **wrong).fit(P[:, None], P)


def test_law_of_the_noise_is_learnt_from_the_call_paths_together():
    rng = np.random.default_rng(0)
    uniform = estimate_points(1 + 0.05 * rng.uniform(-1, 1, (200, 5, 5)))
    normal = estimate_points(1 + 0.03 * rng.normal(size=(200, 5, 5)))
    assert uniform.bounded.mean() > 0.9
    assert normal.bounded.mean() < 0.1


def test_bounded_noise_centres_on_the_middle_of_the_extremes():
    # Repetitions that fill the whole width leave no doubt; equal ones leave the whole width.
    values = np.array([[[0.95, 1.05, 1.0], [1.0, 1.0, 1.0], [0.97, 1.03, 1.0]]])
    found = estimate_points(values, law="bounded")
    assert found.centre[0] == pytest.approx([1, 1, 1])
    assert found.error[0, 0] < found.error[0, 2] < found.error[0, 1]


def test_constants_stay_constant():
    rng = np.random.default_rng(1)
    values = 7 * (1 + 0.05 * rng.uniform(-1, 1, (100, 5, 5)))
    models = fit_many(Measurements(["p"], P[:, None], values))
    constant = [len(models.terms(k)) == 1 for k in range(100)]
    assert np.mean(constant) >= 0.9


@pytest.mark.parametrize("space", ["default", "published"])
def test_a_prediction_does_not_depend_on_the_other_places(space):
    rng = np.random.default_rng(4)
    x = 2.0 ** np.arange(2, 7)[:, None]
    alone = np.array([[128.0]])
    for _ in range(10):
        y = 3 + 0.1 * x[:, 0] ** 1.5 * np.exp(0.3 * rng.normal(size=5))
        model = PMNFRegressor(space=space, warn=False).fit(x, y)
        others = [[32.0], [0.0]] if space == "published" else [[32.0], [1e-3]]
        assert model.predict([*alone, *others])[0] == pytest.approx(model.predict(alone)[0])
        wide = PMNFRegressor(space=space, warn=False).fit(np.c_[x, np.zeros(5)], y)
        assert wide.predict([[128.0, 0.0]]) == pytest.approx(model.predict(alone))


def test_of_many_parameters_one_with_zeros_is_not_left_out():
    rng = np.random.default_rng(5)
    x = np.c_[np.repeat(np.arange(5.0), 8), rng.integers(1, 9, (40, 4))]
    model = PMNFRegressor(warn=False).fit(x, 1 + 100 * x[:, 0] + 0.01 * x[:, 1])
    assert model.predict([[4.0, 1, 1, 1, 1]])[0] == pytest.approx(401, rel=0.05)


def test_intervals_depend_on_the_seed_alone():
    x, y = 2.0 ** np.arange(2, 7)[:, None], np.arange(5.0) + 1
    model = PMNFRegressor(warn=False).fit(x, y)
    seeds = [model.predict_interval(x, n_bootstrap=3, random_state=seed) for seed in (7, 7, None)]
    assert (seeds[0][0] == seeds[1][0]).all()
    random = np.random.RandomState(3)
    assert np.isfinite(model.predict_interval(x, n_bootstrap=3, random_state=random)).all()
    assert hash(FitOptions(space=[(1, 0)])) is not None


@pytest.mark.parametrize("n_values", [3, 4])
def test_a_complete_grid_of_five_parameters(n_values):
    x = np.array(list(itertools.product(range(1, n_values + 1), repeat=5)), dtype=float)
    model = PMNFRegressor(warn=False).fit(x, 1 + 10 * x[:, 0] + x[:, 1] * x[:, 2])
    assert "x0" in model.formula_
    assert model.predict(x[-1:])[0] == pytest.approx(1 + 10 * n_values + n_values**2, rel=0.2)


def test_a_pipeline_searches_options_and_predicts():
    p = np.repeat([4.0, 8, 16, 32, 64], 3)[:, None]
    y = (3 + 2 * p[:, 0] ** 1.5) * np.tile([0.99, 1.0, 1.01], 5)
    counted = FunctionTransformer(lambda x: 2 * x)
    pipeline = make_pipeline(counted, PMNFRegressor(warn=False))
    options = {"pmnfregressor__max_terms": [1, 2], "pmnfregressor__space": ["default", [(1, 0)]]}
    search = GridSearchCV(pipeline, options, cv=KFold(5, shuffle=True, random_state=0))
    search.fit(p, y)
    assert search.best_params_["pmnfregressor__space"] == "default"
    assert search.predict(np.array([[128.0]])) == pytest.approx([3 + 2 * 128**1.5], rel=0.02)
