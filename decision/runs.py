"""Measured times of mappings: repeated runs, their noise, outliers and drift."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from toruscast._slow import pandas as pd
from toruscast._slow import scipy
from toruscast.errors import InputError
from toruscast.formats.times import MAPPING, MeasuredRun, read_runs
from toruscast.mapping import TaskMapping
from toruscast.notebook import NotebookCard
from toruscast.scaling.noise import MAD_TO_STD
from toruscast.text import counted, factor, percent, seconds
from toruscast.typing import Floats

MIN_MAPPINGS = 6
SIGNIFICANCE = 0.01
"""Significance level of the tests."""
# Maximum number of mappings whose pairs are compared.
_MAX_PAIRED = 1500

Times = Any
"""A file of `read_runs`, a dict of names to seconds (one or several), a table, or `Runs`."""
# Times of one application differ by a small factor, but in different units by a thousand.
_UNIT_RATIO = 100.0
# Outliers exceed both this number of robust standard deviations and this relative residual.
_OUTLIER_SCALES, _OUTLIER_SHARE = 6.0, 0.05
# Standard error of the median divided by that of the mean, for n normally distributed values.
_MEDIAN_FACTORS = np.array([1.0, 1.0, 1.0, 1.16, 1.09, 1.20, 1.14, 1.2])
# Degrees of freedom given to the pooled variance when a mapping's variance is shrunk to it.
_POOLED_DF = 4
# Maximum p-value of a reported drift, and minimum relative size of the drift over all runs.
_DRIFT_P_VALUE, _DRIFT_SHARE = 1e-3, 0.01
# Minimum and maximum number of runs for estimating a drift. More than the maximum are thinned out
# evenly, because the Theil-Sen slope takes quadratic time.
_MIN_DRIFT_RUNS, _MAX_DRIFT_RUNS = 8, 2000


@dataclass(frozen=True, eq=False)
class Runs(NotebookCard):
    """Measured times of mappings, each run once or more.

    Attributes
    ----------
    names : tuple of str
        Mappings, in the order of their first run.
    seconds : ndarray, shape (n_runs,)
        Time of each run, in the order of the runs.
    which : ndarray of int, shape (n_runs,)
        For each run, the index of its mapping in ``names``.
    lines : tuple of int
        Line number of each run in the file; empty without a file.
    file : str or None
        The file of the runs.

    Examples
    --------
    >>> runs = Runs.from_times({"near": [1.0, 1.2, 1.1], "far": [2.0, 2.3, 2.2]})
    >>> runs.names, runs.times.tolist(), runs.counts.tolist()
    (('near', 'far'), [1.1, 2.2], [3, 3])
    >>> 0.05 < runs.noise < 0.1
    True
    """

    names: tuple[str, ...]
    seconds: Floats
    which: NDArray[np.int64]
    lines: tuple[int, ...] = ()
    file: str | None = None

    def __repr__(self) -> str:
        span = f"{seconds(self.seconds.min())} to {seconds(self.seconds.max())}"
        runs, mappings = counted(len(self.seconds), "run"), counted(len(self.names), "mapping")
        return f"Runs({runs} of {mappings}: {span})"

    @classmethod
    def from_times(cls, times: Times) -> Self:
        """Return the runs in a file, a table, or a dict of names to one or several times.

        A table has the columns ``mapping`` and ``time``, and a row per run.
        """
        if isinstance(times, cls):
            return times
        file = os.fspath(times) if isinstance(times, str | os.PathLike) else None
        runs = _convert_times(times) if file is None else read_runs(file)
        if not runs:
            raise InputError("no times", expected="times of six or more mappings")
        seconds = np.array([run.time for run in runs])
        _check_unit(runs, seconds, file)
        names = tuple(dict.fromkeys(run.mapping for run in runs))
        index = {name: i for i, name in enumerate(names)}
        which = np.array([index[run.mapping] for run in runs])
        lines = () if file is None else tuple(run.line for run in runs)
        return cls(names, seconds, which, lines, file)

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """Number of runs of each mapping, shape ``(n,)``."""
        return np.bincount(self.which, minlength=len(self.names))

    @cached_property
    def times(self) -> Floats:
        """Median time of each mapping, seconds, shape ``(n,)``."""
        return self._group_medians(self.seconds)

    @cached_property
    def noise(self) -> float:
        """Relative standard deviation of a run, pooled over mappings; NaN if none ran twice.

        Outliers are excluded.
        """
        df = self._df.sum()
        if not df:
            return math.nan
        return float(np.sqrt((self._residuals[~self.is_outlier] ** 2).sum() / df))

    @cached_property
    def errors(self) -> Floats:
        """Relative standard error of each of ``times``, shape ``(n,)``; NaN if noise is unknown.

        The variance of a mapping's runs is shrunk towards the pooled variance.
        """
        is_used = ~self.is_outlier
        squares = np.bincount(self.which[is_used], self._residuals[is_used] ** 2, len(self.names))
        variance = (_POOLED_DF * self.noise**2 + squares) / (_POOLED_DF + self._df)
        factors = _MEDIAN_FACTORS[np.minimum(self.counts, _MEDIAN_FACTORS.size - 1)]
        return np.asarray(factors * np.sqrt(variance / self.counts))

    @cached_property
    def is_outlier(self) -> NDArray[np.bool_]:
        """Which runs are far from the median of their mapping, shape ``(n_runs,)``."""
        counts = self.counts[self.which]
        is_repeated = counts > 1
        if not is_repeated.any():
            return np.zeros(self.which.size, dtype=bool)
        deviation = np.abs(self._residuals) * np.sqrt(counts / np.maximum(counts - 1, 1))
        scale = MAD_TO_STD * float(np.median(deviation[is_repeated]))
        return np.asarray(deviation > max(_OUTLIER_SCALES * scale, _OUTLIER_SHARE))

    @property
    def outliers(self) -> NDArray[np.int64]:
        """Indices of the outlier runs, largest residual first."""
        outliers = np.flatnonzero(self.is_outlier)
        return outliers[np.argsort(-np.abs(self._residuals[outliers]), kind="stable")]

    @cached_property
    def drift(self) -> float:
        """Relative increase of times from the first run to the last; 0 if not significant.

        It is estimated from the mappings that ran more than once.
        """
        repeated = np.flatnonzero((self.counts[self.which] > 1) & ~self.is_outlier)
        if repeated.size < _MIN_DRIFT_RUNS:
            return 0.0
        repeated = repeated[:: 1 + repeated.size // _MAX_DRIFT_RUNS]
        order, residuals = repeated.astype(np.float64), self._residuals[repeated]
        if np.ptp(residuals) == 0:
            return 0.0
        if scipy.stats.kendalltau(order, residuals).pvalue > _DRIFT_P_VALUE:
            return 0.0
        slope = float(scipy.stats.theilslopes(residuals, order)[0])
        drift = math.expm1(slope * self.which.size)
        return drift if abs(drift) >= _DRIFT_SHARE else 0.0

    def take(self, names: Sequence[str]) -> Self:
        """Return the runs of these mappings, with the mappings in this order."""
        index = {name: i for i, name in enumerate(self.names)}
        new_index = np.full(len(self.names), -1)
        new_index[[index[name] for name in names]] = np.arange(len(names))
        runs = np.flatnonzero(new_index[self.which] >= 0)
        lines = tuple(self.lines[i] for i in runs) if self.lines else ()
        which = new_index[self.which[runs]]
        return type(self)(tuple(names), self.seconds[runs], which, lines, self.file)

    def line_of(self, name: str) -> int | None:
        """Return the line of a mapping's first run in the file; None without a file."""
        if not self.lines:
            return None
        return self.lines[int(np.argmax(self.which == self.names.index(name)))]

    @property
    def _residuals(self) -> Floats:
        """Log ratio of each run's time to the median time of its mapping."""
        logs = np.log(self.seconds)
        return np.asarray(logs - self._group_medians(logs)[self.which])

    @property
    def _df(self) -> NDArray[np.int64]:
        """Degrees of freedom of each mapping's residuals, outliers excluded, ``(n,)``."""
        counts = np.bincount(self.which[~self.is_outlier], minlength=len(self.names))
        return np.maximum(counts - 1, 0)

    def _group_medians(self, values: Floats) -> Floats:
        return np.asarray(pd.Series(values).groupby(self.which).median())


def _convert_times(times: object) -> list[MeasuredRun]:
    """Return the runs in a table or a dict; raise `InputError` for bad times."""
    if isinstance(times, pd.DataFrame):
        missing = [name for name in (MAPPING, "time") if name not in times.columns]
        if missing:
            expected = f"a column {missing[0]}"
            raise InputError("bad table of times", found=list(times.columns), expected=expected)
        pairs = list(zip(times[MAPPING].astype(str), times["time"], strict=True))
    elif isinstance(times, Mapping):
        pairs = [
            (str(name), value)
            for name, values in times.items()
            for value in (values if isinstance(values, Sequence | np.ndarray) else [values])
        ]
    else:
        expected = "a file, a dict of names to seconds, or a table"
        raise InputError("bad times", found=type(times).__name__, expected=expected)
    for name, value in pairs:
        if not (isinstance(value, Real) and 0 < float(value) < math.inf):
            found = repr(value)
            raise InputError(f"bad time of {name}", found=found, expected="positive seconds")
    return [MeasuredRun(name, float(value), 0) for name, value in pairs]


def _check_unit(runs: Sequence[MeasuredRun], seconds: Floats, file: str | None) -> None:
    """Raise `InputError` if a time is so far from the median that it must be in another unit."""
    ratio = seconds / np.median(seconds)
    far = np.flatnonzero((ratio > _UNIT_RATIO) | (ratio < 1 / _UNIT_RATIO))
    if not far.size:
        return
    run = runs[far[0]]
    more = f", and {far.size - 1} more are as far from it" if far.size > 1 else ""
    size = f"{run.mapping} takes {factor(ratio[far[0]])} the median{more}"
    message, expected = f"are all times in one unit? {size}", "seconds everywhere"
    found, line = f"{run.time:g}", run.line or None
    raise InputError(message, file=file, line=line, found=found, expected=expected)


def find_measured(mappings: Sequence[TaskMapping], runs: Runs) -> NDArray[np.int64]:
    """Return the index of each mapping that ran, in the order of ``runs.names``."""
    index = {mapping.name or str(i): i for i, mapping in enumerate(mappings)}
    if len(index) < len(mappings):
        found = f"{len(index)} names for {len(mappings)} mappings"
        raise InputError(
            "names of mappings are not unique", found=found, expected="a name for each"
        )
    for name in runs.names:
        if name not in index:
            message, line = "time of an unknown mapping", runs.line_of(name)
            expected = f"such as {next(iter(index), 'those given')}"
            raise InputError(message, file=runs.file, line=line, found=name, expected=expected)
    return np.array([index[name] for name in runs.names])


class NothingToLearnError(InputError):
    """The measured times do not allow a prediction of other times."""


def check_enough(runs: Runs) -> None:
    """Raise `NothingToLearnError` if mappings are too few or do not differ significantly."""
    n, times, fault = len(runs.names), runs.times, partial(NothingToLearnError, file=runs.file)
    if n < MIN_MAPPINGS:
        expected = f"at least {MIN_MAPPINGS} measured mappings"
        raise fault("too few mappings to learn from", found=n, expected=expected)
    if times.max() <= times.min() * (1 + 1e-9):
        raise fault(f"nothing to learn: all {n} times are equal", found=times[0])
    if not runs.noise > 0:
        return
    # An analysis of variance of log times.
    deviations = np.log(times) - np.log(times).mean()
    variance_between = float((runs.counts * deviations**2).sum() / (n - 1))
    df_within = int((runs.counts - 1).sum())
    if scipy.stats.f.sf(variance_between / runs.noise**2, n - 1, df_within) > SIGNIFICANCE:
        noise = percent(runs.noise, digits=2)
        expected = "more runs of each, or mappings that differ more"
        message = f"the {n} mappings differ no more than repeated runs, which vary by {noise}"
        raise fault(f"nothing to learn: {message}", expected=expected)


def possible_rcc(runs: Runs) -> float:
    """Return the expected share of pairs whose true and measured times are in the same order.

    No forecast can be expected to reach a higher RCC under this noise. Pairs of equal measured
    times are left out, as in `rcc_told_apart`.
    """
    if math.isnan(runs.noise):
        return math.nan
    sample, difference, error = _compare_pairs(runs)
    # The variance of measured times is the variance of true times plus that of the noise. A pair
    # that differs by d is in its true order with probability cdf(sqrt(true share) * d / error).
    total = float(np.log(runs.times)[sample].var())
    true_share = max(0.0, 1 - float((runs.errors[sample] ** 2).mean()) / total) if total else 0.0
    is_right = scipy.stats.norm.cdf(math.sqrt(true_share) * difference / np.maximum(error, 1e-12))
    return float(is_right[difference > 0].mean()) if (difference > 0).any() else math.nan


def tied_share(runs: Runs) -> float:
    """Return the share of pairs that noise makes indistinguishable; NaN if noise is unknown.

    The times of such a pair differ by less than twice the standard error of the difference.
    """
    if math.isnan(runs.noise):
        return math.nan
    _, difference, error = _compare_pairs(runs)
    return float((difference < 2 * error).mean())


def _compare_pairs(runs: Runs) -> tuple[NDArray[np.int64], Floats, Floats]:
    """Return sampled mappings, and each pair's log difference and its standard error."""
    n = len(runs.names)
    sample = np.linspace(0, n - 1, min(n, _MAX_PAIRED)).astype(np.int64)
    logs, errors = np.log(runs.times)[sample], runs.errors[sample]
    i, j = np.triu_indices(logs.size, 1)
    return sample, np.abs(logs[i] - logs[j]), np.hypot(errors[i], errors[j])
