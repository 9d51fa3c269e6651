"""Charts: what is drawn where, and what happens to values that cannot be drawn."""

import re
import xml.etree.ElementTree as ElementTree
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from studies import Chart, marks
from studies.charts import draw_chart
from toruscast.errors import InputError
from toruscast.report.drawing import figure

SCORES = pd.DataFrame(
    {
        "benchmark": ["2D Halo"] * 4 + ["Sub A2A"] * 4,
        "size": ["8 B", "8 B", "4 MB", "4 MB"] * 2,
        "features": ["prior", "H6"] * 4,
        "rcc": [0.91, 0.99, 0.92, 0.98, 0.93, 0.97, 0.94, 0.96],
    }
)
TIMES = pd.DataFrame({"observed": [1e-5, 2e-5, 4e-4], "predicted": [1.1e-5, 1.9e-5, 4.2e-4]})
BARS = Chart("rcc", "bars", "scores", "size", "rcc", "features", "benchmark", title="RCC")
SCATTER = Chart("times", "scatter", "times", "observed", "predicted", log=True)
LINES = Chart("curve", "lines", "curve", "mappings", "rcc", "features")
CURVE = pd.DataFrame({"mappings": [14, 7, 28], "rcc": [0.9, 0.8, 0.95], "features": ["H5"] * 3})
TABLES = {"scores": SCORES, "times": TIMES, "curve": CURVE}


def drawn(chart, tables, folder):
    """All texts of the SVG."""
    path = folder / "chart.svg"
    draw_chart(chart, tables, path)
    root = ElementTree.fromstring(path.read_bytes())
    return [t for e in root.iter() if e.tag.endswith("text") for t in e.itertext()]


@pytest.fixture
def axes():
    with figure(3, 3) as empty:
        yield empty.subplots()


def named(**columns):
    rows = pd.DataFrame(columns)
    return rows if "group" in rows else rows.assign(group="")


@pytest.mark.parametrize("chart", [BARS, SCATTER, LINES], ids=lambda chart: chart.kind)
def test_equal_values_give_equal_bytes(chart, tmp_path):
    draw_chart(chart, TABLES, tmp_path / "a.svg")
    draw_chart(chart, TABLES, tmp_path / "b.svg")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    draw_chart(chart, {k: t.iloc[1:] for k, t in TABLES.items()}, tmp_path / "b.svg")
    assert (tmp_path / "a.svg").read_bytes() != (tmp_path / "b.svg").read_bytes()


def test_many_points_are_a_picture_of_stable_bytes(tmp_path):
    x = np.linspace(1, 2, marks._POINTS + 1)
    tables = {"times": pd.DataFrame({"observed": x, "predicted": x[::-1]})}
    draw_chart(SCATTER, tables, tmp_path / "a.svg")
    draw_chart(SCATTER, tables, tmp_path / "b.svg")
    text = (tmp_path / "a.svg").read_text()
    assert "<image" in text
    assert len(text) < 200_000
    assert text == (tmp_path / "b.svg").read_text()


def test_bars_name_panels_groups_and_that_they_start_above_zero(tmp_path):
    texts = drawn(BARS, TABLES, tmp_path)
    assert {"2D Halo", "Sub A2A", "prior", "H6", "8 B", "4 MB", "RCC"} <= set(texts)
    assert "// bars do not start at 0" in texts


def test_bars_stand_side_by_side_as_high_as_their_values(axes):
    rows = named(x=["a", "a", "b"], y=[1.0, 3.0, 2.0], group=["g", "h", "h"])
    marks.bars(axes, rows, ["g", "h"], False, (0.0, 3.0))
    boxes = [(b.get_x(), b.get_x() + b.get_width(), b.get_height()) for b in axes.patches]
    assert [height for *_, height in boxes] == [1.0, 3.0, 2.0]
    (_, end, _), (start, _, _), _ = boxes
    assert end <= start
    colours = [b.get_facecolor() for b in axes.patches]
    assert colours[0] != colours[1] == colours[2]


def test_one_group_a_category_leaves_no_gaps(axes):
    rows = named(x=["a", "b"], y=[1.0, 3.0], group=["g", "h"])
    marks.bars(axes, rows, ["g", "h"], False, (0.0, 3.0))
    middles = [b.get_x() + b.get_width() / 2 for b in axes.patches]
    assert middles == pytest.approx([0, 1])


def test_repeated_rows_become_their_mean_with_whiskers(axes):
    rows = named(x=["a"] * 3, y=[1.0, 2.0, 6.0])
    assert "mean; whiskers from the least to the largest" in marks.bars(
        axes, rows, [""], False, (0.0, 6.0)
    )
    assert axes.patches[0].get_height() == 3.0
    (whisker,) = axes.collections[0].get_segments()
    assert whisker[:, 1].tolist() == [1.0, 6.0]


def test_a_mean_outside_its_interval_has_one_whisker(axes):
    rows = named(x=["a", "b"], y=[0.5, 0.5], low=[0.6, 0.4], high=[0.7, 0.6])
    marks.bars(axes, rows, [""], False, (0.0, 1.0))
    ends = [segment[:, 1].tolist() for segment in axes.collections[0].get_segments()]
    assert ends == [[0.5, 0.7], [0.4, 0.6]]


@pytest.mark.parametrize("draw", [marks.bars, marks.lines])
def test_intervals_of_the_table_become_whiskers(axes, draw):
    rows = named(x=["a", "b"], y=[1.0, -0.5], low=[0.5, -2.0], high=[4.0, 0.5])
    limits = marks.bar_limits(rows)
    assert limits[0] < -2.0
    assert limits[1] > 4.0
    options = (False, limits) if draw is marks.bars else (False,)
    (note,) = draw(axes, rows, [""], *options)
    assert "95 % interval" in note
    if draw is marks.bars:
        ends = [segment[:, 1].tolist() for segment in axes.collections[0].get_segments()]
        assert ends == [[0.5, 4.0], [-2.0, 0.5]]


def test_chart_takes_intervals_from_columns_and_shows_its_note(tmp_path):
    scores = SCORES.assign(least=SCORES["rcc"] - 0.2, most=SCORES["rcc"] + 0.002)
    chart = Chart(**vars(BARS) | {"interval": ("least", "most"), "note": "times simulated"})
    shown = " ".join(drawn(chart, {"scores": scores}, tmp_path))
    assert "times simulated; " in shown
    assert "whiskers: 95 % interval" in shown
    with pytest.raises(InputError, match="no such column"):
        drawn(chart, TABLES, tmp_path)


@pytest.mark.parametrize("spread", [1.05, 1.9, 2.1, 4.0, 8.0])
def test_numbers_of_a_short_logarithmic_axis_do_not_touch(spread, tmp_path):
    with figure(3, 2.9) as one:
        axes = one.subplots()
        marks.scatter(axes, named(x=[3e-4, 3e-4 * spread], y=[3e-4, 3e-4]), [""], True)
        one.savefig(tmp_path / "a.png")
        low, high = axes.get_xlim()
        shown = [t for t in axes.get_xticklabels() if low <= t.get_position()[0] <= high]
        boxes = [label.get_window_extent() for label in shown]
    assert len(boxes) >= 2
    assert all(a.x1 < b.x0 for a, b in pairwise(boxes))


def test_scatter_has_equal_axes_and_the_diagonal(axes):
    marks.scatter(axes, named(x=[1.0, 2.0], y=[5.0, 3.0]), [""], False)
    assert axes.get_xlim() == axes.get_ylim()
    (line,) = axes.lines
    assert list(line.get_xdata()) == list(line.get_ydata()) == list(axes.get_xlim())
    assert axes.get_aspect() == 1.0
    assert axes.collections[0].get_offsets().tolist() == [[1.0, 5.0], [2.0, 3.0]]


def test_lines_go_in_the_order_of_x(axes):
    rows = named(x=[14.0, 7.0, 28.0], y=[0.9, 0.8, 0.95])
    marks.lines(axes, rows, [""], True)
    assert axes.lines[0].get_xydata().tolist() == [[7, 0.8], [14, 0.9], [28, 0.95]]
    assert axes.get_xscale() == axes.get_yscale() == "log"


def test_groups_differ_in_more_than_colour():
    with figure(1, 1):
        points = [marks.legend_mark("scatter", n) for n in range(21)]
        dashes = [marks.legend_mark("lines", n) for n in range(21)]
        bars = [marks.legend_mark("bars", n) for n in range(21)]
    assert len({p.get_marker() for p in points[:7]}) == len(set(marks.COLOURS)) == 7
    assert len({(p.get_color(), p.get_marker()) for p in points}) == 21
    assert len({(d.get_color(), d.get_linestyle()) for d in dashes}) == 21
    assert len({(b.get_facecolor(), b.get_hatch()) for b in bars}) == 21


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=9))
@example([5e-324])
def test_every_bar_fits_but_far_negative_shares(values):
    low, high = marks.bar_limits(pd.DataFrame({"y": values}))
    assert low < high
    assert high >= max(values)
    assert low <= min(values) or (max(values) <= 1 and low <= -0.5)
    # The base is 0 or below every bar, so that each of them is seen.
    assert low <= 0 or low < min(values)


def test_far_negative_share_is_written_on_its_bar(tmp_path):
    scores = pd.DataFrame(
        {"learner": ["linear", "trees"] * 8, "r2": [-73.0, 0.99] * 8, "n": np.arange(16) // 2}
    )
    chart = Chart("r2", "bars", "scores", "n", "r2", "learner")
    texts = drawn(chart, {"scores": scores}, tmp_path)
    assert texts.count("-73.0") == 8
    assert not any(re.fullmatch(r"[-−]\d{2,}", t) for t in texts)  # noqa: RUF001


def test_what_cannot_be_drawn_is_counted(tmp_path):
    times = pd.DataFrame({"observed": [1.0, 0.0, 2.0, np.nan], "predicted": [1, 1, np.inf, 1]})
    texts = drawn(SCATTER, {"times": times}, tmp_path)
    assert "3 values cannot be shown" in texts


@pytest.mark.parametrize("chart", [BARS, SCATTER, LINES], ids=lambda chart: chart.kind)
@pytest.mark.parametrize("log", [False, True])
def test_no_values_is_said(chart, log, tmp_path):
    chart = Chart(**{**vars(chart), "log": log})
    texts = drawn(chart, {k: t.iloc[:0] for k, t in TABLES.items()}, tmp_path)
    assert "no values" in texts


@pytest.mark.parametrize("kind", ["bars", "scatter", "lines"])
@pytest.mark.parametrize("value", [0.0, 1.0, -3.0, 1e-300, 1e300])
def test_single_values_are_drawn(kind, value, tmp_path):
    tables = {"t": pd.DataFrame({"x": [value], "y": [value]})}
    for log in (False, True):
        texts = drawn(Chart("c", kind, "t", "x", "y", log=log), tables, tmp_path)
        # A logarithm has no place for what is not positive, which is then said.
        assert ("no values" in texts) == (log and value <= 0)


@pytest.mark.parametrize("kind", ["bars", "lines"])
def test_names_are_shown_as_they_are(kind, tmp_path):
    odd = ["$x$ 5 $", "_hidden", "<b>&", "a\x00b\n", "日本", "x" * 60]
    table = pd.DataFrame({"x": odd * 2, "y": range(12), "g": odd[::-1] * 2})
    chart = Chart("c", kind, "t", "x", "y", "g", "x", title="$\\frac$ <i>\x01")
    texts = drawn(chart, {"t": table}, tmp_path)
    shown = " ".join(texts)
    for name in ("$x$ 5 $", "_hidden", "<b>&", "a?b?", "日本", "x" * 60, "$\\frac$ <i>?"):
        assert name in shown


@pytest.mark.parametrize(
    ("chart", "message"),
    [
        (Chart("c", "pie", "scores", "size", "rcc"), "chart c: unknown kind: found pie"),
        (Chart("c", "bars", "score", "size", "rcc"), "no such table: found score, expected scores"),
        (Chart("c", "bars", "scores", "size", "r2"), "no such column: found benchmark, size"),
        (Chart("c", "bars", "scores", "rcc", "size"), "no numbers in column size: found 8 B"),
        (Chart("c", "scatter", "scores", "size", "rcc"), "no numbers in column size"),
        (Chart("c", "bars", "scores", "size", "rcc", "set"), "expected set"),
    ],
)
def test_wrong_charts_are_told(chart, message, tmp_path):
    with pytest.raises(InputError, match=re.escape(message)):
        draw_chart(chart, TABLES, tmp_path / "c.svg")
    assert list(tmp_path.iterdir()) == []
