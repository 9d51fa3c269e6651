"""Evaluation of feature sets on held-out mappings, and of metrics that the user adds."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

from sklearn.base import clone

from toruscast._features import FEATURES
from toruscast._features.registry import select_features
from toruscast._slow import pandas as pd
from toruscast.errors import InputError
from toruscast.mapping.problem import as_problem
from toruscast.notebook import Result
from toruscast.routing import Routing
from toruscast.text import closest, shown_name
from toruscast.training.application import draw_samples
from toruscast.training.evaluation import (
    BOUNDS,
    HoldOut,
    MetricEvaluation,
    PMNFBaseline,
    baseline_scores,
    evaluate_metrics,
    rcc_gains,
    repeated_splits,
    summarise,
)
from toruscast.training.evaluation import hold_out as score_held_out
from toruscast.training.feature_sets import (
    FEATURE_SETS,
    Target,
    feature_set,
    features_only,
    needed_level,
    usual_target,
)
from toruscast.training.metrics import METRICS_OF_RUNS
from toruscast.training.predictor import TimePredictor
from toruscast.training.samples import build_samples
from toruscast.training.store import read_samples
from toruscast.validation import (
    SEED,
    Progress,
    Seed,
    check_type,
    one_of,
    progress_of,
    seed_number,
    whole_number,
)

from .measured import RunModel, learn_runs, make_line_model

if TYPE_CHECKING:
    from toruscast.mapping.problem import Mappings, ProblemLike, TorusLike

    from .runs import Times

Sets = Mapping[str, Sequence[str]]
_BASELINE = "analytic"
_DEFAULT_N_SPLITS = 50


@dataclass(frozen=True, eq=False)
class Evaluation(Result):
    """How well feature sets predict held-out mappings; made by `evaluate`.

    Attributes
    ----------
    samples : DataFrame
        Features and times, a row per mapping.
    sets : dict of str to tuple of str
        The features of each set.
    scores : DataFrame
        A row per predictor and split, as `repeated_splits` returns; with ``hold_out``, a row per
        predictor and held-out workload and torus.
    metrics : tuple of str
        The user's own metrics.
    hold_out : str or None
        The kind of groups that were held out; None for random mappings.
    added : MetricEvaluation or None
        Gain from adding the metrics to each of two sets, if no sets were given.
    small_to_large : DataFrame or None
        With a baseline, scores of predictors that are trained on the smaller sizes and tested on
        the largest.
    baselines : DataFrame or None
        RCC of rankings without learning, on the same splits.
    learned : RunModel or None
        The model of measured times, if times were given.
    """

    samples: pd.DataFrame
    sets: Sets
    scores: pd.DataFrame
    metrics: tuple[str, ...] = ()
    hold_out: HoldOut | None = None
    added: MetricEvaluation | None = None
    small_to_large: pd.DataFrame | None = None
    baselines: pd.DataFrame | None = field(default=None, repr=False)
    learned: RunModel | None = None

    @property
    def table(self) -> pd.DataFrame:
        """A row per feature set: the mean of each metric, and two 95 % intervals.

        ``rcc_low`` to ``rcc_high`` is the interval of RCC over the splits. ``gain`` is the mean
        gain in RCC over the first set, and ``gain_low`` to ``gain_high`` is its interval. With
        ``hold_out``, the table is ``scores``; with metrics alone, it is their gain for each
        workload and torus.
        """
        if self.added is not None:
            return self.added.blocks
        if self.hold_out is not None:
            return self.scores
        means = summarise(self.scores).set_index(["metric", "predictor"])
        gain = rcc_gains(self.scores).rename(columns={"low": "gain_low", "high": "gain_high"})
        rcc = means.loc["rcc", ["low", "high", "first_split"]].add_prefix("rcc_")
        table = means["mean"].unstack(0)[means.index.unique(0)].join([rcc, gain])
        return table.loc[self.scores["predictor"].unique()].rename_axis("features")

    @property
    def rcc(self) -> pd.Series[float]:
        """Mean RCC by predictor, best first."""
        if self.added is not None:
            return self.added.gains["rcc"].sort_values(ascending=False, kind="stable")
        means = self.scores.groupby("predictor", sort=False)["rcc"].mean()
        return means.fillna(-1).sort_values(ascending=False, kind="stable")

    @property
    def best(self) -> str:
        """The feature set with the largest RCC."""
        return next(str(name) for name in self.rcc.index if name not in BOUNDS.values())

    def __repr__(self) -> str:
        held_out = f"held-out {self.hold_out}" if self.hold_out else "held-out mappings"
        return f"Evaluation({shown_name(self.best)}: RCC {self.rcc[self.best]:.3f} on {held_out})"


def evaluate(
    comm: ProblemLike | None = None,
    torus: TorusLike | None = None,
    mappings: Mappings = (),
    *,
    samples: pd.DataFrame | str | os.PathLike[str] | None = None,
    times: Times | None = None,
    features: str | Sequence[str] | Sets | None = None,
    metrics: Sequence[str] = (),
    model: TimePredictor | None = None,
    target: Target | None = None,
    hold_out: HoldOut | None = None,
    baseline: Literal["pmnf"] | None = None,
    n: int | None = None,
    level: Literal[1, 2] | None = None,
    n_splits: int | None = None,
    routing: Routing = "deterministic",
    seed: Seed = SEED,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Evaluate how well feature sets predict the times of held-out mappings.

    Models are trained on two thirds of the mappings and tested on one third, repeatedly.

    Parameters
    ----------
    comm, torus, mappings
        Mappings to simulate, see `MappingProblem`; by default ``n`` are drawn.
    samples : DataFrame or path, optional
        Features and times of mappings (`training.build_samples`), instead of a problem.
    times : path, dict of names to seconds, DataFrame or Runs, optional
        Measured times of the mappings. The sets then correct a linear function of a reference time.
    features : str, sequence of str, or dict of str to sequence of str, optional
        Names of sets, names of single features, or your own sets. Gains are relative to the first
        set. By default, all named sets whose features are in the samples.
    metrics : sequence of str
        Your own features (`register_feature`). Without ``features``, measure how much they add to
        the set ``prior`` and to the best set.
    model : TimePredictor, optional
        The estimator; its features and target are ignored.
    target : {"correction", "slowdown", "time"}, optional
        Quantity to learn; by default, `usual_target` of the features.
    hold_out : {"application", "kind", "torus", "size"}, optional
        Instead of random mappings, hold out each application, kind of traffic or torus in turn, or
        the largest size.
    baseline : {"pmnf"}, optional
        Compare with a scaling model of message size, number of nodes and lower bound.
    n : int, optional
        Number of mappings to simulate; by default 168, or all if there are fewer.
    level : {1, 2}, optional
        2 adds the features that need the simulator; by default, the level that the sets need.
    n_splits : int, optional
        Number of random splits; by default 50, or 10 for ``metrics`` without ``features``.
    n_jobs : int, optional
        Threads of the simulations, and processes of the splits.
    progress : callable, optional
        Called with the stage ("samples", "features", "splits" or "groups"), the finished number and
        the total number.

    Examples
    --------
    >>> from toruscast.mapping import patterns
    >>> halo = patterns.halo_2d((4, 4), 4096, periodic=True)
    >>> result = evaluate(halo, "4x4", features=["prior", "max_bytes"], n=24, n_splits=5)
    >>> result.table.index.tolist(), result.table["gain"]["prior"]
    (['prior', 'max_bytes'], np.float64(0.0))
    """
    if target is not None:
        one_of(target, "target", get_args(Target))
    if hold_out is not None:
        one_of(hold_out, "hold_out", get_args(HoldOut))
    if baseline is not None:
        one_of(baseline, "baseline", ("pmnf",))
    min_level = whole_number(1 if level is None else level, "level", 1, 2)
    check_type(model, "model", TimePredictor | None, "a TimePredictor")
    check_type(metrics, "metrics", Sequence, "names of features")
    metrics, seed = tuple(metrics), seed_number(seed)
    estimator = TimePredictor() if model is None else model
    options: dict[str, Any] = {"n_jobs": n_jobs, "progress": progress_of(progress, "groups")}
    work: dict[str, Any] = {"seed": seed, "n_jobs": n_jobs, "progress": progress}
    split_options = {"n_splits": _DEFAULT_N_SPLITS if n_splits is None else n_splits} | work
    if times is not None and not (samples is None and hold_out is None and baseline is None):
        raise InputError("times, and samples, a hold_out or a baseline", expected="times alone")
    if samples is not None:
        if comm is not None:
            raise InputError("samples and a communication graph", expected="one of them")
        check_type(samples, "samples", pd.DataFrame | str | os.PathLike, "a table or its file")
        table = samples if isinstance(samples, pd.DataFrame) else read_samples(samples)
    else:
        sets = _parse_sets(features, metrics, FEATURES)
        names = [name for selected in sets.values() for name in selected]
        if comm is None:
            raise InputError("nothing to evaluate on", expected="comm and torus, or samples=")
        if times is not None:
            more_features = names or [item.name for item in select_features(None, min_level)]
            learned = learn_runs(
                comm, torus, mappings, times, more=more_features, routing=routing, **work
            )
            return _evaluate_runs(learned, sets, metrics, split_options)
        problem = as_problem(comm, torus, routing)
        level_needed = max(min_level, needed_level(names, target))
        if candidates := problem.mappings(mappings):
            table = build_samples(
                [(problem.workload, problem.torus, candidates)],
                routing=problem.routing,
                level=level_needed,
                n_jobs=n_jobs,
                progress=progress,
            )
        else:
            table = draw_samples(problem, n, level=level_needed, **work)
    if metrics and features is None and not hold_out and not baseline:
        added = evaluate_metrics(
            table, metrics, n_splits=10 if n_splits is None else n_splits, seed=seed, **options
        )
        return Evaluation(table, {}, pd.DataFrame(), metrics, added=added)
    sets = _check_sets(_parse_sets(features, metrics, {*FEATURES, *table.columns}), table)
    learners: dict[str, Any] = {} if baseline is None else {baseline: PMNFBaseline()}
    for name, selected in sets.items():
        parameters = {"features": selected, "target": target or usual_target(selected)}
        learners[name] = clone(estimator).set_params(**parameters)
    if hold_out:
        scores = score_held_out(table, learners, hold_out, **options)
        return Evaluation(table, sets, scores, metrics, hold_out)
    scores = repeated_splits(table, learners, **split_options)
    small_to_large = None
    if baseline and len(table[["workload", "torus"]].drop_duplicates()) > 1:
        small_to_large = score_held_out(table, learners, "size", **options)
    return Evaluation(
        table,
        sets,
        scores,
        metrics,
        small_to_large=small_to_large,
        baselines=baseline_scores(table, split_options["n_splits"], seed),
    )


def _evaluate_runs(
    learned: RunModel,
    sets: dict[str, tuple[str, ...]],
    metrics: tuple[str, ...],
    options: Mapping[str, Any],
) -> Evaluation:
    """Score a linear model of measured times, and its corrections by each feature set."""
    table, reference = learned.table.assign(time=learned.runs.times), learned.model.reference
    sets = _check_sets(sets, table)
    models = {f"line in {reference}": make_line_model(reference)}
    for name, selected in sets.items():
        models[name] = TimePredictor(selected, "measured", reference=reference)
    scores = repeated_splits(table, models, metrics=METRICS_OF_RUNS, **options)
    return Evaluation(table, sets, scores, metrics, learned=learned)


def _parse_sets(
    features: str | Sequence[str] | Sets | None, metrics: tuple[str, ...], known: Any
) -> dict[str, tuple[str, ...]]:
    """Return the features of each set, by the name of the set.

    Without ``features``, the sets are the baseline, the metrics, and both together. Without metrics
    either, the result is empty, and `_check_sets` later selects all sets in the samples. ``known``
    contains the allowed names of features.
    """
    if features is None and not metrics:
        return {}
    if features is None:
        base, joined = FEATURE_SETS[_BASELINE], " and ".join(metrics)
        return {_BASELINE: base, f"{_BASELINE}+{joined}": (*base, *metrics), joined: metrics}
    if isinstance(features, str):
        features = (features,)
    if isinstance(features, Mapping):
        return {name: feature_set(selected) for name, selected in features.items()}
    check_type(features, "features", Sequence, "names of sets or features, or a dictionary of sets")
    sets = {}
    for name in features:
        if not isinstance(name, str) or name not in {*FEATURE_SETS, *known}:
            similar = closest(str(name), (*FEATURE_SETS, *known), "a name of FEATURE_SETS")
            raise InputError("unknown feature or feature set", found=name, expected=similar)
        sets[name] = FEATURE_SETS.get(name, (name,))
    return sets


def _check_sets(
    sets: dict[str, tuple[str, ...]], table: pd.DataFrame
) -> dict[str, tuple[str, ...]]:
    """Return the sets, or all in the table if none; raise `InputError` for missing features."""
    columns = set(table.columns)
    if not sets:
        sets = {name: names for name, names in FEATURE_SETS.items() if columns.issuperset(names)}
        numbers = features_only(table).select_dtypes("number")
        sets = sets or {"all": tuple(map(str, numbers.columns))}
    missing = [name for names in sets.values() for name in names if name not in columns]
    if missing:
        message, found = "features missing from the samples", ", ".join(dict.fromkeys(missing))
        expected = "samples with them; --comm and --torus simulate new ones"
        raise InputError(message, found=found, expected=expected)
    return sets
