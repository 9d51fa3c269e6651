"""Intervals of the default model on kinds of traffic that it never saw."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import toruscast as tc
from studies.unseen.graphs import draw
from tools.train_default import Observed, fit_kind, to_json
from toruscast._features import RoutedTraffic
from toruscast.answers.rank import describe_confidence
from toruscast.decision import plan
from toruscast.mapping import (
    CommGraph,
    MappingProblem,
    TaskMapping,
    Torus,
    Workload,
    patterns,
    strategies,
)
from toruscast.training import TimePredictor, build_samples, save_predictor
from toruscast.training.default_model import (
    ADAPTIVE,
    COVARIATES,
    ONE_EXCHANGE,
    PHASES,
    ROUNDS,
    SEVERAL,
    SHORT,
    DefaultModel,
    classify_traffic,
    load_default,
    scale_of_log_ratio,
)

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
    answer = tc.rank(workload, torus, maps, routing=routing, budget=0, check=True)
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


def test_intervals_are_as_wide_as_messages_wait():
    maps = strategies.sample(HALO, TORUS, 8, seed=4)
    width = []
    for nbytes in (1024, 8192, 65_536):
        halo = patterns.halo_3d((4, 4, 4), nbytes, periodic=True)
        table = tc.rank(halo, TORUS, maps, budget=0).table
        width.append(float(np.log(table["high"] / table["low"]).median()))
    assert width[0] < 0.8 * width[1] < width[2]


def test_each_kind_of_traffic_has_intervals_of_its_own():
    kinds = load_default().kinds
    assert {ONE_EXCHANGE, ROUNDS, PHASES, ADAPTIVE, SHORT, SEVERAL} == set(kinds)
    maps = strategies.sample(HALO, TORUS, 8, seed=4)
    assert tc.rank(HALO, TORUS, maps, budget=0).unseen_traffic == ()
    # The second round sends elsewhere, so that the two may overlap or not.
    other = patterns.random_pairs(64, 6, 16_384, seed=3)
    apart = tc.rank(Workload([HALO, other], dependent=True), TORUS, maps, budget=0)
    barriers = tc.rank(Workload([HALO, other]), TORUS, maps, budget=0)
    width = np.log(barriers.table["high"] / barriers.table["low"]).median()
    assert np.log(apart.table["high"] / apart.table["low"]).median() > 1.05 * width
    assert apart.verdict.kind == "undecided"
    assert apart.unseen_traffic == ()


def test_a_kind_never_seen_gets_the_widest_intervals_and_a_sentence():
    model = load_default()
    rounds = Workload([HALO, HALO], dependent=True)
    maps = strategies.sample(HALO, TORUS, 8, seed=4)
    kept = {name: kind for name, kind in model.kinds.items() if name != ADAPTIVE}

    def ask(kinds):
        return tc.rank(
            rounds, TORUS, maps, model=replace(model, kinds=kinds), routing="adaptive", budget=0
        )

    found = ask(kept)
    assert found.unseen_traffic == (ADAPTIVE,)
    assert f"not trained on {ADAPTIVE}" in " ".join(describe_confidence(found))
    pairs = [ask({ROUNDS: kept[ROUNDS], ADAPTIVE: kind}) for kind in kept.values()]
    widest = max((pair.table["high"] for pair in pairs), key=sum)
    np.testing.assert_array_equal(found.table["high"], widest)
    assert pairs[0].unseen_traffic == ()
    assert "not trained on" not in " ".join(describe_confidence(pairs[0]))


@pytest.mark.slow
def test_intervals_hold_on_phases_of_adaptive_networks():
    rng = np.random.default_rng(3)
    shares = []
    for kind in ("unstructured mesh", "octree", "transposes", "butterfly", "power law"):
        workload = Workload([draw(kind, 64, 512.0, 24.0, rng) for _ in range(3)])
        shares += [held(workload, torus, "adaptive", 5) for torus in (TORUS, Torus((8, 8)))]
    assert np.mean(shares) >= 0.85
    assert min(shares) >= 0.75


def test_candidates_are_in_the_order_of_their_release_bounds():
    maps = strategies.sample(HALO, TORUS, 12, seed=4)
    for routing in ("deterministic", "adaptive"):
        table = tc.rank(HALO, TORUS, maps, routing=routing, budget=0).table.set_index("mapping")
        bound = [
            RoutedTraffic(MappingProblem(HALO, TORUS, routing), each).release_bound
            for each in sorted(maps, key=lambda each: list(table.index).index(each.name))
        ]
        # Times that people read as equal are led by the mapping that loads the network least.
        assert (np.diff(bound[1:]) >= -1e-12).all()
        assert bound[0] <= min(bound) * 1.01
        ratio = table["time"] / bound
        np.testing.assert_allclose(ratio, ratio.iloc[-1], rtol=0.02)


def test_the_order_by_the_bound_stands_beside_that_of_a_model_of_ones_own(tmp_path):
    maps = strategies.sample(HALO, TORUS, 12, seed=4)
    table = build_samples([(HALO, TORUS, maps)], level=1)
    # This model has learned that times fall with the bound.
    model = TimePredictor(["release_bound"], n_estimators=30)
    model.fit(table, 1 / table["release_bound"])
    held = model.provenance_["held_out_rcc"]
    assert held["model"] > 0.8 > 0.2 > held["release_bound"]
    path = tmp_path / "model.npz"
    save_predictor(model, path)
    found = tc.rank(HALO, TORUS, maps, model=str(path), budget=0)
    bounds = found.table.set_index("mapping")["release_bound"]
    assert found.table["mapping"].iloc[0] == bounds.idxmax()
    assert found.physical.first == bounds.idxmin()
    assert found.physical.held_out == held
    assert "favours the model" in " ".join(describe_confidence(found))
    model.provenance_.pop("held_out_rcc")
    unscored = tc.rank(HALO, TORUS, maps, model=model, budget=0)
    assert "no held-out scores" in " ".join(describe_confidence(unscored))
    assert tc.rank(HALO, TORUS, maps, budget=0).physical is None


def test_a_long_sweep_is_within_its_intervals():
    """Its rounds follow each other and hardly overlap: its bound is far below its time."""
    sweep, torus = wavefront(16, 16, 65_536.0), Torus((4, 4, 16))
    assert held(sweep, torus, "deterministic", 7) >= 0.8


def test_a_plan_begins_with_the_same_intervals():
    torus = TORUS.with_network(unknown_rules=())
    maps = strategies.sample(HALO, TORUS, 8, seed=4)
    rounds = Workload([HALO, HALO.scaled(0.5)], dependent=True)
    answer = tc.rank(rounds, torus, maps, budget=0).table.set_index("mapping")
    table = plan(rounds, torus, maps, simulate=0).table.set_index("mapping").loc[answer.index]
    np.testing.assert_allclose(table["time"], answer["time"], rtol=1e-9)
    above = answer["low"] > answer["lower_bound"]
    np.testing.assert_allclose(table["low"][above], answer["low"][above], rtol=1e-9)
    np.testing.assert_allclose(table["high"], answer["high"], rtol=1e-9)


def test_how_far_rounds_are_apart():
    line = TaskMapping(range(8), Torus((8,)))
    hops = [CommGraph(8, [i], [i + 1], [5120.0]) for i in range(3)]
    # A chain has no time to overlap in.
    chain = RoutedTraffic(MappingProblem(Workload(hops, dependent=True), Torus((8,))), line)
    assert chain.rounds_apart == pytest.approx(0, abs=1e-9)
    assert RoutedTraffic(MappingProblem(Workload(hops), Torus((8,))), line).rounds_apart == 0
    # Three messages that have nothing to do with each other take as long as one.
    apart = [CommGraph(8, [2 * i], [2 * i + 1], [5120.0]) for i in range(3)]
    free = RoutedTraffic(MappingProblem(Workload(apart, dependent=True), Torus((8,))), line)
    assert free.rounds_apart == pytest.approx(0.99 * np.log(3))
    # Those of single packets do not wait for each other.
    single = [CommGraph(8, each.src, each.dst, [512.0]) for each in apart]
    assert (
        RoutedTraffic(
            MappingProblem(Workload(single, dependent=True), Torus((8,))), line
        ).rounds_apart
        == 0
    )


def test_kinds_of_traffic():
    model = load_default()
    single, double = (
        [TaskMapping(np.arange(64) // each, TORUS, tasks_per_node=each)] for each in (1, 2)
    )
    for workload, routing, maps, kinds in (
        (Workload([HALO]), "deterministic", single, ()),
        (Workload([HALO] * 2), "deterministic", single, (PHASES,)),
        (Workload([HALO] * 2, dependent=True), "adaptive", single, (ROUNDS, ADAPTIVE)),
        (Workload([HALO], dependent=True), "by_size", single, ()),
        (Workload([HALO] * 2), "deterministic", double, (PHASES, SEVERAL)),
        (Workload([patterns.ring(64, 8)]), "adaptive", single, (ADAPTIVE, SHORT)),
        (Workload([patterns.ring(64, 512)]), "deterministic", single, (SHORT,)),
    ):
        assert classify_traffic(MappingProblem(workload, TORUS, routing), maps) == kinds
        assert model.unseen(kinds) == ()


@pytest.mark.filterwarnings("ignore:most mappings are outside")
def test_a_model_of_ones_own_warns_of_kinds_that_it_never_saw(tmp_path):
    trained = tc.train(HALO, TORUS, 12, n_splits=2, store_path=tmp_path / "s.parquet")
    assert trained.samples.attrs["provenance"]["kinds"] == []
    maps = strategies.sample(HALO, TORUS, 8, seed=4)
    rounds = Workload([HALO, HALO], dependent=True)
    for ask in (partial(tc.rank, budget=0), plan):
        with pytest.warns(UserWarning, match="not trained on dependent rounds"):
            ask(rounds, TORUS, maps, model=trained.model)
    double = [TaskMapping(each.node // 2, TORUS, tasks_per_node=2) for each in maps]
    with pytest.warns(UserWarning, match=f"not trained on {SEVERAL}"):
        tc.rank(HALO, TORUS, double, model=trained.model, budget=0)
    # A table that grows tells all its kinds.
    both = build_samples([(rounds, TORUS, maps[:2])], tmp_path / "s.parquet", level=2)
    assert both.attrs["provenance"]["kinds"] == [ROUNDS]


def test_a_kind_of_traffic_is_fitted_and_stored_by_its_quantiles():
    rng = np.random.default_rng(1)
    applications = []
    for number in range(80):
        known = np.zeros((12, len(COVARIATES)))
        known[:, 0] = rng.uniform()
        ratios = rng.normal(rng.normal(1.2, 0.3) + 0.5 * known[:, 0], 0.1)
        applications.append(Observed(ROUNDS, f"graph {number % 10}", known, ratios, np.ones(12)))
    kind = fit_kind(applications, np.ones(len(COVARIATES)))
    assert kind.ratio.slopes == pytest.approx([0.5, 0, 0, 0], abs=0.3)
    typical = float(scale_of_log_ratio(np.array([1.2 + 0.5 * 0.5]))[0])
    assert kind.calibration.common.std() * typical == pytest.approx(0.3, rel=0.3)
    assert kind.calibration.deviations.std() * typical == pytest.approx(0.1, rel=0.3)
    content = {"kinds": {ROUNDS: to_json(kind, applications)}, "provenance": {}}
    again = DefaultModel.from_json(content).kinds[ROUNDS]
    np.testing.assert_array_equal(again.ratio.slopes, kind.ratio.slopes)
    assert again.ratio.level == kind.ratio.level
    assert again.calibration.deviations.size == 200
    assert again.calibration.quantile(0.9) == pytest.approx(kind.calibration.quantile(0.9), 0.03)
