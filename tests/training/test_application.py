from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import toruscast as tc
from tools import train_default
from toruscast._features import FEATURES, RoutedTraffic
from toruscast._features.reasons import explain
from toruscast.errors import InputError
from toruscast.mapping import (
    CommGraph,
    MappingProblem,
    TaskMapping,
    Torus,
    Workload,
    machines,
    patterns,
    strategies,
)
from toruscast.routing import time_bounds
from toruscast.simulation import simulate
from toruscast.training import FEATURE_SETS, TimePredictor, read_samples

TORUS = Torus((4, 4, 2))
COMM = patterns.halo_3d((4, 4, 2), 4096, corner_nbytes=0)
CANDIDATES = strategies.sample(COMM, TORUS, n=30, seed=5)
LEARNER = TimePredictor("coarse", "correction", n_estimators=40, calibration_folds=4)


@pytest.fixture(scope="module")
def training():
    return tc.train(
        COMM, TORUS, n=60, seed=2, exclude=CANDIDATES, model=LEARNER, n_splits=3, n_jobs=2
    )


def test_every_feature_of_a_set_exists():
    for names in FEATURE_SETS.values():
        assert set(names) <= set(FEATURES)


@pytest.mark.parametrize("name", ["analytic", "relative"])
def test_learned_sets_need_no_simulation(name):
    assert {FEATURES[feature].level for feature in FEATURE_SETS[name]} == {1}


def test_relative_features_have_no_unit():
    # Twice the bytes and bandwidth, and the same number of everything else.
    fast = Torus((4, 4, 2), bandwidth=4e9).with_network(
        payload=1024, header=64, memory_bandwidth=56e9
    )
    names = FEATURE_SETS["relative"]
    slow_table = tc.features(COMM, TORUS, CANDIDATES, features=names)
    fast_table = tc.features(
        CommGraph(32, COMM.src, COMM.dst, 2 * COMM.nbytes), fast, CANDIDATES, features=names
    )
    assert np.allclose(slow_table, fast_table)


def test_training_on_all_features_leaves_labels_and_time_out():
    model = TimePredictor(n_estimators=10, calibration_folds=3)
    found = tc.train(COMM, TORUS, n=20, model=model, n_splits=2)
    assert not {"time", "workload", "mapping", "key"} & set(found.model.feature_names_in_)
    assert len(found.model.predict(found.samples)) == 20


def test_traffic_that_sends_nothing_teaches_nothing():
    with pytest.raises(InputError, match="no times to learn"):
        tc.train(CommGraph(32, [], [], []), TORUS, n=6)


def test_training_keeps_the_candidates_out(training):
    assert len(training.samples) == 60
    placed = [strategies.make(name, COMM, TORUS, seed=2) for name in training.samples["mapping"]]
    keys = {mapping.node.tobytes() for mapping in CANDIDATES}
    assert keys.isdisjoint(mapping.node.tobytes() for mapping in placed)
    assert training.model.provenance_["seed"] == 2
    assert set(training.table["metric"]) == {"rcc", "tau_b", "r2", "regret_1", "regret_5"}


def test_samples_of_a_training_are_kept_where_asked_for(tmp_path):
    model = TimePredictor("prior", n_estimators=5, calibration_folds=0)
    found = tc.train(
        COMM, TORUS, n=9, model=model, n_splits=1, store_path=tmp_path / "samples.parquet"
    )
    pd.testing.assert_frame_equal(read_samples(tmp_path / "samples.parquet"), found.samples)


def test_the_default_model_learns_from_many_sizes_dimensions_and_messages():
    sizes = [int(np.prod(shape)) for shape in train_default.SHAPES]
    assert (min(sizes), max(sizes)) == (64, 1024)
    assert {len(shape) for shape in train_default.SHAPES} == {2, 3, 4, 5}
    hosts = [(tc.torus(name), n) for name, n in train_default.MACHINES]
    assert {torus.name for torus, _ in hosts} <= set(machines.names())
    tasks = {torus.n_nodes * tasks_per_node for torus, tasks_per_node in hosts}
    assert {n.bit_count() for n in tasks} == {1}
    assert (min(tasks), max(tasks)) == (64, 512)
    comms = [comm for _, comm in train_default.regular(64, 240, np.random.default_rng(1))]
    assert {comm.n_tasks for comm in comms} == {64}
    assert sum(np.unique(comm.nbytes).size > 100 for comm in comms) == 2


def test_the_busiest_link_is_busy_as_long_as_its_bound():
    for mapping in CANDIDATES[:5]:
        problem = MappingProblem(COMM, TORUS)
        why = explain(problem, mapping)
        busy = why.links["busy"].iloc[0]
        assert busy == pytest.approx(time_bounds(problem, mapping).link)
        # This one allows half a tick for each event.
        assert 0.998 * busy <= why.bounds["link"] <= busy


def test_the_hottest_links_count_bytes_without_headers():
    # Of eight links that are there one carries 3000 bytes and one 1000, of 500 on average.
    comm = CommGraph(3, [0, 1], [1, 2], [3000, 1000])
    links = explain(MappingProblem(comm, (4,)), TaskMapping([0, 1, 2], 4)).links
    assert links["nbytes"].tolist() == [3000, 1000]
    assert links["over_mean"].tolist() == [6, 2]


@pytest.mark.parametrize("dependent", [False, True])
def test_the_busiest_link_of_phases_routed_differently_is_that_of_the_bounds(dependent):
    torus = Torus((4, 4, 4))
    nodes = np.arange(64)
    short = CommGraph(64, nodes[:-1], nodes[1:], [40_000] * 63)
    long = CommGraph(64, [0], [42], [1_000_000])
    workload = Workload([short, long], dependent=dependent)
    mapping = TaskMapping(np.random.default_rng(1).permutation(64), torus)
    busiest = explain(MappingProblem(workload, torus, "by_size"), mapping).links["busy"].iloc[0]
    bounds = time_bounds(MappingProblem(workload, torus, "by_size"), mapping)
    alone = explain(MappingProblem(long, torus, "adaptive"), mapping).links["busy"].iloc[0]
    assert alone < busiest <= bounds.link
    assert busiest == pytest.approx(bounds.link) or not dependent
    result = simulate(workload, torus, mapping, routing="by_size")
    together = RoutedTraffic(MappingProblem(workload, torus, "by_size"), mapping)
    if not dependent:
        # Of the short ones dimension order tells every link.
        order = simulate(short, torus, mapping).wire_bytes
        routes = RoutedTraffic(MappingProblem(short, torus), mapping).all_wire_bytes
        assert np.allclose(order, routes)
    assert result.wire_bytes.sum() == pytest.approx(together.all_wire_bytes.sum())
