"""Collectives measured on Fugaku: how well their algorithms are ranked."""

import shutil

import numpy as np
import pandas as pd
import pytest
from fugaku_tables import HEADER, JOB, write

from studies import EXPERIMENTS, Inputs
from studies.fugaku import table as fugaku_table
from studies.fugaku import times as reader
from studies.fugaku.algorithms import parse
from studies.fugaku.footprint import simulated_bytes
from studies.fugaku.job import read_job
from studies.fugaku.ranking import corrections, count_pairs, rank_groups
from studies.fugaku.table import tabulate
from toruscast.errors import InputError
from toruscast.mapping.collectives import schedule
from toruscast.training.metrics import rcc


@pytest.fixture(scope="module")
def measured(shared_data):
    return shared_data / "pico-fugaku"


@pytest.fixture(scope="module")
def part(measured, tmp_path_factory):
    """Three collectives and three sizes on the two small tori."""
    folder = tmp_path_factory.mktemp("data") / "pico-fugaku"
    shutil.copytree(measured / "jobs", folder / "jobs")
    for path in measured.glob("*.csv"):
        raw = pd.read_csv(path)
        kept = raw[
            raw["collective_type"].isin(["ALLREDUCE", "ALLGATHER", "BCAST"])
            & raw["buffer_size"].isin([2048, 8388608, 67108864])
            & (raw["nnodes"] != "64x64")
        ]
        if len(kept):
            kept.to_csv(folder / path.name, index=False)
    return folder


RUN = [
    ("default-ring", 40),
    ("default-recursive_doubling", 20),
    ("BINE-L-UTOFU-0-1", 10),
    ("BINE-L-UTOFU-0-6", 12),
]


def rows_of(shape, run=RUN, slower=1.0):
    return "".join(
        f"ALLREDUCE,{nbytes},{name},{slower * (us * 1000 + nbytes / 5)},{shape},1\n"
        for name, us in run
        for nbytes in (2048, 1048576)
    )


def run_on(tmp_path, tables):
    tmp_path.mkdir(exist_ok=True)
    folder = write(tmp_path / "pico-fugaku", tables[0])
    for shape in ("4x4x4", "6x6", "64x64"):
        text = JOB.replace("2x2x2", shape).replace("YZX", "XYZ"[: shape.count("x") + 1])
        (folder / "jobs" / shape).write_text(text)
    for number, rows in enumerate(tables[1:]):
        path = folder / f"b{number}.aggregated_results_summary.csv"
        path.write_text(HEADER + rows)
    return EXPERIMENTS["fugaku"].run(Inputs(data=tmp_path))


def test_what_was_measured_twice_counts_by_the_median(tmp_path):
    both = [rows_of(s, RUN, slower) for s in ("2x2x2", "4x4x4") for slower in (1.0, 3.0)]
    found = run_on(tmp_path, both)
    assert "16 more, of the same again, are merged" in found.text
    times = found.tables["fugaku_times"]
    assert len(times) == 16
    one = times[(times["algorithm"] == "default-ring") & (times["nbytes"] == 2048)]
    assert one["time"].tolist() == pytest.approx([2 * (40e-6 + 2048 / 5 * 1e-9)] * 2)


def test_what_cannot_run_is_left_out_and_counted(tmp_path):
    odd = "".join(
        f"{collective},2048,{name},9000,{shape},1\n"
        for collective, name, shape in (
            ("BCAST", "RING-X-UTOFU-0-1", "4x4x4"),
            ("ALLGATHER", "BRUCK-X-UTOFU-0-1", "4x4x4"),
            ("ALLREDUCE", "BINE-L-UTOFU-0-8", "4x4x4"),
            ("ALLREDUCE", "BINE-L-UTOFU-0-1", "6x6"),
            ("ALLREDUCE", "default-recursive_doubling", "6x6"),
        )
    )
    rest = "ALLREDUCE,2048,default-ring,9000,6x6,1\nALLREDUCE,2048,default-ring,9000,4x4x4,1\n"
    found = run_on(tmp_path, [rows_of("2x2x2"), odd + rest])
    assert found.tables["fugaku_left_out"]["rows"].sum() == 3
    assert "3 of them have no name known, or cannot run" in found.text
    assert [note[:9] for note in found.notes if "nothing to rank" in note] == [
        "4x4x4: no",
    ]


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        ("BCAST,2048,default-default,5,2x2x2,1\n", "no algorithm whose schedule is known"),
        ("BCAST,2048,default-binomial,5,2x2x2,1\n", "nothing to rank"),
    ],
)
def test_tables_without_anything_to_rank(tmp_path, rows, fault):
    with pytest.raises(InputError, match=fault):
        run_on(tmp_path, [rows])


def test_a_note_on_64x64_needs_times_of_it(tmp_path):
    for shape in ("4x4x4", "64x64"):
        found = run_on(tmp_path / shape, [rows_of("2x2x2"), rows_of(shape, RUN[1:3])])
        assert any("too slow on 64x64" in note for note in found.notes) == (shape == "64x64")


def test_assumed_times_decide_on_many_nodes(tmp_path):
    found = run_on(tmp_path, [rows_of("2x2x2"), rows_of("64x64", RUN[1:3])])
    assert "fugaku_assumed" in found.shown
    table = found.tables["fugaku_assumed"].set_index(["shape", "assumed times"])
    # A table of 4096 entries, 41 us: twice that is more than the 10 us by which it wins.
    for column in ("mean RCC, model", "mean RCC, model, corrected"):
        of = table[column]["64x64"]
        assert of.drop("all doubled").tolist() == [1.0] * 5
        assert of["all doubled"] == 0.5
        assert (table[column]["2x2x2"] == 1.0).all()


def test_ports_in_turn_are_simulated_up_to_as_many_messages(tmp_path, monkeypatch):
    row = "REDUCE,2048,BINE-BINOMIAL_TREE-UTOFU-0-3,9000,2x2x2,1\n"
    folder = write(tmp_path, row)
    simulated = []
    monkeypatch.setattr(
        fugaku_table, "simulated_bytes", lambda plan, *at, **how: simulated.append(plan.name) or 1.0
    )
    # Three rounds on each of three ports, one after the other, of at most eight messages.
    for most, expected in ((72, 1), (71, 0)):
        simulated.clear()
        monkeypatch.setattr(fugaku_table, "_MANY", most)
        tabulate(folder)
        assert simulated.count("reduce/bine") == expected


def test_a_job_of_a_single_node(tmp_path):
    folder = write(tmp_path, "ALLREDUCE,2048,BINE-L-UTOFU-0-6,9000,1x1x1,1\n")
    (folder / "jobs" / "1x1x1").write_text(JOB.replace("2x2x2", "1x1x1"))
    table, _ = tabulate(folder)
    assert table["simulated"].tolist() == table["rounds"].tolist() == [0]


def test_a_job_script_of_another_torus(tmp_path):
    folder = write(tmp_path, rows_of("2x2x2"), JOB.replace("2x2x2", "2x2x4"))
    with pytest.raises(InputError, match=r"job script of another torus: found .*2.*expected 2x2x2"):
        tabulate(folder)


def test_pairs_are_counted_as_rcc_counts_them():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"shape": "s", "collective": "c", "nbytes": 1.0, "time": rng.random(20)})
    predicted = rng.random(20)
    pairs, wrong, close = count_pairs(table, predicted, 0.1)
    assert (pairs, 1 - wrong / pairs) == (190, pytest.approx(rcc(table["time"], predicted)))
    assert 0 < close < wrong == count_pairs(table, predicted, np.inf)[2]


def test_corrections_make_known_rows_exact_and_interpolate_ports():
    table = pd.DataFrame(
        {
            "code": ["a BINE-L-u"] * 3 + ["a RECDOUB-L-u", "z other-u"],
            "layer": "utofu",
            "segment": 0,
            "nbytes": 8.0,
            "ports": [1, 4, 2, 1, 1],
            "time": [2.0, 8.0, 5.0, 9.0, 7.0],
        }
    )
    known = np.array([True, True, False, False, False])
    factor = corrections(table, np.ones(5), known)
    # Two ports lie halfway between one and four on the logarithmic scale.
    assert factor == pytest.approx([2.0, 8.0, 4.0, 2.0, 1.0])


def test_ranking_of_a_group():
    table = pd.DataFrame(
        {"shape": "s", "collective": "c", "nbytes": [1.0, 1.0, 1.0, 2.0], "time": [1.0, 2, 4, 9]}
    )
    groups = rank_groups(table, {"good": np.array([1.0, 2, 3, 1]), "bad": np.array([5.0, 4, 4, 1])})
    assert groups["algorithms"].tolist() == [3, 3]
    assert groups["regret"].tolist() == pytest.approx([0.0, 1.0])
    assert groups["rcc"].tolist() == pytest.approx([1.0, 1 / 3])


def test_every_measured_name_is_known_or_counted(measured):
    times = reader.read_times(measured)
    assert len(times) == sum(len(pd.read_csv(path)) for path in measured.glob("*.csv"))
    unknown = {
        row.algorithm
        for row in times.drop_duplicates(["shape", "collective", "algorithm"]).itertuples()
        if parse(row.collective, row.algorithm, row.nbytes, row.shape.count("x") + 1) is None
    }
    assert all(name.startswith("default-") for name in unknown)


def test_simulation_explains_equal_times_of_unlike_trees(measured):
    """Both trees of Open MPI take nine times the bytes; rounds in turn would say 10 and 11."""
    times = reader.read_times(measured)
    job = read_job(measured / "jobs" / "4x4x4")
    for algorithm in ("binary-tree", "binomial"):
        row = times[
            (times["shape"] == "4x4x4")
            & (times["algorithm"] == f"default-{algorithm}")
            & (times["collective"] == "bcast")
            & (times["nbytes"] == 2.0**23)
        ]
        plan = schedule(f"bcast/{algorithm.split('-')[0]}", 64, 2.0**26)
        units = simulated_bytes(plan, job.torus, job.mapping, all_ports=True) / 2.0**26
        # 6.35 GB/s is what one broadcast over a single link attains.
        assert row["time"].item() * 6.35e9 / 2.0**23 == pytest.approx(units, rel=0.03)


def test_ranks_algorithms_of_a_part(part):
    findings = EXPERIMENTS["fugaku"].run(Inputs(data=part.parent))
    assert {bar.kind for bar in findings.bars} == {"at least", "at most"}
    summary = findings.tables["fugaku_summary"].set_index(["shape", "method"])
    # Beside the bars stands what is left of them without what was not fitted.
    (bare,) = [bar for bar in findings.bars if bar.what.endswith("without assumed times")]
    assert bare.measured == summary.loc[("4x4x4", "model, without assumed times"), "mean RCC"]
    assert bare.met is None
    assert summary.loc[("4x4x4", "model"), "mean RCC"] > 0.8
    assert summary.loc[("4x4x4", "model"), "median regret@1"] < 0.15
    assert summary.loc[("2x2x2", "model, corrected"), "mean RCC"] > 0.95
    assert set(findings.shown) <= set(findings.tables)
    assumed = findings.tables["fugaku_assumed"].set_index(["shape", "assumed times"])
    for times, column, method in (
        ("as assumed", "model", "model"),
        ("as assumed", "model, corrected", "model, corrected"),
        ("none of them", "model", "model, without assumed times"),
    ):
        for shape in ("2x2x2", "4x4x4"):
            mean = summary.loc[(shape, method), "mean RCC"]
            assert assumed.loc[(shape, times), f"mean RCC, {column}"] == pytest.approx(mean)
    for chart in findings.charts:
        table = findings.tables[chart.table]
        wanted = {chart.x, chart.y, chart.group, chart.panel} - {None}
        assert wanted <= set(table.columns)
    kept, left_out = tabulate(part)
    assert len(kept) + len(left_out) == len(reader.read_times(part))
    assert findings.tables["fugaku_left_out"]["rows"].sum() == len(left_out)


def test_needs_data_and_the_calibration(tmp_path):
    with pytest.raises(InputError, match="--data"):
        EXPERIMENTS["fugaku"].run(Inputs())
    folder = write(tmp_path / "pico-fugaku", "BCAST,2048,default-binomial,15,4x4x4,1\n")
    (folder / "jobs" / "4x4x4").write_text(JOB.replace("2x2x2", "4x4x4"))
    with pytest.raises(InputError, match="no times of 2x2x2"):
        EXPERIMENTS["fugaku"].run(Inputs(data=tmp_path))
