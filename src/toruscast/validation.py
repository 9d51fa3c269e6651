"""Validation of arguments, and parsing of amounts with units."""

from __future__ import annotations

import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import partial
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from ._slow import joblib
from ._slow import numpy as np
from .errors import InputError
from .text import closest

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

Name = TypeVar("Name", bound=Hashable)
_SEEDS = 2**63


def whole_number(value: object, what: str, low: int, high: int | None = None) -> int:
    """Return ``value`` as an int from ``low`` to ``high``; accept 3.0 but not True."""
    expected = f"{low} or more" if high is None else f"{low} to {high}"
    real = isinstance(value, Real) and not isinstance(value, bool | np.bool_)
    if not real or (isinstance(value, float | np.floating) and not math.isfinite(value)):
        raise InputError(f"bad {what}", found=repr(value), expected=expected)
    number = int(value)  # type: ignore[call-overload]
    if number != value:
        raise InputError(f"bad {what}", found=value, expected=f"a whole number, {expected}")
    if number < low or (high is not None and number > high):
        raise InputError(f"bad {what}", found=value, expected=expected)
    return int(number)


def real_number(value: object, what: str, low: float, high: float = math.inf) -> float:
    """Return ``value`` as a finite float from ``low`` to ``high``."""
    try:
        scalar = value.item() if isinstance(value, np.ndarray) and value.ndim == 0 else value
        number = float(scalar) if isinstance(scalar, Real) else math.nan
    except OverflowError:
        number = math.inf
    if not math.isfinite(number) or not low <= number <= high:
        expected = f"{low} or more" if high == math.inf else f"{low} to {high:g}"
        raise InputError(f"bad {what}", found=value, expected=expected)
    return number


def job_count(value: object) -> int:
    """Return the number of parallel jobs, with joblib's meaning of ``n_jobs``.

    -1 means one job per core. None means the number set by `joblib.parallel_config`, by default 1.
    """
    is_count = isinstance(value, Integral) and not isinstance(value, bool)
    number = int(value) if isinstance(value, Integral) else 1
    if value is not None and not (is_count and number):
        expected = "1 or more, or -1 for one a core"
        raise InputError("bad n_jobs", found=repr(value), expected=expected)
    # joblib is slow to import. If nothing imported it, no backend was configured.
    if "joblib" in sys.modules or number < 0:
        return int(joblib.effective_n_jobs(value))
    return number


def check_type(value: object, what: str, kind: Any, expected: str) -> None:
    """Raise `InputError` unless a value is an instance of a type or a union of types."""
    if not isinstance(value, kind):
        raise InputError(f"bad {what}", found=repr(value), expected=expected)


Progress = Callable[[str, int, int], object]
"""Called with the name of a stage, the number of finished steps, and the number of steps."""


def progress_of(progress: Progress | None, stage: str) -> Callable[[int, int], object] | None:
    """Return a progress function for one stage, called with (finished steps, all steps)."""
    check_type(progress, "progress", Callable | None, "a function")
    return None if progress is None else partial(progress, stage)


Seed: TypeAlias = "int | np.random.Generator"
"""A whole number, or a generator that draws one."""
SEED = 1
"""The default seed in Python and on the command line."""


def seed_number(seed: Seed) -> int:
    """Return a seed as a whole number; draw it if the seed is a generator."""
    if isinstance(seed, np.random.Generator):
        return int(seed.integers(2**32))
    return whole_number(seed, "seed", 0, _SEEDS - 1)


def one_of(value: object, what: str, choices: tuple[str, ...]) -> None:
    """Raise `InputError`, which lists similar choices, unless ``value`` is one of ``choices``."""
    if not isinstance(value, str) or value not in choices:
        raise InputError(f"bad {what}", found=value, expected=closest(str(value), choices))


def read_sizes(text: str) -> tuple[int, ...] | None:
    """Parse sizes such as ``4x4x8``; return None for any other text."""
    parts = text.lower().split("x")
    if not all(part.isascii() and part.isdigit() and len(part) <= 12 for part in parts):
        return None
    return tuple(map(int, parts))


def repeated(names: Iterable[Name]) -> list[Name]:
    """Return the names that occur more than once, in order of first occurrence."""
    return [name for name, count in Counter(names).items() if count > 1]


def whole_sizes(values: object, what: str) -> tuple[int, ...]:
    """Return one size or a sequence of sizes as a tuple of integers above 0."""
    if isinstance(values, Real):
        values = (values,)
    if not isinstance(values, Iterable) or isinstance(values, str | bytes):
        raise InputError(f"bad {what}", found=values, expected="whole sizes")
    return tuple(whole_number(value, what, 1) for value in values)


def as_array(values: ArrayLike, what: str, expected: str) -> NDArray[Any]:
    """Convert values to an array of any shape and type."""
    try:
        return np.asarray(values)
    except ValueError:
        found = "rows of different length"
        raise InputError(f"bad {what}", found=found, expected=expected) from None


def whole_array(values: ArrayLike, what: str) -> NDArray[np.int64]:
    """Return whole numbers of any numeric type as a one-dimensional array of integers."""
    array = as_array(values, what, "a column of whole numbers")
    if array.ndim == 1 and array.size == 0:
        return np.zeros(0, dtype=np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iuf":
        raise InputError(f"bad {what}", found=array.dtype, expected="a column of whole numbers")
    if array.dtype.kind == "f":
        # Floats above 2**53 cannot represent all whole numbers.
        bad = np.flatnonzero(~((array == np.floor(array)) & (np.abs(array) <= 2.0**53)))
        if bad.size:
            raise InputError(f"bad {what}", found=array[bad[0]], expected="whole numbers")
    return array.astype(np.int64)


def check_below(values: NDArray[Any], what: str, size: int) -> None:
    """Raise `InputError` unless all values are in the range from 0 to ``size`` - 1.

    The message starts with ``what``, such as "node of task", and the index of the first bad value.
    """
    if values.size and not (values.min() >= 0 and values.max() < size):
        index = int(np.flatnonzero((values < 0) | (values >= size))[0])
        expected = f"0 to {size - 1}"
        raise InputError(f"{what} {index} out of range", found=values[index], expected=expected)


Routing = Literal["deterministic", "adaptive", "by_size"]
"""Routing in dimension order, over any minimal route, or by the size of the message."""


SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "ps": 1e-12}
"""Seconds in a unit of time."""
_PREFIXES = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_PREFIXES |= {"ki": 2.0**10, "mi": 2.0**20, "gi": 2.0**30, "ti": 2.0**40}
_SIZES = {prefix + end: scale for prefix, scale in _PREFIXES.items() for end in ("", "b")}
_BANDWIDTHS = {
    f"{prefix}b{per}": scale for prefix, scale in _PREFIXES.items() for per in ("", "ps", "/s")
}
_AMOUNT = re.compile(r"((?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[-+]?[0-9]{1,3})?)\s*([^0-9.]*)", re.I)


def read_seconds(text: str) -> float:
    """Parse a time in units from ``s`` to ``ps``, by default seconds; return seconds."""
    units = SECONDS | {"": 1.0, "\u00b5s": 1e-6}
    return _read_amount(text, units, "time", "90ns, 1us or 2.5e-6")


def read_bytes(text: str) -> float:
    """Parse an amount of bytes; units are case-insensitive."""
    return _read_amount(text, _SIZES, "size", "64MB, 16KiB or 1e6")


def read_bandwidth(text: str) -> float:
    """Parse a bandwidth, with ``b`` for bits and ``B`` for bytes; return bytes per second."""
    value = _read_amount(text, _BANDWIDTHS, "bandwidth", "125MBps, 10Gbps or 4GB/s")
    return value / (8 if "b" in text else 1)


def _read_amount(text: str, units: Mapping[str, float], what: str, examples: str) -> float:
    match = _AMOUNT.fullmatch(text.strip())
    value = float(match[1]) * units.get(match[2].lower(), math.nan) if match else math.nan
    if not math.isfinite(value):
        raise InputError(f"bad {what}", found=text, expected=f"a {what} such as {examples}")
    # Remove the rounding error of the multiplication by the unit.
    return float(f"{value:.15g}")
