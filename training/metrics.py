"""Metrics of predicted times: order of pairs, correlation, fit and regret."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from toruscast._slow import pandas as pd
from toruscast._slow import scipy
from toruscast.errors import InputError
from toruscast.typing import Floats
from toruscast.validation import whole_number


def wrong_pairs(observed: ArrayLike, predicted: ArrayLike) -> int:
    """Return the number of pairs of mappings whose observed and predicted orders differ.

    With observed times x and predicted times y, the order of a pair ``j < i`` is the same if either
    ``x_i >= x_j and y_i >= y_j`` or ``x_i < x_j and y_i < y_j``. Whether a pair tied in only one of
    x and y is right therefore depends on which mapping is first; a pair tied in both is right.

    Examples
    --------
    >>> wrong_pairs([1, 2, 3, 4], [1, 3, 2, 4])
    1
    """
    x, y = _check_pair(observed, predicted)
    # After a stable sort by x, the inversions of y are the wrong pairs that are not tied in y.
    # After a stable sort by y, the inversions of x are the wrong pairs that are not tied in x.
    # Wrong pairs tied in neither are in both counts; only they are inversions of y after a sort by
    # x, then y.
    by_x, by_y = np.argsort(x, kind="stable"), np.argsort(y, kind="stable")
    n_untied = _count_inversions(y[np.lexsort((y, x))])
    return _count_inversions(y[by_x]) + _count_inversions(x[by_y]) - n_untied


def rcc(observed: ArrayLike, predicted: ArrayLike) -> float:
    """Return the rank correlation coefficient: the share of pairs in the same order.

    It is 1 for a perfect ranking, about 0.5 for a random one and 0 for a reversed one (Jain,
    Bhatele, Robson, Gamblin and Kale, SC'13, section 4.4). Ties count as in `wrong_pairs`. It is
    NaN if all observed times are equal.

    Examples
    --------
    >>> round(rcc([1, 2, 3, 4], [1, 3, 2, 4]), 3)
    0.833
    """
    x, _ = _check_pair(observed, predicted)
    n = x.size
    if (x == x[0]).all():
        return float("nan")
    return 1.0 - wrong_pairs(observed, predicted) / (n * (n - 1) / 2)


def rcc_ties_halved(observed: ArrayLike, predicted: ArrayLike) -> float:
    """Return `rcc`, but with pairs that are tied in only one argument counted as half right.

    Unlike `rcc`, it does not depend on the order of the mappings. This matters for predictions with
    many ties, such as a single feature.
    """
    x, y = _check_pair(observed, predicted)
    return (rcc(x, y) + rcc(x[::-1], y[::-1])) / 2


def rcc_told_apart(observed: ArrayLike, predicted: ArrayLike, apart: float = 0.0) -> float:
    """Return the share of pairs in the same order, among those whose observed times differ.

    A pair counts only if its longer observed time exceeds the shorter one by more than the share
    ``apart``. Pairs with equal predicted times count as half right. NaN if no pair differs enough.

    Examples
    --------
    >>> rcc_told_apart([1, 1, 2, 3], [5, 6, 7, 7]), rcc_told_apart([1, 1], [1, 1])
    (0.9, nan)
    """
    x, y = _check_pair(observed, predicted)
    if x.min() <= 0:
        raise InputError("bad observed time", found=x.min(), expected="positive seconds")
    order = np.argsort(x, kind="stable")
    x, y = x[order], y[order]
    # For each mapping, the index of the first one whose time is longer by more than ``apart``.
    first_apart = np.searchsorted(x, x * (1 + apart), side="right")
    n_right = n_pairs = 0.0
    for i in range(x.size):
        later = y[first_apart[i] :]
        n_pairs += later.size
        n_right += np.count_nonzero(later > y[i]) + np.count_nonzero(later == y[i]) / 2
    return float(n_right / n_pairs) if n_pairs else float("nan")


def tau_b(observed: ArrayLike, predicted: ArrayLike) -> float:
    """Return Kendall's tau-b, -1 to 1; NaN if all observed or all predicted values are equal.

    Examples
    --------
    >>> round(tau_b([1, 2, 3, 4], [1, 3, 2, 4]), 3)
    0.667
    """
    x, y = _check_pair(observed, predicted)
    return float(scipy.stats.kendalltau(x, y).statistic)


def r2(observed: ArrayLike, predicted: ArrayLike) -> float:
    """Return the coefficient of determination: 1 at best, negative if worse than the mean.

    If all observed values are equal, it is 1 for an exact prediction, else 0.

    Examples
    --------
    >>> r2([1, 2, 3], [1, 2, 4])
    0.5
    """
    x, y = _check_pair(observed, predicted)
    # Scale both by the same unit, so that their squares neither overflow nor underflow.
    unit = max(np.abs(x).max(), np.abs(y).max()) or 1.0
    x, y = x / unit, y / unit
    total, error = float(((x - x.mean()) ** 2).sum()), float(((x - y) ** 2).sum())
    if total == 0:
        return 1.0 if error == 0 else 0.0
    return 1.0 - error / total


def regret(observed: ArrayLike, predicted: ArrayLike, k: int = 1) -> float:
    """Return the regret of running the ``k`` mappings predicted best and using the fastest.

    It is the shortest observed time of these ``k`` mappings, divided by the shortest of all
    mappings, minus 1; 0 at best.

    Examples
    --------
    >>> regret([10, 15, 20], [2, 1, 3]), regret([10, 15, 20], [2, 1, 3], k=2)
    (0.5, 0.0)
    """
    x, y = _check_pair(observed, predicted)
    k = whole_number(k, "k", 1)
    if x.min() <= 0:
        raise InputError("bad observed time", found=x.min(), expected="positive seconds")
    tried = np.argsort(y, kind="stable")[:k]
    return float(x[tried].min() / x.min() - 1.0)


METRICS: dict[str, Callable[[Any, Any], float]] = {
    "rcc": rcc,
    "tau_b": tau_b,
    "r2": r2,
    "regret_1": lambda observed, predicted: regret(observed, predicted, 1),
    "regret_5": lambda observed, predicted: regret(observed, predicted, 5),
}
METRICS_OF_RUNS = METRICS | {"rcc": rcc_told_apart}
"""Metrics of measured times; pairs of equal times do not count."""


def score_answer(table: pd.DataFrame, bound: Floats) -> dict[str, float]:
    """Score a ranking, given the simulated times of all its candidates."""
    observed, predicted = table["observed_time"], table["time"]
    scores: dict[str, float] = {}
    if len(table) > 1:
        scores = {name: metric(observed, predicted) for name, metric in METRICS.items()}
        scores["rcc_of_bound"] = rcc_ties_halved(observed, bound)
        scores["r2_of_bound"] = r2(observed, bound)
    rows = table[table["source"] == "predicted"]
    if len(rows):
        is_covered = rows["observed_time"].between(rows["low"], rows["high"])
        scores["within_interval"] = float(is_covered.mean())
    return scores


def _count_inversions(values: Floats) -> int:
    """Count the pairs ``j < i`` with ``values[j] > values[i]``, using Kendall's tau-b."""
    n_pairs = values.size * (values.size - 1) / 2
    counts = np.unique(values, return_counts=True)[1]
    n_untied = float(n_pairs - (counts * (counts - 1)).sum() / 2)
    if not n_untied:
        return 0
    tau = float(scipy.stats.kendalltau(np.arange(values.size), values).statistic)
    # tau-b = (n_untied - 2 n_inversions) / sqrt(n_pairs n_untied)
    return round((n_untied - tau * math.sqrt(n_pairs * n_untied)) / 2)


def _check_pair(observed: ArrayLike, predicted: ArrayLike) -> tuple[Floats, Floats]:
    """Return both as arrays; raise `InputError` unless each contains n finite numbers, n > 1."""
    arrays = []
    for name, values in (("observed", observed), ("predicted", predicted)):
        try:
            array = np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError(f"bad {name} times", expected="numbers") from None
        if array.ndim != 1:
            raise InputError(f"bad {name} times", found=f"shape {array.shape}", expected="(n,)")
        bad = np.flatnonzero(~np.isfinite(array))
        if bad.size:
            message = f"bad {name} time of mapping {bad[0]}"
            raise InputError(message, found=array[bad[0]], expected="finite")
        arrays.append(array)
    x, y = arrays
    if x.size != y.size:
        raise InputError("observed and predicted differ in length", found=(x.size, y.size))
    if x.size < 2:
        raise InputError("too few mappings to compare", found=x.size, expected="2 or more")
    return x, y
