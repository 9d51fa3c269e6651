"""Routes, loads, hops and FIFOs against their slow twins, NetworkX and closed forms."""

from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import get_args
from unittest import mock

import naive
import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_cases import TIES, cases, rounding, tori, zones

import toruscast.routing.loads as loads_module
from toruscast.errors import InputError
from toruscast.mapping import (
    CommGraph,
    MappingProblem,
    Network,
    TaskMapping,
    TieRule,
    Torus,
    patterns,
)
from toruscast.routing import dilations, injection_fifos, link_loads, routes
from toruscast.routing.loads import sum_loads_along_routes

SIZES = [1, 2, 3, 4, 5, 6, 7, 8, 9, 16]
tiny = partial(tori, max_nodes=36, max_dimensions=3)


def marks_only():
    """Take the kernels that do without the table of runs."""
    return mock.patch.object(loads_module, "run_table_if_faster", return_value=None)


def loads_by_both_kernels(comm, torus, mapping):
    """Link loads, after asserting that the table of runs and the marks agree to the last bit."""
    load = link_loads(MappingProblem(comm, torus), mapping)
    with marks_only():
        np.testing.assert_array_equal(link_loads(MappingProblem(comm, torus), mapping), load)
    return load


@pytest.mark.parametrize("tie", get_args(TieRule))
def test_tasks_in_several_blocks_load_the_same_links(tie):
    torus = replace(Torus((12, 24, 16)), tie_break=tie, routing_order=(2, 0, 1))
    rng = np.random.default_rng(7)
    n_tasks = 2 * torus.n_nodes
    src, dst = np.divmod(rng.choice(n_tasks**2, 60_000, replace=False), n_tasks)
    comm = CommGraph(n_tasks, src, dst, rng.integers(1, 1000, src.size))
    mapping = TaskMapping(rng.permutation(np.repeat(np.arange(torus.n_nodes), 2)), torus)
    assert loads_module.run_table_if_faster(torus, comm.n_edges) is not None
    load = loads_by_both_kernels(comm, torus, mapping)
    by_table = sum_loads_along_routes(MappingProblem(comm, torus), mapping, load)
    with marks_only():
        np.testing.assert_allclose(
            sum_loads_along_routes(MappingProblem(comm, torus), mapping, load), by_table, 1e-12
        )


def ends_of(comm, mapping):
    return [(a, b) for a, b, _, _ in naive.edges(comm, mapping)]


def all_pairs(n):
    """Every ordered pair of nodes."""
    src, dst = np.divmod(np.arange(n * n), n)
    return src, dst


@settings(max_examples=60, deadline=None)
@given(tori(max_nodes=48))
def test_routes_equal_the_walk_hop_by_hop(torus):
    src, dst = all_pairs(torus.n_nodes)
    first, links = routes(torus, src, dst)
    for r, (a, b) in enumerate(zip(src.tolist(), dst.tolist(), strict=True)):
        mine = links[first[r] : first[r + 1]].tolist()
        assert mine == naive.route(torus, a, b)
        assert naive.is_path(torus, mine, a, b)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("wrap", [True, False])
@pytest.mark.parametrize("tie", get_args(TieRule))
def test_loads_of_every_pair_on_a_line(size, wrap, tie):
    torus = Torus(size, wrap, tie_break=tie)
    src, dst = all_pairs(size)
    nbytes = np.arange(size * size) + 1.0
    comm = CommGraph(size, src, dst, nbytes)
    mapping = TaskMapping(np.arange(size), torus)
    ends = ends_of(comm, mapping)
    load = loads_by_both_kernels(comm, torus, mapping)
    np.testing.assert_array_equal(load, naive.link_loads(torus, ends, nbytes))
    assert not load[~torus.link_exists].any()
    hops = [naive.dilation(torus, a, b) for a, b in ends]
    np.testing.assert_array_equal(dilations(MappingProblem(comm, torus), mapping), hops)


def test_an_edge_that_sends_nothing_takes_no_turn():
    torus = Torus((8,), network=Network(fifos=2, fifo_rule="round_robin"))
    comm = CommGraph(4, [0, 0, 0], [1, 2, 3], [1e6, 0, 1e6], [1, 0, 1])
    fifo = injection_fifos(MappingProblem(comm, torus), TaskMapping([0, 1, 4, 7], torus))
    assert fifo.tolist() == [0, 0, 1]


@settings(max_examples=60, deadline=None)
@given(cases())
def test_loads_hops_and_fifos_equal_their_twins(case):
    comm, torus, mapping = case
    ends = ends_of(comm, mapping)
    load = loads_by_both_kernels(comm, torus, mapping)
    twin = np.array(naive.link_loads(torus, ends, comm.nbytes.tolist()))
    atol = rounding(comm.nbytes)
    np.testing.assert_allclose(load, twin, rtol=1e-12, atol=atol)
    np.testing.assert_array_equal(load == 0, twin == 0)
    hops = [naive.dilation(torus, a, b) for a, b in ends]
    np.testing.assert_array_equal(dilations(MappingProblem(comm, torus), mapping), hops)
    fifos = naive.fifos(torus, ends, comm.whole_messages == 0)
    np.testing.assert_array_equal(injection_fifos(MappingProblem(comm, torus), mapping), fifos)
    hop_bytes = (np.array(hops) * comm.nbytes).sum()
    assert load.sum() == pytest.approx(hop_bytes, rel=1e-12, abs=atol * torus.n_links)


@settings(max_examples=40, deadline=None)
@given(cases(tori=tiny, max_edges=15))
def test_adaptive_loads_equal_the_listing_of_all_minimal_routes(case):
    comm, torus, mapping = case
    load = link_loads(MappingProblem(comm, torus, "adaptive"), mapping)
    twin = naive.adaptive_loads(torus, ends_of(comm, mapping), comm.nbytes.tolist())
    np.testing.assert_allclose(load, twin, rtol=1e-11)
    np.testing.assert_array_equal(load == 0, np.array(twin) == 0)
    hop_bytes = (dilations(MappingProblem(comm, torus), mapping) * comm.nbytes).sum()
    assert load.sum() == pytest.approx(hop_bytes, rel=1e-11)


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from([(4, 4, 2), (3, 5, 2), (2, 4, 1, 3), (4, 6)]),
    st.lists(st.booleans(), min_size=4, max_size=4),
    st.randoms(use_true_random=False),
    st.data(),
)
def test_adaptive_loads_of_zones_equal_the_listing(shape, wrap, random, data):
    torus = Torus(shape, wrap[: len(shape)], zones=data.draw(zones(len(shape))))
    ends = [(0, torus.n_nodes - 1)] + [
        (random.randrange(torus.n_nodes), random.randrange(torus.n_nodes)) for _ in range(20)
    ]
    ends = sorted(set(ends))
    src, dst = zip(*ends, strict=True)
    weights = [float(1 + i) for i in range(len(ends))]
    mapping = TaskMapping(np.arange(torus.n_nodes), torus)
    load = link_loads(
        MappingProblem(CommGraph(torus.n_nodes, src, dst, weights), torus, "adaptive"), mapping
    )
    np.testing.assert_allclose(load, naive.adaptive_loads(torus, ends, weights), rtol=1e-11)


@settings(max_examples=60, deadline=None)
@given(cases())
def test_sums_along_routes_equal_those_of_the_walk(case):
    comm, torus, mapping = case
    load = np.random.default_rng(comm.n_edges).random(torus.n_links)
    paths = [load[naive.route(torus, a, b)] for a, b in ends_of(comm, mapping)]
    for table in (True, False):
        with nullcontext() if table else marks_only():
            along = sum_loads_along_routes(MappingProblem(comm, torus), mapping, load)
        sums = [path.sum() for path in paths]
        twin = max(sums, default=0.0), sum(sums), sum(path.max(initial=0) for path in paths)
        np.testing.assert_allclose(along, twin, rtol=1e-12)


@pytest.mark.parametrize(
    ("torus", "hops"), [(Torus((5,) * 8, False), 32), (Torus((300, 300)), 300)], ids=str
)
def test_adaptive_loads_of_few_messages_on_a_large_network(torus, hops):
    # As far as can be on 390,625 nodes of a mesh: no table of all offsets would fit.
    far = torus.node(
        [
            size // 2 if wrap else size - 1
            for size, wrap in zip(torus.shape, torus.wrap, strict=True)
        ]
    )
    mapping = TaskMapping([0, int(far)], torus)
    load = link_loads(MappingProblem(CommGraph(2, [0], [1], [1e6]), torus, "adaptive"), mapping)
    assert load.sum() == pytest.approx(1e6 * hops, rel=1e-11)
    ports = 2 * torus.ndim
    start = load.reshape(-1, ports)[0]
    assert start[start > 0] == pytest.approx(1e6 / np.count_nonzero(start))


def test_ties_by_the_sum_of_coordinates_on_a_worked_example():
    # On a ring of 4 beside one of 3, all from node (1, 0) to the far side of the first ring: the
    # destinations (3, 0), (3, 1) and (3, 2) add 0, 1 and 2 to the source's 1: minus, plus, minus.
    torus = Torus((4, 3), tie_break="sum_parity")
    first, links = routes(torus, [3, 3, 3], [9, 10, 11])
    leaving = [torus.link_label(link) for link in links[first[:-1]]]
    assert leaving == ["(1,0) -X", "(1,0) +X", "(1,0) -X"]


def test_ties_by_the_sum_use_both_ways_of_every_source():
    # An all-to-all on 4x4 has, from each node, one tie in each dimension for every coordinate of
    # the other: two go plus, two minus, and all links carry the same.
    torus = Torus((4, 4), tie_break="sum_parity")
    comm, mapping = _all_to_all(16)
    load = loads_by_both_kernels(comm, torus, mapping)
    by_halves = link_loads(MappingProblem(comm, replace(torus, tie_break="split")), mapping)
    np.testing.assert_array_equal(load, by_halves)


def test_a_zone_to_each_dimension_is_dimension_order():
    # Neither ring is even: there are no ties, and one minimal route.
    torus = Torus((5, 3, 3), routing_order=(2, 0, 1), zones=[[2], [0], [1]])
    comm, mapping = _all_to_all(torus.n_nodes)
    adaptive = link_loads(MappingProblem(comm, torus, "adaptive"), mapping)
    np.testing.assert_allclose(
        adaptive, link_loads(MappingProblem(comm, torus), mapping), rtol=1e-12
    )


def test_zones_on_a_worked_example():
    # From (0, 0, 0) to (1, 1, 1): zone (2,) first, one hop; then the two ways round the square.
    torus = Torus((4, 4, 4), zones=[[2], [0, 1]])
    comm, mapping = CommGraph(2, [0], [1], [8]), TaskMapping([0, 21], torus)
    load = link_loads(MappingProblem(comm, torus, "adaptive"), mapping)
    used = {torus.link_label(link): load[link] for link in np.flatnonzero(load)}
    assert used == pytest.approx(
        {
            "(0,0,0) +Z": 8,
            "(0,0,1) +X": 4,
            "(0,0,1) +Y": 4,
            "(1,0,1) +Y": 4,
            "(0,1,1) +X": 4,
        }
    )


@settings(max_examples=40, deadline=None)
@given(tori(max_nodes=60))
def test_hops_are_the_shortest_paths_of_networkx(torus):
    src, dst = all_pairs(torus.n_nodes)
    comm = CommGraph(torus.n_nodes, src, dst, np.ones(src.size))
    mapping = TaskMapping(np.arange(torus.n_nodes), torus)
    lengths = dict(nx.all_pairs_shortest_path_length(torus.to_networkx()))
    shortest = [lengths[a][b] for a, b in zip(src.tolist(), dst.tolist(), strict=True)]
    np.testing.assert_array_equal(dilations(MappingProblem(comm, torus), mapping), shortest)
    assert max(shortest) == torus.diameter


@settings(max_examples=40, deadline=None)
@given(cases(), st.floats(1e-6, 1e6))
def test_idle_links_read_exactly_0(case, factor):
    # Sums of fractions that do not cancel in floating point would leave dust behind.
    comm, torus, mapping = case
    comm = comm.scaled(factor / 3)
    load = loads_by_both_kernels(comm, torus, mapping)
    used = set()
    for (a, b), nbytes in zip(ends_of(comm, mapping), comm.nbytes, strict=True):
        if nbytes > 0:
            used.update(naive.route(torus, a, b, 1), naive.route(torus, a, b, -1))
    assert set(np.flatnonzero(load)) <= used
    assert (load >= 0).all()


@pytest.mark.parametrize("size", [3, 5, 7, 9, 15])
@pytest.mark.parametrize("routing", ["deterministic", "adaptive"])
def test_all_to_all_on_an_odd_ring(size, routing):
    # Of size = 2h + 1 nodes each sends d hops plus-wards for d = 1..h, and as many minus-wards.
    # Plus links carry size * (1 + ... + h) / size = h (h + 1) / 2 messages each; minus alike.
    torus, h = Torus(size), size // 2
    comm, mapping = _all_to_all(size)
    load = link_loads(MappingProblem(comm, torus, routing), mapping)
    np.testing.assert_allclose(load, 10 * h * (h + 1) / 2, rtol=1e-12)


@pytest.mark.parametrize("size", [4, 6, 8, 16])
@pytest.mark.parametrize("tie", get_args(TieRule))
def test_all_to_all_on_an_even_ring(size, tie):
    # Of size = 2h nodes each sends d hops either way for d = 1..h-1: (h - 1) h / 2 messages on
    # every link. One more goes the h hops to the far side, size * h hops in all: all plus (h on a
    # plus link), half plus (h / 2 on every link), or plus from the even nodes: a plus link is
    # crossed by those h messages that start at it or up to h - 1 before it, of which the even
    # ones are h / 2 rounded up at an even node, down at an odd node if h is odd; minus likewise
    # with the odd ones. Without another dimension the sum's parity is the source's. SimGrid: all
    # plus but the one from node h to node 0, which crosses the minus links of nodes h to 1.
    torus, h = Torus(size, tie_break=tie), size // 2
    comm, mapping = _all_to_all(size)
    plus, minus = loads_by_both_kernels(comm, torus, mapping).reshape(size, 2).T
    near = (h - 1) * h / 2
    odd = np.arange(size) % 2
    if tie == "plus":
        far = np.full(size, float(h)), np.zeros(size)
    elif tie == "simgrid":
        nodes = np.arange(size)
        far = h - (nodes >= h) * 1.0, ((nodes >= 1) & (nodes <= h)) * 1.0
    elif tie in ("split", "random", "booksim"):
        far = np.full(size, h / 2), np.full(size, h / 2)
    else:
        far = (h + h % 2 * (1 - 2 * odd)) / 2, (h - h % 2 * (1 - 2 * odd)) / 2
    np.testing.assert_array_equal(plus, 10 * (near + far[0]))
    np.testing.assert_array_equal(minus, 10 * (near + far[1]))


@pytest.mark.parametrize("size", [2, 3, 4, 8])
def test_ring_exchange_under_the_identity(size):
    # Task i sends to i + 1: one hop plus on the link that leaves i, nothing comes back. On a ring
    # of two the neighbour lies half way round: the even task goes plus, the odd one minus.
    torus = Torus(size)
    nodes = np.arange(size)
    comm = CommGraph(size, nodes, (nodes + 1) % size, np.full(size, 7.0))
    load = link_loads(MappingProblem(comm, torus), TaskMapping(nodes, torus)).reshape(size, 2)
    expected = [[7, 0], [0, 7]] if size == 2 else [[7, 0]] * size
    np.testing.assert_array_equal(load, expected)


@pytest.mark.parametrize("periodic", [True, False])
def test_halo_under_the_identity(periodic):
    # Every task of a 5x6 grid sends to its four neighbours, one hop each: every link carries one
    # message. Where the grid does not close, the links that wrap carry none.
    torus = Torus((5, 6))
    comm = patterns.halo_2d((5, 6), 10.0, periodic=periodic)
    mapping = TaskMapping(np.arange(30), torus)
    load = loads_by_both_kernels(comm, torus, mapping)
    wraps = np.array([_wraps(torus, link) for link in range(torus.n_links)])
    np.testing.assert_array_equal(load, np.where(wraps & (not periodic), 0, 10))


def test_whole_bytes_are_exact_up_to_2_to_the_53():
    torus = Torus(8, tie_break="split")
    mapping = TaskMapping([0, 4], torus)
    comm = CommGraph(2, [0, 1], [1, 0], [2.0**53 - 1, 3])
    load = loads_by_both_kernels(comm, torus, mapping).reshape(8, 2)
    assert load[0, 0] == (2**53 - 1) / 2
    assert load[0, 1] == (2**53 - 1) / 2
    assert load[4, 0] == load[4, 1] == 1.5


@pytest.mark.parametrize("amount", [5e-324, 1e-300, 1e22, 1e300])
def test_loads_of_extreme_amounts(amount):
    comm = CommGraph(2, [0], [1], [amount])
    load = link_loads(MappingProblem(comm, Torus(8)), TaskMapping([0, 2], 8))
    np.testing.assert_allclose(load.reshape(8, 2)[:, 0], [amount, amount] + [0] * 6, 1e-15, 1e-307)


@pytest.mark.parametrize(
    ("weights", "routing"),
    [
        ([1, 2], "deterministic"),
        ([np.nan], "deterministic"),
        ([-1], "adaptive"),
        ([np.inf], "adaptive"),
        ([1], "random"),
        ([[1]], "deterministic"),
    ],
)
def test_bad_weights_and_routings(weights, routing):
    comm, mapping = CommGraph(2, [0], [1], [1]), TaskMapping([0, 1], 4)
    with pytest.raises(InputError):
        link_loads(MappingProblem(comm, Torus(4), routing), mapping, weights)


@pytest.mark.parametrize(
    ("src", "dst"), [([0], [4]), ([-1], [0]), ([0, 1], [0]), ([[0, 1]], [[1, 0]]), ([0.5], [1])]
)
def test_routes_between_bad_nodes(src, dst):
    with pytest.raises(InputError):
        routes(Torus(4), src, dst)


def test_bluegene_fifos_of_the_published_rule():
    # (0,0) -> (0,1): B only, plus: FIFO 3. (0,0) -> (3,0): A only, minus: 0. (0,0) -> (3,3):
    # both; 3 + 3 unwrapped = FIFO 6, though two hops away. (0,0) -> (0,0): local.
    torus = Torus((4, 4))
    comm = CommGraph(5, [0] * 4, [1, 2, 3, 4], [1] * 4)
    fifo = injection_fifos(
        MappingProblem(comm, torus), TaskMapping([0, 1, 12, 15, 0], torus, tasks_per_node=2)
    )
    assert fifo.tolist() == [3, 0, 6, -1]


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 12), TIES)
def test_empty_graphs_load_nothing(size, tie):
    torus = Torus((size, 2), tie_break=tie)
    comm = CommGraph(1, [], [], [])
    mapping = TaskMapping([0], torus)
    for routing in ("deterministic", "adaptive"):
        assert not link_loads(MappingProblem(comm, torus, routing), mapping).any()
    assert dilations(MappingProblem(comm, torus), mapping).shape == (0,)
    assert injection_fifos(MappingProblem(comm, torus), mapping).shape == (0,)


def _all_to_all(size):
    src, dst = all_pairs(size)
    apart = src != dst
    comm = CommGraph(size, src[apart], dst[apart], np.full(apart.sum(), 10.0))
    return comm, TaskMapping(np.arange(size), size)


def _wraps(torus, link):
    node, far = link // (2 * torus.ndim), naive.far_end(torus, link)
    apart = np.abs(torus.coords[node] - torus.coords[far])
    return bool(apart.sum() > 1)


@pytest.mark.parametrize("tie", ["split", "random", "booksim"])
@pytest.mark.parametrize("weight", [0.5, 0.7, 1.5])
def test_half_a_weight_is_split_too(tie, weight):
    comm = CommGraph(2, [0], [1], [8])
    loads = link_loads(
        MappingProblem(comm, Torus((2,), tie_break=tie)), TaskMapping([0, 1], 2), weights=[weight]
    )
    assert loads == pytest.approx([weight / 2, weight / 2, 0, 0], rel=1e-12)


def test_long_messages_begin_beyond_the_limit():
    torus = Torus((4, 4)).with_network(deterministic_limit=1000)
    for nbytes, expected in ((1000, "deterministic"), (1001, "adaptive")):
        comm = patterns.halo_2d((4, 4), nbytes)
        assert MappingProblem(comm, torus, "by_size").common_routing == expected


def test_an_edge_that_sends_nothing_does_not_decide_how_a_phase_is_routed():
    comm = patterns.halo_2d((4, 4), 1000)
    silent = CommGraph(
        16, [*comm.src, 0], [*comm.dst, 10], [*comm.nbytes, 1e6], [*comm.n_messages, 0.4]
    )
    assert MappingProblem(silent, (4, 4), "by_size").common_routing == "deterministic"


@pytest.mark.parametrize("torus", [4.5, "4xx", None])
def test_no_torus_is_a_clear_error(torus):
    comm = patterns.halo_2d((4, 4), 1000)
    with pytest.raises(InputError, match="bad torus"):
        link_loads(MappingProblem(comm, torus), TaskMapping(range(16), 16))
