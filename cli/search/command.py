"""``toruscast search``: a better mapping, within a time, on the nodes that are ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from .. import options
from ..inputs import check_mappings, check_sends, load_phases, load_torus
from ..mapping_files import MappingFile
from ..output import Output, records
from ..placing_options import best_option, placing_options
from ..records import Placing, Traffic, Work, as_record
from .places import read_allocation, read_fixed

if TYPE_CHECKING:
    from toruscast.mapping import TaskMapping
    from toruscast.training.search import Found


@click.command("search")
@options.phased_traffic_options
@click.option("--mappings", metavar="FILE|FOLDER", help="Yours: the gain counts from the best.")
@as_record("placing", Placing, *placing_options)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0),
    default=30.0,
    show_default=True,
    help="How long to search; Ctrl-C ends it with the best so far.",
)
@click.option(
    "--objective",
    default="time",
    show_default=True,
    metavar="NAME",
    help="What is to become small: time (simulated) or a feature, such as max_bytes or hop_bytes.",
)
@click.option(
    "--allocation",
    metavar="FILE",
    help="Nodes that are yours: a number a line, or a CSV with a column node.",
)
@click.option(
    "--fix",
    "fixed",
    multiple=True,
    metavar="TASK=NODE",
    help="A task that stays on its node. May be given several times.",
)
@options.top_option(10)
@options.routed_work_options
@best_option("Keep the best so far here, whole.")
@options.output_record
def command(
    traffic: Traffic,
    mappings: str | None,
    placing: Placing,
    seconds: float,
    objective: str,
    allocation: str | None,
    fixed: tuple[str, ...],
    top: int,
    work: Work,
    best: MappingFile,
    output: Output,
) -> None:
    """Search for a better mapping than those of all strategies, and yours.

    Simulated annealing over the loads of links, FIFOs and receivers finds candidates; the best are
    compared by the objective itself.

    \b
    toruscast search --comm lammps-droplet-128 --torus 4x4x8 --seconds 30 --out best.map
    toruscast search --comm app.prof --torus 8x8x8 --allocation nodes.txt --fix 0=17
    """  # noqa: D301
    from toruscast.training.search import search

    output.check(also={"--out": best.out})
    best.check(placing.hosts)
    application, workload = load_phases(traffic)
    check_sends(workload, traffic.comms[0])
    torus = load_torus(traffic)
    nodes = None if allocation is None else read_allocation(allocation, torus.n_nodes)
    given: list[TaskMapping] = []
    if mappings is not None:
        from toruscast.mapping.formats import read_mappings

        given = read_mappings(mappings, torus, n_tasks=application.comm.n_tasks, **placing.how)
        check_mappings(given, mappings, application.comm, torus)

    def keep(mapping: TaskMapping, _value: float) -> None:
        best.write(mapping, torus, placing.hosts)

    found = search(
        workload,
        torus,
        given,
        seconds=seconds,
        objective=objective,
        nodes=nodes,
        fixed=read_fixed(fixed),
        tasks_per_node=placing.tasks_per_node,
        routing=work.routing,
        seed=work.seed,
        n_jobs=work.jobs,
        better=keep,
    )
    output.write(_content(found), found.table)
    if output.for_people:
        _print(found, top, output, "yours" if given else "tasks in order")
        output.say(best.write(found.mapping, torus, placing.hosts))


def _content(found: Found) -> dict[str, Any]:
    return {
        "objective": found.objective,
        "best": found.mapping.name,
        "node": found.mapping.node.tolist(),
        "value": found.value,
        "given": found.given,
        "gain": found.gain,
        "bound": found.bound,
        "proposals": found.proposals,
        "interrupted": found.interrupted,
        "compared": records(found.table),
    }


def _print(found: Found, top: int, output: Output, given: str) -> None:
    is_time = found.objective == "time"

    def shown(value: float) -> str:
        return f"{1e6 * value:.2f} us" if is_time else f"{value:.6g}"

    say = output.console().print
    how = "simulated" if is_time else "computed"
    say(f"best: {found.mapping.name}, {found.objective} {shown(found.value)} ({how})")
    say(f"{given}: {shown(found.given)}; {found.gain:.1%} less")
    if is_time:
        say(f"no mapping takes less than {shown(found.bound)} (hops, degree, reception)")
    say(f"{found.proposals} changes tried, {len(found.table)} mappings compared:")
    for row in found.table.head(top).itertuples():
        say(f"  {shown(row.value):>14}  {row.mapping}")  # type: ignore[arg-type]
    if found.interrupted:
        say("interrupted: this is the best so far")
