"""Communication graphs in the format of Scotch (.grf)."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from ...comm_graph import CommGraph
from .._source import Text
from .._table import whole
from ..dialect import Dialect
from ..source import Source
from .options import GraphOptions
from .undirected import check_symmetric, mean_directions, read_whole

FLAGS = re.compile(r"[01]{1,3}")


def is_scotch(source: Source) -> bool:
    """Whether the file has a version 0 and two lines of two numbers, the last of which is flags."""
    head = [line.split() for line in source.raw_lines[:3]]
    return (
        [len(words) for words in head] == [1, 2, 2]
        and head[0] == ["0"]
        and all(word.isdigit() for word in head[1] + head[2])
        and head[2][0] in ("0", "1")
        and bool(FLAGS.fullmatch(head[2][1]))
    )


def read(source: Source, options: GraphOptions) -> CommGraph:
    """Return the graph: each edge goes both ways, with its load as bytes."""
    return read_whole(source, options, _read)


def _read(text: Text, name: str) -> CommGraph:
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
    src: list[int] = []
    dst: list[int] = []
    nbytes: list[int] = []
    for vertex, (number, words) in enumerate(rows[3:]):
        values = [whole(text, number, "entry", word) for word in words]
        before, step = labels + weights, 1 + loads
        degree = values[before] if len(values) > before else -1
        ends = values[before + step :: step]
        if labels and values[0] != vertex + base:
            raise text.fault("vertex label out of order", number, values[0], vertex + base)
        if len(values) != before + 1 + degree * step:
            found, expected = (
                f"{len(values)} numbers",
                f"degree {degree}, so {before + 1 + degree * step}",
            )
            raise text.fault("line of a vertex at odds with its degree", number, found, expected)
        for end in ends:
            if not base <= end < n + base:
                raise text.fault("neighbour out of range", number, end, f"{base} to {n + base - 1}")
        src += [vertex] * len(ends)
        dst += [end - base for end in ends]
        nbytes += values[before + 1 :: 2] if loads else [1] * len(ends)
    if len(src) != arcs:
        raise text.fault("wrong number of arcs", None, len(src), f"{arcs}, two for each edge")
    check_symmetric(text, n, [number for number, _ in rows[3:]], np.array([src, dst, nbytes]))
    return CommGraph(n, src, dst, nbytes, name=name)


def write(comm: CommGraph, path: Path) -> None:
    """Write edge loads; of directions that differ, the mean."""
    src, dst, weight = mean_directions(comm)
    rows: list[list[str]] = [[] for _ in range(comm.n_tasks)]
    for s, d, w in zip(src.tolist(), dst.tolist(), weight.tolist(), strict=True):
        rows[s].append(f"{w} {d}")
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(f"0\n{comm.n_tasks} {src.size}\n0 010\n")
        file.writelines(" ".join([str(len(row)), *row]) + "\n" for row in rows)


DIALECT = Dialect(
    name="scotch",
    holds="graph",
    title="graph of Scotch",
    recognise=is_scotch,
    read=read,
    write=write,
    suffixes=(".grf",),
    documentation="""
The version 0, vertices and arcs, base (0 or 1) and flags, then a line for each vertex: its label
and load if the flags say so, its degree, then its neighbours, each behind its load if the flags say
so. Each edge goes both ways, with its load as bytes (1 without loads). Written loads are whole:
where the two directions differ, their mean.
""",
    example="0\n4 8\n0 010\n2 10 1 40 3\n2 10 0 20 2\n2 20 1 30 3\n2 40 0 30 2\n",
)
