"""Train on times that include a constant, and score the predictions; writes measured.csv.

    python benchmarks/measured.py --out FOLDER

A simulation takes the place of the machine. Its network differs from that of the model in
bandwidth, software, buffers and adaptive routing. Its times include a constant for computation, and
noise. A random two thirds of 84 mappings of a halo are the training set, and one third is
predicted. If the times contain no information, the row has the reason.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import toruscast as tc
from toruscast.decision import NothingToLearnError
from toruscast.decision.runs import possible_rcc
from toruscast.mapping import patterns, strategies
from toruscast.training import r2, rcc, rcc_told_apart
from toruscast.training.evaluation import random_splits

TORUS = tc.Torus((4, 4))
OTHER = replace(
    tc.Torus((4, 4), bandwidth=(1.1e9, 1.3e9)),
    network=replace(TORUS.network, overhead=2e-6, buffer_packets=8),
)
HALO = patterns.halo_2d((4, 4), 20_000, periodic=True)
CONSTANTS = (0.0, 50e-6, 1e-3, 1.0)
N_SPLITS = 2
N_RUNS = 3


def runs(mappings: list[tc.TaskMapping], times: np.ndarray[Any, Any], noise: float) -> tc.Runs:
    """Return noisy runs of each mapping, or one run without noise."""
    rng = np.random.default_rng(1)
    shape = (len(mappings), N_RUNS if noise else 1)
    each = times[:, None] * np.exp(noise * rng.standard_normal(shape))
    return tc.Runs.from_times({m.name: row.tolist() for m, row in zip(mappings, each, strict=True)})


def score(
    mappings: list[tc.TaskMapping], measured: tc.Runs, label: dict[str, Any]
) -> dict[str, Any]:
    """Predict a third of the mappings, for several random splits."""
    rows = []
    for train, test in random_splits(len(mappings), N_SPLITS):
        kept = measured.take([measured.names[i] for i in train])
        try:
            answer = tc.rank(HALO, TORUS, mappings, times=kept)
        except NothingToLearnError as error:
            return {**label, "offered": error.message}
        table = answer.table.set_index("mapping")
        left = table.loc[[measured.names[i] for i in test]]
        seen = measured.times[test]
        said = left["time"].to_numpy()
        found = answer.learned
        assert found is not None
        rows.append(
            {
                "constant_found": found.line.constant,
                "slope": found.line.slope,
                "r2": r2(seen, said),
                "rcc": rcc(seen, said),
                "rcc_untied": rcc_told_apart(seen, said),
                "within": float(((left["low"] <= seen) & (seen <= left["high"])).mean()),
                "corrected": float(found.corrected),
            }
        )
    mean = pd.DataFrame(rows).mean().to_dict()
    return {**label, **mean, "possible_rcc": possible_rcc(measured), "offered": "a model"}


def cases() -> Iterator[dict[str, Any]]:
    """Score each case."""
    mappings = strategies.sample(HALO, TORUS, n=84, seed=1)
    for machine, torus, routing in (
        ("the model's network", TORUS, "deterministic"),
        ("another network", OTHER, "adaptive"),
    ):
        net = np.array([tc.simulate(HALO, torus, m, routing=routing).time for m in mappings])
        for noise in (0.0, 0.02):
            for constant in CONSTANTS:
                # Noise is proportional to the whole time, so it may hide the effect of the mapping.
                label = {"machine": machine, "constant": constant, "noise": noise}
                yield score(mappings, runs(mappings, constant + net, noise), label)
    flat = np.full(84, 1e-3)
    for what, noise in (("equal times", 0.0), ("noise only", 0.02)):
        label = {"machine": what, "constant": 1e-3, "noise": noise}
        yield score(mappings, runs(mappings, flat, noise), label)


def main() -> None:
    """Score all cases and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    folder = parser.parse_args().out
    folder.mkdir(parents=True, exist_ok=True)
    table = pd.DataFrame(list(cases()))
    table.to_csv(folder / "measured.csv", index=False, float_format="%.6g")
    print(table.to_string(index=False, float_format="%.4g"))


if __name__ == "__main__":
    main()
