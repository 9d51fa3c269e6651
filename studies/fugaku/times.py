"""Times of collectives on Fugaku, measured with PICO and the authors' port of bine trees."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from toruscast import InputError

_COLUMNS = {
    "collective_type": "collective",
    "buffer_size": "nbytes",
    "algo_name": "algorithm",
    "median": "time",
    "nnodes": "shape",
    "tasks_per_node": "tasks_per_node",
}
_RANK_MAP = re.compile(r'rank-map-bynode=([XYZ]+)"?')
_SHAPE = re.compile(r"[1-9]\d{0,3}(x[1-9]\d{0,3}){1,2}")
_NODES = re.compile(r'"node=(\d+(?:x\d+){0,2})')


def read_times(folder: Path | str) -> pd.DataFrame:
    """Return the measured times of every collective, algorithm, size and torus.

    Parameters
    ----------
    folder : path
        Holds the ``*.aggregated_results_summary.csv`` of PICO (github.com/HLC-Lab/pico,
        results/fugaku).

    Returns
    -------
    DataFrame
        A row a measurement: ``shape`` ("4x4x4"), ``collective`` (lower case), ``algorithm`` as the
        source names it, ``nbytes`` (size of the whole buffer) and ``time``, the median of the
        iterations in seconds.

    Raises
    ------
    InputError
        If there is no such file, or one does not have the columns or the numbers; says file,
        line, what was found and what was expected.
    """
    folder = Path(folder)
    files = sorted(folder.glob("*.aggregated_results_summary.csv"))
    if not files:
        raise InputError(
            "no measurements", file=str(folder), expected="*.aggregated_results_summary.csv"
        )
    return pd.concat([_read(path) for path in files], ignore_index=True)


def _read(path: Path) -> pd.DataFrame:
    texts = ("collective_type", "algo_name", "nnodes")
    try:
        raw = pd.read_csv(path, dtype=dict.fromkeys(texts, str))
    except (ValueError, OSError) as error:
        raise InputError("not a table", file=str(path), found=str(error)[:80]) from None
    missing = [column for column in _COLUMNS if column not in raw]
    if missing:
        raise InputError("columns missing", file=str(path), found=list(raw)[:8], expected=missing)
    table = raw[list(_COLUMNS)].rename(columns=_COLUMNS)
    for column in ("collective", "algorithm", "shape"):
        table[column] = table[column].fillna("")
        _refuse(path, table[column], table[column] == "", f"no {column}", "a name")
    unlike = ~table["shape"].map(lambda shape: bool(_SHAPE.fullmatch(shape)))
    _refuse(path, table["shape"], unlike, "bad torus", "nodes along 2 or 3 dimensions, as 4x4x4")
    for column in ("nbytes", "time"):
        numbers = pd.to_numeric(table[column], errors="coerce")
        bad = ~(np.isfinite(numbers) & (numbers > 0))
        _refuse(path, table[column], bad, f"bad {column}", "a positive number")
        table[column] = numbers.astype(float)
    table["time"] /= 1e9
    table["collective"] = table["collective"].str.lower()
    tasks = table.pop("tasks_per_node")
    _refuse(path, tasks, pd.to_numeric(tasks, errors="coerce") != 1, "bad tasks_per_node", "1")
    return table[["shape", "collective", "algorithm", "nbytes", "time"]]


def _refuse(path: Path, column: pd.Series, bad: pd.Series, message: str, expected: str) -> None:
    """Fault the first row that is bad."""
    rows = np.flatnonzero(bad)
    if rows.size:
        line, found = int(rows[0]) + 2, column.iloc[rows[0]]
        raise InputError(message, file=str(path), line=line, found=found, expected=expected)


def read_rank_map(path: Path | str) -> tuple[tuple[int, ...], str]:
    """Return the torus and the rank map of a job script.

    Returns
    -------
    shape : tuple of int
        Nodes along X, Y and Z.
    rank_map : str
        Order in which ranks go through the dimensions, the first letter fastest.

    Raises
    ------
    InputError
        If the script does not name them.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError("job script not readable", file=str(path), found=str(error)) from None
    nodes, order = _NODES.search(text), _RANK_MAP.search(text)
    if nodes is None or order is None:
        raise InputError(
            "no torus or rank map in the job script",
            file=str(path),
            expected='"node=4x4x4..." and "rank-map-bynode=YZX"',
        )
    shape = tuple(int(size) for size in nodes[1].split("x"))
    if sorted(order[1]) != sorted("XYZ"[: len(shape)]):
        raise InputError(
            "rank map does not fit the torus", file=str(path), found=(order[1], nodes[1])
        )
    return shape, order[1]


def place_ranks(shape: tuple[int, ...], rank_map: str) -> NDArray[np.int64]:
    """Return the node (C order of X, Y, Z) of each rank.

    Examples
    --------
    >>> place_ranks((2, 3), "YX").tolist(), place_ranks((2, 3), "XY").tolist()
    ([0, 1, 2, 3, 4, 5], [0, 3, 1, 4, 2, 5])
    """
    # In C order the last dimension runs fastest, in the rank map the first letter.
    axes = ["XYZ".index(letter) for letter in reversed(rank_map)]
    return np.arange(math.prod(shape)).reshape(shape).transpose(axes).ravel()
