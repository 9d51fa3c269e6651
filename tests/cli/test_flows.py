"""`toruscast simulate --flows`: mappings ranked as the flow-level simulator times them."""

import io
import json
import re
from dataclasses import fields

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from toruscast.cli import main
from toruscast.cli.simulate.many import OF_PACKETS
from toruscast.mapping import CommGraph, Network, TaskMapping, Torus, Workload, patterns, strategies
from toruscast.mapping.formats import write_comm, write_mapping
from toruscast.routing import time_bounds
from toruscast.simulation import simulate_flows

TORUS = Torus((4, 4))
LONG = patterns.halo_2d((4, 4), 2**20)
SECOND = CommGraph(16, [0, 5, 6], [5, 2, 1], [9e6, 4e6, 1e5], [3, 1, 1])
LINE = "simulate --flows --comm long.csv --torus 4x4"
FEW = f"{LINE} --candidates 6"
COLUMNS = ["rank", "mapping", "time", "lower_bound", "over_bound", "busiest_link", "busy_share"]


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_comm(LONG, tmp_path / "long.csv")
    write_comm(SECOND, tmp_path / "second.csv")
    write_mapping(strategies.make("random", LONG, TORUS), tmp_path / "one.map", torus=TORUS)
    (tmp_path / "few.txt").write_text("0 1 10\n")
    (tmp_path / "silent.txt").write_text("4\n0 1 0 0\n")
    (tmp_path / "half.txt").write_text("0 1 10 0.3\n")
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
    mappings = strategies.sample(workload.total, TORUS, n=6, seed=3)
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
        assert row["lower_bound"] == time_bounds(workload, TORUS, mapping).total
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
    kind = "rounds" if dependent else "phases"
    assert f" in 2 {kind}; on torus 4x4; 6 candidate mappings" in in_a_line(run(line).stdout)


def test_the_error_is_passed_on(run):
    # One that is large lets messages end together that otherwise would not.
    times = {}
    for error in (0.0, 0.9):
        content = json.loads(run(f"{FEW} --comm second.csv --error {error} --json -").stdout)
        times[error] = {row["mapping"]: row["time"] for row in content["ranking"]}
    assert times[0.0] != times[0.9]


def test_rows_stand_in_the_order_of_their_times(run):
    table = pd.read_csv(io.StringIO(run(f"{LINE} --candidates 20 --csv -").stdout))
    assert list(table.columns) == COLUMNS
    assert len(table) == 20
    assert table["time"].is_monotonic_increasing
    assert table["time"].nunique() > 10
    for row in table.itertuples():
        assert row.rank == 1 + (table["time"] < row.time).sum()


@pytest.mark.parametrize("jobs", [1, 3])
def test_threads_change_nothing(run, jobs):
    assert run(f"{FEW} --jobs {jobs} --csv -").stdout == run(f"{FEW} --csv -").stdout


def test_what_is_shown_to_people(run):
    text = run(f"{LINE} --candidates 20 --top 4").stdout
    table = pd.read_csv(io.StringIO(run(f"{LINE} --candidates 20 --csv -").stdout))
    names = table["mapping"].tolist()
    rows = [line.split() for line in text.splitlines() if re.match(r" *\d+  \S", line)]
    shown = {*names[:4], *names[-3:], "identity"}
    assert [row[1] for row in rows] == [name for name in names if name in shown]
    assert "\n..." in text
    assert "messages flow, in dimension order." in in_a_line(text)
    link = table["busiest_link"].iloc[0]
    assert f"{link}: the link that leaves node" in text
    slowest = 100 * (1 - table["time"].iloc[0] / table["time"].iloc[-1])
    answer = in_a_line(text)
    assert answer.startswith(("Use ", "Keep the default order of tasks, "))
    assert names[0] in answer[:80]
    assert f"{slowest:.0f} % less than the slowest, {names[-1]} (" in answer
    assert max(map(len, text.splitlines())) <= 120


@pytest.mark.parametrize(
    ("error", "near", "end"),
    [
        (0, 0, "None of 5 others takes as little."),
        (0.04, 1, "1 of 5 others lies within 4 % of it,"),
    ],
)
def test_the_others_as_fast_are_counted(run, error, near, end):
    write_comm(patterns.halo_2d((16, 1), 2**20), "ring.csv")
    line = f"simulate --flows --comm ring.csv --torus 4x4 --candidates 6 --error {error}"
    times = pd.read_csv(io.StringIO(run(f"{line} --csv -").stdout))["time"]
    assert (times <= (1 + error) * times[0]).sum() == near + 1
    assert end in in_a_line(run(line).stdout)


def test_no_time_lies_below_its_bound(run):
    table = pd.read_csv(io.StringIO(run(f"{FEW} --error 0.9 --csv -").stdout))
    assert table["over_bound"].min() == 1
    assert (table["time"] >= table["lower_bound"]).all()
    text = run(FEW).stdout
    assert "None of 5 others lies within 1 % of it, the error accepted." in in_a_line(text)


def test_mappings_that_hardly_differ(run, tmp_path):
    # A task's software takes as long wherever its messages go.
    (tmp_path / "tiny.txt").write_text("".join(f"{i} {(i + 5) % 16} 32 8\n" for i in range(16)))
    line = "simulate --flows --comm tiny.txt --torus 4x4 --candidates 5 --network overhead=1ms"
    text = in_a_line(run(line).stdout)
    assert "4 of 4 others lie within 1 % of it, the error accepted." in text
    assert "the mapping hardly matters here." in text


def test_given_mappings(run):
    content = json.loads(run(f"{LINE} --mappings one.map --json -").stdout)
    assert [row["mapping"] for row in content["ranking"]] == ["one"]
    mapping = strategies.make("random", LONG, TORUS)
    assert content["ranking"][0]["time"] == simulate_flows(LONG, TORUS, mapping).time
    assert "There is no other candidate." in in_a_line(run(f"{LINE} --mappings one.map").stdout)


def test_where_nothing_leaves_a_node(run):
    line = "simulate --flows --comm node.txt --torus 1 --tasks-per-node 2 --candidates 1"
    row = json.loads(run(f"{line} --json -").stdout)["ranking"][0]
    assert row["busiest_link"] is None
    assert row["busy_share"] == 0
    assert row["time"] > 0
    assert run(f"{line} --csv -").stdout.splitlines()[1].endswith(",1.0,,0.0")
    assert "the link that leaves" not in run(line).stdout


def test_what_takes_no_time(run, tmp_path):
    # Nothing to divide by.
    (tmp_path / "free.txt").write_text("0 1 0 1\n2 3 0 1\n")
    line = "simulate --flows --comm free.txt --torus 1 --network overhead=0 --candidates 1"
    row = json.loads(run(f"{line} --json -").stdout)["ranking"][0]
    assert (row["time"], row["lower_bound"], row["over_bound"]) == (0, 0, None)
    told = in_a_line(run(line).stdout)
    assert told.startswith("Keep the default order of tasks, identity: 0 s")
    assert "There is no other candidate." in told


# Traffic whose time depends on every constant that flows know: three tasks a node, ways of half a
# ring, short messages and long ones, messages between tasks of a node.
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
    "tie": "plus",
    "order": "1,0",
    "bandwidth": 1e9,
    "zones": "0/1",
    "escape": "stays",
    "rules": "unknown",
    "start": 1e-5,
}
# What else is needed for a constant to matter.
BESIDES = {"short_overhead": ["short_limit=600"], "fifo_rule": ["fifos=2", "bandwidth=1e9,4e9"]}


@pytest.mark.parametrize(
    "key", [field.name for field in fields(Network)] + ["tie", "order", "bandwidth", "zones"]
)
def test_a_constant_changes_the_time_or_is_refused(run, tmp_path, key):
    write_comm(MIXED, tmp_path / "mixed.csv")
    nodes = ",".join(map(str, TRIPLES.node))
    (tmp_path / "triples.csv").write_text(f"triples,{nodes}\n")
    line = "simulate --flows --comm mixed.csv --torus 4x2 --mappings triples.csv --error 0 --json -"
    line += "".join(f" --network {other}" for other in BESIDES.get(key, ()))
    changed = f"{line} --network {key}={CHANGED[key]}"
    if key in OF_PACKETS:
        error = run(changed, code=2).stderr
        assert f"--network key that changes nothing without packets: found {key}," in error
        assert f" {key}" not in error.partition("expected")[2]
        return
    before, after = (json.loads(run(each).stdout)["ranking"][0] for each in (line, changed))
    if key == "fifo_rule":
        # It moves messages of these, but not the last one.
        hosts = [Torus((4, 2), bandwidth=(1e9, 4e9)).with_network(fifos=2) for _ in range(2)]
        hosts[1] = hosts[1].with_network(fifo_rule=CHANGED[key])
        first, second = (simulate_flows(MIXED, host, TRIPLES, error=0) for host in hosts)
        assert not np.allclose(first.message_times[0], second.message_times[0])
    else:
        assert before["time"] != after["time"]
    told = in_a_line(run(changed.replace(" --json -", "")).stdout)
    assert f"{key}={CHANGED[key]}; 1 candidate mapping, 3 tasks a node; " in told


BAD = {
    f"{LINE} --error 1": "bad --error: found 1, expected above 0 and below 1",
    f"{LINE} --error -0.1": "bad --error: found -0.1",
    f"{LINE} --error nan": "bad --error: found nan",
    f"{LINE} --error inf": "bad --error: found inf",
    f"{LINE} --error soon": "'soon' is not a valid float",
    f"{LINE} --routing adaptive": "--routing goes without --flows",
    f"{LINE} --dependent": "--dependent needs several --comm",
    f"{LINE} --comm few.txt": "phases differ in their number of tasks: found 16 in long.csv and 2",
    f"{LINE} --comm absent.csv": "absent.csv: no such file",
    f"{LINE} --mappings one.map --candidates 3": "--mappings and --candidates exclude each other",
    f"{LINE} --mappings absent": "absent: no such file or folder",
    f"{LINE} --candidates 0": "--candidates",
    f"{LINE} --top 0": "--top",
    f"{LINE} --jobs 0": "--jobs",
    f"{LINE} --seed -1": "--seed",
    f"{LINE} --tasks-per-node 0": "--tasks-per-node",
    f"{LINE} --network overhead": "found overhead, expected NAME=VALUE",
    f"{LINE} --network overhead=-1": "--network: bad overhead",
    f"{LINE} --network bufer=1": "found bufer",
    f"{LINE} --json - --csv -": "only one of --json and --csv can go to stdout",
    f"{LINE} --csv long.csv": "--csv and --comm name the same file",
    f"{LINE} --mappings one.map --json one.map": "--json and --mappings name the same file",
    f"{LINE} --csv no/out.csv": "no/out.csv: cannot be written",
    "simulate --flows --torus 4x4": "missing --comm, or --collective",
    "simulate --flows --comm long.csv --torus 2x2 --tasks-per-node 1": "too many tasks",
    "simulate --flows --comm silent.txt --torus 4": "silent.txt: communication graph without",
    "simulate --flows --comm half.txt --torus 4": "half.txt: at most half a message on every edge",
}


@pytest.mark.parametrize("line", BAD)
def test_wrong_input_is_told_in_one_line(run, tmp_path, line):
    before = {path: path.read_bytes() for path in tmp_path.rglob("*")}
    result = run(line, code=2)
    assert result.stderr.startswith("toruscast: error: ")
    assert BAD[line] in result.stderr
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""
    assert {path: path.read_bytes() for path in tmp_path.rglob("*")} == before


def test_what_flows_leave_out_is_said(run):
    told = in_a_line(run(FEW).stdout)
    assert "No buffer is ever full: where routers push back on each other, packets take" in told


def test_progress_counts_the_messages_of_all_mappings(run, told):
    run(f"{FEW} --jobs 1")
    n = 6 * LONG.n_edges
    assert {total for _, total in told} == {n}
    done = [done for done, _ in told]
    assert done == sorted(done)
    assert done[-1] == n


def test_simulate_points_to_flows(run):
    assert "--flows" in in_a_line(run("simulate --help").stdout)
