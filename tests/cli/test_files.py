"""Tests of ``formats``, ``doctor`` and ``convert``."""

import json
import shlex

import pytest
from click.testing import CliRunner

import toruscast as tc
from toruscast.cli import main
from toruscast.formats import read_mapping, read_torus, write_mapping
from toruscast.formats.registry import dialects
from toruscast.mapping import TaskMapping, Torus

RING = "4\n0 1 10\n1 2 10\n2 3 10\n3 0 10\n"
# Show the warnings that other tests ignore.
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


def test_the_name_that_a_launcher_fixes_decides(run, tmp_path):
    (tmp_path / "MPICH_RANK_ORDER").write_text("0,2,3,1\n")
    run("convert --mapping --torus 2x2 MPICH_RANK_ORDER best.csv")
    assert read_mapping(tmp_path / "best.csv", Torus((2, 2))).node.tolist() == [0, 3, 1, 2]


def test_convert_writes_tori(run, tmp_path):
    run("convert --machine bluegene_q:32 mine.toml --network hop_latency=90ns")
    expected = tc.torus("bluegene_q:32").with_network(hop_latency=90e-9)
    assert read_torus(tmp_path / "mine.toml") == expected
    assert "torusXD 5 2 2 2 2 2" in (
        run("convert --machine mine.toml a.tgt") and (tmp_path / "a.tgt").read_text()
    )


@SHOWN
def test_a_map_of_the_whole_partition(run, tmp_path):
    torus = Torus((4, 4, 1))
    write_mapping(TaskMapping(range(16), torus), tmp_path / "full.map")
    result = run("features --comm ring.edges --torus 4x4x1 --mappings full.map --csv -")
    assert "16 rows; the 4 tasks of the job use the first" in result.stderr
