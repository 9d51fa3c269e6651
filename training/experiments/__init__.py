"""Experiments whose results are published in ``docs/results.md``.

Each module defines one or more `Experiment`; the registry here gives them their order.
"""

from .experiment import Bar, Chart, Experiment, Findings, Inputs
from .fugaku import FUGAKU

_ALL: tuple[Experiment, ...] = (FUGAKU,)

EXPERIMENTS = {experiment.name: experiment for experiment in _ALL}

__all__ = ["EXPERIMENTS", "Bar", "Chart", "Experiment", "Findings", "Inputs"]
