"""Devices of machine-learning frameworks: their numbers and nodes, and files that list them.

The patterns match the output of `print(jax.devices())` in JAX 0.4 to 0.8 on TPU v4 to v6e, the
attributes of XLA's device descriptions as Python prints them, HLO shardings (both forms of device
lists in `xla/hlo/ir/hlo_sharding.cc`) and Shardy meshes.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from toruscast.errors import InputError
from toruscast.files import array_of_npy
from toruscast.formats.dialect import Dialect
from toruscast.formats.placements import (
    MappingOptions,
    WriteOptions,
    mapping_from_hosts,
    mapping_from_table,
)
from toruscast.formats.readers import read_mapping
from toruscast.formats.registry import dialects, identify, match_dialects
from toruscast.formats.source import Source, TextFile, write_text
from toruscast.formats.tables import make_table
from toruscast.mapping.machines import Machine, TorusLike, as_torus, names
from toruscast.mapping.task_mapping import Hosts, TaskMapping
from toruscast.mapping.torus import Torus
from toruscast.text import counted
from toruscast.typing import Ints
from toruscast.validation import whole_array, whole_number

from .hlo_groups import parse_numbers, transpose_iota

# Prefixes of machine names whose devices are numbered in C order.
_IN_C_ORDER = ("trainium", "galaxy")
# Names for the dimension that counts the devices of a chip; the first unused letter is taken.
_DEVICE_LETTERS = "CUVWXYZIJ"
_PRINTED_DEVICE = re.compile(r"\b\w*Device\s*\(([^()]*(?:\([^()]*\)[^()]*)*)\)")
# Newer versions of JAX print the number, process, coordinates and core of a device.
_SHORT_DEVICE = re.compile(r"TPU_(\d+)\(process=\d+,\((\d+,\d+,\d+),(\d+)\)\)")
_DEVICE_LIST_START = re.compile(
    rb"\s*+(?:array\s*+\(\s*+)?[\[\s]*+(?:\w*Device\s*\(\s*wrapped\s*=\s*)?\w*Device\s*\(\s*id\s*="
)
# JAX wraps the devices of several slices.
_WRAPPED_DEVICE = re.compile(
    r"\w*Device\(wrapped=(\w*Device\([^()]*(?:\([^()]*\)[^()]*)*)\), slice_id=(\d+)\)"
)
_DEVICE_OBJECTS = re.compile(rb"[\[\s]*+\{[^{}]*[\"']coords[\"']\s*:", re.S)
_ATTRIBUTE = re.compile(r"(?<!\w)(\w++)\s*+=\s*+(\([^()]*\)|\[[^\[\]]*\]|[^,()\[\]]+)")
_ID_LIST = re.compile(
    rb"\s*+(?:array\s*+\(\s*+)?\[[\[\]\s\d,]*(?:\]\s*+(?:,\s*+dtype\s*+=\s*+\w++\s*+)?\)?\s*+)?"
)
_ID_LIST_START = re.compile(rb"\s*+(?:array\s*+\(\s*+)?\[[\[\s]*+\d++[\s,\]]")
_MAX_LISTED = 2**22
# Forms in which `mesh --write` writes device numbers, besides the mapping formats.
_ID_FORMS = ("json", "npy", "python", "torch", "neuron")
# Options of other commands that error messages name, and the options of `mesh` to name instead.
_MESH_OPTIONS = {
    "--tasks-per-node": "--devices-per-chip",
    "--hosts": "--devices",
    "--format for a binary format": "an array of NumPy (.npy)",
}
_NPY = b"\x93NUMPY"
_PROGRAM_IDS = re.compile(r"\bnp\.array\(\s*(\[[\[\]\s\d,]*\])")
_PROGRAM_OR_LINE = re.compile(rb"import \w+|\s*+\d++(?:\s*,\s*\d++)++\s*+\Z")
# An HLO sharding: sizes, then a list of devices or a transposed iota.
_SHARDING = re.compile(
    r"\bdevices\s*=\s*\[([\d,\s]+)\]\s*"
    r"(?:<=\s*\[([\d,\s]+)\]\s*(?:T\(([\d,\s]+)\))?|(\d[\d,\s]*))"
)
# A Shardy mesh: axes, and optionally devices.
_SHARDY_MESH = re.compile(
    r"<\s*\[\s*((?:\"\w+\"\s*+=\s*+\d++\s*+,?\s*+)+)\]\s*+"
    r"(?:,\s*device_ids\s*=\s*\[([\d,\s]+)\]\s*)?>"
)
_SHARDING_START = re.compile(
    rb"[\s{\"]*+(?:(?:\w[\w.]*+\s*+=|GSPMDSharding\()\s*+[\s{\"]*+)?devices\s*=\s*\["
    rb"|\s*+(?:#?(?:sdy\.)?mesh\b[^<{}]*+)?<\s*\[\s*\""
    rb"|\s*+(?:\w+\s*+=\s*+)?DeviceMesh\("
)
# A PyTorch mesh: device numbers or, since version 2.9, sizes and strides.
_TORCH_MESH = re.compile(
    r"DeviceMesh\((?:['\"]?\w+['\"]?,\s*)?(\[[\[\]\d,\s]*\])(?:,\s*mesh_dim_names=[^)]*\)?)?\s*\)"
)
_TORCH_STRIDES = re.compile(
    r"DeviceMesh\(\(((?:\w+=)?\d+(?:,\s*(?:\w+=)?\d+)*),?\)"
    r"(?:,\s*(?:device:\s*)?['\"]\w+['\"])?,\s*stride:\s*\(([\d,\s]+)\)\)"
)


@dataclass(frozen=True, eq=False)
class Devices:
    """Available devices: their numbers in ascending order, and the node of each, ``(n,)``."""

    ids: Ints
    nodes: Ints

    def index_nodes(self, nodes: Ints) -> Ints:
        """Return the index of each node's device in the list of all devices, sorted by number."""
        index = np.full(int(self.nodes.max()) + 1, -1, dtype=np.int64)
        index[self.nodes] = np.arange(self.nodes.size)
        return np.asarray(index[nodes])


def default_devices(torus: Torus) -> Devices:
    """Return the devices of a whole slice in the machine's numbering.

    Trainium and Galaxy number devices in C order: the last dimension varies fastest. Other devices
    are numbered as in JAX's TPU slices: X varies fastest, then Y, then Z. The devices of a chip
    (dimension C) have consecutive numbers.
    """
    order = np.arange(torus.n_nodes).reshape(torus.shape)
    if not torus.name.startswith(_IN_C_ORDER):
        chips = torus.ndim - has_device_dimension(torus)
        order = order.transpose(*reversed(range(chips)), *range(chips, torus.ndim))
    return Devices(np.arange(torus.n_nodes), order.ravel().astype(np.int64))


def has_device_dimension(torus: Torus) -> bool:
    """Return whether the last dimension counts the devices of a chip."""
    return torus.ndim > 1 and torus.axes.endswith("C") and not torus.axes.startswith("AB")


def split_chips(torus: Torus, n_devices: int, per_chip: int | None = None) -> Torus:
    """Return a torus of devices, whose last dimension, C, counts the devices of each chip.

    Without ``per_chip``, chips are split only if there are fewer than ``n_devices`` and the machine
    has several devices per chip: Trainium2 has four or eight logical cores per chip (AWS Neuron
    documentation), and Trainium1 has two. The devices of a chip are assumed to share its links and
    memory bandwidth equally, and to exchange data through the memory. This is not documented.
    """
    if per_chip is None:
        is_known = torus.n_nodes < n_devices and torus.name in names()
        counts = Machine.from_name(torus.name).shapes.devices if is_known else ()
        per_chip = next((n for n in counts if n * torus.n_nodes >= n_devices), 1)
    per_chip = whole_number(per_chip, "devices per chip", 1)
    if per_chip == 1:
        return torus
    if torus.twist or torus.exclusions:
        expected = "a plain torus without missing chips"
        raise InputError("several devices per chip", found=torus, expected=expected)
    memory = torus.network.memory_bandwidth / per_chip
    return Torus(
        (*torus.shape, per_chip),
        wrap=(*torus.wrap, per_chip > 2),
        bandwidth=(*(b / per_chip for b in torus.bandwidth), memory),
        network=replace(
            torus.network,
            fifos=2 * (torus.ndim + 1),
            fifo_rule="first_dimension",
            memory_bandwidth=memory,
        ),
        name=torus.name,
        axes=torus.axes + next(letter for letter in _DEVICE_LETTERS if letter not in torus.axes),
    )


def find_nodes(torus: Torus, coords: ArrayLike) -> Ints:
    """Return the node of each row of device coordinates, ``(n, dimensions)``; -1 outside the torus.

    Coordinates in a larger machine are shifted to start at 0. Columns beyond the torus's
    dimensions, such as Z on TPU v5e or the core of a chip with one core, must be constant.
    """
    rows = np.asarray(coords)
    expected = f"a row of {torus.ndim} coordinates for each device"
    if rows.ndim != 2 or not len(rows) or rows.shape[1] < torus.ndim:
        raise InputError("bad device coordinates", found=rows.shape, expected=expected)
    rows = whole_array(rows.ravel(), "device coordinate").reshape(rows.shape)
    low = rows.min(axis=0)
    if (rows[:, torus.ndim :] != low[torus.ndim :]).any():
        raise InputError("bad device coordinates", found=rows.shape, expected=expected)
    size = np.array(torus.shape)
    local = rows[:, : torus.ndim].copy()
    if (local >= size).any():
        local = local - low[: torus.ndim]
    outside = np.logical_or(local < 0, local >= size).any(axis=1)
    local[outside] = 0
    nodes = torus.node(local).astype(np.int64)
    nodes[outside] = -1
    return nodes


def find_devices(torus: Torus, coords: ArrayLike, ids: Sequence[int] | None = None) -> Devices:
    """Return the devices with these coordinates, as in `find_nodes`, and these numbers."""
    nodes = find_nodes(torus, coords)
    numbers = np.arange(nodes.size) if ids is None else whole_array(ids, "device number")
    if numbers.size != nodes.size:
        raise InputError("missing device numbers", found=numbers.size, expected=nodes.size)
    if np.unique(numbers).size < numbers.size:
        raise InputError("duplicate device number", expected="different numbers")
    if (nodes < 0).any():
        bad = np.asarray(coords)[nodes < 0][0]
        raise InputError(
            "device outside the torus", found=tuple(bad.tolist()), expected=f"within {torus}"
        )
    order = np.argsort(numbers)
    nodes = nodes[order]
    if np.unique(nodes).size < nodes.size:
        shared = np.flatnonzero(np.bincount(nodes) > 1)[0]
        count = counted(int((nodes == shared).sum()), "device")
        found = f"{count} at {torus.coords[shared].tolist()}"
        raise InputError("duplicate coordinates", found=found, expected="different coordinates")
    return Devices(numbers[order].astype(np.int64), nodes)


def is_device_list(source: Source) -> bool:
    """Return whether a file has printed devices, or JSON objects with coordinates."""
    short = re.match(rb"[\[\s]*+TPU_\d+\(process=", source.start)
    has_objects = _DEVICE_OBJECTS.match(source.start[:4096])
    return bool(short or has_objects or _DEVICE_LIST_START.match(source.start))


class ListedDevice(NamedTuple):
    """A device in a file."""

    line: int
    number: int
    coords: list[int]
    core: int


def parse_device_list(source: Source, torus: Torus) -> list[ListedDevice]:
    """Return the devices of a file, sorted by number if only the devices' names give the numbers.

    If the last dimension of the torus counts the devices of a chip, its coordinate is the core.
    """
    text = source.text
    rows: list[ListedDevice] = []
    is_named = False
    slices = set()
    parse = _parse_objects if _DEVICE_OBJECTS.match(source.start[:4096]) else _parse_printed
    for index, (line, device) in enumerate(parse(text)):
        slices.add(str(device.get("slice_index", 0)).strip())
        if len(slices) > 1:
            expected = "the devices of one slice"
            raise text.fault("devices of several slices", line, ", ".join(sorted(slices)), expected)
        parts = re.findall(r"-?[0-9]{1,9}", str(device.get("coords", "")))
        core = str(device.get("core_on_chip", 0)).strip()
        by_name = re.fullmatch(r"\w+:([0-9]{1,9})", str(device.get("name", "")).strip())
        is_named |= by_name is not None and "id" not in device
        number = str(device.get("id", by_name[1] if by_name else index)).strip()
        if (
            not parts
            or not re.fullmatch(r"[0-9]{1,9}", number)
            or not re.fullmatch(r"\d{1,7}", core)
        ):
            expected = "id=0, coords=(x,y,z), and core_on_chip=0 or more"
            raise text.fault("device without coordinates", line, str(device)[:60], expected)
        coords = list(map(int, parts))
        if has_device_dimension(torus) and torus.ndim == len(parts) + 1:
            coords, core = [*coords, int(core)], "0"
        rows.append(ListedDevice(line, int(number), coords, int(core)))
    if not rows:
        raise text.fault("device list without a device", None, None, "TpuDevice(id=0, coords=...)")
    if len({len(row.coords) for row in rows}) > 1:
        expected = "equally many coordinates"
        raise text.fault("devices of different dimensions", rows[0].line, None, expected)
    # A list that names its devices is in machine order, not in rank order.
    return sorted(rows, key=lambda row: row.number) if is_named else rows


def read_device_list(source: Source, options: MappingOptions) -> TaskMapping:
    """Read a mapping from a device list: task i runs on the i-th device listed."""
    text, torus = source.text, options.torus
    rows = parse_device_list(source, torus)
    with text.locate_errors(rows[0].line):
        nodes = find_nodes(torus, [row.coords for row in rows])
    outside = np.flatnonzero(nodes < 0)
    if outside.size:
        row = rows[int(outside[0])]
        found = ",".join(map(str, row.coords))
        raise text.fault("device outside the torus", row.line, found, f"within {torus}")
    slots = [row.core for row in rows]
    table = make_table(text, [row.line for row in rows], node=nodes, slot=slots)
    return mapping_from_table(table, options)


def read_devices(path: str | os.PathLike[str], torus: TorusLike) -> Devices:
    """Read the devices of a slice, with ids and coordinates, as a framework prints them.

    Chips may be missing, and coordinates need not start at 0.
    """
    torus = as_torus(torus)
    source = Source(path, torus=torus)
    if not is_device_list(source):
        number, line = source.first_line()
        expected = "TpuDevice(id=0, coords=(0,0,0))"
        raise source.text.fault("no device list", number, line[:60], expected)
    rows = parse_device_list(source, torus)
    with source.text.locate_errors(None):
        return find_devices(torus, [row.coords for row in rows], [row.number for row in rows])


def _parse_printed(text: TextFile) -> list[tuple[int, dict[str, Any]]]:
    """Return the line and the attributes of each device that Python printed."""
    # Unify the printed forms of JAX's versions.
    words = _WRAPPED_DEVICE.sub(r"\1, slice_index=\2)", text.data.decode())
    words = _SHORT_DEVICE.sub(r"TpuDevice(id=\1, coords=(\2), core_on_chip=\3)", words).replace(
        "TPU_", "Device"
    )
    devices: list[tuple[int, dict[str, Any]]] = []
    line, before = 1, 0
    for match in _PRINTED_DEVICE.finditer(words):
        line += words.count("\n", before, match.start())
        before = match.start()
        devices.append((line, dict(_ATTRIBUTE.findall(match[1]))))
    n_begun = len(re.findall(r"\b\w*Device\b", words))
    if n_begun != len(devices):
        raise text.fault("truncated device list", line, f"{len(devices)} of {n_begun}")
    return devices


def _parse_objects(text: TextFile) -> list[tuple[int, dict[str, Any]]]:
    """Return the line (always 1) and the attributes of each device in JSON or Python objects."""
    words = text.data.decode()
    if '"' not in words:
        # Python's quotes, brackets and constants differ from those of JSON.
        words = words.translate(str.maketrans("'()", '"[]'))
        constants = {"True": "true", "False": "false", "None": "null"}
        words = re.sub(r"\b(True|False|None)\b", lambda match: constants[match[1]], words)
    content = text.json(words)
    flat: list[Any] = content if isinstance(content, list) else [content]
    while any(isinstance(item, list) for item in flat):
        flat = [x for item in flat for x in (item if isinstance(item, list) else [item])]
    if len(flat) > _MAX_LISTED or not all(isinstance(item, dict) for item in flat):
        raise text.fault("bad device list", 1, None, 'objects such as {"id": 0, "coords": [0, 0]}')
    return [(1, item) for item in flat]


def is_id_list(source: Source) -> bool:
    """Return whether a file is a list of distinct whole numbers in brackets, nested or not."""
    start = source.start[:4096]
    if not (_ID_LIST_START.match(start) and _ID_LIST.fullmatch(start) and _is_one_list(start)):
        return False
    # The last number may be truncated.
    numbers = re.findall(rb"[0-9]+", start)[: None if len(start) < 4096 else -1]
    return len(set(numbers)) == len(numbers)


def _is_one_list(start: bytes) -> bool:
    """Return whether the first list is the only one, and no number follows it."""
    depth = 0
    for bracket in re.finditer(rb"[\[\]]", start):
        depth += 1 if bracket[0] == b"[" else -1
        if depth <= 0:
            return not re.search(rb"[\[\]]|^\s*,\s*\d", start[bracket.end() :])
    return True


def list_device_nodes(torus: Torus, cores: int) -> tuple[Ints, Ints]:
    """Return nodes and slots by device number; the cores of a chip are numbered consecutively."""
    nodes = default_devices(torus).nodes
    return np.repeat(nodes, cores), np.tile(np.arange(cores), nodes.size)


def read_ids(source: Source, options: MappingOptions) -> TaskMapping:
    """Read a mapping from device numbers: task i runs on the i-th device listed."""
    if source.start.startswith(_NPY):
        text, array = TextFile(os.fspath(source.path)), array_of_npy(source.data, source.path)
        content, listed = array.tolist(), f"{array.dtype} {array.ravel()[:4].tolist()}"
    else:
        text = source.text
        words = re.sub(r"dtype\s*=\s*\w+", "", text.data.decode())
        program = _PROGRAM_IDS.search(words)
        listed = program[1] if program else words
        listed = listed.strip().removeprefix("array").strip().removeprefix("(").rstrip("), \n")
        if "," not in listed:
            # NumPy prints blanks between numbers.
            listed = re.sub(r"(?<=[\d\]])\s+(?=[\d\[])", ",", listed)
        content = text.json(listed if listed.startswith("[") else f"[{listed}]")
    # Rows of different lengths become an array of lists.
    ids = np.array(content, dtype=object).ravel()
    if not (
        0 < ids.size <= _MAX_LISTED
        and all(type(number) is int and 0 <= number < 2**31 for number in ids)
    ):
        expected = "an array of whole numbers, such as [[0,2],[1,3]]"
        if any(isinstance(number, list) for number in ids):
            expected = "rows of the same length"
        raise text.fault("bad device list", 1, listed[:60], expected)
    return _map_ids(text, ids.astype(np.int64), options)


def read_sharding(source: Source, options: MappingOptions) -> TaskMapping:
    """Read a mapping from a sharding: task i runs on the i-th device of the sharding."""
    text = source.text
    number, line = text.first_line()
    words = text.data.decode()
    forms = (_SHARDING, _SHARDY_MESH, _TORCH_MESH, _TORCH_STRIDES)
    matches = [match for form in forms for match in form.finditer(words)]
    if len(matches) != 1:
        expected = "one sharding, such as {devices=[4,2]<=[2,4]T(1,0)}"
        raise text.fault("bad sharding", number, line[:60], expected)
    match = matches[0]
    if match.re in (_TORCH_MESH, _TORCH_STRIDES):
        if not re.fullmatch(r"\s*(\w+\s*=)?\s*", words.replace(match[0], "")):
            raise text.fault("text besides the mesh", number, line[:60], match[0][:60])
        return _map_ids(text, _parse_torch_ids(text, match), options)
    if match.re is _SHARDY_MESH:
        sizes, iota, permutation, listed = match[1], None, None, match[2]
    else:
        sizes, iota, permutation, listed = match.groups()
    shape = parse_numbers(sizes)
    if listed is None:
        transposed = transpose_iota(iota or ",".join(map(str, shape)), permutation)
        if transposed is None:
            expected = "each axis once, and at most 2^20 devices"
            raise text.fault("bad axis order, or too many devices", number, line[:60], expected)
        ids = transposed
    else:
        ids = np.array(parse_numbers(listed), dtype=np.int64)
    if ids.size != math.prod(shape):
        count = f"{ids.size} devices for {'x'.join(map(str, shape))}"
        raise text.fault("sizes do not match the devices", number, count, math.prod(shape))
    return _map_ids(text, ids, options)


def _parse_torch_ids(text: TextFile, match: re.Match[str]) -> Ints:
    """Return the device numbers of a PyTorch mesh, which lists them or gives sizes and strides."""
    if match.re is _TORCH_MESH:
        return np.array(parse_numbers(match[1]), dtype=np.int64)
    sizes = [int(size.rpartition("=")[2][:9]) for size in match[1].split(",")]
    strides = parse_numbers(match[2])
    if len(sizes) != len(strides) or not 0 < math.prod(sizes) <= _MAX_LISTED:
        expected = "a stride for each size, and at most 2^22 devices"
        raise text.fault("bad mesh", text.first_line()[0], match[0][:60], expected)
    coords = np.indices(sizes).reshape(len(sizes), -1)
    return np.asarray(np.array(strides) @ coords, dtype=np.int64)


def _map_ids(text: TextFile, ids: Ints, options: MappingOptions) -> TaskMapping:
    """Map task i to the i-th device number; if there is a table of hosts, it gives the nodes."""
    number = text.first_line()[0] if text.data else 1
    if options.hosts is not None:
        return mapping_from_hosts(text, options, [number] * ids.size, list(map(str, ids.tolist())))
    cores = options.capacity or max(-(-ids.size // options.torus.n_nodes), 1)
    nodes, slots = list_device_nodes(options.torus, cores)
    if ids.size and ids.max() >= nodes.size:
        expected = f"0 to {nodes.size - 1}; --tasks-per-node N for chips of N devices, or --hosts "
        expected += "FILE with the node of each number"
        raise text.fault("device out of range", number, int(ids.max()), expected)
    table = make_table(text, [number] * ids.size, node=nodes[ids], slot=slots[ids])
    return mapping_from_table(table, options)


def read_layout(name: str, torus: Torus, devices: Devices | None = None) -> TaskMapping:
    """Read a mesh layout, ``[FORM=]FILE``, in any form that `toruscast mesh --write` writes.

    Numbers in the file are indices of devices, as in `MeshLayouts.ids`.
    """
    form, _, path = name.partition("=")
    formats = {each.name for each in dialects("mapping")}
    if form not in (*_ID_FORMS, *formats):
        form, path = "auto", name
    source = Source(path, torus=torus)
    hosts = None
    try:
        if form in _ID_FORMS or (form == "auto" and _is_id_file(source)):
            form = "device-ids"
        if devices is not None and identify(source, "mapping", form).name == "device-ids":
            hosts = Hosts(list(map(str, range(devices.nodes.size))), devices.nodes, torus)
        return read_mapping(path, torus, format=form, hosts=hosts)
    except InputError as error:
        # The message names options of `rank`; name those of `mesh` instead.
        expected = re.sub(
            r"--format (?!for )([\w-]+)", rf"--compare \1={path}", str(error.expected)
        )
        for theirs, ours in _MESH_OPTIONS.items():
            expected = expected.replace(theirs, ours)
        raise error.replace(expected=error.expected and expected) from None


def _is_id_file(source: Source) -> bool:
    """Return whether a file has device numbers: an array, a program, or a line of numbers.

    A line of numbers does not count if it could also be in another mapping format.
    """
    if source.start.startswith(_NPY):
        return True
    if not _PROGRAM_OR_LINE.match(source.start):
        return False
    return {each.name for each in match_dialects(source, "mapping")} <= {"nodes", "bluegene"}


def check_host_numbers(options: WriteOptions, *_: int) -> None:
    """Raise `InputError` unless all host names are device numbers."""
    for name in () if options.hosts is None else options.hosts.names:
        if not re.fullmatch("[0-9]{1,9}", name):
            expected = "a device number in column host"
            raise InputError("host name is not a number", found=name, expected=expected)


def write_ids(mapping: TaskMapping, path: Path, options: WriteOptions) -> None:
    """Write the device number of each task as JSON, nested by the mesh shape if known."""
    if options.hosts is not None:
        check_host_numbers(options)
        ids: NDArray[Any] = np.array(list(map(int, options.hosts.of_tasks(mapping))))
    else:
        torus = options.torus
        cores = mapping.tasks_per_node
        nodes, slots = list_device_nodes(torus, cores)
        number = np.empty((torus.n_nodes, cores), dtype=np.int64)
        number[nodes, slots] = np.arange(nodes.size)
        ids = number[mapping.node, mapping.slot if cores > 1 else 0]
    shaped = ids if options.shape is None else ids.reshape(options.shape)
    write_text(path, json.dumps(shaped.tolist()) + "\n")


DIALECTS = (
    Dialect(
        name="devices",
        holds="mapping",
        title="printed devices: TpuDevice(id=0, coords=(0,0,0), ...), or JSON with coords",
        recognise=is_device_list,
        read=read_device_list,
        documentation="""
Devices as a framework prints them, in a list or an array of any shape. Task i runs on the i-th
device. `coords` are the coordinates of the node; in a part of a machine, the lowest coordinate
becomes 0. `core_on_chip` is the slot, or the fourth coordinate on a TPU7x. JSON or Python objects
with `coords` are read too; if they have names such as `TPU:3` and no `id`, they are sorted by the
number in the name.
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
        recognise=is_id_list,
        read=read_ids,
        write=write_ids,
        check_job=check_host_numbers,
        suffixes=(".json",),
        documentation="""
Device numbers as JSON or as NumPy prints them, in mesh shape or flat. Task i runs on the i-th
device. The devices of a chip (`--tasks-per-node` of them) have consecutive numbers. In the
numbering of chips, x varies fastest on TPU slices, and the last dimension on Trainium and Galaxy.
For other numberings, `--hosts FILE` gives the node of each device (`host,x,y,z`, with the
number as the host).
""",
        example="[[0, 2], [3, 1]]\n",
        advice="Mesh(np.array(jax.devices())[np.array(json.load(open('{file}')))], axis_names) "
        "with the devices sorted by id",
    ),
    Dialect(
        name="sharding",
        holds="mapping",
        title="devices in a sharding of XLA (GSPMD) or a mesh of Shardy or PyTorch",
        recognise=lambda source: bool(_SHARDING_START.match(source.start[:4096])),
        read=read_sharding,
        documentation="""
A sharding, `devices=[4,2]0,4,1,5,2,6,3,7` or `{devices=[4,2]<=[2,4]T(1,0)}`; a mesh of Shardy,
`<["x"=4, "y"=2], device_ids=[0, 4, ...]>`; or a mesh that PyTorch prints,
`DeviceMesh('xla', [[0, 1], [2, 3]])` or `DeviceMesh((dp=2, tp=2), device: 'xla', stride: (2, 1))`.
Task i runs on the i-th device. Devices are numbered as in `device-ids`.
""",
        example="{devices=[2,2]<=[2,2]T(1,0)}\n",
    ),
)
