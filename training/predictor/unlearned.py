"""Kinds of traffic that a model never saw: what its intervals are then.

The default model learned from one exchange of messages in dimension order. On other kinds its
residuals are larger, and applications differ in what all their mappings have in common. The
residuals of generated applications of each kind, which it never saw, come with it
(`tools/unlearned.py` makes them).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from toruscast.mapping import Torus, Workload
from toruscast.routing import Routing
from toruscast.training.samples.samples import kinds_of

from ._calibration import ResidualCalibration
from .fitted import FittedModel, PriorPrediction

Floats = NDArray[np.float64]
# Quantiles by which a distribution is stored.
_STORED = 200


@dataclass(frozen=True)
class Residuals:
    """Logarithms of times over forecasts, of applications that a model never saw.

    Attributes
    ----------
    centre : float
        The middle of those of all applications.
    calibration : ResidualCalibration
        How the applications differ from it, and their mappings from the application.
    """

    centre: float
    calibration: ResidualCalibration

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Self:
        """Return what `to_json` gave."""
        total, common, deviations = (
            np.array(content[name], dtype=np.float64) for name in ("total", "common", "deviations")
        )
        return cls(float(content["centre"]), ResidualCalibration(0.0, total, common, deviations))

    def to_json(self) -> dict[str, Any]:
        """Return it for JSON; long distributions by their quantiles."""
        own = self.calibration
        shares = (np.arange(_STORED) + 0.5) / _STORED
        every = {"total": own.misses, "common": own.common, "deviations": own.deviations}
        kept = {k: v if v.size <= _STORED else np.quantile(v, shares) for k, v in every.items()}
        texts = {name: np.round(values, 4).tolist() for name, values in kept.items()}
        return {"centre": round(self.centre, 4), **texts}


def residuals(groups: list[Floats]) -> Residuals:
    """Return the residuals of applications, the mappings of each in an array."""
    centre = float(np.median([group.mean() for group in groups]))
    total = np.concatenate(groups) - centre
    common = np.array([group.mean() for group in groups]) - centre
    # The mean of m mappings takes a part of their deviations with it.
    deviations = [
        (group - group.mean()) * np.sqrt(group.size / (group.size - 1)) for group in groups
    ]
    return Residuals(centre, ResidualCalibration(0.0, total, common, np.concatenate(deviations)))


@cache
def _known() -> dict[str, Residuals]:
    file = resources.files("toruscast.datasets") / "unlearned.json"
    stored = json.loads(file.read_text(encoding="utf-8"))
    return {kind: Residuals.from_json(content) for kind, content in stored.items()}


def unlearned_kinds(
    model: FittedModel, workload: Workload, torus: Torus, routing: Routing
) -> tuple[str, ...]:
    """Return the kinds of this traffic that a model never saw, as far as it tells its own."""
    learned = model.provenance_.get("kinds")
    if learned is None:
        if not model.provenance_.get("default"):
            return ()
        learned = []
    return tuple(kind for kind in kinds_of(workload, torus, routing) if kind not in learned)


def widened(prior: PriorPrediction, kinds: tuple[str, ...]) -> PriorPrediction:
    """Return a forecast whose distribution is that of applications of the widest of these kinds."""
    if not kinds:
        return prior
    found = max((_known()[kind] for kind in kinds), key=lambda each: each.calibration.quantile(0.9))
    scale = 1.0 if prior.scale is None or prior.relative is None else prior.scale.reach
    return replace(
        prior,
        centre=prior.centre + found.centre / scale,
        width=np.ones(prior.centre.size) / scale,
        calibration=found.calibration,
    )
