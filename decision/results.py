"""What a forecast returns: its table, the verdict, and what it cost to find out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from toruscast._features.reasons import Reasons, explain
from toruscast._slow import pandas as pd
from toruscast.errors import InputError
from toruscast.mapping import MappingProblem, TaskMapping, Torus, Workload
from toruscast.mapping.omissions import describe_omissions
from toruscast.mapping.task_mapping import Allocation
from toruscast.notebook import html_card
from toruscast.text import counted, probability, seconds, shown_name
from toruscast.training.default_model import DefaultModel
from toruscast.training.fitted import Model

from .loop import REGRET, SURE, Goal
from .posterior import Posterior

if TYPE_CHECKING:
    from toruscast.decision.measured import RunModel
    from toruscast.training.predictor import TimePredictor

Floats = NDArray[np.float64]
SHOWN_FEATURES = ("lower_bound", "max_bytes", "hop_bytes", "avg_hops_per_byte", "max_FIFO")
"""Features that stand in the table of an answer."""
OF_SUMS = (0.84, 2.3)
"""Times of programs with their rounds over those of all their messages at once: 90 % lie between
(`python -m studies run real_mpi`)."""
TOLD_APART = 0.01
"""Candidates that are less likely to be the fastest are no rivals."""


Kind = Literal["proved", "sure", "indistinguishable", "not_worth_more", "undecided"]


@dataclass(frozen=True)
class Verdict:
    """How far the answer of a forecast, a search or a plan of runs can be trusted.

    Attributes
    ----------
    kind : {"proved", "sure", "indistinguishable", "not_worth_more", "undecided"}
        About the fastest mapping, whatever the goal. *proved*: the best simulated time is no longer
        than the lower bound of every other candidate. *sure*: with probability ``certainty``, 95 %
        or more, no other is faster by more than ``goal``. *undecided*: neither, because the budget
        was spent or more runs are worth while. Runs also have *not_worth_more*: more runs cost more
        than their expected gain; and *indistinguishable*: noise hides the rest, and only many more
        runs would separate the rivals.
    certainty : float
        Probability that no candidate is faster than the best by more than ``goal``.
    rivals : tuple of str
        Candidates that may still be the fastest, likeliest first.
    rcc : float or None
        Share of all pairs of candidates that are expected in the right order; None if only
        times of a machine are known.
    goal : float
        Share of the time that ``certainty`` refers to: differences that are not worth more
        simulations or runs; larger where *indistinguishable* or *not_worth_more*.
    """

    kind: Kind
    certainty: float
    rivals: tuple[str, ...]
    rcc: float | None = None
    goal: float = REGRET

    @classmethod
    def from_table(
        cls,
        table: pd.DataFrame,
        certainty: float,
        rcc: float | None = None,
        kind: Kind | None = None,
    ) -> Self:
        """Return that of a table, best first; *sure* or *undecided* by its certainty."""
        kind = kind or ("sure" if certainty >= SURE else "undecided")
        rest = table.iloc[1:].sort_values("p_best", ascending=False, kind="stable")
        rivals = rest["mapping"][rest["p_best"] >= TOLD_APART]
        return cls(kind, certainty, () if kind == "proved" else tuple(rivals), rcc)

    def in_words(self, workload: Workload) -> str:
        """Return the kind; a proof also says what it holds for."""
        return self.kind.replace("_", " ") + (
            scope_of_proof(workload) if self.kind == "proved" else ""
        )


def scope_of_proof(workload: Workload) -> str:
    """Return what a proof holds for, where the workload is not all that a program does."""
    if workload.omitted:
        return " for what is counted"
    return " for this graph" if workload.summed else ""


class Estimates(NamedTuple):
    """What a posterior says of the candidates' times, seconds: ``(n,)`` each."""

    time: Floats
    low: Floats
    high: Floats
    p_best: Floats
    certainty: float
    """Probability that none is faster than the likely best by more than `REGRET`."""

    @classmethod
    def from_posterior(cls, posterior: Posterior, coverage: float) -> Self:
        """Return the times with intervals that hold this share of the cases."""
        time, low, high = posterior.interval(coverage)
        draws = posterior.sample()
        chances = draws.p_best(time.size)
        best = int(draws.which[np.lexsort((-chances[draws.which], time[draws.which]))[0]])
        certainty = float((draws.loss(best) <= np.log1p(REGRET)).mean())
        return cls(time, low, high, chances, certainty)


class Cost(NamedTuple):
    """What an answer cost."""

    simulated: int
    """Candidates simulated with real packets until it was decided; of runs, with any packets."""
    candidates: int
    is_coarse: bool
    """Whether the model reads a coarse simulation of every candidate."""
    measured: int = 0
    """Candidates that ran on the machine."""
    coarsening: int | None = None
    """Packets in one of the coarse simulations; None without any."""
    networks: int = 1
    """Networks that each candidate was simulated on: several where the rules are unknown."""


class PhysicalOrder(NamedTuple):
    """The order by the release bound, beside that of a model of one's own."""

    first: str
    """The candidate whose bound is least."""
    held_out: dict[str, float] | None
    """RCC of the samples that the model did not learn from: ``model`` and ``release_bound``."""


class Networks(NamedTuple):
    """What a machine of unknown rules may be, and how its candidates fare there."""

    times: pd.DataFrame
    """Simulated seconds: a row per mapping, a column per network; NaN where not simulated."""
    weights: dict[str, float]
    """Probability of each network; measured runs change it."""

    @property
    def spread(self) -> float:
        """By what share the networks differ about a mapping, root mean square."""
        logs = np.log(self.times.dropna().to_numpy())
        apart = logs - logs.mean(axis=0)
        return float(np.expm1(np.sqrt(apart.var(axis=1).mean())))


@dataclass(frozen=True, eq=False)
class Ranking:
    """Which candidate is fastest; made by `rank`.

    Attributes
    ----------
    table : DataFrame
        A row per candidate, best first: ``rank, mapping, time, low, high`` (seconds), ``p_best``
        (probability of being the fastest), ``source``, the lower bound and the main metrics; with
        ``check`` also ``observed_time``, the simulated one. ``source`` says ``simulated``,
        ``measured``, ``predicted`` or ``coarse``: predicted from a simulation with longer packets.
        Of a profile (`Workload.summed`) they hold if all messages start at once; ``low`` and
        ``high`` know that a program with rounds takes longer.
        ``averaged``: the geometric mean over the networks that a machine of unknown rules may have.
    unchecked : Ranking or None
        With ``check``, the answer before it. All times are known then: the table is in the order of
        ``observed_time``, and the verdict is *proved*.
    scores : dict of str to float
        Quality of the forecast where all candidates were simulated to check it, else empty.
    learned : Measured or None
        What the measured times taught, where there are some.
    unseen_traffic : tuple of str
        Kinds of traffic that the model never saw, such as ``dependent rounds``. Intervals of the
        default model are then those of the kind on which it is off furthest.
    spent : dict of str to float
        Seconds that went into ``bound`` (features of the routes, and the model), ``coarse`` (longer
        packets) and ``full`` (real packets).
    physical : PhysicalOrder or None
        The order by the release bound, where another model than the default one orders; the table
        then has the column ``release_bound``.
    networks : Networks or None
        Times on each network that the machine may have, where its rules are unknown
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
    networks: Networks | None = None
    physical: PhysicalOrder | None = None
    spent: Mapping[str, float] = field(default_factory=dict)
    goal: Goal = "fastest"
    unchecked: Ranking | None = None

    @property
    def model(self) -> TimePredictor | DefaultModel:
        """The model; one that was trained is an estimator of scikit-learn, imported only here."""
        if isinstance(self.fitted, DefaultModel):
            return self.fitted
        from toruscast.training.predictor import TimePredictor

        return TimePredictor.from_fitted(self.fitted)

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
        name = self.table["mapping"].iloc[0] if mapping is None else mapping
        return explain(self.problem, self.named(name))

    def __repr__(self) -> str:
        first = self.table.iloc[0]
        return (
            f"Forecast({shown_name(first['mapping'])} is fastest of "
            f"{counted(len(self.table), 'candidate')} on {shown_name(self.problem.torus)}: "
            f"{seconds(first['time'])} {first['source']}, "
            f"{self.verdict.in_words(self.problem.workload)})"
        )

    def _repr_html_(self) -> str:
        first = self.table.iloc[0]
        sure = self.verdict.in_words(self.problem.workload)
        if self.verdict.kind != "proved":
            sure += f", {probability(self.verdict.certainty)}"
        facts = [
            ("fastest", f"{first['mapping']}, {seconds(first['time'])}, {first['source']}"),
            ("how sure", sure),
            ("simulated to decide", f"{self.cost.simulated} of {self.cost.candidates}"),
        ]
        left_out = describe_omissions(self.problem.workload.omitted)
        return html_card(self, [*facts, *([("left out", left_out)] if left_out else ())])


# The default of the launcher of Fugaku.
_DEFAULTS = tuple(f"rank-map-bynode={'XYZ'[:n]}" for n in (1, 2, 3))


def default_order(
    mappings: Sequence[TaskMapping], names: Sequence[str], torus: Torus
) -> int | None:
    """Return which mapping puts the tasks in order on the nodes, if one does."""
    launched = next((i for i, name in enumerate(names) if name in _DEFAULTS), None)
    if launched is not None:
        return launched
    first = mappings[0]
    try:
        allocation = Allocation(torus, tasks_per_node=first.tasks_per_node)
        in_order = allocation.in_order(first.n_tasks).node
    except InputError:
        in_order = np.empty(0, dtype=np.int32)
    pairs = enumerate(zip(mappings, names, strict=True))
    return next(
        (i for i, (m, name) in pairs if name == "identity" or np.array_equal(m.node, in_order)),
        None,
    )


def names_of(mappings: Sequence[TaskMapping]) -> list[str]:
    """Return the names in the table: that of each mapping, or its number."""
    return [mapping.name or str(i) for i, mapping in enumerate(mappings)]
