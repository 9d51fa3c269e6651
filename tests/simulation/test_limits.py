"""What the packet simulator's clock, counters and arrays cannot hold is refused, not begun."""

import numpy as np
import pytest

from toruscast.errors import InputError
from toruscast.mapping import CommGraph, Network, TaskMapping, Torus, Workload, patterns
from toruscast.simulation import simulate
from toruscast.simulation import simulator as module
from toruscast.simulation import state as clock
from toruscast.simulation.simulator import refine
from toruscast.simulation.state import PLACES

EDGES = CommGraph(4, [0, 1, 2, 3], [1, 2, 2, 0], [0.0, 100.0, 50.0, 1e6])


def run(comm=EDGES, shape=(2, 2), *, network=None, torus=None, **options):
    torus = torus or Torus(shape, network=Network(**(network or {})))
    mapping = TaskMapping(np.arange(comm.n_tasks) % torus.n_nodes, torus)
    return simulate(comm, torus, mapping, **options)


@pytest.mark.parametrize(
    ("network", "match"),
    [
        ({"overhead": 9e8}, "too long for the clock, mostly software overhead"),
        ({"hop_latency": 10.0}, "hop_latency too long relative to a packet"),
        ({"memory_bandwidth": 10.0}, "memory_bandwidth too low relative to the fastest link"),
        ({"memory_bandwidth": 1e4, "reception_ports": 1024}, "memory_bandwidth too low"),
        ({"header": 2**27}, "packet too long"),
    ],
)
def test_spans_that_a_packet_s_ticks_cannot_count(network, match):
    with pytest.raises(InputError, match=match):
        run(network=network)


def test_a_long_ring_goes_the_shorter_way():
    result = run(CommGraph(2, [0], [1], [100.0]), shape=(70_000,))
    assert result.packet_hops == 1


def test_more_bytes_wait_for_a_link_than_32_bits_count():
    # 40 of the largest packets for one neighbour of the first, 20 for another: all know their way.
    network = Network(payload=2**26 - 32, fifos=100, fifo_rule="round_robin", buffer_packets=2)
    torus = Torus((4, 4), network=network)
    here, there = torus.node([1, 0]), torus.node([1, 1])
    mapping = TaskMapping([0] * 60 + [here] * 40 + [there] * 20, torus, tasks_per_node=60)
    comm = CommGraph(120, np.arange(60), 60 + np.arange(60), np.full(60, 2.0**26 - 32))
    packets = simulate(comm, torus, mapping, routing="adaptive").packets.reshape(16, 4)
    # The bytes for the first neighbour fill its link; the others go round it.
    assert packets[0].tolist() == [40, 0, 20, 0]


def test_rooms_that_fall_free_later_than_packets_follow():
    network = Network(
        payload=1,
        header=0,
        hop_latency=1e-6,
        buffer_packets=2,
        fifo_rule="round_robin",
        fifo_packets=300,
        overhead=0.0,
    )
    torus = Torus((4,), bandwidth=4.5e9, network=network)
    comm = CommGraph(20, np.arange(10), 10 + np.arange(10), np.full(10, 1000.0))
    result = simulate(comm, torus, TaskMapping([0] * 10 + [1] * 10, torus, tasks_per_node=10))
    # A packet at a time, each as long as its way: the last of 10,000 after 10 ms.
    assert result.time == pytest.approx(10e-3, rel=0.01)


def test_a_link_far_slower_than_another():
    with pytest.raises(
        InputError, match="bandwidth too low relative to the fastest link: found 1 "
    ):
        run(torus=Torus((2, 2), bandwidth=(1.0, 2e9)))


@pytest.mark.parametrize(
    "change",
    [
        {"overhead": 1e12},
        {"short_overhead": 1e12},
        {"hop_latency": 1e30},
        {"fifos": 10**9},
        {"reception_ports": 10**9},
        {"fifo_packets": 10**9},
    ],
)
def test_constants_beyond_any_machine(change):
    with pytest.raises(InputError, match=f"bad {next(iter(change))}: "):
        Network(**change)


@pytest.mark.parametrize("copies", [False, True])
def test_long_times_within_the_limits_are_exact(copies):
    # A million seconds of software, or of a copy within the node; 1000 bytes in two packets.
    network = {"memory_bandwidth": 1000.0} if copies else {"overhead": 1e6}
    comm = CommGraph(2, [0], [int(not copies)], [1e9 if copies else 1000.0])
    time = run(comm, (4,), network=network).time
    expected = 1e6 + (500e-9 if copies else (1000 + 2 * 32) / 2e9 + 40e-9)
    assert time == pytest.approx(expected, rel=1e-12)


def test_a_receiver_a_million_times_slower_than_its_links():
    # Two packets of 500 bytes at most go in one after the other.
    result = run(
        CommGraph(2, [0], [1], [1000.0]), (4,), network={"memory_bandwidth": 1000.0, "header": 0}
    )
    assert result.time == pytest.approx(1.0, rel=1e-5)


@pytest.mark.parametrize("routing", ["deterministic", "adaptive"])
@pytest.mark.parametrize(("header", "nbytes"), [(24, 0), (40, 45), (66, 34), (1, 0)])
@pytest.mark.parametrize("served", ["link", "port"])
def test_many_packets_far_shorter_than_another(served, header, nbytes, routing):
    # 10,000 of a third of a tick and more through one link, or one port; elsewhere one of 64 KiB.
    slow = 1e9 if served == "link" else 1e7
    network = Network(
        payload=65536,
        header=header,
        hop_latency=2e-6,
        overhead=0.0,
        buffer_packets=1024,
        deadlock="dateline",
        memory_bandwidth=slow,
    )
    torus = Torus((8,), bandwidth=1e8, network=network)
    comm = CommGraph(4, [0, 2], [1, 3], [1e4 * nbytes, 65536], [1e4, 1])
    result = simulate(comm, torus, TaskMapping([0, 1, 4, 5], torus), routing=routing)
    expected = 2e-6 + 1e4 * (header + nbytes) / min(1e8, slow)
    assert result.message_times[0][0] == pytest.approx(expected, rel=2e-3)
    assert result.links()["busy_share"].max() <= 1


def test_packets_too_short_beside_the_longest():
    comm = CommGraph(4, [0, 2], [1, 3], [1, 512.0 * 10_000], [1, 1])
    with pytest.raises(InputError, match="too short for the clock: found 1 bytes"):
        run(comm, (8,), network={"header": 0}, coarsening=10_000)


def test_packets_beyond_what_is_counted():
    comm = CommGraph(2, [0], [1], [2e12])
    with pytest.raises(InputError, match=r"fewer than 2\*\*31; a larger coarsening"):
        run(comm, (4,))
    # 39,063 long packets instead, at 544 bytes on the wire for 512.
    time = run(comm, (4,), coarsening=100_000).time
    assert time == pytest.approx(2e12 * 544 / 512 / 2e9, rel=1e-6)


def test_more_packets_at_one_node_than_the_clock_counts():
    # 2**30 packets each from four tasks.
    comm = CommGraph(5, [1, 2, 3, 4], [0] * 4, [512.0 * 2**30] * 4)
    with pytest.raises(InputError, match="too many packets, or too slow a network"):
        run(comm, (5,))


def test_an_error_target_begins_with_packets_that_are_not_too_long():
    comm = CommGraph(2, [0], [1], [1e13])
    result = run(comm, (4,), error=0.03)
    assert 1 < result.coarsening * 544 <= 2**26
    assert result.time == pytest.approx(1e13 * 544 / 512 / 2e9, rel=1e-3)
    assert result.error == 0.03
    assert result.change <= 0.03 / 16


@pytest.mark.parametrize(("most", "first"), [(1, 1), (5, 1), (20, 16), (64, 64), (10**9, 512)])
def test_refine_begins_at_most_there(most, first):
    tried = []

    class Result:
        time = 1.0

    def attempt(coarsening, places):
        tried.append(coarsening)
        return Result()

    refine(0.03, 32768, 10**9, 32, attempt, most)
    assert tried[0] == first


@pytest.mark.parametrize(
    ("longest", "last", "jump", "tried"),
    [
        (4096, 64, 0.02, [64, 32, 16, 8, 4]),
        (4096, 64, 0.1, [64, 32, 16, 8, 1]),
        (32768, 512, 0.1, [512, 256, 128, 64, 32, 16, 8, 4]),
        (2048, 16, 0.02, [32, 16, 8, 1]),
        (2048, 16, 0.1, [32, 16, 8, 1]),
    ],
)
def test_after_a_jump_of_the_time_stillness_must_last_longer(longest, last, jump, tried):
    seen = []

    class Result:
        def __init__(self, coarsening, places):
            seen.append(coarsening)
            # Still from the second on, but for the jump behind the last.
            self.time = 1.0 - jump if coarsening >= last else 1.0

    refine(0.03, longest, 10**9, 10**4, Result)
    assert seen == tried


@pytest.mark.parametrize(("depth", "ends"), [(32, 1), (2048, 2), (10**4, 64)])
def test_times_that_the_places_tell_are_not_trusted(depth, ends):
    tried = []
    enough = 16

    class Result:
        def __init__(self, coarsening, places):
            tried.append((coarsening, places))
            self.coarsening = coarsening
            self.time = 1.0 if depth / coarsening >= enough else 1 + 0.1 / places

    # A tenth of the error would do; the places alone change the time by half a percent.
    result, _ = refine(0.009, 32768, 10**9, depth, Result)
    assert result.coarsening == ends
    assert all(places == PLACES or depth / coarsening < enough for coarsening, places in tried)


@pytest.mark.parametrize(
    "options",
    [
        {"seed": 2**63},
        {"coarsening": 10**20},
        {"error": 1.0},
        {"error": float("nan")},
    ],
)
def test_options_of_the_wrong_kind(options):
    with pytest.raises(InputError, match=f"bad {next(iter(options))}"):
        run(**options)


@pytest.mark.parametrize(
    ("torus", "mapping", "found"),
    [
        (Torus(4), [0.5, 1, 2, 3], "bad mapping: found 0.5, expected whole"),
        (4.5, TaskMapping([0, 1, 2, 3], 4), "bad torus: found .*, expected a Torus"),
    ],
)
def test_arguments_of_the_wrong_kind(torus, mapping, found):
    with pytest.raises(InputError, match=found):
        simulate(EDGES, torus, mapping)


def test_whole_numbers_given_as_floats():
    network = {"fifos": 4.0, "reception_ports": 2.0}
    result = run(network=network, coarsening=2.0, seed=3.0)
    assert type(result.coarsening) is int
    assert (
        result.time
        == run(network={name: int(n) for name, n in network.items()}, coarsening=2, seed=3).time
    )


def test_the_largest_seed():
    assert run(EDGES, torus=Torus((4,), tie_break="random"), seed=2**63 - 1).time > 0


@pytest.mark.parametrize("limit", ["_MAX_SNAPSHOTS", "_MAX_SNAPSHOT_BYTES"])
def test_too_many_snapshots(monkeypatch, limit):
    # About 530 us: with the last one, 54 snapshots of 16 links' 12 bytes.
    monkeypatch.setattr(module, limit, 60 if limit == "_MAX_SNAPSHOTS" else 60 * (1000 + 16 * 12))
    assert run(interval=1e-5).series()["time"].nunique() == 54
    with pytest.raises(InputError, match="interval too short: too many snapshots"):
        run(interval=8e-6)


def test_an_interval_longer_than_any_run():
    result = run(interval=1e30)
    assert result.series()["time"].unique() == pytest.approx([result.time])


@pytest.mark.parametrize("coarsening", [1, 64, 100_000])
@pytest.mark.parametrize("local", [0.0, 1e6, 1e12])
def test_what_stays_within_a_node_does_not_coarsen_the_clock(coarsening, local):
    comm = CommGraph(3, [0, 0], [1, 2], [local, 512.0])
    torus = Torus((4,))
    found = simulate(
        comm, torus, TaskMapping([0, 0, 1], torus, tasks_per_node=2), coarsening=coarsening
    )
    # Software of two messages, one hop, one packet with its header, to a tick.
    assert found.message_times[0][1] == pytest.approx(2 * 500e-9 + 40e-9 + 544 / 2e9, abs=3e-10)


def test_a_wait_for_a_link_that_carries_what_many_nodes_send():
    # The last packets that enter the mesh's middle wait for those of 31 other nodes, over 2**31 of
    # the ticks with which the run begins.
    network = Network(overhead=0.0, hop_latency=1e-12, buffer_packets=2, fifo_packets=5000)
    torus = Torus((64,), wrap=False, network=network)
    comm = CommGraph(64, np.arange(32), np.arange(32) + 32, np.full(32, 512 * 1100.0))
    told = []
    result = simulate(
        comm,
        torus,
        TaskMapping(np.arange(64), torus),
        progress=lambda _, done, total: told.append(done),
    )
    assert result.time == pytest.approx(32 * 1100 * 544 / 2e9, rel=1e-3)
    assert told == sorted(told)
    assert told[-1] == result.packet_hops


@pytest.mark.parametrize("overhead", [0.4, 1.0, 7.0, 100.0])
def test_a_run_past_what_packets_keep_of_their_ticks(overhead):
    # A tick is 272 ns / 1024: 2**31 of them are .57 s.
    torus = Torus((4,), network=Network(overhead=overhead))
    found = simulate(
        Workload([CommGraph(2, [0, 1], [1, 0], [512.0, 512.0])] * 5, dependent=True),
        torus,
        TaskMapping([0, 1], torus),
    )
    assert found.time == pytest.approx(5 * (overhead + 40e-9 + 544 / 2e9), abs=1e-8)


def test_looks_at_the_waits_change_nothing_and_coarser_ticks_little(monkeypatch):
    torus = Torus((4, 4), network=Network(overhead=1e-6, buffer_packets=3))
    comm = patterns.random_pairs(48, 7, 9000, seed=2)
    mapping = TaskMapping(np.arange(48) % 16, torus)
    alone = simulate(comm, torus, mapping)
    series = simulate(comm, torus, mapping, interval=1e-6).series()
    monkeypatch.setattr(module, "CHECK_INTERVAL", 1000)
    assert simulate(comm, torus, mapping).messages().equals(alone.messages())
    assert simulate(comm, torus, mapping, interval=1e-6).series().equals(series)
    monkeypatch.setattr(clock, "LONGEST_WAIT", 2**11)
    coarse = simulate(comm, torus, mapping)
    assert coarse.time != alone.time
    assert coarse.time == pytest.approx(alone.time, rel=0.05)
    monkeypatch.setattr(clock, "LONGEST_WAIT", 0)
    monkeypatch.setattr(module, "CHECK_INTERVAL", 1)
    with pytest.raises(InputError, match="waiting times of packets are too long for the clock"):
        simulate(comm, torus, mapping)
