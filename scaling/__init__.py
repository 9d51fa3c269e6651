"""Scaling models in performance model normal form: sums of products of x^i log2(x)^j.

`PMNFRegressor` fits one model and predicts, as a scikit-learn estimator; `fit_many` fits thousands
of call paths at once; `read_measurements` reads Extra-P's files. `sequential`, `tpool` and `pipe`
compose models of parallel programs from models of their sequential tasks.
Sources: [Calotoiu13], [Calotoiu16], [Calotoiu19].
"""

from .composition import Expression
from .composition_patterns import pipe, sequential, tpool
from .composition_range import Piece
from .composition_stage import Stage
from .composition_text import composed
from .errors import ScalingInputError, ScalingWarning
from .fit import FitOptions, fit_many
from .formats import read_measurements
from .measurements import Measurements, from_rows
from .models import Models
from .regressor import PMNFRegressor
from .term_space import TermSpace

__all__ = [
    "Expression",
    "FitOptions",
    "Measurements",
    "Models",
    "PMNFRegressor",
    "Piece",
    "ScalingInputError",
    "ScalingWarning",
    "Stage",
    "TermSpace",
    "composed",
    "fit_many",
    "from_rows",
    "pipe",
    "read_measurements",
    "sequential",
    "tpool",
]
