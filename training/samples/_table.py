"""Tables of features: which columns those are, and whether times belong to their rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from toruscast.errors import InputError

from .store import LABELS

Floats = NDArray[np.float64]
# Share of a value by which sums in another order may differ.
_ROUNDING = 1e-12


def check_order(table: object, **columns: object) -> None:
    """Raise if a column has the table's labels in another order: rows go by place."""
    for name, values in columns.items():
        if not (isinstance(table, pd.DataFrame) and isinstance(values, pd.Series)):
            continue
        if not values.index.equals(table.index) and set(values.index) == set(table.index):
            raise InputError(
                f"{name} in another order than the features", expected="such as y.loc[X.index]"
            )


def check_times(times: object) -> None:
    """Raise if one of the times is no finite number; what is no column scikit-learn refuses."""
    try:
        # Next to a text, NumPy makes texts of numbers too, unless they are objects.
        array = np.asarray(times, dtype=object)
    except ValueError:
        return
    for row, value in enumerate(array if array.ndim == 1 else ()):
        if isinstance(value, complex):
            return
        is_number = isinstance(value, Real)
        if not (is_number and math.isfinite(value)):
            raise InputError(
                f"bad observed time of row {row}",
                found=value if is_number else repr(value),
                expected="a number of seconds",
            )


def columns_of(table: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Columns of these names, or an error that names those that are missing."""
    missing = [name for name in names if name not in table.columns]
    if missing:
        raise InputError("missing features", found=list(table.columns), expected=", ".join(missing))
    return table[list(names)]


def features_only(table: pd.DataFrame) -> pd.DataFrame:
    """Table without the labels of samples and their time, which is no feature of itself."""
    return table.drop(columns=["time", *LABELS], errors="ignore")


def finite(table: pd.DataFrame) -> pd.DataFrame:
    """Table of features, or an error that names the one of which a value is missing."""
    numbers = table.select_dtypes("number")
    values = numbers.to_numpy(dtype=np.float64)
    bad = ~np.isfinite(values)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        more = int(bad[:, column].sum()) - 1
        raise InputError(
            f"feature {numbers.columns[column]} is not finite",
            found=f"{values[row, column]} in row {row}" + (f" and {more} more" if more else ""),
            expected="numbers",
        )
    return table


def seconds_of(table: object, name: str) -> Floats:
    """Column of positive times, or an error that says what it is instead."""
    if not isinstance(table, pd.DataFrame):
        raise InputError(
            "times over another need a table",
            found=type(table).__name__,
            expected=f"a DataFrame with {name}",
        )
    seconds: Floats = columns_of(table, [name])[name].to_numpy(dtype=np.float64)
    bad = np.flatnonzero(~(np.isfinite(seconds) & (seconds > 0)))
    if bad.size:
        raise InputError(
            f"bad {name} of row {bad[0]}", found=seconds[bad[0]], expected="positive seconds"
        )
    return seconds


def normalisation(values: Floats) -> tuple[Floats, Floats]:
    """Mean and standard deviation of each column, the latter 1 where that is 0 but for rounding.

    Divided by a deviation of some last digits, a constant column would become noise.
    """
    scale = values.std(axis=0)
    is_constant = scale <= _ROUNDING * np.abs(values).max(axis=0)
    return values.mean(axis=0), np.where(is_constant, 1.0, scale)
