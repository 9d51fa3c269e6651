"""``toruscast simulate``: simulate one mapping or many, with packets or flows."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
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
    CANDIDATE_COUNT,
    MAPPING_HELP,
    ORDERS,
    CandidateOptions,
    TrafficOptions,
    WorkOptions,
    mapping_option,
    option,
    refuse_options,
    sub_command,
    top_option,
)
from .output import Output, check_output_folder, write_text
from .problem import LoadedProblem, Occupancy, load_problem, read_time
from .progress import format_json
from .slow import flows, reasons, routing, simulation_trace, simulator, workers

if TYPE_CHECKING:
    from toruscast._features.reasons import Reasons
    from toruscast.simulation import Simulation
    from toruscast.workers import Task

# Network and torus constants that have no effect on simulated flows.
PACKET_KEYS = (
    "buffer_packets",
    "fifo_packets",
    "deadlock",
    "arbitration",
    "deterministic_limit",
    "reception_ports",
    "zones",
    "escape",
)
_FLOW_NOTE = (
    "Flows have unlimited buffers. If buffers fill up, packets take longer (simulate without "
    "--flows)."
)
# Default relative error of times simulated with flows.
_FLOW_ERROR = 0.01
# Files that --out writes. The last two are always written, so they identify a result folder.
_TABLES = ("messages", "tasks", "phases", "links", "fifos", "series")
_ALWAYS_WRITTEN = ("summary.json", "trace.json")
_FILES = (*(f"{name}.csv" for name in _TABLES), *_ALWAYS_WRITTEN)

ReportProgress = Callable[[int], None]
RankedRow = tuple[dict[str, Any], "Reasons"]
"""A row of the ranking, and the bounds of its time."""


@dataclass(frozen=True)
class _MappingOptions(CandidateOptions):
    mapping: str | None = mapping_option(
        f"One mapping to simulate in detail: a file ({MAPPING_HELP}), or a strategy such as "
        "identity, permute-ZYX or random@2.",
        excludes=("mappings", "candidates"),
    )
    candidates: int | Literal["orders"] | None = option(
        "Rank the N candidate mappings of 'toruscast rank' instead, or the rank orders of the "
        "machine's launcher.",
        f"N|{ORDERS}",
        type=CANDIDATE_COUNT,
        excludes=("mappings",),
    )
    top: int = top_option(10)

    def check(self, packets: _PacketOptions) -> None:
        """Raise if no mapping is given, or if an option would have no effect."""
        if not (self.mapping or self.mappings or self.candidates or packets.flows):
            raise click.UsageError("missing --mapping, or --mappings or --candidates for many")
        single_outputs = ("interval", "out", "trace", "links_path", "report", "figures")
        if packets.flows:
            names = (*single_outputs, "coarsening", "repeat", "routing")
            refuse_options("cannot be used with --flows", *names)
        elif self.mapping is None:
            refuse_options("needs --mapping, which simulates one", *single_outputs)
        else:
            refuse_options("needs --mappings or --candidates", "top", "jobs")


@dataclass(frozen=True)
class _PacketOptions:
    GROUP: ClassVar = "Work"
    flows: bool = option(
        "Simulate flows that share the bandwidth of links, instead of packets. Longer messages "
        "then take no more time to simulate. Routes are in dimension order, and buffers "
        "are unlimited.",
        default=False,
        group="Answer",
    )
    coarsening: int | None = option(
        "Let a simulated packet represent up to N real packets, which is faster and less "
        "accurate.  [default: 1]",
        excludes=("error",),
        rare=True,
    )
    error: float | None = option(
        "Choose N so that the relative error of the time is about E, such as 0.03. With --flows: "
        "the accepted error.  [default with --flows: 0.01]",
        "E",
        rare=True,
    )
    repeat: int = option(
        "Repeat the application N times without a barrier: a task starts the next iteration when "
        "its messages have arrived. The time is the mean of all iterations except the first.",
        default=1,
        group="Answer",
        rare=True,
    )

    def __post_init__(self) -> None:
        error = self.error
        if error is not None and not (0 < error < 1 or (self.flows and error == 0)):
            raise click.UsageError(f"bad --error: found {error:g}, expected above 0 and below 1")

    @property
    def flow_error(self) -> float:
        return _FLOW_ERROR if self.error is None else self.error


@dataclass(frozen=True)
class _RecordOptions:
    GROUP: ClassVar = "Output"
    interval: str | None = option(
        "Record the links every TIME, such as 5us, for --out and --trace.",
        "TIME",
        needs=("out", "trace"),
        rare=True,
    )
    out: str | None = option(
        "Write all results: messages, tasks, phases, links, FIFOs and time series as CSV, "
        "summary.json, trace.json.",
        "FOLDER",
    )
    trace: str | None = option("Timeline for ui.perfetto.dev or chrome://tracing.", "FILE.json")

    def interval_seconds(self) -> float | None:
        """Return --interval in seconds, or None if it is not given."""
        if self.interval is None:
            return None
        interval = read_time(self.interval, "--interval")
        if not 0 < interval < float("inf"):
            expected = "a time such as 500ns or 5us"
            raise InputError("bad --interval", found=self.interval, expected=expected)
        return interval


@dataclass(frozen=True)
class _SimulationOutput(Output):
    links_path: str | None = option("Write the link counters as CSV.", "FILE.csv|-", "--links")


@sub_command("simulate")
def command(
    traffic: TrafficOptions,
    options: _MappingOptions,
    packets: _PacketOptions,
    work: WorkOptions,
    record: _RecordOptions,
    output: _SimulationOutput,
) -> None:
    """Simulate one mapping in detail, or rank many by simulated time.

    For one mapping, --csv has one row with its totals, --links has a row per link, and --out has
    everything. For many mappings, --csv has a row per mapping. With --flows, messages that use a
    link at the same time share its bandwidth, and no packets are simulated.

    \b
    toruscast simulate --comm lammps-lj-64 --torus 4x4x4 --mapping identity --out run
    toruscast simulate --comm app.edges --torus 8x8x8 --mappings maps/ --csv times.csv
    toruscast simulate --flows --comm lammps-salt-64 --torus 4x4x4 --candidates 84
    """  # noqa: D301
    options.check(packets)
    written = {} if record.out is None else {f"{f} of --out": f"{record.out}/{f}" for f in _FILES}
    output.check({"--trace": record.trace}, {**written, "--out": record.out})
    if record.out is not None:
        _check_result_folder(record.out)
    interval = record.interval_seconds()
    if packets.flows:
        loaded = load_problem(traffic, "deterministic", PACKET_KEYS)
    else:
        loaded = load_problem(traffic, work.routing)
    problem = loaded.problem
    names = filter(None, [options.mapping])
    is_drawn = not packets.flows and problem.torus.draws_ways
    check_seed(problem, options, *names, is_drawn=is_drawn)
    if options.mapping is None:
        mappings = load_mappings(problem, options, work.seed)
    else:
        mappings = [load_mapping(problem, options.mapping, options, work.seed)]
    if options.mapping is None or packets.flows:
        _rank_mappings(loaded, mappings, packets, work, options.top, output)
    else:
        _simulate_one(loaded, mappings[0], packets, work, record, interval, output)


def _simulate_one(
    loaded: LoadedProblem,
    mapping: tc.TaskMapping,
    packets: _PacketOptions,
    work: WorkOptions,
    record: _RecordOptions,
    interval: float | None,
    output: Output,
) -> None:
    """Simulate one mapping with packets, and write its answer and result files."""
    problem = loaded.problem
    torus = problem.torus
    if interval is not None:
        lower_bound = reasons.explain(problem, mapping).lower_bound
        shortest = lower_bound / simulator.max_snapshots(torus)
        if interval < shortest:
            found, expected = seconds(interval), f"at least {seconds(shortest)}"
            raise InputError("--interval too short for this run", found=found, expected=expected)
    with output.progress("Simulating", count=part_of("packet-hops")) as progress:
        result = simulator.simulate(
            problem,
            mapping=mapping,
            coarsening=packets.coarsening or 1,
            error=packets.error,
            iterations=packets.repeat,
            seed=work.seed,
            interval=interval,
            progress=progress,
        )
    explanation = reasons.explain(problem, mapping, simulation=result)
    setting = f"{loaded.summary()}; mapping {printable(mapping.name)}, "
    setting += f"{Occupancy([mapping])}; {work.routing} routing."
    answer = answers.simulation.answer(result, explanation, setting=setting)
    metadata = {
        **loaded.describe(),
        "routing": work.routing,
        "tasks_per_node": mapping.tasks_per_node,
        "seed": work.seed,
    }
    output.write_answer(answer, metadata)
    if record.trace is not None:
        simulation_trace.write_trace(result, record.trace)
    if output.links_path is not None or record.out is not None:
        links = answers.simulation.label_links(result.links(), torus)
        if output.links_path is not None:
            write_text(csv_text(links), output.links_path)
        if record.out is not None:
            write_folder(record.out, result, links, {**metadata, **answer.content})


def _rank_mappings(
    loaded: LoadedProblem,
    mappings: Sequence[tc.TaskMapping],
    packets: _PacketOptions,
    work: WorkOptions,
    top: int,
    output: Output,
) -> None:
    """Simulate all mappings on the workers, and write them ranked by time."""
    problem = loaded.problem
    metadata: dict[str, Any]
    task: Task[RankedRow]
    if packets.flows:
        unit, method = "messages", "flows in dimension order"
        metadata = {"error": packets.flow_error, "seed": work.seed}
        n_messages = sum(int((phase.whole_messages > 0).sum()) for phase in problem.workload)
        sizes = [n_messages] * len(mappings)
        task = workers.Task(_simulate_flows, problem, packets.flow_error)
    else:
        unit, method = "packet-hops", f"{work.routing} routing"
        # The bar counts real packets, because coarsening is unknown before the simulation.
        sizes = [
            packets.repeat * tc.RoutedTraffic(problem, mapping).packet_hops for mapping in mappings
        ]
        settings = {"error": packets.error, "iterations": packets.repeat, "seed": work.seed}
        metadata = {"routing": work.routing, **settings}
        settings["coarsening"] = packets.coarsening or 1
        task = workers.Task(_simulate_packets, problem, settings)
    with output.progress("Simulating", count=part_of(unit)) as progress:
        bar = _SummedProgress(sizes, progress)
        rows: dict[int, RankedRow] = {}
        items = ((mapping, partial(bar.update, i)) for i, mapping in enumerate(mappings))
        for i, row in task.each(items, work.jobs):
            rows[i] = row
            bar.update(i, sizes[i])
    ordered = [rows[i] for i in range(len(mappings))]
    note = _FLOW_NOTE if packets.flows else _describe_coarsening(ordered, packets.error)
    network = asdict(problem.torus.network)
    output.write_answer(
        answers.simulation.comparison_answer(
            problem,
            mappings,
            ordered,
            setting=f"{loaded.summary(mappings)}; {method}.",
            content={**loaded.describe(), "network": network, **metadata},
            error=metadata["error"] or 0.0,
            top=top,
            estimated=not packets.flows and routing.has_multiple_routes(problem),
            note=note,
        )
    )


def _simulate_packets(
    problem: tc.mapping.MappingProblem,
    settings: Mapping[str, Any],
    item: tuple[tc.TaskMapping, ReportProgress],
) -> RankedRow:
    """Simulate a mapping with packets; ``item`` has the mapping and a function for progress."""
    (mapping, report), torus = item, problem.torus
    result = simulator.simulate(
        problem,
        mapping=mapping,
        **settings,
        progress=lambda _stage, done, _total: report(done * settings["coarsening"]),
    )
    bounds = reasons.explain(problem, mapping, n=1, simulation=result)
    busy = result.wire_bytes / torus.link_bandwidth / settings["iterations"]
    link = int(busy.argmax())
    label = torus.link_label(link) if busy[link] else None
    row = answers.simulation.result_row(result.time, label, float(busy[link]))
    details = {name: getattr(result, name) for name in ("phase_times", "coarsening", "change")}
    return row | details, bounds


def _simulate_flows(
    problem: tc.mapping.MappingProblem, error: float, item: tuple[tc.TaskMapping, ReportProgress]
) -> RankedRow:
    """Simulate a mapping with flows; ``item`` has the mapping and a function for progress."""
    mapping, report = item
    result = flows.simulate_flows(
        problem, mapping=mapping, error=error, progress=lambda _stage, done, _total: report(done)
    )
    return answers.simulation.flow_result_row(result)


def _describe_coarsening(rows: Sequence[RankedRow], error: float | None) -> str:
    """Return how many real packets each simulated packet represents, and why."""
    coarsening = [row["coarsening"] for row, _ in rows]
    n_coarse = sum(n_packets > 1 for n_packets in coarsening)
    packets = f"each simulated packet represents up to {max(coarsening)} real ones"
    if n_coarse == len(coarsening):
        return f"{packets.capitalize()}."
    if error is None:
        return ""
    reason = f"coarser packets would exceed the error of {percent(error, digits=3)}, or save little"
    if not n_coarse:
        return f"No packets are merged: {reason}."
    return f"In {n_coarse} of {len(coarsening)} simulations {packets}; in the others {reason}."


class _SummedProgress:
    """Progress in messages or hops, summed over mappings. Copies in other processes do nothing."""

    def __init__(
        self, sizes: Sequence[int] = (), progress: Callable[[str, int, int], None] | None = None
    ) -> None:
        self.sizes, self.progress = sizes, progress
        self.done = [0] * len(sizes)

    def update(self, i: int, done: int) -> None:
        if self.progress is not None:
            # Do not move back if the simulation starts again with another coarsening.
            self.done[i] = max(self.done[i], min(done, self.sizes[i]))
            self.progress("messages", sum(self.done), sum(self.sizes))

    def __reduce__(self) -> tuple[object, ...]:
        return _SummedProgress, ()


def _check_result_folder(folder: str) -> None:
    """Raise, before the work starts, if results would replace files that are not results."""
    check_output_folder(folder)
    existing = [name for name in _FILES if (Path(folder) / name).exists()]
    if existing and not set(_ALWAYS_WRITTEN).issubset(existing):
        expected = "--out with a new folder, or the folder of an earlier simulation"
        raise InputError("would be replaced", file=Path(folder) / existing[0], expected=expected)


def write_folder(
    folder: str, result: Simulation, links: pd.DataFrame, summary: dict[str, Any]
) -> None:
    """Write ``summary.json``, ``trace.json`` and every table as CSV, or nothing on an error.

    Files of an earlier run are replaced once all new files are written. If this run has no time
    series, that of an earlier run is removed. All other files in the folder are kept.
    """
    target = Path(os.path.realpath(folder))
    # Write to a folder on the same file system, because files can then be moved to the target.
    with folder_beside(target, target if target.exists() else target.parent) as stage:
        for name in _TABLES:
            if name != "series" or any(stretch.snapshots for stretch in result.stretches):
                table = links if name == "links" else getattr(result, name)()
                write_text(csv_text(table), str(stage / f"{name}.csv"))
        simulation_trace.write_trace(result, stage / "trace.json")
        write_text(format_json(summary), str(stage / "summary.json"))
        if not target.exists():
            stage.rename(target)
            return
        written = {path.name for path in stage.iterdir()}
        for name in written:
            (stage / name).replace(target / name)
        for name in set(_FILES) - written:
            (target / name).unlink(missing_ok=True)
