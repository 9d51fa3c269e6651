"""Models of measured times: a line in a reference time, with feature corrections if they help."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy
from sklearn.base import clone
from sklearn.dummy import DummyRegressor
from sklearn.model_selection import KFold, cross_val_predict

from toruscast._slow import pandas as pd
from toruscast.mapping import MappingProblem
from toruscast.notebook import Result
from toruscast.text import percent
from toruscast.training.feature_sets import REFERENCES, feature_set
from toruscast.training.metrics import r2, rcc_told_apart, regret
from toruscast.training.predictor import TimePredictor
from toruscast.training.residuals import TargetTransform
from toruscast.typing import Floats

from .runs import SIGNIFICANCE, NothingToLearnError, Runs, check_enough, possible_rcc, tied_share

# Minimum relative reduction of the held-out error for which features are used.
_MIN_GAIN = 0.1
# Errors below the usual precision of written times count as 0.
_EXACT = 1e-5
# Small leaves correct a poor reference; large leaves are robust to noise.
_SMALL_LEAF, _LARGE_LEAF = 1, 5
_N_FOLDS, _N_ROUNDS = 5, 2
# Number of mappings from which one round of cross-validation is precise enough.
_ONE_ROUND = 1000


@dataclass(frozen=True, eq=False)
class RunModel(Result):
    """A model of measured times and its held-out scores; made by `learn_runs`.

    Attributes
    ----------
    table : DataFrame
        Features and reference times of the measured mappings, in the order of the runs.
    model : TimePredictor
        Model with the target ``measured``: a line in a reference time, plus corrections from
        features if they help.
    held_out : DataFrame
        A row per tried model, indexed by its name: ``miss`` (mean relative error of held-out
        times), and ``offered`` for the selected model.
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
        """The line that measured times follow in the reference."""
        line = self.model.relative_
        assert line is not None
        return line

    @cached_property
    def scores(self) -> dict[str, float]:
        """Scores of the held-out predictions.

        ``rcc`` of the pairs whose times differ; ``rcc_possible``, the maximum RCC under the noise;
        ``tied``, the share of pairs whose difference is within the noise; ``r2``; the mean relative
        errors ``miss`` and, of the line alone, ``miss_of_line``; ``regret_1``.
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

    A measured time is a constant, common to all mappings, plus a multiple of a reference time from
    a model of the network. The reference with the smallest held-out error is selected from
    `REFERENCES`. Trees on features correct this line if they clearly reduce the held-out error.
    """
    measured = table.loc[list(runs.names)]
    check_enough(runs)
    times = runs.times
    references = [name for name in REFERENCES if name in table.columns]
    n = len(measured)
    rounds = _N_ROUNDS if n < _ONE_ROUND else 1
    # scikit-learn accepts 32 bits.
    seeds = [(seed + i) % 2**32 for i in range(rounds)]
    folds = [KFold(min(_N_FOLDS, n), shuffle=True, random_state=each) for each in seeds]
    lines = {name: make_line_model(name) for name in references}
    predicted = {name: _predict_held_out(m, measured, times, folds) for name, m in lines.items()}
    errors = {name: _mean_error(each, times) for name, each in predicted.items()}
    # The sort is stable, so among equal errors the fastest reference comes first.
    ordered = sorted(errors, key=lambda name: errors[name])
    line = ordered[0]
    median = DummyRegressor(strategy="median")
    median_error = _mean_error(_predict_held_out(median, measured, times, folds), times)
    names = feature_set(features) if features else tuple(map(str, table.columns))
    trees = {
        f"{name} and features, leaves of {leaf}": TimePredictor(
            names,
            "measured",
            reference=name,
            min_samples_leaf=leaf,
            random_state=seeds[0],
            n_jobs=n_jobs,
        )
        for leaf, tried in ((_SMALL_LEAF, ordered), (_LARGE_LEAF, ordered[:1]))
        for name in tried
    }
    for name, model in trees.items():
        predicted[name] = _predict_held_out(model, measured, times, folds)
        errors[name] = _mean_error(predicted[name], times)
    corrected = min(trees, key=lambda name: errors[name])
    is_better = (
        errors[line] > _EXACT
        and errors[corrected] <= (1 - _MIN_GAIN) * errors[line]
        and _mean_rcc(predicted[corrected], times) >= _mean_rcc(predicted[line], times)
    )
    selected = corrected if is_better else line
    line_is_valid = errors[line] < median_error and _is_correlated(
        measured[line].to_numpy(), times, len(lines)
    )
    if not line_is_valid and not (
        errors[selected] <= (1 - _MIN_GAIN) * median_error
        and _is_correlated(predicted[selected].mean(axis=0), times, len(predicted))
    ):
        raise _no_model_error(runs, median_error, min(errors.values()))
    model = {**lines, **trees}[selected].fit(measured, times)
    held_out = pd.DataFrame({"miss": {"median": median_error, **errors}})
    held_out.index.name = "tried"
    held_out["offered"] = held_out.index == selected
    return RunModel(measured, model, runs, held_out, predicted[selected])


def make_line_model(reference: str) -> TimePredictor:
    """Return a model of measured times that is a line in ``reference`` without corrections."""
    # The large minimum leaf leaves one tree with one leaf.
    return TimePredictor(
        (reference,), "measured", reference=reference, n_estimators=1, min_samples_leaf=10**9
    )


def _predict_held_out(
    model: TimePredictor | DummyRegressor, table: pd.DataFrame, times: Floats, rounds: list[KFold]
) -> Floats:
    """Return cross-validated predictions, ``(n_rounds, n)``."""
    if isinstance(model, TimePredictor):
        # Few trees predict nearly as well.
        n_trees = min(model.n_estimators, 40)
        model = clone(model).set_params(calibration_folds=0, n_estimators=n_trees)
    predicted = [cross_val_predict(model, table, times, cv=folds) for folds in rounds]
    return np.array(predicted, dtype=np.float64)


def _mean_error(predicted: Floats, times: Floats) -> float:
    return float(np.abs(np.log(predicted / times)).mean())


def _mean_rcc(predicted: Floats, times: Floats) -> float:
    return float(np.mean([rcc_told_apart(times, row) for row in predicted]))


def _is_correlated(forecast: Floats, times: Floats, n_tests: int) -> bool:
    """Whether times increase with a forecast, by Kendall's tau with Bonferroni correction."""
    if np.ptp(forecast) == 0:
        return False
    p_value = n_tests * scipy.stats.kendalltau(forecast, times, alternative="greater").pvalue
    return bool(p_value < SIGNIFICANCE)


def _no_model_error(runs: Runs, median_error: float, min_error: float) -> NothingToLearnError:
    tau = float(scipy.stats.kendalltau(np.arange(runs.times.size), runs.times).statistic)
    trend = "; they increase from row to row" if tau > 0.8 else ""
    trend = "; they decrease from row to row" if tau < -0.8 else trend
    return NothingToLearnError(
        "nothing to learn: no model predicts held-out times significantly better than the median "
        f"of the others (error {percent(min_error, digits=2)} against "
        f"{percent(median_error, digits=2)}){trend}",
        file=runs.file,
        expected="times that correlate with simulated times or with a feature",
    )
