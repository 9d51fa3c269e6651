"""Fitted models, their predictions, and warnings about extrapolation."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, get_args

import numpy as np
from numpy.typing import ArrayLike

from toruscast._features import FEATURES
from toruscast._slow import pandas as pd
from toruscast.errors import InputError, InputWarning
from toruscast.mapping import MappingProblem, TaskMapping, Workload
from toruscast.routing.messages import mean_message_packets
from toruscast.text import factor, spanned
from toruscast.typing import Floats
from toruscast.validation import check_type, job_count, one_of, whole_number

from . import feature_sets
from .default_model import DefaultModel, classify_traffic
from .residuals import (
    Forest,
    PriorPrediction,
    ResidualCalibration,
    TargetReference,
    TargetTransform,
)

# Relative widening of the intervals each time the number of nodes doubles beyond the training
# sizes. Chosen for models trained on 64 and 128 nodes that predict times on 1,024 nodes; not
# confirmed on other applications.
_WIDENING = 1 / 2
# Correct times are within a factor of about 10 of the coarse times and lower bounds; a wrong unit
# changes times by a factor of 1000.
_UNIT_RATIO = 100
# A feature is far from its training values if it is outside their range by more than this factor
# and, if dimensionless, also by more than this difference.
_FAR_FACTOR, _FAR_DIFFERENCE = 2.0, 0.05


class FittedModel:
    """The part of a fitted `TimePredictor` that makes predictions, without scikit-learn.

    Its parameters and fitted attributes are those of `TimePredictor`.
    """

    features: str | Sequence[str] | None
    target: feature_sets.Target
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
    nodes_: tuple[int, int] | None
    n_features_in_: int
    feature_names_in_: Any
    n_samples_: int
    provenance_: dict[str, Any]
    # Parameters that a model file contains.
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
        """Columns that a table needs for predictions; empty if the model was fitted on an array."""
        names = tuple(str(name) for name in getattr(self, "feature_names_in_", ()))
        reference = (self.reference,) if self.target == "measured" else ()
        return tuple(dict.fromkeys((*names, *feature_sets.TARGET_COLUMNS[self.target], *reference)))

    def predict(self, X: pd.DataFrame | ArrayLike) -> Floats:
        """Return the expected times in seconds, shape ``(n_samples,)``."""
        return self.prior_prediction(X).times()

    def predict_interval(self, X: pd.DataFrame | ArrayLike, coverage: float = 0.9) -> Floats:
        """Return an interval (low, high) for each time, in seconds, shape ``(n_samples, 2)``.

        An interval contains the time with probability ``coverage`` on average, but without the
        guarantee of conformal prediction. Its half width is a quantile of the cross-validated
        residuals, scaled for each mapping by the standard deviation over the trees. A coverage of
        90 % needs at least 9 samples, and 95 % needs 19. Unless the target is ``time``, intervals
        are clipped at the lower bound if no training sample was faster than its bound.
        """
        return self.prior_prediction(X).interval(coverage)

    def draw(self, X: pd.DataFrame | ArrayLike, n_draws: int = 1000, seed: int = 0) -> Floats:
        """Draw times for each mapping, in seconds, shape ``(n_draws, n_samples)``.

        Each draw adds a cross-validated residual to the prediction. The residuals of different
        mappings are independent, unless the model was fitted with ``groups``: then all residuals of
        a draw share a part.
        """
        return self.prior_prediction(X).draw(n_draws, seed)

    def prior_prediction(self, X: pd.DataFrame | ArrayLike) -> PriorPrediction:
        """Return the predicted distribution of each mapping's time; each row is a mapping."""
        matrix = self._normalise(self._feature_matrix(X))
        centre, scale = self._average_trees(self.trees_, matrix)
        if self.calibration_ is not None:
            scale = scale + self.calibration_.floor
        min_times = np.full(centre.size, -np.inf)
        if self.relative_ is not None:
            reference = self._target_reference(X)
            centre = self.relative_.logs(reference, centre)
            scale = scale * reference.correction_scale**self.relative_.power
            min_times = reference.min_times if self.bounded_ else min_times
        nodes = feature_sets.node_counts(X)
        if self.nodes_ is not None and nodes.size:
            smallest, largest = self.nodes_
            # Factor between the number of nodes and the nearest training size; 1 within the range.
            ratio = np.maximum(nodes, largest) / largest * smallest / np.minimum(nodes, smallest)
            scale = scale * (1 + _WIDENING * np.log2(ratio))
        return PriorPrediction(matrix, centre, scale, self.calibration_, min_times, self.log_)

    def _feature_matrix(self, X: Any) -> Floats:
        """Return the model's features, taken from the columns of a table or from an array."""
        names = getattr(self, "feature_names_in_", None)
        if names is not None:
            X = feature_sets.check_finite(feature_sets.columns_of(X, names))
        return np.asarray(X, dtype=np.float64)

    def _target_reference(self, X: Any) -> TargetReference:
        """Return the reference times and bounds, taken from the columns of a table."""
        reference = feature_sets.REFERENCE.get(self.target, self.reference)
        return TargetReference.from_table(X, self.target, reference)

    def _average_trees(self, trees: Forest, matrix: Floats) -> tuple[Floats, Floats]:
        """Return mean and standard deviation of the trees' predictions, in the residuals' unit."""
        values = trees.predict(matrix)
        mean = values.mean(axis=0) * self.target_scale_ + self.target_shift_
        std = values.std(axis=0) * self.target_scale_
        if self.log_ and self.target == "time":
            return np.log(mean), std / mean
        return mean, std

    def _normalise(self, matrix: Floats) -> Floats:
        """Return features in the normalised units that the trees use."""
        # Trees use single precision, in which larger values would overflow.
        return np.clip((matrix - self.feature_shift_) / self.feature_scale_, -1e30, 1e30)


Model = DefaultModel | FittedModel


def check_model(model: Model) -> None:
    """Raise `InputError` unless this is a model whose features are all registered."""
    if isinstance(model, DefaultModel):
        return
    check_type(model, "model", FittedModel, "a TimePredictor, such as load_predictor()")
    columns = model.required_columns
    if not columns:
        raise InputError("model without feature names", expected="one fitted on a table")
    registered = {*FEATURES, *feature_sets.SIMULATED}
    unknown = [name for name in columns if name not in registered]
    if unknown:
        message = "the model needs features that are not registered"
        expected = "the functions with which it was trained (--plugin FILE.py)"
        raise InputError(message, found=", ".join(unknown), expected=expected)


def check_traffic(workload: Workload) -> None:
    """Raise `InputError` if no message is sent, because all times would be 0."""
    if not any(phase.whole_messages.any() for phase in workload):
        raise InputError("at most half a message on every edge: no times to learn")


def check_size(model: FittedModel, n_nodes: int) -> None:
    """Raise `InputError` if a model of plain seconds was trained only on larger or smaller tori."""
    if model.target != "time" or model.nodes_ is None:
        return
    smallest, largest = model.nodes_
    if not smallest <= n_nodes <= largest:
        message = "a model of plain seconds does not apply to another size of torus"
        found = f"{n_nodes} nodes, trained on {spanned(model.nodes_)}"
        expected = "a model with the target 'slowdown' or 'correction'"
        raise InputError(message, found=found, expected=expected)


def warn_of_routing(model: FittedModel, problem: MappingProblem) -> None:
    """Warn if a model was trained with a routing that would route these messages differently."""
    trained = model.provenance_.get("routing", problem.routing)
    trained = [trained] if isinstance(trained, str) else trained
    by_phase = [phase.routing for phase in problem.phases]
    others = (replace(problem, routing=routing).phases for routing in trained)
    if any([phase.routing for phase in phases] != by_phase for phases in others):
        names = " and ".join(trained)
        message = f"the model was trained with {names} routing, not {problem.routing}"
        warnings.warn(message, stacklevel=4)


def warn_of_distance(
    model: FittedModel, table: pd.DataFrame, unseen_traffic: Sequence[str] = ()
) -> None:
    """Warn of kinds of traffic not seen in training, and of features far from training values."""
    if unseen_traffic:
        kinds = " or ".join(unseen_traffic)
        message = f"the model was not trained on {kinds}; its intervals are not valid there"
        warnings.warn(message, stacklevel=4)
    names = [str(name) for name in model.feature_names_in_]
    values = table[names].to_numpy()
    low, high = model.feature_least_, model.feature_most_
    is_far = values < np.minimum(low, low / _FAR_FACTOR)
    is_far |= values > np.maximum(high, high * _FAR_FACTOR)
    has_units = model.target in feature_sets.SCALE_DEPENDENT_TARGETS
    if not has_units:
        # Dimensionless features are about 1, so small values with a large ratio are not far apart.
        is_far &= (values < low - _FAR_DIFFERENCE) | (values > high + _FAR_DIFFERENCE)
    far = [name for name, share in zip(names, is_far.mean(axis=0), strict=True) if share > 0.5]
    if far:
        hint = "; the targets 'slowdown' and 'correction' extrapolate better" if has_units else ""
        features = ", ".join(far[:3]) + (" and others" if len(far) > 3 else "")
        message = f"most mappings are outside the range of the training samples in {features}"
        warnings.warn(f"{message}: predictions and intervals may be wrong{hint}", stacklevel=4)


def warn_of_unit(times: Floats, reference: Floats, name: str) -> None:
    """Warn if the median ratio of times to reference times suggests that their units differ."""
    is_sent = reference > 0
    ratio = float(np.median(times[is_sent] / reference[is_sent])) if is_sent.any() else 1.0
    if 1 / _UNIT_RATIO < ratio < _UNIT_RATIO:
        return
    text = f"the median time is {factor(ratio)} {name}: are the times in seconds?"
    # Attribute the warning to the caller of `fit` or `rank`.
    warnings.warn(InputWarning(text), stacklevel=3)


def check_parameters(given: Mapping[str, Any]) -> None:
    """Raise `InputError` if a parameter is invalid; ``features`` is not checked here."""
    one_of(given["target"], "target", get_args(feature_sets.Target))
    check_type(given["reference"], "reference", str, "a column's name")
    whole_number(given["n_estimators"], "number of trees", 1)
    whole_number(given["calibration_folds"], "number of folds", 0)
    for name, minimum in (("min_samples_leaf", 1), ("max_leaf_nodes", 2)):
        if given[name] is not None:
            whole_number(given[name], name, minimum)
    job_count(given["n_jobs"])
    seed = given["random_state"]
    if seed is not None and not isinstance(seed, np.random.RandomState):
        whole_number(seed, "random_state", 0, 2**32 - 1)


def predict_prior(
    model: Model, features: pd.DataFrame, problem: MappingProblem, mappings: Sequence[TaskMapping]
) -> tuple[PriorPrediction, tuple[str, ...]]:
    """Return a model's prediction, and the kinds of traffic on which the model was not trained.

    ``features`` needs the column `ROUNDS_APART` and the model's columns.
    """
    kinds = classify_traffic(problem, mappings)
    if isinstance(model, DefaultModel):
        prior = model.prior_prediction(features, kinds, problem.derive(mean_message_packets))
        return prior, model.unseen(kinds)
    check_size(model, problem.torus.n_nodes)
    warn_of_routing(model, problem)
    trained = model.provenance_.get("kinds", kinds)
    unseen = tuple(kind for kind in kinds if kind not in trained)
    warn_of_distance(model, features, unseen)
    return model.prior_prediction(features.assign(torus=str(problem.torus))), unseen
