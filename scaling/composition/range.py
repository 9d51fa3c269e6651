"""The slowest stage of a composition in each part of a parameter's range."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from toruscast.errors import InputError

from ..formula import term_values
from .crossings import Sum, crossings, difference, value
from .stage import Stage, acting, check_names, columns_of, slowest


@dataclass(frozen=True)
class RangePart:
    """A part of a parameter's range, with its slowest stage.

    Attributes
    ----------
    parameter : str
    low, high : float
        Ends of the part; the next one begins at the crossover `high`.
    stage : Stage
        The slowest stage.
    """

    parameter: str
    low: float
    high: float
    stage: Stage

    def __str__(self) -> str:
        where = f"{self.low:.6g} <= {self.parameter} <= {self.high:.6g}"
        return f"{where}: {self.stage}, {self.stage.formula()}"


def pieces(
    stages: Sequence[Stage], parameter: str, low: float, high: float, at: Mapping[str, float]
) -> list[RangePart]:
    """Split a range at the places where another stage becomes the slowest.

    If two stages are equally slow in the whole range, the one that is slower for large parameters
    is named, or the first by name.

    Raises
    ------
    InputError
        If the range is empty or not positive, another parameter has no single value, or `at` names
        something else.

    Examples
    --------
    >>> from toruscast.scaling import pipe, sequential
    >>> program = pipe(sequential("send", "100 + 2 n"), sequential("sort", "n log2(n)"))
    >>> for piece in program.pieces("n", 2, 1024):
    ...     print(piece)
    2 <= n <= 32.8963: send, 100 + 2 n
    32.8963 <= n <= 1024: sort, n log2(n)
    """
    names = acting(stages)
    check_names(names, at)
    check_names(names, {parameter: low})
    try:
        low, high = float(low), float(high)
    except (TypeError, ValueError):
        raise InputError("a range needs two numbers", found=f"{low}, {high}") from None
    if not 0 < low < high < math.inf:
        raise InputError(
            f"bad range of {parameter}", found=f"{low:g} to {high:g}", expected="0 < low < high"
        )
    if parameter in at:
        raise InputError(f"{parameter} has a range already", found=f"a value, {at[parameter]}")
    columns = columns_of(stages, {**at, parameter: low})
    for name, column in columns.items():
        if column.size != 1:
            raise InputError(f"a range needs one value of {name}", found=at[name])
    fixed = {name: float(column.ravel()[0]) for name, column in columns.items()}
    for stage in stages:  # so that the sums below stay finite in the whole range
        for end in (low, high):
            stage.values({name: np.array([x]) for name, x in {**fixed, parameter: end}.items()})
    ordered = sorted(set(stages), key=lambda stage: stage.order)
    first = slowest(ordered)
    ordered = [*first, *(stage for stage in ordered if stage not in first)]
    sums = {stage: _along(stage, parameter, fixed) for stage in ordered}
    result = [RangePart(parameter, low, high, ordered[0])]
    for stage in ordered[1:]:
        result = [part for piece in result for part in _split(piece, stage, sums)]
        result = _merged(result)
    return result


def _along(stage: Stage, parameter: str, fixed: Mapping[str, float]) -> Sum:
    """Return the model of a stage as a sum over x^i log2(x)^j of one parameter."""
    result: Sum = {}
    for coefficient, exponents in stage.terms:
        key, factor = (0.0, 0.0), coefficient / stage.workers
        for name, (i, j) in zip(stage.parameters, exponents, strict=True):
            if name == parameter:
                key = (i, j)
            else:
                factor *= float(term_values(i, j, fixed[name]))
        result[key] = result.get(key, 0.0) + factor
    return result


def _split(piece: RangePart, stage: Stage, sums: Mapping[Stage, Sum]) -> list[RangePart]:
    gap = difference(sums[stage], sums[piece.stage])
    edges = [piece.low, *crossings(gap, piece.low, piece.high), piece.high]
    result = []
    for low, high in pairwise(edges):
        winner = stage if value(gap, math.sqrt(low) * math.sqrt(high)) > 0 else piece.stage
        result.append(RangePart(piece.parameter, low, high, winner))
    return result


def _merged(parts: Sequence[RangePart]) -> list[RangePart]:
    result: list[RangePart] = []
    for part in parts:
        if result and result[-1].stage == part.stage:
            part = RangePart(part.parameter, result.pop().low, part.high, part.stage)
        result.append(part)
    return result
