"""What ``toruscast mesh`` is told of the model's step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import click

from ..records import F, with_options

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
