"""Groups of devices in HLO text: listed, or as an iota that is reshaped and transposed."""

from __future__ import annotations

import math
import re

import numpy as np
from numpy.typing import NDArray

_IOTA = re.compile(r"\[([0-9,]+)\]\s*<=\s*\[([0-9,]+)\]\s*(?:T\(([0-9,]+)\))?")
_LISTED = re.compile(r"\{([0-9,\s]*)\}")
# A list of devices longer than this is no program's.
_MOST = 2**24


def after(line: str, key: str) -> str | None:
    """Return what a line says behind ``key=``, up to the end of its brackets; None if nothing.

    Examples
    --------
    >>> after("a, replica_groups={{0,1},{2,3}}, b=1", "replica_groups")
    '{{0,1},{2,3}}'
    """
    match = re.search(rf"\b{key}\s*=\s*", line)
    if match is None:
        return None
    rest = line[match.end() :]
    iota = _IOTA.match(rest)
    if iota:
        return iota[0]
    depth = 0
    for place, letter in enumerate(rest):
        depth += (letter == "{") - (letter == "}")
        if depth == 0:
            return rest[: place + 1]
    return rest


def read_groups(text: str, n_devices: int) -> NDArray[np.int64] | None:
    """Return the devices of each group, ``(groups, n)``; None if it is of no known form.

    An empty list is one group of all devices.

    Examples
    --------
    >>> read_groups("[2,2]<=[2,2]T(1,0)", 4).tolist()
    [[0, 2], [1, 3]]
    >>> read_groups("{{0,1},{2,3}}", 4).tolist(), read_groups("{}", 3).tolist()
    ([[0, 1], [2, 3]], [[0, 1, 2]])
    """
    iota = _IOTA.fullmatch(text.strip())
    if iota is not None:
        shape, dims = _numbers(iota[1]), _numbers(iota[2])
        order = _numbers(iota[3]) if iota[3] else list(range(len(dims)))
        fits = math.prod(shape) == math.prod(dims) and sorted(order) == list(range(len(dims)))
        if len(shape) != 2 or not fits or not 0 < math.prod(dims) <= _MOST:
            return None
        return np.arange(math.prod(dims)).reshape(dims).transpose(order).reshape(shape)
    if not re.fullmatch(r"\{[\s0-9,{}]*\}", text.strip()):
        return None
    inner = text.strip()[1:-1].strip()
    if not inner:
        return np.arange(n_devices)[None] if 0 < n_devices <= _MOST else None
    rows = [_numbers(each) for each in _LISTED.findall(inner)]
    if not rows or len({len(row) for row in rows}) != 1 or not rows[0]:
        return None
    return np.array(rows, dtype=np.int64)


def _numbers(text: str) -> list[int]:
    # Blanks separate as commas do. Longer numbers are no devices; they must not overflow either.
    return [min(int(part[-19:]), 2**40) for part in text.replace(",", " ").split()]
