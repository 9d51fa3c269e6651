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


def test_links_of_a_file_are_slow_or_missing(files):
    slow = run("simulate", "--mapping", "identity", "--slow-links", "links.csv")
    assert slow.exit_code == 2
    assert "needs a link that is missing" in slow.stderr
    assert "task 1 to task 2 goes over (0,1) +Y" in slow.stderr
    assert len(slow.stderr.strip().splitlines()) == 1
    (files / "links.csv").write_text('"(0,0) +1",1e8\n')
    times = [
        json.loads(run("simulate", "--mapping", "identity", "--json", "-", *more).stdout)["time"]
        for more in ((), ("--slow-links", "links.csv"))
    ]
    assert times[1] > 2 * times[0]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("ours.csv", "", "empty file"),
        ("ours.csv", "0\n99\n", "ours.csv:2"),
        ("ours.csv", "0\n0\n", "twice"),
        ("ours.csv", "0,0\n0,9\n", "ours.csv:2"),
        ("ours.csv", "0\n1\n2\n", "fixed|too many tasks|not in the allocation|does not exist"),
        ("links.csv", "3,fast\n", "links.csv:1"),
        ("links.csv", "3\n", "links.csv:1"),
        ("links.csv", "3,9e9\n", "links.csv:1"),
        ("links.csv", "3,1e9\n3,1e9\n", "links.csv:2"),
        ("links.csv", "(7,0) +1,1e9\n", "links.csv:1"),
        ("links.csv", "", "empty file"),
    ],
)
def test_bad_files_are_refused_on_one_line(files, name, text, words):
    (files / name).write_text(text)
    more = ("--slow-links", "links.csv") if name == "links.csv" else ("--fix", "0=15")
    result = run("rank", "--tasks-per-node", "1", "--candidates", "6", *more)
    assert result.exit_code == 2
    assert len(result.stderr.strip().splitlines()) == 1
    assert any(word in result.stderr for word in words.split("|")), result.stderr


@pytest.mark.parametrize("fix", [("0=5",), ("0=x",), ("0=1", "0=2"), ("0=1", "2=1"), ("99=1",)])
def test_contradictory_bonds_are_refused_on_one_line(files, fix):
    options = [word for each in fix for word in ("--fix", each)]
    for command in (("rank", "--candidates", "6"), ("search", "--seconds", "0.1")):
        result = run(*command, "--tasks-per-node", "1", *options)
        assert result.exit_code == 2, result.output
        assert len(result.stderr.strip().splitlines()) == 1
