"""``python -m studies``: run the studies, and simulate their samples."""

from __future__ import annotations

import os
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from toruscast import InputError
from toruscast.cli.app import CONTEXT_SETTINGS, Program
from toruscast.cli.progress import show_progress
from toruscast.training import read_samples

from . import SAMPLES, STUDIES
from .page import target_table
from .real_mpi.live import SETUPS
from .run import run
from .sc13 import plan
from .study import Inputs

NEEDS = {
    "samples": "simulated samples",
    "data": "measurements (--data)",
    "program": "another program",
    "nothing": "no other files",
}
_jobs = click.option(
    "--jobs",
    type=click.IntRange(1),
    default=os.cpu_count() or 1,
    show_default="all cores",
    help="Processes that work at the same time.",
)
_quiet = click.option("-q", "--quiet", is_flag=True, help="Do not report the progress.")


@click.group("python -m studies", cls=Program, context_settings=CONTEXT_SETTINGS)
def command() -> None:
    """Repeat the published experiments, or simulate their samples again.

    \b
    python -m studies list
    python -m studies run all --out results --data measurements
    python -m studies build --out samples.parquet --only "2D Halo"
    """  # noqa: D301


@command.command("list")
def list_studies() -> None:
    """List the studies, what they need, and the sources and paths of their measurements."""
    console = Console(soft_wrap=True)
    shown = Table("name", "what is repeated", "needs")
    for name, study in STUDIES.items():
        shown.add_row(name, study.title, NEEDS[study.needs])
    console.print(shown)
    for study in STUDIES.values():
        for source in study.sources:
            console.print(f"{study.name}: {source}", markup=False)
        for pattern in study.files:
            console.print(f"    read from DIR/{pattern}", markup=False)


@command.command("build")
@click.option(
    "--out",
    metavar="FILE.parquet",
    help="Table of samples, from which a stopped run resumes.",
)
@click.option(
    "--only",
    multiple=True,
    metavar="TEXT",
    help="Simulate only blocks whose name contains this text. May be given several times.",
)
@click.option("--dry-run", is_flag=True, help="List the blocks and stop.")
@_jobs
@_quiet
def build(out: str | None, only: tuple[str, ...], dry_run: bool, jobs: int, quiet: bool) -> None:
    """Simulate the samples of the study sc13, which takes hours of processor time.

    \b
    python -m studies build --dry-run
    python -m studies build --out samples.parquet --only "2D Halo 8 B" --only pF3D
    """  # noqa: D301
    if out is None and not dry_run:
        raise click.UsageError("expected --out FILE.parquet, or --dry-run")
    if out is not None and not out.endswith(".parquet"):
        raise InputError("samples are written as Parquet", file=out, expected="FILE.parquet")
    chosen = _chosen_blocks(only)
    if dry_run or out is None:
        _print_blocks(chosen)
        return
    for number, block in enumerate(chosen, start=1):
        if not quiet:
            click.echo(f"block {number} of {len(chosen)}: {block.label}", err=True)
        with show_progress("Simulating") as progress:
            plan.build(out, block, n_jobs=jobs, progress=progress)
    origin = read_samples(out).attrs["provenance"]
    hours = sum(origin.get("processor_seconds", {}).values()) / 3600
    click.echo(f"{out} has {origin['n_samples']} samples ({hours:.3g} processor hours).")


def _chosen_blocks(only: tuple[str, ...]) -> tuple[plan.Block, ...]:
    """Return the blocks whose names contain one of the texts, or all blocks without a text."""
    blocks = plan.blocks()
    wanted = [" ".join(text.lower().split()) for text in only]
    for text, given in zip(wanted, only, strict=True):
        if not text or not any(text in block.label.lower() for block in blocks):
            example = f"part of a name such as {blocks[0].label}"
            raise InputError("no such block", found=given or "nothing", expected=example)
    return tuple(b for b in blocks if not wanted or any(text in b.label.lower() for text in wanted))


def _print_blocks(blocks: tuple[plan.Block, ...]) -> None:
    shown = Table("block", "mappings", "packets in one", "iterations")
    for block in blocks:
        numbers = (block.n_mappings, block.coarsening, block.iterations)
        shown.add_row(block.label, *map(str, numbers))
    Console(soft_wrap=True).print(shown)
    click.echo(f"{len(blocks)} blocks, {sum(block.n_mappings for block in blocks)} samples.")


@command.command("run")
@click.argument("names", nargs=-1, required=True, metavar="NAME...|all")
@click.option("--out", required=True, metavar="DIR", help="Folder for the results.")
@click.option("--data", metavar="DIR", help="Folder of the public measurements.")
@click.option(
    "--samples",
    metavar="FILE.parquet",
    default=str(SAMPLES),
    show_default="those of the repository",
    help="Simulated samples.",
)
@click.option(
    "--live",
    multiple=True,
    type=click.Choice(list(SETUPS)),
    default=("short",),
    show_default=True,
    help="Setups that real_mpi_live measures: three minutes for short, half an hour for others.",
)
@_jobs
@_quiet
def run_studies(
    names: tuple[str, ...],
    out: str,
    data: str | None,
    samples: str,
    live: tuple[str, ...],
    jobs: int,
    quiet: bool,
) -> int:
    """Run studies, write pages, tables and figures, and print which targets are reached.

    DIR then contains README.md, NAME.md, tables/NAME/*.csv, figures/*.svg and findings.json.

    \b
    python -m studies run all --out results --data measurements
    """  # noqa: D301
    if data is not None and not Path(data).is_dir():
        raise InputError("no such folder", file=data, expected="--data with the measurements")
    given = None if data is None else Path(data)
    inputs = Inputs(Path(samples), given, jobs, Path(out) / "work", live)
    findings, left_out = run(names, Path(out), inputs, STUDIES, quiet)
    console = Console(soft_wrap=True)
    for name, found in findings.items():
        figures = target_table(found)
        shown = Table("what", "published", "target", "reached", "met", title=name)
        for row in figures.drop(columns="part").itertuples(index=False):
            shown.add_row(*row)
        if len(figures):
            console.print(shown)
    console.print(f"Pages, tables and figures: {Path(out) / 'README.md'}", markup=False)
    return 1 if any(why.startswith("failed") for why in left_out.values()) else 0
