"""The answer: which mapping is fastest, how sure that is, and which links are hot."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from toruscast.errors import InputError
from toruscast.features import FEATURES, RoutedTraffic, extract
from toruscast.features.reasons import hottest_links
from toruscast.mapping import CommGraph, TaskMapping, Torus, Workload, as_workload
from toruscast.mapping.strategies.twins import unlike
from toruscast.mapping.task_mapping import as_mappings
from toruscast.routing import Routing
from toruscast.routing.routing import phase_routings, ways_are_open

from ._relative import LOWER_BOUND, SKETCH_TIME, TARGET_COLUMNS
from ._seconds import ask_for_seconds, observed_seconds
from .evaluate import repeated_splits, summarise
from .feature_sets import SKETCHED, Target, feature_set
from .predictor import TimePredictor
from .samples import build_samples

RANKING_FEATURES = ("lower_bound", "max_bytes", "hop_bytes", "avg_hops_per_byte", "max_FIFO")
HOT_LINKS = 3
# Of the lower bound: forecasts below are no scatter about the bound.
_SURELY = 0.9
# By how much more or less than all values of a feature learned from others are far from them.
_FAR = 2.0


@dataclass(frozen=True, eq=False)
class Training:
    """A predictor made for one application and torus.

    Attributes
    ----------
    model : TimePredictor
        Fitted on all samples.
    samples : DataFrame
        What it learned from.
    quality : DataFrame
        How it forecasts samples kept out of training, as `summarise` gives it.
    n_twins : int
        Samples with the distances of another one or of an excluded mapping, for want of others.
    """

    model: TimePredictor
    samples: pd.DataFrame
    quality: pd.DataFrame
    n_twins: int


def rank(
    traffic: Workload | CommGraph,
    torus: Torus,
    mappings: TaskMapping | Sequence[TaskMapping],
    model: TimePredictor,
    *,
    routing: Routing = "deterministic",
    coverage: float = 0.9,
    observed: ArrayLike | None = None,
    n_jobs: int = 1,
) -> pd.DataFrame:
    """Rank mappings by their predicted times, fastest first.

    Where the model corrects the sketch and the sketch is the simulation itself (no edge has more
    than one packet), there is nothing to correct: times and both ends of the intervals are its. The
    first simulation on a machine takes up to half a minute longer, to be compiled.

    Parameters
    ----------
    traffic, torus, mappings
        What is sent, over which network, and the candidates.
    model : TimePredictor
        Fitted on named features.
    routing : {"deterministic", "adaptive", "by_size"}
        As in the samples that the model learned from.
    coverage : float
        Share of the cases in which the interval ``low`` to ``high`` holds the time.
    observed : array-like of float, shape (n_mappings,), optional
        Times where they are known, seconds; shown in the column ``observed_time``.
    n_jobs : int
        Threads for the features.

    Returns
    -------
    DataFrame
        A row per mapping: ``rank, mapping, predicted_time, low, high`` (seconds), ``p_best`` (the
        probability of being the fastest), the main metrics, ``sketch_time`` where the model reads
        the sketch, and ``hot_links``, the busiest links by name with the time that each is busy.

    Raises
    ------
    InputError
        If there is no mapping, one does not fit, or the model needs a feature that is not known.

    Warns
    -----
    UserWarning
        If the model learned from times under another routing, or plain times of mappings far from
        these, or puts mappings below the time that they take at least, its intervals rest on too
        few samples, or observed times seem to be in another unit.
    """
    mappings = as_mappings(mappings)
    times = None if observed is None else observed_seconds(observed, len(mappings))
    if not mappings:
        raise InputError("no mapping to rank")
    if not isinstance(model, TimePredictor):
        raise InputError(
            "bad model", found=model, expected="a TimePredictor, such as load_predictor()"
        )
    needed = model.required_columns
    if not needed:
        raise InputError("model without feature names", expected="one fitted on a table")
    unknown = [name for name in needed if name not in FEATURES]
    if unknown:
        raise InputError(
            "the model reads features that are not registered",
            found=", ".join(unknown),
            expected="a function for each, as when it was trained (--plugin FILE.py)",
        )
    # The sketch is simulated for the model anyway: its own word is worth seeing.
    sketch = (SKETCH_TIME,) if SKETCHED & set(needed) else ()
    names = tuple(dict.fromkeys((*needed, *RANKING_FEATURES, *sketch)))
    table = extract(
        traffic,
        torus,
        mappings,
        routing=routing,
        features=names,
        n_jobs=n_jobs,
    )
    workload = as_workload(traffic)
    if model.target == "correction" and sketch_is_exact(workload, torus, mappings[0]):
        forecast = _simulated(table[SKETCH_TIME].to_numpy())
    else:
        low, high = model.predict_interval(table, coverage).T
        forecast = {
            "predicted_time": model.predict(table),
            "low": low,
            "high": high,
            "p_best": model.probability_of_best(table),
        }
    ranking = pd.DataFrame(
        {
            "mapping": [mapping.name or str(i) for i, mapping in enumerate(mappings)],
            **forecast,
            **{name: table[name].to_numpy() for name in (*RANKING_FEATURES, *sketch)},
        }
    )
    learned = model.provenance_.get("routing", routing)
    learned = [learned] if isinstance(learned, str) else learned
    ways = phase_routings(routing, workload, torus)
    if any(phase_routings(each, workload, torus) != ways for each in learned):
        told = " and ".join(learned)
        warnings.warn(f"the model learned from {told} routing, not {routing}", stacklevel=2)
    far = _far_features(model, table) if model.target == "time" else []
    if far:
        warnings.warn(
            f"most mappings lie far from those that the model learned from, in {', '.join(far[:3])}"
            f"{' and others' if len(far) > 3 else ''}: trees know nothing beyond, and intervals do "
            "not tell; the targets 'slowdown' and 'correction' carry over",
            stacklevel=2,
        )
    too_fast = int((ranking["predicted_time"] < _SURELY * ranking["lower_bound"]).sum())
    if too_fast and not ways_are_open(workload, torus, routing):
        # Relative times fall below their bound only where some did that were learned from.
        cause = (
            "as one that learned plain times of something faster does; the targets 'slowdown' and "
            "'correction' carry over"
            if model.target == "time"
            else "as times that it learned from were below theirs: were they in seconds?"
        )
        warnings.warn(
            f"the model puts {too_fast} of {len(ranking)} mappings below the time that they take "
            f"at least, {cause}",
            stacklevel=2,
        )
    if times is not None:
        about = SKETCH_TIME if sketch else LOWER_BOUND
        ask_for_seconds(times, ranking[about].to_numpy(), about)
        ranking.insert(2, "observed_time", times)
    ranking["hot_links"] = [
        hot_links(RoutedTraffic(workload, torus, mapping, routing)) for mapping in mappings
    ]
    ranking = ranking.sort_values("predicted_time", kind="stable", ignore_index=True)
    ranking.insert(0, "rank", np.arange(1, len(ranking) + 1))
    return ranking


def sketch_is_exact(traffic: Workload | CommGraph, torus: Torus, mapping: TaskMapping) -> bool:
    """Whether the sketch is the simulation itself, under any mapping.

    Examples
    --------
    >>> comm = CommGraph(2, [0, 1], [1, 0], [500, 500])
    >>> sketch_is_exact(comm, Torus((8,)), TaskMapping([0, 1], 8))
    True
    """
    return RoutedTraffic(as_workload(traffic), torus, mapping).sketch_coarsening == 1


def _simulated(times: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """Times that need no forecast, as `rank` gives forecasts."""
    fastest = times == times.min()
    return {"predicted_time": times, "low": times, "high": times, "p_best": fastest / fastest.sum()}


def _far_features(model: TimePredictor, table: pd.DataFrame) -> list[str]:
    """Return the features in which most mappings lie far from all that the model learned from."""
    names = [str(name) for name in model.feature_names_in_]
    values = table[names].to_numpy()
    least, most = model.feature_least_, model.feature_most_
    is_far = (values < np.minimum(least, least / _FAR)) | (values > np.maximum(most, most * _FAR))
    return [name for name, share in zip(names, is_far.mean(axis=0), strict=True) if share > 0.5]


def hot_links(traffic: RoutedTraffic, n: int = HOT_LINKS) -> str:
    """Return the ``n`` links that are busy longest, as text.

    Examples
    --------
    >>> comm = CommGraph(2, [0, 1], [1, 0], [2000, 1000])
    >>> hot_links(RoutedTraffic(comm, Torus((8,)), TaskMapping([0, 1], 8)))
    '(0) +0 1.1 us, (1) -0 0.5 us'
    """
    links = hottest_links(traffic, n)
    return ", ".join(
        f"{label} {1e6 * busy:.1f} us"
        for label, busy in zip(links["label"], links["busy"], strict=True)
    )


def train_for(
    traffic: Workload | CommGraph,
    torus: Torus,
    n: int = 168,
    *,
    seed: int = 1,
    exclude: Sequence[TaskMapping] = (),
    model: TimePredictor | None = None,
    routing: Routing = "deterministic",
    store_path: str | os.PathLike[str] | None = None,
    n_splits: int = 20,
    n_jobs: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> Training:
    """Train a predictor for one application and torus on simulated times of other mappings.

    Parameters
    ----------
    traffic, torus
        What is sent, and over which network.
    n : int
        Mappings to simulate, drawn by `toruscast.mapping.strategies.sample`.
    seed : int
        Seed of the sample and the splits.
    exclude : sequence of TaskMapping
        Mappings to keep out of training, with those equivalent to them: the candidates to be
        ranked.
    model : TimePredictor, optional
        The learner; corrections of the sketch, from the features ``sketch``, if not given.
    routing : {"deterministic", "adaptive", "by_size"}
        Of the features and the simulation.
    store_path : path-like, optional
        Where the samples are kept, so that a run that was stopped can go on; nowhere if not given.
    n_splits : int
        Splits that measure the quality.
    n_jobs : int
        Threads of the simulations, and processes of the splits.
    progress : callable, optional
        Called with the number of samples done and the number of all.

    Returns
    -------
    Training

    Raises
    ------
    InputError
        If the tasks do not fit the torus, it has fewer different mappings, or nothing is sent.
    """
    if not any(phase.whole_messages.any() for phase in as_workload(traffic)):
        raise InputError("at most half a message on every edge: no times to learn")
    learner = TimePredictor("sketch", "correction") if model is None else clone(model)
    names = () if learner.features is None else feature_set(learner.features)
    mappings, n_twins = unlike(traffic, torus, n, seed, exclude)
    with tempfile.TemporaryDirectory() as folder:
        samples = build_samples(
            [(traffic, torus, mappings)],
            Path(folder) / "samples.parquet" if store_path is None else store_path,
            n_jobs=n_jobs,
            level=needed_level(names, learner.target),
            routing=routing,
            progress=progress,
            provenance={"seed": seed},
        )
    quality = summarise(
        repeated_splits(samples, learner, n_splits=n_splits, seed=seed, n_jobs=n_jobs)
    )
    learner.fit(samples, samples["time"])
    return Training(learner, samples, quality, n_twins)


def needed_level(names: Iterable[str], target: Target | None = None) -> int:
    """Return 2 where one of the features, or the target, needs the simulator, else 1.

    Examples
    --------
    >>> needed_level(["max_bytes"]), needed_level(["max_bytes"], "correction")
    (1, 2)
    """
    needed = (*names, *(TARGET_COLUMNS[target] if target is not None else ()))
    return max((FEATURES[name].level for name in needed if name in FEATURES), default=1)
