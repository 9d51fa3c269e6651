"""Learning from times that were measured on a machine: a line first, and more only if it helps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import KFold

from toruscast.errors import InputError

from ._relative import LOWER_BOUND, SKETCH_TIME, Line
from .feature_sets import feature_set
from .metrics import rcc_told_apart
from .predictor import TimePredictor
from .runs import Runs

Floats = NDArray[np.float64]
RELEASE_BOUND = "release_bound"
REFERENCES = (RELEASE_BOUND, SKETCH_TIME, LOWER_BOUND)
"""Times that those of a machine may follow; a table may lack the sketch, which is simulated."""
LEAST_MAPPINGS = 6
# By how much the held-out misses must shrink before features count.
_GAIN = 0.1
# Chance of an order as good as this one where times have nothing to do with what they shall follow.
_CHANCE = 0.01
_FOLDS, _ROUNDS = 10, 3
# Samples from which on one round of fewer folds tells as much.
_MANY = 1000


class NothingToLearnError(InputError):
    """Measured times tell nothing of mappings that were not measured."""


@dataclass(frozen=True, eq=False)
class Measured:
    """What measured times teach; made by `learn`.

    Attributes
    ----------
    model : TimePredictor
        Its target is ``measured``: a line in a reference time, and what features add if they do.
    runs : Runs
        Of the mappings learned from.
    held_out : DataFrame
        A row per model that was tried, indexed by its name: ``miss`` (mean relative miss of times
        kept from it), ``offered``.
    predicted : ndarray, shape (n_rounds, n)
        What the offered model said of each mapping when that was kept from it, seconds.
    """

    model: TimePredictor
    runs: Runs
    held_out: pd.DataFrame
    predicted: Floats

    @property
    def line(self) -> Line:
        """Constant and slope of the measured times."""
        line = self.model.relative_
        assert isinstance(line, Line)
        return line

    @property
    def constant_share(self) -> float:
        """Share of the median time that does not depend on the mapping."""
        return self.line.constant / float(np.median(self.runs.times))

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
) -> Measured:
    """Learn from measured times what others will take.

    A measured time is a constant, which all mappings share, and a multiple of a time that a model
    of the network gives: the reference, chosen from `REFERENCES` by times kept from it. Trees on
    features correct this line where they forecast times that they have not seen clearly better.

    Parameters
    ----------
    table : DataFrame
        Features of mappings, indexed by their names, among them `REFERENCES` or some.
    runs : Runs
        Times of at least six of them.
    features : str or sequence of str, optional
        What the trees may look at; every column that is no reference if not given.
    seed : int
        Of trees and folds.
    n_jobs : int, optional
        Threads that grow trees.

    Returns
    -------
    Measured

    Raises
    ------
    NothingToLearnError
        If there are fewer than six mappings, all times are equal, mappings differ no more than the
        runs of one, or the times follow neither a reference nor features.
    InputError
        If a mapping or a feature is missing from the table.

    Examples
    --------
    >>> table = pd.DataFrame({"release_bound": np.arange(1.0, 13), "lower_bound": 1.0})
    >>> table.index = [f"map-{i}" for i in range(12)]
    >>> runs = Runs.of(dict(zip(table.index, 5 + 2 * table["release_bound"])))
    >>> found = learn(table, runs)
    >>> round(found.line.constant, 3), round(found.line.slope, 3), found.model.reference
    (5.0, 2.0, 'release_bound')
    """
    known = table.loc[_rows(table, runs)]
    check_differ(runs)
    times = runs.times
    references = [name for name in REFERENCES if name in table.columns]
    folds = _folds(len(known), seed)
    lines = {name: _line(name) for name in references}
    said = {name: _held_out(model, known, times, folds) for name, model in lines.items()}
    misses = {name: _miss(each, times) for name, each in said.items()}
    best = min(misses, key=lambda name: misses[name])
    flat = _miss(_flat(times, folds), times)
    names = feature_set(features) if features else _features_of(table)
    trees = {
        f"{best} and features (leaf {leaf})": _trees(best, names, leaf, seed, n_jobs)
        for leaf in (1, 5)
        if names
    }
    for name, model in trees.items():
        said[name] = _held_out(model, known, times, folds)
        misses[name] = _miss(said[name], times)
    better = min(trees, key=lambda name: misses[name], default=best)
    follows = misses[best] < flat and _follows(known[best].to_numpy(), times)
    helps = misses[better] <= (1 - _GAIN) * misses[best]
    helps = helps and _order(said[better], times) >= _order(said[best], times)
    offered = better if helps else best
    if not follows and misses[offered] > (1 - _GAIN) * flat:
        raise _unlearned(runs, flat, min(misses.values()))
    model = {**lines, **trees}[offered].fit(known, times)
    held_out = pd.DataFrame({"miss": {"all alike": flat, **misses}})
    held_out["offered"] = held_out.index == offered
    return Measured(model, runs, held_out, said[offered])


def check_differ(runs: Runs) -> None:
    """Raise `NothingToLearnError` if there are too few times, or nothing to tell them apart."""
    from scipy.stats import f as f_distribution

    n, times = len(runs.names), runs.times
    if n < LEAST_MAPPINGS:
        expected = f"{LEAST_MAPPINGS} or more, each measured once at least"
        raise NothingToLearnError("too few mappings to learn from", found=n, expected=expected)
    if times.max() <= times.min() * (1 + 1e-9):
        raise NothingToLearnError(f"nothing to learn: all {n} times are equal", found=times[0])
    free = int((runs.counts - 1).sum())
    if not free:
        return
    noise = runs.noise
    between = float(np.var(np.log(times) * np.sqrt(runs.counts), ddof=1))
    if noise and f_distribution.sf(between / noise**2, n - 1, free) > _CHANCE:
        raise NothingToLearnError(
            f"nothing to learn: the {n} mappings differ no more than the runs of one, by "
            f"{noise:.2g} of the time",
            expected="more runs of each mapping, or mappings that differ more",
        )


def _rows(table: pd.DataFrame, runs: Runs) -> list[str]:
    missing = [name for name in runs.names if name not in table.index]
    if missing:
        expected = f"such as {table.index[0]}" if len(table) else "a mapping"
        raise InputError("time of a mapping that is not there", found=missing[0], expected=expected)
    return list(runs.names)


def _features_of(table: pd.DataFrame) -> tuple[str, ...]:
    return tuple(str(name) for name in table.columns if name not in REFERENCES)


def _line(reference: str) -> TimePredictor:
    """The line alone: trees of a single leaf."""
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


def _folds(n: int, seed: int) -> list[list[tuple[NDArray[np.int64], NDArray[np.int64]]]]:
    """Rounds of what is learned from and what is kept out."""
    rounds, n_folds = (_ROUNDS, _FOLDS) if n < _MANY else (1, _FOLDS // 2)
    return [
        list(KFold(min(n_folds, n), shuffle=True, random_state=seed + i).split(np.arange(n)))
        for i in range(rounds)
    ]


def _held_out(
    model: TimePredictor,
    table: pd.DataFrame,
    times: Floats,
    rounds: list[list[tuple[NDArray[np.int64], NDArray[np.int64]]]],
) -> Floats:
    """What a model says of each mapping when that is kept from it, shape ``(n_rounds, n)``."""
    fewer = clone(model).set_params(
        calibration_folds=0, n_estimators=max(1, min(model.n_estimators, 60))
    )
    said = np.empty((len(rounds), times.size))
    for row, folds in zip(said, rounds, strict=True):
        for kept, left_out in folds:
            fewer.fit(table.iloc[kept], times[kept])
            row[left_out] = fewer.predict(table.iloc[left_out])
    return said


def _flat(times: Floats, rounds: list[list[tuple[NDArray[np.int64], NDArray[np.int64]]]]) -> Floats:
    """The median of the others."""
    said = np.empty((len(rounds), times.size))
    for row, folds in zip(said, rounds, strict=True):
        for kept, left_out in folds:
            row[left_out] = np.median(times[kept])
    return said


def _miss(said: Floats, times: Floats) -> float:
    return float(np.abs(np.log(said / times)).mean())


def _order(said: Floats, times: Floats) -> float:
    return float(np.mean([rcc_told_apart(times, row) for row in said]))


def _follows(reference: Floats, times: Floats) -> bool:
    """Whether times grow with a reference, and hardly by chance."""
    from scipy.stats import kendalltau

    if np.ptp(reference) == 0:
        return False
    return bool(kendalltau(reference, times, alternative="greater").pvalue < _CHANCE)


def _unlearned(runs: Runs, flat: float, best: float) -> NothingToLearnError:
    from scipy.stats import kendalltau

    with_row = float(kendalltau(np.arange(runs.times.size), runs.times).statistic)
    along = "; they rise from row to row" if with_row > 0.8 else ""
    along = "; they fall from row to row" if with_row < -0.8 else along
    return NothingToLearnError(
        "nothing to learn: times kept out are forecast no better than by the median of the others"
        f" (off by {100 * best:.2g} % against {100 * flat:.2g} %){along}",
        expected="times that follow the simulated ones or a feature",
    )
