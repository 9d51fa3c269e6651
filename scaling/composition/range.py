"""The slowest stage of a composition in each part of a parameter's range."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.optimize import brentq

from toruscast.errors import InputError

from ..formula import term_values
from .stage import Stage, acting, check_names, columns_of, slowest

Sum = dict[tuple[float, float], float]
_GRID = 64
_HALVES = 40
_MOST_DERIVATIVES = 60
_ROUNDING = 1e-14


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


# Between two zeros of a function lies a zero of its derivative (Rolle). Write the sum in t =
# log2(x), divide it by one of its terms, and differentiate: that term is gone. So the zeros of ever
# simpler sums cut the range into parts in which the sum before has at most one zero. A grid cuts it
# further, because rounding may spoil a sum that was differentiated many times. At t = 0 all
# logarithms are 0 and the divided sum may have a pole, so the sign just above is unknown there.
# Towards t = 0 the grid halves its steps until a crossing counts as x = 1.


def difference(a: Sum, b: Sum) -> Sum:
    """Return a - b, or 0 where the difference is only rounding.

    Examples
    --------
    >>> difference({(1.0, 0.0): 3.0}, {(1.0, 0.0): 3.0, (0.0, 0.0): 1.0})
    {(0.0, 0.0): -1.0}
    """
    result: Sum = {}
    for key in {**a, **b}:
        x, y = a.get(key, 0.0), b.get(key, 0.0)
        if abs(x - y) > _ROUNDING * max(abs(x), abs(y)):
            result[key] = x - y
    return result


def value(terms: Sum, x: float) -> float:
    """Return the value at x; a logarithm below x = 1 counts as 0.

    Examples
    --------
    >>> value({(1.0, 1.0): 2.0}, 4.0)
    16.0
    """
    t = max(math.log2(x), 0.0)
    return math.fsum(c * x**i * (t**j if j else 1.0) for (i, j), c in terms.items())


def crossings(terms: Sum, low: float, high: float) -> list[float]:
    """Return the places in low < x < high where the sum changes its sign, in order.

    A zero that the sum only touches does not count. The place where it begins to differ from 0
    does.

    Examples
    --------
    >>> crossings({(1.0, 0.0): 1.0, (0.0, 0.0): -5.0}, 1.0, 100.0)
    [5.0]
    >>> crossings({(2.0, 0.0): 1.0, (1.0, 0.0): -4.0, (0.0, 0.0): 4.0}, 1.0, 100.0)
    []
    >>> crossings({(1.0, 0.0): 0.0, (0.0, 0.0): 1.0}, 1.0, 100.0)
    []
    """
    if low < 1 < high:
        # Logarithms begin at 1.
        left, right = crossings(terms, low, 1.0), crossings(terms, 1.0, high)
        middle = _sign(terms, math.sqrt(max([low, *left])))
        after = _sign(terms, math.sqrt(min([high, *right])))
        return [*left, *([1.0] if middle != after else []), *right]
    # Logarithms are 0 up to 1.
    terms = {(i, j): c for (i, j), c in terms.items() if c and (high > 1 or not j)}
    start, end = math.log2(low), math.log2(high)
    grid = [start + (end - start) * k / _GRID for k in range(_GRID)] + [end]
    if start >= 0:
        grid += [t for t in (end * 2.0**-k for k in range(1, _HALVES + 1)) if t > start]
    cuts = {low, high, *(2.0**t for t in _turns(terms, sorted(set(grid)), _MOST_DERIVATIVES))}
    edges = sorted(x for x in cuts if low <= x <= high)
    # Two neighbours may both be zeros, so the sign is taken between them.
    edges = sorted({*edges, *(math.sqrt(a) * math.sqrt(b) for a, b in pairwise(edges))})
    found: list[float] = []
    before: tuple[float, float] | None = None
    for x in edges:
        sign = _sign(terms, x)
        if not sign:
            continue
        if before and before[1] * sign < 0:
            found.append(_zero(terms, before[0], x))
        before = (x, sign)
    return [x for x in found if low < x < high]


def _sign(terms: Sum, x: float) -> float:
    """Return the sign of the sum; 0 where rounding would decide it."""
    size = math.fsum(abs(value({key: c}, x)) for key, c in terms.items())
    total = value(terms, x)
    return 0.0 if abs(total) <= 4 * _ROUNDING * size else math.copysign(1.0, total)


def _zero(terms: Sum, low: float, high: float) -> float:
    # The root is sought in log2(x), so that ranges over many orders of magnitude converge.
    t = brentq(lambda t: value(terms, 2.0**t), math.log2(low), math.log2(high), xtol=1e-14)
    root = 2.0 ** float(t)
    nearest = round(root)
    whole = abs(root - nearest) < 1e-9 * root and value(terms, nearest) == 0
    return float(nearest) if whole else root


def _turns(terms: Sum, grid: list[float], most: int) -> list[float]:
    """Return places in t between which the sum of c t^j 2^(i t) has at most one zero.

    The grid is included; t >= 0 or j = 0.
    """
    if len(terms) < 2 or most == 0:
        return grid
    i0, j0 = min(terms)
    derived: Sum = {}
    for (i, j), c in terms.items():
        power, log = i - i0, j - j0
        if log:
            derived[power, log - 1] = derived.get((power, log - 1), 0.0) + c * log
        if power:
            derived[power, log] = derived.get((power, log), 0.0) + c * power * math.log(2)
    derived = {key: c for key, c in derived.items() if c}
    inner = _turns(derived, grid, most - 1)
    places = []
    for a, b in pairwise(inner):
        try:
            f = _at(derived, a), _at(derived, b)
        except OverflowError:
            continue
        if math.isfinite(f[0]) and math.isfinite(f[1]) and f[0] * f[1] < 0:
            places.append(float(brentq(lambda t: _at(derived, t), a, b, xtol=1e-14)))
    return sorted({*inner, *places})


def _at(terms: Sum, t: float) -> float:
    # Dividing by the fastest powers changes no sign, and keeps numbers and poles in range.
    powers, logs = zip(*terms, strict=True)
    i0 = max(powers) if t > 0 else min(powers)
    j0 = max(logs) if t > 1 else min(logs)
    return math.fsum(c * t ** (j - j0) * 2.0 ** ((i - i0) * t) for (i, j), c in terms.items())
