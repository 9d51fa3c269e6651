"""Machines whose rules are not public: the networks that one may have, and an answer for all.

Which FIFO a message takes, how a node feeds its messages and which packet goes first decide as much
as the routes do, and most networks do not publish it. Where `Network.rules` says so, each candidate
is simulated on a few networks that differ in all of it. The geometric mean of the times gives the
order, their spread widens the intervals, and measured runs weigh the networks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy
from numpy.typing import NDArray

from toruscast.decision.hypotheses import CONSTANTS, LESS, Hypotheses, Repeated
from toruscast.decision.runs import Runs, mappings_of
from toruscast.features import extract
from toruscast.mapping import TaskMapping, Torus, Workload
from toruscast.routing import Routing
from toruscast.routing.messages import mean_message
from toruscast.simulation import simulate_flows
from toruscast.training.fitted import APART, FittedModel, PriorPrediction, prior_of
from toruscast.training.residuals import ResidualCalibration
from toruscast.workers import Task

from .posterior import Kernel, Mixture, Outcomes, Posterior, expected_rcc
from .race import REGRET, TOLD_AFTER, Budget, Goal, Simulate, affordable, error_of
from .results import OF_SUMS, SHOWN_FEATURES, Cost, Forecast, Networks, Verdict, names_of, ranked

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
# Standard deviations of the logarithm of a measured time over the mean of the networks: what each
# mapping has for itself, and what all of a program have in common. Of the measurements of
# `studies/real_mpi` and `studies/emulated_torus` the first is .10 in the root mean square; the
# second, known for the three exchanges of the latter alone, is .07, rounded up.
_OWN, _COMMON = 0.1, 0.1
# Mappings of like features have a little of their own part alike.
_KERNEL = Kernel(common=0.5, smooth=0.05, own=0.45, freedom=float("inf"))
# Seconds of each core that simulations may take before the first run.
_AT_FIRST = 5.0
# How many times as much as one network all of them together may cost.
_WORTH = 3.0
# Error of the flows' shares: the measured RCC moves by .001, and the work halves
# (`studies/real_mpi`).
_OF_FLOWS = 0.2
# Packets that are one where simulating all candidates would take too long.
_COARSEST = 16


class Possible(NamedTuple):
    """A network that the machine may have."""

    name: str
    torus: Torus
    flows: bool = False
    """Whether messages share links as flows, without packets and buffers."""

    def times(self, simulate: Simulate, which: Indices, coarsening: int) -> Floats:
        """Return the simulated seconds of these candidates."""
        mappings, n_jobs = [simulate.mappings[i] for i in which], simulate.n_jobs
        if self.flows:
            flow = Task(_flow_time, simulate.workload, self.torus)
            return np.array(flow.in_order(mappings, n_jobs), dtype=np.float64)
        own = Simulate(simulate.workload, self.torus, mappings, simulate.routing, n_jobs)
        return own(np.arange(which.size), None if coarsening == 1 else coarsening)


def _flow_time(workload: Workload, torus: Torus, mapping: TaskMapping) -> float:
    return simulate_flows(workload, torus, mapping, error=_OF_FLOWS).time


def possible_networks(torus: Torus, routing: Routing = "deterministic") -> tuple[Possible, ...]:
    """Return the networks that a machine may have: one, unless its rules are unknown.

    The one as it is described; one whose FIFOs belong to a direction and send packets of their
    messages in turn; and one without buffers, in which messages share links as flows do. The last
    is left out where packets choose their way.
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


def simulated_prior(simulate: Simulate, prior: PriorPrediction) -> PriorPrediction | None:
    """Return what simulations say of a machine's network, in place of a model's forecast.

    They are means over the networks that it may have, as far off as machines were. None if
    simulating all candidates takes more than a few seconds.
    """
    workload, torus, mappings = simulate.workload, simulate.torus, simulate.mappings
    networks = possible_networks(torus, simulate.routing)
    cores, n = simulate.n_jobs * _AT_FIRST, len(networks)
    levels = affordable(workload, torus, mappings, cores, n)
    if not levels:
        return None
    which = np.arange(len(mappings))
    seen = _simulated(simulate, networks, which, levels[0], None, np.inf)
    off = error_of(levels[0], mean_message(workload, torus)) if levels[0] > 1 else 0.0
    share = scipy.special.ndtri((np.arange(200) + 0.5) / 200) / np.sqrt(2)
    return replace(
        prior,
        centre=np.log(seen.to_numpy()).mean(axis=1),
        width=np.full(len(mappings), np.sqrt(_OWN**2 + _COMMON**2 + off**2)),
        calibration=ResidualCalibration(0.0, np.sqrt(2) * share, share, share),
        relative=None,
        is_log=True,
        is_bounded=False,
    )


def forecast_networks(
    simulate: Simulate,
    model: FittedModel,
    runs: Runs | None,
    budget: Budget,
    goal: Goal,
    coverage: float,
    seed: int,
    progress: Callable[[Any, int, int], None] | None,
) -> Forecast:
    """Return the answer for a machine of unknown rules.

    Without runs every network is as likely as another. ``model`` tells which candidates are worth a
    simulation where they are too many.
    """
    workload, torus, mappings = simulate.workload, simulate.torus, simulate.mappings
    if runs is not None:
        mappings_of(mappings, runs)
    networks = possible_networks(torus, simulate.routing)
    most, seconds = budget.limits(goal, len(mappings))
    cores, share = simulate.n_jobs * seconds, len(networks) / _WORTH
    levels = affordable(workload, torus, mappings, cores, share, goal=goal)
    merged = levels[0] if levels else _COARSEST
    # A network is guessed of candidates that time does not allow to simulate.
    needed = () if levels and np.isinf(seconds) else model.required_columns
    began = time.monotonic()
    features = extract(
        workload,
        torus,
        mappings,
        routing=simulate.routing,
        features=tuple(dict.fromkeys((*SHOWN_FEATURES, *needed))),
        also={APART: attrgetter("rounds_apart")} if needed else None,
        n_jobs=simulate.n_jobs,
        progress=None if progress is None else partial(progress, "features"),
    )
    guess = None
    which = np.arange(len(mappings))
    if needed:
        routing = simulate.routing
        prediction, _ = prior_of(model, features, workload, torus, routing, mappings)
        guess = prediction.logs()
        which = np.argsort(guess[0], kind="stable")
    if not levels:
        which = which[: max(1, most // len(networks))]
    spent = {"bound": time.monotonic() - began}
    observed = None if progress is None else partial(progress, "simulations")
    left = seconds - spent["bound"]
    seen = _simulated(simulate, networks, which, merged, observed, left)
    spent["coarse" if merged > 1 else "full"] = time.monotonic() - began - spent["bound"]
    off = error_of(merged, mean_message(workload, torus)) if merged > 1 else 0.0
    prior = _processes(np.log(seen.to_numpy().T), off, guess, features)
    is_simulated = seen.notna().all(axis=1).to_numpy()
    said, weights, is_measured = _conditioned(prior, runs, names_of(mappings))
    times = _times(said, coverage, of_sums=workload.summed and runs is None)
    drawn = Outcomes.of(said, seed)
    how = np.where(is_measured, "measured", np.where(is_simulated, "averaged", "forecast"))
    chances = drawn.p_best(len(mappings))
    ends = {**times, "p_best": chances, "how": how}
    table = ranked(names_of(mappings), features, ends)
    # Another rule of FIFOs has another bound, and measured times are of another level.
    least = np.nan if runs is not None else np.minimum(table["lower_bound"], table["time"])
    first = int(drawn.which[times["time"][drawn.which].argmin()])
    certainty = drawn.certainty(first, REGRET)
    n = int(is_simulated.sum())
    return Forecast(
        workload=workload,
        torus=torus,
        mappings=tuple(mappings),
        routing=simulate.routing,
        fitted=model,
        coverage=coverage,
        table=table.assign(lower_bound=least).reset_index(drop=True),
        verdict=Verdict.of(table, certainty, expected_rcc(said)),
        cost=Cost(n, n, len(table), False, int(is_measured.sum()), merged, len(networks)),
        scores={},
        networks=Networks(seen, dict(zip(seen.columns, weights.tolist(), strict=True))),
        spent=spent,
        goal=goal,
    )


def _conditioned(
    prior: Sequence[Posterior], runs: Runs | None, names: Sequence[str]
) -> tuple[Mixture, Floats, NDArray[np.bool_]]:
    """Condition the times on each network on the runs, if there are any."""
    is_measured = np.zeros(len(names), dtype=bool)
    if runs is None:
        equal = np.full(len(prior), 1 / len(prior))
        return Mixture(prior, equal), equal, is_measured
    place = {name: i for i, name in enumerate(names)}
    kept = ~runs.is_outlier
    ran = np.array([place[name] for name in runs.names])[runs.which[kept]]
    is_measured[ran] = True
    every = Hypotheses(prior, constants=(*LESS, *CONSTANTS))
    found = every.given(Repeated.of(ran, runs.seconds[kept]))
    return found, found.network_weights(len(prior)), is_measured


def _times(said: Mixture, coverage: float, *, of_sums: bool) -> dict[str, Floats]:
    """Return the likely time of each mapping with its ends, wider where rounds were summed."""
    mean, scale = said.marginal()
    reach = scipy.special.ndtri((1 + coverage) / 2) * scale
    below, above = OF_SUMS if of_sums else (1.0, 1.0)
    return {
        "time": np.exp(mean),
        "low": below * np.exp(mean - reach),
        "high": above * np.exp(mean + reach),
    }


def _simulated(
    simulate: Simulate,
    networks: Sequence[Possible],
    which: Indices,
    merged: int,
    progress: Callable[[int, int], None] | None,
    seconds: float,
) -> pd.DataFrame:
    """Simulate these candidates on each network: a row per candidate, NaN of the others."""
    names = names_of(simulate.mappings)
    times = np.full((len(networks), len(names)), np.nan)
    done, began = 0, time.monotonic()
    at_once = TOLD_AFTER if np.isinf(seconds) else simulate.n_jobs
    for part in np.array_split(which, max(1, which.size // at_once)):
        if done and time.monotonic() - began >= seconds:
            break
        times[:, part] = [each.times(simulate, part, merged) for each in networks]
        done += part.size
        if progress is not None:
            progress(done, which.size)
    return pd.DataFrame(times.T, pd.Index(names, name="mapping"), [each.name for each in networks])


def _processes(
    logs: Floats, coarse: float, guess: tuple[Floats, Floats] | None, features: pd.DataFrame
) -> list[Posterior]:
    """Return what each network says, with a guess and its width for what was not simulated."""
    off = np.full(logs.shape[1], coarse)
    if guess is not None:
        is_simulated = ~np.isnan(logs[0])
        level = np.nanmedian(logs - guess[0], axis=1)
        logs = np.where(is_simulated, logs, guess[0] + level[:, None])
        off = np.where(is_simulated, off, guess[1])
    width = np.sqrt(_OWN**2 + _COMMON**2 + off**2)
    columns = np.log1p(features[list(SHOWN_FEATURES)].to_numpy(dtype=np.float64))
    # Columns that are the same everywhere are 0.
    alike = (columns - columns.mean(axis=0)) / np.maximum(columns.std(axis=0), 1e-12)
    return [Posterior(each, width, alike, _KERNEL) for each in logs]
