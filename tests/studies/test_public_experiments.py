"""Experiments on public measurements: their models on made-up data, their runs on the real ones."""

import numpy as np
import pandas as pd
import pytest

from studies import EXPERIMENTS, Inputs
from studies.blue_gene import link_counts
from studies.blue_waters import (
    amg_candidates,
    amg_noise,
    amg_row_sets,
    gemini_amg,
    gemini_contention,
)
from studies.blue_waters.amg_features import _MODEL_COLUMNS, amg_features
from studies.blue_waters.amg_messages import read_amg_messages
from studies.blue_waters.amg_model import AmgTimeModel, alike
from studies.blue_waters.line_model import fit_line
from studies.sc13.intervals import rcc_interval
from toruscast.errors import InputError
from toruscast.mapping import TaskMapping, Torus
from toruscast.routing import link_loads
from toruscast.training.metrics import rcc

NAMES = ["gemini-amg", "gemini-contention", "static-routes", "link-counts"]
AMG = """Level 0
A*x
Max Num Msgs: 2
Total Bytes = 4096
Byte Hops = 8192
Num Active Processes: 16
Comm Time: 1.5e-05
"""


def test_law_recovers_what_it_generates():
    generator = np.random.default_rng(0)
    table = pd.DataFrame(0.0, index=range(60), columns=list(_MODEL_COLUMNS))
    n, nbytes = generator.integers(1, 100, 60), generator.integers(8, 100_000, 60)
    table = table.assign(operator="A", n_active=64, n_processes=64, n_max=n)
    table = table.assign(nbytes_rend_network=nbytes)
    table["time"] = 1e-6 + 2e-6 * n + 1e-8 * n**2 + 1e-9 * nbytes
    model = AmgTimeModel(learners=()).fit(table[table["n_max"] <= 50])
    np.testing.assert_allclose(model.predict(table), table["time"], rtol=0.01)


def test_model_refuses_what_it_cannot_use():
    table = pd.DataFrame(0.0, index=range(3), columns=list(_MODEL_COLUMNS))
    with pytest.raises(InputError, match="nothing to learn"):
        AmgTimeModel().fit(table)
    with pytest.raises(InputError, match="bad time"):
        AmgTimeModel().fit(table.assign(time=0.0))
    with pytest.raises(InputError, match="active processes"):
        AmgTimeModel().fit(table.assign(time=1.0, operator="A"))


def test_line_model_recovers_bandwidths():
    sizes = [(n, s) for s in 4.0 ** np.arange(2, 10) for n in (1, 4)]
    rows = [(128, n, s, d) for n, s in sizes for d in "xy"]
    table = pd.DataFrame(rows, columns=["n_ranks", "n_messages", "nbytes", "dimension"])
    rate = table["dimension"].map({"x": 6e9, "y": 3e9})
    # The slower of ranks and link: what the model describes where its passage is sharp.
    table["time"] = np.maximum(4e-6 * table["n_messages"], 64 * table["nbytes"] / rate)
    found = fit_line(table, "dimension").bandwidths
    assert found == pytest.approx({"x": 6e9, "y": 3e9}, rel=0.1)


@pytest.mark.parametrize("name", NAMES)
def test_absent_measurements_are_told_with_their_place(name, tmp_path):
    files = EXPERIMENTS[name].files
    assert files
    with pytest.raises(InputError, match="not found") as caught:
        EXPERIMENTS[name].run(Inputs(data=tmp_path))
    assert files[0] in str(caught.value)


def test_amg_jobs_that_are_missing_are_told(tmp_path):
    folder = tmp_path / "bluewatersmodel" / "amg_models"
    folder.mkdir(parents=True)
    for size in (128, 512, 1024, 2048):
        (folder / f"any_{size}.out").write_text(AMG)
    with pytest.raises(InputError, match=r"jobs missing: found .*2048\], .* 8192 processes"):
        EXPERIMENTS["gemini-amg"].run(Inputs(data=tmp_path))


def test_amg_notes_count_what_was_left_out_and_repeated(tmp_path):
    folder = tmp_path / "bluewatersmodel" / "amg_models"
    folder.mkdir(parents=True)
    for size in (128, 512, 1024, 2048, 8192):
        (folder / f"any_{size}.out").write_text(AMG.replace("1.5e", f"1.{size}e"))
    assert gemini_amg.read_all(Inputs(data=tmp_path))[1] == ()
    other = AMG + AMG.replace("Level 0\n", "").replace("A*x", "P.T*r")
    two_runs = AMG.replace("1.5e", "1.8192e") + other
    (folder / "two_8192_8505747.bw.out").write_text(two_runs)
    table, (left_out, repeats) = gemini_amg.read_all(Inputs(data=tmp_path))
    assert sorted(table["n_processes"]) == [128, 512, 1024, 2048, 8192, 8192]
    assert table["file"].tolist().count("two_8192_8505747.bw.out") == 1
    assert "left out: 1 of another operator." in left_out
    assert "count once (1): two_8192_8505747.bw.out (any_8192.out)." in repeats


def amg_table(n=200):
    generator = np.random.default_rng(0)
    table = pd.DataFrame(0.0, index=range(n), columns=list(_MODEL_COLUMNS))
    return table.assign(
        operator="A",
        matrix=True,
        n_active=64,
        n_processes=4096,
        n_max=np.arange(n) // 2,
        file=np.where(np.arange(n) % 2, "first.out", "second.out"),
        run=0,
        level=0,
        variant="",
        time=1e-6 * generator.uniform(1, 2, n),
    )


def test_folds_never_split_communications_that_are_alike(monkeypatch):
    seen = []

    def spy(train, test):
        seen.append(set(train["n_max"]) & set(test["n_max"]))
        return test["time"].to_numpy()

    monkeypatch.setitem(gemini_amg.LEARNERS, gemini_amg.OURS, spy)
    gemini_amg._known_sizes(amg_table())
    assert seen == [set()] * gemini_amg._FOLDS


def test_the_slowest_repeat_is_computed():
    table = amg_table(4).assign(time=[1e-6, 2e-6, 3e-6, 9e-6], n_processes=128)
    assert alike(table).tolist() == [0, 0, 1, 1]
    note = gemini_amg._slowest_repeat(table)
    assert "one took 3 times as long" in note
    assert "a matrix of A in first.out, 128 processes" in note


def test_one_sided_traffic_is_that_of_vectors_of_s_and_p():
    table = pd.DataFrame(0.0, index=range(4), columns=list(_MODEL_COLUMNS))
    table = table.assign(operator=["A", "S", "P", "P"], matrix=[False, False, False, True])
    found = amg_features(table.assign(n_active=60, n_processes=64))
    assert found["one_sided"].tolist() == [0, 1, 1, 0]
    assert found["one_sided_idle"].tolist() == pytest.approx([0, np.log(5), np.log(5), 0])


def test_repeats_of_a_job_and_of_jobs_are_told_apart():
    # Two jobs a factor of four apart, each of two runs a factor of two apart.
    table = amg_table(4).assign(
        n_max=1,
        file=["a.out", "a.out", "b.out", "b.out"],
        run=[0, 1, 0, 1],
        time=[1e-6, 2e-6, 4e-6, 8e-6],
    )
    found = amg_noise.repeats(table).set_index("where")
    spread = np.log([2.0, 4.0]) / np.sqrt(2)
    assert found["spread"].tolist() == pytest.approx(spread.tolist())
    assert found["largest_ratio"].tolist() == pytest.approx([2, 4])
    assert found["repeats"].tolist() == [4, 2]
    assert not len(amg_noise.repeats(table.assign(n_max=range(4))))
    # The second communication at level 12 is not the twelfth at level 2.
    apart = amg_table(12).assign(n_max=range(12), level=[0, 12, *[0] * 9, 2])
    assert not len(amg_noise.repeats(apart))


def course(log_times):
    return amg_table(len(log_times)).assign(
        file="a.out", node_aware=False, level=range(len(log_times)), time=np.exp(log_times)
    )


def test_jumps_are_what_is_not_smooth_over_levels():
    level = np.arange(3000) / 300
    noise = 0.3 * np.random.default_rng(0).standard_normal(3000)
    # Rows in any order: levels count, not places.
    table = course(level**2 - 5 * level + noise).sample(frac=1, random_state=0)
    found = amg_noise.jumps(table)
    assert found.index.equals(table.index)
    assert found.to_numpy() == pytest.approx(0.3, rel=0.1)
    assert amg_noise.jumps(course(np.zeros(7))).isna().all()
    missing = course(np.zeros(12)).drop(5)
    assert amg_noise.jumps(missing).isna().all()


def test_a_ceiling_falls_with_what_is_chance():
    generator = np.random.default_rng(0)
    everything = {"all": np.ones(40, dtype=bool)}
    calm, wild = (
        amg_noise.ceilings(
            course(generator.standard_normal(40).cumsum() + s * generator.standard_normal(40)),
            everything,
        ).set_index("estimate")
        for s in (0.0, 3.0)
    )
    jumps = amg_noise.BY_JUMPS
    assert calm.loc[jumps, "rcc_ceiling"] > wild.loc[jumps, "rcc_ceiling"] > 0.5
    # Nothing was repeated.
    assert np.isnan(calm.loc[amg_noise.BY_REPEATS, "rcc_ceiling"])


def test_trees_that_see_names_tell_operators_apart():
    table = amg_table(40).assign(n_max=1, node_aware=False)
    table["operator"] = np.where(np.arange(40) % 2, "A", "S")
    table["time"] = np.where(table["operator"] == "A", 1e-3, 1e-6)
    named = amg_candidates.named_trees(table, table[:2])
    assert named == pytest.approx(table["time"][:2].to_numpy())
    plain = amg_candidates.plain_trees(table, table[:2])
    assert plain[0] == pytest.approx(plain[1])


def test_the_trend_of_a_level_is_carried_on():
    sizes, levels = np.repeat([128, 512, 2048], 8), np.tile(np.arange(8), 3)
    table = amg_table(24).assign(n_processes=sizes, level=levels, node_aware=False, n_max=1)
    table["file"] = [f"any_{size}.out" for size in sizes]
    table["time"] = 1e-6 * (sizes / 128) ** (0.1 * levels)
    known, asked = table[sizes < 2048], table[sizes == 2048]
    carried = amg_candidates.level_trend(1.0)(known, asked)
    assert carried == pytest.approx(asked["time"].to_numpy())
    other = amg_candidates.level_trend(1.0)(known, asked.assign(level=99))
    assert other == pytest.approx(amg_candidates.learner()(known, asked))


def test_row_sets_choose_what_they_say():
    table = amg_table(4).assign(
        file="aniso_8192.out",
        matrix=[True, True, False, False],
        byte_hops=[1.0, 1.0, 1.0, 2.0],
        level=[0, 0, 0, 1],
        node_aware=[False, False, False, True],
    )
    chosen = {name: choose(table).index.tolist() for name, choose in amg_row_sets.ROW_SETS.items()}
    assert chosen["all, repeats once"] == [1, 2, 3]
    assert chosen["matrices, repeats once"] == [1]
    assert chosen["matrices, equal byte-hops once"] == [0]
    assert chosen["node-aware"] == [3]
    assert chosen["anisotropic problem, matrices, plain"] == [0, 1]
    assert chosen["anisotropic problem, matrices, node-aware"] == []


def test_the_note_names_the_row_sets_nearest_to_what_is_quoted():
    scores = ["byte_hops_rcc", "trees_rcc", "trees_r2", "named_trees_rcc", "named_trees_r2"]
    found = pd.DataFrame([[0.5, 0.9, 0.8, 0.1, 0.1], [0.7, 0.1, 0.1, 0.6, 0.6]], columns=scores)
    found = found.assign(set=["first", "second"], ours_rcc=0.5, ours_r2=[0.9, 0.5])
    note = amg_row_sets.note(found, 0.69, 0.9, 0.8)
    assert "closest on 'second' (0.700)" in note
    assert "trees on 'first' (0.900 and 0.800), where byte-hops reach 0.500" in note
    assert note.endswith("in both measures on: 'second'.")


def line_times(factors):
    """Times of jobs along lines; a factor of the link's time, and of what it was cut off to."""
    sizes = [(n, s) for s in 4.0 ** np.arange(4, 11) for n in (1, 4)]
    rows = [
        (job, job[0], ranks, n, s, repeat, max(4e-6 * n, slow * ranks / 2 * s / 6e9))
        for job, (ranks, slow, kept) in factors.items()
        for n, s in sizes[:kept]
        for repeat in range(2)
    ]
    names = ["job", "dimension", "n_ranks", "n_messages", "nbytes", "repeat", "time"]
    return pd.DataFrame(rows, columns=names)


LINE = """Pingpong for
master: {0}
partner: {0}
Num Msgs 1
SizeMsgs 8
{1}e-06 8.9e-06
"""


@pytest.fixture
def lines(tmp_path):
    """Write jobs along a line and read all of them."""
    folder = tmp_path / "bluewatersmodel" / "contention"
    folder.mkdir(parents=True)

    def _lines(jobs):
        for name, (ranks, first) in jobs.items():
            (folder / name).write_text(LINE.format("1," * (ranks // 2), first))
        return gemini_contention.read_all(Inputs(data=tmp_path))

    return _lines


def test_a_dimension_that_was_not_fitted_is_left_out(lines):
    jobs = {"x_128.out": (128, 8.1), "x_256.out": (256, 8.2), "y_256.out": (256, 8.3)}
    table, (note,) = lines(jobs)
    assert sorted(set(table["job"])) == ["x_128.out", "x_256.out"]
    assert note == "Left out, for no job of 128 ranks ran along Y: y_256.out."


def test_no_dimension_with_both_lengths_is_told(lines):
    with pytest.raises(InputError, match=r"x at 128 in x_128.out; y at 256 in y_256.out"):
        lines({"x_128.out": (128, 8.1), "y_256.out": (256, 8.3)})


def test_a_job_under_another_name_counts_once(lines):
    jobs = {"a_x.out": (128, 8.1), "b_x.out": (128, 8.1), "c_x.out": (128, 8.4)}
    table, (note,) = lines(jobs | {"x_256.out": (256, 8.2)})
    assert sorted(set(table["job"])) == ["a_x.out", "c_x.out", "x_256.out"]
    assert note == "Times that stand in two files, one for one, count once (2): b_x.out (a_x.out)."


def test_sizes_that_the_naive_forecast_does_not_know_are_passed_over():
    test = pd.DataFrame({"dimension": list("xxyy"), "observed": [1.0, 2, 3, 4]})
    found = gemini_contention._quality(test, pd.Series([1.0, 2, np.nan, np.nan]), "naive")
    assert found["dimension"].tolist() == ["all", "x"]


def contention_notes(monkeypatch, table):
    monkeypatch.setattr(gemini_contention, "read_all", lambda _: (table, ()))
    monkeypatch.setattr(gemini_contention, "N_RESAMPLES", 10)
    return " ".join(gemini_contention.run(Inputs()).notes)


def test_contention_notes_say_what_the_times_say(monkeypatch):
    jobs = {"x1": (128, 1, 14), "x2": (128, 1, 14), "x3": (256, 1, 14)}
    quiet = contention_notes(monkeypatch, line_times(jobs))
    assert "do not all overlap" not in quiet
    assert "too fast" not in quiet
    assert "cut off" not in quiet
    jobs |= {"z1": (128, 1, 14), "z2": (128, 2, 12), "z3": (256, 3, 14)}
    loud = contention_notes(monkeypatch, line_times(jobs))
    assert "jobs along Z do not all overlap" in loud
    assert "Along Z that is less than the faster 128-rank job had" in loud
    assert "all 28 times of the others: z2 24." in loud


def test_contention_notes_name_the_intervals_that_miss():
    jobs = pd.DataFrame(
        {"job": ["a", "b"], "dimension": ["x", "y"], "low": [5.0, 2.0], "high": [6.0, 3.0]}
    )
    read = pd.DataFrame({"job": ["a", "b", "c"], "bandwidth": [5.5, 3.5, 9.0]})
    note = gemini_contention._note_on_intervals(jobs, read)
    assert "in 1 of 2 jobs; they miss it, GB/s: Y 3.500 (2.000 to 3.000, b)." in note


def pairs_one_by_one(x, y, n_resamples):
    """Interval of RCC over the pairs of different rows among those drawn, pair by pair."""
    generator = np.random.default_rng(0)
    values = []
    for _ in range(n_resamples):
        rows = np.sort(generator.integers(0, len(x), len(x)))
        pairs = [(j, i) for at, i in enumerate(rows) for j in rows[:at] if j != i]
        if pairs:
            values.append(np.mean([(x[i] >= x[j]) == (y[i] >= y[j]) for j, i in pairs]))
    return tuple(np.percentile(values, [2.5, 97.5]))


@pytest.mark.parametrize("n", [2, 3, 14])
def test_interval_of_rcc_leaves_out_pairs_of_a_row_with_itself(n):
    generator = np.random.default_rng(n)
    for x, y in ((generator.random(n), generator.random(n)), generator.integers(0, 4, (2, n))):
        assert rcc_interval(x, y, n_resamples=40) == pytest.approx(pairs_one_by_one(x, y, 40))
    order = np.arange(float(n))
    assert rcc_interval(order, -order) == (0, 0)


def write_links(tmp_path, packets):
    """Counters of region 3 on every link: ``packets`` by C order of node and direction."""
    path = tmp_path / link_counts.FILE
    path.parent.mkdir(parents=True)
    torus = Torus(link_counts.SHAPE)
    begin = np.repeat(torus.coords, 6, axis=0)
    rows = np.column_stack([begin, torus.coords[torus.neighbors.ravel()], np.full(len(begin), 3)])
    names = ("sx", "sy", "sz", "tx", "ty", "tz", "code_region", "packets")
    header = "".join(f"- [{name}, int64]\n" for name in names)
    lines = "\n".join(" ".join(map(str, row)) for row in np.column_stack([rows, packets]))
    path.write_text(f"---\nkey: TEST\n---\n{header}...\n{lines}\n")
    return Inputs(data=tmp_path)


def test_notes_on_regions_say_what_the_counters_say(tmp_path):
    torus = Torus(link_counts.SHAPE)
    mapping = TaskMapping(np.arange(512), torus)
    load = link_loads(link_counts.neighbourhoods()["6 face neighbours"], torus, mapping)
    found = link_counts.run(write_links(tmp_path, 9 * load.astype(int)))
    assert len(found.notes) == 1
    assert "in region 3 the links that counted nothing are just those" in found.notes[0]


@pytest.mark.parametrize(
    ("packets", "fault"), [(0, "counters without packets"), (-5, "bad packets: found -5")]
)
def test_counters_that_count_nothing_are_refused(packets, fault, tmp_path):
    inputs = write_links(tmp_path, np.full(3072, packets))
    with pytest.raises(InputError, match=f"bgpc_links.yaml: {fault}"):
        link_counts.run(inputs)


def test_counters_that_are_missing_name_their_file(tmp_path):
    path = tmp_path / link_counts.FILE
    path.parent.mkdir(parents=True)
    names = ("sx", "sy", "sz", "tx", "ty", "tz", "code_region", "packets")
    header = "".join(f"- [{name}, int64]\n" for name in names)
    path.write_text(f"---\nkey: TEST\n---\n{header}...\n0 0 0 0 0 1 1 9\n")
    with pytest.raises(InputError, match=r"bgpc_links.yaml: counters missing"):
        EXPERIMENTS["link-counts"].run(Inputs(data=tmp_path))


def test_amg_small_to_large(shared_data):
    files = sorted((shared_data / "bluewatersmodel" / "amg_models").glob("*.out"))
    table = pd.concat([read_amg_messages(path) for path in files], ignore_index=True)
    test = table[table["n_processes"] >= 2048]
    model = AmgTimeModel().fit(table[table["n_processes"] <= 1024])
    assert rcc(test["time"], model.predict(test)) > 0.925


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_runs_on_the_real_files(shared_data, name):
    found = EXPERIMENTS[name].run(Inputs(data=shared_data))
    assert found.bars
    assert set(found.shown) <= set(found.tables)
    for chart in found.charts:
        assert {chart.x, chart.y} <= set(found.tables[chart.table].columns)
    if name == "static-routes":
        assert all(bar.met for bar in found.bars)
