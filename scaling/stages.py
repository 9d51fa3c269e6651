"""Stages of a composition, and the slowest in each part of a parameter's range."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from toruscast._slow import scipy
from toruscast.errors import InputError

from . import formula
from .formula import Powers, added_up, aligned, term_values
from .measurements import real_numbers

Array = NDArray[np.float64]


@dataclass(frozen=True, order=True)
class Stage:
    """A sequential task and the workers that share its items."""

    name: str
    # Time per item of one worker; sorted, so that equal models are equal.
    terms: tuple[tuple[Powers, float], ...]
    workers: int = 1

    @classmethod
    def from_products(cls, name: str, products: Iterable[tuple[Powers, float]]) -> Stage:
        """Return the stage of one worker whose time is a sum of products."""
        terms = [(powers, c) for powers, c in added_up(products).items() if c]
        return cls(name, tuple(sorted(terms or [((), 0.0)])))

    @property
    def parameters(self) -> tuple[str, ...]:
        """Parameters that the model depends on, in alphabetical order."""
        return tuple(sorted({name for powers, _ in self.terms for name, _ in powers}))

    def __str__(self) -> str:
        return self.name if self.workers == 1 else f"tpool_{self.workers}({self.name})"

    def exact_terms(self) -> dict[Powers, Fraction]:
        """Coefficient of each product over the workers.

        Coefficients count as the decimal numbers that they print as: a third of 0.3 is exactly 0.1.
        So no comparison of stages depends on a rounding error.
        """
        return {powers: Fraction(repr(float(c))) / self.workers for powers, c in self.terms}

    def formula(self, digits: int = 5) -> str:
        """Return the time per item as text, divided by the workers."""
        terms = {powers: float(c) for powers, c in self.exact_terms().items()}
        return formula.text(aligned(terms, self.parameters), self.parameters, digits)

    def values(self, columns: Mapping[str, Array]) -> Array:
        """Return the time per item at columns of one shape, checked by `columns_of`."""
        total = np.zeros(next((column.shape for column in columns.values()), ()))
        with np.errstate(over="ignore", invalid="ignore"):
            for powers, coefficient in self.terms:
                factors = (term_values(i, j, columns[name]) for name, (i, j) in powers)
                total = total + math.prod(factors, start=coefficient)
            value: Array = np.asarray(total / self.workers)
        if not np.isfinite(value).all():
            raise InputError(f"the model of {self.name} is beyond what a number can hold")
        return value


def acting(stages: Sequence[Stage]) -> tuple[str, ...]:
    """All parameters that the models depend on, in alphabetical order."""
    return tuple(sorted({name for stage in stages for name in stage.parameters}))


def columns_of(stages: Sequence[Stage], at: Mapping[str, ArrayLike]) -> dict[str, Array]:
    """Values of the parameters, broadcast to one shape."""
    names = acting(stages)
    missing = [name for name in names if name not in at]
    if missing:
        raise InputError(
            "values missing for parameters",
            found=", ".join(map(str, at)) or "none",
            expected=", ".join(missing),
        )
    result: dict[str, Array] = {}
    for name in [str(key) for key in at]:
        result[name] = real_numbers(at[name], f"values of parameter {name}")
        if not (np.isfinite(result[name]).all() and (result[name] >= 0).all()):
            raise InputError(f"parameter {name} must be finite and not negative", found=at[name])
    for stage in stages:
        for powers, _ in stage.terms:
            for name, (i, _) in powers:
                if i < 0 and (result[name] == 0).any():
                    raise InputError(
                        f"parameter {name} must be positive under a falling power", found=0
                    )
    try:
        columns = np.broadcast_arrays(*result.values())
    except ValueError:
        shapes = ", ".join(f"{name} {value.shape}" for name, value in result.items())
        raise InputError("values of different lengths", found=shapes) from None
    return dict(zip(result, columns, strict=True))


def check_names(parameters: Sequence[str], at: Mapping[str, ArrayLike]) -> None:
    """Raise InputError for places that are no mapping, or that name an unknown parameter."""
    if not hasattr(at, "keys"):
        raise InputError(
            "places need names", found=repr(at), expected="values by parameter, such as {'n': 1024}"
        )
    unknown = [str(name) for name in at if name not in parameters]
    strange = [repr(name) for name in at if not isinstance(name, str)]
    if strange:
        raise InputError("names of places must be text", found=", ".join(strange))
    if parameters and unknown:
        raise InputError(
            "no stage depends on this", found=", ".join(unknown), expected=" or ".join(parameters)
        )


# The order of stages once every parameter is large enough.
# The difference of two models is a sum of products prod_l x_l^i_l log2(x_l)^j_l. One product
# outgrows another if one parameter's (i, j) is greater and none is smaller, powers before
# logarithms. Their ratio then grows without bound.


def outgrows(a: Stage, b: Stage) -> bool:
    """Return whether `a` takes longer than `b` once all parameters exceed some size.

    The order of growth decides, then the lead coefficients, then the next terms. With several
    parameters neither may outgrow the other, as with n^2 and p^2.
    """
    theirs = ((product, -coefficient) for product, coefficient in b.exact_terms().items())
    difference = added_up([*a.exact_terms().items(), *theirs])
    positive = [product for product, c in difference.items() if c > 0]
    negative = [product for product, c in difference.items() if c < 0]
    return bool(positive) and all(any(_faster(p, n) for p in positive) for n in negative)


def slowest(stages: Sequence[Stage]) -> tuple[Stage, ...]:
    """Return the stages that no others outgrow, one for each model.

    With one parameter that is a single stage. With several, a stage is also left out if the others
    together outgrow it, such as n + p beside n^2 and p^2.
    """
    kept: list[Stage] = []
    seen: list[dict[Powers, object]] = []
    for stage in sorted(set(stages)):
        terms: dict[Powers, object] = {p: c for p, c in stage.exact_terms().items() if c}
        if terms in seen or any(outgrows(other, stage) for other in stages):
            continue
        seen.append(terms)
        kept.append(stage)
    rivals = {
        product
        for stage in kept
        if all(c >= 0 for _, c in stage.terms)
        for product in _growing(stage)
    }
    return tuple(
        stage
        for stage in kept
        if not _growing(stage)
        or not all(any(_faster(rival, own) for rival in rivals) for own in _growing(stage))
    )


def _growing(stage: Stage) -> list[Powers]:
    return [product for product, c in stage.exact_terms().items() if c > 0]


def _faster(a: Powers, b: Powers) -> bool:
    left, right, none = dict(a), dict(b), (0.0, 0.0)
    pairs = [(left.get(name, none), right.get(name, none)) for name in left.keys() | right.keys()]
    return all(x >= y for x, y in pairs) and any(x > y for x, y in pairs)


# A sum over x^i log2(x)^j of one parameter, by (i, j).
Along = dict[tuple[float, float], float]
_GRID = 64
_HALVES = 40
_MAX_DERIVATIVES = 60
_ROUNDING = 1e-14


@dataclass(frozen=True)
class RangePart:
    """A part of a parameter's range, with its slowest stage."""

    parameter: str
    low: float
    high: float  # where the next part begins
    stage: Stage  # the slowest one

    def __str__(self) -> str:
        where = f"{self.low:.6g} <= {self.parameter} <= {self.high:.6g}"
        return f"{where}: {self.stage}, {self.stage.formula()}"


def pieces(
    stages: Sequence[Stage], parameter: str, low: float, high: float, at: Mapping[str, float]
) -> list[RangePart]:
    """Split a range at the places where another stage becomes the slowest.

    If two stages are equally slow in the whole range, the one that is slower for large parameters
    is named, or the first by name.
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
    ordered = sorted(set(stages))
    first = slowest(ordered)
    ordered = [*first, *(stage for stage in ordered if stage not in first)]
    sums = {stage: _along(stage, parameter, fixed) for stage in ordered}
    result = [RangePart(parameter, low, high, ordered[0])]
    for stage in ordered[1:]:
        result = [part for piece in result for part in _split(piece, stage, sums)]
        result = _merged(result)
    return result


def _along(stage: Stage, parameter: str, fixed: Mapping[str, float]) -> Along:
    """Return the model of a stage as a sum over x^i log2(x)^j of one parameter."""
    result: Along = {}
    for powers, coefficient in stage.terms:
        others = (term_values(*pair, fixed[name]) for name, pair in powers if name != parameter)
        key = dict(powers).get(parameter, (0.0, 0.0))
        factor = float(math.prod(others, start=coefficient / stage.workers))
        result[key] = result.get(key, 0.0) + factor
    return result


def _split(piece: RangePart, stage: Stage, sums: Mapping[Stage, Along]) -> list[RangePart]:
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
        alike = result and result[-1].stage == part.stage
        result.append(replace(part, low=result.pop().low) if alike else part)
    return result


# Between two zeros of a function lies a zero of its derivative (Rolle). Write the sum in t =
# log2(x), divide it by one of its terms, and differentiate: that term is gone. So the zeros of ever
# simpler sums cut the range into parts in which the sum before has at most one zero. A grid cuts it
# further, because rounding may spoil a sum that was differentiated many times. At t = 0 all
# logarithms are 0 and the divided sum may have a pole, so the sign just above is unknown there.
# Towards t = 0 the grid halves its steps until a crossing counts as x = 1.


def difference(a: Along, b: Along) -> Along:
    """Return a - b, or 0 where the difference is only rounding."""
    result: Along = {}
    for key in {**a, **b}:
        x, y = a.get(key, 0.0), b.get(key, 0.0)
        if abs(x - y) > _ROUNDING * max(abs(x), abs(y)):
            result[key] = x - y
    return result


def value(terms: Along, x: float) -> float:
    """Return the value at x; a logarithm below x = 1 counts as 0."""
    t = max(math.log2(x), 0.0)
    return math.fsum(c * x**i * (t**j if j else 1.0) for (i, j), c in terms.items())


def crossings(terms: Along, low: float, high: float) -> list[float]:
    """Return the places in low < x < high where the sum changes its sign, in order.

    A zero that the sum only touches does not count. The place where it begins to differ from 0
    does.
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
    cuts = {low, high, *(2.0**t for t in _turns(terms, sorted(set(grid)), _MAX_DERIVATIVES))}
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


def _sign(terms: Along, x: float) -> float:
    """Return the sign of the sum; 0 where rounding would decide it."""
    size = math.fsum(abs(value({key: c}, x)) for key, c in terms.items())
    total = value(terms, x)
    return 0.0 if abs(total) <= 4 * _ROUNDING * size else math.copysign(1.0, total)


def _zero(terms: Along, low: float, high: float) -> float:
    # The root is sought in log2(x), so that ranges over many orders of magnitude converge.
    ends = math.log2(low), math.log2(high)
    t = scipy.optimize.brentq(lambda t: value(terms, 2.0**t), *ends, xtol=1e-14)
    root = 2.0 ** float(t)
    nearest = round(root)
    whole = abs(root - nearest) < 1e-9 * root and value(terms, nearest) == 0
    return float(nearest) if whole else root


def _turns(terms: Along, grid: list[float], most: int) -> list[float]:
    """Return places in t between which the sum of c t^j 2^(i t) has at most one zero."""
    if len(terms) < 2 or most == 0:
        return grid
    i0, j0 = min(terms)
    rest = [((i - i0, j - j0), c) for (i, j), c in terms.items()]
    derived = added_up(
        [((i, j - 1), c * j) for (i, j), c in rest if j]
        + [((i, j), c * i * math.log(2)) for (i, j), c in rest if i]
    )
    derived = {key: c for key, c in derived.items() if c}
    inner = _turns(derived, grid, most - 1)
    places = []
    for a, b in pairwise(inner):
        try:
            f = _at(derived, a), _at(derived, b)
        except OverflowError:
            continue
        if math.isfinite(f[0]) and math.isfinite(f[1]) and f[0] * f[1] < 0:
            places.append(float(scipy.optimize.brentq(lambda t: _at(derived, t), a, b, xtol=1e-14)))
    return sorted({*inner, *places})


def _at(terms: Along, t: float) -> float:
    # Dividing by the fastest powers changes no sign, and keeps numbers and poles in range.
    powers, logs = zip(*terms, strict=True)
    i0 = max(powers) if t > 0 else min(powers)
    j0 = max(logs) if t > 1 else min(logs)
    return math.fsum(c * t ** (j - j0) * 2.0 ** ((i - i0) * t) for (i, j), c in terms.items())
