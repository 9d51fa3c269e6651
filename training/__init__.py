"""Learning from samples which mapping is fast: predictors, their quality, rankings."""

from ._relative import TARGET_COLUMNS
from .answer import Cost, Forecast, Verdict
from .application import Training, needed_level, train_for
from .default_model import build_default_samples, train_default
from .evaluate import compare_feature_sets, repeated_splits, single_features, summarise
from .feature_sets import FEATURE_SETS, Target, feature_set, usual_target
from .forecasting import forecast
from .machine import learn_runs
from .measured import Measured
from .metrics import r2, rcc, rcc_told_apart, regret, tau_b, wrong_pairs
from .model_file import load_predictor, save_predictor
from .next_run import Plan, Standing
from .planning import plan
from .predictor import TimePredictor
from .race import Budget
from .runs import Runs
from .sample_store import read_samples, write_samples
from .samples import build_samples
from .simulated import simulation_minutes
from .worth import NothingToLearnError

__all__ = [
    "FEATURE_SETS",
    "TARGET_COLUMNS",
    "Budget",
    "Cost",
    "Forecast",
    "Measured",
    "NothingToLearnError",
    "Plan",
    "Runs",
    "Standing",
    "Target",
    "TimePredictor",
    "Training",
    "Verdict",
    "build_default_samples",
    "build_samples",
    "compare_feature_sets",
    "feature_set",
    "forecast",
    "learn_runs",
    "load_predictor",
    "needed_level",
    "plan",
    "r2",
    "rcc",
    "rcc_told_apart",
    "read_samples",
    "regret",
    "repeated_splits",
    "save_predictor",
    "simulation_minutes",
    "single_features",
    "summarise",
    "tau_b",
    "train_default",
    "train_for",
    "usual_target",
    "write_samples",
    "wrong_pairs",
]
