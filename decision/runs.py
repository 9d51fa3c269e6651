"""Runs of mappings on a machine: their times summarised, and how far noise blurs them."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from toruscast._slow import pandas as pd
from toruscast._slow import scipy
from toruscast.errors import InputError
from toruscast.formats.times import MAPPING, Run, read_runs
from toruscast.mapping import TaskMapping
from toruscast.notebook import NotebookCard
from toruscast.text import counted, factor, percent, seconds

LEAST_MAPPINGS = 6
CHANCE = 0.01
"""Significance level: what is less likely is not taken for chance."""
# Mappings of which all pairs are looked at.
_PAIRED = 1500

Floats = NDArray[np.float64]
Times = Any
"""A file of `read_runs`, a dict of names to seconds (one or several), a table, or `Runs`."""
# Times of one application differ by a factor of a few; milliseconds among seconds by a thousand.
_ANOTHER_UNIT = 100.0
# Widths of the noise, and the least share of the time, from which on a run is an outlier.
_OUTLYING, _OUTLYING_SHARE = 6.0, 0.05
# Standard error of the median of so many normal values over that of their mean; the last of more.
_OF_MEDIAN = np.array([1.0, 1.0, 1.0, 1.16, 1.09, 1.20, 1.14, 1.2])
# Runs for which the common noise counts beside a mapping's own.
_COMMON = 4
# Chance at which a drift is named, and its least size over all rows.
_DRIFTS, _DRIFT_SHARE = 1e-3, 0.01


@dataclass(frozen=True, eq=False)
class Runs(NotebookCard):
    """Times of mappings, each measured once or more.

    Attributes
    ----------
    names : tuple of str
        Mappings, in the order of their first run.
    seconds : ndarray, shape (n_runs,)
        Time of each run, in the order in which they were made.
    which : ndarray of int, shape (n_runs,)
        Mapping of each run, an index into ``names``.
    lines : tuple of int
        Line of the file that each run stands on; empty where there is no file.
    file : str or None
        That file.

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
        ends = f"{seconds(self.seconds.min())} to {seconds(self.seconds.max())}"
        return (
            f"Runs({counted(len(self.seconds), 'run')} of {counted(len(self.names), 'mapping')}: "
            f"{ends})"
        )

    @classmethod
    def from_times(cls, times: Times) -> Self:
        """Return the runs of a file, a table, or a dict of names to a time or to several.

        A table has the columns ``mapping`` and ``time``, a row a run.
        """
        if isinstance(times, cls):
            return times
        file = os.fspath(times) if isinstance(times, str | os.PathLike) else None
        runs = _runs(times) if file is None else read_runs(file)
        if not runs:
            raise InputError("no times", expected="a time of each of six mappings or more")
        names = {name: i for i, name in enumerate(dict.fromkeys(run.mapping for run in runs))}
        seconds = np.array([run.time for run in runs])
        _check_unit(runs, seconds, file)
        which = np.array([names[run.mapping] for run in runs])
        lines = () if file is None else tuple(run.line for run in runs)
        return cls(tuple(names), seconds, which, lines, file)

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """Runs of each mapping, shape ``(n,)``."""
        return np.bincount(self.which, minlength=len(self.names))

    @cached_property
    def times(self) -> Floats:
        """Median of the runs of each mapping, seconds, shape ``(n,)``."""
        return self._median(self.seconds)

    @cached_property
    def noise(self) -> float:
        """Standard deviation of one run over the time; NaN where none was repeated.

        Pooled over the mappings; outliers are left out.
        """
        kept, free = self._kept, self._freedom
        if not free.sum():
            return math.nan
        return float(np.sqrt((self._misses[kept] ** 2).sum() / free.sum()))

    @cached_property
    def errors(self) -> Floats:
        """Standard error of each of ``times`` over it, shape ``(n,)``; NaN where noise is unknown.

        From the mapping's own spread as far as it ran often, else from that of all.
        """
        kept = self._kept
        squares = np.bincount(self.which[kept], self._misses[kept] ** 2, len(self.names))
        free = self._freedom
        variance = (_COMMON * self.noise**2 + squares) / (_COMMON + free)
        widen = _OF_MEDIAN[np.minimum(self.counts, _OF_MEDIAN.size - 1)]
        return np.asarray(widen * np.sqrt(variance / self.counts))

    @cached_property
    def is_outlier(self) -> NDArray[np.bool_]:
        """Which runs lie far from the others of their mapping, shape ``(n_runs,)``."""
        repeated = self.counts[self.which] > 1
        if not repeated.any():
            return np.zeros(self.which.size, dtype=bool)
        counts = self.counts[self.which]
        spread = np.abs(self._misses) * np.sqrt(counts / np.maximum(counts - 1, 1))
        width = 1.4826 * float(np.median(spread[repeated]))
        return np.asarray(spread > max(_OUTLYING * width, _OUTLYING_SHARE))

    @property
    def outliers(self) -> NDArray[np.int64]:
        """Runs that are outliers, the farthest from its mapping's median first."""
        rows = np.flatnonzero(self.is_outlier)
        return rows[np.argsort(-np.abs(self._misses[rows]), kind="stable")]

    @cached_property
    def drift(self) -> float:
        """Share by which times grow from the first run to the last; 0 where that may be chance.

        Told by mappings that ran more than once.
        """
        repeated = np.flatnonzero((self.counts[self.which] > 1) & ~self.is_outlier)
        if repeated.size < 8:
            return 0.0
        # Runs side by side tell nothing of a drift; a few thousand are enough.
        repeated = repeated[:: 1 + repeated.size // 2000]
        place, missed = repeated.astype(np.float64), self._misses[repeated]
        if np.ptp(missed) == 0 or scipy.stats.kendalltau(place, missed).pvalue > _DRIFTS:
            return 0.0
        grown = math.expm1(float(scipy.stats.theilslopes(missed, place)[0]) * self.which.size)
        return grown if abs(grown) >= _DRIFT_SHARE else 0.0

    def take(self, names: Sequence[str]) -> Self:
        """Return the runs of some mappings, in this order of mappings."""
        place = {self.names[i]: i for i in range(len(self.names))}
        number = np.full(len(self.names), -1)
        number[[place[name] for name in names]] = np.arange(len(names))
        kept = np.flatnonzero(number[self.which] >= 0)
        lines = tuple(self.lines[i] for i in kept) if self.lines else ()
        return type(self)(
            tuple(names), self.seconds[kept], number[self.which[kept]], lines, self.file
        )

    def line_of(self, name: str) -> int | None:
        """Return the first line of a mapping in the file; None where there is no file."""
        if not self.lines:
            return None
        return self.lines[int(np.argmax(self.which == self.names.index(name)))]

    @property
    def _misses(self) -> Floats:
        """Logarithm of each run over the median of its mapping."""
        logs = np.log(self.seconds)
        return np.asarray(logs - self._median(logs)[self.which])

    @property
    def _kept(self) -> NDArray[np.bool_]:
        return ~self.is_outlier

    @property
    def _freedom(self) -> NDArray[np.int64]:
        """Runs of each mapping that are no outliers, beyond the first."""
        kept = np.bincount(self.which[self._kept], minlength=len(self.names))
        return np.maximum(kept - 1, 0)

    def _median(self, values: Floats) -> Floats:
        """Median of a value of each run over the runs of a mapping."""
        return np.asarray(pd.Series(values).groupby(self.which).median())


def _runs(times: object) -> list[Run]:
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
    return [Run(name, float(value), 0) for name, value in pairs]


def _check_unit(runs: Sequence[Run], seconds: Floats, file: str | None) -> None:
    """Raise where a time is so far from the others that it must be in another unit."""
    ratio = seconds / np.median(seconds)
    far = np.flatnonzero((ratio > _ANOTHER_UNIT) | (ratio < 1 / _ANOTHER_UNIT))
    if not far.size:
        return
    run = runs[far[0]]
    more = f", as do {far.size - 1} more" if far.size > 1 else ""
    raise InputError(
        f"are all times in one unit? {run.mapping} takes {factor(ratio[far[0]])} the median{more}",
        file=file,
        line=run.line or None,
        found=f"{run.time:g}",
        expected="seconds everywhere",
    )


def mappings_of(mappings: Sequence[TaskMapping], runs: Runs) -> list[TaskMapping]:
    """The mappings that ran, in the order of the runs."""
    known = {mapping.name or str(i): mapping for i, mapping in enumerate(mappings)}
    if len(known) < len(mappings):
        found = f"{len(mappings)} mappings of {len(known)} names"
        raise InputError("times cannot tell mappings apart", found=found, expected="names of all")
    for name in runs.names:
        if name not in known:
            expected = f"such as {next(iter(known), 'those given')}"
            raise InputError(
                "time of a mapping that is not there",
                file=runs.file,
                line=runs.line_of(name),
                found=name,
                expected=expected,
            )
    return [known[name] for name in runs.names]


class NothingToLearnError(InputError):
    """Measured times tell nothing of mappings that were not measured."""


def check_enough(runs: Runs) -> None:
    """Raise `NothingToLearnError` if there are too few times, or nothing tells them apart."""
    n, times = len(runs.names), runs.times
    if n < LEAST_MAPPINGS:
        expected = f"{LEAST_MAPPINGS} or more, each measured once at least"
        raise NothingToLearnError(
            "too few mappings to learn from", file=runs.file, found=n, expected=expected
        )
    if times.max() <= times.min() * (1 + 1e-9):
        raise NothingToLearnError(
            f"nothing to learn: all {n} times are equal", file=runs.file, found=times[0]
        )
    free = int((runs.counts - 1).sum())
    if not runs.noise > 0:
        return
    # Variances of one run, between the mappings and within them.
    between = float((runs.counts * (np.log(times) - np.log(times).mean()) ** 2).sum() / (n - 1))
    if scipy.stats.f.sf(between / runs.noise**2, n - 1, free) > CHANCE:
        raise NothingToLearnError(
            f"nothing to learn: the {n} mappings differ no more than the runs of one, which vary "
            f"by {percent(runs.noise, digits=2)}",
            file=runs.file,
            expected="more runs of each, or mappings that differ more",
        )


def possible_rcc(runs: Runs) -> float:
    """Return the RCC that true times would reach against the measured ones.

    No forecast can be expected to do better: noise turns pairs around. Pairs of equal measured
    times are left out, as in `rcc_told_apart`.
    """
    if math.isnan(runs.noise):
        return math.nan
    some, apart, blur = _pairs(runs)
    # Noise spreads measured times wider than true ones.
    spread = float(np.log(runs.times)[some].var())
    true = max(0.0, 1 - float((runs.errors[some] ** 2).mean()) / spread) if spread else 0.0
    right = scipy.stats.norm.cdf(math.sqrt(true) * apart / np.maximum(blur, 1e-12))
    return float(right[apart > 0].mean()) if (apart > 0).any() else math.nan


def tied_share(runs: Runs) -> float:
    """Return the share of pairs that cannot be told apart at this noise; NaN if it is not known.

    A pair is told apart where its times differ by twice the standard error of the difference.
    """
    if math.isnan(runs.noise):
        return math.nan
    _, apart, blur = _pairs(runs)
    return float((apart < 2 * blur).mean())


def _pairs(runs: Runs) -> tuple[NDArray[np.int64], Floats, Floats]:
    """Some or all mappings, and how far each two differ, with the standard error, in logarithms."""
    some = np.linspace(0, len(runs.names) - 1, min(len(runs.names), _PAIRED)).astype(np.int64)
    logs, errors = np.log(runs.times)[some], runs.errors[some]
    i, j = np.triu_indices(logs.size, 1)
    return some, np.abs(logs[i] - logs[j]), np.hypot(errors[i], errors[j])
