"""``toruscast launch``: start an MPI program with its ranks placed better, inside a job."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from toruscast.errors import InputError

from . import options
from .inputs import load_application, load_torus
from .output import check_writable
from .placing_options import POSITIVE
from .progress import time_on_stderr
from .reading_options import format_option, include_option
from .records import Traffic, as_record

if TYPE_CHECKING:
    from toruscast.mapping import Hosts, Torus, Workload
    from toruscast.mapping.formats.jobs import BatchJob
    from toruscast.search.search import Found

# What a better placement saves at least; less is lost in the noise of machines.
LEAST_GAIN = 0.01


@click.command("launch")
@click.argument("words", metavar="-- LAUNCHER... PROGRAM...", nargs=-1, required=True)
@as_record(
    "traffic",
    Traffic,
    options.comm_option,
    click.option(
        "--torus",
        metavar="TORUS",
        help=f"{options.TORUS_HELP}  [default: the shape of a job on Fugaku]",
    ),
    options.network_option,
    format_option,
    include_option,
)
@click.option(
    "--hosts",
    metavar="FILE",
    help="Names of the machine's hosts and the node of each, such as a CSV host,x,y,z. Those of "
    "the job are looked up in it; without a job all are taken.",
)
@click.option(
    "--tasks-per-node",
    "share",
    type=POSITIVE,
    metavar="N",
    help="Tasks of a host.  [default: what the job says, or the least that suffices]",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0),
    default=30.0,
    show_default=True,
    help="How long to search.",
)
@click.option("--out", metavar="FILE", help="File of the mapping, if not the launcher's usual one.")
@click.option("--print", "only_print", is_flag=True, help="Print the command; do not run it.")
def command(
    words: tuple[str, ...],
    traffic: Traffic,
    hosts: str | None,
    share: int | None,
    seconds: float,
    out: str | None,
    only_print: bool,
) -> int:
    """Start an MPI program with its ranks placed better, by the launcher's own option.

    The nodes are those of the job: of the variables of Slurm, PJM (Fugaku) or Flux. Where no better
    placement saves 1 % of the time, the command runs as it is.

    \b
    toruscast launch --comm app.mpiP --torus 8x8x8 --hosts hosts.csv -- srun ./app input
    toruscast launch --comm app.mpiP --torus 4x6x8 -- mpiexec ./app input
    eval "$(toruscast launch --print --comm app.mpiP --torus 8x8 --hosts h.csv -- mpirun ./app)"

    Exit status: that of the program.
    """  # noqa: D301
    from toruscast.mapping.formats.jobs import check_tasks, told_by

    job = _job()
    told = told_by(words, job)
    file = out or told.file
    check_writable(file)
    if traffic.torus is None and job is not None and job.shape:
        traffic = replace(traffic, torus=job.shape)
    torus = load_torus(traffic)
    application = load_application(traffic)
    check_tasks(words, application.workload.n_tasks)
    ours = _hosts(job, hosts, torus)
    share = share or (None if job is None else job.tasks_per_node)
    found = _search(application.workload, torus, ours, share, seconds)
    given, variables = list(words), dict[str, str]()
    if found is None or found.gain < LEAST_GAIN:
        saved = "there is but one node" if found is None else f"the best saves {found.gain:.1%}"
        _say(f"ranks stay in the launcher's order: {saved}")
    else:
        from toruscast.mapping.formats import write_mapping

        write_mapping(found.mapping, file, told.dialect, torus=torus, hosts=ours)
        given, variables = told.words(words, file)
        _say(f"{found.mapping.name}: {found.gain:.1%} less time in simulation; it is in {file}")
    if only_print:
        shown = [f"{name}={shlex.quote(value)}" for name, value in variables.items()]
        click.echo(" ".join([*shown, shlex.join(given)]))
        return 0
    try:
        code = subprocess.run(given, env=os.environ | variables, check=False).returncode
    except OSError as error:
        raise InputError(
            "launcher cannot be started", found=given[0], expected=error.strerror
        ) from None
    return code if code >= 0 else 128 - code


def _say(text: str) -> None:
    """Say it beside what the program prints."""
    click.echo(f"toruscast: {text}", err=True)


def _job() -> BatchJob | None:
    from toruscast.mapping.formats.jobs import read_job

    hosts = ""
    if ("FLUX_JOB_ID" in os.environ or "FLUX_URI" in os.environ) and shutil.which("flux"):
        done = subprocess.run(
            ["flux", "hostlist", "local"], capture_output=True, text=True, check=False
        )
        hosts = done.stdout if done.returncode == 0 else ""
    return read_job(os.environ, hosts)


def _hosts(job: BatchJob | None, table: str | None, torus: Torus) -> Hosts | None:
    """The hosts of the job; none where its nodes are the torus."""
    from toruscast.mapping.formats import read_hosts
    from toruscast.mapping.formats.jobs import hosts_of

    if job is not None and job.manager == "PJM":
        if job.n_nodes not in (None, torus.n_nodes):
            expected = f"the {job.n_nodes} nodes of the job, such as --torus 4x6x8"
            raise InputError("torus of another job", found=str(torus), expected=expected)
        return None
    if table is None:
        found = "no job" if job is None else f"a job of {job.manager}"
        expected = "--hosts FILE, a table host,x,y,z of the machine"
        raise InputError("nodes without places", found=found, expected=expected)
    return hosts_of(job, read_hosts(table, torus))


def _search(
    workload: Workload, torus: Torus, hosts: Hosts | None, share: int | None, seconds: float
) -> Found | None:
    """The best placement beside the launcher's; None where there is but one node."""
    from toruscast.mapping.formats.jobs import in_order
    from toruscast.search.search import search

    n_hosts = torus.n_nodes if hosts is None else len(hosts.names)
    share = share or -(-workload.n_tasks // n_hosts)
    first = in_order(workload.n_tasks, torus, hosts, share)
    nodes = None if hosts is None else sorted({*hosts.node.tolist()})
    if workload.n_tasks == 1 or (torus.n_nodes if nodes is None else len(nodes)) == 1:
        return None
    with time_on_stderr("Searching", seconds, False):
        return search(
            workload,
            torus,
            [first],
            seconds=seconds,
            nodes=nodes,
            tasks_per_node=first.tasks_per_node,
        )
