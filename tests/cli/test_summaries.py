"""Summary lines: tasks per node, singular and plural."""

import pytest
from click.testing import CliRunner

from toruscast.cli import main
from toruscast.cli.problem import Occupancy
from toruscast.mapping import CommGraph, TaskMapping


def test_occupancy_of_several_mappings():
    spread, packed = TaskMapping([0, 1, 2, 3], 4), TaskMapping([1, 1, 2, 2], 4, tasks_per_node=2)
    assert str(Occupancy([spread])) == "1 task a node"
    assert str(Occupancy([packed])) == "2 tasks a node on 2 of 4 nodes"
    assert str(Occupancy([spread, packed])) == "1 to 2 tasks a node on 2 to 4 of 4 nodes"
    assert str(Occupancy([TaskMapping([0], 1)])) == "1 task a node"


def test_one_is_singular():
    assert repr(CommGraph(1, [0], [0], [1])) == "CommGraph(1 task, 1 edge, 1 byte, 1 message)"
    assert repr(TaskMapping([0], 1)) == "TaskMapping(1 task on 1 node, 1 a node)"


@pytest.mark.parametrize(
    "command",
    [
        "rank --candidates 3 --no-simulation",
        "search --seconds 0.1",
        "simulate --mapping identity",
        "simulate --candidates 3",
        "explain --mapping identity",
        "plan --candidates 3",
    ],
)
def test_the_first_line_says_that_tasks_share_nodes(command, tmp_path):
    page = [] if "--candidates 3" in command and "simulate" in command else ["--report"]
    page += [str(tmp_path / "a.html")] if page else []
    line = f"{command} --comm lammps-lj-64 --torus 4x2x4"
    result = CliRunner().invoke(main, [*line.split(), "--quiet", *page])
    assert result.exit_code == 0, result.stderr
    expected = "64 tasks on 32 nodes, 2 each"
    assert expected in " ".join(result.stdout.split("\n\n")[0].split())
    assert not page or expected in (tmp_path / "a.html").read_text()
    line = f"{command} --comm lammps-lj-64 --torus 4x4x4"
    assert " each" not in CliRunner().invoke(main, [*line.split(), "--quiet"]).stdout.split("\n")[0]
