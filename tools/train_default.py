"""Make `default.npz`, the model behind ``load_predictor("default")``.

python tools/train_default.py SAMPLES.parquet datasets/default.npz

Simulates the samples (kept in the first file, so that a run that was stopped goes on), trains, and
prints how well the model forecasts pairs of workload and torus that were kept from it. That takes
about five processor minutes. Samples and model are the same in every run of the same version.
"""

from __future__ import annotations

import sys

import numpy as np

from toruscast.training import build_default_samples, r2, rcc, save_predictor, train_default
from toruscast.training.predictor.default_model import held_out


def main(samples_path: str, model_path: str) -> None:
    """Build, score by groups and save."""
    samples = build_default_samples(samples_path, n_jobs=2)
    scores, bounds, explained = [], [], []
    held = 0
    for model, table in held_out(samples):
        observed = table["time"].to_numpy()
        prior = model.prior_prediction(table)
        bound = table["release_bound"].to_numpy()
        scores.append(rcc(observed, prior.times()))
        bounds.append(rcc(observed, bound))
        explained.append((r2(observed, prior.times()), r2(observed, bound)))
        low, high = prior.interval(0.9).T
        held += int(((low <= observed) & (observed <= high)).sum())
    print(f"{len(samples)} samples, {len(scores)} pairs of workload and torus, each left out:")
    print(
        f"RCC mean {np.mean(scores):.3f}, least {np.min(scores):.3f}; 90 % intervals hold "
        f"{held / len(samples):.1%}"
    )
    learned, alone = np.median(explained, axis=0)
    print(
        f"the release bound alone: RCC mean {np.mean(bounds):.3f}; R^2 of times within a pair, "
        f"median {learned:.2f} learned, {alone:.2f} of the bound"
    )
    save_predictor(train_default(samples), model_path)


if __name__ == "__main__":
    main(*sys.argv[1:])
