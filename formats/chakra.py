"""Chakra execution traces: a file for each rank, JSON or length-delimited protobuf.

Patterns were `generator.py`, `text_converter.py` and `pytorch_converter.py` of mlcommons/chakra
(21585d8, 2026-05-20), and the traces in `examples/` of ASTRA-sim (518bd51, 2026-03-25). The
reader knows as much of protobuf as the published schema (et_def.proto) needs.
"""

from __future__ import annotations

import json
import os
import re
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

from toruscast.errors import InputError
from toruscast.mapping.collectives.schedules import find_collective
from toruscast.mapping.comm_graph import MAX_TASKS, Workload

from . import _round_kernels as kinds
from .dialect import Dialect
from .graphs import GraphOptions, has_rank_files, rank_files
from .source import Source
from .traces import RankActions, topological_order

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
# comm_size is what each rank puts in. So ASTRA-sim reads it (Workload.cc hands it on, Ring.cc sends
# messages of all of it in an all-gather, and of an n-th of it in an all-reduce, a reduce-scatter
# and an all-to-all), and so Chakra's converter writes it (PyTorchNode.comm_size adds up the input
# tensors). The whole buffer of these collectives is n times as long.
_OF_EACH = ("allgather", "gather")
JSON_START = re.compile(
    rb'\s*[\[{].{0,4000}?("COMM_(SEND|RECV|COLL)_NODE"|"comm_size"|"comm_type")', re.S
)
Node = dict[str, Any]
# Kind and size of each collective, by rank, by the name of its process group.
Groups = dict[str, dict[int, Counter[tuple[str, float]]]]
# Names of the group of all ranks.
EVERYONE = ("", "0", "default_pg", "None")
LISTS = "comm_group.json"
# Keys of nodes, attributes that are read or say nothing about messages, and keys of a trace.
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
_HEAD_KEYS = {
    *("nodes", "schema", "version", "attr", "metadata", "global_metadata", "pid", "tid", "time"),
    *("start_ts", "finish_ts"),
}
_CAPITAL = re.compile(r"(?<=[a-z])([A-Z])")
# Keys of an attribute that do not hold its value.
_NO_VALUES = ("name", "doc_string", "docString")


def is_chakra(source: Source) -> bool:
    """Whether this is a trace in JSON, or a folder or prefix of ``NAME.RANK.et``."""
    if not source.is_file:
        return has_rank_files(source.path, "et|json")
    return bool(JSON_START.match(source.start)) or _is_binary(source)


def _is_binary(source: Source) -> bool:
    """Whether metadata and a node of the published schema stand at the start."""
    if not _CONTROL.search(source.start[:256]):
        return False
    try:
        messages = _wire_messages(source.start)
        about = {key for key, _ in _wire_fields(next(messages))}
        node = _wire_node(next(messages))
    except (ValueError, IndexError, struct.error, StopIteration):
        return False
    return about <= {1, 2} and node.keys() <= _NODE_KEYS and node.get("type", 0) in range(1, 8)


def read(source: Source, options: GraphOptions) -> Workload:
    """Return the rounds of all ranks, collectives sent by a named algorithm."""
    files = _files_by_rank(source)
    nodes = {
        rank: _in_order(file, list(_read_nodes(file, options))) for rank, file in files.items()
    }
    seen: Groups = {}
    most = len(files) if len(files) > 1 else 0
    for rank, file in files.items():
        for node in nodes[rank]:
            if node["type"] == SEND:
                most = max(most, 1 + max(_ends_of(file, node, rank)))
            elif node["type"] == COLLECTIVE:
                here = seen.setdefault(_group_name(file, node), {}).setdefault(rank, Counter())
                here[_collective_type(file, node), _size_of(file, node)] += 1
    n_tasks = options.at_least(most, source.path)
    groups = {}
    if options.include != "point_to_point":
        groups = _group_members(source, files, seen, n_tasks, options)
    return _rank_actions(files, nodes, groups, options).rounds(source.path, n_tasks, options)


def _rank_actions(
    files: Mapping[int, Source],
    nodes: Mapping[int, Sequence[Node]],
    groups: Mapping[str, Sequence[int]],
    options: GraphOptions,
) -> RankActions:
    """Return the ranks' actions, each in its order; all ranks repeat a trace that is alone."""
    program = RankActions()
    numbers = {name: number for number, name in enumerate(groups, 1)}
    program.members = {numbers[name]: tuple(ranks) for name, ranks in groups.items()}
    for rank, file in files.items():
        for node in nodes[rank]:
            if node["type"] == SEND:
                src, dst = _ends_of(file, node, rank)
                program.message(kinds.SEND, src, dst, _size_of(file, node), tag=_tag_of(node))
            elif node["type"] == RECEIVE and "comm_src" not in node:
                why = "it holds up no message, because comm_src is missing"
                options.omit("receive", f"node {node.get('id', '?')}", 0.0, why)
            elif node["type"] == RECEIVE:
                src, dst = _ends_of(file, {"comm_dst": rank} | node)
                size = _size_of(file, {"comm_size": 0} | node)
                program.message(kinds.RECEIVE, dst, src, size, tag=_tag_of(node))
            elif node["type"] == COLLECTIVE and groups:
                name = _group_name(file, node)
                collective = find_collective(_collective_type(file, node)) or ""
                size = _size_of(file, node)
                if collective in _OF_EACH and options.gathered == "each":
                    size *= len(groups[name])
                for task in [rank] if len(files) > 1 else groups[name]:
                    key = program.collective(task, numbers[name], collective)
                    program.sizes[key] = size
    return program


def _ends_of(source: Source, node: Node, rank: int | None = None) -> tuple[int, int]:
    return _rank_number(source, node, "comm_src", rank), _rank_number(source, node, "comm_dst")


def _converted(kind: Callable[[Any], Any], value: Any, otherwise: Any) -> Any:
    """Return a value as a number of a kind, or ``otherwise``."""
    try:
        return kind(value)
    except (TypeError, ValueError, OverflowError):
        return otherwise


def _tag_of(node: Node) -> int:
    tag: int = _converted(int, node.get("comm_tag", 0), 0)
    return tag & (2**31 - 1)


def _in_order(source: Source, nodes: list[Node]) -> list[Node]:
    """Return nodes in an order in which each follows those that it waits for."""
    place = {str(node.get("id")): at for at, node in enumerate(nodes)}
    before = [
        {
            place[str(other)]
            for key in DEPENDENCIES.values()
            if isinstance(others := node.get(key), list)
            for other in others
            if str(other) in place
        }
        for node in nodes
    ]
    order = topological_order(before)
    if len(order) < len(nodes):
        node = nodes[min({*range(len(nodes))} - {*order})]
        raise _node_fault(source, node, "nodes wait for each other", node.get("name"), "no circle")
    chain = [at for at in order if nodes[at]["type"] == COLLECTIVE]
    for earlier, later in pairwise(chain):
        before[later].add(earlier)
    turn = {at: number for number, at in enumerate(order)}
    late = {COLLECTIVE: 1, RECEIVE: 2}
    by_turn = topological_order(before, lambda at: (late.get(nodes[at]["type"], 0), turn[at]))
    return [nodes[at] for at in by_turn]


def _files_by_rank(source: Source) -> dict[int, Source]:
    if source.is_file:
        match = FILE.fullmatch(Path(source.path).name)
        return {int(match[2]) if match else 0: source}
    return {rank: Source(file) for rank, file in rank_files(source.path, "et|json").items()}


def _read_nodes(source: Source, options: GraphOptions) -> Iterator[Node]:
    """Every node with its type as a word and its attributes by name."""
    if _CONTROL.search(source.start):
        plain = chakra_nodes(source.path, source.data)
    else:
        plain = _json_nodes(source, options)
    for written in plain:
        # Protobuf's own JSON has ctrlDeps in place of ctrl_deps.
        node = {_CAPITAL.sub(r"_\1", key).lower(): value for key, value in written.items()}
        kind = node.get("type", 0)
        known = isinstance(kind, int) and 0 <= kind < len(TYPES)
        word = TYPES[kind] if known else str(kind)
        if word not in TYPES:
            raise InputError("unknown node type", file=source.path, found=word, expected=TYPES[5])
        # The value of an attribute stands under the name of its type.
        attributes = {
            str(a.get("name")): next((a[key] for key in a if key not in _NO_VALUES), None)
            for a in node.get("attr") or []
            if isinstance(a, dict)
        }
        found = {**node, **attributes, "type": word}
        if word in (SEND, RECEIVE, COLLECTIVE):
            for key in found.keys() - _NODE_KEYS - _ATTRIBUTES:
                options.omit("attribute of a node", key)
        elif size := _converted(float, found.get("comm_size"), 0.0):
            options.omit(f"{word} with comm_size", nbytes=size)
        yield found


def _json_nodes(source: Source, options: GraphOptions) -> Iterator[Node]:
    """Nodes of a list, of an object with "nodes", or of objects behind each other."""
    decoder, words, at = json.JSONDecoder(), source.text.data.decode(), 0
    try:
        while at < len(words):
            content, at = decoder.raw_decode(words, at)
            while at < len(words) and words[at] in " \t\n,":
                at += 1
            found = content.get("nodes", [content]) if isinstance(content, dict) else content
            if isinstance(content, dict) and not {"type", "id"} & content.keys():
                for key in content.keys() - _HEAD_KEYS:
                    options.omit("key of the trace", key)
                found = content.get("nodes", [])
            for node in found if isinstance(found, list) else [found]:
                if not (isinstance(node, dict) and ("type" in node or "id" in node)):
                    line = words.count("\n", 0, at) + 1
                    raise source.text.fault(
                        "bad node", line, str(node)[:80], 'an "id" and a "type"'
                    )
                yield node
    except InputError:
        raise
    except (ValueError, RecursionError) as error:
        line = words.count("\n", 0, getattr(error, "pos", at)) + 1
        found_ = getattr(error, "msg", "nested too deeply")
        raise source.text.fault("damaged JSON", line, found_, "a Chakra trace") from None


def _rank_number(source: Source, node: Node, name: str, otherwise: int | None = None) -> int:
    value = node.get(name, otherwise)
    number: int = _converted(int, value, -1)
    if not 0 <= number < MAX_TASKS:
        raise _node_fault(source, node, f"bad {name}", value, "a rank")
    return number


def _size_of(source: Source, node: Node) -> float:
    size: float = _converted(float, node.get("comm_size"), -1.0)
    if not 0 <= size <= 1e18:
        raise _node_fault(source, node, "bad comm_size", node.get("comm_size"), "bytes")
    return size


def _collective_type(source: Source, node: Node) -> str:
    kind = node.get("comm_type")
    word = str(kind)
    if word.isdigit() and int(word[:4]) < len(COLLECTIVES):
        word = COLLECTIVES[int(word[:4])]
    if word not in COLLECTIVES:
        expected = f"comm_type, one of {', '.join(COLLECTIVES)}"
        raise _node_fault(source, node, "Chakra collective of no known type", kind, expected)
    return word


def _group_name(source: Source, node: Mapping[str, Any]) -> str:
    """Return the process group of a collective; "" for all ranks."""
    dims = node.get("involved_dim")
    if isinstance(dims, dict):
        dims = dims.get("values")
    if isinstance(dims, list) and not all(dims):
        fault = "Chakra collective along some dimensions only, which ASTRA-sim's network file tells"
        raise _node_fault(source, node, fault, f"involved_dim {dims}", "process groups (pg_name)")
    name = node.get("pg_name", node.get("comm_group"))
    return "" if name is None or str(name) in EVERYONE else str(name)


def _group_members(
    source: Source,
    files: Mapping[int, Source],
    seen: Groups,
    n_tasks: int,
    options: GraphOptions,
) -> dict[str, list[int]]:
    """Return the ranks of each group."""
    alone = len(files) < 2
    lists = _listed_groups(source) if set(seen) - {""} else {}
    found = {}
    for name, by_rank in seen.items():
        if alone and not name and (n_tasks < 2 or options.n_tasks is None):
            raise InputError(
                "Chakra trace of one rank: the number of ranks in its collectives is not known",
                file=source.path,
                expected="the traces of all ranks (folder or NAME of NAME.0.et, NAME.1.et, ...), "
                "or the number of tasks (n_tasks=, --tasks)",
            )
        ranks = [*range(n_tasks)] if not name else lists.get(name, sorted(by_rank))
        if alone and name and name not in lists:
            raise InputError(
                "Chakra trace of one rank: the ranks in its process groups are not known",
                file=source.path,
                found=f"pg_name {name}",
                expected=f"the traces of all ranks, or {LISTS} beside it",
            )
        if not ranks or ranks[-1] >= n_tasks:
            raise InputError(
                "rank of a process group out of range",
                file=source.path,
                found=f"{ranks[-1:]} of pg_name {name}",
                expected=f"0 to {n_tasks - 1}",
            )
        shared = next(iter(by_rank.values()))
        for rank in ranks if not alone else by_rank:
            if by_rank.get(rank) != shared:
                where = f"rank {rank}" + (f", pg_name {name}" if name else "")
                raise InputError("collectives of the ranks differ", file=source.path, found=where)
        found[name] = ranks
    return found


def _listed_groups(source: Source) -> dict[str, list[int]]:
    """The ranks of groups that a file beside the traces lists."""
    place = Path(source.path)
    file = (place if place.is_dir() else place.parent) / LISTS
    if not file.is_file():
        return {}
    listed = Source(file)
    content = listed.text.json()
    lists = content.items() if isinstance(content, dict) else ()
    good = {
        str(name): sorted(set(ranks))
        for name, ranks in lists
        if isinstance(ranks, list) and all(type(rank) is int and rank >= 0 for rank in ranks)
    }
    if not isinstance(content, dict) or len(good) < len(content):
        raise listed.text.fault("bad groups", 1, str(content)[:60], '{"1": [0, 2]}')
    return good


def _node_fault(
    source: Source, node: Mapping[str, Any], message: str, found: Any, expected: str
) -> InputError:
    where = f"node {node.get('id', '?')}: {'none' if found is None else found}"
    return InputError(message, file=os.fspath(source.path), found=where, expected=expected)


DIALECT = Dialect(
    name="chakra",
    uses=("include", "collectives", "gathered"),
    holds="graph",
    title="Chakra execution trace, JSON or protobuf",
    recognise=is_chakra,
    read=read,
    suffixes=(".et",),
    documentation="""
The traces of all ranks: a folder of `NAME.0.et`, `NAME.1.et`, ... (or `.json`), or `folder/NAME`;
or one file, which all of `--tasks` ranks then repeat. Sends go from `comm_src` to
`comm_dst`. They become a workload of dependent rounds: a send falls into the round after the latest
message that its rank had received before it, and a collective begins when its last rank has reached
it. Nodes wait for those that `ctrl_deps` and `data_deps` name, and collectives for those above
them. Where more than 1,000 rounds repeat, one iteration is read, the mean of all.

A collective is sent by a ring (all-reduce, all-gather, reduce-scatter), a binomial tree (broadcast,
reduce), pairwise (all-to-all) or directly (gather, scatter); `--collectives allreduce=rabenseifner`
names another algorithm. `comm_size` is what each rank puts in, as ASTRA-sim and Chakra's converters
take it; where it is the whole gathered buffer, as in SimAI, say `--gathered whole`. Collectives of
a process group (`pg_name`) go among the ranks whose traces name it, or those that
`comm_group.json` beside them lists (`{"1": [0, 2]}`). In JSON the attributes of a node may stand in
`attr` or beside its `type`.
""",
    example="""{"nodes": [
{"id": 1, "name": "s", "type": "COMM_SEND_NODE", "comm_src": 0, "comm_dst": 1, "comm_size": 4096},
{"id": 2, "name": "s", "type": "COMM_SEND_NODE", "comm_src": 1, "comm_dst": 2, "comm_size": 64}
]}
""",
)


VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
# Fields of a Node and of its attributes that are of use here.
_ID, _NAME, _TYPE, ATTRIBUTE = 1, 2, 3, 10
# Times, inputs and outputs.
_UNUSED = range(6, 10)
DEPENDENCIES = {4: "ctrl_deps", 5: "data_deps"}
# Tags of nodes and of attributes are such bytes, which no text holds.
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f]")


def chakra_nodes(path: str | os.PathLike[str], data: bytes) -> Iterator[dict[str, Any]]:
    """Yield the nodes behind the metadata."""
    try:
        for message in islice(_wire_messages(data), 1, None):
            yield _wire_node(message)
    except (ValueError, IndexError, struct.error) as error:
        found = str(error) or type(error).__name__
        raise InputError("damaged Chakra trace", file=path, found=found) from None


def _wire_messages(data: bytes) -> Iterator[bytes]:
    at, number = 0, 0
    while at < len(data):
        size, at = _read_varint(data, at)
        if size > len(data) - at:
            raise ValueError(f"message {number} is cut")
        yield data[at : at + size]
        at, number = at + size, number + 1


def _wire_node(data: bytes) -> dict[str, Any]:
    node: dict[str, Any] = {"attr": []}
    for key, value in _wire_fields(data):
        if key == _ID:
            node["id"] = value
        elif key == _NAME and isinstance(value, bytes):
            node["name"] = value.decode(errors="replace")
        elif key == _TYPE:
            node["type"] = value
        elif key in DEPENDENCIES:
            node.setdefault(DEPENDENCIES[key], []).extend(_wire_numbers(value))
        elif key == ATTRIBUTE and isinstance(value, bytes):
            node["attr"].append(_wire_attribute(value))
        elif key not in _UNUSED:
            node[f"field {key}"] = value
    return node


def _unpack_value(form: str, data: bytes) -> Any:
    return struct.unpack(form, data)[0]


def _wire_numbers(value: int | bytes) -> list[int]:
    """One number, or those of a packed list."""
    if isinstance(value, int):
        return [value]
    found, at = [], 0
    while at < len(value):
        number, at = _read_varint(value, at)
        found.append(number)
    return found


def _wire_attribute(data: bytes) -> dict[str, Any]:
    attribute: dict[str, Any] = {}
    for key, value in _wire_fields(data):
        if isinstance(value, int) and key in _OF_VARINT:
            attribute["value"] = _OF_VARINT[key](value)
        elif isinstance(value, bytes) and key in _OF_BYTES:
            attribute["name" if key == 1 else "value"] = _OF_BYTES[key](value)
    return attribute


def _wire_fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Number and value of each field of a message."""
    at = 0
    while at < len(data):
        tag, at = _read_varint(data, at)
        kind = tag & 7
        if kind == VARINT:
            value, at = _read_varint(data, at)
            yield tag >> 3, value
            continue
        length = {FIXED64: 8, FIXED32: 4}.get(kind)
        if kind == BYTES:
            length, at = _read_varint(data, at)
        if length is None or length > len(data) - at:
            raise ValueError(f"bad field {tag >> 3}")
        yield tag >> 3, data[at : at + length]
        at += length


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise ValueError("number of more than ten bytes")


# What the fields of an attribute hold, by their numbers: its name and a value of some type.
_OF_VARINT: dict[int, Callable[[int], Any]] = {
    **dict.fromkeys((7, 9, 11, 13, 27), int),
    **dict.fromkeys((15, 17), lambda value: value >> 1 ^ -(value & 1)),
}
_FIXED = (3, 5, 19, 21, 23, 25)
_OF_BYTES: dict[int, Callable[[bytes], Any]] = {
    **dict.fromkeys((1, 29), lambda data: data.decode(errors="replace")),
    **{key: partial(_unpack_value, f"<{form}") for key, form in zip(_FIXED, "dfIQiq", strict=True)},
    28: lambda data: [bool(n) for _, value in _wire_fields(data) for n in _wire_numbers(value)],
}
DIALECTS = (DIALECT,)
