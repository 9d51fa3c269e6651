"""Figures of scaling models: what is drawn, and what cannot be."""

import itertools
import xml.etree.ElementTree as ElementTree

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from toruscast.answers.figures import save_svg
from toruscast.answers.scaling import ModelCurve, model_charts, speedup_charts
from toruscast.cli import main
from toruscast.errors import InputError
from toruscast.scaling import FitOptions, Measurements, fit_many
from toruscast.scaling.fit import predict_intervals

GRID = {"p": (4, 8, 16, 32, 64), "n": (10, 20, 30, 40, 50), "q": (1, 2, 3, 4, 5), "r": (1, 2)}


def fitted(n_parameters, function, repetitions=1, name="solve"):
    names = list(GRID)[:n_parameters]
    points = np.array(list(itertools.product(*(GRID[k] for k in names))), dtype=float)
    values = np.array([[function(*x)] * repetitions for x in points])
    return fit_many(Measurements(names, points, values[None], [name], ["seconds"]))


def save_model_figure(models, path, file, fixed=None):
    [chart] = model_charts(models, [path], fixed=fixed)
    save_svg(chart.draw(), file)


def shapes(path, kind):
    """Return the circles, polylines or polygons of a drawing, without those of its key."""
    root = ElementTree.parse(path).getroot()
    every = [node for node in root.iter() if node.tag.endswith("}" + kind)]
    if kind == "circle":
        return [node for node in every if node.get("opacity")]
    return [node for node in every if len(node.get("points").split()) > 2]


def words(path):
    return " ".join(ElementTree.parse(path).getroot().itertext())


def test_a_curve_with_its_interval_and_all_repetitions(tmp_path):
    file = tmp_path / "one.svg"
    save_model_figure(fitted(1, lambda p: 3 + 2 * p, repetitions=3), 0, file)
    assert len(shapes(file, "circle")) == 15
    assert len(shapes(file, "polyline")) == len(shapes(file, "polygon")) == 1
    text = words(file)
    for word in ("solve", "3 + 2 p", "seconds", "extrapolated", "90 % interval"):
        assert word in text
    # The formula is the prediction here, and is not drawn twice.
    assert "formula alone" not in text


def test_marks_stand_where_the_values_are(tmp_path):
    save_model_figure(fitted(1, lambda p: p**2), 0, tmp_path / "m.svg")
    at = [(float(c.get("cx")), float(c.get("cy"))) for c in shapes(tmp_path / "m.svg", "circle")]
    # Both axes are logarithmic: equal factors are equal steps, on a straight line.
    steps = np.diff(at, axis=0)
    assert steps == pytest.approx(np.tile(steps[0], (4, 1)), abs=0.11)
    assert steps[0][0] > 0 > steps[0][1]
    (line,) = shapes(tmp_path / "m.svg", "polyline")
    ends = [[float(v) for v in pair.split(",")] for pair in line.get("points").split()]
    assert ends[0] == pytest.approx(at[0], abs=0.11)


def test_a_curve_that_is_not_the_formulas_says_so(tmp_path):
    values = [p if p < 20 else 40.0 * p for p in GRID["p"]]
    data = Measurements(["p"], [[p] for p in GRID["p"]], np.array(values)[None, :, None])
    save_model_figure(fit_many(data), 0, tmp_path / "bent.svg")
    assert "formula alone" in words(tmp_path / "bent.svg")


def test_held_parameters_choose_the_points(tmp_path):
    models = fitted(3, lambda p, n, q: 3 + p * n + q)
    curve = ModelCurve(models, 0, {"n": 20, "q": 2})
    assert curve.name == "p"
    assert curve.x.tolist() == list(GRID["p"])
    assert curve.values.ravel() == pytest.approx(5 + 20 * np.array(GRID["p"]))
    (place,) = curve.make_points(np.array([128.0])).to_dict("records")
    assert place == {"p": 128, "n": 20, "q": 2}
    file = tmp_path / "held.svg"
    save_model_figure(models, 0, file, fixed={"n": 20, "q": 2})
    assert len(shapes(file, "circle")) == 5
    assert "at n = 20, q = 2" in words(file)


def test_a_parameter_that_was_not_varied_is_held():
    values = [[[3.0 * p] for p in GRID["p"]]]
    data = Measurements(["p", "n"], [[p, 7] for p in GRID["p"]], values)
    assert ModelCurve(fit_many(data), 0, {}).fixed == {"n": 7}


@pytest.mark.parametrize(
    "function",
    [lambda p: 7.0, lambda p: 0.0, lambda p: -2.0 * p, lambda p: 1e-49 * p, lambda p: p**9],
    ids=["constant", "zero", "negative", "tiny", "steep"],
)
def test_any_values_are_drawn(tmp_path, function):
    save_model_figure(fitted(1, function), 0, tmp_path / "any.svg")
    at = [float(c.get("cy")) for c in shapes(tmp_path / "any.svg", "circle")]
    assert np.isfinite(at).all()
    assert "nan" not in (tmp_path / "any.svg").read_text()


@pytest.mark.parametrize(
    "name",
    ["$\\frac{", "<b>&amp;\"'", "line\nbreak\x07\x00", "漢字", "std::vector<" * 200, "%s {0} _^"],
)
def test_any_name_is_drawn_as_it_is(tmp_path, name):
    file = tmp_path / "name.svg"
    save_model_figure(fitted(1, lambda p: 3 + 2 * p, name=name), 0, file)
    assert name.split("\n")[0][:6] in words(file)


def test_the_interval_of_values_of_either_sign_stays_near_them():
    # No model fits these points. An interval relative to a prediction near 0 would be huge.
    data = Measurements(["p"], [[p] for p in GRID["p"]], [[[1.0], [-2], [3], [-4], [5]]])
    places = np.linspace(4, 64, 50)[:, None]
    assert np.abs(predict_intervals(fit_many(data), places, FitOptions())).max() < 100


@pytest.mark.parametrize(
    ("fixed", "message"),
    [
        ({}, "a figure shows one parameter.*p, n, q, r"),
        ({"x": 1}, "no such parameter"),
        ({"n": 11, "q": 1, "r": 1}, "no measurement at these values.*10, 20"),
        ({"p": 4, "n": 10, "q": 1, "r": 1}, "no parameter varies"),
    ],
)
def test_what_cannot_be_drawn(tmp_path, fixed, message):
    models = fitted(4, lambda p, n, q, r: 3 + p * n + q + r)
    with pytest.raises(InputError, match=message):
        save_model_figure(models, 0, tmp_path / "none.svg", fixed=fixed)
    assert not list(tmp_path.iterdir())


def test_a_speed_up_has_a_plot_for_each_base(tmp_path):
    table = pd.DataFrame(
        {
            "interconnect": ["a", "a", "b", "b"],
            "tasks": [1, 4, 2, 8],
            "base": [1, 1, 2, 2],
            "speed_up": [1.0, 3.0, 1.0, 3.5],
            "zero_latency": [1.0, 3.5, 1.0, 3.6],
            "kind": "",
            "infinite_speed": [1.0, 3.7, 1.0, 3.8],
        }
    )
    for chart, base in zip(speedup_charts(table), ("1 task", "2 tasks"), strict=True):
        save_svg(chart.draw(), tmp_path / "s.svg")
        text = words(tmp_path / "s.svg")
        assert f"over {base}" in text
        assert text.count("ideal") == 1


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "times.txt"
    lines = "".join(f"DATA {3 + 2 * p} {3.01 + 2 * p}\n" for p in GRID["p"])
    path.write_text(
        "PARAMETER p\nPOINTS 4 8 16 32 64\nMETRIC time\n"
        f"REGION main\n{lines}REGION main->f\n{lines}"
    )
    return path


def run(*arguments):
    return CliRunner().invoke(main, ["pmnf", "fit", *map(str, arguments)])


def test_the_command_draws_each_model(file, tmp_path):
    for name in ("a", "b"):
        result = run(file, "--figures", tmp_path / name)
        assert result.exit_code == 0, result.stderr
    names = {"model-0.svg", "model-1.svg"}
    assert {path.name for path in (tmp_path / "a").iterdir()} == names
    assert all(
        (tmp_path / "a" / n).read_bytes() == (tmp_path / "b" / n).read_bytes() for n in names
    )


@pytest.mark.parametrize(
    ("figure", "arguments", "message"),
    [
        ("a", ["--at", "p=5"], "no parameter varies"),
        ("a", ["--at", "p"], "found p, expected NAME=VALUE"),
        ("a", ["--at", "p=nan"], "NAME=NUMBER, 0 or more"),
        ("none/a", [], "no such folder"),
    ],
)
def test_command_with_wrong_input(file, tmp_path, figure, arguments, message):
    result = run(file, "--figures", tmp_path / figure, *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert not (tmp_path / figure).exists()
