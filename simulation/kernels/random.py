"""Random numbers that depend only on a seed and their arguments."""

from __future__ import annotations

import numpy as np

from toruscast._jit import bare_kernel


@bare_kernel
def random_bits(seed: int, high: int, low: int) -> np.uint64:
    """Return 64 random bits from a 64-bit seed and two numbers below 2**32, all unsigned.

    A counter is mixed as in SplitMix64 (Steele et al., OOPSLA'14).
    """
    bits = low + (high << np.uint64(32)) + seed * np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
