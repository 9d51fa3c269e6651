"""Plan of runs on a machine: which mapping to run next, and when the runs are enough."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from statistics import NormalDist
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from toruscast._lazy import lazy
from toruscast._slow import pandas as pd
from toruscast.decision.loop import REGRET, SURE
from toruscast.decision.machine import machine_posterior, simulate_in_seconds
from toruscast.decision.posterior import (
    RUN,
    TIME,
    Draws,
    Hyperparameters,
    Indices,
    Posterior,
    normal_cdf,
)
from toruscast.decision.ranking import describe_candidates
from toruscast.decision.results import Kind, Verdict, candidate_names
from toruscast.decision.runs import Runs, Times, find_measured
from toruscast.errors import InputError
from toruscast.formats.times import has_runs
from toruscast.mapping import MappingProblem, TaskMapping
from toruscast.mapping.problem import as_problem
from toruscast.notebook import Result
from toruscast.routing import Routing
from toruscast.text import counted, shown_name
from toruscast.training import fitted
from toruscast.training.default_model import DefaultModel
from toruscast.training.fitted import Model
from toruscast.training.model_file import load_model
from toruscast.typing import Floats
from toruscast.validation import (
    SEED,
    Progress,
    Seed,
    job_count,
    progress_of,
    real_number,
    repeated,
    seed_number,
    whole_number,
)

if TYPE_CHECKING:
    from toruscast.mapping.problem import Mappings, ProblemLike, TorusLike

COVERAGE = 0.9
"""Probability that a mapping's time is between ``low`` and ``high``."""
# Mappings are indistinguishable if their times differ by less than this multiple of the noise.
_NOISE_WIDTHS = 1.5
# `Runs.is_outlier` finds disturbed runs of mappings that ran at least this often.
_MIN_REPEATED = 3
# If the noise is still unknown after this number of runs, run the best mapping again.
_RUNS_BEFORE_REPEAT = 4
# The next run is chosen by its expected gain if that is at least this share of the time.
_MIN_GAIN = 1e-4
# A mapping is a rival if it is faster than the best with at least this probability.
_RIVAL_PROBABILITY = 0.05
# Logarithm of the prior probability that a run is disturbed: one in twenty. The log delay of a
# disturbed run has a density of about 1, so the delay does not change the evidence.
_DISTURBANCE = float(np.log(0.05))
# Minimum number of runs for finding disturbed ones, and how many of the slowest runs are tested.
_MIN_RUNS, _N_SUSPECTS = 4, 24


class Plan(Result):
    """A sequential plan of runs: ask for the next mapping, run it, and observe its time.

    `plan` makes it and documents its parameters. ``prior`` is the distribution of the times on the
    machine before any run. ``is_simulated`` is true if the prior's means come from simulations.
    """

    def __init__(
        self,
        problem: MappingProblem,
        mappings: Sequence[TaskMapping],
        prior: Posterior,
        *,
        noise: float | None = None,
        tolerance: float | None = None,
        run_cost: float | None = None,
        is_simulated: bool = False,
    ) -> None:
        self.problem, self.mappings = problem, tuple(mappings)
        self.names = candidate_names(self.mappings)
        self.noise = noise
        self.tolerance = None if tolerance is None else real_number(tolerance, "tolerance", 1e-4, 1)
        self._tolerance = REGRET if self.tolerance is None else self.tolerance
        self.run_cost = None if run_cost is None else real_number(run_cost, "price of a run", 0)
        if twice := repeated(self.names):
            raise InputError("names of mappings are not unique", found=twice[0])
        self.is_simulated = is_simulated
        self._prior = prior
        self.runs: Runs | None = None
        """Observed runs; None before the first."""
        self._run_table = pd.DataFrame()

    def __repr__(self) -> str:
        return (
            f"Plan({counted(self.n_runs, 'run')}, {counted(len(self.names), 'mapping')}: "
            f"{shown_name(self.names[self._best])} leads, {self.verdict.kind})"
        )

    @property
    def n_runs(self) -> int:
        """Number of observed runs."""
        return 0 if self.runs is None else self.runs.seconds.size

    @property
    def best(self) -> TaskMapping:
        """The mapping with the smallest expected time; after a first run, among those that ran."""
        return self.mappings[self._best]

    @property
    def is_enough(self) -> bool:
        """Whether the runs so far are enough: further runs are not worth their cost."""
        return self.verdict.kind != "undecided"

    def forecast_times(self) -> Floats:
        """Return the times simulated or predicted for the network alone, before any run.

        Seconds, ``(n_mappings,)``, in the order of `mappings`.
        """
        return np.asarray(np.exp(self._prior.prior_means.mean(axis=0)))

    def name_of(self, mapping: TaskMapping) -> str:
        """Return the name of a candidate in the table and in files of runs."""
        names = zip(self.names, self.mappings, strict=True)
        return next((name for name, candidate in names if candidate is mapping), mapping.name)

    def observe(self, mapping: TaskMapping | str, seconds: float) -> None:
        """Add the time of a run."""
        name = mapping if isinstance(mapping, str) else self.name_of(mapping)
        self.observe_all([(name, seconds)])

    def observe_all(self, times: Times | Sequence[tuple[str, float]]) -> None:
        """Add runs from a file, a dict, a table, or a list of pairs of name and seconds."""
        if isinstance(times, list) and all(np.size(pair) == 2 for pair in times):
            times = pd.DataFrame(times, columns=["mapping", "time"])
        new = Runs.from_times(times)
        find_measured(self.mappings, new)
        names = np.array(new.names)[new.which]
        table = pd.DataFrame({"mapping": names, "time": new.seconds})
        table = pd.concat([self._run_table, table]) if self.n_runs else table
        self.runs, self._run_table = Runs.from_times(table), table
        # Reset the attributes that depend on the runs.
        for name, value in vars(Plan).items():
            if isinstance(value, lazy):
                self.__dict__.pop(name, None)

    def ask(self, n: int = 1) -> list[TaskMapping]:
        """Return the ``n`` different mappings whose runs are expected to improve the choice most.

        Mappings that already ran may be among them, if noise hides their times.
        """
        n = whole_number(n, "number of mappings", 1)
        if self.runs is None:
            order = np.argsort(self.forecast_times(), kind="stable")[:n]
            return [self.mappings[i] for i in order]
        chosen = self._likely[best_batch(*self._joint, self.noise_share**2, n, self._tolerance)]
        if self.noise_from == "nothing" and self.n_runs >= _RUNS_BEFORE_REPEAT:
            # A second run of the best mapping estimates the noise.
            chosen = np.array([self._best, *chosen[chosen != self._best]])[:n]
        return [self.mappings[i] for i in chosen]

    @lazy
    def verdict(self) -> Verdict:
        """Confidence in the best mapping after the observed runs."""
        loss, tolerance = self._loss, self._tolerance
        # Upper bound on the probability that one of the mappings without draws is the fastest.
        omitted = self._omitted_probability()
        certainty = max(0.0, float((loss <= np.log1p(tolerance)).mean()) - omitted)
        kind: Kind = "sure" if certainty >= SURE else "undecided"
        rivals = self._rivals()
        if kind == "undecided" and self.noise_from != "nothing" and omitted <= 1 - SURE:
            max_loss = np.quantile(loss, SURE + omitted, method="inverted_cdf")
            is_hidden = max_loss <= np.log1p(_NOISE_WIDTHS * self.noise_share)
            # By default, also stop if noise hides the gain of all further runs, or the gain is
            # small.
            if self.tolerance is None and (is_hidden or self.mean_gain + omitted <= tolerance):
                kind = "indistinguishable" if rivals.size else "not_worth_more"
                tolerance = float(np.expm1(max_loss))
                certainty = float((loss <= max_loss).mean()) - omitted
        if kind == "undecided" and self.run_cost is not None and self.next_gain < self.run_cost:
            kind = "not_worth_more"
        if self.runs is None and len(self.mappings) > 1:
            kind = "undecided"
        return Verdict(kind, certainty, tuple(self.names[i] for i in rivals), tolerance=tolerance)

    @property
    def gain(self) -> float:
        """Maximum share of the time that more runs would save, with 95 % probability."""
        return float(-np.expm1(-np.quantile(self._loss, SURE)))

    @property
    def mean_gain(self) -> float:
        """Expected share of the time that all further runs together would save."""
        return float(np.expm1(self._loss.mean()))

    @lazy
    def next_gain(self) -> float:
        """Expected reduction of the chosen mapping's time by the next run, seconds."""
        gain = float(knowledge_gradient(*self._joint, self.noise_share**2).max())
        # A mapping that has not run may have a smaller expected time than the best.
        best = float(self._posterior.marginal()[0][self._best])
        return float(np.exp(best) * (best - self._joint[0].min() + gain))

    def ratio_to(self, name: str) -> tuple[float, float]:
        """Return the `COVERAGE` interval of the ratio of the best time to another mapping's."""
        pair = np.array([self._best, self.names.index(name)])
        best, other = self._posterior.sample(pair).logs.T
        low, high = np.exp(np.quantile(best - other, [(1 - COVERAGE) / 2, (1 + COVERAGE) / 2]))
        return float(low), float(high)

    @property
    def more_runs(self) -> int:
        """Number of further runs that would separate the best from its rivals by the tolerance."""
        # The difference of two mean times has the variance 2 noise^2 / n.
        deviations = NormalDist().inv_cdf(SURE) * self.noise_share / np.log1p(self._tolerance)
        needed = 2 * deviations**2
        counts = np.bincount(self._run_candidates, minlength=len(self.names))
        counts = counts[[self._best, *self._rivals()]]
        return int(np.maximum(np.ceil(needed) - counts, 0).sum())

    @property
    def noise_share(self) -> float:
        """Relative standard deviation of a run, given or estimated."""
        return self._posterior.noise

    @property
    def noise_from(self) -> Literal["user", "repetitions", "nothing"]:
        """Source of the noise estimate: the caller, repeated runs, or only the prior."""
        if self.noise is not None:
            return "user"
        repeated = self.runs is not None and bool((self.runs.counts > 1).any())
        return "repetitions" if repeated else "nothing"

    @property
    def constant_share(self) -> float:
        """Expected share of the median time that does not depend on the mapping."""
        constant = np.maximum([point.constant for point in self._posterior.grid], 0.0)
        return float(self._posterior.weights @ (constant / (1 + constant)))

    @lazy
    def _joint(self) -> tuple[Floats, Floats]:
        return self._posterior.joint(self._likely)

    @lazy
    def _best(self) -> int:
        is_allowed = np.isin(self._likely, self._run_candidates) | (self.runs is None)
        return int(self._likely[np.where(is_allowed, self._joint[0], np.inf).argmin()])

    @lazy
    def _loss(self) -> Floats:
        """For each draw, the log ratio of the best mapping's time to the minimum time."""
        return self._draws.loss(self._best)

    def _rivals(self) -> Indices:
        """Return the mappings that may be faster than the best, likeliest first."""
        logs = self._draws.logs
        probability = (logs < logs[:, self._likely == self._best]).mean(axis=0)
        order = np.argsort(-probability, kind="stable")
        rivals = self._likely[order[probability[order] >= _RIVAL_PROBABILITY]]
        return np.asarray(rivals[rivals != self._best])

    @lazy
    def table(self) -> pd.DataFrame:
        """A row per mapping, the best first.

        Columns: ``mapping``; ``time`` (expected time of a run without noise, seconds) and its
        interval, ``low`` to ``high``; ``p_best`` (probability of being the fastest); ``runs``
        (number of runs) and ``measured`` (their mean time); and ``source`` (measured or predicted).
        Before the first run, times are predictions for the network alone.
        """
        if self.runs is not None:
            time, low, high = self._posterior.interval(COVERAGE)
        else:
            means = self._prior.prior_means.mean(axis=0, keepdims=True)
            network = replace(
                self._prior,
                prior_means=means,
                grid=[Hyperparameters()],
                grid_weights=None,
                target=TIME,
            )
            time, low, high = network.interval(COVERAGE)
        counts = np.bincount(self._run_candidates, minlength=time.size)
        seconds = np.empty(0) if self.runs is None else self.runs.seconds
        sums = np.bincount(self._run_candidates, seconds, minlength=time.size)
        table = pd.DataFrame(
            {
                "mapping": self.names,
                "time": time,
                "low": low,
                "high": high,
                "p_best": self._draws.p_best(len(self.names)),
                "runs": counts,
                "measured": np.where(counts > 0, sums / np.maximum(counts, 1), np.nan),
                "source": np.where(counts > 0, "measured", "predicted"),
            }
        )
        order = np.lexsort((table["time"], np.arange(time.size) != self._best))
        return table.iloc[order].reset_index(drop=True)

    @lazy
    def disturbed(self) -> NDArray[np.bool_]:
        """Which runs are excluded because something has slowed them down, ``(n_runs,)``."""
        if self.runs is None:
            return np.zeros(0, dtype=bool)
        excluded = self.runs.is_outlier & (self.runs.counts >= _MIN_REPEATED)[self.runs.which]
        used = np.flatnonzero(~excluded)
        if used.size < _MIN_RUNS:
            return excluded
        evidence = self._condition_on(used).evidence
        # Exclude slow runs one by one as long as this increases the evidence, which includes the
        # prior probability that a run is disturbed.
        while True:
            slowest = used[np.argsort(-self.runs.seconds[used], kind="stable")][:_N_SUSPECTS]
            trials = [(self._condition_on(used[used != i]), int(i)) for i in slowest]
            for posterior, i in sorted(trials, key=lambda trial: -trial[0].evidence):
                if posterior.evidence + _DISTURBANCE <= evidence:
                    return excluded
                expected = posterior.marginal(self._run_candidates[[i]])[0][0]
                if np.log(self.runs.seconds[i]) > expected:
                    evidence, excluded[i], used = posterior.evidence, True, used[used != i]
                    break
            else:
                return excluded

    @lazy
    def _posterior(self) -> Posterior:
        if self.runs is None:
            return self._prior
        return self._condition_on(np.flatnonzero(~self.disturbed))

    def _condition_on(self, runs: Indices) -> Posterior:
        """Return the posterior conditioned on the runs with these indices."""
        assert self.runs is not None
        return self._prior.condition(self._run_candidates[runs], RUN, self.runs.seconds[runs])

    @property
    def _run_candidates(self) -> Indices:
        """Index of the mapping of each run."""
        if self.runs is None:
            return np.empty(0, dtype=np.int64)
        return find_measured(self.mappings, self.runs)[self.runs.which]

    @lazy
    def _draws(self) -> Draws:
        return self._posterior.sample()

    @property
    def _likely(self) -> Indices:
        """The mappings that may be the fastest."""
        return self._draws.candidates

    def _omitted_probability(self) -> float:
        """Return an upper bound on the probability that a candidate without draws is the fastest.

        The bound is the sum of these candidates' probabilities of being faster than the best.
        """
        if self.runs is None or self._likely.size == len(self.names):
            return 0.0
        mean, std = self._posterior.marginal()
        probability = normal_cdf((mean[self._best] - mean) / np.maximum(std, 1e-12))
        return float(np.delete(probability, self._likely).sum())


def knowledge_gradient(mean: Floats, covariance: Floats, variance: float) -> Floats:
    """For each mapping, return how much one run is expected to lower the minimum of the means.

    The method is that of Frazier, Powell and Dayanik, INFORMS Journal on Computing 21, 2009.
    """
    # A run of mapping j that is z standard deviations slower than expected moves the mean of
    # mapping i by z * shift[i, j]. Average the minimum over 32 equally likely values of z.
    shift = covariance / np.sqrt(np.diag(covariance) + variance + 1e-300)
    outcomes = [NormalDist().inv_cdf((i + 0.5) / 32) for i in range(32)]
    minima = np.zeros(mean.size)
    for outcome in outcomes:
        minima += (mean[:, None] + outcome * shift).min(axis=0)
    return np.asarray(np.maximum(mean.min() - minima / len(outcomes), 0.0))


def best_batch(
    mean: Floats, covariance: Floats, variance: float, n: int, tolerance: float = 0.0
) -> Indices:
    """Return ``n`` different mappings to run together, chosen greedily by knowledge gradient.

    If no run has a noticeable gain, choose the mappings whose runs best resolve whether another
    mapping is faster than the best by a relative difference of more than ``tolerance``.
    """
    covariance = covariance.copy()
    chosen: list[int] = []
    is_left = np.ones(mean.size, dtype=bool)
    for _ in range(min(n, mean.size)):
        gain = knowledge_gradient(mean, covariance, variance)
        resolved = _resolved_probability(mean, covariance, variance, tolerance)
        order = np.lexsort((-resolved, -gain, ~is_left))
        if gain[order[0]] < _MIN_GAIN:
            order = np.lexsort((-gain, -resolved, ~is_left))
        best = int(order[0])
        chosen.append(best)
        is_left[best] = False
        # The posterior covariance after a run does not depend on its outcome.
        column = covariance[best]
        covariance = covariance - np.outer(column, column) / (column[best] + variance + 1e-300)
    return np.array(chosen, dtype=np.int64)


def _resolved_probability(
    mean: Floats, covariance: Floats, variance: float, tolerance: float
) -> Floats:
    """Return how much a run of each mapping is expected to confirm or refute the best one.

    It is a sum over the other mappings: the probability that the other one is faster than the best,
    times the share of the variance of their difference that the run explains.
    """
    best = int(mean.argmin())
    own_variance = covariance.diagonal()
    difference = np.maximum(own_variance + covariance[best, best] - 2 * covariance[best], 1e-300)
    chance = normal_cdf((mean[best] - mean - np.log1p(tolerance)) / np.sqrt(difference))
    chance[best] = 0.0
    # Element [i, j]: the variance of the difference between j and the best that a run of i
    # explains.
    run_variance = own_variance[:, None] + variance + 1e-300
    explained = (covariance - covariance[:, [best]]) ** 2 / run_variance
    return np.asarray((explained / difference) @ chance)


def plan(
    comm: ProblemLike,
    torus: TorusLike | None = None,
    mappings: Mappings = (),
    times: Times | None = None,
    *,
    noise: float | None = None,
    tolerance: float | None = None,
    run_cost: float | None = None,
    model: Model | str = "default",
    simulate: int | None = None,
    routing: Routing = "deterministic",
    n_jobs: int | None = None,
    seed: Seed = SEED,
    progress: Progress | None = None,
) -> Plan:
    """Plan the runs of mappings on a machine: which mapping is next, and when runs are enough.

    A measured time includes computation, software and noise. It is modelled as a constant plus a
    factor times the simulated or predicted time of the network. The runs determine the constant,
    the factor, the error of each mapping and the noise of a run. `Plan.ask` returns the mapping
    whose run is expected to improve the choice most (knowledge gradient: Frazier, Powell and
    Dayanik, 2009), and `Plan.observe` adds the time of that run.

    Parameters
    ----------
    times : path, dict or DataFrame, optional
        Runs made so far: a file for `read_runs`, a dict of names to seconds, or a table with the
        columns ``mapping`` and ``time``. The file may be missing or empty.
    noise : float, optional
        Relative standard deviation of a run; by default, estimated from repeated runs.
    tolerance : float, optional
        Relative difference in time that is not worth further runs: the runs are enough if no
        mapping is faster than the best by more than this, with 95 % probability. Default: 1 %; the
        runs are then also enough if the expected gain of all further runs is below 1 %, or if
        differences are below 1.5 times the noise.
    run_cost : float, optional
        The runs are also enough if the next run is expected to shorten the chosen mapping's time by
        less than this many seconds. No limit by default.
    model : TimePredictor or path
        A model fitted on named features; by default, the one that comes with toruscast.
    simulate : int, optional
        Maximum number of candidates to simulate. If there are at most this many, and simulating
        them all takes a few seconds, simulated times replace the predictions of the default model.
        No limit by default; 0 for no simulations.
    progress : callable, optional
        Called with "features", the number of mappings with computed features, and the total number.

    Examples
    --------
    The machine is a function here; yours starts a job.

    >>> from toruscast.mapping import Torus, patterns, strategies
    >>> from toruscast.simulation import simulate
    >>> halo, torus = patterns.halo_2d((4, 4), 4096, periodic=True), Torus((4, 4))
    >>> def machine(mapping):
    ...     return 5e-5 + 1.2 * simulate(halo, torus, mapping).time
    >>> runs = plan(halo, torus, strategies.sample(halo, torus, n=20), noise=0.001)
    >>> while not runs.is_enough and runs.n_runs < 20:
    ...     for mapping in runs.ask():
    ...         runs.observe(mapping, machine(mapping))
    >>> runs.best.name, runs.is_enough, runs.n_runs < 10
    ('identity', True, True)
    """
    report = progress_of(progress, "features")
    problem = as_problem(comm, torus, routing)
    candidates = problem.mappings(mappings)
    if not candidates:
        raise InputError("no mapping to plan runs of")
    loaded = load_model(model) if isinstance(model, str) else model
    fitted.check_model(loaded)
    fitted.check_traffic(problem.workload)
    noise = None if noise is None else real_number(noise, "noise", 1e-4, 1.0)
    limit = len(candidates) if simulate is None else whole_number(simulate, "simulate", 0)
    described, simulator = describe_candidates(
        problem, candidates, loaded, job_count(n_jobs), seed_number(seed), report
    )
    coarsening = None
    if 1 < len(candidates) <= limit and isinstance(loaded, DefaultModel):
        coarsening = simulate_in_seconds(simulator)
    result = Plan(
        problem,
        candidates,
        machine_posterior(described.posterior, simulator, coarsening, noise=noise),
        noise=noise,
        tolerance=tolerance,
        run_cost=run_cost,
        is_simulated=coarsening is not None,
    )
    is_file = isinstance(times, str | os.PathLike)
    if times is not None and (not is_file or has_runs(times)):
        result.observe_all(times)
    return result
