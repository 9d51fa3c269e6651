"""Model files and tables of samples of earlier versions are read, or it is said what changed."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from toruscast._features import FEATURES
from toruscast.errors import InputError
from toruscast.training import load_predictor, read_samples, save_predictor
from toruscast.training import store as _sample_keys
from toruscast.training.store import write_samples

KEPT = Path(__file__).parents[1] / "data" / "kept"
MODELS = sorted(KEPT.glob("model-*.npz"))
SAMPLES = sorted(KEPT.glob("*.parquet"))


def rewritten(path, target, change):
    """A copy of a model file whose metadata are changed."""
    with np.load(path) as file:
        arrays = dict(file)
    metadata = json.loads(arrays.pop("metadata").item())
    change(metadata)
    np.savez_compressed(target, metadata=np.array(json.dumps(metadata)), **arrays)


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_a_kept_model_forecasts_as_it_did(path):
    model = load_predictor(path)
    told = json.loads(path.with_suffix(".json").read_text())
    rows = pd.DataFrame(told["rows"], columns=told["features"])
    assert model.predict(rows) == pytest.approx(told["times"], rel=1e-9)
    assert list(model.feature_names_in_) == told["features"]


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_a_kept_table_holds_what_it_held(path):
    table = read_samples(path)
    told = json.loads(path.with_suffix(".json").read_text())
    assert table["time"].tolist() == told["times"]
    assert list(table.columns) == told["columns"]


def test_files_of_this_version_are_kept():
    from toruscast.training.model_file import VERSION as MODEL
    from toruscast.training.store import VERSION as TABLE

    assert KEPT / f"model-{MODEL}.npz" in MODELS
    assert KEPT / f"samples-{TABLE}.parquet" in SAMPLES


@pytest.mark.parametrize("version", [1, 5])
def test_models_of_other_versions_say_so(tmp_path, version):
    rewritten(MODELS[-1], tmp_path / "a.npz", lambda metadata: metadata.update(version=version))
    with pytest.raises(InputError, match=f"of another version: found version {version}"):
        load_predictor(tmp_path / "a.npz")


def test_changed_features_are_named(tmp_path, monkeypatch):
    monkeypatch.setitem(_sample_keys.CHANGED, "max_bytes", 1)
    assert "max_bytes" in FEATURES
    with pytest.raises(InputError, match="changed since the model was trained: found max_bytes"):
        load_predictor(MODELS[-1])
    with pytest.raises(
        InputError, match="changed since the samples were computed: found max_bytes"
    ):
        read_samples(SAMPLES[-1])
    assert len(read_samples(SAMPLES[-1], changed="keep"))


def test_a_model_saved_after_a_change_is_read(tmp_path, monkeypatch):
    model = load_predictor(MODELS[-1])
    monkeypatch.setitem(_sample_keys.CHANGED, "max_bytes", 1)
    save_predictor(model, tmp_path / "a.npz")
    assert load_predictor(tmp_path / "a.npz").n_samples_ == model.n_samples_


def test_tables_of_a_newer_program_say_so(tmp_path, monkeypatch):
    table = read_samples(SAMPLES[-1])
    monkeypatch.setattr("toruscast.training.store.VERSION", 2)
    write_samples(table, tmp_path / "a.parquet")
    monkeypatch.undo()
    with pytest.raises(InputError, match="of a newer toruscast: found version 2"):
        read_samples(tmp_path / "a.parquet")
