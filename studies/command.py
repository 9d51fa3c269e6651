"""``python -m studies``: the published experiments, their samples and their results."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from toruscast.cli import options
from toruscast.cli.app import SETTINGS, Program
from toruscast.cli.output import Output, check_writable
from toruscast.cli.tables import new_table
from toruscast.cli.units import number

if TYPE_CHECKING:
    from .plan import Block

NEEDS = {"samples": "simulated samples", "data": "measurements (--data)"}


@click.group("python -m studies", cls=Program, context_settings=SETTINGS)
def command() -> None:
    """Run the published experiments again, or make their samples anew.

    \b
    python -m studies list
    python -m studies run all --out results --data measurements
    python -m studies build --out samples.parquet --only "2D Halo"
    """  # noqa: D301


@command.command("list")
def list_experiments() -> None:
    """Show each experiment, what it needs, and where its measurements are from and belong.

    \b
    python -m studies list
    """  # noqa: D301
    from . import EXPERIMENTS

    console = Output().console()
    shown = new_table("name", "title", "needs", left=("name", "title", "needs"))
    for name, experiment in EXPERIMENTS.items():
        shown.add_row(name, experiment.title, NEEDS[experiment.needs])
    console.print(shown if EXPERIMENTS else "No experiments.")
    measured = [experiment for experiment in EXPERIMENTS.values() if experiment.sources]
    if measured:
        console.print("\nMeasurements, to be fetched into the folder of --data DIR:", style="bold")
    for experiment in measured:
        for source in experiment.sources:
            console.print(f"{experiment.name}: {source}")
        for pattern in experiment.files:
            console.print(f"    read from DIR/{pattern}")


@command.command("build")
@click.option("--out", metavar="FILE.parquet", help="The table; a run that was stopped goes on.")
@click.option(
    "--only",
    multiple=True,
    metavar="TEXT",
    help="Only blocks whose name contains this, in any case; repeat for more.",
)
@click.option("--dry-run", is_flag=True, help="List the blocks and stop.")
@options.jobs_option
@options.quiet_option
def build_samples(
    out: str | None, only: tuple[str, ...], dry_run: bool, jobs: int, quiet: bool
) -> None:
    """Simulate the samples that the experiments learn from: processor hours for all of them.

    \b
    python -m studies build --dry-run
    python -m studies build --out samples.parquet --only "2D Halo 8 B" --only pF3D
    """  # noqa: D301
    if out is None and not dry_run:
        raise click.UsageError("expected --out FILE.parquet, or --dry-run")
    if out is not None:
        check_writable(out, (".parquet",))
    from . import plan

    chosen = _chosen_blocks(plan.blocks(), only)
    if dry_run or out is None:
        _print_blocks(chosen)
        return
    from toruscast.training import read_samples

    from .progress import progress_of_blocks

    output = Output(quiet=quiet)
    n_samples = 0
    try:
        with progress_of_blocks(output, len(chosen)) as progress:
            for _, table in plan.build(out, chosen, n_jobs=jobs, progress=progress):
                n_samples += len(table)
    except KeyboardInterrupt:
        output.message(f"finished samples are kept beside {out}: the same command goes on")
        raise
    from toruscast.wording import counted

    origin = read_samples(out).attrs["provenance"]
    hours = sum(origin.get("processor_seconds", {}).values()) / 3600
    output.console().print(
        f"{counted(n_samples, 'sample')} of {counted(len(chosen), 'block')} are in {out}, which "
        f"holds {origin['n_samples']} and took {number(hours)} processor hours."
    )


def _label(block: Block) -> str:
    return f"{block.name} on {block.torus}"


def _chosen_blocks(blocks: tuple[Block, ...], only: tuple[str, ...]) -> tuple[Block, ...]:
    """Return the blocks that contain one of the texts; all without a text."""
    from toruscast.errors import InputError

    wanted = [" ".join(text.lower().split()) for text in only]
    for text, given in zip(wanted, only, strict=True):
        if not text or not any(text in _label(block).lower() for block in blocks):
            example = f"part of a name such as {_label(blocks[0])}"
            raise InputError("no such block", found=given or "nothing", expected=example)
    if not wanted:
        return blocks
    return tuple(b for b in blocks if any(text in _label(b).lower() for text in wanted))


def _print_blocks(blocks: tuple[Block, ...]) -> None:
    from toruscast.wording import counted

    console = Output().console()
    shown = new_table(
        "block", "host", "tasks", "mappings", "packets in one", left=("block", "host")
    )
    for block in blocks:
        shown.add_row(
            block.name,
            str(block.torus),
            str(block.n_tasks),
            str(block.n_mappings),
            str(block.coarsening),
        )
    console.print(shown)
    samples = sum(block.n_mappings for block in blocks)
    console.print(f"\n{counted(len(blocks), 'block')}, {counted(samples, 'sample')}.")


@command.command("run")
@click.argument("names", nargs=-1, required=True, metavar="NAME...|all")
@click.option("--out", required=True, metavar="DIR", help="Where everything is written.")
@click.option("--data", metavar="DIR", help="Folder of the public measurements.")
@click.option(
    "--samples",
    metavar="FILE.parquet",
    help="Simulated samples.  [default: those that are shipped]",
)
@options.jobs_option
@options.quiet_option
def run_experiments(
    names: tuple[str, ...],
    out: str,
    data: str | None,
    samples: str | None,
    jobs: int,
    quiet: bool,
) -> int:
    """Run experiments; write tables, figures and a page, and tell which bars are met.

    In DIR: results.md, the page; tables/NAME/*.csv; figures/results/*.svg; findings.json.

    \b
    python -m studies run all --out results
    python -m studies run all --out results --data measurements
    """  # noqa: D301
    from .run import run

    output = Output(quiet=quiet)
    output.check(also={"--out": out})
    return run(names, out, data, samples, jobs, output)
