"""Machine files, and what readers and writers of tori share."""

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
from toruscast.mapping.network import Network
from toruscast.mapping.torus import Torus
from toruscast.mapping.twist import require_default_twist

from .dialect import Dialect
from .source import Source, Text, label, write_text

SIGN = re.compile(r"\s*\"?(shape|machine)\"?\s*=(?!=)", re.I)
# A line that opens a brace, includes a file or calls a function, unlike TOML.
_PROGRAM = re.compile(r"[^\"'=#]*\{\s*$|\s*(include|import|from)\s|\s*\w+\s*=\s*\w+\(")
_OF_EXCLUSIONS = ("nodes", "links", "slow")
OBJECT = re.compile(rb"\s*\{[^\[]*?\"(shape|machine)\"\s*:", re.S)


def is_toml(source: Source) -> bool:
    """Whether a line sets a shape or a machine, and none is that of a program."""
    lines = source.raw_lines
    return any(map(SIGN.match, lines)) and not any(map(_PROGRAM.match, lines))


def read_json(source: Source) -> Torus:
    """Return the torus of a JSON object with the same keys."""
    text = source.text
    content = text.json()
    if not isinstance(content, dict):
        raise text.fault("no machine file", 1, str(content)[:60], 'an object with "shape"')
    return torus_of(content, label(source.path))


def torus_of(content: dict[str, Any], name: str) -> Torus:
    """Return the torus that the keys of a machine file describe.

    The keys are those of `read_machine`. ``machine`` names a shipped machine, whose values hold
    where the file has none; ``twisted`` is a twist without its rows. A table ``exclusions`` has the
    ``nodes`` of others, missing ``links`` and ``slow`` ones as pairs of link and bytes per second;
    a link is a number or a label.
    """
    try:
        return _build_torus(dict(content), name)
    except (TypeError, ValueError, OverflowError, AttributeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError("bad torus", found=error) from None


def _build_torus(content: dict[str, Any], name: str) -> Torus:
    exclusions = pop_table(content, "exclusions")
    check_keys(exclusions, _OF_EXCLUSIONS, "key of [exclusions]")
    machine, twisted = content.pop("machine", None), content.pop("twisted", None)
    if twisted is not None and (not isinstance(twisted, bool) or "twist" in content):
        raise InputError("bad twisted", found=twisted, expected="true or false, and no twist")
    torus = read_machine(content, name)() if machine is None else _changed_machine(machine, content)
    if twisted is not None:
        torus = replace(torus, twist=require_default_twist(torus.shape) if twisted else ())
    return _with_exclusions(torus, **exclusions)


def _changed_machine(machine: str, content: dict[str, Any]) -> Torus:
    """A shipped machine with some of its numbers changed."""
    if "shape" in content:
        expected = "the shape behind the machine's name, as in tpu_v4:4x4x8"
        raise InputError("both a machine and a shape", found=machine, expected=expected)
    network = pop_table(content, "network")
    check_keys(network, NETWORK_KEYS, "key of [network]")
    changes = {key: value for key, value in content.items() if key not in DESCRIPTION_KEYS}
    check_keys(changes, TORUS_KEYS, "key of a torus")
    return replace(torus_from_text(machine), **changes).with_network(**network)


def _with_exclusions(torus: Torus, nodes: Any = (), links: Any = (), slow: Any = ()) -> Torus:
    pairs = [pair for pair in slow if isinstance(pair, list) and len(pair) == 2]
    if len(pairs) < len(slow):
        expected = "pairs of link and bytes per second"
        raise InputError("bad slow links", found=slow, expected=expected)
    speeds = {_link_number(torus, link): bandwidth for link, bandwidth in pairs}
    if nodes or links:
        torus = torus.without(nodes=nodes, links=[_link_number(torus, link) for link in links])
    return torus.with_links(speeds) if speeds else torus


def _link_number(torus: Torus, link: object) -> int:
    return torus.read_link(str(link))


def content_of(torus: Torus) -> dict[str, Any]:
    """Return the keys of a machine file that describe a torus; nothing that is a default."""
    plain = Torus(torus.shape)
    content: dict[str, Any] = {"shape": torus.shape}
    for field in fields(Torus):
        value = getattr(torus, field.name)
        is_table = field.name in ("network", "exclusions")
        if not is_table and field.name != "shape" and value != getattr(plain, field.name):
            content[field.name] = value
    if torus.name == "":
        # Without it a file names its torus.
        content["name"] = ""
    changed = {
        field.name: getattr(torus.network, field.name)
        for field in fields(Network)
        if getattr(torus.network, field.name) != getattr(plain.network, field.name)
    }
    content |= {"network": changed} if changed else {}
    values = {name: getattr(torus.exclusions, name) for name in _OF_EXCLUSIONS}
    exclusions = {name: value for name, value in values.items() if value}
    return content | ({"exclusions": exclusions} if exclusions else {})


def write_toml(torus: Torus, path: Path) -> None:
    """Write all fields of a torus as TOML."""
    content = content_of(torus)
    tables = {name: content.pop(name) for name in ("network", "exclusions") if name in content}
    lines = _toml_lines(content)
    for name, table in tables.items():
        lines += ["", f"[{name}]", *_toml_lines(table)]
    write_text(path, "\n".join(lines) + "\n")


def _toml_lines(table: dict[str, Any]) -> list[str]:
    return [f"{key} = {_toml_value(value)}" for key, value in table.items()]


def write_json(torus: Torus, path: Path) -> None:
    """Write all fields of a torus as JSON."""
    content = content_of(torus)
    for key, value in content.get("network", {}).items():
        if value == math.inf:
            raise InputError("JSON has no infinite number", found=key, expected="TOML")
    write_text(path, json.dumps(content, indent=2) + "\n")


def _toml_value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml_value, value))}]"
    if not isinstance(value, str):
        return repr(value)
    # Texts of TOML and JSON have the same escapes, but TOML has no pairs of surrogates, so that
    # other characters stand as they are; and it escapes the last of ASCII.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


DIALECTS = (
    Dialect(
        name="toml",
        holds="torus",
        title="machine file: the parameters of a torus and its network in TOML",
        recognise=is_toml,
        read=lambda source: torus_of(parse_toml(source.data, source.path), label(source.path)),
        write=write_toml,
        suffixes=(".toml",),
        documentation="""
The keys are the parameters of `Torus` (`shape`, and `wrap`, `bandwidth`, `routing_order`,
`tie_break`, `twist`, `axes`, a value or one for each dimension) and, in a table `[network]`,
those of `Network`.
`machine = "tpu_v4:4x4x8"` in place of `shape` takes all other values from a machine;
`twisted = true` is a twist without its rows. A table `[exclusions]` has the `nodes` of others,
missing `links` and `slow` ones (pairs of link and bytes per second); a link is its number, or a
label such as `"(0,2,1) +Z"`.
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
        recognise=lambda source: bool(OBJECT.match(source.start[:4096])),
        read=read_json,
        write=write_json,
        suffixes=(".json",),
        documentation="\nAn object with the keys of the TOML file.\n",
        example='{"shape": [4, 4], "wrap": [true, false], "network": {"payload": 256}}\n',
    ),
)


def with_unit(
    text: Text, line: int | None, key: str, value: str, read: Callable[[str], float]
) -> float:
    """Return a bandwidth or time with its unit, or raise `InputError` at the line."""
    try:
        return read(value)
    except InputError as error:
        raise text.fault(f"bad {key}", line, value or "none", error.expected) from None


def whole_words(text: Text, line: int | None, key: str, words: Sequence[str]) -> tuple[int, ...]:
    """Return one whole number or more, or raise `InputError` at the line."""
    if not words or not all(re.fullmatch(r"[0-9]{1,9}", word) for word in words):
        raise text.fault(f"bad {key}", line, ",".join(words) or "none", "sizes such as 4,4,8")
    return tuple(map(int, words))


def torus_at(source: Source, line: int | None, sizes: Sequence[int], **options: Any) -> Torus:
    """Return a torus, named after the file if nothing else is; errors name the line."""
    hop_latency = options.pop("hop_latency", None)
    with source.text.at(line):
        torus = Torus(tuple(sizes), **{"name": label(source.path)} | options)
        return torus if hop_latency is None else torus.with_network(hop_latency=hop_latency)


def check_supported(torus: Torus, tool: str, expected: str, good: bool = True) -> None:
    """Raise `InputError` if a torus is twisted or not as a tool's tori are."""
    if torus.twist or not good:
        raise InputError(f"{tool} has no such torus", found=str(torus), expected=expected)
