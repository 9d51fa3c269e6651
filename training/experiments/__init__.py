"""Experiments whose results are published in ``docs/results.md``.

Each module defines one or more `Experiment`; the registry here gives them their order.
"""

from . import gemini_amg, gemini_contention, link_counts, static_routes
from .experiment import Bar, Chart, Experiment, Findings, Inputs

_ALL: tuple[Experiment, ...] = (
    gemini_amg.EXPERIMENT,
    gemini_contention.EXPERIMENT,
    static_routes.EXPERIMENT,
    link_counts.EXPERIMENT,
)

EXPERIMENTS = {experiment.name: experiment for experiment in _ALL}

__all__ = ["EXPERIMENTS", "Bar", "Chart", "Experiment", "Findings", "Inputs"]
