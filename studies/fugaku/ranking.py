"""How well predicted times rank the algorithms of a collective."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from toruscast.training.metrics import rcc, regret

from .model import stands_for

Floats = NDArray[np.float64]

# Algorithms compete for the same collective and size on the same torus.
_GROUP = ["shape", "collective", "nbytes"]


def corrections(table: pd.DataFrame, predicted: Floats, known: NDArray[np.bool_]) -> Floats:
    """Return the measured over the predicted time of the same code and size where it is known.

    Between numbers of ports that are known it is interpolated; where none is, it is 1.

    Parameters
    ----------
    table : DataFrame
        From `tabulate`.
    predicted : ndarray, shape (n_rows,)
        Seconds.
    known : ndarray of bool, shape (n_rows,)
        Rows whose measured times may be used.
    """
    keys = pd.DataFrame(
        {
            "code": table["code"].map(stands_for),
            "segment": table["segment"].where(table["layer"] != "trees", 0),
            "nbytes": table["nbytes"],
        }
    )
    ports = np.log(table["ports"].to_numpy(dtype=float))
    ratio = np.log(table["time"].to_numpy() / predicted)
    # A code that stands for another is not itself known.
    own = known & (keys["code"] == table["code"]).to_numpy()
    factor = np.ones(len(table))
    same = keys.groupby(["code", "segment", "nbytes"]).ngroup().to_numpy()
    for number in range(same.max(initial=-1) + 1):
        rows = np.flatnonzero(same == number)
        there = rows[own[rows]]
        if there.size:
            there = there[np.argsort(ports[there])]
            factor[rows] = np.exp(np.interp(ports[rows], ports[there], ratio[there]))
    return factor


def rank_groups(table: pd.DataFrame, methods: dict[str, Floats]) -> pd.DataFrame:
    """Return RCC and regret of each method for every torus, collective and size.

    Parameters
    ----------
    table : DataFrame
        With ``shape``, ``collective``, ``nbytes`` and ``time``.
    methods : dict of str to ndarray, shape (n_rows,)
        Predicted seconds; rows where one is NaN are left out for all.

    Returns
    -------
    DataFrame
        A row for each group of two algorithms or more and each method: ``algorithms``, ``rcc``,
        ``regret`` (measured time of the predicted best over the best, less 1) and ``error``
        (median of the predicted over the measured time or the reverse, less 1).
    """
    there = np.all([np.isfinite(values) for values in methods.values()], axis=0)
    observed = table["time"].to_numpy()
    rows = []
    keys = table[_GROUP].drop_duplicates().sort_values(_GROUP)
    number = table.groupby(_GROUP).ngroup().to_numpy()
    for at, key in enumerate(keys.itertuples(index=False, name=None)):
        chosen = np.flatnonzero((number == at) & there)
        if chosen.size < 2:
            continue
        for method, values in methods.items():
            x, y = observed[chosen], values[chosen]
            error = float(np.exp(np.median(np.abs(np.log(y / x)))) - 1)
            rows.append((*key, method, chosen.size, rcc(x, y), regret(x, y), error))
    columns = [*_GROUP, "method", "algorithms", "rcc", "regret", "error"]
    return pd.DataFrame(rows, columns=columns)


def count_pairs(table: pd.DataFrame, predicted: Floats, close: float) -> tuple[int, int, int]:
    """Return all pairs within the groups, those ordered wrong, and of these the close ones.

    Parameters
    ----------
    table : DataFrame
        As in `rank_groups`.
    predicted : ndarray, shape (n_rows,)
        Seconds.
    close : float
        Largest measured time over the smaller one, less 1, of a close pair.

    Examples
    --------
    >>> table = pd.DataFrame({"shape": "", "collective": "", "nbytes": 8, "time": [1.0, 1.01, 2]})
    >>> count_pairs(table, np.array([2.0, 1.0, 1.0]), 0.1)
    (3, 2, 1)
    """
    pairs = wrong = near = 0
    number = table.groupby(_GROUP).ngroup().to_numpy()
    for group in range(number.max(initial=-1) + 1):
        rows = np.flatnonzero(number == group)
        if rows.size < 2:
            continue
        first, second = np.triu_indices(rows.size, 1)
        x, y = table["time"].to_numpy()[rows], predicted[rows]
        unlike = (x[second] >= x[first]) != (y[second] >= y[first])
        ratio = np.maximum(x[first], x[second]) / np.minimum(x[first], x[second])
        pairs += unlike.size
        wrong += int(unlike.sum())
        near += int((unlike & (ratio < 1 + close)).sum())
    return pairs, wrong, near


def summarise(groups: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return means and medians over the groups."""
    parts = groups.groupby(by, sort=False)
    return pd.DataFrame(
        {
            "groups": parts.size(),
            "mean RCC": parts["rcc"].mean(),
            "worst RCC": parts["rcc"].min(),
            "median regret@1": parts["regret"].median(),
            "mean regret@1": parts["regret"].mean(),
            "median error": parts["error"].median(),
        }
    ).reset_index()
