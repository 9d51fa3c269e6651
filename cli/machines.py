"""``toruscast machines`` and ``toruscast calibrate``: known machines, and constants of new ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import click

import toruscast as tc
from toruscast import answers
from toruscast._slow import pandas as pd
from toruscast.answers.table import Column, Table
from toruscast.files import check_target
from toruscast.mapping.network import RULES

from .options import (
    MEASURED_HELP,
    TorusOptions,
    TrafficOptions,
    argument,
    multi_option,
    option,
    sub_command,
    times_option,
)
from .output import Output
from .problem import load_application

if TYPE_CHECKING:
    from toruscast.decision.calibration import Calibration
    from toruscast.mapping import Omission

_MACHINE_COLUMNS = [
    Column("machine", kind="name"),
    Column("what"),
    Column("torus", "such as", "name"),
    Column("nodes", kind="count", priority=2),
]
_MACHINE_NOTES = (
    "A name without sizes has those in the table. 'toruscast machines NAME' lists the sources.",
    "Any torus: --torus 8x8x8, or 8x8x8m for a mesh in the last dimension.",
)


@dataclass(frozen=True)
class _MachineArguments:
    name: str | None = argument("[NAME]")


@sub_command("machines")
def command(arguments: _MachineArguments, output: Output) -> None:
    """List the machines that --torus accepts, or describe one with its sources.

    Give a machine by its name, with or without sizes. On machines whose site or job decides which
    dimensions wrap, an m after a size makes that dimension a mesh. On others, the sizes decide.

    \b
    toruscast machines
    toruscast machines tpu_v6e:8x16
    toruscast rank --comm lammps-lj-64 --torus bluegene_q:64
    """  # noqa: D301
    output.check()
    if arguments.name is None:
        chosen = [(known, tc.Machine.from_name(known)()) for known in tc.machines.names()]
    else:
        torus = tc.machines.torus_from_text(arguments.name)
        chosen = [(torus.name, torus)]
    rows = [_describe_machine(name, torus) for name, torus in chosen]
    frame = pd.DataFrame(rows).drop(columns=["about", "sources"])
    if arguments.name is not None:
        answer = _answer_machine(rows[0], chosen[0][1], Table(frame, ()))
    else:
        head, table = f"{len(rows)} machines", Table(frame, _MACHINE_COLUMNS)
        answer = answers.blocks.table_answer(head, table, below=_MACHINE_NOTES)
    output.write_answer(replace(answer, content={"machines": rows}))


def _describe_machine(name: str, torus: tc.Torus) -> dict[str, Any]:
    """Return the JSON entries of a machine."""
    machine, axes = tc.Machine.from_name(name), zip(torus.axes, torus.wrap, strict=True)
    return {
        "machine": name,
        "torus": str(torus).replace(" ", ":"),
        "nodes": torus.n_nodes,
        "what": machine.title,
        "link_GBps": "/".join(f"{rate / 1e9:g}" for rate in dict.fromkeys(torus.bandwidth)),
        "wraps": "".join(axis if wraps else "-" for axis, wraps in axes),
        "about": machine.about,
        "sources": [asdict(source) for source in machine.sources],
    }


def _answer_machine(row: dict[str, Any], torus: tc.Torus, table: Table) -> answers.blocks.Answer:
    """Return the answer that describes one machine with its sources."""
    network = torus.network
    bandwidths = ", ".join(
        f"{axis} {rate / 1e9:g}" for axis, rate in zip(torus.axes, torus.bandwidth, strict=True)
    )
    dimensions = ", ".join(
        f"{axis} {size} ({'ring' if wraps else 'line'})"
        for axis, size, wraps in zip(torus.axes, torus.shape, torus.wrap, strict=True)
    )
    notes = [
        f"{torus.n_nodes:,} nodes, {torus.n_existing_links:,} directed links",
        f"dimensions: {dimensions}",
        f"link bandwidth in each direction, GB/s: {bandwidths}",
        f"packets of {network.payload} + {network.header} bytes, "
        f"{network.hop_latency * 1e9:g} ns per hop, {network.fifos} injection FIFOs, "
        f"{network.memory_bandwidth / 1e9:g} GB/s into memory",
    ]
    if network.start:
        notes.append(f"{network.start * 1e6:g} us to start a transfer")
    sources = [
        f"{', '.join(source.of)}. {source}".replace("`", "")
        for source in tc.Machine.from_name(torus.name).sources
    ]
    about = [row["about"].replace("`", "")] if row["about"] else []
    head = f"{row['torus']}: {row['what']}"
    return answers.blocks.table_answer(head, table, notes=notes, below=[*about, *sources])


@dataclass(frozen=True)
class _CalibrateOptions:
    files: tuple[str, ...] = argument("FILE...", nargs=-1)
    torus: str = option(TorusOptions.TORUS, "TORUS", required=True, group="Machine")
    between: tuple[int, int] = option(
        "Nodes of the two processes, if the files do not contain them.",
        "A B",
        default=(0, 1),
        type=click.Tuple([int, int]),
        group="Input",
    )
    check: bool = option("Hold out every fifth time and predict it.", default=False)
    target: str | None = option("Write the machine file.", "FILE.toml", "--write", group="Output")
    comm: tuple[str, ...] = multi_option(
        "Communication graph of a program that ran with --mappings. Its times show how probable "
        "networks with other rules are; microbenchmarks do not show this.",
        "FILE|NAME",
        group="Input",
        needs=("mappings",),
    )
    mappings: str | None = option(MEASURED_HELP, "FILE|FOLDER", needs=("runs",), group="Input")
    runs: str | None = times_option("Measured times of --mappings", needs=("comm",))


@sub_command("calibrate")
def calibrate(options: _CalibrateOptions, output: Output) -> None:
    """Fit the network constants of a machine to microbenchmarks.

    Reads the output of OSU's latency, bandwidth and message-rate tests, IMB and nccom-test, and a
    CSV of source,destination,bytes,time. The hop latency needs times over several distances.

    With --comm, --mappings and --times, a second table weights networks with other rules (the FIFO
    of a message, the order in which a node sends, flows) by how well they predict the times. The
    machine file then marks the rules as unknown, so predictions are means over these networks.

    \b
    toruscast calibrate times.csv --torus tpu_v5p:4x4x4 --check --write mine.toml
    toruscast calibrate times.csv --torus 8x8 --comm app.goal --mappings maps/ --times runs.csv
    """  # noqa: D301
    target = options.target
    output.check({"--write": target})
    if target is not None:
        check_target(target)
    torus = tc.torus(options.torus)
    fit = tc.calibrate(options.files, torus, between=options.between, check=options.check)
    omitted: Sequence[Omission] | None = None
    if options.runs is not None:
        workload = load_application(TrafficOptions(comms=options.comm)).workload
        omitted = workload.omitted
        fit = _weight_networks(fit, workload, options)
    if target is not None:
        fit.write(target)
    output.write_answer(answers.calibration.answer(fit, file=target, omitted=omitted))


def _weight_networks(
    fit: Calibration, workload: tc.Workload, options: _CalibrateOptions
) -> Calibration:
    """Return the fit with its rules marked as unknown, and a probability for each set of rules."""
    torus = fit.torus.with_network(unknown_rules=RULES)
    mappings = tc.read_mappings(options.mappings or "", torus)
    networks = tc.rank(workload, torus, mappings, times=options.runs).networks
    return replace(fit, torus=torus, networks={} if networks is None else networks.weights)
