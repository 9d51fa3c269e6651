"""What is simulated next, and when to stop.

To find the fastest candidate:

1. The likeliest and the default order of tasks are simulated with real packets.
2. If so few rivals remain that a proof is near, they are simulated, likeliest first.
3. Otherwise the rivals are simulated once with coarse packets, and then with real ones, those
   likeliest to be the fastest first.
4. It stops when the best is proved or sure to be the fastest, or the budget is spent.

To find the order, all candidates are simulated once with coarse packets, and then with real ones
those whose pairs are likeliest to be in the wrong order.

The answer compares the winner with the default order, so that has a simulation of the same kind,
even if no simulation is left; only a budget in seconds may forbid it. Such a budget is one for each
core, so more cores may simulate more.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from toruscast.errors import InputError
from toruscast.validation import real_number, whole_number

from .posterior import FULL, Draws, Posterior, expected_rcc, normal_cdf, wrong_pairs
from .simulations import HOPS_PER_SECOND, MAX_HOPS, Simulations

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
Goal = Literal["fastest", "order"]
logger = logging.getLogger(__name__)

REGRET = 0.01
"""Share of the time by which a candidate may be slower than the fastest and count as equal."""
SURE = 0.95
"""Probability from which an answer counts as sure."""
MAX_PROOF = 10
"""Most simulations in all for a proof; where it would take more, being sure is enough."""
# Candidates that are simulated before the posterior is looked at again: a constant, so that the
# answer does not depend on the number of cores.
_BATCH = 2
# Candidates that are swept with coarse packets at most, and the most that a coarse simulation may
# cost, as a share of a full one: finer ones would cost as much as the real ones that they save.
_MAX_SWEPT, _SWEEP_COST = 200, 0.07
# Seconds within which an order is found, if none are given.
_ORDER_SECONDS = 30.0
# Simulations by which the fastest is found, if no number is given.
_MAX_SIMULATIONS = 30


@dataclass(frozen=True)
class Budget:
    """Where the simulations end although nothing is decided.

    Parameters
    ----------
    simulations : int, optional
        Most candidates that are simulated with real packets. If not given, 30 to find the fastest,
        and all to find the order.
    seconds : float, optional
        Seconds that simulations may take on each core, estimated by their packet-hops: a limit that
        does not depend on how busy the machine is; infinity is no limit. If not given, there is
        none to find the fastest, and 30 to find the order.
    rcc : float
        The order is found once this share of the pairs is expected in the right order.
    """

    simulations: int | None = None
    seconds: float | None = None
    rcc: float = 0.97

    def __post_init__(self) -> None:
        real_number(self.rcc, "RCC", 0.5, 1.0)
        if self.simulations is not None:
            whole_number(self.simulations, "simulations", 0)
        if self.seconds not in (None, np.inf):
            real_number(self.seconds, "seconds", 0)

    def limits(self, goal: Goal, n: int) -> tuple[int, float]:
        """Return the most simulations of ``n`` candidates, and the most seconds."""
        if goal not in get_args(Goal):
            raise InputError("unknown goal", found=goal, expected=" or ".join(get_args(Goal)))
        usual, last = (_MAX_SIMULATIONS, np.inf) if goal == "fastest" else (n, _ORDER_SECONDS)
        most = usual if self.simulations is None else self.simulations
        return min(most, n), last if self.seconds is None else self.seconds


class Decision:
    """Candidates while they are simulated: the times so far, the posterior, and what is left.

    Parameters
    ----------
    posterior : Posterior
        Before any simulation.
    simulations : Simulations
        What simulates the candidates.
    default : int, optional
        The candidate with the default order of tasks.
    n_cores : int
        Cores that share the simulations.
    progress : callable, optional
        Called with the candidates simulated and the most that there will be.
    """

    def __init__(
        self,
        posterior: Posterior,
        simulations: Simulations,
        goal: Goal = "fastest",
        budget: Budget | None = None,
        *,
        default: int | None = None,
        n_cores: int = 1,
        progress: Callable[[int, int], object] | None = None,
    ) -> None:
        budget = Budget() if budget is None else budget
        self.posterior, self.simulations, self.goal = posterior, simulations, goal
        self.rcc, self.default, self.progress = budget.rcc, default, progress
        self.n_allowed, seconds = budget.limits(goal, posterior.n)
        self.hops_left = seconds * n_cores * HOPS_PER_SECOND
        self.times = np.full(posterior.n, np.nan)
        """Times simulated with real packets, seconds; NaN elsewhere."""
        self.is_coarse = np.zeros(posterior.n, dtype=bool)
        """Which candidates were simulated with coarse packets."""
        self.coarsening: int | None = None
        """Packets in one of the coarse simulations; None without any."""

    @property
    def is_simulated(self) -> NDArray[np.bool_]:
        """Which candidates were simulated with real packets."""
        return np.asarray(~np.isnan(self.times))

    @property
    def n_simulated(self) -> int:
        """How many candidates were simulated with real packets."""
        return int(self.is_simulated.sum())

    @property
    def best_time(self) -> float:
        """Least simulated time, seconds; infinite before the first."""
        return float(np.nanmin(self.times)) if self.n_simulated else np.inf

    @property
    def winner(self) -> int:
        """The candidate that leads: of those simulated, where the fastest is looked for."""
        if self.goal == "fastest" and self.n_simulated:
            return int(np.nanargmin(self.times))
        return int(self.likely_first()[0])

    def rivals(self) -> Indices:
        """Return the candidates whose bound leaves room below the best simulated time."""
        return np.flatnonzero(~self.is_simulated & (self.posterior.bounds < self.best_time))

    def draws(self) -> Draws:
        """Draw possible times of the best simulated and of its likeliest rivals."""
        best = np.flatnonzero(self.times == self.best_time)
        return self.posterior.sample(np.concatenate([best, self.likely_rivals()[0]]))

    def certainty(self) -> float:
        """Return the probability that no other is faster by more than `REGRET`."""
        if not self.n_simulated:
            return 0.0
        likely, chance = self.likely_rivals(REGRET)
        best = int(np.nanargmin(self.times))
        loss = self.posterior.sample(np.concatenate([[best], likely])).loss(best)
        rest = float(chance[likely.size :].sum())
        return max(0.0, float((loss <= np.log1p(REGRET)).mean()) - rest)

    def verdict(self) -> tuple[Literal["proved", "sure", "undecided"], float]:
        """Return whether the best simulated is proved or sure to be fastest, and how sure."""
        if self.n_simulated and not self.rivals().size:
            return "proved", 1.0
        certainty = self.certainty()
        return ("sure" if certainty >= SURE else "undecided"), certainty

    def is_decided(self) -> bool:
        """Return whether the goal is reached."""
        if self.goal == "order":
            return bool(self.is_simulated.all()) or expected_rcc(self.posterior) >= self.rcc
        if not self.n_simulated:
            return False
        if self.is_proof_near():
            return not self.rivals().size
        return self.certainty() >= SURE

    def is_proof_near(self) -> bool:
        """Return whether simulating all rivals takes few simulations, and seconds."""
        most = min(MAX_PROOF, MAX_HOPS / max(self.simulations.hops(), 1.0))
        return self.n_simulated + self.rivals().size <= most

    def likely_first(self) -> Indices:
        """Return all candidates in the order of their likely times."""
        mean, _ = self.posterior.marginal()
        least = np.log(np.maximum(self.posterior.bounds, 1e-300))
        return np.argsort(np.maximum(mean, least), kind="stable")

    def likely_rivals(self, share: float = 0.0) -> tuple[Indices, Floats]:
        """Return the likeliest rivals, 200 at most, and the chances of all in the same order."""
        rivals, goal = self.rivals(), self.best_time / (1 + share)
        mean, deviation = self.posterior.marginal(rivals)
        chance = normal_cdf((np.log(goal) - mean) / np.maximum(deviation, 1e-12))
        chance = np.where(self.posterior.bounds[rivals] < goal, chance, 0.0)
        # Where chances are equal, as where none is left, the bound decides.
        order = np.lexsort((self.posterior.bounds[rivals], -chance))
        return rivals[order[:_MAX_SWEPT]], chance[order]

    def simulate(self, which: Indices) -> bool:
        """Simulate candidates with real packets, as the budget allows; False if it allows none."""
        which = which[~self.is_simulated[which]]
        n = min(which.size, self.n_allowed - self.n_simulated, self.affordable(1))
        which = which[: max(n, 0)]
        if not which.size:
            return False
        self.hops_left -= which.size * self.simulations.hops()
        self.times[which] = self.simulations(which)
        self.posterior = self.posterior.condition(which, FULL, self.times[which])
        self.report("observed")
        return True

    def simulate_default(self) -> None:
        """Simulate the default order as the winner is, whatever the number of simulations."""
        default = np.array([] if self.default is None else [self.default], dtype=np.int64)
        # The new time may change the winner.
        for _ in range(2):
            if self.is_simulated[self.winner]:
                n_missing = int((~self.is_simulated[default]).sum())
                self.n_allowed = max(self.n_allowed, self.n_simulated + n_missing)
                self.simulate(default)
            elif self.is_coarse[self.winner]:
                self.sweep(default[~self.is_coarse[default]], self.coarsening or 1)

    def sweep(self, which: Indices, coarsening: int) -> None:
        """Simulate candidates once with coarse packets, as far as the budget allows."""
        which = which[: max(self.affordable(coarsening), 0)]
        if not which.size or coarsening == 1:
            return
        self.hops_left -= which.size * self.simulations.hops(coarsening)
        times = self.simulations(which, coarsening)
        self.posterior = self.simulations.observe_coarse(self.posterior, which, times, coarsening)
        self.is_coarse[which], self.coarsening = True, coarsening
        self.report("swept")

    def affordable(self, coarsening: int) -> int:
        """Return how many candidates can be simulated in the seconds that are left."""
        return int(min(self.hops_left / max(self.simulations.hops(coarsening), 1.0), 2**31))

    def report(self, event: str) -> None:
        """Record how far the decision has come."""
        if self.progress is not None:
            self.progress(self.n_simulated, self.n_allowed)
        if logger.isEnabledFor(logging.INFO):
            n, n_rivals, best = self.n_simulated, self.rivals().size, self.best_time
            found = {"event": event, "simulated": n, "best_time": best, "rivals": n_rivals}
            message = "%s: %d with real packets, the fastest takes %.6g s, %d may be faster"
            logger.info(message, event, n, best, n_rivals, extra=found)


def decide(decision: Decision) -> Decision:
    """Simulate until the goal is reached or the budget is spent."""
    if decision.n_allowed:
        if decision.goal == "fastest":
            _find_fastest(decision)
        else:
            _find_order(decision)
        decision.simulate_default()
    decision.report("decided" if decision.is_decided() else "budget spent")
    return decision


def _find_fastest(decision: Decision) -> None:
    likely = decision.likely_first()
    default = [] if decision.default is None else [decision.default]
    first = np.array([*dict.fromkeys([*likely[:1].tolist(), *default])])
    decision.n_allowed = max(decision.n_allowed, first.size)
    if first.size > decision.affordable(1):
        # The seconds do not suffice for the first with real packets.
        several = np.array([*dict.fromkeys([*first.tolist(), *likely.tolist()])])
        if decision.affordable(decision.simulations.levels[-1]) >= first.size:
            decision.sweep(several, decision.simulations.levels[-1])
        return
    decision.simulate(first)
    is_swept = False
    while not decision.is_decided():
        likely = decision.likely_rivals()[0]
        if not is_swept and not decision.is_proof_near():
            is_swept = True
            decision.sweep(likely, _sweep_coarsening(decision, likely.size))
        elif not decision.simulate(likely[:_BATCH]):
            break


def _sweep_coarsening(decision: Decision, n: int) -> int:
    """Return how many packets are one in the sweep of the rivals; 1 if a sweep does not pay."""
    hops, full = decision.simulations.hops, decision.simulations.hops()
    for level in decision.simulations.levels:
        if hops(level) <= _SWEEP_COST * full and n * hops(level) <= MAX_HOPS:
            return level
    return 1


def _find_order(decision: Decision) -> None:
    coarsening = _order_coarsening(decision)
    if coarsening is not None and coarsening > 1:
        decision.sweep(decision.likely_first(), coarsening)
    while not decision.is_decided():
        which, wrong = wrong_pairs(decision.posterior)
        which = which[np.argsort(-wrong.sum(axis=1), kind="stable")]
        which = which[~decision.is_simulated[which]]
        if not which.size or not decision.simulate(which[:_BATCH]):
            break


def _order_coarsening(decision: Decision) -> int | None:
    """Return the coarsest sweep that is expected to reach the RCC, or the finest affordable."""
    n, simulations = decision.posterior.n, decision.simulations
    levels = [m for m in simulations.levels if n * simulations.hops(m) <= decision.hops_left]
    every = np.arange(n)
    times = np.exp(decision.posterior.marginal()[0])
    for level in reversed([m for m in levels if m > 1]):
        after = simulations.observe_coarse(decision.posterior, every, times, level)
        if expected_rcc(after) >= decision.rcc:
            return level
    return levels[0] if levels else None
