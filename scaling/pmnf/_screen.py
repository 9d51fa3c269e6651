"""Choice of the terms to combine, judged by points that differ in one parameter only."""

# p = call paths, n = points, t = terms, g = lines

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Index = NDArray[np.intp]

# A residual below this is a rounding error.
_LEAST = 1e-13
# Lines times call paths times terms held at a time, few enough for the cache.
_AT_ONCE = 40_000


def lines(points: Array, parameter: int, least: int = 3) -> list[Index]:
    """Return groups of points that differ in one parameter only, in `least` values or more.

    >>> import numpy as np
    >>> grid = np.array([[x, y] for x in (1, 2, 3) for y in (5, 6)], dtype=float)
    >>> [line.tolist() for line in lines(grid, 0)]
    [[0, 2, 4], [1, 3, 5]]
    """
    others = np.delete(points, parameter, axis=1)
    order = np.lexsort(others.T[::-1])
    parts = np.split(order, np.flatnonzero(np.diff(others[order], axis=0).any(axis=1)) + 1)
    return [part for part in parts if part.size >= least]


def screen(
    points: Array,
    parameter: int,
    terms: Array,
    log_prior: Array,
    weight: Array,
    target: Array,
    known: NDArray[np.bool_],
    keep: int,
) -> Index:
    """Return the most promising terms of one parameter for every call path.

    Along a line every model reduces to a + b t(x). The residual with a and b free on every line is
    therefore a lower bound for every structure.

    Parameters
    ----------
    terms : array, shape (t, n)
    log_prior : array, shape (t,)
    weight, target : array, shape (p, n)
    known : array of bool, shape (p,)
        The weights are those of the points' errors; otherwise their scale says nothing.
    keep : int

    Returns
    -------
    array of int, shape (p, keep)
        Row numbers of `terms`, in growing order.
    """
    residual = np.zeros((len(weight), len(terms)))
    groups = lines(points, parameter) or [np.arange(len(points))]
    at_once = max(1, _AT_ONCE // residual.size)
    for alike in _alike(points[:, parameter], groups, at_once):
        # Lines at the same values share one matrix product.
        t, w, y = terms[:, alike[0]].T, weight[:, alike], target[:, alike]
        total = w.sum(axis=2, keepdims=True)
        y = y - (w * y).sum(axis=2, keepdims=True) / total
        # A stack of small products takes several times as long as one large product.
        spread = _times(w, t * t) - _times(w, t) ** 2 / total
        gain = _times(w * y, t) ** 2 / np.maximum(spread, 1e-300)
        residual += (w * y * y).sum(axis=(1, 2))[:, None] - gain.sum(axis=1)
    # If the scale of the errors is unknown, only ratios of residuals tell terms apart.
    freedom = max(sum(line.size for line in groups) - 2 * len(groups), 1)
    relative = freedom * np.log(np.maximum(residual, _LEAST))
    score = np.where(known[:, None], residual, relative) - 2 * log_prior
    best: Index = np.argpartition(score, keep - 1, axis=1)[:, :keep]
    return np.sort(best, axis=1)


def _times(stack: Array, matrix: Array) -> Array:
    """Multiply each matrix of a stack, shape (p, g, n), by one of shape (n, t)."""
    product: Array = stack.reshape(-1, len(matrix)) @ matrix
    return product.reshape(*stack.shape[:2], -1)


def _alike(values: Array, groups: list[Index], at_once: int) -> list[Index]:
    """Stack the lines at the same values of the parameter; each stack has shape (lines, points)."""
    stacks: dict[bytes, list[Index]] = {}
    for line in groups:
        stacks.setdefault(values[line].tobytes(), []).append(line)
    return [
        np.stack(stack[start : start + at_once])
        for stack in stacks.values()
        for start in range(0, len(stack), at_once)
    ]
