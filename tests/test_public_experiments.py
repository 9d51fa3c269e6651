"""Experiments on public measurements: their models on made-up data, their runs on the real ones."""

import numpy as np
import pandas as pd
import pytest

from toruscast.datasets.public import read_amg_messages
from toruscast.mapping import InputError
from toruscast.training.experiments import EXPERIMENTS, Inputs
from toruscast.training.experiments.amg_features import _MODEL_COLUMNS
from toruscast.training.experiments.amg_model import AmgTimeModel
from toruscast.training.experiments.line_model import fit_line
from toruscast.training.metrics import rcc

NAMES = ["gemini-amg", "gemini-contention", "static-routes", "link-counts"]


def test_law_recovers_what_it_generates():
    generator = np.random.default_rng(0)
    table = pd.DataFrame(0.0, index=range(60), columns=list(_MODEL_COLUMNS))
    n, nbytes = generator.integers(1, 100, 60), generator.integers(8, 100_000, 60)
    table = table.assign(operator="A", n_active=64, n_processes=64, n_max=n)
    table = table.assign(nbytes_rend_network=nbytes)
    table["time"] = 1e-6 + 2e-6 * n + 1e-8 * n**2 + 1e-9 * nbytes
    model = AmgTimeModel(learners=()).fit(table[table["n_max"] <= 50])
    np.testing.assert_allclose(model.predict(table), table["time"], rtol=0.01)


def test_model_refuses_what_it_cannot_use():
    table = pd.DataFrame(0.0, index=range(3), columns=list(_MODEL_COLUMNS))
    with pytest.raises(InputError, match="nothing to learn"):
        AmgTimeModel().fit(table)
    with pytest.raises(InputError, match="bad time"):
        AmgTimeModel().fit(table.assign(time=0.0))
    with pytest.raises(InputError, match="active processes"):
        AmgTimeModel().fit(table.assign(time=1.0, operator="A"))


def test_line_model_recovers_bandwidths():
    sizes = [(n, s) for s in 4.0 ** np.arange(2, 10) for n in (1, 4)]
    rows = [(128, n, s, d) for n, s in sizes for d in "xy"]
    table = pd.DataFrame(rows, columns=["n_ranks", "n_messages", "nbytes", "dimension"])
    rate = table["dimension"].map({"x": 6e9, "y": 3e9})
    # The slower of ranks and link: what the model describes where its passage is sharp.
    table["time"] = np.maximum(4e-6 * table["n_messages"], 64 * table["nbytes"] / rate)
    found = fit_line(table, "dimension").bandwidths
    assert found == pytest.approx({"x": 6e9, "y": 3e9}, rel=0.1)


@pytest.mark.parametrize(
    "name", ["gemini-amg", "gemini-contention", "static-routes", "link-counts"]
)
def test_absent_measurements_are_told(name, tmp_path):
    with pytest.raises(InputError, match="not found"):
        EXPERIMENTS[name].run(Inputs(data=tmp_path))


def test_amg_small_to_large(shared_data):
    files = sorted((shared_data / "bluewatersmodel" / "amg_models").glob("*.out"))
    table = pd.concat([read_amg_messages(path) for path in files], ignore_index=True)
    test = table[table["n_processes"] >= 2048]
    model = AmgTimeModel().fit(table[table["n_processes"] <= 1024])
    assert rcc(test["time"], model.predict(test)) > 0.92


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["gemini-amg", "gemini-contention", "static-routes", "link-counts"]
)
def test_runs_on_the_real_files(shared_data, name):
    found = EXPERIMENTS[name].run(Inputs(data=shared_data))
    assert found.bars
    assert set(found.shown) <= set(found.tables)
    for chart in found.charts:
        assert {chart.x, chart.y} <= set(found.tables[chart.table].columns)
    if name == "static-routes":
        assert all(bar.met for bar in found.bars)
