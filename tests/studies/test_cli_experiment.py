"""``python -m studies`` with small experiments and blocks in place of the published ones."""

import json
import shlex

import pandas as pd
import pytest
from click.testing import CliRunner

import studies as experiments
from studies import Bar, Chart, Experiment, Findings, plan
from studies.command import command
from toruscast import datasets
from toruscast.errors import InputError
from toruscast.mapping import Torus, Workload, patterns
from toruscast.training import read_samples, write_samples

SCORES = pd.DataFrame({"features": ["prior", "H6"], "rcc": [0.91, float("nan")]})
LABELS = {"workload": ["a"], "torus": ["4x4"], "mapping": ["m"], "key": ["k"], "time": [1e-6]}


def learned(inputs):
    n = len(read_samples(inputs.samples))
    bars = (Bar("samples", n, 1), Bar("RCC", 0.9, 0.95, published=0.8), Bar("x", 0.5))
    charts = (Chart("rcc", "bars", "scores", "features", "rcc"),)
    return Findings("Learned.", {"scores": SCORES}, bars, charts, ("scores",), ("Too few.",))


def measured(inputs):
    return Findings((inputs.data / "times.txt").read_text(), {}, (Bar("jobs", inputs.n_jobs, 3),))


def broken(inputs):
    raise RuntimeError("two\nlines")


def unreadable(inputs):
    raise InputError("no such table", file="gone.csv")


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A working folder with samples and measurements, and a registry of two experiments."""
    write_samples(pd.DataFrame(LABELS), tmp_path / "s.parquet", {"seed": 5})
    (tmp_path / "junk.parquet").write_bytes(b"junk")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "times.txt").write_text("Measured there.")
    register(
        monkeypatch,
        Experiment("hybrids", "Six sets", "samples", learned),
        Experiment("gemini", "AMG", "data", measured, ("org/repo at 1a2b3c",), ("times.txt",)),
    )
    monkeypatch.setattr(plan, "TASKS_PER_NODE", 128)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def register(monkeypatch, *some):
    monkeypatch.setattr(experiments, "EXPERIMENTS", {e.name: e for e in some})


def call(line, code=0):
    result = CliRunner().invoke(command, shlex.split(line))
    assert result.exit_code == code, (line, result.stdout, result.stderr)
    return result


def written(place):
    return {str(p.relative_to(place)) for p in place.rglob("*") if p.is_file()}


def test_list_names_needs_and_sources(place):
    text = call("list").stdout
    assert "hybrids  Six sets  simulated samples" in " ".join(text.split("\n")).replace("   ", "  ")
    assert "gemini: org/repo at 1a2b3c\n    read from DIR/times.txt" in text


def test_list_of_nothing(place, monkeypatch):
    register(monkeypatch)
    assert call("list").stdout == "No experiments.\n"
    assert "no experiment to run" in call("run all --out r", 2).stderr


def test_run_writes_page_tables_figures_and_record(place):
    before = written(place)
    result = call("run all --out r --samples s.parquet --data data --jobs 3")
    assert written(place) - before == {
        "r/results.md",
        "r/findings.json",
        "r/tables/hybrids/scores.csv",
        "r/figures/results/hybrids.rcc.svg",
    }
    page = (place / "r/results.md").read_text()
    assert page.index("## Six sets") < page.index("## AMG")
    assert "Learned." in page
    assert "Measured there." in page
    assert "seed 5" in page
    record = json.loads((place / "r/findings.json").read_text())
    first, second = record["experiments"]
    assert first["bars"][1] == {
        "what": "RCC",
        "measured": 0.9,
        "bar": 0.95,
        "kind": "at least",
        "published": 0.8,
        "met": False,
    }
    assert first["notes"] == ["Too few."]
    assert second["bars"][0]["published"] is None
    assert second["sources"] == ["org/repo at 1a2b3c"]
    assert first["seconds"] >= 0
    assert record["samples"]["seed"] == 5
    assert "2 of 3 bars are met; all results: r/results.md" in result.stdout
    words = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert "hybrids RCC 0.8 >= 0.95 0.9000 missed" in words
    assert "hybrids samples - >= 1 1 met" in words
    assert "gemini jobs - >= 3 3 met" in words
    assert "1 of 2: hybrids, Six sets" in result.stderr
    assert call("run all --out r --samples s.parquet --data data -q").stderr == ""


def test_all_without_data_leaves_out_what_needs_it(place):
    result = call("run all --out r --samples s.parquet")
    assert "left out without --data: gemini" in result.stderr
    page = (place / "r/results.md").read_text()
    assert "- `gemini`, AMG: not run, for want of the measurements (--data)" in page
    assert json.loads((place / "r/findings.json").read_text())["not_run"].keys() == {"gemini"}


def test_what_an_earlier_run_found_is_not_run_this_time(place):
    call("run hybrids --out r --samples s.parquet")
    assert "- `gemini`, AMG: not run this time" in (place / "r/results.md").read_text()
    call("run gemini --out r --data data")
    assert "- `hybrids`, Six sets: not run this time" in (place / "r/results.md").read_text()
    assert (place / "r/tables/hybrids/scores.csv").exists()


def test_figures_of_simulated_samples_say_so(place):
    call("run hybrids --out r --samples s.parquet")
    assert "simulated, not measured" in (place / "r/figures/results/hybrids.rcc.svg").read_text()


def test_data_alone_needs_no_samples(place, monkeypatch):
    monkeypatch.setattr(datasets, "_folder", lambda: place / "nowhere")
    call("run gemini gemini --out r --data data")
    assert "No table of simulated samples" in (place / "r/results.md").read_text()


def test_shipped_samples_are_the_default(place, monkeypatch):
    monkeypatch.setattr(datasets, "_folder", lambda: place)
    message = call("run hybrids --out r", 2).stderr
    assert "sc13.parquet: no table of simulated samples in this installation: expected" in message
    assert "python -m studies build" in message
    (place / "s.parquet").rename(place / "sc13.parquet")
    call("run hybrids --out r")


BAD = {
    "": "Usage",
    "bild": "unknown command: found bild, expected build",
    "run": "Missing argument",
    "run all": "Missing option '--out'",
    "run hybrid --out r": "unknown experiment: found hybrid, expected hybrids",
    "run zzz --out r": "unknown experiment: found zzz, expected hybrids or gemini or all",
    "run all hybrid --out r": "found hybrid, expected hybrids",
    "run '' --out r": "unknown experiment",
    "run gemini --out r": "experiment gemini needs measurements: expected --data DIR",
    "run gemini --out r --data absent": "absent: no such folder",
    "run gemini --out r --data s.parquet": "s.parquet: no such folder",
    "run hybrids --out r --samples absent.parquet": "absent.parquet: cannot be read",
    "run hybrids --out r --samples junk.parquet": "junk.parquet: not a readable Parquet file",
    "run hybrids --out s.parquet --samples s.parquet": "--out and --samples name the same file",
    "run gemini --out data --data data": "--out and --data name the same file",
    "run hybrids --out -": "--out cannot go to stdout",
    "run hybrids --out junk.parquet": "junk.parquet: cannot be written: found a file",
    "run hybrids --out no/r --samples s.parquet": "no/r: cannot be written: found no such folder",
    "run hybrids --out '' --samples s.parquet": "cannot be written: found an empty path",
    "run hybrids --out r --samples s.parquet --jobs 0": "--jobs",
    "build": "expected --out FILE.parquet, or --dry-run",
    "build --out s.csv": "s.csv: unknown suffix: found .csv, expected .parquet",
    "build --out no/s.parquet": "no/s.parquet: cannot be written",
    "build --out t.parquet --only 5D": "no such block: found 5D, expected part of a name such as",
    "build --dry-run --only ''": "no such block: found nothing",
    "build --out junk.parquet --only '2D Halo 8 B'": "junk.parquet: not a readable Parquet file",
}


@pytest.mark.parametrize(("line", "message"), BAD.items(), ids=BAD)
def test_wrong_input_is_told_and_writes_nothing(place, monkeypatch, line, message):
    monkeypatch.setattr(plan, "blocks", small_blocks)
    before = {name: (place / name).read_bytes() for name in written(place)}
    error = call(line, 2).stderr
    assert message in error
    assert "Traceback" not in error
    assert {name: (place / name).read_bytes() for name in written(place)} == before
    assert not (place / "r").exists()


def test_one_that_fails_leaves_the_others(place, monkeypatch):
    register(
        monkeypatch,
        Experiment("broken", "B", "samples", broken),
        Experiment("unreadable", "U", "samples", unreadable),
        Experiment("hybrids", "Six sets", "samples", learned),
    )
    result = call("run all --out r --samples s.parquet", 2)
    assert "error: broken: unexpected RuntimeError: two lines (set TORUSCAST" in result.stderr
    page = (place / "r/results.md").read_text()
    assert "## Six sets" in page
    assert "- `broken`, B: failed, unexpected RuntimeError: two lines" in page
    assert "- `unreadable`, U: failed, gone.csv: no such table" in page
    assert "1 of 2 bars" in result.stdout
    assert call("run broken hybrids --out r --samples s.parquet", 1).stdout


@pytest.mark.parametrize(("name", "code"), [("broken", 1), ("unreadable", 2)])
def test_one_alone_that_fails_leaves_no_folder(place, monkeypatch, name, code):
    run = {"broken": broken, "unreadable": unreadable}[name]
    register(monkeypatch, Experiment(name, "B", "samples", run))
    error = call(f"run {name} --out r --samples s.parquet", code).stderr
    assert "toruscast: error: " in error
    assert not (place / "r").exists()


def test_missing_matplotlib_is_told_before_the_work(place, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    assert "figures need matplotlib" in call("run hybrids --out r --samples s.parquet", 2).stderr
    assert not (place / "r").exists()


class SmallBlock(plan.Block):
    """Sixteen tasks on a small host."""

    @property
    def n_tasks(self):
        return 16

    @property
    def torus(self):
        return Torus(self.shape)

    @property
    def workload(self):
        nbytes = 64 if self.benchmark == "2D Halo" else 128
        comm = patterns.halo_2d((4, 4), nbytes, periodic=True)
        return Workload([comm], name=self.name)

    @property
    def coarsening(self):
        return 1


def small_blocks():
    return (
        SmallBlock("2D Halo", "8 B", (2, 2, 2), 4),
        SmallBlock("3D Halo", "8 B", (2, 2, 2), 4),
    )


@pytest.fixture
def small(place, monkeypatch):
    monkeypatch.setattr(plan, "blocks", small_blocks)
    monkeypatch.setattr(plan, "TASKS_PER_NODE", 2)
    return place


def test_dry_run_lists_blocks_and_writes_nothing(place):
    before = written(place)
    text = call("build --dry-run").stdout
    assert (
        f"{len(plan.blocks())} blocks, {sum(b.n_mappings for b in plan.blocks())} samples." in text
    )
    assert "2D Halo 8 B, 16384 tasks" in text
    text = call("build --dry-run --only '3d  HALO 16 kb' --only 'pf3d, 16384'").stdout
    assert "4 blocks, 252 samples." in text
    assert written(place) == before


def test_build_makes_a_table_and_goes_on(small):
    before = written(small)
    result = call("build --out t.parquet --only 2d --jobs 1")
    assert written(small) - before == {"t.parquet"}
    assert "4 samples of 1 block are in t.parquet, which holds 4 and took" in result.stdout
    lines = result.stderr.splitlines()
    assert lines[0] == ("toruscast: block 1 of 1: 2D Halo 8 B, 16 tasks on 2x2x2: 0 of 4 samples")
    assert lines[-1].endswith("4 of 4 samples")
    first = read_samples("t.parquet")
    result = call("build --out t.parquet --jobs 1")
    assert "block 1 of 2: 2D Halo 8 B, 16 tasks on 2x2x2: 4 of 4 samples" in result.stderr
    table = read_samples("t.parquet")
    assert len(table) == 8
    assert set(first["key"]) < set(table["key"])
    assert table.attrs["provenance"]["processor_seconds"].keys() == {
        "2D Halo 8 B, 16 tasks on 2x2x2",
        "3D Halo 8 B, 16 tasks on 2x2x2",
    }
    assert call("build --out t.parquet --jobs 1 -q").stderr == ""


def test_interrupted_build_says_how_to_go_on(small, monkeypatch):
    def interrupted(*args, **options):
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr(plan, "build", interrupted)
    assert "the same command goes on" in call("build --out t.parquet", 130).stderr


@pytest.mark.parametrize("name", ["list", "build", "run"])
def test_help(name):
    text = call(f"{name} --help").stdout
    assert text.startswith(f"Usage: python -m studies {name}")
    assert "\\b" not in text
