"""The default model: the ratio of time to release bound, for each kind of traffic.

The model ranks mappings by their release bound. The ratio is nearly the same for all mappings of an
application, and its residuals give the intervals. `tools/train_default.py` fits the model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from toruscast._slow import pandas as pd
from toruscast.mapping import MappingProblem, TaskMapping
from toruscast.routing.messages import mean_message_packets
from toruscast.routing.routing import has_multiple_routes
from toruscast.typing import Floats

from .feature_sets import BOUND, Target, seconds_of
from .residuals import BOUND_TOLERANCE, PriorPrediction, ResidualCalibration

ROUNDS_APART = "rounds_apart"
"""Column of `RoutedTraffic.rounds_apart` that `predict_prior` needs."""
ROUNDS = "dependent rounds"
PHASES = "phases between barriers"
ADAPTIVE = "packets that choose their way"
SHORT = "messages of a packet or less"
SEVERAL = "several tasks a node"
ONE_EXCHANGE = "one exchange"
"""Traffic of a single exchange, for which `classify_traffic` returns no kinds."""
SHARES = ("link_share", "injection_share", "reception_share", "latency_share")
COVARIATES = (ROUNDS_APART, "log_packets", "latency_share", "reception_share")
"""Regressors of the log ratio of time to bound. ``log_packets`` is the logarithm of the packets per
message, at least 0. All but the first are averaged over the mappings, so the mappings stay in the
order of the bound."""
# Scale of the residuals at a ratio of 1, chosen to minimise the intervals of held-out applications.
_MIN_SCALE = 0.03
# Exponent of the waiting for links in dependent rounds. With this value, bounds rank the measured
# times of four programs as well as bounds of the programs' summed traffic do. The ranking of
# simulated times hardly changes.
_WAITING_SHARE = 0.3
# Unit of the kernel's features, chosen to maximise the likelihood of held-out applications after
# one, three and six simulations.
_FEATURE_UNIT = 0.2


def covariates(features: pd.DataFrame, packets: float) -> Floats:
    """Return the `COVARIATES` of an application's mappings, shape ``(n, 4)``."""
    columns = features.assign(log_packets=np.log(max(packets, 1.0)))[list(COVARIATES)]
    values = columns.to_numpy(dtype=np.float64)
    values[:, 1:] = values[:, 1:].mean(axis=0)
    return values


def scale_of_log_ratio(log_ratio: Floats) -> Floats:
    """Return the scale of the residuals, which increases with the ratio."""
    return log_ratio + _MIN_SCALE


def classify_traffic(problem: MappingProblem, mappings: Sequence[TaskMapping]) -> tuple[str, ...]:
    """Return the kinds of traffic.

    There are none for a single exchange of long messages in dimension order, one task per node.
    """
    kinds = []
    if len(problem.workload) > 1:
        kinds.append(ROUNDS if problem.workload.dependent else PHASES)
    if has_multiple_routes(problem):
        kinds.append(ADAPTIVE)
    if problem.derive(mean_message_packets) <= 1:
        kinds.append(SHORT)
    if any(mapping.tasks_per_node > 1 for mapping in mappings):
        kinds.append(SEVERAL)
    return tuple(kinds)


class RatioModel(NamedTuple):
    """A linear model of the log ratio of time to release bound, clipped at 0."""

    level: float
    slopes: Floats

    def log_ratios(self, covariates: Floats) -> Floats:
        """Return the log ratio of time to release bound of each mapping."""
        return np.maximum(self.level + covariates @ self.slopes, 0.0)


class TrafficKind(NamedTuple):
    """Ratio of time to release bound for one kind of traffic."""

    ratio: RatioModel
    calibration: ResidualCalibration
    """Residuals of held-out applications, divided by `scale_of_log_ratio`."""


@dataclass(frozen=True)
class DefaultModel:
    """The model that comes with toruscast."""

    kinds: Mapping[str, TrafficKind]
    provenance: Mapping[str, Any]
    """Command, commit, and numbers of applications and samples of each kind."""
    required_columns: ClassVar = (BOUND, *SHARES)
    target: ClassVar[Target] = "slowdown"

    @property
    def n_samples_(self) -> int:
        """Number of training samples."""
        return int(self.provenance["samples"])

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Return the model from the content of a JSON file."""
        kinds = {}
        for name, kind in content["kinds"].items():
            slopes = np.array([kind["slopes"][covariate] for covariate in COVARIATES])
            residuals = (np.array(kind[key]) for key in ("residuals", "common", "deviations"))
            kinds[name] = TrafficKind(
                RatioModel(kind["level"], slopes), ResidualCalibration(0.0, *residuals)
            )
        return cls(kinds, content["provenance"])

    def unseen(self, kinds: Sequence[str]) -> tuple[str, ...]:
        """Return the kinds without training samples."""
        return tuple(kind for kind in kinds if kind not in self.kinds)

    def prior_prediction(
        self, features: pd.DataFrame, kinds: Sequence[str], packets: float
    ) -> PriorPrediction:
        """Predict the times of an application's mappings.

        The ratio is that of the first of ``kinds`` that has training samples. The intervals are the
        widest among ``kinds``, or among all kinds if any of ``kinds`` lacks samples.
        """
        names = [name for name in kinds if name in self.kinds] or [ONE_EXCHANGE]
        if self.unseen(kinds):
            names += self.kinds
        regressors = covariates(features, packets)
        log_ratios = [self.kinds[name].ratio.log_ratios(regressors) for name in names]
        intervals = [
            (scale_of_log_ratio(log_ratio), self.kinds[name].calibration)
            for name, log_ratio in zip(names, log_ratios, strict=True)
        ]
        # Choose the interval with the largest mean width at a coverage of 90 %.
        scale, calibration = max(intervals, key=lambda pair: pair[0].mean() * pair[1].quantile(0.9))
        bound = seconds_of(features, BOUND)
        shares = features[list(SHARES)].to_numpy(dtype=np.float64)
        log_ratio = log_ratios[0]
        if ROUNDS in kinds:
            log_ratio = np.maximum(log_ratio + _relative_waiting(features), 0.0)
        return PriorPrediction(
            features=np.column_stack([shares, np.log(bound)]) / _FEATURE_UNIT,
            centre=np.log(bound) + log_ratio,
            scale=scale,
            calibration=calibration,
            min_times=BOUND_TOLERANCE * bound,
        )


def _relative_waiting(features: pd.DataFrame) -> Floats:
    """Return the log of combined waiting and latency, relative to its mean over the mappings.

    The release bound of dependent rounds is the time of their longest chain or of the busiest link,
    whichever is longer. Messages on the chain also wait for links, so mappings with equal bounds
    are ranked by the norm of both shares.
    """
    parts = features[["link_share", "latency_share"]].to_numpy(dtype=np.float64)
    logs = np.log(np.linalg.norm(parts, axis=1))
    return np.asarray(_WAITING_SHARE * (logs - logs.mean()))


@cache
def load_default() -> DefaultModel:
    """Return the model that comes with toruscast."""
    text = resources.files("toruscast.training").joinpath("default.json").read_text("utf-8")
    return DefaultModel.from_json(json.loads(text))
