"""Tests of the command interconnect."""

import io
import json

import pandas as pd
from click.testing import CliRunner

from toruscast import datasets
from toruscast.cli import main


def run(*arguments):
    return CliRunner().invoke(main, list(map(str, arguments)))


def table(result):
    assert result.exit_code == 0, result.stderr
    return pd.read_csv(io.StringIO(result.stdout))


def test_speed_up(tmp_path):
    drawn = tmp_path / "curves"
    rows = table(
        run("interconnect", "speed-up", "lsdyna-interconnect", "--csv", "-", "--figures", drawn)
    )
    known = rows[rows["published"].notna()]
    assert known["job"].tolist() == ["DP-32"]
    assert (known["zero_latency"].round() == known["published"]).all()
    for i, kind in enumerate(("SP", "DP")):
        assert f"over 1 task, {kind}" in (drawn / f"speed-up-{i}.svg").read_text()
    assert rows.loc[rows["job"] == "DP-2", "communication"].isna().all()


def test_fit_reads_a_file_and_level_narrows(tmp_path):
    path = tmp_path / "runs.csv"
    path.write_bytes(datasets.table_path("lsdyna-interconnect").read_bytes())
    content = json.loads(run("interconnect", "fit", path, "--level", 0.5, "--json", "-").stdout)
    low, high = content["constants"]["beta_interval"]
    assert -6.1 < low < 1.6 < high < 9.4
    assert content["constants"]["level"] == 0.5
