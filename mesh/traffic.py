"""The axes of a mesh and the collectives of a step, from their short form or from HLO."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations, pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from toruscast.errors import InputError
from toruscast.mapping.collectives.schedules import find_collective
from toruscast.text import closest
from toruscast.typing import Ints
from toruscast.validation import (
    as_array,
    check_type,
    read_bytes,
    real_number,
    whole_array,
    whole_number,
    whole_sizes,
)

from .hlo import HloCollective, HloStep

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


@dataclass(frozen=True)
class MeshAxes:
    """Names and sizes of the axes of a logical mesh, the last one varying fastest."""

    names: tuple[str, ...]
    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        expected = 'names such as ("data", "tensor")'
        check_type(self.names, "names of axes", Iterable, expected)
        names = (self.names,) if isinstance(self.names, str) else tuple(self.names)
        sizes = whole_sizes(self.sizes, "sizes of the mesh")
        if not names or len(names) != len(sizes):
            raise InputError("bad mesh", found=f"{names} {sizes}", expected="one size per name")
        for name in names:
            if not isinstance(name, str) or _NAME.fullmatch(name) is None:
                raise InputError("bad axis name", found=repr(name), expected="a word")
        if len({*names}) < len(names):
            raise InputError("duplicate axis", found=", ".join(names), expected="each once")
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "sizes", sizes)

    @property
    def n_tasks(self) -> int:
        """Number of devices in the mesh."""
        return math.prod(self.sizes)

    def index(self, name: str) -> int:
        """Return the position of the axis with this name."""
        if name not in self.names:
            raise InputError("unknown axis", found=name, expected=closest(name, self.names))
        return self.names.index(name)

    def __str__(self) -> str:
        pairs = zip(self.names, self.sizes, strict=True)
        return ",".join(f"{name}={size}" for name, size in pairs)


def parse_axes(text: str) -> MeshAxes:
    """Parse axes such as ``data=8,fsdp=4,tensor=4``."""
    names, sizes = [], []
    for part in text.split(","):
        name, equals, size = (word.strip() for word in part.partition("="))
        if not equals or not re.fullmatch(r"[0-9]{1,9}", size) or int(size) < 1:
            raise InputError("bad axes", found=text, expected="axes such as data=8,fsdp=4,tensor=4")
        names.append(name)
        sizes.append(int(size))
    return MeshAxes(tuple(names), tuple(sizes))


# Collectives with ring algorithms, and how often the buffer goes around the ring.
RING_PASSES = {"allreduce": 2, "allgather": 1, "reduce_scatter": 1}
COLLECTIVES = (*RING_PASSES, "alltoall", "permute", "pipeline", "exchange")
ALGORITHMS = ("ring", "two-way-ring", "bucket")
TRAFFIC_FORM = "AXIS:COLLECTIVE:SIZE such as tensor:allreduce:64MB"
# Maximum bytes: more than any memory holds, but few enough that packet counts do not overflow.
_MAX_BYTES = 1e15
# Default bytes of each axis, large enough that bandwidth matters more than latency.
DEFAULT_BYTES = 64e6


@dataclass(frozen=True, eq=False)
class MeshTraffic:
    """A collective of a step, run by several groups of tasks at the same time.

    Parameters
    ----------
    collective : str
        ``allreduce``, ``allgather``, ``reduce_scatter`` or ``alltoall``; ``permute`` (each task
        sends to the next one, the last to the first), ``pipeline`` (the last sends nothing) or
        ``exchange`` (each task exchanges with both neighbours, the last with the first).
    nbytes : float
        Bytes of the whole buffer: the reduced vector, the gathered vector, or all that one task
        sends in an all-to-all. For the other collectives, the bytes of one message.
    axes : sequence of str
        Axes along which the groups lie. With several axes, each group spans all of them.
    groups : array-like of int, shape (n_groups, n), optional
        Instead of axes, the tasks of each group, numbered in C order of the mesh.
    pairs : array-like of int, shape (n_pairs, 2), optional
        Instead of axes, the source and destination of each message of a permute.
    algorithm : str
        ``ring``, ``two-way-ring`` or ``bucket`` (rings along all dimensions that a group spans, at
        the same time). If empty, the fastest of them.
    runs : int
        How often a step runs the collective.
    name : str
        Name in reports; by default, the axes and the collective.
    """

    collective: str
    nbytes: float
    axes: tuple[str, ...] = ()
    groups: Ints | None = None
    pairs: Ints | None = None
    algorithm: str = ""
    runs: int = 1
    name: str = ""

    def __post_init__(self) -> None:
        """Check the values and convert them to their standard forms."""
        kind = find_collective(str(self.collective))
        if kind not in COLLECTIVES:
            found, expected = self.collective, " or ".join(COLLECTIVES)
            raise InputError("unknown collective", found=found, expected=expected)
        algorithm = str(self.algorithm).replace("_", "-")
        if algorithm and (kind not in RING_PASSES or algorithm not in ALGORITHMS):
            expected = " or ".join(ALGORITHMS) if kind in RING_PASSES else "none"
            raise InputError(f"bad algorithm of {kind}", found=self.algorithm, expected=expected)
        check_type(self.axes, "axes", Iterable, "names of axes")
        object.__setattr__(self, "axes", tuple(self.axes))
        if bool(self.axes) + (self.groups is not None) + (self.pairs is not None) != 1:
            raise InputError("ambiguous traffic", expected="either axes, groups or pairs")
        if self.pairs is not None and kind != "permute":
            raise InputError("pairs need a permute", found=kind, expected="permute")
        real_number(self.nbytes, "nbytes", 0, _MAX_BYTES)
        whole_number(self.runs, "runs", 1)
        object.__setattr__(self, "collective", kind)
        object.__setattr__(self, "algorithm", algorithm)
        for field in ("groups", "pairs"):
            if getattr(self, field) is not None:
                object.__setattr__(self, field, _check_table(getattr(self, field), field))

    @property
    def label(self) -> str:
        """Name in reports."""
        return self.name or f"{'+'.join(self.axes) or 'groups'} {self.collective}"

    def check(self, axes: MeshAxes) -> None:
        """Raise `InputError` if an axis or a task is not in the mesh or is listed twice."""
        for name in self.axes:
            axes.index(name)
        if len({*self.axes}) < len(self.axes):
            raise InputError("duplicate axis", found="+".join(self.axes), expected="each once")
        table = self.groups if self.groups is not None else self.pairs
        if table is None:
            return
        if table.size and not 0 <= table.min() <= table.max() < axes.n_tasks:
            found = int(table.min() if table.min() < 0 else table.max())
            expected = f"0 to {axes.n_tasks - 1}"
            raise InputError(f"task of {self.label} out of range", found=found, expected=expected)
        columns = (table.ravel(),) if self.pairs is None else tuple(table.T)
        if any(np.unique(column).size < column.size for column in columns):
            raise InputError(f"duplicate task in {self.label}", expected="each once")

    def list_groups(self, axes: MeshAxes) -> Ints:
        """Return the tasks of each group in order, ``(n_groups, n)``."""
        table = self.groups if self.groups is not None else self.pairs
        if table is not None:
            return table
        return group_along_axes(axes, self.axes)


def group_along_axes(axes: MeshAxes, names: tuple[str, ...]) -> Ints:
    """Return the tasks of each group along some axes, ``(n_groups, n)``, last axis fastest."""
    mesh = np.arange(axes.n_tasks).reshape(axes.sizes)
    inner = [axes.index(name) for name in names]
    outer = [d for d in range(len(axes.sizes)) if d not in inner]
    size = math.prod(axes.sizes[d] for d in inner)
    return np.ascontiguousarray(mesh.transpose(*outer, *inner).reshape(-1, size))


def _check_table(values: ArrayLike, what: str) -> Ints:
    """Return groups or pairs as an array of integers, ``(n_rows, n)``."""
    expected = "rows of two tasks" if what == "pairs" else "rows with equally many tasks"
    rows = as_array(values, what, expected)
    if rows.ndim != 2 or (what == "pairs" and rows.shape[1] != 2):
        raise InputError(f"bad {what}", found=rows.shape, expected=expected)
    return whole_array(rows.ravel(), what).reshape(rows.shape)


def parse_traffic(text: str) -> tuple[MeshTraffic, ...]:
    """Parse traffic from its short form, ``AXIS:COLLECTIVE[/ALGORITHM]:SIZE[:RUNS],...``.

    With axes joined by ``+``, each group spans all of them.
    """
    return tuple(_parse_collective(part.strip()) for part in text.split(","))


def _parse_collective(text: str) -> MeshTraffic:
    """Parse a single ``AXIS:COLLECTIVE[/ALGORITHM]:SIZE[:RUNS]``."""
    words = [word.strip() for word in text.split(":")]
    if len(words) not in (3, 4) or not all(words):
        raise InputError("bad traffic", found=text, expected=TRAFFIC_FORM)
    kind, _, algorithm = words[1].partition("/")
    runs = words[3] if len(words) == 4 else "1"
    if not re.fullmatch(r"0*[1-9][0-9]{0,8}", runs):
        raise InputError(
            "bad traffic", found=text, expected=f"{TRAFFIC_FORM}, or :64MB:12 for 12 runs"
        )
    names = tuple(name.strip() for name in words[0].split("+"))
    return MeshTraffic(kind, read_bytes(words[2]), names, algorithm=algorithm, runs=int(runs))


def resolve_traffic(traffic: object, axes: object) -> tuple[MeshAxes, tuple[MeshTraffic, ...]]:
    """Return the axes and the collectives of a step, from any form that public functions accept.

    Axes may be None if an HLO program defines them. A size without a collective means an allreduce
    on a two-way ring. Without traffic, there is an allreduce of `DEFAULT_BYTES` along every axis.

    Examples
    --------
    >>> axes, sends = resolve_traffic({"tensor": "allgather:2MB"}, "data=8,tensor=4")
    >>> [(each.label, each.nbytes) for each in sends]
    [('tensor allgather', 2000000.0)]
    """
    sends: tuple[Any, ...] = ()
    if isinstance(traffic, HloStep):
        mesh_axes, sends = convert_hlo_step(traffic, None if axes is None else _as_axes(axes))
    else:
        mesh_axes = _as_axes(axes)
    if traffic is None:
        sends = tuple(_all_reduce_along(name, DEFAULT_BYTES) for name in mesh_axes.names)
    elif isinstance(traffic, str):
        sends = parse_traffic(traffic)
    elif isinstance(traffic, MeshTraffic):
        sends = (traffic,)
    elif isinstance(traffic, Mapping):
        sends = tuple(_parse_axis_value(str(name), value) for name, value in traffic.items())
    elif isinstance(traffic, Sequence):
        sends = tuple(traffic)
    if not sends or not all(isinstance(each, MeshTraffic) for each in sends):
        expected = "MeshTraffic, a mapping of axes, or a lowered or compiled function"
        raise InputError("bad traffic", found=repr(traffic), expected=expected)
    for each in sends:
        each.check(mesh_axes)
    return mesh_axes, sends


def _as_axes(axes: object) -> MeshAxes:
    """Return axes from text such as ``data=8,tensor=4``, a mapping of sizes, or `MeshAxes`."""
    if isinstance(axes, str):
        return parse_axes(axes)
    if isinstance(axes, Mapping):
        return MeshAxes(tuple(axes), tuple(axes.values()))
    if not isinstance(axes, MeshAxes):
        raise InputError("bad axes", found=repr(axes), expected='such as {"data": 8, "tensor": 4}')
    return axes


def _all_reduce_along(name: str, nbytes: float) -> MeshTraffic:
    return MeshTraffic("allreduce", nbytes, (name,), algorithm="two-way-ring")


def _parse_axis_value(name: str, value: Any) -> MeshTraffic:
    """Return the traffic of an axis from a MeshTraffic, bytes, or ``COLLECTIVE[:SIZE]``."""
    if isinstance(value, MeshTraffic):
        return value
    if not isinstance(value, str):
        return _all_reduce_along(name, value)
    word, _, size = value.partition(":")
    if find_collective(word.partition("/")[0]) not in COLLECTIVES:
        return _all_reduce_along(name, read_bytes(value))
    return _parse_collective(f"{name}:{word}:{size or f'{DEFAULT_BYTES:.0f}'}")


def convert_hlo_step(
    step: HloStep, axes: MeshAxes | None = None
) -> tuple[MeshAxes, tuple[MeshTraffic, ...]]:
    """Return the axes and the traffic of a program.

    If no axes are given, they are named m0, m1, ... and form the coarsest mesh in which all groups
    lie along axes. If there is no such mesh, one axis has all devices.
    """
    step.check()
    if axes is None:
        sizes = _infer_mesh_sizes(step)
        axes = MeshAxes(tuple(f"m{i}" for i in range(len(sizes))), sizes)
    elif axes.n_tasks != step.n_devices:
        expected = f"the {step.n_devices} devices of the program"
        raise InputError(
            "axes of another program", found=f"{axes}: {axes.n_tasks}", expected=expected
        )
    return axes, tuple(_match_axes(each, axes) for each in step.collectives)


def _match_axes(collective: HloCollective, axes: MeshAxes) -> MeshTraffic:
    """Return a collective along its axes, or with groups or pairs if no axes match."""
    build = partial(MeshTraffic, nbytes=collective.nbytes, runs=collective.runs)
    is_permute = collective.kind == "permute"
    sorted_groups = _sort_groups(collective.groups, is_permute)
    for kind, names, table in _list_axis_groups(collective.kind, axes):
        if np.array_equal(_sort_groups(table, is_permute), sorted_groups):
            return build(kind, axes=names, name=f"{collective.name} ({'+'.join(names)})")
    if is_permute:
        return build("permute", pairs=collective.groups, name=f"{collective.name} (pairs)")
    return build(collective.kind, groups=collective.groups, name=f"{collective.name} (groups)")


def _list_axis_groups(kind: str, axes: MeshAxes) -> Iterator[tuple[str, tuple[str, ...], Ints]]:
    """Yield all possible traffic of a kind along axes: collective, axis names, groups or pairs."""
    for n in range(1, 2 if kind == "permute" else len(axes.names) + 1):
        for names in combinations(axes.names, n):
            lines = group_along_axes(axes, names)
            if kind != "permute":
                yield kind, names, lines
                continue
            onward = np.column_stack([lines[:, :-1].ravel(), lines[:, 1:].ravel()])
            closing = np.column_stack([lines[:, -1], lines[:, 0]])
            yield "pipeline", names, onward
            yield "permute", names, np.concatenate([onward, closing])


def _sort_groups(groups: Ints, is_permute: bool) -> Ints:
    """Return groups in a canonical order; pairs keep their source and destination."""
    rows = groups if is_permute else np.sort(groups, axis=1)
    return rows[np.argsort(rows[:, 0], kind="stable")]


def _infer_mesh_sizes(step: HloStep) -> tuple[int, ...]:
    """Return the sizes of the coarsest mesh in which all groups lie along axes.

    A group of n devices of stride s lies along an axis if s and s n are products of the last sizes.
    """
    cuts = {1, step.n_devices}
    for one in step.collectives:
        for stride, size in () if one.kind == "permute" else _find_strides(one.groups):
            cuts |= {stride, stride * size}
    pairs = list(pairwise(sorted(cuts)))
    if any(high % low for low, high in pairs):
        return (step.n_devices,)
    return tuple(high // low for low, high in reversed(pairs)) or (1,)


def _find_strides(groups: Ints) -> list[tuple[int, int]]:
    """Return the stride and size of each dimension if all groups are shifted copies of one grid.

    The list is empty for other groups.
    """
    offsets = np.sort(groups, axis=1)
    offsets = offsets - offsets[:, :1]
    first = offsets[0]
    if (offsets != first).any():
        return []
    strides: list[tuple[int, int]] = []
    grid = np.zeros(1, dtype=np.int64)
    while grid.size < first.size:
        stride = int(first[grid.size])
        size = 1
        while grid.size * size < first.size and first[grid.size * size] == stride * size:
            size += 1
        strides.append((stride, size))
        grid = np.add.outer(stride * np.arange(size), grid).ravel()
        if grid.size > first.size or (np.sort(grid) != first[: grid.size]).any():
            return []
    return strides
