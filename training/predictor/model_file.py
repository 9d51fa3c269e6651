"""Predictors on disk, in files that run no code when opened."""

from __future__ import annotations

import io
import json
import os
import time
import zipfile
from collections.abc import Iterable
from dataclasses import fields
from importlib import resources
from pathlib import Path
from typing import Any, get_args

import numpy as np
import sklearn
from sklearn.utils.validation import check_is_fitted

import toruscast
from toruscast.errors import InputError
from toruscast.features import FEATURES
from toruscast.files import note_read, read_limited
from toruscast.mapping.formats import atomic_path
from toruscast.training.samples._keys import changed_since, mark_of

from ._calibration import Calibration
from ._forest_arrays import forest_from_arrays, forest_to_arrays
from ._relative import Line, Relative
from .feature_sets import Target
from .predictor import TimePredictor

FORMAT = "toruscast predictor"
VERSION = 3
_SINCE = {
    1: "models keep what their times are relative to",
    2: "models keep the least and most value of each feature",
}
"""What newer versions hold that files of these lack."""
MAX_BYTES = 256 * 2**20
"""Most bytes that a model file may unpack to."""

_NODES = {
    ("builtins.dict", "DictNode"),
    ("builtins.str", "JsonNode"),
    ("numpy.ndarray", "NdArrayNode"),
}
"""The only types that a model file may hold, and what they are called in its schema."""
# Times between e^-60 and e^60 seconds, or units; and misses in multiples of the trees' spread.
_MOST_LOG = 60.0
_MOST_TIME = 1e12
_MOST_MISS = 1e9
_PARAMETERS = (
    "features",
    "target",
    "reference",
    "n_estimators",
    "min_samples_leaf",
    "max_leaf_nodes",
    "calibration_folds",
)


def save_predictor(
    model: TimePredictor,
    path: str | os.PathLike[str],
    provenance: dict[str, Any] | None = None,
) -> None:
    """Write a fitted predictor to a skops file, whole or not at all.

    The file holds numbers and text only: the nodes of the trees, the calibration, and as metadata
    the versions of toruscast and scikit-learn, the features, the number of samples and
    ``provenance`` (anything that JSON can hold).

    Raises
    ------
    InputError
        If the file cannot be written or ``provenance`` not be stored.

    Examples
    --------
    >>> import tempfile
    >>> model = TimePredictor(n_estimators=10).fit(np.eye(6), np.arange(1.0, 7.0))
    >>> path = Path(tempfile.mkdtemp()) / "model.skops"
    >>> save_predictor(model, path, provenance={"command": "by hand"})
    >>> bool((load_predictor(path).predict(np.eye(6)) == model.predict(np.eye(6))).all())
    True
    """
    import skops.io

    check_is_fitted(model, "forest_")
    names = getattr(model, "feature_names_in_", None)
    parameters = {name: getattr(model, name) for name in _PARAMETERS}
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
        "scikit_learn": sklearn.__version__,
        "parameters": parameters | {"random_state": seed if isinstance(seed, int) else None},
        "features": None if names is None else [str(name) for name in names],
        "marks": _marks(names),
        "n_features": int(model.n_features_in_),
        "n_samples": int(model.n_samples_),
        "log": bool(model.log_),
        "bounded": bool(model.bounded_),
        "provenance": provenance or dict(getattr(model, "provenance_", {})),
    }
    try:
        text = json.dumps(metadata)
    except (TypeError, ValueError) as error:
        raise InputError("provenance cannot be stored", found=error, expected="JSON") from None
    arrays = {
        "feature_shift": model.feature_shift_,
        "feature_scale": model.feature_scale_,
        "target_shift": np.array([model.target_shift_]),
        "target_scale": np.array([model.target_scale_]),
        "importances": model.feature_importances_,
        "feature_least": model.feature_least_,
        "feature_most": model.feature_most_,
    }
    if model.relative_ is not None:
        arrays["relative"] = np.array(model.relative_[-2:])
    if model.calibration_ is not None:
        for item in fields(Calibration):
            values = np.atleast_1d(getattr(model.calibration_, item.name))
            arrays[f"calibration_{item.name}"] = values.astype(np.float64)
    content = {"metadata": text, "arrays": arrays, "trees": forest_to_arrays(model.forest_)}
    with atomic_path(path) as temporary:
        skops.io.dump(content, temporary, compression=zipfile.ZIP_DEFLATED)


def load_predictor(path: str | os.PathLike[str] = "default") -> TimePredictor:
    """Read a predictor; ``"default"`` is the one that comes with toruscast.

    Nothing in the file is executed or imported: it holds texts and arrays of numbers, anything else
    is refused, and every tree node is checked. Files of other scikit-learn versions load, as they
    hold no object of scikit-learn; those of another layout of this file do not.

    Returns
    -------
    TimePredictor
        Ready to forecast; ``provenance_`` tells what it learned from, and with which versions.

    Raises
    ------
    InputError
        If the file is missing, damaged, too large, of another kind, or holds a type not allowed.
    """
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
    file = Path(str(resources.files("toruscast.datasets") / "default.skops"))
    if not file.is_file():
        raise InputError(
            "this installation has no default model", expected="a path to a model file"
        )
    return file


def _content(file: Path) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Return metadata, arrays and trees of a file.

    They are read without skops: its import takes .8 s, a quarter of a ranking.
    """
    data = read_limited(file, MAX_BYTES)
    if not zipfile.is_zipfile(io.BytesIO(data)):
        raise InputError("not a model file", expected="a skops file")
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        if sum(entry.file_size for entry in archive.infolist()) > MAX_BYTES:
            raise InputError("model file too large", expected=f"at most {MAX_BYTES} bytes unpacked")
        if "schema.json" not in archive.namelist():
            raise InputError("not a model file", expected="a skops file")
        content = _value(json.loads(archive.read("schema.json")), archive)
    if not isinstance(content, dict) or set(content) != {"metadata", "arrays", "trees"}:
        raise InputError("not a toruscast model", expected=f"a {FORMAT}")
    metadata = json.loads(content["metadata"])
    if metadata.get("format") != FORMAT:
        raise InputError("not a toruscast model", expected=f"a {FORMAT}")
    if metadata["version"] != VERSION:
        raise _other_version(metadata["version"], metadata.get("toruscast"))
    _check_marks(metadata)
    return metadata, content["arrays"], content["trees"]


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


def _value(node: dict[str, Any], archive: zipfile.ZipFile) -> Any:
    """Return what a node of a skops schema describes: a dict, a text or an array."""
    kind, loader = f"{node['__module__']}.{node['__class__']}", node["__loader__"]
    if (kind, loader) not in _NODES:
        raise InputError("type not allowed in a model file", found=f"{kind} ({loader})")
    if loader == "DictNode":
        return {key: _value(value, archive) for key, value in node["content"].items()}
    if loader == "JsonNode":
        return json.loads(node["content"])
    return np.load(io.BytesIO(archive.read(node["file"])), allow_pickle=False)


def _restore(
    metadata: dict[str, Any], arrays: dict[str, Any], trees: dict[str, Any]
) -> TimePredictor:
    """Return the predictor of checked content."""
    model = TimePredictor(**metadata["parameters"])
    if model.target not in get_args(Target):
        raise InputError("unknown target in a model file", found=model.target)
    n_features = int(metadata["n_features"])
    names = metadata["features"]
    if names is not None:
        if len(names) != n_features or not all(isinstance(name, str) for name in names):
            raise InputError("bad feature names in a model file", expected=n_features)
        model.feature_names_in_ = np.array(names, dtype=object)
    numbers = {name: _finite(name, array) for name, array in arrays.items()}
    for name in ("feature_shift", "feature_scale", "importances", "feature_least", "feature_most"):
        if numbers[name].size != n_features:
            raise InputError(f"bad array {name} in a model file", expected=f"{n_features} values")
    model.n_features_in_ = n_features
    model.n_samples_ = int(metadata["n_samples"])
    model.log_ = bool(metadata["log"])
    model.bounded_ = bool(metadata["bounded"])
    model.feature_shift_ = numbers["feature_shift"]
    model.feature_scale_ = numbers["feature_scale"]
    model.target_shift_ = numbers["target_shift"].item()
    model.target_scale_ = numbers["target_scale"].item()
    model.feature_importances_ = numbers["importances"]
    model.feature_least_, model.feature_most_ = numbers["feature_least"], numbers["feature_most"]
    model.relative_ = None
    if model.target != "time":
        model.relative_ = _relative(model.target, numbers["relative"].tolist())
    model.forest_ = forest_from_arrays(trees, n_features)
    model.calibration_ = None
    if "calibration_floor" in numbers:
        parts = {item.name: numbers[f"calibration_{item.name}"] for item in fields(Calibration)}
        if not all(part.size for part in parts.values()):
            raise InputError("empty calibration in a model file")
        floor = parts.pop("floor").item()
        model.calibration_ = Calibration(floor, **parts)
    versions = {name: str(metadata[name]) for name in ("toruscast", "scikit_learn")}
    model.provenance_ = versions | dict(metadata["provenance"])
    _check_ranges(model, trees["value"])
    return model


def _check_ranges(model: TimePredictor, values: np.ndarray[Any, np.dtype[np.float64]]) -> None:
    """Raise where numbers are finite but no fit gives them: forecasts would be absurd."""
    scales = (*model.feature_scale_, model.target_scale_)
    if min(scales) <= 0 or min(model.feature_importances_, default=0) < 0:
        raise InputError("negative scale in a model file", expected="scales above 0")
    limit = _MOST_LOG if model.log_ else _MOST_TIME
    # Divided first: the product itself may be beyond all numbers.
    most = (limit + abs(model.target_shift_)) / model.target_scale_
    if abs(model.target_shift_) > limit or np.abs(values).max() > most:
        raise InputError("absurd forecasts in a model file", expected=f"within {limit:g}")
    if model.calibration_ is not None:
        known = model.calibration_
        parts = (known.misses, known.common, known.deviations)
        if known.floor < 0 or max(float(np.abs(part).max()) for part in parts) > _MOST_MISS:
            raise InputError(
                "absurd calibration in a model file", expected=f"within {_MOST_MISS:g}"
            )


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


def _finite(name: str, array: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return an array of a model file, if it holds finite numbers in one dimension."""
    if (
        not isinstance(array, np.ndarray)
        or array.dtype != np.float64
        or array.ndim != 1
        or not np.isfinite(array).all()
    ):
        raise InputError(f"bad array {name} in a model file", expected="finite numbers")
    return array
