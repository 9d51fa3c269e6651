"""``toruscast simulate``: one mapping or many, packet by packet."""

from __future__ import annotations

import click

from toruscast.units import part_of
from toruscast.wording import printable

from .. import options
from ..inputs import load_application, load_mapping, load_mappings, load_torus
from ..output import Output, write_text
from ..phrases import Setting, check_page, occupancy, report_option
from ..placing_options import POSITIVE, placing_options
from ..records import Candidates, Traffic, Work, as_record
from .files import check_result_folder, inside, write_folder
from .options import (
    Details,
    Packets,
    check_interval,
    check_one_or_many,
    check_packets,
    details_options,
    packets_options,
    read_watch,
)


@click.command("simulate")
@options.traffic_options
@click.option(
    "--mapping",
    metavar="FILE|STRATEGY",
    help=f"One mapping, in detail: a file ({options.MAPPING_HELP}), or a strategy such as "
    "identity, permute-ZYX or random@2.",
)
@as_record(
    "candidates",
    Candidates,
    click.option(
        "--mappings",
        metavar="FILE|FOLDER",
        help="Instead: many, ranked by time: a folder of such files; one; or lines of "
        "name,node,node,...",
    ),
    click.option(
        "--candidates",
        type=POSITIVE,
        metavar="N",
        help="Instead: N mappings from the strategies, of very different quality, ranked by time.",
    ),
    *placing_options,
)
@packets_options
@options.top_option(10)
@options.routed_work_options
@details_options
@report_option
@as_record(
    "output",
    Output,
    click.option(
        "--links",
        "links_path",
        metavar="FILE.csv|-",
        help="Write the counters of every link as CSV.",
    ),
    options.output_options,
)
def command(
    traffic: Traffic,
    mapping: str | None,
    candidates: Candidates,
    packets: Packets,
    top: int,
    work: Work,
    details: Details,
    report: str | None,
    output: Output,
) -> None:
    """Simulate mappings packet by packet: what takes one its time, or many ranked by time.

    Of one mapping, --csv has one row that sums it up, --links one row for each link, --out has
    everything. With many mappings, --csv has one row for each.

    \b
    toruscast simulate --comm lammps-lj-64 --torus 4x4x4 --mapping identity --out run
    toruscast simulate --comm app.edges --torus 8x8x8 --mappings maps/ --csv times.csv
    """  # noqa: D301
    check_packets(packets)
    check_one_or_many(mapping, candidates)
    output.check({"--trace": details.trace, "--report": report}, inside(details.out))
    check_page(report)
    if details.out is not None:
        check_result_folder(details.out)
    every = details.every()
    application = load_application(traffic)
    workload = application.workload
    host = load_torus(traffic)
    setting = Setting(application, traffic, host)
    if mapping is None:
        from .many import SimulationOptions, rank_simulated

        several = load_mappings(workload, host, candidates, work.seed)
        how = SimulationOptions(
            work.routing, packets.coarsening or 1, packets.error, packets.repeat, work.seed
        )
        rank_simulated(setting, workload, several, how, work.jobs, top, output)
        return
    chosen = load_mapping(workload, host, mapping, candidates, work.seed)
    watched = read_watch(details.watch, workload)
    from toruscast.features.reasons import explain
    from toruscast.simulation import simulate
    from toruscast.simulation.trace import write_trace

    if every is not None:
        least = explain(workload, host, chosen, routing=work.routing).lower_bound
        check_interval(every, least, host)
    with output.progress("Simulating", count=part_of("packet-hops")) as progress:
        result = simulate(
            workload,
            host,
            chosen,
            routing=work.routing,
            coarsening=packets.coarsening or 1,
            error=packets.error,
            iterations=packets.repeat,
            seed=work.seed,
            interval=every,
            watch=watched,
            progress=progress,
        )
    from toruscast.answers.simulation import answer, labelled

    why = explain(workload, host, chosen, routing=work.routing, simulation=result)
    found = answer(
        result,
        why,
        setting=f"{setting.in_words()}; mapping {printable(chosen.name)}, {occupancy([chosen])}; "
        f"{work.routing} routing.",
    )
    more = {
        **setting.describe(),
        "routing": work.routing,
        "tasks_per_node": chosen.tasks_per_node,
        "seed": work.seed,
    }
    output.deliver(found, report, more)
    if details.trace is not None:
        write_trace(result, details.trace)
    if output.links_path is not None or details.out is not None:
        named = labelled(result.links(), host)
        if output.links_path is not None:
            write_text(named.to_csv(lineterminator="\n"), output.links_path)
        if details.out is not None:
            write_folder(details.out, result, named, {**more, **found.content})
