"""Scaling models of applications: measured values, interconnect constants, requirements.

`PMNFRegressor` fits one model in performance model normal form, sums of products of x^i log2(x)^j,
and predicts, as a scikit-learn estimator; `fit_many` fits thousands of call paths at once;
`read_measurements` reads Extra-P's files. Sources: [Calotoiu13], [Calotoiu16].
`fit_interconnect` and `what_if` tell what latency and bandwidth cost [LSDYNA03];
`upgrade_ratios` and `compare_systems` what a machine offers an application [Calotoiu18].
"""

from .application_files import read_application
from .applications import application, application_names
from .codesign_systems import STRAW_MEN, System, compare_systems
from .codesign_upgrades import LARGE_BASE, UPGRADES, Upgrade, upgrade_ratios
from .errors import ScalingInputError, ScalingWarning
from .fit import FitOptions, fit_many
from .formats import read_measurements
from .interconnect import Interconnect, fit_interconnect
from .interconnect_jobs import JOB_COLUMNS, read_jobs
from .interconnect_what_if import SCENARIOS, Scenario, communication_times, what_if
from .measurements import Measurements, from_rows
from .models import Models
from .regressor import PMNFRegressor
from .requirements import Application
from .term_space import TermSpace

__all__ = [
    "JOB_COLUMNS",
    "LARGE_BASE",
    "SCENARIOS",
    "STRAW_MEN",
    "UPGRADES",
    "Application",
    "FitOptions",
    "Interconnect",
    "Measurements",
    "Models",
    "PMNFRegressor",
    "ScalingInputError",
    "ScalingWarning",
    "Scenario",
    "System",
    "TermSpace",
    "Upgrade",
    "application",
    "application_names",
    "communication_times",
    "compare_systems",
    "fit_interconnect",
    "fit_many",
    "from_rows",
    "read_application",
    "read_jobs",
    "read_measurements",
    "upgrade_ratios",
    "what_if",
]
