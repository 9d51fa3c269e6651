"""``toruscast calibrate``: a machine file from microbenchmarks."""

from __future__ import annotations

from dataclasses import dataclass

import click

import toruscast as tc
from toruscast import answers

from .options import TorusOptions, argument, option, sub_command
from .output import Output, check_writable, records


@dataclass(frozen=True)
class Times:
    """Measured times, and what becomes of them."""

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


@sub_command("calibrate")
def command(times: Times, output: Output) -> None:
    """Find the constants of a machine's network from microbenchmarks.

    Reads what OSU's latency, bandwidth and message-rate tests, IMB and nccom-test print,
    and a CSV of source,destination,bytes,time. Times over several distances tell the time a hop.

    \b
    toruscast calibrate times.csv --torus tpu_v5p:4x4x4 --check --write mine.toml
    """  # noqa: D301
    target = times.target
    output.check({"--write": target})
    if target is not None:
        check_writable(target)
    torus = tc.parse_torus(times.torus)
    found = tc.calibrate(times.files, torus, between=times.between, check=times.check)
    if target is not None:
        found.write(target)
    constants = records(found.table)
    rows = [
        {
            "constant": row["constant"],
            "value": f"{row['value']:.4g}",
            "from": f"{row['low']:.4g}",
            "to": f"{row['high']:.4g}",
            "unit": row["unit"],
            "source": row["how"],
        }
        for row in constants
    ]
    notes = [f"{note[0].upper()}{note[1:]}." for note in found.notes]
    notes += [f"Outlier: {row['place']}, {row['error']:+.0%}." for row in records(found.outliers)]
    if times.check and len(found.check):
        error = found.check.abs()
        notes.append(
            f"Held out: {len(error)} times, off by {error.median():.1%} in the median and "
            f"{error.max():.1%} at most."
        )
    if target is not None:
        notes.append(f"The machine file is {target}: --torus {target}")
    output.deliver(
        answers.blocks.of_table(
            f"The network of {torus}, from {len(found.rows)} measured times",
            answers.blocks.TableBlock(rows),
            below=notes,
            rows=found.table,
            content={
                "constants": constants,
                "rows": records(found.rows),
                "notes": list(found.notes),
            },
        )
    )
