"""Rank bindings of Tenstorrent's tt-run."""

from __future__ import annotations

import re
from pathlib import Path

from ...task_mapping import TaskMapping
from ..dialect import Dialect
from ..source import Source
from .build import mapping_of, rows_of
from .options import MappingOptions, Target
from .rows import write_lines

START = re.compile(r"^[ \t]*+rank_bindings\s*+:", re.M)
ITEM = re.compile(r"\s*-\s")
KEY = re.compile(
    r"[\s{,-](rank|mesh_id|mesh_host_rank|TT_VISIBLE_DEVICES)\s*:\s*(\"[^\"]*\"|'[^']*'|[^,}#\s]+)"
)


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
        if re.match(r"\S", raw):
            inside = bool(START.match(line))
            continue
        if not inside:
            continue
        if ITEM.match(raw) and "rank" in line:
            at.append(number)
            entries.append({})
        for key, value in KEY.findall(f" {line}"):
            if not entries or key in entries[-1]:
                raise text.fault("bad rank binding", number, line, "- rank: N, then its keys")
            entries[-1][key] = value.strip("\"'")
    if not entries:
        raise text.fault("rank bindings without a rank")
    ranks: list[int] = []
    nodes: list[int] = []
    alone = all(re.fullmatch(r"\d+", e.get("TT_VISIBLE_DEVICES", "")) for e in entries)
    key = "TT_VISIBLE_DEVICES" if alone else "mesh_host_rank"
    for number, entry in zip(at, entries, strict=True):
        for name, values in (("rank", ranks), (key, nodes)):
            value = entry.get(name, "0" if name == "mesh_host_rank" else "")
            if not re.fullmatch(r"\d{1,9}", value):
                raise text.fault(f"bad {name}", number, value or "none", "a whole number")
            values.append(int(value))
    table, (rank, node) = rows_of(text, at, ranks, nodes)
    return mapping_of(table, node, options, task=rank)


def write(mapping: TaskMapping, path: Path, target: Target) -> None:
    """Write a device for each rank."""
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
The list `rank_bindings`. Where each rank sees one device (`TT_VISIBLE_DEVICES`), that is its node;
else a node is a host, `mesh_host_rank`. The writer gives each rank a device; set the path of the
mesh's descriptor by hand. The format keeps no slots.
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
