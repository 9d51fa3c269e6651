"""Types in HLO text: ``f32[8,128]{1,0}``, or several in brackets."""

from __future__ import annotations

import re

_ARRAY = re.compile(r"(?<![a-z0-9])([a-z][a-z0-9]*+)\[([<=0-9,\s]*)\]")
_BITS = re.compile(r"[a-z]+([0-9]+)")
_MOST = 10**30
_NO_DIGITS = {"pred": 1.0, "token": 0.0, "opaque": 0.0}


def parts(text: str) -> list[str]:
    """Return what stands between the commas of a tuple's type; the type alone if it is none.

    Examples
    --------
    >>> parts("(f32[8,2]{1,0}, (bf16[4], u32[]))")
    ['f32[8,2]{1,0}', '(bf16[4], u32[])']
    """
    text = text.strip()
    if not text.startswith("("):
        return [text]
    found, depth, begin = [], 0, 1
    for place, letter in enumerate(text):
        if letter in "([{":
            depth += 1
        elif letter in ")]}":
            depth -= 1
        if (letter == "," and depth == 1) or (depth == 0 and letter == ")"):
            found.append(text[begin:place].strip())
            begin = place + 1
        if depth == 0:
            break
    return [part for part in found if part]


def nbytes(text: str) -> float:
    """Return the bytes of a type, of all arrays in it together, up to about 1e30.

    Examples
    --------
    >>> nbytes("(bf16[4,2]{1,0:T(8,128)}, s4[8], f32[])")
    24.0
    """
    total = 0.0
    for kind, dims in _ARRAY.findall(text):
        count = 1
        for size in dims.split(","):
            # Longer numbers are no sizes; they must not overflow either.
            if digits := size.strip("<= "):
                count = min(count * int(digits[:20]), _MOST)
        total += count * _width(kind)
    return total


def _width(kind: str) -> float:
    """Bytes of an element: f8e4m3fn has 8 bits, c64 as many as it says."""
    if kind in _NO_DIGITS:
        return _NO_DIGITS[kind]
    match = _BITS.match(kind)
    return int(match[1][:4]) / 8 if match else 0.0
