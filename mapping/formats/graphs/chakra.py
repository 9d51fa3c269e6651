"""Chakra execution traces: a file for each rank, JSON or length-delimited protobuf."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from toruscast.errors import InputError

from ...comm_graph import MAX_TASKS, CommGraph, sum_edges
from .._source import at_file
from ..dialect import Dialect
from ..source import Source
from ._chakra_groups import Groups, group_name, members
from ._collectives import collective_total
from ._protobuf import chakra_nodes, is_chakra_start
from .options import GraphOptions

FILE = re.compile(r"(.*)\.([0-9]{1,9})\.(et|json)(?:\.gz)?")
TYPES = (
    *("INVALID_NODE", "METADATA_NODE", "MEM_LOAD_NODE", "MEM_STORE_NODE", "COMP_NODE"),
    *("COMM_SEND_NODE", "COMM_RECV_NODE", "COMM_COLL_NODE"),
)
COLLECTIVES = (
    *("ALL_REDUCE", "REDUCE", "ALL_GATHER", "GATHER", "SCATTER", "BROADCAST"),
    *("ALL_TO_ALL", "REDUCE_SCATTER", "REDUCE_SCATTER_BLOCK", "BARRIER"),
)
# Collective of ours, and the algorithm if none is named.
OURS = {
    "ALL_REDUCE": ("allreduce", "ring"),
    "REDUCE": ("reduce", "binomial"),
    "ALL_GATHER": ("allgather", "ring"),
    "GATHER": ("gather", "linear"),
    "SCATTER": ("scatter", "linear"),
    "BROADCAST": ("bcast", "binomial"),
    "ALL_TO_ALL": ("alltoall", "pairwise"),
    "REDUCE_SCATTER": ("reduce_scatter", "ring"),
    "REDUCE_SCATTER_BLOCK": ("reduce_scatter", "ring"),
}
JSON_START = re.compile(
    rb'\s*[\[{].{0,4000}?("COMM_(SEND|RECV|COLL)_NODE"|"comm_size"|"comm_type")', re.S
)
Node = dict[str, Any]


def is_chakra(source: Source) -> bool:
    """Whether this is a trace, or a folder or prefix of ``NAME.RANK.et``."""
    if not source.is_file:
        return bool(_rank_files(Path(source.path)))
    return bool(JSON_START.match(source.start)) or is_chakra_start(source.start)


def read(source: Source, options: GraphOptions) -> CommGraph:
    """Return the traffic of all ranks, collectives sent by a named algorithm."""
    options.refuse_messages()
    options.refuse_columns(source.path)
    files = _files(source)
    if len(files) > 1 and sorted(files) != list(range(len(files))):
        missing = next(rank for rank in range(max(files)) if rank not in files)
        raise InputError("trace of a rank missing", file=source.path, found=f"no rank {missing}")
    rows: list[tuple[int, int, float, float]] = []
    seen: Groups = {}
    for rank, file in files.items():
        for node in _nodes(file):
            if node["type"] == "COMM_SEND_NODE":
                src = _number(file, node, "comm_src", rank)
                rows.append((src, _number(file, node, "comm_dst"), _size(file, node), 1.0))
            elif node["type"] == "COMM_COLL_NODE":
                here = seen.setdefault(group_name(file, node), {}).setdefault(rank, Counter())
                here[_kind(file, node), _size(file, node)] += 1
    most = max((max(s, d) for s, d, *_ in rows), default=-1) + 1
    n_tasks = options.n_tasks or max(most, len(files) if len(files) > 1 else 0)
    if options.include == "collective":
        rows = []
    if options.include != "point_to_point":
        for ranks, shared in members(source, files, seen, n_tasks, options):
            for (kind, size), times in shared.items():
                rows += _expanded(source, kind, size, times, ranks, options)
    if not rows:
        raise InputError("Chakra trace without a message", file=source.path)
    with at_file(source.path):
        return sum_edges(n_tasks, *zip(*rows, strict=True), name=options.name)


def _expanded(
    source: Source, kind: str, size: float, times: int, ranks: list[int], options: GraphOptions
) -> list[tuple[int, int, float, float]]:
    """Messages of a collective of some ranks that stands ``times`` in the trace."""
    if kind == "BARRIER":
        return []
    collective, algorithm = OURS[kind]
    with at_file(source.path):
        total = collective_total(
            collective, len(ranks), size, options.collectives.get(collective, algorithm)
        )
    of = np.array(ranks)
    columns = (of[total.src], of[total.dst], total.nbytes * times, total.n_messages * times)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def _files(source: Source) -> dict[int, Source]:
    if source.is_file:
        match = FILE.fullmatch(Path(source.path).name)
        return {int(match[2]) if match else 0: source}
    return {rank: Source(file) for rank, file in _rank_files(Path(source.path)).items()}


def _rank_files(path: Path) -> dict[int, Path]:
    """The traces of a folder or prefix by rank; none if they have several names."""
    try:
        folder, start = (path, "") if path.is_dir() else (path.parent, path.name)
        found = [(FILE.fullmatch(file.name), file) for file in folder.iterdir()]
    except (OSError, ValueError):
        return {}
    named = [(m, file) for m, file in found if m and (not start or m[1] == start)]
    if len({(m[1], m[3]) for m, _ in named}) != 1:
        return {}
    return dict(sorted((int(m[2]), file) for m, file in named))


def _nodes(source: Source) -> Iterator[Node]:
    """Every node with its type as a word and its attributes by name."""
    if is_chakra_start(source.start):
        plain = chakra_nodes(source.path, source.data)
    else:
        plain = _json_nodes(source)
    for node in plain:
        kind = node.get("type", 0)
        known = isinstance(kind, int) and 0 <= kind < len(TYPES)
        word = TYPES[kind] if known else str(kind)
        if word not in TYPES:
            raise InputError("unknown node type", file=source.path, found=word, expected=TYPES[5])
        attributes = {
            str(a.get("name")): _value(a) for a in node.get("attr") or [] if isinstance(a, dict)
        }
        yield {**node, **attributes, "type": word}


def _json_nodes(source: Source) -> Iterator[Node]:
    """Nodes of a list, of an object with "nodes", or of objects behind each other."""
    decoder, words, at = json.JSONDecoder(), source.text.data.decode(), 0
    try:
        while at < len(words):
            content, at = decoder.raw_decode(words, at)
            while at < len(words) and words[at] in " \t\n,":
                at += 1
            found = content.get("nodes", [content]) if isinstance(content, dict) else content
            for node in found if isinstance(found, list) else ():
                if isinstance(node, dict) and ("type" in node or "id" in node):
                    yield node
    except (ValueError, RecursionError) as error:
        line = words.count("\n", 0, getattr(error, "pos", at)) + 1
        found_ = getattr(error, "msg", "nested too deeply")
        raise source.text.fault("damaged JSON", line, found_, "a Chakra trace") from None


def _value(attribute: Node) -> Any:
    """The value of an attribute, whatever its type is called."""
    for key, value in attribute.items():
        if key not in ("name", "doc_string", "docString"):
            return value
    return None


def _number(source: Source, node: Node, name: str, otherwise: int | None = None) -> int:
    value = node.get(name, otherwise)
    try:
        number = int(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        number = -1
    if not 0 <= number < MAX_TASKS:
        raise _fault(source, node, f"bad {name}", value, "a rank")
    return number


def _size(source: Source, node: Node) -> float:
    try:
        size = float(node.get("comm_size"))  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        size = -1.0
    if not 0 <= size <= 1e18:
        raise _fault(source, node, "bad comm_size", node.get("comm_size"), "bytes")
    return size


def _kind(source: Source, node: Node) -> str:
    kind = node.get("comm_type")
    word = str(kind)
    if word.isdigit() and int(word[:4]) < len(COLLECTIVES):
        word = COLLECTIVES[int(word[:4])]
    if word not in COLLECTIVES:
        expected = f"comm_type, one of {', '.join(COLLECTIVES)}"
        raise _fault(source, node, "Chakra collective of no known type", kind, expected)
    return word


def _fault(source: Source, node: Node, message: str, found: Any, expected: str) -> InputError:
    where = f"node {node.get('id', '?')}: {'none' if found is None else found}"
    return InputError(message, file=os.fspath(source.path), found=where, expected=expected)


DIALECT = Dialect(
    name="chakra",
    holds="graph",
    title="Chakra execution trace, JSON or protobuf",
    recognise=is_chakra,
    read=read,
    documentation="""
The traces of all ranks: a folder of `NAME.0.et`, `NAME.1.et`, ... (or `.json`), or `folder/NAME`;
or one file, which stands for all where `--tasks` says how many. Sends go from `comm_src` to
`comm_dst`. Collectives of all ranks are sent by a ring (all-reduce, all-gather, reduce-scatter), a
binomial tree (broadcast, reduce), pairwise (all-to-all) or directly (gather, scatter);
`--collectives allreduce=rabenseifner` names another algorithm. Collectives of a process group
(`pg_name`) go among the ranks in whose traces it stands, or those that `comm_group.json` beside
them lists (`{"1": [0, 2]}`). In JSON the attributes of a node may
stand in `attr` or beside its `type`.
""",
    example="""{"nodes": [
{"id": 1, "name": "s", "type": "COMM_SEND_NODE", "comm_src": 0, "comm_dst": 1, "comm_size": 4096},
{"id": 2, "name": "s", "type": "COMM_SEND_NODE", "comm_src": 1, "comm_dst": 2, "comm_size": 64}
]}
""",
)
