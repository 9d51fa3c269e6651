"""The answer: which candidate is fastest, how sure that is, and what it cost to find out."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
import scipy
from numpy.typing import NDArray

from toruscast._lazy import Slow
from toruscast.decision.runs import Runs, Times
from toruscast.errors import InputError
from toruscast.features import extract
from toruscast.mapping import CommGraph, TaskMapping, Torus, Workload, as_workload
from toruscast.mapping.task_mapping import as_mappings
from toruscast.routing import Routing
from toruscast.routing.messages import mean_message
from toruscast.training import fitted
from toruscast.training.feature_sets import BOUND, HELD_OUT, SKETCHED
from toruscast.training.fitted import APART, FittedModel, PriorPrediction, p_best, prior_of
from toruscast.training.metrics import score_answer
from toruscast.training.model_file import load_fitted
from toruscast.validation import job_count

from .networks import forecast_networks
from .posterior import DRAWS, Kernel, Outcomes, Posterior, expected_rcc
from .race import (
    MOST_HOPS,
    Budget,
    Goal,
    Race,
    Simulate,
    affordable,
    mean_hops,
    run,
    run_all,
    sketched,
)
from .results import (
    OF_SUMS,
    SHOWN_FEATURES,
    Cost,
    Forecast,
    PhysicalOrder,
    Verdict,
    names_of,
    ranked,
)

if TYPE_CHECKING:
    from toruscast.decision import learned_runs
else:
    # It learns, with scikit-learn, and a forecast alone does not.
    learned_runs = Slow("toruscast.decision.learned_runs")

Floats = NDArray[np.float64]
SURE_BOUND = "sure_bound"
# Share of the seconds given for a race that longer packets may take before it.
_SKETCHING = 0.4
Stage = Literal["features", "simulations"]
Progress = Callable[[Stage, int, int], None]


def forecast(
    traffic: Workload | CommGraph,
    torus: Torus,
    mappings: TaskMapping | Sequence[TaskMapping],
    *,
    model: FittedModel | str = "default",
    times: Times | None = None,
    goal: Goal = "fastest",
    budget: Budget | int | None = None,
    routing: Routing = "deterministic",
    check: bool = False,
    coverage: float = 0.9,
    n_jobs: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Forecast:
    """Find the fastest of several mappings with as few simulations as decide it.

    A model gives every candidate a time and an interval from features of its routes. Simulations
    go to the candidates likeliest to be the fastest, and each teaches about the others, until the
    best is proved or sure to be the fastest, or the budget is spent. The rest is simulated as well,
    for the order, where that takes seconds: with real packets, or with longer ones.

    With ``goal="order"`` simulations go to what is expected to put most pairs in the right order
    instead, with longer packets first: until the expected RCC is that of the budget, or its seconds
    are over. `Verdict.rcc` states it, `Forecast.spent` says what went where.

    Where the rules of the network are unknown (`Network.rules`), all candidates are simulated on
    several networks that the machine may have, and their mean decides; nothing is proved then.

    The first simulation on a machine takes 10 to 15 seconds longer, to be compiled.

    Parameters
    ----------
    traffic, torus, mappings
        What is sent, over which network, and the candidates.
    model : TimePredictor or path
        Fitted on named features; the one that comes with toruscast if not given.
    times : path, dict of names to seconds, DataFrame or Runs, optional
        Measured times of six of the candidates or more (`Runs.of`). The others are forecast from
        them: nothing is simulated to decide, for the machine decides.
    goal : {"fastest", "order"}
        What simulations are to decide.
    budget : Budget or int, optional
        Most simulations with real packets; 0 for the forecast alone. With ``times``, 0 leaves out
        the simulated times that measured ones may follow.
    check : bool
        Simulate all candidates once the race is over and score what was said before.
    coverage : float
        Share of the cases in which the interval ``low`` to ``high`` holds the time.
    n_jobs : int, optional
        Threads; as many candidates are simulated at a time.
    progress : callable, optional
        Called with "features" or "simulations", how many are done and the most there will be.

    Examples
    --------
    >>> from toruscast.mapping import patterns, strategies
    >>> halo, torus = patterns.halo_2d((4, 4), 4096, periodic=True), Torus((4, 4))
    >>> answer = forecast(halo, torus, strategies.sample(halo, torus, n=12))
    >>> answer.best.name, answer.verdict.kind, answer.cost.to_answer
    ('identity', 'proved', 1)
    >>> answer = forecast(halo, torus, answer.mappings, goal="order")
    >>> answer.verdict.rcc >= 0.97, sorted(answer.spent)
    (True, ['bound', 'full'])
    """
    several = as_mappings(mappings)
    if not several:
        raise InputError("no mapping to rank")
    budget = Budget() if budget is None else budget
    budget = Budget(budget) if isinstance(budget, int) else budget
    most, _ = budget.limits(goal, len(several))
    workload = as_workload(traffic)
    fitted.check_sends(workload)
    simulate = Simulate(workload, torus, several, routing, job_count(n_jobs))
    if times is not None and model != "default":
        raise InputError("a model and times", expected="one of them: times make their own")
    chosen = load_fitted(model) if isinstance(model, str) else model
    if torus.network.rules == "unknown" and most:
        if check:
            expected = "no check: known rules, or times of the machine"
            raise InputError("one simulation cannot check several networks", expected=expected)
        runs = None if times is None else Runs.of(times)
        return forecast_networks(simulate, chosen, runs, budget, goal, coverage, seed, progress)
    fitted.check_model(chosen)
    if goal == "order" and (times is not None or chosen.target == "measured"):
        expected = "goal fastest: measured times are forecast without simulations for the order"
        raise InputError("simulations for the order, and times of a machine", expected=expected)
    learned = None
    shared: dict[str, Any] = {
        "routing": routing,
        "seed": seed,
        "n_jobs": simulate.n_jobs,
        "progress": None if progress is None else partial(progress, "features"),
    }
    if times is not None:
        learned = learned_runs.learn_runs(
            workload, torus, several, times, simulate=most > 0, **shared
        )
        chosen = learned.model
    if chosen.target == "measured":
        if check:
            expected = "no check, or a model of simulated times"
            raise InputError("a simulation cannot check times of a machine", expected=expected)
        return learned_runs.forecast_machine(
            workload, torus, several, chosen, learned, coverage=coverage, **shared
        )
    return _Contest(simulate, chosen, budget, goal, seed, progress).answer(check, coverage)


class _Contest:
    """A model of simulated times, and the simulations that decide what is asked for."""

    def __init__(
        self,
        simulate: Simulate,
        model: FittedModel,
        budget: Budget,
        goal: Goal,
        seed: int,
        progress: Progress | None,
    ) -> None:
        self.simulate, self.model, self.goal = simulate, model, goal
        self.budget = budget
        self.workload, self.torus, self.mappings = (
            simulate.workload,
            simulate.torus,
            simulate.mappings,
        )
        self.most, self.seconds = budget.limits(goal, len(self.mappings))
        self.observed = None if progress is None else partial(progress, "simulations")
        began = time.monotonic()
        self.features = extract(
            self.workload,
            self.torus,
            self.mappings,
            routing=simulate.routing,
            features=tuple(dict.fromkeys((*model.required_columns, *SHOWN_FEATURES, BOUND))),
            also={SURE_BOUND: attrgetter("sure_bound"), APART: attrgetter("rounds_apart")},
            n_jobs=simulate.n_jobs,
            progress=None if progress is None else partial(progress, "features"),
        )
        self.prior, self.unlearned = prior_of(
            model, self.features, self.workload, self.torus, simulate.routing, self.mappings
        )
        self.bound = self._column(BOUND)
        self.is_coarse = np.zeros(len(self.mappings), dtype=bool)
        rcc = budget.rcc if goal == "order" else None
        self.race = Race(process_of(self.prior), self._column(SURE_BOUND), seed, rcc)
        simulate.spent["bound"] = time.monotonic() - began

    def answer(self, check: bool, coverage: float) -> Forecast:
        """Simulate, and return the answer; what all take is simulated to check it."""
        race, model = self.race, self.model
        merged = None
        if self.goal == "fastest":
            merged = self._sketch_all() or (None if check else self._sketch_rivals())
            self._run()
        to_answer, coarsening = len(race.order), merged
        is_ordered = check if self.goal == "fastest" else race.is_decided()
        if self.most and not is_ordered:
            finer = self._coarsening()
            to_answer = self._order(finer)
            coarsening = finer or merged
        table, verdict = self._table(coverage)
        # Simulated times stand beside it, which a clock may have shortened.
        table["lower_bound"] = race.bounds[table.index]
        physical = None
        if not model.provenance_.get("default"):
            table[BOUND] = self.bound[table.index]
            first = names_of(self.mappings)[int(self.bound.argmin())]
            physical = PhysicalOrder(first, model.provenance_.get(HELD_OUT))
        is_sketched = bool(SKETCHED & set(model.required_columns))
        n_simulated = int(race.is_simulated.sum())
        cost = Cost(to_answer, n_simulated, len(table), is_sketched, coarsening=coarsening)
        scores: dict[str, float] = {}
        spent = dict(self.simulate.spent)
        if check:
            run_all(race, self.simulate, self.observed)
            table.insert(4, "observed_time", race.times[table.index])
            scores = score_answer(table, self.bound[table.index])
        if self.workload.summed:
            table["low"], table["high"] = OF_SUMS[0] * table["low"], OF_SUMS[1] * table["high"]
        return Forecast(
            workload=self.workload,
            torus=self.torus,
            mappings=tuple(self.mappings),
            routing=self.simulate.routing,
            fitted=model,
            coverage=coverage,
            table=table.reset_index(drop=True),
            verdict=verdict,
            cost=cost,
            scores=scores,
            unlearned=self.unlearned,
            physical=physical,
            spent=spent,
            goal=self.goal,
        )

    def _table(self, coverage: float) -> tuple[pd.DataFrame, Verdict]:
        """Return the candidates' times, best first and indexed by number, and the verdict."""
        race, prior, features = self.race, self.prior, self.features
        seconds, low, high = interval(race, prior, coverage)
        leads = None
        if race.order:
            chances = race.outcomes().p_best(seconds.size)
            # The fastest is one that was simulated; an order is by time alone.
            leads = race.times == race.best_time if self.goal == "fastest" else None
        elif race.is_informed:
            chances = Outcomes.of(race.posterior, race.seed).p_best(seconds.size)
        else:
            chances = p_best(prior.draws(DRAWS, 0))
            # Of those that people read as equal, the one that loads the network least leads.
            loads = features["hop_bytes"].to_numpy(dtype=np.float64)
            shown = np.array([f"{each:.3g}" for each in seconds])
            leads = shown == shown[seconds.argmin()]
            leads &= loads == loads[leads].min()
        rest = np.where(self.is_coarse, "sketched", "forecast")
        how = np.where(race.is_simulated, "simulated", rest)
        columns = {"time": seconds, "low": low, "high": high, "p_best": chances, "how": how}
        table = ranked(names_of(self.mappings), features, columns, leads)
        kind, certainty = race.verdict()
        return table, Verdict.of(table, certainty, expected_rcc(race.posterior), kind)

    def _column(self, name: str) -> Floats:
        return self.features[name].to_numpy(dtype=np.float64)

    @property
    def _left(self) -> float:
        """Seconds that are left; the bounds are a part of the order."""
        spent = self.simulate.spent
        return self.seconds - sum(spent.values()) + (self.goal == "fastest") * spent["bound"]

    def _sketch_all(self) -> int | None:
        """Simulate all with longer packets first, where too little time is given for real ones."""
        if not math.isfinite(self.seconds) or not self.most:
            return None
        simulate, order = self.simulate, self._likely_first()
        seconds = _SKETCHING * self._left
        each = (self.workload, self.torus, self.mappings, simulate.n_jobs * seconds)
        for merged in affordable(*each):
            if merged == 1:
                return None
            # Other programs may have the processors, so the first are timed.
            began = time.monotonic()
            first = simulate(order[: simulate.n_jobs], merged)
            if (time.monotonic() - began) * order.size <= seconds * first.size:
                self._coarse(merged, order, first)
                return merged if self.is_coarse.any() else None
        return None

    def _sketch_rivals(self) -> int | None:
        """Simulate the likeliest with longer packets first, where all would take too long."""
        race = self.race
        if not self.most or self._left <= 0 or self._coarsening() is not None:
            return None
        each = mean_hops(self.workload, self.torus, self.mappings)
        race.proof = min(race.proof, int(MOST_HOPS / each))
        likely = race.next(self.most)
        # Those that may be faster than the first, should that take longer than its forecast.
        middle, scale = race.posterior.marginal(likely[:1])
        slower = np.maximum(np.exp(middle + scale), race.bounds[likely[:1]])
        likely = likely[race.bounds[likely] <= slower]
        if likely.size <= max(1, race.proof):
            return None
        merged = None
        while merged is None and likely.size:
            several = [self.mappings[i] for i in likely]
            merged = next(iter(affordable(self.workload, self.torus, several)), None)
            likely = likely if merged else likely[: likely.size // 2]
        if merged is None or merged == 1:
            return None
        self._coarse(merged, likely)
        return merged if self.is_coarse.any() else None

    def _run(self) -> None:
        """Simulate with real packets until it is decided."""
        budget = Budget(self.most, self._left, self.budget.rcc)
        run(self.race, self.simulate, budget, batch=self.simulate.n_jobs, progress=self.observed)

    def _order(self, coarsening: int | None) -> int:
        """Simulate for the order; return after how many with real packets it is decided."""
        race = self.race
        if coarsening == 1 and self.goal == "fastest":
            decided, best_time, n_decided = race.is_decided(), race.best_time, len(race.order)
            run_all(race, self.simulate, self.observed, self._left)
            return n_decided if decided and race.best_time == best_time else len(race.order)
        if coarsening is not None and coarsening > 1:
            self._coarse(coarsening, self._likely_first())
        if coarsening is not None or self.goal == "order":
            self._run()
        return len(race.order)

    def _likely_first(self) -> NDArray[np.int64]:
        return np.argsort(self.race.posterior.marginal()[0], kind="stable")

    def _coarse(
        self, merged: int, order: NDArray[np.int64], first: Floats | tuple[()] = ()
    ) -> None:
        """Simulate candidates in this order with longer packets, as far as time allows."""
        middle, scale = self.race.posterior.marginal()
        times = np.full(middle.size, np.nan)
        rest = self.simulate(order[len(first) :], merged, self._left)
        times[order] = np.concatenate([first, rest])
        known = np.isfinite(times)
        if known.any():
            level = float((np.log(times[known]) - middle[known]).mean())
            prior = self._sketched(np.where(known, times, np.exp(middle + level)), merged)
            prior.width = np.where(known, prior.width, scale)
            self.race.set_prior(prior)
        self.is_coarse |= known

    def _sketched(self, times: Floats, merged: int) -> Posterior:
        packets = mean_message(self.workload, self.torus)
        lower = self._column("lower_bound")
        return sketched(times, merged, packets, lower, self.bound, self.prior.features)

    def _coarsening(self) -> int | None:
        """Return how many packets are one for the order, if all can be simulated."""
        simulate = self.simulate
        levels = affordable(
            self.workload,
            self.torus,
            self.mappings,
            simulate.n_jobs * self._left,
            goal=self.goal,
        )
        if self.goal == "order":
            guess = np.exp(self.race.posterior.marginal()[0])
            for merged in (m for m in reversed(levels) if m > 1):
                if expected_rcc(self._sketched(guess, merged)) >= self.budget.rcc:
                    return merged
        return levels[0] if levels else None


def process_of(prior: PriorPrediction) -> Posterior:
    """What a model's forecast says before anything is simulated."""
    centre, width = prior.logs()
    calibration = prior.calibrated
    kernel = Kernel.of(float(calibration.common.var()), float(calibration.deviations.var()))
    return Posterior(centre, width, prior.features, kernel)


def interval(race: Race, prior: PriorPrediction, coverage: float) -> tuple[Floats, Floats, Floats]:
    """Return time, low and high end of each candidate, seconds; exact where simulated.

    No end lies below the bound that holds for the candidate, and a low end that the model puts at
    the lower bound lies at that one.
    """
    if race.is_simulated.all():
        return race.times, race.times, race.times
    if race.is_informed:
        centre, scale = race.posterior.marginal()
        reach = scipy.special.stdtrit(race.posterior.freedom, (1 + coverage) / 2)
        ends = [np.exp(centre + way * reach * scale) for way in (0.0, -1.0, 1.0)]
    else:
        ends = [prior.times(), *prior.interval(coverage).T]
        ends[1] = np.where(prior.is_at_bound(ends[1]), 0.0, ends[1])
    floor = race.bounds
    middle, low, high = (
        np.where(race.is_simulated, race.times, np.maximum(end, floor)) for end in ends
    )
    return middle, low, high
