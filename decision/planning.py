"""Which mapping to run next on the machine, and when the runs made so far are enough."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import NormalDist
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from toruscast._lazy import lazy
from toruscast._slow import pandas as pd
from toruscast.decision.loop import REGRET, SURE
from toruscast.decision.machine import machine_posterior, simulate_all
from toruscast.decision.posterior import RUN, TIME, Draws, Posterior, World, normal_cdf
from toruscast.decision.ranking import describe_candidates
from toruscast.decision.results import Kind, Verdict, names_of
from toruscast.decision.runs import Runs, Times, mappings_of
from toruscast.errors import InputError
from toruscast.formats.times import holds_runs
from toruscast.mapping import MappingProblem, TaskMapping
from toruscast.notebook import NotebookCard
from toruscast.routing import Routing
from toruscast.text import counted, shown_name
from toruscast.training import fitted
from toruscast.training.default_model import DefaultModel
from toruscast.training.fitted import Model
from toruscast.training.model_file import load_model
from toruscast.validation import check_call, job_count, real_number, repeated, whole_number

if TYPE_CHECKING:
    from toruscast.mapping.comm_graph import Traffic
    from toruscast.mapping.problem import Mappings, TorusLike

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

COVERAGE = 0.9
"""Share of the cases in which a mapping's time lies between ``low`` and ``high``."""
# Mappings that differ by fewer widths of the noise may be called tied.
_BLURRED = 1.5
# Runs of a mapping that show by themselves which of them was disturbed.
_SEVERAL = 3
# Runs after which the leading mapping runs again if no noise is known.
_BEFORE_AGAIN = 4
# Share of the time that is not worth a run by itself.
_NOTHING = 1e-4
# Chance of being faster than the best from which on a mapping counts as its rival.
_RIVAL = 0.05
# Disturbed runs: one in twenty; how much longer it takes has, in logarithms, a density of about 1.
# Among fewer than four runs none is taken for disturbed; the slowest are looked at.
_DISTURBANCE, _MIN_RUNS, _N_SUSPECTS = float(np.log(0.05)), 4, 24


class Plan(NotebookCard):
    """Runs of mappings, one after the other: ask which is next, observe its time.

    `plan` makes it and documents its parameters.
    """

    def __repr__(self) -> str:
        return (
            f"Plan({counted(self.n_runs, 'run')}, {counted(len(self.names), 'mapping')}: "
            f"{shown_name(self.names[self._best])} leads, {self.verdict.kind})"
        )

    def __init__(
        self,
        problem: MappingProblem,
        mappings: Sequence[TaskMapping],
        prior: Posterior,
        *,
        noise: float | None = None,
        goal: float | None = None,
        run_cost: float | None = None,
        is_simulated: bool = False,
    ) -> None:
        self.problem, self.mappings = problem, tuple(mappings)
        self.names = names_of(self.mappings)
        self.noise = None if noise is None else real_number(noise, "noise", 1e-4, 1.0)
        self.goal = None if goal is None else real_number(goal, "goal", 1e-4, 1.0)
        self._goal = REGRET if self.goal is None else self.goal
        self.run_cost = None if run_cost is None else real_number(run_cost, "price of a run", 0)
        self._place = {name: i for i, name in enumerate(self.names)}
        if len(self._place) < len(self.names):
            raise InputError("name of a mapping stands twice", found=repeated(self.names)[0])
        self.is_simulated = is_simulated
        self._prior = prior
        self.runs: Runs | None = None
        """Runs made so far; None before the first."""

    @property
    def n_runs(self) -> int:
        """How many runs were made."""
        return 0 if self.runs is None else self.runs.seconds.size

    @property
    def best(self) -> TaskMapping:
        """The mapping that likely takes least of those that were run; of all before any run."""
        return self.mappings[self._best]

    @property
    def is_enough(self) -> bool:
        """Whether further runs are not worth their cost."""
        return self.verdict.kind != "undecided"

    def forecast_times(self) -> Floats:
        """Return what the network alone takes, simulated or forecast before any run.

        Seconds, ``(n_mappings,)``, in the order of `mappings`.
        """
        return np.asarray(np.exp(self._prior.centres.mean(axis=0)))

    def name_of(self, mapping: TaskMapping) -> str:
        """Return the name of a candidate in the table and in files of runs."""
        places = (i for i, one in enumerate(self.mappings) if one is mapping)
        return next((self.names[i] for i in places), mapping.name)

    def observe(self, mapping: TaskMapping | str, seconds: float) -> None:
        """Take in the time of a run."""
        name = mapping if isinstance(mapping, str) else self.name_of(mapping)
        self.observe_all([(name, seconds)])

    def observe_all(self, times: Times | Sequence[tuple[str, float]]) -> None:
        """Take in runs: of a file, a dict, a table, or pairs of names and seconds."""
        if isinstance(times, list):
            times = pd.DataFrame(times, columns=["mapping", "time"])
        new = Runs.from_times(times)
        mappings_of(self.mappings, new)
        old = [] if self.runs is None else _pairs(self.runs)
        self.runs = Runs.from_times(pd.DataFrame([*old, *_pairs(new)], columns=["mapping", "time"]))
        # What was concluded from fewer runs is concluded anew.
        for name, value in vars(Plan).items():
            if isinstance(value, lazy):
                self.__dict__.pop(name, None)

    def ask(self, n: int = 1) -> list[TaskMapping]:
        """Return the ``n`` mappings to run next, together; each stands there once.

        They are those whose runs are expected to improve the choice most. One that was run may
        stand among them again, where noise blurs its time.
        """
        n = whole_number(n, "number of mappings", 1)
        if self.runs is None:
            # Only the forecast distinguishes them.
            order = np.argsort(self.forecast_times(), kind="stable")[:n]
            return [self.mappings[i] for i in order]
        chosen = self._likely[best_batch(*self._joint, self.noise_share**2, n, self._goal)]
        if self.noise_from == "nothing" and self.n_runs >= _BEFORE_AGAIN:
            # A second run of the leader shows the noise, and whether the first was lucky.
            chosen = np.array([self._best, *chosen[chosen != self._best]])[:n]
        return [self.mappings[i] for i in chosen]

    @lazy
    def verdict(self) -> Verdict:
        """How far the runs made so far decide which mapping is the fastest."""
        lost, goal = self._lost, self._goal
        rest = self._chance_of_rest()
        certainty = max(0.0, float((lost <= np.log1p(goal)).mean()) - rest)
        kind: Kind = "sure" if certainty >= SURE else "undecided"
        rivals = self._rivals()
        if kind == "undecided" and self.noise_from != "nothing" and rest <= 1 - SURE:
            most = np.quantile(lost, SURE + rest, method="inverted_cdf")
            is_blurred = most <= np.log1p(_BLURRED * self.noise_share)
            # What all further runs together gain in the mean is not worth them.
            if self.goal is None and (is_blurred or self.mean_gain + rest <= goal):
                kind, goal = (
                    "indistinguishable" if rivals.size else "not_worth_more",
                    float(np.expm1(most)),
                )
                certainty = float((lost <= most).mean()) - rest
        if kind == "undecided" and self.run_cost is not None and self.next_gain < self.run_cost:
            kind = "not_worth_more"
        if self.runs is None and len(self.mappings) > 1:
            kind = "undecided"
        return Verdict(kind, certainty, tuple(self.names[i] for i in rivals), goal=goal)

    @property
    def gain(self) -> float:
        """Share of the time that more runs would gain at most, with a probability of 95 %."""
        return float(-np.expm1(-np.quantile(self._lost, SURE)))

    @property
    def mean_gain(self) -> float:
        """Share of the time that all further runs together would gain in the mean."""
        return float(np.expm1(self._lost.mean()))

    @lazy
    def next_gain(self) -> float:
        """Seconds by which the next run is expected to shorten the time of the chosen mapping."""
        gain = float(knowledge_gradient(*self._joint, self.noise_share**2).max())
        # One that was not run may likely take less than the best of those that were.
        own = float(self._marginal[0][self._best])
        return float(np.exp(own) * (own - self._joint[0].min() + gain))

    def ratio_to(self, name: str) -> tuple[float, float]:
        """Return between what shares of another's time the best's lies, with `COVERAGE`."""
        own, other = self._posterior.sample(np.array([self._best, self._place[name]])).logs.T
        low, high = np.exp(np.quantile(own - other, [(1 - COVERAGE) / 2, (1 + COVERAGE) / 2]))
        return float(low), float(high)

    @property
    def more_runs(self) -> int:
        """Runs that separate the best from its rivals as far as ``goal``, or 1 %."""
        each = 2 * (NormalDist().inv_cdf(SURE) * self.noise_share / np.log1p(self._goal)) ** 2
        made = np.bincount(self._which, minlength=len(self.names))[[self._best, *self._rivals()]]
        return int(np.maximum(np.ceil(each) - made, 0).sum())

    @property
    def noise_share(self) -> float:
        """Standard deviation of a run's time as a share of it, as given or as likely."""
        return self._posterior.noise

    @property
    def noise_from(self) -> Literal["user", "repetitions", "nothing"]:
        """Source of the noise: the caller, mappings that ran more than once, or a guess."""
        if self.noise is not None:
            return "user"
        repeated = self.runs is not None and bool((self.runs.counts > 1).any())
        return "repetitions" if repeated else "nothing"

    @property
    def constant_share(self) -> float:
        """Share of the median time that likely does not depend on the mapping."""
        constant = np.maximum([world.constant for world in self._posterior.worlds], 0.0)
        return float(self._posterior.weights @ (constant / (1 + constant)))

    @lazy
    def _marginal(self) -> tuple[Floats, Floats]:
        return self._posterior.marginal()

    @lazy
    def _joint(self) -> tuple[Floats, Floats]:
        return self._posterior.joint(self._likely)

    @lazy
    def _best(self) -> int:
        ran = np.isin(self._likely, self._which) | (self.runs is None)
        return int(self._likely[np.where(ran, self._joint[0], np.inf).argmin()])

    @lazy
    def _lost(self) -> Floats:
        return self._drawn.loss(self._best)

    def _rivals(self) -> Indices:
        """Return which mappings may well be faster than the best, the likeliest first."""
        which, faster = self._likely, self._drawn.faster(self._best)
        order = np.argsort(-faster, kind="stable")
        kept: Indices = which[order[(faster[order] >= _RIVAL) & (which[order] != self._best)]]
        return kept

    @lazy
    def table(self) -> pd.DataFrame:
        """A row per mapping, the best first.

        Columns: ``mapping``; ``time`` (seconds, what a run likely takes without noise) between
        ``low`` and ``high``; ``p_best`` (probability of being the fastest); ``runs`` and their
        mean, ``measured``; ``source``: measured or predicted. Before the first run, times are
        the model's predictions for the network alone.
        """
        if self.runs is not None:
            time, low, high = self._posterior.interval(COVERAGE)
        else:
            # The network alone, without what a machine may add.
            centre = self._prior.centres.mean(axis=0, keepdims=True)
            network = replace(
                self._prior, centres=centre, worlds=[World()], world_weights=None, target=TIME
            )
            time, low, high = network.interval(COVERAGE)
        chances = self._drawn.p_best(len(self.names))
        counts = np.bincount(self._which, minlength=time.size)
        seconds = np.empty(0) if self.runs is None else self.runs.seconds
        sums = np.bincount(self._which, seconds, minlength=time.size)
        table = pd.DataFrame(
            {
                "mapping": self.names,
                "time": time,
                "low": low,
                "high": high,
                "p_best": chances,
                "runs": counts,
                "measured": np.where(counts > 0, sums / np.maximum(counts, 1), np.nan),
                "source": np.where(counts > 0, "measured", "predicted"),
            }
        )
        order = np.lexsort((table["time"], np.arange(time.size) != self._best))
        return table.iloc[order].reset_index(drop=True)

    @lazy
    def disturbed(self) -> NDArray[np.bool_]:
        """Which runs do not count, as something has likely slowed them down."""
        if self.runs is None:
            return np.zeros(0, dtype=bool)
        # Of many runs of a mapping the others show, fast or slow.
        out = self.runs.is_outlier & (self.runs.counts >= _SEVERAL)[self.runs.which]
        kept = np.flatnonzero(~out)
        if kept.size < _MIN_RUNS:
            return out
        best = self._conditioned(kept).evidence
        while True:
            slowest = kept[np.argsort(-self.runs.seconds[kept], kind="stable")][:_N_SUSPECTS]
            trials = [(self._conditioned(kept[kept != i]), int(i)) for i in slowest]
            # As long as the others and a rare disturbance explain the times better.
            for rest, i in sorted(trials, key=lambda trial: -trial[0].evidence):
                if rest.evidence + _DISTURBANCE <= best:
                    return out
                expected = rest.marginal(self._which[[i]])[0][0]
                if np.log(self.runs.seconds[i]) > expected:
                    best, out[i], kept = rest.evidence, True, kept[kept != i]
                    break
            else:
                return out

    @lazy
    def _posterior(self) -> Posterior:
        """Posterior after all runs, those that were disturbed left out."""
        if self.runs is None:
            return self._prior
        return self._conditioned(np.flatnonzero(~self.disturbed))

    def _conditioned(self, kept: Indices) -> Posterior:
        assert self.runs is not None
        return self._prior.condition(self._which[kept], RUN, self.runs.seconds[kept])

    @property
    def _which(self) -> Indices:
        if self.runs is None:
            return np.empty(0, dtype=np.int64)
        return np.array([self._place[name] for name in self.runs.names])[self.runs.which]

    @lazy
    def _drawn(self) -> Draws:
        return self._posterior.sample()

    @property
    def _likely(self) -> Indices:
        return self._drawn.which

    def _chance_of_rest(self) -> float:
        """Chance, at most, that one of the less likely candidates takes less than the best."""
        if self.runs is None or self._likely.size == len(self.names):
            return 0.0
        mean, scale = self._marginal
        score = (mean[self._best] - mean) / np.maximum(scale, 1e-12)
        chance = normal_cdf(score)
        return float(np.delete(chance, self._likely).sum())


def knowledge_gradient(mean: Floats, covariance: Floats, variance: float) -> Floats:
    """Return by how much one run of each mapping is expected to lower the least expected time.

    After Frazier, Powell and Dayanik, INFORMS Journal on Computing 21, 2009.
    """
    moved = covariance / np.sqrt(np.diag(covariance) + variance + 1e-300)
    # Equally likely outcomes of a run represent all.
    outcomes = [NormalDist().inv_cdf((i + 0.5) / 32) for i in range(32)]
    least = np.zeros(mean.size)
    for outcome in outcomes:
        least += (mean[:, None] + outcome * moved).min(axis=0)
    return np.asarray(np.maximum(mean.min() - least / len(outcomes), 0.0))


def best_batch(
    mean: Floats, covariance: Floats, variance: float, n: int, goal: float = 0.0
) -> Indices:
    """Return ``n`` mappings to run together, each once, the most telling first.

    Where a run is expected to gain next to nothing, those go on that settle most of the chance that
    some mapping takes less than the best by more than ``goal``, a share of its time.
    """
    covariance = covariance.copy()
    chosen: list[int] = []
    left = np.ones(mean.size, dtype=bool)
    for _ in range(min(n, mean.size)):
        gain = knowledge_gradient(mean, covariance, variance)
        order = np.lexsort((-_settled(mean, covariance, variance, goal), -gain, ~left))
        if gain[order[0]] < _NOTHING:
            order = np.lexsort((-gain, -_settled(mean, covariance, variance, goal), ~left))
        one = int(order[0])
        chosen.append(one)
        left[one] = False
        # What this run will teach, whatever it says.
        column = covariance[one]
        covariance = covariance - np.outer(column, column) / (column[one] + variance + 1e-300)
    return np.array(chosen, dtype=np.int64)


def _settled(mean: Floats, covariance: Floats, variance: float, goal: float) -> Floats:
    """How much of the chance that another mapping is faster a run of each settles."""
    best = int(mean.argmin())
    own = covariance.diagonal()
    apart = np.maximum(own + covariance[best, best] - 2 * covariance[best], 1e-300)
    chance = normal_cdf((mean[best] - mean - np.log1p(goal)) / np.sqrt(apart))
    chance[best] = 0.0
    # By how much a run of i moves mapping j against the best.
    moved = (covariance - covariance[:, [best]]) ** 2 / (own[:, None] + variance + 1e-300)
    return np.asarray((moved / apart) @ chance)


def _pairs(runs: Runs) -> list[tuple[str, float]]:
    names = [runs.names[i] for i in runs.which]
    return list(zip(names, runs.seconds.tolist(), strict=True))


def plan(
    traffic: Traffic,
    torus: TorusLike,
    mappings: Mappings,
    times: Times | None = None,
    *,
    noise: float | None = None,
    goal: float | None = None,
    run_cost: float | None = None,
    model: Model | str = "default",
    simulate: bool = True,
    routing: Routing = "deterministic",
    n_jobs: int | None = None,
    seed: int = 0,
    progress: Callable[[int, int], object] | None = None,
) -> Plan:
    """Plan the runs of mappings on a machine: which is next, and whether those made are enough.

    A measured time holds computation and software too, and noise. Simulations, or the model, say
    the time of the network; how much is added to it, by what factor it is off, how far single
    mappings miss it and how noisy a run is, is learned from the runs. The next run is the one that
    is expected to improve the choice most (knowledge gradient: Frazier, Powell and Dayanik, INFORMS
    Journal on Computing 21, 2009). `Plan.ask` names it, `Plan.observe` takes in a time.

    Parameters
    ----------
    times : path, dict or DataFrame, optional
        Runs made so far: a file of `read_runs`, names and seconds, or columns ``mapping`` and
        ``time``. None is fine, and so is a file that is not there yet or holds no run.
    noise : float, optional
        Standard deviation of a run's time, as a share of it; learned from runs of the same mapping
        if not given.
    goal : float, optional
        Share of the time that is not worth further runs: a plan has enough where no mapping takes
        so much less, 95 % sure. 1 % if not given; a plan then also has enough where all further
        runs gain less than that in the mean, or where 1.5 times the noise hides the rest.
    run_cost : float, optional
        Seconds that the next run must be expected to take off the time of the chosen mapping; the
        plan has enough where it gains less. No limit if not given.
    model : TimePredictor or path
        Fitted on named features; the one that comes with toruscast if not given.
    simulate : bool
        Whether simulations take the place of the default model's forecast, where those of all
        candidates take a few seconds.
    progress : callable, optional
        Called with the mappings whose features are computed, and all of them.

    Examples
    --------
    The machine is a function here; yours starts a job.

    >>> from toruscast.mapping import patterns, strategies
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
    check_call(progress)
    problem = MappingProblem(traffic, torus, routing)
    several = problem.mappings(mappings)
    if not several:
        raise InputError("no mapping to plan runs of")
    chosen = load_model(model) if isinstance(model, str) else model
    fitted.check_model(chosen)
    fitted.check_sends(problem.workload)
    noise = None if noise is None else real_number(noise, "noise", 1e-4, 1.0)
    candidates, simulations = describe_candidates(
        problem,
        several,
        chosen,
        job_count(n_jobs),
        seed,
        None if progress is None else lambda _, done, n: progress(done, n),
    )
    coarsening = None
    if simulate and len(several) > 1 and isinstance(chosen, DefaultModel):
        coarsening = simulate_all(simulations)
    prior = machine_posterior(
        candidates.posterior,
        None if coarsening is None else simulations,
        coarsening or 1,
        noise=noise,
    )
    made = Plan(
        problem,
        several,
        prior,
        noise=noise,
        goal=goal,
        run_cost=run_cost,
        is_simulated=coarsening is not None,
    )
    is_file = isinstance(times, str | os.PathLike)
    if times is not None and (not is_file or holds_runs(times)):
        made.observe_all(times)
    return made
