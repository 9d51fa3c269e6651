"""The parser of expressions: tokens, then recursive descent to nested functions."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import numpy as np

Names = Mapping[str, Any]
# A value of the variables, and their value inside logarithms.
Evaluator = Callable[[Names, Names], Any]
# Raises an error from a column, what was found there, and what is expected.
Refuse = Callable[[int, object, str], NoReturn]

MAX_LENGTH = 1000
MAX_DEPTH = 50
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
LOGARITHMIC = {"log", "log2", "allreduce", "bcast"}
_TOKEN = re.compile(
    r"(?P<number>(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?)|(?P<name>[A-Za-z_]\w*)|(?P<sign>\*\*|[-+*/()])",
    re.ASCII,
)
_OPERAND = "a number, a variable, a function or a parenthesis"


class Parser:
    """Recursive descent: sum, product, sign, power, operand."""

    def __init__(self, text: str, variables: tuple[str, ...], refuse: Refuse) -> None:
        self.text = text
        self.variables = variables
        self.refuse = refuse
        if not isinstance(self.text, str):
            refuse(0, repr(self.text), "a text such as 1e6 * n")
        if len(self.text) > MAX_LENGTH:
            refuse(MAX_LENGTH, f"{len(self.text)} characters", f"at most {MAX_LENGTH}")
        self.place = 0
        self.depth = 0
        self._advance()

    def parsed(self) -> Evaluator:
        """Return a function of the variables, and of their values inside logarithms."""
        result = self._sum()
        if self.token == ")":
            self._refuse("no closing parenthesis without an opening one")
        if self.token:
            self._refuse("an operator")
        return result

    def _advance(self) -> None:
        """Step to the next token; at the end it is empty."""
        while self.place < len(self.text) and self.text[self.place].isspace():
            self.place += 1
        self.start = self.place
        if self.place == len(self.text):
            self.kind = self.token = ""
            return
        match = _TOKEN.match(self.text, self.place)
        if match is None:
            power = self.text[self.place] == "^"
            self._refuse("** for a power" if power else f"+ - * / ** or {_OPERAND}")
        self.kind, self.token, self.place = str(match.lastgroup), match[0], match.end()

    def _sum(self) -> Evaluator:
        return self._chain(self._product, {"+": np.add, "-": np.subtract})

    def _product(self) -> Evaluator:
        return self._chain(self._signed, {"*": np.multiply, "/": np.divide})

    def _chain(self, part: Callable[[], Evaluator], operators: Mapping[str, Any]) -> Evaluator:
        first = part()
        rest: list[tuple[Any, Evaluator]] = []
        while self.token in operators:
            operator = operators[self.token]
            self._advance()
            rest.append((operator, part()))
        return _chained(first, rest) if rest else first

    def _signed(self) -> Evaluator:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self._refuse(f"at most {MAX_DEPTH} levels")
        sign = self.token
        if sign in ("+", "-"):
            self._advance()
            operand = self._signed()
            result = operand if sign == "+" else (lambda at, held: -operand(at, held))
        else:
            result = self._operand()
            if self.token == "**":
                self._advance()
                result = _chained(result, [(np.power, self._signed())])
        self.depth -= 1
        return result

    def _operand(self) -> Evaluator:
        kind, token = self.kind, self.token
        if kind == "number":
            number = np.float64(token)
            if not math.isfinite(number):
                self._refuse("a finite number")
            self._advance()
            return lambda at, held: number
        if kind == "name":
            return self._function(token) if token in FUNCTIONS else self._variable(token)
        if token != "(":
            self._refuse(_OPERAND)
        return self._parenthesis()

    def _variable(self, name: str) -> Evaluator:
        if name not in self.variables:
            self._refuse(f"{' or '.join(self.variables)}, or {', '.join(FUNCTIONS)}")
        self._advance()
        return lambda at, held: at[name]

    def _function(self, name: str) -> Evaluator:
        function = FUNCTIONS[name]
        self._advance()
        if self.token != "(":
            self._refuse(f"a parenthesis after {name}")
        inner = self._parenthesis()
        if name in LOGARITHMIC:
            return lambda at, held: function(inner(held, held))
        return lambda at, held: function(inner(at, held))

    def _parenthesis(self) -> Evaluator:
        self._advance()
        result = self._sum()
        if self.token != ")":
            self._refuse("an operator or a closing parenthesis")
        self._advance()
        return result

    def _refuse(self, expected: str) -> NoReturn:
        self.refuse(self.start, self.text[self.start :] or "its end", expected)


def _chained(first: Evaluator, rest: list[tuple[Any, Evaluator]]) -> Evaluator:
    def evaluate(at: Names, held: Names) -> Any:
        result = first(at, held)
        for operator, operand in rest:
            result = operator(result, operand(at, held))
        return result

    return evaluate
