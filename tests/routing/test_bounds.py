"""Lower bounds of the time against their slow twin and closed forms."""

from dataclasses import replace
from functools import partial

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_cases import cases, graphs, simulated_networks, tori

from toruscast._features import RoutedTraffic
from toruscast.errors import InputError
from toruscast.mapping import CommGraph, MappingProblem, Network, TaskMapping, Torus, Workload
from toruscast.routing import release_bound, time_bounds
from toruscast.routing.messages import hand_over_times, packet_counts
from toruscast.simulation import simulate

PLAIN = Network(
    payload=100,
    header=0,
    hop_latency=1.0,
    fifos=4,
    overhead=10.0,
    fifo_rule="first_dimension",
    memory_bandwidth=50.0,
)


@settings(max_examples=60, deadline=None)
@given(cases(tori=partial(tori, max_nodes=60)), simulated_networks())
def test_bounds_equal_their_twin(case, network):
    comm, torus, mapping = case
    torus = replace(torus, network=network)
    bounds = time_bounds(MappingProblem(comm, torus), mapping)
    twin = naive.bounds([comm], torus, mapping)
    np.testing.assert_allclose(bounds[:4], twin, rtol=1e-11)
    assert bounds.total == max(bounds[:4])


@settings(max_examples=100, deadline=None)
@given(cases(tori=partial(tori, max_nodes=60)), simulated_networks())
def test_the_release_bound_equals_its_twin(case, network):
    comm, torus, mapping = case
    for changed in (network, replace(network, feeding="tasks", eager_limit=np.inf)):
        host = replace(torus, network=changed)
        twin = naive.release_bound(comm, host, mapping)
        assert release_bound(MappingProblem(comm, host), mapping) == pytest.approx(twin, rel=1e-9)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_nothing_is_faster_than_the_release_bound(data):
    # Few FIFOs, nodes and receivers for many messages, so that FIFOs and links decide.
    network = Network(
        payload=64,
        header=0,
        hop_latency=data.draw(st.sampled_from([4e-8, 1e-6])),
        fifos=data.draw(st.integers(1, 3)),
        fifo_rule=data.draw(st.sampled_from(["bluegene_q", "first_dimension", "first_free"])),
        feeding=data.draw(st.sampled_from(["tasks", "messages", "packets"])),
        overhead=data.draw(st.sampled_from([0.0, 1e-7, 1e-6])),
        short_limit=data.draw(st.sampled_from([0, 64])),
        short_overhead=3.333e-7,
        eager_limit=data.draw(st.sampled_from([np.inf, np.inf, 100.0])),
    )
    shape = data.draw(st.sampled_from([(4,), (8,), (3, 2), (4, 4)]))
    tie = data.draw(st.sampled_from(["plus", "source_parity", "sum_parity", "simgrid"]))
    torus = Torus(shape, bandwidth=1e9, tie_break=tie, network=network)
    near = st.integers(0, min(3, torus.n_nodes - 1))
    node = data.draw(st.lists(near, min_size=6, max_size=12))
    task = st.integers(0, len(node) - 1)
    edges = data.draw(st.sets(st.tuples(task, task), min_size=6, max_size=40))
    sizes = st.sampled_from([1.0, 64.0, 640.0, 2000.0])
    nbytes = [data.draw(sizes) for _ in edges]
    comm = CommGraph(len(node), *zip(*sorted(edges), strict=True), nbytes)
    mapping = TaskMapping(node, torus, tasks_per_node=len(node))
    traffic = RoutedTraffic(MappingProblem(comm, torus), mapping)
    assert traffic.simulation.time >= traffic.sure_bound
    # Ticks are a thousandth of the longest packet, of a hop and of a message's software too.
    release = release_bound(MappingProblem(comm, torus), mapping)
    assert traffic.simulation.time >= release * (1 - 2e-3)


def test_messages_leave_a_fifo_one_after_the_other():
    # Ready after 10 and 20 s, 40 s of wire each: the second leaves at 50 s. Over 2 hops of 1 s and
    # 40 s of wire it is there at 92 s, which is when link 1 -> 2 is through, too.
    torus = Torus(8, bandwidth=10.0, network=PLAIN)
    comm = CommGraph(3, [0, 0], [1, 2], [400, 400])
    assert release_bound(
        MappingProblem(comm, torus), TaskMapping([0, 2, 2], 8, tasks_per_node=2)
    ) == pytest.approx(92)
    # Of two that are ready together any may be the first: 10 s, and 80 s of wire on link 0 -> 1.
    comm = CommGraph(4, [0, 1], [2, 3], [400, 400])
    assert release_bound(
        MappingProblem(comm, torus), TaskMapping([0, 0, 1, 2], 8, tasks_per_node=2)
    ) == pytest.approx(10 + 80 + 1)


def test_work_that_comes_late_keeps_a_link_busy_from_then_on():
    # Node 7 sends 100 bytes over 0 -> 1 early (ready at 10 s), node 0 its fourth message (40 s) of
    # 400 bytes. From 40 s on the link has 40 s of work; the 10 s of the first are done by then.
    torus = Torus(8, bandwidth=10.0, network=PLAIN)
    comm = CommGraph(6, [0, 0, 0, 0, 5], [1, 2, 3, 4, 4], [0, 0, 0, 400, 100])
    mapping = TaskMapping([0, 6, 6, 6, 1, 7], 8, tasks_per_node=3)
    assert release_bound(MappingProblem(comm, torus), mapping) == pytest.approx(40 + 40 + 1)
    assert time_bounds(MappingProblem(comm, torus), mapping).link == pytest.approx(50)


def test_of_adaptive_phases_and_of_rounds_the_lower_bound_stands():
    torus, mapping = (
        Torus(8, bandwidth=10.0, network=PLAIN),
        TaskMapping([0, 2, 2], 8, tasks_per_node=2),
    )
    comm = CommGraph(3, [0, 0], [1, 2], [400, 400])
    alone = RoutedTraffic(MappingProblem(comm, torus), mapping)
    assert alone.release_bound == pytest.approx(92)
    assert alone.bounds.total < 90
    twice = RoutedTraffic(MappingProblem(Workload([comm, comm]), torus), mapping)
    assert twice.release_bound == pytest.approx(184)
    rounds = RoutedTraffic(MappingProblem(Workload([comm, comm], dependent=True), torus), mapping)
    assert rounds.release_bound == rounds.bounds.total
    adaptive = RoutedTraffic(MappingProblem(comm, torus, "adaptive"), mapping)
    assert adaptive.release_bound == adaptive.bounds.total


@settings(max_examples=30, deadline=None)
@given(cases(tori=partial(tori, max_nodes=60)), simulated_networks(), st.data())
def test_rounds_are_bounded_by_what_they_send_together(case, network, data):
    comm, torus, mapping = case
    torus = replace(torus, network=network)
    more = data.draw(st.lists(graphs(mapping.n_tasks, 20), min_size=1, max_size=3))
    workload = Workload([comm, *more], dependent=True)
    bounds = time_bounds(MappingProblem(workload, torus), mapping)
    np.testing.assert_allclose(bounds[:4], naive.bounds(workload, torus, mapping), rtol=1e-11)
    assert bounds.total == max(bounds[:4])


@settings(max_examples=60, deadline=None)
@given(cases(tori=partial(tori, max_nodes=60)), simulated_networks())
def test_packets_and_hand_over_equal_their_twins(case, network):
    comm, torus, _ = case
    torus = replace(torus, network=network)
    for coarsening in (1, 3):
        packets, wire = packet_counts(MappingProblem(comm, torus), coarsening)
        twin = [
            naive.packets(b, n, torus.network, coarsening)
            for b, n in zip(comm.nbytes.tolist(), comm.n_messages.tolist(), strict=True)
        ]
        assert packets.tolist() == [count for count, _ in twin]
        np.testing.assert_allclose(wire, [each for _, each in twin], rtol=1e-15)
    order, ready = hand_over_times(comm, torus.network)
    twin_order, twin_ready = naive.hand_over(comm, torus.network)
    assert order.tolist() == twin_order
    np.testing.assert_allclose(ready, twin_ready, rtol=1e-12)


def test_bounds_of_a_worked_example():
    # Nodes 0, 1 and 2 of a line of ring 8 at 10 bytes a second; tasks 0 and 1 send 400 bytes each
    # to task 2. Link 1 -> 2 carries 800 bytes: 80 s. Each FIFO sends 400 bytes: 40 s. Node 2 takes
    # in 800 bytes at 50 a second: 16 s. Task 0: 10 s of software, 2 hops of 1 s, 40 s of wire.
    torus = Torus(8, bandwidth=10.0, network=PLAIN)
    comm = CommGraph(3, [0, 1], [2, 2], [400, 400])
    bounds = time_bounds(MappingProblem(comm, torus), TaskMapping([0, 1, 2], 8))
    assert bounds == pytest.approx((80, 40, 16, 52, 80))


def test_short_messages_cost_their_own_overhead():
    # Task 0 has three short messages for task 1 (2 s each) ready after 6 s, and one that is not
    # short after 16 s: its hops take 2 s, its wire 10.1 s.
    torus = Torus(8, bandwidth=10.0, network=PLAIN).with_network(short_limit=100, short_overhead=2)
    comm = CommGraph(3, [0, 0], [1, 2], [300, 101], [3, 1])
    order, ready = hand_over_times(comm, torus.network)
    assert order.tolist() == [0, 1]
    assert ready.tolist() == [6, 16]
    mapping = TaskMapping([0, 1, 2], 8)
    assert time_bounds(MappingProblem(comm, torus), mapping).latency == pytest.approx(
        max(6 + 1 + 30, 16 + 2 + 10.1)
    )


def test_a_fifo_sends_as_fast_as_the_fastest_link():
    # The route leaves along the slow dimension 1 first (order (1, 0)): the FIFO hands its 100 bytes
    # over at 10 a second nevertheless, and the first link takes them at 1 a second.
    torus = Torus((4, 4), bandwidth=(10.0, 1.0), routing_order=(1, 0), network=PLAIN)
    comm = CommGraph(2, [0], [1], [100])
    for routing in ("deterministic", "adaptive"):
        bounds = time_bounds(MappingProblem(comm, torus, routing), TaskMapping([0, 5], 16))
        assert bounds.injection == pytest.approx(10)
    assert time_bounds(MappingProblem(comm, torus), TaskMapping([0, 5], 16)).link == pytest.approx(
        100
    )


def test_fifos_that_take_from_one_queue_share_its_bytes():
    # 100, 200 and 500 bytes at 10 a second over four FIFOs, whichever takes which.
    torus = Torus(8, bandwidth=10.0, network=PLAIN).with_network(fifo_rule="first_free")
    comm = CommGraph(4, [0, 0, 0], [1, 2, 3], [100, 200, 500])
    assert time_bounds(
        MappingProblem(comm, torus), TaskMapping(range(4), 8)
    ).injection == pytest.approx(80 / 4)


@pytest.mark.parametrize(
    ("tie", "routing", "target", "expected"),
    [
        # 10 s of software, hops of 1 s, and ten packets one after the other at 10 s each.
        ("random", "deterministic", 1, 10 + 1 + 100),
        ("split", "deterministic", 5, 10 + 2 + 100),
        ("plus", "deterministic", 2, 10 + 2 + 100),
        ("plus", "adaptive", 1, 10 + 1 + 100),
        # A tie, or two dimensions of an adaptive message: packets go side by side.
        ("random", "deterministic", 2, 10 + 2 + 10),
        ("split", "deterministic", 6, 10 + 3 + 10),
        ("plus", "adaptive", 2, 10 + 2 + 10),
        ("plus", "adaptive", 5, 10 + 2 + 10),
    ],
)
def test_only_messages_with_two_ways_leave_side_by_side(tie, routing, target, expected):
    # Nodes 1, 2, 5 and 6 of a 4x4 torus are (0,1), (0,2), (1,1) and (1,2), seen from (0,0).
    torus = Torus((4, 4), bandwidth=10.0, tie_break=tie, network=PLAIN)
    torus = torus.with_network(fifo_rule="first_free")
    comm = CommGraph(2, [0], [1], [1000])
    bounds = time_bounds(MappingProblem(comm, torus, routing), TaskMapping([0, target], 16))
    assert bounds.latency == pytest.approx(expected)


def test_rounds_overlap():
    # Each round alone needs its 100 bytes and its latency, 10 s of software, 1 s of hop, 10 s of
    # wire. Without a barrier the link is busy for both; the second is handed over at 20 s.
    torus = Torus(8, bandwidth=10.0, network=PLAIN)
    comm = CommGraph(2, [0], [1], [100])
    rounds = time_bounds(
        MappingProblem(Workload([comm, comm], dependent=True), torus), TaskMapping([0, 1], 8)
    )
    assert rounds == pytest.approx((20, 20, 4, 31, 31))
    barriers = time_bounds(MappingProblem(Workload([comm, comm]), torus), TaskMapping([0, 1], 8))
    assert barriers == pytest.approx((20, 20, 4, 42, 42))


def test_rounds_that_wait_for_each_other_are_a_chain():
    # A token goes round three tasks: each hop as above. The simulator is no faster.
    torus = Torus(8, bandwidth=10.0, network=PLAIN)
    rounds = [CommGraph(4, [k], [k + 1], [100]) for k in range(3)]
    mapping = TaskMapping([0, 1, 2, 3], 8)
    bounds = time_bounds(MappingProblem(Workload(rounds, dependent=True), torus), mapping)
    assert bounds.latency == bounds.total == pytest.approx(3 * 21)
    simulated = simulate(Workload(rounds, dependent=True), torus, mapping)
    assert simulated.time == pytest.approx(bounds.total, rel=1e-3)
    apart = [CommGraph(4, [0], [1], [100]), CommGraph(4, [2], [3], [100])]
    bounds = time_bounds(MappingProblem(Workload(apart, dependent=True), torus), mapping)
    assert bounds.latency == pytest.approx(21)


def test_a_message_that_takes_no_time_is_part_of_a_chain():
    # 1 s of hop and 10 s of wire, nothing at all within a node, and 11 s again.
    torus = Torus(8, bandwidth=10.0, network=replace(PLAIN, overhead=0.0))
    rounds = [CommGraph(4, [k], [k + 1], [nbytes], [1]) for k, nbytes in enumerate([100, 0, 100])]
    mapping = TaskMapping([0, 1, 1, 2], torus, tasks_per_node=2)
    workload = Workload(rounds, dependent=True)
    assert time_bounds(MappingProblem(workload, torus), mapping).latency == pytest.approx(22)
    assert simulate(workload, torus, mapping).time == pytest.approx(22, rel=1e-3)
    # Half a message is not sent, and not waited for.
    rounds[1] = CommGraph(4, [1], [2], [0], [0.5])
    bounds = time_bounds(MappingProblem(Workload(rounds, dependent=True), torus), mapping)
    assert bounds.latency == pytest.approx(11)


def test_phases_add_up():
    torus = Torus(8, network=PLAIN)
    mapping = TaskMapping([0, 1, 2], 8)
    phases = [CommGraph(3, [0], [1], [1e12]), CommGraph(3, [], [], []), CommGraph(3, [2], [2], [5])]
    whole = time_bounds(MappingProblem(Workload(phases), torus), mapping)
    parts = [time_bounds(MappingProblem(phase, torus), mapping) for phase in phases]
    np.testing.assert_allclose(whole, np.sum(parts, axis=0))
    assert parts[1] == (0, 0, 0, 0, 0)


def test_a_message_of_more_packets_than_can_be_counted():
    comm = CommGraph(2, [0], [1], [1e30])
    with pytest.raises(InputError, match="too many packets"):
        time_bounds(MappingProblem(comm, Torus(4)), TaskMapping([0, 1], 4))
