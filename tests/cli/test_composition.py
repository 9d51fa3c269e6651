"""The command that composes."""

import io
import json

import pandas as pd
import pytest
from click.testing import CliRunner

from toruscast.cli import main

QSORT = ("--task", "qsort=0.03899 n log2(n)")
INC = ("--task", "inc=0.02599 n")


def run(*arguments):
    return CliRunner().invoke(main, ["pmnf", "compose", *map(str, arguments)])


def test_models():
    result = run("tpool_4(pipe(qsort, inc))", *QSORT, *INC)
    assert result.exit_code == 0
    assert "pipe(tpool_4(inc), tpool_4(qsort))" in result.stdout
    assert "0.0097475 n log2(n)" in result.stdout


def test_predictions(tmp_path):
    path = tmp_path / "out.json"
    result = run(
        "pipe(tpool_4(qsort), inc)",
        *QSORT,
        *INC,
        "--at",
        "n=1024",
        "--at",
        "n=2",
        "--against",
        "0.01015 n log2(n)",
        "--csv",
        tmp_path / "out.csv",
        "--json",
        path,
    )
    assert result.exit_code == 0
    table = pd.read_csv(tmp_path / "out.csv")
    assert table.prediction.tolist() == pytest.approx([0.03899 * 10240 / 4, 0.02599 * 2])
    assert table.asymptotic.tolist() == pytest.approx([0.03899 * 10240 / 4, 0.03899 * 2 / 4])
    assert table.error[0] == pytest.approx(100 * (1 - 0.0097475 / 0.01015))
    content = json.loads(path.read_text())
    assert content["predictions"][1]["at"] == "n=2"
    assert content["models"][0]["normal_form"] == "pipe(inc, tpool_4(qsort))"


def test_pieces():
    """0.02 n meets 0.01 n log2(n) p / 4 with p = 2 at log2(n) = 4."""
    result = run(
        "pipe(tpool_4(a), b)",
        "--task",
        "a=0.01 n log2(n) p",
        "--task",
        "b=0.02 n",
        "--range",
        "n=2..1e3",
        "--at",
        "p=2",
        "--csv",
        "-",
    )
    assert result.exit_code == 0
    table = pd.read_csv(io.StringIO(result.stdout))
    assert table.columns.tolist() == ["expression", "from", "to", "slowest", "formula"]
    assert table["from"].tolist() == pytest.approx([2, 16])
    assert table["to"].tolist() == pytest.approx([16, 1000])
    assert table["slowest"].tolist() == ["b", "tpool_4(a)"]


def test_each_expression_takes_its_own_parameters():
    tasks = ("--task", "a=2 n", "--task", "b=3 p")
    result = run("a", "b", *tasks, "--at", "n=4,p=5", "--against", "m n", "--csv", "-")
    assert "expected m" in result.stderr
    result = run("a", "b", *tasks, "--at", "n=4,p=5", "--csv", "-")
    assert pd.read_csv(io.StringIO(result.stdout)).prediction.tolist() == [8, 15]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "nothing to compose"),
        (["inc"], "found inc"),
        (["inc", "--task", "inc"], "found inc, expected NAME=VALUE"),
        (["inc", *INC, *INC], "inc twice"),
        (["inc", "--task", "inc=n^"], "bad formula, column 3"),
        (["pipe(inc", *INC], "bad expression 'pipe(inc' at character 5"),
        (["inc", *INC, "--at", "m=2"], "found m, expected n"),
        (["inc", *INC, "--at", "n=2,m=2"], "found m, expected n"),
        (["inc", *INC, "--at", "n=2,m=2", "--against", "p"], "found m, expected n or p"),
        (["inc", *INC, "--range", "n=1..10", "--at", "n=5"], "n has a range already"),
        (["inc", *INC, "--at", "n"], "found n, expected NAME=VALUE"),
        (["inc", *INC, "--range", "n=1-2"], "bad --range"),
        (["inc", *INC, "--range", "n=2..1"], "bad range of n"),
        (["inc", *INC, "--range", "n=1..2", "--at", "p=1", "--at", "p=2"], "takes one --at"),
        (["inc", *INC, "--against", "n"], "needs --at"),
    ],
)
def test_wrong_input(arguments, message):
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1
