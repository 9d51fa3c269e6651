"""What a compiled program sends, along the axes of the mesh where its groups are such."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from toruscast.errors import InputError

from ..hlo import HloCollective, HloStep
from .axes import MeshAxes
from .traffic import MeshTraffic, along


def hlo_traffic(
    step: HloStep, axes: MeshAxes | None = None
) -> tuple[MeshAxes, tuple[MeshTraffic, ...]]:
    """Return the mesh and the traffic of a program.

    Without axes the mesh is the coarsest in which all groups lie along axes, named m0, m1, ...; one
    axis of all devices if there is none.

    Raises
    ------
    InputError
        If the program sends nothing, or the axes have another number of devices.

    Examples
    --------
    >>> from toruscast.mapping.formats.hlo import parse_hlo
    >>> line = "a = f32[8] all-reduce(x), replica_groups={{0,2},{1,3}}"
    >>> axes, (sent,) = hlo_traffic(parse_hlo(line))
    >>> str(axes), sent.label, sent.axes
    ('m0=2,m1=2', 'a (m0)', ('m0',))
    """
    if not step.collectives:
        raise InputError("no collective in the HLO text", expected="such as all-reduce")
    if axes is None:
        sizes = _sizes(step)
        axes = MeshAxes(tuple(f"m{i}" for i in range(len(sizes))), sizes)
    elif axes.n_tasks != step.n_devices:
        expected = f"the {step.n_devices} devices of the program"
        raise InputError(
            "axes of another program", found=f"{axes}: {axes.n_tasks}", expected=expected
        )
    return axes, tuple(_sent(each, axes) for each in step.collectives)


def _sent(one: HloCollective, axes: MeshAxes) -> MeshTraffic:
    if one.kind == "permute":
        return _permute(one, axes)
    wanted = _key(one.groups)
    for n in range(1, len(axes.names) + 1):
        for names in combinations(axes.names, n):
            groups = along(np.arange(axes.n_tasks).reshape(axes.sizes), axes, names)
            if groups.shape == one.groups.shape and _key(groups) == wanted:
                name = f"{one.name} ({'+'.join(names)})"
                return MeshTraffic(one.kind, one.nbytes, names, times=one.times, name=name)
    name = f"{one.name} (groups)"
    return MeshTraffic(one.kind, one.nbytes, groups=one.groups, times=one.times, name=name)


def _permute(one: HloCollective, axes: MeshAxes) -> MeshTraffic:
    wanted = _pairs(one.groups)
    for name in axes.names:
        lines = along(np.arange(axes.n_tasks).reshape(axes.sizes), axes, (name,))
        onward = np.column_stack([lines[:, :-1].ravel(), lines[:, 1:].ravel()])
        closing = np.column_stack([lines[:, -1], lines[:, 0]])
        label = f"{one.name} ({name})"
        for kind, pairs in (("pipeline", onward), ("permute", np.concatenate([onward, closing]))):
            if pairs.shape == one.groups.shape and _pairs(pairs) == wanted:
                return MeshTraffic(kind, one.nbytes, (name,), times=one.times, name=label)
    return MeshTraffic(
        "permute", one.nbytes, pairs=one.groups, times=one.times, name=f"{one.name} (pairs)"
    )


def _key(groups: NDArray[np.int64]) -> bytes:
    """Groups whatever their order and that of their members."""
    inside = np.sort(groups, axis=1)
    return inside[np.argsort(inside[:, 0], kind="stable")].tobytes()


def _pairs(pairs: NDArray[np.int64]) -> bytes:
    return pairs[np.argsort(pairs[:, 0], kind="stable")].tobytes()


def _sizes(step: HloStep) -> tuple[int, ...]:
    """Sizes of the coarsest mesh in which all groups lie along axes."""
    bounds = {1, step.n_devices}
    for one in step.collectives:
        digits = [] if one.kind == "permute" else _digits(one.groups)
        for stride, size in digits or ():
            bounds |= {stride, stride * size}
    cuts = sorted(bounds)
    pairs = list(pairwise(cuts))
    if any(high % low for low, high in pairs):
        return (step.n_devices,)
    return tuple(high // low for low, high in reversed(pairs)) or (1,)


def _digits(groups: NDArray[np.int64]) -> list[tuple[int, int]] | None:
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
