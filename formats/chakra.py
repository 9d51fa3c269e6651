"""Chakra execution traces: a file for each rank, JSON or length-delimited protobuf.

Sources: et_def.proto, `generator.py`, `text_converter.py` and `pytorch_converter.py` in
mlcommons/chakra (21585d8, 2026-05-20), and `examples/` in ASTRA-sim (518bd51, 2026-03-25). The
protobuf decoder supports only the features that et_def.proto uses.
"""

from __future__ import annotations

import json
import os
import re
import struct
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from heapq import heappop, heappush
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

from toruscast.errors import InputError
from toruscast.mapping.collectives.schedules import find_collective
from toruscast.mapping.comm_graph import MAX_TASKS, Workload

from . import _round_kernels as kinds
from .dialect import Dialect
from .graphs import GraphOptions, find_rank_files, has_rank_files
from .source import AnyPath, Source, read_text
from .traces import RankActions

FILE = re.compile(r"(.*)\.([0-9]{1,9})\.(et|json)(?:\.gz)?")
TYPES = (
    *("INVALID_NODE", "METADATA_NODE", "MEM_LOAD_NODE", "MEM_STORE_NODE", "COMP_NODE"),
    *("COMM_SEND_NODE", "COMM_RECV_NODE", "COMM_COLL_NODE"),
)
SEND, RECEIVE, COLLECTIVE = TYPES[5:]
COLLECTIVES = (
    *("ALL_REDUCE", "REDUCE", "ALL_GATHER", "GATHER", "SCATTER", "BROADCAST"),
    *("ALL_TO_ALL", "REDUCE_SCATTER", "REDUCE_SCATTER_BLOCK", "BARRIER"),
)
# Collectives for which comm_size is the contribution of one rank, so the whole buffer is n times as
# large. ASTRA-sim reads the field this way: in each step, Ring.cc sends comm_size bytes in an
# all-gather, but comm_size / n bytes in other collectives. Chakra's converter writes the sum of the
# input tensors (PyTorchNode.comm_size).
_PER_RANK = ("allgather", "gather")
JSON_START = re.compile(
    rb'\s*[\[{].{0,4000}?("COMM_(SEND|RECV|COLL)_NODE"|"comm_size"|"comm_type")', re.S
)
Node = dict[str, Any]
# By process group and rank: the number of calls of each collective with each size.
CallCounts = dict[str, dict[int, Counter[tuple[str, float]]]]
# Names of the default process group, which contains all ranks.
_WORLD_GROUPS = ("", "0", "default_pg", "None")
_GROUPS_FILE = "comm_group.json"
# Known keys of nodes, attributes and traces. Unknown keys are reported as omitted.
_NODE_KEYS = {
    *("id", "name", "type", "ctrl_deps", "data_deps", "attr", "inputs", "outputs"),
    *("start_time_micros", "duration_micros", "start_time_micro", "duration_micro"),
}
_ATTRIBUTES = {
    *("comm_size", "comm_type", "comm_src", "comm_dst", "comm_tag", "comm_group", "comm_priority"),
    *("pg_name", "involved_dim", "is_cpu_op", "num_ops", "tensor_size", "runtime", "stream", "tid"),
    *("rf_id", "fw_parent", "fw_tid", "seq_id", "scope", "op_schema", "kernel_backend"),
    *("kernel_file", "dtype", "parent", "ctrl_dep", "correlation", "cid", "pid", "ts", "dur"),
}
_TRACE_KEYS = {
    *("nodes", "schema", "version", "attr", "metadata", "global_metadata", "pid", "tid", "time"),
    *("start_ts", "finish_ts"),
}
_CAMEL_CASE = re.compile(r"(?<=[a-z])([A-Z])")
# All other keys of an attribute hold its value.
_NON_VALUE_KEYS = ("name", "doc_string", "docString")


def _is_chakra(source: Source) -> bool:
    if not source.is_file:
        return has_rank_files(source.path, "et|json")
    return bool(JSON_START.match(source.start)) or _is_binary(source)


def _is_binary(source: Source) -> bool:
    """Whether the file starts with protobuf messages of Chakra: metadata, then a node."""
    if not _CONTROL_BYTE.search(source.start[:256]):
        return False
    try:
        messages = _split_messages(source.start)
        keys = {key for key, _ in _split_fields(next(messages))}
        node = _decode_node(next(messages))
    except (ValueError, IndexError, struct.error, StopIteration):
        return False
    return keys <= {1, 2} and node.keys() <= _NODE_KEYS and node.get("type", 0) in range(1, 8)


def _read_chakra(source: Source, options: GraphOptions) -> Workload:
    """Read the traces of all ranks, or a single trace that all ranks repeat."""
    if source.is_file:
        match = FILE.fullmatch(Path(source.path).name)
        files = {int(match[2]) if match else 0: source}
    else:
        paths = find_rank_files(source.path, "et|json")
        files = {rank: Source(path) for rank, path in paths.items()}
    nodes = {
        rank: _sort_nodes(file, list(_read_nodes(file, options))) for rank, file in files.items()
    }
    calls: CallCounts = {}
    n_used = len(files) if len(files) > 1 else 0
    for rank, file in files.items():
        for node in nodes[rank]:
            if node["type"] == SEND:
                n_used = max(n_used, 1 + max(_read_endpoints(file, node, rank)))
            elif node["type"] == COLLECTIVE:
                counts = calls.setdefault(_read_group(file, node), {}).setdefault(rank, Counter())
                counts[_read_collective(file, node), _read_size(file, node)] += 1
    n_tasks = options.resolve_n_tasks(n_used, source.path)
    groups = {}
    if options.include != "point_to_point":
        groups = _find_groups(source, files, calls, n_tasks, options)
    program = _list_actions(files, nodes, groups, options)
    return program.build_workload(source.path, n_tasks, options)


def _list_actions(
    files: Mapping[int, Source],
    nodes: Mapping[int, Sequence[Node]],
    groups: Mapping[str, Sequence[int]],
    options: GraphOptions,
) -> RankActions:
    """Return the messages of each rank, and its collectives in the given process groups.

    If there is only one trace, all ranks of a group call its collectives.
    """
    program = RankActions()
    numbers = {name: number for number, name in enumerate(groups, 1)}
    program.members = {numbers[name]: tuple(ranks) for name, ranks in groups.items()}
    for rank, file in files.items():
        for node in nodes[rank]:
            # Keep 31 bits, because a number in JSON may not fit into the array of tags.
            tag = _convert(int, node.get("comm_tag", 0), 0) & (2**31 - 1)
            if node["type"] == SEND:
                src, dst = _read_endpoints(file, node, rank)
                program.add_message(kinds.SEND, src, dst, _read_size(file, node), tag=tag)
            elif node["type"] == RECEIVE and "comm_src" not in node:
                reason = "comm_src is missing, so no message depends on it"
                options.omit("receive", f"node {node.get('id', '?')}", 0.0, reason)
            elif node["type"] == RECEIVE:
                src, dst = _read_endpoints(file, {"comm_dst": rank} | node)
                nbytes = _read_size(file, {"comm_size": 0} | node)
                program.add_message(kinds.RECEIVE, dst, src, nbytes, tag=tag)
            elif node["type"] == COLLECTIVE and groups:
                name = _read_group(file, node)
                collective = find_collective(_read_collective(file, node)) or ""
                nbytes = _read_size(file, node)
                if collective in _PER_RANK and options.gathered == "each":
                    nbytes *= len(groups[name])
                for task in [rank] if len(files) > 1 else groups[name]:
                    key = program.add_collective(task, numbers[name], collective)
                    program.sizes[key] = nbytes
    return program


def _read_endpoints(source: Source, node: Node, rank: int | None = None) -> tuple[int, int]:
    return _read_rank(source, node, "comm_src", rank), _read_rank(source, node, "comm_dst")


def _convert(number_type: Callable[[Any], Any], value: Any, default: Any) -> Any:
    try:
        return number_type(value)
    except (TypeError, ValueError, OverflowError):
        return default


def _sort_nodes(source: Source, nodes: list[Node]) -> list[Node]:
    """Sort nodes so that each node follows its dependencies, and collectives keep their order.

    If several nodes could come next, receives come last and collectives second to last.
    """
    index_by_id = {str(node.get("id")): index for index, node in enumerate(nodes)}
    before: list[set[int]] = []
    for node in nodes:
        lists = [node[key] for key in DEPENDENCIES.values() if isinstance(node.get(key), list)]
        ids = [str(other) for others in lists for other in others]
        before.append({index_by_id[name] for name in ids if name in index_by_id})
    try:
        order = _sort_topologically(before)
    except CycleError as error:
        node = nodes[min(error.args[1])]
        message, found = "nodes depend on each other", node.get("name")
        raise _node_error(source, node, message, found, "no cycle") from None
    collectives = [i for i in order if nodes[i]["type"] == COLLECTIVE]
    for earlier, later in pairwise(collectives):
        before[later].add(earlier)
    position = {i: number for number, i in enumerate(order)}
    priority = {COLLECTIVE: 1, RECEIVE: 2}
    order = _sort_topologically(before, lambda i: (priority.get(nodes[i]["type"], 0), position[i]))
    return [nodes[i] for i in order]


def _sort_topologically(
    before: Sequence[Collection[int]], key: Callable[[int], Any] = lambda _: 0
) -> list[int]:
    """Sort indexes so that each i follows ``before[i]``; of those ready, take the lowest key."""
    sorter = TopologicalSorter(dict(enumerate(before)))
    sorter.prepare()
    ready: list[tuple[Any, int]] = []
    order = []
    while sorter.is_active():
        for i in sorter.get_ready():
            heappush(ready, (key(i), i))
        _, i = heappop(ready)
        order.append(i)
        sorter.done(i)
    return order


def _read_nodes(source: Source, options: GraphOptions) -> Iterator[Node]:
    """Yield the nodes of a trace as dictionaries of their fields and attributes."""
    if _CONTROL_BYTE.search(source.start):
        raw_nodes = _decode_nodes(source.path, source.data)
    else:
        raw_nodes = _read_json_nodes(source, options)
    for raw in raw_nodes:
        # Protobuf's JSON mapping writes ctrlDeps for ctrl_deps.
        node = {_CAMEL_CASE.sub(r"_\1", key).lower(): value for key, value in raw.items()}
        kind = node.get("type", 0)
        is_number = isinstance(kind, int) and 0 <= kind < len(TYPES)
        type_name = TYPES[kind] if is_number else str(kind)
        if type_name not in TYPES:
            raise InputError("unknown node type", file=source.path, found=type_name, expected=SEND)
        # An attribute stores its value under a key that names the type, such as "int64_val".
        attributes = {
            str(a.get("name")): next((a[key] for key in a if key not in _NON_VALUE_KEYS), None)
            for a in node.get("attr") or []
            if isinstance(a, dict)
        }
        merged = {**node, **attributes, "type": type_name}
        if type_name in (SEND, RECEIVE, COLLECTIVE):
            for key in merged.keys() - _NODE_KEYS - _ATTRIBUTES:
                options.omit("attribute of a node", key)
        elif size := _convert(float, merged.get("comm_size"), 0.0):
            options.omit(f"{type_name} with comm_size", nbytes=size)
        yield merged


def _read_json_nodes(source: Source, options: GraphOptions) -> Iterator[Node]:
    """Yield the nodes in a JSON list, an object's list "nodes", or concatenated objects."""
    decoder, text, position = json.JSONDecoder(), source.text.data.decode(), 0
    try:
        while position < len(text):
            content, position = decoder.raw_decode(text, position)
            while position < len(text) and text[position] in " \t\n,":
                position += 1
            nodes = content.get("nodes", [content]) if isinstance(content, dict) else content
            if isinstance(content, dict) and not {"type", "id"} & content.keys():
                for key in content.keys() - _TRACE_KEYS:
                    options.omit("key of the trace", key)
                nodes = content.get("nodes", [])
            for node in nodes if isinstance(nodes, list) else [nodes]:
                if not isinstance(node, dict) or not {"type", "id"} & node.keys():
                    line = text.count("\n", 0, position) + 1
                    raise source.text.fault("bad node", line, str(node), 'an "id" and a "type"')
                yield node
    except InputError:
        raise
    except (ValueError, RecursionError) as error:
        line = text.count("\n", 0, getattr(error, "pos", position)) + 1
        reason = getattr(error, "msg", "nested too deeply")
        raise source.text.fault("damaged JSON", line, reason, "a Chakra trace") from None


def _read_rank(source: Source, node: Node, name: str, default: int | None = None) -> int:
    value = node.get(name, default)
    number: int = _convert(int, value, -1)
    if not 0 <= number < MAX_TASKS:
        raise _node_error(source, node, f"bad {name}", value, "a rank")
    return number


def _read_size(source: Source, node: Node) -> float:
    size: float = _convert(float, node.get("comm_size"), -1.0)
    if not 0 <= size <= 1e18:
        raise _node_error(source, node, "bad comm_size", node.get("comm_size"), "bytes")
    return size


def _read_collective(source: Source, node: Node) -> str:
    """Return Chakra's name of a collective; ``comm_type`` may be the name or its number."""
    kind = node.get("comm_type")
    word = str(kind)
    if word.isdigit() and int(word[:4]) < len(COLLECTIVES):
        word = COLLECTIVES[int(word[:4])]
    if word not in COLLECTIVES:
        expected = f"comm_type, one of {', '.join(COLLECTIVES)}"
        raise _node_error(source, node, "unknown Chakra collective", kind, expected)
    return word


def _read_group(source: Source, node: Mapping[str, Any]) -> str:
    """Return the name of a collective's process group; "" for the group of all ranks."""
    dims = node.get("involved_dim")
    if isinstance(dims, dict):
        dims = dims.get("values")
    if isinstance(dims, list) and not all(dims):
        fault = "Chakra collective along some dimensions of an ASTRA-sim network"
        raise _node_error(source, node, fault, f"involved_dim {dims}", "process groups (pg_name)")
    name = node.get("pg_name", node.get("comm_group"))
    return "" if name is None or str(name) in _WORLD_GROUPS else str(name)


def _find_groups(
    source: Source,
    files: Mapping[int, Source],
    calls: CallCounts,
    n_tasks: int,
    options: GraphOptions,
) -> dict[str, list[int]]:
    """Return the sorted ranks of each process group that calls a collective, by group name.

    They are the ranks that ``comm_group.json`` lists, or else those whose traces name the group.
    All ranks of a group must call the same collectives.
    """
    is_single = len(files) < 2
    listed = _read_groups_file(source) if set(calls) - {""} else {}
    members = {}
    for name, counts in calls.items():
        if is_single and not name and (n_tasks < 2 or options.n_tasks is None):
            expected = "the traces of all ranks (folder or NAME of NAME.0.et, NAME.1.et, ...), "
            expected += "or the number of tasks (n_tasks=, --tasks)"
            message = "Chakra trace of one rank without the number of ranks in its collectives"
            raise InputError(message, file=source.path, expected=expected)
        ranks = [*range(n_tasks)] if not name else listed.get(name, sorted(counts))
        if is_single and name and name not in listed:
            message = "Chakra trace of one rank without the ranks of its process groups"
            expected = f"the traces of all ranks, or {_GROUPS_FILE} in its folder"
            raise InputError(message, file=source.path, found=f"pg_name {name}", expected=expected)
        if not ranks or ranks[-1] >= n_tasks:
            found, expected = f"{ranks[-1:]} of pg_name {name}", f"0 to {n_tasks - 1}"
            message = "rank of a process group out of range"
            raise InputError(message, file=source.path, found=found, expected=expected)
        expected_counts = next(iter(counts.values()))
        for rank in ranks if not is_single else counts:
            if counts.get(rank) != expected_counts:
                where = f"rank {rank}" + (f", pg_name {name}" if name else "")
                raise InputError("collectives of the ranks differ", file=source.path, found=where)
        members[name] = ranks
    return members


def _read_groups_file(source: Source) -> dict[str, list[int]]:
    """Return the ranks by process group from ``comm_group.json``; empty without this file."""
    path = Path(source.path)
    file = (path if path.is_dir() else path.parent) / _GROUPS_FILE
    if not file.is_file():
        return {}
    text = read_text(file)
    content = text.json()
    if not isinstance(content, dict) or not all(map(_are_ranks, content.values())):
        raise text.fault("bad process groups", 1, str(content)[:60], '{"1": [0, 2]}')
    return {str(name): sorted(set(ranks)) for name, ranks in content.items()}


def _are_ranks(value: object) -> bool:
    return isinstance(value, list) and all(type(rank) is int and rank >= 0 for rank in value)


def _node_error(
    source: Source, node: Mapping[str, Any], message: str, found: Any, expected: str
) -> InputError:
    where = f"node {node.get('id', '?')}: {'none' if found is None else found}"
    return InputError(message, file=os.fspath(source.path), found=where, expected=expected)


DIALECT = Dialect(
    name="chakra",
    uses=("include", "collectives", "gathered"),
    holds="graph",
    title="Chakra execution trace, JSON or protobuf",
    recognise=_is_chakra,
    read=_read_chakra,
    suffixes=(".et",),
    documentation="""
The traces of all ranks: a folder of `NAME.0.et`, `NAME.1.et`, ... (or `.json`), or `folder/NAME`;
or a single file, repeated by each of the `--tasks` ranks. Sends go from `comm_src` to `comm_dst`
and become a workload of dependent rounds. A send belongs to a later round than all messages that
its rank received before it; messages that the rank receives after it are in the same or a later
round. A message that overtakes another shares its round. A collective begins when its last rank
reaches it. Nodes wait for their `ctrl_deps` and `data_deps`, and collectives also for earlier
collectives of their rank. If more than 1,000 rounds repeat, the mean of all iterations is read.

A collective uses a ring (all-reduce, all-gather, reduce-scatter), a binomial tree (broadcast,
reduce), pairwise exchange (all-to-all) or direct messages (gather, scatter);
`--collectives allreduce=rabenseifner` selects another algorithm. `comm_size` is the contribution of
one rank, as in ASTRA-sim and Chakra's converters; `--gathered whole` reads it as the whole gathered
buffer, as in SimAI. A process group (`pg_name`) consists of the ranks whose traces name it, or of
those that `comm_group.json` in the same folder lists (`{"1": [0, 2]}`). In JSON the attributes of a
node may be in `attr` or next to its `type`.
""",
    example="""{"nodes": [
{"id": 1, "name": "s", "type": "COMM_SEND_NODE", "comm_src": 0, "comm_dst": 1, "comm_size": 4096},
{"id": 2, "name": "s", "type": "COMM_SEND_NODE", "comm_src": 1, "comm_dst": 2, "comm_size": 64}
]}
""",
)


# Wire types of protobuf, in the lowest three bits of the tag before each field.
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
# Field numbers of a node.
_SCALARS, ATTRIBUTE = {1: "id", 2: "name", 3: "type"}, 10
# Times, inputs and outputs, which are not read.
_UNUSED = range(6, 10)
DEPENDENCIES = {4: "ctrl_deps", 5: "data_deps"}
# The field tags of binary traces contain control bytes; JSON text contains none.
_CONTROL_BYTE = re.compile(rb"[\x00-\x08\x0e-\x1f]")


def _decode_nodes(path: AnyPath, data: bytes) -> Iterator[dict[str, Any]]:
    try:
        for message in islice(_split_messages(data), 1, None):
            yield _decode_node(message)
    except (ValueError, IndexError, struct.error) as error:
        found = str(error) or type(error).__name__
        raise InputError("damaged Chakra trace", file=path, found=found) from None


def _split_messages(data: bytes) -> Iterator[bytes]:
    """Yield the messages of a file, in which each message is preceded by its length."""
    position, number = 0, 0
    while position < len(data):
        size, position = _read_varint(data, position)
        if size > len(data) - position:
            raise ValueError(f"message {number} is cut")
        yield data[position : position + size]
        position, number = position + size, number + 1


def _decode_node(data: bytes) -> dict[str, Any]:
    """Return the fields of a node by JSON name."""
    node: dict[str, Any] = {"attr": []}
    for key, value in _split_fields(data):
        if key in _SCALARS:
            text = value.decode(errors="replace") if isinstance(value, bytes) else value
            node[_SCALARS[key]] = text
        elif key in DEPENDENCIES:
            node.setdefault(DEPENDENCIES[key], []).extend(_decode_numbers(value))
        elif key == ATTRIBUTE and isinstance(value, bytes):
            node["attr"].append(_decode_attribute(value))
        elif key not in _UNUSED:
            node[f"field {key}"] = value
    return node


def _decode_numbers(value: int | bytes) -> list[int]:
    """Return the numbers of a repeated field: a single varint, or several packed ones."""
    if isinstance(value, int):
        return [value]
    numbers, position = [], 0
    while position < len(value):
        number, position = _read_varint(value, position)
        numbers.append(number)
    return numbers


def _decode_attribute(data: bytes) -> dict[str, Any]:
    """Return the name and the value of an attribute of a node."""
    attribute: dict[str, Any] = {}
    for key, value in _split_fields(data):
        if isinstance(value, int) and key in _VARINT_DECODERS:
            attribute["value"] = _VARINT_DECODERS[key](value)
        elif isinstance(value, bytes) and key in _FORMATS:
            (attribute["value"],) = struct.unpack(_FORMATS[key], value)
        elif isinstance(value, bytes) and key in _BYTES_DECODERS:
            attribute["name" if key == 1 else "value"] = _BYTES_DECODERS[key](value)
    return attribute


def _split_fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the number and the value (int or bytes) of each field of a protobuf message."""
    position = 0
    while position < len(data):
        tag, position = _read_varint(data, position)
        kind = tag & 7
        if kind == VARINT:
            value, position = _read_varint(data, position)
            yield tag >> 3, value
            continue
        length = {FIXED64: 8, FIXED32: 4}.get(kind)
        if kind == BYTES:
            length, position = _read_varint(data, position)
        if length is None or length > len(data) - position:
            raise ValueError(f"bad field {tag >> 3}")
        yield tag >> 3, data[position : position + length]
        position += length


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    """Read a number of seven bits per byte at a position; return it and the position after it."""
    value = 0
    for shift in range(0, 70, 7):
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
    raise ValueError("varint of more than ten bytes")


# Decoders for the value of an attribute, by field number. Fields 15 and 17 are zigzag-encoded, and
# field 1 is the name of the attribute.
_VARINT_DECODERS: dict[int, Callable[[int], Any]] = {
    **dict.fromkeys((7, 9, 11, 13, 27), int),
    **dict.fromkeys((15, 17), lambda value: value >> 1 ^ -(value & 1)),
}
# Formats of the fields with a fixed size, for `struct.unpack`.
_FORMATS = {3: "<d", 5: "<f", 19: "<I", 21: "<Q", 23: "<i", 25: "<q"}
_BYTES_DECODERS: dict[int, Callable[[bytes], Any]] = {
    **dict.fromkeys((1, 29), lambda data: data.decode(errors="replace")),
    28: lambda data: [bool(n) for _, value in _split_fields(data) for n in _decode_numbers(value)],
}
DIALECTS = (DIALECT,)
