"""Iterations that follow each other without a barrier, in both simulators."""

import numpy as np
import pytest
from against_twin import check_against_twin
from hypothesis import given, settings
from hypothesis import strategies as st
from random_cases import graphs, mapped, simulated_networks, tori

from toruscast import InputError
from toruscast._features import RoutedTraffic
from toruscast.mapping import CommGraph, MappingProblem, Network, TaskMapping, Torus, Workload
from toruscast.mapping.patterns import halo_2d
from toruscast.simulation import simulate, simulate_flows

routing = st.sampled_from(["deterministic", "adaptive"])
ENGINES = [simulate, simulate_flows]


@settings(max_examples=40, deadline=None)
@given(st.data(), routing, st.integers(1, 3))
def test_iterations_equal_those_of_the_twin(data, routing, iterations):
    network = data.draw(simulated_networks())
    torus = data.draw(tori(max_nodes=20, max_dimensions=3, network=network))
    mapping = data.draw(mapped(torus, max_tasks=12))
    phases = data.draw(st.lists(graphs(mapping.n_tasks, 15), min_size=1, max_size=3))
    traffic = Workload(phases, dependent=data.draw(st.booleans()))
    check_against_twin(traffic, torus, mapping, routing, iterations=iterations)


@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_they_are_rounds_without_the_time_of_one_alone(engine, data):
    torus = data.draw(tori(max_nodes=20, max_dimensions=3))
    mapping = data.draw(mapped(torus, max_tasks=12))
    comm = data.draw(graphs(mapping.n_tasks, 15))
    rounds = engine(Workload([comm] * 4, dependent=True), torus, mapping)
    result = engine(comm, torus, mapping, iterations=4)
    assert result.end == rounds.time
    for ours, theirs in zip(result.message_times, rounds.message_times, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    alone = engine(comm, torus, mapping)
    assert result.alone == alone.time
    assert result.time == pytest.approx((rounds.time - alone.time) / 3, rel=1e-12)
    assert len(result.phases()) == 4
    once = engine(comm, torus, mapping, iterations=1)
    assert once.time == once.end == alone.time


@pytest.mark.parametrize("engine", ENGINES)
def test_neighbours_that_wait_for_each_other_take_as_long_each_time(engine):
    # Nobody waits for a link, so every iteration is the first, later.
    torus = Torus((4, 4), network=Network(overhead=1e-6))
    comm = halo_2d((4, 4), 512, periodic=True)
    mapping = TaskMapping(range(16), torus)
    alone = engine(comm, torus, mapping).time
    assert engine(comm, torus, mapping, iterations=5).time == pytest.approx(alone, rel=1e-3)


@pytest.mark.parametrize("engine", ENGINES)
def test_who_only_sends_does_not_wait(engine):
    # A new message each microsecond of software; what the first one takes on top is left out.
    torus = Torus(8, network=Network(overhead=1e-6, hop_latency=5e-6))
    result = engine(CommGraph(2, [0], [1], [512]), torus, TaskMapping([0, 4], 8), iterations=6)
    assert result.time == pytest.approx(1e-6, rel=1e-3)
    assert result.end > 6e-6 + 4 * 5e-6


@pytest.mark.parametrize("engine", ENGINES)
def test_barriers_within_an_iteration_stay(engine):
    # Task 0 sends, then task 2; the next iteration of task 0 does not wait for task 2.
    torus = Torus(8, network=Network(overhead=1e-6, hop_latency=0.0))
    send = CommGraph(4, [0], [1], [512]), CommGraph(4, [2], [3], [512])
    result = engine(Workload(send), torus, TaskMapping([0, 1, 3, 4], 8), iterations=3)
    assert [stretch.phases for stretch in result.stretches] == [(0,), (1, 2), (3, 4), (5,)]
    phases = result.phases()
    assert phases["name"].tolist() == [comm.name for comm in send] * 3
    assert phases["begin"][1] >= phases["end"][0]
    assert phases["begin"][5] >= phases["end"][4]
    assert phases["begin"][2] < phases["end"][1]
    assert phases["end"].iloc[-1] == pytest.approx(result.end)


def test_features_are_means_of_an_iteration():
    torus = Torus((4, 4))
    comm = halo_2d((4, 4), 20000, periodic=True)
    mapping = TaskMapping(np.random.default_rng(1).permutation(16), torus)
    result = simulate(comm, torus, mapping, iterations=3)
    traffic = RoutedTraffic(MappingProblem(comm, torus), mapping, coarsening=1, iterations=3)
    assert traffic.simulation.time == result.time
    np.testing.assert_allclose(traffic.buffer_length, result.buffered_seconds / 3)
    np.testing.assert_allclose(traffic.delay * result.packets, result.buffered_seconds)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("iterations", [0, -1, 1.5, "2", True, 10**6])
def test_other_numbers_are_refused(engine, iterations):
    comm = CommGraph(2, [0], [1], [8])
    with pytest.raises(InputError, match="iterations"):
        engine(comm, Torus(2), TaskMapping([0, 1], 2), iterations=iterations)
