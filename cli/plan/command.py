"""``toruscast plan``: which mapping to run next on the machine, and when the runs are enough."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import click

import toruscast as tc
from toruscast import answers
from toruscast.wording import counted

from ..inputs import load_application, load_mappings, load_torus
from ..options import Candidates, Traffic, Work, option, sub_command, top_option
from ..output import PageOutput, check_writable
from ..phrases import application_line, occupancy
from ..slow import run_loop
from .launch import Launch

_SHARE = click.FloatRange(min=1e-4, max=1)


@dataclass(frozen=True)
class RunLimits:
    """The runs so far, how many there may be, and what is worth one."""

    GROUP: ClassVar = "Work"
    times: str | None = option(
        "Runs so far: a line 'mapping,time' each, in seconds; repeated ones are welcome. It need "
        "not be there yet.",
        "FILE.csv",
        group="Input",
    )
    batch: int = option("Mappings to name, or to run before looking again.", "K", default=1)
    runs: int | None = option(
        "Most runs, those of --times included.  [default: no limit; with --run 30]", "N"
    )
    noise: float | None = option(
        "Standard deviation of a run's time, such as 0.02.  [default: learned from runs of the "
        "same mapping]",
        "SHARE",
        type=_SHARE,
    )
    goal: float | None = option(
        "A gain that is not worth more runs, such as 0.005.  [default: 0.01, or 1.5 times the "
        "noise where that is larger]",
        "SHARE",
        type=_SHARE,
    )
    run_cost: float | None = option(
        "Seconds that the next run must be expected to take off the time of the mapping that is "
        "chosen; the runs are enough where it gains less.",
        "SECONDS",
        type=click.FloatRange(min=0),
    )
    top: int = top_option(10)


@sub_command("plan")
def command(
    traffic: Traffic,
    candidates: Candidates,
    pace: RunLimits,
    launch: Launch,
    work: Work,
    output: PageOutput,
) -> None:
    """Say which mapping to run next on the machine, and when the runs made are enough.

    A model forecasts the time of the network. What else is in a measured time, and how noisy it is,
    is learned from the runs. The next run is the one that improves the choice most.

    \b
    toruscast plan --comm app.prof --torus 8x8x8 --mappings maps/ --times runs.csv --out next/
    toruscast plan --comm app.prof --torus 8x8x8 --mappings maps/ --times runs.csv \\
        --run './job.sh {map}' --runs 30
    """  # noqa: D301
    times = pace.times
    launch.check(times, candidates.hosts)
    output.check(also={"--out": launch.out, "--times": times})
    if times is not None and launch.script is not None:
        check_writable(times)
    application = load_application(traffic)
    torus = load_torus(traffic)
    mappings = load_mappings(application.workload, torus, candidates, work.seed)
    launch.check_names(mappings, times)
    alone = (
        run_loop.only_one(times)
        if launch.script is not None and times is not None
        else nullcontext()
    )
    with alone:
        with output.progress("Routing") as progress:
            made = tc.plan(
                application.workload,
                torus,
                mappings,
                times,
                noise=pace.noise,
                goal=pace.goal,
                run_cost=pace.run_cost,
                routing=work.routing,
                n_jobs=work.jobs,
                seed=work.seed,
                progress=progress,
            )
        if launch.script is not None and times is not None:
            launch.drive(
                made,
                times,
                candidates.hosts,
                most=pace.runs,
                batch=pace.batch,
                output=output,
            )
    upcoming = _next(made, pace)
    written = {}
    if launch.out is not None:
        for mapping in [made.best] if made.is_enough else upcoming:
            name = made.name_of(mapping)
            file, advice = launch.write(mapping, name, Path(launch.out), candidates.hosts)
            written[file] = advice
    setting = (
        f"{application_line(application)}; {counted(len(made.names), 'mapping')}, "
        f"{occupancy(made.mappings)}"
    )
    output.deliver(
        answers.plan.answer(
            made, upcoming=upcoming, written=written, times=times, setting=setting, top=pace.top
        ),
        {
            "toruscast": tc.__version__,
            "application": application.describe(),
            "torus": {"name": str(torus), "nodes": torus.n_nodes},
        },
    )


def _next(made: tc.training.Plan, pace: RunLimits) -> list[tc.TaskMapping]:
    """Return the mappings to run next: none if the runs are enough, or all that may be."""
    left = pace.batch if pace.runs is None else min(pace.batch, pace.runs - made.n_runs)
    return [] if made.is_enough or left < 1 else made.ask(left)
