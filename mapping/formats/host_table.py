"""Tables of hosts: the name of each and where it stands."""

from __future__ import annotations

import re
from typing import Any

from toruscast.errors import InputError

from ..hosts import Hosts
from ..torus import Torus
from ._table import NUMBER, fields, whole
from .dialect import Dialect
from .mappings.hosts import RANGED, expand, split_list
from .mappings.table import axes_in, known_columns, split_names
from .opening import Text
from .source import Source

PAIRS = re.compile(r"\w+\s*=\s*[^,\s]+(\s*,\s*\w+\s*=\s*[^,\s]+)+\s*,?")
# Cray's launchers call a node by its number.
NID = "nid{:05d}"


def is_table(source: Source) -> bool:
    """Whether the first line names hosts and their places, or each line does with = signs."""
    if not source.lines:
        return False
    line = source.lines[0][1]
    if PAIRS.fullmatch(line):
        return "x_coord" in line
    names = split_names(line)
    columns = known_columns(names)
    places = "node" in columns or any(c is not None and len(c) == 1 for c in columns)
    named = "host" in columns or "nid" in names
    if any(NUMBER.fullmatch(name) for name in names):
        return False
    return bool(named and places and "task" not in columns and names != ["nid"])


def are_names(source: Source) -> bool:
    """Whether there is nothing but names of hosts."""
    words = [word for _, line in source.lines for word in split_list(line)]
    return bool(words) and all(RANGED.fullmatch(word) for word in words)


def read(source: Source, torus: Torus) -> Hosts:
    """Return the hosts of a table."""
    text = source.text
    if PAIRS.fullmatch(source.first_line()[1]):
        rows = [(n, _pairs(text, n, line)) for n, line in text.lines("#")]
    else:
        rows = _named_rows(text)
    names: list[str] = []
    nodes: list[int] = []
    aliases: dict[str, str] = {}
    lines: dict[str, int] = {}
    for number, row in rows:
        name, other = _names(text, number, row)
        if name in lines:
            found = f"{name}, also on line {lines[name]}"
            raise text.fault("host stands twice", number, found, "each host once")
        lines[name] = number
        names.append(name)
        if other:
            aliases[other] = name
        nodes.append(_node(text, number, row, torus))
    if not names:
        raise text.fault("table without a host")
    return Hosts(names, nodes, torus, aliases)


def _named_rows(text: Text) -> list[tuple[int, dict[str, str]]]:
    number, line = text.first_line()
    names = split_names(line)
    keys = _keys(names)
    rows = []
    for at, raw in text.lines("#", skip=number):
        parts = [part.strip("\"'") for part in fields(raw)]
        if len(parts) != len(names):
            found = f"{len(parts)}: {raw[:60]}"
            raise text.fault("wrong number of columns", at, found, f"{len(names)} ({line[:60]})")
        rows.append((at, dict(zip(keys, parts, strict=True))))
    return rows


def _keys(names: list[str]) -> list[str]:
    """What each column is called here: host, node, nid, a letter, or its own name."""
    keys = [column or name for column, name in zip(known_columns(names), names, strict=True)]
    if "nid" in names and any(column and len(column) == 1 for column in keys):
        # With coordinates beside it, it is the number of a host, not of a node of the torus.
        keys[names.index("nid")] = "nid"
    return keys


def _pairs(text: Text, number: int, line: str) -> dict[str, str]:
    if not PAIRS.fullmatch(line):
        raise text.fault("bad line of a table of hosts", number, line, "name=value,name=value,...")
    pairs = [part.partition("=") for part in line.split(",") if part.strip()]
    names = [name.strip().lower() for name, _, _ in pairs]
    values = [value.strip().strip("'\"") for _, _, value in pairs]
    return dict(zip(_keys(names), values, strict=True))


def _names(text: Text, number: int, row: dict[str, str]) -> tuple[str, str | None]:
    """The name of a row's host as launchers have it, and another one."""
    nid = row.get("nid") or row.get("processor_id")
    if nid is not None:
        name = NID.format(whole(text, number, "node number (nid)", nid, 10**7))
        return name, row.get("host")
    if not row.get("host"):
        raise text.fault("no name of a host", number, str(row)[:60], "a column host")
    return row["host"], None


def _node(text: Text, number: int, row: dict[str, str], torus: Torus) -> int:
    columns: list[Any] = list(row)
    axes = axes_in(columns, torus)
    if axes:
        place = [
            whole(text, number, f"coordinate {axis}", row[axis], size - 1)
            for axis, size in zip(axes, torus.shape, strict=True)
        ]
        return int(torus.node(place))
    if "node" in row:
        return whole(text, number, "node", row["node"], torus.n_nodes - 1)
    found = ", ".join(row)
    expected = f"columns {', '.join(torus.axes.lower())}, the dimensions of {torus}, or node"
    raise text.fault("table of hosts without places", number, found, expected)


def read_names(source: Source, torus: Torus) -> Hosts:
    """Return the hosts of bare names, one for each node in C order."""
    text = source.text
    names: list[str] = []
    for number, line in text.lines("#"):
        for word in split_list(line):
            try:
                names += expand(word)
            except InputError as error:
                raise text.fault(error.message, number, error.found, error.expected) from None
        if len(names) > torus.n_nodes:
            break
    if len(names) != torus.n_nodes:
        expected = f"{torus.n_nodes}, one for each node of {torus}, or columns host,x,y,z"
        raise text.fault("names of hosts without places", None, len(names), expected)
    try:
        return Hosts(names, range(torus.n_nodes), torus)
    except InputError as error:
        raise error.replace(file=text.file) from None


DIALECTS = (
    Dialect(
        name="host-table",
        holds="hosts",
        title="name and place of each host",
        recognise=is_table,
        read=read,
        documentation="""
Columns with names, in any order: `host`, and the coordinates (`x,y,z`) or `node`. The order of the
lines is that in which the launcher fills its hosts. Several hosts may have the same coordinates, as
those of a Cray Gemini router. A column `nid` (from `xtprocadmin` or the machine's database, also as
lines of `nid=...,x_coord=...`) stands for hosts `nid00012`; the coordinates have to stand beside
it, for `xtprocadmin` and `xtnodestat` alone do not print them.
""",
        example="host,x,y\nc00,0,0\nc01,0,1\nc02,1,0\nc03,1,1\n",
    ),
    Dialect(
        name="host-names",
        holds="hosts",
        title="names of hosts alone, one for each node in C order",
        recognise=lambda _: False,
        near=are_names,
        read=read_names,
        documentation="""
Names, a line each or as a Slurm list with ranges, as many as the torus has nodes.
""",
        example="",
    ),
)
