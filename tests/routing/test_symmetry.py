"""Laws of link loads and of the sum of bytes: order, translation, doubling, union."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import toruscast as tc
from toruscast.routing import link_loads


@st.composite
def cases(draw):
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    torus = tc.Torus(shape, tie="plus")
    n = torus.n_nodes
    pairs = draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), unique=True))
    nbytes = draw(st.lists(st.integers(0, 2**40), min_size=len(pairs), max_size=len(pairs)))
    node = np.array(draw(st.permutations(range(n))))
    return torus, pairs, nbytes, node


def graph(n, pairs, nbytes):
    src, dst = zip(*pairs, strict=True) if pairs else ((), ())
    return tc.CommGraph(n, src, dst, nbytes)


@settings(max_examples=40, deadline=None)
@given(cases(), st.randoms(use_true_random=False))
def test_loads_do_not_depend_on_the_order_of_edges_and_double_with_bytes(case, rng):
    torus, pairs, nbytes, node = case
    mapping = tc.TaskMapping(node, torus)
    loads = link_loads(graph(torus.n_nodes, pairs, nbytes), torus, mapping)
    order = list(range(len(pairs)))
    rng.shuffle(order)
    shuffled = graph(torus.n_nodes, [pairs[i] for i in order], [nbytes[i] for i in order])
    np.testing.assert_array_equal(link_loads(shuffled, torus, mapping), loads)
    doubled = graph(torus.n_nodes, pairs, [2 * b for b in nbytes])
    np.testing.assert_array_equal(link_loads(doubled, torus, mapping), 2 * loads)
    half = len(pairs) // 2
    parts = [
        link_loads(graph(torus.n_nodes, pairs[part], nbytes[part]), torus, mapping)
        for part in (slice(half), slice(half, None))
    ]
    np.testing.assert_array_equal(parts[0] + parts[1], loads)


@settings(max_examples=40, deadline=None)
@given(cases(), st.integers(0, 63))
def test_loads_of_a_translated_mapping_are_translated(case, by):
    torus, pairs, nbytes, node = case
    comm = graph(torus.n_nodes, pairs, nbytes)
    shift = torus.coords[by % torus.n_nodes]
    moved = torus.node((torus.coords + shift) % np.array(torus.shape))
    before = link_loads(comm, torus, tc.TaskMapping(node, torus)).reshape(torus.n_nodes, -1)
    after = link_loads(comm, torus, tc.TaskMapping(moved[node], torus)).reshape(torus.n_nodes, -1)
    np.testing.assert_array_equal(after[moved], before)
