"""The nodes of the ranks of a job on Fugaku, from the torus of its job script."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from toruscast import TaskMapping, Torus, machines

from .times import place_ranks, read_rank_map

# Of 12 nodes each, along Y of Fugaku.
_UNITS_Y = 23


class Job(NamedTuple):
    """The torus of a job, and the nodes of its ranks."""

    torus: Torus
    mapping: TaskMapping
    grid: tuple[int, ...]
    """Ranks along the dimensions that the algorithms see, in C order."""


def read_job(path: Path) -> Job:
    """Return the network of a job script, with its ranks on it.

    The torus that a job requests is embedded in the six dimensions of the machine along Hamiltonian
    cycles [1]_. Three dimensions are used unchanged, because both are equal for up to four nodes,
    as in the measurements. Two dimensions are long, and distant nodes of a long cycle are closer in
    the network; see `fold`.

    A dimension of two nodes is a single link each way, where three ports are as fast as six.

    References
    ----------
    .. [1] Ajima, Sumimoto and Shimizu, "Tofu: a 6D mesh/torus interconnect for exascale computers",
       Computer 42(11), 2009.
    """
    shape, rank_map = read_rank_map(path)
    torus = machines.tofu_d(shape, wrap=[size > 2 for size in shape])
    node: NDArray[Any] = place_ranks(shape, rank_map)
    if len(shape) == 2:
        coords, sizes = fold(shape)
        torus = machines.tofu_d(sizes, wrap=False)
        node = torus.node(coords)[node]
    grid = tuple(shape["XYZ".index(letter)] for letter in reversed(rank_map))
    return Job(torus, TaskMapping(node, torus, name=rank_map), grid)


def fold(shape: tuple[int, int]) -> tuple[NDArray[np.int64], tuple[int, ...]]:
    """Embed a logical torus of two dimensions in X Y Z a b c.

    The logical Y goes out through Y at two positions of b, and back through the third position. The
    logical X goes out through X, Z and c at one position of a, and back at the other, with X and Z
    as equal as possible. The two are exchanged if Y would exceed the 23 units of Fugaku. The actual
    embedding is not fully published, so this choice of dimensions is assumed.

    Returns
    -------
    coords : ndarray, shape (n_nodes, 6)
        Coordinates of the logical nodes in C order. Neighbours differ by one step in one dimension,
        including the first and the last node of an even length.
    sizes : tuple of int
        Sizes of the six dimensions. If a length cannot be divided, some nodes are not used.

    Examples
    --------
    >>> coords, sizes = fold((16, 6))
    >>> sizes, coords[:3].tolist()
    ((2, 2, 2, 2, 3, 2), [[0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 1, 0], [0, 0, 0, 0, 2, 0]])
    """
    through_y = int(shape[1] <= 3 * _UNITS_Y)
    units = -(-shape[1 - through_y] // 4)
    x = next(k for k in range(math.isqrt(units), 0, -1) if units % k == 0)
    sizes = (x, -(-shape[through_y] // 3), units // x, 2, 3, 2)
    along = {
        through_y: ("Yb", _round_three(shape[through_y])),
        1 - through_y: ("XZca", _round_two(shape[1 - through_y], (x, units // x, 2))),
    }
    where = np.indices(shape).reshape(2, -1)
    coords = np.zeros((where.shape[1], 6), dtype=np.int64)
    for axis, (letters, ring) in along.items():
        coords[:, ["XYZabc".index(letter) for letter in letters]] = ring[where[axis]]
    return coords, sizes


def _round_two(length: int, sizes: tuple[int, ...]) -> NDArray[np.int64]:
    """Coordinates along a ring out through a grid and back beside it."""
    path = _to_and_fro(sizes)[: -(-length // 2)]
    out = np.column_stack([path, np.zeros(len(path), dtype=np.int64)])
    back = np.column_stack([path, np.ones(len(path), dtype=np.int64)])[::-1]
    return np.concatenate([out, back])[:length]


def _round_three(length: int) -> NDArray[np.int64]:
    """Coordinates along a ring out through two columns and back through a third beside both."""
    rows = -(-length // 3)
    # As many pairs of rows are passed to and fro as the length asks for, the others straight.
    detours, single = divmod(length - 2 * rows, 2)
    out = [(0, 0)]
    for row in range(rows):
        if row // 2 < detours:
            out += [(row, 1), (row, 2)] if row % 2 == 0 else [(row, 2), (row, 1)]
        else:
            out.append((row, 1))
    if single:
        out.append((rows - 1, 2))
    return np.array([*out, *((row, 0) for row in range(rows - 1, 0, -1))])


def _to_and_fro(sizes: Sequence[int]) -> NDArray[np.int64]:
    """Coordinates along a path through all of a grid, the last dimension fastest."""
    path = np.zeros((1, 0), dtype=np.int64)
    for size in sizes:
        steps = np.tile(np.arange(size), (len(path), 1))
        steps[1::2] = steps[1::2, ::-1]
        path = np.column_stack([np.repeat(path, size, axis=0), steps.ravel()])
    return path
