from __future__ import annotations

import io
import json
import pickle
import tracemalloc
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from toruscast.errors import InputError
from toruscast.formats import read_comm
from toruscast.training import TimePredictor, load_predictor, model_file, save_predictor


def fitted(**changes) -> TimePredictor:
    rng = np.random.default_rng(1)
    table = pd.DataFrame(rng.random((30, 3)), columns=["a", "b", "lower_bound"])
    y = table["lower_bound"] * (1 + table["a"])
    return TimePredictor(**{"n_estimators": 12, "calibration_folds": 3} | changes).fit(table, y)


TABLE = pd.DataFrame(np.random.default_rng(2).random((9, 3)), columns=["a", "b", "lower_bound"])


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "model.npz"


def test_a_saved_correction_forecasts_the_same(path):
    table = TABLE.assign(coarse_time=1.5 * TABLE["lower_bound"])
    model = TimePredictor(["a", "b"], "correction", n_estimators=5, calibration_folds=2)
    model.fit(table, table["coarse_time"] * (1 + table["a"]))
    save_predictor(model, path)
    loaded = load_predictor(path)
    assert loaded.required_columns == ("a", "b", "lower_bound", "coarse_time")
    assert (loaded.predict_interval(table) == model.predict_interval(table)).all()


def test_a_target_that_is_not_known_is_refused(path):
    model = fitted(calibration_folds=0)
    model.target = "corrected"
    save_predictor(model, path)
    with pytest.raises(InputError, match="bad target: found corrected"):
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
    assert (loaded.draw(TABLE) == model.draw(TABLE)).all()
    assert (loaded.feature_importances_ == model.feature_importances_).all()
    assert loaded.required_columns == model.required_columns
    assert loaded.get_params() == model.get_params()
    assert loaded.n_samples_ == 30
    assert (loaded.feature_least_ == model.feature_least_).all()
    assert (loaded.feature_most_ == model.feature_most_).all()
    assert loaded.provenance_["command"] == "test"
    assert set(loaded.provenance_) == {"command", "toruscast", "scikit_learn"}
    assert [file.name for file in path.parent.iterdir()] == ["model.npz"]


def test_a_loaded_model_saves_again_and_fits_again(path):
    save_predictor(fitted(), path)
    loaded = load_predictor(path)
    save_predictor(loaded, path)
    again = load_predictor(path)
    assert (again.predict(TABLE) == loaded.predict(TABLE)).all()
    again.fit(TABLE, TABLE["a"] + 1)
    assert again.predict(TABLE) == pytest.approx(TABLE["a"] + 1)


def test_a_model_is_no_graph(path):
    save_predictor(fitted(), path)
    with pytest.raises(InputError, match="unknown arrays"):
        read_comm(path)


def test_models_without_names_or_calibration(path):
    X = np.random.default_rng(3).random((10, 2))
    model = TimePredictor(n_estimators=5, calibration_folds=0).fit(X, X[:, 0])
    save_predictor(model, path)
    loaded = load_predictor(path)
    assert loaded.required_columns == ()
    assert (loaded.predict(X) == model.predict(X)).all()
    with pytest.raises(InputError, match="without calibration"):
        loaded.draw(X)


def test_numpy_reads_the_file_without_pickles(path):
    model = fitted()
    save_predictor(model, path)
    with np.load(path, allow_pickle=False) as file:
        metadata = json.loads(file["metadata"].item())
        assert metadata["features"] == ["a", "b", "lower_bound"]
        assert metadata["n_samples"] == 30
        assert (file["feature_shift"] == model.feature_shift_).all()
        assert file["tree_size"].sum() == file["tree_left"].size
        assert all(file[name].dtype.kind in "if" for name in file if name != "metadata")


def test_a_model_that_could_not_be_read_again_is_not_written(path, monkeypatch):
    monkeypatch.setattr(model_file, "MAX_BYTES", 1000)
    with pytest.raises(InputError, match=r"too large for a file.*fewer trees"):
        save_predictor(fitted(), path)
    assert not path.exists()


def test_provenance_must_be_json(path):
    with pytest.raises(InputError, match="provenance"):
        save_predictor(fitted(), path, {"x": object()})
    assert not path.exists()


def zipped(*members: tuple[str, bytes], packing: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "w", packing) as archive:
        warnings.simplefilter("ignore", UserWarning)  # of names that stand there twice
        for name, content in members:
            archive.writestr(name, content)
    return buffer.getvalue()


def npz(**arrays) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def npy(array, **changes) -> bytes:
    """A .npy file whose header may promise something else than it holds."""
    buffer = io.BytesIO()
    header = np.lib.format.header_data_from_array_1_0(array) | changes
    np.lib.format.write_array_header_1_0(buffer, header)
    return buffer.getvalue() + array.tobytes()


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
        (zipped(("readme", b"hello")), "damaged .npz file"),
        (npz(a=np.zeros(3)), "not a toruscast model"),
        (npz(metadata=np.array(Bomb(), dtype=object)), "damaged .npz file"),
        (npz(metadata=np.array(["{}"])), "not a toruscast model"),
        (npz(metadata=np.array("{}")), "not a toruscast model"),
        (npz(metadata=np.array("[]")), "not a toruscast model"),
        (npz(metadata=np.array("not json")), "damaged model file"),
        (npz(metadata=np.array("[" * 100_000)), "damaged model file"),
        (zipped(("metadata.npy", npy(np.zeros(3), shape=(4,)))), "damaged .npz file"),
        (zipped(("metadata.npy", npy(np.zeros(3), shape=(10**12,)))), "damaged .npz file"),
        (zipped(("metadata.npy", npy(np.zeros(3), descr="|V0"))), "damaged .npz file"),
        (zipped(("a.npy", npy(np.zeros(3))), packing=zipfile.ZIP_LZMA), "unknown compression"),
    ],
)
def test_hostile_files_are_refused_in_one_line(path, content, message):
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        load_predictor(path)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(str(path))


def members_of(path):
    with zipfile.ZipFile(path) as archive:
        return [(name, archive.read(name)) for name in archive.namelist()]


def test_an_array_stands_in_a_file_once(path):
    save_predictor(fitted(), path)
    members = members_of(path)
    path.write_bytes(zipped(*members, *[members[1]] * 60))
    with pytest.raises(InputError, match="array named twice in an archive: found feature_shift"):
        load_predictor(path)


def test_the_sizes_of_an_archive_are_summed_before_it_is_unpacked(path):
    save_predictor(fitted(), path)
    large = npy(np.zeros(2**20))
    path.write_bytes(zipped(*members_of(path), *[(f"a{i}.npy", large) for i in range(60)]))
    assert path.stat().st_size < 1_000_000
    tracemalloc.start()
    with pytest.raises(InputError, match="archive too large"):
        load_predictor(path)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 2**24


def test_an_archive_of_very_many_parts_is_not_opened(path):
    path.write_bytes(zipped(*[(f"a{i}.npy", b"") for i in range(2000)]))
    with pytest.raises(InputError, match="archive of too many parts"):
        load_predictor(path)


def test_truncated_files_are_refused(path):
    save_predictor(fitted(), path)
    whole = path.read_bytes()
    for share in (0.1, 0.5, 0.9, 0.999):
        path.write_bytes(whole[: int(share * len(whole))])
        with pytest.raises(InputError, match=r"damaged \.npz file|not a model file"):
            load_predictor(path)


def test_missing_files_and_folders(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        load_predictor(tmp_path / "none.npz")
    with pytest.raises(InputError, match="folder in place of a file"):
        load_predictor(tmp_path)
    with pytest.raises(InputError):
        save_predictor(fitted(), tmp_path / "no" / "model.npz")


def altered(path: Path, change) -> None:
    """Save a model with its content changed by ``change``."""
    save_predictor(fitted(), path)
    with np.load(path) as file:
        arrays = dict(file)
    metadata = json.loads(arrays.pop("metadata").item())
    change(metadata, arrays)
    np.savez_compressed(path, metadata=np.array(json.dumps(metadata)), **arrays)


def put(name, index, value):
    def change(metadata, arrays):
        arrays[name][index] = value

    return change


def replace(name, make):
    def change(metadata, arrays):
        part = arrays if name in arrays else metadata
        part[name] = make(part[name])

    return change


def parameters(**changes):
    return replace("parameters", lambda known: known | changes)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put("tree_left", 0, 10**6), "tree node 0"),
        (put("tree_left", 0, 0), "tree node 0"),  # a loop
        (put("tree_right", 0, -1), "tree node 0"),
        (put("tree_right", 0, -5), "bad array tree_right"),
        (put("tree_feature", 0, 3), "bad array tree_feature"),
        (put("tree_feature", 0, -2), "bad array tree_feature"),
        (put("tree_threshold", 0, np.nan), "bad array tree_threshold"),
        (put("tree_value", -1, np.inf), "bad array tree_value"),
        (put("tree_size", 0, 10**9), "tree sizes"),
        (put("tree_size", 0, -1), "bad array tree_size"),
        (replace("tree_left", lambda a: a[:-1]), "bad array tree_right"),
        (replace("tree_value", lambda a: a[:-1]), "bad array tree_value"),
        (replace("tree_value", lambda a: a.astype("f4")), "bad array tree_value"),
        (replace("tree_value", lambda a: a.reshape(1, -1)), "bad array tree_value"),
        (replace("tree_value", lambda a: "none"), "bad array tree_value"),
        (replace("feature_shift", lambda a: a[:-1]), "bad array feature_shift"),
        (put("feature_scale", 0, np.nan), "bad array feature_scale"),
        (replace("feature_most", lambda a: a[:-1]), "bad array feature_most"),
        (replace("calibration_residuals", lambda a: a[:0]), "bad array calibration_residuals"),
        (lambda _, arrays: arrays.pop("tree_left"), "array tree_left is missing from"),
        (lambda _, arrays: arrays.pop("calibration_floor"), "calibration_floor is missing from"),
        (lambda _, arrays: arrays.update(more=np.zeros(3)), "array more is not known in"),
        (lambda _, arrays: arrays.update(relative=np.zeros(2)), "array relative is not known in"),
        (replace("version", lambda v: 1), "of another version: found version 1"),
        (replace("format", lambda v: "x"), "not a toruscast model"),
        (replace("features", lambda v: ["a"]), "bad feature names"),
        (replace("features", lambda v: ["a", "a", "b"]), "feature named twice"),
        (replace("features", lambda v: ["a", "b", 1]), "bad feature list"),
        (replace("parameters", lambda v: {"evil": 1}), "bad parameters"),
        (replace("parameters", lambda v: []), "bad parameters"),
        (parameters(target="corrected"), "bad target"),
        (parameters(n_estimators="many"), "bad number of trees"),
        (parameters(features=[1]), "bad feature list"),
        (replace("n_samples", lambda v: -1), "bad number of samples"),
        (replace("provenance", lambda v: {"routing": ["nowhere"]}), "bad routing"),
        (replace("provenance", lambda v: 3), "damaged model file"),
        (replace("n_features", lambda v: "many"), "bad number of features"),
        (replace("n_features", lambda v: 10**9), "bad number of features"),
    ],
)
def test_altered_models_are_refused(path, change, message):
    altered(path, change)
    with pytest.raises(InputError, match=message):
        load_predictor(path)


HUGE = [1e300, -1.7e308]
# Finite in every array, but not in the times that they give.
LARGE = [1e90, -1e90]


@pytest.mark.parametrize("target", ["time", "slowdown", "measured"])
@pytest.mark.parametrize("value", HUGE)
@pytest.mark.parametrize(
    "name",
    [
        *("calibration_floor", "calibration_residuals", "calibration_common"),
        *("calibration_deviations", "tree_value", "target_shift", "target_scale"),
        *("feature_scale", "feature_shift", "feature_least", "feature_most"),
    ],
)
def test_a_model_whose_forecasts_are_absurd_is_refused(path, target, name, value):
    """Each number is finite: what they give together is not, or stands for no time."""
    table = TABLE.assign(coarse_time=1.5 * TABLE["lower_bound"])
    model = TimePredictor(["a", "b"], target, n_estimators=5, calibration_folds=2)
    save_predictor(model.fit(table, table["lower_bound"] * (1 + table["a"])), path)
    with np.load(path) as file:
        arrays = dict(file)
    arrays[name][:] = value
    np.savez_compressed(path, **arrays)
    with pytest.raises(InputError, match="in a model file"):
        load_predictor(path)


@pytest.mark.parametrize("target", ["time", "slowdown", "measured"])
@pytest.mark.parametrize("value", LARGE)
def test_a_model_whose_trees_give_no_time_is_refused(path, target, value):
    table = TABLE.assign(coarse_time=1.5 * TABLE["lower_bound"])
    model = TimePredictor(["a", "b"], target, n_estimators=5, calibration_folds=2)
    save_predictor(model.fit(table, table["lower_bound"] * (1 + table["a"])), path)
    with np.load(path) as file:
        arrays = dict(file)
    arrays["tree_value"][:] = value
    np.savez_compressed(path, **arrays)
    with pytest.raises(InputError, match="absurd predictions in a model file"):
        load_predictor(path)


def test_parameters_may_be_numbers_of_numpy(tmp_path):
    model = TimePredictor(n_estimators=np.int64(10), random_state=np.int64(3))
    model.fit(np.eye(6), np.arange(1.0, 7.0))
    save_predictor(model, tmp_path / "m.npz")
    again = load_predictor(tmp_path / "m.npz")
    assert (again.n_estimators, again.random_state) == (10, 3)
