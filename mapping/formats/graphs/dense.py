"""Dense matrices of numbers in text."""

from __future__ import annotations

import numpy as np

from toruscast.errors import InputError
from toruscast.wording import counted

from .._source import Text
from .._table import Column, fields, read_table
from ..source import LINES, Source
from .counts import Entries

# A dense matrix of this many tasks takes 2 GiB.
MAX_DENSE_TASKS = 16384


def square(source: Source) -> int | None:
    """Return the width of a small file that has as many lines as columns."""
    width = len(source.fields)
    return width if 1 < width == len(source.lines) < LINES else None


def is_dense(text: Text) -> bool:
    """Whether a text can be read as a dense matrix."""
    try:
        read_dense(text)
    except InputError:
        return False
    return True


def read_dense(text: Text) -> tuple[int, Entries]:
    """Return size and positive entries of a dense matrix of numbers, row = source."""
    number, line = text.first_line()
    width = len(fields(line))
    if width > MAX_DENSE_TASKS:
        limit = f"at most {MAX_DENSE_TASKS}; write it as an edge list"
        raise text.fault("dense matrix too large", number, f"{width} columns", limit)
    columns = [Column(f"entry for task {task}") for task in range(width)]
    table = read_table(text, columns, max_rows=width + 1)
    if table.n_rows != width:
        found = counted(table.n_rows, "row") if table.n_rows < width else f"more than {width} rows"
        raise text.fault("matrix is not square", None, found, f"{width}, as many as columns")
    dense = np.array(table.columns).T
    src, dst = np.nonzero(dense)
    return width, (src, dst, dense[src, dst])
