"""Figures of an answer: every chart and the map of links as a file of each kind."""

import re

import pytest
from click.testing import CliRunner

import toruscast as tc
from toruscast.answers.figures import FIGURE_FORMATS, write_figures
from toruscast.answers.write import make_answer
from toruscast.cli import main
from toruscast.errors import InputError

HEADS = {"svg": b"<svg", "png": b"\x89PNG", "pdf": b"%PDF"}


@pytest.fixture(scope="module")
def forecast():
    halo = tc.patterns.halo_2d((4, 4), 4096, periodic=True)
    torus = tc.Torus((2, 4, 2)).with_network(unknown_rules=())
    return make_answer(tc.rank(halo, torus, tc.strategies.sample(halo, torus, n=6), check=True))


def test_the_map_has_a_cell_for_every_link(forecast, tmp_path):
    names = {file.stem for file in write_figures(forecast, tmp_path)}
    assert {"candidate-times", "limits", "spread", "matrix-nodes", "torus"} <= names
    drawn = (tmp_path / "torus.svg").read_text()
    assert len(re.findall(r'<rect [^>]*fill="#', drawn)) == tc.Torus((2, 4, 2)).link_exists.sum()
    for name in ("+X", "\N{MINUS SIGN}Z"):
        assert f">{name}</text>" in drawn


@pytest.mark.parametrize("form", FIGURE_FORMATS)
def test_figures_of_every_format(forecast, tmp_path, form):
    if form != "svg":
        pytest.importorskip("vl_convert", reason="vl-convert-python is not installed")
    for file in write_figures(forecast, tmp_path, form):
        assert file.suffix == f".{form}"
        assert file.read_bytes().startswith(HEADS[form])


def test_formats_that_need_a_package_say_so(forecast, tmp_path, monkeypatch):
    monkeypatch.setattr("toruscast.answers.figures.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"toruscast\[report\]"):
        write_figures(forecast, tmp_path, "pdf")


def test_the_command_draws_what_the_page_has(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ring.edges").write_text("0 1 5000\n1 2 5000\n2 3 5000\n3 0 5000\n")
    line = "simulate --comm ring.edges --torus 2x2 --mapping identity --report a.html --figures f"
    done = CliRunner().invoke(main, line.split())
    assert done.exit_code == 0, done.stderr
    charts = re.findall(
        r'<figure id="([a-z-]+)">(?!<figcaption id)', (tmp_path / "a.html").read_text()
    )
    assert {file.stem for file in (tmp_path / "f").iterdir()} == {*charts, "torus"}
    (tmp_path / "taken").write_text("")
    assert (
        CliRunner().invoke(main, line.replace("--figures f", "--figures taken").split()).exit_code
        == 2
    )
