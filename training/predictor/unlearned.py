"""What the default model forecasts: an order from physics, seconds and intervals from learning.

The mappings of an application are ordered by the release bound; dependent rounds also by how far
they are apart, as held-out applications gave it. How much longer than it they all
take is what the trees say of them in the mean. The longer messages wait, the less is known of how
long, so the intervals are as wide as that, times a factor of held-out applications of the same kind
of traffic (`tools/train_default.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from toruscast.errors import InputError
from toruscast.mapping import TaskMapping, Torus, Workload
from toruscast.routing import Routing
from toruscast.training.samples.samples import kinds_of

from . import checks
from ._calibration import ResidualCalibration
from .fitted import FittedModel, PriorPrediction

Floats = NDArray[np.float64]
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
    """Logarithms of times over forecasts, of applications that a model never saw.

    Attributes
    ----------
    centre : float
        The middle of those of all applications.
    slope : float
        How they grow with `RoutedTraffic.rounds_apart`: the forecast knows only that rounds may
        overlap, and some do not.
    calibration : ResidualCalibration
        How the applications differ from it, and their mappings from the application, in `reach_of`
        the forecast.
    """

    centre: float
    slope: float
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
    model: FittedModel,
    workload: Workload,
    torus: Torus,
    routing: Routing,
    mappings: Sequence[TaskMapping],
) -> tuple[str, ...]:
    """Return the kinds of this traffic that a model never saw, as far as it tells its own."""
    learned = model.provenance_.get("kinds")
    if learned is None:
        return ()
    return tuple(k for k in kinds_of(workload, torus, routing, mappings) if k not in learned)


def prior_of(
    model: FittedModel,
    features: pd.DataFrame,
    workload: Workload,
    torus: Torus,
    routing: Routing,
    mappings: Sequence[TaskMapping],
) -> tuple[PriorPrediction, tuple[str, ...]]:
    """Return a model's forecast, and the kinds of traffic that it never saw.

    The intervals of the default model are those of held-out applications of the first of the kinds
    that this traffic is of; the widest of all kinds where it is of one that the model never saw.
    The features hold `APART` besides its own.

    Warns
    -----
    UserWarning
        If another model learned from other traffic, or far from these mappings.
    """
    checks.warn_of_routing(model, routing, workload, torus)
    kinds = unlearned_kinds(model, workload, torus, routing, mappings)
    checks.warn_of_distance(model, features, kinds)
    prior = model.prior_prediction(features)
    if not model.by_kind_:
        return prior, kinds
    known = model.by_kind_
    if not kinds:
        found = known[(*kinds_of(workload, torus, routing, mappings), LEARNED)[0]]
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
