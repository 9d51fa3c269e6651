"""Observed times: seconds of every mapping, and what is hardly such."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import ArrayLike, NDArray

from toruscast.errors import InputError
from toruscast.validation import as_array

from ._table import check_times

Floats = NDArray[np.float64]
# Times lie within a factor of ten or so of the sketch's and of the lower bound, and milliseconds a
# thousand times off: this lies between them.
_FAR = 100


def observed_seconds(values: ArrayLike, n: int) -> Floats:
    """Return times of all of ``n`` mappings; raise `InputError` if they are none."""
    expected = "positive seconds of every mapping"
    check_times(values)
    array = as_array(values, "observed times", expected)
    if array.shape != (n,):
        raise InputError("bad observed times", found=array.shape, expected=(n,))
    if array.dtype.kind == "c" or not (array > 0).all():
        raise InputError("bad observed times", found=values, expected=expected)
    return array.astype(np.float64)


def ask_for_seconds(times: Floats, reference: Floats, name: str) -> None:
    """Warn of times that are, in the median, far from those that they should be about."""
    sent = reference > 0
    ratio = float(np.median(times[sent] / reference[sent])) if sent.any() else 1.0
    if 1 / _FAR < ratio < _FAR:
        return
    share = f"{ratio:,.0f} times" if ratio > 1 else f"1/{1 / ratio:,.0f} of"
    text = f"the median time is {share} {name}: are the times in seconds?"
    # At the caller of `fit` or `rank`.
    warnings.warn(text, stacklevel=3)
