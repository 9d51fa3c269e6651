"""Lower bounds of the time against their slow twin and closed forms."""

from functools import partial

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from random_cases import cases, tori

from toruscast.features import time_bounds
from toruscast.features.packets import hand_over_times, packet_counts
from toruscast.mapping import CommGraph, InputError, Network, TaskMapping, Torus, Workload

PLAIN = Network(payload=100, header=0, hop_latency=1.0, fifos=4, overhead=10.0,
                fifo_rule="first_dimension", memory_bandwidth=50.0)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(cases(tori=partial(tori, max_nodes=60)))
def test_bounds_equal_their_twin(case):
    comm, torus, mapping = case
    bounds = time_bounds(comm, torus, mapping)
    twin = naive.bounds(comm, torus, mapping)
    np.testing.assert_allclose(bounds[:4], twin, rtol=1e-11)
    assert bounds.total == max(bounds[:4])


@settings(max_examples=60, deadline=None)
@given(cases(tori=partial(tori, max_nodes=60)))
def test_packets_and_hand_over_equal_their_twins(case):
    comm, torus, _ = case
    for coarsening in (1, 3):
        packets, wire = packet_counts(comm, torus, coarsening)
        twin = [
            naive.packets(b, n, torus.network, coarsening)
            for b, n in zip(comm.nbytes.tolist(), comm.n_messages.tolist(), strict=True)
        ]
        assert packets.tolist() == [count for count, _ in twin]
        np.testing.assert_allclose(wire, [each for _, each in twin], rtol=1e-15)
    turn, ready = hand_over_times(comm, torus.network.overhead)
    twin_turn, twin_ready = naive.hand_over(comm, torus.network.overhead)
    assert turn.tolist() == twin_turn
    np.testing.assert_allclose(ready, twin_ready, rtol=1e-12)


def test_bounds_of_a_worked_example():
    # Nodes 0, 1 and 2 of a line of ring 8 at 10 bytes a second; tasks 0 and 1 send 400 bytes each
    # to task 2. Link 1 -> 2 carries 800 bytes: 80 s. Each FIFO sends 400 bytes: 40 s. Node 2 takes
    # in 800 bytes at 50 a second: 16 s. Task 0: 10 s of software, 2 hops of 1 s, 40 s of wire.
    torus = Torus(8, bandwidth=10.0, network=PLAIN)
    comm = CommGraph(3, [0, 1], [2, 2], [400, 400])
    bounds = time_bounds(comm, torus, TaskMapping([0, 1, 2], 8))
    assert bounds == pytest.approx((80, 40, 16, 52, 80))


def test_bandwidth_of_the_first_dimension_counts():
    # The route leaves along the slow dimension 1 first (order (1, 0)): 100 bytes at 1 a second.
    torus = Torus((4, 4), bandwidth=(10.0, 1.0), order=(1, 0), network=PLAIN)
    comm = CommGraph(2, [0], [1], [100])
    mapping = TaskMapping([0, 5], 16)
    assert time_bounds(comm, torus, mapping).injection == pytest.approx(100)
    # Adaptive routing may leave along the fast one.
    assert time_bounds(comm, torus, mapping, routing="adaptive").injection == pytest.approx(10)


def test_phases_add_up():
    torus = Torus(8, network=PLAIN)
    mapping = TaskMapping([0, 1, 2], 8)
    phases = [CommGraph(3, [0], [1], [1e12]), CommGraph(3, [], [], []), CommGraph(3, [2], [2], [5])]
    whole = time_bounds(Workload(phases), torus, mapping)
    parts = [time_bounds(phase, torus, mapping) for phase in phases]
    np.testing.assert_allclose(whole, np.sum(parts, axis=0))
    assert parts[1] == (0, 0, 0, 0, 0)


def test_a_message_of_more_packets_than_can_be_counted():
    comm = CommGraph(2, [0], [1], [1e30])
    with pytest.raises(InputError, match="too many packets"):
        time_bounds(comm, Torus(4), TaskMapping([0, 1], 4))
