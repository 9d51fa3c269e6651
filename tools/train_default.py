"""Make `default.skops`, the model behind ``load_predictor("default")``.

python tools/train_default.py SAMPLES.parquet datasets/default.skops

Simulates the samples (kept in the first file, so that a run that was stopped goes on), trains, and
prints by how much the sketch misses, by its distance from the lower bound, and how well the model
forecasts pairs of workload and torus that were kept from it.
"""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
from sklearn.model_selection import GroupKFold

from toruscast.training import build_default_samples, rcc, save_predictor, train_default


def main(samples_path: str, model_path: str) -> None:
    """Build, score by groups and save."""
    samples = build_default_samples(samples_path, n_jobs=2)
    print(_misses(samples).to_string(float_format="{:.5f}".format))
    groups = (samples["workload"] + " on " + samples["torus"]).to_numpy()
    scores = []
    held = 0
    for kept, left_out in GroupKFold(10).split(samples, groups=groups):
        kept_samples = samples.iloc[kept]
        kept_samples.attrs = samples.attrs
        model = train_default(kept_samples)
        for group in np.unique(groups[left_out]):
            table = samples.iloc[left_out[groups[left_out] == group]]
            observed = table["time"].to_numpy()
            scores.append(rcc(observed, model.predict(table)))
            low, high = model.predict_interval(table).T
            held += int(((low <= observed) & (observed <= high)).sum())
    print(f"{len(samples)} samples, {len(scores)} pairs of workload and torus, each left out:")
    print(
        f"RCC mean {np.mean(scores):.3f}, least {np.min(scores):.3f}; 90 % intervals hold "
        f"{held / len(samples):.1%}"
    )
    save_predictor(train_default(samples), model_path)


def _misses(samples: pd.DataFrame) -> pd.DataFrame:
    """Return how far simulated times are from the sketch where it is that far off its bound."""
    above = (samples["sketch_time"] / samples["lower_bound"] - 1).abs()
    missed = np.log(samples["time"] / samples["sketch_time"]).abs()
    bins = pd.cut(above, [0, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3, 1.0, np.inf], include_lowest=True)
    grouped = missed.groupby(bins, observed=True)
    return pd.DataFrame(
        {"samples": grouped.size(), "median": grouped.median(), "95 %": grouped.quantile(0.95)}
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
