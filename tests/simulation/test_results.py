"""Results of the packet simulator: tables, time series and message logs; and errors."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_cases import graphs, mapped, simulated_networks, tori

from toruscast.errors import InputError
from toruscast.mapping import CommGraph, MappingProblem, Network, TaskMapping, Torus, Workload
from toruscast.mapping.patterns import halo_2d, pairwise_exchange
from toruscast.routing import dilations
from toruscast.simulation import simulate

COLUMNS = {
    "messages": [
        "phase",
        "edge",
        "src",
        "dst",
        "n_messages",
        "nbytes",
        "hops",
        "fifo",
        "packets",
        "handed_over",
        "arrived",
    ],
    "tasks": [
        "node",
        "sent_messages",
        "sent_bytes",
        "received_messages",
        "received_bytes",
        "sent",
        "received",
        "finish",
    ],
    "phases": ["name", "begin", "end", "messages", "nbytes"],
    "links": [
        "node",
        "dimension",
        "direction",
        "packets",
        "wire_bytes",
        "chunks",
        "busy_share",
        "buffered_seconds",
        "mean_buffered",
        "max_buffered",
        "delay",
    ],
    "fifos": [
        "node",
        "fifo",
        "messages",
        "nbytes",
        "packets",
        "most_edges",
        "mean_stay",
        "mean_wait",
    ],
    "series": ["time", "link", "wire_bytes", "buffered"],
}
TORUS = Torus((4, 3), wrap=(False, True))
EMPTY = CommGraph(12, [], [], [])
# An edge without a message, one within a node, one of three messages.
ODD = CommGraph(12, [0, 0, 1, 11], [1, 2, 1, 0], [0, 5120, 700, 1536], [0.4, 1, 1, 3])


def run(traffic, torus=TORUS, **options):
    return simulate(traffic, torus, TaskMapping(np.arange(traffic.n_tasks), torus), **options)


@pytest.mark.parametrize("dependent", [False, True])
@pytest.mark.parametrize("table", COLUMNS)
def test_columns(table, dependent):
    for phases in ([EMPTY], [ODD], [EMPTY, ODD, EMPTY]):
        result = run(Workload(phases, dependent=dependent), interval=1e-6)
        assert getattr(result, table)().columns.tolist() == COLUMNS[table]


@settings(max_examples=40, deadline=None)
@given(st.data(), st.sampled_from(["deterministic", "adaptive"]), st.booleans())
def test_tables_agree_with_each_other(data, routing, dependent):
    network = data.draw(simulated_networks())
    torus = data.draw(tori(max_nodes=30, max_dimensions=3, network=network))
    mapping = data.draw(mapped(torus))
    phases = data.draw(st.lists(graphs(mapping.n_tasks, 15), min_size=1, max_size=3))
    traffic = Workload(phases, dependent=dependent)
    result = simulate(traffic, torus, mapping, routing=routing, interval=3e-7)
    messages, tasks, links, fifos = (
        result.messages(),
        result.tasks(),
        result.links(),
        result.fifos(),
    )
    total = messages["nbytes"].sum()
    assert total == pytest.approx(traffic.total.nbytes.sum())
    assert tasks["sent_bytes"].sum() == pytest.approx(total)
    assert tasks["received_bytes"].sum() == pytest.approx(total)
    sent = messages["n_messages"].sum()
    assert sent == sum(phase.whole_messages.sum() for phase in phases)
    assert tasks["sent_messages"].sum() == tasks["received_messages"].sum() == sent
    assert tasks["finish"].max() == pytest.approx(result.time)
    remote = messages["hops"] > 0
    assert fifos["messages"].sum() == messages["n_messages"][remote].sum()
    assert fifos["nbytes"].sum() == pytest.approx(messages["nbytes"][remote].sum())
    assert fifos["packets"].sum() == messages["packets"][remote].sum()
    assert ((fifos["most_edges"] > 0) >= (fifos["messages"] > 0)).all() or (
        network.fifo_rule == "first_free"
    )
    assert (messages["arrived"] >= messages["handed_over"]).all()
    assert messages["arrived"].max() == pytest.approx(result.time) or messages.empty
    phase_table = result.phases()
    assert phase_table["messages"].sum() == sent
    assert phase_table["nbytes"].sum() == pytest.approx(total)
    assert (phase_table["end"] >= phase_table["begin"]).all()
    assert phase_table["end"].max() == pytest.approx(result.time)
    np.testing.assert_array_equal(links.index, np.flatnonzero(torus.link_exists))
    assert links["packets"].sum() == result.packet_hops
    assert links["wire_bytes"].sum() == pytest.approx(result.wire_bytes.sum())
    assert (links["busy_share"] <= 1 + 1e-3).all()
    assert (links["chunks"] * 32 >= links["wire_bytes"] * (1 - 1e-7)).all()
    assert (links["mean_buffered"] <= links["max_buffered"] * (1 + 1e-9)).all()
    assert (links["delay"] <= result.time).all()
    for link in np.flatnonzero(torus.link_exists)[:3].tolist():
        row = links.loc[link]
        sign = int(row["direction"])
        assert torus.link(int(row["node"]), int(row["dimension"]), sign) == link
    # What was sent in each interval adds up to what was sent.
    series = result.series()
    sent = series.groupby("link")["wire_bytes"].sum().reindex(links.index, fill_value=0.0)
    np.testing.assert_allclose(sent, links["wire_bytes"], rtol=1e-9, atol=1e-6)


@pytest.mark.parametrize(("nbytes", "chunks"), [(1120.0, 38), (1121.0, 39), (1.0, 2), (1e6, 33204)])
def test_chunks_of_a_message(nbytes, chunks):
    # Bytes and 32 of a header for each 512 begun; 1120 bytes are three packets of a third each.
    link = simulate(CommGraph(2, [0], [1], [nbytes]), Torus((4,)), TaskMapping([0, 1], 4)).links()
    assert link["chunks"].iloc[0] == chunks


def test_messages_and_tasks_of_a_small_case():
    # ODD: edge 0 sends nothing; 0 -> 2 is two hops round the ring of 3 the short way: one; 1 -> 1
    # stays on its node; 11 -> 0 goes three hops along the mesh and one round.
    table = run(ODD).messages()
    assert table["edge"].tolist() == [1, 2, 3]
    assert table["hops"].tolist() == [1, 0, 4]
    assert table["packets"].tolist() == [10, 2, 3]
    assert (table["fifo"] < 0).tolist() == [False, True, False]
    tasks = run(ODD).tasks()
    assert tasks.index.name == "task"
    assert tasks["sent_bytes"][[0, 1, 11]].tolist() == [5120, 700, 1536]
    assert tasks["received_messages"][[0, 1, 2, 11]].tolist() == [3, 1, 1, 0]
    assert tasks["sent"][3] == tasks["received"][3] == tasks["finish"][3] == 0


def test_waits_of_a_small_case():
    # Packets of 100 ns. Task 1 sends ten over the link from node 1 to 2, the first at 200 ns. Two
    # of task 0 come in behind the link from node 0 to 1, at 250 and 350 ns. Who was there first
    # goes first: at 300 ns task 0's, at 400 task 1's second (at the router since 300), at 500 task
    # 0's other one, and then task 1's, of which the third has waited 200 ns, the others 100 each.
    network = Network(
        payload=90,
        header=10,
        hop_latency=50e-9,
        fifos=4,
        fifo_rule="first_dimension",
        overhead=200e-9,
        memory_bandwidth=10e9,
    )
    torus = Torus(8, bandwidth=1e9, network=network)
    comm = CommGraph(4, [0, 1, 3], [2, 2, 0], [180, 900, 450])
    result = simulate(comm, torus, TaskMapping([0, 1, 2, 0], torus, tasks_per_node=2))
    time = 200e-9 + 12 * 100e-9 + 50e-9
    assert result.time == pytest.approx(time, rel=2e-3)
    links = result.links().loc[[0, 2]]
    assert links["delay"].tolist() == pytest.approx([(50e-9 + 150e-9) / 2, 0], rel=2e-3)
    assert links["mean_buffered"].tolist() == pytest.approx([200e-9 / time, 0], rel=2e-3)
    assert links["busy_share"].tolist() == pytest.approx([2e-7 / time, 12e-7 / time], rel=2e-3)
    assert links["buffered_seconds"].tolist() == pytest.approx([200e-9, 0], rel=2e-3)
    fifos = result.fifos().set_index(["node", "fifo"])
    assert fifos["mean_wait"][0, 1] == 0
    assert fifos["mean_wait"][1, 1] == pytest.approx((8 * 100e-9 + 200e-9) / 10, rel=2e-3)
    # The last packet of task 0 is at the router 100 ns after its first, that of task 1 when the one
    # before it goes, at 1200 ns.
    assert fifos["mean_stay"][[(0, 1), (1, 1)]].tolist() == pytest.approx([1e-7, 1e-6], rel=2e-3)
    # Task 0's message has arrived after 650 ns, task 1's in the end; task 3's stays on its node.
    tasks = result.tasks()
    assert tasks["sent"].tolist() == pytest.approx([650e-9, time, 0, 245e-9], rel=2e-3)
    assert tasks["received"].tolist() == pytest.approx([245e-9, 0, time, 0], rel=2e-3)


def test_phases_of_a_workload():
    result = run(Workload([ODD.renamed("first"), EMPTY, ODD.renamed("third")]))
    table = result.phases()
    assert table["name"].tolist()[::2] == ["first", "third"]
    assert table["messages"].tolist() == [5, 0, 5]
    assert table["begin"].tolist() == [0, table["end"][0], table["end"][0]]
    assert table["end"][2] == pytest.approx(2 * table["end"][0])
    assert result.phase_times == pytest.approx((table["end"][0], 0, table["end"][0]))
    messages = result.messages()
    assert messages["phase"].tolist() == [0, 0, 0, 2, 2, 2]
    assert (messages["handed_over"][3:] >= table["begin"][2]).all()


def test_rounds_without_a_message_take_no_time():
    first, last = CommGraph(12, [0], [3], [512]), CommGraph(12, [0], [3], [1024])
    table = run(Workload([EMPTY, first, EMPTY, last, EMPTY], dependent=True)).phases()
    begin, end = table["begin"].tolist(), table["end"].tolist()
    assert begin[0] == end[0] == 0
    assert 0 < begin[1] == begin[2] == end[2] < begin[3] == begin[4] == end[4]
    assert table["messages"].tolist() == [0, 1, 0, 1, 0]


@pytest.mark.parametrize("traffic", [EMPTY, Workload([EMPTY, EMPTY], dependent=True)])
def test_nothing_to_send(traffic):
    result = run(traffic, interval=1e-6)
    assert result.time == 0
    assert result.packet_hops == 0
    assert result.messages().empty
    assert result.series().empty
    assert (result.links().drop(columns=["node", "dimension", "direction"]) == 0).all(axis=None)
    assert (result.tasks()["finish"] == 0).all()


@pytest.mark.parametrize("dependent", [False, True])
def test_progress_ends_at_the_total(dependent, monkeypatch):
    monkeypatch.setattr("toruscast.simulation.simulator._SLICE", 50)
    seen = []
    comm = halo_2d((4, 3), 5120.0)
    traffic = Workload([comm, comm], dependent=dependent)
    result = run(traffic, progress=lambda _, done, total: seen.append((done, total)))
    done, total = (list(column) for column in zip(*seen, strict=True))
    assert done == sorted(done)
    assert set(total) == {result.packet_hops}
    assert done[-1] == result.packet_hops
    assert len(seen) > 5


@pytest.mark.parametrize("dependent", [False, True])
def test_progress_counts_questions_and_no_packet_twice(dependent, monkeypatch):
    # Receivers slower than their links, so that packets wait for a reception port.
    monkeypatch.setattr("toruscast.simulation.simulator._SLICE", 20)
    network = Network(eager_limit=1000, memory_bandwidth=1e9, reception_ports=2)
    torus = Torus((4, 3), network=network)
    comm = halo_2d((4, 3), 5120.0)
    hops = dilations(MappingProblem(comm, torus), TaskMapping(np.arange(12), torus)).sum()
    seen = []
    run(
        Workload([comm, comm], dependent=dependent),
        torus,
        progress=lambda _, done, total: seen.append((done, total)),
    )
    # Ten packets, a question and an answer a message, in two phases.
    total = 2 * 12 * hops
    assert seen[-1] == (total, total)
    # A slice ends with its tick; it reaches the total with the last hops only.
    done = [before for before, _ in seen]
    assert done.index(total) >= total // 60
    assert {of for _, of in seen} == {total}


@pytest.mark.parametrize("traffic", [ODD, Workload([ODD, ODD]), pairwise_exchange(12, 600.0)])
def test_series_ends_with_each_stretch(traffic):
    result = run(traffic, interval=1e-6)
    ends = [stretch.snapshots[-1].time for stretch in result.stretches]
    assert ends == pytest.approx([stretch.end for stretch in result.stretches])


def test_series_covers_all_phases():
    comm = halo_2d((4, 3), 51200.0)
    result = run(Workload([comm, comm]), interval=1e-6)
    series = result.series()
    assert series["time"].is_monotonic_increasing
    assert series["time"].iloc[-1] == pytest.approx(result.time, abs=1.1e-6)
    half = series["wire_bytes"][series["time"] <= result.time / 2 + 1e-6].sum()
    assert half == pytest.approx(result.wire_bytes.sum() / 2)
    # No link sends more than its bandwidth in an interval, but for the packet that it began.
    most = series.groupby(["time", "link"])["wire_bytes"].sum().max()
    assert most <= 2e9 * 1e-6 + 2 * 544


def test_rounds_of_a_collective_in_the_tables():
    result = run(pairwise_exchange(12, 600.0))
    table = result.phases()
    assert len(table) == 11
    assert (table["messages"] == 12).all()
    assert table["begin"].is_monotonic_increasing
    assert table["end"].iloc[-1] == pytest.approx(result.time)
    assert isinstance(result.messages(), pd.DataFrame)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"routing": "x"}, "deterministic or adaptive"),
        ({"coarsening": 0}, "coarsening"),
        ({"coarsening": 1.5}, "coarsening"),
        ({"seed": -1}, "seed"),
        ({"error": 0.03, "coarsening": 2}, "one of them"),
        ({"interval": 0}, "interval"),
        ({"interval": -1e-6}, "interval"),
        ({"interval": float("nan")}, "interval"),
    ],
)
def test_bad_options(options, match):
    with pytest.raises(InputError, match=match):
        run(ODD, **options)


def test_a_mapping_that_does_not_fit():
    with pytest.raises(InputError, match="does not fit the graph"):
        simulate(ODD, TORUS, TaskMapping([0, 1], TORUS))
