"""The commands interconnect and codesign, as a user runs them."""

import io
import json

import pandas as pd
import pytest
from click.testing import CliRunner

from toruscast import datasets
from toruscast.cli import main

SOLVER = '[requirements]\nbytes_used = "1e5 * n"\nflop = "1e7 * n * log2(p)"\n'


@pytest.fixture
def solver(tmp_path):
    path = tmp_path / "solver.toml"
    path.write_text(SOLVER)
    return path


def run(*arguments):
    return CliRunner().invoke(main, list(map(str, arguments)))


def table(result):
    assert result.exit_code == 0, result.stderr
    return pd.read_csv(io.StringIO(result.stdout))


def test_fit():
    result = run("interconnect", "fit", "lsdyna-interconnect")
    assert result.exit_code == 0
    assert "alpha 3.578" in result.stdout
    assert "the interval of beta holds 0" in result.stderr
    assert "alpha" not in result.stderr
    content = json.loads(run("interconnect", "fit", "lsdyna-interconnect", "--json", "-").stdout)
    assert content["constants"]["beta"] == pytest.approx(1.607, abs=1e-3)
    assert len(content["runs"]) == 17


def test_speed_up(tmp_path):
    drawn = tmp_path / "speedup.svg"
    rows = table(
        run("interconnect", "speed-up", "lsdyna-interconnect", "--csv", "-", "--figure", drawn)
    )
    known = rows[rows["published"].notna()]
    assert known["job"].tolist() == ["DP-32"]
    assert (known["zero_latency"].round() == known["published"]).all()
    assert "over 4 tasks" in drawn.read_text()


def test_fit_reads_a_file_and_level_narrows(tmp_path):
    path = tmp_path / "runs.csv"
    path.write_bytes(datasets.table_path("lsdyna-interconnect").read_bytes())
    content = json.loads(run("interconnect", "fit", path, "--level", 0.5, "--json", "-").stdout)
    low, high = content["constants"]["beta_interval"]
    assert -6.1 < low < 1.6 < high < 9.4
    assert content["constants"]["level"] == 0.5


def test_what_if():
    given = ("--alpha", 3.6, "--beta", 1.6, "--interconnect", "HF2", "--csv", "-")
    rows = table(run("interconnect", "what-if", "lsdyna-interconnect", *given))
    double = rows[rows["job"].str.startswith("DP") & (rows["job"] != "DP-1")]
    assert double["infinite speed"].round().tolist() == [11575, 5858, 3116, 1804]
    asked = ("--latency", 0, "--bandwidth", "inf")
    rows = table(run("interconnect", "what-if", "lsdyna-interconnect", *given, *asked))
    assert rows["asked"].tolist() == pytest.approx(rows["infinite speed"].tolist())
    shown = run("interconnect", "what-if", "lsdyna-interconnect", "--latency", 1e-6)
    assert shown.exit_code == 0
    assert "asked" in shown.stdout


@pytest.mark.filterwarnings("always")
def test_constants_that_do_not_fit_are_told():
    given = ("interconnect", "what-if", "lsdyna-interconnect", "--beta", 1.6, "--alpha")
    result = run(*given, 500)
    assert result.exit_code == 0
    (line,) = result.stderr.splitlines()
    assert "16 of 17 runs would communicate for longer than they took" in line
    assert "alpha is negative (-3)" in run(*given, -3).stderr


def test_upgrade(solver):
    rows = table(run("codesign", "upgrade", "--csv", "-", "--quiet"))
    assert len(rows) == 75
    assert rows["published"].notna().sum() == 60
    given = ("--app", solver, "--processes", 1024, "--memory", 1e9, "--upgrade", "more=2,0.5")
    rows = table(run("codesign", "upgrade", *given, "--csv", "-"))
    assert rows["upgrade"].unique().tolist() == ["more"]
    assert rows["ratio"].tolist() == pytest.approx([0.5, 0.55])
    shown = run("codesign", "upgrade", "--app", solver, "--app", "milc")
    assert shown.exit_code == 0
    assert "2.83" in shown.stdout
    assert "published" in shown.stdout
    assert "published" not in run("codesign", "upgrade", "--memory", 1e11).stdout
    assert len(run("codesign", "upgrade", "--app", solver).stdout.splitlines()) == 6


def test_systems(solver):
    rows = table(run("codesign", "systems", "--csv", "-", "--quiet"))
    assert len(rows) == 15
    shown = run("codesign", "systems")
    assert shown.exit_code == 0
    assert "icofoam on 2e+09 processes does not fit" in shown.stderr
    assert "docs/scaling/codesign.md" in shown.stdout
    given = ("--app", solver, "--system", "a=4,1e6,1e9", "--system", "b=16,1e6,1e9")
    content = json.loads(run("codesign", "systems", *given, "--json", "-").stdout)
    assert [row["n"] for row in content["systems"]] == pytest.approx([10, 10])
    assert content["systems"][1]["wall_time"] == pytest.approx(1e7 * 2.5 * 4 / 1e9)
