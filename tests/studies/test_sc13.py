"""Simulated samples of the experiments, and what is learned from them."""

import json
from threading import Thread

import numpy as np
import pandas as pd
import pytest

from studies import SAMPLES
from studies.page import study_page
from studies.sc13 import STUDY, hybrids, own, plan, reach, together
from studies.sc13.samples import NotBuiltError, built, cases, load, said
from studies.scores import by_case, forecast, scores
from studies.study import Findings, Inputs
from toruscast import InputError, TaskMapping, TimePredictor, Torus, patterns, simulate, strategies
from toruscast._features import FEATURES
from toruscast.mapping import MappingProblem
from toruscast.mapping.patterns import from_recipe
from toruscast.training import build_samples, rcc, read_samples, repeated_splits, write_samples
from toruscast.training.evaluation import random_splits
from toruscast.training.samples import add_metrics
from toruscast.training.store import SampleOptions, SampleSet

INPUTS = Inputs(samples=SAMPLES)


@pytest.fixture(scope="module")
def stored():
    return read_samples(SAMPLES)


def test_the_table_holds_whole_blocks_of_the_plan(stored):
    named = {(b.name, str(b.torus)): b for b in plan.blocks()}
    origin = stored.attrs["provenance"]
    for key, rows in stored.groupby(["workload", "torus"]):
        block = named[key]
        assert len(rows) == block.n_mappings
        assert origin["protocol_of"][block.label] == block.protocol
        assert origin["processor_seconds"][block.label] > 0


def test_table_tells_how_its_traffic_is_made(stored):
    """Else `toruscast evaluate --plugin` cannot route it again; `studies build` notes it."""
    origin = json.loads(json.dumps(stored.attrs["provenance"]))
    for block in plan.blocks()[:3]:
        again = from_recipe(origin["workloads"][block.name], block.name).total
        assert again.name == block.workload.total.name
        assert (again.dst == block.workload.total.dst).all()
    assert set(stored["workload"]) <= set(origin["workloads"])
    few = stored[stored["workload"] == plan.blocks()[0].name].iloc[:20].reset_index(drop=True)
    few.attrs = dict(stored.attrs)
    more = add_metrics(few, ["max_bytes"])
    assert more["max_bytes"].tolist() == few["max_bytes"].tolist()


@pytest.mark.parametrize("size", ["8 B", "512 B"])
def test_stored_time_is_what_the_simulator_says(stored, size):
    block = plan.Block("2D Halo", size, plan.SMALL_HOST)
    rows = stored[stored["workload"] == block.name].set_index("mapping")
    name = rows.index[40]
    mapping = strategies.make(name, block.workload, block.torus, tasks_per_node=16)
    result = simulate(block.workload, block.torus, mapping, routing="by_size", iterations=4)
    assert result.time == pytest.approx(rows.loc[name, "time"], rel=1e-12)
    assert rows.loc[name, "avg_delay_AO"] > 0


# Blocks that were stored with other keys, so that `studies build` simulates them again. Their times
# are those of the simulator, as the test above checks for two of them.
STALE = {f"{benchmark} {size}" for benchmark in ("2D Halo", "3D Halo") for size in plan.SIZES}


def test_blocks_with_old_keys_are_named(stored):
    features = tuple(FEATURES[name] for name in plan.features())
    stale = set()
    for benchmark in ("2D Halo", "3D Halo"):
        for size in plan.SIZES:
            block = plan.Block(benchmark, size, plan.SMALL_HOST)
            identity = strategies.make("identity", block.workload, block.torus, tasks_per_node=16)
            problem = MappingProblem(block.workload, block.torus, "by_size")
            options = SampleOptions(features, block.coarsening, block.iterations)
            (key,) = SampleSet.from_mappings(problem, identity, options).keys
            rows = stored[stored["workload"] == block.name].set_index("mapping")
            stale |= set() if rows.loc["identity", "key"] == key else {f"{benchmark} {size}"}
    assert stale == STALE


def test_no_two_structured_mappings_load_the_links_alike(stored):
    block = plan.Block("2D Halo", "512 B", plan.SMALL_HOST)
    rows = stored[stored["workload"] == block.name]
    assert not rows.duplicated(["hop_bytes", "std_bytes", "max_bytes", "q99_bytes"]).any()
    assert set(rows["mapping"].str.partition("-")[0]) <= set(plan.STRUCTURED)


@pytest.mark.parametrize("block", plan.blocks()[::7], ids=lambda block: block.label)
def test_a_sketch_costs_half_or_less(block):
    coarser = block.sketch["coarsening"] / block.coarsening
    assert block.iterations * coarser >= 2 * block.sketch["iterations"]


def test_tables_of_one_caption_are_one():
    first = pd.DataFrame({"block": ["b", "a"], "prior": [1, 2]})
    parts = {
        "one": Findings("One.", {}, {"all": first, "own": first}),
        "two": Findings("Two.", {}, {"all": pd.DataFrame({"block": ["a"], "sketch": [3]})}),
    }
    page = study_page(STUDY, parts, "abc")
    assert page.index("Two.") < page.index("| block | prior | sketch |")
    assert page.index("| b | 1 | - |") < page.index("| a | 2 | 3")
    assert page.count("| block | prior |") == 2


class SmallBlock(plan.Block):
    torus = Torus((2, 2))
    workload = patterns.halo_2d((8, 8), 8, periodic=True).renamed("small")
    name = "small"


def test_what_others_add_while_a_block_is_settled_stays(tmp_path, monkeypatch):
    store, block = tmp_path / "samples.parquet", SmallBlock("2D Halo", "8 B", (2, 2), 6, "wide")
    other = patterns.halo_2d((2, 2), 8).renamed("other"), Torus((2, 2)), TaskMapping(range(4), 4)
    adding = []

    def join_tables(tables, join=plan.join_tables):
        if not adding:
            # It waits until the block is settled.
            adding.append(Thread(target=build_samples, args=([other], store)))
            adding[0].start()
        return join(tables)

    monkeypatch.setattr(plan, "join_tables", join_tables)
    plan.build(store, block)
    adding[0].join()
    assert sorted(set(read_samples(store)["workload"])) == ["other", "small"]
    assert len(read_samples(store)) == 7


def test_build_goes_on_and_notes_its_cost(tmp_path):
    store, block = tmp_path / "samples.parquet", SmallBlock("2D Halo", "8 B", (2, 2), 6, "wide")
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


def test_blocks_that_are_not_whole_are_left_out(stored, tmp_path):
    path = tmp_path / "samples.parquet"
    origin = stored.attrs["provenance"]
    with pytest.raises(InputError, match="no table of samples"):
        load(Inputs(), plan.SMALL)
    one = stored[stored["workload"] == plan.Block("2D Halo", "8 B", plan.SMALL_HOST).name]
    write_samples(one.reset_index(drop=True), path, origin)
    assert len(load(Inputs(samples=path), plan.SMALL)) == 84
    assert f"**1 of {len(plan.blocks())} blocks" in built(Inputs(samples=path)).text
    for damaged, told in (
        (one.iloc[1:], origin),
        (one.assign(time=1.0), origin),
        # Made in another way.
        (one, origin | {"protocol_of": {}}),
    ):
        write_samples(damaged.reset_index(drop=True), path, told)
        with pytest.raises(NotBuiltError, match="samples not built"):
            load(Inputs(samples=path), plan.SMALL)
        found = said(hybrids.single)(Inputs(samples=path))
        assert found.text.startswith("Not built yet: `python -m studies build --out")
    write_samples(stored.drop(columns="max_bytes"), path, origin)
    with pytest.raises(InputError, match=r"columns missing.*max_bytes"):
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
    (train, test) = random_splits(len(some), 1)[0]
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
    monkeypatch.setattr(own, "_SPLITS", 1)
    monkeypatch.setattr(reach, "_RUN", (56,))
    for module in (hybrids, own, reach, together):
        monkeypatch.setattr(
            module,
            "load",
            lambda inputs, tasks, sizes=None, *names, **options: load(
                inputs, tasks, sizes or ("512 B", "16 KB"), *names, **options
            ),
        )


@pytest.mark.parametrize(
    "part",
    [
        pytest.param(hybrids.single, marks=pytest.mark.slow),
        pytest.param(
            lambda inputs: hybrids.hybrid_sets(inputs, plan.SMALL), marks=pytest.mark.slow
        ),
        pytest.param(own.own_row, marks=pytest.mark.slow),
        pytest.param(together.mixture, marks=pytest.mark.slow),
        pytest.param(reach.learning_curve, marks=pytest.mark.slow),
    ],
)
def test_parts_of_the_study_run(part, short):
    found = part(INPUTS)
    assert found.tables
    assert found.targets
    assert all(np.isfinite(target.reached) for target in found.targets)
    assert all(len(table) for table in (*found.tables.values(), *found.shown.values()))


@pytest.mark.slow
def test_single_features_are_never_bounds_of_the_time(short):
    table = hybrids.single(INPUTS).tables["single-features"]
    assert not table["best"].str.endswith("_bound").any()


@pytest.mark.slow
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
