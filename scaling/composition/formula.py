"""Reads a scaling model from its formula, such as "0.03899 n log2(n)"."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from itertools import pairwise

from toruscast.errors import InputError

from ..pmnf.formula import Term, joined

_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<quoted>`(?:[^`]|``)+`)|(?P<sign>\*\*|[-+*/^()])|(?P<other>\S))"
)
_LONGEST = 10_000
# Names that other programs write for something else than a parameter, and their meaning.
_MEANT = dict.fromkeys(("log", "ln", "log10"), "log2, the only function of a scaling model")
_MEANT |= dict.fromkeys(("nan", "inf", "infinity"), "a finite number")
_Factor = tuple[float, dict[str, tuple[float, float]]]


def parsed(formula: str) -> tuple[tuple[str, ...], list[Term]]:
    """Read a formula: a sum of products of numbers, powers and logarithms.

    Parameters
    ----------
    formula : str
        Factors stand side by side, a blank after a number, or with ``*`` or ``/`` between them.
        ``n^2``, ``n**2``, ``n^(1/2)``, ``log2(n)``, ``log2(n)^2`` and ``log2 n`` are read. A name
        that is not an identifier stands in backquotes.

    Returns
    -------
    parameters : tuple of str
        In alphabetical order.
    terms : list of (coefficient, ((i, j) for each parameter))
        Terms with equal exponents are added up; the constant stands first.

    Raises
    ------
    InputError
        If the formula cannot be read; the message names the place.

    Examples
    --------
    >>> parsed("3 + 2 p^(1/2) log2(p)")
    (('p',), [(3.0, ((0.0, 0.0),)), (2.0, ((0.5, 1.0),))])
    >>> parsed("100 / p - n")[1]
    [(100.0, ((0.0, 0.0), (-1.0, 0.0))), (-1.0, ((1.0, 0.0), (0.0, 0.0)))]
    """
    if len(formula) > _LONGEST:
        raise InputError("formula too long", found=f"{len(formula)} characters")
    products = list(_Reader(formula).sum())
    parameters = tuple(sorted({name for _, powers in products for name in powers}))
    terms = []
    for coefficient, powers in products:
        exponents = tuple(powers.get(name, (0.0, 0.0)) for name in parameters)
        if any(j < 0 for _, j in exponents):
            raise InputError("a logarithm cannot be divided by", found=formula)
        terms.append((coefficient, exponents))
    return parameters, joined(terms, len(parameters))


class _Reader:
    """Recursive descent over the tokens of one formula."""

    def __init__(self, formula: str) -> None:
        self.formula = formula
        self.tokens = [
            (m.lastgroup or "", m.group(m.lastgroup or 0), m.start(m.lastgroup or 0))
            for m in _TOKEN.finditer(formula)
        ]
        self.tokens.append(("end", "the end", len(formula)))
        self.next = 0
        for place, ((before, number, start), (kind, _, after)) in enumerate(pairwise(self.tokens)):
            # Otherwise 0x10 would be read as 0 times x10, and 1_000 n would have a parameter _000.
            if before == "number" and kind in ("number", "name") and start + len(number) == after:
                raise self.fault(f"a blank or * after {number}", place + 1)

    def sum(self) -> Iterator[_Factor]:
        negative = self.taken("+", "-") == "-"
        while True:
            coefficient, powers = self.product()
            yield (-coefficient if negative else coefficient), powers
            if self.kind == "end":
                return
            sign = self.taken("+", "-")
            if sign is None:
                raise self.fault("+, - or a factor")
            negative = sign == "-"

    def product(self) -> _Factor:
        total, powers = 1.0, dict[str, tuple[float, float]]()
        divide = False
        while True:
            place = self.next
            coefficient, name, i, j = self.factor()
            if divide:
                if name is None and coefficient == 0:
                    raise self.fault("a divisor other than 0", place)
                coefficient, i, j = 1 / coefficient, -i, -j
            total *= coefficient
            if not math.isfinite(total):
                raise self.fault("a finite number", place)
            if name is not None:
                before = powers.get(name, (0.0, 0.0))
                powers[name] = (before[0] + i, before[1] + j)
            mark = self.taken("*", "/")
            if mark is None and self.kind not in ("number", "name", "quoted"):
                return total, powers
            divide = mark == "/"

    def factor(self) -> tuple[float, str | None, float, float]:
        """Read a factor: coefficient, parameter, its exponent and that of its logarithm."""
        place, kind, text = self.next, self.kind, self.text
        if kind == "number":
            self.next += 1
            try:
                return float(text) ** self.exponent(), None, 0.0, 0.0
            except (OverflowError, ZeroDivisionError):
                raise self.fault("a finite number", place) from None
        if kind not in ("name", "quoted"):
            raise self.fault("a number, a parameter or log2(...)")
        self.next += 1
        if text != "log2":
            if self.text == "(":
                raise self.fault(_MEANT["log"], place)
            return 1.0, self.parameter(place), self.exponent(), 0.0
        before = self.exponent()
        bracket = self.taken("(")
        if self.kind not in ("name", "quoted") or self.text == "log2":
            raise self.fault("a parameter under log2")
        name = self.parameter(self.next)
        self.next += 1
        if bracket and not self.taken(")"):
            raise self.fault(")")
        # Without brackets, as in log2 n^2, it is unclear what the power belongs to.
        return 1.0, name, 0.0, before * (self.exponent() if bracket else 1.0)

    def parameter(self, place: int) -> str:
        kind, name, _ = self.tokens[place]
        if kind == "quoted":
            return name[1:-1].replace("``", "`")
        if name.lower() in _MEANT:
            raise self.fault(_MEANT[name.lower()], place)
        return name

    def exponent(self) -> float:
        if self.taken("^", "**") is None:
            return 1.0
        bracket = self.taken("(")
        value = -1.0 if self.taken("+", "-") == "-" else 1.0
        value *= self.number()
        if bracket:
            if self.taken("/"):
                place = self.next
                divisor = self.number()
                if divisor == 0:
                    raise self.fault("a divisor other than 0", place)
                value /= divisor
            if not self.taken(")"):
                raise self.fault(")")
        return value

    def number(self) -> float:
        if self.kind != "number":
            raise self.fault("a number")
        self.next += 1
        value = float(self.tokens[self.next - 1][1])
        if not math.isfinite(value):
            raise self.fault("a finite number", self.next - 1)
        return value

    @property
    def kind(self) -> str:
        return self.tokens[self.next][0]

    @property
    def text(self) -> str:
        return self.tokens[self.next][1]

    def taken(self, *marks: str) -> str | None:
        kind, text, _ = self.tokens[self.next]
        if kind != "sign" or text not in marks:
            return None
        self.next += 1
        return text

    def fault(self, expected: str, place: int | None = None) -> InputError:
        _, text, start = self.tokens[self.next if place is None else place]
        return InputError(
            f"bad formula {self.formula.strip()[:60]!r} at character {start + 1}",
            found=text,
            expected=expected,
        )
