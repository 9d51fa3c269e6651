"""Scaling models of applications: measured values, composition, interconnects, requirements.

`PMNFRegressor` is a scikit-learn estimator of one model in performance model normal form, a sum of
products of x^i log2(x)^j [Calotoiu13], [Calotoiu16]. `fit_many` fits thousands of call paths at
once, and `read_measurements` reads Extra-P's files. `sequential`, `tpool` and `pipe` compose models
of parallel programs from models of their sequential tasks [Calotoiu19]. `fit_interconnect` and
`what_if` tell what latency and bandwidth cost [LSDYNA03]. `upgrade_ratios` and `compare_systems`
tell what a machine offers an application [Calotoiu18].
"""

from .codesign.applications import application, application_names, read_application
from .codesign.requirements import Application
from .codesign.systems import STRAW_MEN, System, compare_systems, share_system
from .codesign.upgrades import LARGE_BASE, UPGRADES, Upgrade, upgrade_ratios, upgrades_by
from .composition.expression import Expression
from .composition.patterns import pipe, sequential, shared, tpool
from .composition.range import RangePart
from .composition.replication import replicate
from .composition.stage import Stage
from .composition.text import composed
from .formats import read_measurements
from .formula import Formula, read_formulas
from .interconnect.constants import Interconnect, fit_interconnect
from .interconnect.jobs import JOB_COLUMNS, read_jobs
from .interconnect.what_if import SCENARIOS, Scenario, communication_times, speedups, what_if
from .pmnf.fit import FitOptions, fit_many
from .pmnf.measurements import Measurements, from_rows
from .pmnf.models import Models
from .pmnf.regressor import PMNFRegressor
from .pmnf.terms import TermSpace
from .runs import next_runs, run_plans, variations
from .warning import ScalingWarning

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
