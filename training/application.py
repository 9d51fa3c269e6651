"""Training of a predictor for one application and torus on simulated times."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import KFold

from toruscast._slow import pandas as pd
from toruscast.mapping import MappingProblem
from toruscast.mapping.problem import as_problem
from toruscast.mapping.strategies import Placement
from toruscast.mapping.strategies.sampling import count_remaining, sample_inequivalent
from toruscast.notebook import Result
from toruscast.routing import Routing
from toruscast.text import counted
from toruscast.typing import Floats
from toruscast.validation import SEED, Progress, Seed, check_type, seed_number

from .evaluation import PUBLISHED_SHARE, forecast_splits, repeated_splits, summarise
from .feature_sets import feature_set, needed_level
from .fitted import check_traffic
from .predictor import TimePredictor
from .samples import build_samples

if TYPE_CHECKING:
    from toruscast.mapping.problem import Mappings, ProblemLike, TorusLike

DEFAULT_N_SAMPLES = 168


@dataclass(frozen=True, eq=False)
class Training(Result):
    """A predictor for one application and torus, fitted to all ``samples``.

    ``table`` is the result of `summarise` on held-out samples, over ``n_splits`` splits with
    ``seed``. ``problem`` is the simulated application and torus, or None if there are several.
    """

    model: TimePredictor
    samples: pd.DataFrame
    table: pd.DataFrame
    n_splits: int
    seed: int
    problem: MappingProblem | None = None

    def __repr__(self) -> str:
        rcc = self.table.set_index("metric")["mean"]["rcc"]
        samples = counted(len(self.samples), "sample")
        return f"Training({samples}, RCC {rcc:.3f} on held-out mappings)"


def train(
    comm: ProblemLike,
    torus: TorusLike | None = None,
    n: int | None = None,
    *,
    seed: Seed = SEED,
    exclude: Mappings = (),
    model: TimePredictor | None = None,
    routing: Routing = "deterministic",
    store_path: str | os.PathLike[str] | None = None,
    n_splits: int = 20,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> Training:
    """Train a predictor for one application and torus on simulated times of other mappings.

    Parameters
    ----------
    n : int, optional
        Number of mappings to simulate, drawn by `toruscast.mapping.strategies.sample`; by default
        168, or all if there are fewer.
    seed : int
        Seed of the sample and the splits.
    exclude : mappings, as in `rank`
        Mappings to exclude from training, such as the candidates to rank; equivalent mappings are
        excluded too.
    model : TimePredictor, optional
        The estimator; by default, one that learns corrections of coarse simulations from the
        feature set ``coarse``.
    store_path : path-like, optional
        File for the samples, from which an interrupted run continues. Not written by default.
    n_splits : int
        Number of splits on which the quality is measured.
    n_jobs : int, optional
        Number of threads for the simulations, and of processes for the splits.
    progress : callable, optional
        Called with "samples" or "splits", the number finished, and the total number.
    """
    seed = seed_number(seed)
    check_type(model, "model", TimePredictor | None, "a TimePredictor")
    estimator = TimePredictor("coarse", "correction") if model is None else clone(model)
    names = () if estimator.features is None else feature_set(estimator.features)
    problem = as_problem(comm, torus, routing)
    work: dict[str, Any] = {"seed": seed, "n_jobs": n_jobs, "progress": progress}
    level = needed_level(names, estimator.target)
    samples = draw_samples(problem, n, exclude=exclude, level=level, store_path=store_path, **work)
    return replace(train_on(samples, estimator, n_splits=n_splits, **work), problem=problem)


def draw_samples(
    problem: MappingProblem,
    n: int | None = None,
    *,
    seed: int = SEED,
    exclude: Mappings = (),
    tasks_per_node: int | None = None,
    level: int = 1,
    store_path: str | os.PathLike[str] | None = None,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """Draw mappings of one application and simulate them.

    Mappings that are equivalent by a symmetry of the torus are drawn only if there are too few
    others.
    """
    check_traffic(problem.workload)
    excluded = problem.mappings(exclude)
    if tasks_per_node is None:
        tasks_per_node = max((mapping.tasks_per_node for mapping in excluded), default=None)
    placement = Placement(problem, tasks_per_node)
    if n is None:
        n = int(min(DEFAULT_N_SAMPLES, count_remaining(placement, excluded)))
    mappings, _ = sample_inequivalent(placement, n, seed, excluded)
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
    seed: int = SEED,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> Training:
    """Measure the quality of a model on splits of the samples, then fit it to all of them.

    With several applications or tori, all samples of each are in the same fold. The intervals then
    apply to an unseen application or torus, but are too narrow with only two or three of them.
    """
    scores = repeated_splits(
        samples, model, n_splits=n_splits, seed=seed, n_jobs=n_jobs, progress=progress
    )
    labels = [samples[name].astype(str) for name in ("workload", "torus") if name in samples]
    groups = next((label for label in labels if 1 < label.nunique() < len(samples)), None)
    fitted = model.fit(samples, samples["time"], groups=groups)
    return Training(fitted, samples, summarise(scores), n_splits, seed)


def predict_held_out(samples: pd.DataFrame, model: TimePredictor) -> Floats:
    """Return the times (s) predicted in a five-fold cross-validation, ``(n_samples,)``."""
    folds = KFold(min(5, len(samples)), shuffle=True, random_state=0)
    forecasts = forecast_splits(samples, {"model": model}, list(folds.split(samples)))
    return forecasts.sort_values("row")["forecast"].to_numpy(dtype=np.float64)


def learning_curve(result: Training) -> pd.DataFrame:
    """Return the RCC for a quarter, half and all of the training samples, as rows of `summarise`.

    The number of splits and the seed are those of ``result``; the last row has its scores.
    """
    rows = []
    for divisor in (4, 2):
        scores = repeated_splits(
            result.samples,
            result.model,
            n_splits=result.n_splits,
            train_share=PUBLISHED_SHARE / divisor,
            seed=result.seed,
        )
        n_train = int(scores["n_train"].iloc[0])
        rows.append(summarise(scores).assign(n_train=n_train))
    rows.append(result.table.assign(n_train=round(PUBLISHED_SHARE * len(result.samples))))
    curve = pd.concat(rows, ignore_index=True)
    return curve[curve["metric"] == "rcc"]
