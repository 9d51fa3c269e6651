"""What the hypotheses of a search predict together."""

# p = call paths, n = points, m = places, q = parameters searched

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ._exact import Hypotheses
from .local_growth import WIDE, anchor, believable, bounds, lifted, local_growth, slowed
from .measurements import off_zero
from .misses import share_of_models
from .mixture import alternatives, densest, predicted, quantiles
from .noise import Centres
from .term_space import TermSpace

Array = NDArray[np.float64]

# Hypotheses are compared where every parameter is this many times its largest value: of one, two
# and four times, four predicts real measurements best.
_FAR = 4.0
# The likely hypotheses lie within this part of their median there, and hold more than half of the
# probability; the others then do not draw the prediction towards them.
_DENSEST = 0.15
# Below this part of the median, the size of a prediction no longer counts.
_LEAST_SIZE = 0.1


@dataclass(frozen=True)
class Fitted:
    """What was searched, and the hypotheses that were found.

    Attributes
    ----------
    active : list of int
        Numbers of the parameters searched.
    points : array, shape (n, q)
        Their values.
    spaces : sequence of TermSpace
        One for each of them.
    centred : Centres
        What the repetitions say of each point.
    sign : array, shape (p,)
        -1 where the opposites of the values were fitted.
    signed : array of bool, shape (p,)
        Whether coefficients of both signs were searched.
    left_out : array of bool, shape (p, n, r)
        Repetitions that were not fitted.
    found : Hypotheses
        Fitted with equal relative errors.
    absolute : Hypotheses, optional
        The same for the call paths that are not trusted, fitted with equal absolute errors, where
        one parameter was searched.
    """

    active: list[int]
    points: Array
    spaces: Sequence[TermSpace]
    centred: Centres
    sign: Array
    signed: NDArray[np.bool_]
    left_out: NDArray[np.bool_]
    found: Hypotheses
    absolute: Hypotheses | None = None

    def best(self, places: Array) -> Array:
        """Return what the most probable hypothesis predicts; shape (p, m)."""
        return self.sign[:, None] * predicted(self.found, self.spaces, places, 1)[:, 0]

    def average(self, places: Array) -> Array:
        """Return what all likely hypotheses predict; shape (p, m)."""
        result = self._median(self.found, places)
        centre = self.centred.centre
        # Values of both signs do not grow by factors.
        growing = ~self.signed | (centre >= 0).all(axis=1)
        which = np.flatnonzero(~self.found.trusted & (centre > 0).any(axis=1) & growing)
        if which.size and len(places):
            result[which] = self._with_local_growth(which, places, result[which])
        return self.sign[:, None] * result

    def _median(self, found: Hypotheses, places: Array) -> Array:
        values, weight = alternatives(found, self.spaces, places)
        counts = self._counts(found, weight)
        result = np.empty((len(values), len(places)))
        for m in range(len(places)):
            result[:, m] = quantiles(values[:, :, m], counts, 0.5)
        return result

    def _counts(self, found: Hypotheses, weight: Array) -> Array:
        """Return the weight of each alternative in the median.

        It is the same at all places, so that predictions of growing values never fall.
        """
        largest = self.points.max(axis=0, keepdims=True)
        far = alternatives(found, self.spaces, _FAR * largest)[0][:, :, 0]
        clear, doubtful = found.trusted, ~found.trusted
        counts = weight.copy()
        counts[clear] = densest(far[clear], weight[clear], _DENSEST)
        if doubtful.any():
            # No hypothesis deserves its probability here. The median weighed by 1 / value has the
            # least expected relative error, and keeps wild hypotheses from counting.
            size = np.maximum(np.abs(far[doubtful]), 1e-300)
            size = size / np.median(size, axis=1, keepdims=True)
            counts[doubtful] = weight[doubtful] / np.maximum(size, _LEAST_SIZE)
        return counts

    def _with_local_growth(self, which: NDArray[np.intp], places: Array, median: Array) -> Array:
        """Return predictions that follow the measured growth, for call paths not trusted.

        Three readings are made: two from the models, and the growth near each place. With one
        parameter, the models are those with equal relative and with equal absolute errors. With
        several, they are the median, and the median corrected by its errors at the nearest points.
        Their middle one is weighed against the middle one of itself and of growth near the place
        and in wider surroundings, which counts more the more the models miss.
        """
        points, near = off_zero(self.points, self.points), off_zero(self.points, places)
        measured = self.centred.centre[which]
        clear = lifted(measured)
        centre = np.where(measured > 0, measured, clear)
        growth = local_growth(points, centre, near)
        laws = np.stack([growth, local_growth(points, centre, near, WIDE)])
        at_points = self._median(self.found, self.points)[which]
        if self.absolute is not None:
            place = np.searchsorted(np.flatnonzero(~self.found.trusted), which)
            there = np.vstack([places, self.points.max(axis=0)])
            first = self._median(self.absolute, there)[place]
            second = predicted(self.found, self.spaces, there, 1)[which, 0]
            models = np.stack([first, second])
            first, second = slowed(points, clear, near, models[..., :-1], models[..., -1:])
        else:
            first = median
            second = median * anchor(points, centre, at_points, near)
        middle = np.median(np.stack([first, second, growth]), axis=0)
        laws = believable(points, clear, near, laws)
        powers = np.median(np.stack([middle, *laws]), axis=0)
        share = share_of_models(points, measured, clear, at_points)[:, None]
        least, most = bounds(points, measured, clear, near)
        result: Array = np.clip(share * middle + (1 - share) * powers, least, most)
        return result
