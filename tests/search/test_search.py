"""The search for a better mapping: what it keeps to, and what it refuses."""

import itertools
import math
import warnings
from importlib import import_module

import numpy as np
import pytest
from click.testing import CliRunner

import toruscast as tc
from toruscast._search import annealing
from toruscast._search.annealing import Clock
from toruscast.cli.app import main
from toruscast.errors import InputError
from toruscast.mapping import CommGraph, MappingProblem, TaskMapping, Torus, Workload
from toruscast.mapping.network import RULES
from toruscast.mapping.patterns import halo_2d, random_pairs
from toruscast.mapping.strategies import make
from toruscast.routing.bounds import min_time
from toruscast.simulation import simulate

RING = CommGraph(12, range(12), [*range(1, 12), 0], [5000] * 12)
RING_FILE = "12\n" + "".join(f"{t} {(t + 1) % 12} 5\n" for t in range(12))
KNOWN = Torus((4, 4)).with_network(unknown_rules=())
OURS = [0, 1, 2, 3, 4, 7, 8, 11, 12, 13, 14, 15]
OURS_FILE = "task,node\n" + "".join(f"{i},{n}\n" for i, n in enumerate(OURS))


def shuffled(comm, seed=1):
    new = np.random.default_rng(seed).permutation(comm.n_tasks)
    return CommGraph(comm.n_tasks, new[comm.src], new[comm.dst], comm.nbytes, comm.n_messages)


def grid_of(sizes):
    """Tasks of a periodic grid, that each send to the next along every dimension."""
    tasks = np.arange(math.prod(sizes)).reshape(sizes)
    ahead = [np.roll(tasks, -1, axis).ravel() for axis in range(len(sizes))]
    n = tasks.size
    every = np.tile(np.arange(n), len(sizes))
    return CommGraph(n, every, np.concatenate(ahead), [1000] * every.size)


def test_tasks_stay_on_nodes_that_are_ours_and_bound_ones_where_they_are():
    found = tc.search(RING, KNOWN, nodes=OURS, fixed={0: 15, 5: 0}, n_sweeps=24)
    assert set(found.best.node.tolist()) == set(OURS)
    assert found.best.node[[0, 5]].tolist() == [15, 0]
    assert found.value == simulate(RING, KNOWN, found.best).time


def test_a_ring_with_holes_comes_to_one_hop_a_byte():
    found = tc.search(RING, Torus((4, 4)), nodes=OURS, objective="hop_bytes", n_sweeps=48)
    assert found.value == RING.nbytes.sum()


def test_the_same_seed_gives_the_same_mapping():
    halo, torus = shuffled(halo_2d((4, 4), 2048)), KNOWN
    first, again = (tc.search(halo, torus, n_sweeps=24, seed=3) for _ in range(2))
    assert (first.best.node == again.best.node).all()
    assert first.table.equals(again.table)


TANGLED = random_pairs(64, 3, 10_000)


def improvements(**how):
    """The mappings that were each better than all before."""
    found = []

    def better(mapping, value):
        found.append((mapping.node.tolist(), value))

    tc.search(TANGLED, Torus((4, 4, 4)), callback=better, n_jobs=1, **how)
    return found


@pytest.mark.parametrize("objective", ["time", "max_bytes", "hop_bytes"])
def test_more_turns_continue_the_same_search(objective):
    """So they never give a worse mapping."""
    few, more, most = (improvements(objective=objective, n_sweeps=t) for t in (1, 30, 120))
    assert few == more[: len(few)]
    assert more == most[: len(more)]
    assert len(few) < len(most)


@pytest.mark.parametrize("objective", ["time", "max_bytes"])
def test_the_clock_only_ends_a_search(objective, monkeypatch):
    """Each look at it is one more millisecond."""
    whole = improvements(objective=objective, n_sweeps=500)
    numbers = set()
    for seconds in (0.0, 0.02, 0.05, 0.2, 1.0):
        looks = itertools.count()
        monkeypatch.setattr(Clock, "_now", staticmethod(lambda c=looks: (1e-3 * next(c), 0.0)))
        found = improvements(objective=objective, seconds=seconds)
        assert found == whole[: len(found)]
        numbers.add(len(found))
    assert len(numbers) > 1


def test_the_answer_is_never_worse_than_yours_nor_below_the_bound():
    halo, torus = shuffled(halo_2d((4, 4), 2048)), KNOWN
    yours = make("bisect-graph", halo, torus)
    found = tc.search(halo, torus, yours, n_sweeps=24)
    assert found.bound <= found.value <= found.initial_value
    assert found.initial_value == simulate(halo, torus, yours).time
    assert found.gain == 1 - found.value / found.initial_value


def test_what_the_race_simulated_with_real_packets_is_not_simulated_anew(monkeypatch):
    calls = []
    for module in map(import_module, ("toruscast._features.traffic", "toruscast._search.search")):

        def noted(problem, *, mapping, module=module, real=module.simulate, **how):
            calls.append((module.__name__, mapping.node.tobytes()))
            return real(problem, mapping=mapping, **how)

        monkeypatch.setattr(module, "simulate", noted)
    monkeypatch.setattr(import_module("toruscast._search.search"), "_MIN_LOOP_SECONDS", 0.0)
    found = tc.search(TANGLED, Torus((4, 4, 4)), n_sweeps=1, n_jobs=1)
    raced = {key for module, key in calls if module.endswith("traffic")}
    last = max(i for i, (module, _) in enumerate(calls) if module.endswith("traffic"))
    assert found.best.node.tobytes() in raced
    assert not raced & {key for _, key in calls[last + 1 :]}


def test_ranks_that_may_drift_apart_are_no_slower_with_all_messages_at_once():
    # All-to-all in rows, then in columns: 40 KB to each.
    rows = np.arange(16).reshape(4, 4)
    pairs = [[(a, b) for row in way for a in row for b in row if a != b] for way in (rows, rows.T)]
    rounds = Workload(
        [CommGraph(16, *np.transpose(both), [40000] * 48) for both in pairs], dependent=True
    )
    torus = Torus((2, 2, 4), bandwidth=(625e3,) * 3, tie_break="sum_parity")
    torus = torus.with_network(payload=2948, header=66, hop_latency=2e-5, overhead=5e-5)
    first = TaskMapping(range(16), torus)

    def longer(rules):
        found = tc.search(
            rounds, torus.with_network(unknown_rules=rules), [first], n_sweeps=150, seed=2
        )
        assert found.value <= found.initial_value
        once = [simulate(rounds.total, torus, m).time for m in (found.best, first)]
        return once[0] / once[1]

    assert longer(()) > 1.2
    assert longer(RULES) <= 1.01


def test_a_search_ends_at_the_bound_although_its_starts_took_their_time(monkeypatch):
    module = import_module("toruscast._search.search")

    def slow(problem, allocation, seed, clock, energy, allotments):
        while not clock.is_over():
            pass
        yield [TaskMapping(range(16), allocation.torus)]

    monkeypatch.setattr(module, "generate_starts", slow)
    grid, torus = grid_of((4, 4)), Torus((4, 4))
    found = tc.search(grid, torus, make("random", grid, torus), seconds=0.1)
    assert found.best.node.tolist() == list(range(16))
    assert found.proposals == 0


def test_each_better_mapping_is_told():
    told = []
    found = tc.search(
        shuffled(halo_2d((4, 4), 2048)),
        Torus((4, 4)),
        n_sweeps=24,
        callback=lambda mapping, value: told.append((mapping, value)),
    )
    values = [value for _, value in told]
    assert values == sorted(values, reverse=True)
    assert told[-1] == (found.best, found.value)


def test_an_interruption_keeps_the_best():
    def stop(_mapping, _value):
        raise KeyboardInterrupt

    found = tc.search(shuffled(halo_2d((4, 4), 2048)), Torus((4, 4)), n_sweeps=24, callback=stop)
    assert found.interrupted
    assert len(found.table) == 1


def test_a_clock_does_not_count_compilations(monkeypatch):
    elapsed = [0.0, 0.0]
    monkeypatch.setattr(annealing, "compile_seconds", lambda: tuple(elapsed))
    clock = Clock(5)
    assert not clock.is_over()
    elapsed[:] = 100.0, 100.0
    assert clock.remaining > 5


def test_no_mapping_of_a_ring_beats_the_bound():
    torus = Torus((8,))
    assert min_time(MappingProblem(RING, (4, 4))) > 0
    ring = CommGraph(8, range(8), [*range(1, 8), 0], [51200] * 8)
    best = simulate(ring, torus, TaskMapping(range(8), 8)).time
    assert min_time(MappingProblem(ring, torus)) <= best


def test_a_renumbered_grid_comes_back():
    grid = shuffled(halo_2d((12, 10), 1000))
    node = make("spectral", grid, Torus((12, 10), wrap=False)).node
    hops = Torus((12, 10), wrap=False).distance(node[grid.src], node[grid.dst])
    assert (hops == 1).all()


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"nodes": OURS[:5], "tasks_per_node": 1}, "more tasks than slots"),
        ({"nodes": OURS, "fixed": {0: 5}}, "node 5 is not in the allocation"),
        ({"fixed": {0: 1, 2: 1}, "tasks_per_node": 1}, "too many tasks are fixed"),
        ({"fixed": {task: task for task in range(12)}}, "no task can move"),
        ({"nodes": [1, 1, *OURS]}, "duplicate node"),
        ({"fixed": {12: 1}}, "fixed task"),
        ({"objective": "speed"}, "unknown objective"),
    ],
)
def test_what_cannot_be_is_refused(how, words):
    with pytest.raises(InputError, match=words):
        tc.search(RING, Torus((4, 4)), n_sweeps=1, **how)


def test_the_command_keeps_to_the_file_of_nodes(tmp_path):
    (tmp_path / "ring.edges").write_text(
        "12\n" + "".join(f"{t} {(t + 1) % 12} 5\n" for t in range(12))
    )
    (tmp_path / "ours.csv").write_text(
        "task,node\n" + "".join(f"{i},{n}\n" for i, n in enumerate(OURS))
    )
    out = tmp_path / "best.csv"
    words = ["search", "--comm", str(tmp_path / "ring.edges"), "--torus", "4x4", "--seconds", "1"]
    words += ["--allocation", str(tmp_path / "ours.csv"), "--fix", "0=7", "--out", str(out)]
    result = CliRunner().invoke(main, [*words, "--objective", "hop_bytes"])
    assert result.exit_code == 0, result.output
    rows = np.loadtxt(out, delimiter=",", skiprows=1, usecols=(0, 1), dtype=int)
    assert set(rows[:, 1]) == set(OURS)
    assert [0, 7] in rows.tolist()
    for bad in (["--fix", "0=5"], ["--fix", "x"], ["--fix", "0=1", "--fix", "0=2"]):
        assert CliRunner().invoke(main, [*words, *bad]).exit_code == 2


@pytest.mark.parametrize("before", [None, "# of an earlier run\n0\n"])
def test_a_search_that_fails_leaves_no_mapping_behind(tmp_path, monkeypatch, before):
    """It has written the tasks in order by then."""
    (tmp_path / "ring.edges").write_text(RING_FILE)
    out = tmp_path / "best.map"
    if before is not None:
        out.write_text(before)

    def fail(*_):
        assert out.read_text() != before
        raise MemoryError

    monkeypatch.setattr(import_module("toruscast._search.search"), "generate_starts", fail)
    words = ["search", "--comm", str(tmp_path / "ring.edges"), "--torus", "4x4", "--seconds", "1"]
    assert CliRunner().invoke(main, [*words, "--out", str(out)]).exit_code != 0
    assert (out.read_text() if out.exists() else None) == before


@pytest.mark.parametrize(
    ("grid", "torus"),
    [((8, 16, 16), (4, 4, 4, 4, 2)), ((8, 16), (8, 4, 4)), ((32,), (4, 8)), ((6, 12), (6, 12))],
)
def test_renumbered_rings_lie_along_folded_dimensions(grid, torus):
    """Also those so short that a long ring's overtones are as slow as their waves."""
    rings = shuffled(grid_of(grid))
    torus = Torus(torus)
    room = rings.n_tasks // torus.n_nodes
    node = make("spectral", rings, torus, tasks_per_node=room).node
    assert torus.distance(node[rings.src], node[rings.dst]).max() == 1


def test_tori_of_several_sizes_are_searched_in_one_process():
    for shape in ((2, 2), (4, 4, 4), (2, 2), (4,)):
        torus = Torus(shape)
        ring = CommGraph(4, range(4), [1, 2, 3, 0], [100, 50, 9, 5])
        assert tc.search(ring, torus, n_sweeps=2).best.n_tasks == 4


def test_a_torus_without_links_is_refused_without_a_warning():
    torus = Torus((2, 2))
    bare = torus.without(links=range(torus.n_links))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InputError, match="nodes are connected by links"):
            tc.search(halo_2d((2, 2), 4096), bare, n_sweeps=1)
