from __future__ import annotations

import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import toruscast as tc
from toruscast import simulation
from toruscast._features import traffic
from toruscast.errors import InputError, InputWarning
from toruscast.mapping import CommGraph, MappingProblem, TaskMapping, Torus, Workload, patterns
from toruscast.training import TimePredictor, build_samples, read_samples, samples, write_samples
from toruscast.training import store as _sample_keys
from toruscast.training.evaluation import repeated_splits
from toruscast.training.store import LABELS, SampleFiles, join_tables

TORUS = Torus((4, 4))
HALO = patterns.halo_2d((4, 4), 2048, periodic=True)


def shuffled(n: int, seed: int = 1) -> list[TaskMapping]:
    rng = np.random.default_rng(seed)
    return [TaskMapping(rng.permutation(16), TORUS, name=f"m{i}") for i in range(n)]


@pytest.fixture
def store(tmp_path):
    return tmp_path / "samples.parquet"


@pytest.fixture
def computed(monkeypatch):
    """Keys of the samples that are simulated."""
    done = []

    def spy(cases, how, part, compute=samples.compute_batch):
        done.extend(part.keys if part.timed else ())
        return compute(cases, how, part)

    monkeypatch.setattr(samples, "compute_batch", spy)
    return done


@pytest.fixture
def no_simulator(monkeypatch):
    """From its call on, whoever simulates fails."""

    def broken(*args, **options):
        raise AssertionError("simulated")

    return lambda: monkeypatch.setattr(traffic, "simulate", broken)


def kill_after_8(cases, store, **options):
    def kill(stage, done, total):
        if done >= 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_samples(cases, store, progress=kill, **options)


def test_without_a_store_nothing_is_written(store, monkeypatch):
    monkeypatch.chdir(store.parent)
    cases = [(HALO, TORUS, shuffled(9))]
    table = build_samples(cases, provenance={"seed": 7})
    assert list(store.parent.iterdir()) == []
    kept = build_samples(cases, store, provenance={"seed": 7})
    pd.testing.assert_frame_equal(table, kept)
    when = {"created"}
    noted, stored = table.attrs["provenance"], kept.attrs["provenance"]
    assert {k: v for k, v in noted.items() if k not in when} == {
        k: v for k, v in stored.items() if k not in when
    }
    assert noted["seed"] == 7


def test_samples_are_features_and_simulated_times(store):
    mappings = shuffled(11)
    table = build_samples([(HALO, TORUS, mappings)], store, n_jobs=2)
    expected = tc.features(HALO, TORUS, mappings)
    assert table["mapping"].tolist() == [m.name for m in mappings]
    assert np.array_equal(table[list(expected.columns)].to_numpy(), expected.to_numpy())
    times = [simulation.simulate(HALO, TORUS, mapping).time for mapping in mappings]
    assert table["time"].tolist() == times
    sure = [
        tc.RoutedTraffic(MappingProblem(HALO, TORUS), mapping).sure_bound for mapping in mappings
    ]
    assert (table["time"] >= sure).all()
    assert set(table["torus"]) == {"4x4"}
    pd.testing.assert_frame_equal(read_samples(store), table)


def test_level_2_and_adaptive_routing(store):
    mapping = shuffled(1)[0]
    table = build_samples([(HALO, TORUS, mapping)], store, level=2, routing="adaptive")
    assert table["avg_buffer"][0] > 0
    run = simulation.simulate(HALO, TORUS, mapping, routing="adaptive")
    assert table["time"].tolist() == [run.time]


def test_provenance_is_in_the_file(store):
    build_samples([(HALO, TORUS, shuffled(2))], store, provenance={"seed": 7})
    origin = read_samples(store).attrs["provenance"]
    assert origin["seed"] == 7
    assert origin["n_samples"] == 2
    assert origin["graphs"] == [HALO.name]
    assert origin["tori"] == ["4x4"]
    assert {"toruscast", "numpy", "command", "created", "level", "routing"} <= set(origin)
    assert json.loads(pq.read_schema(store).metadata[b"toruscast"]) == origin


def test_a_run_that_was_killed_goes_on(store, computed):
    cases = [(HALO, TORUS, shuffled(20))]
    kill_after_8(cases, store)
    assert not store.exists()
    first = set(computed)
    assert len(first) == 8
    computed.clear()
    steps = []
    table = build_samples(cases, store, progress=lambda _, done, total: steps.append((done, total)))
    assert first.isdisjoint(computed)
    assert steps == [(8, 20), (16, 20), (20, 20)]
    whole = build_samples(cases, store.with_name("other.parquet"))
    pd.testing.assert_frame_equal(table, whole)
    assert sorted(f.name for f in store.parent.iterdir()) == ["other.parquet", "samples.parquet"]


def test_many_that_join_parts_into_one_table_lose_nothing(store):
    """Each replaces the table, and removes the folder, while others are about to use them."""

    def build(number):
        for i in range(4):
            row = dict.fromkeys(LABELS, f"{number}-{i}") | {"time": float(i)}
            files = SampleFiles(store)
            files.add(pd.DataFrame([row]), {})
            files.join(join_tables)

    with ThreadPoolExecutor(3) as threads:
        list(threads.map(build, range(3)))
    assert sorted(read_samples(store)["key"]) == sorted(
        f"{n}-{i}" for n in range(3) for i in range(4)
    )
    assert [file.name for file in store.parent.iterdir()] == ["samples.parquet"]


def test_a_part_of_a_table_can_be_written_with_its_provenance(store):
    build_samples([(HALO, TORUS, shuffled(3))], store, provenance={"seed": 7})
    write_samples(read_samples(store)[:2], store)
    origin = read_samples(store).attrs["provenance"]
    assert (origin["n_samples"], origin["seed"]) == (2, 7)


def test_a_run_that_was_killed_goes_on_after_another_into_the_same_table(store, computed):
    cases = [(HALO, TORUS, shuffled(20))]
    kill_after_8(cases, store)
    first = set(computed)
    # Some of what the killed run had finished, and something else.
    build_samples([(HALO, TORUS, shuffled(2)), (HALO.scaled(2), TORUS, shuffled(1))], store)
    computed.clear()
    build_samples(cases, store)
    assert len(computed) == 12
    assert first.isdisjoint(computed)
    assert [file.name for file in store.parent.iterdir()] == ["samples.parquet"]


BUILD = """
import sys
import numpy as np
import toruscast as tc
import toruscast as tc
from toruscast.training import build_samples

path, first, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
halo, torus = tc.patterns.halo_2d((4, 4), 4096), tc.Torus((4, 4))
rng = np.random.default_rng(1)
mappings = [tc.TaskMapping(rng.permutation(16), torus, name=f"m{i:02}") for i in range(60)]
build_samples([(halo, torus, mappings[first:last])], path, level=2, n_jobs=1)
"""


def test_processes_that_build_into_one_table_at_once_lose_and_double_nothing(store):
    def started(path, *numbers):
        return subprocess.Popen([sys.executable, "-c", BUILD, str(path), *map(str, numbers)])

    both = [started(store, 0, 40), started(store, 20, 60)]
    assert [each.wait() for each in both] == [0, 0]
    alone = store.with_name("alone.parquet")
    assert started(alone, 0, 60).wait() == 0
    tables = [
        read_samples(path).sort_values("mapping", ignore_index=True) for path in (store, alone)
    ]
    pd.testing.assert_frame_equal(*tables, check_exact=True)
    assert sorted(file.name for file in store.parent.iterdir()) == [alone.name, store.name]


def test_a_run_with_nothing_to_do_leaves_the_provenance(store, monkeypatch):
    monkeypatch.setattr("sys.argv", ["/bin/first", "--all"])
    build_samples([(HALO, TORUS, shuffled(5))], store)
    first = read_samples(store).attrs["provenance"] | {"created": "long ago"}
    write_samples(read_samples(store), store, first)
    monkeypatch.setattr("sys.argv", ["/bin/second"])
    table = build_samples([(HALO, TORUS, shuffled(3))], store)
    origin = read_samples(store).attrs["provenance"]
    assert (origin["command"], origin["created"]) == ("first --all", "long ago")
    assert table.attrs["provenance"]["command"] == "first --all"
    build_samples([(HALO, TORUS, shuffled(6))], store)
    origin = read_samples(store).attrs["provenance"]
    assert origin["command"] == "second"
    assert origin["created"] != "long ago"


def test_a_mapping_with_other_features_stands_once_in_the_table(store):
    mappings = shuffled(5)
    build_samples([(HALO, TORUS, mappings)], store, level=2)
    few = build_samples([(HALO, TORUS, mappings[:3])], store, features=["max_bytes"])
    table = read_samples(store)
    assert len(few) == 3
    assert sorted(table["mapping"]) == [f"m{i}" for i in range(5)]
    assert table.notna().all().all()
    adaptive = build_samples([(HALO, TORUS, mappings[:2])], store, routing="adaptive")
    assert len(read_samples(store)) == 7
    assert not set(adaptive["key"]) & set(table["key"])


def test_fewer_features_of_more_mappings_lose_nothing(store, computed):
    mappings = shuffled(10)
    whole = build_samples([(HALO, TORUS, mappings)], store, level=2)
    fewer = build_samples([(HALO, TORUS, mappings[:4])], store)
    assert list(fewer) == [name for name in whole if name in fewer]
    more = shuffled(12)
    few = build_samples([(HALO, TORUS, more)], store)
    assert "avg_buffer" not in few
    assert few.notna().all().all()
    assert read_samples(store)["avg_buffer"].notna().sum() == 10
    assert len(computed) == 12
    again = build_samples([(HALO, TORUS, mappings)], store, level=2)
    pd.testing.assert_frame_equal(again, whole)
    assert len(computed) == 12


@pytest.mark.parametrize("late", [False, True])
def test_two_build_into_one_table_at_a_time(store, late, monkeypatch):
    mappings = shuffled(20)

    def other():
        build_samples([(HALO.scaled(2), TORUS, mappings[:10])], store, features=FEW)

    def progress(stage, done, total):
        # Before the first part is written, or between the parts.
        if done == 8 * late and not store.exists():
            other()

    build_samples([(HALO, TORUS, mappings)], store, features=FEW, progress=progress)
    table = read_samples(store)
    assert table["workload"].value_counts().to_dict() == {HALO.name: 30}
    assert table["key"].is_unique
    assert table.notna().all().all()
    assert [file.name for file in store.parent.iterdir()] == ["samples.parquet"]


def test_provenance_tells_all_routings_that_a_table_holds(store):
    long = HALO.scaled(100)
    build_samples([(long, TORUS, shuffled(12))], store, level=2, provenance={"seed": 7})
    few = build_samples([(long, TORUS, shuffled(2))], store, routing="adaptive")
    assert few.attrs["provenance"]["routing"] == "adaptive"
    table = read_samples(store)
    origin = table.attrs["provenance"]
    assert (origin["seed"], origin["level"]) == (7, 2)
    assert origin["routing"] == ["adaptive", "deterministic"]
    model = TimePredictor(["max_bytes"], n_estimators=5).fit(table, table["time"])
    for routing in ("adaptive", "deterministic"):
        with pytest.warns(UserWarning, match="trained with adaptive and deterministic routing"):
            tc.rank(long, TORUS, shuffled(3), model=model, routing=routing)


FEW = ["max_bytes", "avg_buffer"]
# In the order of the registry, the new ones not at the end.
MORE = ["max_bytes", "avg_buffer", "hop_bytes"]
MOST = ["avg_bytes", "max_bytes", "avg_buffer", "hop_bytes"]


def test_features_of_level_1_are_added_without_simulating(store, no_simulator):
    cases = [(HALO, TORUS, shuffled(11)), (HALO.scaled(2), TORUS, shuffled(3))]
    scratch = [build_samples(cases, store.with_name(f"{len(f)}"), features=f) for f in (MORE, MOST)]
    build_samples(cases, store, features=FEW)
    no_simulator()
    steps = []
    for names, expected in zip((MORE, MOST), scratch, strict=True):
        # One after the other: meanwhile the table holds rows with and without the new ones.
        parts = [
            build_samples(
                [case], store, features=names, n_jobs=2, progress=lambda _, *n: steps.append(n)
            )
            for case in cases
        ]
        pd.testing.assert_frame_equal(pd.concat(parts, ignore_index=True), expected)
        pd.testing.assert_frame_equal(read_samples(store), expected)
    assert {steps[0], steps[2]} == {(0, 11), (11, 11)}
    assert [file.name for file in store.parent.glob("samples*")] == ["samples.parquet"]


def test_features_of_level_2_are_simulated(store, computed):
    cases = [(HALO, TORUS, shuffled(3))]
    build_samples(cases, store, features=["max_bytes"])
    computed.clear()
    table = build_samples(cases, store, features=FEW)
    assert computed == table["key"].tolist()


def test_a_row_that_is_not_of_today_is_simulated_anew(store, computed):
    cases = [(HALO, TORUS, shuffled(3))]
    scratch = build_samples(cases, store.with_name("other"), features=MORE)
    build_samples(cases, store, features=FEW)
    old = read_samples(store)
    old.loc[1, ["key", "time"]] = ["f" * 24, 1.0]
    write_samples(old, store)
    computed.clear()
    table = build_samples(cases, store, features=MORE)
    assert computed == [scratch["key"][1]]
    pd.testing.assert_frame_equal(table, scratch)


def test_a_feature_that_is_gone_stays_in_its_rows(store, computed):
    cases = [(HALO, TORUS, shuffled(3))]
    tc.register_feature("own_metric")(lambda traffic: 1.0)
    try:
        build_samples(cases, store, features=["max_bytes", "own_metric"])
    finally:
        tc.unregister_feature("own_metric")
    computed.clear()
    table = build_samples(cases, store, features=["max_bytes", "hop_bytes"])
    assert not computed
    assert "own_metric" not in table
    assert read_samples(store)["own_metric"].tolist() == [1.0] * 3


def test_adding_features_goes_on_after_it_was_killed(store, no_simulator, monkeypatch):
    cases = [(HALO, TORUS, shuffled(20))]
    scratch = build_samples(cases, store.with_name("other"), features=MORE)
    build_samples(cases, store, features=FEW)
    no_simulator()
    kill_after_8(cases, store, features=MORE)
    completed = []

    def spy(cases, how, part, compute=samples.compute_batch):
        completed.extend(part.keys)
        return compute(cases, how, part)

    monkeypatch.setattr(samples, "compute_batch", spy)
    table = build_samples(cases, store, features=MORE)
    assert len(completed) == 12
    pd.testing.assert_frame_equal(table, scratch)
    pd.testing.assert_frame_equal(read_samples(store), scratch)


def other_slot() -> TaskMapping:
    return TaskMapping(shuffled(1)[0].node, TORUS, slot=[1] * 16)


@pytest.mark.parametrize(
    ("case", "options"),
    [
        ((HALO.scaled(2), TORUS, shuffled(1)), {}),
        ((Workload([HALO, HALO]), TORUS, shuffled(1)), {}),
        ((HALO, Torus((4, 4), wrap=False), shuffled(1)), {}),
        ((HALO, TORUS.with_network(overhead=1e-6), shuffled(1)), {}),
        ((HALO, TORUS, shuffled(1, seed=2)), {}),
        ((HALO, TORUS, other_slot()), {}),
        ((HALO, TORUS.with_network(fifos=2), shuffled(1)), {}),
        ((HALO, TORUS, shuffled(1)), {"coarsening": 2}),
        ((HALO, TORUS, shuffled(1)), {"routing": "adaptive"}),
    ],
)
def test_the_key_tells_samples_apart(store, computed, case, options):
    first = build_samples([(HALO, TORUS, shuffled(1))], store)
    second = build_samples([case], store, **options)
    assert len(computed) == 2
    assert first["key"][0] != second["key"][0]


def test_another_version_changes_the_keys(tmp_path, monkeypatch):
    first = build_samples([(HALO, TORUS, shuffled(1))], tmp_path / "1")
    monkeypatch.setattr(_sample_keys, "KEY_VERSION", _sample_keys.KEY_VERSION + 1)
    second = build_samples([(HALO, TORUS, shuffled(1))], tmp_path / "2")
    assert first["key"][0] != second["key"][0]


def test_a_feature_with_other_values_than_before_is_computed_anew(store, computed, monkeypatch):
    cases = [(HALO, TORUS, shuffled(1))]
    counts = []
    for changed in ({}, {"coarse_time": 1}, {"coarse_time": 2}, {"coarse_slowdown": 9}, {}):
        monkeypatch.setattr(_sample_keys, "CHANGED", changed)
        build_samples(cases, store, features=["max_bytes", "coarse_time"])
        counts.append(len(computed))
    assert counts == [1, 2, 3, 4, 4]


def test_names_do_not_change_the_key(store, computed):
    build_samples([(HALO, TORUS, shuffled(1))], store)
    named = Torus((4, 4), name="my machine")
    table = build_samples([(HALO.renamed("x"), named, shuffled(1)[0].renamed("y"))], store)
    assert len(computed) == 1
    assert table[["workload", "torus", "mapping"]].iloc[0].tolist() == ["x", "my machine 4x4", "y"]


def test_bad_cases_are_refused(store):
    with pytest.raises(InputError, match="no mapping"):
        build_samples([(HALO, TORUS, [])], store)
    with pytest.raises(InputError, match="does not fit"):
        build_samples([(CommGraph(3, [0], [1], [8]), TORUS, shuffled(1))], store)
    with pytest.raises(InputError, match="bad feature level"):
        build_samples([(HALO, TORUS, shuffled(1))], store, level=3)
    assert list(store.parent.iterdir()) == []


@pytest.mark.parametrize(
    "content", [b"", b"mapping,time\n", b"PAR1" + bytes(40) + b"PAR1", bytes(range(256)) * 9]
)
def test_files_that_are_no_parquet_are_refused(store, content):
    store.write_bytes(content)
    for use in (read_samples, lambda path: build_samples([(HALO, TORUS, shuffled(1))], path)):
        with pytest.raises(InputError, match="damaged Parquet file") as caught:
            use(store)
        assert "\n" not in str(caught.value)


def test_truncated_and_foreign_tables_are_refused(store):
    build_samples([(HALO, TORUS, shuffled(3))], store)
    whole = store.read_bytes()
    store.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="damaged Parquet file"):
        read_samples(store)
    foreign = pa.table({"a": [1, 2]})
    pq.write_table(foreign, store)
    with pytest.raises(InputError, match="not a table of samples"):
        read_samples(store)
    pq.write_table(foreign.replace_schema_metadata({b"toruscast": b'{"format": "x"}'}), store)
    with pytest.raises(InputError, match="not a table of samples"):
        read_samples(store)
    pq.write_table(foreign.replace_schema_metadata({b"toruscast": b"{"}), store)
    with pytest.raises(InputError, match="damaged"):
        read_samples(store)
    claim = b'{"format": "toruscast samples", "n_samples": 2}'
    pq.write_table(foreign.replace_schema_metadata({b"toruscast": claim}), store)
    with pytest.raises(InputError, match="columns missing"):
        read_samples(store)
    with pytest.raises(InputError, match="no such file"):
        read_samples(store.with_name("none.parquet"))
    with pytest.raises(InputError):
        read_samples(store.parent)


@pytest.fixture
def counters(tmp_path):
    """A table of counters and times made elsewhere, as CSV and as Parquet."""
    queue = np.arange(1, 31) % 7 + 1.0
    table = pd.DataFrame({"mapping": [f"m{k}" for k in range(30)], "host": "a", "queue": queue})
    table = table.assign(time=1 + queue)
    paths = tmp_path / "counters.csv", tmp_path / "counters.parquet"
    table.to_csv(paths[0], index=False)
    table.to_parquet(paths[1])
    return paths


def test_tables_made_elsewhere_are_samples(counters):
    first, second = (read_samples_with_note(path) for path in counters)
    pd.testing.assert_frame_equal(first, second)
    assert list(first) == ["workload", "torus", "mapping", "key", "queue", "time"]
    assert set(first["workload"]) == {"counters"}
    assert first["key"].is_unique
    scores = repeated_splits(first, TimePredictor(n_estimators=20), n_splits=2)
    assert scores["rcc"].min() > 0.95


def read_samples_with_note(path):
    with pytest.warns(InputWarning, match="unused columns: host"):
        return read_samples(path)


@pytest.mark.filterwarnings("ignore:.*unused columns")
def test_simulated_samples_are_not_added_to_a_table_made_elsewhere(counters):
    for path, message in zip(counters, ("damaged Parquet", "not a table of samples"), strict=True):
        with pytest.raises(InputError, match=message):
            build_samples([(HALO, TORUS, shuffled(1))], path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("queue,time\n1,2\nx,3\n", ":3: bad queue: found x, expected a number"),
        ("queue,time\n1,2\n\n1,x\n", ":4: bad time: found x"),
        ("queue,time\n1,2\n# note\n1,0\n", ":4: bad time of row 1: found 0.0"),
        ("queue,seconds\n1,2\n", "not a table of samples"),
        ("queue,queue,time\n1,2,3\n", "column named twice: found queue"),
        ("queue,time\n1,2,3\n", ":2: wrong number of columns"),
        ("queue,time\n", "file without data"),
    ],
)
def test_errors_in_tables_made_elsewhere_name_the_line(tmp_path, content, message):
    path = tmp_path / "counters.csv"
    path.write_text(content)
    with pytest.raises(InputError, match=re.escape(message)):
        read_samples(path)


def test_writing_refuses_what_cannot_be_stored(store):
    with pytest.raises(InputError, match="columns missing"):
        write_samples(pd.DataFrame({"time": [1.0]}), store)
    table = pd.DataFrame({"workload": "a", "torus": "b", "mapping": "c", "key": "d"}, index=[0])
    with pytest.raises(InputError, match="cannot be stored"):
        write_samples(table, store, {"x": object()})
    assert not store.exists()


def test_a_metric_changes_with_what_its_function_was_given():
    def mark(function):
        tc.register_feature("own_metric")(function)
        try:
            return _sample_keys.feature_mark(tc.FEATURES["own_metric"])
        finally:
            tc.unregister_feature("own_metric")

    def scaled(factor, names=("a", "b")):
        return lambda traffic, least=0.0: max(least, factor * (traffic in {"x", "y", *names}))

    def given(least):
        return lambda traffic, least=least: least

    assert mark(scaled(1.0)) == mark(scaled(1.0))
    assert (
        len({mark(f) for f in (scaled(1.0), scaled(2.0), scaled(1.0, ()), given(1), given(2))}) == 5
    )


def test_a_metric_of_a_killed_run_is_kept(store, computed):
    cases = [(HALO, TORUS, shuffled(20))]
    tc.register_feature("own_metric")(lambda traffic: 1.0)
    try:
        kill_after_8(cases, store, features=["own_metric", "avg_buffer"])
    finally:
        tc.unregister_feature("own_metric")
    build_samples(cases, store, features=["max_bytes"])
    assert len(computed) == 20
    table = read_samples(store)
    assert table["own_metric"].sum() == table["avg_buffer"].notna().sum() == 8
    assert [file.name for file in store.parent.iterdir()] == ["samples.parquet"]


def test_one_simulation_under_two_names_keeps_both(store, computed):
    named = HALO.renamed("b")
    build_samples([(HALO, TORUS, shuffled(2)), (named, TORUS, shuffled(2))], store, features=FEW)
    build_samples([(HALO, TORUS, shuffled(2))], store, features=MORE)
    table = read_samples(store)
    assert table["workload"].tolist() == ["b", "b", HALO.name, HALO.name]
    assert table["hop_bytes"].notna().all()
    assert len(computed) == 2


def test_a_metric_of_ones_own_that_changes_is_computed_anew(store, computed):
    mappings = shuffled(3)

    def built(function):
        tc.register_feature("own_metric")(function)
        try:
            table = build_samples([(HALO, TORUS, mappings)], store, features=["own_metric"])
            return table["own_metric"].tolist()
        finally:
            tc.unregister_feature("own_metric")

    assert built(lambda traffic: 1.0) == [1.0] * 3
    assert built(lambda traffic: 1.0) == [1.0] * 3
    assert len(computed) == 3
    assert built(lambda traffic: sum(2.0 for _ in range(2))) == [4.0] * 3
    assert built(lambda traffic: sum(3.0 for _ in range(2))) == [6.0] * 3


def test_zones_count_where_they_change_something(store, computed):
    zoned = Torus((4, 4), zones=[[1], [0]])
    # In dimension order nothing looks at them, but perhaps a metric of one's own.
    build_samples([(HALO, zoned, shuffled(1))], store, features=FEW)
    computed.clear()
    build_samples([(HALO, TORUS, shuffled(1))], store, features=FEW)
    assert not computed
    build_samples([(HALO, TORUS, shuffled(1))], store, features=FEW, routing="adaptive")
    build_samples([(HALO, zoned, shuffled(1))], store, features=FEW, routing="adaptive")
    assert len(computed) == 2
    tc.register_feature("own_metric")(lambda traffic: float(len(traffic.torus.zones)))
    try:
        for torus, expected in ((zoned, 2.0), (TORUS, 0.0)):
            table = build_samples([(HALO, torus, shuffled(1))], store, features=["own_metric"])
            assert table["own_metric"].tolist() == [expected]
    finally:
        tc.unregister_feature("own_metric")


def test_a_small_file_of_very_many_samples_is_refused(tmp_path):
    path = tmp_path / "many.parquet"
    pq.write_table(pa.table({"key": pa.repeat("k", 10_000_000)}), path)
    with pytest.raises(InputError, match="file needs too much memory: found 10000000 samples"):
        read_samples(path)
