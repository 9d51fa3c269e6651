"""Collectives measured on Fugaku: how well their algorithms are ranked."""

import shutil

import numpy as np
import pandas as pd
import pytest
from fugaku_tables import HEADER, JOB, write

from studies import STUDIES
from studies.fugaku import table as fugaku_table
from studies.fugaku import times as reader
from studies.fugaku.algorithms import parse
from studies.fugaku.footprint import simulated_bytes
from studies.fugaku.job import read_job
from studies.fugaku.model import fit, predict
from studies.fugaku.ranking import rank_groups
from studies.fugaku.table import tabulate
from studies.run import run
from studies.study import Inputs
from toruscast.errors import InputError
from toruscast.mapping.collectives import schedule


@pytest.fixture(autouse=True)
def one_draw(monkeypatch):
    monkeypatch.setattr("studies.scores.DRAWS", 1)


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
    (part,) = STUDIES["fugaku"].parts.values()
    return part(Inputs(data=tmp_path))


@pytest.mark.slow
def test_what_was_measured_twice_counts_by_the_median(tmp_path):
    both = [rows_of(s, RUN, slower) for s in ("2x2x2", "4x4x4") for slower in (1.0, 3.0)]
    times = run_on(tmp_path, both).tables["fugaku-times"]
    assert len(times) == 16
    one = times[(times["algorithm"] == "default-ring") & (times["nbytes"] == 2048)]
    assert one["time"].tolist() == pytest.approx([2 * (40e-6 + 2048 / 5 * 1e-9)] * 2)


@pytest.mark.slow
def test_what_cannot_run_is_left_out_and_counted(tmp_path):
    odd = "".join(
        f"{collective},2048,{name},9000,{shape},1\n"
        for collective, name, shape in (
            ("BCAST", "RING-X-UTOFU-0-1", "4x4x4"),
            ("BCAST", "default-basic-linear", "4x4x4"),
            ("ALLREDUCE", "BINE-L-UTOFU-0-8", "4x4x4"),
            ("ALLREDUCE", "BINE-L-UTOFU-0-1", "6x6"),
        )
    )
    found = run_on(tmp_path, [rows_of("2x2x2"), rows_of("4x4x4") + odd])
    assert found.tables["fugaku-left-out"]["rows"].sum() == 3
    summary = found.tables["fugaku-summary"].set_index(["shape", "method"])
    assert summary.loc[("4x4x4", "model"), "groups"] == 2
    assert "default-basic-linear" in found.text


def test_short_rings_double():
    assert parse("allreduce", "default-ring", 252, 3, 64).schedule == "allreduce/recursive_doubling"
    assert parse("allreduce", "default-ring", 256, 3, 64).schedule == "allreduce/ring"


def test_fit_finds_planted_times():
    rng, rows = np.random.default_rng(1), 300
    n, rounds = np.arange(rows) % 3, rng.integers(1, 14, rows).astype(float)
    table = pd.DataFrame(
        {
            "code": np.array(["a BINE-X-utofu", "c default-y", "e default-t"])[n],
            "layer": np.array(["utofu", "fjmpi", "trees"])[n],
            "nbytes": 4.0 ** rng.integers(2, 14, rows),
            "ports": np.where(n == 0, rng.choice([1, 3, 6], rows), 1),
            "rounds": rounds,
            "messages": rounds + rng.integers(0, 4, rows),
            "hops": rounds,
            "added": rng.choice([0, 1, 3], rows),
            "simulated": rng.uniform(0.5, 6, rows),
        }
    )
    constants = fit(table.assign(time=1e-5))
    planted = predict(table, constants)
    again = predict(table, fit(table.assign(time=planted)))
    assert np.median(np.abs(again / planted - 1)) < 0.02


@pytest.mark.slow
def test_the_whole_study_on_a_part(part, tmp_path):
    found, left_out = run(["fugaku"], tmp_path, Inputs(data=part.parent), STUDIES, quiet=True)
    assert not left_out
    (findings,) = found["fugaku"].values()
    reached = {target.what: target.reached for target in findings.targets}
    assert reached["mean RCC, 4x4x4, model"] > 0.8
    page = (tmp_path / "fugaku.md").read_text()
    assert len(page.splitlines()) <= 80
    assert (tmp_path / "figures/fugaku-rcc.svg").is_file()


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
        if parse(row.collective, row.algorithm, row.nbytes, row.shape.count("x") + 1, 64) is None
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


def test_needs_data_and_the_calibration(tmp_path):
    (part,) = STUDIES["fugaku"].parts.values()
    with pytest.raises(InputError, match="measurements are needed"):
        part(Inputs())
    folder = write(tmp_path / "pico-fugaku", "BCAST,2048,default-binomial,15,4x4x4,1\n")
    (folder / "jobs" / "4x4x4").write_text(JOB.replace("2x2x2", "4x4x4"))
    with pytest.raises(InputError, match="no times of 2x2x2"):
        part(Inputs(data=tmp_path))
