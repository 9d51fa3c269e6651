"""Devices of machine-learning frameworks: numbers, nodes, lists, shardings.

Patterns: `print(jax.devices())` of JAX 0.4 to 0.8 on TPU v4 to v6e; the attributes of XLA's device
descriptions as Python prints them; shardings of HLO (`xla/hlo/ir/hlo_sharding.cc`, both forms of
its device lists) and meshes of Shardy.
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
from toruscast.validation import whole_array, whole_number

from .hlo import counted_along, whole_numbers

_IN_C_ORDER = ("trainium", "galaxy")
# Names of a dimension of devices: the first letter that no other dimension has.
_DEVICES = "CUVWXYZIJ"
PRINTED = re.compile(r"\b\w*Device\s*\(([^()]*(?:\([^()]*\)[^()]*)*)\)")
# What newer versions print of a device: its number, process, coordinates and core.
SHORT = re.compile(r"TPU_(\d+)\(process=\d+,\((\d+,\d+,\d+),(\d+)\)\)")
START = re.compile(
    rb"\s*+(?:array\s*+\(\s*+)?[\[\s]*+(?:\w*Device\s*\(\s*wrapped\s*=\s*)?\w*Device\s*\(\s*id\s*="
)
# JAX's devices of several slices.
WRAPPED = re.compile(
    r"\w*Device\(wrapped=(\w*Device\([^()]*(?:\([^()]*\)[^()]*)*)\), slice_id=(\d+)\)"
)
OBJECTS = re.compile(rb"[\[\s]*+\{[^{}]*[\"']coords[\"']\s*:", re.S)
KEY = re.compile(r"(?<!\w)(\w++)\s*+=\s*+(\([^()]*\)|\[[^\[\]]*\]|[^,()\[\]]+)")
IDS = re.compile(
    rb"\s*+(?:array\s*+\(\s*+)?\[[\[\]\s\d,]*(?:\]\s*+(?:,\s*+dtype\s*+=\s*+\w++\s*+)?\)?\s*+)?"
)
FIRST = re.compile(rb"\s*+(?:array\s*+\(\s*+)?\[[\[\s]*+\d++[\s,\]]")
MAX_LISTED = 2**22
# How else numbers of devices are written: by NumPy, in a program, and on one line.
OWN_FORMS = ("json", "npy", "python", "torch", "neuron")
# What `mesh` calls the options of other commands.
_OURS = {
    "--tasks-per-node": "--devices-per-chip",
    "--hosts": "--devices",
    "--format for a binary format": "an array of NumPy (.npy)",
}
_NPY = b"\x93NUMPY"
_IN_PROGRAM = re.compile(r"\bnp\.array\(\s*(\[[\[\]\s\d,]*\])")
_IS_OWN = re.compile(rb"import \w+|\s*+\d++(?:\s*,\s*\d++)++\s*+\Z")
# A sharding of HLO: sizes, then the devices, or the axes that they are counted along.
SHARDING = re.compile(
    r"\bdevices\s*=\s*\[([\d,\s]+)\]\s*"
    r"(?:<=\s*\[([\d,\s]+)\]\s*(?:T\(([\d,\s]+)\))?|(\d[\d,\s]*))"
)
# A mesh of Shardy: its axes, and maybe the devices.
SHARDY = re.compile(
    r"<\s*\[\s*((?:\"\w+\"\s*+=\s*+\d++\s*+,?\s*+)+)\]\s*+"
    r"(?:,\s*device_ids\s*=\s*\[([\d,\s]+)\]\s*)?>"
)
SHARDED = re.compile(
    rb"[\s{\"]*+(?:(?:\w[\w.]*+\s*+=|GSPMDSharding\()\s*+[\s{\"]*+)?devices\s*=\s*\["
    rb"|\s*+(?:#?(?:sdy\.)?mesh\b[^<{}]*+)?<\s*\[\s*\""
    rb"|\s*+(?:\w+\s*+=\s*+)?DeviceMesh\("
)
# A mesh of PyTorch: its numbers, or since 2.9 its sizes and strides.
TORCH = re.compile(
    r"DeviceMesh\((?:['\"]?\w+['\"]?,\s*)?(\[[\[\]\d,\s]*\])(?:,\s*mesh_dim_names=[^)]*\)?)?\s*\)"
)
STRIDED = re.compile(
    r"DeviceMesh\(\(((?:\w+=)?\d+(?:,\s*(?:\w+=)?\d+)*),?\)"
    r"(?:,\s*(?:device:\s*)?['\"]\w+['\"])?,\s*stride:\s*\(([\d,\s]+)\)\)"
)


@dataclass(frozen=True, eq=False)
class Devices:
    """Devices that are there: their numbers, rising, and the node of each, ``(n,)``."""

    ids: NDArray[np.int64]
    nodes: NDArray[np.int64]

    def places(self, nodes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the place of each node's device among all, as sorted by their numbers."""
        place = np.full(int(self.nodes.max()) + 1, -1, dtype=np.int64)
        place[self.nodes] = np.arange(self.nodes.size)
        return np.asarray(place[nodes])


def usual_devices(torus: Torus) -> Devices:
    """Return the devices of a whole slice, numbered as their machine does.

    Those of Trainium and Galaxy are numbered in C order, the last dimension fastest; others as JAX
    does those of a TPU slice: X fastest, then Y and Z, the devices of a chip (C) side by side.
    """
    order = np.arange(torus.n_nodes).reshape(torus.shape)
    if not torus.name.startswith(_IN_C_ORDER):
        # The devices of a chip stay fastest.
        chips = torus.ndim - counts_devices(torus)
        order = order.transpose(*reversed(range(chips)), *range(chips, torus.ndim))
    return Devices(np.arange(torus.n_nodes), order.ravel().astype(np.int64))


def counts_devices(torus: Torus) -> bool:
    """Return whether the last dimension counts the devices of a chip."""
    return torus.ndim > 1 and torus.axes.endswith("C") and not torus.axes.startswith("AB")


def chips_as_devices(torus: Torus, n_devices: int, per_chip: int | None = None) -> Torus:
    """Return a torus of devices: each chip's are a last dimension, C.

    Without ``per_chip`` only machines change whose chips work as several devices and are too few
    for ``n_devices``: Trainium2, with four or eight logical cores a chip (AWS Neuron
    documentation), and Trainium1 with two. Devices share a chip's links and the bandwidth of its
    memory, through which they exchange, equally: how they really do is not public.
    """
    if per_chip is None:
        is_known = torus.n_nodes < n_devices and torus.name in names()
        several = Machine.from_name(torus.name).shapes.devices if is_known else ()
        fitting = (n for n in several if n * torus.n_nodes >= n_devices)
        per_chip = next(fitting, 1)
    per_chip = whole_number(per_chip, "devices per chip", 1)
    if per_chip == 1:
        return torus
    if torus.twist or torus.exclusions:
        expected = "a plain torus without missing chips"
        raise InputError("several devices a chip", found=torus, expected=expected)
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
        axes=torus.axes + next(letter for letter in _DEVICES if letter not in torus.axes),
    )


def nodes_at(torus: Torus, coords: ArrayLike) -> NDArray[np.int64]:
    """Return the nodes at coordinates of devices, ``(n, dimensions)``; -1 outside of the torus.

    Coordinates of a part of a larger machine are counted from the lowest. Entries beyond the
    torus's dimensions are the same everywhere (TPU v5e lists Z, a chip with one core its core).
    """
    rows = np.asarray(coords)
    expected = f"a row of {torus.ndim} coordinates for each device"
    if rows.ndim != 2 or not len(rows) or rows.shape[1] < torus.ndim:
        raise InputError("bad coordinates of devices", found=rows.shape, expected=expected)
    rows = whole_array(rows.ravel(), "coordinate of a device").reshape(rows.shape)
    low = rows.min(axis=0)
    if (rows[:, torus.ndim :] != low[torus.ndim :]).any():
        raise InputError("bad coordinates of devices", found=rows.shape, expected=expected)
    size = np.array(torus.shape)
    places = rows[:, : torus.ndim].copy()
    if (places >= size).any():
        places = places - low[: torus.ndim]
    outside = np.logical_or(places < 0, places >= size).any(axis=1)
    places[outside] = 0
    nodes = torus.node(places).astype(np.int64)
    nodes[outside] = -1
    return nodes


def devices_at(torus: Torus, coords: ArrayLike, ids: Sequence[int] | None = None) -> Devices:
    """Return devices from their coordinates, as of `nodes_at`, and numbers."""
    nodes = nodes_at(torus, coords)
    numbers = np.arange(nodes.size) if ids is None else whole_array(ids, "number of a device")
    if numbers.size != nodes.size:
        raise InputError("numbers of devices missing", found=numbers.size, expected=nodes.size)
    if np.unique(numbers).size < numbers.size:
        raise InputError("two devices have one number", expected="different numbers")
    if (nodes < 0).any():
        bad = np.asarray(coords)[nodes < 0][0]
        raise InputError(
            "device outside the torus", found=tuple(bad.tolist()), expected=f"within {torus}"
        )
    order = np.argsort(numbers)
    nodes = nodes[order]
    if np.unique(nodes).size < nodes.size:
        twice = np.flatnonzero(np.bincount(nodes) > 1)[0]
        found = (
            f"{counted(int((nodes == twice).sum()), 'device')} at {torus.coords[twice].tolist()}"
        )
        raise InputError("two devices share a place", found=found, expected="different places")
    return Devices(numbers[order].astype(np.int64), nodes)


def is_device_list(source: Source) -> bool:
    """Whether it prints devices, or holds JSON objects with their coordinates."""
    short = re.match(rb"[\[\s]*+TPU_\d+\(process=", source.start)
    return bool(short or START.match(source.start) or OBJECTS.match(source.start[:4096]))


class ListedDevice(NamedTuple):
    """A device of a list."""

    line: int
    number: int
    coords: list[int]
    core: int


def device_rows(source: Source, torus: Torus) -> list[ListedDevice]:
    """Return the devices of a list, sorted by their numbers where their names hold those."""
    text = source.text
    rows: list[ListedDevice] = []
    named = False
    slices = set()
    for place, (line, device) in enumerate(listed(source)):
        slices.add(str(device.get("slice_index", 0)).strip())
        if len(slices) > 1:
            expected = "one slice, as its own list"
            raise text.fault("devices of several slices", line, ", ".join(sorted(slices)), expected)
        parts = re.findall(r"-?[0-9]{1,9}", str(device.get("coords", "")))
        core = str(device.get("core_on_chip", 0)).strip()
        by_name = re.fullmatch(r"\w+:([0-9]{1,9})", str(device.get("name", "")).strip())
        named |= by_name is not None and "id" not in device
        number = str(device.get("id", by_name[1] if by_name else place)).strip()
        if (
            not parts
            or not re.fullmatch(r"[0-9]{1,9}", number)
            or not re.fullmatch(r"\d{1,7}", core)
        ):
            expected = "id=0, coords=(x,y,z), and core_on_chip=0 or more"
            raise text.fault("device without coordinates", line, str(device)[:60], expected)
        coords = list(map(int, parts))
        if counts_devices(torus) and torus.ndim == len(parts) + 1:
            coords, core = [*coords, int(core)], "0"
        rows.append(ListedDevice(line, int(number), coords, int(core)))
    if not rows:
        raise text.fault("device list without a device", None, None, "TpuDevice(id=0, coords=...)")
    if len({len(row.coords) for row in rows}) > 1:
        raise text.fault(
            "devices differ in their coordinates", rows[0].line, None, "as many of each"
        )
    # A list of attributes is in the order of the machine, not of the ranks.
    return sorted(rows, key=lambda row: row.number) if named else rows


def read_device_list(source: Source, options: MappingOptions) -> TaskMapping:
    """Return the mapping of listed devices: the i-th task runs on the i-th of them."""
    text, torus = source.text, options.torus
    rows = device_rows(source, torus)
    with text.locate_errors(rows[0].line):
        nodes = nodes_at(torus, [row.coords for row in rows])
    outside = np.flatnonzero(nodes < 0)
    if outside.size:
        row = rows[int(outside[0])]
        found = ",".join(map(str, row.coords))
        raise text.fault("device outside the torus", row.line, found, f"within {torus}")
    slots = [row.core for row in rows]
    table = make_table(text, [row.line for row in rows], node=nodes, slot=slots)
    return mapping_from_table(table, options)


def read_devices(path: str | os.PathLike[str], torus: TorusLike) -> Devices:
    """Read the devices of a slice as a framework prints them, with their ids and coordinates.

    Chips may be missing, and coordinates need not begin at 0.
    """
    torus = as_torus(torus)
    source = Source(path, torus=torus)
    if not is_device_list(source):
        number, line = source.first_line()
        expected = "TpuDevice(id=0, coords=(0,0,0))"
        raise source.text.fault("no list of devices", number, line[:60], expected)
    rows = device_rows(source, torus)
    with source.text.locate_errors(None):
        return devices_at(torus, [row.coords for row in rows], [row.number for row in rows])


def listed(source: Source) -> list[tuple[int, dict[str, Any]]]:
    """Return line and fields of each device that a file lists."""
    if OBJECTS.match(source.start[:4096]):
        return _objects(source.text)
    return _printed(source.text)


def _printed(text: TextFile) -> list[tuple[int, dict[str, Any]]]:
    words = WRAPPED.sub(r"\1, slice_index=\2)", text.data.decode())
    words = SHORT.sub(r"TpuDevice(id=\1, coords=(\2), core_on_chip=\3)", words).replace(
        "TPU_", "Device"
    )
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


def _objects(text: TextFile) -> list[tuple[int, dict[str, Any]]]:
    words = text.data.decode()
    if '"' not in words:
        # Python prints JSON with other quotes and brackets, and other names of constants.
        words = words.translate(str.maketrans("'()", '"[]'))
        constants = {"True": "true", "False": "false", "None": "null"}
        words = re.sub(r"\b(True|False|None)\b", lambda match: constants[match[1]], words)
    content = text.json(words)
    flat: list[Any] = content if isinstance(content, list) else [content]
    while any(isinstance(item, list) for item in flat):
        flat = [x for item in flat for x in (item if isinstance(item, list) else [item])]
    if len(flat) > MAX_LISTED or not all(isinstance(item, dict) for item in flat):
        raise text.fault("bad device list", 1, None, 'objects such as {"id": 0, "coords": [0, 0]}')
    return [(1, item) for item in flat]


def are_ids(source: Source) -> bool:
    """Whether it is a list of different whole numbers in brackets, nested or not."""
    start = source.start[:4096]
    if not FIRST.match(start) or IDS.fullmatch(start) is None or not _is_one_list(start):
        return False
    # The last number may be cut.
    numbers = re.findall(rb"[0-9]+", start)[: None if len(start) < 4096 else -1]
    return len(set(numbers)) == len(numbers)


def _is_one_list(start: bytes) -> bool:
    """Whether no other list follows the bracket that closes the first one."""
    depth = 0
    for at, letter in enumerate(start):
        depth += {91: 1, 93: -1}.get(letter, 0)
        if letter == 93 and depth <= 0:
            return not re.search(rb"[\[\]]|^\s*,\s*\d", start[at + 1 :])
    return True


def device_nodes(torus: Torus, cores: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return node and slot of each device number: the cores of a chip first, then the chips."""
    nodes = usual_devices(torus).nodes
    return np.repeat(nodes, cores), np.tile(np.arange(cores), nodes.size)


def read_ids(source: Source, options: MappingOptions) -> TaskMapping:
    """Return the mapping of device numbers: the i-th task runs on the i-th of them."""
    if source.start.startswith(_NPY):
        text, array = TextFile(os.fspath(source.path)), array_of_npy(source.data, source.path)
        content, bare = array.tolist(), f"{array.dtype} {array.ravel()[:4].tolist()}"
    else:
        text = source.text
        words = re.sub(r"dtype\s*=\s*\w+", "", text.data.decode())
        program = _IN_PROGRAM.search(words)
        bare = program[1] if program else words
        bare = bare.strip().removeprefix("array").strip().removeprefix("(").rstrip("), \n")
        if "," not in bare:
            # NumPy prints numbers with blanks between.
            bare = re.sub(r"(?<=[\d\]])\s+(?=[\d\[])", ",", bare)
        content = text.json(bare if bare.startswith("[") else f"[{bare}]")
    # What is no array of numbers becomes an array of lists.
    ids = np.array(content, dtype=object).ravel()
    if not (
        0 < ids.size <= MAX_LISTED
        and all(type(number) is int and 0 <= number < 2**31 for number in ids)
    ):
        expected = "an array of whole numbers, such as [[0,2],[1,3]]"
        if any(isinstance(number, list) for number in ids):
            expected = "rows of the same length"
        raise text.fault("bad device list", 1, bare[:60], expected)
    return _mapping_of_ids(text, ids.astype(np.int64), options)


def read_sharding(source: Source, options: MappingOptions) -> TaskMapping:
    """Return the mapping of a sharding's devices: the i-th task runs on the i-th of them."""
    text = source.text
    number, line = text.first_line()
    words = text.data.decode()
    forms = (SHARDING, SHARDY, TORCH, STRIDED)
    found = [match for form in forms for match in form.finditer(words)]
    if len(found) != 1:
        expected = "one sharding, such as {devices=[4,2]<=[2,4]T(1,0)}"
        raise text.fault("bad sharding", number, line[:60], expected)
    match = found[0]
    if match.re in (TORCH, STRIDED):
        if not re.fullmatch(r"\s*(\w+\s*=)?\s*", words.replace(match[0], "")):
            raise text.fault("more than a mesh", number, line[:60], match[0][:60])
        return _mapping_of_ids(text, _torch_ids(text, match), options)
    if match.re is SHARDY:
        sizes, over, turned, listed_ids = match[1], None, None, match[2]
    else:
        sizes, over, turned, listed_ids = match.groups()
    shape = whole_numbers(sizes)
    if listed_ids is None:
        axes = over or ",".join(map(str, shape))
        counted = counted_along(axes, turned)
        if counted is None:
            expected = "each axis once, and at most 2^20 devices"
            raise text.fault("bad order of axes, or too many devices", number, line[:60], expected)
        ids = counted
    else:
        ids = np.array(whole_numbers(listed_ids), dtype=np.int64)
    if ids.size != math.prod(shape):
        found_sizes = f"{ids.size} devices for {'x'.join(map(str, shape))}"
        raise text.fault("sizes and devices differ", number, found_sizes, math.prod(shape))
    return _mapping_of_ids(text, ids, options)


def _torch_ids(text: TextFile, match: re.Match[str]) -> NDArray[np.int64]:
    """The numbers of a mesh of PyTorch."""
    if match.re is TORCH:
        return np.array(whole_numbers(match[1]), dtype=np.int64)
    sizes = [int(size.rpartition("=")[2][:9]) for size in match[1].split(",")]
    strides = whole_numbers(match[2])
    if len(sizes) != len(strides) or not 0 < math.prod(sizes) <= MAX_LISTED:
        expected = "a stride for each size, and at most 2^22 devices"
        raise text.fault("bad mesh", text.first_line()[0], match[0][:60], expected)
    places = np.indices(sizes).reshape(len(sizes), -1)
    return np.asarray(np.array(strides) @ places, dtype=np.int64)


def _mapping_of_ids(text: TextFile, ids: NDArray[np.int64], options: MappingOptions) -> TaskMapping:
    """Build the mapping of device numbers, by the table of hosts where there is one."""
    number = text.first_line()[0] if text.data else 1
    if options.hosts is not None:
        return mapping_from_hosts(text, options, [number] * ids.size, list(map(str, ids.tolist())))
    cores = options.capacity or max(-(-ids.size // options.torus.n_nodes), 1)
    nodes, slots = device_nodes(options.torus, cores)
    if ids.size and ids.max() >= nodes.size:
        expected = f"0 to {nodes.size - 1}; --tasks-per-node N for chips of N devices, or --hosts "
        expected += "FILE with the node of each number"
        raise text.fault("device out of range", number, int(ids.max()), expected)
    table = make_table(text, [number] * ids.size, node=nodes[ids], slot=slots[ids])
    return mapping_from_table(table, options)


def read_layout(name: str, torus: Torus, devices: Devices | None = None) -> TaskMapping:
    """Read a layout of a mesh, ``[FORM=]FILE``: any that `toruscast mesh --write` writes.

    Numbers are places among the devices, as those of `MeshLayouts.ids` are.
    """
    form, _, path = name.partition("=")
    formats = {each.name for each in dialects("mapping")}
    if form not in (*OWN_FORMS, *formats):
        form, path = "auto", name
    source = Source(path, torus=torus)
    hosts = None
    try:
        if form in OWN_FORMS or (form == "auto" and _is_own(source)):
            form = "device-ids"
        if devices is not None and identify(source, "mapping", form).name == "device-ids":
            hosts = Hosts(list(map(str, range(devices.nodes.size))), devices.nodes, torus)
        return read_mapping(path, torus, format=form, hosts=hosts)
    except InputError as error:
        # The command has other options, and none for the format alone.
        expected = re.sub(
            r"--format (?!for )([\w-]+)", rf"--compare \1={path}", str(error.expected)
        )
        for theirs, ours in _OURS.items():
            expected = expected.replace(theirs, ours)
        raise error.replace(expected=error.expected and expected) from None


def _is_own(source: Source) -> bool:
    """Whether it is an array, a program, or a line of numbers that no sign gives to a format."""
    if source.start.startswith(_NPY):
        return True
    numbers = {"nodes", "bluegene"}
    is_form = _IS_OWN.match(source.start) is not None
    return is_form and {each.name for each in match_dialects(source, "mapping")} <= numbers


def check_numbers(options: WriteOptions, *_: int) -> None:
    """Raise unless names of hosts are numbers of devices."""
    for name in () if options.hosts is None else options.hosts.names:
        if not re.fullmatch("[0-9]{1,9}", name):
            expected = "the number of a device in the column host"
            raise InputError("host without a number", found=name, expected=expected)


def write_ids(mapping: TaskMapping, path: Path, options: WriteOptions) -> None:
    """Write the device number of each task as JSON, nested in the shape of the mesh if known."""
    if options.hosts is not None:
        check_numbers(options)
        ids: NDArray[Any] = np.array(list(map(int, options.hosts.of_tasks(mapping))))
    else:
        torus = options.torus
        cores = mapping.tasks_per_node
        nodes, slots = device_nodes(torus, cores)
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
What a framework prints of its devices, as a list or an array of any shape: the first task runs on
the first of them. `coords` are the node's coordinates, counted from the lowest where a part of a
machine does not begin at 0; `core_on_chip` is the slot, on a TPU7x the fourth coordinate. Objects
of JSON or Python with `coords` do as well; those with names such as `TPU:3` and without an `id` are
sorted by these numbers.
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
        check_job=check_numbers,
        suffixes=(".json",),
        documentation="""
Numbers of devices as JSON or as NumPy prints them, in the shape of the mesh or flat: the first task
runs on the first of them. Numbers count the devices of a chip first (`--tasks-per-node` of them),
then x fastest, as those of TPU slices do; on Trainium and Galaxy the last dimension fastest. Where
they count otherwise, `--hosts FILE` gives the node of each (`host,x,y,z`, with the number as the
host).
""",
        example="[[0, 2], [3, 1]]\n",
        advice="Mesh(np.array(jax.devices())[np.array(json.load(open('{file}')))], axis_names) "
        "with the devices sorted by id",
    ),
    Dialect(
        name="sharding",
        holds="mapping",
        title="devices of a sharding of XLA (GSPMD), or of a mesh of Shardy or PyTorch",
        recognise=lambda source: bool(SHARDED.match(source.start[:4096])),
        read=read_sharding,
        documentation="""
`devices=[4,2]0,4,1,5,2,6,3,7` or the short form `{devices=[4,2]<=[2,4]T(1,0)}`, also of a mesh of
Shardy, `<["x"=4, "y"=2], device_ids=[0, 4, ...]>`, and what PyTorch prints of a mesh,
`DeviceMesh('xla', [[0, 1], [2, 3]])` or `DeviceMesh((dp=2, tp=2), device: 'xla', stride: (2, 1))`:
the first task runs on the first device. Numbers are those of `device-ids`.
""",
        example="{devices=[2,2]<=[2,2]T(1,0)}\n",
    ),
)
