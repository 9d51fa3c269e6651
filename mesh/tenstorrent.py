"""Mesh graph descriptors of Tenstorrent, and rank bindings of tt-run.

The patterns match `tt_metal/fabric/mesh_graph_descriptors/*.textproto` and
`tests/tt_metal/distributed/config/*_rank_bindings.yaml` in tt-metal, up to November 2025.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np

from toruscast.errors import InputError
from toruscast.formats.dialect import Dialect
from toruscast.formats.machine_file import build_torus, check_supported, parse_sizes
from toruscast.formats.placements import MappingOptions, WriteOptions, mapping_from_table
from toruscast.formats.source import (
    Source,
    TextFile,
    comment_pattern,
    parse_whole,
    warn_about_unused,
    write_text,
)
from toruscast.formats.tables import make_table
from toruscast.mapping.machines import Machine
from toruscast.mapping.task_mapping import TaskMapping
from toruscast.mapping.torus import Torus

# Bytes per second of an Ethernet channel, in each direction.
_CHANNEL_BANDWIDTH = 12.5e9
_MESH = re.compile(r"\bmesh_descriptors\s*+:?\s*+\{")
_NAME = re.compile(r"\bname\s*+:\s*+[\"']([^\"']*)[\"']")
_TOPOLOGY = re.compile(r"\bdevice_topology\s*+:?\s*+\{([^{}]*)\}")
# Sizes or kinds of dimensions: a list in brackets, or a repeated key.
_DIMENSION_ENTRY = re.compile(r"\b(dims|dim_types)\s*+:\s*+(?:\[([^\]]*)\]|(\w++))")
_CHANNEL_COUNT = re.compile(r"channels\s*+:?\s*+\{\s*+count\s*+:\s*+([0-9]{1,6})")
# The top level is a mesh, or a graph with instances of meshes.
_TOP_LEVEL = re.compile(r"\btop_level_instance\s*+:?\s*+\{\s*+(mesh|graph)\b")
_GRAPH = re.compile(r"\bgraph_descriptors\s*+:?\s*+\{")
_USED_DESCRIPTOR = re.compile(r"\b(mesh|graph)_descriptor\s*+:\s*+[\"']([^\"']*)[\"']")
_INSTANCE = re.compile(r"\binstances\s*+:?\s*+\{")
# A field with its value or opening brace, and the names of known fields.
_FIELD = re.compile(
    r"(?<!\w)(\w++)\s*+(?::?\s*+\{|:\s*+(?:\[[^\[\]]*+\]|\"[^\"]*\"|'[^']*'|[\w.+-]++))"
)
_KNOWN_FIELDS = {
    *("mesh_descriptors", "graph_descriptors", "top_level_instance", "instances", "connections"),
    *("name", "arch", "type", "device_topology", "host_topology", "dims", "dim_types", "channels"),
    *("count", "policy", "mesh", "graph", "mesh_descriptor", "graph_descriptor", "mesh_id"),
    *("graph_id", "express_connections", "nodes", "device_id"),
}
_WRAPS = {"RING": True, "LINE": False}


def is_descriptor(source: Source) -> bool:
    """Return whether a file describes meshes and their device topology."""
    words = source.start.decode("latin-1")
    return bool(_MESH.search(words)) and "device_topology" in words


def read_mesh(source: Source) -> Torus:
    """Return the torus of the mesh that the top level uses."""
    text = source.text
    words = "\n".join(comment_pattern("#").sub("", raw) for raw in text.raw_lines())
    # Warn about unknown fields, and about text outside fields.
    others = [match[1] for match in _FIELD.finditer(words) if match[1] not in _KNOWN_FIELDS]
    others += re.sub(r"[{},;]", " ", _FIELD.sub(" ", words)).split()
    warn_about_unused(text.file, others)
    start, block = _select_mesh(text, words)
    if express := re.search(r"\bexpress_connections\b", block):
        line = words.count("\n", 0, start + express.start()) + 1
        expected = "links between neighbours only"
        raise text.fault("links besides those of a torus", line, express[0], expected)
    match = _TOPOLOGY.search(block)
    if match is None:
        expected = "device_topology { dims: [ 8, 4 ] dim_types: [ RING, LINE ] }"
        line = words.count("\n", 0, start) + 1
        raise text.fault("mesh without a device_topology", line, None, expected)
    line = words.count("\n", 0, start + match.start()) + 1
    entries: dict[str, list[str]] = {"dims": [], "dim_types": []}
    for key, several, one in _DIMENSION_ENTRY.findall(match[1]):
        entries[key] += [part for part in re.split(r"[\s,]+", several or one) if part]
    sizes = parse_sizes(text, line, "dims", entries["dims"])
    kinds = entries["dim_types"] or ["LINE"] * len(sizes)
    if len(kinds) != len(sizes) or not set(kinds) <= set(_WRAPS):
        raise text.fault("bad dim_types", line, ", ".join(kinds), "RING or LINE for each dimension")
    count = _CHANNEL_COUNT.search(block)
    channels = int(count[1]) if count else 4
    network = replace(Machine.from_name("galaxy")().network, fifos=2 * len(sizes))
    wrap = tuple(_WRAPS[kind] for kind in kinds)
    return build_torus(
        source, line, sizes, wrap=wrap, bandwidth=channels * _CHANNEL_BANDWIDTH, network=network
    )


def _find_blocks(start: re.Pattern[str], words: str) -> list[tuple[int, str]]:
    """Return the position and the text of each braced block that starts with a pattern."""
    blocks = []
    end = 0
    while match := start.search(words, end):
        depth, end = 0, len(words)
        for brace in re.finditer(r"[{}]", words[match.start() :]):
            depth += 1 if brace[0] == "{" else -1
            if depth == 0:
                end = match.start() + brace.end()
                break
        blocks.append((match.start(), words[match.start() : end]))
    return blocks


def _select_mesh(text: TextFile, words: str) -> tuple[int, str]:
    """Return the position and the text of the only mesh descriptor that the top level uses."""
    meshes = _find_blocks(_MESH, words)
    named = {match[1]: mesh for mesh in meshes if (match := _NAME.search(mesh[1]))}
    used = _list_instances(words)
    instances = [name for kind, name in used if kind == "mesh"]
    if len(used) > 1 or len(instances) < len(used) or (not used and len(meshes) > 1):
        found = len(used) or len(meshes)
        expected = "one mesh, or sizes such as 8x4 for one of them"
        raise text.fault("several meshes that are linked", None, found, expected)
    if meshes and not instances:
        return meshes[0]
    instance = next(iter(instances), None)
    if instance not in named:
        expected = ", ".join(named) or "a mesh_descriptors with a name"
        raise text.fault("no such mesh descriptor", None, instance, expected)
    return named[instance]


def _list_instances(words: str) -> list[tuple[str, str]]:
    """Return the kind ("mesh" or "graph") and name of each descriptor that the top level uses."""
    top = _TOP_LEVEL.search(words)
    if top is None:
        return [use for _, block in _find_blocks(_GRAPH, words) for use in _list_in_graph(block)]
    used = _USED_DESCRIPTOR.search(words, top.end())
    if used is None or used[1] == "mesh":
        return [("mesh", used[2])] if used else []
    blocks = (block for _, block in _find_blocks(_GRAPH, words))
    graphs = {name[1]: block for block in blocks if (name := _NAME.search(block))}
    return _list_in_graph(graphs.get(used[2], ""))


def _list_in_graph(block: str) -> list[tuple[str, str]]:
    """Return the kind and name of the descriptor that each instance of a graph uses."""
    instances = (text for _, text in _find_blocks(_INSTANCE, block))
    found = map(_USED_DESCRIPTOR.search, instances)
    return [(use[1], use[2]) for use in found if use]


def write_mesh(torus: Torus, path: Path) -> None:
    """Write one mesh, with the number of channels that matches the bandwidth."""
    check_supported(torus, "Tenstorrent", "no twist")
    dims = ", ".join(map(str, torus.shape))
    kinds = ", ".join("RING" if wrap else "LINE" for wrap in torus.wrap)
    hosts = ", ".join(["1"] * torus.ndim)
    count = max(round(min(torus.bandwidth) / _CHANNEL_BANDWIDTH), 1)
    write_text(
        path,
        "mesh_descriptors {\n"
        '  name: "M0"\n'
        "  arch: WORMHOLE_B0\n"
        f"  device_topology {{ dims: [ {dims} ] dim_types: [ {kinds} ] }}\n"
        f"  host_topology {{ dims: [ {hosts} ] }}\n"
        f"  channels {{ count: {count} policy: RELAXED }}\n"
        "}\n"
        'top_level_instance { mesh { mesh_descriptor: "M0" mesh_id: 0 } }\n',
    )


MESH = Dialect(
    name="tt-mesh",
    holds="torus",
    title="mesh graph descriptor of Tenstorrent (textproto)",
    recognise=is_descriptor,
    read=read_mesh,
    write=write_mesh,
    suffixes=(".textproto",),
    documentation="""
The `device_topology` of the mesh that the top level uses, with `dims` and `dim_types` (`RING` or
`LINE`, the default). `channels` is the number of Ethernet channels of 12.5 GB/s between neighbours.
Several linked meshes are not a torus and are refused.
""",
    example="""mesh_descriptors {
  name: "M0"
  arch: WORMHOLE_B0
  device_topology { dims: [ 8, 4 ] dim_types: [ RING, LINE ] }
  channels { count: 4 policy: RELAXED }
}
top_level_instance { mesh { mesh_descriptor: "M0" mesh_id: 0 } }
""",
    advice="TT_MESH_GRAPH_DESC_PATH={file}",
)


_BINDINGS = re.compile(r"^[ \t]*+rank_bindings\s*+:", re.M)
# An item starts with a hyphen or, in flow style, with a brace that is not the value of a key.
_BINDING = re.compile(
    r"((?:^\s*-|(?<=[\[,])|^)\s*\{|^\s*-(?=\s))"
    r"|(?<![\w])(rank|mesh_id|mesh_host_rank|\w*VISIBLE_DEVICES)\s*:\s*"
    r"(\"[^\"]*\"|'[^']*'|\[[^\]]*\]|[^,}#\s]+)"
)
# The newer and the older name of the variable.
_VISIBLE = ("TT_VISIBLE_DEVICES", "TT_METAL_VISIBLE_DEVICES")


def is_bindings(source: Source) -> bool:
    """Return whether a file has a key for rank bindings."""
    return any(_BINDINGS.match(line) for _, line in source.lines) and source.start[:1] not in b"{["


def read_bindings(source: Source, options: MappingOptions) -> TaskMapping:
    """Map each rank to its visible device or, if devices are missing, to its host."""
    text = source.text
    entries: list[tuple[int, dict[str, str]]] = []  # line, and value of each key
    is_inside = False
    raw_lines = list(text.raw_lines())
    for number, line in text.lines("#"):
        if re.match(r"[\w\"']", raw_lines[number - 1]):
            is_inside = bool(_BINDINGS.match(line))
            line = _BINDINGS.sub("", line)
        if not is_inside:
            continue
        for item, key, value in _BINDING.findall(line):
            if item:
                entries.append((number, {}))
                continue
            if not entries or key in entries[-1][1]:
                raise text.fault("bad rank binding", number, line, "- rank: N, then its keys")
            entries[-1][1][key] = value.strip("\"'")
    if not entries:
        raise text.fault("rank bindings without a rank")
    ranks = [parse_whole(text, line, "rank", entry.get("rank", "none")) for line, entry in entries]
    lines = [line for line, _ in entries]
    return mapping_from_table(
        make_table(text, lines, node=_find_nodes(text, entries), task=ranks), options
    )


def _find_nodes(text: TextFile, entries: list[tuple[int, dict[str, str]]]) -> list[int]:
    """Return the node of each rank, from the line and the keys of its binding."""
    expected = "one mesh, a device or a host for each rank; or a table rank,node with the nodes"
    nodes: list[str] = []
    for line, entry in entries:
        if entry.get("mesh_id", "0") != entries[0][1].get("mesh_id", "0"):
            raise text.fault("ranks of several meshes", line, entry.get("mesh_id"), expected)
        other = {key for key in entry if key.endswith("VISIBLE_DEVICES")} - {*_VISIBLE}
        if other:
            raise text.fault("devices of another kind", line, min(other), _VISIBLE[0])
        seen = {entry[key] for key in _VISIBLE if key in entry}
        if len(seen) > 1:
            raise text.fault("contradictory devices", line, " and ".join(_VISIBLE), "one of them")
        nodes += seen or {""}
    if all(re.fullmatch(r"[0-9]{1,9}", node) for node in nodes):
        count = Counter(nodes)
        for (line, _), node in zip(entries, nodes, strict=True):
            if count[node] > 1:
                raise text.fault("several ranks on a device or host", line, None, expected)
        return list(map(int, nodes))
    for line, entry in entries:
        if "mesh_host_rank" not in entry and len(entries) > 1:
            raise text.fault("rank without a device or host", line, None, expected)
    return [
        parse_whole(text, line, "mesh_host_rank", entry.get("mesh_host_rank", "0"))
        for line, entry in entries
    ]


def write_bindings(mapping: TaskMapping, path: Path, options: WriteOptions) -> None:
    """Write a device for each rank."""
    node, count = np.unique(mapping.node, return_counts=True)
    if (count > 1).any():
        found = f"{count.max()} tasks on node {node[count.argmax()]}"
        raise InputError("tt-run runs one rank per device", found=found, expected="1 per node")
    lines = [
        f"  - rank: {rank}\n    mesh_id: 0\n    mesh_host_rank: {rank}\n    env_overrides:\n"
        f'      TT_VISIBLE_DEVICES: "{node}"\n'
        for rank, node in enumerate(mapping.node.tolist())
    ]
    tail = 'mesh_graph_desc_path: "mesh_graph_descriptor.textproto"\n'
    write_text(path, "rank_bindings:\n" + "".join(lines) + tail)


BINDINGS = Dialect(
    name="tt-rank-bindings",
    holds="mapping",
    title="rank bindings of Tenstorrent's tt-run",
    recognise=is_bindings,
    read=read_bindings,
    write=write_bindings,
    suffixes=(".yaml", ".yml"),
    documentation="""
The list `rank_bindings`. The node of a rank is its one visible device (`TT_VISIBLE_DEVICES`, or
the older `TT_METAL_VISIBLE_DEVICES`), or else its host, `mesh_host_rank`. Ranks of several meshes
are refused, because the file does not give the positions of the meshes. The writer gives each rank
a device. Set the path of the mesh descriptor by hand.
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
DIALECTS = (MESH, BINDINGS)
