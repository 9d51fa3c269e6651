"""Learning from samples which mapping is fast: predictors, their quality, rankings."""

from .evaluate.evaluate import compare_feature_sets, repeated_splits, single_features, summarise
from .evaluate.metrics import r2, rcc, rcc_told_apart, regret, tau_b, wrong_pairs
from .forecast.answer import Cost, Forecast, Verdict
from .forecast.forecast import forecast
from .forecast.race import Budget
from .measured.machine import learn_runs
from .measured.measured import Measured
from .measured.runs import Runs
from .measured.signal_check import NothingToLearnError
from .plan.next_run import Plan, Standing
from .plan.planning import plan
from .predictor._relative import TARGET_COLUMNS
from .predictor.default_model import build_default_samples, train_default
from .predictor.feature_sets import FEATURE_SETS, Target, feature_set, usual_target
from .predictor.model_file import load_predictor, save_predictor
from .predictor.predictor import TimePredictor
from .samples.application import Training, needed_level, train_for
from .samples.samples import build_samples
from .samples.simulated import simulation_minutes
from .samples.store import read_samples, write_samples

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
