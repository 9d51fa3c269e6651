"""Places to predict at, as in ``--at p=2,n=10``, and what is predicted there."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from toruscast.scaling import FitOptions, Models


def by_name(text: str) -> dict[str, float]:
    """Return the numbers by name.

    Raises
    ------
    UsageError
        If a part is no NAME=NUMBER, the number is negative or not finite, or a name stands twice.

    Examples
    --------
    >>> by_name("p=2,n=1e3")
    {'p': 2.0, 'n': 1000.0}
    """
    given: dict[str, float] = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        name = name.strip()
        if name in given:
            raise click.UsageError(f"bad --at: found {name} twice, expected each name once")
        try:
            given[name] = float(value)
        except ValueError:
            given[name] = math.nan
        if not 0 <= given[name] < math.inf:
            raise click.UsageError(f"bad --at: found {part}, expected NAME=NUMBER, 0 or more")
    return given


def place(text: str, parameters: tuple[str, ...]) -> list[float]:
    """Return one value for every parameter, from "p=2,n=10".

    Raises
    ------
    UsageError
        If a parameter is missing or unknown, or its value is none.
    """
    given = by_name(text)
    if set(given) != set(parameters):
        raise click.UsageError(
            f"--at must name every parameter: found {', '.join(given)}, "
            f"expected {', '.join(parameters)}"
        )
    return [given[name] for name in parameters]


def check_points(tables: list[Models]) -> None:
    """Refuse intervals if no call path has the points that they take."""
    from toruscast.errors import InputError
    from toruscast.scaling.pmnf.intervals import points_needed

    short = [models for models in tables if len(models.measurements.points) < points_needed(models)]
    if len(short) == len(tables):
        raise InputError(
            "too few points for an interval",
            found=len(short[0].measurements.points),
            expected=f"at least {points_needed(short[0])}",
        )


def bounds_at(
    models: Models, X: list[list[float]], search: FitOptions, level: float, paths: list[int]
) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Return the ends of the intervals, (paths, places) each; None where points are too few."""
    from toruscast.scaling.pmnf.intervals import interval, points_needed

    if len(models.measurements.points) < points_needed(models):
        return None
    return interval(models, X, search, level, paths=paths)
