"""Evidence of every hypothesis for every call path, from shared weighted moments.

A column of a hypothesis is a product of one term per parameter, so each entry of its normal
equations is a sum over points of weight times powers of the terms: one batched matrix product gives
that entry for all exponents and call paths at once, and all hypotheses share it.
"""

# p = call paths, n = points, t = terms of a parameter, h = hypotheses

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_TINY = 1e-300


Powers = tuple[int, ...]


class Moments:
    """Sums over points of weight, target and powers of the parameters' terms, made on demand.

    Parameters
    ----------
    terms : sequence of array, each shape (p or 1, t_l, n)
        Values of the terms kept for each parameter.
    error, target : array, shape (p, n)
        Standard error of each point and its centre.
    """

    def __init__(self, terms: Sequence[Array], error: Array, target: Array) -> None:
        self._terms = terms
        weight = error**-2.0
        self._weight = {False: weight, True: weight * target}
        self.squares: Array = (weight * target**2).sum(axis=1)
        self._known: dict[tuple[str, Powers, Powers], Array] = {}

    def product(self, u: Powers, v: Powers) -> Array:
        """Weighted product of two columns, prod_l term_l^u_l and the same with v.

        Shape (p, t_0 or 1, t_1 or 1, ..), 1 for a parameter without a part.
        """
        both = tuple(a + b for a, b in zip(u, v, strict=True))
        return self._once("sum", both, (), lambda: self._sum(both, self._weight[False]))

    def with_target(self, u: Powers) -> Array:
        """Weighted product of a column and the target, shaped as `product`."""
        return self._once("target", u, (), lambda: self._sum(u, self._weight[True]))

    def log_peak(self, powers: Powers) -> Array:
        """Log of the largest value of a column at any point, shaped as `product`."""
        return self._once("peak", powers, (), lambda: np.log(self._column(powers).max(axis=-1)))

    def _once(self, what: str, u: Powers, v: Powers, make: Callable[[], Array]) -> Array:
        key = (what, u, v)
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]

    def _column(self, powers: Powers) -> Array:
        """Column at each point; the parameters' axes, then the points'."""
        column = np.ones((1,) * (1 + len(powers)) + (self._weight[False].shape[1],))
        for q, power in enumerate(powers):
            if power:
                t = self._terms[q]
                axes = [len(t)] + [1] * len(powers) + [t.shape[2]]
                axes[1 + q] = t.shape[1]
                column = column * t.reshape(axes)
        return column

    def _sum(self, powers: Powers, weight: Array) -> Array:
        """Sum over points by one batched matrix product."""
        left = weight[:, None, :]
        axes = [q for q, power in enumerate(powers) if power]
        shape = [len(weight)] + [1] * len(powers)
        for q in axes:
            shape[1 + q] = self._terms[q].shape[1]
        if not axes:
            total: Array = weight.sum(axis=1)
            return total.reshape(shape)
        for q in axes[:-1]:
            factor = self._power(q, powers[q])
            left = (left[:, :, None, :] * factor[:, None, :, :]).reshape(
                len(weight), -1, weight.shape[1]
            )
        result: Array = left @ np.swapaxes(self._power(axes[-1], powers[axes[-1]]), 1, 2)
        return result.reshape(shape)

    def _power(self, q: int, power: int) -> Array:
        value = self._terms[q]
        return value if power == 1 else value * value


def normal_equations(
    moments: Moments, columns: Sequence[Powers]
) -> tuple[list[list[Array]], list[Array]]:
    """Lower triangle of the normal matrix and the right-hand side of a structure."""
    gram = [[moments.product(u, v) for v in columns[: k + 1]] for k, u in enumerate(columns)]
    return gram, [moments.with_target(u) for u in columns]


def solve(
    gram: list[list[Array]], right: list[Array], squares: Array
) -> tuple[Array, Array, Array]:
    """Residual sum, log determinant and misfit of the sign, from normal equations.

    Parameters
    ----------
    gram, right
        As from `normal_equations`, broadcastable over hypotheses.
    squares : array
        Weighted sum of squares of the target.

    Returns
    -------
    residual : array
        Weighted residual sum of squares of the least-squares solution.
    log_determinant : array
        Of the normal matrix.
    against : array
        Sum over negative coefficients of (coefficient / its standard error)^2.
    """
    k = len(right)
    scale = [np.sqrt(gram[a][a]) + _TINY for a in range(k)]
    factor: list[list[Array]] = []
    forward: list[Array] = []
    for a in range(k):
        row: list[Array] = []
        for b in range(a):
            value = gram[a][b] / (scale[a] * scale[b])
            for c in range(b):
                value = value - row[c] * factor[b][c]
            row.append(value / factor[b][b])
        pivot: Array = np.ones(1)
        for r in row:
            pivot = pivot - r * r
        row.append(np.sqrt(np.maximum(pivot, 1e-15)))
        factor.append(row)
        value = right[a] / scale[a]
        for c in range(a):
            value = value - row[c] * forward[c]
        forward.append(value / row[a])
    explained: Array | int = sum(f * f for f in forward)
    determinant: Array = np.log(scale[0])
    for a in range(1, k):
        determinant = determinant + np.log(scale[a] * factor[a][a])
    # Column b of the inverse factor, for coefficients and their variances.
    inverse: list[list[Array]] = [[] for _ in range(k)]
    for a in range(k):
        for b in range(a):
            value = factor[a][b] * inverse[b][b]
            for c in range(b + 1, a):
                value = value + factor[a][c] * inverse[c][b]
            inverse[a].append(-value / factor[a][a])
        inverse[a].append(1.0 / factor[a][a])
    against: Array = np.zeros(1)
    for b in range(k):
        coefficient = sum(inverse[a][b] * forward[a] for a in range(b, k))
        variance = sum(inverse[a][b] ** 2 for a in range(b, k))
        against = against + np.minimum(coefficient, 0.0) ** 2 / variance
    return np.maximum(squares - explained, 0.0), 2.0 * determinant, against
