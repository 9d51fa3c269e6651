"""Model files: predictors as arrays of numbers, without pickles."""

from __future__ import annotations

import json
import math
import os
import time
from dataclasses import fields
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import numpy as np

import toruscast
from toruscast import files
from toruscast._features import FEATURES
from toruscast._features.registry import FORMER_NAMES
from toruscast.errors import InputError
from toruscast.routing import Routing
from toruscast.validation import one_of, whole_number

from .default_model import load_default
from .feature_sets import feature_set
from .fitted import FittedModel, Model, check_parameters
from .residuals import Forest, ResidualCalibration, TargetTransform
from .store import changed_features, feature_marks

if TYPE_CHECKING:
    from .predictor import TimePredictor

FORMAT = "toruscast predictor"
VERSION = 4
MAX_BYTES = 256 * 2**20
"""Maximum number of bytes that a model file may unpack to."""
_MAX_TEXT = 2**20
_MAX_FEATURES = 10_000
# Trees compress poorly: models of 10 to 20,000 samples unpack to only 2 to 5 times their file size.
_MAX_RATIO = 10

# Maximum absolute values, which keep predictions and their products finite.
_MAX_LOG = 60.0
_MAX_TIME = 1e12
_MAX_FEATURE = 1e100
_MAX_RESIDUAL = 10.0
_ZIP = b"PK\x03\x04"
_CALIBRATION = tuple(item.name for item in fields(ResidualCalibration))
_FEATURE_ARRAYS = ("feature_shift", "feature_scale", "feature_least", "feature_most")
_TARGET_ARRAYS = ("target_shift", "target_scale")


class ArraySchema(NamedTuple):
    """Type, size and range of an array in a model file.

    ``size`` is a number, or a name shared by all arrays that must have the same size.
    """

    dtype: str
    size: int | str
    low: float | tuple[float, ...] = -math.inf
    high: float | tuple[float, ...] = math.inf


def model_file_schema(
    n_features: int, target: str, *, is_log: bool, is_calibrated: bool
) -> dict[str, ArraySchema]:
    """Return the schema of each array in a model file, except ``metadata``.

    ``is_log`` is true if the residuals are differences of logarithms of times; ``is_calibrated`` is
    true if the file contains a calibration of the intervals.
    """
    max_target = _MAX_TIME if target == "time" else _MAX_LOG
    max_score = _MAX_LOG if is_log else _MAX_TIME
    schema = {
        "feature_shift": ArraySchema("f8", n_features, -_MAX_FEATURE, _MAX_FEATURE),
        "feature_scale": ArraySchema("f8", n_features, 1 / _MAX_FEATURE, _MAX_FEATURE),
        "feature_least": ArraySchema("f8", n_features, -_MAX_FEATURE, _MAX_FEATURE),
        "feature_most": ArraySchema("f8", n_features, -_MAX_FEATURE, _MAX_FEATURE),
        "importances": ArraySchema("f8", n_features, 0.0),
        "target_shift": ArraySchema("f8", 1, -max_target, max_target),
        "target_scale": ArraySchema("f8", 1, 1 / _MAX_FEATURE, _MAX_FEATURE),
        "tree_size": ArraySchema("i8", "trees", 1),
        "tree_left": ArraySchema("i4", "nodes", -1),
        "tree_right": ArraySchema("i4", "nodes", -1),
        "tree_feature": ArraySchema("i4", "nodes", 0, n_features - 1),
        "tree_threshold": ArraySchema("f8", "nodes"),
        "tree_value": ArraySchema("f8", "nodes"),
    }
    if target == "measured":
        schema["relative"] = ArraySchema("f8", 2, 0.0, _MAX_TIME)
    elif target != "time":
        schema["relative"] = ArraySchema("f8", 2, (-_MAX_LOG, 0.0), (_MAX_LOG, 1.0))
    if is_calibrated:
        schema |= {f"calibration_{name}": ArraySchema("f8", name) for name in _CALIBRATION}
        schema["calibration_floor"] = ArraySchema("f8", 1, 1 / _MAX_FEATURE, max_score)
    return schema


def save_predictor(
    model: FittedModel, path: str | os.PathLike[str], provenance: dict[str, Any] | None = None
) -> None:
    """Write a fitted predictor to an ``.npz`` file atomically.

    The file contains arrays, which `numpy.load` reads without pickles: the nodes of the trees and
    the calibration. The array ``metadata`` is a JSON text with the versions of toruscast and
    scikit-learn, the features, the number of samples, and ``provenance``, which may be anything
    that JSON supports.

    Examples
    --------
    >>> import tempfile
    >>> from toruscast import TimePredictor
    >>> model = TimePredictor(n_estimators=10).fit(np.eye(6), np.arange(1.0, 7.0))
    >>> path = Path(tempfile.mkdtemp()) / "model.npz"
    >>> save_predictor(model, path, provenance={"command": "by hand"})
    >>> bool((load_predictor(path).predict(np.eye(6)) == model.predict(np.eye(6))).all())
    True
    """
    if not hasattr(model, "trees_"):
        raise InputError("a model that is not fitted", expected="a fitted one (fit)")
    names = [str(name) for name in getattr(model, "feature_names_in_", ())] or None
    parameters = {name: getattr(model, name) for name in model.PARAMETERS}
    if isinstance(model.random_state, np.random.RandomState):
        parameters["random_state"] = None
    metadata = {
        "format": FORMAT,
        "version": VERSION,
        "toruscast": toruscast.__version__,
        "scikit_learn": version("scikit-learn"),
        "parameters": parameters,
        "features": names,
        "marks": feature_marks(FEATURES[name] for name in names or () if name in FEATURES),
        "n_features": int(model.n_features_in_),
        "n_samples": int(model.n_samples_),
        "log": bool(model.log_),
        "bounded": bool(model.bounded_),
        "nodes": model.nodes_,
        "provenance": provenance or dict(getattr(model, "provenance_", {})),
    }
    try:
        # ``tolist`` converts NumPy's scalars and arrays.
        text = json.dumps(metadata, default=lambda value: value.tolist())
    except (AttributeError, TypeError, ValueError) as error:
        raise InputError("provenance cannot be stored", found=error, expected="JSON") from None
    arrays: dict[str, Any] = {
        "metadata": np.array(text),
        **{name: getattr(model, f"{name}_") for name in _FEATURE_ARRAYS},
        **{name: np.array([getattr(model, f"{name}_")]) for name in _TARGET_ARRAYS},
        "importances": model.feature_importances_,
        **{f"tree_{name}": array for name, array in model.trees_._asdict().items()},
    }
    if model.relative_ is not None:
        is_line = model.target == "measured"
        constant, slope, common, power = model.relative_
        arrays["relative"] = np.array([constant, slope] if is_line else [common, power])
    if model.calibration_ is not None:
        for name in _CALIBRATION:
            values = np.atleast_1d(getattr(model.calibration_, name))
            arrays[f"calibration_{name}"] = values.astype(np.float64)
    size = sum(array.nbytes for array in arrays.values())
    if size > MAX_BYTES or len(text) > _MAX_TEXT:
        expected = f"at most {MAX_BYTES}: fewer trees (n_estimators) or leaves (max_leaf_nodes)"
        raise InputError("model too large for a file", found=f"{size} bytes", expected=expected)
    with files.atomic_path(path) as temporary, temporary.open("wb") as stream:
        np.savez_compressed(stream, **arrays)


def load_model(path: str | os.PathLike[str]) -> Model:
    """Read a model; ``"default"`` is the model that comes with toruscast."""
    return load_default() if path == "default" else load_fitted(path)


def load_predictor(path: str | os.PathLike[str]) -> TimePredictor:
    """Read a predictor from a file written by `save_predictor`.

    Nothing in the file is executed or imported. The file may contain only a text and arrays of
    numbers; all are checked, including every tree node. It can be read with any version of
    scikit-learn.
    """
    from .predictor import TimePredictor

    return TimePredictor.from_fitted(load_fitted(path))


def load_fitted(path: str | os.PathLike[str]) -> FittedModel:
    """Read a model without importing scikit-learn, because the import takes a second."""
    start = time.perf_counter()
    with files.as_damaged(path, "model file"):
        model = _build_model(*_read_content(Path(path)))
    files.note_read("model", path, start, samples=model.n_samples_)
    return model


def _read_content(file: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the metadata and arrays of a model file after checking its format and features."""
    data = files.read_limited(file, MAX_BYTES)
    if not data.startswith(_ZIP):
        raise InputError("not a model file", expected="an .npz file of toruscast train")
    arrays = files.arrays_of_npz(data, file, files.max_unpacked(file, MAX_BYTES, _MAX_RATIO))
    text = arrays.pop("metadata", np.array(0))
    # NumPy stores four bytes per character.
    is_text = text.dtype.kind == "U" and not text.ndim and text.nbytes <= 4 * _MAX_TEXT
    metadata = json.loads(text.item()) if is_text else None
    if not isinstance(metadata, dict) or metadata.get("format") != FORMAT:
        raise InputError("not a toruscast model", expected=f"a {FORMAT} (toruscast train)")
    if metadata["version"] != VERSION:
        found = f"version {metadata['version']}, written by {metadata.get('toruscast')}"
        expected = f"version {VERSION}: train it again (toruscast train)"
        raise InputError("model file of another version", found=found, expected=expected)
    metadata = _replace_former_names(metadata)
    changed = changed_features(metadata["features"] or (), dict(metadata.get("marks", {})))
    if changed:
        message = "features have changed since the model was trained"
        expected = "a model trained again (toruscast train)"
        raise InputError(message, found=", ".join(changed), expected=expected)
    return metadata, arrays


def _replace_former_names(metadata: dict[str, Any]) -> dict[str, Any]:
    """Return metadata in which former names of features are replaced by their current names."""
    names, parameters = metadata["features"], metadata["parameters"]
    if isinstance(names, list):
        names = [FORMER_NAMES.get(str(name), name) for name in names]
    if isinstance(parameters, dict):
        parameters = {
            key: FORMER_NAMES.get(value, value) if isinstance(value, str) else value
            for key, value in parameters.items()
        }
    return metadata | {"features": names, "parameters": parameters}


def _build_model(metadata: dict[str, Any], arrays: dict[str, Any]) -> FittedModel:
    """Build the model from the content of a file, after checking every value."""
    parameters = metadata["parameters"]
    if not isinstance(parameters, dict) or set(parameters) != set(FittedModel.PARAMETERS):
        expected = ", ".join(FittedModel.PARAMETERS)
        raise InputError("bad parameters in a model file", expected=expected)
    parameters = parameters | {"n_jobs": None}
    check_parameters(parameters)
    model = FittedModel(parameters)
    if not isinstance(model.features, str | None):
        feature_set(model.features)
    n_features = whole_number(metadata["n_features"], "number of features", 1, _MAX_FEATURES)
    names = metadata["features"]
    if names is not None:
        if not isinstance(names, list) or len(feature_set(names)) != n_features:
            raise InputError("bad feature names in a model file", expected=f"{n_features} names")
        model.feature_names_in_ = np.array(names, dtype=object)
    model.n_features_in_ = n_features
    model.n_samples_ = whole_number(metadata["n_samples"], "number of samples", 1, 2**53)
    model.log_ = bool(metadata["log"])
    model.bounded_ = bool(metadata["bounded"])
    nodes = metadata.get("nodes")
    model.nodes_ = None
    if nodes is not None:
        smallest, largest = (whole_number(n, "number of nodes", 1, 2**53) for n in nodes)
        model.nodes_ = (smallest, largest)
    is_calibrated = any(name.startswith("calibration_") for name in arrays)
    schema = model_file_schema(
        n_features, model.target, is_log=model.log_, is_calibrated=is_calibrated
    )
    _check_arrays(arrays, schema)
    for name in _FEATURE_ARRAYS:
        setattr(model, f"{name}_", arrays[name])
    model.target_shift_, model.target_scale_ = (arrays[name].item() for name in _TARGET_ARRAYS)
    model.feature_importances_ = arrays["importances"]
    model.relative_ = None
    if "relative" in arrays:
        keys = ("constant", "slope") if model.target == "measured" else ("common", "power")
        values = zip(keys, arrays["relative"].tolist(), strict=True)
        model.relative_ = TargetTransform(**dict(values))
    model.trees_ = Forest(*(arrays[f"tree_{name}"] for name in Forest._fields))
    _check_trees(model.trees_)
    model.calibration_ = None
    if is_calibrated:
        floor, *parts = (arrays[f"calibration_{name}"] for name in _CALIBRATION)
        model.calibration_ = ResidualCalibration(floor.item(), *parts)
    _check_forecasts(model)
    versions = {name: str(metadata[name]) for name in ("toruscast", "scikit_learn")}
    model.provenance_ = versions | dict(metadata["provenance"])
    routings: Any = model.provenance_.get("routing", ())
    for routing in [routings] if isinstance(routings, str) else routings:
        one_of(routing, "routing", get_args(Routing))
    return model


def _check_arrays(arrays: dict[str, Any], schema: dict[str, ArraySchema]) -> None:
    """Raise `InputError` unless the arrays have the types, sizes and ranges of the schema."""
    for name in sorted(set(arrays) ^ set(schema)):
        fault = "is missing from" if name in schema else "is not known in"
        raise InputError(f"array {name[:60]} {fault} a model file")
    sizes: dict[str, int] = {}
    for name, (dtype, size, low, high) in schema.items():
        array = arrays[name]
        n = size if isinstance(size, int) else sizes.setdefault(size, array.size or 1)
        if array.dtype != np.dtype(dtype) or array.shape != (n,):
            found, expected = f"{array.dtype} {array.shape}", f"{np.dtype(dtype)} ({n},)"
        elif not (np.isfinite(array) & (array >= low) & (array <= high)).all():
            found, expected = "numbers out of range", f"{low} to {high}"
        else:
            continue
        raise InputError(f"bad array {name} in a model file", found=found, expected=expected)


def _check_trees(trees: Forest) -> None:
    """Raise `InputError` unless all paths from a root end in a leaf, as predictions assume."""
    size, n_nodes = trees.size, trees.left.size
    if size.max() > n_nodes or size.sum() != n_nodes:
        raise InputError("bad tree sizes in a model file", expected=f"a sum of {n_nodes}")
    left, right = trees.left, trees.right
    start = np.repeat(np.cumsum(size) - size, size)
    node, end = np.arange(n_nodes) - start, np.repeat(size, size)
    # Paths have no cycles if all children come after their parents.
    is_inner = (left > node) & (left < end) & (right > node) & (right < end)
    bad = np.flatnonzero(~(is_inner | ((left == -1) & (right == -1))))
    if bad.size:
        raise InputError(f"bad tree node {bad[0]} in a model file")


def _check_forecasts(model: FittedModel) -> None:
    """Raise `InputError` if predictions or intervals of the model are out of range."""
    max_target = _MAX_TIME if model.relative_ is None else _MAX_LOG
    max_score = _MAX_LOG if model.log_ else _MAX_TIME
    # Compare with the quotient, because a product of the values and the scale could overflow.
    max_value = (max_target + abs(model.target_shift_)) / model.target_scale_
    values = model.trees_.value
    is_absurd = np.abs(values).max() > max_value
    if model.log_ and model.relative_ is None:
        # Times of 0 or less have no logarithm.
        is_absurd |= values.min() * model.target_scale_ <= -model.target_shift_
    if model.relative_ is not None:
        is_absurd |= model.relative_.constant == 0 and model.relative_.slope == 0
    if model.calibration_ is not None:
        floor, residuals, common, deviations = (
            float(np.abs(getattr(model.calibration_, name)).max()) for name in _CALIBRATION
        )
        is_absurd |= max(residuals, common + deviations) > _MAX_RESIDUAL * max_score / floor
    if is_absurd:
        expected = f"at most {max_target:g}, and with residuals {_MAX_RESIDUAL * max_score:g}"
        raise InputError("absurd predictions in a model file", expected=expected)
