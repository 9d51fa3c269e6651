"""Models as text and numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .term_space import term_values

Array = NDArray[np.float64]
Exponents = tuple[tuple[float, float], ...]
Term = tuple[float, Exponents]

NAME = re.compile(r"[A-Za-z_]\w*")
# Names that mean something else in a formula.
RESERVED = frozenset(("log2", "log", "ln", "log10", "nan", "inf", "infinity"))


def text(terms: Sequence[Term], parameters: Sequence[str], digits: int = 4) -> str:
    """Formula of a model.

    Examples
    --------
    >>> text([(3.0, ((0, 0),)), (2.0, ((0.5, 1),))], ["p"])
    '3 + 2 p^(1/2) log2(p)'
    >>> text([(1.0, ((0, 0),)), (-2.5, ((1, 0),))], ["n"])
    '1 - 2.5 n'
    >>> text([(2.0, ((2, 0),))], ["number of ranks"])
    '2 `number of ranks`^2'
    """
    result = ""
    for coefficient, exponents in terms:
        factors = [
            factor
            for (i, j), name in zip(exponents, map(quoted, parameters), strict=True)
            for factor in (_power(name, i), _power(f"log2({name})", j))
            if factor
        ]
        number = f"{abs(coefficient):.{digits}g}"
        body = " ".join(factors if factors and number == "1" else [number, *factors])
        if result:
            result += f" {'-' if coefficient < 0 else '+'} {body}"
        else:
            result = f"-{body}" if coefficient < 0 else body
    return result or "0"


def quoted(name: str) -> str:
    """Return the name of a parameter for a formula, in backquotes if it would be misread.

    Examples
    --------
    >>> quoted("p"), quoted("p^2"), quoted("log2")
    ('p', '`p^2`', '`log2`')
    """
    name = str(name)  # a table's columns may be numbers
    if NAME.fullmatch(name) and name.lower() not in RESERVED:
        return name
    return "`" + name.replace("`", "``") + "`"


def joined(terms: Sequence[Term], n_parameters: int) -> list[Term]:
    """Add up terms with equal exponents; the constant comes first, and there is at least one term.

    Examples
    --------
    >>> joined([(2.0, ((1, 0),)), (1.0, ((0, 0),)), (3.0, ((1, 0),))], 1)
    [(1.0, ((0, 0),)), (5.0, ((1, 0),))]
    """
    total: dict[Exponents, float] = {}
    for coefficient, exponents in terms:
        total[exponents] = total.get(exponents, 0.0) + coefficient
    if not total:
        total[((0.0, 0.0),) * n_parameters] = 0.0
    return [(total[e], e) for e in sorted(total, key=lambda e: (any(map(any, e)), e))]


def named(terms: Sequence[Term], parameters: Sequence[str]) -> list[dict[str, Any]]:
    """Return terms as plain numbers: a coefficient, and [i, j] for each parameter.

    Examples
    --------
    >>> named([(2.0, ((0.5, 1.0),))], ["p"])
    [{'coefficient': 2.0, 'exponents': {'p': [0.5, 1.0]}}]
    """
    return [
        {"coefficient": c, "exponents": dict(zip(parameters, map(list, e), strict=True))}
        for c, e in terms
    ]


def evaluate(terms: Sequence[Term], X: ArrayLike) -> Array:
    """Value of a model at each row of X.

    Examples
    --------
    >>> evaluate([(3.0, ((0, 0),)), (2.0, ((1, 1),))], [[4.0], [8.0]]).tolist()
    [19.0, 51.0]
    """
    x = np.asarray(X, dtype=float)
    result = np.zeros(len(x))
    for coefficient, exponents in terms:
        value = np.full(len(x), coefficient)
        for q, (i, j) in enumerate(exponents):
            value *= term_values(i, j, x[:, q])
        result += value
    return result


def _power(name: str, exponent: float) -> str:
    if exponent == 0:
        return ""
    if exponent == 1:
        return name
    ratio = Fraction(exponent).limit_denominator(48)
    if abs(float(ratio) - exponent) > 1e-9:
        return f"{name}^{exponent:g}"
    return f"{name}^{ratio}" if ratio.denominator == 1 else f"{name}^({ratio})"
