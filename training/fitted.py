"""A fitted model, the forecast of any model, and warnings where it knows too little."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from toruscast._features import FEATURES
from toruscast._slow import pandas as pd
from toruscast.errors import InputError
from toruscast.mapping import MappingProblem, TaskMapping, Workload
from toruscast.routing import Routing
from toruscast.routing.messages import mean_message
from toruscast.text import factor
from toruscast.validation import check_type, job_count, one_of, whole_number

from .default_model import DefaultModel, kinds_of
from .feature_sets import (
    KNOWS_PLACE,
    REFERENCE,
    SIMULATED,
    TARGET_COLUMNS,
    Target,
    columns_of,
    finite,
)
from .residuals import (
    Forest,
    PriorPrediction,
    ResidualCalibration,
    TargetScale,
    TargetTransform,
)

Floats = NDArray[np.float64]


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
    relative_: TargetTransform | None
    calibration_: ResidualCalibration | None
    log_: bool
    bounded_: bool
    n_features_in_: int
    feature_names_in_: Any
    n_samples_: int
    provenance_: dict[str, Any]
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
        """Return the expected times, seconds, shape ``(n_samples,)``."""
        return self.prior_prediction(X).times()

    def predict_interval(self, X: pd.DataFrame | ArrayLike, coverage: float = 0.9) -> Floats:
        """Return intervals that hold the observed time in a share ``coverage`` of cases.

        The half width is a quantile of the cross-validated residuals, scaled mapping by mapping
        with the disagreement of the trees: the coverage is met on average, without the guarantee of
        conformal prediction. Fewer than nine samples are too few for 90 %, than nineteen for 95 %.
        Where times are relative and none of the samples took less than its lower bound, no end
        lies below it.
        """
        return self.prior_prediction(X).interval(coverage)

    def draw(self, X: pd.DataFrame | ArrayLike, n_draws: int = 1000, seed: int = 0) -> Floats:
        """Return possible times of each mapping, shape ``(n_draws, n_samples)``, seconds.

        Each draw adds a cross-validated miss to the forecast. Mappings miss independently, except
        for the part common to all mappings of an application where the model knows it (``groups``).
        """
        return self.prior_prediction(X).draw(n_draws, seed)

    def prior_prediction(self, X: pd.DataFrame | ArrayLike) -> PriorPrediction:
        """Return all that the model says of mappings, from one pass through the trees."""
        matrix = self._normal(self._matrix(X))
        centre, width = self._centre(self.trees_, matrix)
        if self.calibration_ is not None:
            width = width + self.calibration_.floor
        min_times = np.full(centre.size, -np.inf)
        if self.relative_ is not None:
            scale = self._scale(X)
            centre = self.relative_.logs(scale, centre)
            width = width * scale.reach**self.relative_.power
            min_times = scale.min_times if self.bounded_ else min_times
        return PriorPrediction(matrix, centre, width, self.calibration_, min_times, self.log_)

    def _matrix(self, X: Any) -> Floats:
        names = getattr(self, "feature_names_in_", None)
        values = X if names is None else finite(columns_of(X, names))
        return np.asarray(values, dtype=np.float64)

    def _scale(self, X: Any) -> TargetScale:
        return TargetScale.from_table(X, self.target, REFERENCE.get(self.target, self.reference))

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


# Times lie within a factor of ten or so of the sketch's and of the lower bound, and milliseconds a
# thousand times off: this lies between them.
_OTHER_UNIT = 100
# By how much more or less than all values of a feature learned from others are far from them.
_FAR = 2.0
# Values of features without a unit that differ by less are near each other.
_NEAR = 0.05


Model = DefaultModel | FittedModel


def check_model(model: Model) -> None:
    """Raise `InputError` if this is no model of named features that are known."""
    if isinstance(model, DefaultModel):
        return
    check_type(model, "model", FittedModel, "a TimePredictor, such as load_predictor()")
    needed = model.required_columns
    if not needed:
        raise InputError("model without feature names", expected="one fitted on a table")
    unknown = [name for name in needed if name not in FEATURES and name not in SIMULATED]
    if unknown:
        raise InputError(
            "the model reads features that are not registered",
            found=", ".join(unknown),
            expected="a function for each, as when it was trained (--plugin FILE.py)",
        )


def check_sends(workload: Workload) -> None:
    """Raise `InputError` if nothing is sent, and so no mapping takes any time."""
    if not any(phase.whole_messages.any() for phase in workload):
        raise InputError("at most half a message on every edge: no times to learn")


def warn_of_routing(model: FittedModel, problem: MappingProblem) -> None:
    """Warn if a model learned under a routing that sends these messages otherwise."""
    routing = problem.routing
    learned = model.provenance_.get("routing", routing)
    learned = [learned] if isinstance(learned, str) else learned
    others = (replace(problem, routing=each) for each in learned)
    if any(_phase_routings(other) != _phase_routings(problem) for other in others):
        told = " and ".join(learned)
        warnings.warn(f"the model learned from {told} routing, not {routing}", stacklevel=4)


def _phase_routings(problem: MappingProblem) -> list[Routing]:
    return [phase.routing for phase in problem.phases]


def warn_of_distance(
    model: FittedModel, table: pd.DataFrame, unseen_traffic: Sequence[str] = ()
) -> None:
    """Warn if a model is asked for mappings far from all that it learned from.

    ``unseen_traffic`` are kinds of traffic that it never saw.
    """
    if unseen_traffic:
        warnings.warn(
            f"the model never saw {' or '.join(unseen_traffic)}; its intervals do not hold there",
            stacklevel=4,
        )
    names = [str(name) for name in model.feature_names_in_]
    values = table[names].to_numpy()
    least, most = model.feature_least_, model.feature_most_
    is_far = (values < np.minimum(least, least / _FAR)) | (values > np.maximum(most, most * _FAR))
    has_units = model.target in KNOWS_PLACE
    if not has_units:
        # Features without a unit are about 1: small ones of other small ones are not far.
        is_far &= (values < least - _NEAR) | (values > most + _NEAR)
    far = [name for name, share in zip(names, is_far.mean(axis=0), strict=True) if share > 0.5]
    if far:
        hint = "; the targets 'slowdown' and 'correction' carry over" if has_units else ""
        warnings.warn(
            f"most mappings lie far from those that the model learned from, in {', '.join(far[:3])}"
            f"{' and others' if len(far) > 3 else ''}: what it learned may not hold beyond, and "
            f"intervals do not tell{hint}",
            stacklevel=4,
        )


def ask_for_seconds(times: Floats, reference: Floats, name: str) -> None:
    """Warn of times that are, in the median, far from those that they should be about."""
    sent = reference > 0
    ratio = float(np.median(times[sent] / reference[sent])) if sent.any() else 1.0
    if 1 / _OTHER_UNIT < ratio < _OTHER_UNIT:
        return
    text = f"the median time is {factor(ratio)} {name}: are the times in seconds?"
    # At the caller of `fit` or `rank`.
    warnings.warn(text, stacklevel=3)


def check_parameters(given: Mapping[str, Any]) -> None:
    """Raise `InputError` unless a predictor can learn with these; features need the table."""
    one_of(given["target"], "target", get_args(Target))
    check_type(given["reference"], "reference", str, "a column's name")
    whole_number(given["n_estimators"], "number of trees", 1)
    whole_number(given["calibration_folds"], "number of folds", 0)
    if given["min_samples_leaf"] is not None:
        whole_number(given["min_samples_leaf"], "min_samples_leaf", 1)
    if given["max_leaf_nodes"] is not None:
        whole_number(given["max_leaf_nodes"], "max_leaf_nodes", 2)
    job_count(given["n_jobs"])
    seed = given["random_state"]
    if seed is not None and not isinstance(seed, np.random.RandomState):
        whole_number(seed, "random_state", 0, 2**32 - 1)


def prior_of(
    model: Model,
    features: pd.DataFrame,
    problem: MappingProblem,
    mappings: Sequence[TaskMapping],
) -> tuple[PriorPrediction, tuple[str, ...]]:
    """Return a model's forecast, and the kinds of this traffic that it did not learn from.

    The features hold `APART` besides those that the model reads.
    """
    kinds = kinds_of(problem, mappings)
    if isinstance(model, DefaultModel):
        prior = model.prior_prediction(features, kinds, problem.derive(mean_message))
        return prior, model.unseen(kinds)
    warn_of_routing(model, problem)
    learned = model.provenance_.get("kinds", kinds)
    unseen = tuple(kind for kind in kinds if kind not in learned)
    warn_of_distance(model, features, unseen)
    return model.prior_prediction(features), unseen
