"""Twisted tori: neighbours and distances against NetworkX, and how they are written."""

import networkx as nx
import numpy as np
import pytest

import toruscast as tc
from toruscast.errors import InputError
from toruscast.mapping import Torus
from toruscast.mapping.twist import default_twist, find_images

SHAPES = [(4, 4, 8), (4, 8, 8), (8, 4, 4), (2, 2, 4), (3, 6, 3)]


def twisted(shape, **options):
    return Torus(shape, twist=default_twist(shape), **options)


@pytest.mark.parametrize("shape", SHAPES)
def test_every_distance_is_that_of_networkx(shape):
    torus = twisted(shape)
    graph = torus.to_networkx()
    nodes = np.arange(torus.n_nodes)
    hops = torus.distance(nodes[:, None], nodes)
    for node, lengths in nx.all_pairs_shortest_path_length(graph):
        assert hops[node].tolist() == [lengths[other] for other in nodes]
    assert torus.diameter == nx.diameter(graph.to_undirected())


def test_published_figures_of_a_slice():
    # Of all pairs of different nodes, as an independent program has them; plain 4.0315 and 8.
    torus, plain = tc.torus("tpu_v4:4x4x8"), tc.torus("tpu_v4:4x4x8:untwisted")
    for slice, mean, diameter in ((torus, 3.464566929, 6), (plain, 4.031496063, 8)):
        nodes = np.arange(128)
        hops = slice.distance(nodes[:, None], nodes)
        assert hops.sum() / (128 * 127) == pytest.approx(mean, abs=1e-9)
        assert hops.max() == slice.diameter == diameter


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("tie", ["plus", "source_parity"])
def test_hops_lead_where_they_should(shape, tie):
    torus = twisted(shape, tie_break=tie, routing_order=(2, 0, 1))
    src, dst = np.divmod(np.arange(torus.n_nodes**2), torus.n_nodes)
    hops = torus.twisted_hops(src, dst)
    assert np.abs(hops).sum(axis=1).tolist() == torus.distance(src, dst).tolist()
    here = src.copy()
    for d in range(3):
        for done in range(np.abs(hops[:, d]).max()):
            going = np.abs(hops[:, d]) > done
            port = 2 * d + (hops[:, d] < 0)
            here[going] = torus.neighbors[here[going], port[going]]
    assert here.tolist() == dst.tolist()


@pytest.mark.parametrize("shape", SHAPES)
def test_every_link_has_its_way_back(shape):
    torus = twisted(shape)
    for node in range(torus.n_nodes):
        for port in range(6):
            far = torus.neighbors[node, port]
            assert torus.neighbors[far, port ^ 1] == node


@pytest.mark.parametrize("shape", SHAPES)
def test_the_nearest_image_is_as_far_as_the_way(shape):
    torus = twisted(shape)
    images = find_images(torus.shape, torus.twist)
    apart = np.abs(torus.coords[:, None] + images).sum(axis=2).min(axis=1)
    assert apart.tolist() == torus.distance(0, np.arange(torus.n_nodes)).tolist()


def test_rings_of_a_dimension():
    torus = twisted((4, 4, 8))
    assert torus.ring_lengths == (8, 8, 8)
    for d in range(3):
        place, following = torus.ring_places[:, d], torus.neighbors[:, 2 * d]
        assert (place[following] == (place + 1) % 8).all()


@pytest.mark.parametrize(
    ("text", "printed", "is_twisted"),
    [
        ("tpu_v4:4x4x8", "tpu_v4 4x4x8:twisted", True),
        ("tpu_v4:4x4x8_untwisted", "tpu_v4 4x4x8:untwisted", False),
        ("tpu_v5p:8x16x16", "tpu_v5p 8x16x16:twisted", True),
        ("tpu_v5p:8x8x8", "tpu_v5p 8x8x8", False),
        ("tpu_v5p:16x16x24", "tpu_v5p 16x16x24", False),
        ("tpu_v4:2x2x4", "tpu_v4 2mx2mx4m", False),
        ("4x4x8:twisted", "4x4x8:twisted", True),
        ("4x4x8", "4x4x8", False),
        ("4x4x8:untwisted", "4x4x8", False),
    ],
)
def test_how_a_twist_is_written(text, printed, is_twisted):
    torus = tc.torus(text)
    assert str(torus) == printed
    assert bool(torus.twist) == is_twisted
    assert tc.torus(printed) == tc.torus(printed.replace(" ", ":")) == torus


@pytest.mark.parametrize(
    "text",
    [
        "tpu_v4:4x4x4:twisted",
        "tpu_v4:2x2x4:twisted",
        "tpu_v6e:4x8:twisted",
        "4x4:twisted",
        "4mx4x8:twisted",
        "4x4x8:twist",
    ],
)
def test_what_is_not_twisted(text):
    with pytest.raises(InputError):
        tc.torus(text)


@pytest.mark.parametrize(
    "twist",
    [
        [[0, 1, 0], [1, 0, 0], [0, 0, 0]],
        [[1, 0, 0], [0, 0, 0], [0, 0, 0]],
        [[0, 0, 1]],
        [[0, 0.5, 0]] * 3,
        5,
        "no",
    ],
)
def test_bad_twists(twist):
    with pytest.raises(InputError, match="bad twist"):
        Torus((4, 4, 8), twist=twist)
    with pytest.raises(InputError, match="bad twist"):
        Torus((4, 4, 8), wrap=(True, True, False), twist=default_twist((4, 4, 8)))


@pytest.mark.parametrize("tie", ["random", "split", "booksim", "sum_parity", "simgrid"])
def test_ties_that_twisted_tori_do_not_have(tie):
    with pytest.raises(InputError, match="bad twisted torus"):
        twisted((4, 4, 8), tie_break=tie)
