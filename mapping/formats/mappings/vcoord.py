"""Coordinate files of Fujitsu's mpiexec."""

from __future__ import annotations

import re
from pathlib import Path

from toruscast.errors import InputError

from ...task_mapping import TaskMapping
from ..dialect import Dialect
from ..source import Source
from .build import first_tasks, mapping_of, place_of, rows_of
from .options import MappingOptions, Target
from .rows import write_lines

LINE = re.compile(r"\(\s*(\d+(?:\s*,\s*\d+)*)\s*\)((?:\s+\w+\s*=\s*\S+)*)")
# A job's shape has up to three dimensions.
MOST = 3


def is_vcoord(source: Source) -> bool:
    """Whether the first line holds coordinates in brackets."""
    return bool(re.match(r"\(\s*\d+\s*(,\s*\d+\s*){0,2}\)", source.first_line()[1]))


def read(source: Source, options: MappingOptions) -> TaskMapping:
    """Return the mapping of lines ``(x,y,z)``, of which one for each rank."""
    text = source.text
    at: list[int] = []
    nodes: list[int] = []
    for number, line in text.lines("#"):
        match = LINE.fullmatch(line)
        if match is None:
            raise text.fault("bad coordinates", number, line, "(x,y,z)")
        at.append(number)
        nodes.append(place_of(text, number, [p.strip() for p in match[1].split(",")], options))
    table, (node,) = rows_of(text, at, nodes)
    (node,) = first_tasks(table, [node], options)
    return mapping_of(table, node, options)


def write(mapping: TaskMapping, path: Path, target: Target) -> None:
    """Write the coordinates of each rank."""
    torus = target.torus
    if torus.ndim > MOST:
        raise InputError(
            "a vcoordfile has the job's own coordinates",
            found=str(torus),
            expected="a torus of one to three dimensions, as the job asks for it",
        )
    places = torus.coords[mapping.node].tolist()
    write_lines(path, "".join(f"({','.join(map(str, place))})\n" for place in places))


DIALECT = Dialect(
    name="vcoord",
    holds="mapping",
    title="vcoordfile of Fujitsu's mpiexec (Fugaku): (x,y,z) of each rank",
    recognise=is_vcoord,
    read=read,
    write=write,
    suffixes=(".vcoord",),
    documentation="""
On each line the coordinates of a rank in the job's own shape, in brackets; what stands behind them
(`core=2`) is not used. Ranks of a node take its slots in their order. A file with more lines than
the job has ranks is read up to its last rank, and toruscast says so.
""",
    example="(1,1)\n(0,1)\n(0,0)\n(1,0)\n",
    advice="mpiexec --vcoordfile {file}",
)
