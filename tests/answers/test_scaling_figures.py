"""Figures of scaling models: what is drawn, and what cannot be."""

import itertools
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from click.testing import CliRunner

from toruscast.answers.scaling import ModelSlice, save_model_figure, ticks_at
from toruscast.cli import main
from toruscast.errors import InputError
from toruscast.scaling import FitOptions, Measurements, fit_many

GRID = {"p": (4, 8, 16, 32, 64), "n": (10, 20, 30, 40, 50), "q": (1, 2, 3, 4, 5), "r": (1, 2)}


def fitted(n_parameters, function, repetitions=1, name="solve"):
    names = list(GRID)[:n_parameters]
    points = np.array(list(itertools.product(*(GRID[k] for k in names))), dtype=float)
    values = np.array([[function(*x)] * repetitions for x in points])
    return fit_many(Measurements(names, points, values[None], [name], ["seconds"]))


def elements(path, gid):
    """What the drawing holds under a group's id: the number of its marks or lines."""
    root = ElementTree.parse(path).getroot()
    (group,) = [node for node in root.iter() if node.get("id") == gid]
    marks = [node for node in group.iter() if node.tag.endswith("}use")]
    lines = [node for node in group.iter() if node.tag.endswith("}path")]
    return len(marks) or len(lines)


def words(path):
    return " ".join(ElementTree.parse(path).getroot().itertext())


def test_one_parameter(tmp_path):
    file = tmp_path / "one.svg"
    save_model_figure(fitted(1, lambda p: 3 + 2 * p, repetitions=3), 0, file)
    assert elements(file, "measured") == 15
    assert elements(file, "prediction") == 1
    assert elements(file, "interval") >= 1
    text = words(file)
    for word in ("solve", "3 + 2 p", "seconds", "beyond the measurements", "90 % interval"):
        assert word in text
    # The formula is the prediction here, and is not drawn twice.
    assert "formula alone" not in text


def test_two_parameters(tmp_path):
    file = tmp_path / "two.svg"
    save_model_figure(fitted(2, lambda p, n: 3 + p * n), 0, file)
    assert elements(file, "measured") == 25
    assert elements(file, "contours") >= 4
    assert "range measured" in words(file)


def test_nothing_measured_and_nothing_predicted_is_not_off(tmp_path):
    points = list(itertools.product((2, 4, 8, 16, 32), (1, 2, 3, 4, 5)))
    models = fit_many(Measurements(["p", "n"], points, np.zeros((1, 25, 1))))
    save_model_figure(models, 0, tmp_path / "m.svg")
    assert "largest dot: 0 % off" in (tmp_path / "m.svg").read_text()


def test_contours_that_are_not_the_formulas_say_so(tmp_path):
    points = list(itertools.product((2, 4, 8, 16, 32), (10, 20, 30, 40, 50)))
    values = {
        "straight": [3.0 * p + n for p, n in points],
        "bent": [n if p < 5 else 40.0 * p for p, n in points],
    }
    for name, column in values.items():
        data = Measurements(["p", "n"], points, np.array(column)[None, :, None])
        save_model_figure(fit_many(data), 0, tmp_path / f"{name}.svg")
    said = ["not that of the formula" in (tmp_path / f"{name}.svg").read_text() for name in values]
    assert said == [False, True]


def test_three_parameters_have_a_slice_a_value(tmp_path):
    file = tmp_path / "three.svg"
    save_model_figure(fitted(3, lambda p, n, q: 3 + p * n + q), 0, file)
    for height in GRID["q"]:
        assert elements(file, f"slice-{height}") >= 1


def test_held_parameters_choose_the_points(tmp_path):
    models = fitted(3, lambda p, n, q: 3 + p * n + q)
    part = ModelSlice(models, 0, FitOptions(), {"n": 20, "q": 2})
    places, values = part.measured()
    assert part.free == ("p",)
    assert places.ravel().tolist() == list(GRID["p"])
    assert values.ravel() == pytest.approx(5 + 20 * np.array(GRID["p"]))
    assert part.predict(np.array([[128.0]])) == pytest.approx([5 + 20 * 128])
    file = tmp_path / "held.svg"
    save_model_figure(models, 0, file, fixed={"n": 20, "q": 2})
    assert elements(file, "measured") == 5
    assert "at n = 20, q = 2" in words(file)


def test_a_parameter_that_was_not_varied_is_held():
    values = [[[3.0 * p] for p in GRID["p"]]]
    data = Measurements(["p", "n"], [[p, 7] for p in GRID["p"]], values)
    assert ModelSlice(fit_many(data), 0, FitOptions(), {}).held == "n = 7"


@pytest.mark.parametrize(
    "function",
    [lambda *x: 7.0, lambda *x: 0.0, lambda *x: -2.0 * x[0], lambda *x: 1e-49 * x[0]],
    ids=["constant", "zero", "negative", "tiny"],
)
@pytest.mark.parametrize("n_parameters", [1, 2, 3])
def test_any_values_are_drawn(tmp_path, function, n_parameters):
    file = tmp_path / "any.svg"
    save_model_figure(fitted(n_parameters, function), 0, file)
    assert "solve" in words(file)


@pytest.mark.parametrize(
    "name",
    ["$\\frac{", "<b>&amp;\"'", "line\nbreak\x07\x00", "漢字", "std::vector<" * 200, "%s {0} _^"],
)
def test_any_name_is_drawn_as_it_is(tmp_path, name):
    file = tmp_path / "name.svg"
    save_model_figure(fitted(1, lambda p: 3 + 2 * p, name=name), 0, file)
    assert name.split("\n")[0][:6] in words(file)


def test_the_same_figure_byte_for_byte(tmp_path):
    models = fitted(2, lambda p, n: 3 + p * n)
    for name in ("a.svg", "b.svg"):
        save_model_figure(models, 0, tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_the_interval_of_values_of_either_sign_stays_near_them():
    # Nothing meets these points; an interval scaled by a prediction near 0 would explode.
    data = Measurements(["p"], [[p] for p in GRID["p"]], [[[1.0], [-2], [3], [-4], [5]]])
    part = ModelSlice(fit_many(data), 0, FitOptions(), {})
    low, high = part.interval(np.linspace(4, 64, 50)[:, None], 0.9)
    assert np.abs([low, high]).max() < 100


@pytest.mark.parametrize(
    ("fixed", "message"),
    [
        ({}, "three parameters at most"),
        ({"x": 1}, "no such parameter"),
        ({"n": 11}, "nothing was measured there.*10, 20"),
        ({"p": 4, "n": 10, "q": 1, "r": 1}, "no parameter is left"),
    ],
)
def test_what_cannot_be_drawn(tmp_path, fixed, message):
    models = fitted(4, lambda p, n, q, r: 3 + p * n + q + r)
    with pytest.raises(InputError, match=message):
        save_model_figure(models, 0, tmp_path / "none.svg", fixed=fixed)
    assert not list(tmp_path.iterdir())


def test_ticks_are_thinned():
    from matplotlib.figure import Figure

    axes = Figure().add_subplot()
    ticks_at(axes.xaxis, list(range(1, 21)))
    assert axes.get_xticks().tolist() == [1, 4, 7, 10, 13, 16, 19]


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
    return CliRunner().invoke(main, ["pmnf", "plot", *map(str, arguments)])


@pytest.mark.parametrize("suffix", ["svg", "png", "pdf"])
def test_command(file, tmp_path, suffix):
    figure = tmp_path / f"model.{suffix}"
    # A name in full is meant even where it is a part of another.
    result = run(file, figure, "--callpath", "main")
    assert result.exit_code == 0, result.stderr
    start = {"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF"}[suffix]
    assert figure.read_bytes().startswith(start)


@pytest.mark.parametrize(
    ("figure", "arguments", "message"),
    [
        ("a.svg", [], "main (time), main->f (time)"),
        ("a.svg", ["--callpath", "main", "--metric", "bytes"], "found none"),
        ("a.svg", ["--callpath", "main", "--at", "p=5"], "no parameter is left"),
        ("a.svg", ["--callpath", "main", "--at", "p"], "found p, expected NAME=VALUE"),
        ("a.svg", ["--callpath", "main", "--at", "p=nan"], "bad --at"),
        ("a.jpg", ["--callpath", "main"], "unknown suffix"),
        ("none/a.svg", ["--callpath", "main"], "no such folder"),
    ],
)
def test_command_with_wrong_input(file, tmp_path, figure, arguments, message):
    result = run(file, tmp_path / figure, *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert not (tmp_path / figure).exists()
