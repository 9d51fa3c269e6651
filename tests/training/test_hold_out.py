"""Applications, kinds, tori and sizes that no training sample has."""

import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from toruscast.cli import main
from toruscast.errors import InputError
from toruscast.training import TimePredictor, write_samples
from toruscast.training.application import train_on
from toruscast.training.evaluation import hold_out

N = 12
WORKLOADS, TORI = ("lammps-lj-64", "lammps-lj-512"), ("4x4x4", "8x8x8")


@pytest.fixture
def table():
    rows = []
    for workload in WORKLOADS:
        for torus in TORI:
            for number in range(N):
                # The bound puts the last two the wrong way round, of 66 pairs.
                bound = {10: 12.0, 11: 11.0}.get(number, number + 1.0)
                rows.append(
                    {
                        "workload": workload,
                        "torus": torus,
                        "mapping": f"m{number}",
                        "key": f"{workload} {torus} {number}",
                        "max_bytes": number + 1.0,
                        "release_bound": 1e-6 * bound,
                        "lower_bound": 1e-6,
                        "time": 2e-6 * (number + 1),
                    }
                )
    return pd.DataFrame(rows)


@pytest.fixture
def learners():
    return {"max": TimePredictor(["max_bytes"], n_estimators=20, calibration_folds=2)}


def test_each_group_is_held_out_once_and_scored_by_workload_and_torus(table, learners):
    for by, groups, others in (("application", WORKLOADS, TORI), ("torus", TORI, WORKLOADS)):
        scores = hold_out(table, learners, by)
        assert scores["predictor"].tolist() == ["max"] * 4 + ["release bound"] * 4
        assert scores["held_out"].tolist() == [name for name in groups for _ in range(2)] * 2
        inner = "torus" if by == "application" else "workload"
        assert scores[inner].tolist() == [*others] * 4
        assert scores["n_train"].tolist() == [2 * N] * 4 + [0] * 4
        assert scores["n_test"].tolist() == [N] * 8


def test_a_learner_is_scored_by_forecasts_of_rows_that_it_never_saw(table, learners):
    own = table["workload"] == WORKLOADS[0]
    # The held-out application takes ten times as long, with as many bytes.
    table.loc[own, "time"] *= 10
    row = hold_out(table, learners, "application").iloc[0]
    assert [row["rcc"], row["rcc_1"], row["rcc_5"], row["regret_1"]] == [1.0, 1.0, 1.0, 0.0]
    assert row["error"] == pytest.approx(0.9)
    assert row["coverage"] == 0.0


def test_the_bound_orders_without_learning(table, learners):
    # 20 and 21 us, which the bound has the wrong way round, are closer than 5 %.
    table["time"] = 1e-6 * (table["max_bytes"] + 9)
    row = hold_out(table, learners, "torus").iloc[-1]
    apart = {"rcc": 0.0, "rcc_1": 0.01, "rcc_5": 0.05}
    times = np.arange(10.0, 22.0)
    for name, share in apart.items():
        pairs = [(a, b) for a in times for b in times if b > a * (1 + share)]
        wrong = (20.0, 21.0) in pairs
        assert row[name] == pytest.approx(1 - wrong / len(pairs)), name
    assert row["rcc"] == pytest.approx(65 / 66)
    assert row["regret_1"] == 0.0
    assert row[["error", "coverage"]].isna().all()


def test_without_a_release_bound_the_lower_bound_orders(table, learners):
    scores = hold_out(table.drop(columns="release_bound"), learners, "torus")
    assert scores.loc[scores["predictor"] == "lower bound", "rcc"].tolist() == [0.5] * 4
    bare = table.drop(columns=["release_bound", "lower_bound"])
    assert hold_out(bare, learners, "torus")["predictor"].unique().tolist() == ["max"]


def test_kinds_are_patterns_or_names_up_to_a_number(table, learners):
    with pytest.raises(InputError, match=r"too few kinds.*lammps-lj,"):
        hold_out(table, learners, "kind")
    recipes = {WORKLOADS[0]: {"pattern": "halo_3d", "grid": [4, 4, 4]}}
    table.attrs["provenance"] = {"workloads": recipes}
    kinds = hold_out(table, learners, "kind")["held_out"]
    assert kinds.unique().tolist() == ["halo_3d", "lammps-lj"]


def test_intervals_are_made_for_what_is_held_out():
    # Each application has a level of its own, which the others do not tell.
    rng, size = np.random.default_rng(1), np.arange(1.0, 13)
    table = pd.concat(
        pd.DataFrame(
            {"workload": f"w{k}", "torus": "4x4", "avg_bytes": k, "max_bytes": size}
        ).assign(lower_bound=1e-6 * size, time=1e-6 * size * (1 + rng.random()))
        for k in range(8)
    )
    model = TimePredictor(["max_bytes", "avg_bytes"], "slowdown", n_estimators=20)
    turned = table.sort_values(["workload", "time"], ascending=[True, False])
    for rows in (table, turned.reset_index(drop=True), table.reset_index(drop=True)[::-1]):
        scores = hold_out(rows, {"trees": model}, "application")
        assert scores["coverage"].mean() > 0.7
    first = table[table["workload"] != "w7"]
    low, high = train_on(first, model, n_splits=1).model.predict_interval(table[-12:], 0.9).T
    assert ((low <= table["time"][-12:]) & (table["time"][-12:] <= high)).all()


def test_one_group_has_nothing_to_train_on(table, learners):
    with pytest.raises(InputError, match=r"too few applications.*lammps-lj-64,"):
        hold_out(table[: 2 * N], learners, "application")
    with pytest.raises(InputError, match="group to hold out"):
        hold_out(table, learners, "mapping")


def test_a_single_mapping_has_no_order(table, learners):
    row = hold_out(table.drop(range(N + 1, 2 * N)), learners, "application").iloc[1]
    assert row["n_test"] == 1
    assert row[["rcc", "rcc_1", "rcc_5", "regret_1"]].isna().all()
    assert np.isfinite(row["error"])


@pytest.fixture
def file(table, tmp_path):
    path = tmp_path / "samples.parquet"
    write_samples(table, path)
    return str(path)


def run(*options):
    return CliRunner().invoke(main, ["evaluate", *options])


@pytest.mark.slow
def test_the_command_says_which_set_orders_best(file):
    given = ["--samples", file, "--hold-out", "application", "--features", "max_bytes"]
    result = run(*given, "--json", "-")
    assert result.exit_code == 0, result.output
    assert "NaN" not in result.stdout
    content = json.loads(result.stdout)
    assert "splits" not in content
    rows = content["hold_out"]
    assert [row["held_out"] for row in rows if row["predictor"] == "max_bytes"] == [
        name for name in WORKLOADS for _ in range(2)
    ]
    assert {row["predictor"] for row in rows} == {"max_bytes", "release bound"}
    shown = run(*given).output
    assert "Use max_bytes: 1.000 of the pairs in the right order (RCC)" in shown
    assert "All others are worse." in shown
    assert "max_bytes on each held-out application" in shown


def test_the_command_refuses_what_holds_nothing_out(file, tmp_path):
    plugin = tmp_path / "mine.py"
    plugin.write_text("")
    given = ["--samples", file, "--hold-out", "torus"]
    for more, word in (
        (["--times", "runs.csv"], "exclude each other"),
        (["--plugin", str(plugin)], "--hold-out with --plugin needs --features"),
        (["--splits", "3"], "--splits cannot be used with --hold-out"),
    ):
        result = run(*given, *more)
        assert result.exit_code == 2, result.output
        assert word in result.output
    one = run("--samples", file, "--hold-out", "kind", "--features", "max_bytes")
    assert one.exit_code == 2
    assert f"{file}: too few kinds to hold one out: found lammps-lj, expected" in one.output
    # The option takes such a file: what it looks like is no remedy.
    assert "looks like" not in one.output
