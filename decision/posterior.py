"""The posterior of the candidates' times, whatever was observed: simulations, coarse ones, runs.

Each number is the logarithm of a time plus errors. An error has a width for each candidate and a
kernel, the share of it that candidates have in common, so that every number teaches something about
all candidates. Quantities that are not Gaussian take a few values, the worlds, which observations
weigh: the scale of the errors, and for runs the constant in a measured time, its noise and the
network of the machine. Five equally likely scales stand for a Student-t distribution of four
degrees of freedom.
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
from toruscast.workers import OneBlasThread

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

TIME, FULL, COARSE, RUN, MACHINE, AVERAGED = "time", "full", "coarse", "run", "machine", "averaged"
"""Sources of numbers: the simulated time that is wanted; a simulation with real packets, which is
that time; one with coarse packets; a run; the time on a machine, of which runs are noisy; and that
on a machine of which a mean over several networks is simulated."""
N_DRAWS = 4000
"""Times that are drawn of each candidate."""
N_TOGETHER = 200
"""Most candidates whose times are drawn together: those likeliest to be the fastest."""
_ON_MACHINE = (RUN, MACHINE)
# Variance of the logarithm of the factor between measured and simulated times: it may be anything.
_FACTOR_VARIANCE = 3.0**2
# Least share of an expected time that is left when a negative constant is added.
_LEFT = 0.1
# Variances that keep exact observations solvable, and pairs of known times apart.
_JITTER, _KNOWN = 1e-18, 1e-9
# Worlds that are less likely than this share of the likeliest are dropped.
_UNLIKELY = 1e-3
# Most candidates whose pairs are counted; evenly chosen ones represent all.
_MAX_PAIRED = 1000
# Largest share of a prior error that all candidates have in common, share of the rest that those
# with like features have in common, and factor of its width: with these, 90 % intervals hold 90 %
# of the times after a few simulations too (`benchmarks/posterior.py`).
_MAX_COMMON, _SMOOTH, _WIDENING = 0.1, 2 / 3, 1.1
# A prediction may also be off by this share of the distance from the fastest, the same share for
# all: the slower a mapping, the more its messages wait beyond the bound (`benchmarks/forecast.py`).
_PRIOR_SLOPE = 0.2


class Kernel(NamedTuple):
    """Correlation of an error between candidates, in shares of its variance."""

    common: float
    """Common to all candidates."""
    smooth: float
    """Common to candidates with like features."""
    own: float
    """Of each candidate alone."""
    length: float = 0.5
    """Distance of features, over the root of their number, at which likeness fades."""


class ErrorTerm(NamedTuple):
    """An error that some sources contain: its deviation for each candidate, and its kernel."""

    width: Floats
    kernel: Kernel

    @classmethod
    def from_distance(cls, centre: Floats, slope: float) -> Self:
        """Return an error that grows with the distance from the fastest, by one factor for all."""
        return cls(slope * (centre - centre.min()), Kernel(1.0, 0.0, 0.0))


class World(NamedTuple):
    """Values of what is not Gaussian.

    A run takes ``b (constant * median + t)`` where the network takes ``t``, for any ``b``, with
    this relative ``noise``.
    """

    scale: float = 1.0
    """Factor of the widths of the prior error."""
    constant: float = 0.0
    """Time that does not depend on the mapping, over the median time of the network."""
    reach: float = 1.0
    """Factor of the widths of the machine's error."""
    noise: float = 0.0
    """Relative deviation of repeated runs."""
    network: int = 0
    """Row of the centres: the network that the machine has."""


class Observations(NamedTuple):
    """Logarithms of observed times, runs of a mapping put together."""

    which: Indices
    source: NDArray[np.str_]
    logs: Floats
    variance: Floats
    counts: Indices
    """Runs behind each number."""
    scatter: float
    """Sum of the squared deviations of repeated runs from their means."""


_NOTHING = Observations(
    np.empty(0, np.int64), np.empty(0, "U8"), np.empty(0), np.empty(0), np.empty(0, np.int64), 0.0
)


class Draws(NamedTuple):
    """Possible times of the candidates that may be the fastest, drawn together."""

    which: Indices
    """Those candidates, ``(n_likely,)``."""
    logs: Floats
    """Logarithms of their times, ``(n_draws, n_likely)``."""

    def p_best(self, n: int) -> Floats:
        """Return the probability that each of ``n`` candidates is the fastest; ties share it."""
        is_least = self.logs <= self.logs.min(axis=1, keepdims=True) + _KNOWN
        chances = np.zeros(n)
        chances[self.which] = (is_least / is_least.sum(axis=1, keepdims=True)).mean(axis=0)
        return chances

    def loss(self, candidate: int) -> Floats:
        """Return the logarithm of a candidate's time over the least of all, for each draw."""
        own = self.logs[:, int(np.flatnonzero(self.which == candidate)[0])]
        return np.asarray(own - self.logs.min(axis=1))

    def faster(self, candidate: int) -> Floats:
        """Return how likely each of ``which`` is faster than a candidate."""
        own = self.logs[:, self.which == candidate]
        return np.asarray((self.logs < own).mean(axis=0))


@dataclass(frozen=True, eq=False)
class Posterior:
    """Distribution of the candidates' times, in logarithms of seconds.

    Parameters
    ----------
    centres : ndarray, shape (n_networks, n)
        Expected logarithms before any observation; worlds choose the row.
    errors : dict of str to ErrorTerm
        ``prior`` and ``machine`` are scaled by the worlds.
    sources : dict of str to tuple of str
        Errors that the numbers of each source contain.
    features : ndarray, shape (n, n_features)
        Normalised; candidates with like features have like errors.
    bounds : ndarray, shape (n,)
        Seconds that no simulated time falls below; 0 where none is known.
    worlds, world_weights
        What may be, and how likely before any observation.
    target : {"time", "machine", "averaged"}
        Source of the times that are asked about. ``averaged``: on a machine of which only the mean
        over several networks is simulated; times are then those of the mean, with its error.
    """

    centres: Floats
    errors: Mapping[str, ErrorTerm]
    sources: Mapping[str, tuple[str, ...]]
    features: Floats
    bounds: Floats
    worlds: Sequence[World] = (World(),)
    world_weights: Floats | None = None
    target: str = TIME
    seed: int = 0
    observations: Observations = _NOTHING

    @classmethod
    def from_prediction(cls, prediction: PriorPrediction, bounds: Floats, seed: int = 0) -> Self:
        """Return the posterior before any observation, with the intervals of a prediction."""
        centre, width = prediction.logs()
        residuals = prediction.calibrated
        common, own = float(residuals.common.var()), float(residuals.deviations.var())
        share = min(_MAX_COMMON, common / (common + own)) if common + own else 0.0
        kernel = Kernel(share, _SMOOTH * (1 - share), (1 - _SMOOTH) * (1 - share))
        floor = np.log(np.maximum(bounds, 1e-300))
        unit = _WIDENING * residuals.quantile(0.9) / NormalDist().inv_cdf(0.95)
        return cls(
            centres=centre[None],
            errors={
                "prior": ErrorTerm(unit * width, kernel),
                # From the bounds on, as no time lies below them, whatever a model predicts.
                "distance": ErrorTerm.from_distance(np.maximum(centre, floor), _PRIOR_SLOPE),
            },
            sources={TIME: ("prior", "distance"), FULL: ("prior", "distance")},
            features=prediction.features,
            bounds=bounds,
            worlds=[World(scale=float(scale)) for scale in student_scales()],
            seed=seed,
        )

    @property
    def n(self) -> int:
        """Number of candidates."""
        return int(self.centres.shape[1])

    def condition(
        self, which: Indices, source: str, times: Floats, variance: float | Floats = 0.0
    ) -> Self:
        """Return the posterior once these times were observed as well.

        ``variance`` is that of their logarithms, beside the errors and the noise of the worlds.
        Several runs of a mapping are given at once.
        """
        if not len(which):
            return self
        logs, old = np.log(times), self.observations
        each, place = np.unique(which, return_inverse=True)
        counts = np.bincount(place)
        means = np.bincount(place, logs) / counts
        variances = np.bincount(place, np.broadcast_to(variance, logs.shape)) / counts**2
        new = Observations(
            which=np.concatenate([old.which, each]),
            source=np.concatenate([old.source, np.full(each.size, source, "U8")]),
            logs=np.concatenate([old.logs, means]),
            variance=np.concatenate([old.variance, variances]),
            counts=np.concatenate([old.counts, counts]),
            scatter=old.scatter + float(((logs - means[place]) ** 2).sum()),
        )
        return replace(self, observations=new)

    def with_error(self, source: str, name: str, term: ErrorTerm) -> Self:
        """Return the posterior with an error in a source, beside what the wanted time contains."""
        contents = (*self.sources.get(source, self.sources[TIME]), name)
        errors, sources = {**self.errors, name: term}, {**self.sources, source: contents}
        return replace(self, errors=errors, sources=sources)

    def known(self) -> Floats:
        """Return the logarithms of times that are known exactly, ``(n,)``; NaN elsewhere."""
        known = np.full(self.n, np.nan)
        if self.target == TIME:
            exact = self.observations.source == FULL
            known[self.observations.which[exact]] = self.observations.logs[exact]
        return known

    @property
    def weights(self) -> Floats:
        """Probability of each world, ``(n_worlds,)``; 0 for those that are dropped."""
        return self._fit[0]

    @property
    def evidence(self) -> float:
        """Logarithm of the density of the observations."""
        return self._fit[1]

    @property
    def noise(self) -> float:
        """Likely relative deviation of a run."""
        logs = np.log([max(world.noise, 1e-9) for world in self.worlds])
        return float(np.exp(self.weights @ logs))

    @property
    def network_weights(self) -> Floats:
        """Probability of each row of the centres, ``(n_networks,)``."""
        network = [world.network for world in self.worlds]
        return np.bincount(network, self.weights, len(self.centres)).astype(np.float64)

    @OneBlasThread()
    def marginal(self, which: Indices | None = None) -> tuple[Floats, Floats]:
        """Return mean and deviation of each logarithm, ``(n_which,)`` both."""
        which = np.arange(self.n) if which is None else which
        weights, means, variances = self._moments(which, diagonal=True)
        mean = weights @ means
        return mean, np.sqrt(weights @ (variances + (means - mean) ** 2))

    @OneBlasThread()
    def joint(self, which: Indices) -> tuple[Floats, Floats]:
        """Return mean and covariance of some logarithms."""
        weights, means, covariances = self._moments(which)
        mean = weights @ means
        apart = means - mean
        spread = np.einsum("w,wi,wj->ij", weights, apart, apart)
        return mean, spread + np.einsum("w,wij->ij", weights, covariances)

    def interval(self, coverage: float) -> tuple[Floats, Floats, Floats]:
        """Return likely time, low and high end of each candidate, seconds; none below its bound."""
        mean, deviation = self.marginal()
        reach = NormalDist().inv_cdf((1 + coverage) / 2) * deviation
        known = self.known()
        ends = [np.exp(np.where(np.isnan(known), mean + way * reach, known)) for way in (0, -1, 1)]
        bounds = self.bounds if self.target == TIME else 0.0
        middle, low, high = (
            np.where(np.isnan(known), np.maximum(end, bounds), end) for end in ends
        )
        return middle, low, high

    @OneBlasThread()
    def sample(self, which: Indices | None = None, n_draws: int = N_DRAWS) -> Draws:
        """Draw the times of some candidates together; of the likeliest if none are named.

        None falls below its bound, and known times are exact.
        """
        if which is None:
            mean, deviation = self.marginal()
            which = np.sort(np.argsort(mean - 2 * deviation, kind="stable")[:N_TOGETHER])
        rng = np.random.default_rng(self.seed)
        kept = np.flatnonzero(self.weights)
        counts = rng.multinomial(n_draws, self.weights[kept] / self.weights[kept].sum())
        _, means, covariances = self._moments(which)
        drawn = []
        for mean, covariance, n in zip(means, covariances, counts, strict=True):
            values, vectors = np.linalg.eigh(covariance)
            root = vectors * np.sqrt(np.maximum(values, 0.0))
            drawn.append(mean + rng.standard_normal((n, which.size)) @ root.T)
        logs = np.concatenate(drawn)
        if self.target == TIME:
            logs = np.maximum(logs, np.log(np.maximum(self.bounds[which], 1e-300)))
        known = self.known()[which]
        return Draws(which, np.where(np.isnan(known), logs, known))

    @lazy
    def _fit(self) -> tuple[Floats, float, Floats, Floats]:
        """Weights of the worlds, evidence, and of each world the root and the solved residuals."""
        seen, n_worlds = self.observations, len(self.worlds)
        prior = np.ones(n_worlds) if self.world_weights is None else self.world_weights
        prior = prior / prior.sum()
        if not seen.which.size:
            return prior, 0.0, np.empty((n_worlds, 0, 0)), np.empty((n_worlds, 0))
        every = np.arange(n_worlds)
        covariance = self._covariance(every, seen.which, seen.source, seen.which, seen.source)
        noise = np.array([world.noise for world in self.worlds])
        is_run = seen.source == RUN
        diagonal = np.arange(seen.which.size)
        own = covariance[:, diagonal, diagonal]
        own = own + seen.variance + is_run * noise[:, None] ** 2 / seen.counts
        # Candidates with equal features, and those without a width, stay solvable.
        covariance[:, diagonal, diagonal] = own + _KNOWN * own.mean(axis=1)[:, None] + _JITTER
        root = np.linalg.cholesky(covariance)
        residuals = seen.logs - self._centre(every, seen.which, seen.source)
        solved = np.linalg.solve(root, residuals[:, :, None])[:, :, 0]
        logs = np.log(prior) - 0.5 * (solved**2).sum(axis=1)
        logs -= np.log(root[:, diagonal, diagonal]).sum(axis=1)
        n_runs, n_spare = int(seen.counts.sum()), int((seen.counts - 1).sum())
        if n_spare:
            logs -= n_spare * np.log(noise) + seen.scatter / (2 * noise**2)
        evidence = float(np.logaddexp.reduce(logs))
        evidence -= (np.log(2 * np.pi) * n_runs + np.log(seen.counts).sum()) / 2
        weights = np.exp(logs - logs.max())
        weights[weights < _UNLIKELY] = 0.0
        back = np.linalg.solve(root.transpose(0, 2, 1), solved[:, :, None])[:, :, 0]
        return weights / weights.sum(), evidence, np.asarray(root), np.asarray(back)

    def _moments(self, which: Indices, *, diagonal: bool = False) -> tuple[Floats, Floats, Floats]:
        """Weight of each likely world, and mean and (co)variance that it gives to the target."""
        weights, _, roots, solved = self._fit
        seen, kept = self.observations, np.flatnonzero(weights)
        means, spreads = [], []
        for w in kept:
            world = np.array([w])
            mean = self._centre(world, which, self.target)[0]
            if diagonal:
                spread = self._variance(world, which, self.target)[0]
            else:
                spread = self._covariance(world, which, self.target, which, self.target)[0]
            if seen.which.size:
                across = self._covariance(world, which, self.target, seen.which, seen.source)[0]
                mean = mean + across @ solved[w]
                half = np.linalg.solve(roots[w], across.T)
                spread = spread - ((half**2).sum(axis=0) if diagonal else half.T @ half)
            means.append(mean)
            spreads.append(np.maximum(spread, 0.0) if diagonal else spread)
        return weights[kept], np.array(means), np.array(spreads)

    def _centre(self, worlds: Indices, which: Indices, source: Any) -> Floats:
        """Expected logarithms before any observation, ``(n_worlds, n_which)``."""
        network = np.array([self.worlds[w].network for w in worlds])
        centre = self.centres[network][:, which]
        is_run = np.isin(source, _ON_MACHINE)
        return np.where(is_run, self._line(worlds)[0][:, which], centre) if is_run.any() else centre

    def _line(self, worlds: Indices) -> tuple[Floats, Floats]:
        """Logarithm of a run's time, but for a factor, and its slope in that of the network's.

        Near the expected time, the logarithm of constant + time is linear in that of the time.
        """
        centre = self.centres[[self.worlds[w].network for w in worlds]]
        constant = np.array([self.worlds[w].constant for w in worlds])[:, None]
        middle = np.median(centre, axis=1, keepdims=True)
        unit = np.exp(centre - middle)
        # A forecast may hold more of a constant than the run, such as a program's start.
        total = np.maximum(constant + unit, _LEFT * unit)
        return np.log(total) + middle, unit / total

    def _covariance(
        self, worlds: Indices, rows: Indices, a: Any, columns: Indices, b: Any
    ) -> Floats:
        """Prior covariance of numbers of sources ``a`` and ``b``, ``(n_worlds, rows, columns)``."""
        total = np.zeros((worlds.size, rows.size, columns.size))
        for name, term in self.errors.items():
            first = self._amounts(worlds, name, rows, a)
            second = self._amounts(worlds, name, columns, b)
            if first.any() and second.any():
                likeness = correlation(term.kernel, self.features, rows, columns)
                total += first[:, :, None] * second[:, None, :] * likeness
        ends = (
            np.broadcast_to(np.isin(source, _ON_MACHINE), which.shape)
            for source, which in ((a, rows), (b, columns))
        )
        return total + _FACTOR_VARIANCE * np.outer(*ends)

    def _variance(self, worlds: Indices, which: Indices, source: Any) -> Floats:
        """The diagonal of the covariance of numbers of a source with themselves."""
        total = np.zeros((worlds.size, which.size))
        for name, term in self.errors.items():
            amounts = self._amounts(worlds, name, which, source)
            total += amounts**2 * (term.kernel.common + term.kernel.smooth + term.kernel.own)
        return total + _FACTOR_VARIANCE * np.isin(source, _ON_MACHINE)

    def _amounts(self, worlds: Indices, name: str, which: Indices, source: Any) -> Floats:
        """Deviation of an error in numbers of a source, ``(n_worlds, n_which)``."""
        contains = [key for key, names in self.sources.items() if name in names]
        width = np.isin(source, contains) * self.errors[name].width[which]
        if not width.any():
            return np.zeros((worlds.size, which.size))
        several = [self.worlds[w] for w in worlds]
        factor = np.ones(worlds.size)
        if name == "prior":
            factor = np.array([world.scale for world in several])
        elif name == MACHINE:
            factor = np.array([world.reach for world in several])
        is_run = np.isin(source, _ON_MACHINE)
        slope = np.where(is_run, self._line(worlds)[1][:, which], 1.0) if is_run.any() else 1.0
        return np.asarray(factor[:, None] * slope * width)


def student_scales(n: int = 5) -> Floats:
    """Return equally likely scales of a Student-t with four degrees of freedom and deviation 1."""
    # Half of a chi-square value of four degrees of freedom is above h with chance exp(-h) (1 + h).
    chance, half = (np.arange(n) + 0.5) / n, np.ones(n)
    for _ in range(50):
        half += (np.log1p(half) - half - np.log(chance)) * (1 + half) / half
    scales = np.sqrt(2.0 / half)
    return np.asarray(scales / np.sqrt(np.mean(scales**2)))


def correlation(kernel: Kernel, features: Floats, rows: Indices, columns: Indices) -> Floats:
    """Return the correlation of an error between candidates, ``(n_rows, n_columns)``."""
    same = kernel.own * (rows[:, None] == columns[None])
    if not kernel.smooth:
        return np.asarray(kernel.common + same)
    a, b = features[rows], features[columns]
    squares = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1)[None] - 2 * a @ b.T
    distance = np.maximum(squares, 0.0) / max(1, a.shape[1])
    near = np.exp(-distance / (2 * kernel.length**2))
    return np.asarray(kernel.common + kernel.smooth * near + same)


@kernel
def normal_cdf(scores: Floats) -> Floats:
    """Return the chance that a standard normal value is below each score, ``(n,)``."""
    below = np.empty(scores.size)
    for i in range(scores.size):
        below[i] = math.erfc(-scores[i] / math.sqrt(2.0)) / 2
    return below


def wrong_pairs(posterior: Posterior) -> tuple[Indices, Floats]:
    """Return some or all candidates, and how likely each two are in the wrong order, ``(n, n)``.

    0 for times that are known.
    """
    n = posterior.n
    which = np.unique(np.linspace(0, n - 1, min(n, _MAX_PAIRED)).astype(np.int64))
    mean, covariance = posterior.joint(which)
    diagonal = covariance.diagonal()
    apart = diagonal[:, None] + diagonal[None] - 2 * covariance
    score = -np.abs(mean[:, None] - mean[None]) / np.sqrt(np.maximum(apart, _KNOWN))
    return which, np.where(apart > _KNOWN, normal_cdf(score.ravel()).reshape(score.shape), 0.0)


def expected_rcc(posterior: Posterior) -> float:
    """Return the share of pairs that are expected in the order of the likely times."""
    wrong = wrong_pairs(posterior)[1]
    n = len(wrong)
    return 1.0 if n < 2 else float(1 - wrong.sum() / (n * (n - 1)))
