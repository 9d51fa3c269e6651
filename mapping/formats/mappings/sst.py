"""SST-macro's lists of nodes: their number, then the node of each task, x fastest."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...task_mapping import TaskMapping
from ...torus import Torus
from .._table import WHOLE, fields, whole
from ..dialect import Dialect
from ..source import LINES, Source
from .build import mapping_of, rows_of
from .options import MappingOptions, Target
from .rows import write_lines


def first_fastest(torus: Torus) -> NDArray[np.int64]:
    """Return the node of each number of tools that count the first coordinate fastest.

    Examples
    --------
    >>> first_fastest(Torus((2, 3))).tolist()
    [0, 3, 1, 4, 2, 5]
    """
    axes = range(torus.ndim - 1, -1, -1)
    return np.arange(torus.n_nodes).reshape(torus.shape).transpose(*axes).ravel()


def fits_count(source: Source) -> bool:
    """Whether the first line holds the number of those below it."""
    if len(source.fields) != 1 or not WHOLE.fullmatch(source.fields[0]) or len(source.lines) < 2:
        return False
    if any(len(fields(line)) != 1 for _, line in source.lines[1:3]) or len(source.fields[0]) > 9:
        return False
    count = int(source.fields[0])
    if len(source.lines) < LINES:
        return len(source.lines) - 1 == count
    return sum(1 for _ in source.stream.lines()) - 1 == count


def _is_list(source: Source) -> bool:
    return fits_count(source) and source.n_tasks in (None, int(source.fields[0]))


def read(source: Source, options: MappingOptions) -> TaskMapping:
    """Return the mapping of a list of node numbers below their count."""
    text = source.text
    text.first_line()
    lines = list(text.lines())
    count = whole(text, lines[0][0], "number of nodes", lines[0][1])
    if len(lines) - 1 != count:
        raise text.fault("wrong number of nodes", lines[0][0], len(lines) - 1, count)
    most = options.torus.n_nodes - 1
    numbers = [whole(text, line, "node", word, most) for line, word in lines[1:]]
    table, columns = rows_of(text, [line for line, _ in lines[1:]], numbers)
    return mapping_of(table, first_fastest(options.torus)[columns[0]], options)


def write(mapping: TaskMapping, path: Path, target: Target) -> None:
    """Write the count and the node of each task."""
    number = np.argsort(first_fastest(target.torus))[mapping.node]
    write_lines(path, "\n".join(map(str, [number.size, *number.tolist()])) + "\n")


DIALECT = Dialect(
    name="sst-macro",
    holds="mapping",
    title="SST-macro's list of node numbers below their count",
    recognise=_is_list,
    read=read,
    write=write,
    plain=True,
    documentation="""
The number of tasks, then the node of each on a line of its own. SST-macro's torus counts the first
coordinate fastest; toruscast turns the numbers at the door.
""",
    example="4\n0\n2\n2\n0\n",
    advice="app1.indexing = node_id, app1.node_id_file = {file} (SST-macro)",
)
