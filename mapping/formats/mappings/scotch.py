"""Results of Scotch's gmap and gpart, and of TreeMatch."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from ...task_mapping import TaskMapping
from .._table import WHOLE, Column, fields, read_table, whole
from ..dialect import Dialect
from ..source import LINES, Source
from .build import first_tasks, mapping_of, rows_of, within
from .options import MappingOptions, Target
from .rows import write_lines
from .sst import first_fastest

TREEMATCH = re.compile(r"\s*([A-Za-z][\w .-]*):\s++\d++(?>\s*+,\s*+\d++)*+\s*+,?\s*+")


def is_scotch_map(source: Source) -> bool:
    """Whether a count stands above so many lines of two numbers."""
    if len(source.fields) != 1 or not WHOLE.fullmatch(source.fields[0]) or len(source.lines) < 2:
        return False
    pairs = [fields(line) for _, line in source.lines[1:]]
    if any(len(p) != 2 or not all(map(WHOLE.fullmatch, p)) for p in pairs[:2]):
        return False
    count = int(source.fields[0][:9])
    return len(pairs) == count if len(source.lines) < LINES else count >= LINES - 1


def read_scotch(source: Source, options: MappingOptions) -> TaskMapping:
    """Return the mapping of lines ``task number``, numbers counted as Scotch's tori do."""
    text = source.text
    number, line = text.first_line()
    count = whole(text, number, "number of tasks", line)
    table = read_table(text, [Column("task", True), Column("node", True)], skip=number)
    if table.n_rows != count:
        raise text.fault("wrong number of tasks", number, count, f"{table.n_rows}, as many lines")
    task, domain = table.columns
    within(table, domain, "node", options.torus.n_nodes)
    return mapping_of(table, first_fastest(options.torus)[domain], options, task=task)


def write_scotch(mapping: TaskMapping, path: Path, target: Target) -> None:
    """Write a count and lines ``task number``."""
    number = np.argsort(first_fastest(target.torus))[mapping.node].tolist()
    lines = "".join(f"{task}\t{node}\n" for task, node in enumerate(number))
    write_lines(path, f"{len(number)}\n{lines}")


def is_treematch(source: Source) -> bool:
    """Whether a label and a colon stand before numbers with commas between."""
    return len(source.lines) == 1 and bool(TREEMATCH.fullmatch(source.lines[0][1]))


def read_treematch(source: Source, options: MappingOptions) -> TaskMapping:
    """Return the mapping of a line ``TreeMatch: core of task 0, core of task 1, ...``."""
    text = source.text
    number, line = text.first_line()
    name, _, rest = line.partition(":")
    cores = [
        whole(text, number, f"place of task {t}", part.strip())
        for t, part in enumerate(rest.strip().rstrip(",").split(","))
    ]
    capacity = options.capacity or 1
    table, (place,) = rows_of(text, [number] * len(cores), cores)
    (place,) = first_tasks(table, [place], options)
    return mapping_of(table, place // capacity, options, slot=place % capacity, name=name.strip())


DIALECTS = (
    Dialect(
        name="scotch-map",
        holds="mapping",
        title="mapping of Scotch (gmap): a count, then task and node",
        recognise=is_scotch_map,
        read=read_scotch,
        write=write_scotch,
        documentation="""
What `gmap` writes: the number of vertices, then a line for each, its number and that of its node.
Scotch's tori (`torusXD`) count the first coordinate fastest; toruscast turns the numbers at the
door. For pairs in C order give the columns names, `task,node`.
""",
        example="4\n0 3\n1 1\n2 0\n3 2\n",
        advice="gmtst GRAPH TARGET {file} (Scotch tells what it makes of the mapping)",
    ),
    Dialect(
        name="treematch",
        holds="mapping",
        title="TreeMatch's line: label: place, place, ...",
        recognise=is_treematch,
        read=read_treematch,
        documentation="""
What TreeMatch prints: a label and the place of each task. Places are cores, `--tasks-per-node` of
them to a node; without it each is a node.
""",
        example="TreeMatch: 1,0,3,2,5,4,7,6\n",
    ),
)
