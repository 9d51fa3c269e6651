import gzip
import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from waiting import lifeline, until

from toruscast.cli import main
from toruscast.decision.run_loop import lock_runs
from toruscast.formats import read_mapping, write_comm, write_mappings
from toruscast.mapping import Torus, patterns, strategies
from toruscast.simulation import simulate

TORUS = Torus((4, 4))
HALO = patterns.halo_2d((4, 4), 4096)
MAPPINGS = {mapping.name: mapping for mapping in strategies.sample(HALO, TORUS, n=12, seed=1)}
TIMES = {name: 3e-5 + simulate(HALO, TORUS, mapping).time for name, mapping in MAPPINGS.items()}
BEST = min(TIMES, key=TIMES.__getitem__)
WORDS = "plan --comm halo.csv --torus 4x4 --mappings maps/ --times runs.csv --jobs 1"


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run 'plan' in a folder with a graph, mappings and the time of each."""
    monkeypatch.chdir(tmp_path)
    write_comm(HALO, "halo.csv")
    write_mappings(MAPPINGS.values(), "maps")
    Path("times").mkdir()
    for name, seconds in TIMES.items():
        Path(f"times/{name}").write_text(f"{seconds!r}\n")

    def call(*words, code=0):
        base = WORDS
        for usual in ("--mappings maps/", "--times runs.csv"):
            base = base.replace(usual, "") if usual.split()[0] in words else base
        result = CliRunner().invoke(main, [*base.split(), *words])
        assert result.exit_code == code, result.stderr
        return result

    return call


MACHINE = "cat times/$(basename {map} .map)"


def words(result):
    """Return stdout without line breaks."""
    return " ".join(result.stdout.split())


def logged():
    return pd.read_csv("runs.csv")


def test_the_first_run_is_the_predicted_best(run):
    result = run("--out", "next", "--json", "plan.json")
    assert "no run in runs.csv yet" in result.stdout
    assert "No runs yet" in result.stdout
    content = json.loads(Path("plan.json").read_text())
    assert content["next"] == [content["mappings"][0]["mapping"]]
    name = content["next"][0]
    assert f"Run next: {name}." in result.stdout
    written = read_mapping(f"next/{name}.map", TORUS)
    np.testing.assert_array_equal(written.node, MAPPINGS[name].node)
    assert not Path("runs.csv").exists()
    # No other files are written.
    assert {p.name for p in Path().iterdir()} == {
        *("halo.csv", "maps", "times", "next", "plan.json"),
    }


def test_repeated_plans_end_with_the_fastest(run):
    for _ in range(15):
        content = json.loads(run("--json", "-", "--noise", "0.001").stdout)
        if content["enough"]:
            break
        with Path("runs.csv").open("a") as file:
            file.write(f"{content['next'][0]},{TIMES[content['next'][0]]!r}\n")
    assert content["verdict"]["best"] == BEST
    result = run("--noise", "0.001", "--out", "best/")
    assert f"{BEST}: " in result.stdout
    assert re.search(r"9\d % sure: no other candidate is more than", words(result))
    assert "Noise of a run: 0.1 %, as given." in result.stdout
    assert "Run next" not in result.stdout
    assert [p.name for p in Path("best").iterdir()] == [f"{BEST}.map"]


def test_a_batch_and_a_dialect(run):
    result = run("--batch", "3", "--out", "next", "--out-format", "vcoord", "--runs", "9")
    named = result.stdout.partition("Run next: ")[2].partition(".\n")[0].split(", ")
    assert len(named) == 3
    assert words(result).count("to use it: ") == 3
    assert {p.name for p in Path("next").iterdir()} == {f"{name}.vcoord" for name in named}


def test_a_script_runs_until_the_runs_suffice(run, progress_calls):
    result = run("--run", MACHINE, "--noise", "0.001", "--csv", "table.csv")
    runs = logged()
    assert f"{BEST}: " in result.stdout
    assert [TIMES[name] for name in runs["mapping"]] == runs["time"].tolist()
    assert pd.read_csv("table.csv")["runs"].sum() == len(runs)
    assert result.stderr.count("toruscast: run ") == len(runs) == progress_calls[-1][0]
    assert not Path(".runs.csv.run").exists()
    before = Path("runs.csv").read_bytes()
    # The runs already suffice.
    assert f"{BEST}: " in run("--run", MACHINE, "--noise", "0.001").stdout
    assert Path("runs.csv").read_bytes() == before


@pytest.mark.slow
def test_a_budget_counts_the_runs_of_the_file(run):
    busy = ("--run", MACHINE, "--noise", "0.3", "--tolerance", "0.0001", "--quiet")
    result = run(*busy, "--runs", "3")
    assert "All 3 runs of --runs are done." in result.stdout
    run(*busy, "--runs", "5", "--batch", "4")
    assert len(logged()) == 5
    run(*busy, "--runs", "5")
    assert len(logged()) == 5


def test_noisy_times_are_reported(run):
    near = sorted(TIMES, key=TIMES.__getitem__)[:2]
    rows = [(name, 1e-4 * share) for name in near for share in (0.9, 1.1, 0.95, 1.05) * 3]
    rows += [(name, 1e-3) for name in TIMES if name not in near]
    pd.DataFrame(rows, columns=["mapping", "time"]).to_csv("runs.csv", index=False)
    result = run()
    text = words(result).replace(near[1], near[0])
    assert f"indistinguishable from {near[0]} without" in text
    assert "from repeated runs" in text


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--run", "echo no luck >&2; exit 4; {map}"], 1, "failed, exit status 4: no luck"),
        (["--run", "true {map}"], 1, "printed no time: found no number"),
        (["--run", "echo -2.5 # {map}"], 1, "printed no time: found -2.5"),
        (["--run", "sleep 60 # {map}", "--timeout", "0.3"], 1, "killed after 0.3 s"),
        (["--run", "./job.sh"], 2, "no {map} in the command"),
        (["--noise", "2"], 2, "--noise"),
        (["--runs", "0"], 2, "--runs"),
        (["--out-format", "rankfile"], 2, "--out-format needs --out or --run"),
        (["--out-format", "nonsense", "--out", "x"], 2, "unknown format of a mapping"),
        (["--out-format", "hostfile", "--out", "x"], 2, "needs host names"),
        (["--out", "maps"], 2, "--out and --mappings name the same file"),
        (["--times", "maps/runs.csv"], 2, "--times is a file of the folder that --mappings reads"),
        (["--times", "no/runs.csv", "--run", "true {map}"], 2, "no such folder"),
        (["--out", "halo.csv"], 2, "found a file, expected a folder"),
    ],
)
def test_faults_are_reported_in_one_line(run, options, code, message):
    result = run(*options, code=code)
    assert message in result.stderr
    lines = [line for line in result.stderr.splitlines() if "error:" in line]
    assert len(lines) == len(result.stderr.splitlines()) == 1
    assert not Path("runs.csv").exists()
    assert not Path(".runs.csv.run").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mapping,time\nnobody,1.0\n", "runs.csv:2: time of an unknown mapping"),
        ("mapping,time\n{best},-1\n", "runs.csv:2: bad time: found -1, expected positive seconds"),
        ("mapping,time\n{best}\n", "runs.csv:2: wrong number of columns"),
        ("mapping,time\n{best},1\n{best},1e9\n", "are all times in one unit?"),
    ],
)
def test_bad_files_of_runs_are_refused(run, text, message):
    Path("runs.csv").write_text(text.format(best=BEST))
    assert message in run(code=2).stderr


def test_a_time_in_another_unit_is_not_kept(run):
    Path("runs.csv").write_text(f"mapping,time\n{BEST},{TIMES[BEST]}\n")
    before = Path("runs.csv").read_bytes()
    result = run("--run", "echo 77.5 # {map}", "--tolerance", "0.0001", "--noise", "0.3", code=2)
    assert "are all times in one unit?" in result.stderr
    assert Path("runs.csv").read_bytes() == before
    assert not Path(".runs.csv.run").exists()


def test_two_plans_do_not_write_one_file(run):
    with lock_runs("runs.csv"):
        result = run("--run", MACHINE, code=1)
        # Another program may replace the file without releasing the lock.
        Path("new").write_text(f"{BEST},1e-4\n")
        Path("new").replace("runs.csv")
        run("--run", MACHINE, code=1)
    assert "another plan is writing its runs here" in result.stderr
    assert Path("runs.csv").read_text() == f"{BEST},1e-4\n"
    assert not list(Path().glob(".runs.csv*"))


@pytest.mark.parametrize("link", [False, True])
def test_a_file_of_runs_that_another_program_puts_there_stays(run, link):
    if link:
        Path("other").mkdir()
        Path("runs.csv").symlink_to("other/all.csv")
    place = "other/all.csv" if link else "runs.csv"
    puts = f"printf '{BEST},1e-4\\n' > new; mv new {place}; echo 1e-4 # {{map}}"
    run("--run", puts, "--runs", "1")
    assert Path(place).read_text().startswith(f"{BEST},1e-4\n")
    assert len(Path(place).read_text().splitlines()) == 2
    # A failed run keeps the other program's file too.
    Path(place).unlink()
    run("--run", puts.replace("echo 1e-4", "false"), code=1)
    assert Path(place).read_text() == f"{BEST},1e-4\n"
    assert Path("runs.csv").is_symlink() == link


def test_a_mapping_is_not_written_over_the_file_of_runs(run):
    Path("next").mkdir()
    Path(f"next/{BEST}.map").write_text(f"mapping,time\n{BEST},{TIMES[BEST]!r}\n")
    before = Path(f"next/{BEST}.map").read_bytes()
    for more in ([], ["--run", MACHINE]):
        result = run("--times", f"next/{BEST}.map", "--out", "next", *more, code=2)
        assert "file of runs would be overwritten" in result.stderr
    assert Path(f"next/{BEST}.map").read_bytes() == before


def test_a_packed_file_of_runs_is_refused_before_a_run(run):
    with gzip.open("runs.csv.gz", "wt") as file:
        file.write(f"mapping,time\n{BEST},{TIMES[BEST]!r}\n")
    asked = ("--times", "runs.csv.gz")
    run(*asked)
    assert "cannot append" in run(*asked, "--run", "touch began; : {map}", code=2).stderr
    assert not Path("began").exists()


def test_no_shell_runs_the_name_of_a_mapping(run):
    names = ["$(touch PWNED)", "`touch PWNED`", "a; touch PWNED;", "b'b", "d e", "*"]
    nodes = [mapping.node for mapping in MAPPINGS.values()]
    rows = [",".join([name, *map(str, node)]) for name, node in zip(names, nodes, strict=False)]
    Path("names.csv").write_text("\n".join(rows) + "\n")
    given = ("--mappings", "names.csv", "--noise", "0.3", "--runs", "6")
    # Neither this shell nor a nested one expands the name.
    run(*given, "--run", "test -s {map} && echo 1")
    run(*given, "--times", "more.csv", "--run", "eval 'test -s \"{map}\"' && echo 1")
    assert set(logged()["mapping"]) <= set(names)
    assert not Path("PWNED").exists()


OTHER_SIGNALS = [
    pytest.param(each, marks=pytest.mark.slow) for each in (signal.SIGTERM, signal.SIGHUP)
]


@pytest.mark.parametrize("number", [signal.SIGINT, *OTHER_SIGNALS])
def test_a_plan_that_is_ended_ends_its_script_and_resumes(run, number):
    slow = (
        f"[ -e again ] || {{ touch again; {MACHINE}; exit; }}; "
        "exec 9> held; touch began; sleep 1000; echo 1 # {map}"
    )
    line = [sys.executable, "-c", "from toruscast.cli import main; main()", *WORDS.split()]
    asked = ("--noise", "0.3", "--tolerance", "0.0001", "--runs", "3")
    with lifeline("held") as all_are_gone:
        process = subprocess.Popen([*line, *asked, "--run", slow], stderr=subprocess.PIPE)
        until(lambda: Path("began").exists() or process.poll() is not None)
        process.send_signal(number)
        _, errors = process.communicate()
        assert process.returncode == 130
        assert errors.decode().splitlines()[-1] == "toruscast: error: interrupted"
        until(all_are_gone)
    assert not list(Path().glob(".runs.csv*"))
    # The first time is kept, and the runs resume from it.
    before = Path("runs.csv").read_text()
    assert len(logged()) == 1
    run(*asked, "--run", MACHINE)
    assert len(logged()) == 3
    assert Path("runs.csv").read_text().startswith(before)
