"""The published models of ms2: their values, their samples, and that they come back."""

import numpy as np
import pytest
from benchmark_modules import load

from toruscast.errors import InputError
from toruscast.scaling import Measurements, fit_many

ms2 = load("ms2_models")
sample = ms2.sample
MODELS = {model.name: model for model in ms2.published_models()}


@pytest.mark.parametrize(
    ("name", "place", "seconds"),
    [
        # Each worked by hand at a place where the logarithms are whole numbers.
        ("n,m", (4096, 3), 4.41 + 8.03e-5 * 3 * 4096 * 12),
        ("p,m", (64, 2), 6.6 + 3.21 * 4 - 0.42 * 4 * 6),
        ("p,d", (32, 0.3), 20.67 - 2.2 * 5),
        ("p,c", (16, 3), 33.83 + 0.05 * 27 - 4.89 * 4),
        ("n,c", (4096, 2), -0.99 + 0.06 * 8 + 1.81e-5 * 144),
        ("m,c", (4, 3), -23.49 + 10.09 * 4 + 0.22 * 27 * 4),
        ("p,n,m", (16, 4096, 2), 62.28 + 2.03e-8 * 4 * 4096**1.5 * 144 - 9.63 * 4),
        ("n,m,c", (4096, 2, 4), 9.24 + 5.71e-6 * 4096 * 12 * 16 * 2 * 2),
    ],
)
def test_values(name, place, seconds):
    assert MODELS[name].value(np.array([place], dtype=float)) == pytest.approx([seconds])


def test_grids():
    assert sorted(len(model.points()) for model in MODELS.values()) == [36] * 6 + [216] * 2
    points = MODELS["p,d"].points()
    assert points.min(axis=0).tolist() == [12, 0.05]
    assert points.max(axis=0).tolist() == [72, 0.80]


@pytest.mark.parametrize("variation", ms2.VARIATIONS)
def test_samples_vary_as_asked(variation):
    model = MODELS["n,m"]
    values = sample(model, variation, 20, seed=3)
    ratio = values / model.value(model.points())[None, :, None]
    assert ratio.mean() == pytest.approx(1, abs=5 * variation / ratio.size**0.5)
    assert ratio.std() == pytest.approx(variation, rel=5 / (2 * ratio.size) ** 0.5)


@pytest.mark.parametrize("name", MODELS)
def test_models_come_back_without_noise(name):
    model = MODELS[name]
    data = Measurements(model.parameters, model.points(), sample(model, 0.0, 1, seed=1))
    found = fit_many(data).terms()
    assert {e for _, e in found if np.any(e)} == model.exponents
    true = {e: c for c, e in model.terms}
    for coefficient, exponents in found:
        assert coefficient == pytest.approx(true[exponents], rel=1e-6)


def test_a_term_is_visible_by_what_the_others_leave():
    # One term and a constant: the norm of the term's weighted deviation from its weighted mean.
    model = MODELS["p,d"]
    points = model.points()
    weight = (model.value(points) * 0.1 / 10**0.5) ** -2.0
    term = -2.2 * np.log2(points[:, 0])
    mean = (weight * term).sum() / weight.sum()
    expected = np.sqrt((weight * (term - mean) ** 2).sum())
    assert model.visible(0.1) == pytest.approx([expected])


def test_a_term_too_small_to_see_is_left_out():
    model = MODELS["n,c"]
    assert model.visible(0.033)[1] < 1
    values = sample(model, 0.033, 10, seed=1)
    models = fit_many(Measurements(model.parameters, model.points(), values))
    for path in range(10):
        assert {e for _, e in models.terms(path) if np.any(e)} == {((0, 0), (3, 0))}


@pytest.mark.parametrize(("variation", "draws"), [(-0.1, 1), (float("nan"), 1), (0.1, 0)])
def test_wrong_sample(variation, draws):
    with pytest.raises(InputError, match="coefficient of variation"):
        sample(MODELS["n,m"], variation, draws, seed=1)
