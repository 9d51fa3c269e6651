"""Forecast every captured application and say how well it went; writes forecast.csv.

python benchmarks/forecast.py --out FOLDER

For each dataset 84 candidate mappings, all simulated: RCC with the simulated times of two lower
bounds and of the sketch (no learning), of models trained on 168 other mappings (level-1 features
alone; with the sketch, which is what `toruscast rank` does), and of the default model, which never
saw the application. Coverage is the share of candidates whose time lies in the 90 % interval.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from toruscast import datasets
from toruscast.features import extract
from toruscast.mapping import parse_torus, strategies
from toruscast.training import TimePredictor, load_predictor, r2, rcc, regret, train_for

HOSTS = (
    ("lammps-lj-64", "4x4x4"),
    ("lammps-lj-512", "8x8x8"),
    ("lammps-droplet-128", "4x4x8"),
    ("espresso-si-64", "4x4x4"),
    ("lammps-salt-64", "4x4x4"),
    ("lammps-lj-64", "tofu_d:2x2x2"),
    ("lammps-droplet-128", "bluegene_q:32"),
    ("lammps-droplet-128", "gemini:4x4x4"),
    ("lammps-lj-512", "tpu_v4:4x4x4"),
)


def score(name: str, host: str) -> dict[str, Any]:
    """Forecast one application."""
    comm = datasets.load(name).scaled(1 / datasets.provenance(name)["iterations"])
    torus = parse_torus(host)
    candidates = strategies.sample(comm, torus, n=84, seed=1)
    table = extract(comm, torus, candidates, level=2, n_jobs=2)
    time = table["time"].to_numpy()
    row: dict[str, Any] = {"application": name, "torus": str(torus)}
    row["spread"] = time.max() / time.min()
    row["lower_bound"] = rcc(time, table["lower_bound"])
    row["release_bound"] = rcc(time, table["release_bound"])
    row["sketch_alone"] = rcc(time, table["sketch_time"])
    analytic = train_for(
        comm,
        torus,
        168,
        seed=2,
        exclude=candidates,
        n_splits=1,
        n_jobs=2,
        model=TimePredictor("relative", "slowdown"),
    )
    row["level_1"] = rcc(time, analytic.model.predict(table))
    trained = train_for(comm, torus, 168, seed=2, exclude=candidates, n_splits=1, n_jobs=2)
    models = {"trained": trained.model, "default": load_predictor("default")}
    for label, model in models.items():
        predicted = model.predict(table)
        low, high = model.predict_interval(table).T
        row[label] = rcc(time, predicted)
        row[f"{label}_r2"] = r2(time, predicted)
        row[f"{label}_regret"] = regret(time, predicted)
        row[f"{label}_coverage"] = float(np.mean((low <= time) & (time <= high)))
    return row


def main() -> None:
    """Forecast them all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    folder = parser.parse_args().out
    folder.mkdir(parents=True, exist_ok=True)
    table = pd.DataFrame([score(name, host) for name, host in HOSTS])
    table.to_csv(folder / "forecast.csv", index=False)
    print(table.to_string(index=False, float_format="%.3f"))


if __name__ == "__main__":
    main()
