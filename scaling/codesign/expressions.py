"""Arithmetic expressions in p and n, read by a parser of our own; nothing is executed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

from toruscast.errors import InputError

from ._expression_parser import Evaluator, Names, Parser


@dataclass(frozen=True)
class Expression:
    """An expression of a few operators and functions.

    Parameters
    ----------
    text : str
        Numbers, the variables, ``+ - * / **``, parentheses, and the functions ``log`` (natural),
        ``log2``, ``sqrt``, ``allreduce`` and ``bcast`` (both log2), ``alltoall`` (its argument
        less one).
    variables : tuple of str
        Names that may occur.
    file, place : str, optional
        Where the expression stands, for messages.

    Raises
    ------
    InputError
        If the text is anything else; the message names the column.

    Examples
    --------
    >>> cost = Expression("1e5 * n * log2(p)")
    >>> float(cost(p=8.0, n=2.0))
    600000.0
    >>> float(cost(p=16.0, n=2.0, held={"p": 8.0, "n": 2.0}))   # the logarithm stays
    600000.0
    >>> Expression("n log n")
    Traceback (most recent call last):
    toruscast.errors.InputError: bad expression, column 3: found log n, expected an operator
    """

    text: str
    variables: tuple[str, ...] = ("p", "n")
    file: str | None = field(default=None, compare=False)
    place: str = field(default="", compare=False)
    _evaluator: Evaluator = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "_evaluator", Parser(self.text, self.variables, self.refuse).parsed()
        )

    def __call__(self, *, held: Names | None = None, **values: Any) -> Any:
        """Evaluate for numbers or arrays; logarithms take the values in `held`, if given.

        The result is NaN or infinity where the expression has no finite value.
        """
        values = {name: np.asarray(value, dtype=float)[()] for name, value in values.items()}
        with np.errstate(all="ignore"):
            return self._evaluator(values, values if held is None else held)

    def __reduce__(self) -> tuple[Any, ...]:
        return Expression, (self.text, self.variables, self.file, self.place)

    def refuse(self, column: int, found: object, expected: str) -> NoReturn:
        """Raise InputError for what was found at a column, counted from 0."""
        where = f"{self.place}: " if self.place else ""
        raise InputError(
            f"{where}bad expression, column {column + 1}",
            file=self.file,
            found=found,
            expected=expected,
        )
