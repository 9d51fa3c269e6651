"""Score the order of a collective's algorithms by predicted times."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from toruscast.training import rcc, regret

Floats = NDArray[np.float64]

# Algorithms compete for the same collective and size on the same torus.
GROUP = ["shape", "collective", "nbytes"]


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

    Examples
    --------
    >>> table = pd.DataFrame({"shape": "2", "collective": "", "nbytes": 8, "time": [1.0, 2.0, 3.0]})
    >>> rank_groups(table, {"model": np.array([2.0, 1.0, 3.0])})["regret"].tolist()
    [1.0]
    """
    said = pd.DataFrame(methods, index=table.index)
    rows = []
    for key, group in table[said.notna().all(axis=1)].groupby(GROUP):
        if len(group) < 2:
            continue
        seen = group["time"].to_numpy()
        for method in methods:
            values = said.loc[group.index, method].to_numpy()
            error = float(np.exp(np.median(np.abs(np.log(values / seen)))) - 1)
            rows.append((*key, method, len(group), rcc(seen, values), regret(seen, values), error))
    columns = [*GROUP, "method", "algorithms", "rcc", "regret", "error"]
    return pd.DataFrame(rows, columns=columns)


def summarise(groups: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return means and medians over the groups."""
    parts = groups.groupby(by, sort=False)
    return pd.DataFrame(
        {
            "groups": parts.size(),
            "mean RCC": parts["rcc"].mean(),
            "worst RCC": parts["rcc"].min(),
            "median regret@1": parts["regret"].median(),
            "median error": parts["error"].median(),
        }
    ).reset_index()
