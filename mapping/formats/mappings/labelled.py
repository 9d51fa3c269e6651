"""What launchers print of where each rank runs: its number, then its host or node."""

from __future__ import annotations

import re

from ...task_mapping import TaskMapping
from .._table import WHOLE
from ..dialect import Dialect
from ..source import Source
from .build import mapping_of, on_hosts, rows_of
from .host_lists import slots_of
from .options import MappingOptions

LINE = re.compile(r"(?:\[\d+,(\d{1,9})\](?:<stdout>)?\s*:|(\d{1,9}):)\s*([A-Za-z0-9_][\w.-]*)")


def is_labelled(source: Source) -> bool:
    """Whether the first lines are a rank, a colon and one word."""
    lines = [line for _, line in source.lines[:8]]
    return bool(lines) and all(LINE.fullmatch(line) for line in lines)


def read(source: Source, options: MappingOptions) -> TaskMapping:
    """Return the mapping of lines ``3: node017``, in any order."""
    text = source.text
    at: list[int] = []
    ranks: list[int] = []
    names: list[str] = []
    for number, line in text.lines("#"):
        match = LINE.fullmatch(line)
        if match is None:
            raise text.fault("bad line of ranks", number, line, "RANK: HOST")
        at.append(number)
        ranks.append(int(match[1] or match[2]))
        names.append(match[3])
    if all(WHOLE.fullmatch(name) and len(name) < 10 for name in names):
        places = list(map(int, names))
        for number, place in zip(at, places, strict=True):
            if place >= options.n_hosts:
                raise text.fault("node out of range", number, place, f"0 to {options.n_hosts - 1}")
    else:
        places = on_hosts(text, at, names, options)[1]
    table, (rank, host) = rows_of(text, at, ranks, places)
    node, _ = options.on_host(host, host, 1)
    return mapping_of(table, node, options, slot=slots_of(host, options), task=rank)


DIALECT = Dialect(
    name="labelled",
    holds="mapping",
    title="what launchers print of each rank: 3: host (srun -l hostname, flux job taskmap)",
    recognise=is_labelled,
    read=read,
    documentation="""
A rank, a colon and its host, as `srun -l hostname` and `mpirun --tag-output hostname` print them,
in any order; or the number of its node in the order of the allocation. `--hosts FILE` gives the
node of each host.
""",
    example="0: c00\n2: c03\n1: c01\n3: c02\n",
)
