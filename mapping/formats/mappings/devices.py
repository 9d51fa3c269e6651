"""Device lists of machine-learning frameworks: a task on each device, in the order of the list."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...task_mapping import TaskMapping
from ...torus import Torus
from .._source import Text
from ..dialect import Dialect
from ..source import Source
from .build import (
    MappingOptions,
    Target,
    first_fastest,
    mapping_of,
    on_hosts,
    place_of,
    rows_of,
    slots_of,
    write_lines,
)
from .flux import BLOCKS, may_be_ids

PRINTED = re.compile(r"\b\w*Device\s*\(([^()]*(?:\([^()]*\)[^()]*)*)\)")
# What newer versions print of a device: its number, process, coordinates and core.
SHORT = re.compile(r"TPU_(\d+)\(process=\d+,\((\d+,\d+,\d+),(\d+)\)\)")
START = re.compile(rb"\s*+(?:array\s*+\(\s*+)?[\[\s]*+\w*Device\s*\(\s*id\s*=")
OBJECTS = re.compile(rb"[\[\s]*+\{[^{}]*\"coords\"\s*:", re.S)
KEY = re.compile(r"(?<!\w)(\w++)\s*+=\s*+(\([^()]*\)|\[[^\[\]]*\]|[^,()\[\]]+)")
IDS = re.compile(
    rb"\s*+(?:array\s*+\(\s*+)?\[[\[\]\s\d,]*(?:\]\s*+(?:,\s*+dtype\s*+=\s*+\w++\s*+)?\)?\s*+)?"
)
FIRST = re.compile(rb"\s*+(?:array\s*+\(\s*+)?\[[\[\s]*+\d++[\s,\]]")
MOST = 2**22


def is_device_list(source: Source) -> bool:
    """Whether it prints devices, or holds JSON objects with their coordinates."""
    short = re.match(rb"[\[\s]*+TPU_\d+\(process=", source.start)
    return bool(short or START.match(source.start) or OBJECTS.match(source.start[:4096]))


def read_devices(source: Source, options: MappingOptions) -> TaskMapping:
    """Return the mapping of printed devices: the i-th task runs on the i-th of them."""
    text = source.text
    devices = listed(source)
    at: list[int] = []
    nodes: list[int] = []
    slots: list[int] = []
    torus = options.torus
    for number, device in devices:
        parts = re.findall(r"-?\d+", str(device.get("coords", "")))
        core = str(device.get("core_on_chip", 0)).strip()
        if not parts or not re.fullmatch(r"\d{1,7}", core):
            expected = "coords=(x,y,z), and core_on_chip=0 or more"
            raise text.fault("device without coordinates", number, str(device)[:60], expected)
        if torus.axes.endswith("C") and torus.ndim == len(parts) + 1:
            parts, core = [*parts, core], "0"
        while len(parts) > torus.ndim and int(parts[-1]) == 0:
            parts.pop()
        at.append(number)
        nodes.append(place_of(text, number, parts, options))
        slots.append(int(core))
    if not at:
        raise text.fault("device list without a device", None, None, "TpuDevice(id=0, coords=...)")
    table, (node, slot) = rows_of(text, at, nodes, slots)
    return mapping_of(table, node, options, slot=slot)


def listed(source: Source) -> list[tuple[int, dict[str, Any]]]:
    """Return line and fields of each device that a file lists."""
    if OBJECTS.match(source.start[:4096]):
        return _objects(source.text)
    return _printed(source.text)


def _printed(text: Text) -> list[tuple[int, dict[str, Any]]]:
    words = SHORT.sub(
        r"TpuDevice(id=\1, coords=(\2), core_on_chip=\3)", text.data.decode()
    ).replace("TPU_", "Device")
    found: list[tuple[int, dict[str, Any]]] = []
    line, before = 1, 0
    for match in PRINTED.finditer(words):
        line += words.count("\n", before, match.start())
        before = match.start()
        found.append((line, dict(KEY.findall(match[1]))))
    opened = len(re.findall(r"\b\w*Device\b", words))
    if opened != len(found):
        raise text.fault("device list that is cut or damaged", line, f"{len(found)} of {opened}")
    return found


def _objects(text: Text) -> list[tuple[int, dict[str, Any]]]:
    content = _json(text, text.data.decode())
    flat: list[Any] = []
    waiting = [content]
    while waiting:
        item = waiting.pop()
        if isinstance(item, list):
            waiting.extend(reversed(item))
        else:
            flat.append(item)
    if len(flat) > MOST or not all(isinstance(item, dict) for item in flat):
        raise text.fault("bad device list", 1, None, 'objects such as {"id": 0, "coords": [0, 0]}')
    return [(1, item) for item in flat]


def _json(text: Text, words: str) -> Any:
    try:
        return json.loads(words)
    except RecursionError:
        raise text.fault("nested too deeply", 1) from None
    except ValueError as error:
        line, found = getattr(error, "lineno", None), getattr(error, "msg", error)
        raise text.fault("no JSON", line, str(found), "a list of devices") from None


def are_ids(source: Source) -> bool:
    """Whether it is a list of whole numbers in brackets, nested or not."""
    start = source.start[:4096]
    if not FIRST.match(start) or IDS.fullmatch(start) is None or not _is_one_list(start):
        return False
    return not BLOCKS.match(source.start) or may_be_ids(source)


def _is_one_list(start: bytes) -> bool:
    """Whether nothing stands behind the bracket that closes the first one."""
    depth = 0
    for at, letter in enumerate(start):
        depth += {91: 1, 93: -1}.get(letter, 0)
        if letter == 93 and depth <= 0:
            return not re.search(rb"[\[\]]|^\s*,\s*\d", start[at + 1 :])
    return True


def device_nodes(torus: Torus, cores: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return node and slot of each device number: cores first, then x fastest.

    Examples
    --------
    >>> [column.tolist() for column in device_nodes(Torus((2, 2)), 1)]
    [[0, 2, 1, 3], [0, 0, 0, 0]]
    """
    if torus.axes.endswith("C") and torus.ndim > 1:
        *chips, here = torus.shape
        grid = np.arange(torus.n_nodes).reshape(torus.shape)
        order = grid.transpose(*range(len(chips) - 1, -1, -1), len(chips)).ravel()
        return order, np.zeros(here * int(np.prod(chips)), dtype=np.int64)
    nodes = first_fastest(torus)
    return np.repeat(nodes, cores), np.tile(np.arange(cores), nodes.size)


def read_ids(source: Source, options: MappingOptions) -> TaskMapping:
    """Return the mapping of device numbers: the i-th task runs on the i-th of them."""
    text = source.text
    words = re.sub(r"dtype\s*=\s*\w+", "", text.data.decode())
    bare = words.strip().removeprefix("array").strip().removeprefix("(").rstrip("), \n")
    if "," not in bare:
        # NumPy prints numbers with blanks between.
        bare = re.sub(r"(?<=[\d\]])\s+(?=[\d\[])", ",", bare)
    ids = np.array(_flat(text, _json(text, bare)), dtype=np.int64)
    number, _ = text.first_line()
    table, (device,) = rows_of(text, [number] * ids.size, ids.tolist())
    if options.hosts is not None:
        return _by_name(text, number, ids, options)
    cores = options.capacity or max(-(-ids.size // options.torus.n_nodes), 1)
    nodes, slots = device_nodes(options.torus, cores)
    if device.size and device.max() >= nodes.size:
        expected = f"0 to {nodes.size - 1}, or --hosts FILE with the node of each number"
        raise text.fault("device out of range", number, int(device.max()), expected)
    return mapping_of(table, nodes[device], options, slot=slots[device])


def _by_name(
    text: Text, number: int, ids: NDArray[np.int64], options: MappingOptions
) -> TaskMapping:
    at = [number] * ids.size
    nodes, places = on_hosts(text, at, list(map(str, ids.tolist())), options)
    table, (node, place) = rows_of(text, at, nodes, places)
    return mapping_of(table, node, options, slot=slots_of(place, options))


def _flat(text: Text, content: Any) -> list[int]:
    flat: list[Any] = content if isinstance(content, list) else [content]
    while any(isinstance(item, list) for item in flat):
        if {type(item) for item in flat} != {list} or len({len(item) for item in flat}) != 1:
            raise text.fault("rows of different length", None, None, "an array of device numbers")
        flat = [x for item in flat for x in item]
    if not flat or len(flat) > MOST or not all(type(x) is int and 0 <= x < 2**31 for x in flat):
        raise text.fault("bad device list", 1, str(flat[:4])[:60], "whole numbers, such as [0,2,1]")
    return flat


def write_ids(mapping: TaskMapping, path: Path, target: Target) -> None:
    """Write the device number of each task as JSON, nested in the shape of the mesh if told."""
    if target.hosts is not None:
        ids: NDArray[Any] = np.array(list(map(int, target.hosts.of_tasks(mapping))))
    else:
        torus = target.torus
        cores = 1 if torus.axes.endswith("C") else mapping.tasks_per_node
        nodes, slots = device_nodes(torus, cores)
        number = np.empty((torus.n_nodes, cores), dtype=np.int64)
        number[nodes, slots] = np.arange(nodes.size)
        ids = number[mapping.node, mapping.slot if cores > 1 else 0]
    shaped = ids if target.shape is None else ids.reshape(target.shape)
    write_lines(path, json.dumps(shaped.tolist()) + "\n")


DIALECTS = (
    Dialect(
        name="devices",
        holds="mapping",
        title="printed devices: TpuDevice(id=0, coords=(0,0,0), ...), or JSON with coords",
        recognise=is_device_list,
        read=read_devices,
        documentation="""
What a framework prints of its devices, as a list or an array of any shape: the first task runs on
the first of them. `coords` are the node's coordinates; `core_on_chip` is the slot, on a TPU7x the
fourth coordinate. JSON objects with `coords` do as well.
""",
        example="""[TpuDevice(id=0, process_index=0, coords=(0,0,0), core_on_chip=0),
 TpuDevice(id=2, process_index=0, coords=(0,1,0), core_on_chip=0),
 TpuDevice(id=3, process_index=0, coords=(1,1,0), core_on_chip=0),
 TpuDevice(id=1, process_index=0, coords=(1,0,0), core_on_chip=0)]
""",
    ),
    Dialect(
        name="device-ids",
        holds="mapping",
        title="device numbers in the shape of the mesh: JSON or a printed array",
        recognise=are_ids,
        read=read_ids,
        write=write_ids,
        suffixes=(".json",),
        documentation="""
Numbers of devices as JSON or as NumPy prints them, in the shape of the mesh or flat: the first task
runs on the first of them. Numbers count the cores of a chip first, then x fastest, as those of
TPU slices do; where they do not, `--hosts FILE` gives the node of each (`host,x,y,z`, with the
number as the host).
""",
        example="[[0, 2], [3, 1]]\n",
        advice="Mesh(np.array(jax.devices())[np.array(json.load(open('{file}')))], axis_names) "
        "with the devices sorted by id",
    ),
)
