"""Laws of the packet simulator, on random tori, networks and traffic."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_cases import examples, graphs, mapped, simulated_networks, tori, twisted

from toruscast._features import RoutedTraffic
from toruscast.mapping import CommGraph, MappingProblem, Network, TaskMapping, Torus, Workload
from toruscast.mapping.patterns import all_to_all, halo_3d
from toruscast.routing import dilations, link_loads
from toruscast.routing.messages import list_messages, packet_counts
from toruscast.simulation import setup, simulate
from toruscast.simulation import simulator as running
from toruscast.simulation import state as records
from toruscast.simulation.loop_kernels import run, start
from toruscast.simulation.setup import build_state
from toruscast.simulation.simulator import SEED_STEP

ROUTINGS = ["deterministic", "adaptive"]
routing = st.sampled_from(ROUTINGS)
FIXED_TIES = ["plus", "source_parity", "sum_parity", "simgrid"]
NEVER = 2**62


@st.composite
def simulated(draw, max_nodes=30, networks=simulated_networks):
    """Graph, torus, twisted now and then, and mapping."""
    network = draw(networks())
    plain = tori(max_nodes=max_nodes, max_dimensions=3, network=network)
    torus = draw(st.one_of(plain, plain, plain, twisted(network)))
    mapping = draw(mapped(torus))
    return draw(graphs(mapping.n_tasks, 25)), torus, mapping


def credits_of(state):
    """Free bytes of every channel."""
    names = ("second_credit", "adaptive_credit")
    return [state.links.link["credit"], *(state.links.extra[name] for name in names)]


def asking(comm, torus, mapping):
    """Edges whose messages first ask their receivers."""
    messages = np.rint(comm.n_messages)
    size = comm.nbytes / np.maximum(messages, 1)
    remote = dilations(MappingProblem(comm, torus), mapping) > 0
    return (size > torus.network.eager_limit) & (messages > 0) & remote


def expected_loads(comm, torus, mapping):
    """Packets and bytes of every link in dimension order, questions and answers included."""
    packets, wire = packet_counts(MappingProblem(comm, torus))
    asks = asking(comm, torus, mapping)
    src, dst = comm.src[asks], comm.dst[asks]
    shakes = sum(
        link_loads(MappingProblem(CommGraph(comm.n_tasks, a, b, np.ones(a.size)), torus), mapping)
        for a, b in ((src, dst), (dst, src))
    )
    return (
        link_loads(MappingProblem(comm, torus), mapping, packets) + shakes,
        link_loads(MappingProblem(comm, torus), mapping, packets * wire)
        + torus.network.header * shakes,
    )


@examples(60)
@given(simulated(), routing)
def test_link_bytes_are_hop_bytes(case, routing):
    comm, torus, mapping = case
    result = simulate(comm, torus, mapping, routing=routing)
    packets, wire_bytes = expected_loads(comm, torus, mapping)
    # Minimal routes whatever the routing: each packet crosses as many links as its ends are apart.
    hops = dilations(MappingProblem(comm, torus), mapping)
    count, each = packet_counts(MappingProblem(comm, torus))
    asks = asking(comm, torus, mapping)
    assert result.packet_hops == (hops * (count + 2 * asks)).sum()
    hop_bytes = (hops * (count * each + 2 * asks * torus.network.header)).sum()
    assert result.wire_bytes.sum() == pytest.approx(hop_bytes, rel=1e-6)
    assert not result.packets[~torus.link_exists].any()
    if routing == "adaptive":
        return
    if torus.tie_break in FIXED_TIES:
        np.testing.assert_array_equal(result.packets, packets)
        np.testing.assert_allclose(result.wire_bytes, wire_bytes, rtol=1e-6, atol=1e-6)
    else:
        # Half of a tie is expected on each way: at most all of it comes.
        assert (result.packets <= 2 * packets + 1e-6).all()
        assert (result.wire_bytes <= 2 * wire_bytes * (1 + 1e-6) + 1e-6).all()


@examples(60)
@given(simulated(), routing, st.sampled_from([1, 3]))
def test_everything_is_received_once_and_comes_to_rest(case, routing, coarsening):
    comm, torus, mapping = case
    messages = list_messages(MappingProblem(comm, torus), mapping, coarsening)
    state, _ = build_state(messages, 1, torus, mapping, routing)
    room = [credit.copy() for credit in credits_of(state)]
    start(state)
    assert not run(state, NEVER, NEVER)
    # No packet is missing, none came twice: each slot is free once.
    assert not state.packets.receipt["left"].any()
    # Packets that wait for a reception port are not counted again.
    assert state.events.clock[records.HOPS] == state.links.counter["packets"].sum()
    assert state.events.clock[records.N_FREE_SLOTS] == state.packets.free.size
    assert sorted(state.packets.free.tolist()) == list(range(state.packets.free.size))
    assert not state.links.link["occupied"].any()
    assert not state.links.link["lanes"].any()
    assert not state.packets.fifo["busy"].any()
    assert not state.packets.filling["length"].any()
    for a, b in zip(room, credits_of(state), strict=True):
        np.testing.assert_array_equal(a, b)


@examples(60)
@given(st.data(), routing)
def test_buffers_never_hold_more_than_their_places(data, routing):
    # Full packets only, whose number is a matter of bytes too.
    network = Network(
        payload=64,
        overhead=0.0,
        buffer_packets=data.draw(st.integers(2, 4)),
        deadlock=data.draw(st.sampled_from(["bubble", "dateline"])),
    )
    torus = data.draw(tori(max_nodes=16, max_dimensions=2, network=network))
    mapping = data.draw(mapped(torus))
    nbytes = st.sampled_from([64.0, 640.0, 6400.0])
    comm = data.draw(graphs(mapping.n_tasks, 60, nbytes, st.just(1.0)))
    result = simulate(comm, torus, mapping, routing=routing)
    channels = 1 + (network.deadlock == "dateline") + (routing == "adaptive")
    assert (result.max_buffered <= channels * network.buffer_packets).all()


@examples(60)
@given(simulated(), st.sampled_from([*FIXED_TIES, "random", "booksim"]), routing)
def test_no_run_beats_the_bounds(case, tie, routing):
    comm, torus, mapping = case
    if not torus.twist:
        torus = replace(torus, tie_break=tie)
    time, least = time_and_least([comm], torus, mapping, routing)
    assert time >= least


@examples(60)
@given(st.data(), st.sampled_from([*FIXED_TIES, "random", "booksim"]), routing)
def test_no_rounds_beat_the_bounds(data, tie, routing):
    network = data.draw(simulated_networks())
    torus = data.draw(tori(max_nodes=30, max_dimensions=3, network=network))
    mapping = data.draw(mapped(torus))
    rounds = [data.draw(graphs(mapping.n_tasks, 20)) for _ in range(3)]
    time, least = time_and_least(rounds, replace(torus, tie_break=tie), mapping, routing)
    assert time >= least


def time_and_least(rounds, torus, mapping, routing):
    """The simulated time, and the most that a resource, or the release of messages, needs."""
    traffic = RoutedTraffic(
        MappingProblem(Workload(rounds, dependent=len(rounds) > 1), torus, routing), mapping, 1
    )
    least = traffic.sure
    strict = [least.injection, least.reception, least.latency, least.total]
    # An even split is an estimate, an expected load too.
    if routing == "deterministic" and torus.tie_break in FIXED_TIES:
        strict.append(least.link)
    return traffic.simulation.time, max(strict)


@examples(40)
@given(simulated(), routing, st.sampled_from([0.25, 2.0, 64.0]))
def test_time_scales_with_its_unit(case, routing, faster):
    comm, torus, mapping = case
    before = simulate(comm, torus, mapping, routing=routing)
    network = torus.network
    quick = replace(
        torus,
        bandwidth=[faster * b for b in torus.bandwidth],
        network=replace(
            network,
            memory_bandwidth=faster * network.memory_bandwidth,
            hop_latency=network.hop_latency / faster,
            overhead=network.overhead / faster,
            short_overhead=network.short_overhead / faster,
        ),
    )
    after = simulate(comm, quick, mapping, routing=routing)
    np.testing.assert_allclose(after.message_times[0], before.message_times[0] / faster, 1e-12)
    np.testing.assert_allclose(after.delay, before.delay / faster, 1e-12)


@examples(30)
@given(simulated(), routing, st.booleans(), st.data())
def test_looking_on_changes_nothing(case, routing, dependent, data):
    comm, torus, mapping = case
    traffic = Workload([comm, comm], dependent=dependent)
    plain = simulate(traffic, torus, mapping, routing=routing)
    interval = max(plain.time, 1e-9) / data.draw(st.sampled_from([0.5, 3.0, 7.7, 100.0]))
    watched = simulate(
        traffic,
        torus,
        mapping,
        routing=routing,
        interval=interval,
        progress=lambda *_: None,
    )
    assert watched.time == plain.time
    for a, b in zip(watched.message_times, plain.message_times, strict=True):
        np.testing.assert_array_equal(a, b)
    for counter in ("packets", "wire_bytes", "max_buffered", "buffered_seconds"):
        np.testing.assert_array_equal(getattr(watched, counter), getattr(plain, counter))


@examples(30)
@given(simulated(), routing, st.integers(1, 9))
def test_slices_change_nothing(case, routing, budget):
    comm, torus, mapping = case
    whole = simulate(comm, torus, mapping, routing=routing, seed=0)
    messages = list_messages(MappingProblem(comm, torus), mapping, 1)
    state, tick = build_state(messages, 1, torus, mapping, routing)
    start(state)
    while run(state, NEVER, budget):
        pass
    finish = whole.message_times[0][messages.edge]
    np.testing.assert_array_equal(
        state.packets.receipt["finish"][: messages.edge.size] * tick, finish
    )


@examples(30)
@given(simulated(), routing, st.integers(1, 2**31))
def test_the_seed_is_of_random_ties_and_of_channels_with_datelines_only(case, routing, seed):
    comm, torus, mapping = case
    first = simulate(comm, torus, mapping, routing=routing)
    second = simulate(comm, torus, mapping, routing=routing, seed=seed)
    np.testing.assert_array_equal(
        first.packets.reshape(-1, torus.ndim, 2).sum(axis=(0, 2)),
        second.packets.reshape(-1, torus.ndim, 2).sum(axis=(0, 2)),
    )
    # Half way round, BookSim's adaptive packets draw the way that they take for want of room.
    ties = torus.tie_break == "booksim" or (
        torus.tie_break == "random" and routing == "deterministic"
    )
    if not ties and torus.network.deadlock != "dateline":
        np.testing.assert_array_equal(first.message_times[0], second.message_times[0])
        np.testing.assert_array_equal(first.packets, second.packets)


def test_with_datelines_seeds_draw_channels():
    torus = Torus(8, tie_break="plus", network=Network(deadlock="dateline", buffer_packets=1))
    mapping = TaskMapping(np.arange(8), torus)
    comm = all_to_all(8, 512.0 * 9)
    results = [simulate(comm, torus, mapping, seed=seed) for seed in range(5)]
    assert len({result.time for result in results}) > 1
    for result in results:
        np.testing.assert_array_equal(result.packets, results[0].packets)


def test_random_ties_go_either_way():
    # 1000 packets: a fair coin gives 500 +- 16, and another one for each seed.
    torus = Torus(8, tie_break="random")
    comm = CommGraph(2, [0], [1], [512 * 1000])
    counts = set()
    for seed in range(5):
        result = simulate(comm, torus, TaskMapping([0, 4], 8), seed=seed)
        plus, minus = result.packets[:2].tolist()
        assert plus + minus == 1000
        assert abs(plus - 500) < 5 * 16
        counts.add(plus)
    assert len(counts) > 1


def test_random_ties_go_either_way_in_every_phase():
    torus = Torus(8, tie_break="random")
    phases = Workload([CommGraph(2, [0], [1], [512])] * 100)
    plus, minus = simulate(phases, torus, TaskMapping([0, 4], 8)).packets[:2].tolist()
    assert plus + minus == 100
    assert abs(plus - 50) < 5 * 5


@examples(25)
@given(st.data(), routing)
def test_phases_add_up(data, routing):
    network = data.draw(simulated_networks())
    torus = data.draw(tori(max_nodes=30, max_dimensions=3, network=network))
    mapping = data.draw(mapped(torus))
    phases = [data.draw(graphs(mapping.n_tasks, 20)) for _ in range(3)]
    whole = simulate(Workload(phases), torus, mapping, routing=routing, seed=0)
    # What is drawn falls anew in each.
    parts = [
        simulate(phase, torus, mapping, routing=routing, seed=i * SEED_STEP % 2**63)
        for i, phase in enumerate(phases)
    ]
    assert whole.phase_times == pytest.approx([part.time for part in parts], rel=1e-12)
    assert whole.time == pytest.approx(sum(part.time for part in parts), rel=1e-12)
    for counter in ("packets", "wire_bytes", "buffered_seconds"):
        total = sum(getattr(part, counter) for part in parts)
        np.testing.assert_allclose(getattr(whole, counter), total, 1e-12)
    most = np.max([part.max_buffered for part in parts], axis=0)
    np.testing.assert_array_equal(whole.max_buffered, most)


@examples(25)
@given(st.data(), routing)
def test_rounds_send_what_phases_send(data, routing):
    network = data.draw(simulated_networks())
    torus = data.draw(tori(max_nodes=30, max_dimensions=3, network=network))
    torus = replace(torus, tie_break="sum_parity")
    mapping = data.draw(mapped(torus))
    phases = [data.draw(graphs(mapping.n_tasks, 20)) for _ in range(3)]
    barriers = simulate(Workload(phases), torus, mapping, routing=routing)
    rounds = simulate(Workload(phases, dependent=True), torus, mapping, routing=routing)
    assert rounds.packet_hops == barriers.packet_hops
    if routing == "deterministic":
        np.testing.assert_array_equal(rounds.packets, barriers.packets)
    # A round begins when what it waits for has arrived.
    messages = rounds.messages()
    for number in (1, 2):
        before = messages[messages["phase"] == number - 1]
        heard = before.groupby("dst")["arrived"].max()
        mine = messages[messages["phase"] == number]
        needed = mine["src"].map(heard).fillna(0.0)
        assert (mine["handed_over"] >= needed * (1 - 1e-12)).all()


@examples(25)
@given(simulated(), st.integers(1, 50))
def test_coarse_packets_carry_the_same_bytes(case, coarsening):
    comm, torus, mapping = case
    torus = replace(torus, tie_break="plus")
    fine = simulate(comm, torus, mapping)
    coarse = simulate(comm, torus, mapping, coarsening=coarsening)
    np.testing.assert_allclose(coarse.wire_bytes, fine.wire_bytes, rtol=1e-6)


def test_coarse_packets_change_long_messages_little():
    # 1000 packets a message: 250 coarse ones still pipeline and mix as the fine ones do.
    torus = Torus((4, 4, 4))
    comm = halo_3d((4, 4, 4), 512.0 * 1000)
    mapping = TaskMapping(np.random.default_rng(5).permutation(64), torus)
    fine = simulate(comm, torus, mapping)
    coarse = simulate(comm, torus, mapping, coarsening=4)
    assert coarse.time == pytest.approx(fine.time, rel=0.02)


def test_records_fill_a_cache_line():
    assert records.LINK.itemsize == records.MESSAGE.itemsize == 64


@examples(60)
@given(simulated())
def test_the_kernel_of_the_usual_network_does_what_the_other_does(case):
    comm, torus, mapping = case
    usual = simulate(comm, torus, mapping).stretches[0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(setup, "is_special", lambda *_: True)
        other = simulate(comm, torus, mapping).stretches[0]
    for name in ("arrived", "packets", "wire_bytes", "max_packets", "waited", "fifo_waited"):
        np.testing.assert_array_equal(getattr(usual, name), getattr(other, name), err_msg=name)


def test_a_simulation_without_progress_can_be_interrupted(monkeypatch):
    calls = []

    def slice_of(*words):
        calls.append(words)
        if len(calls) > 3:
            raise KeyboardInterrupt
        return run(*words)

    monkeypatch.setattr(running, "_SLICE", 10)
    monkeypatch.setattr(running, "run_events", slice_of)
    torus = Torus(8)
    with pytest.raises(KeyboardInterrupt):
        simulate(all_to_all(8, 4096.0), torus, TaskMapping(np.arange(8), torus))
