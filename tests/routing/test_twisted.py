"""Routes, loads, bounds, flows and packets on twisted tori against their slow twins."""

import naive
import naive_flows
import numpy as np
import pytest
from against_twin import check_against_twin
from hypothesis import given, settings
from hypothesis import strategies as st
from random_cases import graphs, mapped, simulated_networks, twisted

from toruscast.mapping import CommGraph, MappingProblem, TaskMapping, Torus, Workload, strategies
from toruscast.mapping.patterns import all_to_all
from toruscast.mapping.twist import default_twist
from toruscast.routing import link_loads, release_bound, routes, time_bounds
from toruscast.routing.loads import sum_loads_along_routes
from toruscast.routing.routing import dilations, injection_fifos
from toruscast.simulation import simulate, simulate_flows


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_routes_loads_and_bounds_equal_their_twins(data):
    torus = data.draw(twisted())
    mapping = data.draw(mapped(torus))
    comm = data.draw(graphs(mapping.n_tasks))
    ends = [(a, b) for a, b, _, _ in naive.edges(comm, mapping)]
    weights = comm.nbytes.tolist()
    assert dilations(MappingProblem(comm, torus), mapping).tolist() == [
        naive.dilation(torus, *e) for e in ends
    ]
    first, links = routes(torus, mapping.node[comm.src], mapping.node[comm.dst])
    for r, (a, b) in enumerate(ends):
        assert links[first[r] : first[r + 1]].tolist() == naive.route(torus, a, b)
    expected = naive.link_loads(torus, ends, weights)
    load = link_loads(MappingProblem(comm, torus), mapping)
    np.testing.assert_allclose(load, expected, 1e-12)
    adaptive = link_loads(MappingProblem(comm, torus, "adaptive"), mapping)
    np.testing.assert_allclose(adaptive, naive.adaptive_loads(torus, ends, weights), 1e-12)
    silent = (comm.whole_messages == 0).tolist()
    assert injection_fifos(MappingProblem(comm, torus), mapping).tolist() == naive.fifos(
        torus, ends, silent
    )
    sums, maxima = naive.path_sums(torus, ends, load)
    twin = max(sums, default=0.0), sum(sums), sum(maxima)
    np.testing.assert_allclose(
        sum_loads_along_routes(MappingProblem(comm, torus), mapping, load), twin, 1e-12
    )
    bounds = naive.bounds([comm], torus, mapping)
    np.testing.assert_allclose(
        time_bounds(MappingProblem(comm, torus), mapping)[: len(bounds)], bounds, 1e-9
    )
    np.testing.assert_allclose(
        release_bound(MappingProblem(comm, torus), mapping),
        naive.release_bound(comm, torus, mapping),
        1e-9,
    )


@settings(max_examples=30, deadline=None)
@given(st.data(), st.sampled_from(["deterministic", "adaptive"]), st.sampled_from([1, 3]))
def test_the_simulator_equals_its_twin(data, routing, coarsening):
    torus = data.draw(twisted(network=data.draw(simulated_networks())))
    mapping = data.draw(mapped(torus, max_tasks=12))
    phases = data.draw(st.lists(graphs(mapping.n_tasks, 20), min_size=1, max_size=2))
    traffic = Workload(phases, dependent=data.draw(st.booleans()))
    check_against_twin(traffic, torus, mapping, routing, coarsening)


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_flows_equal_their_twin(data):
    torus = data.draw(twisted())
    mapping = data.draw(mapped(torus, max_tasks=12))
    comm = data.draw(graphs(mapping.n_tasks, 20))
    twin = naive_flows.Simulator([comm], torus, mapping).run()
    last = max((m.arrived for m in twin.messages), default=0.0)
    assert simulate_flows(comm, torus, mapping, error=0).time == pytest.approx(last, rel=1e-9)


@pytest.mark.parametrize("shape", [(4, 4, 8), (4, 8, 8)])
def test_a_twisted_torus_spreads_all_to_all_better(shape):
    twist = default_twist(shape)
    plain, torus = Torus(shape), Torus(shape, twist=twist)
    comm = all_to_all(torus.n_nodes, 1000)
    mapping = TaskMapping(np.arange(torus.n_nodes), torus)
    loads = {host: link_loads(MappingProblem(comm, host), mapping) for host in (plain, torus)}
    for host, load in loads.items():
        nodes = np.arange(host.n_nodes)
        assert load.sum() == 1000 * host.distance(nodes[:, None], nodes).sum()
    assert loads[torus].max() < loads[plain].max()


@pytest.mark.parametrize("name", ["greedy-heaviest", "bisect-refined"])
def test_strategies_know_the_twist(name):
    # A halo over the rings of the slice itself: its neighbours are nodes' neighbours.
    torus = Torus((4, 4, 8), twist=default_twist((4, 4, 8)))
    src, port = np.divmod(np.arange(128 * 6), 6)
    order = np.random.default_rng(3).permutation(128)
    comm = CommGraph(128, order[src], order[torus.neighbors[src, port]], np.ones(src.size))
    chosen, drawn = (strategies.make(way, comm, torus) for way in (name, "random"))
    hops = [dilations(MappingProblem(comm, torus), mapping).sum() for mapping in (chosen, drawn)]
    assert hops[0] < 0.8 * hops[1]


def jam(seed, deadlock):
    """Many long messages at once through the shallowest buffers."""
    rng = np.random.default_rng(seed)
    shape = [(2, 2, 4), (4, 4, 8), (2, 4, 4)][seed % 3]
    network = {"payload": 64, "overhead": 0.0, "deadlock": deadlock}
    network |= {"buffer_packets": 2 if deadlock == "bubble" else 1, "fifo_packets": 2}
    torus = Torus(shape, twist=default_twist(shape), routing_order=tuple(rng.permutation(3)))
    torus = torus.with_network(**network)
    n = min(torus.n_nodes, 32)
    pairs = np.unique(rng.integers(0, n, (4 * n, 2)), axis=0)
    comm = CommGraph(n, pairs[:, 0], pairs[:, 1], np.full(len(pairs), 640.0))
    mapping = TaskMapping(rng.permutation(torus.n_nodes)[:n], torus)
    return comm, torus, mapping


@pytest.mark.parametrize("deadlock", ["bubble", "dateline"])
@pytest.mark.parametrize("routing", ["deterministic", "adaptive"])
def test_no_ring_fills_up(deadlock, routing):
    for seed in range(60):
        comm, torus, mapping = jam(seed, deadlock)
        result = simulate(comm, torus, mapping, routing=routing, seed=seed)
        assert result.packets.sum() > 0


@pytest.mark.slow
@pytest.mark.parametrize("deadlock", ["bubble", "dateline"])
@pytest.mark.parametrize("routing", ["deterministic", "adaptive"])
def test_no_ring_fills_up_in_ten_thousand_runs(deadlock, routing):
    for seed in range(2500):
        comm, torus, mapping = jam(seed, deadlock)
        assert simulate(comm, torus, mapping, routing=routing, seed=seed).packets.sum() > 0
