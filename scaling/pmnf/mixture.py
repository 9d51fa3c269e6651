"""Predictions of weighted hypotheses, their quantiles, and the range that holds most weight."""

# p = call paths, h = hypotheses, g = alternatives of a hypothesis, m = places

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ._exact import Hypotheses
from .term_space import TermSpace

Array = NDArray[np.float64]


def predicted(
    found: Hypotheses, spaces: Sequence[TermSpace], places: Array, most: int | None = None
) -> Array:
    """Return the prediction of each hypothesis, or of the `most` likeliest; shape (p, h, m)."""
    terms = [
        np.vstack([np.ones(len(places)), space.values(column)])
        for space, column in zip(spaces, places.T, strict=True)
    ]
    code, coefficient = found.terms[:, :most], found.coefficient[:, :most]
    total = np.zeros((*coefficient.shape[:2], len(places)))
    for k in range(coefficient.shape[2]):
        column = coefficient[:, :, k, None] * np.ones(len(places))
        for q, t in enumerate(terms):
            if code[:, :, k, q].any():
                column = column * t[code[:, :, k, q]]
        total += column
    return total


def alternatives(
    found: Hypotheses, spaces: Sequence[TermSpace], places: Array
) -> tuple[Array, Array]:
    """Return the prediction of every alternative (p, h * g, m) and its probability (p, h * g)."""
    n_paths, n_kept, n_nodes, n_columns = found.nodes.shape
    if n_nodes == 1:
        return predicted(found, spaces, places), weights(found)
    whole = replace(
        found,
        terms=np.repeat(found.terms, n_nodes, axis=1),
        coefficient=found.nodes.reshape(n_paths, n_kept * n_nodes, n_columns),
    )
    weight = weights(found)[:, :, None] * np.exp(found.log_share)
    return predicted(whole, spaces, places), weight.reshape(n_paths, -1)


def weights(found: Hypotheses) -> Array:
    """Return the probability of each hypothesis; shape (p, h)."""
    weight = np.exp(found.log_evidence - found.log_evidence[:, :1])
    normalised: Array = weight / weight.sum(axis=1, keepdims=True)
    return normalised


def quantiles(values: Array, weight: Array, level: float) -> Array:
    """Return the quantile of each row: `level` of its weight is at or below it.

    Parameters
    ----------
    values, weight : array, shape (n_rows, n_values)
    level : float
        Between 0 and 1.

    Examples
    --------
    >>> import numpy as np
    >>> quantiles(np.array([[3.0, 1.0, 2.0]]), np.array([[1.0, 1.0, 1.0]]), 0.5).tolist()
    [2.0]
    """
    order = np.argsort(values, axis=1)
    total = np.take_along_axis(weight, order, axis=1).cumsum(axis=1)
    place = (total < level * total[:, -1:]).sum(axis=1)
    chosen = np.take_along_axis(order, np.minimum(place, values.shape[1] - 1)[:, None], axis=1)
    result: Array = np.take_along_axis(values, chosen, axis=1)[:, 0]
    return result


def spread(values: Array, weight: Array, levels: Sequence[float] | Array) -> Array:
    """Quantiles at all places; shape (levels, p, m).

    Parameters
    ----------
    values : array, shape (p, h, m)
    weight : array, shape (p, h)
    levels : sequence of float
    """
    places = range(values.shape[2])
    return np.stack(
        [
            np.stack([quantiles(values[:, :, m], weight, level) for m in places], axis=1)
            for level in levels
        ]
    )


def densest(values: Array, weight: Array, width: float) -> Array:
    """Set weights outside the densest range of a row to zero, if it holds more than half of all.

    Parameters
    ----------
    values, weight : array, shape (n_rows, n_values)
    width : float
        Width of the range, as a part of the row's median.

    Returns
    -------
    array, shape (n_rows, n_values)
        The weights.

    Examples
    --------
    >>> import numpy as np
    >>> values, weight = np.array([[1.0, 2.0, 9.0, 9.5]]), np.array([[0.3, 0.1, 0.2, 0.4]])
    >>> densest(values, weight, 0.1).tolist()
    [[0.0, 0.0, 0.2, 0.4]]
    >>> densest(values, weight, 0.01).tolist()
    [[0.3, 0.1, 0.2, 0.4]]
    """
    order = np.argsort(values, axis=1)
    ranked = np.take_along_axis(values, order, axis=1)
    total = np.take_along_axis(weight, order, axis=1).cumsum(axis=1)
    reach = ranked + width * np.abs(quantiles(values, weight, 0.5))[:, None]
    result = weight.copy()
    for row in range(len(values)):
        end = np.searchsorted(ranked[row], reach[row], side="right")
        held = total[row, end - 1] - np.concatenate(([0.0], total[row, :-1]))
        begin = int(np.argmax(held))
        if held[begin] > 0.5 * total[row, -1]:
            result[row, order[row, :begin]] = 0.0
            result[row, order[row, end[begin] :]] = 0.0
    return result
