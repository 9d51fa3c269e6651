"""Maps of links: what they hold, where cells lie, and that only a wide terminal draws them."""

import base64
import io
import zlib

import numpy as np
import pytest
from rich.console import Console

import toruscast as tc
from toruscast._features import RoutedTraffic
from toruscast.answers.links import (
    BARS,
    PAIRS,
    Candidate,
    LinkMap,
    draw_heat_lines,
    lay_out_links,
    link_uses,
    network_data,
)
from toruscast.answers.rank import answer as rank_answer
from toruscast.answers.terminal import print_answer
from toruscast.mapping import MappingProblem
from toruscast.routing.routing import routes


@pytest.fixture(scope="module")
def found():
    halo, torus = tc.patterns.halo_2d((4, 4), 4096, periodic=True), tc.Torus((2, 4, 2))
    return tc.rank(halo, torus, tc.strategies.sample(halo, torus, n=4))


def unpacked(packed, kind):
    return np.frombuffer(zlib.decompress(base64.b64decode(packed)), kind)


def data_of(found, routing="deterministic"):
    several = [Candidate(m.name, m, 1e-4 * (i + 1)) for i, m in enumerate(found.mappings)]
    uses = link_uses(MappingProblem(found.problem.workload, found.problem.torus, routing), several)
    return network_data(LinkMap(found.problem.torus, lambda most: uses[:most])), several


def test_seconds_on_one_scale_are_those_of_the_routing(found):
    torus = found.problem.torus
    data, several = data_of(found)
    steps = unpacked(data["busy"], np.uint8).reshape(len(several), torus.n_links)
    exists = torus.link_exists
    exact = [
        RoutedTraffic(MappingProblem(found.problem.workload, torus), one.mapping).all_wire_bytes
        / torus.link_bandwidth
        for one in several
    ]
    drawn = steps / data["steps"] * np.array(data["max_busy"])[:, None]
    for i, busy in enumerate(exact):
        assert data["max_busy"][i] == busy[exists].max()
        assert np.abs(drawn[i] - busy)[exists].max() <= data["max_busy"][i] / data["steps"]
        assert (steps[i, ~exists] == data["missing"]).all()
    # What is drawn busier under one than under another is so in seconds.
    first, last = drawn[0][exists], drawn[-1][exists]
    apart = np.abs(exact[0] - exact[-1])[exists] > 2 * max(data["max_busy"]) / data["steps"]
    assert ((first > last) == (exact[0] > exact[-1])[exists])[apart].all()


def test_pairs_behind_links_are_those_of_the_routing(found):
    torus, comm = found.problem.torus, found.problem.workload.total
    data, several = data_of(found)
    mapping = several[0].mapping
    packed = data["pairs"][0]
    links = unpacked(packed["links"], "<i4")
    ends = unpacked(packed["ends"], "<i4").reshape(-1, PAIRS, 2)
    amount = unpacked(packed["bytes"], "<f4").reshape(-1, PAIRS)
    over = {}
    first, crossed = routes(torus, mapping.node[comm.src], mapping.node[comm.dst])
    for edge in range(comm.n_edges):
        for link in crossed[first[edge] : first[edge + 1]].tolist():
            over.setdefault(link, []).append(float(comm.nbytes[edge]))
    assert set(links.tolist()) == set(over)
    for row, link in enumerate(links.tolist()):
        most = sorted(over[link], reverse=True)[:PAIRS]
        assert amount[row][: len(most)].tolist() == most
        assert (ends[row][len(most) :] == -1).all()


def test_packets_that_choose_their_way_have_no_pairs(found):
    assert data_of(found, "adaptive")[0]["pairs"] == {}


@pytest.mark.parametrize("shape", [(5,), (3, 4), (2, 3, 4), (2, 2, 3, 2, 2), (16, 16, 16), (1, 8)])
def test_every_link_has_a_place_of_its_own(shape):
    n = int(np.prod(shape))
    cell, label, blocks = lay_out_links(shape)
    assert label == (24 if cell >= 5 else 0)
    assert [block["dimension"] for block in blocks] == [k for k, s in enumerate(shape) if s > 1]
    for block in blocks:
        rings = n // shape[block["dimension"]]
        assert block["rows"] * block["bands"] >= rings
        assert block["rows"] * (block["bands"] - 1) < rings
        assert block["rows"] % block["group"] == 0
        assert block["rows"] * cell <= 330 or block["rows"] == block["group"]


@pytest.mark.parametrize("width", [2, 3, 40])
def test_each_character_is_the_busiest_link_of_its_coordinates(found, width):
    torus = found.problem.torus
    routed = RoutedTraffic(MappingProblem(found.problem.workload, torus), found.mappings[-1])
    busy = routed.all_wire_bytes / torus.link_bandwidth
    for k, (axis, *lines) in enumerate(draw_heat_lines(torus, busy, width)):
        assert axis == torus.axes[k]
        parts = np.array_split(np.arange(torus.shape[k]), min(width, torus.shape[k]))
        for way, line in enumerate(lines):
            most = [
                max(
                    busy[node * 2 * torus.ndim + 2 * k + way]
                    for node in range(torus.n_nodes)
                    if torus.coords[node, k] in part
                )
                for part in parts
            ]
            shown = [BARS[int(np.ceil(8 * each / busy.max()))] for each in most]
            assert line == "".join(shown)


def test_nothing_sent_is_all_blank():
    torus = tc.Torus((3, 2))
    drawn = draw_heat_lines(torus, np.zeros(torus.n_links), 9)
    assert {char for _, *lines in drawn for line in lines for char in line} == {" "}


def printed(found, details=True, **console):
    file = io.TextIOWrapper(io.BytesIO(), encoding=console.pop("encoding", "utf-8"))
    told = Console(file=file, highlight=False, markup=False, **console)
    print_answer(rank_answer(found), told, details)
    file.seek(0)
    return file.read()


def test_only_a_wide_terminal_shows_them_among_the_details(found):
    shown = printed(found, force_terminal=True, width=100)
    assert "busiest link" in shown
    assert "full block" in shown
    assert "█" in shown
    for other in (
        printed(found, force_terminal=True, width=70),
        printed(found, force_terminal=False, width=100),
        printed(found, force_terminal=True, width=100, encoding="ascii"),
        printed(found, details=False, force_terminal=True, width=100),
    ):
        assert "full block" not in other
