"""``toruscast simulate``: one mapping or many, packet by packet or as flows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import click

import toruscast as tc
from toruscast import answers
from toruscast.errors import InputError
from toruscast.text import part_of, printable, seconds

from ..mappings import load_mapping, load_mappings
from ..options import (
    MAPPING_HELP,
    ORDERS,
    Amount,
    Candidates,
    Traffic,
    Work,
    mapping_option,
    option,
    refuse,
    sub_command,
    top_option,
)
from ..output import PageOutput, write_text
from ..phrases import Setting, occupancy
from ..slow import reasons, simulation_run, simulation_trace
from ..torus import load_torus, read_time
from ..traffic import load_application
from .files import check_result_folder, inside, write_folder
from .many import OF_PACKETS, rank_flows, rank_packets

_FLOW_ERROR = 0.01


@dataclass(frozen=True)
class OneOrMany(Candidates):
    """One mapping, or many."""

    mapping: str | None = mapping_option(
        f"One mapping, in detail: a file ({MAPPING_HELP}), or a strategy such as identity, "
        "permute-ZYX or random@2."
    )
    candidates: int | Literal["orders"] | None = option(
        "Instead: N mappings from the strategies, of very different quality, or the orders of the "
        "machine's launcher, ranked by time.",
        f"N|{ORDERS}",
        type=Amount(min=1),
    )
    top: int = top_option(10)

    def check(self, packets: Packets) -> None:
        """Raise unless one mapping or many are given, and only what means something there."""
        values = {
            "--mapping": self.mapping,
            "--mappings": self.mappings,
            "--candidates": self.candidates,
        }
        given = [name for name, value in values.items() if value is not None]
        if not given and not packets.flows:
            raise click.UsageError("missing --mapping, or --mappings or --candidates for many")
        if len(given) > 1:
            raise click.UsageError(f"{given[0]} and {given[1]} exclude each other")
        details = ("interval", "out", "trace", "links_path", "report", "figures")
        if packets.flows:
            refuse("without --flows", *details, "coarsening", "repeat", "routing")
        elif self.mapping is None:
            refuse("with --mapping, which simulates one", *details)
        else:
            refuse("with --mappings or --candidates", "top", "jobs")


@dataclass(frozen=True)
class Packets:
    """How messages are sent."""

    GROUP: ClassVar = "Work"
    flows: bool = option(
        "Send flows that share links, in place of packets: gigabytes take no longer than "
        "kilobytes. Routes are in dimension order, and no buffer is ever full.",
        default=False,
        group="Answer",
    )
    coarsening: int | None = option(
        "Let a simulated packet represent up to N real ones: faster, less exact.  [default: 1]",
        "N",
    )
    error: float | None = option(
        "Instead: choose N for a relative error of the time of about E, such as 0.03; with "
        "--flows accept it, 0.01 if not given.",
        "E",
    )
    repeat: int = option(
        "Send everything N times, without a barrier between: a task begins the next time "
        "when what is sent to it has arrived. The time is then the mean of all but the first.",
        "N",
        default=1,
        group="Answer",
    )

    def __post_init__(self) -> None:
        error = self.error
        if error is not None and not (0 < error < 1 or (self.flows and error == 0)):
            raise click.UsageError(f"bad --error: found {error:g}, expected above 0 and below 1")
        if self.coarsening is not None and error is not None and not self.flows:
            raise click.UsageError("--coarsening and --error exclude each other")

    @property
    def flow_error(self) -> float:
        """The relative error that flows may have."""
        return _FLOW_ERROR if self.error is None else self.error


@dataclass(frozen=True)
class Details:
    """What to record, and where it goes."""

    GROUP: ClassVar = "Output"
    interval: str | None = option(
        "Take a snapshot of the links every TIME, such as 5us, for --out and --trace.", "TIME"
    )
    out: str | None = option(
        "Write everything there: messages, tasks, phases, links, FIFOs and time series as "
        "CSV, summary.json, trace.json.",
        "FOLDER",
    )
    trace: str | None = option(
        "Write a timeline to look at in ui.perfetto.dev or chrome://tracing.", "FILE.json"
    )

    def every(self) -> float | None:
        """Return the seconds between two snapshots of the links; None for no snapshots."""
        if self.interval is None:
            return None
        if self.out is None and self.trace is None:
            raise click.UsageError("--interval needs --out or --trace")
        every = read_time(self.interval, "--interval")
        if not 0 < every < float("inf"):
            expected = "a time such as 500ns or 5us"
            raise InputError("bad --interval", found=self.interval, expected=expected)
        return every


@dataclass(frozen=True)
class SimulationOutput(PageOutput):
    """Output that may also be the counters of links."""

    links_path: str | None = option(
        "Write the counters of every link as CSV.", "FILE.csv|-", "--links"
    )


def check_interval(interval: float, least_time: float, torus: tc.Torus) -> None:
    """Raise `InputError` if a run of that time makes more snapshots than memory holds."""
    least = least_time / simulation_run.most_snapshots(torus)
    if interval < least:
        raise InputError(
            "--interval too short for this run",
            found=seconds(interval),
            expected=f"at least {seconds(least)}",
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
        how = {
            "routing": work.routing,
            "coarsening": packets.coarsening or 1,
            "error": packets.error,
            "iterations": packets.repeat,
            "seed": work.seed,
        }
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
