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

FOREIGN = [
    ('["a", 1]\n', 'JSON (["a", 1])'),
    ('{"process_ids": [0, 1]}', 'JSON ({"process_ids": [0, 1]})'),
    ('{\n"process_ids": 0\n}', "JSON ({)"),
    ('<map>\n<a process_ids="0"/>\n', "XML (<map>)"),
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
        assert f"communication graph in a format that is not read: found {found}" in str(
            caught.value
        )
        remedies = ["edges", "matrix", "open-mpi", "matrix-market", "npz", "toruscast formats"]
        for remedy in remedies:
            assert remedy in str(caught.value)
    for read in (read_mapping, read_mappings):
        with pytest.raises(InputError) as caught:
            read(path, Torus((2, 2)))
        assert f"mapping in a format that is not read: found {found}" in str(caught.value)
        assert "rankfile, hostfile" in str(caught.value)


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
        with pytest.raises(InputError, match=r"fits several formats: found edges .* and matrix"):
            read_comm(path)
    path.write_text("host;x;y\na1;0;1\na0;0;0\n")
    assert read_hosts(path, Torus((2, 2))).node.tolist() == [1, 0]
    path.write_text("src;dist;bytes\n0;1;100\n")
    with pytest.raises(InputError, match=r"bad column names.*--columns src=NAME"):
        read_comm(path)
    path.write_text("task;node\n0;1,5\n")
    for read in (read_comm, lambda path: read_mapping(path, Torus((2, 2)))):
        with pytest.raises(InputError, match="1,5, a decimal comma"):
            read(path)


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


# What is no file of toruscast's readers, its name in the message, and the remedy.
NAMED = [
    ("4 5\n1 2\n1 3 4\n2 3\n1 4\n2 4\n", "hypergraph of hMETIS", "edges src dst bytes"),
    ("3 4\n1 2 3\n2 3 4\n1 4\n", "hypergraph of hMETIS", "a net of several vertices is none"),
    ("3 4 1\n5 1 2 3\n7 2 3 4 1\n9 1 4\n", "hypergraph of hMETIS", "edges src dst bytes"),
    ("0 4 3 8\n0 1 2\n1 2 3\n0 3\n", "hypergraph of PaToH or Zoltan", "edges src dst bytes"),
    ("1 4 3 8\n1 2 3\n2 3 4\n1 4\n", "hypergraph of PaToH or Zoltan", "edges src dst bytes"),
    ("0 8 3600Gbps 0.000025ms 0\n1 8 3600Gbps 0.000025ms 0\n", "with their rates", "4x4x8"),
    ("4 1 4\n2\n0 2 100Gbps 1us 0\n1 2 100Gbps 1us 0\n", "with their rates", "4x4x8"),
    ("a b 10 MB/s 1us\nb c 10 MB/s 1us\n", "with their rates", "4x4x8"),
    ("topology = torus;\nk = 4;\nn = 2;\n", "a torus (booksim", "--torus takes a torus"),
    ("0 1 2 3\n8 9 10\n", "nodes of several jobs", "the traffic of one job"),
    ("router 0 node 0 router 1\nrouter 1 node 1\n", "links of BookSim", "4x4x8"),
    ("tleaf 2 4 10 8 1\n", "a target of Scotch that is no torus", "torus3D"),
    ("deco 0\n4 7\n0 1 4\n", "a target of Scotch that is no torus", "torus3D"),
    ("hcub 4\n", "a target of Scotch that is no torus", "mesh2D"),
    ("@nodes\nlabel\n0\n1\n@arcs\n  label\n0 1 0\n", "LGF", "a CSV"),
    ('<?xml version="1.0"?>\n<!-- a --><graphml></graphml>\n', "GraphML", "NetworkX"),
    ('<gexf version="1.3"></gexf>\n', "GEXF", "NetworkX"),
    ("*Vertices 2\n1 a\n2 b\n*Arcs\n1 2 5\n", "Pajek", "NetworkX"),
    ('{"nodes": [{"id": 0}], "edges": []}', "a JSON graph of nodes", "NetworkX"),
    ("/* made by hand */\nstrict digraph G {\n a -> b\n}\n", "DOT", "NetworkX"),
    ('Creator "me"\ngraph [\n node [ id 0 ]\n]\n', "GML", "NetworkX"),
    ("c a comment\np sp 3 2\na 1 2 5\na 2 3 7\n", "DIMACS", "a CSV"),
    ("LEDA.GRAPH\nvoid\nint\n", "LEDA", "NetworkX"),
    (b"SQLite format 3\0" + bytes(100), "an SQLite database", "a CSV"),
    (b"\x89HDF\r\n\x1a\n", "HDF5", "a CSV"),
]


@pytest.mark.parametrize(("content", "name", "remedy"), NAMED)
def test_neighbours_of_graphs_are_named_with_a_remedy(tmp_path, content, name, remedy):
    path = tmp_path / "app"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError) as caught:
        read_comm(path)
    assert name in str(caught.value)
    assert remedy in str(caught.value)
    result = CliRunner().invoke(main, ["doctor", str(path)])
    if "a torus" in name:
        assert result.exit_code == 0
        return
    assert result.exit_code == 2
    assert name in result.stdout
    assert remedy in result.stdout


def test_what_is_read_is_not_taken_for_a_neighbour(tmp_path):
    path = tmp_path / "app.graph"
    # Damaged: vertex 5 does not name vertex 4 back.
    path.write_text("5 4\n2\n1 3\n2 4\n3 5\n1\n")
    with pytest.raises(InputError, match="edge at one end only"):
        read_comm(path)
    for text in ("4 4\n2 4\n1 3\n2 4\n1 3\n", "5 4\n2 3 4 5\n1\n1\n1\n1\n"):
        path.write_text(text)
        assert read_comm(path).n_edges == 8
    path.write_text("0 1 5\n1 2\n")
    with pytest.raises(InputError, match="wrong number of columns"):
        read_comm(path)


@pytest.mark.parametrize("text", ["0 1 8,5\n1 2 3\n", "# n_tasks 3\n0 1 8\n1 2 8,5\n"])
def test_decimal_commas(tmp_path, text):
    path = tmp_path / "dec.edges"
    path.write_text(text)
    line = next(n for n, row in enumerate(text.splitlines(), 1) if "," in row)
    with pytest.raises(InputError, match=f"dec.edges:{line}: .*8,5, a decimal comma.*8.5"):
        read_comm(path)
    for number, remedy in (("1,000", "1.000; or 1000 if"), ("1,234,567", "commas: 1234567")):
        path.write_text(f"0 1 {number}\n1 2 3\n")
        with pytest.raises(InputError, match=f"dec.edges:1: .*{remedy}"):
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
        with pytest.raises(InputError, match=r"found a mapping.*--mapping or --mappings takes"):
            read_comm(box, **how)
    with pytest.raises(InputError, match=r"best.map:1: wrong number of columns"):
        read_times(box)
    write_comm(CommGraph(16, [0], [1], [8]), tmp_path / "ring.edges")
    words = f"rank --comm {tmp_path}/ring.edges --torus 4x4 --mappings {box} --times {box}"
    result = CliRunner().invoke(main, words.split())
    assert "it looks like a mapping (bluegene); --mapping or --mappings takes it" in result.stderr
    graph = tmp_path / "app.csv"
    write_comm(CommGraph(2, [0], [1], [64]), graph)
    for read in (read_mapping, read_mappings):
        with pytest.raises(InputError, match=r"found a communication graph.*--comm takes"):
            read(graph, torus)
    with pytest.raises(InputError, match=r"found a communication graph.*--comm takes"):
        read_torus(graph)
    times = tmp_path / "t.csv"
    times.write_text("mapping,p_best,time\na,0.5,1\n")
    with pytest.raises(InputError, match=r"toruscast rank.*forecasts, not measured"):
        read_times(times)
