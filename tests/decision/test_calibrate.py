"""Constants of a network from microbenchmarks."""

from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

import toruscast as tc
from toruscast.cli import main
from toruscast.decision.calibration import MeasuredTransfer, read_microbenchmark
from toruscast.decision.simulations import candidate_networks
from toruscast.errors import InputError
from toruscast.mapping.network import RULES

TRUTH = {"start": 3e-6, "overhead": 4e-7, "hop_latency": 1e-6, "bandwidth": 5e9}
BASE = tc.Torus((8, 8)).with_network(payload=1024, header=16)
SIZES = [8, 64, 512, 1024, 4096, 16384, 65536, 262144, 2**20]


@pytest.fixture(scope="module")
def rows():
    """Simulated: messages alone over several distances, and streams."""
    torus = replace(BASE, bandwidth=(5e9, 5e9)).with_network(
        start=3e-6, overhead=4e-7, hop_latency=1e-6, buffer_packets=64, memory_bandwidth=1e11
    )
    found = []
    for node in (1, 2, 4, 36, 18):
        for nbytes in SIZES:
            comm = tc.CommGraph(2, [0], [1], [nbytes])
            time = tc.simulate(comm, torus, tc.TaskMapping([0, node], torus)).time
            found.append(MeasuredTransfer(0, node, nbytes, time, "message", 1, ""))
    for nbytes in SIZES:
        comm = tc.CommGraph(2, [0], [1], [nbytes])
        ends = [
            tc.simulate(
                tc.Workload([comm] * n, dependent=True), torus, tc.TaskMapping([0, 1], torus)
            ).time
            for n in (100, 200)
        ]
        found.append(MeasuredTransfer(0, 1, nbytes, (ends[1] - ends[0]) / 100, "stream", 1, ""))
    return found


def test_constants_and_their_intervals_under_noise(rows):
    rng = np.random.default_rng(1)
    hits, errors = [], []
    for _ in range(60):
        noisy = [
            replace(row, time=row.time * (1 + 0.02 * rng.standard_normal()))
            for row in rows
            for _ in range(3)
        ]
        table = tc.calibrate(noisy, BASE).table.set_index("constant")
        hits.append([table.low[name] <= TRUTH[name] <= table.high[name] for name in TRUTH])
        errors.append([abs(table.value[name] / TRUTH[name] - 1) for name in TRUTH])
    assert np.quantile(errors, 0.95, axis=0).max() < 0.03
    assert 0.85 <= np.mean(hits) <= 0.95


def test_outliers_are_named_and_do_not_count(rows):
    rng = np.random.default_rng(2)
    noisy = [replace(row, time=row.time * (1 + 0.01 * rng.standard_normal())) for row in rows]
    wrong = [replace(row, time=4 * row.time) if n == 7 else row for n, row in enumerate(noisy)]
    found = tc.calibrate(wrong, BASE, check=True)
    assert found.outliers.index.tolist() == [7]
    assert found.torus.bandwidth[0] == pytest.approx(5e9, rel=0.03)
    assert found.check.abs().max() < 0.05


def test_what_cannot_be_told_apart_is_said(rows):
    one_hop = [row for row in rows if row.kind == "message" and row.destination == 1]
    found = tc.calibrate(one_hop, BASE)
    assert any("hop_latency is kept" in note for note in found.notes)
    assert any("start and overhead" in note for note in found.notes)
    assert found.table.set_index("constant").source["hop_latency"] == "kept"


@pytest.mark.parametrize(
    ("text", "kind", "nbytes", "time"),
    [
        ("# OSU MPI Latency Test v7.4\n# Datatype: MPI_CHAR.\n# Size  Avg Latency(us)\n8  1.5\n",
         "message", 8, 1.5e-6),
        ("# OSU MPI Bandwidth Test v5.6.3\n# Size      Bandwidth (MB/s)\n1000  2000.0\n",
         "stream", 1000, 5e-7),
        ("# OSU MPI Multiple Bandwidth / Message Rate Test v7.4\n"
         "# [ pairs: 4 ] [ window size: 64 ]\n# Size  MB/s  Messages/s\n1000  4000.0  4000000\n",
         "stream", 1000, 1e-6),
        ("#----\n# Benchmarking PingPong \n# #processes = 2 \n#----\n"
         "   #bytes #repetitions   t[usec]   Mbytes/sec\n  1024   1000   2.5   409.6\n",
         "message", 1024, 2.5e-6),
        ("#----\n# Benchmarking Sendrecv \n# #processes = 4 \n#----\n"
         " #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]   Mbytes/sec\n"
         "   512   1000   9.0   9.0   9.0   100.0\n"
         "#----\n# Benchmarking Sendrecv \n# #processes = 2 \n"
         "# ( 2 additional processes waiting in MPI_Barrier)\n#----\n"
         " #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]   Mbytes/sec\n"
         "   1024   1000   2.4   2.6   2.5   819.2\n",
         "message", 1024, 2.5e-6),
        ("# Benchmarking Exchange\n# #processes = 2\n"
         " #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]   Mbytes/sec\n"
         "   1024   1000   3.9   4.1   4.0   1024.0\n",
         "message", 2048, 4e-6),
        ("     size(B)    count(elems)     type    time(us)    algbw(GB/s)    busbw(GB/s)\n"
         "    33554432        33554432    uint8         768          40.69          40.69\n"
         "Avg bus bandwidth:      40.6901GB/s\n", "collective", 33554432, 768e-6),
        ("source,destination,bytes,time_us\n0,1,4096,3\n", "message", 4096, 3e-6),
    ],
)  # fmt: skip
def test_the_tools_own_forms(tmp_path, text, kind, nbytes, time):
    path = tmp_path / "out.txt"
    path.write_text(text)
    (row,) = read_microbenchmark(path)
    assert (row.kind, row.nbytes) == (kind, nbytes)
    assert row.time == pytest.approx(time)
    assert row.place.startswith(str(path))


@pytest.mark.parametrize(
    "text",
    [
        "# Benchmarking Exchange\n# #processes = 4\n   1024   1000   3.9   4.1   4.0   1024.0\n",
        "# Benchmarking Bcast\n# #processes = 2\n   1024   1000   3.9   4.1   4.0\n",
        "",
        "a,b\n1,2\n",
        "source,destination,bytes,time\n0,1,8,-1\n",
        "source,destination,bytes\n",
    ],
)
def test_other_files_are_refused(tmp_path, text):
    path = tmp_path / "out.txt"
    path.write_text(text)
    with pytest.raises(InputError, match=r"out\.txt"):
        read_microbenchmark(path)


def test_the_command_writes_a_machine_file(tmp_path, capsys, rows):
    path, target = tmp_path / "times.csv", tmp_path / "mine.toml"
    alone = [row for row in rows if row.kind == "message"]
    lines = [f"{row.source},{row.destination},{row.nbytes},{row.time}" for row in alone]
    path.write_text("\n".join(["source,destination,bytes,time", *lines]))
    words = ["calibrate", str(path), "--torus", "8x8", "--write", str(target), "--check"]
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 0
    assert "bandwidth" in capsys.readouterr().out
    assert tc.torus(str(target)).bandwidth[0] == pytest.approx(5e9, rel=0.1)


def test_timed_mappings_weigh_the_rules_that_no_microbenchmark_tells(tmp_path, rows):
    """The machine has a FIFO a direction, and links that serve their inputs in turn."""
    times = tmp_path / "times.csv"
    lines = [f"0,{r.destination},{r.nbytes},{r.time}" for r in rows if r.kind == "message"]
    times.write_text("\n".join(["source,destination,bytes,time", *lines]))
    known = tc.calibrate(times, BASE).torus
    truth = candidate_networks(known)[1].torus
    comm = tc.patterns.halo_2d((8, 8), 60_000)
    maps = tc.strategies.sample(comm, truth, n=12, seed=3)
    tc.write_comm(comm, tmp_path / "halo.csv")
    tc.write_mappings(maps, tmp_path / "maps", torus=truth)
    ran = [f"{m.name},{tc.simulate(comm, truth, m).time}" for m in maps]
    (tmp_path / "runs.csv").write_text("\n".join(["mapping,time", *ran]))
    words = f"calibrate times.csv --torus {tmp_path}/base.toml --comm halo.csv --mappings maps"
    tc.write_torus(BASE, tmp_path / "base.toml")
    words = [w if "." not in w or "/" in w else f"{tmp_path}/{w}" for w in words.split()]
    words[-1] = f"{tmp_path}/maps"
    result = CliRunner().invoke(
        main, [*words, "--times", f"{tmp_path}/runs.csv", "--write", f"{tmp_path}/mine.toml", "-q"]
    )
    assert result.exit_code == 0, result.output
    shown = [line.split() for line in result.output.splitlines() if line.rstrip().endswith("%")]
    assert shown[0][:2] == ["by", "direction"]
    assert tc.read_torus(tmp_path / "mine.toml").network.unknown_rules == RULES
    result = CliRunner().invoke(main, [*words, "-q"])
    assert result.exit_code == 2
    assert "--mappings needs --times" in result.output
