"""What the residuals of a cross-validation say about those to come."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from toruscast._slow import model_selection
from toruscast.errors import InputError

from ._forest import Forest

if TYPE_CHECKING:
    from sklearn.ensemble import ExtraTreesRegressor

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ResidualCalibration:
    """Cross-validated residuals, each divided by the spread of the trees plus a floor.

    A residual is the sum of what its group has in common and of its own deviation; without groups
    the common part is nil. From the mean of a group of m, residuals deviate by sqrt((m - 1) / m) of
    what they do from what the group has in common, which is made up for.
    """

    floor: float
    residuals: Floats
    common: Floats
    deviations: Floats

    @classmethod
    def of(cls, floor: float, residuals: Floats, members: NDArray[np.intp] | None) -> Self:
        """Return the calibration of residuals, with the number of the group of each if any."""
        if members is None:
            return cls(floor, residuals, np.zeros(1), residuals)
        size = np.bincount(members)
        common = np.bincount(members, residuals) / size
        several = size[members] > 1
        of_several = members[several]
        deviations = residuals[several] - common[of_several]
        deviations *= np.sqrt(size / np.maximum(size - 1, 1))[of_several]
        return cls(floor, residuals, common, deviations)

    def quantile(self, coverage: float) -> float:
        """Return the scaled miss that a share ``coverage`` of new mappings does not exceed.

        On average: the rank is interpolated. The guarantee of conformal prediction, which holds for
        finite samples, needs the next whole rank and is not given.
        """
        ordered = np.sort(np.abs(self.residuals))
        # Linear between two residuals: the next whole one would cover more than was asked for.
        rank = (ordered.size + 1) * coverage
        return float(np.interp(rank, np.arange(1, ordered.size + 1), ordered))

    def ask_for_more(self, coverage: float) -> None:
        """Warn if even the largest miss is exceeded by more new mappings than the coverage says."""
        # 0.9 / (1 - 0.9) is a little more than 9.
        needed = math.ceil(round(coverage / (1 - coverage), 6))
        if self.residuals.size < needed:
            warnings.warn(
                f"intervals of {self.residuals.size} samples hold less than a share "
                f"{coverage:.4g} of the times: that takes {needed}",
                stacklevel=3,
            )

    def draws(self, rng: np.random.Generator, n_draws: int, n: int, block: int) -> Iterator[Floats]:
        """Draw scaled residuals of ``n`` mappings of one group, ``(n_draws, n)``, in blocks."""
        common = rng.choice(self.common, size=(n_draws, 1))
        for start in range(0, n_draws, block):
            part = common[start : start + block]
            yield part + rng.choice(self.deviations, size=(len(part), n))


def calibrate(
    forest: ExtraTreesRegressor,
    centre: Callable[[Forest, Floats], tuple[Floats, Floats]],
    matrix: Floats,
    goal: Floats,
    score: Floats,
    groups: ArrayLike | None,
    n_folds: int,
    seed: int,
) -> tuple[ResidualCalibration, Floats]:
    """Fit ``forest`` without each fold in turn; collect the residuals of its ``score``.

    Return that, and what ``centre`` says of each sample held out.
    """
    if n_folds < 2:
        raise InputError("bad number of folds", found=n_folds, expected="0, or 2 or more")
    folds: Any
    members = None
    if groups is None:
        folds = model_selection.KFold(min(n_folds, score.size), shuffle=True, random_state=seed)
    else:
        try:
            names, members = np.unique(np.asarray(groups), return_inverse=True)
        except TypeError:
            raise InputError("bad groups", expected="all numbers, or all text") from None
        if members.size != score.size or names.size < 2:
            raise InputError(
                "bad groups",
                found=f"{names.size} groups of {members.size} samples",
                expected=f"2 or more groups of {score.size} samples",
            )
        if np.bincount(members).max() < 2:
            raise InputError("bad groups", found="one sample each", expected="some of 2 or more")
        folds = model_selection.GroupKFold(min(n_folds, names.size))
    middle, spread = np.empty_like(score), np.empty_like(score)
    for kept, left_out in folds.split(matrix, groups=members):
        middle[left_out], spread[left_out] = centre(
            Forest.of(type(forest)(**forest.get_params()).fit(matrix[kept], goal[kept])),
            matrix[left_out],
        )
    # Without a floor, trees that happen to agree would claim certainty; of few samples most do.
    root = np.sqrt(np.mean((score - middle) ** 2) / score.size)
    floor = float(max(np.median(spread), 2 * root)) or 1.0
    residuals = (score - middle) / (spread + floor)
    return ResidualCalibration.of(floor, residuals, members), middle
