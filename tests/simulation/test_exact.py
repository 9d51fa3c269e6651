"""Times of the packet simulator that follow from the model by hand."""

import numpy as np
import pytest

from toruscast.errors import InputError
from toruscast.mapping import CommGraph, MappingProblem, Network, TaskMapping, Torus, Workload
from toruscast.mapping.patterns import all_to_all
from toruscast.routing import link_loads, time_bounds
from toruscast.simulation import simulate

ROUTINGS = ["deterministic", "adaptive"]

# One packet of 100 bytes, header included, takes 100 ns on a link and 10 ns to be taken in, which
# begins when its head is there: it costs nothing, for the tail comes later.
PLAIN = Network(
    payload=90,
    header=10,
    hop_latency=50e-9,
    buffer_packets=8,
    fifos=4,
    fifo_rule="first_dimension",
    overhead=200e-9,
    memory_bandwidth=10e9,
)
WIRE, LATENCY, OVERHEAD = 100e-9, 50e-9, 200e-9


# Time is whole ticks of 1/1024 of a packet or less.
def approximately(seconds):
    return pytest.approx(seconds, rel=2e-3)


def plain(shape, bandwidth=1e9, tie_break="source_parity", **changes):
    return Torus(shape, bandwidth=bandwidth, tie_break=tie_break, network=PLAIN).with_network(
        **changes
    )


def graph(n_tasks, edges):
    """Edges (src, dst, bytes, messages)."""
    return CommGraph(n_tasks, *zip(*edges, strict=True))


def run(torus, node, edges, routing="deterministic"):
    """Simulate edges of tasks on the given nodes."""
    mapping = TaskMapping(node, torus, tasks_per_node=len(node))
    return simulate(graph(len(node), edges), torus, mapping, routing=routing)


@pytest.mark.parametrize("routing", ROUTINGS)
@pytest.mark.parametrize("hops", [1, 2, 4])
def test_one_packet(hops, routing):
    # Software, then the head crosses each hop, and its tail follows.
    result = run(plain(8), [0, hops], [(0, 1, 90, 1)], routing)
    assert result.time == approximately(OVERHEAD + hops * LATENCY + WIRE)


@pytest.mark.parametrize("routing", ROUTINGS)
@pytest.mark.parametrize(("hops", "packets"), [(1, 5), (3, 20)])
def test_one_message_of_many_packets(hops, packets, routing):
    # The packets follow one another without a gap.
    result = run(plain(8), [0, hops], [(0, 1, 90 * packets, 1)], routing)
    assert result.time == approximately(OVERHEAD + hops * LATENCY + packets * WIRE)
    assert result.packets.reshape(8, 2)[:hops, 0].tolist() == [packets] * hops


@pytest.mark.parametrize("packets", [1, 7])
@pytest.mark.parametrize("bandwidth", [(1e9, 4e9), (4e9, 1e9)])
def test_the_slowest_link_sets_the_pace(bandwidth, packets):
    # Three hops along one dimension, then three along the other. Slow first: a packet's tail comes
    # 100 ns behind its head, and goes on at that rate; slow last: packets wait before the slow
    # link, which sends one after the other from the moment that the first head is there.
    torus = plain((8, 8), bandwidth=bandwidth)
    result = run(torus, [0, 27], [(0, 1, 90 * packets, 1)])
    assert result.time == approximately(OVERHEAD + 6 * LATENCY + packets * WIRE)


def test_messages_of_one_edge_are_handed_over_together():
    # k messages cost k overheads before the first packet goes.
    result = run(plain(8), [0, 1], [(0, 1, 90 * 6, 3)])
    assert result.time == approximately(3 * OVERHEAD + LATENCY + 6 * WIRE)


def test_messages_that_share_a_link():
    # Tasks on nodes 0, 1 and 2 send 10 packets each to node 3: the last link carries all 30, from
    # the moment that node 2 is ready on; what comes from nodes 0 and 1 waits in buffers meanwhile.
    result = run(plain(8), [0, 1, 2, 3], [(s, 3, 900, 1) for s in range(3)])
    assert result.time == approximately(OVERHEAD + LATENCY + 30 * WIRE)
    assert result.packets.reshape(8, 2)[:3, 0].tolist() == [10, 20, 30]


def test_messages_of_one_fifo():
    # Two messages to different nodes along one dimension and direction stand in one FIFO: the
    # second, ready after 2 overheads, follows the first, to the end of which 2000 ns are needed.
    result = run(plain(8), [0, 1, 2], [(0, 1, 90 * 20, 1), (0, 2, 90 * 5, 1)])
    assert result.message_times[0] == approximately(
        [OVERHEAD + LATENCY + 20 * WIRE, OVERHEAD + 2 * LATENCY + 25 * WIRE]
    )


@pytest.mark.parametrize("ports", [1, 2, 4])
def test_reception_bound(ports):
    # A node slower at taking in (200 ns a packet) than its two links at bringing (100 ns each): it
    # begins when the first heads are there and takes in all 20. Of k ports each is k times slower.
    torus = plain(8, memory_bandwidth=0.5e9, reception_ports=ports)
    result = run(torus, [3, 5, 4], [(0, 2, 900, 1), (1, 2, 900, 1)])
    # The second packet of a link comes 100 ns after the first, so that of 4 ports two begin later.
    late = WIRE if ports == 4 else 0.0
    assert result.time == approximately(OVERHEAD + LATENCY + 20 * 200e-9 + late)


def test_injection_bound():
    # One FIFO for both directions sends one packet at a time; two FIFOs use both links at once.
    edges = [(0, 1, 9000, 1), (0, 2, 9000, 1)]
    one = run(plain(8, fifos=1), [4, 5, 3], edges)
    two = run(plain(8, fifos=2), [4, 5, 3], edges)
    assert one.time == approximately(OVERHEAD + LATENCY + 200 * WIRE)
    assert two.time == approximately(2 * OVERHEAD + LATENCY + 100 * WIRE)


def test_message_within_a_node():
    # At memory speed, without packets.
    result = run(plain(8), [5, 5], [(0, 1, 9000, 2)])
    assert result.time == approximately(2 * OVERHEAD + 9000 / 10e9)
    assert result.packet_hops == 0


def test_zero_bytes_send_a_header():
    result = run(plain(8), [0, 1], [(0, 1, 0, 1)])
    assert result.time == approximately(OVERHEAD + LATENCY + 10e-9)
    assert result.packets.sum() == 1


def test_a_short_message_costs_less_software():
    torus = plain(8, short_limit=90, short_overhead=20e-9)
    short = run(torus, [0, 2], [(0, 1, 180, 2)])
    assert short.time == approximately(2 * 20e-9 + 2 * LATENCY + 2 * WIRE)
    long = run(torus, [0, 2], [(0, 1, 91, 1)])
    # A packet of 90 bytes and one of 1: as two of the same length.
    assert long.time == approximately(OVERHEAD + 2 * LATENCY + (91 + 20) * 1e-9)


@pytest.mark.parametrize("hops", [1, 3])
def test_a_long_message_asks_first(hops):
    # The question, a header of 10 bytes, goes to the receiver and the answer comes back.
    torus = plain(8, eager_limit=900)
    eager = run(torus, [0, hops], [(0, 1, 900, 1)])
    assert eager.time == approximately(OVERHEAD + hops * LATENCY + 10 * WIRE)
    asking = run(torus, [0, hops], [(0, 1, 990, 1)])
    round_trip = 2 * (hops * LATENCY + 10e-9)
    assert asking.time == approximately(OVERHEAD + round_trip + hops * LATENCY + 11 * WIRE)
    # As two messages of 495 bytes, six packets each, it needs not ask.
    two = run(torus, [0, hops], [(0, 1, 990, 2)])
    assert two.time == approximately(2 * OVERHEAD + hops * LATENCY + (990 + 12 * 10) * 1e-9)


@pytest.mark.parametrize("senders", [1, 3])
def test_nobody_answers_before_the_round_has_begun(senders):
    # Tasks 2 and on have nothing to do in round 0 and ask at once. Task 1 answers when it begins
    # round 1, that is when it has 20 short messages of 5 packets each, which did not ask. The
    # answers leave one after the other, first to task 2, whose packets use the last link first;
    # those of the tasks behind it follow without a gap.
    torus = plain(16, eager_limit=900)
    others = range(2, 2 + senders)
    phases = [
        graph(5, [(0, 1, 9000, 20)]),
        graph(5, [(other, 1, 1800, 1) for other in others]),
    ]
    mapping = TaskMapping(range(5), torus)
    result = simulate(Workload(phases, dependent=True), torus, mapping)
    begun = 20 * OVERHEAD + LATENCY + 100 * WIRE
    assert result.message_times[0].max() == approximately(begun)
    assert result.time == approximately(begun + 2 * LATENCY + 10e-9 + senders * 20 * WIRE)


def test_dependent_rounds_down_a_line():
    # Task i sends to task i + 1 when it has what task i - 1 sent: the sum of the rounds.
    packets = [1, 4, 2, 8]
    phases = [graph(5, [(i, i + 1, 90 * k, 1)]) for i, k in enumerate(packets)]
    torus = plain(8)
    mapping = TaskMapping(range(5), torus)
    result = simulate(Workload(phases, dependent=True), torus, mapping)
    rounds = [OVERHEAD + LATENCY + k * WIRE for k in packets]
    assert result.phase_times == approximately([k * WIRE + LATENCY for k in packets])
    assert result.time == approximately(sum(rounds))
    barriers = simulate(Workload(phases), torus, mapping)
    assert barriers.time == approximately(sum(rounds))


def test_rounds_overlap_where_nothing_depends():
    # Round 0: a long message 0 -> 1 and a short one 2 -> 3; round 1: a long one 3 -> 2, which
    # waits for the short one only. A barrier makes it wait for the long one.
    torus = plain(8)
    mapping = TaskMapping(range(4), torus)
    phases = [graph(4, [(0, 1, 9000, 1), (2, 3, 90, 1)]), graph(4, [(3, 2, 9000, 1)])]
    long, short = OVERHEAD + LATENCY + 100 * WIRE, OVERHEAD + LATENCY + WIRE
    rounds = simulate(Workload(phases, dependent=True), torus, mapping)
    assert rounds.time == approximately(long + short)
    assert simulate(Workload(phases), torus, mapping).time == approximately(long + long)


def test_adaptive_routing_uses_both_ways_of_a_tie():
    # Half way round a ring of 8 both ways are minimal. Two tasks on node 0, with a FIFO each, send
    # 100 packets each to node 4: one way carries all 200, two carry 100 each at the same time.
    torus, node = plain(8, fifo_rule="round_robin"), [0, 0, 4]
    edges = [(0, 2, 9000, 1), (1, 2, 9000, 1)]
    one, both = run(torus, node, edges), run(torus, node, edges, "adaptive")
    assert one.packets.reshape(8, 2)[0].tolist() == [200, 0]
    assert one.time == approximately(OVERHEAD + 4 * LATENCY + 200 * WIRE)
    assert both.packets.reshape(8, 2)[0].tolist() == [100, 100]
    assert both.time == approximately(OVERHEAD + 4 * LATENCY + 100 * WIRE)


@pytest.mark.parametrize("seed", range(6))
def test_with_booksims_ties_an_adaptive_packet_that_finds_room_goes_minus(seed):
    torus, mapping = plain(8, tie_break="booksim"), TaskMapping([0, 4], 8)
    comm = graph(2, [(0, 1, 90, 1)])
    assert link_loads(MappingProblem(comm, torus, "adaptive"), mapping).reshape(8, 2)[
        0
    ].tolist() == [0, 90]
    result = simulate(comm, torus, mapping, routing="adaptive", seed=seed)
    assert result.packets.reshape(8, 2)[0].tolist() == [0, 1]


def test_with_booksims_ties_half_of_the_packets_that_find_none_go_plus():
    # Two tasks on node 0 send 100 packets each half way round: of those that may not go plus the
    # minus way takes about 100 (200 fair coins: 100 +- 7), and others where it falls free first.
    torus, node = plain(8, tie_break="booksim", fifo_rule="round_robin"), [0, 0, 4]
    result = run(torus, node, [(0, 2, 9000, 1), (1, 2, 9000, 1)], "adaptive")
    plus, minus = result.packets.reshape(8, 2)[0].tolist()
    assert plus + minus == 200
    assert 50 < plus < 100 + 5 * 7


def test_split_tie_sends_every_other_packet_each_way():
    result = run(plain(8, tie_break="split"), [0, 4], [(0, 1, 900, 1)])
    assert result.packets.reshape(8, 2)[[0, 4]].tolist() == [[5, 5], [0, 0]]


@pytest.mark.parametrize("packets", [1, 2, 3])
@pytest.mark.parametrize("shape", [(8,), (4, 8), (2, 4, 4)])
def test_split_ties_load_all_links_of_a_dimension_alike(shape, packets):
    torus = plain(shape, tie_break="split")
    n = torus.n_nodes
    comm = all_to_all(n, 90 * packets)
    mapping = TaskMapping(range(n), torus)
    sent = simulate(comm, torus, mapping).packets.reshape(n, -1, 2)
    expected = link_loads(MappingProblem(comm, torus), mapping).reshape(n, -1, 2) / 90
    assert (sent == expected).all()


@pytest.mark.parametrize("routing", ROUTINGS)
@pytest.mark.parametrize("size", [8, 16])
def test_all_to_all_on_a_ring_reaches_the_bisection_bound(size, routing):
    # With ties split every link carries as much: of n (n - 1) messages those that cross the middle,
    # (n / 2)^2 each way over two links each way, so n^2 / 8 a link.
    torus = Torus(size, tie_break="split")
    nbytes = 512 * 64
    mapping = TaskMapping(range(size), torus)
    result = simulate(all_to_all(size, nbytes), torus, mapping, routing=routing)
    bisection = size**2 / 8 * nbytes * 544 / 512 / 2e9
    bound = time_bounds(MappingProblem(all_to_all(size, nbytes), torus), mapping).link
    assert bound == pytest.approx(bisection)
    assert bisection <= result.time <= 1.05 * bisection


def test_no_message_takes_no_time():
    torus = plain((4, 4))
    for comm in (CommGraph(1, [], [], []), CommGraph(2, [0, 1], [1, 1], [0, 0], [0, 0.4])):
        result = simulate(comm, torus, TaskMapping(range(comm.n_tasks), torus))
        assert result.time == 0
        assert not result.packets.any()
        assert not result.delay.any()


def test_software_of_minutes_takes_no_minutes():
    # A billion messages of half a microsecond each keep task 0 busy for 500 seconds.
    comm = CommGraph(2, [0, 1], [1, 0], [1e9, 5], [1e9, 1])
    result = simulate(comm, Torus(2), TaskMapping([0, 1], 2), coarsening=10**6)
    assert 500 <= result.message_times[0][0] == pytest.approx(500, rel=0.3)


@pytest.mark.parametrize("nbytes", [0, 0.25])
def test_a_packet_of_no_byte(nbytes):
    result = run(plain(8, header=0), [0, 3], [(0, 1, nbytes, 1)])
    assert result.time == approximately(OVERHEAD + 3 * LATENCY + nbytes * 1e-9)
    assert result.max_buffered.reshape(8, 2)[:3, 0].tolist() == [1, 1, 1]


def test_buffers_that_hold_everything():
    # Of ten million packets a channel: no packet ever waits for a place, as with a thousand.
    comm, torus = all_to_all(16, 5000.0), plain((4, 4))
    times = [
        simulate(comm, torus.with_network(buffer_packets=n), TaskMapping(range(16), torus)).time
        for n in (1000, 10**7)
    ]
    assert times[0] == times[1]


def test_a_fifo_with_room_takes_what_is_ready():
    # Two packets, ready at 300 ns, for a link of 1000 ns each: from 500 ns on the first FIFO is
    # idle, but its second packet stands before the link until 1300 ns. What is ready at 600 ns for
    # a link of 100 ns leaves through the other FIFO at once.
    ready = 300e-9
    torus = plain((8, 8), bandwidth=(1e8, 1e9), fifos=2, fifo_rule="first_free", overhead=ready)
    result = run(torus, [0, 8, 1], [(0, 1, 90 * 2, 1), (0, 2, 90, 1)])
    assert result.message_times[0] == approximately(
        [ready + LATENCY + 20 * WIRE, 2 * ready + LATENCY + WIRE]
    )


def test_a_packet_that_is_too_long():
    comm = CommGraph(2, [0], [1], [2e12])
    with pytest.raises(InputError, match="packet too long"):
        simulate(comm, Torus(4), TaskMapping([0, 1], 4), coarsening=10**6)


def test_a_terabyte_on_one_edge():
    comm = CommGraph(2, [0], [1], [2e12])
    result = simulate(comm, Torus(4), TaskMapping([0, 1], 4), coarsening=10**5)
    assert result.time == pytest.approx(np.ceil(2e12 / 512) * 32 / 2e9 + 1000, rel=1e-3)
