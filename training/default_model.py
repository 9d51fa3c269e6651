"""The default model: how much longer than their release bounds times of each kind of traffic are.

`tools/train_default.py` makes its file. The model orders mappings by their release bound; it learns
the ratio of time to bound, which all mappings of an application have in common, and its error.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from toruscast._slow import pandas as pd
from toruscast.mapping import MappingProblem, TaskMapping
from toruscast.routing.messages import mean_message
from toruscast.routing.routing import ways_are_open

from .feature_sets import BOUND, Target, seconds_of
from .residuals import IN_TICKS, PriorPrediction, ResidualCalibration

Floats = NDArray[np.float64]
APART = "rounds_apart"
"""Column of `RoutedTraffic.rounds_apart` in the features of `prior_of`."""
ROUNDS = "dependent rounds"
PHASES = "phases between barriers"
ADAPTIVE = "packets that choose their way"
SHORT = "messages of a packet or less"
SEVERAL = "several tasks a node"
ONE_EXCHANGE = "one exchange"
"""Traffic of none of the kinds of `kinds_of`."""
SHARES = ("link_share", "injection_share", "reception_share", "latency_share")
COVARIATES = (APART, "log_packets", "latency_share", "reception_share")
"""What the ratio of time to bound depends on: ``log_packets`` is the logarithm of the packets of a
message, at least 0; the shares are means over the mappings, so that the order is the bound's."""
# Width of the logarithm of a time where no message waits: of those tried, intervals of held-out
# applications are narrowest with it.
_MIN_WIDTH = 0.03
# Distance of shares, and of logarithms of bounds, that makes features differ by 1: of those tried,
# times of held-out applications are likeliest with it after one, three and six simulations.
_LIKENESS = 0.2


def covariates(features: pd.DataFrame, packets: float) -> Floats:
    """Return the `COVARIATES` of the mappings of an application, shape ``(n, 4)``."""
    columns = features.assign(log_packets=np.log(max(packets, 1.0)))[list(COVARIATES)]
    values = columns.to_numpy(dtype=np.float64)
    values[:, 1:] = values[:, 1:].mean(axis=0)
    return values


def width_of(log_ratio: Floats) -> Floats:
    """Return the width of logarithms of time over bound: the longer messages wait, the wider."""
    return log_ratio + _MIN_WIDTH


def kinds_of(problem: MappingProblem, mappings: Sequence[TaskMapping]) -> tuple[str, ...]:
    """Return the kinds of traffic, besides one exchange in dimension order with a task a node."""
    kinds = []
    if len(problem.workload) > 1:
        kinds.append(ROUNDS if problem.workload.dependent else PHASES)
    if ways_are_open(problem):
        kinds.append(ADAPTIVE)
    if problem.derive(mean_message) <= 1:
        kinds.append(SHORT)
    if any(mapping.tasks_per_node > 1 for mapping in mappings):
        kinds.append(SEVERAL)
    return tuple(kinds)


class RatioModel(NamedTuple):
    """A linear model of the logarithm of time over release bound, never below 0."""

    level: float
    slopes: Floats
    """Of the `COVARIATES`."""

    def log_ratios(self, covariates: Floats) -> Floats:
        """Return the logarithm of time over release bound of each mapping."""
        return np.maximum(self.level + covariates @ self.slopes, 0.0)


class TrafficKind(NamedTuple):
    """Times over release bounds of one kind of traffic."""

    ratio: RatioModel
    calibration: ResidualCalibration
    """Residuals of held-out applications, over `width_of`."""


@dataclass(frozen=True)
class DefaultModel:
    """The model that comes with toruscast.

    Attributes
    ----------
    kinds : dict of str to TrafficKind
    provenance : dict
        The command and commit that made it, and how many applications and samples of each kind.
    """

    kinds: Mapping[str, TrafficKind]
    provenance: Mapping[str, Any]
    required_columns: ClassVar = (BOUND, *SHARES)
    target: ClassVar[Target] = "slowdown"

    @property
    def n_samples_(self) -> int:
        """Number of samples that it learned from."""
        return int(self.provenance["samples"])

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Return the model of a file's content."""
        kinds = {}
        for name, own in content["kinds"].items():
            slopes = np.array([own["slopes"][each] for each in COVARIATES])
            residuals = (np.array(own[each]) for each in ("residuals", "common", "deviations"))
            kinds[name] = TrafficKind(
                RatioModel(own["level"], slopes), ResidualCalibration(0.0, *residuals)
            )
        return cls(kinds, content["provenance"])

    def unseen(self, kinds: Sequence[str]) -> tuple[str, ...]:
        """Return those of the kinds of some traffic that the model did not learn from."""
        return tuple(kind for kind in kinds if kind not in self.kinds)

    def prior_prediction(
        self, features: pd.DataFrame, kinds: Sequence[str], packets: float
    ) -> PriorPrediction:
        """Return the forecast of an application's mappings.

        The first of its kinds counts. Where the model lacks one of them, intervals are those of the
        kind with the largest residuals.
        """
        own = self.kinds[(*kinds, ONE_EXCHANGE)[0]] if not self.unseen(kinds) else self._widest()
        log_ratio = own.ratio.log_ratios(covariates(features, packets))
        bound = seconds_of(features, BOUND)
        shares = features[list(SHARES)].to_numpy(dtype=np.float64)
        return PriorPrediction(
            features=np.column_stack([shares, np.log(bound)]) / _LIKENESS,
            centre=np.log(bound) + log_ratio,
            width=width_of(log_ratio),
            calibration=own.calibration,
            min_times=IN_TICKS * bound,
        )

    def _widest(self) -> TrafficKind:
        return max(self.kinds.values(), key=lambda kind: kind.calibration.quantile(0.9))


@cache
def load_default() -> DefaultModel:
    """Return the model that comes with toruscast."""
    text = resources.files("toruscast.training").joinpath("default.json").read_text("utf-8")
    return DefaultModel.from_json(json.loads(text))
