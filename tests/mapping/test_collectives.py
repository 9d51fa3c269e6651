"""Schedules of collectives, executed symbolically: the blocks and contributions of each task."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toruscast.errors import InputError
from toruscast.mapping import CommGraph, TaskMapping, Torus
from toruscast.mapping.collectives import Round, butterfly_partners, names, schedule
from toruscast.mapping.collectives import algorithms as shapes
from toruscast.simulation import simulate, simulate_flows

SHAPES = [(2, 2, 2), (8,), (4, 4), (4, 2)]
ANY_NUMBER = {
    "allgather/bruck",
    "allgather/ring",
    "allreduce/linear",
    "allreduce/ring",
    "alltoall/bruck",
    "alltoall/linear",
    "alltoall/pairwise",
    "bcast/binary",
    "bcast/binomial",
    "bcast/chain",
    "bcast/in_order_binary",
    "bcast/linear",
    "bcast/pipeline",
    "bcast/split_binary",
    "gather/binomial",
    "gather/linear",
    "reduce/binary",
    "reduce/binomial",
    "reduce/chain",
    "reduce/in_order_binary",
    "reduce/linear",
    "reduce/pipeline",
    "reduce_scatter/ring",
    "scatter/binomial",
    "scatter/linear",
}
ANY_GRID = {
    "allgather/bucket",
    "allreduce/bucket",
    "reduce_scatter/bucket",
    "bcast/pipelined_trees",
    "reduce/pipelined_trees",
    "allreduce/pipelined_trees",
}


def expanded(lane):
    return [step for step in lane for _ in range(step.times)]


def backwards(rounds):
    return [step.reversed() for step in reversed(rounds)]


def messages(step):
    return list(zip(step.src.tolist(), step.dst.tolist(), step.nbytes.tolist(), strict=True))


def run_broadcast(n, rounds, share):
    """Each message takes the block that the receiver lacks and the fewest hold."""
    size = min((step.nbytes.min() for step in rounds if step.src.size), default=share)
    blocks = round(share / size)
    held = [set(range(blocks)) if task == 0 else set() for task in range(n)]
    for step in rounds:
        before = [set(have) for have in held]
        for src, dst, nbytes in messages(step):
            for _ in range(round(nbytes / size)):
                useful = before[src] - held[dst]
                assert useful, f"{src} has nothing for {dst}"
                held[dst].add(min(useful, key=lambda b: (sum(b in have for have in held), b)))
    assert all(len(have) == blocks for have in held)


def run_allgather(n, rounds, share):
    """Each message takes the newest blocks that the receiver lacks."""
    block = share / n
    held = [{task: 0} for task in range(n)]
    for number, step in enumerate(rounds, 1):
        before = [dict(have) for have in held]
        for src, dst, nbytes in messages(step):
            count = round(nbytes / block)
            assert nbytes == pytest.approx(count * block)
            useful = sorted(before[src].keys() - before[dst].keys(), key=lambda b: -before[src][b])
            assert len(useful) >= count, f"{src} has too little for {dst}"
            held[dst] |= dict.fromkeys(useful[:count], number)
    assert all(len(have) == n for have in held)


def run_personalised(n, rounds, share, origins):
    """Each message takes the blocks that can no longer reach their destination from the sender."""
    block = share / n
    reach = [[{task} for task in range(n)]]
    for step in reversed(rounds):
        later = reach[0]
        now = [set(places) for places in later]
        for src, dst, _ in messages(step):
            now[src] |= later[dst]
        reach.insert(0, now)
    held = [{(task, goal) for goal in range(n)} if task in origins else set() for task in range(n)]
    for number, step in enumerate(rounds, 1):
        before = [set(have) for have in held]
        for src, dst, nbytes in messages(step):
            sent = {
                b
                for b in before[src]
                if b[1] in reach[number][dst] and b[1] not in reach[number][src]
            }
            assert nbytes == pytest.approx(len(sent) * block)
            held[src] -= sent
            held[dst] |= sent
    for task, have in enumerate(held):
        assert have == {(origin, task) for origin in origins}


def run_bruck(n, rounds, share):
    """Round k moves the blocks whose whole way has bit k."""
    held = [{(task, goal) for goal in range(n)} for task in range(n)]
    for number, step in enumerate(rounds):
        before = [set(have) for have in held]
        for src, dst, nbytes in messages(step):
            sent = {b for b in before[src] if (b[1] - b[0]) % n >> number & 1}
            assert nbytes == pytest.approx(len(sent) * share / n)
            held[src] -= sent
            held[dst] |= sent
    assert all(have == {(origin, task) for origin in range(n)} for task, have in enumerate(held))


def run_contributions(n, rounds, share):
    """Partners add disjoint sums."""
    summed = [frozenset([task]) for task in range(n)]
    for step in rounds:
        before = list(summed)
        for src, dst, nbytes in messages(step):
            assert step.reduces
            assert nbytes == pytest.approx(share)
            assert not summed[dst] & before[src], "a contribution would count twice"
            summed[dst] |= before[src]
    assert all(len(part) == n for part in summed)


def check_result(plan, ports):
    """Executed symbolically, a schedule leaves every task with what its collective promises."""
    kind, algorithm = plan.name.split("/")
    n, share = plan.n_tasks, plan.nbytes / ports
    assert len(plan.lanes) == ports
    for lane in plan.lanes:
        rounds = expanded(lane)
        half = len(rounds) // 2
        first, second = rounds[:half], rounds[half:]
        if kind in ("reduce", "reduce_scatter"):
            assert all(step.reduces for step in rounds) or "gather" in algorithm
        elif kind != "allreduce":
            assert not any(step.reduces for step in rounds)
        if algorithm.endswith("scatter_allgather"):
            run_personalised(n, first, share, {0})
            run_allgather(n, second, share)
        elif algorithm.endswith("reduce_scatter_gather"):
            assert all(step.reduces for step in first)
            run_allgather(n, backwards(first), share)
            run_personalised(n, backwards(second), share, {0})
        elif kind == "bcast":
            run_broadcast(n, rounds, share)
        elif kind == "reduce":
            run_broadcast(n, backwards(rounds), share)
        elif kind in ("scatter", "gather"):
            run_personalised(n, backwards(rounds) if kind == "gather" else rounds, share, {0})
        elif kind == "reduce_scatter":
            run_allgather(n, backwards(rounds), share)
        elif algorithm.endswith("_sorted"):
            moved = rounds[0]
            assert sorted(moved.src) == sorted(moved.dst)
            assert moved.nbytes == pytest.approx(np.full(moved.src.size, share / n))
            run_allgather(n, rounds[1:], share)
        elif kind == "allgather":
            run_allgather(n, rounds, share)
        elif kind == "alltoall" and algorithm in ("linear", "pairwise"):
            pairs = sorted((src, dst) for step in rounds for src, dst, _ in messages(step))
            assert pairs == sorted((a, b) for a in range(n) for b in range(n) if a != b)
            assert all(step.nbytes == pytest.approx(share / n) for step in rounds)
        elif plan.name == "alltoall/bruck" and n & (n - 1):
            run_bruck(n, rounds, share)
        elif kind == "alltoall":
            run_personalised(n, rounds, share, set(range(n)))
        elif algorithm in ("recursive_doubling", "bine", "torus_binary"):
            run_contributions(n, rounds, share)
        elif algorithm in ("linear", "pipelined_trees"):
            run_broadcast(n, backwards(first), share)
            run_broadcast(n, second, share)
        else:
            assert kind == "allreduce"
            assert [step.reduces for step in rounds] == [True] * half + [False] * half
            run_allgather(n, backwards(first), share)
            run_allgather(n, second, share)


def drives_ports(name):
    algorithm = name.split("/")[1]
    on_torus = algorithm.startswith(("bine", "torus_binary", "bucket", "pipelined"))
    return on_torus and name != "alltoall/bine"


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", names())
def test_every_algorithm_ends_with_the_result(name, shape):
    n = math.prod(shape)
    for ports in (1, 2 * len(shape)) if drives_ports(name) else (1,):
        check_result(schedule(name, n, 960.0 * n, shape, ports=ports), ports)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 6, 7, 12])
@pytest.mark.parametrize("name", sorted(ANY_NUMBER))
def test_any_number_of_tasks(name, n):
    check_result(schedule(name, n, 60.0 * n), 1)


@pytest.mark.parametrize("shape", [(3, 2), (5,), (3, 1, 4)], ids=str)
@pytest.mark.parametrize("name", sorted(ANY_GRID))
def test_any_grid(name, shape):
    n, ports = math.prod(shape), 2 * sum(size > 1 for size in shape)
    check_result(schedule(name, n, 60.0 * n, shape, ports=ports), ports)


def run_knowledge(kind, n, rounds):
    """Every task that should have all blocks, or those of task 0, can have received them."""
    known = [{task} for task in range(n)]
    for step in rounds:
        before = [set(what) for what in known]
        for src, dst, _ in messages(step):
            known[dst] |= before[src]
    everything = set(range(n))
    if kind in ("bcast", "scatter"):
        assert all(0 in what for what in known)
    elif kind in ("reduce", "gather"):
        assert known[0] == everything
    else:
        assert all(what == everything for what in known)


FOLDED = sorted(set(names()) - ANY_NUMBER - ANY_GRID - {"allgather/neighbor_exchange"})
WITHOUT_A_FOLD = {"alltoall/bine"}


@pytest.mark.parametrize("shape", [(3,), (6,), (7,), (3, 2), (3, 5), (2, 6, 3), (12,)], ids=str)
@pytest.mark.parametrize("name", sorted(set(FOLDED) - WITHOUT_A_FOLD))
def test_butterflies_on_any_number_of_tasks(name, shape):
    kind, algorithm = name.split("/")
    n = math.prod(shape)
    for ports in (1, 2) if drives_ports(name) else (1,):
        plan = schedule(name, n, 60.0 * n, shape, ports=ports)
        assert plan.n_tasks == n
        for lane in plan.lanes:
            run_knowledge(kind, n, expanded(lane))
        exact = kind in ("allgather", "reduce_scatter", "scatter", "gather")
        if (exact and not algorithm.endswith("_sorted")) or name in ("bcast/bine", "reduce/bine"):
            check_result(plan, ports)


def test_sums_of_a_folded_allreduce_count_once():
    (lane,) = schedule("allreduce/recursive_doubling", 7, 700.0).lanes
    summed = [frozenset([task]) for task in range(7)]
    for step in lane:
        before = list(summed)
        for src, dst, nbytes in messages(step):
            assert nbytes == 700
            assert not step.reduces or not summed[dst] & before[src]
            summed[dst] = summed[dst] | before[src] if step.reduces else before[src]
    assert all(len(part) == 7 for part in summed)


@pytest.mark.parametrize("name", ["alltoall/bine", "allgather/neighbor_exchange"])
def test_the_others_refuse_what_they_cannot_do(name):
    with pytest.raises(InputError):
        schedule(name, 7, 700.0)


def test_a_ring_of_fewer_elements_than_tasks_is_not_run_as_one():
    doubling = schedule("allreduce/recursive_doubling", 16, 60).workload()
    for nbytes, rounds in ((60, 4), (64, 30)):
        plan = schedule("allreduce/ring", 16, nbytes)
        assert plan.name == "allreduce/ring"
        assert len(plan.workload()) == rounds
    sent = schedule("allreduce/ring", 16, 60).workload().total.nbytes
    assert sent.tolist() == doubling.total.nbytes.tolist()
    assert len(schedule("allreduce/ring", 16, 60, element=2).workload()) == 30


def ring_of(n, wrap, folded):
    """A line or ring of nodes with ranks in order, or out over every second node and back."""
    torus = Torus((n,), wrap=wrap, bandwidth=1e9)
    torus = torus.with_network(
        overhead=0.0, header=0, hop_latency=1e-6, fifos=2, fifo_rule="first_dimension"
    ).with_network(memory_bandwidth=1e12)
    node = [*range(0, n, 2), *reversed(range(1, n, 2))] if folded else range(n)
    return torus, TaskMapping(node, torus)


@pytest.mark.parametrize("n", [2, 5, 8])
@pytest.mark.parametrize("ports", [1, 2])
def test_allreduce_round_a_ring_exactly(n, ports):
    # Each of 2 (n - 1) rounds takes a hop and a block, a part 1/n of the buffer, on its link; with
    # both ways at work half a block each way. In all 2 (n - 1) / n x bytes / (ways x link) and
    # 2 (n - 1) hops. Two chips are joined by two links each way, of which a route takes one.
    torus, mapping = ring_of(n, True, False)
    plan = schedule("allreduce/ring", n, 8e6, ports=ports).workload()
    ways = ports if n > 2 else 1
    expected = 2 * (n - 1) * (1e-6 + 8e6 / n / ways / 1e9)
    if n > 2 or ports == 1:
        assert simulate_flows(plan, torus, mapping, error=0).time == pytest.approx(expected, 1e-9)
        assert simulate(plan, torus, mapping).time == pytest.approx(expected, 1e-3)


@pytest.mark.parametrize("n", [6, 8])
@pytest.mark.parametrize("ports", [1, 2])
def test_allreduce_on_a_folded_line_exactly(n, ports):
    # Out over every second node and back over the others: each link carries one message a round,
    # or two halves, so that a second way round gains nothing: 2 (n - 1) / n x bytes / link. All
    # messages go two hops but the two at the ends. A block that goes on from task to task passes
    # all but two of the 2 n messages of two rounds of the ring, which follow each other, and so
    # three of the four short ones at least. With both ways this is what rounds in step would take;
    # they fall out of step, and then a link has nothing to do now and then.
    torus, mapping = ring_of(n, False, True)
    plan = schedule("allreduce/ring", n, 8e6, ports=ports).workload()
    expected = 2 * (n - 1) * 8e6 / n / 1e9 + (2 * (2 * (n - 1)) - 3) * 1e-6
    time = simulate_flows(plan, torus, mapping, error=0).time
    if ports == 1:
        assert time == pytest.approx(expected, 1e-9)
    else:
        assert expected < time < 2 * expected


@pytest.mark.parametrize("segment", [0, 25, 100, 700])
@pytest.mark.parametrize("kind", ["bcast", "reduce", "allreduce"])
def test_segments_of_pipelined_trees(kind, segment):
    check_result(
        schedule(f"{kind}/pipelined_trees", 12, 1200.0, (4, 3), ports=4, segment=segment), 4
    )


@pytest.mark.parametrize("segment", [0, 250, 700])
@pytest.mark.parametrize("kind", ["binary", "binomial", "in_order_binary", "chain"])
def test_reductions_up_trees_in_segments(kind, segment):
    plan = schedule(f"reduce/{kind}", 13, 1200.0, segment=segment)
    check_result(plan, 1)
    if segment:
        whole = schedule(f"reduce/{kind}", 13, 1200.0)
        parts = math.ceil(1200 / segment)
        assert sum(t for t, _ in plan.rounds()) == sum(t for t, _ in whole.rounds()) + parts - 1


@pytest.mark.parametrize("segment", [0, 3])
@pytest.mark.parametrize("name", sorted(ANY_NUMBER))
def test_one_task_alone_sends_nothing(name, segment):
    (phase,) = schedule(name, 1, 10.0, segment=segment).workload()
    assert phase.n_edges == 0


@pytest.mark.parametrize("shape", [(4, 4, 4), (4, 1, 3), (1, 5)], ids=str)
def test_pipelined_trees_share_no_link(shape):
    torus = Torus(shape)
    ports = 2 * sum(size > 1 for size in shape)
    plan = schedule("bcast/pipelined_trees", torus.n_nodes, 60.0, shape, ports=ports)
    links = [
        (a, b)
        for lane in plan.lanes
        for step in lane
        for a, b in zip(step.src.tolist(), step.dst.tolist(), strict=True)
    ]
    assert len(links) == ports * (torus.n_nodes - 1)
    assert len(set(links)) == len(links)
    assert all(torus.distance(a, b) == 1 for a, b in links)
    with pytest.raises(InputError, match=f"bad number of (trees|ports): found {ports + 1}"):
        schedule("bcast/pipelined_trees", torus.n_nodes, 60.0, shape, ports=ports + 1)


def test_sent_bytes_in_closed_form():
    n, m = 64, 6400.0
    per_task = {
        "allgather/ring": m * (n - 1) / n,
        "allgather/recursive_doubling": m * (n - 1) / n,
        "allgather/bine": m * (n - 1) / n,
        "allreduce/ring": 2 * m * (n - 1) / n,
        "allreduce/bine_rabenseifner": 2 * m * (n - 1) / n,
        "allreduce/bine": m * 6,
        "alltoall/pairwise": m * (n - 1) / n,
        "alltoall/bine": m / 2 * 6,
        "alltoall/bruck": m / 2 * 6,
    }
    for name, sent in per_task.items():
        total = schedule(name, n, m, (4, 4, 4)).workload().total
        assert np.bincount(total.src, weights=total.nbytes) == pytest.approx(np.full(n, sent))


@given(st.sampled_from([(2,), (8,), (64,), (4, 8), (2, 4, 8)]), st.integers(0, 5))
def test_partners_swap_and_bine_ones_are_nearer(shape, port):
    torus = Torus(shape)
    hops = {}
    for family in ("bine", "binary"):
        partners = butterfly_partners(shape, family=family, port=port)
        ranks = np.arange(torus.n_nodes)
        for row in partners:
            assert (row[row] == ranks).all()
            assert (row != ranks).all()
        hops[family] = sum(torus.distance(ranks, row).sum() for row in partners)
    assert hops["bine"] <= hops["binary"]


def test_known_partners():
    # Distances 1, -1, 3 of the published example for eight ranks.
    assert butterfly_partners((8,))[:, 0].tolist() == [1, 7, 3]
    # The mirror image of a port goes the other way.
    assert butterfly_partners((8, 8), port=2)[:, 0].tolist() == [56, 7, 8, 1, 40, 5]


def test_ports_use_different_links():
    # On a 4x4x4 torus the first steps of six ports leave a node over six links.
    first = {int(butterfly_partners((4, 4, 4), port=port)[0, 0]) for port in range(6)}
    assert len(first) == 6


def test_trees_have_the_depth_of_their_kind():
    assert shapes.tree_depths(shapes.flat_parents(9)).max() == 1
    assert shapes.tree_depths(shapes.chain_parents(9)).max() == 8
    assert shapes.tree_depths(shapes.chain_parents(9, 4)).max() == 2
    assert shapes.tree_depths(shapes.binary_parents(15)).max() == 3
    assert shapes.tree_depths(shapes.in_order_binary_parents(15)).max() == 3
    assert shapes.tree_depths(shapes.dimension_chain_parents((4, 5), 0)).max() == 3 + 4 + 1


def test_workload_runs_as_dependent_rounds():
    torus = Torus((4, 4))
    mapping = TaskMapping(np.arange(16), torus)
    plan = schedule("allreduce/bine_rabenseifner", 16, 16384.0, (4, 4), ports=4)
    workload = plan.workload()
    assert workload.dependent
    assert len(workload) == 8
    result = simulate(workload, torus, mapping)
    # Each step needs at least its bytes at a link's bandwidth.
    assert result.time > 2 * 16384 / 4 * 15 / 16 / 2e9
    assert isinstance(workload.phases[0], CommGraph)


def test_at_once_is_a_single_phase():
    workload = schedule("alltoall/linear", 6, 60.0).workload()
    assert len(workload) == 1
    assert workload.total.n_edges == 30


def test_rounds_of_unlike_lanes_stand_side_by_side():
    plan = schedule("allgather/bucket", 8, 80.0, (4, 2), ports=2)
    assert [(times, len(steps)) for times, steps in plan.rounds()] == [(1, 2), (2, 2), (1, 2)]


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (("bcast/magic", 8, 80.0), "magic"),
        (("bcast/bine", 8, 80.0, (4, 4)), "tasks do not fill"),
        (("alltoall/bine", 6, 80.0), "power"),
        (("bcast/bine", 8, -1.0), "nbytes"),
        (("bcast/bine", 0, 1.0), "number of tasks"),
        (("allgather/neighbor_exchange", 7, 1.0), "even"),
    ],
)
def test_bad_input(arguments, found):
    with pytest.raises(InputError, match=found):
        schedule(*arguments)


def test_bad_ports_and_families():
    with pytest.raises(InputError, match="ports for a ring: found 3, expected 1 or 2"):
        schedule("allgather/ring", 8, 8.0, ports=3)
    with pytest.raises(InputError, match="one port"):
        schedule("alltoall/bine", 8, 8.0, ports=3)
    with pytest.raises(InputError, match="ports"):
        schedule("bcast/bine", 8, 8.0, ports=7)
    with pytest.raises(InputError, match="trees"):
        schedule("bcast/pipelined_trees", 8, 8.0, ports=3)
    with pytest.raises(InputError, match="family"):
        butterfly_partners((8,), family="ternary")


def test_a_round_goes_both_ways():
    step = Round([0], [1], 5, times=3)
    back = step.reversed(reduces=True)
    assert (back.src[0], back.dst[0], back.times, back.reduces) == (1, 0, 3, True)
