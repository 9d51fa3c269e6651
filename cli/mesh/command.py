"""``toruscast mesh``: the command."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from .. import options
from ..inputs import load_torus
from ..output import Output
from ..records import Traffic, Work, as_record
from ..reporting import check_page, report_option, write_page
from .files import check_files, write_files
from .options import Step, step_options
from .report import content, show

if TYPE_CHECKING:
    from toruscast.mapping import Torus
    from toruscast.mapping.hlo import HloStep

_STAGES = {"layouts": "Laying out", "simulations": "Simulating"}


@click.command("mesh")
@as_record(
    "traffic",
    Traffic,
    click.option("--torus", required=True, metavar="TORUS", help=options.TORUS_HELP),
    options.network_option,
)
@as_record("step", Step, step_options)
@click.option(
    "--top",
    type=click.IntRange(1, 100),
    default=5,
    show_default=True,
    metavar="N",
    help="Layouts to list.",
)
@click.option(
    "--write",
    "files",
    multiple=True,
    metavar="[FORM=]FILE",
    help="Write the best layout: numbers of the devices in mesh shape as .json, .npy or a JAX "
    "program (.py); neuron=FILE, the device of each rank on a line; or as any format of mappings, "
    "such as .map, vcoord=FILE or tt-rank-bindings=FILE. May be given several times.",
)
@options.working_options
@report_option
@options.output_record
def command(
    traffic: Traffic,
    step: Step,
    top: int,
    files: tuple[str, ...],
    work: Work,
    report: str | None,
    output: Output,
) -> None:
    """Rank the ways to lay the axes of a sharded model over a torus.

    Axes get pieces of the torus's dimensions and walk them line by line, as a snake, round a loop
    or folded. Times are of what is sent on the busiest links; the fastest few are simulated.

    \b
    toruscast mesh --torus tpu_v5p:4x4x8 --axes data=8,fsdp=4,tensor=4 \\
        --traffic tensor:allreduce:64MB,fsdp:allgather:32MB,data:allreduce:1GB
    toruscast mesh --torus tpu_v6e:16x16 --axes data=64,tensor=4 \\
        --traffic tensor:exchange:4MB,data:exchange:4MB --write mesh.py
    toruscast mesh --torus tpu_v5e:4x4 --hlo step.hlo.txt
    """  # noqa: D301
    from toruscast.mapping.formats import read_mapping
    from toruscast.mapping.formats.mappings.devices import read_devices
    from toruscast.training.mesh import mesh

    if (step.sends is None) == (step.hlo is None):
        raise click.UsageError("one of --traffic and --hlo is needed")
    if step.axes is None and step.hlo is None:
        raise click.UsageError("--traffic needs --axes")
    targets = check_files(files, output, report)
    check_page(report)
    sends = step.sends or _program(step.hlo or "", output)
    torus = _devices_of(load_torus(traffic), step, sends)
    with output.progress("Laying out") as move:
        answer = mesh(
            torus,
            step.axes,
            sends,
            devices=None if step.devices is None else read_devices(step.devices, torus),
            compare=None if step.compare is None else read_mapping(step.compare, torus),
            overlap=step.order == "overlap",
            top=top,
            n_jobs=work.jobs,
            progress=lambda stage, done, total: move(done, total, _STAGES[stage]),
        )
    write_page(answer, report)
    output.write(content(answer), answer.lines())
    advice = write_files(answer, targets)
    if output.for_people:
        show(answer, output)
        for _, path in targets:
            how = f": {advice[path]}" if advice.get(path) else ""
            output.say(f"the best layout is in {path}{how}")
        if not targets:
            output.say("--write mesh.py writes the mesh for JAX.")


def _devices_of(torus: Torus, step: Step, sends: str | HloStep) -> Torus:
    """Make a node of each device of a chip, where the mesh counts them."""
    from toruscast.mapping.mesh import parse_axes
    from toruscast.mapping.mesh.devices import chips_as_devices

    n = parse_axes(step.axes or "").n_tasks if isinstance(sends, str) else sends.n_devices
    return chips_as_devices(torus, n, step.devices_per_chip)


def _program(path: str, output: Output) -> HloStep:
    """Read a compiled program; say what of it is left out."""
    from toruscast.mapping.formats.hlo import read_hlo

    program = read_hlo(path)
    if program.left_out:
        names = ", ".join(program.left_out[:5])
        output.message(f"{path}: not counted, their sizes differ from run to run: {names}")
    return program
