"""How the command behaves around the work: help, errors, exit codes, streams, files."""

import errno
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from click.testing import CliRunner

from toruscast.cli import main
from toruscast.cli.app import COMMANDS
from toruscast.mapping import Torus, patterns, strategies
from toruscast.mapping.formats import write_comm, write_mapping


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """A small graph, a mapping, and files that are wrong in many ways."""
    folder = tmp_path_factory.mktemp("inputs")
    torus = Torus((4, 4))
    halo = patterns.halo_2d((4, 4), 4096)
    write_comm(halo, folder / "halo.csv")
    write_mapping(strategies.make("identity", halo, torus), folder / "good.map", torus=torus)
    (folder / "short.map").write_text("0 0 0\n0 1 0\n")
    (folder / "binary.txt").write_bytes(b"\x00\x01\x02")
    (folder / "empty.txt").write_text("")
    (folder / "halo.svg").write_text("")
    (folder / "negative.txt").write_text("0 1 10\n1 0 -5\n")
    (folder / "silent.txt").write_text("4\n0 1 0 0\n")
    (folder / "junk.npz").write_bytes(b"PK\x03\x04 and no more")
    (folder / "fails.py").write_text("x = 1\n1 / 0\n")
    (folder / "leaves.py").write_text("raise SystemExit(0)\n")
    (folder / "idle.py").write_text("x = 1\n")
    (folder / "a folder").mkdir()
    (folder / "maps").mkdir()
    write_mapping(strategies.make("random", halo, torus), folder / "maps" / "a.map", torus=torus)
    (folder / "maps" / "app.0.prof").write_text("")
    (folder / "ranks").mkdir()
    (folder / "ranks" / "app.0.prof").write_text(
        "# POINT TO POINT\nE\t0\t0\t8 bytes\t1 msgs sent\n"
    )
    (folder / "results").mkdir()
    (folder / "results" / "log.csv").write_text("mine\n")
    (folder / "loop").symlink_to("loop")
    return folder


@pytest.fixture
def run(inputs, monkeypatch):
    monkeypatch.chdir(inputs)
    monkeypatch.delenv("TORUSCAST_TRACEBACK", raising=False)

    def call(line, code=0):
        before = sorted(inputs.rglob("*"))
        result = CliRunner().invoke(main, line.split() if isinstance(line, str) else line)
        assert result.exit_code == code, (line, result.stdout, result.stderr)
        if code:
            assert sorted(inputs.rglob("*")) == before
        return result

    return call


SIMULATE = "simulate --comm halo.csv --torus 4x4 --mapping identity"
BAD = {
    "": "Usage",
    "rnak": "unknown command: found rnak, expected rank (see",
    "zzz": "unknown command: found zzz, expected rank or",
    "pmnf predct": "unknown command: found predct, expected predict",
    "codesign modls": "unknown command: found modls, expected models",
    "interconnect fitt": "unknown command: found fitt, expected fit",
    "interconnect what-if lsdyna-interconnect --interconnect gige": "found gige, expected GigE",
    "rank": "missing --comm, or --collective",
    "rank --comm halo.csv --torus 4x4 --nope": "--nope",
    "rank --comm halo.csv --torus 4x4 --candidates x": "--candidates",
    "rank --comm halo.csv --torus 4x4 --top 0": "--top",
    "rank --comm halo.csv --torus 4x4 --simulations 0": "--simulations",
    "rank --comm halo.csv --torus 4x4 --seconds -1": "--seconds",
    "rank --comm halo.csv --torus 4x4 --plugin fails.py": "--plugin needs --model",
    "rank --comm halo.csv --torus 4x4 --mappings good.map --candidates 3": "exclude each other",
    "rank --comm halo.csv --torus 4x4 --json - --csv -": "only one of",
    "rank --comm absent.txt --torus 4x4": "absent.txt: no such file",
    "rank --comm lammps-lj-65 --torus 4x4": "found lammps-lj-65, expected a file or lammps-lj-64",
    "rank --comm binary.txt --torus 4x4": "binary.txt: binary file: expected text",
    "rank --comm empty.txt --torus 4x4": "empty.txt: empty file",
    "rank --comm negative.txt --torus 4x4": "negative.txt:2: bad nbytes: found -5",
    "rank --comm silent.txt --torus 4x4": "silent.txt: communication graph without a message",
    "rank --comm halo.csv --torus 4x4q": "bad torus: found 4x4q, expected sizes such as",
    "rank --comm halo.csv --torus cray:4": "unknown machine: found cray",
    "rank --comm halo.csv --torus 0x4": "bad torus shape",
    "rank --comm halo.csv --torus 4x4 --grid 3x5": "bad task grid: found (3, 5)",
    "rank --comm halo.csv --torus 4x4 --grid 3y5": "bad task grid: found 3y5",
    "rank --comm halo.csv --torus 4x4 --iterations 0": "--iterations",
    "rank --comm lammps-lj-64 --torus 4x4x4 --iterations nan": "bad --iterations: found nan",
    "rank --comm lammps-lj-64 --torus 4x4x4 --iterations inf": "bad --iterations: found inf",
    "rank --comm halo.csv --torus 4x4 --include point_to_point": "halo.csv",
    "rank --comm halo.csv --torus 2x2 --tasks-per-node 1": "too many tasks",
    "rank --comm halo.csv --torus 4x4 --mappings short.map": "mapping short does not fit",
    "rank --comm halo.csv --torus 4x4 --mappings absent": "absent: no such file or folder",
    "rank --comm halo.csv --torus 2x2 --mappings good.map": "good.map:9: coordinate 0 out of range",
    "rank --comm halo.csv --torus 4x4 --model junk.npz": "junk.npz: damaged .npz file",
    "rank --comm halo.csv --torus 4x4 --model absent.npz": "absent.npz: no such file or folder",
    "rank --comm halo.csv --torus 4x4 --out best.pdf": "best.pdf: unknown suffix",
    "rank --comm halo.csv --torus 4x4 --out good.map/": "good.map/: cannot be written: found a",
    "rank --comm halo.csv --torus 4x4 --out no/maps/": "no/maps/: cannot be written: found no such",
    "convert --mapping --torus 4x4 good.map no/maps/": "no/maps/: cannot be written: found no such",
    "pmnf plot halo.svg ./halo.svg": "FIGURE and FILE name the same file",
    "rank --comm halo.csv --torus 4x4 --json no/out.json": "no/out.json: cannot be written",
    "rank --comm halo.csv --torus 4x4 --csv .": ".: cannot be written: found a folder",
    "rank --comm halo.csv --torus 1 --candidates 2": "not enough different mappings",
    "features": "--comm and --torus are needed",
    "features --comm halo.csv --torus 4x4 --features max_byte": "expected max_bytes or",
    "features --comm halo.csv --torus 4x4 --features mine": "--plugin",
    "features --comm halo.csv --torus 4x4 --features zzz": "expected a name in prior, H1, H2",
    "features --comm halo.csv --torus 4x4 --level 3": "--level",
    "features --comm halo.csv --torus 4x4 --features H5 --level 1": "--level goes without --feat",
    "features --comm halo.csv --torus 4x4 --mappings maps --csv maps/a.map": "--csv is a file of "
    "the folder that --mappings reads",
    "rank --comm halo.csv --torus 4x4 --mappings maps --out maps/b.txt": "--out is a file of the",
    "convert --mapping --torus 4x4 maps maps/a.map": "OUT is a file of the folder that IN reads",
    "convert ranks ranks/app.0.prof": "OUT is a file of the folder that IN reads",
    "convert ranks/app ranks/app.0.prof": "OUT and IN name the same file",
    f"{SIMULATE} --out results": "results/log.csv: would be replaced",
    "simulate --comm loop --torus 4 --mapping identity": "loop: cannot be read",
    "simulate --comm halo.csv --torus 4x4 --mapping identty": "found identty, expected a file or "
    "a name such as identity",
    "simulate --comm halo.csv --torus 4x4 --mapping zzz": "a name such as bisect-refined, blocked",
    "simulate --comm halo.csv --torus 4x4 --mapping short.map": "expected 16 tasks",
    "simulate --comm halo.csv --torus 4x4 --mapping identity --links -  --csv -": "only one of",
    f"{SIMULATE} --network deadlock=nne": "--network: bad deadlock rule: found nne, expected",
    f"{SIMULATE} --network bufer=1": "unknown --network key: found bufer",
    f"{SIMULATE} --network overhead": "found overhead, expected NAME=VALUE",
    f"{SIMULATE} --network payload=x": "--network: bad payload",
    f"{SIMULATE} --network bandwidth=-1": "--network: bad bandwidth",
    f"{SIMULATE} --out run --interval soon": "bad --interval: found soon, expected a time",
    f"{SIMULATE} --out run --interval 0us": "bad --interval: found 0us",
    f"{SIMULATE} --out run --interval 1e-6ps": "--interval too short for this run",
    f"{SIMULATE} --error 0.03 --coarsening 2": "--coarsening and --error exclude each other",
    f"{SIMULATE} --error 0": "--error",
    f"{SIMULATE} --trace -": "--trace cannot go to stdout",
    f"{SIMULATE} --json a.json --trace a.json": "--json and --trace name the same file",
    f"{SIMULATE} --csv a.csv --links ./a.csv": "--csv and --links name the same file",
    f"{SIMULATE} --out run --csv run/links.csv": "--csv and links.csv of --out name the same file",
    f"{SIMULATE} --out run --json run": "--json and --out name the same file",
    f"{SIMULATE} --interval 1us": "--interval needs --out or --trace",
    f"{SIMULATE} --iterations 3": "halo.csv: at most half a message on every edge",
    f"{SIMULATE} --csv halo.csv": "--csv and --comm name the same file",
    "rank --comm halo.csv --torus 4x4 --out a.csv --csv a.csv": "--csv and --out name the same",
    "convert halo.csv a.csv --csv a.csv": "--csv and OUT name the same file",
    "evaluate --comm halo.csv --torus 4x4 --samples a --csv a": "--csv and --samples name the same",
    "train --comm halo.csv --torus 4x4 --samples a --out a": "--out and --samples name the same",
    "train --comm halo.csv --torus 4x4 --out=": "cannot be written: found an empty path",
    "features --comm halo.csv --torus 4x4 --csv a --parquet a": "--csv and --parquet name the same",
    "train --comm halo.csv --torus 4x4 --out m --json m": "--json and --out name the same file",
    "rank --comm halo.csv --torus 4x4 --out ./halo.csv": "--out and --comm name the same file",
    "rank --comm halo.csv --torus 4x4 --mappings good.map --csv good.map": "--csv and --mappings",
    "rank --comm halo.csv --torus 4x4 --model junk.npz --json junk.npz": "--json and --model",
    "rank --comm halo.csv --torus 4x4 --iterations 3": "halo.csv: at most half a message on every",
    f"{SIMULATE} --comm empty.txt --csv empty.txt": "--csv and --comm name the same file",
    "evaluate --comm halo.csv --torus 4x4 --plugin fails.py --csv fails.py": "--csv and --plugin",
    "convert halo.csv halo.csv": "OUT and IN name the same file",
    "interconnect fit halo.csv --csv halo.csv": "--csv and FILE name the same file",
    "pmnf fit halo.csv --json halo.csv": "--json and FILE name the same file",
    "codesign models --app halo.csv --json halo.csv": "--json and --app name the same file",
    "train --samples binary.txt --routing adaptive --out m.npz": "--routing goes with --comm",
    "evaluate --samples empty.txt --level 2": "--level goes with --comm",
    "convert --mapping --torus 4x4 good.map a.csv --tasks 3": "--tasks goes without --mapping",
    "convert halo.csv a.csv --tasks-per-node 3": "--tasks-per-node goes with --mapping",
    "convert lammps-lj-64 a.csv --tasks 100": "a shipped dataset takes no --tasks: found 100",
    "convert halo.csv a.csv --iterations inf": "bad --iterations: found inf",
    "features --list --parquet a": "--parquet goes without --list",
    "features --list --comm halo.csv": "--comm goes without --list",
    "features --comm halo.csv --torus 4x4 --parquet -": "--parquet cannot go to stdout",
    "train --comm halo.csv --torus 4x4 --out -": "--out cannot go to stdout",
    "rank --comm halo.csv --torus 4x4 --out -": "--out cannot go to stdout",
    "convert halo.csv -": "OUT cannot go to stdout",
    f"rank --comm halo.csv --torus 4x4 --out {300 * 'x'}.map": "cannot be written: found File name",
    f"rank --comm halo.csv --torus 4x4 --json {300 * 'x'}": "cannot be written: found File name",
    "rank --comm halo.csv --torus 4x4 --mappings=": "no such file or folder: found an empty path",
    "rank --comm= --torus 4x4": "no such file or folder: found an empty path",
    "rank --comm halo.csv --torus 4x4 --jobs 999999999999": "--jobs",
    "convert halo.csv a.csv --tasks 99999999999999999999": "'--tasks': 9999999999",
    "pmnf compose a --task a=n --at n=4 --against=": "bad formula",
    "pmnf compose a --task a=n --range=": "found , expected NAME=VALUE",
    f"{SIMULATE} --trace no/t.json": "no/t.json: cannot be written: found no such folder",
    f"{SIMULATE} --out good.map": "good.map: cannot be written: found a file, expected a folder",
    f"{SIMULATE} --out no/run": "no/run: cannot be written: found no such folder",
    "train --out m.npz": "give --comm and --torus, or --samples",
    "train --comm halo.csv --out m.npz": "--comm needs --torus",
    "train --samples absent.parquet --out m.npz": "absent.parquet: no such file or folder",
    "train --samples binary.txt --out m.npz": "binary.txt: not a readable Parquet file",
    "train --samples binary.txt -n 20 --out m.npz": "-n goes with --comm",
    "evaluate --samples empty.txt": "empty.txt: not a readable Parquet file",
    "evaluate --comm halo.csv --torus 4x4 --plugin fails.py": "fails.py:2: plugin failed: found",
    "evaluate --comm halo.csv --torus 4x4 --plugin leaves.py": "leaves.py:1: plugin failed: found",
    "evaluate --comm halo.csv --torus 4x4 --plugin idle.py": "idle.py: plugin registers no feature",
    "evaluate --comm halo.csv --torus 4x4 --plugin absent.py": "absent.py: no such file",
    "evaluate --comm halo.csv --torus 4x4 --features nothing": "unknown feature or feature set",
    "convert negative.txt out.npz": "negative.txt:2",
    "convert halo.csv out.pdf": "out.pdf: unknown suffix",
    "convert halo.csv": "Missing argument 'OUT'",
    "convert --mapping good.map out.csv": "--mapping needs --torus",
    "convert --torus 4x4 halo.csv out.npz": "--torus goes with --mapping",
    "convert --mapping --torus 2x2 good.map out.csv": "good.map:9",
}


@pytest.mark.parametrize(("line", "message"), BAD.items(), ids=BAD)
def test_wrong_input_ends_with_one_line_and_status_two(run, line, message):
    result = run(line, code=2)
    assert message in result.stderr
    assert result.stdout == ""
    if line:
        assert result.stderr.startswith("toruscast: error: ")
        assert result.stderr.count("\n") == 1


FAILURES = [
    (KeyboardInterrupt(), 130, "interrupted"),
    (MemoryError(), 1, "out of memory"),
    (OSError(errno.ENOSPC, "No space left on device"), 1, "No space left on device"),
    (PermissionError(errno.EACCES, "Permission denied", "x.csv"), 1, "x.csv: Permission denied"),
    (RuntimeError("two\nlines"), 1, "unexpected RuntimeError: two lines (set TORUSCAST_TRACEBACK"),
]


@pytest.mark.parametrize(("error", "code", "message"), FAILURES)
def test_failed_work_ends_with_one_line(run, monkeypatch, error, code, message):
    def fail(*_):
        raise error

    monkeypatch.setattr("toruscast.cli.simulate.command.load_torus", fail)
    line = "simulate --comm halo.csv --torus 4x4 --mapping identity --json out.json"
    assert run(line, code).stderr.lstrip().startswith(f"toruscast: error: {message}")


def test_folder_that_cannot_be_filled_is_not_left_behind(run, inputs, monkeypatch):
    def fail(self, *args, **options):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", fail)
    assert "No space left" in run(f"{SIMULATE} --out run", code=1).stderr
    assert not (inputs / "run").exists()


def test_warnings_take_one_line(run, monkeypatch):
    def warn(*_):
        warnings.simplefilter("always")
        warnings.warn("two\nlines", stacklevel=1)
        return Torus((4, 4))

    monkeypatch.setattr("toruscast.cli.simulate.command.load_torus", warn)
    result = run("simulate --comm halo.csv --torus 4x4 --mapping identity")
    assert result.stderr == "toruscast: warning: two lines\n"


def test_traceback_on_request(run, monkeypatch):
    def fail(*_):
        raise RuntimeError("where")

    monkeypatch.setattr("toruscast.cli.simulate.command.load_torus", fail)
    monkeypatch.setenv("TORUSCAST_TRACEBACK", "1")
    result = run("simulate --comm halo.csv --torus 4x4 --mapping identity", code=1)
    assert isinstance(result.exception, RuntimeError)


def test_failed_write_leaves_the_old_file(run, inputs, monkeypatch):
    (inputs / "old.json").write_text("old")

    def fail(self, *args, **options):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", fail)
    line = "simulate --comm halo.csv --torus 4x4 --mapping identity --json old.json"
    assert "No space left" in run(line, code=1).stderr
    assert (inputs / "old.json").read_text() == "old"
    (inputs / "old.json").unlink()


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_every_command(run, name):
    text = run(f"{name} --help").stdout
    assert text.startswith(f"Usage: toruscast {name}")
    # Some start programs.
    assert ("--json" in text and "--csv" in text) or name in ("trace", "launch")
    assert "\b" not in text
    assert "\\b" not in text


def test_help_lists_every_command(run):
    text = run("--help").stdout
    assert all(f"  {name} " in text for name in COMMANDS)
    assert run("-h").stdout == text


def test_version(run):
    from toruscast import __version__

    assert run("--version").stdout == f"toruscast {__version__}\n"


def python(code, **options):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, **options
    )


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["rank", "--help"], ["rank"]])
def test_help_imports_nothing_heavy(arguments):
    heavy = {"numpy", "pandas", "sklearn", "numba", "rich", "networkx", "scipy"}
    code = f"""
import sys
from toruscast.cli import main
try:
    main({arguments!r})
except SystemExit:
    print(sorted({heavy!r} & set(sys.modules)))
"""
    assert python(code).stdout.splitlines()[-1] == "[]"


def test_closed_pipe_is_quiet():
    code = "from toruscast.cli import main; main(['features', '--list', '--json', '-'])"
    reader, writer = os.pipe()
    os.close(reader)
    result = subprocess.run(
        [sys.executable, "-c", code], stdout=writer, stderr=subprocess.PIPE, check=False
    )
    os.close(writer)
    assert result.returncode == 1
    assert result.stderr == b""


def test_closed_stdout_is_told():
    code = "from toruscast.cli import main; main(['features', '--list'])"
    line = f'exec "{sys.executable}" -c "{code}" >&-'
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "toruscast: error: stdout is closed" in done.stderr


def test_name_of_a_file_may_be_any_bytes(run, tmp_path):
    name = os.fsdecode(os.fsencode(tmp_path) + b"/bad\xff.txt")
    Path(name).write_text("0 1 5000\n1 0 400\n")
    line = ["simulate", "--comm", name, "--torus", "2", "--mapping", "identity"]
    assert "bad\\xff: 2 tasks" in run([*line, "--csv", str(tmp_path / "a.csv")]).stdout
    assert json.loads(run([*line, "--json", "-"]).stdout)["application"]["name"] == "bad\\xff"


def test_a_folder_of_results_hides_no_dataset_or_strategy(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("lammps-lj-64", "identity"):
        Path(name).mkdir()
    line = "simulate --comm lammps-lj-64 --torus 4x4x4 --mapping identity"
    assert CliRunner().invoke(main, line.split()).exit_code == 0


def test_results_may_go_into_a_folder_called_as_an_option(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    line = "features --comm lammps-lj-64 --torus 4x4x4 --candidates 2 --csv "
    for name in ("lammps-lj-64", "4x4x4"):
        Path(name).mkdir()
        assert CliRunner().invoke(main, f"{line}{name}/out.csv".split()).exit_code == 0


def test_few_tasks_have_few_candidates(run, tmp_path):
    path = tmp_path / "four.txt"
    path.write_text("0 1 5000\n1 2 5000\n2 3 90000\n3 0 5000\n")
    for command in ("simulate --flows", "features", "rank"):
        result = run(f"{command} --comm {path} --torus 2x2 --json -")
        told = json.loads(result.stdout)
        assert len(told.get("mappings", told.get("features", told.get("ranking")))) == 24
    assert told["model"]["source"] == "default"
    run(f"evaluate --comm {path} --torus 2x2 --features H1")


def test_full_disk_is_told():
    if not Path("/dev/full").exists():
        pytest.skip("/dev/full not found")
    code = "from toruscast.cli import main; main(['--help'])"
    with open("/dev/full", "w") as full:  # noqa: PTH123
        result = subprocess.run(
            [sys.executable, "-c", code], stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert result.returncode == 1
    assert result.stderr.startswith(b"toruscast: error: No space left")
    assert b"Traceback" not in result.stderr


def test_what_matrix_market_files_lose_is_said(run, tmp_path):
    (tmp_path / "many.csv").write_text("src,dst,nbytes,n_messages\n0,1,100,7\n1,0,100,7\n")
    many = tmp_path / "many"
    assert "message counts are lost" in run(f"convert {many}.csv {many}.mtx").stderr
    assert "lost" not in run(f"convert {many}.csv {many}.npz").stderr


@pytest.mark.filterwarnings("always")
def test_tasks_numbered_from_one_are_told_once(run, tmp_path):
    (tmp_path / "one.edges").write_text("1 2 100\n2 3 100\n3 1 100\n2 1 9\n")
    (tmp_path / "gaps.edges").write_text("1 2 100\n2 3 100\n3 1 100\n2 6 9\n")
    for name in ("one", "gaps"):
        told = run(f"simulate --comm {tmp_path}/{name}.edges --torus 8 --mapping identity")
        text = " ".join((told.stdout + told.stderr).split())
        assert text.count("task 0 neither sends nor receives") == 1
