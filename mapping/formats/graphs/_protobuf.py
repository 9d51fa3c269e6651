"""The wire format of protobuf, as far as Chakra's published schema (et_def.proto) needs it."""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterator
from typing import Any

from toruscast.errors import InputError

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
# Fields of a Node and of its attributes that are of use here.
ID, NAME, TYPE, ATTRIBUTE = 1, 2, 3, 10
DEPENDENCIES = {4: "ctrl_deps", 5: "data_deps"}
DOUBLE, FLOAT, TEXT = 3, 5, 29
ZIGZAG = (15, 17)
WHOLE = (7, 9, 11, 13, 27)
BOOLS = 28
# Tags of nodes and of attributes are such bytes, which no text holds.
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f]")
# Wire types of the fields of GlobalMetadata and of Node.
_OF_METADATA = {1: BYTES, 2: BYTES}
_OF_NODE = dict.fromkeys((1, 3, 4, 5, 6, 7), VARINT) | dict.fromkeys((2, 8, 9, 10), BYTES)


def is_chakra_start(data: bytes) -> bool:
    """Whether the first message is Chakra's metadata, and a node follows if so much is there.

    The metadata may be empty or long: Chakra's generator writes a version, its converters write
    attributes, among them the whole text that they convert.
    """
    if not _CONTROL.search(data):
        return False
    try:
        size, at = _varint(data, 0)
        end = at + size
        whole = end <= len(data)
        fields = list(_fields(data[at:end], cut=not whole))
        if not all(_is_metadata(*field) for field in fields):
            return False
        if not whole or end == len(data):
            return bool(fields)
        size, at = _varint(data, end)
        node = list(_fields(data[at : at + size], cut=at + size > len(data)))
    except (IndexError, ValueError):
        return False
    known = all(_OF_NODE.get(number) == kind or kind == BYTES for number, kind, _ in node)
    numbers = {number for number, _, _ in node}
    return known and bool(numbers & {NAME, TYPE, ATTRIBUTE}) and numbers <= set(_OF_NODE)


def _is_metadata(number: int, kind: int, value: int | bytes) -> bool:
    """Whether a field is a version, or an attribute with a name."""
    if _OF_METADATA.get(number) != kind or not isinstance(value, bytes):
        return False
    if number == 1:
        return value.decode().isprintable()
    first = next(iter(_fields(value, cut=True)), None)
    return first is not None and first[:2] == (1, BYTES)


def chakra_nodes(path: str | os.PathLike[str], data: bytes) -> Iterator[dict[str, Any]]:
    """Yield the nodes behind the metadata.

    Raises
    ------
    InputError
        If the bytes do not follow the wire format.
    """
    at, number = 0, 0
    try:
        while at < len(data):
            size, at = _varint(data, at)
            if size > len(data) - at:
                raise ValueError(f"message {number} is cut")
            if number:
                yield _node(data[at : at + size])
            at, number = at + size, number + 1
    except (ValueError, IndexError, struct.error) as error:
        found = str(error) or type(error).__name__
        raise InputError("damaged Chakra trace", file=path, found=found) from None


def _node(data: bytes) -> dict[str, Any]:
    node: dict[str, Any] = {"attr": []}
    for key, _, value in _fields(data):
        if key == ID:
            node["id"] = value
        elif key == NAME and isinstance(value, bytes):
            node["name"] = value.decode(errors="replace")
        elif key == TYPE:
            node["type"] = value
        elif key in DEPENDENCIES:
            node.setdefault(DEPENDENCIES[key], []).extend(_numbers(value))
        elif key == ATTRIBUTE and isinstance(value, bytes):
            node["attr"].append(_attribute(value))
    return node


def _numbers(value: int | bytes) -> list[int]:
    """One number, or those of a packed list."""
    if isinstance(value, int):
        return [value]
    found, at = [], 0
    while at < len(value):
        number, at = _varint(value, at)
        found.append(number)
    return found


def _attribute(data: bytes) -> dict[str, Any]:
    attribute: dict[str, Any] = {}
    for key, _, value in _fields(data):
        if key == 1 and isinstance(value, bytes):
            attribute["name"] = value.decode(errors="replace")
        elif key in WHOLE and isinstance(value, int):
            attribute["value"] = value
        elif key in ZIGZAG and isinstance(value, int):
            attribute["value"] = value >> 1 ^ -(value & 1)
        elif key == DOUBLE and isinstance(value, bytes):
            attribute["value"] = struct.unpack("<d", value)[0]
        elif key == FLOAT and isinstance(value, bytes):
            attribute["value"] = struct.unpack("<f", value)[0]
        elif key == BOOLS and isinstance(value, bytes):
            attribute["value"] = _bools(value)
        elif key == TEXT and isinstance(value, bytes):
            attribute["value"] = value.decode(errors="replace")
        elif isinstance(value, bytes) and len(value) in (4, 8) and key in (19, 21, 23, 25):
            attribute["value"] = int.from_bytes(value, "little", signed=key in (23, 25))
    return attribute


def _bools(data: bytes) -> list[bool]:
    """The values of a list, packed or one by one."""
    values: list[bool] = []
    for _, kind, value in _fields(data):
        if isinstance(value, bytes) and kind == BYTES:
            values += map(bool, value)
        else:
            values.append(bool(value))
    return values


def _fields(data: bytes, *, cut: bool = False) -> Iterator[tuple[int, int, int | bytes]]:
    """Number, wire type and value of each field of a message; of a cut one those that are whole."""
    at = 0
    while at < len(data):
        try:
            tag, at = _varint(data, at)
            kind = tag & 7
            if kind == VARINT:
                value, at = _varint(data, at)
                yield tag >> 3, kind, value
                continue
            length = {FIXED64: 8, FIXED32: 4}.get(kind)
            if kind == BYTES:
                length, at = _varint(data, at)
        except IndexError:
            if cut:
                return
            raise
        if length is None or (length > len(data) - at and not cut):
            raise ValueError(f"bad field {tag >> 3}")
        yield tag >> 3, kind, data[at : at + length]
        at += length


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise ValueError("number of more than ten bytes")
