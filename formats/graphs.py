"""What the readers and writers of graphs share: options, from rows to a graph, rows to a file."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from toruscast.errors import DuplicateEdgeError, InputError
from toruscast.files import at_file
from toruscast.mapping.comm_graph import MAX_TASKS, CommGraph, sum_edges
from toruscast.mapping.task_mapping import first_repeat
from toruscast.text import counted

from .source import warn_of
from .tables import TextTable

Include = Literal["all", "point_to_point", "collective"]
Duplicates = Literal["refuse", "sum"]
Gathered = Literal["each", "whole"]
AnyPath = str | os.PathLike[str]
Array = NDArray[Any]
# Messages for options that a format does not use.
_UNUSED = {
    "include": "no monitoring output, so there is nothing to select",
    "columns": "no table with named columns",
    "collectives": "no trace with collectives, so there is no algorithm to choose",
    "gathered": "no trace whose gathers have two readings",
}
_DEFAULTS = {"include": "all", "gathered": "each"}
# Files with more tasks need as many edges, or have to state their number.
_MANY = 2**20
_FEW_TASKS_AN_EDGE = 16


@dataclass(frozen=True)
class GraphOptions:
    """Options of `read_workload`; a dialect that cannot use one refuses it."""

    name: str = ""
    n_tasks: int | None = None
    include: Include = "all"
    columns: Mapping[str, str] = field(default_factory=dict)
    """Names of the file's columns by ours, for tables."""
    duplicates: Duplicates = "refuse"
    """Whether pairs that stand several times are added up."""
    collectives: Mapping[str, str] = field(default_factory=dict)
    """Algorithms by collective, such as {"allreduce": "ring"}."""
    gathered: Gathered = "each"
    """Whether the size of a gather or all-gather is what each rank puts in, or the whole."""

    def only(self, path: AnyPath, *used: str) -> None:
        """Raise `InputError` if an option is set that the file's format does not use."""
        for option, message in _UNUSED.items():
            value = getattr(self, option)
            if option not in used and value and value != _DEFAULTS.get(option):
                found = value if isinstance(value, str) else ", ".join(value.values())
                raise InputError(message, file=path, found=found, expected=_DEFAULTS.get(option))

    def graph(
        self,
        n_tasks: int,
        src: Array,
        dst: Array,
        nbytes: Array,
        n_messages: Array | None = None,
        *,
        grid: tuple[int, ...] | None = None,
    ) -> CommGraph:
        """Return the graph of columns; pairs may stand several times where they are added up."""
        build = sum_edges if self.duplicates == "sum" else CommGraph
        return build(n_tasks, src, dst, nbytes, n_messages, grid=grid, name=self.name)

    def agree(self, count: int | None, path: AnyPath) -> int | None:
        """Return the one task count that the file and the caller give."""
        if count is not None and self.n_tasks is not None and count != self.n_tasks:
            raise InputError("wrong number of tasks", file=path, found=count, expected=self.n_tasks)
        return count if self.n_tasks is None else self.n_tasks

    def at_least(self, size: int, path: AnyPath) -> int:
        """Return the caller's number of tasks, at least ``size``; if not given, ``size``."""
        if self.n_tasks is not None and self.n_tasks < size:
            expected = f"at most {self.n_tasks}"
            raise InputError("wrong number of tasks", file=path, found=size, expected=expected)
        return self.n_tasks or size


@dataclass(frozen=True)
class Stated:
    """What a file states besides its edges."""

    n_tasks: int | None = None
    grid: tuple[int, ...] | None = None
    counts: bool = False
    """Whether it states that the fourth column holds message counts."""


def graph_of(table: TextTable, told: Stated, options: GraphOptions) -> CommGraph:
    """Return the graph of the columns src, dst, nbytes and maybe n_messages."""
    src, dst = table["src"], table["dst"]
    n_tasks = options.agree(told.n_tasks, table.text.file)
    most = MAX_TASKS if n_tasks is None else n_tasks
    for what, ends in (("source", src), ("destination", dst)):
        if ends.size and ends.max() >= most:
            row = int(np.flatnonzero(ends >= most)[0])
            expected = f"a task from 0 to {most - 1}"
            if ends[row] == most and n_tasks is not None and min(src.min(), dst.min()) == 1:
                expected += " (are the tasks counted from 1?)"
            raise table.fault(row, f"{what} out of range", ends[row], expected)
    if n_tasks is None:
        n_tasks = int(max(src.max(initial=0), dst.max(initial=0))) + 1
        _check_filled(table, np.maximum(src, dst), n_tasks)
        _warn_of_one(table.text.file, src, dst, n_tasks)
    amounts = table["nbytes"], table.columns.get("n_messages")
    try:
        with at_file(table.text.file):
            return options.graph(n_tasks, src, dst, *amounts, grid=told.grid)
    except InputError:
        _refuse_twice(table, src, dst, n_tasks)
        raise


def _check_filled(table: TextTable, ends: Array, n_tasks: int) -> None:
    """Refuse very many tasks of which nearly none take part, unless the file states them."""
    if n_tasks > max(_MANY, _FEW_TASKS_AN_EDGE * ends.size):
        raise table.fault(
            int(np.argmax(ends)),
            "nearly all tasks without traffic",
            f"{n_tasks} tasks and {counted(ends.size, 'edge')}",
            "smaller numbers of tasks, or above the edges a line such as '# n_tasks "
            f"{n_tasks}' if there are so many",
        )


def _warn_of_one(file: str, src: Array, dst: Array, n_tasks: int) -> None:
    """Say so if every task but 0 takes part: the file may count from 1."""
    if not 3 <= n_tasks <= 2 * src.size + 1 or not (src.min() >= 1 and dst.min() >= 1):
        return
    seen = np.zeros(n_tasks, bool)
    seen[src] = seen[dst] = True
    if seen[1:].all():
        warn_of(
            file,
            "task 0 neither sends nor receives, all others do: are the tasks counted from "
            f"1? There are {n_tasks} tasks now",
        )


def _refuse_twice(table: TextTable, src: Array, dst: Array, n_tasks: int) -> None:
    """Name the second line of a pair, if one stands twice."""
    if repeat := first_repeat(src * np.int64(n_tasks) + dst):
        first, second = repeat
        found = f"{src[second]} -> {dst[second]}, also on line {table.line(first)}"
        expected = 'each pair once; duplicates="sum" adds them up (--duplicates sum)'
        fault = DuplicateEdgeError("edge stands twice", found=found, expected=expected)
        raise fault.replace(file=table.text.file, line=table.line(second)) from None


def has_rank_files(path: AnyPath, ending: str) -> bool:
    """Whether a folder or prefix has files ``NAME.RANK.ending``."""
    with suppress(OSError, ValueError):
        return bool(_named_by_rank(Path(path), ending))
    return False


def rank_files(path: AnyPath, ending: str) -> dict[int, Path]:
    """Return the files ``NAME.RANK.ending`` of a folder, or with the prefix ``path``, by rank."""
    with at_file(path):
        found = sorted(_named_by_rank(Path(path), ending))
    if not found:
        expected = f"files such as lj.0.{ending.partition('|')[0]}"
        raise InputError("no files of ranks in folder", file=path, expected=expected)
    if found[0][0] != found[-1][0]:
        raise InputError(
            "output of several runs in folder",
            file=path,
            found=f"{found[0][0]} and {found[-1][0]}",
            expected="one; give the path with the prefix",
        )
    files: dict[int, Path] = {}
    for _, rank, file in found:
        if rank in files:
            raise InputError("rank stands twice", file=file, found=files[rank].name)
        files[rank] = file
    for rank in range(max(files)):
        if rank not in files:
            raise missing_rank(path, files, rank)
    return files


def _named_by_rank(path: Path, ending: str) -> list[tuple[str, int, Path]]:
    folder = path if path.is_dir() else path.parent
    name = ".*" if folder == path else re.escape(path.name)
    pattern = re.compile(rf"({name})\.([0-9]{{1,9}})\.(?:{ending})(?:\.gz)?")
    matches = [(pattern.fullmatch(file.name), file) for file in folder.iterdir()]
    return [(match[1], int(match[2]), file) for match, file in matches if match]


def missing_rank(path: AnyPath, files: Mapping[int, Path], rank: int) -> InputError:
    """Return the error that there is no file of a rank."""
    found = counted(len(files), "file")
    return InputError("file of a rank missing", file=path, found=found, expected=f"rank {rank}")


def both_ways(src: Array, dst: Array, *amounts: Array) -> list[Array]:
    """Return the columns of edges together with those of the edges back; own messages stay one."""
    there, back = (src, dst, *amounts), (dst, src, *amounts)
    apart = src != dst
    return [np.concatenate([a, b[apart]]) for a, b in zip(there, back, strict=True)]


def one_way_edge(graph: CommGraph) -> int | None:
    """Return the first edge without one back that has as many bytes; None if all have."""
    back = np.lexsort((graph.src, graph.dst))
    differs = (graph.dst[back] != graph.src) | (graph.src[back] != graph.dst)
    differs |= graph.nbytes[back] != graph.nbytes
    return int(np.argmax(differs)) if differs.any() else None


def topological_order(
    before: Sequence[Collection[int]], key: Callable[[int], Any] = lambda _: 0
) -> list[int]:
    """Return places in an order in which each comes behind those before it, the least key first.

    Places that wait for each other are left out.

    Examples
    --------
    >>> topological_order([[2], [0], []])
    [2, 0, 1]
    """
    after: list[list[int]] = [[] for _ in before]
    waits = [len(others) for others in before]
    for at, others in enumerate(before):
        for other in others:
            after[other].append(at)
    ready = [(key(at), at) for at, count in enumerate(waits) if not count]
    heapify(ready)
    order = []
    while ready:
        _, at = heappop(ready)
        order.append(at)
        for other in after[at]:
            waits[other] -= 1
            if not waits[other]:
                heappush(ready, (key(other), other))
    return order
