"""``toruscast launch`` and ``toruscast trace``: start an MPI program, placed better or recorded."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

import toruscast as tc
from toruscast.errors import InputError
from toruscast.files import check_target
from toruscast.mapping.omissions import describe_omissions
from toruscast.text import percent

from .app import FAILED, on_signals
from .options import Traffic, argument, option, search_time_option, sub_command
from .problem import load_setting
from .progress import tell, working
from .slow import allocation, jobs, readers, tracer

if TYPE_CHECKING:
    from toruscast._search.search import SearchResult
    from toruscast.formats.jobs import BatchJob

# What a better placement saves at least; less is lost in the noise of machines.
LEAST_GAIN = 0.01
TRACER = Path(__file__).parents[1] / "formats" / "tracer.c"


@dataclass(frozen=True)
class StartedProgram:
    """What is started."""

    words: tuple[str, ...] = argument("-- LAUNCHER... PROGRAM...", nargs=-1)


def run_program(words: Sequence[str], variables: Mapping[str, str]) -> int:
    """Run a launcher with further variables, and return its exit status as a shell does."""
    try:
        with (
            subprocess.Popen(words, env=os.environ | variables) as process,
            on_signals(lambda number, _: process.send_signal(number)),
            # A terminal sends Ctrl-C to the program too, which decides how it ends.
            on_signals(lambda *_: None, signal.SIGINT),
        ):
            code = process.wait()
    except OSError as error:
        raise InputError(
            "command cannot be started", found=words[0], expected=error.strerror
        ) from None
    return code if code >= 0 else 128 - code


@dataclass(frozen=True)
class Launched(StartedProgram):
    """What is started, and where."""

    hosts: str | None = option(
        "File with the name and the node of each host of the machine, such as a CSV host,x,y,z. "
        "Only the hosts of the job are used; all of them if no job is given.",
        "FILE",
        group="Machine",
    )
    tasks_per_node: int | None = option(
        "Tasks of a host.  [default: what the job says, or the least that suffices]",
        "N",
        group="Mappings",
    )
    seconds: float = search_time_option()
    out: str | None = option(
        "File of the mapping, if not the launcher's usual one.", "FILE", group="Output"
    )
    only_print: bool = option(
        "Print the command; do not run it.", "", "--print", default=False, group="Output"
    )


@sub_command("launch")
def launch(traffic: Traffic, job_of: Launched) -> int:
    """Start an MPI program with its ranks placed better, by the launcher's own option.

    The nodes are those of the job: of the variables of Slurm, PJM (Fugaku) or Flux. Where no better
    placement saves 1 % of the time, the command runs as it is.

    \b
    toruscast launch --comm app.mpiP --torus 8x8x8 --hosts hosts.csv -- srun ./app input
    toruscast launch --comm app.mpiP --torus 4x6x8 -- mpiexec ./app input
    eval "$(toruscast launch --print --comm app.mpiP --torus 8x8 --hosts h.csv -- mpirun ./app)"

    Exit status: that of the program.
    """  # noqa: D301
    words = job_of.words
    job = _job()
    told = jobs.launcher_option(words, job, _version(words))
    file = job_of.out or told.file
    check_target(file)
    if traffic.torus is None and job is not None and job.shape:
        traffic = replace(traffic, torus=job.shape)
    problem = load_setting(traffic, "deterministic").problem
    if lacking := describe_omissions(problem.workload.omitted):
        tell(lacking)
    torus = problem.torus
    jobs.check_tasks(words, problem.n_tasks)
    ours = _hosts(job, job_of.hosts, torus)
    share = job_of.tasks_per_node or (None if job is None else job.tasks_per_node)
    n_hosts, most = (torus.n_nodes, 1) if ours is None else (len(ours.names), ours.most)
    share = share or allocation.min_capacity(problem.n_tasks, n_hosts)
    readers.check_job(told.dialect, problem, ours, share * most)
    found = _search(problem, ours, share, job_of.seconds)
    given, variables = list(words), dict[str, str]()
    if found is None or found.gain < LEAST_GAIN:
        saved = (
            "there is but one node" if found is None else f"the best saves {percent(found.gain, 1)}"
        )
        tell(f"ranks stay in the launcher's order: {saved}")
    else:
        tc.write_mapping(found.mapping, file, told.dialect, torus=torus, hosts=ours)
        given, variables = told.words(words, file)
        saved = f"{found.mapping.name}: {percent(found.gain, 1)} less time in simulation"
        tell(f"{saved}; it is in {file}, a {told.dialect}")
    if job_of.only_print:
        shown = [f"{name}={shlex.quote(value)}" for name, value in variables.items()]
        click.echo(" ".join([*shown, shlex.join(given)]))
        return 0
    return run_program(given, variables)


def _version(words: tuple[str, ...]) -> str:
    """What a launcher of MPI says of itself; nothing where it cannot be asked."""
    if not Path(words[0]).name.startswith(("mpirun", "mpiexec")):
        return ""
    try:
        asked = [words[0], "--version"]
        done = subprocess.run(asked, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout


def _job() -> BatchJob | None:
    hosts = ""
    if ("FLUX_JOB_ID" in os.environ or "FLUX_URI" in os.environ) and shutil.which("flux"):
        done = subprocess.run(
            ["flux", "hostlist", "local"], capture_output=True, text=True, check=False
        )
        hosts = done.stdout if done.returncode == 0 else ""
    return jobs.read_job(os.environ, hosts)


def _hosts(job: BatchJob | None, table: str | None, torus: tc.Torus) -> tc.Hosts | None:
    """The hosts of the job; none where its nodes are the torus."""
    if job is not None and job.manager == "PJM":
        if job.n_nodes not in (None, torus.n_nodes):
            expected = f"the {job.n_nodes} nodes of the job, such as --torus 4x6x8"
            raise InputError("torus of another job", found=str(torus), expected=expected)
        return None
    if table is None:
        found = "no job" if job is None else f"a job of {job.manager}"
        expected = "--hosts FILE, a table host,x,y,z of the machine"
        raise InputError("nodes without places", found=found, expected=expected)
    return jobs.hosts_of(job, tc.read_hosts(table, torus))


def _search(
    problem: tc.MappingProblem, hosts: tc.Hosts | None, share: int, seconds: float
) -> SearchResult | None:
    """The best placement beside the launcher's; None where there is but one node."""
    torus, n_tasks = problem.torus, problem.n_tasks
    first = jobs.in_order(n_tasks, torus, hosts, share)
    nodes = None if hosts is None else sorted({*hosts.node.tolist()})
    if n_tasks == 1 or (torus.n_nodes if nodes is None else len(nodes)) == 1:
        return None
    with working(f"Searching for {seconds:g} s"):
        found = tc.search(
            problem.workload,
            torus,
            [first],
            seconds=seconds,
            nodes=nodes,
            tasks_per_node=first.tasks_per_node,
        )
    if found.interrupted:
        raise KeyboardInterrupt
    return found


@dataclass(frozen=True)
class Traced(StartedProgram):
    """What is started, and how it is recorded."""

    folder: str = option(
        "Where the trace goes: a file a rank, written while the program runs.",
        "FOLDER",
        "--out",
        default="trace",
        group="Output",
    )
    region: str = option(
        "What is read of it later: the iteration that repeats, all, what stands between "
        "MPI_Pcontrol(1) and MPI_Pcontrol(0) (marked), or seconds such as 2.5-4.",
        default="iteration",
    )
    mpicc: str = option(
        "The compiler of the MPI library that the program uses; it builds the recorder.",
        "COMPILER",
        default="mpicc",
        group="Machine",
    )


@sub_command("trace")
def trace(run: Traced) -> int:
    """Run an MPI program as it is, and record its messages and their order.

    \b
    toruscast trace -- mpirun -np 64 ./app input
    toruscast rank --comm trace --torus 4x4x4

    The program is not changed: a small recorder is compiled once for the MPI library and loaded
    before the program. All commands read the folder as a graph with rounds. Exit status: that of
    the program; 1 if nothing was recorded.
    """  # noqa: D301
    words, folder, region, mpicc = run.words, run.folder, run.region, run.mpicc
    tracer.region_of(region)
    place = _empty_folder(folder)
    environment = _environment(place, _built(place, mpicc))
    (place / "trace.json").write_text(json.dumps({"region": region, "command": list(words)}))
    code = run_program(words, environment)
    if not any(place.glob("rank-*.trace")):
        tell(
            f"nothing was recorded: {words[0]} started no program that uses the MPI "
            f"library of {mpicc} (--mpicc names another compiler)"
        )
        return code or FAILED
    lines = tracer.described(place)
    click.echo(f"{folder}: " + "\n  ".join(lines))
    click.echo(f"Next: toruscast rank --comm {folder} --torus TORUS")
    return code


def _empty_folder(folder: str) -> Path:
    place = Path(folder).absolute()
    if separators := set(str(place)) & set(" :;\t\n"):
        expected = f"--out with a path without {' or '.join(map(repr, sorted(separators)))}"
        raise InputError("path that ranks cannot be told", found=str(place), expected=expected)
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        expected = "a new folder, or another name with --out"
        raise InputError("folder is not empty", found=folder, expected=expected)
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError("folder cannot be made", found=folder, expected=error.strerror) from None
    return place


def _built(place: Path, mpicc: str) -> Path:
    """The recorder, compiled for the MPI library of a compiler."""
    compiler = shutil.which(mpicc)
    if compiler is None:
        expected = "the MPI library's compiler, such as mpicc of a development package (--mpicc)"
        raise InputError("no MPI compiler", found=mpicc, expected=expected)
    library = place / "recorder.so"
    flags = ["-shared", "-fPIC", "-O2", "-std=gnu11", "-o", str(library), str(TRACER), "-ldl"]
    done = subprocess.run([compiler, *flags], capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if "error" in line] or [
            "no reason given"
        ]
        raise InputError(
            "the recorder cannot be built", found=lines[0], expected=f"{mpicc} of MPI 3"
        )
    return library


def _environment(place: Path, library: Path) -> dict[str, str]:
    """The environment of the launcher; Open MPI hands the two on to other nodes."""
    own = {
        "LD_PRELOAD": " ".join(filter(None, [str(library), os.environ.get("LD_PRELOAD")])),
        "TORUSCAST_TRACE": str(place),
    }
    handed_on = ";".join(f"{name}={value}" for name, value in own.items())
    return own | {"OMPI_MCA_mca_base_env_list": handed_on}
