"""No simulation ends before the bound that is called sure: without any tolerance."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from random_cases import examples, graphs, mapped, simulated_networks, tori, twisted

from toruscast._features import RoutedTraffic
from toruscast._features.reasons import explain
from toruscast.errors import InputError
from toruscast.mapping import (
    CommGraph,
    MappingProblem,
    TaskMapping,
    Torus,
    Workload,
    patterns,
    strategies,
)
from toruscast.simulation import simulate

SECONDS = st.one_of(st.sampled_from([0.0, 4e-8]), st.floats(1e-12, 3e-6))
SPEEDS = st.one_of(st.sampled_from([2e9, 6.8e9]), st.floats(1e8, 2e11))


@st.composite
def odd_networks(draw):
    """Networks whose constants are no round numbers of ticks."""
    return replace(
        draw(simulated_networks()),
        payload=draw(st.sampled_from([64, 97, 512, 1013])),
        header=draw(st.sampled_from([0, 7, 32])),
        hop_latency=draw(SECONDS),
        overhead=draw(SECONDS),
        short_overhead=draw(SECONDS),
        memory_bandwidth=draw(SPEEDS),
    )


@st.composite
def simulations(draw):
    """Any routing, phases or rounds, tasks on a node, iterations and merged packets."""
    routing = draw(st.sampled_from(["deterministic", "deterministic", "adaptive", "by_size"]))
    network = draw(odd_networks())
    torus = draw(st.one_of(tori(40, network=network), twisted(network)))
    if not torus.twist and draw(st.booleans()):
        speeds = [draw(SPEEDS) for _ in torus.shape]
        torus = replace(torus, bandwidth=tuple(speeds))
    if draw(st.integers(0, 3)) == 0:
        slow = draw(st.sampled_from(np.flatnonzero(torus.link_exists).tolist() or [0]))
        if torus.link_exists[slow]:
            torus = torus.with_links({slow: float(torus.link_bandwidth[slow] / draw(SLOWER))})
    mapping = draw(mapped(torus))
    amounts = st.one_of(st.sampled_from([1.0, 97.0, 512.0]), st.floats(0.5, 20_000))
    n_phases = draw(st.integers(1, 3))
    phases = [draw(graphs(mapping.n_tasks, 30, amounts)) for _ in range(n_phases)]
    return RoutedTraffic(
        MappingProblem(Workload(phases, dependent=draw(st.booleans())), torus, routing),
        mapping,
        draw(st.sampled_from([None, 1, 1, 2, 3, 7])),
        draw(st.sampled_from([1, 1, 1, 3])),
    )


SLOWER = st.floats(1.0, 30.0)


@examples(60)
@given(simulations())
def test_no_simulation_ends_before_the_bound(traffic):
    try:
        time = traffic.simulation.time
    except InputError:
        assume(False)
    assert traffic.sure_bound <= time
    # As one that asks before the simulation finds it.
    assert replace(traffic).sure_bound <= time


@pytest.mark.parametrize("dependent", [True, False])
def test_of_several_iterations_the_bound_is_that_of_their_mean(dependent):
    torus = Torus((4, 4)).with_network(hop_latency=3.7e-8, overhead=1.3e-7)
    halo, ring = patterns.halo_2d((4, 4), 30_000, periodic=True), patterns.ring(16, 9_000)
    workload = Workload([halo, ring, halo.scaled(0.5)], dependent=dependent)
    for mapping in strategies.sample(workload, torus, 4, seed=3):
        traffic = RoutedTraffic(MappingProblem(workload, torus), mapping, iterations=6)
        assert 0.5 * traffic.simulation.time < traffic.sure_bound <= traffic.simulation.time
        why = explain(traffic.problem, mapping, simulation=traffic.simulation)
        assert why.lower_bound == traffic.sure_bound


DRAWING = [{"tie": "random"}, {"tie": "booksim"}, {"deadlock": "dateline"}]


@examples(25)
@given(
    drawn=st.sampled_from(DRAWING),
    phases=st.lists(graphs(8, 16, st.floats(0.5, 9_000)), min_size=1, max_size=4),
    dependent=st.booleans(),
    node=st.permutations(range(8)),
    iterations=st.integers(2, 4),
    start=st.sampled_from([0.0, 1e-3]),
    seeds=st.lists(st.integers(0, 2**40), min_size=4, max_size=4, unique=True),
)
def test_of_draws_the_bound_is_that_of_every_seed(
    drawn, phases, dependent, node, iterations, start, seeds
):
    tie = drawn.get("tie", "split")
    deadlock = drawn.get("deadlock", "bubble")
    torus = Torus((4, 2), tie_break=tie).with_network(overhead=0, deadlock=deadlock, start=start)
    workload, mapping = Workload(phases, dependent=dependent), TaskMapping(node, torus)
    traffic = RoutedTraffic(MappingProblem(workload, torus), mapping, 1, iterations)
    for seed in seeds:
        run = simulate(workload, torus, mapping, iterations=iterations, seed=seed)
        assert max(traffic.sure_bound, traffic.simulated_as(run).sure_bound) <= run.time


def test_a_first_iteration_of_another_seed_takes_longer():
    torus = Torus((4,), tie_break="booksim").with_network(overhead=0.0)
    comm, mapping = CommGraph(4, [2, 3], [1, 0], [1051, 2422]), TaskMapping([2, 1, 3, 0], torus)
    bound = RoutedTraffic(MappingProblem(comm, torus), mapping, 1, 2).sure_bound
    runs = [simulate(comm, torus, mapping, iterations=2, seed=seed) for seed in range(3)]
    assert runs[2].alone > runs[0].alone
    assert all(bound <= run.time for run in runs)


@pytest.mark.parametrize("seed", range(3))
def test_a_simulation_has_a_bound_of_its_own_where_packets_draw(seed):
    torus, halo = Torus((4, 4), tie_break="random"), patterns.halo_2d((4, 4), 9_000)
    mapping = TaskMapping(np.random.default_rng(seed).permutation(16), torus)
    run = simulate(halo, torus, mapping, iterations=4, seed=seed)
    why = explain(MappingProblem(halo, torus), mapping, simulation=run)
    assert 0.3 * run.time < why.lower_bound <= run.time


def test_phases_with_barriers_have_a_bound_where_packets_draw():
    torus, halo = Torus((4, 4), tie_break="random"), patterns.halo_2d((4, 4), 9_000)
    problem = MappingProblem(Workload([halo] * 3), torus)
    traffic = RoutedTraffic(problem, TaskMapping(range(16), torus), 1, 3)
    assert 0.3 * traffic.simulation.time < traffic.sure_bound <= traffic.simulation.time


@pytest.mark.parametrize("dependent", [True, False])
def test_a_first_iteration_that_draws_made_slow_gives_no_negative_mean(dependent):
    """Alone it may take longer than all within the run, where ties go over a slow link."""
    halo, torus = patterns.halo_2d((4, 4), 2_000), Torus((4, 4))
    workload = Workload([halo, patterns.ring(16, 500)], dependent=dependent)
    result = simulate(workload, torus, TaskMapping(range(16), torus), iterations=3)
    assert result.time == (result.end - result.alone) / 2
    slow = replace(result, alone=2 * result.end)
    assert 0 < slow.time <= result.time


def test_the_start_of_a_phase_belongs_to_the_bounds():
    torus = Torus((4,)).with_network(start=5e-6)
    mapping = TaskMapping(range(4), torus)
    comm = CommGraph(4, [0, 1], [1, 2], [8.0, 8.0])
    for phases, dependent in (([comm], False), ([comm] * 2, False), ([comm] * 2, True)):
        traffic = RoutedTraffic(
            MappingProblem(Workload(phases, dependent=dependent), torus), mapping
        )
        assert 0.99 * traffic.simulation.time < traffic.sure_bound <= traffic.simulation.time
        assert min(traffic.bounds.total, traffic.release_bound) >= traffic.sure_bound
    # What sends nothing does not start.
    nothing = CommGraph(2, [0], [1], [0.0], [0.4])
    traffic = RoutedTraffic(MappingProblem(nothing, torus), TaskMapping([0, 1], torus))
    assert traffic.bounds.total == traffic.sure_bound == traffic.simulation.time == 0


def test_a_message_of_which_of_which_the_clock_shortens_the_hop():
    torus = Torus((2,))
    alone = CommGraph(2, [0], [1], [104.0])
    traffic = RoutedTraffic(MappingProblem(alone, torus), TaskMapping([0, 1], torus))
    assert traffic.bounds.total > traffic.simulation.time
    # Less than a thousandth is given away.
    assert 0.999 * traffic.simulation.time < traffic.sure_bound <= traffic.simulation.time


@pytest.mark.parametrize("routing", ["deterministic", "adaptive"])
@pytest.mark.parametrize("merged", [16, 300])
def test_long_messages_whose_packets_are_merged(routing, merged):
    torus = Torus((4, 4)).with_network(hop_latency=3.7e-8, overhead=1.3e-7)
    comm = patterns.halo_2d((4, 4), 900_001, periodic=True)
    for mapping in strategies.sample(comm, torus, 3, seed=2):
        real = RoutedTraffic(MappingProblem(comm, torus, routing), mapping, merged)
        assert real.sure_bound <= real.simulation.time
        # Whichever coarsening an accepted error leads to.
        unknown = RoutedTraffic(MappingProblem(comm, torus, routing), mapping)
        assert unknown.sure_bound <= min(real.simulation.time, unknown.simulation.time)


def test_software_that_ticks_put_in_another_order():
    """Ready times that differ by less than a tick: whichever message the FIFO takes first."""
    rng = np.random.default_rng(2)
    for _ in range(20):
        n = 24
        torus = Torus((4, 2)).with_network(
            overhead=float(rng.uniform(1e-11, 1e-9)),
            short_overhead=float(rng.uniform(1e-11, 1e-9)),
            short_limit=600,
            fifos=1,
        )
        edges = rng.choice(n * n, size=120, replace=False)
        nbytes = rng.integers(1, 2_000, edges.size)
        comm = CommGraph(n, edges // n, edges % n, nbytes, rng.integers(1, 4, edges.size))
        mapping = TaskMapping(rng.integers(0, 8, n), torus, tasks_per_node=n)
        traffic = RoutedTraffic(MappingProblem(comm, torus), mapping)
        assert traffic.sure_bound <= traffic.simulation.time
