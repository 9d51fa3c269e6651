"""Starts of the search: by levels and by other programs; what it refuses."""

import itertools
import sys

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from random_cases import cases, tori

import toruscast as tc
from toruscast._search import annealing as clocks
from toruscast._search import starts as partitioners
from toruscast._search.annealing import MAX_SLOWDOWN, Annealer, AnnealingRuns, Clock
from toruscast._search.products import find_factors, make_product_starts
from toruscast._search.starts import generate_starts, multilevel
from toruscast.errors import InputError
from toruscast.mapping import (
    CommGraph,
    MappingProblem,
    TaskMapping,
    Torus,
    Workload,
    strategies,
    sum_edges,
)
from toruscast.mapping.patterns import halo_2d
from toruscast.mapping.task_mapping import Allocation
from toruscast.routing.bounds import min_loads, min_time
from toruscast.simulation import simulate
from toruscast.simulation.clock_bounds import clock_loss


def shuffled(comm, seed=1):
    new = np.random.default_rng(seed).permutation(comm.n_tasks)
    return CommGraph(comm.n_tasks, new[comm.src], new[comm.dst], comm.nbytes)


def hop_bytes(comm, torus, node):
    return float(torus.distance(node[comm.src], node[comm.dst]) @ comm.nbytes)


@pytest.mark.parametrize(
    ("shape", "capacity", "nodes"),
    [((4, 4, 4), 1, None), ((4, 4), 4, None), ((4, 2), 12, None), ((5, 3), 2, range(11))],
)
def test_levels_keep_to_the_places_and_beat_chance(shape, capacity, nodes):
    torus = Torus(shape)
    allocation = Allocation(torus, nodes, capacity)
    n = allocation.nodes.size * capacity - 1
    ring = CommGraph(n, range(n), [*range(1, n), 0], np.full(n, 1000.0))
    mapping = multilevel(MappingProblem(ring, torus), allocation, 1, Clock())
    assert np.isin(mapping.node, allocation.nodes).all()
    assert mapping.occupancy.max() <= capacity
    random = np.random.default_rng(1).permutation(np.repeat(allocation.nodes, capacity))[:n]
    assert hop_bytes(ring, torus, mapping.node) < hop_bytes(ring, torus, random) / 2


def test_levels_find_fewer_hops_with_more_effort():
    # Every task sends to every other, so that one in a wrong place is not seen by its partners.
    rng, torus = np.random.default_rng(3), Torus((4, 4, 2))
    src, dst = np.nonzero(~np.eye(32, dtype=bool))
    comm = CommGraph(32, src, dst, rng.pareto(1.0, src.size) + 1)
    quick, thorough = (
        [
            hop_bytes(
                comm,
                torus,
                multilevel(MappingProblem(comm, torus), Allocation(torus), s, Clock(), e).node,
            )
            for s in range(3)
        ]
        for e in (1, 16)
    )
    assert max(thorough) < min(quick)


def test_levels_leave_bound_tasks_to_others():
    halo, torus = halo_2d((4, 4), 2048), Torus((4, 4))
    assert (
        multilevel(MappingProblem(halo, torus), Allocation(torus, fixed={0: 3}), 1, Clock()) is None
    )


@given(cases(lambda: tori(max_nodes=24)))
@settings(max_examples=40, deadline=None)
def test_no_mapping_beats_the_bounds(case):
    comm, torus, mapping = case
    capacity = int(mapping.occupancy.max())
    bound = min_time(MappingProblem(comm, torus), capacity)
    # Ticks may shorten what software, hops and packets need.
    loss = clock_loss(MappingProblem(comm, torus), mapping, 1)
    share = max(loss.on_links, loss.at_ports)
    assert simulate(comm, torus, mapping).time >= loss.reduce(bound, share)
    least_hops, least_link = min_loads(MappingProblem(comm, torus), capacity)
    from toruscast.routing import link_loads

    assert hop_bytes(comm, torus, mapping.node) >= least_hops * (1 - 1e-9)
    assert link_loads(MappingProblem(comm, torus), mapping).max(initial=0.0) >= least_link * (
        1 - 1e-9
    )


def test_the_bisection_of_a_complete_graph_is_exact():
    pairs = np.argwhere(~np.eye(16, dtype=bool))
    comm = CommGraph(16, *pairs.T, np.full(len(pairs), 480.0))
    torus = Torus((16,))
    # Eight by eight pairs cross each way, over two links, a packet of 512 bytes each.
    assert min_time(MappingProblem(comm, torus)) == pytest.approx(64 * 512 / 2 / 2e9)


@pytest.mark.parametrize("shape", [(2, 2, 2, 2, 2), (2,) * 8])
def test_a_product_fills_nodes_of_many_dimensions(shape):
    """Axes are called ABCDE, and C is none of them twice; nine dimensions are too many."""
    torus = Torus(shape)
    comm = halo_2d((2 * torus.n_nodes // 8, 8), 2048, periodic=True)
    starts = make_product_starts(
        MappingProblem(comm, torus), Allocation(torus, tasks_per_node=2), 3, Clock()
    )
    assert bool(starts) == (torus.ndim < 8)
    assert all((start.occupancy == 2).all() for start in starts)


def test_another_program_finds_places_that_are_ours():
    if not any(map(partitioners.shutil.which, ("scotch_gmap", "gmap"))):
        pytest.skip("Scotch is not installed")
    halo, torus = halo_2d((8, 8), 2048), Torus((4, 4))
    allocation = Allocation(torus, tasks_per_node=4)
    first, *others = partitioners.map_with_programs(
        ("scotch",), MappingProblem(halo, torus), allocation, 1
    )
    assert first.occupancy.max() == 4
    random = strategies.make("random", halo, torus)
    assert hop_bytes(halo, torus, first.node) < hop_bytes(halo, torus, random.node) / 2
    assert len(others) == 3


@pytest.mark.parametrize("program", ["scotch", "mt-kahypar", "metis"])
def test_a_program_that_is_not_there_is_named(program, monkeypatch):
    monkeypatch.setattr(partitioners.shutil, "which", lambda _: None)
    monkeypatch.setitem(sys.modules, "mtkahypar", None)
    with pytest.raises(InputError, match=r"not installed|unknown program"):
        tc.search(halo_2d((4, 4), 2048), Torus((4, 4)), n_sweeps=1, partitioners=(program,))


def test_a_twisted_torus_is_searched_but_for_ways_that_divide():
    torus = Torus((4, 4, 8), twist=((0, 0, 4), (0, 0, 4), (0, 0, 0)))
    ring = CommGraph(128, range(128), [*range(1, 128), 0], [5000] * 128)
    found = tc.search(ring, torus, objective="hop_bytes", n_sweeps=24)
    assert found.bound <= found.value <= found.initial_value
    with pytest.raises(InputError, match="cannot search with split routes on a twisted torus"):
        tc.search(ring, torus, routing="adaptive", n_sweeps=1)


def test_links_that_are_missing_are_kept_off():
    ring = CommGraph(8, range(8), [*range(1, 8), 0], [5000] * 8)
    torus = Torus((4, 4)).with_network(unknown_rules=())
    torus = torus.without(links=[torus.link(1, 1, 1)])
    found = tc.search(ring, torus, n_sweeps=24)
    assert simulate(ring, torus, found.best).time == found.value


def test_several_phases_several_tasks_and_adaptive_routing():
    one, two = halo_2d((8, 4), 2048), halo_2d((8, 4), 8192, periodic=True)
    found = tc.search(Workload([one, two]), Torus((4, 4)), n_sweeps=24, routing="adaptive")
    assert found.best.occupancy.max() == 2
    assert found.value <= found.initial_value
    low, high = found.gain_interval
    assert low <= found.gain <= high
    assert found.table["source"].iloc[0] == "averaged"


def test_a_registered_feature_is_an_objective():
    halo, torus = halo_2d((4, 4), 2048), Torus((4, 4))
    found = tc.search(
        halo, torus, strategies.make("random", halo, torus), n_sweeps=24, objective="max_dilation"
    )
    assert found.value == 1


def product_of(*graphs):
    """The Cartesian product of undirected graphs, tasks in C order, a weight for each."""
    sizes = [len(graph) for _, graph in graphs]
    place = np.arange(np.prod(sizes)).reshape(sizes)
    columns = []
    for axis, (weight, graph) in enumerate(graphs):
        for a, b in graph.edges:
            here, there = place.take(a, axis).ravel(), place.take(b, axis).ravel()
            columns += [(here, there, weight), (there, here, weight)]
    src, dst = (np.concatenate([column[k] for column in columns]) for k in (0, 1))
    nbytes = np.concatenate([np.full(column[0].size, column[2]) for column in columns])
    return CommGraph(place.size, src, dst, nbytes)


RING, LINE, ALL = nx.cycle_graph, nx.path_graph, nx.complete_graph


@pytest.mark.parametrize(
    "parts",
    [
        [(5, LINE(4)), (20, RING(8)), (90, RING(8))],
        [(8, RING(6)), (8, RING(5))],
        [(8, LINE(3)), (8, LINE(4)), (8, LINE(5))],
        [(3, ALL(6)), (9, RING(5)), (30, LINE(2))],
        [(7, RING(9))],
    ],
)
def test_products_are_found_however_tasks_are_numbered(parts):
    """Every edge joins places that are neighbours along the axis of its weight."""
    comm = shuffled(product_of(*parts))
    axes, tasks = find_factors(comm)
    sizes = sorted(len(graph) for _, graph in parts)
    assert sorted(axis.size for axis in axes) == sizes
    place = np.empty((comm.n_tasks, len(axes)), dtype=int)
    place[tasks.ravel()] = np.indices(tasks.shape).reshape(len(axes), -1).T
    apart = place[comm.dst] - place[comm.src]
    assert ((apart != 0).sum(axis=1) == 1).all()
    for number, axis in enumerate(axes):
        step = np.abs(apart[:, number])
        along = step > 0
        assert (comm.nbytes[along] * 2 == axis.weight).all()
        most = {"exchange": {1, axis.size - 1}, "pipeline": {1}}.get(axis.kind)
        assert most is None or set(step[along].tolist()) <= most


def test_a_stencil_with_diagonals_is_the_product_of_its_rings():
    place = np.random.default_rng(1).permutation(125).reshape(5, 5, 5)
    columns = []
    for step in itertools.product((-1, 0, 1), repeat=3):
        # Faces of blocks of eight cells a side, their edges and their corners.
        nbytes = 8.0 ** (3 - sum(map(abs, step)))
        columns.append((place.ravel(), np.roll(place, step, (0, 1, 2)).ravel(), [nbytes] * 125))
    src, dst, nbytes = (np.concatenate(part) for part in zip(*columns, strict=True))
    found, tasks = find_factors(CommGraph(125, src, dst, nbytes))
    assert [(axis.kind, axis.size) for axis in found] == [("exchange", 5)] * 3
    assert sorted(tasks.ravel().tolist()) == list(range(125))


@pytest.mark.parametrize("seed", range(3))
def test_other_graphs_are_no_products(seed):
    graph = nx.random_regular_graph(4, 32, seed=seed)
    comm = CommGraph(32, *zip(*graph.edges, strict=True), [8] * 64)
    assert find_factors(comm) is None


def test_copies_of_a_product_are_one_more_axis():
    parts = [product_of((8, RING(5)), (4, LINE(3)))] * 2
    src = np.concatenate([part.src + 15 * n for n, part in enumerate(parts)])
    dst = np.concatenate([part.dst + 15 * n for n, part in enumerate(parts)])
    comm = shuffled(CommGraph(30, src, dst, np.tile(parts[0].nbytes, 2)))
    axes, tasks = find_factors(comm)
    assert (axes[0].size, axes[0].weight, tasks.shape) == (2, 0.0, (2, 3, 5))


@pytest.mark.parametrize("seed", range(3))
def test_a_product_is_found_beside_edges_that_are_not_of_it(seed):
    comm = product_of((5, LINE(4)), (20, RING(8)), (90, RING(8)))
    rng = np.random.default_rng(seed)
    src = rng.integers(0, comm.n_tasks, 20)
    dst = (src + rng.integers(1, comm.n_tasks, 20)) % comm.n_tasks
    both = sum_edges(
        comm.n_tasks,
        np.concatenate([comm.src, src]),
        np.concatenate([comm.dst, dst]),
        np.concatenate([comm.nbytes, np.full(20, 18.0)]),
        np.ones(comm.n_edges + 20),
    )
    axes, _ = find_factors(shuffled(both))
    assert [(axis.kind, axis.size) for axis in axes] == [
        ("pipeline", 4),
        ("exchange", 8),
        ("exchange", 8),
    ]


def test_a_product_is_laid_on_a_part_of_the_torus():
    graph, torus = shuffled(product_of((9, RING(4)), (30, LINE(4)))), Torus((4, 6))
    # Four columns of the torus, whose rings of four are whole.
    allocation = Allocation(torus, [node for node in range(24) if node % 6 < 4])
    found = make_product_starts(MappingProblem(graph, torus), allocation, 3, Clock())
    for mapping in found:
        assert np.isin(mapping.node, allocation.nodes).all()
        assert np.unique(mapping.node).size == 16
    # Every neighbour is one hop away.
    assert min(hop_bytes(graph, torus, each.node) for each in found) == graph.nbytes.sum()


def test_layouts_of_a_product_end_with_the_time():
    problem = MappingProblem(shuffled(halo_2d((8, 8), 2048, periodic=True)), Torus((8, 8)))
    assert make_product_starts(problem, Allocation(problem.torus), 3, Clock())
    assert not make_product_starts(problem, Allocation(problem.torus), 3, Clock(-1.0))


def test_a_shuffled_sharded_model_is_laid_as_its_mesh_would_be():
    """Rings of 8, rings of 8 and chains of 4, laid as those of a mesh."""
    comm = product_of((5e4, LINE(4)), (1e5, RING(8)), (4e5, RING(8)))
    torus = Torus((16, 16)).with_network(unknown_rules=())
    layout = tc.mesh(
        torus,
        {"p": 4, "d": 8, "t": 8},
        "p:pipeline:50kB,d:exchange:100kB,t:exchange:400kB",
        overlap=True,
    ).best
    here = simulate(comm, torus, TaskMapping(layout.nodes.ravel(), torus), error=0.01).time
    found = tc.search(shuffled(comm), torus, n_sweeps=1)
    assert found.value <= 1.02 * here


def test_a_search_without_time_begins_well():
    """Even where the processors are busy, and all time is over before a start is made."""
    halo, torus = shuffled(halo_2d((8, 8), 2048)), Torus((8, 8))
    problem = MappingProblem(halo, torus)
    runs = AnnealingRuns(problem, Allocation(torus), "time", 1)
    made = next(generate_starts(problem, Allocation(torus), 1, Clock(-1.0), runs.energy, [0.0]))
    in_order = runs.energy(TaskMapping(np.arange(64), torus))
    assert runs.energy(made[0]) < in_order / 2
    found = tc.search(halo, torus, seconds=0.0)
    assert found.value < found.initial_value


def test_further_allotments_add_starts():
    halo, torus = shuffled(halo_2d((8, 8), 2048)), Torus((8, 8))
    problem, allocation = MappingProblem(halo, torus), Allocation(torus)
    runs = AnnealingRuns(problem, allocation, "time", 1)

    def after(*allotments):
        for made in generate_starts(problem, allocation, 1, Clock(), runs.energy, allotments):
            assert [runs.energy(each) for each in made] == sorted(map(runs.energy, made))
        return {each.name for each in made}

    few, more, most = after(0.0), after(0.0, 0.1), after(0.0, 0.1, 10.0)
    assert few < more < most
    assert {"spectral", "multilevel@10", "product@1"} <= most


def test_a_clock_counts_the_processors_and_at_most_so_much_of_the_wall(monkeypatch):
    now = {"thread_time": 0.0, "monotonic": 0.0}
    monkeypatch.setattr(clocks.time, "thread_time", lambda: now["thread_time"])
    monkeypatch.setattr(clocks.time, "monotonic", lambda: now["monotonic"])
    clock = Clock(2.0)
    # Others have most of the processors: half of the wall's time counts.
    now.update(thread_time=0.5, monotonic=3.0)
    assert clock.elapsed == 3.0 / MAX_SLOWDOWN
    assert not clock.is_over()
    now.update(monotonic=2.1 * MAX_SLOWDOWN)
    assert clock.is_over()
    # A thread that has its processor to itself.
    now.update(thread_time=5.0, monotonic=5.0)
    assert clock.remaining == -3.0
    assert not Clock().is_over()


def test_energies_of_a_placed_mapping_are_those_of_a_new_annealer():
    halo, torus = shuffled(halo_2d((4, 4), 2048)), Torus((4, 4))
    problem, allocation = MappingProblem(halo, torus), Allocation(torus)
    runs = AnnealingRuns(problem, allocation, "time", 1)
    for seed in range(3):
        node = np.random.default_rng(seed).permutation(16)
        mapping = TaskMapping(node, torus)
        slots = allocation.free_slots(16)
        fresh = Annealer(problem, mapping, slots, runs.goals[0], runs.inputs.table, 0)
        assert runs.energy(mapping) == fresh.energy
