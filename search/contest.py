"""Mappings compared by what is minimised: one by one, or in a race."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from toruscast.decision.forecasts import forecast
from toruscast.decision.loop import Budget
from toruscast.decision.results import Forecast, Verdict
from toruscast.errors import InputError
from toruscast.features import FEATURES, RoutedTraffic
from toruscast.mapping import MappingProblem, TaskMapping
from toruscast.routing.loads import check_ways
from toruscast.routing.messages import longest_message
from toruscast.simulation.simulator import attempts, simulate_packets

from .annealing import Clock

logger = logging.getLogger(__name__)
TIME = "time"
# Error of the times that count in the end.
_ERROR = 0.01
# Mappings that race, and winners that are simulated anew.
_MIN_RACED, _MAX_RACED, _WINNERS = 8, 150, 3
# Of these, the winners that are simulated although no time is left: a forecast may be wrong.
_MIN_MEASURED = 2
# Seconds for the features and the coarse simulation of a mapping, as a share of a simulation.
_COARSE = 0.1
# How much longer all messages at once may take than under the first mapping.
_LONGER = 0.01


@dataclass(frozen=True)
class ComparedMapping:
    """A mapping and its objective, measured or from the race."""

    mapping: TaskMapping
    value: float
    source: str  # simulated, forecast or computed
    origin: str = ""
    # Relative error of a measured objective; None for those of the race.
    error: float | None = None
    when: float = np.inf  # seconds from the begin of the search until it was measured
    low: float = np.nan
    high: float = np.nan
    p_best: float = np.nan

    @property
    def interval(self) -> tuple[float, float, float]:
        """The objective, and its bounds by the error."""
        error = self.error or 0.0
        return self.value, self.value * (1 - error), self.value * (1 + error)


class Contest:
    """Mappings compared by the objective."""

    def __init__(
        self,
        problem: MappingProblem,
        objective: str,
        seed: int,
        n_jobs: int,
        better: Callable[[TaskMapping, float], None] | None,
    ) -> None:
        self.problem, self.objective = problem, objective
        self.seed, self.n_jobs, self.better = seed, n_jobs, better
        self.rows: dict[bytes, ComparedMapping] = {}
        self.verdict: Verdict | None = None
        self.seconds = 0.0
        """Seconds of the last measurement."""
        self.delay = 1.0
        """Seconds of the wall that passed for each of them."""
        self.began = time.monotonic()
        self._first: tuple[float, float] | None = None

    @property
    def improvements(self) -> list[ComparedMapping]:
        """The measured mappings that were better than all before; the last is the best."""
        found: list[ComparedMapping] = []
        for row in self.rows.values():
            if row.error is not None and row.value < (found[-1].value if found else np.inf):
                found.append(row)
        return found

    @property
    def best(self) -> ComparedMapping | None:
        """The best of those measured; None where no mapping is possible."""
        return next(iter(self.improvements[-1:]), None)

    def known(self, mapping: TaskMapping) -> ComparedMapping | None:
        """Return the row of a mapping that was measured."""
        row = self.rows.get(mapping.node.tobytes())
        return None if row is None or row.error is None else row

    def measure(self, mapping: TaskMapping, origin: str) -> ComparedMapping:
        """Return a mapping with its objective, measured once."""
        row = self.known(mapping)
        if row is None:
            clock = Clock()
            value, error = self._measured(mapping)
            self.seconds, self.delay = clock.spent, clock.delay
            row = self._keep(mapping, origin, value, error)
        return row

    def _keep(
        self, mapping: TaskMapping, origin: str, value: float, error: float
    ) -> ComparedMapping:
        source = "simulated" if self.objective == TIME else "computed"
        raced = self.rows.get(mapping.node.tobytes()) or ComparedMapping(mapping, value, source)
        self.rows[mapping.node.tobytes()] = row = replace(
            raced,
            mapping=mapping,
            value=value,
            source=source,
            origin=origin,
            error=error,
            when=time.monotonic() - self.began,
        )
        if row is self.best:
            report = {"event": "better mapping", "mapping": mapping.name, "value": value}
            words = "%s is the best so far: %s %.6g"
            logger.info(words, mapping.name, self.objective, value, extra=report)
            if self.better is not None:
                self.better(mapping, value)
        return row

    def decide(self, shortlist: Sequence[TaskMapping], clock: Clock) -> None:
        """Find the best of a shortlist, the most promising first, until the clock is over."""
        if self.objective != TIME:
            for mapping in shortlist:
                if clock.is_over():
                    return
                self.measure(mapping, _origin(mapping))
            return
        left = max(clock.left, 0.0)
        each = max(self.seconds * _COARSE / self.n_jobs, 1e-4)
        if self.problem.torus.holes.links:
            shortlist = list(filter(self._is_possible, shortlist))
        number = int(np.clip(left / each / 2, _MIN_RACED, _MAX_RACED))
        best = [self.best.mapping] if self.best else []
        answer = self._race(_uniquely_named([*shortlist[:number], *best]), left)
        self.verdict = answer.verdict
        for row in answer.table.to_dict("records"):
            mapping = answer.named(row["mapping"])
            key = mapping.node.tobytes()
            kept = self.rows.get(key)
            kept = kept or ComparedMapping(mapping, row["time"], row["how"], _origin(mapping))
            raced = {name: row[name] for name in ("low", "high", "p_best")}
            self.rows[key] = replace(kept, **raced)
        self._measure_winners(answer, clock)

    def _race(self, mappings: Sequence[TaskMapping], left: float) -> Forecast:
        """Let mappings race each other within most of the time that is left."""
        seconds = 0.8 * left * self.delay if np.isfinite(left) else None
        with warnings.catch_warnings():
            # The race simulates what its model is unsure of.
            warnings.simplefilter("ignore")
            return forecast(
                self.problem.workload,
                self.problem.torus,
                mappings,
                budget=Budget(len(mappings), seconds),
                routing=self.problem.routing,
                seed=self.seed,
                n_jobs=self.n_jobs,
            )

    def _measure_winners(self, answer: Forecast, clock: Clock) -> None:
        """Simulate the winners of a race anew; times of real packets are reused."""
        is_exact = attempts(self.problem.derive(longest_message)) == [1]
        is_exact &= self.problem.torus.network.rules == "given"
        winners = 0
        for number, row in enumerate(answer.table.to_dict("records")):
            if winners == _WINNERS or (number >= _MIN_MEASURED and clock.is_over()):
                break
            mapping = answer.named(row["mapping"])
            if is_exact and row["how"] == "simulated" and not self.known(mapping):
                self._keep(mapping, _origin(mapping), row["time"], 0.0)
            value = self.measure(mapping, _origin(mapping)).value
            winners += self._first is None or value <= self._first[0]

    def table(self) -> pd.DataFrame:
        """Return what was compared, the best first."""
        rows = [
            {
                "mapping": row.mapping.name,
                "value": row.value,
                "how": row.source,
                "from": row.origin,
                "low": row.low,
                "high": row.high,
                "p_best": row.p_best,
            }
            for row in self.rows.values()
        ]
        # Columns of the race are there only after one.
        table = pd.DataFrame(rows).dropna(axis="columns", how="all")
        is_known = ~table["how"].isin(["forecast", "sketched"])
        order = np.lexsort((table["value"], ~is_known))
        return table.iloc[order].reset_index(drop=True)

    def _is_possible(self, mapping: TaskMapping) -> bool:
        """Whether no message needs a link that is missing."""
        try:
            check_ways(self.problem, mapping)
        except InputError:
            return False
        return True

    def _measured(self, mapping: TaskMapping) -> tuple[float, float]:
        """The objective, and its relative error; infinite for what is not possible."""
        problem = self.problem
        if not self._is_possible(mapping):
            return np.inf, 0.0
        if self.objective == TIME:
            found = simulate_packets(problem, mapping, error=_ERROR)
            return self._if_apart(found.time, mapping), 0.0 if found.coarsening == 1 else _ERROR
        return float(FEATURES[self.objective].function(RoutedTraffic(problem, mapping))), 0.0

    def _if_apart(self, time: float, mapping: TaskMapping) -> float:
        """Return the time of a mapping, or more where it needs that ranks stay in step."""
        rounds = self.problem.workload
        is_given = self.problem.torus.network.rules == "given"
        if is_given or not rounds.dependent or len(rounds) == 1:
            return time
        whole = simulate_packets(self.problem.total, mapping, error=_ERROR).time
        if self._first is None:
            self._first = time, whole
        longer = whole / self._first[1]
        return max(time, longer * self._first[0]) if longer > 1 + _LONGER else time


def _origin(mapping: TaskMapping) -> str:
    return "searched" if mapping.name.startswith("search") else "strategy"


def _uniquely_named(mappings: Sequence[TaskMapping]) -> list[TaskMapping]:
    """Return the same mappings, each once, under different names."""
    named: dict[str, TaskMapping] = {}
    for mapping in {m.node.tobytes(): m for m in mappings}.values():
        name, copy = mapping.name or "mapping", 1
        while name in named:
            copy += 1
            name = f"{mapping.name or 'mapping'}@{copy}"
        named[name] = mapping if name == mapping.name else mapping.renamed(name)
    return list(named.values())
