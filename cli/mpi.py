"""``toruscast launch`` and ``toruscast trace``: start or trace an MPI program."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

import toruscast as tc
from toruscast.errors import InputError
from toruscast.files import check_target
from toruscast.mapping.omissions import describe_omissions
from toruscast.text import percent

from .app import FAILED, on_signals
from .options import TrafficOptions, argument, option, search_time_option, sub_command
from .problem import load_problem
from .progress import print_message, show_progress
from .slow import jobs, readers, task_mapping, tracer

if TYPE_CHECKING:
    from toruscast.formats.jobs import BatchJob

# Placements with a smaller relative gain are not used, because a machine's noise is larger.
MIN_GAIN = 0.01
TRACER = Path(__file__).parents[1] / "formats" / "tracer.c"


@dataclass(frozen=True)
class _ProgramArguments:
    words: tuple[str, ...] = argument("-- LAUNCHER... PROGRAM...", nargs=-1)


@dataclass(frozen=True)
class _LaunchOptions(_ProgramArguments):
    hosts: str | None = option(
        "Table of the machine's host names and nodes, such as a CSV host,x,y,z. In a job, only "
        "the job's hosts are used.",
        "FILE",
        group="Machine",
    )
    tasks_per_node: int | None = option(
        "Tasks per host.  [default: the number in the job, or the minimum]", group="Mappings"
    )
    seconds: float = search_time_option()
    out: str | None = option(
        "Mapping file to write.  [default: a temporary file; with --print, the launcher's usual "
        "file]",
        "FILE",
        group="Output",
    )
    only_print: bool = option(
        "Print the command without running it.", "", "--print", default=False, group="Output"
    )


@sub_command("launch")
def launch(traffic: TrafficOptions, options: _LaunchOptions) -> int:
    """Start an MPI program with an optimised rank placement.

    The launcher gets the placement as options, or as environment variables if a script starts it.
    Slurm, PJM (Fugaku) and Flux state the nodes of the job in their variables. If no placement
    saves 1 % of the time, the ranks fill the hosts in order.

    \b
    toruscast launch --comm app.mpiP --torus 8x8x8 --hosts hosts.csv -- srun ./app input
    toruscast launch --comm app.mpiP --torus 4x6x8 -- mpiexec ./app input
    eval "$(toruscast launch --print --comm app.mpiP --torus 8x8 --hosts h.csv -- mpirun ./app)"

    The exit status is the program's.
    """  # noqa: D301
    words = options.words
    job = _read_job()
    name, position = jobs.find_launcher(words)
    version = _read_launcher_version(name)
    launcher = jobs.launcher_option(name, job, version, is_in_script=not position)
    check_target(options.out or launcher.file)
    if traffic.torus is None and job is not None and job.shape:
        traffic = replace(traffic, torus=job.shape)
    problem = load_problem(traffic, "deterministic").problem
    if omissions := describe_omissions(problem.workload.omitted):
        print_message(omissions)
    torus = problem.torus
    jobs.check_tasks(words[position - 1 :] if position else (), problem.n_tasks)
    hosts = _select_hosts(job, options.hosts, torus)
    n_hosts, hosts_per_node = (
        (torus.n_nodes, 1) if hosts is None else (len(hosts.names), hosts.most)
    )
    per_host = (
        options.tasks_per_node
        or (None if job is None else job.tasks_per_node)
        or task_mapping.min_capacity(problem.n_tasks, n_hosts)
    )
    readers.check_job(launcher.dialect, problem, hosts, per_host * hosts_per_node)
    is_kept = options.only_print or options.out is not None
    # Jobs that start in the same folder must not share the file.
    with nullcontext("") if is_kept else TemporaryDirectory(prefix="toruscast-", dir=".") as folder:
        file = options.out or os.path.normpath(Path(folder) / launcher.file)
        mapping, report = _search_placement(problem, hosts, per_host, options.seconds)
        tc.write_mapping(mapping, file, launcher.dialect, torus=torus, hosts=hosts)
        print_message(report + (f"; it is in {file}, a {launcher.dialect}" if is_kept else ""))
        command, variables = launcher.build_command(words, position, file)
        if options.only_print:
            assignments = [f"{name}={shlex.quote(value)}" for name, value in variables.items()]
            click.echo(" ".join([*assignments, shlex.join(command)]))
            return 0
        return run_program(command, variables)


def run_program(words: Sequence[str], variables: Mapping[str, str]) -> int:
    """Run a command with additional environment variables; return the exit status as shells do."""
    try:
        with (
            subprocess.Popen(words, env=os.environ | variables) as process,
            on_signals(lambda number, _: process.send_signal(number)),
            # On Ctrl-C, wait for the program, because the terminal sends it the signal too.
            on_signals(lambda *_: None, signal.SIGINT),
        ):
            code = process.wait()
    except OSError as error:
        raise InputError(
            "command cannot be started", found=words[0], expected=error.strerror
        ) from None
    return code if code >= 0 else 128 - code


def _read_launcher_version(launcher: str) -> str:
    """Return what mpirun or mpiexec prints for ``--version``, or nothing on failure."""
    if not Path(launcher).name.startswith(("mpirun", "mpiexec")):
        return ""
    try:
        command = [launcher, "--version"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout


def _read_job() -> BatchJob | None:
    """Return the batch job that the environment variables describe."""
    hosts = ""
    if ("FLUX_JOB_ID" in os.environ or "FLUX_URI" in os.environ) and shutil.which("flux"):
        command = ["flux", "hostlist", "local"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        hosts = done.stdout if done.returncode == 0 else ""
    return jobs.read_job(os.environ, hosts)


def _select_hosts(job: BatchJob | None, table: str | None, torus: tc.Torus) -> tc.Hosts | None:
    """Return the hosts of the job, or None if the job has all nodes of the torus."""
    if job is not None and job.manager == "PJM":
        if job.n_nodes not in (None, torus.n_nodes):
            expected = f"the {job.n_nodes} nodes of the job, such as --torus 4x6x8"
            raise InputError("torus of another job", found=str(torus), expected=expected)
        return None
    if table is None:
        found = "no job" if job is None else f"a job of {job.manager}"
        expected = "--hosts FILE, a table host,x,y,z of the machine"
        raise InputError("nodes without coordinates", found=found, expected=expected)
    return jobs.select_job_hosts(job, tc.read_hosts(table, torus))


def _search_placement(
    problem: tc.MappingProblem, hosts: tc.Hosts | None, per_host: int, seconds: float
) -> tuple[tc.TaskMapping, str]:
    """Search for a mapping, starting with ranks in host order; also return a sentence about it."""
    torus, n_tasks = problem.torus, problem.n_tasks
    start = jobs.default_mapping(n_tasks, torus, hosts, per_host)
    nodes = None if hosts is None else sorted({*hosts.node.tolist()})
    if n_tasks == 1 or (torus.n_nodes if nodes is None else len(nodes)) == 1:
        return start, "ranks are in the order of the hosts: the job has one node"
    with show_progress(f"Searching for {seconds:g} s"):
        result = tc.search(
            problem.workload,
            torus,
            [start],
            seconds=seconds,
            nodes=nodes,
            tasks_per_node=start.tasks_per_node,
        )
    if result.interrupted:
        raise KeyboardInterrupt
    saved = percent(result.gain, 1)
    if result.gain < MIN_GAIN:
        return start, f"ranks are in the order of the hosts: the best placement saves {saved}"
    return result.best, f"{result.best.name} takes {saved} less time in simulation"


@dataclass(frozen=True)
class _TraceOptions(_ProgramArguments):
    folder: str = option(
        "Folder of the trace, with a file per rank that is written while the program runs.",
        "FOLDER",
        "--out",
        default="trace",
        group="Output",
    )
    region: str = option(
        "Part of the run to use as traffic: iteration (the part that repeats), all, marked "
        "(between MPI_Pcontrol(1) and MPI_Pcontrol(0)), or seconds such as 2.5-4.",
        default="iteration",
    )
    mpicc: str = option(
        "MPI compiler for building the recorder; it must use the program's MPI library.",
        "COMPILER",
        default="mpicc",
        group="Machine",
    )


@sub_command("trace")
def trace(options: _TraceOptions) -> int:
    """Run an unchanged MPI program, and record its messages and their order.

    \b
    toruscast trace -- mpirun -np 64 ./app input
    toruscast rank --comm trace --torus 4x4x4

    A small recorder is compiled for the MPI library and loaded before the program. All commands
    read the folder as a graph with rounds. The exit status is the program's, or 1 if nothing was
    recorded.
    """  # noqa: D301
    words, folder, mpicc = options.words, options.folder, options.mpicc
    tracer.parse_region(options.region)
    path = _make_trace_folder(folder)
    variables = _recorder_variables(path, _build_recorder(path, mpicc))
    settings = {"region": options.region, "command": list(words)}
    (path / "trace.json").write_text(json.dumps(settings))
    code = run_program(words, variables)
    if not any(path.glob("rank-*.trace")):
        print_message(
            f"nothing was recorded: {words[0]} started no program that uses the MPI "
            f"library of {mpicc} (--mpicc names another compiler)"
        )
        return code or FAILED
    lines = tracer.describe_trace(path)
    click.echo(f"{folder}: " + "\n  ".join(lines))
    click.echo(f"Next: toruscast rank --comm {folder} --torus TORUS")
    return code


def _make_trace_folder(folder: str) -> Path:
    """Make a trace folder; its path must not contain separators used in environment variables."""
    path = Path(folder).absolute()
    if separators := set(str(path)) & set(" :;\t\n"):
        expected = f"--out with a path without {' or '.join(map(repr, sorted(separators)))}"
        raise InputError("path that cannot be passed to ranks", found=str(path), expected=expected)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        expected = "a new folder, or another name with --out"
        raise InputError("folder is not empty", found=folder, expected=expected)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError("folder cannot be made", found=folder, expected=error.strerror) from None
    return path


def _build_recorder(folder: Path, mpicc: str) -> Path:
    """Compile the recorder with ``mpicc``, for the MPI library of that compiler."""
    compiler = shutil.which(mpicc)
    if compiler is None:
        expected = "the MPI library's compiler, such as mpicc of a development package (--mpicc)"
        raise InputError("no MPI compiler", found=mpicc, expected=expected)
    library = folder / "recorder.so"
    flags = ["-shared", "-fPIC", "-O2", "-std=gnu11", "-o", str(library), str(TRACER), "-ldl"]
    done = subprocess.run([compiler, *flags], capture_output=True, text=True, check=False)
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if "error" in line]
        found = errors[0] if errors else "no error message"
        raise InputError("the recorder cannot be built", found=found, expected=f"{mpicc} of MPI 3")
    return library


def _recorder_variables(folder: Path, library: Path) -> dict[str, str]:
    """Return environment variables that load the recorder; Open MPI passes them to other nodes."""
    variables = {
        "LD_PRELOAD": " ".join(filter(None, [str(library), os.environ.get("LD_PRELOAD")])),
        "TORUSCAST_TRACE": str(folder),
    }
    passed_on = ";".join(f"{name}={value}" for name, value in variables.items())
    return variables | {"OMPI_MCA_mca_base_env_list": passed_on}
