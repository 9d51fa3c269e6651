"""Laws of link loads: order, translation, reflection, doubling, union, numbers of any size."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_cases import examples, twisted

import toruscast as tc
from toruscast.mapping import MappingProblem
from toruscast.routing import link_loads

BYTES = st.integers(0, 2**40)
SMALL_OR_HUGE = st.sampled_from([0, 1, 2**31, 2**53 - 1, 2**53 + 1, 2**62 + 1, 2**63 - 1, 2**63])


@st.composite
def plain(draw):
    return tc.Torus(draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)), tie_break="plus")


@st.composite
def without_ties(draw):
    """Rings of odd size, and meshes."""
    shape = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    return tc.Torus(shape, wrap=[size % 2 == 1 and draw(st.booleans()) for size in shape])


@st.composite
def cases(draw, tori=None, amounts=BYTES):
    torus = draw(plain() if tori is None else tori)
    n = torus.n_nodes
    pair = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1))
    pairs = draw(st.lists(pair, unique=True, max_size=30))
    nbytes = draw(st.lists(amounts, min_size=len(pairs), max_size=len(pairs)))
    node = np.random.default_rng(draw(st.integers(0, 2**32))).permutation(n)
    return torus, pairs, nbytes, node


def graph(n, pairs, nbytes):
    src, dst = zip(*pairs, strict=True) if pairs else ((), ())
    return tc.CommGraph(n, src, dst, nbytes)


def by_node(comm, torus, node):
    """Loads, a row for each node."""
    return link_loads(MappingProblem(comm, torus), tc.TaskMapping(node, torus)).reshape(
        torus.n_nodes, -1
    )


@examples(40)
@given(cases(), st.randoms(use_true_random=False))
def test_loads_do_not_depend_on_the_order_of_edges_and_double_with_bytes(case, rng):
    torus, pairs, nbytes, node = case
    mapping = tc.TaskMapping(node, torus)
    loads = link_loads(MappingProblem(graph(torus.n_nodes, pairs, nbytes), torus), mapping)
    order = list(range(len(pairs)))
    rng.shuffle(order)
    shuffled = graph(torus.n_nodes, [pairs[i] for i in order], [nbytes[i] for i in order])
    np.testing.assert_array_equal(link_loads(MappingProblem(shuffled, torus), mapping), loads)
    doubled = graph(torus.n_nodes, pairs, [2 * b for b in nbytes])
    np.testing.assert_array_equal(link_loads(MappingProblem(doubled, torus), mapping), 2 * loads)
    half = len(pairs) // 2
    parts = [
        link_loads(MappingProblem(graph(torus.n_nodes, pairs[part], nbytes[part]), torus), mapping)
        for part in (slice(half), slice(half, None))
    ]
    np.testing.assert_array_equal(parts[0] + parts[1], loads)


@examples(40)
@given(cases(), st.integers(0, 63))
def test_loads_of_a_translated_mapping_are_translated(case, by):
    torus, pairs, nbytes, node = case
    comm = graph(torus.n_nodes, pairs, nbytes)
    shift = torus.coords[by % torus.n_nodes]
    moved = torus.node((torus.coords + shift) % np.array(torus.shape))
    before, after = by_node(comm, torus, node), by_node(comm, torus, moved[node])
    np.testing.assert_array_equal(after[moved], before)


@examples(40)
@given(cases(twisted()), st.integers(0, 5))
def test_loads_of_a_mapping_moved_along_a_link_of_a_twisted_torus_move(case, link):
    given_torus, pairs, nbytes, node = case
    # Parity is no matter of twisted coordinates: what depends on it does not move with them.
    torus = replace(given_torus, tie_break="plus")
    moved = torus.neighbors[:, link]
    comm = graph(torus.n_nodes, pairs, nbytes)
    before, after = by_node(comm, torus, node), by_node(comm, torus, moved[node])
    np.testing.assert_array_equal(after[moved], before)


@examples(40)
@given(cases(without_ties()), st.data())
def test_loads_of_a_reflected_mapping_are_reflected(case, data):
    torus, pairs, nbytes, node = case
    comm = graph(torus.n_nodes, pairs, nbytes)
    d = data.draw(st.integers(0, torus.ndim - 1))
    coords = torus.coords.copy()
    coords[:, d] = torus.shape[d] - 1 - coords[:, d]
    mirrored = torus.node(coords)
    before, after = by_node(comm, torus, node), by_node(comm, torus, mirrored[node])
    # Plus and minus of the dimension change places.
    swapped = np.arange(2 * torus.ndim)
    swapped[[2 * d, 2 * d + 1]] = 2 * d + 1, 2 * d
    np.testing.assert_array_equal(after[mirrored][:, swapped], before)


@examples(40)
@given(cases(amounts=SMALL_OR_HUGE))
def test_sums_of_byte_counts_up_to_2_to_the_63_are_as_exact_as_numbers_are(case):
    torus, pairs, nbytes, node = case
    comm = graph(torus.n_nodes, pairs, nbytes)
    loads = by_node(comm, torus, node)
    hops = torus.distance(node[comm.src], node[comm.dst])
    sent = dict(zip(pairs, nbytes, strict=True))
    edges = zip(comm.src.tolist(), comm.dst.tolist(), hops.tolist(), strict=True)
    exact = sum(sent[src, dst] * n for src, dst, n in edges)
    assert (loads >= 0).all()
    # Fixed point: each edge is rounded by so little of all bytes, on each link of its route.
    rounding = float(sum(nbytes)) * 2.0**-61 * max(int(hops.sum()), 1)
    assert loads.sum() == pytest.approx(float(exact), rel=1e-14, abs=rounding)
    assert comm.nbytes.sum() == pytest.approx(float(sum(nbytes)), rel=1e-14)
