"""Times and bytes with their units: read from text, and written in a unit that fits."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping

from .errors import InputError

_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))
_BYTES = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))

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


def time_unit(values: Iterable[float]) -> tuple[float, str]:
    """Return the seconds and the name of the unit in which these times read best.

    Examples
    --------
    >>> time_unit([2e-6, 8e-4])
    (1e-06, 'us')
    """
    return _unit(values, _TIMES)


def byte_unit(values: Iterable[float]) -> tuple[float, str]:
    """Return the bytes and the name of the unit in which these amounts read best."""
    return _unit(values, _BYTES)


def _unit(values: Iterable[float], units: tuple[tuple[float, str], ...]) -> tuple[float, str]:
    """Return the largest unit of which the smallest value that is not 0 has one or more."""
    least = min((abs(v) for v in values if v and math.isfinite(v)), default=units[-1][0])
    return next((unit for unit in units if least >= unit[0]), units[-1])


def seconds(value: float) -> str:
    """Return a time with its unit.

    Examples
    --------
    >>> seconds(1.25e-5), seconds(0.0)
    ('12.5 us', '0 s')
    """
    if not value:
        return "0 s"
    scale, name = time_unit([value])
    return f"{number(value / scale)} {name}"


def nbytes(value: float) -> str:
    """Return an amount of bytes with its unit.

    Examples
    --------
    >>> nbytes(36_710_538)
    '36.7 MB'
    """
    scale, name = byte_unit([value])
    return f"{number(value / scale)} {name}"


def number(value: float, digits: int = 3) -> str:
    """Return a number to ``digits`` significant digits, all those before the point shown.

    Those too long to read that way are given with an exponent.

    Examples
    --------
    >>> number(1234.5), number(1.0), number(0.01234), number(99.96), number(1.06e-292)
    ('1234', '1.00', '0.0123', '100', '1.06e-292')
    """
    if not value or not math.isfinite(value):
        return f"{value:.{digits - 1}f}"
    # Rounding first settles values such as 99.96.
    size = math.floor(math.log10(abs(float(f"{value:.{digits - 1}e}"))))
    if not -6 < size < 16:
        return f"{value:.{digits - 1}e}"
    return f"{value:.{max(digits - 1 - size, 0)}f}"


def large(count: float) -> str:
    """Return a count to three digits, in millions, billions or trillions where it is large.

    Examples
    --------
    >>> large(0), large(12_500), large(1_953_125_000), large(999_999_999)
    ('0', '12,500', '1.95 billion', '1 billion')
    """
    for scale, word in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        # What rounds up to the next unit is given in that.
        if count >= 0.9995 * scale:
            return f"{float(f'{count / scale:.3g}'):g} {word}"
    return f"{count:,.0f}"


def part_of(what: str) -> Callable[[int, int], str]:
    """Return what says, of (done, all), which part of so many is done.

    Examples
    --------
    >>> part_of("messages")(487_500, 1_950_000)
    '25% of 1.95 million messages'
    """
    return lambda done, total: f"{done / max(total, 1):.0%} of {large(total)} {what}"


def percent(share: float) -> str:
    """Return a share in per cent.

    Examples
    --------
    >>> percent(0.634), percent(0.004), percent(0.0)
    ('63 %', '< 1 %', '0 %')
    """
    if 0 < share < 0.005:
        return "< 1 %"
    return f"{100 * share:.0f} %"
