"""Allocations, slow and missing links and fixed tasks in every command."""

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
    name = found.get("torus", {}).get("name", "4 excluded nodes")
    assert "4 excluded nodes" in name


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


@pytest.mark.parametrize("words", [("rank", "--candidates", "8"), ("search", "--seconds", "60")])
def test_a_file_that_cannot_hold_the_job_is_refused_before_the_work(files, words, monkeypatch):
    def work(*_, **__):
        pytest.fail("worked before the refusal")

    monkeypatch.setattr("toruscast.rank", work)
    monkeypatch.setattr("toruscast.search", work)
    (files / "few.edges").write_text("0 1 10\n1 2 10\n2 3 10\n")
    (files / "hosts.csv").write_text("host,node\nc0,0\nc1,1\n")
    (files / "odd.csv").write_text("host,node\n" + "".join(f"c-{n}:x,{n}\n" for n in OURS))
    (files / "map.csv").write_text("mine,3,2,1,0\n")
    for more, message in (
        ("--comm few.edges --torus 4x4 --out MPICH_RANK_ORDER", "found 4 tasks on 16 nodes"),
        ("--comm few.edges --torus 2x2x2x2 --out a.vcoord", "too many dimensions"),
        (
            "--comm few.edges --torus 4x4 --out a.rankfile --hosts hosts.csv",
            "more tasks than slots",
        ),
        ("--comm ring.edges --torus 4x4 --out a.nodelist --hosts odd.csv", "not accepted by Slurm"),
        ("--comm ring.edges --torus 4x4 --out a.json --hosts odd.csv", "host name is not a number"),
    ):
        result = CliRunner().invoke(main, [*words, *more.split()])
        assert result.exit_code == 2
        assert message in result.stderr
        assert not [*files.glob("a.*"), *files.glob("MPICH*")]


def test_one_given_mapping_must_be_expressible(files):
    (files / "few.edges").write_text("0 1 10\n1 2 10\n2 3 10\n")
    line = "rank --comm few.edges --torus 4x4 --mappings maps.csv --out MPICH_RANK_ORDER --quiet"
    (files / "maps.csv").write_text("far,0,15,5,10\n")
    result = CliRunner().invoke(main, line.split())
    assert result.exit_code == 2
    assert "cannot apply the mapping: found node 1 with 0 tasks" in result.stderr
    (files / "maps.csv").write_text("far,0,15,5,10\nnear,3,2,1,0\n")
    result = CliRunner().invoke(main, line.split())
    assert result.exit_code == 0, result.stderr
    assert (files / "MPICH_RANK_ORDER").read_text().endswith("3,2,1,0\n")


def test_a_search_takes_as_many_tasks_a_node_as_the_nodes_of_an_allocation_need(files):
    (files / "four.txt").write_text("0\n1\n5\n6\n")
    (files / "five.edges").write_text("0 1 10\n1 2 10\n2 3 10\n3 4 5\n")
    base = "search --comm five.edges --torus 3x3 --allocation four.txt --seconds 0.2 --json -"
    for more in ("", "--tasks-per-node 2", "--tasks-per-node 3"):
        result = CliRunner().invoke(main, [*base.split(), *more.split()])
        assert result.exit_code == 0, result.stderr
        node = json.loads(result.stdout)["node"]
        assert {*node} <= {0, 1, 5, 6}
        assert max(map(node.count, node)) <= int(more[-1:] or 2)
    result = CliRunner().invoke(main, [*base.split(), "--tasks-per-node", "1"])
    assert result.exit_code == 2
