"""MapLib's lines of coordinates, a count, and the tasks there."""

from __future__ import annotations

import re

import numpy as np

from ...task_mapping import TaskMapping
from .._source import label
from .._table import Table, whole
from ..dialect import Dialect
from ..source import Source
from .build import mapping_of, place_of
from .options import MappingOptions

# MapLib's names of columns; JSON and XML may have such names too.
NAMES = re.compile(r'(?!.*([\[\]{}<>;]|"\s*:)).*process_id', re.I)


def is_maplib(source: Source) -> bool:
    """Whether one of the first two lines names MapLib's columns."""
    return any(NAMES.match(line) for _, line in source.lines[:2])


def read(source: Source, options: MappingOptions) -> TaskMapping:
    """Return the mapping of lines ``x y z n task...`` below a title and column names."""
    text, width = source.text, options.torus.ndim
    lines = list(text.lines("#"))
    named = next((i for i, (_, line) in enumerate(lines[:2]) if NAMES.match(line)), None)
    if named is None:
        raise text.fault("names of columns missing", None, None, "a line with process_id(s)")
    name = lines[0][1] if named else label(text.file)
    rows: list[tuple[int, int, int]] = []
    for number, line in lines[named + 1 :]:
        parts = line.replace(",", " ").split()
        if len(parts) < width + 1:
            raise text.fault("line too short", number, line, f"{width} coordinates, a count, tasks")
        node = place_of(text, number, parts[:width], options)
        count = whole(text, number, "number of tasks", parts[width])
        tasks = parts[width + 1 :]
        if len(tasks) != count:
            raise text.fault("wrong number of tasks", number, len(tasks), count)
        rows += [(number, whole(text, number, "task", task), node) for task in tasks]
    at, task, node_of = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    table = Table(text, 0, [task], lines=at)
    return mapping_of(table, node_of, options, task=task, name=name)


DIALECT = Dialect(
    name="maplib",
    holds="mapping",
    title="MapLib's lines of coordinates, a count, tasks",
    recognise=is_maplib,
    read=read,
    documentation="""
A title, a line of names that ends in `process_ids`, then on each line D coordinates, the number of
tasks there, and the tasks. The title is the mapping's name.
""",
    example="scan\nx_coord y_coord number process_id(s)\n0 1 2 0 1\n1 1 1 2\n",
)
