"""Files in formats that are not read, and numbers of tasks too large for any torus."""

import pytest
from click.testing import CliRunner

from toruscast.cli import main
from toruscast.errors import InputError
from toruscast.mapping import CommGraph, Torus, strategies
from toruscast.mapping.formats import read_comm, read_mapping, read_mappings

FOREIGN = [
    ("0;1;100\n1;2;50\n", "values separated by ; (0;1;100)"),
    ("0;1;64,5\n1;2;8\n", "values separated by ; (0;1;64,5)"),
    ("0,5; 1;,5\n", "values separated by ; (0,5; 1;,5)"),
    ('["a", 1]\n', 'JSON (["a", 1])'),
    ('{"process_ids": [0, 1]}', 'JSON ({"process_ids": [0, 1]})'),
    ('{\n"process_ids": 0\n}', "JSON ({)"),
    ('<map>\n<a process_ids="0"/>\n', "XML (<map>)"),
    ("x;y;n;process_ids\n0;0;1;0\n", "values separated by ; (x;y;n;process_ids)"),
    ("src;dist;bytes\n0;1;100\n", "values separated by ; (src;dist;bytes)"),
    ('{"edges": [[0, 1, 100]]}\n', 'JSON ({"edges": [[0, 1, 100]]})'),
    ('{\n  "edges": []\n}\n', "JSON ({)"),
    ('<?xml version="1.0"?>\n<graph/>\n', 'XML (<?xml version="1.0"?>)'),
]


@pytest.mark.parametrize(("text", "found"), FOREIGN)
def test_what_was_found_and_what_is_read(tmp_path, text, found):
    path = tmp_path / "app.csv"
    path.write_text(text)
    for form in ("auto", "edges", "matrix"):
        with pytest.raises(InputError) as caught:
            read_comm(path, format=form)
        if form == "auto" and text.startswith(("x;", "src;")):
            assert "bad column names" in str(caught.value)
            assert "--columns src=NAME" in str(caught.value)
            continue
        assert f"communication graph in a format that is not read: found {found}" in str(
            caught.value
        )
        for known in ("edges", "matrix", "open-mpi", "matrix-market", "npz", "toruscast formats"):
            assert known in str(caught.value)
    for read in (read_mapping, read_mappings):
        with pytest.raises(InputError) as caught:
            read(path, Torus((2, 2)))
        assert f"mapping in a format that is not read: found {found}" in str(caught.value)
        assert "rankfile, hostfile" in str(caught.value)


@pytest.mark.parametrize("name", ["{x}", "a;b", "<7>", "[z]", "<a>", "[1]", "[1x2]", "{1}", "a;1"])
def test_strange_names_of_mappings_are_read(tmp_path, name):
    path = tmp_path / "all.csv"
    path.write_text(f"{name},0,1\n")
    assert read_mappings(path, Torus((2,)))[0].name == name


@pytest.mark.parametrize("title", ["<lj>", "title; x", "[1] lj", "{", "[", "<?"])
@pytest.mark.parametrize("names", ["x y n process_ids", "x,y,n,process_id(s)"])
def test_free_text_above_a_mapping_is_read(tmp_path, title, names):
    path = tmp_path / "lj.txt"
    path.write_text(f"{title}\n{names}\n0 1 2 1 0\n")
    for mapping in (read_mapping(path, Torus((2, 2))), *read_mappings(path, Torus((2, 2)))):
        assert mapping.name == title
        assert mapping.node.tolist() == [1, 1]


@pytest.mark.parametrize("name", ["<a>", "[1]", "{1}", "lj"])
def test_a_bad_node_behind_a_strange_name_is_told_as_such(tmp_path, name):
    path = tmp_path / "all.csv"
    path.write_text(f"{name},0,x\n")
    with pytest.raises(InputError, match="bad node of task 1: found x"):
        read_mappings(path, Torus((2,)))


def test_semicolons_in_comments_and_communicators_do_no_harm(tmp_path):
    path = tmp_path / "app.txt"
    path.write_text("# a;b\n0 1 5\n")
    assert read_comm(path).n_edges == 1
    path.write_text("D\ta;b\tprocs: 0,1\nE\t0\t1\t5 bytes\t1 msgs sent\t\n")
    assert read_comm(path).n_edges == 1


def test_too_many_tasks_are_told_as_such(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "typo.txt").write_text("0 2000000000 5\n")
    for line in ("features", "simulate --mapping identity"):
        result = CliRunner().invoke(main, f"{line} --comm typo.txt --torus 2x2".split())
        assert result.exit_code == 2
        assert "typo.txt:1: nearly all tasks without traffic: found 2000000001" in result.stderr
    with pytest.raises(InputError, match="found 3, expected at most 1 node x 2"):
        strategies.make("identity", CommGraph(3, [], [], []), Torus((1,)), tasks_per_node=2)
