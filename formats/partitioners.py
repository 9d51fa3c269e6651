"""Undirected graphs of METIS, KaHIP and Scotch.

Sources: the manual of METIS 5.1 (section 4.1), and Scotch's graph_io.c (graphLoad, graphLoad2),
where labels identify both the vertices and their neighbours.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from itertools import dropwhile, pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from toruscast.errors import InputError, InputWarning
from toruscast.mapping.comm_graph import CommGraph, sum_edges

from .dialect import Dialect
from .graphs import GraphHeader, GraphOptions, graph_from_table, one_way_edge, with_reverse_edges
from .source import Source, TextFile, parse_whole, split_cells, write_text
from .tables import make_table


class _VertexLists(NamedTuple):
    """The content of an undirected file, which lists each edge at both of its vertices."""

    n_arcs: int  # two for each edge
    task_of_vertex: dict[int, int]  # by the vertex number in the file
    # For each vertex: its line, its task, the numbers of its neighbours, and its edge weights.
    rows: Iterable[tuple[int, int, list[int], list[int]]]


# A digit 1 for each kind of number in the lines: vertex sizes, vertex weights and edge weights
# (METIS), or vertex labels, edge loads and vertex loads (Scotch). Leading zeros are optional.
_FLAGS = re.compile(r"[01]{1,3}")


def _read_undirected(
    read_lists: Callable[[TextFile, GraphOptions], _VertexLists],
    source: Source,
    options: GraphOptions,
) -> CommGraph:
    """Return the graph of an undirected file; an edge sends its weight in both directions.

    Raises `InputError` for self-loops and for edges that only one of their vertices lists.
    """
    text = source.text
    n_arcs, task_of_vertex, rows = read_lists(text, options)
    line_of_task = np.zeros(len(task_of_vertex), np.int64)
    src: list[int] = []
    dst: list[int] = []
    nbytes: list[int] = []
    for number, task, neighbours, weights in rows:
        for neighbour in neighbours:
            if neighbour not in task_of_vertex:
                expected = f"{min(task_of_vertex)} to {max(task_of_vertex)}"
                raise text.fault("neighbour out of range", number, neighbour, expected)
        line_of_task[task] = number
        src += [task] * len(neighbours)
        dst += [task_of_vertex[neighbour] for neighbour in neighbours]
        nbytes += weights
    if len(src) != n_arcs:
        found = f"{len(src)} neighbours"
        raise text.fault("wrong number of edges", None, found, f"{n_arcs}, two for each edge")
    table = make_table(text, line_of_task[src], src=src, dst=dst, nbytes=nbytes)
    graph = graph_from_table(table, GraphHeader(len(task_of_vertex)), options)
    self_edges = graph.src[graph.src == graph.dst]
    if self_edges.size:
        line, found = int(line_of_task[self_edges[0]]), f"vertex {self_edges[0] + 1}"
        raise text.fault("vertex is its own neighbour", line, found)
    if (edge := one_way_edge(graph)) is not None:
        first, second = graph.src[edge], graph.dst[edge]
        line, found = int(line_of_task[first]), f"{first + 1} - {second + 1}"
        expected = "each edge in both rows with the same weight"
        raise text.fault("edge without its reverse", line, found, expected)
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


def _read_metis(text: TextFile, options: GraphOptions) -> _VertexLists:
    """Read a header, whose digits state what each line contains, then a line for each vertex."""
    numbered = enumerate(text.raw_lines(), start=1)
    uncommented = ((number, line) for number, line in numbered if not line.lstrip().startswith("%"))
    # Blank lines before the header are skipped; after it, they are vertices without neighbours.
    lines = list(dropwhile(lambda row: not row[1].strip(), uncommented))
    if not lines:
        raise text.fault("file without data")
    number, line = lines[0]
    words = line.split()
    if not 2 <= len(words) <= 4 or (len(words) > 2 and not _FLAGS.fullmatch(words[2])):
        raise text.fault("bad METIS header", number, line, "vertices edges [fmt [weights]]")
    n = parse_whole(text, number, "vertex count", words[0])
    n_edges = parse_whole(text, number, "edge count", words[1])
    code = words[2].zfill(3) if len(words) > 2 else "000"
    has_sizes, has_weights, has_edge_weights = (flag == "1" for flag in code)
    n_weights = parse_whole(text, number, "number of weights", words[3], 64) if words[3:] else 1
    if has_sizes:
        options.omit("size of a vertex", times=max(1, n), reason="edge weights are the bytes")
    vertex_lines = lines[1 : n + 1]
    extra = [row for row in lines[n + 1 :] if row[1].strip()]
    if len(vertex_lines) < n or extra:
        line_of_error, found = extra[0] if extra else (None, f"{len(vertex_lines)} lines")
        found = f"more: {found}" if extra else found
        expected = f"{n} lines, one per vertex"
        raise text.fault("wrong number of vertices", line_of_error, found, expected)
    # Number of values before the neighbours, and of values per neighbour.
    n_before, step = has_sizes + n_weights * has_weights, 1 + has_edge_weights
    rows = []
    for vertex, (number, line) in enumerate(vertex_lines):
        values = [parse_whole(text, number, "entry", word) for word in split_cells(line)[1]]
        neighbours = values[n_before::step]
        if len(values) < n_before or (len(values) - n_before) % step:
            entries = "neighbour and weight" if has_edge_weights else "neighbours"
            expected = f"{n_before} numbers, then {entries} ({code})"
            raise text.fault("vertex line does not match fmt", number, line, expected)
        weights = values[n_before + 1 :: 2] if has_edge_weights else [1] * len(neighbours)
        rows.append((number, vertex, neighbours, weights))
    return _VertexLists(2 * n_edges, {vertex + 1: vertex for vertex in range(n)}, rows)


def _write_metis(comm: CommGraph, path: Path) -> None:
    arcs, rows = _average_directions(comm)
    lines = (" ".join(f"{task + 1} {weight}" for task, weight in row) + "\n" for row in rows)
    write_text(path, f"{comm.n_tasks} {arcs // 2} 001\n" + "".join(lines))


METIS = Dialect(
    name="metis",
    holds="graph",
    title="graph of METIS and KaHIP",
    read=partial(_read_undirected, _read_metis),
    write=_write_metis,
    suffixes=(".graph",),
    documentation="""
A line with the numbers of vertices and edges and the code `fmt`, then a line for each vertex: its
size and weights, then its neighbours, counted from 1, with edge weights; `fmt` states which of
these are present. The weight of an edge (1 without weights) is its bytes in each direction. Vertex
sizes and weights are not used. A written weight is the mean of both directions, as a whole number.
""",
    example="% a ring of four\n4 4 001\n2 10 4 40\n1 10 3 20\n2 20 4 30\n1 40 3 30\n",
)


def _is_scotch(source: Source) -> bool:
    """Whether the first lines are version 0, then two sizes, then the base and the flags."""
    first_lines = [line.split() for line in source.raw_lines[:3]]
    return (
        [len(words) for words in first_lines] == [1, 2, 2]
        and first_lines[0] == ["0"]
        and all(word.isdigit() for word in first_lines[1] + first_lines[2])
        and first_lines[2][0] in ("0", "1")
        and bool(_FLAGS.fullmatch(first_lines[2][1]))
    )


def _read_scotch(text: TextFile, _options: GraphOptions) -> _VertexLists:
    """Read a header, whose digits state what each line contains, then a line for each vertex."""
    lines = [(n, line.split()) for n, line in enumerate(text.raw_lines(), start=1) if line.strip()]
    if [len(words) for _, words in lines[:3]] != [1, 2, 2]:
        raise text.fault("bad Scotch header", 1, None, "version, sizes, base and flags")
    _, (size_line, sizes), (base_line, (base_text, flags)) = lines[:3]
    vertex_lines = lines[3:]
    n = parse_whole(text, size_line, "vertex count", sizes[0])
    n_arcs = parse_whole(text, size_line, "arc count", sizes[1])
    base = parse_whole(text, base_line, "base", base_text, 1)
    if not _FLAGS.fullmatch(flags):
        raise text.fault("bad flags", base_line, flags, "000 to 111")
    has_labels, has_edge_loads, has_loads = (flag == "1" for flag in flags.zfill(3))
    if len(vertex_lines) != n:
        raise text.fault("wrong number of vertices", None, len(vertex_lines), f"{n} lines")
    tasks = {base + task: task for task in range(n)}
    if has_labels:
        tasks = _read_scotch_labels(text, vertex_lines)
    n_before, step = has_labels + has_loads, 1 + has_edge_loads
    rows = []
    for index, (number, words) in enumerate(vertex_lines):
        values = [parse_whole(text, number, "entry", word) for word in words]
        degree = values[n_before] if len(values) > n_before else -1
        if len(values) != n_before + 1 + degree * step:
            found = f"{len(values)} numbers"
            expected = f"degree {degree}, so {n_before + 1 + degree * step}"
            raise text.fault("vertex line does not match its degree", number, found, expected)
        neighbours = values[n_before + step :: step]
        edge_loads = values[n_before + 1 :: 2] if has_edge_loads else [1] * len(neighbours)
        rows.append((number, tasks[values[0]] if has_labels else index, neighbours, edge_loads))
    return _VertexLists(n_arcs, tasks, rows)


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
    lines = (f"{len(row)}{''.join(f' {weight} {task}' for task, weight in row)}\n" for row in rows)
    write_text(path, f"0\n{comm.n_tasks} {arcs}\n0 010\n" + "".join(lines))


SCOTCH = Dialect(
    name="scotch",
    holds="graph",
    title="graph of Scotch",
    recognise=_is_scotch,
    read=partial(_read_undirected, _read_scotch),
    write=_write_scotch,
    suffixes=(".grf",),
    documentation="""
The version 0; the numbers of vertices and arcs; the base (0 or 1) and flags; then a line for each
vertex: its label and load, its degree, then the load and number of each neighbour. The flags state
which of these are present. The load of an edge (1 without loads) is its bytes in each direction.
The label of a vertex is its task; neighbours are given by label. A written load is the mean of both
directions, as a whole number.
""",
    example="0\n4 8\n0 010\n2 10 1 40 3\n2 10 0 20 2\n2 20 1 30 3\n2 40 0 30 2\n",
)
DIALECTS = (METIS, SCOTCH)
