"""A fitted model: times, intervals and chances of mappings from one pass through its trees.

Nothing here needs scikit-learn, so that a forecast starts without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from toruscast.errors import InputError
from toruscast.training.samples._table import columns_of, finite
from toruscast.validation import whole_number

from ._calibration import ResidualCalibration
from ._forest import Forest
from ._relative import Line, Relative, Scale
from .feature_sets import REFERENCE, TARGET_COLUMNS, Target

if TYPE_CHECKING:
    from .unlearned import Residuals

Floats = NDArray[np.float64]
# Values drawn at a time.
_BLOCK = 2_000_000


def p_best(draws: Iterable[Floats]) -> Floats:
    """Return the probability that each candidate is the fastest; those that tie share the win.

    The draws of possible times, or of their logarithms, come in blocks ``(n_draws, n)``.

    Examples
    --------
    >>> p_best([np.array([[1.0, 2.0, 1.0], [3.0, 2.0, 4.0]])]).tolist()
    [0.25, 0.5, 0.25]
    """
    wins: Floats | float = 0.0
    n_draws = 0
    for times in draws:
        is_least = times == times.min(axis=1, keepdims=True)
        wins = wins + (is_least / is_least.sum(axis=1, keepdims=True)).sum(axis=0)
        n_draws += len(times)
    return np.asarray(wins / n_draws)


@dataclass(frozen=True, eq=False)
class PriorPrediction:
    """Forecast of some mappings before any is observed, on the scale of the residuals.

    Attributes
    ----------
    features : ndarray, shape (n, n_features)
        Normalised features.
    centre, width : ndarray, shape (n,)
        Forecast and width of its uncertainty, in scores: logarithms of seconds, seconds, or what
        `Relative` makes logarithms of.
    """

    features: Floats
    centre: Floats
    width: Floats
    calibration: ResidualCalibration | None
    relative: Relative | Line | None
    scale: Scale | None
    is_log: bool
    is_bounded: bool

    def times(self, scores: Floats | None = None) -> Floats:
        """Seconds of scores, the mappings along the last axis; of the forecast if not given."""
        scores = self.centre if scores is None else scores
        if self.relative is None or self.scale is None:
            return np.exp(scores) if self.is_log else scores
        times = np.exp(self.relative.logs(self.scale, scores))
        return np.maximum(times, self.scale.least) if self.is_bounded else times

    def is_at_bound(self, times: Floats) -> NDArray[np.bool_]:
        """Which times are the lower bound, of which clocks are not thought."""
        if self.scale is None or not self.is_bounded:
            return np.zeros(times.size, dtype=np.bool_)
        return np.asarray(times <= self.scale.least)

    def logs(self) -> tuple[Floats, Floats]:
        """Return the forecast and its width as logarithms of seconds."""
        if self.relative is None or self.scale is None:
            if self.is_log:
                return self.centre, self.width
            centre = np.maximum(self.centre, 1e-300)
            return np.log(centre), self.width / centre
        return (
            self.relative.logs(self.scale, self.centre),
            self.width * self.scale.reach**self.relative.power,
        )

    def interval(self, coverage: float) -> Floats:
        """Return low and high ends in seconds, shape ``(n, 2)``."""
        if not 0 < coverage < 1:
            raise InputError("bad coverage", found=coverage, expected="between 0 and 1")
        self.calibrated.ask_for_more(coverage)
        half = self.calibrated.quantile(coverage) * self.width
        return np.stack([self.times(self.centre - half), self.times(self.centre + half)], axis=1)

    def draws(self, n_draws: int, seed: int) -> Iterator[Floats]:
        """Draw possible times in blocks ``(n, n_mappings)``, a bounded number of values each."""
        whole_number(n_draws, "number of draws", 1)
        rng = np.random.default_rng(whole_number(seed, "seed", 0))
        block = max(1, _BLOCK // self.centre.size)
        for residuals in self.calibrated.draws(rng, n_draws, self.centre.size, block):
            yield self.times(self.centre + residuals * self.width)

    @property
    def calibrated(self) -> ResidualCalibration:
        """The calibration; `InputError` where the model has none."""
        if self.calibration is None:
            raise InputError("model without calibration", expected="calibration_folds of 2 or more")
        return self.calibration


class FittedModel:
    """What a forecast needs of a fitted `TimePredictor`; `load_fitted` reads it from a file.

    Its attributes are those of the `TimePredictor`, the parameters among them.
    """

    features: str | Sequence[str] | None
    target: Target
    reference: str
    random_state: int | np.random.RandomState | None
    trees_: Forest
    feature_shift_: Floats
    feature_scale_: Floats
    feature_least_: Floats
    feature_most_: Floats
    feature_importances_: Any
    target_shift_: float
    target_scale_: float
    relative_: Relative | Line | None
    calibration_: ResidualCalibration | None
    log_: bool
    bounded_: bool
    n_features_in_: int
    feature_names_in_: Any
    n_samples_: int
    provenance_: dict[str, Any]
    by_kind_: Mapping[str, Residuals] = MappingProxyType({})
    # Those that a file keeps.
    PARAMETERS: ClassVar = (
        "features",
        "target",
        "reference",
        "n_estimators",
        "min_samples_leaf",
        "max_leaf_nodes",
        "calibration_folds",
        "random_state",
    )

    def __init__(self, parameters: Mapping[str, Any]) -> None:
        vars(self).update(parameters)

    @property
    def required_columns(self) -> tuple[str, ...]:
        """Columns that a table needs for a forecast; empty if the model was fitted on an array."""
        names = tuple(str(name) for name in getattr(self, "feature_names_in_", ()))
        own = (self.reference,) if self.target == "measured" else ()
        return tuple(dict.fromkeys((*names, *TARGET_COLUMNS[self.target], *own)))

    def predict(self, X: pd.DataFrame | ArrayLike) -> Floats:
        """Return the expected times, seconds, shape ``(n_samples,)``.

        Raises
        ------
        InputError
            If a value is not finite or a column missing.
        """
        return self.prior_prediction(X).times()

    def predict_interval(self, X: pd.DataFrame | ArrayLike, coverage: float = 0.9) -> Floats:
        """Return intervals that hold the observed time in a share ``coverage`` of cases.

        The half width is a quantile of the cross-validated residuals, scaled mapping by mapping
        with the disagreement of the trees: the coverage is met on average, without the guarantee of
        conformal prediction. Fewer than nine samples are too few for 90 %, than nineteen for 95 %.
        Where times are relative and none of the samples took less than its lower bound, no end
        lies below it.

        Returns
        -------
        ndarray, shape (n_samples, 2)
            Low and high ends, seconds.

        Raises
        ------
        InputError
            If a value is not finite, a column missing, or the coverage not between 0 and 1.

        Warns
        -----
        UserWarning
            If the samples are too few for the coverage.
        """
        return self.prior_prediction(X).interval(coverage)

    def draw(self, X: pd.DataFrame | ArrayLike, n_draws: int = 1000, seed: int = 0) -> Floats:
        """Return possible times of each mapping, shape ``(n_draws, n_samples)``, seconds.

        Each draw adds a cross-validated miss to the forecast. Mappings miss independently, except
        for the part common to all mappings of an application where the model knows it (``groups``).

        Raises
        ------
        InputError
            If a value is not finite or a column missing.
        """
        return np.concatenate(list(self.prior_prediction(X).draws(n_draws, seed)))

    def probability_of_best(
        self, X: pd.DataFrame | ArrayLike, n_draws: int = 4000, seed: int = 0
    ) -> Floats:
        """Return the probability that each mapping is the fastest of them all; sums to 1.

        Mappings that draw the same time share the win.

        Raises
        ------
        InputError
            If a value is not finite or a column missing.
        """
        return p_best(self.prior_prediction(X).draws(n_draws, seed))

    def prior_prediction(self, X: pd.DataFrame | ArrayLike) -> PriorPrediction:
        """Return all that the model says of mappings, from one pass through the trees.

        Raises
        ------
        InputError
            If a value is not finite or a column missing.
        """
        matrix = self._normal(self._matrix(X))
        centre, spread = self._centre(self.trees_, matrix)
        floor = 0.0 if self.calibration_ is None else self.calibration_.floor
        return PriorPrediction(
            features=matrix,
            centre=centre,
            width=spread + floor,
            calibration=self.calibration_,
            relative=self.relative_,
            scale=None if self.relative_ is None else self._scale(X),
            is_log=self.log_,
            is_bounded=self.bounded_,
        )

    def _matrix(self, X: Any) -> Floats:
        """Features of the mappings to forecast."""
        names = getattr(self, "feature_names_in_", None)
        values = X if names is None else finite(columns_of(X, names))
        return np.asarray(values, dtype=np.float64)

    def _scale(self, X: Any) -> Scale:
        """What the times of these mappings are relative to."""
        return Scale.of(X, self.target, REFERENCE.get(self.target, self.reference))

    def _centre(self, trees: Forest, matrix: Floats) -> tuple[Floats, Floats]:
        """Mean and standard deviation over the trees, on the scale of the residuals."""
        values = trees.predict(matrix)
        mean = values.mean(axis=0) * self.target_scale_ + self.target_shift_
        spread = values.std(axis=0) * self.target_scale_
        if self.log_ and self.target == "time":
            return np.log(mean), spread / mean
        return mean, spread

    def _normal(self, matrix: Floats) -> Floats:
        normal: Floats = (matrix - self.feature_shift_) / self.feature_scale_
        # A feature far beyond what was seen must stay a number in single precision.
        return np.clip(normal, -1e30, 1e30)
