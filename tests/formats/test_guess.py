"""Which format a file has, by its name, its start, its suffix and its numbers."""

import pytest

from toruscast.errors import InputError
from toruscast.formats import read_hosts, read_mapping, read_torus, read_workload
from toruscast.formats.registry import identify, match_dialects
from toruscast.formats.source import Source
from toruscast.mapping import Torus

MAPPING = "0 0 0\n0 1 0\n1 0 0\n1 1 0\n"
METIS = "4 4\n2 4\n1 3\n2 4\n1 3\n"
REGULAR = "4 6\n2 3 4\n1 3 4\n1 2 4\n1 2 3\n"

# Name, content, formats as a graph, formats as a mapping of a 2x2 torus.
FILES = [
    ("MPICH_RANK_ORDER", "0-7\n", "", "rank-order"),
    ("MPICH_RANK_ORDER.Grid", "0,2,1,3\n", "edges", "rank-order"),
    ("order", "0-7\n", "", "rank-order flux"),
    ("a.edges", "src,dst,bytes\n0,1,8\n", "table", ""),
    ("a.txt", "task,node\n0,1\n", "", "table"),
    (
        "a.txt",
        "%%MatrixMarket matrix coordinate real general\n1 1 0\n",
        "matrix-market",
        "bluegene",
    ),
    ("a.graph", "8 12 000\n" + "2 3 5\n" * 8, "metis", ""),
    ("a.mat", "0 1 2\n1 0 3\n2 3 0\n", "matrix", ""),
    ("a.edges", "0 1 2\n1 2 3\n2 0 1\n", "edges", ""),
    ("a.map", "1\n0\n3\n2\n", "", "nodes"),
    ("a.map", "0 3 0 0\n1 0 0 0\n", "", "bluegene"),
    ("a.toml", "x = 1\n", "", ""),
    ("a.csv", "sender,receiver,amount\n0,1,5\n", "table", "table"),
    ("a", "0 1 8\n1 2 8\n", "edges", "bluegene"),
    ("a.csv", "0;1;8;1\n1;2;8;1\n", "edges", "bluegene"),
    ("a", "0 1 8,5\n1 2 8\n", "edges", "bluegene"),
    ("a", "4\n0 1 8\n", "edges", ""),
    ("a", "4\n", "edges", "nodes"),
    ("a", "0 1 2\n1 0 3\n2 3 0\n", "edges matrix", "bluegene"),
    ("a", "# n_tasks 3\n0 1 2\n1 0 3\n2 3 0\n", "edges", "bluegene"),
    ("a", "0 1.5 2\n1 0 3\n2 3 0\n", "matrix", "bluegene"),
    ("a", "0 7\n9 0\n", "matrix", "bluegene"),
    ("a", "0 1 1 1 1\n" * 5, "matrix", "bluegene"),
    ("a", "1\n0\n3\n2\n", "", "nodes"),
    ("a", "1 0 3 2\n", "edges", "nodes"),
    ("a", "1 0\n", "", "bluegene"),
    ("a", MAPPING, "edges", "bluegene"),
    ("a", METIS, "metis", "bluegene"),
    ("a", REGULAR, "metis", "bluegene"),
    ("a", "4\n0 3\n1 1\n2 0\n3 2\n", "", "scotch-map"),
    ("a", "2\n0\n3\n", "", "nodes sst-macro"),
    ("a", "4 3\n0 0 0\n0 1 0\n1 0 0\n1 1 0\n", "metis", "sst-coordinates"),
    ("a", "0 1\n1 2\n0 2\n", "", "bluegene"),
    ("a", "2\n1 2 6\n6 5 1\n", "edges metis", ""),
    ("a", "2\n1 0 6\n0 1 1\n", "edges", ""),
    ("a", "0 3 1\n1 0 2\n2 1 3\n3 2 0\n", "edges metis", "bluegene"),
    ("a", "0 3 1\n1 0 1\n2 1 1\n3 2 1\n", "edges", "bluegene"),
    ("a", "hello world\n", "", ""),
    ("a.csv", '["a", 1]\n', "table", "table"),
]


@pytest.mark.parametrize(("name", "content", "graphs", "mappings"), FILES)
def test_rules(tmp_path, name, content, graphs, mappings):
    (tmp_path / name).write_text(content)
    source = Source(tmp_path / name, torus=Torus((2, 2)))
    assert {fit.name for fit in match_dialects(source, "graph")} == set(graphs.split())
    assert {fit.name for fit in match_dialects(source, "mapping")} == set(mappings.split())


@pytest.mark.parametrize(
    ("text", "n_tasks", "name"),
    [
        ("1,0,2\n", 1, "bluegene"),
        ("1,0,2\n", 3, "nodes"),
        ("2\n0\n3\n", 2, "sst-macro"),
        ("4 2\n0 0\n0 1\n1 0\n1 1\n", 4, "sst-coordinates"),
    ],
)
def test_the_number_of_tasks_decides(tmp_path, text, n_tasks, name):
    (tmp_path / "a").write_text(text)
    source = Source(tmp_path / "a", n_tasks=n_tasks, torus=Torus((2, 2)))
    assert identify(source, "mapping").name == name


def test_what_is_not_clear_is_told_with_two_formats(tmp_path):
    path = tmp_path / "a"
    path.write_text("0 1 2\n1 0 3\n2 3 0\n")
    with pytest.raises(InputError, match="found 0 1 2, expected --format edges or --format matrix"):
        read_workload(path)
    assert read_workload(path, format="matrix").total.n_edges == 6
    path.write_text("HOST 1\nHOST 2\n")
    with pytest.raises(InputError, match=r"found HOST 1, expected --format \S+ or --format \S+"):
        read_mapping(path, Torus((2, 2)))
    path.write_text("task,node\n0,1\n1,0\n")
    with pytest.raises(InputError, match=r"--mappings takes a mapping \(table\)"):
        read_workload(path)


@pytest.mark.parametrize("unit", ["1", " ", "module ", "1x"])
@pytest.mark.parametrize("head", ["", "0 1 ", "a ", "[", "rank ", "src,dst,nbytes\n0,1,"])
def test_a_line_of_digits_takes_no_time(tmp_path, head, unit):
    path = tmp_path / "a"
    path.write_text(head + 100_000 // len(unit) * unit + ": 1,0,3\n")
    # Patterns that try each beginning anew would take hours.
    readers = (
        *(read_workload, read_torus, lambda path: read_mapping(path, Torus((2, 2)))),
        *(
            lambda path: read_torus(path, format="codes"),
            lambda path: read_hosts(path, Torus((2, 2))),
        ),
    )
    for read in readers:
        with pytest.raises(InputError):
            read(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "module @jit_f attributes {mhlo.num_partitions = 8 : i32} {\n}\n",
            r"StableHLO.*as_text\(\)",
        ),
        ('// made\nmodule {\n  "stablehlo.all_reduce"(%a)\n}\n', r"StableHLO.*as_text\(\)"),
        ("module @a.1 {\n  ttir.all_reduce\n}\n", r"MLIR before partitioning.*as_text\(\)"),
        ("{ lambda ; a:f32[8]. let b = psum a in (b,) }\n", r"jaxpr.*as_text\(\)"),
        ("=== OTF2-PRINT ===\n", "output of otf2-print.*expected the trace"),
    ],
)
def test_what_is_not_read_is_named(tmp_path, content, message):
    (tmp_path / "a").write_text(content)
    with pytest.raises(InputError, match=message):
        read_workload(tmp_path / "a")
