"""Tenstorrent's mesh graph descriptors.

Patterns: `tt_metal/fabric/mesh_graph_descriptors/*.textproto` of tt-metal, November 2025.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from toruscast.formats.dialect import Dialect
from toruscast.formats.machine_file import check_supported, torus_at, whole_words
from toruscast.formats.source import Source, Text, write_text
from toruscast.mapping.machines import named
from toruscast.mapping.torus import Torus

# Bytes per second of an Ethernet channel, each way.
CHANNEL = 12.5e9
_MESH = re.compile(r"\bmesh_descriptors\s*+:?\s*+\{")
NAME = re.compile(r"\bname\s*+:\s*+[\"']([^\"']*)[\"']")
TOPOLOGY = re.compile(r"\bdevice_topology\s*+:?\s*+\{([^{}]*)\}")
# A list in brackets, or the key once for each entry.
ENTRIES = re.compile(r"\b(dims|dim_types)\s*+:\s*+(?:\[([^\]]*)\]|(\w++))")
COUNT = re.compile(r"channels\s*+:?\s*+\{\s*+count\s*+:\s*+([0-9]{1,6})")
# What is used: the top level is a mesh, or a graph of instances of meshes.
TOP = re.compile(r"\btop_level_instance\s*+:?\s*+\{\s*+(mesh|graph)\b")
GRAPH = re.compile(r"\bgraph_descriptors\s*+:?\s*+\{")
USED = re.compile(r"\b(mesh|graph)_descriptor\s*+:\s*+[\"']([^\"']*)[\"']")
INSTANCE = re.compile(r"\binstances\s*+:?\s*+\{")
KINDS = {"RING": True, "LINE": False}


def is_descriptor(source: Source) -> bool:
    """Whether it describes meshes and the topology of their devices."""
    words = source.start.decode("latin-1")
    return bool(_MESH.search(words)) and "device_topology" in words


def read_mesh(source: Source) -> Torus:
    """Return the torus of the only mesh that is used."""
    text = source.text
    words = "\n".join(raw.partition("#")[0] for raw in text.raw_lines())
    meshes = _blocks(_MESH, words)
    at, block = _used(text, words, meshes)
    if express := re.search(r"\bexpress_connections\b", block):
        line = words.count("\n", 0, at + express.start()) + 1
        expected = "links between neighbours only, as a torus has them"
        raise text.fault("links besides those of the mesh", line, express[0], expected)
    match = TOPOLOGY.search(block)
    if match is None:
        expected = "device_topology { dims: [ 8, 4 ] dim_types: [ RING, LINE ] }"
        line = words.count("\n", 0, at) + 1
        raise text.fault("mesh without a device_topology", line, None, expected)
    line = words.count("\n", 0, at + match.start()) + 1
    entries: dict[str, list[str]] = {"dims": [], "dim_types": []}
    for key, several, one in ENTRIES.findall(match[1]):
        entries[key] += [part for part in re.split(r"[\s,]+", several or one) if part]
    sizes = whole_words(text, line, "dims", entries["dims"])
    kinds = entries["dim_types"] or ["LINE"] * len(sizes)
    if len(kinds) != len(sizes) or not set(kinds) <= set(KINDS):
        raise text.fault("bad dim_types", line, ", ".join(kinds), "RING or LINE for each dimension")
    count = COUNT.search(block)
    channels = int(count[1]) if count else 4
    network = replace(named("galaxy")().network, fifos=2 * len(sizes))
    wrap = tuple(KINDS[kind] for kind in kinds)
    return torus_at(source, line, sizes, wrap=wrap, bandwidth=channels * CHANNEL, network=network)


def _blocks(start: re.Pattern[str], words: str) -> list[tuple[int, str]]:
    """Place and content of each block in braces that begins so."""
    found = []
    end = 0
    while match := start.search(words, end):
        depth, end = 0, len(words)
        for brace in re.finditer(r"[{}]", words[match.start() :]):
            depth += 1 if brace[0] == "{" else -1
            if depth == 0:
                end = match.start() + brace.end()
                break
        found.append((match.start(), words[match.start() : end]))
    return found


def _used(text: Text, words: str, meshes: list[tuple[int, str]]) -> tuple[int, str]:
    """The descriptor of the only mesh that the top level has an instance of."""
    named = {match[1]: mesh for mesh in meshes if (match := NAME.search(mesh[1]))}
    used = _instances(words)
    instances = [name for kind, name in used if kind == "mesh"]
    if len(used) > 1 or len(instances) < len(used) or (not used and len(meshes) > 1):
        found = f"{len(used) or len(meshes)} of them"
        expected = "one mesh, which is a torus; sizes such as 8x4 name one of them"
        raise text.fault("several meshes, linked with each other", None, found, expected)
    if meshes and not instances:
        return meshes[0]
    instance = next(iter(instances), None)
    if instance not in named:
        expected = ", ".join(named) or "a mesh_descriptors with a name"
        raise text.fault("no such mesh descriptor", None, instance, expected)
    return named[instance]


def _instances(words: str) -> list[tuple[str, str]]:
    """What the top level has instances of: a mesh, or those of its graph."""
    top = TOP.search(words)
    if top is None:
        return [use for _, block in _blocks(GRAPH, words) for use in _of_graph(block)]
    used = USED.search(words, top.end())
    if used is None or used[1] == "mesh":
        return [("mesh", used[2])] if used else []
    graphs = {name[1]: block for _, block in _blocks(GRAPH, words) if (name := NAME.search(block))}
    return _of_graph(graphs.get(used[2], ""))


def _of_graph(block: str) -> list[tuple[str, str]]:
    inside = (USED.search(instance) for _, instance in _blocks(INSTANCE, block))
    return [(use[1], use[2]) for use in inside if use]


def write_mesh(torus: Torus, path: Path) -> None:
    """Write one mesh; its channels are as many as its bandwidth has."""
    check_supported(torus, "Tenstorrent", "no twist")
    dims = ", ".join(map(str, torus.shape))
    kinds = ", ".join("RING" if wrap else "LINE" for wrap in torus.wrap)
    hosts = ", ".join(["1"] * torus.ndim)
    count = max(round(min(torus.bandwidth) / CHANNEL), 1)
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
    title="mesh graph descriptor of Tenstorrent (textproto): RING and LINE",
    recognise=is_descriptor,
    read=read_mesh,
    write=write_mesh,
    suffixes=(".textproto",),
    documentation="""
`device_topology` of the mesh that the top level uses: `dims`, and `dim_types` `RING` or `LINE`
(lines without them). `channels` count Ethernet channels of 12.5 GB/s between neighbours. Several
meshes that a graph links are no torus.
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
DIALECTS = (MESH,)
