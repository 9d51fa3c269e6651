"""Layouts of meshes: closed forms against simulated packets and a naive twin, and what is found."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import toruscast as tc
from toruscast._mesh import step_times
from toruscast._mesh.devices import find_devices
from toruscast._mesh.layouts import AxisLayout, LayoutScorer, list_walks, split_dimensions
from toruscast._mesh.step_times import (
    CollectiveGroups,
    MeshProblem,
    score_collective,
    simulate_collective,
    time_bound,
)
from toruscast._mesh.traffic import MeshTraffic, parse_axes, parse_traffic
from toruscast.errors import InputError
from toruscast.mapping import MappingProblem

# Large, so that what software and hops cost is little.
SIZE = 512e6
HEADERS = 544 / 512


def one_line(wrap, n=8):
    return tc.Torus((n,), wrap=wrap, bandwidth=1e9)


@pytest.mark.parametrize(
    ("wrap", "folded", "algorithm", "links"),
    [
        (True, False, "ring", 1),
        (True, False, "two-way-ring", 2),
        (False, True, "ring", 1),
        (False, True, "two-way-ring", 1),
        (False, False, "ring", 1),
        (False, False, "two-way-ring", 1),
    ],
)
@pytest.mark.parametrize("n", [4, 8, 9])
def test_ring_allreduce_is_exact(wrap, folded, algorithm, links, n):
    """2 (n - 1) / n * B / (links * w), and overhead and hops in each of 2 (n - 1) rounds.

    `toruscast._mesh.step_times` derives it. Of a two-way ring on a line each direction of a link
    carries two half blocks: it is one link's worth.
    """
    torus = one_line(wrap, n)
    line = list_walks((n,))[1 if folded else 0].cells.T
    traffic, groups = (
        MeshTraffic("allreduce", SIZE, ("x",), algorithm=algorithm),
        CollectiveGroups(line, torus),
    )
    found = score_collective(traffic, groups)
    ways = 2 if algorithm == "two-way-ring" else 1
    hops = 1 if wrap else 2 * (n - 1) / n
    bytes_alone = 2 * (n - 1) / n * SIZE * HEADERS / (links * 1e9)
    rounds = 2 * (n - 1) * (ways * 500e-9 + hops * 40e-9)
    # The last packet of a block may be short.
    assert found.time == pytest.approx(bytes_alone + rounds, rel=1e-6)
    # Packets of two ways that meet on a link do not take turns quite evenly.
    simulated = simulate_collective(traffic, groups, found.algorithm)
    assert simulated == pytest.approx(found.time, rel=0.015)


def naive_loads(lines, torus, both):
    """Messages over every link, walked hop by hop through the loads of single messages."""
    load = {}
    for line in lines:
        for here, there in zip(line, np.roll(line, -1), strict=True):
            for a, b in [(here, there), (there, here)] if both else [(here, there)]:
                graph = tc.CommGraph(2, [0], [1], [1])
                carried = tc.routing.link_loads(
                    MappingProblem(graph, torus), tc.TaskMapping([a, b], torus)
                )
                for link in np.flatnonzero(carried):
                    load[link] = load.get(link, 0) + carried[link]
    return load


@pytest.mark.parametrize("torus", ["tpu_v5e:4x8", "tpu_v4:4x4x8", "4x3m", "tpu7x:2x2x2"])
@pytest.mark.parametrize("algorithm", ["ring", "two-way-ring"])
def test_loads_of_rings_are_those_of_a_naive_walk(torus, algorithm):
    torus = tc.torus(torus)
    rng = np.random.default_rng(3)
    nodes = rng.permutation(torus.n_nodes)[: torus.n_nodes // 4 * 4].reshape(-1, 4)
    traffic = MeshTraffic("allgather", SIZE, ("x",), algorithm=algorithm)
    found = score_collective(traffic, CollectiveGroups(nodes, torus), with_links=True)
    load = naive_loads(nodes.tolist(), torus, algorithm == "two-way-ring")
    ways = 2 if algorithm == "two-way-ring" else 1
    network = torus.network
    wire = SIZE / 4 / ways * (1 + network.header / network.payload)
    slowest = max(messages * wire / torus.link_bandwidth[link] for link, messages in load.items())
    assert found.link_seconds.max() == pytest.approx(3 * slowest, rel=1e-6)
    assert found.max_messages == max(load.values())


@pytest.mark.parametrize("kind", ["allreduce", "allgather", "reduce_scatter"])
@pytest.mark.parametrize("torus", ["4x4", "4x4m", "tpu_v5e:4x8", "tpu_v4:4x4x8", "3x4x2"])
def test_buckets_take_what_packets_take(kind, torus):
    torus = tc.torus(torus)
    lines = np.arange(torus.n_nodes)[None]
    traffic = MeshTraffic(kind, 1e9, ("x",), algorithm="bucket")
    groups = CollectiveGroups(lines, torus)
    found = score_collective(traffic, groups)
    assert found.algorithm == "bucket"
    assert simulate_collective(traffic, groups, found.algorithm) == pytest.approx(
        found.time, rel=0.01
    )


@pytest.mark.parametrize("algorithm", ["ring", "two-way-ring", "bucket"])
def test_a_few_rounds_tell_the_time_of_many(algorithm, monkeypatch):
    torus = tc.torus("tpu_v5e:8x8")
    traffic = MeshTraffic("allreduce", 64e6, ("x",), algorithm=algorithm)
    lines = np.arange(64).reshape(2, 32)
    groups = CollectiveGroups(lines, torus)
    found = score_collective(traffic, groups)
    every = simulate_collective(traffic, groups, found.algorithm)
    monkeypatch.setattr(step_times, "_ALL_ROUNDS", 0)
    monkeypatch.setattr(step_times, "_FEW_MESSAGES", 200)
    assert simulate_collective(traffic, groups, found.algorithm) == pytest.approx(every, rel=0.05)


@pytest.mark.parametrize("kind", ["allreduce", "exchange", "alltoall", "pipeline"])
@pytest.mark.parametrize("torus", ["4x6x4", "4mx6x2", "tpu_v5e:4x8", "8x2x3"])
@pytest.mark.parametrize("axis", [0, 1])
def test_the_part_in_which_groups_repeat_takes_as_long_as_the_torus(kind, torus, axis, monkeypatch):
    torus = tc.torus(torus)
    n = torus.shape[axis]
    order = np.random.default_rng(1).permutation(n)
    grid = np.moveaxis(np.arange(torus.n_nodes).reshape(torus.shape), axis, -1)
    lines = grid[..., order].reshape(-1, n)
    traffic = MeshTraffic(kind, 2e5, ("x",))
    groups = CollectiveGroups(lines, torus)
    found = score_collective(traffic, groups)
    part = simulate_collective(traffic, groups, found.algorithm)
    assert groups.extract_repeating_part().torus.n_nodes < torus.n_nodes
    monkeypatch.setattr(CollectiveGroups, "extract_repeating_part", lambda groups: groups)
    assert simulate_collective(traffic, groups, found.algorithm) == part


@pytest.mark.parametrize("kind", ["permute", "pipeline", "exchange", "alltoall"])
@pytest.mark.parametrize("torus", ["8", "8m", "4x4", "tpu_v5e:4x8"])
def test_single_rounds_take_what_packets_take(kind, torus):
    torus = tc.torus(torus)
    lines = np.arange(torus.n_nodes).reshape(-1, 4)
    traffic = MeshTraffic(kind, 64e6, ("x",))
    groups = CollectiveGroups(lines, torus)
    found = score_collective(traffic, groups)
    assert simulate_collective(traffic, groups, found.algorithm) == pytest.approx(
        found.time, rel=0.05
    )


# Rings, meshes and twisted tori, with links of different speeds.
SMALL_TORI = [
    tc.Torus((4, 8), wrap=False, bandwidth=1e9),
    tc.Torus((4, 4), wrap=(True, False), bandwidth=(1e9, 3e9)),
    tc.Torus((2, 3, 4), bandwidth=1e9),
    tc.torus("tpu_v4:2x2x4"),
    tc.torus("2x2x4:twisted"),
    tc.torus("2x4x4:twisted"),
    tc.Torus((3, 4), bandwidth=1e9).with_links({0: 5e8, 17: 1e8}),
    tc.Torus((16,), bandwidth=1e9).without(nodes=[3, 4]),
]


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(SMALL_TORI), st.data())
def test_no_exchange_of_all_is_below_its_bound_in_any_layout(torus, data):
    """Busiest link, closed form and packets never beat the bound; groups may leave nodes idle."""
    nodes = data.draw(st.permutations(torus.usable_nodes.tolist()))
    n = data.draw(st.integers(2, len(nodes)))
    n_groups = data.draw(st.integers(1, len(nodes) // n))
    groups = CollectiveGroups(np.array(nodes[: n * n_groups]).reshape(n_groups, n), torus)
    traffic = MeshTraffic("alltoall", 1e7, groups=groups.nodes)
    bound, found = time_bound(traffic, groups), score_collective(traffic, groups, with_links=True)
    assert 0 < bound <= found.link_seconds.max() * (1 + 1e-9)
    assert bound <= found.time
    assert bound <= simulate_collective(traffic, groups, "at once")


@pytest.mark.parametrize(
    ("text", "n", "links"),
    [
        # Bytes of 64 MB between halves, and the links of the cut between them.
        ("tpu_v6e:4x8", 16, 4),
        ("tpu_v6e:16x16", 128, 32),
        ("tpu_v5p:4x4x4", 32, 32),
    ],
)
def test_the_bound_of_an_exchange_of_all_is_that_of_the_cut(text, n, links):
    torus = tc.torus(text)
    traffic = MeshTraffic("alltoall", 64e6, ("x",))
    cut = n * n * 64e6 / (2 * n) / (links * torus.bandwidth[0])
    groups = CollectiveGroups(np.arange(2 * n)[None], torus)
    assert time_bound(traffic, groups) == pytest.approx(cut)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_no_time_is_below_the_bound_of_any_layout(data):
    torus = tc.Torus(
        tuple(data.draw(st.lists(st.integers(2, 4), min_size=1, max_size=3))),
        wrap=data.draw(st.booleans()),
    )
    nodes = np.array(data.draw(st.permutations(range(torus.n_nodes))))
    n = data.draw(st.sampled_from([d for d in range(1, nodes.size + 1) if nodes.size % d == 0]))
    kind = data.draw(st.sampled_from(["allreduce", "allgather", "alltoall", "exchange", "permute"]))
    traffic = MeshTraffic(kind, data.draw(st.floats(0, 1e9)), ("x",))
    groups = CollectiveGroups(nodes.reshape(-1, n), torus)
    assert score_collective(traffic, groups).time >= time_bound(traffic, groups)


@pytest.mark.parametrize(
    ("torus", "axes", "every"),
    [
        (tc.torus("tpu_v4:4x4x8"), "a=8,b=4,c=4", 17),
        (tc.Torus((4, 4, 8)), "a=8,b=4,c=4", 17),
        (tc.Torus((6, 12), tie_break="split"), "a=3,b=2,c=12", 1),
        (tc.Torus((4, 8), wrap=(False, True), tie_break="simgrid"), "a=8,b=2,c=2", 1),
        (tc.Torus((4, 8), tie_break="sum_parity"), "a=8,b=2,c=2", 1),
    ],
)
def test_what_runs_in_turn_is_scored_piece_by_piece_as_on_the_whole_mesh(torus, axes, every):
    """Loads are counted in the part of the torus that repeats, or of all groups."""
    axes = parse_axes(axes)
    traffic = parse_traffic("a:allreduce:64MB,b+c:allgather:8MB,c:alltoall:1MB,b:exchange:1MB")
    scorer = LayoutScorer(MeshProblem(torus, axes, traffic))
    for cut in list(split_dimensions(torus.shape, axes.sizes))[::every]:
        candidate = scorer.score_split(cut)
        again = scorer.score_mesh(candidate.nodes)
        for ours, other in zip(candidate.scores, again.scores, strict=True):
            assert ours.time == pytest.approx(other.time)
            assert (ours.max_hops, ours.max_messages) == (other.max_hops, other.max_messages)
            assert ours.mean_hops == pytest.approx(other.mean_hops)


def test_four_chips_are_a_ring():
    answer = tc.mesh(tc.torus("tpu_v5e:2x2"), {"x": 4}, "x:exchange:4MB")
    assert answer.torus.distance(answer.best.nodes, np.roll(answer.best.nodes, 1)).max() == 1
    assert answer.ids.tolist() in ([0, 1, 3, 2], [0, 2, 3, 1])


def test_snakes_of_rings_halve_the_times_of_the_mesh_of_jax():
    torus = tc.torus("tpu_v6e:16x16")
    answer = tc.mesh(torus, {"data": 64, "tensor": 4}, "tensor:exchange:4MB,data:exchange:4MB")
    assert 1e6 * answer.collective_table()["time"].to_numpy() == pytest.approx([51.6, 98.7], abs=1)
    default = answer.collective_table(answer.default)["time"].to_numpy()
    assert 1e6 * default == pytest.approx([99.7, 190.8], abs=1)
    assert {*answer.collective_table()["source"]} == {"simulated"}


def test_the_best_of_all_orders_is_found():
    """All orders of six chips in a line and a ring, by the same closed form."""
    from itertools import permutations

    for torus in (tc.Torus((2, 3), wrap=False), tc.Torus((6,))):
        answer = tc.mesh(torus, {"a": 2, "b": 3}, "a:allreduce:8MB,b:exchange:1MB", simulate=0)
        scorer = LayoutScorer(answer.problem)
        least = min(
            scorer.score_mesh(np.reshape(order, (2, 3))).time for order in permutations(range(6))
        )
        assert answer.best.time == pytest.approx(least)


def test_collectives_at_once_share_the_links():
    torus = tc.torus("tpu_v6e:16x16")
    asked = ({"data": 64, "tensor": 4}, "tensor:exchange:4MB,data:exchange:4MB")
    together = tc.mesh(torus, *asked, overlap=True)
    assert together.best.source == "predicted"
    alone = together.collective_table()["time"]
    assert alone.max() <= together.best.time <= alone.sum() * 1.01


def test_missing_chips_are_not_used():
    torus = tc.torus("tpu_v5e:4x4")
    coords = [place for place in torus.coords.tolist() if place != [1, 2]]
    devices = find_devices(torus, coords)
    answer = tc.mesh(torus, {"a": 2, "b": 7}, "b:allreduce:8MB", devices=devices)
    assert np.unique(answer.best.nodes).size == 14
    assert torus.node([1, 2]) not in answer.best.nodes
    assert answer.ids.max() <= 14
    assert answer.best.time <= answer.default.time


def test_the_first_row_is_simulated():
    """The closed form ranks two layouts ahead of the one that is fastest by packets."""
    asked = tc.torus("tpu_v5e:4x8"), {"x": 16, "y": 2}, "x:exchange:1MB,y:exchange:1MB"
    forecast = tc.mesh(*asked, simulate=0)
    answer = tc.mesh(*asked)
    assert answer.best.source == "simulated"
    assert answer.not_simulated == ()
    by_packets = [tc.mesh(*asked, compare=each.nodes).compared for each in forecast.layouts]
    assert {each.source for each in by_packets} == {"simulated"}
    assert answer.best.time == pytest.approx(min(each.time for each in by_packets))
    # What was first in closed form is not among the fastest three by packets.
    assert max(each.time for each in by_packets[:3]) > 1.05 * answer.best.time


def test_devices_in_order_lead_where_they_are_fastest():
    """Walks over 64 chips that are cut to 32 are slower than the first 32 chips in order."""
    asked = {"data": 4, "fsdp": 4, "t": 2}, "t:allreduce:64MB:12,fsdp:allgather:32MB:12"
    answer = tc.mesh(tc.torus("tpu_v4:4x4x4"), *asked)
    assert answer.best.time <= answer.default.time
    assert answer.idle == 32


def test_what_is_not_simulated_is_named():
    asked = tc.torus("tpu_v5e:4x4"), {"x": 16}, "x:allreduce:1MB"
    assert tc.mesh(*asked, overlap=True).not_simulated == ("x allreduce",)
    assert tc.mesh(*asked, simulate=0).not_simulated == ("x allreduce",)


def test_lines_count_all_runs_of_a_step():
    asked = tc.torus("tpu_v5e:4x4"), {"x": 4, "y": 4}
    once = tc.mesh(*asked, "x:allreduce:64MB,y:allgather:8MB").collective_table()
    often = tc.mesh(*asked, "x:allreduce:64MB:12,y:allgather:8MB").collective_table()
    for column in ("time", "bound"):
        assert often[column].tolist() == pytest.approx([12 * once[column][0], once[column][1]])
    assert often["GBps"].tolist() == pytest.approx(once["GBps"].tolist())


@pytest.mark.parametrize(("machine", "per_chip"), [("trainium2:4x4", 4), ("trainium1", 2)])
def test_a_chip_may_be_several_devices(machine, per_chip):
    """Groups within chips stay on them, groups over chips go over the share of their links."""
    chips = tc.torus(machine)
    asked = {"fsdp": 16, "tensor": per_chip}, "tensor:allreduce:64MB,fsdp:allgather:64MB"
    answer = tc.mesh(chips, *asked)
    assert answer.torus.n_nodes == 16 * per_chip
    assert answer.ids.shape == (16, per_chip)
    assert (answer.ids // per_chip == answer.ids[:, :1] // per_chip).all()
    alone = tc.mesh(chips, {"fsdp": 16}, "fsdp:allgather:64MB")
    each = answer.collective_table()["time"][1] / alone.collective_table()["time"][0]
    assert each == pytest.approx(per_chip, rel=0.1)
    with pytest.raises(InputError):
        tc.mesh(chips, {"fsdp": 16, "tensor": 3 * per_chip}, "tensor:allreduce:64MB")


def test_joint_axes_and_repeats_count():
    torus = tc.torus("tpu_v4:4x4x4")
    once = tc.mesh(torus, {"a": 16, "b": 4}, "a+b:allreduce:64MB")
    twice = tc.mesh(torus, {"a": 16, "b": 4}, "a+b:allreduce:64MB:2")
    assert twice.best.time == pytest.approx(2 * once.best.time)
    # Over all 64 chips the bucket algorithm has six links a chip.
    assert once.collective_table()["algorithm"][0] == "bucket"
    assert once.best.time == pytest.approx(once.collective_table()["bound"][0] * HEADERS, rel=0.13)


def test_a_mesh_of_one_device_sends_nothing():
    answer = tc.mesh(tc.Torus((4, 4)), {"x": 1}, "x:allreduce:1MB")
    assert (answer.best.time, answer.gain, answer.ids.tolist()) == (0, 1, [0])


def test_rounds_are_those_of_the_collective():
    torus = tc.Torus((4, 2))
    lines = np.arange(8).reshape(2, 4)
    traffic = MeshTraffic("allreduce", 4e6, ("x",))
    found = step_times.list_rounds(traffic, CollectiveGroups(lines, torus), "ring")
    assert sum(times for times, _ in found) == 6
    sent = sum(times * phase.nbytes.sum() for times, phase in found)
    assert sent == pytest.approx(2 * 2 * 3 * 4e6)


@pytest.mark.parametrize(
    ("axes", "traffic"),
    [
        ({"x": 17}, "x:allreduce:1MB"),
        ({"x": 16}, "y:allreduce:1MB"),
        ({}, "x:allreduce:1MB"),
        ({"x": 0}, "x:allreduce:1MB"),
        (3, "x:allreduce:1MB"),
        ({"x": 16}, []),
        ({"x": 16}, [3]),
    ],
)
def test_wrong_questions_are_told(axes, traffic):
    with pytest.raises(InputError):
        tc.mesh(tc.Torus((4, 4)), axes, traffic)


def test_laid_axes_say_where_they_lie():
    torus = tc.Torus((16, 4))
    words = {
        AxisLayout(pieces, list_walks([piece.size for piece in pieces])[2]).describe(torus)
        for pieces, _ in split_dimensions(torus.shape, (8, 8))
        if len(pieces) == 2
    }
    assert {
        "loops over 2x4 blocks",
        "loops over Y and every 8th node along X",
        "loops over 4x2 blocks",
    } <= words


@pytest.mark.parametrize("n", [4, 8])
def test_a_link_of_a_ring_works_as_long_as_its_bytes_take(n):
    torus = tc.Torus((n,), bandwidth=1e9).with_network(header=0)
    sent = [MeshTraffic(kind, 1e6, ("x",)) for kind in ("allreduce", "allgather")]
    seconds = tc.mesh(torus, {"x": n}, sent).best.link_seconds
    # A ring uses both ways; an allreduce passes each part round twice.
    each = (n - 1) / n * 1e6 / 2 / 1e9
    np.testing.assert_allclose(seconds, np.full((2, 2 * n), each) * [[2], [1]], rtol=1e-3)


def test_a_layout_is_compared_by_numbers_or_coordinates_in_shapes_of_the_mesh():
    torus = tc.torus("tpu_v5e:2x4")
    asked = torus, {"x": 4, "y": 2}, {"x": "ppermute:4MB"}
    nodes = np.array([0, 5, 2, 7, 4, 1, 6, 3])
    coords = torus.coords[nodes]
    forms = nodes, nodes.reshape(4, 2), coords, coords.reshape(4, 2, 2)
    found = [tc.mesh(*asked, compare=form, simulate=0).compared for form in forms]
    assert all(each.nodes.tolist() == nodes.reshape(4, 2).tolist() for each in found)
    for wrong in (nodes.reshape(2, 4), nodes[:4], coords.T, 3):
        with pytest.raises(InputError, match=r"another mesh: found shape .* or their coordinates"):
            tc.mesh(*asked, compare=wrong, simulate=0)
    with pytest.raises(InputError, match="duplicate node in a layout"):
        tc.mesh(*asked, compare=[0, 0, *nodes[2:]], simulate=0)
