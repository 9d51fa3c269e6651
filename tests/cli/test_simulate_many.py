"""Tests of `toruscast simulate` with many mappings."""

import io
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import toruscast as tc
from toruscast._features import RoutedTraffic
from toruscast.cli import main
from toruscast.formats import write_comm, write_mappings
from toruscast.mapping import CommGraph, MappingProblem, Torus, Workload, patterns, strategies
from toruscast.simulation import simulate

TORUS = Torus((4, 4))
FIRST = patterns.halo_2d((4, 4), 20_000)
SECOND = CommGraph(16, [0, 5, 6], [5, 2, 1], [90_000.0, 40_000.0, 100.0], [3, 1, 1])
LINE = "simulate --comm first.csv --torus 4x4"
FEW = f"{LINE} --candidates 6"
COLUMNS = ["rank", "mapping", "time", "lower_bound", "over_bound", "busiest_link", "busy_share"]


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_comm(FIRST, tmp_path / "first.csv")
    write_comm(SECOND, tmp_path / "second.csv")
    write_mappings(strategies.sample(FIRST, TORUS, n=3, seed=8), tmp_path / "maps", torus=TORUS)

    def call(line, code=0):
        result = CliRunner().invoke(main, line.split())
        assert result.exit_code == code, (line, result.stdout, result.stderr)
        return result

    return call


def in_a_line(text):
    return " ".join(text.split())


def check(content, workload, torus, mappings, **how):
    rows = {row["mapping"]: row for row in content["ranking"]}
    assert set(rows) == {mapping.name for mapping in mappings}
    for mapping in mappings:
        row = rows[mapping.name]
        result = simulate(workload, torus, mapping, **how)
        routed = RoutedTraffic(
            MappingProblem(workload, torus, how.get("routing", "deterministic")), mapping
        )
        busy = result.links()["busy_share"]
        assert row["time"] == result.time
        assert row["phase_times"] == list(result.phase_times)
        assert 0 < row["lower_bound"] == routed.simulated_as(result).sure_bound <= row["time"]
        assert row["over_bound"] == row["time"] / row["lower_bound"]
        assert row["busy_share"] == pytest.approx(busy.max())
        assert row["busiest_link"] == torus.link_label(busy.idxmax())
        assert (row["coarsening"], row["change"]) == (result.coarsening, result.change)


@pytest.mark.parametrize("dependent", [False, True])
def test_times_are_those_of_the_library(run, dependent):
    line = f"{FEW} --comm second.csv --seed 3{' --dependent' if dependent else ''}"
    content = json.loads(run(f"{line} --json -").stdout)
    workload = Workload([FIRST, SECOND], dependent=dependent)
    mappings = tc.candidates(workload, TORUS, n=6, seed=3)
    check(content, workload, TORUS, mappings)
    assert content["application"]["phases"] == ["first.csv", "second.csv"]
    assert content["application"]["dependent"] == dependent
    assert content["torus"]["name"] == "4x4"
    assert (content["routing"], content["error"], content["seed"]) == ("deterministic", None, 3)


def test_every_option_is_passed_on(run):
    mappings = strategies.sample(FIRST, TORUS, n=3, seed=8)
    line = f"{LINE} --mappings maps --seed 5 --json - --network"
    changed = TORUS.with_network(deadlock="dateline")
    content = json.loads(run(f"{line} deadlock=dateline --routing adaptive").stdout)
    check(content, FIRST, changed, mappings, routing="adaptive", seed=5)
    assert content["network"]["deadlock"] == "dateline"
    tossed = Torus((4, 4), tie_break="random")
    content = json.loads(run(f"{line} tie_break=random --coarsening 4").stdout)
    check(content, FIRST, tossed, mappings, coarsening=4, seed=5)


def test_a_single_simulation_has_the_same_time(run):
    content = json.loads(run(f"{FEW} --network tie_break=random --seed 4 --json -").stdout)
    for row in content["ranking"]:
        line = f"{LINE} --network tie_break=random --seed 4 --mapping {row['mapping']} --json -"
        alone = json.loads(run(line).stdout)
        assert row["time"] == alone["time"]
        assert row["busiest_link"] == alone["busiest_links"][0]["label"]
        assert row["busy_share"] == pytest.approx(alone["busiest_links"][0]["busy_share"])


@pytest.mark.parametrize("jobs", [1, 3])
def test_rows_are_ordered_by_time_for_any_number_of_threads(run, jobs):
    line = f"{LINE} --candidates 12 --csv -"
    text = run(f"{line} --jobs {jobs}").stdout
    assert text == run(line).stdout
    table = pd.read_csv(io.StringIO(text))
    assert list(table.columns) == COLUMNS
    assert len(table) == 12
    assert table["time"].is_monotonic_increasing
    for row in table.itertuples():
        assert row.rank == 1 + (table["time"] < row.time).sum()


def test_the_coarsening_is_reported(run, monkeypatch):
    # Treat these few packets as many.
    monkeypatch.setattr("toruscast.simulation.simulator._FEW_PACKET_HOPS", 0)
    monkeypatch.setattr("toruscast.simulation.simulator._MIN_MESSAGE_PACKETS", 2)
    traffic = patterns.all_to_all(16, 512.0 * 256)
    write_comm(traffic, "long.csv")
    line = "simulate --torus 4x4 --candidates 8 --comm long.csv --error 0.3"
    content = json.loads(run(f"{line} --json -").stdout)
    check(content, traffic, TORUS, tc.candidates(traffic, TORUS, n=8), error=0.3)
    merged = [row["coarsening"] for row in content["ranking"] if row["coarsening"] > 1]
    assert 0 < len(merged) < 8
    expected = f"In {len(merged)} of 8 simulations each simulated packet represents up to "
    expected += f"{max(merged)} real ones"
    assert expected in in_a_line(run(line).stdout)


def test_messages_within_a_node(run):
    line = f"{LINE.replace('4x4', '1')} --tasks-per-node 16 --candidates 1"
    row = json.loads(run(f"{line} --json -").stdout)["ranking"][0]
    assert (row["busiest_link"], row["busy_share"]) == (None, 0)
    assert row["time"] > 0


@pytest.mark.parametrize("options", ["", "--coarsening 4", "--error 0.1", "--jobs 1"])
def test_progress_counts_the_packet_hops_of_all_mappings(run, progress_calls, monkeypatch, options):
    # Shorten the slices, so that progress is reported within a simulation.
    monkeypatch.setattr("toruscast.simulation.simulator._SLICE", 2**10)
    run(f"{LINE} --mappings maps {options}")
    mappings = strategies.sample(FIRST, TORUS, n=3, seed=8)
    hops = [
        RoutedTraffic(MappingProblem(FIRST, TORUS), mapping).packet_hops for mapping in mappings
    ]
    assert {total for _, total in progress_calls} == {sum(hops)}
    done = [done for done, _ in progress_calls]
    assert max(done) == sum(hops)
    if options == "--jobs 1":
        assert np.all(np.diff(done) >= 0)
        assert len(set(done)) > len(mappings)


def test_progress_shows_in_a_terminal(run, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    with pytest.raises(SystemExit) as ended:
        main(f"{FEW} --json out.json".split())
    assert ended.value.code == 0
    assert "Simulating" in screen.getvalue()


def test_a_seed_reaches_a_draw_or_is_refused(run, tmp_path):
    """A seed changes the answer or is refused."""
    given = "--comm first.csv --torus 4x4"
    refused = [
        f"simulate {given} --mappings maps",
        f"simulate {given} --mapping identity",
        f"simulate {given} --flows --mappings maps",
        f"simulate {given} --flows --mappings maps --network tie_break=random",
        f"features {given} --mappings maps",
        f"explain {given} --mapping zigzag-XY",
        "collectives allreduce:1MB --torus 4x4",
    ]
    for line in refused:
        assert "--seed has no effect because nothing is drawn" in run(f"{line} --seed 2", 2).stderr
    drawn = [
        f"simulate {given} --mapping random",
        f"simulate {given} --flows --candidates 8",
        f"simulate {given} --mappings maps --network tie_break=random",
        f"explain {given} --mapping random",
        "collectives allreduce:1MB --torus 4x4 --mapping random",
        f"rank {given} --mappings maps --no-simulation",
    ]
    for line in drawn:
        run(f"{line} -q --json one.json --seed 1")
        run(f"{line} -q --json two.json --seed 2")
        assert Path("one.json").read_text() != Path("two.json").read_text()
