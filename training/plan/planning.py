"""A plan of runs for an application: what a model forecasts first, then what the machine says."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from operator import attrgetter

from toruscast.errors import InputError
from toruscast.features import extract
from toruscast.mapping import CommGraph, TaskMapping, Torus, Workload, as_workload
from toruscast.mapping.formats.times import holds_runs
from toruscast.mapping.task_mapping import as_mappings
from toruscast.routing import Routing
from toruscast.training.measured.runs import Times
from toruscast.training.predictor import checks
from toruscast.training.predictor.fitted import FittedModel
from toruscast.training.predictor.model_file import load_fitted
from toruscast.training.predictor.unlearned import APART, prior_of
from toruscast.validation import job_count

from .next_run import Plan


def plan(
    traffic: Workload | CommGraph,
    torus: Torus,
    mappings: TaskMapping | Sequence[TaskMapping],
    times: Times | None = None,
    *,
    noise: float | None = None,
    goal: float | None = None,
    model: FittedModel | str = "default",
    routing: Routing = "deterministic",
    n_jobs: int | None = None,
    seed: int = 0,
    progress: Callable[[int, int], object] | None = None,
) -> Plan:
    """Plan the runs of mappings on a machine: which is next, and whether those made are enough.

    A measured time holds computation and software too, and noise. The model forecasts the time of
    the network; how much is added to it, by what factor it is off, how far single mappings miss it
    and how noisy a run is, is learned from the runs. The next run is the one that is expected to
    improve the choice most (knowledge gradient [1]_).

    Parameters
    ----------
    traffic, torus, mappings
        What is sent, over which network, and the candidates.
    times : path, dict or DataFrame, optional
        Runs made so far: a file of `read_runs`, names and seconds, or columns ``mapping`` and
        ``time``. None is fine, and so is a file that is not there yet or holds no run.
    noise : float, optional
        Standard deviation of a run's time, as a share of it; learned from runs of the same mapping
        if not given.
    goal : float, optional
        Share of the time that is not worth further runs. 1 % if not given, or the noise of a run
        where that is more.
    model : TimePredictor or path
        Fitted on named features; the one that comes with toruscast if not given.
    routing : {"deterministic", "adaptive", "by_size"}
    n_jobs : int, optional
        Threads that compute features.
    seed : int
        Of the draws behind the probabilities.
    progress : callable, optional
        Called with the mappings whose features are computed, and all of them.

    Returns
    -------
    Plan
        `Plan.ask` names the next mappings, `Plan.tell` takes in a time, `Plan.standing` says what
        the runs tell.

    Raises
    ------
    InputError
        If there is no mapping, one does not fit, two share a name, or the times are not valid.

    References
    ----------
    .. [1] Frazier, Powell and Dayanik, "The knowledge-gradient policy for correlated normal
       beliefs", INFORMS Journal on Computing 21, 2009.

    Examples
    --------
    The machine is a function here; yours starts a job.

    >>> from toruscast.mapping import patterns, strategies
    >>> from toruscast.simulation import simulate
    >>> halo, torus = patterns.halo_2d((4, 4), 4096, periodic=True), Torus((4, 4))
    >>> def machine(mapping):
    ...     return 5e-5 + 1.2 * simulate(halo, torus, mapping).time
    >>> runs = plan(halo, torus, strategies.sample(halo, torus, n=20), noise=0.001)
    >>> while not runs.is_enough and runs.n_runs < 20:
    ...     for mapping in runs.ask():
    ...         runs.tell(mapping, machine(mapping))
    >>> runs.best.name, runs.standing.kind, runs.n_runs < 10
    ('identity', 'sure', True)
    """
    several = as_mappings(mappings)
    if not several:
        raise InputError("no mapping to plan runs of")
    chosen = load_fitted(model) if isinstance(model, str) else model
    checks.check_model(chosen)
    workload = as_workload(traffic)
    checks.check_sends(workload)
    features = extract(
        workload,
        torus,
        several,
        routing=routing,
        features=chosen.required_columns,
        also={APART: attrgetter("rounds_apart")},
        n_jobs=job_count(n_jobs),
        progress=progress,
    )
    prior, _ = prior_of(chosen, features, workload, torus, routing, several)
    made = Plan(
        several,
        prior,
        noise=noise,
        goal=goal,
        seed=seed,
        workload=workload,
        routing=routing,
    )
    is_file = isinstance(times, str | os.PathLike)
    if times is not None and (not is_file or holds_runs(times)):
        made.tell_all(times)
    return made
