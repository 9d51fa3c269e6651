"""``toruscast calibrate``: a machine file from microbenchmarks."""

from __future__ import annotations

import click

from toruscast.answers.tables import new_table, print_table

from . import options
from .output import Output, check_writable, records


@click.command("calibrate")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--torus", required=True, metavar="TORUS", help=options.TORUS_HELP)
@click.option(
    "--between",
    type=(int, int),
    default=(0, 1),
    show_default=True,
    metavar="A B",
    help="Nodes of the two processes, where a file does not say.",
)
@click.option("--check", is_flag=True, help="Hold out every fifth time and predict it.")
@click.option("--write", "target", metavar="FILE.toml", help="Write the machine file.")
@options.output_record
def command(
    files: tuple[str, ...],
    torus: str,
    between: tuple[int, int],
    check: bool,
    target: str | None,
    output: Output,
) -> None:
    """Find the constants of a machine's network from microbenchmarks.

    Reads what OSU's latency, bandwidth and message-rate tests, IMB and nccom-test print,
    and a CSV of source,destination,bytes,time. Times over several distances tell the time a hop.

    \b
    toruscast calibrate times.csv --torus tpu_v5p:4x4x4 --check --write mine.toml
    """  # noqa: D301
    from toruscast.mapping import parse_torus
    from toruscast.training.measured.calibrate import calibrate

    output.check({"--write": target})
    if target is not None:
        check_writable(target)
    found = calibrate(files, parse_torus(torus), between=between, check=check)
    if target is not None:
        found.write(target)
    content = {
        "constants": records(found.table),
        "rows": records(found.rows),
        "notes": list(found.notes),
    }
    output.write(content, found.table)
    if not output.for_people:
        return
    console = output.console()
    table = new_table("constant", "value", "from", "to", "unit", "how", left=("constant", "unit"))
    for row in records(found.table):
        values = (f"{row[key]:.4g}" for key in ("value", "low", "high"))
        table.add_row(row["constant"], *values, row["unit"], row["how"])
    print_table(table, console, 3)
    for note in found.notes:
        console.print(f"{note[0].upper()}{note[1:]}.", soft_wrap=True)
    for row in records(found.outliers):
        console.print(f"Outlier: {row['place']}, {row['error']:+.0%}.", soft_wrap=True)
    if check and len(found.check):
        error = found.check.abs()
        console.print(
            f"Held out: {len(error)} times, off by {error.median():.1%} in the median and "
            f"{error.max():.1%} at most.",
            soft_wrap=True,
        )
    if target is not None:
        console.print(f"The machine file is {target}: --torus {target}", soft_wrap=True)
