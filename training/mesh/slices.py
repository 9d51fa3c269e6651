"""Which slice of so many chips runs a step fastest: every shape that its machine has."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

import pandas as pd

from toruscast.errors import InputError
from toruscast.mapping import Torus
from toruscast.mapping.formats.graphs.hlo import HloStep
from toruscast.mapping.machines import named, names
from toruscast.mapping.mesh import MeshAxes, MeshTraffic
from toruscast.mapping.strategies.placement import divisors
from toruscast.validation import whole_number

from .answer import MeshForecast
from .rank import MeshTooLargeError, mesh

ACCELERATORS = ("tpu", "trainium", "galaxy")
# Slices that are simulated, the fastest first.
_SIMULATED = 3


@dataclass(frozen=True, eq=False)
class RankedSlices:
    """Slices of so many chips, that on which a step communicates fastest first.

    Attributes
    ----------
    n_chips : int
    slices : tuple of str
        As `machine` takes them.
    answers : tuple of MeshForecast
        The layouts on each.
    """

    n_chips: int
    slices: tuple[str, ...]
    answers: tuple[MeshForecast, ...]

    @property
    def table(self) -> pd.DataFrame:
        """A row for each: ``slice``, ``twisted``, ``time`` (seconds), ``how``, ``layout``."""
        rows = [
            {
                "slice": text,
                "twisted": bool(answer.torus.twist),
                "time": answer.best.time,
                "how": answer.best.how,
                "layout": answer.best.words,
            }
            for text, answer in zip(self.slices, self.answers, strict=True)
        ]
        return pd.DataFrame(rows)


def shapes_of(name: str, n_chips: int) -> Iterator[tuple[str, Torus]]:
    """Give the slices of so many chips that a machine has, twisted or not.

    Sizes rise, as vendors write them. Where rings close at multiples of four, longer sizes are
    such multiples. Not every one is sold everywhere.

    Examples
    --------
    >>> [text for text, _ in shapes_of("tpu_v4", 32)]
    ['tpu_v4:2x2x8', 'tpu_v4:2x4x4']
    """
    machine = named(name)
    rules = machine.shapes
    step = rules.rings_if_multiples_of
    sizes = [n for n in divisors(n_chips) if not step or n <= step or n % step == 0]
    found = [
        shape
        for n in rules.dimensions
        for shape in combinations_with_replacement(sizes, n)
        if math.prod(shape) == n_chips
    ]
    # A slice is no thinner than it must be.
    thin = min((shape.count(1) for shape in found), default=0)
    found = [shape for shape in found if shape.count(1) == thin]
    if rules.only:
        found = [shape for shape in rules.only if math.prod(shape) == n_chips]
    for shape in found:
        text = f"{name}:{'x'.join(map(str, shape))}"
        try:
            torus = machine(shape)
        except InputError:
            continue
        yield text, torus
        if torus.twist:
            yield f"{text}:untwisted", machine(shape, twisted=False)


def which_slice(
    n_chips: int,
    axes: MeshAxes | Mapping[str, int] | str | None,
    traffic: Sequence[MeshTraffic] | MeshTraffic | HloStep | str,
    machines: str | Sequence[str] = (),
    *,
    overlap: bool = False,
    simulate: bool = True,
    n_jobs: int | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> RankedSlices:
    """Return the slices of so many chips, that on which a step communicates fastest first.

    Parameters
    ----------
    n_chips : int
    axes, traffic, overlap, n_jobs
        As of `mesh`.
    machines : str or sequence of str
        Their names; all accelerators if none is given.
    simulate : bool
        Whether the three fastest are simulated packet by packet; the others are forecast.
    progress : callable, optional
        Called with the slices done and all.

    Raises
    ------
    InputError
        If no machine has a slice of so many chips that holds the mesh.

    Examples
    --------
    >>> found = which_slice(8, {"x": 8}, "x:alltoall:8MB", "tpu_v4", simulate=False)
    >>> found.slices
    ('tpu_v4:2x2x2',)
    """
    n_chips = whole_number(n_chips, "number of chips", 1)
    asked = (machines,) if isinstance(machines, str) else tuple(machines)
    for name in asked:
        bare = re.split(r"[:\s]", name)[0]
        if bare != name:
            expected = f"the machine alone, {bare}"
            raise InputError("slice where a machine is meant", found=name, expected=expected)
    asked = asked or tuple(name for name in names() if name.startswith(ACCELERATORS))
    found = [pair for name in asked for pair in shapes_of(name, n_chips)]
    if not found:
        raise InputError(
            "no slice of so many chips",
            found=f"{n_chips} of {' or '.join(asked)}",
            expected="another",
        )
    tell = progress or (lambda done, total: None)
    answers: dict[str, MeshForecast] = {}
    refused: InputError | None = None
    for done, (text, torus) in enumerate(found, 1):
        try:
            answers[text] = mesh(
                torus, axes, traffic, overlap=overlap, top=1, simulate=0, n_jobs=n_jobs
            )
        except MeshTooLargeError as error:
            refused = error
        tell(done, len(found))
    if not answers and refused is not None:
        raise refused
    order = sorted(answers, key=lambda text: answers[text].best.time)
    torus_of = dict(found)
    for text in order[: _SIMULATED if simulate and not overlap else 0]:
        answers[text] = mesh(torus_of[text], axes, traffic, top=1, simulate=1, n_jobs=n_jobs)
    order = sorted(order, key=lambda text: answers[text].best.time)
    return RankedSlices(n_chips, tuple(order), tuple(answers[text] for text in order))
