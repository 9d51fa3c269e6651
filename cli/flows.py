"""``toruscast flows``: candidate mappings ranked by a simulation without packets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import click

from toruscast.units import part_of

from . import options
from .inputs import load_application, load_mappings, load_torus
from .output import Output, records
from .phrases import Setting
from .records import Candidates, Traffic, Work
from .timed import Tell, Timed, time_all

if TYPE_CHECKING:
    from toruscast.mapping import TaskMapping, Torus, Workload

# Of the network and the torus; without packets they change nothing.
OF_PACKETS = frozenset(
    (
        "buffer_packets",
        "fifo_packets",
        "deadlock",
        "virtual_channels",
        "arbitration",
        "deterministic_limit",
        "reception_ports",
        "zones",
        "escape",
        "rules",
    )
)
_NO_BUFFERS = (
    "No buffer is ever full: where routers push back on each other, packets take longer "
    "(toruscast simulate)."
)


@click.command("flows")
@options.traffic_options
@options.candidates_options
@click.option(
    "--error",
    type=float,
    default=0.01,
    show_default=True,
    metavar="E",
    help="Accept times that are off by about this part of them; the larger, the faster.",
)
@options.top_option(10)
@options.work_options
@options.output_record
def command(
    traffic: Traffic,
    candidates: Candidates,
    error: float,
    top: int,
    work: Work,
    output: Output,
) -> None:
    """Rank candidate mappings by simulated flows, whatever the messages' length.

    Messages that use a link at the same time share it, as connections do, and no packets are made:
    gigabytes take no longer to simulate than kilobytes. Routes are in dimension order, so there is
    no --routing. No buffer is ever full: where routers push back on each other, packets take
    longer, and 'toruscast simulate' shows by how much.

    \b
    toruscast flows --comm lammps-salt-64 --torus 4x4x4
    toruscast flows --comm app.edges --torus 8x8x8 --mappings maps/ --csv flows.csv
    """  # noqa: D301
    from toruscast.answers.timed import answer, ranked

    if not 0 <= error < 1:
        raise click.UsageError(f"bad --error: found {error:g}, expected from 0 to less than 1")
    output.check()
    application = load_application(traffic)
    workload = application.workload
    host = load_torus(traffic, OF_PACKETS)
    chosen = load_mappings(workload, host, candidates, work.seed)
    with output.progress("Simulating", count=part_of("messages")) as progress:
        found = _fly(workload, host, chosen, error, work.jobs, progress)
    table = ranked(found)
    setting = Setting(application, traffic, host)
    content = {
        **setting.describe(),
        "network": asdict(host.network),
        "error": error,
        "seed": work.seed,
        "ranking": [
            {**row, "phase_times": found[row["mapping"]].phase_times} for row in records(table)
        ],
    }
    output.deliver(
        answer(
            chosen,
            host,
            table,
            found[table["mapping"].iloc[0]].why,
            setting=f"{setting.of(chosen)}; messages flow, in dimension order.",
            content=content,
            error=error,
            top=top,
            dependent=workload.dependent,
            notes=[_NO_BUFFERS],
        )
    )


def _fly(
    workload: Workload,
    torus: Torus,
    mappings: list[TaskMapping],
    error: float,
    jobs: int,
    progress: Callable[[int, int], None],
) -> dict[str, Timed]:
    """Simulate each mapping; progress is told in messages of them all."""
    from toruscast.workers import Task

    sent = sum(int((phase.whole_messages > 0).sum()) for phase in workload)
    time_one = Task(_time_one, workload, torus, error)
    return time_all(mappings, [sent] * len(mappings), time_one, jobs, progress)


def _time_one(
    workload: Workload, torus: Torus, error: float, item: tuple[TaskMapping, Tell]
) -> Timed:
    from toruscast.features.reasons import explain
    from toruscast.routing import time_bounds
    from toruscast.simulation import simulate_flows

    mapping, tell = item
    result = simulate_flows(
        workload, torus, mapping, error=error, progress=lambda done, _: tell(done)
    )
    # Flows have no clock: their bound is exact.
    least = time_bounds(workload, torus, mapping).total
    why = replace(explain(workload, torus, mapping, n=1), lower_bound=least)
    links = why.links
    link, busy = (links["label"].iloc[0], links["busy"].iloc[0]) if len(links) else (None, 0.0)
    # The error accepted may shorten a time, but not below what it takes at least.
    time = max(result.time, why.lower_bound)
    return Timed(time, result.phase_times, why, link, busy)
