"""Formatting of numbers, times, bytes and names for people."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Any

_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))
_BYTES = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))
_MAX_NAME_LENGTH = 200
# Shares are rounded to this many decimals, to remove the rounding errors of their computation.
_SHARE_DECIMALS = 12
# The space between a number and its unit.
_BEFORE_UNIT = re.compile(r"(?<=\d) (?=%|(?:[num]?s|[kMGT]?B)\b)")
# The minus sign of a number or of a direction, such as "-24 %" and "-Z", but not a hyphen.
_MINUS = re.compile(r"(?<![\w.)\]^-])-(?=\d|[A-Z]\b)")


def time_unit(values: Iterable[float]) -> tuple[float, str]:
    """Return a suitable unit for times: its size in seconds, and its name."""
    return _best_unit(values, _TIMES)


def byte_unit(values: Iterable[float]) -> tuple[float, str]:
    """Return a suitable unit for amounts of bytes: its size in bytes, and its name."""
    return _best_unit(values, _BYTES)


def _best_unit(values: Iterable[float], units: tuple[tuple[float, str], ...]) -> tuple[float, str]:
    """Return the largest unit that is no larger than the smallest nonzero value."""
    minimum = min((abs(v) for v in values if v and math.isfinite(v)), default=units[-1][0])
    return next((unit for unit in units if minimum >= unit[0]), units[-1])


def seconds(value: float) -> str:
    """Format a time with a suitable unit."""
    if not value:
        return "0 s"
    scale, name = time_unit([value])
    return f"{number(value / scale)} {name}"


def nbytes(value: float) -> str:
    """Format an amount of bytes with a suitable unit."""
    scale, name = byte_unit([value])
    return f"{number(value / scale)} {name}"


def number(value: float, digits: int = 3) -> str:
    """Format a number to ``digits`` significant digits; digits before the point are never dropped.

    Very large and very small numbers are written with an exponent.
    """
    if not value or not math.isfinite(value):
        return f"{value:.{digits - 1}f}"
    # Round first, because rounding may change the exponent, as for 99.96.
    exponent = math.floor(math.log10(abs(float(f"{value:.{digits - 1}e}"))))
    if not -6 < exponent < 16:
        return f"{value:.{digits - 1}e}"
    return f"{value:.{max(digits - 1 - exponent, 0)}f}"


def large(count: float) -> str:
    """Format a count; from a million on, use three digits and a word such as "million"."""
    for scale, word in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        # From 0.9995 of this unit on, rounding to three digits gives 1.
        if count >= 0.9995 * scale:
            return f"{float(f'{count / scale:.3g}'):g} {word}"
    return f"{count:,.0f}"


def part_of(what: str) -> Callable[[int, int], str]:
    """Return a function that formats (done, total) as a share of the total."""
    return lambda done, total: f"{percent(done / max(total, 1))} of {large(total)} {what}"


def percent(share: float, decimals: int = 0, digits: int = 0) -> str:
    """Format a share in per cent, with ``decimals`` or with significant ``digits``.

    Shares that would round to 0 or 100 % are given as inequalities, such as "< 1 %" and "> 99 %".
    """
    share = round(share, _SHARE_DECIMALS)
    value = 100 * share
    text = f"{float(f'{value:.{digits}g}'):g}" if digits else f"{value:.{decimals}f}"
    resolution = 0.01 if digits else 10.0**-decimals
    if 0 < abs(value) <= resolution / 2:
        return f"< {resolution:g} %" if share > 0 else f"> -{resolution:g} %"
    if abs(float(text)) == 100 and abs(share) != 1:
        step = 10.0 ** (2 - digits) if digits else resolution
        text = f"{100 - step * (abs(share) < 1):g}"
        return f"> {text} %" if share > 0 else f"< -{text} %"
    return f"{text} %"


def change(share: float, decimals: int = 0) -> str:
    """Format a relative change in per cent, with its sign."""
    if not math.isfinite(share):
        return "-"
    share = round(share, _SHARE_DECIMALS)
    text = percent(share, decimals) if share else "0 %"
    return re.sub(r"(?=\d)", "+", text, count=1) if share > 0 else text


def probability(share: float) -> str:
    """Format a probability in per cent; values near 1 are "over 99 %"."""
    return "over 99 %" if share > 0.99 else percent(share)


def factor(ratio: float) -> str:
    """Format a ratio as a text such as "12 times" or "1/12 of"."""
    return f"{ratio:,.0f} times" if ratio > 1 else f"1/{1 / ratio:,.0f} of"


def rounded(value: float, digits: int = 4) -> str:
    """Format a number to ``digits`` significant digits without trailing zeros; NaN as a dash."""
    return "-" if math.isnan(value) else f"{value:.{digits}g}"


def counted(number: float, noun: str) -> str:
    """Format a number with a noun, in the plural unless the number is 1."""
    return f"{number:.15g} {noun}" + ("" if number == 1 else "s")


def spanned(numbers: Iterable[int]) -> str:
    """Format the range of numbers, such as "1 to 3"."""
    ordered = sorted(numbers)
    low, high = ordered[0], ordered[-1]
    return f"{low}" if low == high else f"{low} to {high}"


def printable(text: str) -> str:
    """Replace control characters, which a terminal would interpret, with question marks."""
    return "".join(c if c.isprintable() else "?" for c in text)


def shown_name(value: object) -> str:
    """Format a name for a sentence or a table: printable, and shortened if very long."""
    name = printable(str(value))
    return name if len(name) <= _MAX_NAME_LENGTH else f"{name[: _MAX_NAME_LENGTH - 1]}…"


def shortened(text: str, limit: int) -> str:
    """Shorten a text to at most ``limit`` characters, with trailing dots."""
    return text if len(text) <= limit else text[: limit - 3] + "..."


def one_line(text: str) -> str:
    """Format a text as one printable line."""
    return printable(" ".join(text.split()))


def bind_units(text: str, space: str = "\N{NO-BREAK SPACE}") -> str:
    """Put a no-break space, or another ``space``, between numbers and their units."""
    return _BEFORE_UNIT.sub(space, text)


def with_minus(text: str) -> str:
    """Replace the hyphens of negative numbers and directions with the minus sign U+2212."""
    return _MINUS.sub("\N{MINUS SIGN}", text)


def typeset(text: str) -> str:
    """Format a text for a page: bind units to their numbers, and use minus signs."""
    return with_minus(bind_units(text))


def joined(names: Iterable[object], most: int = 4) -> str:
    """Join names with commas and "and"; names after the first ``most`` are only counted.

    Examples
    --------
    >>> joined("abc"), joined("abcdef", 4)
    ('a, b and c', 'a, b, c, d and 2 others')
    """
    printed = [shown_name(name) for name in names]
    first, n_others = printed[:most], len(printed) - most
    last = [counted(n_others, "other")] if n_others > 0 else [first.pop()] if first[1:] else []
    return " and ".join([", ".join(first), *last])


def closest(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """Return up to two known names similar to ``name``; else ``otherwise``, else all names."""
    names = list(known)
    similar = get_close_matches(name, names, n=2, cutoff=0.6)
    return " or ".join(similar) or otherwise or " or ".join(names)


def plain(value: Any) -> Any:
    """Convert a value to JSON types; NaN and infinity become None."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value
