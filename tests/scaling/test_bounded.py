"""Bounded noise weighed exactly: against plain sums over coefficients, and what it rules out."""

import numpy as np
import pytest

from toruscast.scaling import FitOptions, Measurements, fit_many
from toruscast.scaling.pmnf import _bounded as bounded
from toruscast.scaling.pmnf._bounded import Repetitions, weigh
from toruscast.scaling.pmnf._evidence import log_shares
from toruscast.scaling.pmnf._quadrature import integrate_bounded
from toruscast.scaling.pmnf.noise import centres

POINTS = np.array([1.0, 2.0, 3.0, 4.0])


def repeated(seed=0, half_width=0.05):
    """Repetitions of 0.4 + 0.15 x, and their extremes."""
    rng = np.random.default_rng(seed)
    noise = 1 + half_width * rng.uniform(-1, 1, (POINTS.size, 4))
    values = (0.4 + 0.15 * POINTS)[:, None] * noise
    low, high = values.min(axis=1)[None], values.max(axis=1)[None]
    return Repetitions(low, high, np.full((1, POINTS.size), 4.0))


def likelihood(repetitions, value):
    """h^-N / f^N with the least half-width h that covers all repetitions."""
    h = np.maximum(repetitions.highest / value - 1, 1 - repetitions.lowest / value).max(axis=-1)
    return h**-16.0 * (value**-4.0).prod(axis=-1)


def plain_sum(repetitions, reach, prior):
    """Integral over a grid of two coefficients, and their means."""
    axes = [np.linspace(low, high, 1201)[:-1] + (high - low) / 2400 for low, high in reach]
    u, v = np.meshgrid(*axes, indexing="ij")
    values = u[..., None] + v[..., None] * POINTS
    weight = likelihood(repetitions, values) * prior(u, v)
    total = weight.sum()
    cell = (axes[0][1] - axes[0][0]) * (axes[1][1] - axes[1][0])
    return np.log(total * cell), (weight * u).sum() / total, (weight * v).sum() / total


# Least squares of 0.4 + 0.15 x, roughly, as the normal law would propose them.
CENTRE = np.array([0.4, 0.15])
DESIGN = np.stack([POINTS**0, POINTS], axis=1)[None]
SPREAD = np.linalg.inv(np.linalg.cholesky(DESIGN[0].T @ DESIGN[0] / 0.015**2).T)
USED = np.ones((1, 2), dtype=bool)


def test_weighed_samples_give_the_integral(monkeypatch):
    monkeypatch.setattr(bounded, "SAMPLES", 4000)
    found = weigh(DESIGN, repeated(), CENTRE[None, None], SPREAD[None], USED)
    evidence, first, second = plain_sum(
        repeated(), [(0.3, 0.5), (0.1, 0.2)], lambda u, _: np.ones(u.shape)
    )
    volume = np.log(2 * np.pi) + np.log(abs(np.linalg.det(SPREAD)))
    assert found.log_mean[0, 0] + volume == pytest.approx(evidence, abs=0.1)
    assert found.coefficient[0, 0] == pytest.approx([first, second], rel=0.01)


def test_nodes_give_the_integral_under_the_prior_over_shares(monkeypatch):
    monkeypatch.setattr(bounded, "SAMPLES_A_NODE", 400)
    opened = integrate_bounded(CENTRE[None], SPREAD[None], USED, DESIGN, repeated())
    evidence, first, second = plain_sum(
        repeated(), [(0.3, 0.5), (0.1, 0.2)], lambda u, v: 6 * u * v / (u + v) ** 4
    )
    share = np.exp(opened.log_share[0])
    assert share.sum() == pytest.approx(1)
    assert opened.log_evidence[0] + np.log(2 * np.pi) == pytest.approx(evidence, abs=0.1)
    assert share @ opened.coefficient[0] == pytest.approx([first, second], rel=0.01)


def test_no_sample_possible_is_no_evidence():
    found = weigh(DESIGN, repeated(), -CENTRE[None, None], 1e-3 * SPREAD[None], USED)
    assert found.log_mean[0, 0] == -np.inf
    assert not found.coefficient.any()


@pytest.mark.parametrize("n", [1, 2, 3])
def test_prior_over_shares_is_a_density(n):
    shares = np.random.default_rng(1).dirichlet(np.ones(n), size=20_000)
    density = np.exp(log_shares(7.0 * shares, np.ones(n, dtype=bool)))
    assert density.mean() == pytest.approx(1, abs=0.03)


def test_one_point_rules_a_hypothesis_out():
    """Two noisy points in five cannot be averaged away where noise has a bound."""
    p = np.array([4.0, 8.0, 16.0, 32.0, 64.0])
    truth = 10 + p**0.5
    # Repetitions that fill the bound of 4 % at every point: f itself is known to a hair.
    values = truth[:, None] * (1 + np.array([-0.04, -0.03, 0.0, 0.03, 0.04]))
    data = Measurements(["p"], p[:, None], values[None])
    strict = fit_many(data, FitOptions(noise="bounded"))
    normal = fit_many(data, FitOptions(noise="normal"))
    assert strict.formulas(digits=2) == ["10 + p^(1/2)"]
    far = [[256.0]]
    width = [np.ptp(m.spread(far, (0.05, 0.95))[:, 0, 0]) for m in (strict, normal)]
    assert width[0] < 0.2 * width[1]
    assert strict.predict(far)[0, 0] == pytest.approx(26, rel=0.005)


@pytest.mark.parametrize("law", ["auto", "bounded"])
@pytest.mark.parametrize("odd", [[-10.0, 5, 5, 5], [-12.0, 12, 12, 12], [-30.0, 12, 12, 12]])
def test_a_mid_range_that_is_not_positive_keeps_the_normal_law(law, odd):
    rng = np.random.default_rng(1)
    p = np.array([2.0, 4, 8, 16, 32])
    clean = p[:, None] * (1 + 0.1 * rng.uniform(-1, 1, (5, 4)))
    alone = centres(clean[None], law)
    both = centres(np.stack([clean, clean * 0 + np.array(odd) * p[:, None]]), law)
    assert both.bounded[1] == 0
    assert both.centre[1] == pytest.approx(p * np.mean(odd))
    assert (both.bounded[0] > 0.5) == (alone.bounded[0] > 0.5)
    assert np.isfinite(both.centre).all()
