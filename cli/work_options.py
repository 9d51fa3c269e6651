"""Options that tell how the work is done: from which seed, over which routes, by whom."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any, get_args

import click

from toruscast.typing import Routing

from .placing_options import Positive
from .records import F, Work, as_record, with_options
from .workers import on_workers

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
