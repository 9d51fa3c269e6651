"""Models of measured times: linear in a reference time, with feature corrections if they help."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np
import scipy
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.dummy import DummyRegressor
from sklearn.model_selection import KFold, cross_val_predict

from toruscast._slow import pandas as pd
from toruscast.errors import InputWarning
from toruscast.mapping import MappingProblem, TaskMapping
from toruscast.mapping.problem import as_problem
from toruscast.notebook import Result
from toruscast.routing import Routing
from toruscast.text import factor, percent
from toruscast.training.feature_sets import (
    FEATURE_SETS,
    REFERENCES,
    feature_set,
    references_to_try,
    with_references,
)
from toruscast.training.metrics import r2, rcc_told_apart, regret
from toruscast.training.predictor import TimePredictor
from toruscast.training.residuals import PriorPrediction, TargetTransform
from toruscast.typing import Floats
from toruscast.validation import SEED, Progress, Seed, progress_of, seed_number, whole_number

from .posterior import TIME, ErrorComponent, Kernel, Posterior
from .runs import (
    SIGNIFICANCE,
    NothingToLearnError,
    Runs,
    Times,
    check_enough,
    find_measured,
    possible_rcc,
    tied_share,
)

if TYPE_CHECKING:
    from toruscast.mapping.problem import Mappings, ProblemLike, TorusLike

# Features are used if they reduce the held-out error by at least this share.
_MIN_GAIN = 0.1
# Errors below this, the usual precision of written times, count as 0.
_EXACT = 1e-5
# Trees with small leaves can correct a poor reference time. Trees with large leaves are robust to
# noise.
_SMALL_LEAF, _LARGE_LEAF = 1, 5
_N_FOLDS, _N_ROUNDS = 5, 2
# With this number of mappings or more, one round of cross-validation is precise enough.
_ONE_ROUND = 1000
# Maximum number of trees in the cross-validation; more hardly improve predictions.
_N_TREES_HELD_OUT = 40
# Hint at a drift if the rank correlation of times with their order in the file exceeds this.
_MIN_TREND = 0.8
# Maximum slope of measured against reference times. Network models are off by a small factor, but
# times in a wrong unit by a factor of a thousand.
_MAX_SLOPE = 30.0
# Minimum relative error of a measured time, and standard deviation of an unknown log time.
_MIN_ERROR, _UNKNOWN_STD = 1e-6, 100.0
LEARNED_MEDIAN = "median"
"""Source of times that are medians of runs, from which a model has learned."""


@dataclass(frozen=True, eq=False)
class RunModel(Result):
    """A model of measured times and its held-out scores; made by `learn_runs`.

    Attributes
    ----------
    table : DataFrame
        Features and reference times of the measured mappings, in the order of the runs.
    model : TimePredictor
        Model with the target ``measured``: a linear function of a reference time, plus corrections
        from features if they help.
    held_out : DataFrame
        A row per model that was tried, indexed by name, with the columns ``miss`` (mean relative
        error of held-out times) and ``offered`` (true for the selected model).
    predicted : ndarray, shape (n_rounds, n)
        Held-out predictions of the selected model, seconds.
    problem : MappingProblem or None
        The measured application and torus, if known.
    """

    table: pd.DataFrame
    model: TimePredictor
    runs: Runs
    held_out: pd.DataFrame
    predicted: Floats
    problem: MappingProblem | None = None

    def __repr__(self) -> str:
        kind = "a line and features" if self.corrected else "a line"
        return f"RunModel({kind} in {self.model.reference}, from {self.runs!r})"

    @property
    def line(self) -> TargetTransform:
        """The line that gives measured times as a function of reference times."""
        line = self.model.relative_
        assert line is not None
        return line

    @cached_property
    def scores(self) -> dict[str, float]:
        """Scores of the held-out predictions.

        ``rcc`` counts the pairs whose times differ, ``rcc_possible`` is the maximum RCC under the
        noise, and ``tied`` is the share of pairs whose difference is within the noise. ``miss`` is
        the mean relative error, and ``miss_of_line`` is the error of the line alone. The others are
        ``r2`` and ``regret_1``.
        """
        times, predicted = self.runs.times, self.predicted
        return {
            "rcc": _mean_rcc(predicted, times),
            "rcc_possible": possible_rcc(self.runs),
            "tied": tied_share(self.runs),
            "r2": float(np.mean([r2(times, row) for row in predicted])),
            "miss": _mean_error(predicted, times),
            "miss_of_line": float(self.held_out["miss"][self.model.reference]),
            "regret_1": float(np.mean([regret(times, row) for row in predicted])),
        }

    @property
    def corrected(self) -> bool:
        """Whether features correct the line."""
        return bool(self.model.feature_importances_.any())


def fit_run_model(
    table: pd.DataFrame,
    runs: Runs,
    features: str | Sequence[str] | None = None,
    *,
    seed: int = 0,
    n_jobs: int | None = None,
) -> RunModel:
    """Select and fit a model of measured times by cross-validation.

    A measured time is a constant, common to all mappings, plus a multiple of a reference time,
    which a model of the network predicts. The reference is the one from `REFERENCES` with the
    smallest held-out error. Trees on features correct this model if they clearly reduce the
    held-out error.
    """
    measured, times = table.loc[list(runs.names)], runs.times
    check_enough(runs)
    n_rounds = _N_ROUNDS if len(measured) < _ONE_ROUND else 1
    # scikit-learn only accepts seeds of 32 bits.
    seeds = [(seed + i) % 2**32 for i in range(n_rounds)]
    n_folds = min(_N_FOLDS, len(measured))
    rounds = [KFold(n_folds, shuffle=True, random_state=state) for state in seeds]
    predicted: dict[str, Floats] = {}
    errors: dict[str, float] = {}

    def hold_out(models: Mapping[str, TimePredictor | DummyRegressor]) -> None:
        """Record the held-out predictions and the mean errors of models."""
        for name, model in models.items():
            predicted[name] = _predict_held_out(model, measured, times, rounds)
            errors[name] = _mean_error(predicted[name], times)

    hold_out({"median": DummyRegressor(strategy="median")})
    lines = {name: make_line_model(name) for name in REFERENCES if name in table.columns}
    hold_out(lines)
    # The sort is stable: among equal errors, the reference that is fastest to compute is first.
    line, *others = sorted(lines, key=lambda name: errors[name])
    names = feature_set(features) if features else tuple(map(str, table.columns))
    base = TimePredictor(names, "measured", random_state=seeds[0], n_jobs=n_jobs)
    leaves = [(name, _SMALL_LEAF) for name in (line, *others)] + [(line, _LARGE_LEAF)]
    trees = {
        f"{name} and features, leaves of {leaf}": clone(base).set_params(
            reference=name, min_samples_leaf=leaf
        )
        for name, leaf in leaves
    }
    hold_out(trees)
    corrected = min(trees, key=lambda name: errors[name])
    is_better = (
        errors[line] > _EXACT
        and errors[corrected] <= (1 - _MIN_GAIN) * errors[line]
        and _mean_rcc(predicted[corrected], times) >= _mean_rcc(predicted[line], times)
    )
    selected = corrected if is_better else line
    models = lines | trees
    line_is_valid = errors[line] < errors["median"] and _is_correlated(
        measured[line].to_numpy(), times, len(lines)
    )
    if not line_is_valid and not (
        errors[selected] <= (1 - _MIN_GAIN) * errors["median"]
        and _is_correlated(predicted[selected].mean(axis=0), times, len(models))
    ):
        min_error = min(errors[name] for name in models)
        raise _no_model_error(runs, errors["median"], min_error)
    held_out = pd.DataFrame({"miss": errors}).rename_axis("tried")
    held_out["offered"] = held_out.index == selected
    model = models[selected].fit(measured, times)
    return RunModel(measured, model, runs, held_out, predicted[selected])


def make_line_model(reference: str) -> TimePredictor:
    """Return a model of measured times that is linear in ``reference``, without corrections."""
    # The minimum leaf size is so large that the only tree has only one leaf.
    return TimePredictor(
        (reference,), "measured", reference=reference, n_estimators=1, min_samples_leaf=10**9
    )


def _predict_held_out(
    model: TimePredictor | DummyRegressor, table: pd.DataFrame, times: Floats, rounds: list[KFold]
) -> Floats:
    """Return the predictions of each round of cross-validation, seconds, ``(n_rounds, n)``."""
    if isinstance(model, TimePredictor):
        n_trees = min(model.n_estimators, _N_TREES_HELD_OUT)
        model = clone(model).set_params(calibration_folds=0, n_estimators=n_trees)
    predicted = [cross_val_predict(model, table, times, cv=folds) for folds in rounds]
    return np.array(predicted, dtype=np.float64)


def _mean_error(predicted: Floats, times: Floats) -> float:
    """Return the mean relative error of predictions, ``(n_rounds, n)``."""
    return float(np.abs(np.log(predicted / times)).mean())


def _mean_rcc(predicted: Floats, times: Floats) -> float:
    """Return the mean RCC of predictions, ``(n_rounds, n)``, over the pairs whose times differ."""
    return float(np.mean([rcc_told_apart(times, row) for row in predicted]))


def _is_correlated(forecast: Floats, times: Floats, n_tests: int) -> bool:
    """Test if a forecast correlates with times (Kendall's tau, with Bonferroni correction)."""
    if np.ptp(forecast) == 0:
        return False
    p_value = n_tests * scipy.stats.kendalltau(forecast, times, alternative="greater").pvalue
    return bool(p_value < SIGNIFICANCE)


def _no_model_error(runs: Runs, median_error: float, min_error: float) -> NothingToLearnError:
    """Return an error for runs that no model predicts, with a hint if their times drift."""
    tau = float(scipy.stats.kendalltau(np.arange(runs.times.size), runs.times).statistic)
    direction = "increase" if tau > 0 else "decrease"
    trend = f"; they {direction} from row to row" if abs(tau) > _MIN_TREND else ""
    return NothingToLearnError(
        "nothing to learn: no model predicts held-out times significantly better than the median "
        f"of the other times does (error {percent(min_error, digits=2)} against "
        f"{percent(median_error, digits=2)}){trend}",
        file=runs.file,
        expected="times that correlate with simulated times or with a feature",
    )


def learn_runs(
    comm: ProblemLike,
    torus: TorusLike | None = None,
    mappings: Mappings = (),
    times: Times | None = None,
    *,
    routing: Routing = "deterministic",
    simulate: int | None = None,
    features: Sequence[str] | None = None,
    more: Sequence[str] = (),
    seed: Seed = SEED,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> RunModel:
    """Fit a model to the measured times of some of the mappings.

    Parameters
    ----------
    times : path, dict of names to seconds, DataFrame or Runs
        Measured times, see `Runs.from_times`.
    simulate : int, optional
        Maximum number of mappings to simulate. If at most this many were measured, simulated times
        are tried as reference times, in addition to the bounds. No limit by default; 0 for no
        simulations.
    features : sequence of str, optional
        Features for corrections; by default, analytic and relative ones, and the reference times.
    more : sequence of str
        Other features to include in the table.
    progress : callable, optional
        Called with "features", the number of mappings with computed features, and the total number.
    """
    report, seed = progress_of(progress, "features"), seed_number(seed)
    problem, runs = as_problem(comm, torus, routing), Runs.from_times(times)
    candidates = problem.mappings(mappings)
    measured = [candidates[i] for i in find_measured(candidates, runs)]
    limit = len(measured) if simulate is None else whole_number(simulate, "simulate", 0)
    references = references_to_try(problem.routing, simulate=len(measured) <= limit)
    if features is None:
        features = (*FEATURE_SETS["analytic"], *FEATURE_SETS["relative"], *references)
    # Check first, because computing the features takes longer.
    check_enough(runs)
    names = (*features, *references, "lower_bound", *more)
    table = with_references(problem, measured, names, n_jobs=n_jobs, progress=report)
    learned = fit_run_model(table, runs, tuple(dict.fromkeys(features)), seed=seed, n_jobs=n_jobs)
    learned.model.provenance_ = {"routing": problem.routing, "measured": True}
    _warn_of_slope(learned)
    return replace(learned, problem=problem)


def _warn_of_slope(learned: RunModel) -> None:
    """Warn if the slope of measured against reference times suggests that their units differ."""
    slope = learned.line.slope
    if not slope or 1 / _MAX_SLOPE < slope < _MAX_SLOPE:
        return
    reference = REFERENCES.get(learned.model.reference, learned.model.reference)
    message = f"differences between measured times are {factor(slope)} those of {reference}"
    question = "are the measured times in seconds, and is the bandwidth that of the machine?"
    warnings.warn(InputWarning(f"{message}: {question}"), stacklevel=3)


def condition_on_runs(
    prediction: PriorPrediction, mappings: Sequence[TaskMapping], runs: Runs | None, seed: int = 0
) -> tuple[Posterior, NDArray[np.bool_]]:
    """Return the posterior of times on the machine, and which candidates were measured, ``(n,)``.

    The noise of a measured time is its standard error. If no mapping ran twice, the noise is
    unknown, and the error of the model replaces it. The errors of different candidates are
    independent, because the model has already learned from the same runs.
    """
    mean, std = prediction.logs()
    std = std * prediction.require_calibration().quantile(0.9) / NormalDist().inv_cdf(0.95)
    is_measured = np.zeros(mean.size, dtype=bool)
    bounds = np.minimum(prediction.min_times, np.exp(mean))
    measured, variance = np.empty(0, dtype=np.int64), np.empty(0)
    if runs is not None:
        measured = find_measured(mappings, runs)
        is_measured[measured] = True
        error = np.where(np.isfinite(runs.errors), runs.errors, std[measured])
        variance = np.maximum(error, _MIN_ERROR) ** 2
        bounds[measured] = np.minimum(bounds[measured], runs.times)
    # Only the runs determine the times of measured mappings.
    prior_error = ErrorComponent(np.where(is_measured, _UNKNOWN_STD, std), Kernel(0.0, 0.0, 1.0))
    prior = Posterior(
        prior_means=mean[None],
        errors={"prior": prior_error},
        sources={TIME: ("prior",), LEARNED_MEDIAN: ("prior",)},
        features=prediction.features,
        bounds=bounds,
        seed=seed,
    )
    if runs is None:
        return prior, is_measured
    return prior.condition(measured, LEARNED_MEDIAN, runs.times, variance), is_measured
