"""``toruscast explain``: why a mapping takes its time, and what to try."""

from __future__ import annotations

import click

from . import options
from .inputs import load_application, load_mapping, load_torus
from .output import Output
from .phrases import application_line, check_page, report_option
from .placing_options import placing_options
from .records import Placing, Traffic, Work, as_record


@click.command("explain")
@options.traffic_options
@click.option(
    "--mapping",
    required=True,
    metavar="FILE|STRATEGY",
    help=f"A file ({options.MAPPING_HELP}), or a strategy such as identity or random@2.",
)
@click.option(
    "--against",
    default="identity",
    show_default=True,
    metavar="FILE|STRATEGY",
    help="What it is compared with.",
)
@as_record("placing", Placing, *placing_options)
@options.top_option(5)
@options.routed_work_options
@report_option
@options.output_record
def command(
    traffic: Traffic,
    mapping: str,
    against: str,
    placing: Placing,
    top: int,
    work: Work,
    report: str | None,
    output: Output,
) -> None:
    """Explain why a mapping takes its time.

    Which links are hot, which task pairs put the load there, what the model weighs, and which
    exchange of two blocks of nodes would help most.

    \b
    toruscast explain --comm lammps-droplet-128 --torus 4x4x8 --mapping random
    toruscast explain --comm app.prof --torus 8x8x8 --mapping my.map --against best.map
    """  # noqa: D301
    from toruscast.answers.search import explanation
    from toruscast.search.explain import explain

    output.check({"--report": report})
    check_page(report)
    application = load_application(traffic)
    workload = application.workload
    torus = load_torus(traffic)
    two = [load_mapping(workload, torus, name, placing, work.seed) for name in (mapping, against)]
    with output.progress("Explaining"):
        why = explain(workload, torus, *two, routing=work.routing, n=top)
    setting = f"{application_line(application)}; on torus {torus}."
    output.deliver(explanation(why, setting=setting, top=top), report)
