"""The answer: which candidate is fastest, how sure that is, and what it cost to find out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from toruscast.errors import InputError
from toruscast.features import extract
from toruscast.features.reasons import Reasons, explain
from toruscast.mapping import CommGraph, TaskMapping, Torus, Workload, as_workload
from toruscast.mapping.task_mapping import as_mappings
from toruscast.routing import Routing
from toruscast.validation import job_count

from . import checks
from .belief import Belief, Kernel
from .evaluate import score_answer
from .feature_sets import SKETCHED
from .model_file import load_predictor
from .outlook import Outlook
from .predictor import TimePredictor
from .race import Budget, Kind, Race, run
from .simulated import Simulate, mean_hops

Floats = NDArray[np.float64]
SHOWN_FEATURES = ("lower_bound", "max_bytes", "hop_bytes", "avg_hops_per_byte", "max_FIFO")
BOUND, SURE_BOUND = "release_bound", "sure_bound"
# Where all candidates take no more, the decided race is completed: the table is exact then, and
# nobody waits longer than a few seconds.
_CHEAP_HOPS = 50e6
# Candidates less likely to be the fastest are told apart from it.
_TOLD_APART = 0.01


@dataclass(frozen=True)
class Verdict:
    """How far the answer can be trusted.

    Attributes
    ----------
    kind : {"proved", "sure", "open"}
        *proved*: the best simulated time is no longer than what every other candidate takes at
        least. *sure*: no other takes less by more than 1 %, with the probability of ``certainty``,
        95 % or more. *open*: neither, when the budget was spent.
    certainty : float
        Probability that no candidate takes less than the best by more than 1 %.
    rivals : tuple of str
        Candidates that may still be the fastest, likeliest first.
    """

    kind: Kind
    certainty: float
    rivals: tuple[str, ...]


class Cost(NamedTuple):
    """What an answer cost."""

    to_answer: int
    """Candidates simulated until it was decided."""
    simulated: int
    """Candidates simulated in all: cheap ones are simulated to the last, for their order."""
    candidates: int
    sketched: bool
    """Whether the model reads a sketch, a coarser simulation, of every candidate."""


@dataclass(frozen=True, eq=False)
class Forecast:
    """Which candidate is fastest; made by `forecast`.

    Attributes
    ----------
    table : DataFrame
        A row per candidate, best first: ``rank, mapping, time, low, high`` (seconds), ``p_best``
        (probability of being the fastest), ``how`` (``simulated`` or ``forecast``), the lower bound
        and the main metrics; with ``check`` also ``observed_time``, the simulated one.
    verdict : Verdict
    cost : Cost
    scores : dict of str to float
        Quality of the forecast where all candidates were simulated to check it, else empty.
    """

    workload: Workload
    torus: Torus
    mappings: tuple[TaskMapping, ...]
    routing: Routing
    model: TimePredictor
    coverage: float
    table: pd.DataFrame
    verdict: Verdict
    cost: Cost
    scores: dict[str, float]

    @property
    def best(self) -> TaskMapping:
        """The mapping in the first row."""
        return self.named(self.table["mapping"].iloc[0])

    def named(self, name: str) -> TaskMapping:
        """Return the candidate of a name in the table."""
        names = names_of(self.mappings)
        if name not in names:
            raise InputError("no such candidate", found=name, expected=", ".join(names[:3]))
        return self.mappings[names.index(name)]

    def reasons(self, mapping: str | None = None) -> Reasons:
        """Return what limits a candidate and its busiest links; the best if none is named."""
        chosen = self.best if mapping is None else self.named(mapping)
        return explain(self.workload, self.torus, chosen, routing=self.routing)


def forecast(
    traffic: Workload | CommGraph,
    torus: Torus,
    mappings: TaskMapping | Sequence[TaskMapping],
    *,
    model: TimePredictor | str = "default",
    budget: Budget | int | None = None,
    routing: Routing = "deterministic",
    check: bool = False,
    coverage: float = 0.9,
    n_jobs: int = 1,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Forecast:
    """Find the fastest of several mappings with as few simulations as decide it.

    A model gives every candidate a time and an interval from features of its routes. Simulations
    go to the candidates likeliest to be the fastest, and each teaches about the others, until the
    best is proved or sure to be the fastest, or the budget is spent. Where all simulations together
    take a few seconds, the rest is simulated as well, for the order.

    The first simulation on a machine takes up to half a minute longer, to be compiled.

    Parameters
    ----------
    traffic, torus, mappings
        What is sent, over which network, and the candidates.
    model : TimePredictor or path
        Fitted on named features; the one that comes with toruscast if not given.
    budget : Budget or int, optional
        Most simulations; 0 for the forecast alone, 30 if not given.
    routing : {"deterministic", "adaptive", "by_size"}
    check : bool
        Simulate all candidates once the race is over and score what was said before.
    coverage : float
        Share of the cases in which the interval ``low`` to ``high`` holds the time.
    n_jobs : int
        Threads; as many candidates are simulated at a time.
    seed : int
        Of the draws behind the probabilities.
    progress : callable, optional
        Called with the number of simulations done and the most there will be.

    Returns
    -------
    Forecast

    Raises
    ------
    InputError
        If there is no mapping, one does not fit, or the model needs a feature that is not known.

    Warns
    -----
    UserWarning
        If the model learned from times under another routing, or plain times of mappings far from
        these, or its intervals rest on too few samples.

    Examples
    --------
    >>> from toruscast.mapping import patterns, strategies
    >>> halo, torus = patterns.halo_2d((4, 4), 4096, periodic=True), Torus((4, 4))
    >>> answer = forecast(halo, torus, strategies.sample(halo, torus, n=12))
    >>> answer.best.name, answer.verdict.kind, answer.cost.to_answer
    ('identity', 'proved', 1)
    """
    several = as_mappings(mappings)
    if not several:
        raise InputError("no mapping to rank")
    n_jobs = job_count(n_jobs)
    chosen = load_predictor(model) if isinstance(model, str) else model
    checks.check_model(chosen)
    limit = Budget() if budget is None else budget
    limit = Budget(limit) if isinstance(limit, int) else limit
    workload = as_workload(traffic)
    checks.check_sends(workload)
    names = dict.fromkeys((*chosen.required_columns, *SHOWN_FEATURES, BOUND))
    features = extract(
        workload,
        torus,
        several,
        routing=routing,
        features=tuple(names),
        also={SURE_BOUND: lambda traffic: traffic.sure_bound},
        n_jobs=n_jobs,
    )
    checks.warn_of_routing(chosen, routing, workload, torus)
    checks.warn_of_distance(chosen, features)
    outlook = chosen.outlook(features)
    race = Race(belief_of(outlook), features[SURE_BOUND].to_numpy(dtype=np.float64), seed)
    simulate = Simulate(workload, torus, several, routing, n_jobs)
    run(race, simulate, limit, batch=n_jobs, progress=progress)
    to_answer, kind_and_certainty = len(race.order), race.verdict()
    if (
        limit.simulations
        and not check
        and len(several) * mean_hops(workload, torus, several) <= _CHEAP_HOPS
    ):
        _complete(race, simulate)
    table, verdict = _answer(race, outlook, several, kind_and_certainty, coverage)
    for name in SHOWN_FEATURES:
        table[name] = features[name].to_numpy()[table.index]
    scores: dict[str, float] = {}
    simulated = int(race.is_simulated.sum())
    if check:
        _complete(race, simulate, progress)
        table.insert(3, "observed_time", race.times[table.index])
        scores = score_answer(table, features.iloc[table.index][BOUND].to_numpy())
    cost = Cost(to_answer, simulated, len(several), bool(SKETCHED & set(chosen.required_columns)))
    table = table.reset_index(drop=True)
    table.insert(0, "rank", np.arange(1, len(table) + 1))
    return Forecast(
        workload=workload,
        torus=torus,
        mappings=tuple(several),
        routing=routing,
        model=chosen,
        coverage=coverage,
        table=table,
        verdict=verdict,
        cost=cost,
        scores=scores,
    )


def names_of(mappings: Sequence[TaskMapping]) -> list[str]:
    """Return the names in the table: that of each mapping, or its number."""
    return [mapping.name or str(i) for i, mapping in enumerate(mappings)]


def belief_of(outlook: Outlook) -> Belief:
    """What a model's forecast says before anything is simulated."""
    centre, width = outlook.logs()
    calibration = outlook.calibrated
    kernel = Kernel.of(float(calibration.common.var()), float(calibration.deviations.var()))
    return Belief(centre, width, outlook.features, kernel)


def _complete(
    race: Race, simulate: Simulate, progress: Callable[[int, int], None] | None = None
) -> None:
    """Simulate the candidates that were not, some at a time."""
    left = np.flatnonzero(~race.is_simulated)
    for part in np.array_split(left, max(1, left.size // 16)):
        race.tell(part, simulate(part))
        if progress is not None:
            progress(len(race.order), race.times.size)


def _answer(
    race: Race,
    outlook: Outlook,
    mappings: Sequence[TaskMapping],
    decided: tuple[Kind, float],
    coverage: float,
) -> tuple[pd.DataFrame, Verdict]:
    """Return the candidates' times, best first and indexed by number, and the verdict."""
    time, low, high = interval(race, outlook, coverage)
    p_best = race.probability_of_best() if race.order else outlook.probability_of_best(4000, 0)
    how = np.where(race.is_simulated, "simulated", "forecast")
    table = pd.DataFrame(
        {
            "mapping": names_of(mappings),
            "time": time,
            "low": low,
            "high": high,
            "p_best": p_best,
            "how": how,
        }
    )
    leads = time == (race.best_time if race.order else time.min())
    order = np.lexsort((-p_best, time, ~(leads & (race.is_simulated | (not race.order)))))
    table = table.iloc[order]
    kind, certainty = decided
    rivals = []
    if kind != "proved":
        rest = table.iloc[1:].sort_values("p_best", ascending=False, kind="stable")
        rivals = rest["mapping"][rest["p_best"] >= _TOLD_APART].tolist()
    return table, Verdict(kind, certainty, tuple(rivals))


def interval(race: Race, outlook: Outlook, coverage: float) -> tuple[Floats, Floats, Floats]:
    """Return time, low and high end of each candidate, seconds; exact where simulated.

    No end lies below the bound that holds for the candidate.
    """
    from scipy.stats import norm, t

    if race.order:
        centre, scale = race.belief.marginal()
        nu = race.belief.freedom
        reach = norm.ppf((1 + coverage) / 2) if np.isinf(nu) else t.ppf((1 + coverage) / 2, nu)
        ends = [np.exp(centre + way * reach * scale) for way in (0.0, -1.0, 1.0)]
    else:
        ends = [outlook.times(), *outlook.interval(coverage).T]
    floor = race.bounds
    time, low, high = (
        np.where(race.is_simulated, race.times, np.maximum(end, floor)) for end in ends
    )
    return time, low, high
