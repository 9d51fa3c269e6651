"""Scotch's files: graphs, mappings and the tori that they are mapped on.

Scotch's graph_io.c (graphLoad, graphLoad2) says what a graph means: with labels both the vertices
and the ends of edges are labels. Mappings are what `gmap` of Scotch 7 writes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from toruscast.errors import InputError

from ..comm_graph import CommGraph
from ..task_mapping import TaskMapping
from ..torus import Torus
from ._rows import Column, read_table
from .dialect import Dialect
from .graphs.partitioners import Head, Row, mean_directions, undirected_reader
from .mappings.build import MappingOptions, Target, first_fastest, mapping_of, within, write_lines
from .source import LINES, WHOLE, Source, Text, fields, label, whole

# Vertex labels, edge loads, vertex loads.
FLAGS = re.compile(r"[01]{1,3}")
LINE = re.compile(r"(torus|mesh)(XD|[1-9]D)?((?:\s+\S+)+)\s*", re.I)


def is_graph(source: Source) -> bool:
    """Whether the file has a version 0 and two lines of two numbers, the last of which is flags."""
    head = [line.split() for line in source.raw_lines[:3]]
    return (
        [len(words) for words in head] == [1, 2, 2]
        and head[0] == ["0"]
        and all(word.isdigit() for word in head[1] + head[2])
        and head[2][0] in ("0", "1")
        and bool(FLAGS.fullmatch(head[2][1]))
    )


def _graph_rows(text: Text) -> tuple[Head, Iterable[Row]]:
    rows = [(n, line.split()) for n, line in enumerate(text.raw_lines(), start=1) if line.strip()]
    if len(rows) < 3 or [len(words) for _, words in rows[:3]] != [1, 2, 2]:
        raise text.fault("bad head of a Scotch graph", 1, None, "version, sizes, base and flags")
    (_, _), (number, sizes), (line_of, base_flags) = rows[:3]
    n, arcs = (
        whole(text, number, what, size)
        for what, size in zip(("vertex count", "arc count"), sizes, strict=True)
    )
    base = whole(text, line_of, "base", base_flags[0], 1)
    if not FLAGS.fullmatch(base_flags[1]):
        raise text.fault("bad flags", line_of, base_flags[1], "000 to 111")
    labels, loads, weights = (flag == "1" for flag in base_flags[1].zfill(3))
    if len(rows) - 3 != n:
        raise text.fault("wrong number of vertices", None, len(rows) - 3, f"{n} lines, one each")
    task = _labels(text, rows[3:]) if labels else {base + v: v for v in range(n)}

    def vertices() -> Iterable[Row]:
        for place, (number, words) in enumerate(rows[3:]):
            values = [whole(text, number, "entry", word) for word in words]
            before, step = labels + weights, 1 + loads
            degree = values[before] if len(values) > before else -1
            if len(values) != before + 1 + degree * step:
                expected = f"degree {degree}, so {before + 1 + degree * step}"
                found = f"{len(values)} numbers"
                raise text.fault(
                    "line of a vertex at odds with its degree", number, found, expected
                )
            ends = values[before + step :: step]
            for end in ends:
                if end not in task:
                    known = f"one of the {n} labels" if labels else f"{base} to {n + base - 1}"
                    raise text.fault("neighbour out of range", number, end, known)
            given = values[before + 1 :: 2] if loads else [1] * len(ends)
            vertex = task[values[0]] if labels else place
            yield number, vertex, [task[end] for end in ends], given

    return (n, arcs), vertices()


def _labels(text: Text, rows: list[tuple[int, list[str]]]) -> dict[int, int]:
    """The task of each label: labels number the vertices from 0 or 1, in any order."""
    task: dict[int, int] = {}
    for number, words in rows:
        label = whole(text, number, "vertex label", words[0])
        if label in task:
            raise text.fault("vertex label stands twice", number, label)
        task[label] = label
    least = min(task, default=0)
    for number, words in rows:
        if least > 1 or int(words[0]) >= least + len(rows):
            expected = f"0 to {len(rows) - 1}, or 1 to {len(rows)}, each once"
            raise text.fault("vertex label out of range", number, words[0], expected)
    return {label: label - least for label in task}


def write_graph(comm: CommGraph, path: Path) -> None:
    """Write edge loads; of directions that differ, the mean."""
    arcs, rows = mean_directions(comm)
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(f"0\n{comm.n_tasks} {arcs}\n0 010\n")
        file.writelines(
            " ".join([str(len(row)), *(f"{w} {d}" for d, w in row)]) + "\n" for row in rows
        )


GRAPH = Dialect(
    name="scotch",
    holds="graph",
    title="graph of Scotch",
    recognise=is_graph,
    read=undirected_reader(_graph_rows),
    write=write_graph,
    suffixes=(".grf",),
    documentation="""
The version 0, vertices and arcs, base (0 or 1) and flags, then a line for each vertex: its label
and load if the flags say so, its degree, then its neighbours, each behind its load if the flags say
so. Each edge goes both ways, with its load as bytes (1 without loads). Labels say which task a
vertex is, and number the neighbours. Written loads are whole: where the two directions differ,
their mean.
""",
    example="0\n4 8\n0 010\n2 10 1 40 3\n2 10 0 20 2\n2 20 1 30 3\n2 40 0 30 2\n",
)


def is_map(source: Source) -> bool:
    """Whether a count stands above so many lines of two numbers."""
    if len(source.fields) != 1 or not WHOLE.fullmatch(source.fields[0]) or len(source.lines) < 2:
        return False
    pairs = [fields(line) for _, line in source.lines[1:]]
    if any(len(p) != 2 or not all(map(WHOLE.fullmatch, p)) for p in pairs[:2]):
        return False
    count = int(source.fields[0][:9])
    return len(pairs) == count if len(source.lines) < LINES else count >= LINES - 1


def read_map(source: Source, options: MappingOptions) -> TaskMapping:
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


def write_map(mapping: TaskMapping, path: Path, target: Target) -> None:
    """Write a count and lines ``task number``."""
    number = np.argsort(first_fastest(target.torus))[mapping.node].tolist()
    lines = "".join(f"{task}\t{node}\n" for task, node in enumerate(number))
    write_lines(path, f"{len(number)}\n{lines}")


MAP = Dialect(
    name="scotch-map",
    holds="mapping",
    title="mapping of Scotch (gmap): a count, then task and node",
    recognise=is_map,
    read=read_map,
    write=write_map,
    documentation="""
What `gmap` writes: the number of vertices, then a line for each, its number and that of its node.
Scotch's tori (`torusXD`) count the first coordinate fastest; toruscast converts the numbers
when reading. For pairs in C order give the columns names, `task,node`.
""",
    example="4\n0 3\n1 1\n2 0\n3 2\n",
    advice="gmtst GRAPH TARGET {file} (Scotch tells what it makes of the mapping)",
)


def is_target(source: Source) -> bool:
    """Whether the first line is that of a torus or mesh of Scotch."""
    return bool(LINE.fullmatch(source.first_line()[1]))


def read_target(source: Source) -> Torus:
    """Return the torus of a line such as ``torus3D 8 8 4`` or ``torusXD 3 8 8 4``."""
    text = source.text
    lines = list(text.lines("#"))
    if not lines:
        raise text.fault("file without data")
    number, line = lines[0]
    match = LINE.fullmatch(line)
    if match is None or len(lines) > 1:
        at, found = (number, line) if match is None else lines[1]
        raise text.fault("bad target of Scotch", at, found, "torus3D 8 8 8 on one line")
    words = [word for _, each in lines for word in each.split()][1:]
    numbers = [whole(text, number, "size", word) for word in words]
    count = match[2]
    if count is None or count.upper() == "XD":
        if len(numbers) != numbers[0] + 1:
            found = f"{len(numbers) - 1} sizes after {numbers[0]}"
            raise text.fault("wrong number of sizes", number, found, "as many as dimensions")
        numbers = numbers[1:]
    elif len(numbers) != int(count[0]):
        raise text.fault("wrong number of sizes", number, len(numbers), count[0])
    wrap = (match[1].lower() == "torus",)
    with text.at(number):
        return Torus(tuple(numbers), wrap=wrap, name=label(source.path))


def write_target(torus: Torus, path: Path) -> None:
    """Write the sizes; all dimensions must wrap, or none."""
    wraps = {wrap for wrap, size in zip(torus.wrap, torus.shape, strict=True) if size > 1}
    if len(wraps) > 1 or torus.twist:
        raise InputError(
            "Scotch has no such torus", found=str(torus), expected="all dimensions wrap, or none"
        )
    kind = "mesh" if wraps == {False} else "torus"
    sizes = " ".join(map(str, torus.shape))
    counted = f"{torus.ndim}D" if torus.ndim in (2, 3) else f"XD {torus.ndim}"
    path.write_text(f"{kind}{counted} {sizes}\n", encoding="utf-8")


TARGET = Dialect(
    name="scotch-target",
    holds="torus",
    title="target architecture of Scotch: torus3D, torusXD, mesh2D, ...",
    recognise=is_target,
    read=read_target,
    write=write_target,
    suffixes=(".tgt",),
    documentation="""
One line: `torus2D`, `torus3D` or `mesh3D` and the sizes, or `torusXD` with the number of dimensions
before them. It tells no bandwidths. Scotch counts nodes with the first coordinate fastest, which
`scotch-map` turns.
""",
    example="torusXD 3 4 4 8\n",
    advice="gmap GRAPH.grf {file} best.map",
)
