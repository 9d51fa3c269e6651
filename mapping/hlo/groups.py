"""Groups of devices in HLO text: listed, as an iota reshaped and transposed, or axes of a mesh.

The grammar of meshes is that of XLA's printers (mesh_and_axis.cc, replica_group.cc, 2025 and 2026):
``mesh['a'=2,'b'=4], device_ids=([4,2]T(1,0)) {'a','b':(1)2}``, before that ``@mesh<a=2,b=4>(...)``.
"""

from __future__ import annotations

import math
import re
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

_IOTA = re.compile(r"\[([0-9,]+)\]\s*<=\s*\[([0-9,]+)\]\s*(?:T\(([0-9,]+)\))?")
_LISTED = re.compile(r"\{([0-9,\s]*)\}")
_MESH = re.compile(
    r"@?mesh[\[<]([^\]>]*)[\]>](?:\s*,\s*device_ids=\((.*?)\)|\(devices=(.*?)\))?\s*\{([^}]*)\}"
)
# The same with a permutation, which has brackets of its own.
_PERMUTED = re.compile(
    r"@?mesh[\[<]([^\]>]*)[\]>](?:\s*,\s*device_ids=\(([^()]*T\([0-9,]*\))\)"
    r"|\(devices=([^()]*T\([0-9,]*\))\))\s*\{([^}]*)\}"
)
_MAXIMAL = re.compile(r"@?maximal_mesh[\[<]device_id=([0-9]+)[\]>]\s*\{\s*\}")
_AXIS = re.compile(r"['\"]?([^'\"=:]+)['\"]?\s*(?:=([0-9]+)|:\(([0-9]+)\)([0-9]+))?")
# A list of devices longer than this is no program's.
_MOST = 2**20


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
    for form in (_IOTA, _PERMUTED, _MESH, _MAXIMAL):
        if known := form.match(rest):
            return known[0]
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
    >>> read_groups("mesh['a'=2,'b'=2] {'a'}", 4).tolist()
    [[0, 2], [1, 3]]
    """
    if mesh := (_PERMUTED.fullmatch(text.strip()) or _MESH.fullmatch(text.strip())):
        return _along(mesh[1], mesh[2] or mesh[3] or "", mesh[4])
    if maximal := _MAXIMAL.fullmatch(text.strip()):
        return np.array([_numbers(maximal[1])])
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


def _along(mesh: str, devices: str, axes: str) -> NDArray[np.int64] | None:
    """Groups along axes of a mesh: those that differ in these axes only, the last one fastest."""
    sizes: dict[str, int] = {}
    for part in filter(None, mesh.split(",")):
        match = _AXIS.fullmatch(part.strip())
        if match is None or match[2] is None or match[1] in sizes:
            return None
        sizes[match[1]] = _numbers(match[2])[0]
    n = math.prod(sizes.values())
    if not sizes or not 0 < n <= _MOST or (order := _order(devices, n)) is None:
        return None
    # Where each axis is cut, in elements before the cut; a part of an axis lies between two cuts.
    cuts = {name: {1, size} for name, size in sizes.items()}
    wanted: list[tuple[str, int, int]] = []
    for part in filter(None, axes.split(",")):
        match = _AXIS.fullmatch(part.strip())
        if match is None or match[1] not in sizes or match[2] is not None:
            return None
        first, size = (_numbers(match[3])[0], _numbers(match[4])[0]) if match[3] else (1, 0)
        wanted.append((match[1], first, first * (size or sizes[match[1]])))
        cuts[match[1]] |= {*wanted[-1][1:]}
    pieces = [(name, *pair) for name in sizes for pair in pairwise(sorted(cuts[name]))]
    pieces += [(name, 1, 1) for name, size in sizes.items() if size == 1]
    if any(low == 0 or high % low for _, low, high in pieces):
        return None
    chosen = [place for each in wanted for place, piece in enumerate(pieces) if piece == each]
    if len(set(chosen)) != len(wanted):
        return None
    rest = [place for place in range(len(pieces)) if place not in chosen]
    width = math.prod(pieces[place][2] // pieces[place][1] for place in chosen)
    shape = [high // low for _, low, high in pieces]
    return order.reshape(shape).transpose([*rest, *chosen]).reshape(-1, width)


def _order(devices: str, n: int) -> NDArray[np.int64] | None:
    """The devices of a mesh in C order: counted up, permuted or listed."""
    text = devices.replace(" ", "")
    if not text:
        return np.arange(n)
    permuted = re.fullmatch(r"(?:\[[0-9,]+\]<=)?\[([0-9,]+)\](?:T\(([0-9,]+)\))?", text)
    if permuted:
        dims = _numbers(permuted[1])
        order = _numbers(permuted[2]) if permuted[2] else list(range(len(dims)))
        if math.prod(dims) != n or sorted(order) != list(range(len(dims))):
            return None
        return np.arange(n).reshape(dims).transpose(order).ravel()
    listed = re.fullmatch(r"(?:\[[0-9,]+\])?([0-9,]+)", text)
    numbers = np.array(_numbers(listed[1]) if listed else [], dtype=np.int64)
    return numbers if sorted(numbers.tolist()) == list(range(n)) else None


def _numbers(text: str) -> list[int]:
    # Blanks separate as commas do. Longer numbers are no devices; they must not overflow either.
    return [min(int(part[-19:]), 2**40) for part in text.replace(",", " ").split()]
