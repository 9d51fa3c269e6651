"""Posterior of the candidates' times, conditioned on simulations and runs.

The logarithms of all times are a Gaussian process. Each is a mean plus errors, which are correlated
between candidates, so observing the time of one candidate also changes the predictions of others.
The parameters that are not Gaussian are the scale of the errors and, for runs, the constant in a
measured time, the noise and the network of the machine. Their values lie on a grid, whose points
are weighted by their likelihood. Five equally likely scales approximate a Student-t process with
four degrees of freedom.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from toruscast._jit import kernel
from toruscast._lazy import lazy
from toruscast.training.residuals import PriorPrediction
from toruscast.typing import Floats
from toruscast.workers import SingleBlasThread

Indices = NDArray[np.int64]

TIME, FULL, COARSE, RUN, MACHINE, AVERAGED = "time", "full", "coarse", "run", "machine", "averaged"
"""Sources of times: the simulated time to predict; a full simulation, which observes it exactly; a
coarse simulation; a run; the time on a machine, which runs observe with noise; and the time on a
machine with unknown rules, predicted by the mean over several simulated networks."""
N_DRAWS = 4000
N_TOGETHER = 200
"""Maximum number of candidates that are drawn together: those likeliest to be the fastest."""
_MACHINE_SOURCES = (RUN, MACHINE)
# Prior variance of the log ratio of measured to simulated times. This prior is nearly flat.
_FACTOR_VARIANCE = 3.0**2
# Minimum share of an expected time that remains when a negative constant is added.
_MIN_REMAINING = 0.1
# Variances added to keep the covariances of exact observations positive definite.
_JITTER, _NUGGET = 1e-18, 1e-9
# Exponent of the evidence when weighting networks. No plausible network is exactly that of the
# machine, so a few runs should not exclude all but one. Tuned on four programs.
_NETWORK_SHARE = 0.25
# Grid points are dropped if their weight is below this share of the largest weight.
_MIN_WEIGHT = 1e-3
# Maximum number of candidates for the expected RCC; if there are more, they are thinned out evenly.
_MAX_PAIRED = 1000
# For the prior error: maximum common share, smooth share of the remainder, and factor that widens
# the standard deviation. With these, 90 % intervals cover 90 % of the times
# (`benchmarks/posterior.py`).
_MAX_COMMON, _SMOOTH, _WIDENING = 0.1, 2 / 3, 1.1
# Prior standard deviation of the slope of log time against predicted log time. The slope may not be
# 1, because messages of slower mappings wait longer than the bound assumes
# (`benchmarks/forecast.py`).
_PRIOR_SLOPE = 0.2


class Kernel(NamedTuple):
    """Correlation of an error between candidates, as shares of its variance."""

    common: float
    """Share that is equal for all candidates."""
    smooth: float
    """Share with a Gaussian kernel over the features."""
    independent: float
    length_scale: float = 0.5
    """Length of the Gaussian kernel, as a root mean square distance between features."""


class ErrorComponent(NamedTuple):
    """An additive error of log times: its standard deviation per candidate, and its kernel."""

    std: Floats
    kernel: Kernel

    @classmethod
    def from_distance(cls, mean: Floats, slope: float) -> Self:
        """Return an error that is proportional to ``mean`` minus the minimum of ``mean``."""
        return cls(slope * (mean - mean.min()), Kernel(common=1.0, smooth=0.0, independent=0.0))


class Hyperparameters(NamedTuple):
    """A grid point of the parameters that are not Gaussian.

    If the network takes ``t``, a run takes ``b (constant * median + t)`` with relative ``noise``,
    where ``b`` is any factor.
    """

    prior_scale: float = 1.0
    """Factor that multiplies the standard deviation of the prior error."""
    constant: float = 0.0
    """Time that does not depend on the mapping, divided by the median time of the network."""
    machine_scale: float = 1.0
    """Factor that multiplies the standard deviation of the machine error."""
    noise: float = 0.0
    """Relative standard deviation of repeated runs."""
    network: int = 0
    """Row of the prior means."""


class Observations(NamedTuple):
    """Logarithms of observed times, averaged over repeated runs."""

    candidates: Indices
    source: NDArray[np.str_]
    logs: Floats
    variance: Floats
    counts: Indices
    """Number of runs in each mean."""
    scatter: float
    """Sum of the squared deviations of repeated runs from their means."""


_NO_OBSERVATIONS = Observations(
    np.empty(0, np.int64), np.empty(0, "U8"), np.empty(0), np.empty(0), np.empty(0, np.int64), 0.0
)


class Draws(NamedTuple):
    """Joint samples from the posterior of the candidates that may be the fastest."""

    candidates: Indices
    """Shape ``(n_likely,)``."""
    logs: Floats
    """Logarithms of their times, ``(n_draws, n_likely)``."""

    def p_best(self, n: int) -> Floats:
        """Return the probability that each of ``n`` candidates is the fastest; ties share it."""
        is_min = self.logs <= self.logs.min(axis=1, keepdims=True) + _NUGGET
        chances = np.zeros(n)
        chances[self.candidates] = (is_min / is_min.sum(axis=1, keepdims=True)).mean(axis=0)
        return chances

    def loss(self, candidate: int) -> Floats:
        """For each draw, return the log ratio of a candidate's time to the minimum time."""
        logs = self.logs[:, int(np.flatnonzero(self.candidates == candidate)[0])]
        return np.asarray(logs - self.logs.min(axis=1))


@dataclass(frozen=True, eq=False)
class Posterior:
    """Distribution of the candidates' times, in logarithms of seconds.

    Parameters
    ----------
    prior_means : ndarray, shape (n_networks, n)
        Expected log times before any observation; the hyperparameters select a row.
    errors : dict of str to ErrorComponent
        The hyperparameters scale ``prior`` and ``machine``.
    sources : dict of str to tuple of str
        For each source, names of the errors that its times have.
    features : ndarray, shape (n, n_features)
        Normalised features for the kernels.
    bounds : ndarray, shape (n,)
        Lower bounds of the simulated times, seconds; 0 where unknown.
    grid, grid_weights
        Hyperparameters, and their prior weights.
    target : {"time", "machine", "averaged"}
        Source of the times to predict. ``averaged``: times on a machine, predicted by the mean over
        several simulated networks.
    """

    prior_means: Floats
    errors: Mapping[str, ErrorComponent]
    sources: Mapping[str, tuple[str, ...]]
    features: Floats
    bounds: Floats
    grid: Sequence[Hyperparameters] = (Hyperparameters(),)
    grid_weights: Floats | None = None
    target: str = TIME
    seed: int = 0
    observations: Observations = _NO_OBSERVATIONS

    @classmethod
    def from_prediction(cls, prediction: PriorPrediction, bounds: Floats, seed: int = 0) -> Self:
        """Return a prior that has the intervals of a model's prediction, and lower bounds (s)."""
        mean, scale = prediction.logs()
        calibration = prediction.require_calibration()
        common = float(calibration.common.var())
        total = common + float(calibration.deviations.var())
        share = min(_MAX_COMMON, common / total) if total else 0.0
        kernel = Kernel(share, _SMOOTH * (1 - share), (1 - _SMOOTH) * (1 - share))
        unit = _WIDENING * calibration.quantile(0.9) / NormalDist().inv_cdf(0.95)
        bounded = np.maximum(mean, np.log(np.maximum(bounds, 1e-300)))
        return cls(
            prior_means=mean[None],
            errors={
                "prior": ErrorComponent(unit * scale, kernel),
                "distance": ErrorComponent.from_distance(bounded, _PRIOR_SLOPE),
            },
            sources={TIME: ("prior", "distance"), FULL: ("prior", "distance")},
            features=prediction.features,
            bounds=bounds,
            grid=[Hyperparameters(prior_scale=float(scale)) for scale in student_t_scales()],
            seed=seed,
        )

    @property
    def n(self) -> int:
        """Number of candidates."""
        return int(self.prior_means.shape[1])

    def condition(
        self, candidates: Indices, source: str, times: Floats, variance: float | Floats = 0.0
    ) -> Self:
        """Return the posterior conditioned on additional times from one source.

        The ``variance`` of the log times adds to the errors of the source and the noise of the
        grid. All runs of a mapping must be given in one call.
        """
        if not len(candidates):
            return self
        logs, old = np.log(times), self.observations
        observed, index = np.unique(candidates, return_inverse=True)
        counts = np.bincount(index)
        means = np.bincount(index, logs) / counts
        variances = np.bincount(index, np.broadcast_to(variance, logs.shape)) / counts**2
        added = observed, np.full(observed.size, source, "U8"), means, variances, counts
        arrays = (np.concatenate(pair) for pair in zip(old[:-1], added, strict=True))
        scatter = old.scatter + float(((logs - means[index]) ** 2).sum())
        return replace(self, observations=Observations._make([*arrays, scatter]))

    def with_error(self, source: str, name: str, error: ErrorComponent) -> Self:
        """Return the posterior with an error added to a source."""
        names = (*self.sources.get(source, self.sources[TIME]), name)
        errors, sources = {**self.errors, name: error}, {**self.sources, source: names}
        return replace(self, errors=errors, sources=sources)

    def known_logs(self) -> Floats:
        """Return the logarithms of exactly observed times, ``(n,)``; NaN elsewhere."""
        known_logs = np.full(self.n, np.nan)
        if self.target == TIME:
            is_exact = self.observations.source == FULL
            known_logs[self.observations.candidates[is_exact]] = self.observations.logs[is_exact]
        return known_logs

    @property
    def weights(self) -> Floats:
        """Posterior weight of each grid point; 0 for those that are dropped."""
        return self._solution[0]

    @property
    def evidence(self) -> float:
        """Log marginal likelihood of the observations."""
        return self._solution[1]

    @property
    def noise(self) -> float:
        """Expected relative standard deviation of a run (geometric mean)."""
        logs = np.log([max(point.noise, 1e-9) for point in self.grid])
        return float(np.exp(self.weights @ logs))

    @property
    def network_weights(self) -> Floats:
        """Posterior probability of each row of the prior means, ``(n_networks,)``."""
        network = [point.network for point in self.grid]
        return np.bincount(network, self.weights, len(self.prior_means)).astype(np.float64)

    @SingleBlasThread()
    def marginal(self, candidates: Indices | None = None) -> tuple[Floats, Floats]:
        """Return the mean and the standard deviation of each log time."""
        candidates = np.arange(self.n) if candidates is None else candidates
        weights, means, variances = self._moments(candidates, diagonal=True)
        mean = weights @ means
        return mean, np.sqrt(weights @ (variances + (means - mean) ** 2))

    @SingleBlasThread()
    def joint(self, candidates: Indices) -> tuple[Floats, Floats]:
        """Return the means and the covariance of the log times of some candidates."""
        weights, means, covariances = self._moments(candidates)
        mean = weights @ means
        centred = means - mean
        between = np.einsum("w,wi,wj->ij", weights, centred, centred)
        return mean, between + np.einsum("w,wij->ij", weights, covariances)

    def interval(self, coverage: float) -> tuple[Floats, Floats, Floats]:
        """Return the median and interval ends of each candidate's time, seconds, ``(n,)`` each."""
        mean, std = self.marginal()
        margin = NormalDist().inv_cdf((1 + coverage) / 2) * std
        known_logs = self.known_logs()
        bounds = self.bounds if self.target == TIME else 0.0
        median, low, high = (
            np.where(np.isnan(known_logs), np.maximum(np.exp(logs), bounds), np.exp(known_logs))
            for logs in (mean, mean - margin, mean + margin)
        )
        return median, low, high

    @SingleBlasThread()
    def sample(self, candidates: Indices | None = None, n_draws: int = N_DRAWS) -> Draws:
        """Draw joint times of some candidates; by default, of those likeliest to be the fastest.

        Draws respect the lower bounds and the exactly observed times.
        """
        if candidates is None:
            mean, std = self.marginal()
            candidates = np.sort(np.argsort(mean - 2 * std, kind="stable")[:N_TOGETHER])
        rng = np.random.default_rng(self.seed)
        weights, means, covariances = self._moments(candidates)
        counts = rng.multinomial(n_draws, weights / weights.sum())
        samples = []
        for mean, covariance, n in zip(means, covariances, counts, strict=True):
            values, vectors = np.linalg.eigh(covariance)
            root = vectors * np.sqrt(np.maximum(values, 0.0))
            samples.append(mean + rng.standard_normal((n, candidates.size)) @ root.T)
        logs = np.concatenate(samples)
        if self.target == TIME:
            logs = np.maximum(logs, np.log(np.maximum(self.bounds[candidates], 1e-300)))
        known_logs = self.known_logs()[candidates]
        return Draws(candidates, np.where(np.isnan(known_logs), logs, known_logs))

    @lazy
    def _solution(self) -> tuple[Floats, float, Floats, Floats]:
        """Weights of grid points, the evidence, and for each point, K's Cholesky factor and K^-1 r.

        K is the covariance of the observations, and r their difference from the prior mean.
        """
        observed, n_points = self.observations, len(self.grid)
        prior = np.ones(n_points) if self.grid_weights is None else self.grid_weights
        prior = prior / prior.sum()
        if not observed.candidates.size:
            return prior, 0.0, np.empty((n_points, 0, 0)), np.empty((n_points, 0))
        points = np.arange(n_points)
        covariance = self._covariance(
            points, observed.candidates, observed.source, observed.candidates, observed.source
        )
        noise = np.array([point.noise for point in self.grid])
        is_run = observed.source == RUN
        diagonal = np.arange(observed.candidates.size)
        variance = covariance[:, diagonal, diagonal]
        variance = variance + observed.variance + is_run * noise[:, None] ** 2 / observed.counts
        # Keep the matrix invertible even if candidates have equal features or no variance.
        regular = variance + _NUGGET * variance.mean(axis=1)[:, None] + _JITTER
        covariance[:, diagonal, diagonal] = regular
        root = np.linalg.cholesky(covariance)
        residuals = observed.logs - self._prior_mean(points, observed.candidates, observed.source)
        solved = np.linalg.solve(root, residuals[:, :, None])[:, :, 0]
        # Log density of a normal distribution, with the scatter of repeated runs about their means.
        logs = np.log(prior) - 0.5 * (solved**2).sum(axis=1)
        logs -= np.log(root[:, diagonal, diagonal]).sum(axis=1)
        n_runs, df = int(observed.counts.sum()), int((observed.counts - 1).sum())
        if df:
            logs -= df * np.log(noise) + observed.scatter / (2 * noise**2)
        evidence = float(np.logaddexp.reduce(logs))
        logs = self._temper_networks(logs)
        evidence -= (np.log(2 * np.pi) * n_runs + np.log(observed.counts).sum()) / 2
        weights = np.exp(logs - logs.max())
        weights[weights < _MIN_WEIGHT] = 0.0
        back = np.linalg.solve(root.transpose(0, 2, 1), solved[:, :, None])[:, :, 0]
        return weights / weights.sum(), evidence, np.asarray(root), np.asarray(back)

    def _moments(
        self, candidates: Indices, *, diagonal: bool = False
    ) -> tuple[Floats, Floats, Floats]:
        """Return the weights of the ``w`` grid points in use, and the target's mean and covariance.

        Shapes are ``(w,)``, ``(w, n)`` and ``(w, n, n)``. With ``diagonal``, return only the
        variances, ``(w, n)``. The formulas are those of Gaussian process regression.
        """
        weights, _, roots, solved = self._solution
        observed, used = self.observations, np.flatnonzero(weights)
        means, spreads = [], []
        for i in used:
            point = np.array([i])
            mean = self._prior_mean(point, candidates, self.target)[0]
            if diagonal:
                spread = self._variance(point, candidates, self.target)[0]
            else:
                target = candidates, self.target
                spread = self._covariance(point, *target, *target)[0]
            if observed.candidates.size:
                cross = self._covariance(
                    point, candidates, self.target, observed.candidates, observed.source
                )[0]
                mean = mean + cross @ solved[i]
                half = np.linalg.solve(roots[i], cross.T)
                spread = spread - ((half**2).sum(axis=0) if diagonal else half.T @ half)
            means.append(mean)
            spreads.append(np.maximum(spread, 0.0) if diagonal else spread)
        return weights[used], np.array(means), np.array(spreads)

    def _temper_networks(self, logs: Floats) -> Floats:
        """Return log weights in which each network's evidence is raised to a power below 1."""
        network = np.array([point.network for point in self.grid])
        evidence = np.full(len(self.prior_means), -np.inf)
        np.logaddexp.at(evidence, network, logs)
        return np.asarray(logs - (1 - _NETWORK_SHARE) * evidence[network])

    def _prior_mean(self, points: Indices, candidates: Indices, source: Any) -> Floats:
        """Return the prior means of log times by source, ``(n_points, n_candidates)``."""
        is_run = np.isin(source, _MACHINE_SOURCES)
        network = [self.grid[i].network for i in points]
        mean = self.prior_means[network][:, candidates]
        if not is_run.any():
            return mean
        return np.where(is_run, self._linearise_runs(points)[0][:, candidates], mean)

    def _linearise_runs(self, points: Indices) -> tuple[Floats, Floats]:
        """Return log(constant + time) and its derivative by log(time), ``(n_points, n)`` each."""
        mean = self.prior_means[[self.grid[i].network for i in points]]
        constant = np.array([self.grid[i].constant for i in points])[:, None]
        median = np.median(mean, axis=1, keepdims=True)
        relative = np.exp(mean - median)
        total = np.maximum(constant + relative, _MIN_REMAINING * relative)
        return np.log(total) + median, relative / total

    def _covariance(
        self, points: Indices, rows: Indices, row_source: Any, columns: Indices, column_source: Any
    ) -> Floats:
        """Return the prior covariance of log times by source, ``(n_points, n_rows, n_columns)``."""
        total = np.zeros((points.size, rows.size, columns.size))
        for name, error in self.errors.items():
            row_std = self._error_std(points, name, rows, row_source)
            column_std = self._error_std(points, name, columns, column_source)
            if row_std.any() and column_std.any():
                correlation = evaluate_kernel(error.kernel, self.features, rows, columns)
                total += row_std[:, :, None] * column_std[:, None, :] * correlation
        row_is_run = np.broadcast_to(np.isin(row_source, _MACHINE_SOURCES), rows.shape)
        column_is_run = np.broadcast_to(np.isin(column_source, _MACHINE_SOURCES), columns.shape)
        return total + _FACTOR_VARIANCE * np.outer(row_is_run, column_is_run)

    def _variance(self, points: Indices, candidates: Indices, source: Any) -> Floats:
        """Return the diagonal of `_covariance` for one source, ``(n_points, n_candidates)``."""
        total = np.zeros((points.size, candidates.size))
        for name, error in self.errors.items():
            std = self._error_std(points, name, candidates, source)
            total += std**2 * (error.kernel.common + error.kernel.smooth + error.kernel.independent)
        return total + _FACTOR_VARIANCE * np.isin(source, _MACHINE_SOURCES)

    def _error_std(self, points: Indices, name: str, candidates: Indices, source: Any) -> Floats:
        """Return the standard deviation of one error of log times, ``(n_points, n_candidates)``."""
        affected = [key for key, names in self.sources.items() if name in names]
        std = np.isin(source, affected) * self.errors[name].std[candidates]
        if not std.any():
            return np.zeros((points.size, candidates.size))
        scale = np.ones(points.size)
        if name == "prior":
            scale = np.array([self.grid[i].prior_scale for i in points])
        elif name == MACHINE:
            scale = np.array([self.grid[i].machine_scale for i in points])
        is_run = np.isin(source, _MACHINE_SOURCES)
        slope: Floats | float = 1.0
        if is_run.any():
            slope = np.where(is_run, self._linearise_runs(points)[1][:, candidates], 1.0)
        return np.asarray(scale[:, None] * slope * std)


def student_t_scales(n: int = 5) -> Floats:
    """Return equally likely scales of a Student-t with four degrees of freedom and variance 1."""
    # A Student-t value is a normal value times sqrt(4 / X), where X has a chi-square distribution
    # with four degrees of freedom. X / 2 exceeds h with probability exp(-h) (1 + h). Newton's
    # method solves this for h, because importing scipy.special would take longer.
    probability, half = (np.arange(n) + 0.5) / n, np.ones(n)
    for _ in range(50):
        half += (np.log1p(half) - half - np.log(probability)) * (1 + half) / half
    scales = np.sqrt(2 / half)
    return np.asarray(scales / np.sqrt(np.mean(scales**2)))


def evaluate_kernel(kernel: Kernel, features: Floats, rows: Indices, columns: Indices) -> Floats:
    """Return the correlation of an error between candidates, ``(n_rows, n_columns)``."""
    independent = kernel.independent * (rows[:, None] == columns[None])
    if not kernel.smooth:
        return np.asarray(kernel.common + independent)
    a, b = features[rows], features[columns]
    squares = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1)[None] - 2 * a @ b.T
    distance = np.maximum(squares, 0.0) / max(1, a.shape[1])
    gaussian = np.exp(-distance / (2 * kernel.length_scale**2))
    return np.asarray(kernel.common + kernel.smooth * gaussian + independent)


@kernel
def normal_cdf(scores: Floats) -> Floats:
    """Return the standard normal cumulative distribution function at each score, ``(n,)``."""
    below = np.empty(scores.size)
    for i in range(scores.size):
        below[i] = math.erfc(-scores[i] / math.sqrt(2.0)) / 2
    return below


def misorder_probabilities(posterior: Posterior) -> tuple[Indices, Floats]:
    """Return candidates, and the probability that the means misorder each pair, ``(n, n)``.

    More than `_MAX_PAIRED` candidates are thinned out. The probability is 0 for known times.
    """
    n = posterior.n
    candidates = np.unique(np.linspace(0, n - 1, min(n, _MAX_PAIRED)).astype(np.int64))
    mean, covariance = posterior.joint(candidates)
    variance = covariance.diagonal()
    difference = variance[:, None] + variance[None] - 2 * covariance
    score = -np.abs(mean[:, None] - mean[None]) / np.sqrt(np.maximum(difference, _NUGGET))
    probability = normal_cdf(score.ravel()).reshape(score.shape)
    return candidates, np.where(difference > _NUGGET, probability, 0.0)


def expected_rcc(posterior: Posterior) -> float:
    """Return the expected share of pairs that the posterior means order correctly."""
    wrong = misorder_probabilities(posterior)[1]
    n = len(wrong)
    return 1.0 if n < 2 else float(1 - wrong.sum() / (n * (n - 1)))
