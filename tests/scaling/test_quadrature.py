"""Coefficients that the points leave open: the integral over them against plain sums."""

import numpy as np
import pytest

from toruscast.scaling import Measurements, fit_many
from toruscast.scaling.pmnf._quadrature import NODES, integrate


def posterior(mean, inverse, n=2001, reach=8.0):
    """Evidence and mean coefficients from a fine grid over two coefficients."""
    covariance = inverse @ inverse.T
    precision = np.linalg.inv(covariance)
    axes = []
    for m, s in zip(mean, np.sqrt(np.diag(covariance)), strict=True):
        edge = np.linspace(max(m - reach * s, 0.0), max(m, 0.0) + reach * s, n + 1)
        axes.append((edge[1:] + edge[:-1]) / 2)
    u, v = np.meshgrid(*axes, indexing="ij")
    off = np.stack([u - mean[0], v - mean[1]])
    square = np.einsum("ikl,ij,jkl->kl", off, precision, off)
    density = np.exp(-0.5 * square) / (2 * np.pi) / (u + v) ** 2 * 6 * u * v / (u + v) ** 2
    weight = density * (axes[0][1] - axes[0][0]) * (axes[1][1] - axes[1][0])
    total = weight.sum()
    return np.log(total), (weight * u).sum() / total, (weight * v).sum() / total


@pytest.mark.parametrize(
    ("mean", "inverse"),
    [
        ((0.5, 0.5), [[0.02, 0.0], [0.0, 0.03]]),  # both well known
        ((0.5, 0.3), [[0.02, -0.01], [0.0, 0.2]]),  # one half known
        ((0.5, 1.0), [[0.02, 0.0], [0.0, 5.0]]),  # one unknown over a range wider than all others
        ((0.5, -3.0), [[0.02, 0.0], [0.0, 2.0]]),  # and one that would be negative
        ((0.5, -8.0), [[0.02, 0.0], [0.0, 2.0]]),
    ],
)
def test_integral(mean, inverse):
    mean, inverse = np.array(mean), np.array(inverse)
    opened = integrate(
        mean[None, None], inverse[None, None], np.ones((1, 1)), np.ones((1, 1, 2), dtype=bool)
    )
    evidence, first, second = posterior(mean, inverse)
    share = np.exp(opened.log_share[0, 0])
    assert share.sum() == pytest.approx(1)
    assert opened.log_evidence[0, 0] == pytest.approx(evidence, abs=0.15)
    got = share @ opened.coefficient[0, 0]
    assert got[0] == pytest.approx(first, rel=0.05)
    assert got[1] == pytest.approx(second, rel=0.2)


def test_columns_that_do_not_exist_stay_at_zero():
    opened = integrate(
        np.array([[[0.5, 0.0]]]),
        np.array([[[[0.1, 0.0], [0.0, 1.0]]]]),
        np.ones((1, 1)),
        np.array([[[True, False]]]),
    )
    assert opened.coefficient.shape == (1, 1, NODES, 2)
    assert not opened.coefficient[..., 1].any()
    assert np.exp(opened.log_share[0, 0]) @ opened.coefficient[0, 0, :, 0] == pytest.approx(
        0.46, abs=0.03
    )


# A line of five points along each axis and one more.
CROSS = np.array(
    [[x, 10] for x in (4, 8, 16, 32, 64)] + [[4, y] for y in (20, 30, 40, 50)] + [[8, 20]]
)


def test_signed_and_unsigned_paths_of_a_sparse_design_fit_together():
    x, y = CROSS.T.astype(float)
    values = np.stack([2 + 3 * x + y, 20 - 3 * np.log2(x) * 2, 0 * x])[:, :, None]
    models = fit_many(Measurements(["x", "y"], CROSS, values))
    assert models.formulas() == ["2 + y + 3 x", "20 - 6 log2(x)", "0"]
    assert models.predict([[128, 60]]) == pytest.approx(np.array([[446], [-22], [0]]), abs=1e-6)


def test_a_product_seen_at_one_point_only_is_uncertain():
    x, y = CROSS.T.astype(float)
    rng = np.random.default_rng(1)
    truth = 100 + 1e-3 * x * y
    values = truth[:, None] * (1 + 0.05 * rng.uniform(-1, 1, size=(len(x), 5)))
    models = fit_many(Measurements(["x", "y"], CROSS, values[None]))
    low, high = models.spread([[256, 200]], (0.05, 0.95))[:, 0, 0]
    assert high > 1.2 * low
