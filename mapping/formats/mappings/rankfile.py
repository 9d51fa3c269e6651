"""Rankfiles of Open MPI and PRRTE."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from ...task_mapping import MAX_SLOTS, TaskMapping
from ..dialect import Dialect
from ..source import Source
from .build import mapping_of, on_hosts, rows_of
from .host_lists import slots_of
from .options import MappingOptions, Target
from .rows import write_lines

LINE = re.compile(r"rank\s+(\d{1,9})\s*=\s*(\S+)(?:\s+slots?\s*=\s*([\w:,;*-]+))?\s*", re.I)
RELATIVE = re.compile(r"\+n(\d{1,9})", re.I)


def is_rankfile(source: Source) -> bool:
    """Whether the first line with data says which host a rank goes to."""
    return bool(re.match(r"rank\s+\d+\s*=", source.first_line()[1], re.I))


def read(source: Source, options: MappingOptions) -> TaskMapping:
    """Return the mapping of lines ``rank 3=host slot=1``; ``+n2`` is the third host."""
    text = source.text
    at: list[int] = []
    ranks: list[int] = []
    names: list[str] = []
    slots: list[int] = []
    for number, line in text.lines("#"):
        match = LINE.fullmatch(line)
        if match is None:
            raise text.fault("bad line of a rankfile", number, line, "rank N=HOST slot=S")
        at.append(number)
        ranks.append(int(match[1]))
        names.append(match[2])
        plain = re.fullmatch(r"\d{1,7}", match[3] or "")
        slots.append(int(match[3]) if plain else -1)
    places = [-1] * len(names)
    by_name = []
    for i, name in enumerate(names):
        relative = RELATIVE.fullmatch(name)
        if relative is None:
            by_name.append(i)
        elif int(relative[1]) < options.n_hosts:
            places[i] = int(relative[1])
        else:
            raise text.fault("no such host", at[i], name, f"+n0 to +n{options.n_hosts - 1}")
    if by_name:
        found = on_hosts(text, [at[i] for i in by_name], [names[i] for i in by_name], options)[1]
        for i, place in zip(by_name, found, strict=True):
            places[i] = place
    table, (rank, host, slot) = rows_of(text, at, ranks, places, slots)
    share = max(options.tasks_of_host(0), int(slot.max(initial=0)) + 1)
    node, shifted = options.on_host(host, slot, share)
    one_each = np.unique(host * np.int64(MAX_SLOTS) + slot).size == slot.size
    fits = options.capacity is None or bool((shifted < options.capacity).all())
    if not ((slot >= 0).all() and one_each and fits):
        return mapping_of(table, node, options, slot=slots_of(host, options), task=rank)
    return mapping_of(table, node, options, slot=shifted, task=rank)


def write(mapping: TaskMapping, path: Path, target: Target) -> None:
    """Write host and slot of each rank."""
    hosts = target.named
    place = hosts.places(mapping)
    share = -(-mapping.tasks_per_node // hosts.most)
    slot = mapping.slot - share * hosts.index[place]
    lines = (
        f"rank {rank}={hosts.names[host]} slot={s}\n"
        for rank, (host, s) in enumerate(zip(place.tolist(), slot.tolist(), strict=True))
    )
    write_lines(path, "".join(lines))


DIALECT = Dialect(
    name="rankfile",
    holds="mapping",
    title="rankfile of Open MPI and PRRTE",
    recognise=is_rankfile,
    read=read,
    write=write,
    on_hosts=True,
    suffixes=(".rankfile", ".rank"),
    documentation="""
A line `rank N=HOST slot=S` for each task, in any order. `--hosts FILE` gives the node of each host;
`+n2` is the third of them. Slots that are no single numbers (`0:1`, `0-3`), or that several ranks
share, are not kept: tasks of a node then take its slots in their order.
""",
    example="rank 0=c00 slot=0\nrank 1=c01 slot=0\nrank 2=c03 slot=0\nrank 3=c02 slot=0\n",
    advice="mpirun --map-by rankfile:file={file}, or mpirun --rankfile {file} (Open MPI 4)",
)
