"""What a step of a sharded model sends along the axes of its mesh: in short form, or of HLO."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from toruscast.errors import InputError
from toruscast.mapping.collectives.schedules import find_collective
from toruscast.text import closest
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

_AXES_FORM = "axes such as data=8,fsdp=4,tensor=4"
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
            raise InputError("bad mesh", found=f"{names} {sizes}", expected="a size for each name")
        for name in names:
            if not isinstance(name, str) or _NAME.fullmatch(name) is None:
                raise InputError("bad name of an axis", found=repr(name), expected="a word")
        if len({*names}) < len(names):
            raise InputError("axis stands twice", found=", ".join(names), expected="each once")
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "sizes", sizes)

    @property
    def n_tasks(self) -> int:
        """Devices of the mesh."""
        return math.prod(self.sizes)

    def number(self, name: str) -> int:
        """Return which axis has a name."""
        if name not in self.names:
            raise InputError("unknown axis", found=name, expected=closest(name, self.names))
        return self.names.index(name)

    def __str__(self) -> str:
        pairs = zip(self.names, self.sizes, strict=True)
        return ",".join(f"{name}={size}" for name, size in pairs)


def parse_axes(text: str) -> MeshAxes:
    """Read axes from ``data=8,fsdp=4,tensor=4``."""
    names, sizes = [], []
    for part in text.split(","):
        name, equals, size = (word.strip() for word in part.partition("="))
        if not equals or not re.fullmatch(r"[0-9]{1,9}", size) or int(size) < 1:
            raise InputError("bad axes", found=text, expected=_AXES_FORM)
        names.append(name)
        sizes.append(int(size))
    return MeshAxes(tuple(names), tuple(sizes))


# Collectives that run in rounds, and how many halves of an allreduce they are.
PARTS = {"allreduce": 2, "allgather": 1, "reduce_scatter": 1}
COLLECTIVES = (*PARTS, "alltoall", "permute", "pipeline", "exchange")
ALGORITHMS = ("ring", "two-way-ring", "bucket")
FORM = "AXIS:COLLECTIVE:SIZE such as tensor:allreduce:64MB"
# More than any memory holds, and little enough for sums of packets.
_MAX_BYTES = 1e15
# Default bytes of each axis, large enough that links decide and not latencies.
USUAL_BYTES = 64e6


@dataclass(frozen=True, eq=False)
class MeshTraffic:
    """A collective that every group of a step runs.

    Parameters
    ----------
    collective : str
        ``allreduce``, ``allgather``, ``reduce_scatter`` or ``alltoall``; ``permute`` (each sends to
        the next round the axis), ``pipeline`` (the last one sends to none) or ``exchange`` (each
        with both neighbours round the axis).
    nbytes : float
        Size of the whole buffer: of the vector that is reduced, of the gathered one, of what each
        sends in an all-to-all, of one message of the others.
    axes : sequence of str
        Axes along which the groups lie; several make groups of their product.
    groups : array-like of int, shape (n_groups, n), optional
        Instead of axes: the tasks of each group, by their number in the mesh in C order.
    pairs : array-like of int, shape (n_pairs, 2), optional
        Instead of axes, for a permute: who sends to whom.
    algorithm : str
        ``ring``, ``two-way-ring`` or ``bucket`` (rings along all dimensions of the torus that a
        group spans, at once); whichever is fastest if empty.
    times : int
        How often a step runs it.
    """

    collective: str
    nbytes: float
    axes: tuple[str, ...] = ()
    groups: NDArray[np.int64] | None = None
    pairs: NDArray[np.int64] | None = None
    algorithm: str = ""
    times: int = 1
    name: str = ""  # for reports

    def __post_init__(self) -> None:
        kind = find_collective(str(self.collective))
        if kind not in COLLECTIVES:
            found, expected = self.collective, " or ".join(COLLECTIVES)
            raise InputError("unknown collective", found=found, expected=expected)
        algorithm = str(self.algorithm).replace("_", "-")
        if algorithm and (kind not in PARTS or algorithm not in ALGORITHMS):
            takes = " or ".join(ALGORITHMS) if kind in PARTS else "none"
            raise InputError(f"bad algorithm of {kind}", found=self.algorithm, expected=takes)
        check_type(self.axes, "axes", Iterable, "names of axes")
        object.__setattr__(self, "axes", tuple(self.axes))
        given = [bool(self.axes), self.groups is not None, self.pairs is not None]
        if sum(given) != 1:
            raise InputError("traffic without a place", expected="axes, groups or pairs")
        if self.pairs is not None and kind != "permute":
            raise InputError("pairs of a collective", found=kind, expected="permute")
        real_number(self.nbytes, "nbytes", 0, _MAX_BYTES)
        whole_number(self.times, "times", 1)
        object.__setattr__(self, "collective", kind)
        object.__setattr__(self, "algorithm", algorithm)
        for field in ("groups", "pairs"):
            if getattr(self, field) is not None:
                object.__setattr__(self, field, _checked_table(getattr(self, field), field))

    @property
    def label(self) -> str:
        """What it is called in reports."""
        where = "+".join(self.axes) or "groups"
        return self.name or f"{where} {self.collective}"

    def check(self, axes: MeshAxes) -> None:
        """Raise `InputError` if an axis or a task is not one of the mesh, or stands twice."""
        for name in self.axes:
            axes.number(name)
        if len({*self.axes}) < len(self.axes):
            raise InputError("axis stands twice", found="+".join(self.axes), expected="each once")
        table = self.groups if self.groups is not None else self.pairs
        if table is None:
            return
        if table.size and not 0 <= table.min() <= table.max() < axes.n_tasks:
            found = int(table.min() if table.min() < 0 else table.max())
            expected = f"0 to {axes.n_tasks - 1}"
            raise InputError(f"task of {self.label} out of range", found=found, expected=expected)
        columns = (table.ravel(),) if self.pairs is None else tuple(table.T)
        if any(np.unique(column).size < column.size for column in columns):
            raise InputError(f"task stands twice in {self.label}", expected="each once")

    def group_table(self, axes: MeshAxes) -> NDArray[np.int64]:
        """Return the tasks of each group in their order, ``(n_groups, n)``."""
        if self.groups is not None:
            return self.groups
        if self.pairs is not None:
            return self.pairs
        return groups_along(np.arange(axes.n_tasks).reshape(axes.sizes), axes, self.axes)


def groups_along(
    mesh: NDArray[np.int64], axes: MeshAxes, names: tuple[str, ...]
) -> NDArray[np.int64]:
    """Return the entries of a mesh by groups along some axes, the last one fastest."""
    last = [axes.number(name) for name in names]
    others = [d for d in range(len(axes.sizes)) if d not in last]
    size = int(np.prod([axes.sizes[d] for d in last]))
    return np.ascontiguousarray(mesh.transpose(*others, *last).reshape(-1, size))


def _checked_table(values: ArrayLike, what: str) -> NDArray[np.int64]:
    rows = as_array(values, what, "rows of as many tasks each")
    if rows.ndim != 2 or (what == "pairs" and rows.shape[1] != 2):
        raise InputError(f"bad {what}", found=rows.shape, expected="rows of as many tasks each")
    return whole_array(rows.ravel(), what).reshape(rows.shape)


def parse_traffic(text: str) -> tuple[MeshTraffic, ...]:
    """Read traffic from its short form, ``AXIS:COLLECTIVE[/ALGORITHM]:SIZE[:TIMES]``, by commas.

    Several axes joined by ``+`` mean groups of their product.
    """
    return tuple(_parse_one(part.strip()) for part in text.split(","))


def _parse_one(text: str) -> MeshTraffic:
    words = [word.strip() for word in text.split(":")]
    if len(words) not in (3, 4) or not all(words):
        raise InputError("bad traffic", found=text, expected=FORM)
    kind, _, algorithm = words[1].partition("/")
    times = words[3] if len(words) == 4 else "1"
    if not (times.isascii() and times.isdecimal() and 1 <= len(times) <= 9 and int(times)):
        raise InputError("bad traffic", found=text, expected=f"{FORM}, or :64MB:12 for 12 times")
    names = tuple(name.strip() for name in words[0].split("+"))
    return MeshTraffic(kind, read_bytes(words[2]), names, algorithm=algorithm, times=int(times))


def step_traffic(traffic: object, axes: object) -> tuple[MeshAxes, tuple[MeshTraffic, ...]]:
    """Return the mesh and what a step sends, from every form that users have.

    Axes are names and sizes, or None where an HLO program defines them. Bytes alone are
    all-reduced round a ring; if there is no traffic, every axis all-reduces as many.

    Examples
    --------
    >>> axes, sends = step_traffic({"tensor": "allgather:2MB"}, "data=8,tensor=4")
    >>> [(each.label, each.nbytes) for each in sends]
    [('tensor allgather', 2000000.0)]
    """
    sends: tuple[Any, ...] = ()
    if isinstance(traffic, HloStep):
        mesh, sends = hlo_traffic(traffic, None if axes is None else _as_axes(axes))
    else:
        mesh = _as_axes(axes)
    if traffic is None:
        sends = tuple(_ring_of(name, USUAL_BYTES) for name in mesh.names)
    elif isinstance(traffic, str):
        sends = parse_traffic(traffic)
    elif isinstance(traffic, MeshTraffic):
        sends = (traffic,)
    elif isinstance(traffic, Mapping):
        sends = tuple(_of_axis(str(name), value) for name, value in traffic.items())
    elif isinstance(traffic, Sequence):
        sends = tuple(traffic)
    if not sends or not all(isinstance(each, MeshTraffic) for each in sends):
        expected = "MeshTraffic, a mapping of axes, or a lowered or compiled function"
        raise InputError("bad traffic", found=repr(traffic), expected=expected)
    for each in sends:
        each.check(mesh)
    return mesh, sends


def _as_axes(axes: object) -> MeshAxes:
    if isinstance(axes, str):
        return parse_axes(axes)
    if isinstance(axes, Mapping):
        return MeshAxes(tuple(axes), tuple(axes.values()))
    if not isinstance(axes, MeshAxes):
        raise InputError("bad axes", found=repr(axes), expected='such as {"data": 8, "tensor": 4}')
    return axes


def _ring_of(name: str, nbytes: float) -> MeshTraffic:
    return MeshTraffic("allreduce", nbytes, (name,), algorithm="two-way-ring")


def _of_axis(name: str, value: Any) -> MeshTraffic:
    """What a mapping of axes has for one: MeshTraffic, bytes, ``COLLECTIVE`` or with its size."""
    if isinstance(value, MeshTraffic):
        return value
    if not isinstance(value, str):
        return _ring_of(name, value)
    word, _, size = value.partition(":")
    if find_collective(word.partition("/")[0]) not in COLLECTIVES:
        return _ring_of(name, read_bytes(value))
    (found,) = parse_traffic(f"{name}:{word}:{size or f'{USUAL_BYTES:.0f}'}")
    return found


def hlo_traffic(
    step: HloStep, axes: MeshAxes | None = None
) -> tuple[MeshAxes, tuple[MeshTraffic, ...]]:
    """Return the mesh and the traffic of a program.

    Without axes the mesh is the coarsest in which all groups lie along axes, named m0, m1, ...; one
    axis of all devices if there is none.
    """
    step.check()
    if axes is None:
        sizes = _mesh_sizes(step)
        axes = MeshAxes(tuple(f"m{i}" for i in range(len(sizes))), sizes)
    elif axes.n_tasks != step.n_devices:
        expected = f"the {step.n_devices} devices of the program"
        raise InputError(
            "axes of another program", found=f"{axes}: {axes.n_tasks}", expected=expected
        )
    return axes, tuple(_as_traffic(each, axes) for each in step.collectives)


def _as_traffic(one: HloCollective, axes: MeshAxes) -> MeshTraffic:
    """Return a collective along axes, or with its groups or pairs where none fit."""
    is_permute = one.kind == "permute"
    key = _pair_key if is_permute else _unordered_key
    for kind, names, groups in _along_axes(one.kind, axes):
        if groups.shape == one.groups.shape and key(groups) == key(one.groups):
            name = f"{one.name} ({'+'.join(names)})"
            return MeshTraffic(kind, one.nbytes, names, times=one.times, name=name)
    name = f"{one.name} ({'pairs' if is_permute else 'groups'})"
    if is_permute:
        return MeshTraffic(one.kind, one.nbytes, pairs=one.groups, times=one.times, name=name)
    return MeshTraffic(one.kind, one.nbytes, groups=one.groups, times=one.times, name=name)


def _along_axes(
    kind: str, axes: MeshAxes
) -> Iterator[tuple[str, tuple[str, ...], NDArray[np.int64]]]:
    """Give the groups of a collective along axes, or the pairs of a permute along one."""
    mesh = np.arange(axes.n_tasks).reshape(axes.sizes)
    for n in range(1, 2 if kind == "permute" else len(axes.names) + 1):
        for names in combinations(axes.names, n):
            lines = groups_along(mesh, axes, names)
            if kind != "permute":
                yield kind, names, lines
                continue
            onward = np.column_stack([lines[:, :-1].ravel(), lines[:, 1:].ravel()])
            closing = np.column_stack([lines[:, -1], lines[:, 0]])
            yield "pipeline", names, onward
            yield "permute", names, np.concatenate([onward, closing])


def _unordered_key(groups: NDArray[np.int64]) -> bytes:
    """Groups as bytes, in an order of their own and of their members."""
    return _pair_key(np.sort(groups, axis=1))


def _pair_key(pairs: NDArray[np.int64]) -> bytes:
    return pairs[np.argsort(pairs[:, 0], kind="stable")].tobytes()


def _mesh_sizes(step: HloStep) -> tuple[int, ...]:
    """Sizes of the coarsest mesh in which all groups lie along axes."""
    bounds = {1, step.n_devices}
    for one in step.collectives:
        digits = [] if one.kind == "permute" else _counting_digits(one.groups)
        for stride, size in digits or ():
            bounds |= {stride, stride * size}
    cuts = sorted(bounds)
    pairs = list(pairwise(cuts))
    if any(high % low for low, high in pairs):
        return (step.n_devices,)
    return tuple(high // low for low, high in reversed(pairs)) or (1,)


def _counting_digits(groups: NDArray[np.int64]) -> list[tuple[int, int]] | None:
    """Strides and sizes by which a group's numbers count; None if they do not count so."""
    apart = np.sort(groups, axis=1)
    apart = apart - apart[:, :1]
    first = apart[0]
    if (apart != first).any():
        return None
    digits: list[tuple[int, int]] = []
    known = np.zeros(1, dtype=np.int64)
    while known.size < first.size:
        stride = int(first[known.size])
        size = 1
        while known.size * size < first.size and first[known.size * size] == stride * size:
            size += 1
        digits.append((stride, size))
        known = np.add.outer(stride * np.arange(size), known).ravel()
        if known.size > first.size or (np.sort(known) != first[: known.size]).any():
            return None
    return digits
