"""Undirected graphs of METIS, KaHIP and Scotch.

Sources: the manual of METIS 5.1 (section 4.1), and Scotch's graph_io.c (graphLoad, graphLoad2),
where labels identify both the vertices and their neighbours.
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
from .graphs import GraphHeader, GraphOptions, graph_from_table, one_way_edge, with_reverse_edges
from .source import Source, TextFile, parse_whole, split_cells, write_text
from .tables import make_table

# Line, vertex from 0, neighbours as numbered in the file, and edge weights of each vertex.
Rows = Iterable[tuple[int, int, list[int], list[int]]]
# Number of arcs, a map from vertex numbers of the file to tasks, and the rows.
VertexLists = tuple[int, dict[int, int], Rows]
# Digits for vertex sizes, vertex weights and edge weights (METIS), or for vertex labels, edge loads
# and vertex loads (Scotch); leading zeros are optional.
_FLAGS = re.compile(r"[01]{1,3}")


def _graph_from_vertices(text: TextFile, content: VertexLists, options: GraphOptions) -> CommGraph:
    """Return the graph of an undirected file, which must list each edge in both of its rows."""
    arcs, task_of_vertex, rows = content
    lines = np.zeros(len(task_of_vertex), np.int64)
    src: list[int] = []
    dst: list[int] = []
    nbytes: list[int] = []
    for number, vertex, neighbours, weights in rows:
        for neighbour in neighbours:
            if neighbour not in task_of_vertex:
                expected = f"{min(task_of_vertex)} to {max(task_of_vertex)}"
                raise text.fault("neighbour out of range", number, neighbour, expected)
        lines[vertex] = number
        src += [vertex] * len(neighbours)
        dst += [task_of_vertex[neighbour] for neighbour in neighbours]
        nbytes += weights
    if len(src) != arcs:
        found = f"{len(src)} neighbours"
        raise text.fault("wrong number of edges", None, found, f"{arcs}, two for each edge")
    table = make_table(text, lines[src], src=src, dst=dst, nbytes=nbytes)
    graph = graph_from_table(table, GraphHeader(len(task_of_vertex)), options)
    self_edges = np.flatnonzero(graph.src == graph.dst)
    if self_edges.size:
        vertex = int(graph.src[self_edges[0]])
        found = f"vertex {vertex + 1}"
        raise text.fault("vertex is its own neighbour", int(lines[vertex]), found)
    if (edge := one_way_edge(graph)) is not None:
        s, d = int(graph.src[edge]), int(graph.dst[edge])
        expected = "each edge in both rows with the same weight"
        found = f"{s + 1} - {d + 1}"
        raise text.fault("edge without its reverse", int(lines[s]), found, expected)
    # Each edge is one message, even if it is the sum of repeated edges.
    return CommGraph(graph.n_tasks, graph.src, graph.dst, graph.nbytes, name=options.name)


def _average_directions(comm: CommGraph) -> tuple[int, list[list[tuple[int, int]]]]:
    """Return the undirected graph: its number of arcs, and (neighbour, weight) pairs by task.

    Each edge counts as two arcs, as in the files of METIS and Scotch. Warn about lost details.
    """
    graph = comm.without_self_messages()
    # Each direction of an edge gets the mean of both.
    mean = sum_edges(comm.n_tasks, *with_reverse_edges(graph.src, graph.dst, graph.nbytes / 2))
    if (max_bytes := mean.nbytes.max(initial=0)) >= 2**53:
        raise InputError("bytes too large for a whole weight", found=max_bytes, expected="2**53")
    weight = np.ceil(mean.nbytes)
    lost = {
        "self-messages": graph.n_edges < comm.n_edges,
        "differences between directions (the mean is written)": mean.n_edges != graph.n_edges
        or not np.array_equal(mean.nbytes, graph.nbytes),
        "fractions of bytes": bool((weight != mean.nbytes).any()),
        "message counts": bool((comm.n_messages != 1).any()),
    }
    if any(lost.values()):
        items = ", ".join(item for item, is_lost in lost.items() if is_lost)
        warnings.warn(f"lost in an undirected graph: {items}", InputWarning, stacklevel=2)
    arcs = list(zip(mean.dst.tolist(), weight.astype(np.int64).tolist(), strict=True))
    return len(arcs), [arcs[begin:end] for begin, end in pairwise(mean.first.tolist())]


def _read_metis(text: TextFile, options: GraphOptions) -> VertexLists:
    numbered = enumerate(text.raw_lines(), start=1)
    uncommented = ((number, line) for number, line in numbered if not line.lstrip().startswith("%"))
    # Blank lines before the header are skipped; after it, they are vertices without neighbours.
    rows = list(dropwhile(lambda row: not row[1].strip(), uncommented))
    if not rows:
        raise text.fault("file without data")
    number, line = rows[0]
    parts = line.split()
    if not 2 <= len(parts) <= 4 or (len(parts) > 2 and not _FLAGS.fullmatch(parts[2])):
        raise text.fault("bad METIS header", number, line, "vertices edges [fmt [weights]]")
    n, m = (
        parse_whole(text, number, name, p)
        for name, p in zip(("vertex count", "edge count"), parts, strict=False)
    )
    code = parts[2].zfill(3) if len(parts) > 2 else "000"
    weights = parse_whole(text, number, "number of weights", parts[3], 64) if len(parts) > 3 else 1
    if code[0] == "1":
        options.omit("size of a vertex", times=max(1, n), reason="edge weights are the bytes")
    body = rows[1 : n + 1]
    extra = [row for row in rows[n + 1 :] if row[1].strip()]
    if len(body) < n or extra:
        found = f"{len(body)} lines" if len(body) < n else f"more: {extra[0][1]}"
        line_of = extra[0][0] if extra else None
        raise text.fault("wrong number of vertices", line_of, found, f"{n} lines, one per vertex")
    # Number of values before the neighbours, and of values per neighbour.
    n_before, step = (code[0] == "1") + weights * (code[1] == "1"), 1 + (code[2] == "1")

    def vertices() -> Rows:
        for vertex, (number, line) in enumerate(body):
            values = [parse_whole(text, number, "entry", part) for part in split_cells(line)[1]]
            neighbours = values[n_before::step]
            if len(values) < n_before or (len(values) - n_before) % step:
                form = "neighbour and weight" if step > 1 else "neighbours"
                expected = f"{n_before} numbers, then {form} ({code})"
                raise text.fault("vertex line does not match fmt", number, line, expected)
            weights = values[n_before + 1 :: 2] if step > 1 else [1] * len(neighbours)
            yield number, vertex, neighbours, weights

    return 2 * m, {vertex + 1: vertex for vertex in range(n)}, vertices()


def _write_metis(comm: CommGraph, path: Path) -> None:
    arcs, rows = _average_directions(comm)
    lines = (" ".join(f"{end + 1} {weight}" for end, weight in row) + "\n" for row in rows)
    write_text(path, f"{comm.n_tasks} {arcs // 2} 001\n" + "".join(lines))


METIS = Dialect(
    name="metis",
    holds="graph",
    title="graph of METIS and KaHIP",
    read=lambda source, options: _graph_from_vertices(
        source.text, _read_metis(source.text, options), options
    ),
    write=_write_metis,
    suffixes=(".graph",),
    documentation="""
A line with the numbers of vertices and edges and the code `fmt`, then a line for each vertex: its
size and weights, then its neighbours, counted from 1, with edge weights, each as `fmt` states. An
edge sends its weight as bytes in both directions (1 without weights). Vertex sizes and weights are
not used. Weights are written as whole numbers: each is the mean of the weights of both directions.
""",
    example="% a ring of four\n4 4 001\n2 10 4 40\n1 10 3 20\n2 20 4 30\n1 40 3 30\n",
)


def _is_scotch(source: Source) -> bool:
    first_lines = [line.split() for line in source.raw_lines[:3]]
    return (
        [len(words) for words in first_lines] == [1, 2, 2]
        and first_lines[0] == ["0"]
        and all(word.isdigit() for word in first_lines[1] + first_lines[2])
        and first_lines[2][0] in ("0", "1")
        and bool(_FLAGS.fullmatch(first_lines[2][1]))
    )


def _read_scotch(text: TextFile) -> VertexLists:
    rows = [(n, line.split()) for n, line in enumerate(text.raw_lines(), start=1) if line.strip()]
    if len(rows) < 3 or [len(words) for _, words in rows[:3]] != [1, 2, 2]:
        raise text.fault("bad Scotch header", 1, None, "version, sizes, base and flags")
    (_, _), (number, sizes), (line_of, base_flags) = rows[:3]
    n, arcs = (
        parse_whole(text, number, name, size)
        for name, size in zip(("vertex count", "arc count"), sizes, strict=True)
    )
    base = parse_whole(text, line_of, "base", base_flags[0], 1)
    if not _FLAGS.fullmatch(base_flags[1]):
        raise text.fault("bad flags", line_of, base_flags[1], "000 to 111")
    labels, loads, weights = (flag == "1" for flag in base_flags[1].zfill(3))
    if len(rows) - 3 != n:
        raise text.fault("wrong number of vertices", None, len(rows) - 3, f"{n} lines")
    tasks = _read_scotch_labels(text, rows[3:]) if labels else {base + v: v for v in range(n)}

    def vertices() -> Rows:
        for index, (number, words) in enumerate(rows[3:]):
            values = [parse_whole(text, number, "entry", word) for word in words]
            n_before, step = labels + weights, 1 + loads
            degree = values[n_before] if len(values) > n_before else -1
            if len(values) != n_before + 1 + degree * step:
                expected = f"degree {degree}, so {n_before + 1 + degree * step}"
                found = f"{len(values)} numbers"
                raise text.fault("vertex line does not match its degree", number, found, expected)
            neighbours = values[n_before + step :: step]
            edge_loads = values[n_before + 1 :: 2] if loads else [1] * len(neighbours)
            yield number, tasks[values[0]] if labels else index, neighbours, edge_loads

    return arcs, tasks, vertices()


def _read_scotch_labels(text: TextFile, rows: list[tuple[int, list[str]]]) -> dict[int, int]:
    """Return the task of each label; labels number the vertices from 0 or 1, in any order."""
    line_of_label: dict[int, int] = {}
    for number, words in rows:
        label = parse_whole(text, number, "vertex label", words[0])
        text.record_once("vertex label", label, number, line_of_label)
    first = min(line_of_label, default=0)
    for label, number in line_of_label.items():
        if first > 1 or label >= first + len(rows):
            expected = f"0 to {len(rows) - 1}, or 1 to {len(rows)}, each once"
            raise text.fault("vertex label out of range", number, label, expected)
    return {label: label - first for label in line_of_label}


def _write_scotch(comm: CommGraph, path: Path) -> None:
    arcs, rows = _average_directions(comm)
    lines = (f"{len(row)}{''.join(f' {weight} {end}' for end, weight in row)}\n" for row in rows)
    write_text(path, f"0\n{comm.n_tasks} {arcs}\n0 010\n" + "".join(lines))


SCOTCH = Dialect(
    name="scotch",
    holds="graph",
    title="graph of Scotch",
    recognise=_is_scotch,
    read=lambda source, options: _graph_from_vertices(
        source.text, _read_scotch(source.text), options
    ),
    write=_write_scotch,
    suffixes=(".grf",),
    documentation="""
The version 0; the numbers of vertices and arcs; the base (0 or 1) and flags; then a line for each
vertex: its label and load, its degree, then the load and number of each neighbour. The flags state
which of these are present. An edge sends its load as bytes in both directions (1 without loads).
Labels give the task of a vertex and number the neighbours. Written loads are whole numbers, the
mean of the two directions.
""",
    example="0\n4 8\n0 010\n2 10 1 40 3\n2 10 0 20 2\n2 20 1 30 3\n2 40 0 30 2\n",
)
DIALECTS = (METIS, SCOTCH)
