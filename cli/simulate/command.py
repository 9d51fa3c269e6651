"""``toruscast simulate``: one mapping or many, packet by packet."""

from __future__ import annotations

from typing import Literal

import click

from .. import options
from ..inputs import check_sends, load_mapping, load_mappings, load_phases, load_torus
from ..occupancy import occupancy
from ..output import Output, write_text
from ..setting import Setting
from ..tables import printable
from ..units import part_of
from .files import check_result_folder, inside, labelled, write_folder
from .network import change_network
from .options import check_interval, check_one_or_many, check_options, read_interval, read_watch
from .report import look, one_row, print_report, summary


@click.command("simulate")
@options.phased_traffic_options
@click.option(
    "--mapping",
    metavar="FILE|STRATEGY",
    help=f"One mapping, in detail: a file ({options.MAPPING_HELP}), or a strategy such as "
    "identity, permute-ZYX or random@2.",
)
@click.option(
    "--mappings",
    metavar="FILE|FOLDER",
    help="Instead: many, ranked by time: a folder of such files; one; or lines of "
    "name,node,node,...",
)
@click.option(
    "--candidates",
    type=options.POSITIVE,
    metavar="N",
    help="Instead: N mappings from the strategies, of very different quality, ranked by time.",
)
@options.tasks_per_node_option
@options.routing_option
@options.network_option(
    "zones=0,1/2 (adaptive routing finishes dimensions 0 and 1 first) or zones=bluegene_q, "
    "deadlock=dateline, arbitration=age or buffer_packets=8"
)
@click.option(
    "--coarsening",
    type=options.POSITIVE,
    metavar="N",
    help="Let a simulated packet stand for up to N real ones: faster, less exact.  [default: 1]",
)
@click.option(
    "--error",
    type=float,
    metavar="E",
    help="Instead: choose N for a relative error of the time of about E, such as 0.03. "
    "'toruscast flows' takes no packets at all.",
)
@options.top_option(10)
@options.work_options
@click.option(
    "--interval",
    metavar="TIME",
    help="Take a snapshot of the links every TIME, such as 5us, for --out and --trace.",
)
@click.option(
    "--watch",
    multiple=True,
    metavar="[PHASE:]SRC:DST",
    help="Follow the packets of the message between two tasks, such as 3:7, or 1:3:7 in the second "
    "phase.",
)
@click.option(
    "--out",
    metavar="FOLDER",
    help="Write everything there: messages, tasks, phases, links, FIFOs, time series and log as "
    "CSV, summary.json, trace.json.",
)
@click.option(
    "--trace",
    metavar="FILE.json",
    help="Write a timeline to look at in ui.perfetto.dev or chrome://tracing.",
)
@click.option("--links", metavar="FILE.csv|-", help="Write the counters of every link as CSV.")
@options.output_options
def command(
    comm: tuple[str, ...],
    dependent: bool,
    form: options.Format,
    iterations: float | None,
    traffic: Literal["all", "point_to_point", "collective"],
    grid: str | None,
    torus: str,
    mapping: str | None,
    mappings: str | None,
    candidates: int | None,
    tasks_per_node: int | None,
    routing: Literal["deterministic", "adaptive", "by_size"],
    changes: tuple[str, ...],
    coarsening: int | None,
    error: float | None,
    top: int,
    seed: int,
    jobs: int,
    interval: str | None,
    watch: tuple[str, ...],
    out: str | None,
    trace: str | None,
    links: str | None,
    json_path: str | None,
    csv_path: str | None,
    quiet: bool,
) -> None:
    """Simulate mappings packet by packet: what takes one its time, or many ranked by time.

    Of one mapping, --csv has one row that sums it up, --links one row for each link, --out has
    everything. Of many, --csv has one row for each.

    \b
    toruscast simulate --comm lammps-lj-64 --torus 4x4x4 --mapping identity --out run
    toruscast simulate --comm app.edges --torus 8x8x8 --mappings maps/ --csv times.csv
    """  # noqa: D301
    output = Output(json_path, csv_path, quiet, links)
    check_options(coarsening, error)
    check_one_or_many(mapping, mappings, candidates)
    output.check({"--trace": trace}, inside(out))
    if out is not None:
        check_result_folder(out)
    if interval is not None and out is None and trace is None:
        raise click.UsageError("--interval needs --out or --trace")
    every = None if interval is None else read_interval(interval)
    application, workload = load_phases(comm, traffic, iterations, grid, dependent, form)
    check_sends(workload, comm[0])
    host = change_network(load_torus(torus), changes)
    setting = Setting(application, comm, dependent, host, changes)
    if mapping is None:
        from .many import How, rank_simulated

        several = load_mappings(application.comm, host, mappings, candidates, tasks_per_node, seed)
        how = How(routing, coarsening or 1, error, seed)
        rank_simulated(setting, workload, several, how, jobs, top, output)
        return
    chosen = load_mapping(application.comm, host, mapping, tasks_per_node, seed)
    watched = read_watch(watch, workload)
    from toruscast.features.reasons import explain
    from toruscast.simulation import simulate
    from toruscast.simulation.trace import write_trace

    why = explain(workload, host, chosen, routing=routing)
    if every is not None:
        check_interval(every, why.lower_bound, host)
    with output.progress("Simulating", count=part_of("packet-hops")) as progress:
        result = simulate(
            workload,
            host,
            chosen,
            routing=routing,
            coarsening=coarsening or 1,
            error=error,
            seed=seed,
            interval=every,
            watch=watched,
            progress=progress,
        )
    found = look(result, why)
    content = {
        **setting.describe(),
        "routing": routing,
        "mapping": chosen.name,
        "tasks_per_node": chosen.tasks_per_node,
        "seed": seed,
        **summary(found),
    }
    output.write(content, one_row(content))
    if trace is not None:
        write_trace(result, trace)
    if links is not None or out is not None:
        named = labelled(found.links, host)
        if links is not None:
            write_text(named.to_csv(lineterminator="\n"), links)
        if out is not None:
            write_folder(out, result, named, content)
    if output.for_people:
        console = output.console()
        console.print(
            f"{setting.in_words()}; mapping {printable(chosen.name)}, {occupancy([chosen])}; "
            f"{routing} routing.\n",
        )
        print_report(found, console)
