"""Student-t processes over the times of candidates, and what follows from them.

The race, the order of all candidates and the plan of runs condition them on different sources, and
ask the same of them: which candidate may be fastest (`Outcomes`), and how many pairs are in the
right order (`wrong_pairs`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np
import scipy
from numpy.typing import NDArray

from toruscast.training.fitted import p_best
from toruscast.workers import OneBlasThread

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


# Share of the residual variance that all candidates of one application have in common.
_COMMON = 0.5
# Variance of a logarithm that is nothing, but not zero; and of the difference of two known times.
_LEAST, _KNOWN = 1e-18, 1e-9
DRAWS = 4000
"""Possible times that are drawn of each candidate."""
TOGETHER = 400
"""Candidates whose times are drawn together: those that may be the fastest."""
# Candidates whose pairs are counted; some stand for all where they are more.
_PAIRED = 1000


class Kernel(NamedTuple):
    """Correlation of the errors of a forecast, in shares of their variance.

    The default was fitted on the samples of the default model, each application forecast by a model
    that had not seen its kind of graph and then raced (`benchmarks/posterior.py` repeats it):
    of kernels that make the times nearly as likely as any, one whose intervals hold 90 % of them.
    """

    common: float = 0.08
    """Variance that all candidates of an application have in common."""
    smooth: float = 0.2
    """Variance that candidates of like features have in common."""
    own: float = 0.1
    """Variance of each alone."""
    length: float = 0.5
    """Distance of features, over the root of their number, at which the likeness fades."""
    freedom: float = 4.0
    """Degrees of freedom of Student's t; infinite where the widths are certain."""
    offset: float = 0.0
    """Variance of a factor that all times share, whatever their widths."""

    @classmethod
    def of(cls, common: float, deviation: float) -> Self:
        """Return the kernel of residuals with these variances, over and within applications."""
        likeness = cls()
        share = likeness.smooth / (likeness.smooth + likeness.own)
        return cls(_COMMON * common, share * deviation, (1 - share) * deviation)


class Posterior:
    """Student-t process over the logarithms of the candidates' times.

    A Gaussian process whose overall scale is not certain either: observations narrow it or widen
    it (Shah, Wilson and Ghahramani, AISTATS 2014). Times that were observed are exact unless they
    come with a variance. Centre and width are logarithms of seconds; by their normalised
    ``features`` candidates are alike.
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
        other._factor = scipy.linalg.cho_factor(covariance, lower=True)
        surprise = float(other._missed @ scipy.linalg.cho_solve(other._factor, other._missed))
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
        weights = scipy.linalg.cho_solve(self._factor, across.T)
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
            weights = scipy.linalg.cho_solve(self._factor, across.T)
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
        """Covariance of the residuals of candidates, over the product of their widths."""
        k = self.kernel
        a, b = self.features[rows], self.features[columns]
        squares = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1)[None] - 2 * a @ b.T
        distance = np.maximum(squares, 0.0) / max(1, a.shape[1])
        shared = k.common + k.smooth * np.exp(-distance / (2 * k.length**2))
        return np.asarray(shared + k.own * (rows[:, None] == columns[None]))

    def _covariance(self, rows: Indices, columns: Indices) -> Floats:
        widths = self.width[rows][:, None] * self.width[columns][None]
        return np.asarray(self.kernel.offset + self.alike(rows, columns) * widths)


class Mixture:
    """Processes of which one is right, with the weight of each."""

    processes: Sequence[Posterior]
    weights: Floats

    def __init__(self, processes: Sequence[Posterior], weights: Floats) -> None:
        self.processes, self.weights = processes, weights

    @OneBlasThread()
    def marginal(self, wanted: Indices | None = None) -> tuple[Floats, Floats]:
        """Return mean and deviation of the logarithm of each mapping's time, without noise."""
        parts = [posterior.marginal(wanted) for posterior in self.processes]
        means, scales = (np.array(part) for part in zip(*parts, strict=True))
        mean = self.weights @ means
        return mean, np.sqrt(self.weights @ (scales**2 + (means - mean) ** 2))

    @OneBlasThread()
    def joint(self, wanted: Indices) -> tuple[Floats, Floats]:
        """Return mean and covariance of the logarithms of the times of ``wanted``."""
        parts = [posterior.joint(wanted) for posterior in self.processes]
        means = np.array([mean for mean, _ in parts])
        mean = self.weights @ means
        apart = means - mean
        covariance = np.einsum("h,hi,hj->ij", self.weights, apart, apart)
        for weight, (_, within) in zip(self.weights, parts, strict=True):
            covariance += weight * within
        return mean, covariance

    @OneBlasThread()
    def draws(self, wanted: Indices, n_draws: int, rng: np.random.Generator) -> Floats:
        """Draw possible logarithms of the times of ``wanted``, shape ``(n_draws, n_wanted)``."""
        shares = rng.multinomial(n_draws, self.weights)
        drawn = [
            posterior.draws(wanted, int(n), rng)
            for posterior, n in zip(self.processes, shares, strict=True)
            if n
        ]
        return np.concatenate(drawn)


Process = Posterior | Mixture


class Outcomes(NamedTuple):
    """Possible times of the candidates that may be the fastest, drawn together."""

    which: Indices
    """Those candidates, ``(n_likely,)``."""
    logs: Floats
    """Logarithms of their times, ``(n_draws, n_likely)``."""

    @classmethod
    def of(cls, process: Process, seed: int, most: int = TOGETHER) -> Self:
        """Draw the times of at most so many candidates."""
        middle, scale = process.marginal()
        likely = np.sort(np.argsort(middle - 2 * scale, kind="stable")[:most])
        return cls(likely, process.draws(likely, DRAWS, np.random.default_rng(seed)))

    def p_best(self, n: int) -> Floats:
        """Probability that each of ``n`` candidates is the fastest; those that tie share it."""
        shares = np.zeros(n)
        shares[self.which] = p_best([self.logs])
        return shares

    def lost(self, candidate: int) -> Floats:
        """Logarithm of a candidate's time over the least of all, of each draw."""
        own = self.logs[:, int(np.flatnonzero(self.which == candidate)[0])]
        return np.asarray(own - self.logs.min(axis=1))

    def certainty(self, candidate: int, share: float) -> float:
        """Probability that no other takes less by more than a share of its time."""
        return float((self.lost(candidate) <= np.log1p(share)).mean())


def wrong_pairs(process: Process) -> tuple[Indices, Floats]:
    """Return some or all candidates, and how likely each two of them are in the wrong order.

    Shape ``(n, n)``; 0 for times that are known.
    """
    n = process.marginal()[0].size
    which = np.unique(np.linspace(0, n - 1, min(n, _PAIRED)).astype(np.int64))
    mean, covariance = process.joint(which)
    diagonal = covariance.diagonal()
    apart = diagonal[:, None] + diagonal[None] - 2 * covariance
    score = -np.abs(mean[:, None] - mean[None]) / np.sqrt(np.maximum(apart, _KNOWN))
    nu = process.freedom if isinstance(process, Posterior) else np.inf
    wrong = scipy.special.stdtr(nu, score)
    return which, np.where(apart > _KNOWN, wrong, 0.0)


def expected_rcc(process: Process) -> float:
    """Return the share of pairs that are expected in the order of the middle times."""
    wrong = wrong_pairs(process)[1]
    n = len(wrong)
    return 1.0 if n < 2 else float(1 - wrong.sum() / (n * (n - 1)))
