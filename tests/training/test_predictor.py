from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from toruscast.errors import InputError
from toruscast.training import (
    FEATURE_SETS,
    TimePredictor,
    feature_set,
    load_predictor,
    save_predictor,
)
from toruscast.training.residuals import ResidualCalibration


def made_up(n: int, seed: int, noise: float = 0.05) -> tuple[pd.DataFrame, np.ndarray]:
    """Features and times whose noise grows with one of the features."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(rng.random((n, 4)), columns=["a", "b", "c", "d"])
    table["lower_bound"] = 1e-5 * np.exp(2 * rng.random(n))
    slowdown = 1 + table["a"] + table["b"] ** 2
    table["coarse_time"] = table["lower_bound"] * (1 + table["a"])
    scale = noise * (0.5 + table["c"])
    return table, (table["lower_bound"] * slowdown * np.exp(scale * rng.normal(size=n))).to_numpy()


def small(**changes) -> TimePredictor:
    return TimePredictor(**{"n_estimators": 30, "calibration_folds": 3} | changes)


RELATIVE = ["a", "b", "c", "d"]
TARGETS = ["time", "slowdown", "correction"]


@parametrize_with_checks([TimePredictor(n_estimators=10, calibration_folds=2)])
def test_is_a_scikit_learn_regressor(estimator, check):
    check(estimator)


@pytest.mark.parametrize("target", TARGETS)
def test_forecasts_follow_the_law(target):
    X, y = made_up(150, 1, noise=0)
    new, truth = made_up(50, 2, noise=0)
    features = None if target == "time" else RELATIVE
    predicted = small(features=features, target=target).fit(X, y).predict(new)
    assert np.median(np.abs(predicted / truth - 1)) < 0.05
    assert np.corrcoef(predicted, truth)[0, 1] > 0.99


@pytest.mark.parametrize("target", TARGETS)
def test_forecast_does_not_depend_on_the_unit_of_time(target):
    # A power of two leaves the normalised target as it is, bit for bit.
    X, y = made_up(60, 3)
    unit = 2.0**-30
    scaled = X.assign(lower_bound=X["lower_bound"] * unit, coarse_time=X["coarse_time"] * unit)
    model = small(features=RELATIVE, target=target)
    expected = clone(model).fit(X, y).predict(X)
    assert np.allclose(model.fit(scaled, y * unit).predict(scaled) / unit, expected, rtol=1e-9)


@pytest.mark.parametrize("target", ["slowdown", "correction"])
def test_relative_times_are_multiplied_back(target):
    X, y = made_up(60, 4)
    model = small(features=RELATIVE, target=target).fit(X, y)
    double = X.assign(lower_bound=2 * X["lower_bound"], coarse_time=2 * X["coarse_time"])
    assert np.allclose(model.predict(double), 2 * model.predict(X))
    assert np.allclose(model.predict_interval(double), 2 * model.predict_interval(X))
    unit = ["coarse_time"] if target == "correction" else []
    assert model.required_columns == (*RELATIVE, "lower_bound", *unit)


@pytest.mark.parametrize(
    ("target", "factor", "said"),
    [
        ("slowdown", 1e3, "is .* times lower_bound: are the times in seconds"),
        ("correction", 1e6, "is .* times coarse_time: are the times in seconds"),
        ("correction", 1e-3, "is 1/.* of coarse_time: are the times in seconds"),
    ],
)
def test_relative_times_in_another_unit_are_asked_about(target, factor, said):
    X, y = made_up(40, 4)
    model = small(features=RELATIVE, target=target)
    with pytest.warns(UserWarning, match=said):
        model.fit(X, factor * y)
    # An application may well be slower, or faster, than the torus that stands for it.
    for true in (0.1, 20):
        model.fit(X, true * y)


def at_the_bound_or_above(n, seed):
    """Sketches of which every third meets its lower bound."""
    X, _ = made_up(n, seed)
    above = np.random.default_rng(seed).random(n) * (np.arange(n) % 3 > 0)
    return X.assign(coarse_time=X["lower_bound"] * (1 + above))


@pytest.mark.parametrize(
    ("noise", "factor", "offset", "most", "widest"),
    [
        (0.0, 1.5, 0.0, 1e-9, 1 + 1e-9),
        (0.0, 2.0, 0.0, 1e-9, 1 + 1e-9),
        (0.01, 1.0, 0.0, 0.04, 1.1),
        (0.1, 1.3, 0.0, 0.5, 2.0),
        (0.0, 1.0, 1e-6, 0.09, 1.3),
    ],
)
def test_times_that_miss_the_sketch_at_the_bound_too(noise, factor, offset, most, widest):
    # As measured ones do: nothing shrinks there, nor is anything blown up elsewhere.
    rng = np.random.default_rng(3)
    X, new = at_the_bound_or_above(150, 1), at_the_bound_or_above(50, 2)
    y, truth = (
        (factor * t["coarse_time"] * np.exp(noise * rng.normal(size=len(t))) + offset).to_numpy()
        for t in (X, new)
    )
    model = small(features=["a", "d"], target="correction", calibration_folds=10).fit(X, y)
    low, high = model.predict_interval(new).T
    assert np.abs(model.predict(new) / truth - 1).max() < most
    assert (high / low).max() < widest
    if noise:
        assert model.relative_.power == 0


def test_residuals_that_shrink_towards_the_bound_are_learned():
    X, new = at_the_bound_or_above(150, 1), at_the_bound_or_above(50, 2)
    above = (X["coarse_time"] / X["lower_bound"] - 1).to_numpy()
    y = X["coarse_time"] * np.exp(0.1 * above * np.random.default_rng(4).normal(size=150))
    model = small(features=["a", "d"], target="correction", calibration_folds=10).fit(X, y)
    assert model.relative_.power > 0.8
    low, high = model.predict_interval(new).T
    meets = (new["coarse_time"] == new["lower_bound"]).to_numpy()
    assert np.median(high[meets] / low[meets]) < 1.02 < 1.05 < np.median(high[~meets] / low[~meets])


def test_features_that_tell_nothing_correct_the_sketch_by_how_far_it_is_off_its_bound():
    X, new = at_the_bound_or_above(80, 5), at_the_bound_or_above(50, 6)
    above = (X["coarse_time"] / X["lower_bound"] - 1).to_numpy()
    y = X["coarse_time"] * np.exp(0.1 * above * np.random.default_rng(4).random(80))
    model = small(features=["d"], target="correction").fit(X.assign(d=0.0), y)
    sketch = new["coarse_time"].to_numpy()
    moved = np.log(model.predict(new.assign(d=0.0)) / sketch)
    high = np.log(model.predict_interval(new.assign(d=0.0))[:, 1] / sketch)
    waiting = sketch / new["lower_bound"].to_numpy() - 1
    *_, common, power = model.relative_
    part = ((waiting + 0.01) / (waiting + 0.11)) ** power
    assert part.min() < 0.1 < 0.8 < part.max()
    for found in (moved - common, high - common):
        assert found / part == pytest.approx(np.full(50, found[0] / part[0]))


def test_one_time_far_off_at_the_bound_is_no_law():
    X = at_the_bound_or_above(60, 1)
    y = X["coarse_time"].to_numpy(copy=True)
    y[0] *= 1000
    model = small(features=["a"], target="correction").fit(X, y)
    far = X.assign(coarse_time=10 * X["lower_bound"])
    assert model.predict_interval(far).max() < y.max()


def test_corrections_do_not_fall_below_the_lower_bound():
    X, y = made_up(80, 7, noise=0.3)
    X["coarse_time"] = 1.5 * X["lower_bound"]
    far = X.assign(coarse_time=1.001 * X["lower_bound"])
    bound = X["lower_bound"].to_numpy()
    model = small(features=["d"], target="correction")
    for y_seen, never in ((np.maximum(y, 0.9995 * bound), True), (bound / 2, False)):
        model.fit(X, y_seen)
        predicted, (low, high) = model.predict(far), model.predict_interval(far).T
        assert (predicted >= 0.999 * bound).all() == never
        assert (np.stack([low, high, *model.draw(far, 5)]) >= 0.999 * bound).all() == never
    # A sketch below it shows that the bound is an estimate: there it holds nothing up.
    below = X.assign(coarse_time=bound / 2)
    assert (model.fit(X, np.maximum(y, bound)).predict(below) < bound).all()


def test_folds_behind_the_intervals(monkeypatch):
    # Of few folds each model learns from much fewer samples, and intervals are too wide.
    seen = []
    monkeypatch.setattr(
        "toruscast.training.predictor.cross_validate",
        lambda forest, *rest: (seen.append((forest, rest)), None),
    )
    X, y = made_up(60, 9)
    for n_estimators, grown in ((300, 50), (600, 100), (20, 20)):
        TimePredictor(RELATIVE, n_estimators=n_estimators).fit(X, y)
        forest, rest = seen.pop()
        assert forest.n_estimators == grown
        assert rest[-2] == 20


def test_corrections_have_larger_leaves():
    X, y = made_up(60, 8)
    for target, least in (("correction", 5), ("slowdown", 1)):
        forest = small(features=RELATIVE, target=target).fit(X, y).forest_
        trees = [tree.tree_ for tree in forest.estimators_]
        leaves = [t.n_node_samples[t.children_left < 0].min() for t in trees]
        assert min(leaves) == least


def test_named_columns_may_come_in_any_order_with_others():
    X, y = made_up(40, 5)
    model = small(features=["b", "a"]).fit(X, y)
    assert model.required_columns == ("b", "a")
    assert (model.predict(X[["c", "a", "b"]]) == model.predict(X)).all()
    assert model.feature_importances_.sum() == pytest.approx(1)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_intervals_hold_about_the_stated_share(target):
    # Within a split the share held has a standard deviation of about 0.04 (a quantile of 120
    # residuals, 100 tests), so the mean of 12 is known to about 0.012.
    held = {0.5: [], 0.9: []}
    for split in range(12):
        X, y = made_up(220, 100 + split)
        model = TimePredictor(RELATIVE, target, n_estimators=50)
        if target == "time":
            model.set_params(features=[*RELATIVE, "lower_bound"])
        model.fit(X[:120], y[:120])
        for coverage, shares in held.items():
            low, high = model.predict_interval(X[120:], coverage).T
            shares.append(((low <= y[120:]) & (y[120:] <= high)).mean())
    assert np.mean(held[0.9]) == pytest.approx(0.9, abs=0.04)
    assert np.mean(held[0.5]) == pytest.approx(0.5, abs=0.07)


def test_quantiles_of_few_residuals():
    # Of n residuals in order the k-th holds a share k / (n + 1) of new ones, linear between.
    residuals = np.array([-3.0, 1.0, 2.0, -4.0])
    found = ResidualCalibration(1.0, residuals, np.zeros(1), residuals)
    assert [found.quantile(share) for share in (0.2, 0.4, 0.5, 0.8, 0.99)] == [1, 2, 2.5, 4, 4]


def test_groups_widen_the_intervals_to_applications_never_seen():
    rng = np.random.default_rng(8)
    X, _ = made_up(240, 8)
    group = np.repeat(np.arange(24), 10)
    X["a"] = rng.random(24)[group]  # tells the groups apart, and nothing else
    y = 1e-5 * np.exp(0.5 * rng.normal(size=24)[group] + 0.02 * rng.normal(size=240))
    model = small(features=RELATIVE, n_estimators=30)
    width = [
        np.log(m.predict_interval(X)[:, 1] / m.predict_interval(X)[:, 0]).mean()
        for m in (clone(model).fit(X, y), clone(model).fit(X, y, groups=group))
    ]
    assert width[1] > 3 * width[0]
    # What a group has in common moves its mappings together and decides nothing between them.
    draws = np.log(model.fit(X, y, groups=group).draw(X[:2], 2000))
    assert np.corrcoef(draws.T)[0, 1] > 0.7


def test_interval_is_ordered_nested_and_around_the_forecast():
    X, y = made_up(80, 6)
    model = small().fit(X, y)
    narrow, wide = model.predict_interval(X, 0.5), model.predict_interval(X, 0.95)
    predicted = model.predict(X)
    assert (wide[:, 0] <= narrow[:, 0]).all()
    assert (narrow[:, 0] < predicted).all()
    assert (predicted < narrow[:, 1]).all()
    assert (narrow[:, 1] <= wide[:, 1]).all()
    assert (wide > 0).all()


def test_draws_agree_with_the_interval():
    X, y = made_up(100, 7)
    model = small().fit(X, y)
    draws = model.draw(X, 3000, seed=1)
    low, high = model.predict_interval(X, 0.9).T
    assert draws.shape == (3000, 100)
    assert ((low <= draws) & (draws <= high)).mean() == pytest.approx(0.9, abs=0.02)
    assert (draws == model.draw(X, 3000, seed=1)).all()
    assert (draws != model.draw(X, 3000, seed=2)).any()


@pytest.mark.parametrize("size", [2, 5])
def test_deviations_from_small_groups_are_not_too_small(size):
    # Misses of random times that nothing foretells: what a group has in common is nil, and all of
    # a miss is its own.
    X, y = made_up(400, 13)
    y = np.exp(np.random.default_rng(14).normal(size=400))
    model = small(features=["a"], min_samples_leaf=50)
    groups = np.random.default_rng(15).permutation(np.arange(400) // size)
    found = model.fit(X, y, groups=groups).calibration_
    assert found.deviations.std() == pytest.approx(found.residuals.std(), rel=0.05)
    assert found.deviations.size == 400


def test_single_samples_say_nothing_of_deviations():
    X, y = made_up(40, 16)
    groups = np.r_[np.repeat(np.arange(10), 3), 10 + np.arange(10)]
    assert small().fit(X, y, groups=groups).calibration_.deviations.size == 30
    with pytest.raises(InputError, match="bad groups: found one sample each"):
        small().fit(X, y, groups=np.arange(40))


def test_equal_times_are_forecast_exactly():
    X, _ = made_up(20, 11)
    model = small().fit(X, np.full(20, 3e-6))
    assert model.predict(X) == pytest.approx(3e-6)
    assert model.predict_interval(X) == pytest.approx(3e-6)


def test_times_that_are_not_positive_get_plain_intervals():
    X, y = made_up(60, 12)
    model = small().fit(X, y - y.mean())
    low, high = model.predict_interval(X).T
    assert (low < high).all()


X, Y = made_up(20, 13)


@pytest.mark.parametrize(
    ("model", "table", "y", "message"),
    [
        (small(features="H9"), X, Y, "unknown feature set: found H9, expected prior or H1"),
        (small(features=["a", "z", "x"]), X, Y, "missing features.*expected z, x"),
        (small(features=["a", "a"]), X, Y, "named twice: found a"),
        (small(features=[]), X, Y, "one or more names"),
        (small(features=["a"]), X.to_numpy(), Y, "named features need a table"),
        (small(target="slowdown"), X.to_numpy(), Y, "a DataFrame with lower_bound"),
        (
            small(features=["a"], target="correction"),
            X[["a", "lower_bound"]],
            Y,
            "expected coarse_time",
        ),
        (small(target="slowdown"), X[RELATIVE], Y, "expected lower_bound"),
        (small(target="slowdown"), X, Y - Y.max(), "positive seconds"),
        (small(target="slowdown"), X.assign(lower_bound=0.0), Y, "lower_bound of row 0"),
        (small(target="speed"), X, Y, "bad target: found speed"),
        (small(), X.assign(a=np.nan), Y, "a is not finite: found nan in row 0 and 19 more"),
        (small(), X, Y[:3], "inconsistent numbers"),
        (small(), X[:1], Y[:1], "1 sample"),
        (small(calibration_folds=1), X, Y, "bad number of folds"),
    ],
)
def test_bad_training_input_is_refused(model, table, y, message):
    with pytest.raises(InputError, match=message):
        model.fit(table, y)


def test_bad_forecast_input_is_refused():
    model = small(features=RELATIVE).fit(X, Y)
    with pytest.raises(InputError, match=r"missing features.*expected b"):
        model.predict(X.drop(columns="b"))
    with pytest.raises(InputError, match="b is not finite: found inf"):
        model.predict(X.assign(b=np.inf))
    for coverage in (0, 1, 2, float("nan")):
        with pytest.raises(InputError, match="bad coverage"):
            model.predict_interval(X, coverage)
    with pytest.raises(InputError, match="number of draws"):
        model.draw(X, 0)
    with pytest.raises(InputError, match="bad groups"):
        small().fit(X, Y, groups=np.zeros(20))
    with pytest.raises(InputError, match="without calibration"):
        small(calibration_folds=0).fit(X, Y).predict_interval(X)


def test_published_feature_sets():
    assert feature_set("prior") == ("max_dilation", "avg_bytes", "max_bytes")
    assert feature_set("H3") == ("avg_bytes", "max_bytes", "max_FIFO", "avg_buffer")
    assert feature_set("H4") == ("avg_bytes", "max_bytes", "avg_buffer_TO")
    assert len(feature_set("H5")) == 5
    assert set(feature_set("H6")) - set(feature_set("H5")) == {"avg_buffer_AO", "avg_delay_TO"}
    assert all(feature_set(names) == names for names in FEATURE_SETS.values())


@pytest.mark.parametrize(
    "bad",
    [
        {"n_estimators": 0},
        {"calibration_folds": 2.5},
        {"features": 5},
        {"min_samples_leaf": 0},
        {"min_samples_leaf": "a"},
        {"max_leaf_nodes": 1},
        {"n_jobs": 0},
        {"n_jobs": "a"},
        {"random_state": "a"},
        {"random_state": -1},
    ],
    ids=str,
)
def test_parameters_that_are_none(bad):
    X, y = made_up(20, 1)
    with pytest.raises(InputError, match="bad "):
        small(**bad).fit(X, y)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("third", "found"), [("1e-6", "'1e-6'"), (np.nan, "nan"), (np.inf, "inf"), (None, "None")]
)
def test_times_that_are_no_numbers_are_refused_by_row(target, third, found):
    X, y = made_up(20, 1)
    times = [*y[:2], third, *y[3:]]
    model = small(features=RELATIVE, target=target)
    for column in (times, np.array(times, dtype=object), pd.Series(times)):
        # pandas makes NaN of None.
        with pytest.raises(InputError, match=f"time of row 2: found ({found}|nan), expected a num"):
            model.fit(X, column)


def test_parameters_that_are_whole_but_no_ints():
    X, y = made_up(20, 1)
    same = {"n_estimators": 30, "calibration_folds": 3, "min_samples_leaf": 2, "max_leaf_nodes": 5}
    other = {name: float(value) for name, value in same.items()}
    expected = small(**same).fit(X, y).predict_interval(X)
    assert (small(**other).fit(X, y).predict_interval(X) == expected).all()


def test_texts_and_spans_of_time_are_no_times():
    X, y = made_up(20, 1)
    for times in (list(map(str, y)), pd.to_timedelta(y, unit="s"), pd.Series(["a"] * 20)):
        with pytest.raises(InputError, match="bad observed time of row 0"):
            small().fit(X, times)


def test_times_in_another_order_than_the_features_are_refused():
    X, y = made_up(20, 1)
    times = pd.Series(y, index=X.index)
    assert small().fit(X, times).n_samples_ == 20
    with pytest.raises(InputError, match="times and features differ in order"):
        small().fit(X, times[::-1])
    # Labels that are others say nothing of the order.
    small().fit(X, times.set_axis(range(100, 120)))


def test_groups_in_another_order_than_the_features_are_refused():
    X, y = made_up(20, 1)
    groups = pd.Series(np.arange(20) % 5, index=X.index)
    with pytest.raises(InputError, match="groups and features differ in order"):
        small().fit(X, y, groups=groups[::-1])
    with pytest.raises(InputError, match="all numbers, or all text"):
        small().fit(X, y, groups=["a", None] * 10)


def test_labels_and_time_are_no_features():
    X, y = made_up(20, 6)
    samples = X.assign(time=y, workload="a", torus="b", mapping="c", key="d")
    model = TimePredictor(n_estimators=5, calibration_folds=0).fit(samples, samples["time"])
    assert list(model.feature_names_in_) == list(X.columns)


@pytest.mark.parametrize("n", [3, 4, 6, 10])
def test_intervals_of_few_samples_stay_sane(n):
    # Most trees agree about most of so few samples: their spread says nothing.
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X = pd.DataFrame({"a": rng.random(n + 20)})
        y = 1e-6 * np.exp(X["a"] + rng.normal(0, 0.1, n + 20))
        model = TimePredictor(n_estimators=30).fit(X[:n], y[:n])
        high = model.predict_interval(X[n:], 0.6)[:, 1]
        assert (high / model.predict(X[n:])).max() < 20


def test_intervals_of_too_few_samples_come_with_a_warning():
    X, y = made_up(19, 3)
    model = small().fit(X[:5], y[:5])
    with pytest.warns(
        UserWarning, match="5 samples are too few for intervals with coverage 0.9, which need 9"
    ):
        model.predict_interval(X)
    model.predict_interval(X, 0.8)
    small().fit(X[:9], y[:9]).predict_interval(X, 0.9)
    small().fit(X, y).predict_interval(X, 0.95)


def test_intervals_widen_with_the_distance_in_size(tmp_path):
    rng = np.random.default_rng(4)
    table = pd.DataFrame({"max_bytes": rng.random(60), "torus": ["4x4x4", "4x4x8"] * 30})
    times = 1e-6 * (1 + table["max_bytes"]) * rng.lognormal(0, 0.1, 60)
    model = TimePredictor(["max_bytes"], n_estimators=20).fit(table, times)
    assert model.nodes_ == (64, 128)
    save_predictor(model, tmp_path / "m.npz")
    again = load_predictor(tmp_path / "m.npz")
    assert again.nodes_ == (64, 128)

    def width(model, **torus):
        low, high = model.predict_interval(table[["max_bytes"]].assign(**torus)).T
        return np.log(high / low)

    for each in (model, again):
        for torus, factor in (("8x16", 1), ("4x4", 2), ("16x16", 1.5), ("8x8x16", 2.5)):
            np.testing.assert_allclose(width(each, torus=torus), factor * width(each))
    np.testing.assert_array_equal(width(model, torus="of some kind"), width(model))
