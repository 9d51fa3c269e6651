"""Every named feature: finite on awkward input, and equal to its definition on a worked example."""

import naive
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from random_cases import cases

import toruscast as tc
from toruscast._features import (
    FEATURES,
    RoutedTraffic,
    feature_names,
    register_feature,
    unregister_feature,
)
from toruscast._features.registry import above_mean, near_top
from toruscast.errors import InputError
from toruscast.mapping import (
    CommGraph,
    MappingProblem,
    Network,
    TaskMapping,
    Torus,
    Workload,
    patterns,
)
from toruscast.routing import time_bounds
from toruscast.simulation import simulate

PUBLISHED = [
    "max_dilation",
    "avg_bytes",
    "max_bytes",
    "avg_bytes_AO",
    "avg_bytes_TO",
    "avg_buffer",
    "avg_buffer_AO",
    "avg_buffer_TO",
    "avg_delay_AO",
    "avg_delay_TO",
    "sum_dilation_AO",
    "sum_hops_AO",
    "max_FIFO",
]
AWKWARD = {
    "one task": (CommGraph(1, [0], [0], [5]), Torus((1,)), [0]),
    "no edge": (CommGraph(3, [], [], []), Torus((2, 3)), [0, 1, 2]),
    "no link": (CommGraph(2, [0], [1], [5]), Torus((1, 1)), [0, 0]),
    "no message": (CommGraph(2, [0], [1], [0], [0]), Torus((4,)), [0, 2]),
    "zero bytes": (CommGraph(2, [0, 1], [1, 0], [0, 0]), Torus((4,)), [0, 2]),
    "all within a node": (CommGraph(2, [0, 1], [1, 0], [9, 9]), Torus((4,)), [3, 3]),
    "ring of two": (CommGraph(2, [0, 1], [1, 0], [9, 9]), Torus((2,)), [0, 1]),
    "mesh of one": (CommGraph(2, [0, 1], [1, 0], [9, 9]), Torus((1, 3), False), [0, 2]),
    "half a byte": (CommGraph(2, [0], [1], [0.5], [0.6]), Torus((5,)), [0, 2]),
}


@pytest.fixture
def own_name():
    yield "own_feature"
    unregister_feature("own_feature")


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("routing", ["deterministic", "adaptive"])
@pytest.mark.parametrize("case", AWKWARD)
def test_every_feature_is_finite_on_awkward_input(case, routing, level):
    comm, torus, node = AWKWARD[case]
    mapping = TaskMapping(node, torus, tasks_per_node=len(node))
    table = tc.features(comm, torus, [mapping], level=level, routing=routing)
    assert np.isfinite(table.to_numpy()).all()
    assert (table.to_numpy() >= 0).all()
    expected = [*feature_names(level), *(["time"] if level == 2 else [])]
    assert table.columns.tolist() == expected


@settings(max_examples=40, deadline=None)
@given(cases(), st.sampled_from(["deterministic", "adaptive"]))
def test_every_feature_is_finite_on_random_input(case, routing):
    comm, torus, mapping = case
    row = tc.features(comm, torus, [mapping], level=2, routing=routing).iloc[0]
    assert np.isfinite(row).all()
    for name, share in row.items():
        if name.endswith("_share") and routing == "deterministic":
            assert 0 <= share <= 1 + 1e-9, name


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(0, 1e6).map(lambda v: round(v, 3)), max_size=30))
@example([100.0, 95.0, 94.0])
def test_outliers_equal_their_twins(values):
    array = np.array(values)
    if len(set(values)) != 1:
        mean = array.mean() if values else 0.0
        assert array[above_mean(array, mean)].tolist() == naive.average_outliers(values)
    assert array[near_top(array)].tolist() == naive.top_outliers(values)


@pytest.mark.parametrize("value", [0.1, 3.3, 1e-3, 7.0])
@pytest.mark.parametrize("count", [3, 10, 384])
def test_equal_values_have_no_average_outliers(value, count):
    # The floating-point mean of equal values may fall below them.
    equal = np.full(count, value)
    assert not above_mean(equal, equal.mean()).any()


@settings(max_examples=40, deadline=None)
@given(cases())
def test_indicators_equal_their_twins(case):
    comm, torus, mapping = case
    traffic = RoutedTraffic(MappingProblem(comm, torus), mapping)
    ends = [(a, b) for a, b, _, _ in naive.edges(comm, mapping)]
    load = naive.link_loads(torus, ends, comm.nbytes.tolist())
    if torus.tie_break != "split":
        total, most = naive.path_sums(torus, ends, load)
        twin = max(total, default=0.0), sum(total), sum(most)
        np.testing.assert_allclose(traffic.along_routes, twin, rtol=1e-11)
    length = [0.0] * (torus.n_nodes * torus.network.fifos)
    for e, fifo in enumerate(naive.fifos(torus, ends, comm.whole_messages == 0)):
        if fifo >= 0:
            length[ends[e][0] * torus.network.fifos + fifo] += comm.n_messages[e]
    np.testing.assert_allclose(traffic.fifo_length, length, rtol=1e-12)


def test_published_features_exist():
    assert set(PUBLISHED) <= set(feature_names())
    assert FEATURES["avg_buffer"].level == 2
    assert FEATURES["avg_bytes"].level == 1


def test_definitions_on_a_worked_example():
    # Ring of 4, a task a node. 0 -> 1: 100 bytes on link 0+. 0 -> 2: half way, from an even node
    # plus: 300 bytes on 0+ and 1+. 3 -> 1: half way, from an odd node minus: 60 bytes on 3-, 2-.
    # 2 -> 2: 40 bytes stay. Links: 400, 300, 60, 60 and four idle ones.
    torus = Torus(4)
    comm = CommGraph(4, [0, 0, 3, 2], [1, 2, 1, 2], [100, 300, 60, 40], [1, 3, 2, 5])
    row = tc.features(comm, torus, [TaskMapping([0, 1, 2, 3], 4)]).iloc[0]
    expected = {
        "max_dilation": 2,
        "avg_dilation": (1 + 2 + 2 + 0) / 4,
        "hop_bytes": 100 + 600 + 120,
        "avg_hops_per_byte": 820 / 500,
        "avg_bytes": 820 / 8,
        "max_bytes": 400,
        "sum_bytes": 820,
        # Above the mean 102.5: 400 and 300. Within 5 % of 400: itself.
        "avg_bytes_AO": 350,
        "avg_bytes_TO": 400,
        "count_bytes_AO": 2,
        "count_bytes_TO": 1,
        "bytes_AO_share": 2 / 8,
        "bytes_TO_share": 1 / 8,
        "median_bytes": 0,
        "q90_bytes": 400,
        "q99_bytes": 400,
        "std_bytes": np.std([400, 300, 60, 60, 0, 0, 0, 0]),
        "idle_links": 4 / 8,
        "max_over_avg_bytes": 400 / 102.5,
        "std_over_avg_bytes": np.std([400, 300, 60, 60, 0, 0, 0, 0]) / 102.5,
        # Hops 1, 2, 2 over the network; above their mean: 2 and 2.
        "sum_dilation_AO": 4,
        "sum_hops_AO": 4,
        # FIFO A+ of node 0: 1 + 3 messages; FIFO A- of node 3: 2. Four nodes of 10 FIFOs.
        "max_FIFO": 4,
        "sum_FIFO": 6,
        "avg_FIFO": 6 / 40,
        "avg_FIFO_AO": 3,
        "avg_FIFO_TO": 4,
        "max_over_avg_FIFO": 4 / (6 / 40),
        "off_node_bytes_share": 460 / 500,
        # Sums along the routes: 400; 400 + 300; 60 + 60.
        "max_path_bytes": 700,
        "avg_path_bytes": (400 + 700 + 120) / 3,
        "avg_bottleneck_bytes": (400 + 400 + 60) / 3,
        "path_over_max_bytes": 700 / 400,
        "bottleneck_over_max_bytes": (400 + 400 + 60) / 3 / 400,
        "relative_max_dilation": 1,
        # Mean distance of two random nodes of a ring of 4: (0 + 1 + 2 + 1) / 4.
        "relative_hops": 820 / 500,
    }
    for name, value in expected.items():
        assert row[name] == pytest.approx(value), name


def test_hops_are_relative_to_the_mean_distance_of_this_torus():
    # Two random nodes of a line of 3 are (0 + 1 + 2 + 1 + 0 + 1 + 2 + 1 + 0) / 9 = 8 / 9 apart, of
    # a ring of 4 one; the only message goes three hops.
    torus = Torus((3, 4), wrap=(False, True))
    comm = CommGraph(2, [0], [1], [10])
    row = tc.features(comm, torus, [TaskMapping([0, 11], torus)]).iloc[0]
    assert row["relative_hops"] == pytest.approx(3 / (8 / 9 + 1))


def test_bounds_and_their_shares():
    # One dimension is half as fast as the other: no two bounds are the same.
    torus = Torus((4, 4), bandwidth=(1e9, 2e9))
    comm = patterns.random_pairs(16, 5, 20_000, seed=1)
    mapping = TaskMapping(range(16), torus)
    row = tc.features(comm, torus, [mapping], level=2).iloc[0]
    bounds = time_bounds(MappingProblem(comm, torus), mapping)
    assert len(set(bounds[:4])) == 4
    for name, seconds in bounds._asdict().items():
        if name != "total":
            assert row[f"{name}_bound"] == seconds
            assert row[f"{name}_share"] == pytest.approx(seconds / bounds.total)
    assert row["lower_bound"] == bounds.total
    sketch = simulate(comm, torus, mapping, coarsening=4).time
    assert row["coarse_time"] == sketch
    assert row["coarse_slowdown"] == pytest.approx(sketch / bounds.total)


def test_simulated_features_are_aggregates_of_the_counters():
    rng = np.random.default_rng(3)
    torus = Torus((4, 4))
    comm = CommGraph(16, np.arange(16), rng.permutation(16), np.full(16, 20000.0))
    mapping = TaskMapping(rng.permutation(16), torus)
    row = tc.features(comm, torus, [mapping], level=2).iloc[0]
    result = simulate(comm, torus, mapping)
    buffer, packets = result.buffered_seconds.tolist(), result.packets.tolist()
    delay = [b / p if p else 0.0 for b, p in zip(buffer, packets, strict=True)]
    for name, values in (("buffer", buffer), ("delay", delay)):
        assert row[f"avg_{name}"] == pytest.approx(naive.mean(values))
        assert row[f"avg_{name}_AO"] == pytest.approx(naive.mean(naive.average_outliers(values)))
        assert row[f"avg_{name}_TO"] == pytest.approx(naive.mean(naive.top_outliers(values)))
    assert row["time"] == result.time


def test_packets_are_counted_alike_under_every_mapping():
    # However many packets the time asks for, 3000 a message are counted as 1500.
    torus = Torus((4, 4), network=Network(buffer_packets=8))
    comm = CommGraph(16, np.arange(16), np.roll(np.arange(16), 3), np.full(16, 512 * 3000))
    near, far = (
        TaskMapping(range(16), torus),
        TaskMapping(np.random.default_rng(2).permutation(16), torus),
    )
    for mapping in (near, far):
        traffic = RoutedTraffic(MappingProblem(comm, torus), mapping)
        assert traffic.counted.coarsening == 2
        counts = simulate(comm, torus, mapping, coarsening=2).buffered_seconds
        assert np.array_equal(traffic.buffer_length, counts[torus.link_exists])
    short = RoutedTraffic(MappingProblem(comm.scaled(1 / 4), torus), near)
    assert short.counted.coarsening == 1
    assert short.simulation is short.counted


@pytest.mark.parametrize(
    ("packets", "merged"), [(1, 1), (2, 4), (256, 4), (319, 4), (320, 5), (8192, 128)]
)
def test_a_sketch_of_long_messages_costs_no_more(packets, merged):
    comm = CommGraph(2, [0, 1], [1, 0], [512, 512 * packets])
    torus, mapping = Torus((4,)), TaskMapping([0, 1], 4)
    traffic = RoutedTraffic(MappingProblem(comm, torus), mapping)
    assert traffic.coarse.coarsening == merged
    assert traffic.coarse.packets.max() == -(-packets // merged) <= 80


def test_a_single_long_message_leaves_the_sketch_as_fine():
    torus, mapping = Torus((4, 4)), TaskMapping(range(16), 16)
    halo = patterns.halo_2d((4, 4), 512 * 300, periodic=True)
    long = CommGraph(16, [0], [5], [512 * 8192])
    traffic = RoutedTraffic(MappingProblem(Workload([halo, long]), torus), mapping)
    assert traffic.coarse.coarsening == 4
    many = RoutedTraffic(MappingProblem(Workload([halo, long, long, long]), torus), mapping)
    assert many.coarse.coarsening == 8192 // 64


@pytest.mark.parametrize("routing", ["deterministic", "adaptive"])
def test_of_single_packets_the_sketch_is_the_simulation(routing):
    """Merging such packets changes nothing, so samples of versions that merged them are valid."""
    torus = Torus((4, 4, 2)).with_network(buffer_packets=2)
    comm = patterns.random_pairs(64, 9, 500, seed=4)
    for seed in range(3):
        mapping = TaskMapping(np.random.default_rng(seed).permutation(64) % 32, torus)
        traffic = RoutedTraffic(MappingProblem(comm, torus, routing), mapping)
        assert traffic.coarse_factor == 1
        assert traffic.coarse.time == traffic.simulation.time
        merged = simulate(comm, torus, mapping, routing=routing, coarsening=4)
        assert merged.time == traffic.coarse.time


def test_packet_hops_are_those_of_a_simulation():
    torus = Torus((3, 4))
    mapping = TaskMapping(np.random.default_rng(3).permutation(12), torus)
    phases = [patterns.halo_2d((3, 4), nbytes, periodic=True) for nbytes in (100, 5000)]
    traffic = RoutedTraffic(MappingProblem(Workload(phases), torus), mapping)
    found = simulate(Workload(phases), torus, mapping)
    assert traffic.packet_hops == found.packets.sum() > 0


def test_packets_too_long_for_the_counters_are_not_made():
    comm = CommGraph(2, [0, 1], [1, 0], [7e10, 7e10])
    traffic = RoutedTraffic(MappingProblem(comm, Torus((8,))), TaskMapping([0, 3], 8))
    assert traffic.counted.coarsening < 7e10 / 512 / 1024
    assert traffic.coarse.coarsening == 2**26 // 544  # bytes that a packet may have


def test_own_feature_in_three_lines(own_name):
    @register_feature("own_feature", unit="B", description="bytes of the idlest link")
    def own_feature(traffic):
        return traffic.link_bytes.min()

    comm, torus, node = AWKWARD["ring of two"]
    table = tc.features(comm, torus, [TaskMapping(node, torus)])
    assert table["own_feature"].tolist() == [0.0]
    assert own_name in feature_names(1)
    with pytest.raises(InputError, match="duplicate"):
        register_feature(own_name)


def test_a_failing_feature_of_ones_own_is_named(own_name):
    register_feature(own_name)(lambda traffic: 1 / 0)
    comm, torus, node = AWKWARD["ring of two"]
    mapping = TaskMapping(node, torus, name="identity")
    with pytest.raises(InputError, match="own_feature failed on mapping identity: found ZeroDiv"):
        tc.features(comm, torus, [mapping], features=[own_name])


@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_a_feature_of_ones_own_is_finite(own_name, value):
    register_feature(own_name)(lambda traffic: value)
    comm, torus, node = AWKWARD["ring of two"]
    mapping = TaskMapping(node, torus, name="identity")
    with pytest.raises(InputError, match=f"is not finite on mapping identity: found {value}"):
        tc.features(comm, torus, [mapping], features=[own_name])


@pytest.mark.parametrize("name", ["", "two words", "1st", "max-bytes", None, 3])
def test_bad_feature_names(name):
    with pytest.raises(InputError, match="bad feature name"):
        register_feature(name)


def test_bad_levels():
    with pytest.raises(InputError, match="level"):
        register_feature("own_feature", level=3)
    comm, torus, node = AWKWARD["ring of two"]
    with pytest.raises(InputError, match="level"):
        tc.features(comm, torus, [TaskMapping(node, torus)], level=0)


def test_unknown_feature_suggests_the_nearest():
    comm, torus, node = AWKWARD["ring of two"]
    with pytest.raises(InputError, match="max_bytes"):
        tc.features(comm, torus, [TaskMapping(node, torus)], features=["max_byte"])


def test_extract_names_rows_and_keeps_the_order_asked_for():
    comm, torus, node = AWKWARD["ring of two"]
    mappings = [TaskMapping(node, torus, name="a"), TaskMapping(node[::-1], torus)]
    table = tc.features(comm, torus, mappings, features=["max_bytes", "avg_buffer", "hop_bytes"])
    assert table.index.tolist() == ["a", "1"]
    assert table.columns.tolist() == ["max_bytes", "avg_buffer", "hop_bytes"]
    threaded = tc.features(comm, torus, mappings, features=list(table.columns), n_jobs=2)
    np.testing.assert_array_equal(table, threaded)
    assert tc.features(comm, torus, []).shape == (0, len(feature_names(1)))


def test_mappings_that_do_not_fit():
    comm, torus, _ = AWKWARD["ring of two"]
    with pytest.raises(InputError, match="does not fit the graph"):
        tc.features(comm, torus, [TaskMapping([0, 1, 1], torus, tasks_per_node=2)])
    with pytest.raises(InputError, match="does not fit the torus"):
        tc.features(comm, torus, [TaskMapping([0, 1], 3)])


def test_phases_count_with_the_sum_of_their_traffic():
    phases = [CommGraph(2, [0], [1], [100]), CommGraph(2, [0, 1], [1, 0], [50, 7])]
    mapping = TaskMapping([0, 1], 4)
    whole = tc.features(Workload(phases), Torus(4), [mapping]).iloc[0]
    assert whole["sum_bytes"] == 157
    assert whole["max_bytes"] == 150
    parts = [tc.features(phase, Torus(4), [mapping]).iloc[0]["lower_bound"] for phase in phases]
    assert whole["lower_bound"] == pytest.approx(sum(parts))
