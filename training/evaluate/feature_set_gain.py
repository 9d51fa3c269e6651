"""What one feature set forecasts better than another."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray


def gains(scores: pd.DataFrame) -> pd.DataFrame:
    """Return by how much each predictor's RCC is higher than the first one's, on the same splits.

    Parameters
    ----------
    scores : DataFrame
        A row per predictor and split, as `repeated_splits` gives it.

    Returns
    -------
    DataFrame
        Indexed by predictor: mean ``gain`` and its 95 % interval, ``low`` to ``high``.

    Notes
    -----
    The splits share mappings, so the interval is that of the corrected resampled t-test of Nadeau
    and Bengio, Machine Learning 52, 2003: variance times 1/n + n_test/n_train.

    Examples
    --------
    >>> scores = pd.DataFrame({
    ...     "predictor": ["a", "a", "b", "b"], "split": [0, 1, 0, 1], "n_train": 2, "n_test": 1,
    ...     "rcc": [0.5, 0.7, 0.6, 0.8],
    ... })
    >>> gains(scores)["gain"].round(3).to_dict()
    {'a': 0.0, 'b': 0.1}
    """
    names = list(dict.fromkeys(scores["predictor"]))
    by_split = scores.pivot(index="split", columns="predictor", values="rcc")
    ratio = float(scores["n_test"].iloc[0] / scores["n_train"].iloc[0])
    rows = {}
    for name in names:
        better = (by_split[name] - by_split[names[0]]).to_numpy(dtype=np.float64)
        gain, margin = _mean_and_margin(better, ratio)
        rows[name] = {"gain": gain, "low": gain - margin, "high": gain + margin}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("features")


def _mean_and_margin(values: NDArray[np.float64], ratio: float) -> tuple[float, float]:
    """Return the mean over overlapping splits and half its 95 % interval."""
    from scipy.stats import t

    if values.size < 2:
        return float(values.mean()), float("nan")
    variance = values.var(ddof=1) * (1 / values.size + ratio)
    return float(values.mean()), float(t.ppf(0.975, values.size - 1) * np.sqrt(variance))
