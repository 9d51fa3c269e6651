"""The problem size that fills a memory, found as a bracketed root."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import bisect

from toruscast.errors import InputError

LARGEST = 1e30
_SAMPLES = 400
# A relative difference below this is rounding.
_LEVEL = 1 - 1e-9


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
    low = high = smallest
    if used(low) > memory:
        with np.errstate(all="ignore"):
            further = used(np.geomspace(smallest, LARGEST, _SAMPLES))
        if np.any(further <= memory):
            raise InputError(
                f"{name}: bytes_used shrinks beyond n = {smallest:.4g}",
                file=file,
                found=f"{used(low):.4g} there, at most {memory:.4g} later",
                expected="memory that grows with n",
            )
        raise DoesNotFitError(
            f"{name} does not fit",
            found=f"{used(low):.4g} bytes needed for n = {low:g}",
            expected=f"at most {memory:.4g} a process",
        )
    while used(high) < memory:
        low, high = high, 2 * high
        if high > LARGEST:
            raise InputError(
                f"{name}: bytes_used does not fill the memory for any n",
                file=file,
                found=f"{used(low):.4g} bytes at n = {low:.1g}",
                expected=f"{memory:.4g}",
            )
    with np.errstate(all="ignore"):
        up_to, beyond = (
            np.geomspace(start, end, _SAMPLES) for start, end in ((smallest, high), (high, LARGEST))
        )
        values, later = (
            np.broadcast_to(used(sizes), sizes.shape).astype(float) for sizes in (up_to, beyond)
        )
    falls = ~(values[1:] >= values[:-1] * _LEVEL)
    if falls.any():
        k = int(np.argmax(falls))
        raise InputError(
            f"{name}: bytes_used shrinks beyond n = {up_to[k]:.4g}",
            file=file,
            found=f"{values[k + 1]:.4g} after {values[k]:.4g}",
            expected="memory that grows with n",
        )
    free = later < memory * _LEVEL
    if free.any():
        k = int(np.argmax(free))
        raise InputError(
            f"{name}: bytes_used shrinks beyond n = {beyond[k - 1]:.4g}",
            file=file,
            found=f"{later[k]:.4g} at n = {beyond[k]:.4g}, less than the {memory:.4g} there are",
            expected="memory that grows with n",
        )
    # Bisection only asks whether a size needs more than the memory, so the upper end may be
    # infinite.
    return float(bisect(lambda n: used(n) - memory, low, high, xtol=low * 1e-14, rtol=1e-14))
