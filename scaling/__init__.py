"""Scaling models of applications: measured values, composition, interconnects, requirements.

`PMNFRegressor` is a scikit-learn estimator of one model in performance model normal form, a sum of
products of x^i log2(x)^j [Calotoiu13], [Calotoiu16]. `fit_many` fits thousands of call paths at
once, and `read_measurements` reads Extra-P's files. `sequential`, `tpool` and `pipe` compose models
of parallel programs from models of their sequential tasks [Calotoiu19]. `fit_interconnect` and
`what_if` estimate the cost of latency and bandwidth [LSDYNA03]. `upgrade_ratios` and
`compare_systems` estimate the benefit of a machine for an application [Calotoiu18].
"""

from .codesign import (
    LARGE_BASE,
    STRAW_MEN,
    UPGRADES,
    Application,
    System,
    Upgrade,
    application,
    application_names,
    compare_systems,
    read_application,
    share_system,
    upgrade_ratios,
    upgrades_by,
)
from .composition import Expression, composed, pipe, replicate, sequential, shared, tpool
from .fit import FitOptions, PMNFRegressor, fit_many
from .formula import Formula, ScalingWarning
from .interconnect import (
    JOB_COLUMNS,
    SCENARIOS,
    Interconnect,
    Scenario,
    communication_times,
    fit_interconnect,
    read_jobs,
    speedups,
    what_if,
)
from .measurements import Measurements, from_rows
from .models import Models
from .readers import read_formulas, read_measurements
from .runs import next_runs, run_plans, variations
from .stages import RangePart, Stage
from .terms import TermSpace

__all__ = [
    "JOB_COLUMNS",
    "LARGE_BASE",
    "SCENARIOS",
    "STRAW_MEN",
    "UPGRADES",
    "Application",
    "Expression",
    "FitOptions",
    "Formula",
    "Interconnect",
    "Measurements",
    "Models",
    "PMNFRegressor",
    "RangePart",
    "ScalingWarning",
    "Scenario",
    "Stage",
    "System",
    "TermSpace",
    "Upgrade",
    "application",
    "application_names",
    "communication_times",
    "compare_systems",
    "composed",
    "fit_interconnect",
    "fit_many",
    "from_rows",
    "next_runs",
    "pipe",
    "read_application",
    "read_formulas",
    "read_jobs",
    "read_measurements",
    "replicate",
    "run_plans",
    "sequential",
    "share_system",
    "shared",
    "speedups",
    "tpool",
    "upgrade_ratios",
    "upgrades_by",
    "variations",
    "what_if",
]
