"""Simulated samples of the experiments, and what is learned from them."""

import numpy as np
import pandas as pd
import pytest

from studies import SAMPLES
from studies.sc13 import hybrids, plan, reach, together
from studies.sc13.samples import cases, load
from studies.scores import by_case, forecast, scores, splits
from studies.study import Inputs
from toruscast import InputError, TimePredictor, Torus, patterns, simulate, strategies
from toruscast.training import rcc, read_samples, repeated_splits, write_samples

INPUTS = Inputs(samples=SAMPLES)


@pytest.fixture(scope="module")
def stored():
    return read_samples(SAMPLES)


def test_table_holds_every_block_of_the_plan(stored):
    counted = stored.groupby(["workload", "torus"]).size().to_dict()
    assert counted == {(b.name, str(b.torus)): b.n_mappings for b in plan.blocks()}
    origin = stored.attrs["provenance"]
    assert set(origin["processor_seconds"]) == {block.label for block in plan.blocks()}


@pytest.mark.parametrize("size", ["8 B", "512 B"])
def test_stored_time_is_what_the_simulator_says(stored, size):
    block = plan.Block("2D Halo", size, plan.SMALL_HOST)
    rows = stored[stored["workload"] == block.name].set_index("mapping")
    mapping = strategies.sample(block.workload, block.torus, n=84, seed=1, tasks_per_node=16)[40]
    result = simulate(
        block.workload, block.torus, mapping, routing="by_size", coarsening=block.coarsening
    )
    assert result.time == pytest.approx(rows.loc[mapping.name, "time"], rel=1e-12)


class SmallBlock(plan.Block):
    torus = Torus((2, 2))
    workload = patterns.halo_2d((8, 8), 8, periodic=True).renamed("small")
    name = "small"


def test_build_goes_on_and_notes_its_cost(tmp_path):
    store, block = tmp_path / "samples.parquet", SmallBlock("2D Halo", "8 B", (2, 2), 6)
    table = plan.build(store, block)
    assert len(table) == 6
    origin = read_samples(store).attrs["provenance"]
    origin["processor_seconds"][block.label] = 1000.0
    # A sample of the block under another key is one of an older plan.
    old = pd.concat([read_samples(store), table.assign(key=[f"old {i}" for i in range(6)])])
    write_samples(old.reset_index(drop=True), store, origin)
    again = plan.build(store, block)
    kept = read_samples(store)
    assert again["time"].tolist() == table["time"].tolist()
    assert sorted(kept["key"]) == sorted(table["key"])
    assert kept.attrs["provenance"]["processor_seconds"][block.label] < 900


def test_tables_that_are_not_complete_are_refused(stored, tmp_path):
    path = tmp_path / "samples.parquet"
    origin = stored.attrs["provenance"]
    with pytest.raises(InputError, match="no table of samples"):
        load(Inputs(), plan.SMALL)
    write_samples(stored.iloc[1:].reset_index(drop=True), path, origin)
    with pytest.raises(InputError, match=r"samples of 2D Halo 8 B.*found 83 mappings"):
        load(Inputs(samples=path), plan.SMALL)
    write_samples(stored.drop(columns="max_bytes"), path, origin)
    with pytest.raises(InputError, match=r"columns missing.*max_bytes"):
        load(Inputs(samples=path), plan.SMALL)
    write_samples(stored.assign(time=1.0), path, origin)
    with pytest.raises(InputError, match="1 different times"):
        load(Inputs(samples=path), plan.SMALL)


def test_scores_of_a_perfect_and_of_a_reversed_forecast():
    seen = [1.0, 2.0, 3.0, 4.0]
    perfect = {"rcc": 1.0, "wrong": 0, "pairs": 6, "r2": 1.0, "r2_log": 1.0, "regret_1": 0.0}
    assert scores(seen, seen) == perfect
    worst = scores(seen, seen[::-1])
    assert (worst["rcc"], worst["wrong"], worst["regret_1"]) == (0.0, 6, 3.0)
    assert np.isnan(scores(seen, [0.0, *seen[1:]])["r2_log"])


def test_forecast_scores_the_test_rows_only_on_the_splits_of_evaluate():
    some = load(INPUTS, plan.SMALL, ("16 KB",), ("2D Halo",))
    (train, test) = splits(len(some), 1)[0]
    model = TimePredictor("H3", n_estimators=30, calibration_folds=0)
    scored, predictions = forecast(some.iloc[train], some.iloc[test], {"H3": model})
    assert predictions["observed"].tolist() == some["time"].iloc[test].tolist()
    assert scored["rcc"][0] == rcc(predictions["observed"], predictions["predicted"])
    assert by_case(predictions)["rcc"][0] == scored["rcc"][0]
    ((_, group),) = cases(some)
    assert repeated_splits(group, model, n_splits=1)["rcc"][0] == scored["rcc"][0]


@pytest.fixture
def short(monkeypatch):
    """Fewer splits, trees and sizes."""
    monkeypatch.setattr(hybrids, "_SPLITS", 1)
    monkeypatch.setattr(hybrids, "_TREES", 10)
    monkeypatch.setattr(together, "_SPLITS", 1)
    monkeypatch.setattr(reach, "_RUN", (56,))
    for module in (hybrids, reach, together):
        monkeypatch.setattr(
            module,
            "load",
            lambda inputs, tasks, sizes=None, **options: load(
                inputs, tasks, sizes or ("512 B", "16 KB"), **options
            ),
        )


@pytest.mark.parametrize(
    "part",
    [
        hybrids.single,
        lambda inputs: hybrids.hybrid_sets(inputs, plan.SMALL),
        together.mixture,
        together.transfer,
        reach.learning_curve,
    ],
)
def test_parts_of_the_study_run(part, short):
    found = part(INPUTS)
    assert found.tables
    assert all(np.isfinite(target.reached) for target in found.targets)
    assert all(len(table) for table in (*found.tables.values(), *found.shown.values()))


def test_single_features_are_never_bounds_of_the_time(short):
    table = hybrids.single(INPUTS).tables["single-features"]
    assert not table["best"].str.endswith("_bound").any()


def test_the_feature_behind_the_slowdown_matters_most(monkeypatch):
    table = load(INPUTS, plan.SMALL, ("16 KB",), ("2D Halo",))
    planted = table.assign(time=table["lower_bound"] * (1 + table["link_share"]))
    monkeypatch.setattr(reach, "load", lambda *_: planted)
    found = reach.importance(INPUTS).tables["importance"]
    assert found["feature"][0] == "lower_bound"


@pytest.mark.slow
def test_intervals_hold_nine_tenths(short):
    inside = reach.reliability(INPUTS).targets[0].reached
    assert 0.85 < inside < 0.95
