"""Files in formats that are not read, and numbers of tasks too large for any torus."""

import pytest
from click.testing import CliRunner

from toruscast.cli import main
from toruscast.errors import InputError
from toruscast.mapping import CommGraph, Torus, strategies
from toruscast.mapping.formats import (
    read_comm,
    read_hosts,
    read_mapping,
    read_mappings,
    read_times,
    read_torus,
    write_comm,
    write_mapping,
)
from toruscast.mapping.formats.times import append_run
from toruscast.scaling.formats import read_measurements
from toruscast.scaling.interconnect.jobs import read_jobs


@pytest.mark.parametrize(
    "text",
    [
        "task,node\n0,1\n1,0\n2,3\n",
        "task,x,y\n0,0,1\n1,0,0\n2,1,1\n",
        "x,y\n0,1\n0,0\n1,1\n",
        "0,1,0\n0,0,0\n1,1,0\n",
        "turned,1,0,3\n",
    ],
)
def test_semicolons_separate_the_values_of_mappings(tmp_path, text):
    for separator in (",", ";", " ; "):
        path = tmp_path / "all.csv"
        path.write_text(text.replace(",", separator))
        assert read_mappings(path, Torus((2, 2)))[0].node.tolist() == [1, 0, 3]


def test_semicolons_change_no_question_and_no_table(tmp_path):
    path = tmp_path / "three.csv"
    for separator in (",", ";"):
        path.write_text("0,1,2\n1,0,1\n2,2,0\n".replace(",", separator))
        with pytest.raises(InputError, match="--format edges or --format matrix"):
            read_comm(path)
    path.write_text("host;x;y\na1;0;1\na0;0;0\n")
    assert read_hosts(path, Torus((2, 2))).node.tolist() == [1, 0]
    path.write_text("src;dist;bytes\n0;1;100\n")
    with pytest.raises(InputError, match=r"bad column names.*--columns src=NAME"):
        read_comm(path)


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


@pytest.mark.parametrize("text", ["0 1 8,5\n1 2 3\n", "# n_tasks 3\n0 1 8\n1 2 8,5\n"])
def test_decimal_commas(tmp_path, text):
    path = tmp_path / "dec.edges"
    path.write_text(text)
    line = next(n for n, row in enumerate(text.splitlines(), 1) if "," in row)
    with pytest.raises(InputError, match=f"dec.edges:{line}: bad nbytes: found 8,5.*decimal point"):
        read_comm(path)
    path.write_text("".join(f"{i} {i + 1} 8\n" for i in range(100)) + "100 101 8,5\n")
    with pytest.raises(InputError, match=r"dec.edges:101: bad nbytes: found 8,5.*decimal point"):
        read_comm(path)


@pytest.mark.parametrize("code", ["utf-16", "utf-32"])
def test_wide_characters_are_told_by_every_reader(tmp_path, code):
    wide = code[:6].upper()
    path = tmp_path / "a.toml"

    def refused(read, text):
        path.write_bytes(text.encode(code))
        with pytest.raises(InputError, match=f"{wide} text: expected .*save the file as UTF-8"):
            read(path)

    refused(read_comm, "0 1 5\n1 0 7\n")
    refused(lambda p: read_comm(p, format="edges"), "0 1 5\n1 0 7\n")
    refused(lambda p: read_mapping(p, Torus((2,))), "0 0\n1 0\n")
    refused(lambda p: list(read_mappings(p, Torus((2,)))), "a,0,1\n")
    refused(read_times, "mapping,time\na,1\n")
    refused(read_torus, "shape = [4, 4]\n")
    refused(lambda p: read_hosts(p, Torus((2,))), "host,x\na,0\nb,1\n")
    refused(read_measurements, "p,value\n2,1\n4,2\n")
    refused(read_jobs, "job,interconnect,latency\na,slow,1\n")


def test_semicolons_in_times(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("mapping;time\na;0.5\nb;0.25\n")
    assert read_times(path) == {"a": 0.5, "b": 0.25}
    append_run(path, "c", 2.0)
    assert read_times(path) == {"a": 0.5, "b": 0.25, "c": 2.0}
    path.write_text("mapping;time\na;0,5\n")
    with pytest.raises(InputError, match=r"t.csv:2: bad time: found 0,5.*decimal point"):
        read_times(path)
    path.write_text("row-major 0,0131\n")
    with pytest.raises(InputError, match=r"t.csv:1: .*decimal"):
        read_times(path)


def test_files_under_the_wrong_option(tmp_path):
    torus, box = Torus((4, 4)), tmp_path / "best.map"
    write_mapping(strategies.make("identity", CommGraph(16, [0], [1], [8]), torus), box)
    for how in ({}, {"duplicates": "sum"}):
        with pytest.raises(InputError, match="--mapping or --mappings takes a mapping"):
            read_comm(box, **how)
    with pytest.raises(InputError, match=r"best.map:1: wrong number of columns"):
        read_times(box)
    graph = tmp_path / "app.csv"
    write_comm(CommGraph(2, [0], [1], [64]), graph)
    with pytest.raises(InputError, match="--comm takes a communication graph"):
        read_torus(graph)
    times = tmp_path / "t.csv"
    times.write_text("mapping,p_best,time\na,0.5,1\n")
    with pytest.raises(InputError, match=r"not measured times.*forecasts"):
        read_times(times)
