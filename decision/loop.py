"""Which candidate to simulate next, and when to stop.

To find the fastest candidate:

1. With real packets, simulate the default order and the candidate with the best prediction.
2. If few rivals remain, simulate them all, which proves the answer.
3. Otherwise simulate all rivals once with coarse packets. Then use real packets for the rivals that
   are likeliest to be the fastest.
4. Stop when the best is proved or sure to be the fastest, or the budget is spent.

To find the order, simulate all candidates with coarse packets. Then use real packets for the
candidates whose pairs are likeliest to be in the wrong order.

The default order is always simulated in the same way as the winner, because answers compare the
two. Only a budget in seconds may prevent this. It is a budget per core, so more cores simulate
more.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from toruscast.typing import Floats
from toruscast.validation import one_of, real_number, whole_number

from .posterior import (
    FULL,
    Draws,
    Indices,
    Posterior,
    expected_rcc,
    misorder_probabilities,
    normal_cdf,
)
from .simulations import HOPS_PER_SECOND, MAX_HOPS, CandidateSimulator

Goal = Literal["fastest", "order"]
logger = logging.getLogger(__name__)

REGRET = 0.01
"""Relative difference in time below which two candidates count as equally fast."""
SURE = 0.95
"""Minimum probability of an answer that is *sure*."""
MAX_PROOF = 10
"""Maximum number of simulations for a proof; if it takes more, *sure* is enough."""
# Candidates simulated between two updates of the posterior. The number is constant, because the
# answer must not depend on the number of cores.
_BATCH = 2
# Maximum number of candidates in a coarse sweep, and maximum cost of a coarse simulation relative
# to a full one. A finer sweep would cost as much as the full simulations that it avoids.
_MAX_SWEPT, _SWEEP_COST = 200, 0.07
# Default budgets: seconds for finding the order, and simulations for finding the fastest.
_ORDER_SECONDS = 30.0
_MAX_SIMULATIONS = 30


@dataclass(frozen=True)
class Budget:
    """Limits of the simulations.

    Parameters
    ----------
    simulations : int, optional
        Maximum number of candidates simulated with real packets. Default: to find the fastest, 30
        divided by the number of plausible networks; to find the order, all.
    seconds : float, optional
        Maximum seconds of simulation per core; may be infinite. They are estimated from
        packet-hops, so the limit does not depend on how busy the machine is. Default: to find the
        fastest, no limit; to find the order, 30.
    rcc : float
        Expected RCC at which the search for the order stops.
    """

    simulations: int | None = None
    seconds: float | None = None
    rcc: float = 0.97

    def __post_init__(self) -> None:
        real_number(self.rcc, "RCC", 0.5, 1.0)
        if self.simulations is not None:
            whole_number(self.simulations, "simulations", 0)
        if self.seconds is not None and not (np.isscalar(self.seconds) and self.seconds == np.inf):
            real_number(self.seconds, "seconds", 0)

    def limits(self, goal: Goal, n: int, n_networks: int = 1) -> tuple[int, float]:
        """Return how many of ``n`` candidates may be simulated, and for how many seconds."""
        one_of(goal, "goal", get_args(Goal))
        default = (n, _ORDER_SECONDS)
        if goal == "fastest":
            default = (_MAX_SIMULATIONS // n_networks, np.inf)
        simulations = default[0] if self.simulations is None else self.simulations
        return min(simulations, n), default[1] if self.seconds is None else self.seconds


class Decision:
    """State of the simulation loop: times, posterior and remaining budget.

    If several networks are plausible, the times are geometric means over them, and an answer is
    proved if the best candidate is the fastest on each.

    Parameters
    ----------
    posterior : Posterior
        Posterior before any simulation.
    simulator : CandidateSimulator
        Simulator of the candidates.
    default : int, optional
        The candidate with the default order of tasks.
    progress : callable, optional
        Called with the number of simulated candidates and the maximum number.
    """

    def __init__(
        self,
        posterior: Posterior,
        simulator: CandidateSimulator,
        goal: Goal = "fastest",
        budget: Budget | None = None,
        *,
        default: int | None = None,
        progress: Callable[[int, int], object] | None = None,
    ) -> None:
        budget = Budget() if budget is None else budget
        self.posterior, self.simulator, self.goal = posterior, simulator, goal
        self.rcc, self.default, self.progress = budget.rcc, default, progress
        self.n_allowed, seconds = budget.limits(goal, posterior.n, len(simulator.networks))
        self.hops_left = seconds * simulator.n_jobs * HOPS_PER_SECOND
        self.times = np.full(posterior.n, np.nan)
        """Times simulated with real packets, seconds; NaN elsewhere."""
        self.is_coarse = np.zeros(posterior.n, dtype=bool)
        """Which candidates were simulated with coarse packets."""
        self.coarsening: int | None = None
        """Real packets in one coarse packet; None without a coarse simulation."""

    @property
    def is_simulated(self) -> NDArray[np.bool_]:
        """Which candidates were simulated with real packets."""
        return np.asarray(~np.isnan(self.times))

    @property
    def n_simulated(self) -> int:
        """Number of candidates simulated with real packets."""
        return int(self.is_simulated.sum())

    @property
    def best_time(self) -> float:
        """Minimum simulated time, seconds; infinite before the first simulation."""
        return float(np.nanmin(self.times)) if self.n_simulated else np.inf

    @property
    def fastest(self) -> int:
        """The fastest simulated candidate."""
        return int(np.nanargmin(self.times))

    @property
    def winner(self) -> int:
        """The fastest simulated candidate; for the order, the one with the best expected time."""
        if self.goal == "fastest" and self.n_simulated:
            return self.fastest
        return int(self.sort_by_time()[0])

    def rivals(self) -> Indices:
        """Return the candidates whose lower bound is below the best time on some network."""
        if not self.n_simulated:
            return np.arange(self.posterior.n)
        best_times = self.simulator.times[self.fastest]
        is_possible = (self.simulator.bounds < best_times).any(axis=1)
        return np.flatnonzero(~self.is_simulated & is_possible)

    def n_proved(self) -> int:
        """Return the number of networks on which the best candidate is proved to be the fastest."""
        if not self.n_simulated:
            return 0
        times, bounds = self.simulator.times, self.simulator.bounds
        min_times = np.where(self.is_simulated[:, None], times, bounds)
        return int((min_times >= times[self.fastest]).all(axis=0).sum())

    def draws(self) -> Draws:
        """Draw joint samples of the times of the best candidates and their likeliest rivals."""
        best = np.flatnonzero(self.times == self.best_time)
        return self.posterior.sample(np.concatenate([best, self.likely_rivals()[0]]))

    def certainty(self) -> float:
        """Return the probability that no candidate is faster than the best by over `REGRET`."""
        if not self.n_simulated:
            return 0.0
        if not self.rivals().size:
            return 1.0
        rivals, chances = self.likely_rivals(REGRET)
        loss = self.posterior.sample(np.concatenate([[self.fastest], rivals])).loss(self.fastest)
        # For the rivals without draws, add up their separate probabilities of being faster.
        chance_of_others = float(chances[rivals.size :].sum())
        return max(0.0, float((loss <= np.log1p(REGRET)).mean()) - chance_of_others)

    def verdict(self) -> tuple[Literal["proved", "sure", "undecided"], float]:
        """Return the kind of answer, and the probability that the best candidate is the fastest."""
        if self.n_simulated and self.n_proved() == len(self.simulator.networks):
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
        """Return whether all rivals can be simulated in a few simulations and a few seconds."""
        max_simulations = min(MAX_PROOF, MAX_HOPS / max(self.simulator.hops(), 1.0))
        return self.n_simulated + self.rivals().size <= max_simulations

    def sort_by_time(self) -> Indices:
        """Return all candidates in the order of their expected times."""
        mean, _ = self.posterior.marginal()
        bounds = np.log(np.maximum(self.posterior.bounds, 1e-300))
        return np.argsort(np.maximum(mean, bounds), kind="stable")

    def likely_rivals(self, share: float = 0.0) -> tuple[Indices, Floats]:
        """Return the likeliest rivals (at most 200), and the probabilities of all, largest first.

        A rival's probability is the chance that it beats the best simulated time by more than
        ``share``, a relative difference.
        """
        rivals, threshold = self.rivals(), self.best_time / (1 + share)
        mean, std = self.posterior.marginal(rivals)
        chances = normal_cdf((np.log(threshold) - mean) / np.maximum(std, 1e-12))
        chances = np.where(self.posterior.bounds[rivals] < threshold, chances, 0.0)
        # Break ties, such as between probabilities of 0, by the lower bound.
        order = np.lexsort((self.posterior.bounds[rivals], -chances))
        return rivals[order[:_MAX_SWEPT]], chances[order]

    def simulate(self, candidates: Indices) -> bool:
        """Simulate candidates with real packets within the budget; return whether any were."""
        candidates = candidates[~self.is_simulated[candidates]]
        n = min(candidates.size, self.n_allowed - self.n_simulated, self.max_affordable(1))
        candidates = candidates[: max(n, 0)]
        if not candidates.size:
            return False
        self.hops_left -= candidates.size * self.simulator.hops()
        self.times[candidates] = self.simulator.simulate(candidates)
        self.posterior = self.posterior.condition(candidates, FULL, self.times[candidates])
        self.report("observed")
        return True

    def simulate_default(self) -> None:
        """Simulate the default order in the same way as the winner."""
        default = np.array([] if self.default is None else [self.default], dtype=np.int64)
        # The new time may change the winner.
        for _ in range(2):
            if self.is_simulated[self.winner]:
                n_missing = int((~self.is_simulated[default]).sum())
                self.n_allowed = max(self.n_allowed, self.n_simulated + n_missing)
                self.simulate(default)
            elif self.is_coarse[self.winner]:
                self.simulate_coarse(default[~self.is_coarse[default]], self.coarsening or 1)

    def simulate_coarse(self, candidates: Indices, coarsening: int) -> None:
        """Simulate candidates with coarse packets within the budget."""
        candidates = candidates[: max(self.max_affordable(coarsening), 0)]
        if not candidates.size or coarsening == 1:
            return
        self.hops_left -= candidates.size * self.simulator.hops(coarsening)
        times = self.simulator.simulate(candidates, coarsening)
        self.posterior = self.simulator.condition_on_coarse(
            self.posterior, candidates, times, coarsening
        )
        self.is_coarse[candidates], self.coarsening = True, coarsening
        self.report("swept")

    def max_affordable(self, coarsening: int) -> int:
        """Return how many candidates can be simulated in the remaining seconds, at most 2^31."""
        return int(min(self.hops_left / max(self.simulator.hops(coarsening), 1.0), 2**31))

    def report(self, event: str) -> None:
        """Report the progress to the callback and the log."""
        if self.progress is not None:
            self.progress(self.n_simulated, self.n_allowed)
        if logger.isEnabledFor(logging.INFO):
            n, n_rivals, best = self.n_simulated, self.rivals().size, self.best_time
            fields = {"event": event, "simulated": n, "best_time": best, "rivals": n_rivals}
            message = "%s: %d simulated; the fastest takes %.6g s, and %d others may be faster"
            logger.info(message, event, n, best, n_rivals, extra=fields)


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
    """Simulate the best prediction and the default order, then the likeliest rivals.

    If there is not enough time for the first two, simulate as many candidates as possible with the
    coarsest packets.
    """
    by_time = decision.sort_by_time().tolist()
    default = [] if decision.default is None else [decision.default]
    first = np.array([*dict.fromkeys([*by_time[:1], *default])])
    decision.n_allowed = max(decision.n_allowed, first.size)
    if first.size > decision.max_affordable(1):
        coarsest = decision.simulator.levels[-1]
        if decision.max_affordable(coarsest) >= first.size:
            order = np.array([*dict.fromkeys([*first.tolist(), *by_time])])
            decision.simulate_coarse(order, coarsest)
        return
    decision.simulate(first)
    is_swept = False
    while not decision.is_decided():
        rivals = decision.likely_rivals()[0]
        if not is_swept and not decision.is_proof_near():
            is_swept = True
            decision.simulate_coarse(rivals, _choose_sweep_coarsening(decision, rivals.size))
        elif not decision.simulate(rivals[:_BATCH]):
            break


def _choose_sweep_coarsening(decision: Decision, n: int) -> int:
    """Return the finest affordable coarsening for a sweep of ``n`` rivals, or 1 for no sweep."""
    hops, full = decision.simulator.hops, decision.simulator.hops()
    for level in decision.simulator.levels:
        if hops(level) <= _SWEEP_COST * full and n * hops(level) <= MAX_HOPS:
            return level
    return 1


def _find_order(decision: Decision) -> None:
    """Simulate all candidates coarsely, then those in the most doubtful pairs with real packets."""
    decision.simulate_coarse(decision.sort_by_time(), _choose_order_coarsening(decision))
    while not decision.is_decided():
        candidates, wrong = misorder_probabilities(decision.posterior)
        candidates = candidates[np.argsort(-wrong.sum(axis=1), kind="stable")]
        candidates = candidates[~decision.is_simulated[candidates]]
        if not candidates.size or not decision.simulate(candidates[:_BATCH]):
            break


def _choose_order_coarsening(decision: Decision) -> int:
    """Return the coarsest level expected to reach the RCC, else the finest affordable, else 1."""
    n, simulator = decision.posterior.n, decision.simulator
    levels = [m for m in simulator.levels if n * simulator.hops(m) <= decision.hops_left]
    times = np.exp(decision.posterior.marginal()[0])
    for level in reversed([m for m in levels if m > 1]):
        posterior = simulator.condition_on_coarse(decision.posterior, np.arange(n), times, level)
        if expected_rcc(posterior) >= decision.rcc:
            return level
    return levels[0] if levels else 1
