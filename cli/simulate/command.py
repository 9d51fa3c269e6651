"""``toruscast simulate``: one mapping or many, packet by packet or as flows."""

from __future__ import annotations

import toruscast as tc
from toruscast import answers
from toruscast.units import part_of
from toruscast.wording import printable

from ..inputs import load_application, load_mapping, load_mappings, load_torus
from ..options import Traffic, Work, sub_command
from ..output import write_text
from ..phrases import Setting, occupancy
from ..slow import reasons, simulation_trace
from .files import check_result_folder, inside, write_folder
from .many import OF_PACKETS, SimulationOptions, rank_flows, rank_packets
from .options import (
    Details,
    OneOrMany,
    Packets,
    SimulationOutput,
    check_interval,
    read_watch,
)


@sub_command("simulate")
def command(
    traffic: Traffic,
    which: OneOrMany,
    packets: Packets,
    work: Work,
    details: Details,
    output: SimulationOutput,
) -> None:
    """Simulate mappings packet by packet: what takes one its time, or many ranked by time.

    Of one mapping, --csv has one row that sums it up, --links one row for each link, --out has
    everything. With many mappings, --csv has one row for each. With --flows, messages that use a
    link at the same time share it, as connections do, and no packets are made.

    \b
    toruscast simulate --comm lammps-lj-64 --torus 4x4x4 --mapping identity --out run
    toruscast simulate --comm app.edges --torus 8x8x8 --mappings maps/ --csv times.csv
    toruscast simulate --flows --comm lammps-salt-64 --torus 4x4x4 --candidates 84
    """  # noqa: D301
    which.check(packets)
    output.check({"--trace": details.trace}, inside(details.out))
    if details.out is not None:
        check_result_folder(details.out)
    every = details.every()
    application = load_application(traffic)
    torus = load_torus(traffic, OF_PACKETS if packets.flows else ())
    setting = Setting(application, traffic, torus)
    workload = application.workload
    if which.mapping is None:
        several = load_mappings(workload, torus, which, work.seed)
    else:
        several = [load_mapping(workload, torus, which.mapping, which, work.seed)]
    if packets.flows:
        rank_flows(setting, several, packets.flow_error, work.seed, work.jobs, which.top, output)
    elif which.mapping is None:
        how = SimulationOptions(
            work.routing, packets.coarsening or 1, packets.error, packets.repeat, work.seed
        )
        rank_packets(setting, several, how, work.jobs, which.top, output)
    else:
        _simulate_one(setting, several[0], packets, work, details, every, output)


def _simulate_one(
    setting: Setting,
    mapping: tc.TaskMapping,
    packets: Packets,
    work: Work,
    details: Details,
    every: float | None,
    output: SimulationOutput,
) -> None:
    """Simulate a mapping, and write all that is wanted of it."""
    workload, torus = setting.application.workload, setting.torus
    watched = read_watch(details.watch, workload)
    if every is not None:
        least = reasons.explain(workload, torus, mapping, routing=work.routing).lower_bound
        check_interval(every, least, torus)
    with output.progress("Simulating", count=part_of("packet-hops")) as progress:
        result = tc.simulate(
            workload,
            torus,
            mapping,
            routing=work.routing,
            coarsening=packets.coarsening or 1,
            error=packets.error,
            iterations=packets.repeat,
            seed=work.seed,
            interval=every,
            watch=watched,
            progress=progress,
        )
    why = reasons.explain(workload, torus, mapping, routing=work.routing, simulation=result)
    in_words = f"{setting.in_words()}; mapping {printable(mapping.name)}, {occupancy([mapping])}"
    found = answers.simulation.answer(result, why, setting=f"{in_words}; {work.routing} routing.")
    more = {
        **setting.describe(),
        "routing": work.routing,
        "tasks_per_node": mapping.tasks_per_node,
        "seed": work.seed,
    }
    output.deliver(found, more)
    if details.trace is not None:
        simulation_trace.write_trace(result, details.trace)
    if output.links_path is not None or details.out is not None:
        named = answers.simulation.labelled(result.links(), torus)
        if output.links_path is not None:
            write_text(named.to_csv(lineterminator="\n"), output.links_path)
        if details.out is not None:
            write_folder(details.out, result, named, {**more, **found.content})
