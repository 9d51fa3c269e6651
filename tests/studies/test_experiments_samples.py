"""Simulated samples of the experiments: what a sample is of, and tables that are refused."""

import numpy as np
import pandas as pd
import pytest

from studies import EXPERIMENTS, Inputs, plan
from studies.sc13 import learners as learners_module
from studies.sc13 import simulated
from toruscast import datasets
from toruscast.errors import InputError
from toruscast.features import traffic
from toruscast.mapping import Torus, patterns, strategies
from toruscast.simulation import simulate
from toruscast.training import read_samples, write_samples


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


@pytest.mark.parametrize(
    ("size", "host"), [("512 B", plan.SMALL_HOST), ("16 KB", plan.LARGE_HOSTS[0])]
)
def test_stored_time_is_what_the_simulator_says(table, size, host):
    block = plan.Block("2D Halo", size, host)
    workload, torus = block.workload, block.torus
    mapping = strategies.make("identity", workload, torus, tasks_per_node=plan.TASKS_PER_NODE)
    named = (table["workload"] == block.name) & (table["mapping"] == "identity")
    own = table[named & (table["torus"] == str(torus))]
    result = simulate(workload, torus, mapping, routing="by_size", coarsening=block.coarsening)
    assert own["time"].tolist() == [result.time]


def test_samples_of_a_block_replace_its_old_ones(tmp_path, monkeypatch):
    store = tmp_path / "samples.parquet"
    ours, other = plan.Block("2D Halo", "8 B", plan.SMALL_HOST, 2), "2D Halo 512 B, 16384 tasks"
    where = str(ours.torus)
    name = f"{ours.name} on {where}"

    def rows(workload, *keys):
        labels = {"workload": workload, "torus": where, "mapping": "m", "time": 1.0}
        return pd.DataFrame([{**labels, "key": key} for key in keys])

    def build_samples(cases, path, provenance, **options):
        added = rows(ours.name, "new-1", "new-2")
        old = read_samples(path)
        origin = old.attrs["provenance"] | provenance
        write_samples(pd.concat([old[~old["key"].isin(added["key"])], added]), path, origin)
        return added

    monkeypatch.setattr(plan, "build_samples", build_samples)
    before = {"processor_seconds": {name: 1000.0, other: 5.0}}
    write_samples(pd.concat([rows(ours.name, "old", "new-1"), rows(other, "x")]), store, before)
    for spent in (0.0, 1000.0):
        ((block, table),) = plan.build(store, [ours])
        assert block is ours
        assert table["key"].tolist() == ["new-1", "new-2"]
        kept = read_samples(store)
        assert sorted(kept["key"]) == ["new-1", "new-2", "x"]
        cost = kept.attrs["provenance"]["processor_seconds"]
        assert cost[other] == 5.0
        # What the old ones cost is gone with them; what the new ones did is not.
        assert spent <= cost[name] < spent + 900
        write_samples(kept, store, {"processor_seconds": {name: 1000.0, other: 5.0}})


class SmallBlock(plan.Block):
    torus = Torus((2, 2))
    workload = patterns.halo_2d((8, 8), 8, periodic=True).renamed("small")
    name = "small"


SMALL_NAME = f"small on {SmallBlock.torus}"


def test_features_are_added_to_a_block_at_a_cost_of_their_own(tmp_path, monkeypatch):
    store, block = tmp_path / "samples.parquet", SmallBlock("2D Halo", "8 B", (2, 2), 6)
    names = plan.features()
    monkeypatch.setattr(plan, "features", lambda: names[1:])
    ((_, before),) = plan.build(store, [block])
    first = read_samples(store)
    write_samples(
        first, store, first.attrs["provenance"] | {"processor_seconds": {SMALL_NAME: 1000.0}}
    )

    def simulate(*args, **options):
        raise AssertionError("simulated")

    monkeypatch.setattr(plan, "features", lambda: names)
    monkeypatch.setattr(traffic, "simulate", simulate)
    ((_, after),) = plan.build(store, [block])
    kept = read_samples(store)
    assert after["key"].tolist() == before["key"].tolist() == kept["key"].tolist()
    pd.testing.assert_frame_equal(after[list(names[1:])], before[list(names[1:])])
    assert kept[names[0]].notna().all()
    cost = kept.attrs["provenance"]["processor_seconds"]
    assert list(cost) == [SMALL_NAME]
    assert 1000 < cost[SMALL_NAME] < 1900


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


def stored(table, tmp_path, **columns):
    """Write the rows as `build` does, columns changed; returns the inputs of an experiment."""
    write_samples(
        table.drop(columns=list(simulated.CASE)).assign(**columns), tmp_path / "t.parquet"
    )
    return Inputs(samples=tmp_path / "t.parquet")


@pytest.mark.parametrize(
    ("name", "lacks", "message"),
    [
        ("combinations", "Sub A2A", "samples of Sub A2A 16 KB, 16384 tasks on .*found 0, .* 84"),
        ("unseen", "2D Halo|3D Halo", "samples of 2D Halo 8 B, 16384 tasks on .*found 0, .* 84"),
        ("chance", "3D Halo 16 KB", "samples of 3D Halo 16 KB, 16384 tasks on .*found 0, .* 84"),
        ("hybrids-65536", "3D Halo", "samples of 3D Halo .* 65536 tasks on .*found 0, .* 42"),
        ("pf3d", "pF3D, 65536", "samples of pF3D, 65536 tasks on .*found 0, .* 42"),
    ],
)
def test_a_benchmark_that_is_missing_is_named(name, lacks, message, table, tmp_path):
    rest = table[~table["workload"].str.contains(lacks)]
    with pytest.raises(InputError, match=message):
        EXPERIMENTS[name].run(stored(rest, tmp_path))


def test_too_few_mappings_are_told(table, tmp_path):
    few = table.groupby(["workload", "torus"]).head(3)
    with pytest.raises(InputError, match="found 3, expected 84 mappings"):
        EXPERIMENTS["learners"].run(stored(few, tmp_path))


def test_times_that_tell_nothing_are_refused(table, tmp_path):
    with pytest.raises(InputError, match=r"times of .*: found all alike"):
        EXPERIMENTS["learners"].run(stored(table, tmp_path, time=1e-3))
    with pytest.raises(InputError, match="no two mappings to learn from differ"):
        learners_module.PairwiseRanker().fit(np.eye(4), np.ones(4))


@pytest.mark.parametrize(
    ("column", "value", "found"),
    [("time", "0.001", "str"), ("time", np.nan, "not finite"), ("max_bytes", np.inf, "not finite")],
)
def test_columns_that_are_no_numbers_are_refused(column, value, found, table, tmp_path):
    inputs = stored(table, tmp_path, **{column: value})
    with pytest.raises(InputError, match=rf"t.parquet: bad column {column}: found .*{found}"):
        simulated.load(inputs)


def test_text_counts_the_samples_of_the_table(table):
    some = simulated.synthetic(table, plan.LARGE, ["512 B", "16 KB"])
    assert "42 mappings of each benchmark and size (6) of 65,536 tasks" in simulated.text(some)
    assert "16,384" not in simulated.text(some)
    assert " 3 to 42 mappings" in simulated.text(
        pd.concat([some.iloc[:3], some[some["size"] == "16 KB"]])
    )


def test_no_counter_is_the_time_or_its_bound(table):
    names = simulated.counters(table)
    assert not {"time", "lower_bound", *simulated.CASE} & set(names)
    assert not any("bound" in name or "sketch" in name for name in names)
