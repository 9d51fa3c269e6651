"""Every command and the library use the same phases for every source of traffic."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

import toruscast as tc
from toruscast._features import RoutedTraffic
from toruscast._search.explain import explain
from toruscast.cli import main
from toruscast.formats import read_workload, write_comm, write_mappings
from toruscast.mapping import MappingProblem, collectives
from toruscast.simulation import simulate, simulate_flows
from toruscast.training import read_samples

TASKS = 8
TORUS = tc.Torus((4, 2)).with_network(unknown_rules=())
# In the order of a folder of maps, because the order of sums changes the last digit.
MAPPINGS = sorted(
    tc.strategies.sample(tc.patterns.ring(TASKS, 1), TORUS, n=6, seed=5), key=lambda m: m.name
)
HLO = """
HloModule step, num_partitions=8

ENTRY %main (p: f32[4096]) -> f32[4096] {
  %a = f32[4096]{0} all-reduce(%p), replica_groups={{0,1},{2,3},{4,5},{6,7}}, to_apply=%add
  %b = f32[4096]{0} collective-permute(%a), source_target_pairs={{0,7},{7,3},{3,0}}
  ROOT %c = f32[4096]{0} all-to-all(%b), replica_groups={{0,2,4,6},{1,3,5,7}}
}
"""


def goal():
    """Return a ring in which each rank sends after it has received."""
    lines = [f"num_ranks {TASKS}"]
    for rank in range(TASKS):
        before = (rank - 1) % TASKS
        send = f"l1: send 40000b to {(rank + 1) % TASKS} tag {rank}"
        receive = f"l2: recv 40000b from {before} tag {before}"
        order = "l1 requires l2" if rank else "l2 requires l1"
        lines += [f"rank {rank} {{", send, receive, order, "}"]
    return "\n".join(lines)


def chakra(folder):
    """Write two successive collectives, with a trace per rank."""
    folder.mkdir()
    for rank in range(TASKS):
        nodes = [
            {"id": i, "type": "COMM_COLL_NODE", "comm_type": kind, "comm_size": size}
            for i, (kind, size) in enumerate([("ALL_REDUCE", 30_000), ("ALL_TO_ALL", 9_000)])
        ]
        (folder / f"app.{rank}.json").write_text(json.dumps({"nodes": nodes}))


def otf2(folder):
    """Write messages to the next rank and then back."""
    writer = pytest.importorskip("otf2", reason="the package otf2 is not installed")
    enums = writer.enums
    with writer.writer.open(str(folder), timer_resolution=1000000) as archive:
        d = archive.definitions
        node = d.system_tree_node("node")
        places = [
            d.location(f"M{r}", group=d.location_group(f"R{r}", system_tree_parent=node))
            for r in range(TASKS)
        ]
        how = {"paradigm": enums.Paradigm.MPI, "group_flags": enums.GroupFlag.NONE}
        d.group("", group_type=enums.GroupType.COMM_LOCATIONS, members=places, **how)
        ranks = d.group("w", group_type=enums.GroupType.COMM_GROUP, members=range(TASKS), **how)
        world = d.comm("world", group=ranks)
        events = [archive.event_writer_from_location(place) for place in places]
        for rank in range(TASKS):
            for step in (1, 2):
                to = (rank + (1 if step == 1 else -1)) % TASKS
                back = (rank + (-1 if step == 1 else 1)) % TASKS
                events[rank].mpi_send(10 * step, to, world, step, 30_000)
                events[rank].mpi_recv(10 * step + 5, back, world, step, 30_000)


KINDS = ("goal", "hlo", "chakra", "otf2", "collective", "phases", "rounds")


@pytest.fixture(params=KINDS)
def sent(request, tmp_path, monkeypatch):
    """Arguments for traffic on the command line, and the same traffic as a workload."""
    monkeypatch.chdir(tmp_path)
    write_mappings(MAPPINGS, tmp_path / "maps", torus=TORUS)
    kind = request.param
    if kind == "goal":
        (tmp_path / "app").write_text(goal())
    elif kind == "hlo":
        (tmp_path / "app").write_text(HLO)
    elif kind == "chakra":
        chakra(tmp_path / "app")
    elif kind == "otf2":
        otf2(tmp_path / "app")
    elif kind == "collective":
        rounds = collectives.schedule("allreduce/ring", TASKS, 64_000, TORUS.shape).workload()
        return "--collective allreduce/ring:64kB", rounds
    else:
        first = tc.patterns.halo_2d((4, 2), 20_000)
        second = tc.CommGraph(TASKS, [0, 5, 6], [5, 2, 1], [90_000.0, 40_000.0, 100.0], [3, 1, 1])
        write_comm(first, tmp_path / "first.csv")
        write_comm(second, tmp_path / "second.csv")
        words = "--comm first.csv --comm second.csv"
        is_dependent = kind == "rounds"
        workload = tc.Workload([first, second], "first, second", is_dependent)
        return words + (" --dependent" if is_dependent else ""), workload
    return "--comm app", tc.read_workload("app")


def run(line):
    result = CliRunner().invoke(main, [*line.split(), "--quiet"])
    assert result.exit_code == 0, (line, result.stdout, result.stderr)
    return result.stdout


def rows(text, key="mapping"):
    return {row[key]: row for row in text}


def test_all_commands_and_the_library_agree(sent):
    words, workload = sent
    where = f"{words} --torus 4x2 --network known"
    times = {m.name: simulate(workload, TORUS, m).time for m in MAPPINGS}

    answer = tc.rank(workload, TORUS, MAPPINGS, check=True, n_jobs=1)
    ranked = json.loads(run(f"rank {where} --mappings maps --check --jobs 1 --json -"))
    assert ranked["application"]["n_phases"] == len(workload)
    assert ranked["application"]["dependent"] == workload.dependent
    expected = rows(answer.table.to_dict("records"))
    for name, row in rows(ranked["ranking"]).items():
        assert row["observed_time"] == times[name]
        assert {key: row[key] for key in ("time", "low", "high", "p_best")} == {
            key: expected[name][key] for key in ("time", "low", "high", "p_best")
        }

    simulated = json.loads(run(f"simulate {where} --mappings maps --json -"))
    assert {row["mapping"]: row["time"] for row in simulated["ranking"]} == times

    flown = json.loads(run(f"simulate --flows {where} --mappings maps --error 0 --json -"))
    for mapping in MAPPINGS:
        row = rows(flown["ranking"])[mapping.name]
        whole = simulate_flows(workload, TORUS, mapping, error=0)
        assert row["phase_times"] == list(whole.phase_times)

    planned = json.loads(run(f"plan {where} --mappings maps --json -"))
    made = rows(tc.plan(workload, TORUS, MAPPINGS, seed=1).table.to_dict("records"))
    for row in planned["mappings"]:
        assert row["time"] == made[row["mapping"]]["time"]

    first, second = MAPPINGS[0].name, MAPPINGS[-1].name
    explained = json.loads(run(f"explain {where} --mapping {first} --against {second} --json -"))
    why = explain(workload, TORUS, MAPPINGS[0], MAPPINGS[-1])
    assert (explained["time"], explained["against_time"]) == (why.time, why.against_time)

    features = json.loads(run(f"features {where} --mappings maps --level 2 --json -"))["features"]
    table = tc.features(workload, TORUS, MAPPINGS, level=2)
    for name, row in rows(features).items():
        assert row["time"] == table["time"][name]
        assert row["release_bound"] == table["release_bound"][name]


# Two sources suffice, because training takes long.
@pytest.mark.slow
@pytest.mark.parametrize("sent", ["goal", "phases"], indirect=True)
def test_samples_simulate_the_phases(sent):
    words, workload = sent
    where = f"{words} --torus 4x2 --network known -n 12 --samples samples.parquet --seed 3"
    run(f"train {where} --out model.skops --splits 2")
    trained = tc.train(workload, TORUS, 12, seed=3, n_splits=2)
    kept = read_samples("samples.parquet")
    assert kept["time"].tolist() == trained.samples["time"].tolist()
    for mapping, time in zip(trained.samples["mapping"], kept["time"], strict=True):
        again = tc.strategies.make(mapping, workload, TORUS, seed=3)
        assert time == RoutedTraffic(MappingProblem(workload, TORUS), again).simulation.time
    # The stored samples have the same traffic, so none are added.
    run(f"evaluate {where} --features coarse --splits 2")
    assert len(read_samples("samples.parquet")) == len(kept)
    assert np.isfinite(kept["time"]).all()


def test_a_search_simulates_the_phases(sent):
    words, workload = sent
    found = json.loads(
        run(f"search {words} --torus 4x2 --network known --seconds 0 --mappings maps --json -")
    )
    assert found["initial_value"] == min(simulate(workload, TORUS, each).time for each in MAPPINGS)


def test_rounds_of_a_file_and_a_barrier_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app.goal").write_text(goal())
    write_comm(tc.patterns.ring(TASKS, 100), tmp_path / "ring.csv")
    line = "rank --comm app.goal --comm ring.csv --torus 4x2 --network known"
    result = CliRunner().invoke(main, [*line.split(), "--quiet"])
    assert result.exit_code == 2
    assert "app.goal" in result.stderr
    assert "--dependent" in result.stderr
    joined = json.loads(run(f"simulate {line[5:]} --dependent --mapping identity --json -"))
    rounds = [*read_workload("app.goal"), tc.patterns.ring(TASKS, 100)]
    whole = tc.Workload(rounds, dependent=True)
    assert (
        joined["time"] == simulate(whole, TORUS, tc.strategies.make("identity", whole, TORUS)).time
    )
