"""Options that several sub-commands share."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any, get_args

import click

from toruscast.typing import Routing

from .output import Output
from .placing_options import POSITIVE, Positive, holes_options, placing_options
from .reading_options import include_option, iterations_option, reading_options
from .records import (
    Basis,
    Candidates,
    F,
    Limits,
    SampleSource,
    Traffic,
    Work,
    as_record,
    with_options,
)
from .workers import on_workers

TASKS = Positive(1, 2**31 - 1)
COMM_HELP = (
    "Communication graph: Open MPI monitoring output, lines of src dst bytes [messages], a dense "
    "matrix, .npz or .mtx"
)
MAPPING_HELP = (
    "a map file of Blue Gene, a table below names such as task,node, MPICH_RANK_ORDER, a rankfile "
    "or another format that 'toruscast formats' lists"
)
TORUS_HELP = (
    "Sizes such as 8x8x8 (8x8x8m: a mesh in the last dimension); a machine such as "
    "bluegene_q:1024 or tpu_v4:4x4x8 (listed by 'toruscast machines'); or a file such as mine.toml."
)


comm_option = click.option(
    "--comm",
    "comms",
    required=True,
    multiple=True,
    metavar="FILE|NAME",
    help=f"{COMM_HELP}, or the name of a shipped dataset. Given several times: phases.",
)
network_option = click.option(
    "--network",
    "changes",
    multiple=True,
    metavar="KEY=VALUE",
    help="Change a constant of the network, such as overhead=1us, tie=random, bandwidth=1e9,2e9 "
    "(of each dimension), order=1,0 (in which dimensions are routed), buffer_packets=8. Or "
    "unknown, where the machine does not say which FIFO a message takes and which packet goes "
    "first: rank then averages over networks. May be given several times.",
)


def _traffic(*, required: bool) -> Callable[[F], F]:
    return as_record(
        "traffic",
        Traffic,
        click.option(
            "--comm",
            "comms",
            multiple=True,
            metavar="FILE|NAME",
            help=f"{COMM_HELP}, or the name of a shipped dataset, such as lammps-lj-512. Given "
            "several times: phases, a barrier between them.",
        ),
        click.option(
            "--collective",
            metavar="ALGORITHM:SIZE",
            help="Instead: the rounds of a collective, such as allreduce/ring:64MB, or with :2 "
            "behind it on two ports; 'toruscast collectives' ranks the algorithms.",
        ),
        click.option(
            "--tasks",
            type=TASKS,
            metavar="N",
            help="Tasks of the collective.  [default: one on every node]",
        ),
        click.option(
            "--dependent",
            is_flag=True,
            help="The phases are rounds: instead of at a barrier, each task waits for its own "
            "messages of the round.",
        ),
        *reading_options,
        iterations_option(" Known for shipped datasets; 1 for files."),
        include_option,
        click.option(
            "--grid",
            metavar="SIZES",
            help="Logical task grid such as 8x8x8, for the mapping strategies; near-cubic if "
            "unknown.",
        ),
        click.option("--torus", required=required, metavar="TORUS", help=TORUS_HELP),
        network_option,
        *holes_options,
    )


def traffic_options(function: F) -> F:
    """Add what tells which traffic goes over which torus, as the record ``traffic``."""
    return _traffic(required=True)(function)


def optional_traffic_options(function: F) -> F:
    """Add the same options where samples may stand in for them."""
    return _traffic(required=False)(function)


def candidates_options(function: F) -> F:
    """Add what tells which mappings to look at, as the record ``candidates``."""
    return as_record("candidates", Candidates, mappings_option, number_option, *placing_options)(
        function
    )


mappings_option = click.option(
    "--mappings",
    metavar="FILE|FOLDER",
    help=f"A folder of mapping files; one file ({MAPPING_HELP}); or lines of name,node,node,...",
)
number_option = click.option(
    "--candidates",
    type=POSITIVE,
    metavar="N",
    help="Instead: N mappings from the strategies, of very different quality.  [default: 84]",
)


def sample_options(function: F) -> F:
    """Add where samples come from, as the records ``traffic`` and ``source``."""
    return with_options(
        function,
        optional_traffic_options,
        as_record(
            "source",
            SampleSource,
            *placing_options,
            click.option(
                "-n",
                "number",
                type=click.IntRange(min=6),
                metavar="N",
                help="Mappings to simulate.  [default: 168]",
            ),
            click.option(
                "--times",
                metavar="FILE.csv",
                help="Measured times of --mappings instead: lines 'mapping,time' in seconds, as "
                "often as it ran.",
            ),
            click.option(
                "--mappings",
                metavar="FILE|FOLDER",
                help="The mappings that --times is of.",
            ),
            click.option(
                "--samples",
                metavar="FILE.parquet",
                help="Samples: with --comm, where the simulated ones are kept (a run that was "
                "stopped goes on); else read.",
            ),
        ),
    )


def plugin_option(what_for: str) -> Callable[[F], F]:
    """Add features of the user's own; ``what_for`` says where they are named."""
    return click.option(
        "--plugin",
        metavar="FILE.py",
        help="RUNS THE CODE of this Python file, which registers features of your own"
        f"{what_for}. Only give files that you trust.",
    )


FEATURES_MINE = "; --features mine stands for them"


def splits_option(function: F) -> F:
    """Add the number of splits."""
    return click.option(
        "--splits",
        type=POSITIVE,
        default=50,
        show_default=True,
        metavar="N",
        help="Random splits into two thirds to train on and one third to forecast.",
    )(function)


def top_option(default: int) -> Callable[[F], F]:
    """Add how much of a long table is shown."""
    return click.option(
        "--top",
        type=POSITIVE,
        default=default,
        show_default=True,
        metavar="N",
        help="Rows shown from the top; JSON and CSV have all.",
    )


def basis_options(function: F) -> F:
    """Add what a forecast rests on, as the record ``basis``."""
    return as_record(
        "basis",
        Basis,
        click.option(
            "--model",
            default="default",
            metavar="FILE",
            help="A model made by 'toruscast train'.  [default: the one that comes with toruscast]",
        ),
        plugin_option(" that the model of --model reads"),
        click.option(
            "--times",
            metavar="FILE.csv",
            help="Measured times of some of --mappings: lines 'mapping,time' in seconds, as often "
            "as it ran. Only these times train the model.",
        ),
    )(function)


def limit_options(function: F) -> F:
    """Add how much may be simulated, as the record ``limits``."""
    return as_record(
        "limits",
        Limits,
        click.option(
            "--simulations",
            type=POSITIVE,
            default=30,
            show_default=True,
            metavar="N",
            help="Most candidates to simulate before the answer.",
        ),
        click.option(
            "--seconds",
            type=click.FloatRange(min=0, min_open=True),
            metavar="S",
            help="Start no simulation after S seconds.",
        ),
        click.option("--no-simulation", is_flag=True, help="Forecast only."),
    )(function)


def file_argument(function: F) -> F:
    """Add the file that a command reads; "-" is stdin."""
    return click.argument(
        "file",
        metavar="FILE",
        callback=lambda _context, _argument, text: "/dev/stdin" if text == "-" else text,
    )(function)


_json_option = click.option(
    "--json", "json_path", metavar="FILE|-", help="Write the result as JSON."
)
_csv_option = click.option("--csv", "csv_path", metavar="FILE|-", help="Write the table as CSV.")


_quiet_option = click.option("--quiet", "-q", is_flag=True, help="No progress bar, no messages.")
_verbose_option = click.option(
    "--verbose", "-v", is_flag=True, help="Say what is done, and show details."
)
_log_option = click.option(
    "--log-file",
    "log_path",
    metavar="FILE",
    help="Append what is done to FILE, a line of JSON each.",
)


def output_options(function: F) -> F:
    """Add where the result goes, each option as an argument of its own."""
    return with_options(
        function, _json_option, _csv_option, _quiet_option, _verbose_option, _log_option
    )


def output_record(function: F) -> F:
    """Add where the result goes, as the record ``output``."""
    return as_record("output", Output, output_options)(function)


MAX_JOBS = 4096


def seed_option(function: F) -> F:
    """Add the seed."""
    return click.option(
        "--seed",
        type=click.IntRange(min=0),
        default=1,
        show_default=True,
        metavar="N",
        help="Seed of everything drawn at random.",
    )(function)


def routing_option(function: F) -> F:
    """Add how messages are routed."""
    return click.option(
        "--routing",
        type=click.Choice(get_args(Routing)),
        default="deterministic",
        show_default=True,
        help="Dimension order, minimal adaptive, or the second for phases with long messages.",
    )(function)


def _with_work(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Add what tells how the work is done, as the record ``work``; its workers are there then."""

    def add(function: F) -> F:
        @functools.wraps(function)
        def command(*, work: Work, **values: Any) -> Any:
            with on_workers(work) as ready:
                return function(work=ready, **values)

        return as_record("work", Work, *options)(command)  # type: ignore[arg-type]

    return add


def workers_options(function: F) -> F:
    """Add who does the work: threads, processes or a cluster."""
    return with_options(
        function,
        click.option(
            "--jobs",
            type=Positive(1, MAX_JOBS),
            metavar="N",
            default=os.cpu_count() or 1,
            help="Threads; all processors if not given.",
        ),
        click.option(
            "--workers",
            type=Positive(1, MAX_JOBS),
            metavar="N",
            help="Processes instead of threads.",
        ),
        click.option(
            "--cluster",
            metavar="ADDRESS|FILE.toml",
            help="Instead: a Dask cluster, by its scheduler's address such as "
            "tcp://host:8786, or by a file that starts one, such as slurm.toml.",
        ),
    )


def working_options(function: F) -> F:
    """Add who does the work, as the record ``work``."""
    return _with_work(workers_options)(function)


def work_options(function: F) -> F:
    """Add the seed, too."""
    return _with_work(seed_option, workers_options)(function)


def routed_work_options(function: F) -> F:
    """Add how messages are routed, too."""
    return _with_work(routing_option, seed_option, workers_options)(function)
