"""Write a model and a table of samples in the current file versions, for tests of later versions.

    python tools/keep_files.py tests/data/kept

Run it when the version of either file format is raised, and keep the older files.
"""

import json
import sys
from pathlib import Path

import toruscast as tc
from toruscast.training import (
    TimePredictor,
    build_samples,
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


if __name__ == "__main__":
    main(Path(sys.argv[1]))
