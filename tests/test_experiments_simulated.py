"""Experiments on simulated samples: what a sample is of, what trains, what is forecast."""

import numpy as np
import pandas as pd
import pytest

from toruscast import datasets
from toruscast.features import simulate
from toruscast.mapping import InputError, strategies
from toruscast.training import TimePredictor, rcc, read_samples, write_samples
from toruscast.training.experiments import EXPERIMENTS, Inputs, plan, simulated
from toruscast.training.experiments import learners as learners_module
from toruscast.training.experiments import mixture as mixture_module
from toruscast.training.experiments import transfer as transfer_module
from toruscast.training.experiments.scores import by_case, forecast, scores


@pytest.fixture(scope="module")
def inputs():
    return Inputs(samples=datasets.experiment_samples())


@pytest.fixture(scope="module")
def table(inputs):
    return simulated.load(inputs)


def test_table_holds_every_block_of_the_plan(table):
    counted = table.groupby(["workload", "torus"]).size().to_dict()
    assert counted == {(b.name, str(b.torus)): b.n_mappings for b in plan.blocks()}
    assert table["key"].is_unique


def test_table_says_what_it_cost(inputs):
    cost = read_samples(inputs.samples).attrs["provenance"]["processor_seconds"]
    assert set(cost) == {f"{b.name} on {b.torus}" for b in plan.blocks()}
    assert min(cost.values()) > 0


def test_stored_time_is_what_the_simulator_says(table):
    block = plan.Block("2D Halo", "512 B", plan.SMALL_HOST)
    workload, torus = block.workload, block.torus
    mapping = strategies.make("identity", workload, torus, tasks_per_node=plan.TASKS_PER_NODE)
    own = table[(table["workload"] == block.name) & (table["mapping"] == "identity")]
    result = simulate(workload, torus, mapping, routing="by_size", coarsening=block.coarsening)
    assert own["time"].tolist() == [result.time]


def test_labels_of_a_sample(table):
    row = table[table["workload"] == "Sub A2A 16 KB, 65536 tasks"].iloc[0]
    assert (row["benchmark"], row["size"], row["tasks"]) == ("Sub A2A", "16 KB", 65536)
    assert set(simulated.synthetic(table, plan.SMALL)["benchmark"]) == set(plan.BENCHMARKS)
    assert set(simulated.pf3d(table, plan.LARGE)["size"]) == {""}


def test_strange_workload_is_refused(table, tmp_path):
    strange = table.drop(columns=list(simulated.CASE)).assign(workload="4D Halo 8 B, 1 tasks")
    write_samples(strange, tmp_path / "strange.parquet", {})
    with pytest.raises(InputError, match="no experiment knows"):
        simulated.load(Inputs(samples=tmp_path / "strange.parquet"))


def test_missing_blocks_are_named(table, tmp_path):
    some = simulated.synthetic(table, plan.SMALL).drop(columns=list(simulated.CASE))
    write_samples(some, tmp_path / "some.parquet", {})
    with pytest.raises(InputError, match="no samples of 65536 tasks"):
        EXPERIMENTS["transfer"].run(Inputs(samples=tmp_path / "some.parquet"))


def test_no_counter_is_the_time_or_its_bound(table):
    names = simulated.counters(table)
    assert not {"time", "lower_bound", *simulated.CASE} & set(names)
    assert not any("bound" in name or "sketch" in name for name in names)


def test_noise_has_the_spread_asked_for():
    times = simulated.noisy(np.ones(20_000), 0.05, seed=3)
    assert np.log(times).std() == pytest.approx(0.05, rel=0.03)
    assert np.array_equal(simulated.noisy(times, 0.0), times)


def test_scores_of_a_perfect_and_of_a_reversed_forecast():
    seen = [1.0, 2.0, 3.0, 4.0]
    assert scores(seen, seen) == {
        "rcc": 1.0, "wrong": 0, "pairs": 6, "r2": 1.0, "r2_log": 1.0, "regret_1": 0.0,
    }  # fmt: skip
    worst = scores(seen, seen[::-1])
    assert (worst["rcc"], worst["wrong"], worst["regret_1"]) == (0.0, 6, 3.0)


def test_forecast_scores_the_test_rows_only(table):
    some = simulated.synthetic(table, plan.SMALL)
    some = some[(some["benchmark"] == "2D Halo") & (some["size"] == "16 KB")]
    train, test = some.iloc[:56], some.iloc[56:]
    model = TimePredictor("H3", n_estimators=30, calibration_folds=0)
    scored, predictions = forecast(train, test, {"H3": model})
    assert predictions["observed"].tolist() == test["time"].tolist()
    assert scored["rcc"][0] == rcc(test["time"], predictions["predicted"])
    assert by_case(predictions)["rcc"][0] == scored["rcc"][0]


@pytest.mark.parametrize("name", ["prior-features", "mixture", "transfer", "unseen"])
def test_experiments_run_and_name_their_tables(name, inputs, monkeypatch):
    few = {
        "H1": TimePredictor("H1", n_estimators=10, calibration_folds=0),
        "slowdown": TimePredictor("relative", "slowdown", n_estimators=10, calibration_folds=0),
    }
    for module in (mixture_module, transfer_module):
        monkeypatch.setattr(module, "learners", lambda: few)
    monkeypatch.setattr("toruscast.training.experiments.unseen.learners", lambda: few)
    monkeypatch.setattr(mixture_module, "_SPLITS", 2)
    found = EXPERIMENTS[name].run(inputs)
    assert {chart.table for chart in found.charts} <= set(found.tables)
    assert set(found.shown) <= set(found.tables)
    assert all(isinstance(table, pd.DataFrame) and len(table) for table in found.tables.values())
    assert all(0 < bar.measured < 14_028 for bar in found.bars)


def test_transfer_trains_on_the_small_host_only(inputs, monkeypatch):
    seen = []

    def spy(train, test, learners):
        seen.append((set(train["tasks"]), set(test["tasks"])))
        return forecast(train, test, learners)

    few = {"H1": TimePredictor("H1", n_estimators=5, calibration_folds=0)}
    monkeypatch.setattr(transfer_module, "learners", lambda: few)
    monkeypatch.setattr(transfer_module, "forecast", spy)
    EXPERIMENTS["transfer"].run(inputs)
    assert seen == [({plan.SMALL}, {plan.LARGE})]


def test_pairwise_ranker_orders_what_a_line_orders():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    times = X @ [3.0, -2.0, 0.0]
    ranker = learners_module.PairwiseRanker().fit(X[:40], times[:40])
    assert rcc(times[40:], ranker.predict(X[40:])) > 0.97
