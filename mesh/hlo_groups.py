"""Array types, groups and attributes in a line of HLO text.

Groups are given as a list, ``{{0,1},{2,3}}``; as a transposed iota, ``[2,4]<=[4,2]T(1,0)``, which
is a permutation of 0, 1, 2, ...; or as axes of a mesh, ``mesh['a'=2,'b'=4],
device_ids=([4,2]T(1,0)) {'a','b':(1)2}``, formerly ``@mesh<a=2,b=4>(...)``. The grammar of meshes
follows XLA's printers (mesh_and_axis.cc and replica_group.cc of 2025 and 2026).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from itertools import accumulate, pairwise

import numpy as np

from toruscast.typing import Ints

_ARRAY = re.compile(r"(?<![a-z0-9])([a-z][a-z0-9]*+)\[([<=0-9,\s]*)\]")
_BITS = re.compile(r"[a-z]+([0-9]+)")
_MAX_ELEMENTS = 10**30
_SPECIAL_BYTES = {"pred": 1.0, "token": 0.0, "opaque": 0.0}


def split_tuple(text: str) -> list[str]:
    """Return the items of a tuple type, or the type itself if it is not a tuple."""
    text = text.strip()
    if not text.startswith("("):
        return [text]
    depths = list(accumulate((letter in "([{") - (letter in ")]}") for letter in text))
    end = depths.index(0) if 0 in depths else len(text)
    commas = (at for at in range(end) if text[at] == "," and depths[at] == 1)
    parts = (text[low + 1 : high].strip() for low, high in pairwise([0, *commas, end]))
    return [part for part in parts if part]


def count_bytes(text: str) -> float:
    """Return the total bytes of all arrays in a type, up to about 1e30; NaN if none is known."""
    sizes = [count * _element_bytes(kind) for kind, count in list_arrays(text)]
    return sum(sizes) if sizes else math.nan


def list_arrays(text: str) -> Iterator[tuple[str, int]]:
    """Yield the element type and the number of elements of each array in a type."""
    for kind, dims in _ARRAY.findall(text):
        count = 1
        # Truncate numbers that are too long for a size, so that the product stays small.
        for digits in re.findall("[0-9]+", dims):
            count = min(count * int(digits[:20]), _MAX_ELEMENTS)
        yield kind, count


def _element_bytes(kind: str) -> float:
    # The first number in a type's name is its number of bits: f8e4m3fn has 8.
    bits = _BITS.match(kind)
    return _SPECIAL_BYTES.get(kind, int(bits[1][:4]) / 8 if bits else math.nan)


_IOTA = re.compile(r"\[([0-9,]+)\]\s*<=\s*\[([0-9,]+)\]\s*(?:T\(([0-9,]+)\))?")
_LISTED = re.compile(r"\{([0-9,\s]*)\}")
_BRACED = re.compile(r"\{(?:[^{}]|\{[^{}]*+\})*+\}|\w+")
# A list of devices may contain a permutation in parentheses.
_DEVICES = r"((?:[^()]|\([^()]*\))*+)"
_MESH = re.compile(
    r"@?mesh[\[<]([^\]>]*)[\]>]"
    rf"(?:\s*,\s*device_ids=\({_DEVICES}\)|\(devices={_DEVICES}\))?\s*\{{([^}}]*)\}}"
)
_MAXIMAL = re.compile(r"@?maximal_mesh[\[<]device_id=([0-9]+)[\]>]\s*\{\s*\}")
_AXIS = re.compile(r"['\"]?([^'\"=:]+)['\"]?\s*(?:=([0-9]+)|:\(([0-9]+)\)([0-9]+))?")
# Real programs have shorter lists of devices.
_MAX_DEVICES = 2**20


def find_attribute(line: str, key: str) -> str | None:
    """Return the value of ``key=`` in a line, up to the end of its brackets; None if absent."""
    match = re.search(rf"\b{key}\s*=\s*\"?", line)
    if match is None:
        return None
    rest = line[match.end() :]
    values = (form.match(rest) for form in (_IOTA, _MESH, _MAXIMAL, _BRACED))
    return next((value[0] for value in values if value), rest)


def parse_groups(text: str, n_devices: int) -> Ints | None:
    """Return the devices of each group, ``(n_groups, n)``; None if the text has another form.

    An empty list is one group of all devices.
    """
    text = text.strip()
    if mesh := _MESH.fullmatch(text):
        return _group_mesh_axes(mesh[1], mesh[2] or mesh[3] or "", mesh[4])
    if maximal := _MAXIMAL.fullmatch(text):
        return np.array([parse_numbers(maximal[1])])
    if iota := _IOTA.fullmatch(text):
        shape, order = parse_numbers(iota[1]), transpose_iota(iota[2], iota[3])
        fits = len(shape) == 2 and order is not None and math.prod(shape) == order.size
        return order.reshape(shape) if order is not None and fits else None
    if not re.fullmatch(r"\{[\s0-9,{}]*\}", text):
        return None
    inner = text[1:-1].strip()
    if not inner:
        return np.arange(n_devices)[None] if 0 < n_devices <= _MAX_DEVICES else None
    rows = [parse_numbers(each) for each in _LISTED.findall(inner)]
    if not rows or len({len(row) for row in rows}) != 1 or not rows[0]:
        return None
    return np.array(rows, dtype=np.int64)


def transpose_iota(sizes: str, permutation: str | None) -> Ints | None:
    """Number an array of these sizes in C order and transpose it; None if that is impossible."""
    dims = parse_numbers(sizes)
    order = parse_numbers(permutation) if permutation else list(range(len(dims)))
    if sorted(order) != list(range(len(dims))) or not 0 < math.prod(dims) <= _MAX_DEVICES:
        return None
    return np.arange(math.prod(dims)).reshape(dims).transpose(order).ravel()


def _group_mesh_axes(mesh: str, devices: str, axes: str) -> Ints | None:
    """Return groups along axes of a mesh, ``(n_groups, n)``; None for other text.

    ``mesh`` lists the names and sizes of all axes, ``devices`` gives the device order, and ``axes``
    lists the axes, or parts of axes, that a group spans, the last one varying fastest.
    """
    sizes: dict[str, int] = {}
    for part in filter(None, mesh.split(",")):
        match = _AXIS.fullmatch(part.strip())
        if match is None or match[2] is None or match[1] in sizes:
            return None
        sizes[match[1]] = parse_numbers(match[2])[0]
    n = math.prod(sizes.values())
    if not sizes or not 0 < n <= _MAX_DEVICES or (order := _parse_device_order(devices, n)) is None:
        return None
    # 'b':(2)4 is the factor 4 of axis b, whose size is 2 * 4 * ...: from product 2 to product 8.
    cuts = {name: {1, size} for name, size in sizes.items()}
    group_pieces: list[tuple[str, int, int]] = []  # axis, and the products at both ends
    for part in filter(None, axes.split(",")):
        match = _AXIS.fullmatch(part.strip())
        if match is None or match[1] not in sizes or match[2] is not None:
            return None
        low, high = 1, sizes[match[1]]
        if match[3]:
            low = parse_numbers(match[3])[0]
            high = low * (parse_numbers(match[4])[0] or high)
        group_pieces.append((match[1], low, high))
        cuts[match[1]] |= {low, high}
    pieces = [(name, *pair) for name in sizes for pair in pairwise(sorted(cuts[name]))]
    pieces += [(name, 1, 1) for name, size in sizes.items() if size == 1]
    if any(low == 0 or high % low for _, low, high in pieces):
        return None
    inner = [pieces.index(each) for each in group_pieces if each in pieces]
    if len(set(inner)) != len(group_pieces):
        return None
    outer = [i for i in range(len(pieces)) if i not in inner]
    shape = [high // low for _, low, high in pieces]
    group_size = math.prod(shape[i] for i in inner)
    return order.reshape(shape).transpose([*outer, *inner]).reshape(-1, group_size)


def _parse_device_order(devices: str, n: int) -> Ints | None:
    """Return the n device numbers of a mesh, from an iota or a list; None for other text."""
    text = devices.replace(" ", "")
    if not text:
        return np.arange(n)
    permuted = re.fullmatch(r"(?:\[[0-9,]+\]<=)?\[([0-9,]+)\](?:T\(([0-9,]+)\))?", text)
    if permuted:
        order = transpose_iota(permuted[1], permuted[2])
        return order if order is not None and order.size == n else None
    listed = re.fullmatch(r"(?:\[[0-9,]+\])?([0-9,]+)", text)
    numbers = np.array(parse_numbers(listed[1]) if listed else [], dtype=np.int64)
    return numbers if sorted(numbers.tolist()) == list(range(n)) else None


def parse_numbers(text: str) -> list[int]:
    """Return all whole numbers in a text, except those within names."""
    numbers = re.findall(r"(?<![\w\"])[0-9]+(?![\w\"])", text)
    # Numbers of ten digits or more are out of range for a device, and slow to convert.
    return [int(word) if len(word) < 10 else 10**9 for word in numbers]
