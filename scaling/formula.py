"""Formulas of scaling models, in the syntax that all commands read and print.

A formula is arithmetic over named parameters, such as ``5 + 0.1 n^(3/2) log2(p)``. Operators have
the precedence of Python. Formulas are parsed without executing code.
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
from numpy.typing import ArrayLike

from toruscast.errors import InputError
from toruscast.typing import Floats

Key = TypeVar("Key", bound=Hashable)
Amount = TypeVar("Amount", float, Fraction)
Exponents = tuple[tuple[float, float], ...]
Term = tuple[float, Exponents]
# A product of factors x^i log2(x)^j: for each parameter x, the exponents (i, j).
Powers = tuple[tuple[str, tuple[float, float]], ...]
# A sum of products: for each product, its coefficient.
Sum = dict[Powers, float]
# A step of a formula in postfix order: its kind and its number, name or operator. The kinds are
# "number", "parameter", "held" (a parameter in a logarithm), "call" (a function) and "apply".
_Step = tuple[str, Any]
_NEGATION: list[_Step] = [("number", -1.0), ("apply", "*")]

MAX_LENGTH = 1000
MAX_DEPTH = 50
# Maximum number of terms when a formula is multiplied out.
_MAX_TERMS = 200
# Maximum denominator when exponents are printed as fractions.
_MAX_DENOMINATOR = 48
NAME = re.compile(r"[A-Za-z_]\w*")
# Names that other programs define, and what to write instead.
_REPLACEMENTS = dict.fromkeys(("ln", "log10"), "log (natural) or log2")
_REPLACEMENTS |= dict.fromkeys(("nan", "inf", "infinity"), "a finite number")
# Collectives count the steps of each of p processes: log2(p) levels of a tree or p - 1 messages.
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "log": np.log,
    "log2": np.log2,
    "sqrt": np.sqrt,
    "allreduce": np.log2,
    "bcast": np.log2,
    "alltoall": lambda p: np.subtract(p, 1.0),
}
# Names that need backquotes to be parameters.
RESERVED = frozenset((*FUNCTIONS, *_REPLACEMENTS))
_LOGARITHMS = {"log": math.log(2.0), "log2": 1.0, "allreduce": 1.0, "bcast": 1.0}
_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "**": np.power,
}
_PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2, "**": 3}
_TOKEN = re.compile(
    r"(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<quoted>`(?:[^`]|``)+`)|(?P<sign>\*\*|[-+*/^()])|(?P<other>\S)",
    re.ASCII,
)


@runtime_checkable
class SupportsFormula(Protocol):
    """A model with a formula, such as `PMNFRegressor` and `Models`."""

    def formula(self, path: int = 0) -> Formula:
        """Return the formula of a call path."""


class Formula:
    """Arithmetic over named parameters.

    Parameters
    ----------
    text : str
        Numbers, parameters, ``+ - * /``, powers (``n^2``, ``n**2``, ``n^(1/2)``), parentheses, and
        the functions ``log2``, ``log`` (natural), ``sqrt``, ``allreduce`` and ``bcast`` (both
        log2), ``alltoall`` (its argument minus one). Adjacent factors are multiplied; a number
        needs a blank after it. A parameter whose name is not an identifier needs backquotes.
    variables : sequence of str, optional
        Allowed parameters; any by default.
    file, place : str, optional
        Source of the formula, for error messages.

    Attributes
    ----------
    text : str
    parameters : tuple of str
        Parameters of the formula, in alphabetical order.

    Examples
    --------
    >>> cost = Formula("5 + 0.1 n^(3/2) log2(p)")
    >>> float(cost(p=8.0, n=4.0))
    7.4
    >>> cost.parameters, cost.terms()[1][1]
    (('n', 'p'), (0.1, ((1.5, 0.0), (0.0, 1.0))))
    >>> float(cost(p=64.0, n=4.0, held={"p": 8.0, "n": 2.0}))   # log2(8), not log2(64)
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
        self._steps = _Parser(self).steps
        names = {str(name) for kind, name in self._steps if kind in ("parameter", "held")}
        self.parameters = tuple(sorted(names))

    @classmethod
    def from_model(
        cls,
        model: str | Formula | SupportsFormula,
        path: int = 0,
        file: str | os.PathLike[str] | None = None,
        place: str = "",
    ) -> Formula:
        """Return text or a fitted model as a formula."""
        if isinstance(model, Formula):
            return model
        if isinstance(model, SupportsFormula):
            return model.formula(path)
        return cls(model, file=file, place=place)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Formula) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"Formula({self.text!r})"

    def __str__(self) -> str:
        return self.text

    def __call__(self, *, held: Mapping[str, Any] | None = None, **values: Any) -> Any:
        """Evaluate for numbers or arrays; logarithms use the values in `held` if it is given.

        The result is NaN or infinity where the formula has no finite value.
        """
        at = {name: np.asarray(value, dtype=float)[()] for name, value in values.items()}
        values_of = {"parameter": at, "held": at if held is None else held}

        def load(kind: str, operand: Any) -> Any:
            """Return the value of a number or parameter."""
            if kind == "number":
                return np.float64(operand)
            known = values_of[kind]
            if operand not in known:
                message, found = f"no value for a parameter of {self.text[:60]}", ", ".join(known)
                raise InputError(message, file=self.file, found=found or "none", expected=operand)
            return known[operand]

        with np.errstate(all="ignore"):
            return self._fold(
                load,
                lambda name, value: FUNCTIONS[name](value),
                lambda operator, left, right: _OPERATORS[operator](left, right),
            )

    def terms(self) -> tuple[tuple[str, ...], list[Term]]:
        """Multiply out into a sum of products of powers and logarithms.

        Returns the parameters in alphabetical order, and a list of terms, (coefficient, ((i, j) for
        each parameter)), with the constant first. Terms with equal exponents are added.

        Examples
        --------
        >>> Formula("100 / p - n").terms()[1]
        [(100.0, ((0.0, 0.0), (-1.0, 0.0))), (-1.0, ((1.0, 0.0), (0.0, 0.0)))]
        """
        return self.parameters, align_terms(self.sum(), self.parameters)

    def sum(self) -> Sum:
        """Multiply out, and return the coefficient of each product of powers and logarithms."""

        def load(kind: str, operand: Any) -> Sum:
            """Return a number or parameter as a sum with one product."""
            return {(): operand} if kind == "number" else {((operand, (1.0, 0.0)),): 1.0}

        result: Sum = self._fold(load, self._apply_function, self._combine)
        for powers, coefficient in result.items():
            if not math.isfinite(coefficient):
                self._refuse(0, self.text, "finite numbers")
            if any(j < 0 for _, (_, j) in powers):
                self._refuse(0, self.text, "no division by a logarithm")
        return result

    def _fold(
        self,
        load: Callable[[str, Any], Any],
        call: Callable[[str, Any], Any],
        apply: Callable[[str, Any, Any], Any],
    ) -> Any:
        """Evaluate the steps with a stack of values.

        ``load(kind, operand)`` returns the value of a number or parameter. ``call(name, value)``
        calls a function, and ``apply(operator, left, right)`` applies an operator.
        """
        stack: list[Any] = []
        for kind, item in self._steps:
            if kind == "call":
                stack.append(call(item, stack.pop()))
            elif kind == "apply":
                right_value = stack.pop()
                stack.append(apply(item, stack.pop(), right_value))
            else:
                stack.append(load(kind, item))
        return stack.pop()

    def _apply_function(self, name: str, argument: Sum) -> Sum:
        """Apply a function to a sum, and return a sum of products."""
        if name == "alltoall":
            return self._combine("-", argument, {(): 1.0})
        if name == "sqrt":
            return self._combine("**", argument, {(): 0.5})
        (powers, coefficient), *more = argument.items()
        if more or len(powers) != 1 or coefficient != 1.0 or powers[0][1] != (1.0, 0.0):
            self._refuse(0, self.text, f"one parameter under {name}")
        return {((powers[0][0], (0.0, 1.0)),): _LOGARITHMS[name]}

    def _combine(self, operator: str, left: Sum, right: Sum) -> Sum:
        """Apply an operator to two sums, and return a sum of products."""
        if operator in ("+", "-"):
            sign = 1.0 if operator == "+" else -1.0
            return sum_by_key([*left.items(), *((powers, sign * c) for powers, c in right.items())])
        if operator == "*":
            if len(left) * len(right) > _MAX_TERMS:
                self._refuse(0, self.text, f"at most {_MAX_TERMS} terms when multiplied out")
            pairs = product(left.items(), right.items())
            return sum_by_key((_multiply_powers(a, b), c * d) for (a, c), (b, d) in pairs)
        if operator == "/":
            if len(right) > 1:
                self._refuse(0, self.text, "no division by a sum")
            ((powers, coefficient),) = right.items()
            if coefficient == 0:
                self._refuse(0, self.text, "a divisor other than 0")
            return self._combine("*", left, {_raise_powers(powers, -1.0): 1.0 / coefficient})
        if set(right) != {()}:
            self._refuse(0, self.text, "powers that are numbers")
        if len(left) > 1:
            self._refuse(0, self.text, "no power of a sum")
        ((powers, coefficient),) = left.items()
        exponent = right[()]
        try:
            power = float(coefficient**exponent)
        except (OverflowError, ZeroDivisionError, TypeError):
            self._refuse(0, self.text, "a finite number")
        return {_raise_powers(powers, exponent): power}

    def _refuse(self, column: int, found: object, expected: str) -> NoReturn:
        """Raise an `InputError` that names a column of the text."""
        where = f"{self.place}: " if self.place else ""
        message = f"{where}bad formula, column {column + 1}"
        raise InputError(message, file=self.file, found=found, expected=expected)


class _Parser:
    """Parser that climbs precedences and lists the steps of a formula in postfix order."""

    def __init__(self, formula: Formula) -> None:
        self.steps: list[_Step] = []
        self._formula, self._refuse = formula, formula._refuse
        tokens = [
            (str(match.lastgroup), match[0], match.start())
            for match in _TOKEN.finditer(formula.text)
            if not match[0].isspace()
        ]
        # The remaining tokens, (kind, text, index) each, in reverse order.
        self._tokens = [("end", "its end", len(formula.text)), *reversed(tokens)]
        # The last number, and the index after it.
        self._last_number = "", -1
        # For each open parenthesis, the function before it, or "(" if there is none.
        self._opened: list[str] = []
        self._parse_until("its end", "no closing parenthesis without an opening one")

    def _parse_until(self, closing: str, expected: str) -> None:
        """Parse an expression and its closing token; raise `InputError` at a different token."""
        self._parse_operation(1)
        kind, text, start = self._tokens.pop()
        if text != closing:
            self._refuse(start, text, "+ - * / ^ or a factor" if kind == "other" else expected)

    def _parse_operation(self, min_precedence: int) -> None:
        """Parse an operand and the operators that follow it with at least this precedence."""
        n_signs = n_negations = 0
        while self._tokens[-1][1] in ("+", "-"):
            _, text, start = self._tokens.pop()
            n_signs, n_negations = n_signs + 1, n_negations + (text == "-")
            if n_signs > MAX_DEPTH:
                self._refuse(start, text, f"at most {MAX_DEPTH} levels")
        self._parse_operand()
        while True:
            kind, text, start = self._tokens[-1]
            is_product = kind in ("number", "name", "quoted") or text == "("
            operator = "*" if is_product else text.replace("^", "**")
            precedence = _PRECEDENCE.get(operator, 0)
            if operator != "**":
                self.steps += _NEGATION * n_negations
                n_negations = 0
            if precedence < min_precedence:
                return
            number, end = self._last_number
            if not is_product:
                self._tokens.pop()
            elif end == start:
                # Otherwise 0x10 would be 0 times x10, and 1_000 n would have a parameter _000.
                self._refuse(start, text, f"a blank or * after {number}")
            # Powers are right-associative.
            self._parse_operation(precedence + (operator != "**"))
            self.steps.append(("apply", operator))

    def _parse_operand(self) -> None:
        """Parse a number, a parameter, a parenthesis or a function."""
        kind, text, start = self._tokens.pop()
        if kind == "number":
            self._last_number = text, start + len(text)
            self.steps.append(("number", self._read_number(text, start)))
            return
        opening, exponent = "(", 1.0
        if kind == "name" and text in FUNCTIONS:
            # A function may have a power, as in log2^2(n), and log2 may lack parentheses.
            opening = text
            if self._tokens[-1][1] in ("^", "**") and self._tokens[-2][0] == "number":
                self._tokens.pop()
                exponent = self._read_number(*self._tokens.pop()[1:])
            kind, text, start = self._tokens.pop()
            has_name = kind in ("name", "quoted") and text not in FUNCTIONS
            if text != "(" and not (opening == "log2" and has_name):
                self._refuse(start, text, f"a parenthesis after {opening}")
        elif kind not in ("name", "quoted") and text != "(":
            self._refuse(start, text, "a number, a parameter or a function")
        self._opened.append(opening)
        if text != "(":
            is_held = not _LOGARITHMS.keys().isdisjoint(self._opened)
            name = self._read_name(kind, text, start)
            self.steps.append(("held" if is_held else "parameter", name))
        elif len(self._opened) > MAX_DEPTH:
            self._refuse(start, self._formula.text[start:], f"at most {MAX_DEPTH} levels")
        else:
            self._parse_until(")", "an operator or a closing parenthesis")
        self._opened.pop()
        if opening != "(":
            self.steps.append(("call", opening))
        if exponent != 1:
            self.steps += [("number", exponent), ("apply", "**")]

    def _read_number(self, text: str, start: int) -> float:
        """Return a number; raise `InputError` if it overflows."""
        if not math.isfinite(number := float(text)):
            self._refuse(start, text, "a finite number")
        return number

    def _read_name(self, kind: str, name: str, start: int) -> str:
        """Return the name of a parameter without backquotes; raise `InputError` for other names."""
        if kind == "quoted":
            name = name[1:-1].replace("``", "`")
        elif name.lower() in _REPLACEMENTS:
            self._refuse(start, name, _REPLACEMENTS[name.lower()])
        elif self._tokens[-1][1] == "(":
            self._refuse(start, name, f"one of the functions {', '.join(FUNCTIONS)}")
        allowed = self._formula.variables
        if allowed is not None and name not in allowed:
            self._refuse(start, name, f"{' or '.join(allowed)}, or {', '.join(FUNCTIONS)}")
        return name


def _multiply_powers(a: Powers, b: Powers) -> Powers:
    """Multiply two products by adding the exponents of each parameter."""
    result = dict(a)
    for name, (i, j) in b:
        exponents = result.get(name, (0.0, 0.0))
        result[name] = (exponents[0] + i, exponents[1] + j)
    return tuple(sorted((name, pair) for name, pair in result.items() if any(pair)))


def _raise_powers(powers: Powers, exponent: float) -> Powers:
    return tuple((name, (i * exponent, j * exponent)) for name, (i, j) in powers if exponent)


def sum_by_key(amounts: Iterable[tuple[Key, Amount]]) -> dict[Key, Amount]:
    """Add up the amounts of each key."""
    total: dict[Key, Amount] = {}
    for key, amount in amounts:
        total[key] = total[key] + amount if key in total else amount
    return total


def align_terms(products: Mapping[Powers, float], parameters: Sequence[str]) -> list[Term]:
    """Convert a sum to terms with the exponents of all parameters; the constant comes first."""
    terms = [
        (coefficient, tuple(dict(powers).get(name, (0.0, 0.0)) for name in parameters))
        for powers, coefficient in products.items()
    ]
    return merge_terms(terms, len(parameters))


def format_terms(terms: Sequence[Term], parameters: Sequence[str], digits: int | None = 4) -> str:
    """Return the formula of a model as text, in full precision if `digits` is None."""
    result, names = "", [quote_name(name) for name in parameters]
    for coefficient, exponents in terms:
        factors: list[str] = []
        for name, (i, j) in zip(names, exponents, strict=True):
            factors += [_format_power(name, i), _format_power(f"log2({name})", j)]
        factors = [factor for factor in factors if factor]
        size = abs(coefficient)
        number = f"{size:.{digits}g}" if digits else f"{size!r}".removesuffix(".0")
        body = " ".join(factors if factors and number == "1" else [number, *factors])
        if result:
            result += f" {'-' if coefficient < 0 else '+'} {body}"
        else:
            result = f"-{body}" if coefficient < 0 else body
    return result or "0"


def quote_name(name: str) -> str:
    """Return a parameter's name as formulas write it, in backquotes if necessary."""
    name = str(name)  # columns of a table may be numbers
    if NAME.fullmatch(name) and name.lower() not in RESERVED:
        return name
    return "`" + name.replace("`", "``") + "`"


def merge_terms(terms: Sequence[Term], n_parameters: int) -> list[Term]:
    """Add up terms with equal exponents, and sort the terms with the constant first."""
    total = sum_by_key((exponents, coefficient) for coefficient, exponents in terms)
    constant = ((0.0, 0.0),) * n_parameters
    ordered = sorted(total, key=lambda exponents: (exponents != constant, exponents))
    return [(total[exponents], exponents) for exponents in ordered] or [(0.0, constant)]


def describe_terms(terms: Sequence[Term], parameters: Sequence[str]) -> list[dict[str, Any]]:
    """Return terms as dictionaries of plain numbers, for JSON."""
    return [
        {"coefficient": c, "exponents": dict(zip(parameters, map(list, e), strict=True))}
        for c, e in terms
    ]


def evaluate_terms(terms: Sequence[Term], X: ArrayLike) -> Floats:
    """Return the value of a model at each row of X."""
    x = np.asarray(X, dtype=float)
    result = np.zeros(len(x))
    for coefficient, exponents in terms:
        value = np.full(len(x), coefficient)
        for q, (i, j) in enumerate(exponents):
            value *= evaluate_term(i, j, x[:, q])
        result += value
    return result


def evaluate_term(polynomial: ArrayLike, logarithm: ArrayLike, x: ArrayLike) -> Floats:
    """Return x^i log2(x)^j for broadcast arrays; logarithms of x < 1 count as 0."""
    x = np.asarray(x, dtype=float)
    j = np.asarray(logarithm, dtype=float)
    logs = np.log2(np.maximum(x, 1.0))
    return np.asarray(x ** np.asarray(polynomial, dtype=float) * np.where(j == 0, 1.0, logs**j))


def _format_power(name: str, exponent: float) -> str:
    """Return a power as text, with a fractional exponent if possible; empty if the power is 1."""
    if exponent == 0:
        return ""
    if exponent == 1:
        return name
    ratio = Fraction(exponent).limit_denominator(_MAX_DENOMINATOR)
    # Apart from rounding errors, the exponents of fitted models are fractions.
    if abs(float(ratio) - exponent) > 1e-9:
        return f"{name}^{exponent:g}"
    return f"{name}^{ratio}" if ratio.denominator == 1 else f"{name}^({ratio})"


class ScalingWarning(UserWarning):
    """The measurements limit how reliable the model is."""
