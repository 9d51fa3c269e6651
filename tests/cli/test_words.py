"""What commands say about numbers: how many tasks share a node, plurals, large counts."""

import pytest
from click.testing import CliRunner

from toruscast.cli import main
from toruscast.cli.phrases import occupancy
from toruscast.mapping import CommGraph, TaskMapping

EDGES = "0 1 100\n1 2 50\n2 3 60\n3 0 70\n0 2 7\n"


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app.txt").write_text(EDGES)
    (tmp_path / "pair.txt").write_text("0 1 8\n")
    (tmp_path / "one.txt").write_text("0 0 8\n")
    (tmp_path / "full.map").write_text("0\n0\n0\n1\n")
    (tmp_path / "one.map").write_text("1\n")

    def call(line, code=0):
        result = CliRunner().invoke(main, line.split())
        assert result.exit_code == code, result.output
        return " ".join(result.output.split())

    return call


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "simulate --comm app.txt --torus 2x2 --mapping full.map",
            "mapping full, 1 to 3 tasks a node on 2 of 4 nodes; deterministic routing.",
        ),
        (
            "simulate --comm app.txt --torus 2x2 --mapping identity",
            "mapping identity, 1 task a node; deterministic routing.",
        ),
        (
            "rank --comm app.txt --torus 2x2 --mappings full.map --model default",
            "1 candidate mapping, 1 to 3 tasks a node on 2 of 4 nodes; forecast",
        ),
        (
            "features --comm app.txt --torus 2x2 --mappings full.map",
            "1 mapping of 4 tasks on torus 2x2: 1 to 3 tasks a node on 2 of 4 nodes.",
        ),
        (
            "convert --mapping full.map full.csv --torus 2x2",
            "full.csv: 1 mapping of 4 tasks, 1 to 3 tasks a node on 2 of 4 nodes",
        ),
        (
            "convert --mapping full.map out/ --torus 4",
            "out/: 1 mapping of 4 tasks, 1 to 3 tasks a node on 2 of 4 nodes",
        ),
    ],
)
def test_tasks_a_node_are_said(run, line, expected):
    assert expected in run(line)


def test_occupancy_of_several_mappings():
    spread, packed = TaskMapping([0, 1, 2, 3], 4), TaskMapping([1, 1, 2, 2], 4)
    assert occupancy([spread]) == "1 task a node"
    assert occupancy([packed]) == "2 tasks a node on 2 of 4 nodes"
    assert occupancy([spread, packed]) == "1 to 2 tasks a node on 2 to 4 of 4 nodes"
    assert occupancy([TaskMapping([0], 1)]) == "1 task a node"


def test_one_is_no_plural(run):
    assert "app.csv: 2 tasks, 1 edge, 8.00 B, 1 message" in run("convert pair.txt app.csv")
    text = run("simulate --comm one.txt --torus 1 --mapping identity")
    assert "one: 1 task, 1 edge, 8.00 B; on torus 1; mapping identity, 1 task a" in text
    text = run("rank --comm app.txt --torus 2x2 --mappings full.map --model default")
    assert "There is no other candidate." in text
    text = run("simulate --comm app.txt --torus 2x2 --mapping one.map", code=2)
    assert "found 1 task, expected 4 tasks" in text
    assert repr(CommGraph(1, [0], [0], [1])) == "CommGraph(1 task, 1 edge, 1 byte, 1 message)"
    assert repr(TaskMapping([0], 1)) == "TaskMapping(1 task on 1 node, 1 a node)"
