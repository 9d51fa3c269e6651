"""Features of a graph that is read in pieces are those of the graph that is held."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from random_cases import cases

import toruscast as tc
from toruscast import memory
from toruscast.cli import streams
from toruscast.cli.app import main
from toruscast.errors import InputError
from toruscast.features.streamed import NEED_ALL_EDGES, StreamedTraffic
from toruscast.mapping.formats.graphs import parquet as parquet_module
from toruscast.mapping.formats.graphs import parquet as streaming
from toruscast.mapping.formats.graphs.parquet import HELD_BYTES
from toruscast.routing.routing import phase_routing
from toruscast.routing.tally import tally


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    cases(),
    st.integers(1, 9),
    st.sampled_from(["deterministic", "adaptive", "by_size"]),
)
def test_features_in_pieces_are_those_of_the_whole(tmp_path, case, rows, routing):
    comm, torus, mapping = case
    path = tmp_path / "graph.parquet"
    tc.write_comm(comm, path)
    streaming._PIECE, kept = rows, streaming._PIECE
    try:
        if not comm.n_edges:
            with pytest.raises(InputError, match="without an edge"):
                tc.stream_comm(path)
            return
        stream = tc.stream_comm(path)
        assert (stream.n_tasks, stream.n_edges) == (comm.n_tasks, comm.n_edges)
        way = phase_routing(routing, comm, torus)
        refused = torus.network.fifo_rule == "round_robin" or (
            tally(comm, torus, mapping, routing=way) is None
        )
        if refused:
            with pytest.raises(InputError, match=r"FIFOs take turns|on this network"):
                tc.extract(stream, torus, mapping, routing=routing)
            return
        found = tc.extract(stream, torus, mapping, routing=routing)
    finally:
        streaming._PIECE = kept
    whole = tc.extract(comm, torus, mapping, routing=routing)
    assert set(whole.columns) - set(found.columns) == set(NEED_ALL_EDGES)
    unit = comm.nbytes.sum() * 2.0**-45
    np.testing.assert_allclose(found, whole[found.columns], rtol=1e-9, atol=1e-9 * unit)


def table(path, src, dst, nbytes, row_group=3):
    columns = {"src": src, "dst": dst, "nbytes": nbytes}
    parquet.write_table(pa.table(columns), path, row_group_size=row_group)
    return path


def test_all_messages_of_a_task_are_in_one_piece(tmp_path, monkeypatch):
    monkeypatch.setattr(streaming, "_PIECE", 2)
    src = [0, 0, 0, 0, 0, 1, 3, 3]
    path = table(tmp_path / "hub.parquet", src, [1, 2, 3, 4, 5, 0, 1, 0], [8] * 8)
    pieces = list(tc.stream_comm(path).pieces())
    assert [np.unique(piece.src).tolist() for piece in pieces] == [[0], [1], [3]]
    assert all(piece.n_tasks == 6 for piece in pieces)


@pytest.mark.parametrize(
    ("src", "dst", "nbytes", "said"),
    [
        ([0, 2, 1, 3], [1, 0, 0, 0], [8] * 4, "not sorted by source: found task 1 after task 2"),
        ([0, 1, 1, 1], [1, 0, 2, 0], [8] * 4, "edge stands twice"),
        ([0, 1, 1, 1], [1, 0, 2, 3], [8, 8, None, 8], "empty cell"),
        ([0, 1, 1, 1], [1, 0, 2, 3], [8, 8, -1, 8], "bad nbytes"),
        ([-1, 1, 1, 1], [1, 0, 2, 3], [8] * 4, "out of range"),
    ],
)
def test_tables_that_cannot_be_read_in_pieces(tmp_path, src, dst, nbytes, said):
    path = table(tmp_path / "bad.parquet", src, dst, nbytes)
    with pytest.raises(InputError, match=said) as caught:
        tc.stream_comm(path)
    assert "bad.parquet" in str(caught.value)


@pytest.fixture
def ring(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(streams, "MOST_HELD", 5)
    return table(Path("ring.parquet"), range(8), [*range(1, 8), 0], [512.0] * 8)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("--features release_bound", "does not give its release bound"),
        ("--level 2", "has no simulation"),
        ("--duplicates sum", "does not add pairs up"),
        ("--grid 3x3", "bad task grid"),
        ("--iterations inf", "bad --iterations"),
    ],
)
def test_what_needs_all_edges_is_refused_in_a_line(ring, more, said):
    line = f"features --comm {ring} --torus 4x2 --candidates 2 {more}"
    result = CliRunner().invoke(main, line.split())
    assert result.exit_code == 2
    assert said in result.output
    assert len(result.output.strip().splitlines()) == 1


def test_the_command_reads_large_tables_in_pieces(ring, monkeypatch):
    torus = tc.Torus((4, 2))
    maps = [tc.TaskMapping(node, torus) for node in (range(8), [3, 1, 0, 2, 7, 5, 6, 4])]
    Path("maps").mkdir()
    for number, mapping in enumerate(maps):
        tc.write_mapping(mapping, f"maps/{number}.txt")
    line = f"features --comm {ring} --torus 4x2 --mappings maps --iterations 2 --json -"
    told = []
    for most in (5, 100):
        monkeypatch.setattr(streams, "MOST_HELD", most)
        result = CliRunner().invoke(main, line.split())
        assert result.exit_code == 0, result.output
        told.append(json.loads(result.stdout))
    in_pieces, held = told
    assert in_pieces["application"] == held["application"]
    for one, other in zip(in_pieces["features"], held["features"], strict=True):
        assert one.pop("mapping") == other["mapping"]
        assert one == pytest.approx({name: other[name] for name in one})


def test_a_table_without_a_message_is_refused(ring):
    columns = {name: list(range(8)) for name in ("src", "dst", "nbytes")} | {"n_messages": [0] * 8}
    parquet.write_table(pa.table(columns), ring)
    result = CliRunner().invoke(main, f"features --comm {ring} --torus 4x2".split())
    assert result.exit_code == 2
    assert "communication graph without a message" in result.output


def test_a_plugin_that_looks_at_edges_is_told(ring):
    with pytest.raises(InputError, match="does not give its edges"):
        tc.extract(
            tc.stream_comm(ring),
            tc.Torus((4, 2)),
            tc.TaskMapping(range(8), 8),
            also={"mine": lambda traffic: traffic.comm.nbytes.max()},
        )


def test_graphs_beyond_the_memory_are_refused_before_they_are_read(ring, monkeypatch):
    monkeypatch.setattr(parquet_module, "available", lambda: 8 * HELD_BYTES - 1.0)
    result = CliRunner().invoke(main, f"rank --comm {ring} --torus 4x2".split())
    assert result.exit_code == 2
    assert "graph too large for the memory that is left" in result.output
    assert "'toruscast features' reads it in pieces" in " ".join(result.output.split())
    monkeypatch.setattr(parquet_module, "available", lambda: 8.0 * HELD_BYTES)
    assert tc.read_comm(ring).n_edges == 8


def test_a_table_that_changes_is_refused(ring):
    stream = tc.stream_comm(ring)
    tc.write_comm(tc.CommGraph(8, range(8), [*range(1, 8), 0], [7] * 8), ring)
    with pytest.raises(InputError, match="file has changed since it was opened"):
        list(stream.pieces())


def test_a_table_that_goes_is_missing_not_damaged(ring):
    stream = tc.stream_comm(ring)
    Path(ring).unlink()
    with pytest.raises(InputError, match="no such file"):
        list(stream.pieces())


def test_too_many_edges_of_one_task_are_refused_before_they_are_held(tmp_path, monkeypatch):
    monkeypatch.setattr(streaming, "_PIECE", 4)
    monkeypatch.setattr(streaming, "_MOST_OF_A_TASK", 8)
    path = tmp_path / "star.parquet"
    for n, words in ((9, ""), (10, "too many edges of task 0: found 9 and more")):
        tc.write_comm(tc.CommGraph(n, [0] * (n - 1), range(1, n), [1] * (n - 1)), path)
        if words:
            with pytest.raises(InputError, match=words):
                tc.stream_comm(path)
        else:
            assert [piece.n_edges for piece in tc.stream_comm(path).pieces()] == [8]


def test_nothing_of_messages_that_are_not_held_is_zero(ring):
    traffic = StreamedTraffic.of(
        tc.stream_comm(ring), tc.Torus((4, 2)), tc.TaskMapping(range(8), 8), "deterministic"
    )
    for ask in (
        lambda: traffic.workload.total,
        lambda: list(traffic.workload),
        lambda: traffic.packet_hops,
        lambda: traffic.comm,
        lambda: traffic.simulation,
    ):
        with pytest.raises(InputError, match="a graph that is streamed does not give"):
            ask()


def test_the_command_reads_in_pieces_where_the_memory_is_short_and_says_so(ring, monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: 1.0)
    line = f"features --comm {ring} --torus 4x2 --candidates 2"
    result = CliRunner().invoke(main, line.split())
    assert (result.exit_code, "the graph was read in pieces" in result.output) == (0, True)
    for words, said in ((" --include collective", "no monitoring output"), (" --format edges", "")):
        result = CliRunner().invoke(main, (line + words).split())
        assert (result.exit_code, said in result.output) == (2, True)


def test_the_memory_that_is_left_is_the_least_of_all_limits(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "_MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(memory, "_CGROUP", tmp_path)
    monkeypatch.setattr(memory, "_OWN_GROUPS", tmp_path / "own")
    (tmp_path / "own").write_text("3:cpu:/other\n0::/batch/job\n")
    (tmp_path / "meminfo").write_text("MemTotal: 9000 kB\nMemAvailable:   3000 kB\n")
    assert memory.available() == 3000 * 1024
    (tmp_path / "batch" / "job").mkdir(parents=True)
    told = {"max": "2000000", "current": "1500000", "stat": "anon 7\ninactive_file 100000"}
    for name, text in told.items():
        (tmp_path / "batch" / f"memory.{name}").write_text(f"{text}\n")
    assert memory.available() == 600_000
    (tmp_path / "batch" / "memory.current").write_text("2500000\n")
    assert memory.available() == 0
    (tmp_path / "batch" / "memory.max").write_text("max\n")
    assert memory.available() == 3000 * 1024


def test_groups_of_the_first_version_count(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "_CGROUP", tmp_path)
    monkeypatch.setattr(memory, "_OWN_GROUPS", tmp_path / "own")
    (tmp_path / "own").write_text("5:cpu,memory:/job\n")
    (tmp_path / "memory" / "job").mkdir(parents=True)
    told = {"limit_in_bytes": "9000", "usage_in_bytes": "4000", "stat": "total_inactive_file 5"}
    for name, text in told.items():
        (tmp_path / "memory" / "job" / f"memory.{name}").write_text(text)
    assert memory.available() == 5005


def test_a_limit_of_the_process_counts():
    words = "import resource; resource.setrlimit(resource.RLIMIT_AS, (2**33, 2**33)); "
    words += "from toruscast.memory import available; print(available())"
    told = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True)
    assert 0 < float(told.stdout) < 2**33


_PEAK = """
import resource, sys
import numpy as np, pyarrow as pa
from pyarrow import parquet
import toruscast as tc
from toruscast.mapping.formats.graphs import parquet as streaming
from toruscast.mapping.formats.graphs.parquet import HELD_BYTES
from toruscast.routing.routing import phase_routing
from toruscast.routing.tally import tally
streaming._PIECE = 2**16
path, edges = sys.argv[1], int(sys.argv[2])
src = np.repeat(np.arange(edges // 64), 64)
dst = (src + np.tile(np.arange(1, 65), edges // 64)) % src.max()
schema = pa.schema([(name, pa.int64()) for name in ("src", "dst", "nbytes")])
with parquet.ParquetWriter(path, schema) as out:
    for start in range(0, edges, 2**16):
        rows = slice(start, start + 2**16)
        columns = {"src": src[rows], "dst": dst[rows], "nbytes": np.full(src[rows].size, 8)}
        out.write_table(pa.table(columns))
tasks = int(max(src.max(), dst.max())) + 1
del src, dst
torus = tc.Torus((8, 8, 8))
mapping = tc.TaskMapping(np.arange(tasks) % 512, torus)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
tc.extract(tc.stream_comm(path), torus, mapping)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""


def test_memory_does_not_grow_with_the_edges(tmp_path):
    grown = []
    for edges in (2**19, 2**22):
        words = [sys.executable, "-c", _PEAK, str(tmp_path / f"{edges}.parquet"), str(edges)]
        told = subprocess.run(words, check=True, capture_output=True, text=True, env=os.environ)
        grown.append(int(told.stdout))
    # Held, an edge takes a hundred bytes and more: 400 MB for the second table.
    assert grown[1] - grown[0] < 100e6, grown
