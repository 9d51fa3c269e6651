"""Search for a batch of call paths: sweep all hypotheses, keep the best, solve these exactly."""

# p = call paths, n = points, h = hypotheses kept, k = columns, q = parameters, t = terms

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from ._blocks import Searched, is_grid
from ._bounded import Repetitions
from ._decode import decode
from ._enumerate import Sweep, sweep_all
from ._evidence import believable
from ._exact import Hypotheses, Measured, exact

Array = NDArray[np.float64]
Index = NDArray[np.intp]

# Least relative error of a point in the sweep (whose sums of squares cancel) and in the exact step.
_COARSE = 1e-6
_EXACT = 1e-12
# At most this many points times hypotheses are solved exactly for a call path, but at least eight
# hypotheses.
_POINTS_KEPT = 1000
# This many times more hypotheses are kept where points are missing from the grid.
_SPARSE_KEPT = 3


@dataclass(frozen=True)
class Problem:
    """Points and centres of a batch of call paths measured at the same points.

    Attributes
    ----------
    points : array, shape (n, q)
    centre, error : array, shape (p, n)
        `error` is NaN where there are no repetitions.
    scale : array, shape (p, n)
        Unknown errors are proportional to this; positive.
    bounded : array, shape (p,)
        Probability that the noise is bounded.
    repetitions : Repetitions
        Each of shape (p, n).
    """

    points: Array
    centre: Array
    error: Array
    scale: Array
    bounded: Array
    repetitions: Repetitions

    def take(self, rows: Index) -> Problem:
        """Return the problem of some of the call paths."""
        return Problem(
            self.points,
            self.centre[rows],
            self.error[rows],
            self.scale[rows],
            self.bounded[rows],
            self.repetitions.take(rows),
        )


@dataclass(frozen=True)
class Options:
    """How to search.

    Attributes
    ----------
    keep : int
        Hypotheses kept for each call path.
    non_negative : bool
        Coefficients must not be negative.
    two_terms : bool
        One-parameter models may have a second term.
    """

    keep: int = 32
    non_negative: bool = True
    two_terms: bool = True


def search(
    problem: Problem, values: Sequence[Array], prior: Sequence[Array], options: Options
) -> Hypotheses:
    """Find the most probable hypotheses of every call path.

    Parameters
    ----------
    problem : Problem
    values : sequence of array, each shape (t_l, n)
        Terms of each parameter at the points.
    prior : sequence of array, each shape (t_l,)
        Their prior probabilities.
    options : Options
    """
    points, centre = problem.points, problem.centre
    reference = np.abs(centre).max(axis=1, keepdims=True)
    reference[reference == 0] = 1.0
    target = centre / reference
    scale = problem.scale / reference
    known = np.asarray(np.isfinite(problem.error).all(axis=1))
    error = np.where(known[:, None], problem.error / reference, scale)
    peak = [v.max(axis=1, keepdims=True) for v in values]
    terms = [v / m for v, m in zip(values, peak, strict=True)]
    log_prior = [np.log(p) for p in prior]

    # If points are missing, far more hypotheses remain likely, each with open coefficients.
    narrow = len(terms) == 1 or is_grid(points)
    most = options.keep if narrow else _SPARSE_KEPT * options.keep
    # No second term is needed if a single one meets the points within the noise.
    enough = np.where(known, len(points) - 2.0, -1.0) if options.two_terms else None

    def sweep_of(rows: Index | slice) -> Sweep:
        coarse = np.maximum(error[rows], _COARSE * scale[rows])
        searched = Searched(
            points, terms, log_prior, target[rows], coarse, known[rows], options.non_negative
        )
        return sweep_all(searched, None if enough is None else enough[rows], options.keep)

    sweep = sweep_of(slice(None))
    # Points without repetitions have no noise if a hypothesis meets them up to rounding. With one
    # point more than coefficients, one of a thousand hypotheses does so by chance.
    spare = min(max(len(points) - 2, 1), sweep.least.shape[1])
    noiseless = ~known & (sweep.least[:, spare - 1] < 1e-14 * len(points))
    if noiseless.any():
        error = np.where(noiseless[:, None], _EXACT * scale, error)
        known = known | noiseless
        _replace(sweep, sweep_of(np.flatnonzero(noiseless)), noiseless)
    # If all hypotheses miss by more than the noise, its unequal errors say nothing about the
    # misfit.
    missed = known & (sweep.least[:, -1] >= believable(len(points)))
    if missed.any():
        error = np.where(missed[:, None], scale, error)
        known = known & ~missed
        _replace(sweep, sweep_of(np.flatnonzero(missed)), missed)
    # With more points, fewer hypotheses remain likely. Pairs of terms do not count where they were
    # not tried.
    tried = sum(block.size for block in sweep.blocks if not block.pairs)
    keep = min(most, max(8, _POINTS_KEPT // len(points)), tried)
    chosen = _best(sweep.score, keep)
    kept = decode(np.take_along_axis(sweep.number, chosen, axis=1), sweep, log_prior)
    fine = np.maximum(error, _EXACT * scale)
    last_digits = known & (fine == _EXACT * scale).all(axis=1)
    bounded = np.where(known, problem.bounded, 0.0)
    measured = Measured(target, fine, known, last_digits, reference, bounded, problem.repetitions)
    return exact(kept, terms, peak, measured, non_negative=options.non_negative, narrow=narrow)


def _best(score: Array, keep: int) -> Index:
    """Return the numbers of the largest scores of each row, in any order; shape (p, keep).

    They lie in the groups with the largest maxima, so only few scores are sorted.
    """
    n_paths, n = score.shape
    size = max(1, isqrt(n // keep))
    grouped = n - n % size
    highest = score[:, :grouped].reshape(n_paths, -1, size).max(axis=2)
    group = np.argpartition(highest, -keep, axis=1)[:, -keep:]
    inside = (size * group[:, :, None] + np.arange(size)).reshape(n_paths, -1)
    rest = np.broadcast_to(np.arange(grouped, n), (n_paths, n - grouped))
    number = np.concatenate([inside, rest], axis=1)
    best = np.argpartition(np.take_along_axis(score, number, axis=1), -keep, axis=1)[:, -keep:]
    result: Index = np.take_along_axis(number, best, axis=1)
    return result


def _replace(sweep: Sweep, again: Sweep, rows: NDArray[np.bool_]) -> None:
    """Replace the rows that were swept again."""
    for old, new in zip(
        (sweep.score, sweep.number, sweep.least, *sweep.picks),
        (again.score, again.number, again.least, *again.picks),
        strict=True,
    ):
        # Arrays that all call paths share did not change, and are read-only.
        if old.flags.writeable:
            old[rows] = new
