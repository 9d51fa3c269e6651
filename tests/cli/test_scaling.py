"""Tests of the command pmnf."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from toruscast.cli import main
from toruscast.scaling import FitOptions, Measurements, fit_many

POINTS = (4, 8, 16, 32, 64)
TEXT = "PARAMETER p\nPOINTS 4 8 16 32 64\nREGION main\nMETRIC time\n" + "".join(
    f"DATA {3 + 2 * p} {3 + 2 * p}\n" for p in POINTS
)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "times.txt"
    path.write_text(TEXT)
    return path


def run(*arguments):
    return CliRunner().invoke(main, ["pmnf", *map(str, arguments)])


def test_fit(file):
    (model,) = json.loads(run("fit", file, "--json", "-").stdout)["models"]
    assert model["notes"] == []
    assert model["trusted"] is True
    assert model["terms"] == [
        {"coefficient": pytest.approx(3, rel=1e-12), "exponents": {"p": [0, 0]}},
        {"coefficient": pytest.approx(2, rel=1e-12), "exponents": {"p": [1, 0]}},
    ]


def from_stdin(text, *arguments):
    code = f"from toruscast.cli import main; main({arguments!r})"
    return subprocess.run(
        [sys.executable, "-c", code], input=text, capture_output=True, text=True, check=False
    )


@pytest.mark.skipif(not Path("/dev/stdin").exists(), reason="/dev/stdin not found")
def test_a_dash_is_stdin():
    table = "p,value\n" + "".join(f"{p},{3 + 2 * p}\n" for p in POINTS)
    assert ",3 + 2 p," in from_stdin(table, "pmnf", "fit", "-", "--csv", "-").stdout
    wrong = from_stdin("p,value\n2,x\n", "pmnf", "predict", "-", "--at", "p=2")
    assert wrong.returncode == 2
    assert wrong.stderr.startswith("toruscast: error: /dev/stdin:2: bad number: found x")


def test_how_to_search(tmp_path):
    path = tmp_path / "two.txt"
    rows = "".join(f"DATA {p + p**3}\n" for p in (2, 4, 8, 16, 32))
    path.write_text(f"PARAMETER p\nPOINTS 2 4 8 16 32\n{rows}")
    two = json.loads(run("fit", path, "--json", "-").stdout)["models"][0]
    assert two["formula"].endswith("p + p^3")
    one = json.loads(run("fit", path, "--max-terms", 1, "--json", "-").stdout)["models"][0]
    assert one["formula"].count("p") == 1
    assert run("predict", path, "--at", "p=64", "--noise", "normal").exit_code == 0
    options = ("--noise", "bounded", "--max-terms", 1, "--figures", tmp_path / "f")
    assert run("fit", path, *options).exit_code == 0
    assert "90 % interval" in (tmp_path / "f" / "model-0.svg").read_text()


def test_terms_to_search(tmp_path):
    # Negative powers are in no published space, eighths only in the fine one.
    rows = {"falling": [100 / p for p in POINTS], "eighths": [3 + p**1.125 for p in POINTS]}
    found = {}
    for name, values in rows.items():
        path = tmp_path / f"{name}.txt"
        data = "".join(f"DATA {value!r}\n" for value in values)
        path.write_text(f"PARAMETER p\nPOINTS 4 8 16 32 64\n{data}")
        for terms in ("default", "published", "fine"):
            fitted = json.loads(run("fit", path, "--terms", terms, "--json", "-").stdout)
            found[name, terms] = fitted["models"][0]["formula"]
            data = Measurements(["p"], np.reshape(POINTS, (-1, 1)), np.reshape(values, (1, -1, 1)))
            expected = fit_many(data, FitOptions(space=terms)).predict([[128.0]]).item()
            at = run("predict", path, "--terms", terms, "--at", "p=128", "--json", "-").stdout
            assert json.loads(at)["predictions"][0]["prediction"] == pytest.approx(expected)
    assert found["falling", "default"] == found["falling", "fine"] == "100 p^-1"
    assert "^-" not in found["falling", "published"]
    assert found["eighths", "fine"] == "3 + p^(9/8)" != found["eighths", "default"]


def test_one_call_path_is_fitted_among_all(tmp_path):
    # The noise of one path is estimated from the repetitions of all.
    random = np.random.default_rng(3)
    lines = ["PARAMETER p", "POINTS 4 8 16 32 64"]
    for number in range(40):
        values = (number + 1) * np.array([4.0, 8, 16, 32, 64])[:, None]
        lines += [f"REGION path {number:02}"]
        lines += [
            "DATA " + " ".join(map(str, row)) for row in values * random.uniform(0.9, 1.1, (5, 5))
        ]
    path = tmp_path / "many.txt"
    path.write_text("\n".join(lines))
    at = ("--at", "p=512", "--csv", "-")
    every = run("predict", path, *at).stdout.splitlines()
    for number in range(0, 40, 8):
        name = f"path {number:02}"
        assert run("predict", path, "--callpath", name, *at).stdout.splitlines()[1:] == [
            line for line in every if line.startswith(name)
        ]
    models = json.loads(run("fit", path, "--callpath", "path 0", "--json", "-").stdout)["models"]
    assert [model["callpath"] for model in models] == [f"path 0{k}" for k in range(10)]


MIXED = {
    "parameters": ["p"],
    "measurements": {
        name: {"time": [{"point": [p], "values": [2 * p + 1]} for p in points]}
        for name, points in (("main", [4, 8, 16, 32, 64]), ("init", [4, 8]), ("end", [4, 8]))
    },
}


def test_call_paths_of_too_few_points_get_no_interval(tmp_path):
    path = tmp_path / "mixed.json"
    path.write_text(json.dumps(MIXED))
    at = ("predict", path, "--at", "p=128", "--interval", "0.9")
    result = run(*at, "--json", tmp_path / "mixed-out.json")
    assert result.exit_code == 0
    assert "2 of 3 models, such as init (time): too few points for an interval: 2" in result.stderr
    content = json.loads((tmp_path / "mixed-out.json").read_text())
    rows = {row["callpath"]: row for row in content["predictions"]}
    assert rows["main"]["low"] == pytest.approx(257)
    assert [rows[name][end] for name in ("init", "end") for end in ("low", "high")] == [None] * 4
    assert {model["callpath"]: model["trusted"] for model in content["models"]}["main"] is True
    assert run(*at, "--csv", "-").stdout.splitlines()[2].endswith(",,")
    assert "nan" not in result.stdout


def test_long_tables_are_cut_short(tmp_path, monkeypatch):
    path = tmp_path / "many.txt"
    regions = [f"REGION path {k:03}\n" + "DATA 7\n" * 5 for k in range(120)]
    regions[110] = "METRIC bytes\n" + regions[110] + "METRIC time\n"
    path.write_text("PARAMETER p\nPOINTS 4 8 16 32 64\nMETRIC time\n" + "".join(regions))
    result = run("fit", path, "--csv", tmp_path / "models.csv")
    lines = result.stdout.splitlines()
    assert len(pd.read_csv(tmp_path / "models.csv")) == 120
    starts = [f"path {k:03}" for k in range(100)]
    assert [line[:8].strip() for line in lines[3:-1]] == starts
    assert lines[-1].startswith("(20 of 120 rows are not shown)")
    assert len(run("fit", path, "--top", 120).stdout.splitlines()) == 123
    predicted = run("predict", path, "--at", "p=128", "--at", "p=256", "--top", 2).stdout
    assert "(238 of 240 rows are not shown" in predicted
    # The metric differs in hidden rows, so it is not constant.
    monkeypatch.setattr("toruscast.cli.output.PLAIN_WIDTH", 30)
    narrow = run("fit", path, "--top", 2).stdout
    assert "metric time" not in narrow
    assert "metric" in narrow
    path.write_text(path.read_text().replace("METRIC bytes\n", ""))
    assert "(all: metric time" in run("fit", path, "--top", 2).stdout


@pytest.mark.parametrize(("width", "columns"), [(80, 6), (38, 5), (32, 4)])
def test_requested_columns_stay_in_a_narrow_terminal(file, monkeypatch, width, columns):
    monkeypatch.setattr("toruscast.cli.output.PLAIN_WIDTH", width)
    at = ("predict", file, "--at", "p=128", "--interval", "0.9")
    lines = run(*at).stdout.splitlines()
    head = ["callpath", "metric", "at", "prediction", "low", "high"]
    gone = ["at", "metric"][: 6 - columns]
    assert lines[0].split() == [name for name in head if name not in gone]
    assert not gone or lines[-1].strip() == f"(no room for: {', '.join(gone[::-1])})"
    # Two points need the column at.
    both = run(*at, "--at", "p=256").stdout
    assert "128" in both
    assert "256" in both


def test_the_only_metric_is_the_first_column_to_go(file, monkeypatch):
    heads = {}
    for width in (80, 60, 36):
        monkeypatch.setattr("toruscast.cli.output.PLAIN_WIDTH", width)
        lines = run("fit", file).stdout.splitlines()
        head = " ".join(lines[: [line[:3] for line in lines].index("---")]).split()
        heads[width] = (sorted(head), [line.strip() for line in lines if line[:1] == "("])
    every = ["%", "adjusted", "callpath", "formula", "metric", "r2", "smape,"]
    assert heads[80] == (every, [])
    without = [name for name in every if name != "metric"]
    assert heads[36] == (without, ["(no room for: metric)"])


def test_names_must_be_unique(file):
    plan = run("plan", "--values", "p=1,2", "--values", "p=3,4,5")
    assert (plan.exit_code, "--values given twice for p" in plan.output) == (2, True)
    again = run("plan", file, "--values", "p=64", "--values", "p=128")
    assert again.exit_code == 2


def test_a_plan_without_runs_says_so(file):
    planned = run("plan", file, "--cost", "p", "--budget", "1e-9")
    assert planned.exit_code == 0
    assert "no run within the budget of 1e-09" in planned.stderr


def test_nan_is_refused(file):
    for given in (("plan", file, "--budget"), ("predict", file, "--at", "p=2", "--interval")):
        refused = run(*given, "nan")
        assert (refused.exit_code, "found nan, expected a number" in refused.output) == (2, True)
