"""The model that comes with toruscast: corrections of the sketch, from patterns on many tori."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
import pandas as pd

from toruscast.mapping import CommGraph, Torus, Workload

from .predictor import TimePredictor
from .samples import Case, build_samples

_SEED = 20130
_MAPPINGS = 20
_SHAPES: tuple[tuple[int, ...], ...] = (
    (8, 8),
    (4, 4, 4),
    (16, 8),
    (8, 4, 4),
    (4, 4, 4, 2),
    (16, 16),
    (8, 8, 4),
    (4, 4, 4, 4),
    (4, 4, 4, 2, 2),
    (8, 8, 8),
    (16, 8, 4),
    (8, 4, 4, 4),
    (4, 4, 4, 4, 2),
    (16, 8, 8),
)
# Of several packets each: of single ones the sketch merges nothing, with nothing to correct.
_MESSAGES = (2048, 8192, 32768, 65536, 262144)


def build_default_samples(
    store_path: str | os.PathLike[str],
    *,
    n_jobs: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> pd.DataFrame:
    """Simulate the samples of the default model; minutes on two cores.

    Halos, all-to-alls and random graphs of 64 to 1024 tasks with messages of 1 to 256 KiB, on
    tori of 2 to 5 dimensions, under 20 mappings each.
    """
    return build_samples(
        default_cases(),
        store_path,
        n_jobs=n_jobs,
        level=2,
        progress=progress,
        provenance={"seed": _SEED},
    )


def train_default(samples: pd.DataFrame) -> TimePredictor:
    """Return the default model, calibrated on pairs of workload and torus that it never saw."""
    model = TimePredictor(
        "sketch", "correction", n_estimators=150, min_samples_leaf=20, max_leaf_nodes=400
    )
    groups = samples["workload"] + " on " + samples["torus"]
    return model.fit(samples, samples["time"], groups=groups)


def default_cases() -> list[Case]:
    """Return the workloads, tori and mappings of the default model."""
    from toruscast.mapping import strategies

    rng = np.random.default_rng(_SEED)
    cases: list[Case] = []
    for shape in _SHAPES:
        torus = Torus(shape)
        for comm in _patterns(torus.n_nodes, rng):
            seed = int(rng.integers(2**31))
            cases.append((comm, torus, strategies.sample(comm, torus, n=_MAPPINGS, seed=seed)))
    return cases


def _patterns(n_tasks: int, rng: np.random.Generator) -> list[CommGraph | Workload]:
    """Draw some of each kind of communication over ``n_tasks`` tasks (a power of two)."""
    from toruscast.mapping import patterns

    bits = n_tasks.bit_length() - 1
    flat = (2 ** (bits // 2), 2 ** (bits - bits // 2))
    solid = (2 ** (bits // 3), 2 ** ((bits + 1) // 3), 2 ** (bits - bits // 3 - (bits + 1) // 3))
    size = [int(rng.choice(_MESSAGES)) for _ in range(5)]
    group = int(rng.choice([8, 16, 32]))
    return [
        patterns.halo_2d(flat, size[0], periodic=bool(rng.integers(2))),
        patterns.halo_3d(solid, size[1], corner_nbytes=0, periodic=True),
        patterns.halo_3d(solid, size[2], periodic=bool(rng.integers(2))),
        patterns.sub_all_to_all(n_tasks, size[3] / 2, group=group),
        patterns.random_pairs(
            n_tasks, int(rng.integers(3, 13)), size[4], seed=int(rng.integers(2**31))
        ),
    ]
