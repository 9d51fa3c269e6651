"""Text files of three or four columns: edge lists, matrices, and what could be either."""

import json

import pytest
from click.testing import CliRunner
from graph_files import write

from toruscast.cli import main
from toruscast.errors import InputError
from toruscast.formats import read_comm

pytestmark = pytest.mark.filterwarnings("ignore::toruscast.errors.InputWarning")
THREE = "0 1 2\n1 0 1\n2 2 0\n"
FOUR = "0,100,2,0\n1,0,2,1\n0,3,0,5\n2,7,9,0\n"
RING = "0 1 4 1\n1 2 4 1\n2 3 4 1\n3 0 4 1\n"
EITHER = [(THREE, 3), (f"# a note\n\n{THREE}", 3), ("0 1 9\n0 2 9\n1 2 9", 3), (FOUR, 4), (RING, 4)]


@pytest.mark.parametrize(("text", "n"), EITHER)
def test_what_could_be_edges_or_a_matrix_is_refused(tmp_path, text, n):
    path = write(tmp_path, text)
    with pytest.raises(
        InputError, match=r"app:\d: cannot identify .*--format edges or --format matrix"
    ):
        read_comm(path)
    assert read_comm(path, format="matrix").n_tasks == n
    assert read_comm(path, format="edges").n_edges == n


@pytest.mark.parametrize(
    ("text", "n_tasks"),
    [
        ("0 1.5 2\n1 0 1\n2 2 0\n", 3),  # no destination 1.5
        ("0 0 0 9\n0 0 0 9\n9 9 0 9\n1 1.5 1 0\n", 4),
        ("0 3e9 1\n1 0 1\n3e9 2 0\n", 3),  # no such task
    ],
)
def test_a_matrix_that_is_no_edge_list_is_read(tmp_path, text, n_tasks):
    path = write(tmp_path, text)
    assert read_comm(path).equals(read_comm(path, format="matrix"))
    assert read_comm(path).n_tasks == n_tasks


@pytest.mark.parametrize(
    "text",
    [
        "0 1 9\n1 2 9\n",
        "0 1 9\n1 2 9\n2 3 9\n3 0 9\n",
        "0 1 9 1\n1 2 9 1\n2 0 9 1\n",
        "src dst bytes\n0 1 9\n1 2 9\n",
        "3\n0 1 9\n1 2 9\n2 0 9\n",
        "src,dst,bytes,messages\n0,1,9,1\n1,2,9,1\n2,0,9,1\n3,1,2,1\n",
        "# n_tasks 8\n0 1 9\n1 2 9\n2 7 9\n",
    ],
)
def test_edges_that_are_no_matrix_are_read(tmp_path, text):
    path = write(tmp_path, text)
    form = "table" if text.startswith("src") else "edges"
    assert read_comm(path).equals(read_comm(path, format=form))


@pytest.mark.parametrize("comment", ["# n_tasks 3", "% n_tasks: 3", "# grid 3x1"])
def test_comments_that_stand_above_edges_settle_it(tmp_path, comment):
    path = write(tmp_path, f"{comment}\n{THREE}")
    assert read_comm(path).equals(read_comm(path, format="edges"))


def test_the_number_of_tasks_may_settle_it(tmp_path):
    path = write(tmp_path, FOUR)
    assert read_comm(path, n_tasks=101).n_edges == 4
    path = write(tmp_path, THREE)
    assert read_comm(path, n_tasks=5).n_edges == 3


COMMANDS = {
    "features": "--torus 4 --candidates 3",
    "simulate": "--torus 4 --mapping identity",
}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_that_reads_a_graph_asks_and_is_told(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, THREE)
    line = f"{command} --comm app {COMMANDS[command]}".split()
    result = CliRunner().invoke(main, line)
    assert result.exit_code == 2, result.stdout
    assert "--format edges or --format matrix" in result.stderr
    for form, tasks, edges in (("matrix", 3, 6), ("edges", 3, 3)):
        result = CliRunner().invoke(main, [*line, "--format", form, "--json", f"{form}.json"])
        assert result.exit_code == 0, result.stderr
        content = json.loads((tmp_path / f"{form}.json").read_text())
        if "application" in content:
            assert content["application"]["tasks"] == tasks
            assert content["application"]["edges"] == edges


def test_convert_is_told(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, THREE)
    result = CliRunner().invoke(main, ["convert", "app", "app.csv"])
    assert result.exit_code == 2
    assert "--format" in result.stderr
    result = CliRunner().invoke(main, ["convert", "app", "app.csv", "--format", "matrix"])
    assert result.stdout.startswith("app.csv: 3 tasks, 6 edges")


@pytest.mark.parametrize(
    "line", ["features --list", "train --samples s.parquet --out m.npz", "evaluate --samples s"]
)
def test_format_without_a_graph_is_refused(line):
    result = CliRunner().invoke(main, [*line.split(), "--format", "matrix"])
    assert result.exit_code == 2
    assert "--format" in result.stderr
