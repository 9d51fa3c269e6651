"""The command that fits and predicts."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from toruscast import datasets
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


def test_fit(file, tmp_path):
    result = run("fit", file, "--csv", tmp_path / "models.csv")
    assert result.exit_code == 0
    assert "3 + 2 p" in result.stdout
    table = pd.read_csv(tmp_path / "models.csv")
    assert table.formula.tolist() == ["3 + 2 p"]
    content = json.loads(run("fit", file, "--json", "-").stdout)
    (model,) = content["models"]
    assert model["notes"] == []
    assert model["trusted"] is True
    assert model["terms"] == [
        {"coefficient": pytest.approx(3, rel=1e-12), "exponents": {"p": [0, 0]}},
        {"coefficient": pytest.approx(2, rel=1e-12), "exponents": {"p": [1, 0]}},
    ]
    assert "differ from the formula" not in result.stderr


def from_stdin(text, *arguments):
    code = f"from toruscast.cli import main; main({arguments!r})"
    return subprocess.run(
        [sys.executable, "-c", code], input=text, capture_output=True, text=True, check=False
    )


@pytest.mark.skipif(not Path("/dev/stdin").exists(), reason="/dev/stdin not found")
def test_a_dash_is_stdin():
    table = "p,value\n" + "".join(f"{p},{3 + 2 * p}\n" for p in POINTS)
    for text in (TEXT, table):
        fitted = from_stdin(text, "pmnf", "fit", "-", "--csv", "-")
        assert ",3 + 2 p," in fitted.stdout
    runs = datasets.table_path("lsdyna-interconnect").read_text()
    assert "alpha 3.578" in from_stdin(runs, "interconnect", "fit", "-").stdout
    wrong = from_stdin("p,value\n2,x\n", "pmnf", "predict", "-", "--at", "p=2")
    assert wrong.returncode == 2
    assert wrong.stderr.startswith("toruscast: error: /dev/stdin:2: bad number: found x")


def test_how_to_search(file, tmp_path):
    path = tmp_path / "two.txt"
    rows = "".join(f"DATA {p + p**3}\n" for p in (2, 4, 8, 16, 32))
    path.write_text(f"PARAMETER p\nPOINTS 2 4 8 16 32\n{rows}")
    two = json.loads(run("fit", path, "--json", "-").stdout)["models"][0]
    assert two["formula"].endswith("p + p^3")
    one = json.loads(run("fit", path, "--max-terms", 1, "--json", "-").stdout)["models"][0]
    assert one["formula"].count("p") == 1
    assert run("predict", path, "--at", "p=64", "--noise", "normal").exit_code == 0
    plotted = run("plot", path, tmp_path / "m.svg", "--noise", "bounded", "--max-terms", 1)
    assert plotted.exit_code == 0
    assert "90 % interval" in (tmp_path / "m.svg").read_text()
    assert run("plot", path, tmp_path / "m.svg", "--interval", 0.5).exit_code == 0
    assert "50 % interval" in (tmp_path / "m.svg").read_text()
    for wrong in (("--max-terms", 3), ("--noise", "pink"), ("--terms", "all")):
        assert run("fit", file, *wrong).exit_code == 2


def test_terms_to_search(tmp_path):
    # Powers that fall stand in no published space, eighths in the fine one only.
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


def test_predict(file):
    result = run(
        "predict", file, "--at", "p=128", "--at", "p=256", "--interval", "0.9", "--csv", "-"
    )
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == "callpath,metric,at,prediction,predicts_by,low,high"
    assert float(lines[1].split(",")[3]) == pytest.approx(259)
    assert float(lines[2].split(",")[5]) == pytest.approx(515)


def test_one_call_path_is_fitted_among_all(tmp_path):
    # From its repetitions alone a path cannot tell how values scatter, which all together do.
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


# Commands that are refused, with a part of the line that says why.
LSDYNA = "lsdyna-interconnect"
COMPOSE = "pmnf compose inc --task inc=n"
REFUSED = {
    "pmnf predict {file} --at q=3": "must name every parameter",
    "pmnf predict {file} --at p=x": "bad --at",
    "pmnf predict {file} --at p=-3": "found p=-3, expected NAME=NUMBER, 0 or more",
    "pmnf predict {file} --at p=nan": "found p=nan",
    "pmnf predict {file} --at p=5,p=6": "found p twice",
    "pmnf predict {file} --at p=1e300": "parameter p is too large",
    "pmnf predict {file} --at p=3 --callpath absent": "no call path",
    "pmnf fit absent.txt": "absent.txt: no such file",
    "pmnf plan": "without FILE, plan needs --values",
    "pmnf plan --values p": "bad --values: found p, expected NAME=V,V,..",
    "pmnf plan --values p=1,2 --budget 0": "expected a cost above 0",
    "pmnf plan --values p=1,2 --budget 1": "no plan within --budget",
    "pmnf plan {file} --together p": "--together takes no FILE",
    "pmnf plan {file} --values x=1": "found x, expected p",
    "pmnf plan {file} --at n=3": "--at must name every parameter",
    "pmnf plan {file} --cost q": "the cost depends on no such parameter",
    "pmnf variation {file} --callpath no": "no call path contains no",
    "pmnf variation {file} --reduce max": "no values of single processes",
    "pmnf compose": "nothing to compose",
    "pmnf compose inc": "found inc",
    "pmnf compose inc --task inc": "bad --task",
    f"{COMPOSE} --task inc=n": "inc twice",
    "pmnf compose inc --task inc=n^": "bad formula, column 3",
    "pmnf compose 'pipe(inc' --task inc=n": "bad expression 'pipe(inc' at character 5",
    f"{COMPOSE} --at m=2": "found m, expected n",
    f"{COMPOSE} --at n=2,m=2": "found m, expected n",
    f"{COMPOSE} --at n=2,m=2 --against p": "found m, expected n or p",
    f"{COMPOSE} --range n=1..10 --at n=5": "n has a range already",
    f"{COMPOSE} --at n": "bad --at",
    f"{COMPOSE} --range n=1-2": "bad --range",
    f"{COMPOSE} --range n=2..1": "bad range of n",
    f"{COMPOSE} --range n=1..2 --at p=1 --at p=2": "takes one --at",
    f"{COMPOSE} --against n": "needs --at",
    "interconnect fit absent.csv": "absent.csv: no such file",
    "interconnect fit lsdyna-published": "lsdyna-published.csv:2: bad header",
    f"interconnect fit {LSDYNA} --level 1": "--level",
    f"interconnect what-if {LSDYNA} --alpha 1": "go together",
    f"interconnect what-if {LSDYNA} --latency -1": "bad latency",
    f"interconnect what-if {LSDYNA} --bandwidth 0": "bad bandwidth",
    f"interconnect what-if {LSDYNA} --interconnect x": "found x, expected GigE or HF2",
    f"interconnect what-if {LSDYNA} --alpha nan --beta 1": "bad alpha",
    "codesign upgrade --app nobody": "unknown application: found nobody",
    "codesign upgrade --app absent.toml": "absent.toml: no such file",
    "codesign upgrade --memory 1": "kripke on 100000 processes does not fit",
    "codesign upgrade --processes nan": "bad processes: found nan",
    "codesign upgrade --upgrade X=1": "found X=1, expected NAME= and 2 numbers",
    "codesign upgrade --upgrade X=0,1": "bad processes: found 0.0",
    "codesign systems --system =1,2,3": "expected NAME= and 3 to 6 numbers",
    "codesign systems --app milc --app milc": "different names",
    "codesign systems --json - --csv -": "only one of",
    "codesign models --csv absent/x.csv": "no such folder",
    "codesign upgrade --app {runs} --metric bytes_used=nothing": "lacks a requirement",
    "codesign upgrade --app {runs} --callpath other": "found no other",
    "codesign upgrade --app {runs} --metric flop": "expected REQUIREMENT=NAME",
    "codesign upgrade --app {runs} --by 2,x": "expected NAME= and 1 to 100 numbers",
    "codesign upgrade --app {runs} --by 2 --upgrade a=1,2": "exclude each other",
    "codesign upgrade --app {runs} --by 0": "bad factor",
    "codesign upgrade --app {toml} --callpath main": "are those of measurements",
}


@pytest.mark.parametrize("command", REFUSED)
def test_refused_commands(file, tmp_path, command):
    toml, runs = tmp_path / "app.toml", tmp_path / "few.csv"
    toml.write_text('[requirements]\nbytes_used = "n"\n')
    runs.write_text("metric,p,n,value\n" + "".join(f"flop,2,{n},{n}\n" for n in range(1, 6)))
    words = shlex.split(command.format(file=file, toml=toml, runs=runs))
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 2
    assert REFUSED[command] in result.stderr
    assert "error: " in result.stderr.splitlines()[-1]
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("text", "formula", "note"),
    [
        ("PARAMETER p\nPOINTS 4\nDATA 1 2 3\n", "2", "no parameter was varied"),
        (
            "PARAMETER p n\nPOINTS (4 1) (8 1) (16 1) (4 2)\nDATA 1\nDATA 2\nDATA 4\nDATA 1\n",
            "0.25 p",
            "parameter n has 2 values",
        ),
        # No logarithm and no falling power of 0 is taken.
        ("PARAMETER p\nPOINTS 0 1 2 4 8\nDATA 1\nDATA 2\nDATA 3\nDATA 5\nDATA 9\n", "1 + p", ""),
    ],
)
def test_poor_measurements_are_fitted_and_said_to_be_poor(tmp_path, text, formula, note):
    path = tmp_path / "poor.txt"
    path.write_text(text)
    result = run("fit", path, "--json", "-")
    assert result.exit_code == 0
    (model,) = json.loads(result.stdout)["models"]
    assert model["formula"] == formula
    assert note in " ".join(model["notes"])


def test_falling_values_need_no_option(tmp_path):
    path = tmp_path / "falling.txt"
    values = "".join(f"DATA {20 - 2 * k}\n" for k in range(1, 7))
    path.write_text(f"PARAMETER p\nPOINTS 2 4 8 16 32 64\n{values}")
    found = json.loads(run("fit", path, "--json", "-").stdout)
    assert found["models"][0]["formula"] == "20 - 2 log2(p)"
    assert "turns negative here" in run("predict", path, "--at", "p=1e9").stderr


NOISY = "PARAMETER p\nPOINTS 4 8 16 32 64\n" + "".join(
    f"REGION {region}\n" + "".join(f"DATA {10 * k} {12 * k} {18 * k}\n" for k in (1, 2, 4, 8, 16))
    for region in ("main", "solve")
)
TOGETHER = "PARAMETER p n\nPOINTS (4 4)(8 8)(16 16)(32 32)(64 64)\n" + "".join(
    f"DATA {p}\n" for p in (4, 8, 16, 32, 64)
)


def test_each_kind_of_note_is_said_once(tmp_path):
    path = tmp_path / "noisy.txt"
    path.write_text(NOISY)
    result = run("fit", path, "--csv", tmp_path / "models.csv")
    lines = [line for line in result.stderr.splitlines() if "vary by more than 10 %" in line]
    assert len(lines) == 1
    assert "2 of 2 models, such as main (time)" in lines[0]
    notes = pd.read_csv(tmp_path / "models.csv").notes
    assert notes.str.contains("the repetitions vary by more than 10 %: ").all()
    assert run("fit", path, "--quiet").stderr == ""
    predicted = run("predict", path, "--at", "p=9", "--json", "-")
    assert "vary by more" in predicted.stderr
    assert "vary by more" in json.loads(predicted.stdout)["models"][1]["notes"][0]


def test_parameters_varied_together_are_noted(tmp_path):
    path = tmp_path / "together.txt"
    path.write_text("\ufeff" + TOGETHER, encoding="utf-8")  # a byte order mark
    result = run("predict", path, "--at", "p=256,n=4")
    assert result.exit_code == 0
    assert "parameters p, n were only varied together" in result.stderr
    assert "warning" not in result.stderr
    path.write_text(TOGETHER.replace(" 8)", " 4)").replace(" 16)", " 4)"))
    assert "together" not in run("predict", path, "--at", "p=256,n=4").stderr


def test_a_parameter_never_varied_is_noted_where_it_differs(tmp_path):
    path = tmp_path / "fixed.txt"
    path.write_text("PARAMETER p n\nPOINTS (4 4)(8 4)(16 4)(32 4)(64 4)\n" + "DATA 4\n" * 5)
    assert "n was not varied" in run("predict", path, "--at", "p=256,n=8").stderr
    assert "n was not varied" not in run("predict", path, "--at", "p=256,n=4").stderr


def test_too_few_points_for_an_interval(tmp_path):
    path = tmp_path / "two.txt"
    path.write_text("PARAMETER p\nPOINTS 4 8\nDATA 4\nDATA 8\n")
    result = run("predict", path, "--at", "p=64", "--interval", "0.9")
    assert result.exit_code == 2
    assert "too few points for an interval: found 2, expected at least 3" in result.stderr
    assert run("plot", path, tmp_path / "model.svg").exit_code == 0


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


def test_fit_and_predict_say_what_predictions_are_made_of(tmp_path):
    path = tmp_path / "noisy.txt"
    path.write_text(
        "PARAMETER p\nPOINTS 4 8 16 32 64\nREGION main\n"
        + "".join(f"DATA {v}\n" for v in (10, 23, 37, 88, 150))
    )
    by = "formula and nearest points"
    assert by in run("fit", path).stdout
    assert by in run("predict", path, "--at", "p=128").stdout
    said = json.loads(run("predict", path, "--at", "p=128", "--json", "-").stdout)
    assert said["models"][0]["trusted"] is False
    assert said["models"][0]["predicts_by"] == by
    path.write_text("PARAMETER p\nPOINTS 4 8 16 32 64\nREGION main\n" + "DATA 7\n" * 5)
    assert "predicts" not in run("fit", path).stdout


def test_long_tables_are_cut_short(tmp_path, monkeypatch):
    path = tmp_path / "many.txt"
    regions = [f"REGION path {k:03}\n" + "DATA 7\n" * 5 for k in range(120)]
    regions[110] = "METRIC bytes\n" + regions[110] + "METRIC time\n"
    path.write_text("PARAMETER p\nPOINTS 4 8 16 32 64\nMETRIC time\n" + "".join(regions))
    result = run("fit", path, "--csv", tmp_path / "models.csv")
    lines = result.stdout.splitlines()
    assert len(pd.read_csv(tmp_path / "models.csv")) == 120
    starts = [*(f"path {k:03}" for k in range(100)), "...", *(f"path {k}" for k in (117, 118, 119))]
    assert [line[:8].strip() for line in lines[2:-1]] == starts
    assert lines[-1].startswith("(17 of 120 rows are not shown)")
    assert len(run("fit", path, "--top", 120).stdout.splitlines()) == 122
    predicted = run("predict", path, "--at", "p=128", "--at", "p=256", "--top", 2).stdout
    assert "(235 of 240 rows are not shown" in predicted
    # A metric of rows that are not shown is no reason to call all alike.
    monkeypatch.setattr("toruscast.cli.output.PLAIN_WIDTH", 30)
    narrow = run("fit", path, "--top", 2).stdout
    assert "metric time" not in narrow
    assert "metric" in narrow
    path.write_text(path.read_text().replace("METRIC bytes\n", ""))
    assert "(all: metric time)" in run("fit", path, "--top", 2).stdout


@pytest.mark.parametrize(("width", "columns"), [(80, 6), (38, 5), (32, 4)])
def test_what_was_asked_for_stays_in_a_narrow_terminal(file, monkeypatch, width, columns):
    monkeypatch.setattr("toruscast.cli.output.PLAIN_WIDTH", width)
    at = ("predict", file, "--at", "p=128", "--interval", "0.9")
    lines = run(*at).stdout.splitlines()
    head = ["callpath", "metric", "at", "prediction", "low", "high"]
    gone = ["at", "metric"][: 6 - columns]
    assert lines[0].split() == [name for name in head if name not in gone]
    told = {"at": "at p=128", "metric": "metric time"}
    assert not gone or lines[-1].strip() == f"(all: {', '.join(map(told.get, gone))})"
    # Two places are told apart.
    both = run(*at, "--at", "p=256").stdout
    assert "128" in both
    assert "256" in both


def test_columns_that_are_alike_go_before_the_last_ones(file, monkeypatch):
    heads = {}
    for width in (80, 60, 36):
        monkeypatch.setattr("toruscast.cli.output.PLAIN_WIDTH", width)
        lines = run("fit", file).stdout.splitlines()
        heads[width] = (lines[0].split(), [line.strip() for line in lines if line[:1] == "("])
    every = ["callpath", "metric", "formula", "smape,", "%", "adjusted", "r2"]
    assert heads[80] == (every, [])
    without = [name for name in every if name != "metric"]
    assert heads[36] == (without[:-2], ["(all: metric time)", "(no room for: adjusted r2)"])
