"""The torus: numbering, neighbours, distances, text form, and arguments that make no sense."""

import naive
import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_cases import tori

import toruscast as tc
from toruscast.errors import InputError
from toruscast.mapping import Network, Torus


@settings(max_examples=60, deadline=None)
@given(tori())
def test_numbering_neighbours_and_labels(torus):
    nodes = np.arange(torus.n_nodes)
    assert [tuple(c) for c in torus.coords.tolist()] == [naive.coords(torus, n) for n in nodes]
    np.testing.assert_array_equal(torus.node(torus.coords), nodes)
    for link, far in enumerate(torus.neighbors.ravel().tolist()):
        twin = naive.far_end(torus, link)
        assert far == (-1 if twin is None else twin)
        node, port = divmod(link, 2 * torus.ndim)
        assert torus.link(node, port // 2, -1 if port % 2 else 1) == link
    np.testing.assert_array_equal(torus.link_exists, torus.neighbors.ravel() >= 0)
    assert torus.n_existing_links == torus.link_exists.sum()
    labels = {torus.link_label(link) for link in range(torus.n_links)}
    assert len(labels) == torus.n_links


@settings(max_examples=30, deadline=None)
@given(tori(max_nodes=40))
def test_every_link_has_a_way_back(torus):
    graph = torus.to_networkx()
    assert graph.number_of_nodes() == torus.n_nodes
    assert all(graph.has_edge(b, a) for a, b in graph.edges)
    assert nx.is_strongly_connected(graph)
    nodes = np.arange(torus.n_nodes)
    assert torus.distance(nodes[:, None], nodes).max() == torus.diameter


@settings(max_examples=30, deadline=None)
@given(tori())
def test_text_form_reads_back(torus):
    assert tc.torus(str(torus)).shape == torus.shape
    assert tc.torus(str(torus)).wrap == torus.wrap


def test_link_bandwidth_and_frozen_arrays():
    torus = Torus((2, 3), bandwidth=(1e9, 5e9))
    assert torus.link_bandwidth[:4].tolist() == [1e9, 1e9, 5e9, 5e9]
    for array in (torus.coords, torus.neighbors, torus.link_exists, torus.link_bandwidth):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_with_network_changes_only_what_is_named():
    torus = Torus(4, tie_break="plus").with_network(fifos=3)
    assert torus == Torus(4, tie_break="plus", network=Network(fifos=3))


def test_zones_are_kept_in_their_order():
    assert Torus((4, 4)).zones == ()
    torus = Torus((4, 4, 2), zones=[[2], np.array([1, 0])])
    assert torus.zones == ((2,), (1, 0))
    assert torus.with_network(fifos=3).zones == torus.zones
    assert hash(torus) != hash(Torus((4, 4, 2)))


def test_what_a_deadlock_rule_needs_of_the_buffers():
    assert Network(deadlock="dateline", buffer_packets=1).buffer_packets == 1
    assert Network(eager_limit=float("inf")) == Network()
    with pytest.raises(InputError, match="buffer_packets for the bubble rule: found 1, expected 2"):
        Network(buffer_packets=1)


def test_numbers_of_a_network_are_of_their_kind():
    network = Network(fifos=10.0, payload=np.float64(512))
    assert type(network.fifos) is type(network.payload) is int
    assert Network(deterministic_limit=float("inf")).deterministic_limit == float("inf")


NAN, INF = float("nan"), float("inf")
# fmt: off
BAD_FIELDS = {
    "shape": [
        (), (0,), (4, -1), (2.5, 4), "4x4", None, ("a",), (NAN,), (INF,), 2.5, (2**13, 2**13),
        (10**400,), (2,) * 9,
    ],
    "wrap": [
        (True, False, True), "no", ("False", "True"), NAN, 2, None, [[True], [True, False]],
    ],
    "bandwidth": [
        0, -1.0, NAN, INF, "fast", (1, 2, 3), 1e-320, 1e300, 10**400, [[1e9], [1e9, 2e9]],
    ],
    "routing_order": [5, (0,), (0, 0), (1, 2), "BA", [[0], [1, 0]]],
    "axes": [5, "X", "XX", "XT", "X1", "XYZ", ("X", "Y"), "Xé", np.array(["A", "B"])],
    "tie_break": ["minus", None, [], np.array(["plus", "split"])],
    "network": [None],
    "zones": [
        [[0]], [[0, 1], []], [[0, 1], [1]], [[0], [2]], [0, 1], [[0.5, 1]], ["A", "B"], None, 3,
    ],
}
BAD_CONSTANTS = {
    "payload": [0, 1.5, None, 10**400],
    "header": [-1],
    "hop_latency": [-1e-9, NAN],
    "buffer_packets": [1],
    "fifos": [0],
    "fifo_rule": ["any", np.array(["bluegene_q", "first_free"])],
    "overhead": [INF],
    "memory_bandwidth": [0, "a lot"],
    "deadlock": ["bubbles", None],
    "feeding": [[]],
    "reception_ports": [0, 1.5],
    "short_limit": [-1, 10**400],
    "short_overhead": [INF],
    "eager_limit": [-1.0, NAN, -INF, None],
}
# fmt: on


@pytest.mark.parametrize("field", BAD_FIELDS)
def test_bad_torus(field):
    for value in BAD_FIELDS[field]:
        with pytest.raises(InputError):
            Torus(**{"shape": (4, 4), field: value})


@pytest.mark.parametrize("field", BAD_CONSTANTS)
def test_bad_network(field):
    for value in BAD_CONSTANTS[field]:
        with pytest.raises(InputError):
            Network(**{field: value})
    for rule in ("dateline", "none"):
        with pytest.raises(InputError):
            Network(deadlock=rule, buffer_packets=0)
    with pytest.raises(InputError):
        Torus((4,)).with_network(foo=1)


def test_arrays_say_as_much_as_tuples():
    torus = Torus(
        np.array([4, 2]),
        wrap=np.array([1, 0]),
        bandwidth=np.array([1e9, 2e9]),
        routing_order=np.array([1, 0]),
    )
    assert torus == Torus((4, 2), (True, False), (1e9, 2e9), (1, 0))
    assert Torus((4, 2), wrap=np.True_) == Torus((4, 2), wrap=(np.bool_(1), 1)) == Torus((4, 2))
    assert Torus((4, 2), np.array(False)).wrap == (False, False)
    assert hash(torus) == hash(Torus((4, 2), (True, False), (1e9, 2e9), (1, 0)))


@pytest.mark.parametrize(
    "text",
    ["", "x", "4x", "4y4", "4x-4", "0x4", "4x4x", "4 x 4", "4x4 m", "mx4", "٤x4", "4.5", "9" * 50],
)
def test_bad_text_form(text):
    with pytest.raises(InputError):
        tc.torus(text)


@pytest.mark.parametrize(
    "coords", [[0], [[0, 1, 2]], 3, [4, 0], [0, -1], [0.5, 0], ["a", "b"], [[0], [1, 2]]]
)
def test_bad_coordinates(coords):
    with pytest.raises(InputError):
        Torus((4, 4)).node(coords)


@pytest.mark.parametrize("nodes", [-1, 16, [0, 99], 0.5, "a", [2**40], [[0], [1, 2]]])
def test_bad_nodes(nodes):
    with pytest.raises(InputError):
        Torus((4, 4)).distance(nodes, 0)


@given(st.integers(0, 15), st.integers(0, 15))
def test_distance_is_symmetric(a, b):
    torus = Torus((4, 4), wrap=(True, False))
    assert torus.distance(a, b) == torus.distance(b, a)


def test_links_that_are_not_there():
    torus = Torus((4, 4))
    assert torus.link_label(torus.link(5, 1, -1)) == "(1,1) -Y"
    for arguments in ((16, 0, 1), (-1, 0, 1), (3, 2, 1), (3, 0, 0)):
        with pytest.raises(InputError, match=r"bad (node|dimension|direction)"):
            torus.link(*arguments)
    for link in (-1, torus.n_links):
        with pytest.raises(InputError, match="bad link"):
            torus.link_label(link)
