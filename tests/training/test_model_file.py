from __future__ import annotations

import io
import json
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import skops.io
from sklearn.ensemble import ExtraTreesRegressor

from toruscast.errors import InputError
from toruscast.training import TimePredictor, load_predictor, save_predictor
from toruscast.training.predictor import model_file


def fitted(**changes) -> TimePredictor:
    rng = np.random.default_rng(1)
    table = pd.DataFrame(rng.random((30, 3)), columns=["a", "b", "lower_bound"])
    y = table["lower_bound"] * (1 + table["a"])
    return TimePredictor(**{"n_estimators": 12, "calibration_folds": 3} | changes).fit(table, y)


TABLE = pd.DataFrame(np.random.default_rng(2).random((9, 3)), columns=["a", "b", "lower_bound"])


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "model.skops"


def test_a_saved_correction_forecasts_the_same(path):
    table = TABLE.assign(sketch_time=1.5 * TABLE["lower_bound"])
    model = TimePredictor(["a", "b"], "correction", n_estimators=5, calibration_folds=2)
    model.fit(table, table["sketch_time"] * (1 + table["a"]))
    save_predictor(model, path)
    loaded = load_predictor(path)
    assert loaded.required_columns == ("a", "b", "lower_bound", "sketch_time")
    assert (loaded.predict_interval(table) == model.predict_interval(table)).all()


def test_a_target_that_is_not_known_is_refused(path):
    model = fitted(calibration_folds=0)
    model.target = "corrected"
    save_predictor(model, path)
    with pytest.raises(InputError, match="unknown target in a model file: found corrected"):
        load_predictor(path)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"target": "slowdown", "features": ["b", "a"]},
        {"features": ["a", "b"], "max_leaf_nodes": 5},
        {"min_samples_leaf": 15},
        {"n_estimators": 1},
    ],
)
def test_a_saved_model_forecasts_the_same(path, changes):
    model = fitted(**changes)
    save_predictor(model, path, {"command": "test"})
    loaded = load_predictor(path)
    assert (loaded.predict(TABLE) == model.predict(TABLE)).all()
    assert (loaded.predict_interval(TABLE) == model.predict_interval(TABLE)).all()
    assert (loaded.probability_of_best(TABLE) == model.probability_of_best(TABLE)).all()
    assert (loaded.feature_importances_ == model.feature_importances_).all()
    assert loaded.required_columns == model.required_columns
    assert loaded.get_params() == model.get_params()
    assert loaded.n_samples_ == 30
    assert (loaded.feature_least_ == model.feature_least_).all()
    assert (loaded.feature_most_ == model.feature_most_).all()
    assert loaded.provenance_["command"] == "test"
    assert set(loaded.provenance_) == {"command", "toruscast", "scikit_learn"}
    assert [file.name for file in path.parent.iterdir()] == ["model.skops"]


def test_a_loaded_model_saves_again_and_fits_again(path):
    save_predictor(fitted(), path)
    loaded = load_predictor(path)
    save_predictor(loaded, path)
    again = load_predictor(path)
    assert (again.predict(TABLE) == loaded.predict(TABLE)).all()
    again.fit(TABLE, TABLE["a"] + 1)
    assert again.predict(TABLE) == pytest.approx(TABLE["a"] + 1)


NAMES = ("metadata", "arrays", "trees")


def test_models_without_names_or_calibration(path):
    X = np.random.default_rng(3).random((10, 2))
    model = TimePredictor(n_estimators=5, calibration_folds=0).fit(X, X[:, 0])
    save_predictor(model, path)
    loaded = load_predictor(path)
    assert loaded.required_columns == ()
    assert (loaded.predict(X) == model.predict(X)).all()
    with pytest.raises(InputError, match="without calibration"):
        loaded.draw(X)


def test_the_file_holds_what_skops_reads_too(path):
    save_predictor(fitted(), path)
    assert skops.io.get_untrusted_types(file=path) == []
    theirs, ours = skops.io.load(path), dict(zip(NAMES, model_file._content(path), strict=True))
    assert json.loads(theirs.pop("metadata")) == ours.pop("metadata")
    for part, arrays in theirs.items():
        assert set(arrays) == set(ours[part])
        for name, array in arrays.items():
            np.testing.assert_array_equal(array, ours[part][name], strict=True)


def test_provenance_must_be_json(path):
    with pytest.raises(InputError, match="provenance"):
        save_predictor(fitted(), path, {"x": object()})
    assert not path.exists()


def zipped(**files: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name.replace("_json", ".json"), text)
    return buffer.getvalue()


class Bomb:
    """Fails the test if it is ever unpickled."""

    def __reduce__(self):
        return (pytest.fail, ("code ran",))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a model file"),
        (b"a,b\n1,2\n", "not a model file"),
        (pickle.dumps(Bomb()), "not a model file"),
        (bytes(range(256)) * 40, "not a model file"),
        (zipped(readme="hello"), "not a model file"),
        (zipped(schema_json="not json"), "damaged model file"),
        (zipped(schema_json="[" * 100_000), "damaged model file"),
        (zipped(schema_json="{}"), "damaged model file"),
        (skops.io.dumps({"a": "1"}), "not a toruscast model"),
        (skops.io.dumps("a"), "not a toruscast model"),
        (skops.io.dumps(["a"]), "not allowed.*found builtins.list"),
        (skops.io.dumps(ExtraTreesRegressor()), "not allowed.*ExtraTreesRegressor"),
        (skops.io.dumps({"metadata": np.sum}), "not allowed.*found numpy"),
        (
            skops.io.dumps({"metadata": "{}", "arrays": {}, "trees": {}}),
            "not a toruscast model",
        ),
    ],
)
def test_hostile_files_are_refused_in_one_line(path, content, message):
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        load_predictor(path)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(str(path))


def test_types_are_refused_before_anything_is_imported(path):
    evil = {"__class__": "system", "__module__": "os", "__loader__": "FunctionNode", "content": {}}
    path.write_bytes(zipped(schema_json=json.dumps(evil)))
    with pytest.raises(InputError, match=r"type not allowed.*found os\.system"):
        load_predictor(path)


def test_a_file_that_unpacks_to_too_much_is_refused(path, monkeypatch):
    path.write_bytes(zipped(schema_json=" " * 5_000_000))
    assert path.stat().st_size < 100_000
    monkeypatch.setattr(model_file, "MAX_BYTES", 1_000_000)
    with pytest.raises(InputError, match="too large"):
        load_predictor(path)


def test_truncated_files_are_refused(path):
    save_predictor(fitted(), path)
    whole = path.read_bytes()
    for share in (0.1, 0.5, 0.9, 0.999):
        path.write_bytes(whole[: int(share * len(whole))])
        with pytest.raises(InputError, match="model file"):
            load_predictor(path)


def test_missing_files_and_folders(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        load_predictor(tmp_path / "none.skops")
    with pytest.raises(InputError, match="folder in place of a file"):
        load_predictor(tmp_path)
    with pytest.raises(InputError):
        save_predictor(fitted(), tmp_path / "no" / "model.skops")


def altered(path: Path, change) -> None:
    """Save a model with its content changed by ``change``."""
    save_predictor(fitted(), path)
    content = skops.io.load(path)
    metadata = json.loads(content["metadata"])
    change(metadata, content["arrays"], content["trees"])
    content["metadata"] = json.dumps(metadata)
    skops.io.dump(content, path)


def put(name, index, value):
    def change(metadata, arrays, trees):
        part = trees if name in trees else arrays
        part[name][index] = value

    return change


def replace(name, make):
    def change(metadata, arrays, trees):
        part = trees if name in trees else arrays if name in arrays else metadata
        part[name] = make(part[name])

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put("left", 0, 10**6), "tree node 0"),
        (put("left", 0, 0), "tree node 0"),  # a loop
        (put("right", 0, -1), "tree node 0"),
        (put("right", 0, -5), "tree node 0"),
        (put("feature", 0, 3), "tree node 0"),
        (put("feature", 0, -2), "tree node 0"),
        (put("threshold", 0, np.nan), "tree node 0"),
        (put("value", -1, np.inf), "tree node"),
        (put("size", 0, 10**9), "tree sizes"),
        (put("size", 0, -1), "tree sizes"),
        (replace("left", lambda a: a[:-1]), "tree sizes|differ in length"),
        (replace("value", lambda a: a[:-1]), "differ in length"),
        (replace("value", lambda a: a.astype("f4")), "bad array value"),
        (replace("value", lambda a: a.reshape(1, -1)), "bad array value"),
        (replace("value", lambda a: "none"), "bad array value"),
        (replace("feature_shift", lambda a: a[:-1]), "bad array feature_shift"),
        (put("feature_scale", 0, np.nan), "bad array feature_scale"),
        (replace("feature_most", lambda a: a[:-1]), "bad array feature_most"),
        (replace("calibration_misses", lambda a: a[:0]), "empty calibration"),
        (replace("version", lambda v: 1), "version of model file: found 1, expected 3"),
        (replace("format", lambda v: "x"), "not a toruscast model"),
        (replace("features", lambda v: ["a"]), "bad feature names"),
        (replace("parameters", lambda v: {"evil": 1}), "damaged model file"),
        (replace("n_features", lambda v: "many"), "damaged model file"),
    ],
)
def test_altered_models_are_refused(path, change, message):
    altered(path, change)
    with pytest.raises(InputError, match=message):
        load_predictor(path)


def test_parameters_may_be_numbers_of_numpy(tmp_path):
    model = TimePredictor(n_estimators=np.int64(10), random_state=np.int64(3))
    model.fit(np.eye(6), np.arange(1.0, 7.0))
    save_predictor(model, tmp_path / "m.skops")
    again = load_predictor(tmp_path / "m.skops")
    assert (again.n_estimators, again.random_state) == (10, 3)
