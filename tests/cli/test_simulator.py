"""`toruscast simulate`: phases and rounds, all of the model, and folders that appear whole."""

import json
import shutil
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from toruscast.cli import main
from toruscast.cli.simulate import files as simulate_files
from toruscast.mapping import CommGraph, TaskMapping, Torus, Workload, patterns, strategies
from toruscast.mapping.formats import write_comm
from toruscast.simulation import simulate

TORUS = Torus((4, 2))
FIRST = patterns.halo_2d((4, 2), 20_000)
SECOND = CommGraph(8, [0, 5, 6], [5, 2, 1], [9000.0, 4000.0, 100.0], [3, 1, 1])
IDENTITY = TaskMapping(np.arange(8), TORUS)
LINE = "simulate --torus 4x2 --mapping identity --quiet --comm first.csv"


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_comm(FIRST, tmp_path / "first.csv")
    write_comm(SECOND, tmp_path / "second.csv")
    write_comm(patterns.halo_2d((4, 4), 10), tmp_path / "sixteen.csv")
    (tmp_path / "slow.txt").write_text("0 1 2e12\n7 0 1\n")

    def call(line, code=0):
        result = CliRunner().invoke(main, line.split())
        assert result.exit_code == code, (line, result.stdout, result.stderr)
        return result

    return call


@pytest.mark.parametrize("dependent", [False, True])
def test_several_graphs_are_phases_or_rounds(run, tmp_path, dependent):
    line = f"{LINE} --comm second.csv --comm first.csv{' --dependent' if dependent else ''}"
    text = run(f"{line} --out run").stdout
    kind = "round" if dependent else "phase"
    assert f" in 3 {kind}s; on torus 4x2" in text
    assert f"The 3 {kind}s:" in text
    workload = Workload([FIRST, SECOND, FIRST], dependent=dependent)
    expected = simulate(workload, TORUS, IDENTITY)
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["time"] == expected.time
    assert summary["phase_times"] == pytest.approx(expected.phase_times)
    assert summary["application"]["phases"] == ["first.csv", "second.csv", "first.csv"]
    assert summary["application"]["dependent"] == dependent
    assert summary["application"]["edges"] == workload.total.n_edges
    phases = pd.read_csv(tmp_path / "run" / "phases.csv")
    assert phases["messages"].tolist() == [FIRST.n_edges, SECOND.n_messages.sum(), FIRST.n_edges]


@pytest.mark.parametrize(
    "command", ["simulate --mapping identity", "simulate --flows --candidates 2"]
)
def test_rounds_in_a_row_are_bound_by_their_chain(run, tmp_path, command):
    for k in range(3):
        write_comm(CommGraph(4, [k], [k + 1], [100_000]), tmp_path / f"{k}.csv")
    comms = " ".join(f"--comm {k}.csv" for k in range(3))
    text = run(f"{command} --torus 8 {comms} --dependent").stdout
    assert "Limited by the longest chain of messages that wait for each other" in text
    text = run(f"{command} --torus 8 {comms}").stdout
    assert "Limited by software overhead, hops and the longest message" in text


@pytest.mark.parametrize("dependent", ["", " --dependent"])
def test_a_phase_may_have_nothing_to_send(run, tmp_path, dependent):
    (tmp_path / "silent.txt").write_text("8\n0 1 0 0\n")
    run(f"{LINE} --comm silent.txt --comm second.csv{dependent} --out run")
    silent = CommGraph(8, [0], [1], [0.0], [0])
    expected = simulate(Workload([FIRST, silent, SECOND], "", bool(dependent)), TORUS, IDENTITY)
    phases = pd.read_csv(tmp_path / "run" / "phases.csv")
    assert phases["messages"].tolist() == expected.phases()["messages"].tolist()
    assert phases["messages"][1] == 0
    assert phases["end"].tolist() == pytest.approx(expected.phases()["end"].tolist())
    line = "simulate --torus 4x2 --mapping identity --comm silent.txt"
    assert "silent.txt: communication graph without a message" in run(line, 2).stderr
    assert "silent.txt: at most half a message" in run(f"{line} --comm silent.txt", 2).stderr


@pytest.mark.parametrize(
    ("changes", "torus"),
    [
        (["order=1,0"], {"order": (1, 0)}),
        (["bandwidth=1e9,4e9"], {"bandwidth": (1e9, 4e9)}),
        (["bandwidth=1e9"], {"bandwidth": 1e9}),
        (["zones=1/0", "tie=split"], {"zones": ((1,), (0,)), "tie": "split"}),
        (["zones=0,1", "order=1,0"], {"zones": ((0, 1),), "order": (1, 0)}),
    ],
)
@pytest.mark.parametrize("routing", ["deterministic", "adaptive"])
def test_what_belongs_to_the_torus_can_be_changed(run, changes, torus, routing):
    host = Torus((4, 2), **torus)
    options = "".join(f" --network {change}" for change in changes)
    content = json.loads(
        run(f"{LINE} --comm second.csv --routing {routing} --json -{options}").stdout
    )
    result = simulate(Workload([FIRST, SECOND]), host, IDENTITY, routing=routing)
    assert content["time"] == result.time
    told = content["torus"]
    assert tuple(told["order"]) == host.order
    assert tuple(told["bandwidth"]) == host.bandwidth
    assert tuple(map(tuple, told["zones"])) == host.zones
    assert told["tie"] == host.tie


BAD = {
    f"{LINE} --dependent": "--dependent needs several --comm",
    f"{LINE} --comm second.csv --comm sixteen.csv": "phases differ in their number of tasks: found "
    "8 in first.csv and 16 in sixteen.csv, expected the same, which the first line of a file may",
    f"{LINE} --network order=BA": "--network: bad order: found 'BA', expected numbers of",
    f"{LINE} --network order=0": "--network: bad routing order: found (0,)",
    f"{LINE} --network zones=0": "--network: bad zones",
    f"{LINE} --network zones=0/": "--network: bad zones: found '0/', expected numbers of",
    f"{LINE} --network order=": "found order=, expected NAME=VALUE",
    f"{LINE} --network payload=5s": "--network: bad payload: found '5s'",
    f"{LINE} --network bandwidth=5s": "--network: bad bandwidth in bytes per second: found 5s,",
    f"{LINE} --network buffer_packets=1": "--network: bad buffer_packets for the bubble rule",
    f"{LINE} --network foo=1": "unknown --network key: found foo, expected payload",
    f"{LINE} --network fifos=2 --network fifos=2": "--network key given twice: found fifos=2",
    f"{LINE} --out=": "cannot be written: found an empty path, expected a folder",
    f"{LINE} --network bandwidth=1,2,3": "--network: bad bandwidth",
    f"{LINE} --network bandwidth=fast,2": "--network: bad bandwidth",
    f"{LINE} --network overhead=1e12s": "--network: bad overhead: found 1000000000000.0",
    f"{LINE} --network overhead=9e8s": "too long for the clock, mostly software overhead",
    f"{LINE} --network hop_latency=1e30s": "--network: bad hop_latency",
    f"{LINE} --network hop_latency=10s": "hop_latency too long beside",
    f"{LINE} --network fifos=1e9": "--network: bad fifos: found 1000000000.0, expected 1 to 1024",
    f"{LINE} --network memory_bandwidth=10": "memory_bandwidth too low beside",
    f"{LINE} --seed 99999999999999999999999": "bad seed",
    f"{LINE} --error 1": "bad --error: found 1, expected above 0 and below 1",
    f"{LINE} --error -0.1": "bad --error: found -0.1",
    f"{LINE} --error nan": "bad --error: found nan",
    f"{LINE} --coarsening 1e20": "'1e20' is not a valid",
    f"{LINE} --coarsening 100000000000000000000": "bad coarsening",
    f"{LINE} --out first.csv/run": "cannot be written",
    "simulate --torus 4x2 --mapping identity --comm slow.txt": "a larger coarsening (--coarsening)",
}


@pytest.mark.parametrize("line", BAD)
def test_wrong_input_is_told_in_one_line(run, tmp_path, line):
    before = sorted(tmp_path.rglob("*"))
    error = run(line, code=2).stderr
    assert error.startswith("toruscast: error: ")
    assert BAD[line] in error
    assert error.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) in (
        before,
        sorted([*tmp_path.glob("*.csv"), tmp_path / "slow.txt"]),
    )


@pytest.mark.parametrize(
    "change",
    [
        "fifos=1e1",
        "reception_ports=1.0",
        "fifo_packets=1.0",
        "payload=512.0",
        "deterministic_limit=inf",
        "overhead=0.5us",
    ],
)
def test_numbers_are_read_in_any_form(run, change):
    content = json.loads(run(f"{LINE} --network {change} --json -").stdout)
    assert content["time"] == simulate(FIRST, TORUS, IDENTITY).time


@pytest.mark.parametrize(
    ("options", "estimated"),
    [
        ("", False),
        ("--routing by_size", False),
        ("--routing by_size --network deterministic_limit=100", True),
        ("--routing adaptive", True),
        ("--network tie=random", True),
    ],
)
def test_what_is_no_bound_is_not_called_one(run, options, estimated):
    text = " ".join(run(f"{LINE} {options}").stdout.split())
    assert ("an estimate of" in text) == estimated
    assert ("at least (" in text) == (not estimated)
    assert "times the lower bound of" in text
    told = json.loads(run(f"{LINE} {options} --json -").stdout)
    assert 0 < told["lower_bound"] <= told["time"]


@pytest.mark.parametrize("options", ["", "--repeat 4", "--coarsening 3", "--error 0.1"])
def test_no_printed_bound_lies_above_the_time(run, options):
    """A packet of which the clock shortens the hop: its exact bound is longer than its time."""
    Path("one.csv").write_text("src,dst,nbytes\n0,1,104\n")
    line = "--comm one.csv --torus 2 --mapping identity"
    told = json.loads(run(f"simulate {line} {options} --json -").stdout)
    assert 0 < told["lower_bound"] <= told["time"]
    if not options:
        assert max(told["bounds"].values()) <= told["time"]
        why = json.loads(run(f"explain {line} --json -").stdout)
        assert max(why["bounds"].values()) <= why["time"]


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="no /proc")
def test_a_folder_that_cannot_be_made_is_told_before_the_work(run, monkeypatch):
    def fail(*arguments, **options):
        raise AssertionError("simulated")

    monkeypatch.setattr("toruscast.simulation.simulate", fail)
    assert "/proc/run: cannot be written" in run(f"{LINE} --out /proc/run", code=2).stderr


def test_the_error_reached_is_reported(run, monkeypatch):
    text = run(f"{LINE} --error 0.03").stdout
    assert "No packets are merged: coarser ones would miss the error of 3 % asked for" in text
    # As if these few packets were many.
    monkeypatch.setattr("toruscast.simulation.coarsening._CHEAP", 0)
    monkeypatch.setattr("toruscast.simulation.coarsening._FEWEST", 2)
    line = "simulate --torus 4x2 --mapping random@2 -q --comm long.csv --error 0.5"
    write_comm(patterns.all_to_all(8, 512.0 * 256), "long.csv")
    comm = patterns.all_to_all(8, 512.0 * 256)
    result = simulate(comm, TORUS, strategies.make("random@2", comm, TORUS), error=0.5)
    assert result.coarsening > 1
    assert 0 < result.change <= 0.5 / 16
    content = json.loads(run(f"{line} --json -").stdout)
    assert content["error"] == 0.5
    assert content["change"] == result.change
    assert content["coarsening"] == result.coarsening
    shown = run(line).stdout
    assert f"the time changed by {100 * result.change:.2g} %" in shown
    assert "the error of 50 % asked for" in shown


def test_numbers_beyond_reading_take_an_exponent(run):
    text = run(f"{LINE} --network memory_bandwidth=1e300").stdout
    assert max(map(len, text.split())) < 40


@pytest.mark.parametrize("stands", [False, True])
def test_a_folder_appears_whole_or_not_at_all(run, tmp_path, monkeypatch, stands):
    if stands:
        run(f"{LINE} --out run")
        (tmp_path / "run" / "notes.txt").write_text("mine")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    written = simulate_files.write_text

    def stop(text, path):
        written(text, path)
        if path.endswith("fifos.csv"):
            raise KeyboardInterrupt

    monkeypatch.setattr(simulate_files, "write_text", stop)
    run(f"{LINE} --comm second.csv --out run", code=130)
    after = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert after == before
    assert (tmp_path / "run").exists() == stands
    assert not list(tmp_path.rglob(".*"))


def test_a_link_to_a_folder_stays_one(run, tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "run").symlink_to("real")
    run(f"{LINE} --out run")
    assert (tmp_path / "run").is_symlink()
    assert (tmp_path / "real" / "summary.json").exists()
    shutil.rmtree(tmp_path / "real")
    run(f"{LINE} --out run")
    assert (tmp_path / "real" / "summary.json").exists()


def test_a_folder_is_written_from_another_thread_too(tmp_path):
    result = simulate(FIRST, TORUS, IDENTITY)
    arguments = (str(tmp_path / "run"), result, result.links(), {})
    thread = threading.Thread(target=simulate_files.write_folder, args=arguments)
    thread.start()
    thread.join()
    assert (tmp_path / "run" / "summary.json").exists()
