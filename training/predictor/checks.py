"""What a model is asked for that it cannot know."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from toruscast.errors import InputError
from toruscast.features import FEATURES
from toruscast.mapping import Torus, Workload
from toruscast.routing import Routing
from toruscast.routing.routing import phase_routings
from toruscast.text import factor
from toruscast.training.measured.references import SIMULATED
from toruscast.validation import job_count, one_of, whole_number

from .feature_sets import KNOWS_PLACE, Target
from .fitted import FittedModel

Floats = NDArray[np.float64]
# Times lie within a factor of ten or so of the sketch's and of the lower bound, and milliseconds a
# thousand times off: this lies between them.
_OTHER_UNIT = 100
# By how much more or less than all values of a feature learned from others are far from them.
_FAR = 2.0
# Values of features without a unit that differ by less are near each other.
_NEAR = 0.05


def check_model(model: object) -> None:
    """Raise `InputError` if this is no model of named features that are known."""
    if not isinstance(model, FittedModel):
        raise InputError(
            "bad model", found=model, expected="a TimePredictor, such as load_predictor()"
        )
    needed = model.required_columns
    if not needed:
        raise InputError("model without feature names", expected="one fitted on a table")
    unknown = [name for name in needed if name not in FEATURES and name not in SIMULATED]
    if unknown:
        raise InputError(
            "the model reads features that are not registered",
            found=", ".join(unknown),
            expected="a function for each, as when it was trained (--plugin FILE.py)",
        )


def check_sends(workload: Workload) -> None:
    """Raise `InputError` if nothing is sent, and so no mapping takes any time."""
    if not any(phase.whole_messages.any() for phase in workload):
        raise InputError("at most half a message on every edge: no times to learn")


def warn_of_routing(model: FittedModel, routing: Routing, workload: Workload, torus: Torus) -> None:
    """Warn if a model of one application learned under a routing that sends these otherwise.

    What learned from many applications, the default model, serves every routing: the race corrects
    it.
    """
    learned = model.provenance_.get("routing", routing)
    learned = [learned] if isinstance(learned, str) else learned
    if model.provenance_.get("default"):
        return
    ways = phase_routings(routing, workload, torus)
    if any(phase_routings(each, workload, torus) != ways for each in learned):
        told = " and ".join(learned)
        warnings.warn(f"the model learned from {told} routing, not {routing}", stacklevel=4)


def warn_of_distance(
    model: FittedModel, table: pd.DataFrame, unlearned: Sequence[str] = ()
) -> None:
    """Warn if a model is asked for mappings far from all that it learned from.

    ``unlearned`` are kinds of traffic that it never saw. The default model, which learned from many
    applications, is corrected by the race.
    """
    if model.provenance_.get("default"):
        return
    if unlearned:
        warnings.warn(
            f"the model learned from no {' or '.join(unlearned)}: its intervals do not hold there",
            stacklevel=4,
        )
    names = [str(name) for name in model.feature_names_in_]
    values = table[names].to_numpy()
    least, most = model.feature_least_, model.feature_most_
    is_far = (values < np.minimum(least, least / _FAR)) | (values > np.maximum(most, most * _FAR))
    has_units = model.target in KNOWS_PLACE
    if not has_units:
        # Features without a unit are about 1: small ones of other small ones are not far.
        is_far &= (values < least - _NEAR) | (values > most + _NEAR)
    far = [name for name, share in zip(names, is_far.mean(axis=0), strict=True) if share > 0.5]
    if far:
        hint = "; the targets 'slowdown' and 'correction' carry over" if has_units else ""
        warnings.warn(
            f"most mappings lie far from those that the model learned from, in {', '.join(far[:3])}"
            f"{' and others' if len(far) > 3 else ''}: what it learned may not hold beyond, and "
            f"intervals do not tell{hint}",
            stacklevel=4,
        )


def ask_for_seconds(times: Floats, reference: Floats, name: str) -> None:
    """Warn of times that are, in the median, far from those that they should be about."""
    sent = reference > 0
    ratio = float(np.median(times[sent] / reference[sent])) if sent.any() else 1.0
    if 1 / _OTHER_UNIT < ratio < _OTHER_UNIT:
        return
    text = f"the median time is {factor(ratio)} {name}: are the times in seconds?"
    # At the caller of `fit` or `rank`.
    warnings.warn(text, stacklevel=3)


def check_parameters(given: Mapping[str, Any]) -> None:
    """Raise `InputError` unless a predictor can learn with these; features need the table."""
    one_of(given["target"], "target", get_args(Target))
    if not isinstance(given["reference"], str):
        raise InputError("bad reference", found=given["reference"], expected="a column's name")
    whole_number(given["n_estimators"], "number of trees", 1)
    whole_number(given["calibration_folds"], "number of folds", 0)
    if given["min_samples_leaf"] is not None:
        whole_number(given["min_samples_leaf"], "min_samples_leaf", 1)
    if given["max_leaf_nodes"] is not None:
        whole_number(given["max_leaf_nodes"], "max_leaf_nodes", 2)
    job_count(given["n_jobs"])
    seed = given["random_state"]
    if seed is not None and not isinstance(seed, np.random.RandomState):
        whole_number(seed, "random_state", 0, 2**32 - 1)
