"""The model that comes with toruscast: slowdowns of many patterns on many tori."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd

from toruscast._slow import model_selection
from toruscast.mapping import CommGraph, Torus, parse_torus, patterns, strategies
from toruscast.training.samples.samples import Case, build_samples

from .predictor import TimePredictor

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
# Machines whose links, packets, FIFOs and copies are others, with the tasks that a node takes.
_MACHINES = (
    ("bluegene_p:4x4x4", 1),
    ("bluegene_p:8x4x4", 4),
    ("bluegene_q:32", 16),
    ("bluegene_q:64", 4),
    ("bluegene_q:128", 1),
    ("bluegene_q:512", 1),
    ("gemini:4x4x4", 1),
    ("gemini:4x4x2", 16),
    ("gemini:8x8x4", 1),
    ("tofu_d:2x2x2", 8),
    ("tofu_d:2x2x4", 16),
    ("tofu_d:4x4x4", 1),
    ("tofu_d:4x4x4", 4),
    ("tpu_v4:4x4x4", 1),
    ("tpu_v4:4x4x8", 4),
    ("tpu_v5p:4x4x4", 2),
    ("tpu_v5p:8x8x4", 1),
    ("trainium2:4x4", 16),
    ("trainium2:4x4x4", 1),
    ("trainium2:4x4x4", 8),
)
# Packets a message.
_PACKETS = (4, 16, 64, 128, 512)
# Of the logarithm of unequal messages' sizes.
_UNEQUAL = 1.5


def held_out(samples: pd.DataFrame) -> Iterator[tuple[TimePredictor, pd.DataFrame]]:
    """Give the samples of each workload and torus with a default model that has not seen them."""
    groups = (samples["workload"] + " on " + samples["torus"]).to_numpy()
    for kept, left_out in model_selection.GroupKFold(10).split(samples, groups=groups):
        known = samples.iloc[kept]
        known.attrs = samples.attrs
        model = train_default(known)
        for group in np.unique(groups[left_out]):
            yield model, samples.iloc[left_out[groups[left_out] == group]]


def build_default_samples(
    store_path: str | os.PathLike[str],
    *,
    n_jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> pd.DataFrame:
    """Simulate the samples of the default model: about four processor minutes.

    Halos, all-to-alls and random graphs, of equal and unequal messages of mostly 2 to 512 packets,
    between 64 and 1024 tasks; on tori of 2 to 5 dimensions, and on those of seven machines with 1
    to 16 tasks a node; under 20 mappings each.
    """
    return build_samples(
        default_cases(),
        store_path,
        n_jobs=n_jobs,
        level=1,
        progress=progress,
        provenance={"seed": _SEED, "default": True},
    )


def train_default(samples: pd.DataFrame) -> TimePredictor:
    """Return the default model, calibrated on pairs of workload and torus that it never saw."""
    model = TimePredictor("relative", "slowdown", n_estimators=100, min_samples_leaf=10)
    groups = samples["workload"] + " on " + samples["torus"]
    return model.fit(samples, samples["time"], groups=groups)


def default_cases() -> list[Case]:
    """Return the workloads, tori and mappings of the default model."""
    rng = np.random.default_rng(_SEED)
    hosts = [(Torus(shape), 1) for shape in _SHAPES]
    hosts += [(parse_torus(name), tasks_per_node) for name, tasks_per_node in _MACHINES]
    cases: list[Case] = []
    for torus, tasks_per_node in hosts:
        n_tasks = torus.n_nodes * tasks_per_node
        for comm in _patterns(n_tasks, torus.network.payload, rng):
            seed = int(rng.integers(2**31))
            cases.append((comm, torus, strategies.sample(comm, torus, n=_MAPPINGS, seed=seed)))
    return cases


def _patterns(n_tasks: int, payload: int, rng: np.random.Generator) -> list[CommGraph]:
    """Draw some of each kind of communication over ``n_tasks`` tasks (a power of two)."""
    bits = n_tasks.bit_length() - 1
    flat = (2 ** (bits // 2), 2 ** (bits - bits // 2))
    solid = (2 ** (bits // 3), 2 ** ((bits + 1) // 3), 2 ** (bits - bits // 3 - (bits + 1) // 3))
    size = [payload * int(rng.choice(_PACKETS)) for _ in range(7)]
    group = int(rng.choice([8, 16, 32]))
    return [
        patterns.halo_2d(flat, size[0], periodic=bool(rng.integers(2))),
        patterns.halo_3d(solid, size[1], corner_nbytes=0, periodic=True),
        patterns.halo_3d(solid, size[2], periodic=bool(rng.integers(2))),
        patterns.sub_all_to_all(n_tasks, size[3] / 2, group=group),
        _random(n_tasks, size[4], rng),
        _unequal(patterns.halo_3d(solid, size[5], periodic=True), rng),
        _unequal(_random(n_tasks, size[6], rng), rng),
    ]


def _random(n_tasks: int, nbytes: int, rng: np.random.Generator) -> CommGraph:
    degree = int(rng.integers(3, 13))
    return patterns.random_pairs(n_tasks, degree, nbytes, seed=int(rng.integers(2**31)))


def _unequal(comm: CommGraph, rng: np.random.Generator) -> CommGraph:
    """Give each edge one to four messages, and another number of bytes about the same mean."""
    factor = rng.lognormal(-(_UNEQUAL**2) / 2, _UNEQUAL, comm.n_edges)
    return CommGraph(
        comm.n_tasks,
        comm.src,
        comm.dst,
        np.ceil(comm.nbytes * factor),
        rng.integers(1, 5, comm.n_edges),
        grid=comm.grid,
        name=f"{comm.name}-unequal",
    )
