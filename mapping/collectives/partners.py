"""Whom a task meets in each step of a butterfly, along a ring or the dimensions of a torus."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from toruscast.errors import InputError
from toruscast.validation import whole_sizes

Family = Literal["bine", "binary"]


def butterfly_partners(
    shape: Sequence[int], *, family: Family = "bine", port: int = 0
) -> NDArray[np.int64]:
    """Return the partner of every task in every step of a butterfly, the near ones first.

    Parameters
    ----------
    shape : sequence of int
        Tasks along each dimension, each a power of two; ranks are in C order. One number for a
        butterfly over the ranks themselves.
    family : {"bine", "binary"}
        Distance of step k along its dimension. ``binary``: the coordinates differ in bit k.
        ``bine``: the signed sum 1 - 2 + 4 - ... of k + 1 terms (1, -1, 3, -5, 11, ...) away from an
        even coordinate, against it from an odd one, so that far steps stay a third shorter.
    port : int
        Port of the node. Steps go round the dimensions in turn, starting with dimension ``port``;
        the second half of the ports of a torus run the mirror image.

    Returns
    -------
    ndarray, shape (n_steps, n_tasks)
        Each row is its own inverse: partners swap.

    Raises
    ------
    InputError
        If a size is not a power of two or the family is not known.

    Notes
    -----
    De Sensi et al., "Bine trees: enhancing collective operations by optimizing communication
    locality", SC'25, for a ring; for tori and several ports De Sensi et al., "Swing:
    short-cutting rings for higher bandwidth allreduce", NSDI'24. In two dimensions ports 2 and 3
    are the mirrored ones and 4 and 5 repeat 0 and 1, as in the authors' port to Fugaku
    (HLC-Lab/bine_trees_fugaku).

    Examples
    --------
    >>> butterfly_partners((8,)).tolist()
    [[1, 0, 3, 2, 5, 4, 7, 6], [7, 2, 1, 4, 3, 6, 5, 0], [3, 6, 5, 0, 7, 2, 1, 4]]
    """
    sizes = powers_of_two(shape)
    if family not in get_args(Family):
        raise InputError("bad family", found=family, expected=" or ".join(get_args(Family)))
    coords = np.indices(sizes).reshape(len(sizes), -1)
    mirrored = is_mirrored(port, len(sizes))
    rows = []
    for dim, step in _steps(sizes, port):
        along = coords[dim]
        if family == "binary":
            away = (along ^ (1 << step)) - along
        else:
            away = np.where(along % 2 == 0, 1, -1) * _bine_distance(step)
        moved = list(coords)
        moved[dim] = (along + (-away if mirrored else away)) % sizes[dim]
        rows.append(np.ravel_multi_index(moved, sizes))
    return np.array(rows, dtype=np.int64).reshape(len(rows), math.prod(sizes))


def is_mirrored(port: int, ndim: int) -> bool:
    """Whether a port runs the mirror image, so that it uses links the other way."""
    return {1: port % 2 == 1, 2: port in (2, 3)}.get(ndim, port >= ndim)


def powers_of_two(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the sizes of a grid, all powers of two.

    Raises
    ------
    InputError
        If one is not.
    """
    sizes = whole_sizes(shape, "task grid")
    if not sizes or any(size < 1 or size & (size - 1) for size in sizes):
        raise InputError("bad task grid", found=sizes, expected="powers of two")
    return sizes


def _steps(sizes: tuple[int, ...], port: int) -> list[tuple[int, int]]:
    """Dimension and step within it: the first step of each dimension, the second of each, ..."""
    ndim = len(sizes)
    turn = [(port + i) % ndim for i in range(ndim)]
    most = max(size.bit_length() for size in sizes)
    return [(d, step) for step in range(most) for d in turn if step < sizes[d].bit_length() - 1]


def _bine_distance(step: int) -> int:
    return int((1 - (-2) ** (step + 1)) // 3)
