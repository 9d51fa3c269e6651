"""Every command reports the traffic that a reader omitted."""

import json

import pytest
from click.testing import CliRunner

import toruscast as tc
from toruscast.answers.write import make_answer
from toruscast.cli import main
from toruscast.mapping import Omission, Torus, Workload, patterns, strategies

LACKING = (Omission("ragged-all-to-all", "rag.3"), Omission("send", nbytes=64.0))
STATED = "Not counted: 1 ragged-all-to-all (rag.3), size unknown; 1 send, 64.0 B."
HALO = patterns.halo_2d((4, 4), 20_000, periodic=True)
TORUS = Torus((4, 4))
MAPPINGS = strategies.sample(HALO, TORUS, n=8, seed=3)
ON = "--comm halo.csv --torus 4x4"
COMMANDS = {
    "rank": f"rank {ON} --candidates 4",
    "rank-check": f"rank {ON} --candidates 4 --check",
    "rank-times": f"rank {ON} --mappings maps --times runs.csv",
    "search": f"search {ON} --seconds 0.1",
    "explain": f"explain {ON} --mapping zigzag-XY",
    "plan": f"plan {ON} --mappings maps --times runs.csv",
    "simulate": f"simulate {ON} --mapping identity",
    "simulate-repeated": f"simulate {ON} --mapping identity --repeat 3",
    "simulate-many": f"simulate {ON} --mappings maps",
    "simulate-flows": f"simulate --flows {ON} --mappings maps",
    "features": f"features {ON} --candidates 4",
    "train": f"train {ON} -n 12 --features prior --splits 1 --out model.npz",
    "train-times": f"train {ON} --mappings maps --times runs.csv --splits 1 --out model.npz",
    "evaluate": f"evaluate {ON} -n 12 --features prior --splits 2",
    "evaluate-times": f"evaluate {ON} --mappings maps --times runs.csv --features prior --splits 2",
    "two": f"simulate {ON} --comm halo.csv --mapping identity",
}
WITHOUT_PAGE = ("features", "simulate-many", "simulate-flows")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a graph with omissions, mappings, and runs of them."""
    monkeypatch.chdir(tmp_path)
    tc.write_comm(HALO, "halo.csv")
    tc.write_mappings(MAPPINGS, "maps", torus=TORUS)
    times = [f"{m.name},{2e-5 + tc.simulate(HALO, TORUS, m).time:.9g}\n" for m in MAPPINGS]
    (tmp_path / "runs.csv").write_text("mapping,time\n" + "".join(times))
    graph = Workload([HALO.renamed("halo")], omitted=LACKING)
    monkeypatch.setattr("toruscast.read_workload", lambda *_, **__: graph)
    return tmp_path


def in_a_line(text):
    return " ".join(text.replace("\N{NO-BREAK SPACE}", " ").split())


# These fit many trees; 'rank-times' covers learning from times.
SLOW = ("train-times", "evaluate-times")


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in COMMANDS],
)
def test_every_command_states_what_is_not_counted(folder, name):
    page = "" if name in WITHOUT_PAGE else " --report page.html"
    line = f"{COMMANDS[name]} --json out.json{page}"
    done = CliRunner().invoke(main, line.split(), catch_exceptions=False)
    assert done.exit_code == 0, done.stderr
    assert STATED in in_a_line(done.stdout) or name == "two"
    assert in_a_line(done.stdout).count("Not counted") == 1
    kept = json.loads((folder / "out.json").read_text())["omitted"]
    assert [each["what"] for each in kept][:2] == ["ragged-all-to-all", "send"]
    if page:
        text = in_a_line((folder / "page.html").read_text(encoding="utf-8"))
        assert "Not counted: " in text
    if "proved" in done.stdout.lower():
        assert "for what is counted" in in_a_line(done.stdout)


def test_python_results_state_it_too(folder):
    graph = Workload([HALO], omitted=LACKING)
    quick = tc.TimePredictor("prior", n_estimators=10, calibration_folds=0)
    times = {m.name: 2e-5 + tc.simulate(HALO, TORUS, m).time for m in MAPPINGS}
    results = [
        tc.train(graph, TORUS, 12, model=quick, n_splits=1),
        tc.learn_runs(graph, TORUS, MAPPINGS, times, simulate=0, seed=0),
        tc.plan(graph, TORUS, MAPPINGS),
        tc.simulate(graph, TORUS, MAPPINGS[0]),
    ]
    for result in results:
        assert make_answer(result).lines[0] == STATED
