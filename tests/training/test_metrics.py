from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_training import rcc as naive_rcc

from toruscast.errors import InputError
from toruscast.training import r2, rcc, rcc_told_apart, regret, tau_b, wrong_pairs

few_values = st.sampled_from([-1.0, 0.0, 0.5, 1.0, 2.0, 1e-9])
pairs = st.lists(st.tuples(few_values, few_values), min_size=2, max_size=24)


@settings(deadline=None)
@given(pairs)
def test_rcc_equals_the_pair_by_pair_twin_with_ties(values):
    x, y = zip(*values, strict=True)
    if len(set(x)) > 1:
        assert rcc(x, y) == pytest.approx(naive_rcc(x, y), abs=1e-15)
    wrong = round((1 - naive_rcc(x, y)) * len(x) * (len(x) - 1) / 2)
    assert wrong_pairs(x, y) == wrong


def test_rcc_of_many_values_equals_the_twin():
    rng = np.random.default_rng(3)
    x, y = rng.integers(0, 40, 300), rng.random(300)
    assert rcc(x, y) == pytest.approx(naive_rcc(x.tolist(), y.tolist()), abs=1e-15)


def test_a_pair_tied_in_one_value_counts_by_its_order():
    # With x equal, the definition takes a rising y as the same order and a falling one as not.
    assert rcc([1, 1, 2], [1, 2, 3]) == 1
    assert rcc([1, 1, 2], [2, 1, 3]) == pytest.approx(2 / 3)
    assert rcc([1, 2], [1, 1]) == 1
    assert rcc([2, 1], [1, 1]) == 0


def test_equal_times_have_no_order():
    assert np.isnan(rcc([1, 1], [1, 1]))
    assert np.isnan(rcc([1, 1, 1], [1, 3, 2]))


@settings(deadline=None)
@given(pairs, st.sampled_from([0.0, 0.05, 1.0]))
def test_rcc_of_pairs_told_apart_equals_the_twin(values, apart):
    x, y = zip(*((abs(a) + 0.1, b) for a, b in values), strict=True)
    right = []
    for i in range(len(x)):
        for j in range(len(x)):
            if x[j] > x[i] * (1 + apart):
                right.append(1.0 if y[j] > y[i] else 0.5 if y[j] == y[i] else 0.0)
    expected = sum(right) / len(right) if right else np.nan
    assert rcc_told_apart(x, y, apart) == pytest.approx(expected, nan_ok=True)


def test_perfect_and_reversed_rankings():
    x = np.arange(20.0)
    assert (rcc(x, x), rcc(x, -x)) == (1, 0)
    assert (tau_b(x, x), tau_b(x, -x)) == (pytest.approx(1), pytest.approx(-1))


@settings(deadline=None)
@given(st.lists(st.integers(0, 10**6), min_size=3, max_size=30, unique=True), st.randoms())
def test_without_ties_tau_is_twice_rcc_less_one(x, random):
    y = random.sample(x, len(x))
    assert tau_b(x, y) == pytest.approx(2 * rcc(x, y) - 1)


def test_r2():
    assert r2([1, 2, 3], [1, 2, 3]) == 1
    assert r2([1, 2, 3], [2, 2, 2]) == 0
    assert r2([1, 2, 3], [3, 2, 1]) == pytest.approx(-3)
    assert r2([1e-300, 2e-300, 3e-300], [1e-300, 2e-300, 4e-300]) == pytest.approx(0.5)
    assert (r2([2, 2], [2, 2]), r2([2, 2], [2, 3])) == (1, 0)


def test_regret_is_what_trying_the_first_k_costs():
    observed, predicted = [10.0, 8.0, 4.0, 6.0], [1.0, 2.0, 4.0, 3.0]
    assert [regret(observed, predicted, k) for k in (1, 2, 3, 4, 9)] == [1.5, 1.0, 0.5, 0.0, 0.0]


@pytest.mark.parametrize("metric", [rcc, tau_b, r2, regret, wrong_pairs])
@pytest.mark.parametrize(
    ("observed", "predicted", "message"),
    [
        ([], [], "too few"),
        ([1], [1], "too few"),
        ([1, 2], [1, 2, 3], "differ in length"),
        ([1, np.nan], [1, 2], "observed time of mapping 1"),
        ([1, 2], [np.inf, 2], "predicted time of mapping 0"),
        ([[1, 2]], [1, 2], "shape"),
        (["a", "b"], [1, 2], "numbers"),
        ([1, [2, 3]], [1, 2], "numbers"),
    ],
)
def test_bad_times_are_refused(metric, observed, predicted, message):
    with pytest.raises(InputError, match=message):
        metric(observed, predicted)


@pytest.mark.parametrize("k", [0, -1, 1.5, True])
def test_regret_needs_a_count(k):
    with pytest.raises(InputError, match="bad k"):
        regret([1, 2], [1, 2], k)


def test_regret_needs_positive_times():
    with pytest.raises(InputError, match="positive"):
        regret([0, 2], [1, 2])
