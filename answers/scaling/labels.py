"""Texts and axes that the figures of scaling models share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axis import Axis

Array = NDArray[np.float64]

# Values further apart than this go on a logarithmic axis.
_WIDE = 8.0


def label(text: str, most: int = 70) -> str:
    """A name from a file as one printable line of at most `most` characters.

    Examples
    --------
    >>> label("a" * 9 + " b", 8), label("x" + chr(7) + "y")
    ('aaa…aa b', 'x?y')
    """
    line = "".join(c if c.isprintable() else "?" for c in " ".join(text.split()))
    if len(line) <= most:
        return line
    tail = most // 2
    return f"{line[: most - tail - 1]}…{line[-tail:]}"


def number(value: float) -> str:
    """Three digits, and an exponent only where it saves room.

    Examples
    --------
    >>> number(2101.7), number(0.125), number(3.2e9)
    ('2100', '0.125', '3.2e+09')
    """
    rounded = float(f"{value:.3g}")
    return f"{rounded:.6g}"


def is_wide(values: Array) -> bool:
    """Whether positive values span so much that a logarithmic axis shows them better.

    Examples
    --------
    >>> import numpy as np
    >>> is_wide(np.array([1.0, 64.0])), is_wide(np.array([0.0, 64.0]))
    (True, False)
    """
    low, high = float(values.min()), float(values.max())
    return low > 0 and high > _WIDE * low


def span(values: Array, beyond: float = 1.0, n: int = 60) -> Array:
    """Places from the smallest value to `beyond` times the largest, even on the axis they go on.

    Examples
    --------
    >>> import numpy as np
    >>> span(np.array([2.0, 4.0]), beyond=2.0, n=4).tolist()
    [2.0, 4.0, 6.0, 8.0]
    """
    low, high = float(values.min()), beyond * float(values.max())
    if is_wide(np.array([low, high])):
        result: Array = np.geomspace(low, high, n)
    else:
        result = np.linspace(low, high, n)
    return result


def ticks_at(axis: Axis, values: Sequence[float], most: int = 8) -> None:
    """Put the ticks of an axis at measured values, every second or third one where many."""
    step = -(-len(values) // most)
    shown = list(values)[::step]
    axis.set_ticks(shown, [f"{value:g}" for value in shown])
    axis.set_ticks([], minor=True)
