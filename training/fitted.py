"""A fitted model, the default one, and what neither can know."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar, Self, get_args

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from toruscast.errors import InputError
from toruscast.features import FEATURES
from toruscast.mapping import MappingProblem, TaskMapping, Workload
from toruscast.routing import Routing
from toruscast.text import factor
from toruscast.validation import job_count, one_of, whole_number

from .feature_sets import KNOWS_PLACE, REFERENCE, TARGET_COLUMNS, Target, columns_of, finite
from .residuals import Forest, Line, Relative, ResidualCalibration, Scale
from .samples import SIMULATED, kinds_of

Floats = NDArray[np.float64]
# Values drawn at a time.
_BLOCK = 2_000_000


def p_best(draws: Iterable[Floats]) -> Floats:
    """Return the probability that each candidate is the fastest; those that tie share the win.

    The draws of possible times, or of their logarithms, come in blocks ``(n_draws, n)``.
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

    Centre and width are logarithms of seconds, seconds, or what `Relative` makes logarithms of.
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
        return np.concatenate(list(self.prior_prediction(X).draws(n_draws, seed)))

    def probability_of_best(
        self, X: pd.DataFrame | ArrayLike, n_draws: int = 4000, seed: int = 0
    ) -> Floats:
        """Return the probability that each mapping is the fastest of them all; sums to 1.

        Mappings that draw the same time share the win.
        """
        return p_best(self.prior_prediction(X).draws(n_draws, seed))

    def prior_prediction(self, X: pd.DataFrame | ArrayLike) -> PriorPrediction:
        """Return all that the model says of mappings, from one pass through the trees."""
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
        names = getattr(self, "feature_names_in_", None)
        values = X if names is None else finite(columns_of(X, names))
        return np.asarray(values, dtype=np.float64)

    def _scale(self, X: Any) -> Scale:
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


# Times lie within a factor of ten or so of the sketch's and of the lower bound, and milliseconds a
# thousand times off: this lies between them.
_OTHER_UNIT = 100
# By how much more or less than all values of a feature learned from others are far from them.
_FAR = 2.0
# Values of features without a unit that differ by less are near each other.
_NEAR = 0.05


def check_model(model: object) -> None:
    """Raise `InputError` if this is no model of named features that are known."""
    if not isinstance(model, FittedModel):
        raise InputError(
            "bad model", found=model, expected="a TimePredictor, such as load_predictor()"
        )
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
    """Warn if a model of one application learned under a routing that sends these otherwise.

    What learned from many applications, the default model, serves every routing: the race corrects
    it.
    """
    routing = problem.routing
    learned = model.provenance_.get("routing", routing)
    learned = [learned] if isinstance(learned, str) else learned
    if model.provenance_.get("default"):
        return
    others = (replace(problem, routing=each) for each in learned)
    if any(_phase_routings(other) != _phase_routings(problem) for other in others):
        told = " and ".join(learned)
        warnings.warn(f"the model learned from {told} routing, not {routing}", stacklevel=4)


def _phase_routings(problem: MappingProblem) -> list[Routing]:
    return [phase.routing for phase in problem.phases]


def warn_of_distance(
    model: FittedModel, table: pd.DataFrame, unlearned: Sequence[str] = ()
) -> None:
    """Warn if a model is asked for mappings far from all that it learned from.

    ``unlearned`` are kinds of traffic that it never saw. The default model, which learned from many
    applications, is corrected by the race.
    """
    if model.provenance_.get("default"):
        return
    if unlearned:
        warnings.warn(
            f"the model learned from no {' or '.join(unlearned)}: its intervals do not hold there",
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
    if not isinstance(given["reference"], str):
        raise InputError("bad reference", found=given["reference"], expected="a column's name")
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


# Quantiles by which a distribution is stored.
_STORED = 200
_MOST = 1000.0
# Logarithm that a time is uncertain by where nobody waits: of those tried, intervals of held-out
# applications are narrowest with it.
_LEAST = 0.03
LEARNED = "one exchange"
"""Traffic of none of the kinds of `kinds_of`."""
APART = "rounds_apart"
"""Column of `RoutedTraffic.rounds_apart` in the features of `prior_of`."""


@dataclass(frozen=True)
class Residuals:
    """Logarithms of times over forecasts, of applications that a model never saw."""

    # The middle of those of all applications.
    centre: float
    # How they grow with `RoutedTraffic.rounds_apart`: the forecast knows only that rounds may
    # overlap, and some do not.
    slope: float
    # How applications differ from that, and their mappings from the application, in `reach_of`.
    calibration: ResidualCalibration

    def middle(self, apart: Floats) -> Floats:
        """Logarithms that are to be added to a forecast."""
        return self.centre + self.slope * apart

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Self:
        """Return what `to_json` gave; `InputError` if no fit gives such numbers."""
        centre, slope, *own = (
            np.array(content[name], dtype=np.float64)
            for name in ("centre", "slope", "total", "common", "deviations")
        )
        for values in (centre, slope, *own):
            if not values.size or not (np.abs(values) <= _MOST).all():
                raise InputError("absurd residuals in a model file", expected=f"within {_MOST:g}")
        return cls(float(centre), float(slope), ResidualCalibration(0.0, *own))

    def to_json(self) -> dict[str, Any]:
        """Return it for JSON; long distributions by their quantiles."""
        own = self.calibration
        shares = (np.arange(_STORED) + 0.5) / _STORED
        every = {"total": own.residuals, "common": own.common, "deviations": own.deviations}
        kept = {k: v if v.size <= _STORED else np.quantile(v, shares) for k, v in every.items()}
        texts = {name: np.round(values, 4).tolist() for name, values in kept.items()}
        return {"centre": round(self.centre, 4), "slope": round(self.slope, 4), **texts}


def residuals(forecasts: list[tuple[PriorPrediction, Floats, Floats]]) -> Residuals:
    """Return those of applications: of each a forecast, times, and how far rounds are apart."""
    logs, apart = (
        [np.log(times) - said.logs()[0] for said, times, _ in forecasts],
        [each[2] for each in forecasts],
    )
    every = np.concatenate(apart)
    slope = float(np.polyfit(every, np.concatenate(logs), 1)[0]) if every.any() else 0.0
    rest = [own - slope * each for own, each in zip(logs, apart, strict=True)]
    centre = float(np.median([own.mean() for own in rest]))
    scaled = [
        (own - centre) / reach_of(said.width + centre + slope * each)
        for own, (said, _, each) in zip(rest, forecasts, strict=True)
    ]
    members = np.repeat(np.arange(len(scaled)), [own.size for own in scaled])
    own = ResidualCalibration.of(0.0, np.concatenate(scaled), members)
    return Residuals(centre, slope, own)


def reach_of(waiting: Floats) -> Floats:
    """Return how far residuals reach where times are so much longer than bounds, in logarithms."""
    return np.maximum(waiting, 0.0) + _LEAST


def unlearned_kinds(
    model: FittedModel, problem: MappingProblem, mappings: Sequence[TaskMapping]
) -> tuple[str, ...]:
    """Return the kinds of this traffic that a model never saw, as far as it tells its own."""
    learned = model.provenance_.get("kinds")
    if learned is None:
        return ()
    return tuple(k for k in kinds_of(problem, mappings) if k not in learned)


def prior_of(
    model: FittedModel,
    features: pd.DataFrame,
    problem: MappingProblem,
    mappings: Sequence[TaskMapping],
) -> tuple[PriorPrediction, tuple[str, ...]]:
    """Return a model's forecast, and the kinds of traffic that it never saw.

    The intervals of the default model are those of held-out applications of the first of the kinds
    that this traffic is of; the widest of all kinds where it is of one that the model never saw.
    The features hold `APART` besides its own.
    """
    warn_of_routing(model, problem)
    kinds = unlearned_kinds(model, problem, mappings)
    warn_of_distance(model, features, kinds)
    prior = model.prior_prediction(features)
    if not model.by_kind_:
        return prior, kinds
    known = model.by_kind_
    if not kinds:
        found = known[(*kinds_of(problem, mappings), LEARNED)[0]]
    else:
        found = max(known.values(), key=lambda each: each.calibration.quantile(0.9))
    apart = features[APART].to_numpy(dtype=np.float64)
    return widened(ordered(prior, features), found, apart), kinds


def ordered(prior: PriorPrediction, features: pd.DataFrame) -> PriorPrediction:
    """Return the forecast of an application's mappings in the order of their release bounds.

    All take longer than it by the same factor, the mean of what the trees say: its logarithm is
    their width.
    """
    bound = np.log(features["release_slowdown"].to_numpy(dtype=np.float64))
    waiting = np.full(bound.size, (prior.centre - bound).mean())
    return replace(prior, centre=bound + waiting, width=waiting)


def widened(prior: PriorPrediction, found: Residuals, apart: Floats) -> PriorPrediction:
    """Return an ordered forecast with the distribution of residuals."""
    longer = found.middle(apart)
    return replace(
        prior,
        centre=prior.centre + longer,
        width=reach_of(prior.width + longer),
        calibration=found.calibration,
    )
