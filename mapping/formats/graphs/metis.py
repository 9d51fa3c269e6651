"""Communication graphs in the format of METIS, which KaHIP, Zoltan and others take too."""

from __future__ import annotations

from itertools import dropwhile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from toruscast.errors import InputError

from ...comm_graph import CommGraph
from .._source import Text
from .._table import WHOLE, fields, whole
from ..dialect import Dialect
from ..source import LINES, Source
from .options import GraphOptions
from .undirected import check_symmetric, mean_directions, read_whole

# Vertex sizes, vertex weights, edge weights; leading zeros may be left out.
CODES = {
    code
    for text in ("0", "1", "10", "11", "100", "101", "110", "111")
    for code in (text, text.zfill(3), text.zfill(2))
}


def _header(source: Source) -> tuple[int, int, str, int] | None:
    """Vertices, edges, code and weights a vertex, if the first line can hold them."""
    lines = [line for line in source.raw_lines if not line.lstrip().startswith("%")]
    parts = lines[0].split() if lines else []
    good = 2 <= len(parts) <= 4 and all(WHOLE.fullmatch(p) and len(p) < 12 for p in parts)
    if not good or (len(parts) > 2 and parts[2] not in CODES) or int(parts[0]) < 1:
        return None
    code = parts[2].zfill(3) if len(parts) > 2 else "000"
    weights = int(parts[3]) if len(parts) > 3 else 1
    return int(parts[0]), int(parts[1]), code, weights


def fits_metis(source: Source) -> bool:
    """Whether the whole file is a METIS graph; or its start, if that can be no list of edges."""
    head = _header(source)
    if head is None:
        return False
    n, _, code, weights = head
    lines = [line for line in source.raw_lines if not line.lstrip().startswith("%")][1:]
    if not lines or any(not all(map(WHOLE.fullmatch, line.split())) for line in lines[:8]):
        return False
    widths = {len(line.split()) for line in lines[:8]}
    if len(widths) > 1 or widths != {len(source.fields)}:
        return all(_may_be_vertex(line, n, code, weights) for line in lines[:8])
    # The table of a graph without exceptions may be one of edges: all of it must fit.
    if len(lines) < LINES - 2 and sum(bool(line) for line in lines) > n:
        return False
    try:
        if n > source.data.count(b"\n") + 1:
            return False
        _read(source.text, "")
    except InputError:
        return False
    return True


def _may_be_vertex(line: str, n: int, code: str, weights: int) -> bool:
    values = [int(part[:12]) for part in line.split()]
    before = (code[0] == "1") + weights * (code[1] == "1")
    step = 2 if code[2] == "1" else 1
    ends = values[before::step]
    return len(values[before:]) % step == 0 and all(1 <= end <= n for end in ends)


def read(source: Source, options: GraphOptions) -> CommGraph:
    """Return the graph: each edge goes both ways, with its weight as bytes."""
    return read_whole(source, options, _read)


def _read(text: Text, name: str) -> CommGraph:
    numbered = enumerate(text.raw_lines(), start=1)
    said = ((number, line) for number, line in numbered if not line.lstrip().startswith("%"))
    # A blank line is a vertex without neighbours, but none stands before the header.
    rows = list(dropwhile(lambda row: not row[1].strip(), said))
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
    body = rows[1 : n + 1]
    late = [row for row in rows[n + 1 :] if row[1].strip()]
    if len(body) < n or late:
        found = f"{len(body)} lines" if len(body) < n else f"more: {late[0][1]}"
        line_of = late[0][0] if late else None
        raise text.fault("wrong number of vertices", line_of, found, f"{n} lines, one a vertex")
    before, step = (code[0] == "1") + weights * (code[1] == "1"), 1 + (code[2] == "1")
    src: list[int] = []
    dst: list[int] = []
    nbytes: list[int] = []
    for vertex, (number, line) in enumerate(body):
        cells = fields(line) if "," in line else line.split()
        values = [whole(text, number, "entry", cell) for cell in cells]
        ends = values[before::step]
        if len(values) < before or (len(values) - before) % step:
            expected = (
                f"{before} numbers, then {'neighbour and weight' if step > 1 else 'neighbours'}"
            )
            raise text.fault(
                "line of a vertex at odds with fmt", number, line, f"{expected} ({code})"
            )
        for end in ends:
            if not 1 <= end <= n:
                raise text.fault("neighbour out of range", number, end, f"1 to {n}")
        src += [vertex] * len(ends)
        dst += [end - 1 for end in ends]
        nbytes += values[before + 1 :: 2] if step > 1 else [1] * len(ends)
    if len(src) != 2 * m:
        raise text.fault(
            "wrong number of edges", None, f"{len(src)} neighbours", f"{2 * m}, two for each edge"
        )
    check_symmetric(text, n, [number for number, _ in body], np.array([src, dst, nbytes], np.int64))
    return CommGraph(n, src, dst, nbytes, name=name)


def write(comm: CommGraph, path: Path) -> None:
    """Write edge weights; of directions that differ, the mean."""
    edges = mean_directions(comm)
    rows = _rows(comm.n_tasks, edges)
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(f"{comm.n_tasks} {edges[0].size // 2} 001\n")
        file.writelines(f"{' '.join(f'{d + 1} {w}' for d, w in row)}\n" for row in rows)


def _rows(n: int, edges: tuple[NDArray[np.int64], ...]) -> list[list[tuple[int, int]]]:
    rows: list[list[tuple[int, int]]] = [[] for _ in range(n)]
    for s, d, w in zip(*(column.tolist() for column in edges), strict=True):
        rows[s].append((d, w))
    return rows


DIALECT = Dialect(
    name="metis",
    holds="graph",
    title="graph of METIS and KaHIP",
    recognise=fits_metis,
    read=read,
    write=write,
    plain=True,
    suffixes=(".graph",),
    documentation="""
A line with the number of vertices, that of edges and the code `fmt`, then a line for each vertex:
its size and weights if `fmt` says so, then its neighbours, counted from 1, with weights if `fmt`
says so. Each edge goes both ways, with its weight as bytes (1 without weights); sizes and weights
of vertices are not used. Written weights are whole: where the two directions differ, their mean.
""",
    example="% a ring of four\n4 4 001\n2 10 4 40\n1 10 3 20\n2 20 4 30\n1 40 3 30\n",
)
