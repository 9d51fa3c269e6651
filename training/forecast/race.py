"""Racing candidates: simulate those that decide which is fastest, and no others."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, stdtr

from toruscast.training.predictor.fitted import wins_of

from .posterior import Posterior

Floats = NDArray[np.float64]
logger = logging.getLogger(__name__)
Indices = NDArray[np.int64]
Kind = Literal["proved", "sure", "open"]

REGRET = 0.01
"""A candidate that takes so much longer than the fastest is as good as it."""
SURE = 0.95
"""Probability from which an answer counts as sure."""
# Most simulations for a proof; where it would take more, being sure is enough.
_PROOF = 10
_DRAWS = 4000
# Candidates whose times are drawn together.
_TOGETHER = 400


@dataclass(frozen=True)
class Budget:
    """Where a race ends although nothing is decided.

    Parameters
    ----------
    simulations : int
        Most candidates that are simulated.
    seconds : float, optional
        Most seconds that pass before the last simulation begins; no limit if not given.
    """

    simulations: int = 30
    seconds: float | None = None


@dataclass
class Race:
    """Simulated times so far, and the posterior of the others.

    Parameters
    ----------
    prior : Posterior
        What the model forecasts of the candidates.
    bounds : ndarray, shape (n,)
        Seconds below which no time of the candidate can fall; 0 where none is known.
    """

    prior: Posterior
    bounds: Floats
    seed: int = 0
    times: Floats = field(init=False)
    """Simulated times, seconds; NaN of those not simulated."""
    order: list[int] = field(init=False, default_factory=list)
    """Candidates in the order in which they were simulated."""
    posterior: Posterior = field(init=False)

    def __post_init__(self) -> None:
        self.times = np.full(self.bounds.size, np.nan)
        self.posterior = self.prior

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
        self.prior = prior
        seen = np.array(self.order, dtype=np.int64)
        self.posterior = prior.given(seen, np.log(self.times[seen]))

    def rivals(self) -> Indices:
        """Candidates not simulated whose bound leaves room below the best simulated time."""
        return np.flatnonzero(~self.is_simulated & (self.bounds < self.best_time))

    def certainty(self, share: float = REGRET) -> float:
        """Probability that no other takes less than ``1 / (1 + share)`` of the best time."""
        rivals = self.rivals()
        goal = self.best_time / (1 + share)
        rivals = rivals[self.bounds[rivals] < goal]
        if not self.order:
            return 0.0
        if not rivals.size:
            return 1.0
        chance = self._below(rivals, goal)
        likely = rivals[np.argsort(-chance, kind="stable")[:_TOGETHER]]
        rng = np.random.default_rng(self.seed)
        least = self.posterior.draws(likely, _DRAWS, rng).min(axis=1)
        rest = float(np.sort(chance)[: max(0, rivals.size - _TOGETHER)].sum())
        return max(0.0, float((least >= np.log(goal)).mean()) - rest)

    def probability_of_best(self) -> Floats:
        """Probability that each candidate is the fastest; those that tie share it."""
        shares = np.zeros(self.bounds.size)
        best = self.best_time
        candidates = self.rivals()
        if candidates.size > _TOGETHER:
            middle, _ = self.posterior.marginal(candidates)
            candidates = candidates[np.argsort(middle, kind="stable")[:_TOGETHER]]
        known = np.flatnonzero(self.times == best)
        if not candidates.size:
            shares[known] = 1 / known.size
            return shares
        rng = np.random.default_rng(self.seed)
        drawn = np.exp(self.posterior.draws(candidates, _DRAWS, rng))
        drawn = np.maximum(drawn, self.bounds[candidates])
        least = drawn.min(axis=1)
        wins = least < best
        shares[candidates] = wins_of(drawn[wins]) / _DRAWS
        if known.size:
            shares[known] = (1 - wins.mean()) / known.size
        return shares

    def next(self, n: int) -> Indices:
        """Return the ``n`` candidates to simulate next: those likeliest to be the fastest."""
        rivals = self.rivals()
        middle, _ = self.posterior.marginal(rivals)
        if not self.order:
            rank = np.argsort(np.maximum(middle, np.log(_positive(self.bounds[rivals]))))
        else:
            chance = self._below(rivals, self.best_time)
            # Where chances are equal, as where none is left, the lower bound decides.
            rank = np.lexsort((self.bounds[rivals], -chance))
        return rivals[rank[:n]]

    def verdict(self) -> tuple[Kind, float]:
        """Return whether the best simulated is proved or sure to be fastest, and how sure."""
        if self.order and not self.rivals().size:
            return "proved", 1.0
        certainty = self.certainty()
        return ("sure" if certainty >= SURE else "open"), certainty

    def is_decided(self) -> bool:
        """Whether further simulations are not worth their cost."""
        if not self.order:
            return False
        n_rivals = self.rivals().size
        if not n_rivals:
            return True
        if len(self.order) + n_rivals <= _PROOF:
            return False
        return self.certainty() >= SURE

    def _below(self, which: Indices, seconds: float) -> Floats:
        """Probability that each takes less than so many seconds."""
        middle, scale = self.posterior.marginal(which)
        score = (np.log(seconds) - middle) / np.maximum(scale, 1e-12)
        nu = self.posterior.freedom
        chance = ndtr(score) if np.isinf(nu) else stdtr(nu, score)
        return np.where(self.bounds[which] < seconds, chance, 0.0)


def _positive(values: Floats) -> Floats:
    return np.maximum(values, 1e-300)


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
    most = min(budget.simulations, race.bounds.size)
    tell = progress or (lambda done, total: None)
    tell(len(race.order), most)
    why = "it is decided"
    while not race.is_decided():
        if len(race.order) >= most:
            why = f"{most} simulations were allowed"
            break
        if budget.seconds is not None and time.monotonic() - began >= budget.seconds:
            why = f"{budget.seconds:g} s were allowed"
            break
        chosen = race.next(min(batch, most - len(race.order)))
        race.observe(chosen, simulate(chosen))
        _note(race, "race", f"at most {most} simulations")
        tell(len(race.order), most)
    _note(race, "race ended", why)


def _note(race: Race, event: str, more: str) -> None:
    """Record how far a race has come."""
    if not logger.isEnabledFor(logging.INFO):
        return
    n_done, n_rivals, least = len(race.order), race.rivals().size, race.best_time
    logger.info(
        "%s: %d simulated, the fastest takes %.6g s, %d others may be faster; %s",
        event,
        n_done,
        least,
        n_rivals,
        more,
        extra={
            "event": event,
            "simulated": n_done,
            "best_time": least,
            "rivals": n_rivals,
            "why": more,
        },
    )
