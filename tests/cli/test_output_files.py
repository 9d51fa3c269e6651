"""Output files are complete and readable, and bad paths are refused in one line."""

import gzip
import json
import os
import socket
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from toruscast.cli import main
from toruscast.cli.problem import change_network
from toruscast.errors import InputError
from toruscast.formats import (
    read_comm,
    read_mapping,
    read_mappings,
    write_comm,
    write_mapping,
    write_mappings,
)
from toruscast.formats.registry import dialects
from toruscast.mapping import CommGraph, TaskMapping, Torus, strategies
from toruscast.training.model_file import save_predictor
from toruscast.training.predictor import TimePredictor
from toruscast.training.store import write_samples

RING = CommGraph(4, [0, 1, 2, 3], [1, 2, 3, 0], [64.0, 32.0, 16.0, 8.0])
SUFFIXES = ("", ".bin", ".txt", ".csv", ".npz", ".npy", ".parquet", ".gz", ".edges.gz", ".zip")
WRITTEN = [dialect.name for dialect in dialects("graph") if dialect.write]


def run(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_comm(RING, tmp_path / "ring.edges")
    return tmp_path


@settings(
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    dialect=st.sampled_from(WRITTEN),
    suffix=st.sampled_from(SUFFIXES),
    before=st.sampled_from([None, "", "old"]),
)
def test_a_graph_under_any_suffix_is_read_again_or_refused(tmp_path, dialect, suffix, before):
    for file in tmp_path.iterdir():
        file.unlink()
    path = tmp_path / f"out{suffix}"
    if before is not None:
        path.write_text(before)
    try:
        write_comm(RING, path, dialect)
    except InputError as error:
        assert "suffix" in str(error)  # noqa: PT017
        assert (path.read_text() if path.exists() else None) == before
    else:
        sizes = read_comm(path, format=dialect)
        assert (sizes.n_tasks, sizes.n_edges % 4) == (4, 0)
        assert suffix.endswith(".gz") == (path.read_bytes()[:2] == b"\x1f\x8b")
    assert {file.name for file in tmp_path.iterdir()} <= {path.name}


def test_convert_writes_where_it_says(here):
    result = run("convert", "ring.edges", "out.bin", "--out-format", "npz")
    assert result.exit_code == 0, result.stderr
    assert np.array_equal(read_comm("out.bin").nbytes, RING.nbytes)
    assert sorted(file.name for file in here.iterdir()) == ["out.bin", "ring.edges"]


@pytest.mark.parametrize("option", ["--csv", "--json"])
def test_packed_and_misnamed_answers(here, option):
    assert run("formats", option, "a.txt.gz").exit_code == 0
    assert b"edges" in gzip.decompress((here / "a.txt.gz").read_bytes())
    for suffix in (".npz", ".parquet", ".zip", ".xz"):
        result = run("formats", option, f"a{suffix}")
        assert result.exit_code == 2
        assert f"a{suffix}: suffix of another format" in result.stderr
    assert sorted(file.name for file in here.iterdir()) == ["a.txt.gz", "ring.edges"]


# Commands with an option that names an output file.
OUTPUTS = [
    "rank --comm ring.edges --torus 2x2 --no-simulation --candidates 3 --json",
    "rank --comm ring.edges --torus 2x2 --no-simulation --candidates 3 --csv",
    "rank --comm ring.edges --torus 2x2 --no-simulation --candidates 3 --report",
    "rank --comm ring.edges --torus 2x2 --no-simulation --candidates 3 --out-format nodes --out",
    "search --comm ring.edges --torus 2x2 --seconds 0 --out-format nodes --out",
    "features --comm ring.edges --torus 2x2 --candidates 3 --parquet",
    "simulate --comm ring.edges --torus 2x2 --mapping identity --trace",
    "simulate --comm ring.edges --torus 2x2 --mapping identity --links",
    "convert --out-format edges ring.edges",
    "doctor ring.edges --csv",
    "formats --json",
    "machines --json",
    "formats --log-file",
]


@pytest.mark.parametrize("line", OUTPUTS)
def test_outputs_that_cannot_be_written_end_before_the_work(here, line):
    os.mkfifo("pipe")
    (here / "folder").mkdir()
    (here / "loop").symlink_to("loop")
    before = sorted(file.name for file in here.iterdir())
    for place in ("pipe", "folder", "missing/a.txt", "loop", "/dev/full", "/dev/stdout"):
        if line.endswith("--log-file") and place.startswith("/dev"):
            continue
        if line.endswith(" --out") and place == "folder" and line.startswith("rank"):
            continue
        result = run(*line.split(), place)
        assert result.exit_code == 2, (place, result.stdout)
        assert result.stderr.count("\n") == 1
        assert "cannot be written" in result.stderr
    assert sorted(file.name for file in here.iterdir()) == before


def test_a_folder_without_permission(here):
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    (here / "closed").mkdir(mode=0o500)
    result = run("formats", "--json", "closed/a.json")
    assert result.exit_code == 2
    assert "a folder without permission" in result.stderr


def test_a_log_goes_to_no_pipe_and_does_not_hang(here):
    os.mkfifo("pipe")
    result = run("formats", "edges", "--log-file", "pipe")
    assert result.exit_code == 2
    assert "pipe: cannot be written: found a device or a pipe" in result.stderr


@pytest.mark.parametrize("before", [None, "old"])
def test_a_search_that_fails_leaves_no_result(here, monkeypatch, before):
    def failed(problem, *, callback, **_):
        callback(strategies.make("identity", problem), 1.0)
        raise MemoryError

    monkeypatch.setattr("toruscast.cli.search.tc.search", failed)
    if before:
        (here / "best.map").write_text(before)
    result = run("search", "--comm", "ring.edges", "--torus", "2x2", "--out", "best.map")
    assert result.exit_code == 1
    assert "out of memory" in result.stderr
    assert ((here / "best.map").read_text() if before else None) == before
    assert (here / "best.map").exists() == bool(before)


def test_a_folder_of_mappings_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    torus = Torus((2,))
    maps = [TaskMapping([0, 1], torus, name="a"), TaskMapping([1, 0], torus, name="b")]
    write_mappings(maps[:1], tmp_path / "maps")
    old = (tmp_path / "maps/a.map").read_text()

    def fails(mapping, *arguments, **how):
        if mapping.name == "b":
            raise OSError(28, "No space left on device")
        return write_mapping(mapping, *arguments, **how)

    monkeypatch.setattr("toruscast.formats.readers.write_mapping", fails)
    with pytest.raises(OSError, match="No space"):
        write_mappings(
            [maps[1].renamed("a") if hasattr(maps[1], "renamed") else maps[0], maps[1]],
            tmp_path / "maps",
        )
    assert [file.name for file in (tmp_path / "maps").iterdir()] == ["a.map"]
    assert (tmp_path / "maps/a.map").read_text() == old


ESCAPE = "\x1b[31mred\x07\u202e"


def test_control_characters_reach_no_terminal(here):
    (here / "maps.csv").write_text(f"{ESCAPE},0,1,2,3\nplain,3,2,1,0\n")
    (here / f"{ESCAPE}.edges").write_bytes((here / "ring.edges").read_bytes())
    (here / f"{ESCAPE}.map").write_text("0 0 0\n0 1 0\n1 0 0\n1 1 0\n")
    (here / "times.csv").write_text(f"mapping,time\n{ESCAPE},1.5\nplain,1.25\n")
    graph = ("--comm", f"{ESCAPE}.edges", "--torus", "2x2")
    lines = [
        ("search", *graph, "--mappings", "maps.csv", "--seconds", "0", "--out", "best.map"),
        ("rank", *graph, "--mappings", "maps.csv"),
        ("rank", *graph, "--mappings", "maps.csv", "--times", "times.csv"),
        ("plan", *graph, "--mappings", "maps.csv", "--times", "times.csv"),
        ("features", *graph, "--mappings", "maps.csv"),
        ("simulate", "--flows", *graph, "--mappings", "maps.csv"),
        ("simulate", *graph, "--mapping", f"{ESCAPE}.map"),
        ("explain", *graph, "--mapping", f"{ESCAPE}.map"),
        ("doctor", f"{ESCAPE}.edges", f"{ESCAPE}.map", "maps.csv", ESCAPE),
        ("convert", f"{ESCAPE}.edges", f"{ESCAPE}.npz"),
        ("rank", *graph, "--mappings", ESCAPE),
    ]
    for line in lines:
        result = run(*line)
        assert result.exit_code in (0, 2), (line, result.output)
        shown = result.stdout + result.stderr
        assert not {c for c in shown if not c.isprintable()} - {"\n"}, (line, shown)


CLUSTER = "rank --comm ring.edges --torus 2x2 --cluster"


@pytest.mark.parametrize("says", [None, b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0" * 64])
def test_an_address_without_a_scheduler_is_reported_in_one_line(here, says):
    pytest.importorskip("distributed")
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        held = []

        def serve():
            while True:
                try:
                    peer, _ = server.accept()
                except OSError:
                    return
                held.append(peer)
                if says is not None:
                    peer.sendall(says)

        threading.Thread(target=serve, daemon=True).start()
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        command = [sys.executable, "-m", "toruscast.cli", *CLUSTER.split(), address]
        command[1:3] = ["-c", "from toruscast.cli import main; main()"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        for peer in held:
            peer.close()
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert "no scheduler answers" in done.stderr


NETWORK = """
overhead=1 hop_latency=40 short_overhead=0.5 overhead=1u overhead=-1us overhead=nan
overheads=1us deadlock=datelin fifo_rule=blugene_q tie_break=rndom payload=-1 bandwidth=fast
zones=bluegene_p zones=bluegene_q/0
"""


@pytest.mark.parametrize("change", NETWORK.split())
def test_network_is_asked_about(change):
    with pytest.raises(InputError):
        change_network(Torus((2, 2, 2, 2, 2)), [change])


def test_network_with_units():
    torus = change_network(
        Torus((4, 4)),
        ["overhead=2.5e-6", "hop_latency=0", "bandwidth=2GB/s,500MB/s", "payload=512B"],
    )
    assert (torus.network.overhead, torus.network.hop_latency) == (2.5e-6, 0)
    assert torus.bandwidth == (2e9, 5e8)
    assert torus.network.payload == 512


def test_doctor_knows_the_files_of_this_project(here):
    line = "rank --comm ring.edges --torus 2x2 --candidates 4 --no-simulation --out maps/"
    assert run(*line.split()).exit_code == 0
    pd.DataFrame({"p": [2, 4, 8, 16, 32], "value": [1.0, 2, 3, 4, 5]}).to_csv("s.csv", index=False)
    assert "measurements by p" in run("doctor", "s.csv").stdout
    answer = json.loads(run("doctor", "--torus", "2x2", "--json", "-", "maps/").stdout)["files"][0]
    assert (answer["mappings"], answer["tasks"]) == (4, 4)
    assert answer["is"] == "a folder of mappings"
    assert len(read_mappings("maps", Torus((2, 2)))) == 4
    assert read_mapping("maps/identity.map", Torus((2, 2))).n_tasks == 4


def test_doctor_reads_models_and_samples(here):
    model = TimePredictor(n_estimators=10).fit(np.eye(6), np.arange(1.0, 7.0))
    save_predictor(model, "m.npz")
    labels = {"workload": ["a"], "torus": ["2x2"], "mapping": ["m"], "key": ["k"], "time": [1.0]}
    write_samples(pd.DataFrame(labels), "s.parquet")
    for file, option in {"m.npz": "--model", "s.parquet": "--samples"}.items():
        result = run("doctor", file)
        assert (result.exit_code, option in result.stdout) == (0, True), result.output
        assert run("rank", "--torus", "2x2", "--comm", file).exit_code == 2
    # The content identifies a file, not its name.
    for file, name in {"m.npz": "m.old", "s.parquet": "s.table"}.items():
        Path(name).write_bytes(Path(file).read_bytes())
        assert run("doctor", name).stdout.splitlines()[1:] == [
            line.replace(file, name) for line in run("doctor", file).stdout.splitlines()[1:]
        ]
    write_samples(pd.DataFrame(labels | {"time": [2.0]}), "t.parquet")
    both = [parquet.read_table(name) for name in ("s.parquet", "t.parquet")]
    parquet.write_table(pa.concat_tables(both), "twice.parquet")
    report = json.loads(run("doctor", "twice.parquet", "--json", "-").stdout)["files"][0]
    assert report["is"] == "samples for --samples"
    assert len(report["faults"]) == 1
    np.savez("old.npz", metadata=np.array('{"format": "toruscast predictor", "version": 2}'))
    result = run("doctor", "old.npz")
    assert result.exit_code == 2
    assert "a model for --model" in result.stdout
    assert result.stdout.count("fault:") == 1
    assert "model file of another version" in result.stdout
