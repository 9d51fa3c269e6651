"""Routes and counters read from real Blue Gene machines, reproduced link for link."""

import re

import numpy as np
import pytest

from toruscast.mapping import MappingProblem, TaskMapping, Torus, patterns
from toruscast.routing import link_loads, routes

# Blue Gene/Q blocks by their number of nodes: sizes along A B C D E, and the order in which their
# static routes correct the dimensions. Mira's block of 1024 nodes does not close along D.
BLOCKS = {
    32: ((2, 2, 2, 2, 2), "DCBAE"),
    64: ((2, 2, 4, 2, 2), "DBACE"),
    128: ((2, 2, 4, 4, 2), "BACDE"),
    256: ((4, 2, 4, 4, 2), "BACDE"),
    512: ((4, 4, 4, 4, 2), "ABCDE"),
    1024: ((4, 4, 4, 8, 2), "DABCE"),
    2048: ((4, 4, 4, 16, 2), "ABCDE"),
}
ROUTES = {
    "IMB-MPI1_Vesta_n32_c16": 1337,
    "IMB-MPI1_Vesta_n32_c1": 137,
    "IMB-MPI1_Vesta_n64_c16": 3185,
    "IoDefault_Mira_n512_c16": 1784,
    "IoOpt_Mira_n512_c16": 1658,
    "MiniAMR_Vesta_n128_c1_s2": 5058,
    "MiniAMR_Vesta_n128_c4_s2": 24702,
    "MiniAMR_Vesta_n256_c1_s2": 12894,
    "MiniAMR_Vesta_n32_c1_s2": 542,
    "MiniAMR_Vesta_n64_c1_s2": 1922,
    "MiniMD_Mira_n1024_c1_w": 11520,
    "MiniMD_Vesta_n128_c1_w": 1024,
    "MiniMD_Vesta_n128_c4_w": 4352,
    "MiniMD_Vesta_n256_c4_w": 8960,
    "MiniMD_Vesta_n32_c4_w": 832,
    "MiniMD_Vesta_n512_c1_w": 5376,
    "MiniMD_Vesta_n64_c16_w": 9216,
    "MiniMD_Vesta_n64_c1_w": 512,
}


def block_of(name):
    """The torus of a run, and its ranks per node, from its file name."""
    n_nodes, ranks = (int(re.search(rf"_{letter}(\d+)_", name + "_")[1]) for letter in "nc")
    shape, order = BLOCKS[n_nodes]
    wrap = (True, True, True, n_nodes != 1024, True)
    torus = Torus(shape, wrap, routing_order=["ABCDE".index(letter) for letter in order])
    assert torus.n_nodes == n_nodes
    return torus, ranks


@pytest.mark.parametrize("name", ROUTES)
def test_static_routes_link_for_link(shared_data, name):
    text = (shared_data / "par-comm-data" / "route" / f"{name}_route.txt").read_text()
    # Hop 1: [47-15] 47 (0 1 0 1 1 3) -> 15 (0 0 0 1 1 3): the pair of ranks, then both ends of one
    # link, rank and coordinates A B C D E T each.
    numbers = np.array(re.findall(r"\d+", text), dtype=np.int64).reshape(-1, 17)
    assert len(numbers) == ROUTES[name]
    torus, ranks = block_of(name)
    src, dst = numbers[:, 1], numbers[:, 2]
    begin, end = torus.node(numbers[:, 4:9]), torus.node(numbers[:, 11:16])
    np.testing.assert_array_equal(numbers[:, 3] // ranks, begin)
    real = set(zip(src.tolist(), dst.tolist(), begin.tolist(), end.tolist(), strict=True))

    pairs = np.unique(numbers[:, 1:3], axis=0)
    first, links = routes(torus, *(pairs // ranks).T)
    pair = np.repeat(pairs, np.diff(first), axis=0)
    # Both links of a ring of two join the same nodes: compare the nodes.
    ends = links // (2 * torus.ndim), torus.neighbors.ravel()[links]
    ours = set(zip(*pair.T.tolist(), *(e.tolist() for e in ends), strict=True))
    assert ours == real


def test_no_route_file_is_left_out(shared_data):
    files = {path.name for path in (shared_data / "par-comm-data" / "route").iterdir()}
    assert files == {f"{name}_route.txt" for name in ROUTES}


def test_recorded_hops_of_every_pair(shared_data):
    compared = 0
    for path in sorted((shared_data / "par-comm-data" / "hopbyte").iterdir()):
        src, dst, _, hops = np.loadtxt(path).T
        torus, ranks = block_of(path.name)
        distance = torus.distance(src.astype(int) // ranks, dst.astype(int) // ranks)
        np.testing.assert_array_equal(distance, hops, err_msg=path.name)
        compared += hops.size
    assert compared > 250_000


def test_counters_of_a_nearest_neighbour_exchange(shared_data):
    # Blue Gene/P, 8x8x8, identity mapping. Code region 1 was entered twice, and counts are kept
    # apart: packets of a link are the sum of both.
    path = shared_data / "boxfish" / "example-data" / "bgpc_links.yaml"
    rows = path.read_text().split("...\n", 1)[1]
    table = np.array(rows.split(), dtype=np.int64).reshape(-1, 9)
    table = table[table[:, 7] == 1]
    torus = Torus((8, 8, 8))
    begin, end = torus.node(table[:, 1:4]), torus.node(table[:, 4:7])
    at = (torus.neighbors[begin] == end[:, None]).argmax(axis=1)
    link = begin * np.int64(2 * torus.ndim) + at
    np.testing.assert_array_equal(torus.neighbors.ravel()[link], end)
    np.testing.assert_array_equal(np.bincount(link), np.full(torus.n_links, 2))
    packets = np.bincount(link, weights=table[:, 8])

    # Every task sends as much across each face of a grid that does not close, nothing elsewhere.
    comm = patterns.halo_3d(torus.shape, 1.0, corner_nbytes=0.0)
    load = link_loads(MappingProblem(comm, torus), TaskMapping(np.arange(512), torus))
    np.testing.assert_array_equal(load == 0, packets == 0)
    assert (load == 0).sum() == 384
    assert np.unique(load[load > 0]).tolist() == [1.0]
    used = packets[load > 0]
    assert np.abs(used / used.mean() - 1).max() < 0.03
