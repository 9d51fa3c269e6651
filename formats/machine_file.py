"""Machine files, and functions that the readers and writers of tori share."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from toruscast.errors import InputError
from toruscast.files import parse_toml
from toruscast.mapping.machines import (
    DESCRIPTION_KEYS,
    NETWORK_KEYS,
    TORUS_KEYS,
    check_keys,
    pop_table,
    read_machine,
    torus_from_text,
)
from toruscast.mapping.torus import Torus
from toruscast.mapping.twist import require_default_twist

from .dialect import Dialect
from .source import Source, TextFile, name_from_path, write_text

_KEY_LINE = re.compile(r"\s*\"?(shape|machine)\"?\s*=(?!=)", re.I)
# A line of a program or another format, which opens a brace, imports or calls a function.
_PROGRAM_LINE = re.compile(r"[^\"'=#]*\{\s*$|\s*(include|import|from)\s|\s*\w+\s*=\s*\w+\(")
_EXCLUSION_KEYS = ("nodes", "links", "slow")
_JSON_START = re.compile(rb"\s*\{[^\[]*?\"(shape|machine)\"\s*:", re.S)


def _is_toml(source: Source) -> bool:
    lines = source.raw_lines
    return any(map(_KEY_LINE.match, lines)) and not any(map(_PROGRAM_LINE.match, lines))


def _read_json(source: Source) -> Torus:
    content = source.text.json()
    if not isinstance(content, dict):
        found = str(content)[:60]
        raise source.text.fault("not a machine file", 1, found, 'an object with "shape"')
    return _torus_from_keys(content, source)


def _torus_from_keys(content: dict[str, Any], source: Source) -> Torus:
    """Return the torus that the keys of a machine file describe.

    The keys are those of `read_machine` and three more: ``machine`` names a shipped machine from
    which all other values are taken, ``twisted`` selects the default twist, and the table
    ``exclusions`` lists excluded ``nodes``, missing ``links`` and ``slow`` links.
    """
    try:
        exclusions = pop_table(content, "exclusions")
        check_keys(exclusions, _EXCLUSION_KEYS, "key of [exclusions]")
        machine, twisted = content.pop("machine", None), content.pop("twisted", None)
        if twisted is not None and (not isinstance(twisted, bool) or "twist" in content):
            raise InputError("bad twisted", found=twisted, expected="true or false, without twist")
        if machine is not None:
            torus = _modify_machine(machine, content)
        else:
            torus = read_machine(content, name_from_path(source.path))()
        if twisted is not None:
            torus = replace(torus, twist=require_default_twist(torus.shape) if twisted else ())
        return _exclude(torus, **exclusions)
    except InputError:
        raise
    except (TypeError, ValueError, OverflowError, AttributeError) as error:
        raise InputError("bad torus", found=error) from None


def _modify_machine(machine: str, content: dict[str, Any]) -> Torus:
    """Return a shipped machine with the values of other keys changed."""
    if "shape" in content:
        expected = "the shape after the machine name, as in tpu_v4:4x4x8"
        raise InputError("both a machine and a shape", found=machine, expected=expected)
    network = pop_table(content, "network")
    check_keys(network, NETWORK_KEYS, "key of [network]")
    changes = {key: value for key, value in content.items() if key not in DESCRIPTION_KEYS}
    check_keys(changes, TORUS_KEYS, "key of a torus")
    return replace(torus_from_text(machine), **changes).with_network(**network)


def _exclude(torus: Torus, nodes: Any = (), links: Any = (), slow: Any = ()) -> Torus:
    """Return the torus without excluded nodes and links, and with the bandwidths of slow links."""
    if not all(isinstance(pair, list) and len(pair) == 2 for pair in slow):
        expected = "pairs of link and bytes per second"
        raise InputError("bad slow links", found=slow, expected=expected)
    bandwidths = {torus.read_link(str(link)): bandwidth for link, bandwidth in slow}
    if nodes or links:
        torus = torus.without(nodes=nodes, links=[torus.read_link(str(link)) for link in links])
    return torus.with_links(bandwidths) if bandwidths else torus


def _torus_to_keys(torus: Torus) -> dict[str, Any]:
    """Return the keys of a machine file that describe a torus; defaults are left out."""
    default = Torus(torus.shape)
    content = {"shape": torus.shape} | _list_changed_fields(torus, default)
    tables = {
        "network": _list_changed_fields(torus.network, default.network),
        "exclusions": _list_changed_fields(torus.exclusions, default.exclusions),
    }
    for name, table in tables.items():
        content.pop(name, None)
        content |= {name: table} if table else {}
    if torus.name == "":
        # Without this key the reader names the torus after the file.
        content["name"] = ""
    return content


def _list_changed_fields(value: Any, default: Any) -> dict[str, Any]:
    """Return the fields of a dataclass whose values differ from those in ``default``."""
    values = {field.name: getattr(value, field.name) for field in fields(value)}
    return {name: item for name, item in values.items() if item != getattr(default, name)}


def _write_toml(torus: Torus, path: Path) -> None:
    """Write the parameters of a torus that differ from the defaults."""
    content = _torus_to_keys(torus)
    tables = {name: content.pop(name) for name in ("network", "exclusions") if name in content}
    lines = []
    for name, table in (("", content), *tables.items()):
        lines += ["", f"[{name}]"] if name else []
        lines += [f"{key} = {_format_toml(value)}" for key, value in table.items()]
    write_text(path, "\n".join(lines) + "\n")


def _write_json(torus: Torus, path: Path) -> None:
    content = _torus_to_keys(torus)
    for key, value in content.get("network", {}).items():
        if value == math.inf:
            raise InputError("JSON has no infinite number", found=key, expected="TOML")
    write_text(path, json.dumps(content, indent=2) + "\n")


def _format_toml(value: Any) -> str:
    """Return a flag, number, text or tuple as a TOML value."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"[{', '.join(map(_format_toml, value))}]"
    if not isinstance(value, str):
        return repr(value)
    # Unlike JSON strings, TOML strings have no surrogate pairs, and they escape DEL.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


DIALECTS = (
    Dialect(
        name="toml",
        holds="torus",
        title="machine file: parameters of a torus and its network in TOML",
        recognise=_is_toml,
        read=lambda source: _torus_from_keys(parse_toml(source.data, source.path), source),
        write=_write_toml,
        suffixes=(".toml",),
        documentation="""
The keys are the parameters of `Torus` (`shape`, `wrap`, `bandwidth`, `routing_order`, `tie_break`,
`twist`, `axes`; a value, or one for each dimension) and, in the table `[network]`, those of
`Network`. With `machine = "tpu_v4:4x4x8"` instead of `shape`, all other values are the machine's;
`twisted = true` selects the default twist. The table `[exclusions]` lists excluded `nodes`, missing
`links`, and `slow` links (pairs of link and bytes per second). A link is a number or a label such
as `"(0,2,1) +Z"`.
""",
        example="""shape = [8, 8, 16]
wrap = [true, true, false]
bandwidth = [50e9, 50e9, 25e9]
[network]
hop_latency = 2e-7
""",
    ),
    Dialect(
        name="machine-json",
        holds="torus",
        title="machine file in JSON",
        recognise=lambda source: bool(_JSON_START.match(source.start[:4096])),
        read=_read_json,
        write=_write_json,
        suffixes=(".json",),
        documentation="\nAn object with the keys of the TOML file.\n",
        example='{"shape": [4, 4], "wrap": [true, false], "network": {"payload": 256}}\n',
    ),
)


def parse_quantity(
    text: TextFile, line: int | None, key: str, value: str, read: Callable[[str], float]
) -> float:
    """Parse a value with a unit; errors name the key and the line."""
    try:
        return read(value)
    except InputError as error:
        raise text.fault(f"bad {key}", line, value or "none", error.expected) from None


def parse_sizes(text: TextFile, line: int | None, key: str, sizes: list[str]) -> tuple[int, ...]:
    """Parse a list of at least one size; errors name the key and the line."""
    if not sizes or not all(re.fullmatch(r"[0-9]{1,9}", word) for word in sizes):
        raise text.fault(f"bad {key}", line, ",".join(sizes) or "none", "sizes such as 4,4,8")
    return tuple(map(int, sizes))


def build_torus(source: Source, line: int | None, sizes: Sequence[int], **options: Any) -> Torus:
    """Return a torus with the given options, by default named after the file."""
    hop_latency = options.pop("hop_latency", None)
    with source.text.locate_errors(line):
        torus = Torus(tuple(sizes), **{"name": name_from_path(source.path)} | options)
        return torus if hop_latency is None else torus.with_network(hop_latency=hop_latency)


def check_supported(torus: Torus, tool: str, expected: str, is_supported: bool = True) -> None:
    """Raise `InputError` if a tool does not support a torus: twisted or not ``is_supported``."""
    if torus.twist or not is_supported:
        raise InputError(f"torus not supported by {tool}", found=str(torus), expected=expected)
