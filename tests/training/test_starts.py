"""Starts of the search: by levels and by other programs; what it refuses."""

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from random_cases import cases, tori

from toruscast.errors import InputError
from toruscast.mapping import CommGraph, Torus, as_workload, strategies
from toruscast.mapping.allocation import Allocation
from toruscast.mapping.patterns import halo_2d
from toruscast.search import partitioners
from toruscast.search.lower_bounds import least_loads, least_time
from toruscast.search.multilevel import multilevel
from toruscast.search.search import search
from toruscast.simulation import simulate


def hop_bytes(comm, torus, node):
    return float(torus.distance(node[comm.src], node[comm.dst]) @ comm.nbytes)


@pytest.mark.parametrize(
    ("shape", "capacity", "nodes"),
    [((4, 4, 4), 1, None), ((4, 4), 4, None), ((4, 2), 12, None), ((5, 3), 2, range(11))],
)
def test_levels_keep_to_the_places_and_beat_chance(shape, capacity, nodes):
    torus = Torus(shape)
    allocation = Allocation(torus, nodes, capacity)
    n = allocation.n_places - 1
    ring = CommGraph(n, range(n), [*range(1, n), 0], np.full(n, 1000.0))
    mapping = multilevel(as_workload(ring), allocation, 1)
    assert np.isin(mapping.node, allocation.nodes).all()
    assert mapping.occupancy.max() <= capacity
    random = np.random.default_rng(1).permutation(np.repeat(allocation.nodes, capacity))[:n]
    assert hop_bytes(ring, torus, mapping.node) < hop_bytes(ring, torus, random) / 2


def test_levels_leave_bound_tasks_to_others():
    halo, torus = halo_2d((4, 4), 2048), Torus((4, 4))
    assert multilevel(as_workload(halo), Allocation(torus, fixed={0: 3}), 1) is None


@given(cases(lambda: tori(max_nodes=24)))
@settings(max_examples=40, deadline=None)
def test_no_mapping_beats_the_bounds(case):
    comm, torus, mapping = case
    capacity = int(mapping.occupancy.max())
    bound = least_time(comm, torus, capacity)
    assert simulate(comm, torus, mapping).time >= bound.total * (1 - 1e-3) - 1e-12
    least_hops, least_link = least_loads(comm, torus, capacity)
    from toruscast.routing import link_loads

    assert hop_bytes(comm, torus, mapping.node) >= least_hops * (1 - 1e-9)
    assert link_loads(comm, torus, mapping).max(initial=0.0) >= least_link * (1 - 1e-9)


def test_the_bisection_of_a_complete_graph_is_exact():
    pairs = np.argwhere(~np.eye(16, dtype=bool))
    comm = CommGraph(16, *pairs.T, np.full(len(pairs), 480.0))
    torus = Torus((16,))
    # Eight by eight pairs cross each way, over two links, a packet of 512 bytes each.
    assert least_time(comm, torus).bisection == pytest.approx(64 * 512 / 2 / 2e9)


def test_another_program_finds_places_that_are_ours():
    if not any(map(partitioners.shutil.which, ("scotch_gmap", "gmap"))):
        pytest.skip("Scotch is not installed")
    halo, torus = halo_2d((8, 8), 2048), Torus((4, 4))
    allocation = Allocation(torus, tasks_per_node=4)
    first, *others = partitioners.placed_by(("scotch",), as_workload(halo), allocation, 1)
    assert first.occupancy.max() == 4
    random = strategies.make("random", halo, torus)
    assert hop_bytes(halo, torus, first.node) < hop_bytes(halo, torus, random.node) / 2
    assert len(others) == 3


@pytest.mark.parametrize("program", ["scotch", "mt-kahypar", "metis"])
def test_a_program_that_is_not_there_is_named(program, monkeypatch):
    monkeypatch.setattr(partitioners.shutil, "which", lambda _: None)
    monkeypatch.setitem(sys.modules, "mtkahypar", None)
    with pytest.raises(InputError, match=r"not installed|unknown program"):
        search(halo_2d((4, 4), 2048), Torus((4, 4)), turns=1, also=(program,))


def test_a_twisted_torus_is_searched_but_for_ways_that_divide():
    torus = Torus((4, 4, 8), twist=((0, 0, 4), (0, 0, 4), (0, 0, 0)))
    ring = CommGraph(128, range(128), [*range(1, 128), 0], [5000] * 128)
    found = search(ring, torus, objective="hop_bytes", turns=24)
    assert found.bound <= found.value <= found.given
    with pytest.raises(InputError, match="ways that divide on a twisted torus"):
        search(ring, torus, routing="adaptive", turns=1)


def test_links_that_are_missing_are_kept_off():
    ring = CommGraph(8, range(8), [*range(1, 8), 0], [5000] * 8)
    torus = Torus((4, 4)).without(links=[Torus((4, 4)).link(1, 1, 1)])
    found = search(ring, torus, turns=24)
    assert simulate(ring, torus, found.mapping).time == found.value


def test_several_phases_several_tasks_and_adaptive_routing():
    from toruscast.mapping import Workload

    one, two = halo_2d((8, 4), 2048), halo_2d((8, 4), 8192, periodic=True)
    found = search(Workload([one, two]), Torus((4, 4)), turns=24, routing="adaptive")
    assert found.mapping.occupancy.max() == 2
    assert found.value <= found.given
    low, high = found.gain_interval
    assert low <= found.gain <= high
    assert found.table["how"].iloc[0] == "simulated"


def test_a_registered_feature_is_an_objective():
    halo, torus = halo_2d((4, 4), 2048), Torus((4, 4))
    found = search(
        halo, torus, strategies.make("random", halo, torus), turns=24, objective="max_dilation"
    )
    assert found.value == 1
