"""Numbers, times, bytes and names as text for people."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Any

_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))
_BYTES = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))
# Letters of a name in a sentence or a table.
_LONGEST = 200
# Decimals of a share.
_EXACT = 12


def time_unit(values: Iterable[float]) -> tuple[float, str]:
    """Return the seconds and the name of the unit in which these times read best."""
    return _best_unit(values, _TIMES)


def byte_unit(values: Iterable[float]) -> tuple[float, str]:
    """Return the bytes and the name of the unit in which these amounts read best."""
    return _best_unit(values, _BYTES)


def _best_unit(values: Iterable[float], units: tuple[tuple[float, str], ...]) -> tuple[float, str]:
    """Return the largest unit of which the smallest value that is not 0 has one or more."""
    least = min((abs(v) for v in values if v and math.isfinite(v)), default=units[-1][0])
    return next((unit for unit in units if least >= unit[0]), units[-1])


def seconds(value: float) -> str:
    """Return a time with its unit."""
    if not value:
        return "0 s"
    scale, name = time_unit([value])
    return f"{number(value / scale)} {name}"


def nbytes(value: float) -> str:
    """Return an amount of bytes with its unit."""
    scale, name = byte_unit([value])
    return f"{number(value / scale)} {name}"


def number(value: float, digits: int = 3) -> str:
    """Return a number to ``digits`` significant digits, all those before the point shown.

    Those too long to read that way are given with an exponent.
    """
    if not value or not math.isfinite(value):
        return f"{value:.{digits - 1}f}"
    # Rounding first settles values such as 99.96.
    size = math.floor(math.log10(abs(float(f"{value:.{digits - 1}e}"))))
    if not -6 < size < 16:
        return f"{value:.{digits - 1}e}"
    return f"{value:.{max(digits - 1 - size, 0)}f}"


def large(count: float) -> str:
    """Return a count to three digits, in millions, billions or trillions where it is large."""
    for scale, word in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        # What rounds up to the next unit is given in that.
        if count >= 0.9995 * scale:
            return f"{float(f'{count / scale:.3g}'):g} {word}"
    return f"{count:,.0f}"


def part_of(what: str) -> Callable[[int, int], str]:
    """Return what says, of (done, all), which part of so many is done."""
    return lambda done, total: f"{percent(done / max(total, 1))} of {large(total)} {what}"


def percent(share: float, decimals: int = 0, digits: int = 0) -> str:
    """Return a share in per cent, to ``decimals`` or to so many significant ``digits``.

    Only 0 is 0 %, and only 1 is 100 %: what rounds to them is given as below or above.
    """
    # Numbers that differ by the rounding of their sum or quotient are one.
    share = round(share, _EXACT)
    value = 100 * share
    text = f"{float(f'{value:.{digits}g}'):g}" if digits else f"{value:.{decimals}f}"
    least = 0.01 if digits else 10.0**-decimals
    if 0 < abs(value) <= least / 2:
        return f"< {least:g} %" if share > 0 else f"> -{least:g} %"
    if abs(float(text)) == 100 and abs(share) != 1:
        step = 10.0 ** (2 - digits) if digits else least
        text = f"{100 - step * (abs(share) < 1):g}"
        return f"> {text} %" if share > 0 else f"< -{text} %"
    return f"{text} %"


def change(share: float, decimals: int = 0) -> str:
    """Return a relative change in per cent, with its sign."""
    if not math.isfinite(share):
        return "-"
    share = round(share, _EXACT)
    text = percent(share, decimals) if share else "0 %"
    return re.sub(r"(?=\d)", "+", text, count=1) if share > 0 else text


def probability(share: float) -> str:
    """Return a probability in per cent; none of a forecast is given as certainty."""
    return "over 99 %" if share > 0.99 else percent(share)


def factor(ratio: float) -> str:
    """Return a large or small ratio in words."""
    return f"{ratio:,.0f} times" if ratio > 1 else f"1/{1 / ratio:,.0f} of"


def rounded(value: float, digits: int = 4) -> str:
    """Return a number to ``digits`` significant digits, without noughts behind; a dash for NaN."""
    return "-" if math.isnan(value) else f"{value:.{digits}g}"


def counted(number: float, noun: str) -> str:
    """Return a number and what it counts, in the plural unless it is one."""
    return f"{number:.15g} {noun}" + ("" if number == 1 else "s")


def spanned(numbers: Iterable[int]) -> str:
    """Return the range of one number or more, such as "1 to 3"."""
    every = sorted(numbers)
    return f"{every[0]}" if every[0] == every[-1] else f"{every[0]} to {every[-1]}"


def printable(text: str) -> str:
    r"""Return a name as a terminal can show it: no control characters."""
    return "".join(c if c.isprintable() else "?" for c in text)


def shown_name(value: object) -> str:
    """Return a name as it stands in a sentence or a table: printable, and cut if very long."""
    shown = printable(str(value))
    return shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 1]}…"


def shortened(text: str, limit: int) -> str:
    """Return a text of at most ``limit`` characters; dots show that something is left out."""
    return text if len(text) <= limit else text[: limit - 3] + "..."


def one_line(text: str) -> str:
    """Return a text as one line that a terminal can show."""
    return printable(" ".join(text.split()))


def joined(names: Iterable[object], most: int = 4) -> str:
    """Return names with commas and an "and"; those after the first ``most`` are counted.

    Examples
    --------
    >>> joined("abc"), joined("abcdef", 4)
    ('a, b and c', 'a, b, c, d and 2 others')
    """
    every = [shown_name(name) for name in names]
    shown, more = every[:most], len(every) - most
    last = [counted(more, "other")] if more > 0 else [shown.pop()] if len(shown) > 1 else []
    return " and ".join([", ".join(shown), *last])


def closest(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """Return the names like ``name``, or where there are none, ``otherwise`` or all."""
    names = list(known)
    close = get_close_matches(name, names, n=2, cutoff=0.6)
    return " or ".join(close) or otherwise or " or ".join(names)


def plain(value: Any) -> Any:
    """Return what JSON holds of a value: NumPy's numbers as numbers, and no number as None."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value
