"""Learning about one application on one torus from simulated times of its mappings."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sklearn.base import clone

from toruscast._slow import pandas as pd
from toruscast.mapping import CommGraph, MappingProblem, TaskMapping, Workload
from toruscast.mapping.machines import TorusLike
from toruscast.mapping.strategies import Placement
from toruscast.mapping.strategies.sampling import count_remaining, sample_inequivalent
from toruscast.notebook import html_card
from toruscast.routing import Routing
from toruscast.text import counted
from toruscast.validation import check_type

from .evaluation import repeated_splits, summarise
from .feature_sets import feature_set, needed_level
from .fitted import check_sends
from .predictor import TimePredictor
from .samples import build_samples

USUAL = 168
"""Mappings to learn from, if not told otherwise."""


@dataclass(frozen=True, eq=False)
class Training:
    """A predictor made for one application and torus, fitted on all ``samples``.

    ``quality`` is how it forecasts samples held out, as `summarise` gives it. ``problem`` is what
    was simulated, where the samples are of one.
    """

    model: TimePredictor
    samples: pd.DataFrame
    quality: pd.DataFrame
    problem: MappingProblem | None = None

    def __repr__(self) -> str:
        rcc = self.quality.set_index("metric")["mean"]["rcc"]
        samples = counted(len(self.samples), "sample")
        return f"Training({samples}, RCC {rcc:.3f} on held-out mappings)"

    def _repr_html_(self) -> str:
        return html_card(self)


def train(
    traffic: Workload | CommGraph,
    torus: TorusLike,
    n: int | None = None,
    *,
    seed: int = 1,
    exclude: Sequence[TaskMapping] = (),
    model: TimePredictor | None = None,
    routing: Routing = "deterministic",
    store_path: str | os.PathLike[str] | None = None,
    n_splits: int = 20,
    n_jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Training:
    """Train a predictor for one application and torus on simulated times of other mappings.

    Parameters
    ----------
    n : int, optional
        Mappings to simulate, drawn by `toruscast.mapping.strategies.sample`; 168 if not given, or
        all that there are.
    seed : int
        Seed of the sample and the splits.
    exclude : sequence of TaskMapping
        Mappings to keep out of training, with those equivalent to them: the candidates to be
        ranked.
    model : TimePredictor, optional
        The learner; corrections of the sketch, from the features ``coarse``, if not given.
    store_path : path-like, optional
        Where the samples are kept, so that a run that was stopped can go on; nowhere if not given.
    n_splits : int
        Splits that measure the quality.
    n_jobs : int, optional
        Threads of the simulations, and processes of the splits.
    progress : callable, optional
        Called with the number of samples done and the number of all.
    """
    check_type(model, "model", TimePredictor | None, "a TimePredictor")
    learner = TimePredictor("coarse", "correction") if model is None else clone(model)
    names = () if learner.features is None else feature_set(learner.features)
    problem = MappingProblem(traffic, torus, routing)
    samples = draw_samples(
        problem,
        n,
        seed=seed,
        exclude=exclude,
        level=needed_level(names, learner.target),
        store_path=store_path,
        n_jobs=n_jobs,
        progress=progress,
    )
    made = train_on(samples, learner, n_splits=n_splits, seed=seed, n_jobs=n_jobs)
    return replace(made, problem=problem)


def draw_samples(
    problem: MappingProblem,
    n: int | None = None,
    *,
    seed: int = 1,
    exclude: Sequence[TaskMapping] = (),
    tasks_per_node: int | None = None,
    level: int = 1,
    store_path: str | os.PathLike[str] | None = None,
    n_jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> pd.DataFrame:
    """Simulate mappings of one application, as `train` does.

    No two of them are alike but for a symmetry of the torus, unless there are too few others.
    """
    check_sends(problem.workload)
    known = problem.mappings(exclude)
    if tasks_per_node is None:
        tasks_per_node = max((mapping.tasks_per_node for mapping in known), default=None)
    placement = Placement(problem, tasks_per_node)
    if n is None:
        n = int(min(USUAL, count_remaining(placement, known)))
    mappings, _ = sample_inequivalent(placement, n, seed, known)
    return build_samples(
        [(problem.workload, problem.torus, mappings)],
        store_path,
        n_jobs=n_jobs,
        level=level,
        routing=problem.routing,
        progress=progress,
        provenance={"seed": seed},
    )


def train_on(
    samples: pd.DataFrame,
    model: TimePredictor,
    *,
    n_splits: int = 20,
    seed: int = 1,
    n_jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Training:
    """Fit a model on all samples once splits of them have measured its quality.

    Where there are several applications, or tori, intervals are made for one that was not learned
    from; of two or three they are too narrow.
    """
    scores = repeated_splits(
        samples, model, n_splits=n_splits, seed=seed, n_jobs=n_jobs, progress=progress
    )
    known = [samples[name].astype(str) for name in ("workload", "torus") if name in samples]
    several = (each for each in known if 1 < each.nunique() < len(samples))
    fitted = model.fit(samples, samples["time"], groups=next(several, None))
    return Training(fitted, samples, summarise(scores))
