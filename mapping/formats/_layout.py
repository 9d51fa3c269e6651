"""What a text file of numbers is: an edge list or a dense matrix."""

from __future__ import annotations

from itertools import islice

from toruscast.errors import InputError

from ._source import Text
from ._table import NUMBER, fields
from .edge_list import read_edge_list, stated
from .matrix import read_dense

# Columns of an edge list: src dst bytes [messages].
EDGE_COLUMNS = (3, 4)


def is_matrix(text: Text, n_tasks: int | None) -> bool:
    """Whether the text is a dense matrix by its shape, and not an edge list.

    Three lines of three numbers, or four of four, may be either: then it is what only one of them
    can be. Edges that stand twice count as edges, and comments with the number of tasks or the grid
    stand above edges.

    Raises
    ------
    InputError
        If it can be both.
    """
    _, line = text.first_line()
    width = len(fields(line))
    if not any(NUMBER.fullmatch(part) for part in fields(line)):
        return False
    if width > max(EDGE_COLUMNS):
        return True
    n_lines = sum(1 for _ in islice(text.lines(), width + 1))
    if width < 2 or n_lines != width:
        return False
    if width not in EDGE_COLUMNS:
        return True
    dense, edges = _is_dense(text, n_tasks, width), _is_edge_list(text, n_tasks)
    if not (dense and edges):
        return dense
    if stated(text) != (None, None):
        return False
    raise text.fault(
        f"an edge list of {width} edges or a matrix of {width} tasks",
        None,
        f"{width} lines of {width} numbers",
        'format="edges" or format="matrix" to say which (on the command line --format)',
    )


def _is_edge_list(text: Text, n_tasks: int | None) -> bool:
    try:
        read_edge_list(text, n_tasks, "")
    except InputError as error:
        # Whoever wrote the edge twice, or a grid of other tasks, may still have meant edges.
        return error.message in ("edge stands twice", "bad task grid")
    return True


def _is_dense(text: Text, n_tasks: int | None, width: int) -> bool:
    if not {n_tasks, stated(text)[0]} <= {None, width}:
        return False
    try:
        read_dense(text)
    except InputError:
        return False
    return True
