"""The page of an answer: what it holds, and that nothing in a name can do more than show."""

import base64
import html
import json
import re
import zlib

import numpy as np
import pytest
from report_answers import HOSTILE, answers

import toruscast as tc
from toruscast.answers.page.html import json_block, table, text
from toruscast.answers.page.network import (
    PAIRS,
    Candidate,
    binned,
    hop_shares,
    link_uses,
    network_data,
)
from toruscast.answers.page.summary import of_search
from toruscast.answers.page.write import write_report
from toruscast.errors import InputError
from toruscast.features import RoutedTraffic
from toruscast.routing.routing import routes
from toruscast.training.evaluate.learning_curve import growth, kept_out
from toruscast.training.mesh import link_seconds


@pytest.fixture(scope="module")
def every():
    return answers()


@pytest.fixture(scope="module")
def answer(every):
    return every["forecast"]


@pytest.fixture(scope="module")
def page(answer, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "answer.html"
    write_report(answer, path, inputs=[("command", HOSTILE)])
    return path


def block(page, key):
    found = re.search(rf'<script type="application/json" id="{key}">(.*?)</script>', page)
    return json.loads(found[1])


def unpacked(packed, kind):
    return np.frombuffer(zlib.decompress(base64.b64decode(packed)), kind)


def test_names_show_as_text_and_the_page_asks_nobody(page):
    content = page.read_text(encoding="utf-8")
    assert "<script>alert" not in content
    assert "\u202e" not in content
    assert "x" * 1000 not in content
    assert "&lt;script&gt;alert" in content
    assert "default-src 'none'" in content
    own = re.sub(r"<script>\n.*?\n</script>", "", content, flags=re.DOTALL)
    assert not re.search(r"""(?:src|href)\s*=\s*["']""", own)


def test_no_kind_of_page_is_built_from_a_name(every, tmp_path):
    for kind, answer in every.items():
        write_report(answer, tmp_path / f"{kind}.html", inputs=[("file", HOSTILE)])
        content = (tmp_path / f"{kind}.html").read_text(encoding="utf-8")
        assert "<script>alert" not in content
        assert "\u202e" not in content
        assert "x" * 1000 not in content
        assert "&lt;script&gt;alert" in content


def test_what_a_step_sends_is_the_busy_share_of_its_links(every):
    found = every["mesh"]
    seconds = link_seconds(found, found.best)
    for row, sent in zip(seconds, found.best.sent, strict=True):
        assert row.max() == pytest.approx(sent.score.busy)


def test_more_samples_order_better_and_all_are_forecast_unseen(every):
    found = every["trained"]
    samples = found.samples
    said = kept_out(samples, found.model)
    assert said.shape == (len(samples),)
    assert not np.allclose(said, found.model.predict(samples), rtol=1e-6)
    grown = growth(samples, found.model)
    assert grown["n_train"].is_monotonic_increasing
    assert (grown["low"] <= grown["rcc"]).all()


def test_the_answer_the_candidates_and_the_launchers_file_stand_on_it(page, answer):
    content = page.read_text(encoding="utf-8")
    assert "is fastest" in content or "is forecast to be fastest" in content
    charts = block(content, "charts")
    for key in charts:
        assert f'id="{key}"' in content
    rows = charts["candidate-times"]["data"]["values"]
    assert [row["how"] for row in rows] == answer.table["how"].tolist()
    launcher = re.search(r'<pre id="launcher-file"[^>]*>(.*?)</pre>', content, re.DOTALL)[1]
    places = np.array([line.split() for line in launcher.splitlines()], dtype=int)
    assert (answer.torus.node(places[:, :-1]) == answer.best.node).all()


def test_shares_and_pairs_are_those_of_the_routing(answer):
    torus, workload = answer.torus, answer.workload
    comm = workload.total
    several = [Candidate(m.name, m, 1e-4 * (i + 1)) for i, m in enumerate(answer.mappings)]
    data = network_data(torus, link_uses(workload, torus, several, "deterministic"))
    shares = unpacked(data["shares"], np.uint8).reshape(len(several), torus.n_links)
    for i, (_, mapping, time) in enumerate(several):
        busy = RoutedTraffic(workload, torus, mapping).all_wire_bytes / torus.link_bandwidth
        exact = np.minimum(busy / time, 1.0)
        exists = torus.link_exists
        assert np.abs(shares[i, exists] / data["steps"] - exact[exists]).max() <= 1 / data["steps"]
        assert (shares[i, ~exists] == data["missing"]).all()
    mapping = several[0].mapping
    ends = unpacked(data["pairs"][0]["ends"], "<i4").reshape(torus.n_links, PAIRS, 2)
    amount = unpacked(data["pairs"][0]["bytes"], "<f4").reshape(torus.n_links, PAIRS)
    over = [[] for _ in range(torus.n_links)]
    first, links = routes(torus, mapping.node[comm.src], mapping.node[comm.dst])
    for edge in range(comm.n_edges):
        for link in links[first[edge] : first[edge + 1]].tolist():
            over[link].append(float(comm.nbytes[edge]))
    for link, sent in enumerate(over):
        most = sorted(sent, reverse=True)[:PAIRS]
        assert amount[link][: len(most)].tolist() == most
        assert (ends[link][len(most) :] == -1).all()


def test_packets_that_choose_their_way_have_no_pairs(answer):
    several = [Candidate("one", answer.mappings[0], 1.0)]
    uses = link_uses(answer.workload, answer.torus, several, "adaptive")
    assert network_data(answer.torus, uses)["pairs"] == {}


@pytest.mark.parametrize("shape", [(5,), (3, 4), (2, 3, 4), (2, 2, 3, 2, 2)])
def test_every_node_has_a_place_of_its_own(shape):
    torus = tc.Torus(shape)
    comm = tc.CommGraph(2, [0], [1], [8])
    mapping = tc.TaskMapping([0, 1], torus)
    several = [Candidate("a", mapping, 1.0)]
    data = network_data(torus, link_uses(tc.Workload([comm]), torus, several, "deterministic"))
    places = set(zip(data["plane"], data["x"], data["y"], strict=True))
    assert len(places) == torus.n_nodes
    assert len(data["planes"]) == max(data["plane"]) + 1
    assert len(data["stubs"]) == 2 * torus.ndim


def test_bins_and_shares_lose_nothing(answer):
    comm = answer.workload.total
    for most, bins in ((comm.n_tasks, 64), (comm.n_tasks, 5)):
        sums, of = binned(answer.workload, np.arange(comm.n_tasks), most, bins)
        assert sums.sum() == pytest.approx(comm.nbytes.sum())
        assert sums.shape[0] * of >= most
    shares = hop_shares(answer.workload, answer.torus, [("a", answer.mappings[0])])
    assert shares["share"].sum() == pytest.approx(1.0)


def test_data_cannot_end_its_element():
    value = {"a": "</script><!--", "b": np.float64(1.5)}
    block = json_block("x", value)
    assert block.count("<") == 2
    assert json.loads(re.search(">(.*)</script>", block)[1]) == value
    assert html.unescape(text("<b>")) == "<b>"
    assert "&lt;i&gt;" in table(["<i>"], [["<i>"]], "<i>")


def test_wrong_places_are_told_before_the_work(answer, tmp_path):
    with pytest.raises(InputError, match="unknown suffix of a report"):
        write_report(answer, tmp_path / "answer.pdf")
    with pytest.raises(InputError, match="cannot be written"):
        write_report(answer, tmp_path / "absent" / "answer.html")


def test_a_search_and_a_simulation_have_a_page_too(tmp_path):
    torus = tc.Torus((4, 2, 2))
    halo = tc.patterns.halo_2d((4, 4), 4096, periodic=True)
    workload = tc.Workload([halo])
    given = tc.TaskMapping(np.arange(16)[::-1].copy(), torus, name="<b>mine</b>")
    found = tc.search(halo, torus, [given], turns=1)
    write_report(of_search(found, workload, torus, [given], "deterministic"), tmp_path / "s.html")
    content = (tmp_path / "s.html").read_text(encoding="utf-8")
    assert "is the best found" in content
    assert "<b>mine" not in content
    result = tc.simulate(halo, torus, given)
    write_report(result, tmp_path / "one.html")
    content = (tmp_path / "one.html").read_text(encoding="utf-8")
    assert "simulated packet by packet" in content
    assert block(content, "network")["names"] == ["<b>mine</b>"]
