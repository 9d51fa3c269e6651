"""Result of `rank`: the table of candidates, the verdict and the cost of the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, Self

import numpy as np

from toruscast._features.reasons import Reasons, explain
from toruscast._slow import pandas as pd
from toruscast.errors import InputError
from toruscast.mapping import MappingProblem, TaskMapping, Torus, Workload
from toruscast.mapping.omissions import describe_omissions
from toruscast.mapping.task_mapping import Allocation
from toruscast.notebook import Result
from toruscast.text import counted, probability, seconds, shown_name
from toruscast.training.default_model import DefaultModel
from toruscast.training.fitted import Model
from toruscast.typing import Floats

from .loop import REGRET, Goal
from .posterior import Posterior

if TYPE_CHECKING:
    from toruscast.decision.measured import RunModel
    from toruscast.training.predictor import TimePredictor

TABLE_FEATURES = ("lower_bound", "max_bytes", "hop_bytes", "avg_hops_per_byte", "max_FIFO")
"""Features in the table of an answer."""
SUMMED_PROFILE_FACTORS = (0.84, 2.3)
"""90 % interval of the ratio of a program's time to the time of its summed profile, in which all
messages start at once (`python -m studies run real_mpi`)."""
MIN_RIVAL_PROBABILITY = 0.01
"""A candidate is a rival if it is the fastest with at least this probability."""

Kind = Literal["proved", "sure", "indistinguishable", "not_worth_more", "undecided"]
# Default mappings of Fugaku's launcher.
_FUGAKU_DEFAULTS = tuple(f"rank-map-bynode={'XYZ'[:n]}" for n in (1, 2, 3))


@dataclass(frozen=True)
class Verdict:
    """Confidence in the answer of a ranking, a search or a plan of runs.

    Attributes
    ----------
    kind : {"proved", "sure", "indistinguishable", "not_worth_more", "undecided"}
        Confidence in the fastest mapping, for both goals. *proved*: on each plausible network, no
        other candidate has a lower bound below the simulated time of the best.
        *sure*: ``certainty`` is 95 % or more. *undecided*: neither, because the budget was spent or
        more runs are worth their cost. A plan may also be *not_worth_more*: more runs cost more
        than their expected gain; or *indistinguishable*: the noise hides the differences between
        the rivals unless many more runs are made.
    certainty : float
        Probability that no candidate is faster than the best by more than ``tolerance``.
    rivals : tuple of str
        Candidates that may be faster, likeliest first.
    rcc : float or None
        Expected share of pairs of candidates that are in the right order; None if only times of a
        machine are known.
    tolerance : float
        Relative difference in time that is not worth more simulations or runs; larger if the kind
        is *indistinguishable* or *not_worth_more*.
    n_proved, n_networks : int
        Number of plausible networks on which the best is proved to be the fastest, and number of
        all plausible networks.
    """

    kind: Kind
    certainty: float
    rivals: tuple[str, ...]
    rcc: float | None = None
    tolerance: float = REGRET
    n_proved: int = 0
    n_networks: int = 1

    def in_words(self, workload: Workload) -> str:
        """Return the kind in words, and for a proof, also its scope."""
        if self.kind != "proved":
            return self.kind.replace("_", " ")
        return f"proved in simulation{describe_proof_scope(workload)}"


def describe_proof_scope(workload: Workload) -> str:
    """Return the scope of a proof in words; empty if the workload is the whole program."""
    if workload.omitted:
        return " for what is counted"
    return " for this graph" if workload.summed else ""


class PosteriorSummary(NamedTuple):
    """The candidates' times in seconds, with intervals and probabilities, ``(n,)`` each."""

    time: Floats
    low: Floats
    high: Floats
    p_best: Floats
    certainty: float
    """Probability that no candidate is faster than the best by more than `REGRET`."""

    @classmethod
    def from_posterior(cls, posterior: Posterior, coverage: float) -> Self:
        """Summarise a posterior, with intervals of this coverage."""
        time, low, high = posterior.interval(coverage)
        draws = posterior.sample()
        p_best = draws.p_best(time.size)
        order = np.lexsort((-p_best[draws.candidates], time[draws.candidates]))
        best = int(draws.candidates[order[0]])
        certainty = float((draws.loss(best) <= np.log1p(REGRET)).mean())
        return cls(time, low, high, p_best, certainty)


class Cost(NamedTuple):
    """Simulations and runs behind an answer."""

    simulated: int
    """Candidates simulated before the decision, with real packets (if runs decide, with any)."""
    candidates: int
    is_coarse: bool
    """Whether the model needs a coarse simulation of every candidate."""
    measured: int = 0
    """Candidates that ran on the machine."""
    coarsening: int | None = None
    """Real packets in one coarse packet; None without a coarse simulation."""
    networks: int = 1
    """Networks on which each candidate was simulated; several if the rules are unknown."""


class ReleaseBoundRanking(NamedTuple):
    """The ranking by the release bound, for comparison with the user's own model."""

    first: str
    """The candidate with the smallest bound."""
    held_out: dict[str, float] | None
    """RCC of held-out samples, for ``model`` and ``release_bound``."""


class NetworkEnsemble(NamedTuple):
    """Times of the candidates on the networks that a machine with unknown rules may have."""

    times: pd.DataFrame
    """Simulated seconds: a row per mapping, a column per network; NaN where not simulated."""
    weights: dict[str, float]
    """Probability of each network, conditioned on measured runs if there are any."""

    @property
    def spread(self) -> float:
        """Root mean square of the relative differences in a mapping's time between networks."""
        logs = np.log(self.times.dropna().to_numpy())
        centred = logs - logs.mean(axis=0)
        return float(np.expm1(np.sqrt(centred.var(axis=1).mean())))


@dataclass(frozen=True, eq=False)
class Ranking(Result):
    """Ranking of the candidates, returned by `rank`.

    Attributes
    ----------
    table : DataFrame
        A row per candidate, best first: ``rank, mapping, time, low, high`` (seconds), ``p_best``
        (probability of being the fastest), ``source``, the lower bound and the main metrics; with
        ``check``, also the simulated ``observed_time``. ``source`` is ``simulated``, ``measured``,
        ``predicted``, ``coarse`` (predicted from a coarse simulation) or ``averaged`` (the
        geometric mean over the networks that a machine with unknown rules may have). For a summed
        profile (`Workload.summed`), times assume that all messages start at once; ``low`` and
        ``high`` allow for the longer time of a program with rounds.
    unchecked : Ranking or None
        With ``check``, the answer before the check. After the check, all times are known: the table
        is sorted by ``observed_time``, and the verdict is *proved*.
    scores : dict of str to float
        Quality of the ranking; empty without ``check``.
    learned : RunModel or None
        The model of the measured times, if there are any.
    unseen_traffic : tuple of str
        Kinds of traffic that the model has not learned from, such as ``dependent rounds``. The
        default model then uses its widest intervals.
    spent : dict of str to float
        Seconds spent on ``bound`` (the route features and the model), on ``coarse`` and on ``full``
        simulations.
    physical : ReleaseBoundRanking or None
        The ranking by the release bound, if the model is not the default one; the table then has
        the column ``release_bound``.
    networks : NetworkEnsemble or None
        Times on each network that the machine may have, if its rules are unknown
        (`Network.rules`).
    """

    problem: MappingProblem
    mappings: tuple[TaskMapping, ...]
    fitted: Model
    coverage: float
    table: pd.DataFrame
    verdict: Verdict
    cost: Cost
    scores: Mapping[str, float] = field(default_factory=dict)
    learned: RunModel | None = None
    unseen_traffic: tuple[str, ...] = ()
    networks: NetworkEnsemble | None = None
    physical: ReleaseBoundRanking | None = None
    spent: Mapping[str, float] = field(default_factory=dict)
    goal: Goal = "fastest"
    unchecked: Ranking | None = None

    @property
    def model(self) -> TimePredictor | DefaultModel:
        """The default model, or your trained model as a scikit-learn estimator."""
        if isinstance(self.fitted, DefaultModel):
            return self.fitted
        # scikit-learn takes a second to import.
        from toruscast.training.predictor import TimePredictor

        return TimePredictor.from_fitted(self.fitted)

    @property
    def best(self) -> TaskMapping:
        """The mapping in the first row."""
        return self.named(self.table["mapping"].iloc[0])

    def named(self, name: str) -> TaskMapping:
        """Return the candidate that has this name in the table."""
        names = candidate_names(self.mappings)
        if name not in names:
            raise InputError("no such candidate", found=name, expected=", ".join(names[:3]))
        return self.mappings[names.index(name)]

    def reasons(self, mapping: str | None = None) -> Reasons:
        """Return the limits and busiest links of a candidate; by default, of the best."""
        name = self.table["mapping"].iloc[0] if mapping is None else mapping
        return explain(self.problem, self.named(name))

    def __repr__(self) -> str:
        first = self.table.iloc[0]
        return (
            f"Ranking({shown_name(first['mapping'])} is fastest of "
            f"{counted(len(self.table), 'candidate')} on {shown_name(self.problem.torus)}: "
            f"{seconds(first['time'])} {first['source']}, "
            f"{self.verdict.in_words(self.problem.workload)})"
        )

    def _card_facts(self) -> list[tuple[str, object]]:
        """Return the names and values of the main facts, for a notebook."""
        first = self.table.iloc[0]
        certainty = self.verdict.in_words(self.problem.workload)
        if self.verdict.kind != "proved":
            certainty += f", {probability(self.verdict.certainty)}"
        facts: list[tuple[str, object]] = [
            ("fastest", f"{first['mapping']}, {seconds(first['time'])}, {first['source']}"),
            ("certainty", certainty),
            ("simulated to decide", f"{self.cost.simulated} of {self.cost.candidates}"),
        ]
        if omissions := describe_omissions(self.problem.workload.omitted):
            facts.append(("left out", omissions))
        return facts


def default_order(
    mappings: Sequence[TaskMapping], names: Sequence[str], torus: Torus
) -> int | None:
    """Return the index of the mapping that puts the tasks on the nodes in order, if there is one.

    The default of a known launcher takes precedence.
    """
    n_tasks, tasks_per_node = mappings[0].n_tasks, mappings[0].tasks_per_node
    try:
        in_order = Allocation(torus, tasks_per_node=tasks_per_node).in_order(n_tasks).node
    except InputError:
        in_order = np.empty(0, dtype=np.int32)
    is_default = [
        name == "identity" or np.array_equal(mapping.node, in_order)
        for name, mapping in zip(names, mappings, strict=True)
    ]
    is_launcher_default = [name in _FUGAKU_DEFAULTS for name in names]
    order = [*np.flatnonzero(is_launcher_default), *np.flatnonzero(is_default)]
    return int(order[0]) if order else None


def candidate_names(mappings: Sequence[TaskMapping]) -> list[str]:
    """Return the name of each mapping, or its index if it has none."""
    return [mapping.name or str(i) for i, mapping in enumerate(mappings)]
