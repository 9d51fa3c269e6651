"""Evidence of every hypothesis for every call path, from shared weighted moments.

A column of a hypothesis is a product of one term per parameter. So each entry of its normal
equations is a sum over points of weight times powers of the terms. One batched matrix product gives
that entry for all exponents and call paths at once, and all hypotheses share it.
"""

# p = call paths, n = points, t = terms of a parameter, h = hypotheses

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# At least this part of a column is taken as independent of the columns before it.
_LEAST_PIVOT = 1e-15
# Least sum of coefficients, in units of the largest value measured.
_LEAST_TOTAL = 1e-6

Powers = tuple[int, ...]


class Moments:
    """Sums over points of weight, target and powers of the parameters' terms.

    On a complete grid each term has one value a level, and one parameter is summed over after the
    other. Elsewhere each sum is computed from the points when it is needed.

    Parameters
    ----------
    terms : sequence of array, each shape (p or 1, t_l, n)
        Values of the terms kept for each parameter.
    error, target : array, shape (p, n)
        Standard error of each point and its centre.
    levels : sequence of array of int, each shape (n,), optional
        For a complete grid: the number of each point's value of each parameter.
    """

    def __init__(
        self,
        terms: Sequence[Array],
        error: Array,
        target: Array,
        levels: Sequence[NDArray[np.intp]] | None = None,
    ) -> None:
        self._terms = terms
        weight = error**-2.0
        self._weight = {False: weight, True: weight * target}
        self.squares: Array = (weight * target**2).sum(axis=1)
        self._known: dict[tuple[Powers, bool], Array] = {}
        self._grid: dict[bool, Array] = {}
        if levels is not None and len(terms) > 1:
            self._grid = {
                False: _contract(terms, weight, levels, 2),
                True: _contract(terms, weight * target, levels, 1),
            }

    def product(self, u: Powers, v: Powers) -> Array:
        """Return the weighted product of two columns, prod_l term_l^u_l and the same with v.

        Its shape is (t_0 or 1, t_1 or 1, .., p), with 1 for a parameter that does not occur. Call
        paths are last because the other axes are short, and loops over six terms are slow.
        """
        return self._once(tuple(a + b for a, b in zip(u, v, strict=True)), False)

    def with_target(self, u: Powers) -> Array:
        """Return the weighted product of a column and the target, shaped as in `product`."""
        return self._once(u, True)

    def _once(self, powers: Powers, with_target: bool) -> Array:
        key = powers, with_target
        if key not in self._known:
            make = self._part if self._grid else self._sum
            self._known[key] = make(powers, with_target)
        return self._known[key]

    def _part(self, powers: Powers, with_target: bool) -> Array:
        """Return the sums of some powers from those of the whole grid."""
        place: list[slice] = []
        for power, terms in zip(powers, self._terms, strict=True):
            t = terms.shape[1]
            place.append(slice(0, 1) if power == 0 else slice(1 + (power - 1) * t, 1 + power * t))
        result: Array = self._grid[with_target][tuple(place)]
        return result

    def _sum(self, powers: Powers, with_target: bool) -> Array:
        """Sum over the points by one batched matrix product."""
        weight = self._weight[with_target]
        left = weight[:, None, :]
        axes = [q for q, power in enumerate(powers) if power]
        shape = [len(weight)] + [1] * len(powers)
        for q in axes:
            shape[1 + q] = self._terms[q].shape[1]
        if not axes:
            total: Array = weight.sum(axis=1).reshape(shape[1:] + shape[:1])
            return total
        for q in axes[:-1]:
            factor = self._power(q, powers[q])
            left = (left[:, :, None, :] * factor[:, None, :, :]).reshape(
                len(weight), -1, weight.shape[1]
            )
        result: Array = left @ np.swapaxes(self._power(axes[-1], powers[axes[-1]]), 1, 2)
        return np.ascontiguousarray(np.moveaxis(result.reshape(shape), 0, -1))

    def _power(self, q: int, power: int) -> Array:
        value = self._terms[q]
        return value if power == 1 else value * value


def _contract(
    terms: Sequence[Array], weight: Array, levels: Sequence[NDArray[np.intp]], most: int
) -> Array:
    """Return the sums of weight times every product of powers 0..most of one term per parameter.

    Their shape is (1 + most t_0, 1 + most t_1, .., p): the power 0, all terms, all their squares.
    """
    shape = [int(level.max()) + 1 for level in levels]
    order = np.argsort(np.ravel_multi_index(tuple(levels), shape))
    total = weight[:, order]
    done = 1
    for q in reversed(range(len(terms))):
        # One point of each level stands for all of its points.
        value = terms[q][:, :, np.unique(levels[q], return_index=True)[1]]
        powers = [np.ones((len(value), 1, shape[q])), *(value**k for k in range(1, most + 1))]
        basis = np.concatenate(powers, axis=1)[:, None]
        total = basis @ total.reshape(len(weight), -1, shape[q], done)
        done *= basis.shape[2]
    sizes = [1 + most * t.shape[1] for t in terms]
    return np.ascontiguousarray(np.moveaxis(total.reshape(len(weight), *sizes), 0, -1))


def normal_equations(
    moments: Moments, columns: Sequence[Powers]
) -> tuple[list[list[Array]], list[Array]]:
    """Return the lower triangle of the normal matrix and the right-hand side of a structure."""
    gram = [[moments.product(u, v) for v in columns[: k + 1]] for k, u in enumerate(columns)]
    return gram, [moments.with_target(u) for u in columns]


def solve(
    gram: list[list[Array]], right: list[Array], squares: Array, open_prior: bool = False
) -> tuple[Array, Array, Array]:
    """Solve normal equations: residual sum, log of the determinant's root, misfit of the sign.

    Parameters
    ----------
    gram, right
        As from `normal_equations`, broadcastable over hypotheses.
    squares : array
        Weighted sum of squares of the target.
    open_prior : bool
        Include in the root the effect of the prior over shares (`_quadrature`) on coefficients that
        the points leave open.

    Returns
    -------
    residual : array
        Weighted residual sum of squares of the least-squares solution.
    log_root : array
        Half the logarithm of the normal matrix's determinant.
    against : array
        Sum over negative coefficients of (coefficient / its standard error)^2.
    """
    k = len(right)
    # G = L D L^T with a unit lower triangle needs no square roots in the inner loops.
    lower: list[list[Array]] = []
    inverse_pivot: list[Array] = []
    coefficient: list[Array] = []
    residual = squares
    log_root: Array = np.zeros(1)
    # NumPy's minimum and maximum are twice as fast with a row of zeros as with a number.
    zero = np.zeros_like(squares)
    for a in range(k):
        pivot, rest = gram[a][a], right[a]
        along: list[Array] = []
        row: list[Array] = []
        for b in range(a):
            value = gram[a][b]
            for c in range(b):
                value = value - along[c] * lower[b][c]
            along.append(value)
            row.append(value * inverse_pivot[b])
            pivot = pivot - value * row[b]
            rest = rest - value * coefficient[b]
        if a:
            pivot = np.maximum(pivot, _LEAST_PIVOT * gram[a][a])
        lower.append(row)
        inverse_pivot.append(1.0 / pivot)
        coefficient.append(rest * inverse_pivot[a])
        residual = residual - rest * coefficient[a]
        # Only the pivots of the last columns are large arrays.
        log_root = log_root + 0.5 * np.log(pivot)
    against: Array = np.zeros(1)
    total: Array = np.zeros(1)
    widest: Array = np.zeros(1)
    # Column b of the inverse factor maps the rest of the target to the coefficient, and the pivots
    # to its variance.
    for b in range(k):
        value, variance = coefficient[b], inverse_pivot[b]
        column: list[Array] = []
        for a in range(b + 1, k):
            entry = lower[a][b]
            for c in range(b + 1, a):
                entry = entry - lower[a][c] * column[c - b - 1]
            column.append(entry)
            value = value - entry * coefficient[a]
            variance = variance + entry * entry * inverse_pivot[a]
        negative = np.minimum(value, zero)
        against = against + negative * negative / variance
        if open_prior:
            total = total + np.maximum(value, zero)
            widest = np.maximum(widest, variance)
    if open_prior:
        # The prior falls as 1 / total^k. If a coefficient is less certain than the total, only a
        # range as wide as the total counts.
        total = np.maximum(total, _LEAST_TOTAL)
        log_root = log_root + np.log(total ** (k - 1) * (total + np.sqrt(widest)))
    return np.maximum(residual, zero), log_root, against
