"""``toruscast mesh``: the ways to lay the axes of a sharded model over a torus."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import click

import toruscast as tc
from toruscast import answers
from toruscast._slow import numpy as np
from toruscast.answers.table import Column, Table, records
from toruscast.cli.options import (
    HloOptions,
    TorusOptions,
    WorkerOptions,
    multi_option,
    option,
    refuse_options,
    sub_command,
)
from toruscast.cli.output import PageOutput, write_text
from toruscast.cli.problem import load_torus
from toruscast.cli.slow import (
    format_registry,
    mesh,
    mesh_answer,
    mesh_devices,
    mesh_ranking,
    mesh_traffic,
)
from toruscast.files import atomic_path, check_target
from toruscast.text import seconds

if TYPE_CHECKING:
    from toruscast._mesh.ranking import MeshPlacement

_MOST_PLACES = 20


@dataclass(frozen=True)
class Step(HloOptions):
    """The axes of the mesh, what a step sends along them, and the devices that there are."""

    GROUP: ClassVar = "Input"
    axes: str | None = option(
        "Axes of the mesh, the last one varying fastest; with --hlo those that the groups of the "
        "program show, if not given.",
        "NAME=SIZE,...",
    )
    sends: str | None = option(
        "What a step sends: allreduce, allgather, reduce_scatter, alltoall, permute (to "
        "the next round the axis), pipeline (the last one sends to none) or exchange (with "
        "both neighbours). The size is of the whole buffer. data+fsdp are both axes together; "
        "/ring, /two-way-ring or /bucket behind the collective fix the algorithm; :12 behind "
        "the size is how often a step runs it.",
        "AXIS:COLLECTIVE:SIZE,...",
        "--traffic",
        needs=("axes",),
    )
    hlo: str | None = option(
        "Instead: the collectives of a compiled program, in HLO text, such as "
        "jax.jit(step).lower(...).compile().as_text() gives.",
        "FILE",
        "--hlo",
        "--compile",
    )
    devices: str | None = option(
        "What jax.devices() printed on the slice: the devices that there are; chips may be "
        "missing.  [default: all, numbered as the machine does]",
        "FILE",
        group="Machine",
    )
    devices_per_chip: int | None = option(
        "Devices that each node of the torus counts as, such as 4 logical cores of a Trainium2 "
        "chip; they share its links.  [default: 1, or as many as the mesh needs of those that the "
        "machine has]",
        type=click.IntRange(1, 64),
        group="Machine",
    )
    compare: str | None = option(
        "A layout of yours in any form that --write writes: numbers of devices in mesh shape, a "
        "program, a printed mesh, or a format of mappings, whose name may stand before the file.",
        "[FORM=]FILE",
        group="Mappings",
    )
    order: Literal["in-turn", "overlap"] = option(
        "Whether collectives run one after another, or all at once.", default="in-turn"
    )


@dataclass(frozen=True)
class MeshRequest:
    """What is ranked and written."""

    top: int = option("Layouts to list.", default=5, type=click.IntRange(1, 100), group="Output")
    slices: int | None = option(
        "Instead of one slice: rank all that have so many chips, twisted or not, of the machine "
        "that --torus names, or of every accelerator.",
        "CHIPS",
        type=click.IntRange(1, 65536),
    )
    placements: bool = option(
        "List every place of a mesh that is smaller than the torus: the fastest first, of equal "
        "ones that which leaves the largest box free. --write writes the first.",
        default=False,
    )
    files: tuple[str, ...] = multi_option(
        "Write the best layout: numbers of the devices in mesh shape as .json, .npy or a JAX "
        "program (.py); torch=FILE, a program of PyTorch/XLA; neuron=FILE, the device of each rank "
        "on a line; or as any format of mappings, such as .map, vcoord=FILE or "
        "tt-rank-bindings=FILE.",
        "[FORM=]FILE",
        "--write",
        group="Output",
    )


# Forms of our own; every other one is a format of mappings.
_SUFFIXES = {".json": "device-ids", ".npy": "npy", ".py": "python"}
_TEXTS: dict[str, Callable[[tc.MeshLayouts], str]] = {
    **dict.fromkeys(("json", "device-ids"), lambda answer: json.dumps(answer.ids.tolist()) + "\n"),
    "python": lambda answer: answer.jax_program(),
    "torch": lambda answer: answer.torch_program(),
    # As AWS Neuron's tools list cores.
    "neuron": lambda answer: ",".join(map(str, answer.ids.ravel().tolist())) + "\n",
}

Targets = list[tuple[str, str]]


def check_files(files: Sequence[str], output: PageOutput) -> Targets:
    """Return form and path of each file; the form is empty where the suffix names it."""
    targets: Targets = []
    for text in files:
        form, equals, path = text.partition("=")
        if not equals:
            form, path = "", text
        form = form.strip() or _SUFFIXES.get(Path(path).suffix.lower(), "")
        if form not in (*_TEXTS, "npy"):
            format_registry.dialect_to_write("mapping", path, form or None)
        targets.append((form, path))
    paths = [path for _, path in targets]
    if len({*paths}) < len(paths):
        raise click.UsageError("--write names the same file twice")
    output.check(others={f"--write {path}": path for path in paths})
    for path in paths:
        check_target(path)
    return targets


def write_files(answer: tc.MeshLayouts, targets: Targets) -> dict[str, str]:
    """Write the best layout to each file, and return advice on how to use a file, by its path."""
    advice = {}
    for form, path in targets:
        if form in _TEXTS:
            write_text(_TEXTS[form](answer), path)
        elif form == "npy":
            with atomic_path(path) as temporary, temporary.open("wb") as file:
                np.save(file, answer.ids, allow_pickle=False)
        else:
            advice[path] = tc.write_mapping(
                answer.mapping, path, form or None, torus=answer.torus, shape=answer.axes.sizes
            )
    return advice


@sub_command("mesh")
def command(
    machine: TorusOptions, step: Step, asked: MeshRequest, work: WorkerOptions, output: PageOutput
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
    if (step.sends is None) == (step.hlo is None):
        raise click.UsageError("one of --traffic and --hlo is needed")
    if asked.slices is not None:
        _rank_slices(machine, step, asked, work, output)
    elif machine.torus is None:
        raise click.UsageError("--torus is needed, or --slices")
    else:
        _rank_layouts(machine, step, asked, work, output)


def _rank_layouts(
    machine: TorusOptions, step: Step, asked: MeshRequest, work: WorkerOptions, output: PageOutput
) -> None:
    """Rank the layouts on one slice, and write the best."""
    targets = check_files(asked.files, output)
    sends = step.sends or tc.read_hlo(step.hlo or "", **step.hlo_arguments)
    if isinstance(sends, str):
        n = mesh_traffic.parse_axes(step.axes or "").n_tasks
    else:
        n = sends.n_devices
    torus = mesh_devices.chips_as_devices(load_torus(machine), n, step.devices_per_chip)
    devices = None if step.devices is None else mesh_devices.read_devices(step.devices, torus)
    compare = (
        None if step.compare is None else mesh_devices.read_layout(step.compare, torus, devices)
    )
    with output.progress("Laying out") as progress:
        found = tc.mesh(
            torus,
            step.axes,
            sends,
            devices=devices,
            compare=compare,
            overlap=step.order == "overlap",
            top=asked.top,
            n_jobs=work.jobs,
            progress=progress,
        )
    places = mesh_ranking.placements(found) if asked.placements else []
    if places:
        best = places[0].layout
        others = (each for each in found.layouts if each.words != best.words)
        found = replace(found, layouts=(best, *others))
    shown = mesh_answer.answer(found)
    more: dict[str, Any] = {}
    if asked.placements:
        more["placements"] = _place_rows(found, places)
        table = _places(found, more["placements"])
        shown = replace(
            shown, sections=[*shown.sections, answers.blocks.Section(table.title, [table])]
        )
    output.write_answer(shown, more)
    advice = write_files(found, targets)
    for _, path in targets:
        how = f": {advice[path]}" if advice.get(path) else ""
        output.print_line(f"the best layout is in {path}{how}")
    if not targets:
        output.print_line("--write mesh.py writes the mesh for JAX.")


def _rank_slices(
    machine: TorusOptions, step: Step, asked: MeshRequest, work: WorkerOptions, output: PageOutput
) -> None:
    """Rank the slices of as many chips as the user asks for."""
    n_chips = asked.slices or 0
    one_slice = ("devices", "devices_per_chip", "compare", "changes", "placements")
    refuse_options("cannot be used with --slices", *one_slice, "files", "report", "figures")
    output.check()
    sends = step.sends or tc.read_hlo(step.hlo or "", **step.hlo_arguments)
    with output.progress("Ranking slices") as progress:
        found = mesh.which_slice(
            n_chips,
            step.axes,
            sends,
            () if machine.torus is None else machine.torus,
            overlap=step.order == "overlap",
            n_jobs=work.jobs,
            progress=progress,
        )
    columns = [
        Column("slice", kind="name"),
        Column("twisted", kind="flag"),
        Column("time", kind="seconds", priority=0),
        Column("source", "source"),
        Column("layout"),
    ]
    best = found.table.iloc[0]
    notes = [
        f"{found.answers[0].axes} on every slice of {n_chips} chips; the best layout on each.",
        "Not every slice is sold everywhere. Times are of communication alone.",
    ]
    text = f": {seconds(best['time'])} for what a step sends, with {best['layout']}"
    output.write_answer(
        answers.blocks.Answer(
            answers.blocks.Headline("Use ", best["slice"], text),
            notes=notes,
            table=Table(found.table, columns, best=0, top=asked.top),
            content={"chips": n_chips, "ranking": records(found.table)},
            omitted=found.answers[0].omitted,
        )
    )


def _place_rows(found: tc.MeshLayouts, places: Sequence[MeshPlacement]) -> list[dict[str, Any]]:
    """Return a row for each place of a mesh in the torus."""
    return [
        {
            "corner": place.corner,
            "time": place.time,
            "free_box": place.rest,
            "layout": place.layout.words,
            "ids": found.devices.places(place.layout.nodes),
            "nodes": place.layout.nodes,
        }
        for place in places
    ]


def _places(found: tc.MeshLayouts, rows: Sequence[dict[str, Any]]) -> Table:
    """Return the places of a mesh in the torus."""
    columns = [
        Column("at", "from", "label", priority=0),
        Column("time", kind="seconds", priority=0),
        Column("free_box", kind="count"),
        Column("layout"),
    ]
    title = f"{len(rows)} places in {found.torus}, times of the busiest link"
    shown = [{**row, "at": f"({','.join(map(str, row['corner']))})"} for row in rows]
    return Table(shown, columns, title, top=_MOST_PLACES)
