"""Lines of numbers to columns, a byte at a time.

Letters: n = columns of the file, w = whole ones that are kept, a = others that are kept.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from toruscast._jit import bare_kernel, kernel

DONE, STRANGE, FULL = 0, 1, 2
LEFT_OUT, WHOLE, AMOUNT = 0, 1, 2
_POWERS: NDArray[np.float64] = np.power(10.0, np.arange(23))
_NEWLINE, _BLANK, _TAB, _HASH, _PERCENT = 10, 32, 9, 35, 37
_ZERO, _NINE, _POINT, _PLUS, _MINUS, _BIG_E, _E = 48, 57, 46, 43, 45, 69, 101
# Whole numbers below it are the same as floats.
_EXACT = 2**53


@bare_kernel
def _after_blanks(buffer: NDArray[np.uint8], at: int) -> int:
    while buffer[at] == _BLANK or buffer[at] == _TAB:
        at += 1
    return at


@bare_kernel
def _after_line(buffer: NDArray[np.uint8], at: int) -> int:
    while buffer[at] != _NEWLINE:
        at += 1
    return at + 1


@bare_kernel
def _amount(buffer: NDArray[np.uint8], at: int, powers: NDArray[np.float64]) -> tuple[int, float]:
    """Number that starts at ``at`` and the place behind it; a negative place if it is not easy."""
    mantissa, digits, scale = 0, 0, 0
    while _ZERO <= buffer[at] <= _NINE:
        mantissa = mantissa * 10 + (buffer[at] - _ZERO)
        digits += 1
        at += 1
    if buffer[at] == _POINT:
        at += 1
        while _ZERO <= buffer[at] <= _NINE:
            mantissa = mantissa * 10 + (buffer[at] - _ZERO)
            digits += 1
            scale -= 1
            at += 1
    if digits == 0 or digits > 17:
        return -1, 0.0
    if buffer[at] == _E or buffer[at] == _BIG_E:
        at += 1
        negative = buffer[at] == _MINUS
        if negative or buffer[at] == _PLUS:
            at += 1
        power, length = 0, 0
        while _ZERO <= buffer[at] <= _NINE and length < 4:
            power = power * 10 + (buffer[at] - _ZERO)
            length += 1
            at += 1
        if length == 0 or length == 4:
            return -1, 0.0
        scale += -power if negative else power
    # Both factors are exact, so that the product is rounded once, as it should be.
    if mantissa > _EXACT or scale > 22 or scale < -22:
        return -1, 0.0
    return at, mantissa / powers[-scale] if scale < 0 else mantissa * powers[scale]


@kernel
def parse_rows(
    buffer: NDArray[np.uint8],
    start: int,
    separator: int,
    kinds: NDArray[np.int8],  # (n,)
    wholes: NDArray[np.int64],  # (w, rows)
    amounts: NDArray[np.float64],  # (a, rows)
) -> tuple[int, int, int, int]:
    """Read whole lines into columns until they end, one is strange, or the columns are full.

    The buffer ends with a newline. Returns the place of the next line, rows, lines, and why.
    """
    powers = _POWERS
    end, room, n = buffer.size, max(wholes.shape[1], amounts.shape[1]), kinds.size
    row, lines = 0, 0
    while start < end:
        if row == room:
            return start, row, lines, FULL
        at = _after_blanks(buffer, start)
        if buffer[at] == _NEWLINE or buffer[at] == _HASH or buffer[at] == _PERCENT:
            start = _after_line(buffer, at)
            lines += 1
            continue
        w, a, good = 0, 0, True
        for f in range(n):
            before = at
            at = _after_blanks(buffer, at)
            if f > 0 and separator == 0 and at == before:
                good = False
                break
            if kinds[f] == WHOLE:
                first, value = at, 0
                while _ZERO <= buffer[at] <= _NINE:
                    value = value * 10 + (buffer[at] - _ZERO)
                    at += 1
                if at == first or at - first > 18:
                    good = False
                    break
                wholes[w, row] = value
                w += 1
            elif kinds[f] == AMOUNT:
                at, number = _amount(buffer, at, powers)
                if at < 0:
                    good = False
                    break
                amounts[a, row] = number
                a += 1
            else:
                first = at
                while (
                    buffer[at] != separator
                    and buffer[at] != _NEWLINE
                    and buffer[at] != _HASH
                    and buffer[at] != _PERCENT
                    and not (separator == 0 and (buffer[at] == _BLANK or buffer[at] == _TAB))
                ):
                    at += 1
                if separator == 0 and at == first:
                    good = False
                    break
            if f < n - 1 and separator != 0:
                at = _after_blanks(buffer, at)
                if buffer[at] != separator:
                    good = False
                    break
                at += 1
        if good:
            at = _after_blanks(buffer, at)
            if buffer[at] == _HASH or buffer[at] == _PERCENT:
                at = _after_line(buffer, at) - 1
            good = buffer[at] == _NEWLINE
        if not good:
            return start, row, lines, STRANGE
        start = at + 1
        row += 1
        lines += 1
    return start, row, lines, DONE
