"""The page of an answer: its content, and that names are only displayed as text."""

import json
import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from report_answers import HOSTILE, answers

import toruscast as tc
from toruscast.answers.candidates import bin_traffic, hop_shares
from toruscast.answers.figures import write_figures
from toruscast.answers.html import json_block
from toruscast.answers.write import make_answer, write_report
from toruscast.errors import InputError
from toruscast.text import shown_name
from toruscast.training.application import learning_curve, predict_held_out


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


def test_names_show_as_text_and_the_page_asks_nobody(page):
    content = page.read_text(encoding="utf-8")
    assert "<script>alert" not in content
    assert "\u202e" not in content
    assert "x" * 1000 not in content
    assert "&lt;script&gt;alert" in content
    assert "default-src 'none'" in content
    assert not re.search(r"""<[^>]*(?:src|href)\s*=""", content)
    assert "unsafe-eval" not in content


def test_no_kind_of_page_is_built_from_a_name(every, tmp_path):
    for kind, answer in every.items():
        write_report(answer, tmp_path / f"{kind}.html", inputs=[("file", HOSTILE)])
        content = (tmp_path / f"{kind}.html").read_text(encoding="utf-8")
        assert "<script>alert" not in content
        assert "\u202e" not in content
        assert "x" * 1000 not in content
        assert "&lt;script&gt;alert" in content


def test_every_chart_of_every_answer_is_a_picture(every, tmp_path):
    for kind, found in every.items():
        files = write_figures(make_answer(found), tmp_path / kind)
        assert sorted(files) == sorted((tmp_path / kind).iterdir())
        assert files, kind
        for file in files:
            root = ElementTree.parse(file).getroot()
            assert root.get("width") == "600"
            assert not [node for node in root.iter() if node.tag.endswith("script")]


def test_the_busiest_link_of_a_collective_works_longest(every):
    found = every["mesh"]
    rows = found.collective_rows(found.best)
    for seconds, row in zip(found.best.link_seconds, rows, strict=True):
        link = re.search(r"share link (.*)", row["why"])
        assert link is None or seconds[found.torus.read_link(link[1])] == seconds.max()
    assert any("share link" in row["why"] for row in rows)


def test_more_samples_order_better_and_all_are_forecast_unseen(every):
    found = every["trained"]
    samples = found.samples
    said = predict_held_out(samples, found.model)
    assert said.shape == (len(samples),)
    assert not np.allclose(said, found.model.predict(samples), rtol=1e-6)
    grown = learning_curve(found)
    assert grown["n_train"].is_monotonic_increasing
    assert (grown["low"] <= grown["mean"]).all()
    assert (grown["mean"] <= grown["high"]).all()
    scored = found.table.set_index("metric")["mean"]["rcc"]
    assert grown["mean"].iloc[-1] == scored


def test_the_answer_the_candidates_and_the_launchers_file_stand_on_it(page, answer):
    content = page.read_text(encoding="utf-8")
    heading = re.search(r"<h1>(.*?)</h1>", content)[1]
    assert heading.startswith(("Use <em>", "Keep the default order of tasks, <em>"))
    for key in ("candidate-times", "limits", "spread", "matrix-tasks", "matrix-nodes"):
        assert f'<figure id="{key}">' in content
    launcher = re.search(r'<pre id="launcher-file"[^>]*>(.*?)</pre>', content, re.DOTALL)[1]
    places = np.array([line.split() for line in launcher.splitlines()], dtype=int)
    assert (answer.problem.torus.node(places[:, :-1]) == answer.best.node).all()


def test_the_second_map_is_of_the_default_order_or_of_the_runner_up(page, answer):
    names = block(page.read_text(encoding="utf-8"), "network")["names"]
    in_order = answer.table["mapping"].tolist()
    second = "identity" if in_order[0] != "identity" else in_order[1]
    assert names[:2] == [shown_name(in_order[0]), shown_name(second)]


def test_rows_that_are_not_drawn_are_named():
    comm, torus = tc.patterns.halo_2d((4, 8), 4096, periodic=True), tc.Torus((4, 2, 4))
    found = tc.rank(comm, torus, tc.strategies.sample(comm, torus, n=30))
    sections = {each.title: each for each in make_answer(found).sections}
    drawn = sections["How much faster"].blocks[0].draw()
    labels = re.findall(r"<title>", drawn)
    assert len(labels) <= 7
    left_out = map(int, re.findall(r"(\d+) not drawn", drawn))
    assert len(labels) + sum(left_out) == 30
    height = float(re.search(r'viewBox="0 0 \d+ (\d+)"', drawn)[1])
    assert height < 400


def test_a_page_of_512_tasks_is_small(tmp_path):
    comm, torus = tc.patterns.halo_3d((8, 8, 8), 4096, periodic=True), tc.Torus((8, 8, 8))
    found = tc.rank(comm, torus, tc.strategies.sample(comm, torus, n=40), budget=0)
    write_report(found, tmp_path / "a.html")
    assert (tmp_path / "a.html").stat().st_size < 400_000


def test_one_candidate_has_no_second_map(answer, tmp_path):
    one = tc.rank(answer.problem.workload, answer.problem.torus, answer.mappings[:1])
    write_report(one, tmp_path / "one.html")
    content = (tmp_path / "one.html").read_text(encoding="utf-8")
    assert len(block(content, "network")["names"]) == 1
    assert "There is no other candidate." in content


def test_bins_and_shares_lose_nothing(answer):
    comm = answer.problem.workload.total
    for most, bins in ((comm.n_tasks, 64), (comm.n_tasks, 5)):
        sums, of = bin_traffic(answer.problem.workload, np.arange(comm.n_tasks), most, bins)
        assert sums.sum() == pytest.approx(comm.nbytes.sum())
        assert sums.shape[0] * of >= most
    shares = hop_shares(answer.problem, answer.mappings[0])
    assert shares.sum() == pytest.approx(1.0)


def test_data_cannot_end_its_element():
    value = {"a": "</script><!--", "b": np.float64(1.5)}
    block = json_block("x", value)
    assert block.count("<") == 2
    assert json.loads(re.search(">(.*)</script>", block)[1]) == value


def test_wrong_places_are_told_before_the_work(answer, tmp_path):
    with pytest.raises(InputError, match="unknown suffix of a report"):
        write_report(answer, tmp_path / "answer.pdf")
    with pytest.raises(InputError, match="cannot be written"):
        write_report(answer, tmp_path / "absent" / "answer.html")


def test_a_search_and_a_simulation_have_a_page_too(tmp_path):
    torus = tc.Torus((4, 2, 2))
    halo = tc.patterns.halo_2d((4, 4), 4096, periodic=True)
    given = tc.TaskMapping(np.arange(16)[::-1].copy(), torus, name="<b>mine</b>")
    found = tc.search(halo, torus, [given], n_sweeps=1)
    write_report(found, tmp_path / "s.html")
    content = (tmp_path / "s.html").read_text(encoding="utf-8")
    assert '<figure id="progress">' in content
    assert "<b>mine" not in content
    names = block(content, "network")["names"]
    assert names == [found.best.name, "<b>mine</b>"] or found.gain == 0
    result = tc.simulate(halo, torus, given)
    write_report(result, tmp_path / "one.html")
    content = (tmp_path / "one.html").read_text(encoding="utf-8")
    for shown in ("Slowest messages", "Fullest buffers", '<figure id="timeline">'):
        assert shown in content
    assert block(content, "network")["names"] == ["<b>mine</b>"]


def test_the_bars_of_a_mesh_are_of_a_step(every):
    found = every["mesh"]
    sections = {each.title: each for each in make_answer(found).sections}
    drawn = sections["Why: time of each collective"].blocks[0].draw()
    widths = [float(w) for w in re.findall(r'<rect [^>]*width="([\d.]+)"[^>]*class="best"', drawn)]
    times = found.collective_table()["time"].to_numpy()
    assert np.array(widths) / widths[0] == pytest.approx(times / times[0], rel=0.02)


def test_parts_that_do_not_follow_the_choice_name_their_mappings():
    comm, torus = tc.patterns.halo_2d((4, 8), 4096, periodic=True), tc.Torus((4, 2, 4))
    mappings = [m for m in tc.strategies.sample(comm, torus, n=12) if m.name != "identity"]
    order = np.random.default_rng(1).permutation(32)
    slow = tc.TaskMapping(order, torus, name="identity")
    found = tc.rank(comm, torus, [*mappings, slow])
    leads = " ".join(each.lead for each in make_answer(found).sections)
    assert leads.count(f"under {found.best.name} and identity.") == 2
    assert "The busiest links under identity" in leads


def test_an_undecided_answer_has_a_badge_of_its_own_style(tmp_path):
    comm = tc.patterns.halo_2d((4, 4), 40_000, periodic=True)
    torus = tc.Torus((4, 4)).with_network(unknown_rules=())
    found = tc.rank(comm, torus, tc.strategies.sample(comm, torus, n=8), budget=0)
    assert found.verdict.kind == "undecided"
    write_report(found, tmp_path / "a.html")
    content = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert '<span class="badge undecided">undecided</span>' in content
    assert ".badge.undecided {" in content
