"""Tests of `toruscast simulate --flows`, which ranks mappings with the flow simulator."""

import io
import json
from dataclasses import fields

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import toruscast as tc
from toruscast.cli import main
from toruscast.cli.simulate import PACKET_KEYS
from toruscast.formats import write_comm, write_mapping
from toruscast.mapping import (
    CommGraph,
    MappingProblem,
    Network,
    TaskMapping,
    Torus,
    Workload,
    patterns,
    strategies,
)
from toruscast.routing import time_bounds
from toruscast.simulation import simulate_flows

TORUS = Torus((4, 4))
LONG = patterns.halo_2d((4, 4), 2**20)
SECOND = CommGraph(16, [0, 5, 6], [5, 2, 1], [9e6, 4e6, 1e5], [3, 1, 1])
LINE = "simulate --flows --comm long.csv --torus 4x4"
FEW = f"{LINE} --candidates 6"


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_comm(LONG, tmp_path / "long.csv")
    write_comm(SECOND, tmp_path / "second.csv")
    write_mapping(strategies.make("random", LONG, TORUS), tmp_path / "one.map", torus=TORUS)
    (tmp_path / "node.txt").write_text("0 1 1e9\n")

    def call(line, code=0):
        result = CliRunner().invoke(main, line.split())
        assert result.exit_code == code, (line, result.stdout, result.stderr)
        return result

    return call


def in_a_line(text):
    return " ".join(text.split())


@pytest.mark.parametrize("dependent", [False, True])
def test_times_are_those_of_the_library(run, dependent):
    line = f"{FEW} --comm second.csv --seed 3 --error 0.1{' --dependent' if dependent else ''}"
    content = json.loads(run(f"{line} --json -").stdout)
    workload = Workload([LONG, SECOND], dependent=dependent)
    mappings = tc.candidates(workload, TORUS, n=6, seed=3)
    rows = {row["mapping"]: row for row in content["ranking"]}
    assert set(rows) == {mapping.name for mapping in mappings}
    for mapping in mappings:
        row = rows[mapping.name]
        result = simulate_flows(workload, TORUS, mapping, error=0.1)
        links = result.links().set_index(
            pd.Index([TORUS.link_label(link) for link in result.links().index])
        )
        assert row["time"] == max(result.time, row["lower_bound"])
        assert row["phase_times"] == list(result.phase_times)
        assert row["lower_bound"] == time_bounds(MappingProblem(workload, TORUS), mapping).total
        assert row["over_bound"] == row["time"] / row["lower_bound"]
        busy = links["busy_share"].max() * result.time / row["time"]
        assert row["busy_share"] == pytest.approx(busy)
        busiest = links["busy_share"][row["busiest_link"]]
        assert busiest == pytest.approx(links["busy_share"].max())
    assert content["application"]["phases"] == ["long.csv", "second.csv"]
    assert content["application"]["dependent"] == dependent
    assert content["torus"]["name"] == "4x4"
    assert content["network"]["payload"] == 512
    assert (content["error"], content["seed"]) == (0.1, 3)


def test_the_error_is_passed_on(run):
    # A large error merges the ends of several messages.
    times = {}
    for error in (0.0, 0.9):
        content = json.loads(run(f"{FEW} --comm second.csv --error {error} --json -").stdout)
        times[error] = {row["mapping"]: row["time"] for row in content["ranking"]}
    assert times[0.0] != times[0.9]


def test_no_time_lies_below_its_bound(run):
    table = pd.read_csv(io.StringIO(run(f"{FEW} --error 0.9 --csv -").stdout))
    assert table["over_bound"].min() == 1
    assert (table["time"] >= table["lower_bound"]).all()


def test_given_mappings(run):
    content = json.loads(run(f"{LINE} --mappings one.map --json -").stdout)
    assert [row["mapping"] for row in content["ranking"]] == ["one"]
    mapping = strategies.make("random", LONG, TORUS)
    assert content["ranking"][0]["time"] == simulate_flows(LONG, TORUS, mapping).time


def test_messages_within_a_node(run):
    line = "simulate --flows --comm node.txt --torus 1 --tasks-per-node 2 --candidates 1"
    row = json.loads(run(f"{line} --json -").stdout)["ranking"][0]
    assert row["busiest_link"] is None
    assert row["busy_share"] == 0
    assert row["time"] > 0
    assert run(f"{line} --csv -").stdout.splitlines()[1].endswith(",1.0,,0.0")


def test_a_time_of_zero(run, tmp_path):
    # A bound of zero must not be divided by.
    (tmp_path / "free.txt").write_text("0 1 0 1\n2 3 0 1\n")
    line = "simulate --flows --comm free.txt --torus 1 --network overhead=0 --candidates 1"
    row = json.loads(run(f"{line} --json -").stdout)["ranking"][0]
    assert (row["time"], row["lower_bound"], row["over_bound"]) == (0, 0, None)


# Traffic whose time depends on every constant of flows: three tasks per node, routes of half a
# ring, short and long messages, and messages within a node.
EDGES = [
    (task, (task + k) % 24, nbytes)
    for task in range(24)
    for k, nbytes in ((1, 500.0), (3, 9e4), (5, 1e5), (12, 2e5), (14, 3e5))
]
MIXED = CommGraph(24, *map(list, zip(*EDGES, strict=True)))
TRIPLES = TaskMapping(np.arange(24) // 3, 8)
CHANGED = {
    "payload": 100,
    "header": 100,
    "hop_latency": 1e-5,
    "buffer_packets": 4,
    "fifos": 2,
    "fifo_rule": "first_dimension",
    "fifo_packets": 2,
    "overhead": 1e-5,
    "memory_bandwidth": 1e9,
    "deadlock": "dateline",
    "arbitration": "round_robin",
    "feeding": "messages",
    "deterministic_limit": 100,
    "reception_ports": 2,
    "short_limit": 600,
    "short_overhead": 1e-5,
    "eager_limit": 100,
    "tie_break": "plus",
    "routing_order": "1,0",
    "bandwidth": 1e9,
    "zones": "0/1",
    "escape": "stays",
    "start": 1e-5,
}
# Other constants that a constant needs to have an effect.
BESIDES = {"short_overhead": ["short_limit=600"], "fifo_rule": ["fifos=2", "bandwidth=1e9,4e9"]}


@pytest.mark.parametrize(
    "key",
    [field.name for field in fields(Network) if field.name != "unknown_rules"]
    + ["tie_break", "routing_order", "bandwidth", "zones"],
)
def test_a_constant_changes_the_time_or_is_refused(run, tmp_path, key):
    write_comm(MIXED, tmp_path / "mixed.csv")
    nodes = ",".join(map(str, TRIPLES.node))
    (tmp_path / "triples.csv").write_text(f"triples,{nodes}\n")
    line = "simulate --flows --comm mixed.csv --torus 4x2 --mappings triples.csv --error 0 --json -"
    line += "".join(f" --network {other}" for other in BESIDES.get(key, ()))
    changed = f"{line} --network {key}={CHANGED[key]}"
    if key in PACKET_KEYS:
        error = run(changed, code=2).stderr
        assert f"--network key that has no effect without packets: found {key}," in error
        assert f" {key}" not in error.partition("expected")[2]
        return
    before, after = (json.loads(run(each).stdout)["ranking"][0] for each in (line, changed))
    if key == "fifo_rule":
        # It delays some messages but not the last one.
        hosts = [Torus((4, 2), bandwidth=(1e9, 4e9)).with_network(fifos=2) for _ in range(2)]
        hosts[1] = hosts[1].with_network(fifo_rule=CHANGED[key])
        first, second = (simulate_flows(MIXED, host, TRIPLES, error=0) for host in hosts)
        assert not np.allclose(first.message_times[0], second.message_times[0])
    else:
        assert before["time"] != after["time"]
    text = in_a_line(run(changed.replace(" --json -", "")).stdout)
    assert f"{key}={CHANGED[key]}; 1 candidate mapping, 3 tasks a node; " in text


def test_progress_counts_the_messages_of_all_mappings(run, progress_calls):
    run(f"{FEW} --jobs 1")
    n = 6 * LONG.n_edges
    assert {total for _, total in progress_calls} == {n}
    done = [done for done, _ in progress_calls]
    assert done == sorted(done)
    assert done[-1] == n


def test_simulate_points_to_flows(run):
    assert "--flows" in in_a_line(run("simulate --help").stdout)


@pytest.mark.parametrize(("torus", "n_reasons"), [("1", 0), ("1x1", 0), ("3x5", 1), ("3x2", 1)])
def test_each_reason_for_not_running_algorithms_is_one_line(run, torus, n_reasons):
    shown = run(f"collectives alltoall:4kB --torus {torus}").stdout
    assert "bad number of ports" not in shown
    reasons = [line.rpartition(": ")[2] for line in shown.splitlines() if "not run" in line]
    assert len(reasons) == len(set(reasons)) == n_reasons
    assert shown.startswith("Use ") == (torus not in ("1", "1x1"))
