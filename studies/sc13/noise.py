"""Run-to-run variation of simulated times, and what it leaves of a forecast."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from toruscast.training.evaluate import random_splits
from toruscast.training.metrics import r2, rcc
from toruscast.training.predictor import TimePredictor

from ..scores import forecast

SHARES = (0.01, 0.03, 0.05)
"""Relative spreads of a time between runs."""


def noisy(times: NDArray[np.float64], share: float, seed: int = 0) -> NDArray[np.float64]:
    """Return times with run-to-run variation: a log-normal factor of this relative spread.

    Examples
    --------
    >>> noisy(np.ones(1000), 0.03).std().round(3)
    np.float64(0.029)
    """
    return times * np.exp(share * np.random.default_rng(seed).standard_normal(len(times)))


def ceiling(times: NDArray[np.float64], quiet: NDArray[np.float64]) -> dict[str, float]:
    """Return what times that vary have in common with those that do not.

    Examples
    --------
    >>> round(ceiling(np.array([1.0, 3.0, 2.0]), np.array([1.0, 2.0, 3.0]))["ceiling"], 2)
    0.67
    """
    return {"ceiling": rcc(times, quiet), "r2_ceiling": r2(times, quiet)}


def ceiling_of_splits(
    times: NDArray[np.float64], quiet: NDArray[np.float64], n_splits: int
) -> dict[str, float]:
    """Return the mean `ceiling` of the mappings that are forecast in the splits of `evaluate`."""
    found = [ceiling(times[test], quiet[test]) for _, test in random_splits(len(times), n_splits)]
    return {name: float(np.mean([one[name] for one in found])) for name in found[0]}


def forecast_under_noise(
    train: pd.DataFrame, test: pd.DataFrame, learners: Mapping[str, TimePredictor], seed: int = 0
) -> pd.DataFrame:
    """Score learners where the times of both tables vary: a row a spread and learner."""
    parts = []
    for share in SHARES:
        here, there = (
            table.assign(time=noisy(table["time"].to_numpy(), share, seed=2 * seed + half))
            for half, table in enumerate((train, test))
        )
        scored, _ = forecast(here, there, learners)
        limits = ceiling(there["time"].to_numpy(), test["time"].to_numpy())
        parts.append(scored.assign(noise=share, **limits))
    return pd.concat(parts, ignore_index=True)
