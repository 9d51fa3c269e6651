"""The trace is valid Chrome trace format and tells what the tables tell."""

import itertools
import json
from collections import defaultdict

import numpy as np
import pytest

from toruscast.errors import InputError
from toruscast.mapping import CommGraph, Network, TaskMapping, Torus, Workload, patterns
from toruscast.simulation import simulate, trace
from toruscast.simulation.trace import slowest_messages, trace_events, write_trace

TORUS = Torus((4, 4))
HALO = patterns.halo_2d((4, 4), 4096)
NEEDED = {
    "X": {"name", "cat", "pid", "tid", "ts", "dur", "args"},
    "b": {"name", "cat", "id", "pid", "tid", "ts", "args"},
    "e": {"name", "cat", "id", "pid", "tid", "ts"},
    "C": {"name", "cat", "pid", "tid", "ts", "args"},
    "M": {"name", "pid", "tid", "args"},
}


def scattered(comm, torus=TORUS, seed=1):
    nodes = np.random.default_rng(seed).permutation(torus.n_nodes)[: comm.n_tasks]
    return TaskMapping(nodes, torus)


@pytest.fixture(scope="module")
def phases():
    """Two phases, with snapshots."""
    traffic = Workload([HALO, HALO.scaled(3)], name="two")
    return simulate(traffic, TORUS, scattered(HALO), interval=1e-6)


@pytest.fixture(scope="module")
def rounds():
    traffic = patterns.pairwise_exchange(16, 2000)
    return simulate(traffic, TORUS, scattered(traffic.total))


@pytest.fixture(params=["phases", "rounds"])
def result(request):
    return request.getfixturevalue(request.param)


def test_every_event_has_what_its_type_needs(result):
    for event in trace_events(result):
        assert set(event) == NEEDED[event["ph"]] | {"ph"}
        assert event["pid"] > 0
        assert event["ph"] == "M" or 0 <= event["ts"] <= result.time * 1e6 + 1e-6
        assert event.get("dur", 0) >= 0


def test_names_come_first_and_then_time_goes_on(result):
    events = trace_events(result)
    times = [event.get("ts", -1) for event in events]
    assert times == sorted(times)
    named = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"}
    processes = {e["pid"] for e in events if e["name"] == "process_name"}
    slices = [event for event in events if event["ph"] in "Xb" and "round" not in event["name"]]
    assert {(e["pid"], e["tid"]) for e in slices} <= named
    assert {event["pid"] for event in events} == processes


def test_messages_begin_and_end_once_and_last_what_the_table_says(result):
    ends = defaultdict(list)
    for event in trace_events(result):
        if event["ph"] in "be" and event["cat"] == "message":
            ends[event["id"], event["pid"], event["tid"], event["name"]].append(event)
    messages = result.messages()
    assert len(ends) == len(messages)
    assert all([e["ph"] for e in pair] == ["b", "e"] for pair in ends.values())
    spans = {int(key[0].split()[1]): (a["ts"], b["ts"]) for key, (a, b) in ends.items()}
    begin, end = np.array([spans[i] for i in range(len(messages))]).T
    assert begin == pytest.approx(messages["handed_over"].to_numpy() * 1e6, abs=1e-6)
    assert end == pytest.approx(messages["arrived"].to_numpy() * 1e6, abs=1e-6)
    senders = [key[2] - 1 for key in ends]
    assert sorted(senders) == sorted(messages["src"])


def test_slices_of_a_thread_do_not_overlap(phases):
    threads = defaultdict(list)
    for event in trace_events(phases):
        if event["ph"] == "X":
            threads[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    assert threads
    for spans in threads.values():
        spans.sort()
        assert all(b[0] >= a[1] - 1e-5 for a, b in itertools.pairwise(spans))


def test_phases_follow_each_other_and_fill_the_time(phases):
    shown = [event for event in trace_events(phases) if event.get("cat") == "phase"]
    assert [event["name"].split()[:2] for event in shown] == [["phase", "0"], ["phase", "1"]]
    assert sum(event["dur"] for event in shown) == pytest.approx(phases.time * 1e6)


def test_rounds_overlap(rounds):
    shown = [event for event in trace_events(rounds) if event.get("cat") == "round"]
    assert len(shown) == 2 * 15
    begins = [event["ts"] for event in shown if event["ph"] == "b"]
    assert begins == pytest.approx(sorted(rounds.phases()["begin"] * 1e6), abs=1e-6)


def test_counters_add_up_to_the_bytes_of_the_busiest_links(phases, monkeypatch):
    values = defaultdict(list)
    monkeypatch.setattr(trace, "MAX_LINKS", 5)
    for event in trace_events(phases):
        if event["ph"] == "C" and "bytes/s" in event["args"]:
            values[event["tid"] - 1].append((event["ts"], event["args"]["bytes/s"]))
    assert len(values) == 5
    assert min(phases.wire_bytes[list(values)]) >= np.sort(phases.wire_bytes)[-5]
    for link, points in values.items():
        time, rate = np.array(points).T
        assert rate[-1] == 0
        assert (rate[:-1] * np.diff(time)).sum() * 1e-6 == pytest.approx(phases.wire_bytes[link])


def test_a_message_behind_another():
    # Both messages have 8 packets; packets of the two take turns on the second link.
    comm = CommGraph(3, [0, 1], [2, 2], [4096, 4096])
    result = simulate(comm, Torus((8,)), TaskMapping([0, 1, 3], 8))
    slowest = slowest_messages(result, 2).set_index("src").loc[0]
    assert slowest["took"] > 1.4 * slowest["alone"]
    alone = simulate(CommGraph(3, [0], [2], [4096]), Torus((8,)), TaskMapping([0, 1, 3], 8))
    row = alone.messages().iloc[0]
    assert slowest["alone"] == pytest.approx(row["arrived"] - row["handed_over"], rel=1e-3)


def test_message_queued_behind_another_in_its_fifo():
    comm = CommGraph(3, [0, 0], [1, 2], [512 * 20, 8])
    torus = Torus((8,)).with_network(fifos=1)
    table = slowest_messages(simulate(comm, torus, TaskMapping([0, 1, 2], 8)), 2)
    table = table.set_index("dst")
    assert table.loc[1, "queued"] == 0
    assert 0 < table.loc[2, "queued"] <= table.loc[2, "took"]


def test_a_message_is_not_queued_behind_one_of_another_node():
    # Task 1 hands its long message over to a FIFO of the same number before task 0 hands over its
    # second one, and is busy with it for longer.
    comm = CommGraph(4, [0, 0, 1], [2, 3, 3], [8, 8, 512 * 100])
    torus = Torus((8,)).with_network(fifos=1)
    messages = slowest_messages(simulate(comm, torus, TaskMapping([0, 4, 1, 2], 8)), 3)
    first, second = (messages.query("src == 0 and dst == @dst").iloc[0] for dst in (2, 3))
    assert first["queued"] == second["queued"] == 0


def test_where_messages_wait_longest():
    # Both take the link from node 1 to 2: one comes over another link, one out of its node's FIFO.
    comm = CommGraph(3, [0, 1], [2, 2], [512 * 20, 512 * 20])
    torus = Torus((8,)).with_network(fifos=1, overhead=0.0)
    table = slowest_messages(simulate(comm, torus, TaskMapping([0, 1, 2], 8))).set_index("src")
    assert table["place"].to_dict() == {0: "behind (0) +X", 1: "in FIFO 0"}
    assert (table["wait"] > 0).all()


@pytest.mark.parametrize("routing", ["deterministic", "adaptive"])
def test_slowest_messages_are_the_slowest(routing):
    result = simulate(HALO, TORUS, scattered(HALO), routing=routing)
    table, messages = slowest_messages(result, 4), result.messages()
    took = np.sort(messages["arrived"] - messages["handed_over"])[::-1]
    assert table["took"].to_numpy() == pytest.approx(took[:4])
    assert (table["took"] >= table["alone"] * 0.999).all()
    assert ("place" in table) == (routing == "deterministic")


def test_only_the_longest_messages_of_a_large_run(phases, tmp_path, monkeypatch):
    monkeypatch.setattr(trace, "MAX_MESSAGES", 3)
    monkeypatch.setattr(trace, "MAX_LINKS", 2)
    write_trace(phases, tmp_path / "t.json")
    content = json.loads((tmp_path / "t.json").read_text())
    about, messages = content["otherData"], phases.messages()
    begun = [e for e in content["traceEvents"] if e["ph"] == "b"]
    assert len(begun) == about["edges shown"] == 3
    assert about["edges"] == len(messages)
    assert about["left out"].startswith(f"{len(messages) - 3} edges")
    assert about["links shown"] == 2
    took = (messages["arrived"] - messages["handed_over"]).nlargest(3)
    assert {e["id"] for e in begun} == {f"message {i}" for i in took.index}


def test_file_holds_the_events(rounds, tmp_path):
    write_trace(rounds, tmp_path / "t.json")
    content = json.loads((tmp_path / "t.json").read_text())
    assert content["traceEvents"] == trace_events(rounds)
    assert "left out" not in content["otherData"]
    assert content["otherData"]["time_us"] == pytest.approx(rounds.time * 1e6)


def test_nothing_is_left_of_a_trace_that_cannot_be_written(rounds, tmp_path):
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "folder", tmp_path / "no" / "t.json"):
        with pytest.raises(InputError):
            write_trace(rounds, path)
    assert list(tmp_path.rglob("*")) == [tmp_path / "folder"]


def test_message_within_a_node():
    comm = CommGraph(2, [0], [1], [1000])
    result = simulate(comm, TORUS, TaskMapping([3, 3], TORUS, tasks_per_node=2))
    assert sum(event["ph"] == "b" for event in trace_events(result)) == 1
    assert slowest_messages(result)["place"].tolist() == [""]


def test_time_alone_of_a_rendezvous():
    torus = Torus((8,)).with_network(eager_limit=1000)
    result = simulate(CommGraph(2, [0], [1], [5000]), torus, TaskMapping([0, 3], 8))
    slowest = slowest_messages(result).iloc[0]
    assert slowest["alone"] == pytest.approx(slowest["took"], rel=1e-3)


@pytest.mark.parametrize(
    ("options", "routing", "known"),
    [
        ({}, "adaptive", True),
        ({"bandwidth": (1e9, 2e9)}, "deterministic", True),
        ({"bandwidth": (1e9, 2e9)}, "by_size", False),
        ({"bandwidth": (1e9, 2e9)}, "adaptive", False),
        ({"network": Network(fifo_rule="first_free")}, "adaptive", True),
    ],
)
@pytest.mark.parametrize("dst", [1, 5])
def test_time_alone_where_the_way_is_open(options, routing, known, dst):
    comm, torus = CommGraph(2, [0], [1], [1e6]), Torus((4, 4), **options)
    result = simulate(comm, torus, TaskMapping([0, dst], torus), routing=routing)
    slowest = slowest_messages(result).iloc[0]
    # To node 1 there is one way.
    if known or dst == 1:
        assert slowest["alone"] == pytest.approx(slowest["took"], rel=1e-2)
    else:
        assert np.isnan(slowest["alone"])


@pytest.mark.parametrize("nbytes", [100, 1000, 3000, 8000])
@pytest.mark.parametrize("ports", [2, 4])
@pytest.mark.parametrize("changes", [{}, {"eager_limit": 50.0}])
def test_time_alone_where_several_ports_share_the_memory(nbytes, ports, changes):
    torus = Torus((16,)).with_network(reception_ports=ports, memory_bandwidth=2.5e9, **changes)
    result = simulate(CommGraph(2, [0], [1], [nbytes]), torus, TaskMapping([0, 7], torus))
    slowest = slowest_messages(result).iloc[0]
    assert slowest["alone"] == pytest.approx(slowest["took"], rel=1e-3)


def test_time_alone_of_packets_of_no_bytes():
    torus = Torus((8,)).with_network(header=0, overhead=0.0)
    result = simulate(CommGraph(2, [0], [1], [0], [2]), torus, TaskMapping([0, 1], torus))
    slowest = slowest_messages(result).iloc[0]
    assert slowest["alone"] == pytest.approx(slowest["took"], rel=1e-3)
