from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import toruscast as tc
from toruscast.answers.evaluation import answer
from toruscast.decision import Evaluation
from toruscast.errors import InputError
from toruscast.training import (
    TimePredictor,
    rcc,
    repeated_splits,
    single_features,
    summarise,
)
from toruscast.training.evaluation import baseline_scores, rcc_gains


def table(n: int = 84, seed: int = 1) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    made = pd.DataFrame(rng.random((n, 3)), columns=["useful", "little", "noise"])
    made["time"] = 1e-5 * (1 + made["useful"] + 0.2 * made["little"])
    return made.assign(mapping="m", workload="w", torus="t", key="k")


def small(features) -> TimePredictor:
    return TimePredictor(features, n_estimators=20)


def test_the_published_protocol_trains_on_56_of_84():
    scores = repeated_splits(
        table(), {"good": small(["useful"]), "bad": small(["noise"])}, n_splits=4
    )
    assert set(scores["n_train"]) == {56}
    assert set(scores["n_test"]) == {28}
    assert scores.groupby("predictor").size().to_dict() == {"good": 4, "bad": 4}
    mean = scores.groupby("predictor")["rcc"].mean()
    assert mean["good"] > 0.9
    assert 0.3 < mean["bad"] < 0.7
    assert (scores["tau_b"] <= 1).all()
    assert (scores["regret_5"] <= scores["regret_1"]).all()
    assert (scores["regret_5"] >= 0).all()


def test_scores_are_those_of_mappings_kept_out():
    data = table(30)
    scores = repeated_splits(data, small(["useful"]), n_splits=1, seed=5)
    order = np.random.default_rng(5).permutation(30)
    model = small(["useful"]).set_params(calibration_folds=0)
    model.fit(data.iloc[order[:20]], data["time"].iloc[order[:20]])
    test = data.iloc[order[20:]]
    assert scores["rcc"][0] == rcc(test["time"], model.predict(test))


def test_single_features_do_not_depend_on_the_order_of_the_rows():
    data = table(30).assign(same=1.0, steps=lambda t: t["useful"].round(1))
    scores = single_features(data)
    assert scores["rcc"]["same"] == 0.5
    assert scores["rcc"]["useful"] > scores["rcc"]["steps"] > 0.85
    for order in (slice(None, None, -1), np.random.default_rng(3).permutation(30)):
        pd.testing.assert_frame_equal(single_features(data.iloc[order]), scores)


def test_a_metric_that_no_split_defines_is_missing_without_a_warning():
    data = table(30).assign(time=1e-5)
    quality = summarise(repeated_splits(data, small(["useful"]), n_splits=6))
    tau = quality.set_index("metric").loc["tau_b"]
    assert np.isnan([tau["mean"], tau["low"], tau["high"]]).all()


def test_no_predictor_is_an_error():
    with pytest.raises(InputError, match="no predictor to score"):
        repeated_splits(table(30), {})


def test_splits_repeat_and_do_not_depend_on_threads():
    first = repeated_splits(table(30), small(["useful"]), n_splits=3, seed=2)
    again = repeated_splits(table(30), small(["useful"]), n_splits=3, seed=2, n_jobs=2)
    other = repeated_splits(table(30), small(["useful"]), n_splits=3, seed=3)
    pd.testing.assert_frame_equal(first, again)
    assert not first.equals(other)


def test_summary():
    values = np.linspace(0.8, 1.0, 41)
    scores = pd.DataFrame({"predictor": "a", "split": range(41), "rcc": values})
    row = summarise(scores).iloc[0]
    assert row["mean"] == pytest.approx(0.9)
    assert (row["low"], row["high"]) == (pytest.approx(0.805), pytest.approx(0.995))
    assert row["first_split"] == 0.8


@pytest.mark.parametrize("n_splits", [1, 4, 5])
def test_few_splits_make_no_interval(n_splits):
    values = np.linspace(0.8, 0.9, n_splits)
    scores = pd.DataFrame({"predictor": "a", "split": range(n_splits), "rcc": values})
    row = summarise(scores).iloc[0]
    assert row["mean"] == pytest.approx(values.mean())
    assert row[["low", "high"]].notna().tolist() == [n_splits == 5] * 2


def test_single_features_rank_alone():
    ranked = single_features(table())
    assert ranked.index.tolist() == ["useful", "little", "noise"]
    assert ranked["rcc"]["useful"] == rcc(table()["time"], table()["useful"])
    assert single_features(table(), ["noise"]).shape == (1, 2)


def test_a_better_feature_set_gains():
    sets = {"noise": ["noise"], "mine": ["noise", "useful"]}
    found = tc.evaluate(samples=table(), features=sets, model=small(None), n_splits=8)
    assert (found.best, found.sets) == ("mine", {"noise": ("noise",), "mine": ("noise", "useful")})
    result = found.table
    assert result.index.tolist() == ["noise", "mine"]
    assert result["gain"]["noise"] == 0
    assert result["gain_low"]["mine"] > 0.1
    assert result["gain"]["mine"] == pytest.approx(result["rcc"]["mine"] - result["rcc"]["noise"])
    assert (result["rcc_low"] <= result["rcc"]).all()
    assert (result["rcc"] <= result["rcc_high"]).all()


def test_margin_is_wider_than_that_of_independent_splits():
    # Gains 0 and 2: variance 2, factor 1/2 + 1/4, t(0.975, 1) = 12.706.
    scores = pd.DataFrame(
        {
            "predictor": list("aabb"),
            "split": [0, 1] * 2,
            "n_train": 8,
            "n_test": 2,
            "rcc": [0.0, 0.0, 0.0, 2.0],
        }
    )
    found = rcc_gains(scores).loc["b"]
    margin = 12.706 * np.sqrt(2 * (1 / 2 + 1 / 4))
    assert found.tolist() == pytest.approx([1, 1 - margin, 1 + margin], rel=1e-4)
    single = rcc_gains(scores[scores["split"] == 1]).loc["b"]
    assert single["gain"] == 2
    assert single[["low", "high"]].isna().all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: repeated_splits(table().drop(columns="time"), small(None)), "missing features"),
        (lambda: repeated_splits(table(3), small(None)), "cannot split"),
        (lambda: repeated_splits(table(), small(None), train_share=1.5), "cannot split"),
        (lambda: repeated_splits(table(), small(None), train_share=float("nan")), "cannot split"),
        (lambda: repeated_splits(table(), small(None), n_splits=0), "number of splits"),
        (lambda: tc.evaluate(samples=table(), features=["H1"]), r"features missing.*avg_bytes"),
        (lambda: tc.evaluate(samples=table(), features="pior"), "unknown feature.* expected prior"),
        (lambda: tc.evaluate(), "nothing to evaluate on: expected comm and torus"),
        (lambda: single_features(table(), ["absent"]), "expected absent"),
    ],
)
def test_bad_requests_are_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()


@pytest.mark.parametrize("noise", [0.0, 1.0])
@pytest.mark.parametrize("apart", [0.0, 0.04])
def test_a_headline_states_a_difference_only_where_its_interval_excludes_zero(noise, apart):
    rng = np.random.default_rng(1)
    samples = table().assign(coarse_time=lambda rows: rows["time"])
    splits = {"split": range(20), "n_train": 20, "n_test": 10}
    own, other = (0.85 + 0.03 * noise * rng.standard_normal(20) for _ in range(2))
    scores = pd.concat(
        [
            pd.DataFrame({"predictor": "first", "rcc": own + apart, **splits}),
            pd.DataFrame({"predictor": "second", "rcc": other, **splits}),
        ],
        ignore_index=True,
    ).assign(tau_b=0.5, r2=0.5, regret_1=0.1, regret_5=0.0)
    base = baseline_scores(samples, 20, 0)
    assert set(base["predictor"]) == {"coarse simulation"}
    assert base["rcc"].eq(1.0).all()
    shown = answer(Evaluation(samples, {}, scores))
    assert str(shown.headline).startswith("Use ")
    gain = rcc_gains(scores, scores.groupby("predictor")["rcc"].mean().idxmax())
    is_known = gain["high"].drop(gain.index[gain["gain"] == 0]).lt(0).all() and apart > 0
    assert ("All others are worse." in shown.lines[0]) == is_known
    assert ("Indistinguishable from" in shown.lines[0]) == (not is_known)
    beaten = answer(Evaluation(samples, {}, scores, baselines=base))
    head = (
        "No training needed: coarse simulation orders better than any trained set (1.000 of pairs)"
    )
    assert str(beaten.headline) == head
    assert beaten.lines[0].startswith("The best trained set, ")
    alone = answer(Evaluation(samples, {}, scores[scores["predictor"] == "first"]))
    assert "worse" not in alone.lines[0]
    assert "Indistinguishable" not in alone.lines[0]
