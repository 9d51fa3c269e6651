"""Predictors on disk, in files that run no code when opened."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Iterable
from dataclasses import fields
from importlib import resources
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import toruscast
from toruscast.atomic import atomic_path
from toruscast.errors import InputError
from toruscast.features import FEATURES
from toruscast.files import arrays_of_npz, note_read, read_limited
from toruscast.routing import Routing
from toruscast.training.samples._keys import changed_since, mark_of
from toruscast.validation import one_of, whole_number

from ._calibration import ResidualCalibration
from ._forest import FOREST_ARRAYS, Forest
from ._relative import Line, Relative
from .checks import check_parameters
from .feature_sets import Target, feature_set
from .fitted import FittedModel
from .unlearned import Residuals

if TYPE_CHECKING:
    from .predictor import TimePredictor

FORMAT = "toruscast predictor"
VERSION = 4
_SINCE = {
    1: "models keep what their times are relative to",
    2: "models keep the least and most value of each feature",
    3: "models are NumPy arrays in an .npz file",
}
"""What newer versions hold that files of these lack."""
MAX_BYTES = 256 * 2**20
"""Most bytes that a model file may unpack to."""
# Trees are packed to a half; a small file must not fill the memory.
_LEAST_LIMIT, _MAX_RATIO = 2**25, 20
_MAX_TEXT = 2**20
_MAX_FEATURES = 10_000

_FEATURE_ARRAYS = ("feature_shift", "feature_scale", "feature_least", "feature_most", "importances")
_LEARNED = dict.fromkeys((*_FEATURE_ARRAYS, "target_shift", "target_scale"), "f8")
# In the order of the fields of `ResidualCalibration`.
_CALIBRATION = {
    f"calibration_{name}": "f8" for name in ("floor", "residuals", "common", "deviations")
}
# Times between e^-60 and e^60 seconds, or units.
_MOST_LOG = 60.0
_MOST_TIME = 1e12
# Products and quotients of values of features are numbers.
_MOST_FEATURE = 1e100
_ZIP = b"PK\x03\x04"
# A member of the files of earlier versions, and where its name stands.
_OLD_MEMBER, _DIRECTORY = b"schema.json", 2**16
# Mappings that a model is tried on when it is read.
_PROBES = 32


def save_predictor(
    model: FittedModel,
    path: str | os.PathLike[str],
    provenance: dict[str, Any] | None = None,
) -> None:
    """Write a fitted predictor to an ``.npz`` file, whole or not at all.

    The file holds arrays of numbers, which `numpy.load` reads without pickles: the nodes of the
    trees and the calibration. The array ``metadata`` is a JSON text: the versions of toruscast and
    scikit-learn, the features, the number of samples and ``provenance`` (anything that JSON can
    hold).

    Raises
    ------
    InputError
        If the file cannot be written, ``provenance`` not be stored, or the model is too large to be
        read again.

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
        raise InputError("a model that is not fitted", expected="one that has learned (fit)")
    names = getattr(model, "feature_names_in_", None)
    parameters = {name: getattr(model, name) for name in model.PARAMETERS}
    # NumPy's numbers are none of JSON's.
    parameters |= {k: v.item() for k, v in parameters.items() if isinstance(v, np.generic)}
    if parameters["features"] is not None and not isinstance(parameters["features"], str):
        parameters["features"] = list(parameters["features"])
    seed = model.random_state
    seed = int(seed) if isinstance(seed, np.integer) else seed
    metadata = {
        "format": FORMAT,
        "version": VERSION,
        "toruscast": toruscast.__version__,
        "scikit_learn": version("scikit-learn"),
        "parameters": parameters | {"random_state": seed if isinstance(seed, int) else None},
        "features": None if names is None else [str(name) for name in names],
        "marks": _marks(names),
        "n_features": int(model.n_features_in_),
        "n_samples": int(model.n_samples_),
        "log": bool(model.log_),
        "bounded": bool(model.bounded_),
        "by_kind": {kind: known.to_json() for kind, known in model.by_kind_.items()},
        "provenance": provenance or dict(getattr(model, "provenance_", {})),
    }
    try:
        text = json.dumps(metadata)
    except (TypeError, ValueError) as error:
        raise InputError("provenance cannot be stored", found=error, expected="JSON") from None
    arrays: dict[str, Any] = {
        "metadata": np.array(text),
        "feature_shift": model.feature_shift_,
        "feature_scale": model.feature_scale_,
        "feature_least": model.feature_least_,
        "feature_most": model.feature_most_,
        "target_shift": np.array([model.target_shift_]),
        "target_scale": np.array([model.target_scale_]),
        "importances": model.feature_importances_,
        **model.trees_.to_arrays(),
    }
    if model.relative_ is not None:
        arrays["relative"] = np.array(model.relative_[-2:])
    if model.calibration_ is not None:
        for name, item in zip(_CALIBRATION, fields(ResidualCalibration), strict=True):
            values = np.atleast_1d(getattr(model.calibration_, item.name))
            arrays[name] = values.astype(np.float64)
    size = sum(array.nbytes for array in arrays.values())
    if size > MAX_BYTES or len(text) > _MAX_TEXT:
        expected = f"at most {MAX_BYTES}; fewer trees (n_estimators) or leaves (max_leaf_nodes)"
        raise InputError("model too large for a file", found=f"{size} bytes", expected=expected)
    with atomic_path(path) as temporary, temporary.open("wb") as stream:
        np.savez_compressed(stream, **arrays)


def load_predictor(path: str | os.PathLike[str] = "default") -> TimePredictor:
    """Read a predictor; ``"default"`` is the one that comes with toruscast.

    Nothing in the file is executed or imported: it holds a text and arrays of numbers, anything
    else is refused, every tree node is checked and the model tried on a few mappings. Files of
    other scikit-learn versions load, as they hold no object of scikit-learn; those of another
    layout of this file do not.

    Returns
    -------
    TimePredictor
        Ready to forecast; ``provenance_`` tells what it learned from, and with which versions.

    Raises
    ------
    InputError
        If the file is missing, damaged, too large, of another kind, or its forecasts are absurd.
    """
    from .predictor import TimePredictor

    return TimePredictor.of(load_fitted(path))


def load_fitted(path: str | os.PathLike[str] = "default") -> FittedModel:
    """Read what `load_predictor` does, without scikit-learn, which takes a second to start."""
    began = time.perf_counter()
    file = _default_file() if path == "default" else Path(path)
    try:
        model = _restore(*_content(file))
        note_read("model", file, began, samples=model.n_samples_)
        return model
    except InputError as error:
        raise error.replace(file=file) from None
    except OSError as error:
        raise InputError("cannot be read", file=file, found=error.strerror or error) from None
    # Damage can show as nearly any error in the libraries underneath.
    except (Exception, MemoryError, RecursionError) as error:
        raise InputError("damaged model file", file=file, found=type(error).__name__) from None


def _marks(names: Iterable[str] | None) -> dict[str, str]:
    """The fingerprints of features whose names alone do not tell their values."""
    known = [FEATURES[name] for name in (() if names is None else names) if name in FEATURES]
    return {feature.name: mark_of(feature) for feature in known if mark_of(feature) != feature.name}


def _default_file() -> Path:
    file = Path(str(resources.files("toruscast.datasets") / "default.npz"))
    if not file.is_file():
        raise InputError(
            "this installation has no default model", expected="a path to a model file"
        )
    return file


def _content(file: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return metadata and the other arrays of a file."""
    data = read_limited(file, MAX_BYTES)
    if not data.startswith(_ZIP):
        raise InputError("not a model file", expected="an .npz file of toruscast train")
    most = min(MAX_BYTES, max(_LEAST_LIMIT, _MAX_RATIO * len(data)))
    if _OLD_MEMBER in data[-_DIRECTORY:]:
        raise _other_version(3, None)
    arrays = arrays_of_npz(data, file, most)
    text = arrays.pop("metadata", np.array(0))
    if text.dtype.kind != "U" or text.ndim or text.nbytes > 4 * _MAX_TEXT:
        raise InputError("not a toruscast model", expected=f"a {FORMAT} (toruscast train)")
    metadata = json.loads(text.item())
    if not isinstance(metadata, dict) or metadata.get("format") != FORMAT:
        raise InputError("not a toruscast model", expected=f"a {FORMAT} (toruscast train)")
    if metadata["version"] != VERSION:
        raise _other_version(metadata["version"], metadata.get("toruscast"))
    _check_marks(metadata)
    return metadata, arrays


def _other_version(found: object, program: object) -> InputError:
    """What to say of a file of another layout."""
    if isinstance(found, int) and found > VERSION:
        return InputError(
            "model file of a newer toruscast",
            found=f"version {found}, written by {program}",
            expected=f"version {VERSION}; a newer toruscast reads it",
        )
    since = _SINCE.get(found) if isinstance(found, int) else None
    return InputError(
        "other version of model file",
        found=found,
        expected=f"{VERSION}; train it anew (toruscast train)"
        + (f": since version {found + 1} {since}" if since and isinstance(found, int) else ""),
    )


def _check_marks(metadata: dict[str, Any]) -> None:
    """Raise where a feature has other values under its name today than the model has learned."""
    changed = changed_since(metadata["features"] or (), dict(metadata.get("marks", {})))
    if changed:
        raise InputError(
            "features that were changed since the model learned",
            found=", ".join(changed),
            expected="a model trained anew (toruscast train)",
        )


def _restore(metadata: dict[str, Any], arrays: dict[str, Any]) -> FittedModel:
    """Return the model of a file."""
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
    _check_arrays(arrays, metadata, n_features)
    model.n_features_in_ = n_features
    model.n_samples_ = whole_number(metadata["n_samples"], "number of samples", 1, 2**53)
    model.log_ = bool(metadata["log"])
    model.bounded_ = bool(metadata["bounded"])
    model.feature_shift_, model.feature_scale_ = arrays["feature_shift"], arrays["feature_scale"]
    model.target_shift_ = arrays["target_shift"].item()
    model.target_scale_ = arrays["target_scale"].item()
    model.feature_importances_ = arrays["importances"]
    model.feature_least_, model.feature_most_ = arrays["feature_least"], arrays["feature_most"]
    model.relative_ = None
    if model.target != "time":
        model.relative_ = _relative(model.target, arrays["relative"].tolist())
    model.trees_ = Forest.from_arrays(arrays, n_features)
    model.calibration_ = None
    if "calibration_floor" in arrays:
        floor, *parts = (arrays[name] for name in _CALIBRATION)
        model.calibration_ = ResidualCalibration(floor.item(), *parts)
    known = metadata.get("by_kind", {})
    model.by_kind_ = {str(kind): Residuals.from_json(each) for kind, each in known.items()}
    versions = {name: str(metadata[name]) for name in ("toruscast", "scikit_learn")}
    model.provenance_ = versions | dict(metadata["provenance"])
    learned: Any = model.provenance_.get("routing", ())
    for routing in [learned] if isinstance(learned, str) else learned:
        one_of(routing, "routing", get_args(Routing))
    _check_ranges(model, arrays["tree_value"])
    return model


def _check_arrays(arrays: dict[str, Any], metadata: dict[str, Any], n_features: int) -> None:
    """Raise unless these are the arrays that a model of such metadata has, of finite numbers."""
    is_relative = metadata["parameters"].get("target", "time") != "time"
    kinds = _LEARNED | FOREST_ARRAYS | ({"relative": "f8"} if is_relative else {})
    if set(arrays) & set(_CALIBRATION):
        kinds |= _CALIBRATION
    for name in sorted(set(arrays) ^ set(kinds)):
        found = "is missing from" if name in kinds else "is not known in"
        raise InputError(f"array {name[:60]} {found} a model file")
    single = ("target_shift", "target_scale", "calibration_floor")
    for name, kind in kinds.items():
        array = arrays[name]
        size = 1 if name in single else n_features if name in _FEATURE_ARRAYS else None
        if (
            array.dtype != np.dtype(kind)
            or array.ndim != 1
            or not array.size
            or size not in (None, array.size)
            # Numbers of nodes are named by the check of the trees.
            or not (name in FOREST_ARRAYS or np.isfinite(array).all())
        ):
            count = "some" if size is None else size
            expected = f"{count} finite {'number' if size == 1 else 'numbers'}, {np.dtype(kind)}"
            raise InputError(f"bad array {name} in a model file", expected=expected)


def _check_ranges(model: FittedModel, values: NDArray[np.float64]) -> None:
    """Raise where numbers are finite but no fit gives them: forecasts would be absurd."""
    scales = (*model.feature_scale_, model.target_scale_)
    if min(scales) <= 0 or min(model.feature_importances_) < 0:
        raise InputError("negative scale in a model file", expected="scales above 0")
    sizes = np.abs([model.feature_shift_, model.feature_least_, model.feature_most_])
    if max(sizes.max(), *scales) > _MOST_FEATURE or min(scales) < 1 / _MOST_FEATURE:
        raise InputError("absurd features in a model file", expected=f"up to {_MOST_FEATURE:g}")
    limit = _MOST_TIME if model.relative_ is None else _MOST_LOG
    # Divided first: the product itself may be beyond all numbers.
    most = (limit + abs(model.target_shift_)) / model.target_scale_
    if abs(model.target_shift_) > limit or np.abs(values).max() > most:
        raise InputError("absurd forecasts in a model file", expected=f"within {limit:g}")
    with np.errstate(all="ignore"):
        times, surprising = _probed(model)
    # Of times that were learned as they are, intervals may end below zero.
    least = -math.inf if model.relative_ is None and not model.log_ else 0.0
    if not (
        np.isfinite(surprising).all()
        and (least <= times).all()
        and (np.abs(times) <= math.exp(_MOST_LOG)).all()
    ):
        raise InputError(
            "absurd forecasts in a model file",
            expected=f"finite times and intervals, up to {math.exp(_MOST_LOG):.0e} s",
        )


def _probed(model: FittedModel) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return times and 90 % intervals of mappings like those learned from, and what may surprise.

    The latter are the times that the largest residuals would give.
    """
    least, most = model.feature_least_, model.feature_most_
    shares = np.random.default_rng(0).random((_PROBES, least.size))
    rows = [least, most, model.feature_shift_, *(least * (1 - shares) + most * shares)]
    probe: pd.DataFrame | NDArray[np.float64] = np.array(rows)
    if model.required_columns:
        probe = pd.DataFrame(probe, columns=model.feature_names_in_)
        probe = probe.assign(**{name: 1.0 for name in model.required_columns if name not in probe})
    prior = model.prior_prediction(probe)
    times = prior.times()
    known = model.calibration_
    if known is None:
        return times, times
    half, most = known.quantile(0.9), np.abs(known.residuals).max()
    most = max(most, np.abs(known.common).max() + np.abs(known.deviations).max())
    ends = [
        prior.times(prior.centre + factor * prior.width) for factor in (-half, half, -most, most)
    ]
    return np.array([times, *ends[:2]]), np.array(ends[2:])


def _relative(target: Target, numbers: list[float]) -> Relative | Line:
    """What the times of a model are relative to, from two numbers of its file."""
    if target == "measured":
        if len(numbers) != 2 or not min(numbers) >= 0 < max(numbers) < _MOST_TIME:
            expected = "a constant and a slope, none negative"
            raise InputError("bad array relative in a model file", expected=expected)
        return Line(*numbers)
    if len(numbers) != 2 or not 0 <= numbers[1] <= 1:
        raise InputError("bad array relative in a model file", expected="a factor and a power")
    if abs(numbers[0]) > _MOST_LOG:
        expected = f"a logarithm within {_MOST_LOG:g}"
        raise InputError("absurd factor in a model file", expected=expected)
    return Relative(target, *numbers)
