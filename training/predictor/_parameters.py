"""What the parameters of a predictor may be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

import numpy as np

from toruscast.errors import InputError
from toruscast.validation import job_count, one_of, whole_number

from .feature_sets import Target


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
