"""Results, output and files of each sub-command on small inputs."""

import io
import json
import re
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import toruscast
import toruscast as tc
from toruscast import datasets
from toruscast._features import FEATURES, unregister_feature
from toruscast.cli import main
from toruscast.cli.options import TrafficOptions, argument, sub_command
from toruscast.cli.problem import load_application
from toruscast.formats import (
    read_comm,
    read_mapping,
    read_mappings,
    write_comm,
    write_mapping,
    write_mappings,
)
from toruscast.mapping import Torus, patterns, strategies
from toruscast.simulation import simulate
from toruscast.training import (
    TimePredictor,
    load_predictor,
    read_samples,
    repeated_splits,
    write_samples,
)

TORUS = Torus((4, 4)).with_network(unknown_rules=())
HALO = patterns.halo_2d((4, 4), 4096)
PLUGIN = """
from toruscast import register_feature

@register_feature("busiest_share")
def busiest_share(traffic):
    return traffic.link_bytes.max() / traffic.link_bytes.sum()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A graph, and a model trained with it."""
    place = tmp_path_factory.mktemp("work")
    write_comm(HALO, place / "halo.csv")
    line = f"train --comm {place}/halo.csv --torus 4x4 -n 24 --splits 2 --quiet"
    line += f" --samples {place}/s.parquet --out {place}/m.npz --json {place}/m.json"
    result = CliRunner().invoke(main, line.split())
    assert result.exit_code == 0, result.stderr
    assert "RCC" in result.stdout
    assert result.stderr == ""
    return place


@pytest.fixture
def run(folder, monkeypatch):
    monkeypatch.chdir(folder)

    def call(line, code=0):
        result = CliRunner().invoke(main, line.split())
        assert result.exit_code == code, (line, result.stdout, result.stderr)
        return result

    return call


@pytest.fixture(scope="module")
def ranked(folder):
    """A checked ranking with all its output files."""
    line = f"rank --comm {folder}/halo.csv --torus 4x4 --network known"
    line += " --candidates 20 --check --top 4"
    line += f" --json {folder}/r.json --csv {folder}/r.csv --out {folder}/best.map --jobs 1"
    result = CliRunner().invoke(main, line.split())
    assert result.exit_code == 0, result.stderr
    content = json.loads((folder / "r.json").read_text())
    return content, pd.read_csv(folder / "r.csv")


def test_train_saves_samples_and_a_model(folder):
    assert len(read_samples(folder / "s.parquet")) == 24
    model = load_predictor(folder / "m.npz")
    assert model.n_samples_ == 24
    assert {"model", "release_bound"} <= set(model.provenance_["held_out_rcc"])
    assert model.provenance_["routing"] == "deterministic"
    content = json.loads((folder / "m.json").read_text())
    assert sum(content["importances"].values()) == pytest.approx(1)
    assert {row["metric"] for row in content["quality"]} >= {"rcc", "tau_b", "r2", "regret_1"}


@pytest.mark.slow
def test_train_and_evaluate_with_measured_times(run, folder, tmp_path):
    maps = strategies.sample(HALO, TORUS, n=20, seed=5)
    write_mappings(maps, tmp_path / "maps", torus=TORUS)
    times = {mapping.name: 1.5 * simulate(HALO, TORUS, mapping).time for mapping in maps[1:]}
    # The slope is the ratio of the bandwidths, the constant is computation.
    times = {name: 1e-3 + time for name, time in times.items()}
    lines = [f"x,{time!r},{name}\n" for name, time in times.items()]
    (tmp_path / "t.csv").write_text("host,time,mapping\n" + "".join(lines))
    measured = f"--comm halo.csv --torus 4x4 --mappings {tmp_path}/maps --times {tmp_path}/t.csv"
    result = run(f"train {measured} --features H1,lower_bound --out {tmp_path}/m.npz --splits 5")
    assert "1 of 20 mappings have no time" in result.stderr
    model = load_predictor(tmp_path / "m.npz")
    assert model.n_samples_ == 19
    assert model.provenance_["times"] == f"{tmp_path}/t.csv"
    result = run(f"train {measured} --out {tmp_path}/m.npz --splits 5")
    assert "1.00 ms do not depend on the mapping; the rest is 1.50 times the simu" in result.stdout
    assert load_predictor(tmp_path / "m.npz").reference == "simulated_time"
    content = json.loads(run(f"evaluate {measured} --features prior --json - --splits 5").stdout)
    assert content["n_samples"] == 19
    assert set(content["feature_sets"]) == {"prior"}
    rcc = {row["features"]: row["mean"] for row in content["quality"] if row["metric"] == "rcc"}
    assert rcc["line in simulated_time"] == 1
    assert content["learned"]["slope"] == pytest.approx(1.5)
    assert content["learned"]["constant"] == pytest.approx(1e-3)
    for line, message in (
        (f"{measured} -n 30", "-n and --times exclude each other"),
        (measured.replace("--times", "--samples"), "--mappings needs --times"),
        (
            f"--samples s.parquet --times {tmp_path}/t.csv",
            "--times and --samples exclude each other",
        ),
        (measured.replace("t.csv", "u.csv"), "no such file"),
        (f"{measured} --target time", "--target cannot be used with --times"),
    ):
        assert message in run(f"evaluate {line}", 2).stderr
    (tmp_path / "t.csv").write_text("unknown 1\n")
    wrong = f"{tmp_path}/t.csv:1: time of an unknown mapping: found unknown, expected such"
    assert wrong in run(f"train {measured} --out {tmp_path}/m.npz", 2).stderr
    assert (
        "unknown mapping: found unknown, expected such as" in run(f"evaluate {measured}", 2).stderr
    )


def test_train_from_samples_with_chosen_features(run, folder):
    run("train --samples s.parquet --out own.npz --features prior,max_FIFO --splits 1")
    model = load_predictor(folder / "own.npz")
    assert list(model.feature_names_in_) == ["max_dilation", "avg_bytes", "max_bytes", "max_FIFO"]


def test_rank_agrees_with_the_library(ranked):
    content, table = ranked
    assert content["application"]["tasks"] == 16
    assert (content["torus"]["name"], content["torus"]["nodes"]) == ("4x4", 16)
    assert [row["mapping"] for row in content["ranking"]] == table["mapping"].tolist()
    candidates = tc.candidates(HALO, TORUS, n=20, seed=1)
    expected = {m.name: simulate(HALO, TORUS, m).time for m in candidates}
    assert table["observed_time"].to_numpy() == pytest.approx(
        [expected[name] for name in table["mapping"]]
    )
    answer = tc.rank(HALO, TORUS, candidates, check=True)
    assert table["mapping"].tolist() == answer.table["mapping"].tolist()
    for column in ("time", "low", "high", "p_best"):
        assert table[column].to_numpy() == pytest.approx(answer.table[column].to_numpy())
    assert content["verdict"]["kind"] == answer.verdict.kind
    assert content["cost"] == answer.cost._asdict()
    assert content["quality"] == pytest.approx(answer.scores)


def test_the_answer_gives_reasons_of_the_first_and_the_last(ranked):
    content, table = ranked
    names = table["mapping"].tolist()
    assert list(content["reasons"]) == [names[0], names[-1]]
    for why in content["reasons"].values():
        assert why["binding"] == max(why["bounds"], key=why["bounds"].get)
        assert why["hottest_links"][0]["label"].startswith("(")


def test_rank_finds_the_order_that_is_asked_for(run):
    line = "rank --comm halo.csv --torus 4x4 --network known --candidates 9"
    line += " --goal order --rcc 1 --seconds 600"
    found = json.loads(run(f"{line} --json -").stdout)
    assert found["goal"] == "order"
    assert {row["source"] for row in found["ranking"]} == {"simulated"}
    times = [row["time"] for row in found["ranking"]]
    assert times == sorted(times)
    assert {"bound", "full"} <= set(found["spent"])


def test_rank_refuses_an_order_by_simulations_of_measured_times(run, folder):
    run("rank --comm halo.csv --torus 4x4 --candidates 9 --no-simulation --out placed/ --quiet")
    names = [path.stem for path in sorted((folder / "placed").glob("*.map"))]
    rows = [f"{name},{1 + i / 10}" for i, name in enumerate(names)]
    (folder / "placed.csv").write_text("\n".join(["mapping,time", *rows]) + "\n")
    words = "--mappings placed --times placed.csv --goal order"
    result = run(f"rank --comm halo.csv --torus 4x4 {words}", code=2)
    assert "goal fastest" in result.stderr


def test_rank_writes_the_best_mapping(ranked, folder):
    _, table = ranked
    best = read_mapping(folder / "best.map", TORUS)
    made = strategies.make(table["mapping"][0], HALO, TORUS, seed=1)
    assert np.array_equal(best.node, made.node)


def test_rank_with_a_model_and_given_mappings(run, folder):
    maps = folder / "maps"
    maps.mkdir()
    for name in ("identity", "random", "random@2"):
        write_mapping(strategies.make(name, HALO, TORUS), maps / f"{name}.map", torus=TORUS)
    result = run("rank --comm halo.csv --torus 4x4 --mappings maps --model m.npz --json -")
    content = json.loads(result.stdout)
    assert content["ranking"][0]["mapping"] == "identity"
    assert content["model"]["source"] == "m.npz"
    assert content["quality"] == {}


def test_rank_calls_an_estimate_by_its_name(run):
    line = "rank --comm halo.csv --torus 4x4 --network known --candidates 5 --check"
    for routing in ("deterministic", "adaptive"):
        text = run(f"{line} --routing {routing} --csv routed.csv -v").stdout
        for row in pd.read_csv("routed.csv").itertuples():
            mapping = strategies.make(row.mapping, HALO, TORUS, seed=1)
            time = simulate(HALO, TORUS, mapping, routing=routing).time
            assert row.observed_time == pytest.approx(time)
            assert row.lower_bound <= time
        assert ("Minimum time for each part" in text) == (routing == "deterministic")
        assert ("Estimated time for each part" in text) == (routing == "adaptive")


@pytest.mark.parametrize(
    ("features", "target", "learned"),
    [
        ("coarse,max_bytes", "", "correction"),
        ("relative", "", "slowdown"),
        ("relative", "--target correction", "correction"),
        ("prior", "", "time"),
    ],
)
def test_the_target_of_train(run, folder, features, target, learned):
    graph = "--comm halo.csv --torus 4x4 --network known -n 12 --splits 2"
    run(f"train {graph} --features {features} {target} --out t.npz --json t.json --quiet")
    assert json.loads((folder / "t.json").read_text())["target"] == learned
    found = run(
        "rank --comm halo.csv --torus 4x4 --network known --candidates 5 --model t.npz --check"
    ).stdout
    assert ("uses a coarse simulation" in " ".join(found.split())) == (learned == "correction")


def test_rank_announces_long_simulations(run, monkeypatch):
    line = "rank --comm halo.csv --torus 4x4 --candidates 5"
    assert run(f"{line} --check").stderr == ""
    monkeypatch.setattr("toruscast.cli.rank._LONG_MINUTES", 0.0)
    budgets, really = [], toruscast.rank

    def noted(*words, budget, **more):
        budgets.append(budget)
        return really(*words, budget=budget, **more)

    monkeypatch.setattr(toruscast, "rank", noted)
    assert (
        "simulating 5 mappings takes about 1 minutes; omit --check" in run(f"{line} --check").stderr
    )
    assert (
        "simulating 3 mappings takes at most 1 minutes; no simulation starts later"
        in run(f"{line} --simulations 3").stderr
    )
    assert run(f"{line} --seconds 9").stderr == ""
    # The announced time becomes the limit; minutes are rounded up.
    assert [budget.seconds for budget in budgets] == [None, 60, 9]


def test_rank_writes_all_candidates_to_a_folder(run, folder):
    run("rank --comm halo.csv --torus 4x4 --candidates 5 --model m.npz --out all/ --quiet")
    assert len(read_mappings(folder / "all", TORUS)) == 5


def test_features_equal_those_of_the_library(run):
    text = run("features --comm halo.csv --torus 4x4 --candidates 5 --csv -").stdout
    table = pd.read_csv(io.StringIO(text), index_col="mapping")
    expected = tc.features(HALO, TORUS, tc.candidates(HALO, TORUS, n=5))
    pd.testing.assert_frame_equal(table, expected)


@pytest.mark.parametrize(
    ("options", "comm", "sampling", "routing"),
    [
        ("--seed 7", HALO, {"seed": 7}, "deterministic"),
        ("--tasks-per-node 2", HALO, {"tasks_per_node": 2}, "deterministic"),
        ("--grid 2x8", HALO.renamed("halo", grid=(2, 8)), {}, "deterministic"),
        ("--iterations 1.5", HALO.scaled(1 / 1.5), {}, "deterministic"),
        ("--routing adaptive", HALO, {}, "adaptive"),
    ],
)
def test_options_of_the_input_are_those_of_the_library(
    run, folder, options, comm, sampling, routing
):
    made = f"--comm halo.csv --torus 4x4 {options}"
    text = run(f"features {made} --candidates 12 --csv -").stdout
    table = pd.read_csv(io.StringIO(text), index_col="mapping")
    mappings = tc.candidates(comm, TORUS, n=12, routing=routing, **sampling)
    expected = tc.features(comm, TORUS, mappings, routing=routing)
    pd.testing.assert_frame_equal(table, expected)
    run(f"train {made} -n 12 --features prior --splits 1 --samples o.parquet --out o.npz -q")
    samples = read_samples(folder / "o.parquet")
    mappings = strategies.sample(comm, TORUS, n=12, **sampling)
    expected = tc.features(comm, TORUS, mappings, routing=routing)
    pd.testing.assert_frame_equal(
        samples[expected.columns], expected.reset_index(drop=True), check_exact=True
    )
    times = [simulate(comm, TORUS, mapping, routing=routing).time for mapping in mappings]
    assert samples["time"].tolist() == pytest.approx(times)
    provenance = load_predictor(folder / "o.npz").provenance_
    assert (provenance["seed"], provenance["routing"]) == (sampling.get("seed", 1), routing)
    (folder / "o.parquet").unlink()


@pytest.mark.parametrize("traffic", ["point_to_point", "collective"])
def test_kinds_of_traffic(run, traffic):
    name = "lammps-lj-64"
    comm = datasets.load(name, include=traffic)
    content = json.loads(
        run(
            f"simulate --comm {name} --torus 4x4x4 --mapping identity --include {traffic}"
            " --iterations 1 --json - --error 0.5"
        ).stdout
    )
    assert content["application"]["edges"] == comm.n_edges
    assert content["application"]["bytes"] == comm.nbytes.sum()
    for source in (name, datasets.path(name)):
        run(f"convert --include {traffic} {source} part.npz")
        assert read_comm("part.npz").equals(comm)


def test_features_as_parquet_and_json(run, folder):
    run(
        "features --comm halo.csv --torus 4x4 --candidates 3 --level 2 --parquet f.parquet"
        " --json f.json"
    )
    table = pd.read_parquet(folder / "f.parquet")
    assert "avg_buffer" in table
    assert table["time"].min() > 0
    rows = json.loads((folder / "f.json").read_text())["features"]
    assert [row["mapping"] for row in rows] == table.index.tolist()


def test_list_of_features(run):
    listed = pd.read_csv(io.StringIO(run("features --list --csv -").stdout))
    assert listed["name"].tolist() == list(FEATURES)


def test_simulate_equals_the_library(run, folder):
    result = run("simulate --comm halo.csv --torus 4x4 --mapping random@2 --json - --links l.csv")
    content = json.loads(result.stdout)
    expected = simulate(HALO, TORUS, strategies.make("random@2", HALO, TORUS))
    assert content["time"] == expected.time
    assert content["packet_hops"] == expected.packet_hops
    links = pd.read_csv(folder / "l.csv", index_col="link")
    assert links["packets"].sum() == expected.packet_hops
    assert links["label"].iloc[0] == "(0,0) +X"


def test_simulate_writes_everything_into_one_folder(run, folder):
    before = set(folder.iterdir())
    line = "simulate --comm halo.csv --torus 4x4 --mapping random@2 --quiet"
    run(f"{line} --out run --interval 1us --trace run.json")
    assert set(folder.iterdir()) - before == {folder / "run", folder / "run.json"}
    names = {"messages", "tasks", "phases", "links", "fifos", "series"}
    files = {f"{name}.csv" for name in names} | {"summary.json", "trace.json"}
    assert {path.name for path in (folder / "run").iterdir()} == files
    mapping = strategies.make("random@2", HALO, TORUS)
    expected = simulate(HALO, TORUS, mapping, interval=1e-6)
    for name in names:
        table = pd.read_csv(folder / "run" / f"{name}.csv", keep_default_na=False)
        assert len(table) == len(getattr(expected, name)())
    messages = pd.read_csv(folder / "run" / "messages.csv")
    pd.testing.assert_frame_equal(messages, expected.messages(), check_dtype=False)
    summary = json.loads((folder / "run" / "summary.json").read_text())
    assert summary["time"] == expected.time
    slowest = (messages["arrived"] - messages["handed_over"]).max()
    assert summary["slowest_messages"][0]["took"] == pytest.approx(slowest)
    links, fifos = expected.links(), expected.fifos()
    assert summary["mean_delay"] == pytest.approx(links["delay"].mean())
    waited = fifos["mean_wait"] * fifos["packets"]
    for key, column, values in (
        ("busiest_links", "busy_share", links["busy_share"]),
        ("fullest_buffers", "mean_buffered", links["mean_buffered"]),
        ("longest_waiting_fifos", "waited", waited[waited > 0]),
    ):
        listed = [row[column] for row in summary[key]]
        assert len(listed) >= 2
        assert listed == pytest.approx(values.nlargest(len(listed)).tolist())
    trace = (folder / "run" / "trace.json").read_text()
    assert trace == (folder / "run.json").read_text()
    assert json.loads(trace)["otherData"]["edges"] == len(messages)

    (folder / "run" / "notes.txt").write_text("mine")
    run(f"{line} --out run")
    left = {path.name for path in (folder / "run").iterdir()}
    assert left == files - {"series.csv"} | {"notes.txt"}


def test_simulate_with_another_network(run):
    line = "simulate --comm halo.csv --torus 4x4 --mapping identity --json -"
    changes = [
        "deadlock=dateline",
        "overhead=1us",
        "buffer_packets=4",
    ]
    options = " ".join(f"--network {change}" for change in changes)
    content = json.loads(run(f"{line} {options} --network bandwidth=1e9").stdout)
    torus = Torus((4, 4), bandwidth=1e9).with_network(
        deadlock="dateline", overhead=1e-6, buffer_packets=4
    )
    mapping = strategies.make("identity", HALO, torus)
    assert content["time"] == simulate(HALO, torus, mapping).time
    assert content["network"]["deadlock"] == "dateline"
    assert content["network"]["eager_limit"] is None


def test_evaluate_compares_sets_on_the_same_splits(run):
    result = run("evaluate --samples s.parquet --features prior --features H1 --splits 3 --json -")
    content = json.loads(result.stdout)
    assert (content["n_train"], content["n_test"]) == (16, 8)
    assert {row["features"] for row in content["quality"]} == {"prior", "H1"}
    assert content["gain"][0] == {"features": "prior", "gain": 0.0, "low": 0.0, "high": 0.0}
    assert {"feature", "rcc", "tau_b"} == set(content["single_features"][0])


@pytest.mark.parametrize("command", ["train", "evaluate"])
def test_quality_is_that_of_the_library(run, folder, command):
    line = f"{command} --samples s.parquet --features coarse --target time --splits 3 --seed 4"
    run(f"{line} --json q.json --quiet" + " --out q.npz" * (command == "train"))
    rows = json.loads((folder / "q.json").read_text())["quality"]
    model = TimePredictor("coarse", "time")
    scores = repeated_splits(read_samples(folder / "s.parquet"), model, n_splits=3, seed=4)
    for row in rows:
        assert row["mean"] == pytest.approx(scores[row["metric"]].mean())


def test_evaluate_own_feature(run, folder):
    (folder / "own.py").write_text(PLUGIN)
    try:
        text = run("evaluate --comm halo.csv --torus 4x4 -n 12 --splits 2 --plugin own.py").stdout
        unregister_feature("busiest_share")
        made = "evaluate --comm halo.csv --torus 4x4 -n 12 --splits 2 --samples own.parquet"
        run(f"{made} --features prior")
        stored = run("evaluate --samples own.parquet --splits 2 --plugin own.py", code=2).stderr
        unregister_feature("busiest_share")
        again = "evaluate --comm halo.csv --samples own.parquet --splits 2 --plugin own.py --json -"
        content = json.loads(run(again).stdout)
        unregister_feature("busiest_share")
        refused = run(f"{made} --plugin own.py", code=2).stderr
        unregister_feature("busiest_share")
        run("convert halo.csv other.edges")
        other = "evaluate --comm lammps-lj-64 --samples own.parquet --plugin own.py"
        wrong = run(other, code=2).stderr
    finally:
        unregister_feature("busiest_share")
    assert re.search("busiest_share (adds|takes) .* prior", text)
    assert "unknown graph of samples" in stored
    assert content["metrics"] == ["busiest_share"]
    assert content["answers"]["prior"] in text
    assert "-n needs new samples" in refused
    assert "own.parquet: " in wrong
    assert wrong.count("\n") == 1


def test_a_model_that_reads_an_own_feature(run, folder):
    # The name of the model file must not be read as a source of times.
    (folder / "own.py").write_text(PLUGIN)
    made = "--comm lammps-lj-64 --torus 4x4x4"
    try:
        run(f"train {made} -n 12 --features prior+mine --plugin own.py --splits 2 --out simulation")
        unregister_feature("busiest_share")
        ranking = f"rank {made} --network known --candidates 4 --model simulation"
        assert "not registered: found busiest_share" in run(ranking, code=2).stderr
        text = run(f"{ranking} --plugin own.py").stdout
        unregister_feature("busiest_share")
        (folder / "own.py").write_text(PLUGIN.replace('share")', 'share", level=2)'))
        table = run(f"features {made} --candidates 4 --plugin own.py").stdout
        unregister_feature("busiest_share")
        for line in (f"features {made} --features prior", f"train {made} --out x"):
            message = run(f"{line} --plugin own.py", code=2).stderr
            assert "no feature of --plugin is used" in message
            unregister_feature("busiest_share")
    finally:
        unregister_feature("busiest_share")
    assert "predicted by the model simulation" in text
    assert "busiest_share" in table


def test_evaluate_names_missing_features(run, folder):
    table = read_samples(folder / "s.parquet").drop(columns="avg_buffer_TO")
    write_samples(table, folder / "analytic.parquet")
    message = run("evaluate --samples analytic.parquet --features H5", code=2).stderr
    assert "analytic.parquet: features missing from the samples: found avg_buffer_TO" in message


@pytest.mark.parametrize("suffix", ["txt", "edges", "csv", "npz", "mtx"])
def test_convert_graphs(run, folder, suffix):
    run(f"convert halo.csv out.{suffix}")
    graph = read_comm(folder / f"out.{suffix}")
    assert np.array_equal(graph.nbytes, HALO.nbytes)


def test_convert_divides_only_on_request(run, folder):
    run("convert --iterations 2 halo.csv half.npz --json half.json")
    half = read_comm(folder / "half.npz")
    assert half.nbytes.sum() == HALO.nbytes.sum() / 2
    assert json.loads((folder / "half.json").read_text())["bytes"] == half.nbytes.sum()


def test_convert_joins_bytes_and_message_counts(run, folder):
    (folder / "bytes.csv").write_text("0,3,0,0,0\n" + "0,0,0,0,1\n" * 4)
    (folder / "counts.csv").write_text("0,2,0,0,0\n" + "0,0,0,0,7\n" * 4)
    run("convert bytes.csv joined.npz --messages counts.csv")
    joined = read_comm(folder / "joined.npz")
    assert joined.nbytes.tolist() == [3, 1, 1, 1, 1]
    assert joined.n_messages.tolist() == [2, 7, 7, 7, 7]


def test_convert_to_more_tasks(run, folder):
    (folder / "pair.txt").write_text("0 1 8\n")
    run("convert --tasks 20 pair.txt more.npz")
    assert read_comm(folder / "more.npz").n_tasks == 20


def test_convert_mappings(run, folder):
    mapping = strategies.make("zigzag-XY", HALO, TORUS)
    write_mapping(mapping, folder / "z.map", torus=TORUS)
    run("convert --mapping --torus 4x4 z.map z.csv")
    assert np.array_equal(read_mapping(folder / "z.csv", TORUS).node, mapping.node)
    several = "\n".join(f"{name},{','.join(map(str, mapping.node))}" for name in "ab")
    (folder / "several.csv").write_text(several)
    run("convert --mapping --torus 4x4 several.csv several/")
    assert [m.name for m in read_mappings(folder / "several", TORUS)] == ["a", "b"]
    run("convert --mapping --torus 4x4 several.csv several.map", code=2)
    assert not (folder / "several.map").exists()


def test_convert_a_folder_of_mappings_to_a_format(run, folder):
    maps = strategies.sample(HALO, TORUS, n=3, seed=5)
    write_mappings(maps, folder / "three", torus=TORUS)
    out = run("convert --mapping --torus 4x4 three orders/ --out-format rank-order")
    assert "orders/: 3 mappings of 16 tasks" in out.output
    assert {file.name for file in (folder / "orders").iterdir()} == {f"{m.name}.txt" for m in maps}
    # --format names the format because files of this one have a fixed name.
    run("convert --mapping --torus 4x4 orders back/ --format rank-order")
    for mapping in maps:
        again = read_mapping(folder / f"back/{mapping.name}.map", TORUS)
        np.testing.assert_array_equal(again.node, mapping.node)
    run("convert --mapping --torus 4x4 three hosts/ --out-format rankfile", code=2)


def test_convert_writes_the_rounds_of_a_trace(run, folder):
    text = "num_ranks 2\nrank 0 {\nl1: send 8b to 1 tag 0\nl2: recv 4b from 1 tag 1\n}\n"
    text += "rank 1 {\nl1: recv 8b from 0 tag 0\nl2: send 4b to 0 tag 1\nl2 requires l1\n}\n"
    (folder / "ping.goal").write_text(text)
    run("convert ping.goal pong.goal")
    workload = tc.read_workload(folder / "pong.goal")
    assert [phase.nbytes.tolist() for phase in workload] == [[8], [4]]


def test_shipped_dataset_is_divided_by_its_iterations():
    name = "lammps-lj-64"
    iterations = datasets.provenance(name)["iterations"]
    whole = datasets.load(name)
    application = load_application(TrafficOptions(comms=(name,)))
    assert application.iterations == iterations
    assert application.workload.total.nbytes == pytest.approx(whole.nbytes / iterations)
    assert application.workload.total.grid == whole.grid
    assert load_application(TrafficOptions(comms=(name,), iterations=1)).workload.total.equals(
        whole
    )


def measured_case(tmp_path, n=14):
    maps = strategies.sample(HALO, TORUS, n=n, seed=5)
    write_mappings(maps, tmp_path / "maps", torus=TORUS)
    times = {mapping.name: 1e-5 + simulate(HALO, TORUS, mapping).time for mapping in maps}
    given = f"--comm halo.csv --torus 4x4 --network known --mappings {tmp_path}/maps"
    given += f" --times {tmp_path}/t.csv"
    return times, given


def write_times(tmp_path, times):
    rows = (f"{name},{time!r}\n" for name, time in times)
    (tmp_path / "t.csv").write_text("mapping,time\n" + "".join(rows))


def test_rank_forecasts_the_others_from_measured_times(run, folder, tmp_path):
    times, given = measured_case(tmp_path)
    some = list(times.items())[:10]
    write_times(tmp_path, [(name, time * k) for k in (0.99, 1.0, 1.01) for name, time in some])
    result = run(f"rank {given} --json {tmp_path}/a.json")
    content = json.loads((tmp_path / "a.json").read_text())
    assert content["learned"]["constant"] == pytest.approx(1e-5, rel=1e-3)
    assert content["learned"]["noise"] == pytest.approx(0.01, rel=0.1)
    assert content["cost"]["measured"] == 10
    for row in content["ranking"]:
        assert row["source"] == ("measured" if row["mapping"] in dict(some) else "predicted")
        assert row["time"] == pytest.approx(times[row["mapping"]], rel=1e-4)
        assert row["lower_bound"] <= row["low"] <= row["time"] <= row["high"]
    assert sum(row["p_best"] for row in content["ranking"]) == pytest.approx(1)
    out = " ".join(result.stdout.split())
    assert "do not depend on the mapping" in out
    assert "of one mapping vary by 1 %" in out
    assert "predicted from measured times of 10 of them" in out
    assert "over all mappings is unknown. 'toruscast search' may" in out


@pytest.mark.slow
def test_times_below_the_bound_remove_it(run, folder, tmp_path):
    times, given = measured_case(tmp_path)
    write_times(tmp_path, [(name, (time - 1e-5) / 5) for name, time in times.items()])
    result = run(f"rank {given} --json {tmp_path}/a.json")
    content = json.loads((tmp_path / "a.json").read_text())
    assert {row["lower_bound"] for row in content["ranking"]} == {None}
    assert "lower bounds of this network, so none is shown" in result.stdout


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda i, time: 1e-3, "nothing to learn: all 14 times are equal"),
        pytest.param(
            lambda i, time: 1e-3 * (1 + i),
            "they increase from row to row",
            marks=pytest.mark.slow,
        ),
        (lambda i, time: -time, "bad time"),
        (lambda i, time: time * (1000 if i == 3 else 1), "are all times in one unit?"),
    ],
)
def test_uninformative_times_are_refused_in_one_line(run, folder, tmp_path, change, message):
    times, given = measured_case(tmp_path)
    # Shuffle, because the sample begins with regular mappings.
    order = np.random.default_rng(7).permutation(len(times))
    rows = [list(times.items())[k] for k in order]
    write_times(tmp_path, [(name, change(i, time)) for i, (name, time) in enumerate(rows)])
    commands = ("rank", "evaluate", f"train --out {tmp_path}/m.npz")
    # All three commands read times in the same way.
    for command in commands if "equal" in message else commands[:1]:
        result = run(f"{command} {given}", 2)
        assert message in result.stderr
        assert f"{tmp_path}/t.csv" in result.stderr
        assert result.stderr.count("\n") == 1


@pytest.mark.slow
@pytest.mark.filterwarnings("always")
def test_times_in_another_unit_are_asked_about_once(run, folder, tmp_path):
    times, given = measured_case(tmp_path)
    write_times(tmp_path, [(name, 1e3 * (time - 1e-5)) for name, time in times.items()])
    result = run(f"rank {given}")
    assert result.stderr.count("are the measured times in seconds") == 1
    text = (tmp_path / "t.csv").read_text()
    (tmp_path / "t.csv").write_text(text.replace("time", "time_ms"))
    assert "are the measured times in seconds" not in run(f"rank {given}").stderr


def test_options_that_measured_times_exclude(run, folder, tmp_path):
    times, given = measured_case(tmp_path)
    write_times(tmp_path, times.items())
    assert "--check cannot be used with --times" in run(f"rank {given} --check", 2).stderr
    assert "--model cannot be used with --times" in run(f"rank {given} --model m.npz", 2).stderr
    alone = f"rank --comm halo.csv --torus 4x4 --network known --times {tmp_path}/t.csv"
    assert "--times needs --mappings" in run(alone, 2).stderr
    write_times(tmp_path, list(times.items())[:5])
    assert "too few mappings to learn from: found 5" in run(f"rank {given}", 2).stderr


def test_a_check_compares_simulated_times(run, tmp_path):
    """The default order is simulated even if the budget is spent."""
    # A ring over 5 i mod 16, so the default order has long routes.
    at = [(5 * i) % 16 for i in range(16)]
    pairs = [(at[i], at[(i + step) % 16]) for i in range(16) for step in (1, 15)]
    rows = "".join(f"{src},{dst},40960\n" for src, dst in pairs)
    (tmp_path / "far.csv").write_text(f"src,dst,nbytes\n{rows}")
    line = f"rank --comm {tmp_path}/far.csv --torus 4x4 --network known"
    line += " --candidates 12 --simulations 1 --check"
    text = run(f"{line} --json {tmp_path}/answer.json").stdout
    answer = json.loads((tmp_path / "answer.json").read_text())
    rows = {row["mapping"]: row for row in answer["ranking"]}
    best, yours = answer["ranking"][0], rows[answer["default_order"]]
    less = f"{100 * (1 - best['observed_time'] / yours['observed_time']):.0f} % less"
    assert yours["time"] == yours["observed_time"]
    assert less in text.splitlines()[0]
    assert f"{1e6 * yours['observed_time']:.3g} us" in text.splitlines()[0]


def test_an_argument_must_be_given_unless_its_type_has_none():
    @dataclass(frozen=True)
    class Files:
        first: str = argument("FIRST")
        second: str | None = argument("[SECOND]")

    @sub_command("show")
    def show(files: Files) -> None:
        print(files.first, files.second)

    run = CliRunner().invoke
    assert run(show, ["a"]).output == "a None\n"
    refused = run(show, [])
    assert refused.exit_code == 2
    assert "Missing argument 'FIRST'" in refused.output
