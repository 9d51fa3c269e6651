"""Blue Gene/Q's zones: which a message has, and that loads and simulation keep to them."""

import naive
import numpy as np
import pytest
from against_twin import check_against_twin
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_cases import TIES, cases, graphs, mapped, simulated_networks

from toruscast.cli.problem import change_network
from toruscast.errors import InputError
from toruscast.mapping import CommGraph, MappingProblem, Network, TaskMapping, Torus, machines
from toruscast.mapping import network as bluegene_routes
from toruscast.routing import link_loads
from toruscast.simulation import simulate

RACK = machines.torus_from_text("bluegene_q:1024")
# Small blocks are also routed as if they had so many times as many nodes: of each such factor other
# zones are in use.
FACTORS = [1, 32, 256]
FIXED = [HealthCheck.function_scoped_fixture]


@st.composite
def blocks(draw, network=None):
    """Small blocks, meshes among them."""
    shape = [draw(st.sampled_from((4, 5, 2, 1, 3))), draw(st.sampled_from((4, 2, 1, 3))), 2, 1, 2]
    wrap = draw(st.lists(st.booleans(), min_size=5, max_size=5))
    order = draw(st.permutations(range(5)))
    speeds = draw(st.sampled_from([(2e9,), (1e9, 2e9, 2e9, 4.5e9, 2e9)]))
    network = Network() if network is None else network
    shape = draw(st.permutations(shape))
    return Torus(shape, wrap, speeds, order, draw(TIES), network, zones="bluegene_q")


@pytest.fixture(params=FACTORS)
def as_large_blocks(request, monkeypatch):
    limits = [(start // request.param, *rest) for start, *rest in bluegene_routes._ZONE_DEFAULTS]
    monkeypatch.setattr(bluegene_routes, "_ZONE_DEFAULTS", limits)
    monkeypatch.setattr(naive, "RACK", naive.RACK // request.param)


def first_come_dimensions(zones):
    """Zones without the dimensions that are done before."""
    done, left = set(), []
    for group in zones:
        left.append(set(group) - done)
        done |= set(group)
    return [group for group in left if group]


def ends_from(node, torus, n=None):
    """Pairs of a node and all others, or n of them that are spread out."""
    others = np.arange(torus.n_nodes, dtype=np.int32)
    others = others if n is None else others[:: torus.n_nodes // n | 1]
    return np.full_like(others, node), others


@pytest.mark.parametrize(
    "shape",
    [
        (2, 2, 4, 4, 2),
        (4, 4, 4, 6, 2),
        (4, 4, 4, 8, 2),
        (4, 4, 8, 8, 2),
        (8, 8, 8, 8, 2),
        (8, 8, 8, 12, 2),
        (8, 8, 8, 16, 2),
        (8, 8, 16, 16, 2),
        (8, 15, 16, 16, 2),
        (8, 16, 16, 16, 2),
        (3, 5, 4, 6, 5),
    ],
)
def test_every_message_has_the_zones_of_its_way(shape):
    torus = machines.bluegene_q(shape)
    src, dst = ends_from(torus.n_nodes // 3, torus, 300 if torus.n_nodes > 4000 else None)
    for a, b, number in zip(src, dst, torus.zone_set_of(src, dst), strict=True):
        zones = [set(group) for group in torus.zone_sets[number]]
        assert zones == first_come_dimensions(naive.zones_of(torus, int(a), int(b)))


def test_zones_on_a_worked_example():
    # A rack: D is the longest ring, A to C are alike; a flexible way has a flexibility over 1.5.
    assert RACK.zone_sets == (((3,), (1,), (2,), (0,), (4,)), ((3,), (1, 2, 0), (4,)), ())
    origin = RACK.node([0, 0, 0, 0, 0])
    there = RACK.node(
        [
            [2, 1, 0, 0, 0],  # 1 + 1/2: just not flexible
            [2, 1, 0, 7, 0],  # a quarter more, backwards
            [0, 0, 0, 4, 0],  # a line
            [0, 0, 0, 0, 0],
            [2, 2, 2, 2, 0],  # 3.5: too flexible
            [2, 2, 2, 1, 1],  # E does not count
        ]
    )
    assert RACK.zone_set_of(np.full(6, origin), there).tolist() == [1, 0, 2, 2, 1, 0]


def test_a_larger_block_lets_flexible_ways_begin_in_two_dimensions():
    torus = machines.torus_from_text("bluegene_q:4096")
    assert torus.zone_sets[0] == ((3, 4), (2,), (0,), (1,))
    assert torus.zone_sets[1] == ((3,), (2,), (0, 1), (4,))


@settings(max_examples=30, deadline=None, suppress_health_check=FIXED)
@given(cases(tori=blocks, max_edges=15))
def test_loads_equal_the_listing_of_the_routes_in_each_messages_zones(as_large_blocks, case):
    comm, torus, mapping = case
    load = link_loads(MappingProblem(comm, torus, "adaptive"), mapping)
    ends = [(a, b) for a, b, *_ in naive.edges(comm, mapping)]
    twin = naive.adaptive_loads(torus, ends, comm.nbytes.tolist())
    np.testing.assert_allclose(load, twin, rtol=1e-11)
    np.testing.assert_array_equal(load == 0, np.array(twin) == 0)


def test_loads_of_a_rack_equal_the_listing():
    src, dst = ends_from(77, RACK, 60)
    mapping = TaskMapping(np.arange(RACK.n_nodes), RACK)
    weights = np.arange(1.0, src.size + 1)
    load = link_loads(MappingProblem(CommGraph(1024, src, dst, weights), RACK, "adaptive"), mapping)
    ends = list(zip(src.tolist(), dst.tolist(), strict=True))
    twin = naive.adaptive_loads(RACK, ends, weights.tolist())
    np.testing.assert_allclose(load, twin, rtol=1e-11)


@settings(max_examples=40, deadline=None, suppress_health_check=FIXED)
@given(st.data(), st.integers(0, 9))
def test_the_simulator_equals_its_twin(as_large_blocks, data, seed):
    torus = data.draw(blocks(data.draw(simulated_networks())))
    mapping = data.draw(mapped(torus))
    comm = data.draw(graphs(mapping.n_tasks, 30))
    check_against_twin(comm, torus, mapping, "adaptive", seed=seed)


@pytest.mark.parametrize("deadlock", ["bubble", "dateline"])
@pytest.mark.parametrize("tie", ["source_parity", "random", "booksim"])
def test_the_simulator_equals_its_twin_on_a_rack(deadlock, tie):
    # All kinds of ways at once, through a corner of the block, in shallow buffers.
    network = Network(payload=64, buffer_packets=2, overhead=0.0, fifos=2, deadlock=deadlock)
    torus = Torus(
        RACK.shape, RACK.wrap, (2e9,), RACK.routing_order, tie, network, zones="bluegene_q"
    )
    corner = torus.node(np.indices((3, 3, 3, 6, 2)).reshape(5, -1).T)
    near = np.random.default_rng(5).choice(corner, 34, replace=False)
    line = torus.node([[0, 0, 0, d, 0] for d in range(8)])
    pairs = {(a, b) for i, a in enumerate(near[:17]) for b in np.roll(near[17:], i)[:7]}
    pairs |= set(zip(line, np.roll(line, 4), strict=True))
    src, dst = np.array(sorted(pairs)).T
    assert set(torus.zone_set_of(src, dst).tolist()) == {0, 1, 2}
    comm = CommGraph(torus.n_nodes, src, dst, np.full(src.size, 400.0))
    check_against_twin(comm, torus, TaskMapping(np.arange(1024), torus), "adaptive")


def test_a_line_keeps_to_the_tie_rule_and_a_flexible_way_to_the_order():
    mapping = TaskMapping(np.arange(RACK.n_nodes), RACK)

    def loaded(torus, src, dst):
        src, dst = (int(torus.node(place)) for place in (src, dst))
        comm = CommGraph(1024, [src], [dst], [512 * 400.0])
        links = np.flatnonzero(simulate(comm, torus, mapping, routing="adaptive").packets)
        return links.tolist(), sorted(naive.route(torus, src, dst))

    # Half round D from an odd node: minus. Packets that choose find both ways empty and go plus.
    line = [0, 0, 0, 1, 0], [0, 0, 0, 5, 0]
    links, ordered = loaded(RACK, *line)
    assert links == ordered
    links, _ = loaded(Torus(RACK.shape, routing_order=RACK.routing_order), *line)
    assert not set(links) & set(ordered)
    # Of flexibility 2, without ties: in order, in whichever channel.
    links, ordered = loaded(RACK, [0, 0, 0, 0, 0], [1, 1, 1, 2, 0])
    assert links == ordered


@pytest.mark.parametrize("shape", [(4, 4), (2, 2, 2, 2)])
def test_zones_of_blue_gene_are_of_five_dimensions(shape):
    with pytest.raises(InputError, match="bluegene_q: only five dimensions"):
        Torus(shape, zones="bluegene_q")
    with pytest.raises(InputError, match="once, or bluegene_q"):
        Torus((2, 2, 2, 2, 2), zones="bluegene_p")


def test_the_command_line_knows_the_zones_by_name():
    torus = Torus((2, 2, 2, 2, 2))
    assert change_network(torus, ["zones=bluegene_q"]).zones == "bluegene_q"
