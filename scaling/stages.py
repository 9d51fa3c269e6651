"""Stages of a composition, and the slowest stage for each part of a parameter's range."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from toruscast._slow import scipy
from toruscast.errors import InputError
from toruscast.typing import Floats

from . import formula
from .formula import Powers, align_terms, evaluate_term, sum_by_key
from .measurements import as_real_array, to_float

# The coefficient of each term x^i log2(x)^j of one parameter, by (i, j).
TermSum = dict[tuple[float, float], float]
# Number of points at which signs are compared, and number of extra points near x = 1, where log(x)
# is halved from point to point.
_N_GRID = 2**14
_N_HALVINGS = 40
# Relative rounding error of a sum.
_ROUNDING = 1e-14


@dataclass(frozen=True, order=True)
class Stage:
    """A sequential task and the workers that share its items."""

    name: str
    # Time per item with one worker; sorted, so that equal models compare equal.
    terms: tuple[tuple[Powers, float], ...]
    workers: int = 1

    @classmethod
    def from_products(cls, name: str, products: Iterable[tuple[Powers, float]]) -> Stage:
        """Return a stage with one worker whose time is a sum of products."""
        terms = [(powers, c) for powers, c in sum_by_key(products).items() if c]
        return cls(name, tuple(sorted(terms or [((), 0.0)])))

    @property
    def parameters(self) -> tuple[str, ...]:
        """Parameters that the model depends on, in alphabetical order."""
        return tuple(sorted({name for powers, _ in self.terms for name, _ in powers}))

    def __str__(self) -> str:
        return self.name if self.workers == 1 else f"tpool_{self.workers}({self.name})"

    def exact_terms(self) -> dict[Powers, Fraction]:
        """Return the coefficient of each product, divided by the workers.

        Coefficients are read as decimal numbers, so a third of 0.3 is exactly 0.1, and rounding
        errors do not affect comparisons of stages.
        """
        return {powers: Fraction(repr(float(c))) / self.workers for powers, c in self.terms}

    def formula(self, digits: int = 5) -> str:
        """Return the time per item as text, divided by the workers."""
        terms = {powers: float(c) for powers, c in self.exact_terms().items()}
        return formula.format_terms(align_terms(terms, self.parameters), self.parameters, digits)

    def values(self, columns: Mapping[str, Floats]) -> Floats:
        """Return the time per item at the values that `broadcast_values` returned."""
        total = np.zeros(next((column.shape for column in columns.values()), ()))
        with np.errstate(over="ignore", invalid="ignore"):
            for powers, coefficient in self.terms:
                factors = (evaluate_term(i, j, columns[name]) for name, (i, j) in powers)
                total = total + math.prod(factors, start=coefficient)
            value: Floats = np.asarray(total / self.workers)
        if not np.isfinite(value).all():
            raise InputError(f"the value of the model of {self.name} is not finite")
        return value


def list_parameters(stages: Sequence[Stage]) -> tuple[str, ...]:
    """Return the parameters of all models, in alphabetical order."""
    return tuple(sorted({name for stage in stages for name in stage.parameters}))


def broadcast_values(stages: Sequence[Stage], at: Mapping[str, ArrayLike]) -> dict[str, Floats]:
    """Check the values of each parameter, and return them as arrays of one shape."""
    missing = [name for name in list_parameters(stages) if name not in at]
    if missing:
        found, expected = ", ".join(map(str, at)) or "none", ", ".join(missing)
        raise InputError("values missing for parameters", found=found, expected=expected)
    values: dict[str, Floats] = {}
    for name in [str(key) for key in at]:
        values[name] = as_real_array(at[name], f"values of parameter {name}")
        if not (np.isfinite(values[name]).all() and (values[name] >= 0).all()):
            raise InputError(f"parameter {name} must be finite and not negative", found=at[name])
    products = (powers for stage in stages for powers, _ in stage.terms)
    for name in sorted({name for powers in products for name, (i, _) in powers if i < 0}):
        if (values[name] == 0).any():
            raise InputError(f"parameter {name} must be positive under a falling power", found=0)
    try:
        columns = np.broadcast_arrays(*values.values())
    except ValueError:
        shapes = ", ".join(f"{name} {value.shape}" for name, value in values.items())
        raise InputError("values of different lengths", found=shapes) from None
    return dict(zip(values, columns, strict=True))


def check_names(parameters: Sequence[str], at: Mapping[str, ArrayLike]) -> None:
    """Raise `InputError` unless `at` is a mapping whose keys are parameters."""
    if not hasattr(at, "keys"):
        expected = "values by parameter, such as {'n': 1024}"
        raise InputError("values need names of parameters", found=repr(at), expected=expected)
    unknown = [str(name) for name in at if name not in parameters]
    not_text = [repr(name) for name in at if not isinstance(name, str)]
    if not_text:
        raise InputError("names of parameters must be text", found=", ".join(not_text))
    if parameters and unknown:
        found, expected = ", ".join(unknown), " or ".join(parameters)
        raise InputError("no stage depends on this", found=found, expected=expected)


# The difference of two models is a sum of products prod_l x_l^i_l log2(x_l)^j_l. One product grows
# faster than another if its pair (i, j) is greater for some parameter and smaller for none, because
# the ratio of the products is then unbounded.


def outgrows(a: Stage, b: Stage) -> bool:
    """Return whether `a` is slower than `b` if all parameters are large enough.

    With several parameters, it may be that neither stage outgrows the other, as for n^2 and p^2.
    """
    negated = ((product, -coefficient) for product, coefficient in b.exact_terms().items())
    difference = sum_by_key([*a.exact_terms().items(), *negated])
    positive = [product for product, c in difference.items() if c > 0]
    negative = [product for product, c in difference.items() if c < 0]
    return bool(positive) and all(any(_grows_faster(p, n) for p in positive) for n in negative)


def find_slowest(stages: Sequence[Stage]) -> tuple[Stage, ...]:
    """Return the stages that no other stage outgrows, one for each different model.

    A stage is also excluded if the others together outgrow it, as n^2 and p^2 outgrow n + p.
    """
    candidates: list[Stage] = []
    models: list[dict[Powers, object]] = []
    for stage in sorted(set(stages)):
        model: dict[Powers, object] = {p: c for p, c in stage.exact_terms().items() if c}
        if model not in models and not any(outgrows(other, stage) for other in stages):
            models.append(model)
            candidates.append(stage)
    rivals: set[Powers] = set()
    for stage in candidates:
        if all(c >= 0 for _, c in stage.terms):
            rivals.update(_positive_products(stage))

    def is_outgrown(products: list[Powers]) -> bool:
        """Return whether every product grows more slowly than some rival."""
        return bool(products) and all(
            any(_grows_faster(rival, product) for rival in rivals) for product in products
        )

    return tuple(stage for stage in candidates if not is_outgrown(_positive_products(stage)))


def _positive_products(stage: Stage) -> list[Powers]:
    """Return the products with positive coefficients."""
    return [product for product, c in stage.exact_terms().items() if c > 0]


def _grows_faster(a: Powers, b: Powers) -> bool:
    """Return whether the ratio a / b grows without bound in all parameters."""
    pairs_a, pairs_b, zero = dict(a), dict(b), (0.0, 0.0)
    pairs = [
        (pairs_a.get(name, zero), pairs_b.get(name, zero))
        for name in pairs_a.keys() | pairs_b.keys()
    ]
    return all(x >= y for x, y in pairs) and any(x > y for x, y in pairs)


@dataclass(frozen=True)
class RangePart:
    """A part of a parameter's range, with its slowest stage."""

    parameter: str
    low: float
    high: float
    stage: Stage

    def __str__(self) -> str:
        interval = f"{self.low:.6g} <= {self.parameter} <= {self.high:.6g}"
        return f"{interval}: {self.stage}, {self.stage.formula()}"


def split_range(
    stages: Sequence[Stage], parameter: str, low: float, high: float, at: Mapping[str, float]
) -> list[RangePart]:
    """Split a range at the points where another stage becomes the slowest.

    Stages are compared at 2**14 points of the range. If the slowest stage changes twice between
    neighbouring points, both changes are missed. If two stages are equally slow in the whole range,
    the result contains the one that is slower for large parameters, or else the first by name.
    """
    names = list_parameters(stages)
    check_names(names, at)
    check_names(names, {parameter: low})
    found, expected = f"{low} to {high}", "two finite numbers, 0 < low < high"
    low, high = to_float(low), to_float(high)
    if not 0 < low < high < math.inf:
        raise InputError(f"bad range of {parameter}", found=found, expected=expected)
    if parameter in at:
        raise InputError(f"{parameter} already has a range", found=f"a value, {at[parameter]}")
    columns = broadcast_values(stages, {**at, parameter: low})
    for name, column in columns.items():
        if column.size != 1:
            raise InputError(f"a range needs a single value of {name}", found=at[name])
    fixed = {name: float(column.ravel()[0]) for name, column in columns.items()}
    # The sums must be finite in the range: evaluating both ends raises if a value is infinite.
    for stage in stages:
        for end in (low, high):
            stage.values({name: np.array([x]) for name, x in {**fixed, parameter: end}.items()})
    unique = sorted(set(stages))
    ordered = dict.fromkeys([*find_slowest(unique), *unique])
    sums = {stage: _to_term_sum(stage, parameter, fixed) for stage in ordered}
    first, *others = ordered
    parts = [RangePart(parameter, low, high, first)]
    for stage in others:
        parts = _merge_parts([new for part in parts for new in _split_part(part, stage, sums)])
    return parts


def _to_term_sum(stage: Stage, parameter: str, fixed: Mapping[str, float]) -> TermSum:
    """Return the model of a stage as a function of one parameter."""
    result: TermSum = {}
    for powers, coefficient in stage.terms:
        others = (evaluate_term(*pair, fixed[name]) for name, pair in powers if name != parameter)
        key = dict(powers).get(parameter, (0.0, 0.0))
        factor = float(math.prod(others, start=coefficient / stage.workers))
        result[key] = result.get(key, 0.0) + factor
    return result


def _split_part(part: RangePart, stage: Stage, sums: Mapping[Stage, TermSum]) -> list[RangePart]:
    """Split a part where another stage becomes slower or faster than the part's stage."""
    difference = subtract_sums(sums[stage], sums[part.stage])
    edges = [part.low, *find_crossings(difference, part.low, part.high), part.high]
    result = []
    for low, high in pairwise(edges):
        is_slower = evaluate_sum(difference, math.sqrt(low) * math.sqrt(high)) > 0
        slowest = stage if is_slower else part.stage
        result.append(RangePart(part.parameter, low, high, slowest))
    return result


def _merge_parts(parts: Sequence[RangePart]) -> list[RangePart]:
    """Join adjacent parts with the same stage."""
    result: list[RangePart] = []
    for part in parts:
        continues = result and result[-1].stage == part.stage
        result.append(replace(part, low=result.pop().low) if continues else part)
    return result


def subtract_sums(a: TermSum, b: TermSum) -> TermSum:
    """Return a - b without terms whose coefficients are rounding errors."""
    result: TermSum = {}
    for key in {**a, **b}:
        x, y = a.get(key, 0.0), b.get(key, 0.0)
        if abs(x - y) > _ROUNDING * max(abs(x), abs(y)):
            result[key] = x - y
    return result


def evaluate_sum(terms: TermSum, x: ArrayLike) -> Floats:
    """Return the values at x, where logarithms of x < 1 count as 0."""
    values = (c * evaluate_term(i, j, x) for (i, j), c in terms.items())
    return sum(values, np.zeros(np.shape(x)))


def find_crossings(terms: TermSum, low: float, high: float) -> list[float]:
    """Return the points low < x < high where the sum changes its sign, in order.

    Two changes are missed if they are closer than 1 / 2**14 of the range of log(x). The point 1 is
    included if the sum is 0 on only one side of this point. Zeros without a change of sign are
    excluded.
    """
    if low < 1 < high:
        below_one, above_one = find_crossings(terms, low, 1.0), find_crossings(terms, 1.0, high)
        # Points between 1 and the nearest crossings.
        nearest = [math.sqrt(max([low, *below_one])), math.sqrt(min([high, *above_one]))]
        before, after = _find_signs(terms, nearest)
        return [*below_one, *([1.0] if before != after else []), *above_one]
    # Logarithms of x < 1 count as 0.
    terms = {(i, j): c for (i, j), c in terms.items() if c and (high > 1 or not j)}
    start, end = math.log2(low), math.log2(high)
    grid = np.linspace(start, end, _N_GRID)
    if start >= 0:
        # Sums of logarithms and powers may change their sign very close to x = 1.
        halved = end * 2.0 ** -np.arange(1, _N_HALVINGS + 1)
        grid = np.union1d(grid, halved[halved > start])
    points = np.clip(2.0**grid, low, high)
    signs = _find_signs(terms, points)
    points, signs = points[signs != 0], signs[signs != 0]
    changes = np.flatnonzero(signs[1:] != signs[:-1]).tolist()
    zeros = [_find_zero(terms, float(points[k]), float(points[k + 1])) for k in changes]
    return [x for x in zeros if low < x < high]


def _find_signs(terms: TermSum, x: ArrayLike) -> Floats:
    """Return the signs of the sum at x, or 0 where it is within the rounding error."""
    total, size = evaluate_sum(terms, x), evaluate_sum({key: abs(c) for key, c in terms.items()}, x)
    return np.where(np.abs(total) <= 4 * _ROUNDING * size, 0.0, np.sign(total))


def _find_zero(terms: TermSum, low: float, high: float) -> float:
    """Return the zero between two points with different signs, exactly if it is a whole number."""
    # Solving for log2(x) converges even if the range spans many orders of magnitude.
    bracket = math.log2(low), math.log2(high)
    t = scipy.optimize.brentq(lambda t: float(evaluate_sum(terms, 2.0**t)), *bracket, xtol=1e-14)
    root = 2.0 ** float(t)
    nearest = round(root)
    is_whole = abs(root - nearest) < 1e-9 * root and _find_signs(terms, nearest) == 0
    return float(nearest) if is_whole else root
