"""The command that fits and predicts."""

import json

import pandas as pd
import pytest
from click.testing import CliRunner

from toruscast.cli import main

TEXT = "PARAMETER p\nPOINTS 4 8 16 32 64\nREGION main\nMETRIC time\n" + "".join(
    f"DATA {3 + 2 * p} {3 + 2 * p}\n" for p in (4, 8, 16, 32, 64)
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
    assert content["models"][0]["notes"] == []


def test_predict(file):
    result = run(
        "predict", file, "--at", "p=128", "--at", "p=256", "--interval", "0.9", "--csv", "-"
    )
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == "callpath,metric,at,prediction,low,high"
    assert float(lines[1].split(",")[3]) == pytest.approx(259)
    assert float(lines[2].split(",")[5]) == pytest.approx(515)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--at", "q=3"], "must name every parameter"),
        (["--at", "p=x"], "bad --at"),
        (["--at", "p=-3"], "Negative values"),
        (["--at", "p=3", "--callpath", "absent"], "no call path"),
    ],
)
def test_wrong_input(file, arguments, message):
    result = run("predict", file, *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_wrong_file(tmp_path):
    result = run("fit", tmp_path / "absent.txt")
    assert result.exit_code == 2
    assert "absent.txt" in result.stderr
