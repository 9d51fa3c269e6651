"""Formulas of scaling models: one grammar that every command prints and reads.

A formula is arithmetic over named parameters, such as ``5 + 0.1 n^(3/2) log2(p)``. Operators bind
as in Python; a blank or nothing between two factors is a product, and ``^`` is a power. Only
numbers, names, arithmetic and a few functions pass; nothing is executed.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import product
from typing import Any, NoReturn, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from toruscast.errors import InputError

Array = NDArray[np.float64]
Key = TypeVar("Key", bound=Hashable)
Amount = TypeVar("Amount", float, Fraction)
Exponents = tuple[tuple[float, float], ...]
Term = tuple[float, Exponents]
# A product, by the exponents of each parameter's power and logarithm, and a sum of products.
Powers = tuple[tuple[str, tuple[float, float]], ...]
Sum = dict[Powers, float]
# A step of a formula in postfix order: "number", "parameter", "held" (a parameter in a logarithm),
# "call" or "apply", with the number, name or operator.
_Step = tuple[str, Any]
_NEGATED: list[_Step] = [("number", -1.0), ("apply", "*")]

MAX_LENGTH = 1000
MAX_DEPTH = 50
# Terms of a formula that is multiplied out.
_MAX_TERMS = 200
NAME = re.compile(r"[A-Za-z_]\w*")
# Names that are no parameters in other programs, and what to write instead.
_MEANT = dict.fromkeys(("ln", "log10"), "log (natural) or log2")
_MEANT |= dict.fromkeys(("nan", "inf", "infinity"), "a finite number")
# Cost of a collective operation for a process: a tree has log2(p) levels, and in an all-to-all
# every process sends to p - 1 others.
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "log": np.log,
    "log2": np.log2,
    "sqrt": np.sqrt,
    "allreduce": np.log2,
    "bcast": np.log2,
    "alltoall": lambda p: np.subtract(p, 1.0),
}
# Names that cannot be parameters without backquotes.
RESERVED = frozenset((*FUNCTIONS, *_MEANT))
_LOGARITHMS = {"log": math.log(2.0), "log2": 1.0, "allreduce": 1.0, "bcast": 1.0}
_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "**": np.power,
}
# Operators with a higher number bind tighter.
_BINDING = {"+": 1, "-": 1, "*": 2, "/": 2, "sign": 3, "**": 4}
_TOKEN = re.compile(
    r"(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<quoted>`(?:[^`]|``)+`)|(?P<sign>\*\*|[-+*/^()])|(?P<other>\S)",
    re.ASCII,
)
_OPERAND = "a number, a parameter or a function"


@runtime_checkable
class Fitted(Protocol):
    """A fitted model that has a formula, such as `PMNFRegressor` and `Models`."""

    def formula(self, path: int = 0) -> Formula:
        """Return the formula of a call path."""


class Formula:
    """Arithmetic over named parameters.

    Parameters
    ----------
    text : str
        Numbers, parameters, ``+ - * /``, powers (``n^2``, ``n**2``, ``n^(1/2)``), parentheses, and
        the functions ``log2``, ``log`` (natural), ``sqrt``, ``allreduce`` and ``bcast`` (both
        log2), ``alltoall`` (its argument less one). Factors may stand side by side, with a blank
        after a number. A parameter whose name is not an identifier needs backquotes.
    variables : sequence of str, optional
        Parameters that may occur; any if left out.
    file, place : str, optional
        Where the formula comes from, for messages.

    Attributes
    ----------
    text : str
    parameters : tuple of str
        Those that occur, in alphabetical order.

    Examples
    --------
    >>> cost = Formula("5 + 0.1 n^(3/2) log2(p)")
    >>> float(cost(p=8.0, n=4.0))
    7.4
    >>> cost.parameters, cost.terms()[1][1]
    (('n', 'p'), (0.1, ((1.5, 0.0), (0.0, 1.0))))
    >>> float(cost(p=64.0, n=4.0, held={"p": 8.0, "n": 2.0}))   # the logarithm stays
    7.4
    >>> Formula("n ! p")
    Traceback (most recent call last):
    toruscast.errors.InputError: bad formula, column 3: found !, expected + - * / ^ or a factor
    """

    def __init__(
        self,
        text: str,
        variables: Sequence[str] | None = None,
        file: str | os.PathLike[str] | None = None,
        place: str = "",
    ) -> None:
        self.text, self.variables, self.file, self.place = text, variables, file, place
        if not isinstance(text, str):
            self._refuse(0, repr(text), "a text such as 1e6 n, or a fitted PMNFRegressor or Models")
        if len(text) > MAX_LENGTH:
            self._refuse(MAX_LENGTH, f"{len(text)} characters", f"at most {MAX_LENGTH}")
        self._steps = self._parsed()
        names = {str(what) for kind, what in self._steps if kind in ("parameter", "held")}
        self.parameters = tuple(sorted(names))

    @classmethod
    def from_model(
        cls,
        model: str | Formula | Fitted,
        path: int = 0,
        file: str | os.PathLike[str] | None = None,
        place: str = "",
    ) -> Formula:
        """Return the formula of a text or of a fitted model."""
        if isinstance(model, Formula):
            return model
        if isinstance(model, Fitted):
            return model.formula(path)
        return cls(model, file=file, place=place)

    @classmethod
    def from_terms(
        cls,
        terms: Sequence[Term],
        parameters: Sequence[str],
        file: str | os.PathLike[str] | None = None,
        place: str = "",
    ) -> Formula:
        """Return the formula of a model, with all digits."""
        return cls(text(terms, parameters, None), file=file, place=place)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Formula) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"Formula({self.text!r})"

    def __str__(self) -> str:
        return self.text

    def __call__(self, *, held: Mapping[str, Any] | None = None, **values: Any) -> Any:
        """Evaluate for numbers or arrays; logarithms take the values in `held`, if given.

        The result is NaN or infinity where the formula has no finite value.
        """
        at = {name: np.asarray(value, dtype=float)[()] for name, value in values.items()}
        places = {"parameter": at, "held": at if held is None else held}

        def operand(kind: str, what: Any) -> Any:
            if kind == "number":
                return np.float64(what)
            known = places[kind]
            if what not in known:
                raise InputError(
                    f"no value for a parameter of {self.text[:60]}",
                    file=self.file,
                    found=", ".join(known) or "none",
                    expected=what,
                )
            return known[what]

        with np.errstate(all="ignore"):
            return self._computed(
                operand,
                lambda name, value: FUNCTIONS[name](value),
                lambda operator, left, right: _OPERATORS[operator](left, right),
            )

    def terms(self) -> tuple[tuple[str, ...], list[Term]]:
        """Multiply out to a sum of products of powers and logarithms.

        Returns the parameters in alphabetical order, and terms (coefficient, ((i, j) for each
        parameter)); those with equal exponents are added up, the constant comes first.

        Examples
        --------
        >>> Formula("100 / p - n").terms()[1]
        [(100.0, ((0.0, 0.0), (-1.0, 0.0))), (-1.0, ((1.0, 0.0), (0.0, 0.0)))]
        """
        return self.parameters, aligned(self.sum(), self.parameters)

    def sum(self) -> Sum:
        """Multiply out to the coefficient of each product of powers and logarithms."""

        def operand(kind: str, what: Any) -> Sum:
            return {(): what} if kind == "number" else {((what, (1.0, 0.0)),): 1.0}

        found: Sum = self._computed(operand, self._called, self._joined)
        for powers, coefficient in found.items():
            if not math.isfinite(coefficient):
                self._refuse(0, self.text, "finite numbers")
            if any(j < 0 for _, (_, j) in powers):
                self._refuse(0, self.text, "no division by a logarithm")
        return found

    def _parsed(self) -> list[_Step]:
        """Return the formula in postfix order, by a shunting yard that knows implied products."""
        tokens = [
            (str(m.lastgroup), m[0], m.start())
            for m in _TOKEN.finditer(self.text)
            if not m[0].isspace()
        ]
        tokens.append(("end", "its end", len(self.text)))
        steps: list[_Step] = []
        # Operators, and open parentheses with their function and its power.
        waiting: list[tuple[str, float]] = []
        operand = True  # whether an operand comes next
        signs = k = 0

        def close(binding: int) -> None:
            while waiting and _BINDING.get(waiting[-1][0], 0) >= binding:
                operator, _ = waiting.pop()
                steps.extend(_NEGATED if operator == "sign" else [("apply", operator)])

        while tokens[k][0] != "end" or operand:
            kind, token, start = tokens[k]
            k += 1
            if operand and token in ("+", "-"):
                signs += 1
                if signs > MAX_DEPTH:
                    self._refuse(start, token, f"at most {MAX_DEPTH} levels")
                waiting += [("sign", 1.0)] * (token == "-")
                continue
            starts = kind in ("number", "name", "quoted") or token == "("
            if operand and not starts:
                self._refuse(start, token, _OPERAND)
            if not operand and token == ")":
                close(1)
                if not waiting:
                    self._refuse(start, token, "no closing parenthesis without an opening one")
                steps += _called(*waiting.pop())
                continue
            if not operand:
                # Otherwise 0x10 would be 0 times x10, and 1_000 n have a parameter _000.
                before = tokens[k - 2]
                if starts and before[0] == "number" and before[2] + len(before[1]) == start:
                    self._refuse(start, token, f"a blank or * after {before[1]}")
                operator = "*" if starts else token.replace("^", "**")
                if operator not in _BINDING:
                    self._refuse(start, token, "+ - * / ^ or a factor")
                # A power of a power is read from the right.
                close(_BINDING[operator] + (operator == "**"))
                waiting.append((operator, 1.0))
                operand, signs = True, 0
                if not starts:
                    continue
            if kind == "number":
                steps.append(("number", self._number(token, start)))
                operand = False
                continue
            opening, exponent = "(", 1.0
            if kind == "name" and token in FUNCTIONS:
                # As in log2^2(n) and log2 n.
                opening = token
                if tokens[k][1] in ("^", "**") and tokens[k + 1][0] == "number":
                    exponent = self._number(*tokens[k + 1][1:])
                    k += 2
                kind, token, start = tokens[k]
                k += 1
                if token != "(" and (
                    opening != "log2" or kind not in ("name", "quoted") or token in FUNCTIONS
                ):
                    self._refuse(start, token, f"a parenthesis after {opening}")
            if token == "(":
                if sum(each not in _BINDING for each, _ in waiting) >= MAX_DEPTH:
                    self._refuse(start, self.text[start:], f"at most {MAX_DEPTH} levels")
                waiting.append((opening, exponent))
                signs = 0
                continue
            is_held = opening == "log2" or any(each in _LOGARITHMS for each, _ in waiting)
            name = self._name(kind, token, start, tokens[k][1])
            steps += [("held" if is_held else "parameter", name), *_called(opening, exponent)]
            operand = False
        close(1)
        if waiting:
            self._refuse(len(self.text), "its end", "an operator or a closing parenthesis")
        return steps

    def _number(self, text: str, start: int) -> float:
        if not math.isfinite(number := float(text)):
            self._refuse(start, text, "a finite number")
        return number

    def _name(self, kind: str, name: str, start: int, following: str) -> str:
        if kind == "quoted":
            name = name[1:-1].replace("``", "`")
        elif name.lower() in _MEANT:
            self._refuse(start, name, _MEANT[name.lower()])
        elif following == "(":
            self._refuse(start, name, f"one of the functions {', '.join(FUNCTIONS)}")
        if self.variables is not None and name not in self.variables:
            self._refuse(start, name, f"{' or '.join(self.variables)}, or {', '.join(FUNCTIONS)}")
        return name

    def _computed(
        self,
        operand: Callable[[str, Any], Any],
        call: Callable[[str, Any], Any],
        apply: Callable[[str, Any, Any], Any],
    ) -> Any:
        """Compute the formula in any arithmetic."""
        stack: list[Any] = []
        for kind, what in self._steps:
            if kind == "call":
                stack.append(call(what, stack.pop()))
            elif kind == "apply":
                right = stack.pop()
                stack.append(apply(what, stack.pop(), right))
            else:
                stack.append(operand(kind, what))
        return stack.pop()

    def _called(self, name: str, inner: Sum) -> Sum:
        if name == "alltoall":
            return self._joined("-", inner, {(): 1.0})
        if name == "sqrt":
            return self._joined("**", inner, {(): 0.5})
        (powers, coefficient), *more = inner.items()
        if more or len(powers) != 1 or coefficient != 1.0 or powers[0][1] != (1.0, 0.0):
            self._refuse(0, self.text, f"one parameter under {name}")
        return {((powers[0][0], (0.0, 1.0)),): _LOGARITHMS[name]}

    def _joined(self, operator: str, left: Sum, right: Sum) -> Sum:
        if operator in ("+", "-"):
            sign = 1.0 if operator == "+" else -1.0
            return added_up([*left.items(), *((powers, sign * c) for powers, c in right.items())])
        if operator == "*":
            if len(left) * len(right) > _MAX_TERMS:
                self._refuse(0, self.text, f"at most {_MAX_TERMS} terms when multiplied out")
            pairs = product(left.items(), right.items())
            return added_up((_times(a, b), c * d) for (a, c), (b, d) in pairs)
        if operator == "/":
            if len(right) > 1:
                self._refuse(0, self.text, "no division by a sum")
            ((powers, coefficient),) = right.items()
            if coefficient == 0:
                self._refuse(0, self.text, "a divisor other than 0")
            return self._joined("*", left, {_raised(powers, -1.0): 1.0 / coefficient})
        if set(right) != {()}:
            self._refuse(0, self.text, "powers that are numbers")
        if len(left) > 1:
            self._refuse(0, self.text, "no power of a sum")
        ((powers, coefficient),) = left.items()
        exponent = right[()]
        try:
            raised = float(coefficient**exponent)
        except (OverflowError, ZeroDivisionError, TypeError):
            self._refuse(0, self.text, "a finite number")
        return {_raised(powers, exponent): raised}

    def _refuse(self, column: int, found: object, expected: str) -> NoReturn:
        where = f"{self.place}: " if self.place else ""
        raise InputError(
            f"{where}bad formula, column {column + 1}",
            file=self.file,
            found=found,
            expected=expected,
        )


def _called(opening: str, exponent: float) -> list[_Step]:
    """Return the steps at the end of a function's argument, or of a parenthesis."""
    steps: list[_Step] = [] if opening == "(" else [("call", opening)]
    return steps + ([("number", exponent), ("apply", "**")] if exponent != 1 else [])


def _times(a: Powers, b: Powers) -> Powers:
    result = dict(a)
    for name, (i, j) in b:
        before = result.get(name, (0.0, 0.0))
        result[name] = (before[0] + i, before[1] + j)
    return tuple(sorted((name, pair) for name, pair in result.items() if any(pair)))


def _raised(powers: Powers, exponent: float) -> Powers:
    return tuple((name, (i * exponent, j * exponent)) for name, (i, j) in powers if exponent)


def added_up(amounts: Iterable[tuple[Key, Amount]]) -> dict[Key, Amount]:
    """Add up the amounts of equal keys."""
    total: dict[Key, Amount] = {}
    for key, amount in amounts:
        total[key] = total[key] + amount if key in total else amount
    return total


def aligned(products: Mapping[Powers, float], parameters: Sequence[str]) -> list[Term]:
    """Return a sum as terms with exponents for each parameter; the constant comes first."""
    terms = [
        (coefficient, tuple(dict(powers).get(name, (0.0, 0.0)) for name in parameters))
        for powers, coefficient in products.items()
    ]
    return joined(terms, len(parameters))


def text(terms: Sequence[Term], parameters: Sequence[str], digits: int | None = 4) -> str:
    """Formula of a model, with all digits if `digits` is None."""
    result = ""
    for coefficient, exponents in terms:
        factors = [
            factor
            for (i, j), name in zip(exponents, map(quoted, parameters), strict=True)
            for factor in (_power(name, i), _power(f"log2({name})", j))
            if factor
        ]
        size = abs(coefficient)
        number = f"{size:.{digits}g}" if digits else f"{size!r}".removesuffix(".0")
        body = " ".join(factors if factors and number == "1" else [number, *factors])
        if result:
            result += f" {'-' if coefficient < 0 else '+'} {body}"
        else:
            result = f"-{body}" if coefficient < 0 else body
    return result or "0"


def quoted(name: str) -> str:
    """Return the name of a parameter for a formula, in backquotes if it would be misread."""
    name = str(name)  # a table's columns may be numbers
    if NAME.fullmatch(name) and name.lower() not in RESERVED:
        return name
    return "`" + name.replace("`", "``") + "`"


def joined(terms: Sequence[Term], n_parameters: int) -> list[Term]:
    """Add up terms with equal exponents; the constant comes first. There is always a term."""
    total = added_up((e, c) for c, e in terms) or {((0.0, 0.0),) * n_parameters: 0.0}
    return [(total[e], e) for e in sorted(total, key=lambda e: (any(map(any, e)), e))]


def named(terms: Sequence[Term], parameters: Sequence[str]) -> list[dict[str, Any]]:
    """Return terms as plain numbers: a coefficient, and [i, j] for each parameter."""
    return [
        {"coefficient": c, "exponents": dict(zip(parameters, map(list, e), strict=True))}
        for c, e in terms
    ]


def evaluate(terms: Sequence[Term], X: ArrayLike) -> Array:
    """Value of a model at each row of X."""
    x = np.asarray(X, dtype=float)
    result = np.zeros(len(x))
    for coefficient, exponents in terms:
        value = np.full(len(x), coefficient)
        for q, (i, j) in enumerate(exponents):
            value *= term_values(i, j, x[:, q])
        result += value
    return result


def term_values(polynomial: ArrayLike, logarithm: ArrayLike, x: ArrayLike) -> Array:
    """x^i log2(x)^j, broadcast; a logarithm of x < 1 counts as 0."""
    x = np.asarray(x, dtype=float)
    j = np.asarray(logarithm, dtype=float)
    logs = np.log2(np.maximum(x, 1.0))
    value: Array = x ** np.asarray(polynomial, dtype=float) * np.where(j == 0, 1.0, logs**j)
    return value


def _power(name: str, exponent: float) -> str:
    if exponent == 0:
        return ""
    if exponent == 1:
        return name
    ratio = Fraction(exponent).limit_denominator(48)
    if abs(float(ratio) - exponent) > 1e-9:
        return f"{name}^{exponent:g}"
    return f"{name}^{ratio}" if ratio.denominator == 1 else f"{name}^({ratio})"


class ScalingWarning(UserWarning):
    """The measurements limit what their model can say."""
