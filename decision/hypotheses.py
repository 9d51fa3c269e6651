"""What runs on a machine say of all mappings, whatever else is in the times and however noisy.

Where the rules of the machine's network are unknown, each network that it may have is a hypothesis
as well: runs weigh them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple, Self

import numpy as np
import scipy
from numpy.typing import NDArray

from toruscast.decision.posterior import Kernel, Mixture, Posterior
from toruscast.workers import OneBlasThread

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

CONSTANTS = (0.0, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
"""Time that does not depend on the mapping, over the median forecast of the network's."""
LESS = (-0.6, -0.3)
"""The same where the forecast may hold more of it than the measured time, such as a program's start
that is in its trace but not in its loop."""
# Part of a forecast that such a hypothesis leaves at least.
_LEFT = 0.1
# By how much the machine misses the forecast more than the simulator does, and how likely that is.
_REACHES = (0.5, 1.0, 2.0, 4.0)
# Standard deviations of a run's time, as shares of it; near 2 % unless runs say otherwise.
_NOISES = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16)
_USUAL_NOISE, _NOISE_FACTOR = 0.02, 4.0
# Times may be those of one step or of thousands.
_OFFSET = 3.0**2
# One run in twenty is disturbed; how much longer it takes has, in logarithms, a density of about 1.
_DISTURBANCE = float(np.log(0.05))
# Runs without which none is thought disturbed, and those that are looked at, the slowest first.
_FEWEST, _SUSPECTS = 4, 24
# Hypotheses less likely than this share of the likeliest are dropped.
_UNLIKELY = 1e-3


class Repeated(NamedTuple):
    """Runs put together by mapping.

    The mean of the logarithms and their scatter hold all that normal noise tells.
    """

    seen: Indices
    """The mappings that were run, each once."""
    means: Floats
    """Mean of the logarithms of the seconds of each."""
    counts: Indices
    """Runs of each."""
    scatter: float
    """Sum of the squared deviations from these means, over all runs."""

    @classmethod
    def of(cls, which: Indices, seconds: Floats) -> Self:
        """Put single runs together."""
        logs = np.log(seconds)
        seen, place = np.unique(which, return_inverse=True)
        counts = np.bincount(place, minlength=seen.size)
        means = np.bincount(place, logs, minlength=seen.size) / np.maximum(counts, 1)
        return cls(seen, means, counts, float(((logs - means[place]) ** 2).sum()))


class Hypotheses(Mixture):
    """A posterior for each way in which the machine may differ from the forecast, with its weight.

    A measured time is ``b (a + t)``, the forecast ``t`` of the network being uncertain, times the
    noise of a run. ``b`` may be anything; ``a``, how far the machine misses the forecast and the
    noise each take a few values, which the runs make more or less likely. So do several forecasts,
    one for each network that the machine may have; they differ in centre and width only.
    """

    def __init__(
        self,
        forecast: Posterior | Sequence[Posterior],
        noise: float | None = None,
        constants: Sequence[float] = CONSTANTS,
    ) -> None:
        forecasts = [forecast] if isinstance(forecast, Posterior) else list(forecast)
        self.forecast = forecasts[0]
        noises = _NOISES if noise is None else (noise,)
        every = product(range(len(forecasts)), constants, _REACHES, noises)
        network, self.constant, self.reach, self.noise = np.array(list(every)).T
        self.network = network.astype(np.int64)
        """Which of the forecasts each hypothesis takes."""
        each = zip(self.network, self.constant, self.reach, strict=True)
        weights = np.exp(self._log_prior())
        super().__init__(
            [_posterior(forecasts[i], constant, reach) for i, constant, reach in each],
            weights / weights.sum(),
        )

    @OneBlasThread()
    def given(self, runs: Repeated) -> Self:
        """Return the posterior once these are all the runs."""
        logs = self._log_prior() + self._evidence(runs)
        weights = np.exp(logs - logs.max())
        kept = np.flatnonzero(weights > _UNLIKELY)
        other = type(self).__new__(type(self))
        other.forecast = self.forecast
        other.weights = weights[kept] / weights[kept].sum()
        other.constant, other.reach = self.constant[kept], self.reach[kept]
        other.noise, other.network = self.noise[kept], self.network[kept]
        other.processes = [
            self.processes[int(i)].given(runs.seen, runs.means, self.noise[i] ** 2 / runs.counts)
            for i in kept
        ]
        return other

    @OneBlasThread()
    def evidence(self, runs: Repeated) -> float:
        """Return the logarithm of the density of these runs."""
        logs = self._log_prior()
        every = scipy.special.logsumexp(logs + self._evidence(runs)) - scipy.special.logsumexp(logs)
        several = np.log(2 * np.pi) * runs.counts.sum() + np.log(runs.counts).sum()
        return float(every - several / 2)

    @OneBlasThread()
    def disturbed(self, which: Indices, seconds: Floats) -> NDArray[np.bool_]:
        """Return which of the runs something has likely slowed down.

        One by one, as long as the others and a rare disturbance explain the times better than an
        undisturbed run does, and it took longer than they say.
        """
        kept = np.ones(which.size, dtype=bool)
        if which.size < _FEWEST:
            return ~kept
        best = self.evidence(Repeated.of(which, seconds))
        while True:
            trials = []
            for i in np.flatnonzero(kept)[np.argsort(-seconds[kept], kind="stable")][:_SUSPECTS]:
                rest = kept.copy()
                rest[i] = False
                trials.append((self.evidence(Repeated.of(which[rest], seconds[rest])), int(i)))
            for found, i in sorted(trials, reverse=True):
                rest = kept.copy()
                rest[i] = False
                if found + _DISTURBANCE <= best:
                    return ~kept
                expected = self.given(Repeated.of(which[rest], seconds[rest])).marginal()[0]
                if np.log(seconds[i]) > expected[which[i]]:
                    best, kept = found, rest
                    break
            else:
                return ~kept

    def noise_share(self) -> float:
        """Return the likely standard deviation of a run's time, as a share of it."""
        return float(np.exp(self.weights @ np.log(self.noise)))

    def constant_share(self) -> float:
        """Return which share of the median time likely does not depend on the mapping."""
        constant = np.maximum(self.constant, 0.0)
        return float(self.weights @ (constant / (1 + constant)))

    def network_weights(self, n_networks: int) -> Floats:
        """Return the probability of each forecast, ``(n_networks,)``."""
        return np.bincount(self.network, self.weights, n_networks).astype(np.float64)

    def _evidence(self, runs: Repeated) -> Floats:
        """Logarithm of how likely each hypothesis holds the runs, but for a common constant."""
        seen = runs.seen
        widths = np.array([posterior.width[seen] for posterior in self.processes])
        missed = runs.means - np.array([posterior.centre[seen] for posterior in self.processes])
        covariance = _OFFSET + self.forecast.alike(seen, seen) * (
            widths[:, :, None] * widths[:, None, :]
        )
        diagonal = np.arange(seen.size)
        covariance[:, diagonal, diagonal] += self.noise[:, None] ** 2 / runs.counts
        root = np.linalg.cholesky(covariance)
        surprise = (np.linalg.solve(root, missed[:, :, None]) ** 2).sum(axis=(1, 2))
        volume = np.log(root[:, diagonal, diagonal]).sum(axis=1)
        spare = int(runs.counts.sum()) - seen.size
        within = spare * np.log(self.noise) + runs.scatter / (2 * self.noise**2)
        return np.asarray(-0.5 * surprise - volume - within)

    def _log_prior(self) -> Floats:
        """Logarithms of the weights of all values before any run."""
        if np.unique(self.noise).size == 1:
            return np.zeros(self.noise.size)
        far = np.log(self.noise / _USUAL_NOISE) / np.log(_NOISE_FACTOR)
        return np.asarray(-0.5 * far**2)


def _posterior(forecast: Posterior, constant: float, reach: float) -> Posterior:
    """What one hypothesis says of the times."""
    middle = np.median(forecast.centre)
    unit = np.exp(forecast.centre - middle)
    k = forecast.kernel
    time = np.maximum(constant + unit, _LEFT * unit)
    return Posterior(
        np.log(time) + middle,
        # Where little of the time is the network's, its residuals weigh as little.
        forecast.width * reach * unit / time,
        forecast.features,
        Kernel(k.common, k.smooth, k.own, k.length, float("inf"), _OFFSET),
    )
