"""``toruscast calibrate``: a machine file from microbenchmarks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import click

import toruscast as tc
from toruscast import answers
from toruscast._slow import pandas as pd
from toruscast.answers.table import Column, Table, records
from toruscast.files import check_target
from toruscast.text import percent

from .options import TIMED, TorusOptions, Traffic, argument, option, sub_command, times_option
from .output import Output
from .problem import load_application

if TYPE_CHECKING:
    from toruscast.decision.calibration import Calibration


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
    )
    mappings: str | None = option(TIMED, "FILE|FOLDER")
    runs: str | None = times_option("Measured times of --mappings")


@sub_command("calibrate")
def command(times: Benchmarks, program: MeasuredProgram, output: Output) -> None:
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
    if len({bool(program.comm), bool(program.mappings), bool(program.runs)}) > 1:
        raise click.UsageError("--comm, --mappings and --times go together")
    output.check({"--write": target})
    if target is not None:
        check_target(target)
    torus = tc.parse_torus(times.torus)
    found = tc.calibrate(times.files, torus, between=times.between, check=times.check)
    weights: dict[str, float] = {}
    if program.runs is not None:
        found, weights = _weighed(found, program)
    if target is not None:
        found.write(target)
    constants = records(found.table)
    notes = [f"{note[0].upper()}{note[1:]}." for note in found.notes]
    notes += [f"Outlier: {row['place']}, {row['error']:+.0%}." for row in records(found.outliers)]
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
            Table(found.table, _COLUMNS),
            *([_likely(weights)] if weights else []),
            below=notes,
            content={
                "constants": constants,
                "rows": records(found.rows),
                "notes": list(found.notes),
                "networks": weights,
            },
        )
    )


def _weighed(found: Calibration, program: MeasuredProgram) -> tuple[Calibration, dict[str, float]]:
    """Return how likely networks of other rules are, and the machine without rules of its own."""
    torus = found.torus.with_network(rules="unknown")
    workload = load_application(Traffic(comms=program.comm)).workload
    mappings = tc.read_mappings(program.mappings or "", torus)
    said = tc.forecast(workload, torus, mappings, times=program.runs).networks
    return replace(found, torus=torus), {} if said is None else said.weights


_COLUMNS = [
    Column("constant", kind="name"),
    *(
        Column(name, words, "general", 4)
        for name, words in (("value", ""), ("low", "from"), ("high", "to"))
    ),
    Column("unit", kind="label"),
    Column("how", "source"),
]


def _likely(weights: dict[str, float]) -> Table:
    frame = pd.DataFrame(weights.items(), columns=["network", "probability"])
    frame = frame.sort_values("probability", ascending=False, kind="stable")
    return Table(frame, [Column("network", kind="name"), Column("probability", kind="share")])
