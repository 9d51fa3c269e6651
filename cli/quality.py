"""How good forecasts are, as tables for people."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .output import records
from .tables import new_table

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console

COVERAGE = 0.9
"""Share of the times that the intervals shall hold."""
METRICS = {
    "rcc": ("RCC", "share of pairs of mappings in the right order"),
    "tau_b": ("tau-b", "Kendall's rank correlation"),
    "r2": ("R^2", "share of the variance explained"),
    "regret_1": ("regret@1", "time lost by taking the mapping predicted fastest"),
    "regret_5": ("regret@5", "the same, after trying the five predicted fastest"),
}


def score(metric: str, value: float) -> str:
    """Return a score for people: regret in per cent, the others as they are; a dash for NaN.

    Examples
    --------
    >>> score("rcc", 0.9514), score("regret_1", 0.0213)
    ('0.951', '2.1 %')
    """
    if math.isnan(value):
        return "-"
    return f"{100 * value:.1f} %" if metric.startswith("regret") else f"{value:.3f}"


def between(metric: str, low: float, high: float) -> str:
    """Return an interval of scores, its unit once; a dash where there is none.

    Examples
    --------
    >>> between("regret_1", 0.0, 0.1), between("rcc", float("nan"), float("nan"))
    ('0.0 to 10.0 %', '-')
    """
    if math.isnan(low):
        return "-"
    return f"{score(metric, low).removesuffix(' %')} to {score(metric, high)}"


def print_quality(quality: pd.DataFrame, console: Console) -> None:
    """Print the scores of one predictor over repeated splits, as `summarise` gives them."""
    console.print("Quality on mappings kept out of training, over repeated splits:", style="bold")
    shown = new_table("score", "mean", "95 % of splits", "what it is", left=("score", "what it is"))
    for row in records(quality):
        label, meaning = METRICS[row["metric"]]
        name, mean = row["metric"], score(row["metric"], row["mean"])
        shown.add_row(label, mean, between(name, row["low"], row["high"]), meaning)
    console.print(shown)
