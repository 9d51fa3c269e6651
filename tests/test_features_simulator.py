"""The packet simulator against its slow twin, closed forms, and laws of conservation."""

from functools import partial

import naive_simulator
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_cases import cases, graphs, mapped, tori

from toruscast.features import dilations, link_loads, simulate, time_bounds
from toruscast.features.packets import hand_over_times, packet_counts
from toruscast.features.simulator import _clock
from toruscast.mapping import CommGraph, InputError, Network, TaskMapping, Torus, Workload
from toruscast.mapping.patterns import all_to_all, halo_3d

ROUTINGS = ["deterministic", "adaptive"]
routing = st.sampled_from(ROUTINGS)
tiny = partial(tori, max_nodes=30, max_dimensions=3)
exact_ties = partial(tori, max_nodes=30, ties=st.sampled_from(["plus", "source_parity"]))

# One packet of 100 bytes, header included, takes 100 ns on a link and 10 ns to be taken in.
PLAIN = Network(payload=90, header=10, hop_latency=50e-9, buffer_packets=8, fifos=4,
                fifo_rule="first_dimension", overhead=200e-9, memory_bandwidth=10e9)  # fmt: skip
WIRE, TAKEN_IN, LATENCY, OVERHEAD = 100e-9, 10e-9, 50e-9, 200e-9


def plain(shape, **changes):
    return Torus(shape, bandwidth=1e9, network=PLAIN).with_network(**changes)


def run(torus, node, edges, routing="deterministic"):
    """Simulate edges (src, dst, bytes, messages) of tasks on the given nodes."""
    src, dst, nbytes, messages = zip(*edges, strict=True)
    comm = CommGraph(len(node), src, dst, nbytes, messages)
    return simulate(comm, torus, TaskMapping(node, torus), routing=routing)


# Time is whole ticks of 1/4096 of a packet or less: a few of them make no difference of 0.2 %.
about = partial(pytest.approx, rel=2e-3)


@settings(max_examples=60, deadline=None)
@given(cases(tori=tiny, max_edges=25), routing)
def test_kernel_equals_its_twin(case, routing):
    _agrees(*case, routing)


@settings(max_examples=25, deadline=None)
@given(st.data(), routing)
def test_kernel_equals_its_twin_in_a_jam(data, routing):
    # Shallow buffers and many packets at once, so that credits, bubbles and turns decide.
    network = Network(
        payload=64,
        buffer_packets=data.draw(st.integers(2, 3)),
        fifos=4,
        overhead=0.0,
        memory_bandwidth=data.draw(st.sampled_from([1e9, 28e9])),
    )
    torus = data.draw(tori(max_nodes=16, max_dimensions=2, network=network))
    mapping = data.draw(mapped(torus, max_tasks=12))
    nbytes = st.sampled_from([64.0, 640.0, 700.0])
    comm = data.draw(graphs(mapping.n_tasks, 40, nbytes, st.just(1.0)))
    _agrees(comm, torus, mapping, routing)


@pytest.mark.parametrize("routing", ROUTINGS)
def test_kernel_equals_its_twin_in_lock_step(routing):
    # Equal packets, all ready at once: many arrive in the same tick, and the queues' order decides.
    network = Network(payload=64, buffer_packets=2, overhead=0.0, hop_latency=0.0)
    torus = Torus((4, 3), network=network)
    _agrees(all_to_all(12, 128.0), torus, TaskMapping(np.arange(12), torus), routing)


def _agrees(comm, torus, mapping, routing):
    result = simulate(comm, torus, mapping, routing=routing)
    packets, wire = packet_counts(comm, torus)
    remote = (dilations(comm, torus, mapping) > 0) & (packets > 0)
    ready = hand_over_times(comm, torus.network.overhead)[1].max(initial=0.0)
    tick, wheel = _clock(torus, float(wire[remote].max(initial=1.0)), ready)
    times, links = naive_simulator.simulate(comm, torus, mapping, routing, tick, wheel - 1)
    np.testing.assert_allclose(result.message_times[0], times, rtol=1e-12)
    assert result.packets.tolist() == [link.packets for link in links]
    assert result.buffer_length.tolist() == [link.buffer_length for link in links]
    assert result.most_buffered.tolist() == [link.most_buffered for link in links]
    np.testing.assert_allclose(result.wire_bytes, [link.wire_bytes for link in links], rtol=1e-9)


@pytest.mark.parametrize("routing", ROUTINGS)
@pytest.mark.parametrize("hops", [1, 2, 4])
def test_one_packet(hops, routing):
    # Software, then the head crosses each hop, its tail follows, the node takes it in.
    result = run(plain(8), [0, hops], [(0, 1, 90, 1)], routing)
    assert result.time == about(OVERHEAD + hops * LATENCY + WIRE + TAKEN_IN)


@pytest.mark.parametrize("routing", ROUTINGS)
@pytest.mark.parametrize(("hops", "packets"), [(1, 5), (3, 20)])
def test_one_message_of_many_packets(hops, packets, routing):
    # The packets follow one another without a gap; reception, faster, waits for the last only.
    result = run(plain(8), [0, hops], [(0, 1, 90 * packets, 1)], routing)
    assert result.time == about(OVERHEAD + hops * LATENCY + packets * WIRE + TAKEN_IN)
    assert result.packets.reshape(8, 2)[:hops, 0].tolist() == [packets] * hops
    assert result.packet_hops == hops * packets


@pytest.mark.parametrize("bandwidth", [(1e9, 4e9), (4e9, 1e9)])
def test_the_slowest_link_sets_the_pace(bandwidth):
    # Three hops along one dimension, then three along the other: the tail follows the head by the
    # 100 ns of the slower links, whichever come first.
    torus = Torus((8, 8), bandwidth=bandwidth, network=PLAIN)
    result = run(torus, [0, 27], [(0, 1, 90, 1)])
    assert result.time == about(OVERHEAD + 6 * LATENCY + WIRE + TAKEN_IN)


def test_messages_of_one_edge_are_handed_over_together():
    # k messages cost k overheads before the first packet goes.
    result = run(plain(8), [0, 1], [(0, 1, 90 * 6, 3)])
    assert result.time == about(3 * OVERHEAD + LATENCY + 6 * WIRE + TAKEN_IN)


def test_messages_that_share_a_link():
    # Tasks on nodes 0, 1 and 2 send 10 packets each to node 3: the last link carries all 30, from
    # the moment that node 2 is ready on; what comes from nodes 0 and 1 waits in buffers meanwhile.
    result = run(plain(8), [0, 1, 2, 3], [(s, 3, 900, 1) for s in range(3)])
    assert result.time == about(OVERHEAD + LATENCY + 30 * WIRE + TAKEN_IN)
    assert result.packets.reshape(8, 2)[:3, 0].tolist() == [10, 20, 30]


def test_reception_bound():
    # A node slower at taking in (200 ns a packet) than its two links at bringing (100 ns each):
    # the first packet is there after overhead + latency + wire, then all 20 are taken in.
    torus = plain(8, memory_bandwidth=0.5e9)
    result = run(torus, [3, 5, 4], [(0, 2, 900, 1), (1, 2, 900, 1)])
    assert result.time == about(OVERHEAD + LATENCY + WIRE + 20 * 200e-9)


def test_injection_bound():
    # One FIFO for both directions sends one packet at a time; two FIFOs use both links at once.
    edges = [(0, 1, 9000, 1), (0, 2, 9000, 1)]
    one = run(plain(8, fifos=1), [4, 5, 3], edges)
    two = run(plain(8, fifos=2), [4, 5, 3], edges)
    assert one.time == about(OVERHEAD + LATENCY + 200 * WIRE + TAKEN_IN)
    assert two.time == about(2 * OVERHEAD + LATENCY + 100 * WIRE + TAKEN_IN)


def test_message_within_a_node():
    result = run(plain(8), [5, 5], [(0, 1, 9000, 2)])
    assert result.time == about(2 * OVERHEAD + 9000 / 10e9)
    assert result.packet_hops == 0


def test_zero_bytes_send_a_header():
    result = run(plain(8), [0, 1], [(0, 1, 0, 1)])
    assert result.time == about(OVERHEAD + LATENCY + (10 + 1) * 1e-9)
    assert result.packets.sum() == 1


def test_adaptive_routing_uses_both_ways_of_a_tie():
    # Half way round a ring of 8 both ways are minimal: 100 packets take half the time of one way.
    one = run(plain(8), [0, 4], [(0, 1, 9000, 1)])
    both = run(plain(8), [0, 4], [(0, 1, 9000, 1)], "adaptive")
    assert one.packets.reshape(8, 2)[0].tolist() == [100, 0]
    assert both.packets.reshape(8, 2)[[0, 0], [0, 1]].min() >= 40


def test_split_tie_sends_every_other_packet_each_way():
    torus = Torus(8, tie="split")
    result = run(torus, [0, 4], [(0, 1, 512 * 10, 1)])
    assert result.packets.reshape(8, 2)[[0, 4]].tolist() == [[5, 5], [0, 0]]


def test_no_message_takes_no_time():
    torus = plain((4, 4))
    for comm in (CommGraph(1, [], [], []), CommGraph(2, [0, 1], [1, 1], [0, 0], [0, 0.4])):
        result = simulate(comm, torus, TaskMapping(range(comm.n_tasks), torus))
        assert result.time == 0
        assert not result.packets.any()
        assert not result.delay.any()


@settings(max_examples=40, deadline=None)
@given(cases(tori=tiny), routing)
def test_packets_and_bytes_are_conserved(case, routing):
    comm, torus, mapping = case
    result = simulate(comm, torus, mapping, routing=routing)
    packets, wire = packet_counts(comm, torus)
    hops = dilations(comm, torus, mapping)
    # Minimal routes whatever the routing: each packet crosses as many links as its ends are apart.
    assert result.packet_hops == (packets * hops).sum()
    assert result.wire_bytes.sum() == pytest.approx((packets * wire * hops).sum(), rel=1e-6)
    assert ((result.message_times[0] > 0) >= ((packets > 0) & (hops > 0))).all()
    assert (result.most_buffered <= 2 * torus.network.buffer_packets).all()
    assert not result.packets[~torus.link_exists].any()
    if routing == "deterministic" and torus.tie != "split":
        load = link_loads(comm, torus, mapping, packets)
        np.testing.assert_array_equal(result.packets, load)


@settings(max_examples=40, deadline=None)
@given(cases(tori=exact_ties), routing)
def test_no_run_beats_the_bounds(case, routing):
    comm, torus, mapping = case
    result = simulate(comm, torus, mapping, routing=routing)
    bounds = time_bounds(comm, torus, mapping, routing=routing)
    strict = [bounds.injection, bounds.reception, bounds.latency]
    if routing == "deterministic":
        strict += [bounds.link, bounds.total]
    packets, wire = packet_counts(comm, torus)
    ready = hand_over_times(comm, torus.network.overhead)[1].max(initial=0.0)
    tick = _clock(torus, float(wire.max(initial=1.0)), ready)[0]
    # Every delay is rounded to whole ticks.
    rounding = tick * (packets.sum() + torus.diameter + 2)
    assert result.time >= max(strict) * (1 - 1e-6) - rounding


@settings(max_examples=20, deadline=None)
@given(cases(tori=tiny), routing)
def test_a_run_repeats_exactly(case, routing):
    first, second = (simulate(*case, routing=routing) for _ in range(2))
    np.testing.assert_array_equal(first.message_times[0], second.message_times[0])
    np.testing.assert_array_equal(first.buffer_length, second.buffer_length)


@settings(max_examples=20, deadline=None)
@given(cases(tori=exact_ties), st.integers(1, 50))
def test_coarse_packets_carry_the_same_bytes(case, max_packets):
    comm, torus, mapping = case
    fine = simulate(comm, torus, mapping)
    coarse = simulate(comm, torus, mapping, max_packets=max_packets)
    np.testing.assert_allclose(coarse.wire_bytes, fine.wire_bytes, rtol=1e-6)


def test_coarse_packets_change_long_messages_little():
    # 1000 packets a message: 250 coarse ones still pipeline and mix as the fine ones do.
    torus = Torus((4, 4, 4))
    comm = halo_3d((4, 4, 4), 512.0 * 1000)
    mapping = TaskMapping(np.random.default_rng(5).permutation(64), torus)
    fine = simulate(comm, torus, mapping)
    n_packets = int(packet_counts(comm, torus)[0].sum())
    coarse = simulate(comm, torus, mapping, max_packets=n_packets // 4)
    assert coarse.coarsening == 4
    assert coarse.time == pytest.approx(fine.time, rel=0.02)


@pytest.mark.parametrize("tie", ["plus", "source_parity", "split"])
@pytest.mark.parametrize("routing", ROUTINGS)
@pytest.mark.parametrize("shape", [(4,), (5, 4), (8, 2), (3, 4, 4), (16,)])
def test_a_torus_never_stalls(shape, routing, tie):
    # Two packets a buffer, no pause between messages: every ring would fill up without bubbles.
    network = Network(payload=64, buffer_packets=2, overhead=0.0, memory_bandwidth=1e9)
    torus = Torus(shape, tie=tie, network=network)
    comm = all_to_all(torus.n_nodes, 64.0 * 12)
    mapping = TaskMapping(np.arange(torus.n_nodes), torus)
    result = simulate(comm, torus, mapping, routing=routing)
    assert result.packet_hops == 12 * dilations(comm, torus, mapping).sum()


@settings(max_examples=20, deadline=None)
@given(st.data(), routing)
def test_phases_add_up(data, routing):
    torus = data.draw(tiny())
    mapping = data.draw(mapped(torus))
    phases = [data.draw(graphs(mapping.n_tasks)) for _ in range(3)]
    whole = simulate(Workload(phases), torus, mapping, routing=routing)
    parts = [simulate(phase, torus, mapping, routing=routing) for phase in phases]
    assert whole.phase_times == tuple(part.time for part in parts)
    assert whole.time == sum(part.time for part in parts)
    for counter in ("packets", "wire_bytes", "buffer_length"):
        total = sum(getattr(part, counter) for part in parts)
        np.testing.assert_array_equal(getattr(whole, counter), total)
    most = np.max([part.most_buffered for part in parts], axis=0)
    np.testing.assert_array_equal(whole.most_buffered, most)


def test_table_of_links():
    torus = Torus((4, 3), wrap=(False, True))
    result = run(torus, [0, 1], [(0, 1, 5120, 1)])
    table = result.links(torus)
    assert table.index.tolist() == np.flatnonzero(torus.link_exists).tolist()
    assert table["packets"].sum() == 10
    assert table["wire_bytes"].sum() == 5440


def test_a_terabyte_on_one_edge_is_coarsened():
    comm = CommGraph(2, [0], [1], [2e12])
    result = simulate(comm, Torus(4), TaskMapping([0, 1], 4), max_packets=1000)
    assert result.time == pytest.approx(2e12 * 544 / 512 / 2e9, rel=1e-2)


@pytest.mark.parametrize("max_packets", [0, -1, 2**31])
def test_bad_max_packets(max_packets):
    comm = CommGraph(2, [0], [1], [1])
    with pytest.raises(InputError, match="max_packets"):
        simulate(comm, Torus(4), TaskMapping([0, 1], 4), max_packets=max_packets)


def test_bad_routing():
    with pytest.raises(InputError, match="deterministic or adaptive"):
        simulate(CommGraph(2, [0], [1], [1]), Torus(4), TaskMapping([0, 1], 4), routing="x")


def test_software_of_minutes_takes_no_minutes():
    # A billion messages of half a microsecond each keep task 0 busy for 500 seconds.
    comm = CommGraph(2, [0, 1], [1, 0], [1e9, 5], [1e9, 1])
    result = simulate(comm, Torus(2), TaskMapping([0, 1], 2), max_packets=10_000)
    assert result.message_times[0][0] == pytest.approx(500, rel=0.3)
    assert result.message_times[0][0] >= 500
