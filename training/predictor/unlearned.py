"""Kinds of traffic that a model never saw: what its intervals are then.

The default model learned from one exchange of messages in dimension order. On other kinds its
residuals are larger, and applications differ in what all their mappings have in common. The
residuals of generated applications of each kind, which it never saw, come with it
(`tools/unlearned.py` makes them).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from toruscast.mapping import TaskMapping, Torus, Workload
from toruscast.routing import Routing
from toruscast.training.samples.samples import kinds_of

from . import checks
from ._calibration import ResidualCalibration
from .fitted import FittedModel, PriorPrediction

Floats = NDArray[np.float64]
# Quantiles by which a distribution is stored.
_STORED = 200
# Width of residuals where rounds are not apart.
_USUAL_WIDTH = 0.4
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
        How the applications differ from it, and their mappings from the application, in `widths`.
    """

    centre: float
    slope: float
    calibration: ResidualCalibration

    def middle(self, apart: Floats) -> Floats:
        """Logarithms that are to be added to a forecast."""
        return self.centre + self.slope * apart

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Self:
        """Return what `to_json` gave."""
        total, common, deviations = (
            np.array(content[name], dtype=np.float64) for name in ("total", "common", "deviations")
        )
        own = ResidualCalibration(0.0, total, common, deviations)
        return cls(float(content["centre"]), float(content["slope"]), own)

    def to_json(self) -> dict[str, Any]:
        """Return it for JSON; long distributions by their quantiles."""
        own = self.calibration
        shares = (np.arange(_STORED) + 0.5) / _STORED
        every = {"total": own.misses, "common": own.common, "deviations": own.deviations}
        kept = {k: v if v.size <= _STORED else np.quantile(v, shares) for k, v in every.items()}
        texts = {name: np.round(values, 4).tolist() for name, values in kept.items()}
        return {"centre": round(self.centre, 4), "slope": round(self.slope, 4), **texts}


def widths(apart: Floats) -> Floats:
    """Return how far residuals reach, as a factor: further where less is known of overlaps."""
    return _USUAL_WIDTH + apart


def residuals(groups: list[tuple[Floats, Floats]]) -> Residuals:
    """Return the residuals of applications: of each its mappings', and how far rounds are apart."""
    logs, apart = (np.concatenate(each) for each in zip(*groups, strict=True))
    slope = 0.0
    if apart.any():
        slope = float(np.polyfit(apart, logs, 1)[0])
    centre = float(np.median([(own - slope * each).mean() for own, each in groups]))
    scaled = [(own - slope * each - centre) / widths(each) for own, each in groups]
    common = np.array([own.mean() for own in scaled])
    # The mean of m mappings takes a part of their deviations with it.
    deviations = [(own - own.mean()) * np.sqrt(own.size / (own.size - 1)) for own in scaled]
    own = ResidualCalibration(0.0, np.concatenate(scaled), common, np.concatenate(deviations))
    return Residuals(centre, slope, own)


@cache
def _known() -> dict[str, Residuals]:
    file = resources.files("toruscast.datasets") / "unlearned.json"
    stored = json.loads(file.read_text(encoding="utf-8"))
    return {kind: Residuals.from_json(content) for kind, content in stored.items()}


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

    There the intervals of the default model are those of applications of the widest of these kinds.
    The features hold `APART` besides the model's.

    Warns
    -----
    UserWarning
        If another model learned from other traffic, or far from these mappings.
    """
    checks.warn_of_routing(model, routing, workload, torus)
    kinds = unlearned_kinds(model, workload, torus, routing, mappings)
    checks.warn_of_distance(model, features, kinds)
    prior = model.prior_prediction(features)
    known = [_known()[kind] for kind in kinds if kind in _known()]
    if not (known and model.provenance_.get("default")):
        return prior, kinds
    found = max(known, key=lambda each: each.calibration.quantile(0.9))
    return widened(prior, found, features[APART].to_numpy(dtype=np.float64)), kinds


def widened(prior: PriorPrediction, found: Residuals, apart: Floats) -> PriorPrediction:
    """Return a forecast with the distribution of residuals, nowhere narrower than its own."""
    scale = 1.0 if prior.scale is None or prior.relative is None else prior.scale.reach
    own = prior.calibrated.quantile(0.9) * prior.width / found.calibration.quantile(0.9)
    return replace(
        prior,
        centre=prior.centre + found.middle(apart) / scale,
        width=np.maximum(widths(apart) / scale, own),
        calibration=found.calibration,
    )
