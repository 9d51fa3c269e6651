"""Rank bindings of Tenstorrent's tt-run.

Patterns: `tests/tt_metal/distributed/config/*_rank_bindings.yaml` of tt-metal, November 2025, and
older ones.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from toruscast.errors import InputError

from ...task_mapping import TaskMapping
from ..dialect import Dialect
from ..opening import Text
from ..source import Source
from .build import MappingOptions, Target, mapping_of, rows_of, write_lines

START = re.compile(r"^[ \t]*+rank_bindings\s*+:", re.M)
# An item begins with a hyphen, or in flow style with a brace that is no value of a key.
TOKEN = re.compile(
    r"((?:^\s*-|(?<=[\[,])|^)\s*\{|^\s*-(?=\s))"
    r"|(?<![\w])(rank|mesh_id|mesh_host_rank|\w*VISIBLE_DEVICES)\s*:\s*"
    r"(\"[^\"]*\"|'[^']*'|\[[^\]]*\]|[^,}#\s]+)"
)
# The name of newer versions, and that of older ones.
DEVICES = ("TT_VISIBLE_DEVICES", "TT_METAL_VISIBLE_DEVICES")


def is_bindings(source: Source) -> bool:
    """Whether a key names rank bindings."""
    return any(START.match(line) for _, line in source.lines) and source.start[:1] not in b"{["


def read(source: Source, options: MappingOptions) -> TaskMapping:
    """Return the mapping: the device of each rank where it sees one, else its host rank."""
    text = source.text
    at: list[int] = []
    entries: list[dict[str, str]] = []
    inside = False
    raws = list(text.raw_lines())
    for number, line in text.lines("#"):
        raw = raws[number - 1]
        if re.match(r"[\w\"']", raw):
            inside = bool(START.match(line))
            line = START.sub("", line)
        if not inside:
            continue
        for item, key, value in TOKEN.findall(line):
            if item:
                at.append(number)
                entries.append({})
                continue
            if not entries or key in entries[-1]:
                raise text.fault("bad rank binding", number, line, "- rank: N, then its keys")
            entries[-1][key] = value.strip("\"'")
    if not entries:
        raise text.fault("rank bindings without a rank")
    ranks = [_number(text, n, entry, "rank") for n, entry in zip(at, entries, strict=True)]
    nodes = _nodes(text, at, entries)
    table, (rank, node) = rows_of(text, at, ranks, nodes)
    return mapping_of(table, node, options, task=rank)


def _number(text: Text, line: int, entry: dict[str, str], key: str) -> int:
    value = entry.get(key, "none")
    if not re.fullmatch(r"[0-9]{1,9}", value):
        raise text.fault(f"bad {key}", line, value, "a whole number")
    return int(value)


def _nodes(text: Text, at: list[int], entries: list[dict[str, str]]) -> list[int]:
    """The device of each rank, or else its host within the only mesh."""
    expected = "one mesh, a device or a host for each rank; or a table rank,node with the nodes"
    lines = list(zip(at, entries, strict=True))
    for line, entry in lines:
        if entry.get("mesh_id", "0") != entries[0].get("mesh_id", "0"):
            raise text.fault("ranks of several meshes", line, entry.get("mesh_id"), expected)
        other = {key for key in entry if key.endswith("VISIBLE_DEVICES")} - {*DEVICES}
        if other:
            raise text.fault("devices of another kind", line, min(other), DEVICES[0])
        if len({entry[key] for key in DEVICES if key in entry}) > 1:
            raise text.fault("devices differ", line, " and ".join(DEVICES), "one of them")
    devices = [next((e[key] for key in DEVICES if key in e), "") for e in entries]
    if all(re.fullmatch(r"[0-9]{1,9}", device) for device in devices):
        if len({*devices}) < len(devices):
            line = next(n for n, d in zip(at, devices, strict=True) if devices.count(d) > 1)
            raise text.fault("two ranks on a device, or of two hosts", line, None, expected)
        return list(map(int, devices))
    if any("mesh_host_rank" not in entry for entry in entries) and len(entries) > 1:
        line = next(n for n, entry in lines if "mesh_host_rank" not in entry)
        raise text.fault("rank without one device and without a host", line, None, expected)
    return [_number(text, n, {"mesh_host_rank": "0", **e}, "mesh_host_rank") for n, e in lines]


def write(mapping: TaskMapping, path: Path, target: Target) -> None:
    """Write a device for each rank."""
    node, count = np.unique(mapping.node, return_counts=True)
    if (count > 1).any():
        found = f"{count.max()} tasks on node {node[count.argmax()]}"
        raise InputError("tt-run gives a device to one rank", found=found, expected="1 a node")
    lines = [
        f"  - rank: {rank}\n    mesh_id: 0\n    mesh_host_rank: {rank}\n    env_overrides:\n"
        f'      TT_VISIBLE_DEVICES: "{node}"\n'
        for rank, node in enumerate(mapping.node.tolist())
    ]
    tail = 'mesh_graph_desc_path: "mesh_graph_descriptor.textproto"\n'
    write_lines(path, "rank_bindings:\n" + "".join(lines) + tail)


DIALECT = Dialect(
    name="tt-rank-bindings",
    holds="mapping",
    title="rank bindings of Tenstorrent's tt-run",
    recognise=is_bindings,
    read=read,
    write=write,
    suffixes=(".yaml", ".yml"),
    documentation="""
The list `rank_bindings`. Where each rank sees one device (`TT_VISIBLE_DEVICES`, or its older name
`TT_METAL_VISIBLE_DEVICES`), that is its node; else a node is a host, `mesh_host_rank`. Ranks of
several meshes are refused, for nothing says where the meshes stand. The writer gives each rank a
device; set the path of the mesh's descriptor by hand.
""",
    example="""rank_bindings:
  - rank: 0
    mesh_id: 0
    mesh_host_rank: 1
  - rank: 1
    mesh_id: 0
    mesh_host_rank: 0
mesh_graph_desc_path: "mesh.textproto"
""",
    advice="tt-run --rank-binding {file} ./app",
)
