"""Intervals of the default model on kinds of traffic that it never saw."""

import numpy as np
import pytest

from toruscast.mapping import CommGraph, Torus, Workload, patterns, strategies
from toruscast.training import build_samples, forecast, load_predictor, train_for
from toruscast.training.predictor.unlearned import Residuals, residuals, unlearned_kinds
from toruscast.training.samples.samples import ADAPTIVE, PHASES, ROUNDS, kinds_of

TORUS = Torus((4, 4, 4))
HALO = patterns.halo_3d((4, 4, 4), 8192, periodic=True)


def wavefront(rows, columns, nbytes):
    """Diagonals of a grid of tasks, one after the other."""
    n, rounds = rows * columns, []
    for diagonal in range(rows + columns - 2):
        tasks = [(i, diagonal - i) for i in range(rows) if 0 <= diagonal - i < columns]
        down = [(i * columns + j, (i + 1) * columns + j) for i, j in tasks if i + 1 < rows]
        right = [(i * columns + j, i * columns + j + 1) for i, j in tasks if j + 1 < columns]
        src, dst = zip(*down, *right, strict=True) if down or right else ((), ())
        rounds.append(CommGraph(n, src, dst, [nbytes] * len(src)))
    return Workload(rounds, dependent=True)


def held(workload, torus, routing, seed):
    maps = strategies.sample(workload, torus, 10, seed=seed)
    answer = forecast(workload, torus, maps, routing=routing, budget=0, check=True)
    return answer.scores["within_interval"]


@pytest.mark.slow
def test_intervals_hold_on_dependent_rounds():
    sizes = [(8, 8, 65536.0), (8, 8, 2048.0), (16, 4, 16384.0), (4, 16, 100_000.0), (8, 8, 512.0)]
    shares = [
        held(wavefront(*size), torus, "deterministic", seed)
        for seed, size in enumerate(sizes)
        for torus in (TORUS, Torus((8, 8)), Torus((4, 16)))
    ]
    assert np.mean(shares) >= 0.8


@pytest.mark.slow
def test_intervals_hold_on_adaptive_networks():
    shares = [
        held(Workload([comm]), torus, "adaptive", seed)
        for seed, comm in enumerate(
            [
                HALO,
                HALO.scaled(4),
                patterns.random_pairs(64, 6, 16_384, seed=3),
                patterns.sub_all_to_all(64, 4096, group=16),
                patterns.halo_2d((8, 8), 50_000, periodic=True),
            ]
        )
        for torus in (TORUS, Torus((8, 8)), Torus((4, 16)))
    ]
    assert np.mean(shares) >= 0.8


def test_what_a_model_never_saw_is_named_and_widens_its_intervals():
    maps = strategies.sample(HALO, TORUS, 8, seed=4)
    plain = forecast(HALO, TORUS, maps, budget=0)
    assert plain.unlearned == ()
    twice = forecast(Workload([HALO, HALO], dependent=True), TORUS, maps, budget=0)
    assert twice.unlearned == (ROUNDS,)
    width = np.log(plain.table["high"] / plain.table["low"]).median()
    assert np.log(twice.table["high"] / twice.table["low"]).median() > 1.5 * width
    assert twice.verdict.kind == "open"


def test_kinds_of_traffic():
    model = load_predictor("default")
    for workload, routing, kinds in (
        (Workload([HALO]), "deterministic", ()),
        (Workload([HALO] * 2), "deterministic", (PHASES,)),
        (Workload([HALO] * 2, dependent=True), "adaptive", (ROUNDS, ADAPTIVE)),
        (Workload([HALO], dependent=True), "by_size", ()),
    ):
        assert kinds_of(workload, TORUS, routing) == kinds
        assert unlearned_kinds(model, workload, TORUS, routing) == kinds


def test_a_model_of_ones_own_warns_of_kinds_that_it_never_saw(tmp_path):
    trained = train_for(HALO, TORUS, 12, n_splits=2, store_path=tmp_path / "s.parquet")
    assert trained.samples.attrs["provenance"]["kinds"] == []
    maps = strategies.sample(HALO, TORUS, 8, seed=4)
    rounds = Workload([HALO, HALO], dependent=True)
    with pytest.warns(UserWarning, match="learned from no dependent rounds"):
        forecast(rounds, TORUS, maps, model=trained.model, budget=0)
    # A table that grows tells all its kinds.
    both = build_samples([(rounds, TORUS, maps[:2])], tmp_path / "s.parquet", level=2)
    assert both.attrs["provenance"]["kinds"] == [ROUNDS]


def test_residuals_are_stored_by_their_quantiles():
    rng = np.random.default_rng(1)
    groups = [rng.normal(rng.normal(0.2, 0.3), 0.1, 12) for _ in range(80)]
    found = residuals(groups)
    again = Residuals.from_json(found.to_json())
    assert again.calibration.deviations.size == 200
    assert again.centre == pytest.approx(found.centre, abs=1e-4)
    assert again.calibration.quantile(0.9) == pytest.approx(found.calibration.quantile(0.9), 0.03)
    assert found.calibration.common.std() == pytest.approx(0.3, rel=0.3)
    assert found.calibration.deviations.std() == pytest.approx(0.1, rel=0.1)
