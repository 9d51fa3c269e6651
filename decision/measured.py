"""Learning from times that were measured on a machine: a line first, and more only if it helps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.dummy import DummyRegressor
from sklearn.model_selection import KFold, cross_val_predict

from toruscast._slow import pandas as pd
from toruscast.mapping import MappingProblem
from toruscast.notebook import NotebookCard
from toruscast.text import percent
from toruscast.training.feature_sets import REFERENCES, feature_set
from toruscast.training.metrics import r2, rcc_told_apart, regret
from toruscast.training.predictor import TimePredictor
from toruscast.training.residuals import TargetTransform

from .runs import CHANCE, NothingToLearnError, Runs, check_enough, possible_rcc, tied_share

Floats = NDArray[np.float64]
# By how much the held-out residuals must shrink before features count.
_GAIN = 0.1
# Times are written with so many digits at most: what misses less is exact.
_EXACT = 1e-5
# Trees with small leaves make up for a poor reference, those with large ones bear more noise.
_SMALL_LEAF, _LARGE_LEAF = 1, 5
_FOLDS, _ROUNDS = 5, 2
# Samples from which one round is as precise.
_MANY = 1000


@dataclass(frozen=True, eq=False)
class RunModel(NotebookCard):
    """A model of measured times and its held-out scores; made by `learn`.

    Attributes
    ----------
    table : DataFrame
        Features and references of the mappings learned from, in the order of the runs.
    model : TimePredictor
        Its target is ``measured``: a line in a reference time, and what features add if they do.
    held_out : DataFrame
        A row per model that was tried, indexed by its name: ``miss`` (mean relative error for
        held-out times), ``offered``.
    predicted : ndarray, shape (n_rounds, n)
        Held-out predictions of the offered model, seconds.
    problem : MappingProblem or None
        What ran, where `learn_runs` knows it.
    """

    table: pd.DataFrame
    model: TimePredictor
    runs: Runs
    held_out: pd.DataFrame
    predicted: Floats
    problem: MappingProblem | None = None

    def __repr__(self) -> str:
        kind = "a line and features" if self.corrected else "a line"
        return f"Measured({kind} in {self.model.reference}, from {self.runs!r})"

    @property
    def line(self) -> TargetTransform:
        """Constant and slope of the measured times."""
        line = self.model.relative_
        assert line is not None
        return line

    @cached_property
    def scores(self) -> dict[str, float]:
        """How well times were forecast that the offered model had not seen.

        ``rcc`` of the pairs that take different times; ``rcc_possible``, what noise lets any
        forecast reach; ``tied``, the share of pairs that noise does not tell apart; ``r2``;
        ``miss``, the mean relative one, and ``miss_of_line``; ``regret_1``.
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
        """Whether features add to the line."""
        return bool(self.model.feature_importances_.any())


def learn(
    table: pd.DataFrame,
    runs: Runs,
    features: str | Sequence[str] | None = None,
    *,
    seed: int = 0,
    n_jobs: int | None = None,
) -> RunModel:
    """Learn from measured times what others will take.

    A measured time is a constant, which all mappings share, and a multiple of a time that a model
    of the network gives: the reference, chosen from `REFERENCES` by times kept from it. Trees on
    features correct this line where they forecast times that they have not seen clearly better.
    """
    known = table.loc[list(runs.names)]
    check_enough(runs)
    times = runs.times
    references = [name for name in REFERENCES if name in table.columns]
    folds = _folds(len(known), seed)
    lines = {name: line_in(name) for name in references}
    predicted = {
        name: _held_out(_with_few_trees(model), known, times, folds)
        for name, model in lines.items()
    }
    residuals = {name: _mean_error(each, times) for name, each in predicted.items()}
    # Of equal ones the cheapest.
    ordered = sorted(residuals, key=lambda name: residuals[name])
    best = ordered[0]
    flat = _mean_error(_held_out(DummyRegressor(strategy="median"), known, times, folds), times)
    names = feature_set(features) if features else tuple(map(str, table.columns))
    trees = {
        f"{name} and features, leaves of {leaf}": _trees(name, names, leaf, seed, n_jobs)
        for leaf, followed in ((_SMALL_LEAF, ordered), (_LARGE_LEAF, ordered[:1]))
        for name in followed
    }
    for name, model in trees.items():
        predicted[name] = _held_out(_with_few_trees(model), known, times, folds)
        residuals[name] = _mean_error(predicted[name], times)
    better = min(trees, key=lambda name: residuals[name])
    follows = residuals[best] < flat and _is_related(known[best].to_numpy(), times, len(lines))
    helps = residuals[best] > _EXACT and residuals[better] <= (1 - _GAIN) * residuals[best]
    helps = helps and _mean_rcc(predicted[better], times) >= _mean_rcc(predicted[best], times)
    offered = better if helps else best
    learned = residuals[offered] <= (1 - _GAIN) * flat
    if not follows and not (
        learned and _is_related(predicted[offered].mean(axis=0), times, len(predicted))
    ):
        raise _nothing_learned(runs, flat, min(residuals.values()))
    model = {**lines, **trees}[offered].fit(known, times)
    held_out = pd.DataFrame({"miss": {"all alike": flat, **residuals}})
    held_out.index.name = "tried"
    held_out["offered"] = held_out.index == offered
    return RunModel(known, model, runs, held_out, predicted[offered])


def line_in(reference: str) -> TimePredictor:
    """Return a model of measured times that is a line in ``reference`` and nothing else."""
    # Trees of a single leaf.
    return TimePredictor(
        (reference,), "measured", reference=reference, n_estimators=1, min_samples_leaf=10**9
    )


def _trees(
    reference: str, features: tuple[str, ...], leaf: int, seed: int, n_jobs: int | None
) -> TimePredictor:
    return TimePredictor(
        features,
        "measured",
        reference=reference,
        min_samples_leaf=leaf,
        random_state=seed,
        n_jobs=n_jobs,
    )


def _folds(n: int, seed: int) -> list[KFold]:
    """Rounds of what is learned from and what is held out."""
    rounds = _ROUNDS if n < _MANY else 1
    return [KFold(min(_FOLDS, n), shuffle=True, random_state=seed + i) for i in range(rounds)]


def _with_few_trees(model: TimePredictor) -> TimePredictor:
    """A model like this with few trees, which forecasts held-out times nearly as well."""
    n_trees = min(model.n_estimators, 40)
    fewer: TimePredictor = clone(model).set_params(calibration_folds=0, n_estimators=n_trees)
    return fewer


def _held_out(
    model: TimePredictor | DummyRegressor, table: pd.DataFrame, times: Floats, rounds: list[KFold]
) -> Floats:
    """Predict each mapping with a model that has not seen it, ``(n_rounds, n)``."""
    predicted = [cross_val_predict(model, table, times, cv=folds) for folds in rounds]
    return np.array(predicted, dtype=np.float64)


def _mean_error(predicted: Floats, times: Floats) -> float:
    return float(np.abs(np.log(predicted / times)).mean())


def _mean_rcc(predicted: Floats, times: Floats) -> float:
    return float(np.mean([rcc_told_apart(times, row) for row in predicted]))


def _is_related(forecast: Floats, times: Floats, tried: int) -> bool:
    """Whether times grow with the best of so many forecasts tried, and hardly by chance."""
    if np.ptp(forecast) == 0:
        return False
    # One of several may follow by chance although none does.
    chance = tried * scipy.stats.kendalltau(forecast, times, alternative="greater").pvalue
    return bool(chance < CHANCE)


def _nothing_learned(runs: Runs, flat: float, best: float) -> NothingToLearnError:
    with_row = float(scipy.stats.kendalltau(np.arange(runs.times.size), runs.times).statistic)
    along = "; they rise from row to row" if with_row > 0.8 else ""
    along = "; they fall from row to row" if with_row < -0.8 else along
    return NothingToLearnError(
        "nothing to learn: times held out are forecast no better than by the median of the others"
        f", or only by chance (off by {percent(best, digits=2)} against "
        f"{percent(flat, digits=2)}){along}",
        file=runs.file,
        expected="times that follow the simulated ones or a feature",
    )
