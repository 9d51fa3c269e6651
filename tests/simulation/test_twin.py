"""The packet simulator against its slow twin: the same times and the same counters."""

import numpy as np
import pytest
from against_twin import check_against_twin
from hypothesis import given, settings
from hypothesis import strategies as st
from random_cases import ARBITRATIONS, graphs, mapped, simulated_networks, tori

from toruscast.mapping import CommGraph, Network, TaskMapping, Torus, Workload
from toruscast.mapping.patterns import all_to_all, pairwise_exchange

ROUTINGS = ["deterministic", "adaptive"]
routing = st.sampled_from(ROUTINGS)


@settings(max_examples=150, deadline=None)
@given(st.data(), routing, st.sampled_from([1, 1, 3]), st.integers(0, 9))
def test_the_simulator_equals_its_twin(data, routing, coarsening, seed):
    network = data.draw(simulated_networks())
    torus = data.draw(tori(max_nodes=30, max_dimensions=3, network=network))
    mapping = data.draw(mapped(torus))
    phases = data.draw(st.lists(graphs(mapping.n_tasks, 20), min_size=1, max_size=3))
    traffic = Workload(phases, dependent=data.draw(st.booleans()))
    check_against_twin(traffic, torus, mapping, routing, coarsening, seed)


@settings(max_examples=40, deadline=None)
@given(st.data(), routing)
def test_the_simulator_equals_its_twin_in_a_jam(data, routing):
    # Shallow buffers and many packets at once, so that credits, bubbles and turns decide.
    deadlock = data.draw(st.sampled_from(["bubble", "dateline"]))
    network = Network(
        payload=64,
        buffer_packets=data.draw(st.integers(2 if deadlock == "bubble" else 1, 3)),
        fifos=4,
        overhead=0.0,
        memory_bandwidth=data.draw(st.sampled_from([1e9, 28e9])),
        deadlock=deadlock,
        arbitration=data.draw(ARBITRATIONS),
        escape=data.draw(st.sampled_from(["returns", "stays"])),
    )
    torus = data.draw(tori(max_nodes=16, max_dimensions=2, network=network))
    mapping = data.draw(mapped(torus, max_tasks=12))
    nbytes = st.sampled_from([64.0, 640.0, 700.0])
    comm = data.draw(graphs(mapping.n_tasks, 40, nbytes, st.just(1.0)))
    check_against_twin(comm, torus, mapping, routing)


@settings(max_examples=40, deadline=None)
@given(st.data(), routing, st.sampled_from([4, 16]), st.sampled_from([1, 1, 2, 3, 8]))
def test_the_simulator_equals_its_twin_where_merged_packets_give_way(
    data, routing, coarsening, fifo_packets
):
    # Some messages of one real packet, so that not all of them stand for as many.
    network = Network(
        payload=64,
        buffer_packets=32,
        fifos=4,
        fifo_packets=fifo_packets,
        overhead=0.0,
        fifo_rule=data.draw(st.sampled_from(["bluegene_q", "first_free"])),
        deadlock=data.draw(st.sampled_from(["bubble", "dateline"])),
        feeding=data.draw(st.sampled_from(["tasks", "packets"])),
        eager_limit=data.draw(st.sampled_from([float("inf"), 5000.0])),
    )
    torus = data.draw(tori(max_nodes=16, max_dimensions=2, network=network))
    mapping = data.draw(mapped(torus, max_tasks=12))
    nbytes = st.sampled_from([64.0, 64.0 * 64, 64.0 * 150])
    comm = data.draw(graphs(mapping.n_tasks, 40, nbytes, st.just(1.0)))
    traffic = Workload([comm, comm], dependent=data.draw(st.booleans()))
    check_against_twin(traffic, torus, mapping, routing, coarsening)


@pytest.mark.parametrize("arbitration", ["first_come", "round_robin"])
@pytest.mark.parametrize("routing", ROUTINGS)
def test_the_simulator_equals_its_twin_in_lock_step(arbitration, routing):
    # Equal packets, all ready at once: many arrive in the same tick, and the queues' order decides.
    network = Network(
        payload=64, buffer_packets=2, overhead=0.0, hop_latency=0.0, arbitration=arbitration
    )
    torus = Torus((4, 3), network=network)
    mapping = TaskMapping(np.arange(12), torus)
    check_against_twin(all_to_all(12, 128.0), torus, mapping, routing)
    check_against_twin(pairwise_exchange(12, 640.0), torus, mapping, routing)


@pytest.mark.parametrize("escape", ["returns", "stays"])
@pytest.mark.parametrize("zones", [(), [[0], [1]]])
def test_the_simulator_equals_its_twin_where_adaptive_packets_draw_a_way(escape, zones):
    # Of every task's packets to 15 others, those to seven go half way round a ring.
    network = Network(payload=64, buffer_packets=2, overhead=0.0, escape=escape)
    torus = Torus((4, 4), tie_break="booksim", network=network, zones=zones)
    mapping = TaskMapping(np.arange(16), torus)
    check_against_twin(all_to_all(16, 192.0), torus, mapping, "adaptive")


@pytest.mark.parametrize("routing", ROUTINGS)
def test_more_fifos_than_lanes(routing):
    # Eight tasks a node, whose messages fill 40 FIFOs.
    network = Network(fifos=40, fifo_rule="round_robin", arbitration="round_robin", overhead=0.0)
    torus = Torus((3, 2), network=network)
    mapping = TaskMapping(np.repeat(np.arange(6), 8), torus)
    check_against_twin(all_to_all(48, 600.0), torus, mapping, routing)


@pytest.mark.parametrize("routing", ROUTINGS)
def test_packets_of_no_byte(routing):
    # Without a header an empty message takes no time on the links, but a place in the buffers.
    network = Network(header=0, overhead=0.0, buffer_packets=2)
    torus = Torus((4, 3), network=network)
    mapping = TaskMapping(np.repeat(np.arange(12), 2), torus)
    for nbytes in (0.0, 0.25):
        check_against_twin(all_to_all(24, nbytes), torus, mapping, routing)
    mixed = all_to_all(24, 512.0)
    mixed = CommGraph(24, mixed.src, mixed.dst, mixed.nbytes * (np.arange(mixed.n_edges) % 3))
    check_against_twin(mixed, torus, mapping, routing)


def test_receivers_slower_than_the_wheel_is_long():
    # 200 packets wait for a port that takes 30 ms each, while the links go on.
    network = Network(memory_bandwidth=2e4, overhead=0.0, buffer_packets=100)
    torus = Torus(5, network=network)
    comm = CommGraph(5, [1, 2, 3, 4, 4], [0, 0, 0, 0, 1], [512 * 50] * 5)
    check_against_twin(comm, torus, TaskMapping(np.arange(5), torus))


def test_rounds_of_tasks_that_share_a_node():
    # One worker hands over the rounds of three tasks, in the order in which they get there.
    network = Network(feeding="messages", eager_limit=1000, short_limit=100)
    torus = Torus(4, network=network)
    mapping = TaskMapping(np.repeat(np.arange(4), 3), torus)
    for nbytes in (50.0, 600.0, 1500.0):
        check_against_twin(pairwise_exchange(12, nbytes), torus, mapping)


def test_an_answer_goes_after_what_was_handed_over_before_it():
    # Task 0 hands over its last message of round 0 and begins round 1 in the same tick, in which
    # it answers task 1: both leave by one FIFO, the message first.
    torus = Torus((8, 8), network=Network(eager_limit=1000.0))
    rounds = [CommGraph(4, [0, 0], [2, 3], [500.0] * 2), CommGraph(4, [1], [0], [2000.0])]
    mapping = TaskMapping([0, 16, 1, 18], torus)
    check_against_twin(Workload(rounds, dependent=True), torus, mapping)


def test_messages_within_a_node_do_not_make_packets_larger():
    # The longest message never leaves its node: the buffers are sized by the one that does.
    torus = Torus(4)
    comm = CommGraph(3, [0, 1], [1, 2], [1e6, 512.0])
    check_against_twin(comm, torus, TaskMapping([0, 0, 2], torus, tasks_per_node=2), coarsening=64)
