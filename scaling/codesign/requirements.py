"""Requirements of each process, as functions of p processes and the problem size n."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import bisect

from toruscast.errors import InputError

from ..formula import Fitted, Formula

_LARGEST = 1e30
_SAMPLES = 400
# A relative difference below this is rounding.
_LEVEL = 1 - 1e-9
REQUIREMENTS = {
    "bytes_used": "memory (bytes)",
    "flop": "floating-point operations",
    "bytes_sent": "bytes sent and received",
    "loads_stores": "loads and stores",
    "stack_distance": "stack distance",
}


class DoesNotFitError(InputError):
    """Not even the smallest problem fits the memory of a process."""


def fill(
    used: Callable[[Any], Any], memory: float, smallest: float, name: str, file: str | None = None
) -> float:
    """Return n with used(n) = memory.

    Parameters
    ----------
    used : callable
        Returns bytes for a problem size, or for an array of them. Infinity is more than any memory;
        sizes beyond the root may have no value.
    memory : float
        Bytes of memory.
    smallest : float
        Least n.
    name, file : str
        Name of the application and its file, for messages.

    Returns
    -------
    float

    Raises
    ------
    DoesNotFitError
        If the smallest problem is too large already.
    InputError
        If memory does not grow with n, or shrinks somewhere, so that several n may fill it. It is
        sampled up to n = 1e30.

    Examples
    --------
    >>> round(fill(lambda n: 8 * n**2, 800.0, 1.0, "matrix"), 9)
    10.0
    """

    def shrinks(n: float, found: str) -> InputError:
        message = f"{name}: bytes_used shrinks beyond n = {n:.4g}"
        return InputError(message, file=file, found=found, expected="memory that grows with n")

    def sampled(start: float, end: float) -> tuple[Any, Any]:
        sizes = np.geomspace(start, end, _SAMPLES)
        with np.errstate(all="ignore"):
            return sizes, np.broadcast_to(used(sizes), sizes.shape).astype(float)

    low = high = smallest
    if used(low) > memory:
        if np.any(sampled(smallest, _LARGEST)[1] <= memory):
            raise shrinks(smallest, f"{used(low):.4g} there, at most {memory:.4g} later")
        raise DoesNotFitError(
            f"{name} does not fit",
            found=f"{used(low):.4g} bytes needed for n = {low:g}",
            expected=f"at most {memory:.4g} a process",
        )
    while used(high) < memory:
        low, high = high, 2 * high
        if high > _LARGEST:
            raise InputError(
                f"{name}: bytes_used does not fill the memory for any n",
                file=file,
                found=f"{used(low):.4g} bytes at n = {low:.1g}",
                expected=f"{memory:.4g}",
            )
    sizes, values = sampled(smallest, high)
    falls = ~(values[1:] >= values[:-1] * _LEVEL)
    if falls.any():
        k = int(np.argmax(falls))
        raise shrinks(sizes[k], f"{values[k + 1]:.4g} after {values[k]:.4g}")
    sizes, values = sampled(high, _LARGEST)
    free = values < memory * _LEVEL
    if free.any():
        k = int(np.argmax(free))
        found = f"{values[k]:.4g} at n = {sizes[k]:.4g}, less than the {memory:.4g} there are"
        raise shrinks(sizes[k - 1], found)
    # Bisection only asks whether a size needs more than the memory, so the upper end may be
    # infinite.
    return float(bisect(lambda n: used(n) - memory, low, high, xtol=low * 1e-14, rtol=1e-14))


@dataclass(frozen=True)
class Application:
    """Requirements of one process, each a formula in p and n.

    Parameters
    ----------
    name : str
    requirements : mapping of str to str, Formula, PMNFRegressor or Models
        Formulas in p and n, or fitted models. Any of `REQUIREMENTS`; ``bytes_used`` must be there.
    notes : sequence of str
        What a reader should know about the models.
    smallest : float
        The least problem size a process.
    file : path-like, optional
        Where it was read, for messages.

    Raises
    ------
    InputError
        If a requirement is unknown or no formula in p and n, or ``bytes_used`` is missing.

    Examples
    --------
    >>> solver = Application("solver", {"bytes_used": "1e5 * n", "flop": "1e7 * n * log2(p)"})
    >>> solver.need("flop", p=1024, n=3)
    300000000.0
    >>> solver.largest(p=1024, memory=2e8)
    2000.0
    """

    name: str
    requirements: Mapping[str, Formula]
    notes: tuple[str, ...] = ()
    smallest: float = 1.0
    file: str | None = None

    def __init__(
        self,
        name: str,
        requirements: Mapping[str, str | Formula | Fitted],
        notes: tuple[str, ...] | list[str] = (),
        smallest: float = 1.0,
        file: str | os.PathLike[str] | None = None,
    ) -> None:
        where = None if file is None else os.fspath(file)
        models = {}
        for key, text in requirements.items():
            if key not in REQUIREMENTS:
                raise InputError(
                    "unknown requirement", file=where, found=key, expected=", ".join(REQUIREMENTS)
                )
            source = Formula.of(text, 0, where, f"{name}, {key}").text
            models[key] = Formula(source, ("p", "n"), where, f"{name}, {key}")
        if "bytes_used" not in models:
            raise InputError(
                f"{name} lacks a requirement",
                file=where,
                found=", ".join(models) or "none",
                expected="bytes_used, which tells the problem size that fits",
            )
        try:
            least = float(smallest)
        except OverflowError:
            least = np.inf
        if not (np.isfinite(least) and least > 0):
            raise InputError(
                f"{name}: bad smallest problem", file=where, found=least, expected="above 0"
            )
        for key, value in (
            ("name", name),
            ("requirements", models),
            ("notes", tuple(notes)),
            ("smallest", least),
            ("file", where),
        ):
            object.__setattr__(self, key, value)

    def need(
        self, requirement: str, p: float, n: float, held: tuple[float, float] | None = None
    ) -> float:
        """Return what one process needs.

        Parameters
        ----------
        requirement : str
            One of `REQUIREMENTS`.
        p, n : float
            Processes, and problem size a process.
        held : (float, float), optional
            Other p and n, for the logarithms alone.

        Raises
        ------
        InputError
            If there is no such model, or its value is negative or not finite.
        """
        if requirement not in self.requirements:
            raise InputError(
                f"{self.name} has no such requirement",
                file=self.file,
                found=requirement,
                expected=", ".join(self.requirements),
            )
        check_positive(p=p, n=n)
        value = float(self._values(requirement, p, n, held))
        if not (np.isfinite(value) and value >= 0):
            raise InputError(
                f"{self.name}, {requirement}: no usable value at p = {p:g}, n = {n:g}",
                file=self.file,
                found=value,
                expected="a finite number, 0 or more",
            )
        return value

    def largest(self, p: float, memory: float, held: tuple[float, float] | None = None) -> float:
        """Return the problem size of a process that fills its memory.

        Parameters
        ----------
        p : float
            Processes.
        memory : float
            Bytes of one process.
        held : (float, float), optional
            Other p and n, for the logarithms alone.

        Returns
        -------
        float
            n with bytes_used(p, n) = memory.

        Raises
        ------
        DoesNotFitError
            If the smallest problem is too large already.
        InputError
            If memory does not grow with n, shrinks somewhere, or p or the memory is not positive.
        """
        check_positive(p=p, memory=memory)
        if p < 1:
            raise InputError("too few processes", found=p, expected="1 or more")

        def used(n: Any) -> Any:
            # Single sizes are checked; arrays of samples only serve to see whether memory grows.
            if isinstance(n, np.ndarray):
                return self._values("bytes_used", p, n, held)
            # A power of a large n may overflow; that of the smallest problem must not.
            if n > self.smallest and self._values("bytes_used", p, n, held) == np.inf:
                return np.inf
            return self.need("bytes_used", p, n, held)

        return fill(used, memory, self.smallest, f"{self.name} on {p:g} processes", self.file)

    def _values(self, requirement: str, p: float, n: Any, held: tuple[float, float] | None) -> Any:
        logarithms = None if held is None else {"p": np.float64(held[0]), "n": np.float64(held[1])}
        return self.requirements[requirement](p=p, n=n, held=logarithms)


def check_positive(**values: Any) -> None:
    """Raise InputError for a value that is not a finite number above 0.

    Examples
    --------
    >>> check_positive(memory=-1.0)
    Traceback (most recent call last):
    toruscast.errors.InputError: bad memory: found -1.0, expected a finite number above 0
    """
    for name, value in values.items():
        try:
            number = math.nan if isinstance(value, bool | str) else float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not (math.isfinite(number) and number > 0):
            raise InputError(f"bad {name}", found=f"{value}", expected="a finite number above 0")
