"""Experiments whose results are published in ``docs/studies/results.md``.

Each module defines one or more `Experiment`; the registry here gives them their order.
"""

from . import chance
from .blue_gene import link_counts, static_routes
from .blue_waters import gemini_amg, gemini_contention
from .experiment import Bar, Chart, Experiment, Findings, Inputs
from .fugaku import study as fugaku
from .sc13 import (
    combinations,
    hybrids,
    importance,
    learners,
    learning_curve,
    level_1,
    mixture,
    pf3d,
    prior_features,
    reliability,
    transfer,
    unseen,
)

_ALL: tuple[Experiment, ...] = (
    gemini_amg.EXPERIMENT,
    gemini_contention.EXPERIMENT,
    fugaku.EXPERIMENT,
    static_routes.EXPERIMENT,
    link_counts.EXPERIMENT,
    prior_features.EXPERIMENT,
    chance.EXPERIMENT,
    *hybrids.EXPERIMENTS,
    mixture.EXPERIMENT,
    transfer.EXPERIMENT,
    pf3d.EXPERIMENT,
    unseen.EXPERIMENT,
    level_1.EXPERIMENT,
    learning_curve.EXPERIMENT,
    learners.EXPERIMENT,
    reliability.EXPERIMENT,
    importance.EXPERIMENT,
    combinations.EXPERIMENT,
)

EXPERIMENTS = {experiment.name: experiment for experiment in _ALL}

__all__ = ["EXPERIMENTS", "Bar", "Chart", "Experiment", "Findings", "Inputs"]
