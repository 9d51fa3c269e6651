"""Measurements of many call paths at the same points."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from toruscast.errors import InputError
from toruscast.validation import repeated

Array = NDArray[np.float64]

# Limits of values and parameters, so that squares and products of cubes do not overflow.
LARGEST = 1e50
LEAST = 1e-50
LARGEST_PARAMETER = 1e20


@dataclass(frozen=True, eq=False)
class Measurements:
    """Values of call paths and metrics, measured at one set of points.

    Parameters
    ----------
    parameters : sequence of str
    points : array-like, shape (n_points, n_parameters)
        Values of the parameters, 0 or more; no point is repeated.
    values : array-like, shape (n_paths, n_points, n_repetitions)
        NaN marks a missing repetition; each point needs at least one.
    callpaths, metrics : sequence of str, optional
        A name for each path.

    Examples
    --------
    >>> m = Measurements(["p"], [[2], [4], [8]], [[[1.0, 1.1], [2.0, 2.1], [4.0, 4.1]]])
    >>> m.n_paths, m.points.shape, m.values.shape
    (1, (3, 1), (1, 3, 2))
    """

    parameters: tuple[str, ...]
    points: Array
    values: Array
    callpaths: tuple[str, ...]
    metrics: tuple[str, ...]

    def __init__(
        self,
        parameters: Sequence[str],
        points: ArrayLike,
        values: ArrayLike,
        callpaths: Sequence[str] | None = None,
        metrics: Sequence[str] | None = None,
    ) -> None:
        x, y = real_numbers(points, "points"), real_numbers(values, "values")
        if x.ndim != 2 or y.ndim != 3 or x.shape[0] != y.shape[1] or 0 in y.shape:
            raise InputError(
                "points and values disagree",
                found=f"shapes {x.shape} and {y.shape}",
                expected="(points, parameters) and (paths, points, repetitions)",
            )
        if x.shape[1] != len(parameters) or len(set(parameters)) < len(parameters):
            raise InputError(
                f"{x.shape[1]} parameters need as many different names", found=list(parameters)
            )
        check_points(x, parameters)
        if len(np.unique(x, axis=0)) < len(x):
            raise InputError("a point stands twice; join its repetitions")
        if np.isinf(y).any():
            raise InputError("a value is infinite")
        if np.isnan(y).all(axis=2).any():
            raise InputError("a point has no value", expected="one repetition at least")
        size = np.nanmax(np.abs(y), axis=(1, 2))
        if size.max() > LARGEST:
            raise InputError(
                "a value is too large to fit; use another unit",
                found=size.max(),
                expected=f"at most {LARGEST:g}",
            )
        faint = size[(size > 0) & (size < LEAST)]
        if faint.size:
            raise InputError(
                "the values of a path are too small to fit; use another unit",
                found=f"at most {faint[0]:g}",
                expected=f"one of {LEAST:g} or more, or only 0",
            )
        paths = tuple(f"path {k}" for k in range(len(y))) if callpaths is None else tuple(callpaths)
        names = ("time",) * len(y) if metrics is None else tuple(metrics)
        if not len(paths) == len(names) == len(y):
            raise InputError(f"{len(y)} paths need as many call paths and metrics")
        # Copies, so that later changes of the caller's arrays have no effect.
        x, y = x.copy(), y.copy()
        x.flags.writeable = y.flags.writeable = False
        vars(self).update(
            parameters=tuple(parameters), points=x, values=y, callpaths=paths, metrics=names
        )

    @property
    def n_paths(self) -> int:
        """Number of call paths, each with one metric."""
        return len(self.values)


def check_points(points: Array, parameters: Sequence[str]) -> None:
    """Raise InputError for values of parameters at which no term is defined."""
    for name, column in zip(parameters, points.T, strict=True):
        if not np.isfinite(column).all():
            raise InputError(f"parameter {name} must be finite", found="NaN or infinity")
        if (column < 0).any():
            raise InputError(f"Negative values in data for parameter {name}", found=column.min())
        size = column[column > 0]
        if size.size and (size.max() > LARGEST_PARAMETER or size.min() < 1 / LARGEST_PARAMETER):
            raise InputError(
                f"parameter {name} is too large or too small",
                found=size.max() if size.max() > LARGEST_PARAMETER else size.min(),
                expected=f"0 or {1 / LARGEST_PARAMETER:g} to {LARGEST_PARAMETER:g}",
            )


def logarithms(points: Array) -> Array:
    """Return logarithms of points, with a 0 replaced as by `off_zero`."""
    logs: Array = np.log(off_zero(points, points))
    return logs


def off_zero(points: Array, places: Array) -> Array:
    """Prepare places for logarithms: a 0 becomes half of the least positive value of its parameter.

    Where 0 was measured, smaller places are raised to that value too.
    """
    half = np.where(points > 0, points, np.inf).min(axis=0) / 2
    least = np.where((points > 0).all(axis=0), 0.0, half)
    return np.where(places > 0, np.maximum(places, least), half)


def real_numbers(numbers: ArrayLike, what: str) -> Array:
    """Return an array of floats; refuse text, complex numbers and lists of several lengths."""
    try:
        # NumPy drops imaginary parts.
        result = None if np.iscomplexobj(numbers) else np.asarray(numbers, dtype=float)
    except (TypeError, ValueError, OverflowError):
        result = None
    if result is None:
        raise InputError(f"{what} must be real numbers", found=numbers)
    return result


def from_rows(
    rows: pd.DataFrame,
    parameters: Sequence[str],
    value: str = "value",
    callpath: str | None = None,
    metric: str | None = None,
) -> list[Measurements]:
    """Gather a table with a row for each repetition.

    Parameters
    ----------
    rows : DataFrame
        Named levels of its index count as columns.
    parameters, value : sequence of str, str
        Columns that hold the parameters and the measured value.
    callpath, metric : str, optional
        Columns that name what was measured. Without `metric`, all rows have one metric. A column
        "metric" or "callpath" with several values must be named here.

    Returns
    -------
    list of Measurements
        One for each set of points; call paths measured at the same points stay together.

    Examples
    --------
    >>> rows = pd.DataFrame({"p": [2, 2, 4, 8], "value": [1.0, 1.2, 2.0, 4.0]})
    >>> from_rows(rows, ["p"])[0].values.tolist()
    [[[1.0, 1.2], [2.0, nan], [4.0, nan]]]
    """
    if isinstance(parameters, str) or not isinstance(rows, pd.DataFrame):
        raise InputError(
            "measurements need a DataFrame and a list of parameters",
            found=f"a {type(rows).__name__} and {parameters!r}",
        )
    levels = [name for name in rows.index.names if name is not None and name not in rows.columns]
    rows = rows.reset_index(levels) if levels else rows
    keys = [name for name in (callpath, metric) if name]
    names = [*parameters, value, *keys]
    absent = [name for name in names if name not in rows.columns]
    if absent or not parameters:
        raise InputError(
            "the table lacks columns", found=list(rows.columns), expected=absent or "a parameter"
        )
    twice = repeated(rows.columns) or repeated(names)
    if twice:
        raise InputError(
            "a column is one of parameters, value, callpath and metric", found=f"{twice[0]} twice"
        )
    if rows.empty:
        raise InputError("the table has no rows")
    for name in rows.columns.difference(names, sort=False):
        kind = str(name).lower()
        if kind in ("callpath", "metric") and rows[name].nunique() > 1:
            raise InputError(
                f"rows of several values of {name} would pass for repetitions",
                found=", ".join(map(str, rows[name].unique()[:5])),
                expected=f"{kind}={name!r}",
            )
    for name in [*parameters, value]:
        if rows[name].dtype.kind not in "iuf":
            raise InputError(f"column {name} must hold numbers", found=rows[name].dtype)
    for name in [value, *keys]:
        if rows[name].isna().any():
            raise InputError(f"column {name} holds NaN or empty cells; leave such rows out")
    parts = rows.groupby(keys, sort=False, observed=True) if keys else [((), rows)]
    paths = []
    for key, part in parts:
        named = dict(zip(keys, key, strict=True))
        x, y = part[list(parameters)].to_numpy(float), part[value].to_numpy(float)
        paths.append(
            (str(named.get(str(callpath), "all")), str(named.get(str(metric), value)), x, y)
        )
    return group_paths(parameters, paths)


def gather(x: Array, y: Array) -> tuple[Array, Array]:
    """Gather the repetitions of each point from one row each; NaN fills missing ones."""
    points, where = np.unique(x, axis=0, return_inverse=True)
    where = where.ravel()
    order = np.argsort(where, kind="stable")
    counts = np.bincount(where)
    values = np.full((len(points), counts.max()), np.nan)
    place = np.arange(len(y)) - np.repeat(np.cumsum(counts) - counts, counts)
    values[where[order], place] = y[order]
    return points, values


def group_paths(
    parameters: Sequence[str], paths: Iterable[tuple[str, str, ArrayLike, ArrayLike]]
) -> list[Measurements]:
    """Return measurements of (call path, metric, point of each repetition, its value).

    Call paths that were measured at the same points are together.
    """
    groups: dict[bytes, tuple[Array, list[tuple[str, str, Array]]]] = {}
    for path, metric, x, y in paths:
        points, values = gather(np.asarray(x, float), np.asarray(y, float))
        groups.setdefault(points.tobytes(), (points, []))[1].append((path, metric, values))
    found = []
    for points, own in groups.values():
        names, metrics, tables = zip(*own, strict=True)
        values = np.full((len(own), len(points), max(t.shape[1] for t in tables)), np.nan)
        for row, table in zip(values, tables, strict=True):
            row[:, : table.shape[1]] = table
        found.append(Measurements(parameters, points, values, names, metrics))
    return found
