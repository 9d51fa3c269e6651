"""``toruscast mesh``: the ways to lay the axes of a sharded model over a torus."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from toruscast.answers.tables import new_table, print_table
from toruscast.units import seconds

from . import options
from .inputs import load_torus
from .output import Output, check_writable, records, write_text
from .phrases import check_page, report_option
from .records import F, Traffic, Work, as_record, with_options

if TYPE_CHECKING:
    from toruscast.mapping import Torus
    from toruscast.mapping.hlo import HloStep
    from toruscast.training.mesh import MeshForecast
    from toruscast.training.mesh.placements import MeshPlacement

Order = Literal["in-turn", "overlap"]


@dataclass(frozen=True)
class Step:
    """The axes of the mesh, what a step sends along them, and the devices that there are."""

    axes: str | None = None
    sends: str | None = None
    hlo: str | None = None
    order: Order = "in-turn"
    devices: str | None = None
    devices_per_chip: int | None = None
    compare: str | None = None


def step_options(function: F) -> F:
    """Add them."""
    return with_options(
        function,
        click.option(
            "--axes",
            metavar="NAME=SIZE,...",
            help="Axes of the mesh, the last one varying fastest; with --hlo those that the "
            "groups of the program tell, if not given.",
        ),
        click.option(
            "--traffic",
            "sends",
            metavar="AXIS:COLLECTIVE:SIZE,...",
            help="What a step sends: allreduce, allgather, reduce_scatter, alltoall, permute (to "
            "the next round the axis), pipeline (the last one sends to none) or exchange (with "
            "both neighbours). The size is of the whole buffer. data+fsdp are both axes together; "
            "/ring, /two-way-ring or /bucket behind the collective fix the algorithm; :12 behind "
            "the size is how often a step runs it.",
        ),
        click.option(
            "--hlo",
            "--compile",
            "hlo",
            metavar="FILE",
            help="Instead: the collectives of a compiled program, in HLO text, such as "
            "jax.jit(step).lower(...).compile().as_text() gives.",
        ),
        click.option(
            "--devices",
            metavar="FILE",
            help="What jax.devices() printed on the slice: the devices that there are; chips may "
            "be missing.  [default: all, numbered as the machine does]",
        ),
        click.option(
            "--devices-per-chip",
            type=click.IntRange(1, 64),
            metavar="N",
            help="Devices that each node of the torus counts as, such as 4 logical cores of a "
            "Trainium2 chip; they share its links.  [default: 1, or as many as the mesh needs of "
            "those that the machine has]",
        ),
        click.option(
            "--compare",
            metavar="FILE",
            help="A layout of yours: numbers of devices in mesh shape, a printed mesh, or any "
            "format of mappings.",
        ),
        click.option(
            "--order",
            type=click.Choice(["in-turn", "overlap"]),
            default="in-turn",
            show_default=True,
            help="Whether collectives run one after another, or all at once.",
        ),
    )


# Forms of our own; every other one is a format of mappings.
_SUFFIXES = {".json": "json", ".npy": "npy", ".py": "python"}
_FORMS = (*_SUFFIXES.values(), "torch", "neuron")

Targets = list[tuple[str, str]]


def check_files(files: tuple[str, ...], output: Output, report: str | None) -> Targets:
    """Return form and path of each file; the form is empty where the suffix names it.

    Raises
    ------
    InputError
        If a file cannot be written or no form is known.
    UsageError
        If two files are one.
    """
    targets: Targets = []
    for text in files:
        form, equals, path = text.partition("=")
        if not equals:
            form, path = "", text
        form = form.strip() or _SUFFIXES.get(Path(path).suffix.lower(), "")
        if form not in _FORMS:
            _check_dialect(form, path)
        targets.append((form, path))
    paths = [path for _, path in targets]
    if len({*paths}) < len(paths):
        raise click.UsageError("--write names the same file twice")
    output.check({"--report": report}, also={f"--write {path}": path for path in paths})
    for path in paths:
        check_writable(path)
    return targets


def write_files(answer: MeshForecast, targets: Targets) -> dict[str, str]:
    """Write the best layout to each file, and return how each is used where it needs a word."""
    from toruscast.mapping.mesh.written import torch_program

    advice = {}
    for form, path in targets:
        if form == "json":
            write_text(answer.ids_as_json(), path)
        elif form == "python":
            write_text(answer.jax_program(), path)
        elif form == "torch":
            write_text(torch_program(answer.ids, answer.axes), path)
        elif form == "neuron":
            write_text(answer.rank_list(), path)
        elif form == "npy":
            _write_array(answer, path)
        else:
            from toruscast.mapping.formats import write_mapping

            advice[path] = write_mapping(
                answer.mapping, path, form or None, torus=answer.torus, shape=answer.axes.sizes
            )
    return advice


def _write_array(answer: MeshForecast, path: str) -> None:
    import numpy as np

    from toruscast.mapping.formats import atomic_path

    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.save(file, answer.ids, allow_pickle=False)


def _check_dialect(form: str, path: str) -> None:
    """Raise early what writing a mapping would raise."""
    from toruscast.mapping.formats.registry import dialect_to_write

    dialect_to_write("mapping", path, form or None)


_MOST_PLACES = 20
_STAGES = {"layouts": "Laying out", "simulations": "Simulating"}


@click.command("mesh")
@as_record(
    "traffic",
    Traffic,
    click.option("--torus", metavar="TORUS", help=options.TORUS_HELP),
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
    "--slices",
    "n_chips",
    type=click.IntRange(1, 65536),
    metavar="CHIPS",
    help="Instead of one slice: rank all that have so many chips, twisted or not, of the machine "
    "that --torus names, or of every accelerator.",
)
@click.option(
    "--placements",
    is_flag=True,
    help="List every place of a mesh that is smaller than the torus: the fastest first, of equal "
    "ones that which leaves the largest box free. --write writes the first.",
)
@click.option(
    "--write",
    "files",
    multiple=True,
    metavar="[FORM=]FILE",
    help="Write the best layout: numbers of the devices in mesh shape as .json, .npy or a JAX "
    "program (.py); torch=FILE, a program of PyTorch/XLA; neuron=FILE, the device of each rank on "
    "a line; or as any format of mappings, such as .map, vcoord=FILE or tt-rank-bindings=FILE. May "
    "be given several times.",
)
@options.working_options
@report_option
@options.output_record
def command(
    traffic: Traffic,
    step: Step,
    top: int,
    n_chips: int | None,
    placements: bool,
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
    toruscast mesh --compile step.hlo.txt --slices 128
    """  # noqa: D301
    from toruscast.mapping.formats import read_mapping
    from toruscast.mapping.formats.mappings.devices import read_devices
    from toruscast.training.mesh import mesh

    if (step.sends is None) == (step.hlo is None):
        raise click.UsageError("one of --traffic and --hlo is needed")
    if step.axes is None and step.hlo is None:
        raise click.UsageError("--traffic needs --axes")
    if n_chips is not None:
        given: dict[str, object] = {"--write": files, "--report": report, "--compare": step.compare}
        given |= {"--devices": step.devices, "--network": traffic.changes}
        given |= {"--placements": placements}
        if wrong := [option for option, value in given.items() if value]:
            raise click.UsageError(f"--slices takes no {wrong[0]}: it ranks several slices")
        _rank_slices(n_chips, traffic.torus, step, top, work, output)
        return
    if traffic.torus is None:
        raise click.UsageError("--torus is needed, or --slices")
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
    from toruscast.answers import mesh as answers

    places = _places(answer) if placements else []
    if places:
        answer = moved_to(answer, places[0])
    more = {"placements": [_as_row(answer, place) for place in places]} if placements else {}
    output.deliver(answers.answer(answer), report, more)
    advice = write_files(answer, targets)
    if output.for_people:
        _show_places(places, answer, output)
        for _, path in targets:
            how = f": {advice[path]}" if advice.get(path) else ""
            output.say(f"the best layout is in {path}{how}")
        if not targets:
            output.say("--write mesh.py writes the mesh for JAX.")


def _rank_slices(
    n_chips: int, machine: str | None, step: Step, top: int, work: Work, output: Output
) -> None:
    """Rank the slices of so many chips."""
    from toruscast.training.mesh import which_slice

    output.check()
    sends = step.sends or _program(step.hlo or "", output)
    with output.progress("Ranking slices") as move:
        found = which_slice(
            n_chips,
            step.axes,
            sends,
            () if machine is None else machine,
            overlap=step.order == "overlap",
            n_jobs=work.jobs,
            progress=move,
        )
    table = found.table
    output.write({"chips": n_chips, "ranking": records(table)}, table)
    if not output.for_people:
        return
    console = output.console()
    axes = found.answers[0].axes
    console.print(
        f"{axes}, what a step sends, on every slice of {n_chips} chips; the best layout on each. "
        "simulated: packet by packet; forecast: by the busiest link"
    )
    shown = new_table(
        "#", "slice", "twisted", "time", "how", "layout", left=("slice", "how", "layout")
    )
    for number, row in enumerate(records(table)[: max(top, 1)], 1):
        twisted = "yes" if row["twisted"] else ""
        cells = (row["slice"], twisted, seconds(row["time"]), row["how"], row["layout"])
        shown.add_row(str(number), *cells)
    print_table(shown, console, 6)
    if len(table) > top:
        console.print(f"{len(table) - top} more: --top {len(table)}.")
    console.print("Not every slice is sold everywhere. Times are of communication alone.")


def _places(answer: MeshForecast) -> list[MeshPlacement]:
    from toruscast.training.mesh.placements import placements

    return placements(answer)


def moved_to(answer: MeshForecast, place: MeshPlacement) -> MeshForecast:
    """Return the answer with the best layout at a place."""
    layout = next(each for each in answer.layouts if each.words == place.layout)
    others = tuple(each for each in answer.layouts if each is not layout)
    return replace(answer, layouts=(replace(layout, nodes=place.nodes), *others))


def _as_row(answer: MeshForecast, place: MeshPlacement) -> dict[str, Any]:
    return {
        "corner": place.corner,
        "time": place.time,
        "free_box": place.rest,
        "layout": place.layout,
        "ids": answer.devices.places(place.nodes),
        "nodes": place.nodes,
    }


def _show_places(places: list[MeshPlacement], answer: MeshForecast, output: Output) -> None:
    if not places:
        return
    console = output.console()
    console.print()
    console.print(f"{len(places)} places in {answer.torus}, times of the busiest link:")
    table = new_table("#", "from", "time", "free box", "layout", left=("from", "layout"))
    for number, place in enumerate(places[:_MOST_PLACES], 1):
        corner = f"({','.join(map(str, place.corner))})"
        rest = str(place.rest) if place.rest >= 0 else ""
        table.add_row(str(number), corner, seconds(place.time), rest, place.layout)
    print_table(table, console, 5)
    if len(places) > _MOST_PLACES:
        console.print(f"{len(places) - _MOST_PLACES} more: --json - lists all.")


def _devices_of(torus: Torus, step: Step, sends: str | HloStep) -> Torus:
    """Make a node of each device of a chip, where the mesh counts them."""
    from toruscast.mapping.mesh import parse_axes
    from toruscast.mapping.mesh.devices import chips_as_devices

    n = parse_axes(step.axes or "").n_tasks if isinstance(sends, str) else sends.n_devices
    return chips_as_devices(torus, n, step.devices_per_chip)


def _program(path: str, output: Output) -> HloStep:
    """Read a compiled program; say what of it is left out."""
    from toruscast.mapping.formats.graphs.hlo import read_hlo

    program = read_hlo(path)
    if program.left_out:
        names = ", ".join(program.left_out[:5])
        output.message(f"{path}: not counted, their sizes differ from run to run: {names}")
    return program
