"""Mappings compared by what is minimised: one by one, or in a race."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from toruscast.decision.forecasts import forecast
from toruscast.decision.loop import Budget
from toruscast.decision.results import Verdict
from toruscast.errors import InputError
from toruscast.features import FEATURES, RoutedTraffic
from toruscast.mapping import MappingProblem, TaskMapping, Torus, Workload
from toruscast.routing.loads import check_ways
from toruscast.routing.messages import longest_message
from toruscast.simulation.simulator import attempts, simulate_packets
from toruscast.validation import Routing

from .annealing import Clock

logger = logging.getLogger(__name__)
TIME = "time"
# Error of the times that count in the end.
_ERROR = 0.01
# Mappings that race, and winners that are simulated anew.
_LEAST, _MOST, _WINNERS = 8, 150, 3
# Of these, the winners that are simulated although no time is left: a forecast may be wrong.
_AT_LEAST = 2
# What features and sketch of a mapping take, in times of its simulation.
_SKETCH = 0.1
# How much longer all messages at once may take than under the first mapping.
_LONGER = 0.01


class Contest:
    """Mappings compared by the objective; the best is always there."""

    def __init__(
        self,
        workload: Workload,
        torus: Torus,
        objective: str,
        routing: Routing,
        seed: int,
        n_jobs: int,
        better: Callable[[TaskMapping, float], None] | None,
    ) -> None:
        self.workload, self.torus, self.objective = workload, torus, objective
        self.problem = MappingProblem(workload, torus, routing)
        self.routing, self.better = routing, better
        self.seed, self.n_jobs = seed, n_jobs
        self.known: dict[bytes, tuple[float, float]] = {}
        self.rows: dict[bytes, dict[str, object]] = {}
        self.best: TaskMapping | None = None
        self.least = np.inf
        self.verdict: Verdict | None = None
        self.seconds = 0.0
        """What the last comparison took."""
        self.delay = 1.0
        """Seconds of the wall that it took for each of them."""
        self.began = time.monotonic()
        self.history: list[tuple[float, float]] = []
        self._first: tuple[float, float] | None = None

    def value(self, mapping: TaskMapping, origin: str) -> float:
        """Return a mapping's objective, and keep the best."""
        key = mapping.node.tobytes()
        if key not in self.known:
            clock = Clock()
            value, error = self._measured(mapping)
            self.seconds, self.delay = clock.spent, clock.delay
            self._keep(mapping, origin, value, error)
        return self.known[key][0]

    def _keep(self, mapping: TaskMapping, origin: str, value: float, error: float) -> None:
        key = mapping.node.tobytes()
        self.known[key] = value, error
        how = "simulated" if self.objective == TIME else "computed"
        row = {"mapping": mapping.name, "value": value, "how": how, "from": origin}
        self.rows[key] = {**self.rows.get(key, {}), **row}
        if value < self.least:
            self.best, self.least = mapping, value
            self.history.append((time.monotonic() - self.began, value))
            best = {"event": "better mapping", "mapping": mapping.name, "value": value}
            words = "%s is the best so far: %s %.6g"
            logger.info(words, mapping.name, self.objective, value, extra=best)
            if self.better is not None:
                self.better(mapping, value)

    def knows(self, mapping: TaskMapping) -> bool:
        """Whether the objective of a mapping is known."""
        return mapping.node.tobytes() in self.known

    def interval(self, mapping: TaskMapping) -> tuple[float, float, float]:
        """Return the objective of a mapping, and between what it lies."""
        value, error = self.known[mapping.node.tobytes()]
        return value, value * (1 - error), value * (1 + error)

    def decide(self, shortlist: Sequence[TaskMapping], clock: Clock) -> None:
        """Find the best of a shortlist, the most promising first, until the clock is over."""
        if self.objective != TIME:
            for mapping in shortlist:
                if clock.is_over():
                    return
                self.value(mapping, _origin(mapping))
            return
        left = max(clock.left, 0.0)
        each = max(self.seconds * _SKETCH / self.n_jobs, 1e-4)
        if self.torus.holes.links:
            shortlist = [mapping for mapping in shortlist if self._is_possible(mapping)]
        number = int(np.clip(left / each / 2, _LEAST, _MOST))
        raced = _unlike_named([*shortlist[:number], *([self.best] if self.best else [])])
        with warnings.catch_warnings():
            # The race simulates what its model is unsure of.
            warnings.simplefilter("ignore")
            seconds = 0.8 * left * self.delay if np.isfinite(left) else None
            budget = Budget(len(raced), seconds)
            answer = forecast(
                self.workload,
                self.torus,
                raced,
                budget=budget,
                routing=self.routing,
                seed=self.seed,
                n_jobs=self.n_jobs,
            )
        self.verdict = answer.verdict
        for row in answer.table.itertuples():
            mapping = answer.named(str(row.mapping))
            described = {
                "mapping": mapping.name,
                "value": row.time,
                "how": row.how,
                "from": _origin(mapping),
                "low": row.low,
                "high": row.high,
                "p_best": row.p_best,
            }
            key = mapping.node.tobytes()
            self.rows[key] = {**described, **self.rows.get(key, {})}
        # Times of real packets are those that the race has; then nothing is simulated anew.
        packets = longest_message(self.problem)
        is_exact = attempts(packets) == [1] and self.torus.network.rules == "given"
        winners = 0
        for number, name in enumerate(answer.table["mapping"]):
            if winners == _WINNERS or (number >= _AT_LEAST and clock.is_over()):
                break
            mapping = answer.named(name)
            if is_exact and answer.table["how"][number] == "simulated" and not self.knows(mapping):
                self._keep(mapping, _origin(mapping), float(answer.table["time"][number]), 0.0)
            value = self.value(mapping, _origin(mapping))
            winners += self._first is None or value <= self._first[0]

    def table(self) -> pd.DataFrame:
        """Return what was compared, the best first."""
        table = pd.DataFrame(list(self.rows.values()))
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
        if not self._is_possible(mapping):
            return np.inf, 0.0
        if self.objective == TIME:
            found = simulate_packets(self.problem, mapping, error=_ERROR)
            return self._if_apart(found.time, mapping), 0.0 if found.coarsening == 1 else _ERROR
        routed = RoutedTraffic(self.problem, mapping)
        return float(FEATURES[self.objective].function(routed)), 0.0

    def _if_apart(self, time: float, mapping: TaskMapping) -> float:
        """Return the time of a mapping, or more where it needs that ranks stay in step."""
        rounds = self.workload
        if self.torus.network.rules == "given" or not rounds.dependent or len(rounds) == 1:
            return time
        whole = simulate_packets(self.problem.total, mapping, error=_ERROR).time
        if self._first is None:
            self._first = time, whole
        longer = whole / self._first[1]
        return max(time, longer * self._first[0]) if longer > 1 + _LONGER else time


def _origin(mapping: TaskMapping) -> str:
    return "searched" if mapping.name.startswith("search") else "strategy"


def _unlike_named(mappings: Sequence[TaskMapping]) -> list[TaskMapping]:
    """The same mappings, each once, under different names."""
    named: dict[str, TaskMapping] = {}
    for mapping in {m.node.tobytes(): m for m in mappings}.values():
        name, copy = mapping.name or "mapping", 1
        while name in named:
            copy += 1
            name = f"{mapping.name or 'mapping'}@{copy}"
        named[name] = mapping if name == mapping.name else mapping.renamed(name)
    return list(named.values())
