"""Scaling models in performance model normal form: sums of products of x^i log2(x)^j.

`PMNFRegressor` fits one model and predicts, as a scikit-learn estimator; `fit_many` fits thousands
of call paths at once; `read_measurements` reads Extra-P's files.
Sources: [Calotoiu13], [Calotoiu16].
"""

from .errors import ScalingInputError, ScalingWarning
from .fit import FitOptions, fit_many
from .formats import read_measurements
from .measurements import Measurements, from_rows
from .models import Models
from .regressor import PMNFRegressor
from .term_space import TermSpace

__all__ = [
    "FitOptions",
    "Measurements",
    "Models",
    "PMNFRegressor",
    "ScalingInputError",
    "ScalingWarning",
    "TermSpace",
    "fit_many",
    "from_rows",
    "read_measurements",
]
