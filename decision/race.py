"""Races of candidates by simulations, with real packets and longer ones."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
import scipy
from numpy.typing import NDArray

from toruscast.errors import InputError
from toruscast.features import RoutedTraffic
from toruscast.mapping import CommGraph, TaskMapping, Torus, Workload, as_workload
from toruscast.routing import Routing, dilations
from toruscast.routing.messages import mean_message, packet_counts
from toruscast.simulation.state import LARGEST_PACKET
from toruscast.training.residuals import reach_of_corrections
from toruscast.validation import real_number
from toruscast.workers import Task

from .posterior import DRAWS, TOGETHER, Kernel, Outcomes, Posterior, expected_rcc, wrong_pairs

Floats = NDArray[np.float64]
logger = logging.getLogger(__name__)
Indices = NDArray[np.int64]
Goal = Literal["fastest", "order"]

REGRET = 0.01
"""A candidate that takes so much longer than the fastest is as good as it."""
SURE = 0.95
"""Probability from which an answer counts as sure."""
TOLD_AFTER = 16
"""Candidates that are simulated before the progress is told."""
_PROOF = 10
# Seconds within which an order is found, if none are given.
_ORDER_SECONDS = 30.0
# Simulations by which the fastest is found, if no number is given.
_SIMULATIONS = 30


@dataclass(frozen=True)
class Budget:
    """Where a race ends although nothing is decided.

    Parameters
    ----------
    simulations : int, optional
        Most candidates that are simulated with real packets. If not given, 30 to find the fastest,
        and all to find the order.
    seconds : float, optional
        Most seconds that pass before the last simulation begins. If not given, there is no limit to
        find the fastest, and 30 to find the order.
    rcc : float
        Share of pairs that are expected in the right order from which on the order is found.
    """

    simulations: int | None = None
    seconds: float | None = None
    rcc: float = 0.97

    def __post_init__(self) -> None:
        real_number(self.rcc, "RCC", 0.5, 1.0)

    def limits(self, goal: Goal, n: int) -> tuple[int, float]:
        """Return the most simulations of ``n`` candidates, and the most seconds."""
        if goal not in get_args(Goal):
            raise InputError("unknown goal", found=goal, expected=" or ".join(get_args(Goal)))
        usual, last = (_SIMULATIONS, np.inf) if goal == "fastest" else (n, _ORDER_SECONDS)
        most = usual if self.simulations is None else self.simulations
        return min(most, n), last if self.seconds is None else self.seconds


@dataclass
class Race:
    """Simulated times so far, and the posterior of the others."""

    prior: Posterior
    # Seconds below which no time can fall; 0 where none is known.
    bounds: Floats
    seed: int = 0
    rcc: float | None = None
    """Expected share of pairs in the right order that decides; None if the fastest is wanted."""
    proof: int = _PROOF
    """Most simulations for a proof; where it would take more, being sure is enough."""
    times: Floats = field(init=False)
    """Simulated times, seconds; NaN of those not simulated."""
    order: list[int] = field(init=False, default_factory=list)
    """Candidates in the order in which they were simulated."""
    posterior: Posterior = field(init=False)
    is_informed: bool = field(init=False, default=False)
    """Whether a simulation, of whatever packets, stands behind the posterior."""

    def __post_init__(self) -> None:
        self.times = np.full(self.bounds.size, np.nan)
        self.posterior = self.prior
        self._least = np.log(np.maximum(self.bounds, 1e-300))

    @property
    def goal(self) -> Goal:
        """What decides."""
        return "fastest" if self.rcc is None else "order"

    @property
    def is_simulated(self) -> NDArray[np.bool_]:
        """Which candidates were simulated."""
        return ~np.isnan(self.times)

    @property
    def best_time(self) -> float:
        """Least simulated time, seconds; infinite before the first."""
        return float(np.nanmin(self.times)) if self.order else np.inf

    def observe(self, which: Indices, times: Floats) -> None:
        """Take in simulated times."""
        self.times[which] = times
        self.order += [int(i) for i in which]
        self.set_prior(self.prior)

    def set_prior(self, prior: Posterior) -> None:
        """Take another forecast of all candidates; what was simulated corrects it as well."""
        self.prior, self.is_informed = prior, True
        seen = np.array(self.order, dtype=np.int64)
        self.posterior = prior.given(seen, np.log(self.times[seen]))

    def rivals(self) -> Indices:
        """Candidates not simulated whose bound leaves room below the best simulated time."""
        return np.flatnonzero(~self.is_simulated & (self.bounds < self.best_time))

    def outcomes(self) -> Outcomes:
        """Draw possible times of the rivals, and of the best beside them."""
        rivals = self.rivals()
        chance = self._below(rivals, self.best_time)
        rivals = rivals[np.argsort(-chance, kind="stable")[:TOGETHER]]
        known = np.flatnonzero(self.times == self.best_time)
        logs = np.full((DRAWS, known.size + rivals.size), np.log(self.best_time))
        if rivals.size:
            drawn = self.posterior.draws(rivals, DRAWS, np.random.default_rng(self.seed))
            logs[:, known.size :] = np.maximum(drawn, self._least[rivals])
        return Outcomes(np.concatenate([known, rivals]), logs)

    def certainty(self, share: float = REGRET) -> float:
        """Probability that no other takes less than ``1 / (1 + share)`` of the best time."""
        if not self.order:
            return 0.0
        goal = self.best_time / (1 + share)
        rest = np.sort(self._below(self.rivals(), goal))[::-1][TOGETHER:]
        drawn = self.outcomes()
        return max(0.0, drawn.certainty(int(drawn.which[0]), share) - float(rest.sum()))

    def next(self, n: int) -> Indices:
        """Return the ``n`` candidates to simulate next.

        They are those likeliest to be the fastest; or those of whose pairs most are expected in the
        wrong order.
        """
        if self.rcc is not None:
            which, wrong = wrong_pairs(self.posterior)
            rank = np.argsort(-wrong.sum(axis=1), kind="stable")
            return which[rank][~self.is_simulated[which[rank]]][:n]
        rivals = self.rivals()
        middle, _ = self.posterior.marginal(rivals)
        if not self.order:
            rank = np.argsort(np.maximum(middle, self._least[rivals]))
        else:
            chance = self._below(rivals, self.best_time)
            # Where chances are equal, as where none is left, the lower bound decides.
            rank = np.lexsort((self.bounds[rivals], -chance))
        return rivals[rank[:n]]

    def verdict(self) -> tuple[Literal["proved", "sure", "open"], float]:
        """Return whether the best simulated is proved or sure to be fastest, and how sure."""
        if self.order and not self.rivals().size:
            return "proved", 1.0
        certainty = self.certainty()
        return ("sure" if certainty >= SURE else "open"), certainty

    def is_decided(self) -> bool:
        """Whether further simulations are not worth their cost."""
        if self.rcc is not None:
            return expected_rcc(self.posterior) >= self.rcc or bool(self.is_simulated.all())
        if not self.order:
            return False
        n_rivals = self.rivals().size
        if not n_rivals:
            return True
        if len(self.order) + n_rivals <= self.proof:
            return False
        return self.certainty() >= SURE

    def _below(self, which: Indices, seconds: float) -> Floats:
        """Probability that each takes less than so many seconds."""
        middle, scale = self.posterior.marginal(which)
        score = (np.log(seconds) - middle) / np.maximum(scale, 1e-12)
        nu = self.posterior.freedom
        chance = scipy.special.stdtr(nu, score)
        return np.where(self.bounds[which] < seconds, chance, 0.0)


def run(
    race: Race,
    simulate: Callable[[Indices], Floats],
    budget: Budget,
    *,
    batch: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Simulate until the race is decided or the budget is spent."""
    began = time.monotonic()
    most, seconds = budget.limits(race.goal, race.bounds.size)
    tell = progress or (lambda done, total: None)
    tell(len(race.order), most)
    why = "it is decided"
    while not race.is_decided():
        if len(race.order) >= most:
            why = f"{most} simulations were allowed"
            break
        if time.monotonic() - began >= seconds:
            why = f"{seconds:g} s were allowed"
            break
        chosen = race.next(min(batch, most - len(race.order)))
        if not chosen.size:
            break
        race.observe(chosen, simulate(chosen))
        _note(race, "race", f"at most {most} simulations")
        tell(len(race.order), most)
    _note(race, "race ended", why)


def run_all(
    race: Race,
    simulate: Callable[..., Floats],
    progress: Callable[[int, int], None] | None = None,
    seconds: float = np.inf,
) -> None:
    """Simulate the candidates that were not, some at a time, until so many seconds have passed."""
    began = time.monotonic()
    left = np.flatnonzero(~race.is_simulated)
    for part in np.array_split(left, max(1, left.size // TOLD_AFTER)):
        times = simulate(part, seconds=seconds - (time.monotonic() - began))
        done = np.isfinite(times)
        race.observe(part[done], times[done])
        if progress is not None:
            progress(len(race.order), race.times.size)
        if not done.all():
            break


def _note(race: Race, event: str, more: str) -> None:
    """Record how far a race has come."""
    if not logger.isEnabledFor(logging.INFO):
        return
    n_done, n_rivals, least = len(race.order), race.rivals().size, race.best_time
    words = "%s: %d simulated, the fastest takes %.6g s, %d others may be faster; %s"
    told = {"event": event, "simulated": n_done, "best_time": least, "rivals": n_rivals}
    logger.info(words, event, n_done, least, n_rivals, more, extra={**told, "why": more})


# How far times are off with so many packets in one, where messages wait for each other, in
# logarithms; where nobody waits, the packets' length hardly matters. Root mean squares of the
# default model's samples (`benchmarks/posterior.py`), which these times order with an RCC of .99 to
# .95.
_OFF = {2: 0.023, 4: 0.046, 8: 0.059, 16: 0.072}
# A message that keeps n packets is off by .25 over the root of n at most (`python -m studies run
# unseen`). Where it keeps one, the release bound still orders better by this share.
_BY_LENGTH, _OF_BOUND = 0.25, 0.3
_ALIKE = Kernel(common=0.25, smooth=0.2, own=0.55)

HOPS_A_SECOND = 5e6
"""Packet-hops that a core simulates in a second, at least."""
MOST_HOPS = 100e6
"""Packet-hops that a proof, or the order of all candidates, may take: ten seconds of a core."""
# Mappings whose packet-hops are counted.
_LOOKED_AT = 5


class Simulate:
    """Simulated times of some candidates.

    With a ``coarsening``, so many real packets are one in the simulation.
    """

    def __init__(
        self,
        workload: Workload,
        torus: Torus,
        mappings: Sequence[TaskMapping],
        routing: Routing,
        n_jobs: int,
    ) -> None:
        self.workload, self.torus, self.mappings = workload, torus, mappings
        self.routing, self.n_jobs = routing, n_jobs
        self._time = Task(_time, workload, torus, routing)
        self.spent: dict[str, float] = {}
        """Seconds of all calls, with longer packets (``coarse``) and with real ones (``full``)."""

    def __call__(
        self, which: NDArray[np.int64], coarsening: int | None = None, seconds: float = np.inf
    ) -> Floats:
        """Return the times of these candidates, seconds; NaN of those not begun in time."""
        began = time.monotonic()
        items = [(self.mappings[i], coarsening) for i in which]
        found = np.full(len(items), np.nan)
        at_once = len(items) if np.isinf(seconds) else self.n_jobs
        for first in range(0, len(items), max(1, at_once)):
            if time.monotonic() - began >= seconds:
                break
            some = items[first : first + at_once]
            found[first : first + at_once] = self._time.in_order(some, self.n_jobs)
        source = "full" if coarsening is None else "coarse"
        self.spent[source] = self.spent.get(source, 0.0) + time.monotonic() - began
        return found


def _time(
    workload: Workload, torus: Torus, routing: Routing, item: tuple[TaskMapping, int | None]
) -> float:
    mapping, coarsening = item
    return RoutedTraffic(workload, torus, mapping, routing, coarsening).simulation.time


def mean_hops(
    traffic: Workload | CommGraph,
    torus: Torus,
    mappings: Sequence[TaskMapping],
    coarsening: int = 1,
) -> float:
    """Return the packet-hops of a mapping, the mean of some."""
    phases = as_workload(traffic).unrolled
    packets, _ = packet_counts(phases.comm, torus, coarsening)
    some = mappings[:: max(1, len(mappings) // _LOOKED_AT)]
    hops = [packets @ dilations(phases.comm, torus, phases.placed(each)) for each in some]
    return float(np.mean(hops))


def simulation_minutes(
    traffic: Workload | CommGraph, torus: Torus, mappings: Sequence[TaskMapping], n: int
) -> float:
    """Return about how many processor minutes ``n`` simulations take at most."""
    return n * mean_hops(traffic, torus, mappings) / HOPS_A_SECOND / 60


def affordable(
    workload: Workload,
    torus: Torus,
    mappings: Sequence[TaskMapping],
    seconds: float = np.inf,
    times: float = 1.0,
    *,
    goal: Goal = "fastest",
) -> list[int]:
    """Return how many packets may be one so that simulating all candidates takes seconds.

    The least first; 1 means real packets. None is there if it takes longer anyhow, or than these
    ``seconds`` of a core; the order may take all of them. Each candidate is simulated so many
    ``times``.
    """
    most_hops = HOPS_A_SECOND * seconds
    if goal == "fastest":
        most_hops = min(most_hops, MOST_HOPS)
    network = torus.network
    most = min(mean_message(workload, torus), LARGEST_PACKET / (network.payload + network.header))
    merged = [2**k for k in range(int(max(most, *_OFF)).bit_length())]
    costs = (times * len(mappings) * mean_hops(workload, torus, mappings, m) for m in merged)
    least = next((m for m, cost in zip(merged, costs, strict=True) if cost <= most_hops), np.inf)
    return [m for m in merged if m >= least]


def error_of(merged: int, packets: float) -> float:
    """Return how far times of messages of so many packets are off, where they wait."""
    by_length = _BY_LENGTH * math.sqrt(merged / packets)
    return min(_OFF.get(merged, by_length), by_length)


def sketched(
    times: Floats,
    merged: int,
    packets: float,
    lower_bounds: Floats,
    release_bounds: Floats,
    features: Floats,
) -> Posterior:
    """Return what times with so many packets in one say of those with real ones.

    Messages have so many ``packets``. The fewer they keep, the more the order is that of the
    ``release_bounds``.
    """
    width = error_of(merged, packets) * reach_of_corrections(times, lower_bounds)
    logs = np.log(times)
    apart = np.log(release_bounds) - logs
    share = _OF_BOUND * min(1.0, merged / packets)
    return Posterior(logs + share * (apart - apart.mean()), width, features, _ALIKE)
