"""Figures of a page's views: all of them, as every kind of file, and nothing from a stranger's."""

import json
import re

import pytest
from click.testing import CliRunner

import toruscast as tc
from toruscast.answers.figures import FORMS, Views
from toruscast.cli import main
from toruscast.errors import InputError

HEADS = {"svg": b"<svg", "png": b"\x89PNG", "pdf": b"%PDF"}


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    halo, torus = tc.patterns.halo_2d((4, 4), 4096, periodic=True), tc.Torus((2, 4, 2))
    answer = tc.forecast(halo, torus, tc.strategies.sample(halo, torus, n=6), check=True)
    path = tmp_path_factory.mktemp("page") / "answer.html"
    tc.write_report(answer, path)
    return path


def changed(page, tmp_path, key, change):
    """Return a copy of the page whose data under a key were changed."""
    content = page.read_text(encoding="utf-8")
    block = re.search(rf'(<script type="application/json" id="{key}">)(.*?)(</script>)', content)
    data = json.loads(block[2])
    change(data)
    copy = tmp_path / "changed.html"
    copy.write_text(content.replace(block[0], block[1] + json.dumps(data) + block[3]))
    return Views(copy)


def test_every_view_becomes_a_file(page, tmp_path):
    views = Views(page)
    assert {"candidate-times", "limits", "spread", "matrix-nodes", "torus"} <= {*views.names}
    for view in views.names:
        views.write(view, tmp_path / f"{view}.svg")
        assert (tmp_path / f"{view}.svg").read_bytes().startswith(HEADS["svg"])
    pytest.importorskip("vl_convert", reason="vl-convert-python is not installed")
    for form in FORMS:
        views.write("torus", tmp_path / f"torus.{form}", against=2)
        assert (tmp_path / f"torus.{form}").read_bytes().startswith(HEADS[form])


def test_the_map_has_a_cell_for_every_link(page, tmp_path):
    Views(page).write("torus", tmp_path / "torus.svg")
    drawn = (tmp_path / "torus.svg").read_text()
    assert len(re.findall(r'<rect [^>]*fill="#', drawn)) == tc.Torus((2, 4, 2)).link_exists.sum()
    for name in ("+X", "-Z"):
        assert f">{name}</text>" in drawn


def test_the_command_lists_views_and_draws_them(page, tmp_path):
    def call(*words):
        return CliRunner().invoke(main, ["plot", str(page), *words])

    listed = call().stdout.split()
    assert listed == Views(page).names
    done = call("--out", str(tmp_path / "new"), "--view", "limits", "--out-format", "png")
    assert done.exit_code == 0
    assert [file.name for file in (tmp_path / "new").iterdir()] == ["limits.png"]
    assert call("--view", "<b>").exit_code == 2
    done = call("--out", str(tmp_path / "paper"), "--view", "candidate-times", "--size", "3.3in")
    assert done.exit_code == 0
    drawn = (tmp_path / "paper/candidate-times.svg").read_text()
    assert 'width="317"' in drawn
    words = ("--out", str(tmp_path / "few"), "--view", "candidate-times", "--top", "2")
    assert call(*words).exit_code == 0
    few = (tmp_path / "few/candidate-times.svg").read_text()
    assert few.count("<circle") == 2 < drawn.count("<circle")
    assert "bad --size" in call("--size", "3.3 inches").stderr
    assert call("--out", str(page)).exit_code == 2


@pytest.mark.parametrize(
    "more",
    [
        "<script>1</script>",
        '<image href="file:///etc/passwd"/>',
        '<rect onclick="1"/>',
        '<rect style="fill:url(http://example.org)"/>',
        '<a xlink:href="http://example.org"/>',
        "<rect>",
    ],
)
def test_a_strangers_chart_is_refused(page, tmp_path, more):
    content = page.read_text(encoding="utf-8")
    start = content.index('<figure id="limits">')
    end = content.index("</svg>", start)
    copy = tmp_path / "changed.html"
    copy.write_text(content[:end] + more + content[end:])
    with pytest.raises(InputError, match="no report, or a damaged one"):
        Views(copy).write("limits", tmp_path / "limits.svg")
    assert not (tmp_path / "limits.svg").exists()


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.update(shape=["1 + 1"] * len(data["shape"])),
        lambda data: data.update(shape=data["shape"][:-1]),
        lambda data: data.update(shape=[2**20] * 3),
        lambda data: data.update(busy="AAAA"),
        lambda data: data.update(most=["x"] * len(data["most"])),
        lambda data: data.pop("dimensions"),
    ],
)
def test_a_damaged_torus_is_refused(page, tmp_path, change):
    views = changed(page, tmp_path, "network", change)
    with pytest.raises(InputError, match="no report, or a damaged one"):
        views.write("torus", tmp_path / "torus.svg")


def test_what_is_no_report_is_told(tmp_path, page):
    (tmp_path / "a.html").write_text("<p>hello")
    (tmp_path / "b.html").write_bytes(b"\xff\xfe")
    for name in ("a.html", "b.html", "absent.html"):
        with pytest.raises(InputError, match=name):
            Views(tmp_path / name)
    with pytest.raises(InputError, match="bad candidate"):
        Views(page).write("torus", tmp_path / "torus.svg", candidate=99)
    with pytest.raises(InputError, match="unknown suffix"):
        Views(page).write("torus", tmp_path / "torus.gif")
