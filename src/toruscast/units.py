"""Times, sizes and bandwidths read from text with their units."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from .errors import InputError

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
    """Return a time in seconds; units from ``s`` to ``ps``, seconds without one.

    Examples
    --------
    >>> read_seconds("5us"), read_seconds("0.25")
    (5e-06, 0.25)
    """
    units = SECONDS | {"": 1.0, "\u00b5s": 1e-6}
    return _read(text, units, "time", "90ns, 1us or 2.5e-6")


def read_bytes(text: str) -> float:
    """Return an amount of bytes; the case of its unit does not count.

    Examples
    --------
    >>> read_bytes("64MB"), read_bytes("16KiB"), read_bytes("8")
    (64000000.0, 16384.0, 8.0)
    """
    return _read(text, _SIZES, "size", "64MB, 16KiB or 1e6")


def read_bandwidth(text: str) -> float:
    """Return a bandwidth in bytes per second; ``b`` is bits, ``B`` bytes.

    Examples
    --------
    >>> read_bandwidth("125MBps"), read_bandwidth("10Gbps"), read_bandwidth("4GB/s")
    (125000000.0, 1250000000.0, 4000000000.0)
    """
    value = _read(text, _BANDWIDTHS, "bandwidth", "125MBps, 10Gbps or 4GB/s")
    return value / (8 if "b" in text else 1)


def _read(text: str, units: Mapping[str, float], what: str, examples: str) -> float:
    match = _AMOUNT.fullmatch(text.strip())
    value = float(match[1]) * units.get(match[2].lower(), math.nan) if match else math.nan
    if not math.isfinite(value):
        raise InputError(f"bad {what}", found=text, expected=f"a {what} such as {examples}")
    # Without the error of the multiplication.
    return float(f"{value:.15g}")
