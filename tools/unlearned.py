"""Make `unlearned.json`: how far the default model is off on applications that it never saw.

python tools/unlearned.py SAMPLES.parquet datasets/unlearned.json

For the kind that it learned from, they are the samples of each workload and torus, forecast by a
model that learned from the others (`tools/train_default.py` makes the samples). Of other kinds it
draws applications with dependent rounds (wavefronts, pipelines, collectives, repeated halos and
random rounds), with phases between barriers, and with packets that choose their way, and simulates
a few mappings of each. Prints how many of the times of each application are held by the 90 %
intervals that the other applications make. About ten processor minutes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from toruscast.features import RoutedTraffic
from toruscast.mapping import CommGraph, Torus, Workload, collectives, parse_torus, patterns
from toruscast.mapping.strategies import sample
from toruscast.training import build_default_samples, build_samples, load_predictor
from toruscast.training.predictor.default_model import held_out
from toruscast.training.predictor.fitted import FittedModel
from toruscast.training.predictor.unlearned import (
    APART,
    LEARNED,
    Residuals,
    ordered,
    residuals,
    widened,
)
from toruscast.training.samples.samples import ADAPTIVE, PHASES, ROUNDS

SEED = 52
MAPPINGS = 12
APPLICATIONS = 60
HOSTS = (
    "8x8",
    "4x4x4",
    "16x4",
    "4x4x8",
    "4x4x4x2",
    "bluegene_q:32",
    "gemini:4x4x4",
    "tpu_v4:4x4x4",
    "4x4x16",
    "16x16",
)
PACKETS = (1, 4, 16, 64, 128)
_MOST_TASKS = 256


def grid_of(n: int) -> tuple[int, int]:
    """Return two nearly equal sides of a power of two."""
    bits = n.bit_length() - 1
    return 2 ** (bits // 2), 2 ** (bits - bits // 2)


def wavefront(n: int, nbytes: float, back: bool) -> Workload:
    """Diagonals of a grid, one after the other; the other way round as well if ``back``."""
    rows, columns = grid_of(n)
    rounds = []
    for diagonal in range(rows + columns - 2):
        i = np.arange(max(0, diagonal - columns + 1), min(rows, diagonal + 1))
        j = diagonal - i
        down, right = i < rows - 1, j < columns - 1
        task = i * columns + j
        src = np.concatenate([task[down], task[right]])
        dst = np.concatenate([task[down] + columns, task[right] + 1])
        rounds.append(CommGraph(n, src, dst, np.full(src.size, nbytes)))
    if back:
        rounds += [CommGraph(n, r.dst, r.src, r.nbytes) for r in reversed(rounds)]
    return Workload(rounds, "wavefront", dependent=True)


def pipeline(n: int, nbytes: float, rng: np.random.Generator) -> Workload:
    """Messages that go along a line of tasks, several under way at a time."""
    stride, waves = int(rng.choice([1, 2, 4])), int(rng.integers(1, 5))
    chain = np.arange(0, n, stride)
    rounds = []
    for step in range(min(chain.size - 1 + waves - 1, 60)):
        at = np.arange(max(0, step - waves + 1), min(step + 1, chain.size - 1))
        if at.size:
            rounds.append(CommGraph(n, chain[at], chain[at + 1], np.full(at.size, nbytes)))
    return Workload(rounds, "pipeline", dependent=True)


def pattern(n: int, nbytes: float, rng: np.random.Generator) -> CommGraph:
    """Return a pattern of one exchange."""
    kind = int(rng.integers(4))
    if kind == 0:
        return patterns.halo_2d(grid_of(n), nbytes, periodic=bool(rng.integers(2)))
    if kind == 1:
        degree = int(rng.integers(3, 10))
        return patterns.random_pairs(n, degree, nbytes, seed=int(rng.integers(2**31)))
    if kind == 2:
        return patterns.sub_all_to_all(n, nbytes / 2, group=int(rng.choice([8, 16])))
    comm = patterns.random_pairs(n, 4, nbytes, seed=int(rng.integers(2**31)))
    return CommGraph(
        n, comm.src, comm.dst, np.ceil(comm.nbytes * rng.lognormal(-1, 1.4, comm.n_edges))
    )


def rounds(n: int, nbytes: float, rng: np.random.Generator) -> Workload:
    """Return dependent rounds of one of the kinds."""
    kind = int(rng.integers(-2, 6))
    if kind < 2:
        return wavefront(n, nbytes, back=bool(kind % 2))
    if kind == 2:
        return pipeline(n, nbytes, rng)
    if kind == 3:
        names = [f"allreduce/{a}" for a in ("ring", "recursive_doubling", "rabenseifner")]
        names += ["alltoall/pairwise", "bcast/binomial"]
        return collectives.schedule(str(rng.choice(names)), n, nbytes * 16).workload()
    if kind == 4:
        return Workload([pattern(n, nbytes, rng)] * int(rng.integers(2, 6)), "", dependent=True)
    drawn = [pattern(n, nbytes, rng) for _ in range(int(rng.integers(2, 6)))]
    return Workload(drawn, "", dependent=True)


def phases(n: int, nbytes: float, rng: np.random.Generator) -> Workload:
    """Return phases between barriers."""
    sizes = nbytes * rng.choice([0.25, 1.0, 4.0], int(rng.integers(2, 5)))
    return Workload([pattern(n, size, rng) for size in sizes])


def cases(kind: str, rng: np.random.Generator) -> Iterator[tuple[Workload, Torus, str]]:
    """Give applications of a kind, with their hosts and routing."""
    for _ in range(APPLICATIONS):
        torus = parse_torus(str(rng.choice(HOSTS)))
        n = torus.n_nodes * min(int(rng.choice([1, 1, 2, 4])), _MOST_TASKS // torus.n_nodes)
        nbytes = float(torus.network.payload * int(rng.choice(PACKETS)))
        if kind == ROUNDS:
            yield rounds(n, nbytes, rng), torus, "deterministic"
        elif kind == PHASES:
            yield phases(n, nbytes, rng), torus, "deterministic"
        else:
            yield Workload([pattern(n, 4 * nbytes, rng)]), torus, "adaptive"


def drawn(kind: str, model: FittedModel) -> Iterator[tuple[FittedModel, pd.DataFrame]]:
    """Give the samples of generated applications of a kind, and the model that forecasts them."""
    rng = np.random.default_rng([SEED, len(kind)])
    for workload, torus, routing in cases(kind, rng):
        mappings = sample(workload, torus, MAPPINGS, seed=int(rng.integers(2**31)))
        table = build_samples(
            [(workload, torus, mappings)],
            n_jobs=1,
            routing=routing,  # type: ignore[arg-type]
            features=[*model.required_columns, "lower_bound"],
        )
        apart = [RoutedTraffic(workload, torus, each).rounds_apart for each in mappings]
        yield model, table.assign(**{APART: apart})


def main(samples_path: str, path: str) -> None:
    """Simulate, store and print."""
    model = load_predictor("default")
    learned = build_default_samples(samples_path, n_jobs=2).assign(**{APART: 0.0})
    sources = {LEARNED: held_out(learned)}
    sources |= {kind: drawn(kind, model) for kind in (ROUNDS, PHASES, ADAPTIVE)}
    found: dict[str, Residuals] = {}
    for kind, tables in sources.items():
        forecasts = [
            (
                ordered(own.prior_prediction(table), table),
                table["time"].to_numpy(),
                table[APART].to_numpy(),
            )
            for own, table in tables
        ]
        found[kind] = residuals(forecasts)
        held, reach = [], []
        for i, (prior, times, apart) in enumerate(forecasts):
            others = residuals(forecasts[:i] + forecasts[i + 1 :])
            wide = widened(prior, others, apart)
            half = others.calibration.quantile(0.9) * wide.width
            held.append(float((np.abs(np.log(times) - wide.logs()[0]) <= half).mean()))
            reach.append(float(np.exp(half.mean())))
        print(
            f"{kind}: {len(forecasts)} applications; the 90 % intervals of the others hold "
            f"{np.mean(held):.1%}, by a factor of {np.min(reach):.2f} to {np.max(reach):.2f} each "
            f"way, {np.median(reach):.2f} in the middle",
            flush=True,
        )
    text = {kind: each.to_json() for kind, each in found.items()}
    Path(path).write_text(json.dumps(text, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
