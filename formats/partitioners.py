"""Graphs whose edges have no direction, as METIS, KaHIP and Scotch take them.

Sources: the manual of METIS 5.1 (section 4.1) and Scotch's graph_io.c (graphLoad, graphLoad2): with
labels both the vertices and the ends of edges are labels.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from itertools import dropwhile, pairwise
from pathlib import Path

import numpy as np

from toruscast.errors import InputError, InputWarning
from toruscast.mapping.comm_graph import CommGraph, sum_edges

from .dialect import Dialect
from .graphs import GraphOptions, Stated, both_ways, graph_of, one_way_edge
from .source import Source, Text, cells, whole, write_text
from .tables import table_of

# Line, vertex from 0, its neighbours as the file numbers them, and their weights.
Rows = Iterable[tuple[int, int, list[int], list[int]]]
# Number of arcs, task of each number of a vertex, and the rows.
Content = tuple[int, dict[int, int], Rows]
# METIS: vertex sizes, vertex weights, edge weights; leading zeros may be left out.
CODES = {
    code
    for text in ("0", "1", "10", "11", "100", "101", "110", "111")
    for code in (text, text.zfill(3), text.zfill(2))
}
# Scotch: vertex labels, edge loads, vertex loads.
_SCOTCH_FLAGS = re.compile(r"[01]{1,3}")


def graph_of_vertices(text: Text, content: Content, options: GraphOptions) -> CommGraph:
    """Return the graph of a line for each vertex: each edge goes both ways, its weight as bytes."""
    arcs, task, rows = content
    lines = np.zeros(len(task), np.int64)
    src: list[int] = []
    dst: list[int] = []
    nbytes: list[int] = []
    for number, vertex, ends, weights in rows:
        for end in ends:
            if end not in task:
                expected = f"{min(task)} to {max(task)}"
                raise text.fault("neighbour out of range", number, end, expected)
        lines[vertex] = number
        src += [vertex] * len(ends)
        dst += [task[end] for end in ends]
        nbytes += weights
    if len(src) != arcs:
        found = f"{len(src)} neighbours"
        raise text.fault("wrong number of edges", None, found, f"{arcs}, two for each edge")
    table = table_of(text, lines[src], src=src, dst=dst, nbytes=nbytes)
    graph = graph_of(table, Stated(len(task)), options)
    own = np.flatnonzero(graph.src == graph.dst)
    if own.size:
        vertex = int(graph.src[own[0]])
        found = f"vertex {vertex + 1}"
        raise text.fault("vertex is its own neighbour", int(lines[vertex]), found)
    if (edge := one_way_edge(graph)) is not None:
        s, d = int(graph.src[edge]), int(graph.dst[edge])
        expected = "each edge at both ends, with the same weight"
        found = f"{s + 1} - {d + 1}"
        raise text.fault("edge at one end only", int(lines[s]), found, expected)
    # Weights that are summed are one message.
    return CommGraph(graph.n_tasks, graph.src, graph.dst, graph.nbytes, name=options.name)


def mean_directions(comm: CommGraph) -> tuple[int, list[list[tuple[int, int]]]]:
    """Return the number of arcs, and neighbour and weight of each arc of a task.

    Edges go both ways alike. Messages of a task to itself and message counts are left out; a
    warning lists what is lost.
    """
    graph = comm.without_self_messages()
    # Each direction of a pair gets the sum of both halves.
    mean = sum_edges(comm.n_tasks, *both_ways(graph.src, graph.dst, graph.nbytes / 2))
    if (most := mean.nbytes.max(initial=0)) >= 2**53:
        raise InputError("bytes too large for a whole weight", found=most, expected="2**53")
    weight = np.ceil(mean.nbytes)
    lost = {
        "messages of tasks to themselves": graph.n_edges < comm.n_edges,
        "directions that differ (their mean is written)": mean.n_edges != graph.n_edges
        or not np.array_equal(mean.nbytes, graph.nbytes),
        "fractions of bytes": bool((weight != mean.nbytes).any()),
        "message counts": bool((comm.n_messages != 1).any()),
    }
    if any(lost.values()):
        words = ", ".join(what for what, is_so in lost.items() if is_so)
        warnings.warn(f"lost in a graph without directions: {words}", InputWarning, stacklevel=2)
    arcs = list(zip(mean.dst.tolist(), weight.astype(np.int64).tolist(), strict=True))
    return len(arcs), [arcs[begin:end] for begin, end in pairwise(mean.first.tolist())]


def _metis_content(text: Text, options: GraphOptions) -> Content:
    numbered = enumerate(text.raw_lines(), start=1)
    uncommented = ((number, line) for number, line in numbered if not line.lstrip().startswith("%"))
    # A blank line is a vertex without neighbours, but none stands before the header.
    rows = list(dropwhile(lambda row: not row[1].strip(), uncommented))
    if not rows:
        raise text.fault("file without data")
    number, line = rows[0]
    parts = line.split()
    if not 2 <= len(parts) <= 4 or (len(parts) > 2 and parts[2] not in CODES):
        raise text.fault("bad METIS header", number, line, "vertices edges [fmt [weights]]")
    n, m = (
        whole(text, number, what, p)
        for what, p in zip(("vertex count", "edge count"), parts, strict=False)
    )
    code = parts[2].zfill(3) if len(parts) > 2 else "000"
    weights = whole(text, number, "number of weights", parts[3], 64) if len(parts) > 3 else 1
    if code[0] == "1":
        options.omit("size of a vertex", times=max(1, n), reason="weights of edges are the bytes")
    body = rows[1 : n + 1]
    late = [row for row in rows[n + 1 :] if row[1].strip()]
    if len(body) < n or late:
        found = f"{len(body)} lines" if len(body) < n else f"more: {late[0][1]}"
        line_of = late[0][0] if late else None
        raise text.fault("wrong number of vertices", line_of, found, f"{n} lines, one a vertex")
    before, step = (code[0] == "1") + weights * (code[1] == "1"), 1 + (code[2] == "1")

    def vertices() -> Rows:
        for vertex, (number, line) in enumerate(body):
            values = [whole(text, number, "entry", part) for part in cells(line)[1]]
            ends = values[before::step]
            if len(values) < before or (len(values) - before) % step:
                each = "neighbour and weight" if step > 1 else "neighbours"
                expected = f"{before} numbers, then {each} ({code})"
                raise text.fault("line of a vertex at odds with fmt", number, line, expected)
            yield number, vertex, ends, values[before + 1 :: 2] if step > 1 else [1] * len(ends)

    return 2 * m, {vertex + 1: vertex for vertex in range(n)}, vertices()


def write_metis(comm: CommGraph, path: Path) -> None:
    """Write edge weights; of directions that differ, the mean."""
    arcs, rows = mean_directions(comm)
    lines = (" ".join(f"{end + 1} {weight}" for end, weight in row) + "\n" for row in rows)
    write_text(path, f"{comm.n_tasks} {arcs // 2} 001\n" + "".join(lines))


METIS = Dialect(
    name="metis",
    holds="graph",
    title="graph of METIS and KaHIP",
    read=lambda source, options: graph_of_vertices(
        source.text, _metis_content(source.text, options), options
    ),
    write=write_metis,
    suffixes=(".graph",),
    documentation="""
A line with the number of vertices, that of edges and the code `fmt`, then a line for each vertex:
its size and weights if `fmt` says so, then its neighbours, counted from 1, with weights if `fmt`
says so. Each edge goes both ways, with its weight as bytes (1 without weights); sizes and weights
of vertices are not used. Written weights are whole: where the two directions differ, their mean.
""",
    example="% a ring of four\n4 4 001\n2 10 4 40\n1 10 3 20\n2 20 4 30\n1 40 3 30\n",
)


def is_scotch(source: Source) -> bool:
    """Whether the file has a version 0 and two lines of two numbers, the last of which is flags."""
    head = [line.split() for line in source.raw_lines[:3]]
    return (
        [len(words) for words in head] == [1, 2, 2]
        and head[0] == ["0"]
        and all(word.isdigit() for word in head[1] + head[2])
        and head[2][0] in ("0", "1")
        and bool(_SCOTCH_FLAGS.fullmatch(head[2][1]))
    )


def _scotch_content(text: Text) -> Content:
    rows = [(n, line.split()) for n, line in enumerate(text.raw_lines(), start=1) if line.strip()]
    if len(rows) < 3 or [len(words) for _, words in rows[:3]] != [1, 2, 2]:
        raise text.fault("bad head of a Scotch graph", 1, None, "version, sizes, base and flags")
    (_, _), (number, sizes), (line_of, base_flags) = rows[:3]
    n, arcs = (
        whole(text, number, what, size)
        for what, size in zip(("vertex count", "arc count"), sizes, strict=True)
    )
    base = whole(text, line_of, "base", base_flags[0], 1)
    if not _SCOTCH_FLAGS.fullmatch(base_flags[1]):
        raise text.fault("bad flags", line_of, base_flags[1], "000 to 111")
    labels, loads, weights = (flag == "1" for flag in base_flags[1].zfill(3))
    if len(rows) - 3 != n:
        raise text.fault("wrong number of vertices", None, len(rows) - 3, f"{n} lines, one each")
    task = _scotch_labels(text, rows[3:]) if labels else {base + v: v for v in range(n)}

    def vertices() -> Rows:
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
            given = values[before + 1 :: 2] if loads else [1] * len(ends)
            yield number, task[values[0]] if labels else place, ends, given

    return arcs, task, vertices()


def _scotch_labels(text: Text, rows: list[tuple[int, list[str]]]) -> dict[int, int]:
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


def write_scotch(comm: CommGraph, path: Path) -> None:
    """Write edge loads; of directions that differ, the mean."""
    arcs, rows = mean_directions(comm)
    lines = (f"{len(row)}{''.join(f' {weight} {end}' for end, weight in row)}\n" for row in rows)
    write_text(path, f"0\n{comm.n_tasks} {arcs}\n0 010\n" + "".join(lines))


SCOTCH = Dialect(
    name="scotch",
    holds="graph",
    title="graph of Scotch",
    recognise=is_scotch,
    read=lambda source, options: graph_of_vertices(
        source.text, _scotch_content(source.text), options
    ),
    write=write_scotch,
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
DIALECTS = (METIS, SCOTCH)
