"""Machines whose rules are not public: the networks that one may have, and an answer for all.

Which FIFO a message takes, how a node feeds its messages and which packet goes first decide as much
as the routes do, and most networks do not publish it. Where `Network.rules` says so, each candidate
is simulated on a few networks that differ in all of it. The geometric mean of the times gives the
order, their spread widens the intervals, and measured runs weigh the networks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtri

from toruscast.features import extract
from toruscast.mapping import TaskMapping, Torus, Workload
from toruscast.routing import Routing
from toruscast.routing.packets import mean_message
from toruscast.simulation import simulate_flows
from toruscast.training.forecast.simulate_rest import Simulate
from toruscast.training.measured.hypotheses import CONSTANTS, LESS, Hypotheses, Repeated
from toruscast.training.measured.runs import Runs, mappings_of
from toruscast.training.predictor.fitted import FittedModel
from toruscast.training.predictor.unlearned import APART, prior_of
from toruscast.workers import Task

from .answer import OF_SUMS, SHOWN_FEATURES, TOLD_APART, Cost, Forecast, Networks, Verdict, names_of
from .posterior import Kernel, Posterior
from .race import REGRET, SURE, Budget, Kind
from .simulate_rest import affordable, error_of

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
# Standard deviations of the logarithm of a measured time over the mean of the networks: what each
# mapping has for itself, and what all of a program have in common. Of the measurements of
# `studies/real_mpi` and `studies/emulated_torus` the first is .10 in the root mean square; the
# second, known for the three exchanges of the latter alone, is .07, rounded up.
_OWN, _COMMON = 0.1, 0.1
# Mappings of like features have a little of their own part alike.
_KERNEL = Kernel(common=0.5, smooth=0.05, own=0.45, freedom=float("inf"))
# How many times as much as one network all of them together may cost.
_WORTH = 3.0
# Error of the flows' shares: it moves times by .02, order and measured RCC not at all, and halves
# the work (`studies/real_mpi`).
_OF_FLOWS = 0.2
# Packets that are one where simulating all candidates would take too long.
_COARSEST = 16
_DRAWS = 4000
# Candidates whose times are drawn together: those that may be the fastest.
_TOGETHER = 400
# Candidates that are simulated before the progress is told.
_TOLD_AFTER = 16


class Possible(NamedTuple):
    """A network that the machine may have."""

    name: str
    torus: Torus
    flows: bool = False
    """Whether messages share links as flows, without packets and buffers."""

    def times(
        self,
        workload: Workload,
        mappings: Sequence[TaskMapping],
        routing: Routing,
        n_jobs: int,
        coarsening: int,
    ) -> Floats:
        """Return the simulated seconds of each mapping."""
        if self.flows:
            flow = Task(_flow_time, workload, self.torus)
            return np.array(flow.in_order(mappings, n_jobs), dtype=np.float64)
        simulate = Simulate(workload, self.torus, mappings, routing, n_jobs)
        return simulate(np.arange(len(mappings)), None if coarsening == 1 else coarsening)


def _flow_time(workload: Workload, torus: Torus, mapping: TaskMapping) -> float:
    return simulate_flows(workload, torus, mapping, error=_OF_FLOWS).time


def possible_networks(torus: Torus, routing: Routing = "deterministic") -> tuple[Possible, ...]:
    """Return the networks that a machine may have: one, unless its rules are unknown.

    The one as it is described; one whose FIFOs belong to a direction and send packets of their
    messages in turn; and one without buffers, in which messages share links as flows do. The last
    is left out where packets choose their way.

    Examples
    --------
    >>> [each.name for each in possible_networks(Torus((4, 4)).with_network(rules="unknown"))]
    ['as described', 'packets in turn', 'flows']
    >>> [each.name for each in possible_networks(Torus((4, 4)))]
    ['as described']
    """
    own = torus.with_network(rules="given")
    found = [Possible("as described", own)]
    if torus.network.rules == "given":
        return tuple(found)
    in_turn = own.with_network(fifo_rule="first_dimension", feeding="packets")
    found += [Possible("packets in turn", in_turn)]
    if routing == "deterministic":
        found.append(Possible("flows", own, flows=True))
    return tuple(found)


class Mixture:
    """Posteriors of which each is as likely, without any run: what `Hypotheses` is with runs."""

    def __init__(self, processes: Sequence[Posterior]) -> None:
        self.processes = processes

    def marginal(self) -> tuple[Floats, Floats]:
        """Return mean and deviation of the logarithm of each mapping's time."""
        parts = [posterior.marginal() for posterior in self.processes]
        means, scales = (np.array(part) for part in zip(*parts, strict=True))
        spread = np.sqrt((scales**2).mean(axis=0) + means.var(axis=0))
        return means.mean(axis=0), spread

    def draws(self, wanted: Indices, n_draws: int, rng: np.random.Generator) -> Floats:
        """Draw possible logarithms of the times of ``wanted``, ``(n_draws, n_wanted)``."""
        each = n_draws // len(self.processes)
        return np.concatenate([posterior.draws(wanted, each, rng) for posterior in self.processes])


def forecast_networks(
    workload: Workload,
    torus: Torus,
    mappings: Sequence[TaskMapping],
    model: FittedModel,
    runs: Runs | None,
    budget: Budget,
    *,
    routing: Routing,
    coverage: float,
    n_jobs: int,
    seed: int,
    progress: Callable[[Any, int, int], None] | None,
) -> Forecast:
    """Return the answer for a machine of unknown rules.

    Without runs every network is as likely as another. ``model`` tells which candidates are worth a
    simulation where they are too many.
    """
    if runs is not None:
        mappings_of(mappings, runs)
    networks = possible_networks(torus, routing)
    seconds = np.inf if budget.seconds is None else budget.seconds
    share = len(networks) / _WORTH
    coarsening = affordable(workload, torus, mappings, n_jobs * seconds, share)
    needed = model.required_columns if coarsening is None else ()
    features = extract(
        workload,
        torus,
        mappings,
        routing=routing,
        features=tuple(dict.fromkeys((*SHOWN_FEATURES, *needed))),
        also={APART: attrgetter("rounds_apart")} if needed else None,
        n_jobs=n_jobs,
        progress=None if progress is None else partial(progress, "features"),
    )
    which = np.arange(len(mappings))
    forecast = error = np.zeros(len(mappings))
    if coarsening is None:
        prediction, _ = prior_of(model, features, workload, torus, routing, mappings)
        forecast, error = prediction.logs()
        which = np.argsort(forecast, kind="stable")[: max(1, budget.simulations // len(networks))]
    merged = _COARSEST if coarsening is None else coarsening
    times = np.full((len(networks), len(mappings)), np.nan)
    for part in np.array_split(which, max(1, which.size // _TOLD_AFTER)):
        some = [mappings[i] for i in part]
        times[:, part] = [each.times(workload, some, routing, n_jobs, merged) for each in networks]
        if progress is not None:
            progress("simulations", int((~np.isnan(times[0])).sum()), which.size)
    is_simulated = ~np.isnan(times[0])
    logs = np.log(times)
    coarse = error_of(merged, mean_message(workload, torus)) if merged > 1 else 0.0
    off = np.full(len(mappings), coarse)
    if coarsening is None:
        level = np.median((logs - forecast)[:, which], axis=1)
        logs = np.where(is_simulated, logs, forecast + level[:, None])
        off = np.where(is_simulated, off, error)
    width = np.sqrt(_OWN**2 + _COMMON**2 + off**2)
    likeness = _scaled(np.log1p(features[list(SHOWN_FEATURES)].to_numpy(dtype=np.float64)))
    prior = [Posterior(each, width, likeness, _KERNEL) for each in logs]
    said: Mixture | Hypotheses = Mixture(prior)
    weights = np.full(len(networks), 1 / len(networks))
    is_measured = np.zeros(len(mappings), dtype=bool)
    if runs is not None:
        place = {name: i for i, name in enumerate(names_of(mappings))}
        kept = ~runs.is_outlier
        ran = np.array([place[name] for name in runs.names])[runs.which[kept]]
        every = Hypotheses(prior, constants=(*LESS, *CONSTANTS))
        said = every.given(Repeated.of(ran, runs.seconds[kept]))
        weights, is_measured[ran] = said.network_weights(len(networks)), True
    mean, scale = said.marginal()
    p_best, certainty = _chances(said, mean, scale, seed)
    reach = ndtri((1 + coverage) / 2)
    time, low, high = (np.exp(mean + way * reach * scale) for way in (0.0, -1.0, 1.0))
    how = np.where(is_measured, "measured", np.where(is_simulated, "averaged", "forecast"))
    if workload.summed and runs is None:
        low, high = OF_SUMS[0] * low, OF_SUMS[1] * high
    ends = {"time": time, "low": low, "high": high, "p_best": p_best, "how": how}
    table = pd.DataFrame({"mapping": names_of(mappings), **ends})
    for name in SHOWN_FEATURES:
        table[name] = features[name].to_numpy()
    # Another rule of FIFOs has another bound, and measured times are of another level.
    table["lower_bound"] = np.nan if runs is not None else np.minimum(table["lower_bound"], time)
    table = table.iloc[np.lexsort((-p_best, time))].reset_index(drop=True)
    table.insert(0, "rank", np.arange(1, len(table) + 1))
    rest = table.iloc[1:].sort_values("p_best", ascending=False, kind="stable")
    rivals = rest["mapping"][rest["p_best"] >= TOLD_APART]
    kind: Kind = "sure" if certainty >= SURE else "open"
    n_simulated = int(is_simulated.sum())
    index = pd.Index(names_of(mappings), name="mapping")
    seen = pd.DataFrame(times.T, index, [each.name for each in networks])
    return Forecast(
        workload=workload,
        torus=torus,
        mappings=tuple(mappings),
        routing=routing,
        fitted=model,
        coverage=coverage,
        table=table,
        verdict=Verdict(kind, certainty, tuple(rivals)),
        cost=Cost(
            n_simulated,
            n_simulated,
            len(mappings),
            False,
            int(is_measured.sum()),
            merged,
            len(networks),
        ),
        scores={},
        networks=Networks(seen, dict(zip(seen.columns, weights.tolist(), strict=True))),
    )


def _chances(
    said: Mixture | Hypotheses, mean: Floats, scale: Floats, seed: int
) -> tuple[Floats, float]:
    """Probability of each of being the fastest, and that none is faster than the first by 1 %."""
    likely = np.sort(np.argsort(mean - 2 * scale, kind="stable")[:_TOGETHER])
    logs = said.draws(likely, _DRAWS, np.random.default_rng(seed))
    least = logs.min(axis=1)
    p_best = np.zeros(mean.size)
    p_best[likely] = np.bincount(logs.argmin(axis=1), minlength=likely.size) / len(logs)
    first = logs[:, int(mean[likely].argmin())]
    return p_best, float((first - least <= np.log1p(REGRET)).mean())


def _scaled(columns: Floats) -> Floats:
    """Columns of mean 0 and deviation 1; those that are the same everywhere are 0."""
    return np.asarray((columns - columns.mean(axis=0)) / np.maximum(columns.std(axis=0), 1e-12))
