"""Communication graphs as statistics of pairs: ``530 , 640 = 46986448.0``."""

from __future__ import annotations

import re

import numpy as np

from ...comm_graph import MAX_TASKS, CommGraph
from .._table import NUMBER, whole
from ..dialect import Dialect
from ..opening import at_file
from ..source import Source
from .build import GraphOptions

PAIR = re.compile(r"\s*([0-9]{1,18})\s*,\s*([0-9]{1,18})\s*=\s*(\S+)\s*")
TITLE = re.compile(r"-+\s*Graph Information\s*-+")
# Rules, and what is known of the whole graph.
RULE = re.compile(r"-+.*|[A-Za-z][\w ]*:.*")


def is_graph_stats(source: Source) -> bool:
    """Whether the first line is the title, or a pair with its bytes."""
    first = next((line for line in source.raw_lines if line.strip()), "")
    return bool(TITLE.fullmatch(first.strip()) or PAIR.fullmatch(first))


def read(source: Source, options: GraphOptions) -> CommGraph:
    """Return the graph: half of the bytes of a pair go each way, in one message."""
    options.only(source.path)
    text = source.text
    seen: dict[tuple[int, int], int] = {}
    amounts: list[float] = []
    for number, line in enumerate(text.raw_lines(), start=1):
        if not line.strip() or RULE.fullmatch(line.strip()):
            continue
        match = PAIR.fullmatch(line)
        amount = float(match[3]) if match and NUMBER.fullmatch(match[3]) else -1.0
        if match is None or not 0 <= amount <= 1e300:
            raise text.fault("bad line of a pair", number, line, "TASK , TASK = BYTES")
        ends = [whole(text, number, "task", match[i], MAX_TASKS - 1) for i in (1, 2)]
        pair = (min(ends), max(ends))
        if pair in seen:
            found = f"{pair[0]} , {pair[1]}, also on line {seen[pair]}"
            raise text.fault("pair stands twice", number, found, "each pair once")
        seen[pair] = number
        amounts.append(amount)
    if not seen:
        raise text.fault("file without data")
    a, b = np.array(list(seen), np.int64).T
    both, values = a != b, np.array(amounts)
    n_tasks = options.n_tasks or int(b.max()) + 1
    # Both directions are summed in the file; messages of a task to itself have one only.
    nbytes = np.where(both, values / 2, values)
    with at_file(source.path):
        return CommGraph(
            n_tasks,
            np.concatenate([a, b[both]]),
            np.concatenate([b, a[both]]),
            np.concatenate([nbytes, nbytes[both]]),
            name=options.name,
        )


DIALECT = Dialect(
    name="graph-stats",
    holds="graph",
    summed=True,
    title="pairs of tasks and their bytes: a , b = bytes",
    recognise=is_graph_stats,
    read=read,
    documentation="""
What scripts make of mpiP reports: a line for each pair of tasks with the bytes of both directions
together. Half of them go each way, in one message: nothing tells how many there were.
""",
    example="--------------- Graph Information----------------\n0 , 1 = 8192.0\n1 , 2 = 64.0\n",
)
