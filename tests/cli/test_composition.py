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
