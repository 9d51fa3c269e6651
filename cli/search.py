"""``toruscast search``: a better mapping, within a time, on the nodes that are ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from . import options
from .inputs import check_mappings, load_application, load_torus
from .mapping_files import MappingFile
from .output import Output
from .phrases import application_line, check_page, report_option
from .places import read_fixed
from .placing_options import best_option, placing_options
from .progress import time_on_stderr
from .records import Placing, Traffic, Work, as_record
from .workers import Compiling

if TYPE_CHECKING:
    from toruscast.mapping import TaskMapping


@dataclass(frozen=True)
class Search(Placing):
    """Starts, bounds and goal of a search."""

    mappings: str | None = None
    seconds: float = 30.0
    objective: str = "time"
    also: tuple[str, ...] = ()
    """Other programs."""


@click.command("search")
@options.traffic_options
@as_record(
    "how",
    Search,
    click.option("--mappings", metavar="FILE|FOLDER", help="Yours: the gain counts from the best."),
    *placing_options,
    click.option(
        "--seconds",
        type=click.FloatRange(min=0),
        default=30.0,
        show_default=True,
        help="How long to search; Ctrl-C ends it with the best so far.",
    ),
    click.option(
        "--objective",
        default="time",
        show_default=True,
        metavar="NAME",
        help="What to minimise: time (simulated) or a feature, such as max_bytes or hop_bytes.",
    ),
    click.option(
        "--also",
        multiple=True,
        type=click.Choice(["scotch", "mt-kahypar"]),
        help="Start from what this program finds, too, where it is installed. May be given several "
        "times.",
    ),
)
@options.top_option(10)
@options.routed_work_options
@best_option("Keep the best so far here, whole.")
@report_option
@options.output_record
def command(
    traffic: Traffic,
    how: Search,
    top: int,
    work: Work,
    best: MappingFile,
    report: str | None,
    output: Output,
) -> None:
    """Search for a better mapping than those of all strategies, and yours.

    Simulated annealing over the loads of links, FIFOs and receivers finds candidates; the best race
    each other as in 'toruscast rank', and the winners are simulated anew.

    \b
    toruscast search --comm lammps-droplet-128 --torus 4x4x8 --seconds 30 --out best.map
    toruscast search --comm app.prof --torus 8x8x8 --allocation nodes.txt --fix 0=17
    """  # noqa: D301
    from toruscast.search.search import search

    output.check({"--report": report}, also={"--out": best.out})
    check_page(report)
    best.check(how.hosts)
    application = load_application(traffic)
    workload = application.workload
    torus = load_torus(traffic)
    compiling = Compiling(torus, work.routing, output) if how.objective == "time" else None
    given: list[TaskMapping] = []
    if how.mappings is not None:
        from toruscast.mapping.formats import read_mappings

        with output.progress("Reading mappings"):
            given = read_mappings(how.mappings, torus, n_tasks=workload.n_tasks, **how.how)
        check_mappings(given, how.mappings, workload.n_tasks, torus)

    def keep(mapping: TaskMapping, _value: float) -> None:
        best.write(mapping, torus, how.hosts)

    if compiling is not None:
        compiling.wait()
    with best.only_if_done(), time_on_stderr("Searching", how.seconds, output.quiet):
        found = search(
            workload,
            torus,
            given,
            seconds=how.seconds,
            objective=how.objective,
            fixed=read_fixed(how.fixed),
            tasks_per_node=how.tasks_per_node,
            also=how.also,
            routing=work.routing,
            seed=work.seed,
            n_jobs=work.jobs,
            better=keep,
        )

    from toruscast.answers.search import answer

    setting = f"{application_line(application)}; on torus {torus}."
    output.deliver(answer(found, yours=bool(given), setting=setting, top=top), report)
    output.say(best.write(found.mapping, torus, how.hosts))
