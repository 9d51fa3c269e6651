"""Task mappings as tables with named columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from toruscast.errors import InputError

from ...task_mapping import TaskMapping
from ...torus import Torus
from .._rows import Column, Table, read_rows, row_of
from ..dialect import Dialect
from ..source import Source, Text, comma, fields, renamed, write_text
from .build import (
    MappingOptions,
    Target,
    Whole,
    check_range,
    mapping_of,
    mapping_on_hosts,
    write_rows,
)

NAMES = {
    "task": ("task", "rank", "process", "mpi_rank", "pid", "task_id", "world_rank"),
    "node": ("node", "node_id", "nodeid", "nid"),
    "slot": ("slot", "core", "local_rank", "localrank", "core_on_chip", "pe", "t"),
    "host": ("host", "hostname", "nodename", "node_name", "nodelist", "host_name"),
}
_OURS = {word: name for name, words in NAMES.items() for word in words}
_LETTERS = "xyzabcdefgh"


def split_names(line: str) -> list[str]:
    """Names of columns, lower case and without quotes."""
    return [part.strip("\"'").strip().lower() for part in fields(line)]


def axis_of(name: str) -> str | None:
    """Return the letter of a column of coordinates; None if it is none.

    Examples
    --------
    >>> axis_of("x"), axis_of("y_coord"), axis_of("coord_z"), axis_of("time")
    ('x', 'y', 'z', None)
    """
    bare = name.removesuffix("coord").removesuffix("_").removeprefix("coord").removeprefix("_")
    return bare if len(bare) == 1 and bare in _LETTERS else None


def known_columns(names: list[str]) -> list[str | None]:
    """Return what each column means: task, node, slot, host, a letter, or None."""
    return [_OURS.get(name) or axis_of(name) for name in names]


def axes_in(columns: list[str | None], torus: Torus | None) -> list[str]:
    """Return the letters of the torus' dimensions, if all of them are columns; else none."""
    letters = [c for c in columns if c is not None and len(c) == 1]
    if torus is None:
        return sorted(letters) if letters else []
    wanted = [letter.lower() for letter in torus.axes]
    return wanted if set(wanted) <= set(letters) else []


def is_named(source: Source) -> bool:
    """Whether the first line names the columns of a mapping."""
    if not source.lines:
        return False
    names = split_names(source.lines[0][1])
    columns = known_columns(names)
    known = {column for column in columns if column}
    if len(known) != sum(column is not None for column in columns):
        return False
    if "task" in known:
        return bool(known - {"task", "slot"})
    axes = axes_in(columns, source.torus)
    return known == {"node", "slot"} or (bool(axes) and {*axes} <= {*columns} <= {*axes, "slot"})


def read(source: Source, options: MappingOptions) -> TaskMapping:
    """Return the mapping of columns task and node, or coordinates, or host, and maybe slot."""
    text = source.text
    number, line = text.first_line()
    names = split_names(line)
    columns = _renamed(text, number, names, options) if options.columns else known_columns(names)
    axes = axes_in(columns, options.torus)
    # A column of node numbers beside coordinates may be the machine's own.
    wanted = {*axes} or ({"node"} if "node" in columns else {"host"})
    if not wanted <= set(columns):
        expected = f"a column node, or host, or {', '.join(options.torus.axes.lower())}"
        raise text.fault("table of a mapping without places", number, line, expected)
    kept = [c if c in wanted | {"task", "slot"} else None for c in columns]
    after = next(text.lines(skip=number), (0, ""))[1]
    separator = comma(line)
    if wanted == {"host"}:
        return _of_hosts(source, kept, separator, options)
    if after and (separator or comma(after)):
        separator = comma(after)
    shown = [None if c is None else Column(c, whole=True) for c in kept]
    table = read_rows(source.stream, shown, number, separator)
    named = [column for column in kept if column]
    values = {
        name: np.asarray(column, dtype=np.int64)
        for name, column in zip(named, table.columns, strict=True)
    }
    table = Table(text, number, table.columns)
    if axes:
        node = _node_of(table, [values[axis] for axis in axes], options.torus)
    else:
        node = values["node"]
    return mapping_of(table, node, options, slot=values.get("slot"), task=values.get("task"))


def _renamed(
    text: Text, number: int, names: list[str], options: MappingOptions
) -> list[str | None]:
    """What each column means by the names that the caller gives; the others are left out."""
    known = {*NAMES, *options.torus.axes.lower()}
    if unknown := sorted({*options.columns} - known):
        expected = ", ".join([*NAMES, *options.torus.axes.lower()])
        raise InputError("unknown name of a column", found=unknown[0], expected=expected)
    chosen = {name: theirs.strip().lower() for name, theirs in options.columns.items()}
    return renamed(text, number, names, chosen, ())


def _node_of(table: Table, columns: list[Whole], torus: Torus) -> Whole:
    for letter, column, size in zip(torus.axes, columns, torus.shape, strict=True):
        check_range(table, column, f"coordinate {letter.lower()}", size)
    return torus.node(np.stack(columns, axis=1)).astype(np.int64)


def _of_hosts(
    source: Source, kept: list[str | None], separator: str | None, options: MappingOptions
) -> TaskMapping:
    """Read line by line, for one of the columns is text."""
    text = source.text
    place = kept.index("host")
    wholes = [Column(c, whole=True) if c in ("task", "slot") else None for c in kept]
    rows = [
        (number, line.split(separator)[place:], row_of(text, number, line, wholes, separator))
        for number, line in text.lines(skip=text.first_line()[0])
    ]
    at, names = [row[0] for row in rows], [row[1][0].strip().strip("\"'") for row in rows]
    numbers: Any = zip(*(row[2] for row in rows), strict=True)
    values = dict(zip([c for c in kept if c in ("task", "slot")], numbers, strict=False))
    return mapping_on_hosts(text, options, at, names, **values)


def write(mapping: TaskMapping, path: Path, target: Target) -> None:
    """Write task, node and slot, and the host where there is a table of hosts."""
    rows = np.column_stack([np.arange(mapping.n_tasks), mapping.node, mapping.slot])
    if target.hosts is None:
        write_rows(path, "task,node,slot\n", rows, ",")
        return
    named = zip(rows.tolist(), target.named.of_tasks(mapping), strict=True)
    lines = (f"{task},{node},{slot},{host}\n" for (task, node, slot), host in named)
    write_text(path, "task,node,slot,host\n" + "".join(lines))


DIALECT = Dialect(
    name="table",
    holds="mapping",
    title="columns named task and node, or x,y,z, or host; maybe slot",
    recognise=is_named,
    read=read,
    suffixes=(".csv",),
    write=write,
    documentation="""
Columns with names, in any order: `task` (or `rank`), its place, and maybe `slot`. The place is
the coordinates (`x,y,z`, on Blue Gene/Q `a,b,c,d,e,t`), or `node` (its number in C order), or
`host`, whose nodes `--hosts FILE` gives. Other columns are not used. The names are needed: without
them nothing tells tasks from nodes. `--mapping-columns task=proc,node=where` says which columns a
table with other names means. Coordinates without a column `task` are those of the tasks in order.
""",
    example="task,node\n0,1\n1,0\n2,3\n3,2\n",
)
