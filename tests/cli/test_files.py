"""``formats``, ``doctor`` and ``convert``: what files are, and files of launchers."""

import json
import shlex

import numpy as np
import pytest
from click.testing import CliRunner

from toruscast.cli import main
from toruscast.mapping import TaskMapping, Torus, machine
from toruscast.mapping.formats import read_mapping, read_torus, write_mapping
from toruscast.mapping.formats.registry import dialects

RING = "4\n0 1 10\n1 2 10\n2 3 10\n3 0 10\n"
# What the command shows of what can be used; elsewhere the tests leave it out.
SHOWN = pytest.mark.filterwarnings("default::toruscast.errors.InputWarning")
HOSTS = "host,x,y\nc00,0,0\nc01,0,1\nc02,1,0\nc03,1,1\n"


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run a command in an empty folder with a ring and a table of hosts."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ring.edges").write_text(RING)
    (tmp_path / "hosts.csv").write_text(HOSTS)

    def run(line, code=0):
        result = CliRunner().invoke(main, shlex.split(line))
        assert result.exit_code == code, (line, result.stdout, result.stderr)
        return result

    return run


def test_formats_lists_all_and_explains_one(run):
    listed = json.loads(run("formats --json -").stdout)["formats"]
    assert [row["format"] for row in listed] == [dialect.name for dialect in dialects()]
    shown = run("formats").stdout
    assert all(dialect.name in shown for dialect in dialects())
    told = run("formats rank-order").stdout
    assert "the inverse of a mapping" in told
    assert "to use it: MPICH_RANK_REORDER_METHOD=3" in told
    assert (
        "unknown format: found rankorder, expected rank-order" in run("formats rankorder", 2).stderr
    )


def test_doctor_tells_what_is_in_files(run, tmp_path):
    (tmp_path / "best.rankfile").write_text("rank 0=c01 slot=0\nrank 1=c03 slot=0\n")
    (tmp_path / "mine.toml").write_text("shape = [4, 4]\nwrap = [true, false]\n")
    (tmp_path / "one.edges").write_text("1 2 100\n2 3 100\n3 4 100\n4 1 50\n1 3 5\n")
    line = "doctor ring.edges best.rankfile mine.toml hosts.csv one.edges"
    told = run(f"{line} --torus 2x2 --hosts hosts.csv").stdout
    assert "ring.edges: edges, a communication graph: lines of src dst bytes" in told
    assert "4 tasks, 4 edges, 40.0 B, 4 messages, not symmetric" in told
    assert "best.rankfile: rankfile, a mapping" in told
    assert "1 mapping of 2 tasks" in told
    assert "mine 4x4m: 16 nodes, 56 links one way" in told
    assert "hosts.csv: host-table, a table of hosts" in told
    assert "note: one.edges: task 0 neither sends nor receives" in told
    found = json.loads(run("doctor ring.edges --json -").stdout)["files"][0]
    assert (found["tasks"], found["edges"], found["faults"]) == (4, 4, [])


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a.h5", b"\x89HDF\r\n\x1a\n\0", "binary file"),
        ("a.edges", b"0 1 -5\n", "bad nbytes"),
        ("a.txt", b"", "empty file"),
        ("a.dat", b"MPI hello world\n", "not clear"),
    ],
)
def test_doctor_names_what_is_wrong(run, tmp_path, name, content, told):
    (tmp_path / name).write_bytes(content)
    shown = run(f"doctor {name} ring.edges", 2).stdout
    assert told in shown.partition("ring.edges:")[0]
    assert "ring.edges: edges" in shown
    assert "no such file" in run("doctor absent.txt", 2).stdout


WRITTEN = {
    "MPICH_RANK_ORDER": "MPICH_RANK_REORDER_METHOD=3",
    "best.rankfile": "mpirun --map-by rankfile:file=best.rankfile",
    "best.hosts": "mpirun --map-by seq --hostfile best.hosts, mpirun -machinefile best.hosts",
    "best.nodelist": "srun --distribution=arbitrary --nodelist=$(cat best.nodelist)",
    "best.taskmap": 'flux run --taskmap=manual:"$(cat best.taskmap)"',
    "best.vcoord": "mpiexec --vcoordfile best.vcoord",
    "best.yaml": "tt-run --rank-binding best.yaml",
}


@pytest.mark.parametrize("file", WRITTEN)
def test_convert_says_how_a_launchers_file_is_used(run, tmp_path, file):
    (tmp_path / "best.csv").write_text("task,node\n0,3\n1,1\n2,0\n3,2\n")
    told = run(f"convert --mapping --torus 2x2 --hosts hosts.csv best.csv {file}").stdout
    assert f"{file}: 1 mapping of 4 tasks, 1 task a node; to use it: {WRITTEN[file]}" in told
    back = read_mapping(tmp_path / file, Torus((2, 2)), hosts=tmp_path / "hosts.csv", n_tasks=4)
    assert back.node.tolist() == [3, 1, 0, 2]


def test_names_of_hosts_need_their_table_before_the_work(run, tmp_path):
    for line in (
        "rank --comm ring.edges --torus 2x2 --candidates 3 --out best.rankfile",
        "search --comm ring.edges --torus 2x2 --seconds 0 --out best.txt --out-format slurm",
        "convert --mapping --torus 2x2 best.csv best.hosts",
    ):
        assert "needs host names" in run(line, 2).stderr
    assert (
        "--out-format needs --out"
        in run("rank --comm ring.edges --torus 2x2 --out-format flux", 2).stderr
    )
    assert (
        "expected rank-order"
        in run("rank --comm ring.edges --torus 2x2 --out a --out-format rankorder", 2).stderr
    )


@pytest.mark.parametrize("command", ["rank --candidates 4 --no-simulation", "search --seconds 0"])
def test_the_best_goes_to_a_launchers_file(run, tmp_path, command):
    line = f"{command} --comm ring.edges --torus 2x2 --hosts hosts.csv --out best.rankfile"
    told = run(line).stdout
    assert "is in best.rankfile; to use it: mpirun --map-by rankfile:file=best.rankfile" in told
    best = read_mapping(tmp_path / "best.rankfile", Torus((2, 2)), hosts=tmp_path / "hosts.csv")
    nodes = best.node
    assert (Torus((2, 2)).distance(nodes, np.roll(nodes, -1)) == 1).all()


def test_the_name_that_a_launcher_fixes_decides(run, tmp_path):
    (tmp_path / "MPICH_RANK_ORDER").write_text("0,2,3,1\n")
    run("convert --mapping --torus 2x2 MPICH_RANK_ORDER best.csv")
    assert read_mapping(tmp_path / "best.csv", Torus((2, 2))).node.tolist() == [0, 3, 1, 2]


@SHOWN
def test_words_of_a_machine(run, tmp_path):
    run("convert --mapping --torus bluegene_p:4x4x2 --tasks-per-node 2 TXYZ best.map")
    lines = (tmp_path / "best.map").read_text().splitlines()
    assert lines[:4] == ["0 0 0 0", "0 0 0 1", "1 0 0 0", "1 0 0 1"]
    pairs = "".join(f"{a} {a ^ 1} 8000\n" for a in range(64))
    (tmp_path / "pairs.edges").write_text(f"64\n{pairs}")
    line = "simulate --comm pairs.edges --torus bluegene_p:4x4x2 --json - --mapping"
    own, ours = run(f"{line} TXYZ"), run(f"{line} permute-TXYZ")
    # With T fastest the pairs share a node.
    assert json.loads(own.stdout)["time"] < 2e-6 < json.loads(ours.stdout)["time"]
    assert "own word for this order is ZYXT" in ours.stderr
    assert not own.stderr


def test_convert_writes_tori(run, tmp_path):
    told = run("convert --machine bluegene_q:32 mine.toml --network hop_latency=90ns").stdout
    assert "mine.toml: bluegene_q 2x2x2x2x2, 32 nodes" in told
    expected = machine("bluegene_q:32").with_network(hop_latency=90e-9)
    assert read_torus(tmp_path / "mine.toml") == expected
    assert "torusXD 5 2 2 2 2 2" in (
        run("convert --machine mine.toml a.tgt") and (tmp_path / "a.tgt").read_text()
    )
    assert "Scotch has no such torus" in run("convert --machine 4x4m a.tgt", 2).stderr
    assert (
        "--mapping and --machine exclude" in run("convert --machine --mapping 4x4 a.tgt", 2).stderr
    )


@pytest.mark.parametrize("file", ["torus.tgt", "torus.xml", "torus.yml", "torus.textproto"])
def test_a_torus_of_another_tool_is_a_torus(run, tmp_path, file):
    run(f"convert --machine 2x4 {file}")
    found = json.loads(
        run(f"features --comm ring.edges --torus {file} --candidates 2 --json -").stdout
    )
    assert found["torus"]["nodes"] == 8


@SHOWN
def test_a_map_of_the_whole_partition(run, tmp_path):
    torus = Torus((4, 4, 1))
    write_mapping(TaskMapping(range(16), torus), tmp_path / "full.map")
    result = run("features --comm ring.edges --torus 4x4x1 --mappings full.map --csv -")
    assert "16 places, of which the 4 tasks of the job take the first" in result.stderr


def test_convert_and_doctor_take_how_a_graph_is_read(run, tmp_path):
    (tmp_path / "trace.csv").write_text("a,b,c\n0,1,100\n0,1,100\n1,0,50\n")
    how = "--columns src=a,dst=b,nbytes=c --duplicates sum"
    assert "2 edges, 250 B" in run(f"convert trace.csv out.edges {how}").stdout
    assert "2 edges, 250 B" in run(f"doctor trace.csv {how}").stdout
    assert "stands twice" in run("convert trace.csv o.npz --columns src=a,dst=b,nbytes=c", 2).stderr


def test_doctor_asks_which_reading_is_meant(run, tmp_path):
    (tmp_path / "places.txt").write_text("4 2\n0 0\n0 1\n1 0\n1 1\n")
    assert "expected --torus TORUS" in run("doctor places.txt", 2).stdout
    out = run("doctor places.txt --torus 8x8", 2).stdout
    assert "--format bluegene or --format sst-coordinates" in out
    out = run("doctor places.txt --torus 8x8 --format sst-coordinates").stdout
    assert "1 mapping of 4 tasks" in out
