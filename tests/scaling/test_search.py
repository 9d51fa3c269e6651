"""The search finds what it should, and agrees with the slow twin."""

import naive_scaling as naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toruscast.scaling import FitOptions, Measurements, TermSpace, fit_many
from toruscast.scaling.formula import evaluate_terms
from toruscast.scaling.search import Problem, score_hypotheses
from toruscast.scaling.search import _screen_terms as screened
from toruscast.scaling.select import _least_squares as least_squares
from toruscast.scaling.terms import SECOND_TERM, list_structures

P = np.array([4.0, 8.0, 16.0, 32.0, 64.0])
PAIRS = TermSpace.published().pairs()


def measured(*functions, x=P[:, None], repetitions=3):
    values = [np.repeat(f(*x.T)[:, None], repetitions, axis=1) for f in functions]
    return Measurements([f"x{k}" for k in range(x.shape[1])], x, values)


def grid(*levels):
    return np.array(np.meshgrid(*levels, indexing="ij"), dtype=float).reshape(len(levels), -1).T


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_every_published_term_comes_back_from_exact_data(pair):
    i, j = pair
    models = fit_many(measured(lambda x: 3 + 0.5 * x**i * np.log2(x) ** j))
    (constant, _), (coefficient, exponents) = models.terms()
    assert exponents == (pair,)
    assert constant == pytest.approx(3, rel=1e-6)
    assert coefficient == pytest.approx(0.5, rel=1e-6)


@settings(max_examples=60, deadline=None)
@given(
    st.sets(st.sampled_from(PAIRS), min_size=2, max_size=2),
    st.tuples(*[st.floats(0.1, 1.0)] * 3),
)
def test_two_terms_come_back_from_exact_data(pairs, shares):
    # Every share is a tenth at least of the value at the largest x, as in a readable formula.
    (i, j), (k, m) = sorted(pairs)
    top = [1.0, 64**i * 6**j, 64**k * 6**m]
    c, a, b = (share / value for share, value in zip(shares, top, strict=True))
    models = fit_many(
        measured(lambda x: c + a * x**i * np.log2(x) ** j + b * x**k * np.log2(x) ** m)
    )
    truth = c + a * 256**i * 8**j + b * 256**k * 8**m
    assert models.predict([[256.0]])[0, 0] == pytest.approx(truth, rel=1e-3)


@pytest.mark.parametrize(
    ("shape", "function"),
    [
        ("a", lambda a, b: 2 + 3 * a**0.5),
        ("b", lambda a, b: 2 + 3 * b**2),
        ("a+b", lambda a, b: 2 + 3 * a + 0.1 * b**2),
        ("a*b", lambda a, b: 2 + 0.1 * a * np.log2(b)),
        ("a*b+a", lambda a, b: 2 + 0.1 * a * b**0.5 + a),
        ("a*b+b", lambda a, b: 2 + 0.1 * a * b**0.5 + b**0.5),
        ("no constant", lambda a, b: 0.1 * a**1.5 * b),
        ("constant", lambda a, b: 7 + 0 * a),
    ],
)
def test_two_parameter_shapes_come_back_from_exact_data(shape, function):
    x = grid(P, [10, 20, 30, 40, 50])
    models = fit_many(measured(function, x=x))
    far = np.array([[256.0, 200.0]])
    assert models.predict(far)[0] == pytest.approx(function(*far.T), rel=1e-6), shape
    assert evaluate_terms(models.terms(), far) == pytest.approx(function(*far.T), rel=1e-6), shape


@pytest.mark.parametrize("repetitions", [1, 3])
@pytest.mark.parametrize(
    ("function", "exponents"),
    [
        (lambda p, n: p + n, [(0, 1), (1, 0)]),
        (lambda p, n: n - p, [(0, 1), (1, 0)]),
        (lambda p, n: n + n * p, [(0, 1), (1, 1)]),
        (lambda p: 100 / p + 0.01 * p, [(-1,), (1,)]),
        (lambda p: p**1.5 + p**0.25, [(0.25,), (1.5,)]),
    ],
    ids=["p+n", "n-p", "n+np", "100/p+.01p", "p^1.5+p^.25"],
)
def test_exact_data_leave_no_term_of_rounding(function, exponents, repetitions):
    x = grid(*[P, [10, 20, 30, 40, 50]][: len(exponents[0])])
    models = fit_many(measured(function, x=x, repetitions=repetitions))
    assert [tuple(i for i, _ in powers) for _, powers in models.terms()] == exponents
    far = 4 * x.max(axis=0)
    assert models.predict([far])[0, 0] == pytest.approx(function(*far), rel=1e-9)


def test_a_small_term_that_the_last_digits_tell_stays():
    models = fit_many(measured(lambda p: 1e11 + p))
    (_, _), (coefficient, exponents) = models.terms()
    assert exponents == ((1.0, 0.0),)
    assert coefficient == pytest.approx(1, rel=1e-6)


def test_three_parameters():
    x = grid(P, [10, 20, 30, 40, 50], [1000, 2000, 3000, 4000, 5000])
    functions = [
        lambda a, b, c: 1 + 0.01 * a * b**0.5 + 1e-3 * c,
        lambda a, b, c: 5 + 1e-4 * a * b * np.log2(c),
        lambda a, b, c: 5 + b,
    ]
    models = fit_many(measured(*functions, x=x, repetitions=2))
    far = np.array([[256.0, 200.0, 20000.0]])
    truth = [float(f(*far.T)[0]) for f in functions]
    assert models.predict(far)[:, 0] == pytest.approx(truth, rel=1e-6)


@pytest.mark.parametrize("exponent", [-2, -1, -0.5])
def test_strong_scaling_is_found_and_never_negative(exponent):
    models = fit_many(measured(lambda p: 100.0 * p**exponent))
    assert models.terms() == [(pytest.approx(100.0), ((exponent, 0.0),))]
    far = models.predict(P[:, None] * 1e6)
    assert (far > 0).all()


def test_a_missing_noise_estimate_does_no_harm_to_exact_data():
    models = fit_many(measured(lambda x: 3 + 2 * x, repetitions=1))
    assert models.formulas() == ["3 + 2 x0"]
    assert models.trusted.all()


def test_what_fit_prints_is_what_predict_uses():
    rng = np.random.default_rng(3)
    noise = rng.normal(1, 0.05, (60, 5, 5))
    models = fit_many(Measurements(["p"], P[:, None], (3 + 0.5 * P**1.5)[:, None] * noise))
    assert models.trusted.sum() > 30
    far = np.array([[256.0], [1024.0]])
    for path in np.flatnonzero(models.trusted):
        assert models.predicts_by()[path] == "formula"
        written = models.formula(int(path))
        assert models.predict(far)[path] == pytest.approx(written(p=far[:, 0]), rel=1e-12)


def test_no_place_is_no_prediction():
    models = fit_many(measured(lambda x: 3 + x))
    assert models.predict(np.empty((0, 1))).shape == (1, 0)


def test_nothing_measured_is_nothing_predicted():
    models = fit_many(measured(lambda x: 0 * x))
    assert models.formulas() == ["0"]
    assert models.predict([[128.0]]).tolist() == [[0.0]]
    assert models.notes() == [[]]


def test_sweep_agrees_with_one_problem_after_the_other():
    rng = np.random.default_rng(5)
    space = TermSpace([0, 0.5, 1, 1, 2], [1, 0, 0, 1, 0], [1, 2, 3, 1, 2])
    y = 3 + 0.2 * P + rng.normal(size=(4, 5))
    y /= np.abs(y).max(axis=1, keepdims=True)
    error = rng.uniform(0.02, 0.05, size=(4, 5))
    values = space.values(P)
    terms = values / values.max(axis=1, keepdims=True)
    known = np.ones(4, dtype=bool)
    # A price of nothing: no sign is preferred.
    problem = Problem(P[:, None], [terms], [np.log(space.prior)], y, error, known, np.zeros(4))
    found = score_hypotheses(problem, np.zeros(4), 32)
    constant, with_one, without = list_structures(1)
    for path in range(4):
        twin = naive.one_parameter(
            P,
            y[path],
            error[path],
            space.pairs(),
            space.prior,
            without.prior / (with_one.prior + without.prior),
            constant.prior,
            SECOND_TERM,
        )
        assert np.sort(found.score[path]) == pytest.approx(np.sort(list(twin.values())), abs=1e-6)


def test_least_squares_agrees_with_a_general_solver():
    rng = np.random.default_rng(2)
    columns = [rng.normal(size=(2, 3, 6)) for _ in range(3)]
    columns[2][0, 0] = 0.0  # a column that a smaller hypothesis does not have
    target = rng.normal(size=(2, 1, 6))
    solved = least_squares(columns, target)
    for p in range(2):
        for h in range(3):
            design = np.array([c[p, h] for c in columns]).T
            expected = np.linalg.lstsq(design, target[p, 0], rcond=None)[0]
            assert solved.coefficient[p, h] == pytest.approx(expected)
            misfit = ((design @ expected - target[p, 0]) ** 2).sum()
            assert solved.residual[p, h] == pytest.approx(misfit)


def test_a_space_of_one_term_gone_through_once():
    p = np.array([4.0, 8.0, 16.0, 32.0, 64.0])
    data = Measurements(["p"], p[:, None], (3 + 2 * p)[None, :, None])
    options = FitOptions(space=(pair for pair in [(1, 0)]))
    assert [fit_many(data, options).formulas() for _ in range(2)] == [["3 + 2 p"]] * 2


def test_screening_keeps_the_true_term():
    x = grid(P, [10, 20, 30, 40, 50])
    space = TermSpace.default()
    y = (2 + 0.3 * x[:, 0] ** 0.75 * x[:, 1] + x[:, 1])[None]
    for known in (True, False):
        terms, prior = [space.values(column) for column in x.T], [np.log(space.prior)] * 2
        one = np.ones((1, 25))
        problem = Problem(x, terms, prior, y, one, np.array([known]), np.zeros(1))
        best = screened(problem, 0, 8)
        assert space.pairs().index((0.75, 0.0)) in best[0]


def test_a_small_term_of_a_third_parameter_is_found_without_repetitions():
    x = grid(P, [10, 20, 30, 40, 50], [1, 2, 3, 4, 5])
    y = 3 + x[:, 0] * x[:, 1] + x[:, 2]
    models = fit_many(Measurements(["p", "n", "q"], x, y[None, :, None]))
    assert models.formulas() == ["3 + q + p n"]


@given(st.integers(0, 2**32 - 1), st.floats(0.01, 0.99))
@settings(max_examples=25, deadline=None)
def test_spreads_agree_with_a_walk(seed, level):
    rng = np.random.default_rng(seed)
    values = (3 + 0.5 * P)[:, None] * rng.uniform(0.9, 1.1, (5, 3))
    models = fit_many(Measurements(["p"], P[:, None], values[None]))
    far = np.array([[256.0]])
    weights = models.probabilities[0]
    each = [evaluate_terms(models.terms(0, rank), far)[0] for rank in range(weights.size)]
    got = models.spread(far, [level])[0, 0, 0]
    # At a tie of the running sum with the level either neighbour is right.
    wanted = [naive.weighted_quantile(each, weights, level + d) for d in (-1e-9, 0.0, 1e-9)]
    assert any(got == pytest.approx(value, rel=1e-9) for value in wanted)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(1e-6, 1e6))
def test_units_do_not_matter(seed, unit):
    rng = np.random.default_rng(seed)
    values = (2 + rng.uniform(0, 1, 2)[:, None] * P)[:, :, None] * rng.uniform(
        0.95, 1.05, (2, 5, 4)
    )
    options = FitOptions(noise="normal")
    one = fit_many(Measurements(["p"], P[:, None], values), options).predict([[300.0]])
    other = fit_many(Measurements(["p"], P[:, None], values * unit), options).predict([[300.0]])
    assert other / unit == pytest.approx(one, rel=1e-6)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_predictions_of_positive_values_turn_negative_with_a_note_only(seed):
    rng = np.random.default_rng(seed)
    values = rng.lognormal(0, 2, size=(3, 5, 2))
    models = fit_many(Measurements(["p"], P[:, None], values))
    for place in np.geomspace(1, 1e6, 20):
        negative = (models.evaluate([[place]]) < 0).any()
        assert negative == any("is negative here" in note for note in models.notes_at([[place]]))
