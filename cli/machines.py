"""``toruscast machines`` and ``toruscast calibrate``: known machines, and constants of another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import click

import toruscast as tc
from toruscast import answers
from toruscast._slow import pandas as pd
from toruscast.answers.table import Column, Table, records
from toruscast.files import check_target
from toruscast.text import change, percent

from .options import TIMED, TorusOptions, Traffic, argument, option, sub_command, times_option
from .output import Output
from .problem import load_application

if TYPE_CHECKING:
    from toruscast.decision.calibration import Calibration
    from toruscast.mapping import Omission


@dataclass(frozen=True)
class MachineName:
    """A machine of which all is shown."""

    name: str | None = argument("[NAME]")


@sub_command("machines")
def machines(which: MachineName, output: Output) -> None:
    """List the machines that --torus knows; with a NAME, all that is known of one.

    A machine is typed as its name, alone or with sizes. An m after a size makes that dimension a
    mesh, where the site or the job decides what wraps; other machines decide that by the sizes.

    \b
    toruscast machines
    toruscast machines tpu_v6e:8x16
    toruscast rank --comm lammps-lj-64 --torus bluegene_q:64
    """  # noqa: D301
    output.check()
    if which.name is None:
        chosen = [(known, tc.Machine.from_name(known)()) for known in tc.machines.names()]
    else:
        torus = tc.machines.torus_from_text(which.name)
        chosen = [(torus.name, torus)]
    rows = [_row(known, torus) for known, torus in chosen]
    frame = pd.DataFrame(rows).drop(columns=["about", "sources"])
    if which.name is not None:
        shown = _one(rows[0], chosen[0][1], Table(frame, ()))
    else:
        shown = answers.blocks.of_table(
            f"{len(rows)} machines", Table(frame, _COLUMNS), below=_NOTES
        )
    output.deliver(replace(shown, content={"machines": rows}))


def _row(name: str, torus: tc.Torus) -> dict[str, Any]:
    """Return what programs get to know of a machine."""
    known = tc.Machine.from_name(name)
    return {
        "machine": name,
        "torus": str(torus).replace(" ", ":"),
        "nodes": torus.n_nodes,
        "what": known.title,
        "link_GBps": "/".join(f"{rate / 1e9:g}" for rate in dict.fromkeys(torus.bandwidth)),
        "wraps": "".join("-" if not w else a for a, w in zip(torus.axes, torus.wrap, strict=True)),
        "about": known.about,
        "sources": [asdict(source) for source in known.sources],
    }


_COLUMNS = [
    Column("machine", kind="name"),
    Column("what", priority=0),
    Column("torus", "such as", "label"),
    Column("nodes", kind="count"),
]
_NOTES = (
    "The name alone means the sizes shown. 'toruscast machines NAME' says where the numbers "
    "come from.",
    "Any torus: --torus 8x8x8, or 8x8x8m, a mesh in the last.",
)


def _one(row: dict[str, Any], torus: tc.Torus, table: Table) -> answers.blocks.Answer:
    network = torus.network
    rates = ", ".join(
        f"{axis} {rate / 1e9:g}" for axis, rate in zip(torus.axes, torus.bandwidth, strict=True)
    )
    kinds = (
        f"{axis} {size} ({'ring' if ring else 'line'})"
        for axis, size, ring in zip(torus.axes, torus.shape, torus.wrap, strict=True)
    )
    notes = [
        f"{torus.n_nodes:,} nodes, {torus.n_existing_links:,} directed links",
        f"dimensions: {', '.join(kinds)}",
        f"GB/s of a link each way: {rates}",
        f"packets of {network.payload} + {network.header} bytes, "
        f"{network.hop_latency * 1e9:g} ns a hop, {network.fifos} injection queues, "
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
    return answers.blocks.of_table(head, table, notes=notes, below=[*about, *sources])


@dataclass(frozen=True)
class Benchmarks:
    """Times of microbenchmarks, and what becomes of them."""

    files: tuple[str, ...] = argument("FILE...", nargs=-1)
    torus: str = option(TorusOptions.TORUS, "TORUS", required=True, group="Machine")
    between: tuple[int, int] = option(
        "Nodes of the two processes, where a file does not say.",
        "A B",
        default=(0, 1),
        type=click.Tuple([int, int]),
        group="Input",
    )
    check: bool = option("Hold out every fifth time and predict it.", default=False)
    target: str | None = option("Write the machine file.", "FILE.toml", "--write", group="Output")


@dataclass(frozen=True)
class MeasuredProgram:
    """A program, its mappings and their times."""

    GROUP: ClassVar = "Input"
    comm: tuple[str, ...] = option(
        "Communication graph of a program that ran under --mappings: its times weigh the rules "
        "that no microbenchmark tells.",
        "FILE|NAME",
        default=(),
        needs=("mappings",),
    )
    mappings: str | None = option(TIMED, "FILE|FOLDER", needs=("runs",))
    runs: str | None = times_option("Measured times of --mappings", needs=("comm",))


@sub_command("calibrate")
def calibrate(times: Benchmarks, program: MeasuredProgram, output: Output) -> None:
    """Find the constants of a machine's network from microbenchmarks.

    Reads what OSU's latency, bandwidth and message-rate tests, IMB and nccom-test print,
    and a CSV of source,destination,bytes,time. Times over several distances tell the time a hop.

    With --comm, --mappings and --times the second table weighs networks of other rules (which FIFO
    a message takes, how a node feeds its messages, flows) by what they say of the mappings. The
    machine file then says that the rules are unknown: forecasts are means over these networks.

    \b
    toruscast calibrate times.csv --torus tpu_v5p:4x4x4 --check --write mine.toml
    toruscast calibrate times.csv --torus 8x8 --comm app.goal --mappings maps/ --times runs.csv
    """  # noqa: D301
    target = times.target
    output.check({"--write": target})
    if target is not None:
        check_target(target)
    torus = tc.torus(times.torus)
    found = tc.calibrate(times.files, torus, between=times.between, check=times.check)
    weights: dict[str, float] = {}
    omitted: Sequence[Omission] | None = None
    if program.runs is not None:
        workload = load_application(Traffic(comms=program.comm)).workload
        omitted = workload.omitted
        found, weights = _weighed(found, workload, program)
    if target is not None:
        found.write(target)
    constants = records(found.table)
    notes = [f"{note[0].upper()}{note[1:]}." for note in found.notes]
    notes += [
        f"Outlier: {row['place']}, {change(row['error'])}." for row in records(found.outliers)
    ]
    if times.check and len(found.check):
        error = found.check.abs()
        notes.append(
            f"Held out: {len(error)} times, off by {percent(error.median(), 1)} in the median and "
            f"{percent(error.max(), 1)} at most."
        )
    if target is not None:
        notes.append(f"The machine file is {target}: --torus {target}")
    output.deliver(
        answers.blocks.of_table(
            f"The network of {torus}, from {len(found.rows)} measured times",
            Table(found.table, _CONSTANTS),
            *([_likely(weights)] if weights else []),
            below=notes,
            omitted=omitted,
            content={
                "constants": constants,
                "rows": records(found.rows),
                "notes": list(found.notes),
                "networks": weights,
            },
        )
    )


def _weighed(
    found: Calibration, workload: tc.Workload, program: MeasuredProgram
) -> tuple[Calibration, dict[str, float]]:
    """Return how likely networks of other rules are, and the machine without rules of its own."""
    torus = found.torus.with_network(rules="unknown")
    mappings = tc.read_mappings(program.mappings or "", torus)
    said = tc.rank(workload, torus, mappings, times=program.runs).networks
    return replace(found, torus=torus), {} if said is None else said.weights


_CONSTANTS = [
    Column("constant", kind="name"),
    *(
        Column(name, words, "general", 4)
        for name, words in (("value", ""), ("low", "from"), ("high", "to"))
    ),
    Column("unit", kind="label"),
    Column("source", "source"),
]


def _likely(weights: dict[str, float]) -> Table:
    frame = pd.DataFrame(weights.items(), columns=["network", "probability"])
    frame = frame.sort_values("probability", ascending=False, kind="stable")
    return Table(frame, [Column("network", kind="name"), Column("probability", kind="share")])
