"""``toruscast mesh``: rank the layouts of a sharded model on a torus."""

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
from toruscast.cli.output import Output, write_text
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

_MAX_PLACEMENT_ROWS = 20


@dataclass(frozen=True)
class StepOptions(HloOptions):
    """The axes of the mesh, the collectives of a step, and the available devices."""

    GROUP: ClassVar = "Input"
    axes: str | None = option(
        "Axes of the mesh, the last axis varying fastest. With --hlo, the default is to infer "
        "them from the program's groups.",
        "NAME=SIZE,...",
    )
    traffic: str | None = option(
        "Collectives of a step: allreduce, allgather, reduce_scatter, alltoall, permute (each "
        "device sends to the next, the last to the first), pipeline (the last sends nothing) or "
        "exchange (with both neighbours). Give the size of the whole buffer. data+fsdp joins "
        "two axes. A suffix /ring, /two-way-ring or /bucket selects the algorithm. :12 after the "
        "size means 12 runs in a step.",
        "AXIS:COLLECTIVE:SIZE,...",
        needs=("axes",),
    )
    hlo: str | None = option(
        "HLO text of a compiled program to read the collectives from, such as the output of "
        "jax.jit(step).lower(...).compile().as_text().",
        "FILE",
        "--hlo",
        "--compile",
    )
    devices: str | None = option(
        "Output of print(jax.devices()) on the slice. Chips may be missing.  [default: all "
        "devices, in the machine's numbering]",
        "FILE",
        group="Machine",
        rare=True,
    )
    devices_per_chip: int | None = option(
        "Devices on each node of the torus, such as 4 logical cores of a Trainium2 chip. They "
        "share the node's links.  [default: 1, or more if the mesh needs them and the "
        "machine has them]",
        type=click.IntRange(1, 64),
        group="Machine",
        rare=True,
    )
    compare: str | None = option(
        "Your own layout, in any form that --write writes: device numbers in mesh shape, a "
        "program, a printed mesh, or a mapping format. FORM names the format.",
        "[FORM=]FILE",
    )
    order: Literal["in-turn", "overlap"] = option(
        "Whether collectives run one after another or at the same time.",
        default="in-turn",
        rare=True,
    )


@dataclass(frozen=True)
class MeshOptions:
    """What to rank and write."""

    top: int = option("Layouts to list.", default=5, type=click.IntRange(1, 100), group="Output")
    slices: int | None = option(
        "Rank all slices with this many chips, twisted and untwisted, of the machine given by "
        "--torus, or of every accelerator.",
        "CHIPS",
        type=click.IntRange(1, 65536),
        group="Machine",
    )
    placements: bool = option(
        "List every placement of a mesh that is smaller than the torus, sorted by time and then "
        "by the largest box that stays free. --write writes the first.",
        default=False,
        rare=True,
    )
    files: tuple[str, ...] = multi_option(
        "Write the best layout: device numbers in mesh shape as .json, .npy or a JAX program "
        "(.py); torch=FILE, a PyTorch/XLA program; neuron=FILE, the devices of the ranks on one "
        "line; or any mapping format, such as .map, vcoord=FILE or tt-rank-bindings=FILE.",
        "[FORM=]FILE",
        "--write",
        group="Output",
    )


# Output forms that only this command has. All others are mapping formats.
_SUFFIXES = {".json": "device-ids", ".npy": "npy", ".py": "python"}
_TEXTS: dict[str, Callable[[tc.MeshLayouts], str]] = {
    **dict.fromkeys(("json", "device-ids"), lambda answer: json.dumps(answer.ids.tolist()) + "\n"),
    "python": lambda answer: answer.jax_program(),
    "torch": lambda answer: answer.torch_program(),
    # A list of cores as AWS Neuron's tools accept it.
    "neuron": lambda answer: ",".join(map(str, answer.ids.ravel().tolist())) + "\n",
}

Targets = list[tuple[str, str]]


def parse_targets(files: Sequence[str], output: Output) -> Targets:
    """Return each file's form and path; an empty form means the mapping format of the suffix."""
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
    """Write the best layout to each file; return advice on how to use the files, by path."""
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
    machine: TorusOptions,
    step: StepOptions,
    options: MeshOptions,
    work: WorkerOptions,
    output: Output,
) -> None:
    """Rank the layouts of a sharded model on a torus.

    Each axis gets pieces of the torus's dimensions and walks them line by line, as a snake, in a
    loop or folded. Times are computed from the busiest links. The fastest layouts are simulated.

    \b
    toruscast mesh --torus tpu_v5p:4x4x8 --axes data=8,fsdp=4,tensor=4 \\
        --traffic tensor:allreduce:64MB,fsdp:allgather:32MB,data:allreduce:1GB
    toruscast mesh --torus tpu_v6e:16x16 --axes data=64,tensor=4 \\
        --traffic tensor:exchange:4MB,data:exchange:4MB --write mesh.py
    toruscast mesh --torus tpu_v5e:4x4 --hlo step.hlo.txt
    toruscast mesh --compile step.hlo.txt --slices 128
    """  # noqa: D301
    if (step.traffic is None) == (step.hlo is None):
        raise click.UsageError("give either --traffic or --hlo")
    if options.slices is None and machine.torus is None:
        raise click.UsageError("give either --torus or --slices")
    if options.slices is not None:
        _rank_slices(options.slices, machine, step, options, work, output)
        return
    targets = parse_targets(options.files, output)
    traffic = step.traffic or tc.read_hlo(step.hlo or "", **step.hlo_arguments)
    n_devices = mesh_traffic.resolve_traffic(traffic, step.axes)[0].n_tasks
    torus = mesh_devices.split_chips(load_torus(machine), n_devices, step.devices_per_chip)
    devices = None if step.devices is None else mesh_devices.read_devices(step.devices, torus)
    compare = None
    if step.compare is not None:
        compare = mesh_devices.read_layout(step.compare, torus, devices)
    with output.progress("Laying out") as progress:
        found = tc.mesh(
            torus,
            step.axes,
            traffic,
            devices=devices,
            compare=compare,
            overlap=step.order == "overlap",
            top=options.top,
            n_jobs=work.jobs,
            progress=progress,
        )
    placements = mesh_ranking.list_placements(found) if options.placements else []
    if placements:
        best = placements[0].layout
        others = (each for each in found.layouts if each.description != best.description)
        found = replace(found, layouts=(best, *others))
    answer = mesh_answer.answer(found)
    content: dict[str, Any] = {}
    if options.placements:
        content["placements"], table = _tabulate_placements(found, placements)
        section = answers.blocks.Section(table.title, [table])
        answer = replace(answer, sections=[*answer.sections, section])
    output.write_answer(answer, content)
    advice = write_files(found, targets)
    for _, path in targets:
        usage = f": {advice[path]}" if advice.get(path) else ""
        output.print_line(f"the best layout is in {path}{usage}")
    if not targets:
        output.print_line("--write mesh.py writes the mesh for JAX.")


def _rank_slices(
    n_chips: int,
    machine: TorusOptions,
    step: StepOptions,
    options: MeshOptions,
    work: WorkerOptions,
    output: Output,
) -> None:
    """Rank the slices with the requested number of chips and print the answer."""
    # These options apply to a single slice.
    names = ("devices", "devices_per_chip", "compare", "changes", "placements")
    refuse_options("cannot be used with --slices", *names, "files", "report", "figures")
    output.check()
    traffic = step.traffic or tc.read_hlo(step.hlo or "", **step.hlo_arguments)
    with output.progress("Ranking slices") as progress:
        found = mesh.which_slice(
            n_chips,
            step.axes,
            traffic,
            machines=machine.torus or (),
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
        f"{found.answers[0].axes} on every slice of {n_chips} chips, with the best layout on each.",
        "Some slices may not be for sale. Times include communication only, not computation.",
    ]
    text = f": {seconds(best['time'])} of communication per step; {best['layout']}"
    output.write_answer(
        answers.blocks.Answer(
            answers.blocks.Headline("Use ", best["slice"], text),
            notes=notes,
            table=Table(found.table, columns, best=0, top=options.top),
            content={"chips": n_chips, "ranking": records(found.table)},
            omitted=found.answers[0].problem.omitted,
        )
    )


def _tabulate_placements(
    found: tc.MeshLayouts, placements: Sequence[MeshPlacement]
) -> tuple[list[dict[str, Any]], Table]:
    """Return the placements for JSON, and their table."""
    rows: list[dict[str, Any]] = [
        {
            "corner": each.corner,
            "time": each.time,
            "free_box": each.free_box,
            "layout": each.layout.description,
            "ids": found.devices.index_nodes(each.layout.nodes),
            "nodes": each.layout.nodes,
        }
        for each in placements
    ]
    columns = [
        Column("at", "corner", "label", priority=0),
        Column("time", kind="seconds", priority=0),
        Column("free_box", kind="count"),
        Column("layout"),
    ]
    title = f"{len(rows)} placements in {found.torus}, times in closed form"
    labelled = [{**row, "at": f"({','.join(map(str, row['corner']))})"} for row in rows]
    return rows, Table(labelled, columns, title, top=_MAX_PLACEMENT_ROWS)
