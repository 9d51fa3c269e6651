"""Mapping strategies: valid, distinct, repeatable, and of the quality that they promise."""

from __future__ import annotations

import itertools
import math

import naive_strategies as naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toruscast.errors import InputError
from toruscast.mapping import (
    CommGraph,
    MappingProblem,
    Torus,
    Workload,
    machines,
    patterns,
    strategies,
)
from toruscast.mapping.strategies import Placement, orders, registry
from toruscast.mapping.strategies.orders import factor_near_cube, find_block_shape
from toruscast.mapping.strategies.sampling import all_mappings, count_mappings

shapes = st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple)


@st.composite
def placements(draw):
    """Awkward cases: any grid, any torus or mesh, full or partly filled nodes."""
    grid = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple))
    shape = draw(shapes)
    torus = Torus(shape, wrap=draw(st.tuples(*[st.booleans()] * len(shape))))
    n_tasks = math.prod(grid)
    least = -(-n_tasks // torus.n_nodes)
    capacity = draw(st.one_of(st.none(), st.integers(least, least + 3)))
    edges = draw(st.sets(st.tuples(*[st.integers(0, n_tasks - 1)] * 2), max_size=30))
    src, dst = np.array(sorted(edges), dtype=int).reshape(-1, 2).T
    nbytes = draw(
        st.lists(st.sampled_from([0, 1, 8, 1e6]), min_size=len(edges), max_size=len(edges))
    )
    return CommGraph(n_tasks, src, dst, nbytes, grid=grid), torus, capacity


@settings(max_examples=60, deadline=None)
@given(placements())
def test_every_strategy_fits_the_nodes(case):
    comm, torus, capacity = case
    placement = Placement(MappingProblem(comm, torus), capacity)
    names = strategies.variants(comm, torus, tasks_per_node=capacity)
    for name in (*names, "random", "swap-3-identity"):
        # The constructor of the mapping checks range and capacity.
        mapping = strategies.make(name, comm, torus, tasks_per_node=capacity, seed=5)
        mapping.check(comm.n_tasks, torus)
        assert mapping.name == name
        assert mapping.occupancy.max() <= placement.capacity


@settings(max_examples=40, deadline=None)
@given(placements(), st.integers(1, 30))
def test_sample_is_distinct_or_says_how_many_there_are(case, n):
    comm, torus, capacity = case
    placement = Placement(MappingProblem(comm, torus), capacity)
    possible = count_mappings(placement)
    if n > possible:
        with pytest.raises(InputError, match=f"found {possible}, expected {n}"):
            strategies.sample(comm, torus, n, tasks_per_node=capacity)
        return
    mappings = strategies.sample(comm, torus, n, seed=3, tasks_per_node=capacity)
    assert len(mappings) == n
    assert len({m.node.tobytes() for m in mappings}) == n
    assert len({m.name for m in mappings}) == n
    for mapping in mappings:
        again = strategies.make(mapping.name, comm, torus, tasks_per_node=capacity, seed=3)
        assert np.array_equal(mapping.node, again.node)


def test_sample_can_take_every_mapping_there_is():
    # 4 tasks on 4 nodes of one slot: 4! mappings.
    comm, torus = patterns.ring(4, 8), Torus((2, 2))
    everything = strategies.sample(comm, torus, 24)
    assert {tuple(m.node.tolist()) for m in everything} == set(itertools.permutations(range(4)))
    rest = strategies.sample(comm, torus, 4, exclude=everything[:20])
    assert {m.node.tobytes() for m in rest} == {m.node.tobytes() for m in everything[20:]}
    with pytest.raises(InputError, match="found 24, 20 of them excluded, expected 5"):
        strategies.sample(comm, torus, 5, exclude=everything[:20])


def test_two_tasks_on_two_nodes():
    comm, torus = patterns.ring(2, 8), Torus((2,))
    assert len(strategies.sample(comm, torus, 2)) == 2
    with pytest.raises(InputError, match="not enough different mappings: found 2, expected 84"):
        strategies.sample(comm, torus)


def test_sample_repeats_and_follows_the_seed():
    comm, torus = patterns.halo_3d((4, 4, 4), 8), Torus((4, 4, 4))
    first, again, other = (strategies.sample(comm, torus, 60, seed=seed) for seed in (1, 1, 2))
    assert [m.name for m in first] == [m.name for m in again]
    assert all(np.array_equal(a.node, b.node) for a, b in zip(first, again, strict=True))
    random = {m.node.tobytes() for m in first if m.name.startswith(("random", "swap"))}
    assert len(random) >= 15
    # One swap may coincide by chance, long disturbances cannot.
    assert len(random & {m.node.tobytes() for m in other}) <= 1


def test_excluded_mappings_stay_out():
    comm, torus = patterns.halo_3d((4, 4, 4), 8), Torus((4, 4, 4))
    first = strategies.sample(comm, torus, 50, seed=1)
    second = strategies.sample(comm, torus, 200, seed=1, exclude=first)
    assert len({m.node.tobytes() for m in first + second}) == 250


@pytest.mark.parametrize(
    ("comm", "torus", "ratio"),
    [
        (patterns.halo_3d((8, 8, 8), 1e4), Torus((8, 8, 8)), 2.5),
        (patterns.halo_2d((16, 16), 1e4), machines.bluegene_q(nodes=32), 6),
        (patterns.pf3d((4, 4, 8)), Torus((4, 8, 4), wrap=False), 4),
        (patterns.halo_3d((5, 3, 7), 1e4), Torus((4, 4, 3)), 1.6),
    ],
)
def test_sample_spans_good_to_random(comm, torus, ratio):
    placement = Placement(MappingProblem(comm, torus))
    mappings = strategies.sample(comm, torus, 84, seed=1)
    cost = np.array([placement.hop_bytes(m.node) for m in mappings])
    chance = np.median([placement.hop_bytes(m.node) for m in mappings if "random" in m.name])
    assert chance / cost.min() >= ratio
    # Each quarter of the way from the best to random is populated.
    inner, _ = np.histogram(cost, np.linspace(cost.min(), chance, 5))
    assert (inner >= 6).all()
    families = [m.name.split("-")[0].split("@")[0] for m in mappings]
    structured = [family for family in families if family not in ("swap", "random")]
    assert len(set(structured)) >= 6
    assert max(structured.count(family) for family in set(structured)) <= 20


def test_sample_may_be_large():
    comm, torus = patterns.halo_2d((8, 8), 8), Torus((8, 8))
    mappings = strategies.sample(comm, torus, 1000)
    assert len({m.node.tobytes() for m in mappings}) == 1000


def test_identity_of_a_matching_halo_has_dilation_one():
    comm, torus = patterns.halo_2d((4, 6), 8, periodic=True), Torus((4, 6))
    node = strategies.make("identity", comm, torus).node
    assert (torus.distance(node[comm.src], node[comm.dst]) == 1).all()


def test_recursive_bisection_finds_the_matching_torus():
    # Six faces at 1 hop and, on this mesh, eight corners at 3: the identity cannot be beaten.
    comm, torus = patterns.halo_3d((8, 4, 4), 8), Torus((4, 8, 4), wrap=False)
    placement = Placement(MappingProblem(comm, torus))
    best = placement.hop_bytes(strategies.make("permute-YXZ", comm, torus).node)
    assert placement.hop_bytes(strategies.make("bisect-grid", comm, torus).node) <= best * 1.0001


@pytest.mark.parametrize(
    ("name", "share"), [("bisect-graph", 0.3), ("bisect-refined", 0.3), ("greedy-heaviest", 0.5)]
)
def test_graph_strategies_see_through_shuffled_ranks(name, share):
    # Ranks in random order hide the grid; only the graph still shows it.
    halo, torus = patterns.halo_2d((8, 8), 8), Torus((4, 4))
    shuffle = np.random.default_rng(1).permutation(64)
    comm = CommGraph(64, shuffle[halo.src], shuffle[halo.dst], halo.nbytes)
    placement = Placement(MappingProblem(comm, torus))
    chance = placement.hop_bytes(strategies.make("random", comm, torus).node)
    assert placement.hop_bytes(strategies.make(name, comm, torus).node) < share * chance


@pytest.mark.parametrize("sizes", [(4, 4), (4, 8), (4, 4, 4), (8, 8)], ids=str)
def test_a_spectral_layout_does_not_depend_on_the_processor(sizes, monkeypatch):
    comm = getattr(patterns, f"halo_{len(sizes)}d")(sizes, 2048, periodic=True)
    expected = strategies.make("spectral", comm, Torus(sizes)).node
    solve, rng = np.linalg.eigh, np.random.default_rng(7)

    def solve_elsewhere(matrix):
        # Another library returns other vectors of each eigenspace, with other rounding errors.
        values, vectors = solve(matrix)
        for group in np.split(np.arange(values.size), np.flatnonzero(np.diff(values) > 1e-9) + 1):
            rotation = np.linalg.qr(rng.normal(size=(group.size, group.size)))[0]
            vectors[:, group] = vectors[:, group] @ rotation
        return values, vectors + 1e-15 * rng.normal(size=vectors.shape)

    monkeypatch.setattr(np.linalg, "eigh", solve_elsewhere)
    assert (strategies.make("spectral", comm, Torus(sizes)).node == expected).all()


def test_a_spectral_layout_takes_each_way_of_like_dimensions_once():
    # Ways that only exchange like dimensions leave no place for others: 0.77 of the identity.
    comm, torus = patterns.halo_3d((8, 8, 8), 8), machines.bluegene_q((4, 4, 4, 4, 2))
    placement = Placement(MappingProblem(comm, torus))
    identity = placement.hop_bytes(strategies.make("identity", comm, torus).node)
    assert placement.hop_bytes(strategies.make("spectral", comm, torus).node) < 0.65 * identity


def test_greedy_placement_begins_with_the_heaviest_task():
    # Task 2 sends and receives most, and most of it from 3; 0 follows.
    comm = CommGraph(4, [2, 3, 0, 1], [3, 2, 2, 0], [50, 40, 30, 1])
    node = strategies.make("greedy-heaviest", comm, Torus((8,), wrap=False)).node
    assert node[[2, 3]].tolist() == [0, 1]


def test_more_swaps_are_worse():
    comm, torus = patterns.halo_3d((8, 8, 8), 8), Torus((8, 8, 8))
    placement = Placement(MappingProblem(comm, torus))
    cost = [
        placement.hop_bytes(strategies.make(f"swap-{k}-identity", comm, torus).node)
        for k in (0, 8, 64, 512)
    ]
    assert cost == sorted(set(cost))
    assert cost[0] == placement.hop_bytes(np.arange(512))


def test_slots_take_their_turn():
    comm, torus = patterns.ring(6, 8), Torus((3,))
    assert strategies.make("permute-XT", comm, torus).node.tolist() == [0, 0, 1, 1, 2, 2]
    assert strategies.make("permute-TX", comm, torus).node.tolist() == [0, 1, 2, 0, 1, 2]
    # The first line of slots forwards, the second back.
    assert strategies.make("zigzag-TX", comm, torus).node.tolist() == [0, 1, 2, 2, 1, 0]
    assert strategies.make("stride-5", comm, torus).node.tolist() == [0, 2, 2, 1, 1, 0]


def test_tilt_shifts_each_row():
    comm, torus = patterns.halo_2d((2, 3), 8), Torus((2, 3))
    # Row x starts at y = 2 x modulo 3.
    assert strategies.make("tilt-YX-2", comm, torus).node.tolist() == [0, 1, 2, 5, 3, 4]
    twice = strategies.make("tilt-YX-1-YX-1", comm, torus)
    assert np.array_equal(twice.node, strategies.make("tilt-YX-2", comm, torus).node)


def test_tiles_and_blocks():
    comm, torus = patterns.halo_2d((4, 4), 8), Torus((2, 2))
    by_box = strategies.make("blocked-2x2-row", comm, torus)
    expected = [[0, 0, 1, 1], [0, 0, 1, 1], [2, 2, 3, 3], [2, 2, 3, 3]]
    assert by_box.node.reshape(4, 4).tolist() == expected
    comm, torus = patterns.halo_2d((2, 4), 8), Torus((2, 4))
    assert strategies.make("tile-2x2", comm, torus).node.tolist() == list(range(8))
    # Each row of four tasks folds into a 2 x 2 block.
    assert strategies.make("tile-1x4", comm, torus).node.tolist() == [0, 1, 4, 5, 2, 3, 6, 7]


@pytest.mark.parametrize("shape", [(4, 4), (8, 8), (16, 16), (2, 2, 2), (8, 8, 8), (4, 4, 4, 4)])
def test_hilbert_neighbours_adjoin(shape):
    coords = np.array(list(np.ndindex(shape)))[orders.order_hilbert(shape)]
    assert (np.abs(np.diff(coords, axis=0)).sum(axis=1) == 1).all()


@settings(deadline=None)
@given(shapes)
def test_orders_visit_every_cell_once(shape):
    everything = list(range(math.prod(shape)))
    axes = range(len(shape))
    for order in (
        orders.order_hilbert(shape),
        orders.order_z_curve(shape),
        orders.order_zigzag(shape, axes[::-1]),
        orders.order_by_axes(shape, axes[::-1]),
        orders.order_by_tile(shape, [2] * len(shape)),
    ):
        assert sorted(order.tolist()) == everything


@settings(deadline=None)
@given(shapes)
def test_z_order_equals_interleaved_bits(shape):
    assert orders.order_z_curve(shape).tolist() == naive.z_order(shape)


@settings(deadline=None)
@given(shapes)
def test_zigzag_equals_recursive_walk(shape):
    cells = list(np.ndindex(shape))
    walk = [cells[i] for i in orders.order_zigzag(shape, range(len(shape)))]
    assert walk == naive.zigzag(shape)


@pytest.mark.parametrize(
    ("tasks", "nodes", "capacity"), [(4, 3, 2), (3, 5, 1), (5, 2, 5), (1, 1, 1)]
)
def test_counting_equals_listing(tasks, nodes, capacity):
    placement = Placement(MappingProblem(CommGraph(tasks, [], [], []), (nodes,)), capacity)
    expected = naive.all_mappings(tasks, nodes, capacity)
    assert list(all_mappings(placement)) == expected
    assert count_mappings(placement) == len(expected)


@settings(max_examples=30, deadline=None)
@given(placements())
def test_hop_bytes_equals_loop(case):
    comm, torus, capacity = case
    placement = Placement(MappingProblem(comm, torus), capacity)
    node = strategies.make("random", comm, torus, tasks_per_node=capacity).node
    assert placement.hop_bytes(node) == pytest.approx(naive.hop_bytes(comm, torus, node))


@settings(deadline=None)
@given(st.integers(1, 3000), st.integers(1, 4))
def test_near_cube_multiplies_up(volume, ndim):
    assert math.prod(factor_near_cube(volume, ndim)) == volume
    assert len(factor_near_cube(volume, ndim)) == ndim


@settings(deadline=None)
@given(shapes, st.integers(1, 40))
def test_block_fits(shape, volume):
    block = find_block_shape(shape, volume)
    assert math.prod(block) <= volume
    assert all(1 <= edge <= size for edge, size in zip(block, shape, strict=True))


def test_workload_is_mapped_by_its_total():
    step = patterns.pf3d((2, 2, 4))
    assert isinstance(step, Workload)
    a = strategies.make("greedy-heaviest", step, Torus((4, 4)))
    b = strategies.make("greedy-heaviest", step.total, Torus((4, 4)))
    assert np.array_equal(a.node, b.node)


def test_names_cover_the_registry():
    assert len(strategies.patterns()) == len(strategies.STRATEGIES)
    with pytest.raises(InputError, match="duplicate strategy name"):
        strategies.register("identity")


@pytest.mark.parametrize("name", ["random", "greedy-random", "swap-3-identity"])
def test_draws_of_a_name_differ(name):
    comm, torus = patterns.halo_2d((8, 8), 8), Torus((8, 8))
    drawn = [strategies.make(f"{name}@{k}", comm, torus).node.tobytes() for k in (0, 1, 2, 10)]
    assert len(set(drawn)) == 4


def test_own_strategy_joins_the_sample():
    comm, torus = patterns.halo_2d((4, 4), 8), Torus((4, 4))

    @strategies.register("backwards")
    def backwards(placement, variant, rng):
        return np.arange(placement.n_tasks)[::-1]

    @strategies.register("drawn-SIDE", lambda placement: ["left"])
    def drawn(placement, variant, rng):
        return rng.permutation(placement.torus.n_nodes)

    try:
        assert strategies.make("backwards", comm, torus).node[0] == 15
        for mapping in strategies.sample(comm, torus, 40, seed=9):
            again = strategies.make(mapping.name, comm, torus, seed=9)
            assert np.array_equal(mapping.node, again.node)
    finally:
        del registry.STRATEGIES["backwards"], registry.STRATEGIES["drawn"]


def test_equal_hop_bytes_still_give_structured_mappings():
    # Any bijection onto a torus gives an all-to-all the same hop-bytes.
    mappings = strategies.sample(patterns.all_to_all(64, 8), Torus((4, 4, 4)), 40)
    structured = [m.name for m in mappings if not m.name.startswith(("swap", "random"))]
    assert len(structured) >= 10


def test_many_mappings_are_not_counted():
    line = patterns.ring(64, 8)
    torus = Torus((8, 8))
    assert count_mappings(Placement(MappingProblem(line, torus))) == math.inf
    # The sixth in order: the last three of them stand in reverse.
    assert strategies.make("nth-5", line, torus).node.tolist() == [*range(61), 63, 62, 61]


@given(
    edges=st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), unique=True),
    data=st.data(),
)
def test_partners_are_the_sum_of_both_directions(edges, data):
    amounts = st.sampled_from([0.0, 1.0, 0.1, 3e15])
    sent = data.draw(st.lists(amounts, min_size=len(edges), max_size=len(edges)))
    src, dst = np.array(edges, dtype=int).reshape(-1, 2).T
    found = Placement(MappingProblem(CommGraph(8, src, dst, sent), Torus((8,)))).partners
    weights = np.zeros((8, 8))
    weights[src, dst] = sent
    np.fill_diagonal(weights, 0)
    both = weights + weights.T
    task, partner = np.nonzero(both)
    assert found.first.tolist() == [0, *np.cumsum(np.bincount(task, minlength=8)).tolist()]
    assert found.partner.tolist() == partner.tolist()
    assert found.nbytes.tolist() == both[task, partner].tolist()
