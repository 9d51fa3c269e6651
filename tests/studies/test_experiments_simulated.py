"""Experiments on simulated samples: what trains, what is forecast, what they find."""

import re

import numpy as np
import pandas as pd
import pytest

from studies import EXPERIMENTS, Inputs, plan
from studies.sc13 import combinations as combinations_module
from studies.sc13 import hybrids as hybrids_module
from studies.sc13 import importance as importance_module
from studies.sc13 import learners as learners_module
from studies.sc13 import mixture as mixture_module
from studies.sc13 import noise, simulated
from studies.sc13 import transfer as transfer_module
from studies.scores import by_case, forecast, scores
from toruscast import datasets
from toruscast.report import markdown
from toruscast.training import TimePredictor, rcc, write_samples


@pytest.fixture(scope="module")
def inputs():
    return Inputs(samples=datasets.experiment_samples())


@pytest.fixture(scope="module")
def table(inputs):
    return simulated.load(inputs)


def test_noise_has_the_spread_asked_for():
    times = noise.noisy(np.ones(20_000), 0.05, seed=3)
    assert np.log(times).std() == pytest.approx(0.05, rel=0.03)
    assert np.array_equal(noise.noisy(times, 0.0), times)


def test_forecasts_under_noise_stay_below_their_ceiling():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"max_bytes": rng.uniform(1, 2, 400)}).assign(
        benchmark="2D Halo", size="8 B", torus="4x4", time=lambda rows: rows["max_bytes"] * 1e-3
    )
    learners = {"bytes": TimePredictor(("max_bytes",), calibration_folds=0)}
    found = noise.forecast_under_noise(table[:200], table[200:], learners)
    assert found["noise"].tolist() == list(noise.SHARES)
    # The feature tells the quiet time: what is missing to 1 is the noise, of both tables.
    assert found["ceiling"].is_monotonic_decreasing
    assert (found["rcc"] < found["ceiling"] + 0.005).all()
    assert (found["rcc"] > found["ceiling"] - 0.03).all()


def test_scores_of_a_perfect_and_of_a_reversed_forecast():
    seen = [1.0, 2.0, 3.0, 4.0]
    assert scores(seen, seen) == {
        "rcc": 1.0,
        "wrong": 0,
        "pairs": 6,
        "r2": 1.0,
        "r2_log": 1.0,
        "regret_1": 0.0,
    }
    worst = scores(seen, seen[::-1])
    assert (worst["rcc"], worst["wrong"], worst["regret_1"]) == (0.0, 6, 3.0)
    assert np.isnan(scores(seen, [0.0, *seen[1:]])["r2_log"])


def test_forecast_scores_the_test_rows_only(table):
    some = simulated.synthetic(table, plan.SMALL)
    some = some[(some["benchmark"] == "2D Halo") & (some["size"] == "16 KB")]
    train, test = some.iloc[:56], some.iloc[56:]
    model = TimePredictor("H3", n_estimators=30, calibration_folds=0)
    scored, predictions = forecast(train, test, {"H3": model})
    assert predictions["observed"].tolist() == test["time"].tolist()
    assert scored["rcc"][0] == rcc(test["time"], predictions["predicted"])
    assert by_case(predictions)["rcc"][0] == scored["rcc"][0]


# What makes a run short: fewer splits, trees, mappings and simulations.
SHORT = {
    "chance": {"_EVERY": 28, "BENCHMARKS": ("2D Halo",)},
    "learners": {"_SPLITS": 1},
    "learning_curve": {"_SPLITS": 1, "_RUN": (5, 56)},
    "level_1": {"_SPLITS": 1, "BENCHMARKS": ("2D Halo",)},
    "mixture": {"_SPLITS": 2},
    "pf3d": {"_SPLITS": 1, "_NOISY_SPLITS": 1},
    "reliability": {"_SPLITS": 1, "_DRAWS": 50},
}
# Learners fitted case by case: one size is enough.
BY_CASE = ("level-1", "learners", "learning-curve", "reliability")


@pytest.mark.parametrize(
    "name",
    ["prior-features", "mixture", "transfer", "unseen", "chance", "pf3d", *BY_CASE],
)
def test_experiments_run_and_name_their_tables(name, inputs, table, planted, monkeypatch):
    few = {
        "H1": TimePredictor("H1", n_estimators=10, calibration_folds=0),
        "slowdown": TimePredictor("relative", "slowdown", n_estimators=10, calibration_folds=0),
    }
    for module in (mixture_module, transfer_module):
        monkeypatch.setattr(module, "learners", lambda: few)
    monkeypatch.setattr("studies.sc13.unseen.learners", lambda: few)
    for module, changes in SHORT.items():
        for constant, value in changes.items():
            monkeypatch.setattr(f"studies.{module}.{constant}", value)
    found = EXPERIMENTS[name].run(planted(table["time"]) if name in BY_CASE else inputs)
    assert {chart.table for chart in found.charts} <= set(found.tables)
    assert set(found.shown) <= set(found.tables)
    assert all(isinstance(table, pd.DataFrame) and len(table) for table in found.tables.values())
    for bar in found.bars:
        least, most = possible(bar.what)
        assert least <= bar.measured <= most, bar


def possible(what):
    """Least and largest figure that a bar of this name can have; of RCC, R^2 and shares 1."""
    count = re.match(r"(?:wrong pairs per|cases of) ([\d,]+)", what)
    if count:
        return 0, int(count[1].replace(",", ""))
    if "seconds" in what:
        return 0, np.inf
    return -1 if "RCC lost" in what else 0, 1


def test_transfer_trains_on_the_small_host_only(inputs, monkeypatch):
    seen = []

    def spy(train, test, learners):
        seen.append((set(train["tasks"]), set(test["tasks"])))
        return forecast(train, test, learners)

    few = {"H1": TimePredictor("H1", n_estimators=5, calibration_folds=0)}
    monkeypatch.setattr(transfer_module, "learners", lambda: few)
    monkeypatch.setattr(transfer_module, "forecast", spy)
    EXPERIMENTS["transfer"].run(inputs)
    # As published, and with all sizes of messages.
    assert seen == [({plan.SMALL}, {plan.LARGE})] * 2


def test_pairwise_ranker_orders_what_a_line_orders():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    times = X @ [3.0, -2.0, 0.0]
    ranker = learners_module.PairwiseRanker().fit(X[:40], times[:40])
    assert rcc(times[40:], ranker.predict(X[40:])) > 0.97


@pytest.fixture
def planted(table, tmp_path):
    """Write a table whose times follow from its features; returns the inputs of an experiment."""

    def write(times, **columns):
        made = table.assign(**columns, time=times)
        # One size is enough: three cases.
        made = made[made["size"] == "16 KB"].drop(columns=list(simulated.CASE))
        write_samples(made, tmp_path / "planted.parquet", {})
        return Inputs(samples=tmp_path / "planted.parquet")

    return write


def test_importance_puts_what_makes_the_time_first(table, planted, monkeypatch):
    for name in ("_SPLITS", "_SHUFFLES"):
        monkeypatch.setattr(importance_module, name, 1)
    bound = np.random.default_rng(0).uniform(1e-3, 2e-3, len(table))
    inputs = planted(noise.noisy(bound, 0.01), lower_bound=bound)
    tables = EXPERIMENTS["importance"].run(inputs).tables
    found = tables["importance"]
    assert found["feature"][0] == "lower_bound"
    # Three cases: the margin of their mean is 4.3 standard errors, not 1.96.
    lost = tables["importance-cases"].groupby("feature")["lost"]
    margin = (found["high"] - found["low"]).to_numpy() / 2
    error = lost.sem().reindex(found["feature"]).to_numpy()
    assert margin == pytest.approx(4.303 * error, rel=1e-3)
    # Shuffled, it leaves an order by chance: half of what it had.
    assert found["lost"][0] == pytest.approx(0.5, abs=0.08)
    assert found["lost"][1] < 0.05


def test_importance_finds_the_feature_behind_the_slowdown(table, planted, monkeypatch):
    for name in ("_SPLITS", "_SHUFFLES"):
        monkeypatch.setattr(importance_module, name, 1)
    waits = np.random.default_rng(0).random(len(table))
    inputs = planted(1e-3 * (1 + 3 * waits), lower_bound=1e-3, avg_delay_AO=waits)
    found = EXPERIMENTS["importance"].run(inputs).tables["importance"]
    assert found["feature"][0] == "avg_delay_AO"
    assert found["lost"][1] < 0.1 < 0.3 < found["lost"][0]


def test_hybrid_whose_features_make_the_time_wins(table, planted, monkeypatch):
    for name, value in {"NOISE": (0.0,), "SPLITS": 2, "TREES": 40}.items():
        monkeypatch.setattr(hybrids_module, name, value)
    rng = np.random.default_rng(0)
    # H3 is H1 with avg_buffer, which no other set has.
    buffers, fifos = rng.random(len(table)), rng.random(len(table))
    inputs = planted(1e-3 * (1 + 5 * buffers + 0.2 * fifos), avg_buffer=buffers, max_FIFO=fifos)
    found = EXPERIMENTS["hybrids-16384"].run(inputs)
    best = found.tables["hybrids-16384-best"]
    assert set(best["features"]) == {"H3"}
    assert best["rcc"].min() > 0.9
    assert best["rcc"].mean() > 0.95
    # Handed the time itself the learner does better than with any features.
    assert (best["rcc_given"] >= best["rcc"]).all()
    assert (best["r2_given"] > best["r2"]).all()
    # What is drawn is the split that the table names, of the best set.
    drawn = by_case(found.tables["hybrids-16384-forecasts"])
    assert drawn[["benchmark", "size"]].equals(best[["benchmark", "size"]])
    assert drawn["learner"].tolist() == best["features"].tolist()
    assert drawn["rcc"].tolist() == best["rcc_first_split"].tolist()
    charts = [(chart.kind, chart.x, chart.y) for chart in found.charts]
    assert charts[-1] == ("scatter", "observed", "predicted")


def test_notes_of_hybrids_tell_how_far_the_bound_alone_gets(table):
    some = simulated.synthetic(table, plan.SMALL, ["512 B"])
    exact = some.assign(lower_bound=some["time"])
    best = pd.DataFrame({"rcc": [0.9], "r2_given": [1.0]})
    first = hybrids_module._notes(exact, best)[0]
    assert first.endswith("of all cases, with an RCC of 1.000 to 1.000 alone.")
    first = hybrids_module._notes(exact.assign(lower_bound=1.0), best)[0]
    assert re.search(r"RCC of 0\.50\d to 0\.50\d alone\.$", first)


def test_forecasts_above_their_ceiling_are_told():
    loud = pd.DataFrame({"rcc": [0.9, 0.75, 0.7], "ceiling": [0.95, 0.7, 0.7]})
    (note,) = hybrids_module._note_on_ceilings(loud)
    assert note.startswith("In 1 of 3 cases with noise")
    assert "(by 0.050 at most)" in note
    assert hybrids_module._note_on_ceilings(loud[:1]) == ()


def test_pf3d_draws_both_scores_and_its_times(inputs, monkeypatch):
    for constant, value in SHORT["pf3d"].items():
        monkeypatch.setattr(f"studies.sc13.pf3d.{constant}", value)
    found = EXPERIMENTS["pf3d"].run(inputs)
    assert [chart.y for chart in found.charts] == ["rcc", "r2", "predicted"]
    drawn = found.tables["pf3d-forecasts"]
    assert drawn.groupby("tasks").size().to_dict() == {plan.SMALL: 28, plan.LARGE: 28}
    scored = found.tables["pf3d"].set_index(["tasks", "features"])["rcc_first_split"]
    for (tasks, name), some in drawn.groupby(["tasks", "learner"]):
        assert rcc(some["observed"], some["predicted"]) == scored[tasks, name]


def test_ties_keep_a_right_forecast_below_one():
    times = np.repeat(np.random.default_rng(0).random(30), 3)
    share, left = hybrids_module.ties(times, 10)
    assert share == pytest.approx(30 * 3 / (90 * 89 / 2))
    # Half of the tied pairs are drawn in the order that counts as wrong.
    assert left == pytest.approx(1 - share / 2, abs=0.005)
    table = pd.DataFrame({"benchmark": "2D Halo", "torus": "t", "size": "8 B", "time": times})
    (note,) = hybrids_module._note_on_ties(table)
    assert "2.2% to 2.2% of the pairs" in note
    assert hybrids_module._note_on_ties(table.assign(time=np.arange(90))) == ()
    assert hybrids_module._note_on_ties(table.assign(size="4 MB")) == ()


def test_few_noisy_splits_of_hybrids_make_no_interval(table, planted, monkeypatch):
    for name, value in {"NOISE": (0.0, 0.01), "TREES": 5}.items():
        monkeypatch.setattr(hybrids_module, name, value)
    sets = {name: simulated.SETS[name] for name in ("prior", "H1", simulated.GIVEN)}
    monkeypatch.setattr(simulated, "SETS", sets)
    found = EXPERIMENTS["hybrids-16384"].run(planted(table["time"]))
    best = found.tables["hybrids-16384-best"]
    shown = best["rcc_low"].notna() & best["rcc_high"].notna()
    assert shown.tolist() == (best["noise"] == 0).tolist()
    loud = [line for line in markdown.table(best).split("\n") if "| 0.01000 |" in line]
    assert len(loud) == 3
    assert all(" | - | - | " in line for line in loud)


def test_combinations_are_chosen_without_the_mappings_held_out(inputs, monkeypatch):
    seen = {"search": [], "choose": []}

    def search(train, n_jobs):
        seen["search"].append({name: set(group["key"]) for name, group in train.items()})
        return pd.DataFrame(
            {"features": ["avg_bytes + max_bytes", "max_dilation + max_FIFO"], "rcc": [0.9, 0.8]}
        )

    def choose(train, among, n_jobs):
        seen["choose"].append({name: set(group["key"]) for name, group in train.items()})
        return next(iter(among))

    monkeypatch.setattr(combinations_module, "_search", search)
    monkeypatch.setattr(combinations_module, "_choose", choose)
    monkeypatch.setattr(combinations_module, "_SEARCHES", 1)
    monkeypatch.setattr(simulated, "HYBRIDS", ("H1",))
    found = EXPERIMENTS["combinations"].run(inputs)
    assert seen["choose"] == seen["search"] * 2
    assert {len(keys) for keys in seen["search"][0].values()} == {plan.N_MAPPINGS - 28}
    result = found.tables["combinations-held-out"]
    assert (result["pairs"] == 28 * 27 // 2).all()
    picked = found.tables["combinations-chosen"].set_index("set")["features"]
    assert picked["pair or triple chosen"] == "avg_bytes + max_bytes"
    assert picked["hybrid chosen"] == "H1"
    # What was chosen scores as the set that it is.
    scored = result.pivot(index="benchmark", columns="set", values="rcc")
    assert scored["hybrid chosen"].tolist() == scored["H1"].tolist()


def test_search_puts_the_pair_that_makes_the_time_first(monkeypatch):
    monkeypatch.setattr(combinations_module, "_FEATURES", 5)
    rng = np.random.default_rng(1)
    names = [f"f{number}" for number in range(8)]
    train = {}
    for benchmark in ("one", "two"):
        group = pd.DataFrame(rng.random((56, 8)), columns=names)
        train[benchmark] = group.assign(time=1 + 4 * group["f3"] + 3 * group["f6"])
    found = combinations_module._search(train, 1)
    assert len(found) == 10 + 10
    assert {"f3", "f6"} <= set(found["features"][0].split(" + "))
