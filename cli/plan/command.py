"""``toruscast plan``: which mapping to run next on the machine, and when the runs are enough."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from toruscast import __version__
from toruscast.wording import counted

from .. import options
from ..inputs import load_application, load_mappings, load_torus
from ..output import Output, check_writable
from ..phrases import application_line, check_page, occupancy, report_option
from ..placing_options import POSITIVE
from ..records import Candidates, Traffic, Work, as_record
from .launch import Launch

if TYPE_CHECKING:
    from toruscast.mapping import TaskMapping
    from toruscast.training import Plan


@dataclass(frozen=True)
class RunLimits:
    """How many runs there may be, and what is worth one."""

    batch: int = 1
    runs: int | None = None
    noise: float | None = None
    goal: float | None = None


_SHARE = click.FloatRange(min=1e-4, max=1)


@click.command("plan")
@options.traffic_options
@options.candidates_options
@click.option(
    "--times",
    metavar="FILE.csv",
    help="Runs so far: a line 'mapping,time' each, in seconds; repeated ones are welcome. It need "
    "not be there yet.",
)
@as_record(
    "pace",
    RunLimits,
    click.option(
        "--batch",
        type=POSITIVE,
        default=1,
        show_default=True,
        metavar="K",
        help="Mappings to name, or to run before looking again.",
    ),
    click.option(
        "--runs",
        type=POSITIVE,
        metavar="N",
        help="Most runs, those of --times included.  [default: no limit; with --run 30]",
    ),
    click.option(
        "--noise",
        type=_SHARE,
        metavar="SHARE",
        help="Standard deviation of a run's time, such as 0.02.  [default: learned from runs of "
        "the same mapping]",
    ),
    click.option(
        "--goal",
        type=_SHARE,
        metavar="SHARE",
        help="A gain that is not worth more runs, such as 0.005.  [default: 0.01, or the noise "
        "where it is larger]",
    ),
)
@as_record(
    "launch",
    Launch,
    click.option(
        "--out",
        metavar="FOLDER",
        help="Write the next mappings here; the best, once the runs are enough.",
    ),
    click.option(
        "--dialect",
        metavar="NAME",
        help="Format of what is written, for your launcher; 'toruscast formats' lists all.  "
        "[default: a map file]",
    ),
    click.option(
        "--run",
        "script",
        metavar="'CMD {map}'",
        help="RUNS THIS COMMAND for each mapping that is chosen, {map} being its file, which needs "
        "no quotes. It prints its seconds last, such as 1.25 or 'elapsed: 1.25 s'; they go to "
        "--times. A run that was ended goes on when the same command is given again.",
    ),
    click.option(
        "--timeout",
        type=click.FloatRange(min=0, min_open=True),
        default=3600.0,
        show_default=True,
        metavar="S",
        help="Seconds after which a run of --run is ended.",
    ),
)
@options.top_option(10)
@options.routed_work_options
@report_option
@options.output_record
def command(
    traffic: Traffic,
    candidates: Candidates,
    times: str | None,
    pace: RunLimits,
    launch: Launch,
    top: int,
    work: Work,
    report: str | None,
    output: Output,
) -> None:
    """Say which mapping to run next on the machine, and when the runs made are enough.

    A model forecasts the time of the network. What else is in a measured time, and how noisy it is,
    is learned from the runs. The next run is the one that improves the choice most.

    \b
    toruscast plan --comm app.prof --torus 8x8x8 --mappings maps/ --times runs.csv --out next/
    toruscast plan --comm app.prof --torus 8x8x8 --mappings maps/ --times runs.csv \\
        --run './job.sh {map}' --runs 30
    """  # noqa: D301
    from toruscast.training import plan
    from toruscast.training.plan.run_loop import only_one

    launch.check(times, candidates.hosts)
    output.check({"--report": report}, also={"--out": launch.out, "--times": times})
    check_page(report)
    if times is not None and launch.script is not None:
        check_writable(times)
    application = load_application(traffic)
    torus = load_torus(traffic)
    mappings = load_mappings(application.workload, torus, candidates, work.seed)
    launch.check_names(mappings, times)
    alone = only_one(times) if launch.script is not None and times is not None else nullcontext()
    with alone:
        with output.progress("Routing") as progress:
            made = plan(
                application.workload,
                torus,
                mappings,
                times,
                noise=pace.noise,
                goal=pace.goal,
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
    from toruscast.answers.plan import answer

    setting = (
        f"{application_line(application)}; {counted(len(made.names), 'mapping')}, "
        f"{occupancy(made.mappings)}"
    )
    output.deliver(
        answer(made, upcoming=upcoming, written=written, times=times, setting=setting, top=top),
        report,
        {
            "toruscast": __version__,
            "application": application.describe(),
            "torus": {"name": str(torus), "nodes": torus.n_nodes},
        },
    )


def _next(made: Plan, pace: RunLimits) -> list[TaskMapping]:
    """Return the mappings to run next: none if the runs are enough, or all that may be."""
    left = pace.batch if pace.runs is None else min(pace.batch, pace.runs - made.n_runs)
    return [] if made.is_enough or left < 1 else made.ask(left)
