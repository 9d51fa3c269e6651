"""The flow-level simulator: against its slow twin, closed forms and laws."""

import naive_flows
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_cases import graphs, mapped, simulated_networks, tori

from toruscast.errors import InputError
from toruscast.mapping import CommGraph, MappingProblem, Network, TaskMapping, Torus, Workload
from toruscast.mapping.patterns import all_to_all, halo_3d
from toruscast.routing import link_loads, time_bounds
from toruscast.simulation import simulate, simulate_flows

IDEAL = Network(header=0, hop_latency=0.0, overhead=0.0, memory_bandwidth=1e15)


def on_ring(comm, nodes=8, error=0.0, **network):
    torus = Torus((nodes,), bandwidth=2e9).with_network(**network)
    return simulate_flows(comm, torus, TaskMapping(range(comm.n_tasks), nodes), error=error)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_flows_equal_their_twin(data):
    network = data.draw(simulated_networks())
    torus = data.draw(tori(max_nodes=30, max_dimensions=3, network=network))
    mapping = data.draw(mapped(torus))
    phases = data.draw(st.lists(graphs(mapping.n_tasks, 20), min_size=1, max_size=3))
    # Which of two tasks goes first that share a thread and go on at once is chance.
    dependent = network.feeding != "messages" and data.draw(st.booleans())
    result = simulate_flows(Workload(phases, dependent=dependent), torus, mapping, error=0.0)
    for stretch in result.stretches:
        rounds = [phases[i] for i in stretch.phases]
        twin = naive_flows.Simulator(rounds, torus, mapping).run()
        assert stretch.messages.edge.tolist() == [m.edge for m in twin.messages]
        handed_over = [m.handed_over + stretch.begin for m in twin.messages]
        arrived = [m.arrived + stretch.begin for m in twin.messages]
        np.testing.assert_allclose(stretch.handed_over, handed_over, 1e-9)
        np.testing.assert_allclose(stretch.arrived, arrived, 1e-9)


@pytest.mark.parametrize("nbytes", [1, 512, 100_000, 2**40])
@pytest.mark.parametrize("eager_limit", [np.inf, 0])
def test_a_message_alone_takes_what_its_packets_take(nbytes, eager_limit):
    # Overhead + hops * latency + bytes with headers / bandwidth, and a question and its answer,
    # each hops * latency + header / bandwidth, where it asks first.
    result = on_ring(CommGraph(4, [0], [3], [nbytes]), eager_limit=eager_limit)
    wire = nbytes + 32 * -(-nbytes // 512)
    asked = 0 if eager_limit else 2 * (3 * 40e-9 + 32 / 2e9)
    assert result.time == pytest.approx(500e-9 + asked + 3 * 40e-9 + wire / 2e9, rel=1e-12)


def test_messages_of_one_way_share_it_evenly():
    # Five from one node to the next: all together take what their bytes take, each all that time.
    comm = CommGraph(6, [0] * 5, [1, 2, 3, 4, 5], [1e6] * 5)
    torus = Torus((2,), bandwidth=2e9, wrap=(False,)).with_network(
        header=0, hop_latency=0.0, overhead=0.0, fifos=5, fifo_rule="round_robin"
    )
    mapping = TaskMapping([0, 1, 1, 1, 1, 1], torus, tasks_per_node=5)
    result = simulate_flows(comm, torus, mapping, error=0.0)
    np.testing.assert_allclose(result.message_times[0], 5e6 / 2e9)


def test_shares_follow_round_trips_and_what_one_cannot_use_goes_to_the_others():
    # Link 1 -> 2 is shared by 0 -> 2 (two hops, weight 1/2) and 1 -> 2 (weight 1): 2/3 and 4/3 of
    # a 2 GB/s link. The first leaves 4/3 of link 0 -> 1 to 0 -> 1.
    comm = CommGraph(3, [0, 1, 0], [2, 2, 1], [1e9, 1e9, 1e9])
    torus = Torus((8,), bandwidth=2e9, network=IDEAL).with_network(fifo_rule="round_robin")
    times = simulate_flows(comm, torus, TaskMapping([0, 1, 2], 8), error=0.0).messages()
    took = dict(zip(zip(times["src"], times["dst"], strict=True), times["arrived"], strict=True))
    assert took[1, 2] == pytest.approx(0.75)
    assert took[0, 1] == pytest.approx(0.75)
    # At .75 s half of it is left, with the way to itself.
    assert took[0, 2] == pytest.approx(0.75 + 0.5e9 / 2e9)


def test_half_of_a_message_goes_each_way_where_ties_are_split():
    # 4 GB/s in all from one node of a ring of four to its opposite, in as many FIFOs.
    torus = Torus((4,), bandwidth=2e9, tie_break="split", network=IDEAL)
    comm = CommGraph(2, [0], [1], [4e9])
    halves = torus.with_network(fifos=2, fifo_rule="first_free")
    mapping = TaskMapping([1, 3], 4)
    assert simulate_flows(comm, halves, mapping, error=0.0).time == pytest.approx(1.0)
    # One FIFO feeds no more than a link takes.
    assert simulate_flows(comm, torus, mapping, error=0.0).time == pytest.approx(2.0)


def test_a_receiver_shares_its_memory():
    comm = CommGraph(3, [0, 2], [1, 1], [1e9, 1e9])
    result = on_ring(comm, header=0, hop_latency=0.0, overhead=0.0, memory_bandwidth=1e9)
    np.testing.assert_allclose(result.message_times[0], [2.0, 2.0])


def test_rounds_wait_for_their_own_messages_only():
    # 0 -> 1 -> 2 by rounds, while 4 -> 5 takes ten times as long and holds nobody up.
    first = CommGraph(6, [0, 4], [1, 5], [1e9, 1e10])
    second = CommGraph(6, [1], [2], [1e9])
    torus = Torus((8,), bandwidth=2e9, network=IDEAL)
    mapping = TaskMapping(range(6), 8)
    ends = {
        dependent: simulate_flows(Workload([first, second], dependent=dependent), torus, mapping)
        .messages()["arrived"]
        .iloc[-1]
        for dependent in (True, False)
    }
    assert ends[True] == pytest.approx(1.0)
    assert ends[False] == pytest.approx(5.5)


@pytest.mark.parametrize("busy", [0, 1])
def test_a_task_without_messages_waits_for_the_thread_that_it_shares(busy):
    # Tasks 0 and 1 share a node. One prepares three messages, a millisecond each; the other has
    # none in that round, and its message of the next one comes after them.
    first = CommGraph(5, [busy] * 3, [2, 3, 4], [1.0] * 3)
    second = CommGraph(5, [1 - busy], [2], [1.0])
    torus = Torus((8,)).with_network(feeding="messages", overhead=1e-3)
    mapping = TaskMapping([0, 0, 1, 2, 3], torus, tasks_per_node=2)
    workload = Workload([first, second], dependent=True)
    for run in (simulate, simulate_flows):
        handed_over = run(workload, torus, mapping).messages()["handed_over"]
        np.testing.assert_allclose(handed_over, [1e-3, 2e-3, 3e-3, 4e-3], 1e-5)


def test_a_uniform_all_to_all_of_a_ring_takes_what_the_bisection_takes():
    # On a ring of 9 nodes 1 + 2 + 3 + 4 messages cross each link.
    comm = all_to_all(9, 1e6)
    result = on_ring(
        comm, nodes=9, header=0, hop_latency=0.0, overhead=0.0, fifos=2, fifo_rule="first_dimension"
    )
    assert result.time >= 10e6 / 2e9 * (1 - 1e-12)
    assert result.links()["busy_share"].min() == pytest.approx(result.time**-1 * 10e6 / 2e9)


@settings(max_examples=100, deadline=None)
@given(st.data(), st.sampled_from([0.0, 0.01, 0.2]))
def test_no_flows_beat_the_bounds(data, error):
    network = data.draw(simulated_networks())
    torus = data.draw(tori(max_nodes=40, max_dimensions=3, network=network))
    mapping = data.draw(mapped(torus))
    comm = data.draw(graphs(mapping.n_tasks, 40))
    least = time_bounds(MappingProblem(comm, torus), mapping).total
    result = simulate_flows(comm, torus, mapping, error=error)
    assert result.time >= least * (1 - error) * (1 - 1e-9)
    assert np.isfinite(result.time)


@settings(max_examples=50, deadline=None)
@given(st.data(), st.floats(1.5, 1e6))
def test_time_scales_with_bytes_where_nothing_else_counts(data, factor):
    torus = data.draw(tori(max_nodes=40, max_dimensions=3, network=IDEAL))
    mapping = data.draw(mapped(torus))
    comm = data.draw(graphs(mapping.n_tasks, 40))
    more = CommGraph(comm.n_tasks, comm.src, comm.dst, comm.nbytes * factor, comm.n_messages)
    once = simulate_flows(comm, torus, mapping, error=0.0).time
    assert simulate_flows(more, torus, mapping, error=0.0).time == pytest.approx(once * factor)


@pytest.mark.parametrize("dependent", [False, True])
def test_an_error_moves_the_time_by_no_more(dependent):
    torus = Torus((4, 4, 4))
    phases = [halo_3d((4, 4, 4), nbytes, periodic=True) for nbytes in (1e6, 3e6)]
    workload = Workload(phases, dependent=dependent)
    for seed in range(5):
        mapping = TaskMapping(np.random.default_rng(seed).permutation(64), torus)
        exact = simulate_flows(workload, torus, mapping, error=0.0)
        near = simulate_flows(workload, torus, mapping, error=0.02)
        assert near.time == pytest.approx(exact.time, rel=0.02)
        assert near.time != exact.time


def all_to_some(n_tasks, n_messages, draw):
    """Random messages, few of them long, a third of them to one task."""
    src, dst = draw.integers(0, n_tasks, (2, n_messages))
    dst[: n_messages // 3] = 0
    pair = np.unique((src * n_tasks + dst)[src != dst])
    nbytes = draw.lognormal(13, 1.5, pair.size)
    return CommGraph(n_tasks, pair // n_tasks, pair % n_tasks, nbytes)


AWKWARD = {
    "one receiver": ((4, 4), {}, {}, 300, 1),
    "unlike links": ((4, 8), {"bandwidth": (2e9, 1e8)}, {}, 300, 1),
    "halves": ((4, 4, 4), {"tie_break": "split"}, {"fifo_rule": "first_free"}, 300, 1),
    "questions": ((3, 5), {}, {"eager_limit": 0, "hop_latency": 1e-5}, 200, 1),
    "rounds": ((4, 4), {}, {}, 100, 4),
    "a line": ((16,), {"wrap": (False,)}, {}, 150, 2),
}


@pytest.mark.parametrize("kind", AWKWARD)
def test_times_differ_from_exact_ones_by_less_than_the_error_on_average(kind):
    shape, options, network, n_messages, rounds = AWKWARD[kind]
    draw = np.random.default_rng(2)
    torus = Torus(shape, **options).with_network(**network)
    phases = [all_to_some(torus.n_nodes, n_messages, draw) for _ in range(rounds)]
    workload = Workload(phases, dependent=rounds > 1)
    mapping = TaskMapping(draw.permutation(torus.n_nodes), torus)

    def arrived(error):
        return simulate_flows(workload, torus, mapping, error=error).messages()["arrived"]

    exact = arrived(0.0)
    # The error asked for is one of the mean; single messages may be off by several times as much.
    for error in (1e-3, 0.01):
        off = np.abs(arrived(error) / exact - 1)
        assert off.mean() < error / 3
        assert off.max() < 6 * error


def test_a_message_that_waits_for_its_rate_is_credited_with_what_it_sends_meanwhile():
    # Two begin 10 us apart on one link. The second gets its rate later, and both arrive as with
    # exact rates.
    comm = CommGraph(3, [0, 0], [1, 2], [1e9, 2e9])
    torus = Torus((8,), bandwidth=2e9, network=IDEAL).with_network(
        fifo_rule="first_free", fifos=2, overhead=1e-5
    )
    mapping = TaskMapping([0, 1, 2], 8)
    exact = simulate_flows(comm, torus, mapping, error=0.0).messages()["arrived"]
    near = simulate_flows(comm, torus, mapping, error=0.05).messages()["arrived"]
    np.testing.assert_allclose(near, exact, rtol=1e-9)


def test_places_that_hold_each_other_up_are_filled_one_after_the_other():
    # From node k go 15 - k messages of one hop (weight 1) and one of two (weight 1/2), which takes
    # its share of link k, the less wanted one, from link k + 1. Bytes are what each gets a second.
    links = 12
    left = 2e9
    src, dst, nbytes, node = [], [], [], []
    for k in range(links):
        level = left / (15 - k + 0.5)
        left = 2e9 - level / 2
        for hops, rate in [(1, level)] * (15 - k) + [(2, level / 2)]:
            src.append(len(node))
            dst.append(len(node) + 1)
            node += [k, k + hops]
            nbytes.append(rate)
    torus = Torus((links + 2,), bandwidth=2e9, wrap=(False,), network=IDEAL).with_network(
        fifos=64, fifo_rule="first_free"
    )
    mapping = TaskMapping(node, torus, tasks_per_node=64)
    times = simulate_flows(CommGraph(len(node), src, dst, nbytes), torus, mapping, error=0.0)
    np.testing.assert_allclose(times.message_times[0], 1.0)


def test_links_carry_the_bytes_of_their_routes():
    comm, torus = halo_3d((4, 4, 4), 1e6), Torus((4, 4, 4), network=IDEAL)
    mapping = TaskMapping(np.random.default_rng(3).permutation(64), torus)
    result = simulate_flows(Workload([comm, comm]), torus, mapping)
    links = result.links()
    np.testing.assert_allclose(
        links["wire_bytes"], 2 * link_loads(MappingProblem(comm, torus), mapping)
    )
    assert (links["busy_share"] <= 1).all()


def test_tables_are_those_of_the_packet_simulator():
    comm, torus = halo_3d((2, 2, 2), 1e5), Torus((2, 2, 2))
    mapping = TaskMapping(range(8), torus)
    flows, packets = simulate_flows(comm, torus, mapping), simulate(comm, torus, mapping)
    for name in ("messages", "tasks", "phases"):
        one, other = getattr(flows, name)(), getattr(packets, name)()
        assert list(one.columns) == list(other.columns)
        timeless = one.columns.difference(
            ["arrived", "sent", "received", "finish", "end", "handed_over"]
        )
        assert one[timeless].equals(other[timeless])


def test_progress_counts_messages():
    comm, torus = halo_3d((4, 4, 4), 1e6), Torus((4, 4, 4))
    told = []
    simulate_flows(
        Workload([comm, comm]),
        torus,
        TaskMapping(range(64), torus),
        progress=lambda _, done, total: told.append((done, total)),
    )
    assert told[-1] == (2 * comm.n_edges, 2 * comm.n_edges)
    assert [done for done, _ in told] == sorted(done for done, _ in told)


def test_nothing_to_send_takes_no_time():
    empty = CommGraph(2, [], [], [])
    result = on_ring(Workload([empty, CommGraph(2, [0], [1], [0.0]), empty], dependent=True))
    assert result.time == pytest.approx(500e-9 + 40e-9 + 32 / 2e9)
    assert on_ring(empty).time == 0.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"error": 1.0}, "bad error"),
        ({"error": -0.1}, "error"),
        ({"error": float("nan")}, "error"),
        ({"error": "small"}, "error"),
        ({"progress": 3}, "bad progress"),
    ],
)
def test_bad_options_are_refused(options, message):
    comm, torus = CommGraph(2, [0], [1], [1.0]), Torus((4,))
    with pytest.raises(InputError, match=message):
        simulate_flows(comm, torus, TaskMapping([0, 1], 4), **options)
    with pytest.raises(InputError):
        simulate_flows(comm, torus, TaskMapping([0, 1, 2], 4))


def test_more_messages_than_memory_holds_are_refused(monkeypatch):
    monkeypatch.setattr("toruscast.simulation.flows._MAX_HOPS", 5)
    with pytest.raises(InputError, match="too many messages"):
        on_ring(all_to_all(8, 1.0))
    monkeypatch.undo()
    monkeypatch.setattr("toruscast.simulation.flows._MAX_TASK_ROUNDS", 5)
    with pytest.raises(InputError, match="too many rounds"):
        on_ring(all_to_all(8, 1.0))


def test_weights_that_get_lost_in_sums_are_refused():
    comm, mapping = all_to_all(16, 1e3), TaskMapping(range(16), 16)
    torus = Torus((4, 4), bandwidth=(1.0, 1e11), network=IDEAL)
    least = time_bounds(MappingProblem(comm, torus), mapping).total
    assert simulate_flows(comm, torus, mapping, error=0.0).time == pytest.approx(least)
    with pytest.raises(
        InputError, match=r"too unequal for the flow simulator: found .*expected within"
    ):
        simulate_flows(comm, Torus((4, 4), bandwidth=(1.0, 1e17)), mapping)
