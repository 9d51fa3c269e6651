"""Mesh graph descriptors of Tenstorrent."""

from __future__ import annotations

import re
from pathlib import Path

from toruscast.errors import InputError

from ...machines.tenstorrent import CHANNEL, galaxy
from ...torus import Torus
from .._source import label
from ..dialect import Dialect
from ..source import Source

MESH = re.compile(r"\bmesh_descriptors\s*+:?\s*+\{")
TOPOLOGY = re.compile(
    r"device_topology\s*+:?\s*+\{\s*+dims\s*+:\s*+\[([^\]]*)\]\s*+,?\s*+(?:dim_types\s*+:\s*+\[([^\]]*)\])?"
)
COUNT = re.compile(r"channels\s*+:?\s*+\{\s*+count\s*+:\s*+(\d{1,6})")
INSTANCES = re.compile(r"\bgraph_descriptors\b")
KINDS = {"RING": True, "LINE": False}


def is_descriptor(source: Source) -> bool:
    """Whether it describes meshes and the topology of their devices."""
    words = source.start.decode("latin-1")
    return bool(MESH.search(words)) and "device_topology" in words


def read(source: Source) -> Torus:
    """Return the torus of the mesh; of several, they must be alike and stand alone."""
    text = source.text
    words = "\n".join(raw.partition("#")[0] for raw in text.raw_lines())
    meshes = list(MESH.finditer(words))
    found = list(TOPOLOGY.finditer(words))
    if not found or len(found) != len(meshes):
        expected = "device_topology { dims: [ 8, 4 ] dim_types: [ RING, LINE ] }"
        raise text.fault("mesh without a device_topology", None, len(found), expected)
    if len(found) > 1 or INSTANCES.search(words):
        raise text.fault(
            "several meshes, linked with each other", None, len(found), "one mesh, which is a torus"
        )
    match = found[0]
    line = words.count("\n", 0, match.start()) + 1
    sizes = [size.strip() for size in match[1].split(",")]
    kinds = [kind.strip() for kind in (match[2] or ",".join(["LINE"] * len(sizes))).split(",")]
    if not all(re.fullmatch(r"\d{1,9}", size) for size in sizes):
        raise text.fault("bad dims", line, match[1].strip(), "whole numbers such as [ 8, 4 ]")
    if len(kinds) != len(sizes) or not set(kinds) <= set(KINDS):
        raise text.fault("bad dim_types", line, match[2], "RING or LINE for each dimension")
    count = COUNT.search(words)
    channels = int(count[1]) if count else 4
    try:
        torus = Torus(
            tuple(map(int, sizes)),
            wrap=tuple(KINDS[kind] for kind in kinds),
            bandwidth=(channels * CHANNEL,),
            network=galaxy().network,
            name=label(source.path),
        )
    except InputError as error:
        raise text.fault(error.message, line, error.found, error.expected) from None
    return torus


def write(torus: Torus, path: Path) -> None:
    """Write one mesh; its channels are as many as its bandwidth has."""
    if torus.twist:
        raise InputError("no such mesh", found=str(torus), expected="no twist")
    dims = ", ".join(map(str, torus.shape))
    kinds = ", ".join("RING" if wrap else "LINE" for wrap in torus.wrap)
    hosts = ", ".join(["1"] * torus.ndim)
    count = max(round(min(torus.bandwidth) / CHANNEL), 1)
    path.write_text(
        "mesh_descriptors {\n"
        '  name: "M0"\n'
        "  arch: WORMHOLE_B0\n"
        f"  device_topology {{ dims: [ {dims} ] dim_types: [ {kinds} ] }}\n"
        f"  host_topology {{ dims: [ {hosts} ] }}\n"
        f"  channels {{ count: {count} policy: RELAXED }}\n"
        "}\n"
        'top_level_instance { mesh { mesh_descriptor: "M0" mesh_id: 0 } }\n',
        encoding="utf-8",
    )


DIALECT = Dialect(
    name="tt-mesh",
    holds="torus",
    title="mesh graph descriptor of Tenstorrent (textproto): RING and LINE",
    recognise=is_descriptor,
    read=read,
    write=write,
    suffixes=(".textproto",),
    documentation="""
`device_topology` of one mesh: `dims`, and `dim_types` `RING` or `LINE` (lines without them).
`channels` count Ethernet channels of 12.5 GB/s between neighbours. Several meshes that a graph
links are no torus.
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
