"""A stage: a sequential task run by a number of workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from toruscast.errors import InputError

from .. import formula
from ..pmnf.measurements import real_numbers

Array = NDArray[np.float64]
_Product = tuple[tuple[str, float, float], ...]


@dataclass(frozen=True)
class Stage:
    """A sequential task and the workers that share its items.

    Attributes
    ----------
    name : str
        Name of the task.
    parameters : tuple of str
        Names of the parameters that its model depends on.
    terms : tuple of (coefficient, ((i, j) for each parameter))
        Model of one worker: time per item.
    workers : int
    """

    name: str
    parameters: tuple[str, ...]
    terms: tuple[formula.Term, ...]
    workers: int = 1

    def __str__(self) -> str:
        return self.name if self.workers == 1 else f"tpool_{self.workers}({self.name})"

    @property
    def order(self) -> tuple[str, int]:
        """Sort key among the stages of a normal form."""
        return self.name, self.workers

    def exact_terms(self) -> dict[tuple[tuple[str, float, float], ...], Fraction]:
        """Coefficients over the workers, by (parameter, i, j) of each factor.

        Coefficients count as the decimal numbers that they print as: a third of 0.3 is exactly 0.1.
        So no comparison of stages depends on a rounding error.
        """
        result: dict[tuple[tuple[str, float, float], ...], Fraction] = {}
        for coefficient, exponents in self.terms:
            factors = tuple(
                (name, i, j)
                for name, (i, j) in zip(self.parameters, exponents, strict=True)
                if i or j
            )
            result[factors] = Fraction(repr(float(coefficient))) / self.workers
        return result

    def formula(self, digits: int = 5) -> str:
        """Return the time per item as text, divided by the workers."""
        terms = [(float(Fraction(repr(c)) / self.workers), e) for c, e in self.terms]
        return formula.text(terms, self.parameters, digits)

    def values(self, columns: Mapping[str, Array]) -> Array:
        """Return the time per item at columns of one shape, checked by `columns_of`."""
        X = [np.ravel(columns[name]) for name in self.parameters]
        size = next(iter(columns.values())).size if columns else 1
        rows = np.stack(X, axis=1) if X else np.zeros((size, 0))
        with np.errstate(over="ignore", invalid="ignore"):
            value = formula.evaluate(self.terms, rows) / self.workers
        if not np.isfinite(value).all():
            raise InputError(f"the model of {self.name} is beyond what a number can hold")
        shape = next(iter(columns.values())).shape if columns else ()
        return value.reshape(shape)


def added(name: str, stages: Sequence[tuple[float, Stage]]) -> Stage:
    """Return a stage that takes as long as others together, each a number of times.

    Examples
    --------
    >>> inc = Stage("inc", ("n",), ((2.0, ((1.0, 0.0),)),))
    >>> added("both", [(1.0, inc), (3.0, inc)]).formula()
    '8 n'
    """
    names = acting([stage for _, stage in stages])
    terms = [
        (
            times * coefficient,
            tuple(
                dict(zip(stage.parameters, e, strict=True)).get(name, (0.0, 0.0)) for name in names
            ),
        )
        for times, stage in stages
        for coefficient, e in stage.terms
    ]
    return of_terms(name, names, terms)


def of_terms(name: str, parameters: Sequence[str], terms: Sequence[formula.Term]) -> Stage:
    """Drop zero terms and parameters without effect, so that equal models compare equal."""
    terms = [term for term in formula.joined(terms, len(parameters)) if term[0] != 0]
    acts = sorted(
        (parameter, q)
        for q, parameter in enumerate(parameters)
        if any(any(exponents[q]) for _, exponents in terms)
    )
    kept = formula.joined([(c, tuple(e[q] for _, q in acts)) for c, e in terms], len(acts))
    return Stage(name, tuple(parameter for parameter, _ in acts), tuple(kept))


def acting(stages: Sequence[Stage]) -> tuple[str, ...]:
    """All parameters that the models depend on, in alphabetical order."""
    return tuple(sorted({name for stage in stages for name in stage.parameters}))


def columns_of(stages: Sequence[Stage], at: Mapping[str, ArrayLike]) -> dict[str, Array]:
    """Values of the parameters, broadcast to one shape.

    Raises
    ------
    InputError
        If a parameter is missing, not a number, negative, or 0 under a falling power.

    Examples
    --------
    >>> columns_of([Stage("inc", ("n",), ((2.0, ((1.0, 0.0),)),))], {"m": 3})
    Traceback (most recent call last):
    toruscast.errors.InputError: values missing for parameters: found m, expected n
    """
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
        for _, exponents in stage.terms:
            for name, (i, _) in zip(stage.parameters, exponents, strict=True):
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
    """Raise InputError for places that are not a mapping, or that name an unknown parameter.

    Examples
    --------
    >>> check_names(["n"], {"n": 3, "m": 4})
    Traceback (most recent call last):
    toruscast.errors.InputError: no stage depends on this: found m, expected n
    """
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

    The order of growth decides, then the lead coefficients, then the next terms. With one
    parameter, one of two different models always outgrows the other. With several, neither may, as
    with n^2 and p^2.

    Examples
    --------
    >>> quick = Stage("quick", ("n",), ((1.0, ((1.0, 1.0),)),))
    >>> slow = Stage("slow", ("n",), ((900.0, ((1.0, 0.0),)),))
    >>> outgrows(quick, slow), outgrows(slow, quick)
    (True, False)
    """
    difference = a.exact_terms()
    for product, coefficient in b.exact_terms().items():
        difference[product] = difference.get(product, 0) - coefficient
    positive = [product for product, c in difference.items() if c > 0]
    negative = [product for product, c in difference.items() if c < 0]
    return bool(positive) and all(any(_faster(p, n) for p in positive) for n in negative)


def slowest(stages: Sequence[Stage]) -> tuple[Stage, ...]:
    """Return the stages that no others outgrow; of several with the same model, one is returned.

    With one parameter that is a single stage. With several, a stage is also left out if the others
    together outgrow it, such as n + p beside n^2 and p^2.
    """
    kept: list[Stage] = []
    seen: list[dict[_Product, object]] = []
    for stage in sorted(set(stages), key=lambda stage: stage.order):
        terms: dict[_Product, object] = {p: c for p, c in stage.exact_terms().items() if c}
        if terms in seen or any(outgrows(other, stage) for other in stages):
            continue
        seen.append(terms)
        kept.append(stage)
    rivals = {
        product
        for stage in kept
        if all(c >= 0 for c, _ in stage.terms)
        for product in _growing(stage)
    }
    return tuple(
        stage
        for stage in kept
        if not _growing(stage)
        or not all(any(_faster(rival, own) for rival in rivals) for own in _growing(stage))
    )


def _growing(stage: Stage) -> list[_Product]:
    return [product for product, c in stage.exact_terms().items() if c > 0]


def _faster(a: _Product, b: _Product) -> bool:
    left = {name: (i, j) for name, i, j in a}
    right = {name: (i, j) for name, i, j in b}
    names = left.keys() | right.keys()
    pairs = [(left.get(name, (0.0, 0.0)), right.get(name, (0.0, 0.0))) for name in names]
    return all(x >= y for x, y in pairs) and any(x > y for x, y in pairs)
