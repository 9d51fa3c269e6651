"""Write a model and a table of samples of today's versions for the tests of later ones.

    python tools/keep_files.py tests/data/kept

To be run when the version of either file is raised or the default model is trained anew; older
files stay.
"""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd

import toruscast as tc
from toruscast.training import (
    TimePredictor,
    build_samples,
    load_predictor,
    read_samples,
    save_predictor,
)
from toruscast.training.model_file import VERSION as MODEL
from toruscast.training.store import VERSION as TABLE

FEATURES = ["max_dilation", "avg_bytes", "max_bytes"]


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    comm, torus = tc.patterns.halo_2d((4, 4), 4096), tc.Torus((4, 4))
    mappings = tc.strategies.sample(comm, torus, n=12, seed=1)
    table = folder / f"samples-{TABLE}.parquet"
    build_samples([(comm, torus, mappings)], table, level=1, features=FEATURES)
    samples = read_samples(table)
    told = {"columns": list(samples.columns), "times": samples["time"].tolist()}
    table.with_suffix(".json").write_text(json.dumps(told) + "\n")
    model = TimePredictor(features=FEATURES, n_estimators=5, random_state=1)
    model.fit(samples[FEATURES], samples["time"])
    file = folder / f"model-{MODEL}.npz"
    save_predictor(model, file)
    rows = samples[FEATURES].head(4)
    times = model.predict(rows).tolist()
    told = {"features": FEATURES, "rows": rows.to_numpy().tolist(), "times": times}
    file.with_suffix(".json").write_text(json.dumps(told) + "\n")


def keep_default(folder):
    """Write what the default model forecasts of mappings like those that it learned from."""
    model = load_predictor()
    shares = np.random.default_rng(1).random((4, model.n_features_in_))
    rows = model.feature_least_ * (1 - shares) + model.feature_most_ * shares
    table = pd.DataFrame(rows, columns=model.feature_names_in_).assign(lower_bound=1e-5)
    told = {"columns": list(table.columns), "rows": table.to_numpy().tolist()}
    told["intervals"] = model.predict_interval(table).tolist()
    (folder / "default.json").write_text(json.dumps(told) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    keep_default(Path(sys.argv[1]))
