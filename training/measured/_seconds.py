"""A warning for observed times that are hardly in seconds."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
# Times lie within a factor of ten or so of the sketch's and of the lower bound, and milliseconds a
# thousand times off: this lies between them.
_FAR = 100


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
