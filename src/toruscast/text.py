"""Numbers, times, bytes and names as text for people."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from difflib import get_close_matches

_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))
_BYTES = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))
# Letters of a name in a sentence or a table.
_LONGEST = 200


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
    '25 % of 1.95 million messages'
    """
    return lambda done, total: f"{percent(done / max(total, 1))} of {large(total)} {what}"


def percent(share: float, decimals: int = 0, digits: int = 0) -> str:
    """Return a share in per cent, to ``decimals`` or, if given, to so many significant ``digits``.

    Examples
    --------
    >>> percent(0.634), percent(0.004), percent(0.0), percent(0.0213, 1), percent(0.0003, 1)
    ('63 %', '< 1 %', '0 %', '2.1 %', '< 0.1 %')
    >>> percent(0.00634, digits=2), percent(0.05, digits=2), percent(1.234, digits=2)
    ('0.63 %', '5 %', '120 %')
    """
    least = 0.01 if digits else 10.0**-decimals
    if 0 < 100 * share <= least / 2:
        return f"< {least:g} %"
    if digits:
        return f"{float(f'{100 * share:.{digits}g}'):g} %"
    return f"{100 * share:.{decimals}f} %"


def probability(share: float) -> str:
    """Return a probability in per cent; none of a forecast is given as certainty.

    Examples
    --------
    >>> probability(0.91), probability(0.99), probability(0.9901), probability(1.0)
    ('91 %', '99 %', 'over 99 %', 'over 99 %')
    """
    return "over 99 %" if share > 0.99 else percent(share)


def factor(ratio: float) -> str:
    """Return a large or small ratio in words.

    Examples
    --------
    >>> factor(1234.0), factor(0.001)
    ('1,234 times', '1/1,000 of')
    """
    return f"{ratio:,.0f} times" if ratio > 1 else f"1/{1 / ratio:,.0f} of"


def rounded(value: float, digits: int = 4) -> str:
    """Return a number to ``digits`` significant digits, without noughts behind; a dash for NaN.

    Examples
    --------
    >>> rounded(0.25), rounded(12345.6), rounded(float("nan"))
    ('0.25', '1.235e+04', '-')
    """
    return "-" if math.isnan(value) else f"{value:.{digits}g}"


def counted(number: float, noun: str) -> str:
    """Return a number and what it counts, in the plural unless it is one.

    Examples
    --------
    >>> counted(1, "task"), counted(0, "edge"), counted(2.5, "message")
    ('1 task', '0 edges', '2.5 messages')
    """
    return f"{number:.15g} {noun}" + ("" if number == 1 else "s")


def printable(text: str) -> str:
    r"""Return a name as a terminal can show it: no control characters.

    Examples
    --------
    >>> printable("red\x1b[31m")
    'red?[31m'
    """
    return "".join(c if c.isprintable() else "?" for c in text)


def shown_name(value: object) -> str:
    """Return a name as it stands in a sentence or a table: printable, and cut if very long.

    Examples
    --------
    >>> shown_name("identity"), len(shown_name("x" * 10_000))
    ('identity', 200)
    """
    shown = printable(str(value))
    return shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 1]}…"


def shortened(text: str, limit: int) -> str:
    """Return a text of at most ``limit`` characters; dots show that something is left out.

    Examples
    --------
    >>> shortened("abcdefgh", 6)
    'abc...'
    """
    return text if len(text) <= limit else text[: limit - 3] + "..."


def one_line(text: str) -> str:
    """Return a text as one line that a terminal can show."""
    return printable(" ".join(text.split()))


def closest(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """Return the names like ``name``, or where there are none, ``otherwise`` or all.

    Examples
    --------
    >>> closest("identty", ["greedy", "identity", "random"])
    'identity'
    """
    names = list(known)
    close = get_close_matches(name, names, n=2, cutoff=0.6)
    return " or ".join(close) or otherwise or " or ".join(names)
