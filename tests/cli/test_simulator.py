"""Tests of `toruscast simulate`: phases, rounds, networks and result folders."""

import json
import shutil
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from toruscast.cli import main
from toruscast.cli import simulate as simulate_files
from toruscast.formats import write_comm
from toruscast.mapping import CommGraph, TaskMapping, Torus, Workload, patterns, strategies
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

    def call(line, code=0):
        result = CliRunner().invoke(main, line.split())
        assert result.exit_code == code, (line, result.stdout, result.stderr)
        return result

    return call


@pytest.mark.parametrize("dependent", [False, True])
def test_several_graphs_are_phases_or_rounds(run, tmp_path, dependent):
    line = f"{LINE} --comm second.csv --comm first.csv{' --dependent' if dependent else ''}"
    run(f"{line} --out run")
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


@pytest.mark.parametrize(
    ("changes", "torus"),
    [
        (["routing_order=1,0"], {"routing_order": (1, 0)}),
        (["bandwidth=1e9,4e9"], {"bandwidth": (1e9, 4e9)}),
        (["bandwidth=1e9"], {"bandwidth": 1e9}),
        (["zones=1/0", "tie_break=split"], {"zones": ((1,), (0,)), "tie_break": "split"}),
        (["zones=0,1", "routing_order=1,0"], {"zones": ((0, 1),), "routing_order": (1, 0)}),
    ],
)
@pytest.mark.parametrize("routing", ["deterministic", "adaptive"])
def test_constants_of_the_torus_can_be_changed(run, changes, torus, routing):
    host = Torus((4, 2), **torus)
    options = "".join(f" --network {change}" for change in changes)
    content = json.loads(
        run(f"{LINE} --comm second.csv --routing {routing} --json -{options}").stdout
    )
    result = simulate(Workload([FIRST, SECOND]), host, IDENTITY, routing=routing)
    assert content["time"] == result.time
    torus_content = content["torus"]
    assert tuple(torus_content["routing_order"]) == host.routing_order
    assert tuple(torus_content["bandwidth"]) == host.bandwidth
    assert tuple(map(tuple, torus_content["zones"])) == host.zones
    assert torus_content["tie_break"] == host.tie_break


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
        ("--network tie_break=random", True),
    ],
)
def test_an_estimate_is_not_called_a_bound(run, options, estimated):
    assert ("an estimated" in run(f"{LINE} {options}").stdout) == estimated
    content = json.loads(run(f"{LINE} {options} --json -").stdout)
    assert 0 < content["lower_bound"] <= content["time"]


@pytest.mark.parametrize("options", ["", "--repeat 4", "--coarsening 3", "--error 0.1"])
def test_no_printed_bound_lies_above_the_time(run, options):
    """Rounding to clock cycles shortens this hop, so the exact bound exceeds the time."""
    Path("one.csv").write_text("src,dst,nbytes\n0,1,104\n")
    line = "--comm one.csv --torus 2 --mapping identity"
    content = json.loads(run(f"simulate {line} {options} --json -").stdout)
    assert 0 < content["lower_bound"] <= content["time"]
    if not options:
        assert max(content["bounds"].values()) <= content["time"]
        why = json.loads(run(f"explain {line} --json -").stdout)
        assert max(why["bounds"].values()) <= why["time"]


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="no /proc")
def test_a_folder_that_cannot_be_made_is_reported_before_the_work(run, monkeypatch):
    def fail(*arguments, **options):
        raise AssertionError("simulated")

    monkeypatch.setattr("toruscast.simulation.simulator.simulate", fail)
    assert "/proc/run: cannot be written" in run(f"{LINE} --out /proc/run", code=2).stderr


def test_the_error_reached_is_reported(run, monkeypatch):
    text = run(f"{LINE} --error 0.03").stdout
    assert "No packets are merged: coarser packets would exceed the error of 3 %" in text
    # Treat these few packets as many.
    monkeypatch.setattr("toruscast.simulation.simulator._FEW_PACKET_HOPS", 0)
    monkeypatch.setattr("toruscast.simulation.simulator._MIN_MESSAGE_PACKETS", 2)
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
    shown = " ".join(run(line).stdout.split())
    assert f"changed the time by {100 * result.change:.2g} %" in shown
    assert "at most 1/16 of the error of 50 %" in shown


def test_numbers_beyond_reading_take_an_exponent(run):
    text = run(f"{LINE} --network memory_bandwidth=1e300").stdout
    assert max(map(len, text.split())) < 40


@pytest.mark.parametrize("exists", [False, True])
def test_a_folder_appears_whole_or_not_at_all(run, tmp_path, monkeypatch, exists):
    if exists:
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
    assert (tmp_path / "run").exists() == exists
    assert not list(tmp_path.rglob(".*"))


def test_a_link_to_a_folder_is_kept(run, tmp_path):
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
