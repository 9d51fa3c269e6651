"""``toruscast simulate``: one mapping or many, as packets or as flows."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import click

import toruscast as tc
from toruscast import answers
from toruscast._slow import pandas as pd
from toruscast.answers.table import csv_text
from toruscast.errors import InputError
from toruscast.files import folder_beside
from toruscast.text import part_of, percent, printable, seconds

from .mappings import check_seed, load_mapping, load_mappings
from .options import (
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
from .output import Output, PageOutput, check_folder, write_text
from .problem import Setting, load_setting, occupancy, read_time
from .progress import json_text
from .slow import flows, pool, reasons, routes, simulation_trace, simulator

if TYPE_CHECKING:
    from toruscast._features.reasons import Reasons
    from toruscast.simulation import Simulation
    from toruscast.workers import Task

# Of the network and the torus; without packets they change nothing.
OF_PACKETS = frozenset(
    (
        "buffer_packets",
        "fifo_packets",
        "deadlock",
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
    "(simulate without --flows)."
)
_FLOW_ERROR = 0.01
# The files of a folder of results; those that each has tell whose the folder is.
_TABLES = ("messages", "tasks", "phases", "links", "fifos", "series")
_ALWAYS = ("summary.json", "trace.json")
_FILES = (*(f"{name}.csv" for name in _TABLES), *_ALWAYS)

Tell = Callable[[int], None]
Sent = tuple[dict[str, Any], "Reasons"]
"""A row of the ranking, and what bounds its time."""


def _rank(
    setting: Setting,
    mappings: Sequence[tc.TaskMapping],
    packets: Packets,
    work: Work,
    top: int,
    output: Output,
) -> None:
    """Simulate every mapping, several at once, and write which is fastest."""
    problem = setting.problem
    about: dict[str, Any] = {"error": packets.error, "iterations": packets.repeat}
    about["seed"] = work.seed
    task: Task[Sent]
    if packets.flows:
        what, how = "messages", "messages flow, in dimension order"
        about = {"error": packets.flow_error, "seed": work.seed}
        messages = sum(int((phase.whole_messages > 0).sum()) for phase in problem.workload)
        sizes = [messages] * len(mappings)
        task = pool.Task(_send_flows, problem, packets.flow_error)
    else:
        what, how = "packet-hops", f"{work.routing} routing"
        # Packet-hops as if no packets were merged.
        sizes = [
            packets.repeat * tc.RoutedTraffic(problem, mapping).packet_hops for mapping in mappings
        ]
        task = pool.Task(_send_packets, problem, {"coarsening": packets.coarsening or 1, **about})
        about = {"routing": work.routing, **about}
    with output.progress("Simulating", count=part_of(what)) as progress:
        bar = _Bar(sizes, progress)
        sent: dict[int, Sent] = {}
        items = ((mapping, partial(bar.update, i)) for i, mapping in enumerate(mappings))
        for i, timed in task.each(items, work.jobs):
            sent[i] = timed
            bar.update(i, sizes[i])
    found = [sent[i] for i in range(len(mappings))]
    note = _NO_BUFFERS if packets.flows else _merged(found, packets.error)
    output.deliver(
        answers.simulation.answer_of_many(
            problem,
            mappings,
            found,
            setting=f"{setting.of(mappings)}; {how}.",
            content={**setting.describe(), "network": asdict(problem.torus.network), **about},
            error=about["error"] or 0.0,
            top=top,
            estimated=not packets.flows and routes.ways_are_open(problem),
            note=note,
        )
    )


def _send_packets(
    problem: tc.mapping.MappingProblem, how: Mapping[str, Any], item: tuple[tc.TaskMapping, Tell]
) -> Sent:
    (mapping, tell), torus = item, problem.torus
    result = simulator.simulate_packets(
        problem, mapping, **how, progress=lambda done, _: tell(done * how["coarsening"])
    )
    why = reasons.explain(problem, mapping, n=1, simulation=result)
    busy = result.wire_bytes / torus.link_bandwidth / how["iterations"]
    link = int(busy.argmax())
    row = _row(result.time, torus.link_label(link) if busy[link] else None, float(busy[link]))
    more = {name: getattr(result, name) for name in ("phase_times", "coarsening", "change")}
    return row | more, why


def _send_flows(
    problem: tc.mapping.MappingProblem, error: float, item: tuple[tc.TaskMapping, Tell]
) -> Sent:
    mapping, tell = item
    result = flows.flow_messages(problem, mapping, error=error, progress=lambda done, _: tell(done))
    # Flows have no clock: their bound is exact.
    least = tc.routing.time_bounds(problem, mapping).total
    why = replace(reasons.explain(problem, mapping, n=1), lower_bound=least)
    links = why.links
    link, busy = (links["label"].iloc[0], links["busy"].iloc[0]) if len(links) else (None, 0.0)
    # The error accepted may shorten a time, but not below what it takes at least.
    time = max(result.time, why.lower_bound)
    return _row(time, link, busy) | {"phase_times": result.phase_times}, why


def _row(time: float, link: str | None, busy: float) -> dict[str, Any]:
    return {"time": time, "busiest_link": link, "busy_share": busy / time if link else 0.0}


def _merged(found: Sequence[Sent], error: float | None) -> str:
    """How many real packets one represents in the simulations, in a sentence."""
    coarsening = [row["coarsening"] for row, _ in found]
    most = max(coarsening)
    merged = sum(each > 1 for each in coarsening)
    each_one = f"each simulated packet represents up to {most} real ones"
    if merged == len(coarsening):
        return f"{each_one.capitalize()}."
    if error is None:
        return ""
    asked = percent(error, digits=3)
    others = f"coarser ones would miss the error of {asked} asked for, or save little."
    if not merged:
        return f"No packets are merged: {others}"
    return f"In {merged} of {len(coarsening)} simulations {each_one}; in the others {others}"


class _Bar:
    """How much of each mapping is done; in another process than that of the bar it does nothing."""

    def __init__(
        self, sizes: Sequence[int] = (), progress: Callable[[int, int], None] | None = None
    ) -> None:
        self.sizes, self.progress = sizes, progress
        self.done = [0] * len(sizes)

    def update(self, i: int, now: int) -> None:
        if self.progress is not None:
            # What begins again does not go back.
            self.done[i] = max(self.done[i], min(now, self.sizes[i]))
            self.progress(sum(self.done), sum(self.sizes))

    def __reduce__(self) -> tuple[object, ...]:
        return _Bar, ()


def _inside(folder: str | None) -> dict[str, str | None]:
    """Return the folder and the files in it that `write_folder` may write, by name."""
    if folder is None:
        return {}
    inside: dict[str, str | None] = {
        f"{file} of --out": str(Path(folder) / file) for file in _FILES
    }
    return inside | {"--out": folder}


def _check_result_folder(folder: str) -> None:
    """Raise early what `write_folder` would raise after the work."""
    check_folder(folder)
    standing = [name for name in _FILES if (Path(folder) / name).exists()]
    if standing and not set(_ALWAYS).issubset(standing):
        raise InputError(
            "would be replaced",
            file=Path(folder) / standing[0],
            expected="--out with a new folder, or that of an earlier simulation",
        )


def write_folder(
    folder: str, result: Simulation, links: pd.DataFrame, summary: dict[str, Any]
) -> None:
    """Write every table as CSV, ``summary.json`` and ``trace.json``; all of it or nothing.

    Other files of an existing folder are kept. Files of an earlier run are replaced once all new
    ones are written; its time series is removed if this run has none.
    """
    place = Path(os.path.realpath(folder))
    # In the place if it stands, else on the same disk.
    beside = place if place.exists() else place.parent
    with folder_beside(place, beside) as stage:
        for name in _TABLES:
            if name != "series" or any(stretch.snapshots for stretch in result.stretches):
                table = links if name == "links" else getattr(result, name)()
                write_text(csv_text(table), str(stage / f"{name}.csv"))
        simulation_trace.write_trace(result, stage / "trace.json")
        write_text(json_text(summary), str(stage / "summary.json"))
        if not place.exists():
            stage.rename(place)
            return
        written = {path.name for path in stage.iterdir()}
        for name in written:
            (stage / name).replace(place / name)
        for name in set(_FILES) - written:
            (place / name).unlink(missing_ok=True)


@dataclass(frozen=True)
class OneOrMany(Candidates):
    """One mapping, or many."""

    mapping: str | None = mapping_option(
        f"One mapping, in detail: a file ({MAPPING_HELP}), or a strategy such as identity, "
        "permute-ZYX or random@2.",
        excludes=("mappings", "candidates"),
    )
    candidates: int | Literal["orders"] | None = option(
        "Instead: N mappings from the strategies, of very different quality, or the orders of the "
        "machine's launcher, ranked by time.",
        f"N|{ORDERS}",
        type=Amount(min=1),
        excludes=("mappings",),
    )
    top: int = top_option(10)

    def check(self, packets: Packets) -> None:
        """Raise unless one mapping or many are given, and only what means something there."""
        if not (self.mapping or self.mappings or self.candidates or packets.flows):
            raise click.UsageError("missing --mapping, or --mappings or --candidates for many")
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
        excludes=("error",),
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

    @property
    def flow_error(self) -> float:
        """The relative error that flows may have."""
        return _FLOW_ERROR if self.error is None else self.error


@dataclass(frozen=True)
class Details:
    """What to record, and where it goes."""

    GROUP: ClassVar = "Output"
    interval: str | None = option(
        "Take a snapshot of the links every TIME, such as 5us, for --out and --trace.",
        "TIME",
        needs=("out", "trace"),
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
        """Return the seconds between two snapshots of the links; None for none."""
        if self.interval is None:
            return None
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

    For one mapping, --csv has one row with its totals, --links has a row for each link, and --out
    has everything. For many mappings, --csv has a row for each. With --flows, messages that use a
    link at the same time share it, as connections do, and no packets are made.

    \b
    toruscast simulate --comm lammps-lj-64 --torus 4x4x4 --mapping identity --out run
    toruscast simulate --comm app.edges --torus 8x8x8 --mappings maps/ --csv times.csv
    toruscast simulate --flows --comm lammps-salt-64 --torus 4x4x4 --candidates 84
    """  # noqa: D301
    which.check(packets)
    output.check({"--trace": details.trace}, _inside(details.out))
    if details.out is not None:
        _check_result_folder(details.out)
    every = details.every()
    setting = load_setting(
        traffic,
        "deterministic" if packets.flows else work.routing,
        OF_PACKETS if packets.flows else (),
    )
    torus, named = setting.problem.torus, filter(None, [which.mapping])
    is_drawn = not packets.flows and torus.draws_ways
    check_seed(setting.problem, which, *named, others=is_drawn)
    if which.mapping is None:
        several = load_mappings(setting.problem, which, work.seed)
    else:
        several = [load_mapping(setting.problem, which.mapping, which, work.seed)]
    if which.mapping is None or packets.flows:
        _rank(setting, several, packets, work, which.top, output)
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
    problem = setting.problem
    torus = problem.torus
    if every is not None:
        bound = reasons.explain(problem, mapping).lower_bound
        shortest = bound / simulator.max_snapshots(torus)
        if every < shortest:
            raise InputError(
                "--interval too short for this run",
                found=seconds(every),
                expected=f"at least {seconds(shortest)}",
            )
    with output.progress("Simulating", count=part_of("packet-hops")) as progress:
        result = simulator.simulate_packets(
            problem,
            mapping,
            coarsening=packets.coarsening or 1,
            error=packets.error,
            iterations=packets.repeat,
            seed=work.seed,
            interval=every,
            progress=progress,
        )
    why = reasons.explain(problem, mapping, simulation=result)
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
            write_text(csv_text(named), output.links_path)
        if details.out is not None:
            write_folder(details.out, result, named, {**more, **found.content})
