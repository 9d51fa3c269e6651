"""Student-t process over the times of candidates, conditioned on the simulations so far."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from toruscast.workers import OneBlasThread

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


# Share of the residual variance that all candidates of one application have in common.
_COMMON = 0.5
# Variance of a logarithm that is nothing, but not zero.
_LEAST = 1e-18


class Kernel(NamedTuple):
    """Correlation of the errors of a forecast, in shares of their variance.

    The default was fitted on the samples of the default model, each pair of workload and torus
    forecast by a model that had not seen it and then raced (`benchmarks/posterior.py` repeats it):
    of kernels that make the times nearly as likely as any, one whose intervals hold 90 % of them.
    """

    common: float = 0.08
    """Variance that all candidates of an application have in common."""
    smooth: float = 0.3
    """Variance that candidates of like features have in common."""
    own: float = 0.15
    """Variance of each alone."""
    length: float = 0.5
    """Distance of features, over the root of their number, at which the likeness fades."""
    freedom: float = 4.0
    """Degrees of freedom of Student's t; infinite where the widths are certain."""
    offset: float = 0.0
    """Variance of a factor that all times share, whatever their widths."""

    @classmethod
    def of(cls, common: float, deviation: float) -> Self:
        """Return the kernel of misses with these variances, over and within applications."""
        likeness = cls()
        share = likeness.smooth / (likeness.smooth + likeness.own)
        return cls(_COMMON * common, share * deviation, (1 - share) * deviation)


class Posterior:
    """Student-t process over the logarithms of the candidates' times.

    A Gaussian process whose overall scale is not certain either: observations narrow it or widen
    it. Times that were observed are exact unless they come with a variance.

    Parameters
    ----------
    centre : ndarray, shape (n,)
        Logarithm of the forecast of each candidate, seconds.
    width : ndarray, shape (n,)
        Width of its uncertainty, same scale.
    features : ndarray, shape (n, n_features)
        Normalised features, by which candidates are alike.
    kernel : Kernel

    References
    ----------
    .. [1] Shah, Wilson and Ghahramani, "Student-t processes as alternatives to Gaussian
       processes", AISTATS 2014.

    Examples
    --------
    >>> posterior = Posterior(np.zeros(3), np.ones(3), np.array([[0.0], [0.1], [9.0]]))
    >>> posterior = posterior.given(np.array([0]), np.array([1.0]))
    >>> middle, scale = posterior.marginal()
    >>> bool(middle[1] > middle[2] > 0 and scale[1] < scale[2])
    True
    """

    def __init__(
        self, centre: Floats, width: Floats, features: Floats, kernel: Kernel | None = None
    ) -> None:
        self.centre, self.width, self.features = centre, width, features
        self.kernel = Kernel() if kernel is None else kernel
        self._seen = np.empty(0, dtype=np.int64)
        self._missed = np.empty(0)
        self._factor: tuple[Floats, bool] | None = None
        self._spread = 1.0

    @property
    def freedom(self) -> float:
        """Degrees of freedom after the observations."""
        return self.kernel.freedom + self._seen.size

    @OneBlasThread()
    def given(self, seen: Indices, logs: Floats, variance: float | Floats = 0.0) -> Self:
        """Return the posterior once the logarithms of the times of ``seen`` are known.

        ``variance`` is that of each of them, such as the noise of a machine.
        """
        other = type(self)(self.centre, self.width, self.features, self.kernel)
        if not len(seen):
            return other
        covariance = self._covariance(seen, seen)
        # The jitter keeps candidates with equal features apart, and those of no width solvable.
        jitter = 1e-9 * float(np.diag(covariance).mean()) + _LEAST + variance
        covariance[np.diag_indices(len(seen))] += jitter
        other._seen, other._missed = np.asarray(seen), np.asarray(logs) - self.centre[seen]
        other._factor = cho_factor(covariance, lower=True)
        surprise = float(other._missed @ cho_solve(other._factor, other._missed))
        nu = self.kernel.freedom
        other._spread = 1.0 if np.isinf(nu) else (nu + surprise) / (nu + len(seen))
        return other

    @OneBlasThread()
    def marginal(self, wanted: Indices | None = None) -> tuple[Floats, Floats]:
        """Return centre and scale of each candidate's Student-t, logarithms of seconds."""
        which = np.arange(self.centre.size) if wanted is None else wanted
        k = self.kernel
        prior = k.offset + self.width[which] ** 2 * (k.common + k.smooth + k.own)
        if self._factor is None:
            return self.centre[which], np.sqrt(prior)
        across = self._covariance(which, self._seen)
        weights = cho_solve(self._factor, across.T)
        middle = self.centre[which] + weights.T @ self._missed
        rest = np.maximum(prior - np.einsum("ij,ji->i", across, weights), 0.0)
        return middle, np.sqrt(self._spread * rest)

    @OneBlasThread()
    def joint(self, wanted: Indices) -> tuple[Floats, Floats]:
        """Return centre and scale matrix of the Student-t of ``wanted`` together."""
        covariance = self._covariance(wanted, wanted)
        middle = self.centre[wanted]
        if self._factor is not None:
            across = self._covariance(wanted, self._seen)
            weights = cho_solve(self._factor, across.T)
            middle = middle + weights.T @ self._missed
            covariance = self._spread * (covariance - across @ weights)
        return middle, covariance

    @OneBlasThread()
    def draws(self, wanted: Indices, n_draws: int, rng: np.random.Generator) -> Floats:
        """Draw possible logarithms of the times of ``wanted``, shape ``(n_draws, n_wanted)``."""
        middle, covariance = self.joint(wanted)
        values, vectors = np.linalg.eigh(covariance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        normal = rng.standard_normal((n_draws, len(wanted))) @ root.T
        if np.isinf(self.freedom):
            return np.asarray(middle + normal)
        scale = np.sqrt(self.freedom / rng.chisquare(self.freedom, size=(n_draws, 1)))
        return np.asarray(middle + scale * normal)

    def alike(self, rows: Indices, columns: Indices) -> Floats:
        """Covariance of the misses of candidates, over the product of their widths."""
        k = self.kernel
        a, b = self.features[rows], self.features[columns]
        squares = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1)[None] - 2 * a @ b.T
        distance = np.maximum(squares, 0.0) / max(1, a.shape[1])
        shared = k.common + k.smooth * np.exp(-distance / (2 * k.length**2))
        return np.asarray(shared + k.own * (rows[:, None] == columns[None]))

    def _covariance(self, rows: Indices, columns: Indices) -> Floats:
        widths = self.width[rows][:, None] * self.width[columns][None]
        return np.asarray(self.kernel.offset + self.alike(rows, columns) * widths)
