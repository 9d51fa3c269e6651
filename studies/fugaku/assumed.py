"""How much the ranking of the algorithms hangs on the times that the model assumes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .model import ASSUMED
from .ranking import rank_groups, summarise

Floats = NDArray[np.float64]

NONE = "none of them"
# What assumed times are multiplied by; those that are not named stay as they are. Each of the two
# that were sized with the times of 64x64 at hand is left out alone.
_FACTORS: dict[str, dict[str, float]] = {
    "as assumed": {},
    NONE: dict.fromkeys(ASSUMED, 0.0),
    "without evictions": {"evictions": 0.0},
    "without memory": {"far": 0.0},
    "all doubled": dict.fromkeys(ASSUMED, 2.0),
    "all halved": dict.fromkeys(ASSUMED, 0.5),
}


def scaled(table: pd.DataFrame, variation: str) -> pd.DataFrame:
    """Return a table whose assumed times count as often as in a variation.

    Parameters
    ----------
    table : DataFrame
        From `tabulate`.
    variation : str
        As in the table that `vary` returns.

    Examples
    --------
    >>> scaled(pd.DataFrame({"evictions": [8], "far": [2]}), "without evictions")
       evictions  far
    0        0.0    2
    """
    factors = _FACTORS[variation]
    return table.assign(**{name: table[name] * factor for name, factor in factors.items()})


def vary(table: pd.DataFrame, methods: Callable[[pd.DataFrame], dict[str, Floats]]) -> pd.DataFrame:
    """Return how well the algorithms are ranked as the assumed times vary.

    Parameters
    ----------
    table : DataFrame
        From `tabulate`.
    methods : callable
        Takes a table and returns each method's predicted seconds, shape (n_rows,). What it has
        fitted stays as it is.

    Returns
    -------
    DataFrame
        A row for each torus and variation: ``shape``, ``assumed times``, and of each method the
        mean RCC over the groups.
    """
    groups = pd.concat(
        rank_groups(table, methods(scaled(table, variation))).assign(variation=variation)
        for variation in _FACTORS
    )
    means = summarise(groups, ["shape", "variation", "method"])
    wide = means.pivot_table("mean RCC", ["shape", "variation"], "method", sort=False)
    wide = wide.sort_index(level="shape", sort_remaining=False, kind="stable")
    wide = wide.add_prefix("mean RCC, ").rename_axis(columns=None)
    return wide.rename_axis(index=["shape", "assumed times"]).reset_index()
