"""Allocations, slow and missing links and bound tasks on every command."""

import json

import pytest
from click.testing import CliRunner

from toruscast.cli.app import main

OURS = [0, 1, 2, 3, 4, 7, 8, 11, 12, 13, 14, 15]


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ring.edges").write_text(
        "12\n" + "".join(f"{t} {(t + 1) % 12} 5000\n" for t in range(12))
    )
    (tmp_path / "ours.csv").write_text(
        "task,node\n" + "".join(f"{i},{n}\n" for i, n in enumerate(OURS))
    )
    (tmp_path / "links.csv").write_text('link,bandwidth\n"(0,0) +0",1e8\n6,0\n')
    return tmp_path


def run(*words):
    base = ["--comm", "ring.edges", "--torus", "4x4", "--allocation", "ours.csv"]
    return CliRunner().invoke(main, [words[0], *base, *words[1:]])


@pytest.mark.parametrize(
    "words",
    [
        ("rank", "--candidates", "8", "--jobs", "1"),
        ("simulate", "--mapping", "identity"),
        ("simulate", "--candidates", "6"),
        ("features", "--candidates", "6"),
        ("simulate", "--flows", "--candidates", "6"),
        ("search", "--seconds", "0.5"),
    ],
    ids=str,
)
def test_every_command_keeps_to_the_allocation(files, words):
    result = run(*words, "--fix", "0=7", "--json", "-")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    name = found.get("torus", {}).get("name", "4 nodes of others")
    assert "4 nodes of others" in name


def test_rank_writes_mappings_on_our_nodes_with_bound_tasks_in_place(files):
    result = run("rank", "--candidates", "8", "--fix", "3=15", "--out", "maps/", "-q")
    assert result.exit_code == 0, result.output
    for file in (files / "maps").glob("*.map"):
        rows = [line.split() for line in file.read_text().splitlines() if line[:1].isdigit()]
        nodes = [4 * int(row[0]) + int(row[1]) for row in rows]
        assert set(nodes) <= set(OURS)
        assert nodes[3] == 15


def test_links_of_a_file_are_slow(files):
    (files / "links.csv").write_text('"(0,0) +1",1e8\n')
    times = [
        json.loads(run("simulate", "--mapping", "identity", "--json", "-", *more).stdout)["time"]
        for more in ((), ("--slow-links", "links.csv"))
    ]
    assert times[1] > 2 * times[0]
