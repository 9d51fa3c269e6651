"""Help, errors, exit codes, streams and files of the command."""

import errno
import json
import os
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from waiting import until

from toruscast.cli import main
from toruscast.cli.app import COMMANDS
from toruscast.cli.output import Output
from toruscast.formats import write_comm
from toruscast.mapping import Torus, patterns


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """A small graph."""
    folder = tmp_path_factory.mktemp("inputs")
    write_comm(patterns.halo_2d((4, 4), 4096), folder / "halo.csv")
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


RANK = "rank --comm halo.csv --torus 4x4 --candidates 4"


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

    monkeypatch.setattr("toruscast.cli.problem.load_torus", fail)
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

    monkeypatch.setattr("toruscast.cli.problem.load_torus", warn)
    result = run("simulate --comm halo.csv --torus 4x4 --mapping identity")
    assert result.stderr == "toruscast: warning: two lines\n"


def test_traceback_on_request(run, monkeypatch):
    def fail(*_):
        raise RuntimeError("where")

    monkeypatch.setattr("toruscast.cli.problem.load_torus", fail)
    monkeypatch.setenv("TORUSCAST_TRACEBACK", "1")
    result = run("simulate --comm halo.csv --torus 4x4 --mapping identity", code=1)
    assert isinstance(result.exception, RuntimeError)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_every_command(run, name):
    text = run(f"{name} --help").stdout
    assert text.startswith(f"Usage: toruscast {name}")
    # These commands start programs.
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


def required_parts():
    """Yield each required option and argument, with a line that has all others."""
    for path, command in leaves(main):
        parts = [(one, wordlist(one)) for one in command.params if one.required]
        for one, _ in parts:
            others = [word for other, words in parts if other is not one for word in words]
            # Arguments are positional, so the last one counts as missing.
            missing = [p for p, _ in parts if p.param_type_name == one.param_type_name][-1]
            name = missing.metavar if missing.param_type_name == "argument" else one.opts[0]
            yield pytest.param([*path, *others], name, id=f"{'-'.join(path)} {one.name}")


def leaves(command, path=()):
    """Yield every command of a group, with its path."""
    if not isinstance(command, click.Group):
        yield path, command
        return
    for name in command.list_commands(click.Context(command)):
        yield from leaves(command.get_command(click.Context(command), name), (*path, name))


def wordlist(parameter):
    value = "p=2" if parameter.name in ("at", "system") else "x"
    return [value] if parameter.param_type_name == "argument" else [parameter.opts[0], value]


@pytest.mark.parametrize("is_checked", [True, False], ids=["click checks", "click does not"])
@pytest.mark.parametrize(("line", "name"), list(required_parts()))
def test_required_options_are_checked_before_the_work(run, monkeypatch, line, name, is_checked):
    if not is_checked:
        monkeypatch.setattr(click.Parameter, "value_is_missing", lambda *_: False)
    monkeypatch.setattr(Output, "check", lambda *_, **__: pytest.fail("the work began"))
    text = run(line, code=2).stderr
    assert text.startswith("toruscast: error: Missing ")
    assert f" '{name}'" in text


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


@pytest.mark.parametrize("given", ["", "--log-file log", "--json -"])
def test_closed_stdout_is_reported(tmp_path, given):
    done = closed(f"features --list {given} >&-", tmp_path)
    assert (done.returncode, done.stderr) == (1, "toruscast: error: stdout is closed\n")


@pytest.mark.parametrize("streams", [">&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_a_closed_stream_takes_no_answer_from_a_file(tmp_path, streams):
    done = closed(f"features --list --json a.json {streams}", tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert json.loads((tmp_path / "a.json").read_text())


@pytest.mark.parametrize("streams", ["--jobs 1 2>&-", "--jobs 1 <&-", "--workers 2 <&- 2>&-"])
def test_closed_stdin_and_stderr_change_no_answer(run, inputs, streams):
    done = closed(f"{RANK} {streams}", inputs)
    assert (done.returncode, done.stdout, done.stderr) == (0, run(RANK).stdout, "")


def test_an_error_on_a_closed_stderr_has_its_exit_code(inputs):
    assert closed("rank --comm nothing --torus 4x4 2>&-", inputs).returncode == 2


def closed(line, folder):
    """Run a command with streams that the shell closed."""
    code = "from toruscast.cli import main; main()"
    line = f'exec "{sys.executable}" -c "{code}" {line}'
    return subprocess.run(
        ["sh", "-c", line], capture_output=True, text=True, check=False, cwd=folder
    )


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
        content = json.loads(result.stdout)
        assert len(content.get("mappings", content.get("features", content.get("ranking")))) == 24
    assert content["model"]["source"] == "default"


def test_full_disk_is_reported():
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


@pytest.mark.filterwarnings("always")
def test_tasks_numbered_from_one_are_reported_once(run, tmp_path):
    (tmp_path / "one.edges").write_text("1 2 100\n2 3 100\n3 1 100\n2 1 9\n")
    (tmp_path / "gaps.edges").write_text("1 2 100\n2 3 100\n3 1 100\n2 6 9\n")
    for name in ("one", "gaps"):
        result = run(f"simulate --comm {tmp_path}/{name}.edges --torus 8 --mapping identity")
        text = " ".join((result.stdout + result.stderr).split())
        assert text.count("task 0 neither sends nor receives") == 1


def every_command(group=main, words=()):
    """Yield the path and the command of each sub-command."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from every_command(command, (*words, name))
        else:
            yield (*words, name), command


SINGLE = [
    (words, option)
    for words, command in every_command()
    for option in command.params
    if isinstance(option, click.Option) and not option.multiple
]


@pytest.mark.parametrize(("words", "option"), SINGLE, ids=lambda each: str(each))
def test_an_option_for_one_value_refuses_a_second(words, option):
    once = [option.opts[0]] if option.is_flag else [option.opts[0], *["1"] * option.nargs]
    result = CliRunner().invoke(main, [*words, *once, *once])
    assert result.exit_code == 2
    assert f"{option.opts[0]} may be given once, not 2 times" in result.stderr


CHILDREN = Path(f"/proc/self/task/{os.getpid()}/children")


@pytest.mark.skipif(not CHILDREN.exists(), reason="asks Linux for the children of a process")
@pytest.mark.parametrize("n_children", [1, 3], ids=["first", "all"])
@pytest.mark.parametrize(
    "number",
    [
        signal.SIGTERM,
        *(pytest.param(each, marks=pytest.mark.slow) for each in (signal.SIGKILL, signal.SIGHUP)),
    ],
)
def test_a_signal_ends_the_workers_too(inputs, number, n_children):
    line = f"train --comm halo.csv --torus 4x4 -n 6 --splits 90000 --jobs 2 -q --out {number}.npz"
    words = [sys.executable, "-c", "from toruscast.cli import main; main()", *line.split()]
    before = sorted(inputs.rglob("*"))
    streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    process = subprocess.Popen(words, **streams, text=True, cwd=inputs)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    until(lambda: process.poll() is not None or len(children.read_text().split()) >= n_children)
    process.send_signal(number)
    # The pipe closes with the last process that inherited it. Idle workers would stay for minutes.
    _, errors = process.communicate(timeout=60)
    if number == signal.SIGKILL:
        assert process.returncode == -number
        return
    assert (process.returncode, errors.strip()) == (130, "toruscast: error: interrupted")
    assert sorted(inputs.rglob("*")) == before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_reaches_the_program_that_was_started(tmp_path, number):
    script = "trap 'echo saved > saved; exit 7' TERM HUP; touch began; while :; do sleep 0.1; done"
    words = ["sh", "-c", script]
    code = f"from toruscast.cli.mpi import run_program; exit(run_program({words}, {{}}))"
    process = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path)
    until(lambda: (tmp_path / "began").exists() or process.poll() is not None)
    process.send_signal(number)
    assert process.wait() == 7
    assert (tmp_path / "saved").exists()


def test_ctrl_c_is_handled_by_the_started_program(tmp_path):
    """A terminal sends Ctrl-C to both processes."""
    script = "trap 'sleep 1; exit 7' INT; touch began; while :; do sleep 0.1; done"
    words = ["sh", "-c", script]
    code = f"from toruscast.cli.mpi import run_program; exit(run_program({words}, {{}}))"
    command = [sys.executable, "-c", code]
    process = subprocess.Popen(command, cwd=tmp_path, start_new_session=True)
    until(lambda: (tmp_path / "began").exists() or process.poll() is not None)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait() == 7


SILENT = [
    ("rank --comm halo.csv --torus 4x4", "--figure-format png", "--figures"),
    ("simulate --comm halo.csv --torus 4x4 --candidates 3", "--mapping-columns task=a", "--map"),
    ("plan --comm halo.csv --torus 4x4 --candidates 3", "--timeout 5", "--run"),
    ("plan --comm halo.csv --torus 4x4 --candidates 3", "--run-cost 5", "--times"),
    ("rank --comm halo.csv --torus 4x4", "--rcc 0.9", "--goal order"),
    ("rank --comm halo.csv --torus 4x4", "--hosts halo.csv", "--mappings"),
    ("simulate --comm halo.csv --torus 4x4 --mapping identity", "--interval 1us", "--out"),
    ("simulate --comm halo.csv --torus 4x4 --mapping identity", "--tasks 4", "--collective"),
    ("codesign models", "--metric flop=time", "--app"),
    ("pmnf plan --values p=2,4,8,16,32", "--at p=64", "FILE"),
]


@pytest.mark.parametrize(("line", "option", "needed"), SILENT)
def test_an_option_without_effect_is_refused(run, line, option, needed):
    assert f"{option.split()[0]} needs {needed}" in run(f"{line} {option}", code=2).stderr


@pytest.mark.parametrize(
    ("line", "one", "other"),
    [
        ("rank --comm halo.csv --torus 4x4", "--no-simulation", "--seconds 5"),
        ("rank --comm halo.csv --torus 4x4", "--simulations 5", "--no-simulation"),
        ("rank --torus 4x4 --candidates 3", "--collective allreduce/ring:1MB", "--grid 4x4"),
        ("rank --torus 4x4 --candidates 3", "--iterations 2", "--collective allreduce/ring:1MB"),
        ("rank --comm halo.csv --torus 4x4", "--quiet", "--verbose"),
        ("train --comm halo.csv --torus 4x4 --out m.npz", "--jobs 2", "--workers 2"),
    ],
)
def test_options_that_exclude_each_other_are_refused(inputs, line, one, other, monkeypatch):
    monkeypatch.chdir(inputs)
    result = CliRunner().invoke(main, [*line.split(), *one.split(), *other.split()])
    assert result.exit_code == 2
    names = {one.split()[0], other.split()[0]}
    assert "exclude each other" in result.stderr
    assert names < set(result.stderr.split())


@pytest.mark.parametrize(
    ("command", "kept", "rare"),
    [
        ("rank", "--out FILE", ["--trips", "--cluster", "--rcc"]),
        ("plan", "--run 'CMD {map}'", ["--noise", "--tolerance", "--timeout"]),
        ("simulate", "--mapping FILE", ["--coarsening", "--error", "--repeat"]),
        ("mesh", "--write", ["--order", "--placements", "--devices"]),
        ("evaluate", "--hold-out", ["--target", "--level", "--baseline"]),
    ],
)
def test_help_lists_rare_options_on_request(command, kept, rare):
    short, full = (
        CliRunner().invoke(main, [command, name], terminal_width=80).stdout
        for name in ("--help", "--help-all")
    )
    assert len(short.splitlines()) <= 60
    assert kept in short
    assert "--help-all" in short
    for name in (*rare, "--log-file"):
        assert name not in short
        assert name in full
